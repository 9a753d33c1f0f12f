//! CFS as in 6.1 (reference section 17).

use crate::class::{Class, Resched, TaskPolicy};
use crate::flags::{Enqueue, Wake};
use crate::hooks::{Hooks, Reason};
use crate::ids::{CpuId, EntityId, QueueId};
use crate::profile::Feature;
use crate::units::Ns;
use crate::weight::{Load, Weight, calc_delta, calc_delta_fair};

/// Sleep after which a vruntime is set anew rather than compared, ns: 2^63 / 1024.
const LONG_SLEEP: u64 = 1 << 53;

impl Class {
    fn cfs_latency(&self) -> u64 {
        self.profile.tunables.cfs_latency.0 * self.scaling_factor()
    }

    fn cfs_min_granularity(&self) -> u64 {
        self.profile.tunables.cfs_min_granularity.0 * self.scaling_factor()
    }

    fn nr_latency(&self) -> u64 {
        let t = &self.profile.tunables;
        t.cfs_latency.0.div_ceil(t.cfs_min_granularity.0.max(1))
    }

    /// Wall time that an entity should run before the others' turn.
    pub(crate) fn slice_cfs(&self, q: QueueId, se: EntityId) -> u64 {
        let on_rq = self.ents[se.index()].on_rq;
        let rq = &self.rqs[self.queues[q.index()].cpu.index()];
        let nr = if self.feat(Feature::AltPeriod) {
            self.queues[rq.cfs.index()].h_nr_queued
        } else {
            self.queues[q.index()].nr_queued
        };
        let nr = u64::from(nr) + u64::from(!on_rq);
        let mut slice = if nr > self.nr_latency() {
            nr * self.cfs_min_granularity()
        } else {
            self.cfs_latency()
        };
        let mut level = Some(se);
        while let Some(s) = level {
            let e = &self.ents[s.index()];
            let mut sum = self.queues[e.queue.index()].load_weight;
            if !e.on_rq {
                sum += e.load.weight.0;
            }
            slice = calc_delta(slice, e.load.weight, Load::of_weight(Weight(sum)));
            level = e.parent;
        }
        if self.feat(Feature::BaseSlice) {
            let queue = &self.queues[q.index()];
            let idle_among_others =
                self.ents[se.index()].is_idle() && queue.nr_queued != queue.idle_nr;
            let min = if idle_among_others {
                self.profile.tunables.cfs_idle_min_granularity.0
            } else {
                self.cfs_min_granularity()
            };
            slice = slice.max(min);
        }
        slice
    }

    /// A vruntime that was kept relative to a queue's minimum becomes absolute again.
    pub(crate) fn normalise_in(&mut self, q: QueueId, se: EntityId) {
        let min = self.queues[q.index()].anchor;
        let e = &mut self.ents[se.index()];
        if e.relative {
            e.vruntime = e.vruntime.plus(min.0);
            e.relative = false;
        }
    }

    /// A vruntime is kept relative while its entity is off the queue for anything but sleep.
    pub(crate) fn normalise_out(&mut self, q: QueueId, se: EntityId, sleep: bool) {
        let min = self.queues[q.index()].anchor;
        let e = &mut self.ents[se.index()];
        if !sleep && !e.relative {
            e.vruntime = e.vruntime.plus(0u64.wrapping_sub(min.0));
            e.relative = true;
        }
    }

    /// Whether an enqueue places the entity: wakeups do, and the first enqueue of a task without a parent.
    pub(crate) fn places_cfs(&self, se: EntityId, flags: Enqueue) -> bool {
        if flags.has(Enqueue::INITIAL) {
            !self.ents[se.index()].forked
        } else {
            flags.has(Enqueue::WAKEUP)
        }
    }

    /// Sleeper credit and start debit.
    pub(crate) fn place_cfs(&mut self, q: QueueId, se: EntityId, initial: bool) {
        let min = self.queues[q.index()].anchor;
        let mut target = min;
        if initial {
            if self.feat(Feature::StartDebit) {
                let slice = self.slice_cfs(q, se);
                target = target.plus(calc_delta_fair(slice, self.ents[se.index()].load));
            }
        } else {
            let mut thresh = if self.ents[se.index()].is_idle() {
                self.cfs_min_granularity()
            } else {
                self.cfs_latency()
            };
            if self.feat(Feature::GentleFairSleepers) {
                thresh >>= 1;
            }
            target = target.offset((thresh as i64).wrapping_neg());
        }
        let now = self.clock_of(q);
        let e = &mut self.ents[se.index()];
        let slept = now.wrapping_sub(e.exec_start);
        e.vruntime = if !initial && e.exec_start != 0 && (slept as i64) > 0 && slept > LONG_SLEEP {
            target
        } else {
            e.vruntime.later(target)
        };
    }

    /// The vruntime of a forked task, relative to its parent's queue.
    pub(crate) fn fork_cfs(&mut self, q: QueueId, child: EntityId) {
        self.ents[child.index()].relative = false;
        self.place_cfs(q, child, true);
        self.normalise_out(q, child, false);
    }

    pub(crate) fn tick_cfs<H: Hooks>(&mut self, q: QueueId, se: EntityId, h: &mut H) {
        if self.queues[q.index()].nr_queued <= 1 {
            return;
        }
        let cpu = self.queues[q.index()].cpu;
        let armed = self.hrtick_delay(cpu).is_some_and(|d| d > Ns::ZERO);
        if armed && !self.feat(Feature::DoubleTick) {
            // The high-resolution timer will end the slice.
            return;
        }
        let ideal = self.slice_cfs(q, se);
        let e = &self.ents[se.index()];
        let ran = e.sum_exec_runtime - e.prev_sum_exec_runtime;
        if ran > ideal {
            self.resched_curr(cpu, Resched::Full, Reason::SliceConsumed, Some(q), h);
            self.clear_buddies(se);
            return;
        }
        if ran < self.cfs_min_granularity() {
            return;
        }
        let Some(first) = self.queues[q.index()].tree.first() else {
            return;
        };
        let ahead = self.ents[se.index()]
            .vruntime
            .minus(self.ents[first.index()].vruntime);
        // A difference in virtual time against a slice in wall time, as the kernel compares.
        if ahead >= 0 && ahead as u64 > ideal {
            self.resched_curr(cpu, Resched::Full, Reason::Unprotected, Some(q), h);
        }
    }

    /// −1: `se` would not give way to `other`; 0: not by enough; 1: it would.
    fn gives_way(&self, se: EntityId, other: EntityId) -> i32 {
        let (s, o) = (&self.ents[se.index()], &self.ents[other.index()]);
        let vdiff = s.vruntime.minus(o.vruntime);
        if vdiff <= 0 {
            return -1;
        }
        let gran = self.profile.tunables.cfs_wakeup_granularity.0 * self.scaling_factor();
        i32::from(vdiff as u64 > calc_delta_fair(gran, o.load))
    }

    pub(crate) fn wakeup_cfs<H: Hooks>(
        &mut self,
        cpu: CpuId,
        se: EntityId,
        pse: EntityId,
        flags: Wake,
        h: &mut H,
    ) {
        let q = self.ents[se.index()].queue;
        let many = u64::from(self.queues[q.index()].nr_queued) >= self.nr_latency();
        let marked = self.feat(Feature::NextBuddy) && many && !flags.has(Wake::FORK);
        let Some((s, p)) = self.wakeup_until_612(cpu, se, pse, marked, h) else {
            return;
        };
        let level = self.ents[s.index()].queue;
        self.update_curr(level, h);
        if self.gives_way(s, p) != 1 {
            return;
        }
        if !marked {
            self.set_buddy(p, |queue| &mut queue.next);
        }
        self.preempt(cpu, Some(level), Reason::WakeupPreempt, h);
        if self.feat(Feature::LastBuddy) && many && self.ents[s.index()].is_task() {
            self.set_buddy(s, |queue| &mut queue.last);
        }
    }

    pub(crate) fn pick_cfs(&self, q: QueueId) -> Option<EntityId> {
        let queue = &self.queues[q.index()];
        let curr = self.running_on(q);
        let before = |a: EntityId, b: EntityId| {
            self.ents[a.index()]
                .vruntime
                .before(self.ents[b.index()].vruntime)
        };
        let earlier = |x: Option<EntityId>| match (x, curr) {
            (Some(x), Some(c)) if before(c, x) => Some(c),
            (None, c) => c,
            (x, _) => x,
        };
        let left = earlier(queue.tree.first())?;
        let mut se = left;
        if queue.skip == Some(se) {
            let second = if Some(se) == curr {
                queue.tree.first()
            } else {
                earlier(queue.tree.second())
            };
            if let Some(second) = second
                && self.gives_way(second, left) < 1
            {
                se = second;
            }
        }
        if let Some(next) = queue.next
            && self.gives_way(next, left) < 1
        {
            return Some(next);
        }
        if let Some(last) = queue.last
            && self.gives_way(last, left) < 1
        {
            return Some(last);
        }
        Some(se)
    }

    /// Y0: the yielding entity is skipped at the next pick.
    pub(crate) fn yield_cfs<H: Hooks>(&mut self, q: QueueId, se: EntityId, h: &mut H) {
        if self.ents[se.index()].policy != TaskPolicy::Batch {
            self.update_curr(q, h);
        }
        let mut level = Some(se);
        while let Some(s) = level {
            let e = &self.ents[s.index()];
            self.queues[e.queue.index()].skip = Some(s);
            level = e.parent;
        }
    }
}
