//! Putting events into order of time within a bounded window.
//!
//! Traces come nearly sorted: per-CPU buffers are merged by tools that sometimes let an event slip behind later ones
//! (a well-known report has `perf sched latency` show a delay of 9.4 s for that reason). A window of some thousand
//! events mends that without holding the trace in memory.

use std::collections::VecDeque;

use serde::Serialize;

/// What a [`SortWindow`] had to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct OrderReport {
    /// Items that came behind an item with a later time, and were put before it.
    pub reordered: u64,
    /// The largest such step back, ns.
    pub largest_step_back: u64,
    /// Items among them that came too late: one with a later time had already left the window.
    pub late: u64,
}

/// Sorts a stream by time, as far as its window reaches. Items with the same time keep their order.
///
/// ```
/// use schedlab_analysis::order::SortWindow;
///
/// let mut window = SortWindow::new(2);
/// let mut out = Vec::new();
/// for ts in [1, 5, 3, 9] {
///     out.extend(window.push(ts, ()));
/// }
/// out.extend(window.drain());
/// assert_eq!(out, [(1, ()), (3, ()), (5, ()), (9, ())]);
/// assert_eq!(window.report().reordered, 1);
/// ```
#[derive(Debug)]
pub struct SortWindow<T> {
    capacity: usize,
    queue: VecDeque<(u64, T)>,
    /// Latest time that came in.
    newest: u64,
    /// Latest time that went out.
    released: u64,
    report: OrderReport,
}

impl<T> SortWindow<T> {
    /// A window that holds `capacity` items; 0 means that nothing is sorted, only counted.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            queue: VecDeque::with_capacity(capacity.min(4096) + 1),
            newest: 0,
            released: 0,
            report: OrderReport::default(),
        }
    }

    /// Takes an item, and gives the earliest one if the window is full.
    pub fn push(&mut self, ts: u64, item: T) -> Option<(u64, T)> {
        if ts >= self.newest {
            self.newest = ts;
            self.queue.push_back((ts, item));
        } else {
            self.report.reordered += 1;
            let back = self.newest - ts;
            self.report.largest_step_back = self.report.largest_step_back.max(back);
            self.report.late += u64::from(ts < self.released);
            // Behind all with the same time.
            let at = self.queue.partition_point(|&(other, _)| other <= ts);
            self.queue.insert(at, (ts, item));
        }
        if self.queue.len() <= self.capacity {
            return None;
        }
        self.pop()
    }

    /// Gives what the window still holds, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = (u64, T)> + '_ {
        std::iter::from_fn(|| self.pop())
    }

    /// What was done so far.
    #[must_use]
    pub fn report(&self) -> OrderReport {
        self.report
    }

    fn pop(&mut self) -> Option<(u64, T)> {
        let first = self.queue.pop_front()?;
        self.released = self.released.max(first.0);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_times_keep_their_order() {
        let mut window = SortWindow::new(10);
        for (ts, name) in [(5, 'a'), (7, 'b'), (5, 'c'), (7, 'd'), (5, 'e')] {
            assert_eq!(window.push(ts, name), None);
        }
        let order: String = window.drain().map(|(_, name)| name).collect();
        assert_eq!(order, "acebd");
        assert_eq!(window.report().reordered, 2);
        assert_eq!(window.report().largest_step_back, 2);
        assert_eq!(window.report().late, 0);
    }

    #[test]
    fn too_late_is_counted() {
        let mut window = SortWindow::new(1);
        let mut out = Vec::new();
        for ts in [10, 20, 30, 5] {
            out.extend(window.push(ts, ()));
        }
        out.extend(window.drain());
        let order: Vec<u64> = out.into_iter().map(|(ts, ())| ts).collect();
        assert_eq!(order, [10, 20, 5, 30]);
        assert_eq!(window.report().late, 1);
    }

    proptest! {
        #[test]
        fn displacement_within_the_window_is_mended(
            ts in proptest::collection::vec(0u64..50, 0..200), capacity in 0usize..60
        ) {
            let mut window = SortWindow::new(capacity);
            let mut out = Vec::new();
            for (i, &t) in ts.iter().enumerate() {
                out.extend(window.push(t, i));
            }
            out.extend(window.drain());
            // Nothing is lost.
            let mut seen: Vec<usize> = out.iter().map(|&(_, i)| i).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..ts.len()).collect::<Vec<_>>());
            // Sorted unless it says otherwise.
            let sorted = out.windows(2).all(|w| w[0].0 <= w[1].0);
            prop_assert_eq!(sorted, window.report().late == 0);
        }
    }
}
