//! `[costs]`: a named profile of the simulator's costs, and changes to it.

use schedlab_sim::Costs;

use crate::error::Error;
use crate::reader::{Field, Reader};

/// Largest cost of a single path: a second.
const LIMIT: u64 = 1_000_000_000;

/// Reads `[costs]`; `preset` is the profile that suits the machine.
pub(crate) fn read(field: Option<&Field<'_>>, preset: &str) -> Result<Costs, Error> {
    let mut costs = Costs::by_name(preset).unwrap_or(Costs::ZERO);
    let Some(field) = field else {
        return Ok(costs);
    };
    let by_name = |f: &Field<'_>| {
        let name = f.text("the name of a cost profile, such as \"xeon-2s\"")?;
        Costs::by_name(name)
            .ok_or_else(|| f.unknown("cost profile", Costs::PROFILES.iter().map(|(n, _, _)| *n)))
    };
    if field.node.as_str().is_some() {
        return by_name(field);
    }
    let reader = Reader::new(field, "the name of a cost profile, or a table")?;
    if let Some(f) = reader.get("profile") {
        costs = by_name(&f)?;
    }
    for (key, _) in Costs::KEYS {
        let Some(f) = reader.get(key) else { continue };
        let value = if *key == "irq_time_accounting" {
            u64::from(f.boolean()?)
        } else {
            let time = f.time()?;
            if time.0 > LIMIT {
                return Err(f.wrong("a time of at most 1s"));
            }
            time.0
        };
        costs.set(key, value);
    }
    reader.finish()?;
    Ok(costs)
}
