//! `[[task]]` and `[[group]]`: who runs, where, and under which scheduling parameters.

use schedlab_fair::Ns;
use schedlab_sim::program::{Dur, Mode, Op, ProgramId, Sched, TaskSpec};

use crate::channel::ChannelKind;
use crate::error::Error;
use crate::plan::{GroupPlan, Names, Plan, Quota};
use crate::reader::{Field, Reader};
use crate::replay::{RecordContext, record};
use crate::steps::{MAX_MESSAGE, Objects, StepContext, dur};
use crate::time::TIME_FORM;

/// Most tasks that one `[[task]]` may make.
const COUNT_LIMIT: u32 = 100_000;

/// Ready-made programs, for `kind` and for the list of workloads.
pub(crate) const KINDS: [(&str, &str); 6] = [
    ("hog", "runs without end"),
    ("periodic", "runs for `run` once every `period`"),
    (
        "sleeper",
        "runs for `run`, sleeps for `sleep`, again and again",
    ),
    (
        "yielder",
        "runs for `run`, calls sched_yield, again and again",
    ),
    (
        "pingpong",
        "pairs that hand a message of `bytes` to and fro over two channels, running for `run` each time",
    ),
    (
        "replay",
        "does what `record` says, one short word for each act of a recorded task",
    ),
];

/// Reads `[[group]]`; parents must stand before their children.
pub(crate) fn groups(field: Option<Field<'_>>, plan: &mut Plan) -> Result<Names<u32>, Error> {
    let mut names = Names::default();
    let Some(field) = field else { return Ok(names) };
    for item in field.array("a list of groups")? {
        let reader = Reader::new(&item, "a group")?;
        let name_field = reader.need("name", "the group's name")?;
        let name = name_field.text("the group's name")?;
        let parent = match reader.get("parent") {
            None => None,
            Some(f) => {
                let parent = f.text("the name of a group that stands above this one")?;
                Some(
                    names
                        .get(parent)
                        .ok_or_else(|| f.unknown("group above this one", names.names()))?,
                )
            }
        };
        let (mut weight, mut idle) = (100, false);
        if let Some(f) = reader.get("cpu") {
            let cpu = Reader::new(&f, "a table, such as cpu.weight = 100")?;
            weight = cpu
                .get("weight")
                .map_or(Ok(weight), |f| f.integer(1..=10_000))?;
            idle = cpu.get("idle").map_or(Ok(false), |f| f.boolean())?;
            cpu.finish()?;
        }
        let quota = quota(&reader)?;
        reader.finish()?;
        let index = u32::try_from(plan.groups.len()).unwrap_or(u32::MAX);
        if !names.insert(name, index) {
            return Err(name_field.conflict(format!("the name `{name}` is used twice")));
        }
        plan.groups.push(GroupPlan {
            name: name.into(),
            parent,
            weight,
            idle,
            quota,
        });
    }
    Ok(names)
}

/// `quota`, `period` and `burst`, within the kernel's bounds (reference section 0.3).
fn quota(reader: &Reader<'_>) -> Result<Option<Quota>, Error> {
    let (min, max) = (Ns::from_ms(1), Ns::from_secs(1));
    let Some(f) = reader.get("quota") else {
        for key in ["period", "burst"] {
            if let Some(f) = reader.get(key) {
                return Err(f.conflict("has no effect without `quota`"));
            }
        }
        return Ok(None);
    };
    let quota = f.time()?;
    if quota < min {
        return Err(f.wrong("a time of at least 1ms"));
    }
    let period = match reader.get("period") {
        None => Ns::from_ms(100),
        Some(f) => match f.time()? {
            t if t < min || t > max => return Err(f.wrong("a time from 1ms to 1s")),
            t => t,
        },
    };
    let burst = match reader.get("burst") {
        None => Ns::ZERO,
        Some(f) => match f.time()? {
            t if t > quota => return Err(f.wrong("a time of at most the quota")),
            t => t,
        },
    };
    Ok(Some(Quota {
        quota,
        period,
        burst,
    }))
}

/// What the tasks of a scenario are read with.
pub(crate) struct TaskReader<'a> {
    pub(crate) plan: &'a mut Plan,
    pub(crate) objects: &'a mut Objects,
    pub(crate) groups: &'a Names<u32>,
    pub(crate) cpus: u32,
    /// Whether tasks of a session share a group.
    pub(crate) autogroup: bool,
    /// Groups of the sessions.
    pub(crate) sessions: Names<u32>,
}

/// Scheduling parameters of a `[[task]]`.
struct Attributes {
    sched: Sched,
    slice: Option<Ns>,
    affinity: Vec<u32>,
    group: Option<u32>,
    start: Ns,
    spacing: Ns,
    /// One address space for all of its tasks, named or not.
    threads: bool,
    /// Core scheduling; 0 for none.
    cookie: u64,
}

impl TaskReader<'_> {
    /// Reads `[[task]]`.
    pub(crate) fn read(&mut self, field: Option<Field<'_>>) -> Result<(), Error> {
        let Some(field) = field else { return Ok(()) };
        let items = field.array("a list of tasks")?;
        let mut names = std::collections::BTreeSet::new();
        // What a step may resume: tasks as they are called when they run.
        let mut running: Vec<String> = Vec::new();
        let mut templates = Names::default();
        // Names first: a step may name a task further down.
        for item in &items {
            let reader = Reader::new(item, "a task")?;
            let name_field = reader.need("name", "the task's name")?;
            let name = name_field.text("the task's name")?;
            if name.is_empty() || name.contains(char::is_whitespace) {
                return Err(name_field.wrong("a name without spaces"));
            }
            if !names.insert(name) {
                return Err(name_field.conflict(format!("the name `{name}` is used twice")));
            }
            match count(&reader)? {
                0 => {
                    templates.insert(name, self.plan.program(name, Vec::new()));
                    // A forked task is called as its template.
                    running.push(name.into());
                }
                1 => running.push(name.into()),
                n => running.extend((0..n).map(|i| format!("{name}-{i}"))),
            }
        }
        for item in &items {
            self.task(item, &running, &templates)?;
        }
        self.objects.check_pairs()
    }

    fn task(
        &mut self,
        field: &Field<'_>,
        names: &[String],
        templates: &Names<ProgramId>,
    ) -> Result<(), Error> {
        let reader = Reader::new(field, "a task")?;
        let name = reader
            .need("name", "the task's name")?
            .text("the task's name")?;
        let count = count(&reader)?;
        let attributes = self.attributes(&reader)?;
        if count == 0 {
            // A forked task takes these over from its parent.
            for key in ["group", "start", "spacing", "threads", "cookie", "session"] {
                if let Some(f) = reader.get(key) {
                    return Err(f.conflict("has no effect in a template for fork (count = 0)"));
                }
            }
        }
        let kind = reader.get("kind");
        if let Some(f) = kind
            .as_ref()
            .filter(|f| f.node.as_str() == Some("pingpong"))
        {
            if count == 0 {
                return Err(
                    f.conflict("a pingpong is no template for fork; give a count above zero")
                );
            }
            self.pingpong(&reader, name, count, &attributes)?;
            return reader.finish();
        }
        let recorded = kind
            .as_ref()
            .is_some_and(|f| f.node.as_str() == Some("replay"));
        let program_field = reader.get("program");
        let ops = match (&kind, &program_field) {
            (Some(_), Some(f)) => {
                return Err(f.conflict("a task has either `kind` or `program`, not both"));
            }
            (Some(f), None) if recorded => {
                if count > 1 {
                    return Err(
                        f.conflict("a recorded task is one: `count` is 1, or 0 if it is forked")
                    );
                }
                let context = RecordContext {
                    plan: &mut *self.plan,
                    objects: &mut *self.objects,
                    name,
                    task_names: names,
                    templates,
                    sched: attributes.sched,
                };
                record(&reader, context)?
            }
            (Some(f), None) => self.kind(&reader, f)?,
            (None, Some(f)) => {
                let mut context = StepContext {
                    plan: &mut *self.plan,
                    objects: &mut *self.objects,
                    cpus: self.cpus,
                    instances: count,
                    timers: Names::default(),
                    task_names: names,
                    templates,
                    sched: attributes.sched,
                };
                context.steps(f)?
            }
            (None, None) => {
                return Err(Error::Missing {
                    place: reader.place().clone(),
                    key: reader.path_of("program"),
                    expected: format!(
                        "a list of steps, or `kind` with one of: {}",
                        KINDS.map(|(k, _)| k).join(", ")
                    ),
                });
            }
        };
        reader.finish()?;
        match templates.get(name) {
            Some(program) => self.template(program, ops, &attributes, recorded),
            None => self.instances(name, count, ops, &attributes),
        }
        Ok(())
    }

    fn attributes(&mut self, reader: &Reader<'_>) -> Result<Attributes, Error> {
        let session = self.session(reader)?;
        let group = match reader.get("group") {
            None => session,
            Some(f) => {
                let name = f.text("the name of a [[group]]")?;
                Some(
                    self.groups
                        .get(name)
                        .ok_or_else(|| f.unknown("group", self.groups.names()))?,
                )
            }
        };
        Ok(Attributes {
            sched: sched(reader)?,
            slice: reader
                .get("slice")
                .map(|f| f.time_above_zero())
                .transpose()?,
            affinity: reader
                .get("cpus")
                .map_or(Ok(Vec::new()), |f| f.cpus(self.cpus))?,
            group,
            start: reader.get("start").map_or(Ok(Ns::ZERO), |f| f.time())?,
            spacing: reader.get("spacing").map_or(Ok(Ns::ZERO), |f| f.time())?,
            threads: reader.get("threads").map_or(Ok(false), |f| f.boolean())?,
            cookie: reader
                .get("cookie")
                .map_or(Ok(0), |f| f.integer(0..=u64::MAX))?,
        })
    }

    /// The group of a task's session: one of default weight below the root, made at its first mention (reference section 16).
    fn session(&mut self, reader: &Reader<'_>) -> Result<Option<u32>, Error> {
        let Some(f) = reader.get("session") else {
            return Ok(None);
        };
        let name = f.text("a name for the session")?;
        if !self.autogroup || reader.get("group").is_some() {
            return Ok(None);
        }
        let groups = &mut self.plan.groups;
        let group = self.sessions.get_or(name, || {
            groups.push(GroupPlan {
                name: format!("autogroup {name}"),
                parent: None,
                weight: 100,
                idle: false,
                quota: None,
            });
            u32::try_from(groups.len() - 1).unwrap_or(u32::MAX)
        });
        Ok(Some(group))
    }

    fn kind(&mut self, reader: &Reader<'_>, kind: &Field<'_>) -> Result<Vec<Op>, Error> {
        let forever = |body| vec![Op::Loop { times: None, body }];
        let run = |default: Option<Ns>| -> Result<Op, Error> {
            let work = match (reader.get("run"), default) {
                (None, Some(t)) => Dur::Fixed(t),
                (None, None) => return Err(missing_time(reader, "run")),
                (Some(f), _) => length(&f)?,
            };
            Ok(user(work))
        };
        match kind.text("a kind of task")? {
            // One long stretch after the other; their borders are no scheduling points.
            "hog" => Ok(forever(vec![user(Dur::Fixed(Ns::from_secs(1)))])),
            "periodic" => {
                let period = reader.need("period", TIME_FORM)?.time_above_zero()?;
                let absolute = reader.get("absolute").map_or(Ok(false), |f| f.boolean())?;
                let timer = self.plan.timer();
                Ok(forever(vec![
                    run(None)?,
                    Op::Timer {
                        timer,
                        period,
                        absolute,
                    },
                ]))
            }
            "sleeper" => {
                let sleep = length(&reader.need("sleep", TIME_FORM)?)?;
                Ok(forever(vec![run(None)?, Op::Sleep(sleep)]))
            }
            "yielder" => Ok(forever(vec![run(Some(Ns::from_us(1)))?, Op::Yield])),
            _ => Err(kind.unknown("kind of task", KINDS.map(|(k, _)| k))),
        }
    }

    /// Two tasks a pair; the first of each sends first.
    fn pingpong(
        &mut self,
        reader: &Reader<'_>,
        name: &str,
        pairs: u32,
        attributes: &Attributes,
    ) -> Result<(), Error> {
        let bytes = reader
            .get("bytes")
            .map_or(Ok(1), |f| f.integer(1..=MAX_MESSAGE))?;
        let work = reader
            .get("run")
            .map_or(Ok(Dur::Fixed(Ns::from_us(1))), |f| length(&f))?;
        let times = reader
            .get("loops")
            .map(|f| f.integer(1..=u64::MAX))
            .transpose()?;
        let kind = match reader.get("channel") {
            None => ChannelKind::Pipe,
            Some(f) => match f.text("\"pipe\" or \"socket\"")? {
                "pipe" => ChannelKind::Pipe,
                "socket" => ChannelKind::Socket,
                _ => return Err(f.unknown("kind of channel", ["pipe", "socket"])),
            },
        };
        for pair in 0..pairs {
            let there = self.plan.channel(kind.spec(bytes));
            let back = self.plan.channel(kind.spec(bytes));
            let send = |channel| Op::Send { channel, bytes };
            let recv = |channel| Op::Recv { channel, bytes };
            let count = Op::Count { units: 1 };
            let ping = vec![user(work), send(there), recv(back), count];
            let pong = vec![recv(there), user(work), send(back)];
            for (role, body) in [("ping", ping), ("pong", pong)] {
                let comm = if pairs == 1 {
                    format!("{name}-{role}")
                } else {
                    format!("{name}-{role}-{pair}")
                };
                self.instances(&comm, 1, vec![Op::Loop { times, body }], attributes);
            }
        }
        Ok(())
    }

    /// The program of tasks that are forked later: it sets its own parameters first. A recorded one keeps its parent's
    /// slice unless it has its own, as in the kernel.
    fn template(
        &mut self,
        program: ProgramId,
        ops: Vec<Op>,
        attributes: &Attributes,
        recorded: bool,
    ) {
        let mut all = vec![Op::SetSched(attributes.sched)];
        if !recorded || attributes.slice.is_some() {
            all.push(Op::SetSlice(attributes.slice));
        }
        if !attributes.affinity.is_empty() {
            all.push(Op::SetAffinity(attributes.affinity.clone()));
        }
        all.extend(ops);
        if let Some(p) = self.plan.programs.get_mut(program.0 as usize) {
            p.ops = all;
        }
    }

    /// Tasks of one program. Each has timers of its own, although the program names them only once.
    fn instances(&mut self, name: &str, count: u32, ops: Vec<Op>, a: &Attributes) {
        let program = self.plan.program(name, ops);
        let shared_space = self.plan.space();
        for i in 0..count {
            let mm = if a.threads || i == 0 {
                shared_space
            } else {
                self.plan.space()
            };
            self.plan.tasks.push(TaskSpec {
                comm: if count == 1 {
                    name.into()
                } else {
                    format!("{name}-{i}")
                },
                program,
                sched: a.sched,
                slice: a.slice,
                affinity: a.affinity.clone(),
                group: a.group,
                start: Ns(a
                    .start
                    .0
                    .saturating_add(a.spacing.0.saturating_mul(u64::from(i)))),
                mm,
                cookie: a.cookie,
            });
        }
    }
}

fn count(reader: &Reader<'_>) -> Result<u32, Error> {
    reader
        .get("count")
        .map_or(Ok(1), |f| f.integer(0..=COUNT_LIMIT))
}

fn user(work: Dur) -> Op {
    Op::Run {
        work,
        mode: Mode::User,
        cond_resched: None,
    }
}

/// A length of time that may be a distribution.
fn length(field: &Field<'_>) -> Result<Dur, Error> {
    field.node.as_str().and_then(dur).ok_or_else(|| {
        field.wrong(format!(
            "{TIME_FORM}, above zero; or \"1ms..3ms\", or \"exp(3ms)\""
        ))
    })
}

fn missing_time(reader: &Reader<'_>, key: &str) -> Error {
    Error::Missing {
        place: reader.place().clone(),
        key: reader.path_of(key),
        expected: TIME_FORM.into(),
    }
}

/// `policy`, `nice` and `rt_priority`.
pub(crate) fn sched(reader: &Reader<'_>) -> Result<Sched, Error> {
    let policy = reader.get("policy");
    let nice_field = reader.get("nice");
    let nice = nice_field.as_ref().map_or(Ok(0), |f| f.integer(-20..=19))?;
    let rt_field = reader.get("rt_priority");
    let name = policy
        .as_ref()
        .map_or(Ok("other"), |f| f.text("a policy"))?;
    let fair = matches!(name, "other" | "batch" | "idle");
    if let Some(f) = rt_field.as_ref().filter(|_| fair) {
        return Err(f.conflict(format!("has no effect under the policy `{name}`")));
    }
    if let Some(f) = nice_field
        .as_ref()
        .filter(|_| !matches!(name, "other" | "batch"))
    {
        return Err(f.conflict(format!("has no effect under the policy `{name}`")));
    }
    let rt_priority = || match &rt_field {
        Some(f) => f.integer(1..=99),
        None => Err(Error::Missing {
            place: reader.place().clone(),
            key: reader.path_of("rt_priority"),
            expected: "an integer from 1 to 99, higher is more urgent".into(),
        }),
    };
    match name {
        "other" => Ok(Sched::Other { nice }),
        "batch" => Ok(Sched::Batch { nice }),
        "idle" => Ok(Sched::Idle),
        "fifo" => Ok(Sched::Fifo {
            rt_priority: rt_priority()?,
        }),
        "rr" => Ok(Sched::Rr {
            rt_priority: rt_priority()?,
        }),
        _ => {
            let known = ["other", "batch", "idle", "fifo", "rr"];
            Err(policy.map_or_else(
                || missing_time(reader, "policy"),
                |f| f.unknown("policy", known),
            ))
        }
    }
}
