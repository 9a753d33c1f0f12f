//! Moves of tasks between CPUs.
//!
//! A move is a `sched_migrate_task` event. What the task was doing tells the kind: between `sched_waking` and
//! `sched_wakeup` (or asleep, where the call is not traced) it was *placed* by the wakeup; on a queue it was *pulled* or
//! pushed by balancing; everything else (a new task, a task moved by its affinity) is *other*. Switch-ins on another CPU
//! than the one before are counted apart: they show moves where `sched_migrate_task` was not recorded.

use std::collections::{BTreeMap, BTreeSet};

use crate::GroupBy;
use crate::TaskFilter;
use crate::history::{
    Change, History, Observer, PerTask, Step, StepKind, TaskId, TaskState, WaitCause,
};
use crate::naming::Groups;
use crate::table::{Cell, Column, Report, Table, column};

/// What to show.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MigrationsOptions {
    /// Rows.
    pub group: GroupBy,
    /// Tasks.
    pub filter: TaskFilter,
}

/// Moves by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Moves {
    placed: u64,
    pulled: u64,
    other: u64,
}

impl Moves {
    fn total(self) -> u64 {
        self.placed + self.pulled + self.other
    }

    fn add(&mut self, other: Self) {
        self.placed += other.placed;
        self.pulled += other.pulled;
        self.other += other.other;
    }
}

#[derive(Clone, Debug, Default)]
struct Mover {
    /// By origin and destination.
    ways: BTreeMap<(u32, u32), Moves>,
    cpu_changes: u64,
    last_cpu: Option<u32>,
    cpus: BTreeSet<u32>,
}

/// The observer.
#[derive(Debug, Default)]
pub struct Migrations {
    options: MigrationsOptions,
    tasks: PerTask<Mover>,
}

const TASKS: &[Column] = &[
    column("task", "Task", ""),
    column("migrations", "Migrations", ""),
    column("placed", "Placed", ""),
    column("pulled", "Pulled", ""),
    column("other", "Other", ""),
    column("cpu_changes", "CPU changes", ""),
    column("cpus", "CPUs", ""),
];

const WAYS: &[Column] = &[
    column("from_cpu", "From CPU", ""),
    column("to_cpu", "To CPU", ""),
    column("migrations", "Migrations", ""),
    column("placed", "Placed", ""),
    column("pulled", "Pulled", ""),
    column("other", "Other", ""),
];

impl Migrations {
    /// Without events.
    #[must_use]
    pub fn new(options: MigrationsOptions) -> Self {
        Self {
            options,
            tasks: PerTask::default(),
        }
    }

    /// A row per task or name that moved, most moves first, then all ways from CPU to CPU.
    #[must_use]
    pub fn report(&self, history: &History) -> Report {
        let shown: Vec<_> = self
            .tasks
            .iter()
            .filter(|&(id, mover)| {
                (mover.cpu_changes > 0 || !mover.ways.is_empty())
                    && self.options.filter.matches(history.task(id))
            })
            .collect();
        let groups = Groups::new(history, self.options.group, shown.iter().map(|t| t.0));
        let mut rows = vec![(Moves::default(), 0, BTreeSet::<u32>::new()); groups.len()];
        let mut ways: BTreeMap<(u32, u32), Moves> = BTreeMap::new();
        for (id, mover) in shown {
            let Some(row) = groups.row(id) else { continue };
            let (moves, changes, cpus) = &mut rows[row];
            *changes += mover.cpu_changes;
            cpus.extend(&mover.cpus);
            for (&way, &n) in &mover.ways {
                moves.add(n);
                ways.entry(way).or_default().add(n);
            }
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|&row| std::cmp::Reverse((rows[row].0.total(), rows[row].1)));
        let mut table = Table::new("tasks", TASKS);
        for row in order {
            let (moves, changes, cpus) = &rows[row];
            let mut cells = vec![Cell::Text(groups.name(row).to_owned())];
            cells.extend(cells_of(*moves));
            cells.push(Cell::Count(*changes));
            cells.push(Cell::Count(cpus.len() as u64));
            table.rows.push(cells);
        }
        let mut matrix = Table::new("ways", WAYS);
        for ((from, to), moves) in ways {
            let mut cells = vec![Cell::Count(from.into()), Cell::Count(to.into())];
            cells.extend(cells_of(moves));
            matrix.rows.push(cells);
        }
        Report {
            tables: vec![table, matrix],
            notes: Vec::new(),
        }
    }
}

fn cells_of(moves: Moves) -> [Cell; 4] {
    [moves.total(), moves.placed, moves.pulled, moves.other].map(Cell::Count)
}

impl Observer for Migrations {
    fn change(&mut self, _: &History, change: &Change) {
        if let TaskState::Running(run) = change.to {
            let mover = self.tasks.of(change.task);
            mover.cpu_changes += u64::from(mover.last_cpu.is_some_and(|last| last != run.cpu));
            mover.last_cpu = Some(run.cpu);
            mover.cpus.insert(run.cpu);
        }
    }

    fn event(
        &mut self,
        history: &History,
        _: u64,
        step: &Step,
        task: Option<TaskId>,
        _: Option<TaskId>,
    ) {
        let (
            StepKind::Migrate {
                orig_cpu, dest_cpu, ..
            },
            Some(id),
        ) = (step.kind, task)
        else {
            return;
        };
        let moves = self
            .tasks
            .of(id)
            .ways
            .entry((orig_cpu, dest_cpu))
            .or_default();
        match history.task(id).state {
            TaskState::Waking(_) | TaskState::Sleeping(_) => moves.placed += 1,
            TaskState::Runnable(wait) if wait.cause != WaitCause::Fork || wait.moves > 0 => {
                moves.pulled += 1;
            }
            _ => moves.other += 1,
        }
    }
}
