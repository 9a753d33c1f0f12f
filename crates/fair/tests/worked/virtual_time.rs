//! Section 2: V and eligibility.

use crate::stage::*;
use schedlab_fair::Vns;

#[test]
fn the_first_example() {
    let mut c = class("6.12-stable");
    let q = root(&c);
    c.set_anchor(q, Vns(10_000_000));
    let a = queued(&mut c, at(ms(10.0), ms(20.0)));
    let b = queued(&mut c, at(ms(13.0), ms(20.0)));
    let third = queued(
        &mut c,
        At {
            nice: 5,
            ..at(ms(12.0), ms(20.0))
        },
    );
    assert_eq!(c.queue(q).sum_w_vruntime, 3_742_000_000);
    assert_eq!(c.queue(q).sum_weight, 2383);
    assert_eq!(c.v(q), Vns(11_570_289));
    let eligible = [a, b, third].map(|t| c.entity_eligible(t.entity()));
    assert_eq!(eligible, [true, false, false]);
}

#[test]
fn v_is_floored() {
    let mut c = class("6.12-stable");
    let q = root(&c);
    c.set_anchor(q, Vns(1000));
    queued(&mut c, at(1000, 9000));
    queued(&mut c, at(1003, 9000));
    assert_eq!(c.v(q), Vns(1001));
    c.set_anchor(q, Vns(1000));
    // The same with the second one below the anchor.
    let mut c = class("6.12-stable");
    let q = root(&c);
    c.set_anchor(q, Vns(1000));
    queued(&mut c, at(1000, 9000));
    queued(&mut c, at(997, 9000));
    assert_eq!(c.queue(q).sum_w_vruntime, -3072);
    assert_eq!(c.v(q), Vns(998));
    assert!(c.vruntime_eligible(q, Vns(998)));
    assert!(!c.vruntime_eligible(q, Vns(999)));
}

#[test]
fn a_single_entity_is_eligible_and_a_blocking_one_does_not_count() {
    let mut c = class("6.12-stable");
    let q = root(&c);
    let t = running(&mut c, at(5, 9000));
    assert_eq!(c.v(q), Vns(5));
    assert!(c.entity_eligible(t.entity()));

    let mut c = class("6.12-stable");
    let q = root(&c);
    c.set_anchor(q, Vns(0));
    queued(&mut c, at(10, 9000));
    let blocking = off(&mut c, at(20, 9000));
    c.set_blocking_curr(blocking.entity());
    assert_eq!(c.v(q), Vns(10));
}

#[test]
fn the_running_entity_moves_v_by_its_part() {
    let mut c = class("6.12-stable");
    let q = root(&c);
    c.set_anchor(q, Vns(0));
    running(&mut c, at(0, ms(20.0)));
    queued(&mut c, at(0, ms(20.0)));
    queued(
        &mut c,
        At {
            nice: 5,
            ..at(0, ms(20.0))
        },
    );
    c.update_curr_task(CPU, schedlab_fair::Ns(2_383_000), &mut ());
    assert_eq!(c.v(q), Vns(1_024_000));
}
