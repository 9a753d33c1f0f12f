//! Machines, workloads, scenarios and studies as files.
//!
//! From the bottom up:
//!
//! - *Text with places*: TOML (`tree`) and JSON (`json`) keep where each key and value was written, `overrides` changes
//!   a document as `--set` says, and `reader` refuses what nobody asked for. So every [`Error`] names file, line,
//!   column, key and what was expected, whether the fault lies in a file or in an option.
//! - *What runs*: `steps` and `tasks` for scenario files, [`RtApp`] for rt-app's, [`Hackbench`] for the built-in
//!   workload; all end in a [`Plan`], programs and objects as data.
//! - *Where*: [`Machine`], [`Kernel`] and `costs`.
//! - *Whole*: a [`Scenario`] is one simulation ([`Scenario::run`]), a [`Study`] compares several ([`run_study`]).
//!
//! ```
//! use schedlab_scenario::{Overrides, Scenario};
//!
//! let text = r#"
//! machine = "flat-1"
//! duration = "10ms"
//! [[task]]
//! name = "hog"
//! count = 2
//! kind = "hog"
//! "#;
//! let mut overrides = Overrides::new();
//! overrides.push("task.hog.nice=5").unwrap();
//! let scenario = Scenario::parse("two.toml", text, "".as_ref(), &overrides).unwrap();
//! let outcome = scenario.run(|_event| {}).unwrap();
//! assert_eq!(outcome.result.cpus[0].user, 10_000_000);
//! ```

mod builtin;
mod channel;
mod costs;
mod cpulist;
mod error;
mod hackbench;
pub mod import;
mod json;
mod kernel;
pub mod list;
mod machine;
mod objects;
mod overrides;
mod plan;
mod reader;
pub mod replay;
mod rtapp;
mod run;
mod run_study;
mod scenario;
mod source;
mod steps;
mod study;
mod suggest;
mod tasks;
mod time;
mod tree;

pub use channel::{ChannelKind, PIPE_CAPACITY, SOCKET_SNDBUF};
pub use cpulist::{cpu_list, show_cpu_list};
pub use error::{Error, Place, Warning};
pub use hackbench::{Hackbench, HackbenchCosts};
pub use kernel::{Kernel, Preempt};
pub use machine::Machine;
pub use overrides::Overrides;
pub use plan::{GroupPlan, Plan, Quota};
pub use rtapp::RtApp;
pub use run::{Figure, RunOptions, RunOutcome};
pub use run_study::{StudyError, run_study};
pub use scenario::Scenario;
pub use study::{Study, Variant};
pub use time::{parse_time, show_time};
