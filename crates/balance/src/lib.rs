//! Where a fair task wakes and who pulls it: the placement and balancing rules of the fair class as pure policy.
//!
//! The crate has no clock, does no I/O and holds no queue. A caller describes the machine once ([`Domains`]), shows the
//! state of its CPUs through a view ([`Cpus`]) or as statistics ([`GroupStats`], [`Candidate`]), and gets decisions back.
//! The same functions decide for a simulator and for the check of a real kernel's recorded decisions.
//!
//! | file | rule (reference section) |
//! |---|---|
//! | `wake.rs` | `select_task_rq`: wakee flips, `wake_wide`, `wake_affine` (12.2) |
//! | `idle.rs` | `select_idle_sibling` and its searches (12.2) |
//! | `slow.rs` | fork and exec: idlest group, idlest CPU (12.4) |
//! | `queue.rs` | whether a wakeup is queued to a remote CPU (12.3) |
//! | `newidle.rs` | newidle balance: early exits, costs, NI_RANDOM, `avg_idle` (12.5) |
//! | `periodic.rs` | who balances, when, and the interval afterwards (12.6) |
//! | `groups.rs` | group types and the busiest group (12.7) |
//! | `imbalance.rs` | whether there is an imbalance, its kind and amount (12.8) |
//! | `detach.rs` | busiest queue, which tasks move, active balance (12.8 to 12.10) |
//! | `shared_runq.rs` | SHARED_RUNQ: lists, shards, when a CPU pulls (13) |
//!
//! Rules are those of 6.12 as Debian ships it (6.12.117). Switches are those of [`schedlab_fair::Features`].

mod cpus;
mod detach;
mod domains;
mod groups;
mod idle;
mod imbalance;
mod newidle;
mod periodic;
mod queue;
mod shared_runq;
mod slow;
mod view;
mod wake;

pub use cpus::CpuSet;
pub use detach::{
    BusiestQueue, Candidate, Detach, Hotness, Movable, active_balance, cache_hot, can_migrate,
    fits_imbalance, loop_max,
};
pub use domains::{Domain, DomainError, DomainFlags, Domains, Group, Link, Llc};
pub use groups::{BusiestChoice, GroupStats, GroupType, capacity_fits};
pub use imbalance::{Balance, BalanceInput, Idle, Migration, Reason, Verdict, numa_allows};
pub use newidle::{
    DomainCost, NewidleExit, NewidleStats, Rng, avg_idle_after, newidle_draw, newidle_exit,
    newidle_stops,
};
pub use periodic::{
    Outcome, after_balance, balance_interval, idle_scan_limit, max_interval_jiffies, should_balance,
};
pub use queue::{QueueTarget, queues_remotely};
pub use shared_runq::{Popped, PullRule, SHARED_RUNQ_SHARD_SZ, SharedRunq};
pub use slow::{Shallow, find_dst_cpu};
pub use view::{Cpus, IdleTest, Load};
pub use wake::{Placement, Rules, Step, Wakee, WakeeFlips, Waker, select_task_rq};

/// Capacity of a CPU at full speed.
pub const SCALE: u64 = 1024;
