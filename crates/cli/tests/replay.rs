//! `schedlab replay` from the outside: the table, what-ifs, repetitions, files that it writes, and what it refuses.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use common::schedlab;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn good(args: &[&str]) -> String {
    let o = schedlab(args);
    assert!(o.status.success(), "{args:?}: {}", text(&o.stderr));
    text(&o.stdout)
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&good(&[args, &["--json"]].concat())).expect("JSON")
}

fn refused(args: &[&str], words: &[&str]) {
    let o = schedlab(args);
    assert_eq!(o.status.code(), Some(2), "{args:?}: {}", text(&o.stderr));
    assert!(o.stdout.is_empty(), "{args:?}");
    for w in words {
        let e = text(&o.stderr);
        assert!(e.contains(w), "{args:?}: no `{w}` in {e}");
    }
}

fn recording(name: &str) -> String {
    let root =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/recordings/6.12.117");
    root.join(name).join("trace.txt.xz").display().to_string()
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

fn total<'a>(v: &'a Value, key: &str) -> &'a Value {
    &v["total"][key]
}

#[test]
fn a_recording_is_explained_and_tried_under_another_kernel() {
    let file = recording("hogs3_base2800");
    let args = [
        "replay",
        &file,
        "--set",
        "kernel.features=NO_RUN_TO_PARITY",
        "--vs",
        "6.6",
        "--vs",
        "kernel.base_slice=6ms; kernel.preempt=full",
    ];
    let out = good(&args);
    assert_eq!(out, good(&args), "the same bytes again");
    for word in [
        "6.12-stable (meta.json)",
        "250 ticks a second (seen)",
        "recorded",
        "as recorded",
        "kernel.features=NO_RUN_TO",
        "misplaced by over 100 ms",
        "average [us]",
    ] {
        assert!(out.contains(word), "no `{word}` in {out}");
    }
    let v = json(&args);
    assert_eq!(v["schema"], "schedlab.replay/1");
    let columns = v["simulated"].as_array().expect("columns");
    assert_eq!(columns.len(), 4);
    assert_eq!(columns[2]["profile"], "6.6");
    let switches = |v: &Value| {
        total(v, "voluntary").as_u64().expect("count")
            + total(v, "involuntary").as_u64().expect("count")
    };
    let (recorded, simulated) = (switches(&v["recorded"]), switches(&columns[0]["sums"]));
    assert!(
        simulated.abs_diff(recorded) * 20 < recorded,
        "{simulated} {recorded}"
    );
    let longer = switches(&columns[3]["sums"]);
    assert_ne!(longer, simulated, "a longer slice shows");
    assert_eq!(
        total(&v["recorded"], "runtime"),
        &v["work_ns"],
        "all work is in the load"
    );
    assert!(columns[0]["misplaced_percent"].as_f64().expect("percent") < 5.0);
}

#[test]
fn repetitions_zero_one_many_and_until_a_time() {
    let file = recording("hogs2_slice");
    // 0: nothing is simulated.
    let none = json(&["replay", &file, "--repeat", "0"]);
    assert_eq!(none["simulated"].as_array().map(Vec::len), Some(0));
    assert!(good(&["replay", &file, "-r", "0"]).contains("nothing simulated"));
    // 1 is the default; n has the load n times, and the table is that of one.
    let once = json(&["replay", &file]);
    assert_eq!(once, json(&["replay", &file, "-r", "1"]));
    let twice = json(&["replay", &file, "-r", "2"]);
    let end = |v: &Value| v["simulated"][0]["end_ns"].as_u64().expect("end");
    // Once, it ends with the last task, a little before the end of the recording.
    assert!(end(&twice) >= 2 * end(&once));
    assert!(end(&twice) < 2 * end(&once) + 100_000_000);
    let run = |v: &Value| {
        total(&v["simulated"][0]["sums"], "runtime")
            .as_u64()
            .expect("ns")
    };
    assert!(run(&twice).abs_diff(2 * run(&once)) * 50 < run(&twice));
    // -1: until a time, which must be said.
    let long = json(&["replay", &file, "-r", "-1", "--duration", "5s"]);
    assert_eq!(end(&long), 5_000_000_000);
    refused(&["replay", &file, "-r", "-1"], &["--duration"]);
    refused(&["replay", &file, "--duration", "5s"], &["--repeat -1"]);
    refused(
        &["replay", &file, "-r", "-1", "--duration", "5"],
        &["--duration 5", "500ms"],
    );
    refused(&["replay", &file, "-r", "-2"], &["-2"]);
    refused(&["replay", &file, "-r", "x"], &["x"]);
}

#[test]
fn what_is_written_runs() {
    let dir = tempfile::tempdir().expect("dir");
    let (toml, app) = (path(dir.path(), "load.toml"), path(dir.path(), "load.json"));
    let file = recording("hogs3_slice");
    let o = schedlab(&["replay", &file, "--out", &toml, "--rt-app", &app, "--json"]);
    assert!(o.status.success(), "{}", text(&o.stderr));
    assert!(
        text(&o.stderr).contains("machine and kernel"),
        "{}",
        text(&o.stderr)
    );
    let replayed: Value = serde_json::from_slice(&o.stdout).expect("JSON");
    let run = json(&["run", &toml]);
    assert_eq!(
        run["events"], replayed["simulated"][0]["events"],
        "the same simulation"
    );
    let live = json(&[
        "run",
        &app,
        "--set",
        "machine={cpus = 1, hz = 250}",
        "--duration",
        "4s",
    ]);
    let sum = |v: &Value| -> u64 {
        let tasks = v["tasks"].as_array().expect("tasks");
        tasks
            .iter()
            .map(|t| t["run_ns"].as_u64().expect("ns"))
            .sum()
    };
    assert!(sum(&live).abs_diff(sum(&run)) * 50 < sum(&run));
    // Facts that the trace does not tell, and what-ifs, reach single tasks.
    let given = "task.s20ms-151.slice=20ms";
    let name = fs::read_to_string(&toml).expect("file");
    if name.contains("\"s20ms-151\"") {
        good(&["replay", &file, "--given", given]);
    }
}

#[test]
fn bad_options_and_files_are_refused_and_nothing_is_written() {
    let dir = tempfile::tempdir().expect("dir");
    let out = path(dir.path(), "x.toml");
    let file = recording("hogs2_slice");
    let with = |rest: &[&'static str], words: &[&str]| {
        let mut args = vec!["replay", file.as_str(), "--out", out.as_str()];
        args.extend(rest);
        refused(&args, words);
        assert!(!Path::new(&out).exists(), "{rest:?}: written");
    };
    with(&["--profile", "5.4"], &["no profile `5.4`", "6.12-stable"]);
    with(&["--costs", "gold"], &["no cost profile `gold`", "xeon-2s"]);
    with(&["--vs", "6.99"], &["6.99"]);
    with(&["--vs", ";"], &["--vs ;", "KEY=VALUE"]);
    with(
        &["--set", "kernel.colour=red"],
        &["--set kernel.colour=red", "colour"],
    );
    with(&["--given", "task.nobody.nice=3"], &["nobody"]);
    let empty = path(dir.path(), "empty.txt");
    fs::write(&empty, "# tracer: nop\n#\n").expect("write");
    refused(
        &["replay", &empty, "--profile", "6.6"],
        &["empty.txt", "no event"],
    );
    refused(
        &["replay", &path(dir.path(), "absent.txt")],
        &["absent.txt"],
    );
    let far = path(dir.path(), "far.txt");
    fs::write(&far, "a-1 [60000] d..2. 1.000001: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120\n").expect("write");
    refused(&["replay", &far], &["CPU 60000", "at most 4096"]);
}

#[test]
fn an_unknown_kernel_is_said_to_be_assumed() {
    let dir = tempfile::tempdir().expect("dir");
    let file = path(dir.path(), "t.txt");
    let lines = "a-1 [000] d..2. 1.000001: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120
b-2 [000] d..2. 1.001001: sched_switch: prev_comm=b prev_pid=2 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
cut line
";
    fs::write(&file, lines).expect("write");
    let out = good(&["replay", &file]);
    assert!(out.contains("assumed"), "{out}");
    assert!(out.contains("1 lines not understood"), "{out}");
    assert!(out.contains("does not tell interrupts from tasks"), "{out}");
    assert!(good(&["replay", &file, "--profile", "6.6"]).contains("kernel 6.6 (--profile)"));
}
