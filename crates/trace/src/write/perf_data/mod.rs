//! Writer for `perf.data`: the file that `perf sched record` would have made.

mod schema;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Seek, SeekFrom, Write};

use super::{TraceWriter, WriteError, WriteReport};
use crate::{Comm, Event, EventKind, Pid};

/// `struct perf_file_header`.
const HEADER_BYTES: u64 = 104;
/// `struct perf_event_attr` up to `sig_data` (`PERF_ATTR_SIZE_VER7`).
const ATTR_BYTES: usize = 128;
/// IDENTIFIER, IP, TID, TIME, CPU, PERIOD, RAW, as perf sched record asks for.
const SAMPLE_TYPE: u64 = 1 << 16 | 1 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 10;
/// `disabled`, `inherit`, `comm`, `sample_id_all`.
const ATTR_FLAGS: u64 = 1 | 1 << 1 | 1 << 9 | 1 << 18;
const TYPE_TRACEPOINT: u32 = 2;

// Record types and feature bits of tools/perf.
const COMM: u32 = 3;
const SAMPLE: u32 = 9;
const FINISHED_ROUND: u32 = 68;
const FEATURE_TRACING_DATA: u32 = 1;
const FEATURE_OSRELEASE: u32 = 4;
const FEATURE_NRCPUS: u32 = 7;
const FEATURE_EVENT_DESC: u32 = 12;

/// How to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PerfDataOptions {
    /// Events in a round: so many are collected, then written CPU by CPU, as perf empties its buffers. 0: every event goes
    /// straight to the file, in the order in which it comes.
    pub round: usize,
    /// Release of the kernel that the file names.
    pub kernel: String,
}

impl Default for PerfDataOptions {
    /// Rounds of 4096 events.
    fn default() -> Self {
        Self {
            round: 4096,
            kernel: "6.12.0-schedlab".to_owned(),
        }
    }
}

/// Writes `perf.data` in file mode, little endian, with the descriptions of the nine tracepoints that the lab knows by meaning, so that
/// `perf sched` and this crate's reader take it.
///
/// All other events have no description here and are left out; [`PerfDataWriter::left_out`] counts them.
///
/// Within a round the buffers of CPUs with odd numbers are emptied only to three quarters, as happens when perf is slower than the
/// kernel: what is left comes with the next round, and is older than what the other CPUs wrote before.
///
/// ```
/// use std::io::Cursor;
/// use schedlab_trace::{Comm, CpuFlags, Event, EventKind, PerfDataOptions, PerfDataReader, PerfDataWriter, TraceWriter};
///
/// let event = Event {
///     ts: 5_000, cpu: 1, pid: 7, comm: Comm::new("worker"), flags: CpuFlags::default(),
///     kind: EventKind::SchedStatRuntime { comm: Comm::new("worker"), pid: 7, runtime: 300 },
/// };
/// let mut file = Cursor::new(Vec::new());
/// let mut writer = PerfDataWriter::new(&mut file, PerfDataOptions::default());
/// writer.write(&event).unwrap();
/// writer.finish().unwrap();
/// drop(writer);
/// let mut reader = PerfDataReader::from_file(file, "example").unwrap();
/// assert_eq!(reader.next().unwrap().unwrap(), event);
/// ```
pub struct PerfDataWriter<W: Write> {
    out: Out<W>,
    options: PerfDataOptions,
    /// What each CPU has recorded and is not yet written.
    buffers: BTreeMap<u32, Buffer>,
    waiting: usize,
    names: HashMap<Pid, Comm>,
    last_cpu: u32,
    left_out: u64,
    report: WriteReport,
    started: bool,
    finished: bool,
}

/// Records of one CPU.
#[derive(Default)]
struct Buffer {
    records: Vec<Vec<u8>>,
    /// How many of them, from the front, were left by the last round.
    left: usize,
}

/// The output and how far it has come.
struct Out<W: Write> {
    inner: io::BufWriter<W>,
    at: u64,
}

impl<W: Write> Out<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

impl<W: Write + Seek> PerfDataWriter<W> {
    /// Writes to `out` from its start. Nothing is complete before [`TraceWriter::finish`].
    pub fn new(out: W, options: PerfDataOptions) -> Self {
        Self {
            out: Out {
                inner: io::BufWriter::with_capacity(1 << 20, out),
                at: 0,
            },
            options,
            buffers: BTreeMap::new(),
            waiting: 0,
            names: HashMap::new(),
            last_cpu: 0,
            left_out: 0,
            report: WriteReport::default(),
            started: false,
            finished: false,
        }
    }

    /// Events that were left out because the writer has no description for them.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    fn take(&mut self, event: &Event) -> io::Result<()> {
        self.start()?;
        let Some(index) = event.kind.known_index() else {
            self.left_out += 1;
            return Ok(());
        };
        self.last_cpu = self.last_cpu.max(event.cpu);
        if event.pid != 0 && !event.comm.as_bytes().is_empty() {
            let known = self.names.insert(event.pid, event.comm);
            if known != Some(event.comm) {
                self.put(event.cpu, comm_record(event))?;
            }
        }
        self.put(event.cpu, sample_record(index, event))?;
        self.report.events += 1;
        if self.waiting >= self.options.round && self.options.round > 0 {
            self.round(false)?;
        }
        Ok(())
    }

    fn put(&mut self, cpu: u32, record: Vec<u8>) -> io::Result<()> {
        if self.options.round == 0 {
            return self.out.put(&record);
        }
        self.buffers.entry(cpu).or_default().records.push(record);
        self.waiting += 1;
        Ok(())
    }

    /// Empties the buffers, one after the other.
    fn round(&mut self, last: bool) -> io::Result<()> {
        self.waiting = 0;
        for (cpu, Buffer { records, left }) in &mut self.buffers {
            // Nothing is left twice: a round's records come with the next one at the latest, as perf promises.
            let keep = match cpu % 2 == 1 && !last {
                true => (records.len() / 4).min(records.len() - *left),
                false => 0,
            };
            for record in records.drain(..records.len() - keep) {
                self.out.put(&record)?;
            }
            *left = keep;
            self.waiting += keep;
        }
        let mut end = Vec::new();
        header(&mut end, FINISHED_ROUND, 8);
        self.out.put(&end)
    }

    /// Header (its numbers come at the end) and attributes.
    fn start(&mut self) -> io::Result<()> {
        if self.started {
            return Ok(());
        }
        self.started = true;
        self.out.put(&[0; HEADER_BYTES as usize])?;
        for index in 0..EventKind::KNOWN.len() {
            self.out.put(&event_id(index).to_le_bytes())?;
        }
        for index in 0..EventKind::KNOWN.len() {
            self.out.put(&attr(index))?;
            let place = HEADER_BYTES + 8 * index as u64;
            self.out.put(&place.to_le_bytes())?;
            self.out.put(&8u64.to_le_bytes())?;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.start()?;
        if self.options.round > 0 {
            self.round(true)?;
        }
        let events = EventKind::KNOWN.len() as u64;
        let attrs = (HEADER_BYTES + 8 * events, events * (ATTR_BYTES as u64 + 16));
        let data = attrs.0 + attrs.1;
        let data = (data, self.out.at - data);
        let cpus = self.last_cpu + 1;
        let sections = [
            (FEATURE_TRACING_DATA, tracing_data()),
            (FEATURE_OSRELEASE, string(&self.options.kernel)),
            (
                FEATURE_NRCPUS,
                [cpus.to_le_bytes(), cpus.to_le_bytes()].concat(),
            ),
            (FEATURE_EVENT_DESC, event_desc()),
        ];
        let mut place = self.out.at + 16 * sections.len() as u64;
        for (_, bytes) in &sections {
            self.out.put(&place.to_le_bytes())?;
            self.out.put(&(bytes.len() as u64).to_le_bytes())?;
            place += bytes.len() as u64;
        }
        let mut features = 0u64;
        for (feature, bytes) in &sections {
            self.out.put(bytes)?;
            features |= 1 << feature;
        }
        self.report.bytes = self.out.at;
        let mut head = b"PERFILE2".to_vec();
        let numbers = [
            HEADER_BYTES,
            ATTR_BYTES as u64 + 16,
            attrs.0,
            attrs.1,
            data.0,
            data.1,
            0,
            0,
            features,
            0,
            0,
            0,
        ];
        for number in numbers {
            head.extend_from_slice(&number.to_le_bytes());
        }
        self.out.inner.seek(SeekFrom::Start(0))?;
        self.out.inner.write_all(&head)?;
        self.out.inner.flush()
    }

    fn failed(&self, source: io::Error) -> WriteError {
        WriteError::Io {
            events: self.report.events,
            source,
        }
    }
}

impl<W: Write + Seek> TraceWriter for PerfDataWriter<W> {
    fn write(&mut self, event: &Event) -> Result<(), WriteError> {
        if self.finished {
            return Err(WriteError::Finished {
                events: self.report.events,
            });
        }
        self.take(event).map_err(|source| self.failed(source))
    }

    fn finish(&mut self) -> Result<WriteReport, WriteError> {
        if self.finished {
            return Err(WriteError::Finished {
                events: self.report.events,
            });
        }
        self.finished = true;
        self.end().map_err(|source| self.failed(source))?;
        Ok(self.report)
    }
}

/// Number by which samples name a known event.
fn event_id(index: usize) -> u64 {
    1000 + index as u64
}

/// `struct perf_event_header`.
fn header(out: &mut Vec<u8>, kind: u32, size: usize) {
    // The kernel's misc for "in the kernel".
    let misc: u16 = if kind == SAMPLE { 1 } else { 0 };
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&misc.to_le_bytes());
    out.extend_from_slice(&u16::try_from(size).unwrap_or(u16::MAX).to_le_bytes());
}

fn sample_record(index: usize, event: &Event) -> Vec<u8> {
    let mut payload = Vec::with_capacity(96);
    schema::payload(event, &mut payload);
    // Length and payload together fill 8-byte words.
    let padded = (payload.len() + 4).next_multiple_of(8) - 4;
    payload.resize(padded, 0);
    let size = 8 + 6 * 8 + 4 + payload.len();
    let mut out = Vec::with_capacity(size);
    header(&mut out, SAMPLE, size);
    let period: u64 = match event.kind {
        EventKind::SchedStatRuntime { runtime, .. } => runtime,
        _ => 1,
    };
    for word in [
        event_id(index),
        0,
        pair(event.pid.cast_unsigned(), event.pid.cast_unsigned()),
        event.ts,
        u64::from(event.cpu),
        period,
    ] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    // At most a page.
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&payload);
    out
}

/// The name of the task that was current.
fn comm_record(event: &Event) -> Vec<u8> {
    let pid = event.pid.cast_unsigned();
    let mut name = event.comm.as_bytes().to_vec();
    name.resize((name.len() + 1).next_multiple_of(8), 0);
    let size = 8 + 8 + name.len() + 4 * 8;
    let mut out = Vec::with_capacity(size);
    header(&mut out, COMM, size);
    out.extend_from_slice(&pair(pid, pid).to_le_bytes());
    out.extend_from_slice(&name);
    for word in [pair(pid, pid), event.ts, u64::from(event.cpu), event_id(0)] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// `struct perf_event_attr`.
fn attr(index: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(ATTR_BYTES);
    out.extend_from_slice(&TYPE_TRACEPOINT.to_le_bytes());
    out.extend_from_slice(&(ATTR_BYTES as u32).to_le_bytes());
    for word in [
        u64::from(schema::id(index)),
        // sample_period
        1,
        SAMPLE_TYPE,
        // read_format: ID
        4,
        ATTR_FLAGS,
    ] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.resize(ATTR_BYTES, 0);
    out
}

/// `struct perf_header_string`.
fn string(text: &str) -> Vec<u8> {
    let padded = (text.len() + 1).next_multiple_of(64);
    let mut out = (padded as u32).to_le_bytes().to_vec();
    out.extend_from_slice(text.as_bytes());
    out.resize(4 + padded, 0);
    out
}

fn event_desc() -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&(EventKind::KNOWN.len() as u32).to_le_bytes());
    out.extend_from_slice(&(ATTR_BYTES as u32).to_le_bytes());
    for (index, name) in EventKind::KNOWN.iter().enumerate() {
        out.extend_from_slice(&attr(index));
        out.extend_from_slice(&1u32.to_le_bytes());
        out.extend_from_slice(&string(&format!("sched:{name}")));
        out.extend_from_slice(&event_id(index).to_le_bytes());
    }
    out
}

/// The descriptions of the events as trace-cmd keeps them, version 0.6: nothing but those of `sched`.
fn tracing_data() -> Vec<u8> {
    const HEADER_PAGE: &str = "\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";
    const HEADER_EVENT: &str = "# compressed entry header
\ttype_len    :    5 bits
\ttime_delta  :   27 bits
\tarray       :   32 bits

\tpadding     : type == 29
\ttime_extend : type == 30
\ttime_stamp : type == 31
\tdata max type_len  == 28
";
    let mut out = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0".to_vec();
    for (name, text) in [("header_page", HEADER_PAGE), ("header_event", HEADER_EVENT)] {
        out.extend_from_slice(name.as_bytes());
        out.push(0);
        out.extend_from_slice(&(text.len() as u64).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    }
    // No events of the tracers themselves, and one system.
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(&1u32.to_le_bytes());
    out.extend_from_slice(b"sched\0");
    out.extend_from_slice(&(EventKind::KNOWN.len() as u32).to_le_bytes());
    for index in 0..EventKind::KNOWN.len() {
        let text = schema::format(index);
        out.extend_from_slice(&(text.len() as u64).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    }
    // No symbols, no printk formats, no saved names.
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(&0u64.to_le_bytes());
    out
}
