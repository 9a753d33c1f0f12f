//! Real-time tasks on several CPUs: push, pull, equal priorities (reference section 15).

mod common;

use common::{add, hog, machine, play, run_us};
use schedlab_fair::Ns;
use schedlab_sim::program::{Op, Sched};
use schedlab_sim::{ServerSpec, SimConfig, SimError};
use schedlab_trace::event::{Event, EventKind};

fn fifo(c: &mut SimConfig, name: &str, prio: u8, start_us: u64, cpus: &[u32], ops: Vec<Op>) {
    let t = add(c, name, ops);
    c.tasks[t].sched = Sched::Fifo { rt_priority: prio };
    c.tasks[t].start = Ns::from_us(start_us);
    c.tasks[t].affinity = cpus.to_vec();
}

/// Switches to real tasks as `ms:cpu:name`.
fn log(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .filter_map(|e| match &e.kind {
            EventKind::SchedSwitch { next, .. } if next.pid != 0 => {
                Some(format!("{}:{}:{}", e.ts as f64 / 1e6, e.cpu, next.comm))
            }
            _ => None,
        })
        .collect()
}

fn pinned_hogs(c: &mut SimConfig) {
    for cpu in 0..c.machine.nr_cpus() {
        let t = add(c, &format!("fair{cpu}"), hog());
        c.tasks[t].affinity = vec![cpu];
    }
}

#[test]
fn a_preempted_task_is_pushed_to_a_cpu_that_runs_less_urgent_work() {
    let mut c = machine(2);
    c.duration = Some(Ns::from_ms(6));
    pinned_hogs(&mut c);
    fifo(&mut c, "lo", 10, 1_000, &[], vec![run_us(3_000)]);
    fifo(&mut c, "hi", 20, 2_000, &[0], vec![run_us(2_000)]);
    let (r, events) = play(c);
    let got = log(&events);
    assert_eq!(
        got,
        [
            "0:0:fair0",
            "0:1:fair1",
            "1:0:lo",
            "2:0:hi",
            "2:1:lo",
            "4:0:fair0",
            "4:1:fair1"
        ]
    );
    let lo = r.tasks.iter().find(|t| t.comm == "lo").unwrap();
    assert_eq!(lo.stats.migrations, 1);
}

#[test]
fn a_task_that_may_not_move_waits() {
    let mut c = machine(2);
    c.duration = Some(Ns::from_ms(6));
    pinned_hogs(&mut c);
    fifo(&mut c, "lo", 10, 1_000, &[0], vec![run_us(2_000)]);
    fifo(&mut c, "hi", 20, 2_000, &[0], vec![run_us(2_000)]);
    let (_, events) = play(c);
    assert_eq!(
        log(&events)[2..],
        ["1:0:lo", "2:0:hi", "4:0:lo", "5:0:fair0"]
    );
}

#[test]
fn a_cpu_whose_real_time_work_ends_pulls_what_waits_elsewhere() {
    let mut c = machine(2);
    c.duration = Some(Ns::from_ms(8));
    pinned_hogs(&mut c);
    fifo(&mut c, "a", 30, 1_000, &[0], vec![run_us(5_000)]);
    fifo(&mut c, "b", 20, 1_000, &[1], vec![run_us(2_000)]);
    // Both CPUs run more urgent work when it comes.
    fifo(&mut c, "w", 10, 2_000, &[], vec![run_us(1_000)]);
    let (_, events) = play(c);
    let got = log(&events);
    assert_eq!(
        got[2..],
        ["1:0:a", "1:1:b", "3:1:w", "4:1:fair1", "6:0:fair0"]
    );
}

#[test]
fn a_wakee_that_cannot_move_passes_an_equal_one_that_can() {
    let mut c = machine(2);
    c.duration = Some(Ns::from_ms(6));
    pinned_hogs(&mut c);
    fifo(&mut c, "movable", 10, 1_000, &[], vec![run_us(3_000)]);
    fifo(&mut c, "pinned", 10, 2_000, &[0], vec![run_us(1_000)]);
    let (_, events) = play(c);
    let got = log(&events);
    assert_eq!(
        got[2..],
        [
            "1:0:movable",
            "2:0:pinned",
            "2:1:movable",
            "3:0:fair0",
            "4:1:fair1"
        ]
    );
}

#[test]
fn a_wakee_goes_where_it_runs_at_once() {
    let mut c = machine(3);
    c.duration = Some(Ns::from_ms(10));
    pinned_hogs(&mut c);
    fifo(&mut c, "a", 30, 1_000, &[0], vec![run_us(8_000)]);
    // Its CPU is taken while it sleeps.
    fifo(
        &mut c,
        "w",
        20,
        500,
        &[],
        vec![run_us(100), Op::Sleep(common::ns(1_000)), run_us(100)],
    );
    let (_, events) = play(c);
    let w: Vec<String> = log(&events)
        .into_iter()
        .filter(|l| l.ends_with(":w"))
        .collect();
    assert_eq!(w, ["0.5:0:w", "1.6:1:w"]);
}

/// A FIFO hog from 10 ms on beside a fair hog: switches between the two, as `ms:name`, in ms that are rounded down.
fn hog_against_server(spec: ServerSpec) -> Vec<String> {
    let mut c = machine(1);
    c.duration = Some(Ns::from_ms(450));
    c.fair_server = spec;
    pinned_hogs(&mut c);
    fifo(&mut c, "rt", 10, 10_500, &[], hog());
    let (_, events) = play(c);
    events
        .iter()
        .filter_map(|e| match &e.kind {
            EventKind::SchedSwitch { next, .. } => {
                Some(format!("{}:{}", e.ts / 1_000_000, next.comm))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn a_deferred_server_serves_at_the_end_of_its_period_and_another_at_the_start() {
    let spec = ServerSpec {
        runtime: Ns::from_ms(20),
        period: Ns::from_ms(100),
        defer: true,
    };
    // 10.5 of the first 20 ms were used before the real-time task came.
    assert_eq!(
        hog_against_server(spec),
        [
            "0:fair0",
            "10:rt",
            "90:fair0",
            "100:rt",
            "180:fair0",
            "200:rt",
            "280:fair0",
            "300:rt",
            "380:fair0",
            "400:rt"
        ]
    );
    // Without deferral real-time work waits until the server's runtime is used up.
    assert_eq!(
        hog_against_server(ServerSpec {
            defer: false,
            ..spec
        }),
        [
            "0:fair0",
            "20:rt",
            "100:fair0",
            "120:rt",
            "200:fair0",
            "220:rt",
            "300:fair0",
            "320:rt",
            "400:fair0",
            "420:rt"
        ]
    );
    assert_eq!(
        hog_against_server(ServerSpec {
            runtime: Ns::ZERO,
            ..spec
        }),
        ["0:fair0", "10:rt"]
    );
}

#[test]
fn a_server_with_more_runtime_than_time_is_refused() {
    let mut c = machine(1);
    c.fair_server.runtime = Ns::from_secs(2);
    add(&mut c, "hog", hog());
    assert_eq!(
        c.validate(),
        Err(SimError::Server {
            runtime: 2_000_000_000,
            period: 1_000_000_000
        })
    );
}
