//! What a check found.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

/// One value that differs.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Difference {
    /// Number of the event in the file, from 1.
    pub event: u64,
    /// Time of the event, ns.
    pub ts: u64,
    /// Kind of the record.
    pub kind: &'static str,
    /// What differs: a field, or `next step`.
    pub field: &'static str,
    /// Pid of the task concerned, if it is a task.
    pub pid: Option<i64>,
    /// What the rules yield.
    pub ours: String,
    /// What the kernel recorded.
    pub kernel: String,
    /// All fields at this step, ours and the kernel's.
    pub state: Vec<FieldPair>,
    /// Rule that decides the value.
    pub rule: &'static str,
}

/// A field of both sides.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct FieldPair {
    /// Field name.
    pub field: &'static str,
    /// Ours.
    pub ours: i64,
    /// The kernel's.
    pub kernel: i64,
}

/// Result of checking one recording.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CheckReport {
    /// Events in the file.
    pub events: u64,
    /// State records in the file.
    pub records: u64,
    /// Values compared, by kind of record; `resched` counts decisions to reschedule, `picked` tasks switched to.
    pub checks: BTreeMap<&'static str, u64>,
    /// Records that could not be decided, by reason.
    pub undecided: BTreeMap<&'static str, u64>,
    /// Facts taken from the recording because nothing in it determines them, by kind.
    pub inputs: BTreeMap<&'static str, u64>,
    /// Number of values that differ.
    pub differences: u64,
    /// The first of them.
    pub first: Vec<Difference>,
}

/// Differences that are kept in full.
pub(super) const KEEP: usize = 10;

impl CheckReport {
    /// Values compared in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.checks.values().sum()
    }

    /// Records left undecided in all.
    #[must_use]
    pub fn undecided_total(&self) -> u64 {
        self.undecided.values().sum()
    }

    /// Whether everything that was compared agrees and something was compared.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.differences == 0 && self.total() > 0
    }

    /// Adds what the check of another CPU found.
    pub(super) fn add(&mut self, other: Self) {
        for (mine, theirs) in [
            (&mut self.checks, other.checks),
            (&mut self.undecided, other.undecided),
            (&mut self.inputs, other.inputs),
        ] {
            for (what, n) in theirs {
                *mine.entry(what).or_default() += n;
            }
        }
        self.differences += other.differences;
        let room = KEEP.saturating_sub(self.first.len());
        self.first.extend(other.first.into_iter().take(room));
    }

    /// The report as text, at most 100 columns.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        let mut out = String::new();
        let verdict = if self.agrees() {
            "agrees"
        } else if self.differences == 0 {
            "nothing to compare"
        } else {
            "DIFFERS"
        };
        let _ = writeln!(
            out,
            "{name}: {verdict}: {} checks, {} differences, {} records undecided",
            self.total(),
            self.differences,
            self.undecided_total()
        );
        let _ = writeln!(
            out,
            "  {} events, {} state records",
            self.events, self.records
        );
        for (kind, n) in &self.checks {
            let _ = writeln!(out, "  checked   {kind:<16} {n:>10}");
        }
        for (why, n) in &self.undecided {
            let _ = writeln!(out, "  undecided {n:>10}  {why}");
        }
        for (what, n) in &self.inputs {
            let _ = writeln!(out, "  taken     {n:>10}  {what}");
        }
        for d in &self.first {
            let _ = writeln!(
                out,
                "  event {} at {}.{:09}: {} {}: ours {}, kernel {}{}",
                d.event,
                d.ts / 1_000_000_000,
                d.ts % 1_000_000_000,
                d.kind,
                d.field,
                d.ours,
                d.kernel,
                d.pid.map_or(String::new(), |p| format!(" (pid {p})"))
            );
            let _ = writeln!(out, "    rule: {}", d.rule);
            for p in &d.state {
                let mark = if p.ours == p.kernel { ' ' } else { '*' };
                let _ = writeln!(
                    out,
                    "    {mark} {:<8} ours {:>22}  kernel {:>22}",
                    p.field, p.ours, p.kernel
                );
            }
        }
        out
    }
}
