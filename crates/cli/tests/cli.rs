//! The binary from the outside: results, exit codes, errors that name their place, files whole or not at all.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;

use common::{schedlab, stderr, stdout};

/// Fails with exit code 2, prints nothing, and says all of `words`.
fn refused(args: &[&str], words: &[&str]) {
    let o = schedlab(args);
    assert_eq!(o.status.code(), Some(2), "{args:?}: {}", stderr(&o));
    assert!(o.stdout.is_empty(), "{args:?}: {}", stdout(&o));
    for w in words {
        assert!(
            stderr(&o).contains(w),
            "{args:?}: no `{w}` in {}",
            stderr(&o)
        );
    }
}

fn data(name: &str) -> String {
    format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn recording(name: &str) -> String {
    let root =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/recordings/6.12.117");
    root.join(name).join("trace.txt.xz").display().to_string()
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, text).expect("write");
    path.display().to_string()
}

const TWO_HOGS: &str = "machine = \"flat-1\"\nduration = \"50ms\"\n[[task]]\nname = \"h\"\ncount = 2\nkind = \"hog\"\n";

#[test]
fn run_prints_a_table_and_a_summary_and_repeats_to_the_byte() {
    let dir = tempfile::tempdir().expect("dir");
    let file = write(dir.path(), "two.toml", TWO_HOGS);
    let a = schedlab(&["run", &file]);
    assert!(a.status.success(), "{}", stderr(&a));
    assert!(a.stderr.is_empty(), "silent in a pipe: {}", stderr(&a));
    let text = stdout(&a);
    for word in ["Sum delay", "TOTAL", "involuntary", "busy"] {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
    assert_eq!(a.stdout, schedlab(&["run", &file]).stdout);
    let other = schedlab(&["run", &file, "--set", "kernel.base_slice=20ms"]);
    assert_ne!(a.stdout, other.stdout, "a longer slice shows");
}

#[test]
fn run_as_json_conserves_time() {
    let dir = tempfile::tempdir().expect("dir");
    let file = write(dir.path(), "two.toml", TWO_HOGS);
    let o = schedlab(&["run", &file, "--json", "--machine", "desktop-8"]);
    let v: serde_json::Value = serde_json::from_slice(&o.stdout).expect("JSON");
    assert!(v.get("wall_s").is_none(), "timing only if asked for");
    let end = v["end_ns"].as_u64().expect("end");
    let cpus = v["cpus"].as_array().expect("cpus");
    assert_eq!(cpus.len(), 8);
    for c in cpus {
        let sum: u64 = ["user_ns", "system_ns", "overhead_ns", "irq_ns", "idle_ns"]
            .iter()
            .map(|k| c[*k].as_u64().expect("ns"))
            .sum();
        assert_eq!(sum, end);
    }
    let timed = schedlab(&["run", &file, "--json", "--timing"]);
    let v: serde_json::Value = serde_json::from_slice(&timed.stdout).expect("JSON");
    assert!(v["events_per_second"].as_f64().is_some_and(|x| x > 0.0));
}

#[test]
fn run_says_how_long_a_cpu_idled_while_a_task_waited() {
    let dir = tempfile::tempdir().expect("dir");
    let text = "machine = \"flat-2\"\nduration = \"20ms\"\ncosts = \"zero\"\n\
        [[task]]\nname = \"h\"\nkind = \"hog\"\n\
        [[task]]\nname = \"rt\"\nstart = \"10.2ms\"\npolicy = \"fifo\"\nrt_priority = 50\ncpus = \"0\"\n\
        program = [\"run 500us\"]\n";
    let file = write(dir.path(), "rt.toml", text);
    let o = schedlab(&["run", &file]);
    assert!(o.status.success(), "{}", stderr(&o));
    let line = "0.000500 core-seconds idle while a task waited elsewhere, longest 0.500 ms at 0.010200 s, 1 times";
    assert!(stdout(&o).contains(line), "{}", stdout(&o));
    let o = schedlab(&["run", &file, "--json"]);
    let v: serde_json::Value = serde_json::from_slice(&o.stdout).expect("JSON");
    let w = &v["work_conservation"];
    assert_eq!(w["idle_while_waiting_ns"], 500_000);
    assert_eq!(w["longest_at_ns"], 10_200_000);
    // One CPU alone has nothing to take from.
    let one = write(dir.path(), "two.toml", TWO_HOGS);
    let text = stdout(&schedlab(&["run", &one]));
    let line = "  0.000000 core-seconds idle while a task waited elsewhere\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn traces_are_written_whole_and_read_back() {
    let dir = tempfile::tempdir().expect("dir");
    let file = write(dir.path(), "two.toml", TWO_HOGS);
    let txt = dir.path().join("t.txt");
    let o = schedlab(&[
        "run",
        &file,
        "--json",
        "--trace",
        &txt.display().to_string(),
    ]);
    assert!(o.status.success(), "{}", stderr(&o));
    let run: serde_json::Value = serde_json::from_slice(&o.stdout).expect("JSON");
    let read = schedlab(&["latency", &txt.display().to_string(), "--json"]);
    assert!(read.status.success(), "{}", stderr(&read));
    let read: serde_json::Value = serde_json::from_slice(&read.stdout).expect("JSON");
    // The table of the run and that of its own trace come from the same events.
    assert_eq!(run["latency"]["tasks"], read["latency"]["tasks"]);
    let pf = dir.path().join("t.pftrace");
    assert!(
        schedlab(&["run", &file, "--trace", &pf.display().to_string()])
            .status
            .success()
    );
    assert!(fs::metadata(&pf).expect("trace").len() > 1000);
    let left: Vec<_> = fs::read_dir(dir.path())
        .expect("dir")
        .filter_map(Result::ok)
        .filter(|e| e.file_name().to_string_lossy().starts_with(".schedlab"))
        .collect();
    assert!(left.is_empty(), "no unfinished file is left");
}

#[test]
fn a_study_is_the_same_on_any_number_of_threads() {
    let args = |jobs| {
        [
            "study",
            "wakeup-preempt",
            "--runs",
            "2",
            "--jobs",
            jobs,
            "--set",
            "workload.loops=10",
        ]
    };
    let one = schedlab(&args("1"));
    let two = schedlab(&args("2"));
    assert!(one.status.success(), "{}", stderr(&one));
    assert_eq!(stdout(&one), stdout(&two));
    assert_eq!(one.stdout, schedlab(&args("1")).stdout);
    let text = stdout(&one);
    for column in [
        "base",
        "rq->nr_running",
        "rq->cfs.nr_running",
        "cfs_rq->nr_running",
        "%stddev",
        "%change",
    ] {
        assert!(text.contains(column), "no `{column}` in {text}");
    }
    assert!(text.contains("hackbench.throughput"));
    let json = schedlab(&[
        "study",
        "wakeup-preempt",
        "--runs",
        "2",
        "--json",
        "--set",
        "workload.loops=10",
    ]);
    let v: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert!(v["rows"].as_array().is_some_and(|r| !r.is_empty()));
}

#[test]
fn a_study_writes_its_results() {
    let dir = tempfile::tempdir().expect("dir");
    let out = dir.path().join("r/s");
    let out = out.display().to_string();
    let o = schedlab(&[
        "study",
        "wakeup-preempt",
        "--runs",
        "1",
        "--set",
        "workload.loops=5",
        "--out",
        &out,
    ]);
    assert!(o.status.success(), "{}", stderr(&o));
    let table = fs::read_to_string(Path::new(&out).join("table.txt")).expect("table");
    assert_eq!(table, stdout(&o));
    let results = fs::read_to_string(Path::new(&out).join("results.json")).expect("results");
    serde_json::from_str::<serde_json::Value>(&results).expect("JSON");
}

/// The same ring buffer as text and as trace.dat gives the same table, from a file and from a pipe.
#[test]
fn latency_of_a_trace_dat() {
    let fixture = |name: &str| {
        let dir = format!("{}/../trace/tests/fixtures", env!("CARGO_MANIFEST_DIR"));
        format!("{dir}/{name}.xz")
    };
    let tasks = |o: &Output| -> serde_json::Value {
        assert!(o.status.success(), "{}", stderr(o));
        let mut json: serde_json::Value = serde_json::from_slice(&o.stdout).expect("JSON");
        json["latency"]["tasks"].take()
    };
    let text = fixture("yield.trace-cmd-ns.txt");
    let expected = tasks(&schedlab(&["latency", &text, "--json"]));
    assert!(expected.is_array());
    for name in ["yield.v6.dat", "yield.v7-zstd.dat"] {
        let file = fixture(name);
        assert_eq!(tasks(&schedlab(&["latency", &file, "--json"])), expected);
        let piped = Command::cargo_bin("schedlab")
            .expect("binary")
            .args(["latency", "-", "--json"])
            .write_stdin(fs::read(&file).expect("fixture"))
            .output()
            .expect("it runs");
        assert_eq!(tasks(&piped), expected);
    }
}

#[test]
fn latency_of_a_real_recording() {
    let file = data("yield.ftrace.txt.xz");
    let o = schedlab(&["latency", &file]);
    assert!(o.status.success(), "{}", stderr(&o));
    let text = stdout(&o);
    for word in ["y0", "h0", "TOTAL", "Sum delay"] {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
    assert!(text.lines().all(|l| l.chars().count() <= 120));
}

#[test]
fn check_agrees_and_can_disagree() {
    let file = recording("hogs2_slice");
    let o = schedlab(&["check", &file]);
    assert_eq!(o.status.code(), Some(0), "{}", stdout(&o));
    assert!(stdout(&o).contains("agrees"));
    let o = schedlab(&["check", &file, "--json"]);
    let v: serde_json::Value = serde_json::from_slice(&o.stdout).expect("JSON");
    assert_eq!(v[0]["report"]["differences"], 0);
    let o = schedlab(&["check", &file, "--feature", "NO_PREEMPT_SHORT"]);
    assert_eq!(o.status.code(), Some(1));
    assert!(
        stdout(&o).contains("DIFFERS") && stdout(&o).contains("rule:"),
        "{}",
        stdout(&o)
    );
    refused(
        &["check", &data("yield.ftrace.txt.xz")],
        &["no state records"],
    );
    refused(
        &["check", &file, "--feature", "NO_SUCH"],
        &["NO_SUCH", "list features"],
    );
    refused(
        &["check", &file, "--profile", "2.4"],
        &["2.4", "6.12-stable"],
    );
}

#[test]
fn check_of_placement_and_balancing() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/smp/6.12.117");
    let file = |name: &str| root.join(name).display().to_string();
    let (good, other) = (
        file("flat2/hogs_n1/trace.txt.xz"),
        file("smt4/cg_every/trace.txt.xz"),
    );
    let o = schedlab(&["check", &good]);
    assert_eq!(o.status.code(), Some(0), "{}", stdout(&o));
    assert!(stdout(&o).contains("imbalance") && stdout(&o).contains("100.00 %"));
    // What the kernel saw after its probes differs in two decisions here; each is named.
    let o = schedlab(&["check", &good, &other]);
    assert_eq!(o.status.code(), Some(1), "{}", stdout(&o));
    let text = stdout(&o);
    assert!(
        text.contains("2 recordings") && text.contains(": ours "),
        "{text}"
    );
    let o = schedlab(&["check", &good, "--feature", "NO_WA_IDLE", "--json"]);
    assert_eq!(o.status.code(), Some(1));
    let v: serde_json::Value = serde_json::from_slice(&o.stdout).expect("JSON");
    assert_eq!(v[0]["agrees"], false);
    assert!(v[0]["report"]["misses"][0]["cause"].is_string(), "{v}");

    let folder = tempfile::tempdir().expect("folder");
    let alone = folder.path().join("trace.txt.xz");
    std::fs::copy(&good, &alone).expect("copy");
    let alone = alone.display().to_string();
    refused(
        &["check", &alone],
        &["needs the machine's topology", "--topology"],
    );
    let topology = file("flat2/topology.tar.xz");
    let o = schedlab(&["check", &alone, "--topology", &topology, "--summary"]);
    assert_eq!(o.status.code(), Some(0), "{}", stdout(&o));
    assert_eq!(stdout(&o).lines().count(), 1);
    refused(
        &["check", &alone, "--topology", &good],
        &["expected a .tar.xz"],
    );
    let wrong = file("smt4/topology.tar.xz");
    refused(
        &["check", &alone, "--topology", &wrong],
        &["event", "of 4 CPUs"],
    );
    std::fs::write(folder.path().join("domains.txt"), "x").expect("file");
    let here = folder.path().display().to_string();
    refused(
        &["check", &alone, "--topology", &here],
        &["dmesg-domains.txt"],
    );
}

#[test]
fn lists_and_differences() {
    for (what, word) in [
        ("features", "RUN_TO_PARITY"),
        ("profiles", "6.12-stable"),
        ("machines", "spr-224"),
        ("workloads", "hackbench"),
        ("studies", "wakeup-preempt"),
        ("costs", "xeon-2s"),
    ] {
        let o = schedlab(&["list", what]);
        assert!(
            o.status.success() && stdout(&o).contains(word),
            "{what}: {}",
            stdout(&o)
        );
        let o = schedlab(&["list", what, "--json"]);
        serde_json::from_slice::<serde_json::Value>(&o.stdout).expect("JSON");
    }
    let o = schedlab(&["diff-profiles", "6.12.0", "6.12-stable"]);
    let text = stdout(&o);
    assert!(
        text.contains("yield_rule") && text.contains("PICK_BUDDY"),
        "{text}"
    );
    assert!(!text.contains("DELAY_DEQUEUE"), "only what differs: {text}");
    refused(
        &["diff-profiles", "6.12.0", "9.9"],
        &["9.9", "expected one of"],
    );
    assert!(stdout(&schedlab(&["completions", "bash"])).contains("_schedlab"));
    assert!(stdout(&schedlab(&["--help"])).contains("Examples"));
}

#[test]
fn bad_scenarios_are_refused_with_their_place() {
    let dir = tempfile::tempdir().expect("dir");
    let bad = |name: &str, text: &str, words: &[&str]| {
        let file = write(dir.path(), name, text);
        let mut all = vec![name];
        all.extend(words);
        refused(&["run", &file], &all);
    };
    bad(
        "key.toml",
        &format!("{TWO_HOGS}nicenes = 3\n"),
        &["nicenes", ":7"],
    );
    bad(
        "type.toml",
        &format!("{TWO_HOGS}nice = \"high\"\n"),
        &["nice", ":7"],
    );
    bad(
        "cpu.toml",
        &format!("{TWO_HOGS}cpus = \"0-3\"\n"),
        &["cpus", ":7"],
    );
    bad(
        "zero.toml",
        "[[task]]\nname = \"p\"\nkind = \"periodic\"\nrun = \"1ms\"\nperiod = \"0ms\"\n",
        &["period", ":5"],
    );
    bad(
        "unit.toml",
        &TWO_HOGS.replace("\"50ms\"", "50"),
        &["duration", ":2"],
    );
    bad("syntax.toml", "[[task]\n", &[":1"]);
    let json = |run: &str| {
        format!(
            "{{\n \"tasks\": {{\n  \"t\": {{\n   \"loop\": 5,\n   \"run\": {run},\n   \"sleep\": 10\n  }}\n }}\n}}\n"
        )
    };
    bad("half.json", &json("8000.5"), &["run", ":5", "8000.5"]);
    bad("text.json", &json("\"8ms\""), &["run", ":5"]);
    let ok = write(dir.path(), "ok.json", &json("8000"));
    assert!(schedlab(&["run", &ok]).status.success());
    refused(&["run", "no-such-file.toml"], &["no-such-file.toml"]);
    refused(&["run", "nonsense"], &["nonsense", "list workloads"]);
    refused(&["study", "nonsense"], &["nonsense", "wakeup-preempt"]);
    let file = write(dir.path(), "two.toml", TWO_HOGS);
    refused(
        &["run", &file, "--set", "kernel.profile=3.14"],
        &["kernel.profile", "3.14"],
    );
    refused(&["run", &file, "--machine", "toaster"], &["toaster"]);
    refused(&["run", &file, "--duration", "soon"], &["duration"]);
}

#[test]
fn bad_traces_are_refused_or_read_as_far_as_they_go() {
    let dir = tempfile::tempdir().expect("dir");
    let empty = write(dir.path(), "empty.txt", "");
    refused(&["latency", &empty], &["empty.txt"]);
    let binary = dir.path().join("b.txt");
    fs::write(&binary, [0u8, 159, 146, 150, 0, 1, 2, 3]).expect("write");
    refused(&["latency", &binary.display().to_string()], &["b.txt"]);
    refused(&["latency", "/no/such/trace"], &["/no/such/trace"]);
    let file = write(dir.path(), "two.toml", TWO_HOGS);
    let txt = dir.path().join("t.txt");
    assert!(
        schedlab(&["run", &file, "--trace", &txt.display().to_string()])
            .status
            .success()
    );
    let whole = fs::read(&txt).expect("trace");
    let cut = dir.path().join("cut.txt");
    fs::write(&cut, &whole[..whole.len() * 2 / 3]).expect("write");
    let o = schedlab(&["latency", &cut.display().to_string()]);
    assert!(o.status.success(), "{}", stderr(&o));
    assert!(
        stdout(&o).contains("cut") || stdout(&o).contains("not understood"),
        "{}",
        stdout(&o)
    );
}

#[test]
fn an_output_that_cannot_be_written_is_refused_and_nothing_is_lost() {
    let dir = tempfile::tempdir().expect("dir");
    let file = write(dir.path(), "two.toml", TWO_HOGS);
    refused(
        &["run", &file, "--trace", "/no/such/folder/x.txt"],
        &["/no/such/folder/x.txt"],
    );
    refused(
        &["run", &file, "--trace", "trace.xyz"],
        &["trace.xyz", ".pftrace"],
    );
    let taken = dir.path().join("taken.txt");
    fs::create_dir(&taken).expect("dir");
    refused(
        &["run", &file, "--trace", &taken.display().to_string()],
        &["taken.txt"],
    );
    // A run that fails leaves an older result as it was.
    let old = write(dir.path(), "old.txt", "precious");
    let bad = write(
        dir.path(),
        "bad.toml",
        &TWO_HOGS.replace(
            "kind = \"hog\"",
            "program = [{ loop = \"forever\", steps = [\"yield\"] }]",
        ),
    );
    let o = schedlab(&["run", &bad, "--trace", &old]);
    assert_eq!(o.status.code(), Some(2), "{}", stderr(&o));
    assert_eq!(fs::read_to_string(&old).expect("old"), "precious");
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_no_half_written_file() {
    use std::process::{Command, Stdio};
    use std::time::Duration;
    let dir = tempfile::tempdir().expect("dir");
    let file = write(
        dir.path(),
        "long.toml",
        &TWO_HOGS.replace("50ms", "100000s"),
    );
    let txt = dir.path().join("t.txt");
    let mut child = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["run", &file, "--trace", &txt.display().to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("start");
    std::thread::sleep(Duration::from_millis(400));
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.is_ok_and(|s| s.success()));
    let status = child.wait().expect("end");
    assert_eq!(status.code(), Some(130));
    let names: Vec<String> = fs::read_dir(dir.path())
        .expect("dir")
        .filter_map(Result::ok)
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, ["long.toml"]);
}

#[test]
fn run_writes_the_kernels_own_files_whole_or_not_at_all() {
    let dir = tempfile::tempdir().expect("dir");
    let file = write(dir.path(), "two.toml", TWO_HOGS);
    let looks = dir.path().join("looks").display().to_string();
    let plain = schedlab(&["run", &file]);
    let o = schedlab(&["run", &file, "--procfs", &looks, "--procfs-every", "20ms"]);
    assert!(o.status.success(), "{}", stderr(&o));
    assert_eq!(o.stdout, plain.stdout);
    let mut names: Vec<String> = fs::read_dir(&looks)
        .expect("a folder")
        .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["00000000000020000000", "00000000000040000000"]);
    let at = Path::new(&looks).join(&names[1]);
    let stat = fs::read_to_string(at.join("proc/schedstat")).expect("schedstat");
    assert!(
        stat.starts_with("version 16\ntimestamp 40\ncpu0 0 0 "),
        "{stat}"
    );
    assert!(at.join("sys/kernel/debug/sched/debug").is_file());
    refused(&["run", &file, "--procfs", &looks], &["is there already"]);
    let other = dir.path().join("other").display().to_string();
    refused(
        &["run", &file, "--procfs", &other, "--procfs-every", "0ms"],
        &["--procfs-every 0ms", "above zero"],
    );
    let left = fs::read_dir(dir.path()).expect("dir").count();
    assert_eq!(left, 2, "nothing half-written is left");
}
