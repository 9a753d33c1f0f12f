//! Machines of a regular shape.

use crate::machine::{Arch, CPUS_LIMIT, Cpu, LOCAL_DISTANCE, Machine, MachineError, NODES_LIMIT};

/// Distance to another node where firmware says nothing (the kernel's `REMOTE_DISTANCE`).
const REMOTE_DISTANCE: u32 = 20;

/// How the operating system numbers the hardware threads of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Siblings {
    /// First threads of all cores, then second threads of all cores (x86 servers).
    #[default]
    Apart,
    /// The threads of a core have neighbouring numbers.
    Adjacent,
}

/// A machine in which everything is the same everywhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Sockets.
    pub sockets: u32,
    /// Memory nodes; sockets are divided by them or they by sockets. `None`: one a socket.
    pub nodes: Option<u32>,
    /// Last-level caches of a socket.
    pub llcs_per_socket: u32,
    /// Physical cores behind a last-level cache.
    pub cores_per_llc: u32,
    /// Physical cores of a cluster, that share an L2 cache; divides `cores_per_llc`.
    pub cores_per_cluster: u32,
    /// Hardware threads of a core.
    pub smt: u32,
    /// Numbering of the hardware threads.
    pub siblings: Siblings,
    /// Distances between nodes; empty for 10 to itself and 20 to others.
    pub distances: Vec<Vec<u32>>,
    /// Architecture.
    pub arch: Arch,
}

impl Default for Shape {
    /// One CPU.
    fn default() -> Self {
        Self {
            sockets: 1,
            nodes: None,
            llcs_per_socket: 1,
            cores_per_llc: 1,
            cores_per_cluster: 1,
            smt: 1,
            siblings: Siblings::Apart,
            distances: Vec::new(),
            arch: Arch::X86,
        }
    }
}

impl Shape {
    /// Number of CPUs, if a machine can have so many.
    ///
    /// # Errors
    /// If there are none or too many.
    pub fn nr_cpus(&self) -> Result<u32, MachineError> {
        let n = [
            self.sockets,
            self.llcs_per_socket,
            self.cores_per_llc,
            self.smt,
        ]
        .iter()
        .fold(1_u64, |n, f| n.saturating_mul(u64::from(*f)));
        match n {
            0 => Err(MachineError::NoCpu),
            n if n > u64::from(CPUS_LIMIT) => Err(MachineError::TooManyCpus(n)),
            n => Ok(n as u32),
        }
    }
}

impl Machine {
    /// The machine of a shape.
    ///
    /// # Errors
    /// As [`Machine::new`].
    pub fn of_shape(shape: &Shape) -> Result<Self, MachineError> {
        let cpus = shape.nr_cpus()?;
        let cores = cpus / shape.smt;
        let nodes = shape.nodes.unwrap_or(shape.sockets);
        if nodes == 0 || nodes > NODES_LIMIT {
            return Err(MachineError::TooManyNodes(nodes.into()));
        }
        let cores_per_node = cores.div_ceil(nodes);
        let cpus = (0..cpus)
            .map(|cpu| {
                let core = match shape.siblings {
                    Siblings::Apart => cpu % cores,
                    Siblings::Adjacent => cpu / shape.smt,
                };
                let llc = core / shape.cores_per_llc;
                Cpu {
                    core,
                    cluster: core / shape.cores_per_cluster.max(1),
                    llc,
                    node: core / cores_per_node,
                    socket: llc / shape.llcs_per_socket,
                    capacity: 1024,
                }
            })
            .collect();
        let distances = if shape.distances.is_empty() {
            let row = |a| {
                (0..nodes)
                    .map(|b| {
                        if a == b {
                            LOCAL_DISTANCE
                        } else {
                            REMOTE_DISTANCE
                        }
                    })
                    .collect()
            };
            (0..nodes).map(row).collect()
        } else {
            shape.distances.clone()
        };
        Self::new(shape.arch, cpus, distances)
    }
}
