//! A scenario simulated once, and what is measured of it.

use schedlab_analysis::latency::{LatencyAccumulator, LatencyOptions, LatencyReport, WakeStart};
use schedlab_compare::{Direction, Metric, Role};
use schedlab_fair::{BandwidthAttr, Ns, Weight};
use schedlab_sim::{GroupSpec, PreemptModel, RunResult, Sim, SimConfig, SimError, Snapshot};
use schedlab_trace::event::{Event, EventKind};

use crate::kernel::Preempt;
use crate::scenario::Scenario;

/// One figure of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Name behind the program's, as `time.voluntary_context_switches`.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Unit.
    pub unit: &'static str,
    /// Which way is better.
    pub direction: Direction,
    /// Headline or side figure.
    pub role: Role,
}

/// What is traced beside the kernel's tracepoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunOptions {
    /// The fair class's own state at every step, and what only a simulator knows (`docs/formats/state-recording.md`).
    pub state: bool,
}

/// What a run tells.
#[derive(Clone, PartialEq, Debug)]
pub struct RunOutcome {
    /// The simulator's own counts.
    pub result: RunResult,
    /// Run time and delays, from the events.
    pub latency: LatencyReport,
    /// Figures for a comparison.
    pub figures: Vec<Figure>,
    /// What the workload itself measures: hackbench's `Time`.
    pub workload_time: Option<Ns>,
    /// The workload's output text, if it is a program with one.
    pub output: Option<String>,
}

/// hackbench's own clock, read off the events: from when its main task lets the first worker go to its end.
#[derive(Default)]
struct Stopwatch {
    start: Option<u64>,
    end: Option<u64>,
}

impl Stopwatch {
    /// The main task is the first of all.
    const MAIN: i32 = schedlab_sim::FIRST_PID;

    fn push(&mut self, event: &Event) {
        match &event.kind {
            // It wakes nobody before.
            EventKind::SchedWaking { .. } if event.pid == Self::MAIN && self.start.is_none() => {
                self.start = Some(event.ts);
            }
            EventKind::SchedProcessExit { task } if task.pid == Self::MAIN => {
                self.end = Some(event.ts);
            }
            _ => {}
        }
    }

    fn time(&self) -> Option<Ns> {
        Some(Ns(self.end?.saturating_sub(self.start?)))
    }
}

impl Scenario {
    /// What the simulator is given.
    #[must_use]
    pub fn config(&self) -> SimConfig {
        let plan = &self.plan;
        SimConfig {
            profile: self.kernel.profile,
            machine: self.machine.hardware.clone(),
            hz: self.machine.hz,
            preempt: match self.kernel.preempt {
                Preempt::None => PreemptModel::None,
                Preempt::Voluntary => PreemptModel::Voluntary,
                Preempt::Full => PreemptModel::Full,
                Preempt::Lazy => PreemptModel::Lazy,
            },
            core_sched: self.kernel.core_sched,
            fair_server: self.kernel.fair_server,
            costs: self.costs,
            tick_skew: self.machine.tick_skew,
            nohz_full: self.kernel.nohz_full.clone(),
            groups: plan
                .groups
                .iter()
                .map(|g| GroupSpec {
                    name: g.name.clone(),
                    parent: g.parent,
                    shares: Weight::of_cgroup(g.weight),
                    idle: g.idle,
                    bandwidth: g.quota.map(|q| BandwidthAttr {
                        quota: q.quota,
                        period: q.period,
                        burst: q.burst,
                    }),
                })
                .collect(),
            programs: plan.programs.clone(),
            tasks: self.tasks(),
            channels: plan.channels.clone(),
            locks: plan.locks.clone(),
            barriers: plan.barriers.clone(),
            conds: plan.conds,
            sems: plan.sems.clone(),
            timers: plan.timers,
            duration: self.duration,
            seed: self.seed,
        }
    }

    /// The tasks, with their starts moved by the jitter. A stream of its own, so that it shifts no other draw.
    fn tasks(&self) -> Vec<schedlab_sim::program::TaskSpec> {
        let mut tasks = self.plan.tasks.clone();
        if self.start_jitter > Ns::ZERO {
            let mut stream = schedlab_sim::Stream::new(self.seed, "start jitter");
            for t in &mut tasks {
                t.start += Ns(stream.below(self.start_jitter.0));
            }
        }
        tasks
    }

    /// Simulates the scenario; each event goes to `sink` as well.
    ///
    /// # Errors
    /// If the simulation cannot begin or go on ([`SimError`]).
    pub fn run(&self, sink: impl FnMut(&Event)) -> Result<RunOutcome, SimError> {
        self.run_with(RunOptions::default(), sink)
    }

    /// The same, with a say in what is traced.
    ///
    /// # Errors
    /// As [`Scenario::run`].
    pub fn run_with(
        &self,
        options: RunOptions,
        sink: impl FnMut(&Event),
    ) -> Result<RunOutcome, SimError> {
        self.run_sampled(options, Ns(u64::MAX), |_| {}, sink)
    }

    /// The same, with a look at the kernel's own files after each time `every`.
    ///
    /// # Errors
    /// As [`Scenario::run`].
    pub fn run_sampled(
        &self,
        options: RunOptions,
        every: Ns,
        sample: impl FnMut(Snapshot),
        mut sink: impl FnMut(&Event),
    ) -> Result<RunOutcome, SimError> {
        let mut latency = LatencyAccumulator::new(LatencyOptions::default());
        let mut stopwatch = Stopwatch::default();
        let mut sim = Sim::new(self.config(), |event: &Event| {
            latency.push(event);
            stopwatch.push(event);
            sink(event);
        })?;
        sim.set_state_records(options.state);
        let result = sim.run_sampled(every, sample)?;
        let latency = latency.finish();
        let workload_time = self.workload.as_ref().and_then(|_| stopwatch.time());
        let figures = self.figures(&result, &latency, workload_time);
        let output = self.workload.as_ref().map(|h| {
            let mut text = h.banner();
            if let Some(time) = workload_time {
                text.push_str(&crate::Hackbench::time_line(time));
            }
            text
        });
        Ok(RunOutcome {
            result,
            latency,
            figures,
            workload_time,
            output,
        })
    }

    fn figures(
        &self,
        result: &RunResult,
        latency: &LatencyReport,
        workload_time: Option<Ns>,
    ) -> Vec<Figure> {
        let mut out = Vec::new();
        let mut add = |name: &str, value: f64, unit, direction, role| {
            out.push(Figure {
                name: name.to_string(),
                value,
                unit,
                direction,
                role,
            });
        };
        let seconds = |ns: u64| ns as f64 / 1e9;
        let elapsed = if result.ended {
            result.last_exit.0
        } else {
            result.end.0
        };
        if let (Some(h), Some(time)) = (&self.workload, workload_time)
            && let Some(t) = h.lkp_throughput(time)
        {
            let better = Direction::BetterHigh;
            add("throughput", t, "KB/s", better, Role::Primary);
        }
        if result.work > 0 && elapsed > 0 {
            add(
                "work_per_second",
                result.work as f64 / seconds(elapsed),
                "1/s",
                Direction::BetterHigh,
                if self.workload.is_none() {
                    Role::Primary
                } else {
                    Role::Side
                },
            );
        }
        let sum = |f: fn(&schedlab_sim::TaskStats) -> u64| -> u64 {
            result.tasks.iter().map(|t| f(&t.stats)).sum()
        };
        let unknown = Direction::Unknown;
        let low = Direction::BetterLow;
        add("time.elapsed_time", seconds(elapsed), "s", low, Role::Side);
        for (name, value) in [
            ("time.voluntary_context_switches", sum(|s| s.nvcsw)),
            ("time.involuntary_context_switches", sum(|s| s.nivcsw)),
        ] {
            add(name, value as f64, "", unknown, Role::Side);
        }
        add(
            "time.system_time",
            seconds(sum(|s| s.system)),
            "s",
            unknown,
            Role::Side,
        );
        add(
            "time.user_time",
            seconds(sum(|s| s.user)),
            "s",
            unknown,
            Role::Side,
        );
        for (name, value) in [
            ("sched.switches", result.switches),
            ("sched.wakeups", result.wakeups),
            ("sched.migrations", result.migrations),
        ] {
            add(name, value as f64, "", unknown, Role::Side);
        }
        let total = latency.total(WakeStart::Waking).delays;
        let ms = |ns: u64| ns as f64 / 1e6;
        if let Some(avg) = total.average() {
            add(
                "perf-sched.sch_delay.avg.ms",
                ms(avg),
                "ms",
                low,
                Role::Side,
            );
        }
        add(
            "perf-sched.sch_delay.max.ms",
            ms(total.max),
            "ms",
            low,
            Role::Side,
        );
        add(
            "perf-sched.sch_delay.sum.ms",
            ms(total.sum),
            "ms",
            low,
            Role::Side,
        );
        let all: u64 = result.cpus.iter().map(|c| c.total()).sum();
        let idle: u64 = result.cpus.iter().map(|c| c.idle).sum();
        if all > 0 {
            let busy = 100.0 * (all - idle) as f64 / all as f64;
            add("mpstat.cpu.all.busy%", busy, "%", unknown, Role::Side);
        }
        for c in &result.resched {
            let level = match c.depth {
                None => String::new(),
                Some(0) => ".root".to_string(),
                Some(d) => format!(".level{d}"),
            };
            let name = format!("sched.resched.{}{level}", reason(c.reason));
            add(&name, c.count as f64, "", unknown, Role::Side);
        }
        out
    }
}

/// A reason as it stands in a metric's name.
fn reason(r: schedlab_fair::Reason) -> String {
    let camel = format!("{r:?}");
    let mut out = String::new();
    for c in camel.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

impl Figure {
    /// The metric that the figure is a value of.
    ///
    /// # Errors
    /// If `program` makes no valid key.
    pub fn metric(&self, program: &str) -> Result<Metric, schedlab_compare::SampleError> {
        let mut m = Metric::new(format!("{program}.{}", self.name))?
            .with_unit(self.unit)
            .with_direction(self.direction);
        if self.role == Role::Primary {
            m = m.primary();
        }
        Ok(m)
    }
}
