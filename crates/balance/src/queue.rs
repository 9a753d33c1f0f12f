//! Whether a wakeup is handed to the target CPU instead of taking its lock (reference section 12.3).

use schedlab_fair::Feature;

use crate::wake::Rules;

/// The CPU that a wakeup goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueTarget {
    /// The CPU.
    pub cpu: u32,
    /// It is active and the task may run there.
    pub usable: bool,
    /// Its `nr_running`.
    pub nr_running: u32,
}

/// Whether the waker on `this` puts the wakeup on the target's list and interrupts it (`ttwu_queue_wakelist`).
///
/// It does so across caches always, and within one cache if the target has nothing to run.
#[must_use]
pub fn queues_remotely(rules: &Rules<'_>, this: u32, target: QueueTarget) -> bool {
    if !rules.features.has(Feature::TtwuQueue) || !target.usable {
        return false;
    }
    if !rules.domains.share_cache(this, target.cpu) {
        return true;
    }
    target.cpu != this && target.nr_running == 0
}
