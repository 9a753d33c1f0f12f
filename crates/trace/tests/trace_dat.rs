//! `trace.dat`: real files against the text that the tools made of them, and made ones for what the real ones do not show.

#[path = "common/binary.rs"]
mod binary;
mod common;

use std::io::{Cursor, Write};

use binary::{PAGE, PLAIN, Shape};
use common::{read, text};
use proptest::prelude::*;
use schedlab_trace::{
    CpuFlags, Event, EventKind, Format, PrevState, ReadError, ReadReport, StateMapping,
    UnparsedReason, open, open_stream,
};
use schedlab_tracefmt::Endian;

type Outcome = (Vec<Event>, ReadReport, Option<ReadError>);

/// Reads to the end or to an error.
fn outcome(data: Vec<u8>) -> Result<Outcome, ReadError> {
    let mut reader = open_stream(Cursor::new(data), "it")?;
    let mut events = Vec::new();
    let mut error = None;
    for item in reader.by_ref() {
        match item {
            Ok(event) => events.push(event),
            Err(e) => error = Some(e),
        }
    }
    Ok((events, reader.report(), error))
}

fn good(data: Vec<u8>) -> (Vec<Event>, ReadReport) {
    let (events, report, error) = outcome(data).unwrap();
    assert!(error.is_none(), "{error:?}");
    (events, report)
}

fn fixture(name: &str) -> Vec<u8> {
    common::unxz(&common::fixture(&format!("{name}.dat.xz")))
}

fn without_flags(mut events: Vec<Event>) -> Vec<Event> {
    for event in &mut events {
        event.flags = CpuFlags::default();
    }
    events
}

/// Rounded to microseconds, as tracefs prints.
fn rounded(mut events: Vec<Event>) -> Vec<Event> {
    for event in &mut events {
        event.ts = (event.ts + 500) / 1000 * 1000;
    }
    events
}

#[test]
fn real_files_equal_the_text_of_the_tools() {
    // trace-cmd's text has nanoseconds and no flags, that of tracefs flags and microseconds.
    let (by_trace_cmd, _) = read(text("yield.trace-cmd-ns").as_bytes());
    let (by_tracefs, _) = read(text("yield.ftrace").as_bytes());
    for name in ["yield.v6", "yield.v7", "yield.v7-zstd"] {
        let (events, report) = good(fixture(name));
        assert_eq!(without_flags(events.clone()), by_trace_cmd, "{name}");
        assert_eq!(rounded(events), by_tracefs, "{name}");
        assert_eq!(
            (report.records, report.events, report.with_flags),
            (479, 479, 479)
        );
        assert_eq!(report.kernel_release.as_deref(), Some("6.18.44-fc-v657"));
        assert_eq!(report.clock.as_deref(), Some("local"));
        assert_eq!(report.cpus_declared, Some(2));
        let mapping: Vec<_> = report.prev_state.iter().copied().collect();
        assert_eq!(mapping, [StateMapping::FormatTable]);
        assert!(
            report.unparsed.is_empty() && report.remarks.is_empty(),
            "{report:?}"
        );
    }
}

#[test]
fn files_packed_once_more() {
    let path = common::fixture("yield.v6.dat.xz");
    let mut reader = open(path).unwrap();
    assert_eq!(reader.format(), Format::TraceDat);
    assert_eq!(reader.by_ref().count(), 479);
    // A plain file is read in place.
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&fixture("yield.v7-zstd")).unwrap();
    assert_eq!(open(file.path()).unwrap().count(), 479);
}

#[test]
fn buffers_are_merged_by_time() {
    let (old, _) = good(fixture("two-buffers.v6"));
    let (new, report) = good(fixture("two-buffers.v7-zstd"));
    assert_eq!(old, new);
    assert!(new.is_sorted_by_key(|event| event.ts));
    assert_eq!(report.events_by_type["sched_switch"], 202);
    assert_eq!(report.events_by_type["sched_waking"], 164);
    assert_eq!(
        report.remarks,
        [
            "events of 2 buffers are merged: td_two, td_test; an event that several of them recorded comes several times"
        ]
    );
}

/// Two CPUs with two pages each; the second page of CPU 1 lost 5 events before it.
fn sample(shape: Shape, more: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let at = |ts: u64, payload: Vec<u8>| (ts, payload);
    let cpu0 = vec![
        shape.page(
            &[
                at(100, shape.switch(0x100)),
                at(300, shape.waking(9, "nine")),
            ],
            0,
            None,
        ),
        shape.page(
            &[
                at(500 + (3 << 27), shape.switch(1)),
                at(700 + (7 << 27), shape.switch(2)),
            ],
            0,
            None,
        ),
    ];
    let cpu1 = vec![
        shape.page(&[at(200, shape.waking(8, "eight"))], 0, None),
        shape.page(&[at(300, shape.waking(7, "seven"))], 0xc000_0000, Some(5)),
    ];
    shape.file(&[cpu0, cpu1], more)
}

fn shapes() -> Vec<Shape> {
    let mut out = Vec::new();
    for endian in [Endian::Little, Endian::Big] {
        for long_size in [4, 8] {
            for (version, compression) in [(6, "none"), (7, "none"), (7, "zlib"), (7, "zstd")] {
                out.push(Shape {
                    version,
                    endian,
                    long_size,
                    compression,
                });
            }
        }
    }
    out
}

#[test]
fn all_shapes_give_the_same_events() {
    for shape in shapes() {
        let (events, report) = good(sample(shape, &[]));
        let brief: Vec<_> = events
            .iter()
            .map(|e| (e.ts, e.cpu, e.pid, e.comm.to_string(), e.kind.name()))
            .collect();
        let one = |ts, cpu, name| (ts, cpu, 7, "one".to_owned(), name);
        assert_eq!(
            brief,
            [
                one(100, 0, "sched_switch"),
                one(200, 1, "sched_waking"),
                one(300, 0, "sched_waking"),
                one(300, 1, "sched_waking"),
                one(500 + (3 << 27), 0, "sched_switch"),
                one(700 + (7 << 27), 0, "sched_switch"),
            ],
            "{shape:?}"
        );
        let states: Vec<_> = events
            .iter()
            .filter_map(|e| match e.kind {
                EventKind::SchedSwitch { prev_state, .. } => Some(prev_state),
                _ => None,
            })
            .collect();
        assert_eq!(states, [PrevState::PREEMPTED, PrevState(1), PrevState(2)]);
        assert_eq!((report.lost_events, report.cpus[1].lost_events), (5, 5));
        assert_eq!(report.kernel_release.as_deref(), Some("6.18.1"));
        assert_eq!(report.clock.as_deref(), Some("local"));
        assert_eq!(
            report.remarks,
            ["CPU 1: 4 events were overwritten, by the kernel's counter"]
        );
    }
}

#[test]
fn times_are_turned_as_the_file_asks() {
    let shape = PLAIN;
    let tsc = [shape.put(3, 4), shape.put(1, 4), shape.put(1000, 8)].concat();
    let (events, report) = good(sample(shape, &[(14, tsc), (7, b"-10\0".to_vec())]));
    assert_eq!(events[0].ts, 100 * 3 / 2 + 1000 - 10);
    assert_eq!(report.remarks.len(), 3);
}

#[test]
fn text_in_place_of_pages() {
    let text = "# tracer: wakeup\n          <idle>-0     [000] d..2.     1.000001: sched_waking: comm=a pid=1 prio=120 target_cpu=000\n";
    for shape in shapes() {
        let (events, report) = good(shape.text_file(text));
        assert_eq!(events.len(), 1, "{shape:?}");
        assert_eq!(report.kernel_release.as_deref(), Some("6.18.1"));
    }
}

#[test]
fn losses_of_unknown_size_and_empty_cpus() {
    let shape = PLAIN;
    let page = shape.page(&[(5, shape.waking(1, "a"))], 1 << 31, None);
    let (_, report) = good(shape.file(&[vec![], vec![page]], &[]));
    assert_eq!((report.lost_events, report.lost_unknown), (0, 1));
    assert_eq!(report.empty_cpus, [0]);
}

#[test]
fn cut_at_every_byte() {
    for shape in shapes() {
        let data = sample(shape, &[]);
        let (all, _) = good(data.clone());
        let mut partial = 0;
        for len in 0..data.len() {
            match outcome(data[..len].to_vec()) {
                // Nothing could be read, and the error says why.
                Err(error) => assert!(!error.to_string().is_empty()),
                Ok((events, report, error)) => {
                    partial += usize::from(!events.is_empty());
                    assert!(
                        error.is_some() || report.truncated() || events == all,
                        "{shape:?}, {len} bytes: {report:?}"
                    );
                    for event in &events {
                        assert!(all.contains(event), "{shape:?}, {len} bytes: {event:?}");
                    }
                }
            }
        }
        // Version 7 has its options at the end: without them nothing can be read.
        assert!(
            shape.version == 7 || partial > 2 * PAGE,
            "{shape:?}: {partial}"
        );
    }
}

#[test]
fn a_cut_real_file_keeps_its_whole_pages() {
    let data = fixture("yield.v6");
    let (all, _) = good(data.clone());
    let (events, report, error) = outcome(data[..data.len() - 6000].to_vec()).unwrap();
    assert!(error.is_none() && report.truncated());
    assert!(
        events.len() > 200 && events.len() < all.len(),
        "{}",
        events.len()
    );
    assert!(
        report.to_string().contains("the file ends within a record"),
        "{report}"
    );
}

#[test]
fn a_cut_packed_file_gives_its_events_and_then_an_error() {
    let mut data = zstd::stream::encode_all(&fixture("yield.v6")[..], 1).unwrap();
    data.truncate(data.len() - 300);
    match outcome(data) {
        Ok((_, _, Some(ReadError::Io { .. }))) | Err(ReadError::Io { .. }) => {}
        other => panic!("{other:?}"),
    }
}

fn refuse(data: Vec<u8>) -> String {
    match outcome(data) {
        Err(error) | Ok((_, _, Some(error))) => error.to_string(),
        Ok((events, ..)) => panic!("{} events", events.len()),
    }
}

#[test]
fn refusals_name_the_place() {
    let data = sample(PLAIN, &[]);
    let patched = |at: usize, bytes: &[u8]| {
        let mut data = data.clone();
        data[at..at + bytes.len()].copy_from_slice(bytes);
        data
    };
    insta::assert_snapshot!(refuse(data[..20].to_vec()), @"it: reading stopped at offset 18 (0 events before it): expected 12 bytes of \"header_page\", found the end of the file");
    insta::assert_snapshot!(refuse(patched(10, b"5")), @r#"it: reading stopped at offset 10 (0 events before it): expected version 6 or 7, found "5""#);
    insta::assert_snapshot!(refuse(patched(12, &[2])), @"it: reading stopped at offset 12 (0 events before it): expected byte order 0 or 1, found 2");
    insta::assert_snapshot!(refuse(patched(18, b"x")), @r#"it: reading stopped at offset 18 (0 events before it): expected "header_page", found "xeader_page\x00""#);
    insta::assert_snapshot!(refuse(patched(30, &[0xff; 8])), @"it: reading stopped at offset 38 (0 events before it): expected a header_page of at most 65536 bytes, found a size of 18446744073709551615");
    insta::assert_snapshot!(refuse(patched(50, b"z")), @r#"it: reading stopped at offset 30 (0 events before it): expected a description of ring-buffer pages, found header_page: no field "timestamp""#);
    let empty = PLAIN.file(&[vec![], vec![]], &[]);
    insta::assert_snapshot!(refuse(empty), @"it: no event; the buffers of all CPUs are empty: was anything traced?");
    let v7 = Shape {
        version: 7,
        ..PLAIN
    };
    let mut unknown = sample(v7, &[]);
    let at = unknown.windows(4).position(|w| w == b"none").unwrap();
    unknown[at..at + 4].copy_from_slice(b"lzma");
    insta::assert_snapshot!(refuse(unknown), @r#"it: reading stopped at offset 18 (0 events before it): expected compression none, zlib or zstd, found "lzma""#);
}

#[test]
fn damaged_pages_are_counted_and_the_rest_is_read() {
    let shape = PLAIN;
    let mut page = shape.page(&[(5, shape.waking(1, "a"))], 0, None);
    page[8] = 0xff;
    page[9] = 0xff;
    let whole = shape.page(
        &[
            (9, shape.waking(1, "a")),
            (10, vec![99, 0, 0, 0, 0, 0, 0, 0]),
        ],
        0,
        None,
    );
    let (events, report) = good(shape.file(&[vec![page, whole]], &[]));
    assert_eq!(events.len(), 1);
    let reasons: Vec<_> = report.unparsed.iter().map(|u| u.reason).collect();
    assert_eq!(
        reasons,
        [
            UnparsedReason::NoFormat,
            UnparsedReason::Damaged("a page with more bytes in use than it has")
        ]
    );
    assert_eq!((report.records, report.events), (3, 1));
}

#[test]
fn a_small_file_cannot_ask_for_much_memory() {
    let v7 = Shape {
        version: 7,
        compression: "zstd",
        ..PLAIN
    };
    // A section that says it unpacks to 4 GB.
    let mut data = sample(v7, &[]);
    let options = u64::from_le_bytes(data[25..33].try_into().unwrap()) as usize;
    data[options + 20..options + 24].copy_from_slice(&[0xff; 4]);
    let error = refuse(data);
    assert!(
        error.contains("4294967295 bytes said to be packed in"),
        "{error}"
    );
    // CPUs that share one piece of data.
    let v6 = sample(PLAIN, &[]);
    let at = v6.windows(10).position(|w| w == b"flyrecord\0").unwrap() + 10;
    let mut data = v6.clone();
    data[at + 8..at + 16].copy_from_slice(&1_000_000u64.to_le_bytes());
    let shared: [u8; 16] = data[at..at + 16].try_into().unwrap();
    data[at + 16..at + 32].copy_from_slice(&shared);
    // Both are cut by the end of the file, and count only as far.
    assert!(outcome(data).is_ok());
    let mut data = v6;
    data[at..at + 8].fill(0);
    data[at + 16..at + 24].fill(0);
    for place in [at + 8, at + 24] {
        data[place..place + 8].copy_from_slice(&[0xff; 8]);
    }
    let error = refuse(data);
    assert!(
        error.contains("expected data of its own for each CPU"),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any damage: no panic, and what comes out is accounted for.
    #[test]
    fn damage_does_no_harm(
        shape in 0..16usize,
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let mut data = sample(shapes()[shape], &[]);
        for (at, byte) in hits {
            let at = at.index(data.len());
            data[at] = byte;
        }
        if let Ok((events, report, _)) = outcome(data) {
            prop_assert_eq!(events.len() as u64, report.events);
            prop_assert_eq!(report.records, report.events + report.unparsed_lines());
        }
    }

    /// The same for a real file, with all its events and formats.
    #[test]
    fn damage_to_a_real_file(at in 0..40000usize, bytes in prop::collection::vec(any::<u8>(), 1..40)) {
        let mut data = fixture("yield.v6");
        data[at..at + bytes.len()].copy_from_slice(&bytes);
        if let Ok((events, report, _)) = outcome(data) {
            prop_assert_eq!(events.len() as u64, report.events);
        }
    }
}
