//! Cases 15, 16 and 46: the reference vruntime, placement after a sleep, and what counts as a wait.

use schedlab_analysis::latency::{LatencyAccumulator, LatencyOptions, WakeStart};
use schedlab_fair::profile::Anchor;
use schedlab_fair::{Class, CpuId, Enqueue, Ns, TaskAttr, TaskId, TaskPolicy};
use schedlab_trace::event::{Comm, CpuFlags, Event, EventKind, PrevState, TaskRef};

use super::help::{MS, SEC, play_file, profile};

const CPU: CpuId = CpuId(0);
const DAY: u64 = 24 * 3600 * SEC;

fn class(anchor: Anchor) -> Class {
    let mut p = profile("6.19");
    p.anchor = anchor;
    Class::new(p, 1, 1000)
}

fn start(class: &mut Class, policy: TaskPolicy, nice: i8) -> TaskId {
    let t = class.add_task(TaskAttr {
        policy,
        nice,
        ..TaskAttr::default()
    });
    class.enqueue_task(CPU, t, Enqueue::INITIAL, Ns(0), &mut ());
    t
}

/// Distance of a task's vruntime from its queue's reference, times its weight.
fn product(class: &Class, t: TaskId) -> i128 {
    let e = class.entity(t.entity());
    let q = class.queue(e.queue);
    i128::from(e.vruntime.minus(q.anchor)) * i128::from(e.load.weight.down())
}

const WEIGHTS: [(TaskPolicy, i8); 4] = [
    (TaskPolicy::Idle, 0),
    (TaskPolicy::Normal, 19),
    (TaskPolicy::Normal, 0),
    (TaskPolicy::Normal, -20),
];

// Accounting comes every three minutes here. The simulator's nohz.rs runs through the days with a tick a second.
#[test]
fn case_15_a_reference_that_follows_the_only_task_stays_close_for_200_days() {
    for anchor in [Anchor::MinVruntime, Anchor::ZeroVruntime] {
        for (policy, nice) in WEIGHTS {
            let mut class = class(anchor);
            let t = start(&mut class, policy, nice);
            class.pick_next_task(CPU, None, Ns(0), &mut ());
            let before = class.queue(class.entity(t.entity()).queue).anchor.0;
            let step = 200 * DAY / 100_000;
            for i in 1..=100_000 {
                class.task_tick(CPU, Ns(i * step), &mut ());
                assert_eq!(
                    product(&class, t),
                    0,
                    "{anchor} nice {nice} after {i} steps"
                );
            }
            // A: a reference left where it was. Its distance has left the 64 bits by now.
            let e = class.entity(t.entity());
            let frozen =
                u128::from(e.vruntime.0.wrapping_sub(before)) * u128::from(e.load.weight.down());
            assert!(frozen > 1 << 63, "{anchor} nice {nice}: {frozen}");
            // A wakee is placed at V: eligible, and as close.
            let wakee = class.add_task(TaskAttr::default());
            class.enqueue_task(CPU, wakee, Enqueue::WAKEUP, Ns(200 * DAY), &mut ());
            assert_eq!(class.take_overflow(), None, "{anchor} nice {nice}");
            assert_eq!(product(&class, wakee), 0, "{anchor} nice {nice}");
            assert!(class.entity_eligible(wakee.entity()));
        }
    }
}

#[test]
fn case_15_one_jump_of_200_days_is_no_overflow_either() {
    for anchor in [Anchor::MinVruntime, Anchor::ZeroVruntime] {
        let mut class = class(anchor);
        let t = start(&mut class, TaskPolicy::Idle, 0);
        class.pick_next_task(CPU, None, Ns(0), &mut ());
        let wakee = class.add_task(TaskAttr::default());
        class.enqueue_task(CPU, wakee, Enqueue::WAKEUP, Ns(200 * DAY), &mut ());
        assert_eq!(class.take_overflow(), None, "{anchor}");
        assert!(product(&class, t).abs() < 1 << 63, "{anchor}");
    }
}

#[test]
fn case_15_a_distance_beyond_64_bits_is_reported() {
    // Another task waits meanwhile and is never let in, which holds the reference back: `min_vruntime` at its place, V half
    // way. At equal weights of 1024 the product passes 2^63 after 104.2 days, and 208.5 days.
    for (anchor, last) in [(Anchor::MinVruntime, 104), (Anchor::ZeroVruntime, 208)] {
        let mut class = class(anchor);
        for _ in 0..2 {
            start(&mut class, TaskPolicy::Normal, 0);
        }
        let runs = class.pick_next_task(CPU, None, Ns(0), &mut ()).unwrap();
        for day in 1..=last {
            class.update_curr_task(CPU, Ns(day * DAY), &mut ());
            assert_eq!(class.take_overflow(), None, "{anchor} day {day}");
        }
        class.update_curr_task(CPU, Ns((last + 1) * DAY), &mut ());
        let report = class.take_overflow().unwrap();
        assert_eq!(report.entity, runs.entity(), "{anchor}");
        assert_eq!(class.take_overflow(), None, "told once");
    }
}

/// Share of a task that runs and sleeps for `us` each.
fn half_sleeper(profile: &str, us: u64) -> f64 {
    play_file(
        "16-half-sleeper.toml",
        &[
            &format!("kernel.profile=\"{profile}\""),
            &format!("task.p.run={us}us"),
            &format!("task.p.sleep={us}us"),
        ],
    )
    .share("p")
}

#[test]
fn case_16_a_half_sleeper_gets_half_by_credit_and_a_third_by_lag() {
    // Sleeps below half the latency (3 ms on one CPU) and above the wakeup granularity (1 ms).
    for us in [1_500, 2_000, 2_500, 2_900] {
        let a = half_sleeper("6.1", us);
        assert!((a - 0.5).abs() < 0.01, "{us}: {a}");
        for profile in ["6.6", "6.12.0", "6.12-stable", "6.19"] {
            let b = half_sleeper(profile, us);
            // The rest of a tick at the end of a request counts for up to a tenth of such short turns.
            assert!((b - 1.0 / 3.0).abs() < 0.05, "{profile}, {us}: {b}");
        }
    }
    // Above it the credit covers a part of the sleep only, ever smaller.
    for us in [6_000, 12_000, 24_000, 60_000] {
        for profile in ["6.1", "6.6", "6.12.0", "6.12-stable", "6.19"] {
            let share = half_sleeper(profile, us);
            assert!((share - 1.0 / 3.0).abs() < 0.02, "{profile}, {us}: {share}");
        }
    }
    // Without the halving of GENTLE_FAIR_SLEEPERS the threshold is the whole latency of 6 ms.
    let option = |us: u64, feature: &str| {
        let (run, sleep) = (format!("task.p.run={us}us"), format!("task.p.sleep={us}us"));
        let kernel = format!("kernel={{ profile = \"6.1\", features = [\"{feature}\"] }}");
        play_file("16-half-sleeper.toml", &[&run, &sleep, &kernel]).share("p")
    };
    assert!(option(4_500, "NO_GENTLE_FAIR_SLEEPERS") > 0.45);
    assert!(option(4_500, "GENTLE_FAIR_SLEEPERS") < 0.40);
}

fn event(ts: u64, cpu: u32, kind: EventKind) -> Event {
    Event {
        ts,
        cpu,
        pid: 0,
        comm: Comm::default(),
        flags: CpuFlags::default(),
        kind,
    }
}

/// A task of this `prio` is woken at the first time, moves at those in between and runs at the last, for 1 ms.
fn moved(times: &[u64], prio: i32) -> (u64, u64) {
    let named = |pid: i32, prio| TaskRef {
        comm: Comm::new(if pid == 0 { "swapper" } else { "t" }),
        pid,
        prio,
    };
    let (task, idle) = (named(7, prio), named(0, 120));
    let mut latency = LatencyAccumulator::new(LatencyOptions::default());
    let last = times.len() - 1;
    for (i, &ts) in times.iter().enumerate() {
        let cpu = i as u32;
        let kind = match i {
            0 => EventKind::SchedWakeup {
                task,
                target_cpu: 0,
            },
            _ if i == last => EventKind::SchedSwitch {
                prev: idle,
                prev_state: PrevState::RUNNING,
                next: task,
            },
            _ => EventKind::SchedMigrateTask {
                task,
                orig_cpu: cpu - 1,
                dest_cpu: cpu,
            },
        };
        // The last move's target is where it runs.
        let cpu = if i == last { cpu - 1 } else { cpu };
        latency.push(&event(ts, cpu, kind));
    }
    let end = times[last] + MS;
    latency.push(&event(
        end,
        last as u32 - 1,
        EventKind::SchedSwitch {
            prev: task,
            prev_state: PrevState::INTERRUPTIBLE,
            next: idle,
        },
    ));
    let report = latency.finish();
    let t = report.tasks.iter().find(|t| t.pid == 7).unwrap();
    assert_eq!(t.runtime, MS);
    let delays = t.delays(WakeStart::Wakeup);
    assert_eq!(delays.count, 1);
    (delays.sum, delays.max)
}

#[test]
fn case_46_a_wait_over_moves_is_the_sum_of_its_parts() {
    // Long after boot an error by absolute times would be enormous; early it would be small.
    for base in [0, 5 * MS, 3_600 * SEC, 300 * DAY] {
        for prio in [0, 49, 98, 120] {
            let at = |offsets: &[u64]| -> Vec<u64> { offsets.iter().map(|o| base + o).collect() };
            assert_eq!(moved(&at(&[0, 3 * MS, 7 * MS]), prio), (7 * MS, 7 * MS));
            assert_eq!(moved(&at(&[0, 0, 7 * MS]), prio), (7 * MS, 7 * MS));
            assert_eq!(moved(&at(&[0, 7 * MS, 7 * MS]), prio), (7 * MS, 7 * MS));
            assert_eq!(
                moved(&at(&[0, MS, 2 * MS, 6 * MS, 9 * MS]), prio),
                (9 * MS, 9 * MS)
            );
            assert_eq!(moved(&at(&[0, 4 * MS]), prio), (4 * MS, 4 * MS));
        }
    }
}

#[test]
fn case_46_no_task_waits_longer_than_it_lives() {
    for file in ["37-make.toml", "11-fair-server.toml", "29-spinlock.toml"] {
        let p = play_file(file, &["duration=300ms"]);
        let end = p.outcome.result.end.0;
        assert!(
            p.outcome
                .latency
                .tasks
                .iter()
                .any(|t| t.from_waking.sum > 0),
            "{file}"
        );
        for t in &p.outcome.latency.tasks {
            for start in [WakeStart::Waking, WakeStart::Wakeup] {
                assert!(t.delays(start).sum + t.runtime <= end, "{file}: {t:?}");
            }
        }
    }
}
