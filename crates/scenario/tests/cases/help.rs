//! Running a case and reading its events.

use std::collections::BTreeMap;
use std::path::Path;

use schedlab_fair::Profile;
use schedlab_scenario::{Overrides, RunOutcome, Scenario};
use schedlab_sim::TaskStats;
use schedlab_trace::event::{Event, EventKind, PrevState};

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SEC: u64 = 1_000_000_000;

/// A scenario of `scenarios/cases` with overrides.
pub(crate) fn load(file: &str, options: &[&str]) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../scenarios/cases")
        .join(file);
    let mut overrides = Overrides::new();
    for option in options {
        overrides.push(option).unwrap();
    }
    Scenario::load(&path, &overrides).unwrap_or_else(|e| panic!("{file} {options:?}: {e}"))
}

pub(crate) fn profile(name: &str) -> Profile {
    Profile::by_name(name).unwrap()
}

/// One stay of a task: from when it could run to when it ran, and how it left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stint {
    pub(crate) pid: i32,
    /// Since when it was runnable.
    pub(crate) ready: u64,
    /// Whether it came from a sleep (or is new), not from a preemption or a yield.
    pub(crate) woken: bool,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Whether it then slept or ended.
    pub(crate) slept: bool,
    pub(crate) cpu: u32,
}

impl Stint {
    pub(crate) fn wait(&self) -> u64 {
        self.start - self.ready
    }
}

pub(crate) struct Played {
    pub(crate) outcome: RunOutcome,
    pub(crate) events: Vec<Event>,
}

pub(crate) fn play(s: &Scenario) -> Played {
    let mut events = Vec::new();
    let outcome = s
        .run(|e| {
            // Charges are many and tell nothing that the counters do not.
            if !matches!(e.kind, EventKind::SchedStatRuntime { .. }) {
                events.push(e.clone());
            }
        })
        .unwrap();
    Played { outcome, events }
}

pub(crate) fn play_file(file: &str, options: &[&str]) -> Played {
    play(&load(file, options))
}

impl Played {
    /// Names match whole, or up to the number of an instance.
    fn is(name: &str, wanted: &str) -> bool {
        name == wanted
            || name
                .strip_prefix(wanted)
                .and_then(|rest| rest.strip_prefix('-'))
                .is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    }

    /// CPU time of all tasks of a name, ns.
    pub(crate) fn run(&self, name: &str) -> u64 {
        self.sum(name, |s| s.user + s.system)
    }

    pub(crate) fn sum(&self, name: &str, f: fn(&TaskStats) -> u64) -> u64 {
        let tasks = self.outcome.result.tasks.iter();
        let mut found = tasks.filter(|t| Self::is(&t.comm, name)).peekable();
        assert!(found.peek().is_some(), "no task {name}");
        found.map(|t| f(&t.stats)).sum()
    }

    /// Share of the simulated time, over all CPUs, of a name.
    pub(crate) fn share(&self, name: &str) -> f64 {
        self.run(name) as f64 / self.outcome.result.end.0 as f64
    }

    /// Completed stays on a CPU by task of that name.
    pub(crate) fn stints(&self, name: &str) -> Vec<Stint> {
        let mut ready: BTreeMap<i32, (u64, bool)> = BTreeMap::new();
        let mut running: BTreeMap<i32, Stint> = BTreeMap::new();
        let mut out = Vec::new();
        for e in &self.events {
            match &e.kind {
                EventKind::SchedWakeup { task, .. } | EventKind::SchedWakeupNew { task, .. }
                    if Self::is(&task.comm.to_string(), name)
                        && !running.contains_key(&task.pid) =>
                {
                    ready.insert(task.pid, (e.ts, true));
                }
                EventKind::SchedSwitch {
                    prev,
                    prev_state,
                    next,
                } => {
                    if let Some(mut s) = running.remove(&prev.pid) {
                        s.end = e.ts;
                        s.slept = *prev_state != PrevState::RUNNING;
                        if !s.slept {
                            ready.insert(prev.pid, (e.ts, false));
                        }
                        out.push(s);
                    }
                    if Self::is(&next.comm.to_string(), name) {
                        let (since, woken) = ready.remove(&next.pid).unwrap_or((e.ts, true));
                        running.insert(
                            next.pid,
                            Stint {
                                pid: next.pid,
                                ready: since,
                                woken,
                                start: e.ts,
                                end: 0,
                                slept: false,
                                cpu: e.cpu,
                            },
                        );
                    }
                }
                _ => {}
            }
        }
        out
    }

    /// Delays of a name from wakeup to running.
    pub(crate) fn wakeup_delays(&self, name: &str) -> Vec<u64> {
        let stints = self.stints(name);
        stints.iter().filter(|s| s.woken).map(Stint::wait).collect()
    }

    /// Times from wakeups after `from` to the sleeps that follow.
    pub(crate) fn responses(&self, name: &str, from: u64) -> Vec<u64> {
        let mut began: BTreeMap<i32, u64> = BTreeMap::new();
        let mut out = Vec::new();
        for s in self.stints(name) {
            let since = *began.entry(s.pid).or_insert(s.ready);
            if s.slept {
                out.extend((since > from).then(|| s.end - since));
                began.remove(&s.pid);
            }
        }
        out
    }

    /// Longest wait of any kind.
    pub(crate) fn max_wait(&self, name: &str) -> u64 {
        self.stints(name).iter().map(Stint::wait).max().unwrap()
    }
}

pub(crate) fn mean(values: &[u64]) -> f64 {
    assert!(!values.is_empty());
    values.iter().sum::<u64>() as f64 / values.len() as f64
}

pub(crate) fn max(values: &[u64]) -> u64 {
    *values.iter().max().unwrap()
}

/// The value below which a share `q` of all lies.
pub(crate) fn quantile(values: &[u64], q: f64) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[((sorted.len() - 1) as f64 * q) as usize]
}
