//! `schedlab explain` from the outside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;

fn schedlab(args: &[&str]) -> Output {
    schedlab_with(args, Vec::new())
}

fn schedlab_with(args: &[&str], input: Vec<u8>) -> Output {
    let mut command = Command::cargo_bin("schedlab").expect("binary");
    command
        .args(args)
        .write_stdin(input)
        .output()
        .expect("it runs")
}

fn stdout(o: &Output) -> String {
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8_lossy(&o.stdout).into_owned()
}

fn refused(args: &[&str], words: &str) {
    let o = schedlab(args);
    let err = String::from_utf8_lossy(&o.stderr).into_owned();
    assert_eq!(o.status.code(), Some(2), "{args:?}: {err}");
    assert!(o.stdout.is_empty());
    assert!(err.contains(words), "{args:?}: no `{words}` in {err}");
}

const SCENARIO: &str = "\
machine = { preset = \"flat-1\", hz = 250 }
duration = \"60ms\"
[[task]]
name = \"hog\"
kind = \"hog\"
slice = \"10ms\"
[[task]]
name = \"player\"
kind = \"periodic\"
run = \"2ms\"
period = \"16ms\"
";

/// A simulated trace, with or without state.
fn simulated(dir: &Path, state: bool) -> String {
    let scenario = dir.join("mix.toml");
    fs::write(&scenario, SCENARIO).expect("write");
    let trace = dir.join(format!("mix-{state}.txt"));
    let (scenario, trace) = (scenario.display().to_string(), trace.display().to_string());
    let mut args = vec!["run", &scenario, "--trace", &trace];
    args.extend(state.then_some("--state"));
    stdout(&schedlab(&args));
    trace
}

#[test]
fn sentences_about_a_simulated_wait() {
    let dir = tempfile::tempdir().expect("dir");
    let exact = simulated(dir.path(), true);
    insta::assert_snapshot!(
        "exact",
        stdout(&schedlab(&["explain", &exact, "--worst", "2"]))
    );
    let plain = simulated(dir.path(), false);
    insta::assert_snapshot!(
        "inferred",
        stdout(&schedlab(&["explain", &plain, "--worst", "1"]))
    );
}

#[test]
fn json_adds_up_and_repeats() {
    let dir = tempfile::tempdir().expect("dir");
    let trace = simulated(dir.path(), true);
    let args = [
        "explain", &trace, "--task", "player", "--worst", "100", "--json",
    ];
    let text = stdout(&schedlab(&args));
    assert_eq!(text, stdout(&schedlab(&args)));
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let waits = value["waits"].as_array().expect("waits");
    assert!(waits.len() > 2);
    assert_eq!(value["evidence"], "recorded");
    for w in waits {
        assert_eq!(w["task"]["comm"], "player");
        let sum = |list: &str, ns: &dyn Fn(&serde_json::Value) -> u64| -> u64 {
            w[list].as_array().expect(list).iter().map(ns).sum()
        };
        let length = w["end"].as_u64().unwrap() - w["start"].as_u64().unwrap();
        assert_eq!(sum("parts", &|p| p["ns"].as_u64().unwrap()), length);
        let span =
            |s: &serde_json::Value| s["end"].as_u64().unwrap() - s["start"].as_u64().unwrap();
        assert_eq!(sum("segments", &span), length);
    }
}

#[test]
fn at_a_time() {
    let dir = tempfile::tempdir().expect("dir");
    let trace = simulated(dir.path(), true);
    let at = |time: &str| {
        stdout(&schedlab(&[
            "explain", &trace, "--task", "player", "--at", time,
        ]))
    };
    // It sleeps then; the next wait is the one of its wakeup.
    let text = at("0.010");
    assert!(
        text.starts_with("player:1001 was asleep then, since 0.00"),
        "{text}"
    );
    assert!(text.contains("player:1001 waited"), "{text}");
    refused(
        &["explain", &trace, "--task", "player", "--at", "5"],
        "the trace ends at 0.0",
    );
}

#[test]
fn standard_input_and_recordings() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../conformance/recordings/6.12.117/sleeper_hog/trace.txt.xz");
    let bytes = fs::read(&folder).expect("recording");
    let file = folder.display().to_string();
    let from_file = stdout(&schedlab(&[
        "explain", &file, "--task", "149", "--worst", "2",
    ]));
    let from_stdin = schedlab_with(&["explain", "-", "--task", "149", "--worst", "2"], bytes);
    assert_eq!(from_file, stdout(&from_stdin));
    let nothing = schedlab_with(&["explain", "-"], b"no trace\n".to_vec());
    assert_eq!(nothing.status.code(), Some(2));
    let err = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert!(err.contains("standard input"), "{err}");
    assert!(
        from_file.contains("behind snap:150, a task of a higher scheduling class"),
        "{from_file}"
    );
}

#[test]
fn what_cannot_be_explained_is_said() {
    let dir = tempfile::tempdir().expect("dir");
    let trace = simulated(dir.path(), false);
    refused(
        &["explain", &trace, "--task", "nobody"],
        "no wait of a task `nobody`",
    );
    refused(
        &["explain", &trace, "--task", "player", "--at", "12:30"],
        "--at 12:30",
    );
    refused(&["explain", &trace, "--at", "1.0"], "--task");
    refused(&["explain", &trace, "--worst", "0"], "--worst");
    refused(&["explain", &trace, "--profile", "5.4"], "5.4");
    let empty = dir.path().join("empty.txt");
    fs::write(&empty, "# tracer: nop\n#\n").expect("write");
    refused(&["explain", &empty.display().to_string()], "no event");
    refused(
        &["explain", "/nonexistent/trace.txt"],
        "/nonexistent/trace.txt",
    );
}
