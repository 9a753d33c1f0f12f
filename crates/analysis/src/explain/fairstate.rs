//! The fair class's state as records tell it, and whom it would pick.

use std::collections::BTreeMap;

use schedlab_fair::Weight;
use schedlab_fair::weight::{Load, calc_delta_fair};
use schedlab_trace::Pid;

use crate::check::record::{Field, Kind, Record};
use crate::check::shadow::{Ent, Shadow};

/// Why a queued fair task does not run while another fair task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Not enough is known.
    Unknown,
    /// It is off its queue, or its group is: out of quota.
    Throttled,
    /// The running task has been put away and the next is not there yet.
    Switching,
    /// The running task has left the fair class.
    OtherClass,
    /// A pick would choose it; `protected`: the running task's protection holds.
    Wins { protected: bool },
    /// It is not eligible; whose turn it is, if not the running task's.
    Ineligible { turn: Option<Pid> },
    /// It is eligible, but another's deadline is earlier.
    Later { turn: Option<Pid> },
}

/// One entity in a pick.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    addr: u64,
    vr: u64,
    dl: u64,
    weight: u64,
    delayed: bool,
    running: bool,
}

/// State of entities and queues, as recorded so far.
#[derive(Clone, Debug, Default)]
pub(super) struct FairState {
    shadow: Shadow,
    by_pid: BTreeMap<Pid, u64>,
    /// Group entity that owns a queue.
    owner: BTreeMap<u64, u64>,
    /// CPU of a queue.
    cpu_of: BTreeMap<u64, u32>,
    /// What to take from a time to get the CPU's `clock_task`.
    offset: BTreeMap<u32, u64>,
    /// End of the protection, where it is recorded.
    vprot: BTreeMap<u64, u64>,
}

impl FairState {
    /// Takes a record in.
    pub(super) fn apply(&mut self, r: &Record) {
        if r.kind == Kind::Other {
            return;
        }
        self.shadow.apply(r);
        let (se, cfs) = (r.get(Field::Se), r.get(Field::Cfs));
        if matches!(r.kind, Kind::SetNext | Kind::PutPrev) {
            self.cpu_of.insert(cfs, r.cpu);
        }
        if r.has(Field::Clk) {
            let cpu = self.cpu_of.get(&cfs).copied().unwrap_or(r.cpu);
            self.offset
                .insert(cpu, r.ts.wrapping_sub(r.get(Field::Clk)));
        }
        if se == 0 {
            return;
        }
        if r.has(Field::Vprot) {
            self.vprot.insert(se, r.get(Field::Vprot));
        }
        if r.has(Field::Grp) && r.get(Field::Grp) != 0 {
            self.owner.insert(r.get(Field::Grp), se);
        } else if let (true, Ok(pid)) = (r.has(Field::Pid), Pid::try_from(r.get(Field::Pid))) {
            self.by_pid.insert(pid, se);
        }
    }

    /// Whether a task is off its queue, or its group is: out of quota.
    pub(super) fn stopped(&self, pid: Pid) -> bool {
        self.chain(pid)
            .is_some_and(|x| x.iter().any(|(_, e)| !e.on_rq))
    }

    /// What the rules say of `waiter`, queued on `cpu` while `running` runs there, at a time.
    pub(super) fn verdict(&self, waiter: Pid, running: Pid, cpu: u32, ts: u64) -> Verdict {
        let (Some(x), Some(y)) = (self.chain(waiter), self.chain(running)) else {
            return Verdict::Unknown;
        };
        if x.iter().any(|(_, e)| !e.on_rq) {
            return Verdict::Throttled;
        }
        // The level on which both have an entity.
        let common = x
            .iter()
            .enumerate()
            .find_map(|(i, (_, e))| Some((i, y.iter().find(|(_, o)| o.cfs == e.cfs)?)));
        let Some((level, &(running, curr))) = common else {
            return Verdict::Unknown;
        };
        let queue = curr.cfs;
        let set = self.shadow.queues.get(&queue).and_then(|q| q.curr);
        match set {
            None => return Verdict::Unknown,
            // Taken off for a change of its attributes, and not put back.
            Some(0) if !curr.on_rq && curr.rel => return Verdict::OtherClass,
            Some(set) if set != running || !curr.on_rq => return Verdict::Switching,
            Some(_) => {}
        }
        let Some(vr) = self.vruntime_at(curr, cpu, ts) else {
            return Verdict::Unknown;
        };
        // From the level of both down to the waiter itself.
        for (i, &(addr, _)) in x[..=level].iter().enumerate().rev() {
            let here = (i == level).then_some((running, vr));
            let cfs = x[i].1.cfs;
            let Some((winner, eligible)) = self.pick(cfs, here, addr) else {
                return Verdict::Unknown;
            };
            if winner != addr {
                let turn = (winner != running).then(|| self.task_of(winner)).flatten();
                return if eligible {
                    Verdict::Later { turn }
                } else {
                    Verdict::Ineligible { turn }
                };
            }
        }
        Verdict::Wins {
            protected: self.protected(running, curr, vr),
        }
    }

    /// A task's entity and those above it, with their addresses.
    fn chain(&self, pid: Pid) -> Option<Vec<(u64, &Ent)>> {
        let mut addr = *self.by_pid.get(&pid)?;
        let mut out = Vec::new();
        loop {
            let e = self.shadow.ents.get(&addr)?;
            if out.is_empty() && (e.pid != i64::from(pid) || e.grp != 0) {
                return None;
            }
            out.push((addr, e));
            match self.owner.get(&e.cfs) {
                // Deeper than any hierarchy: addresses were used anew.
                Some(_) if out.len() > 64 => return None,
                Some(&above) => addr = above,
                None => return Some(out),
            }
        }
    }

    fn task_of(&self, addr: u64) -> Option<Pid> {
        let e = self.shadow.ents.get(&addr).filter(|e| e.grp == 0)?;
        Pid::try_from(e.pid).ok()
    }

    /// The running entity's vruntime with the time since its last charge.
    fn vruntime_at(&self, e: &Ent, cpu: u32, ts: u64) -> Option<u64> {
        let clock = ts.wrapping_sub(*self.offset.get(&cpu)?);
        let ran = clock.wrapping_sub(e.exec_start);
        let ran = if (ran as i64) < 0 { 0 } else { ran };
        Some(e.vr.wrapping_add(calc_delta_fair(ran, load(e)?)))
    }

    fn protected(&self, addr: u64, e: &Ent, vr: u64) -> bool {
        match self.vprot.get(&addr) {
            Some(&end) => before(vr, end),
            None => e.dl.is_some_and(|dl| e.vlag == dl && before(vr, dl)),
        }
    }

    /// Whom a pick without protection would choose on a queue, ends of delays included, and whether `asked` is
    /// eligible then. `running`: the entity that runs and its vruntime.
    fn pick(&self, queue: u64, running: Option<(u64, u64)>, asked: u64) -> Option<(u64, bool)> {
        let mut list = self.candidates(queue, running)?;
        loop {
            let first = list.first()?.vr;
            let key = |c: &Candidate| i128::from(c.vr.wrapping_sub(first) as i64);
            let sum: i128 = list.iter().map(|c| key(c) * i128::from(c.weight)).sum();
            let weight: i128 = list.iter().map(|c| i128::from(c.weight)).sum();
            let eligible = |c: &Candidate| sum >= key(c) * weight;
            let mut best: Option<&Candidate> = None;
            for c in list.iter().filter(|c| eligible(c)) {
                best = match best {
                    // Equal deadlines: who joined first, and anybody before the one that runs.
                    Some(b) if before(b.dl, c.dl) || (b.dl == c.dl && !b.running) => Some(b),
                    _ => Some(c),
                };
            }
            let winner = *best?;
            if winner.delayed && list.len() > 1 {
                list.retain(|c| c.addr != winner.addr);
                continue;
            }
            let asked = list.iter().find(|c| c.addr == asked)?;
            return Some((winner.addr, eligible(asked)));
        }
    }

    fn candidates(&self, queue: u64, running: Option<(u64, u64)>) -> Option<Vec<Candidate>> {
        let mut out = Vec::new();
        for addr in self.shadow.members(queue) {
            let e = self.shadow.ents.get(&addr)?;
            let runs = running.filter(|&(a, _)| a == addr);
            let vr = runs.map_or(e.vr, |(_, vr)| vr);
            let mut dl = e.dl?;
            if runs.is_some() && !before(vr, dl) {
                // A pick charges first, which renews a deadline that is reached.
                dl = vr.wrapping_add(calc_delta_fair(e.slice?, load(e)?));
            }
            out.push(Candidate {
                addr,
                vr,
                dl,
                weight: Weight(e.w?).down(),
                delayed: e.delayed,
                running: runs.is_some(),
            });
        }
        Some(out)
    }
}

/// Signed comparison, as virtual times wrap.
fn before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

fn load(e: &Ent) -> Option<Load> {
    Some(Load::of_weight(Weight(e.w?)))
}
