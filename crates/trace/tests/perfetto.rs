//! Our Perfetto output, decoded by prost with messages derived by hand from the published schema, event by event.
//!
//! The definitions repeat field numbers from Perfetto's `.proto` files (release 51) and not from our encoder.

mod common;

use std::collections::BTreeMap;

use common::{read, text};
use prost::Message;
use schedlab_trace::{
    Comm, CpuFlags, Event, EventKind, Format, PerfettoOptions, PerfettoWriter, PrevState, TaskRef,
    TraceWriter,
};

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(message, optional, tag = "1")]
    ftrace_events: Option<FtraceEventBundle>,
    #[prost(message, optional, tag = "2")]
    process_tree: Option<ProcessTree>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "45")]
    system_info: Option<SystemInfo>,
    #[prost(bool, optional, tag = "87")]
    first_packet_on_sequence: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
struct SystemInfo {
    #[prost(message, optional, tag = "1")]
    utsname: Option<Utsname>,
}

#[derive(Clone, PartialEq, Message)]
struct Utsname {
    #[prost(string, optional, tag = "1")]
    sysname: Option<String>,
    #[prost(string, optional, tag = "3")]
    release: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    processes: Vec<Process>,
    #[prost(message, repeated, tag = "2")]
    threads: Vec<Thread>,
}

#[derive(Clone, PartialEq, Message)]
struct Process {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    ppid: Option<i32>,
    #[prost(string, repeated, tag = "3")]
    cmdline: Vec<String>,
    #[prost(bool, optional, tag = "9")]
    cmdline_is_comm: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
struct Thread {
    #[prost(int32, optional, tag = "1")]
    tid: Option<i32>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(int32, optional, tag = "3")]
    tgid: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct FtraceEventBundle {
    #[prost(uint32, optional, tag = "1")]
    cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    event: Vec<FtraceEvent>,
}

#[derive(Clone, PartialEq, Message)]
struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pid: Option<u32>,
    #[prost(oneof = "Kind", tags = "3, 4, 17, 20, 114, 237, 238, 239, 327, 491")]
    event: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(message, tag = "3")]
    Print(Print),
    #[prost(message, tag = "4")]
    SchedSwitch(Switch),
    #[prost(message, tag = "17")]
    SchedWakeup(Wake),
    #[prost(message, tag = "20")]
    SchedWaking(Wake),
    #[prost(message, tag = "114")]
    SchedWakeupNew(Wake),
    #[prost(message, tag = "237")]
    SchedProcessExec(Exec),
    #[prost(message, tag = "238")]
    SchedProcessExit(Exit),
    #[prost(message, tag = "239")]
    SchedProcessFork(Fork),
    #[prost(message, tag = "327")]
    Generic(Generic),
    #[prost(message, tag = "491")]
    SchedMigrateTask(Migrate),
}

#[derive(Clone, PartialEq, Message)]
struct Print {
    #[prost(uint64, optional, tag = "1")]
    ip: Option<u64>,
    #[prost(string, optional, tag = "2")]
    buf: Option<String>,
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
struct Wake {
    #[prost(string, optional, tag = "1")]
    comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    prio: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    success: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    target_cpu: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Migrate {
    #[prost(string, optional, tag = "1")]
    comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    prio: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    orig_cpu: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    dest_cpu: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Exec {
    #[prost(string, optional, tag = "1")]
    filename: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    old_pid: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Exit {
    #[prost(string, optional, tag = "1")]
    comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    prio: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Fork {
    #[prost(string, optional, tag = "1")]
    parent_comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    parent_pid: Option<i32>,
    #[prost(string, optional, tag = "3")]
    child_comm: Option<String>,
    #[prost(int32, optional, tag = "4")]
    child_pid: Option<i32>,
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
    #[prost(oneof = "Value", tags = "3, 4, 5")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Value {
    #[prost(string, tag = "3")]
    Str(String),
    #[prost(int64, tag = "4")]
    Int(i64),
    #[prost(uint64, tag = "5")]
    Uint(u64),
}

fn write(events: &[Event]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = PerfettoWriter::new(&mut out, PerfettoOptions::default());
    for event in events {
        writer.write(event).unwrap();
    }
    let report = writer.finish().unwrap();
    drop(writer);
    assert_eq!(report.events, events.len() as u64);
    assert_eq!(report.bytes, out.len() as u64);
    out
}

fn task(comm: Option<String>, pid: Option<i32>, prio: Option<i32>) -> TaskRef {
    TaskRef {
        comm: Comm::new(&comm.unwrap()),
        pid: pid.unwrap(),
        prio: prio.unwrap(),
    }
}

fn cpu(cpu: Option<i32>) -> u32 {
    u32::try_from(cpu.unwrap()).unwrap()
}

fn wake(w: Wake) -> (TaskRef, u32) {
    assert_eq!(w.success, Some(1));
    (task(w.comm, w.pid, w.prio), cpu(w.target_cpu))
}

/// What a decoded event means in our words.
fn kind(kind: Kind) -> EventKind {
    match kind {
        Kind::SchedSwitch(s) => EventKind::SchedSwitch {
            prev: task(s.prev_comm, s.prev_pid, s.prev_prio),
            prev_state: PrevState(u32::try_from(s.prev_state.unwrap()).unwrap()),
            next: task(s.next_comm, s.next_pid, s.next_prio),
        },
        Kind::SchedWaking(w) => {
            let (task, target_cpu) = wake(w);
            EventKind::SchedWaking { task, target_cpu }
        }
        Kind::SchedWakeup(w) => {
            let (task, target_cpu) = wake(w);
            EventKind::SchedWakeup { task, target_cpu }
        }
        Kind::SchedWakeupNew(w) => {
            let (task, target_cpu) = wake(w);
            EventKind::SchedWakeupNew { task, target_cpu }
        }
        Kind::SchedMigrateTask(m) => EventKind::SchedMigrateTask {
            task: task(m.comm, m.pid, m.prio),
            orig_cpu: cpu(m.orig_cpu),
            dest_cpu: cpu(m.dest_cpu),
        },
        Kind::SchedProcessExec(e) => EventKind::SchedProcessExec {
            filename: e.filename.unwrap(),
            pid: e.pid.unwrap(),
            old_pid: e.old_pid.unwrap(),
        },
        Kind::SchedProcessExit(e) => EventKind::SchedProcessExit {
            task: task(e.comm, e.pid, e.prio),
        },
        Kind::SchedProcessFork(f) => EventKind::SchedProcessFork {
            parent_comm: Comm::new(&f.parent_comm.unwrap()),
            parent_pid: f.parent_pid.unwrap(),
            child_comm: Comm::new(&f.child_comm.unwrap()),
            child_pid: f.child_pid.unwrap(),
        },
        Kind::Print(p) => EventKind::Other {
            name: "tracing_mark_write".to_owned(),
            fields: p.buf.unwrap(),
        },
        Kind::Generic(g) => {
            let name = g.event_name.unwrap();
            let values: Vec<_> = g
                .field
                .into_iter()
                .map(|f| (f.name.unwrap(), f.value.unwrap()))
                .collect();
            match (name.as_str(), &values[..]) {
                (
                    "sched_stat_runtime",
                    [
                        (a, Value::Str(comm)),
                        (b, Value::Int(pid)),
                        (c, Value::Uint(runtime)),
                    ],
                ) => {
                    assert_eq!(
                        (a.as_str(), b.as_str(), c.as_str()),
                        ("comm", "pid", "runtime")
                    );
                    EventKind::SchedStatRuntime {
                        comm: Comm::new(comm),
                        pid: i32::try_from(*pid).unwrap(),
                        runtime: *runtime,
                    }
                }
                (_, [(key, Value::Str(fields))]) => {
                    assert_eq!(key, "fields");
                    EventKind::Other {
                        name,
                        fields: fields.clone(),
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Decodes a trace, checks its frame, and gives the events of each CPU in order of the file.
fn decode(bytes: &[u8]) -> (BTreeMap<u32, Vec<Event>>, Vec<TracePacket>) {
    let trace = Trace::decode(bytes).unwrap();
    let mut cpus: BTreeMap<u32, Vec<Event>> = BTreeMap::new();
    for packet in &trace.packet {
        assert_eq!(packet.trusted_packet_sequence_id, Some(1));
        if let Some(bundle) = &packet.ftrace_events {
            let number = bundle.cpu.unwrap();
            for e in &bundle.event {
                cpus.entry(number).or_default().push(Event {
                    ts: e.timestamp.unwrap(),
                    cpu: number,
                    pid: i32::try_from(e.pid.unwrap()).unwrap(),
                    comm: Comm::default(),
                    flags: CpuFlags::default(),
                    kind: kind(e.event.clone().unwrap()),
                });
            }
        }
    }
    (cpus, trace.packet)
}

#[test]
fn events_one_by_one() {
    for name in [
        "forks.ftrace",
        "sleepers.ftrace",
        "hogs2_slice.state",
        "hogs_n1.flat2",
    ] {
        let (events, _) = read(text(name).as_bytes());
        let bytes = write(&events);
        assert_eq!(Format::detect(&bytes), Some(Format::Perfetto));
        let (decoded, packets) = decode(&bytes);
        let mut expected: BTreeMap<u32, Vec<Event>> = BTreeMap::new();
        for event in events {
            // Not in Perfetto's events.
            let event = Event {
                comm: Comm::default(),
                flags: CpuFlags::default(),
                ..event
            };
            expected.entry(event.cpu).or_default().push(event);
        }
        assert_eq!(decoded.len(), expected.len());
        for (cpu, events) in &expected {
            assert_eq!(decoded[cpu].len(), events.len());
            for (ours, theirs) in events.iter().zip(&decoded[cpu]) {
                assert_eq!(ours, theirs, "{name}");
            }
        }
        let first = &packets[0];
        assert_eq!(first.sequence_flags, Some(1));
        assert_eq!(first.first_packet_on_sequence, Some(true));
        let utsname = first.system_info.clone().unwrap().utsname.unwrap();
        assert_eq!(utsname.sysname.as_deref(), Some("Linux"));
        assert_eq!(utsname.release.as_deref(), Some("6.12.0"));
        // Long recordings are written in several steps, so that memory stays bounded.
        let bundles = packets.iter().filter(|p| p.ftrace_events.is_some());
        assert!(bundles.count() > if name.ends_with("state") { 2 } else { 0 });
    }
}

#[test]
fn every_task_gets_its_name_before_its_first_event() {
    let (events, _) = read(text("forks.ftrace").as_bytes());
    let (_, packets) = decode(&write(&events));
    let mut names: BTreeMap<i32, String> = BTreeMap::new();
    let mut parents = BTreeMap::new();
    let mut switched = 0;
    for packet in packets {
        if let Some(tree) = packet.process_tree {
            assert!(packet.timestamp.is_some());
            assert_eq!(tree.processes.len(), tree.threads.len());
            for (p, t) in tree.processes.iter().zip(&tree.threads) {
                assert_eq!((p.pid, t.tid), (t.tgid, t.tgid));
                assert_eq!(p.cmdline_is_comm, Some(true));
                assert_eq!(Some(&p.cmdline[0]), t.name.as_ref());
                names.insert(p.pid.unwrap(), p.cmdline[0].clone());
                if let Some(parent) = p.ppid {
                    parents.insert(p.pid.unwrap(), parent);
                }
            }
        }
        for event in packet.ftrace_events.iter().flat_map(|b| &b.event) {
            if let Some(Kind::SchedSwitch(s)) = &event.event
                && s.next_pid != Some(0)
            {
                assert!(names.contains_key(&s.next_pid.unwrap()));
                switched += 1;
            }
        }
    }
    let expected = events
        .iter()
        .filter(|e| matches!(e.kind, EventKind::SchedSwitch { next, .. } if next.pid != 0));
    assert_eq!(switched, expected.count());
    assert!(!names.contains_key(&0));
    // The last name counts, and a child knows its parent.
    let forks = events.iter().filter_map(|e| match e.kind {
        EventKind::SchedProcessFork {
            parent_pid,
            child_pid,
            ..
        } => Some((child_pid, parent_pid)),
        _ => None,
    });
    assert_eq!(parents, forks.collect());
    let f0 = names.values().filter(|n| *n == "f0").count();
    assert!(f0 > 150, "{f0}");
}

#[test]
fn awkward_values() {
    let odd = TaskRef {
        comm: Comm::from_bytes(b"caf\xc3\xa9 \xff"),
        pid: i32::MAX,
        prio: -1,
    };
    let event = Event {
        ts: u64::MAX,
        cpu: u32::MAX,
        pid: -5,
        comm: Comm::default(),
        flags: CpuFlags::default(),
        kind: EventKind::SchedSwitch {
            prev: odd,
            prev_state: PrevState(0x101),
            next: odd,
        },
    };
    let mut out = Vec::new();
    let mut writer = PerfettoWriter::new(&mut out, PerfettoOptions::default());
    writer.write(&event).unwrap();
    assert_eq!(writer.finish().unwrap().altered, 1);
    drop(writer);
    let (decoded, _) = decode(&out);
    let got = &decoded[&u32::MAX][0];
    assert_eq!((got.ts, got.pid), (u64::MAX, 0));
    let EventKind::SchedSwitch {
        prev, prev_state, ..
    } = got.kind
    else {
        panic!("{got:?}");
    };
    assert_eq!(
        (prev.pid, prev.prio, prev_state),
        (i32::MAX, -1, PrevState(0x101))
    );
    assert_eq!(prev.comm, Comm::new("caf\u{e9} \u{fffd}"));
}
