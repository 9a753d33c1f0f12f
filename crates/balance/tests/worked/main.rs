//! The worked examples of the reference (sections 11 to 13), and a table for each rule.

mod balancing;
mod machine;
mod newidle;
mod shared_runq;
mod slow;
mod wakeup;
