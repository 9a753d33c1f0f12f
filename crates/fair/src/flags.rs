//! Call flags, with the kernel's bit values (6.12), so that recordings can be fed in as they are.

macro_rules! flags {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $flag:ident = $value:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// No flag.
            pub const NONE: Self = Self(0);
            $($(#[$fdoc])* pub const $flag: Self = Self($value);)*

            /// Whether all bits of `other` are set.
            #[must_use]
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, rhs: Self) -> Self {
                Self(self.0 | rhs.0)
            }
        }
    };
}

flags! {
    /// Why a task enters a queue.
    Enqueue {
        /// It was woken up.
        WAKEUP = 0x01,
        /// It was taken off for a change of attributes only.
        RESTORE = 0x02,
        /// Its place may change with the attributes.
        MOVE = 0x04,
        /// The clock was updated before; no effect on policy.
        NOCLOCK = 0x08,
        /// It comes from another CPU.
        MIGRATED = 0x40,
        /// First enqueue of a forked task.
        INITIAL = 0x80,
        /// It never left: a delayed entity is woken in place.
        DELAYED = 0x200,
    }
}

flags! {
    /// Why a task leaves a queue.
    Dequeue {
        /// It goes to sleep.
        SLEEP = 0x01,
        /// It is taken off for a change of attributes only.
        SAVE = 0x02,
        /// Its place may change with the attributes.
        MOVE = 0x04,
        /// The clock was updated before; no effect on policy.
        NOCLOCK = 0x08,
        /// Exit, stop, trace or park: never delayed.
        SPECIAL = 0x10,
        /// It goes to another CPU.
        MIGRATING = 0x100,
        /// The end of a delayed dequeue.
        DELAYED = 0x200,
        /// A group entity that leaves because its group is throttled: never delayed.
        THROTTLE = 0x800,
    }
}

flags! {
    /// How a task was woken.
    Wake {
        /// `exec` chose the CPU.
        EXEC = 0x02,
        /// A forked task's first wakeup.
        FORK = 0x04,
        /// A plain wakeup.
        TTWU = 0x08,
        /// The waker says that it will sleep soon.
        SYNC = 0x10,
        /// The wakee changed CPU.
        MIGRATED = 0x20,
        /// Stay on the waker's CPU.
        CURRENT_CPU = 0x40,
        /// The CPU was chosen by the class's own search (6.19 uses it in the wakeup check).
        RQ_SELECTED = 0x80,
    }
}
