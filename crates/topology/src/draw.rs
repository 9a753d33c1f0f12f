//! A machine and its domains as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::cpuset::CpuSet;
use crate::domains::{Domain, Domains, Link};
use crate::machine::{Arch, Cpu, Machine};

/// More sets than this on a line are shown by the first ones and the last.
const SETS_SHOWN: usize = 8;

/// The machine from sockets down to cores, distances of nodes and idle states.
#[must_use]
pub fn machine(m: &Machine) -> String {
    let mut out = String::new();
    let all = CpuSet::all(m.cpus.len());
    let counts = [
        count(m.cpus.len(), "CPU"),
        count(m.units(|c| c.socket).len(), "socket"),
        count(m.nr_nodes(), "node"),
        count(m.units(|c| c.llc).len(), "last-level cache"),
        count(m.units(|c| c.core).len(), "core"),
    ];
    line(&mut out, 0, &format!("{}: {}", m.name, counts.join(", ")));
    if !m.about.is_empty() {
        line(&mut out, 1, &m.about);
    }
    if !m.source.is_empty() {
        line(&mut out, 1, &format!("source: {}", m.source));
    }
    out.push('\n');
    for socket in inside(m, &all, |c| c.socket) {
        line(
            &mut out,
            0,
            &format!("socket {}: {socket}", socket_of(m, &socket)),
        );
        for node in inside(m, &socket, |c| c.node) {
            line(
                &mut out,
                1,
                &format!("node {}: {node}", of(m, &node, |c| c.node)),
            );
            for llc in inside(m, &node, |c| c.llc) {
                cache(&mut out, m, &llc);
            }
        }
    }
    distances(&mut out, m);
    idle_states(&mut out, m);
    out
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn line(out: &mut String, depth: usize, text: &str) {
    let _ = writeln!(out, "{:indent$}{text}", "", indent = 2 * depth);
}

fn of(m: &Machine, set: &CpuSet, key: impl Fn(&Cpu) -> u32) -> u32 {
    m.cpus.get(set.first() as usize).map_or(0, key)
}

fn socket_of(m: &Machine, set: &CpuSet) -> u32 {
    of(m, set, |c| c.socket)
}

/// The CPUs of a set by key, each group as a set.
fn inside(m: &Machine, set: &CpuSet, key: impl Fn(&Cpu) -> u32) -> Vec<CpuSet> {
    let mut out: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for (i, cpu) in m
        .cpus
        .iter()
        .enumerate()
        .filter(|(i, _)| set.has(*i as u32))
    {
        out.entry(key(cpu))
            .or_insert_with(|| CpuSet::none(m.cpus.len()))
            .set(i as u32, true);
    }
    out.into_values().collect()
}

/// A last-level cache, as far as it belongs to a node.
fn cache(out: &mut String, m: &Machine, llc: &CpuSet) {
    line(
        out,
        2,
        &format!("last-level cache {}: {llc}", of(m, llc, |c| c.llc)),
    );
    let cores = inside(m, llc, |c| c.core);
    let clusters = inside(m, llc, |c| c.cluster);
    if clusters.len() < cores.len() {
        let text = format!("{}: {}", count(clusters.len(), "cluster"), sets(&clusters));
        line(out, 3, &text);
    }
    let threads: Vec<u32> = cores.iter().map(CpuSet::weight).collect();
    let threads = match (threads.iter().min(), threads.iter().max()) {
        (Some(1), Some(1)) => String::new(),
        (Some(a), Some(b)) if a == b => format!(" of {a} threads"),
        (Some(a), Some(b)) => format!(" of {a} to {b} threads"),
        _ => String::new(),
    };
    let text = format!("{}{threads}: {}", count(cores.len(), "core"), sets(&cores));
    line(out, 3, &text);
    if m.is_asymmetric() {
        for cpus in inside(m, llc, |c| c.capacity) {
            line(
                out,
                3,
                &format!("capacity {}: {cpus}", of(m, &cpus, |c| c.capacity)),
            );
        }
    }
}

/// Sets with blanks between; many are cut in the middle.
fn sets(sets: &[CpuSet]) -> String {
    let text = |s: &[CpuSet]| {
        s.iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    match sets {
        [head @ .., last] if head.len() >= SETS_SHOWN => {
            format!("{} … {last}", text(&head[..SETS_SHOWN - 2]))
        }
        all => text(all),
    }
}

fn distances(out: &mut String, m: &Machine) {
    if m.nr_nodes() < 2 {
        return;
    }
    out.push_str("\ndistances");
    for to in 0..m.nr_nodes() {
        let _ = write!(out, "{to:>5}");
    }
    out.push('\n');
    for (from, row) in m.distances.iter().enumerate() {
        let _ = write!(out, "{:>9}", format!("node {from}"));
        for d in row {
            let _ = write!(out, "{d:>5}");
        }
        out.push('\n');
    }
    line(out, 0, &format!("far from {} on", m.reclaim_distance + 1));
}

fn idle_states(out: &mut String, m: &Machine) {
    if m.idle_states.is_empty() {
        return;
    }
    out.push_str("\nidle state     exit latency  target residency\n");
    for s in &m.idle_states {
        let _ = writeln!(
            out,
            "{:<14} {:>12} {:>17}",
            s.name,
            micros(s.exit_latency),
            micros(s.target_residency)
        );
    }
}

/// Nanoseconds as microseconds, exactly.
fn micros(ns: u64) -> String {
    let text = format!("{}.{:03}", ns / 1_000, ns % 1_000);
    format!("{} us", text.trim_end_matches('0').trim_end_matches('.'))
}

/// What makes two CPUs' chains alike.
fn kind(chain: &[&Domain]) -> Vec<(u32, u32, usize, String)> {
    chain
        .iter()
        .map(|d| (d.level_nr, d.span_weight, d.ring.len(), d.flags.to_string()))
        .collect()
}

/// The domains of the CPUs of `which`, or without it of one CPU of each kind.
#[must_use]
pub fn domains(m: &Machine, domains: &Domains, which: Option<&[u32]>) -> String {
    let mut out = String::new();
    let chosen: Vec<(u32, usize)> = match which {
        Some(cpus) => cpus.iter().map(|c| (*c, 0)).collect(),
        None => kinds(domains),
    };
    for (cpu, others) in chosen {
        let alike = match others {
            0 => String::new(),
            n => format!(" ({n} more have such a chain)"),
        };
        let llc = domains.llc(cpu);
        let _ = writeln!(
            out,
            "CPU {cpu}{alike}: last-level cache of {} from CPU {}, share_id {}",
            count(llc.size as usize, "CPU"),
            llc.id,
            llc.share_id
        );
        if domains.chain(cpu).is_empty() {
            line(&mut out, 1, "no domain: nothing to balance with");
        }
        for link in domains.chain(cpu) {
            domain(&mut out, m, domains, *link);
        }
    }
    if m.arch == Arch::Generic {
        out.push_str("levels by the rules of arm64 and others (x86 drops PKG if a package has several nodes)\n");
    }
    out
}

/// The first CPU of each kind of chain and how many more there are.
fn kinds(domains: &Domains) -> Vec<(u32, usize)> {
    let mut out: Vec<(u32, usize)> = Vec::new();
    let mut known = BTreeMap::new();
    for cpu in 0..domains.nr_cpus() {
        let chain: Vec<&Domain> = domains.of(cpu).collect();
        let at = *known.entry(kind(&chain)).or_insert(out.len());
        match out.get_mut(at) {
            Some((_, more)) => *more += 1,
            None => out.push((cpu, 0)),
        }
    }
    out
}

fn domain(out: &mut String, m: &Machine, domains: &Domains, link: Link) {
    let d = domains.domain(link.domain);
    let distance = match d.distance {
        Some(distance) => format!(", nodes up to {distance} apart"),
        None => String::new(),
    };
    let text = format!(
        "{} (level {}): span {}{distance}",
        d.level.name(),
        d.level_nr,
        d.span
    );
    line(out, 1, &text);
    let groups: Vec<_> = domains.groups(link).collect();
    let spans: Vec<CpuSet> = groups.iter().map(|g| CpuSet::clone(&g.span)).collect();
    let text = format!("{}: {}", count(groups.len(), "group"), sets(&spans));
    line(out, 2, &text);
    for g in groups
        .iter()
        .filter(|g| g.span != g.balance_mask)
        .take(SETS_SHOWN)
    {
        line(
            out,
            2,
            &format!("of group {}: {} may balance", g.span, g.balance_mask),
        );
    }
    let unequal = m.is_asymmetric() || groups.iter().any(|g| g.capacity != groups[0].capacity);
    if unequal {
        let list: Vec<String> = groups
            .iter()
            .take(SETS_SHOWN)
            .map(|g| g.capacity.to_string())
            .collect();
        line(out, 2, &format!("capacities: {}", list.join(" ")));
    }
    let text = format!(
        "interval {} to {} ms, busy_factor {}, imbalance_pct {}, cache_nice_tries {}, imb_numa_nr {}",
        d.min_interval,
        d.max_interval,
        d.busy_factor,
        d.imbalance_pct,
        d.cache_nice_tries,
        d.imb_numa_nr
    );
    line(out, 2, &text);
    line(out, 2, &d.flags.to_string());
    if let Some(own) = groups.first().filter(|g| g.flags != crate::Flags::NONE) {
        line(out, 2, &format!("own group: {}", own.flags));
    }
}
