//! `sched_yield` and `yield_to`: five variants side by side (reference section 9).

use crate::class::Class;
use crate::hooks::{Function, Hooks};
use crate::ids::{CpuId, TaskId};
use crate::profile::{Feature, YieldRule};
use crate::units::Ns;
use crate::weight::calc_delta_fair;

impl Class {
    /// `sched_yield` of the fair task that is current on `cpu`. The caller then schedules.
    ///
    /// Nothing changes if it is the only runnable task of the CPU.
    pub fn yield_task<H: Hooks>(&mut self, cpu: CpuId, now: Ns, h: &mut H) {
        self.set_clock(cpu, now);
        let Some(curr) = self.curr(cpu) else { return };
        h.inside(self, Function::Yield(cpu));
        if self.nr_running(cpu) == 1 {
            return;
        }
        let se = curr.entity();
        let q = self.ents[se.index()].queue;
        self.clear_buddies(se);
        let rule = self.profile.yield_rule;
        if rule == YieldRule::Skip {
            self.yield_cfs(q, se, h);
            return;
        }
        self.update_curr(q, h);
        let eligible = self.entity_eligible(se);
        let e = &mut self.ents[se.index()];
        let vslice = calc_delta_fair(e.slice, e.load);
        match rule {
            YieldRule::Skip => {}
            YieldRule::DeadlinePush => e.deadline = e.deadline.plus(vslice),
            YieldRule::DeadlineReset => e.deadline = e.vruntime.plus(vslice),
            YieldRule::Forfeit => {
                e.vruntime = e.deadline;
                e.deadline = e.deadline.plus(vslice);
                self.update_min_vruntime(q);
            }
            YieldRule::ForfeitEligible if eligible => {
                e.vruntime = e.deadline;
                e.deadline = e.deadline.plus(vslice);
                self.update_min_vruntime(q);
            }
            YieldRule::ForfeitRenew if eligible => {
                e.vruntime = e.deadline;
                self.update_deadline(q, se, h);
            }
            YieldRule::ForfeitEligible | YieldRule::ForfeitRenew => {}
        }
        self.debug_verify(cpu);
    }

    /// Marks `target`, queued on `cpu`, as next buddy; `false` if it cannot run or runs already (section 9.3).
    ///
    /// The caller then lets its own current task yield.
    pub fn yield_to_task<H: Hooks>(
        &mut self,
        cpu: CpuId,
        target: TaskId,
        now: Ns,
        _h: &mut H,
    ) -> bool {
        self.set_clock(cpu, now);
        let e = &self.ents[target.index()];
        if !e.on_rq || e.sched_delayed || self.stopped_hierarchy(e.queue) {
            return false;
        }
        if self.curr(cpu) == Some(target) {
            return false;
        }
        self.set_buddy(target.entity(), |queue| &mut queue.next);
        true
    }

    /// The regular tick of the fair task that is current on `cpu` (section 3.5): every level is charged.
    pub fn task_tick<H: Hooks>(&mut self, cpu: CpuId, now: Ns, h: &mut H) {
        self.set_clock(cpu, now);
        let Some(curr) = self.curr(cpu) else { return };
        h.inside(self, Function::Tick(cpu));
        let mut level = Some(curr.entity());
        while let Some(se) = level {
            self.entity_tick(se, h);
            level = self.ents[se.index()].parent;
        }
        self.debug_verify(cpu);
    }

    fn entity_tick<H: Hooks>(&mut self, se: crate::EntityId, h: &mut H) {
        let q = self.ents[se.index()].queue;
        h.inside(self, Function::EntityTick);
        self.update_curr(q, h);
        self.update_load_avg(q, se, crate::load::Attach::No, true);
        self.update_group_weight(se, h);
        if self.profile.policy == crate::profile::Policy::Cfs {
            self.tick_cfs(q, se, h);
        }
    }

    /// Time until HRTICK should fire for the current fair task, if the switch is on and it is not alone
    /// (section 3.8). Zero: the slice is used up.
    #[must_use]
    pub fn hrtick_delay(&self, cpu: CpuId) -> Option<Ns> {
        if !self.feat(Feature::Hrtick) {
            return None;
        }
        let curr = self.curr(cpu)?;
        let root = self.rqs[cpu.index()].cfs;
        if self.queues[root.index()].h_nr_queued <= 1 {
            return None;
        }
        let e = &self.ents[curr.index()];
        let ran = e.sum_exec_runtime - e.prev_sum_exec_runtime;
        let slice = match self.profile.policy {
            crate::profile::Policy::Cfs => self.slice_cfs(e.queue, curr.entity()),
            crate::profile::Policy::Eevdf => e.slice,
        };
        Some(Ns(slice.saturating_sub(ran)))
    }
}
