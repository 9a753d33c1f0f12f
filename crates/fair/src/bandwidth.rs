//! CFS bandwidth: quota, period, burst, and what happens at the limit (reference section 10.6).

use alloc::vec::Vec;

use crate::class::{BandwidthAttr, Class, Resched};
use crate::enqueue::Counts;
use crate::flags::{Dequeue, Enqueue};
use crate::hooks::{Function, Hooks, Reason};
use crate::ids::{CpuId, GroupId, QueueId, TaskId};
use crate::load::Attach;
use crate::profile::ThrottleRule;
use crate::units::Ns;

/// Local quota below which a queue that becomes empty returns nothing, ns.
const MIN_LOCAL: i64 = 1_000_000;

/// Largest quota and burst, ns: 2^44 - 1 µs, as the kernel's.
const MAX_QUOTA: Ns = Ns(((1 << 44) - 1) * 1000);

impl BandwidthAttr {
    /// The values that a kernel would accept: quota 1 ms to 2^44 µs, period 1 ms to 1 s, burst at most the quota.
    fn clamped(self) -> Self {
        let quota = self.quota.clamp(Ns::from_ms(1), MAX_QUOTA);
        Self {
            quota,
            period: self.period.clamp(Ns::from_ms(1), Ns::from_secs(1)),
            burst: self.burst.min(quota),
        }
    }
}

/// A group's quota and its global pool.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    /// Quota, period, burst.
    pub attr: BandwidthAttr,
    /// Runtime left in the pool, ns.
    pub runtime: u64,
    /// Runtime at the last refill, to tell how much of the burst was used.
    runtime_snap: u64,
    /// Nothing was taken from the pool since the last period began.
    idle: bool,
    /// The period timer runs.
    pub period_active: bool,
    /// Throttled queues, longest throttled first.
    pub throttled: Vec<QueueId>,
    /// Periods that elapsed.
    pub nr_periods: u64,
    /// Periods in which a queue was throttled at the refill.
    pub nr_throttled: u64,
    /// Throttled time summed over CPUs, ns of `clock_task`.
    pub throttled_time: u64,
    /// Periods that used some of the burst.
    pub nr_bursts: u64,
    /// Runtime above the quota that was used, ns.
    pub burst_time: u64,
}

impl Bandwidth {
    fn new(attr: BandwidthAttr, cpus: usize) -> Self {
        Self {
            attr,
            runtime: attr.quota.0,
            runtime_snap: attr.quota.0,
            idle: false,
            period_active: false,
            throttled: Vec::with_capacity(cpus),
            nr_periods: 0,
            nr_throttled: 0,
            throttled_time: 0,
            nr_bursts: 0,
            burst_time: 0,
        }
    }

    /// The refill at the start of a period: never above quota and burst.
    fn refill(&mut self) {
        self.runtime = self.runtime.saturating_add(self.attr.quota.0);
        let used_above = self.runtime_snap.saturating_sub(self.runtime);
        if used_above > 0 {
            self.burst_time += used_above;
            self.nr_bursts += 1;
        }
        self.runtime = self
            .runtime
            .min(self.attr.quota.0.saturating_add(self.attr.burst.0));
        self.runtime_snap = self.runtime;
    }
}

impl Class {
    /// Sets, changes or lifts a group's quota while it runs; `now` gives each CPU's `clock_task`. The root cannot be limited.
    ///
    /// The pool gets the new quota at once, within quota and burst, local pools start empty, and throttled queues go on.
    /// Counters go on too. Values are clamped: quota 1 ms to 2^44 µs, period 1 ms to 1 s, burst at most the quota.
    pub fn set_bandwidth<H: Hooks>(
        &mut self,
        g: GroupId,
        attr: Option<BandwidthAttr>,
        now: impl Fn(CpuId) -> Ns,
        h: &mut H,
    ) {
        if g == GroupId::ROOT {
            return;
        }
        let cpus = self.rqs.len();
        match (attr, &mut self.groups[g.index()].bandwidth) {
            (None, None) => return,
            (Some(attr), Some(b)) => {
                b.attr = attr.clamped();
                b.refill();
            }
            (Some(attr), none) => *none = Some(Bandwidth::new(attr.clamped(), cpus)),
            // The pool is taken away below, once no throttled queue refers to it.
            (None, Some(_)) => {}
        }
        for i in 0..self.groups[g.index()].queues.len() {
            let q = self.groups[g.index()].queues[i];
            let queue = &mut self.queues[q.index()];
            queue.runtime_enabled = attr.is_some();
            // A task that returns to a queue without any runtime would be throttled again at once.
            queue.runtime_remaining = i64::from(self.profile.throttle_rule == ThrottleRule::Task);
            let cpu = queue.cpu;
            if queue.throttled {
                self.unthrottle(q, now(cpu), h);
            }
        }
        if attr.is_none() {
            self.groups[g.index()].bandwidth = None;
        }
    }

    /// The quota of a group that nothing is queued in yet.
    pub(crate) fn init_bandwidth(&mut self, g: GroupId, attr: BandwidthAttr) {
        let cpus = self.rqs.len();
        self.groups[g.index()].bandwidth = Some(Bandwidth::new(attr.clamped(), cpus));
        for i in 0..self.groups[g.index()].queues.len() {
            let q = self.groups[g.index()].queues[i];
            self.queues[q.index()].runtime_enabled = true;
        }
    }

    /// Whether a queue or one above it is throttled.
    #[must_use]
    #[inline]
    pub fn throttled_hierarchy(&self, q: QueueId) -> bool {
        self.queues[q.index()].throttle_count > 0
    }

    /// Whether nothing of a queue can run for want of quota: not so from 6.18 on, where tasks stop one by one.
    #[inline]
    pub(crate) fn stopped_hierarchy(&self, q: QueueId) -> bool {
        self.profile.throttle_rule == ThrottleRule::Group && self.throttled_hierarchy(q)
    }

    /// Whether a walk through the counters ends at a queue: it is throttled, and so not part of its parents.
    #[inline]
    pub(crate) fn cut_off(&self, q: QueueId) -> bool {
        self.profile.throttle_rule == ThrottleRule::Group && self.queues[q.index()].throttled
    }

    /// Takes up to `target - remaining` from the pool; `true` if the local pool is then above zero.
    fn assign_runtime<H: Hooks>(&mut self, q: QueueId, target: i64, h: &mut H) -> bool {
        let queue = &mut self.queues[q.index()];
        let g = queue.group;
        let want = (target - queue.runtime_remaining).max(0) as u64;
        let mut got = want;
        if let Some(b) = &mut self.groups[g.index()].bandwidth {
            if !b.period_active {
                b.period_active = true;
                h.start_period_timer(g, b.attr.period);
            }
            got = want.min(b.runtime);
            b.runtime -= got;
            if got > 0 {
                b.idle = false;
            }
        }
        queue.runtime_remaining += got as i64;
        queue.runtime_remaining > 0
    }

    /// Charges run time against the quota and asks for a reschedule when it is used up.
    pub(crate) fn account_runtime<H: Hooks>(&mut self, q: QueueId, delta: u64, h: &mut H) {
        let queue = &mut self.queues[q.index()];
        let cpu = queue.cpu;
        let out = if queue.runtime_enabled {
            queue.runtime_remaining -= delta as i64;
            if queue.runtime_remaining > 0 || queue.throttled {
                return;
            }
            let slice = self.profile.tunables.bandwidth_slice.0 as i64;
            !self.assign_runtime(q, slice, h)
        } else {
            h.out_of_quota(self, q)
        };
        if out && self.queues[q.index()].curr.is_some() {
            self.resched_curr(cpu, Resched::Full, Reason::Bandwidth, Some(q), h);
        }
    }

    /// At put and pick: throttles a queue that is out of quota. `true` if it is throttled.
    pub(crate) fn check_runtime<H: Hooks>(&mut self, q: QueueId, h: &mut H) -> bool {
        let queue = &self.queues[q.index()];
        let (out, already) = (
            queue.runtime_enabled && queue.runtime_remaining <= 0,
            queue.throttled,
        );
        let out = queue.owner.is_some() && h.throttle(self, q, out);
        if !out {
            return false;
        }
        if already {
            return self.profile.throttle_rule == ThrottleRule::Group;
        }
        self.throttle(q, h) && self.profile.throttle_rule == ThrottleRule::Group
    }

    /// The first entity of a queue arrives: it may have to wait for quota at once.
    pub(crate) fn check_enqueue_throttle<H: Hooks>(&mut self, q: QueueId, h: &mut H) {
        let queue = &self.queues[q.index()];
        if queue.owner.is_none() || queue.curr.is_some() || queue.throttled {
            return;
        }
        self.account_runtime(q, 0, h);
        let queue = &self.queues[q.index()];
        let out = queue.runtime_enabled && queue.runtime_remaining <= 0;
        if h.throttle(self, q, out) {
            self.throttle(q, h);
        }
    }

    /// Takes a queue off its parents until the pool has runtime again; `false` if there was some after all.
    pub fn throttle<H: Hooks>(&mut self, q: QueueId, h: &mut H) -> bool {
        let queue = &self.queues[q.index()];
        let (g, Some(owner)) = (queue.group, queue.owner) else {
            return false;
        };
        if queue.runtime_enabled && self.assign_runtime(q, 1, h) {
            return false;
        }
        if let Some(b) = &mut self.groups[g.index()].bandwidth {
            b.throttled.push(q);
        }
        self.count_throttled(q, true);
        if self.profile.throttle_rule == ThrottleRule::Task {
            // Tasks leave one by one as they return to user space.
            self.queues[q.index()].throttled = true;
            return true;
        }
        let queue = &self.queues[q.index()];
        let cpu = queue.cpu;
        let mut counts = self.counts_above(q);
        let mut level = Some(owner);
        let mut emptying = true;
        while let Some(se) = level {
            let e = &self.ents[se.index()];
            let above = e.queue;
            if !e.on_rq {
                self.mark_throttled(q);
                return true;
            }
            if emptying {
                // Marked special, so that it is never delayed.
                let mut flags = Dequeue::SLEEP | Dequeue::SPECIAL;
                if e.sched_delayed {
                    flags = flags | Dequeue::DELAYED;
                }
                h.inside(self, Function::Throttle);
                self.dequeue_entity(above, se, flags, h);
                emptying = self.queues[above.index()].load_weight == 0;
            } else {
                self.update_load_avg(above, se, Attach::No, false);
                self.tell_runnable(se);
            }
            self.count_out(above, &mut counts);
            level = self.ents[se.index()].parent;
        }
        self.rqs[cpu.index()].nr_fair -= counts.queued;
        self.mark_throttled(q);
        true
    }

    fn mark_throttled(&mut self, q: QueueId) {
        self.queues[q.index()].throttled = true;
        if self.queues[q.index()].nr_queued > 0 {
            self.start_throttled_time(q);
        }
    }

    /// Throttled time counts from when the first task is kept from running.
    pub(crate) fn start_throttled_time(&mut self, q: QueueId) {
        let now = self.clock_of(q);
        self.queues[q.index()].throttled_at.get_or_insert(now);
    }

    /// What the queues above a group's queue count for it.
    fn counts_above(&self, q: QueueId) -> Counts {
        let queue = &self.queues[q.index()];
        let idle_group = self.groups[queue.group.index()].idle;
        Counts {
            queued: queue.h_nr_queued,
            runnable: queue.h_nr_runnable,
            idle: if idle_group {
                queue.h_nr_queued
            } else {
                queue.h_nr_idle
            },
        }
    }

    /// Puts a throttled queue back on its parents.
    pub fn unthrottle<H: Hooks>(&mut self, q: QueueId, now: Ns, h: &mut H) {
        let cpu = self.queues[q.index()].cpu;
        self.set_clock(cpu, now);
        let queue = &mut self.queues[q.index()];
        let (g, Some(owner)) = (queue.group, queue.owner) else {
            return;
        };
        if !queue.throttled {
            return;
        }
        queue.throttled = false;
        let stopped = queue
            .throttled_at
            .take()
            .map_or(0, |since| now.0.saturating_sub(since));
        if let Some(b) = &mut self.groups[g.index()].bandwidth {
            b.throttled.retain(|&other| other != q);
            b.throttled_time += stopped;
        }
        self.count_throttled(q, false);
        if self.profile.throttle_rule == ThrottleRule::Task {
            self.release_limbo(cpu, now, h);
            self.debug_verify(cpu);
            return;
        }
        self.rejoin(q, owner, h);
        self.debug_verify(cpu);
        self.kick_if_idle(cpu, h);
    }

    fn rejoin<H: Hooks>(&mut self, q: QueueId, owner: crate::EntityId, h: &mut H) {
        let queue = &self.queues[q.index()];
        if queue.load_weight == 0 {
            return;
        }
        let cpu = queue.cpu;
        let mut counts = self.counts_above(q);
        let mut level = Some(owner);
        let mut joining = true;
        while let Some(se) = level {
            let above = self.ents[se.index()].queue;
            if joining {
                let e = &self.ents[se.index()];
                if e.sched_delayed {
                    h.inside(self, Function::DequeueEntities);
                    self.dequeue_entity(above, se, Dequeue::SLEEP | Dequeue::DELAYED, h);
                } else if e.on_rq {
                    joining = false;
                }
            }
            if joining {
                self.enqueue_entity(above, se, Enqueue::WAKEUP, h);
            } else {
                self.update_load_avg(above, se, Attach::No, true);
                self.tell_runnable(se);
            }
            if self.count_in(above, &mut counts) {
                return;
            }
            level = self.ents[se.index()].parent;
        }
        self.rqs[cpu.index()].nr_fair += counts.queued;
    }

    fn kick_if_idle<H: Hooks>(&mut self, cpu: CpuId, h: &mut H) {
        let rq = &self.rqs[cpu.index()];
        if self.queues[rq.cfs.index()].curr.is_none() && rq.nr_other == 0 && rq.nr_fair > 0 {
            self.resched_curr(cpu, Resched::Full, Reason::HigherClass, None, h);
        }
    }

    /// Adds or takes one throttled level for a queue and all below it on the same CPU.
    fn count_throttled(&mut self, q: QueueId, on: bool) {
        let cpu = self.queues[q.index()].cpu;
        let top = self.queues[q.index()].group;
        for g in 0..self.groups.len() {
            let g = GroupId(g as u32);
            let mut up = Some(g);
            while let Some(u) = up {
                if u == top {
                    let below = self.groups[g.index()].queues[cpu.index()];
                    let n = &mut self.queues[below.index()].throttle_count;
                    *n = if on { *n + 1 } else { *n - 1 };
                    self.freeze_or_thaw(below);
                    break;
                }
                up = self.groups[u.index()].parent;
            }
        }
    }

    /// A queue that has become empty gives back what it has above 1 ms.
    #[inline]
    pub(crate) fn return_runtime(&mut self, q: QueueId) {
        let queue = &mut self.queues[q.index()];
        if !queue.runtime_enabled || queue.nr_queued > 0 {
            return;
        }
        let slack = queue.runtime_remaining - MIN_LOCAL;
        if slack <= 0 {
            return;
        }
        queue.runtime_remaining -= slack;
        if let Some(b) = &mut self.groups[queue.group.index()].bandwidth {
            b.runtime = b.runtime.saturating_add(slack as u64);
        }
    }

    /// Whether a group's pool holds enough for throttled queues that the slack timer should run
    /// (5 ms after this, unless a refill is due within 7 ms).
    #[must_use]
    pub fn wants_slack_timer(&self, g: GroupId) -> bool {
        self.groups[g.index()].bandwidth.as_ref().is_some_and(|b| {
            b.runtime > self.profile.tunables.bandwidth_slice.0 && !b.throttled.is_empty()
        })
    }

    /// The slack timer: hands the pool's runtime to throttled queues.
    pub fn slack_timer<H: Hooks>(&mut self, g: GroupId, now: impl Fn(CpuId) -> Ns, h: &mut H) {
        if self.wants_slack_timer(g) {
            self.distribute(g, &now, h);
        }
    }

    /// The period timer: refills the pool and lets throttled queues go on. `false`: the timer stops.
    ///
    /// `now` gives each CPU's `clock_task`.
    pub fn period_timer<H: Hooks>(
        &mut self,
        g: GroupId,
        now: impl Fn(CpuId) -> Ns,
        h: &mut H,
    ) -> bool {
        let Some(b) = &mut self.groups[g.index()].bandwidth else {
            return false;
        };
        let throttled = !b.throttled.is_empty();
        b.nr_periods += 1;
        b.refill();
        if b.idle && !throttled {
            b.period_active = false;
            return false;
        }
        if !throttled {
            b.idle = true;
            return true;
        }
        b.nr_throttled += 1;
        self.distribute(g, &now, h);
        if let Some(b) = &mut self.groups[g.index()].bandwidth {
            b.idle = false;
        }
        true
    }

    fn distribute<H: Hooks>(&mut self, g: GroupId, now: &impl Fn(CpuId) -> Ns, h: &mut H) {
        let mut at = 0;
        // A queue that goes on leaves the list, and the next moves to its place.
        while let Some(b) = &mut self.groups[g.index()].bandwidth {
            let Some(&q) = b.throttled.get(at) else {
                return;
            };
            if b.runtime == 0 {
                return;
            }
            let queue = &mut self.queues[q.index()];
            let want = (1 - queue.runtime_remaining).max(0) as u64;
            let got = want.min(b.runtime);
            b.runtime -= got;
            queue.runtime_remaining += got as i64;
            if queue.runtime_remaining > 0 {
                let cpu = queue.cpu;
                self.unthrottle(q, now(cpu), h);
            } else {
                at += 1;
            }
        }
    }

    /// 6.18: whether a task must leave its queue before it returns to user space.
    #[must_use]
    pub fn must_throttle_at_user(&self, t: TaskId) -> bool {
        self.profile.throttle_rule == ThrottleRule::Task
            && self.throttled_hierarchy(self.ents[t.index()].queue)
    }

    /// 6.18: takes a task that returns to user space off its throttled queue until the next refill.
    pub fn throttle_task<H: Hooks>(&mut self, cpu: CpuId, t: TaskId, now: Ns, h: &mut H) {
        self.set_clock(cpu, now);
        if !self.ents[t.index()].on_rq {
            return;
        }
        self.dequeue_entities(
            cpu,
            t.entity(),
            Dequeue::SLEEP | Dequeue::SPECIAL | Dequeue::THROTTLE,
            h,
        );
        self.enter_limbo(t);
        self.debug_verify(cpu);
    }

    /// 6.18: whether a task is off its queue to wait for quota. It is runnable for everybody else.
    #[must_use]
    pub fn waits_for_quota(&self, t: TaskId) -> bool {
        self.ents[t.index()].in_limbo
    }

    pub(crate) fn enter_limbo(&mut self, t: TaskId) {
        let q = self.ents[t.index()].queue;
        let before = self.queues[q.index()].limbo.replace(t);
        let e = &mut self.ents[t.index()];
        e.in_limbo = true;
        e.limbo_next = before;
        let mut level = Some(q);
        while let Some(q) = level {
            if self.queues[q.index()].throttled {
                self.start_throttled_time(q);
            }
            let owner = self.queues[q.index()].owner;
            level = owner.map(|se| self.ents[se.index()].queue);
        }
    }

    /// 6.18: makes a task wait for quota no more, because it leaves its CPU or its group. `true`: it did; the caller must
    /// enqueue it where it goes on.
    pub fn leave_limbo(&mut self, t: TaskId) -> bool {
        let e = &mut self.ents[t.index()];
        if !e.in_limbo {
            return false;
        }
        e.in_limbo = false;
        let (q, next) = (e.queue, e.limbo_next.take());
        let first = self.queues[q.index()].limbo;
        if first == Some(t) {
            self.queues[q.index()].limbo = next;
            return true;
        }
        let before = self
            .waiting_for_quota(q)
            .find(|w| self.ents[w.index()].limbo_next == Some(t));
        if let Some(before) = before {
            self.ents[before.index()].limbo_next = next;
        }
        true
    }

    /// 6.18: the tasks of a queue that wait for quota, the last to wait first.
    pub fn waiting_for_quota(&self, q: QueueId) -> impl Iterator<Item = TaskId> + '_ {
        core::iter::successors(self.queues[q.index()].limbo, |t| {
            self.ents[t.index()].limbo_next
        })
    }

    /// 6.18: tasks that waited for quota return to their queues, groups below first, the last to wait first.
    fn release_limbo<H: Hooks>(&mut self, cpu: CpuId, now: Ns, h: &mut H) {
        for g in (0..self.groups.len()).rev() {
            let q = self.groups[g].queues[cpu.index()];
            while !self.throttled_hierarchy(q) {
                let Some(t) = self.queues[q.index()].limbo else {
                    break;
                };
                self.leave_limbo(t);
                self.enqueue_task(cpu, t, Enqueue::WAKEUP, now, h);
            }
        }
        self.kick_if_idle(cpu, h);
    }
}
