//! NDJSON: nothing is lost on the way, and what is no line of it is counted.

mod common;

use common::{TRACEFS, assert_all_lines_accounted, read, text};
use proptest::prelude::*;
use schedlab_trace::{
    Comm, CpuFlags, Event, EventKind, Format, NDJSON_SCHEMA, NdjsonOptions, NdjsonReader,
    NdjsonWriter, PrevState, ReadError, ReadReport, Reader, StateMapping, TaskRef, TraceWriter,
    UnparsedReason,
};

fn write(events: &[Event]) -> String {
    let options = NdjsonOptions {
        kernel_release: Some("6.12.0".to_owned()),
        clock: Some("local".to_owned()),
    };
    let mut writer = NdjsonWriter::new(Vec::new(), options);
    for event in events {
        writer.write(event).unwrap();
    }
    let report = writer.finish().unwrap();
    assert_eq!(report.events, events.len() as u64);
    let lost = (
        report.altered,
        report.flags_lost,
        report.names_lost,
        report.times_cut,
    );
    assert_eq!(lost, (0, 0, 0, 0));
    String::from_utf8(writer.into_inner()).unwrap()
}

fn read_ndjson(bytes: &[u8]) -> (Vec<Event>, ReadReport, Option<ReadError>) {
    let mut reader = NdjsonReader::new(bytes, "trace");
    let (mut events, mut error) = (Vec::new(), None);
    for item in reader.by_ref() {
        match item {
            Ok(event) => events.push(event),
            Err(e) => error = Some(e),
        }
    }
    assert_all_lines_accounted(&reader.report());
    (events, reader.report(), error)
}

#[test]
fn recordings_come_back_whole() {
    for name in TRACEFS {
        let (events, _) = read(text(name).as_bytes());
        let (back, report, error) = read_ndjson(write(&events).as_bytes());
        assert!(error.is_none(), "{error:?}");
        assert_eq!(back, events, "{name}");
        assert!(report.remarks.is_empty(), "{report}");
        assert_eq!(report.kernel_release.as_deref(), Some("6.12.0"));
        assert_eq!(report.clock.as_deref(), Some("local"));
    }
}

fn awkward() -> Vec<Event> {
    let task = TaskRef {
        comm: Comm::from_bytes(b"caf\xe9 \"\\\n"),
        pid: i32::MIN,
        prio: i32::MAX,
    };
    let event = |kind| Event {
        ts: u64::MAX,
        cpu: 65535,
        pid: -1,
        comm: Comm::new("naïve"),
        flags: CpuFlags {
            irqs_off: true,
            preempt_depth: 255,
            ..CpuFlags::default()
        },
        kind,
    };
    vec![
        event(EventKind::SchedSwitch {
            prev: task,
            prev_state: PrevState(0xffff_0000),
            next: task,
        }),
        event(EventKind::SchedSwitch {
            prev: task,
            prev_state: PrevState(0x182),
            next: task,
        }),
        event(EventKind::SchedStatRuntime {
            comm: Comm::default(),
            pid: 0,
            runtime: u64::MAX,
        }),
        event(EventKind::SchedProcessExec {
            filename: "a\0b\n".to_owned(),
            pid: 1,
            old_pid: 2,
        }),
        event(EventKind::Other {
            name: "pick".to_owned(),
            fields: "\u{7f}\t{\"end\":1}".to_owned(),
        }),
        // The name of a known event, and still only text.
        event(EventKind::Other {
            name: "sched_switch".to_owned(),
            fields: String::new(),
        }),
    ]
}

#[test]
fn awkward_values_come_back_whole() {
    let events = awkward();
    let text = write(&events);
    insta::assert_snapshot!(text);
    let (back, report, _) = read_ndjson(text.as_bytes());
    assert_eq!(back, events);
    assert_eq!(
        Vec::from_iter(report.prev_state),
        [StateMapping::KernelLetters, StateMapping::Own]
    );
    let reader = schedlab_trace::open_stream(std::io::Cursor::new(text), "x").unwrap();
    assert_eq!(reader.format(), Format::Ndjson);
}

#[test]
fn losses_of_the_source_are_kept() {
    let (events, source) = read(
        b"            bash-1     [000] d..2.     1.000001: x: y\nCPU:0 [LOST 12 EVENTS]\nCPU:3 [LOST EVENTS]\n",
    );
    let mut writer = NdjsonWriter::new(Vec::new(), NdjsonOptions::default());
    writer.write(&events[0]).unwrap();
    writer.source(&source);
    writer.finish().unwrap();
    let (_, report, _) = read_ndjson(&writer.into_inner());
    assert_eq!(report.cpus.len(), 2);
    assert_eq!(report.cpus[0].lost_events, 12);
    assert_eq!(report.cpus[1].lost_unknown, 1);
}

#[test]
fn what_is_no_event_is_counted() {
    let line = r#"{"ts":1,"cpu":0,"pid":7,"event":"x","fields":"y"}"#;
    let text = format!(
        "{line}\n\nhello\n{{\"ts\":1}}\n{}\n{}\n{}\n{{\"schema\":\"schedlab.trace/9\"}}\n{}",
        line.replace("\"cpu\":0", "\"cpu\":65536"),
        line.replace("\"fields\":\"y\"", "\"fields\":{\"comm\":\"a\"}"),
        line.replace(
            "\"x\",\"fields\":\"y\"",
            "\"sched_waking\",\"fields\":{\"comm\":\"a\"}"
        ),
        &line[..20],
    );
    let (events, report, error) = read_ndjson(text.as_bytes());
    assert!(error.is_none());
    assert_eq!(events.len(), 1);
    let reasons: Vec<_> = report
        .unparsed
        .iter()
        .map(|u| (u.reason, u.count, u.first_line))
        .collect();
    assert_eq!(
        reasons,
        [
            (UnparsedReason::CpuRange, 1, 5),
            (UnparsedReason::Fields("an event"), 1, 6),
            (UnparsedReason::Fields("sched_waking"), 1, 7),
            (UnparsedReason::Truncated, 1, 9),
            (UnparsedReason::Json, 3, 3),
        ]
    );
    assert_eq!(report.remarks.len(), 2, "{report}");
}

#[test]
fn errors_name_the_trouble() {
    let fail = |text: &str| {
        read_ndjson(text.as_bytes())
            .2
            .map_or_else(String::new, |e| e.to_string())
    };
    insta::assert_snapshot!(fail("{\"schema\":\"schedlab.trace/2\"}\n"), @r#"trace: no event in 1 lines; 1 lines not read, the first is line 1 (no JSON object as schedlab.trace/1 has it): {"schema":"schedlab.trace/2"}"#);
    insta::assert_snapshot!(fail("{\"schema\":\"schedlab.trace/1\"}\n"), @"trace: no event in 1 lines; expected lines of schedlab.trace/1");
    assert_eq!(
        fail("{\"schema\":\"schedlab.trace/1\"}\n{\"end\":{\"events\":0}}\n"),
        ""
    );
}

#[test]
fn cut_at_every_byte() {
    let events = awkward();
    let text = write(&events);
    for end in 0..text.len() {
        let (back, report, error) = read_ndjson(&text.as_bytes()[..end]);
        assert_eq!(back, events[..back.len()], "cut at {end}");
        assert_eq!(error.is_some(), back.is_empty(), "cut at {end}");
        // The last line without its line feed is still all there.
        let complete = end == text.len() - 1;
        assert_eq!(
            report.remarks.is_empty(),
            complete || error.is_some(),
            "cut at {end}"
        );
    }
}

/// Every key that is written is in the published schema.
#[test]
fn the_schema_has_every_key() {
    fn keys(value: &serde_json::Value, out: &mut Vec<String>) {
        if let Some(map) = value.as_object() {
            for (key, value) in map {
                out.push(key.clone());
                keys(value, out);
            }
        }
        for value in value.as_array().into_iter().flatten() {
            keys(value, out);
        }
    }
    let schema: serde_json::Value = serde_json::from_str(NDJSON_SCHEMA).unwrap();
    let mut known = Vec::new();
    keys(&schema, &mut known);
    let mut events = awkward();
    events.extend(read(text("forks.ftrace").as_bytes()).0);
    let mut used = Vec::new();
    for line in write(&events).lines() {
        keys(&serde_json::from_str(line).unwrap(), &mut used);
    }
    used.sort();
    used.dedup();
    assert!(used.len() > 15, "{used:?}");
    for key in used {
        assert!(known.contains(&key), "{key}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let text = write(&awkward());
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let (events, ..) = read_ndjson(&bytes);
        prop_assert!(events.len() + 2 >= awkward().len());
    }

    #[test]
    fn byte_soup(text in "[{}\\[\\]\":,0-9a-z\n ]{0,300}") {
        read_ndjson(text.as_bytes());
    }
}
