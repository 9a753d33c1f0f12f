//! Enqueue, dequeue and pick of one task among many, beside the same rule over a `BTreeSet`.
//!
//! One step: a sleeper wakes (enqueue), the running task goes to sleep (dequeue), the next is picked and set running. So
//! the number of entities stays the same, and each step is one of each. The set-up plays the same steps on both and asserts that every pick
//! is the same task.

mod btree;

use btree::BTreeQueue;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use schedlab_fair::{Class, CpuId, Dequeue, Enqueue, Feature, Ns, Profile, TaskAttr, TaskId};

const CPU: CpuId = CpuId(0);
const SIZES: [u32; 4] = [4, 32, 256, 4096];

/// Nice levels and slices (µs, 0 the default) of the tasks, in turn.
const MIX: [(i8, u64); 8] = [
    (0, 0),
    (0, 0),
    (0, 500),
    (5, 0),
    (0, 0),
    (-5, 0),
    (0, 20_000),
    (1, 3_000),
];

/// Run times of the steps, ns; their sum is no multiple of anything in the rules.
const RUNS: [u64; 5] = [97_003, 41_009, 160_001, 8_017, 230_003];

struct Ours {
    class: Class,
    sleeper: TaskId,
    curr: Option<TaskId>,
    now: u64,
    n: usize,
}

fn profile() -> Profile {
    let mut p = Profile::default().with_feature(Feature::DelayDequeue, false);
    p.tunables.base_slice = Some(Ns(2_800_000));
    p
}

impl Ours {
    fn new(size: u32) -> Self {
        let mut class = Class::new(profile(), 1, 1000);
        let mut sleeper = TaskId(0);
        for i in 0..=size {
            let (nice, slice) = MIX[i as usize % MIX.len()];
            sleeper = class.add_task(TaskAttr {
                nice,
                slice: (slice > 0).then(|| Ns::from_us(slice)),
                ..TaskAttr::default()
            });
            if i < size {
                class.enqueue_task(CPU, sleeper, Enqueue::INITIAL, Ns(0), &mut ());
            }
        }
        let curr = class.pick_next_task(CPU, None, Ns(0), &mut ());
        Self {
            class,
            sleeper,
            curr,
            now: 0,
            n: 0,
        }
    }

    fn step(&mut self) -> Option<u32> {
        let curr = self.curr?;
        self.now += RUNS[self.n % RUNS.len()];
        self.n += 1;
        let now = Ns(self.now);
        self.class
            .enqueue_task(CPU, self.sleeper, Enqueue::WAKEUP, now, &mut ());
        self.class
            .dequeue_task(CPU, curr, Dequeue::SLEEP, now, &mut ());
        self.curr = self.class.pick_next_task(CPU, Some(curr), now, &mut ());
        self.class.clear_resched(CPU);
        self.sleeper = curr;
        self.curr.map(|t| t.0)
    }
}

struct Theirs {
    queue: BTreeQueue,
    sleeper: u32,
    curr: Option<u32>,
    now: u64,
    n: usize,
}

impl Theirs {
    fn new(size: u32) -> Self {
        let mut queue = BTreeQueue::new(1_000_000);
        let mut sleeper = 0;
        for i in 0..=size {
            let (nice, slice) = MIX[i as usize % MIX.len()];
            let slice = if slice > 0 { slice * 1000 } else { 2_800_000 };
            sleeper = queue.add(nice, slice);
            if i < size {
                queue.enqueue(sleeper, 0, true);
            }
        }
        let curr = queue.pick(0);
        Self {
            queue,
            sleeper,
            curr,
            now: 0,
            n: 0,
        }
    }

    fn step(&mut self) -> Option<u32> {
        let curr = self.curr?;
        self.now += RUNS[self.n % RUNS.len()];
        self.n += 1;
        self.queue.enqueue(self.sleeper, self.now, false);
        self.queue.dequeue(curr, self.now);
        self.curr = self.queue.pick(self.now);
        self.sleeper = curr;
        self.curr
    }
}

fn queue(c: &mut Criterion) {
    let mut group = c.benchmark_group("enqueue+dequeue+pick");
    for size in SIZES {
        let (mut ours, mut theirs) = (Ours::new(size), Theirs::new(size));
        for step in 0..20_000 {
            let (a, b) = (ours.step(), theirs.step());
            assert!(a.is_some() && a == b, "step {step} of {size}: {a:?}, {b:?}");
        }
        group.bench_function(BenchmarkId::new("BTreeSet", size), |b| {
            b.iter(|| theirs.step());
        });
        group.bench_function(BenchmarkId::new("schedlab-fair", size), |b| {
            b.iter(|| ours.step());
        });
    }
    group.finish();
}

criterion_group!(benches, queue);
criterion_main!(benches);
