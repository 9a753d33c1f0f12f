//! The `schedlab` command: thin over the library crates.
//!
//! Exit codes: 0 done, 1 the answer is no (a check differs, a study finds a regression beyond a threshold, `convert --partial`
//! could write a part only), 2 bad input or usage, 3 a broken invariant of the lab itself, 130 interrupted.

mod args;
mod commands;
mod failure;
mod input;
mod output;
mod progress;
mod trace_output;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = args::Args::parse();
    output::install_interrupt_handler();
    match commands::run(args.command) {
        Ok(code) => code,
        Err(error) => failure::report(&error),
    }
}
