//! Why did this task wait? A wait split into parts that add up to it, each with its cause.
//!
//! A **wait** begins when a task wants a CPU and has none: at `sched_waking`, at a switch-out while runnable, at
//! `sched_wakeup_new`, or, where `contention_begin` is in the trace, at a switch-out to sleep for a lock. It ends when the
//! task is switched in. Every nanosecond of it belongs to exactly one part.
//!
//! Who ran meanwhile, on which CPU, and which CPUs were idle are facts of any trace with `sched_switch` and
//! `sched_wakeup`. Why the fair class let another fair task run is asked of its rules at each instant: *whom would a pick
//! choose right now, slice protection left out?*
//!
//! - Not the waiter: it is not eligible ([`Cause::Ineligible`]), or another's deadline is earlier
//!   ([`Cause::LaterDeadline`]).
//! - The waiter, but nobody picks: the running task is protected by its slice ([`Cause::Protected`]), or it is not any more and the
//!   next tick has to notice ([`Cause::Tick`]), or a reschedule is asked for and not honoured yet
//!   ([`Cause::NeedResched`]).
//!
//! The state that this takes (vruntimes, deadlines, weights) comes from the records of
//! `docs/formats/state-recording.md`, of a kernel with probes or of a simulation; then the answer is exact. In other
//! traces the inference (`infer.rs`) follows the recorded wakeups, switches and charges with the class itself and makes the same records;
//! then each part says how sure it is: at every recorded switch it is seen whether the rules would have picked the same task.

mod answer;
mod explainer;
mod facts;
mod fairstate;
mod infer;
mod text;
mod waits;

pub use answer::{Cause, Confidence, Explanation, Part, Segment, WaitKind, Who};
pub use explainer::{Agreement, Evidence, Explainer, Options, Targets, explain_all};
pub use waits::{Doing, Survey, Wait, WaitFinder};
