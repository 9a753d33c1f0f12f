//! Newtypes for identifiers, so that a CPU number cannot be passed where a task is meant.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);

        impl $name {
            /// The identifier as an array index.
            #[must_use]
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id!(
    /// A CPU, counted from 0.
    CpuId
);
id!(
    /// A task. The number is that of its scheduling entity, so it is unique while the task
    /// lives and may be given to a later task after [`Class::remove_task`](crate::Class::remove_task).
    TaskId
);
id!(
    #[derive(Default)]
    /// A task group (a cgroup with the cpu controller, or an autogroup). [`GroupId::ROOT`] always exists.
    GroupId
);
id!(
    /// A scheduling entity: a task, or one group on one CPU.
    EntityId
);
id!(
    /// A fair queue (`cfs_rq`): one group on one CPU.
    QueueId
);

impl GroupId {
    /// The root task group: it has queues but no entities.
    pub const ROOT: Self = Self(0);
}

impl TaskId {
    /// The task's scheduling entity.
    #[must_use]
    pub const fn entity(self) -> EntityId {
        EntityId(self.0)
    }
}
