//! A task's acts as the operations of a simulation: times between timers, and work without what costs will be charged
//! for.

use schedlab_analysis::load::{Act, Birth, Load, LoadTask, TaskIndex, Until};
use schedlab_sim::Costs;

/// A stretch between a wakeup and the sleep behind it that is up to this long and was not interrupted by a switch is the
/// system call's way to its sleep (2 us on a machine, 55 us in an emulator with probes), ns.
const TAIL_MOST: u64 = 100_000;

/// One operation of a recorded task; lengths in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    Run(u64),
    /// Wakes a task.
    Wake(TaskIndex),
    Fork(TaskIndex),
    /// Wakes a task and, so long after, waits to be woken: nothing comes between.
    HandOver(TaskIndex, u64),
    /// Waits to be woken by a task.
    Event,
    /// Sleeps until so long after the time before, the first of which is the task's start.
    Timer(u64),
    Sleep(u64),
    Block(u64),
    Yield,
    Nice(i8),
    /// Real-time priority.
    Rt(u8),
}

/// Nice value or real-time priority of the kernel's `prio`.
pub(super) enum Priority {
    Nice(i8),
    Rt(u8),
}

impl Priority {
    pub(super) fn of(prio: i32) -> Self {
        match prio {
            0..=98 => Self::Rt(u8::try_from(99 - prio).unwrap_or(1)),
            _ => Self::Nice(i8::try_from((prio - 120).clamp(-20, 19)).unwrap_or(0)),
        }
    }
}

/// What costs take off the recorded work.
pub(super) struct Charges {
    costs: Costs,
    /// For each switch-in.
    piece: u64,
    /// For each second of work: ticks and interrupts that end sleeps, ns.
    per_second: u64,
    /// Charges beyond the recorded work, ns.
    pub(super) too_much: u64,
}

impl Charges {
    pub(super) fn new(load: &Load, costs: Costs, hz: u32) -> Self {
        let (mut pieces, mut sleeps, mut interrupts) = (0u128, 0u128, 0u128);
        for act in load.tasks.iter().flat_map(|t| &t.acts) {
            match act {
                Act::Run { pieces: n, .. } => pieces += u128::from(*n),
                Act::Sleep { until, .. } => {
                    sleeps += 1;
                    interrupts += u128::from(matches!(until, Until::Time(_) | Until::After(_)));
                }
                _ => {}
            }
        }
        // The next task is charged for taking off the one before, which mostly slept or mostly was preempted.
        let (sleeps, pieces) = (sleeps.min(pieces), pieces.max(1));
        let before = (u128::from(costs.dequeue) * sleeps
            + u128::from(costs.involuntary) * (pieces - sleeps))
            / pieces;
        // An interrupt hits a task as often as its CPU is busy.
        let each = u128::from(costs.timer + costs.wake + costs.enqueue);
        let room = u128::from(load.span.max(1)) * u128::from(load.cpus.max(1));
        let by_interrupts = interrupts * each * 1_000_000_000 / room;
        let narrow = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX);
        Self {
            costs,
            piece: narrow(before) + costs.schedule + costs.pick + costs.switch,
            per_second: narrow(by_interrupts) + costs.tick * u64::from(hz),
            too_much: 0,
        }
    }

    fn of_run(&self, ns: u64, pieces: u32) -> u64 {
        let over_time = u128::from(ns) * u128::from(self.per_second) / 1_000_000_000;
        let switches = self.piece.saturating_mul(u64::from(pieces));
        switches.saturating_add(u64::try_from(over_time).unwrap_or(u64::MAX))
    }

    fn of_act(&self, act: Act) -> u64 {
        let c = &self.costs;
        match act {
            Act::Run { ns, pieces } => self.of_run(ns, pieces),
            Act::Wake(_) => c.syscall + c.wake + c.enqueue + c.select,
            Act::Fork(_) => c.syscall + c.fork + c.enqueue,
            Act::Sleep { .. } | Act::Yield => c.syscall,
            Act::Prio(_) => 0,
        }
    }

    /// The operations of a task. `origin`: time at which it starts, on the clock of the load, which is negative by `lead`
    /// for tasks that are asleep when the trace begins. `round`: when the last timer should end, counted from `origin`.
    pub(super) fn words(&mut self, task: &LoadTask, lead: u64, round: Option<u64>) -> Vec<Word> {
        let mut out = Vec::with_capacity(task.acts.len() + 1);
        let mut owed = 0u64;
        // Times as the simulation has them.
        let origin = match task.birth {
            Birth::Asleep => 0,
            _ => lead.saturating_add(task.start()),
        };
        let mut timer = origin;
        let mut rest = task.acts.as_slice();
        while let Some((&act, behind)) = rest.split_first() {
            rest = behind;
            owed = owed.saturating_add(self.of_act(act));
            match act {
                Act::Run { ns, .. } => {
                    let off = owed.min(ns);
                    owed -= off;
                    if ns > off {
                        out.push(Word::Run(ns - off));
                    }
                }
                Act::Wake(i) => match tail(rest) {
                    None => out.push(Word::Wake(i)),
                    Some((ns, behind)) => {
                        let skipped = &rest[..rest.len() - behind.len()];
                        skipped
                            .iter()
                            .for_each(|&a| owed = owed.saturating_add(self.of_act(a)));
                        let off = owed.min(ns);
                        owed -= off;
                        out.push(Word::HandOver(i, ns - off));
                        rest = behind;
                    }
                },
                Act::Fork(i) => out.push(Word::Fork(i)),
                Act::Yield => out.push(Word::Yield),
                Act::Prio(prio) => out.push(match Priority::of(prio) {
                    Priority::Nice(nice) => Word::Nice(nice),
                    Priority::Rt(priority) => Word::Rt(priority),
                }),
                Act::Sleep { until, deep, .. } => match until {
                    Until::Task(_) => out.push(Word::Event),
                    Until::Time(at) => {
                        let at = lead.saturating_add(at);
                        // Two times may be the same in a trace of microseconds.
                        out.push(if at > timer {
                            Word::Timer(at - timer)
                        } else {
                            Word::Sleep(1)
                        });
                        timer = timer.max(at);
                    }
                    Until::After(ns) if deep => out.push(Word::Block(ns.max(1))),
                    Until::After(ns) => out.push(Word::Sleep(ns.max(1))),
                    Until::End => {}
                },
            }
        }
        self.too_much = self.too_much.saturating_add(owed);
        if let Some(round) = round
            && let Some(rest) = origin.saturating_add(round).checked_sub(timer)
            && rest > 0
        {
            out.push(Word::Timer(rest));
        }
        out
    }
}

/// The way from a wakeup to the task's own sleep, if nothing comes between: its length and what is behind the sleep.
fn tail(acts: &[Act]) -> Option<(u64, &[Act])> {
    let (ns, rest) = match acts.split_first()? {
        (&Act::Run { ns, pieces: 0 }, rest) if ns <= TAIL_MOST => (ns, rest),
        _ => (0, acts),
    };
    match rest.split_first()? {
        (
            Act::Sleep {
                until: Until::Task(_),
                ..
            },
            rest,
        ) => Some((ns, rest)),
        _ => None,
    }
}
