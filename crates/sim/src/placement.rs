//! Which CPU a task goes to. Plain for now: the previous CPU if idle, else an idle one, else the previous.

use schedlab_fair::{CpuId, EntityId, QueueId};

use crate::engine::{Sim, Sink};
use crate::state::ClassOf;

impl<S: Sink> Sim<S> {
    fn is_idle(&self, cpu: u32) -> bool {
        let c = &self.cpus[cpu as usize];
        c.curr.is_none() && !c.ipi_pending && self.class.nr_running(CpuId(cpu)) == 0
    }

    /// CPU for a wakee, and how many CPUs were looked at.
    pub(crate) fn wake_cpu(&self, t: u32) -> (u32, u32) {
        let task = &self.tasks[t as usize];
        if let ClassOf::Rt { prio, .. } = task.class {
            return (self.rt_cpu(t, prio), 1);
        }
        let n = self.cpus.len() as u32;
        let prev = if task.allowed.has(task.cpu) {
            task.cpu
        } else {
            task.allowed.first()
        };
        if self.is_idle(prev) {
            return (prev, 1);
        }
        // From the next CPU on, wrapping, as the kernel's scan does.
        let found = self
            .idle
            .find_from(&task.allowed, (prev + 1) % n, |cpu| self.is_idle(cpu));
        match found {
            Some(cpu) => (cpu, (cpu + n - prev) % n + 1),
            None => (prev, n),
        }
    }

    /// CPU for a new task: the allowed one with the fewest tasks, lowest number first.
    pub(crate) fn fork_cpu(&self, t: u32) -> u32 {
        let task = &self.tasks[t as usize];
        (0..self.cpus.len() as u32)
            .filter(|&c| task.allowed.has(c))
            .min_by_key(|&c| self.class.nr_running(CpuId(c)))
            .unwrap_or(0)
    }

    /// A queued fair task that `cpu`, about to be idle, may take: from the CPU with the most runnable tasks.
    pub(crate) fn find_pull(&self, cpu: u32) -> Option<(u32, u32)> {
        let mut best: Option<(u32, u32)> = None;
        for (from, &n) in self.runnable.iter().enumerate() {
            let from = from as u32;
            debug_assert!(
                from == cpu || n == self.class.h_nr_runnable(CpuId(from)),
                "CPU {from}: {n} runnable tasks noted"
            );
            if from == cpu || n < 2 || best.is_some_and(|(most, _)| n <= most) {
                continue;
            }
            best = Some((n, from));
        }
        let (_, from) = best?;
        let root = self.class.rq(CpuId(from)).cfs;
        self.movable(root, cpu).map(|t| (t, from))
    }

    fn movable(&self, q: QueueId, to: u32) -> Option<u32> {
        let queue = self.class.queue(q);
        let candidates = queue.queued().chain(queue.curr);
        for se in candidates {
            let e = self.class.entity(se);
            let found = match e.my_q {
                Some(below) => self.movable(below, to),
                None => self.may_move(se, queue.curr, to),
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn may_move(&self, se: EntityId, curr: Option<EntityId>, to: u32) -> Option<u32> {
        let e = self.class.entity(se);
        let t = *self.by_entity.get(se.index())?;
        let task = self.tasks.get(t as usize)?;
        let stays = curr == Some(se) || e.sched_delayed || !e.on_rq || !task.allowed.has(to);
        (!stays).then_some(t)
    }

    /// Cost of cold caches after a move.
    pub(crate) fn refill_cost(&self, from: u32, to: u32) -> u64 {
        let costs = &self.config.costs;
        self.by_distance(
            from,
            to,
            [
                0,
                costs.migrate_llc,
                costs.migrate_socket,
                costs.migrate_remote,
            ],
        )
    }

    /// Cost of moving a cache line.
    pub(crate) fn line_cost(&self, from: u32, to: u32) -> u64 {
        if from == to {
            return 0;
        }
        let costs = &self.config.costs;
        self.by_distance(
            from,
            to,
            [
                costs.line_core,
                costs.line_llc,
                costs.line_socket,
                costs.line_remote,
            ],
        )
    }

    /// The figure for two CPUs of the same core, cache, socket or machine.
    fn by_distance(&self, a: u32, b: u32, figures: [u64; 4]) -> u64 {
        let cpus = &self.config.machine.cpus;
        let (a, b) = (cpus[a as usize], cpus[b as usize]);
        let [core, llc, socket, remote] = figures;
        if a.socket != b.socket {
            remote
        } else if a.llc != b.llc {
            socket
        } else if a.core != b.core {
            llc
        } else {
            core
        }
    }
}
