//! Whether a domain is out of balance, of which kind, and by how much (reference section 12.8).

use crate::SCALE;
use crate::domains::{Domain, DomainFlags};
use crate::groups::{GroupStats, GroupType};

/// What the balancing CPU does; the value is the kernel's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idle {
    /// It runs something.
    Busy,
    /// It is idle.
    Idle,
    /// It is about to be idle.
    NewlyIdle,
}

impl Idle {
    /// From the kernel's number.
    #[must_use]
    pub const fn from_number(n: u64) -> Option<Self> {
        match n {
            0 => Some(Self::Busy),
            1 => Some(Self::Idle),
            2 => Some(Self::NewlyIdle),
            _ => None,
        }
    }

    /// Idle or about to be.
    #[must_use]
    pub const fn any(self) -> bool {
        !matches!(self, Self::Busy)
    }
}

/// What an imbalance is counted in; the order is the kernel's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Migration {
    /// Load.
    Load,
    /// Utilization.
    Util,
    /// Tasks.
    Task,
    /// A task too big for its CPU.
    Misfit,
}

impl Migration {
    /// All; the index is the kernel's number.
    pub const ALL: [Self; 4] = [Self::Load, Self::Util, Self::Task, Self::Misfit];

    /// The kernel's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "migrate_load",
            Self::Util => "migrate_util",
            Self::Task => "migrate_task",
            Self::Misfit => "migrate_misfit",
        }
    }
}

/// What decided.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// No group has anything to give.
    NoBusiest,
    /// The local group's type is the busier one.
    LocalBusier,
    /// Both overloaded, the local one no less than the other or than the mean, or within the percentage.
    WithinPct,
    /// The other has room and this CPU is not idle.
    NotIdle,
    /// Both have about as many idle CPUs.
    IdleEven,
    /// The other has one task only.
    OneTask,
    /// By the local group's load, there is nothing to take.
    LocalAboveMean,
    /// Computed, and nothing came out.
    Nothing,
    /// A single task is to move: affinity below, SMT.
    Unit,
    /// Room in the local group, in units of utilization.
    Util,
    /// Numbers of tasks, or of idle CPUs.
    Tasks,
    /// Loads.
    Load,
}

/// A domain's statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BalanceInput {
    /// The balancing CPU.
    pub idle: Idle,
    /// The local group.
    pub local: GroupStats,
    /// Number of cores of the local group.
    pub local_cores: u32,
    /// The busiest other group.
    pub busiest: Option<GroupStats>,
    /// Number of cores of the busiest group.
    pub busiest_cores: u32,
    /// Exactly one of the two is an SMT group.
    pub smt_differs: bool,
    /// Load of all groups.
    pub total_load: u64,
    /// Capacity of all groups.
    pub total_capacity: u64,
    /// The busiest group's child domain has PREFER_SIBLING.
    pub prefer_sibling: bool,
}

/// An amount to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Balance {
    /// In units of what.
    pub migration: Migration,
    /// How much; at least 1.
    pub imbalance: u64,
}

/// The decision and what made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// What to move; `None` if balanced.
    pub balance: Option<Balance>,
    /// What decided.
    pub reason: Reason,
}

/// Whether NUMA nodes may differ by `imbalance` while the destination runs `dst_running` tasks.
#[must_use]
pub fn numa_allows(imbalance: u64, dst_running: u32, imb_numa_nr: u32) -> bool {
    dst_running <= imb_numa_nr && imbalance <= 2
}

impl BalanceInput {
    /// Decides (`sched_balance_find_src_group` once the statistics are known).
    #[must_use]
    pub fn decide(&self, domain: &Domain) -> Verdict {
        let balanced = |reason| Verdict {
            balance: None,
            reason,
        };
        let Some(busiest) = &self.busiest else {
            return balanced(Reason::NoBusiest);
        };
        if let Some(reason) = self.in_balance(busiest, domain.imbalance_pct) {
            return balanced(reason);
        }
        match self.amount(busiest, domain) {
            Err(reason) => balanced(reason),
            Ok((_, Balance { imbalance: 0, .. })) => balanced(Reason::Nothing),
            Ok((reason, balance)) => Verdict {
                balance: Some(balance),
                reason,
            },
        }
    }

    fn mean(&self) -> u64 {
        self.total_load * SCALE / self.total_capacity.max(1)
    }

    fn in_balance(&self, busiest: &GroupStats, pct: u64) -> Option<Reason> {
        use GroupType::{AsymPacking, HasSpare, Imbalanced, Misfit, Overloaded, SmtBalance};
        let local = &self.local;
        if matches!(busiest.kind, Misfit | AsymPacking | Imbalanced) {
            return None;
        }
        if local.kind > busiest.kind {
            return Some(Reason::LocalBusier);
        }
        if local.kind == Overloaded {
            let ahead = local.avg_load >= busiest.avg_load || local.avg_load >= self.mean();
            if ahead || 100 * busiest.avg_load <= pct * local.avg_load {
                return Some(Reason::WithinPct);
            }
        }
        if self.prefer_sibling && local.kind == HasSpare && self.sibling_imbalance(busiest) > 1 {
            return None;
        }
        if busiest.kind == Overloaded {
            return None;
        }
        if !self.idle.any() {
            return Some(Reason::NotIdle);
        }
        if busiest.kind == SmtBalance && self.smt_differs {
            return None;
        }
        if busiest.weight > 1 && u64::from(local.idle_cpus) <= u64::from(busiest.idle_cpus) + 1 {
            return Some(Reason::IdleEven);
        }
        (busiest.h_nr_running == 1).then_some(Reason::OneTask)
    }

    /// Tasks by which the busiest group is ahead, per core.
    fn sibling_imbalance(&self, busiest: &GroupStats) -> u64 {
        if !self.idle.any() || busiest.nr_running == 0 {
            return 0;
        }
        let (theirs, ours) = (
            u64::from(busiest.nr_running),
            u64::from(self.local.nr_running),
        );
        if self.busiest_cores == self.local_cores {
            return theirs.saturating_sub(ours);
        }
        let (cb, cl) = (u64::from(self.busiest_cores), u64::from(self.local_cores));
        let weighted = (cl * theirs).saturating_sub(cb * ours);
        let even = (2 * weighted + cl + cb) / (cl + cb).max(1);
        if even <= 1 && ours == 0 && theirs > 1 {
            return 2;
        }
        even
    }

    fn amount(&self, busiest: &GroupStats, domain: &Domain) -> Result<(Reason, Balance), Reason> {
        use GroupType::{
            AsymPacking, FullyBusy, HasSpare, Imbalanced, Misfit, Overloaded, SmtBalance,
        };
        let of = |reason, migration, imbalance| {
            let balance = Balance {
                migration,
                imbalance,
            };
            Ok((reason, balance))
        };
        let local = &self.local;
        match busiest.kind {
            Misfit => return of(Reason::Unit, Migration::Misfit, 1),
            AsymPacking => {
                return of(Reason::Tasks, Migration::Task, busiest.h_nr_running.into());
            }
            SmtBalance | Imbalanced => return of(Reason::Unit, Migration::Task, 1),
            HasSpare | FullyBusy | Overloaded => {}
        }
        if local.kind == HasSpare {
            if busiest.kind > FullyBusy && !domain.flags.has(DomainFlags::SHARE_LLC) {
                let room = local.capacity.saturating_sub(local.util);
                if room == 0 && self.idle.any() {
                    return of(Reason::Unit, Migration::Task, 1);
                }
                return of(Reason::Util, Migration::Util, room);
            }
            return of(Reason::Tasks, Migration::Task, self.tasks(busiest, domain));
        }
        let (mean, mut average) = (self.mean(), local.avg_load);
        if local.kind < Overloaded {
            average = local.average();
            if average >= busiest.avg_load || average >= mean {
                return Err(Reason::LocalAboveMean);
            }
        }
        // Unsigned, as in the kernel: a busiest group below the mean leaves the local term alone.
        let excess = busiest
            .avg_load
            .wrapping_sub(mean)
            .wrapping_mul(busiest.capacity);
        let lack = mean.wrapping_sub(average).wrapping_mul(local.capacity);
        of(Reason::Load, Migration::Load, excess.min(lack) / SCALE)
    }

    /// Half the difference in tasks or in idle CPUs.
    fn tasks(&self, busiest: &GroupStats, domain: &Domain) -> u64 {
        let apart = if busiest.weight == 1 || self.prefer_sibling {
            self.sibling_imbalance(busiest)
        } else {
            u64::from(self.local.idle_cpus.saturating_sub(busiest.idle_cpus))
        };
        let running = self.local.nr_running + 1;
        let numa = domain.flags.has(DomainFlags::NUMA);
        if numa && numa_allows(apart, running, domain.imb_numa_nr) {
            return 0;
        }
        apart >> 1
    }
}
