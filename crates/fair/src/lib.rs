//! The Linux fair scheduling class as pure policy: EEVDF and CFS, every version difference a value.
//!
//! The crate has no clock, does no I/O and needs no operating system. A [`Class`] holds the fair queues
//! of a whole machine; the caller says who is woken, sleeps, ticks or yields and at which time, and asks
//! whom to run. Which kernel is imitated is a [`Profile`], a plain value.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod account;
mod bandwidth;
mod cfs;
mod class;
mod core;
mod enqueue;
mod entity;
mod flags;
mod group;
mod hooks;
mod ids;
mod load;
mod order;
pub mod pelt;
mod pick;
mod place;
pub mod profile;
mod profiles;
mod queue;
mod rbtree;
mod replay;
mod switches;
pub mod timeline;
mod units;
mod verify;
mod wakeup;
pub mod weight;
mod yielding;

pub use self::core::ForcedIdleAnchors;
pub use bandwidth::Bandwidth;
pub use class::{BandwidthAttr, Class, Group, GroupAttr, Resched, Rq, TaskAttr, TaskPolicy};
pub use entity::Entity;
pub use flags::{Dequeue, Enqueue, Wake};
pub use hooks::{Hooks, Point, Reason};
pub use ids::{CpuId, EntityId, GroupId, QueueId, TaskId};
pub use profile::{Feature, Features, Profile};
pub use queue::{Overflow, Queue};
pub use replay::Recorded;
pub use switches::{Difference, SetError, Variant};
pub use units::{Ns, Vns};
pub use verify::Violation;
pub use weight::Weight;
