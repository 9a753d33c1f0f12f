//! Reading.

use std::io::BufRead;

use super::SCHEMA_NAME;
use super::record::{Header, Record, Trailer};
use crate::read::{LineEnd, Lines, Tally};
use crate::{Event, Format, ReadError, ReadReport, Reader, StateMapping, UnparsedReason};

/// Longest line that is read, bytes.
const LINE_MAX: usize = 16 * 1024 * 1024;
/// First CPU number that is refused; Linux builds stop at 8192.
const CPU_LIMIT: u32 = 65536;

/// Reader for NDJSON as [`NdjsonWriter`](super::NdjsonWriter) writes it.
///
/// First and last line may be missing, as behind `head` or `grep`; the report then says so. Holds one line at a time, of
/// at most 16 MiB. Keys that the schema does not have are passed over.
pub struct NdjsonReader<R> {
    lines: Lines<R>,
    name: String,
    tally: Tally,
    names_cut: u64,
    seen: Seen,
    done: bool,
}

/// What was met besides events.
#[derive(Default)]
struct Seen {
    header: bool,
    /// Events that the last line counts.
    end: Option<u64>,
}

impl<R: BufRead> NdjsonReader<R> {
    /// Reads from `input`; `name` stands for the file in messages.
    pub fn new(input: R, name: &str) -> Self {
        Self {
            lines: Lines::new(input, LINE_MAX),
            name: name.to_owned(),
            tally: Tally::default(),
            names_cut: 0,
            seen: Seen::default(),
            done: false,
        }
    }

    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            let Self {
                lines,
                tally,
                names_cut,
                seen,
                ..
            } = self;
            let taken = lines.next(|line, end| {
                tally.plain.lines += 1;
                let outcome = match take_line(line, tally, names_cut, seen) {
                    // A whole object cannot be the beginning of a longer one.
                    Err(_) if end == LineEnd::File => Err(UnparsedReason::Truncated),
                    outcome => outcome,
                };
                outcome.map_err(|reason| tally.unparsed(reason, line))
            });
            match taken {
                Ok(Some(Ok(Some(event)))) => {
                    self.lines.accept_binary();
                    self.tally.event(&event);
                    return Ok(Some(event));
                }
                Ok(Some(_)) => {}
                Ok(None) => return self.at_end(),
                Err(source) => {
                    if !self.lines.cut().is_empty() {
                        self.tally.plain.lines += 1;
                        self.tally
                            .unparsed(UnparsedReason::Truncated, self.lines.cut());
                    }
                    return Err(ReadError::Io {
                        file: self.name.clone(),
                        line: self.tally.plain.lines,
                        events: self.tally.plain.events,
                        source,
                    });
                }
            }
        }
    }

    fn at_end(&mut self) -> Result<Option<Event>, ReadError> {
        let plain = &self.tally.plain;
        if plain.lines == 0 {
            return Err(ReadError::Empty {
                file: self.name.clone(),
            });
        }
        let events = plain.events;
        // An empty trace that says so is one.
        if events == 0 && self.seen.end != Some(0) {
            let report = self.tally.report();
            let detail = report.unparsed.first().map_or_else(
                || format!("expected lines of {SCHEMA_NAME}"),
                |first| {
                    format!(
                        "{} lines not read, the first is line {} ({}): {}",
                        report.unparsed_lines(),
                        first.first_line,
                        first.reason,
                        first.sample
                    )
                },
            );
            return Err(ReadError::NoEvents {
                file: self.name.clone(),
                lines: report.lines,
                detail,
            });
        }
        match self.seen.end {
            None => self
                .tally
                .remark("the last line, which counts the events, is missing: the file may be cut"),
            Some(end) if end != events => self.tally.remark(format!(
                "the last line counts {end} events, {events} were read"
            )),
            Some(_) => {}
        }
        if !self.seen.header {
            self.tally
                .remark("the first line, which names the schema, is missing");
        }
        Ok(None)
    }
}

fn take_line(
    line: &[u8],
    tally: &mut Tally,
    names_cut: &mut u64,
    seen: &mut Seen,
) -> Result<Option<Event>, UnparsedReason> {
    if line.len() > LINE_MAX {
        return Err(UnparsedReason::TooLong);
    }
    if line.trim_ascii().is_empty() {
        tally.plain.blank += 1;
        return Ok(None);
    }
    let record: Record = match serde_json::from_slice(line) {
        Ok(record) => record,
        Err(_) => return take_note(line, tally, seen).map(|()| None),
    };
    if record.cpu() >= CPU_LIMIT {
        return Err(UnparsedReason::CpuRange);
    }
    let (has_flags, number) = (record.has_flags(), record.state_is_number());
    let event = record.event(names_cut).map_err(UnparsedReason::Fields)?;
    tally.plain.with_flags += u64::from(has_flags);
    if let Some(number) = number {
        tally.state_mapping(if number {
            StateMapping::Own
        } else {
            StateMapping::KernelLetters
        });
    }
    Ok(Some(event))
}

/// The first or the last line.
fn take_note(line: &[u8], tally: &mut Tally, seen: &mut Seen) -> Result<(), UnparsedReason> {
    if let Ok(Trailer { end }) = serde_json::from_slice(line) {
        tally.plain.notes += 1;
        for lost in end.lost.into_iter().filter(|lost| lost.cpu < CPU_LIMIT) {
            if lost.events > 0 {
                tally.lost(lost.cpu, Some(lost.events));
            }
            if lost.unknown > 0 {
                tally.lost_times(lost.cpu, lost.unknown);
            }
        }
        seen.end = Some(seen.end.unwrap_or(0).saturating_add(end.events));
        return Ok(());
    }
    let header: Header = serde_json::from_slice(line).map_err(|_| UnparsedReason::Json)?;
    if header.schema != SCHEMA_NAME {
        return Err(UnparsedReason::Json);
    }
    tally.plain.notes += 1;
    seen.header = true;
    tally.plain.kernel_release = header.kernel_release.or(tally.plain.kernel_release.take());
    tally.plain.clock = header.clock.or(tally.plain.clock.take());
    Ok(())
}

impl<R: BufRead> Iterator for NdjsonReader<R> {
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

impl<R: BufRead> Reader for NdjsonReader<R> {
    fn format(&self) -> Format {
        Format::Ndjson
    }

    fn report(&self) -> ReadReport {
        let mut report = self.tally.report();
        report.names_cut = self.names_cut;
        report
    }
}
