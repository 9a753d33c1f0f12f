//! The commands that read a trace and print tables: one way in, one way out.

mod lines;
mod tables;

use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};
use schedlab_analysis::anomalies::Anomalies;
use schedlab_analysis::history::{History, HistoryOptions, Observer, Ordered, WakeupPolicy};
use schedlab_analysis::latency::WakeStart;
use schedlab_analysis::table::Report;
use schedlab_analysis::{GroupBy, TaskFilter};
use schedlab_trace::{Ahead, ReadReport, Reader};

pub(crate) use lines::{map, timehist};
pub(crate) use tables::{antagonists, migrations, preempted, runq};

use crate::args::{RowArgs, TraceArgs, WakeupChoice};
use crate::{output, progress};

/// Opens a file, or standard input for `-`.
pub(crate) fn open(file: &Path) -> Result<Box<dyn Reader + Send>> {
    Ok(if file == Path::new("-") {
        schedlab_trace::open_stream(Box::new(io::stdin()), "standard input")?
    } else {
        schedlab_trace::open(file)?
    })
}

/// What came of following a trace.
pub(crate) struct Followed<O> {
    pub(crate) history: History,
    pub(crate) observer: O,
    pub(crate) anomalies: Anomalies,
    pub(crate) read: ReadReport,
}

/// Gives all events of a trace to an observer, until `enough` says so.
pub(crate) fn follow<O: Observer>(
    args: &TraceArgs,
    reader: Box<dyn Reader + Send>,
    observer: O,
    enough: impl Fn(&O) -> bool,
) -> Result<Followed<O>> {
    let options = HistoryOptions {
        wakeup: wakeup(args),
        ..HistoryOptions::default()
    };
    let mut ordered = Ordered::new(options, (observer, Anomalies::default()));
    let ticker = progress::spinner("reading");
    let mut events = 0;
    let mut reader = Ahead::new(reader).context("a thread to read with")?;
    while let Some(batch) = reader.batch()? {
        for event in batch {
            ordered.push(event);
        }
        events += batch.len() as u64;
        if events.is_multiple_of(65_536) {
            ticker.set_position(events);
            if enough(&ordered.observer().0) {
                break;
            }
        }
    }
    ticker.finish_and_clear();
    if events == 0 {
        bail!(
            "{}: no event in it; expected scheduler events such as sched_switch",
            args.file.display()
        );
    }
    let (history, (observer, mut anomalies), order) = ordered.finish();
    anomalies.order = order;
    Ok(Followed {
        history,
        observer,
        anomalies,
        read: reader.report().clone(),
    })
}

pub(crate) fn wakeup(args: &TraceArgs) -> WakeupPolicy {
    match args.wakeup {
        WakeupChoice::First => WakeupPolicy::First,
        WakeupChoice::Last => WakeupPolicy::Last,
    }
}

pub(crate) fn start(args: &TraceArgs) -> WakeStart {
    if args.from_wakeup {
        WakeStart::Wakeup
    } else {
        WakeStart::Waking
    }
}

pub(crate) fn group(per_thread: bool) -> GroupBy {
    if per_thread {
        GroupBy::Task
    } else {
        GroupBy::Comm
    }
}

/// The tasks meant; an error if the trace has none of them.
fn filter(rows: &RowArgs) -> TaskFilter {
    TaskFilter::new(rows.task.clone())
}

/// An error if the trace has no task that was asked for.
fn require_match(filter: &TaskFilter, names: &[String], history: &History) -> Result<()> {
    if !history.tasks().any(|(_, task)| filter.matches(task)) && !filter.is_all() {
        bail!(
            "no task named or numbered {} in the trace",
            names.join(", ")
        );
    }
    Ok(())
}

/// Prints a report in the form asked for, with what did not fit as notes.
fn print(
    mut report: Report,
    args: &TraceArgs,
    anomalies: &Anomalies,
    read: &ReadReport,
) -> Result<()> {
    report.notes.extend(anomalies.remarks());
    report.notes.extend(reading(read));
    if args.json {
        return output::print_json(&report.json());
    }
    if args.csv {
        return output::print(&report.csv().context("cannot write CSV")?);
    }
    output::print(&report.text())
}

/// What the reader could not take in, each a line.
pub(crate) fn reading(r: &ReadReport) -> Vec<String> {
    let mut out = Vec::new();
    if r.lost_events > 0 {
        out.push(format!(
            "{} events were lost by the recorder",
            r.lost_events
        ));
    }
    for u in &r.unparsed {
        out.push(format!(
            "{} lines not understood ({}), first at line {}",
            u.count, u.reason, u.first_line
        ));
    }
    out
}
