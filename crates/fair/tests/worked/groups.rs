//! Section 10.1 to 10.5: counters, shares, slices of groups, idle groups.

use crate::stage::*;
use schedlab_fair::{
    Class, CpuId, Dequeue, Enqueue, GroupAttr, GroupId, Ns, Profile, QueueId, TaskAttr, TaskId,
    TaskPolicy, Weight,
};

fn task(c: &mut Class, group: GroupId, policy: TaskPolicy) -> TaskId {
    let t = c.add_task(TaskAttr {
        group,
        policy,
        ..TaskAttr::default()
    });
    c.enqueue_task(CPU, t, Enqueue::INITIAL, Ns(0), &mut ());
    t
}

fn idle_group(c: &mut Class, parent: GroupId, idle: bool) -> GroupId {
    c.add_group(
        parent,
        GroupAttr {
            shares: Weight::of_cgroup(200),
            idle,
            bandwidth: None,
        },
    )
}

fn queue(c: &Class, g: GroupId) -> QueueId {
    c.group(g).queues[0]
}

fn counts(c: &Class, g: GroupId) -> (u32, u32, u32, u32) {
    let q = c.queue(queue(c, g));
    (q.nr_queued, q.h_nr_queued, q.h_nr_runnable, q.h_nr_idle)
}

#[test]
fn counters_of_a_chain() {
    let mut c = class("6.12-stable");
    let g = group(&mut c, GroupId::ROOT);
    let h = group(&mut c, g);
    task(&mut c, h, TaskPolicy::Normal);
    task(&mut c, h, TaskPolicy::Idle);
    let last = task(&mut c, GroupId::ROOT, TaskPolicy::Normal);
    assert_eq!(counts(&c, h), (2, 2, 2, 1));
    assert_eq!(counts(&c, g), (1, 2, 2, 1));
    assert_eq!(counts(&c, GroupId::ROOT), (2, 3, 3, 1));
    c.dequeue_task(CPU, last, Dequeue::SLEEP, Ns(0), &mut ());
    assert_eq!(counts(&c, GroupId::ROOT), (1, 2, 2, 1));
    assert_eq!(c.nr_running(CPU), 2);
}

#[test]
fn above_an_idle_group_all_its_tasks_are_idle() {
    let mut c = class("6.12-stable");
    let g = idle_group(&mut c, GroupId::ROOT, true);
    let h = group(&mut c, g);
    let t = task(&mut c, h, TaskPolicy::Normal);
    task(&mut c, h, TaskPolicy::Idle);
    assert_eq!(counts(&c, h).3, 1);
    assert_eq!(counts(&c, g).3, 1, "inside, tasks count for themselves");
    assert_eq!(counts(&c, GroupId::ROOT).3, 2);
    assert_eq!(c.entity(c.group(g).entities[0]).load.weight, Weight::IDLE);
    assert_eq!(c.queue(root(&c)).idle_nr, 1);
    // Switched off while it runs, and on again.
    let now = |_| Ns(ms(1.0));
    c.set_group_idle(g, false, now, &mut ());
    assert_eq!(counts(&c, GroupId::ROOT).3, 1);
    assert_eq!(
        c.group(g).shares,
        Weight::NICE_0,
        "the default, not what it had before"
    );
    assert_eq!(c.entity(c.group(g).entities[0]).load.weight, Weight::NICE_0);
    c.verify(CPU).unwrap();
    c.set_group_idle(g, true, now, &mut ());
    assert_eq!(counts(&c, GroupId::ROOT).3, 2);
    c.set_shares(g, Weight::of_cgroup(500), now, &mut ());
    assert_eq!(
        c.group(g).shares,
        Weight::IDLE,
        "an idle group keeps its weight"
    );
    c.dequeue_task(CPU, t, Dequeue::SLEEP, Ns(ms(1.0)), &mut ());
    assert_eq!(counts(&c, GroupId::ROOT).3, 1);
    c.verify(CPU).unwrap();
}

#[test]
fn shares_are_clamped() {
    let mut c = class("6.12-stable");
    let g = group(&mut c, GroupId::ROOT);
    for (set, got) in [(0, 2048), (1, 2048), (5000, 5000), (u64::MAX, 1 << 28)] {
        c.set_shares(g, Weight(set), |_| Ns(0), &mut ());
        assert_eq!(c.group(g).shares, Weight(got));
    }
    c.set_shares(GroupId::ROOT, Weight(5000), |_| Ns(0), &mut ());
    assert_eq!(c.group(GroupId::ROOT).shares, Weight::NICE_0);
}

/// A group entity takes the shortest slice of its queue: a newly queued one before it is placed, one that was queued
/// without a new deadline.
#[test]
fn slices_of_groups() {
    let short = |c: &mut Class, g: GroupId, slice: u64| {
        let t = c.add_task(TaskAttr {
            slice: Some(Ns(slice)),
            group: g,
            ..TaskAttr::default()
        });
        c.enqueue_task(CPU, t, Enqueue::WAKEUP, Ns(0), &mut ());
        t
    };
    let mut c = class("6.12-stable");
    let g = group(&mut c, GroupId::ROOT);
    let ge = c.group(g).entities[0];
    short(&mut c, g, 1_000_000);
    let e = c.entity(ge);
    assert_eq!((e.slice, e.custom_slice), (1_000_000, true));
    assert_eq!(e.deadline.minus(e.vruntime), 1_000_000);
    let shorter = short(&mut c, g, 300_000);
    let e = c.entity(ge);
    assert_eq!(e.slice, 300_000);
    assert_eq!(e.deadline.minus(e.vruntime), 1_000_000, "no new deadline");
    c.dequeue_task(CPU, shorter, Dequeue::SLEEP, Ns(0), &mut ());
    assert_eq!(c.entity(ge).slice, 1_000_000);
    // Before 6.12 groups have the default slice.
    let mut c = class("6.8");
    let g = group(&mut c, GroupId::ROOT);
    short(&mut c, g, 1_000_000);
    assert_eq!(c.entity(c.group(g).entities[0]).slice, 2_800_000);
}

/// Two CPUs with one busy task each share a group's weight once the averages have grown.
#[test]
fn shares_over_two_cpus() {
    let mut c = Class::new(Profile::default(), 2, 1000);
    let g = group(&mut c, GroupId::ROOT);
    let mut curr = [None; 2];
    for cpu in 0..2 {
        let t = c.add_task(TaskAttr {
            group: g,
            ..TaskAttr::default()
        });
        c.enqueue_task(CpuId(cpu), t, Enqueue::INITIAL, Ns(0), &mut ());
        curr[cpu as usize] = c.pick_next_task(CpuId(cpu), None, Ns(0), &mut ());
    }
    for tick in 1..=500 {
        for cpu in 0..2 {
            c.task_tick(CpuId(cpu), Ns::from_ms(tick), &mut ());
        }
    }
    for cpu in 0..2 {
        let w = c.entity(c.group(g).entities[cpu]).load.weight.0;
        assert!((519_000..530_000).contains(&w), "half of 1048576, not {w}");
    }
    // One goes to sleep: its part fades, and the other's share grows back.
    c.dequeue_task(
        CpuId(1),
        curr[1].unwrap(),
        Dequeue::SLEEP,
        Ns::from_ms(500),
        &mut (),
    );
    c.pick_next_task(CpuId(1), curr[1], Ns::from_ms(500), &mut ());
    let w = c.entity(c.group(g).entities[1]).load.weight.0;
    assert!(
        (519_000..530_000).contains(&w),
        "an empty queue's weight stays"
    );
}

/// The load that a queue passes on is limited to once a millisecond, from 6.7 on.
#[test]
fn load_is_passed_on_at_a_limited_rate() {
    for (name, later) in [("6.6", false), ("6.8", true)] {
        let mut c = class(name);
        let g = group(&mut c, GroupId::ROOT);
        task(&mut c, g, TaskPolicy::Normal);
        let early = c.group(g).load_avg;
        assert_eq!(
            early > 0,
            !later,
            "{name}: {early} within the first millisecond"
        );
        c.pick_next_task(CPU, None, Ns(0), &mut ());
        c.task_tick(CPU, Ns(ms(5.0)), &mut ());
        assert!(c.group(g).load_avg > 0, "{name}");
    }
}

/// What is queued at the very first moment is part of its queue once, however often it comes and goes (section 11.2).
#[test]
fn load_averages_count_an_entity_once_from_time_zero_on() {
    let mut c = class("6.12-stable");
    let g = group(&mut c, GroupId::ROOT);
    task(&mut c, g, TaskPolicy::Normal);
    let b = task(&mut c, GroupId::ROOT, TaskPolicy::Normal);
    let mut curr = c.pick_next_task(CPU, None, Ns(0), &mut ());
    for i in 1..=200u64 {
        let now = Ns(ms(i as f64));
        let Some(t) = curr else { panic!("{i}: idle") };
        if t == b && i % 2 == 0 {
            c.dequeue_task(CPU, t, Dequeue::SLEEP, now, &mut ());
            curr = c.pick_next_task(CPU, Some(t), now, &mut ());
            if !c.is_on_rq(t) {
                c.enqueue_task(CPU, t, Enqueue::WAKEUP, now, &mut ());
            }
        } else {
            c.task_tick(CPU, now, &mut ());
            curr = c.pick_next_task(CPU, Some(t), now, &mut ());
        }
    }
    let root = &c.queue(c.rq(CPU).cfs).avg;
    let se = &c.entity(c.group(g).entities[0]).avg;
    assert!(root.util_avg <= 1024, "{root:?}");
    assert!(se.load_avg > 500 && se.util_avg > 100, "{se:?}");
    // The queue's load is that of its two entities.
    let parts = se.load_avg + c.entity(b.entity()).avg.load_avg;
    assert!(
        root.load_avg.abs_diff(parts) < 64,
        "{} {parts}",
        root.load_avg
    );
}

#[test]
fn a_sleeper_changes_its_group() {
    for name in ["6.1", "6.12-stable"] {
        let mut c = class(name);
        let (g, h) = (group(&mut c, GroupId::ROOT), group(&mut c, GroupId::ROOT));
        let t = task(&mut c, g, TaskPolicy::Normal);
        let peer = task(&mut c, h, TaskPolicy::Normal);
        c.pick_next_task(CPU, None, Ns(0), &mut ());
        c.dequeue_task(
            CPU,
            t,
            Dequeue::SLEEP | Dequeue::SPECIAL,
            Ns(ms(1.0)),
            &mut (),
        );
        c.pick_next_task(CPU, Some(t), Ns(ms(1.0)), &mut ());
        c.set_group(t, h);
        assert_eq!(c.entity(t.entity()).parent, Some(c.group(h).entities[0]));
        c.enqueue_task(CPU, t, Enqueue::WAKEUP, Ns(ms(2.0)), &mut ());
        c.verify(CPU).unwrap();
        assert_eq!(counts(&c, h).0, 2);
        // It stands near its new peer, whatever the clock of the old queue was.
        let apart = c
            .entity(t.entity())
            .vruntime
            .minus(c.entity(peer.entity()).vruntime);
        assert!(apart.abs() <= ms(25.0) as i64, "{name}: {apart}");
    }
}

/// Only the task's own level is a fork's: the group entity that comes with it has a whole slice.
#[test]
fn a_fork_that_wakes_its_group() {
    let mut c = class("6.12-stable");
    let g = group(&mut c, GroupId::ROOT);
    let t = task(&mut c, g, TaskPolicy::Normal);
    let ge = c.entity(c.group(g).entities[0]);
    assert_eq!(ge.deadline.minus(ge.vruntime), ms(2.8) as i64);
    let e = c.entity(t.entity());
    assert_eq!(e.deadline.minus(e.vruntime), ms(1.4) as i64);
}
