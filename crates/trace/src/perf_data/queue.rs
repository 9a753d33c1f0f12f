//! Records put into order of time, round by round.
//!
//! `perf record` copies one CPU's buffer after the other and writes a FINISHED_ROUND record after each sweep. Nothing that
//! comes after the end of a round is older than the newest record of the round before it, so at each end of a round everything up to that
//! time can go. Within the file each buffer's piece is in order, which a merge sort turns to account.

use std::mem;

/// What is held of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) ts: u64,
    pub(super) what: What,
    /// Thread that was current, or that the record is about.
    pub(super) tid: i32,
    /// CPU; the parent for [`What::Fork`].
    pub(super) cpu: u32,
    /// Place in the file, for messages.
    pub(super) offset: u64,
    start: usize,
    len: u32,
}

/// Kinds of records whose order matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// Payload of a tracepoint, with the index of the event.
    Sample(u16),
    /// The task's new name.
    Comm,
    Fork,
}

/// The records of the last rounds. Memory is bounded by `limit` and, if that is reached, the order is given up for the older half.
#[derive(Debug)]
pub(super) struct Rounds {
    incoming: Part,
    outgoing: Part,
    /// Next record of `outgoing`.
    next: usize,
    /// Newest time so far, and at the end of the round before.
    newest: u64,
    newest_before: u64,
    limit: usize,
    /// Times that the limit was reached.
    overflows: u64,
}

#[derive(Debug, Default)]
struct Part {
    held: Vec<Held>,
    bytes: Vec<u8>,
}

impl Part {
    fn clear(&mut self) {
        self.held.clear();
        self.bytes.clear();
    }

    fn size(&self) -> usize {
        // The sort needs half of the records once more.
        self.bytes.len() + self.held.len() * mem::size_of::<Held>() * 3 / 2
    }
}

impl Rounds {
    /// Holds at most about `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            incoming: Part::default(),
            outgoing: Part::default(),
            next: 0,
            newest: 0,
            newest_before: 0,
            limit,
            overflows: 0,
        }
    }

    /// Takes a record; `true` if the limit is reached and some should be taken out before the next.
    pub(super) fn push(
        &mut self,
        ts: u64,
        what: What,
        tid: i32,
        cpu: u32,
        offset: u64,
        bytes: &[u8],
    ) -> bool {
        let part = &mut self.incoming;
        // A record's body is shorter than 64 KiB.
        let len = bytes.len().min(u16::MAX.into());
        part.held.push(Held {
            ts,
            what,
            tid,
            cpu,
            offset,
            start: part.bytes.len(),
            len: len as u32,
        });
        part.bytes.extend_from_slice(&bytes[..len]);
        self.newest = self.newest.max(ts);
        self.incoming.size() >= self.limit
    }

    /// The end of a round: what cannot be preceded by anything to come is ready. Only when nothing is ready any more.
    pub(super) fn finish_round(&mut self) {
        let ready = self.sort(self.newest_before);
        self.release(ready);
        self.newest_before = self.newest;
    }

    /// The limit is reached: the older half is ready, whatever may come.
    pub(super) fn overflow(&mut self) {
        self.overflows += 1;
        self.sort(0);
        self.release(self.incoming.held.len().div_ceil(2));
    }

    /// The end of the file: everything is ready.
    pub(super) fn finish(&mut self) {
        let all = self.sort(u64::MAX);
        self.release(all);
    }

    /// Times that the limit was reached.
    pub(super) fn overflows(&self) -> u64 {
        self.overflows
    }

    /// The next record that is ready.
    pub(super) fn pop(&mut self) -> Option<(Held, &[u8])> {
        let held = *self.outgoing.held.get(self.next)?;
        self.next += 1;
        let bytes = self.outgoing.bytes.get(held.start..)?;
        Some((held, bytes.get(..held.len as usize)?))
    }

    /// Sorts what came in; records of the same time stay as in the file. Gives the number of those up to `limit`.
    fn sort(&mut self, limit: u64) -> usize {
        let held = &mut self.incoming.held;
        held.sort_by_key(|held| held.ts);
        held.partition_point(|held| held.ts <= limit)
    }

    /// Makes the first `count` records ready and keeps the rest.
    fn release(&mut self, count: usize) {
        self.outgoing.clear();
        self.next = 0;
        mem::swap(&mut self.incoming, &mut self.outgoing);
        let rest = self.outgoing.held.split_off(count);
        self.incoming.held.reserve(rest.len());
        for mut held in rest {
            let start = self.incoming.bytes.len();
            let old = held.start..held.start + held.len as usize;
            self.incoming
                .bytes
                .extend_from_slice(self.outgoing.bytes.get(old).unwrap_or_default());
            held.start = start;
            self.incoming.held.push(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(rounds: &mut Rounds) -> Vec<(u64, Vec<u8>)> {
        let mut out = Vec::new();
        while let Some((held, bytes)) = rounds.pop() {
            out.push((held.ts, bytes.to_vec()));
        }
        out
    }

    fn push(rounds: &mut Rounds, ts: u64, name: u8) -> bool {
        rounds.push(ts, What::Comm, 0, 0, 0, &[name])
    }

    /// The example in the description of FINISHED_ROUND in tools/perf.
    #[test]
    fn rounds_of_two_buffers() {
        let mut rounds = Rounds::new(1 << 20);
        let times =
            |out: Vec<(u64, Vec<u8>)>| out.into_iter().map(|(ts, _)| ts).collect::<Vec<_>>();
        for ts in [1, 2, 2, 3, 4] {
            push(&mut rounds, ts, 0);
        }
        rounds.finish_round();
        assert!(drain(&mut rounds).is_empty());
        for ts in [3, 4, 5, 5, 6, 7] {
            push(&mut rounds, ts, 0);
        }
        rounds.finish_round();
        assert_eq!(times(drain(&mut rounds)), [1, 2, 2, 3, 3, 4, 4]);
        for ts in [6, 7, 8, 9, 10] {
            push(&mut rounds, ts, 0);
        }
        rounds.finish_round();
        assert_eq!(times(drain(&mut rounds)), [5, 5, 6, 6, 7, 7]);
        rounds.finish();
        assert_eq!(times(drain(&mut rounds)), [8, 9, 10]);
    }

    #[test]
    fn equal_times_stay_as_in_the_file() {
        let mut rounds = Rounds::new(1 << 20);
        push(&mut rounds, 5, b'a');
        push(&mut rounds, 7, b'b');
        rounds.finish_round();
        push(&mut rounds, 7, b'c');
        push(&mut rounds, 6, b'd');
        rounds.finish_round();
        push(&mut rounds, 7, b'e');
        let mut names: Vec<u8> = drain(&mut rounds).concat_names();
        rounds.finish();
        names.extend(drain(&mut rounds).concat_names());
        assert_eq!(names, b"adbce");
    }

    trait Names {
        fn concat_names(self) -> Vec<u8>;
    }

    impl Names for Vec<(u64, Vec<u8>)> {
        fn concat_names(self) -> Vec<u8> {
            self.into_iter().flat_map(|(_, name)| name).collect()
        }
    }

    #[test]
    fn memory_is_bounded_without_rounds() {
        let mut rounds = Rounds::new(10_000);
        let mut given = Vec::new();
        for ts in 0..10_000 {
            if push(&mut rounds, ts, 0) {
                rounds.overflow();
                given.extend(drain(&mut rounds));
            }
            assert!(rounds.incoming.size() + rounds.outgoing.size() < 30_000);
        }
        rounds.finish();
        given.extend(drain(&mut rounds));
        assert!(given.iter().map(|(ts, _)| *ts).eq(0..10_000));
        assert!(rounds.overflows() > 10);
    }
}
