//! The total order of events, as data.
//!
//! Events at the same instant happen in a fixed order that means something: a tick sees the world as it was
//! before the wakeups of its instant, and a task that ends its work at the instant of a wakeup has not left yet when
//! the wakee arrives. Behind rank come CPU and sequence number, so no two events are equal and no order
//! depends on a heap's whims.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What kind of thing happens; the order of the variants is the order at one instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rank {
    /// The regular tick, and HRTICK.
    Tick,
    /// Timers: ends of sleeps, starts of tasks, quota periods, servers.
    Timer,
    /// Interrupts from other CPUs: activations and reschedules.
    Interrupt,
    /// The present stretch of a CPU's work ends.
    Work,
}

/// Place of an event in the history of the simulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Order {
    /// Simulated time, ns.
    pub time: u64,
    /// Kind.
    pub rank: Rank,
    /// CPU concerned.
    pub cpu: u32,
    /// Number of the event in the order of scheduling it.
    pub seq: u64,
}

#[derive(Debug)]
struct Entry<T> {
    order: Order,
    event: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

/// Events to come.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    seq: u64,
    now: u64,
}

impl<T> Agenda<T> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            seq: 0,
            now: 0,
        }
    }

    /// Adds an event; one in the past happens now.
    pub(crate) fn push(&mut self, time: u64, rank: Rank, cpu: u32, event: T) {
        self.seq += 1;
        let order = Order {
            time: time.max(self.now),
            rank,
            cpu,
            seq: self.seq,
        };
        self.heap.push(Reverse(Entry { order, event }));
    }

    /// Time of the next event.
    pub(crate) fn next_time(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(e)| e.order.time)
    }

    /// Takes the next event.
    pub(crate) fn pop(&mut self) -> Option<(Order, T)> {
        let Reverse(e) = self.heap.pop()?;
        debug_assert!(e.order.time >= self.now, "time went back");
        self.now = e.order.time;
        Some((e.order, e.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_events_have_one_order() {
        let mut a = Agenda::new();
        a.push(5, Rank::Work, 0, "work");
        a.push(5, Rank::Timer, 1, "timer on 1");
        a.push(5, Rank::Timer, 0, "timer on 0");
        a.push(5, Rank::Timer, 0, "later timer on 0");
        a.push(5, Rank::Tick, 9, "tick");
        a.push(4, Rank::Work, 0, "before");
        let got: Vec<_> = std::iter::from_fn(|| a.pop()).map(|(_, e)| e).collect();
        assert_eq!(
            got,
            [
                "before",
                "tick",
                "timer on 0",
                "later timer on 0",
                "timer on 1",
                "work"
            ]
        );
    }
}
