//! Section 12.4: fork and exec.

use schedlab_balance::{CpuSet, DomainFlags, find_dst_cpu};

use crate::machine::{State, machine};

fn fork(shape: (u32, u32, u32), state: &mut State, this: u32, allowed: &[u32]) -> u32 {
    let domains = machine(shape.0, shape.1, shape.2);
    let allowed: CpuSet = if allowed.is_empty() {
        CpuSet::all(domains.cpus())
    } else {
        allowed.iter().copied().collect()
    };
    find_dst_cpu(
        &domains,
        state,
        DomainFlags::BALANCE_FORK,
        this,
        this,
        &allowed,
    )
}

#[test]
fn the_idle_cpu_that_went_idle_last() {
    let mut state = State::busy(&[0]);
    state.stamps = vec![(1, 100), (2, 300), (3, 200)];
    assert_eq!(
        fork((1, 4, 1), &mut state, 0, &[]),
        1,
        "single-CPU groups tie: the first"
    );
    // Groups of several CPUs: within the chosen one, the latest.
    let mut state = State::busy(&[0]);
    state.stamps = vec![(4, 100), (5, 300), (6, 200), (7, 250)];
    state.busy.extend([(1, 1), (2, 1)]);
    assert_eq!(fork((2, 4, 1), &mut state, 0, &[]), 5);
}

#[test]
fn a_node_keeps_a_task_that_the_allowance_covers() {
    // One task on the node plus the new one exceed imb_numa_nr 1: away. An empty node keeps it.
    let mut state = State::busy(&[4, 5, 6]);
    state.stamps = vec![(0, 1), (1, 2), (2, 3), (3, 4)];
    assert_eq!(fork((2, 4, 1), &mut state, 0, &[]) / 4, 0);
    let mut state = State::busy(&[0]);
    state.stamps = vec![(4, 4), (5, 5), (6, 6), (7, 7)];
    assert_eq!(fork((2, 4, 1), &mut state, 0, &[]) / 4, 1);
    assert_eq!(fork((2, 4, 1), &mut state, 0, &[1, 2]), 1, "affinity");
}

#[test]
fn among_busy_groups_the_load_decides() {
    let all: Vec<u32> = (0..8).collect();
    let mut state = State::busy(&all);
    state.busy = all.iter().map(|&c| (c, 2)).collect();
    state.overutilized = all.iter().copied().collect();
    for (ours, theirs, node) in [(1000, 1000, 0), (1000, 900, 0), (1300, 900, 1)] {
        state.load = all
            .iter()
            .map(|&c| (c, if c < 4 { ours } else { theirs }))
            .collect();
        assert_eq!(
            fork((2, 4, 1), &mut state, 0, &[]) / 4,
            node,
            "{ours} against {theirs}"
        );
    }
    // Within the group: the least load.
    state.load = vec![
        (0, 9000),
        (1, 9000),
        (2, 9000),
        (3, 9000),
        (4, 700),
        (5, 600),
        (6, 500),
        (7, 800),
    ];
    assert_eq!(fork((2, 4, 1), &mut state, 0, &[]), 6);
}

#[test]
fn a_cpu_with_sched_idle_tasks_only_is_taken_at_once() {
    let mut state = State::busy(&[0, 4, 5, 7]);
    state.sched_idle = vec![6];
    state.load = vec![(4, 1), (5, 2), (6, 900), (7, 4)];
    assert_eq!(fork((2, 4, 1), &mut state, 0, &[4, 5, 6, 7]), 6);
}

#[test]
fn a_task_that_may_run_nowhere_here_stays() {
    let mut state = State::busy(&[]);
    assert_eq!(fork((1, 4, 1), &mut state, 2, &[9]), 2);
}
