//! The fair class's own state at every step, as the probes of a recording tell it
//! (`docs/formats/state-recording.md`), and what only a simulation knows.

use std::collections::BTreeSet;
use std::fmt::Write;

use schedlab_fair::profile::{Policy, Protection};
use schedlab_fair::{
    Class, CpuId, Dequeue, Enqueue, EntityId, Function, Point, Profile, QueueId, Reason, Resched,
};

/// One record before it is an event.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) cpu: u32,
    pub(crate) resched: Resched,
    pub(crate) name: &'static str,
    pub(crate) fields: String,
}

/// Gathers records while the class works.
#[derive(Debug)]
pub(crate) struct StateLog {
    pub(crate) lines: Vec<Line>,
    /// Pid of each task entity.
    pids: Vec<i32>,
    /// Who charges run time.
    function: &'static str,
    /// Who puts and sets.
    switcher: &'static str,
    /// Who picks.
    picker: &'static str,
    /// Who takes entities off.
    dequeuer: &'static str,
    enqueue: Enqueue,
    dequeue: Dequeue,
    /// Tasks that wait for a lock.
    pub(crate) contending: BTreeSet<u32>,
}

impl StateLog {
    pub(crate) fn new() -> Self {
        Self {
            lines: Vec::new(),
            pids: Vec::new(),
            function: "",
            switcher: "",
            picker: "",
            dequeuer: "dequeue_entities",
            enqueue: Enqueue::NONE,
            dequeue: Dequeue::NONE,
            contending: BTreeSet::new(),
        }
    }

    /// Tells whose entity it is.
    pub(crate) fn name_entity(&mut self, se: EntityId, pid: i32) {
        if self.pids.len() <= se.index() {
            self.pids.resize(se.index() + 1, 0);
        }
        self.pids[se.index()] = pid;
    }

    fn pid(&self, se: EntityId) -> i32 {
        self.pids.get(se.index()).copied().unwrap_or(0)
    }

    /// Adds a record of one CPU.
    pub(crate) fn push(&mut self, class: &Class, cpu: CpuId, name: &'static str, fields: String) {
        self.lines.push(Line {
            cpu: cpu.0,
            resched: class.resched(cpu),
            name,
            fields,
        });
    }

    /// A function of the class begins.
    pub(crate) fn inside(&mut self, class: &Class, function: Function) {
        match function {
            Function::EnqueueEntity(flags) => {
                (self.function, self.enqueue) = ("enqueue_entity", flags);
            }
            Function::DequeueEntity(flags) => {
                (self.function, self.dequeue) = ("dequeue_entity", flags);
            }
            Function::DequeueEntities => self.dequeuer = "dequeue_entities",
            Function::Throttle => self.dequeuer = "throttle_cfs_rq",
            Function::RequeueDelayed => {
                (self.function, self.enqueue) = ("requeue_delayed_entity", Enqueue::NONE);
            }
            Function::ReweightEntity => {
                (self.function, self.enqueue) = ("reweight_entity", Enqueue::NONE);
            }
            Function::PickTask => {
                (self.function, self.picker) = ("pick_task_fair", "pick_task_fair");
            }
            Function::PickNextTask => self.switcher = "pick_next_task_fair",
            Function::SetNextTask => self.switcher = "set_next_task_fair",
            Function::PutPrevTask => self.switcher = "put_prev_task_fair",
            Function::PutPrevEntity => self.function = "put_prev_entity",
            Function::EntityTick => self.function = "task_tick_fair",
            Function::TaskRuntime => self.function = "task_sched_runtime",
            Function::Tick(cpu) => {
                let curr = class.curr(cpu).map_or(0, |t| self.pid(t.entity()));
                let clk = class.rq(cpu).clock_task;
                let fields = format!("(task_tick_fair) pid={curr} clk={clk}");
                self.push(class, cpu, "tick", fields);
            }
            Function::Yield(cpu) => {
                self.function = "yield_task_fair";
                let curr = class.curr(cpu).map_or(0, |t| self.pid(t.entity()));
                self.push(class, cpu, "yield", format!("(yield_task_fair) pid={curr}"));
            }
            Function::WakeupPreempt { cpu, wakee, flags } => {
                (self.function, self.picker) =
                    ("check_preempt_wakeup_fair", "check_preempt_wakeup_fair");
                let curr = class.curr(cpu).map_or(0, |t| self.pid(t.entity()));
                let fields = format!(
                    "(check_preempt_wakeup_fair) wakee={} curr={curr} fl=0x{:x} nr={}",
                    self.pid(wakee.entity()),
                    flags.0,
                    class.queue(class.rq(cpu).cfs).nr_queued
                );
                self.push(class, cpu, "wakeup_preempt", fields);
            }
            _ => {}
        }
    }

    /// A step of the class is done.
    pub(crate) fn point(
        &mut self,
        class: &Class,
        point: Point,
        queue: QueueId,
        se: Option<EntityId>,
    ) {
        let (name, site, flags, ret) = match point {
            Point::Enqueue => ("enqueue", "", Some(self.enqueue.0), None),
            Point::Place => ("place", self.function, Some(self.enqueue.0), None),
            Point::Dequeue(left) => ("dequeue", self.dequeuer, Some(self.dequeue.0), Some(left)),
            Point::Lag => ("lag", self.function, None, None),
            Point::Deadline(used) => ("deadline", "update_curr", None, Some(used)),
            Point::Curr => ("curr", self.function, None, None),
            Point::Pick => ("pick", self.picker, None, None),
            Point::SetNext => ("setnext", self.switcher, None, None),
            Point::PutPrev => ("putprev", self.switcher, None, None),
            Point::Reweight => {
                let task = se.is_some_and(|s| class.entity(s).is_task());
                let by = if task {
                    "reweight_task_fair"
                } else {
                    "update_cfs_group"
                };
                ("reweight", by, None, None)
            }
            Point::Requeue => ("requeue", "enqueue_task_fair", None, None),
        };
        let mut out = match site {
            "" => format!("({})", probed(point)),
            by => format!("({by} <- {})", probed(point)),
        };
        if let Some(left) = ret {
            let _ = write!(out, " ret={}", u8::from(left));
        }
        self.entity_fields(class, point, queue, se, flags, &mut out);
        self.queue_fields(class, point, queue, &mut out);
        self.push(class, class.queue(queue).cpu, name, out);
    }

    fn entity_fields(
        &self,
        class: &Class,
        point: Point,
        queue: QueueId,
        se: Option<EntityId>,
        flags: Option<u32>,
        out: &mut String,
    ) {
        let _ = write!(
            out,
            " cfs=0x{:x} se=0x{:x}",
            queue_address(queue),
            se.map_or(0, address)
        );
        let Some(se) = se else {
            let _ = write!(out, " grp=0x0 pid=0 vr=0 dl=0 sum=0");
            return;
        };
        let e = class.entity(se);
        let pid = if e.is_task() { self.pid(se) } else { 0 };
        let _ = write!(
            out,
            " grp=0x{:x} pid={pid}",
            e.my_q.map_or(0, queue_address)
        );
        if let Some(flags) = flags {
            let _ = write!(out, " fl=0x{flags:x}");
        }
        let w = e.load.weight.0;
        if point == Point::Reweight {
            let _ = write!(out, " neww={w}");
        }
        let (vr, dl, vlag, slice) = (e.vruntime.0, e.deadline.0, e.vlag, e.slice);
        let delayed = u8::from(e.sched_delayed);
        let _ = match point {
            Point::PutPrev => write!(out, " vr={vr} on_rq={}", u8::from(e.on_rq)),
            Point::Curr => write!(
                out,
                " vr={vr} dl={dl} vlag={vlag} sum={}",
                e.sum_exec_runtime
            ),
            Point::Requeue => write!(out, " vr={vr} dl={dl} vlag={vlag}"),
            _ => write!(
                out,
                " vr={vr} dl={dl} vlag={vlag} slice={slice} w={w} delayed={delayed}"
            ),
        };
        if class.profile().protection == Protection::MinSlice
            && class.profile().policy == Policy::Eevdf
        {
            let _ = write!(out, " vprot={}", e.vprot.0);
        }
    }

    fn queue_fields(&self, class: &Class, point: Point, queue: QueueId, out: &mut String) {
        if matches!(point, Point::Deadline(_) | Point::PutPrev | Point::Requeue) {
            return;
        }
        let q = class.queue(queue);
        let _ = write!(
            out,
            " clk={} zv={} sw={} swv={} nr={}",
            class.rq(q.cpu).clock_task,
            q.anchor.0,
            q.sum_weight,
            q.sum_w_vruntime,
            q.nr_queued
        );
    }

    /// A request to reschedule was set.
    pub(crate) fn resched(&mut self, cpu: CpuId, kind: Resched, reason: Reason) {
        let tif = if kind == Resched::Lazy {
            "NEED_RESCHED_LAZY"
        } else {
            "NEED_RESCHED"
        };
        self.lines.push(Line {
            cpu: cpu.0,
            resched: kind,
            name: "sched_set_need_resched",
            fields: format!("cpu={} tif={tif} reason={reason:?}", cpu.0),
        });
    }
}

/// The function that a probe sits on.
fn probed(point: Point) -> &'static str {
    match point {
        Point::Enqueue => "enqueue_entity",
        Point::Place => "place_entity",
        Point::Dequeue(_) => "dequeue_entity",
        Point::Lag => "update_entity_lag",
        Point::Deadline(_) => "update_deadline",
        Point::Curr => "update_curr",
        Point::Pick => "pick_eevdf",
        Point::SetNext => "set_next_entity",
        Point::PutPrev => "put_prev_entity",
        Point::Reweight => "reweight_entity",
        Point::Requeue => "requeue_delayed_entity",
    }
}

/// Queues and entities are named by addresses, as the kernel's are.
fn queue_address(q: QueueId) -> u64 {
    0xff11_0000_0000_0000 + (q.index() as u64 + 1) * 0x400
}

fn address(se: EntityId) -> u64 {
    0xff12_0000_0000_0000 + (se.index() as u64 + 1) * 0x400
}

/// Locks are named by addresses too.
pub(crate) fn lock_address(lock: u32) -> u64 {
    0xff13_0000_0000_0000 + (u64::from(lock) + 1) * 0x40
}

/// CPUs as the kernel lists them: `0-3,8`. They come in order.
pub(crate) fn cpu_list(cpus: &[u32]) -> String {
    let mut out = String::new();
    let mut i = 0;
    while i < cpus.len() {
        let first = cpus[i];
        while i + 1 < cpus.len() && cpus[i + 1] == cpus[i] + 1 {
            i += 1;
        }
        let comma = if out.is_empty() { "" } else { "," };
        let _ = if cpus[i] == first {
            write!(out, "{comma}{first}")
        } else {
            write!(out, "{comma}{first}-{}", cpus[i])
        };
        i += 1;
    }
    out
}

/// The mark at the beginning: what a check or an explanation needs to know of the simulated kernel.
pub(crate) fn settings(class: &Class, profile: &Profile, hz: u32, cpus: usize) -> String {
    let base = Profile::by_name(profile.name).unwrap_or(*profile);
    let mut out = format!(
        "schedlab: profile={} hz={hz} cpus={cpus} base_slice={}ns",
        profile.name,
        class.base_slice().0
    );
    for change in Profile::diff(&base, profile) {
        if change.name != "base_slice" {
            let _ = write!(out, " {}={}", change.name, change.b);
        }
    }
    out
}
