//! Periodic balance: which levels are due. Decided at the end, when the recording has told when jiffies change.

use schedlab_balance::balance_interval;

use super::probe::Fields;
use super::{At, Miss, SmpCheck};

/// A pass over a CPU's domains.
struct Pass {
    number: u64,
    /// CPU whose domains they are, and CPU that does it.
    cpu: u32,
    by: u32,
    ts: u64,
    /// It runs more than SCHED_IDLE tasks; `None`: not known.
    busy: Option<bool>,
    levels: Vec<Level>,
}

/// A balance at one level.
struct Level {
    level: u32,
    /// `last_balance` and interval before it.
    before: Known,
    /// Time at the end.
    end: u64,
    /// It did not go on to higher levels.
    stops: bool,
    /// It moved something, so that the CPU may be busy now.
    moved: bool,
}

/// What is known of a level of a CPU: interval in ms, and `last_balance` in jiffies.
#[derive(Clone, Copy)]
struct Known {
    interval: u64,
    last: Last,
}

#[derive(Clone, Copy)]
enum Last {
    /// As the kernel told.
    Jiffies(u64),
    /// It balanced at this time of the trace.
    At(u64),
}

/// A step of the recording, in order.
enum Step {
    Pass(Pass),
    /// CPU, level, `last`, interval: before an attempt, at this time.
    Told(u32, u32, u64, u64),
    /// CPU, level, interval: after a periodic attempt, or only the interval after a newidle one.
    Ended(u32, u32, u64, Option<u64>),
}

#[derive(Default)]
pub(super) struct State {
    steps: Vec<Step>,
    /// Index of the pass that is open on a CPU.
    open: std::collections::BTreeMap<u32, usize>,
    /// What the attempt in progress on a CPU told.
    told: std::collections::BTreeMap<u32, Known>,
    /// Time and jiffies of the first mark.
    mark: Option<(u64, u64)>,
}

impl State {
    pub(super) fn mark(&mut self, at: At<'_>, f: &Fields<'_>) -> Result<(), String> {
        let jiffies = f.need("jiffies")?;
        self.mark.get_or_insert((at.event.ts, jiffies));
        Ok(())
    }

    /// An attempt begins; its probe tells when the level was balanced last.
    pub(super) fn told(&mut self, by: u32, cpu: u32, level: u32, last: u64, interval: u64) {
        let known = Known {
            interval,
            last: Last::Jiffies(last),
        };
        self.told.insert(by, known);
        self.steps.push(Step::Told(cpu, level, last, interval));
    }

    /// An attempt ends.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn ended(
        &mut self,
        by: u32,
        cpu: u32,
        level: u32,
        ts: u64,
        interval: u64,
        periodic: bool,
        stops: bool,
        moved: bool,
    ) {
        if periodic
            && let Some(&i) = self.open.get(&by)
            && let Some(Step::Pass(pass)) = self.steps.get_mut(i)
            && let Some(&before) = self.told.get(&by)
        {
            pass.levels.push(Level {
                level,
                before,
                end: ts,
                stops,
                moved,
            });
        }
        let end = periodic.then_some(ts);
        self.steps.push(Step::Ended(cpu, level, interval, end));
    }
}

/// When jiffies change: jiffy `base` begins between `from` and `to`.
struct Ticks {
    base: u64,
    from: u64,
    to: u64,
    length: u64,
}

impl Ticks {
    /// Jiffies at a time, the lowest and the highest that they may be.
    fn at(&self, ts: u64) -> (u64, u64) {
        let since = |begin: u64| {
            let signed = ts as i64 - begin as i64;
            self.base
                .wrapping_add(signed.div_euclid(self.length as i64) as u64)
        };
        (since(self.to), since(self.from))
    }
}

impl SmpCheck<'_> {
    /// A mark tells interval and `last_balance` of one level of every CPU.
    pub(super) fn domain_state(&mut self, depth: usize, f: &Fields<'_>) -> Result<(), String> {
        let (intervals, last) = (f.each("b"), f.each("t"));
        for (cpu, (interval, last)) in (0..self.domains.cpus()).zip(intervals.into_iter().zip(last))
        {
            if let Some(link) = self.domains.chain(cpu).get(depth) {
                let level = self.domains.domain(link.domain).level;
                let told = Step::Told(cpu, level, last, interval);
                self.periodic.steps.push(told);
            }
        }
        Ok(())
    }

    pub(super) fn periodic_pass(&mut self, at: At<'_>, f: &Fields<'_>) -> Result<(), String> {
        let cpu = f.small("cpu")?;
        let idle = f.need("idle")? == 1;
        let curr = self.machine.cpus[cpu as usize].curr;
        let policy = curr.and_then(|pid| self.machine.known(pid)?.idle_policy);
        let busy = if idle {
            Some(false)
        } else {
            policy.map(|idle_policy| !idle_policy)
        };
        let state = &mut self.periodic;
        state.open.insert(at.event.cpu, state.steps.len());
        state.steps.push(Step::Pass(Pass {
            number: at.number,
            cpu,
            by: at.event.cpu,
            ts: at.event.ts,
            busy,
            levels: Vec::new(),
        }));
        Ok(())
    }

    /// Finds the instant within a tick at which jiffies change, from pairs of a balance's end and the `last_balance` told later.
    fn ticks(&self) -> Option<Ticks> {
        let (mark_ts, base) = self.periodic.mark?;
        let length = 1_000_000_000 / u64::from(self.options.hz.max(1));
        let (mut from, mut to) = (mark_ts.saturating_sub(length), mark_ts);
        let mut ends = std::collections::BTreeMap::new();
        for step in &self.periodic.steps {
            match step {
                Step::Ended(cpu, level, _, Some(end)) => {
                    ends.insert((*cpu, *level), *end);
                }
                Step::Told(cpu, level, last, _) => {
                    let Some(end) = ends.remove(&(*cpu, *level)) else {
                        continue;
                    };
                    let periods = last.wrapping_sub(base) as i64;
                    let Some(shift) = periods.checked_mul(length as i64) else {
                        continue;
                    };
                    // Jiffy `last` had begun by `end`, and `last + 1` had not, but for the tick's own time.
                    let latest = (end as i64).saturating_sub(shift);
                    let earliest = latest.saturating_sub(length as i64);
                    to = to.min(u64::try_from(latest).unwrap_or(0));
                    from = from.max(u64::try_from(earliest).unwrap_or(0));
                }
                _ => {}
            }
        }
        // Where the pairs contradict each other, ticks were late, and what lies between is not certain. A tick is late also where
        // several CPUs take it one after the other.
        const LATE: u64 = 150_000;
        Some(Ticks {
            base,
            from: from.min(to).saturating_sub(LATE),
            to: from.max(to).saturating_add(LATE),
            length,
        })
    }

    pub(super) fn periodic_decisions(&mut self) {
        const KIND: &str = "periodic levels";
        let Some(ticks) = self.ticks() else { return };
        let mut known = std::collections::BTreeMap::new();
        let steps = std::mem::take(&mut self.periodic.steps);
        for step in &steps {
            match step {
                Step::Told(cpu, level, last, interval) => {
                    let told = Known {
                        interval: *interval,
                        last: Last::Jiffies(*last),
                    };
                    known.insert((*cpu, *level), told);
                }
                Step::Ended(cpu, level, interval, end) => {
                    if let Some(k) = known.get_mut(&(*cpu, *level)) {
                        k.interval = *interval;
                        if let Some(end) = end {
                            k.last = Last::At(*end);
                        }
                    }
                }
                Step::Pass(pass) => match self.due(pass, &ticks, &known) {
                    Ok(None) => self.report.undecided(
                        KIND,
                        "when a level was balanced last, or the jiffy, is not known",
                    ),
                    Ok(Some(())) => self.report.agree(KIND),
                    Err(ours) => {
                        let levels: Vec<_> = pass.levels.iter().map(|l| l.level).collect();
                        self.report.miss(Miss {
                            event: pass.number,
                            ts: pass.ts,
                            kind: KIND,
                            cpu: pass.by,
                            pid: None,
                            ours,
                            kernel: format!("{levels:?}"),
                            cause: "not found",
                        });
                    }
                },
            }
        }
    }

    /// Whether the levels balanced in a pass are those that were due. `Ok(None)`: not determined.
    fn due(
        &self,
        pass: &Pass,
        ticks: &Ticks,
        known: &std::collections::BTreeMap<(u32, u32), Known>,
    ) -> Result<Option<()>, String> {
        use schedlab_balance::DomainFlags;
        let mut done = pass.levels.iter().peekable();
        let mut certain = true;
        let mut now = pass.ts;
        for link in self.domains.chain(pass.cpu) {
            let domain = self.domains.domain(link.domain);
            let ran = done.peek().is_some_and(|l| l.level == domain.level);
            let told = done.peek().filter(|_| ran).map(|l| &l.before);
            let known = told.or_else(|| known.get(&(pass.cpu, domain.level)));
            let due = known.map(|k| {
                let (low, high) = ticks.at(now);
                let (last_low, last_high) = match k.last {
                    Last::Jiffies(j) => (j, j),
                    Last::At(ts) => ticks.at(ts),
                };
                let (hz, cpus) = (u64::from(self.options.hz), u64::from(self.domains.cpus()));
                let interval = |busy| balance_interval(domain, k.interval, busy, hz, cpus);
                let passed = |now: u64, last: u64, busy| {
                    now.wrapping_sub(last) as i64 >= interval(busy) as i64
                };
                (
                    passed(low, last_high, pass.busy.unwrap_or(true)),
                    passed(high, last_low, pass.busy.unwrap_or(false)),
                )
            });
            match due {
                Some((a, b)) if a == b && a != ran => {
                    // Another CPU may hold the lock of a serialized level.
                    if a && domain.flags.has(DomainFlags::SERIALIZE) {
                        return Ok(None);
                    }
                    let word = if a { "due" } else { "not due" };
                    return Err(format!("level {} {word}", domain.level));
                }
                Some((a, b)) => certain &= a == b,
                None => certain = false,
            }
            if ran && let Some(l) = done.next() {
                now = l.end;
                if l.stops {
                    // Higher levels are left to another CPU.
                    break;
                }
                if l.moved {
                    // The CPU may be busy now, which lengthens the intervals above.
                    return Ok(None);
                }
            }
        }
        Ok(certain.then_some(()))
    }
}
