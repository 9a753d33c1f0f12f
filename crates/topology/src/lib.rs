//! Machines and the scheduling domains that the kernel builds from them, as data; no I/O.
//!
//! - A [`Machine`] says for each CPU which core, cluster, last-level cache, node and socket it belongs to, how fast it
//!   is, how far nodes are from each other and how deep an idle CPU may sleep. [`Machine::new`] refuses what no kernel could run on.
//! - [`Domains`] are what the kernel makes of it: for each CPU a chain of [`Domain`]s, low to high, with spans, groups,
//!   flags and intervals; levels that say nothing new are dropped and their flags merged, as `cpu_attach_domain` does.
//! - [`draw`] shows both as text.
//!
//! ```
//! use schedlab_topology::{Domains, Machine, Shape};
//!
//! // Two sockets of four cores with two threads each.
//! let machine = Machine::of_shape(&Shape { sockets: 2, cores_per_llc: 4, smt: 2, ..Shape::default() }).unwrap();
//! let domains = Domains::build(&machine);
//! let names: Vec<_> = domains.of(0).map(|d| d.level.name()).collect();
//! assert_eq!(names, ["SMT", "MC", "NUMA"]);
//! assert_eq!(domains.of(0).nth(1).unwrap().span.to_string(), "0-3,8-11");
//! ```

mod build;
mod cpuset;
mod domains;
pub mod draw;
mod flags;
mod levels;
mod machine;
mod shape;

pub use cpuset::CpuSet;
pub use domains::{Domain, DomainId, Domains, Group, GroupId, Link, Llc};
pub use flags::Flags;
pub use levels::LevelName;
pub use machine::{
    Arch, CPUS_LIMIT, Cpu, IdleState, LOCAL_DISTANCE, Machine, MachineError, NODES_LIMIT,
    PartitionError, RECLAIM_DISTANCE, partition,
};
pub use shape::{Shape, Siblings};
