//! Text as `/sys/kernel/tracing/trace` prints it.

use std::io::{self, Write};

use super::{TraceWriter, WriteError, WriteReport};
use crate::{CpuFlags, Event, EventKind, TaskRef};

/// Bytes gathered before they go to the output.
const CHUNK: usize = 64 * 1024;

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
    output: W,
    options: FtraceTextOptions,
    buffer: Vec<u8>,
    report: WriteReport,
    started: bool,
    finished: bool,
}

impl<W: Write> FtraceTextWriter<W> {
    /// Starts a trace on `output`. The writer gathers 64 KiB at a time, so the output need not be buffered.
    pub fn new(output: W, options: FtraceTextOptions) -> Self {
        Self {
            output,
            options,
            buffer: Vec::with_capacity(CHUNK + 1024),
            report: WriteReport::default(),
            started: false,
            finished: false,
        }
    }

    fn start(&mut self) {
        if self.started {
            return;
        }
        self.started = true;
        let out = &mut self.buffer;
        out.extend_from_slice(b"# tracer: nop\n#\n");
        if let Some((entries, cpus)) = self.options.entries {
            let line = format!(
                "# entries-in-buffer/entries-written: {entries}/{entries}   #P:{cpus}\n#\n"
            );
            out.extend_from_slice(line.as_bytes());
        }
        out.extend_from_slice(HEADER);
    }

    fn flush_buffer(&mut self) -> Result<(), WriteError> {
        let result = self.output.write_all(&self.buffer);
        self.report.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        result.map_err(|source| self.error(source))
    }

    fn error(&self, source: io::Error) -> WriteError {
        WriteError::Io {
            events: self.report.events,
            source,
        }
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
        self.output
    }
}

impl<W: Write> TraceWriter for FtraceTextWriter<W> {
    fn write(&mut self, event: &Event) -> Result<(), WriteError> {
        if self.finished {
            return Err(WriteError::Finished {
                events: self.report.events,
            });
        }
        self.start();
        let start = self.buffer.len();
        let mut line = Line {
            out: &mut self.buffer,
            altered: false,
        };
        line.event(event, self.options.digits);
        let altered = line.altered;
        debug_assert_eq!(memchr::memchr(b'\n', &self.buffer[start..]), {
            Some(self.buffer.len() - start - 1)
        });
        self.report.events += 1;
        self.report.altered += u64::from(altered);
        if self.buffer.len() >= CHUNK {
            self.flush_buffer()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<WriteReport, WriteError> {
        if self.finished {
            return Err(WriteError::Finished {
                events: self.report.events,
            });
        }
        self.start();
        self.flush_buffer()?;
        self.finished = true;
        self.output.flush().map_err(|source| self.error(source))?;
        Ok(self.report)
    }
}

/// One line being put together.
struct Line<'a> {
    out: &'a mut Vec<u8>,
    altered: bool,
}

impl Line<'_> {
    fn event(&mut self, event: &Event, digits: TimeDigits) {
        let name: &[u8] = match event.comm.as_bytes() {
            _ if event.pid == 0 => b"<idle>",
            b"" => b"<...>",
            name => name,
        };
        self.pad(16usize.saturating_sub(name.len()), b' ');
        self.name(name);
        self.text("-");
        let before = self.out.len();
        self.int(i64::from(event.pid));
        let used = self.out.len() - before;
        self.pad(7usize.saturating_sub(used), b' ');
        self.text(" [");
        self.padded(u64::from(event.cpu), 3, b'0');
        self.text("] ");
        self.flags(event.flags);
        self.text(" ");
        let (seconds, fraction, width) = match digits {
            TimeDigits::Nanos => (event.ts / 1_000_000_000, event.ts % 1_000_000_000, 9),
            TimeDigits::Micros => {
                let micros = event.ts / 1000 + u64::from(event.ts % 1000 >= 500);
                (micros / 1_000_000, micros % 1_000_000, 6)
            }
        };
        self.padded(seconds, 5, b' ');
        self.text(".");
        self.padded(fraction, width, b'0');
        self.text(": ");
        self.fields_text(event.kind.name());
        self.text(": ");
        self.fields(&event.kind);
        self.out.push(b'\n');
    }

    fn fields(&mut self, kind: &EventKind) {
        match kind {
            EventKind::SchedSwitch {
                prev,
                prev_state,
                next,
            } => {
                self.text("prev_comm=");
                self.name(prev.comm.as_bytes());
                self.key(" prev_pid=", prev.pid);
                self.key(" prev_prio=", prev.prio);
                self.text(" prev_state=");
                self.text(&prev_state.to_string());
                self.text(" ==> next_comm=");
                self.name(next.comm.as_bytes());
                self.key(" next_pid=", next.pid);
                self.key(" next_prio=", next.prio);
            }
            EventKind::SchedWaking { task, target_cpu }
            | EventKind::SchedWakeup { task, target_cpu }
            | EventKind::SchedWakeupNew { task, target_cpu } => {
                self.task(task);
                self.text(" target_cpu=");
                self.padded(u64::from(*target_cpu), 3, b'0');
            }
            EventKind::SchedMigrateTask {
                task,
                orig_cpu,
                dest_cpu,
            } => {
                self.task(task);
                self.key(" orig_cpu=", *orig_cpu);
                self.key(" dest_cpu=", *dest_cpu);
            }
            EventKind::SchedStatRuntime { comm, pid, runtime } => {
                self.text("comm=");
                self.name(comm.as_bytes());
                self.key(" pid=", *pid);
                self.text(" runtime=");
                self.padded(*runtime, 1, b'0');
                self.text(" [ns]");
            }
            EventKind::SchedProcessFork {
                parent_comm,
                parent_pid,
                child_comm,
                child_pid,
            } => {
                self.text("comm=");
                self.name(parent_comm.as_bytes());
                self.key(" pid=", *parent_pid);
                self.text(" child_comm=");
                self.name(child_comm.as_bytes());
                self.key(" child_pid=", *child_pid);
            }
            EventKind::SchedProcessExec {
                filename,
                pid,
                old_pid,
            } => {
                self.text("filename=");
                self.fields_text(filename);
                self.key(" pid=", *pid);
                self.key(" old_pid=", *old_pid);
            }
            EventKind::SchedProcessExit { task } => self.task(task),
            EventKind::Other { fields, .. } => self.fields_text(fields),
        }
    }

    fn task(&mut self, task: &TaskRef) {
        self.text("comm=");
        self.name(task.comm.as_bytes());
        self.key(" pid=", task.pid);
        self.key(" prio=", task.prio);
    }

    fn flags(&mut self, flags: CpuFlags) {
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
        self.out
            .extend_from_slice(&[irqs, resched, context, depth, b'.']);
    }

    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn key(&mut self, key: &str, value: impl Into<i64>) {
        self.text(key);
        self.int(value.into());
    }

    /// A task name, with `?` for bytes that would end the line.
    fn name(&mut self, name: &[u8]) {
        self.clean(name, b'?');
    }

    fn fields_text(&mut self, text: &str) {
        self.clean(text.as_bytes(), b' ');
    }

    fn clean(&mut self, text: &[u8], instead: u8) {
        let start = self.out.len();
        self.out.extend_from_slice(text);
        if memchr::memchr3(b'\n', b'\r', 0, text).is_some() {
            self.altered = true;
            for byte in &mut self.out[start..] {
                if matches!(*byte, b'\n' | b'\r' | 0) {
                    *byte = instead;
                }
            }
        }
    }

    fn int(&mut self, value: i64) {
        if value < 0 {
            self.out.push(b'-');
        }
        self.padded(value.unsigned_abs(), 1, b' ');
    }

    /// A number, filled from the left.
    fn padded(&mut self, mut value: u64, width: usize, fill: u8) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.pad(width.saturating_sub(digits.len() - at), fill);
        self.out.extend_from_slice(&digits[at..]);
    }

    fn pad(&mut self, count: usize, fill: u8) {
        self.out.resize(self.out.len() + count, fill);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Comm, FtraceTextReader, PrevState, Reader};

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
                altered: 0
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
