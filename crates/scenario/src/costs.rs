//! `[costs]`: a named profile of the simulator's costs, and changes to it.

use schedlab_sim::Costs;

use crate::error::Error;
use crate::reader::{Field, Reader};

/// Largest cost of a single path: a second.
const LIMIT: u64 = 1_000_000_000;

/// Reads `[costs]` of a scenario; `machine` are those of the machine.
pub(crate) fn read(field: Option<&Field<'_>>, machine: Costs) -> Result<Costs, Error> {
    let Some(field) = field else {
        return Ok(machine);
    };
    if field.node.as_str().is_some() {
        return by_name(field);
    }
    let reader = Reader::new(field, FORM)?;
    let mut costs = match reader.get("profile") {
        Some(f) => by_name(&f)?,
        None => machine,
    };
    for (key, _) in Costs::KEYS {
        if let Some(f) = reader.get(key) {
            costs.set(key, value(&f, key)?);
        }
    }
    reader.finish()?;
    Ok(costs)
}

/// Reads `costs` of a machine: a profile, changes to one, or every single cost.
pub(crate) fn read_whole(field: &Field<'_>) -> Result<Costs, Error> {
    if field.node.as_str().is_some() {
        return by_name(field);
    }
    let reader = Reader::new(field, FORM)?;
    if reader.get("profile").is_some() {
        return read(Some(field), Costs::ZERO);
    }
    let mut costs = Costs::ZERO;
    for (key, _) in Costs::KEYS {
        let f = reader.need(
            key,
            "each cost, or the `profile` that the others are taken from",
        )?;
        costs.set(key, value(&f, key)?);
    }
    reader.finish()?;
    Ok(costs)
}

/// All costs, as [`read_whole`] reads them.
pub(crate) fn to_toml(costs: &Costs) -> String {
    Costs::KEYS
        .iter()
        .filter_map(|(key, _)| costs.get(key).map(|v| (key, v)))
        .map(|(key, v)| match *key {
            "irq_time_accounting" => format!("{key} = {}\n", v != 0),
            _ => format!("{key} = \"{v}ns\"\n"),
        })
        .collect()
}

const FORM: &str = "the name of a cost profile, or a table";

fn by_name(field: &Field<'_>) -> Result<Costs, Error> {
    let name = field.text("the name of a cost profile, such as \"xeon-2s\"")?;
    Costs::by_name(name)
        .ok_or_else(|| field.unknown("cost profile", Costs::PROFILES.iter().map(|(n, _, _)| *n)))
}

fn value(field: &Field<'_>, key: &str) -> Result<u64, Error> {
    if key == "irq_time_accounting" {
        return Ok(u64::from(field.boolean()?));
    }
    let time = field.time()?;
    if time.0 > LIMIT {
        return Err(field.wrong("a time of at most 1s"));
    }
    Ok(time.0)
}
