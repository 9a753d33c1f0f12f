//! A history with a sorting window before it.

use schedlab_trace::Event;

use super::{History, HistoryOptions, Observer, Step};
use crate::order::{OrderReport, SortWindow};

/// Sorts events by time in a window, gives them to a [`History`] and what that finds to an [`Observer`].
///
/// ```
/// use schedlab_analysis::history::{Change, History, HistoryOptions, Observer, Ordered, TaskState};
/// use schedlab_trace::FtraceTextReader;
///
/// /// Sums up how long tasks waited on queues.
/// #[derive(Default)]
/// struct Waits(u64);
///
/// impl Observer for Waits {
///     fn change(&mut self, _: &History, change: &Change) {
///         if let TaskState::Runnable(_) = change.from {
///             self.0 += change.span();
///         }
///     }
/// }
///
/// let text = "
///   <idle>-0 [000] 1.000002: sched_wakeup: comm=a pid=7 prio=120 target_cpu=000
///   <idle>-0 [000] 1.000005: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120
/// ";
/// let mut ordered = Ordered::new(HistoryOptions::default(), Waits::default());
/// for event in FtraceTextReader::new(text.as_bytes(), "example") {
///     ordered.push(&event.unwrap());
/// }
/// let (_history, waits, _order) = ordered.finish();
/// assert_eq!(waits.0, 3_000);
/// ```
#[derive(Debug)]
pub struct Ordered<O> {
    window: SortWindow<Step>,
    history: History,
    observer: O,
}

impl<O: Observer> Ordered<O> {
    /// A history without events.
    #[must_use]
    pub fn new(options: HistoryOptions, observer: O) -> Self {
        Self {
            window: SortWindow::new(options.window),
            history: History::new(options),
            observer,
        }
    }

    /// Takes an event.
    pub fn push(&mut self, event: &Event) {
        if let Some((ts, step)) = self.window.push(event.ts, Step::new(event)) {
            self.history.apply(ts, &step, &mut self.observer);
        }
    }

    /// The observer, to be asked while events come.
    #[must_use]
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// Takes what the window still holds, closes the CPUs' spans and gives everything back.
    #[must_use]
    pub fn finish(mut self) -> (History, O, OrderReport) {
        for (ts, step) in self.window.drain() {
            self.history.apply(ts, &step, &mut self.observer);
        }
        self.history.close_all(&mut self.observer);
        (self.history, self.observer, self.window.report())
    }
}
