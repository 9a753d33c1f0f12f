//! Reading Perfetto traces: what our own writer wrote comes back, and hand-made traces with everything that a real
//! recorder writes (messages derived from the published schema, release 51, not from our reader).

mod common;

use std::io::Write;

use common::{TRACEFS, read, text};
use proptest::prelude::*;
use prost::Message;
use schedlab_trace::{
    Comm, CounterUnit, CpuFlags, Event, EventKind, PerfettoOptions, PerfettoReader, PerfettoWriter,
    PrevState, ReadError, ReadReport, Reader, StateMapping, TaskRef, TraceWriter, UnparsedReason,
};

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(message, optional, tag = "1")]
    ftrace_events: Option<Bundle>,
    #[prost(message, optional, tag = "6")]
    clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(message, optional, tag = "34")]
    ftrace_stats: Option<FtraceStats>,
    #[prost(message, optional, tag = "45")]
    system_info: Option<SystemInfo>,
    #[prost(bytes = "vec", optional, tag = "50")]
    compressed_packets: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct SystemInfo {
    #[prost(message, optional, tag = "1")]
    utsname: Option<Utsname>,
}

#[derive(Clone, PartialEq, Message)]
struct Utsname {
    #[prost(string, optional, tag = "3")]
    release: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    clocks: Vec<Clock>,
}

#[derive(Clone, PartialEq, Message)]
struct Clock {
    #[prost(uint32, optional, tag = "1")]
    clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct FtraceStats {
    #[prost(int32, optional, tag = "1")]
    phase: Option<i32>,
    #[prost(message, repeated, tag = "2")]
    cpu_stats: Vec<CpuStats>,
}

#[derive(Clone, PartialEq, Message)]
struct CpuStats {
    #[prost(uint64, optional, tag = "1")]
    cpu: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    overrun: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Bundle {
    #[prost(uint32, optional, tag = "1")]
    cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    event: Vec<FtraceEvent>,
    #[prost(bool, optional, tag = "3")]
    lost_events: Option<bool>,
    #[prost(message, optional, tag = "4")]
    compact_sched: Option<Compact>,
    #[prost(int32, optional, tag = "5")]
    ftrace_clock: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Compact {
    #[prost(uint64, repeated, tag = "1")]
    switch_timestamp: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    switch_prev_state: Vec<i64>,
    #[prost(int32, repeated, tag = "3")]
    switch_next_pid: Vec<i32>,
    #[prost(int32, repeated, tag = "4")]
    switch_next_prio: Vec<i32>,
    #[prost(string, repeated, tag = "5")]
    intern_table: Vec<String>,
    #[prost(uint32, repeated, tag = "6")]
    switch_next_comm_index: Vec<u32>,
    #[prost(uint64, repeated, tag = "7")]
    waking_timestamp: Vec<u64>,
    #[prost(int32, repeated, tag = "8")]
    waking_pid: Vec<i32>,
    #[prost(int32, repeated, tag = "9")]
    waking_target_cpu: Vec<i32>,
    #[prost(int32, repeated, tag = "10")]
    waking_prio: Vec<i32>,
    #[prost(uint32, repeated, tag = "11")]
    waking_comm_index: Vec<u32>,
    #[prost(uint32, repeated, tag = "12")]
    waking_common_flags: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pid: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    common_flags: Option<u32>,
    #[prost(message, optional, tag = "4")]
    sched_switch: Option<Switch>,
    #[prost(message, optional, tag = "13")]
    cpu_idle: Option<CpuIdle>,
    #[prost(message, optional, tag = "327")]
    generic: Option<Generic>,
}

#[derive(Clone, PartialEq, Message)]
struct Switch {
    #[prost(string, optional, tag = "1")]
    prev_comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    prev_pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    prev_prio: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    prev_state: Option<i64>,
    #[prost(string, optional, tag = "5")]
    next_comm: Option<String>,
    #[prost(int32, optional, tag = "6")]
    next_pid: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    next_prio: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct CpuIdle {
    #[prost(uint32, optional, tag = "1")]
    state: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    cpu_id: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct Generic {
    #[prost(string, optional, tag = "1")]
    event_name: Option<String>,
    #[prost(message, repeated, tag = "2")]
    field: Vec<GenericField>,
}

#[derive(Clone, PartialEq, Message)]
struct GenericField {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "3")]
    str_value: Option<String>,
    #[prost(int64, optional, tag = "4")]
    int_value: Option<i64>,
    #[prost(uint64, optional, tag = "5")]
    uint_value: Option<u64>,
}

fn read_perfetto(bytes: &[u8]) -> (Vec<Event>, ReadReport, Option<ReadError>) {
    let mut reader = PerfettoReader::new(bytes, "trace");
    let mut events = Vec::new();
    let mut error = None;
    for item in reader.by_ref() {
        match item {
            Ok(event) => events.push(event),
            Err(e) => error = Some(e),
        }
    }
    assert!(reader.next().is_none(), "ended");
    assert_eq!(reader.report().events, events.len() as u64);
    (events, reader.report(), error)
}

fn write_perfetto(events: &[Event]) -> Vec<u8> {
    let mut writer = PerfettoWriter::new(Vec::new(), PerfettoOptions::default());
    for event in events {
        writer.write(event).unwrap();
    }
    writer.finish().unwrap();
    writer.into_inner()
}

/// What the format cannot hold: depth of disabled preemption, and the name in front other than by the last switch.
fn without_front(events: &[Event]) -> Vec<Event> {
    let mut events = events.to_vec();
    for event in &mut events {
        event.flags.preempt_depth = 0;
        event.comm = Comm::default();
    }
    events
}

#[test]
fn what_we_write_comes_back() {
    for name in TRACEFS {
        let (mut events, _) = read(text(name).as_bytes());
        let (back, report, error) = read_perfetto(&write_perfetto(&events));
        assert!(error.is_none(), "{name}: {error:?}");
        assert_eq!(report.unparsed_lines(), 0, "{name}: {report}");
        assert_eq!(report.kernel_release.as_deref(), Some("6.12.0"));
        assert_eq!(report.clock.as_deref(), Some("boot"));
        assert_eq!(report.out_of_order, 0, "{name}");
        // Bundles are by CPU: events of the same time may change places between CPUs.
        events.sort_by_key(|event| event.ts);
        let key = |event: &Event| (event.ts, event.cpu);
        let mut back = without_front(&back);
        let mut events = without_front(&events);
        back.sort_by_key(key);
        events.sort_by_key(key);
        assert_eq!(back, events, "{name}");
    }
}

#[test]
fn counters_and_losses_are_written() {
    let (events, source) = read(
        b"            bash-1     [000] d..2.     1.000001: x: y\nCPU:0 [LOST 12 EVENTS]\nCPU:3 [LOST EVENTS]\n",
    );
    let mut writer = PerfettoWriter::new(Vec::new(), PerfettoOptions::default());
    let track = writer
        .counter_track("queue length CPU 0", CounterUnit::Count, None)
        .unwrap();
    let other = writer
        .counter_track("lag", CounterUnit::Nanoseconds, Some(7))
        .unwrap();
    writer.write(&events[0]).unwrap();
    writer.counter(track, 1_000_002_000, 3).unwrap();
    writer.counter(other, 1_000_003_000, -5).unwrap();
    writer.source(&source);
    let written = writer.finish().unwrap();
    assert_eq!((written.flags_lost, written.names_lost), (1, 0));
    let bytes = writer.into_inner();
    assert_eq!(written.bytes, bytes.len() as u64);
    let (_, report, _) = read_perfetto(&bytes);
    // The loss of unknown size has no place.
    assert_eq!((report.lost_events, report.lost_unknown), (12, 0));
    let tracks = CounterTrace::decode(&bytes[..]).unwrap();
    let mut shown = String::new();
    for packet in tracks.packet {
        if let Some(d) = packet.track_descriptor {
            let unit = d.counter.and_then(|c| c.unit);
            let thread = d.thread.map(|t| (t.pid, t.tid));
            shown += &format!(
                "track {:?} {:?} unit {unit:?} parent {:?} thread {thread:?}\n",
                d.uuid, d.name, d.parent_uuid
            );
        }
        if let Some(e) = packet.track_event {
            shown += &format!(
                "{:?} type {:?} track {:?} = {:?}\n",
                packet.timestamp, e.kind, e.track_uuid, e.counter_value
            );
        }
    }
    insta::assert_snapshot!(shown);
}

#[derive(Clone, PartialEq, Message)]
struct CounterTrace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<CounterPacket>,
}

#[derive(Clone, PartialEq, Message)]
struct CounterPacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(int32, optional, tag = "9")]
    kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "4")]
    thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    tid: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct CounterDescriptor {
    #[prost(int32, optional, tag = "3")]
    unit: Option<i32>,
}

/// A trace as the recorder writes it: two CPUs, compact and whole events, losses, statistics.
fn recorded() -> Vec<Packet> {
    let bundle = |bundle| Packet {
        ftrace_events: Some(bundle),
        ..Packet::default()
    };
    let stats = |phase, overrun| Packet {
        ftrace_stats: Some(FtraceStats {
            phase: Some(phase),
            cpu_stats: vec![CpuStats {
                cpu: Some(1),
                overrun: Some(overrun),
            }],
        }),
        ..Packet::default()
    };
    vec![
        Packet {
            clock_snapshot: Some(ClockSnapshot {
                clocks: [(6, 1000), (1, 1_700_000_000_000_000_000)]
                    .map(|(id, ts)| Clock {
                        clock_id: Some(id),
                        timestamp: Some(ts),
                    })
                    .to_vec(),
            }),
            ..Packet::default()
        },
        Packet {
            timestamp: Some(1),
            system_info: Some(SystemInfo {
                utsname: Some(Utsname {
                    release: Some("5.15.41-android13".to_owned()),
                }),
            }),
            ..Packet::default()
        },
        stats(1, 10),
        bundle(Bundle {
            cpu: Some(0),
            event: vec![FtraceEvent {
                timestamp: Some(1025),
                pid: Some(7),
                cpu_idle: Some(CpuIdle {
                    state: Some(u32::MAX),
                    cpu_id: Some(0),
                }),
                ..FtraceEvent::default()
            }],
            compact_sched: Some(Compact {
                intern_table: vec!["swapper/0".to_owned(), "a b".to_owned()],
                switch_timestamp: vec![1000, 20, 30],
                switch_prev_state: vec![1, 0x100, 2],
                switch_next_pid: vec![7, 0, 7],
                switch_next_prio: vec![120, 120, -1],
                switch_next_comm_index: vec![1, 0, 1],
                waking_timestamp: vec![990, 20],
                waking_pid: vec![7, 8],
                waking_target_cpu: vec![0, 1],
                waking_prio: vec![120, 98],
                waking_comm_index: vec![1, 0],
                waking_common_flags: vec![1, 0x1c],
            }),
            ..Bundle::default()
        }),
        bundle(Bundle {
            cpu: Some(1),
            lost_events: Some(true),
            event: vec![
                FtraceEvent {
                    timestamp: Some(1012),
                    pid: Some(9),
                    common_flags: Some(1),
                    sched_switch: Some(Switch {
                        prev_comm: Some("x".to_owned()),
                        prev_pid: Some(9),
                        prev_prio: Some(120),
                        prev_state: Some(0x80),
                        next_comm: Some("y".to_owned()),
                        next_pid: Some(10),
                        next_prio: Some(100),
                    }),
                    ..FtraceEvent::default()
                },
                FtraceEvent {
                    timestamp: Some(1030),
                    pid: Some(10),
                    generic: Some(Generic {
                        event_name: Some("sched_stat_runtime".to_owned()),
                        field: vec![
                            GenericField {
                                name: Some("comm".to_owned()),
                                str_value: Some("y".to_owned()),
                                ..GenericField::default()
                            },
                            GenericField {
                                name: Some("pid".to_owned()),
                                int_value: Some(10),
                                ..GenericField::default()
                            },
                            GenericField {
                                name: Some("runtime".to_owned()),
                                uint_value: Some(77),
                                ..GenericField::default()
                            },
                        ],
                    }),
                    ..FtraceEvent::default()
                },
                FtraceEvent {
                    timestamp: Some(1031),
                    pid: Some(10),
                    ..FtraceEvent::default()
                },
            ],
            ..Bundle::default()
        }),
        stats(2, 15),
    ]
}

fn encode(packet: Vec<Packet>) -> Vec<u8> {
    Trace { packet }.encode_to_vec()
}

#[test]
fn a_recorded_trace() {
    let (events, report, error) = read_perfetto(&encode(recorded()));
    assert!(error.is_none(), "{error:?}");
    let mut shown = String::new();
    for e in &events {
        let flags = if e.flags == CpuFlags::default() {
            String::new()
        } else {
            format!(" {:?}", e.flags)
        };
        shown += &format!(
            "{} {} {}:{}{flags} {:?}\n",
            e.ts, e.cpu, e.comm, e.pid, e.kind
        );
    }
    insta::assert_snapshot!(shown);
    insta::assert_snapshot!(report);
    assert_eq!(Vec::from_iter(report.prev_state), [StateMapping::Bits]);
    assert_eq!((report.lost_events, report.lost_unknown), (5, 1));
    assert_eq!(report.with_flags, 3);
}

#[test]
fn compressed_packets() {
    let plain = encode(recorded());
    let (expected, ..) = read_perfetto(&plain);
    let zlib = {
        let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(&plain).unwrap();
        out.finish().unwrap()
    };
    let gzip = {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(&plain).unwrap();
        out.finish().unwrap()
    };
    let packed = |bytes: &[u8]| {
        encode(vec![Packet {
            compressed_packets: Some(bytes.to_vec()),
            ..Packet::default()
        }])
    };
    for bytes in [&zlib, &gzip] {
        let (events, report, error) = read_perfetto(&packed(bytes));
        assert!(error.is_none(), "{error:?}");
        assert_eq!(events, expected);
        assert_eq!(report.records, 7);
    }
    // A packet within a packet within a packet is no trace, and a damaged one costs itself.
    let (_, report, error) = read_perfetto(&packed(&{
        let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(&packed(&zlib)).unwrap();
        out.finish().unwrap()
    }));
    assert!(matches!(error, Some(ReadError::NoEventRecords { .. })));
    assert_eq!(
        report.unparsed[0].reason,
        UnparsedReason::Damaged("compressed packet within another")
    );
    let mut broken = packed(&zlib[..zlib.len() / 2]);
    broken.extend(plain);
    let (events, report, _) = read_perfetto(&broken);
    assert!(events.len() >= expected.len());
    assert!(report.unparsed_lines() > 1, "{report}");
}

#[test]
fn states_of_old_kernels() {
    let mut packets = recorded();
    if let Some(info) = &mut packets[1].system_info {
        info.utsname = Some(Utsname {
            release: Some("4.9.112".to_owned()),
        });
    }
    let (events, report, _) = read_perfetto(&encode(packets));
    let states: Vec<_> = events
        .iter()
        .filter_map(|e| match e.kind {
            EventKind::SchedSwitch { prev_state, .. } => Some(prev_state),
            _ => None,
        })
        .collect();
    // 0x80 was wakekill, 0x100 waking.
    assert_eq!(
        states,
        [
            PrevState::UNINTERRUPTIBLE,
            PrevState::UNINTERRUPTIBLE,
            PrevState::UNINTERRUPTIBLE
        ]
    );
    assert_eq!(Vec::from_iter(report.prev_state), [StateMapping::OldBits]);
}

#[test]
fn arrays_that_do_not_match_are_cut_and_counted() {
    let mut packets = recorded();
    let compact = packets[3]
        .ftrace_events
        .as_mut()
        .and_then(|b| b.compact_sched.as_mut())
        .unwrap();
    compact.switch_next_pid.pop();
    compact.waking_comm_index[1] = 9;
    let (events, report, _) = read_perfetto(&encode(packets));
    let (all, ..) = read_perfetto(&encode(recorded()));
    assert_eq!(events.len(), all.len() - 1);
    let reasons: Vec<_> = report.unparsed.iter().map(|u| u.reason).collect();
    assert!(reasons.contains(&UnparsedReason::Damaged(
        "compact_sched arrays of different lengths"
    )));
    assert!(reasons.contains(&UnparsedReason::Damaged(
        "compact_sched name index past the table"
    )));
}

#[test]
fn errors_name_the_trouble() {
    let fail = |bytes: &[u8]| {
        read_perfetto(bytes)
            .2
            .map_or_else(String::new, |e| e.to_string())
    };
    insta::assert_snapshot!(fail(b""), @"trace: the file is empty, expected a trace (for instance the text of /sys/kernel/tracing/trace)");
    insta::assert_snapshot!(fail(&encode(vec![Packet { timestamp: Some(5), ..Packet::default() }])), @"trace: no event in 1 records; were ftrace events recorded?");
    let mut lost = encode(recorded());
    lost.extend([0x0b, 1, 2, 3]);
    let (events, _, error) = read_perfetto(&lost);
    assert_eq!(events.len(), read_perfetto(&encode(recorded())).0.len());
    let at = lost.len() - 4;
    assert_eq!(
        error.unwrap().to_string(),
        format!(
            "trace: reading stopped at offset {at} (7 events before it): unknown wire type; expected a TracePacket"
        )
    );
}

#[test]
fn cut_at_every_byte() {
    let bytes = encode(recorded());
    let (all, ..) = read_perfetto(&bytes);
    for end in 0..bytes.len() {
        let (events, report, error) = read_perfetto(&bytes[..end]);
        assert!(events.len() <= all.len(), "cut at {end}");
        assert_eq!(
            error.is_some(),
            events.is_empty(),
            "cut at {end}: {error:?}"
        );
        // Either it ends between two packets or it says that it is cut.
        let whole = Trace::decode(&bytes[..end]).is_ok();
        assert_eq!(report.truncated(), !whole, "cut at {end}");
    }
}

#[test]
fn pid_and_names_out_of_range() {
    let event = Event {
        ts: 5,
        cpu: 0,
        pid: -1,
        comm: Comm::default(),
        flags: CpuFlags::default(),
        kind: EventKind::SchedProcessExit {
            task: TaskRef {
                comm: Comm::new("café au lait"),
                pid: i32::MIN,
                prio: i32::MAX,
            },
        },
    };
    let (back, ..) = read_perfetto(&write_perfetto(std::slice::from_ref(&event)));
    assert_eq!(back[0].kind, event.kind);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn byte_soup(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        read_perfetto(&bytes);
    }

    /// Changed bytes in a good trace: no panic, and the account holds.
    #[test]
    fn changed_bytes(at in proptest::collection::vec((0usize..380, any::<u8>()), 1..4)) {
        let mut bytes = encode(recorded());
        for (at, byte) in at {
            let len = bytes.len();
            bytes[at % len] = byte;
        }
        read_perfetto(&bytes);
    }
}
