//! Writing traces, event by event.

mod ftrace_text;
mod line;
mod perf_data;
mod perf_script;
mod perfetto;
mod sink;

use std::io;

pub use ftrace_text::{FtraceTextOptions, FtraceTextWriter, TimeDigits};
pub use perf_data::{PerfDataOptions, PerfDataWriter};
pub use perf_script::PerfScriptWriter;
pub use perfetto::{CounterTrack, CounterUnit, PerfettoOptions, PerfettoWriter};

pub(crate) use sink::Sink;

use crate::{Event, ReadReport};

/// A trace being written.
pub trait TraceWriter {
    /// Writes one event. Events should come in order of time; no writer sorts.
    ///
    /// # Errors
    /// [`WriteError::Io`] if the output fails, [`WriteError::Finished`] after [`TraceWriter::finish`].
    fn write(&mut self, event: &Event) -> Result<(), WriteError>;

    /// Tells what is known of the source, before [`TraceWriter::finish`]; formats that have a place for its losses keep them.
    fn source(&mut self, report: &ReadReport) {
        let _ = report;
    }

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
    /// Events whose flags ([`CpuFlags`](crate::CpuFlags)) the format cannot hold, or not all of them.
    pub flags_lost: u64,
    /// Events whose name in front ([`Event::comm`]) the format cannot hold.
    pub names_lost: u64,
    /// Events whose time was rounded or cut.
    pub times_cut: u64,
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
