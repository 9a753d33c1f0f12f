//! Sets entities up in a given state.

use schedlab_fair::weight::Load;
use schedlab_fair::{
    Class, CpuId, EntityId, GroupAttr, GroupId, Ns, Profile, QueueId, Recorded, TaskAttr, TaskId,
    Vns, Weight,
};

pub(crate) const CPU: CpuId = CpuId(0);

/// Milliseconds as nanoseconds.
pub(crate) fn ms(x: f64) -> u64 {
    (x * 1e6).round() as u64
}

pub(crate) fn profile(name: &str) -> Profile {
    let mut p = Profile::by_name(name).unwrap();
    p.tunables.base_slice = Some(Ns(2_800_000));
    p
}

/// One CPU at HZ 1000 with a base slice of 2.8 ms.
pub(crate) fn class(name: &str) -> Class {
    Class::new(profile(name), 1, 1000)
}

pub(crate) fn root(c: &Class) -> QueueId {
    c.rq(CPU).cfs
}

/// State of an entity, in the unit of the example.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) v: u64,
    pub(crate) d: u64,
    pub(crate) nice: i8,
    pub(crate) slice: u64,
    pub(crate) vlag: i64,
    pub(crate) delayed: bool,
}

pub(crate) fn at(v: u64, d: u64) -> At {
    At {
        v,
        d,
        nice: 0,
        slice: 2_800_000,
        vlag: 0,
        delayed: false,
    }
}

impl At {
    /// With the marker that set-running leaves: protected in the parity form.
    pub(crate) fn protected(self) -> Self {
        Self {
            vlag: self.d as i64,
            ..self
        }
    }
}

/// A task that is off the queue in a given state.
pub(crate) fn off(c: &mut Class, a: At) -> TaskId {
    off_in(c, GroupId::ROOT, a)
}

pub(crate) fn off_in(c: &mut Class, group: GroupId, a: At) -> TaskId {
    let t = c.add_task(TaskAttr {
        nice: a.nice,
        group,
        ..TaskAttr::default()
    });
    set(c, t.entity(), a, Load::of_nice(a.nice).weight);
    t
}

pub(crate) fn set(c: &mut Class, se: EntityId, a: At, weight: Weight) {
    let state = Recorded {
        vruntime: Vns(a.v),
        deadline: Vns(a.d),
        vlag: a.vlag,
        slice: a.slice,
        weight,
        sched_delayed: a.delayed,
        rel_deadline: false,
        custom_slice: a.slice != 2_800_000,
        sum_exec_runtime: 0,
        exec_start: c.rq(CPU).clock_task,
    };
    c.set_recorded(se, &state);
}

/// A task in the tree.
pub(crate) fn queued(c: &mut Class, a: At) -> TaskId {
    let t = off(c, a);
    c.insert_recorded(t.entity(), false);
    t
}

/// The running task.
pub(crate) fn running(c: &mut Class, a: At) -> TaskId {
    let t = off(c, a);
    c.insert_recorded(t.entity(), true);
    t
}

pub(crate) fn group(c: &mut Class, parent: GroupId) -> GroupId {
    c.add_group(
        parent,
        GroupAttr {
            shares: Weight::NICE_0,
            idle: false,
            bandwidth: None,
        },
    )
}

pub(crate) fn v(c: &Class, t: TaskId) -> u64 {
    c.entity(t.entity()).vruntime.0
}

pub(crate) fn d(c: &Class, t: TaskId) -> u64 {
    c.entity(t.entity()).deadline.0
}

pub(crate) fn vlag(c: &Class, t: TaskId) -> i64 {
    c.entity(t.entity()).vlag
}
