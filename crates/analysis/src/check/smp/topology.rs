//! The scheduling domains of a recorded machine, from the kernel's own account of them.
//!
//! Two texts say it all: what the kernel prints when it attaches domains (spans and groups), and
//! `sched/domains` of debugfs as lines `domains/cpuN/domainM/FILE:VALUE` (flags, percentages, intervals).

use std::collections::BTreeMap;

use schedlab_balance::{CpuSet, Domain, DomainFlags, Domains, Group};

/// Largest CPU number that a description may name.
const MAX_CPU: u32 = 8191;

/// One domain of one CPU as printed.
struct Printed {
    span: CpuSet,
    groups: Vec<CpuSet>,
}

/// Makes the domains out of the two texts.
///
/// # Errors
///
/// A line that cannot be read, a file or a domain that is missing in one of the texts, domains that contradict each other.
pub fn kernel_domains(printed: &str, files: &str) -> Result<Domains, String> {
    let printed = read_printed(printed)?;
    let files = read_files(files)?;
    let Some(&last) = printed.keys().next_back() else {
        return Err("no line `CPUn attaching sched-domain(s):`".to_string());
    };
    let smt = smt_spans(&printed, &files)?;
    let mut domains: Vec<Domain> = Vec::new();
    let mut chains = Vec::new();
    for cpu in 0..=last {
        let mut chain = Vec::new();
        for (depth, p) in printed
            .get(&cpu)
            .map_or(&[][..], Vec::as_slice)
            .iter()
            .enumerate()
        {
            let domain = make(cpu, depth, p, &files, &smt)?;
            let known = domains.iter().position(|d| *d == domain);
            chain.push(known.unwrap_or_else(|| {
                domains.push(domain);
                domains.len() - 1
            }));
        }
        chains.push(chain);
    }
    set_numa_allowance(&mut domains, &chains);
    Domains::new(domains, chains).map_err(|e| e.to_string())
}

fn make(
    cpu: u32,
    depth: usize,
    printed: &Printed,
    files: &Files,
    smt: &BTreeMap<u32, CpuSet>,
) -> Result<Domain, String> {
    let at = |name| files.number(cpu, depth, name);
    let mut groups = Vec::new();
    for span in &printed.groups {
        let first = span.first().unwrap_or(cpu);
        let flags = match depth.checked_sub(1) {
            Some(below) => files.flags(first, below)?,
            None => DomainFlags::default(),
        };
        let mut seen = CpuSet::new();
        let mut cores = 0;
        for c in span.iter() {
            if !seen.has(c) {
                cores += 1;
                seen.insert(c);
                for sibling in smt.get(&c).into_iter().flat_map(CpuSet::iter) {
                    seen.insert(sibling);
                }
            }
        }
        groups.push(Group::new(span.clone(), flags, cores));
    }
    // The kernel prints the ring from the CPU's own group on; CPUs of one domain share the ring.
    let lowest = (0..groups.len()).min_by_key(|&i| groups[i].span.first());
    groups.rotate_left(lowest.unwrap_or(0));
    let narrow = |v: u64| u32::try_from(v).unwrap_or(u32::MAX);
    Ok(Domain {
        level: narrow(at("level")?),
        span: printed.span.clone(),
        groups,
        flags: files.flags(cpu, depth)?,
        imbalance_pct: at("imbalance_pct")?,
        cache_nice_tries: narrow(at("cache_nice_tries")?),
        imb_numa_nr: 0,
        min_interval: at("min_interval")?,
        max_interval: at("max_interval")?,
        busy_factor: at("busy_factor")?,
    })
}

/// `imb_numa_nr` is in no file; it is computed as the kernel does, from the lowest level above the LLC.
///
/// Where a NUMA level stands right on the LLC, the level between (one LLC a package) was dropped after the computation.
fn set_numa_allowance(domains: &mut [Domain], chains: &[Vec<usize>]) {
    for chain in chains {
        let llc = chain
            .iter()
            .rposition(|&d| domains[d].flags.has(DomainFlags::SHARE_LLC));
        let Some(at) = llc else { continue };
        let llc = domains[chain[at]].span.len().max(1);
        let numa_at = |d: &usize| domains[*d].flags.has(DomainFlags::NUMA);
        let lowest_numa = chain.iter().find(|d| numa_at(d)).copied();
        let above = chain.get(at + 1).copied();
        let base = match above {
            Some(d) if !numa_at(&d) => domains[d].span.len() / llc,
            _ => (llc / 8).max(1),
        };
        let span = lowest_numa
            .or(above)
            .map_or(llc, |d| domains[d].span.len())
            .max(1);
        for &d in chain.iter().skip(at + 1) {
            let factor = (domains[d].span.len() / span).max(1);
            domains[d].imb_numa_nr = base.max(1) * factor;
        }
    }
}

fn smt_spans(
    printed: &BTreeMap<u32, Vec<Printed>>,
    files: &Files,
) -> Result<BTreeMap<u32, CpuSet>, String> {
    let mut spans = BTreeMap::new();
    for (&cpu, chain) in printed {
        for (depth, p) in chain.iter().enumerate() {
            if files.flags(cpu, depth)?.has(DomainFlags::SHARE_CPUCAPACITY) {
                spans.insert(cpu, p.span.clone());
            }
        }
    }
    Ok(spans)
}

fn read_printed(text: &str) -> Result<BTreeMap<u32, Vec<Printed>>, String> {
    let mut all: BTreeMap<u32, Vec<Printed>> = BTreeMap::new();
    let mut current: Option<u32> = None;
    for (i, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("line {}: {what}: `{}`", i + 1, line.trim());
        let body = line.split_once(']').map_or(line, |(_, rest)| rest).trim();
        if let Some(cpu) = body
            .strip_prefix("CPU")
            .and_then(|b| b.strip_suffix(" attaching sched-domain(s):"))
        {
            let cpu = cpu.parse().ok().filter(|&c| c <= MAX_CPU);
            let cpu = cpu.ok_or_else(|| wrong("expected a CPU number"))?;
            all.insert(cpu, Vec::new());
            current = Some(cpu);
            continue;
        }
        let Some(chain) = current.and_then(|c| all.get_mut(&c)) else {
            continue;
        };
        if body.starts_with("domain-") {
            let span = value_of(body, "span=").ok_or_else(|| wrong("expected span="))?;
            let span = cpu_list(span).ok_or_else(|| wrong("expected a list of CPUs"))?;
            chain.push(Printed {
                span,
                groups: Vec::new(),
            });
        } else if let (Some(groups), Some(domain)) =
            (body.strip_prefix("groups:"), chain.last_mut())
        {
            for group in groups.split('{').skip(1) {
                let span = value_of(group, "span=").and_then(cpu_list);
                domain
                    .groups
                    .push(span.ok_or_else(|| wrong("expected span= of a group"))?);
            }
        }
    }
    Ok(all)
}

fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(key)?;
    rest.split([' ', '}']).next()
}

fn cpu_list(text: &str) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        if from > to || to > MAX_CPU {
            return None;
        }
        for cpu in from..=to {
            set.insert(cpu);
        }
    }
    Some(set)
}

/// Files of `sched/domains` by CPU, depth and name.
struct Files(BTreeMap<(u32, usize, String), String>);

impl Files {
    fn text(&self, cpu: u32, depth: usize, name: &str) -> Result<&str, String> {
        let found = self.0.get(&(cpu, depth, name.to_string()));
        found
            .map(String::as_str)
            .ok_or_else(|| format!("no line `domains/cpu{cpu}/domain{depth}/{name}:…`"))
    }

    fn number(&self, cpu: u32, depth: usize, name: &str) -> Result<u64, String> {
        let text = self.text(cpu, depth, name)?;
        let number = text.parse::<u32>().map(u64::from);
        number.map_err(|_| {
            format!("domains/cpu{cpu}/domain{depth}/{name}: expected a number, not `{text}`")
        })
    }

    fn flags(&self, cpu: u32, depth: usize) -> Result<DomainFlags, String> {
        let text = self.text(cpu, depth, "flags")?;
        let known = text.split_ascii_whitespace().filter_map(DomainFlags::parse);
        Ok(known.fold(DomainFlags::default(), DomainFlags::with))
    }
}

fn read_files(text: &str) -> Result<Files, String> {
    let mut files = BTreeMap::new();
    for (i, line) in text
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty())
    {
        let wrong = || {
            format!(
                "line {}: expected `domains/cpuN/domainM/FILE:VALUE`, not `{line}`",
                i + 1
            )
        };
        let (path, value) = line.split_once(':').ok_or_else(wrong)?;
        let mut parts = path.split('/').skip_while(|p| *p != "domains").skip(1);
        let (cpu, depth, name) = (parts.next(), parts.next(), parts.next());
        let cpu = cpu.and_then(|c| c.strip_prefix("cpu")?.parse().ok());
        let depth = depth.and_then(|d| d.strip_prefix("domain")?.parse().ok());
        let (Some(cpu), Some(depth), Some(name)) = (cpu, depth, name) else {
            return Err(wrong());
        };
        files.insert((cpu, depth, name.to_string()), value.trim().to_string());
    }
    Ok(Files(files))
}
