//! rt-app files: what they become, and what is said of wrong ones.

use schedlab_fair::Ns;
use schedlab_scenario::{Plan, RtApp};
use schedlab_sim::program::{Dur, Mode, Op, Sched};

fn parse(text: &str) -> RtApp {
    RtApp::parse("w.json", text, 4).unwrap()
}

fn error(text: &str) -> String {
    RtApp::parse("w.json", text, 4).unwrap_err().to_string()
}

/// The error for events inside one thread, without the position.
fn event_error(events: &str) -> String {
    error(&format!("{{\"tasks\": {{\"t\": {{\n{events}\n}}}}}}"))
}

fn ops<'a>(plan: &'a Plan, comm: &str) -> &'a [Op] {
    let task = plan.tasks.iter().find(|t| t.comm == comm).unwrap();
    &plan.programs[task.program.0 as usize].ops
}

fn run(us: u64) -> Op {
    Op::Run {
        work: Dur::Fixed(Ns::from_us(us)),
        mode: Mode::User,
        cond_resched: None,
    }
}

#[test]
fn a_duty_cycle_keeps_its_numbers() {
    let app = parse(include_str!("fixtures/duty.json"));
    assert_eq!(app.duration, None);
    assert_eq!(app.warnings, []);
    assert_eq!(app.plan.tasks.len(), 1);
    let [
        Op::Loop {
            times: Some(125),
            body,
        },
    ] = ops(&app.plan, "duty-0")
    else {
        panic!("no loop: {:?}", app.plan.programs)
    };
    assert_eq!(body[0], run(8_000));
    assert!(matches!(
        body[1],
        Op::Timer {
            period: Ns(16_000_000),
            absolute: false,
            ..
        }
    ));
}

#[test]
fn comments_trailing_commas_repeated_keys_and_suffixes() {
    let app = parse(include_str!("fixtures/browser.json"));
    let plan = &app.plan;
    assert_eq!(app.duration, Some(Ns::from_secs(2)));
    let comms: Vec<&str> = plan.tasks.iter().map(|t| t.comm.as_str()).collect();
    assert_eq!(
        comms,
        ["Main-0", "Worker1-1", "Worker2-2", "Binder-3", "Reaper-4"]
    );

    // Both `run`s of the phase are there, in their order.
    let [
        Op::Loop {
            times: Some(3),
            body,
        },
    ] = ops(plan, "Main-0")
    else {
        panic!("no loop")
    };
    let runs: Vec<&Op> = body
        .iter()
        .filter(|op| matches!(op, Op::Run { .. }))
        .collect();
    assert_eq!(runs, [&run(1_500), &run(700)]);
    // One phase sets CPUs, so the other gets all of them back.
    let sets: Vec<&Op> = body
        .iter()
        .filter(|op| matches!(op, Op::SetAffinity(_)))
        .collect();
    assert_eq!(
        sets,
        [
            &Op::SetAffinity(vec![0, 1, 2, 3]),
            &Op::SetAffinity(vec![0, 1])
        ]
    );

    // Both workers are suspended under one name, and one resume wakes both.
    let waits = |comm| match ops(plan, comm) {
        [Op::Loop { times: None, body }] => body[0].clone(),
        other => panic!("no loop: {other:?}"),
    };
    let Op::Wait { cond, lock: None } = waits("Worker1-1") else {
        panic!("no wait")
    };
    assert_eq!(waits("Worker2-2"), Op::Wait { cond, lock: None });
    assert!(body.contains(&Op::Broadcast(cond)));
    assert_eq!(plan.tasks[1].sched, Sched::Other { nice: -6 });

    // A custom slice and a nested group.
    let binder = &plan.tasks[3];
    assert_eq!(binder.slice, Some(Ns::from_us(400)));
    let group = &plan.groups[binder.group.unwrap() as usize];
    assert_eq!(group.name, "ui");
    assert_eq!(plan.groups[group.parent.unwrap() as usize].name, "fg");

    // The forked thread brings its own parameters.
    let child = plan.programs.iter().find(|p| p.name == "Child").unwrap();
    assert_eq!(child.ops[0], Op::SetSched(Sched::Batch { nice: 5 }));
    assert_eq!(
        child.ops[2..],
        [
            Op::Run {
                work: Dur::Fixed(Ns(100)),
                mode: Mode::User,
                cond_resched: None
            },
            Op::Run {
                work: Dur::Fixed(Ns(100)),
                mode: Mode::Kernel,
                cond_resched: None
            },
            Op::SemPost(schedlab_sim::program::SemId(0)),
        ]
    );

    let warned: Vec<String> = app.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warned,
        [
            "w.json:59:2: `resources`: has no effect: resources are made as they are named",
            "w.json:60:43: `global.pi_enabled`: has no effect: mutexes have no priority inheritance in the simulation",
            "w.json:60:31: `global.frag`: has no effect: a key of old versions of rt-app",
        ]
    );
}

#[test]
fn instances_count_up_and_share_only_what_is_not_unique() {
    let app = parse(
        r#"{"tasks": {
            "a": {"instance": 2, "run": 10, "barrier": "b", "timer": {"ref": "unique", "period": 100}},
            "c": {"run": 10, "barrier": "b", "timer": {"ref": "shared", "period": 100}, "delay": 250},
            "d": {"run": 10, "timer": {"ref": "shared", "period": 100}}}}"#,
    );
    let comms: Vec<&str> = app.plan.tasks.iter().map(|t| t.comm.as_str()).collect();
    assert_eq!(comms, ["a-0", "a-1", "c-2", "d-3"]);
    assert_eq!(app.plan.barriers, [3]);
    assert_eq!(app.plan.timers, 3);
    assert_eq!(app.plan.tasks[2].start, Ns::from_us(250));
    let warned: Vec<String> = app.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warned,
        [
            "w.json:3:55: `tasks.c.timer`: 2 threads share this timer in rt-app; here each has its own, as with a name \
          that begins with `unique`"
        ]
    );
}

#[test]
fn a_sync_without_the_mutex_takes_it() {
    let app = parse(r#"{"tasks": {"t": {"loop": 1, "sync": {"ref": "c", "mutex": "m"}}}}"#);
    assert!(matches!(
        ops(&app.plan, "t-0"),
        [
            Op::Lock(_),
            Op::Signal(_),
            Op::Wait { lock: Some(_), .. },
            Op::Unlock(_)
        ]
    ));
}

#[test]
fn times_are_whole_microseconds_or_an_error() {
    let wanted =
        "expected a whole number of microseconds (an integer of 0 or more, without a unit), found";
    assert_eq!(
        event_error("  \"run\": 8000.5"),
        format!("w.json:2:10: `tasks.t.run`: {wanted} the number 8000.5")
    );
    assert_eq!(
        event_error("  \"run\": \"8ms\""),
        format!("w.json:2:10: `tasks.t.run`: {wanted} the string \"8ms\"")
    );
    assert_eq!(
        event_error("\"run\": 1,\n\"sleep2\": -3"),
        format!("w.json:3:11: `tasks.t.sleep2`: {wanted} -3")
    );
    assert_eq!(
        event_error("\"run\": 99999999999999999999"),
        format!("w.json:2:8: `tasks.t.run`: {wanted} the number 99999999999999999999")
    );
    assert_eq!(
        event_error("\"delay\": null, \"run\": 1"),
        format!("w.json:2:10: `tasks.t.delay`: {wanted} null")
    );
}

#[test]
fn a_zero_period_and_an_unknown_mode_are_errors() {
    assert_eq!(
        event_error("\"run\": 5, \"timer\": {\"ref\": \"u\", \"period\": 0}"),
        "w.json:2:43: `tasks.t.timer.period`: expected a whole number of microseconds above 0, found 0"
    );
    assert_eq!(
        event_error("\"timer\": {\"ref\": \"u\", \"period\": 5, \"mode\": \"abs\"}"),
        "w.json:2:44: `tasks.t.timer.mode`: expected \"relative\" or \"absolute\", found the string \"abs\""
    );
    assert_eq!(
        event_error("\"timer\": {\"ref\": \"u\"}"),
        "w.json:2:10: `tasks.t.timer.period` is missing; expected a whole number of microseconds above 0"
    );
}

#[test]
fn unknown_keys_are_named_where_they_stand() {
    assert!(event_error("\"run\": 5,\n \"prioritty\": 3").starts_with(
        "w.json:3:2: unknown key `tasks.t.prioritty`; did you mean `priority`?; expected one of: "
    ));
    assert_eq!(
        error("{\"tasks\": {\"t\": {\"run\": 1}}, \"globals\": {}}"),
        "w.json:1:30: unknown key `globals`; did you mean `global`?; expected one of: tasks, global, resources"
    );
    assert!(
        error("{\"tasks\": {\"t\": {\"run\": 1}}, \"global\": {\"durration\": 3}}")
            .starts_with("w.json:1:41: unknown key `global.durration`; did you mean `duration`?")
    );
}

#[test]
fn what_does_not_fit_the_machine_or_itself() {
    assert_eq!(
        event_error("\"run\": 5, \"cpus\": [0, 4]"),
        "w.json:2:23: `tasks.t.cpus[1]`: CPU 4 is outside the machine, which has CPUs 0 to 3"
    );
    assert_eq!(
        event_error("\"run\": 5, \"policy\": \"SCHED_FIFO\", \"priority\": 0"),
        "w.json:2:47: `tasks.t.priority`: expected a real-time priority from 1 to 99, found 0"
    );
    assert_eq!(
        event_error("\"run\": 5, \"policy\": \"SCHED_DEADLINE\""),
        "w.json:2:21: `tasks.t.policy`: SCHED_DEADLINE is not simulated; use another policy"
    );
    assert_eq!(
        event_error("\"run\": 5, \"unlock\": \"m\""),
        "w.json:2:21: `tasks.t.unlock`: the thread does not hold the mutex `m` here"
    );
    assert_eq!(
        event_error("\"run\": 5, \"run\": 6, \"loop\": 2, \"loop\": 3"),
        "w.json:2:32: `loop`: stands here a second time; the first is at w.json:2:21"
    );
    assert_eq!(
        event_error("\"suspend\": \"\""),
        "w.json:1:17: `tasks.t`: loops this long without an event that takes time (`run`, `sleep` or `timer`)"
    );
    assert_eq!(
        event_error("\"run\": 5, \"fork\": \"u\""),
        "w.json:2:19: `tasks.t.fork`: there is no thread `u`; expected one of: t"
    );
    assert_eq!(
        error("{\"global\": {}}"),
        "w.json:1:1: `tasks` is missing; expected an object of threads"
    );
    assert_eq!(
        error("{\"tasks\": {}}"),
        "w.json:1:11: `tasks` is missing; expected at least one thread"
    );
    assert_eq!(
        error("[1]"),
        "w.json:1:1: `the file`: expected an object with `tasks` and `global`, found an array"
    );
}

#[test]
fn a_template_that_nothing_forks_is_still_checked() {
    assert_eq!(
        error("{\"tasks\": {\"t\": {\"run\": 1}, \"u\": {\"instance\": 0,\n\"run\": \"x\"}}}")
            .split(',')
            .next(),
        Some(
            "w.json:2:8: `tasks.u.run`: expected a whole number of microseconds (an integer of 0 or more"
        )
    );
}

#[test]
fn events_beside_phases_are_warned_about() {
    let app = parse(r#"{"tasks": {"t": {"run": 1, "phases": {"p": {"run": 2}}}}}"#);
    let [Op::Loop { times: None, body }] = ops(&app.plan, "t-0") else {
        panic!("no loop")
    };
    assert_eq!(body[..], [run(2)]);
    assert_eq!(
        app.warnings[0].to_string(),
        "w.json:1:18: `tasks.t.run`: has no effect: events beside `phases` are not read"
    );
}
