//! The search for an idle CPU near the target (reference section 12.2, `select_idle_sibling`).

use schedlab_fair::Feature;

use crate::cpus::CpuSet;
use crate::domains::{DomainFlags, Domains};
use crate::groups::capacity_fits;
use crate::view::{Cpus, IdleTest};
use crate::wake::{Placement, Rules, Step, Wakee, Waker};

/// Idle, or runs SCHED_IDLE tasks only, and has the capacity for the task.
fn free(domains: &Domains, cpus: &mut impl Cpus, cpu: u32, test: IdleTest, util: u64) -> bool {
    (cpus.idle(cpu, test) || cpus.sched_idle(cpu))
        && (!domains.asymmetric() || capacity_fits(util, cpus.capacity(cpu)))
}

pub(crate) fn select_idle_sibling(
    rules: &Rules<'_>,
    cpus: &mut impl Cpus,
    waker: &Waker,
    wakee: &Wakee<'_>,
    target: u32,
) -> Placement {
    let domains = rules.domains;
    let found = |cpu, step| Placement::new(cpu, step, target);
    // On a machine with clusters, a CPU of another cluster is kept for the end.
    let near =
        |cpu: u32| !domains.clustered() || domains.cluster(target).is_some_and(|c| c.has(cpu));
    let mut kept = None;

    if free(domains, cpus, target, IdleTest::Target, wakee.util) {
        return found(target, Step::Target);
    }
    let prev = wakee.prev;
    if prev != target
        && domains.share_cache(prev, target)
        && free(domains, cpus, prev, IdleTest::Prev, wakee.util)
    {
        if near(prev) {
            return found(prev, Step::Prev);
        }
        kept = Some((prev, Step::Prev));
    }
    if waker.per_cpu_kthread
        && prev == waker.cpu
        && cpus.nr_running(prev) <= 1
        && (!domains.asymmetric() || capacity_fits(wakee.util, cpus.capacity(prev)))
    {
        return found(prev, Step::Kthread);
    }
    let mut placement = match usable_recent(rules, cpus, wakee, target) {
        Some(cpu) if near(cpu) => found(cpu, Step::Recent),
        recent => {
            kept = kept.or(recent.map(|cpu| (cpu, Step::Recent)));
            search(rules, cpus, wakee, target, kept)
        }
    };
    placement.sets_recent = true;
    placement
}

fn usable_recent(
    rules: &Rules<'_>,
    cpus: &mut impl Cpus,
    wakee: &Wakee<'_>,
    target: u32,
) -> Option<u32> {
    let recent = wakee.recent?;
    let usable = recent != wakee.prev
        && recent != target
        && rules.domains.share_cache(recent, target)
        && (cpus.idle(recent, IdleTest::Recent) || cpus.sched_idle(recent))
        && wakee.allowed.has(recent)
        && (!rules.domains.asymmetric() || capacity_fits(wakee.util, cpus.capacity(recent)));
    usable.then_some(recent)
}

/// The searches behind the quick tests; `kept` is what to fall back on.
fn search(
    rules: &Rules<'_>,
    cpus: &mut impl Cpus,
    wakee: &Wakee<'_>,
    target: u32,
    kept: Option<(u32, Step)>,
) -> Placement {
    let domains = rules.domains;
    let found = |cpu, step| Placement::new(cpu, step, target);
    if let Some(domain) = domains.asym_domain(target) {
        let fit = idle_capacity(cpus, &domain.span.and(wakee.allowed), target, wakee.util);
        return fit.map_or_else(
            || found(target, Step::Fallback),
            |c| found(c, Step::Capacity),
        );
    }
    let llc = domains.llc(target);
    let Some(llc_domain) = llc.domain else {
        return found(target, Step::Fallback);
    };
    let mut has_idle_core = false;
    if domains.smt() {
        has_idle_core = cpus.has_idle_cores(domains.llc_of(target));
        if !has_idle_core
            && domains.share_cache(wakee.prev, target)
            && let Some(cpu) = idle_sibling(cpus, domains, wakee, &llc.span)
        {
            return found(cpu, Step::Sibling);
        }
    }
    let mut scan = Scan {
        cpus,
        domains,
        left: llc.span.and(wakee.allowed),
        limit: u64::MAX,
        thread: None,
        scanned: 0,
        has_idle_core,
    };
    if rules.features.has(Feature::SisUtil) {
        let limit = scan.cpus.nr_idle_scan(domains.llc_of(target));
        if limit == 0 {
            return kept.map_or_else(|| found(target, Step::Fallback), |(c, s)| found(c, s));
        }
        scan.limit = u64::from(limit);
    }
    let clustered = domains
        .domain(llc_domain)
        .groups
        .iter()
        .find(|g| g.span.has(target));
    let cluster = clustered.filter(|g| g.flags.has(DomainFlags::CLUSTER));
    let mut result = None;
    if let (true, Some(group)) = (domains.clustered(), cluster) {
        result = scan.around(&group.span, target, IdleTest::ClusterScan, Step::Cluster);
        if result.is_none() {
            scan.left.subtract(&group.span);
        }
    }
    if result.is_none() {
        let rest = scan.left.clone();
        result = scan.around(&rest, target, IdleTest::Scan, Step::Scan);
    }
    let scanned = scan.scanned;
    let thread = scan.thread;
    let end = match result {
        Some(end) => end,
        None if has_idle_core => {
            cpus.clear_idle_cores(domains.llc_of(target));
            thread.map_or(End::Nothing, |cpu| End::Found(cpu, Step::Thread))
        }
        None => End::Nothing,
    };
    let mut placement = match (end, kept) {
        (End::Found(cpu, step), _) => found(cpu, step),
        (End::Nothing, Some((cpu, step))) => found(cpu, step),
        (End::Nothing, None) => found(target, Step::Fallback),
    };
    placement.scanned = scanned;
    placement
}

/// An idle thread beside the previous CPU.
fn idle_sibling(
    cpus: &mut impl Cpus,
    domains: &Domains,
    wakee: &Wakee<'_>,
    llc: &CpuSet,
) -> Option<u32> {
    let usable = |c: &u32| *c != wakee.prev && wakee.allowed.has(*c) && llc.has(*c);
    let mut siblings = domains.siblings(wakee.prev).iter().filter(usable);
    siblings.find(|&c| cpus.idle(c, IdleTest::Sibling) || cpus.sched_idle(c))
}

/// The first idle CPU that the task fits on; else the idle one with the most capacity.
fn idle_capacity(cpus: &mut impl Cpus, set: &CpuSet, target: u32, util: u64) -> Option<u32> {
    let mut best: Option<(u64, u32)> = None;
    for cpu in wrapping(set, target + 1) {
        if !(cpus.idle(cpu, IdleTest::Capacity) || cpus.sched_idle(cpu)) {
            continue;
        }
        let capacity = cpus.capacity(cpu);
        if capacity_fits(util, capacity) {
            return Some(cpu);
        }
        if best.is_none_or(|(most, _)| capacity > most) {
            best = Some((capacity, cpu));
        }
    }
    best.map(|(_, cpu)| cpu)
}

/// The members of a set from `from` on, wrapping.
fn wrapping(set: &CpuSet, from: u32) -> impl Iterator<Item = u32> + '_ {
    let mut at = from;
    let mut wrapped = false;
    std::iter::from_fn(move || {
        if !wrapped {
            if let Some(cpu) = set.first_from(at) {
                at = cpu + 1;
                return Some(cpu);
            }
            wrapped = true;
            at = 0;
        }
        let cpu = set.first_from(at).filter(|&c| c < from)?;
        at = cpu + 1;
        Some(cpu)
    })
}

enum End {
    Found(u32, Step),
    Nothing,
}

struct Scan<'a, C> {
    cpus: &'a mut C,
    domains: &'a Domains,
    /// CPUs still to be looked at.
    left: CpuSet,
    /// CPUs that may be looked at, unless an idle core is known of.
    limit: u64,
    /// First idle thread met while looking for a whole core.
    thread: Option<u32>,
    scanned: u32,
    has_idle_core: bool,
}

impl<C: Cpus> Scan<'_, C> {
    /// Looks at the CPUs of `set`, wrapping from behind the target. `None`: at the end without a result.
    fn around(&mut self, set: &CpuSet, target: u32, test: IdleTest, step: Step) -> Option<End> {
        for cpu in wrapping(set, target + 1) {
            if !self.left.has(cpu) {
                continue;
            }
            if self.has_idle_core {
                if self.whole_core(cpu) {
                    return Some(End::Found(cpu, Step::Core));
                }
                continue;
            }
            if self.limit == 0 {
                return Some(End::Nothing);
            }
            self.limit -= 1;
            self.scanned += 1;
            if (self.cpus.idle(cpu, test) || self.cpus.sched_idle(cpu))
                && self.cpus.cookie_fits(cpu)
            {
                return Some(End::Found(cpu, step));
            }
        }
        None
    }

    /// Whether every thread of the core is idle; if not, the core is done with, and an idle thread of it is remembered.
    fn whole_core(&mut self, core: u32) -> bool {
        let threads = self.domains.siblings(core);
        let mut whole = true;
        for cpu in threads.iter() {
            self.scanned += 1;
            let usable = self.left.has(cpu);
            if self.cpus.idle(cpu, IdleTest::Core) {
                if self.thread.is_none() && usable {
                    self.thread = Some(cpu);
                }
                continue;
            }
            whole = false;
            if self.thread.is_some() {
                break;
            }
            if self.cpus.sched_idle(cpu) && usable {
                self.thread = Some(cpu);
                break;
            }
        }
        if !whole {
            self.left.subtract(threads);
        }
        whole
    }
}
