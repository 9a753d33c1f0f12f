//! Data that an analysis keeps per task.

use super::TaskId;

/// One value per task of a history, made as tasks appear.
#[derive(Clone, Debug)]
pub struct PerTask<T>(Vec<T>);

impl<T> Default for PerTask<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Default> PerTask<T> {
    /// The value of a task, made by default if it is new.
    pub fn of(&mut self, task: TaskId) -> &mut T {
        if task.0 >= self.0.len() {
            self.0.resize_with(task.0 + 1, T::default);
        }
        &mut self.0[task.0]
    }

    /// The value of a task, if it has one.
    #[must_use]
    pub fn get(&self, task: TaskId) -> Option<&T> {
        self.0.get(task.0)
    }

    /// All values with their tasks, in order of first mention.
    pub fn iter(&self) -> impl Iterator<Item = (TaskId, &T)> {
        self.0
            .iter()
            .enumerate()
            .map(|(i, value)| (TaskId(i), value))
    }
}
