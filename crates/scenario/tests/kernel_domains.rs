//! Domains of machines imported from sysfs, beside those of the kernel that ran there (6.12.117): what debugfs shows, spans
//! of schedstat, spans and groups as printed at boot. Each as the kernel writes it, so that text is compared with text.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use schedlab_scenario::import;
use schedlab_topology::{Domains, Flags, Group};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/topology/{name}.tar.xz"))
}

/// A file beside sysfs in the tar.
fn recorded(name: &str, file: &str) -> String {
    let packed = File::open(path(name)).unwrap();
    let plain = schedlab_trace::decoder(schedlab_trace::Compression::Xz, packed).unwrap();
    for entry in tar::Archive::new(plain).entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.path().unwrap().ends_with(format!("topology/{file}")) {
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            return text;
        }
    }
    panic!("{name}: no {file}");
}

/// Files of debugfs `sched/domains`, without what changes while the kernel runs.
fn debugfs(d: &Domains) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for cpu in 0..d.nr_cpus() {
        for (depth, link) in d.chain(cpu).iter().enumerate() {
            let domain = d.domain(link.domain);
            let mut file = |key: &str, value: String| {
                out.insert(format!("domains/cpu{cpu}/domain{depth}/{key}"), value);
            };
            file("busy_factor", domain.busy_factor.to_string());
            file("cache_nice_tries", domain.cache_nice_tries.to_string());
            file("flags", domain.flags.to_string());
            file("imbalance_pct", domain.imbalance_pct.to_string());
            file("level", domain.level_nr.to_string());
            file("max_interval", domain.max_interval.to_string());
            file("min_interval", domain.min_interval.to_string());
            file("name", domain.level.name().to_string());
            // The kernel has this file where the domain has a child.
            let own = d.local(*link).flags;
            if own != Flags::NONE {
                file("groups_flags", own.to_string());
            }
        }
    }
    out
}

/// Lines as `sched_verbose` prints them, without time stamps.
fn printed(d: &Domains) -> String {
    let mut out = String::new();
    let group = |g: &Group, overlap: bool| {
        let mut text = format!("{}:{{ span={}", g.id, g.span);
        if overlap && g.span != g.balance_mask {
            write!(text, " mask={}", g.balance_mask).unwrap();
        }
        if g.capacity != 1024 {
            write!(text, " cap={}", g.capacity).unwrap();
        }
        text + " }"
    };
    for cpu in 0..d.nr_cpus() {
        writeln!(out, "CPU{cpu} attaching sched-domain(s):").unwrap();
        for (depth, link) in d.chain(cpu).iter().enumerate() {
            let domain = d.domain(link.domain);
            let (span, level) = (&domain.span, domain.level.name());
            writeln!(
                out,
                "{:1$}domain-{depth}: span={span} level={level}",
                "",
                depth + 1
            )
            .unwrap();
            let overlap = domain.flags.has(Flags::OVERLAP);
            let groups: Vec<String> = d.groups(*link).map(|g| group(g, overlap)).collect();
            writeln!(out, "{:1$}groups: {2}", "", depth + 2, groups.join(", ")).unwrap();
        }
    }
    writeln!(out, "root domain span: 0-{}", d.nr_cpus() - 1).unwrap();
    out
}

fn same_as_the_kernel(name: &str) {
    let imported = import::import(&path(name)).unwrap();
    assert_eq!(imported.notes, Vec::<String>::new());
    let d = Domains::build(&imported.machine.hardware);

    let theirs: BTreeMap<String, String> = recorded(name, "domains.txt")
        .lines()
        .filter_map(|l| l.split_once(':'))
        .filter(|(file, _)| !file.ends_with("max_newidle_lb_cost"))
        .map(|(file, value)| (file.into(), value.trim().into()))
        .collect();
    assert!(theirs.len() >= 8 * d.nr_cpus() as usize);
    assert_eq!(debugfs(&d), theirs, "{name}: debugfs");

    let lines: String = recorded(name, "dmesg-domains.txt")
        .lines()
        .filter_map(|l| l.split_once("] "))
        .map(|(_, l)| format!("{l}\n"))
        .collect();
    assert_eq!(printed(&d), lines, "{name}: printed");

    let mut cpu = None;
    let mut spans = 0;
    for line in recorded(name, "schedstat").lines() {
        let mut words = line.split(' ');
        let what = words.next().unwrap();
        if let Some(number) = what.strip_prefix("cpu") {
            cpu = Some(number.parse::<u32>().unwrap());
        } else if let (Some(depth), Some(cpu)) = (what.strip_prefix("domain"), cpu) {
            let mask = u64::from_str_radix(words.next().unwrap(), 16).unwrap();
            let domain = d.of(cpu).nth(depth.parse().unwrap()).unwrap();
            let ours = domain.span.iter().fold(0, |m, c| m | 1_u64 << c);
            assert_eq!(ours, mask, "{name}: {line}");
            spans += 1;
        }
    }
    let chains: usize = (0..d.nr_cpus()).map(|c| d.chain(c).len()).sum();
    assert_eq!(spans, chains, "{name}: schedstat");
}

#[test]
fn two_cpus_behind_a_cache() {
    same_as_the_kernel("flat2");
}

#[test]
fn two_cores_of_two_threads() {
    same_as_the_kernel("smt4");
}

#[test]
fn two_sockets_without_numa() {
    same_as_the_kernel("llc8");
}

/// Placements recorded on it fit an `imb_numa_nr` of 1, and not the 2 of eight CPUs over one cache a node.
#[test]
fn two_nodes_of_two_cores_of_two_threads() {
    same_as_the_kernel("numa8");
    let machine = import::import(&path("numa8")).unwrap().machine;
    let d = Domains::build(&machine.hardware);
    assert_eq!(d.of(3).last().unwrap().imb_numa_nr, 1);
}
