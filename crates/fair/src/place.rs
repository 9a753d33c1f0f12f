//! Placement of an entity that joins a queue (reference section 5).

use crate::class::Class;
use crate::flags::Enqueue;
use crate::hooks::{Hooks, Point};
use crate::ids::{EntityId, QueueId};
use crate::profile::{Feature, Policy};
use crate::weight::calc_delta_fair;

impl Class {
    /// Gives an entity that joins `q` its vruntime and deadline.
    pub(crate) fn place_entity<H: Hooks>(
        &mut self,
        q: QueueId,
        se: EntityId,
        flags: Enqueue,
        h: &mut H,
    ) {
        match self.profile.policy {
            Policy::Cfs => self.place_cfs(q, se, flags.has(Enqueue::INITIAL)),
            Policy::Eevdf => self.place_eevdf(q, se, flags),
        }
        h.point(self, Point::Place, q, Some(se));
    }

    #[inline]
    fn place_eevdf(&mut self, q: QueueId, se: EntityId, flags: Enqueue) {
        let base = self.base_slice().0;
        let v = self.v_now(q);
        let lag = self.inflated_lag(q, se);
        let rel = self.feat(Feature::PlaceRelDeadline);
        let half = self.feat(Feature::PlaceDeadlineInitial) && flags.has(Enqueue::INITIAL);
        let e = &mut self.ents[se.index()];
        if !e.custom_slice {
            e.slice = base;
        }
        e.vruntime = v.offset(lag.wrapping_neg());
        if rel && e.rel_deadline {
            e.deadline = e.vruntime.plus(e.deadline.0);
            e.rel_deadline = false;
            return;
        }
        let mut vslice = calc_delta_fair(e.slice, e.load);
        if half {
            vslice /= 2;
        }
        e.deadline = e.vruntime.plus(vslice);
    }

    /// The lag to place with, so that the saved lag remains once the entity counts in V (section 5.1).
    #[inline]
    fn inflated_lag(&self, q: QueueId, se: EntityId) -> i64 {
        let queue = &self.queues[q.index()];
        let e = &self.ents[se.index()];
        if !self.feat(Feature::PlaceLag) || queue.nr_queued == 0 {
            return 0;
        }
        let weight = e.load.weight.down();
        queue.tree.inflated(e.vlag, weight, self.running(q))
    }
}
