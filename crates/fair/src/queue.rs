//! A fair queue (`cfs_rq`) with its virtual clock (reference section 2).

use crate::class::Class;
use crate::ids::{CpuId, EntityId, GroupId, QueueId};
use crate::pelt::Pelt;
use crate::profile::{Anchor, Feature, Policy};
use crate::rbtree::RbTree;
use crate::timeline::{Running, Timeline};
use crate::units::Vns;
use crate::weight::Weight;

/// One group on one CPU, readable by callers through [`Class::queue`].
#[derive(Clone, Debug)]
pub struct Queue {
    /// CPU that the queue belongs to.
    pub cpu: CpuId,
    /// Group that the queue belongs to.
    pub group: GroupId,
    /// Group entity that owns it; `None` for a root queue.
    pub owner: Option<EntityId>,
    /// The entity of this level that runs; it is not in the tree.
    pub curr: Option<EntityId>,
    /// Buddy that a pick should prefer.
    pub next: Option<EntityId>,
    /// 6.1: buddies for the preempted and the yielding entity.
    pub last: Option<EntityId>,
    /// 6.1: the entity that yielded.
    pub skip: Option<EntityId>,
    /// Entities of this level, running and delayed ones included (`nr_running`, `nr_queued` from 6.14 on).
    pub nr_queued: u32,
    /// Tasks below, delayed ones included.
    pub h_nr_queued: u32,
    /// Tasks below, without delayed ones.
    pub h_nr_runnable: u32,
    /// `SCHED_IDLE` tasks below, and all tasks of idle groups.
    pub h_nr_idle: u32,
    /// Idle entities of this level.
    pub idle_nr: u32,
    /// Sum of full weights of the entities of this level, the running one included.
    pub load_weight: u64,
    /// Load averages.
    pub avg: Pelt,
    /// What this queue has added to its group's load average.
    pub tg_load_avg_contrib: u64,
    /// `clock_task` of the last such addition.
    pub last_update_tg_load_avg: u64,
    /// Sum of the utilization estimates of the tasks below (root queues).
    pub util_est: u64,
    /// The group has a quota.
    pub runtime_enabled: bool,
    /// Quota left in the local pool, ns.
    pub runtime_remaining: i64,
    /// Out of quota, off the parent's queue.
    pub throttled: bool,
    /// Number of throttled queues from here up to the root.
    pub throttle_count: u32,
    /// 6.18: tasks that wait for quota off the queue.
    pub(crate) limbo: Option<crate::TaskId>,
    /// `clock_task` since when throttled time counts: a task has been kept from running.
    pub throttled_at: Option<u64>,
    /// `clock_pelt` at which the load averages stopped, while they do (throttled, section 10.6).
    pub(crate) pelt_frozen_at: Option<u64>,
    /// Time that they have stood still in all.
    pub(crate) pelt_frozen: u64,
    pub(crate) tree: Timeline,
    /// The kernel's own tree, where its smallest slice is imitated.
    pub(crate) rb: Option<RbTree>,
}

impl Queue {
    pub(crate) fn new(cpu: CpuId, group: GroupId, owner: Option<EntityId>) -> Self {
        Self {
            cpu,
            group,
            owner,
            curr: None,
            next: None,
            last: None,
            skip: None,
            nr_queued: 0,
            h_nr_queued: 0,
            h_nr_runnable: 0,
            h_nr_idle: 0,
            idle_nr: 0,
            load_weight: 0,
            avg: Pelt::default(),
            tg_load_avg_contrib: 0,
            last_update_tg_load_avg: 0,
            util_est: 0,
            runtime_enabled: false,
            runtime_remaining: 0,
            throttled: false,
            throttle_count: 0,
            limbo: None,
            throttled_at: None,
            pelt_frozen_at: None,
            pelt_frozen: 0,
            // The kernel starts queues shortly before the wrap, so that it is met early.
            tree: Timeline::new(Vns(0u64.wrapping_sub(1 << 20))),
            rb: None,
        }
    }

    /// Entities in the tree, in order (the running one is not among them).
    pub fn queued(&self) -> impl Iterator<Item = EntityId> + '_ {
        self.tree.iter()
    }
}

/// A queue's anchor and sums are read as its own: `queue.anchor`, `queue.sum_w_vruntime`, `queue.sum_weight`.
impl core::ops::Deref for Queue {
    type Target = Timeline;

    fn deref(&self) -> &Timeline {
        &self.tree
    }
}

/// The state in which a sum left the range that the kernel keeps it in.
///
/// The class computes on with wide integers; the kernel would have wrapped (case of a reference
/// vruntime that stays behind on a one-task CPU).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overflow {
    /// Queue concerned.
    pub queue: QueueId,
    /// Entity concerned.
    pub entity: EntityId,
    /// Its vruntime.
    pub vruntime: Vns,
    /// Its full weight.
    pub weight: Weight,
    /// The queue's anchor.
    pub anchor: Vns,
}

impl Class {
    /// Notes when the product of an entity's key and weight leaves 64 bits.
    #[inline]
    pub(crate) fn note_overflow(&mut self, q: QueueId, se: EntityId, product: i128) {
        if i64::try_from(product).is_err() {
            self.overflowed(q, se);
        }
    }

    /// Checks the running entity, whose key grows without an insertion.
    #[inline]
    pub(crate) fn check_key(&mut self, q: QueueId, se: EntityId) {
        let e = &self.ents[se.index()];
        let key = e.vruntime.minus(self.queues[q.index()].anchor);
        let product = i128::from(key) * i128::from(e.load.weight.down());
        self.note_overflow(q, se, product);
    }

    #[cold]
    fn overflowed(&mut self, q: QueueId, se: EntityId) {
        let e = &self.ents[se.index()];
        let overflow = Overflow {
            queue: q,
            entity: se,
            vruntime: e.vruntime,
            weight: e.load.weight,
            anchor: self.queues[q.index()].anchor,
        };
        self.overflow.get_or_insert(overflow);
    }

    /// The running entity of a level as V needs it, if it means to go on.
    #[inline]
    pub(crate) fn running(&self, q: QueueId) -> Option<Running> {
        let e = &self.ents[self.queues[q.index()].curr?.index()];
        e.on_rq.then(|| Running {
            vruntime: e.vruntime,
            weight: e.load.weight.down(),
        })
    }

    /// V of a queue, without side effects (section 2.3).
    #[must_use]
    #[inline]
    pub fn v(&self, q: QueueId) -> Vns {
        self.queues[q.index()].tree.v(self.running(q))
    }

    /// V of a queue where the kernel computes it; the `zero_vruntime` form moves the anchor there.
    #[inline]
    pub(crate) fn v_now(&mut self, q: QueueId) -> Vns {
        let v = self.v(q);
        if self.profile.anchor != Anchor::MinVruntime {
            self.move_anchor(q, v);
        }
        v
    }

    /// Moves the anchor and keeps the sums true.
    #[inline]
    pub(crate) fn move_anchor(&mut self, q: QueueId, to: Vns) {
        self.queues[q.index()].tree.move_anchor(to);
    }

    /// The "update min" step of the `min_vruntime` forms: forward only.
    #[inline]
    pub(crate) fn update_min_vruntime(&mut self, q: QueueId) {
        if self.profile.anchor != Anchor::MinVruntime {
            return;
        }
        let queue = &self.queues[q.index()];
        let curr = queue
            .curr
            .map(|c| &self.ents[c.index()])
            .filter(|e| e.on_rq)
            .map(|e| e.vruntime);
        if curr.is_some_and(|v| !queue.anchor.before(v)) {
            return;
        }
        let candidate = match (curr, queue.tree.min_vruntime()) {
            (Some(a), Some(b)) => a.earlier(b),
            (Some(a), None) | (None, Some(a)) => a,
            (None, None) => return,
        };
        if queue.anchor.before(candidate) {
            self.move_anchor(q, candidate);
        }
    }

    /// Whether a vruntime is eligible on a queue: `v <= V`, by cross multiplication (section 2.4).
    #[must_use]
    #[inline]
    pub fn vruntime_eligible(&self, q: QueueId, v: Vns) -> bool {
        self.queues[q.index()].tree.eligible(self.running(q), v)
    }

    /// Whether an entity is eligible on its queue.
    #[must_use]
    #[inline]
    pub fn entity_eligible(&self, se: EntityId) -> bool {
        let e = &self.ents[se.index()];
        self.vruntime_eligible(e.queue, e.vruntime)
    }

    /// Puts an entity into the tree of its queue.
    #[inline]
    pub(crate) fn tree_insert(&mut self, q: QueueId, se: EntityId) {
        let e = &mut self.ents[se.index()];
        debug_assert!(e.key.is_none(), "entity is in a tree already");
        let at = match self.profile.policy {
            Policy::Eevdf => e.deadline,
            Policy::Cfs => e.vruntime,
        };
        e.key = Some(at);
        let queue = &mut self.queues[q.index()];
        let product = queue.tree.insert(&e.waiting(se, at));
        if let Some(rb) = &mut queue.rb {
            rb.insert(se, e.deadline, e.vruntime, e.slice);
        }
        self.note_overflow(q, se, product);
    }

    /// Takes an entity out of the tree of its queue; nothing if it is not there.
    #[inline]
    pub(crate) fn tree_remove(&mut self, q: QueueId, se: EntityId) {
        let e = &mut self.ents[se.index()];
        let Some(at) = e.key.take() else { return };
        let queue = &mut self.queues[q.index()];
        queue.tree.remove(&e.waiting(se, at));
        if let Some(rb) = &mut queue.rb {
            rb.remove(se);
        }
    }

    /// Shortest slice over the tree and the running entity (the kernel's `cfs_rq_min_slice`).
    #[inline]
    pub(crate) fn min_slice(&self, q: QueueId) -> Option<u64> {
        let queue = &self.queues[q.index()];
        let tree = match &queue.rb {
            Some(rb) => rb.min_slice(),
            None => queue.tree.min_slice(),
        };
        match self.running_on(q) {
            Some(c) => Some(self.ents[c.index()].slice.min(tree.unwrap_or(u64::MAX))),
            None => tree,
        }
    }

    /// Longest slice over the tree and the running entity.
    pub(crate) fn max_slice(&self, q: QueueId) -> u64 {
        let queue = &self.queues[q.index()];
        let tree = queue.tree.max_slice().unwrap_or(0);
        match self.running_on(q) {
            Some(c) => self.ents[c.index()].slice.max(tree),
            None => tree,
        }
    }

    /// The running entity of a level, if it means to go on.
    #[inline]
    pub(crate) fn running_on(&self, q: QueueId) -> Option<EntityId> {
        self.queues[q.index()]
            .curr
            .filter(|c| self.ents[c.index()].on_rq)
    }

    /// Changes the slice of an entity, queued or not, without touching its deadline (section 3.1).
    pub(crate) fn set_slice_in_place(&mut self, se: EntityId, slice: u64) {
        let e = &mut self.ents[se.index()];
        e.slice = slice;
        if let Some(key) = e.key {
            let queue = &mut self.queues[e.queue.index()];
            queue.tree.set_slice(se, key, slice);
            if let Some(rb) = &mut queue.rb {
                rb.set_slice(se, slice);
            }
        }
    }

    /// From now on reads the smallest slice of a queue as the kernel does, which after a rotation of its
    /// tree may be too large. For exact replays; costs a second tree a queue. Queues must be empty.
    pub fn imitate_min_slice(&mut self) {
        for queue in &mut self.queues {
            debug_assert!(queue.nr_queued == 0, "the shape of a tree is its history");
            queue.rb = Some(RbTree::new());
        }
    }

    #[inline]
    pub(crate) fn feat(&self, f: Feature) -> bool {
        self.profile.features.has(f)
    }
}
