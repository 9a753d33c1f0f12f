//! Section 7: weight changes.

use crate::stage::*;
use schedlab_fair::{Class, Dequeue, Enqueue, Ns, TaskId, Vns, Weight};

/// A at 9.0 with deadline 11.8 beside P at 11.0; V is 10.0.
fn a_and_p(name: &str) -> (Class, TaskId) {
    let mut c = class(name);
    let q = root(&c);
    c.set_anchor(q, Vns(ms(10.0)));
    let a = queued(&mut c, at(ms(9.0), ms(11.8)));
    queued(&mut c, at(ms(11.0), ms(20.0)));
    (c, a)
}

const NICE_5: Weight = Weight(335 << 10);

#[test]
fn on_the_queue() {
    for (name, v_ns, d_ns) in [
        ("6.1", 9_000_000, 11_800_000),
        ("6.6", 9_000_000, 17_558_805),
        ("6.8", 6_943_284, 15_502_089),
        ("6.12.0", 6_943_284, 15_502_089),
        ("6.12-stable", 6_943_284, 15_502_089),
        ("6.13", 6_943_285, 15_502_090),
        ("7.0", 6_943_285, 15_502_090),
    ] {
        let (mut c, a) = a_and_p(name);
        c.reweight_group(a.entity(), NICE_5, Ns(0), &mut ());
        assert_eq!((v(&c, a), d(&c, a)), (v_ns, d_ns), "{name}");
        let q = root(&c);
        assert_eq!(c.queue(q).load_weight, (1024 + 335) << 10);
        if !matches!(name, "6.1" | "6.6") {
            // V and the lag in units of service stay.
            let lag = c.v(q).minus(c.entity(a.entity()).vruntime);
            assert!(
                (lag * 335 - 1_000_000 * 1024).abs() <= 2 * 1024,
                "{name}: lag {lag}"
            );
            assert!((c.v(q).0 as i64 - ms(10.0) as i64).abs() <= 1, "{name}");
            // So does the rest of the request.
            let rest = (d(&c, a) - v(&c, a)) * 335;
            assert!(rest.abs_diff(2_800_000 * 1024) <= 1024, "{name}");
        }
    }
}

#[test]
fn a_task_is_taken_off_for_it() {
    for (name, v_ns, d_ns) in [
        ("6.8", 6_943_285, 6_943_285 + 8_558_806),
        ("6.12.0", 6_943_285, 9_743_285),
        ("6.12-stable", 6_943_285, 9_743_285),
        ("6.13", 6_943_285, 15_502_090),
        ("7.0", 6_943_285, 15_502_090),
    ] {
        let (mut c, a) = a_and_p(name);
        c.dequeue_task(CPU, a, Dequeue::SAVE | Dequeue::MOVE, Ns(0), &mut ());
        assert_eq!(vlag(&c, a), 1_000_000);
        c.set_nice(a, 5, &mut ());
        assert_eq!(vlag(&c, a), 3_056_716);
        c.enqueue_task(CPU, a, Enqueue::RESTORE | Enqueue::MOVE, Ns(0), &mut ());
        assert_eq!((v(&c, a), d(&c, a)), (v_ns, d_ns), "{name}");
    }
}

#[test]
fn off_the_queue() {
    for (nice, want) in [(5, 1_834_029), (-5, 196_859)] {
        let mut c = class("6.12-stable");
        let t = off(
            &mut c,
            At {
                vlag: 600_000,
                ..at(0, 0)
            },
        );
        c.set_nice(t, nice, &mut ());
        assert_eq!(vlag(&c, t), want);
    }
}

/// Only the running entity's own change charges it up to 6.6; later every change on the queue does.
#[test]
fn who_is_charged_before() {
    for (name, charged) in [
        ("6.1", false),
        ("6.6", false),
        ("6.8", true),
        ("6.13", true),
    ] {
        let mut c = class(name);
        let r = running(&mut c, at(0, ms(9.0)));
        let other = queued(&mut c, at(0, ms(9.0)));
        c.reweight_group(other.entity(), NICE_5, Ns(ms(1.0)), &mut ());
        assert_eq!(v(&c, r) > 0, charged, "{name}");
        c.reweight_group(r.entity(), NICE_5, Ns(ms(1.0)), &mut ());
        assert_eq!(c.entity(r.entity()).sum_exec_runtime, ms(1.0), "{name}");
    }
}

/// A running group entity's remaining protection is scaled from 7.0 on.
#[test]
fn protection_is_scaled_in_7_0() {
    for (name, scaled) in [("6.17", false), ("6.19", false), ("7.0", true)] {
        let mut c = class(name);
        let a = queued(&mut c, at(0, ms(2.8)));
        queued(&mut c, at(0, ms(9.0)));
        c.pick_next_task(CPU, None, Ns(0), &mut ());
        c.update_curr_task(CPU, Ns(ms(0.8)), &mut ());
        let left = |c: &Class| {
            let e = c.entity(a.entity());
            e.vprot.minus(e.vruntime)
        };
        let before = left(&c);
        assert_eq!(before, ms(2.0) as i64);
        c.reweight_group(a.entity(), Weight(512 << 10), Ns(ms(0.8)), &mut ());
        assert_eq!(left(&c) == 2 * before, scaled, "{name}: {}", left(&c));
    }
}

#[test]
fn after_a_nice_change() {
    use schedlab_fair::Resched;
    let mut c = class("6.12-stable");
    let a = running(&mut c, at(0, ms(9.0)));
    c.set_nr_other(CPU, 1);
    c.prio_changed(CPU, a, true, Ns(0), &mut ());
    assert_eq!(
        c.resched(CPU),
        Resched::None,
        "alone in the root queue, whatever other classes have"
    );
    let b = queued(&mut c, at(0, ms(20.0)));
    c.prio_changed(CPU, a, false, Ns(0), &mut ());
    assert_eq!(c.resched(CPU), Resched::None, "raised");
    c.prio_changed(CPU, a, true, Ns(0), &mut ());
    assert_eq!(c.resched(CPU), Resched::Full);
    c.clear_resched(CPU);
    c.prio_changed(CPU, b, false, Ns(0), &mut ());
    assert_eq!(
        c.resched(CPU),
        Resched::None,
        "the later deadline loses the check"
    );
    let early = queued(&mut c, at(0, ms(1.0)));
    c.prio_changed(CPU, early, false, Ns(0), &mut ());
    assert_eq!(c.resched(CPU), Resched::Full);
}
