//! Whether a wakee preempts the current task of its own class (reference section 8).

use crate::class::{Class, TaskPolicy};
use crate::flags::{Dequeue, Wake};
use crate::hooks::{Function, Hooks, Reason};
use crate::ids::{CpuId, EntityId, QueueId, TaskId};
use crate::profile::{Feature, SyncSince, WakeupRule};
use crate::units::Ns;

impl Class {
    /// Checks whether `wakee`, just enqueued on `cpu`, should preempt the fair task that is current there.
    pub fn wakeup_preempt<H: Hooks>(
        &mut self,
        cpu: CpuId,
        wakee: TaskId,
        flags: Wake,
        now: Ns,
        h: &mut H,
    ) {
        self.set_clock(cpu, now);
        let Some(curr) = self.curr(cpu) else { return };
        h.inside(self, Function::WakeupPreempt { cpu, wakee, flags });
        let (se, pse) = (curr.entity(), wakee.entity());
        if se == pse || self.stopped_hierarchy(self.ents[pse.index()].queue) {
            return;
        }
        match self.profile.wakeup_rule {
            WakeupRule::Cfs => self.wakeup_cfs(cpu, se, pse, flags, h),
            WakeupRule::V66 => self.wakeup_v66(cpu, se, pse, flags, h),
            WakeupRule::V612 | WakeupRule::V617 | WakeupRule::V618 | WakeupRule::V619 => {
                self.wakeup_v612(cpu, se, pse, flags, h);
            }
        }
    }

    /// 6.6 to 6.11 (section 8.0).
    fn wakeup_v66<H: Hooks>(
        &mut self,
        cpu: CpuId,
        se: EntityId,
        pse: EntityId,
        flags: Wake,
        h: &mut H,
    ) {
        let marked = self.feat(Feature::NextBuddy) && !flags.has(Wake::FORK);
        let Some((s, p)) = self.wakeup_until_612(cpu, se, pse, marked, h) else {
            return;
        };
        let q = self.ents[s.index()].queue;
        self.update_curr(q, h);
        self.preempt_if_picked(cpu, q, p, true, h);
    }

    /// What the rules up to 6.11 begin with: the buddy mark, policies, and idle against non-idle. The two entities of one
    /// queue that are left to compare, `None` where the wakeup is decided.
    pub(crate) fn wakeup_until_612<H: Hooks>(
        &mut self,
        cpu: CpuId,
        se: EntityId,
        pse: EntityId,
        mark: bool,
        h: &mut H,
    ) -> Option<(EntityId, EntityId)> {
        if mark {
            self.set_buddy(pse, |queue| &mut queue.next);
        }
        if self.resched_pending(cpu) {
            return None;
        }
        let policy = |class: &Self, e: EntityId| class.ents[e.index()].policy;
        if policy(self, se) == TaskPolicy::Idle && policy(self, pse) != TaskPolicy::Idle {
            self.preempt(cpu, None, Reason::IdlePreempt, h);
            return None;
        }
        if policy(self, pse) != TaskPolicy::Normal || !self.feat(Feature::WakeupPreemption) {
            return None;
        }
        let (s, p) = self.matching_pair(se, pse);
        (!self.decided_by_idle(cpu, s, p, h)).then_some((s, p))
    }

    /// 6.12 and later (sections 8.1 to 8.3).
    fn wakeup_v612<H: Hooks>(
        &mut self,
        cpu: CpuId,
        se: EntityId,
        pse: EntityId,
        flags: Wake,
        h: &mut H,
    ) {
        let rule = self.profile.wakeup_rule;
        let fork = flags.has(Wake::FORK);
        let delayed = self.ents[pse.index()].sched_delayed;
        if rule != WakeupRule::V619 && self.feat(Feature::NextBuddy) && !fork && !delayed {
            self.set_buddy(pse, |queue| &mut queue.next);
        }
        if self.resched_pending(cpu) || !self.feat(Feature::WakeupPreemption) {
            return;
        }
        let wakee_policy = self.ents[pse.index()].policy;
        let (s, p) = self.matching_pair(se, pse);
        if self.decided_by_idle(cpu, s, p, h) {
            return;
        }
        if wakee_policy != TaskPolicy::Normal {
            return;
        }
        let q = self.ents[s.index()].queue;
        self.update_curr(q, h);
        let short = self.feat(Feature::PreemptShort)
            && self.ents[p.index()].slice < self.ents[s.index()].slice;
        match rule {
            WakeupRule::V617 | WakeupRule::V618 => self.wakeup_v617(cpu, q, s, p, short, h),
            WakeupRule::V619 => {
                let held_back = fork || self.ents[p.index()].sched_delayed;
                self.wakeup_v619(cpu, q, (s, p), short, held_back, flags, h);
            }
            _ => {
                if short && self.beats_protection(s, p) {
                    // It stays cancelled even if the wakee loses the pick.
                    self.cancel_protection(s);
                }
                self.preempt_if_picked(cpu, q, p, true, h);
            }
        }
    }

    /// PREEMPT_SHORT in 6.12: an eligible wakee against an ineligible or later entity.
    fn beats_protection(&self, se: EntityId, pse: EntityId) -> bool {
        self.entity_eligible(pse)
            && (self.ents[pse.index()]
                .deadline
                .before(self.ents[se.index()].deadline)
                || !self.entity_eligible(se))
    }

    /// 6.17 and 6.18 (section 8.2).
    fn wakeup_v617<H: Hooks>(
        &mut self,
        cpu: CpuId,
        q: QueueId,
        se: EntityId,
        pse: EntityId,
        short: bool,
        h: &mut H,
    ) {
        if self.preempt_if_picked(cpu, q, pse, !short, h) {
            if short {
                self.cancel_protection(se);
            }
            return;
        }
        let shorten = short || self.profile.wakeup_rule == WakeupRule::V618;
        if self.feat(Feature::RunToParity) && shorten {
            self.shorten_protection(q, se);
        }
    }

    /// 6.19 (section 8.3).
    #[allow(clippy::too_many_arguments)] // One argument a fact of the wakeup; a struct would only rename them.
    fn wakeup_v619<H: Hooks>(
        &mut self,
        cpu: CpuId,
        q: QueueId,
        (se, pse): (EntityId, EntityId),
        short: bool,
        held_back: bool,
        flags: Wake,
        h: &mut H,
    ) {
        if !short {
            if held_back {
                return;
            }
            if self.feat(Feature::NextBuddy) {
                let newly = self.mark_earlier_buddy(q, pse);
                if newly && flags.has(Wake::SYNC) {
                    self.sync_wakeup_v619(cpu, q, se, pse, flags, h);
                    return;
                }
            }
        }
        if self.preempt_if_picked(cpu, q, pse, !short, h) {
            if short {
                self.cancel_protection(se);
            }
        } else if self.feat(Feature::RunToParity) {
            self.shorten_protection(q, se);
        }
    }

    /// Marks the wakee as buddy unless one with an earlier deadline is marked; `true` if it was marked now.
    fn mark_earlier_buddy(&mut self, q: QueueId, pse: EntityId) -> bool {
        if let Some(next) = self.queues[q.index()].next {
            let (n, p) = (&self.ents[next.index()], &self.ents[pse.index()]);
            if n.deadline.before(p.deadline) {
                return false;
            }
        }
        self.set_buddy(pse, |queue| &mut queue.next);
        true
    }

    fn sync_wakeup_v619<H: Hooks>(
        &mut self,
        cpu: CpuId,
        q: QueueId,
        se: EntityId,
        pse: EntityId,
        flags: Wake,
        h: &mut H,
    ) {
        let mut threshold = self.profile.tunables.migration_cost.0;
        if flags.has(Wake::RQ_SELECTED) {
            threshold /= 4;
        }
        let now = self.clock_of(q);
        let (s, p) = (&self.ents[se.index()], &self.ents[pse.index()]);
        let ran = match self.profile.sync_since {
            SyncSince::ExecStart => now.saturating_sub(s.exec_start),
            SyncSince::SetRunning => s.sum_exec_runtime - s.prev_sum_exec_runtime,
        };
        if p.deadline.before(s.deadline) && ran >= threshold {
            self.preempt(cpu, Some(q), Reason::WakeupPreempt, h);
        }
    }

    /// Asks for a reschedule if the pick of this level, buddies left out, is the wakee.
    pub(crate) fn preempt_if_picked<H: Hooks>(
        &mut self,
        cpu: CpuId,
        q: QueueId,
        pse: EntityId,
        protect: bool,
        h: &mut H,
    ) -> bool {
        let mut picked = self.pick_eevdf(q, protect);
        h.point(self, crate::hooks::Point::Pick, q, picked);
        while let (true, Some(delayed)) = (self.profile.wakeup_ends_delays, picked) {
            if !self.ents[delayed.index()].sched_delayed {
                break;
            }
            self.dequeue_entities(cpu, delayed, Dequeue::SLEEP | Dequeue::DELAYED, h);
            picked = self.pick_eevdf(q, protect);
            h.point(self, crate::hooks::Point::Pick, q, picked);
        }
        if picked == Some(pse) {
            self.preempt(cpu, Some(q), Reason::WakeupPreempt, h);
        }
        picked == Some(pse)
    }

    pub(crate) fn preempt<H: Hooks>(
        &mut self,
        cpu: CpuId,
        q: Option<QueueId>,
        why: Reason,
        h: &mut H,
    ) {
        self.resched_curr(cpu, self.fair_resched(), why, q, h);
    }

    /// Lifts two entities until both are on the same queue (section 8.1 step 6).
    pub(crate) fn matching_pair(&self, se: EntityId, pse: EntityId) -> (EntityId, EntityId) {
        let (mut s, mut p) = (se, pse);
        while self.ents[s.index()].queue != self.ents[p.index()].queue {
            let (ds, dp) = (self.ents[s.index()].depth, self.ents[p.index()].depth);
            if ds >= dp {
                s = self.ents[s.index()].parent.unwrap_or(s);
            }
            if dp >= ds {
                p = self.ents[p.index()].parent.unwrap_or(p);
            }
        }
        (s, p)
    }

    /// Idle against non-idle (section 8.1 step 7): `true` if that decides whether the wakee preempts.
    fn decided_by_idle<H: Hooks>(
        &mut self,
        cpu: CpuId,
        se: EntityId,
        pse: EntityId,
        h: &mut H,
    ) -> bool {
        match (
            self.ents[se.index()].is_idle(),
            self.ents[pse.index()].is_idle(),
        ) {
            (true, false) => {
                if self.profile.idle_loses_protection {
                    self.cancel_protection(se);
                }
                self.preempt(cpu, None, Reason::IdlePreempt, h);
                true
            }
            (false, true) => true,
            _ => false,
        }
    }
}
