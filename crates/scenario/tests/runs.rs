//! Scenarios and studies simulated: what comes out of whole runs.

use std::path::Path;

use schedlab_fair::Ns;
use schedlab_scenario::{Overrides, RunOutcome, Scenario, Study, run_study};
use schedlab_trace::event::EventKind;

fn overrides(options: &[&str]) -> Overrides {
    let mut overrides = Overrides::new();
    for option in options {
        overrides.push(option).unwrap();
    }
    overrides
}

fn scenario(text: &str, options: &[&str]) -> Scenario {
    Scenario::parse("s.toml", text, Path::new(""), &overrides(options)).unwrap()
}

/// A scenario's outcome and its events as text.
fn trace(s: &Scenario) -> (RunOutcome, Vec<String>) {
    let mut events = Vec::new();
    let outcome = s.run(|e| events.push(format!("{e:?}"))).unwrap();
    (outcome, events)
}

const HACKBENCH: &str = r#"
machine = "study-16"
start_jitter = "1ms"
[[group]]
name = "job"
[workload]
hackbench = { groups = 2, fds = 5, loops = 30, group = "job" }
"#;

#[test]
fn hackbench_receives_every_message_in_all_its_modes() {
    for options in [
        [
            "workload.pipe=false",
            "workload.threads=false",
            "machine=study-16",
        ],
        [
            "workload.pipe=true",
            "workload.threads=false",
            "machine=study-16",
        ],
        [
            "workload.pipe=false",
            "workload.threads=true",
            "machine=flat-1",
        ],
        [
            "workload.pipe=true",
            "workload.threads=true",
            "machine=flat-3",
        ],
    ] {
        let s = scenario(HACKBENCH, &options);
        let outcome = s.run(|_| {}).unwrap();
        let h = s.workload.unwrap();
        assert!(
            outcome.result.ended && !outcome.result.deadlock,
            "{options:?}"
        );
        assert_eq!(outcome.result.work, h.messages(), "{options:?}");
        let time = outcome.workload_time.unwrap();
        assert!(time < outcome.result.end && time > Ns::ZERO);
        // No message is free: the CPUs cannot have been faster than all costs at full use.
        let work = h.messages() * (h.costs.send.0 + h.costs.recv.0 + 2 * h.costs.user.0);
        assert!(time.0 >= work / u64::from(s.machine.cpus()), "{options:?}");
        let output = outcome.output.unwrap();
        assert!(
            output.starts_with("Running in ") && output.contains("\nTime: 0.0"),
            "{output}"
        );
    }
}

#[test]
fn hackbench_charges_what_its_document_says() {
    // One group of one pair on one CPU: nothing but the messages and the scheduler.
    let s = scenario(
        HACKBENCH,
        &[
            "machine=flat-1",
            "workload.groups=1",
            "workload.fds=1",
            "workload.loops=100",
        ],
    );
    let outcome = s.run(|_| {}).unwrap();
    let sum = |f: fn(&schedlab_sim::TaskStats) -> u64| {
        outcome
            .result
            .tasks
            .iter()
            .map(|t| f(&t.stats))
            .sum::<u64>()
    };
    assert_eq!(sum(|s| s.user), 100 * 2 * 73);
    assert_eq!(sum(|s| s.system), 100 * (1_200 + 1_480));
    // With a cost profile the entry into the kernel is part of the read's cost, not on top of it.
    let with = scenario(
        HACKBENCH,
        &[
            "machine=flat-1",
            "workload.groups=1",
            "workload.fds=1",
            "workload.loops=100",
            "costs.syscall=100ns",
        ],
    );
    let outcome = with.run(|_| {}).unwrap();
    let system: u64 = outcome.result.tasks.iter().map(|t| t.stats.system).sum();
    // Nine more calls start and end the three tasks; a read that has to wait enters once all the same.
    assert_eq!(
        system,
        100 * (1_200 + 1_480) + calls_beside_messages() * 100
    );
}

/// Main: two waits each for ready and done, two posts, exit; workers: ready, go, done, exit.
fn calls_beside_messages() -> u64 {
    2 + 2 + 2 + 1 + 2 * 4
}

#[test]
fn a_run_cut_short_claims_no_headline_figure() {
    let s = scenario(HACKBENCH, &["workload.loops=3000", "duration=2ms"]);
    let outcome = s.run(|_| {}).unwrap();
    assert!(!outcome.result.ended);
    assert_eq!(outcome.workload_time, None);
    assert!(outcome.figures.iter().all(|f| f.name != "throughput"));
    assert!(!outcome.output.unwrap().contains("Time"));
}

#[test]
fn the_seed_alone_decides() {
    let (first, events) = trace(&scenario(HACKBENCH, &["seed=5"]));
    let (again, same) = trace(&scenario(HACKBENCH, &["seed=5"]));
    assert_eq!(first, again);
    assert_eq!(events, same);
    let (_, other) = trace(&scenario(HACKBENCH, &["seed=6"]));
    assert_ne!(events, other);
}

#[test]
fn the_duty_cycle_of_rt_app_is_exact() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/duty.json");
    let s = Scenario::load(&path, &Overrides::new()).unwrap();
    let mut wakings = Vec::new();
    let outcome = s
        .run(|e| {
            if let EventKind::SchedWaking { .. } = e.kind {
                wakings.push(e.ts);
            }
        })
        .unwrap();
    assert_eq!(outcome.result.tasks[0].run, Ns::from_ms(1_000));
    // Half of each period is work: 8 ms of 16 ms, without a nanosecond of drift.
    assert_eq!(wakings.len(), 125);
    assert!(
        wakings.windows(2).all(|w| w[1] - w[0] == 16_000_000),
        "{wakings:?}"
    );
}

#[test]
fn tasks_start_where_the_scenario_says() {
    let s = scenario(
        "machine = \"flat-2\"\n[[task]]\nname = \"a\"\ncount = 2\ncpus = 1\nstart = \"3ms\"\nspacing = \"2ms\"\n\
         program = [\"run 1ms\"]\n",
        &[],
    );
    let (outcome, _) = trace(&s);
    assert_eq!(outcome.result.last_exit, Ns::from_ms(6));
    assert_eq!(outcome.result.cpus[0].user, 0);
    assert_eq!(outcome.result.cpus[1].user, 2_000_000);
}

const STUDY: &str = r#"
name = "s"
title = "t"
question = "q"
program = "hackbench"
machine = "flat-4"
[[variant]]
name = "base"
[[variant]]
name = "b"
set = { kernel.features = ["NO_RUN_TO_PARITY"] }
[scenario]
start_jitter = "1ms"
costs = "xeon-2s"
[scenario.workload.hackbench]
groups = 2
fds = 4
loops = 20
"#;

#[test]
fn a_study_gives_the_same_for_any_number_of_jobs() {
    let study = Study::parse("s.toml", STUDY, Path::new("")).unwrap();
    let done = std::sync::atomic::AtomicU32::new(0);
    let count = || {
        done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    };
    let run = |jobs| run_study(&study, &Overrides::new(), 3, Some(jobs), &count).unwrap();
    let (one, two, five) = (run(1), run(2), run(5));
    assert_eq!(one, two);
    assert_eq!(one, five);
    assert_eq!(done.into_inner(), 3 * 2 * 3);
}

#[test]
fn a_study_names_the_variant_that_fails() {
    let text = STUDY.replace(
        "kernel.features = [\"NO_RUN_TO_PARITY\"]",
        "workload.loops = 20, machine.cpus = 0",
    );
    let e = Study::parse("s.toml", &text, Path::new("")).unwrap_err();
    assert!(e.to_string().starts_with("s.toml:11:"), "{e}");
}
