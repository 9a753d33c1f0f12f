//! The scheduling domains of a machine, as placement and balancing read them.

use crate::cpus::CpuSet;

macro_rules! flags {
    ($($(#[doc = $doc:literal])* $name:ident = $bit:literal, $text:literal;)*) => {
        /// Flags of a domain.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct DomainFlags(u32);

        impl DomainFlags {
            $($(#[doc = $doc])* pub const $name: Self = Self(1 << $bit);)*

            /// Reads a flag as the kernel's `flags` file spells it; `None` for one that no rule here asks about.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

flags! {
    /// Newidle balance runs here.
    BALANCE_NEWIDLE = 0, "SD_BALANCE_NEWIDLE";
    /// Exec balances here.
    BALANCE_EXEC = 1, "SD_BALANCE_EXEC";
    /// Fork balances here.
    BALANCE_FORK = 2, "SD_BALANCE_FORK";
    /// A wakeup may be pulled to the waker within.
    WAKE_AFFINE = 3, "SD_WAKE_AFFINE";
    /// Threads of a core.
    SHARE_CPUCAPACITY = 4, "SD_SHARE_CPUCAPACITY";
    /// Cores of a cluster.
    CLUSTER = 5, "SD_CLUSTER";
    /// CPUs of a last-level cache.
    SHARE_LLC = 6, "SD_SHARE_LLC";
    /// One CPU balances at a time, machine-wide.
    SERIALIZE = 7, "SD_SERIALIZE";
    /// Groups beside this domain prefer an even number of tasks.
    PREFER_SIBLING = 8, "SD_PREFER_SIBLING";
    /// Memory nodes.
    NUMA = 9, "SD_NUMA";
    /// CPUs differ in capacity.
    ASYM_CPUCAPACITY = 10, "SD_ASYM_CPUCAPACITY";
}

impl DomainFlags {
    /// Whether all flags of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A group of a domain: the span of a child domain, or a single CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its CPUs.
    pub span: CpuSet,
    /// CPUs that may balance for it; differs from the span in overlapping NUMA domains only.
    pub balance_mask: CpuSet,
    /// Flags of the child domain that it is the span of.
    pub flags: DomainFlags,
    /// Number of cores.
    pub cores: u32,
}

impl Group {
    /// A group with these CPUs.
    #[must_use]
    pub fn new(span: CpuSet, flags: DomainFlags, cores: u32) -> Self {
        Self {
            balance_mask: span.clone(),
            span,
            flags,
            cores,
        }
    }
}

/// A scheduling domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domain {
    /// Number of the topology level as the kernel counts it; domains of one level share it.
    pub level: u32,
    /// Its CPUs.
    pub span: CpuSet,
    /// Its groups, in the kernel's ring order.
    pub groups: Vec<Group>,
    /// Flags.
    pub flags: DomainFlags,
    /// Percent by which a group must be busier.
    pub imbalance_pct: u64,
    /// Failed attempts before cache-hot tasks move.
    pub cache_nice_tries: u32,
    /// Tasks by which NUMA nodes may differ.
    pub imb_numa_nr: u32,
    /// Shortest balance interval, ms.
    pub min_interval: u64,
    /// Longest balance interval, ms.
    pub max_interval: u64,
    /// Factor of the interval of busy CPUs.
    pub busy_factor: u64,
}

impl Domain {
    /// The groups beginning with the local one.
    pub fn groups_from(&self, local: usize) -> impl Iterator<Item = (usize, &Group)> {
        let n = self.groups.len();
        (0..n).map(move |i| {
            let at = (local + i) % n;
            (at, &self.groups[at])
        })
    }
}

/// One domain of a CPU's chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Index of the domain.
    pub domain: usize,
    /// Index of the CPU's own group in it.
    pub local: usize,
}

/// A last-level cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Llc {
    /// Its CPUs.
    pub span: CpuSet,
    /// Its domain; `None` for a CPU that shares no cache.
    pub domain: Option<usize>,
}

/// Why domains cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DomainError(String);

impl std::fmt::Display for DomainError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DomainError {}

/// The domains of all CPUs of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domains {
    domains: Vec<Domain>,
    chains: Vec<Vec<Link>>,
    llc_of: Vec<u32>,
    llcs: Vec<Llc>,
    siblings: Vec<CpuSet>,
    clusters: Vec<Option<CpuSet>>,
    asymmetric: bool,
}

impl Domains {
    /// Makes the domains of `chains.len()` CPUs: for each CPU its domains from the lowest up, as indices into `domains`.
    ///
    /// # Errors
    ///
    /// No CPU; an index out of range; a CPU that is not in the span or in no group of a domain of its chain; a span that is no
    /// part of the next; a CPU number outside the machine.
    pub fn new(domains: Vec<Domain>, chains: Vec<Vec<usize>>) -> Result<Self, DomainError> {
        if chains.is_empty() {
            return Err(DomainError("a machine needs at least one CPU".into()));
        }
        let cpus = chains.len() as u32;
        let mut linked = Vec::new();
        for (cpu, chain) in chains.iter().enumerate() {
            linked.push(link(&domains, cpu as u32, cpus, chain)?);
        }
        let mut made = Self {
            asymmetric: domains
                .iter()
                .any(|d| d.flags.has(DomainFlags::ASYM_CPUCAPACITY)),
            domains,
            chains: linked,
            llc_of: Vec::new(),
            llcs: Vec::new(),
            siblings: Vec::new(),
            clusters: Vec::new(),
        };
        made.find_caches();
        Ok(made)
    }

    fn find_caches(&mut self) {
        for cpu in 0..self.chains.len() as u32 {
            let own = || std::iter::once(cpu).collect::<CpuSet>();
            let highest = |flag| {
                let with = |l: &&Link| self.domains[l.domain].flags.has(flag);
                self.chains[cpu as usize]
                    .iter()
                    .rfind(with)
                    .map(|l| l.domain)
            };
            let span = |d: Option<usize>| d.map_or_else(own, |d| self.domains[d].span.clone());
            let llc = Llc {
                domain: highest(DomainFlags::SHARE_LLC),
                span: span(highest(DomainFlags::SHARE_LLC)),
            };
            self.siblings
                .push(span(highest(DomainFlags::SHARE_CPUCAPACITY)));
            let cluster = highest(DomainFlags::CLUSTER);
            self.clusters
                .push(cluster.map(|d| self.domains[d].span.clone()));
            let known = self.llcs.iter().position(|l| l.span == llc.span);
            let index = known.unwrap_or_else(|| {
                self.llcs.push(llc);
                self.llcs.len() - 1
            });
            self.llc_of.push(index as u32);
        }
    }

    /// Number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.chains.len() as u32
    }

    /// A domain.
    #[must_use]
    pub fn domain(&self, index: usize) -> &Domain {
        &self.domains[index]
    }

    /// The domains of a CPU, the lowest first; none for a CPU that is not there.
    #[must_use]
    pub fn chain(&self, cpu: u32) -> &[Link] {
        self.chains.get(cpu as usize).map_or(&[], Vec::as_slice)
    }

    /// The link of a CPU's chain at a topology level.
    #[must_use]
    pub fn at_level(&self, cpu: u32, level: u32) -> Option<Link> {
        let chain = self.chain(cpu).iter();
        chain
            .copied()
            .find(|l| self.domains[l.domain].level == level)
    }

    /// Number of a CPU's last-level cache.
    #[must_use]
    pub fn llc_of(&self, cpu: u32) -> u32 {
        self.llc_of[cpu as usize]
    }

    /// The last-level caches.
    #[must_use]
    pub fn llcs(&self) -> &[Llc] {
        &self.llcs
    }

    /// A CPU's last-level cache.
    #[must_use]
    pub fn llc(&self, cpu: u32) -> &Llc {
        &self.llcs[self.llc_of(cpu) as usize]
    }

    /// Whether two CPUs share a last-level cache.
    #[must_use]
    pub fn share_cache(&self, a: u32, b: u32) -> bool {
        a == b || (self.domains_know(a, b) && self.llc_of(a) == self.llc_of(b))
    }

    fn domains_know(&self, a: u32, b: u32) -> bool {
        a.max(b) < self.cpus()
    }

    /// The threads of a CPU's core, itself included.
    #[must_use]
    pub fn siblings(&self, cpu: u32) -> &CpuSet {
        &self.siblings[cpu as usize]
    }

    /// Whether any core has several threads.
    #[must_use]
    pub fn smt(&self) -> bool {
        self.siblings.iter().any(|s| s.len() > 1)
    }

    /// The CPUs of a CPU's cluster, where the machine has that level.
    #[must_use]
    pub fn cluster(&self, cpu: u32) -> Option<&CpuSet> {
        self.clusters[cpu as usize].as_ref()
    }

    /// Whether the machine has clusters.
    #[must_use]
    pub fn clustered(&self) -> bool {
        self.clusters.iter().any(Option::is_some)
    }

    /// Whether CPUs differ in capacity.
    #[must_use]
    pub fn asymmetric(&self) -> bool {
        self.asymmetric
    }

    /// The lowest domain of a CPU that sees all capacities.
    #[must_use]
    pub fn asym_domain(&self, cpu: u32) -> Option<&Domain> {
        let mut chain = self.chain(cpu).iter().map(|l| &self.domains[l.domain]);
        chain.find(|d| d.flags.has(DomainFlags::ASYM_CPUCAPACITY))
    }
}

fn link(
    domains: &[Domain],
    cpu: u32,
    cpus: u32,
    chain: &[usize],
) -> Result<Vec<Link>, DomainError> {
    let mut links: Vec<Link> = Vec::new();
    for &index in chain {
        let Some(domain) = domains.get(index) else {
            return Err(DomainError(format!("CPU {cpu}: no domain number {index}")));
        };
        let what = format!("CPU {cpu}, domain of level {}", domain.level);
        if !domain.span.has(cpu) {
            return Err(DomainError(format!("{what}: its span has not this CPU")));
        }
        if domain.span.iter().last().is_some_and(|last| last >= cpus) {
            return Err(DomainError(format!(
                "{what}: its span has CPUs past {}",
                cpus - 1
            )));
        }
        if let Some(below) = links.last() {
            let below = &domains[below.domain].span;
            if below.common(&domain.span) != below.len() {
                return Err(DomainError(format!(
                    "{what}: its span lacks CPUs of the domain below"
                )));
            }
        }
        let Some(local) = domain.groups.iter().position(|g| g.span.has(cpu)) else {
            return Err(DomainError(format!("{what}: no group has this CPU")));
        };
        links.push(Link {
            domain: index,
            local,
        });
    }
    Ok(links)
}
