//! What a recording itself says of every entity and queue, so that a replay can begin in the middle and
//! begin again after a difference.

use std::collections::BTreeMap;

use schedlab_fair::{EntityId, QueueId, Recorded, Vns, Weight};

use super::record::{Field, Kind, Record};

const SLEEP: u64 = 0x01;
const DELAYED: u64 = 0x200;

/// An entity as recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ent {
    pub(crate) id: Option<EntityId>,
    pub(crate) cfs: u64,
    pub(crate) grp: u64,
    pub(crate) pid: i64,
    pub(crate) vr: u64,
    pub(crate) dl: Option<u64>,
    pub(crate) vlag: u64,
    pub(crate) slice: Option<u64>,
    pub(crate) w: Option<u64>,
    pub(crate) delayed: bool,
    pub(crate) rel: bool,
    pub(crate) sum: Option<u64>,
    pub(crate) exec_start: u64,
    pub(crate) on_rq: bool,
    /// Order of entry into the tree, for ties of deadlines.
    pub(crate) order: u64,
}

/// A queue as recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Que {
    pub(crate) id: Option<QueueId>,
    pub(crate) zv: Option<u64>,
    pub(crate) nr: Option<u64>,
    /// `None`: not known; `Some(0)`: no entity runs at this level.
    pub(crate) curr: Option<u64>,
}

/// Everything recorded so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadow {
    pub(crate) ents: BTreeMap<u64, Ent>,
    pub(crate) queues: BTreeMap<u64, Que>,
    orders: u64,
}

impl Shadow {
    /// Takes a record in.
    pub(crate) fn apply(&mut self, r: &Record) {
        if r.kind == Kind::Other {
            return;
        }
        let cfs = r.get(Field::Cfs);
        if r.has(Field::Cfs) {
            self.apply_queue(cfs, r);
        }
        let se = r.get(Field::Se);
        if !r.has(Field::Se) || se == 0 {
            return;
        }
        self.orders += 1;
        let order = self.orders;
        let e = self.ents.entry(se).or_default();
        if r.has(Field::Cfs) {
            e.cfs = cfs;
        }
        if r.has(Field::Grp) {
            e.grp = r.get(Field::Grp);
            if e.grp == 0 {
                e.pid = r.get(Field::Pid) as i64;
            }
        }
        let field = |f, old: Option<u64>| if r.has(f) { Some(r.get(f)) } else { old };
        e.vr = field(Field::Vr, Some(e.vr)).unwrap_or(0);
        e.dl = field(Field::Dl, e.dl);
        e.vlag = field(Field::Vlag, Some(e.vlag)).unwrap_or(0);
        e.slice = field(Field::Slice, e.slice);
        e.w = field(Field::W, e.w);
        e.sum = field(Field::Sum, e.sum);
        if r.has(Field::Delayed) {
            e.delayed = r.get(Field::Delayed) != 0;
        }
        match r.kind {
            Kind::Enqueue => {
                e.on_rq = true;
                e.order = order;
                e.rel = false;
            }
            Kind::Place => {
                e.order = order;
                e.rel = false;
            }
            Kind::Dequeue if r.get(Field::Ret) != 0 => {
                e.on_rq = false;
                e.rel = r.get(Field::Fl) & SLEEP == 0;
                if r.get(Field::Fl) & DELAYED != 0 {
                    e.delayed = false;
                }
            }
            Kind::Curr => {
                e.exec_start = r.get(Field::Clk);
                // A level's current entity may be one that has just left the queue.
                if e.order == 0 {
                    e.on_rq = true;
                    e.order = order;
                }
            }
            Kind::SetNext => {
                e.exec_start = r.get(Field::Clk);
                e.on_rq = true;
            }
            Kind::PutPrev => {
                e.on_rq = r.get(Field::OnRq) != 0;
                e.order = order;
            }
            Kind::Pick | Kind::Deadline => {
                e.on_rq = true;
                if e.order == 0 {
                    e.order = order;
                }
            }
            Kind::Requeue => e.delayed = false,
            _ => {}
        }
    }

    fn apply_queue(&mut self, cfs: u64, r: &Record) {
        let q = self.queues.entry(cfs).or_default();
        if r.has(Field::Zv) {
            q.zv = Some(r.get(Field::Zv));
        }
        if r.has(Field::Nr) {
            let joins = u64::from(r.kind == Kind::Enqueue);
            q.nr = Some(r.get(Field::Nr) + joins);
        }
        match r.kind {
            Kind::Curr | Kind::SetNext => q.curr = Some(r.get(Field::Se)),
            Kind::PutPrev => q.curr = Some(0),
            _ => {}
        }
    }

    /// Whether the queues' contents are known in full.
    pub(crate) fn complete(&self) -> bool {
        let mut members: BTreeMap<u64, u64> = BTreeMap::new();
        for e in self.ents.values().filter(|e| e.on_rq) {
            if e.dl.is_none() || e.slice.is_none() || e.w.is_none() {
                return false;
            }
            *members.entry(e.cfs).or_default() += 1;
        }
        // A group whose entity is off its queue, and whose own queue was never seen at work, is empty.
        let idle = |addr: &u64| {
            self.queues[addr].nr.is_none() && self.ents.values().any(|e| e.grp == *addr && !e.on_rq)
        };
        self.queues.iter().all(|(addr, q)| {
            let n = members.get(addr).copied().unwrap_or(0);
            (idle(addr) && n == 0)
                || q.curr.is_some() && q.nr == Some(n) && (q.id.is_some() || n == 0)
        }) && members.keys().all(|cfs| self.queues.contains_key(cfs))
    }

    /// Entities on a queue, in the order in which they entered the tree.
    pub(crate) fn members(&self, cfs: u64) -> Vec<u64> {
        let mut list: Vec<(u64, u64)> = self
            .ents
            .iter()
            .filter(|(_, e)| e.on_rq && e.cfs == cfs)
            .map(|(&addr, e)| (e.order, addr))
            .collect();
        list.sort_unstable();
        list.into_iter().map(|(_, addr)| addr).collect()
    }
}

impl Ent {
    /// The state to put into the class.
    pub(crate) fn state(&self, base_slice: u64) -> Recorded {
        let slice = self.slice.unwrap_or(base_slice);
        Recorded {
            vruntime: Vns(self.vr),
            deadline: Vns(self.dl.unwrap_or(self.vr)),
            vlag: self.vlag as i64,
            slice,
            weight: Weight(self.w.unwrap_or(Weight::NICE_0.0)),
            sched_delayed: self.delayed,
            rel_deadline: self.rel,
            custom_slice: slice != base_slice || self.grp != 0,
            sum_exec_runtime: self.sum.unwrap_or(0),
            exec_start: self.exec_start,
        }
    }
}
