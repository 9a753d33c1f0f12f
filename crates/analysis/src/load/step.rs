//! Events as the walk sees them: small, without texts.

use schedlab_trace::{Comm, Event, EventKind, Pid, PrevState, TaskRef};

/// What the walk needs of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) cpu: u32,
    /// The task that was current.
    pub(super) pid: Pid,
    pub(super) comm: Comm,
    /// In a hard or soft interrupt.
    pub(super) irq: bool,
    pub(super) kind: StepKind,
}

/// A task as an event names it; `prio` where it does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) pid: Pid,
    pub(super) comm: Comm,
    pub(super) prio: Option<i32>,
}

impl From<TaskRef> for Named {
    fn from(task: TaskRef) -> Self {
        Self {
            pid: task.pid,
            comm: task.comm,
            prio: Some(task.prio),
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
    Migrate(Named, u32),
    Runtime(Named, u64),
    Fork(Named),
    Exec {
        pid: Pid,
        old_pid: Pid,
    },
    Exit(Named),
    /// `sched_yield` was called.
    Yield,
    /// The timer tick.
    Tick,
    Nothing,
}

impl Step {
    pub(super) fn new(event: &Event) -> Self {
        let unnamed = |pid, comm| Named {
            pid,
            comm,
            prio: None,
        };
        let kind = match &event.kind {
            EventKind::SchedSwitch {
                prev,
                prev_state,
                next,
            } => StepKind::Switch {
                prev: (*prev).into(),
                state: *prev_state,
                next: (*next).into(),
            },
            EventKind::SchedWaking { task, .. } => StepKind::Waking((*task).into()),
            EventKind::SchedWakeup { task, .. } => StepKind::Wakeup((*task).into()),
            EventKind::SchedWakeupNew { task, .. } => StepKind::WakeupNew((*task).into()),
            EventKind::SchedMigrateTask {
                task, dest_cpu: to, ..
            } => StepKind::Migrate((*task).into(), *to),
            EventKind::SchedStatRuntime { comm, pid, runtime } => {
                StepKind::Runtime(unnamed(*pid, *comm), *runtime)
            }
            EventKind::SchedProcessFork {
                child_comm,
                child_pid,
                ..
            } => StepKind::Fork(unnamed(*child_pid, *child_comm)),
            EventKind::SchedProcessExec { pid, old_pid, .. } => StepKind::Exec {
                pid: *pid,
                old_pid: *old_pid,
            },
            EventKind::SchedProcessExit { task } => StepKind::Exit((*task).into()),
            // The system call, or the probe of the state recordings (docs/formats/state-recording.md).
            EventKind::Other { name, .. } if name == "sys_enter_sched_yield" || name == "yield" => {
                StepKind::Yield
            }
            EventKind::Other { name, .. } if name == "tick" => StepKind::Tick,
            _ => StepKind::Nothing,
        };
        Self {
            cpu: event.cpu,
            pid: event.pid,
            comm: event.comm,
            irq: event.flags.hardirq || event.flags.softirq,
            kind,
        }
    }
}
