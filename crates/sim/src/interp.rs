//! The interpreter: what tasks do when they have the CPU.

use schedlab_fair::{CpuId, Dequeue, Enqueue, Ns, TaskPolicy};
use schedlab_topology::CpuSet;
use schedlab_trace::event::{EventKind, PrevState};

use crate::code::{Instr, NONE};
use crate::config::{PreemptModel, SimError};
use crate::engine::{Happening, NewTask, Sim, Sink, class_of, fair_part};
use crate::order::Rank;
use crate::preempt::Place;
use crate::program::{LockKind, Mode, Sched};
use crate::sched::Entry;
use crate::state::{Ahead, ClassOf, Doing, Kernel, Life, Retry, Task, allowed_cpus};
use crate::state_log;

/// Steps of one task without time passing before its program counts as stuck.
const STEPS_LIMIT: u64 = 1_000_000;

/// What an instruction leaves to do.
enum Step {
    /// Go on behind it.
    Next,
    /// Go on where the instruction has put the task (a jump, work begun, a sleep that retries).
    Stay,
    /// The task sleeps; go on behind the instruction when it wakes.
    Sleep(PrevState),
    /// The task sleeps and tries the instruction again when it wakes.
    SleepRetry(PrevState, Retry),
    /// The task gives the CPU up but stays runnable.
    Yield,
    /// The task ends.
    End,
}

impl<S: Sink> Sim<S> {
    /// Lets the current task of a CPU go on until it has work that takes time, and plans the end of that.
    pub(crate) fn advance(&mut self, cpu: u32, now: u64) -> Result<(), SimError> {
        let mut steps = 0;
        while let Some(t) = self.cpus[cpu as usize].curr {
            steps += 1;
            if steps > STEPS_LIMIT {
                return Err(SimError::NoProgress {
                    task: self.tasks[t as usize].name.clone(),
                    steps: STEPS_LIMIT,
                });
            }
            let task = &self.tasks[t as usize];
            if self.cpus[cpu as usize].irq_left > 0 || task.overhead > 0 {
                break;
            }
            match task.doing {
                Doing::Work {
                    mode: Mode::User,
                    left,
                    ..
                } if left > 0 => {
                    // A switch that came back to this task may have found its queue out of quota.
                    if self.should_resched(cpu, Place::ReturnToUser) || self.must_throttle(t) {
                        self.leave(cpu, t, now, Entry::Leave)?;
                        continue;
                    }
                    break;
                }
                Doing::Work { left, .. } if left > 0 => {
                    let preemptible = matches!(
                        task.doing,
                        Doing::Work {
                            mode: Mode::Kernel,
                            ..
                        }
                    );
                    if preemptible && self.should_resched(cpu, Place::KernelPreemptible) {
                        self.leave(cpu, t, now, Entry::Preempted)?;
                        continue;
                    }
                    break;
                }
                Doing::Work { mode, cond, .. } => self.work_ends(cpu, t, mode, cond, now)?,
                Doing::Spin { lock, left } => {
                    if !self.spin(cpu, t, lock, left, now)? {
                        break;
                    }
                }
                Doing::Nothing if task.ahead.first().is_some() => self.next_ahead(cpu, t, now)?,
                Doing::Nothing => self.fetch(cpu, t, now)?,
            }
        }
        self.plan(cpu);
        Ok(())
    }

    /// A stretch of work is done.
    fn work_ends(
        &mut self,
        cpu: u32,
        t: u32,
        mode: Mode,
        cond: Option<(u64, u64)>,
        now: u64,
    ) -> Result<(), SimError> {
        let task = &mut self.tasks[t as usize];
        if let Some((spacing, rest)) = cond {
            let chunk = rest.min(spacing);
            let more = rest - chunk;
            task.doing = Doing::Work {
                mode,
                left: chunk,
                cond: (more > 0).then_some((spacing, more)),
            };
            if self.should_resched(cpu, Place::CondResched) {
                return self.leave(cpu, t, now, Entry::Preempted);
            }
            return Ok(());
        }
        task.doing = Doing::Nothing;
        if mode == Mode::KernelNoPreempt && self.should_resched(cpu, Place::KernelPreemptible) {
            return self.leave(cpu, t, now, Entry::Preempted);
        }
        Ok(())
    }

    /// A spinning task looks at its lock; `false`: it goes on spinning.
    fn spin(&mut self, cpu: u32, t: u32, lock: u32, left: u64, now: u64) -> Result<bool, SimError> {
        let l = &mut self.locks[lock as usize];
        if l.owner.is_none() {
            l.owner = Some(t);
            l.spinners.retain(|&s| s != t);
            let last = l.last_cpu;
            self.contention_ends(t, lock);
            let handoff = self.line_cost(last, cpu) * 3 / 2;
            let task = &mut self.tasks[t as usize];
            task.doing = Doing::Nothing;
            task.overhead += handoff;
            task.pc += 1;
            return Ok(true);
        }
        if self.should_resched(cpu, Place::ReturnToUser) || self.must_throttle(t) {
            self.leave(cpu, t, now, Entry::Leave)?;
            return Ok(true);
        }
        if left > 0 {
            return Ok(false);
        }
        let l = &mut self.locks[lock as usize];
        match l.kind {
            LockKind::SpinYield { every } => {
                self.tasks[t as usize].doing = Doing::Spin {
                    lock,
                    left: every.0.max(1),
                };
                self.tasks[t as usize].overhead += self.config.costs.syscall;
                self.yield_now(cpu, t, now)?;
            }
            LockKind::SpinThenSleep { sleep, .. } => {
                l.spinners.retain(|&s| s != t);
                let task = &mut self.tasks[t as usize];
                task.doing = Doing::Nothing;
                task.retry = Retry::Again;
                self.sleep_for(t, cpu, sleep.0, PrevState::INTERRUPTIBLE, now);
                self.schedule(cpu, now, Entry::Block)?;
            }
            LockKind::Spin | LockKind::Sleep => {}
        }
        Ok(true)
    }

    /// Begins the next stretch that was looked ahead at.
    fn next_ahead(&mut self, cpu: u32, t: u32, now: u64) -> Result<(), SimError> {
        let task = &mut self.tasks[t as usize];
        if let Some(Ahead::Work {
            mode: Mode::User, ..
        }) = task.ahead.first()
            && task.kernel != Kernel::User
        {
            task.kernel = Kernel::User;
            if self.should_resched(cpu, Place::ReturnToUser) {
                return self.leave(cpu, t, now, Entry::Leave);
            }
        }
        let task = &mut self.tasks[t as usize];
        match task.ahead.pop() {
            Some(Ahead::Work { mode, ns }) => task.begin(mode, ns),
            Some(Ahead::Call { ns }) => task.enter_call(ns),
            Some(Ahead::Count(units)) => self.work += units,
            None => {}
        }
        Ok(())
    }

    /// Fetches and performs the next instruction.
    fn fetch(&mut self, cpu: u32, t: u32, now: u64) -> Result<(), SimError> {
        let task = &mut self.tasks[t as usize];
        let instr = self.code.instrs[task.pc as usize];
        match instr {
            Instr::Enter { .. } | Instr::Again { .. } => {
                jump(task, instr);
                return Ok(());
            }
            Instr::Count(units) => {
                self.work += units;
                task.pc += 1;
                return Ok(());
            }
            _ => {}
        }
        // A finished system call returns to user mode before anything else; kernel work goes on into its call.
        let user_work = matches!(
            instr,
            Instr::Run {
                mode: Mode::User,
                ..
            } | Instr::RunDrawn {
                mode: Mode::User,
                ..
            } | Instr::RunUntil(_)
        );
        if task.kernel == Kernel::Leaving || (task.kernel == Kernel::Inside && user_work) {
            task.kernel = Kernel::User;
            if self.should_resched(cpu, Place::ReturnToUser) || self.must_throttle(t) {
                return self.leave(cpu, t, now, Entry::Leave);
            }
        }
        match instr {
            Instr::Run { mode, ns } => {
                self.begin_work(t, mode, ns);
                return Ok(());
            }
            Instr::RunDrawn { mode, work } => {
                let work = self.code.durs[work as usize];
                let ns = self.tasks[t as usize].rng.draw(work);
                self.begin_work(t, mode, ns);
                return Ok(());
            }
            Instr::RunCond(index) => {
                self.begin_cond(t, index);
                return Ok(());
            }
            Instr::RunUntil(index) => {
                let (until, check) = self.code.untils[index as usize];
                let task = &mut self.tasks[t as usize];
                if now >= until {
                    task.pc += 1;
                } else {
                    task.begin(Mode::User, check);
                }
                return Ok(());
            }
            _ => {}
        }
        let task = &self.tasks[t as usize];
        if let Retry::Relock(lock) = task.retry {
            return self.relock(cpu, t, lock, now);
        }
        if task.kernel == Kernel::User && self.is_call(instr) {
            let ns = self.call_cost(instr);
            self.tasks[t as usize].enter_call(ns);
            if ns > 0 {
                return Ok(());
            }
        }
        if self.config.preempt == PreemptModel::Voluntary
            && self.tasks[t as usize].kernel == Kernel::Inside
            && may_sleep(instr)
            && self.should_resched(cpu, Place::MightSleep)
        {
            return self.leave(cpu, t, now, Entry::Preempted);
        }
        let step = self.perform(cpu, t, instr, now)?;
        self.finish_step(cpu, t, now, step)
    }

    /// Time from the entry of a system call to its effect.
    fn call_cost(&self, instr: Instr) -> u64 {
        let costs = &self.config.costs;
        costs.syscall
            + match instr {
                Instr::Fork(_) => costs.fork,
                Instr::Exit => costs.exit,
                _ => 0,
            }
    }

    /// Looks at what comes behind the work that a task has just begun, up to the entry of the next system call.
    fn look_ahead(&mut self, t: u32) {
        /// Instructions looked at, so that an empty loop is left.
        const MOST: u32 = 16;
        if !self.look_ahead {
            return;
        }
        for _ in 0..MOST {
            let task = &mut self.tasks[t as usize];
            if task.ahead.is_full() {
                return;
            }
            let instr = self.code.instrs[task.pc as usize];
            let ahead = match instr {
                Instr::Enter { .. } | Instr::Again { .. } => {
                    jump(task, instr);
                    continue;
                }
                Instr::Count(units) => Ahead::Count(units),
                Instr::Run { mode, ns } => Ahead::Work { mode, ns },
                Instr::RunDrawn { mode, work } => Ahead::Work {
                    mode,
                    ns: task.rng.draw(self.code.durs[work as usize]),
                },
                // What these do depends on when they are reached.
                Instr::RunCond(_) | Instr::RunUntil(_) | Instr::Lock(_) | Instr::Unlock(_) => {
                    return;
                }
                _ => {
                    let ns = self.call_cost(instr);
                    let task = &mut self.tasks[t as usize];
                    if ns > 0 && task.ahead.in_user_behind(task.kernel) {
                        task.ahead.push(Ahead::Call { ns });
                    }
                    return;
                }
            };
            task.pc += 1;
            task.ahead.push(ahead);
        }
    }

    fn finish_step(&mut self, cpu: u32, t: u32, now: u64, step: Step) -> Result<(), SimError> {
        let task = &mut self.tasks[t as usize];
        if task.kernel == Kernel::Inside && !matches!(step, Step::Stay | Step::SleepRetry(..)) {
            task.kernel = Kernel::Leaving;
        }
        match step {
            Step::Next => {
                task.pc += 1;
                task.retry = Retry::No;
                Ok(())
            }
            Step::Stay => Ok(()),
            Step::Sleep(state) => {
                task.pc += 1;
                task.retry = Retry::No;
                task.life = Life::Asleep(state);
                self.schedule(cpu, now, Entry::Block)
            }
            Step::SleepRetry(state, retry) => {
                task.retry = retry;
                task.life = Life::Asleep(state);
                self.schedule(cpu, now, Entry::Block)
            }
            Step::Yield => {
                task.pc += 1;
                self.yield_now(cpu, t, now)
            }
            Step::End => {
                self.end_task(cpu, t, now);
                // Its entity stays in the class: its run time is part of the result.
                self.schedule(cpu, now, Entry::Block)
            }
        }
    }

    /// Instructions that enter the kernel even if they need not wait.
    fn is_call(&self, instr: Instr) -> bool {
        match instr {
            // Taking or leaving a free lock is done in user mode.
            Instr::Lock(l) => {
                let l = &self.locks[l as usize];
                l.kind == LockKind::Sleep && l.owner.is_some()
            }
            Instr::Unlock(l) => !self.locks[l as usize].waiters.is_empty(),
            _ => true,
        }
    }

    fn begin_work(&mut self, t: u32, mode: Mode, ns: u64) {
        let task = &mut self.tasks[t as usize];
        task.pc += 1;
        task.begin(mode, ns);
        if ns > 0 {
            self.look_ahead(t);
        }
    }

    /// Kernel work that may be left at each `cond_resched`.
    fn begin_cond(&mut self, t: u32, index: u32) {
        let (work, spacing) = self.code.conds[index as usize];
        let task = &mut self.tasks[t as usize];
        let total = task.rng.draw(work);
        if spacing >= total {
            self.begin_work(t, Mode::Kernel, total);
            return;
        }
        task.pc += 1;
        task.kernel = Kernel::Inside;
        task.doing = Doing::Work {
            mode: Mode::Kernel,
            left: spacing,
            cond: Some((spacing, total - spacing)),
        };
    }

    fn perform(&mut self, cpu: u32, t: u32, instr: Instr, now: u64) -> Result<Step, SimError> {
        Ok(match instr {
            Instr::Sleep(d) => {
                let ns = self.tasks[t as usize].rng.draw(self.code.durs[d as usize]);
                self.arm_wake(t, cpu, ns, now);
                Step::Sleep(PrevState::INTERRUPTIBLE)
            }
            Instr::BlockIo(d) => {
                let ns = self.tasks[t as usize].rng.draw(self.code.durs[d as usize]);
                self.arm_wake(t, cpu, ns, now);
                Step::Sleep(PrevState::UNINTERRUPTIBLE)
            }
            Instr::Timer {
                timer,
                absolute,
                period,
            } => self.timer(t, cpu, timer, period, absolute, now),
            Instr::Beat { timer, period } => {
                let slot = self.timer_slot(t, timer);
                let origin = self.tasks[t as usize].timers[slot].1;
                let passed = (now - origin) / period;
                let next = origin.saturating_add((passed + 1).saturating_mul(period));
                self.arm_wake(t, cpu, next - now, now);
                Step::Sleep(PrevState::INTERRUPTIBLE)
            }
            Instr::Send { channel, bytes } => self.send(t, channel, bytes, now),
            Instr::Recv { channel, bytes } => self.receive(t, channel, bytes, now),
            Instr::Lock(l) => self.lock(t, l),
            Instr::Unlock(l) => {
                self.unlock(t, l, now)?;
                Step::Next
            }
            Instr::Barrier(b) => self.barrier(t, b, now),
            Instr::Wait { cond, lock } => {
                if let Some(l) = lock {
                    self.unlock(t, l, now)?;
                }
                self.conds[cond as usize].push_back(t);
                match lock {
                    // The instruction is done once the lock is taken again.
                    Some(l) => Step::SleepRetry(PrevState::INTERRUPTIBLE, Retry::Relock(l)),
                    None => Step::Sleep(PrevState::INTERRUPTIBLE),
                }
            }
            Instr::Signal(c) => {
                if let Some(w) = self.conds[c as usize].pop_front() {
                    self.wake_by(t, w, false, now);
                }
                Step::Next
            }
            Instr::Broadcast(c) => {
                while let Some(w) = self.conds[c as usize].pop_front() {
                    self.wake_by(t, w, false, now);
                }
                Step::Next
            }
            Instr::SemPost(s) => {
                self.sem_post(t, s, now);
                Step::Next
            }
            Instr::SemWait(s) => self.sem_wait(t, s),
            Instr::HandOver { post, wait, tail } => {
                if self.tasks[t as usize].retry == Retry::Again {
                    return Ok(self.sem_wait(t, wait));
                }
                self.sem_post(t, post, now);
                let task = &mut self.tasks[t as usize];
                task.retry = Retry::Again;
                task.begin(Mode::KernelNoPreempt, u64::from(tail));
                Step::Stay
            }
            Instr::Suspend => {
                let task = &mut self.tasks[t as usize];
                if std::mem::take(&mut task.resume_pending) {
                    Step::Next
                } else {
                    task.suspended = true;
                    Step::Sleep(PrevState::INTERRUPTIBLE)
                }
            }
            Instr::Resume(name) => {
                let name = &self.code.names[name as usize];
                let Some(w) = self.tasks.iter().position(|x| x.name == *name) else {
                    return Err(SimError::NoSuchTask {
                        task: self.tasks[t as usize].name.clone(),
                        target: name.clone(),
                    });
                };
                let other = &mut self.tasks[w];
                if std::mem::take(&mut other.suspended) {
                    self.wake_by(t, w as u32, false, now);
                } else {
                    other.resume_pending = true;
                }
                Step::Next
            }
            Instr::Yield => Step::Yield,
            Instr::Fork(program) => {
                self.fork(cpu, t, program, now);
                Step::Next
            }
            Instr::WaitChildren => {
                let task = &mut self.tasks[t as usize];
                if task.children == 0 {
                    Step::Next
                } else {
                    task.waits_children = true;
                    Step::SleepRetry(PrevState::INTERRUPTIBLE, Retry::Again)
                }
            }
            Instr::Exit => Step::End,
            Instr::SetSched(s) => {
                self.set_sched(cpu, t, s, now);
                Step::Next
            }
            Instr::SetSlice(s) => {
                let s = (s != NONE).then_some(Ns(s));
                self.change(cpu, t, now, |sim| sim.class.set_slice(sim.fair_of(t), s));
                Step::Next
            }
            Instr::SetAffinity(list) => {
                let allowed = allowed_cpus(&self.code.affinities[list as usize], self.cpus.len());
                self.set_affinity(cpu, t, allowed, now)?
            }
            Instr::Run { .. }
            | Instr::RunDrawn { .. }
            | Instr::RunCond(_)
            | Instr::RunUntil(_)
            | Instr::Enter { .. }
            | Instr::Again { .. }
            | Instr::Count(_) => Step::Stay,
        })
    }

    fn sem_post(&mut self, t: u32, s: u32, now: u64) {
        self.sems[s as usize].count += 1;
        if let Some(w) = self.sems[s as usize].waiters.pop_front() {
            self.wake_by(t, w, false, now);
        }
    }

    fn sem_wait(&mut self, t: u32, s: u32) -> Step {
        let sem = &mut self.sems[s as usize];
        if sem.count > 0 {
            sem.count -= 1;
            Step::Next
        } else {
            sem.waiters.push_back(t);
            Step::SleepRetry(PrevState::INTERRUPTIBLE, Retry::Again)
        }
    }

    /// Wakes a task from another's code; the work is the waker's.
    fn wake_by(&mut self, waker: u32, wakee: u32, sync: bool, now: u64) {
        let cost = self.wake(wakee, sync, now);
        self.tasks[waker as usize].overhead += cost;
    }

    fn arm_wake(&mut self, t: u32, cpu: u32, ns: u64, now: u64) {
        let task = &mut self.tasks[t as usize];
        task.sleep_seq = task.sleep_seq.wrapping_add(1);
        let seq = task.sleep_seq;
        self.agenda.push(
            now.saturating_add(ns),
            Rank::Timer,
            cpu,
            Happening::WakeTimer { task: t, seq },
        );
    }

    fn sleep_for(&mut self, t: u32, cpu: u32, ns: u64, state: PrevState, now: u64) {
        self.arm_wake(t, cpu, ns, now);
        self.tasks[t as usize].life = Life::Asleep(state);
    }

    /// Place of a task's timer in its list; its periods count from the task's start.
    fn timer_slot(&mut self, t: u32, timer: u32) -> usize {
        let start = self.tasks[t as usize].start;
        let timers = &mut self.tasks[t as usize].timers;
        match timers.iter().position(|&(id, _)| id == timer) {
            Some(i) => i,
            None => {
                timers.push((timer, start));
                timers.len() - 1
            }
        }
    }

    /// rt-app's timer: the next expiry is one period after the last.
    fn timer(
        &mut self,
        t: u32,
        cpu: u32,
        timer: u32,
        period: u64,
        absolute: bool,
        now: u64,
    ) -> Step {
        let slot = self.timer_slot(t, timer);
        let task = &mut self.tasks[t as usize];
        let next = task.timers[slot].1.saturating_add(period);
        if next <= now {
            // Missed: an absolute timer keeps its beat, a relative one starts anew from here.
            task.timers[slot].1 = if absolute { next } else { now };
            return Step::Next;
        }
        task.timers[slot].1 = next;
        self.arm_wake(t, cpu, next - now, now);
        Step::Sleep(PrevState::INTERRUPTIBLE)
    }

    fn send(&mut self, t: u32, channel: u32, bytes: u32, now: u64) -> Step {
        let c = &mut self.channels[channel as usize];
        let size = bytes.saturating_add(c.overhead);
        // A message larger than the buffer enters an empty one, or it could never be sent.
        if c.used > 0 && c.used.saturating_add(size) > c.capacity {
            if !c.writers.contains(&t) {
                c.writers.push_back(t);
            }
            return Step::SleepRetry(PrevState::INTERRUPTIBLE, Retry::Again);
        }
        c.used = c.used.saturating_add(size);
        c.inside.push_back(bytes);
        let sync = c.sync_wake;
        if let Some(r) = c.readers.pop_front() {
            self.wake_by(t, r, sync, now);
        }
        Step::Next
    }

    fn receive(&mut self, t: u32, channel: u32, bytes: u32, now: u64) -> Step {
        let c = &mut self.channels[channel as usize];
        if c.inside.is_empty() {
            if !c.readers.contains(&t) {
                c.readers.push_back(t);
            }
            return Step::SleepRetry(PrevState::INTERRUPTIBLE, Retry::Again);
        }
        let mut want = bytes;
        while let Some(first) = c.inside.front_mut() {
            let take = want.min(*first);
            if take < *first && !c.messages {
                *first -= take;
                c.used -= take;
                break;
            }
            // A message goes as a whole, with its share of the buffer.
            let whole = *first;
            c.inside.pop_front();
            c.used -= whole.saturating_add(c.overhead).min(c.used);
            want -= take;
            if want == 0 || c.messages {
                break;
            }
        }
        if c.used <= c.writer_wake_below {
            let all = c.wake_all_writers;
            let writers = c.writers.len();
            for _ in 0..if all { writers } else { writers.min(1) } {
                if let Some(w) = self.channels[channel as usize].writers.pop_front() {
                    self.wake_by(t, w, true, now);
                }
            }
        }
        // What is left over is for the next reader.
        let c = &mut self.channels[channel as usize];
        if !c.inside.is_empty()
            && let Some(r) = c.readers.pop_front()
        {
            self.wake_by(t, r, false, now);
        }
        Step::Next
    }

    fn lock(&mut self, t: u32, lock: u32) -> Step {
        let l = &mut self.locks[lock as usize];
        if l.owner.is_none() {
            l.owner = Some(t);
            self.contention_ends(t, lock);
            self.tasks[t as usize].overhead += self.config.costs.lock;
            return Step::Next;
        }
        self.contention_begins(t, lock);
        let l = &mut self.locks[lock as usize];
        let left = match l.kind {
            LockKind::Sleep => {
                if !l.waiters.contains(&t) {
                    l.waiters.push_back(t);
                }
                return Step::SleepRetry(PrevState::INTERRUPTIBLE, Retry::Again);
            }
            LockKind::Spin => u64::MAX,
            LockKind::SpinYield { every } => every.0.max(1),
            LockKind::SpinThenSleep { spin, .. } => spin.0.max(1),
        };
        l.spinners.push_back(t);
        let task = &mut self.tasks[t as usize];
        task.kernel = Kernel::User;
        task.doing = Doing::Spin { lock, left };
        Step::Stay
    }

    fn relock(&mut self, cpu: u32, t: u32, lock: u32, now: u64) -> Result<(), SimError> {
        let l = &mut self.locks[lock as usize];
        let step = if l.owner.is_none() {
            l.owner = Some(t);
            self.contention_ends(t, lock);
            self.tasks[t as usize].overhead += self.config.costs.lock;
            Step::Next
        } else {
            self.contention_begins(t, lock);
            let l = &mut self.locks[lock as usize];
            if !l.waiters.contains(&t) {
                l.waiters.push_back(t);
            }
            Step::SleepRetry(PrevState::INTERRUPTIBLE, Retry::Relock(lock))
        };
        self.finish_step(cpu, t, now, step)
    }

    /// For traces with state records: a task begins to wait for a lock, unless it does so already.
    fn contention_begins(&mut self, t: u32, lock: u32) {
        let Some(state) = &mut self.notes.state else {
            return;
        };
        if state.contending.insert(t) {
            self.fact(self.tasks[t as usize].cpu, "contention_begin", |sim| {
                let l = &sim.locks[lock as usize];
                let kind = if l.kind == LockKind::Sleep {
                    "MUTEX"
                } else {
                    "SPIN"
                };
                let owner = l.owner.map_or(0, |o| sim.tasks[o as usize].pid);
                let at = state_log::lock_address(lock);
                format!("0x{at:x} (flags={kind}) owner={owner}")
            });
        }
    }

    /// The same for its end.
    fn contention_ends(&mut self, t: u32, lock: u32) {
        let Some(state) = &mut self.notes.state else {
            return;
        };
        if state.contending.remove(&t) {
            self.fact(self.tasks[t as usize].cpu, "contention_end", |_| {
                format!("0x{:x} (ret=0)", state_log::lock_address(lock))
            });
        }
    }

    fn unlock(&mut self, t: u32, lock: u32, now: u64) -> Result<(), SimError> {
        let l = &mut self.locks[lock as usize];
        if l.owner != Some(t) {
            return Err(SimError::NotHolder {
                task: self.tasks[t as usize].name.clone(),
                lock,
            });
        }
        l.owner = None;
        l.last_cpu = self.tasks[t as usize].cpu;
        if let Some(w) = l.waiters.pop_front() {
            self.wake_by(t, w, false, now);
        }
        // The first spinner that runs right now takes it at once.
        let l = &self.locks[lock as usize];
        let running = l
            .spinners
            .iter()
            .copied()
            .find(|&s| self.cpus[self.tasks[s as usize].cpu as usize].curr == Some(s));
        if let Some(s) = running {
            let cpu = self.tasks[s as usize].cpu;
            self.agenda.push(now, Rank::Work, cpu, Happening::Poke);
        }
        Ok(())
    }

    fn barrier(&mut self, t: u32, b: u32, now: u64) -> Step {
        let barrier = &mut self.barriers[b as usize];
        if barrier.inside.len() + 1 < barrier.count as usize {
            barrier.inside.push(t);
            return Step::Sleep(PrevState::INTERRUPTIBLE);
        }
        let waiting = std::mem::take(&mut barrier.inside);
        for w in waiting {
            self.wake_by(t, w, false, now);
        }
        Step::Next
    }

    fn yield_now(&mut self, cpu: u32, t: u32, now: u64) -> Result<(), SimError> {
        self.account(cpu, now);
        self.tasks[t as usize].stats.yields += 1;
        self.cpus[cpu as usize].stats.yld_count += 1;
        match self.tasks[t as usize].class {
            ClassOf::Fair => {
                let clock = self.clock(cpu);
                self.class.yield_task(CpuId(cpu), clock, &mut self.notes);
                self.told(now);
            }
            ClassOf::Rt { prio, .. } => self.cpus[cpu as usize].rt.requeue_tail(t, prio),
        }
        self.schedule(cpu, now, Entry::Leave)
    }

    fn fork(&mut self, cpu: u32, t: u32, program: u32, now: u64) {
        let clock = self.clock(cpu);
        self.class
            .update_curr_task(CpuId(cpu), clock, &mut self.notes);
        self.told(now);
        let parent = &self.tasks[t as usize];
        let fair = self.class.fork(parent.fair);
        let name = self.config.programs[program as usize].name.clone();
        let parent = &self.tasks[t as usize];
        let new = NewTask {
            comm: &name,
            fair,
            sched: parent.sched,
            allowed: parent.allowed.clone(),
            restricted: parent.restricted,
            mm: parent.mm,
            code: program,
            parent: Some(t),
        };
        let child = self.add_task(new);
        // Its timers count from here.
        self.tasks[child as usize].start = now;
        self.tasks[t as usize].children += 1;
        let (p, c) = (self.task_ref(t), self.task_ref(child));
        self.emit(
            cpu,
            now,
            EventKind::SchedProcessFork {
                parent_comm: p.comm,
                parent_pid: p.pid,
                child_comm: c.comm,
                child_pid: c.pid,
            },
        );
        let to = self.fork_cpu(child);
        self.account(to, now);
        self.first_enqueue(child, to, Some(t), now);
        self.tasks[t as usize].overhead += self.config.costs.enqueue;
    }

    fn end_task(&mut self, cpu: u32, t: u32, now: u64) {
        let task = self.task_ref(t);
        self.emit(cpu, now, EventKind::SchedProcessExit { task });
        self.tasks[t as usize].life = Life::Dead;
        self.alive -= 1;
        self.last_exit = now;
        let Some(p) = self.tasks[t as usize].parent else {
            return;
        };
        let parent = &mut self.tasks[p as usize];
        parent.children = parent.children.saturating_sub(1);
        if parent.waits_children && parent.children == 0 {
            parent.waits_children = false;
            self.wake(p, true, now);
        }
    }

    /// Takes the running task off its queue, changes it, and puts it back (section 7).
    fn change(&mut self, cpu: u32, t: u32, now: u64, change: impl FnOnce(&mut Self)) {
        self.account(cpu, now);
        if self.tasks[t as usize].class != ClassOf::Fair {
            change(self);
            return;
        }
        let (fair, clock, id) = (self.fair_of(t), self.clock(cpu), CpuId(cpu));
        let off = Dequeue::SAVE | Dequeue::MOVE | Dequeue::NOCLOCK;
        self.core_dequeued(t, cpu, true);
        self.class
            .dequeue_task(id, fair, off, clock, &mut self.notes);
        self.class.put_prev_task(id, fair, clock, &mut self.notes);
        change(self);
        let on = Enqueue::RESTORE | Enqueue::MOVE | Enqueue::NOCLOCK;
        self.class
            .enqueue_task(id, fair, on, clock, &mut self.notes);
        self.class.set_next_task(id, fair, clock, &mut self.notes);
        self.core_enqueued(t, cpu);
        self.told(now);
    }

    fn set_sched(&mut self, cpu: u32, t: u32, s: Sched, now: u64) {
        // As in the kernel, what is in force already changes nothing.
        if self.tasks[t as usize].sched == s {
            return;
        }
        self.note_class(cpu);
        let (old, new) = (self.tasks[t as usize].class, class_of(s));
        let before = self.tasks[t as usize].sched;
        let (nice, policy) = fair_part(s);
        match (old, new) {
            (ClassOf::Fair, ClassOf::Fair) => {
                self.change(cpu, t, now, |sim| {
                    let fair = sim.fair_of(t);
                    sim.class.set_policy(fair, policy, &mut sim.notes);
                    sim.class.set_nice(fair, nice, &mut sim.notes);
                });
                let (was, _) = fair_part(before);
                let clock = self.clock(cpu);
                let lowered = nice > was || (policy == TaskPolicy::Idle && before != Sched::Idle);
                let fair = self.fair_of(t);
                self.class
                    .prio_changed(CpuId(cpu), fair, lowered, clock, &mut self.notes);
            }
            (ClassOf::Fair, ClassOf::Rt { prio, .. }) => {
                let (fair, clock, id) = (self.fair_of(t), self.clock(cpu), CpuId(cpu));
                let off = Dequeue::SAVE | Dequeue::MOVE | Dequeue::NOCLOCK;
                self.class
                    .dequeue_task(id, fair, off, clock, &mut self.notes);
                self.class.put_prev_task(id, fair, clock, &mut self.notes);
                self.cpus[cpu as usize].rt.add(t, prio, true);
            }
            (ClassOf::Rt { prio, .. }, ClassOf::Fair) => {
                self.cpus[cpu as usize].rt.remove(t, prio);
                let (fair, clock, id) = (self.fair_of(t), self.clock(cpu), CpuId(cpu));
                self.class.set_policy(fair, policy, &mut self.notes);
                self.class.set_nice(fair, nice, &mut self.notes);
                let on = Enqueue::RESTORE | Enqueue::MOVE | Enqueue::NOCLOCK;
                self.class
                    .enqueue_task(id, fair, on, clock, &mut self.notes);
                self.class.set_next_task(id, fair, clock, &mut self.notes);
                self.class.request_resched(
                    id,
                    schedlab_fair::Resched::Full,
                    schedlab_fair::Reason::PrioChange,
                    &mut self.notes,
                );
            }
            (ClassOf::Rt { prio: was, .. }, ClassOf::Rt { prio, .. }) => {
                self.cpus[cpu as usize].rt.remove(t, was);
                self.cpus[cpu as usize].rt.add(t, prio, true);
                if prio > was {
                    self.class.request_resched(
                        CpuId(cpu),
                        schedlab_fair::Resched::Full,
                        schedlab_fair::Reason::PrioChange,
                        &mut self.notes,
                    );
                }
            }
        }
        self.tasks[t as usize].sched = s;
        self.tasks[t as usize].class = new;
        self.sync_nr_other(cpu);
        self.count(cpu);
        self.core_dequeued(t, cpu, true);
        self.core_enqueued(t, cpu);
        self.told(now);
    }

    fn set_affinity(
        &mut self,
        cpu: u32,
        t: u32,
        allowed: CpuSet,
        now: u64,
    ) -> Result<Step, SimError> {
        let stays = allowed.has(cpu);
        self.tasks[t as usize].allowed = allowed;
        self.tasks[t as usize].restricted = true;
        self.tell_cpus(t, cpu);
        if stays {
            return Ok(Step::Next);
        }
        // The migration stopper takes the task to a CPU that it may use.
        let to = self.fork_cpu(t);
        let task = &mut self.tasks[t as usize];
        task.pc += 1;
        task.retry = Retry::No;
        task.kernel = Kernel::Leaving;
        let (class, fair) = (task.class, task.fair);
        self.account(cpu, now);
        self.account(to, now);
        self.core_dequeued(t, cpu, false);
        match class {
            ClassOf::Fair => {
                let clock = self.clock(cpu);
                let id = CpuId(cpu);
                let off = Dequeue::SAVE | Dequeue::MOVE | Dequeue::NOCLOCK | Dequeue::MIGRATING;
                self.class
                    .dequeue_task(id, fair, off, clock, &mut self.notes);
                self.told(now);
                self.migrate(t, cpu, to, now);
                self.schedule(cpu, now, Entry::Leave)?;
                let clock = self.clock(to);
                let on = Enqueue::RESTORE | Enqueue::MOVE | Enqueue::MIGRATED;
                self.class
                    .enqueue_task(CpuId(to), fair, on, clock, &mut self.notes);
            }
            ClassOf::Rt { prio, .. } => {
                self.cpus[cpu as usize].rt.remove(t, prio);
                self.sync_nr_other(cpu);
                self.migrate(t, cpu, to, now);
                self.schedule(cpu, now, Entry::Leave)?;
                self.cpus[to as usize].rt.add(t, prio, false);
                self.sync_nr_other(to);
            }
        }
        self.count(to);
        self.core_enqueued(t, to);
        self.told(now);
        self.check_preempt(to, t, schedlab_fair::Wake::NONE, now);
        Ok(Step::Stay)
    }
}

/// Whether a call passes a point that may sleep (`might_sleep`) before its effect: allocations and mutexes do, waking
/// someone (futex, signal) and `sched_yield` do not.
fn may_sleep(instr: Instr) -> bool {
    !matches!(
        instr,
        Instr::Unlock(_)
            | Instr::Signal(_)
            | Instr::Broadcast(_)
            | Instr::SemPost(_)
            | Instr::Resume(_)
            | Instr::Yield
    )
}

/// Begins, repeats or ends a loop.
fn jump(task: &mut Task, instr: Instr) {
    match instr {
        Instr::Enter { end, times: 0 } => task.pc = end,
        Instr::Enter { times, .. } => {
            task.loops.push(times);
            task.pc += 1;
        }
        Instr::Again { start } => {
            if let Some(left) = task.loops.last_mut() {
                if *left != NONE {
                    *left -= 1;
                }
                if *left > 0 {
                    task.pc = start + 1;
                    return;
                }
                task.loops.pop();
            }
            task.pc += 1;
        }
        _ => {}
    }
}
