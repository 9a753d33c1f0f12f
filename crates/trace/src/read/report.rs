//! The account of one reading: what was read, what was not, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use crate::PerCpu;
use crate::format::excerpt;
use crate::{Event, EventKind};

/// How many different event names are told apart; names past this many are counted together.
const NAMES_MAX: usize = 4096;
/// Name under which events past [`NAMES_MAX`] are counted.
const OTHER_NAMES: &str = "(more names)";
/// Bytes of the first line of each kind that are kept as a sample.
const SAMPLE_BYTES: usize = 120;
/// How many remarks a report keeps; more are counted.
const REMARKS_MAX: usize = 64;

/// Why a line of text, or a record of a binary format, gave no event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnparsedReason {
    /// No `name-pid [cpu] seconds.fraction:` at its beginning.
    NotAnEvent,
    /// CPU number of 65536 or more.
    CpuRange,
    /// A time past 2^64 ns.
    TimeRange,
    /// A time without a point: a clock that does not count in seconds (`counter`, `x86-tsc`, `--raw-ts`).
    TimeUnit,
    /// No event name followed by a colon behind the time.
    NoEventName,
    /// trace-cmd wrote `[FAILED TO PARSE]` in place of the fields.
    FailedToParse,
    /// The fields of this event, which the lab knows by meaning, are not as the kernel prints them.
    Fields(&'static str),
    /// Part of a stack trace (`<stack trace>` and the ` => function` lines).
    StackTrace,
    /// Longer than the reader's limit.
    TooLong,
    /// Holds zero bytes.
    ZeroBytes,
    /// The last line, without a line feed: the file is cut.
    Truncated,
    /// A binary file that ends within a record.
    TruncatedRecord,
    /// A line of NDJSON that is no object as the schema has it.
    Json,
    /// An event of a type of which the file has no format description.
    NoFormat,
    /// A compact `sched_switch` of which nothing tells who ran before: the first of its CPU, or behind a loss.
    NoPrevious,
    /// A record whose parts contradict each other; says what was wrong.
    Damaged(&'static str),
}

impl fmt::Display for UnparsedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnEvent => f.write_str("no \"name-pid [cpu] time:\" at its beginning"),
            Self::CpuRange => f.write_str("CPU number of 65536 or more"),
            Self::TimeRange => f.write_str("time past 2^64 ns"),
            Self::TimeUnit => f.write_str("time not in seconds (counter or tsc clock, --raw-ts)"),
            Self::NoEventName => f.write_str("no event name behind the time"),
            Self::FailedToParse => f.write_str("[FAILED TO PARSE] by trace-cmd"),
            Self::Fields(event) => write!(f, "fields of {event} not understood"),
            Self::StackTrace => f.write_str("stack trace"),
            Self::TooLong => f.write_str("line too long"),
            Self::ZeroBytes => f.write_str("zero bytes in the line"),
            Self::Truncated => f.write_str("last line cut (no line feed)"),
            Self::TruncatedRecord => f.write_str("the file ends within a record"),
            Self::Json => f.write_str("no JSON object as schedlab.trace/1 has it"),
            Self::NoFormat => f.write_str("event without a format description in the file"),
            Self::NoPrevious => f.write_str("compact sched_switch without a known task before it"),
            Self::Damaged(what) => write!(f, "damaged record: {what}"),
        }
    }
}

/// Lines or records that share a reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct UnparsedCount {
    /// Why.
    pub reason: UnparsedReason,
    /// How many lines (records of a binary format).
    pub count: u64,
    /// Number of the first of them, counted from 1; 0 in binary formats.
    pub first_line: u64,
    /// Where the first of them begins, bytes from the start of the (uncompressed) file; only in binary formats.
    pub first_offset: Option<u64>,
    /// Its beginning, with escapes for unprintable bytes.
    pub sample: String,
}

impl UnparsedCount {
    /// `line 7`, or `offset 0x1f40` in a binary format.
    #[must_use]
    pub fn place(&self) -> String {
        match self.first_offset {
            Some(offset) => format!("offset {offset:#x}"),
            None => format!("line {}", self.first_line),
        }
    }
}

/// How `prev_state` of `sched_switch` came to the bits of [`PrevState`](crate::PrevState).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StateMapping {
    /// The source has the kernel's letters (`S`, `R+`).
    KernelLetters,
    /// Letters of the fixed table in older trace-cmd plugins, which calls some states otherwise.
    OldPluginLetters,
    /// Letters of perf's table.
    PerfLetters,
    /// The table in the event's own format description (`__print_flags`).
    FormatTable,
    /// Numbers, taken as the bits of kernels from 4.14 on.
    Bits,
    /// Numbers, taken as the bits of the older kernel that the source names.
    OldBits,
    /// Written by schedlab, which keeps its own bits.
    Own,
}

impl fmt::Display for StateMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KernelLetters => "the kernel's letters",
            Self::OldPluginLetters => "letters of an older trace-cmd plugin (X zombie, Z dead)",
            Self::PerfLetters => "perf's letters",
            Self::FormatTable => "the table in the event's format description",
            Self::Bits => "numbers, as the bits of kernels from 4.14 on",
            Self::OldBits => "numbers, as the bits of the older kernel that the file names",
            Self::Own => "schedlab's own bits",
        })
    }
}

/// What one CPU contributed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CpuReport {
    /// CPU number.
    pub cpu: u32,
    /// Events recorded there.
    pub events: u64,
    /// Events lost there according to the source.
    pub lost_events: u64,
    /// Notes of loss that did not say how many.
    pub lost_unknown: u64,
    /// Events with an earlier time than an event before them of the same CPU.
    pub out_of_order: u64,
    /// Earliest time, ns.
    pub first_ts: Option<u64>,
    /// Latest time, ns.
    pub last_ts: Option<u64>,
    /// Longest time between an event and the next one of this CPU, ns.
    pub longest_gap: u64,
}

/// The account of one reading.
///
/// `lines = events + comments + blank + notes + sum of unparsed` for text formats.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ReadReport {
    /// Lines of a text format, cut one included; 0 for binary formats.
    pub lines: u64,
    /// Records of a binary format (packets, ring-buffer entries), whatever they were; 0 for text.
    pub records: u64,
    /// Events given out.
    pub events: u64,
    /// Comment lines (`#`).
    pub comments: u64,
    /// Blank lines.
    pub blank: u64,
    /// Lines that say something about the recording: losses, empty CPUs, `cpus=`.
    pub notes: u64,
    /// Lines that gave no event, by reason.
    pub unparsed: Vec<UnparsedCount>,
    /// Events by name, without subsystem.
    pub events_by_type: BTreeMap<String, u64>,
    /// Earliest time, ns.
    pub first_ts: Option<u64>,
    /// Latest time, ns.
    pub last_ts: Option<u64>,
    /// CPUs with events or losses, by number.
    pub cpus: Vec<CpuReport>,
    /// CPUs of which the source says that they are empty.
    pub empty_cpus: Vec<u32>,
    /// Number of CPUs that the header names (`#P:2`, `cpus=2`).
    pub cpus_declared: Option<u32>,
    /// Events lost according to the source, all CPUs.
    pub lost_events: u64,
    /// Notes of loss that did not say how many.
    pub lost_unknown: u64,
    /// Events that were overwritten before the reading began (`entries-in-buffer/entries-written`).
    pub overwritten: u64,
    /// Events with an earlier time than some event before them.
    pub out_of_order: u64,
    /// Those among them that are in order on their own CPU: the buffers were merged badly, or the clocks of two CPUs differ.
    pub out_of_order_across_cpus: u64,
    /// Largest such step back, ns.
    pub largest_step_back: u64,
    /// Release of the traced kernel, where the source tells.
    pub kernel_release: Option<String>,
    /// Clock of the times (`local`, `mono`, `boottime`), where the source tells.
    pub clock: Option<String>,
    /// How `prev_state` was read; more than one way if the source mixes them.
    pub prev_state: BTreeSet<StateMapping>,
    /// What else a reader of the figures should know, one sentence each.
    pub remarks: Vec<String>,
    /// Remarks past the limit of 64.
    pub more_remarks: u64,
    /// Events that came with a flags column which was understood.
    pub with_flags: u64,
    /// Events with a flags column that was not understood; they are given out without flags.
    pub flags_unknown: u64,
    /// Task names longer than the kernel's 15 bytes, cut.
    pub names_cut: u64,
}

impl ReadReport {
    /// Lines (records of a binary format) that gave no event, all reasons together.
    #[must_use]
    pub fn unparsed_lines(&self) -> u64 {
        self.unparsed.iter().map(|u| u.count).sum()
    }

    /// Whether the last line was cut.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.unparsed.iter().any(|u| {
            matches!(
                u.reason,
                UnparsedReason::Truncated | UnparsedReason::TruncatedRecord
            )
        })
    }

    /// Adds a sentence; one that is there already is not added twice.
    pub(crate) fn remark(&mut self, text: String) {
        if self.remarks.contains(&text) {
        } else if self.remarks.len() < REMARKS_MAX {
            self.remarks.push(text);
        } else {
            self.more_remarks += 1;
        }
    }

    /// Time between the earliest and the latest event, ns; 0 without events.
    #[must_use]
    pub fn span(&self) -> u64 {
        match (self.first_ts, self.last_ts) {
            (Some(first), Some(last)) => last.saturating_sub(first),
            _ => 0,
        }
    }
}

impl fmt::Display for ReadReport {
    /// Several lines of text, the last one without a line feed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.records {
            0 => write!(f, "{} events in {} lines", self.events, self.lines)?,
            records => write!(f, "{} events in {records} records", self.events)?,
        }
        if let Some(first) = self.first_ts {
            let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
            write!(
                f,
                ", {} CPUs, {} s from {} s",
                self.cpus.iter().filter(|c| c.events > 0).count(),
                seconds(self.span()),
                seconds(first)
            )?;
        }
        for (name, count) in &self.events_by_type {
            write!(f, "\n  {count:>10} {name}")?;
        }
        if self.lost_events > 0 || self.lost_unknown > 0 {
            write!(f, "\nlost events: {}", self.lost_events)?;
            if self.lost_unknown > 0 {
                write!(f, ", and {} losses of unknown size", self.lost_unknown)?;
            }
        }
        if self.overwritten > 0 {
            write!(
                f,
                "\noverwritten before the reading: {} events",
                self.overwritten
            )?;
        }
        if self.out_of_order > 0 {
            let were = if self.out_of_order == 1 {
                "event was"
            } else {
                "events were"
            };
            write!(
                f,
                "\n{} {were} reordered (out of order in the file) by at most {} ns",
                self.out_of_order, self.largest_step_back
            )?;
            if self.out_of_order_across_cpus > 0 {
                write!(
                    f,
                    ", {} of them only against other CPUs",
                    self.out_of_order_across_cpus
                )?;
            }
        }
        for u in &self.unparsed {
            write!(
                f,
                "\nnot read: {} x {}, first at {}",
                u.count,
                u.reason,
                u.place()
            )?;
            if !u.sample.is_empty() {
                write!(f, ": {}", u.sample)?;
            }
        }
        for remark in &self.remarks {
            write!(f, "\n{remark}")?;
        }
        Ok(())
    }
}

/// The running counts behind a [`ReadReport`]; cheap per event.
#[derive(Default)]
pub(crate) struct Tally {
    /// Everything that needs no special structure.
    pub(crate) plain: ReadReport,
    known: [u64; EventKind::KNOWN.len()],
    others: BTreeMap<String, u64>,
    unparsed: BTreeMap<UnparsedReason, UnparsedCount>,
    cpus: PerCpu<CpuReport>,
}

impl Tally {
    /// Counts an event that is given out.
    pub(crate) fn event(&mut self, event: &Event) {
        let plain = &mut self.plain;
        plain.events += 1;
        match event.kind.known_index() {
            Some(index) => self.known[index] += 1,
            None => self.count_name(event.kind.name()),
        }
        let ts = event.ts;
        let plain = &mut self.plain;
        plain.first_ts = Some(plain.first_ts.map_or(ts, |first| first.min(ts)));
        let step_back = plain.last_ts.map_or(0, |last| last.saturating_sub(ts));
        if step_back > 0 {
            plain.out_of_order += 1;
            plain.largest_step_back = plain.largest_step_back.max(step_back);
        } else {
            plain.last_ts = Some(ts);
        }
        let cpu = self.cpu(event.cpu);
        cpu.events += 1;
        cpu.first_ts = Some(cpu.first_ts.map_or(ts, |first| first.min(ts)));
        match cpu.last_ts {
            Some(latest) if ts < latest => cpu.out_of_order += 1,
            latest => {
                cpu.longest_gap = cpu.longest_gap.max(ts - latest.unwrap_or(ts));
                cpu.last_ts = Some(ts);
                self.plain.out_of_order_across_cpus += u64::from(step_back > 0);
            }
        }
    }

    fn count_name(&mut self, name: &str) {
        if let Some(count) = self.others.get_mut(name) {
            *count += 1;
        } else {
            let name = if self.others.len() < NAMES_MAX {
                name
            } else {
                OTHER_NAMES
            };
            *self.others.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// Counts a line that gave no event.
    pub(crate) fn unparsed(&mut self, reason: UnparsedReason, line: &[u8]) {
        self.count_unparsed(reason, self.plain.lines, None, line.trim_ascii());
    }

    /// Counts a record of a binary format that gave no event; `offset` is where it begins in the file.
    #[allow(dead_code, reason = "for the readers of binary formats")]
    pub(crate) fn unparsed_record(&mut self, reason: UnparsedReason, offset: u64, bytes: &[u8]) {
        self.count_unparsed(reason, 0, Some(offset), bytes);
    }

    fn count_unparsed(
        &mut self,
        reason: UnparsedReason,
        first_line: u64,
        first_offset: Option<u64>,
        bytes: &[u8],
    ) {
        self.unparsed
            .entry(reason)
            .or_insert_with(|| UnparsedCount {
                reason,
                count: 0,
                first_line,
                first_offset,
                sample: excerpt(bytes, SAMPLE_BYTES),
            })
            .count += 1;
    }

    /// Adds a sentence for the person who reads the report; one that is there already is not added twice.
    #[allow(dead_code, reason = "for the readers of binary formats")]
    pub(crate) fn remark(&mut self, text: impl Into<String>) {
        self.plain.remark(text.into());
    }

    /// Notes how `prev_state` was read.
    #[allow(dead_code, reason = "for the readers of binary formats")]
    pub(crate) fn state_mapping(&mut self, mapping: StateMapping) {
        self.plain.prev_state.insert(mapping);
    }

    /// Notes a loss on a CPU; `None` if the source does not say how much.
    pub(crate) fn lost(&mut self, cpu: u32, count: Option<u64>) {
        let entry = self.cpu(cpu);
        match count {
            Some(count) => {
                entry.lost_events = entry.lost_events.saturating_add(count);
                self.plain.lost_events = self.plain.lost_events.saturating_add(count);
            }
            None => self.lost_times(cpu, 1),
        }
    }

    /// Notes several losses of unknown size on a CPU.
    pub(crate) fn lost_times(&mut self, cpu: u32, times: u64) {
        let entry = self.cpu(cpu);
        entry.lost_unknown = entry.lost_unknown.saturating_add(times);
        self.plain.lost_unknown = self.plain.lost_unknown.saturating_add(times);
    }

    /// Notes a loss of which the source does not tell the CPU.
    #[allow(dead_code, reason = "for the readers of binary formats")]
    pub(crate) fn lost_somewhere(&mut self, count: Option<u64>) {
        match count {
            Some(count) => {
                self.plain.lost_events = self.plain.lost_events.saturating_add(count);
            }
            None => self.plain.lost_unknown += 1,
        }
    }

    /// Notes that a CPU recorded nothing.
    pub(crate) fn empty_cpu(&mut self, cpu: u32) {
        if let Err(at) = self.plain.empty_cpus.binary_search(&cpu) {
            self.plain.empty_cpus.insert(at, cpu);
        }
    }

    fn cpu(&mut self, cpu: u32) -> &mut CpuReport {
        self.cpus.of(cpu, || CpuReport {
            cpu,
            ..CpuReport::default()
        })
    }

    /// The report as of now.
    pub(crate) fn report(&self) -> ReadReport {
        let mut report = self.plain.clone();
        report.events_by_type = self.others.clone();
        for (name, &count) in EventKind::KNOWN.iter().zip(&self.known) {
            if count > 0 {
                // A reader may give an event of that name as text.
                *report.events_by_type.entry((*name).to_owned()).or_default() += count;
            }
        }
        report.unparsed = self.unparsed.values().cloned().collect();
        report.cpus = self.cpus.iter().map(|(_, &cpu)| cpu).collect();
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded() {
        let mut tally = Tally::default();
        for i in 0..NAMES_MAX + 10 {
            tally.count_name(&format!("event{i}"));
        }
        let report = tally.report();
        assert_eq!(report.events_by_type.len(), NAMES_MAX + 1);
        assert_eq!(report.events_by_type[OTHER_NAMES], 10);
    }

    #[test]
    fn remarks_are_bounded_and_said_once() {
        let mut tally = Tally::default();
        tally.remark("twice");
        tally.remark("twice");
        for i in 0..REMARKS_MAX {
            tally.remark(format!("remark {i}"));
        }
        let report = tally.report();
        assert_eq!(report.remarks.len(), REMARKS_MAX);
        assert_eq!(
            (report.remarks[0].as_str(), report.more_remarks),
            ("twice", 1)
        );
    }

    #[test]
    fn records_are_placed_by_offset() {
        let mut tally = Tally::default();
        tally.plain.records = 2;
        tally.unparsed_record(UnparsedReason::NoFormat, 64, b"\x01");
        tally.unparsed_record(UnparsedReason::NoFormat, 99, b"\x02");
        tally.unparsed_record(UnparsedReason::TruncatedRecord, 100, b"");
        let report = tally.report();
        assert!(report.truncated());
        let text = report.to_string();
        assert!(text.starts_with("0 events in 2 records"), "{text}");
        assert!(
            text.contains(
                "2 x event without a format description in the file, first at offset 0x40: \\x01"
            ),
            "{text}"
        );
    }

    #[test]
    fn cpus_keep_their_counts_apart() {
        let mut tally = Tally::default();
        let mut event = Event {
            ts: 5,
            cpu: 1,
            pid: 0,
            comm: crate::Comm::default(),
            flags: crate::CpuFlags::default(),
            kind: EventKind::SchedProcessExec {
                filename: String::new(),
                pid: 1,
                old_pid: 1,
            },
        };
        tally.event(&event);
        event.cpu = 0;
        event.ts = 3;
        tally.event(&event);
        event.cpu = 1;
        event.ts = 4;
        tally.event(&event);
        tally.lost(7, Some(9));
        let report = tally.report();
        let brief: Vec<_> = report
            .cpus
            .iter()
            .map(|c| (c.cpu, c.events, c.out_of_order, c.lost_events))
            .collect();
        assert_eq!(brief, [(0, 1, 0, 0), (1, 2, 1, 0), (7, 0, 0, 9)]);
        assert_eq!((report.out_of_order, report.largest_step_back), (2, 2));
        assert_eq!(report.out_of_order_across_cpus, 1);
        assert_eq!((report.first_ts, report.last_ts), (Some(3), Some(5)));
    }
}
