//! Machines by name: how many CPUs, and which of them are close to each other.
//!
//! Plain data. Distances follow from it: same core, same last-level cache, same socket, other socket.

use schedlab_fair::Ns;

use crate::error::Error;
use crate::reader::{Field, Reader};

/// Most CPUs of a machine.
pub(crate) const CPUS_LIMIT: u32 = 4_096;

/// Where a CPU sits. Equal numbers mean the same core, cache or socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuPlace {
    /// Physical core.
    pub core: u32,
    /// Last-level cache.
    pub llc: u32,
    /// Socket.
    pub socket: u32,
}

/// How the operating system numbers the hardware threads of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Siblings {
    /// First threads of all cores, then second threads of all cores (x86 servers).
    Apart,
    /// The threads of a core have neighbouring numbers.
    Adjacent,
}

/// A machine as a preset or a scenario describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Name of the preset, or `custom`.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Sockets.
    pub sockets: u32,
    /// Last-level caches of a socket.
    pub llcs_per_socket: u32,
    /// Physical cores behind a last-level cache.
    pub cores_per_llc: u32,
    /// Hardware threads of a core.
    pub smt: u32,
    /// Numbering of the hardware threads.
    pub siblings: Siblings,
    /// Capacity of each CPU, 1024 for the fastest; empty if all are alike.
    pub capacity: Vec<u32>,
    /// Ticks a second.
    pub hz: u32,
    /// How much later than its neighbour's each CPU's tick comes (`skew_tick`); 0 for all at once.
    pub tick_skew: Ns,
    /// Name of the cost profile that suits it.
    pub costs: &'static str,
}

struct Preset {
    name: &'static str,
    about: &'static str,
    sockets: u32,
    llcs_per_socket: u32,
    cores_per_llc: u32,
    smt: u32,
    siblings: Siblings,
    capacity: &'static [u32],
    costs: &'static str,
}

/// The machines of the published tables, and small ones to try things on. `flat-N` is made on demand.
const PRESETS: [Preset; 7] = [
    Preset {
        name: "study-16",
        about: "16 CPUs: 2 sockets of 4 cores with 2 threads, a small stand-in for the two-socket servers",
        sockets: 2,
        llcs_per_socket: 1,
        cores_per_llc: 4,
        smt: 2,
        siblings: Siblings::Apart,
        capacity: &[],
        costs: "xeon-2s",
    },
    Preset {
        name: "desktop-8",
        about: "8 CPUs: one socket of 4 cores with 2 threads",
        sockets: 1,
        llcs_per_socket: 1,
        cores_per_llc: 4,
        smt: 2,
        siblings: Siblings::Apart,
        capacity: &[],
        costs: "xeon-2s",
    },
    Preset {
        name: "phone-6",
        about: "6 CPUs: two big, four little of less than half the capacity (as on the Juno board)",
        sockets: 1,
        llcs_per_socket: 1,
        cores_per_llc: 6,
        smt: 1,
        siblings: Siblings::Adjacent,
        capacity: &[446, 1024, 1024, 446, 446, 446],
        costs: "xeon-2s",
    },
    Preset {
        name: "skl-104",
        about: "104 CPUs: 2 sockets of 26 cores with 2 threads (Skylake)",
        sockets: 2,
        llcs_per_socket: 1,
        cores_per_llc: 26,
        smt: 2,
        siblings: Siblings::Apart,
        capacity: &[],
        costs: "xeon-2s",
    },
    Preset {
        name: "srf-192",
        about: "192 CPUs: 2 sockets of 96 cores without SMT (Sierra Forest)",
        sockets: 2,
        llcs_per_socket: 1,
        cores_per_llc: 96,
        smt: 1,
        siblings: Siblings::Apart,
        capacity: &[],
        costs: "xeon-2s",
    },
    Preset {
        name: "spr-224",
        about: "224 CPUs: 2 sockets of 56 cores with 2 threads (Sapphire Rapids)",
        sockets: 2,
        llcs_per_socket: 1,
        cores_per_llc: 56,
        smt: 2,
        siblings: Siblings::Apart,
        capacity: &[],
        costs: "xeon-2s",
    },
    Preset {
        name: "epyc-256",
        about: "256 CPUs: 2 sockets of 8 caches of 8 cores with 2 threads (Milan)",
        sockets: 2,
        llcs_per_socket: 8,
        cores_per_llc: 8,
        smt: 2,
        siblings: Siblings::Apart,
        capacity: &[],
        costs: "epyc-milan-2s",
    },
];

impl Machine {
    /// A preset by name, `flat-N` included.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        if let Some(n) = name.strip_prefix("flat-") {
            let cpus = n.parse().ok().filter(|n| (1..=CPUS_LIMIT).contains(n))?;
            return Some(Self::flat(cpus));
        }
        PRESETS.iter().find(|p| p.name == name).map(|p| Self {
            name: p.name.into(),
            about: p.about.into(),
            sockets: p.sockets,
            llcs_per_socket: p.llcs_per_socket,
            cores_per_llc: p.cores_per_llc,
            smt: p.smt,
            siblings: p.siblings,
            capacity: p.capacity.to_vec(),
            hz: 1000,
            tick_skew: Ns::ZERO,
            costs: p.costs,
        })
    }

    /// `cpus` equal CPUs that share a cache, with no costs: for policy alone.
    fn flat(cpus: u32) -> Self {
        Self {
            name: format!("flat-{cpus}"),
            about: format!("{cpus} equal CPUs that share a cache, no costs"),
            sockets: 1,
            llcs_per_socket: 1,
            cores_per_llc: cpus,
            smt: 1,
            siblings: Siblings::Adjacent,
            capacity: Vec::new(),
            hz: 1000,
            tick_skew: Ns::ZERO,
            costs: "zero",
        }
    }

    /// Name and description of each preset; `flat-N` stands for all of its kind.
    #[must_use]
    pub fn list() -> Vec<(&'static str, &'static str)> {
        std::iter::once(("flat-N", "N equal CPUs that share a cache, no costs"))
            .chain(PRESETS.iter().map(|p| (p.name, p.about)))
            .collect()
    }

    /// Number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.cores() * self.smt
    }

    fn cores(&self) -> u32 {
        self.sockets * self.llcs_per_socket * self.cores_per_llc
    }

    /// Where a CPU sits.
    #[must_use]
    pub fn place(&self, cpu: u32) -> CpuPlace {
        let core = match self.siblings {
            Siblings::Apart => cpu % self.cores(),
            Siblings::Adjacent => cpu / self.smt,
        };
        let llc = core / self.cores_per_llc;
        CpuPlace {
            core,
            llc,
            socket: llc / self.llcs_per_socket,
        }
    }

    /// Reads `machine`: a name, or a table with `preset` and changes to it.
    pub(crate) fn read(field: Option<&Field<'_>>) -> Result<Self, Error> {
        let Some(field) = field else {
            return Ok(Self::flat(1));
        };
        let preset = |f: &Field<'_>| {
            let name = f.text("the name of a machine")?;
            Self::by_name(name)
                .ok_or_else(|| f.unknown("machine", Self::list().iter().map(|(n, _)| *n)))
        };
        if field.node.as_str().is_some() {
            return preset(field);
        }
        let reader = Reader::new(field, "the name of a machine, or a table")?;
        let mut machine = match reader.get("preset") {
            Some(f) => preset(&f)?,
            None => Self::flat(1),
        };
        let mut shape = machine.clone();
        let mut changed = false;
        let mut change = |key, target: &mut u32| -> Result<(), Error> {
            if let Some(f) = reader.get(key) {
                *target = f.integer(1..=CPUS_LIMIT)?;
                changed = true;
            }
            Ok(())
        };
        change("sockets", &mut shape.sockets)?;
        change("llcs_per_socket", &mut shape.llcs_per_socket)?;
        change("cores_per_llc", &mut shape.cores_per_llc)?;
        change("smt", &mut shape.smt)?;
        if changed {
            let product = [
                shape.sockets,
                shape.llcs_per_socket,
                shape.cores_per_llc,
                shape.smt,
            ]
            .iter()
            .try_fold(1_u32, |n, f| n.checked_mul(*f))
            .filter(|n| *n <= CPUS_LIMIT);
            if product.is_none() {
                return Err(field.conflict(format!("a machine has at most {CPUS_LIMIT} CPUs")));
            }
            machine = Self {
                name: "custom".into(),
                about: "described by the scenario".into(),
                capacity: Vec::new(),
                ..shape
            };
        }
        if let Some(f) = reader.get("cpus") {
            let cpus = f.integer(1..=CPUS_LIMIT)?;
            if changed && cpus != machine.cpus() {
                return Err(f.conflict(format!(
                    "sockets, llcs_per_socket, cores_per_llc and smt make {} CPUs",
                    machine.cpus()
                )));
            }
            if cpus != machine.cpus() {
                machine = machine.with_cpus(cpus, &f)?;
            }
        }
        if let Some(f) = reader.get("hz") {
            machine.hz = f.integer(1..=10_000)?;
        }
        if let Some(f) = reader.get("tick_skew") {
            machine.tick_skew = f.time()?;
        }
        reader.finish()?;
        Ok(machine)
    }

    /// The same kind of machine with another number of CPUs: fewer or more cores behind each cache.
    fn with_cpus(self, cpus: u32, field: &Field<'_>) -> Result<Self, Error> {
        let unit = self.sockets * self.llcs_per_socket * self.smt;
        if !cpus.is_multiple_of(unit) {
            return Err(field.conflict(format!(
                "the machine {} has {} sockets, {} caches a socket and {} threads a core, so its CPUs come in steps \
                 of {unit}",
                self.name, self.sockets, self.llcs_per_socket, self.smt
            )));
        }
        if !self.capacity.is_empty() {
            return Err(field.conflict(format!(
                "the CPUs of the machine {} differ, so their number is fixed",
                self.name
            )));
        }
        if self.name.starts_with("flat-") {
            return Ok(Self {
                hz: self.hz,
                tick_skew: self.tick_skew,
                ..Self::flat(cpus)
            });
        }
        Ok(Self {
            name: "custom".into(),
            about: format!("{} with {cpus} CPUs", self.name),
            cores_per_llc: cpus / unit,
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_has_the_cpus_of_its_name() {
        for (name, _) in Machine::list().into_iter().skip(1) {
            let machine = Machine::by_name(name).unwrap();
            let in_name: u32 = name.rsplit('-').next().unwrap().parse().unwrap();
            assert_eq!(machine.cpus(), in_name, "{name}");
            assert!(machine.capacity.is_empty() || machine.capacity.len() == in_name as usize);
        }
        assert_eq!(Machine::by_name("flat-12").unwrap().cpus(), 12);
        for bad in ["flat-0", "flat-", "flat-x", "flat-4097", "spr"] {
            assert_eq!(Machine::by_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn siblings_share_a_core_and_sockets_split_the_caches() {
        let spr = Machine::by_name("spr-224").unwrap();
        assert_eq!(spr.place(0).core, spr.place(112).core);
        assert_eq!(spr.place(55).socket, 0);
        assert_eq!(spr.place(56).socket, 1);
        let epyc = Machine::by_name("epyc-256").unwrap();
        assert_eq!(epyc.place(7).llc, epyc.place(0).llc);
        assert_eq!(epyc.place(8).llc, 1);
        assert_eq!(epyc.place(135).llc, 0);
        assert_eq!(epyc.place(64).socket, 1);
        assert_eq!(epyc.place(255).llc, 15);
    }
}
