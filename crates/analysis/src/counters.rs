//! Numbers over time, for tracks of a viewer: queue length of each CPU, lag and deadline of each task.
//!
//! The queue length comes from the scheduler's tracepoints: tasks that wait on a CPU's queue, the running one not counted (as
//! in all analyses of queues here). Lag and deadline are in a trace only if it has the kernel's state
//! ([`check`](crate::check)): `vlag` as the kernel kept it when the entity left its queue (`lag`) and as it was placed again
//! (`place`), and the virtual deadline as `place`, `deadline`, `setnext` and `pick` showed it, less the queue's
//! `zero_vruntime`, so that the deadlines of one queue compare at a glance.

use std::collections::BTreeMap;

use schedlab_trace::{Event, Pid};

use crate::check::record::{Field, Kind, Record};
use crate::history::{Change, History, HistoryOptions, Observer, Step, TaskState};
use crate::order::SortWindow;

/// What a track shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Track {
    /// Tasks that wait on the queue of a CPU.
    QueueLength(u32),
    /// Lag of a task, virtual nanoseconds.
    Lag(Pid),
    /// Virtual deadline of a task less its queue's `zero_vruntime`, virtual nanoseconds.
    Deadline(Pid),
}

impl Track {
    /// Name for a person. Of a task's track, the task is told apart by [`Track::task`].
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::QueueLength(cpu) => format!("queue length CPU {cpu}"),
            Self::Lag(_) => "lag".to_owned(),
            Self::Deadline(_) => "deadline".to_owned(),
        }
    }

    /// The task whose number it shows, if it is not a CPU's.
    #[must_use]
    pub fn task(self) -> Option<Pid> {
        match self {
            Self::QueueLength(_) => None,
            Self::Lag(pid) | Self::Deadline(pid) => Some(pid),
        }
    }
}

/// A track's new value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Time, ns.
    pub ts: u64,
    /// Whose.
    pub track: Track,
    /// Value from here on.
    pub value: i64,
}

/// Derives samples from events. Gives a value only when it changes.
#[derive(Debug)]
pub struct Counters {
    window: SortWindow<Step>,
    history: History,
    lengths: Lengths,
    last: BTreeMap<Track, i64>,
    /// `zero_vruntime` by queue.
    zero: BTreeMap<u64, u64>,
    out: Vec<Sample>,
}

impl Default for Counters {
    fn default() -> Self {
        let options = HistoryOptions::default();
        Self {
            window: SortWindow::new(options.window),
            history: History::new(options),
            lengths: Lengths::default(),
            last: BTreeMap::new(),
            zero: BTreeMap::new(),
            out: Vec::new(),
        }
    }
}

impl Counters {
    /// Takes an event; gives the samples that are known by now. Those of queues come late, by the sorting window.
    pub fn push(&mut self, event: &Event) -> impl Iterator<Item = Sample> + '_ {
        let step = Step::new(event);
        self.state(event);
        if let Some((ts, step)) = self.window.push(event.ts, step) {
            self.apply(ts, &step);
        }
        self.out.drain(..)
    }

    /// Gives what the window still holds.
    pub fn finish(&mut self) -> Vec<Sample> {
        let rest: Vec<_> = self.window.drain().collect();
        for (ts, step) in rest {
            self.apply(ts, &step);
        }
        std::mem::take(&mut self.out)
    }

    fn apply(&mut self, ts: u64, step: &Step) {
        self.history.apply(ts, step, &mut self.lengths);
        for cpu in std::mem::take(&mut self.lengths.touched) {
            let len = i64::try_from(self.history.queue(cpu).len()).unwrap_or(i64::MAX);
            self.set(ts, Track::QueueLength(cpu), len);
        }
    }

    fn set(&mut self, ts: u64, track: Track, value: i64) {
        if self.last.insert(track, value) != Some(value) {
            self.out.push(Sample { ts, track, value });
        }
    }

    /// Lag and deadline from a record of the kernel's state.
    fn state(&mut self, event: &Event) {
        let Some(record) = Record::read(0, event) else {
            return;
        };
        if record.has(Field::Zv) {
            self.zero
                .insert(record.get(Field::Cfs), record.get(Field::Zv));
        }
        // A group's entity has no pid of its own.
        if record.get(Field::Grp) != 0 || !record.has(Field::Pid) {
            return;
        }
        let Ok(pid) = Pid::try_from(record.get(Field::Pid)) else {
            return;
        };
        if matches!(record.kind, Kind::Lag | Kind::Place) && record.has(Field::Vlag) {
            let vlag = record.get(Field::Vlag).cast_signed();
            self.set(event.ts, Track::Lag(pid), vlag);
        }
        if matches!(
            record.kind,
            Kind::Place | Kind::Deadline | Kind::SetNext | Kind::Pick
        ) && record.has(Field::Dl)
            && let Some(zero) = self.zero.get(&record.get(Field::Cfs))
        {
            let ahead = record.get(Field::Dl).wrapping_sub(*zero).cast_signed();
            self.set(event.ts, Track::Deadline(pid), ahead);
        }
    }
}

/// Notes the CPUs whose queues changed.
#[derive(Default, Debug)]
struct Lengths {
    touched: Vec<u32>,
}

impl Lengths {
    fn touch(&mut self, cpu: u32) {
        if !self.touched.contains(&cpu) {
            self.touched.push(cpu);
        }
    }
}

impl Observer for Lengths {
    fn change(&mut self, _: &History, change: &Change) {
        for state in [&change.from, &change.to] {
            if let TaskState::Runnable(wait) = state {
                self.touch(wait.cpu);
            }
        }
    }

    fn event(
        &mut self,
        _: &History,
        _: u64,
        step: &Step,
        _: Option<crate::history::TaskId>,
        _: Option<crate::history::TaskId>,
    ) {
        // A move to another queue is no change of state.
        self.touch(step.cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_trace::FtraceTextReader;

    fn samples(text: &str) -> Vec<String> {
        let mut counters = Counters::default();
        let mut out = Vec::new();
        for event in FtraceTextReader::new(text.as_bytes(), "test") {
            out.extend(counters.push(&event.unwrap()));
        }
        out.extend(counters.finish());
        out.sort_by_key(|s| s.ts);
        out.iter()
            .map(|s| {
                let task = s
                    .track
                    .task()
                    .map_or(String::new(), |pid| format!(" of {pid}"));
                format!("{} {}{task} = {}", s.ts, s.track.name(), s.value)
            })
            .collect()
    }

    #[test]
    fn queue_lengths() {
        let text = "\
  <idle>-0 [000] 1.000002: sched_wakeup: comm=a pid=7 prio=120 target_cpu=000
  <idle>-0 [000] 1.000003: sched_wakeup: comm=b pid=8 prio=120 target_cpu=000
  <idle>-0 [000] 1.000005: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120
  a-7 [000] 1.000007: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 next_prio=120
";
        assert_eq!(
            samples(text),
            [
                "1000002000 queue length CPU 0 = 1",
                "1000003000 queue length CPU 0 = 2",
                "1000005000 queue length CPU 0 = 1",
                "1000007000 queue length CPU 0 = 0",
            ]
        );
    }

    #[test]
    fn lag_and_deadline() {
        let text = "\
              sh-136     [000] d..3.     3.000001: place: (enqueue_entity+0x6f/0x520 <- place_entity) cfs=0x10 se=0x20 grp=0x0 pid=149 fl=0x88 vr=90 dl=790 vlag=-5 slice=700 w=1048576 delayed=0 clk=3 zv=100 sw=0 swv=0 nr=1
              sh-136     [000] d..3.     3.000002: deadline: (update_curr+0x51/0x1e0 <- update_deadline) ret=1 cfs=0x10 se=0x20 grp=0x0 pid=149 vr=800 dl=1500 vlag=0 slice=700 w=1048576 delayed=0
              sh-136     [000] d..3.     3.000003: place: (enqueue_entity+0x6f/0x520 <- place_entity) cfs=0x10 se=0x30 grp=0x40 pid=7 fl=0x88 vr=90 dl=790 vlag=9 slice=700 w=1048576 delayed=0 clk=3 zv=200 sw=0 swv=0 nr=1
             w-149     [000] d..3.     3.000004: lag: (dequeue_entity+0x6f/0x520 <- update_entity_lag) cfs=0x10 se=0x20 grp=0x0 pid=149 vr=90 dl=0 vlag=12 slice=700 w=1048576 delayed=0 clk=3 zv=200 sw=0 swv=0 nr=1
";
        assert_eq!(
            samples(text),
            [
                "3000001000 lag of 149 = -5",
                "3000001000 deadline of 149 = 690",
                "3000001000 queue length CPU 0 = 0",
                "3000002000 deadline of 149 = 1400",
                "3000004000 lag of 149 = 12",
            ]
        );
    }
}
