//! What is simulated, and the errors of a configuration that cannot be.

use schedlab_fair::{Ns, Profile, Weight};
use schedlab_topology::{Machine, MachineError};
use thiserror::Error;

use crate::costs::Costs;
use crate::program::{ChannelSpec, Dur, LockKind, Mode, Op, Program, Sched, TaskSpec};
use crate::server::ServerSpec;

/// Longest run, ns: 146 years, so that no time overflows.
pub(crate) const LONGEST_RUN: u64 = 1 << 62;
/// Longest work or sleep, ns: 18 years.
const LONGEST: u64 = 1 << 59;
/// Most that anything may cost, ns: 1,000 s.
const MOST_COST: u64 = 1_000_000_000_000;

fn not_longer(whose: &str, what: &'static str, ns: u64, most: u64) -> Result<(), SimError> {
    if ns <= most {
        return Ok(());
    }
    Err(SimError::TooLong {
        whose: whose.to_string(),
        what,
        ns,
        most,
    })
}

/// Preemption model (reference section 14).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PreemptModel {
    /// Kernel mode is left only at its end and at `cond_resched`.
    None,
    /// The same, and at points that may sleep.
    #[default]
    Voluntary,
    /// Kernel mode is preempted at once where preemption is enabled.
    Full,
    /// As full for other classes; fair tasks wait for the return to user mode or the next tick.
    Lazy,
}

/// A control group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupSpec {
    /// For messages.
    pub name: String,
    /// Index of its parent, a group before this one; `None` for the root.
    pub parent: Option<u32>,
    /// Configured shares.
    pub shares: Weight,
    /// `cpu.idle`.
    pub idle: bool,
    /// Quota, if limited.
    pub bandwidth: Option<schedlab_fair::BandwidthAttr>,
}

/// Everything that a simulation needs.
#[derive(Clone, PartialEq, Debug)]
pub struct SimConfig {
    /// Kernel rules. A lazy reschedule is made a full one unless `preempt` is lazy.
    pub profile: Profile,
    /// The machine: its CPUs and how far they are from each other.
    pub machine: Machine,
    /// Ticks a second, 1 to 10 000.
    pub hz: u32,
    /// Preemption model.
    pub preempt: PreemptModel,
    /// Core scheduling (`SCHED_CORE`, reference section 16): CPUs of the same site never run tasks of different
    /// cookies at once.
    pub core_sched: bool,
    /// The fair server of each CPU, where the profile has one.
    pub fair_server: ServerSpec,
    /// Costs.
    pub costs: Costs,
    /// Ticks of CPU `i` come `i` times this after those of CPU 0 (modulo a tick); 0: all at the same instant.
    pub tick_skew: Ns,
    /// CPUs whose tick stops while they have nothing to choose between (`nohz_full=`).
    pub nohz_full: Vec<u32>,
    /// Groups, parents first.
    pub groups: Vec<GroupSpec>,
    /// Programs.
    pub programs: Vec<Program>,
    /// Tasks that exist from the start. Forked ones take over what their parent has.
    pub tasks: Vec<TaskSpec>,
    /// Channels.
    pub channels: Vec<ChannelSpec>,
    /// Locks.
    pub locks: Vec<LockKind>,
    /// Tasks that each barrier waits for.
    pub barriers: Vec<u32>,
    /// Number of condition variables.
    pub conds: u32,
    /// Initial counts of semaphores.
    pub sems: Vec<u32>,
    /// Number of timers.
    pub timers: u32,
    /// End of the simulation; `None`: when every task has ended.
    pub duration: Option<Ns>,
    /// Seed of all random streams.
    pub seed: u64,
}

/// Why a configuration cannot be simulated, or a simulation cannot go on.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SimError {
    /// A machine that cannot be.
    #[error("machine: {0}")]
    Machine(#[from] MachineError),
    /// Tick rate.
    #[error("hz = {0}: expected 1 to 10000 ticks a second")]
    Hz(u32),
    /// The fair server's share.
    #[error(
        "fair server: {runtime} ns of every {period} ns; expected a period above zero and no more runtime than that"
    )]
    Server {
        /// Its runtime.
        runtime: u64,
        /// Its period.
        period: u64,
    },
    /// Zero duration.
    #[error("duration: expected more than 0")]
    ZeroDuration,
    /// A time beyond what is simulated.
    #[error("{whose}: {what} of {ns} ns; expected at most {most} ns")]
    TooLong {
        /// Who has it.
        whose: String,
        /// What it is.
        what: &'static str,
        /// How long.
        ns: u64,
        /// The most that is possible.
        most: u64,
    },
    /// An empty range.
    #[error("{whose}: a length between {lo} and {hi} ns; expected the smaller first")]
    Range {
        /// Who has it.
        whose: String,
        /// Smallest value.
        lo: u64,
        /// Largest value.
        hi: u64,
    },
    /// A nice level out of range.
    #[error("{whose}: nice {nice}; expected -20 to 19")]
    Nice {
        /// Who has it.
        whose: String,
        /// The level.
        nice: i8,
    },
    /// Nothing to run.
    #[error("no task; expected at least one")]
    NoTask,
    /// A CPU outside the machine.
    #[error("{whose}: CPU {cpu} is outside the machine, which has CPUs 0 to {last}")]
    CpuOutside {
        /// Who names it.
        whose: String,
        /// CPU.
        cpu: u32,
        /// Last CPU.
        last: u32,
    },
    /// Something that does not exist.
    #[error("{whose}: no {what} number {number}; there are {count}")]
    Missing {
        /// Who names it.
        whose: String,
        /// Kind of thing.
        what: &'static str,
        /// Its number.
        number: u32,
        /// How many there are.
        count: u32,
    },
    /// A number that must be above zero.
    #[error("{whose}: {what} is 0; expected more")]
    Zero {
        /// Who has it.
        whose: String,
        /// What it is.
        what: &'static str,
    },
    /// A priority out of range.
    #[error("task `{task}`: real-time priority {priority}; expected 1 to 99")]
    Priority {
        /// Task.
        task: String,
        /// Priority.
        priority: u8,
    },
    /// A program that would never let the simulation end.
    #[error("program `{program}` repeats work for ever; expected a duration")]
    Endless {
        /// Program.
        program: String,
    },
    /// A task that loops without using time.
    #[error(
        "task `{task}`: {steps} steps without simulated time passing; its program never runs, sleeps or waits"
    )]
    NoProgress {
        /// Task.
        task: String,
        /// Steps.
        steps: u64,
    },
    /// An unlock by a task that does not hold the lock.
    #[error("task `{task}`: unlocks lock {lock}, which it does not hold")]
    NotHolder {
        /// Task.
        task: String,
        /// Lock.
        lock: u32,
    },
    /// Resume of an unknown task.
    #[error("task `{task}`: resumes `{target}`, which does not exist")]
    NoSuchTask {
        /// Task.
        task: String,
        /// Its target.
        target: String,
    },
    /// A sum of the virtual clock left 64 bits.
    #[error("virtual time overflow: {0}")]
    Overflow(String),
    /// An invariant of the lab does not hold; a fault of the lab.
    #[error("internal: {0}")]
    Internal(String),
}

impl SimConfig {
    /// A machine on which nothing runs yet: 1000 ticks a second, full preemption, everything free of cost, no end,
    /// seed 1.
    #[must_use]
    pub fn new(profile: Profile, machine: Machine) -> Self {
        Self {
            profile,
            machine,
            hz: 1000,
            preempt: PreemptModel::Full,
            core_sched: false,
            fair_server: ServerSpec::default(),
            costs: Costs::ZERO,
            tick_skew: Ns::ZERO,
            nohz_full: Vec::new(),
            groups: Vec::new(),
            programs: Vec::new(),
            tasks: Vec::new(),
            channels: Vec::new(),
            locks: Vec::new(),
            barriers: Vec::new(),
            conds: 0,
            sems: Vec::new(),
            timers: 0,
            duration: None,
            seed: 1,
        }
    }

    /// Checks everything that can be checked before the first event.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, with the task or program that has it.
    pub fn validate(&self) -> Result<(), SimError> {
        self.machine.validate()?;
        if self.hz == 0 || self.hz > 10_000 {
            return Err(SimError::Hz(self.hz));
        }
        if self.duration == Some(Ns(0)) {
            return Err(SimError::ZeroDuration);
        }
        let ServerSpec {
            runtime, period, ..
        } = self.fair_server;
        if period == Ns::ZERO || runtime > period {
            return Err(SimError::Server {
                runtime: runtime.0,
                period: period.0,
            });
        }
        if self.tasks.is_empty() {
            return Err(SimError::NoTask);
        }
        self.cpus_exist("nohz_full", &self.nohz_full)?;
        for (whose, what, Ns(ns), most) in [
            (
                "simulation",
                "duration",
                self.duration.unwrap_or(Ns(1)),
                LONGEST_RUN,
            ),
            ("machine", "tick skew", self.tick_skew, LONGEST),
            ("fair server", "a period", period, LONGEST),
        ] {
            not_longer(whose, what, ns, most)?;
        }
        for (key, _) in Costs::KEYS {
            not_longer(key, "cost", self.costs.get(key).unwrap_or(0), MOST_COST)?;
        }
        for (i, g) in self.groups.iter().enumerate() {
            if let Some(b) = g.bandwidth {
                for (what, ns) in [("period", b.period), ("quota", b.quota)] {
                    if ns.0 == 0 {
                        return Err(SimError::Zero {
                            whose: format!("group `{}`", g.name),
                            what,
                        });
                    }
                }
            }
            if let Some(p) = g.parent {
                self.index("parent group", &format!("group `{}`", g.name), p, i as u32)?;
            }
        }
        for t in &self.tasks {
            self.validate_task(t)?;
        }
        for p in &self.programs {
            self.validate_ops(&p.name, &p.ops)?;
            if self.duration.is_none() && p.ops.iter().any(endless) {
                return Err(SimError::Endless {
                    program: p.name.clone(),
                });
            }
        }
        for (i, c) in self.channels.iter().enumerate() {
            if c.capacity == 0 {
                return Err(SimError::Zero {
                    whose: format!("channel {i}"),
                    what: "capacity",
                });
            }
        }
        for (i, &n) in self.barriers.iter().enumerate() {
            if n == 0 {
                return Err(SimError::Zero {
                    whose: format!("barrier {i}"),
                    what: "count",
                });
            }
        }
        Ok(())
    }

    fn index(
        &self,
        what: &'static str,
        whose: &str,
        number: u32,
        count: u32,
    ) -> Result<(), SimError> {
        if number < count {
            return Ok(());
        }
        Err(SimError::Missing {
            whose: whose.to_string(),
            what,
            number,
            count,
        })
    }

    fn validate_task(&self, t: &TaskSpec) -> Result<(), SimError> {
        let whose = format!("task `{}`", t.comm);
        self.index("program", &whose, t.program.0, self.programs.len() as u32)?;
        if let Some(g) = t.group {
            self.index("group", &whose, g, self.groups.len() as u32)?;
        }
        self.cpus_exist(&whose, &t.affinity)?;
        not_longer(&whose, "start", t.start.0, LONGEST_RUN)?;
        validate_sched(&t.comm, t.sched)
    }

    fn cpus_exist(&self, whose: &str, list: &[u32]) -> Result<(), SimError> {
        let last = self.machine.nr_cpus() - 1;
        match list.iter().find(|&&c| c > last) {
            Some(&cpu) => Err(SimError::CpuOutside {
                whose: whose.to_string(),
                cpu,
                last,
            }),
            None => Ok(()),
        }
    }

    fn validate_ops(&self, program: &str, ops: &[Op]) -> Result<(), SimError> {
        let whose = format!("program `{program}`");
        let n = |len: usize| len as u32;
        for op in ops {
            match op {
                Op::Run { work: d, .. } | Op::Sleep(d) | Op::BlockIo(d) => {
                    let (Dur::Fixed(ns)
                    | Dur::Uniform { hi: ns, .. }
                    | Dur::Exponential { mean: ns }) = d;
                    not_longer(&whose, "length", ns.0, LONGEST)?;
                    if let Dur::Uniform { lo, hi } = d
                        && lo > hi
                    {
                        return Err(SimError::Range {
                            whose,
                            lo: lo.0,
                            hi: hi.0,
                        });
                    }
                }
                _ => {}
            }
            match op {
                Op::Run {
                    cond_resched: Some(Ns(0)),
                    ..
                } => {
                    return Err(SimError::Zero {
                        whose,
                        what: "cond_resched spacing",
                    });
                }
                Op::RunUntil { check: Ns(0), .. } => {
                    return Err(SimError::Zero {
                        whose,
                        what: "time between two looks at the clock",
                    });
                }
                Op::Timer { timer, period, .. } | Op::Beat { timer, period } => {
                    self.index("timer", &whose, timer.0, self.timers)?;
                    if period.0 == 0 {
                        return Err(SimError::Zero {
                            whose,
                            what: "period",
                        });
                    }
                }
                Op::Send { channel, bytes } | Op::Recv { channel, bytes } => {
                    self.index("channel", &whose, channel.0, n(self.channels.len()))?;
                    if *bytes == 0 {
                        return Err(SimError::Zero {
                            whose,
                            what: "number of bytes",
                        });
                    }
                }
                Op::Lock(l) | Op::Unlock(l) => {
                    self.index("lock", &whose, l.0, n(self.locks.len()))?;
                }
                Op::Barrier(b) => self.index("barrier", &whose, b.0, n(self.barriers.len()))?,
                Op::Wait { cond, lock } => {
                    self.index("condition", &whose, cond.0, self.conds)?;
                    if let Some(l) = lock {
                        self.index("lock", &whose, l.0, n(self.locks.len()))?;
                    }
                }
                Op::Signal(c) | Op::Broadcast(c) => {
                    self.index("condition", &whose, c.0, self.conds)?;
                }
                Op::SemPost(s) | Op::SemWait(s) => {
                    self.index("semaphore", &whose, s.0, n(self.sems.len()))?;
                }
                Op::Fork { program: p } => {
                    self.index("program", &whose, p.0, n(self.programs.len()))?;
                }
                Op::HandOver { post, tail, wait } => {
                    for s in [post, wait] {
                        self.index("semaphore", &whose, s.0, n(self.sems.len()))?;
                    }
                    not_longer(&whose, "way to a sleep", tail.0, 1_000_000_000)?;
                }
                Op::SetSched(s) => validate_sched(program, *s)?,
                Op::SetAffinity(list) => {
                    if list.is_empty() {
                        return Err(SimError::Zero {
                            whose,
                            what: "number of allowed CPUs",
                        });
                    }
                    self.cpus_exist(&format!("program `{program}`"), list)?;
                }
                Op::Resume { task } => {
                    let known = self.tasks.iter().any(|t| t.comm == *task)
                        || self.programs.iter().any(|p| p.name == *task);
                    if !known {
                        return Err(SimError::NoSuchTask {
                            task: program.to_string(),
                            target: task.clone(),
                        });
                    }
                }
                Op::Loop { body, .. } => self.validate_ops(program, body)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether an operation never ends, whatever other tasks do.
fn endless(op: &Op) -> bool {
    fn needs_nobody(op: &Op) -> bool {
        match op {
            Op::Run { .. }
            | Op::RunUntil { .. }
            | Op::Sleep(_)
            | Op::BlockIo(_)
            | Op::Timer { .. }
            | Op::Beat { .. }
            | Op::Yield
            | Op::SetSched(_)
            | Op::SetSlice(_)
            | Op::SetAffinity(_)
            | Op::Count { .. } => true,
            Op::Loop { body, .. } => body.iter().all(needs_nobody),
            _ => false,
        }
    }
    match op {
        Op::Loop { times: None, body } => body.iter().all(needs_nobody) || body.iter().any(endless),
        Op::Loop { body, .. } => body.iter().any(endless),
        _ => false,
    }
}

fn validate_sched(task: &str, s: Sched) -> Result<(), SimError> {
    match s {
        Sched::Fifo { rt_priority } | Sched::Rr { rt_priority }
            if !(1..=99).contains(&rt_priority) =>
        {
            Err(SimError::Priority {
                task: task.to_string(),
                priority: rt_priority,
            })
        }
        Sched::Other { nice } | Sched::Batch { nice } if !(-20..=19).contains(&nice) => {
            Err(SimError::Nice {
                whose: format!("task `{task}`"),
                nice,
            })
        }
        _ => Ok(()),
    }
}

/// Whether work in a mode counts as system time.
pub(crate) fn is_kernel(mode: Mode) -> bool {
    mode != Mode::User
}
