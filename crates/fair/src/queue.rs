//! A fair queue (`cfs_rq`) with its virtual clock (reference section 2).

use crate::class::Class;
use crate::ids::{CpuId, EntityId, GroupId, QueueId};
use crate::pelt::Pelt;
use crate::profile::{Anchor, Feature, Policy};
use crate::rbtree::RbTree;
use crate::timeline::Timeline;
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
    /// Anchor of the keys: `min_vruntime` or `zero_vruntime`.
    pub anchor: Vns,
    /// 6.1: `min_vruntime`; equal to `anchor` in the `min_vruntime` forms of EEVDF.
    pub sum_w_vruntime: i128,
    /// Sum of down-scaled weights over the tree (`avg_load`, later `sum_weight`).
    pub sum_weight: u64,
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
    pub limbo: alloc::vec::Vec<crate::TaskId>,
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
            // The kernel starts queues shortly before the wrap, so that it is met early.
            anchor: Vns(0u64.wrapping_sub(1 << 20)),
            sum_w_vruntime: 0,
            sum_weight: 0,
            avg: Pelt::default(),
            tg_load_avg_contrib: 0,
            last_update_tg_load_avg: 0,
            util_est: 0,
            runtime_enabled: false,
            runtime_remaining: 0,
            throttled: false,
            throttle_count: 0,
            limbo: alloc::vec::Vec::new(),
            throttled_at: None,
            pelt_frozen_at: None,
            pelt_frozen: 0,
            tree: Timeline::default(),
            rb: None,
        }
    }

    /// Entities in the tree, in order (the running one is not among them).
    pub fn queued(&self) -> impl Iterator<Item = EntityId> + '_ {
        self.tree.iter()
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
    /// Key of an entity times its weight, noting when that leaves 64 bits.
    pub(crate) fn weighted_key(&mut self, q: QueueId, se: EntityId) -> i128 {
        let e = &self.ents[se.index()];
        let anchor = self.queues[q.index()].anchor;
        let product = i128::from(e.vruntime.minus(anchor)) * i128::from(e.load.weight.down());
        if i64::try_from(product).is_err() && self.overflow.is_none() {
            self.overflow = Some(Overflow {
                queue: q,
                entity: se,
                vruntime: e.vruntime,
                weight: e.load.weight,
                anchor,
            });
        }
        product
    }

    /// S' and L': the sums over everything on the queue, the running entity included.
    pub(crate) fn sums(&self, q: QueueId) -> (i128, u64) {
        let queue = &self.queues[q.index()];
        let (mut s, mut l) = (queue.sum_w_vruntime, queue.sum_weight);
        if let Some(c) = queue.curr {
            let e = &self.ents[c.index()];
            if e.on_rq {
                let w = e.load.weight.down();
                s += i128::from(e.vruntime.minus(queue.anchor)) * i128::from(w);
                l += w;
            }
        }
        (s, l)
    }

    /// V of a queue, without side effects (section 2.3).
    #[must_use]
    pub fn v(&self, q: QueueId) -> Vns {
        let queue = &self.queues[q.index()];
        if queue.sum_weight == 0 {
            return match queue.curr {
                Some(c) if self.ents[c.index()].on_rq => self.ents[c.index()].vruntime,
                _ => queue.anchor,
            };
        }
        let (s, l) = self.sums(q);
        // Floored, so that an entity placed at V is eligible.
        queue.anchor.offset(s.div_euclid(i128::from(l)) as i64)
    }

    /// V of a queue where the kernel computes it; the `zero_vruntime` form moves the anchor there.
    pub(crate) fn v_now(&mut self, q: QueueId) -> Vns {
        let v = self.v(q);
        if self.profile.anchor != Anchor::MinVruntime {
            self.move_anchor(q, v);
        }
        v
    }

    /// Moves the anchor and keeps the sums true.
    pub(crate) fn move_anchor(&mut self, q: QueueId, to: Vns) {
        let queue = &mut self.queues[q.index()];
        let d = to.minus(queue.anchor);
        queue.sum_w_vruntime -= i128::from(d) * i128::from(queue.sum_weight);
        queue.anchor = to;
    }

    /// The "update min" step of the `min_vruntime` forms: forward only.
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
    pub fn vruntime_eligible(&self, q: QueueId, v: Vns) -> bool {
        let (s, l) = self.sums(q);
        eligible(s, l, self.queues[q.index()].anchor, v)
    }

    /// Whether an entity is eligible on its queue.
    #[must_use]
    pub fn entity_eligible(&self, se: EntityId) -> bool {
        let e = &self.ents[se.index()];
        self.vruntime_eligible(e.queue, e.vruntime)
    }

    /// Puts an entity into the tree of its queue.
    pub(crate) fn tree_insert(&mut self, q: QueueId, se: EntityId) {
        let product = self.weighted_key(q, se);
        let e = &mut self.ents[se.index()];
        let queue = &mut self.queues[q.index()];
        queue.sum_w_vruntime += product;
        queue.sum_weight += e.load.weight.down();
        let at = match self.profile.policy {
            Policy::Eevdf => e.deadline,
            Policy::Cfs => e.vruntime,
        };
        debug_assert!(e.key.is_none(), "entity is in a tree already");
        e.key = Some(queue.tree.insert(at, e.vruntime, e.slice, se));
        if let Some(rb) = &mut queue.rb {
            rb.insert(se, e.deadline, e.vruntime, e.slice);
        }
    }

    /// Takes an entity out of the tree of its queue; nothing if it is not there.
    pub(crate) fn tree_remove(&mut self, q: QueueId, se: EntityId) {
        let e = &mut self.ents[se.index()];
        let Some(key) = e.key.take() else { return };
        let w = e.load.weight.down();
        let queue = &mut self.queues[q.index()];
        queue.tree.remove(key);
        if let Some(rb) = &mut queue.rb {
            rb.remove(se);
        }
        queue.sum_w_vruntime -= i128::from(e.vruntime.minus(queue.anchor)) * i128::from(w);
        queue.sum_weight -= w;
    }

    /// Shortest slice over the tree and the running entity (the kernel's `cfs_rq_min_slice`).
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
    pub(crate) fn running_on(&self, q: QueueId) -> Option<EntityId> {
        self.queues[q.index()]
            .curr
            .filter(|c| self.ents[c.index()].on_rq)
    }

    /// Changes the slice of a queued group entity without touching its deadline (section 3.1).
    pub(crate) fn set_group_slice(&mut self, se: EntityId, slice: u64) {
        let e = &mut self.ents[se.index()];
        e.slice = slice;
        if let Some(key) = e.key {
            let queue = &mut self.queues[e.queue.index()];
            queue.tree.set_slice(key, slice);
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

    pub(crate) fn feat(&self, f: Feature) -> bool {
        self.profile.features.has(f)
    }
}

/// `S' >= (v - anchor) · L'`, in 128 bits.
pub(crate) fn eligible(s: i128, l: u64, anchor: Vns, v: Vns) -> bool {
    s >= i128::from(v.minus(anchor)) * i128::from(l)
}
