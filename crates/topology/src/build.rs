//! From a machine to its domains (reference 12.1).
//!
//! Three passes, as in the kernel. *Raw chains*: every CPU gets a domain of every level, up to the first that spans the
//! machine. *Groups*: children of the members, shared by all CPUs of a domain; at levels that span nodes each CPU has
//! groups of its own, which may overlap. *Attach*: levels that add nothing are dropped, and what they had beyond their child is
//! merged into it. Some values, such as the allowed imbalance between nodes, are settled on the raw chains and so stem from
//! levels that later vanish.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::cpuset::CpuSet;
use crate::domains::{Domain, DomainId, Domains, Group, GroupId, Link, Llc};
use crate::flags::Flags;
use crate::levels::{Level, levels};
use crate::machine::Machine;

/// How much longer busy CPUs wait between balance passes.
const BUSY_FACTOR: u32 = 16;

/// A group while domains are built; sets by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct RawGroup {
    span: u32,
    mask: u32,
    id: u32,
    flags: Flags,
}

/// One domain of a CPU before the attach pass.
#[derive(Clone, Copy)]
struct Raw {
    level: u32,
    flags: Flags,
    imb_numa_nr: u32,
    ring: u32,
    local: u32,
    /// Flags of the own group, where it is no longer the list's.
    own_flags: Flags,
}

struct Builder<'a> {
    machine: &'a Machine,
    levels: Vec<Level>,
    /// Flags of each level's units; all CPUs of one start alike.
    flags: Vec<Vec<Flags>>,
    /// Levels that each CPU has a domain of.
    depth: Vec<u32>,
    sets: Vec<Arc<CpuSet>>,
    set_ids: HashMap<Arc<CpuSet>, u32>,
    rings: Vec<Vec<RawGroup>>,
}

impl Domains {
    /// The domains that the kernel builds for a machine with all CPUs online.
    #[must_use]
    pub fn build(machine: &Machine) -> Self {
        Builder::new(machine).build()
    }
}

/// Flags of a domain at its birth, by level and members (`sd_init`).
fn initial_flags(
    level: &Level,
    span: &CpuSet,
    machine: &Machine,
    capacities: &BTreeMap<u32, CpuSet>,
) -> Flags {
    let mut flags = Flags::BALANCE_NEWIDLE
        | Flags::BALANCE_EXEC
        | Flags::BALANCE_FORK
        | Flags::WAKE_AFFINE
        | Flags::PREFER_SIBLING
        | level.flags;
    if capacities.len() > 1 {
        let inside = capacities.values().filter(|c| c.intersects(span)).count();
        if inside > 1 {
            flags |= Flags::ASYM_CPUCAPACITY;
            if inside == capacities.len() {
                flags |= Flags::ASYM_CPUCAPACITY_FULL;
            }
        }
    }
    if let Some(distance) = level.distance {
        flags = flags.without(Flags::PREFER_SIBLING) | Flags::SERIALIZE | Flags::OVERLAP;
        if distance > machine.reclaim_distance {
            let near = Flags::BALANCE_EXEC | Flags::BALANCE_FORK | Flags::WAKE_AFFINE;
            flags = flags.without(near);
        }
    }
    flags
}

impl<'a> Builder<'a> {
    fn new(machine: &'a Machine) -> Self {
        let levels = levels(machine);
        let n = machine.cpus.len();
        let mut capacities: BTreeMap<u32, CpuSet> = BTreeMap::new();
        for (i, c) in machine.cpus.iter().enumerate() {
            let set = capacities
                .entry(c.capacity)
                .or_insert_with(|| CpuSet::none(n));
            set.set(i as u32, true);
        }
        let mut flags: Vec<Vec<Flags>> = levels
            .iter()
            .map(|l| {
                let of = |span: &Arc<CpuSet>| initial_flags(l, span, machine, &capacities);
                l.units.iter().map(of).collect()
            })
            .collect();
        let all = CpuSet::all(n);
        let depth = (0..n as u32)
            .map(|cpu| {
                let top = levels.iter().position(|l| **l.span(cpu) == all);
                top.map_or(levels.len(), |t| t + 1) as u32
            })
            .collect();
        let mut builder = Self {
            machine,
            flags: Vec::new(),
            depth,
            sets: Vec::new(),
            set_ids: HashMap::new(),
            rings: Vec::new(),
            levels,
        };
        builder.spread_no_further(&mut flags);
        builder.flags = flags;
        builder
    }

    /// Tasks are not spread over the children of a domain whose CPUs differ in capacity.
    fn spread_no_further(&self, flags: &mut [Vec<Flags>]) {
        for (cpu, &depth) in self.depth.iter().enumerate() {
            for l in 1..depth as usize {
                let unit = self.levels[l].unit_of[cpu] as usize;
                if flags[l][unit].has(Flags::ASYM_CPUCAPACITY) {
                    let below = self.levels[l - 1].unit_of[cpu] as usize;
                    flags[l - 1][below] = flags[l - 1][below].without(Flags::PREFER_SIBLING);
                }
            }
        }
    }

    fn has_level(&self, cpu: u32, level: usize) -> bool {
        level < self.depth[cpu as usize] as usize
    }

    fn flags_of(&self, cpu: u32, level: usize) -> Flags {
        self.flags[level][self.levels[level].unit_of[cpu as usize] as usize]
    }

    fn set_id(&mut self, set: &Arc<CpuSet>) -> u32 {
        if let Some(id) = self.set_ids.get(set) {
            return *id;
        }
        let id = self.sets.len() as u32;
        self.sets.push(set.clone());
        self.set_ids.insert(set.clone(), id);
        id
    }

    /// The group that stands for a CPU in the domain above (`get_group`).
    fn plain_group(&mut self, cpu: u32, level: usize) -> RawGroup {
        let (span, flags) = match level.checked_sub(1) {
            Some(child) => (
                self.levels[child].span(cpu).clone(),
                self.flags_of(cpu, child),
            ),
            None => (
                Arc::new(CpuSet::of([cpu], self.machine.cpus.len())),
                Flags::NONE,
            ),
        };
        let (id, span) = (span.first(), self.set_id(&span));
        RawGroup {
            span,
            mask: span,
            id,
            flags,
        }
    }

    /// Groups of a domain of a level without overlap. All its CPUs share one ring, in the order in which the last of them
    /// goes round (`build_sched_groups`).
    fn plain_ring(&mut self, span: &Arc<CpuSet>, level: usize) -> Vec<RawGroup> {
        let mut covered = CpuSet::none(self.machine.cpus.len());
        let mut ring = Vec::new();
        for cpu in span.iter_from(span.last().unwrap_or(0)) {
            if covered.has(cpu) {
                continue;
            }
            let group = self.plain_group(cpu, level);
            covered.add(&self.sets[group.span as usize]);
            ring.push(group);
        }
        // Start at the lowest, which changes nothing of the order.
        if let Some(at) = (0..ring.len()).min_by_key(|&i| ring[i].id) {
            ring.rotate_left(at);
        }
        ring
    }

    /// Groups of a CPU's domain of an overlapping level, its own first (`build_overlap_sched_groups`).
    fn overlap_ring(
        &mut self,
        cpu: u32,
        level: usize,
        known: &mut HashMap<(usize, u32), RawGroup>,
    ) -> Vec<RawGroup> {
        let span = self.levels[level].span(cpu).clone();
        let mut covered = CpuSet::none(self.machine.cpus.len());
        let mut ring = Vec::new();
        for sibling in span.iter_from(cpu) {
            // Trees of unequal depth: a CPU without this level has nothing to give.
            if covered.has(sibling) || !self.has_level(sibling, level) {
                continue;
            }
            let at = self.descend(sibling, level, &span);
            let child = self.levels[at - 1].unit_of[sibling as usize];
            let group = match known.get(&(at, child)) {
                Some(group) => *group,
                None => {
                    let group = self.overlap_group(sibling, at);
                    known.insert((at, child), group);
                    group
                }
            };
            covered.add(&self.sets[group.span as usize]);
            ring.push(group);
        }
        ring
    }

    /// The level whose child's span is the group: usually the one being built. In machines of three hops and more
    /// the child may reach beyond the domain, then a lower one (`find_descended_sibling`). Never the lowest.
    fn descend(&self, sibling: u32, level: usize, span: &CpuSet) -> usize {
        let child = |at: usize| self.levels[at - 1].span(sibling);
        let mut at = level;
        if child(at).is_subset(span) {
            return at;
        }
        while at > 1 && !child(at).is_subset(span) {
            at -= 1;
        }
        at
    }

    /// The group of a sibling's child domain, with the CPUs that may balance for it (`build_balance_mask`).
    fn overlap_group(&mut self, sibling: u32, level: usize) -> RawGroup {
        let span = self.levels[level - 1].span(sibling).clone();
        let flags = self.flags_of(sibling, level - 1);
        let may =
            |&cpu: &u32| self.has_level(cpu, level) && *self.levels[level - 1].span(cpu) == span;
        let mask = Arc::new(CpuSet::of(span.iter().filter(may), self.machine.cpus.len()));
        RawGroup {
            id: mask.first(),
            span: self.set_id(&span),
            mask: self.set_id(&mask),
            flags,
        }
    }

    /// Domains of all levels with their groups.
    fn raw_chains(&mut self) -> Vec<Vec<Raw>> {
        let mut chains: Vec<Vec<Raw>> = vec![Vec::new(); self.machine.cpus.len()];
        for level in 0..self.levels.len() {
            let mut ring_of_unit: HashMap<u32, u32> = HashMap::new();
            let mut ring_ids: HashMap<Vec<RawGroup>, u32> = HashMap::new();
            let mut known = HashMap::new();
            for cpu in 0..self.machine.nr_cpus() {
                if !self.has_level(cpu, level) {
                    continue;
                }
                let unit = self.levels[level].unit_of[cpu as usize];
                let overlaps = self.levels[level].overlaps();
                let ring = match ring_of_unit.get(&unit).filter(|_| !overlaps) {
                    Some(ring) => *ring,
                    None => {
                        let groups = if overlaps {
                            self.overlap_ring(cpu, level, &mut known)
                        } else {
                            let span = self.levels[level].units[unit as usize].clone();
                            self.plain_ring(&span, level)
                        };
                        let next = self.rings.len() as u32;
                        let ring = *ring_ids.entry(groups).or_insert_with_key(|groups| {
                            self.rings.push(groups.clone());
                            next
                        });
                        ring_of_unit.insert(unit, ring);
                        ring
                    }
                };
                let has = |g: &RawGroup| self.sets[g.span as usize].has(cpu);
                let groups = &self.rings[ring as usize];
                // Lists of overlapping groups begin with the own one; a later one may hold the CPU too.
                let local = groups.iter().position(has).unwrap_or(0);
                chains[cpu as usize].push(Raw {
                    level: level as u32,
                    flags: self.flags_of(cpu, level),
                    imb_numa_nr: 0,
                    ring,
                    local: local as u32,
                    own_flags: groups.get(local).map_or(Flags::NONE, |g| g.flags),
                });
            }
        }
        for (cpu, chain) in chains.iter_mut().enumerate() {
            self.allow_imbalance(cpu as u32, chain);
        }
        chains
    }

    fn weight(&self, cpu: u32, level: u32) -> u32 {
        self.levels[level as usize].span(cpu).weight()
    }

    /// How much nodes may differ in tasks: an eighth of a node with one cache, else one task a cache; more where more nodes
    /// are spanned.
    fn allow_imbalance(&self, cpu: u32, chain: &mut [Raw]) {
        let (mut imb, mut imb_span) = (0, 1);
        for i in 0..chain.len() {
            let weight = self.weight(cpu, chain[i].level);
            let on_cache = i > 0
                && !chain[i].flags.has(Flags::SHARE_LLC)
                && chain[i - 1].flags.has(Flags::SHARE_LLC);
            chain[i].imb_numa_nr = if on_cache {
                let llcs = weight / self.weight(cpu, chain[i - 1].level).max(1);
                imb = if llcs == 1 { weight >> 3 } else { llcs }.max(1);
                let numa = chain[i + 1..].iter().find(|d| d.flags.has(Flags::NUMA));
                imb_span = numa.map_or(weight, |d| self.weight(cpu, d.level)).max(1);
                imb
            } else {
                imb * (weight / imb_span).max(1)
            };
        }
    }

    /// Whether a domain does nothing by itself (`sd_degenerate`).
    fn is_degenerate(&self, cpu: u32, domain: &Raw) -> bool {
        if self.weight(cpu, domain.level) == 1 {
            return true;
        }
        let groups = self.rings[domain.ring as usize].len();
        let balances = groups > 1 && domain.flags.has_any(Flags::NEED_GROUPS);
        !balances && !domain.flags.has(Flags::WAKE_AFFINE)
    }

    /// Whether a domain does nothing that its child does not do (`sd_parent_degenerate`).
    fn adds_nothing(&self, cpu: u32, child: &Raw, parent: &Raw) -> bool {
        if self.is_degenerate(cpu, parent) {
            return true;
        }
        let span = |d: &Raw| self.levels[d.level as usize].span(cpu);
        if span(child) != span(parent) {
            return false;
        }
        let mut flags = parent.flags;
        if self.rings[parent.ring as usize].len() == 1 {
            flags = flags.without(Flags::NEED_GROUPS);
        }
        child.flags.has(flags)
    }

    /// Drops the levels that add nothing and merges their flags (`cpu_attach_domain`).
    fn attach(&self, cpu: u32, chain: &mut Vec<Raw>) {
        let mut i = 0;
        while i + 1 < chain.len() {
            let (child, parent) = (chain[i], chain[i + 1]);
            if !self.adds_nothing(cpu, &child, &parent) {
                i += 1;
                continue;
            }
            if let Some(above) = chain.get_mut(i + 2) {
                above.own_flags = child.flags;
            }
            if parent.flags.has(Flags::PREFER_SIBLING) {
                chain[i].flags |= Flags::PREFER_SIBLING;
            }
            chain.remove(i + 1);
        }
        if chain.first().is_some_and(|d| self.is_degenerate(cpu, d)) {
            chain.remove(0);
            if let Some(lowest) = chain.first_mut() {
                lowest.own_flags = Flags::NONE;
            }
        }
    }

    fn build(mut self) -> Domains {
        let mut chains = self.raw_chains();
        for (cpu, chain) in chains.iter_mut().enumerate() {
            self.attach(cpu as u32, chain);
        }
        let mut finish = Finish::new(&self, &chains);
        let links: Vec<Box<[Link]>> = chains
            .iter()
            .enumerate()
            .map(|(cpu, chain)| chain.iter().map(|d| finish.link(cpu as u32, d)).collect())
            .collect();
        let mut domains = Domains {
            domains: finish.domains,
            groups: finish.groups,
            chains: links,
            llcs: Vec::new(),
        };
        domains.llcs = (0..self.machine.nr_cpus())
            .map(|cpu| llc(&domains, cpu))
            .collect();
        domains
    }
}

/// Facts about the last-level cache.
fn llc(domains: &Domains, cpu: u32) -> Llc {
    let depth = domains.highest(cpu, Flags::SHARE_LLC);
    let domain = depth.and_then(|d| domains.of(cpu).nth(d));
    let (id, size) = domain.map_or((cpu, 1), |d| (d.span.first(), d.span_weight));
    let cluster = domains
        .lowest(cpu, Flags::CLUSTER)
        .and_then(|d| domains.of(cpu).nth(d));
    Llc {
        depth: depth.map(|d| d as u32),
        id,
        size,
        share_id: cluster.map_or(id, |d| d.span.first()),
    }
}

/// Turns raw domains into shared ones.
struct Finish<'a> {
    builder: &'a Builder<'a>,
    /// Flags of the groups that the CPUs of a plain ring share: what the members made of their own.
    own: HashMap<(u32, u32), Flags>,
    domains: Vec<Domain>,
    domain_ids: BTreeMap<Domain, DomainId>,
    groups: Vec<Group>,
    group_ids: HashMap<RawGroup, GroupId>,
    rings: HashMap<(u32, Option<Flags>), Arc<[GroupId]>>,
}

impl<'a> Finish<'a> {
    fn new(builder: &'a Builder<'a>, chains: &[Vec<Raw>]) -> Self {
        let mut own = HashMap::new();
        for d in chains.iter().flatten() {
            own.insert((d.ring, d.local), d.own_flags);
        }
        Self {
            builder,
            own,
            domains: Vec::new(),
            domain_ids: BTreeMap::new(),
            groups: Vec::new(),
            group_ids: HashMap::new(),
            rings: HashMap::new(),
        }
    }

    fn link(&mut self, cpu: u32, raw: &Raw) -> Link {
        let level = &self.builder.levels[raw.level as usize];
        let span = level.span(cpu).clone();
        let span_weight = span.weight();
        let ring = self.ring(raw, level.overlaps());
        let (imbalance_pct, cache_nice_tries) = if raw.flags.has(Flags::SHARE_CPUCAPACITY) {
            (110, 0)
        } else if raw.flags.has(Flags::NUMA) {
            (117, 2)
        } else {
            (117, 1)
        };
        let domain = Domain {
            level: level.name,
            level_nr: raw.level,
            span,
            span_weight,
            flags: raw.flags,
            min_interval: span_weight,
            max_interval: 2 * span_weight,
            busy_factor: BUSY_FACTOR,
            imbalance_pct,
            cache_nice_tries,
            imb_numa_nr: raw.imb_numa_nr,
            distance: level.distance,
            ring,
        };
        let next = DomainId(self.domains.len() as u32);
        let id = *self.domain_ids.entry(domain).or_insert_with_key(|d| {
            self.domains.push(d.clone());
            next
        });
        Link {
            domain: id,
            local: raw.local,
        }
    }

    /// Groups with their last flags: of a plain ring each as its members left it; in a list of overlapping ones, which belongs
    /// to one CPU, only that CPU's own has changed.
    fn ring(&mut self, raw: &Raw, overlaps: bool) -> Arc<[GroupId]> {
        let key = (raw.ring, overlaps.then_some(raw.own_flags));
        if let Some(ring) = self.rings.get(&key) {
            return ring.clone();
        }
        let groups = &self.builder.rings[raw.ring as usize];
        let ring: Arc<[GroupId]> = groups
            .iter()
            .enumerate()
            .map(|(i, g)| {
                let flags = match overlaps {
                    true if i == raw.local as usize => raw.own_flags,
                    true => g.flags,
                    false => *self.own.get(&(raw.ring, i as u32)).unwrap_or(&g.flags),
                };
                self.group(RawGroup { flags, ..*g })
            })
            .collect();
        self.rings.insert(key, ring.clone());
        ring
    }

    fn group(&mut self, raw: RawGroup) -> GroupId {
        if let Some(id) = self.group_ids.get(&raw) {
            return *id;
        }
        let span = self.builder.sets[raw.span as usize].clone();
        let cpus = &self.builder.machine.cpus;
        let mut cores: Vec<u32> = span.iter().map(|c| cpus[c as usize].core).collect();
        cores.sort_unstable();
        cores.dedup();
        let group = Group {
            id: raw.id,
            weight: span.weight(),
            cores: cores.len() as u32,
            capacity: span
                .iter()
                .map(|c| u64::from(cpus[c as usize].capacity))
                .sum(),
            balance_mask: self.builder.sets[raw.mask as usize].clone(),
            span,
            flags: raw.flags,
        };
        let id = GroupId(self.groups.len() as u32);
        self.groups.push(group);
        self.group_ids.insert(raw, id);
        id
    }
}
