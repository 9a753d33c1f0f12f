//! The ordered set of queued entities of one queue.
//!
//! The kernel keeps a red-black tree ordered by deadline, each node with the smallest vruntime of its
//! subtree. What is asked of it is: the first entity in order that is eligible, the first in order,
//! and the smallest vruntime and slice of all. This structure gives the same answers from buckets: each
//! holds the entities of a range of places, in no order, as arrays side by side. So an entity joins at the end
//! of a bucket and leaves by another taking its index; what is asked is found by running over one bucket, which
//! a CPU does without a mispredicted branch. Up to [`BUCKET`] entities are one bucket. Ties keep insertion order
//! (reference section 4.1), by a number that each entity gets as it joins.
//!
//! No operation allocates unless the queue is longer than it ever was: two neighbouring buckets hold more
//! than half a bucket together, so that the number of buckets is bounded, and room for them is taken ahead.

use alloc::vec::Vec;
use core::hint::select_unpredictable as select;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::ids::EntityId;
use crate::units::{Vns, floor_div};

/// Entities in one bucket at most; a power of two.
const BUCKET: usize = 32;

/// Entities in no order, field by field.
#[derive(Clone, Debug)]
struct Bucket {
    len: usize,
    /// Where places and vruntimes count from, so that they compare as plain numbers.
    base: Vns,
    ent: [u32; BUCKET],
    at: [i64; BUCKET],
    vruntime: [i64; BUCKET],
    slice: [u64; BUCKET],
    seq: [u64; BUCKET],
}

/// One entity of a bucket.
#[derive(Clone, Copy, Debug)]
struct Slot {
    at: Vns,
    vruntime: Vns,
    slice: u64,
    seq: u64,
    ent: u32,
}

impl Bucket {
    const EMPTY: Self = Self {
        len: 0,
        base: Vns(0),
        ent: [0; BUCKET],
        at: [0; BUCKET],
        vruntime: [0; BUCKET],
        slice: [0; BUCKET],
        seq: [0; BUCKET],
    };

    #[inline]
    fn push(&mut self, s: Slot) {
        // Never full here; the remainder spares the check.
        let i = self.len % BUCKET;
        if i == 0 {
            self.base = s.vruntime;
        }
        self.ent[i] = s.ent;
        self.at[i] = s.at.minus(self.base);
        self.vruntime[i] = s.vruntime.minus(self.base);
        self.slice[i] = s.slice;
        self.seq[i] = s.seq;
        self.len = i + 1;
    }

    #[inline]
    fn get(&self, i: usize) -> Slot {
        let i = i % BUCKET;
        Slot {
            at: self.base.offset(self.at[i]),
            vruntime: self.base.offset(self.vruntime[i]),
            slice: self.slice[i],
            seq: self.seq[i],
            ent: self.ent[i],
        }
    }

    /// Takes an entity out; the last one takes its index.
    #[inline]
    fn remove(&mut self, i: usize) {
        let (i, last) = (i % BUCKET, (self.len - 1) % BUCKET);
        self.ent[i] = self.ent[last];
        self.at[i] = self.at[last];
        self.vruntime[i] = self.vruntime[last];
        self.slice[i] = self.slice[last];
        self.seq[i] = self.seq[last];
        self.len = last;
    }

    /// Index of an entity, which may be `hint`.
    #[inline]
    fn find(&self, hint: usize, ent: u32) -> Option<usize> {
        if hint < self.len && self.ent[hint % BUCKET] == ent {
            return Some(hint);
        }
        self.search(ent)
    }

    fn search(&self, ent: u32) -> Option<usize> {
        // Without an early end the loop compares several at a time.
        let mut found = 0;
        for (i, &e) in self.ent[..self.len].iter().enumerate() {
            if e == ent {
                found = i as u32 + 1;
            }
        }
        (found as usize).checked_sub(1)
    }

    /// Whether the entity at `a` comes before the one at `b`.
    #[inline]
    fn before(&self, a: usize, b: usize) -> bool {
        (self.at[a], self.seq[a]) < (self.at[b], self.seq[b])
    }

    /// First in order of those whose vruntime (from the base) passes `eligible`.
    ///
    /// Written so that no likely branch depends on the data: who is eligible is anybody's guess to a CPU. Even and odd
    /// indices go side by side, for one comparison need not wait for the other.
    #[inline]
    fn first_eligible(&self, eligible: impl Fn(i64) -> bool) -> Option<usize> {
        let (at, vruntime) = (&self.at[..self.len], &self.vruntime[..self.len]);
        // Before every place of an entity that is out, behind every one of one that is in.
        let mut best = [i64::MAX - 1; 2];
        let mut index = [0; 2];
        let (pairs_at, pairs_v) = (at.chunks_exact(2), vruntime.chunks_exact(2));
        let odd = pairs_at
            .remainder()
            .first()
            .zip(pairs_v.remainder().first());
        let mut i = 0;
        for (at, v) in pairs_at.zip(pairs_v) {
            for lane in 0..2 {
                let key = select(eligible(v[lane]), at[lane], i64::MAX);
                if key == best[lane] {
                    return self.first_of_ties(eligible);
                }
                index[lane] = select(key < best[lane], i + lane, index[lane]);
                best[lane] = select(key < best[lane], key, best[lane]);
            }
            i += 2;
        }
        if let Some((&at, &v)) = odd {
            let key = select(eligible(v), at, i64::MAX);
            if key == best[0] {
                return self.first_of_ties(eligible);
            }
            index[0] = select(key < best[0], i, index[0]);
            best[0] = select(key < best[0], key, best[0]);
        }
        if best[0] == best[1] {
            return self.first_of_ties(eligible);
        }
        Some(if best[0] < best[1] {
            index[0]
        } else {
            index[1]
        })
    }

    /// The same where several may have the best place.
    #[cold]
    fn first_of_ties(&self, eligible: impl Fn(i64) -> bool) -> Option<usize> {
        (0..self.len)
            .filter(|&i| eligible(self.vruntime[i]))
            .reduce(|a, b| if self.before(b, a) { b } else { a })
    }

    /// First in order behind `prev`.
    fn next_after(&self, prev: Option<usize>) -> Option<usize> {
        (0..self.len)
            .filter(|&i| prev.is_none_or(|p| self.before(p, i)))
            .reduce(|a, b| if self.before(b, a) { b } else { a })
    }

    #[inline]
    fn min_vruntime(&self) -> Option<Vns> {
        let min = self.vruntime[..self.len].iter().min()?;
        Some(self.base.offset(*min))
    }

    fn bounds(&self) -> Bounds {
        let mut bounds = Bounds {
            min_vruntime: self.min_vruntime().unwrap_or(Vns(0)),
            ..Bounds::default()
        };
        self.slice_bounds(&mut bounds);
        bounds
    }

    #[cold]
    fn slice_bounds(&self, b: &mut Bounds) {
        let slices = &self.slice[..self.len];
        b.min_slice = slices.iter().copied().min().unwrap_or(u64::MAX);
        b.max_slice = slices.iter().copied().max().unwrap_or(0);
        let count = |slice| slices.iter().filter(|s| **s == slice).count();
        b.min_slices = count(b.min_slice);
        b.max_slices = count(b.max_slice);
    }
}

/// What is known of a bucket's entities without looking at them. Kept only while there are several buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Bounds {
    min_vruntime: Vns,
    min_slice: u64,
    max_slice: u64,
    /// Entities that have the smallest and the largest slice; most slices are alike.
    min_slices: usize,
    max_slices: usize,
}

impl Bounds {
    fn add(&mut self, s: &Slot) {
        self.min_vruntime = self.min_vruntime.earlier(s.vruntime);
        if s.slice <= self.min_slice {
            self.min_slices = if s.slice < self.min_slice {
                1
            } else {
                self.min_slices + 1
            };
            self.min_slice = s.slice;
        }
        if s.slice >= self.max_slice {
            self.max_slices = if s.slice > self.max_slice {
                1
            } else {
                self.max_slices + 1
            };
            self.max_slice = s.slice;
        }
    }

    /// Forgets an entity that has left `bucket`.
    #[inline]
    fn forget(&mut self, s: &Slot, bucket: &Bucket) {
        if s.vruntime == self.min_vruntime
            && let Some(min) = bucket.min_vruntime()
        {
            self.min_vruntime = min;
        }
        self.min_slices -= usize::from(s.slice == self.min_slice);
        self.max_slices -= usize::from(s.slice == self.max_slice);
        if self.min_slices == 0 || self.max_slices == 0 {
            bucket.slice_bounds(self);
        }
    }
}

/// A bucket's range and bounds.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// No entity's place is before this one, and all in the buckets before are; ties go by their number. Without
    /// meaning in the first bucket.
    low: (Vns, u64),
    bounds: Bounds,
    bucket: u32,
}

/// The ordered set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// One for each bucket in use, in order. Empty while there is one at most: that is the first of `buckets`.
    heads: Vec<Head>,
    buckets: Vec<Bucket>,
    free: Vec<u32>,
    /// Number of entities while there are several buckets.
    len: u32,
    /// Length up to which there is room without allocation.
    room: u32,
    next_seq: u64,
    hint: Hint,
}

/// Index in its bucket of the entity that was picked last: it is likely to be taken out next. Any value is as good
/// as another, because the entity found there is compared; so relaxed order and lost updates are fine.
#[derive(Debug, Default)]
struct Hint(AtomicU32);

impl Hint {
    #[inline]
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed) as usize
    }

    #[inline]
    fn set(&self, i: usize) {
        self.0.store(i as u32, Ordering::Relaxed);
    }
}

impl Clone for Hint {
    fn clone(&self) -> Self {
        Self(AtomicU32::new(self.0.load(Ordering::Relaxed)))
    }
}

impl Order {
    /// Number of entities.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        match self.single() {
            Some(bucket) => bucket.len as u32,
            None => self.len,
        }
    }

    /// Buckets that so many entities can come to occupy.
    fn most_buckets(len: u32) -> usize {
        2 * len as usize / (BUCKET / 2 + 1) + 2
    }

    /// The only bucket, if there is just one.
    #[inline]
    fn single(&self) -> Option<&Bucket> {
        match self.buckets.first() {
            Some(bucket) if self.heads.is_empty() => Some(bucket),
            _ => None,
        }
    }

    #[inline]
    fn single_mut(&mut self) -> Option<&mut Bucket> {
        match self.buckets.first_mut() {
            Some(bucket) if self.heads.is_empty() => Some(bucket),
            _ => None,
        }
    }

    #[inline]
    fn bucket(&self, head: &Head) -> &Bucket {
        &self.buckets[head.bucket as usize]
    }

    /// Puts an entity in, behind all with the same `at`.
    #[inline]
    pub(crate) fn insert(&mut self, at: Vns, vruntime: Vns, slice: u64, ent: EntityId) {
        let slot = Slot {
            at,
            vruntime,
            slice,
            seq: self.next_seq,
            ent: ent.0,
        };
        self.next_seq += 1;
        match self.single_mut() {
            Some(bucket) if bucket.len < BUCKET => bucket.push(slot),
            _ => self.insert_among_several(slot),
        }
    }

    #[inline(never)]
    fn insert_among_several(&mut self, slot: Slot) {
        if self.heads.is_empty() {
            let Some(only) = self.buckets.first_mut() else {
                self.grow();
                self.buckets.push(Bucket::EMPTY);
                self.buckets[0].push(slot);
                return;
            };
            self.len = only.len as u32;
            self.heads.push(Head {
                low: (Vns(0), 0),
                bounds: Bounds::default(),
                bucket: 0,
            });
        }
        if self.len >= self.room {
            self.grow();
        }
        // The newest of its place is behind all others there.
        let mut h = self.range_of(slot.at);
        if self.buckets[self.heads[h].bucket as usize].len == BUCKET {
            self.split(h);
            if !slot.at.before(self.heads[h + 1].low.0) {
                h += 1;
            }
        }
        let head = &mut self.heads[h];
        self.buckets[head.bucket as usize].push(slot);
        head.bounds.add(&slot);
        self.len += 1;
    }

    /// Takes an entity out that was put in at `at`.
    #[inline]
    pub(crate) fn remove(&mut self, at: Vns, ent: EntityId) {
        let hint = self.hint.get();
        if let Some(bucket) = self.single_mut()
            && let Some(i) = bucket.find(hint, ent.0)
        {
            bucket.remove(i);
            return;
        }
        self.remove_among_several(at, ent);
    }

    #[inline(never)]
    fn remove_among_several(&mut self, at: Vns, ent: EntityId) {
        let Some((h, i)) = self.find_among_several(at, ent) else {
            debug_assert!(false, "entity {ent} is not where its key says");
            return;
        };
        let head = &mut self.heads[h];
        let bucket = &mut self.buckets[head.bucket as usize];
        let gone = bucket.get(i);
        bucket.remove(i);
        self.len -= 1;
        head.bounds.forget(&gone, bucket);
        if bucket.len <= BUCKET / 2 {
            self.join_neighbours(h);
        }
    }

    /// Tells of a new slice of an entity that stays where it is.
    pub(crate) fn set_slice(&mut self, at: Vns, ent: EntityId, slice: u64) {
        let hint = self.hint.get();
        if let Some(bucket) = self.single_mut() {
            if let Some(i) = bucket.find(hint, ent.0) {
                bucket.slice[i] = slice;
            }
        } else if let Some((h, i)) = self.find_among_several(at, ent) {
            let head = &mut self.heads[h];
            let bucket = &mut self.buckets[head.bucket as usize];
            bucket.slice[i] = slice;
            head.bounds = bucket.bounds();
        }
    }

    /// First entity in order.
    #[inline]
    pub(crate) fn first(&self) -> Option<EntityId> {
        let bucket = match self.heads.first() {
            Some(head) => self.bucket(head),
            None => self.buckets.first()?,
        };
        let i = bucket.first_eligible(|_| true)?;
        self.hint.set(i);
        Some(EntityId(bucket.ent[i % BUCKET]))
    }

    /// Second entity in order.
    pub(crate) fn second(&self) -> Option<EntityId> {
        self.iter().nth(1)
    }

    /// First entity in order whose vruntime is eligible: `(v - anchor) * load <= sum`. `load` is not 0.
    #[inline]
    pub(crate) fn first_eligible(&self, anchor: Vns, sum: i128, load: u64) -> Option<EntityId> {
        // For an integer this holds just when it is at most the floor of the quotient: one division for all.
        let limit = anchor.offset(floor_div(sum, load));
        let bucket = match self.single() {
            Some(bucket) => bucket,
            None => {
                let eligible = |h: &&Head| !limit.before(h.bounds.min_vruntime);
                self.bucket(self.heads.iter().find(eligible)?)
            }
        };
        let limit = limit.minus(bucket.base);
        let i = bucket.first_eligible(|v| v <= limit)?;
        self.hint.set(i);
        Some(EntityId(bucket.ent[i % BUCKET]))
    }

    /// Smallest vruntime of all.
    #[inline]
    pub(crate) fn min_vruntime(&self) -> Option<Vns> {
        match self.single() {
            Some(bucket) => bucket.min_vruntime(),
            None => self
                .heads
                .iter()
                .map(|h| h.bounds.min_vruntime)
                .reduce(Vns::earlier),
        }
    }

    /// Smallest slice of all.
    #[inline]
    pub(crate) fn min_slice(&self) -> Option<u64> {
        match self.single() {
            Some(bucket) => bucket.slice[..bucket.len].iter().copied().min(),
            None => self.heads.iter().map(|h| h.bounds.min_slice).min(),
        }
    }

    /// Largest slice of all.
    pub(crate) fn max_slice(&self) -> Option<u64> {
        match self.single() {
            Some(bucket) => bucket.slice[..bucket.len].iter().copied().max(),
            None => self.heads.iter().map(|h| h.bounds.max_slice).max(),
        }
    }

    /// The buckets in use, in order.
    fn in_order(&self) -> impl Iterator<Item = &Bucket> {
        self.single()
            .into_iter()
            .chain(self.heads.iter().map(|h| self.bucket(h)))
    }

    /// All entities in order. Each step runs over a bucket once.
    pub(crate) fn iter(&self) -> impl Iterator<Item = EntityId> + '_ {
        self.in_order().flat_map(|bucket| {
            let mut prev = None;
            core::iter::from_fn(move || {
                prev = Some(bucket.next_after(prev)?);
                Some(EntityId(bucket.ent[prev?]))
            })
        })
    }

    /// Whether order or bounds are wrong, and what.
    pub(crate) fn disorder(&self) -> Option<&'static str> {
        let n: usize = self.in_order().map(|b| b.len).sum();
        for (h, head) in self.heads.iter().enumerate() {
            let bucket = self.bucket(head);
            if bucket.len == 0 {
                return Some("an empty bucket");
            }
            if head.bounds != bucket.bounds() {
                return Some("a bound of a bucket is not the true one");
            }
            let next = self.heads.get(h + 1);
            let within = |i: usize| {
                let key = (bucket.get(i).at, bucket.seq[i]);
                (h == 0 || !key_before(key, head.low))
                    && next.is_none_or(|n| key_before(key, n.low))
            };
            if !(0..bucket.len).all(within) {
                return Some("an entity is outside its bucket's range");
            }
            if next.is_some_and(|n| self.bucket(n).len + bucket.len <= BUCKET / 2) {
                return Some("two neighbouring buckets would fit into one");
            }
        }
        (n != self.len() as usize).then_some("the number of entities is wrong")
    }

    /// The last bucket whose range can hold a place: where the newest entity of that place belongs.
    #[inline]
    fn range_of(&self, at: Vns) -> usize {
        // The first bucket takes whatever is before the second.
        self.heads[1..].partition_point(|h| !at.before(h.low.0))
    }

    /// Bucket and index of an entity whose place is `at`.
    fn find_among_several(&self, at: Vns, ent: EntityId) -> Option<(usize, usize)> {
        if self.heads.is_empty() {
            return None;
        }
        let hint = self.hint.get();
        for h in (0..=self.range_of(at)).rev() {
            let head = &self.heads[h];
            if let Some(i) = self.bucket(head).find(hint, ent.0) {
                return Some((h, i));
            }
            if head.low.0 != at {
                // Only where a bucket begins with the same place can it go on in the one before.
                return None;
            }
        }
        None
    }

    /// Takes room for twice as many entities as now.
    #[cold]
    fn grow(&mut self) {
        // A single bucket is the least.
        self.room = self.room.max(BUCKET as u32 / 2).saturating_mul(2);
        let most = Self::most_buckets(self.room);
        self.buckets.reserve(most - self.buckets.len());
        self.heads.reserve(most - self.heads.len());
        self.free.reserve(most - self.free.len());
    }

    fn new_bucket(&mut self) -> u32 {
        if let Some(index) = self.free.pop() {
            self.buckets[index as usize].len = 0;
            return index;
        }
        self.buckets.push(Bucket::EMPTY);
        // A queue cannot hold more entities than there are 32-bit entity numbers.
        (self.buckets.len() - 1) as u32
    }

    /// Moves the later half of a full bucket to a new one behind it.
    #[cold]
    fn split(&mut self, h: usize) {
        let from = self.heads[h].bucket as usize;
        let to = self.new_bucket();
        let mut order: [u8; BUCKET] = core::array::from_fn(|i| i as u8);
        let full = self.buckets[from].clone();
        let half = BUCKET / 2;
        let (_, middle, _) = order.select_nth_unstable_by(half, |&a, &b| {
            if full.before(usize::from(a), usize::from(b)) {
                core::cmp::Ordering::Less
            } else {
                core::cmp::Ordering::Greater
            }
        });
        let middle = usize::from(*middle);
        let low = (full.get(middle).at, full.seq[middle]);
        self.buckets[from].len = 0;
        for (n, i) in order.into_iter().enumerate() {
            let part = if n < half { from } else { to as usize };
            self.buckets[part].push(full.get(usize::from(i)));
        }
        self.heads[h].bounds = self.buckets[from].bounds();
        let head = Head {
            low,
            bounds: self.buckets[to as usize].bounds(),
            bucket: to,
        };
        self.heads.insert(h + 1, head);
    }

    /// Joins a bucket that has become shorter with a neighbour if both together are short.
    fn join_neighbours(&mut self, h: usize) {
        let len = self.bucket(&self.heads[h]).len;
        let fits = |other: Option<&Head>| {
            other.is_some_and(|o| len == 0 || self.bucket(o).len + len <= BUCKET / 2)
        };
        let first = if fits(self.heads.get(h + 1)) {
            h
        } else if h > 0 && fits(self.heads.get(h - 1)) {
            h - 1
        } else {
            return;
        };
        let (a, b) = (self.heads[first].bucket, self.heads[first + 1].bucket);
        for i in 0..self.buckets[b as usize].len {
            let slot = self.buckets[b as usize].get(i);
            self.buckets[a as usize].push(slot);
        }
        self.heads[first].bounds = self.buckets[a as usize].bounds();
        self.heads.remove(first + 1);
        self.free.push(b);
        if self.heads.len() == 1 {
            // The only one is the first.
            self.buckets.swap(0, a as usize);
            self.heads.clear();
            self.free.clear();
            self.free.extend(1..self.buckets.len() as u32);
        }
    }
}

/// Whether one place comes before another, ties by number.
fn key_before(a: (Vns, u64), b: (Vns, u64)) -> bool {
    let d = a.0.minus(b.0);
    d < 0 || (d == 0 && a.1 < b.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    /// The oracle: a map ordered by signed distance from the first place used, then by insertion.
    fn check(ops: &[(u8, u16, u16, u8)], base: u64) {
        let mut line = Order::default();
        let mut oracle: BTreeMap<(i64, u64), (Vns, u64, u32)> = BTreeMap::new();
        for (n, &(op, at, v, slice)) in ops.iter().enumerate() {
            let n = n as u64;
            let place = |at: i64| Vns(base.wrapping_add(at as u64));
            if op % 8 > 3 || oracle.is_empty() {
                let vr = Vns(base.wrapping_add(u64::from(v)));
                line.insert(
                    place(i64::from(at)),
                    vr,
                    u64::from(slice),
                    EntityId(n as u32),
                );
                oracle.insert((i64::from(at), n), (vr, u64::from(slice), n as u32));
            } else {
                let i = usize::from(at) % oracle.len();
                let k = *oracle.keys().nth(i).unwrap();
                if op % 8 == 0 {
                    let entry = oracle.get_mut(&k).unwrap();
                    entry.1 = u64::from(slice);
                    line.set_slice(place(k.0), EntityId(entry.2), entry.1);
                } else {
                    let gone = oracle.remove(&k).unwrap();
                    line.remove(place(k.0), EntityId(gone.2));
                }
            }
            assert_eq!(line.disorder(), None);
            assert_eq!(line.len() as usize, oracle.len());
            let want: Vec<u32> = oracle.values().map(|e| e.2).collect();
            let got: Vec<u32> = line.iter().map(|e| e.0).collect();
            assert_eq!(got, want);
            let rel = |x: Vns| x.minus(Vns(base));
            assert_eq!(
                line.min_vruntime().map(rel),
                oracle.values().map(|e| rel(e.0)).min()
            );
            assert_eq!(line.first().map(|e| e.0), want.first().copied());
            assert_eq!(line.second().map(|e| e.0), want.get(1).copied());
            assert_eq!(line.min_slice(), oracle.values().map(|e| e.1).min());
            assert_eq!(line.max_slice(), oracle.values().map(|e| e.1).max());
            let bound = i64::from(v);
            assert_eq!(
                line.first_eligible(Vns(base), i128::from(bound) * 3 + 2, 3)
                    .map(|e| e.0),
                oracle.values().find(|e| rel(e.0) <= bound).map(|e| e.2)
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]
        #[test]
        fn agrees_with_an_ordered_map(
            grow in proptest::collection::vec((4u8..8, 0u16..200, any::<u16>(), any::<u8>()), 0..300),
            ops in proptest::collection::vec((any::<u8>(), 0u16..200, any::<u16>(), any::<u8>()), 1..400),
            shrink in proptest::collection::vec((1u8..4, any::<u16>(), any::<u16>(), any::<u8>()), 0..300),
            wrap in any::<bool>(),
        ) {
            let all: Vec<_> = grow.into_iter().chain(ops).chain(shrink).collect();
            check(&all, if wrap { u64::MAX - 100 } else { 5_000_000 });
        }
    }

    #[test]
    fn equal_places_keep_insertion_order_over_many_buckets() {
        let mut line = Order::default();
        for n in 0..500 {
            line.insert(Vns(7), Vns(7), 1, EntityId(n));
        }
        assert_eq!(line.first(), Some(EntityId(0)));
        line.remove(Vns(7), EntityId(250));
        assert_eq!(line.disorder(), None);
        let got: Vec<u32> = line.iter().map(|e| e.0).collect();
        let want: Vec<u32> = (0..500).filter(|&n| n != 250).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn room_is_taken_ahead() {
        let mut line = Order::default();
        for n in 0..3000u32 {
            line.insert(Vns(u64::from(n % 97)), Vns(0), 1, EntityId(n));
        }
        let room = |l: &Order| (l.buckets.capacity(), l.heads.capacity(), l.free.capacity());
        let before = room(&line);
        // Whatever leaves and joins after that, as long as there are no more than before.
        for n in 0..3000u32 {
            if n % 40 > 0 {
                line.remove(Vns(u64::from(n % 97)), EntityId(n));
            }
        }
        for n in 3000..5900u32 {
            line.insert(Vns(u64::from(n % 89)), Vns(0), 1, EntityId(n));
        }
        assert_eq!(line.disorder(), None);
        assert_eq!(room(&line), before);
    }
}
