//! Machines, workloads, scenarios and studies as files.

mod builtin;
mod channel;
mod cpulist;
mod error;
mod hackbench;
mod json;
mod kernel;
pub mod list;
mod machine;
mod objects;
mod overrides;
mod plan;
mod reader;
mod rtapp;
mod scenario;
mod source;
mod steps;
mod study;
mod suggest;
mod tasks;
mod time;
mod tree;

pub use channel::{ChannelKind, PIPE_CAPACITY, SOCKET_SNDBUF};
pub use cpulist::show_cpu_list;
pub use error::{Error, Place, Warning};
pub use hackbench::{Hackbench, HackbenchCosts};
pub use kernel::{Kernel, Preempt};
pub use machine::{CpuPlace, Machine, Siblings};
pub use overrides::Overrides;
pub use plan::{GroupPlan, Plan, Quota};
pub use rtapp::RtApp;
pub use scenario::Scenario;
pub use study::{Study, Variant};
pub use time::{parse_time, show_time};
