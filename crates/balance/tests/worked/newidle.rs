//! Section 12.5: newidle balance and `avg_idle`.

use schedlab_balance::{
    DomainCost, DomainFlags, NewidleExit, NewidleStats, Rng, avg_idle_after, newidle_draw,
    newidle_exit, newidle_stops,
};
use schedlab_fair::{Feature, Profile};

#[test]
fn avg_idle_of_the_reference() {
    for (avg, idle, cap, want) in [
        (1_000_000, 200_000, 500_000, 900_000),
        (1_000_000, 10_000_000, 500_000, 1_000_000),
        (100, 93, 500_000, 100),
        (100, 92, 500_000, 99),
    ] {
        assert_eq!(avg_idle_after(avg, idle, cap), want, "{avg} {idle}");
    }
}

#[test]
fn early_exits_in_order() {
    for (pending, overloaded, avg, cost, want) in [
        (true, true, 9, Some(1), Some(NewidleExit::WakeupPending)),
        (false, false, 9, Some(1), Some(NewidleExit::NotOverloaded)),
        (false, true, 9, Some(10), Some(NewidleExit::TooShort)),
        (false, true, 10, Some(10), None),
        (false, true, 10, None, Some(NewidleExit::TooShort)),
    ] {
        assert_eq!(newidle_exit(pending, overloaded, avg, cost), want);
    }
    assert!(newidle_stops(100, 60, 41) && !newidle_stops(100, 60, 40));
}

#[test]
fn a_level_is_skipped_by_its_ratio() {
    let on = Profile::default().features;
    let flags = DomainFlags::BALANCE_NEWIDLE;
    // Weight 513: draws above it skip; a success counts (1024 + 256) / 513 = 2.
    for (draw, want) in [
        (0, Some(2)),
        (513, Some(2)),
        (514, None),
        (1023, None),
        (1024, Some(2)),
    ] {
        assert_eq!(newidle_draw(on, flags, 512, || draw), want, "draw {draw}");
    }
    let off = on.with(Feature::NiRandom, false);
    assert_eq!(newidle_draw(off, flags, 0, || panic!("no draw")), Some(1));
    assert_eq!(
        newidle_draw(on, DomainFlags::NUMA, 512, || panic!("no draw")),
        None
    );
}

#[test]
fn the_ratio_is_that_of_1024_calls() {
    let mut stats = NewidleStats::default();
    for _ in 0..511 {
        stats.count(1);
    }
    assert_eq!((stats.calls, stats.ratio), (1023, 512));
    stats.count(0);
    assert_eq!((stats.calls, stats.successes, stats.ratio), (512, 383, 767));
}

#[test]
fn costs_rise_at_once_and_decay_once_a_second() {
    let mut cost = DomainCost::default();
    assert!(!cost.note(25_600, 100, 250));
    assert!(!cost.note(0, 350, 250), "a second has not passed");
    assert!(cost.note(0, 351, 250));
    assert_eq!(cost.max, 25_300);
}

#[test]
fn the_generator_is_the_published_one() {
    // First numbers of lfsr113 from the state 12345, 12345, 12345, 12345, computed by the published recurrence.
    let mut rng = Rng([12345; 4]);
    let mut z = [12345u32; 4];
    for _ in 0..100 {
        let b = ((z[0] << 6) ^ z[0]) >> 13;
        z[0] = ((z[0] & 4_294_967_294) << 18) ^ b;
        let b = ((z[1] << 2) ^ z[1]) >> 27;
        z[1] = ((z[1] & 4_294_967_288) << 2) ^ b;
        let b = ((z[2] << 13) ^ z[2]) >> 21;
        z[2] = ((z[2] & 4_294_967_280) << 7) ^ b;
        let b = ((z[3] << 3) ^ z[3]) >> 12;
        z[3] = ((z[3] & 4_294_967_168) << 13) ^ b;
        assert_eq!(rng.draw(), z[0] ^ z[1] ^ z[2] ^ z[3]);
    }
}
