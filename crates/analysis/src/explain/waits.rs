//! Where waits begin and end, and which of them are asked for.

use std::collections::BTreeMap;

use schedlab_trace::{Comm, Event, EventKind, Pid};

use super::answer::WaitKind;
use super::facts::Facts;
use crate::history::{
    Change, History, HistoryOptions, Observer, Step, TaskId, TaskState, WaitCause,
};
use crate::order::SortWindow;

/// A wait of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Who.
    pub pid: Pid,
    /// Its name.
    pub comm: Comm,
    /// Begin, ns.
    pub start: u64,
    /// End, ns.
    pub end: u64,
    /// The trace ends before it does.
    pub open: bool,
}

/// What a task did at a time at which it did not wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// It ran on this CPU since then.
    Running(u32, u64),
    /// It slept since then.
    Sleeping(u64),
}

/// Collects the changes that an event makes.
#[derive(Debug, Default)]
struct Changes(Vec<Change>);

impl Observer for Changes {
    fn change(&mut self, _: &History, change: &Change) {
        self.0.push(*change);
    }
}

/// A wait that goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Open {
    pub(super) kind: WaitKind,
    pub(super) start: u64,
}

/// A wait that begins or ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    Begins(TaskId, Open),
    Ends(TaskId, Open, u64),
    /// Not a wait after all, or lost sight of.
    Drops(TaskId),
}

/// The history with facts beside it and the waits that go on.
#[derive(Debug)]
pub(super) struct World {
    pub(super) history: History,
    pub(super) facts: Facts,
    pub(super) open: BTreeMap<TaskId, Open>,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            history: History::new(HistoryOptions::default()),
            facts: Facts::default(),
            open: BTreeMap::new(),
        }
    }

    /// Takes an event in; the waits that it begins and ends.
    pub(super) fn step(&mut self, e: &Event) -> Vec<Turn> {
        self.facts.step(e);
        let mut changes = Changes::default();
        self.history.apply(e.ts, &Step::new(e), &mut changes);
        changes.0.iter().filter_map(|c| self.turn(c)).collect()
    }

    fn turn(&mut self, c: &Change) -> Option<Turn> {
        let kind = match c.to {
            TaskState::Waking(w) | TaskState::Runnable(w) => match w.cause {
                WaitCause::Wakeup => WaitKind::Woken,
                WaitCause::Fork => WaitKind::New,
                WaitCause::Yielded => WaitKind::Yielded,
                WaitCause::Preempted | WaitCause::AbortedSleep => WaitKind::Preempted,
            },
            // Called before it slept: it is on its way out already.
            TaskState::Sleeping(s) if s.waking.is_some() => WaitKind::Woken,
            TaskState::Sleeping(_) if self.locked(c.task) => WaitKind::Lock,
            TaskState::Running(_) => {
                let open = self.open.remove(&c.task)?;
                if c.from.wait().is_some_and(|w| w.doubtful) {
                    return Some(Turn::Drops(c.task));
                }
                return Some(Turn::Ends(c.task, open, c.at.max(open.start)));
            }
            _ => return self.open.remove(&c.task).map(|_| Turn::Drops(c.task)),
        };
        // Called anew: the call that came before the sleep was answered unseen, and the sleep was one.
        let anew = matches!(c.from, TaskState::Sleeping(_))
            && matches!(c.to, TaskState::Waking(_))
            && self
                .open
                .get(&c.task)
                .is_some_and(|o| o.kind == WaitKind::Woken);
        if self.open.contains_key(&c.task) && !anew {
            return None;
        }
        let open = Open { kind, start: c.at };
        self.open.insert(c.task, open);
        Some(Turn::Begins(c.task, open))
    }

    fn locked(&self, id: TaskId) -> bool {
        let pid = self.history.task(id).pid;
        self.facts.task(pid).is_some_and(|f| f.lock.is_some())
    }
}

/// What a first look over a trace tells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Survey {
    /// Number of CPUs: the highest seen and one.
    pub cpus: u32,
    /// It has state records of the fair class.
    pub state: bool,
    /// It has `sched_waking`.
    pub waking: bool,
    /// It has `sched_wakeup`; `perf sched record` leaves it out.
    pub wakeup: bool,
    /// It has `sched_stat_runtime`.
    pub charges: bool,
    /// It shows whether a reschedule is asked for.
    pub flags: bool,
    /// Events in all.
    pub events: u64,
    /// First and last time, ns.
    pub span: Option<(u64, u64)>,
}

/// Finds the waits of a trace that are asked for; memory is bounded by the number of tasks and of those waits.
#[derive(Debug)]
pub struct WaitFinder {
    window: SortWindow<Event>,
    world: World,
    survey: Survey,
    wanted: Wanted,
    found: Vec<Wait>,
    doing: Option<Vec<(Pid, Comm, Doing)>>,
}

#[derive(Clone, Debug)]
enum Wanted {
    Worst(usize, Option<String>),
    At(String, u64),
}

impl WaitFinder {
    /// The `n` longest waits, of one task (a name or a pid) or of all.
    #[must_use]
    pub fn worst(n: usize, task: Option<&str>) -> Self {
        Self::new(Wanted::Worst(n, task.map(str::to_string)))
    }

    /// The wait of a task, given by name or pid, at a time; the next one if it does not wait then.
    #[must_use]
    pub fn at(task: &str, ts: u64) -> Self {
        Self::new(Wanted::At(task.to_string(), ts))
    }

    fn new(wanted: Wanted) -> Self {
        Self {
            window: SortWindow::new(HistoryOptions::default().window),
            world: World::new(),
            survey: Survey::default(),
            wanted,
            found: Vec::new(),
            doing: None,
        }
    }

    /// Takes an event.
    pub fn push(&mut self, event: &Event) {
        if let Some((_, event)) = self.window.push(event.ts, event.clone()) {
            self.step(&event);
        }
    }

    fn step(&mut self, e: &Event) {
        self.survey.events += 1;
        self.survey.cpus = self.survey.cpus.max(e.cpu.saturating_add(1));
        match &e.kind {
            EventKind::SchedWaking { .. } => self.survey.waking = true,
            EventKind::SchedWakeup { .. } => self.survey.wakeup = true,
            EventKind::SchedStatRuntime { .. } => self.survey.charges = true,
            EventKind::Other { name, fields } => {
                let probe = matches!(name.as_str(), "enqueue" | "curr" | "pick");
                self.survey.state |= probe && fields.trim_start().starts_with('(');
            }
            _ => {}
        }
        if let Wanted::At(task, at) = &self.wanted
            && self.doing.is_none()
            && e.ts > *at
        {
            self.doing = Some(doing_of(&self.world.history, task));
        }
        for turn in self.world.step(e) {
            if let Turn::Ends(id, open, end) = turn {
                self.keep(id, open.start, end, false);
            }
        }
    }

    fn keep(&mut self, id: TaskId, start: u64, end: u64, open: bool) {
        let task = self.world.history.task(id);
        let wait = Wait {
            pid: task.pid,
            comm: task.comm,
            start,
            end,
            open,
        };
        match &self.wanted {
            // How long a wait is that has not ended nobody knows.
            Wanted::Worst(..) if wait.open => {}
            Wanted::Worst(n, of) => {
                if of
                    .as_ref()
                    .is_some_and(|t| !matches(t, wait.pid, wait.comm))
                {
                    return;
                }
                let len = |w: &Wait| std::cmp::Reverse(w.end.saturating_sub(w.start));
                let at = self.found.partition_point(|w| len(w) <= len(&wait));
                if at < *n {
                    self.found.insert(at, wait);
                    self.found.truncate(*n);
                }
            }
            Wanted::At(task, at) => {
                // The first of each task that ends behind the time.
                let known = self.found.iter().any(|w| w.pid == wait.pid);
                if matches(task, wait.pid, wait.comm) && wait.end > *at && !known {
                    self.found.push(wait);
                }
            }
        }
    }

    /// The waits found, what the trace has, and what tasks of the name asked for did at the time instead of waiting.
    #[must_use]
    pub fn finish(mut self) -> (Vec<Wait>, Survey, Vec<(Pid, Comm, Doing)>) {
        let rest: Vec<Event> = self.window.drain().map(|(_, e)| e).collect();
        for e in &rest {
            self.step(e);
        }
        let end = self.world.history.last_ts();
        for (id, open) in std::mem::take(&mut self.world.open) {
            self.keep(id, open.start, end.max(open.start), true);
        }
        self.survey.flags = self.world.facts.flags;
        self.survey.span = self.world.history.first_ts().map(|first| (first, end));
        if let Wanted::At(_, at) = self.wanted {
            self.found.sort_by_key(|w| (w.start > at, w.start, w.pid));
            self.found.truncate(1);
        }
        (self.found, self.survey, self.doing.unwrap_or_default())
    }
}

/// Whether a task is meant by a name or a pid.
fn matches(task: &str, pid: Pid, comm: Comm) -> bool {
    task.parse() == Ok(pid) || task.as_bytes() == comm.as_bytes()
}

fn doing_of(history: &History, task: &str) -> Vec<(Pid, Comm, Doing)> {
    history
        .tasks()
        .filter(|(_, t)| matches(task, t.pid, t.comm))
        .filter_map(|(_, t)| match t.state {
            TaskState::Running(run) => Some((t.pid, t.comm, Doing::Running(run.cpu, t.since))),
            TaskState::Sleeping(_) => Some((t.pid, t.comm, Doing::Sleeping(t.since))),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_trace::FtraceTextReader;

    /// The longest wait of pid 7.
    fn longest(text: &str) -> (u64, u64) {
        let mut finder = WaitFinder::worst(1, Some("7"));
        for e in FtraceTextReader::new(text.as_bytes(), "test") {
            finder.push(&e.expect("event"));
        }
        let wait = &finder.finish().0[0];
        (wait.start, wait.end)
    }

    const CALLED_AND_ASLEEP: &str = "
  a-7 [000] 1.000000: sched_waking: comm=a pid=7 prio=120 target_cpu=000
  a-7 [000] 1.000001: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 next_prio=120
";
    const IN: &str = "  b-8 [000] 2.000009: sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120\n";

    #[test]
    fn a_call_before_the_sleep() {
        let answered = "  b-8 [000] 2.000002: sched_wakeup: comm=a pid=7 prio=120 target_cpu=000\n";
        let text = format!("{CALLED_AND_ASLEEP}{answered}{IN}");
        assert_eq!(longest(&text), (1_000_001_000, 2_000_009_000));
        // With a call of its own the sleep was one: the wait begins there.
        let again = "  b-8 [000] 2.000001: sched_waking: comm=a pid=7 prio=120 target_cpu=000\n";
        let text = format!("{CALLED_AND_ASLEEP}{again}{answered}{IN}");
        assert_eq!(longest(&text), (2_000_001_000, 2_000_009_000));
    }
}
