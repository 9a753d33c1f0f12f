//! SHARED_RUNQ: queued tasks of a last-level cache on lists that its CPUs take from before they go idle (reference section 13).
//!
//! A series posted to the kernel's list in 2023 that was never merged; its four forms differ in when a CPU that runs out of tasks
//! looks at the lists ([`PullRule`]). One [`SharedRunq`] stands for one cache. It holds who is listed and nothing else: the caller owns
//! queues, locks and time, and learns of each operation whether the shard's lock was taken.

use std::collections::VecDeque;

use crate::newidle::{NewidleExit, newidle_exit};

/// CPUs a shard, unless said otherwise.
pub const SHARED_RUNQ_SHARD_SZ: u32 = 6;

/// When a CPU about to be idle pulls from the lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PullRule {
    /// Version 3: before every other check, but for a pending wakeup.
    Plain,
    /// Version 3 with the test of `avg_idle` in front of the pull; that of overload stays behind it.
    AvgIdleFirst,
    /// The series on top that looks at the root domain's overload: its second patch, or with `flag` the third as well, in which each
    /// shard has a flag of its own.
    Overload {
        /// The shard's flag counts.
        flag: bool,
    },
    /// Version 4: if the root domain is overloaded.
    V4,
}

impl PullRule {
    /// Whether a shard's flag can keep a CPU from its list.
    #[must_use]
    pub const fn has_flag(self) -> bool {
        matches!(self, Self::Overload { flag: true })
    }

    /// Whether a task is listed when it is queued to a CPU with `nr_running` tasks before it and may run on `nr_cpus_allowed` CPUs.
    ///
    /// Version 4 leaves out what its own CPU picks at once.
    #[must_use]
    pub const fn lists(self, nr_running: u32, nr_cpus_allowed: u32) -> bool {
        nr_cpus_allowed != 1 && !(matches!(self, Self::V4) && nr_running < 1)
    }

    /// Whether a CPU that runs out of tasks tries to pull.
    ///
    /// `lowest_cost` is `max_newidle_lb_cost` of its lowest domain in ns, `None` without domains; `avg_idle` is in ns.
    #[must_use]
    pub fn tries(
        self,
        ttwu_pending: bool,
        overloaded: bool,
        avg_idle: u64,
        lowest_cost: Option<u64>,
    ) -> bool {
        if ttwu_pending {
            return false;
        }
        match self {
            Self::Plain => true,
            Self::AvgIdleFirst => lowest_cost.is_some_and(|cost| avg_idle >= cost),
            Self::Overload { .. } | Self::V4 => overloaded,
        }
    }

    /// What newidle balance does behind a pull that brought nothing, or behind none: why it ends, if it does.
    ///
    /// The pull has dropped the queue's lock (`pulled`), so that a wakeup may have come since; `ttwu_pending` is as of now. Version 3 does not look
    /// at it again. `next_cost` is `max_newidle_lb_cost` of the domain that the variant compares `avg_idle` with, ns: the parent of the cache's domain for
    /// [`Plain`](Self::Plain) and the first domain above the cache for the overload series, the lowest domain otherwise.
    #[must_use]
    pub fn after(
        self,
        pulled: bool,
        ttwu_pending: bool,
        overloaded: bool,
        avg_idle: u64,
        next_cost: Option<u64>,
    ) -> Option<NewidleExit> {
        let looks_again = match self {
            Self::Plain | Self::AvgIdleFirst => !pulled,
            Self::Overload { .. } | Self::V4 => true,
        };
        newidle_exit(ttwu_pending && looks_again, overloaded, avg_idle, next_cost)
    }

    /// Whether the walk over domains that follows leaves out those within the cache. Version 3 meant to, but began again at the lowest.
    #[must_use]
    pub const fn skips_llc(self) -> bool {
        matches!(self, Self::Overload { .. } | Self::V4)
    }

    /// Whether a popped task that has begun to run or left its queue meanwhile makes the CPU pick again from the first class on (a result of −1).
    #[must_use]
    pub const fn retries_after_a_lost_race(self) -> bool {
        !matches!(self, Self::V4)
    }
}

/// What a look at a shard came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Popped<T> {
    /// The task, which is listed no longer.
    pub task: Option<T>,
    /// The shard's lock was taken.
    pub locked: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Shard<T> {
    list: VecDeque<T>,
    overload: bool,
}

/// The lists of one last-level cache, first in, first out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedRunq<T> {
    shards: Vec<Shard<T>>,
    flag: bool,
}

impl<T: Copy + PartialEq> SharedRunq<T> {
    /// Lists for a cache of `llc_size` CPUs, a shard for each `shard_size` of them begun; both count as at least 1.
    #[must_use]
    pub fn new(llc_size: u32, shard_size: u32, rule: PullRule) -> Self {
        let n = llc_size.max(1).div_ceil(shard_size.max(1));
        let shard = Shard {
            list: VecDeque::new(),
            overload: false,
        };
        Self {
            shards: vec![shard; n as usize],
            flag: rule.has_flag(),
        }
    }

    /// Number of shards.
    #[must_use]
    pub fn num_shards(&self) -> u32 {
        self.shards.len() as u32
    }

    /// The shard of a CPU: neighbours by number share one. Where siblings are `n` and `n + N`, they do not.
    #[must_use]
    pub fn shard_of(&self, cpu: u32) -> u32 {
        (cpu >> 1) % self.num_shards()
    }

    /// Lists a task queued to `cpu` at the end of that CPU's shard, under its lock.
    pub fn push(&mut self, cpu: u32, task: T) {
        let shard = self.shard_of(cpu) as usize;
        self.shards[shard].list.push_back(task);
    }

    /// Takes a task that has left the queue of `cpu`, to run or for good, off its list; the answer is whether it was listed, and thereby
    /// whether the lock was taken.
    pub fn remove(&mut self, cpu: u32, task: T) -> bool {
        let shard = self.shard_of(cpu) as usize;
        let list = &mut self.shards[shard].list;
        match list.iter().position(|&t| t == task) {
            Some(at) => list.remove(at).is_some(),
            None => false,
        }
    }

    /// `cpu` has come from fewer than two tasks to two or more, of any class; the push is before that.
    pub fn overloaded(&mut self, cpu: u32) {
        let shard = self.shard_of(cpu) as usize;
        self.shards[shard].overload = true;
    }

    /// The first task of a shard, if `allowed` lets it go; a second candidate is never looked at.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn pop(&mut self, shard: u32, allowed: impl FnOnce(T) -> bool) -> Popped<T> {
        let s = &mut self.shards[shard as usize];
        if self.flag && !s.overload {
            return Popped {
                task: None,
                locked: false,
            };
        }
        let Some(&head) = s.list.front() else {
            // Nothing sets it again while a CPU stays at two tasks or more: the hole of that series.
            s.overload = false;
            return Popped {
                task: None,
                locked: false,
            };
        };
        let task = allowed(head).then_some(head);
        if task.is_some() {
            s.list.pop_front();
        }
        Popped { task, locked: true }
    }

    /// What `cpu` pulls: from its own shard on, wrapping; and how many shards' locks that took.
    pub fn pick(&mut self, cpu: u32, mut allowed: impl FnMut(T) -> bool) -> (Option<T>, u32) {
        let (own, n) = (self.shard_of(cpu), self.num_shards());
        let mut locks = 0;
        for i in 0..n {
            let popped = self.pop((own + i) % n, &mut allowed);
            locks += u32::from(popped.locked);
            if popped.task.is_some() {
                return (popped.task, locks);
            }
        }
        (None, locks)
    }

    /// Empties all lists, as a rebuild of domains and the feature's end do; the tasks stay queued.
    pub fn drain(&mut self) {
        for s in &mut self.shards {
            s.list.clear();
            s.overload = false;
        }
    }
}
