//! How long tasks ran before they were preempted.
//!
//! A run counts from the switch-in (seen, or inferred from `sched_stat_runtime`) to the switch-out. It was cut short by a
//! preemption if the task left with `R+`, or with `R` and no sign of a `sched_yield`: see
//! [`WaitCause`]. Runs whose begin is not known are left out, and those of a task that was on
//! two CPUs at once unless asked for.

use crate::GroupBy;
use crate::TaskFilter;
use crate::distribution::{Distribution, histogram_table};
use schedlab_trace::PrevState;

use crate::history::{
    Change, History, Observer, PerTask, Step, StepKind, TaskId, TaskState, WaitCause,
};
use crate::naming::Groups;
use crate::table::{Cell, Column, Report, Table, column};

/// What to show.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PreemptedOptions {
    /// Rows.
    pub group: GroupBy,
    /// Tasks.
    pub filter: TaskFilter,
    /// Count runs of tasks that were on two CPUs at once, too.
    pub doubtful: bool,
}

/// Runs of a task by how they ended.
#[derive(Clone, Debug, Default)]
struct Runs {
    /// All whose begin and end are known.
    ended: u64,
    yielded: u64,
    preempted: Distribution,
    preempted_sum: u64,
    preempted_max: u64,
}

impl Runs {
    fn merge(&mut self, other: &Self) {
        self.ended += other.ended;
        self.yielded += other.yielded;
        self.preempted.merge(&other.preempted);
        self.preempted_sum = self.preempted_sum.saturating_add(other.preempted_sum);
        self.preempted_max = self.preempted_max.max(other.preempted_max);
    }
}

/// The observer.
#[derive(Debug, Default)]
pub struct Preempted {
    options: PreemptedOptions,
    tasks: PerTask<Runs>,
    /// Switch-outs with a plain `R`, and calls of `sched_yield`.
    plain: u64,
    yield_calls: u64,
}

const TASKS: &[Column] = &[
    column("task", "Task", ""),
    column("runs", "Runs", ""),
    column("preempted", "Preempted", ""),
    column("preempted_share", "Share", "%"),
    column("yielded", "Yielded", ""),
    column("avg_run_ns", "Avg run", "ms"),
    column("p50_ns", "p50", "ms"),
    column("p90_ns", "p90", "ms"),
    column("p99_ns", "p99", "ms"),
    column("max_ns", "Max", "ms"),
];

impl Preempted {
    /// Without events.
    #[must_use]
    pub fn new(options: PreemptedOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// A row per task or name with runs, most preemptions first, then the lengths of all preempted runs by powers of two.
    #[must_use]
    pub fn report(&self, history: &History) -> Report {
        let shown: Vec<_> = self
            .tasks
            .iter()
            .filter(|&(id, runs)| runs.ended > 0 && self.options.filter.matches(history.task(id)))
            .collect();
        let groups = Groups::new(history, self.options.group, shown.iter().map(|t| t.0));
        let mut rows = vec![Runs::default(); groups.len()];
        let mut all = Distribution::default();
        for (id, runs) in shown {
            if let Some(row) = groups.row(id) {
                rows[row].merge(runs);
            }
            all.merge(&runs.preempted);
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        // Stable: equal ones stay in order of name.
        order.sort_by_key(|&row| std::cmp::Reverse(rows[row].preempted.count()));
        let mut table = Table::new("tasks", TASKS);
        for row in order {
            let runs = &rows[row];
            let count = runs.preempted.count();
            let p = runs.preempted.percentiles();
            let length = |ns| {
                if count > 0 {
                    Cell::Length(ns)
                } else {
                    Cell::None
                }
            };
            table.rows.push(vec![
                Cell::Text(groups.name(row).to_owned()),
                Cell::Count(runs.ended),
                Cell::Count(count),
                Cell::Share(count, runs.ended),
                Cell::Count(runs.yielded),
                length(runs.preempted_sum.checked_div(count).unwrap_or(0)),
                length(p.p50),
                length(p.p90),
                length(p.p99),
                length(runs.preempted_max),
            ]);
        }
        let mut notes = Vec::new();
        if self.plain > 0 && self.yield_calls == 0 {
            notes.push(format!(
                "{} switches with prev_state R may be a sched_yield; record sys_enter_sched_yield to tell",
                self.plain
            ));
        }
        Report {
            tables: vec![table, histogram_table("run_before_preemption", &all)],
            notes,
        }
    }
}

impl Observer for Preempted {
    fn change(&mut self, _: &History, change: &Change) {
        let TaskState::Running(run) = change.from else {
            return;
        };
        if run.unseen_start || run.contested && !self.options.doubtful {
            return;
        }
        let cause = match change.to {
            TaskState::Runnable(wait) => Some(wait.cause),
            TaskState::Sleeping(_) | TaskState::Dead => None,
            // Lost sight of.
            _ => return,
        };
        let runs = self.tasks.of(change.task);
        runs.ended += 1;
        match cause {
            Some(WaitCause::Preempted) => {
                runs.preempted.add(change.span());
                runs.preempted_sum = runs.preempted_sum.saturating_add(change.span());
                runs.preempted_max = runs.preempted_max.max(change.span());
            }
            Some(WaitCause::Yielded) => runs.yielded += 1,
            _ => {}
        }
    }

    fn event(&mut self, _: &History, _: u64, step: &Step, task: Option<TaskId>, _: Option<TaskId>) {
        match step.kind {
            StepKind::YieldCall => self.yield_calls += 1,
            StepKind::Switch { state, .. } if task.is_some() && state == PrevState::RUNNING => {
                self.plain += 1;
            }
            _ => {}
        }
    }
}
