//! Follows waits through a trace and says at each instant why they go on.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_fair::Profile;
use schedlab_trace::{Event, Pid};
use serde::Serialize;

use super::answer::{Cause, Confidence, Explanation, Segment, Who};
use super::fairstate::{FairState, Verdict};
use super::infer::{Inference, Pick};
use super::waits::{Open, Survey, Turn, Wait, World};
use crate::check::record::Record;
use crate::history::{Doing, HistoryOptions, TaskId, TaskState, Waker};
use crate::order::SortWindow;

/// What the explanations of a trace rest on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// State records in the trace.
    Recorded,
    /// The rules, driven by the trace.
    Inferred,
}

/// How to explain.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rules of the recorded kernel, for inference.
    pub profile: Profile,
    /// Its tick rate.
    pub hz: u32,
    /// Number of CPUs.
    pub cpus: u32,
    /// On what the explanations rest.
    pub evidence: Evidence,
    /// The trace has no `sched_wakeup`: a task counts as queued from `sched_waking` on, on the CPU that this names.
    pub waking_queues: bool,
}

impl Options {
    /// Takes state records if the trace has them.
    #[must_use]
    pub fn new(profile: Profile, hz: u32, survey: &Survey) -> Self {
        Self {
            profile,
            hz,
            cpus: survey.cpus,
            waking_queues: survey.waking && !survey.wakeup,
            evidence: if survey.state {
                Evidence::Recorded
            } else {
                Evidence::Inferred
            },
        }
    }
}

/// Which waits to explain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Targets {
    /// All.
    All,
    /// These, by pid and begin.
    Some(BTreeSet<(Pid, u64)>),
}

impl Targets {
    /// The waits that a [`WaitFinder`](super::WaitFinder) found.
    #[must_use]
    pub fn these(waits: &[Wait]) -> Self {
        Self::Some(waits.iter().map(|w| (w.pid, w.start)).collect())
    }

    fn has(&self, pid: Pid, start: u64) -> bool {
        match self {
            Self::All => true,
            Self::Some(set) => set.contains(&(pid, start)),
        }
    }
}

/// How often the replayed rules picked the task that the kernel picked, where they had a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Agreement {
    /// Switches with a choice.
    pub picks: u64,
    /// Those picked alike.
    pub alike: u64,
}

/// A wait that is being followed.
#[derive(Debug)]
struct Followed {
    open: Open,
    /// Explained up to here.
    cursor: u64,
    segments: Vec<Segment>,
    waker: Option<Who>,
    /// First segment behind the last switch on its CPU.
    since_switch: usize,
}

/// Takes a trace's events and explains waits. Memory: the sorting window, the tasks, and the segments of waits asked for.
#[derive(Debug)]
pub struct Explainer {
    window: SortWindow<Event>,
    world: World,
    fair: FairState,
    inference: Option<Inference>,
    targets: Targets,
    waking_queues: bool,
    followed: BTreeMap<TaskId, Followed>,
    done: Vec<Explanation>,
    agreement: Agreement,
    /// The last picks of each CPU.
    recent: BTreeMap<u32, Recent>,
}

/// Whether the replayed rules picked like the kernel: the last 32 picks with a choice of a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    bits: u32,
    number: u32,
}

impl Recent {
    fn add(&mut self, alike: bool) {
        self.bits = self.bits << 1 | u32::from(alike);
        self.number = (self.number + 1).min(u32::BITS);
    }

    /// Three of four are right. Below that the assumptions do not hold, and what agrees may agree by chance.
    fn trusted(self) -> bool {
        self.bits.count_ones() * 4 >= self.number * 3
    }
}

impl Explainer {
    /// Explains `targets` of a trace to come.
    #[must_use]
    pub fn new(options: &Options, targets: Targets) -> Self {
        let inference = (options.evidence == Evidence::Inferred).then(|| Inference::new(options));
        Self {
            window: SortWindow::new(HistoryOptions::default().window),
            world: World::new(),
            fair: FairState::default(),
            inference,
            targets,
            waking_queues: options.waking_queues,
            followed: BTreeMap::new(),
            done: Vec::new(),
            agreement: Agreement::default(),
            recent: BTreeMap::new(),
        }
    }

    /// Takes an event.
    pub fn push(&mut self, event: &Event) {
        if let Some((_, event)) = self.window.push(event.ts, event.clone()) {
            self.step(&event);
        }
    }

    /// The explanations, in order of their waits' ends, and how well the replayed rules agree with the kernel.
    #[must_use]
    pub fn finish(mut self) -> (Vec<Explanation>, Agreement) {
        let rest: Vec<Event> = self.window.drain().map(|(_, e)| e).collect();
        for e in &rest {
            self.step(e);
        }
        let end = self.world.history.last_ts();
        self.explain_up_to(end);
        let open: Vec<TaskId> = self.followed.keys().copied().collect();
        for id in open {
            self.close(id, end, true);
        }
        (self.done, self.agreement)
    }

    fn step(&mut self, e: &Event) {
        self.explain_up_to(e.ts);
        let mut differs = false;
        if let Some(inference) = &mut self.inference {
            let (records, pick, asked) = inference.step(e);
            for r in &records {
                self.fair.apply(r);
            }
            if let Some((cpu, asked)) = asked {
                self.world.facts.infer_pending(cpu, e.ts, asked);
            }
            self.agreement.picks += u64::from(pick != Pick::None);
            self.agreement.alike += u64::from(pick == Pick::Agrees);
            let recent = self.recent.entry(e.cpu).or_default();
            if pick != Pick::None {
                recent.add(pick == Pick::Agrees);
            }
            differs = pick == Pick::Differs || !recent.trusted();
        } else if let Some(r) = Record::read(0, e) {
            self.fair.apply(&r);
        }
        if matches!(e.kind, schedlab_trace::EventKind::SchedSwitch { .. }) {
            self.judge(e.cpu, differs);
        }
        for turn in self.world.step(e) {
            self.turn(turn);
        }
    }

    /// At a switch: what was said of waits on that CPU since the last one is a guess if the rules would have switched to
    /// another task, or have been wrong too often.
    fn judge(&mut self, cpu: u32, differs: bool) {
        for f in self.followed.values_mut() {
            // Beside an idle CPU the doubt is whether the task may use it.
            let here = |s: &&mut Segment| {
                let inferred =
                    s.confidence == Confidence::Likely && s.cause != Cause::IdleElsewhere;
                s.cpu == Some(cpu) && inferred
            };
            if differs {
                for s in f.segments[f.since_switch..].iter_mut().filter(here) {
                    s.confidence = Confidence::Guess;
                }
            }
            f.since_switch = f.segments.len();
        }
    }

    fn turn(&mut self, turn: Turn) {
        match turn {
            Turn::Begins(id, open) => {
                let pid = self.world.history.task(id).pid;
                self.followed.remove(&id);
                if self.targets.has(pid, open.start) {
                    self.followed.insert(
                        id,
                        Followed {
                            open,
                            cursor: open.start,
                            segments: Vec::new(),
                            waker: None,
                            since_switch: 0,
                        },
                    );
                }
            }
            Turn::Ends(id, _, end) => self.close(id, end, false),
            Turn::Drops(id) => {
                self.followed.remove(&id);
            }
        }
    }

    /// Ends a wait. Where its end comes late (a switch that only a charge told), what was explained beyond it is cut.
    fn close(&mut self, id: TaskId, end: u64, open: bool) {
        let Some(mut f) = self.followed.remove(&id) else {
            return;
        };
        if f.cursor < end {
            self.extend(id, &mut f, end);
        }
        while let Some(last) = f.segments.last_mut() {
            if last.start >= end && last.start > f.open.start {
                f.segments.pop();
            } else {
                last.end = last.end.min(end);
                break;
            }
        }
        let mut explanation = Explanation {
            task: self.who_is(id),
            kind: f.open.kind,
            start: f.open.start,
            end: end.max(f.open.start),
            open,
            waker: f.waker,
            segments: f.segments,
            parts: Vec::new(),
            advice: Vec::new(),
        };
        explanation.segments.retain(|s| s.start < s.end);
        explanation.sum_up();
        explanation.advice = self.advice(&explanation);
        self.done.push(explanation);
    }

    fn explain_up_to(&mut self, ts: u64) {
        if self.followed.values().all(|f| f.cursor >= ts) {
            return;
        }
        let mut all = std::mem::take(&mut self.followed);
        for (&id, f) in all.iter_mut().filter(|(_, f)| f.cursor < ts) {
            self.extend(id, f, ts);
        }
        self.followed = all;
    }

    /// Explains a wait from its cursor to a time, during which nothing was recorded.
    fn extend(&self, id: TaskId, f: &mut Followed, to: u64) {
        if f.waker.is_none() {
            f.waker = self.waker(id);
        }
        let mut from = f.cursor;
        while from < to {
            let mut s = self.segment(id, from);
            let end = self.same_until(id, &s, from, to);
            (s.start, s.end) = (from, end);
            from = end;
            let same_switch = f.since_switch < f.segments.len();
            match f.segments.last_mut() {
                Some(last) if same_switch && alike(last, &s) && last.end == s.start => {
                    last.end = s.end;
                }
                _ => f.segments.push(s),
            }
        }
        f.cursor = to;
    }

    /// Up to when the cause stays the same; only what the running task's own running changes can change it.
    fn same_until(&self, id: TaskId, first: &Segment, from: u64, to: u64) -> u64 {
        let rules = |c: Cause| c.is_fair_rule() || c == Cause::NeedResched;
        if !rules(first.cause) && !first.on_its_cpu.is_some_and(rules) {
            return to;
        }
        // A cause that has gone does not come back before the next event: virtual time goes one way.
        let (mut same, mut other) = (from, to);
        if alike(first, &self.segment(id, to - 1)) {
            return to;
        }
        while other - same > 1 {
            let middle = same + (other - same) / 2;
            if alike(first, &self.segment(id, middle)) {
                same = middle;
            } else {
                other = middle;
            }
        }
        other
    }

    /// Why a task waits at an instant.
    fn segment(&self, id: TaskId, ts: u64) -> Segment {
        let mut s = Segment {
            start: ts,
            end: ts,
            cause: Cause::Unknown,
            cpu: None,
            behind: None,
            turn: None,
            idle: None,
            on_its_cpu: None,
            confidence: Confidence::Known,
        };
        let task = self.world.history.task(id);
        match task.state {
            TaskState::Sleeping(sleep) => {
                let lock = self.world.facts.task(task.pid).and_then(|f| f.lock);
                s.cause = match lock {
                    Some(_) if sleep.waking.is_none() => Cause::Lock,
                    _ => Cause::Blocked,
                };
                s.behind = lock.flatten().map(|pid| self.who(pid));
            }
            TaskState::Waking(_) if !self.waking_queues => {
                let ipi = self.world.facts.task(task.pid).and_then(|f| f.ipi);
                s.cause = if ipi.is_some_and(|at| at >= task.since) {
                    Cause::WakingIpi
                } else {
                    Cause::Waking
                };
            }
            TaskState::Runnable(wait) | TaskState::Waking(wait) => {
                s.cpu = Some(wait.cpu);
                self.queued(id, wait.cpu, ts, &mut s);
                self.idle_elsewhere(id, wait.cpu, &mut s);
            }
            _ => {}
        }
        s
    }

    fn queued(&self, id: TaskId, cpu: u32, ts: u64, s: &mut Segment) {
        let history = &self.world.history;
        let pid = history.task(id).pid;
        let running = match history.cpu(cpu).map(|(doing, _)| doing) {
            Some(Doing::Task(running)) => running,
            Some(Doing::Idle) => {
                s.cause = match self.fair.stopped(pid) {
                    true => Cause::Throttled,
                    false => Cause::IdleExit,
                };
                return;
            }
            _ => {
                s.confidence = Confidence::Guess;
                return;
            }
        };
        let y = history.task(running);
        s.behind = Some(self.who_is(running));
        let (mine, theirs) = (history.task(id).prio, y.prio);
        match (
            mine.is_some_and(|p| p < 100),
            theirs.is_some_and(|p| p < 100),
        ) {
            // Out of quota it would not run anyway.
            (false, _) if self.fair.stopped(pid) => s.cause = Cause::Throttled,
            (false, true) => s.cause = Cause::HigherClass,
            (true, true) if theirs <= mine => s.cause = Cause::HigherPriority,
            (true, _) => s.cause = Cause::NeedResched,
            (false, false) => self.behind_fair(pid, y.pid, cpu, ts, s),
        }
    }

    fn behind_fair(&self, pid: Pid, running: Pid, cpu: u32, ts: u64, s: &mut Segment) {
        s.confidence = match self.inference {
            Some(_) => Confidence::Likely,
            None => Confidence::Known,
        };
        let turn = |t: Option<Pid>| t.map(|pid| self.who(pid));
        match self.fair.verdict(pid, running, cpu, ts) {
            Verdict::Unknown => {
                s.cause = Cause::Behind;
                s.confidence = Confidence::Guess;
            }
            Verdict::Throttled => s.cause = Cause::Throttled,
            Verdict::Switching => s.cause = Cause::Switching,
            Verdict::OtherClass => s.cause = Cause::HigherClass,
            Verdict::Ineligible { turn: t } => (s.cause, s.turn) = (Cause::Ineligible, turn(t)),
            Verdict::Later { turn: t } => (s.cause, s.turn) = (Cause::LaterDeadline, turn(t)),
            Verdict::Wins { .. } if self.world.facts.pending(cpu) => s.cause = Cause::NeedResched,
            Verdict::Wins { protected: true } => s.cause = Cause::Protected,
            Verdict::Wins { protected: false } => s.cause = Cause::Tick,
        }
    }

    /// An idle CPU that the task may use comes before what kept it from running on its own.
    fn idle_elsewhere(&self, id: TaskId, cpu: u32, s: &mut Segment) {
        if matches!(s.cause, Cause::Throttled | Cause::IdleExit | Cause::Unknown) {
            return;
        }
        let history = &self.world.history;
        let Some(facts) = self.world.facts.task(history.task(id).pid) else {
            return;
        };
        let usable = |c: u32| facts.allowed.as_ref().unwrap_or(&facts.seen).contains(&c);
        let idle = history
            .cpus()
            .filter(|&(c, doing)| {
                c != cpu && doing == Doing::Idle && usable(c) && history.queue(c).is_empty()
            })
            .filter_map(|(c, _)| Some((c, history.cpu(c)?.1)))
            .min_by_key(|&(c, since)| (since, c));
        if let Some(idle) = idle {
            s.on_its_cpu = Some(s.cause);
            s.cause = Cause::IdleElsewhere;
            s.idle = Some(idle);
            s.turn = None;
            // Where it was seen it was allowed then, and most likely still is.
            s.confidence = match facts.allowed {
                Some(_) => Confidence::Known,
                None => Confidence::Likely,
            };
        }
    }

    fn waker(&self, id: TaskId) -> Option<Who> {
        let state = self.world.history.task(id).state;
        let call = match state {
            TaskState::Sleeping(s) => s.waking.map(|c| c.waker),
            state => state.wait().and_then(|w| w.waker),
        };
        call.map(|w: Waker| {
            if w.interrupt {
                Who {
                    comm: format!("an interrupt on CPU {}", w.cpu),
                    pid: 0,
                }
            } else if w.pid == 0 {
                Who {
                    comm: format!("swapper/{}", w.cpu),
                    pid: 0,
                }
            } else {
                self.who(w.pid)
            }
        })
    }

    fn who_is(&self, id: TaskId) -> Who {
        let task = self.world.history.task(id);
        let comm = task.comm.to_string();
        Who {
            comm: if comm.is_empty() { "?".into() } else { comm },
            pid: task.pid,
        }
    }

    fn who(&self, pid: Pid) -> Who {
        match self.world.history.find(pid) {
            Some(id) => self.who_is(id),
            None => Who {
                comm: "?".into(),
                pid,
            },
        }
    }

    /// What is not known of a wait, and which event would tell.
    fn advice(&self, x: &Explanation) -> Vec<String> {
        let time = |f: &dyn Fn(&Segment) -> bool| -> u64 {
            let parts = x.segments.iter().filter(|s| f(s));
            parts.map(|s| s.end - s.start).sum()
        };
        let mut out = Vec::new();
        let mut add = |ns: u64, what: &str| {
            if ns > 0 {
                out.push(format!("{}: {what}", super::text::ms(ns)));
            }
        };
        let inferred = self.inference.is_some();
        add(
            time(&|s| inferred && s.cause.is_fair_rule()),
            "the rule is inferred by replaying the rules without groups, custom slices and lag from before the trace; \
             probes on the fair class record it (docs/formats/state-recording.md)",
        );
        add(
            time(&|s| s.cause == Cause::Behind),
            "by which rule is not known; record sched_switch, sched_wakeup and sched_stat_runtime from before the wait",
        );
        add(
            time(&|s| s.cause == Cause::Unknown),
            "who ran is not known; record sched_switch on that CPU, without lost events",
        );
        add(
            time(&|s| inferred && s.cause == Cause::IdleExit && s.end - s.start > 1_000_000),
            "its CPU was idle for over a millisecond with the task queued: a used-up quota, core scheduling or a deep idle \
             state; record cpu_idle, and compare nr_throttled in the group's cpu.stat",
        );
        let flags = self.world.facts.flags;
        add(
            time(&|s| {
                !flags && matches!(s.cause, Cause::Tick | Cause::NeedResched | Cause::Protected)
            }),
            "whether a reschedule was asked for is not recorded; ftrace text and trace.dat show it in their flags",
        );
        let affinity = self.world.facts.affinity;
        add(
            time(&|s| !affinity && s.cause == Cause::IdleElsewhere),
            "where the task may run is not recorded; it was seen on that CPU in this trace (taskset -p PID tells)",
        );
        out
    }
}

/// Whether two instants have the same cause.
fn alike(a: &Segment, b: &Segment) -> bool {
    a.cause == b.cause
        && a.cpu == b.cpu
        && a.idle == b.idle
        && a.on_its_cpu == b.on_its_cpu
        && a.confidence == b.confidence
        && a.behind == b.behind
        && a.turn == b.turn
}

/// Explains all waits of a list of events.
#[must_use]
pub fn explain_all(events: &[Event], options: &Options) -> (Vec<Explanation>, Agreement) {
    let mut explainer = Explainer::new(options, Targets::All);
    for e in events {
        explainer.push(e);
    }
    explainer.finish()
}
