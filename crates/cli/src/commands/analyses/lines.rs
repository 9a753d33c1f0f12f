//! Commands that print a line for each switch: `timehist` and `map`.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Stdout};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use schedlab_analysis::TaskFilter;
use schedlab_analysis::map::{Map, MapOptions};
use schedlab_analysis::timehist::{TimeWindow, Timehist, TimehistForm, TimehistOptions};
use schedlab_scenario::cpu_list;
use schedlab_trace::{ReadReport, Reader};

use super::{follow, open, reading, require_match, start};
use crate::args::{MapArgs, TimehistArgs, TraceArgs};
use crate::input::time;

/// More than a kernel can be built for (`CONFIG_NR_CPUS_RANGE_END` of x86, 8192).
const CPUS_MAX: u32 = 65_536;

/// `schedlab timehist`: every switch, with how long the leaving task had waited and run.
pub(crate) fn timehist(args: &TimehistArgs) -> Result<ExitCode> {
    let reader = open(&args.trace.file)?;
    let visual = if args.cpu_visual {
        Some(cpu_count(&args.trace.file, reader.as_ref())?.try_into()?)
    } else {
        None
    };
    let filter = TaskFilter::new(args.task.clone());
    let cpus = args.cpu.as_deref().map(cpu_set).transpose()?;
    let options = TimehistOptions {
        form: form(&args.trace),
        wakeups: args.wakeups,
        migrations: args.migrations,
        next: args.next,
        state: args.state,
        visual,
        summary_only: args.summary,
        with_summary: args.with_summary,
        filter: filter.clone(),
        window: args
            .time
            .as_deref()
            .map_or(Ok(TimeWindow::default()), window)?,
        cpus: cpus.clone(),
        idle_only: args.idle_hist,
        start: start(&args.trace),
    };
    let observer = Timehist::new(options, stdout());
    let done = follow(&args.trace, reader, observer, Timehist::failed)?;
    done.observer.finish(&done.history)?;
    require_match(&filter, &args.task, &done.history)?;
    if let (Some(cpus), Some(text)) = (cpus, &args.cpu)
        && !done.read.cpus.iter().any(|cpu| cpus.contains(&cpu.cpu))
    {
        bail!("--cpu {text}: the trace has no event of these CPUs");
    }
    remark(done.anomalies.remarks(), &done.read);
    Ok(ExitCode::SUCCESS)
}

/// `schedlab map`: who runs where after each switch.
pub(crate) fn map(args: &MapArgs) -> Result<ExitCode> {
    let reader = open(&args.trace.file)?;
    let options = MapOptions {
        form: form(&args.trace),
        cpus: if args.compact {
            0
        } else {
            cpu_count(&args.trace.file, reader.as_ref())?
        },
        compact: args.compact,
    };
    let observer = Map::new(options, stdout());
    let done = follow(&args.trace, reader, observer, Map::failed)?;
    done.observer.finish()?;
    remark(done.anomalies.remarks(), &done.read);
    Ok(ExitCode::SUCCESS)
}

/// Reads `START,STOP`; perf takes a single time for the start, too.
fn window(text: &str) -> Result<TimeWindow> {
    let all = TimeWindow::default();
    let (start, stop) = text.split_once(',').unwrap_or((text, ""));
    let end = |part: &str, open: u64| match part {
        "" => Ok(open),
        part => time("--time", text, part),
    };
    let window = TimeWindow {
        start: end(start, all.start)?,
        stop: end(stop, all.stop)?,
    };
    if window.start > window.stop {
        bail!("--time {text}: expected START,STOP with the earlier time first");
    }
    Ok(window)
}

fn cpu_set(text: &str) -> Result<BTreeSet<u32>> {
    match cpu_list(text, CPUS_MAX) {
        Ok(cpus) => Ok(cpus.into_iter().collect()),
        Err(problem) => bail!("--cpu {text}: {problem}"),
    }
}

fn stdout() -> BufWriter<Stdout> {
    BufWriter::with_capacity(64 * 1024, io::stdout())
}

fn form(args: &TraceArgs) -> TimehistForm {
    if args.json {
        TimehistForm::Json
    } else if args.csv {
        TimehistForm::Csv
    } else {
        TimehistForm::Text
    }
}

/// What did not fit goes to stderr, since the lines are perf's.
fn remark(remarks: Vec<String>, read: &ReadReport) {
    for line in remarks.into_iter().chain(reading(read)) {
        eprintln!("schedlab: {line}");
    }
}

/// How many CPUs need a column: what the header says or, if it says nothing, what reading the file once shows. Standard
/// input cannot be read twice: its columns grow.
fn cpu_count(file: &Path, reader: &(dyn Reader + Send)) -> Result<u32> {
    if let Some(declared) = reader.report().cpus_declared {
        return Ok(declared);
    }
    if file == Path::new("-") {
        return Ok(0);
    }
    let mut first = open(file)?;
    let mut cpus = 0;
    for event in &mut first {
        cpus = cpus.max(event?.cpu.saturating_add(1));
    }
    Ok(first.report().cpus_declared.unwrap_or(cpus).max(cpus))
}
