//! A machine: CPUs and what they share.

use thiserror::Error;

use crate::cpuset::CpuSet;

/// Most CPUs of a machine.
pub const CPUS_LIMIT: u32 = 4_096;
/// Most nodes of a machine (the kernel's largest `NODES_SHIFT` is 10).
pub const NODES_LIMIT: u32 = 1_024;
/// Distance of a node to itself.
pub const LOCAL_DISTANCE: u32 = 10;
/// Largest distance between nodes; the kernel keeps them in a byte.
const MOST_DISTANCE: u32 = 255;
/// Distance beyond which tasks are not placed or pulled at will (`node_reclaim_distance`); AMD Zen has 32.
pub const RECLAIM_DISTANCE: u32 = 30;
/// Most idle states (the kernel's `CPUIDLE_STATE_MAX` is 10).
const IDLE_STATES_LIMIT: usize = 16;
/// Capacity of the fastest CPU.
const FULL_CAPACITY: u32 = 1_024;

/// Which set of rules an architecture brings for levels of domains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Arch {
    /// x86: a cluster is what shares an L2 cache; no package level where a package has several nodes.
    #[default]
    X86,
    /// Others (arm64, riscv): clusters as the firmware tells, never as wide as the last-level cache.
    Generic,
}

/// What a CPU belongs to. Equal numbers mean the same core, cluster, cache, node or socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cpu {
    /// Physical core, numbered through the machine.
    pub core: u32,
    /// Cluster: cores that share an L2 cache or tags of the last-level cache. Its own core if there are none.
    pub cluster: u32,
    /// Last-level cache.
    pub llc: u32,
    /// Memory node, an index of [`Machine::distances`].
    pub node: u32,
    /// Socket (package).
    pub socket: u32,
    /// Capacity, 1 to 1024 for the fastest.
    pub capacity: u32,
}

/// A way for a CPU to sleep (cpuidle).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdleState {
    /// Name, as `C1E`.
    pub name: String,
    /// Time to leave it, ns.
    pub exit_latency: u64,
    /// Shortest sleep for which it pays, ns.
    pub target_residency: u64,
}

/// A machine that a kernel could run on; made by [`Machine::new`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// What it is, in one line.
    pub about: String,
    /// Where the figures come from.
    pub source: String,
    /// Rules of its architecture.
    pub arch: Arch,
    /// CPUs by number, at least one.
    pub cpus: Vec<Cpu>,
    /// Distance of node to node, square and symmetric, 10 in the diagonal.
    pub distances: Vec<Vec<u32>>,
    /// Distance beyond which nodes are far ([`RECLAIM_DISTANCE`]).
    pub reclaim_distance: u32,
    /// Idle states, shallowest first; empty if not known.
    pub idle_states: Vec<IdleState>,
}

/// Why a machine cannot be.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum MachineError {
    /// No CPU.
    #[error("the machine has no CPU; expected at least 1")]
    NoCpu,
    /// Too many CPUs.
    #[error("{0} CPUs; a machine has at most {CPUS_LIMIT}")]
    TooManyCpus(u64),
    /// Too many nodes.
    #[error("{0} nodes; a machine has at most {NODES_LIMIT}")]
    TooManyNodes(u64),
    /// Too many idle states.
    #[error("{0} idle states; expected at most {IDLE_STATES_LIMIT}")]
    TooManyIdleStates(usize),
    /// An idle state that is shallower than the one before.
    #[error(
        "idle state `{name}` is left faster than the one before it; expected the shallowest first"
    )]
    IdleOrder {
        /// Its name.
        name: String,
    },
    /// One thing lies in several of another.
    #[error("{inner} {number}: CPUs {a} and {b} are in different {outer}s; expected one")]
    Split {
        /// Kind of the inner thing.
        inner: &'static str,
        /// Its number.
        number: u32,
        /// Kind of the outer thing.
        outer: &'static str,
        /// A CPU of it.
        a: u32,
        /// Another one.
        b: u32,
    },
    /// The matrix of distances has another size than the number of nodes.
    #[error("distances: row {row} has {found} entries; expected {expected}, one a node")]
    Row {
        /// The row, from 0; the number of rows itself is wrong if equal to the number of nodes expected.
        row: usize,
        /// How many it has.
        found: usize,
        /// How many nodes there are.
        expected: usize,
    },
    /// Number of rows.
    #[error("distances: {found} rows for {expected} nodes; expected one row a node")]
    Rows {
        /// How many there are.
        found: usize,
        /// How many nodes there are.
        expected: usize,
    },
    /// A distance out of range.
    #[error("distances: node {from} to node {to} is {distance}; expected {expected}")]
    Distance {
        /// From.
        from: usize,
        /// To.
        to: usize,
        /// The value.
        distance: u32,
        /// What is possible.
        expected: &'static str,
    },
    /// There is another distance than back.
    #[error(
        "distances: node {from} to node {to} is {there}, but node {to} to node {from} is {back}; expected equal ones"
    )]
    Asymmetric {
        /// From.
        from: usize,
        /// To.
        to: usize,
        /// Distance there.
        there: u32,
        /// Distance back.
        back: u32,
    },
    /// A node without CPUs.
    #[error("node {0} has no CPU; leave out nodes of memory alone")]
    EmptyNode(usize),
    /// A capacity out of range.
    #[error("CPU {cpu}: capacity {capacity}; expected 1 to 1024")]
    Capacity {
        /// CPU.
        cpu: usize,
        /// Its capacity.
        capacity: u32,
    },
}

impl Machine {
    /// A machine of these CPUs, checked. Names, idle states and further settings may be filled in afterwards; see
    /// [`Machine::validate`].
    ///
    /// # Errors
    /// The first thing that no machine has.
    pub fn new(arch: Arch, cpus: Vec<Cpu>, distances: Vec<Vec<u32>>) -> Result<Self, MachineError> {
        let machine = Self {
            name: "custom".into(),
            about: String::new(),
            source: String::new(),
            arch,
            cpus,
            distances,
            reclaim_distance: RECLAIM_DISTANCE,
            idle_states: Vec::new(),
        };
        machine.validate()?;
        Ok(machine)
    }

    /// Number of CPUs.
    #[must_use]
    pub fn nr_cpus(&self) -> u32 {
        self.cpus.len() as u32
    }

    /// Whether CPUs differ in capacity.
    #[must_use]
    pub fn is_asymmetric(&self) -> bool {
        self.cpus.windows(2).any(|w| w[0].capacity != w[1].capacity)
    }

    /// Number of nodes.
    #[must_use]
    pub fn nr_nodes(&self) -> usize {
        self.distances.len()
    }

    /// CPUs with equal `key`, in the order of their first CPUs.
    #[must_use]
    pub fn units(&self, key: impl Fn(&Cpu) -> u32) -> Vec<CpuSet> {
        let mut seen = std::collections::BTreeMap::new();
        let mut out: Vec<CpuSet> = Vec::new();
        for (i, cpu) in self.cpus.iter().enumerate() {
            let at = *seen.entry(key(cpu)).or_insert_with(|| {
                out.push(CpuSet::none(self.cpus.len()));
                out.len() - 1
            });
            if let Some(set) = out.get_mut(at) {
                set.set(i as u32, true);
            }
        }
        out
    }

    /// Checks what a kernel takes for granted.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), MachineError> {
        if self.cpus.is_empty() {
            return Err(MachineError::NoCpu);
        }
        if self.cpus.len() > CPUS_LIMIT as usize {
            return Err(MachineError::TooManyCpus(self.cpus.len() as u64));
        }
        for (i, c) in self.cpus.iter().enumerate() {
            if c.capacity == 0 || c.capacity > FULL_CAPACITY {
                return Err(MachineError::Capacity {
                    cpu: i,
                    capacity: c.capacity,
                });
            }
        }
        self.within("core", |c| c.core, "cluster", |c| c.cluster)?;
        self.within("core", |c| c.core, "last-level cache", |c| c.llc)?;
        self.within("core", |c| c.core, "node", |c| c.node)?;
        self.within("core", |c| c.core, "socket", |c| c.socket)?;
        let in_cache = self.within("cluster", |c| c.cluster, "last-level cache", |c| c.llc);
        if self.arch == Arch::X86 {
            in_cache?;
        } else {
            // Firmware may also tell of clusters of caches.
            in_cache.or_else(|e| {
                self.within("last-level cache", |c| c.llc, "cluster", |c| c.cluster)
                    .map_err(|_| e)
            })?;
        }
        self.check_distances()?;
        self.check_idle_states()
    }

    fn within(
        &self,
        inner: &'static str,
        key: impl Fn(&Cpu) -> u32,
        outer: &'static str,
        of: impl Fn(&Cpu) -> u32,
    ) -> Result<(), MachineError> {
        let mut first = std::collections::BTreeMap::new();
        for (i, cpu) in self.cpus.iter().enumerate() {
            let (a, at) = *first.entry(key(cpu)).or_insert((i as u32, of(cpu)));
            if at != of(cpu) {
                return Err(MachineError::Split {
                    inner,
                    number: key(cpu),
                    outer,
                    a,
                    b: i as u32,
                });
            }
        }
        Ok(())
    }

    fn check_distances(&self) -> Result<(), MachineError> {
        let n = self.distances.len();
        if n > NODES_LIMIT as usize {
            return Err(MachineError::TooManyNodes(n as u64));
        }
        let named = self.cpus.iter().map(|c| c.node as usize + 1).max();
        if named.is_some_and(|m| m > n) {
            return Err(MachineError::Rows {
                found: n,
                expected: named.unwrap_or(0),
            });
        }
        let mut has_cpu = vec![false; n];
        for c in &self.cpus {
            has_cpu[c.node as usize] = true;
        }
        if let Some(node) = has_cpu.iter().position(|h| !h) {
            return Err(MachineError::EmptyNode(node));
        }
        for (from, row) in self.distances.iter().enumerate() {
            if row.len() != n {
                return Err(MachineError::Row {
                    row: from,
                    found: row.len(),
                    expected: n,
                });
            }
        }
        for (from, row) in self.distances.iter().enumerate() {
            for (to, &distance) in row.iter().enumerate() {
                let expected = if from == to && distance != LOCAL_DISTANCE {
                    "10, the distance of a node to itself"
                } else if !(LOCAL_DISTANCE..=MOST_DISTANCE).contains(&distance) {
                    "10 to 255"
                } else {
                    continue;
                };
                return Err(MachineError::Distance {
                    from,
                    to,
                    distance,
                    expected,
                });
            }
        }
        for (from, row) in self.distances.iter().enumerate() {
            for (to, &there) in row.iter().enumerate().skip(from) {
                let back = self.distances[to][from];
                if there != back {
                    return Err(MachineError::Asymmetric {
                        from,
                        to,
                        there,
                        back,
                    });
                }
            }
        }
        Ok(())
    }

    fn check_idle_states(&self) -> Result<(), MachineError> {
        if self.idle_states.len() > IDLE_STATES_LIMIT {
            return Err(MachineError::TooManyIdleStates(self.idle_states.len()));
        }
        for w in self.idle_states.windows(2) {
            if w[1].exit_latency < w[0].exit_latency {
                return Err(MachineError::IdleOrder {
                    name: w[1].name.clone(),
                });
            }
        }
        Ok(())
    }
}

/// Why sets do not divide the CPUs of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PartitionError {
    /// A CPU in two sets.
    #[error(
        "CPU {cpu} is in number {first} and in number {second}, counted from 0; expected it in one"
    )]
    Overlap {
        /// The CPU.
        cpu: u32,
        /// One set.
        first: usize,
        /// The other.
        second: usize,
    },
    /// A CPU in no set.
    #[error("CPU {cpu} is in none; expected every CPU in one")]
    Missing {
        /// The CPU.
        cpu: u32,
    },
}

/// The number of the set that each of `n` CPUs is in.
///
/// # Errors
/// If a CPU is in none or in several.
pub fn partition(sets: &[CpuSet], n: u32) -> Result<Vec<u32>, PartitionError> {
    let mut of: Vec<Option<u32>> = vec![None; n as usize];
    for (second, set) in sets.iter().enumerate() {
        for cpu in set.iter() {
            let Some(slot) = of.get_mut(cpu as usize) else {
                continue;
            };
            if let Some(first) = slot.replace(second as u32) {
                return Err(PartitionError::Overlap {
                    cpu,
                    first: first as usize,
                    second,
                });
            }
        }
    }
    of.iter()
        .enumerate()
        .map(|(cpu, o)| o.ok_or(PartitionError::Missing { cpu: cpu as u32 }))
        .collect()
}
