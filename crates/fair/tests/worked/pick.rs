//! Section 4: the pick at one level, the walk, and buddies.

use crate::stage::*;
use schedlab_fair::{Class, Dequeue, Enqueue, Feature, GroupId, Ns, TaskAttr, Wake};

#[test]
fn earliest_deadline_among_the_eligible() {
    let setup = || {
        let mut c = class("6.12-stable");
        queued(&mut c, at(0, 5_000));
        let b = queued(&mut c, at(1_000, 3_000));
        queued(&mut c, at(6_000, 2_000));
        (c, b.entity())
    };
    let (c, b) = setup();
    let q = root(&c);
    assert_eq!(c.pick_eevdf(q, true), Some(b));
    // V = 2.25: the running D is eligible and has the earliest deadline.
    let (mut c, _) = setup();
    let running_d = running(&mut c, at(2_000, 2_500)).entity();
    assert_eq!(c.pick_eevdf(q, true), Some(running_d));
    // At 3, V = 2.5: not eligible.
    let (mut c, b) = setup();
    running(&mut c, at(3_000, 2_500));
    assert_eq!(c.pick_eevdf(q, true), Some(b));
    // Protected and eligible, with the last deadline of all.
    let (mut c, b) = setup();
    let d = running(&mut c, at(2_000, 9_000).protected()).entity();
    assert_eq!(c.pick_eevdf(q, true), Some(d));
    assert_eq!(c.pick_eevdf(q, false), Some(b));
    // Protected, but past V.
    let (mut c, b) = setup();
    running(&mut c, at(3_000, 9_000).protected());
    assert_eq!(c.pick_eevdf(q, true), Some(b));
    // Without RUN_TO_PARITY the marker does not count.
    let mut c = Class::new(
        profile("6.12-stable").with_feature(Feature::RunToParity, false),
        1,
        1000,
    );
    let b = queued(&mut c, at(1_000, 3_000)).entity();
    running(&mut c, at(1_000, 9_000).protected());
    assert_eq!(c.pick_eevdf(q, true), Some(b));
}

#[test]
fn ties() {
    let mut c = class("6.12-stable");
    let q = root(&c);
    let first = queued(&mut c, at(1_000, 5_000)).entity();
    queued(&mut c, at(1_000, 5_000));
    assert_eq!(
        c.pick_eevdf(q, true),
        Some(first),
        "first come, first served"
    );
    running(&mut c, at(1_000, 5_000));
    assert_eq!(
        c.pick_eevdf(q, true),
        Some(first),
        "the queued one beats the running one"
    );
    let mut c = class("6.12-stable");
    queued(&mut c, at(1_000, 5_001));
    let curr = running(&mut c, at(1_000, 5_000)).entity();
    assert_eq!(c.pick_eevdf(q, true), Some(curr));
}

#[test]
fn a_single_entity_is_not_tested() {
    let mut c = class("6.12-stable");
    let q = root(&c);
    let blocking = off(&mut c, at(20_000, 30_000));
    c.set_blocking_curr(blocking.entity());
    let one = queued(&mut c, at(90_000, 99_000)).entity();
    assert_eq!(c.pick_eevdf(q, true), Some(one));
}

#[test]
fn a_delayed_entity_that_wins_leaves_and_the_walk_restarts() {
    let mut c = class("6.12-stable");
    let sleeper = queued(
        &mut c,
        At {
            delayed: true,
            ..at(0, 1_000)
        },
    );
    let b = queued(&mut c, at(0, 2_000));
    assert_eq!(c.nr_running(CPU), 2);
    assert_eq!(c.h_nr_runnable(CPU), 1);
    assert_eq!(c.pick_next_task(CPU, None, Ns(0), &mut ()), Some(b));
    assert!(!c.is_on_rq(sleeper));
    assert_eq!(c.nr_running(CPU), 1);
}

/// A sleeping task's group is preferred, if the switch of the version lets buddies count.
#[test]
fn sleep_buddies() {
    for (name, feature, wins) in [
        ("6.8", None, false),
        ("6.8", Some(Feature::NextBuddy), true),
        ("6.12.0", None, false),
        ("6.12-stable", None, true),
        ("6.15", None, true),
        ("6.19", None, true),
    ] {
        let mut p = profile(name);
        if let Some(f) = feature {
            p = p.with_feature(f, true);
        }
        let mut c = Class::new(p, 1, 1000);
        let g = group(&mut c, GroupId::ROOT);
        let inside = |c: &mut Class| {
            let t = c.add_task(TaskAttr {
                group: g,
                ..TaskAttr::default()
            });
            c.enqueue_task(CPU, t, Enqueue::WAKEUP, Ns(0), &mut ());
            t
        };
        let (first, second) = (inside(&mut c), inside(&mut c));
        assert_eq!(c.pick_next_task(CPU, None, Ns(0), &mut ()), Some(first));
        // The newcomer has half a slice, so an earlier deadline, and sits at V.
        let other = c.add_task(TaskAttr::default());
        c.enqueue_task(CPU, other, Enqueue::INITIAL, Ns(0), &mut ());
        c.dequeue_task(CPU, first, Dequeue::SLEEP, Ns(0), &mut ());
        let ge = c.group(g).entities[0];
        assert_eq!(
            c.queue(root(&c)).next,
            Some(ge),
            "{name}: marked whatever the switch"
        );
        let p = *c.profile();
        // Without protection, which would keep the group anyway.
        c.set_profile(p.with_feature(Feature::RunToParity, false));
        let got = c.pick_next_task(CPU, Some(first), Ns(0), &mut ());
        let kept = got == Some(second);
        if matches!(name, "6.19") {
            assert!(kept, "{name}: the buddy, or its protection");
        } else {
            assert_eq!(kept, wins, "{name} {feature:?}");
        }
    }
}

#[test]
fn a_buddy_must_be_eligible_and_is_used_once() {
    let mut c = class("6.12-stable");
    let q = root(&c);
    queued(&mut c, at(0, 3_000));
    let b = queued(&mut c, at(1_000, 9_000));
    running(&mut c, at(2_000, 9_000));
    assert!(c.yield_to_task(CPU, b, Ns(0), &mut ()));
    assert_eq!(c.queue(q).next, Some(b.entity()));
    let curr = c.curr(CPU);
    assert_eq!(c.pick_next_task(CPU, curr, Ns(0), &mut ()), Some(b));
    assert_eq!(c.queue(q).next, None, "cleared when it is set running");
    let mut c = class("6.12-stable");
    let a = queued(&mut c, at(0, 3_000));
    let b = queued(&mut c, at(5_000, 9_000));
    let r = running(&mut c, at(2_000, 9_000));
    assert!(c.yield_to_task(CPU, b, Ns(0), &mut ()));
    assert_eq!(
        c.pick_next_task(CPU, Some(r), Ns(0), &mut ()),
        Some(a),
        "not eligible"
    );
}

#[test]
fn wakeups_mark_buddies_with_next_buddy() {
    let wake = |name: &str, flags: Wake| {
        let p = profile(name).with_feature(Feature::NextBuddy, true);
        let mut c = Class::new(p, 1, 1000);
        running(&mut c, at(0, ms(2.8)).protected());
        let w = queued(&mut c, at(0, ms(9.0)));
        c.wakeup_preempt(CPU, w, flags, Ns(0), &mut ());
        c.queue(root(&c)).next == Some(w.entity())
    };
    assert!(wake("6.8", Wake::TTWU));
    assert!(wake("6.12-stable", Wake::TTWU));
    assert!(!wake("6.12-stable", Wake::FORK));
    assert!(wake("6.19", Wake::TTWU));
    assert!(!wake("6.19", Wake::FORK));
}

#[test]
fn only_the_differing_parts_of_the_chains_are_switched() {
    let mut c = class("6.12-stable");
    let g = group(&mut c, GroupId::ROOT);
    let t: Vec<_> = (0..2)
        .map(|_| {
            let t = c.add_task(TaskAttr {
                group: g,
                ..TaskAttr::default()
            });
            c.enqueue_task(CPU, t, Enqueue::INITIAL, Ns(0), &mut ());
            t
        })
        .collect();
    let ge = c.group(g).entities[0];
    let first = c.pick_next_task(CPU, None, Ns(0), &mut ());
    assert_eq!(first, Some(t[0]));
    let stamp = c.entity(ge).prev_sum_exec_runtime;
    c.task_tick(CPU, Ns(ms(2.0)), &mut ());
    let second = c.pick_next_task(CPU, first, Ns(ms(2.0)), &mut ());
    assert_eq!(second, Some(t[1]));
    assert_eq!(
        c.entity(ge).prev_sum_exec_runtime,
        stamp,
        "the group stays set"
    );
    assert_eq!(c.entity(t[1].entity()).exec_start, ms(2.0));
}
