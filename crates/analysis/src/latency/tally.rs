//! The sums of the table, taken from a history.

use schedlab_trace::{Event, PerCpu, PrevState};

use super::report::{CpuTime, DelayStats, LatencyReport, Summary, TaskLatency};
use super::{LatencyOptions, WakeStart};
use crate::anomalies::Anomalies;
use crate::distribution::Distribution;
use crate::history::{
    Change, CpuSpan, Doing, History, HistoryOptions, Mark, Observer, Ordered, PerTask, Step,
    StepKind, TaskId, TaskState,
};
use crate::order::OrderReport;

/// Takes events one by one and gives the report at the end.
///
/// Memory: the sorting window, and about 400 bytes per task that the trace names.
///
/// ```
/// use schedlab_analysis::latency::{GroupBy, LatencyAccumulator, LatencyOptions, WakeStart};
/// use schedlab_trace::FtraceTextReader;
///
/// let text = "
///   <idle>-0 [000] 1.000000: sched_waking: comm=a pid=7 prio=120 target_cpu=000
///   <idle>-0 [000] 1.000002: sched_wakeup: comm=a pid=7 prio=120 target_cpu=000
///   <idle>-0 [000] 1.000005: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120
///   a-7 [000] 1.000105: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
/// ";
/// let mut latency = LatencyAccumulator::new(LatencyOptions::default());
/// for event in FtraceTextReader::new(text.as_bytes(), "example") {
///     latency.push(&event.unwrap());
/// }
/// let report = latency.finish();
/// let row = &report.rows(GroupBy::Comm, WakeStart::Waking)[0];
/// assert_eq!((row.name.as_str(), row.runtime, row.delays.max), ("a:7", 100_000, 5_000));
/// ```
#[derive(Debug)]
pub struct LatencyAccumulator(Ordered<LatencyTally>);

impl LatencyAccumulator {
    /// An accumulator without events.
    #[must_use]
    pub fn new(options: LatencyOptions) -> Self {
        let history = HistoryOptions {
            window: options.window,
            wakeup: options.wakeup,
        };
        Self(Ordered::new(history, LatencyTally::new(options)))
    }

    /// Takes an event.
    pub fn push(&mut self, event: &Event) {
        self.0.push(event);
    }

    /// Closes what is open and gives the report.
    #[must_use]
    pub fn finish(self) -> LatencyReport {
        let (history, tally, order) = self.0.finish();
        tally.report(&history, order)
    }
}

/// The sums of one task.
#[derive(Clone, Debug, Default)]
struct Sums {
    runtime: u64,
    stat_runtime: Option<u64>,
    from_waking: DelayStats,
    from_wakeup: DelayStats,
    switches_in: u64,
    voluntary: u64,
    involuntary: u64,
    migrations: u64,
    cpu_changes: u64,
    last_cpu: Option<u32>,
    distribution: Distribution,
}

/// The observer behind the table of delays.
#[derive(Debug, Default)]
pub struct LatencyTally {
    tasks: PerTask<Sums>,
    cpus: PerCpu<CpuTime>,
    summary: Summary,
    anomalies: Anomalies,
    doubtful: bool,
    distribution: Option<WakeStart>,
}

impl LatencyTally {
    /// A tally without events. `options` beyond those of the accounting itself play no part here.
    #[must_use]
    pub fn new(options: LatencyOptions) -> Self {
        Self {
            doubtful: options.doubtful,
            distribution: options.distribution,
            ..Self::default()
        }
    }

    fn cpu(&mut self, cpu: u32) -> &mut CpuTime {
        self.cpus.of(cpu, || CpuTime {
            cpu,
            ..CpuTime::default()
        })
    }

    fn switched(&mut self, cpu: u32, state: PrevState, prev: Option<TaskId>, next: Option<TaskId>) {
        self.summary.switches += 1;
        self.cpu(cpu).switches += 1;
        if let Some(prev) = prev {
            let sums = self.tasks.of(prev);
            let (own, all) = if state.is_runnable() {
                (&mut sums.involuntary, &mut self.summary.involuntary)
            } else {
                (&mut sums.voluntary, &mut self.summary.voluntary)
            };
            *own += 1;
            *all += 1;
        }
        if let Some(next) = next {
            self.tasks.of(next).switches_in += 1;
        }
    }

    /// The report, once the history is closed.
    #[must_use]
    pub fn report(mut self, history: &History, order: OrderReport) -> LatencyReport {
        self.anomalies.order = order;
        let span = history.span();
        for (cpu, _) in history.cpus() {
            let time = self.cpu(cpu);
            // Before the CPU's first event, and between contradictions.
            time.unknown = span.saturating_sub(time.busy + time.idle);
        }
        let last = history.last_ts();
        let mut tasks: Vec<TaskLatency> = history
            .tasks()
            .map(|(id, task)| {
                let sums = self.tasks.get(id).cloned().unwrap_or_default();
                TaskLatency {
                    pid: task.pid,
                    comm: task.comm.to_string(),
                    runtime: sums.runtime,
                    stat_runtime: sums.stat_runtime,
                    from_waking: sums.from_waking,
                    from_wakeup: sums.from_wakeup,
                    switches_in: sums.switches_in,
                    voluntary: sums.voluntary,
                    involuntary: sums.involuntary,
                    migrations: sums.migrations,
                    cpu_changes: sums.cpu_changes,
                    distribution: self.distribution.map(|_| sums.distribution),
                    open_wait: task
                        .state
                        .wait()
                        .and_then(|wait| wait.from_waking())
                        .map(|start| last.saturating_sub(start)),
                }
            })
            .collect();
        // Stable, so that tasks of one pid stay in order of age.
        tasks.sort_by_key(|task| task.pid);
        LatencyReport {
            tasks,
            summary: Summary {
                first_ts: history.first_ts(),
                span,
                cpus: self.cpus.into_values().collect(),
                ..self.summary
            },
            anomalies: self.anomalies,
        }
    }
}

impl Observer for LatencyTally {
    fn change(&mut self, _: &History, change: &Change) {
        let TaskState::Running(run) = change.to else {
            return;
        };
        let sums = self.tasks.of(change.task);
        sums.cpu_changes += u64::from(sums.last_cpu.is_some_and(|last| last != run.cpu));
        sums.last_cpu = Some(run.cpu);
        let Some(wait) = change.from.wait() else {
            return;
        };
        let start = wait.from_waking().unwrap_or(change.at);
        if wait.doubtful {
            self.anomalies.doubtful_waits += 1;
            let length = change.at.saturating_sub(start);
            let longest = &mut self.anomalies.doubtful_longest;
            *longest = length.max(*longest);
            if !self.doubtful {
                return;
            }
        }
        let queued = wait.from_wakeup().unwrap_or(change.at);
        sums.from_waking.add(start, change.at);
        sums.from_wakeup.add(queued, change.at);
        let counted = match self.distribution {
            Some(WakeStart::Waking) => start,
            Some(WakeStart::Wakeup) => queued,
            None => return,
        };
        sums.distribution.add(change.at.saturating_sub(counted));
    }

    fn cpu_span(&mut self, _: &History, span: &CpuSpan) {
        let length = span.to - span.from;
        match span.doing {
            Doing::Unknown => self.anomalies.unattributed += length,
            Doing::Idle => self.cpu(span.cpu).idle += length,
            Doing::Task(id) => {
                self.cpu(span.cpu).busy += length;
                self.tasks.of(id).runtime += length;
            }
        }
    }

    fn mark(&mut self, _: &History, mark: &Mark) {
        self.anomalies.count(mark.kind);
    }

    fn event(
        &mut self,
        _: &History,
        _: u64,
        step: &Step,
        task: Option<TaskId>,
        next: Option<TaskId>,
    ) {
        match step.kind {
            StepKind::Switch { state, .. } => self.switched(step.cpu, state, task, next),
            StepKind::Waking(..) => self.summary.wakings += 1,
            StepKind::Wakeup(..) => self.summary.wakeups += 1,
            StepKind::WakeupNew(..) => self.summary.new_tasks += 1,
            StepKind::Migrate { .. } => {
                self.summary.migrations += 1;
                if let Some(id) = task {
                    self.tasks.of(id).migrations += 1;
                }
            }
            StepKind::Runtime(_, runtime) => {
                if let Some(id) = task {
                    let sum = &mut self.tasks.of(id).stat_runtime;
                    *sum = Some(sum.unwrap_or_default().saturating_add(runtime));
                }
            }
            _ => {}
        }
    }
}
