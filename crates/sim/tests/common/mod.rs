//! Small scenarios for tests.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part.

use std::fmt::Write;

use schedlab_fair::{Ns, Profile};
use schedlab_sim::program::{Dur, Mode, Op, Program, ProgramId, Sched, TaskSpec};
use schedlab_sim::{RunResult, Sim, SimConfig};
use schedlab_topology::{Machine, Shape};
use schedlab_trace::event::{Event, EventKind};

pub fn ns(us: u64) -> Dur {
    Dur::Fixed(Ns::from_us(us))
}

pub fn run_us(us: u64) -> Op {
    Op::Run {
        work: ns(us),
        mode: Mode::User,
        cond_resched: None,
    }
}

pub fn kernel_us(us: u64) -> Op {
    Op::Run {
        work: ns(us),
        mode: Mode::Kernel,
        cond_resched: None,
    }
}

pub fn forever(body: Vec<Op>) -> Op {
    Op::Loop { times: None, body }
}

pub fn times(n: u64, body: Vec<Op>) -> Op {
    Op::Loop {
        times: Some(n),
        body,
    }
}

pub fn hog() -> Vec<Op> {
    vec![forever(vec![run_us(1_000_000)])]
}

/// A machine of equal CPUs with nothing on it; one tick a millisecond, everything free.
pub fn machine(cpus: u32) -> SimConfig {
    let shape = Shape {
        cores_per_llc: cpus,
        ..Shape::default()
    };
    let machine = Machine::of_shape(&shape).expect("a sound machine");
    SimConfig {
        duration: Some(Ns::from_ms(100)),
        ..SimConfig::new(Profile::default(), machine)
    }
}

pub fn add(config: &mut SimConfig, comm: &str, ops: Vec<Op>) -> usize {
    let program = ProgramId(config.programs.len() as u32);
    config.programs.push(Program {
        name: comm.to_string(),
        ops,
    });
    config.tasks.push(TaskSpec {
        comm: comm.to_string(),
        program,
        sched: Sched::Other { nice: 0 },
        slice: None,
        affinity: vec![],
        group: None,
        start: Ns(0),
        mm: program.0,
        cookie: 0,
    });
    config.tasks.len() - 1
}

pub fn play(config: SimConfig) -> (RunResult, Vec<Event>) {
    let mut events = Vec::new();
    let result = Sim::new(config, |e: &Event| events.push(e.clone()))
        .expect("the configuration is sound")
        .run()
        .expect("the simulation goes through");
    (result, events)
}

/// Switch-ins of real tasks, as `ms:name`.
pub fn switches(events: &[Event], n: usize) -> String {
    let mut out = String::new();
    let mut left = n;
    for e in events {
        if let EventKind::SchedSwitch { next, .. } = &e.kind {
            if next.pid == 0 || left == 0 {
                continue;
            }
            left -= 1;
            let ms = e.ts as f64 / 1e6;
            let space = if out.is_empty() { "" } else { " " };
            write!(out, "{space}{ms}:{}", next.comm).unwrap();
        }
    }
    out
}
