//! Text as `/sys/kernel/tracing/trace` prints it.

use std::io::Write;

use super::line::{Line, SecondsDigits};
use super::sink::Sink;
use super::{TraceWriter, WriteError, WriteReport};
use crate::{CpuFlags, CpuReport, Event, ReadReport};

/// Digits behind the point of the seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimeDigits {
    /// Six, as the kernel prints; times are rounded to the nearest microsecond, as the kernel rounds them.
    #[default]
    Micros,
    /// Nine, as `trace-cmd report -t` prints: nothing is lost.
    Nanos,
}

/// How to write ftrace text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FtraceTextOptions {
    /// Precision of times.
    pub digits: TimeDigits,
    /// Number of events and of CPUs for the `entries-in-buffer` line of the header, which is left out without it: a
    /// stream does not know them at its beginning.
    pub entries: Option<(u64, u32)>,
}

/// Writes the text of tracefs: header, then one line per event with the five-letter flags column.
///
/// [`FtraceTextReader`](crate::FtraceTextReader) gives the same events back, with these exceptions: times if rounded
/// to microseconds; the name of pid 0, which the kernel prints as `<idle>` here; a name that begins with blanks; and
/// the bytes that a line cannot hold (line feed, carriage return, zero), for which `?` is written in names and a blank in
/// fields.
pub struct FtraceTextWriter<W> {
    sink: Sink<W>,
    options: FtraceTextOptions,
    /// Losses of the source, to be noted at the end.
    lost: Vec<CpuReport>,
}

impl<W: Write> FtraceTextWriter<W> {
    /// Starts a trace on `output`. The writer gathers 64 KiB at a time, so the output need not be buffered.
    pub fn new(output: W, options: FtraceTextOptions) -> Self {
        Self {
            sink: Sink::new(output),
            options,
            lost: Vec::new(),
        }
    }

    fn begin(&mut self) -> Result<(), WriteError> {
        if !self.sink.begin()? {
            return Ok(());
        }
        let out = &mut self.sink.buffer;
        out.extend_from_slice(b"# tracer: nop\n#\n");
        if let Some((entries, cpus)) = self.options.entries {
            let line = format!(
                "# entries-in-buffer/entries-written: {entries}/{entries}   #P:{cpus}\n#\n"
            );
            out.extend_from_slice(line.as_bytes());
        }
        out.extend_from_slice(HEADER);
        Ok(())
    }
}

/// The column legend of tracefs.
const HEADER: &[u8] = b"\
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
";

impl<W> FtraceTextWriter<W> {
    /// Gives the output back, after [`TraceWriter::finish`].
    pub fn into_inner(self) -> W {
        self.sink.into_inner()
    }
}

impl<W: Write> TraceWriter for FtraceTextWriter<W> {
    fn write(&mut self, event: &Event) -> Result<(), WriteError> {
        self.begin()?;
        let report = &mut self.sink.report;
        report.flags_lost += u64::from(event.flags.preempt_depth > 15);
        let name = front_name(event);
        report.names_lost += u64::from(event.pid != 0 && name.starts_with(b" "));
        report.times_cut +=
            u64::from(self.options.digits == TimeDigits::Micros && !event.ts.is_multiple_of(1000));
        let start = self.sink.buffer.len();
        let mut line = Line {
            out: &mut self.sink.buffer,
            altered: false,
        };
        put_event(&mut line, event, self.options.digits);
        let altered = line.altered;
        debug_assert_eq!(memchr::memchr(b'\n', &self.sink.buffer[start..]), {
            Some(self.sink.buffer.len() - start - 1)
        });
        self.sink.event(altered)
    }

    fn source(&mut self, report: &ReadReport) {
        self.lost = report.cpus.clone();
    }

    fn finish(&mut self) -> Result<WriteReport, WriteError> {
        self.begin()?;
        for cpu in &self.lost {
            if cpu.lost_events > 0 {
                let line = format!("CPU:{} [LOST {} EVENTS]\n", cpu.cpu, cpu.lost_events);
                self.sink.buffer.extend_from_slice(line.as_bytes());
            }
            for _ in 0..cpu.lost_unknown.min(LOST_LINES_MAX) {
                let line = format!("CPU:{} [LOST EVENTS]\n", cpu.cpu);
                self.sink.buffer.extend_from_slice(line.as_bytes());
            }
        }
        self.sink.finish()
    }
}

/// How many losses of unknown size are noted for a CPU.
const LOST_LINES_MAX: u64 = 1000;

/// Name of the running task as tracefs prints it.
fn front_name(event: &Event) -> &[u8] {
    match event.comm.as_bytes() {
        _ if event.pid == 0 => b"<idle>",
        b"" => b"<...>",
        name => name,
    }
}

/// One line of tracefs.
fn put_event(line: &mut Line<'_>, event: &Event, digits: TimeDigits) {
    let name = front_name(event);
    line.pad(16usize.saturating_sub(name.len()), b' ');
    line.name(name);
    line.text("-");
    let before = line.out.len();
    line.int(i64::from(event.pid));
    let used = line.out.len() - before;
    line.pad(7usize.saturating_sub(used), b' ');
    line.text(" [");
    line.padded(u64::from(event.cpu), 3, b'0');
    line.text("] ");
    line.out.extend_from_slice(&flags_column(event.flags));
    line.text(" ");
    line.seconds(
        event.ts,
        match digits {
            TimeDigits::Nanos => SecondsDigits::Nine,
            TimeDigits::Micros => SecondsDigits::SixRounded,
        },
    );
    line.text(": ");
    line.fields_text(event.kind.name());
    line.text(": ");
    line.fields(&event.kind);
    line.out.push(b'\n');
}

/// The five letters of the flags column.
fn flags_column(flags: CpuFlags) -> [u8; 5] {
    let resched = match (flags.need_resched, flags.need_resched_lazy) {
        (false, false) => b'.',
        (true, false) => b'N',
        (false, true) => b'l',
        (true, true) => b'B',
    };
    let context = match (flags.hardirq, flags.softirq) {
        (false, false) => b'.',
        (true, false) => b'h',
        (false, true) => b's',
        (true, true) => b'H',
    };
    let depth = match flags.preempt_depth {
        0 => b'.',
        // The column is one hexadecimal digit wide.
        deep => b"0123456789abcdef"[usize::from(deep.min(15))],
    };
    let irqs = if flags.irqs_off { b'd' } else { b'.' };
    [irqs, resched, context, depth, b'.']
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::{Comm, EventKind, FtraceTextReader, PrevState, Reader, TaskRef};

    fn write_all(events: &[Event], options: FtraceTextOptions) -> (String, WriteReport) {
        let mut out = Vec::new();
        let mut writer = FtraceTextWriter::new(&mut out, options);
        for event in events {
            writer.write(event).unwrap();
        }
        let report = writer.finish().unwrap();
        drop(writer);
        (String::from_utf8(out).unwrap(), report)
    }

    fn switch(ts: u64, name: &str) -> Event {
        let task = |pid| TaskRef {
            comm: Comm::new(name),
            pid,
            prio: 120,
        };
        Event {
            ts,
            cpu: 1,
            pid: 12,
            comm: Comm::new(name),
            flags: CpuFlags {
                irqs_off: true,
                preempt_depth: 2,
                ..CpuFlags::default()
            },
            kind: EventKind::SchedSwitch {
                prev: task(12),
                prev_state: PrevState::PREEMPTED,
                next: task(13),
            },
        }
    }

    #[test]
    fn layout() {
        let options = FtraceTextOptions {
            digits: TimeDigits::Micros,
            entries: Some((1, 2)),
        };
        let (text, report) = write_all(&[switch(3_676_980_500, "sh")], options);
        assert_eq!(
            report,
            WriteReport {
                events: 1,
                bytes: text.len() as u64,
                times_cut: 1,
                ..WriteReport::default()
            }
        );
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("# tracer: nop"));
        assert_eq!(
            lines.nth(1),
            Some("# entries-in-buffer/entries-written: 1/1   #P:2")
        );
        // Compare with a line of tracefs in tests/fixtures.
        assert_eq!(
            lines.last(),
            Some(
                "              sh-12      [001] d..2.     3.676981: sched_switch: prev_comm=sh prev_pid=12 \
                 prev_prio=120 prev_state=R+ ==> next_comm=sh next_pid=13 next_prio=120"
            )
        );
    }

    #[test]
    fn bytes_that_break_lines() {
        let mut event = switch(1, "a\nb\rc");
        event.comm = Comm::default();
        let (text, report) = write_all(&[event], FtraceTextOptions::default());
        assert_eq!(report.altered, 1);
        let mut reader = FtraceTextReader::new(text.as_bytes(), "test");
        let back = reader.next().unwrap().unwrap();
        assert_eq!(back.comm, Comm::default());
        assert!(
            matches!(back.kind, EventKind::SchedSwitch { prev, .. } if prev.comm == Comm::new("a?b?c"))
        );
        assert!(reader.next().is_none());
        assert_eq!(reader.report().unparsed_lines(), 0);
    }

    #[test]
    fn an_end_is_an_end() {
        let mut writer = FtraceTextWriter::new(Vec::new(), FtraceTextOptions::default());
        writer.finish().unwrap();
        assert!(matches!(
            writer.write(&switch(1, "a")),
            Err(WriteError::Finished { events: 0 })
        ));
        assert!(matches!(writer.finish(), Err(WriteError::Finished { .. })));
    }

    #[test]
    fn full_disk_is_reported() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writer = FtraceTextWriter::new(Full, FtraceTextOptions::default());
        writer.write(&switch(1, "a")).unwrap();
        assert!(matches!(
            writer.finish(),
            Err(WriteError::Io { events: 1, .. })
        ));
    }
}
