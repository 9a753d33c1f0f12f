//! Analyses that work alike on simulated and recorded traces.

pub mod anomalies;
pub mod antagonists;
pub mod check;
pub mod counters;
pub mod distribution;
pub mod explain;
pub mod history;
pub mod latency;
pub mod load;
pub mod map;
pub mod migrations;
mod naming;
pub mod order;
pub mod preempted;
pub mod runq;
pub mod skew;
pub mod table;
pub mod timehist;

pub use naming::{GroupBy, TaskFilter};
