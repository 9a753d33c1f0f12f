//! What a placement may ask about the CPUs.

/// Which test of the wake path asks whether a CPU is idle.
///
/// A simulator needs not look at it. A recording of a kernel says which test each answer belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum IdleTest {
    /// `wake_affine`: is the waker's CPU idle?
    AffineThis,
    /// `wake_affine`: it is, and shares cache with the previous one; is that idle too?
    AffineBoth,
    /// `wake_affine`: is the previous CPU idle, after the sync test?
    AffinePrev,
    /// `select_idle_sibling`: the target.
    Target,
    /// `select_idle_sibling`: the previous CPU.
    Prev,
    /// `select_idle_sibling`: `recent_used_cpu`.
    Recent,
    /// A sibling of the previous CPU.
    Sibling,
    /// The scan of the LLC, limited by `nr_idle_scan`.
    Scan,
    /// The same within the target's cluster.
    ClusterScan,
    /// The search of a CPU that the task fits on.
    Capacity,
    /// A thread of a core that is searched for being wholly idle.
    Core,
    /// Fork and exec: a CPU of the chosen group.
    Group,
}

impl IdleTest {
    /// In a few words, for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AffineThis => "wake_affine: waker's CPU",
            Self::AffineBoth => "wake_affine: previous CPU beside an idle waker's",
            Self::AffinePrev => "wake_affine: previous CPU",
            Self::Target => "target",
            Self::Prev => "previous CPU",
            Self::Recent => "recently used CPU",
            Self::Sibling => "sibling",
            Self::Scan => "LLC scan",
            Self::ClusterScan => "cluster scan",
            Self::Capacity => "capacity search",
            Self::Core => "idle core search",
            Self::Group => "CPU of the idlest group",
        }
    }
}

/// Whose hierarchical load is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// The waking task's.
    Waker,
    /// The woken task's.
    Wakee,
}

/// State of the CPUs as a placement sees it. CPUs and LLCs are numbered as in [`crate::Domains`].
pub trait Cpus {
    /// Whether the CPU runs its idle task, has nothing queued and no remote wakeup pending.
    fn idle(&mut self, cpu: u32, test: IdleTest) -> bool;

    /// Whether only SCHED_IDLE tasks are queued there, and at least one.
    fn sched_idle(&mut self, cpu: u32) -> bool;

    /// `rq->nr_running`: tasks of all classes, delayed ones included.
    fn nr_running(&mut self, cpu: u32) -> u32;

    /// Fair tasks queued there that sleep (delayed dequeue).
    fn nr_delayed(&mut self, cpu: u32) -> u32;

    /// Load average of the CPU's root queue.
    fn load_avg(&mut self, cpu: u32) -> u64;

    /// `task_h_load`: a task's part of its CPU's load.
    fn task_load(&mut self, whose: Load) -> u64;

    /// The hint that an LLC has an idle core.
    fn has_idle_cores(&mut self, llc: u32) -> bool;

    /// Takes the hint back after a full search in vain.
    fn clear_idle_cores(&mut self, llc: u32);

    /// `nr_idle_scan` of an LLC ([`crate::idle_scan_limit`]).
    fn nr_idle_scan(&mut self, llc: u32) -> u32;

    /// Capacity left for fair tasks, 1024 for a whole CPU.
    fn capacity(&mut self, _cpu: u32) -> u64 {
        crate::SCALE
    }

    /// Core scheduling: whether the task's cookie may run beside what runs on this CPU's core.
    fn cookie_fits(&mut self, _cpu: u32) -> bool {
        true
    }
}
