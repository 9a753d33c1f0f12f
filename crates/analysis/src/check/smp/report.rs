//! What a check of placement and balancing found.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

/// Decisions of one kind.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub struct Tally {
    /// Ours is the kernel's.
    pub agree: u64,
    /// Ours is another.
    pub differ: u64,
    /// The recording does not determine it.
    pub undecided: u64,
}

/// A decision that differs.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Miss {
    /// Number of the event in the file, from 1.
    pub event: u64,
    /// Time of the event, ns.
    pub ts: u64,
    /// Kind of decision.
    pub kind: &'static str,
    /// CPU that decided.
    pub cpu: u32,
    /// Task concerned, if there is one.
    pub pid: Option<i32>,
    /// What the rules yield.
    pub ours: String,
    /// What the kernel recorded.
    pub kernel: String,
    /// Why they differ, as far as the recording tells.
    pub cause: &'static str,
}

/// Result of checking one recording of several CPUs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SmpReport {
    /// Events in the file.
    pub events: u64,
    /// Probes of placement, balancing and load tracking among them.
    pub probes: u64,
    /// Decisions by kind.
    pub decisions: BTreeMap<&'static str, Tally>,
    /// Decisions left undecided, by reason.
    pub undecided: BTreeMap<&'static str, u64>,
    /// Facts taken from the recording because nothing in it determines them, by kind.
    pub taken: BTreeMap<&'static str, u64>,
    /// Differences by cause.
    pub causes: BTreeMap<&'static str, u64>,
    /// The differences, the first thousand of them.
    pub misses: Vec<Miss>,
}

/// Differences that are kept in full.
const KEEP: usize = 1000;

impl SmpReport {
    fn sum(&self, of: impl Fn(&Tally) -> u64) -> u64 {
        self.decisions.values().map(of).sum()
    }

    /// Decisions that the recording determines.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.sum(|t| t.agree + t.differ)
    }

    /// Decisions that differ.
    #[must_use]
    pub fn differences(&self) -> u64 {
        self.sum(|t| t.differ)
    }

    /// Decisions left undecided.
    #[must_use]
    pub fn undecided_total(&self) -> u64 {
        self.sum(|t| t.undecided)
    }

    /// Whether every decision that the recording determines agrees, and there is one.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.differences() == 0 && self.total() > 0
    }

    pub(super) fn agree(&mut self, kind: &'static str) {
        self.decisions.entry(kind).or_default().agree += 1;
    }

    pub(super) fn undecided(&mut self, kind: &'static str, why: &'static str) {
        self.decisions.entry(kind).or_default().undecided += 1;
        *self.undecided.entry(why).or_default() += 1;
    }

    pub(super) fn take(&mut self, what: &'static str) {
        *self.taken.entry(what).or_default() += 1;
    }

    pub(super) fn miss(&mut self, miss: Miss) {
        self.decisions.entry(miss.kind).or_default().differ += 1;
        *self.causes.entry(miss.cause).or_default() += 1;
        if self.misses.len() < KEEP {
            self.misses.push(miss);
        }
    }

    /// Adds another recording's counts; its single differences are left out.
    pub fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.probes += other.probes;
        for (kind, t) in &other.decisions {
            let sum = self.decisions.entry(kind).or_default();
            sum.agree += t.agree;
            sum.differ += t.differ;
            sum.undecided += t.undecided;
        }
        let maps = [
            (&mut self.undecided, &other.undecided),
            (&mut self.taken, &other.taken),
            (&mut self.causes, &other.causes),
        ];
        for (into, from) in maps {
            for (key, n) in from {
                *into.entry(key).or_default() += n;
            }
        }
    }

    /// The report as text.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        let verdict = if self.agrees() {
            "agrees"
        } else if self.differences() == 0 {
            "nothing to compare"
        } else {
            "DIFFERS"
        };
        let mut out = format!(
            "{name}: {verdict}: {} decisions, {} differ ({} agree), {} undecided\n",
            self.total(),
            self.differences(),
            share(self.total() - self.differences(), self.total()),
            self.undecided_total()
        );
        let _ = writeln!(
            out,
            "  {:<20} {:>9} {:>8} {:>9} {:>9}",
            "decision", "agree", "differ", "share", "undecided"
        );
        for (kind, t) in &self.decisions {
            let _ = writeln!(
                out,
                "  {kind:<20} {:>9} {:>8} {:>9} {:>9}",
                t.agree,
                t.differ,
                share(t.agree, t.agree + t.differ),
                t.undecided
            );
        }
        for (what, list) in [
            ("undecided", &self.undecided),
            ("taken", &self.taken),
            ("differ", &self.causes),
        ] {
            for (why, n) in list {
                let _ = writeln!(out, "  {what:<9} {n:>10}  {why}");
            }
        }
        for m in &self.misses {
            let pid = m.pid.map_or(String::new(), |p| format!(", pid {p}"));
            let _ = writeln!(
                out,
                "  event {} at {}.{:09} (CPU {}{pid}): {}: ours {}, kernel {}: {}",
                m.event,
                m.ts / 1_000_000_000,
                m.ts % 1_000_000_000,
                m.cpu,
                m.kind,
                m.ours,
                m.kernel,
                m.cause
            );
        }
        out
    }
}

/// Hundredths of a percent, rounded down, so that only a full agreement is 100 %.
fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_string();
    }
    let hundredths = u128::from(part) * 10_000 / u128::from(whole);
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}
