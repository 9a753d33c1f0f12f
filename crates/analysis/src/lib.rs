//! Analyses that work alike on simulated and recorded traces.

pub mod check;
pub mod counters;
pub mod explain;
pub mod history;
pub mod latency;
pub mod load;
pub mod order;
pub mod skew;
