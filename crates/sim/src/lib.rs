//! A deterministic discrete-event simulator of CPUs around the fair class.
//!
//! A [`SimConfig`] says on what, under which rules, what runs: tasks are programs of small operations
//! ([`program`]). [`Sim`] plays it through and emits the kernel's own tracepoints to a [`Sink`], its only output
//! stream; a [`RunResult`] adds what no tracepoint tells. The same configuration gives the same events, byte for byte.
//!
//! ```text
//!            agenda (order.rs): ticks, timers, interrupts, ends of work, in one total order
//!               │
//!  engine.rs ───┤ accounts time, hands the event on
//!               ├─ sched.rs: tick, wakeup, interrupt exit, the switch ── fair class, rt.rs, server.rs, preempt.rs
//!               ├─ interp.rs: programs: run, sleep, channels, locks, fork, yield …
//!               ├─ placement.rs: which CPU
//!               └─ core_sched.rs: what siblings of a core may run at once
//! ```

mod code;
mod config;
mod core_sched;
mod costs;
mod engine;
mod interp;
pub mod order;
mod placement;
mod preempt;
pub mod program;
mod result;
mod rng;
mod rt;
mod sched;
mod server;
mod state;
mod verify;

pub use config::{CpuSite, GroupSpec, PreemptModel, SimConfig, SimError};
pub use core_sched::CoreStats;
pub use costs::Costs;
pub use engine::{FIRST_PID, Sim, Sink};
pub use result::{ReschedCount, RunResult, TaskResult};
pub use rng::Stream;
pub use state::{CpuTimes, TaskStats};
