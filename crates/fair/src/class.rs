//! The fair class of a whole machine: every queue of every CPU, and the operations on them.

use alloc::vec::Vec;

use crate::bandwidth::Bandwidth;
use crate::entity::Entity;
use crate::group::clamp_shares;
use crate::hooks::{Hooks, Reason};
use crate::ids::{CpuId, EntityId, GroupId, QueueId, TaskId};
use crate::profile::{Policy, Profile};
use crate::queue::{Overflow, Queue};
use crate::units::Ns;
use crate::weight::{Load, Weight};

/// Policy of a task inside the fair class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TaskPolicy {
    /// `SCHED_OTHER`.
    #[default]
    Normal,
    /// `SCHED_BATCH`: never preempts by waking up.
    Batch,
    /// `SCHED_IDLE`: weight 3 whatever the nice value; gives way to any non-idle wakee.
    Idle,
}

/// What a task is created with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskAttr {
    /// −20 to 19; values outside are clamped.
    pub nice: i8,
    /// Policy.
    pub policy: TaskPolicy,
    /// Custom slice (`sched_runtime` of `sched_setattr`), clamped to 0.1 to 100 ms; `None` for the default.
    pub slice: Option<Ns>,
    /// Group that the task is in.
    pub group: GroupId,
}

/// What a group is created with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupAttr {
    /// Configured shares.
    pub shares: Weight,
    /// `cpu.idle`.
    pub idle: bool,
    /// `cpu.max`, if limited.
    pub bandwidth: Option<BandwidthAttr>,
}

/// `cpu.max` and `cpu.max.burst` of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BandwidthAttr {
    /// Runtime per period, at least 1 ms.
    pub quota: Ns,
    /// Period, 1 ms to 1 s.
    pub period: Ns,
    /// Unused runtime that may be kept, at most the quota.
    pub burst: Ns,
}

/// A request to reschedule, as the flags on the current task (section 14.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Resched {
    /// No flag.
    #[default]
    None,
    /// `NEED_RESCHED_LAZY`. Treated as [`Resched::Full`] by models other than lazy.
    Lazy,
    /// `NEED_RESCHED`.
    Full,
}

/// What the class knows of a CPU.
#[derive(Clone, Debug)]
pub struct Rq {
    /// The root fair queue.
    pub cfs: QueueId,
    /// Runnable tasks of the fair class, delayed ones included, throttled ones not.
    pub nr_fair: u32,
    /// Runnable tasks of other classes, kept by the caller.
    pub nr_other: u32,
    /// Reschedule request on the current task, whatever its class.
    pub resched: Resched,
    /// Latest `clock_task` passed in.
    pub clock_task: u64,
    /// Clock of the load averages (`clock_pelt`); equals `clock_task` on a machine of equal CPUs.
    pub clock_pelt: u64,
}

/// A task group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Parent; `None` for the root.
    pub parent: Option<GroupId>,
    /// Configured shares, full weight.
    pub shares: Weight,
    /// `cpu.idle`.
    pub idle: bool,
    /// Load average over all CPUs (`tg->load_avg`).
    pub load_avg: u64,
    /// Its queues, by CPU.
    pub queues: Vec<QueueId>,
    /// Its entities, by CPU; empty for the root.
    pub entities: Vec<EntityId>,
    /// Quota, if limited.
    pub bandwidth: Option<Bandwidth>,
}

/// The fair scheduling class of a machine.
///
/// Time is always passed in as `now`, the CPU's `clock_task` (nanoseconds, not decreasing per CPU).
/// After a call, [`Class::resched`] tells whether the current task of a CPU should be rescheduled.
#[derive(Clone, Debug)]
pub struct Class {
    pub(crate) profile: Profile,
    /// Length of a tick, ns.
    pub(crate) tick: u64,
    pub(crate) ents: Vec<Entity>,
    pub(crate) free: Vec<EntityId>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) rqs: Vec<Rq>,
    pub(crate) groups: Vec<Group>,
    pub(crate) overflow: Option<Overflow>,
    pub(crate) checks: bool,
    pub(crate) violation: Option<crate::Violation>,
}

impl Class {
    /// A machine with `nr_cpus` CPUs (at least 1 is made) and `hz` ticks a second (at least 1).
    #[must_use]
    pub fn new(profile: Profile, nr_cpus: u32, hz: u32) -> Self {
        let mut class = Self {
            profile,
            tick: (1_000_000_000 + u64::from(hz.max(1)) / 2) / u64::from(hz.max(1)),
            ents: Vec::new(),
            free: Vec::new(),
            queues: Vec::new(),
            rqs: Vec::new(),
            groups: Vec::new(),
            overflow: None,
            checks: cfg!(debug_assertions),
            violation: None,
        };
        let mut root = Group {
            parent: None,
            shares: Weight::NICE_0,
            idle: false,
            load_avg: 0,
            queues: Vec::new(),
            entities: Vec::new(),
            bandwidth: None,
        };
        for cpu in 0..nr_cpus.max(1) {
            let cfs = class.new_queue(Queue::new(CpuId(cpu), GroupId::ROOT, None));
            root.queues.push(cfs);
            class.rqs.push(Rq {
                cfs,
                nr_fair: 0,
                nr_other: 0,
                resched: Resched::None,
                clock_task: 0,
                clock_pelt: 0,
            });
        }
        class.groups.push(root);
        class
    }

    fn new_queue(&mut self, queue: Queue) -> QueueId {
        let mut queue = queue;
        if self.queues.first().is_some_and(|q| q.rb.is_some()) {
            queue.rb = Some(crate::rbtree::RbTree::new());
        }
        self.queues.push(queue);
        QueueId((self.queues.len() - 1) as u32)
    }

    fn new_entity(&mut self, entity: Entity) -> EntityId {
        if let Some(id) = self.free.pop() {
            self.ents[id.index()] = entity;
            return id;
        }
        self.ents.push(entity);
        EntityId((self.ents.len() - 1) as u32)
    }

    /// Makes a group below `parent` (which must exist).
    pub fn add_group(&mut self, parent: GroupId, attr: GroupAttr) -> GroupId {
        let id = GroupId(self.groups.len() as u32);
        let mut group = Group {
            parent: Some(parent),
            shares: if attr.idle {
                Weight::IDLE
            } else {
                clamp_shares(attr.shares)
            },
            idle: attr.idle,
            load_avg: 0,
            queues: Vec::new(),
            entities: Vec::new(),
            bandwidth: None,
        };
        for cpu in 0..self.rqs.len() {
            let above = self.groups[parent.index()].queues[cpu];
            let parent_se = self.queues[above.index()].owner;
            let q = self.new_queue(Queue::new(CpuId(cpu as u32), id, None));
            let se = self.new_entity(Entity {
                // The kernel starts group entities at nice 0 and sets their share at the first enqueue.
                load: Load::of_weight(Weight::NICE_0),
                queue: above,
                parent: parent_se,
                depth: parent_se.map_or(0, |p| self.ents[p.index()].depth + 1),
                my_q: Some(q),
                group: id,
                idle_group: attr.idle,
                ..Entity::new(self.base_slice().0)
            });
            self.queues[q.index()].owner = Some(se);
            self.queues[q.index()].throttle_count = self.queues[above.index()].throttle_count;
            self.freeze_or_thaw(q);
            group.queues.push(q);
            group.entities.push(se);
        }
        self.groups.push(group);
        if let Some(bandwidth) = attr.bandwidth {
            self.init_bandwidth(id, bandwidth);
        }
        id
    }

    /// Makes a task, off every queue, as one that never ran: no lag, no run time.
    ///
    /// Its first enqueue should carry [`Enqueue::INITIAL`](crate::Enqueue::INITIAL) if it is a fork.
    pub fn add_task(&mut self, attr: TaskAttr) -> TaskId {
        let slice = attr.slice.map(clamp_slice);
        let mut e = Entity::new(slice.unwrap_or(self.base_slice()).0);
        e.custom_slice = slice.is_some() && self.profile.custom_slice;
        if !self.profile.custom_slice {
            e.slice = self.base_slice().0;
        }
        e.relative = self.profile.policy == Policy::Cfs;
        e.nice = attr.nice.clamp(-20, 19);
        e.policy = attr.policy;
        e.load = task_load(e.nice, e.policy);
        e.avg.load_avg = e.load.weight.down();
        e.avg.load_sum = crate::pelt::LOAD_AVG_MAX - 1024;
        e.group = attr.group;
        let queue = self.groups[attr.group.index()].queues[0];
        e.queue = queue;
        self.attach_chain(&mut e, queue);
        let id = self.new_entity(e);
        TaskId(id.0)
    }

    /// A child of `parent`: same group, weight, policy and slice, no lag and no run time (section 5.3).
    ///
    /// A kernel of 6.1 charges the running parent first and starts the child from its vruntime: call
    /// [`Class::update_curr_task`] before.
    pub fn fork(&mut self, parent: TaskId) -> TaskId {
        let p = &self.ents[parent.index()];
        let attr = TaskAttr {
            nice: p.nice,
            policy: p.policy,
            slice: p.custom_slice.then_some(Ns(p.slice)),
            group: p.group,
        };
        let (queue, vruntime, deadline) = (p.queue, p.vruntime, p.deadline);
        let child = self.add_task(attr);
        let cpu = self.queues[queue.index()].cpu;
        self.set_task_queue(child.entity(), cpu);
        let e = &mut self.ents[child.index()];
        e.deadline = deadline;
        if self.profile.policy == Policy::Cfs {
            e.vruntime = vruntime;
            e.forked = true;
            self.fork_cfs(queue, child.entity());
        }
        child
    }

    /// Forgets a task that is off the queue; its number may be given out again.
    pub fn remove_task(&mut self, t: TaskId) {
        self.leave_limbo(t);
        let e = &mut self.ents[t.index()];
        debug_assert!(!e.on_rq, "a queued task cannot be removed");
        if e.alive && !e.on_rq {
            e.alive = false;
            self.free.push(t.entity());
        }
    }

    /// Places an entity's parent and depth to match a queue.
    pub(crate) fn attach_chain(&self, e: &mut Entity, q: QueueId) {
        e.queue = q;
        e.parent = self.queues[q.index()].owner;
        e.depth = e.parent.map_or(0, |p| self.ents[p.index()].depth + 1);
    }

    /// Moves a task that is off the queue to the queue of its group on `cpu`.
    pub(crate) fn set_task_queue(&mut self, se: EntityId, cpu: CpuId) {
        let group = self.ents[se.index()].group;
        let q = self.groups[group.index()].queues[cpu.index()];
        let owner = self.queues[q.index()].owner;
        let depth = owner.map_or(0, |p| self.ents[p.index()].depth + 1);
        let e = &mut self.ents[se.index()];
        e.queue = q;
        e.parent = owner;
        e.depth = depth;
    }

    /// The profile in force.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Changes rules, switches or tunables while tasks run, as the kernel's debugfs files do.
    ///
    /// The policy, the anchor form and where bandwidth stops tasks cannot change on the run; those of `profile` are
    /// ignored.
    pub fn set_profile(&mut self, profile: Profile) {
        self.profile = Profile {
            policy: self.profile.policy,
            anchor: self.profile.anchor,
            throttle_rule: self.profile.throttle_rule,
            ..profile
        };
    }

    /// Effective base slice (section 0.3).
    #[must_use]
    #[inline]
    pub fn base_slice(&self) -> Ns {
        let t = &self.profile.tunables;
        t.base_slice
            .unwrap_or(Ns(t.base_slice_normalized.0 * self.scaling_factor()))
    }

    /// `1 + floor(log2(min(cpus, 8)))`.
    #[inline]
    pub(crate) fn scaling_factor(&self) -> u64 {
        let n = (self.rqs.len() as u64).clamp(1, 8);
        1 + u64::from(n.ilog2())
    }

    /// Length of a tick, ns (`TICK_NSEC`).
    #[must_use]
    #[inline]
    pub fn tick_nsec(&self) -> u64 {
        self.tick
    }

    /// An entity's state.
    #[must_use]
    #[inline]
    pub fn entity(&self, se: EntityId) -> &Entity {
        &self.ents[se.index()]
    }

    /// A queue's state.
    #[must_use]
    #[inline]
    pub fn queue(&self, q: QueueId) -> &Queue {
        &self.queues[q.index()]
    }

    /// A CPU's state.
    #[must_use]
    pub fn rq(&self, cpu: CpuId) -> &Rq {
        &self.rqs[cpu.index()]
    }

    /// A group's state.
    #[must_use]
    pub fn group(&self, g: GroupId) -> &Group {
        &self.groups[g.index()]
    }

    /// Number of groups, the root included.
    #[must_use]
    pub fn nr_groups(&self) -> u32 {
        self.groups.len() as u32
    }

    /// Whether a task is on its queue: runnable, running or delayed.
    #[must_use]
    #[inline]
    pub fn is_on_rq(&self, t: TaskId) -> bool {
        self.ents[t.index()].on_rq
    }

    /// Whether a task sleeps but is still queued (section 6).
    #[must_use]
    #[inline]
    pub fn is_delayed(&self, t: TaskId) -> bool {
        self.ents[t.index()].sched_delayed
    }

    /// CPU that a task is queued on, or was last.
    #[must_use]
    #[inline]
    pub fn task_cpu(&self, t: TaskId) -> CpuId {
        self.queues[self.ents[t.index()].queue.index()].cpu
    }

    /// The fair task that is current on a CPU, if its current task is fair.
    #[must_use]
    #[inline]
    pub fn curr(&self, cpu: CpuId) -> Option<TaskId> {
        let mut se = self.queues[self.rqs[cpu.index()].cfs.index()].curr?;
        while let Some(q) = self.ents[se.index()].my_q {
            se = self.queues[q.index()].curr?;
        }
        Some(TaskId(se.0))
    }

    /// `rq->nr_running`: tasks of all classes, delayed fair ones included.
    #[must_use]
    #[inline]
    pub fn nr_running(&self, cpu: CpuId) -> u32 {
        let rq = &self.rqs[cpu.index()];
        rq.nr_fair + rq.nr_other
    }

    /// `rq->clock_task` of a CPU as it was last told.
    #[must_use]
    pub fn clock_task(&self, cpu: CpuId) -> Ns {
        Ns(self.rqs[cpu.index()].clock_task)
    }

    /// Fair tasks of a CPU, delayed ones included.
    #[must_use]
    pub fn nr_fair(&self, cpu: CpuId) -> u32 {
        self.rqs[cpu.index()].nr_fair
    }

    /// Whether the queue that a task is on has a quota of its own (`cfs_rq->runtime_enabled`); those of groups further up
    /// do not count, as in 6.12.
    #[must_use]
    pub fn has_quota(&self, t: TaskId) -> bool {
        self.queues[self.ents[t.entity().index()].queue.index()].runtime_enabled
    }

    /// Fair tasks of a CPU that can run: without delayed ones.
    #[must_use]
    pub fn h_nr_runnable(&self, cpu: CpuId) -> u32 {
        self.queues[self.rqs[cpu.index()].cfs.index()].h_nr_runnable
    }

    /// Tells the number of runnable tasks of other classes.
    pub fn set_nr_other(&mut self, cpu: CpuId, n: u32) {
        self.rqs[cpu.index()].nr_other = n;
    }

    /// The reschedule request on a CPU's current task.
    #[must_use]
    #[inline]
    pub fn resched(&self, cpu: CpuId) -> Resched {
        self.rqs[cpu.index()].resched
    }

    /// Asks for a reschedule; a stronger request that is pending stays.
    pub fn request_resched<H: Hooks>(&mut self, cpu: CpuId, kind: Resched, why: Reason, h: &mut H) {
        self.resched_curr(cpu, kind, why, None, h);
    }

    /// Clears the request, as the scheduler does once it has picked.
    #[inline]
    pub fn clear_resched(&mut self, cpu: CpuId) {
        self.rqs[cpu.index()].resched = Resched::None;
    }

    /// The first overflow that the sums of V met, if any; clears it.
    pub fn take_overflow(&mut self) -> Option<Overflow> {
        self.overflow.take()
    }

    pub(crate) fn resched_curr<H: Hooks>(
        &mut self,
        cpu: CpuId,
        kind: Resched,
        why: Reason,
        queue: Option<QueueId>,
        h: &mut H,
    ) {
        let rq = &mut self.rqs[cpu.index()];
        if rq.resched < kind {
            rq.resched = kind;
            h.resched(cpu, kind, why, queue);
        }
    }

    /// Kind of request that fair-against-fair decisions make (section 14.2).
    #[inline]
    pub(crate) fn fair_resched(&self) -> Resched {
        if self.profile.lazy_resched {
            Resched::Lazy
        } else {
            Resched::Full
        }
    }

    /// Sets a CPU's clock; time that goes back is ignored.
    #[inline]
    pub(crate) fn set_clock(&mut self, cpu: CpuId, now: Ns) {
        let rq = &mut self.rqs[cpu.index()];
        rq.clock_task = rq.clock_task.max(now.0);
        rq.clock_pelt = rq.clock_task;
    }

    #[inline]
    pub(crate) fn clock_of(&self, q: QueueId) -> u64 {
        self.rqs[self.queues[q.index()].cpu.index()].clock_task
    }
}

/// Bounds of a custom slice (section 3.1).
pub(crate) fn clamp_slice(slice: Ns) -> Ns {
    Ns(slice.0.clamp(100_000, 100_000_000))
}

/// Load of a task.
pub(crate) fn task_load(nice: i8, policy: TaskPolicy) -> Load {
    if policy == TaskPolicy::Idle {
        Load::idle_policy()
    } else {
        Load::of_nice(nice)
    }
}
