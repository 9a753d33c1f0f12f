//! Ticks that stop under a single task.

mod common;

use common::{add, forever, hog, machine, ns, play, run_us};
use schedlab_fair::{Ns, Profile};
use schedlab_sim::program::{Op, Sched};
use schedlab_sim::{Sim, SimConfig};
use schedlab_trace::event::{Event, EventKind};

/// Charges of a task, as (end in us, length in us).
fn charges(events: &[Event], name: &str) -> Vec<(u64, u64)> {
    events
        .iter()
        .filter_map(|e| match &e.kind {
            EventKind::SchedStatRuntime { comm, runtime, .. } if comm.to_string() == name => {
                Some((e.ts / 1_000, runtime / 1_000))
            }
            _ => None,
        })
        .collect()
}

/// A hog, another from 1.5 s to the end of 10 ms of work; HZ=250.
fn two(nohz_full: &[u32], second: Sched) -> (SimConfig, Vec<Event>) {
    let mut c = machine(1);
    c.hz = 250;
    c.duration = Some(Ns::from_ms(3_000));
    c.nohz_full = nohz_full.to_vec();
    add(&mut c, "A", hog());
    let b = add(&mut c, "B", vec![run_us(10_000)]);
    c.tasks[b].start = Ns::from_ms(1_500);
    c.tasks[b].sched = second;
    let (_, events) = play(c.clone());
    (c, events)
}

#[test]
fn a_single_task_is_ticked_once_a_second() {
    let (_, events) = two(&[0], Sched::Other { nice: 0 });
    let a = charges(&events, "A");
    // The fair server's timer, the remote tick, and the arrival of B.
    let ends: Vec<u64> = a.iter().map(|c| c.0).take(3).collect();
    assert_eq!(ends, [950_000, 1_000_000, 1_500_000]);
    // The tick is back while there are two.
    let while_two: Vec<_> = a
        .iter()
        .chain(&charges(&events, "B"))
        .filter(|c| c.0 > 1_500_000 && c.0 < 1_520_000)
        .copied()
        .collect();
    assert!(while_two.len() >= 4, "{while_two:?}");
    assert!(while_two.iter().all(|c| c.1 <= 4_000), "{while_two:?}");
    assert_eq!(a.last().unwrap().0, 3_000_000);
    let end = charges(&events, "B").last().unwrap().0;
    let after = a.iter().filter(|c| c.0 > end + 4_000).count();
    assert_eq!(after, 3, "the server's timer, 2 s and the end");
    // As many charges as ticks without the list.
    let (_, events) = two(&[], Sched::Other { nice: 0 });
    assert!(charges(&events, "A").len() > 740);
}

#[test]
fn who_runs_when_does_not_depend_on_it() {
    // A FIFO task needs no tick, and preempts by itself.
    for sched in [Sched::Other { nice: 0 }, Sched::Fifo { rt_priority: 1 }] {
        let switches = |list: &[u32]| {
            let (_, events) = two(list, sched);
            let all = events.into_iter();
            all.filter(|e| matches!(e.kind, EventKind::SchedSwitch { .. }))
                .map(|e| (e.ts, e.kind))
                .collect::<Vec<_>>()
        };
        let with = switches(&[0]);
        assert!(with.len() >= 3);
        assert_eq!(with, switches(&[]));
    }
}

#[test]
fn two_hundred_days_of_one_task_are_short_and_leave_a_sane_clock() {
    const DAY: u64 = 86_400 * 1_000_000_000;
    let mut c = machine(1);
    c.profile = Profile::by_name("6.19").unwrap();
    c.hz = 250;
    c.nohz_full = vec![0];
    c.duration = Some(Ns(200 * DAY + 1_000_000_000));
    let a = add(&mut c, "A", hog());
    c.tasks[a].sched = Sched::Idle;
    let work = vec![run_us(500), Op::Sleep(ns(500))];
    let b = add(&mut c, "B", vec![forever(work)]);
    c.tasks[b].start = Ns(200 * DAY);
    let r = Sim::new(c, |_: &Event| ()).unwrap().run().unwrap();
    let b = r.tasks.iter().find(|t| t.comm == "B").unwrap();
    // Weight 1024 against 3, of which it asks half.
    let share = b.stats.user as f64 / 1e9;
    assert!((0.45..=0.5).contains(&share), "{share}");
}

#[test]
fn the_list_must_lie_within_the_machine() {
    let mut c = machine(2);
    add(&mut c, "A", hog());
    c.nohz_full = vec![1, 2];
    assert_eq!(
        c.validate().unwrap_err().to_string(),
        "nohz_full: CPU 2 is outside the machine, which has CPUs 0 to 1"
    );
}
