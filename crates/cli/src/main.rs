//! The `schedlab` command.
fn main() {}
