//! What each fuzz target does with its input. Fuzzers and the test `crates/trace/tests/corpus.rs` share this file.
//!
//! A new reader needs a function here, a line in [`TARGETS`], and the two places that `fuzz/README.md` names.

use std::io::Cursor;

use schedlab_trace::payload::PayloadDecoder;
use schedlab_trace::{FtraceTextReader, NdjsonReader, PerfettoReader, Reader, open_stream};
use schedlab_tracefmt::ring::PageLayout;
use schedlab_tracefmt::{Endian, EventFormat, Printer};

/// What a target does with an input.
pub type Target = fn(&[u8]);

/// Target by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("open", open),
    ("ftrace_text", ftrace_text),
    ("trace_dat", trace_dat),
    ("ring_pages", ring_pages),
    ("event_format", event_format),
    ("perfetto", perfetto),
    ("perf_data", perf_data),
    ("perf_script", perf_script),
    ("ndjson", ndjson),
];

/// Runs one target.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = TARGETS
        .iter()
        .find(|(target, _)| *target == name)
        .expect("a target of this list");
    target(data);
}

/// Reads to the end. Every reader has to account for what it gave out, and to end after an error.
fn drain(reader: &mut dyn Reader) {
    let mut events = 0;
    let mut failed = false;
    for item in &mut *reader {
        assert!(!failed, "events after an error");
        match item {
            Ok(_) => events += 1,
            Err(error) => {
                failed = true;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(reader.next().is_none(), "an event after the end");
    let report = reader.report();
    assert_eq!(report.events, events);
    assert_eq!(report.events_by_type.values().sum::<u64>(), events);
    assert_eq!(
        report.cpus.iter().map(|cpu| cpu.events).sum::<u64>(),
        events
    );
}

/// The way that every file takes: compression, detection, reader.
fn open(data: &[u8]) {
    if let Ok(mut reader) = open_stream(Cursor::new(data.to_vec()), "fuzz") {
        drain(reader.as_mut());
    }
}

fn ftrace_text(data: &[u8]) {
    drain(&mut FtraceTextReader::new(data, "fuzz"));
}

/// `trace.dat`: the magic is put in place, so that the fuzzer need not find it.
fn trace_dat(data: &[u8]) {
    const MAGIC: &[u8] = b"\x17\x08\x44tracing";
    let mut data = data.to_vec();
    if let Some(start) = data.get_mut(..MAGIC.len()) {
        start.copy_from_slice(MAGIC);
    }
    open(&data);
}

/// Pages of the ring buffer with their payloads. The first byte says the shape.
fn ring_pages(data: &[u8]) {
    const PAGE: usize = 256;
    let Some((&shape, pages)) = data.split_first() else {
        return;
    };
    let endian = if shape & 1 == 0 {
        Endian::Little
    } else {
        Endian::Big
    };
    let long_size = if shape & 2 == 0 { 8 } else { 4 };
    let layout = PageLayout::new(long_size, PAGE as u32).expect("a good layout");
    let mut decoder = PayloadDecoder::new(endian, long_size);
    for text in [SWITCH, WAKING, EXEC, OTHER] {
        decoder.add_format(text.as_bytes()).expect("a good format");
    }
    for page in pages.chunks(PAGE) {
        let Ok(page) = layout.page(page, endian) else {
            continue;
        };
        for record in page.records().map_while(Result::ok) {
            let _ = decoder.decode(record.data);
        }
    }
}

/// A format description, a zero byte, and a payload.
fn event_format(data: &[u8]) {
    let mut parts = data.splitn(2, |&b| b == 0);
    let text = parts.next().unwrap_or_default();
    let payload = parts.next().unwrap_or_default();
    for long_size in [4, 8] {
        let Ok(format) = EventFormat::parse_with(text, long_size) else {
            return;
        };
        let printer = Printer::new(&format);
        for endian in [Endian::Little, Endian::Big] {
            let _ = printer.print(payload, endian);
            for field in format.fields() {
                let _ = field.read_int(payload, endian);
                let _ = field.read_str(payload, endian);
                let _ = field.read_array(payload, endian).map(Iterator::count);
            }
        }
    }
}

/// `perf.data`, as a file and as a pipe; the first bytes are put in place.
fn perf_data(data: &[u8]) {
    let mut data = data.to_vec();
    if let Some(start) = data.get_mut(..8) {
        let big = start[0] & 1 == 1;
        start.copy_from_slice(if big { b"2ELIFREP" } else { b"PERFILE2" });
    }
    open(&data);
    if let Some(size) = data.get_mut(8..16) {
        let big = data_is_big(size);
        size.copy_from_slice(&if big {
            16u64.to_be_bytes()
        } else {
            16u64.to_le_bytes()
        });
    }
    open(&data);
}

/// Byte order of the header's size, by where its zeros are.
fn data_is_big(size: &[u8]) -> bool {
    size.first() == Some(&0)
}

fn perf_script(data: &[u8]) {
    drain(&mut FtraceTextReader::perf_script(data, "fuzz"));
}

fn perfetto(data: &[u8]) {
    drain(&mut PerfettoReader::new(data, "fuzz"));
}

fn ndjson(data: &[u8]) {
    drain(&mut NdjsonReader::new(data, "fuzz"));
}

const SWITCH: &str = "name: sched_switch\nID: 10\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
    \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
    \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
    \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n\n\
    print fmt: \"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d \
    next_prio=%d\", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & 0xff) ? \
    __print_flags(REC->prev_state & 0xff, \"|\", { 1, \"S\" }, { 2, \"D\" }) : \"R\", \
    REC->prev_state & 0x100 ? \"+\" : \"\", REC->next_comm, REC->next_pid, REC->next_prio\n";
const WAKING: &str = "name: sched_waking\nID: 20\nformat:\n\
    \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";
const EXEC: &str = "name: sched_process_exec\nID: 30\nformat:\n\
    \tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\
    \tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\
    \tfield:pid_t old_pid;\toffset:16;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";
const OTHER: &str = "name: other\nID: 40\nformat:\n\
    \tfield:__rel_loc u32[] list;\toffset:8;\tsize:4;\tsigned:0;\n\
    \tfield:u8 addr[16];\toffset:12;\tsize:16;\tsigned:0;\n\
    \tfield:int width;\toffset:28;\tsize:4;\tsigned:1;\n\n\
    print fmt: \"%*d %.*s %pI6c %pU %s %s\", REC->width, REC->width, REC->width, REC->addr, REC->addr, \
    REC->addr, __print_array(__get_dynamic_array(list), __get_dynamic_array_len(list) / 4, 4), \
    __print_hex(REC->addr, REC->width)\n";
