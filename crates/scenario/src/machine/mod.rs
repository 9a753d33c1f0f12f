//! Machines: presets by name, files, tables of a scenario.
//!
//! The hardware itself is a [`schedlab_topology::Machine`]; here it gets its tick rate and its costs, and its text form
//! (`docs/formats/machine.md`).

mod file;
mod presets;
mod read;

use std::path::Path;

use schedlab_fair::Ns;
use schedlab_sim::Costs;
use schedlab_topology::{Machine as Hardware, Shape};

use crate::error::{Error, Place};
use crate::reader::Field;

/// A machine as a preset, a file or a scenario describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// CPUs, caches, nodes, idle states.
    pub hardware: Hardware,
    /// Ticks a second.
    pub hz: u32,
    /// How much later than its neighbour's each CPU's tick comes (`skew_tick`); 0 for all at once.
    pub tick_skew: Ns,
    /// What the scheduler's own paths cost on it.
    pub costs: Costs,
    /// Name of the cost profile that `costs` are, if they are one.
    pub costs_name: Option<String>,
    /// Its shape, if it has a regular one that a scenario may change.
    shape: Option<Shape>,
}

impl Machine {
    /// Name of the preset or file, or `custom`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.hardware.name
    }

    /// Number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.hardware.nr_cpus()
    }

    /// A preset by name, `flat-N` included.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        presets::by_name(name)
    }

    /// Name and description of each preset; `flat-N` stands for all of its kind.
    #[must_use]
    pub fn list() -> Vec<(&'static str, &'static str)> {
        presets::list()
    }

    /// Whether a name stands for a file: it has a folder or ends in `.toml`.
    #[must_use]
    pub fn is_file_name(name: &str) -> bool {
        name.contains('/') || name.ends_with(".toml")
    }

    /// A machine from imported hardware, with the costs that come closest.
    #[must_use]
    pub fn of_hardware(hardware: Hardware, costs: &str) -> Self {
        Self {
            hardware,
            hz: presets::HZ,
            tick_skew: Ns::ZERO,
            costs: Costs::by_name(costs).unwrap_or(Costs::ZERO),
            costs_name: Some(costs.into()),
            shape: None,
        }
    }

    /// A preset or a file by what a person types.
    ///
    /// # Errors
    /// If there is none of that name, or the file is wrong.
    pub fn find(name: &str) -> Result<Self, Error> {
        if Self::is_file_name(name) {
            return Self::load(Path::new(name));
        }
        Self::by_name(name).ok_or_else(|| Error::NoSuchMachine {
            name: name.into(),
            known: Self::list().iter().map(|(n, _)| (*n).into()).collect(),
        })
    }

    /// What a scenario or study calls a machine: a preset, or a file, whose path starts at the document's `directory` if it is
    /// written there and not in an option.
    pub(crate) fn named(field: &Field<'_>, name: &str, directory: &Path) -> Result<Self, Error> {
        if Self::is_file_name(name) {
            let start = match field.node.place {
                Place::File { .. } => directory,
                Place::Override(_) => Path::new(""),
            };
            return Self::load(&start.join(name));
        }
        Self::by_name(name)
            .ok_or_else(|| field.unknown("machine", Self::list().iter().map(|(n, _)| *n)))
    }
}
