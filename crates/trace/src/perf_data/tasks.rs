//! Names of tasks, as COMM and FORK records tell them.

use std::collections::HashMap;

use crate::{Comm, Pid};

/// Slots of the small table in front of the map.
const RECENT: usize = 64;

/// Who is called what, at the time up to which records were taken.
#[derive(Debug)]
pub(super) struct Tasks {
    names: HashMap<Pid, Comm>,
    /// Answers given lately, by the low bits of the number.
    recent: [(Pid, Comm); RECENT],
}

impl Tasks {
    /// Only the idle tasks have a name, perf's `swapper`.
    pub(super) fn new() -> Self {
        let mut out = Self {
            names: HashMap::new(),
            recent: [(0, Comm::default()); RECENT],
        };
        out.rename(0, Comm::new("swapper"));
        out
    }

    pub(super) fn rename(&mut self, tid: Pid, name: Comm) {
        self.names.insert(tid, name);
        self.recent = [(0, self.names.get(&0).copied().unwrap_or_default()); RECENT];
    }

    /// A new task has its parent's name, or none if that is not known. A former owner of the number is forgotten.
    pub(super) fn fork(&mut self, tid: Pid, parent: Pid) {
        let name = self.names.get(&parent).copied().unwrap_or_default();
        self.rename(tid, name);
    }

    /// The name of a task, empty if it was never told.
    pub(super) fn name(&mut self, tid: Pid) -> Comm {
        let slot = tid.rem_euclid(RECENT as Pid) as usize;
        if let Some(&(known, name)) = self.recent.get(slot)
            && known == tid
        {
            return name;
        }
        let name = self.names.get(&tid).copied().unwrap_or_default();
        if let Some(entry) = self.recent.get_mut(slot) {
            *entry = (tid, name);
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_parents_and_change() {
        let mut tasks = Tasks::new();
        assert_eq!(tasks.name(0), Comm::new("swapper"));
        assert_eq!(tasks.name(7), Comm::default());
        tasks.rename(7, Comm::new("a"));
        assert_eq!(tasks.name(7), Comm::new("a"));
        tasks.fork(71, 7);
        tasks.rename(7, Comm::new("b"));
        assert_eq!(
            (tasks.name(71), tasks.name(7)),
            (Comm::new("a"), Comm::new("b"))
        );
        // The number is used again, by the child of a task without a name.
        tasks.fork(71, 5);
        assert_eq!(tasks.name(71), Comm::default());
        assert_eq!(tasks.name(-1), Comm::default());
    }
}
