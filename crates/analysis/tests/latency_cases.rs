//! Small histories with a known answer: reported cases, and what must not upset the accounting.

mod common;

use common::{MS, R, S, Story, nonsense, task};
use proptest::prelude::*;
use schedlab_analysis::latency::{
    GroupBy, LatencyAccumulator, LatencyOptions, LatencyReport, Layout, RenderOptions, TaskLatency,
    WakeStart,
};
use schedlab_trace::{Comm, Event, EventKind, FtraceTextReader, Pid, PrevState};

/// The report of a story.
trait Report {
    fn report(&self) -> LatencyReport;
}

impl Report for Story {
    fn report(&self) -> LatencyReport {
        report(&self.0, LatencyOptions::default())
    }
}

fn report(events: &[Event], options: LatencyOptions) -> LatencyReport {
    let mut latency = LatencyAccumulator::new(options);
    for event in events {
        latency.push(event);
    }
    latency.finish()
}

fn of(report: &LatencyReport, pid: Pid) -> &TaskLatency {
    report.tasks.iter().find(|t| t.pid == pid).unwrap()
}

/// Count, sum and maximum in ms from `sched_waking`, then from `sched_wakeup`.
fn delays(report: &LatencyReport, pid: Pid) -> [(u64, u64, u64); 2] {
    [WakeStart::Waking, WakeStart::Wakeup].map(|start| {
        let d = of(report, pid).delays(start);
        (d.count, d.sum / MS, d.max / MS)
    })
}

#[test]
fn case_46_a_move_while_waiting_is_part_of_the_wait() {
    // Woken on CPU 0 at 1000, moved to CPU 1 at 1003, runs at 1007.
    let migrate = EventKind::SchedMigrateTask {
        task: task(7),
        orig_cpu: 0,
        dest_cpu: 1,
    };
    let report = Story::new()
        .wakeup(1000, 0, 5, 7)
        .push(1003, 1, 0, migrate)
        .switch(1007, 1, 0, R, 7)
        .switch(1010, 1, 7, S, 0)
        .report();
    assert_eq!(delays(&report, 7), [(1, 7, 7), (1, 7, 7)]);
    assert_eq!(of(&report, 7).migrations, 1);
    assert_eq!(report.summary.migrations, 1);
    assert!(of(&report, 7).from_wakeup.max <= report.summary.span);
}

#[test]
fn case_50_events_out_of_order() {
    // The second line is earlier than the first.
    let text = "
        <idle>-0 [001] 1494.663899990: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=w next_pid=9 next_prio=120
        <idle>-0 [000] 1494.663860125: sched_waking: comm=w pid=9 prio=120 target_cpu=001
        w-9 [001] 1494.664000000: sched_switch: prev_comm=w prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
        <idle>-0 [000] 1504.098252756: sched_waking: comm=w pid=9 prio=120 target_cpu=001
        <idle>-0 [001] 1504.100353302: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=w next_pid=9 next_prio=120
";
    let events: Vec<Event> = FtraceTextReader::new(text.as_bytes(), "case 50")
        .map(Result::unwrap)
        .collect();
    assert_eq!(events.len(), 5);
    let sorted = report(&events, LatencyOptions::default());
    let d = &of(&sorted, 9).from_waking;
    assert_eq!((d.count, d.max), (2, 2_100_546));
    assert_eq!(d.sum - d.max, 39_865);
    assert_eq!(
        (d.max_start, d.max_end),
        (1_504_098_252_756, 1_504_100_353_302)
    );
    assert_eq!(sorted.anomalies.order.reordered, 1);
    assert_eq!(sorted.anomalies.order.late, 0);
    let text = sorted.render(RenderOptions::default());
    assert!(text.contains("  1 event was reordered\n"), "{text}");
    // The figure of the report, 9436 ms, needs no window to go wrong; ours must not make it up even so.
    let unsorted = report(
        &events,
        LatencyOptions {
            window: 0,
            ..LatencyOptions::default()
        },
    );
    assert_eq!(unsorted.anomalies.order.late, 1);
    assert!(of(&unsorted, 9).from_waking.max < 10 * MS);
}

#[test]
fn case_55_waking_of_a_running_task() {
    // (i) No wakeup before the next switch-in: the sleep was aborted, runnable from the switch-out at 20.
    let start = || {
        Story::new()
            .switch(10, 1, 0, R, 7)
            .waking(18, 0, 5, 7)
            .switch(20, 1, 7, S, 0)
    };
    let aborted = start().switch(25, 1, 0, R, 7).report();
    assert_eq!(delays(&aborted, 7), [(1, 5, 5), (1, 5, 5)]);
    assert_eq!(aborted.anomalies.aborted_sleeps, 1);
    assert_eq!(aborted.anomalies.waking_while_running, 1);
    assert_eq!(aborted.anomalies.missing_wakeups, 0);
    // (ii) A wakeup follows: asleep from 20 to 23.
    let woken = start().wakeup(23, 1, 0, 7).switch(25, 1, 0, R, 7).report();
    assert_eq!(delays(&woken, 7), [(1, 2, 2), (1, 2, 2)]);
    assert_eq!(woken.anomalies.aborted_sleeps, 0);
    // A call that was answered while the task ran says nothing of a later sleep.
    let answered = Story::new()
        .switch(10, 1, 0, R, 7)
        .waking(17, 0, 5, 7)
        .wakeup(18, 0, 5, 7)
        .switch(20, 1, 7, S, 0)
        .switch(25, 1, 0, R, 7)
        .report();
    assert_eq!(delays(&answered, 7), [(0, 0, 0); 2]);
    assert_eq!(answered.anomalies.wakeup_while_running, 1);
    assert_eq!(answered.anomalies.missing_wakeups, 1);
    // Two idle tasks are two tasks.
    let idle = Story::new()
        .switch(10, 0, 0, R, 7)
        .switch(10, 1, 0, R, 8)
        .switch(12, 0, 7, S, 0)
        .switch(13, 1, 8, S, 0)
        .switch(20, 0, 0, R, 7)
        .report();
    assert!(idle.tasks.iter().all(|t| t.pid != 0));
    assert_eq!(idle.anomalies.on_two_cpus, 0);
    let times: Vec<_> = idle.summary.cpus.iter().map(|c| (c.busy, c.idle)).collect();
    assert_eq!(times, [(2 * MS, 8 * MS), (3 * MS, 7 * MS)]);
}

#[test]
fn waking_and_wakeup_are_kept_apart() {
    let report = Story::new()
        .switch(0, 0, 7, S, 0)
        .waking(10, 0, 0, 7)
        .wakeup(14, 0, 0, 7)
        .switch(15, 0, 0, R, 7)
        .switch(16, 0, 7, R, 8)
        .switch(19, 0, 8, S, 7)
        .report();
    // From the call 5 ms, from the queue 1 ms; and 3 ms after the preemption.
    assert_eq!(delays(&report, 7), [(2, 8, 5), (2, 4, 3)]);
    assert_eq!(of(&report, 7).voluntary, 1);
    assert_eq!(of(&report, 7).involuntary, 1);
    // Only one of the two traced: it serves for both.
    let only_wakeup = Story::new()
        .switch(0, 0, 7, S, 0)
        .wakeup(14, 0, 0, 7)
        .switch(15, 0, 0, R, 7)
        .report();
    assert_eq!(delays(&only_wakeup, 7), [(1, 1, 1); 2]);
    // Said twice: the first counts.
    let twice = Story::new()
        .switch(0, 0, 7, S, 0)
        .waking(10, 0, 0, 7)
        .waking(12, 0, 0, 7)
        .wakeup(13, 0, 0, 7)
        .wakeup(14, 0, 0, 7)
        .switch(15, 0, 0, R, 7)
        .report();
    assert_eq!(delays(&twice, 7), [(1, 5, 5), (1, 2, 2)]);
    assert_eq!(twice.anomalies.wake_while_waiting, 2);
}

#[test]
fn start_and_end_of_the_trace() {
    // CPU 0's first event is at 100 (7 runs), CPU 1's at 130 (8 runs); the trace ends at 200.
    let report = Story::new()
        .waking(100, 0, 7, 9)
        .switch(110, 0, 7, S, 9)
        .stat_runtime(130, 1, 8, 1)
        .wakeup(160, 0, 9, 7)
        .switch(200, 1, 8, S, 0)
        .report();
    assert_eq!(of(&report, 7).runtime, 10 * MS);
    assert_eq!(of(&report, 8).runtime, 70 * MS);
    assert_eq!(of(&report, 8).stat_runtime, Some(MS));
    // Still running at the end.
    assert_eq!(of(&report, 9).runtime, 90 * MS);
    // A first sight at a switch-in has no delay; a wait that has not ended is none yet.
    assert_eq!(delays(&report, 7)[0], (0, 0, 0));
    assert_eq!(of(&report, 7).open_wait, Some(40 * MS));
    let cpu1 = report.summary.cpus[1];
    assert_eq!((cpu1.busy, cpu1.idle, cpu1.unknown), (70 * MS, 0, 30 * MS));
    assert_eq!(cpu1.utilization(), Some(1.0));
    assert_eq!(report.summary.span, 100 * MS);
    assert_eq!(
        (report.summary.voluntary, report.summary.involuntary),
        (2, 0)
    );
    let nothing = Story::new().report();
    assert_eq!(nothing, LatencyReport::default());
}

#[test]
fn impossible_histories_are_counted() {
    // 7 runs on CPU 0 and is switched in on CPU 1: the last sign of it on CPU 0 was at 12.
    let report = Story::new()
        .switch(10, 0, 0, R, 7)
        .wakeup(12, 0, 7, 5)
        .switch(15, 1, 0, R, 7)
        .switch(18, 1, 7, S, 0)
        .switch(20, 0, 3, S, 0)
        .report();
    assert_eq!(report.anomalies.on_two_cpus, 1);
    assert_eq!(of(&report, 7).runtime, (2 + 3) * MS);
    // From 12 on nobody knows what CPU 0 did.
    assert_eq!(report.anomalies.unattributed, 8 * MS);
    let cpu0 = report.summary.cpus[0];
    assert_eq!((cpu0.busy, cpu0.idle, cpu0.unknown), (2 * MS, 0, 8 * MS));
    // Waking a running task is no wait.
    let report = Story::new()
        .switch(10, 0, 0, R, 7)
        .wakeup(12, 1, 5, 7)
        .switch(14, 0, 7, R, 8)
        .switch(17, 0, 8, S, 7)
        .report();
    assert_eq!(delays(&report, 7)[0], (1, 3, 3));
    assert_eq!(report.anomalies.wakeup_while_running, 1);
}

#[test]
fn a_missing_switch_is_noticed_and_told_from_the_time_charged() {
    // 7 is woken at 10 and the switch from idle is missing; at 15 it has been charged 4 ms.
    let start = || Story::new().switch(5, 0, 7, S, 0).waking(10, 0, 0, 7);
    let report = start()
        .stat_runtime(15, 0, 7, 4)
        .switch(16, 0, 7, S, 0)
        .report();
    assert_eq!(report.anomalies.missing_switches, 1);
    assert_eq!(report.anomalies.inferred_switches, 1);
    assert_eq!(report.anomalies.unattributed, 0);
    assert_eq!(delays(&report, 7)[0], (1, 1, 1));
    assert_eq!(of(&report, 7).runtime, 5 * MS);
    assert_eq!(report.summary.cpus[0].idle, 6 * MS);
    // Charged more than is possible: not before the last sign of the idle task.
    let report = start()
        .stat_runtime(15, 0, 7, 400)
        .switch(16, 0, 7, S, 0)
        .report();
    assert_eq!(delays(&report, 7)[0], (1, 0, 0));
    assert_eq!(of(&report, 7).runtime, 6 * MS);
    // Without that event only what was seen counts, and no delay.
    let report = start().switch(16, 0, 7, S, 0).report();
    assert_eq!(delays(&report, 7)[0], (0, 0, 0));
    assert_eq!(of(&report, 7).runtime, 0);
    assert_eq!(report.anomalies.unattributed, 6 * MS);
}

#[test]
fn a_pid_used_again_is_another_task() {
    let fork = |child: Pid| EventKind::SchedProcessFork {
        parent_comm: task(5).comm,
        parent_pid: 5,
        child_comm: Comm::new("child"),
        child_pid: child,
    };
    let new = EventKind::SchedWakeupNew {
        task: task(7),
        target_cpu: 0,
    };
    let report = Story::new()
        .push(10, 0, 5, fork(7))
        .push(11, 0, 5, new.clone())
        .switch(13, 0, 5, S, 7)
        .switch(20, 0, 7, PrevState::ZOMBIE, 5)
        .push(30, 0, 5, fork(7))
        .push(31, 0, 5, new)
        .switch(36, 0, 5, R, 7)
        .switch(37, 0, 7, PrevState::DEAD, 5)
        // And once more without fork and wakeup.
        .switch(40, 0, 5, S, 7)
        .report();
    let runs: Vec<_> = report
        .tasks
        .iter()
        .filter(|t| t.pid == 7)
        .map(|t| (t.runtime / MS, t.from_waking.sum / MS, t.from_waking.count))
        .collect();
    assert_eq!(runs, [(7, 2, 1), (1, 5, 1), (0, 0, 0)]);
    let rows = report.rows(GroupBy::Comm, WakeStart::Waking);
    assert!(
        rows.iter()
            .any(|r| r.name == "t7:(3)" && r.delays.sum == 7 * MS)
    );
}

#[test]
fn exec_in_a_thread_takes_the_leaders_pid() {
    let report = Story::new()
        .switch(10, 0, 0, R, 8)
        .push(
            12,
            0,
            7,
            EventKind::SchedProcessExec {
                filename: "/bin/x".to_owned(),
                pid: 7,
                old_pid: 8,
            },
        )
        .switch(15, 0, 7, S, 0)
        .report();
    assert_eq!(of(&report, 7).runtime, 5 * MS);
    assert_eq!(report.anomalies.missing_switches, 0);
}

#[test]
fn tables() {
    let report = Story::new()
        .switch(1000, 0, 0, R, 7)
        .switch(1100, 0, 7, R, 123_456)
        .switch(1350, 0, 123_456, S, 7)
        .waking(1400, 0, 7, 123_456)
        .switch(1401, 0, 7, R, 123_456)
        .switch(1500, 0, 123_456, S, 0)
        .report();
    let narrow = report.render(RenderOptions::default());
    insta::assert_snapshot!(narrow, @r"
    ---------------------------------------------------------------------------------------------------------------------
     Task                    |     Runtime |  Count | Avg delay | Max delay |   Sum delay |     Max start |       Max end
                             |          ms |        |        ms |        ms |          ms |             s |             s
    ---------------------------------------------------------------------------------------------------------------------
     t7:7                    |     151.000 |      1 |   250.000 |   250.000 |     250.000 |      1.100000 |      1.350000
     t123456:123456          |     349.000 |      1 |     1.000 |     1.000 |       1.000 |      1.400000 |      1.401000
    ---------------------------------------------------------------------------------------------------------------------
     TOTAL:                  |     500.000 |      2 |                             251.000 |
    ---------------------------------------------------------------------------------------------------------------------
     1 tasks still waited for a CPU at the end, the longest for 99.000 ms; not in the table
    ");
    assert!(narrow.lines().all(|l| l.len() <= 120), "{narrow}");
    let perf = report.render(RenderOptions {
        layout: Layout::Perf,
        ..RenderOptions::default()
    });
    insta::assert_snapshot!(perf, @r"
    --------------------------------------------------------------------------------------------------------------------------------------------------------------
     Task                  |   Runtime ms  |  Count   | Avg delay ms    | Max delay ms    | Sum delay ms      | Max delay start           | Max delay end          |
    --------------------------------------------------------------------------------------------------------------------------------------------------------------
     t7:7                  |    151.000 ms |        1 | avg: 250.000 ms | max: 250.000 ms | sum:   250.000 ms | max start:      1.100000 s | max end:      1.350000 s
     t123456:123456        |    349.000 ms |        1 | avg:   1.000 ms | max:   1.000 ms | sum:     1.000 ms | max start:      1.400000 s | max end:      1.401000 s
    --------------------------------------------------------------------------------------------------------------------------------------------------------------
     TOTAL:                |    500.000 ms |        2 |                 |                 | sum:   251.000 ms |
    --------------------------------------------------------------------------------------------------------------------------------------------------------------
     1 tasks still waited for a CPU at the end, the longest for 99.000 ms; not in the table
    ");
    insta::assert_snapshot!(report.to_json().unwrap(), @r#"
    {
      "tasks": [
        {
          "pid": 7,
          "comm": "t7",
          "runtime": 151000000,
          "stat_runtime": null,
          "from_waking": {
            "count": 1,
            "sum": 250000000,
            "max": 250000000,
            "max_start": 1100000000,
            "max_end": 1350000000
          },
          "from_wakeup": {
            "count": 1,
            "sum": 250000000,
            "max": 250000000,
            "max_start": 1100000000,
            "max_end": 1350000000
          },
          "switches_in": 2,
          "voluntary": 0,
          "involuntary": 2,
          "migrations": 0,
          "cpu_changes": 0,
          "open_wait": 99000000
        },
        {
          "pid": 123456,
          "comm": "t123456",
          "runtime": 349000000,
          "stat_runtime": null,
          "from_waking": {
            "count": 1,
            "sum": 1000000,
            "max": 1000000,
            "max_start": 1400000000,
            "max_end": 1401000000
          },
          "from_wakeup": {
            "count": 1,
            "sum": 1000000,
            "max": 1000000,
            "max_start": 1400000000,
            "max_end": 1401000000
          },
          "switches_in": 2,
          "voluntary": 2,
          "involuntary": 0,
          "migrations": 0,
          "cpu_changes": 0,
          "open_wait": null
        }
      ],
      "summary": {
        "first_ts": 1000000000,
        "span": 500000000,
        "switches": 5,
        "voluntary": 2,
        "involuntary": 2,
        "wakings": 1,
        "wakeups": 0,
        "new_tasks": 0,
        "migrations": 0,
        "cpus": [
          {
            "cpu": 0,
            "busy": 500000000,
            "idle": 0,
            "unknown": 0,
            "switches": 5
          }
        ]
      },
      "anomalies": {
        "reordered": 0,
        "largest_step_back": 0,
        "late": 0,
        "missing_switches": 0,
        "inferred_switches": 0,
        "on_two_cpus": 0,
        "runtime_without_switch": 0,
        "doubtful_waits": 0,
        "doubtful_longest": 0,
        "unattributed": 0,
        "waking_while_running": 0,
        "wakeup_while_running": 0,
        "wake_while_waiting": 0,
        "wake_of_dead": 0,
        "aborted_sleeps": 0,
        "missing_wakeups": 0,
        "negative": 0
      }
    }
    "#);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The books must balance whatever comes.
    #[test]
    fn books_balance(story in nonsense(), window in 0usize..20) {
        let report = report(&story.0, LatencyOptions { window, ..LatencyOptions::default() });
        let span = report.summary.span;
        // Late events may overlap what was charged already; sorted ones may not.
        if report.anomalies.order.late == 0 {
            for cpu in &report.summary.cpus {
                prop_assert_eq!(cpu.busy + cpu.idle + cpu.unknown, span);
            }
            let run: u64 = report.tasks.iter().map(|t| t.runtime).sum();
            let busy: u64 = report.summary.cpus.iter().map(|c| c.busy).sum();
            prop_assert_eq!(run, busy);
            prop_assert_eq!(report.anomalies.negative, 0);
            for task in &report.tasks {
                prop_assert!(task.from_waking.sum >= task.from_wakeup.sum);
                prop_assert_eq!(task.from_waking.count, task.from_wakeup.count);
            }
        }
        for task in &report.tasks {
            prop_assert!(task.from_waking.max <= span && task.from_wakeup.max <= span);
        }
        let _ = report.render(RenderOptions::default());
    }

    /// Case 50 as a kind: whatever arrives behind later events, within the window, is put where its time belongs.
    #[test]
    fn case_50_delays_do_not_depend_on_the_order_of_arrival(
        cycles in proptest::collection::vec((1u64..20, 1u64..20, 1u64..20), 1..20),
        late in proptest::collection::vec(0usize..12, 60),
    ) {
        // Asleep, waiting, running, again and again, on CPU 1; woken from CPU 0.
        let (mut ts, mut story) = (1, Story::new().switch(0, 1, 9, S, 0));
        let mut waits = Vec::new();
        for (asleep, wait, run) in cycles {
            ts += asleep;
            story = story.waking(ts, 0, 0, 9).switch(ts + wait, 1, 0, R, 9);
            waits.push(wait * MS);
            ts += wait + run;
            story = story.switch(ts, 1, 9, S, 0);
        }
        let sorted = story.0;
        let mut arrival: Vec<(usize, usize)> = (0..sorted.len()).map(|i| (i + late[i], i)).collect();
        arrival.sort_by_key(|&(place, _)| place);
        let events: Vec<Event> = arrival.iter().map(|&(_, i)| sorted[i].clone()).collect();
        let mut newest = 0;
        let mut reordered = 0;
        for event in &events {
            reordered += u64::from(event.ts < newest);
            newest = newest.max(event.ts);
        }
        let shuffled = report(&events, LatencyOptions::default());
        let d = &of(&shuffled, 9).from_waking;
        let (sum, max) = (waits.iter().sum::<u64>(), waits.iter().copied().max());
        prop_assert_eq!((d.count, d.sum, Some(d.max)), (waits.len() as u64, sum, max));
        prop_assert_eq!(shuffled.anomalies.order.reordered, reordered);
        prop_assert_eq!(shuffled.anomalies.order.late, 0);
        let expected = report(&sorted, LatencyOptions::default());
        prop_assert_eq!(&shuffled.tasks, &expected.tasks);
        prop_assert_eq!(&shuffled.summary, &expected.summary);
    }

    /// Case 55 as a kind: a call while the task runs ends no sleep that has not begun. Only a wakeup behind the switch-out does.
    #[test]
    fn case_55_a_call_before_the_sleep(
        (run, before, asleep, queued) in (2u64..30, 1u64..30, 1u64..30, 1u64..30),
        answered in any::<bool>(),
        state in prop_oneof![Just(S), Just(PrevState::UNINTERRUPTIBLE)],
        idle_elsewhere in any::<bool>(),
    ) {
        let called = 10 + before % run;
        let (out, back) = (10 + run, 10 + run + asleep + queued);
        let mut story = Story::new().switch(10, 1, 0, R, 7).waking(called, 0, 5, 7);
        story = story.switch(out, 1, 7, state, 0);
        if idle_elsewhere {
            // Another CPU's idle task has the same number and is another task.
            story = story.switch(out, 2, 8, S, 0);
        }
        if answered {
            story = story.wakeup(out + asleep, 1, 0, 7);
        }
        let report = story.switch(back, 1, 0, R, 7).report();
        let delay = if answered { queued } else { asleep + queued };
        prop_assert_eq!(delays(&report, 7), [(1, delay, delay); 2]);
        prop_assert_eq!(report.anomalies.aborted_sleeps, u64::from(!answered));
        prop_assert_eq!(report.anomalies.missing_wakeups, 0);
        prop_assert!(report.tasks.iter().all(|t| t.pid != 0));
        let of_cpu = |cpu| report.summary.cpus.iter().find(|c| c.cpu == cpu).map(|c| c.idle / MS);
        prop_assert_eq!(of_cpu(1), Some(back - out));
        if idle_elsewhere {
            prop_assert_eq!(of_cpu(2), Some(back - out));
        }
    }
}
