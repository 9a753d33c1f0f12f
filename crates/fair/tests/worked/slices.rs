//! Section 3: slices, protection, and the decision at the tick.

use crate::stage::*;
use schedlab_fair::profile::NrScope;
use schedlab_fair::{Class, Enqueue, GroupId, Ns, Resched, TaskAttr, TaskId, Weight};

fn tick(c: &mut Class, at_ms: f64) -> bool {
    c.clear_resched(CPU);
    c.task_tick(CPU, Ns(ms(at_ms)), &mut ());
    c.resched(CPU) != Resched::None
}

#[test]
fn a_request_is_used_up_at_the_third_tick() {
    for (name, other) in [
        ("6.12-stable", true),
        ("6.12-stable", false),
        ("6.8", true),
        ("6.8", false),
    ] {
        let mut c = class(name);
        let q = root(&c);
        c.set_anchor(q, schedlab_fair::Vns(ms(10.0)));
        let a = running(&mut c, at(ms(10.0), ms(12.8)).protected());
        if other {
            queued(&mut c, at(ms(11.0), ms(13.0)));
        }
        assert!(!tick(&mut c, 2.0));
        assert_eq!((v(&c, a), d(&c, a)), (ms(12.0), ms(12.8)));
        assert!(c.protected(a.entity()));
        // From the present vruntime: the overshoot of 0.2 ms is not carried over.
        assert_eq!(tick(&mut c, 3.0), other, "{name}");
        assert_eq!((v(&c, a), d(&c, a)), (ms(13.0), ms(15.8)));
        assert!(
            !c.protected(a.entity()),
            "the marker is no longer the deadline"
        );
    }
}

#[test]
fn slices_of_nice_tasks_and_custom_ones() {
    let mut c = class("6.12-stable");
    let t = c.add_task(TaskAttr {
        nice: 5,
        ..TaskAttr::default()
    });
    c.enqueue_task(CPU, t, Enqueue::WAKEUP, Ns(0), &mut ());
    assert_eq!(d(&c, t).wrapping_sub(v(&c, t)), 8_558_806);
    for (asked, got) in [
        (50_000, 100_000),
        (500_000_000, 100_000_000),
        (400_000, 400_000),
    ] {
        c.set_slice(t, Some(Ns(asked)));
        assert_eq!(c.entity(t.entity()).slice, got);
        let new = c.add_task(TaskAttr {
            slice: Some(Ns(asked)),
            ..TaskAttr::default()
        });
        assert_eq!(c.entity(new.entity()).slice, got);
    }
    c.set_slice(t, None);
    assert_eq!(c.entity(t.entity()).slice, 2_800_000);
    // Before 6.12 there are none.
    let mut c = class("6.8");
    let t = c.add_task(TaskAttr {
        slice: Some(Ns(400_000)),
        ..TaskAttr::default()
    });
    c.set_slice(t, Some(Ns(500_000)));
    assert_eq!(c.entity(t.entity()).slice, 2_800_000);
}

#[test]
fn base_slice_by_number_of_cpus() {
    for (cpus, new, old) in [
        (1, 0.70, 0.75),
        (2, 1.40, 1.50),
        (3, 1.40, 1.50),
        (4, 2.10, 2.25),
        (7, 2.10, 2.25),
        (8, 2.80, 3.00),
        (224, 2.80, 3.00),
    ] {
        let of = |name: &str| {
            let p = schedlab_fair::Profile::by_name(name).unwrap();
            Class::new(p, cpus, 1000).base_slice().0
        };
        assert_eq!(
            (of("6.12-stable"), of("6.12.0")),
            (ms(new), ms(old)),
            "{cpus} CPUs"
        );
    }
}

/// Ticks see a little less than a millisecond of run time each: a slice of exactly three of them takes a fourth.
#[test]
fn a_slice_of_whole_ticks_lasts_one_tick_more() {
    for (slice, ticks) in [(3_000_000, 4), (2_800_000, 3)] {
        let mut c = class("6.12-stable");
        running(
            &mut c,
            At {
                slice,
                ..at(0, slice)
            }
            .protected(),
        );
        queued(&mut c, at(0, ms(9.0)));
        let n = (1..).find(|n| tick(&mut c, f64::from(*n) * 0.999)).unwrap();
        assert_eq!(n, ticks, "slice {slice}");
    }
}

#[test]
fn the_shortest_slice_protects_from_6_17_on() {
    let mut c = class("6.17");
    let long = off(&mut c, at(0, ms(2.8)));
    c.insert_recorded(long.entity(), false);
    let short = At {
        slice: 500_000,
        ..at(ms(0.4), ms(3.0))
    };
    queued(&mut c, short);
    let picked = c.pick_next_task(CPU, None, Ns(0), &mut ());
    assert_eq!(picked, Some(long));
    assert_eq!(c.entity(long.entity()).vprot.0, ms(0.5));
    assert!(!tick(&mut c, 0.4));
    assert!(c.protected(long.entity()));
    assert!(tick(&mut c, 0.5), "unprotected at the next accounting");
    // With NO_RUN_TO_PARITY the unscaled base slice protects.
    let p = profile("6.17").with_feature(schedlab_fair::Feature::RunToParity, false);
    let mut c = Class::new(p, 1, 1000);
    let long = queued(&mut c, at(0, ms(2.8)));
    queued(&mut c, short);
    c.pick_next_task(CPU, None, Ns(0), &mut ());
    assert_eq!(c.entity(long.entity()).vprot.0, 700_000);
}

#[test]
fn protection_as_long_as_the_slice_ends_at_the_deadline() {
    let mut c = class("6.17");
    let a = queued(&mut c, at(ms(1.0), ms(2.0)));
    queued(&mut c, at(ms(1.0), ms(3.0)));
    c.pick_next_task(CPU, None, Ns(0), &mut ());
    // Not 1.0 + 2.8 ms: the request had less left.
    assert_eq!(c.entity(a.entity()).vprot.0, ms(2.0));
}

#[test]
fn protection_at_a_pick_only_from_7_0_on() {
    for (name, again) in [("6.19", true), ("7.0", false)] {
        let mut c = class(name);
        let a = queued(&mut c, at(0, ms(2.8)));
        queued(&mut c, at(0, ms(4.0)));
        c.pick_next_task(CPU, None, Ns(0), &mut ());
        let before = c.entity(a.entity()).vprot;
        c.update_curr_task(CPU, Ns(ms(1.0)), &mut ());
        let now = Ns(ms(1.0));
        let off = schedlab_fair::Dequeue::SAVE | schedlab_fair::Dequeue::MOVE;
        c.dequeue_task(CPU, a, off, now, &mut ());
        c.put_prev_task(CPU, a, now, &mut ());
        c.set_nice(a, -5, &mut ());
        c.enqueue_task(CPU, a, Enqueue::RESTORE | Enqueue::MOVE, now, &mut ());
        c.restore_task(CPU, a, now, &mut ());
        assert_eq!(c.entity(a.entity()).vprot != before, again, "{name}");
    }
}

/// Root queue {G(p1), p2}: p1 has used up its request in G, G's own entity has not.
fn g_and_p2(scope: NrScope) -> (Class, TaskId, TaskId) {
    let mut p = profile("6.12-stable");
    p.nr_scope = scope;
    let mut c = Class::new(p, 1, 1000);
    let g = group(&mut c, GroupId::ROOT);
    let p1 = off_in(&mut c, g, at(0, ms(1.0)).protected());
    c.insert_recorded(p1.entity(), true);
    let ge = c.group(g).entities[0];
    set(&mut c, ge, at(0, ms(2.8)).protected(), Weight::NICE_0);
    c.insert_recorded(ge, true);
    let p2 = queued(&mut c, at(0, ms(9.0)));
    (c, p1, p2)
}

#[test]
fn three_scopes_and_a_group_of_one() {
    // At 1 ms p1's request is used up: scopes of the whole CPU and of the root queue see two, that of the level one.
    for (scope, resched) in [
        (NrScope::Rq, true),
        (NrScope::RootCfs, true),
        (NrScope::CfsRq, false),
    ] {
        let (mut c, p1, p2) = g_and_p2(scope);
        assert_eq!(tick(&mut c, 1.0), resched, "{scope:?}");
        assert_eq!(d(&c, p1), ms(3.8), "the deadline is renewed in any case");
        // The pick that the request leads to walks from the root, where the group has run ahead of V.
        assert_eq!(c.pick_task(CPU, Ns(ms(1.0)), &mut ()), Some(p2));
    }
    let (mut c, _, _) = g_and_p2(NrScope::CfsRq);
    assert!(!tick(&mut c, 2.0));
    // Only when the group's own request is used up does its level speak.
    assert!(tick(&mut c, 3.0));
}

#[test]
fn three_scopes_and_a_group_of_two() {
    for (scope, resched) in [
        (NrScope::Rq, true),
        (NrScope::RootCfs, false),
        (NrScope::CfsRq, true),
    ] {
        let mut p = profile("6.12-stable");
        p.nr_scope = scope;
        let mut c = Class::new(p, 1, 1000);
        let g = group(&mut c, GroupId::ROOT);
        let p1 = off_in(&mut c, g, at(0, ms(1.0)).protected());
        let p2 = off_in(&mut c, g, at(0, ms(9.0)));
        c.insert_recorded(p1.entity(), true);
        c.insert_recorded(p2.entity(), false);
        let ge = c.group(g).entities[0];
        set(&mut c, ge, at(0, ms(2.8)).protected(), Weight::NICE_0);
        c.insert_recorded(ge, true);
        assert_eq!(tick(&mut c, 1.0), resched, "{scope:?}");
    }
}

#[test]
fn three_scopes_and_another_class_or_a_delayed_sleeper() {
    for (scope, with_rt, with_delayed) in [
        (NrScope::Rq, true, true),
        (NrScope::RootCfs, false, true),
        (NrScope::CfsRq, false, true),
    ] {
        for delayed in [false, true] {
            let mut p = profile("6.12-stable");
            p.nr_scope = scope;
            let mut c = Class::new(p, 1, 1000);
            running(&mut c, at(0, ms(1.0)).protected());
            if delayed {
                // A lone runner and a delayed sleeper are two for every scope.
                queued(
                    &mut c,
                    At {
                        delayed: true,
                        ..at(ms(1.0), ms(9.0))
                    },
                );
            } else {
                c.set_nr_other(CPU, 1);
            }
            let want = if delayed { with_delayed } else { with_rt };
            assert_eq!(tick(&mut c, 1.0), want, "{scope:?}, delayed: {delayed}");
        }
    }
}

#[test]
fn unprotected_and_ineligible_is_enough_from_6_12_on() {
    for (name, short, resched) in [
        ("6.12-stable", true, true),
        ("6.12-stable", false, false),
        ("6.8", true, false),
    ] {
        let p = profile(name).with_feature(schedlab_fair::Feature::PreemptShort, short);
        let mut c = Class::new(p, 1, 1000);
        // Ahead of V and without the marker, far from its deadline.
        running(&mut c, at(ms(2.0), ms(20.0)));
        queued(&mut c, at(0, ms(30.0)));
        assert_eq!(tick(&mut c, 1.0), resched, "{name}, PREEMPT_SHORT {short}");
    }
    // Eligible and unprotected is not enough.
    let mut c = class("6.12-stable");
    running(&mut c, at(0, ms(20.0)));
    queued(&mut c, at(ms(9.0), ms(30.0)));
    assert!(!tick(&mut c, 1.0));
    // The tick does not touch a protected one, eligible or not.
    let mut c = class("6.12-stable");
    running(&mut c, at(ms(2.0), ms(20.0)).protected());
    queued(&mut c, at(0, ms(30.0)));
    assert!(!tick(&mut c, 1.0));
}

#[test]
fn picked_again_means_unprotected_in_6_12() {
    let mut c = class("6.12-stable");
    let a = queued(&mut c, at(0, ms(1.0)));
    queued(&mut c, at(ms(5.0), ms(20.0)));
    assert_eq!(c.pick_next_task(CPU, None, Ns(0), &mut ()), Some(a));
    assert!(c.protected(a.entity()));
    assert!(tick(&mut c, 1.0));
    let again = c.pick_next_task(CPU, Some(a), Ns(ms(1.0)), &mut ());
    assert_eq!(again, Some(a));
    assert!(!c.protected(a.entity()));
}

#[test]
fn hrtick_ends_the_slice() {
    let p = profile("6.12-stable").with_feature(schedlab_fair::Feature::Hrtick, true);
    let mut c = Class::new(p, 1, 1000);
    queued(&mut c, at(0, ms(2.8)));
    c.pick_next_task(CPU, None, Ns(0), &mut ());
    assert_eq!(c.hrtick_delay(CPU), None, "alone");
    queued(&mut c, at(0, ms(9.0)));
    assert_eq!(c.hrtick_delay(CPU), Some(Ns(2_800_000)));
    c.update_curr_task(CPU, Ns(ms(1.0)), &mut ());
    assert_eq!(c.hrtick_delay(CPU), Some(Ns(1_800_000)));
    c.update_curr_task(CPU, Ns(ms(5.0)), &mut ());
    assert_eq!(c.hrtick_delay(CPU), Some(Ns(0)));
}

#[test]
fn a_new_slice_counts_at_once_for_comparisons() {
    let mut c = class("6.17");
    let a = queued(&mut c, at(0, ms(2.8)));
    let b = queued(&mut c, at(ms(1.0), ms(9.0)));
    c.set_slice(b, Some(Ns(300_000)));
    assert_eq!(d(&c, b), ms(9.0), "the deadline of the request stays");
    c.pick_next_task(CPU, None, Ns(0), &mut ());
    assert_eq!(c.entity(a.entity()).vprot.0, 300_000);
    c.verify(CPU).unwrap();
}
