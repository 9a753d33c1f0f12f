//! Events as the accumulation sees them.

use schedlab_trace::{Comm, Event, EventKind, Pid, PrevState, TaskRef};

/// What the accumulation needs of an event; small and without texts, so that the window is cheap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) cpu: u32,
    /// The task that was current.
    pub(super) pid: Pid,
    pub(super) comm: Comm,
    pub(super) kind: StepKind,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) pid: Pid,
    pub(super) comm: Comm,
}

impl From<TaskRef> for Named {
    fn from(task: TaskRef) -> Self {
        Self {
            pid: task.pid,
            comm: task.comm,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum StepKind {
    Switch {
        prev: Named,
        state: PrevState,
        next: Named,
    },
    Waking(Named),
    Wakeup(Named),
    WakeupNew(Named),
    Migrate(Named),
    Runtime(Named, u64),
    Fork(Named),
    Exec {
        pid: Pid,
        old_pid: Pid,
    },
    Nothing,
}

impl Step {
    pub(super) fn new(event: &Event) -> Self {
        let kind = match event.kind {
            EventKind::SchedSwitch {
                prev,
                prev_state,
                next,
            } => StepKind::Switch {
                prev: prev.into(),
                state: prev_state,
                next: next.into(),
            },
            EventKind::SchedWaking { task, .. } => StepKind::Waking(task.into()),
            EventKind::SchedWakeup { task, .. } => StepKind::Wakeup(task.into()),
            EventKind::SchedWakeupNew { task, .. } => StepKind::WakeupNew(task.into()),
            EventKind::SchedMigrateTask { task, .. } => StepKind::Migrate(task.into()),
            EventKind::SchedStatRuntime { comm, pid, runtime } => {
                StepKind::Runtime(Named { pid, comm }, runtime)
            }
            EventKind::SchedProcessFork {
                child_comm,
                child_pid,
                ..
            } => StepKind::Fork(Named {
                pid: child_pid,
                comm: child_comm,
            }),
            EventKind::SchedProcessExec { pid, old_pid, .. } => StepKind::Exec { pid, old_pid },
            _ => StepKind::Nothing,
        };
        Self {
            cpu: event.cpu,
            pid: event.pid,
            comm: event.comm,
            kind,
        }
    }
}
