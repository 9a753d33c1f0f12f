//! The part of a line in front of the event's fields: who, where, when, which event.
//!
//! All dialects share `name-pid [cpu] seconds.fraction: event:`. Between them vary: a thread-group column
//! `(  123)` or `(-----)`, a flags column of four to seven characters, and in `trace-cmd report -l` the CPU glued to
//! the flags (`0d..2.`) without brackets. The `latency-format` of tracefs glues them too, cuts names to 8 bytes and
//! counts microseconds from the start (`13us!:`). Layouts as in `trace_print_context` and `trace_print_lat_context` of
//! the kernel and in libtraceevent.

use crate::{Comm, CpuFlags, Pid};

/// First CPU number that is refused; Linux builds stop at 8192.
pub(super) const CPU_LIMIT: u64 = 65536;

/// What stands in front of an event name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prefix<'a> {
    pub(super) comm: &'a [u8],
    pub(super) pid: Pid,
    pub(super) cpu: u64,
    pub(super) flags: Flags,
    /// Time.
    pub(super) ts: Time,
    /// Name of a buffer or file in front of the task (`trace-cmd report` of several).
    pub(super) buffer: Option<&'a [u8]>,
    /// Everything behind the colon of the time, without leading blanks.
    pub(super) rest: &'a [u8],
}

/// The time column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// Nanoseconds.
    Ns(u64),
    /// Nanoseconds since the first event of the trace.
    SinceStart(u64),
    /// Past 64 bits.
    Range,
    /// A number without a point: not in seconds.
    Unit,
}

/// The flags column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flags {
    /// The dialect has none.
    Absent,
    /// There is one in a layout that is not known.
    Unknown,
    /// Understood.
    Known(CpuFlags),
}

/// Takes the front of a line apart; `None` if it is no event line.
pub(super) fn parse(line: &[u8]) -> Option<Prefix<'_>> {
    // The kernel and trace-cmd print the name right-aligned in 16 columns, so its dash is nearly always here, and a
    // name that holds "-1 [000]" cannot mislead.
    if line.get(16) == Some(&b'-')
        && let Some(found) = after_dash(line, 16)
    {
        return Some(found);
    }
    // Otherwise (8 columns in the latency layout, or unpadded text): the first dash behind which all the rest fits.
    memchr::memchr_iter(b'-', &line[..line.len().min(256)]).find_map(|dash| after_dash(line, dash))
}

fn after_dash(line: &[u8], dash: usize) -> Option<Prefix<'_>> {
    let mut at = Cursor {
        text: line,
        pos: dash + 1,
    };
    let pid = Pid::try_from(at.number()?).ok()?;
    if !at.blanks() {
        return None;
    }
    if at.peek() == Some(b'(') {
        at.thread_group()?;
        at.blanks();
    }
    let (cpu, flags);
    if at.peek() == Some(b'[') {
        at.pos += 1;
        cpu = at.number()?;
        at.expect(b']')?;
        at.blanks();
        let before = at.pos;
        if let Some((ts, rest)) = at.time() {
            return Some(front(line, dash, (pid, cpu), Flags::Absent, ts, rest));
        }
        at.pos = before;
        flags = at.flags()?;
    } else {
        // Latency layout: CPU and flags in one word.
        cpu = at.number()?;
        flags = at.flags()?;
    }
    at.blanks();
    let (ts, rest) = at.time()?;
    Some(front(line, dash, (pid, cpu), flags, ts, rest))
}

/// The name without the padding, empty for `<...>`, which stands for "not known".
fn front<'a>(
    line: &'a [u8],
    dash: usize,
    (pid, cpu): (Pid, u64),
    flags: Flags,
    ts: Time,
    rest: &'a [u8],
) -> Prefix<'a> {
    let mut name = &line[..dash];
    let mut buffer = None;
    // Names have at most 15 bytes in 16 columns; what stands further left is the name of a buffer.
    if let Some(split) = dash.checked_sub(16)
        && let Some(left) = line[..split].strip_suffix(b": ")
    {
        buffer = Some(left.trim_ascii());
        name = &line[split..dash];
    }
    name = name.trim_ascii_start();
    if name == b"<...>" {
        name = b"";
    }
    Prefix {
        comm: name,
        pid,
        cpu,
        flags,
        ts,
        buffer,
        rest,
    }
}

/// Splits `event: fields`; the subsystem of `sched:sched_switch:` is left out. `None` without a name and colon.
pub(super) fn event_name(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', rest)?;
    let (mut name, mut fields) = (&rest[..colon], &rest[colon + 1..]);
    if name.is_empty() || !name.iter().all(|&b| is_name_byte(b)) {
        return None;
    }
    if fields.first().is_some_and(|&b| is_name_byte(b)) {
        let second = memchr::memchr(b':', fields)
            .filter(|&end| end > 0 && fields[..end].iter().all(|&b| is_name_byte(b)));
        if let Some(end) = second {
            name = &fields[..end];
            fields = &fields[end + 1..];
        }
    }
    Some((name, fields.trim_ascii_start()))
}

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')
}

/// Reads the flags column. Letters: Documentation/trace/ftrace.rst; seven columns are those of RT kernels before
/// lazy preemption was merged, with a column for the lazy flag and one for its depth.
pub(super) fn parse_flags(column: &[u8]) -> Option<CpuFlags> {
    let (irqs, resched, lazy, context, depth) = match *column {
        [irqs, resched, context, depth] | [irqs, resched, context, depth, _] => {
            (irqs, resched, b'.', context, depth)
        }
        [irqs, resched, lazy, context, depth, _, _] => (irqs, resched, lazy, context, depth),
        _ => return None,
    };
    let irqs_off = match irqs {
        b'd' | b'D' | b'b' => true,
        // X: the architecture cannot tell.
        b'.' | b'X' => false,
        _ => return None,
    };
    let (need_resched, mut need_resched_lazy) = match resched {
        b'.' | b'p' => (false, false),
        b'N' | b'n' => (true, false),
        b'L' | b'l' => (false, true),
        b'B' | b'b' => (true, true),
        _ => return None,
    };
    match lazy {
        b'.' => {}
        b'L' | b'l' | b'N' => need_resched_lazy = true,
        _ => return None,
    }
    let (hardirq, softirq) = match context {
        b'.' => (false, false),
        b'h' | b'z' | b'Z' => (true, false),
        b's' => (false, true),
        b'H' => (true, true),
        _ => return None,
    };
    let preempt_depth = match depth {
        b'.' => 0,
        hex => u8::try_from(char::from(hex).to_digit(16)?).ok()?,
    };
    Some(CpuFlags {
        irqs_off,
        need_resched,
        need_resched_lazy,
        hardirq,
        softirq,
        preempt_depth,
    })
}

/// A name for an event; notes if it was longer than the kernel allows.
pub(super) fn comm(bytes: &[u8], names_cut: &mut u64) -> Comm {
    if bytes.len() > 15 {
        *names_cut += 1;
    }
    Comm::from_bytes(bytes)
}

pub(super) struct Cursor<'a> {
    pub(super) text: &'a [u8],
    pub(super) pos: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.pos).copied()
    }

    pub(super) fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek() == Some(byte)).then(|| self.pos += 1)
    }

    /// Skips blanks and says if there was one.
    pub(super) fn blanks(&mut self) -> bool {
        let start = self.pos;
        while self.peek() == Some(b' ') {
            self.pos += 1;
        }
        self.pos > start
    }

    /// A decimal number of at least one digit that fits in 64 bits.
    pub(super) fn number(&mut self) -> Option<u64> {
        let (value, len) = digits(&self.text[self.pos..])?;
        self.pos += len;
        value
    }

    /// `(  123)` or `(-----)`.
    fn thread_group(&mut self) -> Option<()> {
        self.expect(b'(')?;
        while let Some(byte) = self.peek() {
            self.pos += 1;
            match byte {
                b')' => return Some(()),
                b' ' | b'-' | b'0'..=b'9' => {}
                _ => return None,
            }
        }
        None
    }

    /// One word of the flags column.
    fn flags(&mut self) -> Option<Flags> {
        let rest = &self.text[self.pos..];
        let len = memchr::memchr(b' ', rest)?;
        // Nothing that the kernel prints there is longer or shorter.
        if !(4..=8).contains(&len) {
            return None;
        }
        self.pos += len;
        Some(parse_flags(&rest[..len]).map_or(Flags::Unknown, Flags::Known))
    }

    /// `seconds.fraction:`, an optional `(+difference)` on either side of the colon, and what follows.
    pub(super) fn time(&mut self) -> Option<(Time, &'a [u8])> {
        let rest = &self.text[self.pos..];
        let (seconds, len) = digits(rest)?;
        let rest = &rest[len..];
        if let Some(rest) = rest.strip_prefix(b":") {
            return Some((Time::Unit, rest.trim_ascii_start()));
        }
        if let Some(rest) = rest.strip_prefix(b"us") {
            // A mark says how long the wait for the next event is.
            let mark = usize::from(rest.first().is_some_and(|m| b" +!#*@$".contains(m)));
            let rest = rest[mark..].strip_prefix(b":")?;
            let ns = seconds.and_then(|us| us.checked_mul(1000));
            return Some((
                ns.map_or(Time::Range, Time::SinceStart),
                rest.trim_ascii_start(),
            ));
        }
        let rest = rest.strip_prefix(b".")?;
        let (fraction, len) = digits(rest)?;
        if len > 9 {
            return None;
        }
        let ns = seconds.zip(fraction).and_then(|(seconds, fraction)| {
            let unit = 10u64.pow(9 - len as u32);
            seconds
                .checked_mul(1_000_000_000)?
                .checked_add(fraction * unit)
        });
        let mut rest = &rest[len..];
        if rest.first() != Some(&b':') {
            rest = difference(rest);
        }
        rest = rest.strip_prefix(b":")?.trim_ascii_start();
        if rest.starts_with(b"(+") {
            rest = difference(rest);
        }
        Some((ns.map_or(Time::Range, Time::Ns), rest))
    }
}

/// Skips the `(+12)` of `trace-cmd report --ts-diff`; gives the text back as it was if there is none.
fn difference(text: &[u8]) -> &[u8] {
    let inner = text.trim_ascii_start();
    let Some(inner) = inner.strip_prefix(b"(+") else {
        return text;
    };
    match digits(inner) {
        Some((_, len)) => inner[len..]
            .strip_prefix(b")")
            .map_or(text, <[u8]>::trim_ascii_start),
        None => text,
    }
}

/// The leading digits: their value (`None` if past 64 bits) and how many they are. `None` without any.
pub(super) fn digits(text: &[u8]) -> Option<(Option<u64>, usize)> {
    let mut value = Some(0u64);
    let mut len = 0;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = if len < 18 {
            // 18 digits cannot overflow.
            value.map(|v| v * 10 + u64::from(digit))
        } else {
            value
                .and_then(|v| v.checked_mul(10))
                .and_then(|v| v.checked_add(u64::from(digit)))
        };
        len += 1;
    }
    (len > 0).then_some((value, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brief(line: &str) -> String {
        match parse(line.as_bytes()) {
            None => "no".to_owned(),
            Some(p) => format!(
                "{}|{}|{}|{}|{}|{}",
                String::from_utf8_lossy(p.comm),
                p.pid,
                p.cpu,
                match p.flags {
                    Flags::Absent => "absent".to_owned(),
                    Flags::Unknown => "unknown".to_owned(),
                    Flags::Known(f) => format!(
                        "{}{}{}{}{}{}",
                        if f.irqs_off { 'd' } else { '.' },
                        if f.need_resched { 'N' } else { '.' },
                        if f.need_resched_lazy { 'L' } else { '.' },
                        if f.hardirq { 'h' } else { '.' },
                        if f.softirq { 's' } else { '.' },
                        f.preempt_depth
                    ),
                },
                match p.ts {
                    Time::Ns(ns) => ns.to_string(),
                    Time::SinceStart(ns) => format!("start+{ns}"),
                    Time::Range => "range".to_owned(),
                    Time::Unit => "unit".to_owned(),
                },
                String::from_utf8_lossy(p.rest)
            ),
        }
    }

    #[test]
    fn dialects() {
        let cases = [
            (
                "            bash-29698   [000] d..2.  6841.433215: sched_stat_runtime: x",
                "bash|29698|0|d....2|6841433215000|sched_stat_runtime: x",
            ),
            (
                "            bash-29698 [000]  6841.433203004: sched_process_fork:   comm",
                "bash|29698|0|absent|6841433203004|sched_process_fork:   comm",
            ),
            (
                "          <idle>-0       (-------) [001] dNh2. 5.000001: x: y",
                "<idle>|0|1|dN.h.2|5000001000|x: y",
            ),
            (
                "           <...>-1234  (  777) [011] ...1 5.000001: x: y",
                "|1234|11|.....1|5000001000|x: y",
            ),
            ("my-12 [007] 5.5: x: y", "my|12|7|absent|5500000000|x: y"),
            (
                " kworker/u16:3-ev-123 [000] d..2 1.000000: x: y",
                "kworker/u16:3-ev|123|0|d....2|1000000000|x: y",
            ),
            (
                "  bash-29698   0d..2.  1.000000: x: y",
                "bash|29698|0|d....2|1000000000|x: y",
            ),
            (
                "    a-1 [000] b-2     [003] dLs1. 1.000000: x: y",
                "a-1 [000] b|2|3|d.L.s1|1000000000|x: y",
            ),
            (
                "            bash-1     [000] d.Lh1.1 1.000000: x: y",
                "bash|1|0|d.Lh.1|1000000000|x: y",
            ),
            (
                "            bash-1     [000] ?????? 1.000000: x: y",
                "bash|1|0|unknown|1000000000|x: y",
            ),
            (
                "            bash-1     [000] 1.000000: (+12) x: y",
                "bash|1|0|absent|1000000000|x: y",
            ),
            (
                "            bash-1     [000] 1.000000 (+12): x: y",
                "bash|1|0|absent|1000000000|x: y",
            ),
            (
                "            bash-1     [000] 18446744074.000000: x: y",
                "bash|1|0|absent|range|x: y",
            ),
            // trace-cmd report --raw-ts, and clocks that count cycles.
            (
                "            bash-1     [000] 123456: x: y",
                "bash|1|0|absent|unit|x: y",
            ),
            (
                "            bash-29698 [001]6856657067653: x: y",
                "bash|29698|1|absent|unit|x: y",
            ),
            // tracefs with the option latency-format.
            (
                "  <idle>-0         1dNh4.   13us!: x: y",
                "<idle>|0|1|dN.h.4|start+13000|x: y",
            ),
            (
                "    bash-12345     0d..2. 1234us : x: y",
                "bash|12345|0|d....2|start+1234000|x: y",
            ),
            ("    bash-12345     0d..2. 1234us?: x: y", "no"),
            // Two buffers in one report.
            (
                "  foo: migration/0-18    [000]  1.000000: x: y",
                "foo: migration/0|18|0|absent|1000000000|x: y",
            ),
            (
                "  foo:      migration/0-18    [000]  1.000000: x: y",
                "migration/0|18|0|absent|1000000000|x: y",
            ),
            // Not event lines.
            ("            bash-x     [000] 1.000000: x: y", "no"),
            ("            bash-1     [000 1.000000: x: y", "no"),
            ("            bash-99999999999 [000] 1.000000: x: y", "no"),
            (
                "  :29811 29811 [000]  6843.066893: sched:sched_switch: x",
                "no",
            ),
            ("            bash-1", "no"),
            ("-", "no"),
            ("", "no"),
        ];
        for (line, expected) in cases {
            assert_eq!(brief(line), expected, "{line}");
        }
    }

    #[test]
    fn names_of_events() {
        let name = |text: &'static str| {
            event_name(text.as_bytes()).map(|(n, f)| {
                format!(
                    "{}|{}",
                    String::from_utf8_lossy(n),
                    String::from_utf8_lossy(f)
                )
            })
        };
        assert_eq!(name("sched_switch: a b").unwrap(), "sched_switch|a b");
        assert_eq!(
            name("sched:sched_switch:   a b").unwrap(),
            "sched_switch|a b"
        );
        assert_eq!(name("sched_switch:").unwrap(), "sched_switch|");
        assert_eq!(name("print:a b: c").unwrap(), "print|a b: c");
        assert_eq!(name("do_sys_open <-foo: a"), None);
        assert_eq!(name("nothing here"), None);
        assert_eq!(name(": x"), None);
    }

    #[test]
    fn flag_letters() {
        for bad in [&b"d.."[..], b"q..2.", b"dq.2.", b"d.q2.", b"d..g.", b""] {
            assert_eq!(parse_flags(bad), None, "{bad:?}");
        }
        let deep = parse_flags(b"..Zf.").unwrap();
        assert!(deep.hardirq && !deep.irqs_off && deep.preempt_depth == 15);
        let both = parse_flags(b"DBH..").unwrap();
        assert!(both.irqs_off && both.need_resched && both.need_resched_lazy);
        assert!(both.hardirq && both.softirq);
    }
}
