//! The tracepoints that the writer knows: their `format` descriptions and their payloads, from one table.
//!
//! Names, types and print formats are those of kernel 6.12 (`include/trace/events/sched.h`).

use crate::{Comm, CpuFlags, Event, EventKind, Pid};

/// A field of a payload.
#[derive(Clone, Copy)]
enum Kind {
    /// `char name[16]`.
    Comm,
    /// `pid_t` or `int`.
    Int(&'static str),
    /// `long`, 8 bytes.
    Long,
    U64,
    /// `__data_loc char[]`: place and length, the text stands behind the fields.
    Text,
}

struct Tracepoint {
    id: u16,
    fields: &'static [(Kind, &'static str)],
    print: &'static str,
}

const PID: Kind = Kind::Int("pid_t");
const INT: Kind = Kind::Int("int");

const TASK_PRINT: &str =
    r#""comm=%s pid=%d prio=%d target_cpu=%03d", REC->comm, REC->pid, REC->prio, REC->target_cpu"#;
const WAKE: &[(Kind, &str)] = &[
    (Kind::Comm, "comm"),
    (PID, "pid"),
    (INT, "prio"),
    (INT, "target_cpu"),
];

/// In the order of [`EventKind::KNOWN`]. The numbers are any; a kernel hands them out when it starts.
const TRACEPOINTS: [Tracepoint; EventKind::KNOWN.len()] = [
    Tracepoint {
        id: 316,
        fields: &[
            (Kind::Comm, "prev_comm"),
            (PID, "prev_pid"),
            (INT, "prev_prio"),
            (Kind::Long, "prev_state"),
            (Kind::Comm, "next_comm"),
            (PID, "next_pid"),
            (INT, "next_prio"),
        ],
        print: concat!(
            r#""prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d", "#,
            r#"REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & 0xff) ? "#,
            r#"__print_flags(REC->prev_state & 0xff, "|", { 0x01, "S" }, { 0x02, "D" }, { 0x04, "T" }, { 0x08, "t" }, "#,
            r#"{ 0x10, "X" }, { 0x20, "Z" }, { 0x40, "P" }, { 0x80, "I" }) : "R", REC->prev_state & 0x100 ? "+" : "", "#,
            r#"REC->next_comm, REC->next_pid, REC->next_prio"#
        ),
    },
    Tracepoint {
        id: 319,
        fields: WAKE,
        print: TASK_PRINT,
    },
    Tracepoint {
        id: 318,
        fields: WAKE,
        print: TASK_PRINT,
    },
    Tracepoint {
        id: 317,
        fields: WAKE,
        print: TASK_PRINT,
    },
    Tracepoint {
        id: 315,
        fields: &[
            (Kind::Comm, "comm"),
            (PID, "pid"),
            (INT, "prio"),
            (INT, "orig_cpu"),
            (INT, "dest_cpu"),
        ],
        print: r#""comm=%s pid=%d prio=%d orig_cpu=%d dest_cpu=%d", REC->comm, REC->pid, REC->prio, REC->orig_cpu, REC->dest_cpu"#,
    },
    Tracepoint {
        id: 308,
        fields: &[(Kind::Comm, "comm"), (PID, "pid"), (Kind::U64, "runtime")],
        print: r#""comm=%s pid=%d runtime=%Lu [ns]", REC->comm, REC->pid, (unsigned long long)REC->runtime"#,
    },
    Tracepoint {
        id: 311,
        fields: &[
            (Kind::Comm, "parent_comm"),
            (PID, "parent_pid"),
            (Kind::Comm, "child_comm"),
            (PID, "child_pid"),
        ],
        print: r#""comm=%s pid=%d child_comm=%s child_pid=%d", REC->parent_comm, REC->parent_pid, REC->child_comm, REC->child_pid"#,
    },
    Tracepoint {
        id: 310,
        fields: &[(Kind::Text, "filename"), (PID, "pid"), (PID, "old_pid")],
        print: r#""filename=%s pid=%d old_pid=%d", __get_str(filename), REC->pid, REC->old_pid"#,
    },
    Tracepoint {
        id: 314,
        fields: &[(Kind::Comm, "comm"), (PID, "pid"), (INT, "prio")],
        print: r#""comm=%s pid=%d prio=%d", REC->comm, REC->pid, REC->prio"#,
    },
];

/// Bytes of the fields that all events share.
const COMMON_BYTES: usize = 8;

const COMMON_FIELDS: &str = "\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
";

impl Kind {
    fn size(self) -> usize {
        match self {
            Self::Comm => 16,
            Self::Int(_) | Self::Text => 4,
            Self::Long | Self::U64 => 8,
        }
    }
}

/// Offsets of fields: each at a multiple of its size, names at one of 4.
fn offsets(fields: &'static [(Kind, &str)]) -> impl Iterator<Item = (usize, Kind, &'static str)> {
    let mut at = COMMON_BYTES;
    fields.iter().map(move |&(kind, name)| {
        let size = kind.size();
        let from = at.next_multiple_of(size.min(8).min(if size == 16 { 4 } else { 8 }));
        at = from + size;
        (from, kind, name)
    })
}

/// Number of a known event's tracepoint.
pub(super) fn id(index: usize) -> u16 {
    TRACEPOINTS.get(index).map_or(0, |tracepoint| tracepoint.id)
}

/// The `format` text of a known event.
pub(super) fn format(index: usize) -> String {
    let Some((tracepoint, event)) = TRACEPOINTS.get(index).zip(EventKind::KNOWN.get(index)) else {
        return String::new();
    };
    let mut out = format!(
        "name: {event}\nID: {}\nformat:\n{COMMON_FIELDS}\n",
        tracepoint.id
    );
    for (offset, kind, name) in offsets(tracepoint.fields) {
        let (declared, signed) = match kind {
            Kind::Comm => (format!("char {name}[16]"), 0),
            Kind::Int(of) => (format!("{of} {name}"), 1),
            Kind::Long => (format!("long {name}"), 1),
            Kind::U64 => (format!("u64 {name}"), 0),
            Kind::Text => (format!("__data_loc char[] {name}"), 0),
        };
        let size = kind.size();
        out += &format!("\tfield:{declared};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
    }
    out + "\nprint fmt: " + tracepoint.print + "\n"
}

/// A value for a field.
enum Value<'a> {
    Comm(Comm),
    Number(i64),
    Text(&'a str),
}

/// Appends the payload of an event; `false`, and nothing, if it is none of the known ones.
pub(super) fn payload(event: &Event, out: &mut Vec<u8>) -> bool {
    let Some(index) = event.kind.known_index() else {
        return false;
    };
    let Some(tracepoint) = TRACEPOINTS.get(index) else {
        return false;
    };
    let start = out.len();
    common(tracepoint.id, event, out);
    let mut values = values(&event.kind).into_iter();
    let end = offsets(tracepoint.fields)
        .map(|(offset, kind, _)| offset + kind.size())
        .max();
    let mut texts: Vec<u8> = Vec::new();
    for (offset, kind, _) in offsets(tracepoint.fields) {
        out.resize(start + offset, 0);
        match (kind, values.next().flatten()) {
            (Kind::Comm, Some(Value::Comm(comm))) => out.extend_from_slice(comm.as_bytes()),
            (Kind::Text, Some(Value::Text(text))) => {
                // Offset and length have 16 bits, and a record has to fit into 64 KiB.
                let mut cut = text.len().min(4095);
                while !text.is_char_boundary(cut) {
                    cut -= 1;
                }
                let place = end.unwrap_or(0) + texts.len();
                let location = (place as u32) | ((cut as u32 + 1) << 16);
                out.extend_from_slice(&location.to_le_bytes());
                texts.extend_from_slice(text.as_bytes().get(..cut).unwrap_or_default());
                texts.push(0);
            }
            (Kind::Int(_), Some(Value::Number(n))) => {
                out.extend_from_slice(&(n as i32).to_le_bytes());
            }
            (_, Some(Value::Number(n))) => out.extend_from_slice(&n.to_le_bytes()),
            _ => {}
        }
        out.resize(start + offset + kind.size(), 0);
    }
    out.extend_from_slice(&texts);
    true
}

/// `common_type`, `common_flags` (`enum trace_flag_type`), `common_preempt_count`, `common_pid`.
fn common(id: u16, event: &Event, out: &mut Vec<u8>) {
    let CpuFlags {
        irqs_off,
        need_resched,
        need_resched_lazy,
        hardirq,
        softirq,
        preempt_depth,
    } = event.flags;
    let flags = [
        (irqs_off, 0x01),
        (need_resched_lazy, 0x02),
        (need_resched, 0x04),
        (hardirq, 0x08),
        (softirq, 0x10),
    ];
    let flags = flags
        .iter()
        .filter(|(set, _)| *set)
        .map(|(_, bit)| bit)
        .sum::<u8>();
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&[flags, preempt_depth & 0xf]);
    out.extend_from_slice(&event.pid.to_le_bytes());
}

/// The values of an event's fields, in the order of the table.
fn values(kind: &EventKind) -> [Option<Value<'_>>; 7] {
    let comm = |comm: Comm| Some(Value::Comm(comm));
    let pid = |pid: Pid| Some(Value::Number(pid.into()));
    let cpu = |cpu: u32| Some(Value::Number(cpu.into()));
    match kind {
        EventKind::SchedSwitch {
            prev,
            prev_state,
            next,
        } => [
            comm(prev.comm),
            pid(prev.pid),
            pid(prev.prio),
            cpu(prev_state.0),
            comm(next.comm),
            pid(next.pid),
            pid(next.prio),
        ],
        EventKind::SchedWaking { task, target_cpu }
        | EventKind::SchedWakeup { task, target_cpu }
        | EventKind::SchedWakeupNew { task, target_cpu } => [
            comm(task.comm),
            pid(task.pid),
            pid(task.prio),
            cpu(*target_cpu),
            None,
            None,
            None,
        ],
        EventKind::SchedMigrateTask {
            task,
            orig_cpu,
            dest_cpu,
        } => [
            comm(task.comm),
            pid(task.pid),
            pid(task.prio),
            cpu(*orig_cpu),
            cpu(*dest_cpu),
            None,
            None,
        ],
        EventKind::SchedStatRuntime {
            comm: name,
            pid: task,
            runtime,
        } => [
            comm(*name),
            pid(*task),
            Some(Value::Number(runtime.cast_signed())),
            None,
            None,
            None,
            None,
        ],
        EventKind::SchedProcessFork {
            parent_comm,
            parent_pid,
            child_comm,
            child_pid,
        } => [
            comm(*parent_comm),
            pid(*parent_pid),
            comm(*child_comm),
            pid(*child_pid),
            None,
            None,
            None,
        ],
        EventKind::SchedProcessExec {
            filename,
            pid: new,
            old_pid,
        } => [
            Some(Value::Text(filename)),
            pid(*new),
            pid(*old_pid),
            None,
            None,
            None,
            None,
        ],
        EventKind::SchedProcessExit { task } => [
            comm(task.comm),
            pid(task.pid),
            pid(task.prio),
            None,
            None,
            None,
            None,
        ],
        EventKind::Other { .. } => [const { None }; 7],
    }
}
