//! `schedlab latency`: the table of `perf sched latency` from a recording.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use schedlab_analysis::latency::{
    GroupBy, LatencyAccumulator, LatencyOptions, LatencyReport, RenderOptions, Summary, WakeStart,
};
use schedlab_trace::{ReadReport, Reader};

use crate::args::LatencyArgs;
use crate::output;

pub(crate) fn latency(args: &LatencyArgs) -> Result<ExitCode> {
    let mut reader: Box<dyn Reader> = if args.file == Path::new("-") {
        schedlab_trace::open_stream(Box::new(io::stdin()), "standard input")?
    } else {
        schedlab_trace::open(&args.file)?
    };
    let mut acc = LatencyAccumulator::new(LatencyOptions::default());
    for event in &mut reader {
        acc.push(&event?);
    }
    let read = reader.report();
    if read.events == 0 {
        bail!(
            "{}: no event in it; expected scheduler events such as sched_switch",
            args.file.display()
        );
    }
    let report = acc.finish();
    let options = render_options(args.per_thread, args.from_wakeup);
    if args.json {
        output::print_json(&serde_json::json!({
            "latency": report,
            "unparsed_lines": read.unparsed_lines(),
            "lost_events": read.lost_events,
            "truncated": read.truncated(),
        }))?;
    } else {
        let mut text = report.render(options);
        text.push_str(&summary(&report.summary));
        text.push_str(&reading(&read));
        output::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn render_options(per_thread: bool, from_wakeup: bool) -> RenderOptions {
    RenderOptions {
        group: if per_thread {
            GroupBy::Task
        } else {
            GroupBy::Comm
        },
        start: if from_wakeup {
            WakeStart::Wakeup
        } else {
            WakeStart::Waking
        },
        ..RenderOptions::default()
    }
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

/// What the reader could not take in.
fn reading(r: &ReadReport) -> String {
    let mut out = String::new();
    if r.lost_events > 0 {
        out.push_str(&format!(
            "  {} events were lost by the recorder\n",
            r.lost_events
        ));
    }
    for u in &r.unparsed {
        out.push_str(&format!(
            "  {} lines not understood ({}), first at line {}\n",
            u.count, u.reason, u.first_line
        ));
    }
    out
}

/// JSON of a report, shared with `run`.
pub(crate) fn to_value(report: &LatencyReport) -> serde_json::Value {
    serde_json::json!(report)
}
