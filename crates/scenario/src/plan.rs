//! Programs, tasks and the objects that they share, ready for the simulator.
//!
//! Scenario files, rt-app files and the built-in workloads all end here.

use std::collections::BTreeMap;

use schedlab_fair::Ns;
use schedlab_sim::program::{
    BarrierId, ChannelId, ChannelSpec, CondId, LockId, LockKind, Op, Program, ProgramId, SemId,
    TaskSpec, TimerId,
};

/// A control group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupPlan {
    /// Its own name.
    pub name: String,
    /// Index of its parent; `None` for a child of the root.
    pub parent: Option<u32>,
    /// `cpu.weight`, 1 to 10000.
    pub weight: u32,
    /// `cpu.idle`.
    pub idle: bool,
    /// `cpu.max` and `cpu.max.burst`, if limited.
    pub quota: Option<Quota>,
}

/// A bandwidth limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// CPU time per period.
    pub quota: Ns,
    /// Period.
    pub period: Ns,
    /// Unused time that may be kept.
    pub burst: Ns,
}

/// Everything that runs, as data.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// Programs.
    pub programs: Vec<Program>,
    /// Tasks that exist from the start, in order of creation.
    pub tasks: Vec<TaskSpec>,
    /// Channels by [`ChannelId`].
    pub channels: Vec<ChannelSpec>,
    /// Locks by [`LockId`].
    pub locks: Vec<LockKind>,
    /// How many tasks each barrier waits for, by [`BarrierId`].
    pub barriers: Vec<u32>,
    /// How many condition variables there are.
    pub conds: u32,
    /// Initial count of each semaphore, by [`SemId`].
    pub sems: Vec<u32>,
    /// How many timers there are.
    pub timers: u32,
    /// Groups, parents before children.
    pub groups: Vec<GroupPlan>,
    /// Address spaces used so far.
    pub(crate) spaces: u32,
}

impl Plan {
    /// Adds a program.
    pub(crate) fn program(&mut self, name: impl Into<String>, ops: Vec<Op>) -> ProgramId {
        self.programs.push(Program {
            name: name.into(),
            ops,
        });
        ProgramId(last(self.programs.len()))
    }

    /// Adds a channel.
    pub(crate) fn channel(&mut self, spec: ChannelSpec) -> ChannelId {
        self.channels.push(spec);
        ChannelId(last(self.channels.len()))
    }

    /// Adds a lock.
    pub(crate) fn lock(&mut self, kind: LockKind) -> LockId {
        self.locks.push(kind);
        LockId(last(self.locks.len()))
    }

    /// Adds a barrier.
    pub(crate) fn barrier(&mut self, tasks: u32) -> BarrierId {
        self.barriers.push(tasks);
        BarrierId(last(self.barriers.len()))
    }

    /// Adds a condition variable.
    pub(crate) fn cond(&mut self) -> CondId {
        self.conds += 1;
        CondId(self.conds - 1)
    }

    /// Adds a semaphore.
    pub(crate) fn sem(&mut self, initial: u32) -> SemId {
        self.sems.push(initial);
        SemId(last(self.sems.len()))
    }

    /// Adds a timer.
    pub(crate) fn timer(&mut self) -> TimerId {
        self.timers += 1;
        TimerId(self.timers - 1)
    }

    /// Adds an address space.
    pub(crate) fn space(&mut self) -> u32 {
        self.spaces += 1;
        self.spaces - 1
    }

    /// Whether some task that exists from the start never ends by itself.
    #[must_use]
    pub fn has_endless_task(&self) -> bool {
        let endless: Vec<bool> = self
            .programs
            .iter()
            .map(|p| p.ops.iter().any(is_endless))
            .collect();
        self.tasks
            .iter()
            .any(|t| endless.get(t.program.0 as usize).copied().unwrap_or(false))
    }
}

fn is_endless(op: &Op) -> bool {
    match op {
        Op::Loop { times: None, .. } => true,
        Op::Loop { body, .. } => body.iter().any(is_endless),
        _ => false,
    }
}

/// The index of the last of `len` things; inputs are far too small for it not to fit.
fn last(len: usize) -> u32 {
    u32::try_from(len - 1).unwrap_or(u32::MAX)
}

/// What objects are called, in the order in which they were first named.
#[derive(Clone, Debug)]
pub(crate) struct Names<T> {
    by_name: BTreeMap<String, T>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self {
            by_name: BTreeMap::new(),
        }
    }
}

impl<T: Copy> Names<T> {
    /// The object of this name, if there is one.
    pub(crate) fn get(&self, name: &str) -> Option<T> {
        self.by_name.get(name).copied()
    }

    /// The object of this name, made at its first mention.
    pub(crate) fn get_or(&mut self, name: &str, make: impl FnOnce() -> T) -> T {
        *self.by_name.entry(name.into()).or_insert_with(make)
    }

    /// Gives a name to an object; false if the name is taken.
    pub(crate) fn insert(&mut self, name: &str, object: T) -> bool {
        self.by_name.insert(name.into(), object).is_none()
    }

    /// All names, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }
}
