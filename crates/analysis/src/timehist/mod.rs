//! Every switch with how long the leaving task had waited and run: `perf sched timehist`.
//!
//! Lines and columns are perf's, digits included (it cuts where other tables round), so that scripts work on both:
//!
//! - **wait time**: from the task's last switch-out to this switch-in, whatever it did meanwhile;
//! - **sch delay**: from the wake event to the switch-in. A preempted task has none here, other than in the latency table;
//! - **run time**: from the switch-in to this switch-out.
//!
//! Where perf goes wrong, the numbers differ:
//!
//! - a switch that is missing is not run time. If `sched_stat_runtime` tells when the task was switched in, it counts
//!   from there and the line ends in `~`; else run time is 0.000, as for a task that ran when the trace began. perf counts
//!   from the last switch it saw, whoever ran then;
//! - an aborted sleep (called before the switch-out, no wakeup after it) has the delay that it had; perf shows none;
//! - states are the kernel's letters. perf 6.1 has a table of older kernels: `I` is its `K`, `Z` and `X` are swapped;
//! - names come from the events; perf has none for tasks that lived before the recording;
//! - what contradicts other events ends in `?`;
//! - `--time` and `-C` hold for wake events and migrations, too; perf prints migrations of all time, and both of all CPUs. A task's
//!   wait before the window is the whole wait; perf measures it to the beginning of the window;
//! - `-I` keeps the times of tasks, which perf prints as 0.

mod format;
mod summary;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use schedlab_trace::{Comm, Pid, PrevState};
use serde::Serialize;

pub use format::TimehistForm;
pub(crate) use format::{quoted, seconds};
pub use window::TimeWindow;

use crate::TaskFilter;
use crate::history::{
    Change, CpuSpan, Doing, History, Mark, MarkKind, Named, Observer, PerTask, Step, StepKind,
    TaskId, TaskState, WaitCause,
};
use crate::latency::WakeStart;
use summary::Sums;

/// What to print; the names of perf's options are given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TimehistOptions {
    /// Form of the lines.
    pub form: TimehistForm,
    /// `-w`: a line for each wake event.
    pub wakeups: bool,
    /// `-M`: a line for each migration, and a column in the summary.
    pub migrations: bool,
    /// `-n`: who comes next.
    pub next: bool,
    /// `--state`: the state of the task that leaves.
    pub state: bool,
    /// `-V`: a column for each of so many CPUs.
    pub visual: Option<usize>,
    /// `-s`: only the summary.
    pub summary_only: bool,
    /// `-S`: the summary after the lines.
    pub with_summary: bool,
    /// Only lines about these tasks.
    pub filter: TaskFilter,
    /// `--time`: only this part of the trace. Run and idle times count as far as they lie within; a switch after the end that
    /// closes a stretch from within has a line at the end.
    pub window: TimeWindow,
    /// `-C`: only lines and times of these CPUs.
    pub cpus: Option<BTreeSet<u32>>,
    /// `-I`: only switches from and to the idle tasks; the summary is of idle times, by the task that left the CPU idle.
    pub idle_only: bool,
    /// Start of delays after a sleep.
    pub start: WakeStart,
}

/// One switch as a line shows it, times in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
struct Switch {
    ts: u64,
    cpu: u32,
    pid: Pid,
    wait: u64,
    delay: u64,
    run: u64,
    /// The switch-in was not recorded but inferred.
    inferred: bool,
    /// Contradicts other events.
    doubtful: bool,
}

/// What a line says of the task that leaves.
#[derive(Clone, Copy, Debug, Default)]
struct Stay {
    since: Option<u64>,
    wait: u64,
    delay: u64,
    inferred: bool,
    doubtful: bool,
    /// The switch-in to come is one.
    next_inferred: bool,
    /// Set by the switch-out, read by its line.
    run: u64,
    last_out: Option<u64>,
    sums: Sums,
    /// Of idle stays that began when the task left.
    idle: Sums,
}

/// The idle task of a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Idle {
    since: Option<u64>,
    wait: u64,
    last_out: Option<u64>,
    /// When a task that came without a switch began to run.
    ended: Option<u64>,
    /// All idle time.
    sum: u64,
    /// Who ran before it.
    after: Option<TaskId>,
    /// The CPU's last switch.
    last_switch: Option<u64>,
}

/// The observer: writes lines as switches come.
///
/// Memory: about 150 bytes per task.
#[derive(Debug)]
pub struct Timehist<W> {
    options: TimehistOptions,
    out: W,
    line: String,
    tasks: PerTask<Stay>,
    idle: BTreeMap<u32, Idle>,
    /// The trace has `sched_waking`, so `sched_wakeup` has no lines.
    has_waking: bool,
    switches: u64,
    first: Option<u64>,
    last: u64,
    error: Option<io::Error>,
}

impl<W: Write> Timehist<W> {
    /// Writes the header.
    #[must_use]
    pub fn new(options: TimehistOptions, out: W) -> Self {
        let mut this = Self {
            options,
            out,
            line: String::new(),
            tasks: PerTask::default(),
            idle: BTreeMap::new(),
            has_waking: false,
            switches: 0,
            first: None,
            last: 0,
            error: None,
        };
        if !this.options.summary_only {
            format::header(&this.options, &mut this.line);
            this.flush();
        }
        this
    }

    /// Whether writing failed; further lines are not written then.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.error.is_some()
    }

    /// Writes the summary if asked for and gives the output back.
    ///
    /// # Errors
    /// The first that writing met.
    pub fn finish(mut self, history: &History) -> io::Result<W> {
        if self.options.summary_only || self.options.with_summary {
            let shown = self.idle.iter().filter(|&(&cpu, _)| self.shows_cpu(cpu));
            let idle: Vec<(u32, u64)> = shown.map(|(&cpu, i)| (cpu, i.sum)).collect();
            let totals = summary::Totals {
                idle,
                switches: self.switches,
                window: self.last.saturating_sub(self.first.unwrap_or(0)),
            };
            let idle_only = self.options.idle_only;
            let tasks = self.tasks.iter().map(|(id, stay)| match idle_only {
                true => (id, &stay.idle),
                false => (id, &stay.sums),
            });
            summary::write(&self.options, history, tasks, &totals, &mut self.line);
            self.flush();
        }
        match self.error {
            Some(error) => Err(error),
            None => {
                self.out.flush()?;
                Ok(self.out)
            }
        }
    }

    fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.out.write_all(self.line.as_bytes()).err();
        }
        self.line.clear();
    }

    fn shows(&self, history: &History, tasks: &[Option<TaskId>]) -> bool {
        !self.options.summary_only
            && (self.options.filter.is_all()
                || tasks
                    .iter()
                    .flatten()
                    .any(|&id| self.options.filter.matches(history.task(id))))
    }

    fn switched(
        &mut self,
        history: &History,
        ts: u64,
        step: &Step,
        tasks: (Option<TaskId>, Option<TaskId>),
        names: (Named, PrevState, Named),
    ) {
        let (task, next) = tasks;
        let (prev, prev_state, next_named) = names;
        let counted = self.counts(ts, step.cpu);
        let about_idle = prev.pid == 0 || next_named.pid == 0;
        let within = counted && (about_idle || !self.options.idle_only);
        self.switches += u64::from(within);
        if counted {
            let seen = ts.min(self.options.window.stop);
            self.first = Some(self.first.map_or(seen, |first| first.min(seen)));
            self.last = self.last.max(seen);
        }
        let switch = self.leaving(ts, step.cpu, prev.pid, task, within);
        let idle = self.idle.entry(step.cpu).or_default();
        if next_named.pid == 0 {
            idle.since = Some(ts);
            idle.wait = idle.last_out.map_or(0, |out| ts.saturating_sub(out));
            idle.after = task;
        }
        idle.ended = None;
        idle.last_switch = Some(ts);
        if within && self.shows(history, &[task, next]) {
            let parts = format::SwitchLine {
                switch,
                comm: prev.comm,
                state: prev_state,
                next: next_named,
            };
            format::switch(&self.options, &parts, &mut self.line);
            self.flush();
        }
    }

    fn shows_cpu(&self, cpu: u32) -> bool {
        let cpus = self.options.cpus.as_ref();
        cpus.is_none_or(|cpus| cpus.contains(&cpu))
    }

    /// Whether a switch lies within what is looked at.
    fn counts(&self, ts: u64, cpu: u32) -> bool {
        let window = self.options.window;
        // The first switch after the end closes what began before it.
        let closes = || {
            let last = self.idle.get(&cpu).and_then(|idle| idle.last_switch);
            last.is_none_or(|last| last <= window.stop)
        };
        self.shows_cpu(cpu) && ts >= window.start && (ts <= window.stop || closes())
    }

    /// What is known of the task, or idle task, that leaves. Its times are counted if the switch is within what is looked at.
    fn leaving(
        &mut self,
        ts: u64,
        cpu: u32,
        pid: Pid,
        task: Option<TaskId>,
        within: bool,
    ) -> Switch {
        let window = self.options.window;
        let idle = self.idle.entry(cpu).or_default();
        let mut switch = Switch {
            ts: ts.min(window.stop),
            cpu,
            pid,
            wait: 0,
            delay: 0,
            run: 0,
            inferred: false,
            doubtful: false,
        };
        if let Some(id) = task {
            if idle.since.take().is_some() {
                idle.last_out = idle.ended.or(Some(ts));
            }
            let stay = self.tasks.of(id);
            switch = Switch {
                wait: stay.wait,
                delay: stay.delay,
                run: stay.run,
                inferred: stay.inferred,
                doubtful: stay.doubtful,
                ..switch
            };
            if within {
                stay.sums.add(stay.run);
            }
        } else {
            if let Some(since) = idle.since.take() {
                (switch.wait, switch.run) = (idle.wait, window.overlap(since, ts));
                if let (true, Some(id)) = (within, idle.after.take()) {
                    self.tasks.of(id).idle.add(switch.run);
                }
            }
            idle.last_out = Some(ts);
        }
        switch
    }

    /// A line about another task than the one that runs.
    fn note(
        &mut self,
        history: &History,
        ts: u64,
        step: &Step,
        about: TaskId,
        moved: Option<(u32, u32)>,
    ) {
        let elsewhere = !self.options.window.contains(ts) || !self.shows_cpu(step.cpu);
        if elsewhere || self.options.idle_only {
            return;
        }
        let current = history.find(step.pid);
        if !self.shows(history, &[current, Some(about)]) {
            return;
        }
        let comm = current.map_or(Comm::default(), |id| history.task(id).comm);
        let task = history.task(about);
        let note = format::Note {
            ts,
            cpu: step.cpu,
            current: (comm, step.pid),
            about: (task.comm, task.pid),
            moved,
        };
        format::note(&self.options, &note, &mut self.line);
        self.flush();
    }
}

impl<W: Write> Observer for Timehist<W> {
    fn change(&mut self, _: &History, change: &Change) {
        let stay = self.tasks.of(change.task);
        if let TaskState::Running(run) = change.from {
            stay.run = stay
                .since
                .take()
                .map_or(0, |since| self.options.window.overlap(since, change.at));
            stay.last_out = Some(change.at);
            stay.doubtful |= run.contested;
        }
        let TaskState::Running(run) = change.to else {
            return;
        };
        stay.since = (!run.unseen_start).then_some(change.at);
        stay.wait = match (stay.since, stay.last_out) {
            (Some(since), Some(out)) => since.saturating_sub(out),
            _ => 0,
        };
        stay.delay = 0;
        stay.doubtful = false;
        stay.inferred = std::mem::take(&mut stay.next_inferred);
        if let Some(wait) = change.from.wait() {
            stay.doubtful = wait.doubtful;
            let start = match self.options.start {
                WakeStart::Waking => wait.from_waking(),
                WakeStart::Wakeup => wait.from_wakeup(),
            };
            let preempted = matches!(wait.cause, WaitCause::Preempted | WaitCause::Yielded);
            if let (false, Some(start)) = (preempted, start) {
                stay.delay = change.at.saturating_sub(start);
            }
        }
        // A switch event clears this again.
        let idle = self.idle.entry(run.cpu).or_default();
        idle.ended = idle.ended.or(Some(change.at));
    }

    fn cpu_span(&mut self, _: &History, span: &CpuSpan) {
        if span.doing == Doing::Idle {
            let ns = self.options.window.overlap(span.from, span.to);
            self.idle.entry(span.cpu).or_default().sum += ns;
        } else {
            self.idle.entry(span.cpu).or_default();
        }
    }

    fn mark(&mut self, _: &History, mark: &Mark) {
        // Told just before the change that it is about.
        if let (MarkKind::InferredSwitch, Some(id)) = (mark.kind, mark.task) {
            self.tasks.of(id).next_inferred = true;
        }
    }

    fn event(
        &mut self,
        history: &History,
        ts: u64,
        step: &Step,
        task: Option<TaskId>,
        next: Option<TaskId>,
    ) {
        match (step.kind, task) {
            (
                StepKind::Switch {
                    prev,
                    state,
                    next: named,
                },
                _,
            ) => {
                self.switched(history, ts, step, (task, next), (prev, state, named));
            }
            (StepKind::Waking(..), Some(id)) => {
                self.has_waking = true;
                if self.options.wakeups {
                    self.note(history, ts, step, id, None);
                }
            }
            (StepKind::Wakeup(..), Some(id)) if self.options.wakeups && !self.has_waking => {
                self.note(history, ts, step, id, None);
            }
            (StepKind::WakeupNew(..), Some(id)) if self.options.wakeups => {
                self.note(history, ts, step, id, None);
            }
            (
                StepKind::Migrate {
                    orig_cpu, dest_cpu, ..
                },
                Some(id),
            ) => {
                if self.options.window.contains(ts) && self.shows_cpu(step.cpu) {
                    self.tasks.of(id).sums.migrations += 1;
                }
                if self.options.migrations {
                    self.note(history, ts, step, id, Some((orig_cpu, dest_cpu)));
                }
            }
            _ => {}
        }
    }
}
