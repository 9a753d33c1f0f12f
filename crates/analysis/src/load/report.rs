//! What was counted while a load was taken out of a trace.

use std::fmt;

use serde::Serialize;

use crate::order::OrderReport;

/// Counts of what a trace showed, and of what had to be inferred or has no counterpart in the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LoadReport {
    /// Events taken.
    pub events: u64,
    /// Reordering by time.
    pub order: OrderReport,
    /// Sleeps ended by another task.
    pub by_task: u64,
    /// Sleeps ended by a timer or device.
    pub by_interrupt: u64,
    /// Among those, sleeps whose times are regular: a periodic timer.
    pub periodic: u64,
    /// Among those, sleeps taken as a length, not as a time.
    pub lengths: u64,
    /// Sleeps that last beyond the end.
    pub open_sleeps: u64,
    /// Wakeups in a task's context that were taken for a timer's as their times are regular (only without flags).
    pub wakers_by_regularity: u64,
    /// Calls for a wakeup of a task that ran or was runnable: no sleep was ended, so they are no part of the load.
    pub wakes_without_effect: u64,
    /// Sleeps that were over before they began: called while the task still ran, and no wakeup followed.
    pub aborted_sleeps: u64,
    /// Wakeups of tasks that had ended.
    pub wakes_of_dead: u64,
    /// Sleeps whose wakeup is not in the trace; taken to have ended at the switch-in.
    pub missing_wakeups: u64,
    /// Switches that are not in the trace: another task than the one switched in was seen running.
    pub missing_switches: u64,
    /// Tasks that were seen on two CPUs at once.
    pub on_two_cpus: u64,
    /// CPU time that no task can be given, ns.
    pub unattributed: u64,
    /// Tasks that were forked and never ran or slept, and others without any act; left out.
    pub without_acts: u64,
    /// Tasks held to be bound to some CPUs because others were idle while they waited.
    pub bound_by_idle: u64,
    /// Tasks that take turns with another ([`LoadTask::partner`](super::LoadTask::partner)).
    pub partners: u64,
    /// Kernel threads bound to the CPU in their name.
    pub bound_by_name: u64,
    /// `prio` values outside 0 to 98 and 100 to 139 (deadline tasks), not taken.
    pub prio_unknown: u64,
    /// Whether the source tells in which context an event was traced.
    pub has_flags: bool,
}

impl fmt::Display for LoadReport {
    /// One line a fact, each ending with a line feed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "sleeps: {} ended by another task, {} by a timer or device ({} periodic, {} of one length), {} beyond the end",
            self.by_task, self.by_interrupt, self.periodic, self.lengths, self.open_sleeps
        )?;
        let facts = [
            (
                self.wakers_by_regularity,
                "wakeups taken for a timer's by their regular times",
            ),
            (
                self.wakes_without_effect,
                "wakeups of tasks that were awake: no part of the load",
            ),
            (self.aborted_sleeps, "sleeps called off before they began"),
            (self.wakes_of_dead, "wakeups of tasks that had ended"),
            (
                self.missing_wakeups,
                "sleeps without a recorded wakeup, ended at the switch-in",
            ),
            (self.missing_switches, "switches missing in the trace"),
            (self.on_two_cpus, "tasks seen on two CPUs at once"),
            (self.without_acts, "tasks that did nothing, left out"),
            (
                self.bound_by_idle,
                "tasks taken to be bound: other CPUs were idle while they waited",
            ),
            (self.partners, "tasks that take turns with one other"),
            (self.bound_by_name, "kernel threads bound to one CPU"),
            (
                self.prio_unknown,
                "priorities of a class that is not simulated",
            ),
            (
                self.order.reordered,
                "events put back into the order of time",
            ),
        ];
        for (count, what) in facts {
            if count > 0 {
                writeln!(f, "{count} {what}")?;
            }
        }
        if self.unattributed > 0 {
            writeln!(
                f,
                "{}.{:03} ms of CPU time belong to no known task",
                self.unattributed / 1_000_000,
                self.unattributed / 1_000 % 1_000
            )?;
        }
        if !self.has_flags {
            writeln!(
                f,
                "the source does not tell interrupts from tasks: a wakeup by a timer may count as one by the task that it interrupted"
            )?;
        }
        Ok(())
    }
}
