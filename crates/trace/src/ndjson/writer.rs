//! Writing.

use std::io::Write;

use serde::Serialize;

use super::SCHEMA_NAME;
use super::record::{End, Header, Lost, Record, Trailer};
use crate::write::Sink;
use crate::{Event, ReadReport, TraceWriter, WriteError, WriteReport};

/// What the first line says of the recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NdjsonOptions {
    /// Release of the traced kernel.
    pub kernel_release: Option<String>,
    /// Clock of the times.
    pub clock: Option<String>,
}

/// Writes NDJSON: a line that names the schema, one line per event, and one that counts them.
pub struct NdjsonWriter<W> {
    sink: Sink<W>,
    options: NdjsonOptions,
    lost: Vec<Lost>,
}

impl<W: Write> NdjsonWriter<W> {
    /// Starts a trace on `output`. The writer gathers 64 KiB at a time, so the output need not be buffered.
    pub fn new(output: W, options: NdjsonOptions) -> Self {
        Self {
            sink: Sink::new(output),
            options,
            lost: Vec::new(),
        }
    }

    fn begin(&mut self) -> Result<(), WriteError> {
        if self.sink.begin()? {
            let header = Header {
                schema: SCHEMA_NAME.to_owned(),
                kernel_release: self.options.kernel_release.clone(),
                clock: self.options.clock.clone(),
            };
            self.line(&header)?;
        }
        Ok(())
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), WriteError> {
        // Writing these into memory cannot fail: all keys are strings.
        serde_json::to_writer(&mut self.sink.buffer, value).map_err(|e| WriteError::Io {
            events: self.sink.report.events,
            source: e.into(),
        })?;
        self.sink.buffer.push(b'\n');
        Ok(())
    }
}

impl<W> NdjsonWriter<W> {
    /// Gives the output back, after [`TraceWriter::finish`].
    pub fn into_inner(self) -> W {
        self.sink.into_inner()
    }
}

impl<W: Write> TraceWriter for NdjsonWriter<W> {
    fn write(&mut self, event: &Event) -> Result<(), WriteError> {
        self.begin()?;
        self.line(&Record::new(event))?;
        self.sink.event(false)
    }

    fn source(&mut self, report: &ReadReport) {
        let lost = report.cpus.iter().map(|cpu| Lost {
            cpu: cpu.cpu,
            events: cpu.lost_events,
            unknown: cpu.lost_unknown,
        });
        self.lost = lost.filter(|l| l.events > 0 || l.unknown > 0).collect();
    }

    fn finish(&mut self) -> Result<WriteReport, WriteError> {
        self.begin()?;
        let end = End {
            events: self.sink.report.events,
            lost: std::mem::take(&mut self.lost),
        };
        self.line(&Trailer { end })?;
        self.sink.finish()
    }
}
