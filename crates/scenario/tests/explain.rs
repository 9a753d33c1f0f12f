//! Explanations of simulated waits: every nanosecond has one cause, and the cause is the one that the scenario is
//! made for.

use std::path::{Path, PathBuf};

use schedlab_analysis::explain::{
    Cause, Confidence, Explanation, Options, Survey, WaitFinder, explain_all,
};
use schedlab_fair::Profile;
use schedlab_scenario::{Overrides, RunOptions, Scenario};
use schedlab_trace::Event;

fn events(scenario: &Scenario, state: bool) -> (Vec<Event>, Survey) {
    let mut events = Vec::new();
    let mut finder = WaitFinder::worst(1, None);
    scenario
        .run_with(RunOptions { state }, |e| {
            events.push(e.clone());
            finder.push(e);
        })
        .expect("run");
    let (_, survey, _) = finder.finish();
    assert_eq!(survey.state, state);
    (events, survey)
}

fn explained(scenario: &Scenario, state: bool) -> Vec<Explanation> {
    let (events, survey) = events(scenario, state);
    let options = Options::new(scenario.kernel.profile, scenario.machine.hz, &survey);
    explain_all(&events, &options).0
}

fn parse(text: &str) -> Scenario {
    Scenario::parse("test", text, Path::new(""), &Overrides::new()).expect("scenario")
}

fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["conformance/scenarios", "scenarios", "scenarios/cases"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(folder);
        for entry in std::fs::read_dir(root).expect("folder") {
            let path = entry.expect("entry").path();
            if path.extension().is_some_and(|e| e == "toml") {
                files.push(path);
            }
        }
    }
    files.sort();
    assert!(files.len() > 30);
    files
}

/// Segments follow each other from the wait's begin to its end, and the parts add up to it.
fn adds_up(x: &Explanation) {
    let mut at = x.start;
    for s in &x.segments {
        assert_eq!(s.start, at, "{}", x.text());
        assert!(s.end > s.start, "{}", x.text());
        at = s.end;
    }
    assert_eq!(at, x.end, "{}", x.text());
    assert_eq!(x.parts.iter().map(|p| p.ns).sum::<u64>(), x.ns());
}

#[test]
fn parts_add_up_in_every_scenario() {
    let mut waits = 0;
    for path in files() {
        let mut overrides = Overrides::new();
        overrides.push("duration=10ms").expect("override");
        let scenario = Scenario::load(&path, &overrides).expect("scenario");
        for state in [true, false] {
            let all = explained(&scenario, state);
            waits += all.len();
            for x in &all {
                adds_up(x);
            }
            // What a simulation records leaves nothing open.
            let sure = |x: &Explanation| x.parts.iter().all(|p| p.confidence == Confidence::Known);
            if state && scenario.kernel.profile.name != "6.1" {
                let unsure = all.iter().find(|x| !sure(x));
                assert!(
                    unsure.is_none(),
                    "{}: {}",
                    path.display(),
                    unsure.unwrap().text()
                );
            }
        }
    }
    assert!(waits > 1000, "{waits}");
}

/// Time of one task's waits by cause, longest first.
fn causes(all: &[Explanation], task: &str) -> Vec<(Cause, u64)> {
    let mut out: Vec<(Cause, u64)> = Vec::new();
    for p in all
        .iter()
        .filter(|x| x.task.comm == task)
        .flat_map(|x| &x.parts)
    {
        match out.iter_mut().find(|(c, _)| *c == p.cause) {
            Some((_, ns)) => *ns += p.ns,
            None => out.push((p.cause, p.ns)),
        }
    }
    out.sort_by_key(|&(_, ns)| std::cmp::Reverse(ns));
    out
}

/// The cause that a scenario is made for must be the longest of the task's waits.
fn mainly(text: &str, task: &str, cause: Cause) -> Vec<Explanation> {
    let all = explained(&parse(text), true);
    all.iter().for_each(adds_up);
    let causes = causes(&all, task);
    assert_eq!(causes.first().map(|c| c.0), Some(cause), "{causes:?}");
    all
}

const HOG: &str = "[[task]]\nname = \"hog\"\nkind = \"hog\"\n";

fn one_cpu(kernel: &str, tasks: &str) -> String {
    format!(
        "machine = {{ preset = \"flat-1\", hz = 250 }}\nduration = \"500ms\"\n[kernel]\n{kernel}\n{tasks}"
    )
}

#[test]
fn behind_real_time() {
    let text = one_cpu(
        "",
        "[[task]]\nname = \"rt\"\npolicy = \"fifo\"\nrt_priority = 50\nkind = \"periodic\"\nrun = \"8ms\"\nperiod = \"10ms\"\n\
         [[task]]\nname = \"x\"\nkind = \"hog\"\n",
    );
    let all = mainly(&text, "x", Cause::HigherClass);
    let part = &all.iter().find(|x| x.task.comm == "x").unwrap().parts[0];
    assert_eq!(part.behind.as_ref().unwrap().comm, "rt");
}

#[test]
fn throttled() {
    for profile in ["6.12-stable", "6.18"] {
        let text = one_cpu(
            &format!("profile = \"{profile}\""),
            "[[group]]\nname = \"g\"\nquota = \"10ms\"\nperiod = \"50ms\"\n\
             [[task]]\nname = \"x\"\nkind = \"hog\"\ngroup = \"g\"\n",
        );
        mainly(&text, "x", Cause::Throttled);
    }
}

#[test]
fn slice_protection() {
    let text = one_cpu(
        "base_slice = \"40ms\"",
        &format!("{HOG}[[task]]\nname = \"x\"\nkind = \"hog\"\n"),
    );
    let all = mainly(&text, "x", Cause::Protected);
    let x = all.iter().find(|x| {
        x.task.comm == "x" && x.parts.first().is_some_and(|p| p.cause == Cause::Protected)
    });
    assert!(x.unwrap().text().contains("was protected by its slice"));
}

#[test]
fn tick_granularity() {
    let text = one_cpu(
        "base_slice = \"100us\"",
        &format!("{HOG}[[task]]\nname = \"x\"\nkind = \"hog\"\n"),
    );
    mainly(&text, "x", Cause::Tick);
}

#[test]
fn not_eligible() {
    // A light task runs ahead of its share with every tick.
    let text = one_cpu(
        "",
        &format!("{HOG}[[task]]\nname = \"x\"\nkind = \"hog\"\nnice = 15\n"),
    );
    mainly(&text, "x", Cause::Ineligible);
}

#[test]
fn later_deadline() {
    let text = one_cpu(
        "",
        "[[task]]\nname = \"x\"\nkind = \"hog\"\nslice = \"100ms\"\n\
         [[task]]\nname = \"short\"\nkind = \"hog\"\ncount = 3\nslice = \"4ms\"\n",
    );
    let all = explained(&parse(&text), true);
    let first = all.iter().find(|x| x.task.comm == "x").unwrap();
    assert!(
        first.parts.iter().any(|p| p.cause == Cause::LaterDeadline),
        "{}",
        first.text()
    );
}

#[test]
fn a_request_that_is_not_honoured() {
    let text = |preempt: &str| {
        one_cpu(
            &format!("profile = \"6.15\"\npreempt = \"{preempt}\""),
            "[[task]]\nname = \"hog\"\nprogram = [{ loop = \"forever\", steps = [\"run 30ms kernel\", \"run 1us\"] }]\n\
             [[task]]\nname = \"x\"\nnice = -20\nslice = \"100us\"\nkind = \"periodic\"\nrun = \"100us\"\nperiod = \"50ms\"\n",
        )
    };
    mainly(&text("none"), "x", Cause::NeedResched);
    mainly(&text("lazy"), "x", Cause::NeedResched);
    let full = explained(&parse(&text("full")), true);
    let asked = causes(&full, "x")
        .into_iter()
        .find(|c| c.0 == Cause::NeedResched);
    assert!(asked.is_none_or(|(_, ns)| ns == 0), "{asked:?}");
}

#[test]
fn a_lock() {
    let text = one_cpu(
        "",
        "[[task]]\nname = \"holder\"\nprogram = [{ loop = \"forever\", steps = [\"lock l\", \"sleep 20ms\", \"unlock l\", \"sleep 1ms\"] }]\n\
         [[task]]\nname = \"x\"\nprogram = [{ loop = \"forever\", steps = [\"lock l\", \"run 100us\", \"unlock l\", \"sleep 500us\"] }]\n",
    );
    let all = mainly(&text, "x", Cause::Lock);
    let x = all
        .iter()
        .find(|x| x.task.comm == "x" && x.parts.first().is_some_and(|p| p.cause == Cause::Lock));
    assert_eq!(x.unwrap().parts[0].behind.as_ref().unwrap().comm, "holder");
}

/// A sleeper whose dequeue is delayed is woken in place, whatever the other CPU does.
#[test]
fn another_cpu_is_idle() {
    let text = |cpus: &str| {
        format!(
            "machine = {{ preset = \"flat-2\", hz = 250 }}\nduration = \"500ms\"\n[kernel]\nbase_slice = \"20ms\"\n\
             [[task]]\nname = \"hog\"\nkind = \"hog\"\ncpus = \"0\"\n\
             [[task]]\nname = \"x\"\n\
             program = [\"cpus 0\", \"run 1ms\", \"cpus {cpus}\", {{ loop = \"forever\", steps = [\"run 15ms\", \"sleep 100us\"] }}]\n"
        )
    };
    let free = explained(&parse(&text("0-1")), true);
    let elsewhere = |all: &[Explanation]| {
        let found = causes(all, "x")
            .into_iter()
            .find(|c| c.0 == Cause::IdleElsewhere);
        found.map_or(0, |c| c.1)
    };
    assert!(elsewhere(&free) > 0, "{:?}", causes(&free, "x"));
    // Pinned, the idle CPU is none of its business.
    let pinned = explained(&parse(&text("0")), true);
    assert_eq!(elsewhere(&pinned), 0);
}

#[test]
fn being_woken_takes_an_interrupt() {
    let text = "machine = \"desktop-8\"\nduration = \"100ms\"\n[kernel]\n\
         [[channel]]\nname = \"c\"\n\
         [[task]]\nname = \"a\"\ncpus = \"0\"\nprogram = [{ loop = \"forever\", steps = [\"run 1ms\", \"send c 64\"] }]\n\
         [[task]]\nname = \"x\"\ncpus = \"4\"\nprogram = [{ loop = \"forever\", steps = [\"recv c 64\", \"run 10us\"] }]\n";
    mainly(text, "x", Cause::WakingIpi);
}

#[test]
fn the_profile_matters_to_inference_only() {
    let scenario = parse(&one_cpu(
        "",
        &format!("{HOG}[[task]]\nname = \"x\"\nkind = \"hog\"\nnice = 3\n"),
    ));
    let (events, survey) = events(&scenario, true);
    let with = |p: &str| {
        let profile = Profile::by_name(p).unwrap();
        explain_all(&events, &Options::new(profile, 250, &survey)).0
    };
    assert_eq!(with("6.12-stable"), with("6.18"));
}
