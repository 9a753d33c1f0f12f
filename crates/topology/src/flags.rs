//! Flags of a domain, by the kernel's names.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// A set of `SD_*` flags.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Flags(u32);

macro_rules! flags {
    ($($(#[doc = $doc:literal])+ $name:ident = $bit:literal, $kernel:literal;)*) => {
        impl Flags {
            $($(#[doc = $doc])+ pub const $name: Self = Self(1 << $bit);)*

            const NAMES: &'static [(Self, &'static str)] = &[$((Self::$name, $kernel),)*];
        }
    };
}

// In the order in which the kernel prints them.
flags! {
    /// Balance when about to become idle.
    BALANCE_NEWIDLE = 0, "SD_BALANCE_NEWIDLE";
    /// Balance on exec.
    BALANCE_EXEC = 1, "SD_BALANCE_EXEC";
    /// Balance on fork.
    BALANCE_FORK = 2, "SD_BALANCE_FORK";
    /// Balance on wakeup; no level has it by default.
    BALANCE_WAKE = 3, "SD_BALANCE_WAKE";
    /// Consider the waking CPU.
    WAKE_AFFINE = 4, "SD_WAKE_AFFINE";
    /// CPUs of different capacity.
    ASYM_CPUCAPACITY = 5, "SD_ASYM_CPUCAPACITY";
    /// All capacities of the machine are in it.
    ASYM_CPUCAPACITY_FULL = 6, "SD_ASYM_CPUCAPACITY_FULL";
    /// Members share the core (SMT).
    SHARE_CPUCAPACITY = 7, "SD_SHARE_CPUCAPACITY";
    /// Members share a cluster (L2 or LLC tags).
    CLUSTER = 8, "SD_CLUSTER";
    /// Members share the last-level cache.
    SHARE_LLC = 9, "SD_SHARE_LLC";
    /// One balance at a time in the whole system.
    SERIALIZE = 10, "SD_SERIALIZE";
    /// Place busy groups by priority.
    ASYM_PACKING = 11, "SD_ASYM_PACKING";
    /// Prefer to place tasks in a sibling domain.
    PREFER_SIBLING = 12, "SD_PREFER_SIBLING";
    /// Groups may overlap.
    OVERLAP = 13, "SD_OVERLAP";
    /// Spans nodes.
    NUMA = 14, "SD_NUMA";
}

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);

    /// Flags that mean nothing in a domain of one group (`SDF_NEEDS_GROUPS`): all but `SD_WAKE_AFFINE`.
    pub(crate) const NEED_GROUPS: Self = Self(((1 << 15) - 1) & !Self::WAKE_AFFINE.0);

    /// Flags that a domain has only if its children have them too (`SDF_SHARED_CHILD`).
    pub(crate) const SHARED_CHILD: Self = Self(
        Self::BALANCE_NEWIDLE.0
            | Self::BALANCE_EXEC.0
            | Self::BALANCE_FORK.0
            | Self::BALANCE_WAKE.0
            | Self::WAKE_AFFINE.0
            | Self::SHARE_CPUCAPACITY.0
            | Self::SHARE_LLC.0,
    );

    /// Whether all of `other` are in it.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether one of `other` is in it.
    #[must_use]
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// These without others.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The kernel's names, in the kernel's order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .iter()
            .filter(move |(f, _)| self.has(*f))
            .map(|(_, n)| *n)
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// As debugfs prints them, without the blank at the end.
impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.names().enumerate() {
            f.write_str(if i == 0 { "" } else { " " })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
