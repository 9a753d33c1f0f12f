//! Section 5: placement, saved lag, forks and migrations.

use crate::stage::*;
use schedlab_fair::{Class, CpuId, Dequeue, Enqueue, Feature, Ns, Profile, Vns};

const V: u64 = 1_000_000_000;

/// Where a sleeper with `vlag` is placed among `peers` nice-0 tasks that all stand at V, relative to V.
fn placed(peers: usize, nice: i8, lag: i64) -> (i64, i64) {
    let mut c = class("6.12-stable");
    let q = root(&c);
    c.set_anchor(q, Vns(V));
    for _ in 0..peers {
        queued(&mut c, at(V, V + ms(20.0)));
    }
    let t = off(
        &mut c,
        At {
            nice,
            vlag: lag,
            ..at(0, 0)
        },
    );
    c.enqueue_task(CPU, t, Enqueue::WAKEUP, Ns(0), &mut ());
    let v = c.entity(t.entity()).vruntime;
    (v.minus(Vns(V)), c.v(q).minus(v))
}

#[test]
fn the_saved_lag_remains_once_it_counts() {
    for (peers, nice, lag, at, left) in [
        (1, 0, 1_000_000, -2_000_000, 1_000_000),
        (3, 0, -500_000, 666_666, -500_000),
        (2, 5, 2_000_000, -2_327_148, 2_000_000),
        (1, 19, 1_000_000, -1_014_648, 999_999),
        (0, 0, 123_456, 0, 0),
    ] {
        let (v, after) = placed(peers, nice, lag);
        assert_eq!(v, at, "{peers} peers, nice {nice}");
        assert!((after - left).abs() <= 1, "lag {after} afterwards");
    }
}

#[test]
fn without_place_lag_it_is_placed_at_v() {
    let mut c = Class::new(
        profile("6.12-stable").with_feature(Feature::PlaceLag, false),
        1,
        1000,
    );
    queued(&mut c, at(V, V + 9));
    let t = off(
        &mut c,
        At {
            vlag: 1_000_000,
            ..at(0, 0)
        },
    );
    c.enqueue_task(CPU, t, Enqueue::WAKEUP, Ns(0), &mut ());
    assert_eq!(v(&c, t), V);
}

/// The saved lag of a task 1 s behind (or ahead of) its peer.
fn saved(profile: Profile, hz: u32, nice: i8, ahead: bool) -> i64 {
    let mut c = Class::new(profile, 1, hz);
    let slice = c.base_slice().0;
    let (a, b) = if ahead { (V, 0) } else { (0, V) };
    let t = queued(
        &mut c,
        At {
            nice,
            slice,
            ..at(a, a + V)
        },
    );
    queued(
        &mut c,
        At {
            slice,
            ..at(b, b + V)
        },
    );
    let flags = Dequeue::SLEEP | Dequeue::SPECIAL;
    assert!(c.dequeue_task(CPU, t, flags, Ns(0), &mut ()));
    vlag(&c, t)
}

#[test]
fn saved_lag_is_clamped() {
    for ahead in [false, true] {
        let sign = if ahead { -1 } else { 1 };
        assert_eq!(
            saved(profile("6.12-stable"), 1000, 0, ahead),
            sign * 5_600_000
        );
        let mut one_cpu = Profile::default();
        one_cpu.tunables.base_slice = None;
        assert_eq!(saved(one_cpu, 250, 0, ahead), sign * 4_000_000);
        assert_eq!(
            saved(profile("6.12-stable"), 1000, 5, ahead),
            sign * 17_117_612
        );
        assert_eq!(saved(profile("7.0"), 1000, 5, ahead), sign * 11_615_522);
    }
}

#[test]
fn a_fork_gets_half_a_slice_at_v() {
    let mut c = class("6.12-stable");
    let q = root(&c);
    c.set_anchor(q, Vns(ms(100.0)));
    let parent = queued(&mut c, at(ms(100.0), ms(102.0)));
    let child = c.fork(parent);
    assert_eq!((v(&c, child), vlag(&c, child)), (0, 0));
    c.enqueue_task(CPU, child, Enqueue::INITIAL, Ns(0), &mut ());
    assert_eq!((v(&c, child), d(&c, child)), (ms(100.0), ms(101.4)));
    let p = profile("6.12-stable").with_feature(Feature::PlaceDeadlineInitial, false);
    c.set_profile(p);
    let child = c.fork(parent);
    c.enqueue_task(CPU, child, Enqueue::INITIAL, Ns(0), &mut ());
    assert_eq!(d(&c, child) - v(&c, child), ms(2.8));
}

#[test]
fn a_child_inherits_what_its_parent_was_given() {
    let mut c = Class::new(Profile::default(), 2, 1000);
    let g = group(&mut c, schedlab_fair::GroupId::ROOT);
    let parent = c.add_task(schedlab_fair::TaskAttr {
        nice: 3,
        policy: schedlab_fair::TaskPolicy::Batch,
        slice: Some(Ns(400_000)),
        group: g,
    });
    c.enqueue_task(CpuId(1), parent, Enqueue::INITIAL, Ns(0), &mut ());
    let child = c.fork(parent);
    let (p, e) = (c.entity(parent.entity()), c.entity(child.entity()));
    assert_eq!(
        (
            e.nice,
            e.policy,
            e.slice,
            e.custom_slice,
            e.group,
            e.queue,
            e.parent,
            e.depth
        ),
        (
            p.nice, p.policy, p.slice, true, g, p.queue, p.parent, p.depth
        )
    );
    assert_eq!((e.sum_exec_runtime, e.vlag, e.rel_deadline), (0, 0, false));
}

#[test]
fn a_request_survives_a_move_but_not_a_sleep() {
    let mut c = Class::new(profile("6.12-stable"), 2, 1000);
    // So that the stamp of its last run is not 0.
    c.update_curr_task(CPU, Ns(5), &mut ());
    let t = queued(&mut c, at(ms(1.0), ms(2.0)));
    assert_eq!(c.entity(t.entity()).exec_start, 5);
    queued(&mut c, at(ms(3.0), ms(9.0)));
    c.dequeue_task(CPU, t, Dequeue::MIGRATING, Ns(0), &mut ());
    let e = c.entity(t.entity());
    assert!(e.rel_deadline);
    assert_eq!((e.deadline.0, e.vlag), (ms(1.0), ms(1.0) as i64));
    // To an empty queue: at its V, with what was left of the request.
    c.enqueue_task(CpuId(1), t, Enqueue::MIGRATED, Ns(0), &mut ());
    let e = c.entity(t.entity());
    assert_eq!(e.deadline.minus(e.vruntime), ms(1.0) as i64);
    assert_eq!((e.rel_deadline, e.exec_start), (false, 0));
    let there = c.rq(CpuId(1)).cfs;
    assert_eq!(e.vruntime, c.v(there));
    c.dequeue_task(CpuId(1), t, Dequeue::SLEEP, Ns(0), &mut ());
    c.enqueue_task(CpuId(1), t, Enqueue::WAKEUP, Ns(0), &mut ());
    let e = c.entity(t.entity());
    assert_eq!(
        e.deadline.minus(e.vruntime),
        ms(2.8) as i64,
        "a fresh request"
    );
    // Before 6.12 a move makes a fresh request too.
    let mut c = class("6.8");
    let t = queued(&mut c, at(ms(1.0), ms(2.0)));
    c.dequeue_task(CPU, t, Dequeue::MIGRATING, Ns(0), &mut ());
    c.enqueue_task(CPU, t, Enqueue::MIGRATED, Ns(0), &mut ());
    let e = c.entity(t.entity());
    assert_eq!(e.deadline.minus(e.vruntime), ms(2.8) as i64);
}

#[test]
fn lag_does_not_decay_in_sleep() {
    let mut c = class("6.12-stable");
    let t = queued(&mut c, at(ms(1.0), ms(2.0)));
    queued(&mut c, at(ms(3.0), ms(9.0)));
    c.dequeue_task(CPU, t, Dequeue::SLEEP, Ns(0), &mut ());
    assert_eq!(vlag(&c, t), ms(1.0) as i64);
    c.enqueue_task(CPU, t, Enqueue::WAKEUP, Ns::from_secs(3600), &mut ());
    assert_eq!(
        v(&c, t),
        ms(1.0),
        "V is 3, the lag 1, doubled for one equal peer"
    );
}
