//! Statistics of a group, its type, and which group is the busiest (reference section 12.7).

use crate::SCALE;
use crate::domains::{DomainFlags, Group};

/// Whether a utilization fits a capacity with the margin of a fifth.
#[must_use]
pub fn capacity_fits(util: u64, capacity: u64) -> bool {
    util.saturating_mul(1280) < capacity.saturating_mul(1024)
}

/// How busy a group is, in the order in which types are compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum GroupType {
    /// It can take more.
    #[default]
    HasSpare,
    /// No room, but nobody waits.
    FullyBusy,
    /// A task is too big for its CPU.
    Misfit,
    /// Several tasks on a core, and the destination is idle.
    SmtBalance,
    /// A preferred CPU is idle.
    AsymPacking,
    /// Affinity kept a level below from balancing.
    Imbalanced,
    /// Tasks wait.
    Overloaded,
}

impl GroupType {
    /// All, in order; the index is the kernel's number.
    pub const ALL: [Self; 7] = [
        Self::HasSpare,
        Self::FullyBusy,
        Self::Misfit,
        Self::SmtBalance,
        Self::AsymPacking,
        Self::Imbalanced,
        Self::Overloaded,
    ];

    /// The kernel's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HasSpare => "has_spare",
            Self::FullyBusy => "fully_busy",
            Self::Misfit => "misfit_task",
            Self::SmtBalance => "smt_balance",
            Self::AsymPacking => "asym_packing",
            Self::Imbalanced => "imbalanced",
            Self::Overloaded => "overloaded",
        }
    }
}

/// Sums over the CPUs of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupStats {
    /// `load · 1024 / capacity`; filled in where the kernel computes it, else 0.
    pub avg_load: u64,
    /// Load averages of the root queues.
    pub load: u64,
    /// Capacities.
    pub capacity: u64,
    /// Utilizations (the larger of average and estimate).
    pub util: u64,
    /// Runnable averages.
    pub runnable: u64,
    /// Tasks of all classes.
    pub nr_running: u32,
    /// Fair tasks.
    pub h_nr_running: u32,
    /// Idle CPUs.
    pub idle_cpus: u32,
    /// Number of CPUs.
    pub weight: u32,
    /// Type.
    pub kind: GroupType,
}

impl GroupStats {
    /// Nobody can run everything at once there.
    #[must_use]
    pub fn overloaded(&self, imbalance_pct: u64) -> bool {
        self.nr_running > self.weight
            && (self.capacity * 100 < self.util * imbalance_pct
                || self.capacity * imbalance_pct < self.runnable * 100)
    }

    /// There is room for more.
    #[must_use]
    pub fn has_capacity(&self, imbalance_pct: u64) -> bool {
        self.nr_running < self.weight
            || (self.capacity * imbalance_pct >= self.runnable * 100
                && self.capacity * 100 > self.util * imbalance_pct)
    }

    /// The type, given the domain's percentage and whether the level below asks for help (`imbalanced`) and whether this is an SMT
    /// group that should give a task to an idle CPU (`smt`).
    #[must_use]
    pub fn classify(&self, imbalance_pct: u64, imbalanced: bool, smt: bool) -> GroupType {
        if self.overloaded(imbalance_pct) {
            GroupType::Overloaded
        } else if imbalanced {
            GroupType::Imbalanced
        } else if smt {
            GroupType::SmtBalance
        } else if self.has_capacity(imbalance_pct) {
            GroupType::HasSpare
        } else {
            GroupType::FullyBusy
        }
    }

    /// Whether a group that is not the local one counts as [`GroupType::SmtBalance`] for a destination that is `idle`.
    #[must_use]
    pub fn smt_balance(&self, group: &Group, idle: bool) -> bool {
        idle && group.flags.has(DomainFlags::SHARE_CPUCAPACITY) && self.h_nr_running > 1
    }

    /// `load · 1024 / capacity`.
    #[must_use]
    pub fn average(&self) -> u64 {
        self.load * SCALE / self.capacity.max(1)
    }
}

/// The busiest group so far.
#[derive(Clone, Copy, Debug)]
pub struct BusiestChoice<'a> {
    /// It and its statistics.
    pub best: Option<(&'a Group, GroupStats)>,
}

impl<'a> BusiestChoice<'a> {
    /// No group yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { best: None }
    }

    /// Looks at the next group that is not the local one.
    pub fn offer(&mut self, group: &'a Group, stats: GroupStats) {
        if stats.h_nr_running > 0 && self.is_busier(group, &stats) {
            self.best = Some((group, stats));
        }
    }

    fn is_busier(&self, group: &Group, new: &GroupStats) -> bool {
        let Some((best_group, best)) = &self.best else {
            return true;
        };
        if new.kind != best.kind {
            return new.kind > best.kind;
        }
        match new.kind {
            GroupType::Overloaded => new.avg_load > best.avg_load,
            GroupType::Imbalanced | GroupType::AsymPacking | GroupType::Misfit => false,
            GroupType::SmtBalance if new.idle_cpus == 0 && best.idle_cpus == 0 => {
                fully_busy(best_group, new, best)
            }
            GroupType::FullyBusy => fully_busy(best_group, new, best),
            GroupType::SmtBalance | GroupType::HasSpare => spare(best_group, group, new, best),
        }
    }
}

impl Default for BusiestChoice<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// Among fully busy groups the later one, but that an SMT group is kept.
///
/// Their average load is not computed and 0, so that the comparison decides only by kind of group.
fn fully_busy(best_group: &Group, new: &GroupStats, best: &GroupStats) -> bool {
    new.avg_load > best.avg_load
        || (new.avg_load == best.avg_load && !best_group.flags.has(DomainFlags::SHARE_CPUCAPACITY))
}

/// Among groups with room the one with fewer idle CPUs, then with more tasks. A core with one task is not preferred to a group without SMT.
fn spare(best_group: &Group, group: &Group, new: &GroupStats, best: &GroupStats) -> bool {
    let smt = |g: &Group| g.flags.has(DomainFlags::SHARE_CPUCAPACITY);
    if smt(best_group) != smt(group) {
        return !(smt(group) && new.h_nr_running <= 1);
    }
    new.idle_cpus < best.idle_cpus
        || (new.idle_cpus == best.idle_cpus && new.nr_running > best.nr_running)
}
