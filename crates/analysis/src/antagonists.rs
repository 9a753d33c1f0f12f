//! Who ran while a task waited, on the CPU on whose queue it was.
//!
//! Each delay (as the latency table counts it) is split among what the CPU did meanwhile: other tasks, its idle task (it
//! was being woken, or switching), or unknown. The parts of a delay add up to it exactly. A task that moves to another
//! queue is kept waiting there by who runs there. Delays that contradict other events are left out unless asked for, and
//! those that had not ended with the trace always.

use std::collections::BTreeMap;

use crate::GroupBy;
use crate::TaskFilter;
use crate::history::{Change, CpuSpan, Doing, History, Observer, PerTask, TaskId, TaskState};
use crate::latency::WakeStart;
use crate::naming::Groups;
use crate::table::{Cell, Column, Report, Table, column};

/// What to show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AntagonistsOptions {
    /// Rows.
    pub group: GroupBy,
    /// Waiting tasks.
    pub filter: TaskFilter,
    /// Start of delays after a sleep.
    pub start: WakeStart,
    /// Count delays that contradict other events, too.
    pub doubtful: bool,
    /// Waiting tasks (or names) to show, longest sum of delays first; 0 for all.
    pub top: usize,
    /// Antagonists to show for each; the others are one row; 0 for all.
    pub each: usize,
}

impl Default for AntagonistsOptions {
    /// The ten that waited longest, with five antagonists each.
    fn default() -> Self {
        Self {
            group: GroupBy::Comm,
            filter: TaskFilter::default(),
            start: WakeStart::Waking,
            doubtful: false,
            top: 10,
            each: 5,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Victim {
    waits: u64,
    sum: u64,
    by: BTreeMap<Doing, u64>,
    /// The wait that goes on.
    pending: Vec<(Doing, u64)>,
}

impl Victim {
    fn suffer(&mut self, from: Doing, ns: u64) {
        match self.pending.iter_mut().find(|(doing, _)| *doing == from) {
            Some((_, sum)) => *sum += ns,
            None => self.pending.push((from, ns)),
        }
    }
}

/// The observer.
#[derive(Debug, Default)]
pub struct Antagonists {
    options: AntagonistsOptions,
    tasks: PerTask<Victim>,
}

const COLUMNS: &[Column] = &[
    column("task", "Task", ""),
    column("waits", "Waits", ""),
    column("delay_ns", "Delay", "ms"),
    column("antagonist", "Antagonist", ""),
    column("time_ns", "Time", "ms"),
    column("share", "Share", "%"),
];

impl Antagonists {
    /// Without events.
    #[must_use]
    pub fn new(options: AntagonistsOptions) -> Self {
        Self {
            options,
            tasks: PerTask::default(),
        }
    }

    /// Count and sum of the delays of a task, ns, and what its CPUs did meanwhile, by time.
    #[must_use]
    pub fn of(&self, task: TaskId) -> Option<(u64, u64, &BTreeMap<Doing, u64>)> {
        self.tasks.get(task).map(|v| (v.waits, v.sum, &v.by))
    }

    /// Whether the wait counts in this state.
    fn counts(&self, state: &TaskState) -> bool {
        match state {
            TaskState::Runnable(_) => true,
            // Without sched_wakeup there is no other start: then the whole wait is in this state.
            TaskState::Waking(_) => self.options.start == WakeStart::Waking,
            _ => false,
        }
    }

    /// The waiting tasks or names with those that kept them waiting.
    #[must_use]
    pub fn report(&self, history: &History) -> Report {
        let victims: Vec<_> = self
            .tasks
            .iter()
            .filter(|&(id, v)| v.waits > 0 && self.options.filter.matches(history.task(id)))
            .collect();
        let groups = Groups::new(history, self.options.group, victims.iter().map(|v| v.0));
        let runners = Groups::new(
            history,
            self.options.group,
            history
                .tasks()
                .filter(|(_, t)| t.last_cpu.is_some())
                .map(|(id, _)| id),
        );
        let mut rows = vec![(0u64, 0u64, BTreeMap::<String, u64>::new()); groups.len()];
        for (id, victim) in victims {
            let Some(row) = groups.row(id) else { continue };
            let (waits, sum, by) = &mut rows[row];
            *waits += victim.waits;
            *sum = sum.saturating_add(victim.sum);
            for (&doing, &ns) in &victim.by {
                let name = match doing {
                    Doing::Idle => "<idle>",
                    Doing::Unknown => "(not known)",
                    Doing::Task(id) => runners.row(id).map_or("(not known)", |r| runners.name(r)),
                };
                *by.entry(name.to_owned()).or_default() += ns;
            }
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|&row| std::cmp::Reverse(rows[row].1));
        let all = order.len();
        if self.options.top > 0 {
            order.truncate(self.options.top);
        }
        let mut notes = Vec::new();
        if order.len() < all {
            notes.push(format!(
                "{} more that waited are not shown",
                all - order.len()
            ));
        }
        let mut table = Table::new("antagonists", COLUMNS);
        for row in order {
            let (waits, sum, by) = &rows[row];
            for (name, ns) in shortened(by, self.options.each) {
                table.rows.push(vec![
                    Cell::Text(groups.name(row).to_owned()),
                    Cell::Count(*waits),
                    Cell::Length(*sum),
                    Cell::Text(name),
                    Cell::Length(ns),
                    Cell::Share(ns, *sum),
                ]);
            }
        }
        Report {
            tables: vec![table],
            notes,
        }
    }
}

/// Longest first; those past `each` as one.
fn shortened(by: &BTreeMap<String, u64>, each: usize) -> Vec<(String, u64)> {
    let mut list: Vec<(String, u64)> = by.iter().map(|(name, &ns)| (name.clone(), ns)).collect();
    list.sort_by_key(|&(_, ns)| std::cmp::Reverse(ns));
    if each > 0 && list.len() > each + 1 {
        let rest = list.split_off(each);
        let sum = rest.iter().map(|(_, ns)| ns).sum();
        list.push((format!("({} others)", rest.len()), sum));
    }
    list
}

impl Observer for Antagonists {
    fn cpu_span(&mut self, history: &History, span: &CpuSpan) {
        for &id in history.queue(span.cpu) {
            let task = history.task(id);
            if self.counts(&task.state) && task.since < span.to {
                let ns = span.to - task.since.max(span.from);
                self.tasks.of(id).suffer(span.doing, ns);
            }
        }
    }

    fn change(&mut self, history: &History, change: &Change) {
        let Some(wait) = change.from.wait() else {
            return;
        };
        let counts = self.counts(&change.from);
        let doubtful = wait.doubtful && !self.options.doubtful;
        let current = history.cpu(wait.cpu);
        let victim = self.tasks.of(change.task);
        if counts {
            // What the CPU has been doing since its last span ended.
            let (doing, since) = current.unwrap_or((Doing::Unknown, change.at));
            let from = since.max(change.since);
            if from < change.at {
                victim.suffer(doing, change.at - from);
            }
        }
        if let Some(next) = change.to.wait() {
            // It goes on, unless a later wake event begins it anew.
            if next.from_waking() != wait.from_waking() {
                victim.pending.clear();
            }
            return;
        }
        let pending = std::mem::take(&mut victim.pending);
        if change.to.run().is_none() || doubtful {
            return;
        }
        let start = match self.options.start {
            WakeStart::Waking => wait.from_waking(),
            WakeStart::Wakeup => wait.from_wakeup(),
        };
        let Some(length) = start.and_then(|start| change.at.checked_sub(start)) else {
            return;
        };
        victim.waits += 1;
        victim.sum = victim.sum.saturating_add(length);
        let mut left = length;
        for (doing, ns) in pending {
            let ns = ns.min(left);
            left -= ns;
            *victim.by.entry(doing).or_default() += ns;
        }
        if left > 0 {
            *victim.by.entry(Doing::Unknown).or_default() += left;
        }
    }
}
