//! The state records of a simulation: the check of a kernel's recordings must agree with every one of them, whatever
//! the rules, and asking for them must change nothing.

use std::path::{Path, PathBuf};

use schedlab_analysis::check::record::Record;
use schedlab_analysis::check::{CheckOptions, CheckReport, check_records};
use schedlab_scenario::{Overrides, RunOptions, Scenario};

fn scenarios(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(root)
        .expect("folder")
        .map(|e| e.expect("entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn load(path: &Path, set: &[&str]) -> Scenario {
    let mut overrides = Overrides::new();
    for s in set {
        overrides.push(s).expect("override");
    }
    Scenario::load(path, &overrides).expect("scenario")
}

fn checked(scenario: &Scenario) -> CheckReport {
    let mut options = CheckOptions::default();
    let mut records = Vec::new();
    let mut unread = 0;
    scenario
        .run_with(RunOptions { state: true }, |event| {
            if let Some(told) = CheckOptions::from_mark(event) {
                options = told.expect("mark");
            }
            match Record::read(records.len() as u64 + 1, event) {
                Some(r) => records.push(r),
                None => unread += 1,
            }
        })
        .expect("run");
    assert_eq!(unread, 0);
    check_records(&records, &options)
}

#[test]
fn the_check_agrees_with_every_scenario() {
    for folder in ["conformance/scenarios", "scenarios", "scenarios/cases"] {
        for path in scenarios(folder) {
            let report = checked(&load(&path, &["duration=30ms"]));
            let text = report.text(&path.display().to_string());
            assert!(report.agrees(), "{text}");
        }
    }
}

/// Not 6.1: what a sleeper's placement there depends on (when it last ran) is in no record.
#[test]
fn the_check_agrees_with_every_profile() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/scenarios/cg_sleepers.toml");
    for profile in [
        "6.6", "6.8", "6.12.0", "6.13", "6.15", "6.17", "6.18", "6.19", "7.0",
    ] {
        let set = [&format!("kernel.profile={profile}"), "duration=100ms"];
        let report = checked(&load(&path, &set));
        assert!(report.agrees(), "{}", report.text(profile));
    }
}

#[test]
fn records_change_nothing() {
    for path in scenarios("scenarios/cases") {
        let scenario = load(&path, &["duration=50ms"]);
        let run = |state| {
            let mut known = Vec::new();
            let outcome = scenario
                .run_with(RunOptions { state }, |event| {
                    if event.kind.known_index().is_some() {
                        known.push(event.clone());
                    }
                })
                .expect("run");
            (known, outcome.result.tasks, outcome.result.cpus)
        };
        assert!(run(false) == run(true), "{}", path.display());
    }
}
