//! Preemption models with more than one CPU, more than one class and other timers (reference sections 3.8 and 14).

mod common;

use common::{add, forever, hog, machine, ns, play, run_us, switches};
use schedlab_fair::{Feature, Ns, Profile};
use schedlab_sim::program::{ChannelId, ChannelSpec, Mode, Op, Sched, SemId};
use schedlab_sim::{PreemptModel, SimConfig};
use schedlab_trace::event::{Event, EventKind, PrevState};

const MODELS: [PreemptModel; 4] = [
    PreemptModel::None,
    PreemptModel::Voluntary,
    PreemptModel::Full,
    PreemptModel::Lazy,
];

fn kernel(us: u64, mode: Mode) -> Op {
    Op::Run {
        work: ns(us),
        mode,
        cond_resched: None,
    }
}

/// Two CPUs; `a` runs on CPU 0, where B, which beats it, is woken by a task of CPU 1 at 0.4 ms. When B gets the CPU, ms.
fn remote_wakeup(model: PreemptModel, a: Vec<Op>, rt: bool) -> f64 {
    let mut c = machine(2);
    c.profile = Profile::by_name("6.15").unwrap();
    c.preempt = model;
    c.sems.push(0);
    let sem = schedlab_sim::program::SemId(0);
    // First to run, and asleep when A starts.
    let b = add(&mut c, "B", vec![Op::SemWait(sem), run_us(50)]);
    c.tasks[b].sched = if rt {
        Sched::Fifo { rt_priority: 1 }
    } else {
        Sched::Other { nice: -20 }
    };
    c.tasks[b].slice = Some(Ns::from_us(100));
    let t = add(&mut c, "A", a);
    let w = add(&mut c, "W", vec![run_us(400), Op::SemPost(sem)]);
    c.tasks[b].affinity = vec![0];
    c.tasks[t].affinity = vec![0];
    c.tasks[w].affinity = vec![1];
    let (_, events) = play(c);
    second_run(&events, "B")
}

fn second_run(events: &[Event], name: &str) -> f64 {
    let mut runs = events.iter().filter_map(|e| match &e.kind {
        EventKind::SchedSwitch { next, .. } if next.comm.to_string() == name => Some(e.ts),
        _ => None,
    });
    runs.nth(1).expect("a second run") as f64 / 1e6
}

#[test]
fn a_remote_wakeup_interrupts_user_mode_unless_the_request_is_lazy() {
    let got = MODELS.map(|m| remote_wakeup(m, hog(), false));
    assert_eq!(got, [0.4, 0.4, 0.4, 1.0]);
    // A system call of its own comes before the tick.
    let calls = vec![forever(vec![run_us(300), Op::Yield])];
    assert_eq!(remote_wakeup(PreemptModel::Lazy, calls, false), 0.6);
}

#[test]
fn a_remote_wakeup_finds_kernel_mode() {
    let a = |mode| {
        vec![
            run_us(200),
            kernel(2_700, mode),
            forever(vec![run_us(1_000)]),
        ]
    };
    let preemptible = MODELS.map(|m| remote_wakeup(m, a(Mode::Kernel), false));
    assert_eq!(preemptible, [2.9, 2.9, 0.4, 1.0]);
    let not = MODELS.map(|m| remote_wakeup(m, a(Mode::KernelNoPreempt), false));
    assert_eq!(not, [2.9; 4]);
    // Not preemptible, then preemptible: the switch comes in between, if at all.
    let both = || {
        vec![
            kernel(600, Mode::KernelNoPreempt),
            kernel(1_900, Mode::Kernel),
            forever(vec![run_us(1_000)]),
        ]
    };
    let got = MODELS.map(|m| remote_wakeup(m, both(), false));
    assert_eq!(got, [2.5, 2.5, 0.6, 1.0]);
}

#[test]
fn a_real_time_wakeup_is_never_lazy() {
    let got = MODELS.map(|m| remote_wakeup(m, hog(), true));
    assert_eq!(got, [0.4; 4]);
    let a = || vec![kernel(2_900, Mode::Kernel), forever(vec![run_us(1_000)])];
    let got = MODELS.map(|m| remote_wakeup(m, a(), true));
    assert_eq!(got, [2.9, 2.9, 0.4, 0.4]);
}

#[test]
fn voluntary_preemption_adds_the_entries_of_calls_that_may_sleep() {
    // Kernel work of A goes on into a call that wakes C; B, which beats A, has come meanwhile and runs for 50 us.
    let (sem, channel) = (SemId(0), ChannelId(0));
    let woken = |model, call: &Op, wait: &Op| {
        let mut c = machine(2);
        c.profile = Profile::by_name("6.15").unwrap();
        c.preempt = model;
        c.sems = vec![0];
        c.channels = vec![ChannelSpec {
            capacity: 1,
            overhead: 0,
            writer_wake_below: 0,
            wake_all_writers: false,
            messages: true,
            sync_wake: false,
        }];
        let b = add(&mut c, "B", vec![run_us(1), Op::Sleep(ns(400)), run_us(50)]);
        c.tasks[b].sched = Sched::Other { nice: -20 };
        c.tasks[b].slice = Some(Ns::from_us(100));
        let a = add(&mut c, "A", vec![kernel(1_000, Mode::Kernel), call.clone()]);
        let w = add(&mut c, "C", vec![wait.clone()]);
        c.tasks[a].affinity = vec![0];
        c.tasks[b].affinity = vec![0];
        c.tasks[w].affinity = vec![1];
        let (_, events) = play(c);
        events
            .iter()
            .find_map(|e| match &e.kind {
                EventKind::SchedWakeup { task, .. } if task.comm.to_string() == "C" => Some(e.ts),
                _ => None,
            })
            .unwrap()
    };
    let send = Op::Send { channel, bytes: 1 };
    let recv = Op::Recv { channel, bytes: 1 };
    assert_eq!(
        MODELS.map(|m| woken(m, &send, &recv)),
        [1_001_000, 1_051_000, 1_051_000, 1_051_000]
    );
    // A futex wakes without such a point.
    assert_eq!(
        MODELS.map(|m| woken(m, &Op::SemPost(sem), &Op::SemWait(sem))),
        [1_001_000, 1_001_000, 1_051_000, 1_051_000]
    );
}

#[test]
fn preempted_in_the_kernel_is_told_from_preempted_in_user_mode() {
    let state = |mode| {
        let mut c = machine(1);
        c.preempt = PreemptModel::Full;
        add(&mut c, "A", vec![kernel(5_000, mode)]);
        let b = add(&mut c, "B", vec![run_us(100)]);
        c.tasks[b].sched = Sched::Fifo { rt_priority: 1 };
        c.tasks[b].start = Ns::from_us(400);
        let (_, events) = play(c);
        events
            .iter()
            .find_map(|e| match &e.kind {
                EventKind::SchedSwitch {
                    prev, prev_state, ..
                } if prev.comm.to_string() == "A" => Some(*prev_state),
                _ => None,
            })
            .unwrap()
    };
    assert_eq!(state(Mode::User), PrevState::RUNNING);
    assert_eq!(state(Mode::Kernel), PrevState::PREEMPTED);
}

fn two_hogs(f: impl FnOnce(&mut SimConfig)) -> String {
    let mut c = machine(1);
    c.profile.tunables.base_slice = Some(Ns::from_us(2_800));
    add(&mut c, "A", hog());
    add(&mut c, "B", hog());
    f(&mut c);
    switches(&play(c).1, 6)
}

#[test]
fn hrtick_ends_a_slice_between_two_ticks() {
    let with = |on| two_hogs(|c| c.profile.features = c.profile.features.with(Feature::Hrtick, on));
    assert_eq!(with(false), "0:A 2:B 4:A 7:B 10:A 13:B");
    // The first requests are half slices, which the tick ends.
    assert_eq!(with(true), "0:A 2:B 4:A 6.8:B 9.6:A 12.4:B");
}

#[test]
fn slices_end_at_ticks_of_any_rate() {
    assert_eq!(two_hogs(|c| c.hz = 100), "0:A 10:B 20:A 30:B 40:A 50:B");
    assert_eq!(two_hogs(|c| c.hz = 250), "0:A 4:B 8:A 12:B 16:A 20:B");
}

#[test]
fn ticks_of_cpus_are_skewed() {
    let mut c = machine(3);
    c.tick_skew = Ns::from_us(100);
    for cpu in 0..3 {
        let t = add(&mut c, "hog", hog());
        c.tasks[t].affinity = vec![cpu];
    }
    c.duration = Some(Ns::from_ms(3));
    let (_, events) = play(c);
    // Run time is charged at ticks.
    let mut charged: Vec<(u64, u32)> = events
        .iter()
        .filter(|e| matches!(e.kind, EventKind::SchedStatRuntime { .. }) && e.ts < 1_500_000)
        .map(|e| (e.ts / 1_000, e.cpu))
        .collect();
    charged.sort_unstable();
    assert_eq!(
        charged,
        [(100, 1), (200, 2), (1_000, 0), (1_100, 1), (1_200, 2)]
    );
}
