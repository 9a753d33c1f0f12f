//! A small machine around the class: CPUs that switch, tasks that are woken, sleep, fork, are changed and moved, and period
//! timers. It keeps its own account of who runs and who sleeps, and compares that with the class.

use std::collections::BTreeMap;

use schedlab_fair::profile::ThrottleRule;
use schedlab_fair::{
    BandwidthAttr, Class, CpuId, Dequeue, Enqueue, GroupAttr, GroupId, Hooks, Ns, Profile, Resched,
    TaskAttr, TaskId, TaskPolicy, Wake, Weight,
};

pub(crate) const CPUS: u32 = 3;

/// One random step: what, on which of the candidates, how, and after how much time (ns).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) what: u8,
    pub(crate) a: u16,
    pub(crate) b: u16,
    pub(crate) dt: u32,
}

impl Op {
    /// A task goes to another group.
    pub(crate) fn changes_group(self) -> bool {
        matches!(self.what % 32, 20..=22) && self.b % 5 == 4
    }
}

/// What the machine knows of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Queued or running.
    Runnable,
    /// Not runnable; the class may still hold it as a delayed sleeper.
    Asleep,
    /// Runnable, but waiting for quota off its queue (6.18 on).
    Limbo,
}

/// Hooks that watch, and also keep the period timers.
pub(crate) trait Watch: Hooks {
    fn timers(&mut self) -> &mut Vec<(GroupId, Ns)>;
}

#[derive(Debug)]
pub(crate) struct Lab<W: Watch> {
    pub(crate) class: Class,
    pub(crate) watch: W,
    pub(crate) now: u64,
    pub(crate) tasks: BTreeMap<TaskId, State>,
    pub(crate) curr: [Option<TaskId>; CPUS as usize],
    pub(crate) rt: [bool; CPUS as usize],
    pub(crate) groups: Vec<GroupId>,
    pub(crate) picks: u64,
    timers: BTreeMap<GroupId, u64>,
}

fn pick<T: Copy>(from: &[T], n: u16) -> Option<T> {
    from.get(usize::from(n) % from.len().max(1)).copied()
}

impl<W: Watch> Lab<W> {
    pub(crate) fn new(profile: Profile, watch: W) -> Self {
        let class = Class::new(profile, CPUS, 1000);
        Self {
            class,
            watch,
            now: 0,
            tasks: BTreeMap::new(),
            curr: [None; CPUS as usize],
            rt: [false; CPUS as usize],
            groups: vec![GroupId::ROOT],
            picks: 0,
            timers: BTreeMap::new(),
        }
    }

    pub(crate) fn clock(&self) -> Ns {
        Ns(self.now)
    }

    pub(crate) fn add_group(&mut self, parent: GroupId, attr: GroupAttr) -> GroupId {
        let g = self.class.add_group(parent, attr);
        self.groups.push(g);
        g
    }

    /// A few groups, up to four deep, some idle, some with a quota, and tasks in some of them.
    pub(crate) fn add_groups(&mut self, seed: u16) {
        let depth = |lab: &Self, g: GroupId| {
            let mut d = 0;
            let mut up = lab.class.group(g).parent;
            while let Some(p) = up {
                d += 1;
                up = lab.class.group(p).parent;
            }
            d
        };
        let mut bits = u32::from(seed).wrapping_mul(0x9e37_79b1) | 1;
        for n in 0..6 {
            bits = bits.rotate_left(7).wrapping_mul(0x85eb_ca6b) ^ n;
            let parents: Vec<GroupId> = self
                .groups
                .iter()
                .copied()
                .filter(|&g| depth(self, g) < 4)
                .collect();
            let parent = pick(&parents, bits as u16).unwrap_or(GroupId::ROOT);
            let attr = GroupAttr {
                shares: Weight::of_cgroup(1 + (bits >> 16) % 400),
                idle: bits % 7 == 0,
                bandwidth: (bits % 3 == 0).then_some(BandwidthAttr {
                    quota: Ns(1_000_000 + u64::from(bits >> 12)),
                    period: Ns::from_ms(2 + u64::from(bits % 20)),
                    burst: Ns(u64::from(bits % 2) * 1_000_000),
                }),
            };
            self.add_group(parent, attr);
        }
        for n in 0..10 {
            let group = pick(&self.groups, seed.rotate_left(n)).unwrap_or(GroupId::ROOT);
            let attr = TaskAttr {
                group,
                ..TaskAttr::default()
            };
            self.add_task(attr, CpuId(n % CPUS));
        }
    }

    pub(crate) fn add_task(&mut self, attr: TaskAttr, cpu: CpuId) -> TaskId {
        let t = self.class.add_task(attr);
        self.start(t, cpu, None);
        t
    }

    fn start(&mut self, t: TaskId, cpu: CpuId, flags: Option<Wake>) {
        let now = self.clock();
        self.tasks.insert(t, State::Runnable);
        self.class
            .enqueue_task(cpu, t, Enqueue::INITIAL, now, &mut self.watch);
        self.class
            .wakeup_preempt(cpu, t, flags.unwrap_or(Wake::FORK), now, &mut self.watch);
    }

    fn tasks_in(&self, state: State) -> Vec<TaskId> {
        let is = |(&t, &s): (&TaskId, &State)| (s == state).then_some(t);
        self.tasks.iter().filter_map(is).collect()
    }

    fn is_curr(&self, t: TaskId) -> bool {
        self.curr.contains(&Some(t))
    }

    /// Picks and switches.
    pub(crate) fn schedule(&mut self, cpu: CpuId) {
        let c = cpu.index();
        if self.rt[c] {
            return;
        }
        let now = self.clock();
        self.curr[c] = self
            .class
            .pick_next_task(cpu, self.curr[c], now, &mut self.watch);
        self.class.clear_resched(cpu);
        self.picks += 1;
        let rule = self.class.profile().throttle_rule;
        if let Some(t) = self.curr[c] {
            let queue = self.class.entity(t.entity()).queue;
            assert!(
                rule == ThrottleRule::Task || !self.class.throttled_hierarchy(queue),
                "invariant 16: a task of a throttled group was picked"
            );
        }
    }

    pub(crate) fn wake(&mut self, t: TaskId, cpu: CpuId, flags: Wake) {
        let now = self.clock();
        self.tasks.insert(t, State::Runnable);
        let cpu = if self.class.is_delayed(t) {
            let own = self.class.task_cpu(t);
            let flags = Enqueue::WAKEUP | Enqueue::DELAYED;
            self.class.enqueue_task(own, t, flags, now, &mut self.watch);
            own
        } else {
            let mut flags = Enqueue::WAKEUP;
            if self.class.task_cpu(t) != cpu {
                flags = flags | Enqueue::MIGRATED;
            }
            self.class.enqueue_task(cpu, t, flags, now, &mut self.watch);
            cpu
        };
        self.class
            .wakeup_preempt(cpu, t, flags, now, &mut self.watch);
    }

    /// The running task of a CPU blocks; `dead`: for ever.
    pub(crate) fn block(&mut self, cpu: CpuId, dead: bool) {
        let Some(t) = self.curr[cpu.index()] else {
            return;
        };
        let now = self.clock();
        let mut flags = Dequeue::SLEEP;
        if dead {
            flags = flags | Dequeue::SPECIAL;
        }
        if self.tasks.get(&t) == Some(&State::Runnable) {
            self.tasks.insert(t, State::Asleep);
            let gone = self.class.dequeue_task(cpu, t, flags, now, &mut self.watch);
            assert!(gone || !dead, "a dead task is never delayed");
        }
        self.schedule(cpu);
        if dead {
            self.class.remove_task(t);
            self.tasks.remove(&t);
        }
    }

    /// Takes a task off its queue, changes it, and puts it back (section 7).
    pub(crate) fn change(&mut self, t: TaskId, change: impl FnOnce(&mut Class, &mut W) -> bool) {
        let now = self.clock();
        let cpu = self.class.task_cpu(t);
        let (queued, running) = (self.class.is_on_rq(t), self.is_curr(t));
        if queued {
            let off = Dequeue::SAVE | Dequeue::MOVE;
            assert!(self.class.dequeue_task(cpu, t, off, now, &mut self.watch));
        }
        if running {
            self.class.put_prev_task(cpu, t, now, &mut self.watch);
        }
        let enqueue = change(&mut self.class, &mut self.watch);
        if queued || enqueue {
            let on = Enqueue::RESTORE | Enqueue::MOVE;
            self.class.enqueue_task(cpu, t, on, now, &mut self.watch);
            if enqueue {
                self.tasks.insert(t, State::Runnable);
            }
        }
        if running {
            self.class.restore_task(cpu, t, now, &mut self.watch);
        }
    }

    fn migrate(&mut self, t: TaskId, to: CpuId) {
        let now = self.clock();
        let from = self.class.task_cpu(t);
        if self.class.leave_limbo(t) {
            self.tasks.insert(t, State::Runnable);
        } else {
            let off = Dequeue::MIGRATING;
            assert!(self.class.dequeue_task(from, t, off, now, &mut self.watch));
        }
        self.class
            .enqueue_task(to, t, Enqueue::MIGRATED, now, &mut self.watch);
        self.class
            .wakeup_preempt(to, t, Wake::NONE, now, &mut self.watch);
    }

    /// Lets period timers fire that are due, and tasks that got quota count as runnable again.
    fn timers(&mut self) {
        for (g, period) in std::mem::take(self.watch.timers()) {
            self.timers.insert(g, self.now + period.0);
        }
        let due: Vec<GroupId> = self
            .timers
            .iter()
            .filter_map(|(&g, &at)| (at <= self.now).then_some(g))
            .collect();
        for g in due {
            let now = self.clock();
            let go_on = self.class.period_timer(g, |_| now, &mut self.watch);
            if let Some(b) = &self.class.group(g).bandwidth {
                assert!(
                    b.runtime <= b.attr.quota.0 + b.attr.burst.0,
                    "invariant 16: more than quota and burst after a refill"
                );
                if go_on {
                    self.timers.insert(g, self.now + b.attr.period.0);
                    continue;
                }
            }
            self.timers.remove(&g);
        }
        self.sync_limbo();
    }

    fn sync_limbo(&mut self) {
        for (t, s) in &mut self.tasks {
            if *s == State::Limbo && !self.class.waits_for_quota(*t) {
                *s = State::Runnable;
            }
        }
    }

    fn attr(&self, op: Op) -> TaskAttr {
        let policies = [
            TaskPolicy::Normal,
            TaskPolicy::Normal,
            TaskPolicy::Normal,
            TaskPolicy::Batch,
            TaskPolicy::Idle,
        ];
        TaskAttr {
            nice: (op.b % 40) as i8 - 20,
            policy: pick(&policies, op.a).unwrap_or_default(),
            slice: op
                .b
                .is_multiple_of(3)
                .then(|| Ns(100_000 + u64::from(op.b) * 100)),
            group: pick(&self.groups, op.b / 7).unwrap_or(GroupId::ROOT),
        }
    }

    /// One random step.
    pub(crate) fn step(&mut self, op: Op) {
        self.now += u64::from(op.dt);
        self.timers();
        let cpu = CpuId(u32::from(op.a) % CPUS);
        let now = self.clock();
        match op.what % 32 {
            0..=6 => {
                if let Some(t) = pick(&self.tasks_in(State::Asleep), op.b) {
                    let all = [
                        Wake::TTWU,
                        Wake::TTWU | Wake::SYNC,
                        Wake::TTWU | Wake::SYNC | Wake::RQ_SELECTED,
                    ];
                    self.wake(t, cpu, pick(&all, op.a).unwrap_or(Wake::TTWU));
                }
            }
            7..=10 => self.block(cpu, false),
            11 => {
                if self.tasks.len() > 6 {
                    self.block(cpu, true);
                }
            }
            12 | 13 if self.tasks.len() < 24 => match self.curr[cpu.index()] {
                Some(parent) if op.b.is_multiple_of(2) => {
                    self.class.update_curr_task(cpu, now, &mut self.watch);
                    let child = self.class.fork(parent);
                    self.start(child, CpuId(u32::from(op.b) % CPUS), Some(Wake::FORK));
                }
                _ => {
                    self.add_task(self.attr(op), cpu);
                }
            },
            12..=17 => {
                for c in 0..CPUS {
                    if !self.rt[c as usize] {
                        self.class.task_tick(CpuId(c), now, &mut self.watch);
                    }
                }
            }
            18 => {
                if self.curr[cpu.index()].is_some() {
                    self.class.yield_task(cpu, now, &mut self.watch);
                    self.schedule(cpu);
                }
            }
            19 => {
                let target = pick(&self.tasks_in(State::Runnable), op.b);
                if let (Some(t), Some(_)) = (target, self.curr[cpu.index()]) {
                    let on = self.class.task_cpu(t);
                    if self.class.yield_to_task(on, t, now, &mut self.watch) {
                        self.class.yield_task(cpu, now, &mut self.watch);
                        self.schedule(cpu);
                    }
                }
            }
            20..=22 => self.change_random(op),
            23 | 24 => {
                let mut movable = self.tasks_in(State::Runnable);
                movable.extend(self.tasks_in(State::Limbo));
                movable.retain(|&t| !self.is_curr(t));
                if let Some(t) = pick(&movable, op.b) {
                    self.migrate(t, cpu);
                }
            }
            25 => self.change_group(op),
            26 => {
                let c = cpu.index();
                self.rt[c] = !self.rt[c];
                self.class.set_nr_other(cpu, u32::from(self.rt[c]));
                if self.rt[c] {
                    if let Some(t) = self.curr[c].take() {
                        self.class.put_prev_task(cpu, t, now, &mut self.watch);
                    }
                } else {
                    self.schedule(cpu);
                }
            }
            27..=29 => {
                if let Some(t) = self.curr[cpu.index()]
                    && self.class.must_throttle_at_user(t)
                {
                    self.class.throttle_task(cpu, t, now, &mut self.watch);
                    self.tasks.insert(t, State::Limbo);
                }
                self.schedule(cpu);
            }
            30 => {
                let g = pick(&self.groups, op.b).unwrap_or(GroupId::ROOT);
                if self.class.wants_slack_timer(g) {
                    self.class.slack_timer(g, |_| now, &mut self.watch);
                    self.sync_limbo();
                }
            }
            _ => self.schedule(cpu),
        }
        for c in 0..CPUS {
            let pending = self.class.resched(CpuId(c)) != Resched::None;
            if pending && op.b % 4 != 3 {
                self.schedule(CpuId(c));
            }
        }
        self.compare();
    }

    fn change_random(&mut self, op: Op) {
        let all: Vec<TaskId> = self.tasks.keys().copied().collect();
        let Some(t) = pick(&all, op.a) else { return };
        let attr = self.attr(op);
        let before = self.class.entity(t.entity()).nice;
        match op.b % 5 {
            0 | 1 => self.change(t, |c, w| {
                c.set_nice(t, attr.nice, w);
                false
            }),
            2 => self.change(t, |c, w| {
                c.set_sched(t, attr.policy, attr.nice, w);
                false
            }),
            3 => self.change(t, |c, _| {
                c.set_slice(t, attr.slice);
                false
            }),
            _ => self.change(t, |c, _| c.set_group(t, attr.group)),
        }
        let now = self.clock();
        let (cpu, lowered) = (self.class.task_cpu(t), attr.nice > before);
        if !self.rt[cpu.index()] {
            self.class
                .prio_changed(cpu, t, lowered, now, &mut self.watch);
        }
        self.sync_limbo();
    }

    fn change_group(&mut self, op: Op) {
        let Some(g) = pick(&self.groups, op.b) else {
            return;
        };
        let now = self.clock();
        let w = &mut self.watch;
        match op.a % 8 {
            0..=3 => {
                let shares = Weight::of_cgroup(1 + u32::from(op.b) % 1000);
                self.class.set_shares(g, shares, |_| now, w);
            }
            4 => {
                let idle = !self.class.group(g).idle;
                self.class.set_group_idle(g, idle, |_| now, w);
            }
            5 => {
                self.class.set_bandwidth(g, None, |_| now, w);
                self.timers.remove(&g);
            }
            _ => {
                let attr = BandwidthAttr {
                    quota: Ns(u64::from(op.b) * 300),
                    period: Ns(u64::from(op.b) * 700),
                    burst: Ns(u64::from(op.b) * 100),
                };
                self.class.set_bandwidth(g, Some(attr), |_| now, w);
            }
        }
        self.sync_limbo();
    }

    /// Invariants 1, 2, 13 to 16 as far as the machine knows better, and all that the class can check itself.
    fn compare(&self) {
        for c in 0..CPUS {
            let cpu = CpuId(c);
            assert_eq!(
                self.class.curr(cpu),
                self.curr[cpu.index()],
                "current task of {cpu}"
            );
            if let Err(v) = self.class.verify(cpu) {
                panic!("{v}");
            }
        }
        for (&t, &s) in &self.tasks {
            let e = self.class.entity(t.entity());
            let want = match s {
                State::Runnable => (true, false),
                State::Asleep => (e.sched_delayed, e.sched_delayed),
                State::Limbo => (false, false),
            };
            assert_eq!((e.on_rq, e.sched_delayed), want, "task {t} is {s:?}");
        }
    }
}
