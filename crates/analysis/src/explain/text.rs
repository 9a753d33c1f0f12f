//! Explanations in sentences.

use std::fmt::Write;

use super::answer::{Cause, Confidence, Explanation, Part, WaitKind, Who};

/// Milliseconds to the microsecond, and to the nanosecond where it takes that.
pub(super) fn ms(ns: u64) -> String {
    format!("{} ms", number(ns))
}

fn number(ns: u64) -> String {
    let us = format!("{}.{:03}", ns / 1_000_000, ns / 1_000 % 1_000);
    match ns % 1_000 {
        0 => us,
        rest => format!("{us}{rest:03}"),
    }
}

/// The same for a column: points below each other.
fn column(ns: u64) -> String {
    let text = number(ns);
    let pad = if ns.is_multiple_of(1_000) { 3 } else { 0 };
    format!("{:>14} ms", format!("{text}{}", " ".repeat(pad)))
}

fn sure(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Known => "",
        Confidence::Likely => " (likely)",
        Confidence::Guess => " (a guess)",
    }
}

/// Parts that are shown one by one; the others are added up by cause.
const SHOWN: usize = 6;

/// Seconds on the trace's clock.
fn at(ns: u64) -> String {
    if ns.is_multiple_of(1_000) {
        format!("{}.{:06}", ns / 1_000_000_000, ns / 1_000 % 1_000_000)
    } else {
        format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
    }
}

fn name(who: &Option<Who>) -> String {
    who.as_ref().map_or_else(|| "a task".into(), Who::to_string)
}

impl Explanation {
    /// The explanation as text that can be pasted into a mail: a headline, a sentence a part, and what could not be
    /// known.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = self.headline();
        out.push('\n');
        for p in self.parts.iter().take(SHOWN) {
            let times = match p.times {
                1 => String::new(),
                n => format!(", in {n} stretches"),
            };
            let sentence = p.sentence();
            let _ = writeln!(
                out,
                "{}  {sentence}{times}{}",
                column(p.ns),
                sure(p.confidence)
            );
        }
        for (cause, ns, n, confidence) in self.rest() {
            let what = match n {
                1 => "1 more part".to_string(),
                n => format!("{n} more parts"),
            };
            let _ = writeln!(
                out,
                "{}  {what}: {}{}",
                column(ns),
                cause.short(),
                sure(confidence)
            );
        }
        if self.parts.len() > 1 {
            let sum: u64 = self.parts.iter().map(|p| p.ns).sum();
            let _ = writeln!(out, "{}  in all", column(sum));
        }
        for a in &self.advice {
            let _ = writeln!(out, "  not known for {a}");
        }
        out
    }

    /// The parts that are not shown one by one, by cause.
    fn rest(&self) -> Vec<(Cause, u64, u64, Confidence)> {
        let mut out: Vec<(Cause, u64, u64, Confidence)> = Vec::new();
        for p in self.parts.iter().skip(SHOWN) {
            match out.iter_mut().find(|(cause, ..)| *cause == p.cause) {
                Some((_, ns, n, confidence)) => {
                    *ns += p.ns;
                    *n += 1;
                    *confidence = p.confidence.max(*confidence);
                }
                None => out.push((p.cause, p.ns, 1, p.confidence)),
            }
        }
        out.sort_by_key(|&(_, ns, ..)| std::cmp::Reverse(ns));
        out
    }

    fn headline(&self) -> String {
        let how = match (self.kind, &self.waker) {
            (WaitKind::Woken, Some(w)) if w.pid == 0 => format!("woken by {}", w.comm),
            (WaitKind::Woken, Some(w)) => format!("woken by {w}"),
            (WaitKind::Woken, None) => "woken".into(),
            (WaitKind::New, _) => "just forked".into(),
            (WaitKind::Preempted, _) => "off the CPU while runnable".into(),
            (WaitKind::Yielded, _) => "after it yielded".into(),
            (WaitKind::Lock, _) => "for a lock".into(),
        };
        let on = self.segments.iter().find_map(|s| s.cpu);
        let on = on.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
        let end = if self.open {
            "and the trace ends before it ran"
        } else {
            "before it ran"
        };
        format!(
            "{} waited {} from {} to {}{on}, {how}, {end}:",
            self.task,
            ms(self.ns()),
            at(self.start),
            at(self.end)
        )
    }
}

impl Part {
    /// The part in words.
    #[must_use]
    pub fn sentence(&self) -> String {
        let who = name(&self.behind);
        match self.cause {
            Cause::Blocked => "called for while still on its way to sleep".into(),
            Cause::Waking => "being woken: from the call to its arrival on a run queue".into(),
            Cause::WakingIpi => {
                "being woken: from the interrupt to its CPU to its arrival on the run queue".into()
            }
            Cause::Lock => format!("asleep for a lock, held by {who} when the wait began"),
            Cause::Throttled => "throttled: its group had used up its CPU quota".into(),
            Cause::IdleElsewhere => {
                let (cpu, since) = self.idle.unwrap_or_default();
                let why = self.on_its_cpu.map_or("", reason);
                format!(
                    "queued on CPU {} behind {who}{why}, while CPU {cpu} had been idle since {}",
                    self.cpu.unwrap_or_default(),
                    at(since)
                )
            }
            Cause::IdleExit => format!(
                "queued on CPU {}, which was idle and on its way to it",
                self.cpu.unwrap_or_default()
            ),
            Cause::HigherClass => format!("behind {who}, a task of a higher scheduling class"),
            Cause::HigherPriority => {
                format!("behind {who}, of the same or a higher real-time priority")
            }
            Cause::Ineligible => {
                let next = self.turn.as_ref();
                let next = next.map_or(String::new(), |t| format!(" ({t} was next)"));
                format!(
                    "behind {who}{next}: the waiter was not eligible, having run ahead of its share"
                )
            }
            Cause::LaterDeadline => match &self.turn {
                Some(t) => format!(
                    "behind {who}: eligible, but {t} was next, with an earlier virtual deadline"
                ),
                None => format!("behind {who}, whose virtual deadline was earlier"),
            },
            Cause::Protected => {
                format!("behind {who}, which was protected by its slice; else the waiter was next")
            }
            Cause::Tick => {
                format!(
                    "behind {who}, protected no more, before a tick noticed; the waiter was next"
                )
            }
            Cause::NeedResched => {
                format!(
                    "behind {who}, asked to reschedule but not doing so yet; the waiter was next"
                )
            }
            Cause::Switching => format!("while the scheduler switched away from {who}"),
            Cause::Behind => format!("behind {who}, by a rule that the trace does not tell"),
            Cause::Unknown => "on a CPU of which the trace does not show who ran".into(),
        }
    }
}

impl Cause {
    /// The cause without names.
    fn short(self) -> &'static str {
        match self {
            Self::Blocked => "on its way to sleep",
            Self::Waking | Self::WakingIpi => "being woken",
            Self::Lock => "for a lock",
            Self::Throttled => "throttled",
            Self::IdleElsewhere => "queued while another CPU was idle",
            Self::IdleExit => "queued on a CPU on its way out of idle",
            Self::HigherClass => "behind tasks of a higher scheduling class",
            Self::HigherPriority => "behind tasks of no lower real-time priority",
            Self::Ineligible => "not eligible, having run ahead of its fair share",
            Self::LaterDeadline => "eligible, behind earlier virtual deadlines",
            Self::Protected => "behind tasks protected by their slices",
            Self::Tick => "until a tick noticed that a slice or protection was over",
            Self::NeedResched => "until a request to reschedule was honoured",
            Self::Switching => "while the scheduler was at work",
            Self::Behind => "behind other tasks, by rules that the trace does not tell",
            Self::Unknown => "not known who ran",
        }
    }
}

/// A cause as a subordinate clause.
fn reason(cause: Cause) -> &'static str {
    match cause {
        Cause::HigherClass => " (a higher scheduling class)",
        Cause::HigherPriority => " (no lower real-time priority)",
        Cause::Ineligible => " (not eligible)",
        Cause::LaterDeadline => " (later deadline)",
        Cause::Protected => " (protected by its slice)",
        Cause::Tick => " (no tick yet)",
        Cause::NeedResched => " (asked to reschedule)",
        _ => "",
    }
}
