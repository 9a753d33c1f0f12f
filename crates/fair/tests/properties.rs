//! Invariants of reference section 23 over random task mixes, in every profile.
//!
//! A random sequence of wakeups, sleeps, forks, exits, ticks, yields, changes of nice, policy, slice, group, shares, `cpu.idle`
//! and quota, migrations, RT phases and period timers is played on a machine of three CPUs with groups up to four deep. After
//! every step the class verifies itself (invariants 1 to 4, 6, 7, 16), and hooks inside the steps check what only shows there (8, 9, 10).
//!
//! `SCHEDLAB_FAIR_RUNS=20` makes twenty times as many sequences.

mod lab;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use lab::{CPUS, Lab, Op, Watch};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use schedlab_fair::profile::{LagLimit, Policy};
use schedlab_fair::weight::calc_delta_fair;
use schedlab_fair::{
    Class, CpuId, Enqueue, EntityId, Feature, GroupAttr, GroupId, Hooks, Ns, Point, Profile,
    QueueId, Resched, TaskAttr, TaskId, Vns, Weight,
};

/// Steps of one sequence.
const STEPS: usize = 600;
/// Sequences for each profile.
const CASES: u32 = 96;

/// Checks inside the steps.
#[derive(Debug, Default)]
struct Checks {
    timers: Vec<(GroupId, Ns)>,
    /// Vruntime of an entity when it was last seen, unless it may have been placed since.
    seen: BTreeMap<EntityId, Vns>,
    /// Entities that went into a delay.
    delayed: BTreeMap<EntityId, ()>,
    delays: u64,
    reweights: u64,
}

impl Watch for Checks {
    fn timers(&mut self) -> &mut Vec<(GroupId, Ns)> {
        &mut self.timers
    }
}

/// Σ w·v and Σ w over what is on a queue, `without` left out, from the entities themselves; v counts from `origin`.
fn exact_sums(class: &Class, q: QueueId, origin: Vns, without: Option<EntityId>) -> (i128, i128) {
    let queue = class.queue(q);
    let running = queue.curr.filter(|c| class.entity(*c).on_rq);
    queue
        .queued()
        .chain(running)
        .filter(|se| Some(*se) != without)
        .map(|se| {
            let e = class.entity(se);
            let w = i128::from(e.load.weight.down());
            (w * i128::from(e.vruntime.minus(origin)), w)
        })
        .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
}

impl Checks {
    /// Invariant 8: once it counts, a placed entity has the lag that it was saved with.
    fn placed(class: &Class, q: QueueId, se: EntityId) {
        let e = class.entity(se);
        let (s, l) = exact_sums(class, q, e.vruntime, Some(se));
        if class.queue(q).curr == Some(se) || l == 0 || class.queue(q).nr_queued == 0 {
            return;
        }
        let want = if class.profile().features.has(Feature::PlaceLag) {
            i128::from(e.vlag)
        } else {
            // Placed at V, which moves with the entity by less than the rounding.
            0
        };
        let lag = s.div_euclid(l + i128::from(e.load.weight.down()));
        assert!(
            (lag - want).abs() <= 2,
            "invariant 8: lag {lag} after placement, saved {want}"
        );
    }

    /// Invariants 4 and 9: the saved lag is V - v within the limit.
    fn saved(class: &Class, q: QueueId, se: EntityId) {
        let e = class.entity(se);
        let (s, l) = exact_sums(class, q, e.vruntime, None);
        let tick = class.tick_nsec();
        let queue = class.queue(q);
        let running = queue.curr.filter(|c| class.entity(*c).on_rq);
        let longest = queue
            .queued()
            .chain(running)
            .map(|x| class.entity(x).slice)
            .max();
        let bound = match class.profile().lag_limit {
            LagLimit::TwoSlices => (2 * e.slice).max(tick),
            LagLimit::MaxSlice => longest.unwrap_or(0) + tick,
        };
        let limit = i128::from(calc_delta_fair(bound, e.load));
        let exact = if l == 0 { 0 } else { s.div_euclid(l) }.clamp(-limit, limit);
        let vlag = i128::from(e.vlag);
        let features = class.profile().features;
        if class.profile().delayed_lag_monotonic && e.sched_delayed {
            // It may stay at what it was, whose limit was another, but not above what DELAY_ZERO leaves.
            assert!(
                vlag >= exact.min(0),
                "invariant 4: lag {vlag}, exact {exact}"
            );
            assert!(
                vlag <= 0 || !features.has(Feature::DelayZero),
                "invariant 9: lag {vlag}"
            );
            return;
        }
        assert!(
            vlag.abs() <= limit,
            "invariant 9: lag {vlag} beyond {limit}"
        );
        assert_eq!(vlag, exact, "invariant 4");
    }
}

impl Hooks for Checks {
    fn point(&mut self, class: &Class, point: Point, q: QueueId, se: Option<EntityId>) {
        let Some(se) = se else { return };
        let e = class.entity(se);
        let eevdf = class.profile().policy == Policy::Eevdf;
        match point {
            Point::Place if eevdf => Self::placed(class, q, se),
            Point::Lag => Self::saved(class, q, se),
            Point::Deadline(_) => assert!(
                e.vruntime.before(e.deadline),
                "invariant 10: vruntime {} at or behind deadline {} after accounting",
                e.vruntime,
                e.deadline
            ),
            Point::Dequeue(false) => {
                self.delayed.insert(se, ());
                self.delays += 1;
                assert!(
                    !class.entity_eligible(se),
                    "an eligible sleeper is not delayed"
                );
            }
            Point::Reweight => self.reweights += 1,
            Point::Requeue => {
                self.delayed.remove(&se);
            }
            Point::Dequeue(true) if eevdf && !e.sched_delayed => {
                let was = self.delayed.remove(&se).is_some();
                let zero = class.profile().features.has(Feature::DelayZero);
                assert!(
                    !was || !zero || e.vlag <= 0,
                    "invariant 9: lag {} after a delay",
                    e.vlag
                );
            }
            _ => {}
        }
        match point {
            Point::Curr | Point::SetNext | Point::PutPrev => {
                if let Some(v) = self.seen.insert(se, e.vruntime) {
                    assert!(
                        !e.vruntime.before(v),
                        "invariant 10: vruntime fell by running"
                    );
                }
            }
            Point::Pick | Point::Deadline(_) => {}
            // It may be placed anew.
            _ => {
                self.seen.remove(&se);
            }
        }
    }

    fn start_period_timer(&mut self, group: GroupId, period: Ns) {
        self.timers.push((group, period));
    }
}

fn ops() -> impl Strategy<Value = (u16, u32, Vec<Op>)> {
    let dt = prop_oneof![
        2 => Just(0u32),
        3 => 1u32..2_000,
        6 => 2_000u32..400_000,
        3 => 400_000u32..6_000_000,
    ];
    let op = (any::<u8>(), any::<u16>(), any::<u16>(), dt).prop_map(|(what, a, b, dt)| Op {
        what,
        a,
        b,
        dt,
    });
    (any::<u16>(), any::<u32>(), prop::collection::vec(op, STEPS))
}

/// The profile as it is, or with switches thrown at random.
fn vary(mut profile: Profile, bits: u32) -> Profile {
    const SWITCHES: [Feature; 14] = [
        Feature::PlaceLag,
        Feature::PlaceDeadlineInitial,
        Feature::PlaceRelDeadline,
        Feature::RunToParity,
        Feature::PreemptShort,
        Feature::NextBuddy,
        Feature::PickBuddy,
        Feature::DelayDequeue,
        Feature::DelayZero,
        Feature::WakeupPreemption,
        Feature::GentleFairSleepers,
        Feature::StartDebit,
        Feature::LastBuddy,
        Feature::AltPeriod,
    ];
    if bits & 1 == 0 {
        return profile;
    }
    // Delayed dequeue came with 6.12; before, no code ends a delay.
    let delays = profile.features.has(Feature::DelayDequeue);
    for (i, f) in SWITCHES.iter().enumerate() {
        let flip = bits >> (2 * i + 2) & 3 == 0;
        if flip && (delays || !matches!(f, Feature::DelayDequeue)) {
            profile = profile.with_feature(*f, !profile.features.has(*f));
        }
    }
    profile
}

fn for_every_profile(
    cases: u32,
    steps: &mut u64,
    test: impl Fn(Profile, u16, &[Op]) -> Result<(), TestCaseError>,
) {
    // For a longer search now and then.
    let times = std::env::var("SCHEDLAB_FAIR_RUNS").map_or(1, |n| n.parse().unwrap_or(1));
    let cases = cases * times;
    for profile in Profile::ALL {
        let config = Config {
            cases,
            failure_persistence: None,
            max_shrink_iters: 2_000,
            ..Config::default()
        };
        let mut runner = TestRunner::new(config);
        let result = runner.run(&ops(), |(seed, bits, ops)| {
            test(vary(*profile, bits), seed, &ops)
        });
        if let Err(e) = result {
            panic!("profile {}: {e}", profile.name);
        }
        *steps += u64::from(cases) * STEPS as u64;
    }
}

#[test]
fn invariants_hold_at_every_step() {
    let mut steps = 0;
    // How often what matters happened: picks, delays, throttled periods, forks and arrivals, moved and changed tasks.
    let seen: [AtomicU64; 4] = Default::default();
    for_every_profile(CASES, &mut steps, |profile, seed, ops| {
        let mut lab = Lab::new(profile, Checks::default());
        lab.add_groups(seed);
        for op in ops {
            lab.step(*op);
        }
        let throttled = |g: &GroupId| {
            let b = lab.class.group(*g).bandwidth.as_ref();
            b.map_or(0, |b| b.nr_throttled)
        };
        let counts = [
            lab.picks,
            lab.watch.delays,
            lab.groups.iter().map(throttled).sum(),
            lab.watch.reweights,
        ];
        for (sum, n) in seen.iter().zip(counts) {
            sum.fetch_add(n, Ordering::Relaxed);
        }
        Ok(())
    });
    let seen = seen.map(|n| n.load(Ordering::Relaxed));
    assert!(steps >= 100_000, "only {steps} steps");
    println!("{steps} steps: picks, delays, throttled periods, reweights {seen:?}");
    assert!(
        seen.iter()
            .zip([150_000, 8_000, 20_000, 200_000])
            .all(|(n, min)| *n > min),
        "{seen:?}"
    );
}

/// Watches nothing; for the twins.
#[derive(Debug, Default)]
struct Quiet(Vec<(GroupId, Ns)>);

impl Watch for Quiet {
    fn timers(&mut self) -> &mut Vec<(GroupId, Ns)> {
        &mut self.0
    }
}

impl Hooks for Quiet {
    fn start_period_timer(&mut self, group: GroupId, period: Ns) {
        self.0.push((group, period));
    }
}

/// What can be seen of a machine without knowing an anchor.
fn visible(lab: &Lab<Quiet>) -> Vec<(Option<u32>, Resched, Vec<[i64; 6]>)> {
    (0..CPUS)
        .map(|c| {
            let cpu = CpuId(c);
            let mut all = Vec::new();
            for &g in &lab.groups {
                let q = lab.class.group(g).queues[cpu.index()];
                let queue = lab.class.queue(q);
                let v = lab.class.v(q);
                let running = queue.curr.filter(|c| lab.class.entity(*c).on_rq);
                for se in queue.queued().chain(running) {
                    let e = lab.class.entity(se);
                    all.push([
                        i64::from(se.0),
                        v.minus(e.vruntime),
                        e.deadline.minus(e.vruntime),
                        e.slice as i64,
                        e.load.weight.0 as i64,
                        e.sum_exec_runtime as i64,
                    ]);
                }
            }
            (
                lab.curr[cpu.index()].map(|t| t.0),
                lab.class.resched(cpu),
                all,
            )
        })
        .collect()
}

/// Invariant 5: a machine whose anchors are moved about at random does the same as its twin.
#[test]
fn anchors_change_nothing() {
    let mut steps = 0;
    for_every_profile(4, &mut steps, |profile, seed, ops| {
        if profile.policy == Policy::Cfs {
            // There the anchor is `min_vruntime`, by which sleepers are placed.
            return Ok(());
        }
        // In 7.0 a task that changes its group while it runs keeps the end of its protection, which is a point on
        // the clock of its old queue. Between clocks an anchor shows, so there tasks keep their groups.
        let keeps_groups = profile.protect_at_pick_only;
        let mut plain = Lab::new(profile, Quiet::default());
        let mut moved = Lab::new(profile, Quiet::default());
        plain.add_groups(seed);
        moved.add_groups(seed);
        for op in ops
            .iter()
            .filter(|op| !(keeps_groups && op.changes_group()))
        {
            for (n, &g) in moved.groups.iter().enumerate() {
                for c in 0..CPUS as usize {
                    let q = moved.class.group(g).queues[c];
                    if (usize::from(op.b) + n + c) % 3 == 0 {
                        let by = (i64::from(op.a) - 32_768) << (op.b % 24);
                        let to = moved.class.queue(q).anchor.offset(by);
                        moved.class.set_anchor(q, to);
                    }
                }
            }
            plain.step(*op);
            moved.step(*op);
            prop_assert_eq!(visible(&plain), visible(&moved));
        }
        Ok(())
    });
}

/// Invariant 12: hogs on one CPU get what their weights say, within a few slices.
#[test]
fn service_follows_the_weights() {
    const SECONDS: u64 = 20;
    let tasks = prop::collection::vec(
        (-10i8..=10, prop::option::of(200u64..10_000), 0usize..4),
        2..8,
    );
    for profile in Profile::ALL {
        let config = Config {
            cases: 3,
            failure_persistence: None,
            ..Config::default()
        };
        let result =
            TestRunner::new(config).run(&(tasks.clone(), any::<u16>()), |(tasks, shares)| {
                let mut class = Class::new(*profile, 1, 1000);
                let mut groups = vec![(GroupId::ROOT, Weight::NICE_0)];
                for parent in [0, 0, 1] {
                    let attr = GroupAttr {
                        shares: Weight::of_cgroup(
                            20 + u32::from(shares.rotate_left(parent as u32)) % 400,
                        ),
                        idle: false,
                        bandwidth: None,
                    };
                    groups.push((class.add_group(groups[parent].0, attr), attr.shares));
                }
                let cpu = CpuId(0);
                let mut all = Vec::new();
                for (nice, slice, group) in &tasks {
                    let t = class.add_task(TaskAttr {
                        nice: *nice,
                        slice: slice.map(Ns::from_us),
                        group: groups[*group].0,
                        ..TaskAttr::default()
                    });
                    class.enqueue_task(cpu, t, Enqueue::INITIAL, Ns(0), &mut ());
                    all.push(t);
                }
                let mut curr = class.pick_next_task(cpu, None, Ns(0), &mut ());
                for tick in 1..=SECONDS * 1000 {
                    let now = Ns::from_ms(tick);
                    class.task_tick(cpu, now, &mut ());
                    if class.resched(cpu) != Resched::None {
                        curr = class.pick_next_task(cpu, curr, now, &mut ());
                        class.clear_resched(cpu);
                    }
                }
                // A queue's load is what hangs on it: tasks by nice, groups with something below by their shares.
                let mut load = vec![0.0; groups.len()];
                let weight = |t: &TaskId| class.entity(t.entity()).load.weight.0 as f64;
                for (t, (_, _, g)) in all.iter().zip(&tasks) {
                    load[*g] += weight(t);
                }
                let parents = [0, 0, 0, 1];
                for g in (1..groups.len()).rev() {
                    if load[g] > 0.0 {
                        load[parents[g]] += groups[g].1.0 as f64;
                    }
                }
                let slice = all
                    .iter()
                    .map(|t| class.entity(t.entity()).slice)
                    .max()
                    .unwrap_or(0);
                // 6.1 has a period, in which each has its turn, instead of slices.
                let period = if profile.policy == Policy::Cfs {
                    24_000_000
                } else {
                    0
                };
                let bound = 4.0 * (slice.max(period) + 1_000_000) as f64;
                for (t, (_, _, g)) in all.iter().zip(&tasks) {
                    let mut share = weight(t) / load[*g];
                    let mut up = *g;
                    while up != 0 {
                        share *= groups[up].1.0 as f64 / load[parents[up]];
                        up = parents[up];
                    }
                    let want = share * (SECONDS * 1_000_000_000) as f64;
                    let got = class.entity(t.entity()).sum_exec_runtime as f64;
                    prop_assert!(
                        (got - want).abs() <= bound,
                        "task {} got {} ms of {} ms",
                        t,
                        got / 1e6,
                        want / 1e6
                    );
                }
                Ok(())
            });
        if let Err(e) = result {
            panic!("profile {}: {e}", profile.name);
        }
    }
}
