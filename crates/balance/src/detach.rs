//! From which queue tasks are taken, which ones, and how many (reference sections 12.8 to 12.10).

use schedlab_fair::{Feature, Features};

use crate::domains::{Domain, DomainFlags};
use crate::imbalance::{Idle, Migration};

/// A queue of the busiest group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Its CPU.
    pub cpu: u32,
    /// Fair tasks on it.
    pub h_nr_running: u32,
    /// Load average.
    pub load: u64,
    /// Utilization, boosted by the runnable average.
    pub util: u64,
    /// Capacity.
    pub capacity: u64,
}

/// The busiest queue so far (`sched_balance_find_src_rq`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BusiestQueue {
    migration: Migration,
    imbalance: u64,
    best: Option<Candidate>,
}

impl BusiestQueue {
    /// None yet, for an imbalance of this kind and amount.
    #[must_use]
    pub const fn new(migration: Migration, imbalance: u64) -> Self {
        Self {
            migration,
            imbalance,
            best: None,
        }
    }

    /// Looks at the next queue.
    pub fn offer(&mut self, queue: Candidate) {
        if queue.h_nr_running == 0 {
            return;
        }
        let busier = match self.migration {
            Migration::Load => {
                let one_too_heavy = queue.h_nr_running == 1 && queue.load > self.imbalance;
                // load/capacity compared crosswise; the first needs a load at all.
                let (load, capacity) = self.best.map_or((0, 1), |b| (b.load, b.capacity));
                !one_too_heavy
                    && u128::from(queue.load) * u128::from(capacity)
                        > u128::from(load) * u128::from(queue.capacity)
            }
            Migration::Util => {
                queue.h_nr_running > 1 && self.best.map_or(0, |b| b.util) < queue.util
            }
            Migration::Task => self.best.map_or(0, |b| b.h_nr_running) < queue.h_nr_running,
            Migration::Misfit => self.best.map_or(0, |b| b.load) < queue.load,
        };
        if busier {
            self.best = Some(queue);
        }
    }

    /// The CPU found.
    #[must_use]
    pub fn cpu(&self) -> Option<u32> {
        self.best.map(|b| b.cpu)
    }
}

/// Most tasks looked at in one go: `nr_migrate`, or what the queue has.
#[must_use]
pub fn loop_max(nr_migrate: u32, nr_running: u32) -> u32 {
    nr_migrate.min(nr_running)
}

/// What makes a task cache-hot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hotness {
    /// It is SCHED_IDLE.
    pub idle_policy: bool,
    /// It is marked as its queue's next buddy.
    pub buddy: bool,
    /// Tasks on the destination.
    pub dst_running: u32,
    /// Core scheduling: its cookie does not fit there.
    pub cookie_differs: bool,
    /// `clock_task` of the source less `exec_start`, ns.
    pub since: i64,
}

/// Whether a task is cache-hot. `migration_cost` in ns; −1: all are, 0: none by time.
#[must_use]
pub fn cache_hot(features: Features, domain: &Domain, task: &Hotness, migration_cost: i64) -> bool {
    if task.idle_policy || domain.flags.has(DomainFlags::SHARE_CPUCAPACITY) {
        return false;
    }
    let buddy = features.has(Feature::CacheHotBuddy) && task.dst_running > 0 && task.buddy;
    if buddy || migration_cost == -1 || task.cookie_differs {
        return true;
    }
    migration_cost != 0 && task.since < migration_cost
}

/// A task that balancing looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Movable {
    /// A kernel thread bound to its CPU.
    pub per_cpu_kthread: bool,
    /// It may run on the destination.
    pub allowed: bool,
    /// It runs at present.
    pub running: bool,
    /// It is cache-hot ([`cache_hot`]).
    pub hot: bool,
    /// This is active balance.
    pub active: bool,
}

/// Whether a task may be moved (`can_migrate_task`); `failed` is the domain's `nr_balance_failed`.
///
/// A task that sleeps and is still queued (delayed dequeue) moves like any other.
#[must_use]
pub fn can_migrate(task: &Movable, domain: &Domain, failed: u32) -> bool {
    if task.per_cpu_kthread || !task.allowed || task.running {
        return false;
    }
    task.active || !task.hot || failed > domain.cache_nice_tries
}

/// Whether a task of this load or utilization is small enough for the imbalance; more so the more attempts failed.
#[must_use]
pub fn fits_imbalance(amount: u64, failed: u32, imbalance: i64) -> bool {
    amount.checked_shr(failed).unwrap_or(0) as i64 <= imbalance
}

/// The state of a detach loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Detach {
    /// In units of what.
    pub migration: Migration,
    /// What is left of the imbalance.
    pub imbalance: i64,
    /// Who balances.
    pub idle: Idle,
    /// The kernel is preemptible: a newidle balance takes one task only.
    pub preemptible: bool,
    /// Tasks on the source.
    pub src_running: u32,
    /// Tasks looked at so far.
    pub looked: u32,
    /// Tasks that may be looked at.
    pub loop_max: u32,
    /// Tasks taken so far.
    pub taken: u32,
}

impl Detach {
    /// Whether another task is looked at.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        let one_is_enough = self.preemptible && self.idle == Idle::NewlyIdle && self.taken > 0;
        let last = self.src_running <= 1 && (self.idle.any() || self.taken == 0);
        self.imbalance > 0 && !one_is_enough && !last && self.looked < self.loop_max
    }

    /// Looks at a task that may be moved or not, whose share of the imbalance is `amount` (load or utilization); the answer is
    /// whether it is taken. `failed` is the domain's `nr_balance_failed`.
    pub fn look(&mut self, may: bool, amount: u64, failed: u32) -> bool {
        self.looked += 1;
        if !may {
            return false;
        }
        match self.migration {
            Migration::Load | Migration::Util => {
                let amount = match self.migration {
                    Migration::Load => amount.max(1),
                    _ => amount,
                };
                if !fits_imbalance(amount, failed, self.imbalance) {
                    return false;
                }
                self.imbalance = self.imbalance.saturating_sub_unsigned(amount);
            }
            Migration::Task => self.imbalance -= 1,
            Migration::Misfit => self.imbalance = 0,
        }
        self.src_running = self.src_running.saturating_sub(1);
        self.taken += 1;
        true
    }
}

/// Whether the running task of the source is pushed because nothing else could be moved (`need_active_balance`); `failed` is
/// `nr_balance_failed` after this failure.
#[must_use]
pub fn active_balance(domain: &Domain, migration: Migration, failed: u32) -> bool {
    migration == Migration::Misfit
        || (migration == Migration::Task && failed > domain.cache_nice_tries + 2)
}
