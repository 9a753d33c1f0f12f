//! Programs as flat code: loops become jumps, so that a task's place is a number and a few counters.
//!
//! Instructions are small and copied freely; what does not fit stands in tables beside them.

use crate::program::{Dur, Mode, Op, Program, Sched};

/// "For ever" of a loop, "the default" of a slice.
pub(crate) const NONE: u64 = u64::MAX;

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Instr {
    /// Work of a fixed length, ns.
    Run {
        mode: Mode,
        ns: u64,
    },
    /// Work of a length to be drawn, index of [`Code::durs`].
    RunDrawn {
        mode: Mode,
        work: u32,
    },
    /// Kernel work with places to reschedule, index of [`Code::conds`].
    RunCond(u32),
    /// Index of [`Code::untils`].
    RunUntil(u32),
    /// Index of [`Code::durs`].
    Sleep(u32),
    /// Index of [`Code::durs`].
    BlockIo(u32),
    Timer {
        timer: u32,
        absolute: bool,
        period: u64,
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
    /// `tail` in ns.
    HandOver {
        post: u32,
        wait: u32,
        tail: u32,
    },
    Suspend,
    /// Index of [`Code::names`].
    Resume(u32),
    Yield,
    Fork(u32),
    WaitChildren,
    Exit,
    SetSched(Sched),
    /// [`NONE`] for the default.
    SetSlice(u64),
    /// Index of [`Code::affinities`].
    SetAffinity(u32),
    Count(u64),
    /// Begin of a loop: jump behind its end at `end` if `times` is 0; [`NONE`] for ever.
    Enter {
        end: u32,
        times: u64,
    },
    /// End of a loop that begins at `start`.
    Again {
        start: u32,
    },
}

/// All programs, one behind the other, each ending with [`Instr::Exit`].
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) instrs: Vec<Instr>,
    /// First instruction of each program.
    pub(crate) starts: Vec<u32>,
    pub(crate) durs: Vec<Dur>,
    /// Work and spacing of `cond_resched`, ns.
    pub(crate) conds: Vec<(Dur, u64)>,
    /// Time to stop and stretch between two looks, ns.
    pub(crate) untils: Vec<(u64, u64)>,
    pub(crate) names: Vec<String>,
    pub(crate) affinities: Vec<Vec<u32>>,
}

impl Code {
    /// Flattens programs. `conds`: whether `cond_resched` is a place to reschedule at all.
    pub(crate) fn compile(programs: &[Program], conds: bool) -> Self {
        let mut code = Self::default();
        for p in programs {
            code.starts.push(code.instrs.len() as u32);
            code.flatten(&p.ops, conds);
            code.instrs.push(Instr::Exit);
        }
        code
    }

    fn dur(&mut self, d: Dur) -> u32 {
        self.durs.push(d);
        self.durs.len() as u32 - 1
    }

    fn flatten(&mut self, ops: &[Op], conds: bool) {
        for op in ops {
            let instr = match op {
                Op::Loop { times, body } => {
                    let start = self.instrs.len();
                    self.instrs.push(Instr::Exit);
                    self.flatten(body, conds);
                    self.instrs.push(Instr::Again {
                        start: start as u32,
                    });
                    self.instrs[start] = Instr::Enter {
                        end: self.instrs.len() as u32,
                        times: times.unwrap_or(NONE),
                    };
                    continue;
                }
                Op::Run {
                    work,
                    mode: Mode::Kernel,
                    cond_resched: Some(spacing),
                } if conds => {
                    self.conds.push((*work, spacing.0));
                    Instr::RunCond(self.conds.len() as u32 - 1)
                }
                Op::Run {
                    work: Dur::Fixed(ns),
                    mode,
                    ..
                } => Instr::Run {
                    mode: *mode,
                    ns: ns.0,
                },
                Op::Run { work, mode, .. } => Instr::RunDrawn {
                    mode: *mode,
                    work: self.dur(*work),
                },
                Op::RunUntil { until, check } => {
                    self.untils.push((until.0, check.0));
                    Instr::RunUntil(self.untils.len() as u32 - 1)
                }
                Op::Sleep(d) => Instr::Sleep(self.dur(*d)),
                Op::BlockIo(d) => Instr::BlockIo(self.dur(*d)),
                Op::Timer {
                    timer,
                    period,
                    absolute,
                } => Instr::Timer {
                    timer: timer.0,
                    absolute: *absolute,
                    period: period.0,
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
                Op::HandOver { post, tail, wait } => Instr::HandOver {
                    post: post.0,
                    wait: wait.0,
                    tail: u32::try_from(tail.0).unwrap_or(u32::MAX),
                },
                Op::Suspend => Instr::Suspend,
                Op::Resume { task } => {
                    self.names.push(task.clone());
                    Instr::Resume(self.names.len() as u32 - 1)
                }
                Op::Yield => Instr::Yield,
                Op::Fork { program } => Instr::Fork(program.0),
                Op::WaitChildren => Instr::WaitChildren,
                Op::Exit => Instr::Exit,
                Op::SetSched(s) => Instr::SetSched(*s),
                Op::SetSlice(s) => Instr::SetSlice(s.map_or(NONE, |s| s.0)),
                Op::SetAffinity(list) => {
                    self.affinities.push(list.clone());
                    Instr::SetAffinity(self.affinities.len() as u32 - 1)
                }
                Op::Count { units } => Instr::Count(*units),
            };
            self.instrs.push(instr);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_fair::Ns;

    #[test]
    fn instructions_are_small() {
        assert_eq!(size_of::<Instr>(), 16);
    }

    #[test]
    fn loops_jump_behind_their_ends() {
        let body = vec![Op::Yield];
        let inner = Op::Loop {
            times: Some(2),
            body,
        };
        let p = Program {
            name: "p".into(),
            ops: vec![Op::Loop {
                times: None,
                body: vec![inner, Op::SetSlice(Some(Ns(7)))],
            }],
        };
        let code = Code::compile(&[p.clone(), p], true);
        let text = format!("{:?}", &code.instrs[..7]);
        assert_eq!(
            text,
            format!(
                "[Enter {{ end: 6, times: {NONE} }}, Enter {{ end: 4, times: 2 }}, Yield, \
                 Again {{ start: 1 }}, SetSlice(7), Again {{ start: 0 }}, Exit]"
            )
        );
        assert_eq!(code.starts, [0, 7]);
    }
}
