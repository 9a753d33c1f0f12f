//! A deterministic discrete-event simulator of CPUs around the fair class.
pub mod program;
