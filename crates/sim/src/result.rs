//! What a simulation tells at its end, beside its events.

use schedlab_fair::{Ns, Reason};

use crate::state::{CpuTimes, TaskStats};

/// Requests to reschedule, by why and where they were made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReschedCount {
    /// Why.
    pub reason: Reason,
    /// Depth of the queue whose rule asked: 0 for the root queue; `None` where no queue did.
    pub depth: Option<u16>,
    /// How often.
    pub count: u64,
}

/// One task's part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskResult {
    /// Name.
    pub comm: String,
    /// Pid in the events.
    pub pid: i32,
    /// Time on a CPU, user and system.
    pub run: Ns,
    /// Run time that the fair class charged.
    pub charged: Ns,
    /// Whether it ended.
    pub ended: bool,
    /// Counters.
    pub stats: TaskStats,
}

/// The result of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunResult {
    /// Simulated time at the end.
    pub end: Ns,
    /// Whether every task ended.
    pub ended: bool,
    /// Whether the run stopped because every task waits for another.
    pub deadlock: bool,
    /// In that case, the first tasks that wait.
    pub waiting: Vec<String>,
    /// When the last task ended.
    pub last_exit: Ns,
    /// Events that were traced.
    pub events: u64,
    /// Units of work counted by the programs.
    pub work: u64,
    /// Wakeups.
    pub wakeups: u64,
    /// Changes of CPU.
    pub migrations: u64,
    /// Switches on all CPUs, those to and from idle included.
    pub switches: u64,
    /// Time by CPU; each sums to `end`.
    pub cpus: Vec<CpuTimes>,
    /// Idle CPUs beside waiting tasks.
    pub conservation: crate::conservation::WorkConservation,
    /// Tasks in order of creation.
    pub tasks: Vec<TaskResult>,
    /// Requests to reschedule.
    pub resched: Vec<ReschedCount>,
    /// What core scheduling did.
    pub core: crate::core_sched::CoreStats,
}
