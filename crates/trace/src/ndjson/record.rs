//! The objects of the lines, for both directions.

use serde::{Deserialize, Serialize};

use crate::ftrace::parse_kernel_state;
use crate::{Comm, CpuFlags, Event, EventKind, Pid, PrevState, TaskRef};

/// First line.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Header {
    pub(super) schema: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kernel_release: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) clock: Option<String>,
}

/// Last line.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Trailer {
    pub(super) end: End,
}

#[derive(Serialize, Deserialize, Debug, Default)]
pub(super) struct End {
    pub(super) events: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) lost: Vec<Lost>,
}

/// What the source lost on a CPU.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Lost {
    pub(super) cpu: u32,
    pub(super) events: u64,
    /// Losses of unknown size.
    pub(super) unknown: u64,
}

/// A line in between.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Record {
    ts: u64,
    cpu: u32,
    pid: Pid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    comm: Option<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    flags: Option<Flags>,
    event: String,
    fields: Fields,
}

/// A task name: text, or bytes that are no UTF-8.
#[derive(Serialize, Deserialize, Debug)]
#[serde(untagged)]
enum Name {
    Text(String),
    Bytes(Vec<u8>),
}

/// `prev_state`: letters, or the bits as a number.
#[derive(Serialize, Deserialize, Debug)]
#[serde(untagged)]
enum State {
    Letters(String),
    Bits(u32),
}

#[derive(Serialize, Deserialize, Debug, Default)]
#[serde(default, deny_unknown_fields)]
struct Flags {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    irqs_off: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    need_resched: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    need_resched_lazy: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    hardirq: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    softirq: bool,
    #[serde(skip_serializing_if = "is_zero")]
    preempt_depth: u8,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(depth: &u8) -> bool {
    *depth == 0
}

/// Fields of an event: by name for those known by meaning, as text for all others.
#[derive(Serialize, Deserialize, Debug)]
#[serde(untagged)]
enum Fields {
    Text(String),
    Known(Box<Known>),
}

macro_rules! known_fields {
    ($($name:ident: $type:ty,)*) => {
        /// Fields of all known events under the kernel's names.
        #[derive(Serialize, Deserialize, Debug, Default)]
        #[serde(default)]
        struct Known {
            $(
                #[serde(skip_serializing_if = "Option::is_none")]
                $name: Option<$type>,
            )*
        }
    };
}

known_fields! {
    prev_comm: Name,
    prev_pid: Pid,
    prev_prio: i32,
    prev_state: State,
    next_comm: Name,
    next_pid: Pid,
    next_prio: i32,
    comm: Name,
    pid: Pid,
    prio: i32,
    target_cpu: u32,
    orig_cpu: u32,
    dest_cpu: u32,
    runtime: u64,
    parent_comm: Name,
    parent_pid: Pid,
    child_comm: Name,
    child_pid: Pid,
    filename: String,
    old_pid: Pid,
}

impl Record {
    pub(super) fn new(event: &Event) -> Self {
        Self {
            ts: event.ts,
            cpu: event.cpu,
            pid: event.pid,
            comm: (!event.comm.is_empty()).then(|| name(event.comm)),
            flags: (event.flags != CpuFlags::default()).then_some(Flags {
                irqs_off: event.flags.irqs_off,
                need_resched: event.flags.need_resched,
                need_resched_lazy: event.flags.need_resched_lazy,
                hardirq: event.flags.hardirq,
                softirq: event.flags.softirq,
                preempt_depth: event.flags.preempt_depth,
            }),
            event: event.kind.name().to_owned(),
            fields: fields(&event.kind),
        }
    }

    pub(super) fn cpu(&self) -> u32 {
        self.cpu
    }

    pub(super) fn has_flags(&self) -> bool {
        self.flags.is_some()
    }

    /// Whether `prev_state` is there, and whether as a number.
    pub(super) fn state_is_number(&self) -> Option<bool> {
        match &self.fields {
            Fields::Known(known) => known
                .prev_state
                .as_ref()
                .map(|state| matches!(state, State::Bits(_))),
            Fields::Text(_) => None,
        }
    }

    /// The event; `Err` with the name of a known one whose fields are not complete.
    pub(super) fn event(self, names_cut: &mut u64) -> Result<Event, &'static str> {
        let flags = self.flags.unwrap_or_default();
        let kind = match self.fields {
            Fields::Text(fields) => EventKind::Other {
                name: self.event,
                fields,
            },
            Fields::Known(known) => {
                let name = EventKind::KNOWN.iter().find(|name| **name == self.event);
                // The fields of an unknown event are one text.
                let name = *name.ok_or("an event")?;
                kind(name, *known, names_cut).ok_or(name)?
            }
        };
        Ok(Event {
            ts: self.ts,
            cpu: self.cpu,
            pid: self.pid,
            comm: self
                .comm
                .map_or_else(Comm::default, |n| comm(&n, names_cut)),
            flags: CpuFlags {
                irqs_off: flags.irqs_off,
                need_resched: flags.need_resched,
                need_resched_lazy: flags.need_resched_lazy,
                hardirq: flags.hardirq,
                softirq: flags.softirq,
                preempt_depth: flags.preempt_depth,
            },
            kind,
        })
    }
}

fn name(comm: Comm) -> Name {
    match std::str::from_utf8(comm.as_bytes()) {
        Ok(text) => Name::Text(text.to_owned()),
        Err(_) => Name::Bytes(comm.as_bytes().to_vec()),
    }
}

fn comm(name: &Name, names_cut: &mut u64) -> Comm {
    let bytes = match name {
        Name::Text(text) => text.as_bytes(),
        Name::Bytes(bytes) => bytes,
    };
    *names_cut += u64::from(bytes.len() > 15);
    Comm::from_bytes(bytes)
}

/// Letters where they say all; numbers for bits that have none.
fn state(state: PrevState) -> State {
    let letters = state.to_string();
    match parse_kernel_state(letters.as_bytes()) {
        Some(back) if back == state => State::Letters(letters),
        _ => State::Bits(state.0),
    }
}

fn task(task: &TaskRef) -> Known {
    Known {
        comm: Some(name(task.comm)),
        pid: Some(task.pid),
        prio: Some(task.prio),
        ..Known::default()
    }
}

fn fields(kind: &EventKind) -> Fields {
    let known = match kind {
        EventKind::SchedSwitch {
            prev,
            prev_state,
            next,
        } => Known {
            prev_comm: Some(name(prev.comm)),
            prev_pid: Some(prev.pid),
            prev_prio: Some(prev.prio),
            prev_state: Some(state(*prev_state)),
            next_comm: Some(name(next.comm)),
            next_pid: Some(next.pid),
            next_prio: Some(next.prio),
            ..Known::default()
        },
        EventKind::SchedWaking {
            task: t,
            target_cpu,
        }
        | EventKind::SchedWakeup {
            task: t,
            target_cpu,
        }
        | EventKind::SchedWakeupNew {
            task: t,
            target_cpu,
        } => Known {
            target_cpu: Some(*target_cpu),
            ..task(t)
        },
        EventKind::SchedMigrateTask {
            task: t,
            orig_cpu,
            dest_cpu,
        } => Known {
            orig_cpu: Some(*orig_cpu),
            dest_cpu: Some(*dest_cpu),
            ..task(t)
        },
        EventKind::SchedStatRuntime { comm, pid, runtime } => Known {
            comm: Some(name(*comm)),
            pid: Some(*pid),
            runtime: Some(*runtime),
            ..Known::default()
        },
        EventKind::SchedProcessFork {
            parent_comm,
            parent_pid,
            child_comm,
            child_pid,
        } => Known {
            parent_comm: Some(name(*parent_comm)),
            parent_pid: Some(*parent_pid),
            child_comm: Some(name(*child_comm)),
            child_pid: Some(*child_pid),
            ..Known::default()
        },
        EventKind::SchedProcessExec {
            filename,
            pid,
            old_pid,
        } => Known {
            filename: Some(filename.clone()),
            pid: Some(*pid),
            old_pid: Some(*old_pid),
            ..Known::default()
        },
        EventKind::SchedProcessExit { task: t } => task(t),
        EventKind::Other { fields, .. } => return Fields::Text(fields.clone()),
    };
    Fields::Known(Box::new(known))
}

fn kind(event: &str, known: Known, names_cut: &mut u64) -> Option<EventKind> {
    let mut name = |n: Option<Name>| Some(comm(&n?, names_cut));
    Some(match event {
        "sched_switch" => EventKind::SchedSwitch {
            prev: TaskRef {
                comm: name(known.prev_comm)?,
                pid: known.prev_pid?,
                prio: known.prev_prio?,
            },
            prev_state: match known.prev_state? {
                State::Letters(letters) => parse_kernel_state(letters.as_bytes())?,
                State::Bits(bits) => PrevState(bits),
            },
            next: TaskRef {
                comm: name(known.next_comm)?,
                pid: known.next_pid?,
                prio: known.next_prio?,
            },
        },
        "sched_stat_runtime" => EventKind::SchedStatRuntime {
            comm: name(known.comm)?,
            pid: known.pid?,
            runtime: known.runtime?,
        },
        "sched_process_fork" => EventKind::SchedProcessFork {
            parent_comm: name(known.parent_comm)?,
            parent_pid: known.parent_pid?,
            child_comm: name(known.child_comm)?,
            child_pid: known.child_pid?,
        },
        "sched_process_exec" => EventKind::SchedProcessExec {
            filename: known.filename?,
            pid: known.pid?,
            old_pid: known.old_pid?,
        },
        _ => {
            let task = TaskRef {
                comm: name(known.comm)?,
                pid: known.pid?,
                prio: known.prio?,
            };
            match event {
                "sched_migrate_task" => EventKind::SchedMigrateTask {
                    task,
                    orig_cpu: known.orig_cpu?,
                    dest_cpu: known.dest_cpu?,
                },
                "sched_process_exit" => EventKind::SchedProcessExit { task },
                "sched_waking" => EventKind::SchedWaking {
                    task,
                    target_cpu: known.target_cpu?,
                },
                "sched_wakeup" => EventKind::SchedWakeup {
                    task,
                    target_cpu: known.target_cpu?,
                },
                "sched_wakeup_new" => EventKind::SchedWakeupNew {
                    task,
                    target_cpu: known.target_cpu?,
                },
                _ => return None,
            }
        }
    })
}
