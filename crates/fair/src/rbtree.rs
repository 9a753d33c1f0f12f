//! The kernel's own tree, imitated for one aggregate: the smallest slice.
//!
//! The kernel keeps two aggregates in each node of a queue's red-black tree, the smallest vruntime and the smallest
//! slice of the subtree. When the tree rotates, or when a node takes another's place, only the first of them is handed
//! over; the second stays what it was until something below that node changes. So the "smallest slice" that a
//! group entity is given may be too large. Recordings of 6.12.117 show it (docs/rules.md).
//!
//! The answer depends on the shape of the tree, and so on the order of all insertions and removals; the
//! sorted blocks of [`timeline`](crate::timeline) cannot know it. This tree follows the textbook algorithm (Cormen et
//! al., chapter 13, with the successor taking a removed node's place), as the kernel does. It is
//! kept beside the blocks only where asked for ([`Class::imitate_min_slice`](crate::Class::imitate_min_slice)).

use alloc::vec::Vec;

use crate::ids::EntityId;
use crate::units::Vns;

/// No node.
const NIL: u32 = u32::MAX;
const LEFT: usize = 0;
const RIGHT: usize = 1;

#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    child: [u32; 2],
    red: bool,
    deadline: Vns,
    vruntime: Vns,
    slice: u64,
    min_vruntime: Vns,
    min_slice: u64,
}

/// The tree of one queue; nodes are found by entity number.
#[derive(Clone, Debug)]
pub(crate) struct RbTree {
    root: u32,
    nodes: Vec<Node>,
}

impl RbTree {
    pub(crate) fn new() -> Self {
        Self {
            root: NIL,
            nodes: Vec::new(),
        }
    }

    /// The smallest slice as the kernel would read it at the root.
    pub(crate) fn min_slice(&self) -> Option<u64> {
        (self.root != NIL).then(|| self.at(self.root).min_slice)
    }

    fn at(&self, n: u32) -> &Node {
        &self.nodes[n as usize]
    }

    fn at_mut(&mut self, n: u32) -> &mut Node {
        &mut self.nodes[n as usize]
    }

    fn is_red(&self, n: u32) -> bool {
        n != NIL && self.at(n).red
    }

    pub(crate) fn insert(&mut self, se: EntityId, deadline: Vns, vruntime: Vns, slice: u64) {
        let n = se.0;
        let node = Node {
            parent: NIL,
            child: [NIL; 2],
            red: true,
            deadline,
            vruntime,
            slice,
            min_vruntime: vruntime,
            min_slice: slice,
        };
        if self.nodes.len() <= n as usize {
            self.nodes.resize(n as usize + 1, node);
        }
        self.nodes[n as usize] = node;
        let (mut parent, mut at, mut side) = (NIL, self.root, LEFT);
        while at != NIL {
            parent = at;
            // Equal deadlines go to the right.
            side = if deadline.before(self.at(at).deadline) {
                LEFT
            } else {
                RIGHT
            };
            at = self.at(at).child[side];
        }
        self.at_mut(n).parent = parent;
        if parent == NIL {
            self.root = n;
        } else {
            self.at_mut(parent).child[side] = n;
        }
        self.propagate(parent, NIL);
        self.balance_insert(n);
    }

    /// A new slice of a node that stays where it is.
    pub(crate) fn set_slice(&mut self, se: EntityId, slice: u64) {
        self.at_mut(se.0).slice = slice;
        self.propagate(se.0, NIL);
    }

    pub(crate) fn remove(&mut self, se: EntityId) {
        let n = se.0;
        let node = *self.at(n);
        let [left, right] = node.child;
        // The place from which a black node is missing, if one is, and the lowest node to recompute.
        let (hole, side, recompute);
        if left == NIL || right == NIL {
            let only = if left == NIL { right } else { left };
            side = self.side_of(n);
            self.replace(n, only);
            if only != NIL {
                self.at_mut(only).red = node.red;
                hole = NIL;
            } else {
                hole = if node.red { NIL } else { node.parent };
            }
            recompute = node.parent;
        } else {
            let mut succ = right;
            while self.at(succ).child[LEFT] != NIL {
                succ = self.at(succ).child[LEFT];
            }
            let below = self.at(succ).child[RIGHT];
            let succ_red = self.at(succ).red;
            let under;
            if succ == right {
                under = succ;
                side = RIGHT;
                self.hand_over(n, succ);
            } else {
                under = self.at(succ).parent;
                side = LEFT;
                self.at_mut(under).child[LEFT] = below;
                if below != NIL {
                    self.at_mut(below).parent = under;
                }
                self.at_mut(succ).child[RIGHT] = right;
                self.at_mut(right).parent = succ;
                self.hand_over(n, succ);
                self.propagate(under, succ);
            }
            self.at_mut(succ).child[LEFT] = left;
            self.at_mut(left).parent = succ;
            self.replace(n, succ);
            self.at_mut(succ).red = node.red;
            if below != NIL {
                self.at_mut(below).red = false;
                hole = NIL;
            } else {
                hole = if succ_red { NIL } else { under };
            }
            recompute = succ;
        }
        self.propagate(recompute, NIL);
        if hole != NIL {
            self.balance_remove(hole, side);
        }
    }

    fn side_of(&self, n: u32) -> usize {
        let p = self.at(n).parent;
        if p != NIL && self.at(p).child[RIGHT] == n {
            RIGHT
        } else {
            LEFT
        }
    }

    /// Puts `new` (or nothing) where `old` hangs.
    fn replace(&mut self, old: u32, new: u32) {
        let parent = self.at(old).parent;
        let side = self.side_of(old);
        if parent == NIL {
            self.root = new;
        } else {
            self.at_mut(parent).child[side] = new;
        }
        if new != NIL {
            self.at_mut(new).parent = parent;
        }
    }

    /// Recomputes both aggregates; `true` if neither changed.
    fn compute(&mut self, n: u32) -> bool {
        let node = *self.at(n);
        let (mut v, mut s) = (node.vruntime, node.slice);
        for c in node.child {
            if c != NIL {
                v = v.earlier(self.at(c).min_vruntime);
                s = s.min(self.at(c).min_slice);
            }
        }
        let node = self.at_mut(n);
        let same = node.min_vruntime == v && node.min_slice == s;
        node.min_vruntime = v;
        node.min_slice = s;
        same
    }

    fn propagate(&mut self, from: u32, stop: u32) {
        let mut n = from;
        while n != stop && n != NIL {
            if self.compute(n) {
                break;
            }
            n = self.at(n).parent;
        }
    }

    /// A node takes another's place: the smallest vruntime goes along, the smallest slice does not.
    fn hand_over(&mut self, old: u32, new: u32) {
        self.at_mut(new).min_vruntime = self.at(old).min_vruntime;
    }

    /// Rotates `n` down to `side`; its other child takes its place, and its aggregate of vruntime only.
    fn rotate(&mut self, n: u32, side: usize) {
        let up = self.at(n).child[1 - side];
        let inner = self.at(up).child[side];
        self.at_mut(n).child[1 - side] = inner;
        if inner != NIL {
            self.at_mut(inner).parent = n;
        }
        self.replace(n, up);
        self.at_mut(up).child[side] = n;
        self.at_mut(n).parent = up;
        self.hand_over(n, up);
        self.compute(n);
    }

    fn balance_insert(&mut self, inserted: u32) {
        let mut n = inserted;
        loop {
            let parent = self.at(n).parent;
            if parent == NIL {
                self.at_mut(n).red = false;
                return;
            }
            if !self.at(parent).red {
                return;
            }
            // A red parent is never the root.
            let grand = self.at(parent).parent;
            let side = self.side_of(parent);
            let uncle = self.at(grand).child[1 - side];
            if self.is_red(uncle) {
                self.at_mut(uncle).red = false;
                self.at_mut(parent).red = false;
                self.at_mut(grand).red = true;
                n = grand;
                continue;
            }
            let mut top = parent;
            if self.at(parent).child[1 - side] == n {
                self.rotate(parent, side);
                top = n;
            }
            self.rotate(grand, 1 - side);
            self.at_mut(top).red = false;
            self.at_mut(grand).red = true;
            return;
        }
    }

    /// The subtree at `side` of `parent` lacks one black node.
    fn balance_remove(&mut self, parent: u32, side: usize) {
        let (mut parent, mut side) = (parent, side);
        loop {
            let mut sibling = self.at(parent).child[1 - side];
            if self.is_red(sibling) {
                self.rotate(parent, side);
                self.at_mut(sibling).red = self.at(parent).red;
                self.at_mut(parent).red = true;
                sibling = self.at(parent).child[1 - side];
            }
            let outer = self.at(sibling).child[1 - side];
            let inner = self.at(sibling).child[side];
            if !self.is_red(outer) {
                if !self.is_red(inner) {
                    self.at_mut(sibling).red = true;
                    if self.at(parent).red {
                        self.at_mut(parent).red = false;
                        return;
                    }
                    let up = self.at(parent).parent;
                    if up == NIL {
                        return;
                    }
                    side = self.side_of(parent);
                    parent = up;
                    continue;
                }
                self.rotate(sibling, 1 - side);
                self.at_mut(sibling).red = true;
                self.at_mut(inner).red = false;
                sibling = inner;
            }
            let outer = self.at(sibling).child[1 - side];
            let color = self.at(parent).red;
            self.rotate(parent, side);
            self.at_mut(sibling).red = color;
            self.at_mut(parent).red = false;
            if outer != NIL {
                self.at_mut(outer).red = false;
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl RbTree {
        /// Black height, if colours, order, links and the vruntime aggregate are right.
        fn sound(&self, n: u32) -> Option<(u32, Vns)> {
            if n == NIL {
                return Some((1, Vns(u64::MAX >> 1)));
            }
            let node = self.at(n);
            let mut min = node.vruntime;
            let mut heights = [0; 2];
            for side in [LEFT, RIGHT] {
                let c = node.child[side];
                if c != NIL {
                    let child = self.at(c);
                    // A rotation may bring equal deadlines to either side.
                    let ordered = if side == LEFT {
                        !node.deadline.before(child.deadline)
                    } else {
                        !child.deadline.before(node.deadline)
                    };
                    if child.parent != n || !ordered || (node.red && child.red) {
                        return None;
                    }
                }
                let (h, v) = self.sound(c)?;
                heights[side] = h;
                min = min.earlier(v);
            }
            let same = heights[0] == heights[1] && min == node.min_vruntime;
            same.then_some((heights[0] + u32::from(!node.red), min))
        }
    }

    proptest! {
        #[test]
        fn stays_a_red_black_tree_with_true_vruntimes(
            ops in proptest::collection::vec((any::<bool>(), 0u32..40, 0u64..1000, 0u64..1000, 1u64..5), 1..200)
        ) {
            let mut t = RbTree::new();
            let mut inside = [false; 40];
            for (put, n, d, v, s) in ops {
                if put && !inside[n as usize] {
                    t.insert(EntityId(n), Vns(d), Vns(v), s);
                    inside[n as usize] = true;
                } else if inside[n as usize] {
                    t.remove(EntityId(n));
                    inside[n as usize] = false;
                }
                prop_assert!(t.root == NIL || (t.sound(t.root).is_some() && !t.at(t.root).red));
            }
        }
    }

    #[test]
    fn a_rotation_leaves_the_smallest_slice_behind() {
        let mut t = RbTree::new();
        t.insert(EntityId(0), Vns(30), Vns(0), 100_000);
        t.insert(EntityId(1), Vns(10), Vns(0), 700_000);
        assert_eq!(t.min_slice(), Some(100_000));
        // The third, between the two, becomes the root.
        t.insert(EntityId(2), Vns(20), Vns(0), 700_000);
        assert_eq!(t.min_slice(), Some(700_000), "the true minimum is 100 us");
        // Any change below mends it.
        t.set_slice(EntityId(0), 90_000);
        assert_eq!(t.min_slice(), Some(90_000));
    }
}
