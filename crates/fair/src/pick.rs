//! Picking what runs next, and the switch between two entities (reference section 4).

use crate::class::Class;
use crate::flags::Dequeue;
use crate::hooks::{Function, Hooks, Point};
use crate::ids::{CpuId, EntityId, QueueId, TaskId};
use crate::load::Attach;
use crate::profile::{BuddyPick, Feature, Policy, Protection};
use crate::queue::Queue;
use crate::units::Ns;

impl Class {
    /// Picks the fair task that should run on `cpu`, without setting it. Ends delays on the way.
    pub fn pick_task<H: Hooks>(&mut self, cpu: CpuId, now: Ns, h: &mut H) -> Option<TaskId> {
        self.set_clock(cpu, now);
        'again: loop {
            let mut q = self.rqs[cpu.index()].cfs;
            if self.queues[q.index()].nr_queued == 0 {
                return None;
            }
            loop {
                h.inside(self, Function::PickTask);
                if self.running_on(q).is_some() {
                    self.update_curr(q, h);
                }
                if self.check_runtime(q, h) {
                    continue 'again;
                }
                let Some(se) = self.pick_next_entity(cpu, q, h) else {
                    continue 'again;
                };
                match self.ents[se.index()].my_q {
                    Some(below) => q = below,
                    None => return Some(TaskId(se.0)),
                }
            }
        }
    }

    /// Picks the next fair task of `cpu` and makes it current.
    ///
    /// `prev` is the fair task that was current, if it was a fair one; it is put back. With no fair
    /// task to run, `prev` is put too and `None` comes back.
    pub fn pick_next_task<H: Hooks>(
        &mut self,
        cpu: CpuId,
        prev: Option<TaskId>,
        now: Ns,
        h: &mut H,
    ) -> Option<TaskId> {
        let next = self.pick_task(cpu, now, h);
        match (prev, next) {
            (Some(p), Some(n)) => self.switch(p.entity(), n.entity(), h),
            (Some(p), None) => self.put_prev_task(cpu, p, now, h),
            (None, Some(n)) => self.set_next_task(cpu, n, now, h),
            (None, None) => {}
        }
        self.debug_verify(cpu);
        next
    }

    /// Puts and sets only the parts of the two chains that differ (section 4.3).
    pub(crate) fn switch<H: Hooks>(&mut self, prev: EntityId, next: EntityId, h: &mut H) {
        if prev == next {
            return;
        }
        h.inside(self, Function::PickNextTask);
        let (mut se, mut pse) = (next, prev);
        while self.ents[se.index()].queue != self.ents[pse.index()].queue {
            let (d, pd) = (self.ents[se.index()].depth, self.ents[pse.index()].depth);
            if d <= pd {
                self.put_prev_entity(pse, h);
                pse = self.ents[pse.index()].parent.unwrap_or(pse);
            }
            if d >= pd {
                self.set_next_entity(se, true, h);
                se = self.ents[se.index()].parent.unwrap_or(se);
            }
        }
        self.put_prev_entity(pse, h);
        self.set_next_entity(se, true, h);
    }

    /// Puts the current fair task back, at every level, because another class takes the CPU.
    pub fn put_prev_task<H: Hooks>(&mut self, cpu: CpuId, t: TaskId, now: Ns, h: &mut H) {
        self.set_clock(cpu, now);
        h.inside(self, Function::PutPrevTask);
        let mut level = Some(t.entity());
        while let Some(se) = level {
            self.put_prev_entity(se, h);
            level = self.ents[se.index()].parent;
        }
    }

    /// Makes a queued fair task current at every level, because it was picked.
    pub fn set_next_task<H: Hooks>(&mut self, cpu: CpuId, t: TaskId, now: Ns, h: &mut H) {
        self.set_next_chain(cpu, t, true, now, h);
    }

    /// Makes a queued fair task current again that was put back for a change of its attributes.
    ///
    /// The same as [`Class::set_next_task`] up to 6.19; from 7.0 on it gives no new slice protection.
    pub fn restore_task<H: Hooks>(&mut self, cpu: CpuId, t: TaskId, now: Ns, h: &mut H) {
        self.set_next_chain(cpu, t, false, now, h);
    }

    fn set_next_chain<H: Hooks>(
        &mut self,
        cpu: CpuId,
        t: TaskId,
        picked: bool,
        now: Ns,
        h: &mut H,
    ) {
        self.set_clock(cpu, now);
        h.inside(self, Function::SetNextTask);
        let mut level = Some(t.entity());
        while let Some(se) = level {
            self.set_next_entity(se, picked, h);
            let q = self.ents[se.index()].queue;
            // A newly current level starts with quota, or it could run past its limit unnoticed.
            self.account_runtime(q, 0, h);
            level = self.ents[se.index()].parent;
        }
    }

    fn set_next_entity<H: Hooks>(&mut self, se: EntityId, picked: bool, h: &mut H) {
        let q = self.ents[se.index()].queue;
        self.clear_buddies(se);
        if self.ents[se.index()].on_rq {
            self.tree_remove(q, se);
            self.update_load_avg(q, se, Attach::No, true);
            let protects = picked || !self.profile.protect_at_pick_only;
            if self.profile.policy == Policy::Eevdf && protects {
                self.set_protection(q, se);
            }
        }
        let now = self.clock_of(q);
        let e = &mut self.ents[se.index()];
        e.exec_start = now;
        e.prev_sum_exec_runtime = e.sum_exec_runtime;
        self.queues[q.index()].curr = Some(se);
        h.point(self, Point::SetNext, q, Some(se));
    }

    pub(crate) fn put_prev_entity<H: Hooks>(&mut self, se: EntityId, h: &mut H) {
        let q = self.ents[se.index()].queue;
        if self.ents[se.index()].on_rq {
            h.inside(self, Function::PutPrevEntity);
            self.update_curr(q, h);
        }
        self.check_runtime(q, h);
        if self.ents[se.index()].on_rq {
            self.tree_insert(q, se);
            self.update_load_avg(q, se, Attach::No, false);
        }
        self.queues[q.index()].curr = None;
        h.point(self, Point::PutPrev, q, Some(se));
    }

    /// The pick at one level, buddies and ends of delays included; `None`: start again from the root.
    fn pick_next_entity<H: Hooks>(
        &mut self,
        cpu: CpuId,
        q: QueueId,
        h: &mut H,
    ) -> Option<EntityId> {
        if self.profile.policy == Policy::Cfs {
            let se = self.pick_cfs(q);
            h.point(self, Point::Pick, q, se);
            return se;
        }
        let buddy_first = match self.profile.buddy_pick {
            BuddyPick::NextBuddy => self.feat(Feature::NextBuddy),
            BuddyPick::PickBuddy => self.feat(Feature::PickBuddy),
            BuddyPick::InPick => false,
        };
        if buddy_first
            && let Some(next) = self.queues[q.index()].next
            && self.entity_eligible(next)
        {
            return Some(next);
        }
        let se = self.pick_eevdf(q, true);
        h.point(self, Point::Pick, q, se);
        let se = se?;
        if self.ents[se.index()].sched_delayed {
            self.dequeue_entities(cpu, se, Dequeue::SLEEP | Dequeue::DELAYED, h);
            return None;
        }
        Some(se)
    }

    /// The earliest deadline among the eligible of one level (section 4.2).
    ///
    /// `protect`: whether the running entity's slice protection counts.
    #[must_use]
    #[inline]
    pub fn pick_eevdf(&self, q: QueueId, protect: bool) -> Option<EntityId> {
        let queue = &self.queues[q.index()];
        let curr = self.running_on(q);
        if queue.nr_queued == 1 {
            return curr.or_else(|| queue.tree.first());
        }
        let running = self.running(q);
        let ok = |se: EntityId| queue.tree.eligible(running, self.ents[se.index()].vruntime);
        if self.profile.buddy_pick == BuddyPick::InPick
            && protect
            && self.feat(Feature::PickBuddy)
            && let Some(next) = queue.next
            && ok(next)
        {
            return Some(next);
        }
        let curr = curr.filter(|&c| ok(c));
        if let Some(c) = curr {
            let counts = match self.profile.protection {
                Protection::Parity => self.feat(Feature::RunToParity),
                Protection::MinSlice => true,
            };
            if protect && counts && self.protected(c) {
                return Some(c);
            }
        }
        let best = queue.tree.pick(running);
        match (best, curr) {
            // Equal deadlines favour the entity in the tree.
            (Some(b), Some(c))
                if self.ents[c.index()]
                    .deadline
                    .before(self.ents[b.index()].deadline) =>
            {
                Some(c)
            }
            (Some(b), _) => Some(b),
            (None, c) => c,
        }
    }

    /// Marks an entity and its ancestors as buddies of a kind, `mark` (section 4.4).
    pub(crate) fn set_buddy(&mut self, se: EntityId, mark: Buddy) {
        let mut level = Some(se);
        while let Some(s) = level {
            let e = &self.ents[s.index()];
            if !e.on_rq || e.is_idle() {
                return;
            }
            *mark(&mut self.queues[e.queue.index()]) = Some(s);
            level = e.parent;
        }
    }

    /// Takes the buddy marks of an entity away, each up the chain as long as it matches.
    #[inline]
    pub(crate) fn clear_buddies(&mut self, se: EntityId) {
        self.clear_buddy(se, |queue| &mut queue.next);
        if self.profile.policy == Policy::Cfs {
            self.clear_buddy(se, |queue| &mut queue.last);
            self.clear_buddy(se, |queue| &mut queue.skip);
        }
    }

    #[inline]
    fn clear_buddy(&mut self, se: EntityId, mark: Buddy) {
        let mut level = Some(se);
        while let Some(s) = level {
            let e = &self.ents[s.index()];
            let marked = mark(&mut self.queues[e.queue.index()]);
            if *marked != Some(s) {
                break;
            }
            *marked = None;
            level = e.parent;
        }
    }
}

/// Chooses one of a queue's marks: `next`, `last` or `skip`.
pub(crate) type Buddy = fn(&mut Queue) -> &mut Option<EntityId>;
