//! Where a pending request to reschedule is honoured (reference section 14.3).

use schedlab_fair::Resched;

use crate::config::PreemptModel;

/// A place at which the kernel looks at the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Return to user mode from a system call or an interrupt.
    ReturnToUser,
    /// Return from an interrupt to preemptible kernel code, `preempt_enable`, unlock.
    KernelPreemptible,
    /// `cond_resched()`.
    CondResched,
    /// A point that may sleep (`might_sleep`).
    MightSleep,
}

/// Whether a request leads to a switch at a place.
pub(crate) fn honoured(model: PreemptModel, place: Place, pending: Resched) -> bool {
    if pending == Resched::None {
        return false;
    }
    let full = pending == Resched::Full;
    match place {
        Place::ReturnToUser => true,
        Place::KernelPreemptible => {
            full && matches!(model, PreemptModel::Full | PreemptModel::Lazy)
        }
        Place::CondResched => full && matches!(model, PreemptModel::None | PreemptModel::Voluntary),
        Place::MightSleep => full && model == PreemptModel::Voluntary,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_section_14_3() {
        use PreemptModel::{Full, Lazy, None, Voluntary};
        let row =
            |place, pending| [None, Voluntary, Full, Lazy].map(|m| honoured(m, place, pending));
        assert_eq!(row(Place::ReturnToUser, Resched::Full), [true; 4]);
        assert_eq!(row(Place::ReturnToUser, Resched::Lazy), [true; 4]);
        assert_eq!(
            row(Place::KernelPreemptible, Resched::Full),
            [false, false, true, true]
        );
        assert_eq!(row(Place::KernelPreemptible, Resched::Lazy), [false; 4]);
        assert_eq!(
            row(Place::CondResched, Resched::Full),
            [true, true, false, false]
        );
        assert_eq!(
            row(Place::MightSleep, Resched::Full),
            [false, true, false, false]
        );
    }
}
