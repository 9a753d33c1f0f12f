//! What a caller may watch or decide while the class works.

use crate::class::{Class, Resched};
use crate::flags::{Dequeue, Enqueue, Wake};
use crate::ids::{CpuId, EntityId, GroupId, QueueId, TaskId};
use crate::units::Ns;
use crate::weight::Weight;

/// A point inside an operation at which the state of the class can be read.
///
/// The points are those at which the kernel's own functions return or begin, so that a recording of
/// a kernel can be compared with a replay step by step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// `enqueue_entity` begins.
    Enqueue,
    /// `place_entity` returns.
    Place,
    /// `dequeue_entity` returns; `false` if the entity stays delayed.
    Dequeue(bool),
    /// `update_entity_lag` returns.
    Lag,
    /// `update_deadline` returns; `true` if the request was used up.
    Deadline(bool),
    /// `update_curr` returns (also where the level has no current entity).
    Curr,
    /// The pick at one level returns.
    Pick,
    /// `set_next_entity` returns.
    SetNext,
    /// `put_prev_entity` returns.
    PutPrev,
    /// `reweight_entity` returns.
    Reweight,
    /// `requeue_delayed_entity` returns.
    Requeue,
}

/// A function of the kernel whose steps come next: what a recording shows as their caller, with the call's flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Function {
    /// `enqueue_entity`.
    EnqueueEntity(Enqueue),
    /// `dequeue_entity`.
    DequeueEntity(Dequeue),
    /// `dequeue_entities`, around [`Function::DequeueEntity`].
    DequeueEntities,
    /// `throttle_cfs_rq`, around [`Function::DequeueEntity`].
    Throttle,
    /// `requeue_delayed_entity`.
    RequeueDelayed,
    /// `reweight_entity`.
    ReweightEntity,
    /// `pick_task_fair`.
    PickTask,
    /// `pick_next_task_fair`, which puts and sets where one fair task follows another.
    PickNextTask,
    /// `set_next_task_fair`.
    SetNextTask,
    /// `put_prev_task_fair`.
    PutPrevTask,
    /// `put_prev_entity`, inside one of the last three.
    PutPrevEntity,
    /// `check_preempt_wakeup_fair` begins.
    WakeupPreempt {
        /// CPU of the check.
        cpu: CpuId,
        /// Who woke up.
        wakee: TaskId,
        /// How.
        flags: Wake,
    },
    /// `task_tick_fair` begins on this CPU.
    Tick(CpuId),
    /// `entity_tick`, once a level.
    EntityTick,
    /// `yield_task_fair` begins on this CPU.
    Yield(CpuId),
    /// `task_sched_runtime`: run time is read.
    TaskRuntime,
}

/// Why a reschedule was asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The request of an entity was used up.
    SliceConsumed,
    /// The entity lost its protection and another may run (sections 3.5, 3.6).
    Unprotected,
    /// A wakee won the pick against the current entity.
    WakeupPreempt,
    /// A non-idle wakee over an idle current entity.
    IdlePreempt,
    /// A nice or policy change.
    PrioChange,
    /// The group ran out of quota.
    Bandwidth,
    /// HRTICK expired.
    Hrtick,
    /// A task of a higher class, or any task over the idle task.
    HigherClass,
    /// Asked by the caller for another reason.
    Other,
}

/// Watches, and where the caller knows better, decides. All methods do nothing by default.
pub trait Hooks {
    /// Called at each [`Point`]. `queue` is the level; `se` is the entity concerned, if there is one.
    fn point(&mut self, class: &Class, point: Point, queue: QueueId, se: Option<EntityId>) {
        let _ = (class, point, queue, se);
    }

    /// The next steps are made inside `function`.
    fn inside(&mut self, class: &Class, function: Function) {
        let _ = (class, function);
    }

    /// The weight a group entity gets now; `computed` is what section 10.3 yields.
    ///
    /// A replay answers with the recorded weight.
    fn group_weight(&mut self, class: &Class, se: EntityId, computed: Weight) -> Weight {
        let _ = (class, se);
        computed
    }

    /// Run time was charged to a task (`sched_stat_runtime`).
    fn charged(&mut self, class: &Class, task: TaskId, delta: Ns) {
        let _ = (class, task, delta);
    }

    /// Whether a queue that may be out of quota is to be throttled now; `computed` is what the pool says.
    ///
    /// A replay answers with what was recorded.
    fn throttle(&mut self, class: &Class, queue: QueueId, computed: bool) -> bool {
        let _ = (class, queue);
        computed
    }

    /// Whether a queue without a pool of its own has used up its quota; asked at each charge.
    ///
    /// Only a replay, which does not know the pool but sees what came of it, answers `true`.
    fn out_of_quota(&mut self, class: &Class, queue: QueueId) -> bool {
        let _ = (class, queue);
        false
    }

    /// A group's quota is used again: its period timer must fire every `period` from now on.
    fn start_period_timer(&mut self, group: GroupId, period: Ns) {
        let _ = (group, period);
    }

    /// A reschedule request was newly set on the current task of `cpu` at level `queue`.
    fn resched(&mut self, cpu: CpuId, kind: Resched, reason: Reason, queue: Option<QueueId>) {
        let _ = (cpu, kind, reason, queue);
    }
}

impl Hooks for () {}
