//! The worked examples of the reference, section by section, on the class as callers see it.
//!
//! Where recordings of a kernel say otherwise than an example, the test follows the recordings and says so.

mod bandwidth;
mod cfs;
mod delay;
mod groups;
mod pick;
mod placement;
mod reweight;
mod slices;
mod stage;
mod virtual_time;
mod wakeup;
mod yields;
