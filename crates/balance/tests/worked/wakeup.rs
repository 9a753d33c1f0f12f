//! Section 12.2 and 12.3: the wake path.

use schedlab_balance::{
    CpuSet, IdleTest, Placement, QueueTarget, Rules, Step, Wakee, WakeeFlips, Waker,
    idle_scan_limit, queues_remotely, select_task_rq,
};
use schedlab_fair::{Feature, Features, Profile};

use crate::machine::{State, machine};

/// One wakeup on a machine of `(nodes, cores, threads)`.
struct Case {
    shape: (u32, u32, u32),
    this: u32,
    prev: u32,
    recent: Option<u32>,
    flips: (u32, u32),
    sync: bool,
    exiting: bool,
    kthread: bool,
    allowed: Option<Vec<u32>>,
    off: Vec<Feature>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            shape: (1, 8, 1),
            this: 0,
            prev: 4,
            recent: None,
            flips: (0, 0),
            sync: false,
            exiting: false,
            kthread: false,
            allowed: None,
            off: Vec::new(),
        }
    }
}

impl Case {
    fn run(&self, state: &mut State) -> Placement {
        let domains = machine(self.shape.0, self.shape.1, self.shape.2);
        let features: Features = Profile::default().features;
        let features = self.off.iter().fold(features, |f, &x| f.with(x, false));
        let all = CpuSet::all(domains.cpus());
        let allowed = self
            .allowed
            .as_ref()
            .map_or(all, |l| l.iter().copied().collect());
        let rules = Rules {
            domains: &domains,
            features,
        };
        let waker = Waker {
            cpu: self.this,
            flips: self.flips.0,
            per_cpu_kthread: self.kthread,
            exiting: self.exiting,
        };
        let wakee = Wakee {
            prev: self.prev,
            allowed: &allowed,
            recent: self.recent,
            flips: self.flips.1,
            util: 0,
        };
        select_task_rq(&rules, state, &waker, &wakee, self.sync)
    }

    fn target(&self, state: &mut State) -> u32 {
        self.run(state).target
    }
}

const ALL8: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

#[test]
fn wakee_flips_count_changes_and_halve_once_a_second() {
    let mut f = WakeeFlips::default();
    for (wakee, now, want) in [
        (7, 10, 1),
        (7, 20, 1),
        (8, 30, 2),
        (7, 40, 3),
        (8, 250, 4),
        (7, 251, 3),
        (7, 502, 1),
    ] {
        f.record(wakee, now, 250);
        assert_eq!(f.flips, want, "at {now}");
    }
}

#[test]
fn wake_wide_needs_both_to_flip_and_one_much_more() {
    // LLC of 8: the lesser of the two at least 8, the other at least 8 times that.
    for (waker, wakee, wide) in [
        (7, 1000, false),
        (8, 63, false),
        (8, 64, true),
        (64, 8, true),
        (0, 0, false),
    ] {
        let case = Case {
            flips: (waker, wakee),
            ..Case::default()
        };
        let mut state = State::busy(&[4]);
        // The waker's CPU is idle (an interrupt): affine unless wide.
        let want = if wide { 4 } else { 0 };
        assert_eq!(case.target(&mut state), want, "{waker} and {wakee}");
    }
}

#[test]
fn wake_affine_by_idleness() {
    let case = Case::default();
    assert_eq!(case.target(&mut State::busy(&[])), 4, "both idle: previous");
    assert_eq!(
        case.target(&mut State::busy(&[4])),
        0,
        "waker's idle, shared cache"
    );
    assert_eq!(case.target(&mut State::busy(&[0])), 4, "previous idle");
    let sync = Case {
        sync: true,
        ..Case::default()
    };
    assert_eq!(
        sync.target(&mut State::busy(&[0, 4])),
        0,
        "sync, waker alone"
    );
    let mut two = State::busy(&[4]);
    two.busy.push((0, 2));
    two.load = vec![(0, 2048), (4, 1024)];
    two.h_load = (0, 512);
    assert_eq!(sync.target(&mut two), 4, "sync, but another runs there");
    two.delayed = vec![(0, 1)];
    assert_eq!(sync.target(&mut two), 0, "the other is a delayed sleeper");
    let exiting = Case {
        sync: true,
        exiting: true,
        ..Case::default()
    };
    let mut state = State::busy(&[0, 4]);
    state.load = vec![(0, 2048), (4, 1024)];
    assert_eq!(
        exiting.target(&mut state),
        4,
        "an exiting waker's hint does not count"
    );
    // Across caches an idle waker's CPU is no reason.
    let apart = Case {
        shape: (2, 4, 1),
        ..Case::default()
    };
    let mut state = State::busy(&[4]);
    state.load = vec![(4, 100)];
    state.h_load = (0, 100);
    assert_eq!(apart.target(&mut state), 4);
    assert_eq!(state.asked[1], (4, IdleTest::AffinePrev));
}

#[test]
fn wake_affine_by_load_with_the_reference_examples() {
    // Loads 1024/1024, h_load 512, 117 %: 1536·100 against 512·108. Loads 0/2048: 512·100 against 1536·108.
    for (here, there, task, off, want) in [
        (1024, 1024, 512, vec![], 4),
        (0, 2048, 512, vec![], 0),
        // 520·100 against 488·108 = 52704: the bias decides.
        (8, 1000, 512, vec![], 0),
        (8, 1000, 512, vec![Feature::WaBias], 4),
        (0, 2048, 512, vec![Feature::WaWeight], 4),
    ] {
        let case = Case {
            off: off.clone(),
            ..Case::default()
        };
        let mut state = State::busy(&[0, 4]);
        state.load = vec![(0, here), (4, there)];
        state.h_load = (0, task);
        assert_eq!(
            case.target(&mut state),
            want,
            "{here} {there} {task} {off:?}"
        );
    }
}

#[test]
fn sync_takes_the_wakers_load_off() {
    let case = Case {
        sync: true,
        off: vec![Feature::WaIdle],
        ..Case::default()
    };
    let mut state = State::busy(&[0, 4]);
    state.load = vec![(0, 1000), (4, 1024)];
    state.h_load = (1001, 512);
    assert_eq!(case.target(&mut state), 0, "the waker is all of it");
    // (1000 − 1000 + 512)·100 = 51200 against (1024 − 512)·108 + 1.
    state.h_load = (1000, 512);
    assert_eq!(case.target(&mut state), 0);
}

#[test]
fn select_idle_sibling_in_order() {
    let busy_but = |idle: &[u32]| {
        let busy: Vec<u32> = ALL8.into_iter().filter(|c| !idle.contains(c)).collect();
        State::busy(&busy)
    };
    // Target is previous: loads favour it.
    let case = Case {
        recent: Some(6),
        off: vec![Feature::WaWeight],
        ..Case::default()
    };
    let step = |state: &mut State| {
        let p = case.run(state);
        (p.cpu, p.step)
    };
    assert_eq!(step(&mut busy_but(&[4])), (4, Step::Target));
    assert_eq!(step(&mut busy_but(&[6])), (6, Step::Recent));
    assert_eq!(
        step(&mut busy_but(&[2, 7])),
        (7, Step::Scan),
        "from target + 1 on"
    );
    assert_eq!(step(&mut busy_but(&[2])), (2, Step::Scan), "wrapping");
    assert_eq!(step(&mut busy_but(&[])), (4, Step::Fallback));
    let mut sched_idle = busy_but(&[]);
    sched_idle.sched_idle = vec![5];
    assert_eq!(
        step(&mut sched_idle),
        (5, Step::Scan),
        "SCHED_IDLE tasks only count as idle"
    );
    let mut pending = busy_but(&[5]);
    pending.pending = vec![5];
    assert_eq!(
        step(&mut pending),
        (4, Step::Fallback),
        "a wakeup on the way is no idleness"
    );
    let sync = Case {
        sync: true,
        ..Case::default()
    };
    let p = sync.run(&mut busy_but(&[4]));
    assert_eq!(
        (p.cpu, p.step, p.target),
        (4, Step::Prev, 0),
        "the waker's CPU is target, the previous idle"
    );
}

#[test]
fn recent_used_cpu_becomes_the_previous_one_where_the_search_comes_that_far() {
    let case = Case {
        recent: Some(6),
        ..Case::default()
    };
    assert!(!case.run(&mut State::busy(&[0])).sets_recent);
    assert!(case.run(&mut State::busy(&[0, 4])).sets_recent);
    let forbidden = Case {
        recent: Some(6),
        allowed: Some(vec![0, 4, 5]),
        ..Case::default()
    };
    assert_eq!(forbidden.run(&mut State::busy(&[0, 4])).cpu, 5);
}

#[test]
fn the_scan_looks_at_as_many_cpus_as_the_limit_says() {
    let case = Case {
        off: vec![Feature::WaWeight],
        ..Case::default()
    };
    let mut state = State::busy(&[0, 3, 4, 5, 6, 7]);
    for (limit, want, scanned) in [(0, 4, 0), (3, 4, 3), (4, 4, 4), (5, 1, 5)] {
        state.nr_idle_scan = limit;
        let p = case.run(&mut state);
        assert_eq!((p.cpu, p.scanned), (want, scanned), "limit {limit}");
    }
    let unlimited = Case {
        off: vec![Feature::WaWeight, Feature::SisUtil],
        ..Case::default()
    };
    state.nr_idle_scan = 0;
    assert_eq!(unlimited.run(&mut state).cpu, 1);
}

#[test]
fn idle_scan_limits_of_the_reference() {
    for (util, weight, want) in [
        (0, 16, 16),
        (4096, 16, 14),
        (8192, 16, 10),
        (12288, 16, 3),
        (14003, 16, 0),
        (4096, 8, 5),
        (0, 0, 0),
    ] {
        assert_eq!(
            idle_scan_limit(util, weight, 117),
            want,
            "{util} on {weight}"
        );
    }
}

#[test]
fn with_smt_a_core_first_if_there_is_one() {
    let case = |recent| Case {
        shape: (1, 4, 2),
        recent,
        off: vec![Feature::WaWeight],
        ..Case::default()
    };
    // CPUs 0,1 · 2,3 · 4,5 · 6,7 are cores; previous is 4.
    let mut state = State::busy(&[0, 2, 4, 6]);
    let p = case(None).run(&mut state);
    assert_eq!(
        (p.cpu, p.step),
        (5, Step::Sibling),
        "no idle core: the previous CPU's sibling"
    );
    let mut state = State::busy(&[0, 2, 4]);
    state.idle_cores = true;
    let p = case(None).run(&mut state);
    assert_eq!((p.cpu, p.step), (6, Step::Core));
    assert!(!state.hint_cleared);
    let mut state = State::busy(&[0, 2, 4, 6]);
    state.idle_cores = true;
    let p = case(None).run(&mut state);
    assert_eq!(
        (p.cpu, p.step),
        (5, Step::Thread),
        "a stale hint: the first idle thread"
    );
    assert!(state.hint_cleared, "and the hint is taken back");
    let mut state = State::busy(&[0, 2, 4]);
    (state.idle_cores, state.nr_idle_scan) = (true, 0);
    assert_eq!(
        case(None).run(&mut state).step,
        Step::Fallback,
        "limit 0 ends the search even so"
    );
    let only = Case {
        allowed: Some(vec![2, 4, 6]),
        ..case(None)
    };
    let mut state = State::busy(&[0, 2, 4]);
    state.idle_cores = true;
    assert_eq!(
        only.run(&mut state).cpu,
        6,
        "candidates are the allowed ones"
    );
}

#[test]
fn a_per_cpu_kthread_keeps_its_wakee_beside_it() {
    let case = |kthread| Case {
        this: 4,
        kthread,
        ..Case::default()
    };
    let mut state = State::busy(&[4]);
    assert_eq!(case(true).run(&mut state).step, Step::Kthread);
    assert_eq!(case(false).run(&mut state).step, Step::Scan);
    let mut state = State::busy(&[]);
    state.busy = vec![(4, 2)];
    state.nr_idle_scan = 8;
    assert_eq!(
        case(true).run(&mut state).step,
        Step::Scan,
        "not with two tasks"
    );
}

#[test]
fn a_pinned_task_is_not_searched_for() {
    let case = Case {
        allowed: Some(vec![3]),
        ..Case::default()
    };
    let mut state = State::busy(&ALL8);
    let p = case.run(&mut state);
    assert_eq!((p.cpu, p.step), (3, Step::Pinned));
    assert!(state.asked.is_empty());
}

#[test]
fn when_a_wakeup_is_queued_remotely() {
    let domains = machine(2, 4, 1);
    let features = Profile::default().features;
    for (cpu, nr_running, usable, on, want) in [
        (1, 0, true, true, true),
        (1, 1, true, true, false),
        (0, 0, true, true, false),
        (4, 0, true, true, true),
        (4, 3, true, true, true),
        (4, 3, false, true, false),
        (1, 0, true, false, false),
    ] {
        let rules = Rules {
            domains: &domains,
            features: features.with(Feature::TtwuQueue, on),
        };
        let target = QueueTarget {
            cpu,
            usable,
            nr_running,
        };
        assert_eq!(
            queues_remotely(&rules, 0, target),
            want,
            "{target:?}, switch {on}"
        );
    }
}
