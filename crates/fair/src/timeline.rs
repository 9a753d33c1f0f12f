//! The ordered set of queued entities of one queue.
//!
//! The kernel keeps a red-black tree ordered by deadline, each node with the smallest vruntime of its
//! subtree. What a pick needs of it is: the first entity in order that is eligible, the first in order,
//! and the smallest vruntime and slice of all. This structure gives the same answers from short sorted
//! blocks with the aggregates of each block side by side, which a CPU reads faster than tree nodes:
//! a block is moved and scanned within a few cache lines. Ties of the key keep insertion order
//! (reference section 4.1).

use alloc::vec::Vec;

use crate::ids::EntityId;
use crate::units::Vns;

/// Entities in one block at most.
const BLOCK: usize = 32;

/// Position key: deadline (EEVDF) or vruntime (CFS), then the order of insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Key {
    at: Vns,
    seq: u64,
}

impl Key {
    /// Whether `self` comes before `other`.
    fn before(self, other: Self) -> bool {
        let d = self.at.minus(other.at);
        d < 0 || (d == 0 && self.seq < other.seq)
    }
}

/// What the set keeps of an entity.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    key: Key,
    vruntime: Vns,
    slice: u64,
    ent: u32,
}

#[derive(Clone, Debug)]
struct Block {
    len: usize,
    slots: [Slot; BLOCK],
}

impl Block {
    const EMPTY: Self = Self {
        len: 0,
        slots: [Slot {
            key: Key { at: Vns(0), seq: 0 },
            vruntime: Vns(0),
            slice: 0,
            ent: 0,
        }; BLOCK],
    };

    fn used(&self) -> &[Slot] {
        &self.slots[..self.len]
    }

    fn summary(&self, index: u32) -> Head {
        let used = self.used();
        let first = used[0];
        let mut head = Head {
            last: used[used.len() - 1].key,
            min_vruntime: first.vruntime,
            min_slice: first.slice,
            max_slice: first.slice,
            block: index,
        };
        for s in &used[1..] {
            head.add(s.vruntime, s.slice);
        }
        head
    }
}

/// Aggregates of a block, kept in order beside each other.
#[derive(Clone, Copy, Debug)]
struct Head {
    last: Key,
    min_vruntime: Vns,
    min_slice: u64,
    max_slice: u64,
    block: u32,
}

impl Head {
    fn add(&mut self, vruntime: Vns, slice: u64) {
        self.min_vruntime = self.min_vruntime.earlier(vruntime);
        self.min_slice = self.min_slice.min(slice);
        self.max_slice = self.max_slice.max(slice);
    }
}

/// The ordered set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    heads: Vec<Head>,
    blocks: Vec<Block>,
    free: Vec<u32>,
    next_seq: u64,
    len: u32,
}

impl Timeline {
    /// Number of entities.
    #[cfg(test)]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Puts an entity in, behind all with the same `at`; returns the key to take it out with.
    pub(crate) fn insert(&mut self, at: Vns, vruntime: Vns, slice: u64, ent: EntityId) -> Key {
        let key = Key {
            at,
            seq: self.next_seq,
        };
        self.next_seq += 1;
        self.len += 1;
        let slot = Slot {
            key,
            vruntime,
            slice,
            ent: ent.0,
        };
        if self.heads.is_empty() {
            let index = self.new_block();
            let block = &mut self.blocks[index as usize];
            block.slots[0] = slot;
            block.len = 1;
            let head = block.summary(index);
            self.heads.push(head);
            return key;
        }
        let mut h = self.head_of(key).min(self.heads.len() - 1);
        if self.blocks[self.heads[h].block as usize].len == BLOCK {
            self.split(h);
            if self.heads[h].last.before(key) {
                h += 1;
            }
        }
        let head = &mut self.heads[h];
        let block = &mut self.blocks[head.block as usize];
        let pos = block.used().partition_point(|s| s.key.before(key));
        block.slots.copy_within(pos..block.len, pos + 1);
        block.slots[pos] = slot;
        block.len += 1;
        head.add(vruntime, slice);
        if head.last.before(key) {
            head.last = key;
        }
        key
    }

    /// Takes an entity out. `key` is what [`Timeline::insert`] returned.
    pub(crate) fn remove(&mut self, key: Key) {
        let h = self.head_of(key);
        let index = self.heads[h].block;
        let block = &mut self.blocks[index as usize];
        let pos = block.used().partition_point(|s| s.key.before(key));
        debug_assert!(
            block.used()[pos].key == key,
            "entity is not where its key says"
        );
        let gone = block.slots[pos];
        block.slots.copy_within(pos + 1..block.len, pos);
        block.len -= 1;
        self.len -= 1;
        let left = block.len;
        if left == 0 {
            self.heads.remove(h);
            self.free.push(index);
            return;
        }
        let head = &mut self.heads[h];
        if gone.vruntime == head.min_vruntime
            || gone.slice == head.min_slice
            || gone.slice == head.max_slice
        {
            *head = block.summary(index);
        } else {
            head.last = block.slots[left - 1].key;
        }
        if left <= BLOCK / 4 {
            self.merge(h);
        }
    }

    /// Tells of a new slice of an entity that stays where it is.
    pub(crate) fn set_slice(&mut self, key: Key, slice: u64) {
        let h = self.head_of(key);
        let index = self.heads[h].block;
        let block = &mut self.blocks[index as usize];
        let pos = block.used().partition_point(|s| s.key.before(key));
        block.slots[pos].slice = slice;
        self.heads[h] = block.summary(index);
    }

    /// First entity in order.
    pub(crate) fn first(&self) -> Option<EntityId> {
        let head = self.heads.first()?;
        Some(EntityId(self.blocks[head.block as usize].slots[0].ent))
    }

    /// Second entity in order.
    pub(crate) fn second(&self) -> Option<EntityId> {
        self.iter().nth(1)
    }

    /// First entity in order whose vruntime passes `eligible`.
    ///
    /// `eligible` must hold for every vruntime before one for which it holds.
    pub(crate) fn first_eligible(&self, eligible: impl Fn(Vns) -> bool) -> Option<EntityId> {
        let head = self.heads.iter().find(|h| eligible(h.min_vruntime))?;
        let block = &self.blocks[head.block as usize];
        let slot = block.used().iter().find(|s| eligible(s.vruntime))?;
        Some(EntityId(slot.ent))
    }

    /// Smallest vruntime of all.
    pub(crate) fn min_vruntime(&self) -> Option<Vns> {
        let first = self.heads.first()?.min_vruntime;
        Some(
            self.heads[1..]
                .iter()
                .fold(first, |m, h| m.earlier(h.min_vruntime)),
        )
    }

    /// Smallest slice of all.
    pub(crate) fn min_slice(&self) -> Option<u64> {
        self.heads.iter().map(|h| h.min_slice).min()
    }

    /// Largest slice of all.
    pub(crate) fn max_slice(&self) -> Option<u64> {
        self.heads.iter().map(|h| h.max_slice).max()
    }

    /// All entities in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = EntityId> + '_ {
        self.heads
            .iter()
            .flat_map(|h| self.blocks[h.block as usize].used())
            .map(|s| EntityId(s.ent))
    }

    /// Whether order or aggregates are wrong, and what.
    pub(crate) fn disorder(&self) -> Option<&'static str> {
        let mut prev: Option<Key> = None;
        let mut n = 0;
        for head in &self.heads {
            let block = &self.blocks[head.block as usize];
            if block.len == 0 {
                return Some("an empty block");
            }
            for s in block.used() {
                if prev.is_some_and(|p| !p.before(s.key)) {
                    return Some("entities out of order");
                }
                prev = Some(s.key);
                n += 1;
            }
            let true_head = block.summary(head.block);
            if head.last != true_head.last {
                return Some("a block's last key is wrong");
            }
            if (head.min_vruntime, head.min_slice, head.max_slice)
                != (
                    true_head.min_vruntime,
                    true_head.min_slice,
                    true_head.max_slice,
                )
            {
                return Some("an aggregate is not the true minimum or maximum");
            }
        }
        (n != self.len).then_some("the number of entities is wrong")
    }

    /// Index of the block that holds `key` or would; the number of blocks if it lies behind all.
    fn head_of(&self, key: Key) -> usize {
        self.heads.partition_point(|h| h.last.before(key))
    }

    fn new_block(&mut self) -> u32 {
        if let Some(index) = self.free.pop() {
            return index;
        }
        self.blocks.push(Block::EMPTY);
        // A queue cannot hold more entities than there are 32-bit entity numbers.
        (self.blocks.len() - 1) as u32
    }

    /// Moves the upper half of a full block to a new one behind it.
    fn split(&mut self, h: usize) {
        let from = self.heads[h].block;
        let to = self.new_block();
        let half = BLOCK / 2;
        let mut upper = [Slot::default(); BLOCK / 2];
        upper.copy_from_slice(&self.blocks[from as usize].slots[half..]);
        self.blocks[from as usize].len = half;
        let block = &mut self.blocks[to as usize];
        block.slots[..half].copy_from_slice(&upper);
        block.len = half;
        let head = block.summary(to);
        self.heads[h] = self.blocks[from as usize].summary(from);
        self.heads.insert(h + 1, head);
    }

    /// Joins a block that has become short with its neighbour behind, if both fit well into one.
    fn merge(&mut self, h: usize) {
        let Some(next) = self.heads.get(h + 1).map(|n| n.block) else {
            return;
        };
        let this = self.heads[h].block;
        let (a, b) = (this as usize, next as usize);
        let (la, lb) = (self.blocks[a].len, self.blocks[b].len);
        if la + lb > BLOCK / 2 {
            return;
        }
        let moved = self.blocks[b].slots;
        self.blocks[a].slots[la..la + lb].copy_from_slice(&moved[..lb]);
        self.blocks[a].len = la + lb;
        self.heads[h] = self.blocks[a].summary(this);
        self.heads.remove(h + 1);
        self.free.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    /// The oracle: a map ordered by signed distance from the first key used, then by insertion.
    fn check(ops: &[(u8, u16, u16, u8)], base: u64) {
        let mut line = Timeline::default();
        let mut oracle: BTreeMap<(i64, u64), (Vns, u64, u32, Key)> = BTreeMap::new();
        for (n, &(op, at, v, slice)) in ops.iter().enumerate() {
            let n = n as u64;
            if op % 3 > 0 || oracle.is_empty() {
                let at_v = Vns(base.wrapping_add(u64::from(at)));
                let vr = Vns(base.wrapping_add(u64::from(v)));
                let key = line.insert(at_v, vr, u64::from(slice), EntityId(n as u32));
                oracle.insert((i64::from(at), n), (vr, u64::from(slice), n as u32, key));
            } else {
                let i = usize::from(at) % oracle.len();
                let k = *oracle.keys().nth(i).unwrap();
                if op == 0 {
                    let entry = oracle.get_mut(&k).unwrap();
                    entry.1 = u64::from(slice);
                    line.set_slice(entry.3, entry.1);
                } else {
                    let gone = oracle.remove(&k).unwrap();
                    line.remove(gone.3);
                }
            }
            assert_eq!(line.len() as usize, oracle.len());
            let want: Vec<u32> = oracle.values().map(|e| e.2).collect();
            let got: Vec<u32> = line.iter().map(|e| e.0).collect();
            assert_eq!(got, want);
            let rel = |x: Vns| x.minus(Vns(base));
            assert_eq!(
                line.min_vruntime().map(rel),
                oracle.values().map(|e| rel(e.0)).min()
            );
            assert_eq!(line.min_slice(), oracle.values().map(|e| e.1).min());
            assert_eq!(line.max_slice(), oracle.values().map(|e| e.1).max());
            let bound = i64::from(v);
            assert_eq!(
                line.first_eligible(|x| rel(x) <= bound).map(|e| e.0),
                oracle.values().find(|e| rel(e.0) <= bound).map(|e| e.2)
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn agrees_with_an_ordered_map(
            ops in proptest::collection::vec((any::<u8>(), 0u16..200, any::<u16>(), any::<u8>()), 1..400),
            wrap in any::<bool>(),
        ) {
            check(&ops, if wrap { u64::MAX - 1000 } else { 5_000_000 });
        }
    }

    #[test]
    fn equal_keys_keep_insertion_order_over_many_blocks() {
        let mut line = Timeline::default();
        let keys: Vec<Key> = (0..500)
            .map(|n| line.insert(Vns(7), Vns(7), 1, EntityId(n)))
            .collect();
        line.remove(keys[250]);
        let got: Vec<u32> = line.iter().map(|e| e.0).collect();
        let want: Vec<u32> = (0..500).filter(|&n| n != 250).collect();
        assert_eq!(got, want);
    }
}
