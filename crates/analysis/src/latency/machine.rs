//! The accumulator: a small state machine per task and per CPU.

use std::collections::{BTreeMap, HashMap};

use schedlab_trace::{Comm, Event, Pid, PrevState};

use super::LatencyOptions;
use super::report::{Anomalies, CpuTime, DelayStats, LatencyReport, Summary, TaskLatency};
use super::step::{Named, Step, StepKind};
use crate::order::SortWindow;

/// Takes events one by one and gives the report at the end.
///
/// Memory: the sorting window, and about 250 bytes per task that the trace names.
///
/// ```
/// use schedlab_analysis::latency::{GroupBy, LatencyAccumulator, LatencyOptions, WakeStart};
/// use schedlab_trace::FtraceTextReader;
///
/// let text = "
///   <idle>-0 [000] 1.000000: sched_waking: comm=a pid=7 prio=120 target_cpu=000
///   <idle>-0 [000] 1.000002: sched_wakeup: comm=a pid=7 prio=120 target_cpu=000
///   <idle>-0 [000] 1.000005: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120
///   a-7 [000] 1.000105: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
/// ";
/// let mut latency = LatencyAccumulator::new(LatencyOptions::default());
/// for event in FtraceTextReader::new(text.as_bytes(), "example") {
///     latency.push(&event.unwrap());
/// }
/// let report = latency.finish();
/// let row = &report.rows(GroupBy::Comm, WakeStart::Waking)[0];
/// assert_eq!((row.name.as_str(), row.runtime, row.delays.max), ("a:7", 100_000, 5_000));
/// ```
#[derive(Debug)]
pub struct LatencyAccumulator {
    window: SortWindow<Step>,
    machine: Machine,
}

impl LatencyAccumulator {
    /// An accumulator without events.
    #[must_use]
    pub fn new(options: LatencyOptions) -> Self {
        Self {
            window: SortWindow::new(options.window),
            machine: Machine::default(),
        }
    }

    /// Takes an event.
    pub fn push(&mut self, event: &Event) {
        if let Some((ts, step)) = self.window.push(event.ts, Step::new(event)) {
            self.machine.step(ts, &step);
        }
    }

    /// Closes what is open and gives the report.
    #[must_use]
    pub fn finish(mut self) -> LatencyReport {
        for (ts, step) in self.window.drain() {
            self.machine.step(ts, &step);
        }
        self.machine.anomalies.order = self.window.report();
        self.machine.finish()
    }
}

/// What a task is doing by the events so far.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing said yet.
    Unknown,
    /// Forked, not yet woken for the first time.
    New,
    /// On a CPU. `waking`: a call for a wakeup came meanwhile and is not answered yet.
    Running { cpu: u32, waking: Option<u64> },
    /// Switched out to sleep. `waking`: such a call came before that.
    Sleeping { since: u64, waking: Option<u64> },
    /// Runnable, not running. At least one of the two is there; both are the switch-out after a preemption.
    Waiting {
        waking: Option<u64>,
        wakeup: Option<u64>,
    },
    /// Ended.
    Dead,
}

#[derive(Clone, Debug)]
struct Task {
    pid: Pid,
    comm: Comm,
    state: State,
    last_cpu: Option<u32>,
    runtime: u64,
    stat_runtime: Option<u64>,
    from_waking: DelayStats,
    from_wakeup: DelayStats,
    switches_in: u64,
    voluntary: u64,
    involuntary: u64,
    migrations: u64,
    cpu_changes: u64,
}

/// Index into the tasks.
type TaskIndex = usize;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Current {
    Unknown,
    Idle,
    Task(TaskIndex),
}

#[derive(Clone, Copy, Debug)]
struct Cpu {
    current: Current,
    /// Since when.
    since: u64,
    /// Last event of this CPU.
    seen: u64,
    /// Set if `current` was not switched in by an event but seen running.
    guess: Option<Guess>,
    time: CpuTime,
}

/// A task runs whose switch-in is missing. The next `sched_stat_runtime` of it tells how long it has been running.
#[derive(Clone, Copy, Debug)]
struct Guess {
    /// The CPU's last event before the task was seen: it came later than that.
    floor: u64,
    /// Whether the CPU was idle until then.
    after_idle: bool,
    /// The wait that the missing switch ended.
    waking: Option<u64>,
    wakeup: Option<u64>,
}

#[derive(Debug, Default)]
struct Machine {
    tasks: Vec<Task>,
    /// The living task of each pid. Only looked up, never walked, so its order does not matter.
    by_pid: HashMap<Pid, TaskIndex>,
    cpus: BTreeMap<u32, Cpu>,
    first: Option<u64>,
    last: u64,
    summary: Summary,
    anomalies: Anomalies,
}

impl Machine {
    fn step(&mut self, ts: u64, step: &Step) {
        self.first = Some(self.first.map_or(ts, |first| first.min(ts)));
        self.last = self.last.max(ts);
        let running = match step.kind {
            StepKind::Switch { prev, .. } => prev,
            _ => Named {
                pid: step.pid,
                comm: step.comm,
            },
        };
        // Traced after the change of pid: the pid in front of this event is the new one already.
        if let StepKind::Exec { pid, old_pid } = step.kind {
            self.exec(pid, old_pid);
        }
        self.observe(ts, step.cpu, running);
        match step.kind {
            StepKind::Switch { prev, state, next } => {
                self.summary.switches += 1;
                self.switch_out(ts, step.cpu, prev, state);
                self.switch_in(ts, step.cpu, next);
            }
            StepKind::Waking(task) => {
                self.summary.wakings += 1;
                self.waking(ts, task);
            }
            StepKind::Wakeup(task) => {
                self.summary.wakeups += 1;
                self.wakeup(ts, task);
            }
            StepKind::WakeupNew(task) => {
                self.summary.new_tasks += 1;
                self.wakeup_new(ts, task);
            }
            StepKind::Migrate(task) => {
                self.summary.migrations += 1;
                if let Some(index) = self.task(task) {
                    self.tasks[index].migrations += 1;
                }
            }
            StepKind::Runtime(task, runtime) => {
                if let Some(index) = self.task(task) {
                    self.settle_guess(ts, index, runtime);
                    let sum = &mut self.tasks[index].stat_runtime;
                    *sum = Some(sum.unwrap_or_default().saturating_add(runtime));
                }
            }
            StepKind::Fork(child) => {
                if child.pid != 0 {
                    self.new_task(child, State::New);
                }
            }
            StepKind::Exec { .. } | StepKind::Nothing => {}
        }
    }

    /// Every event says which task is current on its CPU. This tells who runs there at the CPU's first event, and
    /// shows that a switch is missing (lost, or not recorded) if it is not the one that was switched in.
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
            self.anomalies.missing_switches += u64::from(current != Current::Unknown);
            self.close(floor, cpu);
            self.forget_current(cpu);
        }
        // The name in front of an event may be one that the task takes later (tools look it up at the end), so it
        // is kept only until a field names the task.
        let index = (running.pid != 0).then(|| match self.by_pid.get(&running.pid) {
            Some(&index) => index,
            None => self.new_task(running, State::Unknown),
        });
        let mut guess = before.map(|(current, floor)| Guess {
            floor,
            after_idle: current == Current::Idle,
            waking: None,
            wakeup: None,
        });
        if let Some(index) = index {
            self.leave_other_cpu(cpu, index);
            let task = &mut self.tasks[index];
            let mut call = None;
            let mut idle_until = None;
            if let State::Waiting { waking, wakeup } = task.state {
                match &mut guess {
                    Some(guess) => {
                        (guess.waking, guess.wakeup) = (waking, wakeup);
                        // It did not run before it was woken.
                        let woken = waking.or(wakeup).unwrap_or(guess.floor);
                        let woken = woken.min(ts).max(guess.floor);
                        if guess.after_idle {
                            idle_until = Some(woken);
                        }
                    }
                    // At the CPU's first event: the call came while the task was running here, unseen.
                    None => call = waking,
                }
            }
            task.state = State::Running { cpu, waking: call };
            if let (Some(woken), Some(guess), Some(entry)) =
                (idle_until, &mut guess, self.cpus.get_mut(&cpu))
            {
                entry.time.idle += woken - guess.floor;
                guess.floor = woken;
            }
            task.cpu_changes += u64::from(task.last_cpu.is_some_and(|last| last != cpu));
            task.last_cpu = Some(cpu);
        }
        let entry = self.cpus.entry(cpu).or_insert(Cpu {
            current: Current::Unknown,
            since: ts,
            seen: ts,
            guess: None,
            time: CpuTime {
                cpu,
                ..CpuTime::default()
            },
        });
        entry.current = index.map_or(Current::Idle, Current::Task);
        entry.guess = guess;
        entry.since = ts.max(guess.map_or(ts, |guess| guess.floor));
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
        let Some(guess) = entry.guess.take() else {
            return;
        };
        self.anomalies.inferred_switches += 1;
        // Not before it was woken, nor after it was seen.
        let start = ts
            .saturating_sub(runtime)
            .max(guess.floor)
            .max(guess.waking.unwrap_or(0))
            .max(guess.wakeup.unwrap_or(0))
            .min(entry.since);
        entry.since = start;
        let gap = start - guess.floor.min(start);
        if guess.after_idle {
            entry.time.idle += gap;
        } else {
            self.anomalies.unattributed += gap;
        }
        self.end_wait(start, index, guess.waking, guess.wakeup);
    }

    /// Counts the delays of a task that waited and is switched in.
    fn end_wait(&mut self, ts: u64, index: TaskIndex, waking: Option<u64>, wakeup: Option<u64>) {
        let task = &mut self.tasks[index];
        let mut negative = false;
        for (start, stats) in [
            (waking.or(wakeup), &mut task.from_waking),
            (wakeup.or(waking), &mut task.from_wakeup),
        ] {
            if let Some(start) = start {
                negative |= start > ts;
                stats.add(start, ts);
            }
        }
        self.anomalies.negative += u64::from(negative);
    }

    /// The index of a named task, made if it is new; `None` for idle tasks. Takes the name over.
    fn task(&mut self, named: Named) -> Option<TaskIndex> {
        if named.pid == 0 {
            return None;
        }
        let index = match self.by_pid.get(&named.pid) {
            Some(&index) => index,
            None => self.new_task(named, State::Unknown),
        };
        if !named.comm.as_bytes().is_empty() {
            self.tasks[index].comm = named.comm;
        }
        Some(index)
    }

    fn new_task(&mut self, named: Named, state: State) -> TaskIndex {
        let index = self.tasks.len();
        self.tasks.push(Task {
            pid: named.pid,
            comm: named.comm,
            state,
            last_cpu: None,
            runtime: 0,
            stat_runtime: None,
            from_waking: DelayStats::default(),
            from_wakeup: DelayStats::default(),
            switches_in: 0,
            voluntary: 0,
            involuntary: 0,
            migrations: 0,
            cpu_changes: 0,
        });
        self.by_pid.insert(named.pid, index);
        index
    }

    fn switch_out(&mut self, ts: u64, cpu: u32, prev: Named, prev_state: PrevState) {
        self.close(ts, cpu);
        if let Some(entry) = self.cpus.get_mut(&cpu) {
            entry.time.switches += 1;
        }
        let Some(index) = self.task(prev) else { return };
        let task = &mut self.tasks[index];
        let unanswered = match task.state {
            State::Running { waking, .. } => waking,
            _ => None,
        };
        if prev_state.is_runnable() {
            task.involuntary += 1;
            self.summary.involuntary += 1;
            task.state = State::Waiting {
                waking: Some(ts),
                wakeup: Some(ts),
            };
        } else {
            task.voluntary += 1;
            self.summary.voluntary += 1;
            let ends = prev_state.0 & (PrevState::DEAD.0 | PrevState::ZOMBIE.0) != 0;
            task.state = if ends {
                State::Dead
            } else {
                State::Sleeping {
                    since: ts,
                    waking: unanswered,
                }
            };
        }
    }

    fn switch_in(&mut self, ts: u64, cpu: u32, next: Named) {
        let index = match self.task(next) {
            // A pid is back without a fork event: another task.
            Some(index) if matches!(self.tasks[index].state, State::Dead) => {
                Some(self.new_task(next, State::Unknown))
            }
            index => index,
        };
        if let Some(index) = index {
            self.leave_other_cpu(cpu, index);
            match self.tasks[index].state {
                State::Waiting { waking, wakeup } => self.end_wait(ts, index, waking, wakeup),
                State::Sleeping {
                    since,
                    waking: Some(_),
                } => {
                    self.anomalies.aborted_sleeps += 1;
                    self.end_wait(ts, index, Some(since), Some(since));
                }
                State::Sleeping { waking: None, .. } | State::New => {
                    self.anomalies.missing_wakeups += 1;
                }
                State::Unknown | State::Running { .. } | State::Dead => {}
            }
            let task = &mut self.tasks[index];
            task.state = State::Running { cpu, waking: None };
            task.switches_in += 1;
            task.cpu_changes += u64::from(task.last_cpu.is_some_and(|last| last != cpu));
            task.last_cpu = Some(cpu);
        }
        if let Some(entry) = self.cpus.get_mut(&cpu) {
            entry.current = index.map_or(Current::Idle, Current::Task);
            entry.since = ts;
            entry.guess = None;
        }
    }

    /// Charges the time of a CPU since the last switch to who ran there.
    fn close(&mut self, ts: u64, cpu: u32) {
        let Some(entry) = self.cpus.get_mut(&cpu) else {
            return;
        };
        if let Some(guess) = entry.guess.take() {
            self.anomalies.unattributed += entry.since.saturating_sub(guess.floor);
        }
        let span = ts.checked_sub(entry.since).unwrap_or_else(|| {
            self.anomalies.negative += 1;
            0
        });
        match entry.current {
            Current::Unknown => self.anomalies.unattributed += span,
            Current::Idle => entry.time.idle += span,
            Current::Task(index) => {
                entry.time.busy += span;
                self.tasks[index].runtime += span;
            }
        }
        entry.since = ts.max(entry.since);
    }

    /// The task that was switched in last is not running any more, nobody knows since when.
    fn forget_current(&mut self, cpu: u32) {
        let Some(entry) = self.cpus.get_mut(&cpu) else {
            return;
        };
        if let Current::Task(index) = entry.current
            && matches!(self.tasks[index].state, State::Running { cpu: there, .. } if there == cpu)
        {
            self.tasks[index].state = State::Unknown;
        }
        entry.current = Current::Unknown;
    }

    /// A task that is seen running on `cpu` is not running elsewhere.
    fn leave_other_cpu(&mut self, cpu: u32, index: TaskIndex) {
        if let State::Running { cpu: other, .. } = self.tasks[index].state
            && other != cpu
        {
            self.anomalies.on_two_cpus += 1;
            let seen = self
                .cpus
                .get(&other)
                .filter(|entry| entry.current == Current::Task(index))
                .map(|entry| entry.seen);
            if let Some(seen) = seen {
                self.close(seen, other);
                self.forget_current(other);
            }
            self.tasks[index].state = State::Unknown;
        }
    }

    fn waking(&mut self, ts: u64, named: Named) {
        let Some(index) = self.task(named) else {
            return;
        };
        let state = &mut self.tasks[index].state;
        match state {
            State::Running { waking, .. } => {
                self.anomalies.waking_while_running += 1;
                *waking = Some(ts);
            }
            State::Waiting { .. } => self.anomalies.wake_while_waiting += 1,
            State::Dead => self.anomalies.wake_of_dead += 1,
            State::Sleeping { .. } | State::Unknown | State::New => {
                *state = State::Waiting {
                    waking: Some(ts),
                    wakeup: None,
                };
            }
        }
    }

    fn wakeup(&mut self, ts: u64, named: Named) {
        let Some(index) = self.task(named) else {
            return;
        };
        let state = &mut self.tasks[index].state;
        match state {
            State::Running { waking, .. } => {
                self.anomalies.wakeup_while_running += 1;
                // The call is answered: a sleep from here on is a new one.
                *waking = None;
            }
            State::Waiting {
                wakeup: wakeup @ None,
                ..
            } => *wakeup = Some(ts),
            State::Waiting { .. } => self.anomalies.wake_while_waiting += 1,
            State::Dead => self.anomalies.wake_of_dead += 1,
            State::Sleeping { .. } | State::Unknown | State::New => {
                *state = State::Waiting {
                    waking: None,
                    wakeup: Some(ts),
                };
            }
        }
    }

    fn wakeup_new(&mut self, ts: u64, named: Named) {
        let Some(mut index) = self.task(named) else {
            return;
        };
        let task = &self.tasks[index];
        let fresh = match task.state {
            State::New => true,
            State::Unknown => task.switches_in == 0,
            _ => false,
        };
        if !fresh {
            // The pid had another owner, whose end was not traced.
            index = self.new_task(named, State::New);
        }
        self.tasks[index].state = State::Waiting {
            waking: Some(ts),
            wakeup: Some(ts),
        };
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
            self.tasks[leader].state = State::Dead;
        }
        self.tasks[index].pid = pid;
    }

    fn finish(mut self) -> LatencyReport {
        let Some(first) = self.first else {
            return LatencyReport {
                anomalies: self.anomalies,
                ..LatencyReport::default()
            };
        };
        let last = self.last;
        let span = last - first;
        let numbers: Vec<u32> = self.cpus.keys().copied().collect();
        for cpu in numbers {
            self.close(last, cpu);
            if let Some(entry) = self.cpus.get_mut(&cpu) {
                let time = &mut entry.time;
                // Before the CPU's first event.
                time.unknown = span.saturating_sub(time.busy + time.idle);
            }
        }
        let mut tasks: Vec<TaskLatency> = self
            .tasks
            .into_iter()
            .map(|task| TaskLatency {
                pid: task.pid,
                comm: String::from_utf8_lossy(task.comm.as_bytes()).into_owned(),
                runtime: task.runtime,
                stat_runtime: task.stat_runtime,
                from_waking: task.from_waking,
                from_wakeup: task.from_wakeup,
                switches_in: task.switches_in,
                voluntary: task.voluntary,
                involuntary: task.involuntary,
                migrations: task.migrations,
                cpu_changes: task.cpu_changes,
                open_wait: match task.state {
                    State::Waiting { waking, wakeup } => {
                        waking.or(wakeup).map(|start| last.saturating_sub(start))
                    }
                    _ => None,
                },
            })
            .collect();
        // Stable, so that tasks of one pid stay in order of age.
        tasks.sort_by_key(|task| task.pid);
        LatencyReport {
            tasks,
            summary: Summary {
                first_ts: Some(first),
                span,
                cpus: self.cpus.into_values().map(|cpu| cpu.time).collect(),
                ..self.summary
            },
            anomalies: self.anomalies,
        }
    }
}
