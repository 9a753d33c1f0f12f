//! Programs as flat code: loops become jumps, so that a task's place is a number and a few counters.

use schedlab_fair::Ns;

use crate::program::{Dur, Mode, Op, Program, Sched};

/// One instruction.
#[derive(Clone, Debug)]
pub(crate) enum Instr {
    Run {
        work: Dur,
        mode: Mode,
        cond_resched: Option<Ns>,
    },
    RunUntil {
        until: u64,
        check: u64,
    },
    Sleep(Dur),
    BlockIo(Dur),
    Timer {
        timer: u32,
        period: u64,
        absolute: bool,
    },
    Beat {
        timer: u32,
        period: u64,
    },
    Send {
        channel: u32,
        bytes: u32,
    },
    Recv {
        channel: u32,
        bytes: u32,
    },
    Lock(u32),
    Unlock(u32),
    Barrier(u32),
    Wait {
        cond: u32,
        lock: Option<u32>,
    },
    Signal(u32),
    Broadcast(u32),
    SemPost(u32),
    SemWait(u32),
    Suspend,
    Resume(String),
    Yield,
    Fork(u32),
    WaitChildren,
    Exit,
    SetSched(Sched),
    SetSlice(Option<Ns>),
    SetAffinity(Vec<u32>),
    Count(u64),
    /// Begin of a loop: jump behind its end at `end` if `times` is 0.
    Enter {
        times: Option<u64>,
        end: u32,
    },
    /// End of a loop that begins at `start`.
    Again {
        start: u32,
    },
}

/// Flattens a program.
pub(crate) fn compile(program: &Program) -> Vec<Instr> {
    let mut out = Vec::new();
    flatten(&program.ops, &mut out);
    out.push(Instr::Exit);
    out
}

fn flatten(ops: &[Op], out: &mut Vec<Instr>) {
    for op in ops {
        let instr = match op {
            Op::Loop { times, body } => {
                let start = out.len() as u32;
                out.push(Instr::Enter {
                    times: *times,
                    end: 0,
                });
                flatten(body, out);
                out.push(Instr::Again { start });
                let behind = out.len() as u32;
                if let Instr::Enter { end, .. } = &mut out[start as usize] {
                    *end = behind;
                }
                continue;
            }
            Op::Run {
                work,
                mode,
                cond_resched,
            } => Instr::Run {
                work: *work,
                mode: *mode,
                cond_resched: *cond_resched,
            },
            Op::RunUntil { until, check } => Instr::RunUntil {
                until: until.0,
                check: check.0,
            },
            Op::Sleep(d) => Instr::Sleep(*d),
            Op::BlockIo(d) => Instr::BlockIo(*d),
            Op::Timer {
                timer,
                period,
                absolute,
            } => Instr::Timer {
                timer: timer.0,
                period: period.0,
                absolute: *absolute,
            },
            Op::Beat { timer, period } => Instr::Beat {
                timer: timer.0,
                period: period.0,
            },
            Op::Send { channel, bytes } => Instr::Send {
                channel: channel.0,
                bytes: *bytes,
            },
            Op::Recv { channel, bytes } => Instr::Recv {
                channel: channel.0,
                bytes: *bytes,
            },
            Op::Lock(l) => Instr::Lock(l.0),
            Op::Unlock(l) => Instr::Unlock(l.0),
            Op::Barrier(b) => Instr::Barrier(b.0),
            Op::Wait { cond, lock } => Instr::Wait {
                cond: cond.0,
                lock: lock.map(|l| l.0),
            },
            Op::Signal(c) => Instr::Signal(c.0),
            Op::Broadcast(c) => Instr::Broadcast(c.0),
            Op::SemPost(s) => Instr::SemPost(s.0),
            Op::SemWait(s) => Instr::SemWait(s.0),
            Op::Suspend => Instr::Suspend,
            Op::Resume { task } => Instr::Resume(task.clone()),
            Op::Yield => Instr::Yield,
            Op::Fork { program } => Instr::Fork(program.0),
            Op::WaitChildren => Instr::WaitChildren,
            Op::Exit => Instr::Exit,
            Op::SetSched(s) => Instr::SetSched(*s),
            Op::SetSlice(s) => Instr::SetSlice(*s),
            Op::SetAffinity(list) => Instr::SetAffinity(list.clone()),
            Op::Count { units } => Instr::Count(*units),
        };
        out.push(instr);
    }
}
