//! perf.data and the text of perf script: recordings of a real machine (6.18, perf 6.1) with perf's own print of them.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::PathBuf;

use schedlab_trace::{
    Comm, Event, Format, PerfDataOptions, PerfDataWriter, PerfScriptWriter, ReadError, ReadReport,
    Reader, TimeDigits, TraceWriter, open, open_stream,
};

/// Recorded by `perf sched record`, printed by `perf script --ns`.
const SCHED: [&str; 6] = [
    "hogs",
    "hackbench",
    "forks",
    "sleepers",
    "pingpong",
    "yield",
];
/// Through a pipe, compressed, with call chains; printed in microseconds.
const CONTAINERS: [&str; 3] = ["pipe", "zstd", "callchain"];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/perf")
        .join(name)
}

fn unpacked(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    liblzma::read::XzDecoder::new(File::open(path(name)).unwrap())
        .read_to_end(&mut out)
        .unwrap();
    out
}

fn read(mut reader: Box<dyn Reader + Send>) -> (Vec<Event>, ReadReport) {
    let events = reader.by_ref().map(Result::unwrap).collect();
    (events, reader.report())
}

/// The event as far as perf prints it.
fn printed(event: &Event, unit: u64) -> Event {
    Event {
        ts: event.ts / unit * unit,
        flags: Default::default(),
        ..event.clone()
    }
}

#[test]
fn recordings_and_their_print_are_equal_event_for_event() {
    let all = SCHED.iter().zip([1; 6]);
    for (name, unit) in all.chain(CONTAINERS.iter().zip([1000; 3])) {
        let reader = open(path(&format!("{name}.data.xz"))).unwrap();
        assert_eq!(reader.format(), Format::PerfData);
        let (events, report) = read(reader);
        let reader = open(path(&format!("{name}.script.txt.xz"))).unwrap();
        assert_eq!(reader.format(), Format::PerfScript);
        let (texts, text_report) = read(reader);
        assert_eq!(text_report.unparsed, [], "{name}");
        assert_eq!(report.unparsed, [], "{name}");
        for (event, text) in events.iter().zip(&texts) {
            assert_eq!(&printed(event, unit), text, "{name}");
        }
        assert_eq!(events.len(), texts.len(), "{name}");
        assert!(events.is_sorted_by_key(|event| event.ts), "{name}");
    }
}

#[test]
fn our_perf_script_text_comes_back() {
    for name in SCHED.iter().chain(&CONTAINERS) {
        let (events, _) = read(open(path(&format!("{name}.data.xz"))).unwrap());
        let mut text = Vec::new();
        let mut writer = PerfScriptWriter::new(&mut text, TimeDigits::Nanos);
        for event in &events {
            writer.write(event).unwrap();
        }
        writer.finish().unwrap();
        drop(writer);
        let reader = open_stream(Cursor::new(text), "written").unwrap();
        assert_eq!(reader.format(), Format::PerfScript, "{name}");
        let (back, report) = read(reader);
        assert_eq!(report.unparsed, [], "{name}");
        assert_eq!(back.len(), events.len(), "{name}");
        for (back, event) in back.iter().zip(&events) {
            assert_eq!(back, &printed(event, 1), "{name}");
        }
    }
}

/// Writes events as perf.data.
fn written(events: &[Event], round: usize) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let options = PerfDataOptions {
        round,
        ..PerfDataOptions::default()
    };
    let mut writer = PerfDataWriter::new(&mut file, options);
    for event in events {
        writer.write(event).unwrap();
    }
    assert_eq!(writer.left_out(), 0);
    let report = writer.finish().unwrap();
    assert_eq!(report.events, events.len() as u64);
    drop(writer);
    assert_eq!(report.bytes, file.get_ref().len() as u64);
    file.into_inner()
}

#[test]
fn what_is_written_comes_back() {
    for name in ["sleepers", "hackbench", "pingpong"] {
        let (events, _) = read(open(path(&format!("{name}.data.xz"))).unwrap());
        // perf's name for pid 0 comes by itself, others only with an event of their own.
        for round in [0, 1, 7, 100, 1_000_000] {
            let file = written(&events, round);
            let (back, report) = read(open_stream(Cursor::new(file), "written").unwrap());
            assert_eq!(report.unparsed, [], "{name} {round}");
            assert_eq!(report.kernel_release.as_deref(), Some("6.12.0-schedlab"));
            let same = |a: &Event, b: &Event| {
                // Tasks that had no name keep the one that they get first.
                (a.ts, a.cpu, a.pid, a.flags, &a.kind) == (b.ts, b.cpu, b.pid, b.flags, &b.kind)
            };
            assert_eq!(back.len(), events.len(), "{name} {round}");
            for (a, b) in back.iter().zip(&events) {
                assert!(same(a, b), "{name} {round}: {a:?} instead of {b:?}");
            }
        }
    }
}

/// Reads to the end or the first error; panics on nothing.
fn try_read(bytes: &[u8]) -> Result<(Vec<Event>, ReadReport), ReadError> {
    let mut reader = open_stream(Cursor::new(bytes.to_vec()), "it")?;
    let events = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    Ok((events, reader.report()))
}

/// A small file of our own.
fn small() -> (Vec<Event>, Vec<u8>) {
    let (mut events, _) = read(open(path("sleepers.data.xz")).unwrap());
    events.truncate(60);
    let file = written(&events, 16);
    (events, file)
}

#[test]
fn a_file_cut_at_any_byte_says_so() {
    let (_, file) = small();
    assert!(file.len() < 20_000, "{}", file.len());
    for len in 0..file.len() {
        let error = try_read(&file[..len]).unwrap_err().to_string();
        let told = error.contains("end of the file") || error.contains("empty") || len < 16;
        assert!(told, "{len}: {error}");
    }
    // Sections of no interest behind the events may be missing: that is remarked on.
    let recorded = unpacked("hogs.data.xz");
    let (all, _) = try_read(&recorded).unwrap();
    let (events, report) = try_read(&recorded[..recorded.len() - 1]).unwrap();
    assert_eq!(events, all);
    assert!(!report.truncated(), "the last section is of no interest");
}

#[test]
fn a_pipe_cut_at_any_byte_gives_what_came_before() {
    for (name, sparse) in [("pipe", 1000..70_000), ("zstd", 0..0)] {
        let whole = unpacked(&format!("{name}.data.xz"));
        let (all, _) = try_read(&whole).unwrap();
        let mut noted = 0;
        for len in (0..whole.len()).filter(|len| !sparse.contains(len) || len % 97 == 0) {
            if name == "zstd" && len % 31 != 0 {
                continue;
            }
            match try_read(&whole[..len]) {
                Err(error) => assert!(!error.to_string().is_empty()),
                Ok((events, report)) => {
                    // Rounds are given out in order, so what comes out is the beginning in each CPU's order.
                    assert!(events.len() <= all.len(), "{name} {len}");
                    assert!(
                        events.iter().all(|event| all.contains(event)),
                        "{name} {len}"
                    );
                    noted += u64::from(report.truncated());
                }
            }
        }
        assert!(name == "zstd" || noted > 1000, "{name}: {noted}");
    }
}

#[test]
fn damage_makes_no_panic() {
    let (_, file) = small();
    let sources = [file, unpacked("pipe.data.xz"), unpacked("zstd.data.xz")];
    let mut state = 1u64;
    let mut draw = move |limit: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % limit
    };
    for source in sources {
        for _ in 0..300 {
            let mut bytes = source.clone();
            for _ in 0..1 + draw(8) {
                // Headers and lengths stand mostly at the front.
                let limit = [bytes.len(), 4096, 256][draw(3)];
                let at = draw(limit);
                bytes[at] = [0, 0xff, draw(256) as u8][draw(3)];
            }
            let _ = try_read(&bytes);
        }
    }
}

#[test]
fn lengths_that_lie_are_refused_without_taking_memory() {
    let (_, file) = small();
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    // The data's end, where the table of sections stands: tracing data, release, CPUs, list of events.
    let table = word(40) + word(48);
    let list = word(table + 48);
    for (at, size) in [
        (16, 8),
        (24, 8),
        (32, 8),
        (40, 8),
        (48, 8),
        (table, 8),
        (table + 8, 8),
        (table + 48, 8),
        (table + 56, 8),
        (list, 4),
        (list + 4, 4),
        (list + 8 + 128, 4),
        (list + 8 + 132, 4),
    ] {
        for byte in [0xff, 0x7f, 0x0f] {
            let mut lie = file.clone();
            lie[at..at + size].fill(byte);
            let error = try_read(&lie).expect_err("a lie").to_string();
            assert!(error.contains("expected"), "{at}: {error}");
        }
    }
}

/// A file of our own writer as a big-endian machine would have written it: every number turned around, and the flags of the attributes
/// from the highest bit on, as bit fields lie there.
struct Turning {
    file: Vec<u8>,
    at: usize,
}

impl Turning {
    /// Turns the next number of so many bytes; its value.
    fn number(&mut self, size: usize) -> usize {
        let bytes = &mut self.file[self.at..self.at + size];
        let value = bytes.iter().rev().fold(0, |n, &b| n << 8 | usize::from(b));
        bytes.reverse();
        self.at += size;
        value
    }

    fn numbers(&mut self, sizes: &[usize]) {
        for &size in sizes {
            self.number(size);
        }
    }

    fn attr(&mut self) {
        self.numbers(&[4, 4, 8, 8, 8, 8]);
        for byte in &mut self.file[self.at..self.at + 8] {
            *byte = byte.reverse_bits();
        }
        self.at += 128 - 40;
    }

    fn text(&mut self) -> String {
        let size = self.number(8);
        let text = String::from_utf8(self.file[self.at..self.at + size].to_vec()).unwrap();
        self.at += size;
        text
    }
}

/// Offset and size of the numbers of a payload, by the event's number.
type Numbers = std::collections::HashMap<usize, Vec<(usize, usize)>>;

/// The tracing data at a place, turned around; what payloads look like.
fn turn_formats(it: &mut Turning, place: usize) -> Numbers {
    it.at = place + b"\x17\x08\x44tracing0.6\0".len();
    it.file[it.at] = 1;
    it.at += 2;
    it.number(4);
    for name in ["header_page\0", "header_event\0"] {
        it.at += name.len();
        it.text();
    }
    assert_eq!((it.number(4), it.number(4)), (0, 1));
    it.at += "sched\0".len();
    let mut numbers = Numbers::new();
    for _ in 0..it.number(4) {
        let format = it.text();
        let value = |line: &str, key: &str| -> usize {
            let (_, rest) = line.split_once(key).unwrap();
            rest.split(';').next().unwrap().trim().parse().unwrap()
        };
        let id = format.lines().find(|l| l.starts_with("ID:")).unwrap();
        let fields = format.lines().filter(|l| l.contains("field:"));
        let fields = fields.filter(|l| !l.contains("[16]"));
        let places = fields.map(|l| (value(l, "offset:"), value(l, "size:")));
        numbers.insert(value(id, "ID:"), places.collect());
    }
    it.numbers(&[4, 4, 8]);
    numbers
}

fn big_endian(file: Vec<u8>) -> Vec<u8> {
    let mut it = Turning { file, at: 8 };
    it.file[..8].reverse();
    let header: Vec<usize> = (0..12).map(|_| it.number(8)).collect();
    let (data, size) = (header[4], header[5]);
    it.numbers(&[8; 9]);
    while it.at < data {
        it.attr();
        it.numbers(&[8, 8]);
    }
    let table = data + size;
    it.at = table;
    let sections: Vec<usize> = (0..4)
        .map(|_| {
            let place = it.number(8);
            it.number(8);
            place
        })
        .collect();
    let numbers = turn_formats(&mut it, sections[0]);
    it.at = sections[1];
    it.number(4);
    it.at = sections[2];
    it.numbers(&[4, 4]);
    it.at = sections[3];
    let events = it.number(4);
    it.number(4);
    for _ in 0..events {
        it.attr();
        it.number(4);
        let name = it.number(4);
        it.at += name;
        it.number(8);
    }
    it.at = data;
    while it.at < table {
        let start = it.at;
        let kind = it.number(4);
        it.number(2);
        let size = it.number(2);
        match kind {
            // SAMPLE: id, ip, pid and tid, time, cpu and nothing, period, size of the payload.
            9 => {
                it.numbers(&[8, 8, 4, 4, 8, 4, 4, 8, 4]);
                let payload = it.at;
                let id = usize::from(it.file[payload]) | usize::from(it.file[payload + 1]) << 8;
                for &(offset, size) in &numbers[&id] {
                    it.at = payload + offset;
                    it.number(size);
                }
            }
            // COMM: pid, tid, name; pid, tid, time, cpu and nothing, id.
            3 => {
                it.numbers(&[4, 4]);
                it.at = start + size - 32;
                it.numbers(&[4, 4, 8, 4, 4, 8]);
            }
            _ => assert_eq!(size, 8),
        }
        it.at = start + size;
    }
    it.file
}

#[test]
fn a_big_endian_file_tells_the_same() {
    for name in ["sleepers", "forks"] {
        let (mut events, _) = read(open(path(&format!("{name}.data.xz"))).unwrap());
        // Tasks get new names midway: when, the end of a COMM record tells, if the attributes' flags say that it is there.
        let half = events.len() / 2;
        for event in events[half..]
            .iter_mut()
            .filter(|e| !e.comm.is_empty() && e.pid != 0)
        {
            event.comm = Comm::new("later");
        }
        for round in [0, 7, 1000] {
            let file = written(&events, round);
            let (little, _) = read(open_stream(Cursor::new(file.clone()), "little").unwrap());
            let later = little.iter().position(|e| e.comm == Comm::new("later"));
            assert!(later >= Some(half), "{later:?}");
            let reader = open_stream(Cursor::new(big_endian(file)), "big").unwrap();
            let (big, report) = read(reader);
            assert_eq!(report.unparsed, [], "{name} {round}");
            assert_eq!(big.len(), events.len());
            for (big, little) in big.iter().zip(&little) {
                assert_eq!(big, little, "{name} {round}");
            }
            assert_eq!(report.kernel_release.as_deref(), Some("6.12.0-schedlab"));
            assert_eq!(report.cpus_declared, Some(2));
        }
    }
}

#[test]
fn lost_events_are_counted_where_they_were_lost() {
    let pipe = unpacked("pipe.data.xz");
    let (events, report) = try_read(&pipe).unwrap();
    assert_eq!((report.lost_events, report.lost_unknown), (0, 0));
    // What the kernel puts in for events that found no room: type, misc, size; LOST has an id and a count, LOST_SAMPLES a
    // count. Then, as these events were opened: pid, tid, time, cpu and nothing, id.
    let lost = |kind: u32, words: &[u64], cpu: u32| -> Vec<u8> {
        let size = 8 + 8 * words.len() as u16 + 32;
        let mut out = [&kind.to_le_bytes()[..], &[0, 0], &size.to_le_bytes()].concat();
        for word in words {
            out.extend(word.to_le_bytes());
        }
        for word in [0, events[0].ts, u64::from(cpu), 0] {
            out.extend(word.to_le_bytes());
        }
        out
    };
    let more = [
        lost(2, &[77, 12], 0),
        lost(2, &[77, 5], 1),
        lost(13, &[3], 1),
        // A CPU that cannot be: counted all the same.
        lost(2, &[77, 1], 1 << 20),
    ];
    let (same, report) = try_read(&[&pipe[..], &more.concat()].concat()).unwrap();
    assert_eq!(same, events);
    assert_eq!((report.lost_events, report.lost_unknown), (21, 0));
    let by_cpu: Vec<_> = report.cpus.iter().map(|c| (c.cpu, c.lost_events)).collect();
    assert_eq!(by_cpu, [(0, 12), (1, 8)]);
    assert_eq!(report.unparsed, []);
}
