//! Makes a perf.data file of any length for measurements: `generate_perf_data EVENTS OUT [CPUS] [TASKS]`.
//!
//! On each CPU tasks wake each other at random, run, sleep and are preempted. The same arguments give the same bytes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::error::Error;
use std::fs::File;

use schedlab_trace::{
    Comm, CpuFlags, Event, EventKind, PerfDataOptions, PerfDataWriter, PrevState, TaskRef,
    TraceWriter,
};

/// Numbers that look random, the same ones every time (Knuth's MMIX generator).
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

struct Cpu {
    number: u32,
    current: TaskRef,
    since: u64,
    waiting: VecDeque<TaskRef>,
    sleeping: Vec<TaskRef>,
}

fn idle(cpu: u32) -> TaskRef {
    TaskRef {
        comm: Comm::new(&format!("swapper/{cpu}")),
        pid: 0,
        prio: 120,
    }
}

impl Cpu {
    fn new(number: u32, tasks: u32) -> Self {
        let task = |k| TaskRef {
            comm: Comm::new(&format!("worker/{number}-{k}")),
            pid: (1000 + number * tasks + k) as i32,
            prio: 120,
        };
        Self {
            number,
            current: idle(number),
            since: 0,
            waiting: VecDeque::new(),
            sleeping: (0..tasks).map(task).collect(),
        }
    }

    fn event(&self, ts: u64, kind: EventKind) -> Event {
        Event {
            ts,
            cpu: self.number,
            pid: self.current.pid,
            comm: self.current.comm,
            flags: CpuFlags::default(),
            kind,
        }
    }

    /// What happens on this CPU from `now` on; gives the time of the next step.
    fn step(&mut self, now: u64, draws: &mut Draws, out: &mut Vec<Event>) -> u64 {
        let mut ts = now;
        let mut tick = |draws: &mut Draws| {
            ts += 300 + draws.below(1500);
            ts
        };
        if !self.sleeping.is_empty() && (self.waiting.len() < 3 || draws.below(2) == 0) {
            let at = draws.below(self.sleeping.len() as u64) as usize;
            let task = self.sleeping.swap_remove(at);
            let target_cpu = self.number;
            let waking = EventKind::SchedWaking { task, target_cpu };
            out.push(self.event(tick(draws), waking));
            let wakeup = EventKind::SchedWakeup { task, target_cpu };
            out.push(self.event(tick(draws), wakeup));
            self.waiting.push_back(task);
        }
        let next = self.waiting.pop_front().unwrap_or(idle(self.number));
        if next.pid != self.current.pid {
            let prev = self.current;
            let preempted = draws.below(8) == 0;
            if prev.pid != 0 {
                let runtime = tick(draws).saturating_sub(self.since);
                let charged = EventKind::SchedStatRuntime {
                    comm: prev.comm,
                    pid: prev.pid,
                    runtime,
                };
                out.push(self.event(tick(draws), charged));
            }
            let at = tick(draws);
            let prev_state = match (prev.pid, preempted) {
                (0, _) => PrevState::RUNNING,
                (_, true) => PrevState::PREEMPTED,
                (_, false) => PrevState::INTERRUPTIBLE,
            };
            let switch = EventKind::SchedSwitch {
                prev,
                prev_state,
                next,
            };
            out.push(self.event(at, switch));
            match (prev.pid, preempted) {
                (0, _) => {}
                (_, true) => self.waiting.push_back(prev),
                (_, false) => self.sleeping.push(prev),
            }
            (self.current, self.since) = (next, at);
        }
        ts + 1000 + draws.below(40_000)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [events, output, rest @ ..] = &args[..] else {
        return Err("usage: generate_perf_data EVENTS OUT [CPUS] [TASKS per CPU]".into());
    };
    let number = |at: usize, default: u32| rest.get(at).map_or(Ok(default), |n| n.parse());
    let (events, cpus, tasks) = (events.parse::<u64>()?, number(0, 8)?, number(1, 40)?);
    let mut all: Vec<Cpu> = (0..cpus).map(|cpu| Cpu::new(cpu, tasks)).collect();
    let mut agenda: BinaryHeap<Reverse<(u64, u32)>> = (0..cpus)
        .map(|cpu| Reverse((1_000_000_000 + u64::from(cpu), cpu)))
        .collect();
    let mut writer = PerfDataWriter::new(File::create(output)?, PerfDataOptions::default());
    let mut draws = Draws(1);
    let mut written = 0;
    let mut out = Vec::new();
    while written < events {
        let Some(Reverse((now, cpu))) = agenda.pop() else {
            return Err("no CPUs".into());
        };
        if let Some(state) = all.get_mut(cpu as usize) {
            agenda.push(Reverse((state.step(now, &mut draws, &mut out), cpu)));
        }
        for event in out.drain(..) {
            writer.write(&event)?;
            written += 1;
        }
    }
    println!("{:?}", writer.finish()?);
    Ok(())
}
