//! The commands that read a trace, from the outside: every one on a recording and on a simulated trace, in every form.

mod common;

use std::fs;

use serde_json::Value;

use common::{printed as text, schedlab};

fn recording() -> String {
    format!(
        "{}/tests/data/yield.ftrace.txt.xz",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// A simulated trace: two loops and a sleeper on one CPU.
fn simulated(dir: &tempfile::TempDir) -> String {
    let scenario = dir.path().join("mix.toml");
    fs::write(
        &scenario,
        "machine = \"flat-1\"\nduration = \"50ms\"\n[[task]]\nname = \"h\"\ncount = 2\nkind = \"hog\"\n\
         [[task]]\nname = \"p\"\nkind = \"periodic\"\nrun = \"1ms\"\nperiod = \"8ms\"\n",
    )
    .expect("write");
    let trace = dir.path().join("mix.txt").display().to_string();
    text(&schedlab(&[
        "run",
        &scenario.display().to_string(),
        "--trace",
        &trace,
    ]));
    trace
}

const TABLES: [&str; 4] = ["runq", "migrations", "antagonists", "preempted"];

#[test]
fn tables_of_a_recording() {
    for command in TABLES {
        let out = text(&schedlab(&[command, &recording()]));
        insta::assert_snapshot!(command, out);
    }
    let out = text(&schedlab(&[
        "latency",
        &recording(),
        "--percentiles",
        "--histogram",
    ]));
    let tail = out.split_once("busy\n").expect("summary").1;
    insta::assert_snapshot!("latency-percentiles", tail);
    let out = text(&schedlab(&["latency", &recording(), "--csv"]));
    insta::assert_snapshot!("latency-csv", out);
}

#[test]
fn lines_of_a_recording() {
    let o = schedlab(&["timehist", &recording(), "-wMnV", "--state"]);
    let out = text(&o);
    let head: String = out
        .lines()
        .take(30)
        .map(|l| format!("{}\n", l.trim_end()))
        .collect();
    insta::assert_snapshot!("timehist", head);
    // What does not fit is said, but not among the lines.
    let stderr = String::from_utf8_lossy(&o.stderr);
    assert!(stderr.contains("switches are missing"), "{stderr}");
    let out = text(&schedlab(&["timehist", &recording(), "-s"]));
    insta::assert_snapshot!("timehist-summary", out);
    let out = text(&schedlab(&["map", &recording()]));
    let head: String = out
        .lines()
        .take(12)
        .map(|l| format!("{}\n", l.trim_end()))
        .collect();
    insta::assert_snapshot!("map", head);
}

#[test]
fn every_form_of_every_command_on_a_simulated_trace() {
    let dir = tempfile::tempdir().expect("dir");
    let trace = simulated(&dir);
    for command in TABLES {
        let value: Value =
            serde_json::from_str(&text(&schedlab(&[command, &trace, "--json"]))).expect("JSON");
        // Nothing contradicts itself; that R may be a yield is said of it, too.
        let notes = value["notes"].as_array().expect("notes");
        assert!(notes.is_empty() || command == "preempted", "{value}");
        let csv = text(&schedlab(&[command, &trace, "--csv"]));
        let commas = |l: &str| l.matches(',').count();
        let header = csv.lines().next().expect("header");
        assert!(csv.lines().all(|l| commas(l) == commas(header)), "{csv}");
        assert!(!text(&schedlab(&[command, &trace])).is_empty());
        assert_eq!(
            text(&schedlab(&[command, &trace])),
            text(&schedlab(&[command, &trace]))
        );
    }
    for command in ["timehist", "map"] {
        let lines = text(&schedlab(&[command, &trace, "--json"]));
        for line in lines.lines() {
            let value: Value = serde_json::from_str(line).expect("JSON");
            assert!(value["time_ns"].is_u64(), "{line}");
        }
        assert!(text(&schedlab(&[command, &trace, "--csv"])).contains(','));
    }
}

#[test]
fn numbers_of_the_commands_agree() {
    let dir = tempfile::tempdir().expect("dir");
    let trace = simulated(&dir);
    let json =
        |args: &[&str]| -> Value { serde_json::from_str(&text(&schedlab(args))).expect("JSON") };
    let latency = json(&["latency", &trace, "--json", "--per-thread"]);
    let antagonists = json(&[
        "antagonists",
        &trace,
        "--json",
        "--per-thread",
        "--top",
        "0",
        "--each",
        "0",
    ]);
    let sum = |value: &Value, key: &str| -> u64 {
        let rows = value.as_array().expect("rows");
        rows.iter().map(|row| row[key].as_u64().expect(key)).sum()
    };
    let delays = latency["total"]["delays"]["sum"].as_u64().expect("sum");
    assert!(delays > 0);
    assert_eq!(sum(&antagonists["antagonists"], "time_ns"), delays);
    // On one CPU that is never idle the queue holds two of the three loops' worth of waiting at most.
    let runq = json(&["runq", &trace, "--json"]);
    let open: u64 = latency["latency"]["tasks"]
        .as_array()
        .expect("tasks")
        .iter()
        .filter_map(|t| t["open_wait"].as_u64())
        .sum();
    let queued: u64 = runq["lengths"]
        .as_array()
        .expect("lengths")
        .iter()
        .map(|row| row["length"].as_u64().expect("length") * row["time_ns"].as_u64().expect("time"))
        .sum();
    assert_eq!(queued, delays + open);
    let preempted = json(&["preempted", &trace, "--json", "--task", "p"]);
    assert_eq!(preempted["tasks"].as_array().expect("tasks").len(), 1);
}

#[test]
fn percentiles_and_policies() {
    let dir = tempfile::tempdir().expect("dir");
    // 7 is called at 10, again at 12, arrives at 14 and runs at 15.
    let line = |ts: u32, rest: &str| format!("  <idle>-0 [000] 1.0000{ts:02}: {rest}\n");
    let switch = |ts, prev: &str, state, next: &str| {
        line(
            ts,
            &format!(
                "sched_switch: prev_comm={prev} prev_prio=120 prev_state={state} ==> next_comm={next} next_prio=120"
            ),
        )
    };
    let wake = |ts, what: &str| line(ts, &format!("{what}: comm=a pid=7 prio=120 target_cpu=000"));
    let trace = [
        switch(0, "swapper/0 prev_pid=0", "R", "b next_pid=8"),
        switch(1, "b prev_pid=8", "S", "swapper/0 next_pid=0"),
        wake(10, "sched_waking"),
        wake(12, "sched_waking"),
        wake(14, "sched_wakeup"),
        switch(15, "swapper/0 prev_pid=0", "R", "a next_pid=7"),
    ]
    .concat()
    .replace("<idle>-0 [000] 1.000001", "b-8 [000] 1.000001");
    let file = dir.path().join("wakes.txt").display().to_string();
    fs::write(&file, trace).expect("write");
    let delay = |more: &[&str]| -> u64 {
        let args = [&["latency", &file, "--json"], more].concat();
        let value: Value = serde_json::from_str(&text(&schedlab(&args))).expect("JSON");
        let rows = value["rows"].as_array().expect("rows");
        let row = rows.iter().find(|r| r["name"] == "a:7").expect("a");
        assert_eq!(row["percentiles"]["p99_9"], row["delays"]["max"]);
        row["delays"]["sum"].as_u64().expect("sum")
    };
    assert_eq!(delay(&[]), 5_000);
    assert_eq!(delay(&["--wakeup", "last"]), 3_000);
    assert_eq!(delay(&["--from-wakeup"]), 1_000);
}

#[test]
fn doubtful_delays_count_only_on_request() {
    let dir = tempfile::tempdir().expect("dir");
    // 7 is preempted at 0 s; at 2 s it is charged time though it is not running; it runs again at 3 s.
    let trace = "\
  a-7 [000] 10.000000: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=b next_pid=8 next_prio=120
  c-9 [001] 12.000000: sched_stat_runtime: comm=a pid=7 runtime=1000000 [ns]
  b-8 [000] 13.000000: sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=a next_pid=7 next_prio=120
";
    let file = dir.path().join("lost.txt").display().to_string();
    fs::write(&file, trace).expect("write");
    let plain = text(&schedlab(&["latency", &file]));
    assert!(
        plain.contains("1 delays contradict other events, the longest of 3000.000 ms"),
        "{plain}"
    );
    assert!(
        plain.contains("a:7                     |       0.000 |      0 |"),
        "{plain}"
    );
    let with = text(&schedlab(&["latency", &file, "--with-doubtful"]));
    assert!(with.contains("|      1 |  3000.000 |"), "{with}");
}

#[test]
fn an_event_out_of_order_is_said_in_every_table() {
    let dir = tempfile::tempdir().expect("dir");
    let trace = "
        <idle>-0 [001] 1494.663899990: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=w next_pid=9 next_prio=120
        <idle>-0 [000] 1494.663860125: sched_waking: comm=w pid=9 prio=120 target_cpu=001
        w-9 [001] 1494.664000000: sched_switch: prev_comm=w prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
        <idle>-0 [000] 1504.098252756: sched_waking: comm=w pid=9 prio=120 target_cpu=001
        <idle>-0 [001] 1504.100353302: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=w next_pid=9 next_prio=120
";
    let file = dir.path().join("unordered.txt").display().to_string();
    fs::write(&file, trace).expect("write");
    for command in TABLES.into_iter().chain(["latency"]) {
        let out = text(&schedlab(&[command, &file]));
        assert!(
            out.contains("  1 event was reordered\n"),
            "{command}: {out}"
        );
    }
    for command in ["timehist", "map"] {
        let o = schedlab(&[command, &file]);
        let stderr = String::from_utf8_lossy(&o.stderr);
        assert!(stderr.contains("1 event was reordered"), "{stderr}");
    }
    let out = text(&schedlab(&["latency", &file]));
    assert!(out.contains("|     2.101 |"), "{out}");
}

#[test]
fn wrong_options_are_refused() {
    let file = recording();
    for (args, words) in [
        (vec!["runq", &file, "--interval", "0ms"], "--interval 0ms"),
        (vec!["runq", &file, "--interval", "soon"], "--interval soon"),
        (
            vec!["runq", &file, "--interval", "1ns"],
            "choose a longer one",
        ),
        (vec!["antagonists", &file, "--task", "nobody"], "nobody"),
        (vec!["timehist", &file, "--task", "nobody"], "nobody"),
        (
            vec!["latency", &file, "--json", "--csv"],
            "cannot be used with",
        ),
        (vec!["map", "/nowhere/trace.txt"], "/nowhere/trace.txt"),
        (vec!["timehist", &file, "--wakeup", "second"], "second"),
    ] {
        let o = schedlab(&args);
        let stderr = String::from_utf8_lossy(&o.stderr).into_owned();
        assert_eq!(o.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(words), "{args:?}: {stderr}");
    }
}
