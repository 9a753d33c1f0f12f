//! Section 9: the yield rules.

use crate::stage::*;
use schedlab_fair::profile::YieldRule;
use schedlab_fair::{Class, Ns, TaskId, Vns};

/// A runs at 10 with deadline 13 beside B at 11 with 14 (ms), slices of 3 ms. V is 10.5.
fn a_and_b(rule: YieldRule) -> (Class, TaskId, TaskId) {
    let mut p = profile("6.12-stable");
    p.yield_rule = rule;
    let mut c = Class::new(p, 1, 1000);
    let q = root(&c);
    c.set_anchor(q, Vns(ms(10.0)));
    let three = |v: f64| At {
        slice: ms(3.0),
        ..at(ms(v), ms(v + 3.0))
    };
    let a = running(&mut c, three(10.0));
    let b = queued(&mut c, three(11.0));
    (c, a, b)
}

fn after(rule: YieldRule, yields: u32) -> (Class, TaskId, TaskId) {
    let (mut c, a, b) = a_and_b(rule);
    for _ in 0..yields {
        c.yield_task(CPU, Ns(0), &mut ());
    }
    (c, a, b)
}

#[test]
fn what_each_rule_does() {
    for (rule, yields, v_ms, d_ms) in [
        (YieldRule::DeadlinePush, 1, 10.0, 16.0),
        (YieldRule::DeadlinePush, 5, 10.0, 28.0),
        (YieldRule::DeadlineReset, 1, 10.0, 13.0),
        (YieldRule::DeadlineReset, 5, 10.0, 13.0),
        (YieldRule::Forfeit, 1, 13.0, 16.0),
        (YieldRule::Forfeit, 2, 16.0, 19.0),
        (YieldRule::ForfeitEligible, 1, 13.0, 16.0),
        (YieldRule::ForfeitEligible, 2, 13.0, 16.0),
        (YieldRule::ForfeitRenew, 1, 13.0, 16.0),
        (YieldRule::ForfeitRenew, 5, 13.0, 16.0),
    ] {
        let (c, a, _) = after(rule, yields);
        assert_eq!(
            (v(&c, a), d(&c, a)),
            (ms(v_ms), ms(d_ms)),
            "{rule} × {yields}"
        );
    }
}

#[test]
fn who_runs_then() {
    let (mut c, a, _) = after(YieldRule::DeadlinePush, 1);
    let next = c.pick_next_task(CPU, Some(a), Ns(0), &mut ());
    assert_eq!(next, Some(a), "the only eligible one");
    let (mut c, a, b) = after(YieldRule::ForfeitRenew, 1);
    assert_eq!(c.v(root(&c)).0, ms(12.0));
    assert_eq!(c.pick_next_task(CPU, Some(a), Ns(0), &mut ()), Some(b));
}

#[test]
fn the_kernels_rules() {
    for (name, rule) in [
        ("6.1", YieldRule::Skip),
        ("6.6", YieldRule::DeadlinePush),
        ("6.12.0", YieldRule::DeadlinePush),
        ("6.12-stable", YieldRule::ForfeitRenew),
        ("6.18", YieldRule::DeadlinePush),
        ("6.19", YieldRule::ForfeitEligible),
        ("7.0", YieldRule::ForfeitEligible),
    ] {
        assert_eq!(profile(name).yield_rule, rule, "{name}");
    }
}

#[test]
fn alone_nothing_changes() {
    for rule in YieldRule::ALL {
        let mut p = profile("6.12-stable");
        p.yield_rule = *rule;
        let mut c = Class::new(p, 1, 1000);
        let a = running(&mut c, at(ms(1.0), ms(2.0)));
        c.yield_task(CPU, Ns(ms(0.5)), &mut ());
        assert_eq!(
            (v(&c, a), d(&c, a)),
            (ms(1.0), ms(2.0)),
            "{rule}: not even charged"
        );
        // A task of another class is company.
        c.set_nr_other(CPU, 1);
        c.yield_task(CPU, Ns(ms(0.5)), &mut ());
        assert!(v(&c, a) > ms(1.0), "{rule}");
    }
}

#[test]
fn the_stable_rule_reads_the_default_slice_again() {
    let mut p = profile("6.12-stable");
    let mut c = Class::new(p, 1, 1000);
    let a = running(&mut c, at(0, ms(2.8)));
    queued(&mut c, at(ms(1.0), ms(3.8)));
    p.tunables.base_slice = Some(Ns(ms(1.0)));
    c.set_profile(p);
    c.yield_task(CPU, Ns(0), &mut ());
    assert_eq!((v(&c, a), d(&c, a)), (ms(2.8), ms(3.8)));
    p.yield_rule = YieldRule::ForfeitEligible;
    let mut c = Class::new(p, 1, 1000);
    let a = running(&mut c, at(0, ms(2.8)));
    queued(&mut c, at(ms(1.0), ms(3.8)));
    c.yield_task(CPU, Ns(0), &mut ());
    assert_eq!(
        (v(&c, a), d(&c, a)),
        (ms(2.8), ms(5.6)),
        "with the slice it had"
    );
}

#[test]
fn only_the_tasks_own_level_yields() {
    let mut c = class("6.12-stable");
    let g = group(&mut c, schedlab_fair::GroupId::ROOT);
    for _ in 0..2 {
        let t = c.add_task(schedlab_fair::TaskAttr {
            group: g,
            ..Default::default()
        });
        c.enqueue_task(CPU, t, schedlab_fair::Enqueue::INITIAL, Ns(0), &mut ());
    }
    let t = c.pick_next_task(CPU, None, Ns(0), &mut ()).unwrap();
    let ge = c.group(g).entities[0];
    let before = (c.entity(ge).vruntime, c.entity(ge).deadline);
    let was = v(&c, t);
    c.yield_task(CPU, Ns(0), &mut ());
    assert_ne!(v(&c, t), was);
    assert_eq!((c.entity(ge).vruntime, c.entity(ge).deadline), before);
}

#[test]
fn yield_to_needs_a_target_that_can_run() {
    let mut c = class("6.12-stable");
    let r = running(&mut c, at(0, ms(9.0)));
    let asleep = off(&mut c, at(0, 0));
    assert!(!c.yield_to_task(CPU, asleep, Ns(0), &mut ()));
    assert!(!c.yield_to_task(CPU, r, Ns(0), &mut ()), "it runs already");
    let delayed = queued(
        &mut c,
        At {
            delayed: true,
            ..at(0, 9)
        },
    );
    assert!(!c.yield_to_task(CPU, delayed, Ns(0), &mut ()));
    // An idle one may be named, but is not marked.
    let idle = c.add_task(schedlab_fair::TaskAttr {
        policy: schedlab_fair::TaskPolicy::Idle,
        ..Default::default()
    });
    c.enqueue_task(CPU, idle, schedlab_fair::Enqueue::WAKEUP, Ns(0), &mut ());
    assert!(c.yield_to_task(CPU, idle, Ns(0), &mut ()));
    assert_eq!(c.queue(root(&c)).next, None);
    let ready = queued(&mut c, at(0, ms(20.0)));
    assert!(c.yield_to_task(CPU, ready, Ns(0), &mut ()));
    c.yield_task(CPU, Ns(0), &mut ());
    assert_eq!(c.pick_next_task(CPU, Some(r), Ns(0), &mut ()), Some(ready));
}
