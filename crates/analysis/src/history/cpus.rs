//! What CPUs do, and the repair of missing switches.

use super::machine::History;
use super::state::{Call, Cpu, Doing, Guess, Run, TaskId, TaskState, WaitCause, Waker};
use super::step::Named;
use super::{CpuSpan, MarkKind, Observer};

impl History {
    /// Every event says which task is current on its CPU. This tells who runs there at the CPU's first event, and
    /// shows that a switch is missing (lost, or not recorded) if it is not the one that was switched in.
    pub(super) fn observe<O: Observer>(
        &mut self,
        ts: u64,
        cpu: u32,
        running: Named,
        observer: &mut O,
    ) {
        let before = self.cpus.get_mut(cpu).map(|entry| {
            let floor = entry.seen;
            entry.seen = floor.max(ts);
            (entry.current, floor)
        });
        match before {
            Some((Doing::Idle, _)) if running.pid == 0 => return,
            Some((Doing::Task(id), _)) if self.tasks[id.0].pid == running.pid => return,
            _ => {}
        }
        if let Some((current, floor)) = before {
            self.close(floor, cpu, observer);
            self.forget_current(floor, cpu, observer);
            if current != Doing::Unknown {
                let task = self.find(running.pid);
                self.mark(ts, cpu, task, MarkKind::MissingSwitch, observer);
            }
        }
        // The name in front of an event may be one that the task takes later (tools look it up at the end), so it
        // is kept only until a field names the task.
        let known = self.find(running.pid);
        let id = (running.pid != 0).then(|| {
            known.unwrap_or_else(|| self.new_task(ts, running, TaskState::Unknown, observer))
        });
        let guess = before.map(|(current, floor)| Guess {
            floor,
            after_idle: current == Doing::Idle,
            first_sign: known.is_none(),
            before: None,
        });
        let guess = match id {
            Some(id) => self.seen_running(ts, cpu, id, guess, observer),
            None => guess,
        };
        let entry = self.cpus.of(cpu, || Cpu {
            current: Doing::Unknown,
            since: ts,
            seen: ts,
            guess: None,
        });
        entry.current = id.map_or(Doing::Idle, Doing::Task);
        entry.guess = guess;
        entry.since = ts.max(guess.map_or(ts, |guess| guess.floor));
    }

    /// A task runs whose switch-in was not seen: gives the guess with what the task was doing.
    fn seen_running<O: Observer>(
        &mut self,
        ts: u64,
        cpu: u32,
        id: TaskId,
        guess: Option<Guess>,
        observer: &mut O,
    ) -> Option<Guess> {
        let contested = self.leave_other_cpu(ts, cpu, id, observer);
        let task = &mut self.tasks[id.0];
        let (state, since) = (task.state, task.since);
        task.last_cpu = Some(cpu);
        let mut run = Run {
            cpu,
            waking: None,
            contested,
            unseen_start: true,
        };
        let Some(mut guess) = guess else {
            // At the CPU's first event: a call came while the task was running here, unseen.
            if let Some(wait) = state.wait() {
                if wait.cause == WaitCause::Wakeup {
                    let waker = wait.waker.unwrap_or(Waker {
                        pid: 0,
                        cpu,
                        interrupt: false,
                    });
                    run.waking = wait.waking.map(|at| Call { at, waker });
                }
                self.set(since, id, TaskState::Unknown, observer);
            }
            self.set(ts, id, TaskState::Running(run), observer);
            return None;
        };
        if let Some(wait) = state.wait()
            && guess.after_idle
        {
            // It did not run before it was woken.
            let woken = wait.from_waking().unwrap_or(guess.floor);
            let woken = woken.min(ts).max(guess.floor);
            self.spent(cpu, Doing::Idle, guess.floor, woken, observer);
            guess.floor = woken;
        }
        guess.before = Some((state, since));
        self.replace(ts, id, TaskState::Running(run));
        Some(guess)
    }

    /// CPU time was charged. To a task of which only the running was seen: it was switched in that long ago. To a task
    /// that is not running: it ran unseen, so its wait was not one.
    pub(super) fn charged<O: Observer>(
        &mut self,
        ts: u64,
        cpu: u32,
        id: TaskId,
        runtime: u64,
        observer: &mut O,
    ) {
        match &mut self.tasks[id.0].state {
            TaskState::Running(run) => {
                let on = run.cpu;
                self.settle_guess(ts, on, id, runtime, observer);
            }
            state @ (TaskState::Waking(_) | TaskState::Runnable(_) | TaskState::Sleeping(_)) => {
                if let Some(wait) = state.wait_mut() {
                    wait.doubtful = true;
                }
                self.mark(ts, cpu, Some(id), MarkKind::RuntimeWithoutSwitch, observer);
            }
            TaskState::Unknown | TaskState::New | TaskState::Dead => {}
        }
    }

    fn settle_guess<O: Observer>(
        &mut self,
        ts: u64,
        cpu: u32,
        id: TaskId,
        runtime: u64,
        observer: &mut O,
    ) {
        let Some(entry) = self.cpus.get_mut(cpu) else {
            return;
        };
        if entry.current != Doing::Task(id) {
            return;
        }
        let Some(guess) = entry.guess.take() else {
            return;
        };
        let (before, mut since) = guess.before.unwrap_or((TaskState::Unknown, guess.floor));
        let task = &mut self.tasks[id.0];
        let charged_from = ts.saturating_sub(runtime).max(guess.floor);
        if guess.first_sign {
            since = charged_from.min(since);
            task.first = since;
        }
        let woken = before.wait().and_then(|w| w.waking.max(w.wakeup));
        // Not before it was woken or did something else, nor after it was seen.
        let start = charged_from
            .max(woken.unwrap_or(0))
            .max(since)
            .min(entry.since);
        entry.since = start;
        let gap = if guess.after_idle {
            Doing::Idle
        } else {
            Doing::Unknown
        };
        let running = self.hold(id, before, since);
        self.mark(ts, cpu, Some(id), MarkKind::InferredSwitch, observer);
        self.spent(cpu, gap, guess.floor, start, observer);
        self.check_wait(start, cpu, id, observer);
        self.set(start, id, running, observer);
    }

    /// Puts a task that is seen running back to what it did before, so that the switch can be told late.
    fn hold(&mut self, id: TaskId, before: TaskState, since: u64) -> TaskState {
        let (mut running, _) = self.replace(since, id, before);
        self.tasks[id.0].since = since;
        if let TaskState::Running(run) = &mut running {
            run.unseen_start = false;
        }
        running
    }

    /// Ends a guess that nothing settled: the time up to where the task was seen is unknown.
    fn give_up<O: Observer>(&mut self, cpu: u32, observer: &mut O) {
        let Some(entry) = self.cpus.get_mut(cpu) else {
            return;
        };
        let Some(guess) = entry.guess.take() else {
            return;
        };
        let (seen, current) = (entry.since, entry.current);
        let held = match (current, guess.before) {
            (Doing::Task(id), Some((before, since)))
                if self.tasks[id.0]
                    .state
                    .run()
                    .is_some_and(|run| run.cpu == cpu) =>
            {
                let running = self.tasks[id.0].state;
                self.hold(id, before, since);
                Some((id, running, since))
            }
            _ => None,
        };
        self.spent(cpu, Doing::Unknown, guess.floor, seen, observer);
        if let Some((id, running, since)) = held {
            // It did until the CPU's last event what it did before.
            let lost = guess.floor.clamp(since, seen.max(since));
            self.set(lost, id, TaskState::Unknown, observer);
            self.set(seen, id, running, observer);
        }
    }

    /// Ends the span of a CPU's current task.
    pub(super) fn close<O: Observer>(&mut self, ts: u64, cpu: u32, observer: &mut O) {
        self.give_up(cpu, observer);
        let Some(entry) = self.cpus.get_mut(cpu) else {
            return;
        };
        let (current, since) = (entry.current, entry.since);
        entry.since = ts.max(since);
        if ts < since {
            self.mark(ts, cpu, None, MarkKind::Negative, observer);
        }
        self.spent(cpu, current, since, ts, observer);
    }

    fn spent<O: Observer>(&self, cpu: u32, doing: Doing, from: u64, to: u64, observer: &mut O) {
        if from < to {
            let span = CpuSpan {
                cpu,
                doing,
                from,
                to,
            };
            observer.cpu_span(self, &span);
        }
    }

    /// The task that was switched in last is not running any more, nobody knows since when.
    fn forget_current<O: Observer>(&mut self, ts: u64, cpu: u32, observer: &mut O) {
        let Some(entry) = self.cpus.get_mut(cpu) else {
            return;
        };
        let current = entry.current;
        entry.current = Doing::Unknown;
        if let Doing::Task(id) = current
            && self.tasks[id.0]
                .state
                .run()
                .is_some_and(|run| run.cpu == cpu)
        {
            self.set(ts, id, TaskState::Unknown, observer);
        }
    }

    /// A task that is seen running on `cpu` is not running elsewhere. Whether it was, by the events before.
    pub(super) fn leave_other_cpu<O: Observer>(
        &mut self,
        ts: u64,
        cpu: u32,
        id: TaskId,
        observer: &mut O,
    ) -> bool {
        let Some(other) = self.tasks[id.0].state.run().map(|run| run.cpu) else {
            return false;
        };
        if other == cpu {
            return false;
        }
        self.mark(ts, cpu, Some(id), MarkKind::OnTwoCpus, observer);
        self.leave_cpu(other, id, observer);
        if self.tasks[id.0].state.run().is_some() {
            self.set(ts, id, TaskState::Unknown, observer);
        }
        true
    }

    /// The current task of a CPU cannot be running there any more: what the CPU does since its last event is unknown.
    pub(super) fn leave_cpu<O: Observer>(&mut self, cpu: u32, id: TaskId, observer: &mut O) {
        let seen = self
            .cpus
            .get(cpu)
            .filter(|entry| entry.current == Doing::Task(id))
            .map(|entry| entry.seen);
        if let Some(seen) = seen {
            self.close(seen, cpu, observer);
            self.forget_current(seen, cpu, observer);
        }
    }
}
