//! Scheduling entities: a task, or a group on one CPU (reference section 0.5).

use crate::class::TaskPolicy;
use crate::ids::{EntityId, GroupId, QueueId, TaskId};
use crate::pelt::Pelt;
use crate::timeline::Waiting;
use crate::units::Vns;
use crate::weight::Load;

/// A scheduling entity, readable by callers through [`Class::entity`](crate::Class::entity).
#[derive(Clone, Debug)]
pub struct Entity {
    /// Weight and its inverse.
    pub load: Load,
    /// Virtual run time.
    pub vruntime: Vns,
    /// Virtual deadline of the present request; relative to vruntime while `rel_deadline` is set.
    pub deadline: Vns,
    /// Off the queue: the saved lag, vns. On the queue and running: the protection marker of 6.6 to 6.16.
    pub vlag: i64,
    /// End of the protection in 6.17 and later.
    pub vprot: Vns,
    /// Request size, ns.
    pub slice: u64,
    /// `clock_task` up to which run time has been charged; 0 after a migration.
    pub exec_start: u64,
    /// Run time in all, ns.
    pub sum_exec_runtime: u64,
    /// `sum_exec_runtime` when it was last set running.
    pub prev_sum_exec_runtime: u64,
    /// Queued, or running with the intent to go on. Delayed entities are.
    pub on_rq: bool,
    /// Asleep, but queued until it becomes eligible and is picked (section 6).
    pub sched_delayed: bool,
    /// `deadline` is relative.
    pub rel_deadline: bool,
    /// `slice` was set by hand or passed up from a group's queue.
    pub custom_slice: bool,
    /// Queue that it is on, or was on last.
    pub queue: QueueId,
    /// Group entity that owns that queue.
    pub parent: Option<EntityId>,
    /// Depth below the root queue.
    pub depth: u16,
    /// The queue of a group entity's own group; `None` for tasks.
    pub my_q: Option<QueueId>,
    /// Group of a task, or the group that a group entity stands for.
    pub group: GroupId,
    /// Policy of a task.
    pub policy: TaskPolicy,
    /// Nice level of a task.
    pub nice: i8,
    /// A group entity whose group is `cpu.idle`.
    pub idle_group: bool,
    /// Load averages.
    pub avg: Pelt,
    /// Utilization estimate of a task (section 11.3).
    pub util_est: u32,
    /// Its place in the queue's order, if it is there.
    pub(crate) key: Option<Vns>,
    /// The slot is in use.
    pub(crate) alive: bool,
    /// 6.1: forked, so that it was placed on its parent's queue already.
    pub(crate) forked: bool,
    /// 6.1: `vruntime` counts from the minimum of its queue.
    pub(crate) relative: bool,
    /// 6.18: waits for quota, off the queue.
    pub(crate) in_limbo: bool,
    /// The one that waited before it.
    pub(crate) limbo_next: Option<TaskId>,
    /// Runnable tasks below a group entity, as of the last walk that told it (the kernel's `runnable_weight`).
    pub(crate) runnable_weight: u64,
}

impl Entity {
    /// A nice-0 task entity with nothing behind it.
    pub(crate) fn new(slice: u64) -> Self {
        Self {
            load: Load::of_nice(0),
            vruntime: Vns(0),
            deadline: Vns(0),
            vlag: 0,
            vprot: Vns(0),
            slice,
            exec_start: 0,
            sum_exec_runtime: 0,
            prev_sum_exec_runtime: 0,
            on_rq: false,
            sched_delayed: false,
            rel_deadline: false,
            custom_slice: false,
            queue: QueueId(0),
            parent: None,
            depth: 0,
            my_q: None,
            group: GroupId::ROOT,
            policy: TaskPolicy::Normal,
            nice: 0,
            idle_group: false,
            avg: Pelt::default(),
            util_est: 0,
            key: None,
            alive: true,
            forked: false,
            relative: false,
            in_limbo: false,
            limbo_next: None,
            runnable_weight: 0,
        }
    }

    /// What its queue's tree keeps of it; `at` is its place there.
    #[inline]
    pub(crate) fn waiting(&self, id: EntityId, at: Vns) -> Waiting {
        Waiting {
            id,
            deadline: at,
            vruntime: self.vruntime,
            slice: self.slice,
            weight: self.load.weight.down(),
        }
    }

    /// Whether it stands for a task.
    #[must_use]
    #[inline]
    pub fn is_task(&self) -> bool {
        self.my_q.is_none()
    }

    /// Whether it counts as idle in the wakeup check: a `SCHED_IDLE` task or an idle group.
    #[must_use]
    #[inline]
    pub fn is_idle(&self) -> bool {
        if self.is_task() {
            self.policy == TaskPolicy::Idle
        } else {
            self.idle_group
        }
    }

    /// Whether it is in its queue's tree (neither running nor off the queue).
    #[must_use]
    #[inline]
    pub fn in_tree(&self) -> bool {
        self.key.is_some()
    }
}
