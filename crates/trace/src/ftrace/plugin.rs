//! Fields as `trace-cmd report` prints them with its sched plugin, and the `task a:1` print of early kernels (2.6.3x).
//!
//! ```text
//! sched_switch:         bash:29698 [120] S ==> bash:30297 [120]
//! sched_switch:         bash:29698 [120] S ==> bash:30297 [120] Latency: 94.760 usecs
//! sched_wakeup:         rcu_preempt:15 [120] CPU:001
//! sched_wakeup:         rcu_preempt:15 [120] success=1 CPU:001
//! sched_switch:         task bash:29698 [120] (S) ==> bash:30297 [120]
//! sched_wakeup:         task bash:29698 [120] success=1 [001]
//! ```
//!
//! A name may hold blanks and colons, so each part is read from its end.

use super::Names;
use super::prefix::comm;
use super::state::{self, Letters};
use crate::{EventKind, TaskRef};

const ARROW: &[u8] = b" ==> ";

pub(super) fn switch(fields: &[u8], names: &mut Names) -> Option<EventKind> {
    // A name may hold the arrow too: the right one is where both sides can be read.
    memchr::memmem::find_iter(fields, ARROW).find_map(|at| {
        let (left, right) = (&fields[..at], &fields[at + ARROW.len()..]);
        let blank = memchr::memrchr(b' ', left)?;
        let letters = &left[blank + 1..];
        let letters = letters
            .strip_prefix(b"(")
            .and_then(|l| l.strip_suffix(b")"))
            .unwrap_or(letters);
        // The plugin's own table knows neither I nor P: seeing one means that the kernel's letters are printed, which
        // newer libtraceevent takes from the format file.
        if letters.iter().any(|l| matches!(l, b'I' | b'P')) {
            names.plugin_letters = Letters::Kernel;
        }
        let prev_state = state::parse(letters, names.plugin_letters)?;
        let kind = EventKind::SchedSwitch {
            prev: task(without_task(&left[..blank]), names)?,
            prev_state,
            next: task(without_latency(right).trim_ascii_end(), names)?,
        };
        names.states.note(letters, names.plugin_letters);
        Some(kind)
    })
}

pub(super) fn wake(fields: &[u8], names: &mut Names) -> Option<(TaskRef, u32)> {
    let fields = fields.trim_ascii_end();
    let blank = memchr::memrchr(b' ', fields)?;
    let cpu = &fields[blank + 1..];
    let cpu = cpu
        .strip_prefix(b"CPU:")
        .or_else(|| cpu.strip_prefix(b"[")?.strip_suffix(b"]"))?;
    let cpu = std::str::from_utf8(cpu).ok()?.parse().ok()?;
    let mut left = fields[..blank].trim_ascii_end();
    if let Some(blank) = memchr::memrchr(b' ', left)
        && left[blank + 1..].starts_with(b"success=")
    {
        left = &left[..blank];
    }
    Some((task(without_task(left), names)?, cpu))
}

/// `trace-cmd report -w` adds ` Latency: 94.760 usecs`.
fn without_latency(text: &[u8]) -> &[u8] {
    match memchr::memmem::rfind(text, b"] Latency: ") {
        Some(at) if text.ends_with(b" usecs") => &text[..=at],
        _ => text,
    }
}

fn without_task(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"task ").unwrap_or(text)
}

/// `name:pid [prio]`.
fn task(text: &[u8], names: &mut Names) -> Option<TaskRef> {
    let number = |bytes: &[u8]| -> Option<i32> { std::str::from_utf8(bytes).ok()?.parse().ok() };
    let inner = text.strip_suffix(b"]")?;
    let bracket = memchr::memrchr(b'[', inner)?;
    let prio = number(&inner[bracket + 1..])?;
    let left = inner[..bracket].strip_suffix(b" ")?;
    let colon = memchr::memrchr(b':', left)?;
    let pid = number(&left[colon + 1..])?;
    Some(TaskRef {
        comm: comm(&left[..colon], &mut names.cut),
        pid,
        prio,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Comm, PrevState};

    #[test]
    fn names_with_arrows_and_colons() {
        for name in [
            "a b",
            "x: y",
            "==>",
            "a ==> b",
            "> S",
            "<...>",
            "a:1 [2] S",
            "",
        ] {
            let fields = format!("{name}:12 [120] R ==> {name}:0 [-1]");
            let task = |pid, prio| TaskRef {
                comm: Comm::new(name),
                pid,
                prio,
            };
            let expected = EventKind::SchedSwitch {
                prev: task(12, 120),
                prev_state: PrevState::RUNNING,
                next: task(0, -1),
            };
            let mut names = Names::default();
            assert_eq!(
                switch(fields.as_bytes(), &mut names),
                Some(expected),
                "{fields}"
            );
            for cpu in ["CPU:003", "success=1 CPU:003", "success=1 [003]"] {
                let fields = format!("{name}:5 [98] {cpu}");
                let got = wake(fields.as_bytes(), &mut names);
                assert_eq!(got, Some((task(5, 98), 3)), "{fields}");
            }
        }
    }

    #[test]
    fn letters_follow_the_evidence() {
        let mut names = Names::default();
        let mut state = |letter: &str| {
            let fields = format!("a:1 [120] {letter} ==> b:2 [120]");
            match switch(fields.as_bytes(), &mut names) {
                Some(EventKind::SchedSwitch { prev_state, .. }) => prev_state,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(state("X"), PrevState::ZOMBIE);
        assert_eq!(state("W"), PrevState::IDLE);
        assert_eq!(state("I"), PrevState::IDLE);
        assert_eq!(state("X"), PrevState::DEAD);
        assert_eq!(state("Z"), PrevState::ZOMBIE);
        assert_eq!(state("(S)"), PrevState::INTERRUPTIBLE);
    }
}
