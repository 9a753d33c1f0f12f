//! Who waited how long for a CPU: the table of `perf sched latency`, with its faults mended.
//!
//! A **delay** begins when a task becomes runnable without running and ends when it is switched in. It begins
//!
//! - at `sched_waking` (somebody called for the wakeup) if the trace has it, else at `sched_wakeup` (the task is on a
//!   run queue). Both are kept in the report, see [`WakeStart`];
//! - at the switch-out if the task left the CPU still runnable (`prev_state` `R` or `R+`): a preempted task waits too.
//!
//! Moves between CPUs do not interrupt a delay. `sched_waking` of a task that still runs begins none by itself: if the
//! task then goes to sleep and a `sched_wakeup` follows, the delay begins there; if it is switched in again without
//! one, the sleep was aborted and the delay begins at the switch-out.
//!
//! **Run time** is the time between switch-in and switch-out. What the trace does not show is not counted: a task that
//! runs when the trace begins counts from the first event *of its CPU* (per-CPU buffers of a wrapped recording begin
//! at different times), one that runs at the end counts up to the last event of the trace. A delay that has not ended
//! is no part of count, sum and maximum; its length so far is given as [`TaskLatency::open_wait`].
//!
//! Pid 0 is the idle task of each CPU: it is no task here, its time is the idle time of the CPU.
//!
//! Differences from `perf sched latency`: a task first seen at its switch-in has no delay there (perf counts one of 0
//! ms), run time comes from switches and not from `sched_stat_runtime` (which is summed up apart), and events out of
//! order are sorted in a window first.

mod render;
mod report;
mod tally;

pub use crate::anomalies::Anomalies;
pub use crate::naming::GroupBy;
pub use render::{Layout, RenderOptions};
pub use report::{CpuTime, DelayStats, LatencyReport, LatencyRow, Summary, TaskLatency};
pub use tally::{LatencyAccumulator, LatencyTally};

use serde::Serialize;

use crate::history::WakeupPolicy;

/// Which event begins the delay after a sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WakeStart {
    /// `sched_waking`, the call for the wakeup, so that the way to the run queue counts; `sched_wakeup` where it is
    /// missing.
    #[default]
    Waking,
    /// `sched_wakeup`, the arrival on the run queue; `sched_waking` where it is missing.
    Wakeup,
}

/// How to account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LatencyOptions {
    /// Events that are held back to be sorted by time.
    pub window: usize,
    /// Which of repeated wake events begins a delay.
    pub wakeup: WakeupPolicy,
    /// Count delays that contradict other events, too (see [`MarkKind`](crate::history::MarkKind)).
    pub doubtful: bool,
    /// Keep the distribution of delays by this start, for percentiles and histograms.
    pub distribution: Option<WakeStart>,
}

impl Default for LatencyOptions {
    /// A window of 4096 events, about half a megabyte; the first wake event; no doubtful delays; no distribution.
    fn default() -> Self {
        Self {
            window: 4096,
            wakeup: WakeupPolicy::First,
            doubtful: false,
            distribution: None,
        }
    }
}
