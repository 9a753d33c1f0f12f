//! `/sys/devices/system/cpu` and `node` (Documentation/ABI: sysfs-devices-system-cpu, sysfs-devices-node).

use std::collections::BTreeMap;

use schedlab_topology::{Arch, CPUS_LIMIT, IdleState, NODES_LIMIT};

use super::gathered::{FoundCpu, Gathered};
use super::tree::Tree;
use super::wrong;
use crate::cpulist::{CPU_LIST_FORM, parse_cpu_list};
use crate::error::Error;

/// x86 takes the L3 for the last level, whatever lies behind it.
const X86_LAST_LEVEL: u32 = 3;
/// Most numbers of CPUs in a list, as the kernel's largest `NR_CPUS`.
const NUMBERS: u32 = 8_192;
/// cpuidle's name for waiting in a loop, which is no sleep.
const POLL: &str = "POLL";

pub(super) fn read(tree: &Tree) -> Result<Gathered, Error> {
    let online = online(tree)?;
    if online.len() > CPUS_LIMIT as usize {
        return Err(wrong(
            tree.place("cpu/online"),
            format!("{} CPUs; a machine has at most {CPUS_LIMIT}", online.len()),
        ));
    }
    let mut out = Gathered {
        place: tree.place("cpu"),
        arch: arch(tree, &online)?,
        ..Gathered::default()
    };
    cpuinfo(tree, &mut out)?;
    let nodes = nodes(tree, &online, &mut out)?;
    let sets = Sets {
        tree,
        online: &online,
    };
    let core = sets.of(&["topology/core_cpus_list", "topology/thread_siblings_list"])?;
    let cluster = sets.maybe("topology/cluster_cpus_list")?;
    let package = sets.of(&["topology/package_cpus_list", "topology/core_siblings_list"])?;
    let (llc, l2) = caches(&sets, out.arch)?;
    if llc.is_none() {
        out.notes
            .push("no caches are listed; a package is taken as a last-level cache".into());
    }
    let cluster = match (cluster, out.arch) {
        (None, Arch::X86) => l2,
        (cluster, _) => cluster,
    };
    for (i, &number) in online.iter().enumerate() {
        let at = |v: &Option<Vec<u64>>| v.as_ref().map(|v| v[i]);
        out.cpus.push(FoundCpu {
            number,
            core: core[i],
            cluster: at(&cluster),
            llc: at(&llc),
            node: nodes[i],
            socket: package[i],
            capacity: capacity(tree, number)?,
        });
    }
    out.idle_states = idle_states(tree, online[0])?;
    if let Some(isolated) = tree.get("cpu/isolated")?.filter(|t| !t.is_empty()) {
        out.notes.push(format!(
            "CPUs {isolated} are isolated there; here they are as the others"
        ));
    }
    Ok(out)
}

/// Reads a list of CPUs or nodes.
fn list(tree: &Tree, path: &str, text: &str) -> Result<Vec<u32>, Error> {
    parse_cpu_list(text, NUMBERS).map_err(|_| {
        wrong(
            tree.place(path),
            format!("expected {CPU_LIST_FORM}, found {text:?}"),
        )
    })
}

fn number(tree: &Tree, path: &str, text: &str) -> Result<u32, Error> {
    text.parse().map_err(|_| {
        wrong(
            tree.place(path),
            format!("expected a number, found {text:?}"),
        )
    })
}

/// CPUs that are online, by the list or, in copies without it, by the folders.
fn online(tree: &Tree) -> Result<Vec<u32>, Error> {
    for path in ["cpu/online", "cpu/present"] {
        if let Some(text) = tree.get(path)? {
            if text.is_empty() {
                return Err(wrong(
                    tree.place(path),
                    "is empty: no CPU; expected at least 1",
                ));
            }
            return list(tree, path, &text);
        }
    }
    let folders: Vec<u32> = tree
        .numbered("cpu", "cpu")
        .into_iter()
        .filter(|n| *n < NUMBERS && !tree.list(&format!("cpu/cpu{n}/topology")).is_empty())
        .collect();
    if folders.is_empty() {
        return Err(wrong(
            tree.place("cpu"),
            "has no CPU: neither `online` nor a folder `cpu0` with `topology`",
        ));
    }
    Ok(folders)
}

/// x86 unless something says otherwise.
fn arch(tree: &Tree, online: &[u32]) -> Result<Arch, Error> {
    if let Some(text) = tree.beside("cpuinfo")? {
        let x86 = text.lines().any(|l| l.starts_with("vendor_id"));
        return Ok(if x86 { Arch::X86 } else { Arch::Generic });
    }
    let folder = format!("cpu/cpu{}", online[0]);
    let arm = !tree.list(&format!("{folder}/regs")).is_empty();
    Ok(if arm { Arch::Generic } else { Arch::X86 })
}

/// Vendor, family and model.
fn cpuinfo(tree: &Tree, out: &mut Gathered) -> Result<(), Error> {
    let Some(text) = tree.beside("cpuinfo")? else {
        return Ok(());
    };
    let value = |key: &str| {
        text.lines()
            .filter_map(|l| l.split_once(':'))
            .find(|(k, _)| k.trim() == key)
            .map(|(_, v)| v.trim().to_string())
    };
    out.vendor = value("vendor_id");
    out.model = value("model name");
    out.family = value("cpu family").and_then(|v| v.parse().ok());
    Ok(())
}

/// The node of each CPU, and distances.
fn nodes(tree: &Tree, online: &[u32], out: &mut Gathered) -> Result<Vec<u32>, Error> {
    let all = match tree.get("node/online")?.filter(|t| !t.is_empty()) {
        Some(text) => list(tree, "node/online", &text)?,
        None => tree.numbered("node", "node"),
    };
    if all.is_empty() {
        out.notes
            .push("no nodes are listed; all CPUs are taken as one node's".into());
        return Ok(vec![0; online.len()]);
    }
    if all.len() > NODES_LIMIT as usize {
        return Err(wrong(
            tree.place("node"),
            format!("{} nodes; a machine has at most {NODES_LIMIT}", all.len()),
        ));
    }
    let mut of: BTreeMap<u32, u32> = BTreeMap::new();
    for &node in &all {
        let path = format!("node/node{node}/cpulist");
        let text = tree
            .get(&path)?
            .ok_or_else(|| wrong(tree.place(&path), "is missing; expected the node's CPUs"))?;
        // A node of memory alone has an empty list.
        let cpus = if text.is_empty() {
            Vec::new()
        } else {
            list(tree, &path, &text)?
        };
        for cpu in cpus {
            if let Some(other) = of.insert(cpu, node) {
                return Err(wrong(
                    tree.place(&path),
                    format!("CPU {cpu} is in node {other} too; expected it in one node"),
                ));
            }
        }
        let path = format!("node/node{node}/distance");
        let text = tree.need(&path, "the distance to each node")?;
        let row: Vec<u32> = text
            .split_whitespace()
            .map(|d| number(tree, &path, d))
            .collect::<Result<_, _>>()?;
        if row.len() != all.len() {
            return Err(wrong(
                tree.place(&path),
                format!(
                    "{} distances for {} nodes; expected one a node",
                    row.len(),
                    all.len()
                ),
            ));
        }
        out.distances
            .insert(node, all.iter().copied().zip(row).collect());
    }
    online
        .iter()
        .map(|cpu| {
            of.get(cpu).copied().ok_or_else(|| {
                wrong(
                    tree.place("node"),
                    format!("CPU {cpu} is in no node's cpulist; expected it in one"),
                )
            })
        })
        .collect()
}

/// Sets of CPUs that each CPU names.
struct Sets<'a> {
    tree: &'a Tree,
    online: &'a [u32],
}

impl Sets<'_> {
    /// The first of these files that the first CPU has, which then all must have.
    fn of(&self, files: &[&str]) -> Result<Vec<u64>, Error> {
        let first = self.online[0];
        for file in files {
            if self.tree.get(&format!("cpu/cpu{first}/{file}"))?.is_some() {
                return self.agreed(|cpu| Ok(Some(format!("cpu/cpu{cpu}/{file}"))));
            }
        }
        let path = format!("cpu/cpu{first}/{}", files[0]);
        self.tree.need(&path, "the CPUs that it shares this with")?;
        Ok(Vec::new())
    }

    /// A file that older kernels lack.
    fn maybe(&self, file: &str) -> Result<Option<Vec<u64>>, Error> {
        match self
            .tree
            .get(&format!("cpu/cpu{}/{file}", self.online[0]))?
        {
            None => Ok(None),
            Some(_) => self.of(&[file]).map(Some),
        }
    }

    /// A number for each CPU, equal for those that share: the smallest member of the set that all its members name alike. A CPU
    /// without a file is alone.
    fn agreed(
        &self,
        file: impl Fn(u32) -> Result<Option<String>, Error>,
    ) -> Result<Vec<u64>, Error> {
        let mut sets: BTreeMap<u32, (String, Vec<u32>)> = BTreeMap::new();
        for &cpu in self.online {
            let Some(path) = file(cpu)? else {
                sets.insert(
                    cpu,
                    (self.tree.place(&format!("cpu/cpu{cpu}/cache")), vec![cpu]),
                );
                continue;
            };
            let text = self.tree.need(&path, CPU_LIST_FORM)?;
            let mut set = list(self.tree, &path, &text)?;
            set.retain(|c| self.online.binary_search(c).is_ok());
            if !set.contains(&cpu) {
                return Err(wrong(
                    self.tree.place(&path),
                    format!("{text} does not hold CPU {cpu} itself"),
                ));
            }
            sets.insert(cpu, (self.tree.place(&path), set));
        }
        for (cpu, (place, set)) in &sets {
            for other in set {
                if let Some((_, theirs)) = sets.get(other).filter(|(_, s)| s != set) {
                    return Err(wrong(
                        place,
                        format!(
                            "CPU {cpu} shares with {}, but CPU {other} with {}; expected sets that do not overlap",
                            crate::cpulist::show_cpu_list(set),
                            crate::cpulist::show_cpu_list(theirs)
                        ),
                    ));
                }
            }
        }
        Ok(sets
            .values()
            .map(|(_, set)| set.first().copied().unwrap_or(0).into())
            .collect())
    }
}

/// For each CPU its last-level cache and its L2; `None` if no CPU has caches listed.
#[expect(clippy::type_complexity)]
fn caches(sets: &Sets<'_>, arch: Arch) -> Result<(Option<Vec<u64>>, Option<Vec<u64>>), Error> {
    let mut files: BTreeMap<u32, BTreeMap<u32, String>> = BTreeMap::new();
    for &cpu in sets.online {
        let by_level = files.entry(cpu).or_default();
        for index in sets.tree.numbered(&format!("cpu/cpu{cpu}/cache"), "index") {
            let folder = format!("cpu/cpu{cpu}/cache/index{index}");
            let path = format!("{folder}/level");
            let level = number(
                sets.tree,
                &path,
                &sets.tree.need(&path, "the cache's level")?,
            )?;
            let kind = sets
                .tree
                .need(&format!("{folder}/type"), "the cache's type")?;
            let last = match arch {
                Arch::X86 => X86_LAST_LEVEL,
                Arch::Generic => u32::MAX,
            };
            if kind != "Instruction" && level <= last {
                by_level.insert(level, format!("{folder}/shared_cpu_list"));
            }
        }
    }
    if files.values().all(BTreeMap::is_empty) {
        return Ok((None, None));
    }
    if let Some((cpu, _)) = files.iter().find(|(_, f)| f.is_empty()) {
        return Err(wrong(
            sets.tree.place(&format!("cpu/cpu{cpu}/cache")),
            "is missing or empty, but other CPUs have caches",
        ));
    }
    let of = |cpu: u32, pick: fn(&BTreeMap<u32, String>) -> Option<String>| {
        Ok(files.get(&cpu).and_then(pick))
    };
    let llc = sets.agreed(|cpu| of(cpu, |f| f.last_key_value().map(|(_, p)| p.clone())))?;
    let l2 = sets.agreed(|cpu| of(cpu, |f| f.get(&2).cloned()))?;
    Ok((Some(llc), Some(l2)))
}

fn capacity(tree: &Tree, cpu: u32) -> Result<u32, Error> {
    let path = format!("cpu/cpu{cpu}/cpu_capacity");
    let Some(text) = tree.get(&path)? else {
        return Ok(1024);
    };
    let capacity = number(tree, &path, &text)?;
    if !(1..=1024).contains(&capacity) {
        return Err(wrong(
            tree.place(&path),
            format!("{capacity}; expected 1 to 1024"),
        ));
    }
    Ok(capacity)
}

/// Idle states of a CPU that are not switched off, times in microseconds there.
fn idle_states(tree: &Tree, cpu: u32) -> Result<Vec<IdleState>, Error> {
    let folder = format!("cpu/cpu{cpu}/cpuidle");
    let mut out = Vec::new();
    for state in tree.numbered(&folder, "state") {
        let file = |name: &str| format!("{folder}/state{state}/{name}");
        let name = tree.need(&file("name"), "the state's name")?;
        let off = tree.get(&file("disable"))?.is_some_and(|t| t == "1");
        if name == POLL || off {
            continue;
        }
        let micros = |name: &str| -> Result<u64, Error> {
            match tree.get(&file(name))? {
                Some(text) => Ok(u64::from(number(tree, &file(name), &text)?) * 1_000),
                None => Ok(0),
            }
        };
        out.push(IdleState {
            name,
            exit_latency: micros("latency")?,
            target_residency: micros("residency")?,
        });
    }
    out.sort_by_key(|s| s.exit_latency);
    Ok(out)
}
