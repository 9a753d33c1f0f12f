//! Core scheduling: the CPUs of a core decide together, so that tasks with different cookies never share it
//! (reference section 16).
//!
//! A pick on one CPU chooses for all siblings: the most urgent of their proposals sets the core's cookie, siblings
//! with another proposal take a task of that cookie, eligible or not, or idle although they have work (forced
//! idle). Siblings whose choice changed are asked to reschedule and take what was chosen for them, unless a task came
//! or went meanwhile.

use schedlab_fair::{CpuId, ForcedIdleAnchors, Ns, Reason, Resched};

use crate::engine::{Happening, Sim, Sink};
use crate::order::Rank;
use crate::result::RunResult;
use crate::state::{ClassOf, Life};

/// What core scheduling did in a run; all zero without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreStats {
    /// Picks that decided for a whole core.
    pub core_picks: u64,
    /// Siblings left idle although they had work, over all those picks.
    pub forced_idle: u64,
    /// Siblings that were given a task that their class would not have picked.
    pub by_cookie: u64,
    /// Siblings that were asked to reschedule.
    pub rescheds: u64,
    /// Reschedules that the tick asked for because a sibling was forced idle.
    pub ticks: u64,
    /// Tasks that a CPU in forced idle took from another.
    pub steals: u64,
}

impl RunResult {
    /// Time in which CPUs idled although they had work, as nothing of it may run beside a sibling's task.
    #[must_use]
    pub fn forced_idle(&self) -> Ns {
        Ns(self.cpus.iter().map(|c| c.forced_idle).sum())
    }
}

/// What siblings share.
#[derive(Debug)]
struct Core {
    cpus: Vec<u32>,
    /// Cookie of what runs on the core (`core_cookie`).
    cookie: u64,
    /// Grows when a task comes or goes (`core_task_seq`).
    task_seq: u64,
    /// `task_seq` of the last pick for the core (`core_pick_seq`).
    pick_seq: u64,
    /// Siblings in forced idle (`core_forceidle_count`).
    forced: u32,
    /// Number of the forced idle, for the anchors (`core_forceidle_seq`).
    forced_seq: u64,
}

#[derive(Debug)]
struct CoreCpu {
    core: usize,
    /// `pick_seq` of the last pick that this CPU took (`core_sched_seq`).
    sched_seq: u64,
    /// What a sibling chose for this CPU (`core_pick`).
    pick: Option<Option<u32>>,
    /// Queued tasks with a cookie, by cookie and then by urgency as it was when they were queued (`core_tree`).
    order: Vec<(u64, u32)>,
    /// Busy siblings at the last pick that left this CPU idle.
    occupation: u32,
}

/// State of core scheduling.
#[derive(Debug)]
pub(crate) struct CoreSched {
    cores: Vec<Core>,
    cpus: Vec<CoreCpu>,
    anchors: ForcedIdleAnchors,
    pub(crate) stats: CoreStats,
}

/// What core scheduling knows of a task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CoreTask {
    /// 0: may share a core with all others that have none.
    pub(crate) cookie: u64,
    /// Busy siblings when it was last picked (`core_occupation`).
    occupation: u32,
    /// When it was last stolen.
    stolen: Option<u64>,
}

impl CoreTask {
    /// A new task's: the cookie is its parent's.
    pub(crate) fn inherited(parent: Option<Self>) -> Self {
        Self {
            cookie: parent.map_or(0, |p| p.cookie),
            ..Self::default()
        }
    }
}

/// Class order of a proposal; fair tasks are equal in it.
const SERVED: i32 = -1;
const FAIR: i32 = 119;
const IDLE: i32 = 140;

/// A CPU and what it would run.
type Proposal = (u32, Option<u32>);

impl CoreSched {
    pub(crate) fn new(sites: &[schedlab_topology::Cpu]) -> Self {
        let mut cores: Vec<Core> = Vec::new();
        let mut cpus = Vec::new();
        for (cpu, site) in sites.iter().enumerate() {
            let known = cores
                .iter()
                .position(|c| c.cpus.first().map(|&f| sites[f as usize].core) == Some(site.core));
            let core = known.unwrap_or_else(|| {
                cores.push(Core {
                    cpus: Vec::new(),
                    cookie: 0,
                    task_seq: 0,
                    pick_seq: 0,
                    forced: 0,
                    forced_seq: 0,
                });
                cores.len() - 1
            });
            cores[core].cpus.push(cpu as u32);
            cpus.push(CoreCpu {
                core,
                sched_seq: 0,
                pick: None,
                order: Vec::new(),
                occupation: 0,
            });
        }
        Self {
            cores,
            cpus,
            anchors: ForcedIdleAnchors::default(),
            stats: CoreStats::default(),
        }
    }

    fn core(&self, cpu: u32) -> &Core {
        &self.cores[self.cpus[cpu as usize].core]
    }

    fn core_mut(&mut self, cpu: u32) -> &mut Core {
        &mut self.cores[self.cpus[cpu as usize].core]
    }
}

impl<S: Sink> Sim<S> {
    /// The pick of a CPU under core scheduling; puts and sets in the fair class. `prev`: the task that was current.
    pub(crate) fn core_pick(
        &mut self,
        cpu: u32,
        prev: Option<u32>,
        costs: &mut u64,
        now: u64,
    ) -> Option<u32> {
        if let Some(next) = self.core_pending(cpu) {
            self.core_set(cpu, prev, next);
            return next;
        }
        // Each class may first look for work elsewhere.
        let root = self.class.rq(CpuId(cpu)).cfs;
        if self.pick_rt(cpu, prev).is_none() && self.class.queue(root).nr_queued == 0 {
            if self.cpus.len() > 1 {
                *costs += self.config.costs.newidle_per_cpu * self.cpus.len() as u64;
            }
            self.pull(cpu, now);
        }
        let mut state = self.core_sched.take()?;
        let next = self.core_choose(&mut state, cpu, now);
        self.core_sched = Some(state);
        self.core_set(cpu, prev, next);
        next
    }

    /// Step 1: what a sibling has chosen for this CPU, if that still holds.
    fn core_pending(&mut self, cpu: u32) -> Option<Option<u32>> {
        let state = self.core_sched.as_mut()?;
        let (task_seq, pick_seq) = {
            let core = state.core(cpu);
            (core.task_seq, core.pick_seq)
        };
        let own = &mut state.cpus[cpu as usize];
        if pick_seq != task_seq || own.sched_seq == pick_seq {
            return None;
        }
        let next = own.pick?;
        if next.is_some_and(|t| !self.core_can_run(cpu, t)) {
            // Out of quota since.
            return None;
        }
        let own = &mut self.core_sched.as_mut()?.cpus[cpu as usize];
        own.sched_seq = pick_seq;
        own.pick = None;
        Some(next)
    }

    /// Whether a task is queued on a CPU and may run there.
    fn core_can_run(&self, cpu: u32, t: u32) -> bool {
        let task = &self.tasks[t as usize];
        let class = &self.class;
        task.cpu == cpu
            && task.life == Life::Runnable
            && match task.class {
                ClassOf::Fair => {
                    class.is_on_rq(task.fair)
                        && class.task_cpu(task.fair) == CpuId(cpu)
                        && !class.is_delayed(task.fair)
                        && !class.is_throttled(task.fair)
                }
                ClassOf::Rt { .. } => !self.cpus[cpu as usize].rt.throttled,
            }
    }

    /// Puts the old task and sets the new one in the fair class, at every level.
    fn core_set(&mut self, cpu: u32, prev: Option<u32>, next: Option<u32>) {
        if prev == next {
            return;
        }
        let (id, clock) = (CpuId(cpu), self.clock(cpu));
        for (t, put) in [(prev, true), (next, false)] {
            let Some(t) = t else { continue };
            let task = &self.tasks[t as usize];
            if task.class != ClassOf::Fair {
                continue;
            }
            if put {
                self.class
                    .put_prev_task(id, task.fair, clock, &mut self.notes);
            } else {
                self.class
                    .set_next_task(id, task.fair, clock, &mut self.notes);
            }
        }
    }

    /// Steps 2 to 4.
    fn core_choose(&mut self, state: &mut CoreSched, cpu: u32, now: u64) -> Option<u32> {
        let core = state.core_mut(cpu);
        let forced_before = core.forced > 0;
        let sync = core.cookie != 0 || forced_before;
        core.cookie = 0;
        core.forced = 0;
        core.task_seq += 1;
        let siblings: Vec<u32> = {
            let at = core.cpus.iter().position(|&c| c == cpu).unwrap_or(0);
            let (before, from) = core.cpus.split_at(at);
            from.iter().chain(before).copied().collect()
        };
        if !sync {
            let next = self.core_propose(cpu, now);
            if next.is_none_or(|t| self.tasks[t as usize].core.cookie == 0) {
                state.cpus[cpu as usize].pick = None;
                self.core_anchors(state, cpu, next, false);
                return next;
            }
        }
        state.stats.core_picks += 1;
        let mut proposals: Vec<Proposal> = Vec::with_capacity(siblings.len());
        let mut max: Option<Proposal> = None;
        for &i in &siblings {
            self.account(i, now);
            let p = (i, self.core_propose(i, now));
            proposals.push(p);
            if max.is_none_or(|m| self.core_less(state, m, p, forced_before)) {
                max = Some(p);
            }
        }
        let cookie = max
            .and_then(|(_, t)| t)
            .map_or(0, |t| self.tasks[t as usize].core.cookie);
        let (mut forced, mut busy) = (0, 0);
        for (i, pick) in &mut proposals {
            if pick.is_some_and(|t| self.tasks[t as usize].core.cookie != cookie) {
                *pick = self.core_find(state, *i, cookie);
                state.stats.by_cookie += u64::from(pick.is_some());
            }
            if pick.is_some() {
                busy += 1;
            } else if self.class.nr_running(CpuId(*i)) > 0 {
                forced += 1;
                state.stats.forced_idle += 1;
            }
        }
        let core = state.core_mut(cpu);
        core.cookie = cookie;
        core.forced = forced;
        if !forced_before {
            core.forced_seq += u64::from(forced);
        }
        core.pick_seq = core.task_seq;
        let seq = core.pick_seq;
        state.cpus[cpu as usize].sched_seq = seq;
        let mut next = None;
        for (i, pick) in proposals {
            // Anchors that a forced idle began with are kept as long as it lasts.
            if !(forced_before && forced > 0) {
                self.core_anchors(state, i, pick, forced > 0);
            }
            match pick {
                Some(t) => self.tasks[t as usize].core.occupation = busy,
                None => state.cpus[i as usize].occupation = busy,
            }
            if i == cpu {
                next = pick;
                state.cpus[i as usize].pick = None;
            } else if self.cpus[i as usize].curr == pick {
                state.cpus[i as usize].pick = None;
                self.core_mark(i);
            } else {
                state.cpus[i as usize].pick = Some(pick);
                state.stats.rescheds += 1;
                self.class
                    .request_resched(CpuId(i), Resched::Full, Reason::Other, &mut self.notes);
            }
        }
        next
    }

    /// What a CPU's classes would run; nothing is taken from other CPUs.
    fn core_propose(&mut self, cpu: u32, now: u64) -> Option<u32> {
        let c = &self.cpus[cpu as usize];
        if let Some((t, _)) = c.rt.first()
            && !c.rt.throttled
            && !self.core_served(cpu)
        {
            return Some(t);
        }
        let clock = self.clock(cpu);
        let fair = self
            .class
            .pick_task(CpuId(cpu), clock, &mut self.notes)
            .map(|f| self.by_entity[f.index()]);
        self.told(now);
        // The pick may have stopped a queue that is out of quota.
        self.count(cpu);
        fair
    }

    /// Whether the fair server gives the CPU to fair tasks.
    fn core_served(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].server.active && self.class.nr_fair(CpuId(cpu)) > 0
    }

    fn core_urgency(&self, (cpu, t): Proposal) -> i32 {
        match t.map(|t| self.tasks[t as usize].class) {
            None => IDLE,
            Some(ClassOf::Rt { prio, .. }) => i32::from(prio),
            Some(ClassOf::Fair) if self.core_served(cpu) => SERVED,
            Some(ClassOf::Fair) => FAIR,
        }
    }

    /// Step 3: whether `a` is less urgent than `b`: by class, then by deadline of the server or by vruntime.
    fn core_less(&self, state: &mut CoreSched, a: Proposal, b: Proposal, forced: bool) -> bool {
        let (ua, ub) = (self.core_urgency(a), self.core_urgency(b));
        if ua != ub {
            return ua > ub;
        }
        match ua {
            SERVED => {
                let deadline = |cpu: u32| self.cpus[cpu as usize].server.deadline;
                deadline(a.0) > deadline(b.0)
            }
            FAIR => self.core_less_fair(state, a, b, forced),
            _ => false,
        }
    }

    fn core_less_fair(
        &self,
        state: &mut CoreSched,
        (cpu, a): Proposal,
        (_, b): Proposal,
        forced: bool,
    ) -> bool {
        let (Some(a), Some(b)) = (a, b) else {
            return false;
        };
        let seq = state.core(cpu).forced_seq;
        let (a, b) = (self.fair_of(a), self.fair_of(b));
        state.anchors.less_urgent(&self.class, a, b, seq, forced)
    }

    fn core_anchors(&self, state: &mut CoreSched, cpu: u32, pick: Option<u32>, forced: bool) {
        let Some(t) = pick else { return };
        if self.tasks[t as usize].class == ClassOf::Fair {
            let seq = state.core(cpu).forced_seq;
            state
                .anchors
                .update(&self.class, self.fair_of(t), seq, forced);
        }
    }

    /// Step 4: the first task of a cookie on a CPU; its eligibility and deadline do not matter.
    fn core_find(&self, state: &CoreSched, cpu: u32, cookie: u64) -> Option<u32> {
        if cookie == 0 {
            return None;
        }
        let order = &state.cpus[cpu as usize].order;
        let from = order.partition_point(|&(c, _)| c < cookie);
        order[from..]
            .iter()
            .take_while(|&&(c, _)| c == cookie)
            .map(|&(_, t)| t)
            .find(|&t| self.core_can_run(cpu, t))
    }

    /// Records whether a CPU is in forced idle from now on; it must be accounted up to now.
    fn core_mark(&mut self, cpu: u32) {
        let busy = self.class.nr_running(CpuId(cpu)) > 0;
        let c = &mut self.cpus[cpu as usize];
        c.forced_idle = c.curr.is_none() && busy;
    }

    /// Behind the switch: notes forced idle, and looks for a task to end it.
    pub(crate) fn core_switched(&mut self, cpu: u32, now: u64) {
        if self.core_sched.is_none() {
            return;
        }
        self.core_mark(cpu);
        if self.cpus[cpu as usize].forced_idle {
            self.core_steal(cpu, now);
        }
    }

    /// Step 5, at the tick of a fair task.
    pub(crate) fn core_tick(&mut self, cpu: u32) {
        let Some(state) = &mut self.core_sched else {
            return;
        };
        if state.core(cpu).forced > 0 && self.class.forced_idle_slice_used(CpuId(cpu)) {
            state.stats.ticks += 1;
            self.class
                .request_resched(CpuId(cpu), Resched::Full, Reason::Other, &mut self.notes);
        }
    }

    /// Step 6: a CPU in forced idle takes a task of its core's cookie, from near to far.
    fn core_steal(&mut self, cpu: u32, now: u64) {
        let Some(state) = &self.core_sched else {
            return;
        };
        let cookie = state.core(cpu).cookie;
        if cookie == 0 || self.pending(cpu) != Resched::None {
            return;
        }
        let n = self.cpus.len() as u32;
        let found = (0..4).find_map(|distance| {
            (1..n)
                .map(|i| (cpu + i) % n)
                .filter(|&from| self.core_distance(cpu, from) == distance)
                .find_map(|from| {
                    self.core_stealable(state, cpu, from, cookie, now)
                        .map(|t| (from, t))
                })
        });
        let Some((from, t)) = found else { return };
        self.account(from, now);
        match self.tasks[t as usize].class {
            ClassOf::Fair => self.move_fair(t, from, cpu, now),
            ClassOf::Rt { prio, .. } => self.move_rt(t, prio, from, cpu, now),
        }
        self.tasks[t as usize].core.stolen = Some(now);
        if let Some(state) = &mut self.core_sched {
            state.stats.steals += 1;
        }
        self.class
            .request_resched(CpuId(cpu), Resched::Full, Reason::Other, &mut self.notes);
        // Its own idle loop looks at the request.
        self.cpus[cpu as usize].ipi_pending = true;
        self.watch(cpu);
        self.agenda
            .push(now, Rank::Interrupt, cpu, Happening::Interrupt);
    }

    /// 0: same core, 1: same cache, 2: same socket, 3: elsewhere.
    fn core_distance(&self, a: u32, b: u32) -> u32 {
        let cpus = &self.config.machine.cpus;
        let (a, b) = (cpus[a as usize], cpus[b as usize]);
        if a.socket != b.socket {
            3
        } else if a.llc != b.llc {
            2
        } else {
            u32::from(a.core != b.core)
        }
    }

    fn core_stealable(
        &self,
        state: &CoreSched,
        cpu: u32,
        from: u32,
        cookie: u64,
        now: u64,
    ) -> Option<u32> {
        let src = &state.cpus[from as usize];
        let occupation = state.cpus[cpu as usize].occupation;
        let at = src.order.partition_point(|&(c, _)| c < cookie);
        src.order[at..]
            .iter()
            .take_while(|&&(c, _)| c == cookie)
            .map(|&(_, t)| t)
            .find(|&t| {
                let task = &self.tasks[t as usize];
                self.cpus[from as usize].curr != Some(t)
                    && src.pick != Some(Some(t))
                    && task.allowed.has(cpu)
                    // It shared its core with no more others than it would here.
                    && task.core.occupation <= occupation
                    // Two cores could pass a task on and on without time passing.
                    && task.core.stolen != Some(now)
                    && self.core_can_run(from, t)
                    && !self.core_throttled_at(t, cpu)
            })
    }

    /// Whether a task's group is out of quota on a CPU.
    fn core_throttled_at(&self, t: u32, cpu: u32) -> bool {
        let group = self.class.entity(self.fair_of(t).entity()).group;
        let queue = self.class.group(group).queues[cpu as usize];
        self.tasks[t as usize].class == ClassOf::Fair && self.class.throttled_hierarchy(queue)
    }

    /// A task was queued.
    pub(crate) fn core_enqueued(&mut self, t: u32, cpu: u32) {
        let Some(mut state) = self.core_sched.take() else {
            return;
        };
        let task = &self.tasks[t as usize];
        if task.class != ClassOf::Fair || !self.class.is_delayed(task.fair) {
            let core = state.core_mut(cpu);
            core.task_seq += 1;
            let forced = core.forced > 0;
            let cookie = task.core.cookie;
            if cookie != 0 {
                let mut order = std::mem::take(&mut state.cpus[cpu as usize].order);
                order.retain(|&(_, o)| o != t);
                let mut at = order.partition_point(|&(c, _)| c < cookie);
                while let Some(&(c, other)) = order.get(at) {
                    if c != cookie || self.core_queued_less(&mut state, cpu, other, t, forced) {
                        break;
                    }
                    at += 1;
                }
                order.insert(at, (cookie, t));
                state.cpus[cpu as usize].order = order;
            }
        }
        self.core_sched = Some(state);
    }

    /// Whether `a` is less urgent than `b`, both queued on one CPU; a server does not count here.
    fn core_queued_less(
        &self,
        state: &mut CoreSched,
        cpu: u32,
        a: u32,
        b: u32,
        forced: bool,
    ) -> bool {
        let rank = |t: u32| match self.tasks[t as usize].class {
            ClassOf::Rt { prio, .. } => i32::from(prio),
            ClassOf::Fair => FAIR,
        };
        match (rank(a), rank(b)) {
            (FAIR, FAIR) => self.core_less_fair(state, (cpu, Some(a)), (cpu, Some(b)), forced),
            (ra, rb) => ra > rb,
        }
    }

    /// A task is about to leave its queue; `save`: only to be put back.
    pub(crate) fn core_dequeued(&mut self, t: u32, cpu: u32, save: bool) {
        let Some(state) = &mut self.core_sched else {
            return;
        };
        let core = state.core_mut(cpu);
        core.task_seq += 1;
        let forced = core.forced > 0;
        if self.tasks[t as usize].core.cookie != 0 {
            state.cpus[cpu as usize].order.retain(|&(_, o)| o != t);
        }
        let last = self.class.nr_running(CpuId(cpu)) == 1;
        if !save && last && forced && self.cpus[cpu as usize].curr.is_none() {
            // The last task leaves a CPU in forced idle, which ends with it.
            self.class
                .request_resched(CpuId(cpu), Resched::Full, Reason::Other, &mut self.notes);
        }
    }

    /// Whether a CPU suits a task's cookie: its core has it, or is idle altogether (`sched_core_cookie_match`).
    pub(crate) fn core_match(&self, cpu: u32, t: u32) -> bool {
        let Some(state) = &self.core_sched else {
            return true;
        };
        let core = state.core(cpu);
        core.cookie == self.tasks[t as usize].core.cookie
            || core.cpus.iter().all(|&c| self.core_idle(c))
    }

    fn core_idle(&self, cpu: u32) -> bool {
        let c = &self.cpus[cpu as usize];
        c.curr.is_none() && !c.ipi_pending && self.class.nr_running(CpuId(cpu)) == 0
    }

    /// CPU of a wakee, corrected for cookies: an idle CPU beside its previous one must suit its cookie.
    pub(crate) fn core_wake_cpu(&self, t: u32, chosen: u32) -> u32 {
        let task = &self.tasks[t as usize];
        if self.core_sched.is_none()
            || task.class != ClassOf::Fair
            || chosen == task.cpu
            || self.core_match(chosen, t)
        {
            return chosen;
        }
        let n = self.cpus.len() as u32;
        (1..n)
            .map(|i| (task.cpu + i) % n)
            .find(|&c| task.allowed.has(c) && self.core_idle(c) && self.core_match(c, t))
            .unwrap_or(if task.allowed.has(task.cpu) {
                task.cpu
            } else {
                chosen
            })
    }
}
