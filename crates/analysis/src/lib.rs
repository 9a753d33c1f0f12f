//! Analyses that work alike on simulated and recorded traces.

pub mod check;
pub mod history;
pub mod latency;
pub mod load;
pub mod order;
