//! Levels of domains that a machine can have, low to high.

use std::collections::BTreeSet;
use std::sync::Arc as Shared;

use crate::cpuset::CpuSet;
use crate::flags::Flags;
use crate::machine::{Arch, Cpu, LOCAL_DISTANCE, Machine};

/// Name of a level, as the kernel prints it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LevelName {
    /// Hardware threads of a core.
    Smt,
    /// Cores of a cluster.
    Cls,
    /// CPUs behind a last-level cache.
    Mc,
    /// CPUs of a package (`DIE` before 6.7); in truth those of a node.
    Pkg,
    /// CPUs of a node.
    Node,
    /// Nodes up to a distance.
    Numa,
}

impl LevelName {
    /// The kernel's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Smt => "SMT",
            Self::Cls => "CLS",
            Self::Mc => "MC",
            Self::Pkg => "PKG",
            Self::Node => "NODE",
            Self::Numa => "NUMA",
        }
    }
}

/// A level: which CPUs form a domain with each CPU, and the flags that the level brings.
pub(crate) struct Level {
    pub(crate) name: LevelName,
    pub(crate) flags: Flags,
    /// Largest distance between nodes, for levels that span nodes.
    pub(crate) distance: Option<u32>,
    /// Sets of CPUs that form a domain.
    pub(crate) units: Vec<Shared<CpuSet>>,
    /// For each CPU the index of its set.
    pub(crate) unit_of: Vec<u32>,
}

impl Level {
    /// A level that divides the CPUs by a key.
    fn by(
        machine: &Machine,
        name: LevelName,
        flags: Flags,
        key: impl Fn(u32, &Cpu) -> (u32, u32),
    ) -> Self {
        let n = machine.cpus.len();
        let mut known = std::collections::BTreeMap::new();
        let mut units: Vec<CpuSet> = Vec::new();
        let mut unit_of = Vec::with_capacity(n);
        for (i, cpu) in machine.cpus.iter().enumerate() {
            let unit = *known.entry(key(i as u32, cpu)).or_insert_with(|| {
                units.push(CpuSet::none(n));
                units.len() as u32 - 1
            });
            units[unit as usize].set(i as u32, true);
            unit_of.push(unit);
        }
        Self {
            name,
            flags,
            distance: None,
            units: units.into_iter().map(Shared::new).collect(),
            unit_of,
        }
    }

    /// A level of nodes that are at most `distance` apart.
    fn nodes(
        machine: &Machine,
        name: LevelName,
        flags: Flags,
        distance: u32,
        node: &[CpuSet],
    ) -> Self {
        let n = machine.cpus.len();
        let units = machine
            .distances
            .iter()
            .map(|row| {
                let mut set = CpuSet::none(n);
                for (d, cpus) in row.iter().zip(node) {
                    if *d <= distance {
                        set.add(cpus);
                    }
                }
                Shared::new(set)
            })
            .collect();
        Self {
            name,
            flags,
            distance: flags.has(Flags::NUMA).then_some(distance),
            units,
            unit_of: machine.cpus.iter().map(|c| c.node).collect(),
        }
    }

    /// Whether groups of this level may overlap.
    pub(crate) fn overlaps(&self) -> bool {
        self.distance.is_some()
    }

    /// The domain that a CPU would have.
    pub(crate) fn span(&self, cpu: u32) -> &Shared<CpuSet> {
        &self.units[self.unit_of[cpu as usize] as usize]
    }
}

/// All levels of a machine (reference 12.1; `sched_init_numa`, and the tables of the architectures).
pub(crate) fn levels(machine: &Machine) -> Vec<Level> {
    let n = machine.cpus.len();
    let core = |_, c: &Cpu| (c.core, 0);
    // A cache that several nodes share ("sub-NUMA clusters") counts in each of them for itself.
    let llc = |_, c: &Cpu| (c.llc, c.node);
    let smt_flags = Flags::SHARE_CPUCAPACITY | Flags::SHARE_LLC;
    let mut out = vec![Level::by(machine, LevelName::Smt, smt_flags, core)];
    let mc = Level::by(machine, LevelName::Mc, Flags::SHARE_LLC, llc);
    let cluster_flags = Flags::CLUSTER | Flags::SHARE_LLC;
    let cluster = |_, c: &Cpu| (c.cluster, c.node);
    let clusters = Level::by(machine, LevelName::Cls, cluster_flags, cluster);
    out.push(match machine.arch {
        Arch::X86 => clusters,
        Arch::Generic => narrow(machine, &clusters, &mc, cluster_flags),
    });
    out.push(mc);
    if machine.arch == Arch::Generic || !nodes_in_package(machine) {
        out.push(Level::by(machine, LevelName::Pkg, Flags::NONE, |_, c| {
            (c.node, 0)
        }));
    }
    let mut node = vec![CpuSet::none(n); machine.nr_nodes()];
    for (i, c) in machine.cpus.iter().enumerate() {
        node[c.node as usize].set(i as u32, true);
    }
    let distances: BTreeSet<u32> = machine.distances.iter().flatten().copied().collect();
    for d in distances {
        let (name, flags) = if d == LOCAL_DISTANCE {
            (LevelName::Node, Flags::NONE)
        } else {
            (LevelName::Numa, Flags::NUMA)
        };
        out.push(Level::nodes(machine, name, flags, d, &node));
    }
    out
}

/// Clusters that are as wide as the cache or wider are none: the level below stands in.
fn narrow(machine: &Machine, clusters: &Level, mc: &Level, flags: Flags) -> Level {
    Level::by(machine, LevelName::Cls, flags, |cpu, c| {
        if mc.span(cpu).is_subset(clusters.span(cpu)) {
            (c.core, 1)
        } else {
            (c.cluster, 0)
        }
    })
}

fn nodes_in_package(machine: &Machine) -> bool {
    let mut node_of = std::collections::BTreeMap::new();
    machine
        .cpus
        .iter()
        .any(|c| *node_of.entry(c.socket).or_insert(c.node) != c.node)
}
