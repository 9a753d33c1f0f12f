//! A machine's table: a preset or a shape, changes to it, or a layout CPU by CPU.

use std::path::Path;

use schedlab_topology::{
    Arch, CPUS_LIMIT, CpuSet, IdleState, LOCAL_DISTANCE, Machine as Hardware, MachineError,
    NODES_LIMIT, Shape, Siblings, partition,
};

use super::{Machine, presets};
use crate::costs;
use crate::error::Error;
use crate::reader::{Field, Reader};

/// Keys that make another shape.
const SHAPE_KEYS: [&str; 6] = [
    "sockets",
    "nodes",
    "llcs_per_socket",
    "cores_per_llc",
    "cores_per_cluster",
    "smt",
];

/// Keys that any machine may have.
const DETAILS: [&str; 12] = [
    "name",
    "about",
    "source",
    "arch",
    "siblings",
    "distances",
    "reclaim_distance",
    "capacity",
    "idle_state",
    "hz",
    "tick_skew",
    "costs",
];

impl Machine {
    /// Reads `machine` of a scenario: a name, or a table with `preset` and changes to it.
    pub(crate) fn read(field: Option<&Field<'_>>, directory: &Path) -> Result<Self, Error> {
        match field {
            None => flat_1(None),
            Some(f) => match f.node.as_str() {
                Some(name) => Self::named(f, name, directory),
                None => {
                    let reader = Reader::new(f, "the name of a machine, or a table")?;
                    let machine = Table {
                        reader: &reader,
                        whole: f,
                        directory,
                    }
                    .read(true)?;
                    reader.finish()?;
                    Ok(machine)
                }
            },
        }
    }

    /// Reads the table that is a machine file.
    pub(super) fn read_file(root: &Field<'_>, directory: &Path) -> Result<Self, Error> {
        let reader = Reader::new(root, "a table")?;
        let table = Table {
            reader: &reader,
            whole: root,
            directory,
        };
        let machine = table.read(false);
        // A key that does not exist explains a missing one.
        let (machine, finish) = match machine {
            Err(e @ Error::Missing { .. }) => (Err(e), reader.finish()),
            other => (Ok(other?), reader.finish()),
        };
        finish?;
        machine
    }
}

fn flat_1(field: Option<&Field<'_>>) -> Result<Machine, Error> {
    presets::flat(1).ok_or_else(|| match field {
        Some(f) => f.conflict("no machine"),
        None => Error::NoSuchMachine {
            name: "flat-1".into(),
            known: Vec::new(),
        },
    })
}

struct Table<'a, 'r> {
    reader: &'r Reader<'a>,
    whole: &'r Field<'a>,
    directory: &'r Path,
}

impl Table<'_, '_> {
    /// `default`: without any CPU, one is meant.
    fn read(&self, default: bool) -> Result<Machine, Error> {
        let r = self.reader;
        let described = ["preset", "layout", "cpus"]
            .iter()
            .chain(&SHAPE_KEYS)
            .any(|k| r.get(k).is_some());
        if !described && !default {
            // They are known, though no reason to go on.
            for key in DETAILS {
                r.get(key);
            }
            return Err(Error::Missing {
                place: r.place().clone(),
                key: r.path_of("cpus"),
                expected: "CPUs: `cpus` with a [layout], or a shape such as `sockets`, `cores_per_llc` and `smt`, or a `preset`"
                    .into(),
            });
        }
        let mut machine = match r.get("preset") {
            Some(f) => Machine::named(&f, f.text("the name of a machine")?, self.directory)?,
            None => flat_1(Some(self.whole))?,
        };
        match r.get("layout") {
            Some(layout) => machine = self.layout(&layout, machine)?,
            None => machine = self.reshape(machine)?,
        }
        self.details(&mut machine)?;
        Ok(machine)
    }

    /// Another shape, if one is given.
    fn reshape(&self, machine: Machine) -> Result<Machine, Error> {
        let r = self.reader;
        let first = SHAPE_KEYS.iter().find_map(|k| r.get(k));
        let mut machine = match (first, machine.shape.clone()) {
            (None, _) => machine,
            (Some(_), Some(shape)) => self.with_shape(machine, shape)?,
            (Some(f), None) => {
                return Err(f.conflict(format!(
                    "the machine {} has no regular shape, so it cannot be changed",
                    machine.name()
                )));
            }
        };
        if let Some(f) = r.get("cpus") {
            let cpus = f.integer(1..=CPUS_LIMIT)?;
            let shaped = SHAPE_KEYS.iter().any(|k| r.get(k).is_some());
            if shaped && cpus != machine.cpus() {
                return Err(f.conflict(format!(
                    "sockets, llcs_per_socket, cores_per_llc and smt make {} CPUs",
                    machine.cpus()
                )));
            }
            if cpus != machine.cpus() {
                machine = with_cpus(machine, cpus, &f)?;
            }
        }
        Ok(machine)
    }

    fn with_shape(&self, machine: Machine, mut shape: Shape) -> Result<Machine, Error> {
        let r = self.reader;
        let read = |key, target: &mut u32| -> Result<(), Error> {
            if let Some(f) = r.get(key) {
                *target = f.integer(1..=CPUS_LIMIT)?;
            }
            Ok(())
        };
        read("sockets", &mut shape.sockets)?;
        read("llcs_per_socket", &mut shape.llcs_per_socket)?;
        read("cores_per_llc", &mut shape.cores_per_llc)?;
        read("cores_per_cluster", &mut shape.cores_per_cluster)?;
        read("smt", &mut shape.smt)?;
        if let Some(f) = r.get("nodes") {
            shape.nodes = Some(f.integer(1..=NODES_LIMIT)?);
        }
        if let Some(f) = r.get("siblings") {
            shape.siblings = match f.text("\"apart\" or \"adjacent\"")? {
                "apart" => Siblings::Apart,
                "adjacent" => Siblings::Adjacent,
                _ => return Err(f.wrong("\"apart\" or \"adjacent\"")),
            };
        }
        if shape.distances.len() as u32 != shape.nodes.unwrap_or(shape.sockets) {
            shape.distances.clear();
        }
        if let Some(f) = r.get("distances") {
            shape.distances = distances(&f)?;
        }
        if let Some(f) = r.get("arch") {
            shape.arch = arch(&f)?;
        }
        let hardware = Hardware::of_shape(&shape).map_err(|e| self.machine_error(e))?;
        Ok(custom(
            machine,
            hardware,
            Some(shape),
            "described by the scenario",
        ))
    }

    /// `[layout]`: which CPUs form cores, clusters, caches, nodes and sockets.
    fn layout(&self, field: &Field<'_>, machine: Machine) -> Result<Machine, Error> {
        let r = self.reader;
        for key in SHAPE_KEYS.iter().chain(&["siblings", "preset"]) {
            if let Some(f) = r.get(key) {
                return Err(f.conflict("a machine has either a shape or a [layout]"));
            }
        }
        let cpus = r
            .need("cpus", "the number of CPUs that the [layout] is for")?
            .integer(1..=CPUS_LIMIT)?;
        let layout = Reader::new(field, "a table with cores, clusters, llcs, nodes, sockets")?;
        let units = |key| layout.get(key).map(|f| units(&f, cpus)).transpose();
        let one = vec![0; cpus as usize];
        let cores = units("cores")?.unwrap_or_else(|| (0..cpus).collect());
        let clusters = units("clusters")?.unwrap_or_else(|| cores.clone());
        let sockets = units("sockets")?.unwrap_or_else(|| one.clone());
        let llcs = units("llcs")?.unwrap_or_else(|| sockets.clone());
        let nodes = units("nodes")?.unwrap_or(one);
        layout.finish()?;
        let list = (0..cpus as usize)
            .map(|i| schedlab_topology::Cpu {
                core: cores[i],
                cluster: clusters[i],
                llc: llcs[i],
                node: nodes[i],
                socket: sockets[i],
                capacity: 1024,
            })
            .collect();
        let nr_nodes = nodes.iter().max().map_or(1, |n| n + 1);
        let matrix = match r.get("distances") {
            Some(f) => distances(&f)?,
            None if nr_nodes == 1 => vec![vec![LOCAL_DISTANCE]],
            None => {
                r.need(
                    "distances",
                    "the distance of each node to each, as [[10, 20], [20, 10]]",
                )?;
                Vec::new()
            }
        };
        let arch = r.get("arch").map_or(Ok(Arch::X86), |f| arch(&f))?;
        let hardware = Hardware::new(arch, list, matrix).map_err(|e| self.machine_error(e))?;
        Ok(custom(machine, hardware, None, "described CPU by CPU"))
    }

    /// What any machine may have beside its CPUs.
    fn details(&self, machine: &mut Machine) -> Result<(), Error> {
        let r = self.reader;
        let hardware = &mut machine.hardware;
        for (key, target) in [
            ("name", &mut hardware.name),
            ("about", &mut hardware.about),
            ("source", &mut hardware.source),
        ] {
            if let Some(f) = r.get(key) {
                *target = f.text("a string")?.into();
            }
        }
        if let Some(f) = r.get("distances") {
            hardware.distances = distances(&f)?;
        }
        if let Some(f) = r.get("arch") {
            hardware.arch = arch(&f)?;
        }
        if let Some(f) = r.get("reclaim_distance") {
            hardware.reclaim_distance = f.integer(LOCAL_DISTANCE..=255)?;
        }
        if let Some(f) = r.get("capacity") {
            capacity(&f, hardware)?;
        }
        if let Some(f) = r.get("idle_state") {
            hardware.idle_states = idle_states(&f)?;
        }
        hardware.validate().map_err(|e| self.machine_error(e))?;
        if let Some(f) = r.get("siblings")
            && !SHAPE_KEYS.iter().any(|k| r.get(k).is_some())
        {
            return Err(f.conflict("belongs to a shape, such as `cores_per_llc` and `smt`"));
        }
        if let Some(f) = r.get("hz") {
            machine.hz = f.integer(1..=10_000)?;
        }
        if let Some(f) = r.get("tick_skew") {
            machine.tick_skew = f.time()?;
        }
        if let Some(f) = r.get("costs") {
            machine.costs_name = f.node.as_str().map(str::to_string);
            machine.costs = costs::read_whole(&f)?;
        }
        Ok(())
    }

    /// Puts a fault of the machine to the key that it comes from.
    fn machine_error(&self, e: MachineError) -> Error {
        let key = match &e {
            MachineError::Rows { .. }
            | MachineError::Row { .. }
            | MachineError::Distance { .. }
            | MachineError::Asymmetric { .. } => "distances",
            MachineError::TooManyNodes(_) | MachineError::EmptyNode(_) => "nodes",
            MachineError::Capacity { .. } => "capacity",
            MachineError::TooManyIdleStates(_) | MachineError::IdleOrder { .. } => "idle_state",
            MachineError::Split { .. } => "layout",
            MachineError::NoCpu | MachineError::TooManyCpus(_) => "cpus",
        };
        match self.reader.get(key) {
            Some(f) => f.conflict(e.to_string()),
            None if self.whole.path.is_empty() => Error::Machine {
                place: self.whole.node.place.clone(),
                source: e,
            },
            None => self.whole.conflict(e.to_string()),
        }
    }
}

/// A machine with other CPUs, which is no preset any more.
fn custom(machine: Machine, mut hardware: Hardware, shape: Option<Shape>, about: &str) -> Machine {
    hardware.name = "custom".into();
    hardware.about = about.into();
    hardware.reclaim_distance = machine.hardware.reclaim_distance;
    hardware.idle_states = machine.hardware.idle_states;
    Machine {
        hardware,
        shape,
        ..machine
    }
}

/// The same kind of machine with another number of CPUs: fewer or more cores behind each cache.
fn with_cpus(machine: Machine, cpus: u32, field: &Field<'_>) -> Result<Machine, Error> {
    let name = machine.name().to_string();
    let Some(shape) = &machine.shape else {
        return Err(field.conflict(format!(
            "the machine {name} has no regular shape, so its number of CPUs is fixed"
        )));
    };
    let unit = shape.sockets * shape.llcs_per_socket * shape.smt;
    if !cpus.is_multiple_of(unit) {
        return Err(field.conflict(format!(
            "the machine {name} has {} sockets, {} caches a socket and {} threads a core, so its CPUs come in steps \
             of {unit}",
            shape.sockets, shape.llcs_per_socket, shape.smt
        )));
    }
    if machine.hardware.is_asymmetric() {
        return Err(field.conflict(format!(
            "the CPUs of the machine {name} differ, so their number is fixed"
        )));
    }
    if name.starts_with("flat-") {
        let flat = presets::flat(cpus).ok_or_else(|| field.conflict("too many CPUs"))?;
        return Ok(Machine {
            hz: machine.hz,
            tick_skew: machine.tick_skew,
            ..flat
        });
    }
    let mut shape = shape.clone();
    shape.cores_per_llc = cpus / unit;
    let hardware = Hardware::of_shape(&shape).map_err(|e| field.conflict(e.to_string()))?;
    let about = format!("{name} with {cpus} CPUs");
    Ok(custom(machine, hardware, Some(shape), &about))
}

fn units(field: &Field<'_>, cpus: u32) -> Result<Vec<u32>, Error> {
    let items = field.array("a list of CPU lists, such as [\"0-3\", \"4-7\"]")?;
    let mut sets = Vec::with_capacity(items.len().min(cpus as usize + 1));
    for item in &items {
        let list = item.cpus(cpus)?;
        sets.push(CpuSet::of(list, cpus as usize));
    }
    partition(&sets, cpus).map_err(|e| field.conflict(e.to_string()))
}

fn distances(field: &Field<'_>) -> Result<Vec<Vec<u32>>, Error> {
    let form = "rows of distances, such as [[10, 20], [20, 10]]";
    let rows = field.array(form)?;
    if rows.len() > NODES_LIMIT as usize {
        return Err(field.conflict(MachineError::TooManyNodes(rows.len() as u64).to_string()));
    }
    rows.iter()
        .map(|row| {
            row.array(form)?
                .iter()
                .map(|d| d.integer(LOCAL_DISTANCE..=255))
                .collect()
        })
        .collect()
}

fn arch(field: &Field<'_>) -> Result<Arch, Error> {
    match field.text("\"x86\" or \"generic\"")? {
        "x86" => Ok(Arch::X86),
        "generic" => Ok(Arch::Generic),
        _ => Err(field.wrong("\"x86\" or \"generic\" (arm64, riscv)")),
    }
}

fn capacity(field: &Field<'_>, hardware: &mut Hardware) -> Result<(), Error> {
    let list = field.array("a list of capacities, one a CPU, 1024 for the fastest")?;
    if list.len() != hardware.cpus.len() {
        return Err(field.conflict(format!(
            "{} capacities for {} CPUs; expected one a CPU",
            list.len(),
            hardware.cpus.len()
        )));
    }
    for (cpu, f) in hardware.cpus.iter_mut().zip(&list) {
        cpu.capacity = f.integer(1..=1024)?;
    }
    Ok(())
}

fn idle_states(field: &Field<'_>) -> Result<Vec<IdleState>, Error> {
    field
        .array("a list of [[idle_state]]s, shallowest first")?
        .iter()
        .map(|item| {
            let reader = Reader::new(item, "an idle state")?;
            let state = IdleState {
                name: reader
                    .need("name", "its name, such as \"C1\"")?
                    .text("its name, such as \"C1\"")?
                    .into(),
                exit_latency: reader
                    .need("exit_latency", "the time to leave it")?
                    .time()?
                    .0,
                target_residency: reader
                    .get("target_residency")
                    .map_or(Ok(schedlab_fair::Ns::ZERO), |f| f.time())?
                    .0,
            };
            reader.finish()?;
            Ok(state)
        })
        .collect()
}
