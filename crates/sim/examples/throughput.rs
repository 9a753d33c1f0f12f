//! How fast the engine goes: events a second on one core, of a load like hackbench's or of pairs of tasks that wake
//! each other (`pipe`), on a machine of many CPUs.
//!
//! `cargo run --release -p schedlab-sim --example throughput -- [CPUS] [GROUPS] [MILLISECONDS] [COSTS] [LOAD]`

use std::time::Instant;

use schedlab_fair::{Ns, Profile};
use schedlab_sim::program::{
    ChannelId, ChannelSpec, Dur, Mode, Op, Program, ProgramId, Sched, TaskSpec,
};
use schedlab_sim::{Costs, PreemptModel, Sim, SimConfig};
use schedlab_topology::{Arch, Cpu, Machine};
use schedlab_trace::event::Event;

const FDS: u32 = 20;

fn run(ns: u64, mode: Mode) -> Op {
    Op::Run {
        work: Dur::Fixed(Ns(ns)),
        mode,
        cond_resched: None,
    }
}

fn task(c: &mut SimConfig, comm: &str, body: Vec<Op>) {
    let program = ProgramId(c.programs.len() as u32);
    c.programs.push(Program {
        name: comm.into(),
        ops: vec![Op::Loop { times: None, body }],
    });
    c.tasks.push(TaskSpec {
        comm: comm.into(),
        program,
        sched: Sched::Other { nice: 0 },
        slice: None,
        affinity: vec![],
        group: None,
        start: Ns(0),
        mm: program.0,
        cookie: 0,
    });
}

fn channel(c: &mut SimConfig) -> ChannelId {
    c.channels.push(ChannelSpec {
        capacity: 212_992,
        overhead: 668,
        writer_wake_below: 212_992 / 4,
        messages: false,
        sync_wake: true,
        wake_all_writers: true,
    });
    ChannelId(c.channels.len() as u32 - 1)
}

/// Every sender of a group writes to every receiver of it.
fn hackbench(c: &mut SimConfig, groups: u32) {
    for _ in 0..groups {
        let channels: Vec<ChannelId> = (0..FDS).map(|_| channel(c)).collect();
        for &own in &channels {
            let sends = channels
                .iter()
                .flat_map(|&channel| {
                    [
                        run(73, Mode::User),
                        run(1200, Mode::Kernel),
                        Op::Send {
                            channel,
                            bytes: 100,
                        },
                    ]
                })
                .collect();
            let recvs = vec![
                Op::Recv {
                    channel: own,
                    bytes: 100,
                },
                run(1480, Mode::Kernel),
                run(73, Mode::User),
                Op::Count { units: 1 },
            ];
            task(c, "sender", sends);
            task(c, "receiver", recvs);
        }
    }
}

/// A task writes and waits for an answer.
fn pairs(c: &mut SimConfig, n: u32) {
    for _ in 0..n {
        let (there, back) = (channel(c), channel(c));
        let send = |channel| Op::Send { channel, bytes: 4 };
        let recv = |channel| Op::Recv { channel, bytes: 4 };
        let asks = vec![
            run(300, Mode::User),
            send(there),
            recv(back),
            Op::Count { units: 1 },
        ];
        task(c, "asks", asks);
        task(
            c,
            "answers",
            vec![recv(there), run(300, Mode::User), send(back)],
        );
    }
}

/// Cores without SMT, half of them in each socket.
fn two_sockets(cpus: u32) -> Machine {
    let socket = |i: u32| i / cpus.div_ceil(2).max(1);
    let list = (0..cpus)
        .map(|i| Cpu {
            core: i,
            cluster: i,
            llc: socket(i),
            node: socket(i),
            socket: socket(i),
            capacity: 1024,
        })
        .collect();
    let distances = match cpus {
        0 | 1 => vec![vec![10]],
        _ => vec![vec![10, 21], vec![21, 10]],
    };
    Machine::new(Arch::X86, list, distances).expect("a sound machine")
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |i: usize, default: u64| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (cpus, groups) = (number(0, 224) as u32, number(1, 3) as u32);
    let costs = args.get(3).map_or("xeon-2s", String::as_str);
    let load = args.get(4).map_or("hackbench", String::as_str);
    let mut c = SimConfig::new(Profile::default(), two_sockets(cpus));
    c.preempt = PreemptModel::Voluntary;
    c.costs = Costs::by_name(costs).expect("a cost profile");
    c.duration = Some(Ns::from_ms(number(2, 100)));
    if load == "pipe" {
        pairs(&mut c, groups * FDS);
    } else {
        hackbench(&mut c, groups);
    }
    let tasks = c.tasks.len();
    let mut traced = 0u64;
    let sim = Sim::new(c, |_: &Event| traced += 1).expect("a sound configuration");
    let begin = Instant::now();
    let r = sim.run().expect("a run to the end");
    let wall = begin.elapsed().as_secs_f64();
    let scheduler = r.switches + r.wakeups + r.migrations;
    println!(
        "{cpus} CPUs, {tasks} tasks, {} ms simulated in {:.3} s: {} events ({:.2} M/s), {} of them switches, wakeups, migrations ({:.2} M/s), {} messages",
        r.end.0 / 1_000_000,
        wall,
        r.events,
        r.events as f64 / wall / 1e6,
        scheduler,
        scheduler as f64 / wall / 1e6,
        r.work
    );
}
