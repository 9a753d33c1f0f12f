//! Machines for tests.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part.

use schedlab_topology::{Arch, Cpu, CpuSet, Domains, Flags, Machine};

/// A machine of `nodes` nodes, each a socket with one cache and `cores` cores of one thread.
pub fn nodes(cores: u32, distances: Vec<Vec<u32>>) -> Machine {
    let n = distances.len() as u32;
    let cpus = (0..n * cores).map(|i| Cpu {
        core: i,
        cluster: i,
        llc: i / cores,
        node: i / cores,
        socket: i / cores,
        capacity: 1024,
    });
    Machine::new(Arch::X86, cpus.collect(), distances).expect("a machine")
}

/// A chain as `NAME span` with `|` between.
pub fn chain(d: &Domains, cpu: u32) -> String {
    let all: Vec<String> = d
        .of(cpu)
        .map(|d| format!("{} {}", d.level.name(), d.span))
        .collect();
    all.join(" | ")
}

/// The groups of a CPU's domain by level name and number of such a level, own first; `(mask)` where not all may balance.
pub fn groups(d: &Domains, cpu: u32, depth: usize) -> String {
    let all: Vec<String> = d
        .groups(d.chain(cpu)[depth])
        .map(|g| match g.span == g.balance_mask {
            true => format!("{}:{}", g.id, g.span),
            false => format!("{}:{}({})", g.id, g.span, g.balance_mask),
        })
        .collect();
    all.join(" ")
}

/// What holds for the domains of every machine.
pub fn check(m: &Machine, d: &Domains) {
    let n = m.cpus.len();
    assert_eq!(d.nr_cpus() as usize, n);
    for cpu in 0..n as u32 {
        let mut below = CpuSet::of([cpu], n);
        let mut level = None;
        for link in d.chain(cpu) {
            let domain = d.domain(link.domain);
            assert!(domain.span.has(cpu), "CPU {cpu} is in its domain");
            assert!(
                below.is_subset(&domain.span),
                "CPU {cpu}: {} holds {below}",
                domain.span
            );
            assert!(below != *domain.span || domain.distance.is_some() || domain.span_weight > 1);
            assert!(level < Some(domain.level_nr), "levels ascend");
            level = Some(domain.level_nr);
            assert_eq!(domain.span_weight, domain.span.weight());
            assert_eq!(
                (domain.min_interval, domain.max_interval),
                (domain.span_weight, 2 * domain.span_weight)
            );
            let own = d.local(*link);
            assert!(own.span.has(cpu), "CPU {cpu} is in its own group");
            assert!(
                below.is_subset(&own.span),
                "the own group holds the child domain"
            );
            let mut covered = CpuSet::none(n);
            for g in d.groups(*link) {
                assert!(
                    g.span.is_subset(&domain.span),
                    "group {} in {}",
                    g.span,
                    domain.span
                );
                assert!(g.balance_mask.is_subset(&g.span) && g.balance_mask.weight() > 0);
                assert!(g.balance_mask.has(g.id));
                assert!((1..=g.weight).contains(&g.cores));
                let capacity: u64 = g
                    .span
                    .iter()
                    .map(|c| u64::from(m.cpus[c as usize].capacity))
                    .sum();
                assert_eq!(g.capacity, capacity);
                if domain.flags.has(Flags::OVERLAP) {
                    assert!(!g.span.is_subset(&covered), "each group adds something");
                } else {
                    assert!(!g.span.intersects(&covered), "groups are disjoint");
                }
                covered.add(&g.span);
            }
            assert_eq!(covered, *domain.span, "groups cover the domain");
            below = CpuSet::clone(&domain.span);
        }
        let llc = d.llc(cpu);
        assert!(d.share_cache(cpu, llc.id));
        let size = (0..n as u32).filter(|&o| d.share_cache(cpu, o)).count();
        assert_eq!(size as u32, llc.size, "CPU {cpu}");
    }
}
