//! Names and formats that are known to break parsers, all in one file (case 56), and bad input of all kinds.

mod common;

use common::{assert_all_lines_accounted, read, text};
use proptest::prelude::*;
use schedlab_trace::{
    EventKind, FtraceTextReader, ReadError, Reader, StateMapping, UnparsedReason,
};

/// Every oddity at once. The last line is cut.
const CASE_56: &str = "\
# tracer: nop
#
#           TASK-PID    TGID   CPU#  ||||    TIMESTAMP  FUNCTION
CPU 3 is empty
cpus=4
##### CPU 1 buffer started ####
 Web Content 1-100     (    100) [000] d..2.     1.000001: sched_waking: comm=Web Content 1 pid=100 prio=120 target_cpu=001
    a: b ==> c-101     (-------) [001] d..2.     1.000002: sched_switch: prev_comm=a: b ==> c prev_pid=101 prev_prio=120 prev_state=S ==> next_comm=x > y next_pid=102 next_prio=139
           x > y-102   (    102) [001] dNh2.     1.000003: sched_wakeup: comm=a: b ==> c pid=101 prio=120 target_cpu=001
           <...>-103   (    103) [002] ...1      1.000004: sched_wakeup_new: comm=<...> pid=104 prio=120 success=1 target_cpu=002
          <idle>-0     [000]  1.000005123: sched:sched_stat_runtime: comm=no unit pid=105 runtime=77
           x > y-102   [001]  1.000006: sched_switch:         x > y:102 [139] R ==> a: b ==> c:101 [120]
           x > y-102   [001]  1.000007: sched_switch:         [FAILED TO PARSE] prev_comm=x prev_pid=102
CPU:2 [LOST 12 EVENTS]
CPU:1 [LOST EVENTS]
            bash-7     [001] d..2.     1.000008: <stack trace>
 => __schedule
 => schedule
            bash-7     [001] d..2.     1.000009: sched_switch: prev_comm=only half
            bash-7     [001] d..2.     1.000010: do_sys_open <-do_syscall_64
no event at all

  3)   0.541 us    |  mutex_unlock();
            bash-7     [70000] d..2.     1.000011: x: y
            bash-7     [001] d..2. 99999999999.000011: x: y
            bash-7     [001] d..2.     1.000012: tracing_mark_write: B|7|name: with = signs
            bash-7     [001] d..2.     1.000013: sched_switch: prev_comm=bash prev_pid=7 prev_pr";

#[test]
fn case_56_every_line_is_parsed_or_counted() {
    let (events, report) = read(CASE_56.as_bytes());
    assert_all_lines_accounted(&report);
    let mut shown = String::new();
    for e in &events {
        shown += &format!("{} {} {}:{} {:?}\n", e.ts, e.cpu, e.comm, e.pid, e.kind);
    }
    insta::assert_snapshot!(shown, @r#"
    1000001000 0 Web Content 1:100 SchedWaking { task: TaskRef { comm: Web Content 1, pid: 100, prio: 120 }, target_cpu: 1 }
    1000002000 1 a: b ==> c:101 SchedSwitch { prev: TaskRef { comm: a: b ==> c, pid: 101, prio: 120 }, prev_state: PrevState(1), next: TaskRef { comm: x > y, pid: 102, prio: 139 } }
    1000003000 1 x > y:102 SchedWakeup { task: TaskRef { comm: a: b ==> c, pid: 101, prio: 120 }, target_cpu: 1 }
    1000004000 2 :103 SchedWakeupNew { task: TaskRef { comm: <...>, pid: 104, prio: 120 }, target_cpu: 2 }
    1000005123 0 <idle>:0 SchedStatRuntime { comm: no unit, pid: 105, runtime: 77 }
    1000006000 1 x > y:102 SchedSwitch { prev: TaskRef { comm: x > y, pid: 102, prio: 139 }, prev_state: PrevState(0), next: TaskRef { comm: a: b ==> c, pid: 101, prio: 120 } }
    1000012000 1 bash:7 Other { name: "tracing_mark_write", fields: "B|7|name: with = signs" }
    "#);
    insta::assert_snapshot!(report, @r#"
    7 events in 27 lines, 3 CPUs, 0.000011000 s from 1.000001000 s
               1 sched_stat_runtime
               2 sched_switch
               1 sched_wakeup
               1 sched_wakeup_new
               1 sched_waking
               1 tracing_mark_write
    lost events: 12, and 1 losses of unknown size
    not read: 2 x no "name-pid [cpu] time:" at its beginning, first at line 21: no event at all
    not read: 1 x CPU number of 65536 or more, first at line 24: bash-7     [70000] d..2.     1.000011: x: y
    not read: 1 x time past 2^64 ns, first at line 25: bash-7     [001] d..2. 99999999999.000011: x: y
    not read: 1 x no event name behind the time, first at line 20: bash-7     [001] d..2.     1.000010: do_sys_open <-do_syscall_64
    not read: 1 x [FAILED TO PARSE] by trace-cmd, first at line 13: x > y-102   [001]  1.000007: sched_switch:         [FAILED TO PARSE] prev_comm=x prev_pid=102
    not read: 1 x fields of sched_switch not understood, first at line 19: bash-7     [001] d..2.     1.000009: sched_switch: prev_comm=only half
    not read: 3 x stack trace, first at line 16: bash-7     [001] d..2.     1.000008: <stack trace>
    not read: 1 x last line cut (no line feed), first at line 27: bash-7     [001] d..2.     1.000013: sched_switch: prev_comm=bash prev_pid=7 prev_pr
    "#);
    assert_eq!(report.empty_cpus, [3]);
    assert_eq!(report.cpus_declared, Some(4));
    assert_eq!((report.lost_events, report.lost_unknown), (12, 1));
    assert_eq!(
        Vec::from_iter(report.prev_state.iter().copied()),
        [StateMapping::KernelLetters, StateMapping::OldPluginLetters]
    );
    assert!(report.truncated());
}

/// What trace-cmd 3.1.6 prints of one switch and its wakeup with each of its options, and tracefs in its layouts.
const VARIANTS: [(&str, &str); 9] = [
    (
        "report",
        "            bash-7     [001]  6856.657171: sched_wakeup:         wl:9 [120] CPU:001\n            bash-7     [001]  6856.657172: sched_switch:         bash:7 [120] S ==> wl:9 [120]\n",
    ),
    (
        "report -l",
        "    bash-7       1d..2.  6856.657171: sched_wakeup:         wl:9 [120] CPU:001\n    bash-7       1d..2.  6856.657172: sched_switch:         bash:7 [120] S ==> wl:9 [120]\n",
    ),
    (
        "report -R",
        "            bash-7     [001]  6856.657171: sched_wakeup:          comm=wl pid=9 prio=120 target_cpu=001\n            bash-7     [001]  6856.657172: sched_switch:          prev_comm=bash prev_pid=7 prev_prio=120 prev_state=1 next_comm=wl next_pid=9 next_prio=120\n",
    ),
    (
        "report -t",
        "            bash-7     [001]  6856.657171000: sched_wakeup:         wl:9 [120] CPU:001\n            bash-7     [001]  6856.657172000: sched_switch:         bash:7 [120] S ==> wl:9 [120]\n",
    ),
    (
        "report --ts-diff",
        "            bash-7     [001]  6856.657171:          sched_wakeup:         wl:9 [120] CPU:001\n            bash-7     [001]  6856.657172: (+1)     sched_switch:         bash:7 [120] S ==> wl:9 [120]\n",
    ),
    (
        "report -N",
        "            bash-7     [001]  6856.657171: sched_wakeup:         comm=wl pid=9 prio=120 target_cpu=001\n            bash-7     [001]  6856.657172: sched_switch:         prev_comm=bash prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=wl next_pid=9 next_prio=120\n",
    ),
    (
        "report -w",
        "            bash-7     [001]  6856.657171: sched_wakeup:         wl:9 [120] CPU:001\n            bash-7     [001]  6856.657172: sched_switch:         bash:7 [120] S ==> wl:9 [120] Latency: 1.000 usecs\n\nAverage wakeup latency: 1.000 usecs\nMaximum Latency: 1.000 usecs at timestamp: 6856.657172\nMinimum Latency: 1.000 usecs at timestamp: 6856.657172\n",
    ),
    (
        "report of two buffers",
        "  top:             bash-7     [001]  6856.657171: sched_wakeup:         wl:9 [120] CPU:001\n  foo:             bash-7     [001]  6856.657172: sched_switch:         bash:7 [120] S ==> wl:9 [120]\n",
    ),
    (
        "atrace with TGID",
        "TRACE:\n            bash-7     (    7) [001] d..2  6856.657171: sched_wakeup: comm=wl pid=9 prio=120 target_cpu=001\n            bash-7     (    7) [001] d..2  6856.657172: sched_switch: prev_comm=bash prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=wl next_pid=9 next_prio=120\n",
    ),
];

#[test]
fn one_history_in_every_dialect() {
    let (mut expected, _) = read(VARIANTS[0].1.as_bytes());
    assert_eq!(expected.len(), 2);
    for (dialect, text) in VARIANTS {
        let (events, report) = read(text.as_bytes());
        let flags = report.with_flags > 0;
        for (event, got) in expected.iter_mut().zip(&events) {
            event.flags = got.flags;
            assert_eq!(got.flags.irqs_off, flags, "{dialect}");
        }
        assert_eq!(events, expected, "{dialect}");
        assert_all_lines_accounted(&report);
        assert_eq!(report.unparsed_lines(), 0, "{dialect}: {report}");
    }
}

#[test]
fn latency_format_counts_from_the_first_event() {
    let text = "\
# tracer: nop
#
# nop latency trace v1.1.5 on 6.12.9
# --------------------------------------------------------------------
#  cmd     pid     |||||| time  |   caller
#     \\   /        ||||||  \\    |    /
    bash-7         1d..2.    0us+: sched_wakeup: comm=wl pid=9 prio=120 target_cpu=001
    bash-7         1d..2.   13us : sched_switch: prev_comm=bash prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=wl next_pid=9 next_prio=120
";
    let (events, report) = read(text.as_bytes());
    assert_eq!(
        Vec::from_iter(events.iter().map(|e| (e.ts, e.cpu, e.pid))),
        [(0, 1, 7), (13_000, 1, 7)]
    );
    assert_eq!(report.kernel_release.as_deref(), Some("6.12.9"));
    assert!(
        report.remarks[0].contains("from the first event"),
        "{report}"
    );
    assert_all_lines_accounted(&report);
}

/// The page of systrace gives what its text gives, and the page's own lines are notes.
#[test]
fn systrace_pages() {
    let text = text("yield.ftrace");
    let (expected, _) = read(text.as_bytes());
    // Longer than any line that is read, and more of it than is looked at to tell the format.
    let script = format!("<script>{}</script>\n", "var x = 1;".repeat(20_000));
    let modern = format!(
        "<!DOCTYPE html>\n<html>\n#style {{ }}\n{script}<!-- BEGIN TRACE -->\n  <script class=\"trace-data\" type=\"application/text\">\n{text}  </script>\n<!-- END TRACE -->\n</html>\n"
    );
    let old = format!(
        "<html>\n{script}<!-- BEGIN TRACE -->\n<script>\n  var linuxPerfData = \"\\\n{}</script>\n<!-- END TRACE -->\n</html>\n",
        text.replace('\n', "\\n\\\n")
    );
    for page in [modern, old] {
        let mut reader = schedlab_trace::open_stream(std::io::Cursor::new(page), "page").unwrap();
        let events: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
        assert_eq!(events, expected);
        let report = reader.report();
        assert_all_lines_accounted(&report);
        assert_eq!(report.unparsed_lines(), 0, "{report}");
    }
    let mut empty = FtraceTextReader::new(&b"<html>\n<body>1-2 [000]</body>\n"[..], "page");
    let error = empty.find_map(Result::err).unwrap().to_string();
    assert!(error.contains("HTML page without trace text"), "{error}");
}

/// Five switches and wakeups, one of them late (a report on a kernel list): the account says that one was reordered.
#[test]
fn reordering_is_reported() {
    let text = "\
            a-1     [000] d..2.  1494.663860: sched_wakeup: comm=b pid=2 prio=120 target_cpu=001
            a-1     [000] d..2.  1494.663950: sched_wakeup: comm=c pid=3 prio=120 target_cpu=000
            b-2     [001] d..2.  1494.663899: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=2 next_prio=120
            a-1     [000] d..2.  1504.098252: sched_wakeup: comm=b pid=2 prio=120 target_cpu=001
            b-2     [001] d..2.  1504.100353: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=2 next_prio=120
";
    let (_, report) = read(text.as_bytes());
    assert_eq!(
        (
            report.out_of_order,
            report.out_of_order_across_cpus,
            report.largest_step_back
        ),
        (1, 1, 51_000)
    );
    assert!(
        report.to_string().contains("\n1 event was reordered"),
        "{report}"
    );
}

#[test]
fn carriage_returns_are_no_part_of_a_line() {
    let text = CASE_56.replace('\n', "\r\n");
    assert_eq!(read(text.as_bytes()).0, read(CASE_56.as_bytes()).0);
}

#[test]
fn a_last_line_without_line_feed_is_taken_if_nothing_can_be_missing() {
    let front = "            bash-7     [001] d..2.     1.000001: ";
    let good = format!("{front}x: y\n");
    for (line, taken) in [
        (
            "sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120",
            true,
        ),
        (
            "sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=12",
            false,
        ),
        (
            "sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=49",
            true,
        ),
        ("sched_wakeup: comm=a pid=1 prio=120 target_cpu=001", true),
        ("sched_wakeup: comm=a pid=1 prio=120 target_cpu=00", false),
        ("sched_stat_runtime: comm=a pid=1 runtime=123 [ns]", true),
        ("sched_stat_runtime: comm=a pid=1 runtime=123", false),
        ("sched_switch:         a:1 [120] S ==> b:2 [120]", true),
        ("sched_switch:         a:1 [120] S ==> b:2 [12", false),
        (
            "sched_process_fork: comm=a pid=1 child_comm=b child_pid=2",
            false,
        ),
        ("enqueue: x=1", false),
    ] {
        let (events, report) = read(format!("{good}{front}{line}").as_bytes());
        assert_eq!(events.len(), 1 + usize::from(taken), "{line}");
        assert_eq!(report.truncated(), !taken, "{line}");
        assert_all_lines_accounted(&report);
    }
}

#[test]
fn long_lines_are_skipped_and_counted() {
    let front = "            bash-7     [001] d..2.     1.000001: x: ";
    let long = "y".repeat(70_000);
    let text = format!("{front}a\n{front}{long}\n{front}b\n{front}{long}");
    // A small buffer, so that lines straddle it.
    let input = std::io::BufReader::with_capacity(64, text.as_bytes());
    let mut reader = FtraceTextReader::new(input, "test");
    let fields: Vec<String> = reader
        .by_ref()
        .map(|e| match e.unwrap().kind {
            EventKind::Other { fields, .. } => fields,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(fields, ["a", "b"]);
    let report = reader.report();
    assert_all_lines_accounted(&report);
    let reasons: Vec<_> = report
        .unparsed
        .iter()
        .map(|u| (u.reason, u.count, u.first_line))
        .collect();
    assert_eq!(
        reasons,
        [
            (UnparsedReason::TooLong, 1, 2),
            (UnparsedReason::Truncated, 1, 4)
        ]
    );
}

#[test]
fn small_buffers_change_nothing() {
    let text = text("yield.ftrace");
    let whole = read(text.as_bytes());
    for size in [1, 7, 80, 4096] {
        let input = std::io::BufReader::with_capacity(size, text.as_bytes());
        let mut reader = FtraceTextReader::new(input, "test");
        let events: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
        assert_eq!((events, reader.report()), whole);
    }
}

#[test]
fn errors_name_the_trouble() {
    let fail = |bytes: &[u8]| {
        let mut reader = FtraceTextReader::new(bytes, "some.txt");
        let error = reader.find_map(Result::err).expect("an error");
        assert!(reader.next().is_none(), "ended after an error");
        error
    };
    assert!(matches!(fail(b""), ReadError::Empty { .. }));
    insta::assert_snapshot!(fail(b""), @"some.txt: the file is empty, expected a trace (for instance the text of /sys/kernel/tracing/trace)");
    insta::assert_snapshot!(fail(b"# tracer: nop\n#\n"), @"some.txt: no event in 2 lines; only comments and notes: was anything traced?");
    insta::assert_snapshot!(fail(b"hello\nworld\n"), @r#"some.txt: no event in 2 lines; 2 lines not read, the first is line 1 (no "name-pid [cpu] time:" at its beginning): hello"#);
    insta::assert_snapshot!(fail(b"\x7fELF\x02\x01\x01\0\0\0\0\nabc\n"), @"some.txt: this is an ELF program or object file; expected ftrace text (tracefs, `trace-cmd report` or systrace)");
    insta::assert_snapshot!(fail(&[7, 0, 1].repeat(40_000)), @"some.txt: this is binary data (starts with 07 00 01 07 00 01 07 00, first zero byte at offset 1); expected ftrace text (tracefs, `trace-cmd report` or systrace)");
}

#[test]
fn zero_bytes_after_good_events_are_counted() {
    let front = "            bash-7     [001] d..2.     1.000001: x: ";
    let text = format!("{front}a\n\0\0\0\0\n{front}b\0\n{front}c\n");
    let (events, report) = read(text.as_bytes());
    assert_eq!(events.len(), 2);
    assert_all_lines_accounted(&report);
    assert_eq!(report.unparsed[0].reason, UnparsedReason::ZeroBytes);
    assert_eq!(report.unparsed[0].count, 2);
}

/// Reads without looking at errors, then checks the account.
fn survive(bytes: &[u8]) -> (usize, bool) {
    let mut reader = FtraceTextReader::new(bytes, "test");
    let mut failed = false;
    let mut events = 0;
    for item in reader.by_ref() {
        failed |= item.is_err();
        events += usize::from(item.is_ok());
    }
    if !failed {
        assert_all_lines_accounted(&reader.report());
    }
    assert_eq!(reader.report().events, events as u64);
    (events, failed)
}

#[test]
fn cut_at_every_byte() {
    let (all, _) = read(CASE_56.as_bytes());
    for end in 0..=CASE_56.len() {
        let part = &CASE_56.as_bytes()[..end];
        let (events, failed) = survive(part);
        assert_eq!(failed, events == 0, "cut at {end}");
        if !failed {
            // Whatever was read is a prefix of what the whole file gives.
            assert_eq!(read(part).0, all[..events], "cut at {end}");
        }
    }
}

#[test]
fn a_recording_cut_at_every_byte_of_its_last_lines() {
    let text = text("yield.ftrace");
    let (all, _) = read(text.as_bytes());
    for end in text.len() - 2000..=text.len() {
        let (events, report) = read(&text.as_bytes()[..end]);
        assert_eq!(events, all[..events.len()], "cut at {end}");
        assert!(all.len() - events.len() < 25);
        let whole_lines = text.as_bytes()[end - 1] == b'\n';
        assert!(!(whole_lines && report.truncated()), "cut at {end}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn byte_soup(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        survive(&bytes);
        let _ = schedlab_trace::open_stream(std::io::Cursor::new(bytes), "soup")
            .map(|reader| reader.count());
    }

    /// Soup with the letters that the parsers look for.
    #[test]
    fn tasty_soup(text in "([ \\-\\[\\]():.=>#|0-9a-zA-Z+\n]|prev_pid=|comm=| ==> |\\[000\\]|1\\.5: |sched_switch: |CPU:|bash-1 ){0,200}") {
        survive(text.as_bytes());
    }

    /// One changed byte in a good file costs at most the lines that it touches.
    #[test]
    fn changed_byte(at in 0..CASE_56.len(), byte in any::<u8>()) {
        let mut bytes = CASE_56.as_bytes().to_vec();
        bytes[at] = byte;
        let (events, failed) = survive(&bytes);
        let (all, _) = read(CASE_56.as_bytes());
        if !failed {
            prop_assert!(events + 2 >= all.len() && events <= all.len() + 2);
        }
    }
}
