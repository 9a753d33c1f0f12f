//! The kernel's own statistics of run queues and tasks (`/proc/schedstat`, `/proc/PID/schedstat`; reference section 18.2).

use schedlab_trace::event::PrevState;

use crate::engine::{Sim, Sink};
use crate::state::{ClassOf, Life};

/// Statistics of a run queue, as the `cpu` lines of `/proc/schedstat` have them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RqStats {
    /// Calls of `sched_yield` by tasks of this CPU.
    pub yld_count: u64,
    /// Calls of `schedule()`.
    pub sched_count: u64,
    /// Those of them that left the CPU idle.
    pub sched_goidle: u64,
    /// Wakeups made on this CPU.
    pub ttwu_count: u64,
    /// Those of them whose task stayed on this CPU.
    pub ttwu_local: u64,
    /// Time that tasks ran here, ns.
    pub rq_cpu_time: u64,
    /// Time that tasks waited here before they ran, ns.
    pub run_delay: u64,
    /// Times that a task began to run here.
    pub pcount: u64,
}

/// Statistics of a task (`sched_info`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SchedInfo {
    /// Time that it waited for a CPU, ns; its waits that go on are not in it.
    pub run_delay: u64,
    /// Longest of these waits, ns.
    pub max_run_delay: u64,
    /// Times that it began to run.
    pub pcount: u64,
    /// Time asleep, ns.
    pub sum_sleep: u64,
    /// Part of it in uninterruptible sleep, ns.
    pub sum_block: u64,
    /// Since when it sleeps, and whether it can be interrupted.
    pub(crate) asleep: Option<(u64, bool)>,
    /// It waits, is a fair task and may run on every CPU.
    pub(crate) free_waiter: bool,
    /// Since when it waits, ns.
    pub(crate) last_queued: Option<u64>,
    /// When it began to run last, ns.
    pub(crate) last_arrival: u64,
}

impl<S: Sink> Sim<S> {
    /// A task has come to wait, unless it does already.
    pub(crate) fn info_enqueue(&mut self, t: u32, now: u64) {
        let task = &mut self.tasks[t as usize];
        let free = task.class == ClassOf::Fair && !task.restricted;
        let info = &mut task.info;
        if info.last_queued.is_none() {
            info.last_queued = Some(now);
            info.free_waiter = free;
            if free {
                self.watch.waits(true);
            }
        }
        if let Some((since, interruptible)) = info.asleep.take() {
            info.sum_sleep += now - since;
            if !interruptible {
                info.sum_block += now - since;
            }
        }
    }

    /// A task waits no longer on a CPU: it runs there, or moves.
    pub(crate) fn info_dequeue(&mut self, t: u32, cpu: u32, now: u64) {
        let info = &mut self.tasks[t as usize].info;
        let Some(since) = info.last_queued.take() else {
            return;
        };
        if std::mem::take(&mut info.free_waiter) {
            self.watch.waits(false);
        }
        let waited = now - since;
        info.run_delay += waited;
        info.max_run_delay = info.max_run_delay.max(waited);
        self.cpus[cpu as usize].stats.run_delay += waited;
    }

    /// A switch between tasks, the idle task being none.
    pub(crate) fn info_switch(&mut self, cpu: u32, prev: Option<u32>, next: Option<u32>, now: u64) {
        if let Some(p) = prev {
            let task = &mut self.tasks[p as usize];
            self.cpus[cpu as usize].stats.rq_cpu_time += now - task.info.last_arrival;
            match task.life {
                Life::Runnable => self.info_enqueue(p, now),
                Life::Asleep(state) => {
                    task.info.asleep = Some((now, state != PrevState::UNINTERRUPTIBLE));
                }
                _ => {}
            }
        }
        if let Some(n) = next {
            self.info_dequeue(n, cpu, now);
            let info = &mut self.tasks[n as usize].info;
            info.last_arrival = now;
            info.pcount += 1;
            self.cpus[cpu as usize].stats.pcount += 1;
        }
    }
}
