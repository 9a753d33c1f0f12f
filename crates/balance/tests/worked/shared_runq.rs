//! Section 13: SHARED_RUNQ.

use schedlab_balance::{NewidleExit, PullRule, SHARED_RUNQ_SHARD_SZ, SharedRunq};

const TO_PATCH_2: PullRule = PullRule::Overload { flag: false };
const FULL: PullRule = PullRule::Overload { flag: true };
const ALL: [PullRule; 5] = [
    PullRule::Plain,
    PullRule::AvgIdleFirst,
    TO_PATCH_2,
    FULL,
    PullRule::V4,
];

/// Lists of an LLC of 16 CPUs as one shard, with task 7 queued to CPU 2, and the shard's flag as given.
fn one_task(rule: PullRule, flag: bool) -> SharedRunq<u32> {
    let mut lists = SharedRunq::new(16, 16, rule);
    lists.push(2, 7);
    if flag {
        lists.overloaded(2);
    }
    lists
}

/// What a CPU running out of tasks comes to: the task, the shard locks taken, and why its balance ends if it pulled nothing.
fn newidle(
    rule: PullRule,
    overloaded: bool,
    flag: bool,
    avg_idle: u64,
) -> (Option<u32>, u32, Option<NewidleExit>) {
    let cost = Some(200_000);
    let mut lists = one_task(rule, flag);
    let tries = rule.tries(false, overloaded, avg_idle, cost);
    let (task, locks) = if tries {
        lists.pick(4, |_| true)
    } else {
        (None, 0)
    };
    let end = match task {
        Some(_) => None,
        None => rule.after(tries, false, overloaded, avg_idle, cost),
    };
    (task, locks, end)
}

#[test]
fn the_decision_example() {
    let pull = (Some(7), 1, None);
    let idle = (None, 0, Some(NewidleExit::TooShort));
    let calm = (None, 0, Some(NewidleExit::NotOverloaded));
    // Rows of 13.5: root domain overloaded, shard flag; then one result a rule, in the order of `ALL`. avg_idle is 100 us against 200 us.
    for (overloaded, flag, want) in [
        (true, true, [pull, idle, pull, pull, pull]),
        (true, false, [pull, idle, pull, idle, pull]),
        (false, false, [pull, calm, calm, calm, calm]),
    ] {
        for (rule, want) in ALL.into_iter().zip(want) {
            let got = newidle(rule, overloaded, flag, 100_000);
            assert_eq!(got, want, "{rule:?}, root {overloaded}, shard {flag}");
        }
    }
    // With 400 us the test of avg_idle passes, and that rule behaves as version 3 does.
    for (overloaded, flag) in [(true, true), (true, false), (false, false)] {
        let got = newidle(PullRule::AvgIdleFirst, overloaded, flag, 400_000);
        assert_eq!(got, pull, "root {overloaded}, shard {flag}");
    }
}

#[test]
fn the_flow_before_and_behind_a_pull() {
    use NewidleExit::{NotOverloaded, TooShort, WakeupPending};
    for rule in ALL {
        assert!(!rule.tries(true, true, 9, Some(1)), "{rule:?}: pending");
        let last = rule.after(true, false, true, 9, Some(1));
        assert_eq!(last, None, "{rule:?}: on to the domains");
        let calm = rule.after(true, false, false, 9, Some(1));
        assert_eq!(calm, Some(NotOverloaded), "{rule:?}");
        let short = rule.after(true, false, true, 1, Some(2));
        assert_eq!(short, Some(TooShort), "{rule:?}");
    }
    // (rule, a wakeup that came during a failed pull ends it, LLC domains are left out, a lost race restarts the pick)
    for (rule, pending, skips, retries) in [
        (PullRule::Plain, None, false, true),
        (PullRule::AvgIdleFirst, None, false, true),
        (TO_PATCH_2, Some(WakeupPending), true, true),
        (FULL, Some(WakeupPending), true, true),
        (PullRule::V4, Some(WakeupPending), true, false),
    ] {
        assert_eq!(rule.after(true, true, true, 9, Some(1)), pending);
        assert_eq!(rule.skips_llc(), skips, "{rule:?}");
        assert_eq!(rule.retries_after_a_lost_race(), retries, "{rule:?}");
    }
    assert!(!PullRule::AvgIdleFirst.tries(false, true, 9, None));
    assert!(PullRule::AvgIdleFirst.tries(false, false, 9, Some(9)));
}

#[test]
fn who_is_listed() {
    for rule in ALL {
        assert!(!rule.lists(3, 1), "{rule:?}: bound to one CPU");
        assert!(rule.lists(1, 2), "{rule:?}");
        assert_eq!(rule.lists(0, 2), rule != PullRule::V4, "{rule:?}");
    }
}

#[test]
fn shards_of_a_cache() {
    let lists = SharedRunq::<u32>::new(16, SHARED_RUNQ_SHARD_SZ, PullRule::Plain);
    assert_eq!(lists.num_shards(), 3);
    let of: Vec<u32> = (0..8).map(|cpu| lists.shard_of(cpu)).collect();
    assert_eq!(of, [0, 0, 1, 1, 2, 2, 0, 0]);
    let one = SharedRunq::<u32>::new(16, 16, PullRule::Plain);
    assert!((0..16).all(|cpu| one.shard_of(cpu) == 0));
    assert_eq!(SharedRunq::<u32>::new(0, 0, PullRule::V4).num_shards(), 1);
}

#[test]
fn a_cpu_begins_at_its_own_shard() {
    let mut lists = SharedRunq::new(16, 6, PullRule::Plain);
    // CPU 7 has shard 0; then come 1 and 2.
    for (cpu, task) in [(4, 24), (2, 12), (0, 1), (1, 2)] {
        lists.push(cpu, task);
    }
    assert_eq!(lists.pick(7, |_| true), (Some(1), 1), "first in, first out");
    // A head that may not go blocks its shard, whatever is behind it, and costs the lock.
    assert_eq!(lists.pick(7, |t| t != 2), (Some(12), 2));
    assert!(lists.remove(0, 2) && !lists.remove(0, 2));
    assert_eq!(lists.pick(7, |_| true), (Some(24), 1), "empty: no lock");
    assert_eq!(lists.pick(7, |_| true), (None, 0));
    // CPU 5 has shard 2; then come 0 and 1.
    for (cpu, task) in [(2, 12), (0, 1), (4, 24)] {
        lists.push(cpu, task);
    }
    let order: Vec<_> = (0..3).map(|_| lists.pick(5, |_| true).0).collect();
    assert_eq!(order, [Some(24), Some(1), Some(12)]);
    lists.push(3, 5);
    lists.drain();
    assert_eq!(lists.pick(3, |_| true), (None, 0));
}

#[test]
fn a_flag_that_is_gone_returns_with_the_next_second_task_only() {
    let mut lists = SharedRunq::new(16, 16, FULL);
    lists.push(0, 1);
    lists.overloaded(0);
    // Refused: the flag stays, so the next CPU looks again.
    assert_eq!(lists.pick(2, |_| false), (None, 1));
    assert_eq!(lists.pick(2, |_| true), (Some(1), 1));
    // Empty: the next look takes the flag back.
    assert_eq!(lists.pick(3, |_| true), (None, 0));
    // CPU 0 has stayed at two tasks and puts a preempted one back: nobody sees it.
    lists.push(0, 2);
    assert_eq!(lists.pick(3, |_| true), (None, 0));
    lists.overloaded(0);
    assert_eq!(lists.pick(3, |_| true), (Some(2), 1));
    // The same without the flag.
    let mut plain = SharedRunq::new(16, 16, TO_PATCH_2);
    assert_eq!(plain.pick(3, |_| true), (None, 0));
    plain.push(0, 2);
    assert_eq!(plain.pick(3, |_| true), (Some(2), 1));
}
