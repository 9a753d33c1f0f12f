//! Machines that are part of the program: files of `machines/`, and `flat-N`.

use schedlab_fair::Ns;
use schedlab_sim::Costs;
use schedlab_topology::{CPUS_LIMIT, Machine as Hardware, Shape, Siblings};

use super::Machine;

/// Ticks a second if nothing else is said.
pub(super) const HZ: u32 = 1_000;

/// The family of flat machines.
const FLAT: (&str, &str) = ("flat-N", "N equal CPUs that share a cache, no costs");

macro_rules! preset {
    ($name:literal, $about:literal) => {
        (
            $name,
            $about,
            include_str!(concat!("../../../../machines/", $name, ".toml")),
        )
    };
}

/// Name, one line and file of each.
const PRESETS: [(&str, &str, &str); 7] = [
    preset!(
        "study-16",
        "16 CPUs: 2 sockets of 4 cores with 2 threads, a small stand-in for the two-socket servers"
    ),
    preset!("desktop-8", "8 CPUs: one socket of 4 cores with 2 threads"),
    preset!(
        "phone-6",
        "6 CPUs: two big, four little of less than half the capacity (the Juno board)"
    ),
    preset!(
        "skl-104",
        "104 CPUs: 2 sockets of 26 cores with 2 threads (Skylake)"
    ),
    preset!(
        "srf-192",
        "192 CPUs: 2 sockets of 96 cores without SMT, 4 cores a cluster (Sierra Forest)"
    ),
    preset!(
        "spr-224",
        "224 CPUs: 2 sockets of 56 cores with 2 threads (Sapphire Rapids)"
    ),
    preset!(
        "epyc-256",
        "256 CPUs: 2 sockets of 8 caches of 8 cores with 2 threads (Milan)"
    ),
];

pub(super) fn list() -> Vec<(&'static str, &'static str)> {
    std::iter::once(FLAT)
        .chain(PRESETS.iter().map(|(n, a, _)| (*n, *a)))
        .collect()
}

pub(super) fn by_name(name: &str) -> Option<Machine> {
    if let Some(n) = name.strip_prefix("flat-") {
        let cpus = n.parse().ok().filter(|n| (1..=CPUS_LIMIT).contains(n))?;
        return flat(cpus);
    }
    let (name, about, text) = PRESETS.iter().find(|p| p.0 == name)?;
    let mut machine = Machine::parse(name, text).ok()?;
    machine.hardware.name = (*name).into();
    machine.hardware.about = (*about).into();
    Some(machine)
}

/// `cpus` equal CPUs that share a cache, with no costs: for policy alone.
pub(super) fn flat(cpus: u32) -> Option<Machine> {
    let shape = Shape {
        cores_per_llc: cpus,
        siblings: Siblings::Adjacent,
        ..Shape::default()
    };
    let mut hardware = Hardware::of_shape(&shape).ok()?;
    hardware.name = format!("flat-{cpus}");
    hardware.about = format!("{cpus} equal CPUs that share a cache, no costs");
    hardware.source = "made up".into();
    Some(Machine {
        hardware,
        hz: HZ,
        tick_skew: Ns::ZERO,
        costs: Costs::ZERO,
        costs_name: Some("zero".into()),
        shape: Some(shape),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_reads_has_the_cpus_of_its_name_and_a_source() {
        for (name, about, text) in PRESETS {
            let parsed = Machine::parse(name, text);
            assert!(parsed.is_ok(), "{name}: {}", parsed.unwrap_err());
            let machine = by_name(name).unwrap();
            let in_name: u32 = name.rsplit('-').next().unwrap().parse().unwrap();
            assert_eq!(machine.cpus(), in_name, "{name}");
            assert!(machine.hardware.source.len() > 10, "{name}");
            assert_eq!(machine.hardware.about, about);
            assert!(machine.costs_name.is_some());
        }
        assert_eq!(by_name("flat-12").unwrap().cpus(), 12);
        for bad in ["flat-0", "flat-", "flat-x", "flat-4097", "spr"] {
            assert_eq!(by_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn siblings_share_a_core_and_sockets_split_the_caches() {
        let spr = by_name("spr-224").unwrap().hardware.cpus;
        assert_eq!(spr[0].core, spr[112].core);
        assert_eq!((spr[55].socket, spr[56].socket), (0, 1));
        let epyc = by_name("epyc-256").unwrap().hardware.cpus;
        assert_eq!(epyc[7].llc, epyc[0].llc);
        assert_eq!((epyc[8].llc, epyc[135].llc, epyc[255].llc), (1, 0, 15));
        assert_eq!(epyc[64].socket, 1);
        let srf = by_name("srf-192").unwrap().hardware.cpus;
        assert_eq!((srf[3].cluster, srf[4].cluster), (0, 1));
    }
}
