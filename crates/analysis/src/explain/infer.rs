//! State records that no probe made: the class itself, driven by the wakeups, switches and charges of a trace.
//!
//! What is not in such a trace is assumed: no groups, the profile's default slices, everybody at lag zero when first seen, no
//! interrupt time. At each recorded switch the rules pick too; how often they pick the task that the kernel
//! picked tells how far the assumptions carry. The kernel's choice is then made theirs.

use std::collections::BTreeMap;

use schedlab_fair::{
    Class, CpuId, Dequeue, Enqueue, EntityId, Hooks, Ns, Point, QueueId, Resched, TaskAttr, TaskId,
    Wake,
};
use schedlab_trace::{Event, EventKind, Pid, TaskRef};

use super::explainer::Options;
use crate::check::record::{Field, Kind, Record};

/// What the rules say at a recorded switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pick {
    /// They pick the task that the kernel picked, and there was another.
    Agrees,
    /// They pick another.
    Differs,
    /// There was no choice, or not between fair tasks.
    None,
}

/// A class beside a trace.
#[derive(Debug)]
pub(super) struct Inference {
    class: Class,
    waking_queues: bool,
    tasks: BTreeMap<Pid, TaskId>,
    pids: Vec<Pid>,
    /// What to take from a time to get the CPU's clock.
    offset: Vec<u64>,
    /// The fair task that runs, by CPU.
    running: Vec<Option<Pid>>,
    out: Vec<Record>,
}

/// Turns the class's steps into records.
struct Probe<'a> {
    out: &'a mut Vec<Record>,
    pids: &'a [Pid],
    ts: u64,
}

impl Hooks for Probe<'_> {
    fn point(&mut self, class: &Class, point: Point, queue: QueueId, se: Option<EntityId>) {
        let (kind, ret) = match point {
            Point::Enqueue => (Kind::Enqueue, None),
            Point::Place => (Kind::Place, None),
            Point::Dequeue(left) => (Kind::Dequeue, Some(left)),
            Point::Deadline(used) => (Kind::Deadline, Some(used)),
            Point::Curr => (Kind::Curr, None),
            Point::Pick => (Kind::Pick, None),
            Point::SetNext => (Kind::SetNext, None),
            Point::PutPrev => (Kind::PutPrev, None),
            Point::Requeue => (Kind::Requeue, None),
            Point::Lag | Point::Reweight => return,
        };
        let q = class.queue(queue);
        let mut r = Record::made(self.ts, q.cpu.0, kind);
        r.need_resched = class.resched(q.cpu) != Resched::None;
        r.set(Field::Cfs, queue.index() as u64 + 1);
        r.set(Field::Se, se.map_or(0, |s| s.index() as u64 + 1));
        r.set(Field::Clk, class.rq(q.cpu).clock_task);
        r.set(Field::Zv, q.anchor.0);
        if let Some(left) = ret {
            r.set(Field::Ret, u64::from(left));
        }
        if let Some(se) = se {
            let e = class.entity(se);
            let pid = self.pids.get(se.index()).copied().unwrap_or(0);
            for (field, value) in [
                (Field::Grp, 0),
                (Field::Pid, i64::from(pid) as u64),
                (Field::Vr, e.vruntime.0),
                (Field::Dl, e.deadline.0),
                (Field::Vlag, e.vlag as u64),
                (Field::Slice, e.slice),
                (Field::W, e.load.weight.0),
                (Field::Delayed, u64::from(e.sched_delayed)),
                (Field::OnRq, u64::from(e.on_rq)),
            ] {
                r.set(field, value);
            }
            if class.profile().protection == schedlab_fair::profile::Protection::MinSlice {
                r.set(Field::Vprot, e.vprot.0);
            }
        }
        self.out.push(r);
    }
}

/// Most CPUs that are followed: what a kernel can have.
const MOST_CPUS: u32 = 8192;

impl Inference {
    pub(super) fn new(options: &Options) -> Self {
        let n = options.cpus.clamp(1, MOST_CPUS);
        let mut class = Class::new(options.profile, n, options.hz);
        class.set_checks(false);
        Self {
            class,
            waking_queues: options.waking_queues,
            tasks: BTreeMap::new(),
            pids: Vec::new(),
            offset: vec![0; n as usize],
            running: vec![None; n as usize],
            out: Vec::new(),
        }
    }

    /// The records that an event makes, what the rules said if it is a switch, and whether they ask for a reschedule
    /// of a CPU.
    pub(super) fn step(&mut self, e: &Event) -> (Vec<Record>, Pick, Option<(u32, bool)>) {
        self.out.clear();
        let mut pick = Pick::None;
        let mut asked = None;
        if (e.cpu as usize) < self.offset.len() {
            self.meet_current(e);
            match &e.kind {
                EventKind::SchedSwitch {
                    prev,
                    prev_state,
                    next,
                } => {
                    pick = self.switch(e, *prev, prev_state.is_runnable(), *next);
                    asked = Some(e.cpu);
                }
                EventKind::SchedWaking { task, target_cpu } if self.waking_queues => {
                    asked = self.wakeup(e.ts, *task, *target_cpu, false);
                }
                EventKind::SchedWakeup { task, target_cpu } => {
                    asked = self.wakeup(e.ts, *task, *target_cpu, false);
                }
                EventKind::SchedWakeupNew { task, target_cpu } => {
                    asked = self.wakeup(e.ts, *task, *target_cpu, true);
                }
                EventKind::SchedMigrateTask { task, dest_cpu, .. } if fair(*task) => {
                    let t = self.task(e.ts, *task);
                    if self.class.is_on_rq(t) {
                        self.move_to(e.ts, t, *dest_cpu);
                    }
                }
                EventKind::SchedStatRuntime { pid, runtime, .. } => {
                    asked = self.charge(e, *pid, *runtime);
                }
                EventKind::SchedProcessExec { pid, old_pid, .. } if pid != old_pid => {
                    if let Some(t) = self.tasks.remove(old_pid) {
                        self.tasks.insert(*pid, t);
                        self.pids[t.index()] = *pid;
                    }
                }
                _ => {}
            }
        }
        let asked = asked.map(|cpu| (cpu, self.class.resched(CpuId(cpu)) != Resched::None));
        (std::mem::take(&mut self.out), pick, asked)
    }

    /// Every event says who is current on its CPU. If it is not the one that was switched in, a switch is missing.
    fn meet_current(&mut self, e: &Event) {
        let current = match &e.kind {
            EventKind::SchedSwitch { prev, .. } => prev.pid,
            _ => e.pid,
        };
        let ran = self.running[e.cpu as usize];
        if ran.is_none() || ran == Some(current) {
            return;
        }
        // Whoever ran has left, to sleep for all that is known.
        if let Some(t) = self.class.curr(CpuId(e.cpu)) {
            self.leave(e.ts, t);
        }
        self.running[e.cpu as usize] = None;
        let known = self.tasks.get(&current).copied();
        if let Some(t) = known.filter(|_| current != 0) {
            self.make_current(e.ts, t, e.cpu);
            self.running[e.cpu as usize] = Some(current);
        }
    }

    /// A task is of the fair class no more, or asleep: off its queue, wherever it is.
    fn leave(&mut self, ts: u64, t: TaskId) {
        let cpu = self.class.task_cpu(t);
        if self.class.is_on_rq(t) {
            let now = self.clock(cpu.0, ts);
            let mut flags = Dequeue::SLEEP | Dequeue::SPECIAL;
            if self.class.is_delayed(t) {
                flags = flags | Dequeue::DELAYED;
            }
            self.with(ts, |class, h| {
                class.dequeue_task(cpu, t, flags, now, h);
            });
        }
        if self.class.curr(cpu) == Some(t) {
            self.put(ts, cpu.0);
        }
    }

    fn clock(&self, cpu: u32, ts: u64) -> Ns {
        let offset = self.offset.get(cpu as usize).copied().unwrap_or(0);
        Ns(ts.saturating_sub(offset))
    }

    /// Calls the class with hooks that make records.
    fn with<R>(&mut self, ts: u64, call: impl FnOnce(&mut Class, &mut Probe<'_>) -> R) -> R {
        let mut probe = Probe {
            out: &mut self.out,
            pids: &self.pids,
            ts,
        };
        call(&mut self.class, &mut probe)
    }

    fn task(&mut self, ts: u64, t: TaskRef) -> TaskId {
        let nice = (t.prio - 120).clamp(-20, 19) as i8;
        if let Some(&id) = self.tasks.get(&t.pid) {
            if self.class.entity(id.entity()).nice != nice {
                self.renice(ts, id, nice);
            }
            return id;
        }
        let id = self.class.add_task(TaskAttr {
            nice,
            ..TaskAttr::default()
        });
        if self.pids.len() <= id.index() {
            self.pids.resize(id.index() + 1, 0);
        }
        self.pids[id.index()] = t.pid;
        self.tasks.insert(t.pid, id);
        id
    }

    /// A change of priority shows at the next event that names the task.
    fn renice(&mut self, ts: u64, t: TaskId, nice: i8) {
        let (cpu, queued, running) = (
            self.class.task_cpu(t),
            self.class.is_on_rq(t) && !self.class.is_delayed(t),
            self.is_running(t),
        );
        let now = self.clock(cpu.0, ts);
        self.with(ts, |class, h| {
            if queued {
                class.dequeue_task(cpu, t, Dequeue::SAVE | Dequeue::MOVE, now, h);
                if running {
                    class.put_prev_task(cpu, t, now, h);
                }
            }
            if queued || !class.is_on_rq(t) {
                class.set_nice(t, nice, h);
            }
            if queued {
                class.enqueue_task(cpu, t, Enqueue::RESTORE | Enqueue::MOVE, now, h);
                if running {
                    class.restore_task(cpu, t, now, h);
                }
            }
        });
    }

    fn is_running(&self, t: TaskId) -> bool {
        self.class.curr(self.class.task_cpu(t)) == Some(t)
    }

    fn enqueue(&mut self, ts: u64, t: TaskId, cpu: u32, flags: Enqueue) {
        let now = self.clock(cpu, ts);
        self.with(ts, |class, h| {
            class.enqueue_task(CpuId(cpu), t, flags, now, h);
        });
    }

    /// Takes a task that is not current off its queue.
    fn take_off(&mut self, ts: u64, t: TaskId) {
        let from = self.class.task_cpu(t);
        let now = self.clock(from.0, ts);
        let flags = if self.class.is_delayed(t) {
            Dequeue::SLEEP | Dequeue::DELAYED
        } else {
            Dequeue::MIGRATING
        };
        self.with(ts, |class, h| {
            class.dequeue_task(from, t, flags, now, h);
        });
    }

    fn move_to(&mut self, ts: u64, t: TaskId, cpu: u32) {
        if (cpu as usize) < self.offset.len()
            && self.class.task_cpu(t) != CpuId(cpu)
            && !self.is_running(t)
        {
            self.take_off(ts, t);
            self.enqueue(ts, t, cpu, Enqueue::MIGRATED);
        }
    }

    fn wakeup(&mut self, ts: u64, task: TaskRef, cpu: u32, new: bool) -> Option<u32> {
        if !fair(task) || cpu as usize >= self.offset.len() {
            return None;
        }
        let t = self.task(ts, task);
        if self.is_running(t) {
            return None;
        }
        if self.class.is_delayed(t) && self.class.task_cpu(t) == CpuId(cpu) {
            self.enqueue(ts, t, cpu, Enqueue::WAKEUP | Enqueue::DELAYED);
        } else {
            if self.class.is_on_rq(t) {
                self.take_off(ts, t);
            }
            let flags = if new {
                Enqueue::INITIAL
            } else {
                Enqueue::WAKEUP
            };
            self.enqueue(ts, t, cpu, flags);
        }
        let now = self.clock(cpu, ts);
        let flags = if new { Wake::FORK } else { Wake::TTWU };
        self.with(ts, |class, h| {
            class.wakeup_preempt(CpuId(cpu), t, flags, now, h);
        });
        Some(cpu)
    }

    /// A charge tells how much of the time was the task's own, and is a step at which the class decides.
    fn charge(&mut self, e: &Event, pid: Pid, runtime: u64) -> Option<u32> {
        let cpu = e.cpu as usize;
        if self.running[cpu] != Some(pid) {
            return None;
        }
        let t = *self.tasks.get(&pid)?;
        let end = self
            .class
            .entity(t.entity())
            .exec_start
            .saturating_add(runtime);
        // Interrupt time is in no charge; the clock stands still meanwhile. It never goes back.
        let clock = end.max(self.class.rq(CpuId(e.cpu)).clock_task);
        if clock <= e.ts {
            self.offset[cpu] = e.ts - clock;
        }
        let now = self.clock(e.cpu, e.ts);
        self.with(e.ts, |class, h| {
            class.update_curr_task(CpuId(e.cpu), now, h);
        });
        Some(e.cpu)
    }

    fn switch(&mut self, e: &Event, prev: TaskRef, stays: bool, next: TaskRef) -> Pick {
        let (ts, cpu, id) = (e.ts, e.cpu as usize, CpuId(e.cpu));
        let now = self.clock(e.cpu, ts);
        for other in [prev, next] {
            if let (false, Some(&t)) = (fair(other), self.tasks.get(&other.pid)) {
                self.leave(ts, t);
            }
        }
        // Who runs here by the class, if it is another than the trace says.
        let ran = self.class.curr(id);
        let known = fair(prev).then(|| self.task(ts, prev));
        if let Some(t) = known
            && ran != Some(t)
        {
            self.make_current(ts, t, e.cpu);
        }
        if let Some(t) = known
            && !stays
        {
            self.with(ts, |class, h| {
                class.dequeue_task(id, t, Dequeue::SLEEP, now, h);
            });
        }
        let choice = self.class.h_nr_runnable(id) > 1;
        let picked = self.with(ts, |class, h| class.pick_task(id, now, h));
        let chosen = fair(next).then(|| self.task(ts, next));
        let agrees = match (picked, chosen) {
            (Some(p), Some(n)) if choice => {
                if p == n {
                    Pick::Agrees
                } else {
                    Pick::Differs
                }
            }
            _ => Pick::None,
        };
        match chosen {
            Some(n) => self.make_current(ts, n, e.cpu),
            None => self.put(ts, e.cpu),
        }
        self.running[cpu] = chosen.map(|_| next.pid);
        self.class.clear_resched(id);
        agrees
    }

    fn put(&mut self, ts: u64, cpu: u32) {
        if let Some(c) = self.class.curr(CpuId(cpu)) {
            let now = self.clock(cpu, ts);
            self.with(ts, |class, h| class.put_prev_task(CpuId(cpu), c, now, h));
        }
    }

    /// Makes a task current on a CPU, wherever the class had it.
    fn make_current(&mut self, ts: u64, t: TaskId, cpu: u32) {
        let id = CpuId(cpu);
        let awake = self.class.is_on_rq(t) && !self.class.is_delayed(t);
        if awake && self.class.curr(id) == Some(t) {
            return;
        }
        self.put(ts, cpu);
        if self.is_running(t) {
            let other = self.class.task_cpu(t);
            self.put(ts, other.0);
            self.running[other.index()] = None;
        }
        if self.class.is_on_rq(t) && (self.class.task_cpu(t) != id || self.class.is_delayed(t)) {
            self.take_off(ts, t);
        }
        if !self.class.is_on_rq(t) {
            self.enqueue(ts, t, cpu, Enqueue::WAKEUP);
        }
        let now = self.clock(cpu, ts);
        self.with(ts, |class, h| class.set_next_task(id, t, now, h));
    }
}

/// Whether a task is of the fair class, by its priority.
fn fair(t: TaskRef) -> bool {
    t.pid != 0 && (100..140).contains(&t.prio)
}
