//! What only some traces tell, beside the history: requests to reschedule, interrupts, locks, affinity.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_trace::{Event, EventKind, Pid};

/// What is known of a task beside its history.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskFacts {
    /// CPUs that it was seen on.
    pub(super) seen: BTreeSet<u32>,
    /// CPUs that it may use, where the trace tells.
    pub(super) allowed: Option<BTreeSet<u32>>,
    /// It waits for a lock; the holder, where the trace tells.
    pub(super) lock: Option<Option<Pid>>,
    /// An interrupt on the way to the CPU that it is woken to.
    pub(super) ipi: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct CpuFacts {
    /// A reschedule is asked for since then.
    pending: Option<u64>,
    /// Task whose wakeup was called for last on this CPU.
    waking: Option<Pid>,
}

/// Facts of all tasks and CPUs.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    tasks: BTreeMap<Pid, TaskFacts>,
    cpus: BTreeMap<u32, CpuFacts>,
    /// The trace shows requests to reschedule.
    pub(super) flags: bool,
    /// The trace shows where tasks may run.
    pub(super) affinity: bool,
}

impl Facts {
    pub(super) fn task(&self, pid: Pid) -> Option<&TaskFacts> {
        self.tasks.get(&pid)
    }

    /// Whether a reschedule is asked for on a CPU.
    pub(super) fn pending(&self, cpu: u32) -> bool {
        self.cpus.get(&cpu).is_some_and(|c| c.pending.is_some())
    }

    /// Sets what replayed rules say of a request, in traces that do not show it.
    pub(super) fn infer_pending(&mut self, cpu: u32, ts: u64, pending: bool) {
        if !self.flags {
            let cpu = self.cpus.entry(cpu).or_default();
            cpu.pending = pending.then(|| cpu.pending.unwrap_or(ts));
        }
    }

    /// Takes an event in, before the history does.
    pub(super) fn step(&mut self, e: &Event) {
        let asked = e.flags.need_resched || e.flags.need_resched_lazy;
        self.flags |= asked;
        let flags = self.flags;
        let cpu = self.cpus.entry(e.cpu).or_default();
        if asked {
            cpu.pending.get_or_insert(e.ts);
        } else if flags {
            cpu.pending = None;
        }
        match &e.kind {
            EventKind::SchedSwitch { prev, next, .. } => {
                cpu.pending = None;
                for pid in [prev.pid, next.pid].into_iter().filter(|&p| p != 0) {
                    let task = self.tasks.entry(pid).or_default();
                    task.seen.insert(e.cpu);
                    task.ipi = None;
                }
            }
            EventKind::SchedWaking { task, .. } => cpu.waking = Some(task.pid),
            EventKind::Other { name, fields } => self.other(e, name, fields),
            _ => {}
        }
    }

    fn other(&mut self, e: &Event, name: &str, fields: &str) {
        match name {
            "sched_set_need_resched" | "sched_set_need_resched_tp" => {
                if let Some(cpu) = number(fields, "cpu").and_then(|c| u32::try_from(c).ok()) {
                    self.flags = true;
                    let cpu = self.cpus.entry(cpu).or_default();
                    cpu.pending.get_or_insert(e.ts);
                }
            }
            "ipi_send_cpu" | "ipi_raise" => {
                let called = self.cpus.get_mut(&e.cpu).and_then(|c| c.waking.take());
                if let Some(pid) = called {
                    self.tasks.entry(pid).or_default().ipi = Some(e.ts);
                }
            }
            "contention_begin" if e.pid != 0 => {
                let owner = number(fields, "owner").and_then(|p| Pid::try_from(p).ok());
                let owner = owner.filter(|&p| p != 0);
                self.tasks.entry(e.pid).or_default().lock = Some(owner);
            }
            "contention_end" if e.pid != 0 => {
                self.tasks.entry(e.pid).or_default().lock = None;
            }
            "task_cpus" => {
                let pid = number(fields, "pid").and_then(|p| Pid::try_from(p).ok());
                if let (Some(pid), Some(cpus)) = (pid, word(fields, "cpus").and_then(cpu_list)) {
                    self.affinity = true;
                    self.tasks.entry(pid).or_default().allowed = Some(cpus);
                }
            }
            _ => {}
        }
    }
}

fn word<'a>(fields: &'a str, key: &str) -> Option<&'a str> {
    fields
        .split_ascii_whitespace()
        .find_map(|w| w.strip_prefix(key)?.strip_prefix('='))
}

fn number(fields: &str, key: &str) -> Option<i64> {
    word(fields, key)?.parse().ok()
}

/// `0-3,8`; `None` for anything else, and beyond the 8192 CPUs that a kernel can have.
fn cpu_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut out = BTreeSet::new();
    for range in text.split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        if to > 8191 {
            return None;
        }
        out.extend(from..=to);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        let list = |t| cpu_list(t).map(|s| s.into_iter().collect::<Vec<_>>());
        assert_eq!(list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(list("0-4000000000"), None);
        assert_eq!(list(""), None);
    }
}
