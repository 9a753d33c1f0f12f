//! Idle CPUs beside waiting tasks.

mod common;

use common::{add, hog, machine, play, run_us};
use schedlab_fair::Ns;
use schedlab_sim::program::Sched;
use schedlab_sim::{SimConfig, WorkConservation};

/// `hogs` fair tasks on as many CPUs, and a real-time task bound to each of `busy` for 500 us from 10.2 ms on, between two ticks.
fn preempted(cpus: u32, hogs: u32, busy: &[u32]) -> SimConfig {
    let mut c = machine(cpus);
    for i in 0..hogs {
        add(&mut c, &format!("hog{i}"), hog());
    }
    for &cpu in busy {
        let t = add(&mut c, "rt", vec![run_us(500)]);
        c.tasks[t].sched = Sched::Fifo { rt_priority: 50 };
        c.tasks[t].affinity = vec![cpu];
        c.tasks[t].start = Ns::from_us(10_200);
    }
    c
}

fn of(c: SimConfig) -> WorkConservation {
    play(c).0.conservation
}

const NONE: WorkConservation = WorkConservation {
    idle_while_waiting: Ns(0),
    longest: Ns(0),
    longest_at: Ns(0),
    violations: 0,
};

#[test]
fn a_cpu_idles_while_a_preempted_task_waits() {
    let want = WorkConservation {
        idle_while_waiting: Ns::from_us(500),
        longest: Ns::from_us(500),
        longest_at: Ns::from_us(10_200),
        violations: 1,
    };
    assert_eq!(of(preempted(2, 1, &[0])), want);
    // More CPUs idle than one task could use.
    assert_eq!(of(preempted(8, 1, &[0])), want);
    // Two wait, one CPU is idle.
    assert_eq!(of(preempted(3, 2, &[0, 1])), want);
    // Two wait, two are idle: as long, twice as much.
    let two = WorkConservation {
        idle_while_waiting: Ns::from_us(1_000),
        ..want
    };
    assert_eq!(of(preempted(4, 2, &[0, 1])), two);
}

#[test]
fn a_wait_that_no_idle_cpu_could_end_is_none() {
    assert_eq!(of(preempted(1, 1, &[0])), NONE, "no other CPU");
    assert_eq!(of(preempted(2, 2, &[0])), NONE, "none is idle");
    let mut bound = preempted(2, 1, &[0]);
    bound.tasks[0].affinity = vec![0];
    assert_eq!(of(bound), NONE, "the task may not leave its CPU");
    assert_eq!(of(preempted(2, 1, &[])), NONE, "nobody waits");
    let mut leaving_idle = preempted(2, 1, &[]);
    leaving_idle.costs.idle_exit = 5_000;
    assert_eq!(of(leaving_idle), NONE, "its own CPU is about to run it");
}

#[test]
fn what_goes_on_at_the_end_counts_up_to_it() {
    let mut c = preempted(2, 1, &[0]);
    c.duration = Some(Ns::from_us(10_300));
    let w = of(c);
    assert_eq!(w.longest, Ns::from_us(100));
    assert_eq!((w.idle_while_waiting, w.violations), (w.longest, 1));
}
