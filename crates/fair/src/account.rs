//! Charging run time, renewing deadlines and the decision to reschedule (reference section 3).

use crate::class::{Class, Resched};
use crate::hooks::{Function, Hooks, Point, Reason};
use crate::ids::{CpuId, EntityId, QueueId};
use crate::profile::{Anchor, Feature, LagLimit, NrScope, Policy, Protection, TickRule};
use crate::units::{Ns, Vns};
use crate::weight::calc_delta_fair;

impl Class {
    /// Charges the current fair task of a CPU and its groups up to `now`, as reading its run time does.
    pub fn update_curr_task<H: Hooks>(&mut self, cpu: CpuId, now: Ns, h: &mut H) {
        self.set_clock(cpu, now);
        if let Some(t) = self.curr(cpu) {
            let q = self.ents[t.index()].queue;
            h.inside(self, Function::TaskRuntime);
            self.update_curr(q, h);
        }
    }

    /// Charges the running entity of one level (section 3.2).
    pub(crate) fn update_curr<H: Hooks>(&mut self, q: QueueId, h: &mut H) {
        let Some(se) = self.queues[q.index()].curr else {
            h.point(self, Point::Curr, q, None);
            return;
        };
        let now = self.clock_of(q);
        let e = &mut self.ents[se.index()];
        let delta = now.wrapping_sub(e.exec_start);
        if delta as i64 <= 0 {
            h.point(self, Point::Curr, q, Some(se));
            return;
        }
        e.exec_start = now;
        e.sum_exec_runtime += delta;
        e.vruntime = e.vruntime.plus(calc_delta_fair(delta, e.load));
        if self.profile.policy == Policy::Cfs {
            self.update_min_vruntime(q);
            self.charged(q, se, delta, h);
            h.point(self, Point::Curr, q, Some(se));
            return;
        }
        let consumed = self.update_deadline(q, se, h);
        self.update_min_vruntime(q);
        self.check_key(q, se);
        self.charged(q, se, delta, h);
        self.tick_decision(q, se, consumed, h);
        h.point(self, Point::Curr, q, Some(se));
    }

    fn charged<H: Hooks>(&mut self, q: QueueId, se: EntityId, delta: u64, h: &mut H) {
        if self.ents[se.index()].is_task() {
            h.charged(self, crate::TaskId(se.0), Ns(delta));
        }
        self.account_runtime(q, delta, h);
    }

    /// Renews a deadline that the vruntime has reached (section 3.3); `true` if it had.
    pub(crate) fn update_deadline<H: Hooks>(
        &mut self,
        q: QueueId,
        se: EntityId,
        h: &mut H,
    ) -> bool {
        let base = self.base_slice().0;
        let e = &mut self.ents[se.index()];
        let consumed = !e.vruntime.before(e.deadline);
        if consumed {
            if !e.custom_slice {
                e.slice = base;
            }
            // From the present vruntime: an overshoot is not carried over.
            e.deadline = e.vruntime.plus(calc_delta_fair(e.slice, e.load));
            if self.profile.anchor == Anchor::ZeroVruntime {
                self.v_now(q);
            }
        }
        h.point(self, Point::Deadline(consumed), q, Some(se));
        consumed
    }

    /// Whether accounting asks for a reschedule (section 3.5).
    fn tick_decision<H: Hooks>(&mut self, q: QueueId, se: EntityId, consumed: bool, h: &mut H) {
        if self.alone(q) {
            return;
        }
        let reason = match self.profile.tick_rule {
            TickRule::Consumed if consumed => Reason::SliceConsumed,
            TickRule::ConsumedOrShort | TickRule::ConsumedOrUnprotected if consumed => {
                Reason::SliceConsumed
            }
            TickRule::ConsumedOrShort
                if self.feat(Feature::PreemptShort)
                    && !self.protected(se)
                    && !self.entity_eligible(se) =>
            {
                Reason::Unprotected
            }
            TickRule::ConsumedOrUnprotected if !self.protected(se) => Reason::Unprotected,
            _ => return,
        };
        let cpu = self.queues[q.index()].cpu;
        self.resched_curr(cpu, self.fair_resched(), reason, Some(q), h);
        self.clear_buddies(se);
    }

    /// The test that keeps accounting quiet, in the scope of the profile (section 3.5).
    #[inline]
    fn alone(&self, q: QueueId) -> bool {
        let queue = &self.queues[q.index()];
        let rq = &self.rqs[queue.cpu.index()];
        let nr = match self.profile.nr_scope {
            NrScope::Rq => rq.nr_fair + rq.nr_other,
            NrScope::RootCfs => self.queues[rq.cfs.index()].nr_queued,
            NrScope::CfsRq => queue.nr_queued,
        };
        // The test inside the renewal asks for more than one, the later one for exactly one: they differ at none.
        match self.profile.tick_rule {
            TickRule::Consumed => nr <= 1,
            TickRule::ConsumedOrShort | TickRule::ConsumedOrUnprotected => nr == 1,
        }
    }

    /// Whether the running entity's protection holds (sections 3.4 and 3.6).
    #[must_use]
    #[inline]
    pub fn protected(&self, se: EntityId) -> bool {
        let e = &self.ents[se.index()];
        match self.profile.protection {
            Protection::Parity => e.vlag == e.deadline.0 as i64,
            Protection::MinSlice => e.vruntime.before(e.vprot),
        }
    }

    /// Protects an entity that is set running.
    #[inline]
    pub(crate) fn set_protection(&mut self, q: QueueId, se: EntityId) {
        match self.profile.protection {
            Protection::Parity => {
                let e = &mut self.ents[se.index()];
                e.vlag = e.deadline.0 as i64;
            }
            Protection::MinSlice => {
                let quantum = if self.feat(Feature::RunToParity) {
                    self.min_slice(q).unwrap_or(u64::MAX)
                } else {
                    self.profile.tunables.base_slice_normalized.0
                };
                let e = &mut self.ents[se.index()];
                e.vprot = if quantum >= e.slice {
                    e.deadline
                } else {
                    e.deadline
                        .earlier(e.vruntime.plus(calc_delta_fair(quantum, e.load)))
                };
            }
        }
    }

    /// Takes the running entity's protection away.
    pub(crate) fn cancel_protection(&mut self, se: EntityId) {
        let e = &mut self.ents[se.index()];
        match self.profile.protection {
            Protection::Parity => {
                if e.vlag == e.deadline.0 as i64 {
                    e.vlag = e.deadline.0.wrapping_add(1) as i64;
                }
            }
            Protection::MinSlice => {
                if e.vruntime.before(e.vprot) {
                    e.vprot = e.vruntime;
                }
            }
        }
    }

    /// Shortens the protection to the shortest slice queued, after a wakeup that did not preempt (3.6).
    pub(crate) fn shorten_protection(&mut self, q: QueueId, se: EntityId) {
        let quantum = self.min_slice(q).unwrap_or(u64::MAX);
        let e = &mut self.ents[se.index()];
        let end = e.vruntime.plus(calc_delta_fair(quantum, e.load));
        e.vprot = e.vprot.earlier(end);
    }

    /// Saves the lag of an entity that is about to leave (section 5.2).
    pub(crate) fn update_lag<H: Hooks>(&mut self, q: QueueId, se: EntityId, h: &mut H) {
        let v = self.v_now(q);
        self.save_lag(q, se, v);
        h.point(self, Point::Lag, q, Some(se));
    }

    #[inline]
    pub(crate) fn save_lag(&mut self, q: QueueId, se: EntityId, v: Vns) {
        let mut vlag = self.lag_at(q, se, v);
        let zero = self.feat(Feature::DelayZero);
        let e = &mut self.ents[se.index()];
        if self.profile.delayed_lag_monotonic && e.sched_delayed {
            vlag = vlag.max(e.vlag);
            if zero {
                // What it gained beyond its debt is dropped here already, or it would count as a debt paid later.
                vlag = vlag.min(0);
            }
        }
        e.vlag = vlag;
    }

    /// `V - v`, within the limit.
    #[inline]
    pub(crate) fn lag_at(&self, q: QueueId, se: EntityId, v: Vns) -> i64 {
        let e = &self.ents[se.index()];
        let tick = self.tick_nsec();
        let bound = match self.profile.lag_limit {
            LagLimit::TwoSlices => e.slice.saturating_mul(2).max(tick),
            LagLimit::MaxSlice => self.max_slice(q).saturating_add(tick),
        };
        let limit = calc_delta_fair(bound, e.load) as i64;
        v.minus(e.vruntime).clamp(-limit, limit)
    }

    /// Whether a full-strength request is pending, which ends a wakeup check early.
    #[inline]
    pub(crate) fn resched_pending(&self, cpu: CpuId) -> bool {
        self.rqs[cpu.index()].resched == Resched::Full
    }
}
