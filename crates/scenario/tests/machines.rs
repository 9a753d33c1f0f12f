//! Machines by name, as files, imported; and what is wrong with some.

use std::fs;
use std::path::Path;

use schedlab_scenario::import::{self, Imported};
use schedlab_scenario::{Machine, Overrides, Scenario};
use schedlab_topology::{Arch, Domains, Flags};

const HOG: &str = "duration = \"1ms\"\n[[task]]\nname = \"a\"\nkind = \"hog\"\n";

fn machine(text: &str) -> Machine {
    Machine::parse("m.toml", text).unwrap()
}

fn error(text: &str) -> String {
    Machine::parse("m.toml", text).unwrap_err().to_string()
}

fn chain(m: &Machine, cpu: u32) -> String {
    let d = Domains::build(&m.hardware);
    let all: Vec<String> = d
        .of(cpu)
        .map(|d| format!("{} {}", d.level.name(), d.span_weight))
        .collect();
    all.join(" ")
}

#[test]
fn every_preset_has_the_levels_of_its_kind() {
    let expected = [
        ("flat-1", ""),
        ("flat-8", "MC 8"),
        ("study-16", "SMT 2 MC 8 NUMA 16"),
        ("desktop-8", "SMT 2 MC 8"),
        ("phone-6", "MC 4 PKG 6"),
        ("skl-104", "SMT 2 MC 52 NUMA 104"),
        ("srf-192", "CLS 4 MC 96 NUMA 192"),
        ("spr-224", "SMT 2 MC 112 NUMA 224"),
        ("epyc-256", "SMT 2 MC 16 PKG 128 NUMA 256"),
    ];
    for (name, levels) in expected {
        let m = Machine::by_name(name).unwrap();
        assert_eq!(chain(&m, 0), levels, "{name}");
    }
    let epyc = Domains::build(&Machine::by_name("epyc-256").unwrap().hardware);
    assert!(
        epyc.of(0).last().unwrap().flags.has(Flags::WAKE_AFFINE),
        "Zen: near up to 32"
    );
}

#[test]
fn presets_run() {
    for (name, _) in Machine::list() {
        let name = name.replace('N', "5");
        let text = format!("machine = \"{name}\"\n{HOG}");
        let s = Scenario::parse("s.toml", &text, Path::new(""), &Overrides::new()).unwrap();
        let outcome = s.run(|_| {}).unwrap();
        assert_eq!(outcome.result.cpus.len() as u32, s.machine.cpus(), "{name}");
    }
}

#[test]
fn a_layout_tells_each_cpu_its_place() {
    let m = machine(
        "cpus = 6\ncapacity = [1024, 1024, 512, 512, 512, 512]\ndistances = [[10, 17], [17, 10]]\n\
         costs = { profile = \"xeon-2s\", pick = \"99ns\" }\nhz = 250\ntick_skew = \"100us\"\nreclaim_distance = 12\n\
         [layout]\ncores = [\"0-1\", \"2-3\", \"4\", \"5\"]\nclusters = [\"0-1\", \"2-3\", \"4-5\"]\nllcs = [\"0-1\", \"2-5\"]\n\
         nodes = [\"0-1\", \"2-5\"]\nsockets = [\"0-5\"]\n\
         [[idle_state]]\nname = \"C1\"\nexit_latency = \"2us\"\ntarget_residency = \"5us\"\n",
    );
    assert_eq!(chain(&m, 5), "CLS 2 MC 4 NUMA 6");
    assert_eq!(m.hardware.cpus[4].capacity, 512);
    assert_eq!((m.hz, m.costs.pick, m.costs.enqueue), (250, 99, 280));
    assert_eq!(m.hardware.idle_states[0].target_residency, 5_000);
    let d = Domains::build(&m.hardware);
    assert!(
        !d.of(5).last().unwrap().flags.has(Flags::BALANCE_FORK),
        "17 is beyond 12"
    );
    assert_eq!(machine(&m.to_toml()).hardware.cpus, m.hardware.cpus);
}

#[test]
fn shapes() {
    let m = machine(
        "sockets = 2\nnodes = 4\nllcs_per_socket = 2\ncores_per_llc = 4\nsmt = 2\nsiblings = \"apart\"\n",
    );
    assert_eq!((m.cpus(), m.hardware.nr_nodes()), (32, 4));
    assert_eq!(chain(&m, 0), "SMT 2 MC 8 NUMA 32");
    assert_eq!(m.name(), "custom");
    let m = machine("preset = \"srf-192\"\nsockets = 4\n");
    assert_eq!((m.cpus(), m.hardware.nr_nodes()), (384, 4));
    assert_eq!(chain(&m, 0), "CLS 4 MC 96 NUMA 384");
    let generic =
        machine("arch = \"generic\"\ncores_per_llc = 4\ncores_per_cluster = 4\nsmt = 1\n");
    assert_eq!(generic.hardware.arch, Arch::Generic);
}

#[test]
fn a_scenario_names_a_machine_file_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("box.toml"),
        "cores_per_llc = 3\nsmt = 1\nhz = 100\n",
    )
    .unwrap();
    let text = format!("machine = \"box.toml\"\n{HOG}");
    let s = Scenario::parse("s.toml", &text, dir.path(), &Overrides::new()).unwrap();
    assert_eq!(
        (s.machine.name(), s.machine.cpus(), s.machine.hz),
        ("box", 3, 100)
    );
    let text = format!("machine = {{ preset = \"box.toml\", hz = 250 }}\n{HOG}");
    let s = Scenario::parse("s.toml", &text, dir.path(), &Overrides::new()).unwrap();
    assert_eq!((s.machine.cpus(), s.machine.hz), (3, 250));
    // In an option the path starts where the program does.
    let mut o = Overrides::new();
    o.push(&format!(
        "machine={}",
        dir.path().join("box.toml").display()
    ))
    .unwrap();
    let s = Scenario::parse("s.toml", HOG, Path::new("elsewhere"), &o).unwrap();
    assert_eq!(s.machine.cpus(), 3);
}

#[test]
fn faults_of_a_machine_file_have_a_place() {
    assert_eq!(
        error("name = \"x\"\n"),
        "m.toml:1:1: `cpus` is missing; expected CPUs: `cpus` with a [layout], or a shape such as `sockets`, \
         `cores_per_llc` and `smt`, or a `preset`"
    );
    assert!(
        error("cpus = 0\n[layout]\n")
            .starts_with("m.toml:1:8: `cpus`: expected an integer from 1 to 4096")
    );
    assert_eq!(
        error("cpus = 8\n[layout]\nllcs = [\"0-4\", \"4-7\"]\n"),
        "m.toml:3:8: `layout.llcs`: CPU 4 is in number 0 and in number 1, counted from 0; expected it in one"
    );
    assert_eq!(
        error("cpus = 8\n[layout]\nllcs = [\"0-3\", \"4-6\"]\n"),
        "m.toml:3:8: `layout.llcs`: CPU 7 is in none; expected every CPU in one"
    );
    assert_eq!(
        error("cpus = 8\n[layout]\nllcs = [\"0-3\", \"4-8\"]\n"),
        "m.toml:3:16: `layout.llcs[1]`: CPU 8 is outside the machine, which has CPUs 0 to 7"
    );
    assert_eq!(
        error("cpus = 4\n[layout]\ncores = [\"0-1\", \"2-3\"]\nllcs = [\"0\", \"1-3\"]\n"),
        "m.toml:2:1: `layout`: core 0: CPUs 0 and 1 are in different last-level caches; expected one"
    );
    let nodes = "[layout]\nnodes = [\"0-1\", \"2-3\"]\n";
    assert_eq!(
        error(&format!(
            "cpus = 4\ndistances = [[10, 20], [21, 10]]\n{nodes}"
        )),
        "m.toml:2:13: `distances`: distances: node 0 to node 1 is 20, but node 1 to node 0 is 21; expected equal ones"
    );
    assert_eq!(
        error(&format!("cpus = 4\ndistances = [[10, 20]]\n{nodes}")),
        "m.toml:2:13: `distances`: distances: 1 rows for 2 nodes; expected one row a node"
    );
    assert!(error(&format!("cpus = 4\ndistances = [[10, 300]]\n{nodes}")).starts_with(
        "m.toml:2:19: `distances[0][1]`: expected an integer from 10 to 255, found the integer 300"
    ));
    assert_eq!(
        error(&format!("cpus = 4\n{nodes}")),
        "m.toml:1:1: `distances` is missing; expected the distance of each node to each, as [[10, 20], [20, 10]]"
    );
    assert_eq!(
        error("cpus = 2\nsmt = 2\n[layout]\n"),
        "m.toml:2:7: `smt`: a machine has either a shape or a [layout]"
    );
    assert_eq!(
        error("preset = \"phone-6\"\nsmt = 2\n"),
        "m.toml:2:7: `smt`: the machine phone-6 has no regular shape, so it cannot be changed"
    );
    assert_eq!(
        error("preset = \"phone-6\"\ncpus = 12\n"),
        "m.toml:2:8: `cpus`: the machine phone-6 has no regular shape, so its number of CPUs is fixed"
    );
    assert!(
        error("cpus = 2\nsocket = 1\n").contains("unknown key `socket`; did you mean `sockets`?")
    );
    assert!(
        error("preset = \"flat-2\"\ncapacity = [1, 2, 3]\n").contains("3 capacities for 2 CPUs")
    );
    assert!(
        error("cores_per_llc = 2\n[[idle_state]]\nname = \"a\"\nexit_latency = \"2us\"\n[[idle_state]]\nname = \"b\"\nexit_latency = \"1us\"\n")
            .contains("idle state `b` is left faster than the one before it")
    );
    assert!(
        error("sockets = 4096\nsmt = 4096\n").contains("16777216 CPUs; a machine has at most 4096")
    );
    assert!(
        error("cores_per_llc = 6\ncores_per_cluster = 4\nllcs_per_socket = 2\n")
            .contains("cluster 1: CPUs")
    );
}

#[test]
fn costs_of_a_machine_are_a_profile_or_complete() {
    let e = error("cores_per_llc = 2\n[costs]\nsyscall = \"100ns\"\n");
    assert_eq!(
        e,
        "m.toml:2:1: `costs.schedule` is missing; expected each cost, or the `profile` that the others are taken from"
    );
    assert!(
        error("cores_per_llc = 2\ncosts = \"xeon\"\n").contains("there is no cost profile `xeon`")
    );
}

#[test]
fn an_affinity_that_allows_no_cpu_is_refused() {
    let error = |text: String| {
        Scenario::parse("s.toml", &text, Path::new(""), &Overrides::new())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error(format!("{HOG}cpus = \"\"\n")),
        "s.toml:5:8: `task[0].cpus`: expected a CPU list such as \"0-3,8\" or \"all\", found the string \"\""
    );
    assert!(
        error("[[task]]\nname = \"a\"\nprogram = [\"run 1ms\", \"cpus \"]\n".into())
            .starts_with("s.toml:3:23:")
    );
}

/// A small tree of sysfs, two sockets of two cores.
fn sysfs() -> Vec<(String, String)> {
    let mut files = vec![
        ("cpu/online".into(), "0-3".into()),
        ("node/online".into(), "0-1".into()),
    ];
    for node in 0..2 {
        files.push((
            format!("node/node{node}/cpulist"),
            ["0-1", "2-3"][node].into(),
        ));
        files.push((
            format!("node/node{node}/distance"),
            ["10 21", "21 10"][node].into(),
        ));
    }
    for cpu in 0..4 {
        let pair = ["0-1", "2-3"][cpu / 2];
        let mut file =
            |name: &str, text: &str| files.push((format!("cpu/cpu{cpu}/{name}"), text.into()));
        file("topology/core_cpus_list", &cpu.to_string());
        file("topology/package_cpus_list", pair);
        file("cache/index0/level", "1");
        file("cache/index0/type", "Instruction");
        file("cache/index0/shared_cpu_list", pair);
        file("cache/index3/level", "3");
        file("cache/index3/type", "Unified");
        file("cache/index3/shared_cpu_list", pair);
        file("cpuidle/state0/name", "POLL");
        file("cpuidle/state1/name", "C6");
        file("cpuidle/state1/latency", "133");
        file("cpuidle/state1/residency", "600");
    }
    files
}

/// Imports such a tree after a change of it.
fn imported(change: impl Fn(&str) -> Option<String>) -> Result<Imported, String> {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in sysfs() {
        let text = change(&path).unwrap_or(text);
        if text != "-" {
            let path = dir.path().join("copy").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text + "\n").unwrap();
        }
    }
    let path = dir.path().join("copy");
    let start = format!("{}/", dir.path().display());
    import::import(&path).map_err(|e| e.to_string().replace(&start, ""))
}

fn with(path: &'static str, text: &'static str) -> Result<Imported, String> {
    imported(move |p| (p == path).then(|| text.into()))
}

#[test]
fn sysfs_is_read() {
    let m = imported(|_| None).unwrap().machine;
    assert_eq!(chain(&m, 2), "MC 2 NUMA 4");
    assert_eq!(m.hardware.distances, [[10, 21], [21, 10]]);
    let idle = &m.hardware.idle_states;
    assert_eq!(
        (idle.len(), idle[0].exit_latency, idle[0].target_residency),
        (1, 133_000, 600_000)
    );
    // Without the list, folders say what is there.
    assert_eq!(with("cpu/online", "-").unwrap().machine.cpus(), 4);
    // CPUs that are off leave no gap.
    let off = with("cpu/online", "0,2-3").unwrap();
    assert_eq!(chain(&off.machine, 1), "MC 2 NUMA 3");
    assert_eq!(
        off.notes,
        ["CPUs 0,2-3 are online; they are numbered 0 to 2 here"]
    );
    let capacity =
        imported(|p| (p == "cpu/cpu1/topology/core_cpus_list").then(|| "1".into())).unwrap();
    assert!(!capacity.machine.hardware.is_asymmetric());
}

#[test]
fn faults_of_a_copied_sysfs_have_a_place() {
    let e = |path, text| with(path, text).unwrap_err();
    assert_eq!(
        e("cpu/online", ""),
        "copy/cpu/online: is empty: no CPU; expected at least 1"
    );
    assert_eq!(
        e("cpu/online", "0-x"),
        "copy/cpu/online: expected a CPU list such as \"0-3,8\" or \"all\", found \"0-x\""
    );
    assert_eq!(
        e("cpu/cpu2/topology/core_cpus_list", "-"),
        "copy/cpu/cpu2/topology/core_cpus_list: is missing; expected a CPU list such as \"0-3,8\" or \"all\""
    );
    assert_eq!(
        e("cpu/cpu2/topology/core_cpus_list", ""),
        "copy/cpu/cpu2/topology/core_cpus_list: is empty; expected a CPU list such as \"0-3,8\" or \"all\""
    );
    assert_eq!(
        e("cpu/cpu2/topology/core_cpus_list", "3"),
        "copy/cpu/cpu2/topology/core_cpus_list: 3 does not hold CPU 2 itself"
    );
    assert_eq!(
        e("cpu/cpu1/cache/index3/shared_cpu_list", "1-2"),
        "copy/cpu/cpu0/cache/index3/shared_cpu_list: CPU 0 shares with 0-1, but CPU 1 with 1-2; expected sets that \
         do not overlap"
    );
    assert_eq!(
        e("cpu/cpu3/cache/index3/level", "three"),
        "copy/cpu/cpu3/cache/index3/level: expected a number, found \"three\""
    );
    assert_eq!(
        e("cpu/cpu3/cache/index3/type", "-"),
        "copy/cpu/cpu3/cache/index3/type: is missing; expected the cache's type"
    );
    assert_eq!(
        e("node/node1/distance", "-"),
        "copy/node/node1/distance: is missing; expected the distance to each node"
    );
    assert_eq!(
        e("node/node1/distance", "21"),
        "copy/node/node1/distance: 1 distances for 2 nodes; expected one a node"
    );
    assert_eq!(
        e("node/node1/distance", "20 10"),
        "copy/cpu: distances: node 0 to node 1 is 21, but node 1 to node 0 is 20; expected equal ones"
    );
    assert_eq!(
        e("node/node1/cpulist", "1-3"),
        "copy/node/node1/cpulist: CPU 1 is in node 0 too; expected it in one node"
    );
    assert_eq!(
        e("node/node1/cpulist", "3"),
        "copy/node: CPU 2 is in no node's cpulist; expected it in one"
    );
    let caches = imported(|p| p.starts_with("cpu/cpu1/cache").then(|| "-".into())).unwrap_err();
    assert_eq!(
        caches,
        "copy/cpu/cpu1/cache: is missing or empty, but other CPUs have caches"
    );
    let nothing = imported(|_| Some("-".into())).unwrap_err();
    assert!(nothing.contains("copy"), "{nothing}");
}

#[test]
fn tars_that_are_cut_or_hold_something_else() {
    let dir = tempfile::tempdir().unwrap();
    let whole =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/topology/numa8.tar.xz"))
            .unwrap();
    let cut = dir.path().join("cut.tar.xz");
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    assert!(import::import(&cut).is_err());
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_size(2);
    header.set_cksum();
    tar.append_data(&mut header, "readme", &b"hi"[..]).unwrap();
    let other = dir.path().join("other.tar");
    fs::write(&other, tar.into_inner().unwrap()).unwrap();
    let e = import::import(&other).unwrap_err().to_string();
    assert!(
        e.ends_with(
            "other.tar: has no folder `cpu`; expected a copy of /sys/devices/system/cpu (and node)"
        ),
        "{e}"
    );
    let text = dir.path().join("text");
    fs::write(&text, "hello").unwrap();
    let e = import::import(&text).unwrap_err().to_string();
    assert!(
        e.ends_with("is neither a tar of sysfs, nor lscpu's JSON, nor hwloc's XML"),
        "{e}"
    );
}

fn from_text(name: &str, text: &str) -> Result<Imported, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    let start = format!("{}/", dir.path().display());
    import::import(&path).map_err(|e| e.to_string().replace(&start, ""))
}

#[test]
fn lscpu_rows() {
    let row = |cpu: u32| {
        let (core, node) = (cpu % 4, cpu % 4 / 2);
        format!(
            "{{\"cpu\": {cpu}, \"node\": {node}, \"socket\": {node}, \"core\": {core}, \
             \"l1d:l1i:l2:l3\": \"{core}:{core}:{core}:{node}\", \"online\": true}}"
        )
    };
    let rows: Vec<String> = (0..8).map(row).collect();
    let text = format!("{{\"cpus\": [{}]}}", rows.join(","));
    let i = from_text("l.json", &text).unwrap();
    assert_eq!(chain(&i.machine, 5), "SMT 2 MC 4 NUMA 8");
    assert_eq!(i.machine.hardware.cpus[5].core, 1);
    assert_eq!(
        i.notes,
        ["distances of nodes are not known; taken as 10 and 20"]
    );
    // Older versions write text, and "no" for what is off.
    let old = "{\"cpus\": [{\"cpu\": \"0\", \"node\": null, \"socket\": \"0\", \"core\": \"0\", \"online\": \"yes\"}, \
               {\"cpu\": \"1\", \"online\": \"no\"}]}";
    assert_eq!(from_text("l.json", old).unwrap().machine.cpus(), 1);
    let e = |text: &str| from_text("l.json", text).unwrap_err();
    assert_eq!(
        e("{\"cpus\": [{\"cpu\": 0, \"socket\": 0}]}"),
        "l.json: cpus[0].core: expected a number; `lscpu -J -e` writes it"
    );
    assert_eq!(
        e("{\"cpus\": []}"),
        "l.json: has no CPU that is online; expected at least 1"
    );
    assert!(e("{\"cpus\": [").starts_with("l.json:1:"));
    assert_eq!(
        e("{\"blockdevices\": []}"),
        "l.json: expected `cpus` (of lscpu -J -e) or `lscpu` (of lscpu -J)"
    );
}

fn lscpu_summary(fields: &[(&str, &str)]) -> String {
    let items: Vec<String> = fields
        .iter()
        .map(|(f, d)| format!("{{\"field\": \"{f}:\", \"data\": \"{d}\"}}"))
        .collect();
    // Newer versions nest.
    format!(
        "{{\"lscpu\": [{}, {{\"field\": \"NUMA:\", \"data\": null, \"children\": [{}]}}]}}",
        items[..3].join(","),
        items[3..].join(",")
    )
}

#[test]
fn lscpu_summaries() {
    let mut fields = vec![
        ("Architecture", "x86_64"),
        ("CPU(s)", "256"),
        ("Vendor ID", "AuthenticAMD"),
        ("CPU family", "25"),
        ("Model name", "AMD EPYC 7713 64-Core Processor"),
        ("Thread(s) per core", "2"),
        ("Core(s) per socket", "64"),
        ("Socket(s)", "2"),
        ("L2 cache", "64 MiB (128 instances)"),
        ("L3 cache", "512 MiB (16 instances)"),
        ("NUMA node(s)", "2"),
        ("NUMA node0 CPU(s)", "0-63,128-191"),
        ("NUMA node1 CPU(s)", "64-127,192-255"),
    ];
    let i = from_text("l.json", &lscpu_summary(&fields)).unwrap();
    let preset = Machine::by_name("epyc-256").unwrap().hardware;
    assert_eq!(i.machine.hardware.cpus, preset.cpus);
    assert_eq!(i.machine.hardware.reclaim_distance, 32);
    assert_eq!(i.machine.costs_name.as_deref(), Some("epyc-milan-2s"));
    assert_eq!(i.notes.len(), 2);
    fields[6] = ("Core(s) per socket", "63");
    let e = from_text("l.json", &lscpu_summary(&fields)).unwrap_err();
    assert_eq!(
        e,
        "l.json: 256 CPUs are no 2 sockets of 63 cores with 2 threads (at most 4096); use lscpu -J -e, which tells \
         each CPU's place"
    );
    fields.remove(5);
    let e = from_text("l.json", &lscpu_summary(&fields)).unwrap_err();
    assert_eq!(
        e,
        "l.json: field `Thread(s) per core`: is missing; expected it in lscpu's summary"
    );
}

const HWLOC_2: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x0000000f" gp_index="1">
  <info name="Architecture" value="x86_64"/>
  <object type="Package" os_index="0" cpuset="0x00000003" gp_index="2">
   <info name="CPUVendor" value="GenuineIntel"/>
   <object type="NUMANode" os_index="0" cpuset="0x00000003" gp_index="20"/>
   <object type="L3Cache" cpuset="0x00000003">
    <object type="L2Cache"><object type="Core" os_index="0">
     <object type="PU" os_index="0"/><object type="PU" os_index="2"/></object></object></object>
  </object>
  <object type="Package" os_index="1" cpuset="0x0000000c" gp_index="3">
   <object type="NUMANode" os_index="1" cpuset="0x0000000a" gp_index="21"/>
   <object type="L3Cache"><object type="L2Cache"><object type="Core" os_index="0">
     <object type="PU" os_index="1"/><object type="PU" os_index="3"/></object></object></object>
  </object>
 </object>
 <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
  <indexes length="4">0 1 </indexes>
  <u64values length="12">10 21 21 10 </u64values>
 </distances2>
</topology>
"#;

#[test]
fn hwloc_xml() {
    let good = HWLOC_2.replace(
        "os_index=\"0\" cpuset=\"0x00000003\" gp_index=\"20\"",
        "os_index=\"0\" cpuset=\"0x00000005\" gp_index=\"20\"",
    );
    let m = from_text("t.xml", &good).unwrap().machine;
    assert_eq!(chain(&m, 2), "SMT 2 NUMA 4");
    assert_eq!(m.hardware.distances, [[10, 21], [21, 10]]);
    let by_gp = good
        .replace("indexing=\"os\"", "indexing=\"gp\"")
        .replace("0 1 </indexes>", "20 21 </indexes>");
    let by_gp = from_text("t.xml", &by_gp).unwrap().machine.hardware;
    assert_eq!(by_gp.distances, m.hardware.distances);
    let e = |text: &str| from_text("t.xml", text).unwrap_err();
    assert_eq!(
        e(HWLOC_2),
        "t.xml: CPU 2 is in no NUMANode; expected it in one"
    );
    assert_eq!(
        e(&good.replace("10 21 21 10 ", "10 21 22 10 ")),
        "t.xml: distances: node 0 to node 1 is 21, but node 1 to node 0 is 22; expected equal ones"
    );
    assert_eq!(
        e(&good.replace("10 21 21 10 ", "10 21 ")),
        "t.xml:19:2: expected 4 distances for 2 nodes"
    );
    assert!(e(&good.replace("</topology>", "")).starts_with("t.xml:"));
    assert_eq!(e("<html/>"), "t.xml: expected hwloc's <topology>");
    assert_eq!(
        e("<topology/>"),
        "t.xml: has no CPU that is online; expected at least 1"
    );
    assert_eq!(
        e(&good.replace(
            "<object type=\"PU\" os_index=\"3\"/>",
            "<object type=\"PU\" os_index=\"1\"/>"
        )),
        "t.xml:16:38: CPU 1 is there twice"
    );
}

/// The older form: caches by depth, distances in terms of a base.
#[test]
fn hwloc_xml_of_version_1() {
    let text = r#"<topology>
 <object type="Machine" os_index="0" cpuset="0x0000000f">
  <distances nbobjs="2" relative_depth="1" latency_base="10.000000">
   <latency value="1.000000"/><latency value="2.100000"/><latency value="2.100000"/><latency value="1.000000"/>
  </distances>
  <object type="NUMANode" os_index="0" cpuset="0x00000003"><object type="Socket" os_index="0">
   <object type="Cache" depth="3" cache_type="0"><object type="Core" os_index="0"><object type="PU" os_index="0"/></object>
   <object type="Core" os_index="1"><object type="PU" os_index="1"/></object></object></object></object>
  <object type="NUMANode" os_index="1" cpuset="0x0000000c"><object type="Socket" os_index="1">
   <object type="Cache" depth="3" cache_type="0"><object type="Core" os_index="0"><object type="PU" os_index="2"/></object>
   <object type="Core" os_index="1"><object type="PU" os_index="3"/></object></object></object></object>
 </object>
</topology>
"#;
    let m = from_text("t.xml", text).unwrap().machine;
    assert_eq!(chain(&m, 3), "MC 2 NUMA 4");
    assert_eq!(m.hardware.distances, [[10, 21], [21, 10]]);
}
