//! What an accumulation found, as plain data in nanoseconds.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schedlab_trace::Pid;
use serde::Serialize;

use super::WakeStart;
use crate::anomalies::Anomalies;
use crate::distribution::{Distribution, Percentiles};
use crate::naming::{GroupBy, row_name};

/// Delays of a task or of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DelayStats {
    /// How many delays ended.
    pub count: u64,
    /// Their sum, ns.
    pub sum: u64,
    /// The longest, ns; of equal ones the first.
    pub max: u64,
    /// When the longest began, ns; 0 without any.
    pub max_start: u64,
    /// When it ended, ns; 0 without any.
    pub max_end: u64,
}

impl DelayStats {
    /// Adds the delay from `start` to `end`; nothing if `end` is before `start`.
    pub fn add(&mut self, start: u64, end: u64) {
        let Some(delay) = end.checked_sub(start) else {
            return;
        };
        if self.count == 0 || delay > self.max {
            self.max = delay;
            self.max_start = start;
            self.max_end = end;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(delay);
    }

    /// Adds the delays of another.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let longer =
            other.max > self.max || other.max == self.max && other.max_start < self.max_start;
        if self.count == 0 || longer {
            self.max = other.max;
            self.max_start = other.max_start;
            self.max_end = other.max_end;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Mean delay in ns, rounded down; `None` without delays.
    #[must_use]
    pub fn average(&self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }
}

/// One task. A pid that is used again is another task.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TaskLatency {
    /// Thread id.
    pub pid: Pid,
    /// The last name that an event gave it; empty if none did.
    pub comm: String,
    /// Time on a CPU, ns, from switches.
    pub runtime: u64,
    /// Sum of `sched_stat_runtime`, ns; `None` without such events.
    pub stat_runtime: Option<u64>,
    /// Delays, those after a sleep from `sched_waking` on where the trace has it.
    pub from_waking: DelayStats,
    /// Delays, those after a sleep from `sched_wakeup` on where the trace has it.
    pub from_wakeup: DelayStats,
    /// Times it was switched in.
    pub switches_in: u64,
    /// Times it left the CPU to sleep or to end.
    pub voluntary: u64,
    /// Times it left the CPU still runnable: preempted, or by `sched_yield`.
    pub involuntary: u64,
    /// `sched_migrate_task` events.
    pub migrations: u64,
    /// Switch-ins on another CPU than the one before; counts moves also where `sched_migrate_task` was not traced.
    pub cpu_changes: u64,
    /// Length so far of a delay that had not ended with the trace, ns, from the same start as `from_waking`.
    pub open_wait: Option<u64>,
    /// The delays by size, if asked for.
    #[serde(skip)]
    pub distribution: Option<Distribution>,
}

impl TaskLatency {
    /// Delays by the chosen start.
    #[must_use]
    pub fn delays(&self, start: WakeStart) -> &DelayStats {
        match start {
            WakeStart::Waking => &self.from_waking,
            WakeStart::Wakeup => &self.from_wakeup,
        }
    }

    /// Whether the trace shows it doing anything that the table has a column for.
    fn was_active(&self) -> bool {
        self.runtime > 0 || self.switches_in > 0 || self.voluntary + self.involuntary > 0
    }
}

/// Time of one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CpuTime {
    /// CPU number.
    pub cpu: u32,
    /// Time with a task running, ns.
    pub busy: u64,
    /// Time with the idle task running, ns.
    pub idle: u64,
    /// Time of which the trace does not tell, ns: before the CPU's first event, and where events contradict each
    /// other. `busy + idle + unknown` is the span of the trace.
    pub unknown: u64,
    /// `sched_switch` events.
    pub switches: u64,
}

impl CpuTime {
    /// Busy share of the known time, 0 to 1; `None` if nothing is known.
    #[must_use]
    pub fn utilization(&self) -> Option<f64> {
        let known = self.busy + self.idle;
        (known > 0).then(|| self.busy as f64 / known as f64)
    }
}

/// Totals of a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Summary {
    /// Time of the first event, ns; `None` without events.
    pub first_ts: Option<u64>,
    /// Time between the first and the last event, ns.
    pub span: u64,
    /// `sched_switch` events, those from and to idle included.
    pub switches: u64,
    /// Switches whose leaving task went to sleep or ended; idle tasks do not count.
    pub voluntary: u64,
    /// Switches whose leaving task stayed runnable; idle tasks do not count.
    pub involuntary: u64,
    /// `sched_waking` events.
    pub wakings: u64,
    /// `sched_wakeup` events.
    pub wakeups: u64,
    /// `sched_wakeup_new` events.
    pub new_tasks: u64,
    /// `sched_migrate_task` events.
    pub migrations: u64,
    /// Time by CPU, by number.
    pub cpus: Vec<CpuTime>,
}

/// A row of the table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LatencyRow {
    /// `comm:pid` for one task, `comm:(n)` for several.
    pub name: String,
    /// How many tasks.
    pub tasks: u64,
    /// Time on a CPU, ns.
    pub runtime: u64,
    /// Delays by the chosen start.
    pub delays: DelayStats,
    /// Voluntary switches.
    pub voluntary: u64,
    /// Involuntary switches.
    pub involuntary: u64,
    /// Migrations.
    pub migrations: u64,
    /// Percentiles of the delays, if the distribution was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentiles: Option<Percentiles>,
    /// The delays by size, if asked for.
    #[serde(skip)]
    pub distribution: Option<Distribution>,
}

/// All that was found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LatencyReport {
    /// Every task, by pid and then by age.
    pub tasks: Vec<TaskLatency>,
    /// Totals.
    pub summary: Summary,
    /// What did not fit.
    pub anomalies: Anomalies,
}

impl LatencyReport {
    /// Rows of the table in perf's order: by average delay, maximum, count and run time, each descending; then by name.
    ///
    /// Tasks that were only named by events, and neither ran nor left a CPU, have no row.
    #[must_use]
    pub fn rows(&self, group: GroupBy, start: WakeStart) -> Vec<LatencyRow> {
        let active = self.tasks.iter().filter(|task| task.was_active());
        let mut rows: Vec<LatencyRow> = match group {
            GroupBy::Task => active.map(|task| row(&[task], start)).collect(),
            GroupBy::Comm => {
                let mut groups: BTreeMap<(&str, Pid), Vec<&TaskLatency>> = BTreeMap::new();
                for task in active {
                    // Tasks of unknown name have nothing in common.
                    let pid = if task.comm.is_empty() { task.pid } else { 0 };
                    groups.entry((&task.comm, pid)).or_default().push(task);
                }
                groups.values().map(|tasks| row(tasks, start)).collect()
            }
        };
        rows.sort_by(|a, b| {
            // Exact comparison of sum/count.
            let left = u128::from(a.delays.sum) * u128::from(b.delays.count.max(1));
            let right = u128::from(b.delays.sum) * u128::from(a.delays.count.max(1));
            let rest = |r: &LatencyRow| Reverse((r.delays.max, r.delays.count, r.runtime));
            right
                .cmp(&left)
                .then_with(|| rest(a).cmp(&rest(b)))
                .then_with(|| a.name.cmp(&b.name))
        });
        rows
    }

    /// The TOTAL row: sums over all tasks.
    #[must_use]
    pub fn total(&self, start: WakeStart) -> LatencyRow {
        let active: Vec<&TaskLatency> = self.tasks.iter().filter(|t| t.was_active()).collect();
        LatencyRow {
            name: "TOTAL".to_owned(),
            ..row(&active, start)
        }
    }

    /// The whole report as JSON, times in ns.
    ///
    /// # Errors
    /// None in practice; serde's signature has one.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}

fn row(tasks: &[&TaskLatency], start: WakeStart) -> LatencyRow {
    let name = tasks.first().map_or(String::new(), |task| {
        row_name(&task.comm, task.pid, tasks.len() as u64)
    });
    let mut out = LatencyRow {
        name,
        tasks: tasks.len() as u64,
        runtime: 0,
        delays: DelayStats::default(),
        voluntary: 0,
        involuntary: 0,
        migrations: 0,
        percentiles: None,
        distribution: None,
    };
    for task in tasks {
        out.runtime = out.runtime.saturating_add(task.runtime);
        out.delays.merge(task.delays(start));
        out.voluntary += task.voluntary;
        out.involuntary += task.involuntary;
        out.migrations += task.migrations;
        if let Some(theirs) = &task.distribution {
            out.distribution
                .get_or_insert_with(Distribution::default)
                .merge(theirs);
        }
    }
    out.percentiles = out.distribution.as_ref().map(Distribution::percentiles);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(pid: Pid, comm: &str, delays: &[(u64, u64)]) -> TaskLatency {
        let mut stats = DelayStats::default();
        for &(start, end) in delays {
            stats.add(start, end);
        }
        TaskLatency {
            pid,
            comm: comm.to_owned(),
            runtime: 10,
            stat_runtime: None,
            from_waking: stats,
            from_wakeup: DelayStats::default(),
            switches_in: 1,
            voluntary: 1,
            involuntary: 2,
            migrations: 3,
            cpu_changes: 0,
            open_wait: None,
            distribution: None,
        }
    }

    #[test]
    fn merging_and_order() {
        let report = LatencyReport {
            tasks: vec![
                task(1, "a", &[(10, 12), (20, 21)]),
                task(2, "a", &[(5, 9)]),
                task(3, "b", &[(100, 103)]),
                task(4, "", &[]),
                task(5, "", &[]),
                TaskLatency {
                    switches_in: 0,
                    voluntary: 0,
                    involuntary: 0,
                    runtime: 0,
                    ..task(6, "never ran", &[])
                },
            ],
            ..LatencyReport::default()
        };
        let rows = report.rows(GroupBy::Comm, WakeStart::Waking);
        let brief: Vec<_> = rows
            .iter()
            .map(|r| {
                (
                    r.name.as_str(),
                    r.delays.count,
                    r.delays.sum,
                    r.delays.max_start,
                )
            })
            .collect();
        // Averages 3, 7/3, 0.
        assert_eq!(
            brief,
            [
                ("b:3", 1, 3, 100),
                ("a:(2)", 3, 7, 5),
                (":4:4", 0, 0, 0),
                (":5:5", 0, 0, 0)
            ]
        );
        assert_eq!(report.rows(GroupBy::Task, WakeStart::Waking).len(), 5);
        let total = report.total(WakeStart::Waking);
        assert_eq!((total.tasks, total.runtime, total.delays.sum), (5, 50, 10));
        assert_eq!(total.delays.max_start, 5);
        assert_eq!(report.total(WakeStart::Wakeup).delays.count, 0);
    }

    #[test]
    fn equal_maxima_keep_the_first() {
        let mut a = DelayStats::default();
        a.add(10, 15);
        a.add(20, 25);
        assert_eq!(a.max_start, 10);
        let mut b = DelayStats::default();
        b.add(3, 8);
        a.merge(&b);
        assert_eq!((a.max, a.max_start, a.count), (5, 3, 3));
        a.add(9, 8);
        assert_eq!(a.count, 3, "a negative delay is none");
        assert_eq!(DelayStats::default().average(), None);
        assert_eq!(a.average(), Some(5));
    }
}
