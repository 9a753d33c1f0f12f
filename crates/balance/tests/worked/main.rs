//! The worked examples of the reference (sections 11 and 12), and a table for each rule.

mod balancing;
mod machine;
mod newidle;
mod slow;
mod wakeup;
