//! Section 6: delayed dequeue.

use crate::stage::*;
use schedlab_fair::{Class, Dequeue, Enqueue, Feature, GroupId, Ns, Profile, TaskAttr, TaskId};

/// A runs at 12 ms and goes to sleep beside B at 8 ms; V is 10. Both have slices of 3 ms.
fn a_sleeps(profile: Profile) -> (Class, TaskId, TaskId) {
    let mut c = Class::new(profile, 1, 1000);
    let three = |v: f64, d: f64| At {
        slice: ms(3.0),
        ..at(ms(v), ms(d))
    };
    let a = running(&mut c, three(12.0, 13.0));
    let b = queued(&mut c, three(8.0, 11.0));
    c.dequeue_task(CPU, a, Dequeue::SLEEP, Ns(0), &mut ());
    (c, a, b)
}

fn then_b_runs(c: &mut Class, a: TaskId, b: TaskId, run: f64) {
    assert_eq!(c.pick_next_task(CPU, Some(a), Ns(0), &mut ()), Some(b));
    c.update_curr_task(CPU, Ns(ms(run)), &mut ());
}

#[test]
fn an_ineligible_sleeper_stays_and_pays() {
    let (mut c, a, b) = a_sleeps(profile("6.12-stable"));
    assert!(c.is_delayed(a) && c.is_on_rq(a));
    assert_eq!((c.nr_running(CPU), c.h_nr_runnable(CPU)), (2, 1));
    then_b_runs(&mut c, a, b, 4.0);
    assert_eq!(c.v(root(&c)).0, ms(12.0));
    // A's deadline is the earlier one now that B's is renewed: the pick ends the delay.
    assert_eq!(
        c.pick_next_task(CPU, Some(b), Ns(ms(4.0)), &mut ()),
        Some(b)
    );
    assert!(!c.is_on_rq(a) && !c.is_delayed(a));
    assert_eq!(vlag(&c, a), 0);
    assert_eq!((c.nr_running(CPU), c.h_nr_runnable(CPU)), (1, 1));
}

#[test]
fn delay_zero_drops_what_it_gained() {
    for (zero, want) in [(true, 0), (false, ms(1.0) as i64)] {
        let p = profile("6.12-stable").with_feature(Feature::DelayZero, zero);
        let (mut c, a, b) = a_sleeps(p);
        then_b_runs(&mut c, a, b, 6.0);
        assert_eq!(c.v(root(&c)).0, ms(13.0));
        assert_eq!(
            c.pick_next_task(CPU, Some(b), Ns(ms(6.0)), &mut ()),
            Some(b)
        );
        assert_eq!(vlag(&c, a), want, "DELAY_ZERO {zero}");
    }
}

#[test]
fn woken_in_place() {
    let (mut c, a, b) = a_sleeps(profile("6.12-stable"));
    then_b_runs(&mut c, a, b, 2.0);
    c.enqueue_task(
        CPU,
        a,
        Enqueue::WAKEUP | Enqueue::DELAYED,
        Ns(ms(2.0)),
        &mut (),
    );
    assert!(!c.is_delayed(a) && c.is_on_rq(a));
    assert_eq!(
        (v(&c, a), d(&c, a)),
        (ms(12.0), ms(13.0)),
        "V 11: as it was"
    );
    assert_eq!(c.h_nr_runnable(CPU), 2);
}

#[test]
fn woken_with_positive_lag_it_is_placed_at_v() {
    for (zero, want) in [(true, 12.5), (false, 12.0)] {
        let p = profile("6.12-stable").with_feature(Feature::DelayZero, zero);
        let (mut c, a, b) = a_sleeps(p);
        then_b_runs(&mut c, a, b, 5.0);
        c.enqueue_task(
            CPU,
            a,
            Enqueue::WAKEUP | Enqueue::DELAYED,
            Ns(ms(5.0)),
            &mut (),
        );
        // Among its peers, of which B stands at 13: V there is B's alone once A is taken out.
        let want = if zero { 13.0 } else { want };
        assert_eq!(v(&c, a), ms(want), "DELAY_ZERO {zero}");
        if zero {
            assert_eq!(d(&c, a), ms(16.0));
        }
    }
}

/// A kernel does not charge the running task before it places the woken one (recorded on 6.12.117).
#[test]
fn the_running_task_is_not_charged_before_a_delayed_one_is_placed() {
    let (mut c, a, b) = a_sleeps(profile("6.12-stable"));
    then_b_runs(&mut c, a, b, 5.0);
    c.enqueue_task(
        CPU,
        a,
        Enqueue::WAKEUP | Enqueue::DELAYED,
        Ns(ms(9.0)),
        &mut (),
    );
    assert_eq!((v(&c, a), v(&c, b)), (ms(13.0), ms(13.0)));
}

#[test]
fn without_delay_dequeue_it_leaves_with_its_debt() {
    let p = profile("6.12-stable").with_feature(Feature::DelayDequeue, false);
    let (mut c, a, b) = a_sleeps(p);
    assert!(!c.is_on_rq(a));
    assert_eq!(vlag(&c, a), -(ms(2.0) as i64));
    then_b_runs(&mut c, a, b, 1.0);
    c.enqueue_task(CPU, a, Enqueue::WAKEUP, Ns(ms(1.0)), &mut ());
    assert_eq!(v(&c, a), ms(9.0 + 4.0), "doubled for one equal peer");
}

#[test]
fn the_eligible_and_the_special_leave_at_once() {
    let mut c = class("6.12-stable");
    let a = running(&mut c, at(ms(8.0), ms(11.0)));
    queued(&mut c, at(ms(12.0), ms(13.0)));
    assert!(c.dequeue_task(CPU, a, Dequeue::SLEEP, Ns(0), &mut ()));
    assert_eq!(vlag(&c, a), ms(2.0) as i64);
    let mut c = class("6.12-stable");
    let a = running(&mut c, at(ms(12.0), ms(13.0)));
    queued(&mut c, at(ms(8.0), ms(11.0)));
    let dies = Dequeue::SLEEP | Dequeue::SPECIAL;
    assert!(c.dequeue_task(CPU, a, dies, Ns(0), &mut ()));
}

#[test]
fn a_group_whose_last_task_sleeps_can_be_delayed() {
    let mut c = class("6.12-stable");
    let g = group(&mut c, GroupId::ROOT);
    let inside = c.add_task(TaskAttr {
        group: g,
        ..TaskAttr::default()
    });
    c.enqueue_task(CPU, inside, Enqueue::INITIAL, Ns(0), &mut ());
    let other = c.add_task(TaskAttr::default());
    c.enqueue_task(CPU, other, Enqueue::WAKEUP, Ns(0), &mut ());
    assert_eq!(c.pick_next_task(CPU, None, Ns(0), &mut ()), Some(inside));
    // The group's entity runs ahead of V; the task is alone in its queue and so eligible.
    assert!(c.dequeue_task(CPU, inside, Dequeue::SLEEP, Ns(ms(1.0)), &mut ()));
    let ge = c.group(g).entities[0];
    assert!(c.entity(ge).sched_delayed && c.entity(ge).on_rq);
    assert!(!c.is_on_rq(inside));
    assert_eq!(c.queue(root(&c)).nr_queued, 2);
    assert_eq!((c.nr_running(CPU), c.h_nr_runnable(CPU)), (1, 1));
    let now = Ns(ms(1.0));
    assert_eq!(
        c.pick_next_task(CPU, Some(inside), now, &mut ()),
        Some(other)
    );
    // A wakeup below ends it.
    c.enqueue_task(CPU, inside, Enqueue::WAKEUP, now, &mut ());
    assert!(!c.entity(ge).sched_delayed);
    assert_eq!(c.nr_running(CPU), 2);
}

#[test]
fn changed_while_delayed_it_stays_delayed() {
    let (mut c, a, b) = a_sleeps(profile("6.12-stable"));
    then_b_runs(&mut c, a, b, 1.0);
    let now = Ns(ms(1.0));
    assert!(c.dequeue_task(CPU, a, Dequeue::SAVE | Dequeue::MOVE, now, &mut ()));
    c.set_nice(a, 5, &mut ());
    c.enqueue_task(CPU, a, Enqueue::RESTORE | Enqueue::MOVE, now, &mut ());
    assert!(c.is_delayed(a) && c.is_on_rq(a));
    assert_eq!((c.nr_running(CPU), c.h_nr_runnable(CPU)), (2, 1));
    c.verify(CPU).unwrap();
}

/// 7.0: while delayed, the lag does not sink below its value at entry.
#[test]
fn a_delayed_lag_only_rises_in_7_0() {
    for (name, sinks) in [("6.19", true), ("7.0", false)] {
        let (mut c, a, b) = a_sleeps(profile(name));
        then_b_runs(&mut c, a, b, 0.0);
        // A newcomer far behind pulls V back.
        queued(&mut c, at(ms(8.0), ms(20.0)));
        let now = Ns(0);
        c.dequeue_task(CPU, a, Dequeue::SAVE | Dequeue::MOVE, now, &mut ());
        let want = if sinks { -2_666_667 } else { -2_000_000 };
        assert_eq!(vlag(&c, a), want, "{name}");
    }
}

/// 7.0: a delayed entity that has gained is at no lag as soon as it is looked at, and woken it is placed by the lag it has.
#[test]
fn a_delayed_lag_is_never_positive_in_7_0() {
    for (name, zero, saved) in [
        ("6.19", true, 1_000_000),
        ("7.0", true, 0),
        ("7.0", false, 1_000_000),
    ] {
        let p = profile(name).with_feature(Feature::DelayZero, zero);
        let (mut c, a, b) = a_sleeps(p);
        then_b_runs(&mut c, a, b, 6.0);
        c.dequeue_task(CPU, a, Dequeue::SAVE | Dequeue::MOVE, Ns(ms(6.0)), &mut ());
        assert_eq!(vlag(&c, a), saved, "{name}, DELAY_ZERO {zero}");
    }
    // A debt that has grown in the meantime is forgiven at the wakeup: it is placed by the one it had.
    for (name, at_ms) in [("6.19", 12.0), ("7.0", 11.0)] {
        let (mut c, a, b) = a_sleeps(profile(name));
        then_b_runs(&mut c, a, b, 0.0);
        queued(&mut c, at(ms(8.0), ms(20.0)));
        c.enqueue_task(CPU, a, Enqueue::WAKEUP | Enqueue::DELAYED, Ns(0), &mut ());
        // V of the other two is 8, and -2 by three of them against two is 3 ahead.
        assert_eq!(v(&c, a), ms(at_ms), "{name}");
    }
}
