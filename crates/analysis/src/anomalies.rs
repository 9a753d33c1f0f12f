//! What does not fit in a history, counted.

use serde::Serialize;

use crate::history::{History, Mark, MarkKind, Observer};
use crate::order::OrderReport;
use crate::table::ms;

/// What did not fit: contradictions in the trace and events that say less than expected. All are counts unless said
/// otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Anomalies {
    /// Events out of order.
    #[serde(flatten)]
    pub order: OrderReport,
    /// Times an event showed another task running than the last switch had switched in: a switch is missing. Lost events
    /// look like this, and recordings that leave some tasks out.
    pub missing_switches: u64,
    /// Missing switches to a task whose time could be told from the `sched_stat_runtime` that followed: within
    /// microseconds, since that is the time charged since the switch. They count like recorded ones, apart from
    /// [`TaskLatency::switches_in`](crate::latency::TaskLatency::switches_in).
    pub inferred_switches: u64,
    /// Tasks seen running on a CPU while they ran on another one by the events before.
    pub on_two_cpus: u64,
    /// `sched_stat_runtime` of tasks that were not running by the events before. If such a task was waiting for a CPU,
    /// its wait was not one and is left out.
    pub runtime_without_switch: u64,
    /// Delays whose length means nothing because of the above or of two CPUs; left out of all sums and maxima unless
    /// asked for.
    pub doubtful_waits: u64,
    /// The longest of them, ns.
    pub doubtful_longest: u64,
    /// CPU time between events that is neither a task's nor idle because of the above, ns, all CPUs.
    pub unattributed: u64,
    /// `sched_waking` of a task that was running. Normal: the waker was faster than the sleeper.
    pub waking_while_running: u64,
    /// `sched_wakeup` of a task that was running. Normal in small numbers, for the same reason.
    pub wakeup_while_running: u64,
    /// Wake events for a task that was already waiting for a CPU.
    pub wake_while_waiting: u64,
    /// Wake events for a task that had ended.
    pub wake_of_dead: u64,
    /// Sleeps that ended with a `sched_waking` from before they began, and so were none.
    pub aborted_sleeps: u64,
    /// Sleeping tasks that were switched in without any wake event; they get no delay.
    pub missing_wakeups: u64,
    /// Delays and run times that would have been negative and were left out.
    pub negative: u64,
}

impl Anomalies {
    /// Counts a mark.
    pub fn count(&mut self, kind: MarkKind) {
        let count = match kind {
            MarkKind::MissingSwitch => &mut self.missing_switches,
            MarkKind::InferredSwitch => &mut self.inferred_switches,
            MarkKind::OnTwoCpus => &mut self.on_two_cpus,
            MarkKind::RuntimeWithoutSwitch => &mut self.runtime_without_switch,
            MarkKind::WakingWhileRunning => &mut self.waking_while_running,
            MarkKind::WakeupWhileRunning => &mut self.wakeup_while_running,
            MarkKind::WakeWhileWaiting => &mut self.wake_while_waiting,
            MarkKind::WakeOfDead => &mut self.wake_of_dead,
            MarkKind::AbortedSleep => &mut self.aborted_sleeps,
            MarkKind::MissingWakeup => &mut self.missing_wakeups,
            MarkKind::Negative => &mut self.negative,
        };
        *count += 1;
    }

    /// What a reader of a table should know, each a line.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut out: Vec<String> = [
            (
                self.order.reordered,
                "event was reordered",
                "events were reordered",
            ),
            (
                self.order.late,
                "of them came too late for the sorting window and was taken as it came",
                "of them came too late for the sorting window and were taken as they came",
            ),
            (
                self.missing_switches,
                "switch is missing: another task ran than was switched in (lost events?)",
                "switches are missing: another task ran than was switched in (lost events?)",
            ),
            (
                self.inferred_switches,
                "of them was inferred from sched_stat_runtime",
                "of them were inferred from sched_stat_runtime",
            ),
            (
                self.on_two_cpus,
                "time a task was on two CPUs at once",
                "times a task was on two CPUs at once",
            ),
            (
                self.missing_wakeups,
                "sleeping task ran without a wake event; no delay is counted for it",
                "sleeping tasks ran without a wake event; no delay is counted for them",
            ),
            (
                self.negative,
                "negative time was left out",
                "negative times were left out",
            ),
        ]
        .into_iter()
        .filter(|&(count, ..)| count > 0)
        .map(|(count, one, more)| format!("{count} {}", if count == 1 { one } else { more }))
        .collect();
        if self.doubtful_waits > 0 {
            out.push(format!(
                "{} delays contradict other events, the longest of {} ms; they count only with --with-doubtful",
                self.doubtful_waits,
                ms(self.doubtful_longest)
            ));
        }
        if self.unattributed > 0 {
            out.push(format!(
                "{} ms of CPU time for these reasons belong to no task",
                ms(self.unattributed)
            ));
        }
        out
    }
}

impl Observer for Anomalies {
    fn mark(&mut self, _: &History, mark: &Mark) {
        self.count(mark.kind);
    }
}
