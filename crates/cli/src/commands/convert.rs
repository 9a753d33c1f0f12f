//! `schedlab convert`: a trace in another format.

use std::process::ExitCode;

use anyhow::{Result, bail};
use schedlab_trace::{ReadReport, WriteReport};

use crate::args::ConvertArgs;
use crate::trace_output::{TraceFormat, TraceOutput, perfetto_options};
use crate::{failure, input, output, progress};

pub(crate) fn convert(args: &ConvertArgs) -> Result<ExitCode> {
    if args.json_schema {
        output::print(schedlab_trace::NDJSON_SCHEMA)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (Some(source), Some(target)) = (&args.input, &args.output) else {
        bail!("expected two files: the trace to read and the one to write");
    };
    let format = match args.to {
        Some(format) => format,
        None => TraceFormat::of_name(target)?,
    };
    let mut reader = input::open(source)?;
    // The first event comes before the file, so that what cannot be read leaves nothing.
    let first = reader.next().transpose()?;
    let mut out = TraceOutput::create(target, format, &reader.report())?;
    let bar = progress::spinner("converting");
    let mut broken = None;
    for event in first.into_iter().map(Ok).chain(&mut reader) {
        match event {
            Ok(event) => out.write(&event)?,
            Err(error) if args.partial => {
                broken = Some(error);
                break;
            }
            Err(error) => return Err(error.into()),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let read = reader.report();
    let written = out.finish(&read)?;
    for line in losses(&read, &written, format) {
        eprintln!("schedlab: {line}");
    }
    if let Some(error) = &broken {
        eprintln!("schedlab: {error}");
    }
    if args.partial && (broken.is_some() || read.truncated()) {
        eprintln!(
            "schedlab: only a part of the trace was written: the {} events that could be read",
            read.events
        );
        return Ok(ExitCode::from(failure::PARTIAL));
    }
    Ok(ExitCode::SUCCESS)
}

/// What the new file does not hold, one sentence each.
fn losses(read: &ReadReport, written: &WriteReport, format: TraceFormat) -> Vec<String> {
    let title = format.title();
    let mut out = Vec::new();
    for u in &read.unparsed {
        out.push(format!(
            "not read: {} x {}, first at {}",
            u.count,
            u.reason,
            u.place()
        ));
    }
    let depth_only = matches!(format, TraceFormat::Perfetto | TraceFormat::Ftrace);
    let flags = match (depth_only, format) {
        (true, TraceFormat::Perfetto) => "depth of disabled preemption",
        (true, _) => "depth of disabled preemption past 15",
        (false, _) => "flags (interrupts off, reschedule wanted, preemption)",
    };
    for (count, what) in [
        (written.flags_lost, flags),
        (written.names_lost, "name of the running task"),
        (written.times_cut, "nanoseconds of the time"),
        (
            written.altered,
            "line feeds, zero bytes or bytes that are no UTF-8",
        ),
    ] {
        if count > 0 {
            let events = if count == 1 { "event" } else { "events" };
            out.push(format!(
                "{title} has no place for: {what} ({count} {events})"
            ));
        }
    }
    let keeps_counts = format != TraceFormat::PerfScript;
    if read.lost_events > 0 && !keeps_counts {
        out.push(format!(
            "{title} has no place for: {} events that the recorder lost",
            read.lost_events
        ));
    }
    let keeps_unknown = matches!(format, TraceFormat::Ndjson | TraceFormat::Ftrace);
    if read.lost_unknown > 0 && !keeps_unknown {
        out.push(format!(
            "{title} has no place for: {} losses of unknown size",
            read.lost_unknown
        ));
    }
    if read.overwritten > 0 {
        out.push(format!(
            "{title} does not say that {} events were overwritten before the reading",
            read.overwritten
        ));
    }
    let keeps_source = matches!(format, TraceFormat::Ndjson | TraceFormat::Perfetto);
    if let (Some(release), false) = (&read.kernel_release, keeps_source) {
        out.push(format!(
            "{title} has no place for: kernel release {release}"
        ));
    }
    if format == TraceFormat::Perfetto {
        let written = perfetto_options(read).kernel_release;
        if read.kernel_release.as_ref() != Some(&written) {
            let told = read.kernel_release.as_deref().unwrap_or("none");
            out.push(format!(
                "{title} needs a kernel release to read prev_state: {written} is written, the trace tells {told}"
            ));
        }
    }
    if let (Some(clock), false) = (&read.clock, format == TraceFormat::Ndjson) {
        out.push(format!("{title} does not say that the clock is {clock}"));
    }
    if read.out_of_order > 0 {
        out.push(format!(
            "{} events are out of order, and stay so",
            read.out_of_order
        ));
    }
    out
}
