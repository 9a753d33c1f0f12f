//! Objects that rt-app makes as they are named: mutexes, conditions, barriers, timers, semaphores.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_sim::program::{BarrierId, CondId, LockId, LockKind, ProgramId, SemId, TimerId};

use crate::error::{Place, Warning};
use crate::plan::{Names, Plan};

/// Objects of the whole file, by name.
#[derive(Default)]
pub(super) struct Objects {
    locks: Names<LockId>,
    conds: Names<CondId>,
    barriers: Names<BarrierId>,
    barrier_uses: BTreeMap<BarrierId, u32>,
    sems: Names<SemId>,
    /// Timers that several threads may share.
    timers: Names<TimerId>,
    timer_users: BTreeMap<TimerId, TimerUse>,
    /// Programs of threads with `instance: 0`, and of those that are forked although they also run from the start.
    pub(super) templates: Names<ProgramId>,
}

/// Who uses a timer, and where that is first written.
struct TimerUse {
    place: Place,
    key: String,
    threads: BTreeSet<(String, u32)>,
}

impl Objects {
    pub(super) fn lock(&mut self, plan: &mut Plan, name: &str) -> LockId {
        self.locks.get_or(name, || plan.lock(LockKind::Sleep))
    }

    pub(super) fn cond(&mut self, plan: &mut Plan, name: &str) -> CondId {
        self.conds.get_or(name, || plan.cond())
    }

    /// What `suspend` waits on: a condition of its own, so that it never meets one of `wait`.
    pub(super) fn suspension(&mut self, plan: &mut Plan, name: &str) -> CondId {
        self.conds
            .get_or(&format!("suspend\0{name}"), || plan.cond())
    }

    pub(super) fn sem(&mut self, plan: &mut Plan, name: &str) -> SemId {
        self.sems.get_or(name, || plan.sem(0))
    }

    /// A timer that is not "unique"; `thread` is the user's name and number.
    pub(super) fn timer(
        &mut self,
        plan: &mut Plan,
        name: &str,
        thread: (&str, u32),
        written: (&Place, &str),
    ) -> TimerId {
        let timer = self.timers.get_or(name, || plan.timer());
        self.timer_users
            .entry(timer)
            .or_insert_with(|| TimerUse {
                place: written.0.clone(),
                key: written.1.into(),
                threads: BTreeSet::new(),
            })
            .threads
            .insert((thread.0.into(), thread.1));
        timer
    }

    /// One more user of a barrier: each mention of its name by each thread counts.
    pub(super) fn barrier(&mut self, plan: &mut Plan, name: &str) -> BarrierId {
        let barrier = self.barriers.get_or(name, || plan.barrier(0));
        *self.barrier_uses.entry(barrier).or_default() += 1;
        barrier
    }

    /// Tells the barriers how many users they have, and warns of timers that would be shared.
    pub(super) fn finish(&self, plan: &mut Plan, warnings: &mut Vec<Warning>) {
        for (barrier, uses) in &self.barrier_uses {
            if let Some(count) = plan.barriers.get_mut(barrier.0 as usize) {
                *count = *uses;
            }
        }
        for used in self.timer_users.values().filter(|u| u.threads.len() > 1) {
            warnings.push(Warning {
                place: used.place.clone(),
                key: used.key.clone(),
                note: format!(
                    "{} threads share this timer in rt-app; here each has its own, as with a name that begins \
                     with `unique`",
                    used.threads.len()
                ),
            });
        }
    }
}
