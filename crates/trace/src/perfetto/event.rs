//! One `FtraceEvent`: its fields by name, whatever message carries them, and from these an [`Event`].

use std::borrow::Cow;

use super::schema as field;
use super::types::{FieldType, Types};
use super::wire::{Fields, Malformed, Value};
use crate::{Comm, CpuFlags, Event, EventKind, Pid, PrevState, TaskRef, UnparsedReason};

/// Longest task name.
const NAME_MAX: usize = 15;

/// What decoding carries from event to event.
#[derive(Default)]
pub(super) struct Decoder {
    pub(super) types: Types,
    /// The traced kernel numbers task states as before 4.14.
    pub(super) old_states: bool,
    pub(super) names_cut: u64,
    pub(super) states_seen: bool,
    pub(super) with_flags: u64,
}

/// Value of a named field.
#[derive(Clone, Copy, Debug)]
enum Arg<'a> {
    Signed(i64),
    Unsigned(u64),
    Text(&'a [u8]),
}

/// Fields of an event by name.
type Args<'a> = Vec<(Cow<'a, str>, Arg<'a>)>;

impl Decoder {
    /// Reads one `FtraceEvent` of a bundle.
    pub(super) fn event(&mut self, message: &[u8], cpu: u32) -> Result<Event, UnparsedReason> {
        let (mut ts, mut pid, mut flags, mut body) = (None, 0, None, None);
        for item in Fields::new(message) {
            match item.map_err(damaged)? {
                (field::EVENT_TIMESTAMP, value) => ts = value.number(),
                (field::EVENT_PID, value) => pid = value.number().unwrap_or_default(),
                (field::EVENT_COMMON_FLAGS, value) => flags = value.number(),
                (number, Value::Bytes(bytes)) => body = Some((number, bytes)),
                _ => {}
            }
        }
        let ts = ts.ok_or(UnparsedReason::Damaged("event without a time"))?;
        let (number, bytes) = body.ok_or(UnparsedReason::Damaged("event without content"))?;
        let (name, args) = named(&self.types, number, bytes).map_err(damaged)?;
        let kind = kind(&name, &args, self.old_states, &mut self.names_cut)?;
        self.states_seen |= matches!(kind, EventKind::SchedSwitch { .. });
        self.with_flags += u64::from(flags.is_some());
        Ok(Event {
            ts,
            cpu,
            // Perfetto's field is unsigned, the kernel's is not.
            pid: pid as u32 as Pid,
            comm: Comm::default(),
            flags: common_flags(flags.unwrap_or_default()),
            kind,
        })
    }
}

/// Name and fields of an event's message.
fn named<'a>(
    types: &'a Types,
    number: u32,
    bytes: &'a [u8],
) -> Result<(Cow<'a, str>, Args<'a>), Malformed> {
    if number == field::EVENT_GENERIC {
        return generic(bytes);
    }
    let known = types.get(number);
    let mut args = Vec::with_capacity(8);
    for item in Fields::new(bytes) {
        let (number, value) = item?;
        let (kind, name) = match known.and_then(|known| known.field(number)) {
            Some((kind, name)) => (kind, name.into()),
            None => (FieldType::Unsigned, format!("field_{number}").into()),
        };
        let arg = match (value.number(), kind) {
            (None, _) => Arg::Text(value.bytes()),
            (Some(number), FieldType::Signed) => Arg::Signed(number as i64),
            (Some(number), FieldType::Zigzag) => {
                Arg::Signed((number >> 1) as i64 ^ -((number & 1) as i64))
            }
            (Some(number), _) => Arg::Unsigned(number),
        };
        args.push((name, arg));
    }
    let name = match known {
        Some(known) => known.name.as_str().into(),
        None => format!("event_{number}").into(),
    };
    Ok((name, args))
}

fn kind(
    name: &str,
    args: &Args<'_>,
    old_states: bool,
    names_cut: &mut u64,
) -> Result<EventKind, UnparsedReason> {
    let Some(known) = EventKind::KNOWN.iter().find(|&&known| known == name) else {
        return Ok(other(name, args));
    };
    let mut at = Reader { args, names_cut };
    let kind = match *known {
        "sched_switch" => at.switch(old_states),
        "sched_waking" => at
            .wake()
            .map(|(task, target_cpu)| EventKind::SchedWaking { task, target_cpu }),
        "sched_wakeup" => at
            .wake()
            .map(|(task, target_cpu)| EventKind::SchedWakeup { task, target_cpu }),
        "sched_wakeup_new" => at
            .wake()
            .map(|(task, target_cpu)| EventKind::SchedWakeupNew { task, target_cpu }),
        "sched_migrate_task" => at.migrate(),
        "sched_stat_runtime" => at.stat_runtime(),
        "sched_process_fork" => at.fork(),
        "sched_process_exec" => at.exec(),
        _ => at.exit(),
    };
    kind.ok_or(UnparsedReason::Fields(known))
}

fn damaged(Malformed(what): Malformed) -> UnparsedReason {
    UnparsedReason::Damaged(what)
}

/// Fields of the `GenericFtraceEvent`, which names them itself.
fn generic(bytes: &[u8]) -> Result<(Cow<'_, str>, Args<'_>), Malformed> {
    let (mut name, mut args) = (Cow::Borrowed(""), Vec::new());
    for item in Fields::new(bytes) {
        match item? {
            (field::GENERIC_NAME, Value::Bytes(text)) => name = String::from_utf8_lossy(text),
            (field::GENERIC_FIELD, value) => {
                let (mut key, mut arg) = (Cow::Borrowed(""), Arg::Text(b""));
                for item in Fields::new(value.bytes()) {
                    match item? {
                        (field::GENERIC_FIELD_NAME, Value::Bytes(text)) => {
                            key = String::from_utf8_lossy(text);
                        }
                        (field::GENERIC_FIELD_STR, value) => arg = Arg::Text(value.bytes()),
                        (field::GENERIC_FIELD_INT, value) => {
                            arg = Arg::Signed(value.number().unwrap_or_default() as i64);
                        }
                        (field::GENERIC_FIELD_UINT, value) => {
                            arg = Arg::Unsigned(value.number().unwrap_or_default());
                        }
                        _ => {}
                    }
                }
                args.push((key, arg));
            }
            _ => {}
        }
    }
    Ok((name, args))
}

/// An event without a meaning of its own here: fields as `name=value`.
fn other(name: &str, args: &Args<'_>) -> EventKind {
    // `print` is what tracefs calls tracing_mark_write; Perfetto keeps its line feed.
    if name == "print"
        && let Some((_, Arg::Text(text))) = args.iter().find(|(key, _)| key == "buf")
    {
        return EventKind::Other {
            name: "tracing_mark_write".to_owned(),
            fields: String::from_utf8_lossy(text.strip_suffix(b"\n").unwrap_or(text)).into_owned(),
        };
    }
    // The writer of this crate puts the fields' text into one argument.
    if let [(key, Arg::Text(text))] = &args[..]
        && key == "fields"
    {
        return EventKind::Other {
            name: name.to_owned(),
            fields: String::from_utf8_lossy(text).into_owned(),
        };
    }
    let mut fields = String::new();
    for (key, arg) in args {
        if !fields.is_empty() {
            fields.push(' ');
        }
        fields += &match arg {
            Arg::Signed(value) => format!("{key}={value}"),
            Arg::Unsigned(value) => format!("{key}={value}"),
            Arg::Text(text) => format!("{key}={}", String::from_utf8_lossy(text)),
        };
    }
    EventKind::Other {
        name: name.to_owned(),
        fields,
    }
}

const TASK: [&str; 3] = ["comm", "pid", "prio"];

/// Takes the fields of a known event; `None` if one is missing or out of range.
struct Reader<'a, 'b> {
    args: &'b Args<'a>,
    names_cut: &'b mut u64,
}

impl<'a> Reader<'a, '_> {
    fn arg(&self, key: &str) -> Option<Arg<'a>> {
        self.args
            .iter()
            .find(|(name, _)| name == key)
            .map(|&(_, arg)| arg)
    }

    fn text(&self, key: &str) -> Option<&'a [u8]> {
        match self.arg(key)? {
            Arg::Text(text) => Some(text),
            _ => None,
        }
    }

    fn comm(&mut self, key: &str) -> Option<Comm> {
        let text = self.text(key)?;
        Some(comm(text, self.names_cut))
    }

    fn number(&self, key: &str) -> Option<i64> {
        match self.arg(key)? {
            Arg::Signed(value) => Some(value),
            Arg::Unsigned(value) => i64::try_from(value).ok(),
            Arg::Text(_) => None,
        }
    }

    fn int(&self, key: &str) -> Option<i32> {
        i32::try_from(self.number(key)?).ok()
    }

    fn cpu(&self, key: &str) -> Option<u32> {
        u32::try_from(self.number(key)?).ok()
    }

    fn task(&mut self, [comm, pid, prio]: [&str; 3]) -> Option<TaskRef> {
        Some(TaskRef {
            comm: self.comm(comm)?,
            pid: self.int(pid)?,
            prio: self.int(prio)?,
        })
    }

    fn switch(&mut self, old_states: bool) -> Option<EventKind> {
        Some(EventKind::SchedSwitch {
            prev: self.task(["prev_comm", "prev_pid", "prev_prio"])?,
            prev_state: prev_state(self.number("prev_state")?, old_states),
            next: self.task(["next_comm", "next_pid", "next_prio"])?,
        })
    }

    fn wake(&mut self) -> Option<(TaskRef, u32)> {
        Some((self.task(TASK)?, self.cpu("target_cpu")?))
    }

    fn migrate(&mut self) -> Option<EventKind> {
        Some(EventKind::SchedMigrateTask {
            task: self.task(TASK)?,
            orig_cpu: self.cpu("orig_cpu")?,
            dest_cpu: self.cpu("dest_cpu")?,
        })
    }

    fn stat_runtime(&mut self) -> Option<EventKind> {
        let runtime = match self.arg("runtime")? {
            Arg::Unsigned(value) => value,
            Arg::Signed(value) => u64::try_from(value).ok()?,
            Arg::Text(_) => return None,
        };
        Some(EventKind::SchedStatRuntime {
            comm: self.comm("comm")?,
            pid: self.int("pid")?,
            runtime,
        })
    }

    fn fork(&mut self) -> Option<EventKind> {
        Some(EventKind::SchedProcessFork {
            parent_comm: self.comm("parent_comm")?,
            parent_pid: self.int("parent_pid")?,
            child_comm: self.comm("child_comm")?,
            child_pid: self.int("child_pid")?,
        })
    }

    fn exec(&mut self) -> Option<EventKind> {
        Some(EventKind::SchedProcessExec {
            filename: String::from_utf8_lossy(self.text("filename")?).into_owned(),
            pid: self.int("pid")?,
            old_pid: self.int("old_pid")?,
        })
    }

    fn exit(&mut self) -> Option<EventKind> {
        let task = self.task(TASK)?;
        Some(EventKind::SchedProcessExit { task })
    }
}

/// A task name; notes if it was longer than the kernel allows.
pub(super) fn comm(text: &[u8], names_cut: &mut u64) -> Comm {
    *names_cut += u64::from(text.len() > NAME_MAX);
    Comm::from_bytes(text)
}

/// The bits of `prev_state`.
///
/// From 4.14 on they are those of [`PrevState`], anything above 0xff means preempted. Before, `include/linux/sched.h` had
/// 0x40 dead, 0x80 wakekill, 0x100 waking, 0x200 parked, 0x400 noload, and the bit for preempted at 0x800 (to 4.7) or
/// 0x1000; 0x800 was a new task afterwards, which never leaves a CPU.
pub(super) fn prev_state(raw: i64, old: bool) -> PrevState {
    let raw = raw as u32;
    if !old {
        let preempted = if raw > 0xff {
            PrevState::PREEMPTED.0
        } else {
            0
        };
        return PrevState(raw & 0xff | preempted);
    }
    let mut bits = raw & 0x3f;
    if raw & 0x40 != 0 {
        bits |= PrevState::DEAD.0;
    }
    if raw & 0x200 != 0 {
        bits |= 0x40;
    }
    if bits == 0 && raw & 0x580 != 0 {
        // A qualifier alone: surely not running, kind of sleep unknown.
        bits = PrevState::UNINTERRUPTIBLE.0;
    }
    if raw & 0x1800 != 0 {
        bits |= PrevState::PREEMPTED.0;
    }
    PrevState(bits)
}

/// The kernel's `common_flags` byte (`enum trace_flag_type`); bit 1 is the lazy request from 6.13 on.
pub(super) fn common_flags(flags: u64) -> CpuFlags {
    CpuFlags {
        irqs_off: flags & 0x81 != 0,
        need_resched: flags & 0x04 != 0,
        need_resched_lazy: flags & 0x02 != 0,
        hardirq: flags & 0x08 != 0,
        softirq: flags & 0x10 != 0,
        preempt_depth: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_old_and_new() {
        for (raw, new, old) in [
            (0, 0, 0),
            (1, 1, 1),
            (0x100, 0x100, 2),
            (0x40, 0x40, 0x10),
            (0x82, 0x82, 2),
            (0x200, 0x100, 0x40),
            (0x402, 0x102, 2),
            (0x1000, 0x100, 0x100),
            (0x800, 0x100, 0x100),
        ] {
            assert_eq!(prev_state(raw, false).0, new, "{raw:#x}");
            assert_eq!(prev_state(raw, true).0, old, "{raw:#x} before 4.14");
        }
    }
}
