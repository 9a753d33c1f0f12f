//! Opening files: compression and format are told by content, and what cannot be read is named.

mod common;

use std::io::{Cursor, Write};

use common::{path, read, text};
use schedlab_trace::{Format, ReadError, open, open_stream};

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(data).unwrap();
    out.finish().unwrap()
}

fn xz(data: &[u8]) -> Vec<u8> {
    let mut out = liblzma::write::XzEncoder::new(Vec::new(), 1);
    out.write_all(data).unwrap();
    out.finish().unwrap()
}

fn zst(data: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(data, 1).unwrap()
}

#[test]
fn compressions() {
    let text = text("yield.ftrace");
    let (expected, report) = read(text.as_bytes());
    let plain = text.as_bytes().to_vec();
    for data in [
        plain,
        gzip(text.as_bytes()),
        xz(text.as_bytes()),
        zst(text.as_bytes()),
    ] {
        // Named .xz whatever it is: the name plays no part.
        let mut file = tempfile::Builder::new().suffix(".xz").tempfile().unwrap();
        file.write_all(&data).unwrap();
        let mut reader = open(file.path()).unwrap();
        assert_eq!(reader.format(), Format::FtraceText);
        let events: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
        assert_eq!(events, expected);
        assert_eq!(reader.report(), report);
    }
    assert_eq!(open(path("yield.trace-cmd")).unwrap().count(), 479);
}

#[test]
fn several_streams_in_one_file() {
    let text = text("yield.ftrace");
    let half = text.len() / 2;
    let (a, b) = text.as_bytes().split_at(half);
    for data in [
        [gzip(a), gzip(b)].concat(),
        [xz(a), xz(b)].concat(),
        [zst(a), zst(b)].concat(),
    ] {
        let events = open_stream(Cursor::new(data), "two").unwrap();
        assert_eq!(events.count(), 479);
    }
}

#[test]
fn a_cut_compressed_file_gives_its_events_and_then_an_error() {
    let text = text("forks.ftrace");
    let (all, _) = read(text.as_bytes());
    for (kind, data) in [
        ("gzip", gzip(text.as_bytes())),
        ("xz", xz(text.as_bytes())),
        ("zstd", zst(text.as_bytes())),
    ] {
        let data = data[..data.len() * 2 / 3].to_vec();
        let mut reader = open_stream(Cursor::new(data), "cut").unwrap();
        let mut events = Vec::new();
        let mut error = None;
        for item in reader.by_ref() {
            match item {
                Ok(event) => events.push(event),
                Err(e) => error = Some(e),
            }
        }
        assert!(
            matches!(error, Some(ReadError::Io { .. })),
            "{kind}: {error:?}"
        );
        assert_eq!(events, all[..events.len()], "{kind}");
        // The xz text is one block and may give little.
        assert!(
            kind == "xz" || events.len() > 100,
            "{kind}: {}",
            events.len()
        );
        assert!(reader.next().is_none());
    }
}

#[test]
fn refusals() {
    let refuse = |data: &[u8]| match open_stream(Cursor::new(data.to_vec()), "it") {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    };
    insta::assert_snapshot!(refuse(b""), @"it: the file is empty, expected a trace (for instance the text of /sys/kernel/tracing/trace)");
    insta::assert_snapshot!(refuse(&gzip(b"")), @"it: the file is empty, expected a trace (for instance the text of /sys/kernel/tracing/trace)");
    insta::assert_snapshot!(refuse(b"PERFILE2\x68\0\0\0\0\0\0\0"), @"it: reading stopped at offset 16 (0 events before it): expected a section of 104 bytes from byte 0 on, found the end of the file");
    insta::assert_snapshot!(refuse(b"\x17\x08\x44tracing7\0\0\x08"), @"it: reading stopped at offset 14 (0 events before it): expected the page size, found the end of the file");
    insta::assert_snapshot!(refuse(b"{\"traceEvents\": []}\n"), @"it: this is JSON text; expected ftrace text (tracefs, `trace-cmd report` or systrace)");
    insta::assert_snapshot!(refuse(b"\x7fELF\x02\x01\x01\0"), @"it: this is an ELF program or object file; expected ftrace text (tracefs, `trace-cmd report` or systrace)");
    insta::assert_snapshot!(refuse(b"#include <stdio.h>\nint main() {}\n"), @r##"it: this is other text, beginning with "#include <stdio.h>"; expected ftrace text (tracefs, `trace-cmd report` or systrace)"##);
    insta::assert_snapshot!(refuse(&gzip(&xz(b"x"))), @"it: this is xz data packed once more with gzip; expected ftrace text (tracefs, `trace-cmd report` or systrace)");
    insta::assert_snapshot!(refuse(b"\x1f\x8b\x08\0broken"), @"it: reading stopped after line 0 (0 events): incomplete deflate stream (is the file cut?)");
    let missing = open("/nonexistent/trace.txt").err().unwrap().to_string();
    assert!(
        missing.starts_with("/nonexistent/trace.txt: cannot open"),
        "{missing}"
    );
}

#[test]
fn a_directory_of_perf_threads_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("data"), b"PERFILE2\x68\0\0\0\0\0\0\0").unwrap();
    std::fs::write(dir.path().join("data.0"), b"").unwrap();
    let Err(error) = open(dir.path()) else {
        panic!("it was opened");
    };
    let error = error.to_string();
    assert!(error.contains("perf record --threads"), "{error}");
}
