//! The same rule, written down plainly over a `BTreeSet`: one queue, EEVDF as in 6.12 with DELAY_DEQUEUE off.
//!
//! This is what one would write from the description: the set ordered by deadline and insertion, S' and L'
//! kept as sums in 128 bits, eligibility by cross multiplication, the pick a walk from the front to the first eligible entity. It keeps
//! no load averages, groups, counters, buddies or quota, which the class does as well.

use std::collections::BTreeSet;

use schedlab_fair::weight::{Load, calc_delta_fair};

/// An entity.
#[derive(Clone)]
pub(crate) struct Ent {
    load: Load,
    /// Down-scaled.
    weight: u64,
    vruntime: u64,
    deadline: u64,
    /// Saved lag off the queue, the protection marker while running.
    vlag: i64,
    slice: u64,
    exec_start: u64,
    seq: u64,
    on_rq: bool,
}

/// A queue with its entities.
#[derive(Clone)]
pub(crate) struct BTreeQueue {
    pub(crate) ents: Vec<Ent>,
    tree: BTreeSet<(u64, u64, u32)>,
    /// Σ w·v and Σ w over the tree.
    sum_wv: i128,
    sum_w: i128,
    curr: Option<u32>,
    next_seq: u64,
    tick: u64,
}

impl BTreeQueue {
    pub(crate) fn new(tick: u64) -> Self {
        Self {
            ents: Vec::new(),
            tree: BTreeSet::new(),
            sum_wv: 0,
            sum_w: 0,
            curr: None,
            next_seq: 0,
            tick,
        }
    }

    pub(crate) fn add(&mut self, nice: i8, slice: u64) -> u32 {
        self.ents.push(Ent {
            load: Load::of_nice(nice),
            weight: Load::of_nice(nice).weight.down(),
            vruntime: 0,
            deadline: 0,
            vlag: 0,
            slice,
            exec_start: 0,
            seq: 0,
            on_rq: false,
        });
        (self.ents.len() - 1) as u32
    }

    fn weight(&self, id: u32) -> i128 {
        i128::from(self.ents[id as usize].weight)
    }

    fn sums(&self) -> (i128, i128) {
        match self.curr {
            Some(c) if self.ents[c as usize].on_rq => {
                let w = self.weight(c);
                let v = i128::from(self.ents[c as usize].vruntime);
                (self.sum_wv + w * v, self.sum_w + w)
            }
            _ => (self.sum_wv, self.sum_w),
        }
    }

    fn v(&self) -> u64 {
        let (s, l) = self.sums();
        if l == 0 { 0 } else { s.div_euclid(l) as u64 }
    }

    fn eligible(&self, id: u32) -> bool {
        let (s, l) = self.sums();
        s >= i128::from(self.ents[id as usize].vruntime) * l
    }

    fn insert(&mut self, id: u32) {
        self.next_seq += 1;
        let w = self.weight(id);
        let e = &mut self.ents[id as usize];
        e.seq = self.next_seq;
        self.sum_wv += w * i128::from(e.vruntime);
        self.sum_w += w;
        self.tree.insert((e.deadline, e.seq, id));
    }

    fn remove(&mut self, id: u32) {
        let w = self.weight(id);
        let e = &self.ents[id as usize];
        self.sum_wv -= w * i128::from(e.vruntime);
        self.sum_w -= w;
        self.tree.remove(&(e.deadline, e.seq, id));
    }

    pub(crate) fn charge(&mut self, now: u64) {
        let Some(c) = self.curr else { return };
        let e = &mut self.ents[c as usize];
        let delta = now - e.exec_start;
        if delta == 0 || !e.on_rq {
            return;
        }
        e.exec_start = now;
        e.vruntime += calc_delta_fair(delta, e.load);
        if e.vruntime >= e.deadline {
            e.deadline = e.vruntime + calc_delta_fair(e.slice, e.load);
        }
    }

    pub(crate) fn enqueue(&mut self, id: u32, fork: bool) {
        let (_, l) = self.sums();
        let v = self.v();
        let w = self.weight(id);
        let e = &mut self.ents[id as usize];
        let lag = if l > 0 {
            i128::from(e.vlag) * (l + w) / l
        } else {
            0
        };
        e.vruntime = v.wrapping_sub(lag as u64);
        let vslice = calc_delta_fair(e.slice, e.load);
        e.deadline = e.vruntime + if fork { vslice / 2 } else { vslice };
        e.on_rq = true;
        self.insert(id);
    }

    pub(crate) fn dequeue(&mut self, id: u32) {
        let v = self.v();
        let e = &mut self.ents[id as usize];
        let limit = calc_delta_fair((2 * e.slice).max(self.tick), e.load) as i64;
        e.vlag = (v.wrapping_sub(e.vruntime) as i64).clamp(-limit, limit);
        e.on_rq = false;
        if self.curr != Some(id) {
            self.remove(id);
        }
    }

    pub(crate) fn pick(&mut self, now: u64) -> Option<u32> {
        let best = self.choose();
        if best != self.curr {
            if let Some(prev) = self.curr.take()
                && self.ents[prev as usize].on_rq
            {
                self.insert(prev);
            }
            if let Some(next) = best {
                self.remove(next);
                let e = &mut self.ents[next as usize];
                e.vlag = e.deadline as i64;
                e.exec_start = now;
            }
            self.curr = best;
        }
        best
    }

    fn choose(&self) -> Option<u32> {
        let curr = self
            .curr
            .filter(|&c| self.ents[c as usize].on_rq && self.eligible(c));
        if let Some(c) = curr {
            let e = &self.ents[c as usize];
            if e.vlag == e.deadline as i64 {
                return Some(c);
            }
        }
        let first = self.tree.iter().find(|k| self.eligible(k.2));
        match (first, curr) {
            (Some(f), Some(c)) if self.ents[c as usize].deadline < f.0 => Some(c),
            (Some(f), _) => Some(f.2),
            (None, c) => c,
        }
    }
}
