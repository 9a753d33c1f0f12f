//! The real-time class: FIFO lists by priority, round robin, throttling, and which CPU (reference section 15).

use std::collections::VecDeque;

use schedlab_fair::{CpuId, Reason, Resched};

use crate::config::SimError;
use crate::engine::{Happening, Sim, Sink};
use crate::order::Rank;
use crate::state::ClassOf;

/// Runtime in a period before 6.12 (`sched_rt_runtime_us`, `sched_rt_period_us`), ns.
const RUNTIME: u64 = 950_000_000;
const PERIOD: u64 = 1_000_000_000;
/// Above every priority: no real-time task.
const NORMAL: u8 = 100;

/// Real-time tasks of one CPU; the running one is among them.
#[derive(Debug)]
pub(crate) struct RtQueue {
    lists: Vec<VecDeque<u32>>,
    bits: u128,
    len: u32,
    /// Run time in the present period, for throttling before 6.12.
    pub(crate) time: u64,
    pub(crate) throttled: bool,
    pub(crate) period_armed: bool,
    /// Has a task beside the running one, as far as was counted (`rt_overloaded`).
    pub(crate) overloaded: bool,
}

impl RtQueue {
    pub(crate) fn new() -> Self {
        Self {
            lists: Vec::new(),
            bits: 0,
            len: 0,
            time: 0,
            throttled: false,
            period_armed: false,
            overloaded: false,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Adds a task at the tail (a wakeup, an RR slice that ended) or at the head of its list.
    pub(crate) fn add(&mut self, task: u32, prio: u8, head: bool) {
        if self.lists.is_empty() {
            self.lists.resize_with(100, VecDeque::new);
        }
        let list = &mut self.lists[usize::from(prio)];
        if head {
            list.push_front(task);
        } else {
            list.push_back(task);
        }
        self.bits |= 1 << prio;
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, task: u32, prio: u8) {
        let list = &mut self.lists[usize::from(prio)];
        if let Some(i) = list.iter().position(|&t| t == task) {
            list.remove(i);
            self.len -= 1;
            if list.is_empty() {
                self.bits &= !(1 << prio);
            }
        }
    }

    /// Head of the most urgent list, with its priority.
    pub(crate) fn first(&self) -> Option<(u32, u8)> {
        if self.bits == 0 {
            return None;
        }
        let prio = self.bits.trailing_zeros() as u8;
        self.lists[usize::from(prio)].front().map(|&t| (t, prio))
    }

    /// Whether a task shares its priority with another.
    pub(crate) fn has_peer(&self, prio: u8) -> bool {
        self.lists[usize::from(prio)].len() > 1
    }

    /// Moves a task to the tail of its list.
    pub(crate) fn requeue_tail(&mut self, task: u32, prio: u8) {
        self.remove(task, prio);
        self.add(task, prio, false);
    }

    /// Whether a task is on its list.
    pub(crate) fn holds(&self, task: u32, prio: u8) -> bool {
        self.lists
            .get(usize::from(prio))
            .is_some_and(|l| l.contains(&task))
    }

    /// Moves a task to the head of its list.
    pub(crate) fn requeue_head(&mut self, task: u32, prio: u8) {
        self.remove(task, prio);
        self.add(task, prio, true);
    }

    /// All tasks, most urgent first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u8)> + '_ {
        self.lists
            .iter()
            .enumerate()
            .flat_map(|(p, l)| l.iter().map(move |&t| (t, p as u8)))
    }
}

impl<S: Sink> Sim<S> {
    /// The tick of a running real-time task: throttling, and the end of a round-robin slice.
    pub(crate) fn rt_tick(&mut self, cpu: u32, t: u32, prio: u8, rr: bool) {
        let mut resched = false;
        if !self.config.profile.fair_server && !self.cpus[cpu as usize].rt.throttled {
            let rt = &mut self.cpus[cpu as usize].rt;
            if rt.time > RUNTIME {
                rt.throttled = true;
                self.sync_nr_other(cpu);
                resched = true;
            }
        }
        if rr {
            let slice = (self.config.hz / 10).max(1);
            let task = &mut self.tasks[t as usize];
            if task.rr_left <= 1 {
                task.rr_left = slice;
                if self.cpus[cpu as usize].rt.has_peer(prio) {
                    self.cpus[cpu as usize].rt.requeue_tail(t, prio);
                    resched = true;
                }
            } else {
                task.rr_left -= 1;
            }
        }
        if resched {
            self.class
                .request_resched(CpuId(cpu), Resched::Full, Reason::Other, &mut self.notes);
        }
    }

    /// End of a throttling period.
    pub(crate) fn rt_period(&mut self, cpu: u32, now: u64) -> Result<(), SimError> {
        self.account(cpu, now);
        let rt = &mut self.cpus[cpu as usize].rt;
        rt.time = rt.time.saturating_sub(RUNTIME);
        let unthrottle = rt.throttled && rt.time < RUNTIME;
        if unthrottle {
            rt.throttled = false;
        }
        rt.period_armed = rt.len() > 0 || rt.time > 0;
        if rt.period_armed {
            self.agenda
                .push(now + PERIOD, Rank::Timer, cpu, Happening::RtPeriod);
        }
        if unthrottle {
            self.sync_nr_other(cpu);
            if self.cpus[cpu as usize].rt.len() > 0 {
                self.class.request_resched(
                    CpuId(cpu),
                    Resched::Full,
                    Reason::HigherClass,
                    &mut self.notes,
                );
            }
        }
        self.irq_exit(cpu, now)
    }

    /// Queues a wakee or a new task at the tail.
    pub(crate) fn rt_enqueue(&mut self, cpu: u32, t: u32, prio: u8, now: u64) {
        self.cpus[cpu as usize].rt.add(t, prio, false);
        self.sync_nr_other(cpu);
        let rt = &mut self.cpus[cpu as usize].rt;
        if !self.config.profile.fair_server && !rt.period_armed {
            rt.period_armed = true;
            self.agenda
                .push(now + PERIOD, Rank::Timer, cpu, Happening::RtPeriod);
        }
    }

    /// Tells the fair class how many real-time tasks run beside its own.
    pub(crate) fn sync_nr_other(&mut self, cpu: u32) {
        let rt = &mut self.cpus[cpu as usize].rt;
        let n = if rt.throttled { 0 } else { rt.len() };
        let overloaded = rt.len() > 1;
        if rt.overloaded != overloaded {
            rt.overloaded = overloaded;
            self.rt_overloaded = if overloaded {
                self.rt_overloaded + 1
            } else {
                self.rt_overloaded - 1
            };
        }
        self.class.set_nr_other(CpuId(cpu), n);
    }

    /// The most urgent real-time task that may run now; `prev` leaves or stays.
    pub(crate) fn pick_rt(&mut self, cpu: u32, prev: Option<u32>) -> Option<u32> {
        let c = &self.cpus[cpu as usize];
        if c.rt.throttled || (c.server.active && self.class.nr_fair(CpuId(cpu)) > 0) {
            return None;
        }
        let own = c.rt.first();
        let level = own.map_or(NORMAL, |(_, p)| p);
        // A queue that has become less urgent than the task that left looks for more urgent work elsewhere.
        let fell = prev.is_some_and(|p| match self.tasks[p as usize].class {
            ClassOf::Rt { prio, .. } => level > prio,
            ClassOf::Fair => false,
        });
        let pulled = if fell && self.rt_overloaded > 0 {
            self.rt_pull(cpu, level)
        } else {
            None
        };
        pulled.or(own.map(|(t, _)| t))
    }

    /// Takes the most urgent task that waits on another CPU, if it is more urgent than what there is here.
    fn rt_pull(&mut self, cpu: u32, own: u8) -> Option<u32> {
        let mut best: Option<(u32, u8, u32)> = None;
        for from in 0..self.cpus.len() as u32 {
            if from == cpu || !self.cpus[from as usize].rt.overloaded {
                continue;
            }
            if let Some((t, prio)) = self.rt_pushable(from, Some(cpu))
                && prio < best.map_or(own, |(_, p, _)| p)
                // One that is about to run where it is stays.
                && self.rt_curr(from).is_none_or(|curr| prio >= curr)
            {
                best = Some((t, prio, from));
            }
        }
        let (t, prio, from) = best?;
        let now = self.cpus[cpu as usize].accounted;
        self.move_rt(t, prio, from, cpu, now);
        Some(t)
    }

    /// Priority of the running task, if it is a real-time one.
    fn rt_curr(&self, cpu: u32) -> Option<u8> {
        match self.tasks[self.cpus[cpu as usize].curr? as usize].class {
            ClassOf::Rt { prio, .. } => Some(prio),
            ClassOf::Fair => None,
        }
    }

    /// The most urgent waiting task that may go to `to`, or anywhere.
    fn rt_pushable(&self, cpu: u32, to: Option<u32>) -> Option<(u32, u8)> {
        let c = &self.cpus[cpu as usize];
        c.rt.iter().find(|&(t, _)| {
            let allowed = &self.tasks[t as usize].allowed;
            c.curr != Some(t) && to.map_or_else(|| allowed.several(), |to| allowed.has(to))
        })
    }

    /// Sends waiting tasks to CPUs that run less urgent work.
    pub(crate) fn rt_push(&mut self, cpu: u32, now: u64) {
        while let Some((t, prio)) = self.rt_pushable(cpu, None) {
            if self.cpus[cpu as usize].rt.throttled {
                return;
            }
            if self.rt_curr(cpu).is_none_or(|curr| prio < curr) {
                // It is about to run here.
                return;
            }
            let Some(to) = self.rt_lowest(t, prio) else {
                return;
            };
            self.account(to, now);
            self.move_rt(t, prio, cpu, to, now);
            self.class.request_resched(
                CpuId(to),
                Resched::Full,
                Reason::HigherClass,
                &mut self.notes,
            );
        }
    }

    /// A wakee as urgent as the running task goes first if only the other can go elsewhere.
    pub(crate) fn rt_equal(&mut self, cpu: u32, curr: u32, wakee: u32, prio: u8) {
        let can_go = |sim: &Self, t: u32| {
            sim.tasks[t as usize].allowed.several() && sim.rt_lowest(t, prio).is_some()
        };
        if self.pending(cpu) == Resched::Full || !can_go(self, curr) || can_go(self, wakee) {
            return;
        }
        self.cpus[cpu as usize].rt.requeue_head(wakee, prio);
        self.class.request_resched(
            CpuId(cpu),
            Resched::Full,
            Reason::HigherClass,
            &mut self.notes,
        );
    }

    /// The allowed CPU with the least urgent work, if that is less urgent than `prio` (`find_lowest_rq`): the task's
    /// last one, else one near it. The idle task counts as any that is not real time.
    fn rt_lowest(&self, t: u32, prio: u8) -> Option<u32> {
        let task = &self.tasks[t as usize];
        let n = self.cpus.len() as u32;
        let level = |cpu: u32| {
            self.cpus[cpu as usize]
                .rt
                .first()
                .map_or(NORMAL, |(_, p)| p)
        };
        let site = |cpu: u32| self.config.machine.cpus[cpu as usize];
        let near = |cpu: u32| {
            let (a, b) = (site(task.cpu), site(cpu));
            match (cpu == task.cpu, a.llc == b.llc, a.socket == b.socket) {
                (true, _, _) => 3,
                (_, true, _) => 2,
                (_, _, true) => 1,
                _ => 0,
            }
        };
        (0..n)
            .map(|i| (task.cpu + i) % n)
            .filter(|&cpu| task.allowed.has(cpu) && level(cpu) > prio)
            .rev()
            .max_by_key(|&cpu| (level(cpu), near(cpu)))
    }

    /// CPU for a wakee: its last one if it runs there at once or makes a less urgent task move, else the one with the
    /// least urgent work.
    pub(crate) fn rt_cpu(&self, t: u32, prio: u8) -> u32 {
        let task = &self.tasks[t as usize];
        if !task.allowed.has(task.cpu) {
            return self.rt_lowest(t, prio).unwrap_or(task.allowed.first());
        }
        let search = self.cpus[task.cpu as usize].curr.is_some_and(|c| {
            let curr = &self.tasks[c as usize];
            match curr.class {
                ClassOf::Rt { prio: p, .. } => p <= prio || !curr.allowed.several(),
                ClassOf::Fair => false,
            }
        });
        if search {
            self.rt_lowest(t, prio).unwrap_or(task.cpu)
        } else {
            task.cpu
        }
    }

    /// Moves a queued real-time task to another CPU.
    pub(crate) fn move_rt(&mut self, t: u32, prio: u8, from: u32, to: u32, now: u64) {
        self.core_dequeued(t, from, false);
        self.cpus[from as usize].rt.remove(t, prio);
        self.sync_nr_other(from);
        self.migrate(t, from, to, now);
        self.cpus[to as usize].rt.add(t, prio, false);
        self.sync_nr_other(to);
        self.core_enqueued(t, to);
    }
}
