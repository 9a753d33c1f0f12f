//! The state machine below all analyses: its changes tile each task's life, its spans each CPU's time.

mod common;

use std::collections::BTreeMap;

use common::{MS, R, S, Story, nonsense};
use proptest::prelude::*;
use schedlab_analysis::history::{
    Change, CpuSpan, Doing, History, HistoryOptions, Mark, MarkKind, Observer, Ordered, TaskId,
    TaskState, WaitCause, WakeupPolicy,
};
use schedlab_trace::{Pid, PrevState};

/// Keeps all that it is told.
#[derive(Default, Debug)]
struct Log {
    changes: Vec<Change>,
    spans: Vec<CpuSpan>,
    marks: Vec<Mark>,
    events: usize,
}

impl Observer for Log {
    fn change(&mut self, history: &History, change: &Change) {
        check_queues(history);
        self.changes.push(*change);
    }

    fn cpu_span(&mut self, _: &History, span: &CpuSpan) {
        self.spans.push(*span);
    }

    fn mark(&mut self, _: &History, mark: &Mark) {
        self.marks.push(*mark);
    }

    fn event(
        &mut self,
        _: &History,
        _: u64,
        _: &schedlab_analysis::history::Step,
        _: Option<TaskId>,
        _: Option<TaskId>,
    ) {
        self.events += 1;
    }
}

/// Every waiting task is in the queue that its wait names, once, and nobody else is in any.
fn check_queues(history: &History) {
    let waiting: Vec<(u32, TaskId)> = history
        .tasks()
        .filter_map(|(id, task)| Some((task.state.wait()?.cpu, id)))
        .collect();
    let mut queued: Vec<(u32, TaskId)> = (0..5)
        .flat_map(|cpu| history.queue(cpu).iter().map(move |&id| (cpu, id)))
        .collect();
    queued.sort_by_key(|&(_, id)| id);
    assert_eq!(waiting, queued);
}

fn follow(story: &Story, options: HistoryOptions) -> (History, Log, u64) {
    let mut ordered = Ordered::new(options, Log::default());
    for event in &story.0 {
        ordered.push(event);
    }
    let (history, log, order) = ordered.finish();
    (history, log, order.late)
}

fn log(story: &Story) -> (History, Log) {
    let (history, log, _) = follow(story, HistoryOptions::default());
    (history, log)
}

/// Name of the state, with the cause of a wait and the CPU.
fn brief(state: &TaskState) -> String {
    match state {
        TaskState::Waking(w) => format!("waking {:?} {}", w.cause, w.cpu),
        TaskState::Runnable(w) => format!("runnable {:?} {}", w.cause, w.cpu),
        TaskState::Running(run) => format!("running {}", run.cpu),
        TaskState::Sleeping(_) => "sleeping".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// `since-at state` of every closed state of a task, then the open one.
fn life(story: &Story, pid: Pid) -> Vec<String> {
    let (history, log) = log(story);
    let id = history.find(pid).unwrap();
    let mut life: Vec<String> = log
        .changes
        .iter()
        .filter(|c| c.task == id)
        .map(|c| format!("{}-{} {}", c.since / MS, c.at / MS, brief(&c.from)))
        .collect();
    let task = history.task(id);
    life.push(format!("{}- {}", task.since / MS, brief(&task.state)));
    life
}

#[test]
fn a_life() {
    let story = Story::new()
        .fork(0, 0, 5, 7)
        .wakeup_new(1, 0, 5, 7)
        .migrate(2, 0, 5, 7, 1)
        .switch(3, 1, 0, R, 7)
        .switch(5, 1, 7, S, 0)
        .waking(8, 0, 5, 7)
        .wakeup(9, 1, 0, 7)
        .switch(10, 1, 0, R, 7)
        .switch(12, 1, 7, PrevState::PREEMPTED, 8)
        .switch(13, 1, 8, S, 7)
        .other(14, 1, 7, "sys_enter_sched_yield")
        .switch(15, 1, 7, R, 9)
        .switch(16, 1, 9, S, 7)
        .switch(17, 1, 7, PrevState::DEAD, 0);
    assert_eq!(
        life(&story, 7),
        [
            "0-1 new",
            "1-2 runnable Fork 0",
            "2-3 runnable Fork 1",
            "3-5 running 1",
            "5-8 sleeping",
            "8-9 waking Wakeup 0",
            "9-10 runnable Wakeup 1",
            "10-12 running 1",
            "12-13 runnable Preempted 1",
            "13-15 running 1",
            "15-16 runnable Yielded 1",
            "16-17 running 1",
            "17- dead",
        ]
    );
    let (history, log) = log(&story);
    let id = history.find(7).unwrap();
    assert_eq!(history.task(id).parent, Some(5));
    let woken = log.changes.iter().find_map(|c| c.to.wait()?.waker).unwrap();
    assert_eq!((woken.pid, woken.cpu, woken.interrupt), (5, 0, false));
    assert_eq!(log.events, story.0.len());
}

#[test]
fn an_aborted_sleep_is_a_wait() {
    let story = Story::new()
        .switch(0, 0, 0, R, 7)
        .waking(1, 1, 5, 7)
        .switch(2, 0, 7, S, 0)
        .switch(4, 0, 0, R, 7);
    assert_eq!(
        life(&story, 7),
        [
            "0-0 unknown",
            "0-2 running 0",
            "2-2 sleeping",
            "2-4 runnable AbortedSleep 0",
            "4- running 0"
        ]
    );
    // With a wakeup it slept.
    let story = Story::new()
        .switch(0, 0, 0, R, 7)
        .waking(1, 1, 5, 7)
        .switch(2, 0, 7, S, 0)
        .wakeup(3, 0, 0, 7)
        .switch(4, 0, 0, R, 7);
    assert_eq!(
        life(&story, 7)[2..4],
        ["2-3 sleeping", "3-4 runnable Wakeup 0"]
    );
}

#[test]
fn a_missing_switch_is_placed_by_the_time_charged() {
    let story = Story::new()
        .switch(5, 0, 7, S, 0)
        .waking(10, 0, 0, 7)
        .stat_runtime(15, 0, 7, 4)
        .switch(16, 0, 7, S, 0);
    assert_eq!(
        life(&story, 7)[2..],
        [
            "5-10 sleeping",
            "10-11 waking Wakeup 0",
            "11-16 running 0",
            "16- sleeping"
        ]
    );
    let (_, log) = log(&story);
    let spans: Vec<_> = log
        .spans
        .iter()
        .map(|s| (s.doing == Doing::Idle, s.from / MS, s.to / MS))
        .collect();
    assert_eq!(spans, [(true, 5, 10), (true, 10, 11), (false, 11, 16)]);
    // Without the charge the time in between is unknown.
    let story = Story::new().switch(5, 0, 7, S, 0).switch(16, 0, 7, S, 0);
    assert_eq!(
        life(&story, 7)[2..],
        [
            "5-5 sleeping",
            "5-16 unknown",
            "16-16 running 0",
            "16- sleeping"
        ]
    );
}

#[test]
fn time_charged_to_a_waiting_task_makes_its_wait_doubtful() {
    let story = Story::new()
        .switch(0, 0, 7, R, 8)
        .charge(5, 1, 9, 7, 3)
        .switch(9, 0, 8, S, 7);
    let (_, log) = log(&story);
    assert_eq!(log.marks.len(), 1);
    assert_eq!(log.marks[0].kind, MarkKind::RuntimeWithoutSwitch);
    let wait = log
        .changes
        .iter()
        .rev()
        .find_map(|c| c.from.wait().copied());
    assert!(wait.unwrap().doubtful);
}

#[test]
fn a_wait_after_a_contested_run_is_doubtful() {
    // 7 runs on CPU 0, is switched in on CPU 1, and leaves CPU 0 after that.
    let story = Story::new()
        .switch(0, 0, 0, R, 7)
        .switch(3, 1, 0, R, 7)
        .switch(4, 0, 7, R, 8)
        .switch(9, 1, 9, S, 7);
    let (_, log) = log(&story);
    let doubtful: Vec<_> = log
        .changes
        .iter()
        .filter_map(|c| c.from.wait())
        .map(|w| (w.cause, w.doubtful))
        .collect();
    assert_eq!(doubtful, [(WaitCause::Preempted, true)]);
    assert!(log.marks.iter().any(|m| m.kind == MarkKind::OnTwoCpus));
}

#[test]
fn the_last_wakeup_if_so_chosen() {
    let story = Story::new()
        .switch(0, 0, 7, S, 0)
        .waking(10, 0, 0, 7)
        .waking(12, 0, 0, 7)
        .wakeup(13, 0, 0, 7)
        .wakeup(14, 0, 0, 7)
        .switch(15, 0, 0, R, 7);
    let starts = |wakeup| {
        let options = HistoryOptions {
            wakeup,
            ..HistoryOptions::default()
        };
        let (_, log, _) = follow(&story, options);
        let wait = *log.changes.last().unwrap().from.wait().unwrap();
        (wait.waking.unwrap() / MS, wait.wakeup.unwrap() / MS)
    };
    assert_eq!(starts(WakeupPolicy::First), (10, 13));
    assert_eq!(starts(WakeupPolicy::Last), (12, 14));
}

/// Sums of what a task did, by changes and by CPU spans.
fn check_tiles(history: &History, log: &Log) {
    let mut tasks: BTreeMap<TaskId, (u64, String)> = BTreeMap::new();
    let mut ran: BTreeMap<TaskId, u64> = BTreeMap::new();
    for c in &log.changes {
        let first = history.task(c.task).first;
        let (at, state) = tasks
            .entry(c.task)
            .or_insert_with(|| (first, brief(&c.from)));
        assert_eq!((c.since, brief(&c.from)), (*at, state.clone()), "{c:?}");
        assert!(c.at >= c.since);
        (*at, *state) = (c.at, brief(&c.to));
        if c.from.run().is_some() {
            *ran.entry(c.task).or_default() += c.span();
        }
    }
    for (id, task) in history.tasks() {
        let at = tasks.get(&id).map_or(task.first, |t| t.0);
        assert_eq!(task.since, at, "{id:?}");
        if task.state.run().is_some() {
            *ran.entry(id).or_default() += history.last_ts() - task.since;
        }
    }
    let mut cpus: BTreeMap<u32, u64> = BTreeMap::new();
    for span in &log.spans {
        assert!(span.from < span.to);
        if let Some(before) = cpus.insert(span.cpu, span.to) {
            assert_eq!(span.from, before, "{span:?}");
        }
        if let Doing::Task(id) = span.doing {
            let left = ran.entry(id).or_default();
            *left = left.checked_sub(span.to - span.from).expect("ran as long");
        }
    }
    for (cpu, to) in cpus {
        assert_eq!(to, history.last_ts(), "CPU {cpu} to the end");
    }
    ran.retain(|_, left| *left > 0);
    assert!(ran.is_empty(), "{ran:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changes_and_spans_tile(story in nonsense(), last in any::<bool>()) {
        let wakeup = if last { WakeupPolicy::Last } else { WakeupPolicy::First };
        let (history, log, late) = follow(&story, HistoryOptions { wakeup, ..HistoryOptions::default() });
        prop_assert_eq!(late, 0);
        prop_assert!(log.marks.iter().all(|m| m.kind != MarkKind::Negative));
        check_tiles(&history, &log);
    }

    /// Unsorted events are taken as they are: no panic, no span that ends before it begins.
    #[test]
    fn nothing_upsets_it(story in nonsense(), window in 0usize..8) {
        let (_, log, _) = follow(&story, HistoryOptions { window, ..HistoryOptions::default() });
        for c in &log.changes {
            prop_assert!(c.at >= c.since);
        }
        prop_assert_eq!(log.events, story.0.len());
    }
}
