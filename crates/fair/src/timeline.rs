//! The entities of one level that wait, with the virtual clock V over them (reference sections 2, 4.2 and 5.1).
//!
//! This is the core of a queue without anything around it: no groups, load averages, counters or policies. [`Class`](crate::Class)
//! keeps one for each queue; a runtime that wants nothing but the order of EEVDF can use it directly:
//!
//! ```
//! use schedlab_fair::timeline::{Running, Timeline, Waiting};
//! use schedlab_fair::{EntityId, Vns, weight::{Load, calc_delta_fair}};
//!
//! let mut line = Timeline::new(Vns(0));
//! let load = Load::of_nice(0);
//! let weight = load.weight.down();
//! for id in 0..2 {
//!     let vruntime = line.place(0, weight, None);
//!     line.insert(&Waiting {
//!         id: EntityId(id),
//!         deadline: vruntime.plus(calc_delta_fair(3_000_000, load)),
//!         vruntime,
//!         slice: 3_000_000,
//!         weight,
//!     });
//! }
//! // Entity 0 runs for 1 ms, so it is no longer in the tree but counts in V.
//! let first = line.pick(None).unwrap();
//! assert_eq!(first, EntityId(0));
//! line.remove(&Waiting { id: first, deadline: Vns(3_000_000), vruntime: Vns(0), slice: 3_000_000, weight });
//! let running = Some(Running { vruntime: Vns(1_000_000), weight });
//! assert_eq!(line.v(running), Vns(500_000));
//! assert!(!line.eligible(running, Vns(1_000_000)));
//! assert_eq!(line.pick(running), Some(EntityId(1)));
//! ```

use crate::ids::EntityId;
use crate::order::Order;
use crate::units::{Vns, floor_div, trunc_div};

/// An entity as a [`Timeline`] needs to know it. It must be taken out before any of this changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Who it is.
    pub id: EntityId,
    /// Its virtual deadline, by which the order goes (CFS orders by vruntime: then this is the vruntime).
    pub deadline: Vns,
    /// Its virtual run time.
    pub vruntime: Vns,
    /// Its slice, ns; only the smallest and largest are of interest.
    pub slice: u64,
    /// Its down-scaled weight ([`Weight::down`](crate::Weight::down)).
    pub weight: u64,
}

/// The running entity of the level. It is not in the tree, but counts in V while it means to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Running {
    /// Its virtual run time up to now.
    pub vruntime: Vns,
    /// Its down-scaled weight.
    pub weight: u64,
}

/// The waiting entities of one level.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Anchor of the keys: `min_vruntime` or `zero_vruntime`.
    pub anchor: Vns,
    /// Sum over the tree of down-scaled weight times distance from the anchor (`avg_vruntime`, later `sum_w_vruntime`).
    pub sum_w_vruntime: i128,
    /// Sum of down-scaled weights over the tree (`avg_load`, later `sum_weight`).
    pub sum_weight: u64,
    order: Order,
}

impl Timeline {
    /// An empty one whose V is `anchor`.
    #[must_use]
    pub fn new(anchor: Vns) -> Self {
        Self {
            anchor,
            ..Self::default()
        }
    }

    /// Number of waiting entities.
    #[must_use]
    #[inline]
    pub fn len(&self) -> u32 {
        self.order.len()
    }

    /// Whether nobody waits.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.order.len() == 0
    }

    /// Puts an entity in, behind all with the same deadline. Returns its weight times its distance from the anchor, which a
    /// kernel keeps in 64 bits.
    #[inline]
    pub fn insert(&mut self, e: &Waiting) -> i128 {
        let product = wide(e.vruntime.minus(self.anchor), e.weight);
        self.sum_w_vruntime += product;
        self.sum_weight += e.weight;
        self.order.insert(e.deadline, e.vruntime, e.slice, e.id);
        product
    }

    /// Takes an entity out that was put in like this.
    #[inline]
    pub fn remove(&mut self, e: &Waiting) {
        self.order.remove(e.deadline, e.id);
        self.sum_w_vruntime -= wide(e.vruntime.minus(self.anchor), e.weight);
        self.sum_weight -= e.weight;
    }

    /// Tells of a new slice of an entity that stays where it is.
    pub fn set_slice(&mut self, id: EntityId, deadline: Vns, slice: u64) {
        self.order.set_slice(deadline, id, slice);
    }

    /// S' and L' of section 2.2: the sums over everything on the level.
    #[must_use]
    #[inline]
    pub fn sums(&self, running: Option<Running>) -> (i128, u64) {
        match running {
            Some(r) => (
                self.sum_w_vruntime + wide(r.vruntime.minus(self.anchor), r.weight),
                self.sum_weight + r.weight,
            ),
            None => (self.sum_w_vruntime, self.sum_weight),
        }
    }

    /// V (section 2.3). Floored, so that an entity placed at V is eligible.
    #[must_use]
    #[inline]
    pub fn v(&self, running: Option<Running>) -> Vns {
        if self.sum_weight == 0 {
            return running.map_or(self.anchor, |r| r.vruntime);
        }
        let (s, l) = self.sums(running);
        self.anchor.offset(floor_div(s, l))
    }

    /// Moves the anchor and keeps the sums true. No answer changes by it.
    #[inline]
    pub fn move_anchor(&mut self, to: Vns) {
        self.sum_w_vruntime -= wide(to.minus(self.anchor), self.sum_weight);
        self.anchor = to;
    }

    /// Whether a vruntime is eligible: `v <= V`, exactly, by cross multiplication (section 2.4).
    #[must_use]
    #[inline]
    pub fn eligible(&self, running: Option<Running>, v: Vns) -> bool {
        let (s, l) = self.sums(running);
        s >= wide(v.minus(self.anchor), l)
    }

    /// Where an entity with a saved lag joins, so that it has that lag once it counts in V itself (section 5.1).
    #[must_use]
    #[inline]
    pub fn place(&self, vlag: i64, weight: u64, running: Option<Running>) -> Vns {
        let v = self.v(running);
        v.offset(self.inflated(vlag, weight, running).wrapping_neg())
    }

    /// `vlag * (L + w) / L`, 0 on an empty level.
    #[inline]
    pub(crate) fn inflated(&self, vlag: i64, weight: u64, running: Option<Running>) -> i64 {
        let load = self.sum_weight + running.map_or(0, |r| r.weight);
        if load == 0 {
            return 0;
        }
        trunc_div(wide(vlag, load + weight), load)
    }

    /// The waiting entity with the earliest deadline among the eligible (section 4.2, steps 5 and 6).
    #[must_use]
    #[inline]
    pub fn pick(&self, running: Option<Running>) -> Option<EntityId> {
        let (s, l) = self.sums(running);
        if l == 0 {
            return None;
        }
        self.order.first_eligible(self.anchor, s, l)
    }

    /// First entity in order, eligible or not.
    #[must_use]
    #[inline]
    pub fn first(&self) -> Option<EntityId> {
        self.order.first()
    }

    /// Second entity in order.
    #[must_use]
    pub fn second(&self) -> Option<EntityId> {
        self.order.second()
    }

    /// Smallest vruntime of those that wait.
    #[must_use]
    #[inline]
    pub fn min_vruntime(&self) -> Option<Vns> {
        self.order.min_vruntime()
    }

    /// Smallest slice of those that wait, ns.
    #[must_use]
    #[inline]
    pub fn min_slice(&self) -> Option<u64> {
        self.order.min_slice()
    }

    /// Largest slice of those that wait, ns.
    #[must_use]
    pub fn max_slice(&self) -> Option<u64> {
        self.order.max_slice()
    }

    /// Those that wait, in order. Meant for reports: each step takes as long as a pick.
    pub fn iter(&self) -> impl Iterator<Item = EntityId> + '_ {
        self.order.iter()
    }

    /// Whether the order is inconsistent, and how.
    pub(crate) fn disorder(&self) -> Option<&'static str> {
        self.order.disorder()
    }
}

/// Product of a distance and a weight. Sums of weights are below 2^63: one signed multiplication.
#[inline]
fn wide(distance: i64, weight: u64) -> i128 {
    i128::from(distance) * i128::from(weight as i64)
}
