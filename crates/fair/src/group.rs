//! Group shares and weight changes (reference sections 7 and 10.3).

use crate::class::{Class, Resched, TaskPolicy, clamp_slice, task_load};
use crate::flags::Enqueue;
use crate::hooks::{Function, Hooks, Point, Reason};
use crate::ids::{CpuId, EntityId, GroupId, QueueId, TaskId};
use crate::profile::{Policy, ReweightRule};
use crate::units::{Ns, trunc_div};
use crate::weight::{Load, Weight};

impl Class {
    /// Brings the weight of a group entity up to date; nothing for tasks.
    #[inline]
    pub(crate) fn update_group_weight<H: Hooks>(&mut self, se: EntityId, h: &mut H) {
        if let Some(my_q) = self.ents[se.index()].my_q {
            self.update_share(se, my_q, h);
        }
    }

    fn update_share<H: Hooks>(&mut self, se: EntityId, my_q: QueueId, h: &mut H) {
        if self.queues[my_q.index()].load_weight == 0 || self.throttled_hierarchy(my_q) {
            return;
        }
        let computed = self.group_shares(my_q);
        let weight = h.group_weight(self, se, computed);
        if weight != self.ents[se.index()].load.weight {
            self.reweight_entity(se, Load::of_weight(weight), h);
        }
    }

    /// The share of its group's weight that a queue's entity gets (section 10.3).
    #[must_use]
    pub fn group_shares(&self, q: QueueId) -> Weight {
        let queue = &self.queues[q.index()];
        let group = &self.groups[queue.group.index()];
        let load = Weight(queue.load_weight).down().max(queue.avg.load_avg);
        let total = (group.load_avg + load).saturating_sub(queue.tg_load_avg_contrib);
        shares(group.shares, load, total)
    }

    /// Changes an entity's weight, keeping its lag and its request as the profile does (section 7).
    pub(crate) fn reweight_entity<H: Hooks>(&mut self, se: EntityId, load: Load, h: &mut H) {
        let q = self.ents[se.index()].queue;
        h.inside(self, Function::ReweightEntity);
        let is_curr = self.queues[q.index()].curr == Some(se);
        let on_rq = self.ents[se.index()].on_rq;
        let old = self.ents[se.index()].load;
        let rule = self.profile.reweight_rule;
        // Up to 6.6 run time is charged only if it is the running entity's own weight that changes.
        let only_own = matches!(rule, ReweightRule::None | ReweightRule::DeadlineOnly);
        if on_rq && (is_curr || !only_own) {
            self.update_curr(q, h);
        }
        match (on_rq, rule) {
            (true, ReweightRule::AroundV) => {
                let v = self.v_now(q);
                let vlag = self.lag_at(q, se, v);
                self.take_for_reweight(q, se, is_curr);
                self.reweight_around_v(se, v, vlag, old, load);
                self.put_after_reweight(q, se, load, is_curr);
            }
            (true, ReweightRule::Replace) => {
                let v = self.v_now(q);
                self.save_lag(q, se, v);
                self.take_for_reweight(q, se, is_curr);
                self.queues[q.index()].nr_queued -= 1;
                let rescale = self.profile.reweight_scales_protection && is_curr;
                let e = &mut self.ents[se.index()];
                let vprot = e.vprot.minus(e.vruntime);
                e.vlag = scale(e.vlag, old, load);
                let rel = e.deadline.minus(e.vruntime);
                e.deadline = crate::Vns(scale(rel, old, load) as u64);
                e.rel_deadline = true;
                self.set_load(se, load);
                self.place_entity(q, se, Enqueue::NONE, h);
                let e = &mut self.ents[se.index()];
                // Without PLACE_REL_DEADLINE the placement has made a new deadline and left the mark.
                e.rel_deadline = false;
                if rescale {
                    e.vprot = e.vruntime.offset(scale(vprot, old, load));
                }
                self.queues[q.index()].nr_queued += 1;
                self.put_after_reweight(q, se, load, is_curr);
            }
            (true, rule) => {
                self.take_for_reweight(q, se, is_curr);
                if rule == ReweightRule::DeadlineOnly {
                    let e = &mut self.ents[se.index()];
                    let rel = e.deadline.minus(e.vruntime);
                    e.deadline = e.vruntime.offset(scale(rel, old, load));
                }
                self.put_after_reweight(q, se, load, is_curr);
            }
            (false, ReweightRule::None) => self.set_load(se, load),
            (false, _) => {
                let scales = self.profile.reweight_scales_rel_deadline;
                let e = &mut self.ents[se.index()];
                e.vlag = scale(e.vlag, old, load);
                if e.rel_deadline && scales {
                    e.deadline = crate::Vns(scale(e.deadline.0 as i64, old, load) as u64);
                }
                self.set_load(se, load);
            }
        }
        h.point(self, Point::Reweight, q, Some(se));
    }

    /// Form A on the queue: V stays, lag and remaining request keep their service.
    fn reweight_around_v(&mut self, se: EntityId, v: crate::Vns, vlag: i64, old: Load, new: Load) {
        let e = &mut self.ents[se.index()];
        if v != e.vruntime {
            e.vruntime = v.offset(scale(vlag, old, new).wrapping_neg());
        }
        e.deadline = v.offset(scale(e.deadline.minus(v), old, new));
    }

    fn take_for_reweight(&mut self, q: QueueId, se: EntityId, is_curr: bool) {
        if !is_curr {
            self.tree_remove(q, se);
        }
        let w = self.ents[se.index()].load.weight.0;
        self.queues[q.index()].load_weight -= w;
    }

    fn put_after_reweight(&mut self, q: QueueId, se: EntityId, load: Load, is_curr: bool) {
        self.set_load(se, load);
        self.queues[q.index()].load_weight += load.weight.0;
        if !is_curr {
            self.tree_insert(q, se);
        }
        self.update_min_vruntime(q);
    }

    /// Sets weight and inverse and rescales what the entity adds to its queue's load average.
    fn set_load(&mut self, se: EntityId, load: Load) {
        let e = &mut self.ents[se.index()];
        let q = e.queue;
        let old_w = e.load.weight.down();
        let old_avg = e.avg.load_avg;
        e.load = load;
        let w = load.weight.down();
        e.avg.load_avg = w * e.avg.load_sum / e.avg.divider();
        let (sum, avg) = (e.avg.load_sum, e.avg.load_avg);
        if e.avg.last_update_time == 0 {
            return;
        }
        let queue = &mut self.queues[q.index()].avg;
        queue.load_avg = (queue.load_avg + avg).saturating_sub(old_avg);
        queue.load_sum = (queue.load_sum + w * sum).saturating_sub(old_w * sum);
        queue.load_sum = queue
            .load_sum
            .max(queue.load_avg * crate::load::MIN_DIVIDER);
    }

    /// Changes the nice level of a task that is off the queue (section 7).
    pub fn set_nice<H: Hooks>(&mut self, t: TaskId, nice: i8, h: &mut H) {
        self.ents[t.index()].nice = nice.clamp(-20, 19);
        self.reload_task(t, h);
    }

    /// Changes the policy of a task that is off the queue.
    pub fn set_policy<H: Hooks>(&mut self, t: TaskId, policy: TaskPolicy, h: &mut H) {
        self.ents[t.index()].policy = policy;
        self.reload_task(t, h);
    }

    /// Changes policy and nice level of a task that is off the queue at once, as `sched_setattr` does: the saved lag
    /// is scaled once.
    pub fn set_sched<H: Hooks>(&mut self, t: TaskId, policy: TaskPolicy, nice: i8, h: &mut H) {
        let e = &mut self.ents[t.index()];
        e.policy = policy;
        e.nice = nice.clamp(-20, 19);
        self.reload_task(t, h);
    }

    fn reload_task<H: Hooks>(&mut self, t: TaskId, h: &mut H) {
        let e = &self.ents[t.index()];
        debug_assert!(!e.on_rq, "attributes change off the queue");
        let load = task_load(e.nice, e.policy);
        self.reweight_entity(t.entity(), load, h);
    }

    /// Changes the custom slice of a task; `None` for the default (section 3.1).
    ///
    /// Ignored by profiles without custom slices.
    pub fn set_slice(&mut self, t: TaskId, slice: Option<Ns>) {
        let base = self.base_slice();
        let custom = self.profile.custom_slice;
        let slice = slice.filter(|_| custom).map(clamp_slice);
        self.ents[t.index()].custom_slice = slice.is_some();
        self.set_slice_in_place(t.entity(), slice.unwrap_or(base).0);
    }

    /// Moves a task that is off the queue to another group. A task that waits for quota in its old group
    /// (6.18 on) waits in the new one if that has none either.
    ///
    /// `true`: it waited for quota and does so no more, so the caller must enqueue it.
    pub fn set_group(&mut self, t: TaskId, group: GroupId) -> bool {
        debug_assert!(!self.ents[t.index()].on_rq, "groups change off the queue");
        let cpu = self.task_cpu(t);
        let se = t.entity();
        let waited = self.leave_limbo(t);
        self.leave_cpu(se);
        let absolute = self.profile.policy == Policy::Cfs && !self.ents[t.index()].relative;
        if absolute {
            // A sleeper takes its place among its old peers with it, after the credit of a wakeup there.
            let from = self.ents[t.index()].queue;
            self.place_cfs(from, se, false);
            self.normalise_out(from, se, false);
        }
        self.ents[t.index()].group = group;
        self.set_task_queue(se, cpu);
        let q = self.ents[t.index()].queue;
        if absolute {
            self.normalise_in(q, se);
        }
        if waited && self.throttled_hierarchy(q) {
            self.enter_limbo(t);
            return false;
        }
        waited
    }

    /// After a nice or policy change of a queued task (section 7): asks for a reschedule if the running
    /// task lost, or checks whether the task should preempt.
    pub fn prio_changed<H: Hooks>(
        &mut self,
        cpu: CpuId,
        t: TaskId,
        lowered: bool,
        now: Ns,
        h: &mut H,
    ) {
        self.set_clock(cpu, now);
        let root = self.rqs[cpu.index()].cfs;
        if !self.is_on_rq(t) || self.queues[root.index()].nr_queued == 1 {
            return;
        }
        if self.curr(cpu) == Some(t) {
            if lowered {
                self.resched_curr(cpu, Resched::Full, Reason::PrioChange, None, h);
            }
        } else {
            self.wakeup_preempt(cpu, t, crate::Wake::NONE, now, h);
        }
    }

    /// Changes a group's shares, clamped to 2048 to 2^28 full weight, and updates its entities on every CPU. `now`
    /// gives each CPU's clock.
    ///
    /// Nothing changes for the root, for an idle group (`cpu.idle`), which keeps its weight, or with the shares it has.
    pub fn set_shares<H: Hooks>(
        &mut self,
        g: GroupId,
        shares: Weight,
        now: impl Fn(CpuId) -> Ns,
        h: &mut H,
    ) {
        if g != GroupId::ROOT && !self.groups[g.index()].idle {
            self.share_out(g, clamp_shares(shares), &now, h);
        }
    }

    /// Sets or clears `cpu.idle` of a group (section 10.5): its weight becomes that of `SCHED_IDLE`, or the default again,
    /// and its tasks count as idle above it. The root cannot be idle.
    pub fn set_group_idle<H: Hooks>(
        &mut self,
        g: GroupId,
        idle: bool,
        now: impl Fn(CpuId) -> Ns,
        h: &mut H,
    ) {
        if g == GroupId::ROOT || self.groups[g.index()].idle == idle {
            return;
        }
        self.groups[g.index()].idle = idle;
        for cpu in 0..self.rqs.len() {
            let group = &self.groups[g.index()];
            let (se, q) = (group.entities[cpu], group.queues[cpu]);
            self.ents[se.index()].idle_group = idle;
            let below = &self.queues[q.index()];
            let busy = below.h_nr_queued - below.h_nr_idle;
            if self.ents[se.index()].on_rq {
                let above = self.ents[se.index()].queue;
                let n = &mut self.queues[above.index()].idle_nr;
                *n = if idle { *n + 1 } else { *n - 1 };
            }
            let mut level = Some(se);
            while let Some(s) = level {
                let e = &self.ents[s.index()];
                if !e.on_rq {
                    break;
                }
                let queue = &mut self.queues[e.queue.index()];
                let n = &mut queue.h_nr_idle;
                *n = if idle { *n + busy } else { *n - busy };
                if self.groups[queue.group.index()].idle {
                    // Counted there and above already.
                    break;
                }
                level = e.parent;
            }
        }
        let shares = if idle { Weight::IDLE } else { Weight::NICE_0 };
        self.share_out(g, shares, &now, h);
    }

    fn share_out<H: Hooks>(
        &mut self,
        g: GroupId,
        shares: Weight,
        now: &impl Fn(CpuId) -> Ns,
        h: &mut H,
    ) {
        if self.groups[g.index()].shares == shares {
            return;
        }
        self.groups[g.index()].shares = shares;
        for cpu in 0..self.rqs.len() {
            let id = CpuId(cpu as u32);
            self.set_clock(id, now(id));
            let mut level = Some(self.groups[g.index()].entities[cpu]);
            while let Some(se) = level {
                let q = self.ents[se.index()].queue;
                self.update_load_avg(q, se, crate::load::Attach::No, true);
                self.update_group_weight(se, h);
                level = self.ents[se.index()].parent;
            }
        }
    }
}

/// Shares that a user may configure: 2 to 2^18, times 1024.
pub(crate) fn clamp_shares(shares: Weight) -> Weight {
    shares.clamp(Weight(Weight::MIN_SHARES.0 << 10), Weight::MAX_SHARES)
}

/// `x · old / new` by full weights, truncated toward zero.
fn scale(x: i64, old: Load, new: Load) -> i64 {
    trunc_div(
        i128::from(x) * i128::from(old.weight.0),
        new.weight.0.max(1),
    )
}

/// `tg_shares · load / total`, clamped to 2 and `tg_shares`.
pub(crate) fn shares(tg_shares: Weight, load: u64, total: u64) -> Weight {
    let product = tg_shares.0.saturating_mul(load);
    let s = product.checked_div(total).unwrap_or(product);
    Weight(s.clamp(Weight::MIN_SHARES.0, tg_shares.0.max(Weight::MIN_SHARES.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_section_10_3() {
        let s = Weight(1_048_576);
        assert_eq!(shares(s, 1024, 1024), Weight(1_048_576));
        assert_eq!(shares(s, 1024, 2048), Weight(524_288));
        // Load just arrived: average and contribution 0, the others sum to 3072.
        assert_eq!(shares(s, 1024, 3072 + 1024), Weight(262_144));
        // avg 300, contrib 300, tg 1324: T = 1324 - 300 + 1024.
        assert_eq!(shares(s, 1024, 1324 - 300 + 1024), Weight(524_288));
        assert_eq!(shares(s, 1, 10_000_000), Weight(2));
    }
}
