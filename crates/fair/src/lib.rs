//! The Linux fair scheduling class as pure policy: EEVDF and CFS, every version difference a value.
//!
//! The crate has no clock, does no I/O and needs no operating system. A [`Class`] holds the fair queues
//! of a whole machine; the caller says who is woken, sleeps, ticks or yields and at which time, and asks
//! whom to run. Which kernel is imitated is a [`Profile`], a plain value.
//!
//! # Three tasks on a CPU
//!
//! ```
//! use schedlab_fair::{Class, CpuId, Dequeue, Enqueue, Ns, Profile, Resched, TaskAttr, Wake};
//!
//! let cpu = CpuId(0);
//! let mut class = Class::new(Profile::default(), 1, 1000); // 6.12 stable, one CPU, HZ=1000
//! let tasks = [0, 0, 5].map(|nice| {
//!     let task = class.add_task(TaskAttr { nice, ..TaskAttr::default() });
//!     class.enqueue_task(cpu, task, Enqueue::INITIAL, Ns(0), &mut ());
//!     task
//! });
//! let mut curr = class.pick_next_task(cpu, None, Ns(0), &mut ());
//! for ms in 1..=1000 {
//!     let now = Ns::from_ms(ms);
//!     class.task_tick(cpu, now, &mut ()); // charges the running task, renews its deadline
//!     if ms == 500 {
//!         // The running task goes to sleep, and another picks up at once.
//!         class.dequeue_task(cpu, curr.unwrap(), Dequeue::SLEEP, now, &mut ());
//!         let sleeper = curr.unwrap();
//!         curr = class.pick_next_task(cpu, curr, now, &mut ());
//!         // It wakes right away: in place if it was kept as a delayed sleeper.
//!         let delayed = if class.is_delayed(sleeper) { Enqueue::DELAYED } else { Enqueue::NONE };
//!         class.enqueue_task(cpu, sleeper, Enqueue::WAKEUP | delayed, now, &mut ());
//!         class.wakeup_preempt(cpu, sleeper, Wake::TTWU, now, &mut ());
//!     }
//!     if class.resched(cpu) != Resched::None {
//!         curr = class.pick_next_task(cpu, curr, now, &mut ()); // puts the old one, sets the new one
//!         class.clear_resched(cpu);
//!     }
//! }
//! let ran = tasks.map(|t| class.entity(t.entity()).sum_exec_runtime / 1_000_000);
//! assert!(ran[0].abs_diff(430) < 10 && ran[1].abs_diff(430) < 10 && ran[2].abs_diff(140) < 10, "{ran:?}");
//! ```
//!
//! # How it is laid out
//!
//! From the inside out, each layer usable without the next:
//!
//! * [`weight`], [`pelt`]: the arithmetic of weights and load averages, exact to the kernel's tables.
//! * [`timeline`]: one queue's waiting entities and its virtual clock V; `order.rs` is the set behind it.
//! * [`Class`]: groups, placement, delayed dequeue, protection, wakeup preemption, yield, shares, quota. One file for each
//!   subject, named after it; where kernels differ, one function with its variants side by side.
//! * [`profile`]: which kernel has which variant. [`Profile::switches`], [`Profile::diff`] and [`Profile::set`] show, compare
//!   and change profiles as text; [`Variant`] has the alternatives of the mailing-list threads by name.
//! * [`Hooks`]: what a caller may watch inside an operation, and where it may decide otherwise. `()` watches nothing and
//!   costs nothing.
//!
//! # What the caller must do
//!
//! * Pass each CPU's `clock_task` as `now`, never decreasing on that CPU. It is the only clock.
//! * Keep the kernel's order of calls: a task is enqueued before it is picked; dequeued, then put back and changed, then enqueued
//!   and [restored](Class::restore_task) for a change of its attributes; a task that blocks is dequeued, then the next one picked.
//! * Look at [`Class::resched`] after every call, and [clear](Class::clear_resched) it after a pick.
//! * Fire the timers: the tick, [HRTICK](Class::hrtick_delay) if that is on, a group's
//!   [period](Class::period_timer) once [`Hooks::start_period_timer`] has asked for it, the
//!   [slack timer](Class::wants_slack_timer).
//! * Do what belongs to other classes, to placement on CPUs and to balancing.
//!
//! Calls out of order are caught by assertions in debug builds. Release builds ignore an enqueue of a queued task and a dequeue
//! of one that is not; what else is out of order spoils the accounting, and an identifier that the class never gave out panics.
//! [`Class::verify`] checks the invariants at any time, and [`Class::set_checks`] behind every operation.
//!
//! # `no_std`
//!
//! The crate uses `core` and `alloc` and no unsafe code. `tests/no_std` is a program with a panic handler and a bump
//! allocator of its own, linked without std and libc; a test builds and runs it. Memory is taken when tasks, groups and quotas
//! are made and when a queue is longer than it ever was; the steady state allocates nothing, which another test counts.
//!
//! # How sure the rules are
//!
//! `6.12-stable` agrees with recordings of a 6.12.117 kernel in every value compared, some millions. The others are written from
//! the reference. Where that marks a doubt, a switch has both sides and its documentation says so: [`Anchor`](profile::Anchor),
//! [`ReweightRule`](profile::ReweightRule), [`LagLimit`](profile::LagLimit), [`BuddyPick`](profile::BuddyPick),
//! [`SyncSince`](profile::SyncSince) and the fields of [`Profile`] marked so. Doubts with no switch of their own:
//!
//! * Whether a fork of 6.6 to 6.11 kept its half slice over the second placement: here it does; `NO_PLACE_DEADLINE_INITIAL` is
//!   the other reading.
//! * Whether kernels from 7.0 on use full weights in the sums of V: here the scaled-down ones in all. Shares of groups would
//!   be finer, the ratios are the same.
//! * 6.6 and 6.7 search a tree ordered by vruntime; among equal deadlines their choice depends on its shape, here the first to
//!   join wins.
//! * A slice of a group's own (seen in a vendor's tree only) is not modelled.
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
pub use hooks::{Function, Hooks, Point, Reason};
pub use ids::{CpuId, EntityId, GroupId, QueueId, TaskId};
pub use profile::{Feature, Features, Profile};
pub use queue::{Overflow, Queue};
pub use replay::Recorded;
pub use switches::{Difference, SetError, Variant};
pub use units::{Ns, Vns};
pub use verify::Violation;
pub use weight::Weight;

/// The examples of the README are tests too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
