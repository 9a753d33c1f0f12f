//! Where the text writers put their lines.

use std::io::{self, Write};

use super::{WriteError, WriteReport};

/// Bytes gathered before they go to the output.
const CHUNK: usize = 64 * 1024;

/// An output that gathers 64 KiB at a time, and counts.
pub(crate) struct Sink<W> {
    output: W,
    pub(crate) buffer: Vec<u8>,
    pub(crate) report: WriteReport,
    started: bool,
    finished: bool,
}

impl<W: Write> Sink<W> {
    pub(crate) fn new(output: W) -> Self {
        Self {
            output,
            buffer: Vec::with_capacity(CHUNK + 1024),
            report: WriteReport::default(),
            started: false,
            finished: false,
        }
    }

    /// Refuses to go on behind the end, and says whether this is the first call.
    pub(crate) fn begin(&mut self) -> Result<bool, WriteError> {
        if self.finished {
            return Err(WriteError::Finished {
                events: self.report.events,
            });
        }
        Ok(!std::mem::replace(&mut self.started, true))
    }

    /// Counts an event that was put into the buffer, and passes a full buffer on.
    pub(crate) fn event(&mut self, altered: bool) -> Result<(), WriteError> {
        self.report.events += 1;
        self.report.altered += u64::from(altered);
        if self.buffer.len() >= CHUNK {
            self.flush_buffer()?;
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<WriteReport, WriteError> {
        self.flush_buffer()?;
        self.finished = true;
        self.output.flush().map_err(|source| self.error(source))?;
        Ok(self.report)
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

impl<W> Sink<W> {
    pub(crate) fn into_inner(self) -> W {
        self.output
    }
}
