//! Writing traces, event by event.

mod ftrace_text;
mod perfetto;

use std::io;

pub use ftrace_text::{FtraceTextOptions, FtraceTextWriter, TimeDigits};
pub use perfetto::{PerfettoOptions, PerfettoWriter};

use crate::Event;

/// A trace being written.
pub trait TraceWriter {
    /// Writes one event. Events should come in order of time; no writer sorts.
    ///
    /// # Errors
    /// [`WriteError::Io`] if the output fails, [`WriteError::Finished`] after [`TraceWriter::finish`].
    fn write(&mut self, event: &Event) -> Result<(), WriteError>;

    /// Writes what is held back and flushes the output. The trace is incomplete without this call.
    ///
    /// # Errors
    /// As [`TraceWriter::write`].
    fn finish(&mut self) -> Result<WriteReport, WriteError>;
}

/// What a writer did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteReport {
    /// Events written.
    pub events: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Events whose text had to be changed, because the format cannot hold it (line feeds, invalid UTF-8).
    pub altered: u64,
}

/// Why a trace could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The output failed.
    #[error("writing the trace failed after {events} events: {source}")]
    Io {
        /// Events taken before.
        events: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The writer was used after its end.
    #[error("the trace was already finished after {events} events; no more can be written")]
    Finished {
        /// Events written.
        events: u64,
    },
}
