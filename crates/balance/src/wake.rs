//! Choosing a CPU for a wakeup: which way to search, and from which target (reference section 12.2).

use schedlab_fair::{Feature, Features};

use crate::cpus::CpuSet;
use crate::domains::{Domain, DomainFlags, Domains};
use crate::idle::select_idle_sibling;
use crate::view::{Cpus, IdleTest, Load};

/// The machine and the switches that placement follows.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The machine.
    pub domains: &'a Domains,
    /// Switches: WA_IDLE, WA_WEIGHT, WA_BIAS, SIS_UTIL, TTWU_QUEUE.
    pub features: Features,
}

/// How often a task wakes different tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WakeeFlips {
    /// `wakee_flips`.
    pub flips: u32,
    /// The task woken last, by any number that stands for it.
    pub last_wakee: Option<u64>,
    /// Jiffy of the last halving.
    pub decayed: u64,
}

impl WakeeFlips {
    /// Notes that the task wakes `wakee` at jiffy `now`, `hz` of which are a second.
    ///
    /// The flips halve once if more than a second has passed since the last halving; then a wakee other than the last counts.
    pub fn record(&mut self, wakee: u64, now: u64, hz: u64) {
        if now.wrapping_sub(self.decayed) as i64 > hz as i64 {
            self.flips /= 2;
            self.decayed = now;
        }
        if self.last_wakee != Some(wakee) {
            self.last_wakee = Some(wakee);
            self.flips = self.flips.saturating_add(1);
        }
    }
}

/// The task that wakes another, on its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waker {
    /// Its CPU.
    pub cpu: u32,
    /// Its `wakee_flips` with this wakeup counted.
    pub flips: u32,
    /// It is a kernel thread bound to this CPU, and in task context (no interrupt).
    pub per_cpu_kthread: bool,
    /// It is exiting, so that a sync hint does not count.
    pub exiting: bool,
}

/// The task that is woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wakee<'a> {
    /// CPU that it ran on last.
    pub prev: u32,
    /// CPUs that it may run on.
    pub allowed: &'a CpuSet,
    /// `recent_used_cpu`, if it ever was set.
    pub recent: Option<u32>,
    /// Its own `wakee_flips`.
    pub flips: u32,
    /// The larger of utilization and its estimate, 0 to 1024.
    pub util: u64,
}

/// Which step of the search found the CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    /// Only one CPU is allowed.
    Pinned,
    /// The target is idle.
    Target,
    /// The previous CPU is idle.
    Prev,
    /// A per-CPU kernel thread woke it: it stays there.
    Kthread,
    /// `recent_used_cpu` is idle.
    Recent,
    /// A CPU of sufficient capacity is idle.
    Capacity,
    /// A sibling of the previous CPU is idle.
    Sibling,
    /// A core is wholly idle.
    Core,
    /// The search for a core found a thread only.
    Thread,
    /// The scan of the LLC found it.
    Scan,
    /// Within the cluster.
    Cluster,
    /// Nothing idle was found, or nothing was searched: the target.
    Fallback,
    /// Fork or exec: the idlest CPU.
    Idlest,
}

/// A choice of CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The CPU; where affinity forbids it, the caller takes another (`select_fallback_rq`).
    pub cpu: u32,
    /// How it was found.
    pub step: Step,
    /// The CPU that the search began with.
    pub target: u32,
    /// CPUs looked at in the LLC.
    pub scanned: u32,
    /// Whether the search came as far as to set `recent_used_cpu` to the previous CPU.
    pub sets_recent: bool,
}

impl Placement {
    pub(crate) fn new(cpu: u32, step: Step, target: u32) -> Self {
        Self {
            cpu,
            step,
            target,
            scanned: 0,
            sets_recent: false,
        }
    }
}

/// Chooses the CPU of a woken task (`select_task_rq_fair` for a wakeup).
///
/// `sync` is the caller's hint that the waker is about to sleep.
pub fn select_task_rq(
    rules: &Rules<'_>,
    cpus: &mut impl Cpus,
    waker: &Waker,
    wakee: &Wakee<'_>,
    sync: bool,
) -> Placement {
    if wakee.allowed.len() == 1 {
        let cpu = wakee.allowed.first().unwrap_or(wakee.prev);
        return Placement::new(cpu, Step::Pinned, cpu);
    }
    let wide = wake_wide(
        waker.flips,
        wakee.flips,
        rules.domains.llc(waker.cpu).span.len(),
    );
    let mut target = wakee.prev;
    if !wide && wakee.allowed.has(waker.cpu) && waker.cpu != wakee.prev {
        let sync = sync && !waker.exiting;
        if let Some(domain) = affine_domain(rules.domains, waker.cpu, wakee.prev) {
            target = wake_affine(rules, cpus, domain, waker.cpu, wakee.prev, sync);
        }
    }
    select_idle_sibling(rules, cpus, waker, wakee, target)
}

/// The lowest domain of `this` that has `prev` and in which wakeups are affine.
fn affine_domain(domains: &Domains, this: u32, prev: u32) -> Option<&Domain> {
    let mut chain = domains.chain(this).iter().map(|l| domains.domain(l.domain));
    chain.find(|d| d.flags.has(DomainFlags::WAKE_AFFINE) && d.span.has(prev))
}

/// Whether the two wake so many others that they had better stay apart.
fn wake_wide(waker: u32, wakee: u32, llc_size: u32) -> bool {
    let (low, high) = (waker.min(wakee), waker.max(wakee));
    low >= llc_size && u64::from(high) >= u64::from(low) * u64::from(llc_size)
}

fn wake_affine(
    rules: &Rules<'_>,
    cpus: &mut impl Cpus,
    domain: &Domain,
    this: u32,
    prev: u32,
    sync: bool,
) -> u32 {
    let mut target = None;
    if rules.features.has(Feature::WaIdle) {
        target = affine_by_idleness(rules, cpus, this, prev, sync);
    }
    if target.is_none() && rules.features.has(Feature::WaWeight) {
        let bias = rules
            .features
            .has(Feature::WaBias)
            .then_some(domain.imbalance_pct);
        target = affine_by_load(cpus, this, prev, sync, bias).then_some(this);
    }
    target.unwrap_or(prev)
}

fn affine_by_idleness(
    rules: &Rules<'_>,
    cpus: &mut impl Cpus,
    this: u32,
    prev: u32,
    sync: bool,
) -> Option<u32> {
    if cpus.idle(this, IdleTest::AffineThis) && rules.domains.share_cache(this, prev) {
        let stays = cpus.idle(prev, IdleTest::AffineBoth);
        return Some(if stays { prev } else { this });
    }
    if sync && cpus.nr_running(this).wrapping_sub(cpus.nr_delayed(this)) == 1 {
        return Some(this);
    }
    cpus.idle(prev, IdleTest::AffinePrev).then_some(prev)
}

/// Whether the waker's CPU would carry less load with the wakee than the previous one without.
///
/// Signed 64-bit arithmetic that wraps, as in the kernel. `bias` is the domain's imbalance percentage.
fn affine_by_load(
    cpus: &mut impl Cpus,
    this: u32,
    prev: u32,
    sync: bool,
    bias: Option<u64>,
) -> bool {
    let mut here = cpus.load_avg(this) as i64;
    if sync {
        let waker = cpus.task_load(Load::Waker) as i64;
        if waker > here {
            return true;
        }
        here = here.wrapping_sub(waker);
    }
    let task = cpus.task_load(Load::Wakee) as i64;
    let there = (cpus.load_avg(prev) as i64).wrapping_sub(task);
    let (here_pct, there_pct) = match bias {
        Some(pct) => (100, 100 + (pct.saturating_sub(100) / 2) as i64),
        None => (1, 1),
    };
    let here = here.wrapping_add(task).wrapping_mul(here_pct);
    let here = here.wrapping_mul(cpus.capacity(prev) as i64);
    let there = there.wrapping_mul(there_pct);
    let there = there.wrapping_mul(cpus.capacity(this) as i64);
    here < there.wrapping_add(i64::from(sync))
}
