//! The `tasks` object: threads, their phases and their instances.

use std::collections::BTreeSet;

use schedlab_fair::Ns;
use schedlab_sim::program::{Op, Sched, TaskSpec};

use super::events::{EVENTS, EventReader, event_of};
use super::global::Global;
use super::objects::Objects;
use super::properties::{MEMBIND, Properties, SHARED_KEYS};
use super::{Field, Object};
use crate::error::{Error, Warning};
use crate::json::{Json, Member};
use crate::plan::{GroupPlan, Names, Plan};
use crate::steps::{needs_time, takes_time};

/// Task groups that rt-app supports.
const TASKGROUPS_LIMIT: usize = 32;
/// Most instances of a thread.
const INSTANCES_LIMIT: i64 = 100_000;

/// Keys of a thread beside those that it shares with phases.
const THREAD_KEYS: [&str; 3] = ["instance", "delay", "phases"];
/// Old spellings of the parameters of SCHED_DEADLINE.
const LEGACY_KEYS: [&str; 2] = ["period", "deadline"];

/// Reads all threads.
pub(super) fn read(
    json: &Json,
    global: &Global,
    cpus: u32,
    warnings: &mut Vec<Warning>,
) -> Result<Plan, Error> {
    let object = Object::new(json, "tasks", "an object of threads")?;
    let mut reader = ThreadReader {
        plan: Plan::default(),
        objects: Objects::default(),
        global,
        cpus,
        names: object.members.iter().map(|m| m.key.clone()).collect(),
        taskgroups: BTreeSet::new(),
        groups: Names::default(),
        space: 0,
    };
    reader.space = reader.plan.space();
    if object.members.is_empty() {
        return Err(Error::Missing {
            place: object.place.clone(),
            key: "tasks".into(),
            expected: "at least one thread".into(),
        });
    }
    for member in object.members {
        reader.thread(&object, member, warnings)?;
    }
    reader.forked(&object, warnings)?;
    reader.objects.finish(&mut reader.plan, warnings);
    Ok(reader.plan)
}

struct ThreadReader<'a> {
    plan: Plan,
    objects: Objects,
    global: &'a Global,
    cpus: u32,
    names: Vec<String>,
    taskgroups: BTreeSet<String>,
    groups: Names<u32>,
    /// All threads of rt-app share its address space.
    space: u32,
}

/// A thread as far as its instances have it in common.
struct Thread {
    instances: u32,
    delay: Ns,
    sched: Sched,
    properties: Properties,
    group: Option<u32>,
}

impl ThreadReader<'_> {
    fn thread(
        &mut self,
        tasks: &Object<'_>,
        member: &Member,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), Error> {
        let field = tasks.field(member);
        let object = Object::new(
            &member.json,
            &field.path,
            "an object that describes a thread",
        )?;
        let thread = self.common(&object, warnings)?;
        // A thread that is never instantiated is still checked.
        for i in 0..thread.instances.max(1) {
            let mut quiet = Vec::new();
            let sink = if i == 0 { &mut *warnings } else { &mut quiet };
            if thread.instances == 0 {
                // Built with the forked ones, if anything forks it.
                continue;
            }
            let ops = self.program(&object, &member.key, &thread, Some(i), sink)?;
            let index = self.plan.tasks.len();
            let program = self.plan.program(&member.key, ops);
            self.plan.tasks.push(TaskSpec {
                comm: format!("{}-{index}", member.key),
                program,
                sched: thread.sched,
                slice: thread.properties.slice,
                affinity: thread.properties.cpus.clone().unwrap_or_default(),
                group: thread.group,
                start: thread.delay,
                mm: self.space,
                cookie: 0,
            });
        }
        Ok(())
    }

    /// Fills in the programs that `fork` names, and those that they fork in turn.
    fn forked(&mut self, tasks: &Object<'_>, warnings: &mut Vec<Warning>) -> Result<(), Error> {
        let mut done = BTreeSet::new();
        loop {
            let next = self
                .objects
                .templates
                .names()
                .find(|n| !done.contains(*n))
                .map(str::to_string);
            let Some(name) = next else { break };
            let Some(member) = tasks.members.iter().find(|m| m.key == name) else {
                break;
            };
            let field = tasks.field(member);
            let object = Object::new(
                &member.json,
                &field.path,
                "an object that describes a thread",
            )?;
            let mut quiet = Vec::new();
            let thread = self.common(&object, &mut quiet)?;
            // Threads with instances have given their warnings already.
            let sink = if thread.instances == 0 {
                &mut *warnings
            } else {
                &mut quiet
            };
            let mut ops = vec![
                Op::SetSched(thread.sched),
                Op::SetSlice(thread.properties.slice),
            ];
            if let Some(cpus) = &thread.properties.cpus {
                ops.push(Op::SetAffinity(cpus.clone()));
            }
            if thread.delay != Ns::ZERO {
                ops.push(Op::Sleep(schedlab_sim::program::Dur::Fixed(thread.delay)));
            }
            ops.extend(self.program(&object, &name, &thread, None, sink)?);
            if let Some(program) = self.objects.templates.get(&name)
                && let Some(p) = self.plan.programs.get_mut(program.0 as usize)
            {
                p.ops = ops;
            }
            done.insert(name);
        }
        // Templates that nothing forks are checked all the same.
        for member in tasks.members.iter().filter(|m| !done.contains(&m.key)) {
            let field = tasks.field(member);
            let object = Object::new(
                &member.json,
                &field.path,
                "an object that describes a thread",
            )?;
            let thread = self.common(&object, &mut Vec::new())?;
            if thread.instances == 0 {
                self.program(&object, &member.key, &thread, None, warnings)?;
            }
        }
        Ok(())
    }

    fn common(
        &mut self,
        object: &Object<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Thread, Error> {
        let instances = match object.get("instance")? {
            None => 1,
            Some(f) => f.integer(
                0,
                INSTANCES_LIMIT,
                "a whole number of threads, or 0 for a template of `fork`",
            )?,
        };
        let delay = object
            .get("delay")?
            .map_or(Ok(Ns::ZERO), |f| f.microseconds())?;
        let default = self.global.default_sched();
        let properties = Properties::read(object, default, self.cpus, warnings)?;
        for member in object
            .members
            .iter()
            .filter(|m| LEGACY_KEYS.contains(&m.key.as_str()))
        {
            warnings.push(object.ignored(member, "it belongs to SCHED_DEADLINE"));
        }
        let group = match self.first_taskgroup(object, &properties)? {
            None => None,
            Some((path, field)) => self.taskgroup(&path, &field)?,
        };
        Ok(Thread {
            instances: u32::try_from(instances).unwrap_or(u32::MAX),
            delay,
            sched: properties.sched.unwrap_or(default),
            properties,
            group,
        })
    }

    /// The task group of a thread, or the one that all its phases name.
    fn first_taskgroup<'o>(
        &self,
        object: &Object<'o>,
        properties: &Properties,
    ) -> Result<Option<(String, Field<'o>)>, Error> {
        let own = object.get("taskgroup")?;
        let mut found = match (&properties.taskgroup, own) {
            (Some(path), Some(field)) => Some((path.clone(), field)),
            _ => None,
        };
        let Some(phases) = object.get("phases")? else {
            return Ok(found);
        };
        let phases = Object::new(phases.json, &phases.path, "an object of phases")?;
        for (i, member) in phases.members.iter().enumerate() {
            let field = phases.field(member);
            let phase = Object::new(
                &member.json,
                &field.path,
                "an object that describes a phase",
            )?;
            let Some(f) = phase.get("taskgroup")? else {
                continue;
            };
            let path: String = f
                .text("a path such as \"/tg1/tg11\"")?
                .trim_matches('/')
                .into();
            match &found {
                Some((first, _)) if *first == path => {}
                None if i == 0 => found = Some((path, f)),
                _ => {
                    return Err(f.conflict("a thread that changes its task group is not simulated"));
                }
            }
        }
        Ok(found)
    }

    /// A group by its path, made together with the ones above it.
    fn taskgroup(&mut self, path: &str, field: &Field<'_>) -> Result<Option<u32>, Error> {
        if path.is_empty() {
            return Ok(None);
        }
        self.taskgroups.insert(path.into());
        if self.taskgroups.len() > TASKGROUPS_LIMIT {
            return Err(field.conflict(format!(
                "rt-app supports at most {TASKGROUPS_LIMIT} task groups"
            )));
        }
        let mut parent = None;
        let mut so_far = String::new();
        for part in path.split('/').filter(|p| !p.is_empty()) {
            so_far.push('/');
            so_far.push_str(part);
            let plan = &mut self.plan;
            parent = Some(self.groups.get_or(&so_far, || {
                plan.groups.push(GroupPlan {
                    name: part.into(),
                    parent,
                    weight: 100,
                    idle: false,
                    quota: None,
                });
                u32::try_from(plan.groups.len() - 1).unwrap_or(u32::MAX)
            }));
        }
        Ok(parent)
    }

    /// The operations of one instance; `None` is one that is forked.
    fn program(
        &mut self,
        object: &Object<'_>,
        name: &str,
        thread: &Thread,
        instance: Option<u32>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Op>, Error> {
        let phases = object.get("phases")?;
        let times = loops(object, -1)?;
        let mut phase_list = Vec::new();
        match &phases {
            None => phase_list.push((Object::new_like(object), true)),
            Some(f) => {
                let phases = Object::new(f.json, &f.path, "an object of phases")?;
                for member in phases.members {
                    let field = phases.field(member);
                    phase_list.push((
                        Object::new(
                            &member.json,
                            &field.path,
                            "an object that describes a phase",
                        )?,
                        false,
                    ));
                }
                self.check_keys(object, true, warnings)?;
            }
        }
        let any_cpus = phase_list
            .iter()
            .any(|(p, inline)| !inline && p.members.iter().any(|m| m.key == "cpus"));
        let names = self.names.clone();
        let mut held = BTreeSet::new();
        let mut own_timers = Names::default();
        let mut sched = thread.sched;
        let mut body = Vec::new();
        for (phase, inline) in &phase_list {
            if *inline {
                self.check_keys(phase, false, warnings)?;
            } else {
                phase_keys(phase)?;
                let p = Properties::read(phase, sched, self.cpus, warnings)?;
                if let Some(s) = p.sched {
                    sched = s;
                    body.push(Op::SetSched(s));
                }
                if p.slice.is_some() {
                    body.push(Op::SetSlice(p.slice));
                }
                if any_cpus {
                    let inherited = || {
                        thread
                            .properties
                            .cpus
                            .clone()
                            .unwrap_or_else(|| (0..self.cpus).collect())
                    };
                    body.push(Op::SetAffinity(p.cpus.unwrap_or_else(inherited)));
                }
            }
            let mut reader = EventReader {
                plan: &mut self.plan,
                objects: &mut self.objects,
                global: self.global,
                warnings,
                thread: name,
                instance: instance.unwrap_or(u32::MAX),
                threads: &names,
                forked: instance.is_none(),
                own_timers,
                held,
            };
            let mut events = Vec::new();
            for member in phase.members {
                if !is_property(&member.key, *inline)
                    && let Some(kind) = event_of(&member.key)
                {
                    events.extend(reader.event(kind, &phase.field(member))?);
                }
            }
            own_timers = reader.own_timers;
            held = reader.held;
            let phase_times = if *inline { Some(1) } else { loops(phase, 1)? };
            body.extend(repeat(phase, phase_times, events)?);
        }
        repeat(object, times, body)
    }

    /// Refuses keys of a thread that mean nothing.
    fn check_keys(
        &self,
        object: &Object<'_>,
        has_phases: bool,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), Error> {
        for member in object.members {
            let key = member.key.as_str();
            if is_property(key, true) {
                continue;
            }
            if event_of(key).is_none() {
                return Err(object.unknown(member, &known_keys(&THREAD_KEYS)));
            }
            if has_phases {
                warnings.push(object.ignored(member, "events beside `phases` are not read"));
            }
        }
        Ok(())
    }
}

impl<'a> Object<'a> {
    /// A thread without phases is its own only phase.
    fn new_like(other: &Object<'a>) -> Self {
        Self {
            members: other.members,
            place: other.place,
            path: other.path.clone(),
        }
    }
}

fn is_property(key: &str, thread: bool) -> bool {
    SHARED_KEYS.contains(&key)
        || key == MEMBIND
        || (thread && (THREAD_KEYS.contains(&key) || LEGACY_KEYS.contains(&key)))
}

fn known_keys(more: &[&'static str]) -> Vec<&'static str> {
    more.iter()
        .copied()
        .chain(SHARED_KEYS)
        .chain(EVENTS)
        .collect()
}

fn phase_keys(phase: &Object<'_>) -> Result<(), Error> {
    match phase
        .members
        .iter()
        .find(|m| !is_property(&m.key, false) && event_of(&m.key).is_none())
    {
        None => Ok(()),
        Some(member) => Err(phase.unknown(member, &known_keys(&[]))),
    }
}

/// `loop`: -1 is for ever.
fn loops(object: &Object<'_>, default: i64) -> Result<Option<u64>, Error> {
    let times = match object.get("loop")? {
        None => default,
        Some(f) => match f.integer(-1, i64::MAX, "a number of loops above 0, or -1 for ever")? {
            0 => return Err(f.wrong("a number of loops above 0, or -1 for ever")),
            n => n,
        },
    };
    Ok(u64::try_from(times).ok())
}

fn repeat(object: &Object<'_>, times: Option<u64>, body: Vec<Op>) -> Result<Vec<Op>, Error> {
    if times == Some(1) {
        return Ok(body);
    }
    if needs_time(times) && !body.iter().any(takes_time) {
        return Err(Error::Conflict {
            place: object.place.clone(),
            key: object.path.clone(),
            problem: "loops this long without an event that takes time (`run`, `sleep` or `timer`)"
                .into(),
        });
    }
    Ok(vec![Op::Loop { times, body }])
}
