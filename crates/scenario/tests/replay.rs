//! From a trace back to a load: what is written reads back, no work is lost, and a simulation of a simulation's own
//! trace is that simulation.

use std::path::Path;

use proptest::prelude::*;
use schedlab_analysis::load::{Load, LoadBuilder};
use schedlab_fair::{Ns, Profile};
use schedlab_scenario::replay::{RecordedKernel, RecordedLoad, Repeat, RunMeter};
use schedlab_scenario::{Overrides, RtApp, RunOutcome, Scenario};
use schedlab_sim::program::{Dur, Op};
use schedlab_trace::{Comm, CpuFlags, Event, EventKind, PrevState, TaskRef};

const MIX: &str = r#"
machine = { cpus = 1, hz = 250 }
costs = "zero"
duration = "400ms"
[[task]]
name = "hog"
count = 2
kind = "hog"
[[task]]
name = "player"
kind = "periodic"
run = "2000123ns"
period = "16ms"
nice = -3
[[task]]
name = "pp"
kind = "pingpong"
run = "300us"
[[task]]
name = "parent"
start = "20ms"
program = [{ loop = 3, steps = ["run 1ms", "fork child", "block 20ms"] }, "nice 5", "run 2ms", "exit"]
[[task]]
name = "child"
count = 0
program = ["run 4ms", "sleep 3ms", "run 1ms"]
"#;

fn scenario(text: &str) -> Scenario {
    Scenario::parse("test.toml", text, Path::new(""), &Overrides::new())
        .unwrap_or_else(|e| panic!("{e}\n{}", &text[..text.len().min(3000)]))
}

fn events_of(scenario: &Scenario) -> (Vec<Event>, RunOutcome) {
    let mut events = Vec::new();
    let outcome = scenario.run(|e| events.push(e.clone())).expect("run");
    (events, outcome)
}

fn load_of(events: &[Event]) -> Load {
    let mut builder = LoadBuilder::default();
    events.iter().for_each(|e| builder.push(e));
    builder.finish()
}

fn kernel() -> RecordedKernel {
    RecordedKernel {
        profile: Profile::default(),
        hz: None,
    }
}

fn recorded(load: &Load, repeat: Repeat) -> RecordedLoad<'_> {
    RecordedLoad::new(load, "test", kernel(), "zero", repeat).expect("load")
}

/// Work of fixed length in a list of operations.
fn work(ops: &[Op]) -> u64 {
    ops.iter()
        .map(|op| match op {
            Op::Run {
                work: Dur::Fixed(ns),
                ..
            } => ns.0,
            Op::HandOver { tail, .. } => tail.0,
            Op::Loop { times, body } => times.unwrap_or(1) * work(body),
            _ => 0,
        })
        .sum()
}

#[test]
fn a_simulations_own_trace_replays_as_it_was() {
    let (events, first) = events_of(&scenario(MIX));
    let load = load_of(&events);
    assert!(load.report.has_flags && load.hz == Some(250));
    let r = recorded(&load, Repeat::Times(1));
    let text = r.toml();
    let again = scenario(&text);
    let total: u64 = again.plan.programs.iter().map(|p| work(&p.ops)).sum();
    assert_eq!(total, load.work(), "all work is in the file");
    let mut meter = RunMeter::new(r.lead().0, r.round().0);
    let outcome = again.run(|e| meter.push(e)).expect("run");
    let (want, got) = (first.result.switches, outcome.result.switches);
    // Tasks that were asleep at the beginning switch once more.
    assert!(
        got.abs_diff(want) * 100 <= want * 3 + 1000,
        "{got} switches instead of {want}"
    );
    let mut reference = RunMeter::recording();
    events.iter().for_each(|e| reference.push(e));
    let reference = reference.finish(load.first_ts + load.span, |pid| {
        load.tasks.iter().position(|t| t.pid == pid)
    });
    let pids: Vec<(i32, String)> = outcome
        .result
        .tasks
        .iter()
        .map(|t| (t.pid, t.comm.clone()))
        .collect();
    let fit = meter.finish(outcome.result.end.0, |pid| {
        let name = &pids.iter().find(|p| p.0 == pid)?.1;
        (0..r.len()).find(|&i| r.task_name(i) == name)
    });
    let (off, task) = fit.worst_runtime(&reference, 1.0).expect("tasks");
    assert!(off < 1.0, "{} is off by {off} %", r.task_name(task));
    let delays = (fit.total().delays.sum, reference.total().delays.sum);
    assert!(
        delays.0.abs_diff(delays.1) * 100 <= delays.1 * 8,
        "delays {delays:?}"
    );
    let misplaced = fit.misplaced(&reference).expect("windows");
    assert!(misplaced < 5.0, "{misplaced} % misplaced");
}

#[test]
fn a_load_is_repeated_as_often_as_asked() {
    let (events, _) = events_of(&scenario(MIX));
    let load = load_of(&events);
    let run = |repeat| {
        let outcome = scenario(&recorded(&load, repeat).toml())
            .run(|_| {})
            .expect("run");
        let sum: u64 = outcome.result.tasks.iter().map(|t| t.run.0).sum();
        (sum, outcome.result.end)
    };
    let (once, end) = run(Repeat::Times(1));
    let (thrice, end3) = run(Repeat::Times(3));
    assert_eq!(end3.0, 3 * end.0);
    assert!(thrice.abs_diff(3 * once) * 100 < thrice, "{thrice} {once}");
    let round = recorded(&load, Repeat::Times(1)).round().0;
    let (long, end) = run(Repeat::Until(Ns(5 * round)));
    assert_eq!(end.0, 5 * round);
    assert!(long.abs_diff(5 * once) * 100 < long, "{long} {once}");
}

#[test]
fn costs_are_taken_off_the_work() {
    let with_costs = MIX.replace("\"zero\"", "\"xeon-2s\"");
    let (events, first) = events_of(&scenario(&with_costs));
    let load = load_of(&events);
    let r = RecordedLoad::new(&load, "test", kernel(), "xeon-2s", Repeat::Times(1)).expect("load");
    let outcome = scenario(&r.toml()).run(|_| {}).expect("run");
    let sum = |o: &RunOutcome| o.result.tasks.iter().map(|t| t.run.0).sum::<u64>();
    let (want, got) = (sum(&first), sum(&outcome));
    assert!(
        got.abs_diff(want) * 200 < want,
        "{got} ns instead of {want}"
    );
    let plain = recorded(&load, Repeat::Times(1)).toml();
    assert!(plain.len() != r.toml().len() || plain != r.toml());
}

#[test]
fn rt_app_holds_the_same_work_in_microseconds() {
    let (events, _) = events_of(&scenario(MIX));
    let load = load_of(&events);
    let r = recorded(&load, Repeat::Times(1));
    let file = r.rt_app();
    let app = RtApp::parse("test.json", &file.text, load.cpus).unwrap_or_else(|e| panic!("{e}"));
    let total: u64 = app.plan.programs.iter().map(|p| work(&p.ops)).sum();
    let cut = load.work() - total;
    assert!(
        cut <= 1_000 * load.tasks.len() as u64,
        "{cut} ns are missing"
    );
    assert!(file.lost.iter().any(|l| l.contains("whole microseconds")));
    assert!(file.lost.iter().any(|l| l.contains("state D")));
    // The same switches, but for the roundings: what rt-app holds is the load.
    let dir = tempfile::tempdir().expect("dir");
    std::fs::write(dir.path().join("load.json"), &file.text).expect("write");
    let text = format!(
        "rtapp = \"load.json\"\nduration = \"{}ns\"\nmachine = {{ cpus = {}, hz = 250 }}\ncosts = \"zero\"",
        r.duration().0,
        load.cpus
    );
    let app = Scenario::parse("app.toml", &text, dir.path(), &Overrides::new()).expect("rt-app");
    let (a, b) = (
        app.run(|_| {}).expect("run").result.switches,
        scenario(&r.toml())
            .run(|_| {})
            .expect("run")
            .result
            .switches,
    );
    assert!(a.abs_diff(b) * 100 <= b * 10, "{a} switches, {b} from TOML");
}

#[test]
fn a_record_that_is_none_is_refused_with_its_word() {
    let task = |rest: &str| {
        format!(
            "machine = \"flat-2\"\nduration = \"1ms\"\n[[task]]\nname = \"a\"\nkind = \"replay\"\n{rest}\n[[task]]\nname = \"b\"\nkind = \"hog\"\n[[task]]\nname = \"c\"\ncount = 0\nkind = \"replay\"\nrecord = \"r1\"\n"
        )
    };
    let peers = "peers = [\"b\", \"c\"]\n";
    for (rest, words) in [
        ("", vec!["`task[0].record` is missing"]),
        ("record = 5", vec!["task[0].record", "found"]),
        ("record = \"r5 x5\"", vec!["test.toml:6", "word 2 `x5`"]),
        ("record = \"é5\"", vec!["word 1 `é5`"]),
        ("record = \"r\"", vec!["word 1 `r`", "nanoseconds from 1"]),
        ("record = \"r0\"", vec!["nanoseconds from 1"]),
        ("record = \"r99999999999999999999\"", vec!["nanoseconds"]),
        ("record = \"s-1\"", vec!["nanoseconds"]),
        ("record = \"e5\"", vec!["nothing behind the letter"]),
        ("record = \"w0\"", vec!["`peers`, which has 0 names"]),
        (
            "peers = [\"d\"]\nrecord = \"r1\"",
            vec!["peers[0]", "no task `d`"],
        ),
        (
            "partner = \"d\"\nrecord = \"r1\"",
            vec!["partner", "no task `d`"],
        ),
        ("record = \"h0:5\"", vec!["word 1 `h0:5`", "a colon"]),
        (
            &format!("{peers}record = \"w2\""),
            vec!["which has 2 names"],
        ),
        (
            &format!("{peers}record = \"f0\""),
            vec!["a template for fork"],
        ),
        (&format!("{peers}record = \"h0\""), vec!["a colon"]),
        (
            &format!("{peers}record = \"h0:2000000000\""),
            vec!["at most 1000000000"],
        ),
        ("record = \"n20\"", vec!["-20 to 19"]),
        ("record = \"p0\"", vec!["1 to 99"]),
        ("count = 2\nrecord = \"r1\"", vec!["a recorded task is one"]),
        (
            "loops = 0\nrecord = \"r1\"",
            vec!["loops", "integer from 1"],
        ),
        ("loops = \"often\"\nrecord = \"r1\"", vec!["forever"]),
        ("loops = \"forever\"\nrecord = \"y\"", vec!["takes time"]),
        ("steps = 1\nrecord = \"r1\"", vec!["unknown key", "steps"]),
    ] {
        let text = task(rest);
        let error = Scenario::parse("test.toml", &text, Path::new(""), &Overrides::new())
            .expect_err(rest)
            .to_string();
        for word in words {
            assert!(error.contains(word), "{rest}: no `{word}` in {error}");
        }
    }
    let good = task(&format!(
        "{peers}partner = \"b\"\nloops = 2\nrecord = \"\"\"\nr5 w0 f1\n t7 s5 d5 y n5 p50 r1\n\"\"\""
    ));
    scenario(&good).run(|_| {}).expect("run");
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let error = |load: &Load, costs: &str| {
        RecordedLoad::new(load, "x", kernel(), costs, Repeat::Times(1)).expect_err("refused")
    };
    assert!(error(&Load::default(), "zero").contains("no task"));
    assert!(error(&Load::default(), "gold").contains("xeon-2s"));
    let (events, _) = events_of(&scenario(MIX));
    let mut load = load_of(&events);
    load.cpus = 5_000;
    assert!(error(&load, "zero").contains("at most 4096"));
}

fn any_event() -> impl Strategy<Value = (u64, u32, i32, bool, u8, i32, i32)> {
    (
        0u64..400_000,
        0u32..3,
        0i32..6,
        any::<bool>(),
        0u8..8,
        0i32..6,
        0i32..200,
    )
}

fn event(
    ts: u64,
    (_, cpu, pid, hardirq, what, other, prio): (u64, u32, i32, bool, u8, i32, i32),
) -> Event {
    let task = |pid, prio| TaskRef {
        comm: Comm::new(["a", "Web Content", "c.d", "e=f", "\"", ""][pid as usize % 6]),
        pid,
        prio,
    };
    let state = [
        PrevState::RUNNING,
        PrevState::INTERRUPTIBLE,
        PrevState::UNINTERRUPTIBLE,
        PrevState::DEAD,
    ][prio as usize % 4];
    let other = task(other, if prio % 5 == 0 { prio } else { 120 });
    Event {
        ts,
        cpu,
        pid,
        comm: Comm::new("t"),
        flags: CpuFlags {
            hardirq,
            ..CpuFlags::default()
        },
        kind: match what {
            0..=3 => EventKind::SchedSwitch {
                prev: task(pid, 120),
                prev_state: state,
                next: other,
            },
            4 | 5 => EventKind::SchedWaking {
                task: other,
                target_cpu: cpu,
            },
            6 => EventKind::SchedWakeupNew {
                task: other,
                target_cpu: cpu,
            },
            _ => EventKind::SchedProcessExit { task: other },
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the trace: the file reads back with all its work, and is simulated; rt-app's form reads back too.
    #[test]
    fn any_trace_can_be_written_read_and_simulated(
        list in proptest::collection::vec(any_event(), 1..100), rounds in 1u32..3
    ) {
        let mut ts = 5_000;
        let events: Vec<Event> = list
            .into_iter()
            .map(|e| {
                ts += e.0;
                event(ts, e)
            })
            .collect();
        let load = load_of(&events);
        prop_assume!(!load.tasks.is_empty());
        let r = recorded(&load, Repeat::Times(rounds));
        let scenario = scenario(&r.toml());
        let total: u64 = scenario.plan.programs.iter().map(|p| work(&p.ops)).sum();
        let forked: u64 = load
            .tasks
            .iter()
            .filter(|t| matches!(t.birth, schedlab_analysis::load::Birth::Forked(..)))
            .map(|t| t.work())
            .sum();
        // A forked task's record is run again by each fork.
        prop_assert_eq!(total, u64::from(rounds) * (load.work() - forked) + forked);
        let outcome = scenario.run(|_| {});
        prop_assert!(outcome.is_ok(), "{:?}", outcome.err());
        let app = RtApp::parse("x.json", &r.rt_app().text, load.cpus);
        prop_assert!(app.is_ok(), "{}\n{}", app.err().map(|e| e.to_string()).unwrap_or_default(), r.rt_app().text);
    }
}
