//! The load behind a schedule: what is work, what ends a sleep, what is counted, and that no work is lost.

use proptest::prelude::*;
use schedlab_analysis::latency::{LatencyAccumulator, LatencyOptions};
use schedlab_analysis::load::{Act, Birth, Load, LoadBuilder, LoadTask, Until};
use schedlab_trace::{Comm, CpuFlags, Event, EventKind, FtraceTextReader, PrevState, TaskRef};

fn events(text: &str) -> Vec<Event> {
    FtraceTextReader::new(text.as_bytes(), "test")
        .map(|e| e.expect("event"))
        .collect()
}

fn load_of(events: &[Event]) -> Load {
    let mut builder = LoadBuilder::default();
    events.iter().for_each(|e| builder.push(e));
    builder.finish()
}

/// Lines are `CPU FLAGS MICROSECONDS EVENT`, with short forms of the events: `switch A STATE B`, `waking A`, …; a task is
/// a letter, `-` the idle task.
fn load(lines: &str) -> Load {
    let pid = |name: &str| match name {
        "-" => 0,
        n => i32::from(n.as_bytes()[0]),
    };
    let mut current: std::collections::BTreeMap<u32, String> = std::collections::BTreeMap::new();
    let mut text = String::new();
    for line in lines.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let w: Vec<&str> = line.split_whitespace().collect();
        let cpu: u32 = w[0].parse().expect("cpu");
        let us: u64 = w[2].parse().expect("time");
        let now = match w[3] {
            "switch" => w[4].to_string(),
            _ => current.get(&cpu).cloned().unwrap_or("-".into()),
        };
        let fields = match w[3] {
            "switch" => format!(
                "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={} ==> next_comm={} next_pid={} next_prio=120",
                w[4],
                pid(w[4]),
                w[5],
                w[6],
                pid(w[6])
            ),
            "fork" => format!(
                "sched_process_fork: comm={now} pid={} child_comm={} child_pid={}",
                pid(&now),
                w[4],
                pid(w[4])
            ),
            "prio" => format!(
                "sched_waking: comm={} pid={} prio={} target_cpu=000",
                w[4],
                pid(w[4]),
                w[5]
            ),
            "runtime" => format!(
                "sched_stat_runtime: comm={now} pid={} runtime={} [ns]",
                pid(&now),
                w[4]
            ),
            "sys_enter_sched_yield" => "sys_enter_sched_yield: ".to_string(),
            event => format!(
                "sched_{event}: comm={} pid={} prio=120 target_cpu=000",
                w[4],
                pid(w[4])
            ),
        };
        text.push_str(&format!(
            "{now}-{} [{cpu:03}] {} {}.{:06}: {fields}\n",
            pid(&now),
            w[1],
            1 + us / 1_000_000,
            us % 1_000_000
        ));
        if w[3] == "switch" {
            current.insert(cpu, w[6].to_string());
        }
    }
    load_of(&events(&text))
}

fn task<'a>(load: &'a Load, name: &str) -> &'a LoadTask {
    load.tasks
        .iter()
        .find(|t| t.comm == Comm::new(name))
        .unwrap_or_else(|| panic!("no task {name}"))
}

/// Acts in short: `r100` ran 100 us, `wb` woke b, `fb` forked b, `tb` slept until b, `@50` until 50 us, `+50` for 50 us,
/// `end`, `y` yielded, `p125` prio.
fn acts(load: &Load, name: &str) -> String {
    let of = |i: usize| load.tasks[i].comm.to_string();
    let words: Vec<String> = task(load, name)
        .acts
        .iter()
        .map(|a| match *a {
            Act::Run { ns, pieces } => format!("r{}/{pieces}", ns / 1000),
            Act::Wake(i) => format!("w{}", of(i)),
            Act::Fork(i) => format!("f{}", of(i)),
            Act::Yield => "y".into(),
            Act::Prio(p) => format!("p{p}"),
            Act::Sleep { until, .. } => match until {
                Until::Task(i) => format!("t{}", of(i)),
                Until::Time(t) => format!("@{}", t / 1000),
                Until::After(t) => format!("+{}", t / 1000),
                Until::End => "end".into(),
            },
        })
        .collect();
    words.join(" ")
}

#[test]
fn preemption_is_taken_out() {
    let l = load(
        "0 d..2. 0 switch - R a
         0 d..2. 100 switch a R+ b
         0 d..2. 300 switch b R a
         0 d..2. 350 switch a S b
         0 d..2. 400 switch b S -",
    );
    assert_eq!(acts(&l, "a"), "r150/2 end");
    assert_eq!(acts(&l, "b"), "r250/2 end");
    assert_eq!(task(&l, "b").birth, Birth::Runnable);
    assert_eq!(l.work(), 400_000);
    assert_eq!(l.report.open_sleeps, 2);
}

#[test]
fn a_task_that_wakes_is_waited_for_and_an_interrupt_is_a_time() {
    let l = load(
        "0 d..2. 0 switch - R a
         0 d..2. 10 waking b
         0 d..2. 30 switch a S b
         0 d.h1. 70 waking a
         0 d.s1. 80 waking c
         0 d..2. 90 switch b S a
         0 d..2. 95 switch a S c
         0 d..2. 99 switch c S -
         0 d..1. 120 waking b
         0 d..2. 130 switch - R b",
    );
    assert_eq!(acts(&l, "a"), "r10/1 wb r20/0 @70 r5/1 end");
    assert_eq!(acts(&l, "b"), "ta r60/1 @120 r0/1");
    assert_eq!(acts(&l, "c"), "@80 r4/1 end");
    assert_eq!(task(&l, "b").birth, Birth::Asleep);
    let r = l.report;
    assert_eq!((r.by_task, r.by_interrupt, r.open_sleeps), (1, 3, 2));
    assert!(r.has_flags);
}

#[test]
fn a_call_while_the_task_still_runs_ends_the_sleep_only_if_it_is_answered() {
    let common = "0 d..2. 0 switch - R a
         1 d..2. 1 switch - R b
         1 d..2. 10 waking a
         0 d..2. 20 switch a S c";
    // Answered before it slept: no sleep was ended.
    let l = load(&common.replace("0 d..2. 20", "1 d..2. 11 wakeup a\n0 d..2. 20"));
    assert_eq!(acts(&l, "a"), "r20/1 end");
    assert_eq!(l.report.wakes_without_effect, 1);
    // Aborted: switched in again without a wakeup.
    let l = load(&format!("{common}\n0 d..2. 50 switch c S a"));
    assert_eq!(acts(&l, "a"), "r20/2");
    assert_eq!(l.report.aborted_sleeps, 1);
    assert_eq!(acts(&l, "b"), "r49/1", "the call had no effect");
    // It slept until the wakeup, and b was the one who called.
    let l = load(&format!(
        "{common}\n1 d..2. 40 wakeup a\n0 d..2. 50 switch c S a"
    ));
    assert_eq!(acts(&l, "a"), "r20/1 tb r0/1");
    assert_eq!(acts(&l, "b"), "r9/1 wa r40/0");
}

#[test]
fn forks_exits_yields_and_priorities() {
    let l = load(
        "0 d..2. 0 switch - R a
         0 d..2. 10 fork b
         0 d..2. 12 wakeup_new b
         0 d..2. 20 sys_enter_sched_yield
         0 d..2. 21 switch a R b
         0 d..2. 50 process_exit b
         0 d..2. 60 switch b X a
         0 d.h1. 65 waking d
         0 d..2. 70 switch a S -
         0 d.h1. 75 prio a 125
         0 d..2. 80 switch - R a
         0 d..2. 90 switch a S -",
    );
    assert!(
        acts(&l, "a").starts_with("r12/1 fb r8/0 y r11/1 @75 p125"),
        "{}",
        acts(&l, "a")
    );
    assert_eq!(acts(&l, "b"), "r39/1");
    assert_eq!(task(&l, "a").prio, Some(120), "what it began with");
    let b = task(&l, "b");
    assert!(b.ended);
    assert_eq!(b.birth, Birth::Forked(0, 12_000));
    // Woken and not run before the end: it is asleep until then.
    assert_eq!(acts(&l, "d"), "@65");
}

#[test]
fn what_the_trace_lacks_is_counted() {
    // a is switched in without a wakeup; then c runs without having been switched in.
    let l = load(
        "0 d..2. 0 switch - R a
         0 d..2. 10 switch a S -
         0 d..2. 30 switch - R a
         0 d..2. 35 waking e
         0 d..2. 60 switch c S a
         0 d.h2. 62 waking c
         0 d..2. 70 switch a X -
         0 d.h2. 72 waking a",
    );
    let r = l.report;
    assert_eq!(r.missing_wakeups, 1);
    assert_eq!(r.missing_switches, 1);
    assert_eq!(r.unattributed, 25_000);
    assert_eq!(r.wakes_of_dead, 1);
    assert_eq!(acts(&l, "a"), "r10/1 @30 r5/1 we r10/1");
    assert_eq!(acts(&l, "c"), "r0/1 @62");
}

fn periodic(jitter: u64, flags: &str) -> String {
    let mut text = String::new();
    for n in 0..20u64 {
        let t = 1_000 + n * 10_000 + n % 2 * jitter;
        // The hog's run is cut by p, which is woken in an interrupt.
        text.push_str(&format!(
            "0 {flags} {t} waking p\n0 d..2. {} switch h R p\n0 d..2. {} switch p S h\n",
            t + 5,
            t + 1_005 + n * 37
        ));
    }
    format!("0 d..2. 0 switch - R h\n{text}")
}

#[test]
fn regular_times_are_a_period_and_others_stay_as_they_are() {
    let l = load(&periodic(60, "d.h2."));
    let p = task(&l, "p");
    assert_eq!(l.report.periodic, 19);
    assert!(p.period.is_some_and(|t| t.abs_diff(10_000_000) <= 60_000));
    let times: Vec<u64> = p
        .acts
        .iter()
        .filter_map(|a| match a {
            Act::Sleep {
                until: Until::Time(t),
                ..
            } => Some(*t),
            _ => None,
        })
        .collect();
    let gaps: Vec<u64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps.iter().all(|g| g.abs_diff(gaps[0]) < 20), "{gaps:?}");
    // Three milliseconds off every second time is no jitter.
    let l = load(&periodic(3_000, "d.h2."));
    assert_eq!(l.report.periodic, 0);
    assert!(
        acts(&l, "p").starts_with("@1000 r1000/1 @14000 "),
        "{}",
        acts(&l, "p")
    );
}

#[test]
fn without_flags_regular_wakeups_are_a_timers() {
    let l = load(&periodic(60, "....."));
    assert_eq!(l.report.wakers_by_regularity, 20);
    assert!(!l.report.has_flags);
    assert!(!acts(&l, "h").contains('w'), "{}", acts(&l, "h"));
    let irregular = load(&periodic(3_000, "....."));
    assert!(acts(&irregular, "h").contains("wp"));
}

#[test]
fn sleeps_of_one_length_are_lengths_and_so_are_those_in_d() {
    let mut text = "0 d..2. 0 switch - R s\n".to_string();
    let mut t = 0;
    for n in 0..20u64 {
        t += 500 * (n % 4 + 1);
        text.push_str(&format!("0 d..2. {t} switch s S -\n"));
        t += 3_000 + n;
        text.push_str(&format!(
            "0 d.h1. {t} waking s\n0 d..2. {} switch - R s\n",
            t + 4
        ));
    }
    let l = load(&text);
    assert_eq!(l.report.lengths, 20);
    assert!(
        acts(&l, "s").starts_with("r500/1 +3000 r996/1 +3001 "),
        "{}",
        acts(&l, "s")
    );
    let l = load(
        "0 d..2. 0 switch - R d
         0 d..2. 10 switch d D -
         0 d.h1. 40 waking d
         0 d..2. 41 switch - R d",
    );
    assert_eq!(acts(&l, "d"), "r10/1 +30 r0/1");
}

#[test]
fn a_task_that_waits_beside_an_idle_cpu_is_bound() {
    let mut text = "1 d..2. 0 switch x S -\n0 d..2. 1 switch - R a\n".to_string();
    for n in 0..8u64 {
        let (prev, next) = if n % 2 == 0 { ("a", "b") } else { ("b", "a") };
        text.push_str(&format!(
            "0 d..2. {} switch {prev} R {next}\n",
            (n + 1) * 4_000
        ));
    }
    let l = load(&text);
    assert_eq!(task(&l, "a").affinity, [0]);
    assert_eq!(l.report.bound_by_idle, 2);
    // Short waits bind nobody.
    let l = load(&text.replace("000 switch", " switch"));
    assert!(task(&l, "a").affinity.is_empty());
}

#[test]
fn two_that_wake_each_other_take_turns() {
    let mut text = "0 d..2. 0 switch - R a\n".to_string();
    for n in 0..8u64 {
        let (me, you) = if n % 2 == 0 { ("a", "b") } else { ("b", "a") };
        let t = n * 100 + 50;
        text.push_str(&format!(
            "0 d..2. {t} waking {you}\n0 d..2. {} switch {me} S {you}\n",
            t + 50
        ));
    }
    let l = load(&text);
    let of = |name| task(&l, name).partner.map(|i| l.tasks[i].comm.to_string());
    assert_eq!(
        (of("a").as_deref(), of("b").as_deref()),
        (Some("b"), Some("a"))
    );
    assert_eq!(l.report.partners, 2);
    // Twice is no habit.
    let first: Vec<&str> = text.lines().take(7).collect();
    assert_eq!(load(&first.join("\n")).report.partners, 0);
}

#[test]
fn ticks_tell_their_rate() {
    let mut text = "0 d..2. 0 switch - R a\n".to_string();
    for n in 0..30u64 {
        text.push_str(&format!("0 d.h1. {} runtime 4000000\n", 1_500 + n * 4_000));
    }
    let l = load(&text);
    assert_eq!(l.hz, Some(250));
    assert!(l.tick_phase.abs_diff(1_500_000) < 1000, "{}", l.tick_phase);
}

fn kind() -> impl Strategy<Value = EventKind> {
    let task = || {
        (
            0i32..6,
            prop_oneof![Just(120), Just(98), Just(-1), Just(139)],
        )
            .prop_map(|(pid, prio)| TaskRef {
                comm: Comm::new(&format!("t{pid}")),
                pid,
                prio,
            })
    };
    let state = prop_oneof![
        Just(PrevState::RUNNING),
        Just(PrevState::PREEMPTED),
        Just(PrevState::INTERRUPTIBLE),
        Just(PrevState::UNINTERRUPTIBLE),
        Just(PrevState::DEAD),
    ];
    prop_oneof![
        4 => (task(), state, task()).prop_map(|(prev, prev_state, next)| EventKind::SchedSwitch { prev, prev_state, next }),
        2 => (task(), 0u32..3).prop_map(|(task, target_cpu)| EventKind::SchedWaking { task, target_cpu }),
        2 => (task(), 0u32..3).prop_map(|(task, target_cpu)| EventKind::SchedWakeup { task, target_cpu }),
        1 => (task(), 0u32..3).prop_map(|(task, target_cpu)| EventKind::SchedWakeupNew { task, target_cpu }),
        1 => (0i32..6, 0i32..6).prop_map(|(parent_pid, child_pid)| EventKind::SchedProcessFork {
            parent_comm: Comm::new("p"), parent_pid, child_comm: Comm::new("c"), child_pid,
        }),
        1 => (0i32..6, 0i32..6).prop_map(|(pid, old_pid)| EventKind::SchedProcessExec {
            filename: "/x".into(), pid, old_pid,
        }),
        1 => task().prop_map(|task| EventKind::SchedProcessExit { task }),
        1 => (0i32..6, 0u64..5_000).prop_map(|(pid, runtime)| EventKind::SchedStatRuntime {
            comm: Comm::new("t"), pid, runtime,
        }),
        1 => (task(), 0u32..3, 0u32..3).prop_map(|(task, orig_cpu, dest_cpu)| EventKind::SchedMigrateTask {
            task, orig_cpu, dest_cpu,
        }),
        1 => Just(EventKind::Other { name: "yield".into(), fields: String::new() }),
    ]
}

fn event() -> impl Strategy<Value = (u64, u32, i32, bool, EventKind)> {
    (0u64..3_000, 0u32..3, 0i32..6, any::<bool>(), kind())
}

/// Events with growing times. `true`: the task in front is the one that the switches say.
fn sequence(list: Vec<(u64, u32, i32, bool, EventKind)>, consistent: bool) -> Vec<Event> {
    let mut ts = 0;
    let mut current = [0; 3];
    list.into_iter()
        .map(|(step, cpu, pid, hardirq, mut kind)| {
            ts += step;
            let mut pid = pid;
            if consistent {
                pid = current[cpu as usize];
                if let EventKind::SchedSwitch { prev, next, .. } = &mut kind {
                    prev.pid = pid;
                    // On one CPU at a time.
                    if current.contains(&next.pid) {
                        next.pid = 0;
                    }
                    current[cpu as usize] = next.pid;
                }
            }
            if let EventKind::SchedSwitch { prev, .. } = &kind {
                pid = prev.pid;
            }
            Event {
                ts,
                cpu,
                pid,
                comm: Comm::new("t"),
                flags: CpuFlags {
                    hardirq,
                    ..CpuFlags::default()
                },
                kind,
            }
        })
        .collect()
}

proptest! {
    /// Whatever the events: no panic, times in order, everybody who is waited for wakes as often.
    #[test]
    fn any_sequence_gives_a_sound_load(list in proptest::collection::vec(event(), 0..120)) {
        let load = load_of(&sequence(list, false));
        check(&load);
    }

    /// Where the history is possible, all work is there: as much as the latency table counts for each CPU.
    #[test]
    fn no_work_is_lost(list in proptest::collection::vec(event(), 0..120)) {
        let list: Vec<_> = list
            .into_iter()
            // An exec that swaps pids makes the task in front another one.
            .filter(|(.., kind)| !matches!(kind, EventKind::SchedProcessExec { .. } | EventKind::SchedProcessFork { .. } | EventKind::SchedWakeupNew { .. }))
            .collect();
        let events = sequence(list, true);
        let load = load_of(&events);
        check(&load);
        let mut latency = LatencyAccumulator::new(LatencyOptions::default());
        events.iter().for_each(|e| latency.push(e));
        let busy: u64 = latency.finish().summary.cpus.iter().map(|c| c.busy).sum();
        prop_assert_eq!(load.work(), busy);
    }
}

fn check(load: &Load) {
    let mut waits = vec![0i64; load.tasks.len()];
    let mut wakes = vec![0i64; load.tasks.len()];
    for (i, t) in load.tasks.iter().enumerate() {
        for act in &t.acts {
            match *act {
                Act::Sleep { from, until, .. } => {
                    assert!(from <= load.span);
                    match until {
                        Until::Time(at) => assert!(from <= at && at <= load.span),
                        Until::Task(by) => {
                            waits[i] += 1;
                            assert!(by < load.tasks.len() && by != i);
                        }
                        Until::After(_) | Until::End => {}
                    }
                }
                Act::Wake(w) => wakes[w] += 1,
                Act::Fork(c) => {
                    assert!(matches!(load.tasks[c].birth, Birth::Forked(p, _) if p == i))
                }
                _ => {}
            }
        }
        if t.birth == Birth::Asleep {
            assert!(matches!(t.acts.first(), Some(Act::Sleep { .. })));
        }
    }
    assert_eq!(waits, wakes);
    let lost = load.report.unattributed;
    assert!(load.work() <= load.span * u64::from(load.cpus) + lost);
}
