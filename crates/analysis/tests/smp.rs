//! Placement and balancing against recordings of a real kernel, and proof that the check can fail.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use schedlab_analysis::check::smp::{SmpCheck, SmpOptions, SmpReport, kernel_domains};
use schedlab_balance::{DomainFlags, Domains};
use schedlab_fair::Feature;
use schedlab_trace::event::{Event, EventKind};

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../conformance/smp/6.12.117")
        .join(name)
}

/// The texts of a machine's topology: as printed, and files.
fn texts(machine: &str) -> (String, String) {
    let file = std::fs::File::open(folder(machine).join("topology.tar.xz")).expect("topology");
    let mut archive = tar::Archive::new(liblzma::read::XzDecoder::new(file));
    let mut found = BTreeMap::new();
    for entry in archive.entries().expect("archive") {
        let mut entry = entry.expect("entry");
        let path = entry.path().expect("path").into_owned();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.ends_with(".txt") {
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("text");
            found.insert(name, text);
        }
    }
    (
        found["dmesg-domains.txt"].clone(),
        found["domains.txt"].clone(),
    )
}

fn domains(machine: &str) -> Domains {
    let (printed, files) = texts(machine);
    kernel_domains(&printed, &files).expect("domains")
}

fn events(name: &str) -> Vec<Event> {
    let mut reader = schedlab_trace::open(folder(name).join("trace.txt.xz")).expect("recording");
    let events = (&mut reader).map(|e| e.expect("event")).collect();
    assert_eq!(
        reader.report().unparsed_lines(),
        0,
        "{name}: every line is understood"
    );
    events
}

fn options(name: &str) -> SmpOptions {
    let meta = std::fs::read_to_string(folder(name).join("meta.json")).expect("description");
    SmpOptions::from_meta(&meta).expect("description")
}

fn run(domains: &Domains, options: SmpOptions, events: &[Event]) -> Result<SmpReport, String> {
    let mut check = SmpCheck::new(domains, options);
    for (i, event) in events.iter().enumerate() {
        check.feed(i as u64 + 1, event)?;
    }
    Ok(check.finish())
}

fn check(name: &str) -> SmpReport {
    let machine = name.split('/').next().expect("machine");
    run(&domains(machine), options(name), &events(name)).expect("probes")
}

const ALL: [&str; 19] = [
    "flat2/aff_change",
    "flat2/hb1_pipe",
    "flat2/hogs_n1",
    "flat2/hogs_n1_st",
    "flat2/idle_bg",
    "flat2/per10_2n",
    "numa8/cg_every",
    "numa8/hogs_2n",
    "numa8/mix",
    "numa8/nice_mix",
    "numa8/pp_half",
    "numa8/pp_n",
    "smt4/cg_every",
    "smt4/hb2_pipe",
    "smt4/hogs_n1",
    "smt4/hogs_n1_st",
    "smt4/nice_mix",
    "smt4/pin_cpu",
    "smt4/wake16",
];

#[test]
fn the_recordings_agree_but_for_what_changed_behind_the_probes() {
    let mut all = SmpReport::default();
    for name in ALL {
        let report = check(name);
        let wrong = report.differences() * 100;
        assert!(wrong <= report.total(), "{}", report.text(name));
        all.add(&report);
    }
    // Kinds that read nothing but recorded values agree without exception.
    for kind in [
        "avg_idle",
        "can_migrate",
        "group type",
        "imbalance",
        "interval",
        "recent_used_cpu",
        "active balance",
    ] {
        assert_eq!(all.decisions[kind].differ, 0, "{kind}");
        assert!(all.decisions[kind].agree > 200, "{kind}");
    }
    insta::assert_snapshot!(all.text("19 recordings"));
}

/// Differences of a kind. A wakeup differs in its choice or in the tests on the way.
fn differing(report: &SmpReport, kind: &str) -> u64 {
    let one = |kind| report.decisions.get(kind).map_or(0, |t| t.differ);
    match kind {
        "wakeup" => one("wakeup") + one("tests of a wakeup"),
        _ => one(kind),
    }
}

/// Differences of a kind when a recording is checked by changed rules.
fn broken(name: &str, kind: &str, change: impl Fn(&mut SmpOptions)) -> u64 {
    let machine = name.split('/').next().expect("machine");
    let mut options = options(name);
    change(&mut options);
    let report = run(&domains(machine), options, &events(name)).expect("probes");
    differing(&report, kind)
}

fn without(f: Feature) -> impl Fn(&mut SmpOptions) {
    move |o| o.features = o.features.with(f, false)
}

#[test]
fn a_switched_rule_is_noticed() {
    let mut missed = Vec::new();
    for (name, kind, feature) in [
        ("smt4/pin_cpu", "wakeup", Feature::WaIdle),
        ("flat2/per10_2n", "wakeup", Feature::WaWeight),
        ("smt4/hb2_pipe", "wakeup", Feature::WaBias),
        ("numa8/mix", "wakeup", Feature::SisUtil),
        ("flat2/per10_2n", "ttwu_queue", Feature::TtwuQueue),
        ("numa8/mix", "newidle levels", Feature::NiRandom),
    ] {
        let before = differing(&check(name), kind);
        let after = broken(name, kind, without(feature));
        if after <= before {
            missed.push(format!(
                "{name}: {kind} without {}: {after} after {before}",
                feature.name()
            ));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn a_changed_setting_is_noticed() {
    let cost = |ns| move |o: &mut SmpOptions| o.migration_cost = ns;
    let all = |ns| -> u64 { ALL.iter().map(|n| broken(n, "can_migrate", cost(ns))).sum() };
    assert_eq!(all(500_000), 0);
    assert!(all(0) > 0, "none is hot");
    assert!(all(5_000_000) > 0, "hot for longer");
    let hz = |o: &mut SmpOptions| o.hz = 1000;
    assert!(broken("flat2/idle_bg", "periodic levels", hz) > 0, "HZ");
}

/// Differences of one kind when the machine's description is changed.
fn other_machine(name: &str, kind: &str, from: &str, to: &str) -> u64 {
    let machine = name.split('/').next().expect("machine");
    let (printed, files) = texts(machine);
    assert!(files.contains(from), "{from}");
    let domains = kernel_domains(&printed, &files.replace(from, to)).expect("domains");
    let report = run(&domains, options(name), &events(name)).expect("probes");
    differing(&report, kind)
}

#[test]
fn a_wrong_domain_is_noticed() {
    let mut missed = Vec::new();
    for (name, kind, from, to) in [
        (
            "numa8/cg_every",
            "group type",
            "imbalance_pct:117",
            "imbalance_pct:150",
        ),
        ("smt4/nice_mix", "prefer_sibling", "SD_PREFER_SIBLING", ""),
        ("smt4/wake16", "wakeup", "SD_SHARE_CPUCAPACITY", ""),
        (
            "flat2/idle_bg",
            "active balance",
            "cache_nice_tries:1",
            "cache_nice_tries:9",
        ),
        (
            "flat2/aff_change",
            "interval",
            "max_interval:4",
            "max_interval:64",
        ),
        (
            "flat2/idle_bg",
            "periodic levels",
            "busy_factor:16",
            "busy_factor:2",
        ),
        ("numa8/hogs_2n", "imbalance", "SD_NUMA", ""),
        ("flat2/per10_2n", "wakeup", "SD_WAKE_AFFINE", ""),
    ] {
        let before = differing(&check(name), kind);
        let after = other_machine(name, kind, from, to);
        if after <= before {
            missed.push(format!(
                "{name}: {kind} with {to:?} for {from}: {after} after {before}"
            ));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// Rewrites one field of one kind of probe: what a rule that reads another value would see.
fn tampered(name: &str, kind: &str, probe: &str, change: impl Fn(&str) -> String) -> u64 {
    let machine = name.split('/').next().expect("machine");
    let mut events = events(name);
    let mut changed = 0;
    for event in &mut events {
        if let EventKind::Other { name, fields } = &mut event.kind
            && name == probe
        {
            let new = change(fields);
            changed += u32::from(new != *fields);
            *fields = new;
        }
    }
    assert!(changed > 0, "{probe}: nothing to change");
    let report = run(&domains(machine), options(name), &events).expect("probes");
    differing(&report, kind)
}

/// The text with the value of a field replaced.
fn set(text: &str, field: &str, value: &str) -> String {
    let words = text.split(' ').map(|word| match word.split_once('=') {
        Some((name, _)) if name == field => format!("{name}={value}"),
        _ => word.to_string(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_rule_that_reads_another_value_is_noticed() {
    let mut missed = Vec::new();
    for (name, kind, probe, field, value) in [
        ("smt4/hb2_pipe", "wakeup", "sel", "rec", "-1"),
        ("smt4/hb2_pipe", "wakeup", "sel", "fl", "0x8"),
        ("smt4/wake16", "wakeup", "sel", "hic0", "1"),
        ("smt4/wake16", "wakeup", "sel", "nis0", "0"),
        ("flat2/per10_2n", "avg_idle", "act", "maxc", "1000"),
        ("flat2/per10_2n", "newidle ran", "ni", "ovl", "0"),
        ("flat2/per10_2n", "newidle ran", "ni", "tp", "1"),
        ("numa8/hogs_2n", "imbalance", "sds", "tload", "1"),
        ("numa8/hogs_2n", "group type", "sds", "lutil", "0"),
        ("flat2/hogs_n1", "detach loop", "canmig", "max", "1"),
        ("flat2/hogs_n1", "active balance", "nab", "fail", "9"),
        ("flat2/hogs_n1", "interval", "lb", "fail", "7"),
        ("flat2/hogs_n1", "tasks moved", "lbret", "ret", "3"),
    ] {
        let before = differing(&check(name), kind);
        let after = tampered(name, kind, probe, |text| set(text, field, value));
        if after <= before {
            missed.push(format!(
                "{name}: {kind} with {field}={value}: {after} after {before}"
            ));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn domains_are_the_kernels() {
    for (machine, cpus, levels, llcs) in [
        ("flat2", 2, 1, 1),
        ("smt4", 4, 2, 1),
        ("llc8", 8, 2, 2),
        ("numa8", 8, 3, 2),
    ] {
        let d = domains(machine);
        assert_eq!((d.cpus(), d.llcs().len()), (cpus, llcs), "{machine}");
        for cpu in 0..cpus {
            assert_eq!(d.chain(cpu).len(), levels, "{machine}, CPU {cpu}");
            for link in d.chain(cpu) {
                assert!(d.domain(link.domain).groups[link.local].span.has(cpu));
            }
        }
    }
    let d = domains("numa8");
    assert_eq!(d.siblings(5).iter().collect::<Vec<_>>(), [4, 5]);
    let numa = d.domain(d.at_level(7, 5).expect("NUMA").domain);
    assert!(numa.flags.has(DomainFlags::NUMA) && numa.imb_numa_nr == 1);
    assert_eq!(
        (
            numa.imbalance_pct,
            numa.cache_nice_tries,
            numa.groups[0].cores
        ),
        (117, 2, 2)
    );
}

#[test]
fn bad_texts_and_probes_are_named() {
    let (printed, files) = texts("flat2");
    let error = |p: &str, f: &str| kernel_domains(p, f).expect_err("an error");
    assert!(error("", &files).contains("attaching"));
    assert!(error(&printed, "").contains("domains/cpu0/domain0/flags"));
    assert!(error(&printed, "nonsense").contains("line 1"));
    assert!(error(&printed.replace("span=0-1", "span=0-x"), &files).contains("line 2"));
    assert!(error(&printed.replace("span=0-1", "span=0-99"), &files).contains("past 1"));
    assert!(error(&printed.replace("span=0-1", "span=1"), &files).contains("this CPU"));
    assert!(error(&printed, &files.replace("level:2", "level:x")).contains("cpu0/domain0/level"));

    let d = domains("flat2");
    let mut events = events("flat2/hogs_n1");
    let sel = events
        .iter()
        .position(|e| matches!(&e.kind, EventKind::Other { name, .. } if name == "sel"))
        .expect("a selection");
    let mut with = |from: &str, to: &str| {
        let old = events[sel].clone();
        if let EventKind::Other { fields, .. } = &mut events[sel].kind {
            *fields = fields.replace(from, to);
        }
        let result = run(&d, SmpOptions::default(), &events[..=sel]);
        events[sel] = old;
        result.expect_err("an error")
    };
    assert!(with(" prev=", " before=").contains("no field `prev`"));
    assert!(with(" prev=", " prev=7").contains("no such CPU"));
    assert!(with(" n1=", " m1=").contains("expected n, c, l, q and x of 2 CPUs"));
    let mut stray = events[sel].clone();
    stray.cpu = 64;
    let error = run(&d, SmpOptions::default(), &[stray]).expect_err("an error");
    assert!(error.contains("CPU 64"), "{error}");
}
