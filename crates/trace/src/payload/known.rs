//! The events known by meaning: fields looked up once, read without text.

use schedlab_tracefmt::{Endian, EventFormat, Field, FieldKind};

use super::Context;
use super::state::StateTable;
use crate::{Comm, EventKind, Pid, TaskRef};

/// A known event with the places of its fields.
pub(super) enum Known {
    Switch(Box<SwitchFields>),
    Waking(WakeFields),
    Wakeup(WakeFields),
    WakeupNew(WakeFields),
    Migrate {
        task: TaskFields,
        orig_cpu: Field,
        dest_cpu: Field,
    },
    StatRuntime {
        comm: Field,
        pid: Field,
        runtime: Field,
    },
    Fork {
        parent_comm: Field,
        parent_pid: Field,
        child_comm: Field,
        child_pid: Field,
    },
    Exec {
        filename: Field,
        pid: Field,
        old_pid: Field,
    },
    Exit(TaskFields),
}

pub(super) struct SwitchFields {
    prev: TaskFields,
    prev_state: Field,
    states: StateTable,
    next: TaskFields,
}

pub(super) struct WakeFields {
    task: TaskFields,
    target_cpu: Field,
}

pub(super) struct TaskFields {
    comm: Field,
    pid: Field,
    prio: Field,
}

impl Known {
    /// `None` if fields are missing.
    pub(super) fn new(name: &str, format: &EventFormat) -> Option<Self> {
        let field = |name: &str| format.field(name).cloned();
        let task = |comm: &str, pid: &str, prio: &str| {
            Some(TaskFields {
                comm: field(comm)?,
                pid: field(pid)?,
                prio: field(prio)?,
            })
        };
        let own = || task("comm", "pid", "prio");
        let wake = || {
            Some(WakeFields {
                task: own()?,
                // Before 2.6.38 the field was called `cpu`.
                target_cpu: field("target_cpu").or_else(|| field("cpu"))?,
            })
        };
        Some(match name {
            "sched_switch" => {
                let prev_state = field("prev_state")?;
                Self::Switch(Box::new(SwitchFields {
                    prev: task("prev_comm", "prev_pid", "prev_prio")?,
                    states: StateTable::new(format, &prev_state),
                    prev_state,
                    next: task("next_comm", "next_pid", "next_prio")?,
                }))
            }
            "sched_waking" => Self::Waking(wake()?),
            "sched_wakeup" => Self::Wakeup(wake()?),
            "sched_wakeup_new" => Self::WakeupNew(wake()?),
            "sched_migrate_task" => Self::Migrate {
                task: own()?,
                orig_cpu: field("orig_cpu")?,
                dest_cpu: field("dest_cpu")?,
            },
            "sched_stat_runtime" => Self::StatRuntime {
                comm: field("comm")?,
                pid: field("pid")?,
                runtime: field("runtime")?,
            },
            "sched_process_fork" => Self::Fork {
                parent_comm: field("parent_comm")?,
                parent_pid: field("parent_pid")?,
                child_comm: field("child_comm")?,
                child_pid: field("child_pid")?,
            },
            "sched_process_exec" => Self::Exec {
                filename: field("filename")?,
                pid: field("pid")?,
                old_pid: field("old_pid")?,
            },
            "sched_process_exit" => Self::Exit(own()?),
            _ => return None,
        })
    }

    /// `None` if a field does not lie within the payload or has a value out of range.
    pub(super) fn decode(
        &self,
        payload: &[u8],
        endian: Endian,
        context: &mut Context,
    ) -> Option<EventKind> {
        let mut at = At {
            payload,
            endian,
            cut: 0,
        };
        let kind = match self {
            Self::Switch(fields) => {
                let value = fields.prev_state.read_int(payload, endian)?;
                EventKind::SchedSwitch {
                    prev: at.task(&fields.prev)?,
                    prev_state: fields.states.state(value, endian, &mut context.states),
                    next: at.task(&fields.next)?,
                }
            }
            Self::Waking(fields) => {
                let (task, target_cpu) = at.wake(fields)?;
                EventKind::SchedWaking { task, target_cpu }
            }
            Self::Wakeup(fields) => {
                let (task, target_cpu) = at.wake(fields)?;
                EventKind::SchedWakeup { task, target_cpu }
            }
            Self::WakeupNew(fields) => {
                let (task, target_cpu) = at.wake(fields)?;
                EventKind::SchedWakeupNew { task, target_cpu }
            }
            Self::Migrate {
                task,
                orig_cpu,
                dest_cpu,
            } => EventKind::SchedMigrateTask {
                task: at.task(task)?,
                orig_cpu: at.cpu(orig_cpu)?,
                dest_cpu: at.cpu(dest_cpu)?,
            },
            Self::StatRuntime { comm, pid, runtime } => EventKind::SchedStatRuntime {
                comm: at.comm(comm)?,
                pid: at.int(pid)?,
                runtime: runtime.read_unsigned(payload, endian)?,
            },
            Self::Fork {
                parent_comm,
                parent_pid,
                child_comm,
                child_pid,
            } => EventKind::SchedProcessFork {
                parent_comm: at.comm(parent_comm)?,
                parent_pid: at.int(parent_pid)?,
                child_comm: at.comm(child_comm)?,
                child_pid: at.int(child_pid)?,
            },
            Self::Exec {
                filename,
                pid,
                old_pid,
            } => EventKind::SchedProcessExec {
                filename: String::from_utf8_lossy(filename.read_str(payload, endian)?).into_owned(),
                pid: at.int(pid)?,
                old_pid: at.int(old_pid)?,
            },
            Self::Exit(task) => EventKind::SchedProcessExit {
                task: at.task(task)?,
            },
        };
        context.names_cut += at.cut;
        Some(kind)
    }
}

/// One payload being read.
struct At<'a> {
    payload: &'a [u8],
    endian: Endian,
    cut: u64,
}

impl At<'_> {
    #[inline]
    fn int(&self, field: &Field) -> Option<Pid> {
        i32::try_from(field.read_int(self.payload, self.endian)?).ok()
    }

    #[inline]
    fn cpu(&self, field: &Field) -> Option<u32> {
        u32::try_from(field.read_int(self.payload, self.endian)?).ok()
    }

    #[inline]
    fn comm(&mut self, field: &Field) -> Option<Comm> {
        if !matches!(field.kind(), FieldKind::Array { .. }) || field.size() != 16 {
            let name = field.read_str(self.payload, self.endian)?;
            self.cut += u64::from(name.len() > 15);
            return Some(Comm::from_bytes(name));
        }
        // The only shape that kernels have had so far (TASK_COMM_LEN).
        let bytes = field.read_bytes(self.payload, self.endian)?;
        let name = Comm::from_bytes(bytes);
        self.cut += u64::from(bytes.last() != Some(&0) && name.as_bytes().len() == 15);
        Some(name)
    }

    #[inline]
    fn task(&mut self, fields: &TaskFields) -> Option<TaskRef> {
        Some(TaskRef {
            comm: self.comm(&fields.comm)?,
            pid: self.int(&fields.pid)?,
            prio: self.int(&fields.prio)?,
        })
    }

    #[inline]
    fn wake(&mut self, fields: &WakeFields) -> Option<(TaskRef, u32)> {
        Some((self.task(&fields.task)?, self.cpu(&fields.target_cpu)?))
    }
}
