//! Sections 12.6 to 12.10: periodic balance.

use schedlab_balance::{
    Balance, BalanceInput, BusiestChoice, BusiestQueue, Candidate, CpuSet, Detach, DomainFlags,
    Domains, Group, GroupStats, GroupType, Hotness, Idle, Migration, Movable, Outcome, Reason,
    active_balance, after_balance, balance_interval, cache_hot, can_migrate, capacity_fits,
    fits_imbalance, max_interval_jiffies, should_balance,
};
use schedlab_fair::{Feature, Profile};

use crate::machine::machine;

fn group(nr: u32, weight: u32, util: u64, runnable: u64) -> GroupStats {
    GroupStats {
        nr_running: nr,
        h_nr_running: nr,
        weight,
        capacity: 1024 * u64::from(weight),
        util,
        runnable,
        idle_cpus: weight.saturating_sub(nr),
        ..GroupStats::default()
    }
}

#[test]
fn group_types() {
    use GroupType::{FullyBusy, HasSpare, Imbalanced, Overloaded, SmtBalance};
    for (nr, util, runnable, imbalanced, smt, want) in [
        (3, 9999, 9999, false, false, HasSpare),
        (4, 3500, 4096, false, false, HasSpare),
        (4, 3501, 4096, false, false, FullyBusy),
        (4, 0, 4793, false, false, FullyBusy),
        (5, 3501, 4096, false, false, Overloaded),
        (5, 3500, 4096, false, false, HasSpare),
        (5, 0, 4793, false, false, Overloaded),
        (5, 3501, 0, true, true, Overloaded),
        (1, 0, 0, true, true, Imbalanced),
        (2, 0, 0, false, true, SmtBalance),
    ] {
        let s = group(nr, 4, util, runnable);
        assert_eq!(
            s.classify(117, imbalanced, smt),
            want,
            "{nr} tasks, {util}, {runnable}"
        );
    }
    assert!(capacity_fits(819, 1024) && !capacity_fits(820, 1024));
}

#[test]
fn the_busiest_group() {
    let core = |smt: bool| {
        let flags = if smt {
            DomainFlags::SHARE_CPUCAPACITY
        } else {
            DomainFlags::default()
        };
        Group::new(CpuSet::all(2), flags, 1)
    };
    let (plain, smt) = (core(false), core(true));
    let kind = |kind, nr, idle_cpus, avg_load| GroupStats {
        kind,
        h_nr_running: nr,
        nr_running: nr,
        idle_cpus,
        avg_load,
        ..GroupStats::default()
    };
    use GroupType::{FullyBusy, HasSpare, Overloaded};
    // First and second group offered; whether the second is taken.
    for (a, ga, b, gb, second) in [
        (
            kind(HasSpare, 1, 1, 0),
            &plain,
            kind(FullyBusy, 1, 0, 0),
            &plain,
            true,
        ),
        (
            kind(Overloaded, 3, 0, 900),
            &plain,
            kind(Overloaded, 3, 0, 901),
            &plain,
            true,
        ),
        (
            kind(Overloaded, 3, 0, 900),
            &plain,
            kind(Overloaded, 3, 0, 900),
            &plain,
            false,
        ),
        (
            kind(HasSpare, 1, 1, 0),
            &plain,
            kind(HasSpare, 2, 1, 0),
            &plain,
            true,
        ),
        (
            kind(HasSpare, 2, 0, 0),
            &plain,
            kind(HasSpare, 3, 1, 0),
            &plain,
            false,
        ),
        (
            kind(HasSpare, 2, 0, 0),
            &plain,
            kind(HasSpare, 0, 0, 0),
            &plain,
            false,
        ),
        (
            kind(HasSpare, 1, 1, 0),
            &plain,
            kind(HasSpare, 1, 0, 0),
            &smt,
            false,
        ),
        (
            kind(HasSpare, 1, 1, 0),
            &plain,
            kind(HasSpare, 2, 1, 0),
            &smt,
            true,
        ),
        (
            kind(FullyBusy, 2, 0, 0),
            &plain,
            kind(FullyBusy, 2, 0, 0),
            &plain,
            true,
        ),
        (
            kind(FullyBusy, 2, 0, 0),
            &smt,
            kind(FullyBusy, 2, 0, 0),
            &smt,
            false,
        ),
    ] {
        let mut choice = BusiestChoice::new();
        choice.offer(ga, a);
        choice.offer(gb, b);
        assert_eq!(
            choice.best.map(|(_, s)| s),
            Some(if second { b } else { a }),
            "{a:?} {b:?}"
        );
    }
    let mut empty = BusiestChoice::new();
    empty.offer(&plain, kind(HasSpare, 0, 2, 0));
    assert!(empty.best.is_none());
}

fn input(idle: Idle, local: GroupStats, busiest: GroupStats) -> BalanceInput {
    BalanceInput {
        idle,
        local,
        local_cores: local.weight,
        busiest: Some(busiest),
        busiest_cores: busiest.weight,
        smt_differs: false,
        total_load: local.load + busiest.load,
        total_capacity: local.capacity + busiest.capacity,
        prefer_sibling: false,
    }
}

fn loaded(nr: u32, weight: u32, load: u64) -> GroupStats {
    let mut s = group(nr, weight, 1024 * u64::from(weight), 0);
    s.load = load;
    s.kind = s.classify(117, false, false);
    if s.kind == GroupType::Overloaded {
        s.avg_load = s.average();
    }
    s
}

fn of(domains: &Domains, level: u32) -> &schedlab_balance::Domain {
    domains.domain(domains.at_level(0, level).expect("level").domain)
}

#[test]
fn imbalance_by_tasks() {
    let domains = machine(2, 4, 1);
    let (llc, numa) = (of(&domains, 2), of(&domains, 5));
    let task = |imbalance| {
        Some(Balance {
            migration: Migration::Task,
            imbalance,
        })
    };
    let spare = |nr, weight| group(nr, weight, 0, 0);
    // A single CPU with three tasks beside an idle one: half the difference.
    let mut busy = spare(3, 1);
    (busy.kind, busy.idle_cpus) = (GroupType::FullyBusy, 0);
    let case = input(Idle::Idle, spare(0, 1), busy);
    assert_eq!(case.decide(llc).balance, task(1));
    let case = input(Idle::Busy, spare(1, 1), busy);
    assert_eq!(case.decide(llc).reason, Reason::NotIdle);
    busy.nr_running = 1;
    busy.h_nr_running = 1;
    assert_eq!(
        input(Idle::Idle, spare(0, 1), busy).decide(llc).reason,
        Reason::OneTask
    );
    // Nodes: idle CPUs, halved; an imbalance that NUMA allows is none.
    let four = |nr, idle_cpus| GroupStats {
        idle_cpus,
        ..spare(nr, 4)
    };
    assert_eq!(
        input(Idle::Idle, four(2, 2), four(4, 0))
            .decide(numa)
            .balance,
        task(1)
    );
    assert_eq!(
        input(Idle::Idle, four(0, 4), four(2, 2))
            .decide(numa)
            .reason,
        Reason::Nothing
    );
    assert_eq!(
        input(Idle::Idle, four(1, 3), four(4, 0))
            .decide(numa)
            .balance,
        task(1)
    );
    assert_eq!(
        input(Idle::Idle, four(2, 2), four(3, 1))
            .decide(numa)
            .reason,
        Reason::IdleEven
    );
    // PREFER_SIBLING: tasks a core.
    let mut sibling = input(Idle::NewlyIdle, spare(0, 2), four(2, 0));
    (
        sibling.prefer_sibling,
        sibling.local_cores,
        sibling.busiest_cores,
    ) = (true, 1, 1);
    assert_eq!(sibling.decide(llc).balance, task(1));
    // Unequal cores: one idle core against two cores with three tasks: (2·3 + 3) / 3 = 3, halved.
    let mut uneven = input(Idle::Idle, spare(0, 1), four(3, 1));
    (
        uneven.prefer_sibling,
        uneven.local_cores,
        uneven.busiest_cores,
    ) = (true, 1, 2);
    assert_eq!(uneven.decide(llc).balance, task(1));
    let flagged = |kind| {
        let mut b = spare(2, 2);
        b.kind = kind;
        input(Idle::Busy, spare(1, 2), b).decide(llc).balance
    };
    assert_eq!(flagged(GroupType::Imbalanced), task(1));
    assert_eq!(flagged(GroupType::AsymPacking), task(2));
}

#[test]
fn imbalance_by_utilization_across_caches_only() {
    let domains = machine(2, 4, 1);
    let mut local = group(2, 4, 1000, 0);
    local.kind = GroupType::HasSpare;
    let busiest = loaded(8, 4, 8192);
    let found = input(Idle::Idle, local, busiest)
        .decide(of(&domains, 5))
        .balance;
    let room = Balance {
        migration: Migration::Util,
        imbalance: 3096,
    };
    assert_eq!(found, Some(room));
    local.util = 5000;
    let full = input(Idle::Idle, local, busiest).decide(of(&domains, 5));
    assert_eq!(full.reason, Reason::Unit);
    let within = input(Idle::Idle, local, busiest).decide(of(&domains, 2));
    assert_eq!(within.balance.map(|b| b.migration), Some(Migration::Task));
}

#[test]
fn imbalance_by_load_is_unsigned() {
    let domains = machine(2, 4, 1);
    let numa = of(&domains, 5);
    // Averages 512 and 2048, mean 1280: (2048 − 1280)·4096 and (1280 − 512)·4096 are equal.
    let even = input(Idle::Busy, loaded(5, 4, 2048), loaded(12, 4, 8192)).decide(numa);
    let load = |imbalance| {
        Some(Balance {
            migration: Migration::Load,
            imbalance,
        })
    };
    assert_eq!(even.balance, load(3072));
    // A third group lifts the mean above the busiest: the first term wraps, the local one is taken.
    let mut odd = input(Idle::Busy, loaded(5, 4, 2048), loaded(8, 4, 4096));
    odd.total_load = 16384;
    odd.total_capacity = 8192;
    assert_eq!(odd.decide(numa).balance, load((2048 - 512) * 4));
    let within = input(Idle::Busy, loaded(8, 4, 4096), loaded(9, 4, 4700)).decide(numa);
    assert_eq!(within.reason, Reason::WithinPct);
    let beyond = input(Idle::Busy, loaded(8, 4, 4096), loaded(9, 4, 4900)).decide(numa);
    assert_eq!(beyond.reason, Reason::Load);
    let mut busy = loaded(4, 4, 4096);
    busy.kind = GroupType::FullyBusy;
    let above = input(Idle::Busy, busy, loaded(6, 4, 4000)).decide(numa);
    assert_eq!(above.reason, Reason::LocalAboveMean);
}

#[test]
fn the_busiest_queue() {
    let queue = |cpu, n, load, util| Candidate {
        cpu,
        h_nr_running: n,
        load,
        util,
        capacity: 1024,
    };
    let list = [
        queue(0, 1, 3000, 900),
        queue(1, 3, 2000, 500),
        queue(2, 3, 2500, 700),
        queue(3, 0, 9000, 9000),
    ];
    for (migration, imbalance, want) in [
        (Migration::Task, 1, Some(1)),
        (Migration::Load, 4000, Some(0)),
        (Migration::Load, 2000, Some(2)),
        (Migration::Util, 100, Some(2)),
    ] {
        let mut busiest = BusiestQueue::new(migration, imbalance);
        list.into_iter().for_each(|q| busiest.offer(q));
        assert_eq!(busiest.cpu(), want, "{migration:?} {imbalance}");
    }
}

#[test]
fn which_tasks_move() {
    let domains = machine(1, 4, 2);
    let (smt, llc) = (of(&domains, 0), of(&domains, 2));
    let on = Profile::default().features;
    let warm = Hotness {
        idle_policy: false,
        buddy: false,
        dst_running: 1,
        cookie_differs: false,
        since: 499_999,
    };
    let hot = |h: Hotness, cost| cache_hot(on, llc, &h, cost);
    assert!(hot(warm, 500_000));
    assert!(!hot(
        Hotness {
            since: 500_000,
            ..warm
        },
        500_000
    ));
    assert!(!hot(
        Hotness {
            idle_policy: true,
            ..warm
        },
        500_000
    ));
    assert!(!hot(warm, 0));
    let cold = Hotness {
        since: 1 << 40,
        ..warm
    };
    assert!(hot(cold, -1));
    assert!(hot(
        Hotness {
            buddy: true,
            ..cold
        },
        500_000
    ));
    assert!(!hot(
        Hotness {
            buddy: true,
            dst_running: 0,
            ..cold
        },
        500_000
    ));
    let off = on.with(Feature::CacheHotBuddy, false);
    assert!(!cache_hot(
        off,
        llc,
        &Hotness {
            buddy: true,
            ..cold
        },
        500_000
    ));
    assert!(
        !cache_hot(on, smt, &warm, 500_000),
        "siblings share the cache"
    );

    let free = Movable {
        per_cpu_kthread: false,
        allowed: true,
        running: false,
        hot: false,
        active: false,
    };
    for (task, failed, want) in [
        (free, 0, true),
        (
            Movable {
                allowed: false,
                ..free
            },
            9,
            false,
        ),
        (
            Movable {
                running: true,
                ..free
            },
            9,
            false,
        ),
        (
            Movable {
                per_cpu_kthread: true,
                ..free
            },
            9,
            false,
        ),
        (Movable { hot: true, ..free }, 1, false),
        (Movable { hot: true, ..free }, 2, true),
        (
            Movable {
                hot: true,
                active: true,
                ..free
            },
            0,
            true,
        ),
    ] {
        assert_eq!(
            can_migrate(&task, llc, failed),
            want,
            "{task:?}, {failed} failed"
        );
    }
    assert!(fits_imbalance(100, 0, 100) && !fits_imbalance(101, 0, 100));
    assert!(fits_imbalance(200, 1, 100) && fits_imbalance(u64::MAX, 64, 0));
    assert!(!active_balance(llc, Migration::Task, 3) && active_balance(llc, Migration::Task, 4));
    assert!(!active_balance(llc, Migration::Load, 99));
}

#[test]
fn how_many_tasks_move() {
    let start = Detach {
        migration: Migration::Task,
        imbalance: 2,
        idle: Idle::Busy,
        preemptible: true,
        src_running: 4,
        looked: 0,
        loop_max: 4,
        taken: 0,
    };
    let run = |mut d: Detach, amounts: &[u64], failed| {
        let mut amounts = amounts.iter();
        while d.goes_on() {
            let Some(&a) = amounts.next() else { break };
            d.look(true, a, failed);
        }
        d.taken
    };
    assert_eq!(run(start, &[0; 9], 0), 2);
    assert_eq!(
        run(
            Detach {
                idle: Idle::NewlyIdle,
                ..start
            },
            &[0; 9],
            0
        ),
        1
    );
    let idle = Detach {
        idle: Idle::Idle,
        src_running: 2,
        ..start
    };
    assert_eq!(run(idle, &[0; 9], 0), 1, "an idle puller leaves the last");
    let load = Detach {
        migration: Migration::Load,
        imbalance: 1000,
        ..start
    };
    assert_eq!(
        run(load, &[600, 500, 400, 1], 0),
        2,
        "600, not 500, 400: nothing left"
    );
    assert_eq!(
        run(load, &[1500, 500], 1),
        1,
        "after a failure, twice as heavy"
    );
    let mut seen = Detach {
        loop_max: 2,
        ..start
    };
    seen.look(false, 0, 0);
    seen.look(false, 0, 0);
    assert!(!seen.goes_on());
}

#[test]
fn who_balances() {
    let domains = machine(1, 2, 2);
    let llc = of(&domains, 2);
    let all = CpuSet::all(4);
    // The group of CPUs 0 and 1 balances in the LLC's domain; its mask is both.
    for (busy, want) in [
        (vec![], 0),
        (vec![0], 1),
        (vec![1], 0),
        (vec![0, 1], 0),
        (vec![2, 3], 0),
    ] {
        for cpu in 0..2 {
            let idle = |c: u32| !busy.contains(&c);
            let ours = should_balance(&domains, llc, &llc.groups[0], &all, cpu, idle);
            assert_eq!(ours, cpu == want, "busy {busy:?}, CPU {cpu}");
        }
    }
    // With nodes of two cores: an idle core before an idle thread.
    let domains = machine(2, 2, 2);
    let numa = of(&domains, 5);
    let all = CpuSet::all(8);
    let idle = |c: u32| c != 0;
    assert!(should_balance(
        &domains,
        numa,
        &numa.groups[0],
        &all,
        2,
        idle
    ));
    assert!(!should_balance(
        &domains,
        numa,
        &numa.groups[0],
        &all,
        1,
        idle
    ));
}

#[test]
fn intervals() {
    let domains = machine(1, 8, 1);
    let llc = of(&domains, 2);
    assert_eq!(max_interval_jiffies(250, 8), 175);
    assert_eq!(max_interval_jiffies(250, 1), 25);
    for (ms, busy, want) in [
        (8, false, 2),
        (8, true, 31),
        (16, true, 63),
        (1, false, 1),
        (512, true, 175),
    ] {
        assert_eq!(
            balance_interval(llc, ms, busy, 250, 8),
            want,
            "{ms} ms, busy {busy}"
        );
    }
    for (idle, outcome, interval, failed, want) in [
        (Idle::Idle, Outcome::Moved, 16, 3, (8, 0)),
        (Idle::Busy, Outcome::Failed, 16, 3, (8, 4)),
        (Idle::NewlyIdle, Outcome::Failed, 16, 3, (8, 3)),
        (
            Idle::Idle,
            Outcome::Balanced { pinned: false },
            8,
            3,
            (16, 0),
        ),
        (
            Idle::Idle,
            Outcome::Balanced { pinned: false },
            16,
            0,
            (16, 0),
        ),
        (
            Idle::Idle,
            Outcome::Balanced { pinned: true },
            16,
            0,
            (32, 0),
        ),
        (
            Idle::Idle,
            Outcome::Balanced { pinned: true },
            512,
            0,
            (512, 0),
        ),
        (
            Idle::NewlyIdle,
            Outcome::Balanced { pinned: false },
            8,
            3,
            (8, 0),
        ),
    ] {
        assert_eq!(
            after_balance(llc, idle, outcome, interval, failed),
            want,
            "{outcome:?}"
        );
    }
}
