//! Section 17: CFS as in 6.1.

use crate::stage::CPU;
use schedlab_fair::{
    Class, Dequeue, Enqueue, Feature, Ns, Profile, Resched, TaskAttr, TaskId, TaskPolicy, Vns, Wake,
};

fn class(cpus: u32) -> Class {
    Class::new(Profile::by_name("6.1").unwrap(), cpus, 1000)
}

fn ms(x: f64) -> u64 {
    crate::stage::ms(x)
}

fn hog(c: &mut Class, nice: i8) -> TaskId {
    let t = c.add_task(TaskAttr {
        nice,
        ..TaskAttr::default()
    });
    c.enqueue_task(CPU, t, Enqueue::INITIAL, Ns(0), &mut ());
    t
}

/// The slice of the running task, which HRTICK tells.
fn slice(c: &mut Class, want: TaskId) -> f64 {
    let t = c.pick_next_task(CPU, None, Ns(0), &mut ()).unwrap();
    if t != want {
        c.put_prev_task(CPU, t, Ns(0), &mut ());
        c.set_next_task(CPU, want, Ns(0), &mut ());
    }
    let p = *c.profile();
    c.set_profile(p.with_feature(Feature::Hrtick, true));
    let ns = c.hrtick_delay(CPU).unwrap().0;
    c.set_profile(p);
    let got = c.curr(CPU).unwrap();
    c.put_prev_task(CPU, got, Ns(0), &mut ());
    ns as f64 / 1e6
}

fn near(got: f64, want: f64) {
    assert!((got - want).abs() < 0.01, "{got} ms, not {want}");
}

#[test]
fn slices() {
    let mut c = class(8);
    let two: Vec<_> = (0..2).map(|_| hog(&mut c, 0)).collect();
    near(slice(&mut c, two[0]), 12.0);
    for _ in 0..8 {
        hog(&mut c, 0);
    }
    near(slice(&mut c, two[0]), 3.0);
    let mut c = class(8);
    let (a, b) = (hog(&mut c, 0), hog(&mut c, 5));
    near(slice(&mut c, a), 18.08);
    near(slice(&mut c, b), 5.92);
    // Never below the minimum granularity, with BASE_SLICE.
    let mut c = class(8);
    hog(&mut c, -20);
    let light = hog(&mut c, 19);
    near(slice(&mut c, light), 3.0);
    let p = c.profile().with_feature(Feature::BaseSlice, false);
    c.set_profile(p);
    near(slice(&mut c, light), 24.0 * 15.0 / 88776.0);
}

#[test]
fn an_idle_task_among_others_has_a_granularity_of_its_own() {
    let mut c = class(8);
    let idle = c.add_task(TaskAttr {
        policy: TaskPolicy::Idle,
        ..TaskAttr::default()
    });
    c.enqueue_task(CPU, idle, Enqueue::INITIAL, Ns(0), &mut ());
    hog(&mut c, 0);
    near(slice(&mut c, idle), 0.75);
}

/// A queue whose `min_vruntime` is at `v` ms, with a hog there that runs.
fn running_hog(c: &mut Class, v: f64) -> TaskId {
    let q = c.rq(CPU).cfs;
    c.set_anchor(q, Vns(ms(v)));
    let t = hog(c, 0);
    c.pick_next_task(CPU, None, Ns(0), &mut ());
    t
}

/// 12 ms; the division by a queue's load loses a few nanoseconds.
fn near_12(ns: i64) {
    assert!((ns - ms(12.0) as i64).abs() < 20, "{ns}");
}

#[test]
fn a_fork_starts_one_slice_late() {
    let mut c = class(8);
    let parent = running_hog(&mut c, 100.0);
    let min = c.entity(parent.entity()).vruntime;
    let q = c.rq(CPU).cfs;
    c.set_anchor(q, min);
    let child = c.fork(parent);
    c.enqueue_task(CPU, child, Enqueue::INITIAL, Ns(0), &mut ());
    near_12(c.entity(child.entity()).vruntime.minus(min));
    let p = c.profile().with_feature(Feature::StartDebit, false);
    c.set_profile(p);
    let child = c.fork(parent);
    c.enqueue_task(CPU, child, Enqueue::INITIAL, Ns(0), &mut ());
    assert_eq!(c.entity(child.entity()).vruntime, min);
    // A task without a parent is placed like one.
    let p = c.profile().with_feature(Feature::StartDebit, true);
    let mut c = Class::new(p, 8, 1000);
    let first = running_hog(&mut c, 100.0);
    let min = c.entity(first.entity()).vruntime;
    let q = c.rq(CPU).cfs;
    c.set_anchor(q, min);
    let second = hog(&mut c, 0);
    near_12(c.entity(second.entity()).vruntime.minus(min));
}

/// (v relative to min_vruntime, preempts) of a task that wakes after a long sleep.
fn woken(cpus: u32, gentle: bool, policy: TaskPolicy) -> (i64, bool) {
    let mut c = class(cpus);
    let p = c
        .profile()
        .with_feature(Feature::GentleFairSleepers, gentle);
    c.set_profile(p);
    let sleeper = c.add_task(TaskAttr {
        policy,
        ..TaskAttr::default()
    });
    c.enqueue_task(CPU, sleeper, Enqueue::INITIAL, Ns(0), &mut ());
    c.pick_next_task(CPU, None, Ns(0), &mut ());
    c.dequeue_task(CPU, sleeper, Dequeue::SLEEP, Ns(ms(1.0)), &mut ());
    c.pick_next_task(CPU, Some(sleeper), Ns(ms(1.0)), &mut ());
    let q = c.rq(CPU).cfs;
    c.set_anchor(q, Vns(ms(100_000.0)));
    let t = c.add_task(TaskAttr::default());
    c.enqueue_task(CPU, t, Enqueue::NONE, Ns(ms(1.0)), &mut ());
    c.pick_next_task(CPU, None, Ns(ms(1.0)), &mut ());
    assert_eq!(c.entity(t.entity()).vruntime.0, ms(100_000.0));
    c.enqueue_task(CPU, sleeper, Enqueue::WAKEUP, Ns(ms(1.0)), &mut ());
    c.wakeup_preempt(CPU, sleeper, Wake::TTWU, Ns(ms(1.0)), &mut ());
    (
        c.entity(sleeper.entity())
            .vruntime
            .minus(Vns(ms(100_000.0))),
        c.resched(CPU) != Resched::None,
    )
}

#[test]
fn sleeper_credit() {
    use TaskPolicy::{Batch, Idle, Normal};
    assert_eq!(woken(8, true, Normal), (-(ms(12.0) as i64), true));
    assert_eq!(woken(8, false, Normal), (-(ms(24.0) as i64), true));
    assert_eq!(woken(1, true, Normal), (-(ms(3.0) as i64), true));
    assert_eq!(woken(8, true, Batch), (-(ms(12.0) as i64), false));
    assert_eq!(woken(8, true, Idle), (-(ms(1.5) as i64), false));
}

#[test]
fn a_short_sleep_gains_nothing() {
    let mut c = class(1);
    hog(&mut c, 0);
    hog(&mut c, 0);
    let first = c.pick_next_task(CPU, None, Ns(0), &mut ()).unwrap();
    c.dequeue_task(CPU, first, Dequeue::SLEEP, Ns(ms(1.0)), &mut ());
    let v = c.entity(first.entity()).vruntime;
    let other = c.pick_next_task(CPU, Some(first), Ns(ms(1.0)), &mut ());
    assert_ne!(other, Some(first));
    c.enqueue_task(CPU, first, Enqueue::WAKEUP, Ns(ms(1.5)), &mut ());
    assert_eq!(
        c.entity(first.entity()).vruntime,
        v,
        "above the credit line"
    );
}

#[test]
fn the_tick_ends_slices() {
    let mut c = class(1);
    // Latency 6 ms, two hogs: 3 ms each.
    hog(&mut c, 0);
    hog(&mut c, 0);
    let a = c.pick_next_task(CPU, None, Ns(0), &mut ());
    c.task_tick(CPU, Ns(ms(2.9)), &mut ());
    assert_eq!(c.resched(CPU), Resched::None, "not used up");
    c.task_tick(CPU, Ns(ms(3.1)), &mut ());
    assert_eq!(c.resched(CPU), Resched::Full);
    c.clear_resched(CPU);
    let b = c.pick_next_task(CPU, a, Ns(ms(3.1)), &mut ());
    assert_ne!(a, b);
    // Alone nothing happens.
    c.dequeue_task(CPU, b.unwrap(), Dequeue::SLEEP, Ns(ms(3.1)), &mut ());
    c.pick_next_task(CPU, b, Ns(ms(3.1)), &mut ());
    c.task_tick(CPU, Ns(ms(90.0)), &mut ());
    assert_eq!(c.resched(CPU), Resched::None);
}

#[test]
fn far_ahead_of_the_leftmost_is_enough_at_a_tick() {
    let mut c = class(1);
    let a = running_hog(&mut c, 100.0);
    let behind = c.add_task(TaskAttr::default());
    // Four milliseconds behind, more than the slice of three.
    let q = c.rq(CPU).cfs;
    let v = c.entity(a.entity()).vruntime;
    c.set_anchor(q, v.offset(-4_000_000));
    c.enqueue_task(CPU, behind, Enqueue::NONE, Ns(0), &mut ());
    c.task_tick(CPU, Ns(ms(0.7)), &mut ());
    assert_eq!(
        c.resched(CPU),
        Resched::None,
        "below the minimum granularity"
    );
    c.task_tick(CPU, Ns(ms(0.8)), &mut ());
    assert_eq!(c.resched(CPU), Resched::Full);
}

#[test]
fn a_yielder_is_skipped_once() {
    let mut c = class(1);
    let p = c.profile().with_feature(Feature::StartDebit, false);
    c.set_profile(p);
    let (a, b) = (hog(&mut c, 0), hog(&mut c, 0));
    let first = c.pick_next_task(CPU, None, Ns(0), &mut ());
    assert_eq!(first, Some(a));
    c.yield_task(CPU, Ns(ms(0.1)), &mut ());
    assert_eq!(c.queue(c.rq(CPU).cfs).skip, Some(a.entity()));
    assert_eq!(c.pick_next_task(CPU, first, Ns(ms(0.1)), &mut ()), Some(b));
    // It stands behind b by less than the granularity and yields back.
    c.yield_task(CPU, Ns(ms(0.1)), &mut ());
    assert_eq!(
        c.pick_next_task(CPU, Some(b), Ns(ms(0.1)), &mut ()),
        Some(a)
    );
    assert_eq!(
        c.queue(c.rq(CPU).cfs).skip,
        Some(b.entity()),
        "until b is set running"
    );
    let batch = c.add_task(TaskAttr {
        policy: TaskPolicy::Batch,
        ..TaskAttr::default()
    });
    c.enqueue_task(CPU, batch, Enqueue::INITIAL, Ns(ms(0.1)), &mut ());
    c.put_prev_task(CPU, a, Ns(ms(0.1)), &mut ());
    c.set_next_task(CPU, batch, Ns(ms(0.1)), &mut ());
    let before = c.entity(batch.entity()).vruntime;
    c.yield_task(CPU, Ns(ms(0.5)), &mut ());
    assert_eq!(
        c.entity(batch.entity()).vruntime,
        before,
        "a yield of BATCH does not charge"
    );
}

#[test]
fn a_preempted_task_among_many_is_the_last_buddy() {
    let mut c = class(1);
    let hogs: Vec<_> = (0..8).map(|_| hog(&mut c, 0)).collect();
    let first = c.pick_next_task(CPU, None, Ns(0), &mut ()).unwrap();
    let q = c.rq(CPU).cfs;
    c.update_curr_task(CPU, Ns(ms(5.0)), &mut ());
    c.wakeup_preempt(CPU, hogs[3], Wake::TTWU, Ns(ms(5.0)), &mut ());
    assert_eq!(c.resched(CPU), Resched::Full);
    assert_eq!(c.queue(q).next, Some(hogs[3].entity()));
    assert_eq!(c.queue(q).last, Some(first.entity()));
    c.clear_resched(CPU);
    assert_eq!(
        c.pick_next_task(CPU, Some(first), Ns(ms(5.0)), &mut ()),
        Some(hogs[3])
    );
    assert_eq!(c.queue(q).next, None);
    let p = c.profile().with_feature(Feature::LastBuddy, false);
    let mut c = Class::new(p, 1, 1000);
    let hogs: Vec<_> = (0..8).map(|_| hog(&mut c, 0)).collect();
    c.pick_next_task(CPU, None, Ns(0), &mut ());
    c.wakeup_preempt(CPU, hogs[3], Wake::TTWU, Ns(ms(5.0)), &mut ());
    assert_eq!(c.queue(c.rq(CPU).cfs).last, None);
}

#[test]
fn the_wakeup_granularity_is_the_wakees() {
    for (nice, behind, preempts) in [
        (0, 1.0, false),
        (0, 1.01, true),
        (5, 3.0, false),
        (5, 3.1, true),
        (-5, 0.33, true),
    ] {
        let mut c = class(1);
        let a = running_hog(&mut c, 100.0);
        let q = c.rq(CPU).cfs;
        let v = c.entity(a.entity()).vruntime;
        c.set_anchor(q, v.offset(-(ms(behind) as i64)));
        let t = c.add_task(TaskAttr {
            nice,
            ..TaskAttr::default()
        });
        c.enqueue_task(CPU, t, Enqueue::NONE, Ns(0), &mut ());
        c.wakeup_preempt(CPU, t, Wake::TTWU, Ns(0), &mut ());
        assert_eq!(
            c.resched(CPU) != Resched::None,
            preempts,
            "nice {nice}, {behind} ms behind"
        );
    }
}

#[test]
fn vruntimes_move_between_cpus_by_their_distance_from_the_minimum() {
    let mut c = class(2);
    let t = hog(&mut c, 0);
    let there = c.rq(schedlab_fair::CpuId(1)).cfs;
    c.set_anchor(there, Vns(ms(500.0)));
    let here = c.rq(CPU).cfs;
    let ahead = c.entity(t.entity()).vruntime.minus(c.queue(here).anchor);
    c.dequeue_task(CPU, t, Dequeue::MIGRATING, Ns(0), &mut ());
    c.enqueue_task(
        schedlab_fair::CpuId(1),
        t,
        Enqueue::MIGRATED,
        Ns(0),
        &mut (),
    );
    assert_eq!(c.entity(t.entity()).vruntime.minus(Vns(ms(500.0))), ahead);
    // And a sleeper's when it wakes elsewhere, after the credit.
    let cpu1 = schedlab_fair::CpuId(1);
    c.dequeue_task(cpu1, t, Dequeue::SLEEP, Ns(0), &mut ());
    c.enqueue_task(CPU, t, Enqueue::WAKEUP | Enqueue::MIGRATED, Ns(0), &mut ());
    assert_eq!(
        c.entity(t.entity()).vruntime.minus(c.queue(here).anchor),
        ahead
    );
    assert_eq!(c.entity(t.entity()).exec_start, 0);
}

#[test]
fn a_very_long_sleeper_starts_anew() {
    let mut c = class(1);
    let t = hog(&mut c, 0);
    c.pick_next_task(CPU, None, Ns(0), &mut ());
    c.dequeue_task(CPU, t, Dequeue::SLEEP, Ns(ms(1.0)), &mut ());
    c.pick_next_task(CPU, Some(t), Ns(ms(1.0)), &mut ());
    // The minimum has moved on by more than half the range of a signed comparison.
    let q = c.rq(CPU).cfs;
    let far = c.queue(q).anchor.plus((1 << 63) + (1 << 40));
    c.set_anchor(q, far);
    c.enqueue_task(CPU, t, Enqueue::WAKEUP, Ns((1 << 53) + ms(2.0)), &mut ());
    let v = c.entity(t.entity()).vruntime;
    assert_eq!(v.minus(far), -(ms(3.0) as i64));
}

#[test]
fn hrtick_replaces_the_ticks_check_unless_double_tick() {
    for (double, resched) in [(false, false), (true, true)] {
        let mut c = class(1);
        let p = c.profile().with_feature(Feature::Hrtick, true);
        c.set_profile(p.with_feature(Feature::DoubleTick, double));
        let a = running_hog(&mut c, 100.0);
        let q = c.rq(CPU).cfs;
        let v = c.entity(a.entity()).vruntime;
        c.set_anchor(q, v.offset(-4_000_000));
        let behind = c.add_task(TaskAttr::default());
        c.enqueue_task(CPU, behind, Enqueue::NONE, Ns(0), &mut ());
        c.task_tick(CPU, Ns(ms(1.0)), &mut ());
        assert_eq!(c.resched(CPU) != Resched::None, resched);
    }
}

#[test]
fn a_fork_counts_itself_in_the_period() {
    let mut c = class(8);
    let p = c.profile().with_feature(Feature::BaseSlice, false);
    c.set_profile(p);
    let hogs: Vec<_> = (0..9).map(|_| hog(&mut c, 0)).collect();
    let parent = c.pick_next_task(CPU, None, Ns(0), &mut ()).unwrap();
    let q = c.rq(CPU).cfs;
    // Far behind, so that the target counts and not the parent's vruntime.
    let min = c.entity(parent.entity()).vruntime.offset(ms(100.0) as i64);
    c.set_anchor(q, min);
    let child = c.fork(parent);
    c.enqueue_task(CPU, child, Enqueue::INITIAL, Ns(0), &mut ());
    // Ten of them: 30 ms for all, 3 for each.
    let late = c.entity(child.entity()).vruntime.minus(min);
    assert!(late.abs_diff(ms(3.0) as i64) < 20, "{late}");
    assert_eq!(hogs.len(), 9);
}
