//! Built-in studies, example scenarios, and what is said of wrong studies.

use std::path::Path;

use schedlab_fair::Feature;
use schedlab_fair::profile::{NrScope, TickRule};
use schedlab_scenario::{Overrides, Scenario, Study, list};

fn overrides(options: &[&str]) -> Overrides {
    let mut overrides = Overrides::new();
    for option in options {
        overrides.push(option).unwrap();
    }
    overrides
}

#[test]
fn wakeup_preempt_compares_the_four_rules_of_the_thread() {
    let study = Study::find("wakeup-preempt").unwrap();
    let labels: Vec<&str> = study.variants.iter().map(|v| v.label.as_str()).collect();
    assert_eq!(
        labels,
        [
            "base",
            "rq->nr_running",
            "rq->cfs.nr_running",
            "cfs_rq->nr_running"
        ]
    );
    let rules: Vec<_> = (0..4)
        .map(|v| {
            let p = study
                .scenario(v, &Overrides::new(), 0)
                .unwrap()
                .kernel
                .profile;
            (
                p.tick_rule,
                p.nr_scope,
                p.features.has(Feature::PreemptShort),
            )
        })
        .collect();
    assert_eq!(
        rules,
        [
            (TickRule::Consumed, NrScope::CfsRq, false),
            (TickRule::ConsumedOrShort, NrScope::Rq, true),
            (TickRule::ConsumedOrShort, NrScope::RootCfs, true),
            (TickRule::ConsumedOrShort, NrScope::CfsRq, true),
        ]
    );
    // The tasks lie in nested groups: there the scopes differ.
    let s = study.scenario(0, &Overrides::new(), 0).unwrap();
    assert_eq!(s.plan.groups.len(), 3);
    assert!(s.plan.tasks.iter().all(|t| t.group == Some(2)));
    assert_eq!((s.machine.cpus(), s.plan.tasks.len()), (16, 8 * 40 + 1));
}

#[test]
fn the_users_changes_reach_all_variants_and_runs_differ_by_seed_alone() {
    let study = Study::find("wakeup-preempt").unwrap();
    let set = overrides(&["machine=spr-224", "kernel.nr_scope=rq", "workload.loops=3"]);
    for variant in 0..4 {
        let s = study.scenario(variant, &set, 0).unwrap();
        assert_eq!(
            (
                s.machine.cpus(),
                s.workload.unwrap().groups,
                s.workload.unwrap().loops
            ),
            (224, 112, 3)
        );
    }
    assert_eq!(
        study.scenario(3, &set, 0).unwrap().kernel.profile.nr_scope,
        NrScope::CfsRq
    );
    let (a, b) = (
        study.scenario(1, &set, 0).unwrap(),
        study.scenario(1, &set, 4).unwrap(),
    );
    assert_eq!((a.seed, b.seed), (1, 5));
    assert_eq!(Scenario { seed: 1, ..b }, a);
    assert_eq!(
        study.scenario(1, &overrides(&["seed=9"]), 2).unwrap().seed,
        11
    );
}

#[test]
fn example_scenarios_load() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.is_file())
        .collect();
    files.sort();
    assert!(files.len() >= 4);
    for file in files {
        let s = Scenario::load(&file, &Overrides::new()).unwrap_or_else(|e| panic!("{e}"));
        assert!(!s.plan.tasks.is_empty());
        assert_eq!(s.warnings, []);
    }
}

#[test]
fn lists_are_whole() {
    assert_eq!(list::features().len(), Feature::ALL.len());
    assert!(list::profiles().iter().any(|p| p.name == "6.12-stable"));
    assert!(list::machines().iter().any(|m| m.name == "spr-224"));
    assert!(list::workloads().iter().any(|w| w.name == "hackbench"));
    assert_eq!(list::studies().unwrap()[0].name, "wakeup-preempt");
    let all = [
        list::features(),
        list::profiles(),
        list::machines(),
        list::workloads(),
    ]
    .concat();
    assert!(
        all.iter()
            .all(|l| !l.name.is_empty() && !l.about.is_empty())
    );
}

const STUDY: &str = r#"
name = "s"
title = "t"
question = "q"
program = "p"
machine = "flat-1"
[[variant]]
name = "a"
[[variant]]
name = "b"
set = { kernel.preempt = "full", task.hog.nice = 3 }
[[scenario.task]]
name = "hog"
kind = "hog"
"#;

fn error(from: &str, to: &str) -> String {
    assert!(STUDY.contains(from));
    Study::parse("s.toml", &STUDY.replace(from, to), Path::new(""))
        .unwrap_err()
        .to_string()
}

#[test]
fn wrong_studies() {
    assert!(Study::parse("s.toml", STUDY, Path::new("")).is_ok());
    assert_eq!(
        error("flat-1", "turing").split("; expected").next(),
        Some("s.toml:6:11: `machine`: there is no machine `turing`")
    );
    assert!(
        error("\"full\"", "\"ful\"")
            .starts_with("s.toml:11:26: `kernel.preempt`: there is no preempt `ful`; did you mean")
    );
    assert_eq!(
        error("task.hog", "task.hgo"),
        "s.toml:11:50: `task.hgo.nice`: nothing is called `hgo` there; did you mean `hog`?; the names are: hog"
    );
    assert_eq!(
        error("[[variant]]\nname = \"a\"", ""),
        "s.toml:8:1: `variant`: a study compares at least two variants"
    );
    assert_eq!(
        error("name = \"b\"", "name = \"a\""),
        "s.toml:10:8: `variant[1].name`: the name `a` is used twice"
    );
    assert!(
        error("kind = \"hog\"", "kind = \"hgo\"")
            .starts_with("s.toml:14:8: `task[0].kind`: there is no kind of task")
    );
    assert_eq!(
        error("question = \"q\"", ""),
        "s.toml:1:1: `question` is missing; expected the question that the study answers"
    );
    let none = Study::find("wakeup-premept").unwrap_err().to_string();
    assert_eq!(
        none,
        "there is no study `wakeup-premept`, neither built in nor as a file; did you mean `wakeup-preempt`?; \
         expected one of: wakeup-preempt"
    );
}
