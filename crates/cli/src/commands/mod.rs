//! One module per command.

mod analyses;
mod check;
mod check_smp;
mod compare;
mod convert;
mod explain;
mod info;
mod kernel;
mod latency;
mod list;
mod machine;
mod profiles;
mod replay;
mod results;
mod run;
mod study;

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;

use crate::args::{Args, Command};

/// Performs a command; the exit code is 0 or what the command's answer asks for.
pub(crate) fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Study(args) => study::study(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Latency(args) => latency::latency(&args),
        Command::Timehist(args) => analyses::timehist(&args),
        Command::Map(args) => analyses::map(&args),
        Command::Runq(args) => analyses::runq(&args),
        Command::Migrations(args) => analyses::migrations(&args),
        Command::Antagonists(args) => analyses::antagonists(&args),
        Command::Preempted(args) => analyses::preempted(&args),
        Command::Check(args) => check::check(&args),
        Command::Machine(command) => machine::machine(&command),
        Command::Explain(args) => explain::explain(&args),
        Command::Convert(args) => convert::convert(&args),
        Command::Info(args) => info::info(&args),
        Command::Replay(args) => replay::replay(&args),
        Command::List { what, json } => list::list(what, json),
        Command::DiffProfiles { a, b, json } => profiles::diff(&a, &b, json),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "schedlab", &mut script);
            crate::output::print(&String::from_utf8_lossy(&script))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
