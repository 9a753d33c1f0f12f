//! Work conservation: for how long CPUs were idle while fair tasks that they could have run waited on others.
//!
//! A CPU counts as idle if its idle task runs, nothing is queued to it and no wakeup or interrupt to reschedule is under way
//! to it (the kernel's `idle_cpu`). A task counts as waiting if it is a fair task, may run on every CPU, is queued, and its CPU has
//! something else to run or to begin with: of the runnable tasks of a queue, one is the queue's own. As many CPUs idle
//! against work at hand as there are of the rarer of both. All is kept up as queues change, at constant cost.

use schedlab_fair::{CpuId, Ns};

use crate::engine::{Sim, Sink};
use crate::state::ClassOf;

/// Idle CPUs beside waiting tasks, over a whole run.
///
/// Tasks with an affinity of their own do not count as waiting, as an idle CPU may be none of theirs; real-time tasks do not
/// either, as they have rules of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkConservation {
    /// CPU time that was idle while a task waited that could have had it, ns: the sum over CPUs.
    pub idle_while_waiting: Ns,
    /// Longest time in which there was such a CPU without a break, ns.
    pub longest: Ns,
    /// When that began, ns since the start of the run; 0 if it never was.
    pub longest_at: Ns,
    /// How often it began.
    pub violations: u64,
}

/// What a CPU adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    idle: bool,
    /// Runnable fair tasks beyond the one that the CPU can run.
    excess: u32,
}

/// The present state, and what has been.
#[derive(Debug)]
pub(crate) struct Watch {
    parts: Vec<Part>,
    idle: u32,
    excess: u32,
    /// Tasks that wait and may run anywhere.
    free: u32,
    /// Time up to which all is counted.
    seen: u64,
    /// Idle CPUs that could work, since `seen`.
    now: u32,
    /// Since when there has been one.
    since: u64,
    total: WorkConservation,
}

impl Watch {
    pub(crate) fn new(cpus: usize) -> Self {
        let part = Part {
            idle: true,
            excess: 0,
        };
        Self {
            parts: vec![part; cpus],
            idle: cpus as u32,
            excess: 0,
            free: 0,
            seen: 0,
            now: 0,
            since: 0,
            total: WorkConservation::default(),
        }
    }

    fn set(&mut self, cpu: u32, part: Part) {
        let old = std::mem::replace(&mut self.parts[cpu as usize], part);
        self.idle = self.idle + u32::from(part.idle) - u32::from(old.idle);
        self.excess = self.excess + part.excess - old.excess;
    }

    /// A task that may run anywhere begins to wait, or does so no longer.
    pub(crate) fn waits(&mut self, begins: bool) {
        if begins {
            self.free += 1;
        } else {
            self.free -= 1;
        }
    }

    /// Time has come to `now`; nothing has changed since the last [`Watch::look`].
    #[inline]
    pub(crate) fn pass(&mut self, now: u64) {
        self.total.idle_while_waiting.0 += u64::from(self.now) * (now - self.seen);
        self.seen = now;
    }

    /// An event has been handled: what holds from here on.
    #[inline]
    pub(crate) fn look(&mut self) {
        let could = self.idle.min(self.excess).min(self.free);
        if (could == 0) != (self.now == 0) {
            if could > 0 {
                self.since = self.seen;
            } else {
                self.ends();
            }
        }
        self.now = could;
    }

    fn ends(&mut self) {
        let lasted = self.seen - self.since;
        // What begins and ends at the same instant is no state of the machine.
        if lasted > 0 {
            self.total.violations += 1;
            if lasted > self.total.longest.0 {
                self.total.longest = Ns(lasted);
                self.total.longest_at = Ns(self.since);
            }
        }
    }

    /// The sum of a run that ends at `end`.
    pub(crate) fn finish(&mut self, end: u64) -> WorkConservation {
        if end > self.seen {
            self.pass(end);
        }
        if self.now > 0 {
            self.ends();
            self.now = 0;
        }
        self.total
    }
}

impl<S: Sink> Sim<S> {
    fn part(&self, cpu: u32) -> Part {
        let c = &self.cpus[cpu as usize];
        let id = CpuId(cpu);
        let runnable = self.class.h_nr_runnable(id);
        let by_other = c
            .curr
            .is_some_and(|t| matches!(self.tasks[t as usize].class, ClassOf::Rt { .. }));
        Part {
            idle: c.curr.is_none() && !c.ipi_pending && self.class.nr_running(id) == 0,
            excess: if by_other {
                runnable
            } else {
                runnable.saturating_sub(1)
            },
        }
    }

    /// A CPU's queue, current task or pending interrupt has changed.
    pub(crate) fn watch(&mut self, cpu: u32) {
        let part = self.part(cpu);
        self.watch.set(cpu, part);
    }

    /// Whether what is kept up is what the queues say; for the checks behind events.
    pub(crate) fn watch_is_true(&self, cpu: u32) -> bool {
        self.watch.parts[cpu as usize] == self.part(cpu)
    }

    /// The same of the tasks that wait, which takes a look at all of them.
    pub(crate) fn waiting_is_true(&self) -> bool {
        let free = self.tasks.iter().filter(|t| t.info.free_waiter).count();
        self.watch.free as usize == free
    }
}
