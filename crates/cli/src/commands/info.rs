//! `schedlab info`: what is in a trace, and what could not be read of it.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use schedlab_analysis::skew::{SkewFinder, SkewReport};
use schedlab_trace::{CpuReport, Format, ReadReport};

use crate::args::InfoArgs;
use crate::{input, output, progress};

pub(crate) fn info(args: &InfoArgs) -> Result<ExitCode> {
    let mut reader = input::open(&args.file)?;
    let mut skew = SkewFinder::default();
    let mut error = None;
    let bar = progress::spinner("reading");
    for item in &mut reader {
        match item {
            Ok(event) => {
                skew.push(&event);
                bar.inc(1);
            }
            Err(e) => error = Some(e),
        }
    }
    bar.finish_and_clear();
    let (format, report) = (reader.format(), reader.report());
    // Nothing to tell: the error says it all.
    if report.events == 0
        && let Some(error) = error
    {
        return Err(error.into());
    }
    let file = args.file.display().to_string();
    if args.json {
        output::print_json(&serde_json::json!({
            "schema": "schedlab.info/1",
            "file": file,
            "format": format.to_string(),
            "complete": error.is_none() && !report.truncated(),
            "error": error.as_ref().map(ToString::to_string),
            "report": report,
            "clock_skew": skew.report(),
        }))?;
    } else {
        output::print(&text(&file, format, &report, skew.report()))?;
    }
    match error {
        Some(error) => Err(error.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn text(file: &str, format: Format, r: &ReadReport, skew: SkewReport) -> String {
    let mut out = String::new();
    let mut line = |key: &str, value: String| {
        let _ = writeln!(out, "{key:<12} {value}");
    };
    line("file", format!("{file}: {format}"));
    line("kernel", told(r.kernel_release.as_deref()));
    line("clock", told(r.clock.as_deref()));
    line("prev_state", states(r));
    line("flags", flags(r));
    let unit = match r.records {
        0 => format!("{} lines", r.lines),
        records => format!("{records} records"),
    };
    line("events", format!("{} in {unit}", r.events));
    if let (Some(first), Some(last)) = (r.first_ts, r.last_ts) {
        let (span, first, last) = (seconds(r.span()), seconds(first), seconds(last));
        line("span", format!("{span} s, from {first} s to {last} s"));
    }
    line("lost", lost(r));
    line("order", order(r, skew));
    out.push('\n');
    for (name, count) in &r.events_by_type {
        let _ = writeln!(out, "{count:>12} {name}");
    }
    out.push('\n');
    cpus(&mut out, r);
    out.push('\n');
    not_read(&mut out, r);
    for remark in &r.remarks {
        let _ = writeln!(out, "note: {remark}");
    }
    if r.more_remarks > 0 {
        let _ = writeln!(out, "note: and {} more", r.more_remarks);
    }
    out
}

fn told(value: Option<&str>) -> String {
    value.unwrap_or("not told by this file").to_owned()
}

fn states(r: &ReadReport) -> String {
    if r.prev_state.is_empty() {
        return "none read".to_owned();
    }
    let list: Vec<_> = r.prev_state.iter().map(ToString::to_string).collect();
    format!("from {}", list.join("; "))
}

fn flags(r: &ReadReport) -> String {
    let mut out = match r.with_flags {
        0 => "none".to_owned(),
        n if n == r.events => "at all events".to_owned(),
        n => format!("at {n} of {} events", r.events),
    };
    if r.flags_unknown > 0 {
        let _ = write!(out, ", not understood at {}", r.flags_unknown);
    }
    out
}

fn lost(r: &ReadReport) -> String {
    let mut out = format!("{} events", r.lost_events);
    if r.lost_unknown > 0 {
        let _ = write!(out, ", and {} losses of unknown size", r.lost_unknown);
    }
    if r.overwritten > 0 {
        let _ = write!(
            out,
            ", and {} overwritten before the reading",
            r.overwritten
        );
    }
    out
}

fn order(r: &ReadReport, skew: SkewReport) -> String {
    let mut out = match r.out_of_order {
        0 => "by time".to_owned(),
        1 => "1 event was reordered".to_owned(),
        n => format!("{n} events were reordered"),
    };
    if r.out_of_order > 0 {
        let _ = write!(out, ", by at most {} ns", r.largest_step_back);
        let across = r.out_of_order_across_cpus;
        if across > 0 {
            let _ = write!(out, " ({across} only against other CPUs)");
        }
    }
    if skew.skewed > 0 {
        let _ = write!(
            out,
            "; clocks differ: {} wakeups before their call, by up to {} ns",
            skew.skewed, skew.largest
        );
    }
    out
}

/// Coverage of each CPU: where its events begin and end, and the longest time without any.
fn cpus(out: &mut String, r: &ReadReport) {
    let _ = writeln!(
        out,
        "{:>5} {:>12} {:>20} {:>20} {:>15} {:>10} {:>12}",
        "CPU", "events", "first s", "last s", "longest gap ms", "lost", "reordered"
    );
    for cpu in &r.cpus {
        let time = |ts: Option<u64>| ts.map_or("-".to_owned(), seconds);
        let _ = writeln!(
            out,
            "{:>5} {:>12} {:>20} {:>20} {:>15} {:>10} {:>12}",
            cpu.cpu,
            cpu.events,
            time(cpu.first_ts),
            time(cpu.last_ts),
            millis(cpu.longest_gap),
            lost_on(cpu),
            cpu.out_of_order
        );
    }
    if !r.empty_cpus.is_empty() {
        let list: Vec<_> = r.empty_cpus.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            out,
            "empty by the file's own words: CPU {}",
            list.join(", ")
        );
    }
    if let Some(declared) = r.cpus_declared {
        let seen = r.cpus.iter().filter(|cpu| cpu.events > 0).count();
        let _ = writeln!(out, "{declared} CPUs by the header, {seen} with events");
    }
}

fn lost_on(cpu: &CpuReport) -> String {
    match cpu.lost_unknown {
        0 => cpu.lost_events.to_string(),
        unknown => format!("{}+{unknown}x?", cpu.lost_events),
    }
}

fn not_read(out: &mut String, r: &ReadReport) {
    if r.unparsed.is_empty() {
        let what = if r.records > 0 { "record" } else { "line" };
        let _ = writeln!(out, "every {what} was read");
    }
    for u in &r.unparsed {
        let _ = writeln!(out, "not read: {} x {}", u.count, u.reason);
        let _ = writeln!(out, "          first at {}: {}", u.place(), u.sample);
    }
    if r.names_cut > 0 {
        let _ = writeln!(out, "task names longer than 15 bytes, cut: {}", r.names_cut);
    }
}

fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn millis(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1000 % 1000)
}
