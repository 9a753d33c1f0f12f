//! The real-time class: FIFO lists by priority (reference section 15).

use std::collections::VecDeque;

/// Real-time tasks of one CPU; the running one is among them.
#[derive(Debug)]
pub(crate) struct RtQueue {
    lists: Vec<VecDeque<u32>>,
    bits: u128,
    len: u32,
    /// Run time in the present period, for throttling before 6.12.
    pub(crate) time: u64,
    pub(crate) throttled: bool,
    pub(crate) period_armed: bool,
    /// Has a task beside the running one, as far as was counted (`rt_overloaded`).
    pub(crate) overloaded: bool,
}

impl RtQueue {
    pub(crate) fn new() -> Self {
        Self {
            lists: Vec::new(),
            bits: 0,
            len: 0,
            time: 0,
            throttled: false,
            period_armed: false,
            overloaded: false,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Adds a task at the tail (a wakeup, an RR slice that ended) or at the head of its list.
    pub(crate) fn add(&mut self, task: u32, prio: u8, head: bool) {
        if self.lists.is_empty() {
            self.lists.resize_with(100, VecDeque::new);
        }
        let list = &mut self.lists[usize::from(prio)];
        if head {
            list.push_front(task);
        } else {
            list.push_back(task);
        }
        self.bits |= 1 << prio;
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, task: u32, prio: u8) {
        let list = &mut self.lists[usize::from(prio)];
        if let Some(i) = list.iter().position(|&t| t == task) {
            list.remove(i);
            self.len -= 1;
            if list.is_empty() {
                self.bits &= !(1 << prio);
            }
        }
    }

    /// Head of the most urgent list, with its priority.
    pub(crate) fn first(&self) -> Option<(u32, u8)> {
        if self.bits == 0 {
            return None;
        }
        let prio = self.bits.trailing_zeros() as u8;
        self.lists[usize::from(prio)].front().map(|&t| (t, prio))
    }

    /// Whether a task shares its priority with another.
    pub(crate) fn has_peer(&self, prio: u8) -> bool {
        self.lists[usize::from(prio)].len() > 1
    }

    /// Moves a task to the tail of its list.
    pub(crate) fn requeue_tail(&mut self, task: u32, prio: u8) {
        self.remove(task, prio);
        self.add(task, prio, false);
    }

    /// All tasks, most urgent first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u8)> + '_ {
        self.lists
            .iter()
            .enumerate()
            .flat_map(|(p, l)| l.iter().map(move |&t| (t, p as u8)))
    }
}
