//! Periodic balance: who does it, when, and the interval afterwards (reference section 12.6).

use crate::SCALE;
use crate::cpus::CpuSet;
use crate::domains::{Domain, DomainFlags, Domains, Group};
use crate::imbalance::Idle;

/// Longest interval in jiffies, on a machine of `cpus` CPUs that came up one after the other.
///
/// A tenth of a second for each CPU but one: the kernel sets it when a CPU starts, before that CPU counts as online. Recordings of
/// 2, 4 and 8 CPUs show it.
#[must_use]
pub fn max_interval_jiffies(hz: u64, cpus: u64) -> u64 {
    hz.saturating_mul(cpus.saturating_sub(1).max(1)) / 10
}

/// Jiffies between two balances of a domain whose `balance_interval` is `interval` ms, for a CPU that is busy or not.
#[must_use]
pub fn balance_interval(domain: &Domain, interval: u64, busy: bool, hz: u64, cpus: u64) -> u64 {
    let ms = if busy {
        interval.saturating_mul(domain.busy_factor)
    } else {
        interval
    };
    let jiffies = ms.saturating_mul(hz).div_ceil(1000);
    // A busy CPU's is one shorter, so that levels drift apart.
    let jiffies = jiffies.saturating_sub(u64::from(busy));
    jiffies.clamp(1, max_interval_jiffies(hz, cpus).max(1))
}

/// Whether `cpu` is the one to balance for its group in `domain`; not asked for newidle balance.
///
/// The first idle CPU whose core is wholly idle; else the first idle CPU; else the first CPU of the group's mask.
pub fn should_balance(
    domains: &Domains,
    domain: &Domain,
    group: &Group,
    active: &CpuSet,
    cpu: u32,
    mut idle: impl FnMut(u32) -> bool,
) -> bool {
    let by_core = !domain.flags.has(DomainFlags::SHARE_CPUCAPACITY);
    let mut thread = None;
    let mut left = group.balance_mask.and(active);
    let mut at = 0;
    while let Some(candidate) = left.first_from(at) {
        at = candidate + 1;
        if !idle(candidate) {
            continue;
        }
        let core = domains.siblings(candidate);
        if by_core && !core.iter().all(|c| c == candidate || idle(c)) {
            thread = thread.or(Some(candidate));
            left.subtract(core);
            continue;
        }
        return candidate == cpu;
    }
    let chosen = thread.or_else(|| group.balance_mask.first());
    chosen == Some(cpu)
}

/// How a balance of a domain ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Tasks moved.
    Moved,
    /// There was an imbalance, but no task could be moved, active balance or not.
    Failed,
    /// Nothing to do, or this CPU is not the one; `pinned`: nothing could move for affinity.
    Balanced {
        /// All tasks were pinned.
        pinned: bool,
    },
}

/// `(balance_interval in ms, nr_balance_failed)` after a balance.
///
/// `interval`, `failed` are those before. A newidle balance leaves the interval alone unless it moved something, and counts no failure.
#[must_use]
pub fn after_balance(
    domain: &Domain,
    idle: Idle,
    outcome: Outcome,
    interval: u64,
    failed: u32,
) -> (u64, u32) {
    const LONGEST_PINNED: u64 = 512;
    match outcome {
        Outcome::Moved => (domain.min_interval, 0),
        Outcome::Failed => {
            let counts = idle != Idle::NewlyIdle;
            (domain.min_interval, failed + u32::from(counts))
        }
        Outcome::Balanced { pinned } => {
            let grows = idle != Idle::NewlyIdle
                && (interval < domain.max_interval || (pinned && interval < LONGEST_PINNED));
            (if grows { interval * 2 } else { interval }, 0)
        }
    }
}

/// `nr_idle_scan` of an LLC of `weight` CPUs whose utilization is `util` (SIS_UTIL); set by periodic balance of the LLC's domain.
#[must_use]
pub fn idle_scan_limit(util: u64, weight: u64, imbalance_pct: u64) -> u32 {
    let mean = util / weight.max(1);
    let pct = u128::from(mean * imbalance_pct);
    let busy = pct * pct / u128::from(10_000 * SCALE);
    let spare = SCALE - u64::try_from(busy).unwrap_or(SCALE).min(SCALE);
    u32::try_from(spare * weight / SCALE).unwrap_or(u32::MAX)
}
