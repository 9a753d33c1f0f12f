//! The engine: the loop over events, clocks, accounting of time, and what is traced.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_fair::profile::ThrottleRule;
use schedlab_fair::{
    Class, CpuId, EntityId, Function, GroupAttr, GroupId, Hooks, Ns, Point, QueueId, Reason,
    Resched, TaskAttr, TaskId, TaskPolicy,
};
use schedlab_topology::CpuSet;
use schedlab_trace::event::{Comm, CpuFlags, Event, EventKind, TaskRef};

use crate::code::Code;
use crate::config::{LONGEST_RUN, PreemptModel, SimConfig, SimError};
use crate::conservation::Watch;
use crate::core_sched::{CoreSched, CoreTask};
use crate::counters::{RqStats, SchedInfo};
use crate::order::{Agenda, Next, Rank};
use crate::procfs::Snapshot;
use crate::program::Sched;
use crate::result::{ReschedCount, RunResult};
use crate::rng::{NameHash, Stream};
use crate::rt::RtQueue;
use crate::server::FairServer;
use crate::state::{
    Ahead, Aheads, Barrier, Channel, ClassOf, Cpu, CpuTimes, Doing, Kernel, Life, Lock, Retry, Sem,
    Task, TaskStats, allowed_cpus,
};
use crate::state_log::{self, StateLog};

/// Takes the events of a simulation as they happen.
pub trait Sink {
    /// One event, in order of time.
    fn event(&mut self, event: &Event);
}

impl<F: FnMut(&Event)> Sink for F {
    fn event(&mut self, event: &Event) {
        self(event);
    }
}

/// The slack timer's delay, and how near a refill may be for it to be left out (section 10.6), ns.
const SLACK_DELAY: u64 = 5_000_000;
const MIN_BEFORE_REFILL: u64 = 7_000_000;

/// First pid; small numbers are left to a real system's own tasks.
pub const FIRST_PID: i32 = 1000;

/// What can happen.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    Tick(u32),
    HrTick(u32),
    /// Something about the running task changed from outside.
    Poke,
    WakeTimer {
        task: u32,
        seq: u32,
    },
    Start,
    Activate {
        task: u32,
        sync: bool,
    },
    Interrupt,
    /// The work of an interrupt is done.
    InterruptDone,
    Period(GroupId),
    /// The slack timer of a group: runtime given back goes to those who wait for it.
    Slack(GroupId),
    Server,
    RtPeriod,
}

/// What the class tells while it works.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// CPU whose code runs; a reschedule of another needs an interrupt.
    pub(crate) local: u32,
    pub(crate) remote: Vec<u32>,
    charged: Vec<(TaskId, u64)>,
    periods: Vec<(GroupId, u64)>,
    /// Requests by reason and depth of the queue that asked.
    reasons: BTreeMap<(Reason, Option<u16>), u64>,
    /// Depth of each queue.
    depths: Vec<u16>,
    /// Records of the class's state, if they are asked for.
    pub(crate) state: Option<Box<StateLog>>,
}

impl Hooks for Notes {
    fn point(&mut self, class: &Class, point: Point, queue: QueueId, se: Option<EntityId>) {
        if let Some(state) = &mut self.state {
            state.point(class, point, queue, se);
        }
    }

    fn inside(&mut self, class: &Class, function: Function) {
        if let Some(state) = &mut self.state {
            state.inside(class, function);
        }
    }

    fn charged(&mut self, _class: &Class, task: TaskId, delta: Ns) {
        self.charged.push((task, delta.0));
    }

    fn start_period_timer(&mut self, group: GroupId, period: Ns) {
        self.periods.push((group, period.0));
    }

    fn resched(&mut self, cpu: CpuId, kind: Resched, reason: Reason, queue: Option<QueueId>) {
        if let Some(state) = &mut self.state {
            state.resched(cpu, kind, reason);
        }
        let depth = queue.and_then(|q| self.depths.get(q.index()).copied());
        *self.reasons.entry((reason, depth)).or_default() += 1;
        if cpu.0 != self.local {
            self.remote.push(cpu.0);
        }
    }
}

/// A simulation.
pub struct Sim<S: Sink> {
    pub(crate) config: SimConfig,
    pub(crate) class: Class,
    pub(crate) notes: Notes,
    pub(crate) tasks: Vec<Task>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) code: Code,
    /// Whether work may be looked ahead at: not where a return to user mode does more than look at the request.
    pub(crate) look_ahead: bool,
    /// Time behind which nothing is simulated.
    pub(crate) limit: u64,
    pub(crate) channels: Vec<Channel>,
    pub(crate) locks: Vec<Lock>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) conds: Vec<std::collections::VecDeque<u32>>,
    pub(crate) sems: Vec<Sem>,
    pub(crate) agenda: Agenda<Happening>,
    /// Task of a class entity, by entity number.
    pub(crate) by_entity: Vec<u32>,
    pub(crate) groups: Vec<GroupId>,
    /// CPUs whose current task is the idle one.
    pub(crate) idle: CpuSet,
    /// Runnable fair tasks by CPU, close together for searches.
    pub(crate) runnable: Vec<u32>,
    /// Idle CPUs beside waiting tasks.
    pub(crate) watch: Watch,
    /// CPUs with real-time tasks beside the running one.
    pub(crate) rt_overloaded: u32,
    pub(crate) alive: u32,
    pub(crate) next_pid: i32,
    pub(crate) work: u64,
    pub(crate) wakeups: u64,
    pub(crate) migrations: u64,
    pub(crate) last_exit: u64,
    /// `None` unless core scheduling is on.
    pub(crate) core_sched: Option<CoreSched>,
    events: u64,
    /// Time of the last event.
    last_event: u64,
    checks: bool,
    /// Whether an interrupt's own work is going on, for the flags of events.
    pub(crate) in_irq: bool,
    /// When each limited group's quota is refilled next.
    refills: BTreeMap<GroupId, u64>,
    slack_armed: BTreeSet<GroupId>,
    sink: S,
}

impl<S: Sink> Sim<S> {
    /// Makes a simulation; nothing has happened yet.
    ///
    /// # Errors
    ///
    /// See [`SimConfig::validate`].
    pub fn new(config: SimConfig, sink: S) -> Result<Self, SimError> {
        config.validate()?;
        let mut profile = config.profile;
        profile.lazy_resched &= config.preempt == PreemptModel::Lazy;
        let n = config.machine.cpus.len();
        let mut class = Class::new(profile, n as u32, config.hz);
        let mut groups = Vec::new();
        for g in &config.groups {
            let parent = g.parent.map_or(GroupId::ROOT, |p| groups[p as usize]);
            groups.push(class.add_group(
                parent,
                GroupAttr {
                    shares: g.shares,
                    idle: g.idle,
                    bandwidth: g.bandwidth,
                },
            ));
        }
        let cpus = (0..n)
            .map(|i| Cpu {
                curr: None,
                accounted: 0,
                irq_left: 0,
                irq_hidden: 0,
                idle_overhead: 0,
                end_at: u64::MAX,
                tick_armed: false,
                skip_clock: None,
                frozen_clock: None,
                tick_stopped: false,
                tick_seq: 0,
                nohz_full: config.nohz_full.contains(&(i as u32)),
                forced_idle: false,
                hrtick_seq: 0,
                ipi_pending: false,
                times: CpuTimes::default(),
                stats: RqStats::default(),
                rt: RtQueue::new(),
                server: FairServer::new(config.fair_server),
                nr_switches: 0,
                from_idle: 0,
                classed: 0,
                idle_clock: 0,
                rt_clock: 0,
                tick_jitter: match i {
                    0 => Stream::new(config.seed, "tick jitter"),
                    i => Stream::new(config.seed, &format!("tick jitter {i}")),
                },
            })
            .collect();
        let channels = config
            .channels
            .iter()
            .map(|c| Channel {
                capacity: c.capacity,
                overhead: c.overhead,
                writer_wake_below: c.writer_wake_below,
                wake_all_writers: c.wake_all_writers,
                messages: c.messages,
                sync_wake: c.sync_wake,
                used: 0,
                inside: std::collections::VecDeque::new(),
                readers: std::collections::VecDeque::new(),
                writers: std::collections::VecDeque::new(),
            })
            .collect();
        let locks = config
            .locks
            .iter()
            .map(|&kind| Lock {
                kind,
                owner: None,
                last_cpu: 0,
                waiters: std::collections::VecDeque::new(),
                spinners: std::collections::VecDeque::new(),
            })
            .collect();
        let barriers = config
            .barriers
            .iter()
            .map(|&count| Barrier {
                count,
                inside: Vec::new(),
            })
            .collect();
        let sems = config
            .sems
            .iter()
            .map(|&count| Sem {
                count: u64::from(count),
                waiters: std::collections::VecDeque::new(),
            })
            .collect();
        let conds = matches!(config.preempt, PreemptModel::None | PreemptModel::Voluntary);
        let look_ahead = profile.throttle_rule == ThrottleRule::Group
            || config.groups.iter().all(|g| g.bandwidth.is_none());
        let notes = Notes {
            depths: depths(&class, &groups),
            ..Notes::default()
        };
        let mut sim = Self {
            code: Code::compile(&config.programs, conds),
            look_ahead,
            limit: config.duration.map_or(LONGEST_RUN, |d| d.0),
            class,
            idle: CpuSet::all(n),
            runnable: vec![0; n],
            watch: Watch::new(n),
            rt_overloaded: 0,
            notes,
            tasks: Vec::new(),
            cpus,
            channels,
            locks,
            barriers,
            conds: vec![std::collections::VecDeque::new(); config.conds as usize],
            sems,
            agenda: Agenda::new(n),
            by_entity: Vec::new(),
            groups,
            alive: 0,
            next_pid: FIRST_PID,
            work: 0,
            wakeups: 0,
            migrations: 0,
            last_exit: 0,
            core_sched: config
                .core_sched
                .then(|| CoreSched::new(&config.machine.cpus)),
            events: 0,
            last_event: 0,
            checks: cfg!(debug_assertions),
            in_irq: false,
            refills: BTreeMap::new(),
            slack_armed: BTreeSet::new(),
            sink,
            config,
        };
        sim.create_tasks();
        Ok(sim)
    }

    fn create_tasks(&mut self) {
        let specs = self.config.tasks.clone();
        for spec in &specs {
            let group = spec
                .group
                .map_or(GroupId::ROOT, |g| self.groups[g as usize]);
            let (nice, policy) = fair_part(spec.sched);
            let fair = self.class.add_task(TaskAttr {
                nice,
                policy,
                slice: spec.slice,
                group,
            });
            let allowed = allowed_cpus(&spec.affinity, self.cpus.len());
            let restricted = !spec.affinity.is_empty();
            let index = self.add_task(NewTask {
                comm: &spec.comm,
                fair,
                sched: spec.sched,
                allowed,
                restricted,
                mm: spec.mm,
                code: spec.program.0,
                parent: None,
            });
            self.tasks[index as usize].start = spec.start.0;
            self.tasks[index as usize].core.cookie = spec.cookie;
        }
        let mut starts: Vec<u64> = specs.iter().map(|s| s.start.0).collect();
        starts.sort_unstable();
        starts.dedup();
        for t in starts {
            self.agenda.push(t, Rank::Timer, 0, Happening::Start);
        }
    }

    pub(crate) fn add_task(&mut self, new: NewTask<'_>) -> u32 {
        let index = self.tasks.len() as u32;
        let pid = self.next_pid;
        self.next_pid += 1;
        let stream = match new.parent {
            Some(p) => {
                let parent = &mut self.tasks[p as usize];
                parent.forks += 1;
                parent.stream.then(&format!(".{}", parent.forks))
            }
            None => NameHash::new(&format!("task {index}")),
        };
        let entity = new.fair.index();
        if self.by_entity.len() <= entity {
            self.by_entity.resize(entity + 1, u32::MAX);
        }
        self.by_entity[entity] = index;
        if let Some(state) = &mut self.notes.state {
            state.name_entity(new.fair.entity(), pid);
        }
        self.tasks.push(Task {
            comm: Comm::new(new.comm),
            name: new.comm.to_string(),
            pid,
            fair: new.fair,
            class: class_of(new.sched),
            sched: new.sched,
            life: Life::New,
            cpu: new.allowed.first(),
            allowed: new.allowed,
            restricted: new.restricted,
            mm: new.mm,
            pc: self.code.starts[new.code as usize],
            loops: Vec::new(),
            doing: Doing::Nothing,
            ahead: Aheads::NONE,
            retry: Retry::No,
            overhead: 0,
            kernel: crate::state::Kernel::User,
            sleep_seq: 0,
            timers: Vec::new(),
            parent: new.parent,
            children: 0,
            waits_children: false,
            suspended: false,
            resume_pending: false,
            rr_left: 0,
            rng: Stream::of_name(self.config.seed, stream),
            stream,
            forks: 0,
            start: 0,
            core: CoreTask::inherited(new.parent.map(|p| self.tasks[p as usize].core)),
            stats: TaskStats::default(),
            info: SchedInfo::default(),
        });
        self.alive += 1;
        index
    }

    /// Runs to the end and tells what happened.
    ///
    /// # Errors
    ///
    /// A program that makes no progress or breaks the rules of a lock, or a fault of the lab itself.
    pub fn run(self) -> Result<RunResult, SimError> {
        self.run_sampled(Ns(u64::MAX), |_| {})
    }

    /// The same, with a look at the kernel's own files after each time `every`, which is above zero. The looks change nothing.
    ///
    /// # Errors
    /// As [`Sim::run`].
    pub fn run_sampled(
        mut self,
        every: Ns,
        mut sample: impl FnMut(Snapshot),
    ) -> Result<RunResult, SimError> {
        let limit = self.limit;
        let mut now = 0;
        let mut look = every.0;
        let mut starved = false;
        while self.alive > 0 {
            let Some((time, cpu, event)) = self.agenda.pop(limit) else {
                // If nothing is to come, everybody waits for somebody.
                starved = self.agenda.is_empty();
                break;
            };
            while look <= time {
                sample(self.snapshot(look));
                look = look.saturating_add(every.0.max(1));
            }
            now = time;
            self.watch.pass(now);
            self.notes.local = cpu;
            match event {
                Next::Event(event) => self.happen(cpu, now, event)?,
                Next::End => {
                    self.account(cpu, now);
                    self.advance(cpu, now)?;
                }
            }
            self.interrupt_others(now)?;
            self.emit_state(now);
            self.watch.look();
            if self.checks {
                self.verify(cpu)?;
            }
            if let Some(o) = self.class.take_overflow() {
                return Err(SimError::Overflow(format!("{o:?}")));
            }
            if let Some(v) = self.class.take_violation() {
                return Err(SimError::Internal(v.to_string()));
            }
        }
        let ended = self.alive == 0;
        let end = if starved {
            // Timers that found nothing to do do not count.
            let seen = self.cpus.iter().map(|c| c.accounted).max();
            self.last_event.max(seen.unwrap_or(0))
        } else if ended || self.config.duration.is_none() {
            now
        } else {
            limit
        };
        while look <= end {
            sample(self.snapshot(look));
            look = look.saturating_add(every.0.max(1));
        }
        for cpu in 0..self.cpus.len() as u32 {
            self.account(cpu, end);
            self.notes.local = cpu;
            self.class
                .update_curr_task(CpuId(cpu), self.clock(cpu), &mut self.notes);
            self.told(end);
            self.note_class(cpu);
        }
        self.finish(end, ended, starved && !ended)
    }

    fn finish(mut self, end: u64, ended: bool, deadlock: bool) -> Result<RunResult, SimError> {
        self.verify_end(end)?;
        let conservation = self.watch.finish(end);
        let resched = self
            .notes
            .reasons
            .iter()
            .map(|(&(reason, depth), &count)| ReschedCount {
                reason,
                depth,
                count,
            })
            .collect();
        Ok(RunResult {
            end: Ns(end),
            ended,
            deadlock,
            waiting: self
                .tasks
                .iter()
                .filter(|t| matches!(t.life, Life::Asleep(_)))
                .map(|t| t.name.clone())
                .take(if deadlock { 8 } else { 0 })
                .collect(),
            last_exit: Ns(self.last_exit),
            events: self.events,
            work: self.work,
            wakeups: self.wakeups,
            migrations: self.migrations,
            switches: self.cpus.iter().map(|c| c.nr_switches).sum(),
            cpus: self.cpus.iter().map(|c| c.times).collect(),
            tasks: self
                .tasks
                .iter()
                .map(|t| crate::result::TaskResult {
                    comm: t.name.clone(),
                    pid: t.pid,
                    run: Ns(t.stats.user + t.stats.system),
                    charged: Ns(self.class.entity(t.fair.entity()).sum_exec_runtime),
                    ended: t.life == Life::Dead,
                    stats: t.stats,
                })
                .collect(),
            resched,
            conservation,
            core: self.core_sched.map_or_else(Default::default, |c| c.stats),
        })
    }

    fn happen(&mut self, cpu: u32, now: u64, event: Happening) -> Result<(), SimError> {
        // All but these are interrupts; what the scheduler does at their end is none of them (`irq_exit`).
        self.in_irq = !matches!(event, Happening::Poke | Happening::Start);
        self.happen_in(cpu, now, event)?;
        self.in_irq = false;
        Ok(())
    }

    fn happen_in(&mut self, cpu: u32, now: u64, event: Happening) -> Result<(), SimError> {
        match event {
            Happening::Tick(seq) => self.tick(cpu, seq, now)?,
            Happening::HrTick(seq) => {
                if self.cpus[cpu as usize].hrtick_seq == seq {
                    self.hrtick(cpu, now)?;
                }
            }
            Happening::Poke => {
                self.account(cpu, now);
                self.advance(cpu, now)?;
            }
            Happening::WakeTimer { task, seq } => {
                let t = &self.tasks[task as usize];
                if t.sleep_seq == seq && matches!(t.life, Life::Asleep(_)) {
                    self.timer_interrupt(cpu, now);
                    let cost = self.wake(task, false, now);
                    self.cpus[cpu as usize].irq_left += cost;
                    self.irq_exit(cpu, now)?;
                }
            }
            Happening::Start => self.start_tasks(now)?,
            Happening::Activate { task, sync } => {
                self.account(cpu, now);
                if self.tasks[task as usize].life == Life::Waking {
                    self.activate(task, cpu, sync, now);
                }
                self.irq_exit(cpu, now)?;
            }
            Happening::Interrupt => {
                self.cpus[cpu as usize].ipi_pending = false;
                self.watch(cpu);
                self.account(cpu, now);
                self.irq_exit(cpu, now)?;
            }
            Happening::InterruptDone => {
                self.account(cpu, now);
                // If another interrupt came meanwhile, its own end looks at the request.
                if self.cpus[cpu as usize].irq_left == 0 {
                    self.irq_exit(cpu, now)?;
                }
            }
            Happening::Period(g) => self.period(g, cpu, now)?,
            Happening::Slack(g) => self.slack(g, cpu, now)?,
            Happening::Server => self.server_timer(cpu, now)?,
            Happening::RtPeriod => self.rt_period(cpu, now)?,
        }
        Ok(())
    }

    /// Tasks that start at this instant, all queued before the first of them is picked.
    fn start_tasks(&mut self, now: u64) -> Result<(), SimError> {
        // No CPU runs this; each that gets work is interrupted.
        self.notes.local = u32::MAX;
        for t in 0..self.tasks.len() as u32 {
            let task = &self.tasks[t as usize];
            if task.life == Life::New && task.start == now && task.parent.is_none() {
                let cpu = self.fork_cpu(t);
                self.account(cpu, now);
                self.first_enqueue(t, cpu, None, now);
            }
        }
        Ok(())
    }

    /// Turns the checks behind every event, and those of the class behind every operation, on or off (on in debug
    /// builds). What is checked at the end of a run always is.
    pub fn set_checks(&mut self, on: bool) {
        self.class.set_checks(on);
        self.checks = on;
    }

    /// Emits the fair class's state at every step, and what only a simulator knows, beside the tracepoints: the
    /// records of `docs/formats/state-recording.md`. What is simulated stays the same.
    pub fn set_state_records(&mut self, on: bool) {
        self.notes.state = on.then(|| Box::new(StateLog::new()));
        if let Some(state) = &mut self.notes.state {
            for t in &self.tasks {
                state.name_entity(t.fair.entity(), t.pid);
            }
            let (profile, hz) = (self.class.profile(), self.config.hz);
            let text = state_log::settings(&self.class, profile, hz, self.cpus.len());
            state.push(&self.class, CpuId(0), "tracing_mark_write", text);
        }
    }

    /// A group that has got runtime back while others of it wait arms its slack timer, unless a refill is near.
    pub(crate) fn arm_slack(&mut self, cpu: u32, now: u64) {
        for i in 0..self.groups.len() {
            let g = self.groups[i];
            let armed = self.slack_armed.contains(&g);
            if armed || !self.class.wants_slack_timer(g) {
                continue;
            }
            let refill = self.refills.get(&g).copied().unwrap_or(u64::MAX);
            if refill.saturating_sub(now) < MIN_BEFORE_REFILL {
                continue;
            }
            self.slack_armed.insert(g);
            self.agenda
                .push(now + SLACK_DELAY, Rank::Timer, cpu, Happening::Slack(g));
        }
    }

    fn slack(&mut self, g: GroupId, cpu: u32, now: u64) -> Result<(), SimError> {
        self.slack_armed.remove(&g);
        let refill = self.refills.get(&g).copied().unwrap_or(u64::MAX);
        // A refill that has come near meanwhile does the same.
        if refill.saturating_sub(now) >= MIN_BEFORE_REFILL - SLACK_DELAY {
            for c in 0..self.cpus.len() as u32 {
                self.account(c, now);
            }
            let clocks: Vec<Ns> = (0..self.cpus.len() as u32).map(|c| self.clock(c)).collect();
            self.class
                .slack_timer(g, |c| clocks[c.index()], &mut self.notes);
            self.count_all();
            self.told(now);
        }
        self.irq_exit(cpu, now)
    }

    fn period(&mut self, g: GroupId, cpu: u32, now: u64) -> Result<(), SimError> {
        for c in 0..self.cpus.len() as u32 {
            self.account(c, now);
        }
        let clocks: Vec<Ns> = (0..self.cpus.len() as u32).map(|c| self.clock(c)).collect();
        let go_on = self
            .class
            .period_timer(g, |c| clocks[c.index()], &mut self.notes);
        self.count_all();
        self.told(now);
        if go_on && let Some(b) = &self.class.group(g).bandwidth {
            let next = now + b.attr.period.0;
            self.refills.insert(g, next);
            self.agenda
                .push(next, Rank::Timer, cpu, Happening::Period(g));
        }
        self.irq_exit(cpu, now)
    }

    /// Accounts a CPU's time up to `now`.
    pub(crate) fn account(&mut self, cpu: u32, now: u64) {
        let c = &mut self.cpus[cpu as usize];
        let mut dt = now - c.accounted;
        if dt == 0 {
            return;
        }
        c.accounted = now;
        let irq = dt.min(c.irq_left);
        c.irq_left -= irq;
        c.times.irq += irq;
        if self.config.costs.irq_time_accounting != 0 {
            c.irq_hidden += irq;
        }
        dt -= irq;
        let Some(t) = c.curr else {
            let o = dt.min(c.idle_overhead);
            c.idle_overhead -= o;
            c.times.overhead += o;
            c.times.idle += dt - o;
            if c.forced_idle {
                c.times.forced_idle += dt - o;
            }
            return;
        };
        let pending = self.class.resched(CpuId(cpu)) != Resched::None;
        let task = &mut self.tasks[t as usize];
        if matches!(task.class, ClassOf::Rt { .. }) {
            c.rt.time += dt - dt.min(task.overhead);
        }
        loop {
            let o = dt.min(task.overhead);
            task.overhead -= o;
            c.times.overhead += o;
            task.stats.system += o;
            dt -= o;
            let part = match &mut task.doing {
                Doing::Work { mode, left, .. } => {
                    let part = dt.min(*left);
                    *left -= part;
                    if crate::config::is_kernel(*mode) {
                        c.times.system += part;
                        task.stats.system += part;
                    } else {
                        c.times.user += part;
                        task.stats.user += part;
                    }
                    part
                }
                Doing::Spin { left, .. } => {
                    *left = left.saturating_sub(if *left == u64::MAX { 0 } else { dt });
                    c.times.user += dt;
                    task.stats.user += dt;
                    task.stats.spin += dt;
                    dt
                }
                Doing::Nothing => 0,
            };
            dt -= part;
            if dt == 0 {
                return;
            }
            debug_assert!(!pending, "a request was passed over");
            match task.ahead.pop() {
                Some(Ahead::Work { mode, ns }) => task.begin(mode, ns),
                Some(Ahead::Count(units)) => self.work += units,
                Some(Ahead::Call { ns }) => task.enter_call(ns),
                None => {
                    debug_assert!(false, "a task ran past its work");
                    c.times.overhead += dt;
                    task.stats.system += dt;
                    return;
                }
            }
        }
    }

    /// Notes the number of runnable fair tasks of a CPU, and whether it is idle.
    pub(crate) fn count(&mut self, cpu: u32) {
        self.runnable[cpu as usize] = self.class.h_nr_runnable(CpuId(cpu));
        self.watch(cpu);
    }

    fn count_all(&mut self) {
        for cpu in 0..self.cpus.len() as u32 {
            self.count(cpu);
        }
    }

    /// `clock_task` of a CPU, accounted up to now, or as `schedule()` kept it.
    pub(crate) fn clock(&self, cpu: u32) -> Ns {
        let c = &self.cpus[cpu as usize];
        c.frozen_clock.unwrap_or(Ns(c.accounted - c.irq_hidden))
    }

    /// Plans the end of a CPU's present stretch of work.
    pub(crate) fn plan(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        let mut left = c.irq_left;
        match c.curr {
            None => left = if left > 0 { left } else { u64::MAX },
            Some(t) => {
                let task = &self.tasks[t as usize];
                left += task.overhead;
                let work = match task.doing {
                    Doing::Work { left, .. } | Doing::Spin { left, .. } => left,
                    Doing::Nothing => 0,
                };
                // Behind kernel work comes a place to reschedule, so that stretch ends by itself.
                if task.overhead == 0 || task.kernel == Kernel::User {
                    left = left.saturating_add(work);
                    // So does all work if somebody asks to reschedule; else it goes through to what is ahead.
                    let through = left.saturating_add(task.ahead.ns);
                    if task.ahead.ns > 0
                        && c.accounted.saturating_add(through) <= self.limit
                        && self.class.resched(CpuId(cpu)) == Resched::None
                    {
                        left = through;
                    }
                }
            }
        }
        let end = if c.curr.is_none() {
            u64::MAX
        } else {
            c.accounted.saturating_add(left)
        };
        if end != c.end_at {
            c.end_at = end;
            self.agenda.set_end(cpu, end);
        }
    }

    /// Performs what the class said during its last operation.
    pub(crate) fn told(&mut self, now: u64) {
        self.emit_state(now);
        if self.notes.charged.is_empty() && self.notes.periods.is_empty() {
            return;
        }
        let charged = std::mem::take(&mut self.notes.charged);
        for &(t, ns) in &charged {
            let index = self.by_entity[t.index()];
            let task = &self.tasks[index as usize];
            let (comm, pid) = (task.comm, task.pid);
            let cpu = self.class.task_cpu(t).0;
            self.emit(
                cpu,
                now,
                EventKind::SchedStatRuntime {
                    comm,
                    pid,
                    runtime: ns,
                },
            );
            self.server_consume(cpu, ns, now);
        }
        self.notes.charged = charged;
        self.notes.charged.clear();
        while let Some((g, period)) = self.notes.periods.pop() {
            let local = self.notes.local.min(self.cpus.len() as u32 - 1);
            self.agenda
                .push(now + period, Rank::Timer, local, Happening::Period(g));
            self.refills.insert(g, now + period);
        }
    }

    /// CPUs that were asked to reschedule by others' code.
    fn interrupt_others(&mut self, now: u64) -> Result<(), SimError> {
        while !self.notes.remote.is_empty() {
            let cpu = self.notes.remote.remove(0);
            if self.class.resched(CpuId(cpu)) == Resched::None {
                continue;
            }
            let idle = self.cpus[cpu as usize].curr.is_none();
            if !idle {
                // Work ends at the next place where the request is looked at.
                self.account(cpu, now);
                self.plan(cpu);
            }
            if !idle && self.class.resched(CpuId(cpu)) == Resched::Lazy {
                // A lazy request sends no interrupt.
                continue;
            }
            let costs = &self.config.costs;
            let delay = if idle {
                costs.ipi + costs.idle_exit
            } else {
                costs.ipi
            };
            if delay == 0 {
                self.notes.local = cpu;
                self.account(cpu, now);
                self.irq_exit(cpu, now)?;
            } else if !self.cpus[cpu as usize].ipi_pending {
                self.cpus[cpu as usize].ipi_pending = true;
                self.watch(cpu);
                let local = self.notes.local.min(self.cpus.len() as u32 - 1);
                self.fact(local, "ipi_send_cpu", |_| {
                    format!("cpu={cpu} callsite=resched_curr callback=scheduler_ipi")
                });
                self.agenda
                    .push(now + delay, Rank::Interrupt, cpu, Happening::Interrupt);
            }
        }
        Ok(())
    }

    /// A fact that no tracepoint tells, for traces with state records.
    pub(crate) fn fact(
        &mut self,
        cpu: u32,
        name: &'static str,
        fields: impl FnOnce(&Self) -> String,
    ) {
        if self.notes.state.is_some() {
            let text = fields(self);
            if let Some(state) = &mut self.notes.state {
                state.push(&self.class, CpuId(cpu), name, text);
            }
        }
    }

    /// Emits the records that have gathered.
    pub(crate) fn emit_state(&mut self, now: u64) {
        let Some(state) = &mut self.notes.state else {
            return;
        };
        for line in std::mem::take(&mut state.lines) {
            let kind = EventKind::Other {
                name: line.name.to_string(),
                fields: line.fields,
            };
            self.deliver(line.cpu, now, line.resched, kind);
        }
    }

    pub(crate) fn emit(&mut self, cpu: u32, now: u64, kind: EventKind) {
        self.emit_state(now);
        let need = self.class.resched(CpuId(cpu));
        self.deliver(cpu, now, need, kind);
    }

    fn deliver(&mut self, cpu: u32, now: u64, need: Resched, kind: EventKind) {
        self.events += 1;
        self.last_event = now;
        let (pid, comm) = match self.cpus[cpu as usize].curr {
            Some(t) => {
                let task = &self.tasks[t as usize];
                (task.pid, task.comm)
            }
            None => (0, swapper(cpu)),
        };
        let event = Event {
            ts: now,
            cpu,
            pid,
            comm,
            flags: CpuFlags {
                irqs_off: true,
                need_resched: need == Resched::Full,
                need_resched_lazy: need == Resched::Lazy,
                hardirq: self.in_irq,
                ..CpuFlags::default()
            },
            kind,
        };
        self.sink.event(&event);
    }

    /// A task as events name it.
    pub(crate) fn task_ref(&self, t: u32) -> TaskRef {
        let task = &self.tasks[t as usize];
        TaskRef {
            comm: task.comm,
            pid: task.pid,
            prio: prio_of(task.sched),
        }
    }
}

/// What a task is made from.
pub(crate) struct NewTask<'a> {
    pub(crate) comm: &'a str,
    pub(crate) fair: TaskId,
    pub(crate) sched: Sched,
    pub(crate) allowed: CpuSet,
    pub(crate) restricted: bool,
    pub(crate) mm: u32,
    pub(crate) code: u32,
    pub(crate) parent: Option<u32>,
}

/// Name of a CPU's idle task: `swapper/` and its number.
pub(crate) fn swapper(cpu: u32) -> Comm {
    let mut name = *b"swapper/\0\0\0\0\0\0\0";
    let digits = cpu.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut rest = cpu;
    // The kernel's names have room for seven digits.
    for place in (0..digits.min(7)).rev() {
        name[8 + place] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    Comm::from_bytes(&name)
}

/// Depth of every queue: 0 for the root queues.
fn depths(class: &Class, groups: &[GroupId]) -> Vec<u16> {
    let mut out = Vec::new();
    for &g in std::iter::once(&GroupId::ROOT).chain(groups) {
        for q in &class.group(g).queues {
            let owner = class.queue(*q).owner;
            let depth = owner.map_or(0, |o| class.entity(o).depth + 1);
            if out.len() <= q.index() {
                out.resize(q.index() + 1, 0);
            }
            out[q.index()] = depth;
        }
    }
    out
}

/// Nice level and policy inside the fair class.
pub(crate) fn fair_part(s: Sched) -> (i8, TaskPolicy) {
    match s {
        Sched::Other { nice } => (nice, TaskPolicy::Normal),
        Sched::Batch { nice } => (nice, TaskPolicy::Batch),
        Sched::Idle => (0, TaskPolicy::Idle),
        Sched::Fifo { .. } | Sched::Rr { .. } => (0, TaskPolicy::Normal),
    }
}

pub(crate) fn class_of(s: Sched) -> ClassOf {
    match s {
        Sched::Fifo { rt_priority } => ClassOf::Rt {
            prio: 99 - rt_priority.min(99),
            rr: false,
        },
        Sched::Rr { rt_priority } => ClassOf::Rt {
            prio: 99 - rt_priority.min(99),
            rr: true,
        },
        _ => ClassOf::Fair,
    }
}

/// The kernel's `prio`: 0 to 98 real time, 100 to 139 fair.
pub(crate) fn prio_of(s: Sched) -> i32 {
    match s {
        Sched::Fifo { rt_priority } | Sched::Rr { rt_priority } => 99 - i32::from(rt_priority),
        Sched::Other { nice } | Sched::Batch { nice } => 120 + i32::from(nice),
        Sched::Idle => 120,
    }
}
