//! Scheduling domains of a machine, as the scheduler sees them.

use std::sync::Arc;

use crate::cpuset::CpuSet;
use crate::flags::Flags;
use crate::levels::LevelName;

/// Index of a [`Domain`] in its [`Domains`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DomainId(pub u32);

/// Index of a [`Group`] in its [`Domains`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId(pub u32);

/// A domain. What changes while the scheduler runs (`balance_interval`, `last_balance`, `nr_balance_failed`,
/// `max_newidle_lb_cost`) belongs to a CPU and is not kept here.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Domain {
    /// Name of its level.
    pub level: LevelName,
    /// Number of its level, as debugfs shows it.
    pub level_nr: u32,
    /// Its CPUs.
    pub span: Arc<CpuSet>,
    /// How many (`span_weight`).
    pub span_weight: u32,
    /// Flags.
    pub flags: Flags,
    /// Shortest time between two balance passes of an idle CPU, ms; also the first one.
    pub min_interval: u32,
    /// Longest, ms.
    pub max_interval: u32,
    /// A busy CPU waits so many times as long.
    pub busy_factor: u32,
    /// Imbalance from which on tasks move, per cent.
    pub imbalance_pct: u32,
    /// Failed passes after which cache-hot tasks move too.
    pub cache_nice_tries: u32,
    /// Tasks by which nodes may differ.
    pub imb_numa_nr: u32,
    /// Largest distance between its nodes, for levels that span nodes.
    pub distance: Option<u32>,
    /// Its groups in order of the ring; a CPU's own comes where [`Link::local`] says.
    pub ring: Arc<[GroupId]>,
}

/// A part of a domain between which load is balanced.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Group {
    /// The CPU that it is named after.
    pub id: u32,
    /// Its CPUs.
    pub span: Arc<CpuSet>,
    /// Those that may balance on its behalf (`group_balance_mask`); all, but in domains with overlapping groups.
    pub balance_mask: Arc<CpuSet>,
    /// Flags of the child domain that it stands for; none if it stands for none.
    pub flags: Flags,
    /// How many CPUs.
    pub weight: u32,
    /// How many cores.
    pub cores: u32,
    /// Sum of their CPUs' capacities.
    pub capacity: u64,
}

impl Group {
    /// The CPU that balances for it if all are busy (`group_balance_cpu`).
    #[must_use]
    pub fn balance_cpu(&self) -> u32 {
        self.balance_mask.first()
    }
}

/// One step of a CPU's chain: a domain, and which of its groups is the CPU's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// The domain.
    pub domain: DomainId,
    /// Index of the CPU's own group in [`Domain::ring`].
    pub local: u32,
}

/// Facts about a CPU's last-level cache that wakeups use (`update_top_cache_domain`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Llc {
    /// Position of `sd_llc` in the CPU's chain: the highest domain that shares the cache.
    pub depth: Option<u32>,
    /// First CPU behind the cache (`sd_llc_id`); the CPU itself if it shares it with none.
    pub id: u32,
    /// How many CPUs are behind it (`sd_llc_size`).
    pub size: u32,
    /// First CPU of the cluster, or of the cache where there are no clusters (`sd_share_id`).
    pub share_id: u32,
}

/// The domains of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domains {
    pub(crate) domains: Vec<Domain>,
    pub(crate) groups: Vec<Group>,
    pub(crate) chains: Vec<Box<[Link]>>,
    pub(crate) llcs: Vec<Llc>,
}

impl Domains {
    /// A CPU's chain, lowest first. Empty for a CPU outside the machine.
    #[must_use]
    pub fn chain(&self, cpu: u32) -> &[Link] {
        self.chains.get(cpu as usize).map_or(&[], |c| c)
    }

    /// A CPU's domains, lowest first.
    pub fn of(&self, cpu: u32) -> impl DoubleEndedIterator<Item = &Domain> {
        self.chain(cpu).iter().map(|l| self.domain(l.domain))
    }

    /// A domain by index.
    #[must_use]
    pub fn domain(&self, id: DomainId) -> &Domain {
        &self.domains[id.0 as usize]
    }

    /// A group by index.
    #[must_use]
    pub fn group(&self, id: GroupId) -> &Group {
        &self.groups[id.0 as usize]
    }

    /// The CPU's own group.
    #[must_use]
    pub fn local(&self, link: Link) -> &Group {
        self.group(self.domain(link.domain).ring[link.local as usize])
    }

    /// The groups of a CPU's domain, its own first, then around the ring.
    pub fn groups(&self, link: Link) -> impl Iterator<Item = &Group> {
        let ring = &self.domain(link.domain).ring;
        let (before, from) = ring.split_at(link.local as usize);
        from.iter().chain(before).map(|g| self.group(*g))
    }

    /// All domains, each once; CPUs with equal ones share them.
    #[must_use]
    pub fn all(&self) -> &[Domain] {
        &self.domains
    }

    /// Number of CPUs.
    #[must_use]
    pub fn nr_cpus(&self) -> u32 {
        self.chains.len() as u32
    }

    /// What a CPU shares its last-level cache with.
    #[must_use]
    pub fn llc(&self, cpu: u32) -> Llc {
        self.llcs[cpu as usize]
    }

    /// Whether two CPUs share the last-level cache (`cpus_share_cache`).
    #[must_use]
    pub fn share_cache(&self, a: u32, b: u32) -> bool {
        a == b || self.llc(a).id == self.llc(b).id
    }

    /// Position in the chain of the lowest domain with a flag (`lowest_flag_domain`).
    #[must_use]
    pub fn lowest(&self, cpu: u32, flag: Flags) -> Option<usize> {
        self.of(cpu).position(|d| d.flags.has(flag))
    }

    /// Position in the chain of the highest domain with a flag (`highest_flag_domain`): for flags that children share, the
    /// search ends at the first domain without it.
    #[must_use]
    pub fn highest(&self, cpu: u32, flag: Flags) -> Option<usize> {
        let mut found = None;
        for (i, d) in self.of(cpu).enumerate() {
            if d.flags.has(flag) {
                found = Some(i);
            } else if Flags::SHARED_CHILD.has(flag) {
                break;
            }
        }
        found
    }
}
