//! The front of a line of `perf script`: `name tid [cpu] seconds.fraction: [period] event:`.
//!
//! Layout as in `perf_sample__fprintf_start` of tools/perf. The fields are those of the kernel's own print, so all else is shared
//! with ftrace text. With call chains the name is not padded, and each event is followed by one line per frame and a blank one.

use std::collections::HashMap;

use super::prefix::{Cursor, Flags, Prefix, digits};
use crate::{EventKind, Pid};

/// Columns that the name is right-aligned in.
const NAME_COLUMNS: usize = 16;

/// What is carried from line to line.
#[derive(Default)]
pub(super) struct Lines {
    /// Who was switched in last, by CPU. Only looked up.
    current: HashMap<u32, Pid>,
}

impl Lines {
    /// The task that was current: perf prints -1 for one that is beyond its exit.
    pub(super) fn current(&mut self, printed: Pid, cpu: u32, kind: &EventKind) -> Pid {
        let current = match kind {
            EventKind::SchedSwitch { prev, next, .. } => {
                self.current.insert(cpu, next.pid);
                Some(prev.pid)
            }
            _ if printed < 0 => self.current.get(&cpu).copied(),
            _ => None,
        };
        current.filter(|_| printed < 0).unwrap_or(printed)
    }
}

/// Takes the front of a line apart; `None` if it is no event line.
pub(super) fn parse(line: &[u8]) -> Option<Prefix<'_>> {
    if line.get(NAME_COLUMNS) == Some(&b' ')
        && let Some(found) = after_name(line, NAME_COLUMNS)
    {
        return Some(found);
    }
    // Not padded, or no name at all: the first blank behind which all the rest fits.
    let searched = &line[..line.len().min(256)];
    if searched.first()? == &b'\t' {
        return None;
    }
    memchr::memchr_iter(b' ', searched).find_map(|blank| after_name(line, blank))
}

fn after_name(line: &[u8], blank: usize) -> Option<Prefix<'_>> {
    let mut at = Cursor {
        text: line,
        pos: blank,
    };
    at.blanks();
    // `tid`, or `pid/tid`.
    let mut tid = number(&mut at)?;
    if at.peek() == Some(b'/') {
        at.pos += 1;
        tid = number(&mut at)?;
    }
    if !at.blanks() {
        return None;
    }
    at.expect(b'[')?;
    let cpu = at.number()?;
    at.expect(b']')?;
    at.blanks();
    let (ts, rest) = at.time()?;
    let name = line[..blank].trim_ascii();
    Some(Prefix {
        // `<...>` is what our own writer and ftrace put for a name that is not known, `:7` what perf does.
        comm: if name == b"<...>" || is_number_name(name, tid) {
            b""
        } else {
            name
        },
        pid: tid,
        cpu,
        flags: Flags::Absent,
        ts,
        buffer: None,
        rest: without_period(rest),
    })
}

/// A number with an optional minus.
fn number(at: &mut Cursor<'_>) -> Option<Pid> {
    let negative = at.expect(b'-').is_some();
    let value = i64::try_from(at.number()?).ok()?;
    Pid::try_from(if negative { -value } else { value }).ok()
}

/// `:123`, which perf prints for a task 123 whose name it does not know.
fn is_number_name(name: &[u8], tid: Pid) -> bool {
    let number = name.strip_prefix(b":");
    number.is_some_and(|number| number == tid.to_string().as_bytes())
}

/// Skips the period that stands in front of the event's name with `-F +period`.
fn without_period(rest: &[u8]) -> &[u8] {
    match digits(rest) {
        Some((_, len)) if rest.get(len) == Some(&b' ') => rest[len..].trim_ascii_start(),
        _ => rest,
    }
}

/// Whether a line is a frame of a call chain: `ffffffff821f8b58 __schedule+0x618 ([kernel.kallsyms])`.
pub(super) fn is_frame(line: &[u8]) -> bool {
    let Some(text) = line.strip_prefix(b"\t") else {
        return false;
    };
    let text = text.trim_ascii_start();
    let address = text.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    (1..=16).contains(&address) && matches!(text.get(address), None | Some(b' '))
}

/// A record that perf shows between the events (`--show-lost-events` and the like); for losses the number.
pub(super) fn record(rest: &[u8]) -> Option<Option<u64>> {
    let name = rest.strip_prefix(b"PERF_RECORD_")?;
    let lost = name
        .strip_prefix(b"LOST_SAMPLES lost ")
        .or_else(|| name.strip_prefix(b"LOST lost "));
    Some(lost.and_then(|number| digits(number)?.0))
}

#[cfg(test)]
mod tests {
    use super::super::prefix::Time;
    use super::*;

    fn brief(line: &str) -> String {
        match parse(line.as_bytes()) {
            None => "no".to_owned(),
            Some(p) => format!(
                "{}|{}|{}|{}|{}",
                String::from_utf8_lossy(p.comm),
                p.pid,
                p.cpu,
                match p.ts {
                    Time::Ns(ns) => ns.to_string(),
                    other => format!("{other:?}"),
                },
                String::from_utf8_lossy(p.rest)
            ),
        }
    }

    #[test]
    fn layouts() {
        for (line, expected) in [
            (
                "          :29725 29725 [000]  6827.914656: sched:sched_waking: x",
                "|29725|0|6827914656000|sched:sched_waking: x",
            ),
            (
                "          :29725 29725/29725 [000]  6827.914656492: sched:sched_waking: x",
                "|29725|0|6827914656492|sched:sched_waking: x",
            ),
            (
                "         swapper     0/0     [001]  6827.914656492: sched:sched_waking: x",
                "swapper|0|1|6827914656492|sched:sched_waking: x",
            ),
            (
                "swapper     0 [001]  1.000001: a:b: x",
                "swapper|0|1|1000001000|a:b: x",
            ),
            // Blanks and numbers within a name.
            (
                "   Web Content 1   100 [011]  1.000001: a:b: x",
                "Web Content 1|100|11|1000001000|a:b: x",
            ),
            (
                "Web Content 1   100 [011]  1.000001: a:b: x",
                "Web Content 1|100|11|1000001000|a:b: x",
            ),
            // A name that looks like the rest of the line.
            (
                " 1 [000] 1.0: a:    55 [003]  1.000001: a:b: x",
                "1 [000] 1.0: a:|55|3|1000001000|a:b: x",
            ),
            (
                "             :-1    -1 [000]  1.000001: a:b: x",
                "|-1|0|1000001000|a:b: x",
            ),
            // -F tid,cpu,time,event,trace; -F +period
            ("  100 [002]  1.000001: a:b: x", "|100|2|1000001000|a:b: x"),
            (
                "  100 [002]  1.000001:          1 a:b: x",
                "|100|2|1000001000|a:b: x",
            ),
            // No CPU: useless.
            ("           perf  100  1.000001: a:b: x", "no"),
            (
                "\tffffffff821f8b58 __schedule+0x618 ([kernel.kallsyms])",
                "no",
            ),
            ("", "no"),
        ] {
            assert_eq!(brief(line), expected, "{line}");
        }
    }

    #[test]
    fn frames() {
        for line in [
            "\tffffffff821f8b58 __schedule+0x618 ([kernel.kallsyms])",
            "\t    7f88c7b0c137 [unknown] ([unknown])",
            "\t           0",
        ] {
            assert!(is_frame(line.as_bytes()), "{line}");
        }
        for line in [
            "ffffffff821f8b58 x",
            "\tno frame",
            "",
            "\tffffffffffffffffff x",
            // A task f0.
            "              f0 30025 [000]  6851.796128: sched:sched_switch: x",
        ] {
            assert!(!is_frame(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn records() {
        assert_eq!(record(b"PERF_RECORD_LOST lost 12"), Some(Some(12)));
        assert_eq!(record(b"PERF_RECORD_COMM exec: wl:7/7"), Some(None));
        assert_eq!(record(b"sched:sched_switch: x"), None);
    }
}
