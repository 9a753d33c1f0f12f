//! Wakeups, ticks, interrupts and the switch.

use schedlab_fair::{CpuId, Dequeue, Enqueue, Ns, Reason, Resched, TaskId, Wake};
use schedlab_trace::event::{EventKind, PrevState, TaskRef};

use crate::config::SimError;
use crate::engine::{Happening, Sim, Sink, swapper};
use crate::order::Rank;
use crate::preempt::{Place, honoured};
use crate::program::Mode;
use crate::state::{ClassOf, Doing, Life};
use crate::state_log;

/// Why the scheduler is entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// The task sleeps or ends.
    Block,
    /// The task goes on later: it was asked to leave, or it yields.
    Leave,
    /// The same inside the kernel (`R+` in traces).
    Preempted,
}

impl<S: Sink> Sim<S> {
    pub(crate) fn pending(&self, cpu: u32) -> Resched {
        self.class.resched(CpuId(cpu))
    }

    pub(crate) fn should_resched(&self, cpu: u32, place: Place) -> bool {
        honoured(self.config.preempt, place, self.pending(cpu))
    }

    /// A tick; one that was armed anew since means nothing.
    pub(crate) fn tick(&mut self, cpu: u32, seq: u32, now: u64) -> Result<(), SimError> {
        let c = &mut self.cpus[cpu as usize];
        if c.tick_seq != seq {
            return Ok(());
        }
        c.tick_armed = false;
        let remote = std::mem::take(&mut c.tick_stopped);
        let Some(t) = self.cpus[cpu as usize].curr else {
            // The idle task stops its tick.
            return Ok(());
        };
        self.account(cpu, now);
        if self.pending(cpu) == Resched::Lazy {
            // A lazy request that the last tick left is promoted.
            self.class
                .request_resched(CpuId(cpu), Resched::Full, Reason::Other, &mut self.notes);
        }
        match self.tasks[t as usize].class {
            ClassOf::Fair => {
                let clock = self.clock(cpu);
                self.class.task_tick(CpuId(cpu), clock, &mut self.notes);
                self.core_tick(cpu);
            }
            ClassOf::Rt { prio, rr } => self.rt_tick(cpu, t, prio, rr),
        }
        self.told(now);
        if !remote {
            self.cpus[cpu as usize].irq_left += self.config.costs.tick;
        }
        self.arm_tick(cpu, now);
        self.irq_exit(cpu, now)
    }

    pub(crate) fn hrtick(&mut self, cpu: u32, now: u64) -> Result<(), SimError> {
        self.account(cpu, now);
        if self.class.curr(CpuId(cpu)).is_some() {
            let clock = self.clock(cpu);
            self.class.task_tick(CpuId(cpu), clock, &mut self.notes);
            let kind = if self.class.profile().lazy_resched {
                Resched::Lazy
            } else {
                Resched::Full
            };
            self.class
                .request_resched(CpuId(cpu), kind, Reason::Hrtick, &mut self.notes);
            self.told(now);
        }
        self.irq_exit(cpu, now)
    }

    fn arm_hrtick(&mut self, cpu: u32, now: u64) {
        let Some(delay) = self.class.hrtick_delay(CpuId(cpu)) else {
            return;
        };
        let c = &mut self.cpus[cpu as usize];
        c.hrtick_seq = c.hrtick_seq.wrapping_add(1);
        let seq = c.hrtick_seq;
        // The kernel never programs less than 10 us.
        let at = now + delay.0.max(10_000);
        self.agenda
            .push(at, Rank::Tick, cpu, Happening::HrTick(seq));
    }

    /// A timer interrupt begins on a CPU.
    pub(crate) fn timer_interrupt(&mut self, cpu: u32, now: u64) {
        self.account(cpu, now);
        self.cpus[cpu as usize].irq_left += self.config.costs.timer;
    }

    /// End of an interrupt: the place where a request may be honoured.
    pub(crate) fn irq_exit(&mut self, cpu: u32, now: u64) -> Result<(), SimError> {
        self.in_irq = false;
        let left = self.cpus[cpu as usize].irq_left;
        if left > 0 && self.cpus[cpu as usize].curr.is_some() {
            if self.pending(cpu) != Resched::None {
                self.agenda
                    .push(now + left, Rank::Interrupt, cpu, Happening::InterruptDone);
            }
            self.plan(cpu);
            return Ok(());
        }
        let Some(t) = self.cpus[cpu as usize].curr else {
            let work =
                self.class.nr_running(CpuId(cpu)) > 0 && !self.cpus[cpu as usize].forced_idle;
            if self.pending(cpu) != Resched::None || work {
                self.schedule(cpu, now, Entry::Leave)?;
                return self.advance(cpu, now);
            }
            return Ok(());
        };
        let task = &self.tasks[t as usize];
        let (place, entry) = match task.doing {
            _ if task.overhead > 0 => {
                if self.pending(cpu) != Resched::None {
                    // Inside the kernel's own paths: looked at when they end.
                    let c = &self.cpus[cpu as usize];
                    let at = now + c.irq_left + task.overhead;
                    self.agenda.push(at, Rank::Work, cpu, Happening::Poke);
                }
                self.plan(cpu);
                return Ok(());
            }
            Doing::Work {
                mode: Mode::KernelNoPreempt,
                ..
            } => {
                self.plan(cpu);
                return Ok(());
            }
            Doing::Work {
                mode: Mode::Kernel, ..
            } => (Place::KernelPreemptible, Entry::Preempted),
            _ => (Place::ReturnToUser, Entry::Leave),
        };
        if self.should_resched(cpu, place)
            || (place == Place::ReturnToUser && self.must_throttle(t))
        {
            self.leave(cpu, t, now, entry)?;
            return self.advance(cpu, now);
        }
        self.plan(cpu);
        Ok(())
    }

    /// 6.18: the task must wait for quota before it returns to user mode.
    pub(crate) fn must_throttle(&self, t: u32) -> bool {
        let task = &self.tasks[t as usize];
        task.class == ClassOf::Fair && self.class.must_throttle_at_user(task.fair)
    }

    /// Enters the scheduler for a task that goes on later, and throttles it on the way if it must be.
    pub(crate) fn leave(
        &mut self,
        cpu: u32,
        t: u32,
        now: u64,
        entry: Entry,
    ) -> Result<(), SimError> {
        if entry == Entry::Leave && self.must_throttle(t) {
            let (fair, clock) = (self.tasks[t as usize].fair, self.clock(cpu));
            self.class
                .throttle_task(CpuId(cpu), fair, clock, &mut self.notes);
            self.told(now);
        }
        self.schedule(cpu, now, entry)
    }

    /// The scheduler proper: picks and switches. The caller goes on with [`Sim::advance`].
    pub(crate) fn schedule(&mut self, cpu: u32, now: u64, entry: Entry) -> Result<(), SimError> {
        self.account(cpu, now);
        let id = CpuId(cpu);
        let c = &mut self.cpus[cpu as usize];
        c.stats.sched_count += 1;
        if let Some(read) = c.skip_clock.take() {
            // Read again since, for other ends.
            let last = self.class.clock_task(id).0.max(c.classed);
            c.frozen_clock = Some(Ns(read.0.max(last)));
        }
        let prev = self.cpus[cpu as usize].curr;
        if let (Some(t), Entry::Block) = (prev, entry) {
            self.block(cpu, t, now);
        }
        let fair_prev = prev.filter(|&t| self.tasks[t as usize].class == ClassOf::Fair);
        let fair_curr = fair_prev.map(|t| self.tasks[t as usize].fair);
        let mut costs = self.config.costs.schedule + self.config.costs.pick;
        let next = match self.core_sched {
            Some(_) => self.core_pick(cpu, prev, &mut costs, now),
            None => self.pick_next(cpu, prev, fair_curr, &mut costs, now),
        };
        self.told(now);
        // The pick may have ended delays.
        self.server_if_empty(cpu);
        if prev != next {
            self.switch_to(cpu, prev, next, entry, costs, now);
        } else if let Some(t) = next {
            self.tasks[t as usize].overhead += costs;
            self.class.clear_resched(id);
        } else {
            self.class.clear_resched(id);
        }
        self.arm_tick(cpu, now);
        if self
            .class
            .profile()
            .features
            .has(schedlab_fair::Feature::Hrtick)
        {
            self.arm_hrtick(cpu, now);
        }
        self.count(cpu);
        self.cpus[cpu as usize].frozen_clock = None;
        if self.cpus[cpu as usize].rt.overloaded {
            self.rt_push(cpu, now);
        }
        self.core_switched(cpu, now);
        Ok(())
    }

    /// The pick of a CPU that decides for itself.
    fn pick_next(
        &mut self,
        cpu: u32,
        prev: Option<u32>,
        fair_curr: Option<TaskId>,
        costs: &mut u64,
        now: u64,
    ) -> Option<u32> {
        let (id, clock) = (CpuId(cpu), self.clock(cpu));
        if let Some(rt) = self.pick_rt(cpu, prev) {
            if let Some(f) = fair_curr {
                self.class.put_prev_task(id, f, clock, &mut self.notes);
            }
            return Some(rt);
        }
        let mut fair = self
            .class
            .pick_next_task(id, fair_curr, clock, &mut self.notes);
        if fair.is_none() {
            self.told(now);
            if self.cpus.len() > 1 {
                *costs += self.config.costs.newidle_per_cpu * self.cpus.len() as u64;
            }
            if self.pull(cpu, now) {
                let clock = self.clock(cpu);
                fair = self.class.pick_next_task(id, None, clock, &mut self.notes);
            }
        }
        fair.map(|f| self.by_entity[f.index()])
    }

    fn switch_to(
        &mut self,
        cpu: u32,
        prev: Option<u32>,
        next: Option<u32>,
        entry: Entry,
        base: u64,
        now: u64,
    ) {
        let prev_state = match (prev, entry) {
            (Some(t), Entry::Block) => match self.tasks[t as usize].life {
                Life::Asleep(s) => s,
                Life::Dead if self.tasks[t as usize].parent.is_some() => PrevState::ZOMBIE,
                Life::Dead => PrevState::DEAD,
                _ => PrevState::RUNNING,
            },
            (Some(_), Entry::Preempted) => PrevState::PREEMPTED,
            _ => PrevState::RUNNING,
        };
        let involuntary = entry != Entry::Block;
        if let Some(t) = prev {
            let s = &mut self.tasks[t as usize].stats;
            if involuntary {
                s.nivcsw += 1;
            } else {
                s.nvcsw += 1;
            }
        }
        let as_ref = |sim: &Self, t: Option<u32>| match t {
            Some(t) => sim.task_ref(t),
            None => TaskRef {
                comm: swapper(cpu),
                pid: 0,
                prio: 120,
            },
        };
        self.class.clear_resched(CpuId(cpu));
        let kind = EventKind::SchedSwitch {
            prev: as_ref(self, prev),
            prev_state,
            next: as_ref(self, next),
        };
        self.emit(cpu, now, kind);
        let costs = self.config.costs;
        let mut cost = base + costs.switch;
        match (prev, next) {
            (Some(p), Some(n)) if self.tasks[p as usize].mm != self.tasks[n as usize].mm => {
                cost += costs.switch_mm;
            }
            _ => {}
        }
        if entry == Entry::Block {
            cost += costs.dequeue;
        } else if prev.is_some() {
            cost += costs.involuntary;
        }
        self.idle.set(cpu, next.is_none());
        self.note_class(cpu);
        let clock = self.clock(cpu).0;
        match (prev, next) {
            (None, Some(_)) => self.cpus[cpu as usize].server.idle_ends(clock),
            (Some(_), None) => self.cpus[cpu as usize].server.idle_since = clock,
            _ => {}
        }
        self.info_switch(cpu, prev, next, now);
        let c = &mut self.cpus[cpu as usize];
        c.stats.sched_goidle += u64::from(next.is_none());
        c.nr_switches += 1;
        c.from_idle += u64::from(prev.is_none());
        c.curr = next;
        match next {
            Some(n) => {
                let task = &mut self.tasks[n as usize];
                task.overhead += cost;
                if let ClassOf::Rt { rr: true, .. } = task.class
                    && task.rr_left == 0
                {
                    task.rr_left = (self.config.hz / 10).max(1);
                }
            }
            None => c.idle_overhead += cost,
        }
    }

    /// Takes a blocking task off its queue.
    fn block(&mut self, cpu: u32, t: u32, now: u64) {
        let task = &self.tasks[t as usize];
        let dead = task.life == Life::Dead;
        self.core_dequeued(t, cpu, false);
        let task = &self.tasks[t as usize];
        match task.class {
            ClassOf::Fair => {
                let mut flags = Dequeue::SLEEP | Dequeue::NOCLOCK;
                if dead {
                    flags = flags | Dequeue::SPECIAL;
                }
                let (fair, clock) = (task.fair, self.clock(cpu));
                if self.class.is_on_rq(fair) {
                    self.class
                        .dequeue_task(CpuId(cpu), fair, flags, clock, &mut self.notes);
                }
                self.server_if_empty(cpu);
                self.arm_slack(cpu, now);
            }
            ClassOf::Rt { prio, .. } => {
                self.cpus[cpu as usize].rt.remove(t, prio);
                self.sync_nr_other(cpu);
            }
        }
        self.told(now);
    }

    /// Newidle balance: takes a queued task from the CPU that has most; `true` if there was one.
    pub(crate) fn pull(&mut self, cpu: u32, now: u64) -> bool {
        let Some((t, from)) = self.find_pull(cpu) else {
            return false;
        };
        if !self.core_match(cpu, t) {
            // Counts as cache-hot.
            return false;
        }
        self.account(from, now);
        self.move_fair(t, from, cpu, now);
        true
    }

    /// Moves a queued fair task to another CPU.
    pub(crate) fn move_fair(&mut self, t: u32, from: u32, to: u32, now: u64) {
        let fair = self.tasks[t as usize].fair;
        let clock = self.clock(from);
        let off = Dequeue::MIGRATING | Dequeue::NOCLOCK;
        self.core_dequeued(t, from, false);
        self.class
            .dequeue_task(CpuId(from), fair, off, clock, &mut self.notes);
        self.told(now);
        self.server_if_empty(from);
        self.migrate(t, from, to, now);
        let clock = self.clock(to);
        self.class.enqueue_task(
            CpuId(to),
            fair,
            Enqueue::MIGRATED | Enqueue::NOCLOCK,
            clock,
            &mut self.notes,
        );
        self.count(from);
        self.count(to);
        self.core_enqueued(t, to);
        self.server_if_filled(to, now);
        self.tick_if_needed(to, now);
        self.told(now);
    }

    /// Records a change of CPU.
    pub(crate) fn migrate(&mut self, t: u32, from: u32, to: u32, now: u64) {
        if from == to {
            return;
        }
        if self.tasks[t as usize].info.last_queued.is_some() {
            // The part of its wait that it spent here.
            self.info_dequeue(t, from, now);
            self.info_enqueue(t, now);
        }
        let task = self.task_ref(t);
        let local = self.notes.local.min(self.cpus.len() as u32 - 1);
        self.emit(
            local,
            now,
            EventKind::SchedMigrateTask {
                task,
                orig_cpu: from,
                dest_cpu: to,
            },
        );
        let refill = self.refill_cost(from, to);
        let task = &mut self.tasks[t as usize];
        task.cpu = to;
        task.overhead += refill;
        task.stats.migrations += 1;
        self.migrations += 1;
    }

    /// Wakes a sleeping task; returns the kernel time that this takes the waker.
    pub(crate) fn wake(&mut self, t: u32, sync: bool, now: u64) -> u64 {
        if !matches!(self.tasks[t as usize].life, Life::Asleep(_)) {
            return 0;
        }
        let local = self.notes.local.min(self.cpus.len() as u32 - 1);
        let costs = self.config.costs;
        let task = self.task_ref(t);
        let prev = self.tasks[t as usize].cpu;
        self.emit(
            local,
            now,
            EventKind::SchedWaking {
                task,
                target_cpu: prev,
            },
        );
        self.wakeups += 1;
        let entry = &mut self.tasks[t as usize];
        entry.stats.wakeups += 1;
        entry.sleep_seq = entry.sleep_seq.wrapping_add(1);
        let fair = entry.fair;
        let delayed = entry.class == ClassOf::Fair && self.class.is_on_rq(fair);
        self.cpus[local as usize].stats.ttwu_count += 1;
        if delayed {
            // Woken in place, without a choice of CPU.
            self.cpus[local as usize].stats.ttwu_local += u64::from(local == prev);
            self.account(prev, now);
            self.activate(t, prev, sync, now);
            return costs.wake + costs.enqueue;
        }
        let (cpu, looked) = self.wake_cpu(t);
        let cpu = self.core_wake_cpu(t, cpu);
        self.cpus[local as usize].stats.ttwu_local += u64::from(local == cpu);
        if cpu != prev {
            self.migrate(t, prev, cpu, now);
        }
        let cost = costs.wake + costs.select + costs.select_per_cpu * u64::from(looked);
        let far = cpu != local && costs.ipi > 0 && self.cpus[cpu as usize].curr.is_none();
        if far {
            // Queued to the idle CPU, which activates it itself.
            self.tasks[t as usize].life = Life::Waking;
            self.cpus[cpu as usize].ipi_pending = true;
            self.watch(cpu);
            let at = now + costs.ipi + costs.idle_exit;
            self.fact(local, "ipi_send_cpu", |_| {
                format!("cpu={cpu} callsite=ttwu_queue_wakelist callback=sched_ttwu_pending")
            });
            self.agenda.push(
                at,
                Rank::Interrupt,
                cpu,
                Happening::Activate { task: t, sync },
            );
            return cost;
        }
        self.account(cpu, now);
        self.activate(t, cpu, sync, now);
        cost + costs.enqueue
    }

    /// Puts a woken task on a queue and asks whether it preempts.
    pub(crate) fn activate(&mut self, t: u32, cpu: u32, sync: bool, now: u64) {
        self.cpus[cpu as usize].ipi_pending = false;
        let fair = self.tasks[t as usize].fair;
        let mut flags = Enqueue::WAKEUP;
        if self.class.is_on_rq(fair) {
            flags = flags | Enqueue::DELAYED;
        } else if self.class.task_cpu(fair) != CpuId(cpu) {
            flags = flags | Enqueue::MIGRATED;
        }
        self.enqueue(t, cpu, flags, now);
        let mut flags = Wake::TTWU;
        if sync {
            flags = flags | Wake::SYNC;
        }
        self.check_preempt(cpu, t, flags, now);
        let task = self.task_ref(t);
        let local = self.notes.local.min(self.cpus.len() as u32 - 1);
        self.emit(
            local,
            now,
            EventKind::SchedWakeup {
                task,
                target_cpu: cpu,
            },
        );
        if self.cpus[cpu as usize].rt.overloaded && self.pending(cpu) != Resched::Full {
            self.rt_push(cpu, now);
        }
    }

    /// Puts a task on its class's queue of `cpu`; `flags` matter to a fair task.
    fn enqueue(&mut self, t: u32, cpu: u32, flags: Enqueue, now: u64) {
        let task = &mut self.tasks[t as usize];
        task.life = Life::Runnable;
        let fair = task.fair;
        match task.class {
            ClassOf::Fair => {
                let clock = self.clock(cpu);
                let flags = flags | Enqueue::NOCLOCK;
                self.class
                    .enqueue_task(CpuId(cpu), fair, flags, clock, &mut self.notes);
                self.server_if_filled(cpu, now);
            }
            ClassOf::Rt { prio, .. } => self.rt_enqueue(cpu, t, prio, now),
        }
        self.info_enqueue(t, now);
        self.count(cpu);
        self.core_enqueued(t, cpu);
        self.tick_if_needed(cpu, now);
        self.told(now);
    }

    /// First enqueue of a new task.
    pub(crate) fn first_enqueue(&mut self, t: u32, cpu: u32, parent: Option<u32>, now: u64) {
        let task = &mut self.tasks[t as usize];
        task.cpu = cpu;
        task.start = now;
        self.tell_cpus(t, cpu);
        self.enqueue(t, cpu, Enqueue::INITIAL, now);
        let task = self.task_ref(t);
        let local = match parent {
            Some(_) => self.notes.local.min(self.cpus.len() as u32 - 1),
            None => cpu,
        };
        self.emit(
            local,
            now,
            EventKind::SchedWakeupNew {
                task,
                target_cpu: cpu,
            },
        );
        self.check_preempt(cpu, t, Wake::FORK, now);
    }

    /// Where a task may run: no tracepoint tells.
    pub(crate) fn tell_cpus(&mut self, t: u32, cpu: u32) {
        self.fact(cpu, "task_cpus", |sim| {
            let task = &sim.tasks[t as usize];
            let all = sim.cpus.len() as u32;
            let allowed: Vec<u32> = (0..all).filter(|&c| task.allowed.has(c)).collect();
            format!("pid={} cpus={}", task.pid, state_log::cpu_list(&allowed))
        });
    }

    /// Whether the task that has come to a CPU preempts its current one. If so, `schedule()` does not read the clock again
    /// (`rq_clock_skip_update`): the time from here to the switch is charged to the next task.
    pub(crate) fn check_preempt(&mut self, cpu: u32, t: u32, flags: Wake, now: u64) {
        self.check_classes(cpu, t, flags, now);
        let c = &self.cpus[cpu as usize];
        let queued = c
            .curr
            .is_none_or(|curr| self.tasks[curr as usize].life == Life::Runnable);
        if queued && self.pending(cpu) == Resched::Full {
            self.cpus[cpu as usize].skip_clock = Some(self.clock(cpu));
        }
    }

    /// Class order first, then the class's own rule (section 8).
    fn check_classes(&mut self, cpu: u32, t: u32, flags: Wake, now: u64) {
        let id = CpuId(cpu);
        let class = self.tasks[t as usize].class;
        let Some(curr) = self.cpus[cpu as usize].curr else {
            self.class
                .request_resched(id, Resched::Full, Reason::HigherClass, &mut self.notes);
            return;
        };
        match (self.tasks[curr as usize].class, class) {
            (ClassOf::Fair, ClassOf::Fair) => {
                let (fair, clock) = (self.tasks[t as usize].fair, self.clock(cpu));
                self.class
                    .wakeup_preempt(id, fair, flags, clock, &mut self.notes);
                self.told(now);
            }
            (ClassOf::Fair, ClassOf::Rt { .. }) if !self.cpus[cpu as usize].rt.throttled => {
                self.class
                    .request_resched(id, Resched::Full, Reason::HigherClass, &mut self.notes);
            }
            (ClassOf::Rt { prio: c, .. }, ClassOf::Rt { prio: w, .. }) if w < c => {
                self.class
                    .request_resched(id, Resched::Full, Reason::HigherClass, &mut self.notes);
            }
            (ClassOf::Rt { prio: c, .. }, ClassOf::Rt { prio: w, .. }) if w == c => {
                self.rt_equal(cpu, curr, t, w);
            }
            _ => {}
        }
    }

    pub(crate) fn fair_of(&self, t: u32) -> TaskId {
        self.tasks[t as usize].fair
    }
}
