//! Core scheduling (reference section 16): who may share a core, and what it costs those who may not.

mod common;

use std::collections::BTreeMap;

use common::{add, forever, hog, machine, ns, play, run_us, switches, times};
use proptest::prelude::*;
use schedlab_fair::profile::YieldRule;
use schedlab_fair::{Ns, Profile, Weight};
use schedlab_sim::program::{Op, ProgramId, Sched};
use schedlab_sim::{GroupSpec, RunResult, SimConfig};
use schedlab_trace::event::{Event, EventKind};

/// Cores of two threads: CPUs 0 and 1 are the first. A base slice of 3 ms.
fn smt(cores: u32) -> SimConfig {
    let mut c = machine(cores * 2);
    for (cpu, site) in c.machine.cpus.iter_mut().enumerate() {
        site.core = cpu as u32 / 2;
        site.cluster = site.core;
    }
    c.core_sched = true;
    c.profile.tunables.base_slice = Some(Ns::from_ms(3));
    c
}

/// A task that stays on one CPU.
fn pin(c: &mut SimConfig, name: &str, cpu: u32, cookie: u64, ops: Vec<Op>) -> usize {
    let t = add(c, name, ops);
    c.tasks[t].affinity = vec![cpu];
    c.tasks[t].cookie = cookie;
    t
}

/// Time in which two CPUs ran tasks that `bad` says may not run together.
fn together(events: &[Event], (a, b): (u32, u32), end: Ns, bad: impl Fn(i32, i32) -> bool) -> u64 {
    let mut curr = BTreeMap::from([(a, 0), (b, 0)]);
    let (mut last, mut sum) = (0, 0);
    for e in events {
        let EventKind::SchedSwitch { next, .. } = &e.kind else {
            continue;
        };
        let Some(slot) = curr.get(&e.cpu).copied() else {
            continue;
        };
        let other = curr[&if e.cpu == a { b } else { a }];
        if slot != 0 && other != 0 && bad(slot, other) {
            sum += e.ts - last;
        }
        last = e.ts;
        curr.insert(e.cpu, next.pid);
    }
    if curr[&a] != 0 && curr[&b] != 0 && bad(curr[&a], curr[&b]) {
        sum += end.0 - last;
    }
    sum
}

fn run_of(r: &RunResult, name: &str) -> u64 {
    r.tasks
        .iter()
        .filter(|t| t.comm == name)
        .map(|t| t.run.0)
        .sum()
}

const MS: u64 = 1_000_000;

#[test]
fn two_cookies_take_turns() {
    let mut c = smt(1);
    pin(&mut c, "A", 0, 1, hog());
    pin(&mut c, "B", 1, 2, hog());
    let (r, events) = play(c);
    assert_eq!(together(&events, (0, 1), r.end, |_, _| true), 0);
    // Both arrive at 0, and the CPU that picks last wins a tie. The tick ends a turn once twice its length exceeds the
    // slice, at 2 ms of 3; no other rule would. At 4 ms the two have run equally long: another tie, for the CPU that picks.
    assert_eq!(
        switches(&events, 8),
        "0:A 0:B 2:A 5:B 7:A 9:B 11:A 13:B",
        "{:?}",
        r.core
    );
    assert!(r.core.ticks >= 49, "{:?}", r.core);
    assert!(run_of(&r, "A").abs_diff(50 * MS) <= 2 * MS);
    assert_eq!(run_of(&r, "A") + run_of(&r, "B"), r.end.0);
    // One of the two always waits.
    assert_eq!(r.forced_idle(), r.end);
    for (cpu, name) in r.cpus.iter().zip(["A", "B"]) {
        assert_eq!(cpu.forced_idle, r.end.0 - run_of(&r, name));
        assert_eq!(cpu.idle, cpu.forced_idle);
        assert_eq!(cpu.total(), r.end.0);
    }
}

#[test]
fn time_alone_is_not_held_against_a_task() {
    let mut c = smt(1);
    c.duration = Some(Ns::from_ms(200));
    let ops = vec![run_us(1_000), Op::Sleep(ns(100_000)), run_us(1_000_000)];
    pin(&mut c, "A", 0, 1, ops);
    pin(&mut c, "B", 1, 2, hog());
    let (r, _) = play(c);
    // B ran alone for 100 ms, which its own queue's clock followed: from then on both have half.
    assert!(run_of(&r, "A").abs_diff(50 * MS) <= 3 * MS, "{:?}", r.tasks);
    assert!(run_of(&r, "B").abs_diff(150 * MS) <= 3 * MS);
    // None was forced to idle meanwhile.
    assert!(r.forced_idle().0.abs_diff(100 * MS) <= 3 * MS);
}

#[test]
fn one_cookie_shares_the_core() {
    let mut c = smt(1);
    pin(&mut c, "A", 0, 7, hog());
    pin(&mut c, "B", 1, 7, hog());
    let (r, _) = play(c);
    assert_eq!(
        (run_of(&r, "A"), run_of(&r, "B")),
        (r.end.0, r.end.0),
        "{:?}",
        r.core
    );
    assert_eq!(r.forced_idle(), Ns(0));
}

#[test]
fn a_cookie_and_none_do_not_share() {
    let mut c = smt(1);
    pin(&mut c, "A", 0, 1, hog());
    pin(&mut c, "B", 1, 0, hog());
    let (r, events) = play(c);
    assert_eq!(together(&events, (0, 1), r.end, |_, _| true), 0);
    assert_eq!(run_of(&r, "A") + run_of(&r, "B"), r.end.0);
    assert!(run_of(&r, "A") > 45 * MS && run_of(&r, "B") > 45 * MS);
}

/// Three tasks on CPU 0 and two on CPU 1, all without a cookie, sleeping and yielding now and then.
fn without_cookies(core_sched: bool) -> (RunResult, Vec<Event>) {
    let mut c = smt(1);
    c.core_sched = core_sched;
    pin(&mut c, "A", 0, 0, hog());
    pin(
        &mut c,
        "B",
        0,
        0,
        vec![forever(vec![run_us(700), Op::Yield])],
    );
    pin(
        &mut c,
        "C",
        1,
        0,
        vec![forever(vec![run_us(300), Op::Sleep(ns(1500))])],
    );
    pin(&mut c, "D", 1, 0, hog());
    let t = pin(
        &mut c,
        "R",
        1,
        0,
        vec![forever(vec![run_us(200), Op::Sleep(ns(4100))])],
    );
    c.tasks[t].sched = Sched::Rr { rt_priority: 5 };
    play(c)
}

#[test]
fn tasks_without_cookies_see_no_difference() {
    let (on, off) = (without_cookies(true), without_cookies(false));
    assert_eq!(on, off);
    assert_eq!(on.0.core.core_picks, 0);
}

#[test]
fn other_cores_see_no_difference() {
    let mut c = smt(2);
    pin(&mut c, "A", 0, 1, hog());
    pin(&mut c, "B", 1, 2, hog());
    pin(&mut c, "C", 2, 0, hog());
    pin(&mut c, "D", 3, 0, hog());
    let (r, _) = play(c);
    assert_eq!(run_of(&r, "C"), r.end.0);
    assert_eq!(run_of(&r, "D"), r.end.0);
    assert_eq!(r.cpus[2].forced_idle + r.cpus[3].forced_idle, 0);
    assert_eq!(r.forced_idle(), r.end);
}

#[test]
fn cookies_mean_nothing_without_core_scheduling() {
    let mut c = smt(1);
    c.core_sched = false;
    pin(&mut c, "A", 0, 1, hog());
    pin(&mut c, "B", 1, 2, hog());
    let (r, _) = play(c);
    assert_eq!(run_of(&r, "A") + run_of(&r, "B"), 2 * r.end.0);
    assert_eq!(r.core, schedlab_sim::CoreStats::default());
}

#[test]
fn the_higher_class_decides() {
    let mut c = smt(1);
    let t = pin(&mut c, "R", 0, 1, vec![run_us(10_000)]);
    c.tasks[t].sched = Sched::Fifo { rt_priority: 1 };
    pin(&mut c, "B", 1, 2, hog());
    let (r, events) = play(c);
    assert_eq!(switches(&events, 2), "0:R 10:B");
    assert_eq!(r.cpus[1].forced_idle, 10 * MS);
    // CPU 0 has nothing to do afterwards: plain idle.
    assert_eq!((r.cpus[0].idle, r.cpus[0].forced_idle), (90 * MS, 0));
}

#[test]
fn cookie_order_passes_over_eligibility() {
    let mut c = smt(1);
    // The real-time task sets the cookie; Y is the only match beside it, however far its deadline.
    let t = pin(&mut c, "R", 1, 1, vec![run_us(20_000)]);
    c.tasks[t].sched = Sched::Fifo { rt_priority: 1 };
    pin(&mut c, "Y", 0, 1, hog());
    pin(&mut c, "Z", 0, 2, hog());
    let (r, events) = play(c);
    assert_eq!(switches(&events, 2), "0:R 0:Y");
    assert!(r.core.by_cookie > 0, "{:?}", r.core);
    // Y ran for 20 ms while Z waited; then Z catches up.
    assert_eq!(switches(&events, 3), "0:R 0:Y 20:Z");
}

#[test]
fn a_forced_idle_cpu_steals_a_match() {
    let mut c = smt(2);
    pin(&mut c, "A", 0, 1, hog());
    pin(&mut c, "B", 1, 2, hog());
    pin(&mut c, "B2", 1, 2, hog());
    pin(&mut c, "X", 2, 1, hog());
    let y = add(&mut c, "Y", hog());
    c.tasks[y].affinity = vec![1, 2];
    c.tasks[y].cookie = 1;
    let (r, events) = play(c.clone());
    assert!(r.core.steals > 0, "{:?}", r.core);
    let moved = events
        .iter()
        .any(|e| matches!(&e.kind, EventKind::SchedMigrateTask { task, dest_cpu: 1, .. } if task.comm.to_string() == "Y"));
    assert!(moved);
    // Where Y may not run on CPU 1, nothing can be taken.
    c.tasks[y].affinity = vec![2];
    let (r, _) = play(c);
    assert_eq!(r.core.steals, 0);
}

#[test]
fn forked_tasks_inherit_the_cookie() {
    let mut c = smt(1);
    let child = ProgramId(1);
    let t = add(
        &mut c,
        "P",
        vec![Op::Fork { program: child }, run_us(20_000)],
    );
    c.tasks[t].cookie = 3;
    c.programs.push(schedlab_sim::program::Program {
        name: "child".into(),
        ops: vec![run_us(20_000)],
    });
    let (r, _) = play(c);
    assert!(r.ended);
    assert_eq!((r.end, r.forced_idle()), (Ns::from_ms(20), Ns(0)));
}

/// When Y first runs after the FIFO task that forced it, ms.
///
/// Y yields every 100 us; as long as R runs beside it, Y is all that may. Z, of another cookie, waits on Y's CPU.
fn yielder_returns(rule: YieldRule, forced_ms: u64) -> f64 {
    let mut c = smt(1);
    c.profile = Profile::by_name("6.12-stable").unwrap();
    c.profile.tunables.base_slice = Some(Ns::from_ms(3));
    c.profile.yield_rule = rule;
    c.duration = Some(Ns::from_secs(4));
    let t = pin(&mut c, "R", 1, 1, vec![run_us(forced_ms * 1000)]);
    c.tasks[t].sched = Sched::Fifo { rt_priority: 1 };
    pin(
        &mut c,
        "Y",
        0,
        1,
        vec![forever(vec![run_us(100), Op::Yield])],
    );
    pin(&mut c, "Z", 0, 2, hog());
    let (_, events) = play(c);
    events
        .iter()
        .find_map(|e| match &e.kind {
            EventKind::SchedSwitch { next, .. }
                if next.comm.to_string() == "Y" && e.ts > forced_ms * MS =>
            {
                Some(e.ts as f64 / 1e6)
            }
            _ => None,
        })
        .expect("Y runs again")
        - forced_ms as f64
}

#[test]
fn unguarded_forfeit_runs_away() {
    // Each of the 100 or 200 yields puts 3 ms of virtual time on Y, which Z then has all to itself.
    let (once, twice) = (
        yielder_returns(YieldRule::Forfeit, 10),
        yielder_returns(YieldRule::Forfeit, 20),
    );
    assert!((290.0..=320.0).contains(&once), "{once}");
    assert!((590.0..=620.0).contains(&twice), "{twice}");
}

#[test]
fn guarded_forfeit_does_not() {
    // Y is ahead by what it ran and one slice, whatever the number of yields.
    for (forced, most) in [(10, 16.0), (20, 26.0)] {
        let wait = yielder_returns(YieldRule::ForfeitEligible, forced);
        assert!(wait > 0.0 && wait <= most, "{forced} ms: {wait}");
    }
}

#[derive(Clone, Debug)]
struct Spec {
    cookie: u64,
    kind: u8,
    nice: i8,
    pin: Option<u32>,
    group: Option<u32>,
    start_us: u64,
    fifo: bool,
}

fn spec() -> impl Strategy<Value = Spec> {
    (
        0..4u64,
        0..6u8,
        -5..6i8,
        proptest::option::of(0..4u32),
        proptest::option::of(0..2u32),
        0..3000u64,
        0..8u8,
    )
        .prop_map(|(cookie, kind, nice, pin, group, start_us, fifo)| Spec {
            cookie,
            kind,
            nice,
            pin,
            group,
            start_us,
            fifo: fifo == 0,
        })
}

fn build(specs: &[Spec], profile: usize, quota: bool) -> SimConfig {
    let mut c = smt(2);
    let profiles = ["6.1", "6.6", "6.12-stable", "6.17", "7.0"];
    if let Some(p) = profiles.get(profile).and_then(|p| Profile::by_name(p)) {
        c.profile = p;
    }
    c.duration = Some(Ns::from_ms(60));
    for i in 0..2 {
        c.groups.push(GroupSpec {
            name: format!("g{i}"),
            parent: (i == 1).then_some(0),
            shares: Weight::NICE_0,
            idle: false,
            bandwidth: (quota && i == 1).then_some(schedlab_fair::BandwidthAttr {
                quota: Ns::from_ms(3),
                period: Ns::from_ms(10),
                burst: Ns(0),
            }),
        });
    }
    for (i, s) in specs.iter().enumerate() {
        let ops = match s.kind {
            0 => hog(),
            1 => vec![forever(vec![run_us(300), Op::Sleep(ns(700))])],
            2 => vec![forever(vec![run_us(150), Op::Yield])],
            3 => vec![times(20, vec![run_us(1900), Op::Sleep(ns(100))])],
            4 => vec![forever(vec![
                run_us(400),
                Op::SetAffinity(vec![i as u32 % 4]),
                run_us(300),
                Op::SetAffinity(vec![(i as u32 + 1) % 4, (i as u32 + 2) % 4]),
                Op::SetSched(Sched::Other { nice: 3 }),
            ])],
            _ => vec![forever(vec![
                run_us(250),
                Op::SetSlice(Some(Ns::from_us(600))),
                Op::Sleep(ns(250)),
            ])],
        };
        let t = add(&mut c, &format!("t{i}"), ops);
        c.tasks[t].sched = if s.fifo && s.kind == 1 {
            Sched::Fifo { rt_priority: 3 }
        } else {
            Sched::Other { nice: s.nice }
        };
        c.tasks[t].cookie = s.cookie;
        c.tasks[t].affinity = s.pin.into_iter().collect();
        c.tasks[t].group = s.group;
        c.tasks[t].start = Ns::from_us(s.start_us);
    }
    c
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_two_cookies_at_once(
        specs in proptest::collection::vec(spec(), 2..10),
        profile in 0..5usize,
        quota: bool,
    ) {
        let config = build(&specs, profile, quota);
        let (r, events) = play(config.clone());
        let cookie: BTreeMap<i32, u64> =
            r.tasks.iter().zip(&specs).map(|(t, s)| (t.pid, s.cookie)).collect();
        for core in [(0, 1), (2, 3)] {
            let shared = together(&events, core, r.end, |a, b| cookie[&a] != cookie[&b]);
            prop_assert_eq!(shared, 0);
        }
        for cpu in &r.cpus {
            prop_assert_eq!(cpu.total(), r.end.0);
            prop_assert!(cpu.forced_idle <= cpu.idle);
        }
        // A core with something to run runs something.
        for s in specs.iter().filter(|s| s.kind == 0 && !(quota && s.group == Some(1))) {
            let Some(pin) = s.pin else { continue };
            let core = &r.cpus[pin as usize / 2 * 2..][..2];
            let idle: u64 = core.iter().map(|c| c.idle).sum();
            prop_assert!(idle <= r.end.0 + Ns::from_us(s.start_us).0);
        }
        if specs.iter().all(|s| s.cookie == specs[0].cookie) {
            prop_assert_eq!(r.forced_idle(), Ns(0));
        }
        prop_assert_eq!(play(config), (r, events));
    }
}
