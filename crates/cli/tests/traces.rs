//! `convert` and `info` from the outside.

mod common;

use std::fs;
use std::path::Path;

use assert_cmd::Command;

use common::{schedlab, stderr, stdout};

fn data(name: &str) -> String {
    format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs, expects success, gives what was said on stderr.
fn ok(args: &[&str]) -> String {
    let o = schedlab(args);
    assert!(o.status.success(), "{args:?}: {}", stderr(&o));
    stderr(&o)
}

/// A folder and paths in it.
struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("dir"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("write");
        path
    }

    fn files(&self) -> Vec<String> {
        let mut files: Vec<_> = fs::read_dir(self.0.path())
            .expect("dir")
            .map(|f| f.expect("file").file_name().to_string_lossy().into_owned())
            .collect();
        files.sort();
        files
    }
}

/// A few lines with everything that the formats treat differently. Times are whole microseconds.
const SMALL: &str = "\
# tracer: nop
          <idle>-0       [001] dNh4.     1.000001: sched_waking: comm=a b pid=7 prio=120 target_cpu=001
          <idle>-0       [001] dNh5.     1.000003: sched_wakeup: comm=a b pid=7 prio=120 target_cpu=001
          <idle>-0       [001] d..2.     1.000009: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a b next_pid=7 next_prio=120
             a b-7       [001] .....     1.000020: tracing_mark_write: hello
             a b-7       [001] d..2.     1.000030: sched_stat_runtime: comm=a b pid=7 runtime=21000 [ns]
             a b-7       [001] d..2.     1.000031: sched_switch: prev_comm=a b prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
CPU:1 [LOST 12 EVENTS]
";

#[test]
fn ndjson_and_ftrace_text_hold_everything() {
    let dir = Dir::new();
    let (a, b, c) = (dir.path("a.ndjson"), dir.path("b.txt"), dir.path("c.jsonl"));
    assert_eq!(ok(&["convert", &data("yield.ftrace.txt.xz"), &a]), "");
    assert_eq!(ok(&["convert", &a, &b]), "");
    assert_eq!(ok(&["convert", &b, &c]), "");
    let text = fs::read_to_string(&a).expect("a");
    assert_eq!(text.lines().count(), 479 + 2);
    assert_eq!(text, fs::read_to_string(&c).expect("c"));
    assert_eq!(dir.files(), ["a.ndjson", "b.txt", "c.jsonl"]);
}

#[test]
fn every_format_of_a_small_trace() {
    let dir = Dir::new();
    let input = dir.write("in.txt", SMALL);
    let mut shown = String::new();
    for format in ["ftrace", "perf-script", "ndjson"] {
        let o = schedlab(&["convert", &input, "-", "--to", format]);
        assert!(o.status.success());
        shown += &format!("--- {format}\n{}--- stderr\n{}", stdout(&o), stderr(&o));
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn perfetto_there_and_back() {
    let dir = Dir::new();
    let input = dir.write("in.txt", SMALL);
    let (trace, back) = (dir.path("t.pftrace"), dir.path("back.txt"));
    let said = ok(&["convert", &input, &trace]);
    insta::assert_snapshot!(said, @r"
    schedlab: Perfetto has no place for: depth of disabled preemption (5 events)
    schedlab: Perfetto needs a kernel release to read prev_state: 6.12.0 is written, the trace tells none
    ");
    ok(&["convert", &trace, &back]);
    let back = fs::read_to_string(back).expect("back");
    let events: Vec<_> = back.lines().filter(|l| !l.starts_with('#')).collect();
    insta::assert_snapshot!(events.join("\n"));
    // The queue: a task waits from its wakeup until it is switched in.
    let bytes = fs::read(trace).expect("trace");
    assert!(contains(&bytes, b"queue length CPU 1"));
    assert!(!contains(&bytes, b"lag"));
}

fn contains(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|w| w == what)
}

#[test]
fn kernel_state_becomes_counter_tracks() {
    let dir = Dir::new();
    let recording = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../conformance/recordings/6.12.117/hogs2_slice/trace.txt.xz");
    let trace = dir.path("t.pftrace");
    ok(&["convert", &recording.display().to_string(), &trace]);
    let bytes = fs::read(&trace).expect("trace");
    for name in ["queue length CPU 0", "deadline", "lag"] {
        assert!(contains(&bytes, name.as_bytes()), "{name}");
    }
    let info = stdout(&schedlab(&["info", &trace]));
    assert!(info.contains("x track_event"), "{info}");
    assert!(info.contains("x track_descriptor"), "{info}");
}

#[test]
fn a_simulated_trace_has_the_same_tracks() {
    let dir = Dir::new();
    let scenario = dir.write(
        "two.toml",
        "machine = \"flat-1\"\nduration = \"50ms\"\n[[task]]\nname = \"h\"\ncount = 2\nkind = \"hog\"\n",
    );
    let trace = dir.path("t.pftrace");
    ok(&["run", &scenario, "--trace", &trace, "--state"]);
    let bytes = fs::read(&trace).expect("trace");
    for name in ["queue length CPU 0", "deadline", "lag"] {
        assert!(contains(&bytes, name.as_bytes()), "{name}");
    }
    let ndjson = dir.path("t.ndjson");
    ok(&["run", &scenario, "--trace", &ndjson]);
    let info = stdout(&schedlab(&["info", &ndjson]));
    assert!(info.contains("sched_switch"), "{info}");
}

#[test]
fn refusals_leave_nothing_behind() {
    let dir = Dir::new();
    let input = dir.write("in.txt", SMALL);
    let bad = dir.write("bad.txt", "hello\n");
    let kept = dir.write("kept.ndjson", "as it was");
    for (args, words) in [
        (
            vec!["convert", &input, "out.json"],
            vec!["out.json", ".ndjson", ".pftrace"],
        ),
        (vec!["convert", &bad, &kept], vec!["bad.txt", "other text"]),
        (vec!["convert", "/nonexistent", &kept], vec!["/nonexistent"]),
        (vec!["convert", &input], vec!["<OUT>"]),
        (
            vec!["convert", &input, &kept, "--to", "x"],
            vec!["perf-script"],
        ),
        (vec!["info", &bad], vec!["bad.txt"]),
    ] {
        let o = schedlab(&args);
        assert_eq!(o.status.code(), Some(2), "{args:?}");
        assert!(o.stdout.is_empty(), "{args:?}");
        for word in words {
            assert!(
                stderr(&o).contains(word),
                "{args:?}: no {word} in {}",
                stderr(&o)
            );
        }
    }
    assert_eq!(fs::read_to_string(&kept).expect("kept"), "as it was");
    assert_eq!(dir.files(), ["bad.txt", "in.txt", "kept.ndjson"]);
}

#[test]
fn a_file_that_breaks_midway_gives_no_output_but_its_info() {
    let dir = Dir::new();
    let xz = fs::read(data("yield.ftrace.txt.xz")).expect("data");
    let gz = {
        let mut text = String::from(SMALL);
        for i in 0..2000 {
            text += &format!(
                "             a b-7       [001] .....     1.{:06}: tracing_mark_write: {}\n",
                100 + i,
                i * i
            );
        }
        text
    };
    let whole = dir.write("whole.txt", gz);
    let cut = dir.write("cut.xz", &xz[..xz.len() - 200]);
    let out = dir.path("out.ndjson");
    let o = schedlab(&["convert", &cut, &out]);
    assert_eq!(o.status.code(), Some(2));
    assert!(stderr(&o).contains("cut"), "{}", stderr(&o));
    assert_eq!(dir.files(), ["cut.xz", "whole.txt"]);
    ok(&["convert", &whole, &out]);
    // Cut within a line: what is there is read, and the report says that it is cut.
    let text = fs::read_to_string(&whole).expect("text");
    let cut = dir.write("cut.txt", &text[..text.len() - 5]);
    let o = schedlab(&["info", &cut, "--json"]);
    assert!(o.status.success());
    let v: serde_json::Value = serde_json::from_slice(&o.stdout).expect("JSON");
    assert_eq!(v["complete"], false);
    assert_eq!(v["report"]["events"], 2005);
    assert_eq!(v["report"]["unparsed"][0]["reason"], "truncated");
}

#[test]
fn a_part_is_written_if_asked_for() {
    let dir = Dir::new();
    let lines = |path: &str| -> Vec<String> {
        let text = fs::read_to_string(path).expect("output");
        let lines = text.lines().filter(|l| l.contains("\"ts\""));
        lines.map(str::to_owned).collect()
    };
    // Compressed text, a pipe of perf, a trace.dat: each cut in its middle.
    let trace = format!("{}/../trace/tests/fixtures", env!("CARGO_MANIFEST_DIR"));
    let unpacked = |name: &str| {
        let file = fs::File::open(format!("{trace}/{name}")).expect("fixture");
        let mut out = Vec::new();
        std::io::Read::read_to_end(&mut liblzma::read::XzDecoder::new(file), &mut out).expect("xz");
        out
    };
    let mut text = String::from(SMALL);
    for i in 0..3000 {
        text += &format!(
            "             a b-7       [001] .....     1.{:06}: tracing_mark_write: {}\n",
            100 + i,
            i * i % 7919
        );
    }
    let mut broken_pipe = unpacked("perf/pipe.data.xz");
    let at = broken_pipe.len() - 300;
    // A record that is shorter than its own header: reading cannot go on.
    broken_pipe[at..].fill(0);
    let pipe = unpacked("perf/pipe.data.xz");
    for (name, whole, damaged) in [
        (
            "t.txt",
            text.as_bytes(),
            &text.as_bytes()[..text.len() - 20],
        ),
        ("t.data", &pipe[..], &pipe[..pipe.len() - 20]),
        ("t.data", &pipe[..], &broken_pipe[..]),
    ] {
        let (whole, damaged) = (
            dir.write(name, whole),
            dir.write(&format!("cut-{name}"), damaged),
        );
        let (all, part) = (dir.path("all.ndjson"), dir.path("part.ndjson"));
        ok(&["convert", "--partial", &whole, &all]);
        let o = schedlab(&["convert", "--partial", &damaged, &part]);
        let err = stderr(&o);
        assert_eq!(o.status.code(), Some(1), "{name}: {err}");
        assert!(
            err.contains("only a part of the trace was written"),
            "{name}: {err}"
        );
        let (all, part) = (lines(&all), lines(&part));
        assert!(
            part.len() > 10 && part.len() < all.len(),
            "{name}: {}",
            part.len()
        );
        // In the same order; perf's buffers are written one CPU after another, so what lacks may lie between.
        let mut rest = all.iter();
        assert!(part.iter().all(|line| rest.any(|l| l == line)), "{name}");
        assert!(
            err.contains(&format!("the {} events that could be read", part.len())),
            "{name}: {err}"
        );
        fs::remove_file(dir.path("part.ndjson")).expect("remove");
    }
    // Nothing at all to write is an error as ever, and leaves nothing.
    let bad = dir.write("bad.txt", "hello\n");
    let o = schedlab(&["convert", "--partial", &bad, &dir.path("part.ndjson")]);
    assert_eq!(o.status.code(), Some(2));
    assert!(!dir.files().contains(&"part.ndjson".to_owned()));
}

/// What `info` says, on a file with every kind of trouble.
#[test]
fn info_tells_all() {
    let dir = Dir::new();
    let file = dir.write(
        "odd.txt",
        "\
# nop latency trace v1.1.5 on 6.12.9
# entries-in-buffer/entries-written: 8/20   #P:4
CPU 3 is empty
            b-8       [000] d..2.     1.000001: sched_waking: comm=z pid=9 prio=120 target_cpu=001
            a-7       [001] d..2.     1.000050: sched_wakeup: comm=x y pid=3 prio=120 target_cpu=001
            b-8       [000] d..2.     1.000060: sched_waking: comm=x y pid=3 prio=120 target_cpu=001
            b-8       [000] ?????     1.000070: sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=1 ==> next_comm=swapper/0 next_pid=0 next_prio=120
            a-7       [001] d..2.     1.000055: sched_stat_runtime: comm=a name of more than 15 pid=7 runtime=1 [ns]
            a-7       [001]  1.000080: sched_switch: [FAILED TO PARSE] prev_comm=a
CPU:1 [LOST 12 EVENTS]
CPU:0 [LOST EVENTS]
what is this
            a-7       [001] d..2.     1.000090: sched_wakeup: comm=x",
    );
    let o = schedlab(&["info", &file]);
    assert!(o.status.success(), "{}", stderr(&o));
    let text = stdout(&o).replace(&file, "odd.txt");
    insta::assert_snapshot!(text);
    // The same through a pipe.
    let piped = Command::cargo_bin("schedlab")
        .expect("binary")
        .args(["info", "-"])
        .write_stdin(fs::read(&file).expect("file"))
        .output()
        .expect("it runs");
    assert!(stdout(&piped).contains("not read: 1 x [FAILED TO PARSE]"));
}

#[test]
fn the_schema_is_printed() {
    let o = schedlab(&["convert", "--json-schema"]);
    let v: serde_json::Value = serde_json::from_slice(&o.stdout).expect("JSON");
    assert_eq!(v["title"], "schedlab.trace/1");
}
