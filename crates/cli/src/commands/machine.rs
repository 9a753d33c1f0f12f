//! `schedlab machine`: machines and their scheduling domains, shown and imported.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use schedlab_scenario::import::{self, Imported};
use schedlab_scenario::{Error, Machine, cpu_list};
use schedlab_topology::{Arch, Domain, Domains, Group, Machine as Hardware, draw};
use serde_json::{Value, json};

use crate::args::{ImportArgs, MachineCommand, OutputArgs, ShowArgs};
use crate::output::{self, ResultFile};

pub(crate) fn machine(command: &MachineCommand) -> Result<ExitCode> {
    match command {
        MachineCommand::Show(args) => show(args),
        MachineCommand::Import(ImportArgs { path, output }) => write(import::import(path)?, output),
        MachineCommand::Here(args) => write(import::here()?, args),
    }
}

/// A preset, a machine file, or whatever can be imported.
fn find(name: &str) -> Result<Machine, Error> {
    let path = Path::new(name);
    if Machine::by_name(name).is_some() || name.ends_with(".toml") || !path.exists() {
        return Machine::find(name);
    }
    let Imported { machine, notes } = import::import(path)?;
    say(&notes);
    Ok(machine)
}

fn say(notes: &[String]) {
    for note in notes {
        eprintln!("schedlab: {note}");
    }
}

/// Prints an imported machine as a file, or writes it to one.
fn write(imported: Imported, args: &OutputArgs) -> Result<ExitCode> {
    let Imported { mut machine, notes } = imported;
    say(&notes);
    if let Some(name) = &args.name {
        machine.hardware.name.clone_from(name);
    }
    let text = machine.to_toml();
    match &args.out {
        None => output::print(&text)?,
        Some(path) => {
            let mut file = ResultFile::create(path)?;
            file.write_all(text.as_bytes())?;
            file.finish()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(args: &ShowArgs) -> Result<ExitCode> {
    let machine = find(&args.machine)?;
    let hardware = &machine.hardware;
    let cpus = match &args.cpus {
        None => None,
        Some(text) => match cpu_list(text, machine.cpus()) {
            Ok(cpus) => Some(cpus),
            Err(problem) => bail!("--cpus {text}: {problem}"),
        },
    };
    let domains = (args.domains || cpus.is_some()).then(|| Domains::build(hardware));
    if args.json {
        let mut value = machine_json(&machine);
        if let (Some(map), Some(domains)) = (value.as_object_mut(), &domains) {
            map.insert("domains".into(), domains_json(domains));
            map.insert("chains".into(), chains_json(domains, cpus.as_deref()));
        }
        output::print_json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = draw::machine(hardware);
    if let Some(domains) = &domains {
        text.push('\n');
        text.push_str(&draw::domains(hardware, domains, cpus.as_deref()));
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn machine_json(machine: &Machine) -> Value {
    let m: &Hardware = &machine.hardware;
    let cpus: Vec<Value> = m
        .cpus
        .iter()
        .map(|c| {
            json!({
                "core": c.core, "cluster": c.cluster, "llc": c.llc, "node": c.node, "socket": c.socket,
                "capacity": c.capacity,
            })
        })
        .collect();
    let idle: Vec<Value> = m
        .idle_states
        .iter()
        .map(|s| {
            json!({
                "name": s.name, "exit_latency_ns": s.exit_latency, "target_residency_ns": s.target_residency,
            })
        })
        .collect();
    json!({
        "schema": "schedlab.machine/1",
        "name": m.name,
        "about": m.about,
        "source": m.source,
        "arch": match m.arch { Arch::X86 => "x86", Arch::Generic => "generic" },
        "nr_cpus": m.nr_cpus(),
        "cpus": cpus,
        "distances": m.distances,
        "reclaim_distance": m.reclaim_distance,
        "idle_states": idle,
        "hz": machine.hz,
        "costs": machine.costs_name,
    })
}

/// Every domain once, with its groups in the order of the ring.
fn domains_json(domains: &Domains) -> Value {
    let group = |g: &Group| {
        json!({
            "id": g.id, "span": g.span.to_string(), "balance_mask": g.balance_mask.to_string(),
            "flags": g.flags.names().collect::<Vec<_>>(), "weight": g.weight, "cores": g.cores,
            "capacity": g.capacity,
        })
    };
    let domain = |d: &Domain| {
        json!({
            "name": d.level.name(), "level": d.level_nr, "span": d.span.to_string(), "span_weight": d.span_weight,
            "flags": d.flags.names().collect::<Vec<_>>(),
            "min_interval": d.min_interval, "max_interval": d.max_interval, "busy_factor": d.busy_factor,
            "imbalance_pct": d.imbalance_pct, "cache_nice_tries": d.cache_nice_tries,
            "imb_numa_nr": d.imb_numa_nr, "distance": d.distance,
            "groups": d.ring.iter().map(|g| group(domains.group(*g))).collect::<Vec<_>>(),
        })
    };
    domains.all().iter().map(domain).collect()
}

/// For each CPU its domains by number, lowest first, with the number of its own group in each.
fn chains_json(domains: &Domains, cpus: Option<&[u32]>) -> Value {
    let all: Vec<u32> = (0..domains.nr_cpus()).collect();
    cpus.unwrap_or(&all)
        .iter()
        .map(|&cpu| {
            let llc = domains.llc(cpu);
            let links: Vec<Value> = domains
                .chain(cpu)
                .iter()
                .map(|l| json!({"domain": l.domain.0, "own_group": l.local}))
                .collect();
            json!({
                "cpu": cpu, "domains": links, "llc_id": llc.id, "llc_size": llc.size, "share_id": llc.share_id,
            })
        })
        .collect()
}
