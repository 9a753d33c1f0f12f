//! Which tasks a table shows, and as which rows.

use std::collections::BTreeMap;

use schedlab_trace::Pid;

use crate::history::{History, Task, TaskId};

/// How to form the rows of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GroupBy {
    /// One row for all tasks of a name, as perf does by default.
    #[default]
    Comm,
    /// One row per task, as `perf sched latency -p`.
    Task,
}

/// Which tasks a table is about: those with one of the names or pids; all if none is given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskFilter(Vec<String>);

impl TaskFilter {
    /// Names, or pids as numbers.
    #[must_use]
    pub fn new(names: Vec<String>) -> Self {
        Self(names)
    }

    /// Whether any task will do.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a task is meant.
    #[must_use]
    pub fn matches(&self, task: &Task) -> bool {
        let meant = |name: &String| {
            name.as_bytes() == task.comm.as_bytes() || name.parse::<Pid>() == Ok(task.pid)
        };
        self.is_all() || self.0.iter().any(meant)
    }
}

/// The row of each task, and the rows' names.
pub(crate) struct Groups {
    rows: BTreeMap<TaskId, usize>,
    names: Vec<String>,
}

impl Groups {
    /// Rows for the given tasks, ordered by name and pid.
    pub(crate) fn new(history: &History, by: GroupBy, tasks: impl Iterator<Item = TaskId>) -> Self {
        let mut members: BTreeMap<(&[u8], Pid, usize), Vec<TaskId>> = BTreeMap::new();
        for id in tasks {
            let task = history.task(id);
            let comm = task.comm.as_bytes();
            let key = match by {
                GroupBy::Task => (comm, task.pid, id.0),
                // Tasks of unknown name have nothing in common.
                GroupBy::Comm if comm.is_empty() => (comm, task.pid, 0),
                GroupBy::Comm => (comm, 0, 0),
            };
            members.entry(key).or_default().push(id);
        }
        let mut rows = BTreeMap::new();
        let mut names = Vec::new();
        for tasks in members.into_values() {
            rows.extend(tasks.iter().map(|&id| (id, names.len())));
            let first = history.task(tasks[0]);
            names.push(row_name(
                &first.comm.to_string(),
                first.pid,
                tasks.len() as u64,
            ));
        }
        Self { rows, names }
    }

    /// The row of a task that was given.
    pub(crate) fn row(&self, id: TaskId) -> Option<usize> {
        self.rows.get(&id).copied()
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// The name of a row.
    pub(crate) fn name(&self, row: usize) -> &str {
        self.names.get(row).map_or("", String::as_str)
    }
}

/// `comm:pid` for one task, `comm:(n)` for several.
pub(crate) fn row_name(comm: &str, pid: Pid, tasks: u64) -> String {
    match (comm, tasks) {
        // perf names a task without a name by its number, twice.
        ("", _) => format!(":{pid}:{pid}"),
        (comm, 1) => format!("{comm}:{pid}"),
        (comm, tasks) => format!("{comm}:({tasks})"),
    }
}
