//! `schedlab latency`: the table of `perf sched latency` from a trace.

use std::process::ExitCode;

use anyhow::{Context, Result};
use schedlab_analysis::latency::{
    LatencyOptions, LatencyReport, LatencyTally, Layout, RenderOptions, Summary,
};
use schedlab_analysis::table::Report;

use super::analyses::{follow, group, open, reading, start, wakeup};
use crate::args::LatencyArgs;
use crate::output;

pub(crate) fn latency(args: &LatencyArgs) -> Result<ExitCode> {
    let (group, start) = (group(args.per_thread), start(&args.trace));
    // JSON and CSV have all columns.
    let distributions = args.percentiles || args.histogram || args.trace.json || args.trace.csv;
    let tally = LatencyTally::new(LatencyOptions {
        wakeup: wakeup(&args.trace),
        doubtful: args.trace.with_doubtful,
        distribution: distributions.then_some(start),
        ..LatencyOptions::default()
    });
    let done = follow(&args.trace, open(&args.trace.file)?, tally, |_| false)?;
    let report = done.observer.report(&done.history, done.anomalies.order);
    let read = &done.read;
    if args.trace.json {
        output::print_json(&serde_json::json!({
            "latency": report,
            "rows": report.rows(group, start),
            "total": report.total(start),
            "histogram": Report { tables: vec![report.histogram(start)], notes: Vec::new() }.json()["histogram"],
            "unparsed_lines": read.unparsed_lines(),
            "lost_events": read.lost_events,
            "truncated": read.truncated(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.trace.csv {
        let table = Report {
            tables: vec![report.table(group, start)],
            notes: Vec::new(),
        };
        output::print(&table.csv().context("cannot write CSV")?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = report.render(RenderOptions {
        group,
        start,
        layout: if args.perf_cells {
            Layout::Perf
        } else {
            Layout::Narrow
        },
    });
    text.push_str(&summary(&report.summary));
    for line in reading(read) {
        text.push_str(&format!("  {line}\n"));
    }
    let mut more = Report::default();
    if args.percentiles {
        more.tables.push(report.percentile_table(group, start));
    }
    if args.histogram {
        more.tables.push(report.histogram(start));
    }
    if !more.tables.is_empty() {
        text.push('\n');
        text.push_str(&more.text());
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Totals below the table.
pub(crate) fn summary(s: &Summary) -> String {
    let busy: u64 = s.cpus.iter().map(|c| c.busy).sum();
    let known: u64 = s.cpus.iter().map(|c| c.busy + c.idle).sum();
    let mut out = format!(
        "  {} switches: {} voluntary, {} involuntary; {} wakeups, {} migrations\n",
        s.switches,
        s.voluntary,
        s.involuntary,
        s.wakeups.max(s.wakings),
        s.migrations
    );
    if known > 0 {
        out.push_str(&format!(
            "  {} CPUs over {:.3} ms, {:.1} % busy\n",
            s.cpus.len(),
            s.span as f64 / 1e6,
            100.0 * busy as f64 / known as f64
        ));
    }
    out
}

/// JSON of a report, shared with `run`.
pub(crate) fn to_value(report: &LatencyReport) -> serde_json::Value {
    serde_json::json!(report)
}
