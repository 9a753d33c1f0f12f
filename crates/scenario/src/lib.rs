//! Machines, workloads, scenarios and studies as files.

mod cpulist;
mod error;
mod json;
mod overrides;
mod reader;
mod source;
mod suggest;
mod time;
mod tree;

pub use cpulist::show_cpu_list;
pub use error::{Error, Place, Warning};
pub use overrides::Overrides;
pub use time::{parse_time, show_time};
