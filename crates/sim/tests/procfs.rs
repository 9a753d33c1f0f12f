//! The simulated machine as the kernel's own files show it.

mod common;

use common::{add, forever, hog, machine, ns, run_us};
use schedlab_fair::{Ns, Weight};
use schedlab_sim::program::{Op, Sched};
use schedlab_sim::{GroupSpec, Sim, SimConfig, Snapshot};
use schedlab_trace::event::Event;

/// Two CPUs: a hog in a group, a sleeper beside it, one that yields; HZ=1000.
fn load() -> SimConfig {
    let mut c = machine(2);
    c.duration = Some(Ns::from_ms(95));
    c.groups = vec![GroupSpec {
        name: "build".into(),
        parent: None,
        shares: Weight::of_cgroup(100),
        idle: false,
        bandwidth: None,
    }];
    let a = add(&mut c, "hog", hog());
    c.tasks[a].group = Some(0);
    c.tasks[a].affinity = vec![0];
    let work = vec![run_us(1_000), Op::Sleep(ns(3_000))];
    let b = add(&mut c, "sleeper", vec![forever(work)]);
    c.tasks[b].affinity = vec![0];
    c.tasks[b].slice = Some(Ns::from_us(500));
    let y = add(
        &mut c,
        "yielder",
        vec![forever(vec![run_us(2_000), Op::Yield])],
    );
    c.tasks[y].affinity = vec![1];
    c.tasks[y].sched = Sched::Other { nice: 5 };
    c
}

fn looks(config: SimConfig, every: u64) -> (Vec<Snapshot>, Vec<Event>) {
    let (mut looks, mut events) = (Vec::new(), Vec::new());
    Sim::new(config, |e: &Event| events.push(e.clone()))
        .unwrap()
        .run_sampled(Ns::from_ms(every), |s| looks.push(s))
        .unwrap();
    (looks, events)
}

fn file<'a>(look: &'a Snapshot, name: &str) -> &'a str {
    &look.files.iter().find(|f| f.0 == name).unwrap().1
}

#[test]
fn looks_come_at_equal_distances_and_change_nothing() {
    let (few, with) = looks(load(), 10);
    let times: Vec<u64> = few.iter().map(|s| s.time.0 / 1_000_000).collect();
    assert_eq!(times, [10, 20, 30, 40, 50, 60, 70, 80, 90]);
    let (none, without) = looks(load(), 1_000);
    assert!(none.is_empty());
    assert_eq!(with, without);
}

#[test]
fn schedstat_counts_calls_wakeups_and_waits() {
    let (looks, _) = looks(load(), 90);
    let lines: Vec<Vec<u64>> = file(&looks[0], "proc/schedstat")
        .lines()
        .skip(2)
        .map(|l| l.split(' ').skip(1).map(|n| n.parse().unwrap()).collect())
        .collect();
    let [cpu0, cpu1] = &lines[..] else {
        panic!("two lines: {lines:?}")
    };
    // yld_count 0 sched_count sched_goidle ttwu_count ttwu_local rq_cpu_time run_delay pcount
    assert_eq!(cpu1[0], 44, "a yield every 2 ms");
    assert!(cpu1[2] >= 44 && cpu1[4] == 0, "{cpu1:?}");
    let wakeups = cpu0[4];
    assert!(
        (15..=23).contains(&wakeups) && cpu0[5] == wakeups,
        "{cpu0:?}"
    );
    // The hog waits while the sleeper runs.
    assert!(cpu0[7] >= wakeups * 1_000_000, "{cpu0:?}");
    assert!(cpu0[8] >= 2 * wakeups, "{cpu0:?}");
}

#[test]
fn a_task_has_its_own_files() {
    let (looks, events) = looks(load(), 90);
    let pid = events
        .iter()
        .find(|e| e.comm.to_string() == "sleeper")
        .unwrap()
        .pid;
    let stat: Vec<u64> = file(&looks[0], &format!("proc/{pid}/schedstat"))
        .split_whitespace()
        .map(|n| n.parse().unwrap())
        .collect();
    let sched = file(&looks[0], &format!("proc/{pid}/sched"));
    let value = |name: &str| -> f64 {
        let line = sched.lines().find(|l| l.starts_with(name)).unwrap();
        line.rsplit(':').next().unwrap().trim().parse().unwrap()
    };
    assert!(sched.starts_with(&format!("sleeper ({pid}, #threads: 1)\n---")));
    assert!((value("se.sum_exec_runtime") - stat[0] as f64 / 1e6).abs() < 1e-6);
    assert!((value("wait_sum") - stat[1] as f64 / 1e6).abs() < 1e-6);
    assert!(value("nr_voluntary_switches") >= 15.0);
    // What is neither run nor wait is sleep.
    let sum = value("sum_sleep_runtime") + value("se.sum_exec_runtime") + value("wait_sum");
    assert!((86.0..=90.0).contains(&sum), "{sum}");
}

#[test]
fn the_debug_file_reads_as_the_kernels() {
    let (looks, _) = looks(load(), 50);
    insta::assert_snapshot!(file(&looks[0], "sys/kernel/debug/sched/debug"));
}
