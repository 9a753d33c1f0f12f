//! Scheduler events named after the kernel's tracepoints, with readers and writers.
//!
//! From the outside in:
//!
//! - [`open`] takes a path, looks at the first bytes (compression, then [`Format`]) and gives a [`Reader`];
//! - a [`Reader`] is an iterator of [`Event`]s that also keeps a [`ReadReport`]: what was read, what was not and
//!   why. Memory is bounded by the longest line, not by the file;
//! - an [`Event`] is the common tongue: the simulator and all readers speak it, so an analysis is written once;
//! - a [`TraceWriter`] turns events into a file again: [`FtraceTextWriter`] into the text that tracefs prints,
//!   [`PerfettoWriter`] into a protobuf trace for the Perfetto UI.
//!
//! Two rules hold everywhere. Nothing in an input makes a reader panic. And nothing is dropped in silence: a line is
//! an event, a comment, a note that the report keeps, or counted under an [`UnparsedReason`].
//!
//! ```
//! use schedlab_trace::{EventKind, FtraceTextReader, Reader};
//!
//! let text = "\
//! ##tracer: nop
//!      wl-149   [000] d..2.   3.676980: sched_wakeup: comm=my task pid=7 prio=120 target_cpu=001
//! CPU 3 is empty
//! ";
//! let mut reader = FtraceTextReader::new(text.as_bytes(), "example");
//! let event = reader.next().unwrap().unwrap();
//! assert_eq!((event.ts, event.cpu, event.pid), (3_676_980_000, 0, 149));
//! assert!(matches!(event.kind, EventKind::SchedWakeup { task, target_cpu: 1 } if task.pid == 7));
//! assert!(reader.next().is_none());
//! assert_eq!(reader.report().empty_cpus, [3]);
//! ```
pub mod event;
pub mod format;
mod ftrace;
mod ndjson;
pub mod payload;
mod percpu;
mod perf_data;
mod perfetto;
mod rawpages;
mod read;
mod ring;
mod tracedat;
mod write;

pub use event::{Comm, CpuFlags, Event, EventKind, Pid, PrevState, TaskRef};
pub use format::{Compression, Format};
pub use ftrace::FtraceTextReader;
pub use ndjson::{NDJSON_SCHEMA, NdjsonOptions, NdjsonReader, NdjsonWriter};
pub use percpu::PerCpu;
pub use perf_data::PerfDataReader;
pub use perfetto::PerfettoReader;
pub use read::{
    Ahead, CpuReport, ReadError, ReadReport, Reader, StateMapping, UnparsedCount, UnparsedReason,
    decoder, open, open_stream,
};
pub use write::{
    CounterTrack, CounterUnit, FtraceTextOptions, FtraceTextWriter, PerfDataOptions,
    PerfDataWriter, PerfScriptWriter, PerfettoOptions, PerfettoWriter, TimeDigits, TraceWriter,
    WriteError, WriteReport,
};
