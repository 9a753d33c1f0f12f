//! Traces to write, in the format that is asked for or that the file's name ends in.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Stdout, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use schedlab_analysis::counters::{Counters, Sample, Track};
use schedlab_trace::{
    CounterTrack, CounterUnit, Event, FtraceTextOptions, FtraceTextWriter, NdjsonOptions,
    NdjsonWriter, PerfScriptWriter, PerfettoOptions, PerfettoWriter, ReadReport, TimeDigits,
    TraceWriter, WriteError, WriteReport,
};

use crate::output::ResultFile;

/// A format that can be written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub(crate) enum TraceFormat {
    /// Text of tracefs (.txt).
    Ftrace,
    /// Text of perf script (.perf).
    PerfScript,
    /// Perfetto protobuf (.pftrace, .perfetto-trace).
    Perfetto,
    /// One JSON object per line (.ndjson, .jsonl).
    Ndjson,
}

/// Endings of file names.
const ENDINGS: [(&str, TraceFormat); 7] = [
    (".pftrace", TraceFormat::Perfetto),
    (".perfetto-trace", TraceFormat::Perfetto),
    (".ndjson", TraceFormat::Ndjson),
    (".jsonl", TraceFormat::Ndjson),
    (".perf.txt", TraceFormat::PerfScript),
    (".perf", TraceFormat::PerfScript),
    (".txt", TraceFormat::Ftrace),
];

impl TraceFormat {
    /// The format that a file's name asks for.
    pub(crate) fn of_name(path: &Path) -> Result<Self> {
        let name = path.to_string_lossy();
        match ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)) {
            Some((_, format)) => Ok(*format),
            None => bail!(
                "{name}: expected a name that ends in .pftrace, .perfetto-trace, .txt (ftrace text), .perf (perf script text), .ndjson or .jsonl"
            ),
        }
    }

    /// What it is called in messages.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Ftrace => "ftrace text",
            Self::PerfScript => "perf script text",
            Self::Perfetto => "Perfetto",
            Self::Ndjson => "NDJSON",
        }
    }
}

/// Where the bytes go.
enum Target {
    File(ResultFile),
    Stdout(BufWriter<Stdout>),
}

impl Write for Target {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(buf),
            Self::Stdout(out) => out.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stdout(out) => out.flush(),
        }
    }
}

/// A trace being written. A file appears under its name only when [`TraceOutput::finish`] is called.
pub(crate) struct TraceOutput {
    writer: Writer,
}

enum Writer {
    Ftrace(FtraceTextWriter<Target>),
    PerfScript(PerfScriptWriter<Target>),
    Perfetto(Box<WithCounters>),
    Ndjson(NdjsonWriter<Target>),
}

impl TraceOutput {
    /// Begins a trace; `-` is standard output. `source` is what is known of the events' source by now.
    pub(crate) fn create(path: &Path, format: TraceFormat, source: &ReadReport) -> Result<Self> {
        let target = if path == Path::new("-") {
            Target::Stdout(BufWriter::new(io::stdout()))
        } else {
            Target::File(ResultFile::create(path)?)
        };
        let writer = match format {
            TraceFormat::Ftrace => Writer::Ftrace(FtraceTextWriter::new(
                target,
                FtraceTextOptions {
                    digits: TimeDigits::Nanos,
                    ..FtraceTextOptions::default()
                },
            )),
            TraceFormat::PerfScript => {
                Writer::PerfScript(PerfScriptWriter::new(target, TimeDigits::Nanos))
            }
            TraceFormat::Perfetto => Writer::Perfetto(Box::new(WithCounters {
                writer: PerfettoWriter::new(target, perfetto_options(source)),
                counters: Counters::default(),
                tracks: BTreeMap::new(),
            })),
            TraceFormat::Ndjson => Writer::Ndjson(NdjsonWriter::new(
                target,
                NdjsonOptions {
                    kernel_release: source.kernel_release.clone(),
                    clock: source.clock.clone(),
                },
            )),
        };
        Ok(Self { writer })
    }

    pub(crate) fn write(&mut self, event: &Event) -> Result<()> {
        match &mut self.writer {
            Writer::Ftrace(w) => w.write(event),
            Writer::PerfScript(w) => w.write(event),
            Writer::Perfetto(w) => w.write(event),
            Writer::Ndjson(w) => w.write(event),
        }
        .context("cannot write the trace")
    }

    /// Ends the trace and puts the file in its place. `source` is what is known of the events' source in the end.
    pub(crate) fn finish(self, source: &ReadReport) -> Result<WriteReport> {
        let (report, target) = match self.writer {
            Writer::Ftrace(w) => end(w, source, FtraceTextWriter::into_inner),
            Writer::PerfScript(w) => end(w, source, PerfScriptWriter::into_inner),
            Writer::Ndjson(w) => end(w, source, NdjsonWriter::into_inner),
            Writer::Perfetto(mut w) => {
                let rest = w.counters.finish();
                w.samples(rest).context("cannot write the trace")?;
                end(w.writer, source, PerfettoWriter::into_inner)
            }
        }?;
        if let Target::File(file) = target {
            file.finish()?;
        }
        Ok(report)
    }
}

fn end<W: TraceWriter>(
    mut writer: W,
    source: &ReadReport,
    into_inner: impl FnOnce(W) -> Target,
) -> Result<(WriteReport, Target)> {
    writer.source(source);
    let report = writer.finish().context("cannot write the trace")?;
    Ok((report, into_inner(writer)))
}

/// Events are written with the bits of `prev_state` from 4.14 on, so an older release would mislead Perfetto.
pub(crate) fn perfetto_options(source: &ReadReport) -> PerfettoOptions {
    let new = source.kernel_release.as_ref().filter(|release| {
        let mut numbers = release
            .split(|c: char| !c.is_ascii_digit())
            .map_while(|n| n.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(4), Some(14))
    });
    match new {
        Some(release) => PerfettoOptions {
            kernel_release: release.clone(),
        },
        None => PerfettoOptions::default(),
    }
}

/// A Perfetto trace with tracks of numbers beside the events.
struct WithCounters {
    writer: PerfettoWriter<Target>,
    counters: Counters,
    tracks: BTreeMap<Track, CounterTrack>,
}

impl WithCounters {
    fn write(&mut self, event: &Event) -> Result<(), WriteError> {
        self.writer.write(event)?;
        let samples: Vec<_> = self.counters.push(event).collect();
        self.samples(samples)
    }

    fn samples(&mut self, samples: Vec<Sample>) -> Result<(), WriteError> {
        for sample in samples {
            let track = match self.tracks.get(&sample.track) {
                Some(track) => *track,
                None => {
                    let unit = match sample.track {
                        Track::QueueLength(_) => CounterUnit::Count,
                        Track::Lag(_) | Track::Deadline(_) => CounterUnit::Nanoseconds,
                    };
                    let (name, task) = (sample.track.name(), sample.track.task());
                    let track = self.writer.counter_track(&name, unit, task)?;
                    self.tracks.insert(sample.track, track);
                    track
                }
            };
            self.writer.counter(track, sample.ts, sample.value)?;
        }
        Ok(())
    }
}
