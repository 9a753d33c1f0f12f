//! Small texts of tracefs that come with ring-buffer pages.

use std::collections::HashMap;

use crate::read::Tally;
use crate::{Comm, Pid};

/// Names by pid, from the lines of `saved_cmdlines`.
pub(crate) fn comms(text: &[u8]) -> HashMap<Pid, Comm> {
    text.split(|&b| b == b'\n')
        .filter_map(|line| {
            let blank = memchr::memchr(b' ', line)?;
            let (pid, name) = line.split_at_checked(blank)?;
            let pid = std::str::from_utf8(pid).ok()?.trim().parse().ok()?;
            Some((pid, Comm::from_bytes(name.get(1..)?)))
        })
        .collect()
}

/// `local` of `[local] global counter`; the text itself if there are no brackets.
pub(crate) fn selected_clock(text: &str) -> Option<String> {
    let inner = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(text, |(inner, _)| inner);
    (!inner.is_empty()).then(|| inner.to_owned())
}

/// A value of `per_cpu/cpuN/stats`: what stands behind `key:`.
pub(crate) fn stats_value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
        .map(str::trim)
}

/// Remarks on the losses that the ring buffer's own counters tell, taken at the end of the recording.
pub(crate) fn remark_counters(tally: &mut Tally, cpu: &str, text: &str) {
    for (key, what) in [
        ("overrun", "were overwritten"),
        ("commit overrun", "were lost to nested interrupts"),
        ("dropped events", "were dropped"),
    ] {
        if let Some(count) = stats_value(text, key).and_then(|v| v.parse::<u64>().ok())
            && count > 0
        {
            tally.remark(format!(
                "CPU {cpu}: {count} events {what}, by the kernel's counter"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks() {
        assert_eq!(selected_clock("[local] global"), Some("local".into()));
        assert_eq!(
            selected_clock("local [mono_raw] boot"),
            Some("mono_raw".into())
        );
        assert_eq!(selected_clock("boot"), Some("boot".into()));
        assert_eq!(selected_clock(""), None);
    }

    #[test]
    fn saved_cmdlines() {
        let names = comms(b"7 my task\n12 a\nnonsense\n99999999999 x\n13 0123456789abcdefgh");
        assert_eq!(names.len(), 3);
        assert_eq!(names[&7], Comm::new("my task"));
        assert_eq!(names[&13], Comm::new("0123456789abcde"));
    }

    #[test]
    fn counters() {
        let mut tally = Tally::default();
        let text = "entries: 182\noverrun: 2875\ncommit overrun: 0\ndropped events: 3\n";
        remark_counters(&mut tally, "1", text);
        assert_eq!(
            tally.plain.remarks,
            [
                "CPU 1: 2875 events were overwritten, by the kernel's counter",
                "CPU 1: 3 events were dropped, by the kernel's counter"
            ]
        );
    }
}
