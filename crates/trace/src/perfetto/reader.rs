//! The reader: packets, unpacked, their bundles merged by time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{BufRead, BufReader, Cursor, Read};

use super::bundle::{Bundle, Item};
use super::event::Decoder;
use super::packets::{Next, Packets};
use super::schema as field;
use super::wire::{Fields, Malformed, Value};
use crate::read::Tally;
use crate::{
    Comm, CpuFlags, Event, EventKind, Format, Pid, ReadError, ReadReport, Reader, StateMapping,
    TaskRef, UnparsedReason,
};

/// Bytes of packets that are held to put their events into order.
const LOOK_AHEAD: usize = 32 * 1024 * 1024;
/// How many kinds of packets are told apart.
const KINDS_MAX: usize = 1024;

type Unpacked = Packets<BufReader<Box<dyn Read + Send>>>;

/// Reader for the ftrace events of a Perfetto trace.
///
/// A trace has one bundle of events per CPU and flush, so events are merged by time over all bundles within 32 MiB of
/// packets. Compressed packets are unpacked as a stream, no packet longer than 16 MiB is taken.
pub struct PerfettoReader<R> {
    packets: Packets<R>,
    /// Packets out of a compressed one, and where that began.
    unpacked: Option<(Unpacked, u64)>,
    name: String,
    /// Time of the next event of each bundle; on a tie the earlier bundle is first.
    order: BinaryHeap<Reverse<(u64, u64)>>,
    bundles: BTreeMap<u64, Held>,
    held: usize,
    sequence: u64,
    input_done: bool,
    decoder: Decoder,
    tally: Tally,
    cpus: BTreeMap<u32, Cpu>,
    /// Packets without events, by field number.
    others: BTreeMap<u32, u64>,
    /// An error to be given out behind the events that are held.
    failed: Option<ReadError>,
    done: bool,
}

struct Held {
    bundle: Bundle,
    size: usize,
    offset: u64,
}

/// What is known of a CPU.
#[derive(Default)]
struct Cpu {
    /// Who runs, as the last switch said.
    current: Option<TaskRef>,
    /// `overrun` and `dropped_events` at the start of the recording.
    lost_before: u64,
}

impl<R: BufRead> PerfettoReader<R> {
    /// Reads from `input`; `name` stands for the file in messages.
    pub fn new(input: R, name: &str) -> Self {
        Self {
            packets: Packets::new(input),
            unpacked: None,
            name: name.to_owned(),
            order: BinaryHeap::new(),
            bundles: BTreeMap::new(),
            held: 0,
            sequence: 0,
            input_done: false,
            decoder: Decoder::default(),
            tally: Tally::default(),
            cpus: BTreeMap::new(),
            others: BTreeMap::new(),
            failed: None,
            done: false,
        }
    }

    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            while !self.input_done && self.held < LOOK_AHEAD {
                self.read_packet();
            }
            let Some(Reverse((_, sequence))) = self.order.pop() else {
                if self.input_done {
                    return self.at_end();
                }
                continue;
            };
            if let Some(event) = self.take(sequence) {
                self.tally.event(&event);
                return Ok(Some(event));
            }
        }
    }

    /// Takes the next event of a bundle.
    fn take(&mut self, sequence: u64) -> Option<Event> {
        let held = self.bundles.get_mut(&sequence)?;
        let (cpu, offset) = (held.bundle.head.cpu, held.offset);
        let item = held.bundle.next(&mut self.decoder);
        for reason in held.bundle.bad.drain(..) {
            self.tally.unparsed_record(reason, offset, b"");
        }
        match held.bundle.next_ts() {
            Some(ts) => self.order.push(Reverse((ts, sequence))),
            None => {
                self.held = self.held.saturating_sub(held.size);
                self.bundles.remove(&sequence);
            }
        }
        let (ts, item) = item?;
        self.complete(ts, cpu, item, offset)
    }

    /// Adds what a compact event leaves out; `None` if that cannot be known.
    fn complete(&mut self, ts: u64, cpu: u32, item: Item, offset: u64) -> Option<Event> {
        let known = self.cpus.entry(cpu).or_default();
        let running = known.current;
        let event = |pid: Pid, comm: Comm, flags: CpuFlags, kind: EventKind| Event {
            ts,
            cpu,
            pid,
            comm,
            flags,
            kind,
        };
        let task = |(comm, pid, prio): (Comm, Pid, i32)| TaskRef { comm, pid, prio };
        match item {
            Item::Whole(mut whole) => {
                if let Some(task) = running.filter(|task| task.pid == whole.pid) {
                    whole.comm = task.comm;
                }
                if let EventKind::SchedSwitch { prev, next, .. } = whole.kind {
                    whole.comm = prev.comm;
                    known.current = Some(next);
                }
                Some(whole)
            }
            Item::Switch { prev_state, next } => {
                let next = task(next);
                known.current = Some(next);
                self.decoder.states_seen = true;
                let Some(prev) = running else {
                    self.tally
                        .unparsed_record(UnparsedReason::NoPrevious, offset, b"");
                    return None;
                };
                let kind = EventKind::SchedSwitch {
                    prev,
                    prev_state,
                    next,
                };
                Some(event(prev.pid, prev.comm, CpuFlags::default(), kind))
            }
            Item::Waking {
                task: wakee,
                target_cpu,
                flags,
            } => {
                self.tally.plain.with_flags += u64::from(flags.is_some());
                let (pid, comm) = match running {
                    Some(waker) => (waker.pid, waker.comm),
                    None => {
                        self.tally.remark(NO_WAKER);
                        (0, Comm::default())
                    }
                };
                let kind = EventKind::SchedWaking {
                    task: task(wakee),
                    target_cpu,
                };
                Some(event(pid, comm, flags.unwrap_or_default(), kind))
            }
        }
    }

    /// Reads one packet, out of a compressed one if there is one.
    fn read_packet(&mut self) {
        let nested = self.unpacked.is_some();
        let (next, offset) = match &mut self.unpacked {
            Some((packets, offset)) => (packets.next(), *offset),
            None => {
                let offset = self.packets.offset();
                (self.packets.next(), offset)
            }
        };
        match next {
            Ok(Next::Packet(packet)) => {
                self.tally.plain.records += 1;
                if let Err(reason) = self.packet(&packet, offset, nested) {
                    self.tally.unparsed_record(reason, offset, &packet);
                }
            }
            Ok(Next::TooLong) => {
                self.tally.plain.records += 1;
                self.tally
                    .unparsed_record(UnparsedReason::TooLong, offset, b"");
            }
            Ok(Next::Cut(start)) => {
                self.tally.plain.records += 1;
                let reason = UnparsedReason::TruncatedRecord;
                self.tally.unparsed_record(reason, offset, &start);
                self.end_of_stream(nested);
            }
            Ok(Next::Lost(what)) => {
                self.tally.plain.records += 1;
                let reason = UnparsedReason::Damaged(what);
                self.tally.unparsed_record(reason, offset, b"");
                if !nested {
                    self.failed = Some(ReadError::Damaged {
                        file: self.name.clone(),
                        offset,
                        events: 0,
                        detail: format!("{what}; expected a TracePacket"),
                    });
                }
                self.end_of_stream(nested);
            }
            Ok(Next::End) => self.end_of_stream(nested),
            Err(_) if nested => {
                let reason = UnparsedReason::Damaged("compressed packet cannot be unpacked");
                self.tally.unparsed_record(reason, offset, b"");
                self.end_of_stream(nested);
            }
            Err(source) => {
                self.failed = Some(ReadError::Io {
                    file: self.name.clone(),
                    line: 0,
                    events: 0,
                    source,
                });
                self.end_of_stream(nested);
            }
        }
    }

    fn end_of_stream(&mut self, nested: bool) {
        if nested {
            self.unpacked = None;
        } else {
            self.input_done = true;
        }
    }

    fn packet(&mut self, packet: &[u8], offset: u64, nested: bool) -> Result<(), UnparsedReason> {
        for item in Fields::new(packet) {
            let (number, value) = item.map_err(|Malformed(what)| UnparsedReason::Damaged(what))?;
            match (number, value) {
                (field::PACKET_FTRACE_EVENTS, Value::Bytes(bytes)) => self.bundle(bytes, offset)?,
                (field::PACKET_COMPRESSED, Value::Bytes(bytes)) => {
                    if nested {
                        return Err(UnparsedReason::Damaged("compressed packet within another"));
                    }
                    self.unpacked = Some((Packets::new(unpack(bytes.to_vec())), offset));
                }
                (field::PACKET_SYSTEM_INFO, Value::Bytes(bytes)) => self.system_info(bytes),
                (field::PACKET_CLOCK_SNAPSHOT, Value::Bytes(bytes)) => self.clocks(bytes),
                (field::PACKET_FTRACE_STATS, Value::Bytes(bytes)) => self.stats(bytes),
                (field::PACKET_PREVIOUS_DROPPED, Value::Varint(1)) => {
                    self.tally.remark(PACKETS_DROPPED);
                }
                _ => {}
            }
            // Numbers are properties of a packet, its content is a message.
            let content = matches!(value, Value::Bytes(_))
                && !matches!(
                    number,
                    field::PACKET_FTRACE_EVENTS | field::PACKET_COMPRESSED
                );
            if content && (self.others.len() < KINDS_MAX || self.others.contains_key(&number)) {
                *self.others.entry(number).or_default() += 1;
            }
        }
        Ok(())
    }

    fn bundle(&mut self, bytes: &[u8], offset: u64) -> Result<(), UnparsedReason> {
        let mut bundle = Bundle::new(bytes.to_vec(), &mut self.decoder)?;
        for reason in bundle.bad.drain(..) {
            self.tally.unparsed_record(reason, offset, b"");
        }
        let head = &bundle.head;
        if head.lost_events {
            self.tally.lost(head.cpu, None);
            self.cpus.entry(head.cpu).or_default().current = None;
        }
        for _ in 0..head.errors {
            let reason = UnparsedReason::Damaged("ring buffer that the recorder could not read");
            self.tally.unparsed_record(reason, offset, b"");
        }
        self.note_clock(bundle.head.clock);
        if let Some(ts) = bundle.next_ts() {
            let size = bundle.size();
            self.held += size;
            self.order.push(Reverse((ts, self.sequence)));
            self.bundles.insert(
                self.sequence,
                Held {
                    bundle,
                    size,
                    offset,
                },
            );
            self.sequence += 1;
        }
        Ok(())
    }

    fn note_clock(&mut self, clock: u64) {
        // enum FtraceClock.
        let name = match clock {
            0 => "boot",
            2 => "global",
            3 => "local",
            4 => "mono_raw",
            _ => "unknown",
        };
        match &self.tally.plain.clock {
            None => self.tally.plain.clock = Some(name.to_owned()),
            Some(before) if before != name => self.tally.remark(SEVERAL_CLOCKS),
            Some(_) => {}
        }
    }

    fn system_info(&mut self, bytes: &[u8]) {
        let utsname = find(bytes, field::SYSTEM_INFO_UTSNAME).map(Value::bytes);
        let release = utsname.and_then(|utsname| find(utsname, field::UTSNAME_RELEASE));
        if let Some(release) = release {
            let release = crate::format::excerpt(release.bytes(), 64);
            self.decoder.old_states = before_4_14(&release);
            self.tally.plain.kernel_release = Some(release);
        }
    }

    /// Notes the first clock snapshot, by which times can be related to those of logs.
    fn clocks(&mut self, bytes: &[u8]) {
        if self.others.contains_key(&field::PACKET_CLOCK_SNAPSHOT) {
            return;
        }
        let mut text = Vec::new();
        for (number, value) in Fields::new(bytes).filter_map(Result::ok) {
            if number != field::SNAPSHOT_CLOCKS || text.len() >= 16 {
                continue;
            }
            let part = |number| find(value.bytes(), number).and_then(Value::number);
            let name = match part(field::CLOCK_ID) {
                Some(1) => "realtime",
                Some(3) => "monotonic",
                Some(5) => "monotonic_raw",
                Some(6) => "boot",
                _ => continue,
            };
            text.push(format!(
                "{name} {} ns",
                part(field::CLOCK_TIMESTAMP).unwrap_or_default()
            ));
        }
        if !text.is_empty() {
            self.tally
                .remark(format!("clocks at the same instant: {}", text.join(", ")));
        }
    }

    /// Losses by the ring buffer's own counters, as the difference between end and start of the recording.
    fn stats(&mut self, bytes: &[u8]) {
        let phase = find(bytes, field::STATS_PHASE).and_then(Value::number);
        for (number, value) in Fields::new(bytes).filter_map(Result::ok) {
            if number != field::STATS_CPU {
                continue;
            }
            let part = |number| {
                let value = find(value.bytes(), number).and_then(Value::number);
                value.unwrap_or_default()
            };
            let Some(cpu) = u32::try_from(part(field::CPU_STATS_CPU))
                .ok()
                .filter(|&cpu| cpu < 65536)
            else {
                continue;
            };
            let lost =
                part(field::CPU_STATS_OVERRUN).saturating_add(part(field::CPU_STATS_DROPPED));
            let known = self.cpus.entry(cpu).or_default();
            match phase {
                Some(1) => known.lost_before = lost,
                Some(2) if lost > known.lost_before => {
                    let count = lost - known.lost_before;
                    self.tally.lost(cpu, Some(count));
                }
                _ => {}
            }
        }
    }

    fn at_end(&mut self) -> Result<Option<Event>, ReadError> {
        let events = self.tally.plain.events;
        match self.failed.take() {
            Some(ReadError::Damaged {
                file,
                offset,
                detail,
                ..
            }) => {
                return Err(ReadError::Damaged {
                    file,
                    offset,
                    events,
                    detail,
                });
            }
            Some(ReadError::Io { file, source, .. }) => {
                return Err(ReadError::Io {
                    file,
                    line: 0,
                    events,
                    source,
                });
            }
            _ if events > 0 => return Ok(None),
            _ => {}
        }
        let report = self.report();
        if report.records == 0 {
            return Err(ReadError::Empty {
                file: self.name.clone(),
            });
        }
        let mut detail = vec!["were ftrace events recorded?".to_owned()];
        if let Some(first) = report.unparsed.first() {
            let (count, place) = (report.unparsed_lines(), first.place());
            detail.push(format!(
                "{count} not read, the first at {place} ({})",
                first.reason
            ));
        }
        detail.extend(report.remarks);
        Err(ReadError::NoEventRecords {
            file: self.name.clone(),
            records: report.records,
            detail: detail.join("; "),
        })
    }
}

const NO_WAKER: &str =
    "compact wakings before the first switch of a CPU do not say who woke; pid 0 stands for it";
const PACKETS_DROPPED: &str = "the tracing service dropped packets";
const SEVERAL_CLOCKS: &str = "bundles use different clocks; times are as recorded";

/// First field of a number; `None` also behind damage.
fn find(message: &[u8], number: u32) -> Option<Value<'_>> {
    Fields::new(message)
        .filter_map(Result::ok)
        .find_map(|(at, value)| (at == number).then_some(value))
}

/// Undoes the deflate of a compressed packet as it is read; zlib, or gzip by its magic.
fn unpack(bytes: Vec<u8>) -> BufReader<Box<dyn Read + Send>> {
    let gzip = bytes.starts_with(b"\x1f\x8b");
    let bytes = Cursor::new(bytes);
    let plain: Box<dyn Read + Send> = if gzip {
        Box::new(flate2::read::GzDecoder::new(bytes))
    } else {
        Box::new(flate2::read::ZlibDecoder::new(bytes))
    };
    BufReader::new(plain)
}

/// Whether a release such as `4.9.112-perf` is older than 4.14, when the bits of task states moved.
fn before_4_14(release: &str) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) < (4, 14),
        _ => false,
    }
}

impl<R: BufRead> Iterator for PerfettoReader<R> {
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

impl<R: BufRead> Reader for PerfettoReader<R> {
    fn format(&self) -> Format {
        Format::Perfetto
    }

    fn report(&self) -> ReadReport {
        let mut report = self.tally.report();
        report.names_cut = self.decoder.names_cut;
        report.with_flags += self.decoder.with_flags;
        if self.decoder.states_seen {
            report.prev_state.insert(if self.decoder.old_states {
                StateMapping::OldBits
            } else {
                StateMapping::Bits
            });
        }
        if !self.others.is_empty() {
            let list: Vec<String> = self
                .others
                .iter()
                .map(|(&number, count)| format!("{count} x {}", kind_of_packet(number)))
                .collect();
            report.remarks.push(format!(
                "packets without ftrace events: {}",
                list.join(", ")
            ));
        }
        report
    }
}

fn kind_of_packet(number: u32) -> String {
    match number {
        field::PACKET_PROCESS_TREE => "process_tree".to_owned(),
        field::PACKET_CLOCK_SNAPSHOT => "clock_snapshot".to_owned(),
        field::PACKET_TRACK_EVENT => "track_event".to_owned(),
        field::PACKET_FTRACE_STATS => "ftrace_stats".to_owned(),
        field::PACKET_SYSTEM_INFO => "system_info".to_owned(),
        field::PACKET_TRACK_DESCRIPTOR => "track_descriptor".to_owned(),
        other => format!("field {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        for (release, old) in [
            ("4.9.112-perf+", true),
            ("3.18.0", true),
            ("4.14.0", false),
            ("6.12.0", false),
            ("10.1", false),
            ("", false),
            ("x", false),
        ] {
            assert_eq!(before_4_14(release), old, "{release}");
        }
    }
}
