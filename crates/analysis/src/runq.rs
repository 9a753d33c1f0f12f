//! Lengths of the queues over time, and idle CPUs beside waiting tasks.
//!
//! The length of a CPU's queue is the number of tasks that wait there; the running task is not in it. A wait begins as a
//! delay does, see [`WakeStart`].
//!
//! **Idle while waiting** is the time in which a CPU ran its idle task while a task that may run here waited on the queue
//! of *another* CPU, which was busy with a third task. (A task on the queue of an idle CPU is just being woken there.) A
//! trace does not tell affinities, so there are two figures. `seen`: such a task had run or been queued
//! on the idle CPU before, by this trace. That it may run there is sure unless its affinity was changed meanwhile, and
//! the figure is the least. `any`: any task at all, kernel threads bound to a CPU by their name (`kworker/3:1`) left out;
//! the most that it can be.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{
    Change, CpuSpan, Doing, History, Observer, PerTask, Step, Task, TaskId, TaskState,
};
use crate::latency::WakeStart;
use crate::table::{Cell, Column, Report, Table, column};

/// Most points of time that a series may have.
pub const SERIES_MAX: u64 = 1_000_000;

/// What to show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunqOptions {
    /// Start of waits after a sleep.
    pub start: WakeStart,
    /// Length of the steps of the series over time, ns; no series if `None`.
    pub interval: Option<u64>,
}

/// Time in which a condition held.
#[derive(Clone, Copy, Debug, Default)]
struct Lapse {
    since: Option<u64>,
    total: u64,
    longest: u64,
    longest_at: u64,
}

impl Lapse {
    fn set(&mut self, holds: bool, now: u64) {
        match (self.since, holds) {
            (None, true) => self.since = Some(now),
            (Some(since), false) => {
                let length = now.saturating_sub(since);
                self.total = self.total.saturating_add(length);
                if length > self.longest {
                    (self.longest, self.longest_at) = (length, since);
                }
                self.since = None;
            }
            _ => {}
        }
    }
}

/// One CPU.
#[derive(Clone, Debug, Default)]
struct Queue {
    cpu: u32,
    idle: bool,
    /// Runs a task; neither if nothing is known.
    runs: bool,
    /// Tasks that wait here, their number, and that of those not bound to this CPU.
    members: BTreeSet<TaskId>,
    len: u64,
    unbound: u64,
    since: Option<u64>,
    max: u64,
    max_at: u64,
    /// Time by length.
    time_at: BTreeMap<u64, u64>,
    busy: u64,
    idle_time: u64,
    /// Tasks that wait on other, busy CPUs and have been seen here.
    seen_elsewhere: u64,
    seen: Lapse,
    any: Lapse,
}

/// What is known of where a task may run.
#[derive(Clone, Debug, Default)]
struct Places {
    /// Indices of queues.
    seen: Vec<usize>,
    /// The queue on which it is counted, and whether as unbound.
    counted: Option<(usize, bool)>,
}

/// The observer.
#[derive(Debug, Default)]
pub struct Runq {
    options: RunqOptions,
    queues: Vec<Queue>,
    index: BTreeMap<u32, usize>,
    tasks: PerTask<Places>,
    /// Sum of length times ns by step and queue.
    series: BTreeMap<(u64, usize), u128>,
    too_fine: bool,
}

/// The steps of the series are too short for the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an interval of {interval} ns gives more than {SERIES_MAX} steps; choose a longer one")]
pub struct TooFine {
    interval: u64,
}

const CPUS: &[Column] = &[
    column("cpu", "CPU", ""),
    column("busy_ns", "Busy", "ms"),
    column("idle_ns", "Idle", "ms"),
    column("avg_len", "Avg len", ""),
    column("max_len", "Max len", ""),
    column("max_at_ns", "Max at", "s"),
    column("idle_while_waiting_seen_ns", "Idle+wait", "ms seen"),
    column("longest_seen_ns", "Longest", "ms"),
    column("longest_seen_at_ns", "Longest at", "s"),
    column("idle_while_waiting_any_ns", "Idle+wait", "ms any"),
    column("longest_any_ns", "Longest", "ms"),
];

const LENGTHS: &[Column] = &[
    column("length", "Length", ""),
    column("time_ns", "Time", "ms"),
    column("share", "Share", "%"),
];

const SERIES: &[Column] = &[
    column("at_ns", "At", "s"),
    column("cpu", "CPU", ""),
    column("avg_len", "Avg len", ""),
];

impl Runq {
    /// Without events.
    #[must_use]
    pub fn new(options: RunqOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// The sum of all waits as the lengths of queues add up to it, ns: length times time over all CPUs.
    #[must_use]
    pub fn waiting_time(&self) -> u128 {
        self.queues
            .iter()
            .flat_map(|q| &q.time_at)
            .map(|(&len, &ns)| u128::from(len) * u128::from(ns))
            .sum()
    }

    /// A row per CPU, then time by length; with an interval the series comes first.
    ///
    /// # Errors
    /// [`TooFine`] if the series would have more than [`SERIES_MAX`] steps.
    pub fn report(mut self, history: &History) -> Result<Report, TooFine> {
        let last = history.last_ts();
        for at in 0..self.queues.len() {
            self.pass(at, last);
            let queue = &mut self.queues[at];
            queue.seen.set(false, last);
            queue.any.set(false, last);
        }
        if self.too_fine {
            return Err(TooFine {
                interval: self.options.interval.unwrap_or(0),
            });
        }
        let mut tables = Vec::new();
        if let Some(interval) = self.options.interval {
            tables.push(self.series(history, interval));
        }
        tables.push(self.cpus());
        tables.push(self.lengths());
        Ok(Report {
            tables,
            notes: Vec::new(),
        })
    }

    fn cpus(&self) -> Table {
        let mut table = Table::new("cpus", CPUS);
        for &at in self.index.values() {
            let q = &self.queues[at];
            let known: u64 = q.time_at.values().sum();
            let sum = q
                .time_at
                .iter()
                .map(|(&len, &ns)| u128::from(len) * u128::from(ns))
                .sum();
            table.rows.push(vec![
                Cell::Count(q.cpu.into()),
                Cell::Length(q.busy),
                Cell::Length(q.idle_time),
                Cell::Ratio(sum, known.into()),
                Cell::Count(q.max),
                Cell::time((q.max > 0).then_some(q.max_at)),
                Cell::Length(q.seen.total),
                Cell::Length(q.seen.longest),
                Cell::time((q.seen.longest > 0).then_some(q.seen.longest_at)),
                Cell::Length(q.any.total),
                Cell::Length(q.any.longest),
            ]);
        }
        table
    }

    fn lengths(&self) -> Table {
        let mut all: BTreeMap<u64, u64> = BTreeMap::new();
        for (&len, &ns) in self.queues.iter().flat_map(|q| &q.time_at) {
            let sum = all.entry(len).or_default();
            *sum = sum.saturating_add(ns);
        }
        let total = all.values().fold(0u64, |sum, &ns| sum.saturating_add(ns));
        let mut table = Table::new("lengths", LENGTHS);
        for (len, ns) in all {
            table.rows.push(vec![
                Cell::Count(len),
                Cell::Length(ns),
                Cell::Share(ns, total),
            ]);
        }
        table
    }

    fn series(&self, history: &History, interval: u64) -> Table {
        let mut table = Table::new("series", SERIES);
        for (&(step, at), &sum) in &self.series {
            let from = step.saturating_mul(interval);
            // The first and the last step may lie partly outside of the trace.
            let begin = from.max(history.first_ts().unwrap_or(0));
            let end = from.saturating_add(interval).min(history.last_ts());
            table.rows.push(vec![
                Cell::Time(from),
                Cell::Count(self.queues[at].cpu.into()),
                Cell::Ratio(sum, end.saturating_sub(begin).into()),
            ]);
        }
        table
    }

    fn queue(&mut self, cpu: u32, now: u64) -> usize {
        if let Some(&at) = self.index.get(&cpu) {
            return at;
        }
        let at = self.queues.len();
        self.index.insert(cpu, at);
        self.queues.push(Queue {
            cpu,
            since: Some(now),
            ..Queue::default()
        });
        at
    }

    /// Counts the time up to now at the present length.
    fn pass(&mut self, at: usize, now: u64) {
        let q = &mut self.queues[at];
        let since = q.since.unwrap_or(now);
        if now <= since {
            return;
        }
        q.since = Some(now);
        *q.time_at.entry(q.len).or_default() += now - since;
        let (Some(interval), len) = (self.options.interval, q.len) else {
            return;
        };
        let interval = interval.max(1);
        if len == 0 || self.too_fine {
            return;
        }
        if (now - since) / interval + self.series.len() as u64 > SERIES_MAX {
            self.too_fine = true;
            return;
        }
        for step in since / interval..=(now - 1) / interval {
            let from = since.max(step * interval);
            let to = now.min((step * interval).saturating_add(interval));
            *self.series.entry((step, at)).or_default() +=
                u128::from(len) * u128::from(to.saturating_sub(from));
        }
    }

    fn counts(&self, state: &TaskState) -> Option<u32> {
        match state {
            TaskState::Runnable(wait) => Some(wait.cpu),
            TaskState::Waking(wait) if self.options.start == WakeStart::Waking => Some(wait.cpu),
            _ => None,
        }
    }

    /// Adds a task that waits on the queue `at` to, or takes it from, the counts of the CPUs where it was seen.
    fn offer(&mut self, id: TaskId, at: usize, add: bool) {
        for &other in self.tasks.of(id).seen.iter().filter(|&&other| other != at) {
            let count = &mut self.queues[other].seen_elsewhere;
            *count = if add { *count + 1 } else { *count - 1 };
        }
    }

    fn leave(&mut self, id: TaskId, now: u64) {
        let Some((at, unbound)) = self.tasks.of(id).counted.take() else {
            return;
        };
        if self.queues[at].runs {
            self.offer(id, at, false);
        }
        self.pass(at, now);
        let q = &mut self.queues[at];
        q.members.remove(&id);
        q.len -= 1;
        q.unbound -= u64::from(unbound);
    }

    fn enter(&mut self, id: TaskId, task: &Task, cpu: u32, now: u64) {
        let at = self.queue(cpu, now);
        self.pass(at, now);
        let unbound = !bound_by_name(task);
        self.tasks.of(id).counted = Some((at, unbound));
        if self.queues[at].runs {
            self.offer(id, at, true);
        }
        let q = &mut self.queues[at];
        q.members.insert(id);
        q.len += 1;
        if q.len > q.max {
            (q.max, q.max_at) = (q.len, now);
        }
        q.unbound += u64::from(unbound);
    }

    /// The CPU begins or ends to run a task: those behind it become or are no longer to be had.
    fn set_runs(&mut self, at: usize, runs: bool) {
        if self.queues[at].runs == runs {
            return;
        }
        self.queues[at].runs = runs;
        let members = std::mem::take(&mut self.queues[at].members);
        for &id in &members {
            self.offer(id, at, runs);
        }
        self.queues[at].members = members;
    }

    fn seen_on(&mut self, id: TaskId, cpu: u32, now: u64) {
        let at = self.queue(cpu, now);
        let places = self.tasks.of(id);
        if !places.seen.contains(&at) {
            places.seen.push(at);
        }
    }

    /// Whether the conditions hold now, on every CPU.
    fn check(&mut self, now: u64) {
        let unbound = self.queues.iter().any(|q| q.runs && q.unbound > 0);
        for q in &mut self.queues {
            q.seen.set(q.idle && q.seen_elsewhere > 0, now);
            q.any.set(q.idle && unbound, now);
        }
    }
}

/// A kernel thread of one CPU: `name/3`, `name/3:1`; not `kworker/u8:2`.
fn bound_by_name(task: &Task) -> bool {
    let comm = task.comm.as_bytes();
    let Some(slash) = comm.iter().rposition(|&b| b == b'/') else {
        return false;
    };
    let rest = &comm[slash + 1..];
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && matches!(rest.get(digits), None | Some(b':'))
}

impl Observer for Runq {
    fn change(&mut self, history: &History, change: &Change) {
        let (from, to) = (self.counts(&change.from), self.counts(&change.to));
        let now = change.at;
        if from != to {
            self.leave(change.task, now);
        }
        let waits = change.to.wait().map(|wait| wait.cpu);
        if let Some(cpu) = waits.or(change.to.run().map(|run| run.cpu)) {
            self.seen_on(change.task, cpu, now);
        }
        if from != to {
            if let Some(cpu) = to {
                self.enter(change.task, history.task(change.task), cpu, now);
            }
            self.check(now);
        }
    }

    fn cpu_span(&mut self, _: &History, span: &CpuSpan) {
        let at = self.queue(span.cpu, span.from);
        let length = span.to - span.from;
        match span.doing {
            Doing::Idle => self.queues[at].idle_time += length,
            Doing::Task(_) => self.queues[at].busy += length,
            Doing::Unknown => {}
        }
    }

    fn event(
        &mut self,
        history: &History,
        ts: u64,
        step: &Step,
        _: Option<TaskId>,
        _: Option<TaskId>,
    ) {
        let doing = history.cpu(step.cpu).map(|(doing, _)| doing);
        let idle = doing == Some(Doing::Idle);
        let runs = matches!(doing, Some(Doing::Task(_)));
        let at = self.queue(step.cpu, ts);
        let queue = &self.queues[at];
        if (queue.idle, queue.runs) != (idle, runs) {
            self.queues[at].idle = idle;
            self.set_runs(at, runs);
            self.check(ts);
        }
    }
}
