//! Random programs of all operations on random machines under every profile, model and cost profile.
//!
//! What is tested is what the engine checks by itself in debug builds, behind every event and at the end: no time is
//! lost, what is charged was run, counters agree, nobody runs twice or without being queued, no request to reschedule is
//! passed over. Beside that: the same configuration gives the same events, and programs stay in order.

mod common;

use common::{machine, play};
use schedlab_fair::{BandwidthAttr, Ns, Profile, Weight};
use schedlab_sim::program::*;
use schedlab_sim::{Costs, GroupSpec, PreemptModel, Sim, SimConfig};
use schedlab_topology::{Arch, Cpu, Machine};
use schedlab_trace::event::{Event, EventKind};

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

fn run(ns: u64, mode: Mode) -> Op {
    Op::Run {
        work: Dur::Fixed(Ns(ns)),
        mode,
        cond_resched: None,
    }
}

const LOCKS: [LockKind; 4] = [
    LockKind::Sleep,
    LockKind::Spin,
    LockKind::SpinYield { every: Ns(5_000) },
    LockKind::SpinThenSleep {
        spin: Ns(3_000),
        sleep: Ns(70_000),
    },
];

fn body(r: &mut Random, cpus: u64, depth: u32) -> Vec<Op> {
    let mut ops = Vec::new();
    for _ in 0..=r.below(6) {
        let ns = 1_000 * (1 + r.below(2_000));
        let channel = ChannelId(r.below(2) as u32);
        match r.below(21) {
            0..=3 => ops.push(run(ns, Mode::User)),
            4 => ops.push(run(ns, Mode::Kernel)),
            5 => ops.push(run(ns / 4, Mode::KernelNoPreempt)),
            6 => ops.push(Op::Run {
                work: Dur::Exponential { mean: Ns(ns / 2) },
                mode: Mode::Kernel,
                cond_resched: Some(Ns(50_000)),
            }),
            7 => ops.push(Op::Sleep(Dur::Uniform {
                lo: Ns(0),
                hi: Ns(ns),
            })),
            8 => ops.push(Op::BlockIo(Dur::Fixed(Ns(ns)))),
            9 => ops.push(Op::Yield),
            10 => ops.push(Op::Send {
                channel,
                bytes: 100,
            }),
            11 => ops.push(Op::Recv {
                channel,
                bytes: 100,
            }),
            12 => {
                let lock = LockId(r.below(LOCKS.len() as u64) as u32);
                let mode = r.one_of(&[Mode::Kernel, Mode::User]);
                ops.extend([Op::Lock(lock), run(ns / 8, mode), Op::Unlock(lock)]);
            }
            13 => ops.push(Op::SemPost(SemId(0))),
            14 => ops.push(Op::SemWait(SemId(0))),
            15 => ops.push(Op::Count { units: 1 }),
            16 => ops.push(Op::Timer {
                timer: TimerId(0),
                period: Ns(ns),
                absolute: r.below(2) == 0,
            }),
            17 => ops.push(Op::SetSched(match r.below(4) {
                0 => Sched::Fifo { rt_priority: 2 },
                1 => Sched::Idle,
                _ => Sched::Other {
                    nice: r.below(40) as i8 - 20,
                },
            })),
            18 => ops.push(Op::SetSlice(Some(Ns(ns)))),
            19 => ops.push(Op::SetAffinity(vec![r.below(cpus) as u32])),
            _ if depth < 2 => ops.push(Op::Loop {
                times: Some(1 + r.below(4)),
                body: body(r, cpus, depth + 1),
            }),
            _ => {}
        }
    }
    ops
}

fn config(seed: u64) -> SimConfig {
    let mut r = Random(seed * 7_919 + 1);
    let cpus = 1 + r.below(6);
    let mut c = machine(cpus as u32);
    let sites = (0..cpus as u32).map(|i| Cpu {
        core: i / 2,
        cluster: i / 2,
        llc: i / 4,
        node: 0,
        socket: i / 4,
        capacity: 1024,
    });
    c.machine = Machine::new(Arch::X86, sites.collect(), vec![vec![10]]).expect("a sound machine");
    c.profile = r.one_of(Profile::ALL);
    c.hz = r.one_of(&[100, 250, 1000]);
    c.preempt = r.one_of(&[
        PreemptModel::None,
        PreemptModel::Voluntary,
        PreemptModel::Full,
        PreemptModel::Lazy,
    ]);
    c.core_sched = r.below(8) == 0;
    let profiles: Vec<Costs> = Costs::PROFILES.iter().map(|p| p.2).collect();
    c.costs = r.one_of(&profiles);
    c.tick_skew = Ns(r.below(2) * 1_000);
    c.duration = Some(Ns::from_ms(50));
    c.seed = seed;
    let spec = ChannelSpec {
        capacity: 1_000,
        overhead: 0,
        writer_wake_below: 900,
        messages: r.below(2) == 0,
        sync_wake: true,
        wake_all_writers: r.below(2) == 0,
    };
    c.channels = vec![spec; 2];
    c.locks = LOCKS.to_vec();
    c.sems = vec![0];
    c.timers = 1;
    if r.below(3) == 0 {
        let bandwidth = BandwidthAttr {
            quota: Ns::from_ms(3),
            period: Ns::from_ms(10),
            burst: Ns(0),
        };
        c.groups.push(GroupSpec {
            name: "g".into(),
            parent: None,
            shares: Weight::NICE_0,
            idle: r.below(4) == 0,
            bandwidth: (r.below(2) == 0).then_some(bandwidth),
        });
    }
    for i in 0..2 + r.below(10) {
        let mut ops = body(&mut r, cpus, 0);
        // No loop may go without time.
        ops.push(run(1_000, Mode::User));
        if i > 0 && r.below(3) > 0 {
            ops = vec![Op::Loop {
                times: None,
                body: ops,
            }];
        } else if i > 0 {
            let fork = Op::Fork {
                program: ProgramId(0),
            };
            ops.splice(0..0, [fork]);
            ops.push(Op::WaitChildren);
        }
        let program = ProgramId(c.programs.len() as u32);
        c.programs.push(Program {
            name: format!("t{i}"),
            ops,
        });
        let affinity = if r.below(4) == 0 {
            vec![r.below(cpus) as u32]
        } else {
            vec![]
        };
        c.tasks.push(TaskSpec {
            comm: format!("t{i}"),
            program,
            sched: match r.below(8) {
                0 => Sched::Fifo {
                    rt_priority: 1 + r.below(3) as u8,
                },
                1 => Sched::Rr {
                    rt_priority: 1 + r.below(3) as u8,
                },
                2 => Sched::Idle,
                3 => Sched::Batch { nice: 0 },
                _ => Sched::Other {
                    nice: r.below(40) as i8 - 20,
                },
            },
            slice: (r.below(3) == 0).then(|| Ns(100_000 + r.below(5_000_000))),
            affinity,
            group: (!c.groups.is_empty() && r.below(2) == 0).then_some(0),
            start: Ns(r.below(3) * 500_000),
            mm: r.below(3) as u32,
            cookie: r.below(3),
        });
    }
    c
}

/// A task gets a CPU only where it may run: what its own last `SetAffinity` or its configuration says.
fn placed_where_allowed(c: &SimConfig, events: &[Event]) {
    for e in events {
        if let EventKind::SchedSwitch { next, .. } = &e.kind
            && let Some(index) = usize::try_from(next.pid - schedlab_sim::FIRST_PID).ok()
            && let Some(t) = c.tasks.get(index)
        {
            let changes = |ops: &[Op]| format!("{ops:?}").contains("SetAffinity");
            let free = t.affinity.is_empty() || changes(&c.programs[t.program.0 as usize].ops);
            assert!(free || t.affinity.contains(&e.cpu), "{e:?}");
        }
    }
}

#[test]
fn random_programs_keep_every_invariant() {
    let mut ran = 0;
    for seed in 0..300 {
        let c = config(seed);
        let (result, events) = play(c.clone());
        let (again, same) = play(c.clone());
        assert!(result == again && events == same, "{seed}");
        placed_where_allowed(&c, &events);
        ran += events.len();
    }
    assert!(ran > 200_000, "{ran} events");
}

#[test]
fn checks_change_nothing() {
    for seed in 0..40 {
        let (with, _) = play(config(seed));
        let mut sim = Sim::new(config(seed), |_: &Event| {}).expect("a sound configuration");
        sim.set_checks(false);
        assert_eq!(sim.run().expect("a run to the end"), with);
    }
}
