//! Locks and channels: what they cost, and whom they wake.

mod common;

use common::{add, machine, ns, play, run_us, times};
use schedlab_fair::Ns;
use schedlab_sim::program::{ChannelId, ChannelSpec, CondId, LockId, LockKind, Op, SemId};
use schedlab_sim::{Costs, SimConfig};
use schedlab_trace::event::{Event, EventKind};

fn locked(us: u64) -> Vec<Op> {
    vec![Op::Lock(LockId(0)), run_us(us), Op::Unlock(LockId(0))]
}

fn wakeups(events: &[Event]) -> Vec<String> {
    let of = |e: &Event| match &e.kind {
        EventKind::SchedWakeup { task, .. } => Some(format!("{}:{}", e.ts / 1000, task.comm)),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[test]
fn a_spinner_gets_the_lock_one_handoff_after_its_release() {
    let end = |far: bool| {
        let mut c = machine(2);
        c.duration = None;
        c.costs = Costs {
            lock: 20,
            line_core: 8,
            line_llc: 50,
            line_remote: 108,
            ..Costs::ZERO
        };
        c.machine.cpus[1].socket = u32::from(far);
        c.locks.push(LockKind::Spin);
        for cpu in 0..2 {
            let t = add(&mut c, &format!("t{cpu}"), locked(10));
            c.tasks[t].affinity = vec![cpu];
        }
        let (r, _) = play(c);
        // The second spins while the first takes the lock and works.
        assert_eq!(r.tasks[1].stats.spin, 10_020);
        r.end.0
    };
    assert_eq!(end(false), 20 + 10_000 + 75 + 10_000);
    assert_eq!(end(true), 20 + 10_000 + 162 + 10_000);
}

#[test]
fn a_free_lock_goes_to_whoever_runs() {
    // B spins from 1 ms on, is switched out when the lock is free again, and takes it when it runs next.
    let mut c = machine(1);
    c.duration = None;
    c.locks.push(LockKind::Spin);
    let mut ops = vec![run_us(500)];
    ops.extend(locked(3_000));
    ops.push(run_us(5_000));
    add(&mut c, "A", ops);
    add(&mut c, "B", locked(100));
    let (r, _) = play(c);
    assert!(r.ended);
    let spun = r.tasks[1].stats.spin;
    assert!(spun >= 1_000_000, "one CPU: B burns its slices: {spun}");
    assert_eq!(r.end.0, 8_600_000 + spun);
}

fn socket(c: &mut SimConfig, all: bool) {
    c.channels.push(ChannelSpec {
        capacity: 4_000,
        overhead: 900,
        writer_wake_below: 1_000,
        messages: false,
        sync_wake: true,
        wake_all_writers: all,
    });
}

const SEND: Op = Op::Send {
    channel: ChannelId(0),
    bytes: 100,
};
const RECV: Op = Op::Recv {
    channel: ChannelId(0),
    bytes: 100,
};

#[test]
fn a_writer_of_a_full_socket_sleeps_until_a_quarter_is_left() {
    let mut c = machine(2);
    c.duration = None;
    socket(&mut c, true);
    let w = add(&mut c, "writer", vec![times(6, vec![SEND])]);
    let r = add(
        &mut c,
        "reader",
        vec![run_us(1_000), times(6, vec![RECV, run_us(100)])],
    );
    c.tasks[w].affinity = vec![0];
    c.tasks[r].affinity = vec![1];
    let (result, events) = play(c);
    assert!(result.ended);
    // Four messages fit. Three must be read, at 1.0, 1.1 and 1.2 ms, before the writer is woken.
    assert_eq!(wakeups(&events), ["1200:writer"]);
    assert_eq!(result.tasks[w].stats.nvcsw, 2, "one sleep, and the end");
}

#[test]
fn readers_are_woken_one_by_one_in_order() {
    let mut c = machine(4);
    c.duration = None;
    socket(&mut c, true);
    for (i, name) in ["r0", "r1", "r2"].into_iter().enumerate() {
        let t = add(&mut c, name, vec![run_us(10 * i as u64 + 1), RECV]);
        c.tasks[t].affinity = vec![i as u32];
    }
    let body = vec![Op::Sleep(ns(100)), SEND];
    let w = add(&mut c, "writer", vec![times(3, body)]);
    c.tasks[w].affinity = vec![3];
    let (r, events) = play(c);
    assert!(r.ended);
    let woken: Vec<String> = wakeups(&events)
        .into_iter()
        .filter(|w| !w.ends_with("writer"))
        .collect();
    assert_eq!(woken, ["100:r0", "200:r1", "300:r2"]);
}

#[test]
fn all_writers_of_a_socket_are_woken_and_one_of_a_pipe() {
    let woken_at_first = |all: bool| {
        let mut c = machine(4);
        c.duration = None;
        socket(&mut c, all);
        for i in 0..3 {
            let t = add(&mut c, &format!("w{i}"), vec![times(3, vec![SEND])]);
            c.tasks[t].affinity = vec![i];
        }
        let r = add(
            &mut c,
            "reader",
            vec![run_us(1_000), times(9, vec![RECV, run_us(100)])],
        );
        c.tasks[r].affinity = vec![3];
        let (result, events) = play(c);
        assert!(result.ended, "nobody is forgotten");
        let woken = wakeups(&events);
        woken.iter().filter(|w| w.starts_with("1200:")).count()
    };
    // One writer has sent its three messages and gone, one has sent one and sleeps, as does the third.
    assert_eq!(woken_at_first(true), 2);
    assert_eq!(woken_at_first(false), 1);
}

#[test]
fn a_signal_is_lost_if_nobody_waits_and_a_post_is_not() {
    let mut c = machine(2);
    c.duration = Some(Ns::from_ms(10));
    c.conds = 1;
    c.sems = vec![0];
    let cond = CondId(0);
    let sem = SemId(0);
    add(&mut c, "early", vec![Op::Signal(cond), Op::SemPost(sem)]);
    let w = add(
        &mut c,
        "waits",
        vec![
            run_us(1_000),
            Op::SemWait(sem),
            Op::Count { units: 1 },
            Op::Wait { cond, lock: None },
            Op::Count { units: 10 },
        ],
    );
    let (r, _) = play(c);
    assert_eq!(r.work, 1);
    assert!(!r.tasks[w].ended);
}

#[test]
fn a_wait_gives_its_lock_up_and_has_it_again_afterwards() {
    let mut c = machine(2);
    c.duration = None;
    c.conds = 1;
    c.locks.push(LockKind::Sleep);
    let (cond, lock) = (CondId(0), LockId(0));
    add(
        &mut c,
        "waiter",
        vec![
            Op::Lock(lock),
            Op::Wait {
                cond,
                lock: Some(lock),
            },
            run_us(100),
            Op::Unlock(lock),
        ],
    );
    add(
        &mut c,
        "signaller",
        vec![
            run_us(500),
            Op::Lock(lock),
            Op::Signal(cond),
            run_us(200),
            Op::Unlock(lock),
        ],
    );
    let (r, events) = play(c);
    assert!(r.ended);
    // Woken by the signal, again by the release, and done 100 us later.
    assert_eq!(wakeups(&events), ["500:waiter", "700:waiter"]);
    assert_eq!(r.end, Ns::from_us(800));
}
