//! What the test files share.
#![allow(dead_code)]

use std::io::Read;
use std::path::PathBuf;

use schedlab_trace::{Event, FtraceTextReader, ReadReport, Reader};

/// Recordings of tracefs text.
pub(crate) const TRACEFS: [&str; 6] = [
    "yield.ftrace",
    "forks.ftrace",
    "hogs.ftrace",
    "sleepers.ftrace",
    "hogs2_slice.state",
    "hogs_n1.flat2",
];

/// Path of a recording.
pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(format!("{name}.txt.xz"))
}

/// Unpacked text of a recording.
pub(crate) fn text(name: &str) -> String {
    let file = std::fs::File::open(path(name)).unwrap();
    let mut text = String::new();
    liblzma::read::XzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// Reads text to its end; panics on an error.
pub(crate) fn read(text: &[u8]) -> (Vec<Event>, ReadReport) {
    let mut reader = FtraceTextReader::new(text, "test");
    let events = reader.by_ref().map(Result::unwrap).collect();
    (events, reader.report())
}

/// Every line must have gone somewhere.
pub(crate) fn assert_all_lines_accounted(report: &ReadReport) {
    assert_eq!(
        report.lines,
        report.events + report.comments + report.blank + report.notes + report.unparsed_lines(),
        "{report:?}"
    );
    let by_type: u64 = report.events_by_type.values().sum();
    let by_cpu: u64 = report.cpus.iter().map(|c| c.events).sum();
    assert_eq!((by_type, by_cpu), (report.events, report.events));
}
