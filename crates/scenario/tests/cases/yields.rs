//! Cases 13, 29, 31 and 33: `sched_yield` and locks that spin with it.

use schedlab_fair::profile::YieldRule;
use schedlab_fair::{Class, CpuId, Enqueue, Feature, Ns, TaskAttr, TaskId};
use schedlab_trace::event::EventKind;

use super::help::{MS, SEC, US, load, max, play_file, profile};

const CPU: CpuId = CpuId(0);

fn lag(class: &Class, t: TaskId) -> (u64, u64) {
    let e = class.entity(t.entity());
    (e.vruntime.0, e.deadline.minus(e.vruntime) as u64)
}

/// A CPU with `y` of this nice level running and `h` waiting, both just placed.
fn pair(rule: YieldRule, nice: i8) -> (Class, TaskId) {
    let mut p = profile("6.19");
    p.yield_rule = rule;
    let mut class = Class::new(p, 1, 1000);
    // The shorter request goes first.
    let y = class.add_task(TaskAttr {
        nice,
        slice: Some(Ns::from_us(100)),
        ..TaskAttr::default()
    });
    let h = class.add_task(TaskAttr {
        nice,
        slice: Some(Ns::from_ms(50)),
        ..TaskAttr::default()
    });
    for t in [y, h] {
        class.enqueue_task(CPU, t, Enqueue::INITIAL, Ns(0), &mut ());
    }
    assert_eq!(class.pick_next_task(CPU, None, Ns(0), &mut ()), Some(y));
    (class, y)
}

#[test]
fn case_13_pushed_deadlines_pile_up_and_forfeited_ones_do_not() {
    for nice in [-20, -5, 0, 5, 19] {
        for n in [1, 2, 5, 50] {
            let weight = schedlab_fair::weight::Load::of_nice(nice);
            let vslice = schedlab_fair::weight::calc_delta_fair(100 * US, weight);
            // A: the n-th yield is n slices ahead, and the vruntime is what it was.
            let (mut class, y) = pair(YieldRule::DeadlinePush, nice);
            let (v, ahead) = lag(&class, y);
            for _ in 0..n {
                class.yield_task(CPU, Ns(0), &mut ());
            }
            assert_eq!(lag(&class, y), (v, ahead + n * vslice), "nice {nice}, {n}");
            // B: one forfeit, and as long as it is not eligible again no more.
            for rule in [YieldRule::ForfeitEligible, YieldRule::ForfeitRenew] {
                let (mut class, y) = pair(rule, nice);
                let (v, ahead) = lag(&class, y);
                for _ in 0..n {
                    class.yield_task(CPU, Ns(0), &mut ());
                }
                assert_eq!(
                    lag(&class, y),
                    (v.wrapping_add(ahead), vslice),
                    "{rule} nice {nice}, {n}"
                );
            }
            // The posted form without the guard piles up vruntime instead.
            let (mut class, y) = pair(YieldRule::Forfeit, nice);
            let (v, ahead) = lag(&class, y);
            for _ in 0..n {
                class.yield_task(CPU, Ns(0), &mut ());
            }
            assert_eq!(
                lag(&class, y),
                (v.wrapping_add(ahead + (n - 1) * vslice), vslice)
            );
        }
    }
}

/// What others run before a task that has yielded `n` times runs again. The deadlines of its competitors lie one of its
/// slices apart, from 20 slices on.
fn wait_behind_a_row(rule: YieldRule, n: u32) -> u64 {
    let mut p = profile("6.12.0").with_feature(Feature::PlaceDeadlineInitial, false);
    p.yield_rule = rule;
    let mut class = Class::new(p, 1, 1000);
    let mut slices = vec![100 * US];
    slices.extend((0..60).map(competitor));
    let tasks: Vec<TaskId> = slices
        .iter()
        .map(|&s| {
            let t = class.add_task(TaskAttr {
                slice: Some(Ns(s)),
                ..TaskAttr::default()
            });
            class.enqueue_task(CPU, t, Enqueue::INITIAL, Ns(0), &mut ());
            t
        })
        .collect();
    let y = tasks[0];
    assert_eq!(class.pick_next_task(CPU, None, Ns(0), &mut ()), Some(y));
    for _ in 0..n {
        class.yield_task(CPU, Ns(0), &mut ());
    }
    let (mut now, mut curr) = (0, y);
    loop {
        curr = class
            .pick_next_task(CPU, Some(curr), Ns(now), &mut ())
            .unwrap();
        if curr == y {
            return now;
        }
        now += slices[tasks.iter().position(|&t| t == curr).unwrap()];
        class.update_curr_task(CPU, Ns(now), &mut ());
        assert!(now < SEC, "y never runs again");
    }
}

fn competitor(i: u64) -> u64 {
    2050 * US + i * 100 * US
}

#[test]
fn case_13_each_pushed_slice_lets_one_more_competitor_go_first() {
    for n in 20..40 {
        // n yields later its deadline is n + 1 slices away.
        let expected: u64 = (0..n - 19).map(competitor).sum();
        let wait = wait_behind_a_row(YieldRule::DeadlinePush, n as u32);
        assert_eq!(wait, expected, "{n} yields");
    }
    for rule in [YieldRule::ForfeitEligible, YieldRule::ForfeitRenew] {
        let one = wait_behind_a_row(rule, 1);
        assert!((2..40).all(|n| wait_behind_a_row(rule, n) == one), "{rule}");
        // V has to come up to the slice that it gave away: the share of 61 tasks in that is three turns of 2 ms.
        assert_eq!(one, (0..3).map(competitor).sum::<u64>(), "{rule}");
    }
}

#[test]
fn case_13_against_a_hog() {
    let play = |rule: &str| play_file("13-yielder.toml", &[&format!("kernel.yield_rule={rule}")]);
    let slice = load("13-yielder.toml", &[])
        .kernel
        .profile
        .tunables
        .base_slice
        .unwrap()
        .0;
    // The end of a slice is seen by the tick behind it.
    let bound = slice + MS;
    for rule in ["forfeit-eligible", "forfeit-renew"] {
        let b = play(rule);
        assert!(b.max_wait("y") <= bound, "{rule}: {}", b.max_wait("y"));
        // Each yield costs a slice: hardly any CPU time is left to a task that yields every 5 µs.
        assert!(
            b.share("y") < 2.0 * (5 * US) as f64 / slice as f64,
            "{rule}: {}",
            b.share("y")
        );
    }
    // With pushed deadlines it keeps its half. The wait behind one hog does not grow all the same: a hog that has run
    // its slice is not eligible, however far away the other's deadline is.
    let a = play("deadline-push");
    assert!((0.45..=0.55).contains(&a.share("y")), "{}", a.share("y"));
    assert!(a.max_wait("y") <= 2 * bound, "{}", a.max_wait("y"));
    // The rates of yields are orders apart.
    assert!(a.sum("y", |s| s.yields) > 50 * play("forfeit-eligible").sum("y", |s| s.yields));
}

/// Gaps between a release of the lock and the next acquisition. Each takes a step that wakes a witness on a CPU of its own.
fn free_times(options: &[&str]) -> Vec<u64> {
    let p = play_file("29-spinlock.toml", options);
    let mut gaps = Vec::new();
    let mut released = None;
    for e in &p.events {
        if let EventKind::SchedWaking { task, .. } = &e.kind {
            match task.comm.to_string().as_str() {
                "taken" => gaps.extend(released.take().map(|r| e.ts - r)),
                "released" => released = Some(e.ts),
                _ => {}
            }
        }
    }
    assert!(gaps.len() > 100, "{options:?}: {}", gaps.len());
    gaps
}

#[test]
fn case_29_a_free_lock_waits_for_a_spinner_that_is_off_its_cpu() {
    let sleep = "lock=[{ name = \"L\", kind = \"sleep\" }]";
    let spin = "lock=[{ name = \"L\", kind = \"spin\" }]";
    // Each CPU has other work as well: when all spinners are off their CPUs, the lock is free and nobody sees it.
    let busy = "task.other.count=16";
    for rule in [
        "skip",
        "deadline-reset",
        "forfeit-eligible",
        "forfeit-renew",
    ] {
        let longest = max(&free_times(&[busy, &format!("kernel.yield_rule={rule}")]));
        assert!(longest > MS, "{rule}: {longest}");
    }
    assert!(max(&free_times(&[busy, spin])) > MS);
    // 30 µs is the longest work outside the lock; so long nobody may want it.
    assert!(max(&free_times(&[busy, sleep])) <= 30 * US);
    // The case expects more than 1 ms already where spinners alone outnumber the CPUs. In the model one of them is always
    // on a CPU then, and a spinner that runs takes a free lock at once.
    for kind in ["kernel.yield_rule=forfeit-eligible", spin, sleep] {
        assert_eq!(max(&free_times(&[kind])), 0, "{kind}");
    }
}

const PROFILES: [&str; 6] = ["6.1", "6.6", "6.12.0", "6.12-stable", "6.19", "7.0"];

#[test]
fn case_31_a_poller_alone_has_its_cpu_and_switches_nowhere() {
    for name in PROFILES {
        let p = format!("kernel.profile=\"{name}\"");
        let alone = play_file("31-poller.toml", &[&p, "task.rival.count=0"]);
        assert_eq!(alone.share("poller"), 1.0, "{name}");
        assert_eq!(alone.outcome.result.switches, 1, "{name}: in at the start");
        let yields = alone.sum("poller", |s| s.yields);
        assert_eq!((yields + 500) / 1000, 73, "{name}: {yields}");

        let both = play_file("31-poller.toml", &[&p]);
        let left = both.sum("poller", |s| s.yields);
        let most = both
            .outcome
            .result
            .tasks
            .iter()
            .max_by_key(|t| t.stats.yields);
        assert_eq!(
            most.unwrap().comm,
            "poller",
            "the counters name the yielder"
        );
        let rule = profile(name).yield_rule;
        match rule {
            // About half each, and half the yields with it.
            YieldRule::Skip | YieldRule::DeadlinePush => {
                let share = both.share("poller");
                assert!((0.45..=0.55).contains(&share), "{name}: {share}");
                assert!(left < yields * 55 / 100, "{name}: {left}");
            }
            // The case expects half each here too. A forfeited slice for 13 µs of work cannot give that.
            _ => {
                assert!(left < yields / 50, "{name}: {left}");
                assert!(
                    both.share("poller") < 0.05 && both.share("rival") > 0.95,
                    "{name}"
                );
            }
        }
        // Polling on another CPU than the rival costs it nothing.
        let apart = play_file("31-poller.toml", &[&p, "task.rival.cpus=1"]);
        assert_eq!(apart.sum("poller", |s| s.yields), yields, "{name}");
    }
}

#[test]
fn case_33_kinds_of_yield() {
    let nothing =
        "task.worker.program=[{ loop = \"forever\", steps = [\"run 50us\", \"count 1\"] }]";
    let requeue = ["skip", "deadline-push", "deadline-reset"];
    let expire = ["forfeit-eligible", "forfeit-renew", "forfeit"];
    let work = |rivals: u32, option: &str| {
        let rivals = format!("task.rival.count={rivals}");
        let p = play_file("33-yield-kinds.toml", &[&rivals, option]);
        p.outcome.result.work
    };
    let rule = |name: &str| format!("kernel.yield_rule={name}");
    let alone = work(0, nothing);
    let a = work(4, nothing);
    for b in requeue {
        assert_eq!(work(0, &rule(b)), alone, "{b}");
        let b = work(4, &rule(b));
        assert!(a >= b, "{a} {b}");
        for c in expire {
            assert_eq!(work(0, &rule(c)), alone, "{c}");
            assert!(b > work(4, &rule(c)), "{c}");
        }
    }
    // Of eight workers the four without a rival lose nothing; the others give up nearly all of their half.
    let c = work(4, &rule("forfeit-eligible"));
    assert!(c >= alone / 2 && c < alone * 55 / 100, "{c} of {alone}");
}
