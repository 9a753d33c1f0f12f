//! State of tasks, CPUs and the objects that tasks share.

use std::collections::VecDeque;

use schedlab_fair::{Ns, TaskId};
use schedlab_topology::CpuSet;
use schedlab_trace::event::{Comm, PrevState};

use crate::counters::{RqStats, SchedInfo};
use crate::program::{LockKind, Mode, Sched};
use crate::rng::{NameHash, Stream};
use crate::rt::RtQueue;
use crate::server::FairServer;

/// The CPUs of an affinity list; an empty list allows all.
pub(crate) fn allowed_cpus(list: &[u32], n: usize) -> CpuSet {
    if list.is_empty() {
        CpuSet::all(n)
    } else {
        CpuSet::of(list.iter().copied(), n)
    }
}

/// Scheduling class of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClassOf {
    Fair,
    /// Real time; `prio` 0 is the most urgent, 98 the least.
    Rt {
        prio: u8,
        rr: bool,
    },
}

/// Where a task is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    /// Not started.
    New,
    /// Queued or running.
    Runnable,
    /// Asleep in this state.
    Asleep(PrevState),
    /// Its activation on another CPU is under way.
    Waking,
    /// Ended.
    Dead,
}

/// What a task is in the middle of, on its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    /// Nothing: the next instruction is to be fetched.
    Nothing,
    /// Work of the program.
    Work {
        mode: Mode,
        left: u64,
        /// Spacing of `cond_resched`, and what is left to the next one.
        cond: Option<(u64, u64)>,
    },
    /// Spinning on a lock; `left` until it yields or sleeps, if it does.
    Spin { lock: u32, left: u64 },
}

/// What comes behind the work that a task is doing, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ahead {
    /// Work of the program.
    Work { mode: Mode, ns: u64 },
    /// Units of finished work to count.
    Count(u64),
    /// Entry of a system call.
    Call { ns: u64 },
}

/// How many stretches are looked ahead at most.
const AHEAD: usize = 6;

/// Stretches of work ahead of a task, so that one event does for all of them where nobody asks to reschedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aheads {
    list: [Ahead; AHEAD],
    from: u8,
    end: u8,
    /// Time that all take together, ns.
    pub(crate) ns: u64,
}

impl Aheads {
    pub(crate) const NONE: Self = Self {
        list: [Ahead::Count(0); AHEAD],
        from: 0,
        end: 0,
        ns: 0,
    };

    fn time(a: Ahead) -> u64 {
        match a {
            Ahead::Work { ns, .. } | Ahead::Call { ns } => ns,
            Ahead::Count(_) => 0,
        }
    }

    pub(crate) fn first(&self) -> Option<Ahead> {
        (self.from < self.end).then(|| self.list[usize::from(self.from)])
    }

    pub(crate) fn pop(&mut self) -> Option<Ahead> {
        let first = self.first()?;
        self.from += 1;
        if self.from == self.end {
            (self.from, self.end) = (0, 0);
        }
        self.ns -= Self::time(first);
        Some(first)
    }

    pub(crate) fn is_full(&self) -> bool {
        usize::from(self.end) == AHEAD
    }

    /// Whether a task in `now` is in user mode behind all of them.
    pub(crate) fn in_user_behind(&self, now: Kernel) -> bool {
        let list = &self.list[usize::from(self.from)..usize::from(self.end)];
        let last = list.iter().rev().find_map(|a| match a {
            Ahead::Work { mode, .. } => Some(*mode == Mode::User),
            _ => None,
        });
        last.unwrap_or(now == Kernel::User)
    }

    /// Adds one; there must be room.
    pub(crate) fn push(&mut self, a: Ahead) {
        self.list[usize::from(self.end)] = a;
        self.end += 1;
        self.ns = self.ns.saturating_add(Self::time(a));
    }
}

/// How deep in the kernel a task is, for the places at which it may be rescheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kernel {
    /// In user mode.
    User,
    /// Inside a system call that goes on with the next instruction.
    Inside,
    /// A system call is done: return to user mode comes next.
    Leaving,
}

/// What a sleeping instruction must do when its task runs again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Retry {
    /// Go on behind it.
    No,
    /// Try it again: the condition may have gone.
    Again,
    /// Take the lock that a wait released.
    Relock(u32),
}

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) comm: Comm,
    pub(crate) name: String,
    pub(crate) pid: i32,
    pub(crate) fair: TaskId,
    pub(crate) class: ClassOf,
    pub(crate) sched: Sched,
    pub(crate) life: Life,
    pub(crate) cpu: u32,
    pub(crate) allowed: CpuSet,
    pub(crate) restricted: bool,
    pub(crate) mm: u32,
    pub(crate) pc: u32,
    pub(crate) loops: Vec<u64>,
    pub(crate) doing: Doing,
    pub(crate) ahead: Aheads,
    pub(crate) retry: Retry,
    /// Kernel work to do before the program goes on, ns.
    pub(crate) overhead: u64,
    pub(crate) kernel: Kernel,
    /// Number of the present sleep; a timer of an older one is stale.
    pub(crate) sleep_seq: u32,
    pub(crate) timers: Vec<(u32, u64)>,
    pub(crate) parent: Option<u32>,
    pub(crate) children: u32,
    pub(crate) waits_children: bool,
    pub(crate) suspended: bool,
    pub(crate) resume_pending: bool,
    pub(crate) rr_left: u32,
    pub(crate) rng: Stream,
    /// Name of that stream.
    pub(crate) stream: NameHash,
    /// Children that it ever had.
    pub(crate) forks: u32,
    pub(crate) start: u64,
    pub(crate) core: crate::core_sched::CoreTask,
    pub(crate) stats: TaskStats,
    pub(crate) info: SchedInfo,
}

impl Task {
    /// Begins work; entering or leaving the kernel is part of it.
    pub(crate) fn begin(&mut self, mode: Mode, ns: u64) {
        self.kernel = if mode == Mode::User {
            Kernel::User
        } else {
            Kernel::Inside
        };
        self.doing = if ns == 0 {
            Doing::Nothing
        } else {
            Doing::Work {
                mode,
                left: ns,
                cond: None,
            }
        };
    }

    /// Enters a system call, which takes this long before it does anything.
    pub(crate) fn enter_call(&mut self, ns: u64) {
        self.kernel = Kernel::Inside;
        self.doing = Doing::Nothing;
        self.overhead += ns;
    }
}

/// What a task did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskStats {
    /// User mode, ns.
    pub user: u64,
    /// Kernel mode, the scheduler's own paths and system calls included, ns.
    pub system: u64,
    /// Part of `user` spent spinning on locks, ns.
    pub spin: u64,
    /// Voluntary switches.
    pub nvcsw: u64,
    /// Involuntary switches.
    pub nivcsw: u64,
    /// Changes of CPU.
    pub migrations: u64,
    /// Wakeups.
    pub wakeups: u64,
    /// Calls of `sched_yield`.
    pub yields: u64,
}

/// Where a CPU's time went, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Programs in user mode.
    pub user: u64,
    /// Programs in kernel mode.
    pub system: u64,
    /// System calls, switches and wakeups.
    pub overhead: u64,
    /// Interrupts.
    pub irq: u64,
    /// Nothing.
    pub idle: u64,
    /// Part of `idle` with work at hand that core scheduling kept away, as it must not run beside a sibling's task.
    pub forced_idle: u64,
}

impl CpuTimes {
    /// Everything.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.user + self.system + self.overhead + self.irq + self.idle
    }
}

#[derive(Debug)]
pub(crate) struct Cpu {
    pub(crate) curr: Option<u32>,
    /// Time up to which everything is accounted.
    pub(crate) accounted: u64,
    /// Interrupt work still to be done before anything else, ns.
    pub(crate) irq_left: u64,
    /// Interrupt time that is no task's time, ns.
    pub(crate) irq_hidden: u64,
    /// The idle task's share of a switch, ns.
    pub(crate) idle_overhead: u64,
    /// When the present stretch of work ends; `u64::MAX` for never.
    pub(crate) end_at: u64,
    pub(crate) tick_armed: bool,
    /// The clock when a wakeup asked for a reschedule, which the next `schedule()` keeps.
    pub(crate) skip_clock: Option<Ns>,
    /// The clock that is kept, within `schedule()`.
    pub(crate) frozen_clock: Option<Ns>,
    /// What is armed is a remote tick: the CPU's own is off.
    pub(crate) tick_stopped: bool,
    /// Number of the tick that is armed.
    pub(crate) tick_seq: u32,
    /// The tick may stop under a single task.
    pub(crate) nohz_full: bool,
    /// Idle although it has work, for core scheduling.
    pub(crate) forced_idle: bool,
    pub(crate) hrtick_seq: u32,
    /// An interrupt to reschedule is under way.
    pub(crate) ipi_pending: bool,
    pub(crate) times: CpuTimes,
    pub(crate) stats: RqStats,
    pub(crate) rt: RtQueue,
    pub(crate) server: FairServer,
    pub(crate) nr_switches: u64,
    /// Those of them away from the idle task.
    pub(crate) from_idle: u64,
    /// `clock_task` up to which the next two are counted.
    pub(crate) classed: u64,
    /// `clock_task` that passed with the idle task current, and with real-time tasks, ns.
    pub(crate) idle_clock: u64,
    pub(crate) rt_clock: u64,
    pub(crate) tick_jitter: Stream,
}

#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) capacity: u32,
    pub(crate) overhead: u32,
    pub(crate) writer_wake_below: u32,
    pub(crate) wake_all_writers: bool,
    pub(crate) messages: bool,
    pub(crate) sync_wake: bool,
    /// Bytes of buffer in use.
    pub(crate) used: u32,
    /// Sizes of the messages inside.
    pub(crate) inside: VecDeque<u32>,
    pub(crate) readers: VecDeque<u32>,
    pub(crate) writers: VecDeque<u32>,
}

#[derive(Debug)]
pub(crate) struct Lock {
    pub(crate) kind: LockKind,
    pub(crate) owner: Option<u32>,
    /// CPU of the last owner.
    pub(crate) last_cpu: u32,
    pub(crate) waiters: VecDeque<u32>,
    /// Tasks that spin, running or not, in order of arrival.
    pub(crate) spinners: VecDeque<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct Barrier {
    pub(crate) count: u32,
    pub(crate) inside: Vec<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct Sem {
    pub(crate) count: u64,
    pub(crate) waiters: VecDeque<u32>,
}
