//! Calls, wakeups and moves between queues.

use super::machine::{History, WakeupPolicy};
use super::state::{Call, TaskId, TaskState, Wait, WaitCause, Waker};
use super::step::{Named, Step};
use super::{MarkKind, Observer};

fn waker(step: &Step) -> Waker {
    Waker {
        pid: step.pid,
        cpu: step.cpu,
        interrupt: step.interrupt,
    }
}

fn woken(step: &Step, cpu: u32, waking: Option<u64>, wakeup: Option<u64>) -> Wait {
    Wait {
        cause: WaitCause::Wakeup,
        cpu,
        waking,
        wakeup,
        waker: Some(waker(step)),
        moves: 0,
        doubtful: false,
    }
}

impl History {
    /// Whether a repeated wake event begins the wait anew.
    fn begins_anew(&self, wait: &Wait) -> bool {
        self.policy == WakeupPolicy::Last && wait.cause == WaitCause::Wakeup
    }

    pub(super) fn waking<O: Observer>(
        &mut self,
        ts: u64,
        step: &Step,
        named: Named,
        target: u32,
        observer: &mut O,
    ) -> Option<TaskId> {
        let id = self.named(ts, named, observer)?;
        let call = TaskState::Waking(woken(step, target, Some(ts), None));
        match &mut self.tasks[id.0].state {
            TaskState::Running(run) => {
                run.waking = Some(Call {
                    at: ts,
                    waker: waker(step),
                });
                self.mark(
                    ts,
                    step.cpu,
                    Some(id),
                    MarkKind::WakingWhileRunning,
                    observer,
                );
            }
            TaskState::Waking(wait) | TaskState::Runnable(wait) => {
                let wait = *wait;
                self.mark(ts, step.cpu, Some(id), MarkKind::WakeWhileWaiting, observer);
                if self.begins_anew(&wait) {
                    self.set(ts, id, call, observer);
                }
            }
            TaskState::Dead => {
                self.mark(ts, step.cpu, Some(id), MarkKind::WakeOfDead, observer);
            }
            TaskState::Sleeping(_) | TaskState::Unknown | TaskState::New => {
                self.set(ts, id, call, observer);
            }
        }
        Some(id)
    }

    pub(super) fn wakeup<O: Observer>(
        &mut self,
        ts: u64,
        step: &Step,
        named: Named,
        target: u32,
        observer: &mut O,
    ) -> Option<TaskId> {
        let id = self.named(ts, named, observer)?;
        match &mut self.tasks[id.0].state {
            TaskState::Running(run) => {
                // The call is answered: a sleep from here on is a new one.
                run.waking = None;
                self.mark(
                    ts,
                    step.cpu,
                    Some(id),
                    MarkKind::WakeupWhileRunning,
                    observer,
                );
            }
            TaskState::Waking(wait) => {
                let queued = Wait {
                    cpu: target,
                    wakeup: Some(ts),
                    ..*wait
                };
                self.set(ts, id, TaskState::Runnable(queued), observer);
            }
            TaskState::Runnable(wait) => {
                let wait = *wait;
                self.mark(ts, step.cpu, Some(id), MarkKind::WakeWhileWaiting, observer);
                if self.begins_anew(&wait) {
                    let again = Wait {
                        cpu: target,
                        wakeup: Some(ts),
                        ..wait
                    };
                    self.set(ts, id, TaskState::Runnable(again), observer);
                }
            }
            TaskState::Dead => {
                self.mark(ts, step.cpu, Some(id), MarkKind::WakeOfDead, observer);
            }
            TaskState::Sleeping(_) | TaskState::Unknown | TaskState::New => {
                let wait = woken(step, target, None, Some(ts));
                self.set(ts, id, TaskState::Runnable(wait), observer);
            }
        }
        Some(id)
    }

    pub(super) fn wakeup_new<O: Observer>(
        &mut self,
        ts: u64,
        step: &Step,
        named: Named,
        target: u32,
        observer: &mut O,
    ) -> Option<TaskId> {
        let mut id = self.named(ts, named, observer)?;
        let task = &self.tasks[id.0];
        let fresh = match task.state {
            TaskState::New => true,
            TaskState::Unknown => task.last_cpu.is_none(),
            _ => false,
        };
        if !fresh {
            // The pid had another owner, whose end was not traced.
            id = self.new_task(ts, named, TaskState::New, observer);
        }
        let wait = Wait {
            cause: WaitCause::Fork,
            ..woken(step, target, Some(ts), Some(ts))
        };
        self.set(ts, id, TaskState::Runnable(wait), observer);
        Some(id)
    }

    /// A waiting task goes to another queue; the wait goes on.
    pub(super) fn move_queue<O: Observer>(
        &mut self,
        ts: u64,
        id: TaskId,
        to: u32,
        observer: &mut O,
    ) {
        let mut state = self.tasks[id.0].state;
        let Some(wait) = state.wait_mut() else {
            return;
        };
        if wait.cpu != to {
            wait.cpu = to;
            wait.moves += 1;
            self.set(ts, id, state, observer);
        }
    }
}
