//! Enqueue, dequeue and pick of one task among many, beside the same rule over a `BTreeSet`.
//!
//! One step: the running task is charged, a sleeper wakes (enqueue), the running task goes to sleep (dequeue), the next
//! is picked and set running. So the number of entities stays the same, and each step is one of each.
//!
//! Three play the same steps, and the set-up asserts that all their picks are the same tasks:
//!
//! * `BTreeSet`: the rule as one writes it down from the description (`btree.rs`);
//! * `Timeline`: the same over the crate's [`Timeline`](schedlab_fair::timeline::Timeline) (`line.rs`), which is what
//!   the class uses for a level. These two do the same work, so this is the ratio to look at;
//! * `Class`: the whole fair class, which besides keeps load averages, counters, buddies, quota and the walk through
//!   groups.

mod btree;
mod line;

use btree::BTreeQueue;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use line::LineQueue;
use schedlab_fair::{Class, CpuId, Dequeue, Enqueue, Feature, Ns, Profile, TaskAttr, TaskId};

const CPU: CpuId = CpuId(0);
const SIZES: [u32; 4] = [4, 32, 256, 4096];
const BASE_SLICE: u64 = 2_800_000;

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
const RUNS: [u64; 8] = [
    97_003, 41_009, 160_001, 8_017, 230_003, 12_007, 77_017, 301_027,
];

/// One side of the comparison.
trait Queue {
    fn new() -> Self;
    fn add(&mut self, nice: i8, slice: u64) -> u32;
    fn charge(&mut self, now: u64);
    fn enqueue(&mut self, id: u32, fork: bool);
    fn dequeue(&mut self, id: u32);
    fn pick(&mut self, now: u64) -> Option<u32>;
}

macro_rules! plain {
    ($name:ty) => {
        impl Queue for $name {
            fn new() -> Self {
                Self::new(1_000_000)
            }

            fn add(&mut self, nice: i8, slice: u64) -> u32 {
                self.add(nice, slice)
            }

            fn charge(&mut self, now: u64) {
                self.charge(now);
            }

            fn enqueue(&mut self, id: u32, fork: bool) {
                self.enqueue(id, fork);
            }

            fn dequeue(&mut self, id: u32) {
                self.dequeue(id);
            }

            fn pick(&mut self, now: u64) -> Option<u32> {
                self.pick(now)
            }
        }
    };
}

plain!(BTreeQueue);
plain!(LineQueue);

/// The class, with the time of the present step.
struct Whole {
    class: Class,
    curr: Option<TaskId>,
    now: Ns,
}

impl Queue for Whole {
    fn new() -> Self {
        // With delayed dequeue a sleeper may stay: then a step would not be one of each.
        let mut p = Profile::default().with_feature(Feature::DelayDequeue, false);
        p.tunables.base_slice = Some(Ns(BASE_SLICE));
        Self {
            class: Class::new(p, 1, 1000),
            curr: None,
            now: Ns(0),
        }
    }

    fn add(&mut self, nice: i8, slice: u64) -> u32 {
        let slice = (slice != BASE_SLICE).then_some(Ns(slice));
        let attr = TaskAttr {
            nice,
            slice,
            ..TaskAttr::default()
        };
        self.class.add_task(attr).0
    }

    fn charge(&mut self, now: u64) {
        // The class charges in each of its operations itself.
        self.now = Ns(now);
    }

    fn enqueue(&mut self, id: u32, fork: bool) {
        let flags = if fork {
            Enqueue::INITIAL
        } else {
            Enqueue::WAKEUP
        };
        self.class
            .enqueue_task(CPU, TaskId(id), flags, self.now, &mut ());
    }

    fn dequeue(&mut self, id: u32) {
        self.class
            .dequeue_task(CPU, TaskId(id), Dequeue::SLEEP, self.now, &mut ());
    }

    fn pick(&mut self, now: u64) -> Option<u32> {
        self.curr = self.class.pick_next_task(CPU, self.curr, Ns(now), &mut ());
        self.class.clear_resched(CPU);
        self.curr.map(|t| t.0)
    }
}

/// A queue in the middle of the steps.
struct Play<Q> {
    queue: Q,
    sleeper: u32,
    curr: Option<u32>,
    now: u64,
    n: usize,
}

impl<Q: Queue> Play<Q> {
    fn new(size: u32) -> Self {
        let mut queue = Q::new();
        let mut sleeper = 0;
        for i in 0..=size {
            let (nice, slice) = MIX[i as usize % MIX.len()];
            sleeper = queue.add(nice, if slice > 0 { slice * 1000 } else { BASE_SLICE });
            if i < size {
                queue.enqueue(sleeper, true);
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
        self.queue.charge(self.now);
        self.queue.enqueue(self.sleeper, false);
        self.queue.dequeue(curr);
        self.curr = self.queue.pick(self.now);
        self.sleeper = curr;
        self.curr
    }
}

fn queue(c: &mut Criterion) {
    let mut group = c.benchmark_group("enqueue+dequeue+pick");
    for size in SIZES {
        let mut tree = Play::<BTreeQueue>::new(size);
        let mut line = Play::<LineQueue>::new(size);
        let mut whole = Play::<Whole>::new(size);
        for n in 0..20_000 {
            let (a, b, c) = (tree.step(), line.step(), whole.step());
            assert!(
                a.is_some() && a == b && b == c,
                "step {n} of {size}: {a:?}, {b:?}, {c:?}"
            );
        }
        group.bench_function(BenchmarkId::new("BTreeSet", size), |b| {
            b.iter(|| tree.step())
        });
        group.bench_function(BenchmarkId::new("Timeline", size), |b| {
            b.iter(|| line.step())
        });
        group.bench_function(BenchmarkId::new("Class", size), |b| b.iter(|| whole.step()));
    }
    group.finish();
}

criterion_group!(benches, queue);
criterion_main!(benches);
