//! Entering and leaving queues, level by level (reference sections 4.3, 5, 6 and 10.2).

use crate::class::{Class, TaskPolicy};
use crate::flags::{Dequeue, Enqueue};
use crate::hooks::{Function, Hooks, Point};
use crate::ids::{CpuId, EntityId, QueueId, TaskId};
use crate::load::Attach;
use crate::profile::{Feature, Policy};
use crate::units::Ns;

/// Tasks that move through the counters of a chain of queues.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) queued: u32,
    pub(crate) runnable: u32,
    pub(crate) idle: u32,
}

impl Class {
    /// Puts a task on the queue of its group on `cpu`.
    ///
    /// With [`Enqueue::DELAYED`] the task must be delayed on that CPU and is woken in place.
    pub fn enqueue_task<H: Hooks>(
        &mut self,
        cpu: CpuId,
        t: TaskId,
        flags: Enqueue,
        now: Ns,
        h: &mut H,
    ) {
        self.set_clock(cpu, now);
        let se = t.entity();
        if flags.has(Enqueue::DELAYED) {
            if self.ents[se.index()].sched_delayed {
                self.requeue_delayed(se, h);
            }
            self.debug_verify(cpu);
            return;
        }
        if self.ents[se.index()].on_rq {
            debug_assert!(false, "task {t} is queued already");
            return;
        }
        let mut flags = flags;
        if self.task_cpu(t) != cpu {
            self.leave_cpu(se);
            if self.profile.policy == Policy::Cfs && !self.ents[se.index()].relative {
                // A sleeper keeps an absolute vruntime until it changes CPU.
                let from = self.ents[se.index()].queue;
                self.normalise_out(from, se, false);
                flags = flags | Enqueue::MIGRATED;
            }
            self.set_task_queue(se, cpu);
        }
        if self.ents[se.index()].avg.last_update_time == 0 && flags.has(Enqueue::INITIAL) {
            self.init_util(se);
        }
        let e = &self.ents[se.index()];
        let mut counts = Counts {
            queued: 1,
            runnable: u32::from(!e.sched_delayed),
            idle: u32::from(e.policy == TaskPolicy::Idle),
        };
        let mut level = Some(se);
        let mut slice = None;
        // First part: levels that are entered anew.
        while let Some(s) = level {
            if self.ents[s.index()].on_rq {
                if self.ents[s.index()].sched_delayed {
                    self.requeue_delayed(s, h);
                }
                break;
            }
            if let (Some(slice), true) = (slice, self.profile.custom_slice) {
                let e = &mut self.ents[s.index()];
                e.slice = slice;
                e.custom_slice = true;
            }
            let q = self.ents[s.index()].queue;
            self.enqueue_entity(q, s, flags, h);
            level = self.ents[s.index()].parent;
            slice = level.and_then(|_| self.min_slice(q));
            if self.count_in(q, &mut counts) {
                self.debug_verify(cpu);
                return;
            }
            flags = Enqueue::WAKEUP;
        }
        // Second part: levels that were queued before learn of it.
        while let Some(s) = level {
            let q = self.ents[s.index()].queue;
            slice = self.refresh_level(q, s, slice, h);
            if self.count_in(q, &mut counts) {
                self.debug_verify(cpu);
                return;
            }
            level = self.ents[s.index()].parent;
        }
        self.rqs[cpu.index()].nr_fair += 1;
        self.debug_verify(cpu);
    }

    /// Takes a task off its queue. `false`: it stays queued as a delayed sleeper (section 6).
    pub fn dequeue_task<H: Hooks>(
        &mut self,
        cpu: CpuId,
        t: TaskId,
        flags: Dequeue,
        now: Ns,
        h: &mut H,
    ) -> bool {
        self.set_clock(cpu, now);
        if !self.ents[t.index()].on_rq {
            debug_assert!(false, "task {t} is not queued");
            return true;
        }
        if flags.has(Dequeue::SLEEP) {
            self.update_util_est(t.entity());
        }
        let left = self.dequeue_entities(cpu, t.entity(), flags, h);
        self.debug_verify(cpu);
        left
    }

    pub(crate) fn dequeue_entities<H: Hooks>(
        &mut self,
        cpu: CpuId,
        se: EntityId,
        flags: Dequeue,
        h: &mut H,
    ) -> bool {
        let e = &self.ents[se.index()];
        let is_task = e.is_task();
        let sleep = flags.has(Dequeue::SLEEP);
        let mut counts = Counts::default();
        let mut slice = None;
        match e.my_q {
            None => {
                counts.queued = 1;
                counts.idle = u32::from(e.policy == TaskPolicy::Idle);
                counts.runnable =
                    u32::from(sleep || flags.has(Dequeue::DELAYED) || !e.sched_delayed);
            }
            Some(my_q) => slice = self.min_slice(my_q),
        }
        let mut flags = flags;
        let mut level = Some(se);
        while let Some(s) = level {
            let q = self.ents[s.index()].queue;
            h.inside(self, Function::DequeueEntities);
            if !self.dequeue_entity(q, s, flags, h) {
                if is_task && s == se {
                    return false;
                }
                slice = self.min_slice(q);
                break;
            }
            if self.count_out(q, &mut counts) {
                return true;
            }
            level = self.ents[s.index()].parent;
            if self.queues[q.index()].load_weight != 0 {
                slice = level.and_then(|_| self.min_slice(q));
                if let (true, Some(parent)) = (sleep, level) {
                    // The group's slice is not used up: let it go on with its other tasks.
                    if !self.stopped_hierarchy(q) && !flags.has(Dequeue::THROTTLE) {
                        self.set_buddy(parent, |queue| &mut queue.next);
                    }
                }
                break;
            }
            flags =
                Dequeue((flags.0 | Dequeue::SLEEP.0) & !(Dequeue::DELAYED.0 | Dequeue::SPECIAL.0));
        }
        while let Some(s) = level {
            let q = self.ents[s.index()].queue;
            slice = self.refresh_level(q, s, slice, h);
            if self.count_out(q, &mut counts) {
                return true;
            }
            level = self.ents[s.index()].parent;
        }
        self.rqs[cpu.index()].nr_fair -= counts.queued;
        true
    }

    /// A level that stays queued while something below it changed: averages, share, slice.
    fn refresh_level<H: Hooks>(
        &mut self,
        q: QueueId,
        se: EntityId,
        slice: Option<u64>,
        h: &mut H,
    ) -> Option<u64> {
        self.update_load_avg(q, se, Attach::No, true);
        self.tell_runnable(se);
        self.update_group_weight(se, h);
        if self.profile.custom_slice
            && let Some(slice) = slice
        {
            self.set_slice_in_place(se, slice);
        }
        self.ents[se.index()].parent.and_then(|_| self.min_slice(q))
    }

    /// Adds to a queue's counters; `true` where a throttled queue ends the walk.
    #[inline]
    pub(crate) fn count_in(&mut self, q: QueueId, c: &mut Counts) -> bool {
        let idle_group = self.is_idle_group(q);
        let queue = &mut self.queues[q.index()];
        queue.h_nr_queued += c.queued;
        queue.h_nr_runnable += c.runnable;
        queue.h_nr_idle += c.idle;
        if idle_group {
            c.idle = c.queued;
        }
        self.cut_off(q)
    }

    /// Takes from a queue's counters; `true` where a throttled queue ends the walk.
    #[inline]
    pub(crate) fn count_out(&mut self, q: QueueId, c: &mut Counts) -> bool {
        let idle_group = self.is_idle_group(q);
        let queue = &mut self.queues[q.index()];
        queue.h_nr_queued -= c.queued;
        queue.h_nr_runnable -= c.runnable;
        queue.h_nr_idle -= c.idle;
        if idle_group {
            c.idle = c.queued;
        }
        self.cut_off(q)
    }

    #[inline]
    fn is_idle_group(&self, q: QueueId) -> bool {
        self.groups[self.queues[q.index()].group.index()].idle
    }

    /// Enqueues one entity on one level (section 5, order of steps).
    pub(crate) fn enqueue_entity<H: Hooks>(
        &mut self,
        q: QueueId,
        se: EntityId,
        flags: Enqueue,
        h: &mut H,
    ) {
        h.inside(self, Function::EnqueueEntity(flags));
        h.point(self, Point::Enqueue, q, Some(se));
        let is_curr = self.queues[q.index()].curr == Some(se);
        let cfs = self.profile.policy == Policy::Cfs;
        if is_curr {
            if cfs {
                self.normalise_in(q, se);
            } else {
                self.place_entity(q, se, flags, h);
            }
        }
        self.update_curr(q, h);
        if cfs {
            // After the accounting, so that it joins at the present and not at some moment in the past.
            self.normalise_in(q, se);
        }
        self.update_load_avg(q, se, Attach::Yes, true);
        self.tell_runnable(se);
        self.update_group_weight(se, h);
        if if cfs {
            self.places_cfs(se, flags)
        } else {
            !is_curr
        } {
            // A change of weight may have come between.
            h.inside(self, Function::EnqueueEntity(flags));
            self.place_entity(q, se, flags, h);
        }
        self.account_enqueue(q, se);
        if flags.has(Enqueue::MIGRATED) {
            // Not cache-hot on the new CPU.
            self.ents[se.index()].exec_start = 0;
        }
        if !is_curr {
            self.tree_insert(q, se);
        }
        self.ents[se.index()].on_rq = true;
        if self.queues[q.index()].nr_queued == 1 {
            self.freeze_or_thaw(q);
            self.check_enqueue_throttle(q, h);
            if self.cut_off(q) {
                self.start_throttled_time(q);
            }
        }
    }

    #[inline]
    fn account_enqueue(&mut self, q: QueueId, se: EntityId) {
        let e = &self.ents[se.index()];
        let queue = &mut self.queues[q.index()];
        queue.load_weight += e.load.weight.0;
        queue.nr_queued += 1;
        queue.idle_nr += u32::from(e.is_idle());
    }

    #[inline]
    fn account_dequeue(&mut self, q: QueueId, se: EntityId) {
        let e = &self.ents[se.index()];
        let queue = &mut self.queues[q.index()];
        queue.load_weight -= e.load.weight.0;
        queue.nr_queued -= 1;
        queue.idle_nr -= u32::from(e.is_idle());
    }

    /// Dequeues one entity from one level; `false` if it stays as a delayed one.
    pub(crate) fn dequeue_entity<H: Hooks>(
        &mut self,
        q: QueueId,
        se: EntityId,
        flags: Dequeue,
        h: &mut H,
    ) -> bool {
        let sleep = flags.has(Dequeue::SLEEP);
        h.inside(self, Function::DequeueEntity(flags));
        self.update_curr(q, h);
        self.clear_buddies(se);
        let may_delay = sleep
            && !flags.has(Dequeue::DELAYED)
            && flags.0 & (Dequeue::SPECIAL.0 | Dequeue::THROTTLE.0) == 0;
        if may_delay && self.feat(Feature::DelayDequeue) && !self.entity_eligible(se) {
            self.update_load_avg(q, se, Attach::No, false);
            if self.profile.delayed_lag_monotonic {
                let v = self.v(q);
                self.ents[se.index()].vlag = self.lag_at(q, se, v);
            }
            self.set_delayed(se);
            h.point(self, Point::Dequeue(false), q, Some(se));
            return false;
        }
        let leaves_cpu = flags.has(Dequeue::MIGRATING) && self.ents[se.index()].is_task();
        let attach = if leaves_cpu {
            Attach::Detach
        } else {
            Attach::No
        };
        self.update_load_avg(q, se, attach, true);
        self.tell_runnable(se);
        if self.profile.policy == Policy::Eevdf {
            self.update_lag(q, se, h);
            if self.feat(Feature::PlaceRelDeadline) && !sleep {
                let e = &mut self.ents[se.index()];
                e.deadline = e.deadline.offset(0u64.wrapping_sub(e.vruntime.0) as i64);
                e.rel_deadline = true;
            }
        }
        if self.queues[q.index()].curr != Some(se) {
            self.tree_remove(q, se);
        }
        self.ents[se.index()].on_rq = false;
        self.account_dequeue(q, se);
        self.freeze_or_thaw(q);
        if self.profile.policy == Policy::Cfs {
            self.normalise_out(q, se, sleep);
        }
        self.return_runtime(q);
        self.update_group_weight(se, h);
        if flags.0 & (Dequeue::SAVE.0 | Dequeue::MOVE.0) != Dequeue::SAVE.0 {
            self.update_min_vruntime(q);
        }
        if flags.has(Dequeue::DELAYED) {
            self.finish_delayed(se);
        }
        h.point(self, Point::Dequeue(true), q, Some(se));
        true
    }

    /// Leaves an ineligible sleeper in place (section 6.1).
    fn set_delayed(&mut self, se: EntityId) {
        self.ents[se.index()].sched_delayed = true;
        self.count_delayed(se, |n| n - 1);
    }

    pub(crate) fn clear_delayed(&mut self, se: EntityId) {
        self.ents[se.index()].sched_delayed = false;
        self.count_delayed(se, |n| n + 1);
    }

    /// Delayed tasks are queued but not runnable, at every level up to a throttled one.
    fn count_delayed(&mut self, se: EntityId, change: impl Fn(u32) -> u32) {
        if !self.ents[se.index()].is_task() {
            return;
        }
        let mut level = Some(se);
        while let Some(s) = level {
            let q = self.ents[s.index()].queue;
            let queue = &mut self.queues[q.index()];
            queue.h_nr_runnable = change(queue.h_nr_runnable);
            if self.cut_off(q) {
                break;
            }
            level = self.ents[s.index()].parent;
        }
    }

    /// The end of a delay that no wakeup ended (section 6.3).
    pub(crate) fn finish_delayed(&mut self, se: EntityId) {
        self.clear_delayed(se);
        if self.feat(Feature::DelayZero) {
            let e = &mut self.ents[se.index()];
            e.vlag = e.vlag.min(0);
        }
    }

    /// The end of a delay by a wakeup (section 6.2).
    pub(crate) fn requeue_delayed<H: Hooks>(&mut self, se: EntityId, h: &mut H) {
        let q = self.ents[se.index()].queue;
        h.inside(self, Function::RequeueDelayed);
        let (zero, monotonic) = (
            self.feat(Feature::DelayZero),
            self.profile.delayed_lag_monotonic,
        );
        if zero || monotonic {
            let present = self.lag_at(q, se, self.v(q));
            self.update_lag(q, se, h);
            let vlag = self.ents[se.index()].vlag;
            // From 7.0 on it is placed anew whenever its lag is not what its place says.
            if (zero && vlag > 0) || (monotonic && vlag != present) {
                let in_tree = self.queues[q.index()].curr != Some(se);
                self.queues[q.index()].nr_queued -= 1;
                if in_tree {
                    self.tree_remove(q, se);
                }
                if zero {
                    let e = &mut self.ents[se.index()];
                    e.vlag = e.vlag.min(0);
                }
                self.place_entity(q, se, Enqueue::NONE, h);
                if in_tree {
                    self.tree_insert(q, se);
                }
                self.queues[q.index()].nr_queued += 1;
            }
        }
        self.update_load_avg(q, se, Attach::No, false);
        self.clear_delayed(se);
        h.point(self, Point::Requeue, q, Some(se));
    }
}
