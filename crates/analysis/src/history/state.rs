//! States of tasks and CPUs.

use schedlab_trace::{Comm, Pid, PrevState};

/// A task of a history: the number in order of first mention. A pid that is used again gets another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskId(pub usize);

/// Who woke a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waker {
    /// Pid that was current where the wake event was recorded; 0 is that CPU's idle task.
    pub pid: Pid,
    /// The CPU.
    pub cpu: u32,
    /// The event came in an interrupt: the current task was only the one that was interrupted.
    pub interrupt: bool,
}

/// A call for a wakeup (`sched_waking`) that is not answered yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// When, ns.
    pub at: u64,
    /// By whom.
    pub waker: Waker,
}

/// Why a task waits for a CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WaitCause {
    /// Woken from a sleep.
    Wakeup,
    /// New, woken for the first time.
    Fork,
    /// Left the CPU with `R+`, or with `R` without a sign of a yield: preempted (or, with `R`, perhaps a yield that
    /// was not traced).
    Preempted,
    /// Left the CPU in `sched_yield`.
    Yielded,
    /// Left the CPU to sleep, but was called before: runnable all the time.
    AbortedSleep,
}

/// A wait for a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Why.
    pub cause: WaitCause,
    /// The CPU on whose queue the task is (in [`TaskState::Waking`]: will be, as far as known).
    pub cpu: u32,
    /// Time of `sched_waking`, ns; of the switch-out if the task stayed runnable.
    pub waking: Option<u64>,
    /// Time of `sched_wakeup`, ns; of the switch-out if the task stayed runnable.
    pub wakeup: Option<u64>,
    /// Who woke it.
    pub waker: Option<Waker>,
    /// Moves to another queue while waiting.
    pub moves: u32,
    /// Its beginning contradicts other events, or the task was charged CPU time meanwhile: the length means nothing.
    pub doubtful: bool,
}

impl Wait {
    /// Begin, ns: from `sched_waking` where it is known.
    #[must_use]
    pub fn from_waking(&self) -> Option<u64> {
        self.waking.or(self.wakeup)
    }

    /// Begin, ns: from `sched_wakeup` where it is known.
    #[must_use]
    pub fn from_wakeup(&self) -> Option<u64> {
        self.wakeup.or(self.waking)
    }
}

/// A stay on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The CPU.
    pub cpu: u32,
    /// A call for a wakeup that came meanwhile and is not answered yet.
    pub waking: Option<Call>,
    /// By other events the task was on another CPU at the same time.
    pub contested: bool,
    /// The switch-in was not recorded, and nothing tells when it was.
    pub unseen_start: bool,
}

/// A sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sleep {
    /// Kind of sleep.
    pub prev_state: PrevState,
    /// The CPU that it left.
    pub cpu: u32,
    /// A call for a wakeup that came before the sleep and is not answered yet.
    pub waking: Option<Call>,
}

/// What a task is doing by the events so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskState {
    /// Nothing said yet, or lost sight of.
    Unknown,
    /// Forked, not yet woken for the first time.
    New,
    /// Switched out to sleep.
    Sleeping(Sleep),
    /// Called (`sched_waking`), not known to be on a queue yet.
    Waking(Wait),
    /// On a queue, not running.
    Runnable(Wait),
    /// On a CPU.
    Running(Run),
    /// Ended.
    Dead,
}

impl TaskState {
    /// The wait, for [`TaskState::Waking`] and [`TaskState::Runnable`].
    #[must_use]
    pub fn wait(&self) -> Option<&Wait> {
        match self {
            Self::Waking(wait) | Self::Runnable(wait) => Some(wait),
            _ => None,
        }
    }

    pub(super) fn wait_mut(&mut self) -> Option<&mut Wait> {
        match self {
            Self::Waking(wait) | Self::Runnable(wait) => Some(wait),
            _ => None,
        }
    }

    /// The stay on a CPU, for [`TaskState::Running`].
    #[must_use]
    pub fn run(&self) -> Option<&Run> {
        match self {
            Self::Running(run) => Some(run),
            _ => None,
        }
    }
}

/// What is known of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Task {
    /// Thread id.
    pub pid: Pid,
    /// The last name that an event gave it; empty if none did.
    pub comm: Comm,
    /// The last priority that an event gave it.
    pub prio: Option<i32>,
    /// Who forked it, if that was traced.
    pub parent: Option<Pid>,
    /// What it does.
    pub state: TaskState,
    /// Since when, ns.
    pub since: u64,
    /// Time of the first event that names it, ns.
    pub first: u64,
    /// CPU it ran on last.
    pub last_cpu: Option<u32>,
    /// It called `sched_yield` and has not left the CPU since.
    pub(super) yielding: bool,
    /// Place in the queue of the CPU where it waits.
    pub(super) queue_place: usize,
}

/// What a CPU does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Doing {
    /// The trace does not tell.
    Unknown,
    /// Runs its idle task.
    Idle,
    /// Runs this task.
    Task(TaskId),
}

/// State of a CPU.
#[derive(Clone, Debug)]
pub(super) struct Cpu {
    pub(super) current: Doing,
    /// Since when.
    pub(super) since: u64,
    /// Last event of this CPU.
    pub(super) seen: u64,
    /// Set if `current` was not switched in by an event but seen running.
    pub(super) guess: Option<Guess>,
}

/// A task runs whose switch-in is missing. The next `sched_stat_runtime` of it tells how long it has been running.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guess {
    /// The CPU's last event before the task was seen: it came later than that.
    pub(super) floor: u64,
    /// Whether the CPU was idle until then.
    pub(super) after_idle: bool,
    /// Nothing was heard of the task before.
    pub(super) first_sign: bool,
    /// What the task was doing before, and since when.
    pub(super) before: Option<(TaskState, u64)>,
}
