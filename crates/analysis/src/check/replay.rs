//! The replay: recorded inputs drive the class, and each of its steps is compared with the next record.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_fair::{
    Class, CpuId, Dequeue, Enqueue, EntityId, GroupAttr, GroupId, Hooks, Ns, Point, Profile,
    QueueId, Resched, TaskAttr, TaskId, TaskPolicy, Wake, Weight,
};

use super::record::{Caller, Field, Kind, Record};
use super::report::{CheckReport, Difference, FieldPair, KEEP};
use super::shadow::Shadow;

const CPU: CpuId = CpuId(0);
const SLEEP_OR_NEW: u64 = 0x81;

/// What a check needs to know beside the recording.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Rules and switches of the recorded kernel.
    pub profile: Profile,
    /// Its tick rate.
    pub hz: u32,
    /// A kernel's tree keeps too large a smallest slice after some rotations; a simulated one does not.
    pub kernels_min_slice: bool,
}

impl Default for CheckOptions {
    /// `6.12-stable` at 250 Hz, as the given recordings were made.
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            hz: 250,
            kernels_min_slice: true,
        }
    }
}

/// Replays the records, CPU by CPU, and compares.
#[must_use]
pub fn check_records(records: &[Record], options: &CheckOptions) -> CheckReport {
    let mut cpus = by_cpu(records);
    let mut report = CheckReport::default();
    if cpus.len() <= 1 {
        report = check_cpu(records, options);
    } else {
        while let Some((_, own)) = cpus.pop_first() {
            report.add(check_cpu(&own, options));
        }
    }
    report.events = records.last().map_or(0, |r| r.number);
    report.records = records.iter().filter(|r| r.kind != Kind::Other).count() as u64;
    report
}

fn check_cpu(records: &[Record], options: &CheckOptions) -> CheckReport {
    let mut replay = Replay::new(records, options);
    replay.run();
    replay.lock.report
}

/// The records of each CPU's queues, whichever CPU's code made them.
fn by_cpu(records: &[Record]) -> BTreeMap<u32, Vec<Record>> {
    // Who is put and set is put and set on the queue's own CPU.
    let own: BTreeMap<u64, u32> = records
        .iter()
        .filter(|r| matches!(r.kind, Kind::SetNext | Kind::PutPrev))
        .map(|r| (r.get(Field::Cfs), r.cpu))
        .collect();
    let mut queue_of: BTreeMap<u64, u64> = BTreeMap::new();
    let mut out: BTreeMap<u32, Vec<Record>> = BTreeMap::new();
    for r in records {
        let se = r.get(Field::Se);
        if r.has(Field::Cfs) && se != 0 {
            queue_of.insert(se, r.get(Field::Cfs));
        }
        let queue = if r.has(Field::Cfs) {
            Some(r.get(Field::Cfs))
        } else if r.has(Field::Se) {
            queue_of.get(&se).copied()
        } else {
            None
        };
        let cpu = queue.and_then(|q| own.get(&q).copied()).unwrap_or(r.cpu);
        out.entry(cpu).or_default().push(r.clone());
    }
    out
}

struct Replay<'a> {
    class: Class,
    shadow: Shadow,
    lock: Lock<'a>,
    /// Records before this one are in the shadow.
    shadowed: usize,
    /// The class's state is known and stepped in lock with the records.
    settled: bool,
    picked: Option<TaskId>,
    /// Tasks whose policy may have changed since a wakeup last told it: first seen, or reweighted.
    policy_open: BTreeSet<EntityId>,
    snapshot: Snapshot,
}

/// Whether debugfs has been read since the last operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Snapshot {
    None,
    Open,
    Closed,
}

impl<'a> Replay<'a> {
    fn new(records: &'a [Record], options: &'a CheckOptions) -> Self {
        let mut replay = Self {
            class: Class::new(options.profile, 1, options.hz),
            shadow: Shadow::default(),
            lock: Lock {
                records,
                pos: 0,
                report: CheckReport::default(),
                ents: Vec::new(),
                queues: Vec::new(),
                sum_offset: BTreeMap::new(),
                dirty: false,
                lost: false,
                fresh: None,
                limited: records
                    .iter()
                    .filter(|r| r.kind == Kind::Dequeue && r.caller == Caller::Throttle)
                    .map(|r| r.get(Field::Se))
                    .collect(),
            },
            shadowed: 0,
            settled: false,
            picked: None,
            policy_open: BTreeSet::new(),
            snapshot: Snapshot::None,
        };
        if options.kernels_min_slice {
            replay.class.imitate_min_slice();
        }
        replay.build_groups(records);
        replay
    }

    /// A record at which no operation begins: a step that ours ended before, or an operation not known here.
    fn unexpected(&mut self, at: usize) {
        self.lock.lost = true;
        let records = self.lock.records;
        let r = &records[at];
        let caller = match r.kind {
            Kind::Deadline => records[at..]
                .iter()
                .find(|r| r.kind == Kind::Curr)
                .map_or(Caller::Other, |r| r.caller),
            _ => r.caller,
        };
        let inner = matches!(
            caller,
            Caller::EnqueueEntity
                | Caller::DequeueEntity
                | Caller::WakeupPreempt
                | Caller::Tick
                | Caller::Yield
                | Caller::RequeueDelayed
                | Caller::ReweightEntity
        );
        if inner {
            let kernel = r.kind.name().to_string();
            let ours = "end of the operation".to_string();
            self.lock
                .differs(&self.class, r, "next step", ours, kernel, None);
        } else {
            self.lock
                .undecided("step that belongs to no known operation");
        }
    }

    /// Makes a group for each queue that a group entity owns, parents first.
    fn build_groups(&mut self, records: &[Record]) {
        // own queue -> (entity, queue it is on)
        let mut owners: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut seen: BTreeSet<u64> = BTreeSet::new();
        for r in records {
            if r.has(Field::Cfs) {
                seen.insert(r.get(Field::Cfs));
            }
            if r.has(Field::Grp) && r.get(Field::Grp) != 0 && r.has(Field::Cfs) {
                owners.insert(r.get(Field::Grp), (r.get(Field::Se), r.get(Field::Cfs)));
                seen.insert(r.get(Field::Grp));
            }
        }
        let root = self.class.rq(CPU).cfs;
        let mut made: BTreeMap<u64, GroupId> = BTreeMap::new();
        for &q in seen.iter().filter(|q| !owners.contains_key(q)) {
            // One CPU has one root queue; others without owner are groups whose entity was never seen.
            made.insert(q, GroupId::ROOT);
            self.bind_queue(q, root);
        }
        loop {
            let next = owners
                .iter()
                .find(|(q, (_, on))| !made.contains_key(q) && made.contains_key(on))
                .map(|(&q, &(se, on))| (q, se, on));
            let Some((q, se, on)) = next else { break };
            let g = self.class.add_group(
                made[&on],
                GroupAttr {
                    shares: Weight::NICE_0,
                    idle: false,
                    bandwidth: None,
                },
            );
            made.insert(q, g);
            let group = self.class.group(g);
            let (queue, entity) = (group.queues[0], group.entities[0]);
            self.bind_queue(q, queue);
            self.bind_entity(se, entity);
            self.shadow.ents.entry(se).or_default().grp = q;
        }
    }

    fn bind_queue(&mut self, addr: u64, q: QueueId) {
        self.shadow.queues.entry(addr).or_default().id = Some(q);
        let list = &mut self.lock.queues;
        if list.len() <= q.index() {
            list.resize(q.index() + 1, 0);
        }
        list[q.index()] = addr;
    }

    fn bind_entity(&mut self, addr: u64, se: EntityId) {
        self.shadow.ents.entry(addr).or_default().id = Some(se);
        let list = &mut self.lock.ents;
        if list.len() <= se.index() {
            list.resize(se.index() + 1, 0);
        }
        list[se.index()] = addr;
    }

    fn run(&mut self) {
        while self.lock.pos < self.lock.records.len() {
            let r = &self.lock.records[self.lock.pos];
            if r.kind == Kind::Other {
                if r.snapshot == Some(true) {
                    self.snapshot = Snapshot::Open;
                } else if r.snapshot == Some(false) && self.snapshot == Snapshot::Open {
                    self.snapshot = Snapshot::Closed;
                }
                self.lock.pos += 1;
                continue;
            }
            if !self.settled {
                self.try_settle();
            }
            if !self.settled {
                self.lock
                    .undecided("state from before the recording's start or behind a difference");
                self.lock.pos += 1;
                self.catch_up();
                continue;
            }
            let start = self.lock.pos;
            self.lock.dirty = false;
            self.lock.lost = false;
            let pending = if r.lazy {
                Resched::Lazy
            } else if r.need_resched {
                Resched::Full
            } else {
                Resched::None
            };
            self.class.set_resched(CPU, pending);
            self.follow_snapshot();
            self.meet_queue();
            self.operation();
            if self.lock.pos == start {
                self.unexpected(start);
                self.lock.pos += 1;
            }
            self.catch_up();
            if self.lock.dirty || self.lock.lost {
                self.settled = false;
            }
        }
    }

    /// An empty queue that is first seen now may have a history: its anchor is taken from the record.
    fn meet_queue(&mut self) {
        let r = &self.lock.records[self.lock.pos];
        if r.kind != Kind::Enqueue {
            return;
        }
        let addr = r.get(Field::Cfs);
        let Some(q) = self.shadow.queues.get(&addr).filter(|q| q.zv.is_none()) else {
            return;
        };
        let (Some(id), zv) = (q.id, schedlab_fair::Vns(r.get(Field::Zv))) else {
            return;
        };
        if self.class.queue(id).anchor != zv && self.class.queue(id).nr_queued == 0 {
            self.class.set_anchor(id, zv);
            self.lock.input("anchor of a queue first seen");
        }
    }

    /// Reading `sched/debug` prints V of every queue, and computing V moves the `zero_vruntime` anchor there.
    ///
    /// The marks of the reader say only between which events that happened.
    fn follow_snapshot(&mut self) {
        if self.snapshot == Snapshot::None {
            return;
        }
        let records = self.lock.records;
        for i in 0..self.lock.queues.len() {
            let q = QueueId(i as u32);
            let addr = self.lock.queues[i];
            let next = records[self.lock.pos..]
                .iter()
                .find(|r| r.has(Field::Zv) && r.get(Field::Cfs) == addr);
            let Some(zv) = next.map(|r| schedlab_fair::Vns(r.get(Field::Zv))) else {
                continue;
            };
            if zv != self.class.queue(q).anchor && zv == self.class.v(q) {
                self.class.set_anchor(q, zv);
                self.lock.input("anchor moved by a read of debugfs");
            }
        }
        if self.snapshot == Snapshot::Closed {
            self.snapshot = Snapshot::None;
        }
    }

    /// Brings the shadow up to the present record.
    fn catch_up(&mut self) {
        for r in &self.lock.records[self.shadowed..self.lock.pos] {
            self.shadow.apply(r);
            if r.kind == Kind::Reweight && r.get(Field::Grp) != 0 {
                // On one CPU only an idle group weighs as little as an idle task.
                if let Some(q) = self
                    .shadow
                    .queues
                    .get(&r.get(Field::Grp))
                    .and_then(|q| q.id)
                {
                    let idle = r.get(Field::Neww) == Weight::IDLE.0;
                    self.class
                        .assume_group_idle(self.class.queue(q).group, idle);
                }
            }
        }
        self.shadowed = self.lock.pos;
    }

    /// Fills the class from the shadow, if an operation begins here and every queue is known in full.
    fn try_settle(&mut self) {
        let r = &self.lock.records[self.lock.pos];
        let begins = match r.kind {
            Kind::Tick | Kind::WakeupPreempt | Kind::Yield => true,
            Kind::Enqueue => r.get(Field::Grp) == 0,
            _ => false,
        };
        self.catch_up();
        if !begins || !self.shadow.complete() {
            return;
        }
        self.class.reset_cpu(CPU);
        // Deepest queues first, so that group entities can take their counters over.
        let mut queues: Vec<(u16, u64, QueueId)> = self
            .shadow
            .queues
            .iter()
            .filter_map(|(&addr, q)| {
                let id = q.id?;
                let owner = self.class.queue(id).owner;
                let depth = owner.map_or(0, |o| self.class.entity(o).depth + 1);
                Some((depth, addr, id))
            })
            .collect();
        queues.sort_unstable_by(|a, b| b.cmp(a));
        for (_, addr, id) in queues {
            let (zv, curr) = match self.shadow.queues.get(&addr) {
                Some(q) => (q.zv, q.curr.unwrap_or(0)),
                None => continue,
            };
            if let Some(zv) = zv {
                self.class.set_anchor(id, schedlab_fair::Vns(zv));
            }
            for se in self.shadow.members(addr) {
                let entity = self.entity_for(se);
                self.load_state(se, entity);
                self.class.insert_recorded(entity, curr == se);
            }
            let blocking = curr != 0 && self.shadow.ents.get(&curr).is_some_and(|e| !e.on_rq);
            if blocking {
                let entity = self.entity_for(curr);
                self.load_state(curr, entity);
                self.class.set_blocking_curr(entity);
            }
        }
        let off: Vec<u64> = self
            .shadow
            .ents
            .iter()
            .filter(|(_, e)| !e.on_rq && e.id.is_some())
            .map(|(&a, _)| a)
            .collect();
        for se in off {
            let entity = self.entity_for(se);
            self.load_state(se, entity);
        }
        self.settled = true;
        self.picked = None;
    }

    /// The class's entity for an address; a task is made when it is first met.
    fn entity_for(&mut self, addr: u64) -> EntityId {
        if let Some(id) = self.shadow.ents.get(&addr).and_then(|e| e.id) {
            return id;
        }
        let cfs = self.shadow.ents.get(&addr).map_or(0, |e| e.cfs);
        let group = self.group_of(cfs);
        let t = self.class.add_task(TaskAttr {
            group,
            ..TaskAttr::default()
        });
        self.bind_entity(addr, t.entity());
        t.entity()
    }

    fn group_of(&self, cfs: u64) -> GroupId {
        self.shadow
            .queues
            .get(&cfs)
            .and_then(|q| q.id)
            .map_or(GroupId::ROOT, |q| self.class.queue(q).group)
    }

    /// Copies an entity's recorded state into the class.
    fn load_state(&mut self, addr: u64, se: EntityId) {
        let base = self.class.base_slice().0;
        let Some(e) = self.shadow.ents.get(&addr) else {
            return;
        };
        let mut state = e.state(base);
        if let Some(slice) = self.lock.next_request(addr) {
            // A slice other than the default may be an old default that the next request replaces.
            state.custom_slice = slice != base || e.grp != 0;
        }
        let (is_task, cfs, sum_known) = (e.grp == 0, e.cfs, e.sum.is_some());
        if is_task {
            self.set_group(TaskId(se.0), cfs);
            self.policy_open.insert(se);
        }
        self.class.set_recorded(se, &state);
        if sum_known {
            self.lock.sum_offset.insert(addr, 0);
        } else {
            self.lock.sum_offset.remove(&addr);
        }
    }

    fn set_group(&mut self, t: TaskId, cfs: u64) {
        let group = self.group_of(cfs);
        if self.class.entity(t.entity()).group != group {
            self.class.set_group(t, group);
        }
    }

    /// Clock of the operation that begins here: that of its first record that shows one.
    fn now(&self) -> Ns {
        let next = self.lock.records[self.lock.pos..]
            .iter()
            .find(|r| r.has(Field::Clk));
        Ns(next.map_or(0, |r| r.get(Field::Clk)))
    }

    /// Recognises and performs the operation that begins at the present record.
    fn operation(&mut self) {
        let records = self.lock.records;
        let r = &records[self.lock.pos];
        let now = self.now();
        let picked = self.picked.take();
        match (r.kind, r.caller) {
            (Kind::Enqueue, _) if r.get(Field::Grp) == 0 => self.enqueue(r, now),
            (Kind::Enqueue, _) => {
                if let Some(q) = self.queue_id(r.get(Field::Grp)) {
                    self.class.unthrottle(q, now, &mut self.lock);
                }
            }
            (Kind::Lag | Kind::Place, Caller::RequeueDelayed) | (Kind::Requeue, _) => {
                if let Some(t) = self.task_at(r.get(Field::Se)) {
                    let flags = Enqueue::WAKEUP | Enqueue::DELAYED;
                    self.class.enqueue_task(CPU, t, flags, now, &mut self.lock);
                }
            }
            (Kind::WakeupPreempt, _) => self.wakeup_preempt(r, now),
            (Kind::Tick, _) => {
                self.lock.pos += 1;
                self.class
                    .task_tick(CPU, Ns(r.get(Field::Clk)), &mut self.lock);
            }
            (Kind::Yield, _) => {
                self.lock.pos += 1;
                self.class.yield_task(CPU, now, &mut self.lock);
            }
            (Kind::Deadline | Kind::Curr, _) => self.charge(now, picked),
            (Kind::Pick, Caller::PickTask | Caller::PickNextTask) => {
                self.picked = self.class.pick_task(CPU, now, &mut self.lock);
            }
            (Kind::PutPrev | Kind::SetNext, Caller::PickNextTask) => self.switch(now, picked),
            (Kind::PutPrev, _) => {
                if let Some(t) = self.task_at(r.get(Field::Se)) {
                    self.class.put_prev_task(CPU, t, now, &mut self.lock);
                }
            }
            (Kind::SetNext, _) => self.set_next(r, now, picked),
            (Kind::Reweight, _) => self.reweight(r, now),
            _ => {}
        }
    }

    fn queue_id(&self, addr: u64) -> Option<QueueId> {
        self.shadow.queues.get(&addr)?.id
    }

    /// The task behind an entity address, if it is one.
    fn task_at(&self, addr: u64) -> Option<TaskId> {
        let id = self.shadow.ents.get(&addr)?.id?;
        self.class.entity(id).is_task().then_some(TaskId(id.0))
    }

    fn enqueue(&mut self, r: &Record, now: Ns) {
        let addr = r.get(Field::Se);
        let flags = Enqueue(r.get(Field::Fl) as u32);
        let known = self.task_at(addr);
        // What it was when it left this CPU says nothing of one that comes back from another.
        let fresh = flags.has(Enqueue::INITIAL) || flags.has(Enqueue::MIGRATED);
        let t = match known {
            Some(t) if !fresh => t,
            _ => {
                self.adopt(addr, r, known);
                match self.task_at(addr) {
                    Some(t) => t,
                    None => return,
                }
            }
        };
        if self.class.is_on_rq(t) {
            // The recording enqueues what we hold queued: an earlier difference.
            self.lock.lost = true;
            return;
        }
        self.set_group(t, r.get(Field::Cfs));
        self.follow_slice(t, r);
        self.class.enqueue_task(CPU, t, flags, now, &mut self.lock);
    }

    /// A slice is set by a system call that leaves no record of its own.
    fn follow_slice(&mut self, t: TaskId, r: &Record) {
        let slice = r.get(Field::Slice);
        if self.class.entity(t.entity()).slice != slice {
            let base = self.class.base_slice().0;
            self.class
                .set_slice(t, (slice != base).then_some(Ns(slice)));
            self.lock.input("slice set by a system call");
        }
    }

    /// Takes over a task that the recording shows for the first time, or an address used anew.
    fn adopt(&mut self, addr: u64, r: &Record, old: Option<TaskId>) {
        if let Some(t) = old {
            if self.class.is_on_rq(t) {
                self.lock.lost = true;
                return;
            }
            self.class.remove_task(t);
        }
        let e = self.shadow.ents.entry(addr).or_default();
        *e = super::shadow::Ent {
            cfs: r.get(Field::Cfs),
            pid: r.get(Field::Pid) as i64,
            vr: r.get(Field::Vr),
            dl: Some(r.get(Field::Dl)),
            vlag: r.get(Field::Vlag),
            slice: Some(r.get(Field::Slice)),
            w: Some(r.get(Field::W)),
            delayed: r.get(Field::Delayed) != 0,
            rel: r.get(Field::Fl) & SLEEP_OR_NEW == 0,
            sum: (r.get(Field::Fl) & 0x80 != 0).then_some(0),
            ..super::shadow::Ent::default()
        };
        let se = self.entity_for(addr);
        self.load_state(addr, se);
        self.lock.fresh = Some(se);
        self.lock.input("task first seen");
    }

    fn wakeup_preempt(&mut self, r: &Record, now: Ns) {
        self.lock.pos += 1;
        let pid = r.get(Field::Wakee) as i64;
        let wakee = self
            .shadow
            .ents
            .values()
            .filter(|e| e.grp == 0 && e.pid == pid)
            .filter_map(|e| e.id)
            .find(|&id| self.class.entity(id).on_rq);
        let Some(wakee) = wakee else {
            self.lock.lost = true;
            return;
        };
        let t = TaskId(wakee.0);
        let goes_on = self.lock.curr_follows(Caller::WakeupPreempt);
        if self.policy_open.contains(&wakee) {
            self.learn_policy(t, goes_on);
        }
        let before = self.class.resched(CPU);
        let flags = Wake(r.get(Field::Fl) as u32);
        self.class
            .wakeup_preempt(CPU, t, flags, now, &mut self.lock);
        if before == Resched::None && !self.lock.lost {
            let ours = self.class.resched(CPU) != Resched::None;
            self.lock.compare_resched_after(r, ours);
        }
    }

    /// BATCH shows in nothing but that its wakeups do not preempt; it is set by a system call, which reweights.
    fn learn_policy(&mut self, t: TaskId, goes_on: bool) {
        let policy = self.class.entity(t.entity()).policy;
        if policy == TaskPolicy::Idle || !(goes_on || self.only_policy_explains(t)) {
            return;
        }
        let told = if goes_on {
            TaskPolicy::Normal
        } else {
            TaskPolicy::Batch
        };
        if told != policy {
            self.lock
                .input("policy, told by whether a wakeup may preempt");
        }
        self.class.assume_policy(t, told);
        self.policy_open.remove(&t.entity());
    }

    /// Whether only the wakee's policy can be why the kernel ended a wakeup check early.
    fn only_policy_explains(&self, t: TaskId) -> bool {
        let Some(curr) = self.class.curr(CPU) else {
            return false;
        };
        let queue = self.class.entity(t.entity()).queue;
        self.class.resched(CPU) == Resched::None
            && curr != t
            && self
                .class
                .profile()
                .features
                .has(schedlab_fair::Feature::WakeupPreemption)
            && !self.class.throttled_hierarchy(queue)
            && !self.class.idle_decides(curr, t)
    }

    /// An accounting step at the start of an operation: its caller tells which one it is.
    fn charge(&mut self, now: Ns, picked: Option<TaskId>) {
        let records = self.lock.records;
        let Some(i) = self.lock.find(|r| r.kind == Kind::Curr) else {
            return;
        };
        let curr = &records[i];
        match curr.caller {
            Caller::DequeueEntity => {
                let Some(d) = records[i..].iter().find(|r| r.kind == Kind::Dequeue) else {
                    // The recording ends inside this operation.
                    self.lock
                        .undecided("operation cut by the end of the recording");
                    self.lock.pos = records.len();
                    return;
                };
                if d.caller == Caller::Throttle {
                    // A put that throttles its queue first.
                    self.put_or_switch(i, now, picked);
                } else if let Some(t) = self.task_at(d.get(Field::Se))
                    && self.class.is_on_rq(t)
                {
                    let flags = Dequeue(d.get(Field::Fl) as u32);
                    self.class.dequeue_task(CPU, t, flags, now, &mut self.lock);
                }
            }
            Caller::PickTask | Caller::PickNextTask => {
                self.picked = self.class.pick_task(CPU, now, &mut self.lock);
            }
            Caller::PutPrevEntity => self.put_or_switch(i, now, picked),
            Caller::ReweightEntity => {
                if let Some(r) = records[i..].iter().find(|r| r.kind == Kind::Reweight) {
                    self.reweight(r, now);
                }
            }
            Caller::Other => {
                self.class.update_curr_task(CPU, now, &mut self.lock);
                self.picked = picked;
            }
            _ => {}
        }
    }

    /// The operation to which the next put belongs: a switch between fair tasks, or the put of a whole chain.
    fn put_or_switch(&mut self, from: usize, now: Ns, picked: Option<TaskId>) {
        let records = self.lock.records;
        match records[from..].iter().find(|r| r.kind == Kind::PutPrev) {
            Some(p) if p.caller == Caller::PickNextTask => self.switch(now, picked),
            Some(p) => {
                if let Some(t) = self.task_at(p.get(Field::Se)) {
                    self.class.put_prev_task(CPU, t, now, &mut self.lock);
                }
            }
            None => self.lock.pos = records.len(),
        }
    }

    fn switch(&mut self, now: Ns, picked: Option<TaskId>) {
        let picked = picked.or_else(|| self.class.pick_task(CPU, now, &mut self.lock));
        let (Some(next), Some(prev)) = (picked, self.class.curr(CPU)) else {
            return;
        };
        self.class.switch_task(CPU, prev, next, now, &mut self.lock);
        self.lock.count("picked", 1);
    }

    fn set_next(&mut self, r: &Record, now: Ns, picked: Option<TaskId>) {
        let Some(t) = self.task_at(r.get(Field::Se)) else {
            return;
        };
        if let Some(p) = picked {
            if p == t {
                self.lock.count("picked", 1);
            } else {
                self.lock.differs(
                    &self.class,
                    r,
                    "next task",
                    format!("{p}"),
                    format!("{t}"),
                    Some(p.entity()),
                );
            }
        }
        if self.class.is_on_rq(t) {
            self.class.set_next_task(CPU, t, now, &mut self.lock);
        }
    }

    fn reweight(&mut self, r: &Record, now: Ns) {
        let Some(se) = self.shadow.ents.get(&r.get(Field::Se)).and_then(|e| e.id) else {
            // A task that was never on a queue here.
            self.lock.undecided("reweight of a task not seen before");
            self.lock.pos += 1;
            return;
        };
        let weight = Weight(r.get(Field::Neww));
        if self.class.entity(se).is_task() {
            if !self.class.entity(se).on_rq {
                self.follow_slice(TaskId(se.0), r);
                self.policy_open.insert(se);
                self.class
                    .reweight_task(TaskId(se.0), weight, &mut self.lock);
            }
        } else {
            self.class.reweight_group(se, weight, now, &mut self.lock);
        }
    }
}

/// The hooks: each step of the class is compared with the next record.
struct Lock<'a> {
    records: &'a [Record],
    pos: usize,
    report: CheckReport,
    /// Addresses by entity and queue number.
    ents: Vec<u64>,
    queues: Vec<u64>,
    /// Run time from before the recording, by entity address, once known.
    sum_offset: BTreeMap<u64, u64>,
    /// A value differed.
    dirty: bool,
    /// The steps themselves differed.
    lost: bool,
    /// Entities of groups that are throttled somewhere in the recording.
    limited: BTreeSet<u64>,
    /// Entity whose state was just taken from the record to come.
    fresh: Option<EntityId>,
}

impl Lock<'_> {
    fn undecided(&mut self, why: &'static str) {
        *self.report.undecided.entry(why).or_default() += 1;
    }

    fn input(&mut self, what: &'static str) {
        *self.report.inputs.entry(what).or_default() += 1;
    }

    fn count(&mut self, what: &'static str, n: u64) {
        *self.report.checks.entry(what).or_default() += n;
    }

    /// Index of the first record from here on that satisfies `ok`.
    fn find(&self, ok: impl Fn(&Record) -> bool) -> Option<usize> {
        (self.pos..self.records.len()).find(|&i| ok(&self.records[i]))
    }

    /// The state records from here on.
    fn ahead(&self) -> impl Iterator<Item = &Record> {
        self.records[self.pos..]
            .iter()
            .filter(|r| r.kind != Kind::Other)
    }

    /// Slice of an entity's next request, if the recording shows one.
    fn next_request(&self, addr: u64) -> Option<u64> {
        self.ahead()
            .find(|r| {
                r.get(Field::Se) == addr
                    && (r.kind == Kind::Place
                        || (r.kind == Kind::Deadline && r.get(Field::Ret) != 0))
            })
            .map(|r| r.get(Field::Slice))
    }

    /// Whether the next steps are an accounting by `caller`.
    fn curr_follows(&self, caller: Caller) -> bool {
        self.ahead()
            .find(|r| r.kind != Kind::Deadline)
            .is_some_and(|r| r.kind == Kind::Curr && r.caller == caller)
    }

    fn addr(&self, se: EntityId) -> u64 {
        self.ents.get(se.index()).copied().unwrap_or(0)
    }

    /// The model's value of a field at a step.
    fn ours(
        &self,
        class: &Class,
        field: Field,
        queue: QueueId,
        se: Option<EntityId>,
    ) -> Option<u64> {
        let e = se.map(|s| class.entity(s));
        let q = class.queue(queue);
        Some(match field {
            Field::Cfs => self.queues.get(queue.index()).copied().unwrap_or(0),
            Field::Se => se.map_or(0, |s| self.addr(s)),
            Field::Vr => e.map_or(0, |e| e.vruntime.0),
            Field::Dl => e.map_or(0, |e| e.deadline.0),
            Field::Vlag => e?.vlag as u64,
            Field::Slice => e?.slice,
            Field::W => e?.load.weight.0,
            Field::Delayed => u64::from(e?.sched_delayed),
            Field::OnRq => u64::from(e?.on_rq),
            Field::Sum => match se {
                None => 0,
                Some(s) => {
                    let offset = self.sum_offset.get(&self.addr(s))?;
                    e?.sum_exec_runtime.wrapping_add(*offset)
                }
            },
            Field::Zv => q.anchor.0,
            Field::Sw => q.sum_weight,
            Field::Swv => q.sum_w_vruntime as u64,
            Field::Nr => u64::from(q.nr_queued),
            _ => return None,
        })
    }

    fn differs(
        &mut self,
        class: &Class,
        r: &Record,
        field: &'static str,
        ours: String,
        kernel: String,
        se: Option<EntityId>,
    ) {
        self.dirty = true;
        self.report.differences += 1;
        if self.report.first.len() >= KEEP {
            return;
        }
        let queue = self
            .queues
            .iter()
            .position(|&a| a == r.get(Field::Cfs))
            .map_or(class.rq(CPU).cfs, |i| QueueId(i as u32));
        let state = COMPARED
            .iter()
            .filter(|&&f| r.has(f))
            .filter_map(|&f| {
                Some(FieldPair {
                    field: f.name(),
                    ours: self.ours(class, f, queue, se)? as i64,
                    kernel: r.get(f) as i64,
                })
            })
            .collect();
        self.report.first.push(Difference {
            event: r.number,
            ts: r.ts,
            kind: r.kind.name(),
            field,
            pid: (r.has(Field::Pid) && r.get(Field::Grp) == 0).then(|| r.get(Field::Pid) as i64),
            ours,
            kernel,
            state,
            rule: rule(r.kind, field),
        });
    }

    /// Compares the resched flag behind a wakeup check with the next event of the CPU.
    fn compare_resched_after(&mut self, r: &Record, ours: bool) {
        let Some(next) = self.records.get(self.pos) else {
            return;
        };
        if next.switch {
            self.undecided("resched of a wakeup: the next event is a switch already");
        } else if ours == next.need_resched {
            self.count("resched", 1);
        } else if ours || next.wakeup {
            // Before the wakeup event nothing but the check itself can have set the flag.
            self.report.differences += 1;
            self.dirty = true;
            if self.report.first.len() < KEEP {
                self.report.first.push(Difference {
                    event: r.number,
                    ts: r.ts,
                    kind: r.kind.name(),
                    field: "resched",
                    pid: Some(r.get(Field::Wakee) as i64),
                    ours: ours.to_string(),
                    kernel: next.need_resched.to_string(),
                    state: Vec::new(),
                    rule: "section 8: wakeup preemption",
                });
            }
        } else {
            self.undecided("resched of a wakeup: set by something else before the next event");
        }
    }
}

const COMPARED: [Field; 14] = [
    Field::Cfs,
    Field::Se,
    Field::Vr,
    Field::Dl,
    Field::Vlag,
    Field::Slice,
    Field::W,
    Field::Delayed,
    Field::OnRq,
    Field::Sum,
    Field::Zv,
    Field::Sw,
    Field::Swv,
    Field::Nr,
];

impl Hooks for Lock<'_> {
    fn point(&mut self, class: &Class, point: Point, queue: QueueId, se: Option<EntityId>) {
        if self.lost {
            return;
        }
        let Some(i) = self.find(|r| r.kind != Kind::Other) else {
            self.lost = true;
            self.undecided("operation cut by the end of the recording");
            return;
        };
        let records = self.records;
        let r = &records[i];
        let (kind, ret) = match point {
            Point::Enqueue => (Kind::Enqueue, None),
            Point::Place => (Kind::Place, None),
            Point::Dequeue(left) => (Kind::Dequeue, Some(left)),
            Point::Lag => (Kind::Lag, None),
            Point::Deadline(consumed) => (Kind::Deadline, Some(consumed)),
            Point::Curr => (Kind::Curr, None),
            Point::Pick => (Kind::Pick, None),
            Point::SetNext => (Kind::SetNext, None),
            Point::PutPrev => (Kind::PutPrev, None),
            Point::Reweight => (Kind::Reweight, None),
            Point::Requeue => (Kind::Requeue, None),
        };
        if r.kind != kind {
            self.differs(
                class,
                r,
                "next step",
                kind.name().to_string(),
                r.kind.name().to_string(),
                se,
            );
            self.lost = true;
            return;
        }
        self.pos = i + 1;
        if self.fresh.take().is_some_and(|f| Some(f) == se) {
            self.undecided("first state of a task");
            return;
        }
        if let (true, Some(s), Kind::Curr) = (r.has(Field::Sum), se, kind) {
            let addr = self.addr(s);
            let ours = class.entity(s).sum_exec_runtime;
            self.sum_offset
                .entry(addr)
                .or_insert_with(|| r.get(Field::Sum).wrapping_sub(ours));
        }
        let mut n = 0;
        for field in COMPARED {
            if !r.has(field) {
                continue;
            }
            let Some(ours) = self.ours(class, field, queue, se) else {
                continue;
            };
            n += 1;
            if ours != r.get(field) {
                self.differs(
                    class,
                    r,
                    field.name(),
                    (ours as i64).to_string(),
                    (r.get(field) as i64).to_string(),
                    se,
                );
            }
        }
        if let Some(ret) = ret {
            n += 1;
            if u64::from(ret) != r.get(Field::Ret) {
                self.differs(
                    class,
                    r,
                    "ret",
                    u64::from(ret).to_string(),
                    r.get(Field::Ret).to_string(),
                    se,
                );
            }
        }
        self.count(kind.name(), n);
        if kind == Kind::Curr && se.is_some() {
            let ours = class.resched(CPU) != Resched::None;
            // HRTICK asks for a reschedule in the timer, behind the accounting that is recorded.
            let hrtick = class.profile().features.has(schedlab_fair::Feature::Hrtick);
            if ours == r.need_resched {
                self.count("resched", 1);
            } else if hrtick && !ours {
                self.undecided("resched with HRTICK on");
            } else {
                self.differs(
                    class,
                    r,
                    "resched",
                    ours.to_string(),
                    r.need_resched.to_string(),
                    se,
                );
            }
        }
    }

    fn group_weight(&mut self, class: &Class, se: EntityId, computed: Weight) -> Weight {
        let addr = self.addr(se);
        let present = class.entity(se).load.weight;
        let recorded = self
            .ahead()
            .find(|r| {
                r.kind != Kind::Deadline
                    && !(r.kind == Kind::Curr && r.caller == Caller::ReweightEntity)
            })
            .filter(|r| r.kind == Kind::Reweight && r.get(Field::Se) == addr)
            .map(|r| Weight(r.get(Field::Neww)));
        if let Some(w) = recorded
            && w != computed
        {
            self.input("weight of a group");
        }
        recorded.unwrap_or(present)
    }

    fn out_of_quota(&mut self, class: &Class, queue: QueueId) -> bool {
        let limited = class
            .queue(queue)
            .owner
            .is_some_and(|o| self.limited.contains(&self.addr(o)));
        let asked = limited
            && class.resched(CPU) == Resched::None
            && self
                .ahead()
                .find(|r| r.kind == Kind::Curr)
                .is_some_and(|r| r.need_resched);
        if asked {
            self.input("quota of a group used up");
        }
        asked
    }

    fn throttle(&mut self, class: &Class, queue: QueueId, _computed: bool) -> bool {
        if class.queue(queue).throttled {
            return true;
        }
        let Some(owner) = class.queue(queue).owner else {
            return false;
        };
        let addr = self.addr(owner);
        let (o, q) = (class.entity(owner), class.queue(queue));
        if !o.on_rq {
            // A group out of quota whose first task arrives is throttled without a step of its own: the
            // walk just does not go on to its entity.
            let silent = q.nr_queued == 1
                && q.curr.is_none()
                && !self.lost
                && self
                    .ahead()
                    .next()
                    .is_some_and(|r| !(r.kind == Kind::Enqueue && r.get(Field::Se) == addr));
            if silent {
                self.input("throttling of a group");
            }
            return silent;
        }
        let next = !self.lost
            && self
                .ahead()
                .find(|r| !matches!(r.kind, Kind::Deadline | Kind::Curr | Kind::Lag))
                .is_some_and(|r| {
                    r.kind == Kind::Dequeue
                        && r.caller == Caller::Throttle
                        && r.get(Field::Se) == addr
                });
        if next {
            self.input("throttling of a group");
        }
        next
    }
}

/// The rule that decides a value.
fn rule(kind: Kind, field: &str) -> &'static str {
    match (kind, field) {
        (_, "next step") => "sections 4.3 and 10.2: order of the steps of an operation",
        (_, "next task") => "section 4: pick",
        (_, "resched") => "section 3.5: decision of accounting",
        (_, "zv" | "sw" | "swv") => "section 2: sums and anchor",
        (Kind::Pick, _) => "section 4.2: pick at one level",
        (Kind::Place, _) => "section 5.1: placement",
        (Kind::Lag, _) => "section 5.2: saved lag",
        (Kind::Deadline, _) => "section 3.3: deadline renewal",
        (Kind::Curr, _) => "section 3.2: accounting",
        (Kind::Dequeue | Kind::Requeue, _) => "section 6: dequeue and delayed dequeue",
        (Kind::SetNext, "vlag") => "section 3.4: slice protection",
        (Kind::Reweight, _) => "section 7: weight change",
        (_, "slice") => "section 3.1: slices, passed up from a group's queue",
        _ => "sections 3 to 6",
    }
}
