//! Ticks that stop under a single task (`nohz_full=`, `NO_HZ_FULL`).
//!
//! While a CPU of the list has nothing to choose between, its own tick is off, and once a second it is ticked from
//! elsewhere (`sched_tick_remote`), which costs it nothing. The rules are those of `sched_can_stop_tick` in 6.12: FIFO
//! tasks need no tick, round-robin ones only among several, fair ones among several or under a quota. In the simulator
//! no CPU has to stay behind to keep house.

use schedlab_fair::CpuId;

use crate::engine::{Happening, Sim, Sink};
use crate::order::Rank;
use crate::state::ClassOf;

/// Distance of remote ticks, ns.
const REMOTE: u64 = 1_000_000_000;

impl<S: Sink> Sim<S> {
    /// Whether the CPU's present task needs no tick.
    fn can_stop_tick(&self, cpu: u32) -> bool {
        let c = &self.cpus[cpu as usize];
        if !c.nohz_full || self.core_sched.is_some() {
            return false;
        }
        let Some(t) = c.curr else { return true };
        match self.tasks[t as usize].class {
            ClassOf::Rt { prio, rr } => !rr || !c.rt.has_peer(prio),
            ClassOf::Fair => {
                self.class.nr_fair(CpuId(cpu)) <= 1
                    && !self.class.has_quota(self.tasks[t as usize].fair)
            }
        }
    }

    /// Arms the tick of a CPU that is busy, or stops it.
    pub(crate) fn arm_tick(&mut self, cpu: u32, now: u64) {
        let c = &self.cpus[cpu as usize];
        if c.curr.is_none() {
            return;
        }
        let stop = self.can_stop_tick(cpu);
        let c = &mut self.cpus[cpu as usize];
        let restart = c.tick_stopped && !stop;
        if c.tick_armed && !restart {
            return;
        }
        c.tick_armed = true;
        c.tick_stopped = stop;
        c.tick_seq = c.tick_seq.wrapping_add(1);
        let seq = c.tick_seq;
        let at = if stop {
            (now / REMOTE + 1) * REMOTE
        } else {
            self.next_tick(cpu, now)
        };
        self.agenda.push(at, Rank::Tick, cpu, Happening::Tick(seq));
    }

    fn next_tick(&mut self, cpu: u32, now: u64) -> u64 {
        let len = self.class.tick_nsec();
        let offset = (u64::from(cpu) * self.config.tick_skew.0) % len;
        let next = match now.checked_sub(offset) {
            Some(since) => (since / len + 1) * len + offset,
            None => offset,
        };
        let late = match self.config.costs.tick_jitter {
            0 => 0,
            most => self.cpus[cpu as usize].tick_jitter.below(most + 1),
        };
        next + late
    }

    /// A task has come to a CPU, which may need its tick again.
    pub(crate) fn tick_if_needed(&mut self, cpu: u32, now: u64) {
        if self.cpus[cpu as usize].tick_stopped {
            self.arm_tick(cpu, now);
        }
    }
}
