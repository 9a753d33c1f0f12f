//! `schedlab machine` from the outside.

mod common;

use std::fs;

use common::schedlab;

fn stdout(args: &[&str]) -> String {
    let o = schedlab(args);
    let err = String::from_utf8_lossy(&o.stderr).into_owned();
    assert!(o.status.success(), "{args:?}: {err}");
    String::from_utf8(o.stdout).expect("text")
}

fn refused(args: &[&str], words: &str) {
    let o = schedlab(args);
    let err = String::from_utf8_lossy(&o.stderr).into_owned();
    assert_eq!(o.status.code(), Some(2), "{args:?}: {err}");
    assert!(
        o.stdout.is_empty() && err.contains(words),
        "{args:?}: {err}"
    );
}

fn tree(name: &str) -> String {
    let here = env!("CARGO_MANIFEST_DIR");
    format!("{here}/../scenario/tests/data/topology/{name}.tar.xz")
}

#[test]
fn machines_as_text() {
    for name in [
        "flat-1",
        "desktop-8",
        "phone-6",
        "skl-104",
        "srf-192",
        "spr-224",
        "epyc-256",
    ] {
        insta::assert_snapshot!(name, stdout(&["machine", "show", name, "--domains"]));
    }
}

#[test]
fn machine_as_json() {
    let text = stdout(&["machine", "show", "epyc-256", "--domains", "--json"]);
    let v: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(v["nr_cpus"], 256);
    assert_eq!(v["cpus"][255]["llc"], 15);
    let top = &v["chains"][130]["domains"][3];
    let domain = &v["domains"][top["domain"].as_u64().expect("number") as usize];
    assert_eq!(domain["name"], "NUMA");
    assert_eq!(domain["imb_numa_nr"], 8);
    let own = &domain["groups"][top["own_group"].as_u64().expect("number") as usize];
    assert_eq!(own["span"], "0-63,128-191");
    let one = stdout(&["machine", "show", "epyc-256", "--cpus", "7", "--json"]);
    let v: serde_json::Value = serde_json::from_str(&one).expect("JSON");
    assert_eq!(v["chains"].as_array().map(Vec::len), Some(1));
    assert!(
        stdout(&["machine", "show", "flat-2", "--json"])
            .contains("\"schema\": \"schedlab.machine/1\"")
    );
}

#[test]
fn an_imported_machine_runs() {
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("numa8.toml").display().to_string();
    let quiet = stdout(&[
        "machine",
        "import",
        &tree("numa8"),
        "--out",
        &file,
        "--name",
        "numa8",
    ]);
    assert!(quiet.is_empty());
    assert!(
        fs::read_to_string(&file)
            .expect("written")
            .contains("llcs = [\"0-3\", \"4-7\"]")
    );
    let shown = stdout(&["machine", "show", &file, "--cpus", "5"]);
    assert!(
        shown.contains("NUMA (level 5): span 0-7, nodes up to 20 apart"),
        "{shown}"
    );
    // The same as showing what was imported directly, but for where it comes from.
    let direct = stdout(&["machine", "show", &tree("numa8"), "--cpus", "5"]);
    assert_eq!(
        shown.lines().skip(3).collect::<Vec<_>>(),
        direct.lines().skip(3).collect::<Vec<_>>()
    );
    let args = [
        "run",
        "hackbench",
        "--machine",
        &file,
        "--set",
        "workload.groups=1",
        "--set",
        "workload.loops=2",
    ];
    let text = stdout(&args);
    assert!(text.contains("machine numa8 (8 CPUs)"), "{text}");
    assert_eq!(text, stdout(&args));
    let study = dir.path().join("s.toml");
    let body = "name = \"s\"\ntitle = \"t\"\nquestion = \"q\"\nprogram = \"hackbench\"\nmachine = \"numa8.toml\"\nruns = 1\n\
                [scenario.workload.hackbench]\ngroups = 1\nloops = 2\n\
                [[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\nset = { kernel.preempt = \"full\" }\n";
    fs::write(&study, body).expect("written");
    stdout(&["study", &study.display().to_string()]);
}

#[test]
#[cfg(target_os = "linux")]
fn the_present_machine() {
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("here.toml").display().to_string();
    stdout(&["machine", "here", "--out", &file]);
    let shown = stdout(&["machine", "show", &file, "--domains"]);
    assert!(shown.starts_with("here: "), "{shown}");
}

#[test]
fn what_is_wrong_is_said() {
    let dir = tempfile::tempdir().expect("dir");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    refused(&["machine", "show", "spr-225"], "did you mean `spr-224`?");
    refused(
        &["machine", "show", "none.toml"],
        "none.toml: cannot be read",
    );
    refused(
        &["machine", "show", "flat-4", "--cpus", "4"],
        "--cpus 4: CPU 4 is outside the machine, which has CPUs 0 to 3",
    );
    refused(
        &["machine", "show", "flat-4", "--cpus", "x"],
        "--cpus x: expected a CPU list",
    );
    let none = write("none.toml", "name = \"none\"\n");
    refused(
        &["machine", "show", &none],
        "none.toml:1:1: `cpus` is missing",
    );
    let over = write(
        "over.toml",
        "cpus = 4\n[layout]\nllcs = [\"0-2\", \"2-3\"]\n",
    );
    refused(
        &["run", "hackbench", "--machine", &over],
        "over.toml:3:8: `layout.llcs`: CPU 2 is in number 0 and",
    );
    let skew = write(
        "skew.toml",
        "cpus = 2\ndistances = [[10, 20], [30, 10]]\n[layout]\nnodes = [\"0\", \"1\"]\n",
    );
    refused(&["machine", "show", &skew], "skew.toml:2:13: `distances`");
    let costs = write("costs.toml", "cores_per_llc = 2\n[costs]\npick = \"1us\"\n");
    refused(
        &["machine", "show", &costs],
        "costs.toml:2:1: `costs.syscall` is missing",
    );
    refused(
        &[
            "machine",
            "import",
            &dir.path().join("no").display().to_string(),
        ],
        "cannot be read",
    );
    refused(
        &["machine", "import", &dir.path().display().to_string()],
        "has no folder `cpu`",
    );
    let out = dir.path().join("out.toml").display().to_string();
    refused(
        &["machine", "import", &none, "--out", &out],
        "is neither a tar of sysfs",
    );
    assert!(
        !dir.path().join("out.toml").exists(),
        "nothing half-written"
    );
    let hog = write(
        "hog.toml",
        "machine = \"flat-2\"\n[[task]]\nname = \"a\"\nkind = \"hog\"\ncpus = \",\"\n",
    );
    refused(
        &["run", &hog],
        "hog.toml:5:8: `task[0].cpus`: expected a CPU list",
    );
}
