//! The engine's own invariants (reference section 23): 1, 2, 11, 13 and 15. Those of the fair class are its own.

use schedlab_fair::{CpuId, Resched};

use crate::config::SimError;
use crate::engine::{Sim, Sink};
use crate::state::{ClassOf, Life};

impl<S: Sink> Sim<S> {
    /// Counts the `clock_task` that passed on a CPU to the class of its current task.
    pub(crate) fn note_class(&mut self, cpu: u32) {
        let clock = self.clock(cpu).0;
        let c = &mut self.cpus[cpu as usize];
        let passed = clock - c.classed;
        c.classed = clock;
        match c.curr {
            None => c.idle_clock += passed,
            Some(t) if matches!(self.tasks[t as usize].class, ClassOf::Rt { .. }) => {
                c.rt_clock += passed;
            }
            Some(_) => {}
        }
    }

    /// What must hold on a CPU behind each event that it handled.
    pub(crate) fn verify(&self, cpu: u32) -> Result<(), SimError> {
        let fault = |what: String| Err(SimError::Internal(format!("CPU {cpu}: {what}")));
        let c = &self.cpus[cpu as usize];
        let fair = self.class.curr(CpuId(cpu));
        if self.idle.has(cpu) != c.curr.is_none() {
            return fault("the set of idle CPUs is wrong".into());
        }
        if cfg!(debug_assertions) && !self.watch_is_true(cpu) {
            return fault("what is noted of idle CPUs and waiting tasks is wrong".into());
        }
        let Some(t) = c.curr else {
            if fair.is_some() {
                return fault("the fair class has a current task, the CPU is idle".into());
            }
            if self.class.resched(CpuId(cpu)) == Resched::Lazy {
                return fault("a lazy request on the idle task".into());
            }
            return Ok(());
        };
        let task = &self.tasks[t as usize];
        let name = &task.name;
        if task.cpu != cpu {
            return fault(format!("runs `{name}`, which is on CPU {}", task.cpu));
        }
        if task.life != Life::Runnable {
            return fault(format!("runs `{name}`, which is {:?}", task.life));
        }
        let (queued, current) = match task.class {
            ClassOf::Fair => (
                self.class.is_on_rq(task.fair) && !self.class.is_delayed(task.fair),
                fair == Some(task.fair),
            ),
            ClassOf::Rt { prio, .. } => (c.rt.holds(t, prio), fair.is_none()),
        };
        if !queued {
            return fault(format!("runs `{name}`, which is on no queue"));
        }
        if !current {
            return fault(format!(
                "runs `{name}`; current in the fair class is {fair:?}"
            ));
        }
        Ok(())
    }

    /// What must hold at the end, when everything is accounted up to `end`.
    pub(crate) fn verify_end(&self, end: u64) -> Result<(), SimError> {
        let fault = |what: String| Err(SimError::Internal(what));
        let (mut fair, mut away) = (0, 0);
        for (i, c) in self.cpus.iter().enumerate() {
            if c.times.total() != end {
                return fault(format!(
                    "CPU {i}: {} ns accounted of {end}",
                    c.times.total()
                ));
            }
            fair += self.clock(i as u32).0 - c.idle_clock - c.rt_clock;
            away += c.nr_switches - c.from_idle;
        }
        if cfg!(debug_assertions) && !self.waiting_is_true() {
            return fault("the number of waiting tasks is wrong".into());
        }
        let charged: u64 = self
            .tasks
            .iter()
            .map(|t| self.class.entity(t.fair.entity()).sum_exec_runtime)
            .sum();
        if charged != fair {
            return fault(format!(
                "{charged} ns charged to fair tasks, which were current for {fair} ns"
            ));
        }
        let counted: u64 = self
            .tasks
            .iter()
            .map(|t| t.stats.nvcsw + t.stats.nivcsw)
            .sum();
        if counted != away {
            return fault(format!(
                "{counted} switches counted by tasks, {away} by CPUs"
            ));
        }
        let mut current = vec![false; self.tasks.len()];
        for (cpu, t) in (0..).zip(self.cpus.iter().map(|c| c.curr)) {
            self.verify(cpu)?;
            if let Some(t) = t
                && std::mem::replace(&mut current[t as usize], true)
            {
                return fault(format!("`{}` runs twice", self.tasks[t as usize].name));
            }
        }
        for (t, task) in self.tasks.iter().enumerate() {
            let name = &task.name;
            let queued = match task.class {
                ClassOf::Fair => self.class.is_on_rq(task.fair),
                ClassOf::Rt { prio, .. } => self.cpus[task.cpu as usize].rt.holds(t as u32, prio),
            };
            let fine = match task.life {
                Life::Runnable => queued || self.class.waits_for_quota(task.fair),
                // An ineligible sleeper stays queued for a while.
                Life::Asleep(_) => !queued || self.class.is_delayed(task.fair),
                Life::New | Life::Waking | Life::Dead => !queued,
            };
            if !fine || (current[t] && task.life != Life::Runnable) {
                return fault(format!("`{name}` is {:?}; on a queue: {queued}", task.life));
            }
        }
        Ok(())
    }
}
