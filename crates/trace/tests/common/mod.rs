//! What the test files share.
#![allow(dead_code)]

use std::io::Read;
use std::path::{Path, PathBuf};

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

/// Path of a file or folder among the recordings.
pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// Path of a recording.
pub(crate) fn path(name: &str) -> PathBuf {
    fixture(&format!("{name}.txt.xz"))
}

/// Content of an xz file.
pub(crate) fn unxz(path: &Path) -> Vec<u8> {
    let file = std::fs::File::open(path).unwrap();
    let mut data = Vec::new();
    liblzma::read::XzDecoder::new(file)
        .read_to_end(&mut data)
        .unwrap();
    data
}

/// Unpacked text of a recording.
pub(crate) fn text(name: &str) -> String {
    String::from_utf8(unxz(&path(name))).unwrap()
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
