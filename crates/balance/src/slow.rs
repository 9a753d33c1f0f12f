//! Fork and exec: the idlest group, then the idlest CPU in it (reference section 12.4).

use crate::SCALE;
use crate::cpus::CpuSet;
use crate::domains::{Domain, DomainFlags, Domains, Group};
use crate::groups::{GroupStats, GroupType};
use crate::imbalance::numa_allows;

/// What the slow path asks about CPUs.
pub trait Shallow {
    /// Sums over a group without the task that is to be placed; type and average are filled in here.
    fn stats(&mut self, group: &Group) -> GroupStats;

    /// Whether the CPU is idle.
    fn idle(&mut self, cpu: u32) -> bool;

    /// Whether the CPU has SCHED_IDLE tasks only.
    fn sched_idle(&mut self, cpu: u32) -> bool;

    /// Load average of the CPU's root queue.
    fn load_avg(&mut self, cpu: u32) -> u64;

    /// How deep the CPU sleeps and since when: exit latency of its idle state (`None` where it has no states), then
    /// `idle_stamp` in ns (0: unknown to the kernel).
    fn depth(&mut self, cpu: u32) -> (Option<u64>, u64);
}

/// Chooses a CPU for a task that is forked or execs on `this`; `prev` is what a task gets that may run nowhere near.
///
/// `kind` is [`DomainFlags::BALANCE_FORK`] or [`DomainFlags::BALANCE_EXEC`].
pub fn find_dst_cpu(
    domains: &Domains,
    view: &mut impl Shallow,
    kind: DomainFlags,
    this: u32,
    prev: u32,
    allowed: &CpuSet,
) -> u32 {
    // The highest level up to which all balance; then down again, through the chosen CPU's own domains.
    let chain = domains.chain(this);
    let depth = chain
        .iter()
        .take_while(|l| domains.domain(l.domain).flags.has(kind))
        .count();
    let Some(top) = depth.checked_sub(1) else {
        return prev;
    };
    if !domains.domain(chain[top].domain).span.intersects(allowed) {
        return prev;
    }
    let (mut cpu, mut level) = (this, Some(top));
    while let Some(at) = level {
        let link = domains.chain(cpu)[at];
        let domain = domains.domain(link.domain);
        let chosen = find_group(view, domain, link.local, allowed)
            .map(|group| find_cpu(view, group, allowed, cpu))
            .filter(|&found| found != cpu);
        level = match chosen {
            None => at.checked_sub(1),
            Some(found) => {
                cpu = found;
                let weight = domain.span.len();
                let smaller = |l: &crate::domains::Link| {
                    let d = domains.domain(l.domain);
                    d.span.len() < weight && d.flags.has(kind)
                };
                domains.chain(cpu).iter().rposition(smaller)
            }
        };
    }
    cpu
}

/// The idlest group, if it is not the local one.
fn find_group<'a>(
    view: &mut impl Shallow,
    domain: &'a Domain,
    local: usize,
    allowed: &CpuSet,
) -> Option<&'a Group> {
    let mut ours: Option<(&Group, GroupStats)> = None;
    let mut idlest: Option<(&Group, GroupStats)> = None;
    for (at, group) in domain.groups_from(local) {
        if !group.span.intersects(allowed) {
            continue;
        }
        let mut stats = view.stats(group);
        stats.kind = stats.classify(domain.imbalance_pct, false, false);
        if matches!(stats.kind, GroupType::FullyBusy | GroupType::Overloaded) {
            stats.avg_load = stats.average();
        }
        if at == local {
            ours = Some((group, stats));
        } else if idlest
            .as_ref()
            .is_none_or(|(_, best)| is_idler(&stats, best))
        {
            idlest = Some((group, stats));
        }
    }
    let (group, best) = idlest?;
    let Some((_, ours)) = ours else {
        return Some(group);
    };
    goes(domain, &ours, group, &best, allowed).then_some(group)
}

fn is_idler(new: &GroupStats, best: &GroupStats) -> bool {
    if new.kind != best.kind {
        return new.kind < best.kind;
    }
    match new.kind {
        GroupType::Overloaded | GroupType::FullyBusy => new.avg_load < best.avg_load,
        GroupType::HasSpare => {
            new.idle_cpus > best.idle_cpus
                || (new.idle_cpus == best.idle_cpus && new.util < best.util)
        }
        _ => false,
    }
}

/// Whether the idlest group is so much idler than the local one that the task goes there.
fn goes(
    domain: &Domain,
    ours: &GroupStats,
    group: &Group,
    best: &GroupStats,
    allowed: &CpuSet,
) -> bool {
    if ours.kind != best.kind {
        return ours.kind > best.kind;
    }
    let numa = domain.flags.has(DomainFlags::NUMA);
    match ours.kind {
        GroupType::Overloaded | GroupType::FullyBusy => {
            let margin = SCALE * (domain.imbalance_pct.saturating_sub(100)) / 100;
            !(numa && best.avg_load + margin >= ours.avg_load)
                && best.avg_load < ours.avg_load + margin
                && 100 * ours.avg_load > domain.imbalance_pct * best.avg_load
        }
        GroupType::HasSpare => {
            let limit = domain.imb_numa_nr.min(group.span.common(allowed));
            let apart = u64::from(ours.idle_cpus.abs_diff(best.idle_cpus));
            let tolerated = apart == 0 || numa_allows(apart, ours.nr_running + 1, limit);
            !(numa && tolerated) && ours.idle_cpus < best.idle_cpus
        }
        _ => false,
    }
}

/// In a group: a CPU with SCHED_IDLE tasks only; else the idle one that wakes fastest, then that went idle last; else the
/// one with the least load.
fn find_cpu(view: &mut impl Shallow, group: &Group, allowed: &CpuSet, this: u32) -> u32 {
    if group.span.len() == 1 {
        return group.span.first().unwrap_or(this);
    }
    let mut shallow: Option<u32> = None;
    let (mut shortest, mut latest) = (u64::MAX, 0);
    let mut least: Option<(u64, u32)> = None;
    for cpu in group.span.and(allowed).iter() {
        if view.sched_idle(cpu) {
            return cpu;
        }
        if view.idle(cpu) {
            let (latency, stamp) = view.depth(cpu);
            let wakes_faster = latency.is_some_and(|l| l < shortest);
            if wakes_faster || (latency.is_none_or(|l| l == shortest) && stamp > latest) {
                shortest = latency.unwrap_or(shortest);
                latest = stamp;
                shallow = Some(cpu);
            }
        } else if shallow.is_none() {
            let load = view.load_avg(cpu);
            if least.is_none_or(|(l, _)| load < l) {
                least = Some((load, cpu));
            }
        }
    }
    shallow.or(least.map(|(_, cpu)| cpu)).unwrap_or(this)
}
