//! Why a trace cannot be read.

use std::io;

/// An error that ends the reading of a trace. A single bad line is none: see
/// [`UnparsedReason`](crate::UnparsedReason).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file could not be opened.
    #[error("{file}: cannot open the trace: {source}")]
    Open {
        /// Path as given.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// Reading failed midway, which includes broken or cut compressed data. Events before it are good.
    #[error(
        "{file}: reading stopped after line {line} ({events} events): {source}{}",
        hint(source)
    )]
    Io {
        /// Path as given.
        file: String,
        /// Last line read in full, 0 if none.
        line: u64,
        /// Events given out before.
        events: u64,
        /// What the system or the decompressor said.
        source: io::Error,
    },
    /// A binary file cannot be followed any further, or not at all. Events before it are good.
    #[error("{file}: reading stopped at offset {offset} ({events} events before it): {detail}")]
    Damaged {
        /// Path as given.
        file: String,
        /// Bytes from the start of the (unpacked) file.
        offset: u64,
        /// Events given out before.
        events: u64,
        /// What was expected and what is there.
        detail: String,
    },
    /// There is nothing in the file.
    #[error(
        "{file}: the file is empty, expected a trace (for instance the text of /sys/kernel/tracing/trace)"
    )]
    Empty {
        /// Path as given.
        file: String,
    },
    /// A known trace format that has no reader yet.
    #[error("{file}: this is {format}, which is not supported yet; expected ftrace text{hint}")]
    Unsupported {
        /// Path as given.
        file: String,
        /// What it is.
        format: crate::Format,
        /// How to get text from it.
        hint: &'static str,
    },
    /// Not a trace that the lab knows.
    #[error(
        "{file}: this is {found}; expected ftrace text (tracefs, `trace-cmd report` or systrace)"
    )]
    Unknown {
        /// Path as given.
        file: String,
        /// What it seems to be.
        found: String,
    },
    /// A binary file without a single event.
    #[error("{file}: no event; {detail}")]
    NoRecords {
        /// Path as given.
        file: String,
        /// What was there instead.
        detail: String,
    },
    /// Text to the end and not one event.
    #[error("{file}: no event in {lines} lines; {detail}")]
    NoEvents {
        /// Path as given.
        file: String,
        /// Lines read.
        lines: u64,
        /// What was there instead.
        detail: String,
    },
    /// A binary trace read to its end and not one event.
    #[error("{file}: no event in {records} records; {detail}")]
    NoEventRecords {
        /// Path as given.
        file: String,
        /// Records (packets) read.
        records: u64,
        /// What was there instead.
        detail: String,
    },
}

impl ReadError {
    /// Before the first event: what should stand at a place, and what does.
    pub(crate) fn unusable(file: &str, offset: u64, expected: &str, found: &str) -> Self {
        Self::Damaged {
            file: file.to_owned(),
            offset,
            events: 0,
            detail: format!("expected {expected}, found {found}"),
        }
    }

    /// A binary file was read to its end without an event; says what was there instead.
    pub(crate) fn no_records(file: &str, report: &crate::ReadReport) -> Self {
        let detail = match report.unparsed.first() {
            Some(first) => format!(
                "{} records not read, the first at {} ({})",
                report.unparsed_lines(),
                first.place(),
                first.reason
            ),
            None => "the buffers of all CPUs are empty: was anything traced?".to_owned(),
        };
        Self::NoRecords {
            file: file.to_owned(),
            detail,
        }
    }
}

/// Decompressors report an early end in their own words; say what it means.
fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::UnexpectedEof => " (is the file cut?)",
        _ => "",
    }
}
