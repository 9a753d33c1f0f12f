//! Load averages of entities, queues and groups inside the class (reference sections 10.3 and 11).

use crate::class::Class;
use crate::ids::{EntityId, QueueId};
use crate::pelt::{LOAD_AVG_MAX, Running, SCALE};
use crate::profile::ThrottleRule;

/// Smallest divider of a sum.
pub(crate) const MIN_DIVIDER: u64 = LOAD_AVG_MAX - 1024;

/// The clock of the load averages begins here, ns, as a kernel's is never 0 when tasks run: a last update at 0 means that an entity is
/// part of no queue. A multiple of their unit of 1024 ns.
const EPOCH: u64 = 1 << 20;

/// What happens to an entity's part in its queue's averages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attach {
    /// Nothing.
    No,
    /// It joins, if it is not part of it yet.
    Yes,
    /// It leaves for another CPU.
    Detach,
}

impl Class {
    /// Brings an entity and its queue up to date and passes the queue's load on to its group.
    #[inline]
    pub(crate) fn update_load_avg(&mut self, q: QueueId, se: EntityId, attach: Attach, tg: bool) {
        let now = self.pelt_clock(q);
        self.update_se_avg(q, se, now);
        let decayed = self.update_queue_avg(q, now);
        match attach {
            Attach::Yes if self.ents[se.index()].avg.last_update_time == 0 => {
                self.attach_avg(q, se);
                self.update_tg_load_avg(q);
            }
            Attach::Detach => {
                self.detach_avg(q, se);
                self.update_tg_load_avg(q);
            }
            _ if decayed && tg => self.update_tg_load_avg(q),
            _ => {}
        }
    }

    #[inline]
    fn update_se_avg(&mut self, q: QueueId, se: EntityId, now: u64) {
        let e = &self.ents[se.index()];
        if e.avg.last_update_time == 0 || !e.avg.due(now) {
            return;
        }
        let runnable = match e.my_q {
            Some(_) => e.runnable_weight,
            None => u64::from(e.on_rq && !e.sched_delayed),
        };
        let state = Running {
            load: u64::from(e.on_rq),
            runnable,
            running: self.queues[q.index()].curr == Some(se),
        };
        let weight = e.load.weight.down();
        self.ents[se.index()].avg.update(now, state, weight);
    }

    /// Brings a queue's averages up to date; `true` if they changed.
    #[inline]
    pub(crate) fn update_queue_avg(&mut self, q: QueueId, now: u64) -> bool {
        let queue = &mut self.queues[q.index()];
        if !queue.avg.due(now) {
            return false;
        }
        let state = Running {
            load: crate::Weight(queue.load_weight).down(),
            runnable: u64::from(queue.h_nr_runnable),
            running: queue.curr.is_some(),
        };
        queue.avg.update(now, state, 1)
    }

    fn attach_avg(&mut self, q: QueueId, se: EntityId) {
        let queue = &mut self.queues[q.index()].avg;
        let e = &mut self.ents[se.index()];
        let w = e.load.weight.down();
        let a = &mut e.avg;
        a.last_update_time = queue.last_update_time;
        a.period_contrib = queue.period_contrib;
        let d = a.divider();
        a.util_sum = a.util_avg * d;
        a.runnable_sum = a.runnable_avg * d;
        let load = a.load_avg * d;
        a.load_sum = if w < load { load / w.max(1) } else { 1 };
        queue.load_avg += a.load_avg;
        queue.load_sum += w * a.load_sum;
        queue.util_avg += a.util_avg;
        queue.util_sum += a.util_sum;
        queue.runnable_avg += a.runnable_avg;
        queue.runnable_sum += a.runnable_sum;
    }

    fn detach_avg(&mut self, q: QueueId, se: EntityId) {
        let queue = &mut self.queues[q.index()].avg;
        let e = &mut self.ents[se.index()];
        let w = e.load.weight.down();
        let a = &mut e.avg;
        if a.last_update_time == 0 {
            return;
        }
        let sub = |x: &mut u64, y: u64| *x = x.saturating_sub(y);
        sub(&mut queue.load_avg, a.load_avg);
        sub(&mut queue.load_sum, w * a.load_sum);
        queue.load_sum = queue.load_sum.max(queue.load_avg * MIN_DIVIDER);
        sub(&mut queue.util_avg, a.util_avg);
        sub(&mut queue.util_sum, a.util_sum);
        queue.util_sum = queue.util_sum.max(queue.util_avg * MIN_DIVIDER);
        sub(&mut queue.runnable_avg, a.runnable_avg);
        sub(&mut queue.runnable_sum, a.runnable_sum);
        queue.runnable_sum = queue.runnable_sum.max(queue.runnable_avg * MIN_DIVIDER);
        a.last_update_time = 0;
    }

    /// Takes a sleeping task's part out of the CPU that it leaves.
    pub(crate) fn leave_cpu(&mut self, se: EntityId) {
        let q = self.ents[se.index()].queue;
        let now = self.queues[q.index()].avg.last_update_time;
        self.update_se_avg(q, se, now);
        self.detach_avg(q, se);
    }

    /// Notes how many runnable tasks are below a group entity, for the time from now on.
    #[inline]
    pub(crate) fn tell_runnable(&mut self, se: EntityId) {
        if let Some(my_q) = self.ents[se.index()].my_q {
            self.ents[se.index()].runnable_weight =
                u64::from(self.queues[my_q.index()].h_nr_runnable);
        }
    }

    /// The clock of a queue's load averages: that of its CPU without the time that it was stopped.
    #[inline]
    fn pelt_clock(&self, q: QueueId) -> u64 {
        let queue = &self.queues[q.index()];
        let clock = queue
            .pelt_frozen_at
            .unwrap_or(self.rqs[queue.cpu.index()].clock_pelt);
        clock.wrapping_sub(queue.pelt_frozen).wrapping_add(EPOCH)
    }

    /// Stops or starts a queue's load averages: they stand still while it is throttled, from 6.18 on only once it is
    /// empty too.
    #[inline]
    pub(crate) fn freeze_or_thaw(&mut self, q: QueueId) {
        let by_task = self.profile.throttle_rule == ThrottleRule::Task;
        let queue = &mut self.queues[q.index()];
        let stop = queue.throttle_count > 0 && !(by_task && queue.nr_queued > 0);
        let now = self.rqs[queue.cpu.index()].clock_pelt;
        match (stop, queue.pelt_frozen_at) {
            (true, None) => queue.pelt_frozen_at = Some(now),
            (false, Some(at)) => {
                queue.pelt_frozen = queue.pelt_frozen.wrapping_add(now.wrapping_sub(at));
                queue.pelt_frozen_at = None;
            }
            _ => {}
        }
    }

    /// Passes a queue's load on to its group if it changed by more than 1/64, by profile at most once a millisecond.
    fn update_tg_load_avg(&mut self, q: QueueId) {
        let now = self.clock_of(q);
        let limited = self.profile.tg_load_rate_limit;
        let queue = &mut self.queues[q.index()];
        if queue.owner.is_none()
            || (limited && now.wrapping_sub(queue.last_update_tg_load_avg) < 1_000_000)
        {
            return;
        }
        let delta = queue.avg.load_avg as i64 - queue.tg_load_avg_contrib as i64;
        if delta.unsigned_abs() > queue.tg_load_avg_contrib / 64 {
            let group = &mut self.groups[queue.group.index()];
            group.load_avg = group.load_avg.saturating_add_signed(delta);
            queue.tg_load_avg_contrib = queue.avg.load_avg;
            queue.last_update_tg_load_avg = now;
        }
    }

    /// First utilization of a new task (section 11.3).
    pub(crate) fn init_util(&mut self, se: EntityId) {
        let q = self.ents[se.index()].queue;
        let queue = &self.queues[q.index()].avg;
        let (util, load) = (queue.util_avg, queue.load_avg);
        let e = &mut self.ents[se.index()];
        let cap = (SCALE.saturating_sub(util)) / 2;
        if cap > 0 {
            e.avg.util_avg = if util != 0 {
                (util * e.load.weight.down() / (load + 1)).min(cap)
            } else {
                cap
            };
        }
        e.avg.runnable_avg = e.avg.util_avg;
    }

    /// Moves a task's utilization estimate when it goes to sleep (section 11.3).
    pub(crate) fn update_util_est(&mut self, se: EntityId) {
        if !self.feat(crate::Feature::UtilEst) {
            return;
        }
        let e = &mut self.ents[se.index()];
        let (util, est) = (e.avg.util_avg, u64::from(e.util_est));
        let new = if util >= est {
            util
        } else if est - util >= 10 && util + 10 >= e.avg.runnable_avg {
            est - (est - util) / 4
        } else {
            est
        };
        e.util_est = new as u32;
    }
}
