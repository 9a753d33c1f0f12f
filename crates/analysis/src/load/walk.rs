//! The walk over the events: a small state machine per task and per CPU.

use std::collections::{BTreeMap, HashMap};

use schedlab_trace::{Comm, Event, Pid, PrevState};

use super::affinity::{Beside, IdleTime};
use super::step::{Named, Step, StepKind};
use super::ticks::Ticks;
use super::{Act, Birth, Load, LoadReport, TaskIndex, Until};
use crate::order::SortWindow;

/// Events that are held back to be sorted by time, as in `latency`.
const WINDOW: usize = 4096;
/// Delays of wakeups on idle CPUs that are kept for the median.
const SAMPLES_MOST: usize = 100_000;

/// Takes events one by one and gives the load at the end.
///
/// Memory: 40 bytes for each stretch of work, sleep and wakeup, and about 400 for each task.
///
/// ```
/// use schedlab_analysis::load::{Act, LoadBuilder, Until};
/// use schedlab_trace::FtraceTextReader;
///
/// let text = "
///   a-7 [000] d..2. 1.000000: sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=a next_pid=7 next_prio=120
///   a-7 [000] d..2. 1.000100: sched_waking: comm=b pid=8 prio=120 target_cpu=000
///   a-7 [000] d..2. 1.000150: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 next_prio=120
///   b-8 [000] d.h1. 1.000250: sched_waking: comm=a pid=7 prio=120 target_cpu=000
/// ";
/// let mut builder = LoadBuilder::default();
/// for event in FtraceTextReader::new(text.as_bytes(), "example") {
///     builder.push(&event.unwrap());
/// }
/// let load = builder.finish();
/// let a = load.tasks.iter().find(|t| t.pid == 7).unwrap();
/// assert_eq!(a.acts[0], Act::Run { ns: 100_000, pieces: 1 });
/// assert!(matches!(a.acts[1], Act::Wake(_)));
/// assert!(matches!(a.acts[3], Act::Sleep { from: 150_000, until: Until::Time(250_000), .. }));
/// ```
#[derive(Debug)]
pub struct LoadBuilder {
    window: SortWindow<Step>,
    walk: Walk,
}

impl Default for LoadBuilder {
    fn default() -> Self {
        Self {
            window: SortWindow::new(WINDOW),
            walk: Walk::default(),
        }
    }
}

impl LoadBuilder {
    /// Takes an event.
    pub fn push(&mut self, event: &Event) {
        let mut step = Step::new(event);
        self.walk.report.has_flags |= event.flags.hardirq || event.flags.softirq;
        // At a tick the accounting runs with preemption disabled once; at a wakeup deeper.
        if event.flags.hardirq
            && event.flags.preempt_depth <= 1
            && matches!(step.kind, StepKind::Runtime(..))
        {
            step.irq = true;
            self.walk.tick_candidate(step.cpu, event.ts);
        }
        if let Some((ts, step)) = self.window.push(event.ts, step) {
            self.walk.step(ts, &step);
        }
    }

    /// Closes what is open and gives the load.
    #[must_use]
    pub fn finish(mut self) -> Load {
        for (ts, step) in self.window.drain() {
            self.walk.step(ts, &step);
        }
        self.walk.report.order = self.window.report();
        self.walk.finish()
    }
}

/// Who called for a wakeup.
#[derive(Clone, Copy, Debug)]
enum Waker {
    /// An interrupt, or the idle task.
    Interrupt,
    /// A task on this CPU, with the place in its acts that is kept for it.
    Task(TaskIndex, usize, u32),
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing is known since then.
    Unknown {
        since: u64,
    },
    /// Forked, not yet woken for the first time.
    New,
    /// On a CPU. `call`: for a wakeup, and not answered yet.
    Running {
        cpu: u32,
        call: Option<Waker>,
    },
    /// Runnable. `since` and CPU of the task that woke it.
    Ready {
        since: u64,
        waker_cpu: Option<u32>,
    },
    /// Asleep; `act` is the place of the sleep. `call` came before it began.
    Asleep {
        act: usize,
        call: Option<Waker>,
    },
    Dead,
}

#[derive(Debug)]
struct Task {
    pid: Pid,
    comm: Comm,
    prio: Option<i32>,
    /// The one that it had before its first act.
    first_prio: Option<i32>,
    /// The place kept for a change of priority at the start of its present run.
    prio_place: Option<usize>,
    bad_prio: Option<i32>,
    birth: Birth,
    state: State,
    /// Whether it was ever seen on a CPU.
    ran: bool,
    ended: bool,
    /// `None`: a place kept for a call that had no effect, or a sleep that was none.
    acts: Vec<Option<Act>>,
    beside: Beside,
    /// Calls by tasks that ended sleeps: time, place of the sleep, the waker and the place in its acts. Kept while no
    /// event has told of an interrupt.
    calls: Vec<(u64, usize, TaskIndex, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Current {
    Unknown,
    Idle,
    Task(TaskIndex),
}

#[derive(Clone, Copy, Debug)]
struct Cpu {
    current: Current,
    /// Up to when the run time of `current` is in its acts.
    since: u64,
    /// Whether the present piece is not in its acts yet.
    fresh: bool,
    /// Last event of this CPU.
    seen: u64,
    /// `current` was seen running without a switch: earliest and latest begin.
    guess: Option<(u64, u64)>,
}

#[derive(Debug, Default)]
struct Walk {
    tasks: Vec<Task>,
    /// The living task of each pid. Only looked up, never walked, so its order does not matter.
    by_pid: HashMap<Pid, TaskIndex>,
    cpus: BTreeMap<u32, Cpu>,
    highest_cpu: u32,
    first: Option<u64>,
    last: u64,
    idle: IdleTime,
    ticks: Ticks,
    idle_exits: Vec<u64>,
    report: LoadReport,
}

impl Walk {
    fn tick_candidate(&mut self, cpu: u32, ts: u64) {
        self.ticks.push(cpu, ts);
    }

    fn step(&mut self, ts: u64, step: &Step) {
        self.report.events += 1;
        self.first = Some(self.first.map_or(ts, |first| first.min(ts)));
        self.last = self.last.max(ts);
        self.highest_cpu = self.highest_cpu.max(step.cpu);
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
            self.exec(pid, old_pid);
        }
        self.observe(ts, step.cpu, running);
        match step.kind {
            StepKind::Switch { prev, state, next } => {
                self.switch_out(ts, step.cpu, prev, state);
                self.switch_in(ts, step.cpu, next);
            }
            StepKind::Waking(task) => self.waking(ts, step, task),
            StepKind::Wakeup(task) => self.wakeup(ts, step, task),
            StepKind::WakeupNew(task) => self.wakeup_new(ts, step, task),
            StepKind::Migrate(task, to) => {
                self.highest_cpu = self.highest_cpu.max(to);
                if let Some(index) = self.task(ts, task) {
                    self.tasks[index].beside.uses(to);
                }
            }
            StepKind::Runtime(task, runtime) => {
                if let Some(index) = self.task(ts, task) {
                    self.settle_guess(ts, index, runtime);
                }
            }
            StepKind::Fork(child) => {
                if child.pid != 0 {
                    self.new_task(child, State::New, Birth::At(ts));
                }
            }
            StepKind::Exit(task) => {
                if let Some(index) = self.task(ts, task) {
                    self.tasks[index].ended = true;
                }
            }
            StepKind::Yield => {
                if let Some(index) = self.current(step.cpu) {
                    self.flush(ts, step.cpu);
                    self.tasks[index].acts.push(Some(Act::Yield));
                }
            }
            StepKind::Tick => self.ticks.push(step.cpu, ts),
            StepKind::Exec { .. } | StepKind::Nothing => {}
        }
    }

    /// Every event says which task is current on its CPU: who runs at the CPU's first event, and that a switch is
    /// missing if it is not the one that was switched in.
    fn observe(&mut self, ts: u64, cpu: u32, running: Named) {
        let before = self.cpus.get_mut(&cpu).map(|entry| {
            let floor = entry.seen;
            entry.seen = floor.max(ts);
            (entry.current, floor)
        });
        match before {
            Some((Current::Idle, _)) if running.pid == 0 => return,
            Some((Current::Task(index), _)) if self.tasks[index].pid == running.pid => return,
            _ => {}
        }
        if let Some((current, floor)) = before {
            self.report.missing_switches += u64::from(current != Current::Unknown);
            self.close(floor, cpu);
            self.forget_current(cpu, floor);
        }
        let index = (running.pid != 0).then(|| self.living(ts, running));
        let mut floor = before.map_or(ts, |(_, floor)| floor.min(ts));
        if let Some(index) = index {
            self.leave_other_cpu(cpu, index);
            if let State::Ready { since, .. } = self.tasks[index].state
                && matches!(before, Some((Current::Idle, _)))
            {
                // It did not run before it was woken.
                floor = since.clamp(floor, ts);
            }
            self.begin_run(ts, cpu, index, false);
        }
        let guess = (before.is_some() && index.is_some()).then_some((floor, ts));
        self.put_current(cpu, index, ts, guess);
    }

    fn put_current(
        &mut self,
        cpu: u32,
        index: Option<TaskIndex>,
        ts: u64,
        guess: Option<(u64, u64)>,
    ) {
        let seen = self.cpus.get(&cpu).map_or(ts, |entry| entry.seen.max(ts));
        self.idle.set(cpu, index.is_none(), ts);
        self.cpus.insert(
            cpu,
            Cpu {
                current: index.map_or(Current::Idle, Current::Task),
                since: ts,
                fresh: true,
                seen,
                guess,
            },
        );
    }

    fn current(&self, cpu: u32) -> Option<TaskIndex> {
        match self.cpus.get(&cpu)?.current {
            Current::Task(index) => Some(index),
            _ => None,
        }
    }

    /// A task of which only the running was seen has been charged `runtime`: it was switched in that long ago.
    fn settle_guess(&mut self, ts: u64, index: TaskIndex, runtime: u64) {
        let State::Running { cpu, .. } = self.tasks[index].state else {
            return;
        };
        let Some(entry) = self.cpus.get_mut(&cpu) else {
            return;
        };
        if entry.current != Current::Task(index) {
            return;
        }
        let Some((floor, seen)) = entry.guess.take() else {
            return;
        };
        let start = ts.saturating_sub(runtime).clamp(floor.min(seen), seen);
        self.report.unattributed += start.saturating_sub(floor);
        self.add_run(index, seen - start, 0);
    }

    /// The living task of a name, made if it is new. Names in front of events may be later ones (tools look them up at
    /// the end), so they are not taken over.
    fn living(&mut self, ts: u64, named: Named) -> TaskIndex {
        match self.by_pid.get(&named.pid) {
            Some(&index) if !matches!(self.tasks[index].state, State::Dead) => index,
            // A pid is back without a fork event: another task.
            Some(_) => self.new_task(named, State::Unknown { since: ts }, Birth::At(ts)),
            None => {
                let first = self.first.unwrap_or(ts);
                self.new_task(named, State::Unknown { since: first }, Birth::Runnable)
            }
        }
    }

    /// The task that a field names, made if it is new; `None` for idle tasks. Takes name and priority over. A task that
    /// has ended stays.
    fn task(&mut self, ts: u64, named: Named) -> Option<TaskIndex> {
        if named.pid == 0 {
            return None;
        }
        let index = match self.by_pid.get(&named.pid) {
            Some(&index) => index,
            None => self.living(ts, named),
        };
        if !named.comm.as_bytes().is_empty() {
            self.tasks[index].comm = named.comm;
        }
        if let Some(prio) = named.prio {
            self.note_prio(ts, index, prio);
        }
        Some(index)
    }

    fn note_prio(&mut self, ts: u64, index: TaskIndex, prio: i32) {
        let task = &mut self.tasks[index];
        if task.prio == Some(prio) || task.bad_prio == Some(prio) {
            return;
        }
        if !matches!(prio, 0..=98 | 100..=139) {
            task.bad_prio = Some(prio);
            self.report.prio_unknown += 1;
            return;
        }
        let before = task.prio.replace(prio);
        if before.is_none() || (!task.ran && task.acts.is_empty()) {
            task.first_prio = Some(prio);
            return;
        }
        // No event tells when. A running task is taken to have changed it first thing: what it did since, nobody else ran.
        match task.prio_place.take() {
            Some(place) if matches!(task.state, State::Running { .. }) => {
                task.acts[place] = Some(Act::Prio(prio));
            }
            _ => {
                if let State::Running { cpu, .. } = task.state {
                    self.flush(ts, cpu);
                }
                self.tasks[index].acts.push(Some(Act::Prio(prio)));
            }
        }
    }

    fn new_task(&mut self, named: Named, state: State, birth: Birth) -> TaskIndex {
        let index = self.tasks.len();
        // The pid's owner before has ended, seen or not.
        if let Some(before) = self.by_pid.insert(named.pid, index) {
            self.bury(before);
        }
        self.tasks.push(Task {
            pid: named.pid,
            comm: named.comm,
            prio: None,
            first_prio: None,
            prio_place: None,
            bad_prio: None,
            birth,
            state,
            ran: false,
            ended: false,
            acts: Vec::new(),
            beside: Beside::default(),
            calls: Vec::new(),
        });
        if let Some(prio) = named.prio {
            self.note_prio(0, index, prio);
        }
        index
    }

    /// Ends a task of which nothing more is heard.
    fn bury(&mut self, index: TaskIndex) {
        if let State::Running { cpu, .. } = self.tasks[index].state
            && let Some(seen) = self.cpus.get(&cpu).map(|entry| entry.seen)
        {
            self.close(seen, cpu);
            self.forget_current(cpu, seen);
        }
        self.tasks[index].state = State::Dead;
    }

    fn add_run(&mut self, index: TaskIndex, ns: u64, piece: u32) {
        if ns == 0 && piece == 0 {
            return;
        }
        let acts = &mut self.tasks[index].acts;
        if let Some(Some(Act::Run { ns: sum, pieces })) = acts.last_mut() {
            *sum = sum.saturating_add(ns);
            *pieces = pieces.saturating_add(piece);
        } else {
            acts.push(Some(Act::Run { ns, pieces: piece }));
        }
    }

    /// Puts the run time of a CPU's task so far into its acts.
    fn flush(&mut self, ts: u64, cpu: u32) {
        let Some(entry) = self.cpus.get_mut(&cpu) else {
            return;
        };
        let ns = ts.saturating_sub(entry.since);
        entry.since = ts.max(entry.since);
        match entry.current {
            Current::Task(index) => {
                let piece = u32::from(std::mem::take(&mut entry.fresh));
                self.add_run(index, ns, piece);
            }
            Current::Unknown => self.report.unattributed += ns,
            Current::Idle => {}
        }
    }

    /// The same at the end of a piece.
    fn close(&mut self, ts: u64, cpu: u32) {
        self.flush(ts, cpu);
        if let Some((floor, seen)) = self.cpus.get_mut(&cpu).and_then(|e| e.guess.take()) {
            self.report.unattributed += seen.saturating_sub(floor);
        }
    }

    /// The task that was switched in last is not running any more, nobody knows since when.
    fn forget_current(&mut self, cpu: u32, since: u64) {
        let Some(entry) = self.cpus.get_mut(&cpu) else {
            return;
        };
        if let Current::Task(index) = entry.current
            && matches!(self.tasks[index].state, State::Running { cpu: there, .. } if there == cpu)
        {
            self.tasks[index].state = State::Unknown { since };
        }
        entry.current = Current::Unknown;
        self.idle.set(cpu, false, since);
    }

    /// A task that is seen running on `cpu` is not running elsewhere.
    fn leave_other_cpu(&mut self, cpu: u32, index: TaskIndex) {
        let State::Running { cpu: other, .. } = self.tasks[index].state else {
            return;
        };
        if other == cpu {
            return;
        }
        self.report.on_two_cpus += 1;
        let seen = self
            .cpus
            .get(&other)
            .filter(|entry| entry.current == Current::Task(index))
            .map(|entry| entry.seen);
        if let Some(seen) = seen {
            self.close(seen, other);
            self.forget_current(other, seen);
        }
        let since = seen.unwrap_or(self.last);
        self.tasks[index].state = State::Unknown { since };
    }

    fn switch_out(&mut self, ts: u64, cpu: u32, prev: Named, prev_state: PrevState) {
        self.close(ts, cpu);
        let Some(index) = self.task(ts, prev) else {
            return;
        };
        let task = &mut self.tasks[index];
        let call = match task.state {
            State::Running { call, .. } => call,
            _ => None,
        };
        let ends = prev_state.0 & (PrevState::DEAD.0 | PrevState::ZOMBIE.0) != 0;
        if prev_state.is_runnable() {
            self.report.wakes_without_effect += u64::from(call.is_some());
            self.ready(ts, index, None);
        } else if ends {
            task.ended = true;
            task.state = State::Dead;
        } else {
            let act = self.sleep(index, ts, prev_state.0 & PrevState::UNINTERRUPTIBLE.0 != 0);
            self.tasks[index].state = State::Asleep { act, call };
        }
    }

    /// Begins a sleep; its place in the acts.
    fn sleep(&mut self, index: TaskIndex, from: u64, deep: bool) -> usize {
        let acts = &mut self.tasks[index].acts;
        acts.push(Some(Act::Sleep {
            from,
            until: Until::End,
            deep,
        }));
        acts.len() - 1
    }

    fn ready(&mut self, ts: u64, index: TaskIndex, waker_cpu: Option<u32>) {
        let task = &mut self.tasks[index];
        task.state = State::Ready {
            since: ts,
            waker_cpu,
        };
        task.beside.wait_begins(&self.idle, ts);
    }

    fn switch_in(&mut self, ts: u64, cpu: u32, next: Named) {
        let from_idle = self
            .cpus
            .get(&cpu)
            .is_some_and(|e| e.current == Current::Idle);
        let index = (next.pid != 0).then(|| {
            let index = self.living(ts, next);
            self.leave_other_cpu(cpu, index);
            // Takes name and priority over.
            self.task(ts, next);
            self.begin_run(ts, cpu, index, from_idle);
            index
        });
        self.put_current(cpu, index, ts, None);
    }

    /// A task gets a CPU: whatever it was doing, it is over.
    fn begin_run(&mut self, ts: u64, cpu: u32, index: TaskIndex, from_idle: bool) {
        let task = &mut self.tasks[index];
        task.beside.uses(cpu);
        match task.state {
            State::Ready { since, waker_cpu } => {
                task.beside.wait_ends(&self.idle, ts);
                if from_idle
                    && waker_cpu.is_some_and(|w| w != cpu)
                    && self.idle_exits.len() < SAMPLES_MOST
                {
                    self.idle_exits.push(ts.saturating_sub(since));
                }
            }
            State::Asleep { act, call: Some(_) } => {
                self.report.aborted_sleeps += 1;
                task.acts[act] = None;
            }
            State::Asleep { act, call: None } => {
                self.report.missing_wakeups += 1;
                end_sleep(&mut task.acts[act], Until::Time(ts));
            }
            State::New => {
                self.report.missing_wakeups += 1;
                task.birth = Birth::At(ts);
            }
            State::Unknown { .. } | State::Running { .. } | State::Dead => {}
        }
        task.ran = true;
        task.acts.push(None);
        task.prio_place = Some(task.acts.len() - 1);
        task.state = State::Running { cpu, call: None };
    }

    /// Who calls for a wakeup at an event. A task's call gets a place in its acts.
    fn waker(&mut self, ts: u64, step: &Step) -> Waker {
        match self.current(step.cpu) {
            Some(index) if !step.irq && step.pid != 0 => {
                self.flush(ts, step.cpu);
                let acts = &mut self.tasks[index].acts;
                acts.push(None);
                Waker::Task(index, acts.len() - 1, step.cpu)
            }
            _ => Waker::Interrupt,
        }
    }

    fn waking(&mut self, ts: u64, step: &Step, named: Named) {
        let Some(index) = self.task(ts, named) else {
            return;
        };
        match self.tasks[index].state {
            State::Running { cpu, call } => {
                self.report.wakes_without_effect += u64::from(call.is_some());
                let call = Some(self.waker(ts, step));
                self.tasks[index].state = State::Running { cpu, call };
            }
            State::Ready { .. } | State::New => self.report.wakes_without_effect += 1,
            State::Dead => self.report.wakes_of_dead += 1,
            State::Asleep { .. } | State::Unknown { .. } => {
                let waker = self.waker(ts, step);
                self.wake(ts, index, waker);
            }
        }
    }

    fn wakeup(&mut self, ts: u64, step: &Step, named: Named) {
        let Some(index) = self.task(ts, named) else {
            return;
        };
        match self.tasks[index].state {
            State::Running { cpu, .. } => {
                // The call is answered: a sleep from here on is a new one.
                self.report.wakes_without_effect += 1;
                self.tasks[index].state = State::Running { cpu, call: None };
            }
            State::Asleep {
                call: Some(waker), ..
            } => self.wake(ts, index, waker),
            State::Asleep { call: None, .. } | State::Unknown { .. } => {
                let waker = self.waker(ts, step);
                self.wake(ts, index, waker);
            }
            State::New => self.wakeup_new(ts, step, named),
            // Answers the call before.
            State::Ready { .. } => {}
            State::Dead => self.report.wakes_of_dead += 1,
        }
    }

    /// A sleep ends.
    fn wake(&mut self, ts: u64, index: TaskIndex, waker: Waker) {
        let task = &self.tasks[index];
        let fresh = !task.ran && task.acts.is_empty();
        let act = match (task.state, task.birth) {
            (State::Asleep { act, .. }, _) => act,
            (_, Birth::Runnable) if fresh => {
                self.tasks[index].birth = Birth::Asleep;
                self.sleep(index, self.first.unwrap_or(ts), false)
            }
            (State::Unknown { since }, _) => self.sleep(index, since, false),
            _ => self.sleep(index, ts, false),
        };
        let mut waker_cpu = None;
        let until = match waker {
            Waker::Interrupt => Until::Time(ts),
            Waker::Task(by, place, cpu) if by != index => {
                waker_cpu = Some(cpu);
                self.tasks[by].acts[place] = Some(Act::Wake(index));
                if !self.report.has_flags {
                    self.tasks[index].calls.push((ts, act, by, place));
                }
                Until::Task(by)
            }
            // Its own call, traced before a switch that is missing.
            Waker::Task(..) => Until::Time(ts),
        };
        end_sleep(&mut self.tasks[index].acts[act], until);
        self.ready(ts, index, waker_cpu);
    }

    fn wakeup_new(&mut self, ts: u64, step: &Step, named: Named) {
        let Some(mut index) = self.task(ts, named) else {
            return;
        };
        let task = &self.tasks[index];
        let fresh = match task.state {
            State::New => true,
            State::Unknown { .. } => !task.ran && task.acts.is_empty(),
            _ => false,
        };
        if !fresh {
            // The pid had another owner, whose end was not traced.
            index = self.new_task(named, State::New, Birth::At(ts));
        }
        self.tasks[index].birth = match self.waker(ts, step) {
            Waker::Task(parent, place, _) if parent != index => {
                self.tasks[parent].acts[place] = Some(Act::Fork(index));
                Birth::Forked(parent, ts)
            }
            _ => Birth::At(ts),
        };
        self.ready(ts, index, None);
    }

    /// An exec in a thread that is not the leader: it takes the leader's pid over.
    fn exec(&mut self, pid: Pid, old_pid: Pid) {
        if pid == old_pid || pid == 0 || old_pid == 0 {
            return;
        }
        let Some(index) = self.by_pid.remove(&old_pid) else {
            return;
        };
        if let Some(leader) = self.by_pid.insert(pid, index) {
            self.bury(leader);
        }
        self.tasks[index].pid = pid;
    }

    fn finish(mut self) -> Load {
        let Some(first) = self.first else {
            return Load::default();
        };
        let numbers: Vec<u32> = self.cpus.keys().copied().collect();
        for cpu in numbers {
            self.close(self.last, cpu);
        }
        if !self.report.has_flags {
            self.timers_by_regularity();
        }
        let ticks = self.ticks.finish(first);
        self.idle_exits.sort_unstable();
        super::finish::finish(super::finish::Walked {
            first,
            span: self.last - first,
            cpus: self.highest_cpu.saturating_add(1),
            idle_exit: self.idle_exits.get(self.idle_exits.len() / 2).copied(),
            ticks,
            report: self.report,
            tasks: self
                .tasks
                .into_iter()
                .map(|t| super::finish::WalkedTask {
                    pid: t.pid,
                    comm: t.comm,
                    prio: t.first_prio,
                    birth: t.birth,
                    ended: t.ended,
                    acts: t.acts,
                    beside: t.beside,
                })
                .collect(),
        })
    }

    /// Without flags, a timer that interrupts a task looks like a wakeup by that task. Regular times tell.
    fn timers_by_regularity(&mut self) {
        for index in 0..self.tasks.len() {
            let calls = std::mem::take(&mut self.tasks[index].calls);
            let times: Vec<u64> = calls.iter().map(|c| c.0).collect();
            let (stretches, _) = super::timing::regular(&times);
            let regular: usize = stretches.iter().map(|s| s.1 + 1).sum();
            if regular * 2 < calls.len() {
                continue;
            }
            for &(ts, act, by, place) in stretches
                .iter()
                .flat_map(|&(first, count)| &calls[first..=first + count])
            {
                end_sleep(&mut self.tasks[index].acts[act], Until::Time(ts));
                self.tasks[by].acts[place] = None;
                self.report.wakers_by_regularity += 1;
            }
        }
    }
}

fn end_sleep(act: &mut Option<Act>, end: Until) {
    if let Some(Act::Sleep { until, .. }) = act {
        *until = end;
    }
}
