//! Fields of the events known by meaning, in the kernel's own `key=value` print.
//!
//! The raw form (`trace-cmd report -R`) differs little: no ` ==> ` and a `parent_` in forks.
//!
//! A task name may hold blanks, `=`, `==>` or even ` pid=7`. It is at most 15 bytes long, so its end is the *last*
//! place within 15 bytes where the next key stands. Text behind the last expected field is ignored: kernels append
//! fields (`group_dead=`, `vruntime=`) and drop them again.

use super::prefix::{comm, digits};
use super::state::{self, Letters};
use super::{Names, StatesSeen, plugin};
use crate::{Comm, EventKind, Pid, TaskRef};

/// Longest task name.
const NAME_MAX: usize = 15;

/// Reads the fields of an event: `None` if the event is known and its fields are not as they should be.
pub(super) fn parse(name: &[u8], fields: &[u8], names: &mut Names) -> Option<EventKind> {
    let mut at = Fields {
        rest: fields,
        cut: &mut names.cut,
    };
    match name {
        b"sched_switch" => {
            switch(&mut at, &mut names.states).or_else(|| plugin::switch(fields, names))
        }
        b"sched_waking" => wake(fields, names)
            .map(|(task, target_cpu)| EventKind::SchedWaking { task, target_cpu }),
        b"sched_wakeup" => wake(fields, names)
            .map(|(task, target_cpu)| EventKind::SchedWakeup { task, target_cpu }),
        b"sched_wakeup_new" => wake(fields, names)
            .map(|(task, target_cpu)| EventKind::SchedWakeupNew { task, target_cpu }),
        b"sched_migrate_task" => migrate(&mut at),
        b"sched_stat_runtime" => stat_runtime(&mut at),
        b"sched_process_fork" => fork(&mut at),
        b"sched_process_exec" => exec(fields),
        b"sched_process_exit" => exit(&mut at),
        _ => Some(EventKind::Other {
            name: String::from_utf8_lossy(name).into_owned(),
            fields: String::from_utf8_lossy(fields).into_owned(),
        }),
    }
}

fn switch(at: &mut Fields<'_>, states: &mut StatesSeen) -> Option<EventKind> {
    let prev_comm = at.name(b"prev_comm=", b" prev_pid=")?;
    let prev_pid = at.int()?;
    let prev_prio = at.key(b" prev_prio=")?.int()?;
    let state = at.key(b" prev_state=")?.word();
    let prev_state = state::parse(state, Letters::Kernel)?;
    let next_comm = match at.name(b" ==> next_comm=", b" next_pid=") {
        Some(name) => name,
        None => at.name(b" next_comm=", b" next_pid=")?,
    };
    let next_pid = at.int()?;
    let next_prio = at.key(b" next_prio=")?.int()?;
    at.boundary()?;
    states.note(state, Letters::Kernel);
    Some(EventKind::SchedSwitch {
        prev: TaskRef {
            comm: prev_comm,
            pid: prev_pid,
            prio: prev_prio,
        },
        prev_state,
        next: TaskRef {
            comm: next_comm,
            pid: next_pid,
            prio: next_prio,
        },
    })
}

/// The three wake events share a layout.
fn wake(fields: &[u8], names: &mut Names) -> Option<(TaskRef, u32)> {
    let mut at = Fields {
        rest: fields,
        cut: &mut names.cut,
    };
    wake_kernel(&mut at).or_else(|| plugin::wake(fields, names))
}

fn wake_kernel(at: &mut Fields<'_>) -> Option<(TaskRef, u32)> {
    let task = at.task()?;
    if at.key(b" success=").is_some() {
        at.int()?;
    }
    let target_cpu = at.key(b" target_cpu=")?.cpu()?;
    at.boundary()?;
    Some((task, target_cpu))
}

fn migrate(at: &mut Fields<'_>) -> Option<EventKind> {
    let task = at.task()?;
    let orig_cpu = at.key(b" orig_cpu=")?.cpu()?;
    let dest_cpu = at.key(b" dest_cpu=")?.cpu()?;
    at.boundary()?;
    Some(EventKind::SchedMigrateTask {
        task,
        orig_cpu,
        dest_cpu,
    })
}

fn stat_runtime(at: &mut Fields<'_>) -> Option<EventKind> {
    let comm = at.name(b"comm=", b" pid=")?;
    let pid = at.int()?;
    let runtime = at.key(b" runtime=")?.unsigned()?;
    at.boundary()?;
    Some(EventKind::SchedStatRuntime { comm, pid, runtime })
}

fn fork(at: &mut Fields<'_>) -> Option<EventKind> {
    let parent_comm = match at.name(b"comm=", b" pid=") {
        Some(name) => name,
        None => at.name(b"parent_comm=", b" parent_pid=")?,
    };
    let parent_pid = at.int()?;
    let child_comm = at.name(b" child_comm=", b" child_pid=")?;
    let child_pid = at.int()?;
    at.boundary()?;
    Some(EventKind::SchedProcessFork {
        parent_comm,
        parent_pid,
        child_comm,
        child_pid,
    })
}

/// The file name has no length limit and may hold anything, so this one is read from its end.
fn exec(fields: &[u8]) -> Option<EventKind> {
    let fields = fields.strip_prefix(b"filename=")?;
    let old_key = b" old_pid=";
    let old_at = memchr::memmem::rfind(fields, old_key)?;
    let key = b" pid=";
    let pid_at = memchr::memmem::rfind(&fields[..old_at], key)?;
    let mut cut = 0;
    let mut pid = Fields {
        rest: &fields[pid_at + key.len()..old_at],
        cut: &mut cut,
    };
    let pid = pid.int()?;
    let mut old = Fields {
        rest: &fields[old_at + old_key.len()..],
        cut: &mut cut,
    };
    let old_pid = old.int()?;
    old.boundary()?;
    Some(EventKind::SchedProcessExec {
        filename: String::from_utf8_lossy(&fields[..pid_at]).into_owned(),
        pid,
        old_pid,
    })
}

fn exit(at: &mut Fields<'_>) -> Option<EventKind> {
    let task = at.task()?;
    at.boundary()?;
    Some(EventKind::SchedProcessExit { task })
}

/// What is left of the fields.
struct Fields<'a> {
    rest: &'a [u8],
    /// Counts names that had to be cut.
    cut: &'a mut u64,
}

impl<'a> Fields<'a> {
    /// Takes a key that must stand here. Changes nothing if it does not.
    fn key(&mut self, key: &[u8]) -> Option<&mut Self> {
        self.rest = self.rest.strip_prefix(key)?;
        Some(self)
    }

    /// `comm=... pid=... prio=...`.
    fn task(&mut self) -> Option<TaskRef> {
        let comm = self.name(b"comm=", b" pid=")?;
        let pid = self.int()?;
        let prio = self.key(b" prio=")?.int()?;
        Some(TaskRef { comm, pid, prio })
    }

    /// A name between its key and the key behind it; takes both.
    fn name(&mut self, key: &[u8], next_key: &[u8]) -> Option<Comm> {
        let text = self.rest.strip_prefix(key)?;
        let window = &text[..text.len().min(NAME_MAX + next_key.len())];
        let end = match memchr::memmem::rfind(window, next_key) {
            Some(end) => end,
            // Longer than the kernel's names: not from a kernel, but readable.
            None => memchr::memmem::find(text, next_key)?,
        };
        self.rest = &text[end + next_key.len()..];
        Some(comm(&text[..end], self.cut))
    }

    /// A decimal number with an optional minus.
    fn int(&mut self) -> Option<i32> {
        let (negative, text) = match self.rest.strip_prefix(b"-") {
            Some(text) => (true, text),
            None => (false, self.rest),
        };
        let (value, len) = digits(text)?;
        self.rest = &text[len..];
        let value = i64::try_from(value?).ok()?;
        Pid::try_from(if negative { -value } else { value }).ok()
    }

    fn unsigned(&mut self) -> Option<u64> {
        let (value, len) = digits(self.rest)?;
        self.rest = &self.rest[len..];
        value
    }

    fn cpu(&mut self) -> Option<u32> {
        u32::try_from(self.unsigned()?).ok()
    }

    /// Up to the next blank.
    fn word(&mut self) -> &'a [u8] {
        let len = memchr::memchr(b' ', self.rest).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(len);
        self.rest = rest;
        word
    }

    /// The last number ends here and does not run into something else.
    fn boundary(&self) -> Option<()> {
        (self.rest.is_empty() || self.rest.starts_with(b" ")).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PrevState;

    fn read(name: &str, fields: &str) -> Option<EventKind> {
        parse(name.as_bytes(), fields.as_bytes(), &mut Names::default())
    }

    #[test]
    fn awkward_names() {
        for name in [
            "a b",
            "x: y",
            "==>",
            " ==> next_comm=",
            "> S",
            "<...>",
            "a pid=7",
            " prev_pid=1",
            "",
            "café",
            "kworker/0:1-eve",
        ] {
            let name: String = name.chars().take(15).collect();
            let fields = format!(
                "prev_comm={name} prev_pid=12 prev_prio=120 prev_state=S ==> next_comm={name} next_pid=0 next_prio=-1"
            );
            let task = |pid, prio| TaskRef {
                comm: Comm::new(&name),
                pid,
                prio,
            };
            let expected = EventKind::SchedSwitch {
                prev: task(12, 120),
                prev_state: PrevState::INTERRUPTIBLE,
                next: task(0, -1),
            };
            assert_eq!(read("sched_switch", &fields), Some(expected), "{fields}");
            let fields = format!("comm={name} pid=5 prio=120 target_cpu=003");
            let expected = EventKind::SchedWakeup {
                task: task(5, 120),
                target_cpu: 3,
            };
            assert_eq!(read("sched_wakeup", &fields), Some(expected), "{fields}");
        }
    }

    #[test]
    fn long_names_are_cut_and_counted() {
        let mut names = Names::default();
        let kind = parse(
            b"sched_stat_runtime",
            b"comm=a name of more than 15 bytes pid=5 runtime=1 [ns]",
            &mut names,
        );
        assert_eq!(names.cut, 1);
        let Some(EventKind::SchedStatRuntime { comm, pid: 5, .. }) = kind else {
            panic!("{kind:?}");
        };
        assert_eq!(comm.as_bytes(), b"a name of more ");
    }

    #[test]
    fn fields_that_come_and_go() {
        for (fields, runtime) in [
            ("comm=a pid=5 runtime=12 [ns]", 12),
            ("comm=a pid=5 runtime=12", 12),
            ("comm=a pid=5 runtime=12 [ns] vruntime=99 [ns]", 12),
            ("comm=a pid=5 runtime=18446744073709551615 [ns]", u64::MAX),
        ] {
            assert_eq!(
                read("sched_stat_runtime", fields),
                Some(EventKind::SchedStatRuntime {
                    comm: Comm::new("a"),
                    pid: 5,
                    runtime
                }),
                "{fields}"
            );
        }
        let raw = "prev_comm=a prev_pid=1 prev_prio=120 prev_state=32 next_comm=b next_pid=2 next_prio=120";
        assert!(matches!(
            read("sched_switch", raw),
            Some(EventKind::SchedSwitch { prev_state: PrevState::ZOMBIE, next, .. }) if next.pid == 2
        ));
        let raw = "parent_comm=a parent_pid=1 child_comm=b child_pid=2";
        assert!(matches!(
            read("sched_process_fork", raw),
            Some(EventKind::SchedProcessFork {
                parent_pid: 1,
                child_pid: 2,
                ..
            })
        ));
        let exit = "comm=a pid=5 prio=120 group_dead=true";
        assert!(matches!(
            read("sched_process_exit", exit),
            Some(EventKind::SchedProcessExit { task }) if task.pid == 5
        ));
        let old = "comm=a pid=5 prio=120 success=1 target_cpu=002";
        assert!(matches!(
            read("sched_wakeup_new", old),
            Some(EventKind::SchedWakeupNew { target_cpu: 2, .. })
        ));
        let exec = "filename=/tmp/a pid=1 old_pid=2 pid=3 old_pid=4";
        assert_eq!(
            read("sched_process_exec", exec),
            Some(EventKind::SchedProcessExec {
                filename: "/tmp/a pid=1 old_pid=2".to_owned(),
                pid: 3,
                old_pid: 4
            })
        );
    }

    #[test]
    fn wrong_fields_of_known_events() {
        for (name, fields) in [
            (
                "sched_switch",
                "prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==>",
            ),
            (
                "sched_switch",
                "prev_comm=a prev_pid=x prev_prio=120 prev_state=S ==> next_comm=b next_pid=1 next_prio=1",
            ),
            (
                "sched_switch",
                "prev_comm=a prev_pid=1 prev_prio=120 prev_state=Q ==> next_comm=b next_pid=1 next_prio=1",
            ),
            (
                "sched_switch",
                "prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=1 next_prio=1x",
            ),
            (
                "sched_wakeup",
                "comm=a pid=99999999999 prio=120 target_cpu=0",
            ),
            ("sched_stat_runtime", "comm=a pid=1 runtime=-5 [ns]"),
            (
                "sched_stat_runtime",
                "comm=a pid=1 runtime=99999999999999999999 [ns]",
            ),
            ("sched_process_fork", ""),
            ("sched_process_exec", "filename=x"),
            ("sched_migrate_task", "comm=a pid=1 prio=120 orig_cpu=1"),
        ] {
            assert_eq!(read(name, fields), None, "{name}: {fields}");
        }
    }
}
