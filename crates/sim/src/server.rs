//! The fair server: a deadline reservation that keeps real-time tasks from starving fair ones (6.12 on, section 15).
//!
//! Deferred, as by default: it holds back until the last moment at which its runtime still fits before its deadline, and
//! whatever fair tasks (or the idle task) ran before counts against it.

/// Reservation of one CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FairServer {
    pub(crate) armed: bool,
    /// The server itself runs: fair tasks come before real-time ones.
    pub(crate) active: bool,
    /// End of the present period.
    pub(crate) deadline: u64,
    /// Runtime left in it, ns.
    pub(crate) left: u64,
    /// Number of the timer; an older one is stale.
    pub(crate) seq: u32,
}

/// Default runtime and period.
pub(crate) const RUNTIME: u64 = 50_000_000;
/// See [`RUNTIME`].
pub(crate) const PERIOD: u64 = 1_000_000_000;

impl FairServer {
    /// Begins a period at `now`; returns when to look again.
    pub(crate) fn begin(&mut self, now: u64) -> u64 {
        self.armed = true;
        self.active = false;
        self.deadline = now + PERIOD;
        self.left = RUNTIME;
        self.seq += 1;
        self.zero_laxity()
    }

    /// The last moment at which the rest of the runtime fits before the deadline.
    pub(crate) fn zero_laxity(&self) -> u64 {
        self.deadline - self.left
    }

    /// Time that fair tasks ran, or that nothing ran; `true` if the reservation is used up.
    pub(crate) fn consume(&mut self, ns: u64) -> bool {
        self.left = self.left.saturating_sub(ns);
        self.armed && self.left == 0
    }
}
