//! What each task and each CPU did, from the events of a trace: the one state machine below all analyses.
//!
//! Events go in, in order of time ([`Ordered`] sorts them in a window first). Out come, to an [`Observer`]:
//!
//! - [`Change`]s: a task leaves a [`TaskState`] for another. A change tells since when the task was in the state it
//!   leaves, so it is the closed span of that state as well. The changes of one task tile its life from the first
//!   event that names it;
//! - [`CpuSpan`]s: what a CPU did from when to when. They tile each CPU's time from its first event;
//! - [`Mark`]s: what contradicts itself or the rules of a kernel, or is missing;
//! - the events themselves, each after what it changed.
//!
//! Between events the state of every task and CPU can be asked of the [`History`], the tasks that wait on a CPU's
//! queue included.
//!
//! # Rules
//!
//! - Pid 0 is the idle task of each CPU: no task, but a state of the CPU.
//! - `sched_waking` (the call) makes a sleeper [`TaskState::Waking`], `sched_wakeup` (the arrival on a queue) makes it
//!   [`TaskState::Runnable`]. A trace with only one of the two works; the other time stays `None`.
//! - `sched_waking` of a running task is remembered. If the task then sleeps and a `sched_wakeup` follows, the sleep
//!   ended there. If it is switched in again without one, the sleep was aborted: it was runnable from the switch-out.
//! - A task that leaves the CPU with `prev_state` `R` or `R+` stays runnable. `R+` is a preemption inside the kernel.
//!   `R` is a preemption on the way back to user mode *or* a `sched_yield`; only a `sys_enter_sched_yield` event
//!   before it tells.
//! - Every event names the task that is current on its CPU. If that is not the one switched in last, a switch is
//!   missing: what the CPU did since its last event is unknown, until a `sched_stat_runtime` of the task tells when it
//!   was switched in. Such a change comes late, with a time before the events that came meanwhile; those of one
//!   task, and spans of one CPU, still come in order.
//! - A pid that comes back after its end, or is forked again, is another task.
//!
//! Memory: about 200 bytes for each task that the trace names.

mod cpus;
mod machine;
mod ordered;
mod state;
mod step;
mod table;
mod wakes;

pub use machine::{History, HistoryOptions, WakeupPolicy};
pub use ordered::Ordered;
pub use state::{Call, Doing, Run, Sleep, Task, TaskId, TaskState, Wait, WaitCause, Waker};
pub use step::{Named, Step, StepKind};
pub use table::PerTask;

/// A task left a state for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The task.
    pub task: TaskId,
    /// What it was doing.
    pub from: TaskState,
    /// Since when, ns.
    pub since: u64,
    /// What it does now.
    pub to: TaskState,
    /// When it changed, ns; not before `since`.
    pub at: u64,
}

impl Change {
    /// Time spent in the state that it leaves, ns.
    #[must_use]
    pub fn span(&self) -> u64 {
        self.at.saturating_sub(self.since)
    }
}

/// What a CPU did for some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuSpan {
    /// CPU number.
    pub cpu: u32,
    /// What it did.
    pub doing: Doing,
    /// From when, ns.
    pub from: u64,
    /// To when, ns; not before `from`.
    pub to: u64,
}

/// Something that does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// When it was noticed, ns.
    pub at: u64,
    /// CPU of the event.
    pub cpu: u32,
    /// The task it is about, if one is.
    pub task: Option<TaskId>,
    /// What.
    pub kind: MarkKind,
}

/// Kinds of [`Mark`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum MarkKind {
    /// Another task is current than the last switch had switched in: a switch is missing (lost, or not recorded).
    MissingSwitch,
    /// A missing switch whose time a `sched_stat_runtime` told.
    InferredSwitch,
    /// A task is seen on a CPU while it ran on another one.
    OnTwoCpus,
    /// CPU time was charged to a task that is not running: it ran unseen.
    RuntimeWithoutSwitch,
    /// `sched_waking` of a running task. Normal: the waker was faster than the sleeper.
    WakingWhileRunning,
    /// `sched_wakeup` of a running task. Normal in small numbers, for the same reason.
    WakeupWhileRunning,
    /// A wake event for a task that was waiting for a CPU already.
    WakeWhileWaiting,
    /// A wake event for a task that had ended.
    WakeOfDead,
    /// A sleep that ended with a `sched_waking` from before it began, and so was none.
    AbortedSleep,
    /// A sleeping (or newly forked) task was switched in without any wake event.
    MissingWakeup,
    /// A time before the one it should follow: an event came too late to be sorted.
    Negative,
}

/// Takes what a [`History`] finds. All methods do nothing unless overridden.
#[allow(unused_variables)]
pub trait Observer {
    /// A task changed its state; the history has the new one already.
    fn change(&mut self, history: &History, change: &Change) {}

    /// A CPU ends what it did; called before the tasks involved change.
    fn cpu_span(&mut self, history: &History, span: &CpuSpan) {}

    /// Something does not fit.
    fn mark(&mut self, history: &History, mark: &Mark) {}

    /// An event, after all that it changed. `task` is the task that it names (for a switch the one that leaves),
    /// `next` the one that a switch brings; `None` for idle tasks.
    fn event(
        &mut self,
        history: &History,
        ts: u64,
        step: &Step,
        task: Option<TaskId>,
        next: Option<TaskId>,
    ) {
    }
}

impl Observer for () {}

impl<A: Observer, B: Observer> Observer for (A, B) {
    fn change(&mut self, history: &History, change: &Change) {
        self.0.change(history, change);
        self.1.change(history, change);
    }

    fn cpu_span(&mut self, history: &History, span: &CpuSpan) {
        self.0.cpu_span(history, span);
        self.1.cpu_span(history, span);
    }

    fn mark(&mut self, history: &History, mark: &Mark) {
        self.0.mark(history, mark);
        self.1.mark(history, mark);
    }

    fn event(
        &mut self,
        history: &History,
        ts: u64,
        step: &Step,
        task: Option<TaskId>,
        next: Option<TaskId>,
    ) {
        self.0.event(history, ts, step, task, next);
        self.1.event(history, ts, step, task, next);
    }
}
