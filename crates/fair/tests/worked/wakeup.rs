//! Section 8: wakeup preemption.

use crate::stage::*;
use schedlab_fair::profile::SyncSince;
use schedlab_fair::{
    Class, Feature, GroupAttr, GroupId, Hooks, Ns, Profile, Reason, Resched, TaskId, TaskPolicy,
    Wake, Weight,
};

fn check(c: &mut Class, wakee: TaskId, flags: Wake) -> bool {
    let now = Ns(c.rq(CPU).clock_task);
    c.wakeup_preempt(CPU, wakee, flags, now, &mut ());
    c.resched(CPU) != Resched::None
}

/// One row of the decision table (section 8.4).
struct Row {
    curr_eligible: bool,
    curr_protected: bool,
    wakee_eligible: bool,
    shorter: bool,
    /// Deadlines: wakee before the others, current first, or another queued one first.
    first: First,
    preempts: bool,
    /// Whether the current task is protected afterwards.
    protected_after: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    Wakee,
    Curr,
    Other,
}

#[test]
fn decision_table_of_6_12() {
    use First::{Curr, Other, Wakee};
    let rows = |f: &mut dyn FnMut(Row)| {
        let mut row = |a, b, c, d, first, preempts, protected_after| {
            f(Row {
                curr_eligible: a,
                curr_protected: b,
                wakee_eligible: c,
                shorter: d,
                first,
                preempts,
                protected_after,
            });
        };
        for first in [Wakee, Curr, Other] {
            for eligible in [false, true] {
                row(true, true, eligible, false, first, false, true);
            }
        }
        row(true, true, true, true, Wakee, true, false);
        row(true, true, true, true, Curr, false, true);
        // It has lost the protection, and another one has an earlier deadline than the wakee.
        row(true, true, true, true, Other, false, false);
        for shorter in [false, true] {
            row(true, false, true, shorter, Wakee, true, false);
            row(true, false, true, shorter, Curr, false, false);
            row(false, false, true, shorter, Wakee, true, false);
            row(false, false, true, shorter, Other, false, false);
            for (eligible, protected) in
                [(true, true), (true, false), (false, true), (false, false)]
            {
                row(eligible, protected, false, shorter, Wakee, false, protected);
            }
        }
        // The marker of an ineligible one does not help it in a pick, and a shorter slice takes it away.
        row(false, true, true, false, Wakee, true, true);
        row(false, true, true, true, Wakee, true, false);
        // Nor does an earlier deadline.
        row(false, true, true, false, Curr, true, true);
        row(false, true, true, true, Curr, true, false);
    };
    let mut n = 0;
    rows(&mut |r| {
        n += 1;
        let mut c = class("6.12-stable");
        // V lies between 0 and 4 ms: a heavy one at 2 ms holds it there.
        let behind = |yes: bool| if yes { 0.0 } else { 4.0 };
        let (w, k, o) = match r.first {
            Wakee => (5.0, 6.0, 7.0),
            Curr => (6.0, 5.0, 7.0),
            Other => (6.0, 7.0, 5.0),
        };
        let curr = at(ms(behind(r.curr_eligible)), ms(k));
        let curr = if r.curr_protected {
            curr.protected()
        } else {
            curr
        };
        let curr = running(&mut c, curr);
        queued(
            &mut c,
            At {
                nice: -20,
                ..at(ms(2.0), ms(o))
            },
        );
        // Keeps V a little above 2 ms, so that the heavy one is eligible.
        queued(&mut c, at(ms(14.0), ms(30.0)));
        let mut wakee = at(ms(behind(r.wakee_eligible)), ms(w));
        if r.shorter {
            wakee.slice = 500_000;
        }
        let wakee = queued(&mut c, wakee);
        let case = format!(
            "curr eligible {}, protected {}; wakee eligible {}, shorter {}; first {:?}",
            r.curr_eligible, r.curr_protected, r.wakee_eligible, r.shorter, r.first
        );
        assert_eq!(c.entity_eligible(curr.entity()), r.curr_eligible, "{case}");
        assert_eq!(
            c.entity_eligible(wakee.entity()),
            r.wakee_eligible,
            "{case}"
        );
        assert_eq!(check(&mut c, wakee, Wake::TTWU), r.preempts, "{case}");
        assert_eq!(c.protected(curr.entity()), r.protected_after, "{case}");
    });
    assert_eq!(n, 29);
}

/// A running task, unprotected and with a late deadline, and a wakee with an early one.
fn late_and_early(p: Profile) -> (Class, TaskId, TaskId) {
    let mut c = Class::new(p, 1, 1000);
    let curr = running(&mut c, at(0, ms(9.0)));
    let wakee = queued(&mut c, at(0, ms(1.0)));
    (c, curr, wakee)
}

fn with_policies(name: &str, off: Option<Feature>, curr: TaskPolicy, wakee: TaskPolicy) -> bool {
    let mut p = profile(name);
    if let Some(f) = off {
        p = p.with_feature(f, false);
    }
    let mut c = Class::new(p, 1, 1000);
    let prepare = |c: &mut Class, policy, running: bool, d| {
        let t = off_task(c, policy, d);
        c.insert_recorded(t.entity(), running);
        t
    };
    prepare(&mut c, curr, true, 9.0);
    let w = prepare(&mut c, wakee, false, 1.0);
    check(&mut c, w, Wake::TTWU)
}

fn off_task(c: &mut Class, policy: TaskPolicy, d: f64) -> TaskId {
    let t = c.add_task(schedlab_fair::TaskAttr {
        policy,
        ..Default::default()
    });
    let weight = c.entity(t.entity()).load.weight;
    set(c, t.entity(), at(0, ms(d)), weight);
    t
}

#[test]
fn policies() {
    use TaskPolicy::{Batch, Idle, Normal};
    for name in ["6.8", "6.12-stable", "6.17", "6.18"] {
        assert!(with_policies(name, None, Normal, Normal), "{name}");
        assert!(!with_policies(name, None, Normal, Batch), "{name}");
        assert!(!with_policies(name, None, Normal, Idle), "{name}");
        assert!(with_policies(name, None, Idle, Normal), "{name}");
        assert!(!with_policies(name, None, Idle, Idle), "{name}");
        assert!(with_policies(name, None, Batch, Normal), "{name}");
        // A BATCH wakee preempts an idle task nevertheless: that test comes first.
        assert!(with_policies(name, None, Idle, Batch), "{name}");
    }
    let off = Some(Feature::WakeupPreemption);
    // Before 6.12 the switch did not stop the preemption of idle tasks.
    assert!(with_policies("6.8", off, Idle, Normal));
    assert!(!with_policies("6.12-stable", off, Idle, Normal));
    assert!(!with_policies("6.8", off, Normal, Normal));
    assert!(!with_policies("6.12-stable", off, Normal, Normal));
}

#[test]
fn an_idle_entity_loses_its_protection_where_the_version_says_so() {
    for (name, loses) in [
        ("6.12.0", false),
        ("6.13", false),
        ("6.12-stable", true),
        ("6.15", true),
        ("6.19", true),
    ] {
        let mut c = class(name);
        let idle = off_task(&mut c, TaskPolicy::Idle, 9.0);
        c.insert_recorded(idle.entity(), false);
        c.pick_next_task(CPU, None, Ns(0), &mut ());
        assert!(c.protected(idle.entity()));
        let w = queued(&mut c, at(0, ms(1.0)));
        assert!(check(&mut c, w, Wake::TTWU), "{name}");
        assert_eq!(c.protected(idle.entity()), !loses, "{name}");
    }
}

#[test]
fn a_pending_request_ends_the_check_before_accounting() {
    let (mut c, curr, w) = late_and_early(profile("6.12-stable"));
    c.request_resched(CPU, Resched::Full, Reason::Other, &mut ());
    c.wakeup_preempt(CPU, w, Wake::TTWU, Ns(ms(1.0)), &mut ());
    assert_eq!(v(&c, curr), 0, "not charged");
    c.clear_resched(CPU);
    assert!({
        c.wakeup_preempt(CPU, w, Wake::TTWU, Ns(ms(1.0)), &mut ());
        c.resched(CPU) == Resched::Full
    });
    assert_eq!(v(&c, curr), ms(1.0));
    // A lazy request does not count as pending.
    let (mut c, _, w) = late_and_early(profile("6.13"));
    c.request_resched(CPU, Resched::Lazy, Reason::Other, &mut ());
    c.wakeup_preempt(CPU, w, Wake::TTWU, Ns(ms(1.0)), &mut ());
    assert_eq!(c.resched(CPU), Resched::Lazy);
}

#[test]
fn compared_where_the_groups_meet() {
    let mut c = class("6.12-stable");
    let idle = c.add_group(
        GroupId::ROOT,
        GroupAttr {
            shares: Weight::NICE_0,
            idle: true,
            bandwidth: None,
        },
    );
    let t = off_in(&mut c, idle, at(0, ms(9.0)).protected());
    c.insert_recorded(t.entity(), true);
    let ge = c.group(idle).entities[0];
    set(&mut c, ge, at(0, ms(9.0)).protected(), Weight::IDLE);
    c.insert_recorded(ge, true);
    let plain = queued(&mut c, at(0, ms(20.0)));
    assert!(check(&mut c, plain, Wake::TTWU), "its group is idle");
    assert!(c.protected(t.entity()), "the task itself keeps its marker");
    assert!(!c.protected(ge));
    c.clear_resched(CPU);
    let inside = off_in(&mut c, idle, at(0, ms(10.0)));
    c.insert_recorded(inside.entity(), false);
    assert!(
        !check(&mut c, inside, Wake::TTWU),
        "inside the group nobody is idle"
    );
}

#[test]
fn shorter_slices_in_6_17_and_6_18() {
    // (profile, shorter slice, first deadline is the wakee's) -> (preempts, end of the protection)
    for (name, shorter, early, preempts, vprot) in [
        ("6.17", true, true, true, 0.0),
        ("6.17", true, false, false, 0.5),
        ("6.17", false, true, false, 2.8),
        ("6.18", true, true, true, 0.0),
        ("6.18", true, false, false, 0.5),
        ("6.18", false, true, false, 2.8),
        ("6.19", true, false, false, 0.5),
    ] {
        let mut c = class(name);
        let a = queued(&mut c, at(0, ms(2.8)));
        c.pick_next_task(CPU, None, Ns(0), &mut ());
        assert_eq!(c.entity(a.entity()).vprot.0, ms(2.8));
        let w = queued(
            &mut c,
            At {
                slice: if shorter { 500_000 } else { 2_800_000 },
                ..at(0, ms(if early { 1.0 } else { 5.0 }))
            },
        );
        assert_eq!(
            check(&mut c, w, Wake::TTWU),
            preempts,
            "{name} {shorter} {early}"
        );
        assert_eq!(
            c.entity(a.entity()).vprot.0,
            ms(vprot),
            "{name} {shorter} {early}"
        );
    }
    // 6.18 shortens it for a third one's sake whoever woke, 6.17 only if the wakee has the shorter slice.
    for (name, vprot) in [("6.17", 2.8), ("6.18", 0.5), ("6.19", 0.5)] {
        let mut c = class(name);
        let a = queued(&mut c, at(0, ms(2.8)));
        c.pick_next_task(CPU, None, Ns(0), &mut ());
        queued(
            &mut c,
            At {
                slice: 500_000,
                ..at(0, ms(7.0))
            },
        );
        let w = queued(&mut c, at(0, ms(5.0)));
        assert!(!check(&mut c, w, Wake::TTWU));
        assert_eq!(c.entity(a.entity()).vprot.0, ms(vprot), "{name}");
        let p = c.profile().with_feature(Feature::RunToParity, false);
        let mut c = Class::new(p, 1, 1000);
        let a = queued(&mut c, at(0, ms(2.8)));
        c.pick_next_task(CPU, None, Ns(0), &mut ());
        queued(
            &mut c,
            At {
                slice: 500_000,
                ..at(0, ms(7.0))
            },
        );
        let w = queued(&mut c, at(0, ms(5.0)));
        check(&mut c, w, Wake::TTWU);
        assert_eq!(
            c.entity(a.entity()).vprot.0,
            ms(0.7),
            "{name}: nothing is shortened"
        );
    }
}

#[test]
fn forks_and_delayed_wakees_in_6_19() {
    let fork = |name: &str, shorter: bool| {
        let (mut c, _, _) = late_and_early(profile(name));
        let w = queued(
            &mut c,
            At {
                slice: if shorter { 500_000 } else { 2_800_000 },
                ..at(0, ms(0.5))
            },
        );
        check(&mut c, w, Wake::FORK)
    };
    assert!(fork("6.18", false));
    assert!(!fork("6.19", false), "a fork does not preempt");
    assert!(fork("6.19", true), "unless its slice is shorter");
}

struct Reasons(Vec<Reason>);

impl Hooks for Reasons {
    fn resched(
        &mut self,
        _: schedlab_fair::CpuId,
        _: Resched,
        why: Reason,
        _: Option<schedlab_fair::QueueId>,
    ) {
        self.0.push(why);
    }
}

#[test]
fn sync_wakeups_with_next_buddy_in_6_19() {
    let run = |since: SyncSince, ran_us: u64, flags: Wake| {
        let mut p = profile("6.19").with_feature(Feature::NextBuddy, true);
        p.sync_since = since;
        let mut c = Class::new(p, 1, 1000);
        queued(&mut c, at(0, ms(2.8)));
        c.pick_next_task(CPU, None, Ns(0), &mut ());
        let w = queued(&mut c, at(0, ms(1.0)));
        let mut h = Reasons(Vec::new());
        c.wakeup_preempt(
            CPU,
            w,
            Wake::TTWU | Wake::SYNC | flags,
            Ns(ran_us * 1000),
            &mut h,
        );
        assert_eq!(c.queue(root(&c)).next, Some(w.entity()));
        h.0.contains(&Reason::WakeupPreempt)
    };
    // As the text reads: accounting has just set `exec_start` to now.
    assert!(!run(SyncSince::ExecStart, 900, Wake::NONE));
    // As it is meant: half a millisecond of run time, a quarter of that if the class chose the CPU.
    assert!(run(SyncSince::SetRunning, 500, Wake::NONE));
    assert!(!run(SyncSince::SetRunning, 499, Wake::NONE));
    assert!(run(SyncSince::SetRunning, 125, Wake::RQ_SELECTED));
    assert!(!run(SyncSince::SetRunning, 124, Wake::RQ_SELECTED));
}

#[test]
fn an_earlier_buddy_is_kept_in_6_19() {
    let p = profile("6.19").with_feature(Feature::NextBuddy, true);
    let mut c = Class::new(p, 1, 1000);
    queued(&mut c, at(0, ms(0.5)));
    c.pick_next_task(CPU, None, Ns(0), &mut ());
    let first = queued(&mut c, at(ms(1.0), ms(2.0)));
    check(&mut c, first, Wake::TTWU);
    let later = queued(&mut c, at(ms(1.0), ms(3.0)));
    check(&mut c, later, Wake::TTWU);
    assert_eq!(c.queue(root(&c)).next, Some(first.entity()));
    let earlier = queued(&mut c, at(ms(1.0), ms(1.5)));
    check(&mut c, earlier, Wake::TTWU);
    assert_eq!(c.queue(root(&c)).next, Some(earlier.entity()));
}

/// A check whose pick is a delayed entity: nothing in 6.19, another pick after the fix.
#[test]
fn a_pick_that_meets_a_delayed_entity() {
    for (name, preempts) in [("6.19", false), ("7.0", true)] {
        let mut c = class(name);
        running(&mut c, at(0, ms(9.0)));
        let delayed = queued(
            &mut c,
            At {
                delayed: true,
                ..at(0, ms(0.5))
            },
        );
        let w = queued(&mut c, at(0, ms(1.0)));
        assert_eq!(check(&mut c, w, Wake::TTWU), preempts, "{name}");
        assert_eq!(c.is_on_rq(delayed), !preempts, "{name}");
    }
}

#[test]
fn lazy_requests_from_6_13_on() {
    for (name, kind) in [
        ("6.12-stable", Resched::Full),
        ("6.13", Resched::Lazy),
        ("7.0", Resched::Lazy),
    ] {
        let (mut c, _, w) = late_and_early(profile(name));
        check(&mut c, w, Wake::TTWU);
        assert_eq!(c.resched(CPU), kind, "{name}");
    }
}
