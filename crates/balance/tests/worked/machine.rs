//! Machines and CPU states for the examples.

use std::collections::BTreeSet;

use schedlab_balance::{
    CpuSet, Cpus, Domain, DomainFlags, Domains, Group, GroupStats, IdleTest, Load, Shallow,
};

fn common() -> DomainFlags {
    use DomainFlags as F;
    [F::BALANCE_EXEC, F::BALANCE_FORK, F::WAKE_AFFINE]
        .into_iter()
        .fold(F::BALANCE_NEWIDLE, F::with)
}

fn spans(cpus: u32, width: u32) -> Vec<CpuSet> {
    let starts = (0..cpus).step_by(width as usize);
    starts.map(|s| (s..s + width).collect()).collect()
}

/// A domain of each kind, with the kernel's percentages.
fn level(number: u32, flags: DomainFlags, span: CpuSet, groups: Vec<Group>) -> Domain {
    let weight = u64::from(span.len());
    Domain {
        level: number,
        groups,
        flags,
        imbalance_pct: if number == 0 { 110 } else { 117 },
        cache_nice_tries: [0, 1, 1, 1, 1, 2][number as usize],
        imb_numa_nr: 1,
        min_interval: weight,
        max_interval: 2 * weight,
        busy_factor: 16,
        span,
    }
}

/// `nodes` nodes of `cores` cores of `threads` threads, an LLC a node.
pub(crate) fn machine(nodes: u32, cores: u32, threads: u32) -> Domains {
    let cpus = nodes * cores * threads;
    let mut chains = vec![Vec::new(); cpus as usize];
    let mut domains = Vec::new();
    let mut add = |domain: Domain| {
        for cpu in domain.span.iter() {
            chains[cpu as usize].push(domains.len());
        }
        domains.push(domain);
    };
    let single = |c: u32| Group::new([c].into_iter().collect(), DomainFlags::default(), 1);
    let llc = common()
        .with(DomainFlags::SHARE_LLC)
        .with(DomainFlags::PREFER_SIBLING);
    let smt = llc.with(DomainFlags::SHARE_CPUCAPACITY);
    if threads > 1 {
        for span in spans(cpus, threads) {
            let groups = span.iter().map(single).collect();
            add(level(0, smt, span, groups));
        }
    }
    for span in spans(cpus, cores * threads) {
        let within = |s: &CpuSet| s.intersects(&span);
        let groups = if threads > 1 {
            let cores = spans(cpus, threads).into_iter().filter(within);
            cores.map(|s| Group::new(s, smt, 1)).collect()
        } else {
            span.iter().map(single).collect()
        };
        add(level(2, llc, span, groups));
    }
    if nodes > 1 {
        let numa = common()
            .with(DomainFlags::NUMA)
            .with(DomainFlags::SERIALIZE);
        let groups = spans(cpus, cores * threads);
        let groups = groups.into_iter().map(|s| Group::new(s, llc, cores));
        add(level(5, numa, CpuSet::all(cpus), groups.collect()));
    }
    Domains::new(domains, chains).expect("domains")
}

/// A state of CPUs that is written down: what is not named is idle.
#[derive(Default)]
pub(crate) struct State {
    /// CPUs with tasks: number of tasks, by CPU.
    pub(crate) busy: Vec<(u32, u32)>,
    /// CPUs with SCHED_IDLE tasks only.
    pub(crate) sched_idle: Vec<u32>,
    /// Load averages.
    pub(crate) load: Vec<(u32, u64)>,
    /// Hierarchical loads of waker and wakee.
    pub(crate) h_load: (u64, u64),
    /// CPUs with a remote wakeup on the way.
    pub(crate) pending: Vec<u32>,
    pub(crate) delayed: Vec<(u32, u32)>,
    pub(crate) idle_cores: bool,
    pub(crate) hint_cleared: bool,
    pub(crate) nr_idle_scan: u32,
    /// Tests made, in order.
    pub(crate) asked: Vec<(u32, IdleTest)>,
    /// `idle_stamp` by CPU, for fork.
    pub(crate) stamps: Vec<(u32, u64)>,
    /// CPUs whose group is too busy for its capacity.
    pub(crate) overutilized: BTreeSet<u32>,
}

impl State {
    pub(crate) fn busy(cpus: &[u32]) -> Self {
        Self {
            busy: cpus.iter().map(|&c| (c, 1)).collect(),
            nr_idle_scan: 8,
            ..Self::default()
        }
    }

    fn tasks(&self, cpu: u32) -> u32 {
        look(&self.busy, cpu) as u32
    }

    fn is_idle(&self, cpu: u32) -> bool {
        self.tasks(cpu) == 0 && !self.sched_idle.contains(&cpu) && !self.pending.contains(&cpu)
    }
}

fn look<T: Copy + Into<u64>>(list: &[(u32, T)], cpu: u32) -> u64 {
    list.iter().find(|e| e.0 == cpu).map_or(0, |e| e.1.into())
}

impl Cpus for State {
    fn idle(&mut self, cpu: u32, test: IdleTest) -> bool {
        self.asked.push((cpu, test));
        self.is_idle(cpu)
    }
    fn sched_idle(&mut self, cpu: u32) -> bool {
        self.sched_idle.contains(&cpu)
    }
    fn nr_running(&mut self, cpu: u32) -> u32 {
        self.tasks(cpu)
    }
    fn nr_delayed(&mut self, cpu: u32) -> u32 {
        look(&self.delayed, cpu) as u32
    }
    fn load_avg(&mut self, cpu: u32) -> u64 {
        look(&self.load, cpu)
    }
    fn task_load(&mut self, whose: Load) -> u64 {
        match whose {
            Load::Waker => self.h_load.0,
            Load::Wakee => self.h_load.1,
        }
    }
    fn has_idle_cores(&mut self, _llc: u32) -> bool {
        self.idle_cores
    }
    fn clear_idle_cores(&mut self, _llc: u32) {
        self.hint_cleared = true;
    }
    fn nr_idle_scan(&mut self, _llc: u32) -> u32 {
        self.nr_idle_scan
    }
}

impl Shallow for State {
    fn stats(&mut self, group: &Group) -> GroupStats {
        let mut s = GroupStats {
            weight: group.span.len(),
            capacity: 1024 * u64::from(group.span.len()),
            ..GroupStats::default()
        };
        for cpu in group.span.iter() {
            let n = self.tasks(cpu);
            s.nr_running += n;
            s.h_nr_running += n;
            s.idle_cpus += u32::from(self.is_idle(cpu));
            s.load += look(&self.load, cpu);
            if self.overutilized.contains(&cpu) {
                s.util += 2048;
            }
        }
        s
    }
    fn idle(&mut self, cpu: u32) -> bool {
        self.is_idle(cpu)
    }
    fn sched_idle(&mut self, cpu: u32) -> bool {
        self.sched_idle.contains(&cpu)
    }
    fn load_avg(&mut self, cpu: u32) -> u64 {
        look(&self.load, cpu)
    }
    fn depth(&mut self, cpu: u32) -> (Option<u64>, u64) {
        (None, look(&self.stamps, cpu))
    }
}
