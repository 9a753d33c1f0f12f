//! Commands whose result is a table: `runq`, `migrations`, `antagonists`, `preempted`.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use schedlab_analysis::antagonists::{Antagonists, AntagonistsOptions};
use schedlab_analysis::migrations::{Migrations, MigrationsOptions};
use schedlab_analysis::preempted::{Preempted, PreemptedOptions};
use schedlab_analysis::runq::{Runq, RunqOptions};

use super::{filter, follow, group, open, print, require_match, start};
use crate::args::{AntagonistsArgs, MigrationsArgs, PreemptedArgs, RunqArgs};

/// `schedlab runq`: lengths of queues over time, idle CPUs beside waiting tasks.
pub(crate) fn runq(args: &RunqArgs) -> Result<ExitCode> {
    let interval = match &args.interval {
        None => None,
        Some(text) => match schedlab_scenario::parse_time(text) {
            Some(time) if time.0 > 0 => Some(time.0),
            _ => bail!("--interval {text}: expected a time above 0 with a unit, such as 10ms"),
        },
    };
    let observer = Runq::new(RunqOptions {
        start: start(&args.trace),
        interval,
    });
    let done = follow(&args.trace, open(&args.trace.file)?, observer, |_| false)?;
    let report = done.observer.report(&done.history).context("--interval")?;
    print(report, &args.trace, &done.anomalies, &done.read)?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab migrations`: moves between CPUs.
pub(crate) fn migrations(args: &MigrationsArgs) -> Result<ExitCode> {
    let filter = filter(&args.rows);
    let observer = Migrations::new(MigrationsOptions {
        group: group(args.rows.per_thread),
        filter: filter.clone(),
    });
    let done = follow(&args.trace, open(&args.trace.file)?, observer, |_| false)?;
    require_match(&filter, &args.rows.task, &done.history)?;
    let report = done.observer.report(&done.history);
    print(report, &args.trace, &done.anomalies, &done.read)?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab antagonists`: who ran while a task waited.
pub(crate) fn antagonists(args: &AntagonistsArgs) -> Result<ExitCode> {
    let filter = filter(&args.rows);
    let observer = Antagonists::new(AntagonistsOptions {
        group: group(args.rows.per_thread),
        filter: filter.clone(),
        start: start(&args.trace),
        doubtful: args.trace.with_doubtful,
        top: args.top,
        each: args.each,
    });
    let done = follow(&args.trace, open(&args.trace.file)?, observer, |_| false)?;
    require_match(&filter, &args.rows.task, &done.history)?;
    let report = done.observer.report(&done.history);
    print(report, &args.trace, &done.anomalies, &done.read)?;
    Ok(ExitCode::SUCCESS)
}

/// `schedlab preempted`: how long tasks ran before they were preempted.
pub(crate) fn preempted(args: &PreemptedArgs) -> Result<ExitCode> {
    let filter = filter(&args.rows);
    let observer = Preempted::new(PreemptedOptions {
        group: group(args.rows.per_thread),
        filter: filter.clone(),
        doubtful: args.trace.with_doubtful,
    });
    let done = follow(&args.trace, open(&args.trace.file)?, observer, |_| false)?;
    require_match(&filter, &args.rows.task, &done.history)?;
    let report = done.observer.report(&done.history);
    print(report, &args.trace, &done.anomalies, &done.read)?;
    Ok(ExitCode::SUCCESS)
}
