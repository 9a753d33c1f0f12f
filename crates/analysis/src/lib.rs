//! Analyses that work alike on simulated and recorded traces.

pub mod check;
