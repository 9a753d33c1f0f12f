//! `schedlab compare` from the outside: what it reads, what it prints, how it ends.

mod common;

use std::fs;
use std::path::Path;

use common::{schedlab, stderr, stdout};

/// Stored results of one variant: throughput (primary, more is better) and a count of unknown direction.
fn store(dir: &Path, name: &str, unit: &str, throughput: &[f64]) -> String {
    let runs: Vec<String> = throughput
        .iter()
        .enumerate()
        .map(|(n, x)| {
            format!(
                "{{\"id\":\"{n}\",\"values\":{{\"hackbench.throughput\":{x},\"vmstat.cs\":{}}}}}",
                100 + n
            )
        })
        .collect();
    let text = format!(
        "{{\"schema\":\"schedlab.results/1\",\"axis\":\"commit\",\"common\":[[\"testcase\",\"hackbench\"]],\
         \"metrics\":[{{\"key\":\"hackbench.throughput\",\"unit\":\"{unit}\",\"direction\":\"better_high\",\"role\":\"primary\"}},\
         {{\"key\":\"vmstat.cs\"}}],\"variants\":[{{\"name\":\"{name}\",\"runs\":[{}]}}]}}\n",
        runs.join(",")
    );
    let path = dir.join(format!("{name}.json"));
    fs::write(&path, text).expect("write");
    path.display().to_string()
}

#[test]
fn two_stores_give_the_lkp_table_and_an_exit_code_by_threshold() {
    let dir = tempfile::tempdir().expect("dir");
    let a = store(dir.path(), "base", "KB/s", &[100.0, 101.0, 99.0]);
    let b = store(dir.path(), "patched", "KB/s", &[87.0, 88.0, 86.0]);
    let o = schedlab(&["compare", &a, &b]);
    assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    assert!(
        stdout(&o).contains("    100.00           -13.0%      87.00        hackbench.throughput\n"),
        "{}",
        stdout(&o)
    );
    assert_eq!(
        schedlab(&["compare", &a, &b, "--threshold", "20"])
            .status
            .code(),
        Some(0)
    );
    let o = schedlab(&["compare", &a, &b, "--threshold", "5"]);
    assert_eq!(o.status.code(), Some(1));
    assert!(stderr(&o).contains("hackbench.throughput is worse on patched: -13.0 %"));
    // The other way round it is better: no regression.
    assert_eq!(
        schedlab(&["compare", &b, &a, "--threshold", "5"])
            .status
            .code(),
        Some(0)
    );
    assert_eq!(
        schedlab(&["compare", &b, &a, "--base", "base", "--threshold", "5"])
            .status
            .code(),
        Some(1)
    );
}

#[test]
fn every_format_has_rows_and_a_legend() {
    let dir = tempfile::tempdir().expect("dir");
    let a = store(dir.path(), "base", "KB/s", &[100.0, 101.0, 99.0]);
    let b = store(dir.path(), "patched", "KB/s", &[87.0, 88.0, 86.0]);
    let print = |format| {
        stdout(&schedlab(&[
            "compare", &a, &b, "--format", format, "--legend",
        ]))
    };
    assert!(print("lkp").contains("population standard deviation"));
    let normalized = print("normalized");
    assert!(normalized.contains("0.87 [-13.00]( 1.15)"), "{normalized}");
    assert!(normalized.contains("positive is better"));
    let markdown = print("markdown");
    assert!(
        markdown.contains("| **hackbench.throughput** | KB/s | 100.00 ± 1 % | patched | 87.00 ± 1 % | -13.0 % [-15.3, -10.7] | worse |"),
        "{markdown}"
    );
    let csv = print("csv");
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(
        csv.contains("\nhackbench.throughput,KB/s,better_high,primary,base,patched,3,3,100,87,"),
        "{csv}"
    );
    let json: serde_json::Value = serde_json::from_str(&print("json")).expect("json");
    assert_eq!(json["rows"][0]["others"][0]["values"][0], 87.0);
}

#[test]
fn what_compare_and_study_print_as_json_is_read_again() {
    let dir = tempfile::tempdir().expect("dir");
    let a = store(dir.path(), "base", "KB/s", &[100.0, 101.0, 99.0]);
    let b = store(dir.path(), "patched", "KB/s", &[87.0, 88.0, 86.0]);
    let whole = schedlab(&["compare", &a, &b, "--format", "json"]);
    let file = dir.path().join("whole.json");
    fs::write(&file, &whole.stdout).expect("write");
    let again = schedlab(&["compare", &file.display().to_string(), "--format", "json"]);
    assert_eq!(stdout(&again), stdout(&whole));
}

#[test]
fn a_folder_of_single_runs_is_one_variant() {
    let dir = tempfile::tempdir().expect("dir");
    let scenario = dir.path().join("hogs.toml");
    fs::write(
        &scenario,
        "machine = \"flat-1\"\nduration = \"50ms\"\n[[task]]\nname = \"h\"\ncount = 2\nkind = \"hog\"\n",
    )
    .expect("write");
    for profile in ["6.6", "6.12.0"] {
        let folder = dir.path().join(format!("on-{profile}"));
        fs::create_dir(&folder).expect("folder");
        for seed in ["1", "2", "3"] {
            let set = format!("kernel.profile={profile}");
            let o = schedlab(&[
                "run",
                &scenario.display().to_string(),
                "--json",
                "--seed",
                seed,
                "--set",
                &set,
            ]);
            fs::write(folder.join(format!("{seed}.json")), &o.stdout).expect("write");
        }
    }
    let path = |name: &str| dir.path().join(name).display().to_string();
    let o = schedlab(&[
        "compare",
        &path("on-6.6"),
        &path("on-6.12.0"),
        "--format",
        "json",
    ]);
    assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    assert!(
        stderr(&o).contains("`kernel` differs: 6.6"),
        "{}",
        stderr(&o)
    );
    let json: serde_json::Value = serde_json::from_str(&stdout(&o)).expect("json");
    assert_eq!(json["base"], "on-6.6");
    assert_eq!(json["rows"][0]["base"]["n"], 3);
}

#[test]
fn bad_results_are_refused_by_name() {
    let dir = tempfile::tempdir().expect("dir");
    let a = store(dir.path(), "base", "KB/s", &[100.0]);
    let b = store(dir.path(), "other", "MB/s", &[100.0]);
    let bad = dir.path().join("bad.json");
    let refused = |args: &[&str], words: &[&str]| {
        let o = schedlab(args);
        assert_eq!(o.status.code(), Some(2), "{}", stderr(&o));
        for word in words {
            assert!(stderr(&o).contains(word), "no `{word}` in {}", stderr(&o));
        }
    };
    refused(
        &["compare", &a, &b],
        &["other", "hackbench.throughput", "unit"],
    );
    refused(&["compare", &a], &["expected two or more"]);
    refused(&["compare", &a, "nowhere.json"], &["nowhere.json"]);
    for (text, words) in [
        ("{\"schema\":\n\"x/1\"}", ["bad.json", "schedlab.results/1"]),
        ("{\n\"schema\": NaN}", ["bad.json", "line 2"]),
        ("", ["bad.json", "empty"]),
    ] {
        fs::write(&bad, text).expect("write");
        refused(&["compare", &a, &bad.display().to_string()], &words);
    }
    let o = schedlab(&["compare", &a, &a, "--threshold=-1"]);
    assert_eq!(o.status.code(), Some(2));
}
