//! From the walk to the load: places that stayed empty go, numbers become final, timers get their kind.

use std::collections::BTreeMap;

use schedlab_trace::{Comm, Pid};

use super::affinity::{Beside, cpu_of_name};
use super::ticks::TickTimes;
use super::{Act, Birth, Load, LoadReport, LoadTask, TaskIndex, Until, timing};

/// What the walk found.
pub(super) struct Walked {
    pub(super) first: u64,
    pub(super) span: u64,
    pub(super) cpus: u32,
    pub(super) idle_exit: Option<u64>,
    pub(super) ticks: TickTimes,
    pub(super) report: LoadReport,
    pub(super) tasks: Vec<WalkedTask>,
}

/// A task as the walk found it; times on the trace's clock.
pub(super) struct WalkedTask {
    pub(super) pid: Pid,
    pub(super) comm: Comm,
    pub(super) prio: Option<i32>,
    pub(super) birth: Birth,
    pub(super) ended: bool,
    pub(super) acts: Vec<Option<Act>>,
    pub(super) beside: Beside,
}

pub(super) fn finish(walked: Walked) -> Load {
    let mut report = walked.report;
    // Tasks without acts go; the others move up.
    let mut places: Vec<Option<TaskIndex>> = Vec::with_capacity(walked.tasks.len());
    let mut kept = 0;
    for task in &walked.tasks {
        let has = task
            .acts
            .iter()
            .flatten()
            .any(|a| !matches!(a, Act::Prio(_)));
        places.push(has.then_some(kept));
        kept += usize::from(has);
        report.without_acts += u64::from(!has);
    }
    let mut tasks = Vec::with_capacity(kept);
    let mut besides = Vec::with_capacity(kept);
    for (mut task, place) in walked.tasks.into_iter().zip(&places) {
        if place.is_some() {
            besides.push(std::mem::take(&mut task.beside));
            let allowed = besides.last().map(|b| b.allowed(walked.cpus));
            let allowed = allowed.unwrap_or_default();
            tasks.push(one(task, walked.first, allowed, &places, &mut report));
        }
    }
    bind_siblings(&mut tasks, &besides);
    pair(&mut tasks);
    report.partners = tasks.iter().filter(|t| t.partner.is_some()).count() as u64;
    bind_by_name(&mut tasks, walked.cpus, &mut report);
    report.bound_by_idle =
        tasks.iter().filter(|t| !t.affinity.is_empty()).count() as u64 - report.bound_by_name;
    Load {
        first_ts: walked.first,
        span: walked.span,
        cpus: walked.cpus,
        hz: walked.ticks.hz,
        tick_phase: walked.ticks.phase,
        tick_skew: walked.ticks.skew,
        idle_exit: walked.idle_exit,
        tasks,
        report,
    }
}

/// A forked task has its parent's CPUs. So children of one parent that never left the CPUs of a bound one are bound too.
fn bind_siblings(tasks: &mut [LoadTask], besides: &[Beside]) {
    let mut bound: BTreeMap<TaskIndex, Vec<u32>> = BTreeMap::new();
    for task in tasks.iter() {
        if let (Birth::Forked(parent, _), false) = (task.birth, task.affinity.is_empty()) {
            bound.entry(parent).or_insert_with(|| task.affinity.clone());
        }
    }
    for (task, beside) in tasks.iter_mut().zip(besides) {
        if let Birth::Forked(parent, _) = task.birth
            && task.affinity.is_empty()
            && let Some(list) = bound.get(&parent).filter(|list| beside.within(list))
        {
            task.affinity = list.clone();
        }
    }
}

/// Sleeps ended by tasks that show who takes turns with whom.
const TURNS_LEAST: u64 = 3;

/// Finds tasks that take turns.
fn pair(tasks: &mut [LoadTask]) {
    let mostly: Vec<Option<TaskIndex>> = tasks
        .iter()
        .map(|t| {
            let mut by: BTreeMap<TaskIndex, u64> = BTreeMap::new();
            for act in &t.acts {
                if let Act::Sleep {
                    until: Until::Task(i),
                    ..
                } = act
                {
                    *by.entry(*i).or_default() += 1;
                }
            }
            let all: u64 = by.values().sum();
            let (waker, count) = by.into_iter().max_by_key(|&(_, n)| n)?;
            (count >= TURNS_LEAST && count * 10 >= all * 9).then_some(waker)
        })
        .collect();
    for (i, task) in tasks.iter_mut().enumerate() {
        task.partner = mostly[i].filter(|&p| mostly[p] == Some(i));
    }
}

fn bind_by_name(tasks: &mut [LoadTask], cpus: u32, report: &mut LoadReport) {
    for task in tasks {
        let comm = String::from_utf8_lossy(task.comm.as_bytes());
        if let Some(cpu) = cpu_of_name(&comm).filter(|&c| c < cpus) {
            report.bound_by_name += 1;
            task.affinity = vec![cpu];
        }
    }
}

fn one(
    task: WalkedTask,
    first: u64,
    affinity: Vec<u32>,
    places: &[Option<TaskIndex>],
    report: &mut LoadReport,
) -> LoadTask {
    let place = |i: TaskIndex| places.get(i).copied().flatten();
    let since = |ts: u64| ts.saturating_sub(first);
    let mut acts: Vec<Act> = Vec::with_capacity(task.acts.len());
    for act in task.acts.into_iter().flatten() {
        let act = match act {
            Act::Wake(i) => place(i).map(Act::Wake),
            Act::Fork(i) => place(i).map(Act::Fork),
            Act::Sleep { from, until, deep } => Some(Act::Sleep {
                from: since(from),
                until: ended(until, &place, &since, report),
                deep,
            }),
            other => Some(other),
        };
        let Some(act) = act else { continue };
        // Stretches between which nothing came of a call are one.
        if let (Some(Act::Run { ns, pieces }), Act::Run { ns: n, pieces: p }) =
            (acts.last_mut(), act)
        {
            *ns = ns.saturating_add(n);
            *pieces = pieces.saturating_add(p);
        } else {
            acts.push(act);
        }
    }
    let birth = match task.birth {
        Birth::Forked(parent, at) => match place(parent) {
            Some(parent) => Birth::Forked(parent, since(at)),
            None => Birth::At(since(at)),
        },
        Birth::At(at) => Birth::At(since(at)),
        other => other,
    };
    let mut out = LoadTask {
        pid: task.pid,
        comm: task.comm,
        prio: task.prio,
        birth,
        acts,
        ended: task.ended,
        affinity,
        partner: None,
        period: None,
    };
    timing::classify(&mut out, report);
    out
}

fn ended(
    until: Until,
    place: &impl Fn(TaskIndex) -> Option<TaskIndex>,
    since: &impl Fn(u64) -> u64,
    report: &mut LoadReport,
) -> Until {
    match until {
        Until::Task(i) => match place(i) {
            Some(i) => {
                report.by_task += 1;
                Until::Task(i)
            }
            // A waker always has the act of waking.
            None => Until::End,
        },
        Until::Time(ts) => {
            report.by_interrupt += 1;
            Until::Time(since(ts))
        }
        Until::After(ns) => Until::After(ns),
        Until::End => {
            report.open_sleeps += 1;
            Until::End
        }
    }
}
