//! Scheduler events named after the kernel's tracepoints, with readers and writers.
pub mod event;
