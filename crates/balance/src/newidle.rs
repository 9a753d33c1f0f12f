//! Newidle balance: whether to try at all, where to stop, what it cost; and `avg_idle` (reference section 12.5).

use schedlab_fair::{Feature, Features};

use crate::domains::DomainFlags;

/// Why a newidle balance ends before it has looked anywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewidleExit {
    /// A remote wakeup is pending.
    WakeupPending,
    /// No CPU of the root domain has two tasks.
    NotOverloaded,
    /// The CPU is idle for less time, on average, than the lowest level costs.
    TooShort,
}

/// Whether a CPU about to be idle looks for tasks. `lowest_cost` is the lowest domain's `max_newidle_lb_cost`, `None`
/// for a CPU without domains.
#[must_use]
pub fn newidle_exit(
    ttwu_pending: bool,
    overloaded: bool,
    avg_idle: u64,
    lowest_cost: Option<u64>,
) -> Option<NewidleExit> {
    if ttwu_pending {
        return Some(NewidleExit::WakeupPending);
    }
    if !overloaded {
        return Some(NewidleExit::NotOverloaded);
    }
    let too_short = lowest_cost.is_none_or(|cost| avg_idle < cost);
    too_short.then_some(NewidleExit::TooShort)
}

/// Whether the walk stops before a level: what it has cost and what the level costs exceed `avg_idle`.
#[must_use]
pub fn newidle_stops(avg_idle: u64, spent: u64, level_cost: u64) -> bool {
    avg_idle < spent.saturating_add(level_cost)
}

/// NI_RANDOM: whether a level is skipped, by a draw against its success ratio; and the weight of a success otherwise.
///
/// `draw` is called only if the level is one of newidle balance and the switch is on.
#[must_use]
pub fn newidle_draw(
    features: Features,
    flags: DomainFlags,
    ratio: u32,
    draw: impl FnOnce() -> u32,
) -> Option<u32> {
    if !flags.has(DomainFlags::BALANCE_NEWIDLE) {
        return None;
    }
    if !features.has(Feature::NiRandom) {
        return Some(1);
    }
    let weight = ratio.saturating_add(1);
    if draw() % 1024 > weight {
        return None;
    }
    Some((1024 + weight / 2) / weight)
}

/// Success statistics of a level (NI_RANDOM).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewidleStats {
    /// Calls since the last halving.
    pub calls: u32,
    /// Successes, weighted.
    pub successes: u32,
    /// Ratio of the last 1024 calls.
    pub ratio: u32,
}

impl Default for NewidleStats {
    fn default() -> Self {
        Self {
            calls: 512,
            successes: 256,
            ratio: 512,
        }
    }
}

impl NewidleStats {
    /// Counts a call that was worth `success` (0: skipped, or nothing pulled).
    pub fn count(&mut self, success: u32) {
        self.calls += 1;
        self.successes += success;
        if self.calls >= 1024 {
            self.ratio = self.successes;
            self.calls /= 2;
            self.successes /= 2;
        }
    }
}

/// `max_newidle_lb_cost` of a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DomainCost {
    /// Highest cost of late, ns.
    pub max: u64,
    /// Jiffy of the last rise or decay.
    pub decayed: u64,
}

impl DomainCost {
    /// Notes a balance that took `cost` ns (0: a regular visit). A lower cost lets the maximum decay by 3/256 once a second; the answer is
    /// whether it did.
    pub fn note(&mut self, cost: u64, now: u64, hz: u64) -> bool {
        if cost > self.max {
            self.max = cost;
            self.decayed = now;
            return false;
        }
        if now.wrapping_sub(self.decayed) as i64 <= hz as i64 {
            return false;
        }
        self.max = self.max * 253 / 256;
        self.decayed = now;
        true
    }
}

/// `avg_idle` after an idle time of `idle` ns that a wakeup ended.
///
/// A step of an eighth, truncated towards zero, with an upper bound of twice the CPU's `max_idle_balance_cost`.
#[must_use]
pub fn avg_idle_after(avg_idle: u64, idle: u64, max_idle_balance_cost: u64) -> u64 {
    let step = (idle.wrapping_sub(avg_idle) as i64) / 8;
    avg_idle
        .wrapping_add(step as u64)
        .min(max_idle_balance_cost.saturating_mul(2))
}

/// The kernel's per-CPU generator for NI_RANDOM: L'Ecuyer's combined Tausworthe generator of four 32-bit words.
///
/// P. L'Ecuyer, *Tables of maximally equidistributed combined LFSR generators*, Math. Comp. 68 (1999), `lfsr113`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rng(pub [u32; 4]);

impl Rng {
    /// The next number.
    pub fn draw(&mut self) -> u32 {
        // (lowest bits unused, shift of the feedback, shift back, shift of the state) for each word.
        const PARAMETERS: [(u32, u32, u32, u32); 4] = [
            (1, 6, 13, 18),
            (3, 2, 27, 2),
            (4, 13, 21, 7),
            (7, 3, 12, 13),
        ];
        let mut out = 0;
        for (z, (unused, q, back, s)) in self.0.iter_mut().zip(PARAMETERS) {
            let feedback = ((*z << q) ^ *z) >> back;
            *z = ((*z >> unused << unused) << s) ^ feedback;
            out ^= *z;
        }
        out
    }
}
