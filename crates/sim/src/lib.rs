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
//!               ├─ core_sched.rs: what siblings of a core may run at once
//!               ├─ conservation.rs: idle CPUs beside waiting tasks
//!               └─ verify.rs: what must hold behind every event, and at the end
//! ```
//!
//! Time is never lost: each nanosecond of each CPU is a program's, the scheduler's own ([`CpuTimes::overhead`]), an
//! interrupt's or idle, and what the fair class charges equals the time for which its tasks were current. Both are
//! checked at the end of every run, in release builds too.
//!
//! An operation takes effect at one instant; its cost ([`Costs`]) passes on its CPU behind that, before the program goes
//! on, and a request to reschedule that comes meanwhile is looked at when it has passed. Work of a program that follows without a question (user
//! mode, kernel mode, the entry of the next call) is one event as long as nobody asks to reschedule.
//!
//! # Example
//!
//! Two tasks share a CPU; one has a quarter of the other's weight.
//!
//! ```
//! use schedlab_fair::{Ns, Profile};
//! use schedlab_sim::program::{Dur, Mode, Op, Program, ProgramId, Sched, TaskSpec};
//! use schedlab_sim::{Sim, SimConfig};
//! use schedlab_topology::{Machine, Shape};
//! use schedlab_trace::event::Event;
//!
//! let hog = Op::Loop {
//!     times: None,
//!     body: vec![Op::Run { work: Dur::Fixed(Ns::from_ms(1)), mode: Mode::User, cond_resched: None }],
//! };
//! let task = |comm: &str, nice| TaskSpec {
//!     comm: comm.into(),
//!     program: ProgramId(0),
//!     sched: Sched::Other { nice },
//!     slice: None,
//!     affinity: vec![],
//!     group: None,
//!     start: Ns(0),
//!     mm: 0,
//!     cookie: 0,
//! };
//! let machine = Machine::of_shape(&Shape::default()).unwrap();
//! let mut config = SimConfig::new(Profile::default(), machine);
//! config.programs = vec![Program { name: "hog".into(), ops: vec![hog] }];
//! config.tasks = vec![task("a", 0), task("b", 6)];
//! config.duration = Some(Ns::from_secs(10));
//! let mut events = 0;
//! let result = Sim::new(config, |_: &Event| events += 1)?.run()?;
//! let share = result.tasks[0].run.0 as f64 / result.end.0 as f64;
//! assert!((share - 1024.0 / (1024.0 + 272.0)).abs() < 0.01);
//! assert_eq!(result.events, events);
//! # Ok::<(), schedlab_sim::SimError>(())
//! ```

mod code;
mod config;
mod conservation;
mod core_sched;
mod costs;
mod counters;
mod engine;
mod interp;
mod nohz;
pub mod order;
mod placement;
mod preempt;
mod procfs;
pub mod program;
mod result;
mod rng;
mod rt;
mod sched;
mod server;
mod state;
mod state_log;
mod verify;

pub use config::{GroupSpec, PreemptModel, SimConfig, SimError};
pub use conservation::WorkConservation;
pub use core_sched::CoreStats;
pub use costs::Costs;
pub use counters::{RqStats, SchedInfo};
pub use engine::{FIRST_PID, Sim, Sink};
pub use procfs::Snapshot;
pub use result::{ReschedCount, RunResult, TaskResult};
pub use rng::Stream;
pub use server::ServerSpec;
pub use state::{CpuTimes, TaskStats};
