//! Directories of ring-buffer pages.

#[path = "common/binary.rs"]
mod binary;
mod common;

use std::fs;
use std::path::Path;

use binary::{PLAIN, Shape};
use common::{read, text};
use schedlab_trace::{Event, EventKind, Format, ReadReport, UnparsedReason, open};
use schedlab_tracefmt::Endian;

/// Copies a folder of the recordings and unpacks what ends with `.xz`.
fn unpack(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            unpack(&path, &target);
        } else if path.extension().is_some_and(|e| e == "xz") {
            fs::write(target.with_extension(""), common::unxz(&path)).unwrap();
        } else {
            fs::copy(&path, target).unwrap();
        }
    }
}

fn directory(names: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in names {
        unpack(&common::fixture(name), dir.path());
    }
    dir
}

fn good(dir: &Path) -> (Vec<Event>, ReadReport) {
    let mut reader = open(dir).unwrap();
    assert_eq!(reader.format(), Format::RawPages);
    let events = reader.by_ref().map(Result::unwrap).collect();
    (events, reader.report())
}

/// Where the kernel's text has what only its memory holds: hashed pointers, names of functions, its own print of system
/// calls.
fn comparable(event: &Event) -> bool {
    match &event.kind {
        EventKind::Other { name, .. } => !matches!(
            name.as_str(),
            "hrtimer_expire_entry"
                | "kmalloc"
                | "timer_start"
                | "workqueue_execute_start"
                | "print"
                | "tracing_mark_write"
                | "sys_enter_openat"
        ),
        _ => true,
    }
}

#[test]
fn pages_equal_the_kernels_own_text() {
    let dir = directory(&["raw-pages"]);
    let (mut events, report) = good(dir.path());
    assert_eq!((report.records, report.events), (623, 623));
    assert_eq!(report.clock.as_deref(), Some("local"));
    assert!(report.unparsed.is_empty(), "{:?}", report.unparsed);
    let brief = |name: &str| {
        let found = events.iter().find(|e| e.kind.name() == name);
        match &found.unwrap().kind {
            EventKind::Other { fields, .. } => fields.clone(),
            other => panic!("{other:?}"),
        }
    };
    // What the kernel prints with a print of its own, we print by the format.
    assert_eq!(
        brief("sys_enter_openat"),
        "dfd: 0xffffff9c, filename: 0x556f0f826010, flags: 0x00000241, mode: 0x000001b6"
    );
    assert!(
        brief("print").ends_with(": hello world"),
        "{}",
        brief("print")
    );
    assert!(report.remarks.contains(
        &"timer_start: fields of 10 events have addresses where the kernel prints names".to_owned()
    ));
    for event in &mut events {
        event.ts = (event.ts + 500) / 1000 * 1000;
    }
    let (mut by_kernel, _) = read(text("raw-pages.ftrace").as_bytes());
    events.retain(comparable);
    by_kernel.retain(comparable);
    assert_eq!(events.len(), 472);
    assert_eq!(events, by_kernel);
}

#[test]
fn losses_come_from_the_pages() {
    let dir = directory(&["raw-pages", "raw-pages-lossy"]);
    let (_, report) = good(dir.path());
    let lost: Vec<_> = report
        .cpus
        .iter()
        .map(|cpu| (cpu.cpu, cpu.lost_events, cpu.lost_unknown))
        .collect();
    assert_eq!(lost, [(0, 820 + 1155 + 818, 0), (1, 171 + 344 + 343, 0)]);
}

fn made(shape: Shape, pages: &[Vec<u8>]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, data: &[u8]| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, data).unwrap();
    };
    write("events/header_page", shape.header_page().as_bytes());
    let [switch, waking] = shape.formats();
    write("events/sched/sched_switch/format", switch.as_bytes());
    write("events/sched/sched_waking/format", waking.as_bytes());
    write("per_cpu/cpu3/trace_pipe_raw", &pages.concat());
    write("per_cpu/cpu4/trace_pipe_raw", b"");
    write("per_cpu/odd/trace_pipe_raw", b"not looked at");
    write("per_cpu/cpu3/stats", b"entries: 3\noverrun: 2\n");
    dir
}

#[test]
fn the_byte_order_is_found() {
    for endian in [Endian::Little, Endian::Big] {
        for long_size in [4, 8] {
            let shape = Shape {
                endian,
                long_size,
                ..PLAIN
            };
            let page = shape.page(&[(5, shape.waking(9, "a")), (7, shape.switch(1))], 0, None);
            let dir = made(shape, &[page]);
            let (events, report) = good(dir.path());
            let brief: Vec<_> = events.iter().map(|e| (e.ts, e.cpu, e.pid)).collect();
            assert_eq!(brief, [(5, 3, 7), (7, 3, 7)], "{shape:?}");
            assert_eq!(report.empty_cpus, [4]);
            assert_eq!(
                report.remarks,
                ["CPU 3: 2 events were overwritten, by the kernel's counter"]
            );
        }
    }
}

#[test]
fn a_cut_dump_says_so_at_every_byte() {
    let shape = PLAIN;
    let page = shape.page(&[(5, shape.waking(9, "a")), (7, shape.switch(1))], 0, None);
    let dir = made(shape, &[page.clone(), page.clone()]);
    let dump = dir.path().join("per_cpu/cpu3/trace_pipe_raw");
    let two = [page.clone(), page.clone()].concat();
    for len in 1..two.len() {
        fs::write(&dump, &two[..len]).unwrap();
        let mut reader = open(dir.path()).unwrap();
        let results: Vec<_> = reader.by_ref().collect();
        let report = reader.report();
        let whole = len % page.len() == 0;
        assert!(whole || report.truncated(), "{len}: {report:?}");
        assert!(
            results.iter().all(Result::is_ok) || report.events == 0,
            "{len}"
        );
        let reasons: Vec<_> = report.unparsed.iter().map(|u| u.reason).collect();
        assert!(
            whole || reasons == [UnparsedReason::TruncatedRecord],
            "{len}"
        );
    }
}

fn refuse(dir: &Path) -> String {
    match open(dir) {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string().replace(&dir.display().to_string(), "DIR"),
    }
}

#[test]
fn refusals() {
    let dir = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(refuse(dir.path()), @"DIR: this is a directory without events/header_page (see docs/formats/raw-pages.md); expected ftrace text (tracefs, `trace-cmd report` or systrace)");
    let dir = made(PLAIN, &[]);
    fs::write(dir.path().join("events/header_page"), "field: x").unwrap();
    insta::assert_snapshot!(refuse(dir.path()), @"DIR/events/header_page: reading stopped at offset 0 (0 events before it): expected a description of ring-buffer pages, found header_page: line 1: expected offset: and a number: field: x");
    let dir = made(PLAIN, &[]);
    fs::write(dir.path().join("events/header_event"), "type_len : 3 bits").unwrap();
    insta::assert_snapshot!(refuse(dir.path()), @"DIR/events/header_event: reading stopped at offset 0 (0 events before it): expected a description of ring-buffer pages, found header_event: expected \"type_len : 5 bits\" (record headers of 5 and 27 bits, kernels from 2.6.31 on)");
    let dir = made(PLAIN, &[]);
    fs::remove_dir_all(dir.path().join("per_cpu")).unwrap();
    insta::assert_snapshot!(refuse(dir.path()), @"DIR/per_cpu: cannot open the trace: No such file or directory (os error 2)");
    let dir = made(PLAIN, &[]);
    let error = open(dir.path()).unwrap().next().unwrap().unwrap_err();
    assert!(
        error.to_string().ends_with("was anything traced?"),
        "{error}"
    );
    // A format that cannot be used is no reason to stop.
    let page = PLAIN.page(&[(5, PLAIN.waking(9, "a"))], 0, None);
    let dir = made(PLAIN, &[page]);
    fs::write(dir.path().join("events/sched/sched_switch/format"), "x").unwrap();
    let (_, report) = good(dir.path());
    assert!(report.remarks[0].contains("sched_switch/format is not usable: no line \"ID:\""));
}
