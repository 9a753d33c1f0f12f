//! From the walk to the load: places that stayed empty go, numbers become final, timers get their kind.

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
    for (task, place) in walked.tasks.into_iter().zip(&places) {
        if place.is_some() {
            tasks.push(one(task, walked.first, walked.cpus, &places, &mut report));
        }
    }
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

fn one(
    task: WalkedTask,
    first: u64,
    cpus: u32,
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
    let comm = String::from_utf8_lossy(task.comm.as_bytes()).into_owned();
    let mut affinity = task.beside.allowed(cpus);
    report.bound_by_idle += u64::from(!affinity.is_empty());
    if let Some(cpu) = cpu_of_name(&comm).filter(|&c| c < cpus && task.pid > 0) {
        report.bound_by_name += 1;
        affinity = vec![cpu];
    }
    let mut out = LoadTask {
        pid: task.pid,
        comm: task.comm,
        prio: task.prio,
        birth,
        acts,
        ended: task.ended,
        affinity,
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
