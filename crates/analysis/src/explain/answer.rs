//! What an explanation says.

use schedlab_trace::Pid;
use serde::Serialize;

/// Why a task did not run for a while.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Woken while it was still on its way to sleep.
    Blocked,
    /// Called for, not on a run queue yet: choice of a CPU, and the way there.
    Waking,
    /// The same, from the interrupt to the chosen CPU on.
    WakingIpi,
    /// Asleep for a lock that another task holds.
    Lock,
    /// Its group has used up its CPU quota.
    Throttled,
    /// Queued while another CPU, which it may use, was idle.
    IdleElsewhere,
    /// Its CPU was idle, on the way out of idle to it.
    IdleExit,
    /// A task of a higher class ran: deadline, real time, stop.
    HigherClass,
    /// A real-time task of the same or a higher priority ran.
    HigherPriority,
    /// It had run ahead of its share: not eligible.
    Ineligible,
    /// Eligible, but another's virtual deadline was earlier.
    LaterDeadline,
    /// It would have been picked, but the running task was protected by its slice.
    Protected,
    /// It would have been picked, and the protection was over, but no tick or other step has noticed yet.
    Tick,
    /// A reschedule was asked for and not honoured yet.
    NeedResched,
    /// The scheduler was at work: another task had been put away and the next not switched in.
    Switching,
    /// A fair task ran; the trace does not let one say by which rule.
    Behind,
    /// The trace does not show who ran.
    Unknown,
}

impl Cause {
    /// Short name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Waking => "waking",
            Self::WakingIpi => "waking_ipi",
            Self::Lock => "lock",
            Self::Throttled => "throttled",
            Self::IdleElsewhere => "idle_elsewhere",
            Self::IdleExit => "idle_exit",
            Self::HigherClass => "higher_class",
            Self::HigherPriority => "higher_priority",
            Self::Ineligible => "ineligible",
            Self::LaterDeadline => "later_deadline",
            Self::Protected => "protected",
            Self::Tick => "tick",
            Self::NeedResched => "need_resched",
            Self::Switching => "switching",
            Self::Behind => "behind",
            Self::Unknown => "unknown",
        }
    }

    /// Whether it is a decision of the fair class between two fair tasks.
    #[must_use]
    pub fn is_fair_rule(self) -> bool {
        matches!(
            self,
            Self::Ineligible | Self::LaterDeadline | Self::Protected | Self::Tick
        )
    }
}

/// How sure a part is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Recorded, or computed from recorded state.
    Known,
    /// The rules, replayed, say so and agree with what the kernel did next.
    Likely,
    /// The rules, replayed, say so but do not agree with what the kernel did next; or nothing says anything.
    Guess,
}

/// A task by name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Who {
    /// Its name.
    pub comm: String,
    /// Its pid.
    pub pid: Pid,
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.comm, self.pid)
    }
}

/// A stretch of a wait with one cause. Segments follow each other without gap or overlap.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Segment {
    /// Begin, ns on the trace's clock.
    pub start: u64,
    /// End, ns.
    pub end: u64,
    /// Cause.
    pub cause: Cause,
    /// CPU on whose queue the task was, where it was on one.
    pub cpu: Option<u32>,
    /// Who ran there, or who holds the lock.
    pub behind: Option<Who>,
    /// Whose turn it was, where that was neither the task nor the one that ran.
    pub turn: Option<Who>,
    /// For [`Cause::IdleElsewhere`]: the idle CPU and since when it was idle, ns.
    pub idle: Option<(u32, u64)>,
    /// For [`Cause::IdleElsewhere`]: the cause on its own CPU.
    pub on_its_cpu: Option<Cause>,
    /// How sure.
    pub confidence: Confidence,
}

/// All segments of a wait with the same cause behind the same task.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Part {
    /// Cause.
    pub cause: Cause,
    /// Their time in all, ns.
    pub ns: u64,
    /// CPU.
    pub cpu: Option<u32>,
    /// Who ran, or who holds the lock.
    pub behind: Option<Who>,
    /// Who was to go first.
    pub turn: Option<Who>,
    /// The idle CPU and since when.
    pub idle: Option<(u32, u64)>,
    /// The cause on its own CPU, beside an idle one.
    pub on_its_cpu: Option<Cause>,
    /// The least sure of them.
    pub confidence: Confidence,
    /// Number of segments.
    pub times: u64,
}

/// How a wait began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// It was woken.
    Woken,
    /// It was forked.
    New,
    /// It left its CPU runnable: preempted (or it yielded, where the trace does not show system calls).
    Preempted,
    /// It yielded.
    Yielded,
    /// It went to sleep for a lock.
    Lock,
}

/// A wait, explained.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Explanation {
    /// Who waited.
    pub task: Who,
    /// How the wait began.
    pub kind: WaitKind,
    /// Its begin, ns.
    pub start: u64,
    /// Its end, ns: the switch-in, or the end of the trace.
    pub end: u64,
    /// The trace ends before the wait does.
    pub open: bool,
    /// Who called for the wakeup, if one did.
    pub waker: Option<Who>,
    /// The wait in order of time.
    pub segments: Vec<Segment>,
    /// The same by cause, longest first.
    pub parts: Vec<Part>,
    /// What could not be known, and what to record to know it.
    pub advice: Vec<String>,
}

impl Explanation {
    /// Length of the wait, ns; the parts add up to it.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.end - self.start
    }

    /// Adds up the segments.
    pub(super) fn sum_up(&mut self) {
        let mut parts: Vec<Part> = Vec::new();
        for s in &self.segments {
            let same = parts.iter_mut().find(|p| {
                (p.cause, p.cpu, p.on_its_cpu) == (s.cause, s.cpu, s.on_its_cpu)
                    && p.behind == s.behind
                    && p.turn == s.turn
                    && p.idle == s.idle
            });
            if let Some(p) = same {
                p.ns += s.end - s.start;
                p.times += 1;
                p.confidence = p.confidence.max(s.confidence);
                continue;
            }
            parts.push(Part {
                cause: s.cause,
                ns: s.end - s.start,
                cpu: s.cpu,
                behind: s.behind.clone(),
                turn: s.turn.clone(),
                idle: s.idle,
                on_its_cpu: s.on_its_cpu,
                confidence: s.confidence,
                times: 1,
            });
        }
        // Stable: equal parts stay in order of time.
        parts.sort_by_key(|p| std::cmp::Reverse(p.ns));
        self.parts = parts;
    }
}
