//! The rules against recordings of a real kernel, and proof that the check can fail.

use std::path::PathBuf;

use schedlab_analysis::check::record::Record;
use schedlab_analysis::check::{CheckOptions, CheckReport, check_records};
use schedlab_fair::profile::{LagLimit, NrScope, Protection, TickRule, WakeupRule, YieldRule};
use schedlab_fair::{Feature, Profile};

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../conformance/recordings/6.12.117")
        .join(name)
}

fn load(name: &str) -> (Vec<Record>, CheckOptions) {
    let meta = std::fs::read_to_string(folder(name).join("meta.json")).expect("description");
    let options = CheckOptions::from_meta(&meta).expect("description");
    let mut reader = schedlab_trace::open(folder(name).join("trace.txt.xz")).expect("recording");
    let records = (&mut reader)
        .enumerate()
        .map(|(i, e)| Record::read(i as u64 + 1, &e.expect("event")).expect("record"))
        .collect();
    let report = reader.report();
    assert_eq!(
        report.unparsed_lines(),
        0,
        "{name}: every line is understood"
    );
    (records, options)
}

fn check(name: &str) -> CheckReport {
    let (records, options) = load(name);
    check_records(&records, &options)
}

/// Small recordings that between them meet every rule that the set proves.
const SMALL: [&str; 12] = [
    "hogs2_eq",
    "hogs2_slice",
    "hogs3_nice",
    "hogs3_noparity",
    "hogs_arrive",
    "hogs_renice",
    "sleeper_hog",
    "sleeper_nolag",
    "sleeper_short",
    "cg_max",
    "cg_nested",
    "policy_idle",
];

#[test]
fn every_value_of_the_small_recordings_agrees() {
    let mut total = 0;
    for name in SMALL {
        let report = check(name);
        assert!(report.agrees(), "{}", report.text(name));
        // State from before the start is the first few steps, no more.
        assert!(
            report.undecided_total() * 50 < report.records,
            "{}",
            report.text(name)
        );
        total += report.total();
    }
    assert!(total > 800_000, "{total} checks");
}

/// Breaks one rule and counts the differences in the recordings that should notice.
fn broken(names: &[&str], change: impl Fn(&mut Profile)) -> u64 {
    names
        .iter()
        .map(|name| {
            let (records, mut options) = load(name);
            change(&mut options.profile);
            check_records(&records, &options).differences
        })
        .sum()
}

fn feature(f: Feature, on: bool) -> impl Fn(&mut Profile) {
    move |p| *p = p.with_feature(f, on)
}

#[test]
fn a_broken_rule_is_noticed() {
    let sleepers = ["sleeper_hog", "sleepers_hogs"];
    assert!(
        broken(&sleepers, feature(Feature::PlaceLag, false)) > 0,
        "PLACE_LAG"
    );
    assert!(
        broken(&sleepers, feature(Feature::DelayDequeue, false)) > 0,
        "DELAY_DEQUEUE"
    );
    assert!(
        broken(&["pingpong_hog"], feature(Feature::DelayZero, false)) > 0,
        "DELAY_ZERO"
    );
    assert!(
        broken(&["sleeper_short"], feature(Feature::RunToParity, false)) > 0,
        "RUN_TO_PARITY"
    );
    assert!(
        broken(&["sleeper_short"], feature(Feature::PreemptShort, false)) > 0,
        "PREEMPT_SHORT"
    );
    assert!(
        broken(&["hogs_renice"], feature(Feature::PlaceRelDeadline, false)) > 0,
        "PLACE_REL_DEADLINE"
    );
    assert!(
        broken(&["hogs2_eq"], feature(Feature::PlaceDeadlineInitial, false)) > 0,
        "PLACE_DEADLINE_INITIAL"
    );
    assert!(
        broken(&sleepers, feature(Feature::WakeupPreemption, false)) > 0,
        "WAKEUP_PREEMPTION"
    );
    assert!(
        broken(&["cg_sleepers"], feature(Feature::PickBuddy, false)) > 0,
        "PICK_BUDDY"
    );
    assert!(
        broken(&["cg_nested"], |p| p.nr_scope = NrScope::Rq) > 0,
        "S1"
    );
    assert!(
        broken(&["cg_nested"], |p| p.nr_scope = NrScope::RootCfs) > 0,
        "S2"
    );
    assert!(
        broken(&["hogs3_slice"], |p| p.tick_rule = TickRule::Consumed) > 0,
        "tick rule"
    );
    assert!(
        broken(&["yield_hog"], |p| p.yield_rule = YieldRule::DeadlinePush) > 0,
        "Y1"
    );
    assert!(
        broken(&["yield_hog"], |p| p.yield_rule = YieldRule::Forfeit) > 0,
        "Y2"
    );
    assert!(
        broken(&["hogs3_slice"], |p| p.protection = Protection::MinSlice) > 0,
        "protection"
    );
    assert!(
        broken(&["hogs3_slice"], |p| p.wakeup_rule = WakeupRule::V617) > 0,
        "wakeup rule"
    );
    assert!(
        broken(&["hogs3_slice"], |p| p.lag_limit = LagLimit::MaxSlice) > 0,
        "lag limit"
    );
    assert!(
        broken(&["hogs3_slice"], |p| p.custom_slice = false) > 0,
        "custom slices"
    );
}

#[test]
fn a_changed_number_is_found_and_named() {
    let (mut records, options) = load("hogs2_eq");
    let at = records
        .iter()
        .rposition(|r| r.kind == schedlab_analysis::check::record::Kind::Place)
        .expect("a placement");
    records[at].tamper(schedlab_analysis::check::record::Field::Vr, 1);
    let report = check_records(&records, &options);
    assert_eq!(report.differences, 1, "{}", report.text("tampered"));
    let d = &report.first[0];
    assert_eq!(
        (d.kind, d.field, d.event),
        ("place", "vr", records[at].number)
    );
    assert!(report.text("tampered").contains("section 5.1"));
}
