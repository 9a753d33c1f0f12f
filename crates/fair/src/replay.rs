//! Entry points for replays of recordings, which begin in the middle of a history and know facts that a
//! simulation computes.

use crate::class::{Class, TaskPolicy};
use crate::hooks::Hooks;
use crate::ids::{CpuId, EntityId, QueueId, TaskId};
use crate::units::{Ns, Vns};
use crate::weight::{Load, NICE_WEIGHT, Weight};

/// State of an entity as a recording shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// Virtual run time.
    pub vruntime: Vns,
    /// Deadline, relative if `rel_deadline`.
    pub deadline: Vns,
    /// Saved lag, or the protection marker while running.
    pub vlag: i64,
    /// Slice, ns.
    pub slice: u64,
    /// Full weight.
    pub weight: Weight,
    /// Delayed dequeue.
    pub sched_delayed: bool,
    /// The deadline is relative.
    pub rel_deadline: bool,
    /// The slice is no default.
    pub custom_slice: bool,
    /// Run time in all, ns.
    pub sum_exec_runtime: u64,
    /// `clock_task` of the last accounting.
    pub exec_start: u64,
}

impl Class {
    /// Sets the state of an entity that is off its queue.
    pub fn set_recorded(&mut self, se: EntityId, r: &Recorded) {
        let e = &mut self.ents[se.index()];
        debug_assert!(!e.on_rq && !e.in_tree(), "state is set off the queue");
        e.vruntime = r.vruntime;
        e.deadline = r.deadline;
        e.vlag = r.vlag;
        e.slice = r.slice;
        e.sched_delayed = r.sched_delayed;
        e.rel_deadline = r.rel_deadline;
        e.custom_slice = r.custom_slice;
        e.sum_exec_runtime = r.sum_exec_runtime;
        e.prev_sum_exec_runtime = r.sum_exec_runtime;
        e.exec_start = r.exec_start;
        if e.is_task() {
            let (nice, policy) = nice_of(r.weight);
            if let Some(nice) = nice {
                e.nice = nice;
            }
            if policy == TaskPolicy::Idle || e.policy == TaskPolicy::Idle {
                e.policy = policy;
            }
            e.load = crate::class::task_load(e.nice, e.policy);
        } else {
            e.load = Load::of_weight(r.weight);
        }
    }

    /// Takes everything off every queue of a CPU without any accounting, so that it can be filled anew.
    pub fn reset_cpu(&mut self, cpu: CpuId) {
        for g in 0..self.groups.len() {
            let q = self.groups[g].queues[cpu.index()];
            let all: alloc::vec::Vec<EntityId> = {
                let queue = &self.queues[q.index()];
                queue.tree.iter().chain(queue.curr).collect()
            };
            for se in all {
                self.tree_remove(q, se);
                let e = &mut self.ents[se.index()];
                e.on_rq = false;
                e.sched_delayed = false;
            }
            let queue = &mut self.queues[q.index()];
            queue.curr = None;
            queue.next = None;
            queue.last = None;
            queue.skip = None;
            queue.nr_queued = 0;
            queue.h_nr_queued = 0;
            queue.h_nr_runnable = 0;
            queue.h_nr_idle = 0;
            queue.idle_nr = 0;
            queue.load_weight = 0;
            queue.throttled = false;
            queue.throttle_count = 0;
            queue.throttled_at = None;
            queue.pelt_frozen_at = None;
        }
        self.rqs[cpu.index()].nr_fair = 0;
    }

    /// Sets a queue's anchor.
    pub fn set_anchor(&mut self, q: QueueId, anchor: Vns) {
        self.move_anchor(q, anchor);
    }

    /// Puts an entity onto its queue as it is, without placement; `running` makes it the level's current one.
    ///
    /// Children first: a group entity takes its counters from its own queue.
    pub fn insert_recorded(&mut self, se: EntityId, running: bool) {
        let e = &self.ents[se.index()];
        let q = e.queue;
        let (queued, runnable, idle) = match e.my_q {
            Some(below) => {
                let b = &self.queues[below.index()];
                let idle = if e.idle_group {
                    b.h_nr_queued
                } else {
                    b.h_nr_idle
                };
                (b.h_nr_queued, b.h_nr_runnable, idle)
            }
            None => (
                1,
                u32::from(!e.sched_delayed),
                u32::from(e.policy == TaskPolicy::Idle),
            ),
        };
        let (weight, is_idle) = (e.load.weight.0, e.is_idle());
        self.ents[se.index()].on_rq = true;
        let queue = &mut self.queues[q.index()];
        queue.nr_queued += 1;
        queue.load_weight += weight;
        queue.idle_nr += u32::from(is_idle);
        queue.h_nr_queued += queued;
        queue.h_nr_runnable += runnable;
        queue.h_nr_idle += idle;
        if queue.owner.is_none() {
            let cpu = queue.cpu;
            self.rqs[cpu.index()].nr_fair += queued;
        }
        if running {
            self.queues[q.index()].curr = Some(se);
        } else {
            self.tree_insert(q, se);
        }
    }

    /// Makes an entity that is blocking right now (off the queue, not yet put) the current one of its level.
    pub fn set_blocking_curr(&mut self, se: EntityId) {
        let q = self.ents[se.index()].queue;
        self.queues[q.index()].curr = Some(se);
    }

    /// Changes the weight of a task that is off the queue to a recorded one.
    pub fn reweight_task<H: Hooks>(&mut self, t: TaskId, weight: Weight, h: &mut H) {
        let (nice, policy) = nice_of(weight);
        let e = &mut self.ents[t.index()];
        if policy == TaskPolicy::Idle || e.policy == TaskPolicy::Idle {
            e.policy = policy;
        }
        if let Some(nice) = nice {
            e.nice = nice;
        }
        let load = crate::class::task_load(e.nice, e.policy);
        self.reweight_entity(t.entity(), load, h);
    }

    /// Changes the weight of a group entity to a recorded one.
    pub fn reweight_group<H: Hooks>(&mut self, se: EntityId, weight: Weight, now: Ns, h: &mut H) {
        let cpu = self.queues[self.ents[se.index()].queue.index()].cpu;
        self.set_clock(cpu, now);
        self.reweight_entity(se, Load::of_weight(weight), h);
    }

    /// Whether idleness alone decides a wakeup of `wakee` against `curr` (section 8.1 step 7), or the wakee is idle.
    #[must_use]
    pub fn idle_decides(&self, curr: TaskId, wakee: TaskId) -> bool {
        let (s, p) = self.matching_pair(curr.entity(), wakee.entity());
        let idle = |e: EntityId| self.ents[e.index()].is_idle();
        idle(s) != idle(p) || self.ents[wakee.index()].policy == TaskPolicy::Idle
    }

    /// Marks a group as idle (`cpu.idle`) or not, and counts its tasks so from now on.
    pub fn assume_group_idle(&mut self, g: crate::GroupId, idle: bool) {
        if self.groups[g.index()].idle == idle || g == crate::GroupId::ROOT {
            return;
        }
        for i in 0..self.groups[g.index()].queues.len() {
            let own = &self.queues[self.groups[g.index()].queues[i].index()];
            let delta = own.h_nr_queued - own.h_nr_idle;
            let se = self.groups[g.index()].entities[i];
            self.ents[se.index()].idle_group = idle;
            if self.ents[se.index()].on_rq {
                let n = &mut self.queues[self.ents[se.index()].queue.index()].idle_nr;
                *n = if idle { *n + 1 } else { *n - 1 };
            }
            let mut level = Some(se);
            while let Some(s) = level {
                let e = &self.ents[s.index()];
                if !e.on_rq {
                    break;
                }
                let q = e.queue;
                level = e.parent;
                let n = &mut self.queues[q.index()].h_nr_idle;
                *n = if idle {
                    *n + delta
                } else {
                    n.saturating_sub(delta)
                };
                // Above an idle group its tasks count as idle already.
                if self.groups[self.queues[q.index()].group.index()].idle {
                    break;
                }
            }
        }
        self.groups[g.index()].idle = idle;
    }

    /// Sets a task's policy without any other effect.
    pub fn assume_policy(&mut self, t: TaskId, policy: TaskPolicy) {
        self.ents[t.index()].policy = policy;
    }

    /// The switch from one fair task to another, which the pick chose before.
    pub fn switch_task<H: Hooks>(
        &mut self,
        cpu: CpuId,
        prev: TaskId,
        next: TaskId,
        now: Ns,
        h: &mut H,
    ) {
        self.set_clock(cpu, now);
        self.switch(prev.entity(), next.entity(), h);
        self.debug_verify(cpu);
    }

    /// Sets the pending reschedule request to what a recording shows.
    pub fn set_resched(&mut self, cpu: CpuId, kind: crate::Resched) {
        self.rqs[cpu.index()].resched = kind;
    }
}

/// Nice level and policy that a task's weight tells.
fn nice_of(weight: Weight) -> (Option<i8>, TaskPolicy) {
    if weight == Weight::IDLE {
        return (None, TaskPolicy::Idle);
    }
    let nice = NICE_WEIGHT
        .iter()
        .position(|&w| u64::from(w) << 10 == weight.0)
        .map(|i| i as i8 - 20);
    (nice, TaskPolicy::Normal)
}
