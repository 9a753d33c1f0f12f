//! Invariants of the class (reference section 23), checked in every debug build and on request.

use alloc::format;
use alloc::string::String;

use crate::class::Class;
use crate::ids::{CpuId, EntityId, QueueId};
use crate::profile::Policy;

/// An invariant that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Number of the invariant in reference section 23.
    pub invariant: u8,
    /// Queue concerned.
    pub queue: QueueId,
    /// What was found.
    pub what: String,
}

impl core::fmt::Display for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "invariant {} broken on queue {}: {}",
            self.invariant, self.queue, self.what
        )
    }
}

impl core::error::Error for Violation {}

impl Class {
    /// Checks every queue of a CPU.
    ///
    /// # Errors
    ///
    /// The first invariant that does not hold. That is a fault of the class, or of calls out of order.
    pub fn verify(&self, cpu: CpuId) -> Result<(), Violation> {
        for group in &self.groups {
            self.verify_queue(group.queues[cpu.index()])?;
        }
        let rq = &self.rqs[cpu.index()];
        let root = &self.queues[rq.cfs.index()];
        if rq.nr_fair != root.h_nr_queued {
            return Err(Violation {
                invariant: 2,
                queue: rq.cfs,
                what: format!(
                    "nr_running {} but h_nr_queued {}",
                    rq.nr_fair, root.h_nr_queued
                ),
            });
        }
        Ok(())
    }

    /// Turns the checks behind every operation on or off; they are on in debug builds, off in release builds.
    ///
    /// Only CPUs with at most 64 fair tasks are checked, so that the cost stays bounded.
    pub fn set_checks(&mut self, on: bool) {
        self.checks = on;
    }

    /// The first invariant that was found broken behind an operation, if any; clears it.
    pub fn take_violation(&mut self) -> Option<Violation> {
        self.violation.take()
    }

    /// Checks the queues of a CPU after an operation, if checks are on and the queues short.
    #[inline]
    pub(crate) fn debug_verify(&mut self, cpu: CpuId) {
        if !self.checks || self.violation.is_some() {
            return;
        }
        let root = &self.queues[self.rqs[cpu.index()].cfs.index()];
        if root.h_nr_queued <= 64 {
            self.violation = self.verify(cpu).err();
            debug_assert!(
                self.violation.is_none(),
                "invariant broken: {:?}",
                self.violation
            );
        }
    }

    fn verify_queue(&self, q: QueueId) -> Result<(), Violation> {
        let queue = &self.queues[q.index()];
        let fail = |invariant, what| {
            Err(Violation {
                invariant,
                queue: q,
                what,
            })
        };
        let mut nr = 0;
        let mut load = 0;
        let mut h_queued = 0;
        let mut h_runnable = 0;
        let mut h_idle = 0;
        let mut idle = 0;
        let mut sum_w = 0;
        let mut sum_wv = 0;
        let mut order: Option<EntityId> = None;
        for se in queue.tree.iter().chain(self.running_on(q)) {
            let e = &self.ents[se.index()];
            let in_tree = queue.curr != Some(se);
            if e.queue != q || !e.on_rq || e.in_tree() != in_tree {
                return fail(1, format!("entity {se} is out of place"));
            }
            nr += 1;
            load += e.load.weight.0;
            idle += u32::from(e.is_idle());
            match e.my_q {
                Some(below) => {
                    let b = &self.queues[below.index()];
                    h_queued += b.h_nr_queued;
                    h_runnable += b.h_nr_runnable;
                    h_idle += if e.idle_group {
                        b.h_nr_queued
                    } else {
                        b.h_nr_idle
                    };
                    if b.nr_queued == 0 && !e.sched_delayed {
                        return fail(1, format!("group entity {se} is queued with nothing below"));
                    }
                }
                None => {
                    h_queued += 1;
                    h_runnable += u32::from(!e.sched_delayed);
                    h_idle += u32::from(e.is_idle());
                }
            }
            if in_tree {
                let w = e.load.weight.down();
                sum_w += w;
                sum_wv += i128::from(e.vruntime.minus(queue.anchor)) * i128::from(w);
                if let (Some(prev), Policy::Eevdf) = (order, self.profile.policy)
                    && e.deadline.before(self.ents[prev.index()].deadline)
                {
                    return fail(6, format!("{se} is queued behind a later deadline"));
                }
                order = Some(se);
            }
        }
        if nr != queue.nr_queued {
            return fail(2, format!("nr {} but {nr} entities", queue.nr_queued));
        }
        if (h_queued, h_runnable) != (queue.h_nr_queued, queue.h_nr_runnable) {
            return fail(
                2,
                format!(
                    "h_nr_queued {}, h_nr_runnable {} but {h_queued}, {h_runnable} below",
                    queue.h_nr_queued, queue.h_nr_runnable
                ),
            );
        }
        if (h_idle, idle) != (queue.h_nr_idle, queue.idle_nr) {
            return fail(
                2,
                format!(
                    "h_nr_idle {}, idle_nr {} but {h_idle} below, {idle} here",
                    queue.h_nr_idle, queue.idle_nr
                ),
            );
        }
        if load != queue.load_weight {
            return fail(
                3,
                format!("load {} but weights sum to {load}", queue.load_weight),
            );
        }
        if (sum_w, sum_wv) != (queue.sum_weight, queue.sum_w_vruntime) {
            return fail(
                4,
                format!(
                    "sums {} {} but {sum_w} {sum_wv}",
                    queue.sum_weight, queue.sum_w_vruntime
                ),
            );
        }
        if let Some(what) = queue.tree.disorder() {
            return fail(6, String::from(what));
        }
        self.verify_throttling(q)?;
        if nr > 0 && self.profile.policy == Policy::Eevdf {
            self.verify_virtual_time(q)?;
        }
        Ok(())
    }

    /// Invariant 16: a throttled queue is off its parent, and what is below knows it.
    fn verify_throttling(&self, q: QueueId) -> Result<(), Violation> {
        let queue = &self.queues[q.index()];
        let fail = |what| {
            Err(Violation {
                invariant: 16,
                queue: q,
                what,
            })
        };
        let owner = queue.owner.map(|o| &self.ents[o.index()]);
        if self.cut_off(q) && owner.is_some_and(|o| o.on_rq) {
            return fail(String::from("throttled, but queued in its parent"));
        }
        let above = owner.map_or(0, |o| self.queues[o.queue.index()].throttle_count);
        let want = above + u32::from(queue.throttled);
        if queue.throttle_count != want {
            return fail(format!(
                "throttle_count {} but {want} queues are throttled",
                queue.throttle_count
            ));
        }
        let waits = |t: crate::TaskId| {
            let e = &self.ents[t.index()];
            e.in_limbo && !e.on_rq && e.queue == q
        };
        if !self.waiting_for_quota(q).all(waits) {
            return fail(String::from("a task waits for quota in the wrong place"));
        }
        Ok(())
    }

    /// Invariants 4 and 7: somebody is eligible, V lies among them, the pick equals a linear scan.
    fn verify_virtual_time(&self, q: QueueId) -> Result<(), Violation> {
        let queue = &self.queues[q.index()];
        let all = || queue.tree.iter().chain(self.running_on(q));
        if !all().any(|se| self.entity_eligible(se)) {
            return Err(Violation {
                invariant: 4,
                queue: q,
                what: String::from("nobody is eligible"),
            });
        }
        let v = self.v(q);
        let outside = all().all(|se| v.before(self.ents[se.index()].vruntime))
            || all().all(|se| self.ents[se.index()].vruntime.offset(1).before(v));
        if outside {
            return Err(Violation {
                invariant: 4,
                queue: q,
                what: format!("V {v} lies outside the vruntimes"),
            });
        }
        let mut want: Option<EntityId> = None;
        for se in all() {
            let d = self.ents[se.index()].deadline;
            let earlier = want.is_none_or(|w| d.before(self.ents[w.index()].deadline));
            if self.entity_eligible(se) && earlier {
                want = Some(se);
            }
        }
        let in_pick_buddy = self.profile.buddy_pick == crate::profile::BuddyPick::InPick;
        if queue.nr_queued > 1 && !(in_pick_buddy && queue.next.is_some()) {
            let got = self.pick_eevdf(q, false);
            if got != want {
                return Err(Violation {
                    invariant: 7,
                    queue: q,
                    what: format!("pick {got:?}, linear scan {want:?}"),
                });
            }
        }
        Ok(())
    }
}
