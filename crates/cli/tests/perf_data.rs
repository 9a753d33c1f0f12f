//! A real `perf.data` through the binary: what each command says of it, beside what perf says of the same file.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use common::{printed as stdout, schedlab};

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(&schedlab(args))).expect("JSON")
}

/// A file of the recordings, which stand with the readers.
fn fixture(name: &str) -> String {
    format!(
        "{}/../trace/tests/fixtures/perf/{name}",
        env!("CARGO_MANIFEST_DIR")
    )
}

fn unpacked(name: &str) -> Vec<u8> {
    let file = fs::File::open(fixture(name)).expect("fixture");
    let mut out = Vec::new();
    liblzma::read::XzDecoder::new(file)
        .read_to_end(&mut out)
        .expect("xz");
    out
}

fn text(name: &str) -> String {
    String::from_utf8(unpacked(name)).expect("text")
}

/// A recording as perf left it, without our packing.
fn perf_data(dir: &Path, name: &str) -> String {
    let path = dir.join("perf.data");
    fs::write(&path, unpacked(&format!("{name}.data.xz"))).expect("write");
    path.display().to_string()
}

/// How often `perf script` prints each event.
fn counted(script: &str) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    for line in script.lines().filter(|l| !l.starts_with('#')) {
        let (_, rest) = line.split_once("sched:").expect("an event");
        let (name, _) = rest.split_once(':').expect("its name");
        *out.entry(name.to_owned()).or_insert(0) += 1;
    }
    out
}

#[test]
fn info_counts_what_perf_prints() {
    let dir = tempfile::tempdir().expect("dir");
    for name in ["hogs", "hackbench", "forks", "pipe", "zstd", "callchain"] {
        let file = perf_data(dir.path(), name);
        let info = json(&["info", &file, "--json"]);
        let script: String = text(&format!("{name}.script.txt.xz"))
            .lines()
            .filter(|l| l.contains("sched:"))
            .map(|l| format!("{l}\n"))
            .collect();
        let expected = counted(&script);
        let ours: BTreeMap<String, u64> =
            serde_json::from_value(info["report"]["events_by_type"].clone()).expect("counts");
        assert_eq!(ours, expected, "{name}");
        assert_eq!(info["complete"], true, "{name}");
        assert_eq!(info["report"]["lost_events"], 0, "{name}");
        assert_eq!(info["report"]["cpus_declared"], 2, "{name}");
        let release = info["report"]["kernel_release"].as_str().expect("release");
        assert!(release.starts_with("6.18."), "{name}: {release}");
    }
    let shown = stdout(&schedlab(&["info", &perf_data(dir.path(), "hogs")]));
    assert!(shown.contains("a perf.data file"), "{shown}");
    assert!(shown.contains("every record was read"), "{shown}");
}

#[test]
fn latency_sums_run_times_as_perf_does() {
    let dir = tempfile::tempdir().expect("dir");
    for name in ["hogs", "sleepers", "pingpong", "yield"] {
        let file = perf_data(dir.path(), name);
        let report = json(&["latency", &file, "--per-thread", "--json"]);
        let tasks = report["latency"]["tasks"].as_array().expect("tasks");
        let table = fs::read_to_string(fixture(&format!("{name}.latency-pid.txt"))).expect("perf");
        let mut compared = 0;
        for line in table.lines().filter(|l| l.contains("max:")) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let pid: i64 = cells[0].rsplit(':').next().unwrap().parse().expect("pid");
            let task = tasks.iter().find(|t| t["pid"] == pid).expect("a task");
            let ns = task["stat_runtime"].as_u64().unwrap_or(0);
            let ms = format!("{:.3} ms", ns as f64 / 1e6);
            assert_eq!(ms, cells[1], "{name} {pid}");
            compared += 1;
        }
        assert!(compared > 10, "{name}: {compared}");
        // The table itself: a row a thread, and nothing that was not understood.
        let shown = stdout(&schedlab(&["latency", &file, "--per-thread"]));
        assert!(!shown.contains("not understood"), "{shown}");
        assert!(shown.contains("Sum delay"), "{shown}");
    }
}

/// Without the name of the task: perf has none for those that lived before the recording.
fn nameless(line: &str) -> (&str, &str) {
    (&line[..24], &line[54..])
}

#[test]
fn timehist_prints_perfs_lines() {
    let dir = tempfile::tempdir().expect("dir");
    for (name, inferred) in [("hogs", 10), ("sleepers", 18)] {
        let ours = stdout(&schedlab(&["timehist", &perf_data(dir.path(), name)]));
        let perf = text(&format!("{name}.timehist.txt.xz"));
        assert_eq!(ours.lines().count(), perf.lines().count(), "{name}");
        let mut differing = 0;
        for (ours, perf) in ours.lines().zip(perf.lines()) {
            if nameless(ours) != nameless(perf) {
                // The switch-in is missing: perf counts from the last switch that it saw, whoever ran then; we take the time that
                // the kernel charged, and say so.
                assert!(ours.ends_with('~'), "{name}:\n{ours}\n{perf}");
                assert_eq!(ours[..24], perf[..24], "{name}");
                differing += 1;
            }
        }
        assert_eq!(differing, inferred, "{name}");
    }
}

/// Rows of a summary, without names.
fn rows(text: &str) -> Vec<(String, String)> {
    let tid = |name: &str| -> String {
        let digits = name.rsplit(['[', ':']).next().unwrap_or_default();
        digits.trim_end_matches(']').to_owned()
    };
    text.lines()
        .skip_while(|l| !l.contains("----------------------------------------"))
        .skip_while(|l| !l.ends_with(&"-".repeat(100)))
        .skip(1)
        .take_while(|l| !l.starts_with("Idle stats"))
        .filter(|l| l.len() > 60)
        .map(|l| (tid(&l[..30]), l[30..].to_owned()))
        .collect()
}

#[test]
fn timehist_of_a_part_of_the_time_is_perfs() {
    let dir = tempfile::tempdir().expect("dir");
    let file = perf_data(dir.path(), "hogs");
    let args = ["timehist", &file, "-S", "--time", "6828.2,6828.4"];
    let ours = stdout(&schedlab(&args));
    let perf = text("hogs.timehist-time.txt.xz");
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().take_while(|l| *l != "Runtime summary");
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.into_iter().filter(|l| !l.is_empty()).collect()
    };
    let (our_lines, perf_lines) = (lines(&ours), lines(&perf));
    assert_eq!(our_lines.len(), perf_lines.len());
    let (mut differing, mut whole_waits) = (0, 0);
    for (ours, perf) in our_lines.iter().zip(&perf_lines) {
        let (our_front, our_times) = nameless(ours);
        let (perf_front, perf_times) = nameless(perf);
        assert_eq!(our_front, perf_front);
        if ours.ends_with('~') {
            differing += 1;
        } else if our_times != perf_times {
            // A stretch that began before the window: perf adds to its wait what it ran before the window.
            assert_eq!(our_times[11..], perf_times[11..], "{ours}\n{perf}");
            whole_waits += 1;
        }
    }
    assert_eq!((differing, whole_waits), (2, 2));
    assert!(our_lines.last().unwrap().contains("6828.400000"));
    // Summaries: but for the tasks whose switches are missing.
    let (ours, perf) = (rows(&ours), rows(&perf));
    assert_eq!(ours.len(), perf.len());
    let differing: Vec<&str> = perf
        .iter()
        .filter(|row| !ours.contains(row))
        .map(|(tid, _)| tid.as_str())
        .collect();
    assert_eq!(differing, ["15", "29731"]);

    // Either end may be left out, and all of the time is all of it.
    let all = stdout(&schedlab(&["timehist", &file]));
    for time in [",", "1,9999999", "6827.9", ",6829"] {
        assert_eq!(stdout(&schedlab(&["timehist", &file, "--time", time])), all);
    }
    let (mut first, mut second) = (0, 0);
    for (time, lines) in [(",6828.2", &mut first), ("6828.2,", &mut second)] {
        *lines = stdout(&schedlab(&["timehist", &file, "--time", time]))
            .lines()
            .count()
            - 3;
    }
    // Each of the two CPUs has a stretch that is cut in two.
    assert_eq!(first + second, all.lines().count() - 3 + 2);
    // Wake events and migrations keep to it, too.
    let notes = stdout(&schedlab(&[
        "timehist",
        &file,
        "-wM",
        "--time",
        "6828.2,6828.4",
    ]));
    for line in notes.lines().skip(3) {
        let at: f64 = line[..15].trim().parse().expect("a time");
        assert!((6828.2..=6828.4).contains(&at), "{line}");
    }
}

#[test]
fn timehist_of_some_cpus_and_of_idle_time() {
    let dir = tempfile::tempdir().expect("dir");
    let file = perf_data(dir.path(), "hogs");
    let all = stdout(&schedlab(&["timehist", &file, "-wM"]));
    let of = |cpu: &str| -> Vec<String> {
        let lines = all.lines().skip(3).filter(|l| &l[17..21] == cpu);
        lines.map(str::to_owned).collect()
    };
    for (cpus, cpu) in [("0", "0000"), ("1", "0001"), ("1,7-9", "0001")] {
        let ours = stdout(&schedlab(&["timehist", &file, "-wM", "-C", cpus]));
        let ours: Vec<&str> = ours.lines().skip(3).collect();
        assert_eq!(ours, of(cpu), "{cpus}");
    }
    let summary = |args: &[&str]| json(&[&["timehist", &file, "-s", "--json"], args].concat());
    let run = |value: &Value| -> u64 {
        let tasks = value["tasks"].as_array().expect("tasks");
        tasks.iter().map(|t| t["run_ns"].as_u64().unwrap()).sum()
    };
    let parts = ["0", "1"].map(|cpu| run(&summary(&["-C", cpu])));
    assert_eq!(parts[0] + parts[1], run(&summary(&[])));

    // Idle: perf's lines, and its summary.
    let idle = stdout(&schedlab(&["timehist", &file, "-n", "-I"]));
    let both = stdout(&schedlab(&["timehist", &file, "-n"]));
    let expected: Vec<&str> = both
        .lines()
        .filter(|l| l.contains("<idle>") || l.contains("next: swapper") || !l.starts_with("    6"))
        .collect();
    assert_eq!(idle.lines().collect::<Vec<_>>(), expected);
    let ours = stdout(&schedlab(&["timehist", &file, "-I", "-s"]));
    let perf = text("hogs.timehist-idle.txt.xz");
    assert_eq!(rows(&ours), rows(&perf));
    for text in [&ours, &perf] {
        assert!(text.contains("Idle-time summary"), "{text}");
        assert!(
            text.contains("Total scheduling time (msec): 1028.115  (x 2)"),
            "{text}"
        );
    }
}

#[test]
fn parts_that_make_no_sense_are_refused() {
    let dir = tempfile::tempdir().expect("dir");
    let file = perf_data(dir.path(), "yield");
    for (args, words) in [
        (["--time", "x,1"], "--time x,1: expected seconds"),
        (["--time", "2,1"], "the earlier time first"),
        (["--time", "1,2,3"], "--time 1,2,3"),
        (["--time", "10%/2"], "--time 10%/2"),
        (["-C", "7"], "--cpu 7: the trace has no event of these CPUs"),
        (["-C", "a"], "--cpu a: expected a CPU list"),
        (["-I", "-w"], "--wakeups"),
    ] {
        let o = schedlab(&[&["timehist", &file], &args[..]].concat());
        let err = String::from_utf8_lossy(&o.stderr).into_owned();
        assert_eq!(o.status.code(), Some(2), "{args:?}: {err}");
        assert!(err.contains(words), "{args:?}: {err}");
    }
}

#[test]
fn the_three_worst_waits_have_reasons_that_add_up() {
    let dir = tempfile::tempdir().expect("dir");
    let file = perf_data(dir.path(), "hogs");
    let value = json(&["explain", &file, "--worst", "3", "--json"]);
    let waits = value["waits"].as_array().expect("waits");
    assert_eq!(waits.len(), 3);
    let mut lengths = Vec::new();
    for wait in waits {
        let length = wait["end"].as_u64().unwrap() - wait["start"].as_u64().unwrap();
        let parts = wait["parts"].as_array().expect("parts");
        let sum: u64 = parts.iter().map(|p| p["ns"].as_u64().unwrap()).sum();
        assert_eq!(sum, length);
        assert!(!parts.is_empty());
        lengths.push(length);
    }
    assert!(lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
    // They are the longest that `latency` knows.
    let latency = json(&["latency", &file, "--json"]);
    let longest = &latency["total"]["delays"]["max"];
    assert_eq!(longest.as_u64(), Some(lengths[0]));

    let shown = stdout(&schedlab(&["explain", &file, "--worst", "3"]));
    assert_eq!(shown.matches(" waited ").count(), 3, "{shown}");
    assert_eq!(shown.matches("  in all\n").count(), 3, "{shown}");
    assert!(shown.contains("Inferred by the rules of 6.18"), "{shown}");
}

/// The parts of a line of `perf script` that both have: perf adds the process id and leaves names away.
fn script_line(line: &str) -> (&str, &str) {
    let at = line.find(" [").expect("a CPU");
    let (front, rest) = line.split_at(at);
    let ids = front.split_whitespace().last().expect("a thread");
    let tid = ids.rsplit('/').next().expect("a thread");
    (tid, rest)
}

#[test]
fn convert_prints_what_perf_script_prints() {
    let dir = tempfile::tempdir().expect("dir");
    for name in ["hogs", "forks", "yield"] {
        let file = perf_data(dir.path(), name);
        let ours = stdout(&schedlab(&["convert", &file, "-", "--to", "perf-script"]));
        let perf = text(&format!("{name}.script.txt.xz"));
        let perf = perf.lines().filter(|l| !l.starts_with('#'));
        let ours: Vec<&str> = ours.lines().filter(|l| !l.starts_with('#')).collect();
        let perf: Vec<&str> = perf.collect();
        assert_eq!(ours.len(), perf.len(), "{name}");
        for (ours, perf) in ours.iter().zip(perf) {
            let (tid, rest) = script_line(perf);
            let (our_tid, our_rest) = script_line(ours);
            assert_eq!((our_tid, our_rest), (tid, rest));
        }
    }
}

/// Through every format and back: the same latencies come out.
#[test]
fn every_format_tells_the_same_latencies() {
    let dir = tempfile::tempdir().expect("dir");
    let file = perf_data(dir.path(), "sleepers");
    let report = |file: &str| json(&["latency", file, "--per-thread", "--json"])["rows"].clone();
    let expected = report(&file);
    assert!(expected.as_array().expect("rows").len() > 10);
    for name in ["t.txt", "t.perf", "t.ndjson", "t.pftrace"] {
        let target = dir.path().join(name).display().to_string();
        stdout(&schedlab(&["convert", &file, &target]));
        assert_eq!(report(&target), expected, "{name}");
    }
}
