//! The steps of a program as a scenario file writes them: one string a step, a table for a loop.

use std::collections::BTreeMap;

use schedlab_fair::Ns;
use schedlab_sim::program::{
    BarrierId, ChannelId, CondId, Dur, LockId, LockKind, Mode, Op, ProgramId, Sched, SemId, TimerId,
};

use crate::channel::ChannelKind;
use crate::cpulist::{CpuListError, parse_cpu_list};
use crate::error::{Error, Place};
use crate::plan::{Names, Plan};
use crate::reader::{Field, Reader, outside};
use crate::time::parse_time;

/// The steps there are: the word, and the form that error messages and `docs/formats/scenario.md` show.
const FORMS: [(&str, &str); 26] = [
    (
        "run",
        "\"run TIME [kernel|nopreempt] [cond_resched TIME]\", such as \"run 2ms\"",
    ),
    (
        "run_until",
        "\"run_until TIME [TIME]\", such as \"run_until 500ms\": work until then, looking at the clock each 100us",
    ),
    ("sleep", "\"sleep TIME\", such as \"sleep 1ms..3ms\""),
    ("block", "\"block TIME\", such as \"block 5ms\""),
    (
        "timer",
        "\"timer NAME PERIOD [absolute]\", such as \"timer tick 16ms\"",
    ),
    (
        "beat",
        "\"beat NAME PERIOD\", such as \"beat frame 16ms\": sleep to the next whole period since the task's start",
    ),
    (
        "send",
        "\"send CHANNEL BYTES\", such as \"send requests 100\"",
    ),
    (
        "recv",
        "\"recv CHANNEL BYTES\", such as \"recv requests 100\"",
    ),
    ("lock", "\"lock NAME\""),
    ("unlock", "\"unlock NAME\""),
    ("barrier", "\"barrier NAME\""),
    ("wait", "\"wait CONDITION [LOCK]\""),
    ("signal", "\"signal CONDITION\""),
    ("broadcast", "\"broadcast CONDITION\""),
    ("sem_post", "\"sem_post NAME\""),
    ("sem_wait", "\"sem_wait NAME\""),
    ("suspend", "\"suspend\""),
    ("resume", "\"resume TASK\""),
    ("yield", "\"yield\""),
    ("fork", "\"fork TASK\""),
    ("wait_children", "\"wait_children\""),
    ("exit", "\"exit\""),
    ("nice", "\"nice N\", N from -20 to 19"),
    ("slice", "\"slice TIME\" or \"slice default\""),
    ("cpus", "\"cpus LIST\", such as \"cpus 0-3,8\""),
    ("count", "\"count UNITS\", such as \"count 1\""),
];

/// What a whole step should look like.
const STEP: &str = "a step such as \"run 2ms\", or a loop such as { loop = 10, steps = [\"run 2ms\", \"sleep 1ms\"] }";

/// Loops nested deeper than this are refused.
const LOOP_DEPTH_LIMIT: u32 = 16;

/// How an object is used, to find the ones that somebody waits on and nobody serves.
#[derive(Clone, Debug, Default)]
struct Use {
    /// First use on this side: where, and the key.
    gives: Option<(Place, String)>,
    /// First use on the other side.
    takes: Option<(Place, String)>,
}

/// The objects that all programs of a scenario share, by name.
#[derive(Default)]
pub(crate) struct Objects {
    pub(crate) channels: Names<ChannelId>,
    pub(crate) locks: Names<LockId>,
    pub(crate) barriers: Names<BarrierId>,
    conds: Names<CondId>,
    pub(crate) sems: Names<SemId>,
    uses: BTreeMap<(&'static str, String), Use>,
    /// Uses of each barrier, for the ones whose number of tasks is not given.
    pub(crate) barrier_uses: BTreeMap<BarrierId, u32>,
}

/// What the steps of one task are read with.
pub(crate) struct StepContext<'a> {
    pub(crate) plan: &'a mut Plan,
    pub(crate) objects: &'a mut Objects,
    /// CPUs of the machine.
    pub(crate) cpus: u32,
    /// How many tasks run these steps.
    pub(crate) instances: u32,
    /// Timers of this task.
    pub(crate) timers: Names<TimerId>,
    /// Tasks by name, for `resume`.
    pub(crate) task_names: &'a [String],
    /// Programs that may be forked, by name.
    pub(crate) templates: &'a Names<ProgramId>,
    /// Nice value in force, kept when the policy changes.
    pub(crate) sched: Sched,
}

impl StepContext<'_> {
    /// Reads a list of steps.
    pub(crate) fn steps(&mut self, field: &Field<'_>) -> Result<Vec<Op>, Error> {
        self.nested(field, 0)
    }

    fn nested(&mut self, field: &Field<'_>, depth: u32) -> Result<Vec<Op>, Error> {
        let items = field.array("a list of steps, such as [\"run 2ms\", \"sleep 1ms\"]")?;
        items.iter().map(|item| self.step(item, depth)).collect()
    }

    fn step(&mut self, field: &Field<'_>, depth: u32) -> Result<Op, Error> {
        if let Some(text) = field.node.as_str() {
            return self.words(field, text);
        }
        let reader = Reader::new(field, STEP)?;
        if depth >= LOOP_DEPTH_LIMIT {
            return Err(field.conflict(format!(
                "loops are nested deeper than {LOOP_DEPTH_LIMIT} levels"
            )));
        }
        let times = match reader.need("loop", "a number of times, or \"forever\"")? {
            f if f.node.as_str() == Some("forever") => None,
            f if f.node.as_str().is_some() => {
                return Err(f.wrong("a number of times above zero, or \"forever\""));
            }
            f => Some(f.integer(1..=u64::MAX)?),
        };
        let body = self.nested(&reader.need("steps", "the steps to repeat")?, depth + 1)?;
        reader.finish()?;
        if needs_time(times) && !body.iter().any(takes_time) {
            return Err(field
                .conflict("a loop this long needs a step that takes time, such as \"run 1us\""));
        }
        Ok(Op::Loop { times, body })
    }

    fn words(&mut self, field: &Field<'_>, text: &str) -> Result<Op, Error> {
        let mut words = text.split_whitespace();
        let Some(verb) = words.next() else {
            return Err(field.wrong(STEP));
        };
        let args: Vec<&str> = words.collect();
        let Some((verb, form)) = FORMS.iter().find(|(v, _)| *v == verb) else {
            return Err(Error::UnknownName {
                place: field.node.place.clone(),
                key: field.path.clone(),
                what: "step",
                name: verb.into(),
                known: FORMS.iter().map(|(v, _)| (*v).to_string()).collect(),
            });
        };
        match self.op(field, verb, &args)? {
            Some(op) => Ok(op),
            None => Err(field.wrong(form)),
        }
    }

    /// The operation, or `None` if the arguments do not have the right form.
    fn op(
        &mut self,
        field: &Field<'_>,
        verb: &'static str,
        args: &[&str],
    ) -> Result<Option<Op>, Error> {
        Ok(match (verb, args) {
            ("run", [time, rest @ ..]) => run(time, rest),
            ("run_until", [until, rest @ ..]) => run_until(until, rest),
            ("sleep", [time]) => dur(time).map(Op::Sleep),
            ("block", [time]) => dur(time).map(Op::BlockIo),
            ("beat", [name, period]) => {
                let Some(period) = parse_time(period).filter(|p| p.0 > 0) else {
                    return Ok(None);
                };
                let plan = &mut *self.plan;
                let timer = self.timers.get_or(name, || plan.timer());
                Some(Op::Beat { timer, period })
            }
            ("timer", [name, period, rest @ ..]) => {
                let absolute = match rest {
                    [] => false,
                    ["absolute"] => true,
                    _ => return Ok(None),
                };
                let Some(period) = parse_time(period).filter(|p| p.0 > 0) else {
                    return Ok(None);
                };
                let plan = &mut *self.plan;
                let timer = self.timers.get_or(name, || plan.timer());
                Some(Op::Timer {
                    timer,
                    period,
                    absolute,
                })
            }
            ("send", [name, bytes]) => {
                let channel = self.channel(name, bytes);
                self.used(field, "channel", name, true);
                channel.map(|(channel, bytes)| Op::Send { channel, bytes })
            }
            ("recv", [name, bytes]) => {
                let channel = self.channel(name, bytes);
                self.used(field, "channel", name, false);
                channel.map(|(channel, bytes)| Op::Recv { channel, bytes })
            }
            ("lock", [name]) => {
                self.used(field, "lock", name, true);
                Some(Op::Lock(self.lock(name)))
            }
            ("unlock", [name]) => {
                self.used(field, "lock", name, false);
                Some(Op::Unlock(self.lock(name)))
            }
            ("barrier", [name]) => {
                let plan = &mut *self.plan;
                let barrier = self.objects.barriers.get_or(name, || plan.barrier(0));
                *self.objects.barrier_uses.entry(barrier).or_default() += self.instances;
                Some(Op::Barrier(barrier))
            }
            ("wait", [name, rest @ ..]) => {
                let lock = match rest {
                    [] => None,
                    [lock] => Some(self.lock(lock)),
                    _ => return Ok(None),
                };
                self.used(field, "condition", name, false);
                let cond = self.cond(name);
                Some(Op::Wait { cond, lock })
            }
            ("signal", [name]) => {
                self.used(field, "condition", name, true);
                Some(Op::Signal(self.cond(name)))
            }
            ("broadcast", [name]) => {
                self.used(field, "condition", name, true);
                Some(Op::Broadcast(self.cond(name)))
            }
            ("sem_post", [name]) => {
                self.used(field, "semaphore", name, true);
                Some(Op::SemPost(self.sem(name)))
            }
            ("sem_wait", [name]) => {
                self.used(field, "semaphore", name, false);
                Some(Op::SemWait(self.sem(name)))
            }
            ("suspend", []) => Some(Op::Suspend),
            ("resume", [task]) => {
                self.known_task(field, task)?;
                Some(Op::Resume {
                    task: (*task).to_string(),
                })
            }
            ("yield", []) => Some(Op::Yield),
            ("fork", [task]) => match self.templates.get(task) {
                Some(program) => Some(Op::Fork { program }),
                None => {
                    return Err(Error::UnknownName {
                        place: field.node.place.clone(),
                        key: field.path.clone(),
                        what: "task with count = 0 (a template for fork)",
                        name: (*task).to_string(),
                        known: self.templates.names().map(str::to_string).collect(),
                    });
                }
            },
            ("wait_children", []) => Some(Op::WaitChildren),
            ("exit", []) => Some(Op::Exit),
            ("nice", [n]) => match n.parse::<i8>() {
                Ok(nice @ -20..=19) => {
                    self.sched = match self.sched {
                        Sched::Batch { .. } => Sched::Batch { nice },
                        _ => Sched::Other { nice },
                    };
                    Some(Op::SetSched(self.sched))
                }
                _ => None,
            },
            ("slice", ["default"]) => Some(Op::SetSlice(None)),
            ("slice", [time]) => parse_time(time)
                .filter(|t| t.0 > 0)
                .map(|t| Op::SetSlice(Some(t))),
            ("cpus", [list]) => match parse_cpu_list(list, self.cpus) {
                Ok(cpus) => Some(Op::SetAffinity(cpus)),
                Err(CpuListError::Form) => None,
                Err(CpuListError::Outside(cpu)) => {
                    return Err(field.conflict(outside(cpu, self.cpus)));
                }
            },
            ("count", [units]) => units.parse().ok().map(|units| Op::Count { units }),
            _ => None,
        })
    }

    fn channel(&mut self, name: &str, bytes: &str) -> Option<(ChannelId, u32)> {
        let bytes = bytes
            .parse::<u32>()
            .ok()
            .filter(|b| (1..=MAX_MESSAGE).contains(b))?;
        let plan = &mut *self.plan;
        let channel = self
            .objects
            .channels
            .get_or(name, || plan.channel(ChannelKind::Pipe.spec(bytes)));
        Some((channel, bytes))
    }

    fn lock(&mut self, name: &str) -> LockId {
        let plan = &mut *self.plan;
        self.objects
            .locks
            .get_or(name, || plan.lock(LockKind::Sleep))
    }

    fn cond(&mut self, name: &str) -> CondId {
        let plan = &mut *self.plan;
        self.objects.conds.get_or(name, || plan.cond())
    }

    fn sem(&mut self, name: &str) -> SemId {
        let plan = &mut *self.plan;
        self.objects.sems.get_or(name, || plan.sem(0))
    }

    fn known_task(&self, field: &Field<'_>, name: &str) -> Result<(), Error> {
        if self.task_names.iter().any(|n| n == name) {
            return Ok(());
        }
        Err(Error::UnknownName {
            place: field.node.place.clone(),
            key: field.path.clone(),
            what: "task",
            name: name.into(),
            known: self.task_names.to_vec(),
        })
    }

    fn used(&mut self, field: &Field<'_>, what: &'static str, name: &str, gives: bool) {
        let entry = self.objects.uses.entry((what, name.into())).or_default();
        let side = if gives {
            &mut entry.gives
        } else {
            &mut entry.takes
        };
        side.get_or_insert_with(|| (field.node.place.clone(), field.path.clone()));
    }
}

/// Largest message of a channel: what a pipe holds.
pub(crate) const MAX_MESSAGE: u32 = crate::channel::PIPE_CAPACITY;

impl Objects {
    /// Gives each barrier without a declared number the number of tasks that use it.
    pub(crate) fn count_barriers(&self, plan: &mut Plan) {
        for (barrier, uses) in &self.barrier_uses {
            if let Some(count) = plan
                .barriers
                .get_mut(barrier.0 as usize)
                .filter(|c| **c == 0)
            {
                *count = *uses;
            }
        }
    }

    /// Refuses objects that are used on one side only: mostly a name misspelt on the other.
    pub(crate) fn check_pairs(&self) -> Result<(), Error> {
        for ((what, name), used) in &self.uses {
            let (at, problem) = match (&used.gives, &used.takes) {
                (Some(at), None) if *what == "channel" => {
                    (at, format!("nothing receives from the channel `{name}`"))
                }
                (Some(at), None) if *what == "lock" => (at, format!("nothing unlocks `{name}`")),
                (None, Some(at)) => match *what {
                    "channel" => (at, format!("nothing sends to the channel `{name}`")),
                    "lock" => (at, format!("nothing locks `{name}`")),
                    "condition" => (at, format!("nothing signals `{name}`")),
                    // A semaphore may start with a count.
                    _ => continue,
                },
                _ => continue,
            };
            return Err(Error::Conflict {
                place: at.0.clone(),
                key: at.1.clone(),
                problem,
            });
        }
        Ok(())
    }
}

/// Whether an operation lets time pass whatever other tasks do.
///
/// Waiting for others does not count: two tasks that only hand a message to and fro would never let time pass.
pub(crate) fn takes_time(op: &Op) -> bool {
    match op {
        Op::Run { work, .. } => !matches!(work, Dur::Fixed(Ns(0))),
        Op::Sleep(_) | Op::BlockIo(_) | Op::Timer { .. } | Op::Beat { .. } | Op::Exit => true,
        Op::Loop { body, .. } => body.iter().any(takes_time),
        _ => false,
    }
}

/// `run_until TIME [TIME]`.
fn run_until(until: &str, rest: &[&str]) -> Option<Op> {
    let until = parse_time(until)?;
    let check = match rest {
        [] => Ns::from_us(100),
        [check] => parse_time(check).filter(|c| c.0 > 0)?,
        _ => return None,
    };
    Some(Op::RunUntil { until, check })
}

/// Whether a loop is so long that it must let time pass.
pub(crate) fn needs_time(times: Option<u64>) -> bool {
    times.is_none_or(|t| t > 1_000_000)
}

fn run(time: &str, rest: &[&str]) -> Option<Op> {
    let (mode, rest) = match rest {
        ["kernel", rest @ ..] => (Mode::Kernel, rest),
        ["nopreempt", rest @ ..] => (Mode::KernelNoPreempt, rest),
        _ => (Mode::User, rest),
    };
    let cond_resched = match (mode, rest) {
        (_, []) => None,
        (Mode::Kernel, ["cond_resched", time]) => Some(parse_time(time).filter(|t| t.0 > 0)?),
        _ => return None,
    };
    Some(Op::Run {
        work: dur(time)?,
        mode,
        cond_resched,
    })
}

/// A length of time: `3ms`, `1ms..3ms` for uniform, `exp(3ms)` for exponential.
pub(crate) fn dur(text: &str) -> Option<Dur> {
    if let Some(mean) = text.strip_prefix("exp(").and_then(|t| t.strip_suffix(')')) {
        return parse_time(mean)
            .filter(|m| m.0 > 0)
            .map(|mean| Dur::Exponential { mean });
    }
    if let Some((lo, hi)) = text.split_once("..") {
        let (lo, hi) = (parse_time(lo)?, parse_time(hi)?);
        return (lo <= hi && hi.0 > 0).then_some(Dur::Uniform { lo, hi });
    }
    parse_time(text).filter(|t| t.0 > 0).map(Dur::Fixed)
}
