//! Reader for ftrace text in its dialects; `docs/formats/ftrace-text.md` describes them.

mod fields;
mod notes;
mod page;
mod perf_script;
mod plugin;
mod prefix;
mod state;

use std::io::{self, BufRead};

use self::notes::Note;
pub(crate) use self::page::begins_page;
use self::page::{Page, PageLine};
use self::prefix::{CPU_LIMIT, Flags, Time};
use self::state::Letters;
use crate::read::{LineEnd, Lines, Tally};
use crate::{
    Event, EventKind, Format, PrevState, ReadError, ReadReport, Reader, StateMapping,
    UnparsedReason,
};

/// Longest line that is read, bytes; the kernel cuts its own at 8 KiB.
const LINE_MAX: usize = 64 * 1024;

const SINCE_START: &str = "times count from the first event and task names in front of a line are cut to 8 bytes (latency format)";
const SEVERAL_BUFFERS: &str =
    "several buffers or files are printed in one; their events are read as one trace";

/// What the field parsers carry from line to line.
struct Names {
    /// Names that were too long.
    cut: u64,
    /// Letters of `prev_state` that trace-cmd's plugin uses.
    plugin_letters: Letters,
    /// Ways in which `prev_state` was read so far.
    states: StatesSeen,
    /// Times count from the first event.
    since_start: bool,
    /// Lines name a buffer or file.
    buffers: bool,
}

/// Which forms of `prev_state` were met.
#[derive(Clone, Copy, Default)]
struct StatesSeen {
    kernel: bool,
    old_plugin: bool,
    numbers: bool,
}

impl StatesSeen {
    fn note(&mut self, text: &[u8], letters: Letters) {
        if text.first().is_some_and(u8::is_ascii_digit) {
            self.numbers = true;
        } else {
            match letters {
                Letters::Kernel => self.kernel = true,
                Letters::OldPlugin => self.old_plugin = true,
            }
        }
    }

    fn mappings(self) -> impl Iterator<Item = StateMapping> {
        [
            (self.kernel, StateMapping::KernelLetters),
            (self.old_plugin, StateMapping::OldPluginLetters),
            (self.numbers, StateMapping::Bits),
        ]
        .into_iter()
        .filter_map(|(seen, mapping)| seen.then_some(mapping))
    }
}

impl Default for Names {
    fn default() -> Self {
        Self {
            cut: 0,
            plugin_letters: Letters::OldPlugin,
            states: StatesSeen::default(),
            since_start: false,
            buffers: false,
        }
    }
}

/// Reads `prev_state` in the kernel's letters.
pub(crate) fn parse_kernel_state(text: &[u8]) -> Option<crate::PrevState> {
    state::parse(text, Letters::Kernel)
}

/// Whether a line has the front of an event. For telling formats apart.
pub(crate) fn is_event_line(line: &[u8]) -> bool {
    prefix::parse(line).is_some()
}

/// Whether a line is a note of tracefs or trace-cmd. For telling formats apart.
pub(crate) fn is_note(line: &[u8]) -> bool {
    notes::parse(line).is_some()
}

/// Whether a line is an event as `perf script` prints it. For telling formats apart.
pub(crate) fn is_perf_script_line(line: &[u8]) -> bool {
    perf_script::parse(line).is_some_and(|front| prefix::event_name(front.rest).is_some())
}

/// Reads `prev_state` out of the fields of a `sched_switch` line, and says how it was written. For payloads whose format
/// description makes such a line.
pub(crate) fn switch_state(fields: &[u8]) -> Option<(PrevState, StateMapping)> {
    let mut names = Names {
        // Old kernels print as trace-cmd's plugin does, but with their own letters.
        plugin_letters: Letters::Kernel,
        ..Names::default()
    };
    match fields::parse(b"sched_switch", fields, &mut names)? {
        EventKind::SchedSwitch { prev_state, .. } => {
            Some((prev_state, names.states.mappings().next()?))
        }
        _ => None,
    }
}

/// Reader for the text of tracefs (`trace`, `trace_pipe`), `trace-cmd report` and systrace (plain or in its HTML page).
///
/// Holds one line at a time. A line past 64 KiB is skipped and counted. A last line without a line feed is taken only
/// if nothing can be missing from it (see `docs/formats/ftrace-text.md`), otherwise it is counted as cut.
pub struct FtraceTextReader<R> {
    lines: Lines<R>,
    name: String,
    tally: Tally,
    names: Names,
    page: Page,
    dialect: Dialect,
    done: bool,
}

/// How the front of a line is laid out.
enum Dialect {
    Ftrace,
    PerfScript(perf_script::Lines),
}

impl<R: BufRead> FtraceTextReader<R> {
    /// Reads from `input`; `name` stands for the file in messages.
    ///
    /// Give a buffer of 64 KiB or more for speed.
    pub fn new(input: R, name: &str) -> Self {
        Self {
            lines: Lines::new(input, LINE_MAX),
            name: name.to_owned(),
            tally: Tally::default(),
            names: Names::default(),
            page: Page::default(),
            dialect: Dialect::Ftrace,
            done: false,
        }
    }

    /// Reads the text of `perf script`; `docs/formats/perf-script.md` describes it.
    pub fn perf_script(input: R, name: &str) -> Self {
        Self {
            dialect: Dialect::PerfScript(perf_script::Lines::default()),
            ..Self::new(input, name)
        }
    }

    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            let Self {
                lines,
                tally,
                names,
                page,
                dialect,
                name,
                ..
            } = self;
            let taken = lines.next(|line, end| {
                tally.plain.lines += 1;
                let mut outcome = take_line(line, page, dialect, tally, names);
                let first = tally.plain.events == 0;
                if first
                    && (end == LineEnd::Binary
                        || matches!(outcome, Outcome::Unparsed(UnparsedReason::ZeroBytes)))
                {
                    return Err(not_text(name, line));
                }
                if end == LineEnd::File {
                    outcome = at_file_end(outcome, line);
                }
                if let Outcome::Unparsed(reason) = outcome {
                    tally.unparsed(reason, line);
                }
                Ok(outcome)
            });
            match taken {
                Ok(Some(Ok(Outcome::Event(event)))) => {
                    self.lines.accept_binary();
                    self.tally.event(&event);
                    return Ok(Some(event));
                }
                Ok(Some(Ok(Outcome::Nothing | Outcome::Unparsed(_)))) => {}
                Ok(Some(Err(error))) => return Err(error),
                Ok(None) => return self.at_end(),
                Err(source) => return Err(self.broken(source)),
            }
        }
    }

    fn broken(&mut self, source: io::Error) -> ReadError {
        if !self.lines.cut().is_empty() {
            self.tally.plain.lines += 1;
            self.tally
                .unparsed(UnparsedReason::Truncated, self.lines.cut());
        }
        ReadError::Io {
            file: self.name.clone(),
            line: self.tally.plain.lines,
            events: self.tally.plain.events,
            source,
        }
    }

    fn at_end(&self) -> Result<Option<Event>, ReadError> {
        if self.tally.plain.events > 0 {
            return Ok(None);
        }
        if self.tally.plain.lines == 0 {
            return Err(ReadError::Empty {
                file: self.name.clone(),
            });
        }
        let report = self.tally.report();
        let detail = match report.unparsed.first() {
            Some(first) => format!(
                "{} lines not read, the first is line {} ({}): {}",
                report.unparsed_lines(),
                first.first_line,
                first.reason,
                first.sample
            ),
            None if self.page.is_html() => {
                "an HTML page without trace text (systrace marks it with class=\"trace-data\")"
                    .to_owned()
            }
            None => "only comments and notes: was anything traced?".to_owned(),
        };
        Err(ReadError::NoEvents {
            file: self.name.clone(),
            lines: report.lines,
            detail,
        })
    }
}

fn not_text(file: &str, start: &[u8]) -> ReadError {
    ReadError::Unknown {
        file: file.to_owned(),
        found: crate::format::describe_unknown(start),
    }
}

impl<R: BufRead> Iterator for FtraceTextReader<R> {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let result = self.next_event();
        self.done = !matches!(result, Ok(Some(_)));
        result.transpose()
    }
}

impl<R: BufRead> Reader for FtraceTextReader<R> {
    fn format(&self) -> Format {
        match self.dialect {
            Dialect::Ftrace => Format::FtraceText,
            Dialect::PerfScript(_) => Format::PerfScript,
        }
    }

    fn report(&self) -> ReadReport {
        let mut report = self.tally.report();
        report.names_cut = self.names.cut;
        report.prev_state.extend(self.names.states.mappings());
        for (seen, remark) in [
            (self.names.since_start, SINCE_START),
            (self.names.buffers, SEVERAL_BUFFERS),
        ] {
            if seen {
                report.remarks.push(remark.to_owned());
            }
        }
        report
    }
}

/// What a line turned out to be.
enum Outcome {
    Event(Event),
    /// A comment, a note or blank; already counted.
    Nothing,
    Unparsed(UnparsedReason),
}

/// What a last line without a line feed counts as.
fn at_file_end(outcome: Outcome, line: &[u8]) -> Outcome {
    match outcome {
        // Comments and notes are no loss even if cut.
        Outcome::Nothing => Outcome::Nothing,
        Outcome::Event(event) if surely_complete(&event.kind, line) => Outcome::Event(event),
        Outcome::Event(_) | Outcome::Unparsed(_) => Outcome::Unparsed(UnparsedReason::Truncated),
    }
}

fn take_line(
    line: &[u8],
    page: &mut Page,
    dialect: &mut Dialect,
    tally: &mut Tally,
    names: &mut Names,
) -> Outcome {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let PageLine::Text(line) = page.take(line) else {
        tally.plain.notes += 1;
        return Outcome::Nothing;
    };
    if line.len() > LINE_MAX {
        return Outcome::Unparsed(UnparsedReason::TooLong);
    }
    if line.first() == Some(&b'#') {
        tally.plain.comments += 1;
        notes::comment(line, tally);
        return Outcome::Nothing;
    }
    let front = match dialect {
        Dialect::Ftrace => prefix::parse(line),
        Dialect::PerfScript(_) if perf_script::is_frame(line) => {
            tally.plain.notes += 1;
            return Outcome::Nothing;
        }
        Dialect::PerfScript(_) => perf_script::parse(line),
    };
    let Some(front) = front else {
        return not_an_event(line, tally);
    };
    if memchr::memchr(0, line).is_some() {
        return Outcome::Unparsed(UnparsedReason::ZeroBytes);
    }
    let ts = match front.ts {
        Time::Ns(ts) => ts,
        Time::SinceStart(ts) => {
            names.since_start = true;
            ts
        }
        Time::Range => return Outcome::Unparsed(UnparsedReason::TimeRange),
        Time::Unit => return Outcome::Unparsed(UnparsedReason::TimeUnit),
    };
    let cpu = match u32::try_from(front.cpu) {
        Ok(cpu) if front.cpu < CPU_LIMIT => cpu,
        _ => return Outcome::Unparsed(UnparsedReason::CpuRange),
    };
    if let Dialect::PerfScript(_) = dialect
        && let Some(lost) = perf_script::record(front.rest)
    {
        tally.plain.notes += 1;
        if lost.is_some() {
            tally.lost(cpu, lost);
        }
        return Outcome::Nothing;
    }
    let Some((name, fields)) = prefix::event_name(front.rest) else {
        return if front.rest.starts_with(b"<stack trace>") {
            Outcome::Unparsed(UnparsedReason::StackTrace)
        } else {
            Outcome::Unparsed(UnparsedReason::NoEventName)
        };
    };
    if fields.starts_with(b"[FAILED TO PARSE]") {
        return Outcome::Unparsed(UnparsedReason::FailedToParse);
    }
    let Some(kind) = fields::parse(name, fields, names) else {
        let known = EventKind::KNOWN
            .iter()
            .find(|known| known.as_bytes() == name);
        return Outcome::Unparsed(UnparsedReason::Fields(known.unwrap_or(&"an event")));
    };
    let flags = match front.flags {
        Flags::Known(flags) => {
            tally.plain.with_flags += 1;
            flags
        }
        Flags::Unknown => {
            tally.plain.flags_unknown += 1;
            crate::CpuFlags::default()
        }
        Flags::Absent => crate::CpuFlags::default(),
    };
    names.buffers |= front.buffer.is_some();
    Outcome::Event(Event {
        ts,
        cpu,
        pid: match dialect {
            Dialect::Ftrace => front.pid,
            Dialect::PerfScript(lines) => lines.current(front.pid, cpu, &kind),
        },
        comm: prefix::comm(front.comm, &mut names.cut),
        flags,
        kind,
    })
}

fn not_an_event(line: &[u8], tally: &mut Tally) -> Outcome {
    if line.trim_ascii().is_empty() {
        tally.plain.blank += 1;
        return Outcome::Nothing;
    }
    if let Some(note) = notes::parse(line) {
        tally.plain.notes += 1;
        match note {
            Note::Lost(cpu, count) => tally.lost(cpu, count),
            Note::Empty(cpu) => tally.empty_cpu(cpu),
            Note::Cpus(cpus) => tally.plain.cpus_declared = Some(cpus),
            Note::Plain => {}
        }
        return Outcome::Nothing;
    }
    Outcome::Unparsed(if memchr::memchr(0, line).is_some() {
        UnparsedReason::ZeroBytes
    } else if line.trim_ascii_start().starts_with(b"=> ") {
        UnparsedReason::StackTrace
    } else {
        UnparsedReason::NotAnEvent
    })
}

/// Whether a line that parsed cannot be the beginning of a longer one, so that a missing line feed is harmless.
///
/// A number that ends the text might have had more digits. Not so if one more would leave its range: priorities end at
/// 139, and CPU numbers are padded to three digits.
fn surely_complete(kind: &EventKind, line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let digits = line.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let last = &line[line.len() - digits..];
    match kind {
        EventKind::SchedSwitch { .. } if line.ends_with(b"]") => true,
        EventKind::SchedSwitch { next: task, .. } | EventKind::SchedProcessExit { task } => {
            task.prio >= 14 && task.prio.to_string().as_bytes() == last
        }
        EventKind::SchedWaking { .. }
        | EventKind::SchedWakeup { .. }
        | EventKind::SchedWakeupNew { .. } => digits >= 3 || line.ends_with(b"]"),
        EventKind::SchedStatRuntime { .. } => line.ends_with(b"[ns]"),
        _ => false,
    }
}
