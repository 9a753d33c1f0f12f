//! The history: tasks, CPUs and the way of an event through them.

use rustc_hash::FxHashMap;
use schedlab_trace::{PerCpu, Pid, PrevState};

use super::state::{Cpu, Doing, Run, Sleep, Task, TaskId, TaskState, Wait, WaitCause};
use super::step::{Named, Step, StepKind};
use super::{Change, Mark, MarkKind, Observer};

/// Which event begins a wait after a sleep if a task is called or woken again while it waits already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WakeupPolicy {
    /// The first one: the task has been waiting since then.
    #[default]
    First,
    /// The last one before the switch-in. Waits that begin with a preemption are not affected.
    Last,
}

/// How to follow events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HistoryOptions {
    /// Events that [`Ordered`](super::Ordered) holds back to sort them by time.
    pub window: usize,
    /// Repeated wake events.
    pub wakeup: WakeupPolicy,
}

impl Default for HistoryOptions {
    /// A window of 4096 events, about half a megabyte.
    fn default() -> Self {
        Self {
            window: 4096,
            wakeup: WakeupPolicy::First,
        }
    }
}

/// What all tasks and CPUs do by the events so far.
#[derive(Debug, Default)]
pub struct History {
    pub(super) tasks: Vec<Task>,
    /// The living task of each pid. Only looked up, never walked, so its order does not matter.
    pub(super) by_pid: FxHashMap<Pid, TaskId>,
    pub(super) cpus: PerCpu<Cpu>,
    pub(super) policy: WakeupPolicy,
    queues: PerCpu<Vec<TaskId>>,
    first: Option<u64>,
    last: u64,
}

impl History {
    /// A history without events.
    #[must_use]
    pub fn new(options: HistoryOptions) -> Self {
        Self {
            policy: options.wakeup,
            ..Self::default()
        }
    }

    /// A task.
    ///
    /// # Panics
    /// If the id is of another history.
    #[must_use]
    pub fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id.0]
    }

    /// All tasks in order of first mention.
    pub fn tasks(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        self.tasks.iter().enumerate().map(|(i, t)| (TaskId(i), t))
    }

    /// The task that has a pid now.
    #[must_use]
    pub fn find(&self, pid: Pid) -> Option<TaskId> {
        self.by_pid.get(&pid).copied()
    }

    /// What a CPU does and since when, ns; `None` before its first event.
    ///
    /// While an observer is told of a switch's changes, this still is the task that leaves.
    #[must_use]
    pub fn cpu(&self, cpu: u32) -> Option<(Doing, u64)> {
        self.cpus.get(cpu).map(|c| (c.current, c.since))
    }

    /// All CPUs that recorded an event, by number.
    pub fn cpus(&self) -> impl Iterator<Item = (u32, Doing)> {
        self.cpus.iter().map(|(cpu, c)| (cpu, c.current))
    }

    /// The tasks that wait on a CPU's queue or are being woken to it, in no order that matters.
    #[must_use]
    pub fn queue(&self, cpu: u32) -> &[TaskId] {
        self.queues.get(cpu).map_or(&[], Vec::as_slice)
    }

    /// Time of the earliest event, ns; `None` without events.
    #[must_use]
    pub fn first_ts(&self) -> Option<u64> {
        self.first
    }

    /// Time of the latest event, ns; 0 without events.
    #[must_use]
    pub fn last_ts(&self) -> u64 {
        self.last
    }

    /// Time between the earliest and the latest event, ns.
    #[must_use]
    pub fn span(&self) -> u64 {
        self.first.map_or(0, |first| self.last - first)
    }

    /// Takes an event. Events must come in order of time; one that does not is taken as it is and may leave a
    /// [`MarkKind::Negative`].
    pub fn apply<O: Observer>(&mut self, ts: u64, step: &Step, observer: &mut O) {
        self.first = Some(self.first.map_or(ts, |first| first.min(ts)));
        self.last = self.last.max(ts);
        let running = match step.kind {
            StepKind::Switch { prev, .. } => prev,
            _ => Named {
                pid: step.pid,
                comm: step.comm,
                prio: None,
            },
        };
        // Traced after the change of pid: the pid in front of this event is the new one already.
        if let StepKind::Exec { pid, old_pid } = step.kind {
            self.exec(ts, pid, old_pid, observer);
        }
        self.observe(ts, step.cpu, running, observer);
        let mut next_task = None;
        let task = match step.kind {
            StepKind::Switch { prev, state, next } => {
                let task = self.switch_out(ts, step.cpu, prev, state, observer);
                next_task = self.switch_in(ts, step.cpu, next, observer);
                task
            }
            StepKind::Waking(task, target) => self.waking(ts, step, task, target, observer),
            StepKind::Wakeup(task, target) => self.wakeup(ts, step, task, target, observer),
            StepKind::WakeupNew(task, target) => self.wakeup_new(ts, step, task, target, observer),
            StepKind::Migrate { task, dest_cpu, .. } => {
                let id = self.named(ts, task, observer);
                if let Some(id) = id {
                    self.move_queue(ts, id, dest_cpu, observer);
                }
                id
            }
            StepKind::Runtime(task, runtime) => {
                let id = self.named(ts, task, observer);
                if let Some(id) = id {
                    self.charged(ts, step.cpu, id, runtime, observer);
                }
                id
            }
            StepKind::Fork { parent, child } => (child.pid != 0).then(|| {
                let id = self.new_task(ts, child, TaskState::New, observer);
                self.tasks[id.0].parent = Some(parent);
                id
            }),
            StepKind::Exec { pid, .. } => self.find(pid),
            StepKind::YieldCall => {
                let id = self.find(step.pid);
                if let Some(id) = id {
                    self.tasks[id.0].yielding = true;
                }
                id
            }
            StepKind::Nothing => None,
        };
        observer.event(self, ts, step, task, next_task);
    }

    /// Closes the spans of all CPUs at the time of the last event. What tasks are doing stays open.
    pub fn close_all<O: Observer>(&mut self, observer: &mut O) {
        let numbers: Vec<u32> = self.cpus.iter().map(|(cpu, _)| cpu).collect();
        for cpu in numbers {
            self.close(self.last, cpu, observer);
        }
    }

    pub(super) fn mark<O: Observer>(
        &self,
        at: u64,
        cpu: u32,
        task: Option<TaskId>,
        kind: MarkKind,
        observer: &mut O,
    ) {
        let mark = Mark {
            at,
            cpu,
            task,
            kind,
        };
        observer.mark(self, &mark);
    }

    /// The named task, made if it is new; `None` for idle tasks. Takes the name over.
    pub(super) fn named<O: Observer>(
        &mut self,
        ts: u64,
        named: Named,
        observer: &mut O,
    ) -> Option<TaskId> {
        if named.pid == 0 {
            return None;
        }
        let id = match self.by_pid.get(&named.pid) {
            Some(&id) => id,
            None => self.new_task(ts, named, TaskState::Unknown, observer),
        };
        let task = &mut self.tasks[id.0];
        if !named.comm.is_empty() {
            task.comm = named.comm;
        }
        task.prio = named.prio.or(task.prio);
        Some(id)
    }

    /// A task that the trace has not named before. Whoever had its pid has ended unseen.
    pub(super) fn new_task<O: Observer>(
        &mut self,
        ts: u64,
        named: Named,
        state: TaskState,
        observer: &mut O,
    ) -> TaskId {
        let id = TaskId(self.tasks.len());
        self.tasks.push(Task {
            pid: named.pid,
            comm: named.comm,
            prio: named.prio,
            parent: None,
            state,
            since: ts,
            first: ts,
            last_cpu: None,
            yielding: false,
            queue_place: 0,
        });
        if let Some(old) = self.by_pid.insert(named.pid, id) {
            self.bury(ts, old, observer);
        }
        id
    }

    /// A task whose pid is another's now has ended, at the latest now.
    fn bury<O: Observer>(&mut self, ts: u64, id: TaskId, observer: &mut O) {
        if let Some(cpu) = self.tasks[id.0].state.run().map(|run| run.cpu) {
            self.leave_cpu(cpu, id, observer);
        }
        if !matches!(self.tasks[id.0].state, TaskState::Dead) {
            self.set(ts, id, TaskState::Dead, observer);
        }
    }

    /// An exec in a thread that is not the leader: it takes the leader's pid over.
    fn exec<O: Observer>(&mut self, ts: u64, pid: Pid, old_pid: Pid, observer: &mut O) {
        if pid == old_pid || pid == 0 || old_pid == 0 {
            return;
        }
        let Some(id) = self.by_pid.remove(&old_pid) else {
            return;
        };
        if let Some(leader) = self.by_pid.insert(pid, id) {
            self.bury(ts, leader, observer);
        }
        self.tasks[id.0].pid = pid;
    }

    /// Puts a task into a state and tells the observer.
    pub(super) fn set<O: Observer>(
        &mut self,
        ts: u64,
        id: TaskId,
        to: TaskState,
        observer: &mut O,
    ) {
        let (from, since) = self.replace(ts, id, to);
        let change = Change {
            task: id,
            from,
            since,
            to,
            at: ts.max(since),
        };
        observer.change(self, &change);
    }

    /// Puts a task into a state, keeps the queues, and gives what it left and since when.
    pub(super) fn replace(&mut self, ts: u64, id: TaskId, to: TaskState) -> (TaskState, u64) {
        let task = &mut self.tasks[id.0];
        let (from, since) = (task.state, task.since);
        task.state = to;
        task.since = ts.max(since);
        let place = task.queue_place;
        let (old, new) = (from.wait().map(|w| w.cpu), to.wait().map(|w| w.cpu));
        if old != new {
            if let Some(queue) = old.and_then(|cpu| self.queues.get_mut(cpu)) {
                queue.swap_remove(place);
                if let Some(moved) = queue.get(place) {
                    self.tasks[moved.0].queue_place = place;
                }
            }
            if let Some(cpu) = new {
                let queue = self.queues.of(cpu, Vec::new);
                self.tasks[id.0].queue_place = queue.len();
                queue.push(id);
            }
        }
        (from, since)
    }

    fn switch_out<O: Observer>(
        &mut self,
        ts: u64,
        cpu: u32,
        prev: Named,
        prev_state: PrevState,
        observer: &mut O,
    ) -> Option<TaskId> {
        self.close(ts, cpu, observer);
        let id = self.named(ts, prev, observer)?;
        let task = &mut self.tasks[id.0];
        let yielding = std::mem::take(&mut task.yielding);
        let run = task.state.run();
        let waking = run.and_then(|run| run.waking);
        let contested = run.is_some_and(|run| run.contested);
        let ends = prev_state.0 & (PrevState::DEAD.0 | PrevState::ZOMBIE.0) != 0;
        let to = if prev_state.is_runnable() {
            TaskState::Runnable(Wait {
                cause: if yielding && prev_state == PrevState::RUNNING {
                    WaitCause::Yielded
                } else {
                    WaitCause::Preempted
                },
                cpu,
                waking: Some(ts),
                wakeup: Some(ts),
                waker: None,
                moves: 0,
                doubtful: contested,
            })
        } else if ends {
            TaskState::Dead
        } else {
            TaskState::Sleeping(Sleep {
                prev_state,
                cpu,
                waking,
            })
        };
        self.set(ts, id, to, observer);
        Some(id)
    }

    fn switch_in<O: Observer>(
        &mut self,
        ts: u64,
        cpu: u32,
        next: Named,
        observer: &mut O,
    ) -> Option<TaskId> {
        let id = match self.named(ts, next, observer) {
            // A pid is back without a fork event: another task.
            Some(id) if matches!(self.tasks[id.0].state, TaskState::Dead) => {
                Some(self.new_task(ts, next, TaskState::Unknown, observer))
            }
            id => id,
        };
        if let Some(id) = id {
            let contested = self.leave_other_cpu(ts, cpu, id, observer);
            self.end_sleep(ts, cpu, id, observer);
            self.check_wait(ts, cpu, id, observer);
            let run = Run {
                cpu,
                waking: None,
                contested,
                unseen_start: false,
            };
            self.set(ts, id, TaskState::Running(run), observer);
            self.tasks[id.0].last_cpu = Some(cpu);
        }
        if let Some(entry) = self.cpus.get_mut(cpu) {
            entry.current = id.map_or(Doing::Idle, Doing::Task);
            entry.since = ts;
            entry.guess = None;
        }
        id
    }

    /// A task that is switched in from a sleep: either the sleep was none, or its wakeup is missing.
    fn end_sleep<O: Observer>(&mut self, ts: u64, cpu: u32, id: TaskId, observer: &mut O) {
        let task = &self.tasks[id.0];
        match task.state {
            TaskState::Sleeping(Sleep {
                waking: Some(call),
                cpu: slept_on,
                ..
            }) => {
                let since = task.since;
                self.mark(ts, cpu, Some(id), MarkKind::AbortedSleep, observer);
                let wait = Wait {
                    cause: WaitCause::AbortedSleep,
                    cpu: slept_on,
                    waking: Some(since),
                    wakeup: Some(since),
                    waker: Some(call.waker),
                    moves: 0,
                    doubtful: false,
                };
                self.set(since, id, TaskState::Runnable(wait), observer);
            }
            TaskState::Sleeping(_) | TaskState::New => {
                self.mark(ts, cpu, Some(id), MarkKind::MissingWakeup, observer);
            }
            _ => {}
        }
    }

    /// A wait that ends before it begins is marked and means nothing.
    pub(super) fn check_wait<O: Observer>(
        &mut self,
        ts: u64,
        cpu: u32,
        id: TaskId,
        observer: &mut O,
    ) {
        let Some(wait) = self.tasks[id.0].state.wait_mut() else {
            return;
        };
        if wait.waking.max(wait.wakeup).is_some_and(|start| start > ts) {
            wait.doubtful = true;
            self.mark(ts, cpu, Some(id), MarkKind::Negative, observer);
        }
    }
}
