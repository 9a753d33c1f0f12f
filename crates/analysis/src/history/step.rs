//! Events as the histories see them: small and without texts, so that a sorting window of them is cheap.

use schedlab_trace::{Comm, Event, EventKind, Pid, PrevState, TaskRef};

/// What a [`History`](super::History) needs of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// CPU that recorded the event.
    pub cpu: u32,
    /// The task that was current there.
    pub pid: Pid,
    /// Its name, empty where the source does not tell.
    pub comm: Comm,
    /// Recorded in a hard or soft interrupt; false where the source has no flags.
    pub interrupt: bool,
    /// What happened.
    pub kind: StepKind,
}

/// A task named by an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Named {
    /// Thread id; 0 is the idle task of the event's CPU.
    pub pid: Pid,
    /// Its name, empty where the source does not tell.
    pub comm: Comm,
    /// Its priority as the kernel counts, if the event has it: 0..=99 real time, 100..=139 fair.
    pub prio: Option<i32>,
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

/// The events that move a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepKind {
    /// `sched_switch`.
    Switch {
        /// Task that leaves the CPU.
        prev: Named,
        /// Its state.
        state: PrevState,
        /// Task that takes the CPU.
        next: Named,
    },
    /// `sched_waking` and its `target_cpu`.
    Waking(Named, u32),
    /// `sched_wakeup` and its `target_cpu`.
    Wakeup(Named, u32),
    /// `sched_wakeup_new` and its `target_cpu`.
    WakeupNew(Named, u32),
    /// `sched_migrate_task`.
    Migrate {
        /// The task that moves.
        task: Named,
        /// From here.
        orig_cpu: u32,
        /// To there.
        dest_cpu: u32,
    },
    /// `sched_stat_runtime`: ns charged.
    Runtime(Named, u64),
    /// `sched_process_fork`.
    Fork {
        /// Parent.
        parent: Pid,
        /// Child.
        child: Named,
    },
    /// `sched_process_exec`.
    Exec {
        /// Pid after the exec.
        pid: Pid,
        /// Pid before it.
        old_pid: Pid,
    },
    /// The current task called `sched_yield` (`sys_enter_sched_yield`).
    YieldCall,
    /// Any other event. It still tells who is current on its CPU.
    Nothing,
}

impl Step {
    /// Takes what matters from an event.
    #[must_use]
    pub fn new(event: &Event) -> Self {
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
            EventKind::SchedWaking { task, target_cpu } => {
                StepKind::Waking(task.into(), target_cpu)
            }
            EventKind::SchedWakeup { task, target_cpu } => {
                StepKind::Wakeup(task.into(), target_cpu)
            }
            EventKind::SchedWakeupNew { task, target_cpu } => {
                StepKind::WakeupNew(task.into(), target_cpu)
            }
            EventKind::SchedMigrateTask {
                task,
                orig_cpu,
                dest_cpu,
            } => StepKind::Migrate {
                task: task.into(),
                orig_cpu,
                dest_cpu,
            },
            EventKind::SchedStatRuntime { comm, pid, runtime } => StepKind::Runtime(
                Named {
                    pid,
                    comm,
                    prio: None,
                },
                runtime,
            ),
            EventKind::SchedProcessFork {
                parent_pid,
                child_comm,
                child_pid,
                ..
            } => StepKind::Fork {
                parent: parent_pid,
                child: Named {
                    pid: child_pid,
                    comm: child_comm,
                    prio: None,
                },
            },
            EventKind::SchedProcessExec { pid, old_pid, .. } => StepKind::Exec { pid, old_pid },
            EventKind::Other { ref name, .. } if name == "sys_enter_sched_yield" => {
                StepKind::YieldCall
            }
            _ => StepKind::Nothing,
        };
        Self {
            cpu: event.cpu,
            pid: event.pid,
            comm: event.comm,
            interrupt: event.flags.hardirq || event.flags.softirq,
            kind,
        }
    }
}
