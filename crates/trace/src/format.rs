//! What a file is, told from its first bytes.

use std::fmt;

use crate::{ftrace, ndjson, tracedat};

/// How many bytes from the start of a stream [`Format::detect`] should be shown to be sure.
///
/// Long enough for the comment block of tracefs and the statistics that some tools put before the first event.
pub const HEAD_BYTES: usize = 64 * 1024;

/// Trace formats that [`open`](crate::open) reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Format {
    /// Text of tracefs, `trace-cmd report` or Android's systrace.
    FtraceText,
    /// Text of `perf script`.
    PerfScript,
    /// A `perf.data` file, or what perf writes into a pipe.
    PerfData,
    /// A `trace.dat` file of trace-cmd.
    TraceDat,
    /// A Perfetto protobuf trace.
    Perfetto,
    /// A directory with ring-buffer pages of each CPU (`trace_pipe_raw`) and the format files.
    RawPages,
    /// NDJSON of schedlab itself.
    Ndjson,
}

impl Format {
    /// Tells the format of uncompressed data from its beginning, `None` if it is none of ours.
    ///
    /// Show it at least [`HEAD_BYTES`] bytes if the stream has that many.
    #[must_use]
    pub fn detect(head: &[u8]) -> Option<Self> {
        // Magic numbers: tools/perf (`PERFILE2`, either byte order) and trace-cmd.dat.v7(5).
        if head.starts_with(b"PERFILE2") || head.starts_with(b"2ELIFREP") {
            return Some(Self::PerfData);
        }
        if head.starts_with(tracedat::MAGIC) {
            return Some(Self::TraceDat);
        }
        if looks_like_perfetto(head) {
            return Some(Self::Perfetto);
        }
        // The page of systrace holds its text behind megabytes of script.
        if ftrace::begins_page(head) {
            return Some(Self::FtraceText);
        }
        for line in whole_lines(head) {
            if ftrace::is_event_line(line)
                || ftrace::is_note(line)
                || line.starts_with(b"# tracer:")
            {
                return Some(Self::FtraceText);
            }
            if ndjson::is_line(line) {
                return Some(Self::Ndjson);
            }
            if ftrace::is_perf_script_line(line) || line == b"# ========" {
                return Some(Self::PerfScript);
            }
        }
        None
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::FtraceText => "ftrace text",
            Self::PerfScript => "perf script text",
            Self::PerfData => "a perf.data file",
            Self::TraceDat => "a trace.dat file (trace-cmd)",
            Self::Perfetto => "a Perfetto protobuf trace",
            Self::RawPages => "a directory of ring-buffer pages",
            Self::Ndjson => "NDJSON (schedlab.trace)",
        })
    }
}

/// Compressions that [`open`](crate::open) undoes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Compression {
    /// xz.
    Xz,
    /// zstd.
    Zstd,
    /// gzip.
    Gzip,
}

impl Compression {
    /// Tells the compression from the first six bytes.
    #[must_use]
    pub fn detect(head: &[u8]) -> Option<Self> {
        if head.starts_with(b"\xfd7zXZ\0") {
            Some(Self::Xz)
        } else if head.starts_with(b"\x28\xb5\x2f\xfd") {
            Some(Self::Zstd)
        } else if head.starts_with(b"\x1f\x8b") {
            Some(Self::Gzip)
        } else {
            None
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        })
    }
}

/// Says in a few words what unknown data seems to be, for an error message.
#[must_use]
pub(crate) fn describe_unknown(head: &[u8]) -> String {
    const MAGICS: [(&[u8], &str); 9] = [
        (b"\x7fELF", "an ELF program or object file"),
        (b"BZh", "bzip2-compressed data"),
        (b"\x04\x22\x4d\x18", "lz4-compressed data"),
        (b"PK\x03\x04", "a zip archive"),
        (b"\x89PNG", "a PNG picture"),
        (b"%PDF", "a PDF document"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\xc1\x1f\xfc\xc1", "a CTF trace stream (LTTng)"),
        (b"\xff\xfe", "UTF-16 text"),
    ];
    if let Some((_, name)) = MAGICS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return (*name).to_owned();
    }
    if let Some(nul) = head.iter().position(|&b| b == 0) {
        let start = &head[..head.len().min(8)];
        let hex: Vec<String> = start.iter().map(|b| format!("{b:02x}")).collect();
        return format!(
            "binary data (starts with {}, first zero byte at offset {nul})",
            hex.join(" ")
        );
    }
    let text = head.trim_ascii_start();
    if text.starts_with(b"{") || text.starts_with(b"[") {
        return "JSON text".to_owned();
    }
    match text.split(|&b| b == b'\n').next() {
        Some(line) if !line.is_empty() => {
            format!("other text, beginning with \"{}\"", excerpt(line, 60))
        }
        _ => "blank text".to_owned(),
    }
}

/// At most `max` bytes of a line as printable text.
pub(crate) fn excerpt(line: &[u8], max: usize) -> String {
    let cut = line.len() > max;
    let mut out = line[..line.len().min(max)].escape_ascii().to_string();
    // Quotes and backslashes need no escaping here.
    out = out
        .replace("\\\"", "\"")
        .replace("\\'", "'")
        .replace("\\\\", "\\");
    if cut {
        out.push_str("...");
    }
    out
}

/// The lines of a text up to the last line feed, and the rest if the text has none at all.
fn whole_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = memchr::memrchr(b'\n', head).unwrap_or(head.len());
    head[..end]
        .split(|&b| b == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// A stream of length-delimited fields number 1, each starting with a plausible field key of a `TracePacket`.
fn looks_like_perfetto(head: &[u8]) -> bool {
    let mut rest = head;
    let mut packets = 0;
    while packets < 8 && !rest.is_empty() {
        let Some(after_tag) = rest.strip_prefix(&[0x0a]) else {
            return false;
        };
        let mut len = 0usize;
        let mut used = 0;
        for (i, &byte) in after_tag.iter().take(4).enumerate() {
            len |= usize::from(byte & 0x7f) << (7 * i);
            used = i + 1;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let Some(body) = after_tag.get(used..) else {
            return false;
        };
        if used == 0 || len == 0 {
            return false;
        }
        // Wire types 0, 1, 2 and 5 exist, field number 0 does not. "\n\n..." of a text fails at the second byte
        // because its length would run into letters; require one sure packet below.
        match body.first() {
            Some(&key) if matches!(key & 7, 0 | 1 | 2 | 5) && key >> 3 != 0 => {}
            _ => return packets > 0,
        }
        packets += 1;
        match body.get(len..) {
            Some(next) => rest = next,
            // The head ends within this packet: that is the normal end, but text such as "\nabc" also gets here.
            None => return packets > 1 || head.contains(&0),
        }
    }
    packets > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magics() {
        assert_eq!(Format::detect(b"PERFILE2\x68\0\0"), Some(Format::PerfData));
        assert_eq!(
            Format::detect(b"\x17\x08\x44tracing7\0"),
            Some(Format::TraceDat)
        );
        assert_eq!(Compression::detect(b"\xfd7zXZ\0"), Some(Compression::Xz));
        assert_eq!(
            Compression::detect(b"\x1f\x8b\x08\0"),
            Some(Compression::Gzip)
        );
        assert_eq!(Compression::detect(b"# tracer"), None);
    }

    #[test]
    fn text_dialects() {
        let perf =
            b"          :29811 29811 [000]  6843.066893: sched:sched_stat_runtime: comm=perf\n";
        assert_eq!(Format::detect(perf), Some(Format::PerfScript));
        let perf = b"swapper     0/0     [000]  6843.067320603:       sched:sched_switch: prev\n";
        assert_eq!(Format::detect(perf), Some(Format::PerfScript));
        let ftrace = b"  my 1 [2]-7   [000]  6843.067320603: sched_switch: prev\n";
        assert_eq!(Format::detect(ftrace), Some(Format::FtraceText));
        assert_eq!(Format::detect(b"cpus=2\n"), Some(Format::FtraceText));
        assert_eq!(Format::detect(b"# tracer: nop\n"), Some(Format::FtraceText));
        assert_eq!(Format::detect(b"\n\nfn main() {}\n"), None);
        assert_eq!(Format::detect(b"fn main() {}\n"), None);
    }

    #[test]
    fn perfetto_packets() {
        // Two packets: {timestamp: 1}, {trusted_packet_sequence_id: 1}.
        assert_eq!(
            Format::detect(&[0x0a, 2, 0x40, 1, 0x0a, 2, 0x50, 1]),
            Some(Format::Perfetto)
        );
        assert_eq!(Format::detect(&[0x0a, 0]), None);
    }

    #[test]
    fn unknown_things_get_a_name() {
        assert_eq!(
            describe_unknown(b"\x7fELF\x02"),
            "an ELF program or object file"
        );
        assert_eq!(describe_unknown(b" {\"a\": 1}"), "JSON text");
        assert_eq!(
            describe_unknown(b"\x01\0\x02"),
            "binary data (starts with 01 00 02, first zero byte at offset 1)"
        );
        assert_eq!(
            describe_unknown(b"hello world\nx"),
            "other text, beginning with \"hello world\""
        );
        assert_eq!(describe_unknown(b"\n"), "blank text");
    }
}
