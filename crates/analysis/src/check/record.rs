//! Kernel-state records: what the probes of a recording say at each step.

use schedlab_trace::event::{Event, EventKind};

/// Kind of a record, named after the probe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// `enqueue_entity` begins.
    Enqueue,
    /// `place_entity` returned.
    Place,
    /// `dequeue_entity` returned.
    Dequeue,
    /// `update_entity_lag` returned.
    Lag,
    /// `update_deadline` returned.
    Deadline,
    /// `update_curr` returned.
    Curr,
    /// `pick_eevdf` returned.
    Pick,
    /// `set_next_entity` returned.
    SetNext,
    /// `put_prev_entity` returned.
    PutPrev,
    /// `reweight_entity` returned.
    Reweight,
    /// `requeue_delayed_entity` returned.
    Requeue,
    /// `check_preempt_wakeup_fair` begins.
    WakeupPreempt,
    /// `task_tick_fair` begins.
    Tick,
    /// `yield_task_fair` begins.
    Yield,
    /// Any other event: carries time and flags only.
    Other,
}

impl Kind {
    /// The probe's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Place => "place",
            Self::Dequeue => "dequeue",
            Self::Lag => "lag",
            Self::Deadline => "deadline",
            Self::Curr => "curr",
            Self::Pick => "pick",
            Self::SetNext => "setnext",
            Self::PutPrev => "putprev",
            Self::Reweight => "reweight",
            Self::Requeue => "requeue",
            Self::WakeupPreempt => "wakeup_preempt",
            Self::Tick => "tick",
            Self::Yield => "yield",
            Self::Other => "other",
        }
    }

    const STATE: [Self; 14] = [
        Self::Enqueue,
        Self::Place,
        Self::Dequeue,
        Self::Lag,
        Self::Deadline,
        Self::Curr,
        Self::Pick,
        Self::SetNext,
        Self::PutPrev,
        Self::Reweight,
        Self::Requeue,
        Self::WakeupPreempt,
        Self::Tick,
        Self::Yield,
    ];
}

/// A field that a record may carry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Field {
    /// Queue address.
    Cfs,
    /// Entity address.
    Se,
    /// Own queue of a group entity, 0 for a task.
    Grp,
    /// Pid of a task entity.
    Pid,
    /// Flags of the call.
    Fl,
    /// Return value.
    Ret,
    /// vruntime.
    Vr,
    /// deadline.
    Dl,
    /// vlag.
    Vlag,
    /// slice.
    Slice,
    /// Full weight.
    W,
    /// `sched_delayed`.
    Delayed,
    /// `sum_exec_runtime`.
    Sum,
    /// `clock_task`.
    Clk,
    /// `zero_vruntime`.
    Zv,
    /// `avg_load`.
    Sw,
    /// `avg_vruntime`.
    Swv,
    /// `nr_running` of the queue.
    Nr,
    /// `on_rq`.
    OnRq,
    /// New weight.
    Neww,
    /// Wakee's pid.
    Wakee,
    /// Current pid in a wakeup check.
    CurrPid,
    /// End of the protection (6.17 and later).
    Vprot,
}

const NAMES: [(&str, Field); 23] = [
    ("cfs", Field::Cfs),
    ("se", Field::Se),
    ("grp", Field::Grp),
    ("pid", Field::Pid),
    ("fl", Field::Fl),
    ("ret", Field::Ret),
    ("vr", Field::Vr),
    ("dl", Field::Dl),
    ("vlag", Field::Vlag),
    ("slice", Field::Slice),
    ("w", Field::W),
    ("delayed", Field::Delayed),
    ("sum", Field::Sum),
    ("clk", Field::Clk),
    ("zv", Field::Zv),
    ("sw", Field::Sw),
    ("swv", Field::Swv),
    ("nr", Field::Nr),
    ("on_rq", Field::OnRq),
    ("neww", Field::Neww),
    ("wakee", Field::Wakee),
    ("curr", Field::CurrPid),
    ("vprot", Field::Vprot),
];

impl Field {
    /// Name in the recording.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES[self as usize].0
    }
}

/// One record.
#[derive(Clone, Debug)]
pub struct Record {
    /// Number of the event in the file, from 1.
    pub number: u64,
    /// Time of the event, ns.
    pub ts: u64,
    /// CPU of the event.
    pub cpu: u32,
    /// Kind.
    pub kind: Kind,
    /// Function that made the call, without offset, where the probe tells.
    pub caller: Caller,
    /// `NEED_RESCHED` or `NEED_RESCHED_LAZY` at the event.
    pub need_resched: bool,
    /// Only the lazy one.
    pub lazy: bool,
    /// It is a `sched_switch`.
    pub switch: bool,
    /// It is a `sched_wakeup`.
    pub wakeup: bool,
    /// It is a mark that debugfs is read from here on (`true`) or was read to here (`false`).
    pub snapshot: Option<bool>,
    present: u32,
    values: [u64; 23],
}

/// Callers that matter for telling operations apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caller {
    /// `enqueue_entity`.
    EnqueueEntity,
    /// `dequeue_entity`.
    DequeueEntity,
    /// `pick_task_fair`, or the pick inlined into `pick_next_task_fair`.
    PickTask,
    /// `pick_next_task_fair` after its pick.
    PickNextTask,
    /// `set_next_task_fair`.
    SetNextTask,
    /// `put_prev_task_fair`.
    PutPrevTask,
    /// `put_prev_entity`.
    PutPrevEntity,
    /// `check_preempt_wakeup_fair`.
    WakeupPreempt,
    /// `task_tick_fair`.
    Tick,
    /// `yield_task_fair` or what calls it.
    Yield,
    /// `requeue_delayed_entity`.
    RequeueDelayed,
    /// `reweight_entity`.
    ReweightEntity,
    /// `reweight_task_fair`.
    ReweightTask,
    /// `throttle_cfs_rq`.
    Throttle,
    /// `dequeue_entities` or `dequeue_task_fair`.
    DequeueEntities,
    /// Another function.
    Other,
}

impl Caller {
    fn of(symbol: &str) -> Self {
        match symbol {
            "enqueue_entity" => Self::EnqueueEntity,
            "dequeue_entity" => Self::DequeueEntity,
            "pick_task_fair" => Self::PickTask,
            "pick_next_task_fair" => Self::PickNextTask,
            "set_next_task_fair" => Self::SetNextTask,
            "put_prev_task_fair" => Self::PutPrevTask,
            "put_prev_entity" => Self::PutPrevEntity,
            "check_preempt_wakeup_fair" => Self::WakeupPreempt,
            "task_tick_fair" => Self::Tick,
            "yield_task_fair" | "do_sched_yield" => Self::Yield,
            "requeue_delayed_entity" => Self::RequeueDelayed,
            "reweight_entity" => Self::ReweightEntity,
            "reweight_task_fair" => Self::ReweightTask,
            "throttle_cfs_rq" => Self::Throttle,
            "dequeue_entities" | "dequeue_task_fair" => Self::DequeueEntities,
            _ => Self::Other,
        }
    }
}

impl Record {
    /// A record without fields.
    pub(crate) fn made(ts: u64, cpu: u32, kind: Kind) -> Self {
        Self {
            number: 0,
            ts,
            cpu,
            kind,
            caller: Caller::Other,
            need_resched: false,
            lazy: false,
            switch: false,
            wakeup: false,
            snapshot: None,
            present: 0,
            values: [0; 23],
        }
    }

    /// Reads a record out of an event. `None`: a state probe whose text cannot be read.
    #[must_use]
    pub fn read(number: u64, event: &Event) -> Option<Self> {
        let mut rec = Self {
            number,
            need_resched: event.flags.need_resched || event.flags.need_resched_lazy,
            lazy: event.flags.need_resched_lazy && !event.flags.need_resched,
            switch: matches!(event.kind, EventKind::SchedSwitch { .. }),
            wakeup: matches!(event.kind, EventKind::SchedWakeup { .. }),
            ..Self::made(event.ts, event.cpu, Kind::Other)
        };
        let EventKind::Other { name, fields } = &event.kind else {
            return Some(rec);
        };
        if name == "tracing_mark_write" || name == "print" {
            rec.snapshot = snapshot_mark(fields);
            return Some(rec);
        }
        let Some(kind) = Kind::STATE.iter().copied().find(|k| k.name() == name) else {
            return Some(rec);
        };
        let rest = fields.trim_start();
        let Some(body) = rest.strip_prefix('(') else {
            // An event of another subsystem that happens to have this name.
            return Some(rec);
        };
        rec.kind = kind;
        let (site, text) = body.split_once(')')?;
        // A return probe shows `caller+offset/size <- function`, an entry probe the function itself.
        if let Some((caller, _)) = site.split_once(" <- ") {
            let symbol = caller.split('+').next().unwrap_or(caller);
            rec.caller = Caller::of(symbol.split('.').next().unwrap_or(symbol));
        }
        for word in text.split_ascii_whitespace() {
            let (name, value) = word.split_once('=')?;
            if let Some(&(_, field)) = NAMES.iter().find(|(n, _)| *n == name) {
                rec.set(field, number_of(value)?);
            }
        }
        Some(rec)
    }

    pub(crate) fn set(&mut self, field: Field, value: u64) {
        self.present |= 1 << field as u8;
        self.values[field as usize] = value;
    }

    /// Adds to a field's value, to try whether a check notices.
    pub fn tamper(&mut self, field: Field, by: u64) {
        self.values[field as usize] = self.values[field as usize].wrapping_add(by);
    }

    /// Whether the record carries a field.
    #[must_use]
    pub fn has(&self, field: Field) -> bool {
        self.present & (1 << field as u8) != 0
    }

    /// A field's value (signed ones as two's complement); 0 if it is not there.
    #[must_use]
    pub fn get(&self, field: Field) -> u64 {
        self.values[field as usize]
    }
}

/// `snap N begin` and `snap N end`.
fn snapshot_mark(text: &str) -> Option<bool> {
    let (_, rest) = text.split_once("snap ")?;
    match rest.split_ascii_whitespace().nth(1)? {
        "begin" => Some(true),
        "end" => Some(false),
        _ => None,
    }
}

pub(super) fn number_of(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok();
    }
    if text.starts_with('-') {
        return text.parse::<i64>().ok().map(|v| v as u64);
    }
    text.parse().ok()
}
