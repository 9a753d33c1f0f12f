//! Real recordings: every line is read, and the dialects tell the same story.

mod common;

use common::{TRACEFS, assert_all_lines_accounted, read, text};
use schedlab_trace::{
    Event, EventKind, FtraceTextOptions, FtraceTextWriter, PrevState, TimeDigits, TraceWriter,
};

/// Counts from the text alone, to compare the reader with: lines with ` name: ` behind a time.
fn count_lines(text: &str, name: &str) -> u64 {
    let needle = format!(": {name}: ");
    text.lines()
        .filter(|l| !l.starts_with('#') && l.contains(&needle))
        .count() as u64
}

#[test]
fn nothing_is_left_over() {
    for name in TRACEFS {
        let text = text(name);
        let (events, report) = read(text.as_bytes());
        assert_all_lines_accounted(&report);
        assert_eq!(report.unparsed, [], "{name}");
        assert_eq!(report.lines, text.lines().count() as u64);
        // The kernel counted them too.
        let declared = text
            .lines()
            .find_map(|l| l.strip_prefix("# entries-in-buffer/entries-written: "))
            .and_then(|l| l.split('/').next())
            .unwrap();
        assert_eq!(report.events.to_string(), declared, "{name}");
        assert_eq!(events.len() as u64, report.events);
        assert_eq!(report.with_flags, report.events);
        assert_eq!(report.out_of_order, 0);
        assert_eq!(report.overwritten, 0);
        for (kind, count) in &report.events_by_type {
            assert_eq!(*count, count_lines(&text, kind), "{name} {kind}");
        }
    }
}

#[test]
fn known_events_are_never_passed_on_as_text() {
    for name in TRACEFS {
        let (events, _) = read(text(name).as_bytes());
        for event in events {
            if let EventKind::Other { name, .. } = &event.kind {
                assert!(!EventKind::KNOWN.contains(&name.as_str()), "{event:?}");
            }
        }
    }
}

#[test]
fn probe_events_keep_their_fields() {
    let text = text("hogs2_slice.state");
    let (events, _) = read(text.as_bytes());
    let mut lines = text.lines().filter(|l| !l.starts_with('#'));
    let mut probes = 0;
    for event in &events {
        let line = lines.next().unwrap();
        if let EventKind::Other { name, fields } = &event.kind {
            let (_, expected) = line.split_once(&format!(": {name}: ")).unwrap();
            assert_eq!(fields, expected);
            probes += u32::from(fields.contains("cfs=0x"));
        }
    }
    assert!(probes > 3000, "{probes}");
    let EventKind::Other { name, fields } = &events[1].kind else {
        panic!("{:?}", events[1]);
    };
    assert_eq!(name, "enqueue");
    assert!(fields.starts_with("(enqueue_entity+0x0/0x520) cfs=0xff1100003d435f00 se="));
}

/// What must agree between the dialects: all but flags, the current task's name and the `+` of `R+`.
fn core(event: &Event) -> (u32, i32, EventKind) {
    let mut kind = event.kind.clone();
    if let EventKind::SchedSwitch { prev_state, .. } = &mut kind
        && *prev_state == PrevState::PREEMPTED
    {
        *prev_state = PrevState::RUNNING;
    }
    (event.cpu, event.pid, kind)
}

#[test]
fn trace_cmd_tells_the_same_as_tracefs() {
    for (tracefs, trace_cmd, ns) in [
        ("yield.ftrace", "yield.trace-cmd", false),
        ("yield.ftrace", "yield.trace-cmd-ns", true),
        ("forks.ftrace", "forks.trace-cmd-ns", true),
    ] {
        let (left, _) = read(text(tracefs).as_bytes());
        let (right, report) = read(text(trace_cmd).as_bytes());
        assert_all_lines_accounted(&report);
        assert_eq!(report.unparsed, []);
        assert_eq!((report.notes, report.cpus_declared), (1, Some(2)));
        assert_eq!(report.with_flags, 0);
        assert_eq!(left.len(), right.len());
        let mut inexact = 0;
        for (l, r) in left.iter().zip(&right) {
            assert_eq!(core(l), core(r));
            assert!(l.ts.abs_diff(r.ts) <= 500, "{} {}", l.ts, r.ts);
            inexact += u32::from(l.ts != r.ts);
        }
        assert_eq!(inexact > 0, ns);
    }
}

/// A line without what an [`Event`] does not keep: `n` (TIF_NEED_RESCHED without the bit in the preempt count) is not
/// told from `N`, nor `Z` (an NMI in a hard interrupt) from `h`, nor `D` (bottom halves off too) from `d`; `group_dead=` of 6.17 is not kept.
fn normalised(line: &str) -> String {
    let line = line
        .replace(" group_dead=true", "")
        .replace(" group_dead=false", "");
    match line.split_once("] ") {
        Some((front, rest)) if !line.starts_with('#') => {
            let (flags, rest) = rest.split_at(5);
            let flags = flags
                .replace('n', "N")
                .replace('Z', "h")
                .replace(['D', 'b'], "d");
            format!("{front}] {flags}{rest}")
        }
        _ => line,
    }
}

#[test]
fn tracefs_text_comes_back_byte_for_byte() {
    for name in TRACEFS {
        let text = text(name);
        let (events, report) = read(text.as_bytes());
        let mut out = Vec::new();
        let mut writer = FtraceTextWriter::new(
            &mut out,
            FtraceTextOptions {
                digits: TimeDigits::Micros,
                entries: Some((report.events, report.cpus_declared.unwrap())),
            },
        );
        for event in &events {
            writer.write(event).unwrap();
        }
        assert_eq!(writer.finish().unwrap().altered, 0);
        drop(writer);
        let written = String::from_utf8(out).unwrap();
        let mut differing = 0;
        for (original, ours) in text.lines().zip(written.lines()) {
            let original = normalised(original);
            differing += u32::from(original != ours);
            assert_eq!(original, ours);
        }
        assert_eq!(text.lines().count(), written.lines().count());
        assert_eq!(differing, 0);
    }
}

#[test]
fn nanoseconds_round_trip() {
    let (events, _) = read(text("forks.trace-cmd-ns").as_bytes());
    let mut out = Vec::new();
    let mut writer = FtraceTextWriter::new(
        &mut out,
        FtraceTextOptions {
            digits: TimeDigits::Nanos,
            entries: None,
        },
    );
    for event in &events {
        writer.write(event).unwrap();
    }
    writer.finish().unwrap();
    drop(writer);
    let (back, report) = read(&out);
    assert_eq!(back, events);
    assert_eq!(report.unparsed, []);
}
