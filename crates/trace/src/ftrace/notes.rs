//! Lines that are no events and still say something about the recording.

use super::prefix::{CPU_LIMIT, digits};
use crate::format::excerpt;
use crate::read::Tally;

/// A line that speaks of the recording.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// `CPU:0 [LOST 12 EVENTS]` of tracefs, `CPU:0 [12 EVENTS DROPPED]` of trace-cmd; without a number if unknown.
    Lost(u32, Option<u64>),
    /// `CPU 3 is empty`.
    Empty(u32),
    /// `cpus=2`.
    Cpus(u32),
    /// `version = 6` of trace-cmd, `TRACE:` of atrace and the like: nothing to keep.
    Plain,
}

/// Beginnings of lines that trace-cmd (`-V`, `-w`, `--stat`, `--uname`) and atrace print about themselves.
const PLAIN: [&[u8]; 10] = [
    b"version = ",
    b"registering plugin: ",
    b"overriding event ",
    b"removing override handler ",
    b"trace-cmd version ",
    b"Average wakeup latency: ",
    b"Maximum Latency: ",
    b"Minimum Latency: ",
    b"Kernel buffer statistics:",
    b"capturing trace...",
];

/// Recognises a note.
pub(super) fn parse(line: &[u8]) -> Option<Note> {
    let line = line.trim_ascii();
    if let Some(rest) = line.strip_prefix(b"cpus=") {
        return whole_number(rest)
            .and_then(|n| u32::try_from(n).ok())
            .map(Note::Cpus);
    }
    if line == b"TRACE:" || PLAIN.iter().any(|start| line.starts_with(start)) {
        return Some(Note::Plain);
    }
    let rest = line.strip_prefix(b"CPU")?;
    if let Some(rest) = rest.strip_prefix(b":") {
        let (cpu, rest) = cpu(rest)?;
        let inner = rest.trim_ascii_start().strip_prefix(b"[")?;
        let inner = inner.strip_suffix(b"]")?;
        let number = match inner {
            b"LOST EVENTS" | b"EVENTS DROPPED" => None,
            _ => {
                let number = inner
                    .strip_prefix(b"LOST ")
                    .and_then(|i| i.strip_suffix(b" EVENTS"))
                    .or_else(|| inner.strip_suffix(b" EVENTS DROPPED"))?;
                Some(whole_number(number)?)
            }
        };
        return Some(Note::Lost(cpu, number));
    }
    let (cpu, rest) = cpu(rest.strip_prefix(b" ")?)?;
    (rest == b" is empty").then_some(Note::Empty(cpu))
}

/// Keeps what a comment line (`#...`) tells.
pub(super) fn comment(line: &[u8], tally: &mut Tally) {
    // "# wakeup latency trace v1.1.5 on 6.12.0"
    let release = memchr::memmem::find(line, b" latency trace v")
        .and_then(|at| Some(&line[at + memchr::memmem::find(&line[at..], b" on ")? + 4..]));
    if let Some(release) = release.map(<[u8]>::trim_ascii) {
        tally.plain.kernel_release = Some(excerpt(release, 64));
    }
    // The header of perf script: "# os release : 6.18.44", "# nrcpus online : 2"
    if let Some(release) = line.strip_prefix(b"# os release : ") {
        tally.plain.kernel_release = Some(excerpt(release.trim_ascii(), 64));
    } else if let Some(cpus) = line.strip_prefix(b"# nrcpus online : ") {
        tally.plain.cpus_declared =
            whole_number(cpus.trim_ascii()).and_then(|n| u32::try_from(n).ok());
    }
    // "# entries-in-buffer/entries-written: 6365/6365   #P:1"
    let Some(rest) = line.strip_prefix(b"# entries-in-buffer/entries-written:") else {
        return;
    };
    let rest = rest.trim_ascii();
    let Some((Some(kept), len)) = digits(rest) else {
        return;
    };
    let Some((Some(written), len)) = rest[len..].strip_prefix(b"/").and_then(|r| {
        let (value, used) = digits(r)?;
        Some((value, len + 1 + used))
    }) else {
        return;
    };
    let lost = written.saturating_sub(kept);
    tally.plain.overwritten = tally.plain.overwritten.saturating_add(lost);
    if let Some(cpus) = rest[len..].trim_ascii_start().strip_prefix(b"#P:") {
        tally.plain.cpus_declared = whole_number(cpus).and_then(|n| u32::try_from(n).ok());
    }
}

fn cpu(text: &[u8]) -> Option<(u32, &[u8])> {
    let (value, len) = digits(text)?;
    let value = value.filter(|&v| v < CPU_LIMIT)?;
    Some((u32::try_from(value).ok()?, &text[len..]))
}

fn whole_number(text: &[u8]) -> Option<u64> {
    let (value, len) = digits(text)?;
    (len == text.len()).then_some(value)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes() {
        for (line, note) in [
            ("CPU:0 [LOST 12 EVENTS]", Note::Lost(0, Some(12))),
            ("CPU:11 [LOST EVENTS]", Note::Lost(11, None)),
            ("CPU:1 [12 EVENTS DROPPED]", Note::Lost(1, Some(12))),
            ("CPU:1 [EVENTS DROPPED]", Note::Lost(1, None)),
            ("CPU 3 is empty", Note::Empty(3)),
            ("cpus=16", Note::Cpus(16)),
            ("version = 7", Note::Plain),
            ("TRACE:", Note::Plain),
        ] {
            assert_eq!(parse(line.as_bytes()), Some(note), "{line}");
        }
        for line in [
            "CPU 3 is full",
            "CPU 70000 is empty",
            "CPU:0 [LOST x EVENTS]",
            "CPU:0",
            "cpus=",
            "cpus=2 and more",
        ] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn header() {
        let mut tally = Tally::default();
        comment(
            b"# entries-in-buffer/entries-written: 100/350   #P:4",
            &mut tally,
        );
        assert_eq!(tally.plain.overwritten, 250);
        assert_eq!(tally.plain.cpus_declared, Some(4));
        comment(b"# nop latency trace v1.1.5 on 6.12.0-rc1+", &mut tally);
        assert_eq!(tally.plain.kernel_release.as_deref(), Some("6.12.0-rc1+"));
        comment(b"# entries-in-buffer/entries-written: x", &mut tally);
        comment(b"# entries-in-buffer/entries-written: 5/", &mut tally);
        assert_eq!(tally.plain.overwritten, 250);
    }
}
