//! The steady state allocates nothing: wakeups, sleeps, ticks, picks, yields, changes of nice and group shares, throttling and
//! its timers, over every profile, counted by an allocator of this test.
//!
//! The goal is a scheduler that can run with interrupts off. What grows is taken when a task, a group or a quota is made, or
//! when a queue is longer than it ever was.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use schedlab_fair::{
    BandwidthAttr, Class, CpuId, Dequeue, Enqueue, Feature, GroupAttr, GroupId, Hooks, Ns, Profile,
    Resched, TaskAttr, TaskId, Wake, Weight,
};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is handed on to the system's allocator as it is; counting touches no memory of others.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        // SAFETY: the caller's duties are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(f: impl FnOnce()) -> u64 {
    let before = COUNT.with(Cell::get);
    f();
    COUNT.with(Cell::get) - before
}

const CPUS: u32 = 2;

/// Two CPUs with tasks in nested groups, one of them with a quota that ends in every period.
struct Machine {
    class: Class,
    tasks: Vec<TaskId>,
    asleep: Vec<bool>,
    curr: [Option<TaskId>; CPUS as usize],
    limited: GroupId,
    plain: GroupId,
    now: u64,
    random: u64,
    throttled: u64,
    delayed: u64,
}

impl Machine {
    fn new(profile: Profile, tasks: u32) -> Self {
        let mut class = Class::new(profile, CPUS, 1000);
        let attr = GroupAttr {
            shares: Weight::NICE_0,
            idle: false,
            bandwidth: None,
        };
        let plain = class.add_group(GroupId::ROOT, attr);
        let limited = class.add_group(
            plain,
            GroupAttr {
                bandwidth: Some(BandwidthAttr {
                    quota: Ns::from_ms(1),
                    period: Ns::from_ms(10),
                    burst: Ns::ZERO,
                }),
                ..attr
            },
        );
        let inner = class.add_group(limited, attr);
        let groups = [GroupId::ROOT, plain, limited, inner];
        let mut all = Vec::new();
        for n in 0..tasks {
            let t = class.add_task(TaskAttr {
                nice: (n % 9) as i8 - 4,
                slice: (n % 3 == 0).then(|| Ns::from_us(500 + u64::from(n))),
                group: groups[n as usize % groups.len()],
                ..TaskAttr::default()
            });
            // Both CPUs once have all of them: no queue is ever longer.
            class.enqueue_task(CpuId(0), t, Enqueue::INITIAL, Ns(0), &mut ());
            all.push(t);
        }
        for to in [1, 0] {
            for &t in &all {
                let off = Dequeue::MIGRATING;
                class.dequeue_task(class.task_cpu(t), t, off, Ns(0), &mut ());
                class.enqueue_task(CpuId(to), t, Enqueue::MIGRATED, Ns(0), &mut ());
            }
        }
        let mut m = Self {
            class,
            asleep: vec![false; all.len()],
            tasks: all,
            curr: [None; CPUS as usize],
            limited,
            plain,
            now: 0,
            random: 1,
            throttled: 0,
            delayed: 0,
        };
        for cpu in 0..CPUS {
            m.schedule(CpuId(cpu));
        }
        m
    }

    fn random(&mut self, below: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.random >> 33) as usize % below
    }

    fn schedule(&mut self, cpu: CpuId) {
        let now = Ns(self.now);
        let curr = &mut self.curr[cpu.index()];
        if let Some(t) = *curr
            && self.class.is_on_rq(t)
            && self.class.must_throttle_at_user(t)
        {
            self.class.throttle_task(cpu, t, now, &mut Quiet);
        }
        *curr = self.class.pick_next_task(cpu, *curr, now, &mut Quiet);
        self.class.clear_resched(cpu);
    }

    fn step(&mut self) {
        self.now += 50_000;
        let now = Ns(self.now);
        let n = self.random(self.tasks.len());
        let cpu = CpuId((n % CPUS as usize) as u32);
        let t = self.tasks[n];
        if self.asleep[n] {
            self.asleep[n] = false;
            let on = if self.class.is_delayed(t) {
                let own = self.class.task_cpu(t);
                let flags = Enqueue::WAKEUP | Enqueue::DELAYED;
                self.class.enqueue_task(own, t, flags, now, &mut Quiet);
                self.delayed += 1;
                own
            } else {
                self.class.enqueue_task(
                    cpu,
                    t,
                    Enqueue::WAKEUP | Enqueue::MIGRATED,
                    now,
                    &mut Quiet,
                );
                cpu
            };
            self.class
                .wakeup_preempt(on, t, Wake::TTWU, now, &mut Quiet);
        } else if self.random(8) == 0
            && let Some(t) = self.curr[cpu.index()]
        {
            let i = self.tasks.iter().position(|&x| x == t).unwrap_or(0);
            self.asleep[i] = true;
            self.class
                .dequeue_task(cpu, t, Dequeue::SLEEP, now, &mut Quiet);
            self.schedule(cpu);
        } else if let Some(curr) = self.curr[cpu.index()] {
            match self.random(4) {
                0 => self.class.yield_task(cpu, now, &mut Quiet),
                1 => {
                    let off = Dequeue::SAVE | Dequeue::MOVE;
                    self.class.dequeue_task(cpu, curr, off, now, &mut Quiet);
                    self.class.put_prev_task(cpu, curr, now, &mut Quiet);
                    self.class.set_nice(curr, (n % 7) as i8, &mut Quiet);
                    let on = Enqueue::RESTORE | Enqueue::MOVE;
                    self.class.enqueue_task(cpu, curr, on, now, &mut Quiet);
                    self.class.restore_task(cpu, curr, now, &mut Quiet);
                }
                2 => {
                    let shares = Weight::of_cgroup(50 + n as u32 % 100);
                    self.class
                        .set_shares(self.plain, shares, |_| now, &mut Quiet);
                }
                _ => {}
            }
        }
        for c in 0..CPUS {
            if self.now.is_multiple_of(1_000_000) {
                self.class.task_tick(CpuId(c), now, &mut Quiet);
            }
            let idle = self.curr[c as usize].is_none() && self.class.nr_fair(CpuId(c)) > 0;
            if idle || self.class.resched(CpuId(c)) != Resched::None {
                self.schedule(CpuId(c));
            }
        }
        if self.now.is_multiple_of(10_000_000) {
            let b = self.class.group(self.limited).bandwidth.as_ref();
            self.throttled += b.map_or(0, |b| b.throttled.len() as u64);
            self.class.period_timer(self.limited, |_| now, &mut Quiet);
        }
        if self.class.wants_slack_timer(self.limited) {
            self.class.slack_timer(self.limited, |_| now, &mut Quiet);
        }
    }
}

/// Decides nothing, as `()`, but is a hook of its own, so that the calls are really made.
struct Quiet;

impl Hooks for Quiet {}

#[test]
fn the_steady_state_allocates_nothing() {
    for profile in Profile::ALL {
        let (mut throttled, mut delayed) = (0, 0);
        for tasks in [6, 300] {
            let mut machine = None;
            let made = allocations(|| machine = Some(Machine::new(*profile, tasks)));
            assert!(made > 0, "the counter counts nothing");
            let mut m = machine.unwrap();
            (0..20_000).for_each(|_| m.step());
            let steady = allocations(|| (0..40_000).for_each(|_| m.step()));
            assert_eq!(steady, 0, "{} with {tasks} tasks", profile.name);
            throttled += m.throttled;
            delayed += m.delayed;
        }
        assert!(
            throttled > 50,
            "{}: throttled {throttled} times",
            profile.name
        );
        assert!(
            profile.features.has(Feature::DelayDequeue) == (delayed > 50),
            "{}: {delayed} wakeups of delayed tasks",
            profile.name
        );
    }
}
