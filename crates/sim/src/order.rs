//! The total order of events, as data.
//!
//! Events at the same instant happen in a fixed order that means something: a tick sees the world as it was
//! before the wakeups of its instant, and a task that ends its work at the instant of a wakeup has not left yet when
//! the wakee arrives. Behind rank come CPU and sequence number, so no two events are equal and no order
//! depends on a heap's whims. (A CPU has one end of work at a time, which needs no sequence number; it comes before
//! other events of rank [`Rank::Work`] of its CPU and instant.)

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

/// Ends of the CPUs' present stretches of work, at most one a CPU: a tree of minima.
///
/// Most events are of this kind and most are moved before they happen, which a heap could only do by leaving
/// stale entries behind.
#[derive(Debug)]
struct Ends {
    /// Four children a node, those of node `i` from `4 i + 1` on, so that siblings share a cache line.
    nodes: Vec<(u64, u32)>,
    /// Index of the first leaf; the leaves are the CPUs in order.
    leaves: usize,
}

impl Ends {
    fn new(cpus: usize) -> Self {
        let (mut leaves, mut width) = (0, 1);
        while width < cpus {
            leaves += width;
            width *= 4;
        }
        Self {
            nodes: vec![(u64::MAX, u32::MAX); leaves + width],
            leaves,
        }
    }

    fn first(&self) -> (u64, u32) {
        self.nodes[0]
    }

    fn set(&mut self, cpu: u32, time: u64) {
        let mut i = self.leaves + cpu as usize;
        self.nodes[i] = (time, cpu);
        while i > 0 {
            i = (i - 1) / 4;
            let children = &self.nodes[4 * i + 1..4 * i + 5];
            // Equal times: the lowest CPU.
            let mut least = children[0];
            for &c in &children[1..] {
                if c.0 < least.0 {
                    least = c;
                }
            }
            if self.nodes[i] == least {
                break;
            }
            self.nodes[i] = least;
        }
    }
}

/// What comes next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Next<T> {
    /// An event that was pushed.
    Event(T),
    /// The end of the CPU's stretch of work.
    End,
}

/// Events to come.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    ends: Ends,
    seq: u64,
    now: u64,
}

impl<T> Agenda<T> {
    pub(crate) fn new(cpus: usize) -> Self {
        Self {
            heap: BinaryHeap::new(),
            ends: Ends::new(cpus),
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

    /// Moves the end of a CPU's stretch of work; `u64::MAX` for none.
    pub(crate) fn set_end(&mut self, cpu: u32, time: u64) {
        self.ends.set(cpu, time);
    }

    /// Takes the next event, unless it lies behind `limit`. Ends come last of their CPU and instant, but before what
    /// was pushed for it with [`Rank::Work`]. An end stays until it is moved.
    pub(crate) fn pop(&mut self, limit: u64) -> Option<(u64, u32, Next<T>)> {
        let (end, cpu) = self.ends.first();
        let event_first = match self.heap.peek() {
            Some(Reverse(e)) => {
                let o = &e.order;
                (o.time, o.rank, o.cpu) < (end, Rank::Work, cpu)
            }
            None => false,
        };
        let next = if event_first {
            if self.heap.peek()?.0.order.time > limit {
                return None;
            }
            let Reverse(e) = self.heap.pop()?;
            (e.order.time, e.order.cpu, Next::Event(e.event))
        } else {
            if end > limit || end == u64::MAX {
                return None;
            }
            (end, cpu, Next::End)
        };
        debug_assert!(next.0 >= self.now, "time went back");
        self.now = next.0;
        Some(next)
    }

    /// Whether nothing is to come.
    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty() && self.ends.first().0 == u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_events_have_one_order() {
        let mut a = Agenda::new(10);
        a.set_end(1, 5);
        a.set_end(0, 5);
        a.push(5, Rank::Work, 1, "poke on 1");
        a.push(5, Rank::Timer, 1, "timer on 1");
        a.push(5, Rank::Timer, 0, "timer on 0");
        a.push(5, Rank::Timer, 0, "later timer on 0");
        a.push(5, Rank::Tick, 9, "tick");
        a.push(4, Rank::Work, 0, "before");
        a.set_end(3, 6);
        let mut got = Vec::new();
        while let Some((_, cpu, e)) = a.pop(5) {
            if e == Next::End {
                a.set_end(cpu, u64::MAX);
            }
            got.push((cpu, e));
        }
        assert_eq!(
            got,
            [
                (0, Next::Event("before")),
                (9, Next::Event("tick")),
                (0, Next::Event("timer on 0")),
                (0, Next::Event("later timer on 0")),
                (1, Next::Event("timer on 1")),
                (0, Next::End),
                (1, Next::End),
                (1, Next::Event("poke on 1")),
            ]
        );
        assert!(!a.is_empty());
        assert_eq!(a.pop(6), Some((6, 3, Next::End)));
        a.set_end(3, u64::MAX);
        assert!(a.is_empty());
    }

    #[test]
    fn ends_are_the_least_of_what_was_set_last() {
        for cpus in [1, 3, 4, 5, 16, 17, 224, 1000] {
            let mut ends = Ends::new(cpus);
            let mut plain = vec![u64::MAX; cpus];
            let mut x = 1u64;
            for _ in 0..3000 {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                let cpu = (x >> 40) as usize % cpus;
                plain[cpu] = if x.is_multiple_of(5) {
                    u64::MAX
                } else {
                    (x >> 20) & 0xff
                };
                ends.set(cpu as u32, plain[cpu]);
                let least = *plain.iter().min().unwrap();
                let first = plain.iter().position(|&t| t == least).unwrap();
                assert_eq!(ends.first().0, least);
                assert!(least == u64::MAX || ends.first().1 == first as u32);
            }
        }
    }
}
