//! The event vocabulary: one variant per kernel tracepoint, fields as the kernel names them.
//!
//! Both the simulator and every reader produce [`Event`]s, so each analysis has one implementation.
//! Source of names and fields: `include/trace/events/sched.h` format descriptions, kernels 6.1 to 6.18.

use std::fmt;

/// A task name as the kernel holds it: at most 15 bytes, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Comm([u8; 16]);

impl Comm {
    /// Makes a name from text; bytes past the fifteenth are cut, as the kernel cuts them.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::from_bytes(name.as_bytes())
    }

    /// Makes a name from raw bytes up to the first zero; bytes past the fifteenth are cut.
    #[must_use]
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        // The kernel's own field: what lies behind the first zero goes, without a branch.
        if let Ok(field) = <[u8; 16]>::try_from(bytes) {
            const ONES: u128 = u128::from_ne_bytes([1; 16]);
            const LAST: u128 = 0xff << 120;
            let word = u128::from_le_bytes(field) & !LAST;
            // The lowest bit set is the top bit of the first byte that is zero (and there is one, the last).
            let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
            let first = zeros & zeros.wrapping_neg();
            return Self((word & ((first >> 7).wrapping_sub(1))).to_le_bytes());
        }
        Self::copied(bytes)
    }

    fn copied(bytes: &[u8]) -> Self {
        let mut out = [0; 16];
        let len = bytes
            .iter()
            .position(|&b| b == 0)
            .unwrap_or(bytes.len())
            .min(15);
        out[..len].copy_from_slice(&bytes[..len]);
        Self(out)
    }

    /// Whether the name is not known, or blank.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    /// The bytes before the padding.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let len = self.0.iter().position(|&b| b == 0).unwrap_or(16);
        &self.0[..len]
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A process id as traced (a thread id in user-space words). 0 is the idle task of *each* CPU.
pub type Pid = i32;

/// What `prev_state` of `sched_switch` says of the task that leaves the CPU.
///
/// Bits as the kernel prints them: `S` 1, `D` 2, `T` 4, `t` 8, `X` 0x10, `Z` 0x20, `P` 0x40, `I` 0x80;
/// `R` is no bit, and `R+` (preempted) is [`PrevState::PREEMPTED`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PrevState(pub u32);

impl PrevState {
    /// Still runnable: `R`.
    pub const RUNNING: Self = Self(0);
    /// `S`, interruptible sleep.
    pub const INTERRUPTIBLE: Self = Self(1);
    /// `D`, uninterruptible sleep.
    pub const UNINTERRUPTIBLE: Self = Self(2);
    /// `X`, dead.
    pub const DEAD: Self = Self(0x10);
    /// `Z`, zombie.
    pub const ZOMBIE: Self = Self(0x20);
    /// `I`, idle kernel thread sleep.
    pub const IDLE: Self = Self(0x80);
    /// `R+`: preempted, whatever the other bits say.
    pub const PREEMPTED: Self = Self(0x100);

    /// Whether the task stays runnable (`R` or `R+`).
    #[must_use]
    pub fn is_runnable(self) -> bool {
        self.0 == 0 || self.0 & Self::PREEMPTED.0 != 0
    }
}

impl fmt::Display for PrevState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LETTERS: [(u32, char); 8] = [
            (1, 'S'),
            (2, 'D'),
            (4, 'T'),
            (8, 't'),
            (0x10, 'X'),
            (0x20, 'Z'),
            (0x40, 'P'),
            (0x80, 'I'),
        ];
        let mut out = String::new();
        for (bit, letter) in LETTERS {
            if self.0 & bit != 0 {
                if !out.is_empty() {
                    out.push('|');
                }
                out.push(letter);
            }
        }
        if out.is_empty() {
            out.push('R');
        }
        if self.0 & Self::PREEMPTED.0 != 0 {
            out.push('+');
        }
        f.pad(&out)
    }
}

/// The state of the CPU at an event, as the flags column of ftrace text shows it.
///
/// Where a source has no such column (perf, Perfetto) and in simulated traces that do not fill it in, all is
/// `false` or 0; a reader says in its report whether flags were present.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuFlags {
    /// Interrupts (`d`) or bottom halves (`b`) are off.
    pub irqs_off: bool,
    /// `NEED_RESCHED` is set on the current task (`N`, `n`, `B`).
    pub need_resched: bool,
    /// `NEED_RESCHED_LAZY` is set (`L`, `l`, `b` of the second column in 6.13 and later).
    pub need_resched_lazy: bool,
    /// In a hard interrupt (`h`, `H`, `z`, `Z`).
    pub hardirq: bool,
    /// In a soft interrupt (`s`, `H`).
    pub softirq: bool,
    /// Depth of disabled preemption, 0 where the column shows `.`.
    pub preempt_depth: u8,
}

/// One traced event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Time in nanoseconds on the trace's own clock.
    pub ts: u64,
    /// CPU that recorded the event.
    pub cpu: u32,
    /// Pid of the task that was current there.
    pub pid: Pid,
    /// Its name, empty where the source does not tell.
    pub comm: Comm,
    /// State of the CPU, where the source tells.
    pub flags: CpuFlags,
    /// What happened.
    pub kind: EventKind,
}

/// A task named by an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskRef {
    /// `comm` field.
    pub comm: Comm,
    /// `pid` field.
    pub pid: Pid,
    /// `prio` field: 0..=99 real time, 100..=139 fair, 120 is nice 0.
    pub prio: i32,
}

/// The tracepoints that the lab knows by meaning; all others pass through as [`EventKind::Other`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// `sched_switch`: `prev` leaves, `next` starts to run.
    SchedSwitch {
        /// Task that leaves the CPU.
        prev: TaskRef,
        /// Its state.
        prev_state: PrevState,
        /// Task that takes the CPU.
        next: TaskRef,
    },
    /// `sched_waking`: somebody called for the wakeup.
    SchedWaking {
        /// The wakee.
        task: TaskRef,
        /// CPU it last ran on.
        target_cpu: u32,
    },
    /// `sched_wakeup`: the task is runnable from here on.
    SchedWakeup {
        /// The wakee.
        task: TaskRef,
        /// CPU whose queue it entered.
        target_cpu: u32,
    },
    /// `sched_wakeup_new`: first wakeup of a forked task.
    SchedWakeupNew {
        /// The new task.
        task: TaskRef,
        /// CPU whose queue it entered.
        target_cpu: u32,
    },
    /// `sched_migrate_task`.
    SchedMigrateTask {
        /// The task that moves.
        task: TaskRef,
        /// From here.
        orig_cpu: u32,
        /// To there.
        dest_cpu: u32,
    },
    /// `sched_stat_runtime`: CPU time charged, nanoseconds.
    SchedStatRuntime {
        /// Name of the charged task.
        comm: Comm,
        /// Its pid.
        pid: Pid,
        /// Nanoseconds since the last charge.
        runtime: u64,
    },
    /// `sched_process_fork`.
    SchedProcessFork {
        /// Parent's name.
        parent_comm: Comm,
        /// Parent.
        parent_pid: Pid,
        /// Child's name.
        child_comm: Comm,
        /// Child.
        child_pid: Pid,
    },
    /// `sched_process_exec`.
    SchedProcessExec {
        /// Program.
        filename: String,
        /// Pid after the exec.
        pid: Pid,
        /// Pid before it.
        old_pid: Pid,
    },
    /// `sched_process_exit`.
    SchedProcessExit {
        /// The task that ends.
        task: TaskRef,
    },
    /// Any other event, fields as text (`name` without the subsystem).
    Other {
        /// Event name.
        name: String,
        /// Everything behind the colon.
        fields: String,
    },
}

impl EventKind {
    /// Names of the tracepoints known by meaning, in the order of the variants.
    pub const KNOWN: [&'static str; 9] = [
        "sched_switch",
        "sched_waking",
        "sched_wakeup",
        "sched_wakeup_new",
        "sched_migrate_task",
        "sched_stat_runtime",
        "sched_process_fork",
        "sched_process_exec",
        "sched_process_exit",
    ];

    /// Name of the tracepoint, without the subsystem.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Other { name, .. } => name,
            known => known.known_index().map_or("", |index| Self::KNOWN[index]),
        }
    }

    /// Place of the name in [`EventKind::KNOWN`], `None` for [`EventKind::Other`].
    #[must_use]
    pub fn known_index(&self) -> Option<usize> {
        Some(match self {
            Self::SchedSwitch { .. } => 0,
            Self::SchedWaking { .. } => 1,
            Self::SchedWakeup { .. } => 2,
            Self::SchedWakeupNew { .. } => 3,
            Self::SchedMigrateTask { .. } => 4,
            Self::SchedStatRuntime { .. } => 5,
            Self::SchedProcessFork { .. } => 6,
            Self::SchedProcessExec { .. } => 7,
            Self::SchedProcessExit { .. } => 8,
            Self::Other { .. } => return None,
        })
    }
}
