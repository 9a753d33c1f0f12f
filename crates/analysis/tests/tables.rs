//! The tables of moves, antagonists, preemptions and queues: small histories with a known answer, and sums that must
//! agree with the plain sums of the delays whatever comes.

mod common;

use common::{MS, R, S, Story, nonsense};
use proptest::prelude::*;
use schedlab_analysis::GroupBy;
use schedlab_analysis::TaskFilter;
use schedlab_analysis::anomalies::Anomalies;
use schedlab_analysis::antagonists::{Antagonists, AntagonistsOptions};
use schedlab_analysis::history::{History, HistoryOptions, Observer, Ordered};
use schedlab_analysis::latency::{LatencyAccumulator, LatencyOptions, WakeStart};
use schedlab_analysis::migrations::{Migrations, MigrationsOptions};
use schedlab_analysis::preempted::{Preempted, PreemptedOptions};
use schedlab_analysis::runq::{Runq, RunqOptions};
use schedlab_trace::PrevState;

fn follow<O: Observer>(story: &Story, observer: O) -> (History, O, u64) {
    let mut ordered = Ordered::new(HistoryOptions::default(), observer);
    for event in &story.0 {
        ordered.push(event);
    }
    let (history, observer, order) = ordered.finish();
    (history, observer, order.late)
}

#[test]
fn antagonists_by_share() {
    // 7 is woken on CPU 0 at 10, where 8 runs until 14 and 9 until 20; then it moves to CPU 1, where 6 runs until 25.
    let story = Story::new()
        .switch(0, 0, 7, S, 8)
        .switch(0, 1, 0, R, 6)
        .wakeup(10, 0, 8, 7)
        .switch(14, 0, 8, S, 9)
        .migrate(20, 0, 9, 7, 1)
        .switch(25, 1, 6, S, 7)
        .switch(30, 1, 7, R, 6)
        .switch(31, 1, 6, S, 0)
        .switch(33, 1, 0, R, 7)
        .switch(40, 0, 9, S, 0);
    let (history, found, _) = follow(
        &story,
        Antagonists::new(AntagonistsOptions {
            filter: TaskFilter::new(vec!["t7".to_owned()]),
            ..AntagonistsOptions::default()
        }),
    );
    insta::assert_snapshot!(found.report(&history).text(), @r"
    Task  Waits   Delay  Antagonist   Time  Share
                     ms                 ms      %
    ----  -----  ------  ----------  -----  -----
    t7:7      2  18.000  t6:6        6.000   33.3
    t7:7      2  18.000  t9:9        6.000   33.3
    t7:7      2  18.000  t8:8        4.000   22.2
    t7:7      2  18.000  <idle>      2.000   11.1
    ");
    let only = |each, group| {
        let options = AntagonistsOptions {
            filter: TaskFilter::new(vec!["7".to_owned()]),
            each,
            group,
            ..AntagonistsOptions::default()
        };
        let (history, found, _) = follow(&story, Antagonists::new(options));
        found.report(&history).csv().unwrap()
    };
    insta::assert_snapshot!(only(1, GroupBy::Task), @r"
    task,waits,delay_ns,antagonist,time_ns,share
    t7:7,2,18000000,t6:6,6000000,0.333333
    t7:7,2,18000000,(3 others),12000000,0.666666
    ");
}

#[test]
fn moves_by_kind() {
    let story = Story::new()
        .fork(0, 0, 5, 7)
        .migrate(0, 0, 5, 7, 1)
        .wakeup_new(1, 0, 5, 7)
        .migrate(2, 0, 5, 7, 1)
        .switch(3, 1, 0, R, 7)
        .switch(4, 1, 7, S, 0)
        .waking(5, 0, 5, 7)
        .migrate(5, 1, 0, 7, 0)
        .wakeup(6, 0, 5, 7)
        .switch(8, 0, 5, S, 7)
        // Another CPU without an event.
        .switch(9, 0, 7, R, 0)
        .switch(10, 1, 0, R, 7);
    let (history, found, _) = follow(&story, Migrations::new(MigrationsOptions::default()));
    insta::assert_snapshot!(found.report(&history).text(), @r"
    Task  Migrations  Placed  Pulled  Other  CPU changes  CPUs
    ----  ----------  ------  ------  -----  -----------  ----
    t7:7           3       1       1      1            2     2

    From CPU  To CPU  Migrations  Placed  Pulled  Other
    --------  ------  ----------  ------  ------  -----
           0       1           2       0       1      1
           1       0           1       1       0      0
    ");
}

#[test]
fn runs_before_preemption() {
    let story = Story::new()
        // The begin of 6's run is not known.
        .switch(0, 0, 6, R, 7)
        .switch(1, 0, 7, PrevState::PREEMPTED, 8)
        .switch(9, 0, 8, R, 7)
        .switch(12, 0, 7, S, 8)
        .other(13, 0, 8, "sys_enter_sched_yield")
        .switch(13, 0, 8, R, 6)
        .switch(17, 0, 6, R, 8)
        .switch(18, 0, 8, PrevState::DEAD, 0);
    let (history, found, _) = follow(&story, Preempted::new(PreemptedOptions::default()));
    insta::assert_snapshot!(found.report(&history).text(), @r"
    Task  Runs  Preempted  Share  Yielded  Avg run    p50    p90    p99    Max
                               %                ms     ms     ms     ms     ms
    ----  ----  ---------  -----  -------  -------  -----  -----  -----  -----
    t6:6     1          1  100.0        0    4.000  4.000  4.000  4.000  4.000
    t7:7     2          1   50.0        0    1.000  1.000  1.000  1.000  1.000
    t8:8     3          1   33.3        1    8.000  8.000  8.000  8.000  8.000

        From        To  Count  Share
          us        us             %
    --------  --------  -----  -----  ----------------------------------------
     524.288  1048.576      1   33.3  ########################################
    1048.576  2097.152      0    0.0
    2097.152  4194.304      1   33.3  ########################################
    4194.304  8388.608      1   33.3  ########################################
    ");
}

/// CPU 0 runs 5 while 7, seen on both CPUs, and 9, seen on CPU 0 only, wait there; CPU 1 is idle from 10 to 40.
fn unbalanced() -> Story {
    Story::new()
        .switch(0, 1, 0, R, 7)
        .switch(0, 0, 0, R, 9)
        .switch(5, 0, 9, S, 5)
        .switch(10, 1, 7, S, 0)
        .wakeup(12, 0, 5, 9)
        .wakeup(20, 0, 5, 7)
        .switch(30, 0, 5, S, 7)
        .switch(40, 1, 0, R, 8)
        .switch(45, 0, 7, S, 9)
        .switch(50, 0, 9, S, 0)
}

#[test]
fn queues_and_idle_cpus() {
    let (history, runq, _) = follow(&unbalanced(), Runq::new(RunqOptions::default()));
    let report = runq.report(&history).unwrap();
    insta::assert_snapshot!(report.text(), @r"
    CPU    Busy    Idle  Avg len  Max len    Max at  Idle+wait  Longest  Longest at  Idle+wait  Longest
             ms      ms                           s    ms seen       ms           s     ms any       ms
    ---  ------  ------  -------  -------  --------  ---------  -------  ----------  ---------  -------
      0  50.000   0.000    0.860        2  0.020000      0.000    0.000           -      0.000    0.000
      1  20.000  30.000    0.000        0         -     10.000   10.000    0.020000     28.000   28.000

    Length    Time  Share
                ms      %
    ------  ------  -----
         0  67.000   67.0
         1  23.000   23.0
         2  10.000   10.0
    ");
    let (history, runq, _) = follow(
        &unbalanced(),
        Runq::new(RunqOptions {
            interval: Some(10 * MS),
            ..RunqOptions::default()
        }),
    );
    insta::assert_snapshot!(runq.report(&history).unwrap().csv().unwrap(), @r"
    at_ns,cpu,avg_len
    10000000,0,0.800000
    20000000,0,2.000000
    30000000,0,1.000000
    40000000,0,0.500000
    ");
    let (history, runq, _) = follow(
        &unbalanced(),
        Runq::new(RunqOptions {
            interval: Some(1),
            ..RunqOptions::default()
        }),
    );
    let error = runq.report(&history).unwrap_err().to_string();
    assert!(error.contains("an interval of 1 ns"), "{error}");
}

#[test]
fn a_task_on_an_idle_cpus_queue_is_being_woken_not_waiting() {
    let story = Story::new()
        .switch(0, 1, 0, R, 7)
        .switch(5, 1, 7, S, 0)
        .switch(5, 0, 9, S, 0)
        .wakeup(10, 0, 0, 7)
        .switch(11, 0, 0, R, 7)
        .switch(12, 0, 7, S, 0);
    let (history, runq, _) = follow(&story, Runq::new(RunqOptions::default()));
    let json = runq.report(&history).unwrap().json();
    for cpu in json["cpus"].as_array().unwrap() {
        assert_eq!(cpu["idle_while_waiting_any_ns"], 0, "{cpu}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Antagonists of a task add up to its delays, and these are the latency table's.
    #[test]
    fn antagonists_add_up(story in nonsense(), wakeup in any::<bool>(), doubtful in any::<bool>()) {
        let start = if wakeup { WakeStart::Wakeup } else { WakeStart::Waking };
        let options = AntagonistsOptions { start, doubtful, ..AntagonistsOptions::default() };
        let (history, found, _) = follow(&story, Antagonists::new(options));
        let mut latency = LatencyAccumulator::new(LatencyOptions { doubtful, ..LatencyOptions::default() });
        for event in &story.0 {
            latency.push(event);
        }
        let mut delays: Vec<(i32, u64, u64)> = latency.finish().tasks.iter()
            .map(|t| (t.pid, t.delays(start).count, t.delays(start).sum))
            .filter(|d| d.1 > 0)
            .collect();
        let mut ours = Vec::new();
        for (id, task) in history.tasks() {
            if let Some((waits, sum, by)) = found.of(id).filter(|v| v.0 > 0) {
                prop_assert_eq!(by.values().sum::<u64>(), sum);
                ours.push((task.pid, waits, sum));
            }
        }
        ours.sort_unstable();
        delays.sort_unstable();
        prop_assert_eq!(ours, delays);
        let _ = found.report(&history).text();
    }

    /// Lengths of queues over time add up to the waits of the tasks.
    #[test]
    fn queues_add_up(story in nonsense()) {
        let (history, (runq, (log, anomalies)), _) =
            follow(&story, (Runq::new(RunqOptions::default()), (Waits::default(), Anomalies::default())));
        // A switch inferred late is told late, when the queue has been counted on.
        if anomalies.inferred_switches + anomalies.missing_switches + anomalies.on_two_cpus == 0 {
            let open: u64 = history.tasks()
                .filter(|(_, t)| t.state.wait().is_some())
                .map(|(_, t)| history.last_ts() - t.since)
                .sum();
            let total = u128::from(log.0 + open);
            let report = runq.report(&history).unwrap();
            let mut sum = 0;
            for row in report.json()["lengths"].as_array().unwrap() {
                sum += u128::from(row["length"].as_u64().unwrap()) * u128::from(row["time_ns"].as_u64().unwrap());
            }
            prop_assert_eq!(sum, total);
        } else {
            let _ = runq.report(&history).unwrap().text();
        }
    }

    /// No table is upset by events that come too late.
    #[test]
    fn unsorted_events_do_no_harm(story in nonsense(), window in 0usize..4) {
        let observer = (
            (Runq::new(RunqOptions { interval: Some(MS), ..RunqOptions::default() }), Preempted::default()),
            (Migrations::default(), Antagonists::default()),
        );
        let mut ordered = Ordered::new(HistoryOptions { window, ..HistoryOptions::default() }, observer);
        for event in &story.0 {
            ordered.push(event);
        }
        let (history, ((runq, preempted), (migrations, antagonists)), _) = ordered.finish();
        let _ = runq.report(&history).unwrap().text();
        let _ = preempted.report(&history).text();
        let _ = migrations.report(&history).text();
        let _ = antagonists.report(&history).text();
    }
}

/// Sum of all closed waits, ns.
#[derive(Default)]
struct Waits(u64);

impl Observer for Waits {
    fn change(&mut self, _: &History, change: &schedlab_analysis::history::Change) {
        if change.from.wait().is_some() {
            self.0 += change.span();
        }
    }
}
