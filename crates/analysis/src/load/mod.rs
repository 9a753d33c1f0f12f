//! What a trace's tasks demanded: the load behind a schedule, so that it can be scheduled anew.
//!
//! A [`Load`] says of each task how much CPU time it used between two places where it acts or sleeps, what it did
//! there (woke a task, forked one, yielded) and what ended each of its sleeps: another task, or a time. What the
//! scheduler chose is left out: a task that was preempted has one stretch of work, not two.
//!
//! - **Work** is the time between switch-in and switch-out, system calls and interrupts on top of it included: a
//!   trace of the scheduler's events cannot tell them apart.
//! - **Who woke** whom is told by `sched_waking`. In the context of a task, that task is the waker and the wakee waits for it.
//!   In an interrupt (flags column) or in the idle task it was a timer or a device: the time is kept. Where the source
//!   has no flags, wakeups of a task that come at regular times are taken for a timer's ([`LoadReport::wakers_by_regularity`]).
//! - **Timers** ([`Until::Time`]): where the times of one task are regular, the period stands in
//!   [`LoadTask::period`] and the times are those of the period; else they are kept as they are. Sleeps in state `D`, and
//!   sleeps that are all equally long though their times are not regular, are lengths ([`Until::After`]).
//! - **CPUs**: a task is held to have been kept off a CPU that it never used and that was idle, again and again, while it
//!   waited; kernel threads of one CPU carry it in their name.
//!
//! Nothing is dropped in silence: [`LoadReport`] counts what had no effect and what is missing.

mod affinity;
mod finish;
mod report;
mod step;
mod ticks;
mod timing;
mod walk;

pub use report::LoadReport;
pub use walk::LoadBuilder;

use schedlab_trace::{Comm, Pid};

/// Index of a task in [`Load::tasks`].
pub type TaskIndex = usize;

/// The load of a trace. Times are nanoseconds from its first event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Time of the first event on the trace's own clock.
    pub first_ts: u64,
    /// Time between the first and the last event.
    pub span: u64,
    /// CPUs: the highest number seen, plus one.
    pub cpus: u32,
    /// Ticks a second, if the trace shows them.
    pub hz: Option<u32>,
    /// Time of a tick of CPU 0 after the first event, less than a tick.
    pub tick_phase: u64,
    /// How much later the ticks of each CPU come than those of the CPU before it.
    pub tick_skew: u64,
    /// Median time from a call by a task on another CPU to the switch-in on an idle CPU, if that was seen.
    pub idle_exit: Option<u64>,
    /// Tasks in the order in which the trace names them.
    pub tasks: Vec<LoadTask>,
    /// What was counted on the way.
    pub report: LoadReport,
}

/// One task's part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadTask {
    /// Its pid.
    pub pid: Pid,
    /// Its last name.
    pub comm: Comm,
    /// `prio` when it was first seen: 0 to 98 real time, 100 to 139 fair; `None` if no event tells.
    pub prio: Option<i32>,
    /// How it came into the trace.
    pub birth: Birth,
    /// What it did, in order.
    pub acts: Vec<Act>,
    /// Whether its end was seen.
    pub ended: bool,
    /// CPUs that it may use, ascending; empty for all.
    pub affinity: Vec<u32>,
    /// The task with which it takes turns: nine in ten of the sleeps of each that a task ended were ended by the other.
    /// At every recorded wakeup the wakee had taken all wakeups before; between partners that is held to be no accident
    /// (a request and its reply), although the trace shows only those messages that woke somebody.
    pub partner: Option<TaskIndex>,
    /// Period of its timer, if most of its timers' times are regular.
    pub period: Option<u64>,
}

/// How a task came into the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Birth {
    /// It was there at the beginning, runnable (running, or seen next at a switch-in).
    Runnable,
    /// It was there at the beginning, asleep: its first act is that sleep.
    Asleep,
    /// Forked by this task, which has the [`Act::Fork`], at this time.
    Forked(TaskIndex, u64),
    /// It appears at this time; nobody is known to have forked it.
    At(u64),
}

/// One act of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Used the CPU.
    Run {
        /// For so long.
        ns: u64,
        /// In so many pieces: switch-ins, the first one included if the task slept before.
        pieces: u32,
    },
    /// Woke a task, which waited for it.
    Wake(TaskIndex),
    /// Forked a task.
    Fork(TaskIndex),
    /// Slept.
    Sleep {
        /// From this time on.
        from: u64,
        /// What ended it.
        until: Until,
        /// In state `D`.
        deep: bool,
    },
    /// Called `sched_yield` (seen only if that was recorded).
    Yield,
    /// Got another `prio`.
    Prio(i32),
}

/// What ended a sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// A task, which has the [`Act::Wake`].
    Task(TaskIndex),
    /// A timer or device, at this time.
    Time(u64),
    /// A timer or device, this long after the sleep began.
    After(u64),
    /// Nothing: it lasts beyond the end of the trace.
    End,
}

impl Load {
    /// Sum of all work, ns: the run time that the trace shows.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.tasks.iter().map(LoadTask::work).sum()
    }
}

impl LoadTask {
    /// Sum of its work, ns.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.acts
            .iter()
            .map(|a| match a {
                Act::Run { ns, .. } => *ns,
                _ => 0,
            })
            .sum()
    }

    /// When it becomes runnable or begins its first sleep.
    #[must_use]
    pub fn start(&self) -> u64 {
        match self.birth {
            Birth::Runnable | Birth::Asleep => 0,
            Birth::Forked(_, at) | Birth::At(at) => at,
        }
    }
}
