//! How a schedule went, measured alike for the recording and for simulations, and how far two are apart.

use std::collections::BTreeMap;

use schedlab_analysis::latency::{DelayStats, LatencyAccumulator, LatencyOptions, TaskLatency};
use schedlab_trace::{Event, EventKind, Pid};
use serde::Serialize;

/// Length of the windows in which run time is compared, ns.
const WINDOW: u64 = 100_000_000;

/// What one task, or all, got.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Figures {
    /// Run time, ns.
    pub runtime: u64,
    /// Switches out to sleep.
    pub voluntary: u64,
    /// Switches out while runnable.
    pub involuntary: u64,
    /// Changes of CPU.
    pub cpu_changes: u64,
    /// Waits for a CPU, from the call for the wakeup or from the switch-out.
    pub delays: DelayStats,
}

impl Figures {
    /// Switches out.
    #[must_use]
    pub fn switches(&self) -> u64 {
        self.voluntary + self.involuntary
    }

    fn add(&mut self, other: &Self) {
        self.runtime += other.runtime;
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.cpu_changes += other.cpu_changes;
        self.delays.merge(&other.delays);
    }
}

impl From<&TaskLatency> for Figures {
    fn from(t: &TaskLatency) -> Self {
        Self {
            runtime: t.runtime,
            voluntary: t.voluntary,
            involuntary: t.involuntary,
            cpu_changes: t.cpu_changes,
            delays: t.from_waking,
        }
    }
}

/// Measures a schedule from its events.
pub struct RunMeter {
    latency: LatencyAccumulator,
    /// Events before this are left out.
    begin: u64,
    /// Run time is put into windows up to here.
    end: u64,
    /// Task and since when, by CPU.
    current: BTreeMap<u32, (Pid, u64)>,
    windows: BTreeMap<(Pid, u64), u64>,
}

impl RunMeter {
    /// A meter for the time from `begin`; windows end at `end`.
    #[must_use]
    pub fn new(begin: u64, end: u64) -> Self {
        Self {
            latency: LatencyAccumulator::new(LatencyOptions::default()),
            begin,
            end,
            current: BTreeMap::new(),
            windows: BTreeMap::new(),
        }
    }

    /// A meter for a recording, whose first event tells when it begins.
    #[must_use]
    pub fn recording() -> Self {
        Self::new(u64::MAX, u64::MAX)
    }

    /// Takes an event.
    pub fn push(&mut self, event: &Event) {
        if self.begin == u64::MAX {
            self.begin = event.ts;
        }
        if let EventKind::SchedSwitch { prev, next, .. } = &event.kind {
            self.window(event.cpu, prev.pid, event.ts);
            self.current.insert(event.cpu, (next.pid, event.ts));
        }
        if event.ts >= self.begin {
            self.latency.push(event);
        }
    }

    /// Puts what ran on a CPU up to now into its windows.
    fn window(&mut self, cpu: u32, pid: Pid, now: u64) {
        // What runs when the trace begins has run since then.
        let (pid, since) = self.current.get(&cpu).copied().unwrap_or((pid, self.begin));
        if pid == 0 {
            return;
        }
        let mut from = since.max(self.begin);
        let to = now.min(self.end);
        while from < to {
            let number = (from - self.begin) / WINDOW;
            let next = self
                .begin
                .saturating_add((number + 1).saturating_mul(WINDOW));
            let part = next.min(to) - from;
            *self.windows.entry((pid, number)).or_default() += part;
            from += part;
        }
    }

    /// Closes the account at `last`, the end of the trace. `name` gives the task that a pid of these events stands for;
    /// pids without one are left out.
    #[must_use]
    pub fn finish(mut self, last: u64, name: impl Fn(Pid) -> Option<usize>) -> Fit {
        let open: Vec<(u32, Pid)> = self.current.iter().map(|(&c, &(p, _))| (c, p)).collect();
        for (cpu, pid) in open {
            self.window(cpu, pid, last);
        }
        let mut fit = Fit::default();
        for t in &self.latency.finish().tasks {
            if let Some(index) = name(t.pid) {
                fit.tasks.entry(index).or_default().add(&Figures::from(t));
            }
        }
        for ((pid, number), ns) in self.windows {
            if let Some(index) = name(pid) {
                *fit.windows.entry((index, number)).or_default() += ns;
            }
        }
        fit
    }
}

/// A schedule's figures by task.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fit {
    /// By number of the task.
    pub tasks: BTreeMap<usize, Figures>,
    windows: BTreeMap<(usize, u64), u64>,
}

impl Fit {
    /// All tasks together.
    #[must_use]
    pub fn total(&self) -> Figures {
        let mut sum = Figures::default();
        self.tasks.values().for_each(|f| sum.add(f));
        sum
    }

    /// Largest difference of a task's run time from another schedule's, and whose: in percent of the other's total.
    /// `rounds` is how often this one has the load.
    #[must_use]
    pub fn worst_runtime(&self, other: &Self, rounds: f64) -> Option<(f64, usize)> {
        let total = other.total().runtime as f64;
        if total <= 0.0 {
            return None;
        }
        let run = |fit: &Self, i: &usize| fit.tasks.get(i).map_or(0, |f| f.runtime) as f64;
        other
            .tasks
            .keys()
            .map(|i| {
                let off = run(self, i) / rounds - run(other, i);
                (100.0 * off.abs() / total, *i)
            })
            .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))
    }

    /// Run time that another schedule gives to another task or to another time, in percent: windows of 100 ms, half the
    /// sum of all differences.
    #[must_use]
    pub fn misplaced(&self, other: &Self) -> Option<f64> {
        let sum: u64 = other.windows.values().sum();
        if sum == 0 {
            return None;
        }
        let mut off: u64 = 0;
        for (key, ns) in &other.windows {
            off += self.windows.get(key).copied().unwrap_or(0).abs_diff(*ns);
        }
        for (key, ns) in &self.windows {
            if !other.windows.contains_key(key) {
                off += ns;
            }
        }
        Some(50.0 * off as f64 / sum as f64)
    }
}
