//! Explanations of traces that make no sense: whatever the events say, parts add up and nothing panics.

use proptest::prelude::*;
use schedlab_analysis::explain::{Options, WaitFinder, explain_all};
use schedlab_fair::Profile;
use schedlab_trace::event::CpuFlags;
use schedlab_trace::{Comm, Event, EventKind, PrevState, TaskRef};

const PRIOS: [i32; 6] = [120, 100, 139, 50, -1, 4000];

fn task(pid: i32, prio: usize) -> TaskRef {
    TaskRef {
        comm: Comm::new("t"),
        pid,
        prio: PRIOS[prio % PRIOS.len()],
    }
}

/// An event from a few numbers.
fn event(ts: u64, n: (u8, i32, i32, u32, u32, usize)) -> Event {
    let (kind, a, b, cpu, other, prio) = n;
    let (x, y) = (task(a, prio), task(b, prio / 2));
    let state = [
        PrevState::RUNNING,
        PrevState::PREEMPTED,
        PrevState(1),
        PrevState::DEAD,
    ];
    let probe = |name: &str, fields: String| EventKind::Other {
        name: name.into(),
        fields,
    };
    let entity = format!(
        "cfs=0x{other:x} se=0x{:x} grp=0x{:x} pid={a} vr={} dl={} vlag={} slice=700000 w={} delayed={} \
         clk={} zv=0 sw=0 swv=0 nr=1 on_rq=1 ret=1 fl=0x{b:x}",
        a + 1,
        if b == 3 { other + 1 } else { 0 },
        prio * 1000,
        prio * 3000,
        prio * 3000,
        prio * 1024,
        b % 2,
        ts / 2,
    );
    let kind = match kind % 16 {
        0..=3 => EventKind::SchedSwitch {
            prev: x,
            prev_state: state[prio % 4],
            next: y,
        },
        4 => EventKind::SchedWaking {
            task: x,
            target_cpu: other,
        },
        5 => EventKind::SchedWakeup {
            task: x,
            target_cpu: other,
        },
        6 => EventKind::SchedWakeupNew {
            task: x,
            target_cpu: other,
        },
        7 => EventKind::SchedMigrateTask {
            task: x,
            orig_cpu: cpu,
            dest_cpu: other,
        },
        8 => EventKind::SchedStatRuntime {
            comm: x.comm,
            pid: a,
            runtime: prio as u64 * 1_000,
        },
        9 => EventKind::SchedProcessExec {
            filename: "x".into(),
            pid: a,
            old_pid: b,
        },
        10 => probe("contention_begin", format!("0x1 (flags=MUTEX) owner={b}")),
        11 => probe("contention_end", "0x1 (ret=0)".into()),
        12 => probe("task_cpus", format!("pid={a} cpus=0-{other}")),
        13 => probe("enqueue", format!("(enqueue_entity) {entity}")),
        14 => probe("setnext", format!("(a <- set_next_entity) {entity}")),
        _ => probe(
            "dequeue",
            format!("(dequeue_entities <- dequeue_entity) {entity}"),
        ),
    };
    Event {
        ts,
        cpu,
        pid: if matches!(kind, EventKind::SchedSwitch { .. }) {
            a
        } else {
            b
        },
        comm: Comm::default(),
        flags: CpuFlags {
            need_resched: prio == 5,
            ..CpuFlags::default()
        },
        kind,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn nonsense_adds_up(
        steps in proptest::collection::vec(
            (0u64..2_000_000, (any::<u8>(), 0..6i32, 0..6i32, 0..3u32, 0..4u32, 0..12usize)), 1..150
        ),
        profile in proptest::sample::select(vec!["6.1", "6.6", "6.12-stable", "6.18", "7.0"]),
    ) {
        let mut ts = 0;
        let mut events = Vec::new();
        for (dt, n) in steps {
            // Some come before the last one.
            ts = if dt % 17 == 0 { ts - ts / 50 } else { ts + dt };
            events.push(event(ts, n));
        }
        let mut finder = WaitFinder::worst(3, None);
        events.iter().for_each(|e| finder.push(e));
        let (_, survey, _) = finder.finish();
        let mut options = Options::new(Profile::by_name(profile).unwrap(), 250, &survey);
        for evidence in [
            schedlab_analysis::explain::Evidence::Recorded,
            schedlab_analysis::explain::Evidence::Inferred,
        ] {
            options.evidence = evidence;
            for x in explain_all(&events, &options).0 {
                let mut at = x.start;
                for s in &x.segments {
                    prop_assert_eq!(s.start, at);
                    at = s.end;
                }
                prop_assert_eq!(at, x.end);
                prop_assert_eq!(x.parts.iter().map(|p| p.ns).sum::<u64>(), x.ns());
                prop_assert!(!x.text().is_empty());
            }
        }
    }
}
