//! What any source tells, on its way to a machine.

use std::collections::BTreeMap;

use schedlab_topology::{Arch, Cpu, IdleState, LOCAL_DISTANCE, Machine as Hardware};

use super::{Imported, wrong};
use crate::cpulist::show_cpu_list;
use crate::error::Error;
use crate::machine::Machine;

/// `node_reclaim_distance` that the kernel sets for AMD's Zen.
const ZEN_RECLAIM_DISTANCE: u32 = 32;
/// CPU family of the first Zen.
const ZEN_FAMILY: u32 = 0x17;
/// Distance to another node if nothing is known (the kernel's `REMOTE_DISTANCE`).
const REMOTE_DISTANCE: u32 = 20;

/// A CPU as a source has it; numbers are any that tell things apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FoundCpu {
    /// Its number there.
    pub(super) number: u32,
    pub(super) core: u64,
    /// Cluster, if the source knows of any.
    pub(super) cluster: Option<u64>,
    /// Last-level cache, if the source knows of any.
    pub(super) llc: Option<u64>,
    pub(super) node: u32,
    pub(super) socket: u64,
    pub(super) capacity: u32,
}

/// A machine as a source has it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Gathered {
    /// What messages call the source.
    pub(super) place: String,
    pub(super) arch: Arch,
    pub(super) vendor: Option<String>,
    pub(super) family: Option<u32>,
    pub(super) model: Option<String>,
    /// CPUs that are online.
    pub(super) cpus: Vec<FoundCpu>,
    /// Distances by the source's numbers of nodes; nodes may lack CPUs.
    pub(super) distances: BTreeMap<u32, BTreeMap<u32, u32>>,
    pub(super) idle_states: Vec<IdleState>,
    pub(super) notes: Vec<String>,
}

impl Gathered {
    fn is_amd(&self) -> bool {
        let amd = ["AuthenticAMD", "HygonGenuine"];
        self.vendor.as_deref().is_some_and(|v| amd.contains(&v))
    }

    /// The machine, with CPUs, cores, caches, nodes and sockets numbered from 0 without gaps, in the order of the CPUs.
    pub(super) fn machine(mut self, name: &str, source: &str) -> Result<Imported, Error> {
        self.cpus.sort_by_key(|c| c.number);
        if self.cpus.is_empty() {
            return Err(wrong(
                self.place,
                "has no CPU that is online; expected at least 1",
            ));
        }
        let nodes = self.nodes();
        let distances = self.matrix(&nodes)?;
        let mut cores = Numbers::default();
        let mut clusters = Numbers::default();
        let mut llcs = Numbers::default();
        let mut sockets = Numbers::default();
        let mut core_of_cluster = BTreeMap::new();
        for c in &self.cpus {
            core_of_cluster
                .entry((c.core, c.socket))
                .or_insert(c.cluster);
        }
        let cpus = self
            .cpus
            .iter()
            .map(|c| {
                let core = cores.of((0, c.core, c.socket));
                // A cluster narrower than the core counts for nothing, as the level of the core is below it.
                let split = core_of_cluster.get(&(c.core, c.socket)) != Some(&c.cluster);
                Cpu {
                    core,
                    cluster: match c.cluster.filter(|_| !split) {
                        Some(cluster) => clusters.of((0, cluster, 0)),
                        None => clusters.of((1, core.into(), 0)),
                    },
                    llc: match c.llc {
                        Some(llc) => llcs.of((0, llc, 0)),
                        None => llcs.of((1, c.socket, 0)),
                    },
                    node: nodes.iter().position(|n| *n == c.node).unwrap_or(0) as u32,
                    socket: sockets.of((0, c.socket, 0)),
                    capacity: c.capacity,
                }
            })
            .collect();
        let mut hardware = Hardware::new(self.arch, cpus, distances)
            .map_err(|e| wrong(self.place.clone(), e.to_string()))?;
        if self.is_amd() && self.family.is_none_or(|f| f >= ZEN_FAMILY) {
            hardware.reclaim_distance = ZEN_RECLAIM_DISTANCE;
        }
        hardware.name = name.into();
        hardware.about = self.about();
        hardware.source = source.into();
        hardware.idle_states = std::mem::take(&mut self.idle_states);
        hardware
            .validate()
            .map_err(|e| wrong(self.place.clone(), e.to_string()))?;
        self.note_gaps();
        let costs = if self.is_amd() {
            "epyc-milan-2s"
        } else {
            "xeon-2s"
        };
        Ok(Imported {
            machine: Machine::of_hardware(hardware, costs),
            notes: self.notes,
        })
    }

    fn about(&self) -> String {
        let n = self.cpus.len();
        let cpus = if n == 1 {
            "1 CPU".into()
        } else {
            format!("{n} CPUs")
        };
        match &self.model {
            Some(model) => format!("{cpus}: {model}"),
            None => cpus,
        }
    }

    /// Nodes that have CPUs, ascending.
    fn nodes(&self) -> Vec<u32> {
        let mut nodes: Vec<u32> = self.cpus.iter().map(|c| c.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    fn matrix(&mut self, nodes: &[u32]) -> Result<Vec<Vec<u32>>, Error> {
        if self.distances.is_empty() && nodes.len() > 1 {
            self.notes.push(format!(
                "distances of nodes are not known; taken as {LOCAL_DISTANCE} and {REMOTE_DISTANCE}"
            ));
        }
        let left_out: Vec<String> = self
            .distances
            .keys()
            .filter(|n| !nodes.contains(n))
            .map(ToString::to_string)
            .collect();
        if !left_out.is_empty() {
            self.notes.push(format!(
                "nodes without CPUs are left out: {}",
                left_out.join(", ")
            ));
        }
        let distance = |a: &u32, b: &u32| {
            if self.distances.is_empty() {
                return Ok(if a == b {
                    LOCAL_DISTANCE
                } else {
                    REMOTE_DISTANCE
                });
            }
            self.distances
                .get(a)
                .and_then(|row| row.get(b))
                .copied()
                .ok_or_else(|| {
                    wrong(
                        self.place.clone(),
                        format!("no distance from node {a} to node {b}"),
                    )
                })
        };
        nodes
            .iter()
            .map(|a| nodes.iter().map(|b| distance(a, b)).collect())
            .collect()
    }

    fn note_gaps(&mut self) {
        let numbers: Vec<u32> = self.cpus.iter().map(|c| c.number).collect();
        if numbers.iter().enumerate().any(|(i, n)| i as u32 != *n) {
            self.notes.push(format!(
                "CPUs {} are online; they are numbered 0 to {} here",
                show_cpu_list(&numbers),
                numbers.len() - 1
            ));
        }
    }
}

/// New numbers, in the order of being asked.
#[derive(Default)]
struct Numbers(BTreeMap<(u8, u64, u64), u32>);

impl Numbers {
    fn of(&mut self, key: (u8, u64, u64)) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(key).or_insert(next)
    }
}
