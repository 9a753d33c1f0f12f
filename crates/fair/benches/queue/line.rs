//! The same rule over the crate's [`Timeline`]: what the class does at one level, and nothing around it.

use schedlab_fair::timeline::{Running, Timeline, Waiting};
use schedlab_fair::weight::{Load, calc_delta_fair};
use schedlab_fair::{EntityId, Vns};

/// An entity.
#[derive(Clone)]
struct Ent {
    load: Load,
    /// Down-scaled.
    weight: u64,
    vruntime: Vns,
    deadline: Vns,
    /// Saved lag off the queue, the protection marker while running.
    vlag: i64,
    slice: u64,
    exec_start: u64,
    on_rq: bool,
}

impl Ent {
    fn waiting(&self, id: u32) -> Waiting {
        Waiting {
            id: EntityId(id),
            deadline: self.deadline,
            vruntime: self.vruntime,
            slice: self.slice,
            weight: self.weight,
        }
    }
}

/// A queue with its entities.
#[derive(Clone)]
pub(crate) struct LineQueue {
    ents: Vec<Ent>,
    line: Timeline,
    curr: Option<u32>,
    tick: u64,
}

impl LineQueue {
    pub(crate) fn new(tick: u64) -> Self {
        Self {
            ents: Vec::new(),
            line: Timeline::new(Vns(0)),
            curr: None,
            tick,
        }
    }

    pub(crate) fn add(&mut self, nice: i8, slice: u64) -> u32 {
        self.ents.push(Ent {
            load: Load::of_nice(nice),
            weight: Load::of_nice(nice).weight.down(),
            vruntime: Vns(0),
            deadline: Vns(0),
            vlag: 0,
            slice,
            exec_start: 0,
            on_rq: false,
        });
        (self.ents.len() - 1) as u32
    }

    fn running(&self) -> Option<Running> {
        let e = &self.ents[self.curr? as usize];
        e.on_rq.then_some(Running {
            vruntime: e.vruntime,
            weight: e.weight,
        })
    }

    pub(crate) fn charge(&mut self, now: u64) {
        let Some(c) = self.curr else { return };
        let e = &mut self.ents[c as usize];
        let delta = now - e.exec_start;
        if delta == 0 || !e.on_rq {
            return;
        }
        e.exec_start = now;
        e.vruntime = e.vruntime.plus(calc_delta_fair(delta, e.load));
        if !e.vruntime.before(e.deadline) {
            e.deadline = e.vruntime.plus(calc_delta_fair(e.slice, e.load));
        }
    }

    pub(crate) fn enqueue(&mut self, id: u32, fork: bool) {
        let running = self.running();
        let e = &mut self.ents[id as usize];
        e.vruntime = self.line.place(e.vlag, e.weight, running);
        let vslice = calc_delta_fair(e.slice, e.load);
        e.deadline = e.vruntime.plus(if fork { vslice / 2 } else { vslice });
        e.on_rq = true;
        self.line.insert(&e.waiting(id));
    }

    pub(crate) fn dequeue(&mut self, id: u32) {
        let v = self.line.v(self.running());
        // Now and then, so that the keys stay small. No answer depends on it.
        if v.minus(self.line.anchor) > 1 << 22 {
            self.line.move_anchor(v);
        }
        let e = &mut self.ents[id as usize];
        let limit = calc_delta_fair((2 * e.slice).max(self.tick), e.load) as i64;
        e.vlag = v.minus(e.vruntime).clamp(-limit, limit);
        e.on_rq = false;
        if self.curr != Some(id) {
            self.line.remove(&e.waiting(id));
        }
    }

    pub(crate) fn pick(&mut self, now: u64) -> Option<u32> {
        let best = self.choose();
        if best != self.curr {
            if let Some(prev) = self.curr {
                let e = &self.ents[prev as usize];
                if e.on_rq {
                    self.line.insert(&e.waiting(prev));
                }
            }
            if let Some(next) = best {
                let e = &mut self.ents[next as usize];
                self.line.remove(&e.waiting(next));
                e.vlag = e.deadline.0 as i64;
                e.exec_start = now;
            }
            self.curr = best;
        }
        best
    }

    fn choose(&self) -> Option<u32> {
        let running = self.running();
        let curr = match (self.curr, running) {
            (Some(c), Some(r)) if self.line.eligible(running, r.vruntime) => Some(c),
            _ => None,
        };
        if let Some(c) = curr {
            let e = &self.ents[c as usize];
            if e.vlag == e.deadline.0 as i64 {
                return Some(c);
            }
        }
        let first = self.line.pick(running).map(|id| id.0);
        match (first, curr) {
            (Some(f), Some(c))
                if self.ents[c as usize]
                    .deadline
                    .before(self.ents[f as usize].deadline) =>
            {
                Some(c)
            }
            (Some(f), _) => Some(f),
            (None, c) => c,
        }
    }
}
