//! Clocks of CPUs that differ, seen by what cannot be: a wakeup that arrives before it was called for.
//!
//! The kernel calls for a wakeup (`sched_waking`) on the waker's CPU and puts the task on a queue (`sched_wakeup`) on that or
//! another CPU, later. A `sched_wakeup` that nothing called for, followed by a `sched_waking` of the same task on another CPU
//! before the task runs, is such a pair the wrong way round; the difference is the least by which the clocks differ.

use std::collections::BTreeMap;

use schedlab_trace::{Event, EventKind, Pid};
use serde::Serialize;

/// How many tasks are followed at a time.
const TASKS_MAX: usize = 1 << 20;

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SkewReport {
    /// Wakeups that arrived before they were called for.
    pub skewed: u64,
    /// The largest such difference, ns.
    pub largest: u64,
}

/// Looks for skew. Events in the order of the file.
#[derive(Debug, Default)]
pub struct SkewFinder {
    tasks: BTreeMap<Pid, Wake>,
    report: SkewReport,
    /// Without calls in the trace nothing can be said.
    calls: bool,
}

#[derive(Debug)]
enum Wake {
    Called,
    /// Arrived without a call: when and where.
    Arrived(u64, u32),
}

impl SkewFinder {
    /// Takes an event.
    pub fn push(&mut self, event: &Event) {
        match &event.kind {
            EventKind::SchedWaking { task, .. } => {
                self.calls = true;
                match self.tasks.remove(&task.pid) {
                    Some(Wake::Arrived(ts, cpu)) if cpu != event.cpu => {
                        self.report.skewed += 1;
                        let by = event.ts.abs_diff(ts);
                        self.report.largest = self.report.largest.max(by);
                    }
                    _ => self.note(task.pid, Wake::Called),
                }
            }
            EventKind::SchedWakeup { task, .. } if self.calls => {
                match self.tasks.remove(&task.pid) {
                    Some(Wake::Called) => {}
                    _ => self.note(task.pid, Wake::Arrived(event.ts, event.cpu)),
                }
            }
            EventKind::SchedSwitch { next, .. } => {
                self.tasks.remove(&next.pid);
            }
            _ => {}
        }
    }

    fn note(&mut self, pid: Pid, wake: Wake) {
        if self.tasks.len() < TASKS_MAX {
            self.tasks.insert(pid, wake);
        }
    }

    /// What was found so far.
    #[must_use]
    pub fn report(&self) -> SkewReport {
        self.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_trace::FtraceTextReader;

    fn find(lines: &[&str]) -> (u64, u64) {
        let text: String = lines
            .iter()
            .map(|line| {
                let (front, event) = line.split_once(' ').unwrap();
                format!("  x-1 [{front}: {event}: comm=a pid=7 prio=120 target_cpu=001\n")
            })
            .map(|line| line.replacen('@', "] 1.0000", 1))
            .collect();
        let mut finder = SkewFinder::default();
        for event in FtraceTextReader::new(text.as_bytes(), "test") {
            finder.push(&event.unwrap());
        }
        (finder.report().skewed, finder.report().largest)
    }

    #[test]
    fn a_wakeup_before_its_call() {
        assert_eq!(
            find(&["000@01 sched_waking", "001@02 sched_wakeup"]),
            (0, 0)
        );
        let swapped = [
            "000@01 sched_waking",
            "001@02 sched_wakeup",
            "001@10 sched_wakeup",
            "000@13 sched_waking",
        ];
        assert_eq!(find(&swapped), (1, 3000));
        // On one CPU the order is true: a call while the task was already on its way.
        let same = [
            "001@01 sched_waking",
            "001@02 sched_wakeup",
            "001@10 sched_wakeup",
            "001@13 sched_waking",
        ];
        assert_eq!(find(&same), (0, 0));
        // No calls recorded.
        assert_eq!(
            find(&["001@10 sched_wakeup", "000@13 sched_waking"]),
            (0, 0)
        );
    }
}
