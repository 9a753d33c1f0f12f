//! Check of a kernel's own state, recorded at every step, against the rules of the fair class.
//!
//! A recording says who was enqueued, dequeued, charged and reweighted, at which `clock_task` and with
//! which flags; these inputs drive a [`schedlab_fair::Class`]. Each step that the class makes on its
//! way is compared with the step that the kernel recorded: its kind, its entity, and every value.

mod meta;
pub mod record;
mod replay;
mod report;
pub(crate) mod shadow;
pub mod smp;

pub use meta::{MetaError, profile_of};
pub use replay::{CheckOptions, check_records};
pub use report::{CheckReport, Difference, FieldPair};
