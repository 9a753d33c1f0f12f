//! Output of `lscpu -J -e` (a row a CPU) and of `lscpu -J` (a summary, from which a regular machine is made).

use std::collections::BTreeMap;

use schedlab_topology::{Arch, CPUS_LIMIT};
use serde_json::Value;

use super::gathered::{FoundCpu, Gathered};
use super::wrong;
use crate::cpulist::parse_cpu_list;
use crate::error::Error;

/// Most numbers of CPUs in a list.
const NUMBERS: u32 = 8_192;

pub(super) fn read(name: &str, text: &str) -> Result<Gathered, Error> {
    let value: Value = serde_json::from_str(text).map_err(|e| {
        wrong(
            format!("{name}:{}:{}", e.line(), e.column()),
            format!("no JSON: {e}"),
        )
    })?;
    let mut out = Gathered {
        place: name.into(),
        ..Gathered::default()
    };
    match (value.get("cpus"), value.get("lscpu")) {
        (Some(Value::Array(rows)), _) => table(&mut out, rows)?,
        (_, Some(Value::Array(fields))) => summary(&mut out, fields)?,
        _ => {
            return Err(wrong(
                name,
                "expected `cpus` (of lscpu -J -e) or `lscpu` (of lscpu -J)",
            ));
        }
    }
    Ok(out)
}

/// A cell, which older versions write as text.
fn integer(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Number(n) => n.as_u64(),
        Value::String(s) => s.trim().parse().ok(),
        _ => None,
    }
}

fn table(out: &mut Gathered, rows: &[Value]) -> Result<(), Error> {
    for (i, row) in rows.iter().enumerate() {
        let place = |key: &str| format!("{}: cpus[{i}].{key}", out.place);
        let need = |key: &str| {
            integer(row.get(key))
                .ok_or_else(|| wrong(place(key), "expected a number; `lscpu -J -e` writes it"))
        };
        let online = match row.get("online") {
            Some(Value::Bool(online)) => *online,
            Some(Value::String(s)) => s != "no",
            _ => true,
        };
        if !online {
            continue;
        }
        let small = |key: &str| {
            need(key).and_then(|n| {
                u32::try_from(n).map_err(|_| wrong(place(key), "expected a smaller number"))
            })
        };
        let cache = caches(row);
        let number = small("cpu")?;
        if out.cpus.iter().any(|c| c.number == number) {
            return Err(wrong(place("cpu"), format!("CPU {number} is there twice")));
        }
        out.cpus.push(FoundCpu {
            number,
            core: need("core")?,
            cluster: cache.get(&2).copied(),
            llc: cache.range(2..=3).next_back().map(|(_, id)| *id),
            node: match row.get("node") {
                None | Some(Value::Null) => 0,
                _ => small("node")?,
            },
            socket: need("socket")?,
            capacity: 1024,
        });
        if out.cpus.len() > CPUS_LIMIT as usize {
            return Err(wrong(
                out.place.clone(),
                format!("more than {CPUS_LIMIT} CPUs"),
            ));
        }
    }
    Ok(())
}

/// Numbers of the caches by level, from a column such as `l1d:l1i:l2:l3`.
fn caches(row: &Value) -> BTreeMap<u32, u64> {
    let mut out = BTreeMap::new();
    let Some(row) = row.as_object() else {
        return out;
    };
    for (key, value) in row.iter().filter(|(k, _)| k.starts_with('l')) {
        let Some(text) = value.as_str() else { continue };
        for (name, id) in key.split(':').zip(text.split(':')) {
            let level = name.strip_prefix('l').and_then(|l| l.parse().ok());
            if let (Some(level), Ok(id)) = (level, id.parse()) {
                out.insert(level, id);
            }
        }
    }
    out
}

/// Fields of the summary, those of nested ones too.
fn fields<'a>(list: &'a [Value], out: &mut BTreeMap<&'a str, &'a str>) {
    for item in list {
        if let (Some(Value::String(field)), Some(Value::String(data))) =
            (item.get("field"), item.get("data"))
        {
            out.insert(field.trim_end_matches(':'), data);
        }
        if let Some(Value::Array(children)) = item.get("children") {
            fields(children, out);
        }
    }
}

fn summary(out: &mut Gathered, list: &[Value]) -> Result<(), Error> {
    let mut all = BTreeMap::new();
    fields(list, &mut all);
    let place = |field: &str| format!("{}: field `{field}`", out.place);
    let need = |field: &str| {
        let text = all
            .get(field)
            .ok_or_else(|| wrong(place(field), "is missing; expected it in lscpu's summary"))?;
        text.parse::<u64>()
            .ok()
            .filter(|n| (1..=u64::from(NUMBERS)).contains(n))
            .ok_or_else(|| wrong(place(field), format!("expected a number, found {text:?}")))
    };
    let threads = need("Thread(s) per core")?;
    let (cores_per_socket, sockets) = match all.contains_key("Core(s) per socket") {
        true => (need("Core(s) per socket")?, need("Socket(s)")?),
        // arm64 without ACPI: "sockets" are not known, clusters are.
        false => (need("Core(s) per cluster")?, need("Cluster(s)")?),
    };
    let online = match all.get("On-line CPU(s) list") {
        Some(text) => parse_cpu_list(text, NUMBERS).map_err(|_| {
            wrong(
                place("On-line CPU(s) list"),
                format!("expected CPUs, found {text:?}"),
            )
        })?,
        None => (0..need("CPU(s)")? as u32).collect(),
    };
    let n = online.len() as u64;
    if n != threads * cores_per_socket * sockets || n > u64::from(CPUS_LIMIT) {
        return Err(wrong(
            out.place.clone(),
            format!(
                "{n} CPUs are no {sockets} sockets of {cores_per_socket} cores with {threads} threads (at most \
                 {CPUS_LIMIT}); use lscpu -J -e, which tells each CPU's place"
            ),
        ));
    }
    let nodes = nodes(&all, &out.place)?;
    let cores = n / threads;
    let adjacent = siblings_adjacent(&nodes, threads, cores, &mut out.notes);
    let caches = |field: &str| {
        all.get(field)
            .and_then(|t| t.split_once('(')?.1.split(' ').next()?.parse::<u64>().ok())
            .filter(|k| (1..=cores).contains(k) && cores.is_multiple_of(*k))
    };
    let (l2, l3) = (caches("L2 cache"), caches("L3 cache"));
    let cores_per = |k: Option<u64>| k.map(|k| cores / k);
    let per_llc = cores_per(l3).or(match all.contains_key("L3 cache") {
        true => None,
        false => cores_per(l2),
    });
    for (i, &number) in online.iter().enumerate() {
        let i = i as u64;
        let core = if adjacent { i / threads } else { i % cores };
        out.cpus.push(FoundCpu {
            number,
            core,
            cluster: cores_per(l2).map(|per| core / per),
            llc: per_llc.map(|per| core / per),
            node: nodes
                .iter()
                .find(|(_, c)| c.contains(&number))
                .map_or(0, |(n, _)| *n),
            socket: core / cores_per_socket,
            capacity: 1024,
        });
    }
    out.arch = match all.get("Architecture") {
        Some(a) if !a.contains("86") => Arch::Generic,
        _ => Arch::X86,
    };
    out.vendor = all.get("Vendor ID").map(|v| (*v).into());
    out.model = all.get("Model name").map(|v| (*v).into());
    out.family = all.get("CPU family").and_then(|v| v.parse().ok());
    out.notes.push(
        "lscpu's summary does not say which CPU is where; it is taken as regular (lscpu -J -e says it)".into(),
    );
    Ok(())
}

fn nodes(all: &BTreeMap<&str, &str>, place: &str) -> Result<Vec<(u32, Vec<u32>)>, Error> {
    let mut out = Vec::new();
    for (field, text) in all {
        let number = field
            .strip_prefix("NUMA node")
            .and_then(|f| f.strip_suffix(" CPU(s)"))
            .and_then(|f| f.parse().ok());
        // Nodes of memory alone have an empty list.
        let (Some(number), false) = (number, text.is_empty()) else {
            continue;
        };
        let cpus = parse_cpu_list(text, NUMBERS).map_err(|_| {
            wrong(
                format!("{place}: field `{field}`"),
                format!("expected CPUs, found {text:?}"),
            )
        })?;
        out.push((number, cpus));
    }
    out.sort();
    Ok(out)
}

/// Whether threads of a core have neighbouring numbers. Where nodes tell, node 0 holds the second threads of its first cores;
/// otherwise x86's usual numbering is taken.
fn siblings_adjacent(
    nodes: &[(u32, Vec<u32>)],
    threads: u64,
    cores: u64,
    notes: &mut Vec<String>,
) -> bool {
    if threads == 1 {
        return false;
    }
    match nodes {
        [(_, first), _, ..] => !first.contains(&(cores as u32)),
        _ => {
            notes.push(format!(
                "threads of a core are taken as CPU n and CPU n+{cores}"
            ));
            false
        }
    }
}
