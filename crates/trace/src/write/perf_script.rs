//! Text as `perf script` prints it.

use std::io::Write;

use super::line::{Line, SecondsDigits};
use super::sink::Sink;
use super::{TimeDigits, TraceWriter, WriteError, WriteReport};
use crate::{CpuFlags, Event, EventKind};

/// Writes the text of `perf script` for tracepoints, with its default fields: name, tid, CPU, time, event, and the event's own.
///
/// Times have nine digits unless [`TimeDigits::Micros`] is asked for; perf itself prints six (cut, not rounded), or nine
/// with `--ns`. There is no place for the flags column. Pid 0 is `swapper`.
pub struct PerfScriptWriter<W> {
    sink: Sink<W>,
    digits: TimeDigits,
}

impl<W: Write> PerfScriptWriter<W> {
    /// Starts a trace on `output`. The writer gathers 64 KiB at a time, so the output need not be buffered.
    pub fn new(output: W, digits: TimeDigits) -> Self {
        Self {
            sink: Sink::new(output),
            digits,
        }
    }
}

impl<W> PerfScriptWriter<W> {
    /// Gives the output back, after [`TraceWriter::finish`].
    pub fn into_inner(self) -> W {
        self.sink.into_inner()
    }
}

impl<W: Write> TraceWriter for PerfScriptWriter<W> {
    fn write(&mut self, event: &Event) -> Result<(), WriteError> {
        self.sink.begin()?;
        let report = &mut self.sink.report;
        report.flags_lost += u64::from(event.flags != CpuFlags::default());
        let name = front_name(event);
        report.names_lost +=
            u64::from(event.pid != 0 && name != event.comm.as_bytes() && !event.comm.is_empty());
        report.times_cut +=
            u64::from(self.digits == TimeDigits::Micros && !event.ts.is_multiple_of(1000));
        let mut line = Line {
            out: &mut self.sink.buffer,
            altered: false,
        };
        put_event(&mut line, event, self.digits);
        let altered = line.altered;
        self.sink.event(altered)
    }

    fn finish(&mut self) -> Result<WriteReport, WriteError> {
        self.sink.begin()?;
        self.sink.finish()
    }
}

/// Name of the running task as perf has it.
fn front_name(event: &Event) -> &[u8] {
    match event.comm.as_bytes() {
        _ if event.pid == 0 => b"swapper",
        b"" => b"<...>",
        name => name,
    }
}

fn put_event(line: &mut Line<'_>, event: &Event, digits: TimeDigits) {
    let name = front_name(event);
    line.pad(16usize.saturating_sub(name.len()), b' ');
    line.name(name);
    line.text(" ");
    let before = line.out.len();
    line.int(i64::from(event.pid));
    let digits_used = line.out.len() - before;
    let pad = 5usize.saturating_sub(digits_used);
    line.out
        .splice(before..before, std::iter::repeat_n(b' ', pad));
    line.text(" [");
    line.padded(u64::from(event.cpu), 3, b'0');
    line.text("] ");
    line.seconds(
        event.ts,
        match digits {
            TimeDigits::Nanos => SecondsDigits::Nine,
            TimeDigits::Micros => SecondsDigits::SixCut,
        },
    );
    line.text(": ");
    // perf aligns names to the longest one, which among the scheduler's is 24 bytes long.
    let (subsystem, name) = subsystem_and_name(&event.kind);
    line.pad(24usize.saturating_sub(subsystem.len() + name.len()), b' ');
    line.text(subsystem);
    line.fields_text(name);
    line.text(": ");
    line.fields(&event.kind);
    line.out.push(b'\n');
}

/// An [`Event`] does not keep the subsystem: known are the scheduler's and the tracer's own.
fn subsystem_and_name(kind: &EventKind) -> (&'static str, &str) {
    match kind {
        EventKind::Other { name, .. } if name == "tracing_mark_write" => ("ftrace:", "print"),
        EventKind::Other { name, .. } if name.starts_with("sched_") => ("sched:", name),
        EventKind::Other { name, .. } => ("", name),
        known => ("sched:", known.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Comm, TaskRef};

    /// Compare with lines of perf 6.1.
    #[test]
    fn layout() {
        let mut event = Event {
            ts: 6_843_067_320_999,
            cpu: 0,
            pid: 0,
            comm: Comm::new("<idle>"),
            flags: CpuFlags::default(),
            kind: EventKind::SchedWaking {
                task: TaskRef {
                    comm: Comm::new("perf-exec"),
                    pid: 29812,
                    prio: 120,
                },
                target_cpu: 0,
            },
        };
        let mut writer = PerfScriptWriter::new(Vec::new(), TimeDigits::Micros);
        writer.write(&event).unwrap();
        event.pid = 2_981_200;
        event.comm = Comm::new("perf");
        event.flags.irqs_off = true;
        event.kind = EventKind::SchedStatRuntime {
            comm: Comm::new("perf"),
            pid: 29811,
            runtime: 54369,
        };
        writer.write(&event).unwrap();
        let report = writer.finish().unwrap();
        assert_eq!(
            (report.flags_lost, report.names_lost, report.times_cut),
            (1, 0, 2)
        );
        assert!(matches!(
            writer.write(&event),
            Err(WriteError::Finished { events: 2 })
        ));
        assert_eq!(
            String::from_utf8(writer.into_inner()).unwrap(),
            "         swapper     0 [000]  6843.067320:       sched:sched_waking: comm=perf-exec pid=29812 prio=120 target_cpu=000\n            perf 2981200 [000]  6843.067320: sched:sched_stat_runtime: comm=perf pid=29811 runtime=54369 [ns]\n"
        );
    }
}
