//! Section 10.6: quota, period, burst, throttling of groups and of tasks.

use crate::stage::ms;
use schedlab_fair::{
    BandwidthAttr, Class, CpuId, Dequeue, Enqueue, GroupAttr, GroupId, Hooks, Ns, Profile, Reason,
    Resched, TaskAttr, TaskId, Wake, Weight,
};

#[derive(Default)]
struct Timers(Vec<(GroupId, Ns)>, Vec<Reason>);

impl Hooks for Timers {
    fn start_period_timer(&mut self, group: GroupId, period: Ns) {
        self.0.push((group, period));
    }

    fn resched(&mut self, _: CpuId, _: Resched, why: Reason, _: Option<schedlab_fair::QueueId>) {
        self.1.push(why);
    }
}

fn limited(c: &mut Class, parent: GroupId, quota_ms: u64, burst_ms: u64) -> GroupId {
    c.add_group(
        parent,
        GroupAttr {
            shares: Weight::NICE_0,
            idle: false,
            bandwidth: Some(BandwidthAttr {
                quota: Ns::from_ms(quota_ms),
                period: Ns::from_ms(100),
                burst: Ns::from_ms(burst_ms),
            }),
        },
    )
}

fn hog(c: &mut Class, g: GroupId, cpu: u32, h: &mut Timers) -> TaskId {
    let t = c.add_task(TaskAttr {
        group: g,
        ..TaskAttr::default()
    });
    c.enqueue_task(CpuId(cpu), t, Enqueue::INITIAL, Ns(0), h);
    t
}

fn pool(c: &Class, g: GroupId) -> &schedlab_fair::Bandwidth {
    c.group(g).bandwidth.as_ref().unwrap()
}

/// Ticks all CPUs from `from` to `to` ms and switches when asked; returns when each CPU lost its last task.
fn play(
    c: &mut Class,
    cpus: u32,
    from: u64,
    to: u64,
    curr: &mut [Option<TaskId>],
    h: &mut Timers,
) -> Vec<u64> {
    let mut idle_at = vec![0; cpus as usize];
    for tick in from + 1..=to {
        for cpu in 0..cpus {
            let (id, i, now) = (CpuId(cpu), cpu as usize, Ns::from_ms(tick));
            if curr[i].is_some() {
                c.task_tick(id, now, h);
            }
            if c.resched(id) != Resched::None {
                let had = curr[i].is_some();
                curr[i] = c.pick_next_task(id, curr[i], now, h);
                c.clear_resched(id);
                if had && curr[i].is_none() {
                    idle_at[i] = tick;
                }
            }
            c.verify(id).unwrap();
        }
    }
    idle_at
}

#[test]
fn the_example_of_two_hogs() {
    for name in ["6.1", "6.12-stable", "6.17"] {
        let mut c = Class::new(Profile::by_name(name).unwrap(), 2, 1000);
        let mut h = Timers::default();
        let g = limited(&mut c, GroupId::ROOT, 20, 0);
        let hogs = [hog(&mut c, g, 0, &mut h), hog(&mut c, g, 1, &mut h)];
        let mut curr = [None, None];
        for cpu in 0..2 {
            curr[cpu as usize] = c.pick_next_task(CpuId(cpu), None, Ns(0), &mut h);
        }
        assert_eq!(h.0, [(g, Ns::from_ms(100))], "the period timer starts once");
        for period in 0..4 {
            let start = period * 100;
            let idle_at = play(&mut c, 2, start, start + 99, &mut curr, &mut h);
            for at in idle_at {
                assert!(
                    // A tick's overrun is repaid in the next period.
                    (9..=11).contains(&(at - start)),
                    "{name}: throttled at {at} ms"
                );
            }
            assert_eq!(c.nr_running(CpuId(0)), 0, "throttled tasks do not count");
            let now = Ns::from_ms(start + 100);
            assert!(c.period_timer(g, |_| now, &mut h));
            for cpu in 0..2 {
                assert_eq!(c.resched(CpuId(cpu)), Resched::Full, "an idle CPU is told");
                curr[cpu as usize] = c.pick_next_task(CpuId(cpu), None, now, &mut h);
                assert_eq!(curr[cpu as usize], Some(hogs[cpu as usize]));
                c.clear_resched(CpuId(cpu));
            }
        }
        let b = pool(&c, g);
        assert_eq!((b.nr_periods, b.nr_throttled, b.nr_bursts), (4, 4, 0));
        // Two CPUs, some 90 ms each, four times.
        assert!(
            (712_000_000..=720_000_000).contains(&b.throttled_time),
            "{}",
            b.throttled_time
        );
        assert!(h.1.contains(&Reason::Bandwidth));
    }
}

#[test]
fn burst_saves_what_was_left() {
    let mut c = Class::new(Profile::default(), 1, 1000);
    let mut h = Timers::default();
    let g = limited(&mut c, GroupId::ROOT, 20, 15);
    let now = |_| Ns(0);
    let t = hog(&mut c, g, 0, &mut h);
    assert_eq!(pool(&c, g).runtime, ms(15.0), "one slice went to the CPU");
    c.period_timer(g, now, &mut h);
    assert_eq!(pool(&c, g).runtime, ms(35.0), "quota and burst at most");
    c.period_timer(g, now, &mut h);
    assert_eq!(pool(&c, g).runtime, ms(35.0));
    let b = pool(&c, g);
    assert_eq!((b.nr_bursts, b.burst_time), (0, 0));
    // 30 ms in one period: 10 above the quota.
    let mut curr = [c.pick_next_task(CpuId(0), None, Ns(0), &mut h)];
    play(&mut c, 1, 0, 35, &mut curr, &mut h);
    assert_eq!(curr, [Some(t)]);
    let used = ms(35.0) - pool(&c, g).runtime;
    c.period_timer(g, |_| Ns::from_ms(100), &mut h);
    let b = pool(&c, g);
    assert_eq!((b.nr_bursts, b.burst_time), (1, used - ms(20.0)));
}

#[test]
fn an_unused_pool_stops_its_timer() {
    let mut c = Class::new(Profile::default(), 1, 1000);
    let mut h = Timers::default();
    let g = limited(&mut c, GroupId::ROOT, 20, 0);
    let t = hog(&mut c, g, 0, &mut h);
    c.pick_next_task(CpuId(0), None, Ns(0), &mut h);
    c.dequeue_task(CpuId(0), t, Dequeue::SLEEP, Ns(ms(1.0)), &mut h);
    c.pick_next_task(CpuId(0), Some(t), Ns(ms(1.0)), &mut h);
    // All but 1 ms of the 4 left goes back.
    assert_eq!(pool(&c, g).runtime, ms(15.0 + 3.0));
    assert_eq!(
        c.queue(c.group(g).queues[0]).runtime_remaining,
        ms(1.0) as i64
    );
    assert!(c.period_timer(g, |_| Ns::from_ms(100), &mut h), "once more");
    assert!(!c.period_timer(g, |_| Ns::from_ms(200), &mut h));
    assert!(!pool(&c, g).period_active);
    // The next use starts it again.
    h.0.clear();
    c.enqueue_task(CpuId(0), t, Enqueue::WAKEUP, Ns::from_ms(300), &mut h);
    c.pick_next_task(CpuId(0), None, Ns::from_ms(300), &mut h);
    c.task_tick(CpuId(0), Ns::from_ms(302), &mut h);
    assert_eq!(h.0, [(g, Ns::from_ms(100))]);
}

#[test]
fn the_slack_timer_helps_other_cpus() {
    let mut c = Class::new(Profile::default(), 2, 1000);
    let mut h = Timers::default();
    let g = limited(&mut c, GroupId::ROOT, 20, 0);
    let a = hog(&mut c, g, 0, &mut h);
    hog(&mut c, g, 1, &mut h);
    let mut curr = [None, None];
    for cpu in 0..2 {
        curr[cpu as usize] = c.pick_next_task(CpuId(cpu), None, Ns(0), &mut h);
    }
    // CPU 1 uses up what the pool has while CPU 0's clock stands still.
    for tick in 1..40 {
        c.task_tick(CpuId(1), Ns::from_ms(tick), &mut h);
        if c.resched(CpuId(1)) == Resched::Full {
            curr[1] = c.pick_next_task(CpuId(1), curr[1], Ns::from_ms(tick), &mut h);
            c.clear_resched(CpuId(1));
        }
    }
    assert_eq!(curr[1], None);
    assert!(!c.wants_slack_timer(g), "4 ms would be too little");
    // CPU 0 goes to sleep with 5 ms in hand: 4 go back, which is no more than a slice.
    c.dequeue_task(CpuId(0), a, Dequeue::SLEEP, Ns(0), &mut h);
    assert_eq!(pool(&c, g).runtime, ms(4.0));
    assert!(!c.wants_slack_timer(g));
    let mut p = *c.profile();
    p.tunables.bandwidth_slice = Ns::from_ms(3);
    c.set_profile(p);
    assert!(c.wants_slack_timer(g));
    c.slack_timer(g, |_| Ns::from_ms(50), &mut h);
    assert_eq!(c.nr_running(CpuId(1)), 1);
    assert_eq!(c.resched(CpuId(1)), Resched::Full);
}

/// A limited group inside a limited group: the counters of each level, whatever the order of throttling.
#[test]
fn nested_throttling() {
    for outer_first in [true, false] {
        let mut c = Class::new(Profile::default(), 1, 1000);
        let mut h = Timers::default();
        let cpu = CpuId(0);
        let outer = limited(&mut c, GroupId::ROOT, 500, 0);
        let inner = limited(&mut c, outer, 500, 0);
        for g in [inner, inner, outer, GroupId::ROOT] {
            hog(&mut c, g, 0, &mut h);
        }
        let (qo, qi) = (c.group(outer).queues[0], c.group(inner).queues[0]);
        let root = c.rq(cpu).cfs;
        let h_nr = |c: &Class| {
            [root, qo, qi].map(|q| {
                (
                    c.queue(q).nr_queued,
                    c.queue(q).h_nr_queued,
                    c.queue(q).throttle_count,
                )
            })
        };
        assert_eq!(h_nr(&c), [(2, 4, 0), (2, 3, 0), (2, 2, 0)]);
        let empty = |c: &mut Class, g: GroupId, h: &mut Timers| {
            // Uses the pool up, and the local part with it.
            let mut attr = pool(c, g).attr;
            attr.quota = Ns::from_ms(1);
            c.set_bandwidth(g, Some(attr), |_| Ns(0), h);
            let q = c.group(g).queues[0];
            assert!(!c.throttle(q, h), "there is 1 ms in the pool");
            c.verify(cpu).unwrap();
        };
        // Through the front door: run until both are out of quota.
        for g in [inner, outer] {
            empty(&mut c, g, &mut h);
        }
        let mut curr = [c.pick_next_task(cpu, None, Ns(0), &mut h)];
        play(&mut c, 1, 0, 60, &mut curr, &mut h);
        assert!(c.queue(qo).throttled);
        let inner_out = c.queue(qi).throttled;
        assert_eq!(c.queue(qi).throttle_count, 1 + u32::from(inner_out));
        assert_eq!(h_nr(&c)[0], (1, 1, 0));
        assert_eq!(c.nr_running(cpu), 1);
        // A task that wakes below changes nothing above the throttled queue.
        let extra = hog(&mut c, inner, 0, &mut h);
        assert_eq!(c.queue(qi).h_nr_queued, 3);
        assert_eq!(h_nr(&c)[0], (1, 1, 0));
        c.dequeue_task(
            cpu,
            extra,
            Dequeue::SLEEP | Dequeue::SPECIAL,
            Ns::from_ms(60),
            &mut h,
        );
        c.verify(cpu).unwrap();
        let now = Ns::from_ms(100);
        let order = if outer_first {
            [outer, inner]
        } else {
            [inner, outer]
        };
        for g in order {
            c.period_timer(g, |_| now, &mut h);
            c.verify(cpu).unwrap();
        }
        assert_eq!(h_nr(&c), [(2, 4, 0), (2, 3, 0), (2, 2, 0)]);
        assert_eq!(c.nr_running(cpu), 4);
    }
}

#[test]
fn an_idle_group_is_counted_out_and_in_as_idle() {
    let mut c = Class::new(Profile::default(), 1, 1000);
    let mut h = Timers::default();
    let cpu = CpuId(0);
    let g = limited(&mut c, GroupId::ROOT, 1, 0);
    hog(&mut c, g, 0, &mut h);
    c.set_group_idle(g, true, |_| Ns(0), &mut h);
    assert_eq!(c.queue(c.rq(cpu).cfs).h_nr_idle, 1);
    let mut curr = [c.pick_next_task(cpu, None, Ns(0), &mut h)];
    play(&mut c, 1, 0, 10, &mut curr, &mut h);
    assert_eq!(curr, [None]);
    assert_eq!(c.queue(c.rq(cpu).cfs).h_nr_idle, 0);
    c.period_timer(g, |_| Ns::from_ms(100), &mut h);
    assert_eq!(c.queue(c.rq(cpu).cfs).h_nr_idle, 1);
}

#[test]
fn throttled_time_counts_only_with_somebody_waiting() {
    let mut c = Class::new(Profile::default(), 1, 1000);
    let mut h = Timers::default();
    let (cpu, g) = (CpuId(0), limited(&mut c, GroupId::ROOT, 1, 0));
    let t = hog(&mut c, g, 0, &mut h);
    c.pick_next_task(cpu, None, Ns(0), &mut h);
    // It sleeps in the moment in which its quota ends: the empty queue is throttled at the put.
    c.dequeue_task(cpu, t, Dequeue::SLEEP, Ns(ms(1.5)), &mut h);
    c.pick_next_task(cpu, Some(t), Ns(ms(1.5)), &mut h);
    let q = c.group(g).queues[0];
    assert!(c.queue(q).throttled);
    assert_eq!(c.queue(q).throttled_at, None);
    // It wakes at 41 ms and waits until the refill at 100 ms.
    c.enqueue_task(cpu, t, Enqueue::WAKEUP, Ns::from_ms(41), &mut h);
    c.period_timer(g, |_| Ns::from_ms(100), &mut h);
    assert_eq!(pool(&c, g).throttled_time, ms(59.0));
}

#[test]
fn the_quota_is_changed_while_throttled() {
    for name in ["6.12-stable", "6.18"] {
        let mut c = Class::new(Profile::by_name(name).unwrap(), 1, 1000);
        let mut h = Timers::default();
        let (cpu, g) = (CpuId(0), limited(&mut c, GroupId::ROOT, 1, 0));
        let t = hog(&mut c, g, 0, &mut h);
        let mut curr = c.pick_next_task(cpu, None, Ns(0), &mut h);
        c.task_tick(cpu, Ns(ms(2.0)), &mut h);
        assert_eq!(c.resched(cpu), Resched::Full);
        curr = c.pick_next_task(cpu, curr, Ns(ms(2.0)), &mut h);
        if c.must_throttle_at_user(t) {
            c.throttle_task(cpu, t, Ns(ms(2.0)), &mut h);
            curr = c.pick_next_task(cpu, curr, Ns(ms(2.0)), &mut h);
        }
        assert_eq!(curr, None, "{name}");
        c.period_timer(g, |_| Ns(ms(2.0)), &mut h);
        let periods = pool(&c, g).nr_periods;
        let now = |_| Ns(ms(3.0));
        let attr = BandwidthAttr {
            quota: Ns::from_ms(50),
            period: Ns(0),
            burst: Ns::from_secs(9),
        };
        c.set_bandwidth(g, Some(attr), now, &mut h);
        let b = pool(&c, g);
        assert_eq!(
            (b.attr.period, b.attr.burst),
            (Ns::from_ms(1), Ns::from_ms(50)),
            "clamped"
        );
        assert_eq!(b.nr_periods, periods, "counters go on");
        assert!(b.throttled.is_empty());
        assert!(
            c.is_on_rq(t) && c.nr_running(cpu) == 1,
            "{name}: it goes on"
        );
        c.set_bandwidth(g, None, now, &mut h);
        assert!(c.group(g).bandwidth.is_none());
        c.pick_next_task(cpu, None, Ns(ms(3.0)), &mut h);
        c.task_tick(cpu, Ns::from_secs(3), &mut h);
        c.verify(cpu).unwrap();
        assert!(!c.throttled_hierarchy(c.group(g).queues[0]));
    }
}

/// 6.18 on: a task goes on past the quota until it returns to user space, and repays the overrun.
#[test]
fn task_by_task() {
    let mut c = Class::new(Profile::by_name("6.18").unwrap(), 1, 1000);
    let mut h = Timers::default();
    let cpu = CpuId(0);
    let outer = limited(&mut c, GroupId::ROOT, 1, 0);
    let inner = c.add_group(
        outer,
        GroupAttr {
            shares: Weight::NICE_0,
            idle: false,
            bandwidth: None,
        },
    );
    let (a, b) = (hog(&mut c, inner, 0, &mut h), hog(&mut c, outer, 0, &mut h));
    let mut curr = c.pick_next_task(cpu, None, Ns(0), &mut h);
    let out = hog(&mut c, GroupId::ROOT, 0, &mut h);
    c.task_tick(cpu, Ns(ms(3.0)), &mut h);
    assert_eq!(c.resched(cpu), Resched::Full);
    curr = c.pick_next_task(cpu, curr, Ns(ms(3.0)), &mut h);
    c.clear_resched(cpu);
    let q = c.group(outer).queues[0];
    assert!(c.queue(q).throttled && c.throttled_hierarchy(c.group(inner).queues[0]));
    assert_eq!(c.nr_running(cpu), 3, "nobody has left yet");
    assert!(
        c.must_throttle_at_user(a) && c.must_throttle_at_user(b) && !c.must_throttle_at_user(out)
    );
    // In the kernel a task runs on; a wakeup check of a throttled one is an ordinary one.
    let (first, second) = if curr == Some(a) { (a, b) } else { (b, a) };
    let remaining = c.queue(q).runtime_remaining;
    if curr == Some(out) {
        c.put_prev_task(cpu, out, Ns(ms(3.0)), &mut h);
        c.set_next_task(cpu, first, Ns(ms(3.0)), &mut h);
        curr = Some(first);
    }
    c.task_tick(cpu, Ns(ms(4.0)), &mut h);
    assert_eq!(c.queue(q).runtime_remaining, remaining - ms(1.0) as i64);
    c.throttle_task(cpu, first, Ns(ms(4.0)), &mut h);
    let root = c.rq(cpu).cfs;
    assert_eq!(
        c.queue(root).next,
        None,
        "unlike a sleeper it marks no buddy"
    );
    curr = c.pick_next_task(cpu, curr, Ns(ms(4.0)), &mut h);
    assert!(c.waits_for_quota(first) && !c.is_on_rq(first));
    assert_eq!(c.nr_running(cpu), 2);
    assert_eq!(c.queue(q).throttled_at, Some(ms(4.0)));
    let ge = c.group(outer).entities[0];
    assert!(c.entity(ge).on_rq, "the other one is still there");
    if curr != Some(second) {
        c.put_prev_task(cpu, out, Ns(ms(4.0)), &mut h);
        c.set_next_task(cpu, second, Ns(ms(4.0)), &mut h);
        curr = Some(second);
    }
    c.throttle_task(cpu, second, Ns(ms(5.0)), &mut h);
    curr = c.pick_next_task(cpu, curr, Ns(ms(5.0)), &mut h);
    assert_eq!(curr, Some(out));
    assert!(!c.entity(ge).on_rq, "empty, and never delayed");
    assert_eq!(c.nr_running(cpu), 1);
    c.verify(cpu).unwrap();
    // 1 ms of quota a period; the debt of some 4 ms is repaid before anybody returns.
    let mut periods = 0;
    while c.waits_for_quota(first) {
        periods += 1;
        assert!(periods < 10);
        c.period_timer(outer, |_| Ns::from_ms(100 * periods), &mut h);
    }
    assert!((3..=5).contains(&periods), "{periods} periods");
    assert!(c.is_on_rq(first) && c.is_on_rq(second));
    assert_eq!(c.nr_running(cpu), 3);
    c.verify(cpu).unwrap();
}

#[test]
fn tasks_that_wait_for_quota_move_and_end() {
    let mut c = Class::new(Profile::by_name("6.18").unwrap(), 1, 1000);
    let mut h = Timers::default();
    let cpu = CpuId(0);
    let (g, free) = (
        limited(&mut c, GroupId::ROOT, 1, 0),
        crate::stage::group(&mut c, GroupId::ROOT),
    );
    let other = limited(&mut c, GroupId::ROOT, 1, 0);
    let tasks: Vec<_> = (0..3).map(|_| hog(&mut c, g, 0, &mut h)).collect();
    let mut curr = c.pick_next_task(cpu, None, Ns(0), &mut h);
    c.task_tick(cpu, Ns(ms(2.0)), &mut h);
    for _ in 0..3 {
        curr = c.pick_next_task(cpu, curr, Ns(ms(2.0)), &mut h);
        let t = curr.unwrap();
        assert!(c.must_throttle_at_user(t));
        c.throttle_task(cpu, t, Ns(ms(2.0)), &mut h);
    }
    curr = c.pick_next_task(cpu, curr, Ns(ms(2.0)), &mut h);
    assert_eq!(curr, None);
    // To a group with quota: the caller puts it back.
    assert!(c.set_group(tasks[0], free));
    c.enqueue_task(
        cpu,
        tasks[0],
        Enqueue::RESTORE | Enqueue::MOVE,
        Ns(ms(2.0)),
        &mut h,
    );
    assert_eq!(c.nr_running(cpu), 1);
    // To one that is throttled itself: it waits there.
    let q = c.group(other).queues[0];
    let mover = hog(&mut c, other, 0, &mut h);
    c.pick_next_task(cpu, None, Ns(ms(2.0)), &mut h);
    let now = c.curr(cpu).unwrap();
    c.put_prev_task(cpu, now, Ns(ms(2.0)), &mut h);
    c.set_next_task(cpu, mover, Ns(ms(2.0)), &mut h);
    c.task_tick(cpu, Ns(ms(9.0)), &mut h);
    c.pick_next_task(cpu, Some(mover), Ns(ms(9.0)), &mut h);
    if c.queue(q).throttled {
        assert!(!c.set_group(tasks[1], other));
        assert!(c.waits_for_quota(tasks[1]));
    }
    // One that ends is forgotten.
    c.remove_task(tasks[2]);
    c.verify(cpu).unwrap();
    let again = c.add_task(TaskAttr::default());
    assert_eq!(again, tasks[2], "the number is given out again");
    assert!(!c.waits_for_quota(again));
}

/// What a throttled hierarchy means for wakeups and buddies: everything stops in 6.17, tasks one by one in 6.18.
#[test]
fn wakeups_and_sleeps_in_a_throttled_group() {
    for (name, goes_on) in [("6.17", false), ("6.18", true)] {
        let mut c = Class::new(Profile::by_name(name).unwrap(), 1, 1000);
        let mut h = Timers::default();
        let cpu = CpuId(0);
        let outer = limited(&mut c, GroupId::ROOT, 1, 0);
        let inner = crate::stage::group(&mut c, outer);
        let tasks: Vec<_> = (0..3).map(|_| hog(&mut c, inner, 0, &mut h)).collect();
        let curr = c.pick_next_task(cpu, None, Ns(0), &mut h);
        c.task_tick(cpu, Ns(ms(2.0)), &mut h);
        c.clear_resched(cpu);
        let curr = c.pick_next_task(cpu, curr, Ns(ms(2.0)), &mut h);
        assert_eq!(curr.is_some(), goes_on, "{name}");
        let queue = c.group(outer).queues[0];
        let sleeper = tasks.iter().copied().find(|t| curr != Some(*t)).unwrap();
        c.dequeue_task(
            cpu,
            sleeper,
            Dequeue::SLEEP | Dequeue::SPECIAL,
            Ns(ms(2.0)),
            &mut h,
        );
        let marked = c.queue(queue).next.is_some();
        assert_eq!(
            marked, goes_on,
            "{name}: the group of a sleeper is the next buddy"
        );
        if let Some(t) = curr {
            // Waking is an ordinary wakeup: it may preempt, here by being the only one that can run.
            c.enqueue_task(cpu, sleeper, Enqueue::WAKEUP, Ns(ms(2.0)), &mut h);
            assert_eq!(c.curr(cpu), Some(t));
            c.update_curr_task(cpu, Ns(ms(3.0)), &mut h);
            c.clear_resched(cpu);
            for wakee in tasks {
                c.wakeup_preempt(cpu, wakee, Wake::TTWU, Ns(ms(3.0)), &mut h);
            }
            assert_ne!(c.resched(cpu), Resched::None, "{name}");
        } else {
            assert!(
                !c.yield_to_task(cpu, tasks[1], Ns(ms(2.0)), &mut h),
                "{name}"
            );
        }
    }
}
