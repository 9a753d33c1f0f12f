//! What core scheduling asks of the fair class (reference section 16): which of two tasks on sibling CPUs goes first.
//!
//! The decision itself, which takes all classes and all siblings of a core, is the caller's.

use alloc::vec::Vec;

use crate::class::Class;
use crate::ids::{EntityId, QueueId, TaskId};
use crate::units::Vns;

/// Anchors of queues as they were when their core's forced idle began (`zero_vruntime_fi`; before 6.19
/// `min_vruntime_fi`), kept while it lasts.
///
/// Each forced idle of a core has a number, above zero, by which an anchor is known to be of this one.
#[derive(Clone, Debug, Default)]
pub struct ForcedIdleAnchors {
    /// Number of the forced idle, and the anchor, by queue.
    queues: Vec<(u64, Vns)>,
}

impl ForcedIdleAnchors {
    /// Takes the anchors of all queues above a task; during a forced idle (number `seq`) only those that it has not
    /// seen yet.
    pub fn update(&mut self, class: &Class, t: TaskId, seq: u64, forced_idle: bool) {
        self.update_from(class, t.entity(), seq, forced_idle);
    }

    fn update_from(&mut self, class: &Class, se: EntityId, seq: u64, forced_idle: bool) {
        let mut level = Some(se);
        while let Some(se) = level {
            let e = class.entity(se);
            let slot = self.slot(e.queue);
            if forced_idle {
                if slot.0 == seq {
                    break;
                }
                slot.0 = seq;
            }
            slot.1 = class.queue(e.queue).anchor;
            level = e.parent;
        }
    }

    fn slot(&mut self, q: QueueId) -> &mut (u64, Vns) {
        let i = q.index();
        if self.queues.len() <= i {
            self.queues.resize(i + 1, (0, Vns(0)));
        }
        &mut self.queues[i]
    }

    /// Whether fair task `a` is less urgent than `b` (`cfs_prio_less`): its vruntime, taken from the anchor of its
    /// queue, is the larger one, at the level where both have an ancestor in the same group.
    pub fn less_urgent(
        &mut self,
        class: &Class,
        a: TaskId,
        b: TaskId,
        seq: u64,
        forced_idle: bool,
    ) -> bool {
        let (mut a, mut b) = (a.entity(), b.entity());
        loop {
            let (ea, eb) = (class.entity(a), class.entity(b));
            if class.queue(ea.queue).group == class.queue(eb.queue).group {
                break;
            }
            // The deeper one goes up; both, if they are equally deep.
            let (pa, pb) = match ea.depth.cmp(&eb.depth) {
                ::core::cmp::Ordering::Greater => (ea.parent, Some(b)),
                ::core::cmp::Ordering::Less => (Some(a), eb.parent),
                ::core::cmp::Ordering::Equal => (ea.parent, eb.parent),
            };
            let (Some(pa), Some(pb)) = (pa, pb) else {
                debug_assert!(false, "all chains end in the root group");
                break;
            };
            (a, b) = (pa, pb);
        }
        self.update_from(class, a, seq, forced_idle);
        self.update_from(class, b, seq, forced_idle);
        let (ea, eb) = (class.entity(a), class.entity(b));
        let v = ea.vruntime.minus(eb.vruntime);
        let anchor = self.slot(eb.queue).1.minus(self.slot(ea.queue).1);
        v.wrapping_add(anchor) > 0
    }
}

impl Class {
    /// Whether a task waits for quota, its own group's or that of one above.
    #[must_use]
    pub fn is_throttled(&self, t: TaskId) -> bool {
        self.throttled_hierarchy(self.ents[t.index()].queue)
    }

    /// Whether the fair task that is current on a CPU has used its share of the slice while it keeps a sibling in
    /// forced idle: it is the only entity of the root queue, and twice its run time since it was picked exceeds its
    /// slice (reference section 16, step 5).
    #[must_use]
    pub fn forced_idle_slice_used(&self, cpu: crate::CpuId) -> bool {
        let Some(t) = self.curr(cpu) else {
            return false;
        };
        let root = self.rqs[cpu.index()].cfs;
        let e = &self.ents[t.index()];
        let ran = e.sum_exec_runtime.saturating_sub(e.prev_sum_exec_runtime);
        self.queues[root.index()].nr_queued == 1 && ran.saturating_mul(2) > e.slice
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuId, Enqueue, GroupAttr, GroupId, Ns, Profile, TaskAttr, Weight};

    fn class() -> Class {
        Class::new(Profile::default(), 2, 1000)
    }

    fn task(c: &mut Class, cpu: u32, group: GroupId) -> TaskId {
        let t = c.add_task(TaskAttr {
            group,
            ..TaskAttr::default()
        });
        c.enqueue_task(CpuId(cpu), t, Enqueue::INITIAL, Ns(0), &mut ());
        t
    }

    /// Lets the queue's task run for a while.
    fn run(c: &mut Class, cpu: u32, from: u64, to: u64) {
        let t = c.pick_next_task(CpuId(cpu), None, Ns(from), &mut ());
        c.update_curr_task(CpuId(cpu), Ns(to), &mut ());
        if let Some(t) = t {
            c.put_prev_task(CpuId(cpu), t, Ns(to), &mut ());
        }
    }

    #[test]
    fn relative_to_the_anchor_when_forced_idle_began() {
        let mut c = class();
        let a = task(&mut c, 0, GroupId::ROOT);
        let b = task(&mut c, 1, GroupId::ROOT);
        let mut anchors = ForcedIdleAnchors::default();
        anchors.update(&c, a, 1, true);
        anchors.update(&c, b, 1, true);
        // Both start at the same distance from their anchors: neither is less urgent.
        assert!(!anchors.less_urgent(&c, a, b, 1, true));
        assert!(!anchors.less_urgent(&c, b, a, 1, true));
        run(&mut c, 0, 0, 5_000_000);
        assert!(anchors.less_urgent(&c, a, b, 1, true));
        assert!(!anchors.less_urgent(&c, b, a, 1, true));
        // Without forced idle the anchors are today's, and a single task is never far from its own.
        assert!(!anchors.less_urgent(&c, a, b, 1, false));
    }

    #[test]
    fn compared_where_the_groups_meet() {
        let mut c = class();
        let attr = GroupAttr {
            shares: Weight::NICE_0,
            idle: false,
            bandwidth: None,
        };
        let g = c.add_group(GroupId::ROOT, attr);
        let h = c.add_group(g, attr);
        let deep = task(&mut c, 0, h);
        let flat = task(&mut c, 1, GroupId::ROOT);
        let mut anchors = ForcedIdleAnchors::default();
        anchors.update(&c, deep, 7, true);
        anchors.update(&c, flat, 7, true);
        run(&mut c, 0, 0, 5_000_000);
        assert!(anchors.less_urgent(&c, deep, flat, 7, true));
        assert!(!anchors.less_urgent(&c, flat, deep, 7, true));
    }

    #[test]
    fn half_a_slice_is_the_limit() {
        let mut c = class();
        let t = task(&mut c, 0, GroupId::ROOT);
        let slice = c.entity(t.entity()).slice;
        c.pick_next_task(CpuId(0), None, Ns(0), &mut ());
        c.update_curr_task(CpuId(0), Ns(slice / 2), &mut ());
        assert!(!c.forced_idle_slice_used(CpuId(0)));
        c.update_curr_task(CpuId(0), Ns(slice / 2 + 1), &mut ());
        assert!(c.forced_idle_slice_used(CpuId(0)));
        task(&mut c, 0, GroupId::ROOT);
        assert!(!c.forced_idle_slice_used(CpuId(0)));
    }
}
