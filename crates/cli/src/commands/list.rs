//! `schedlab list`: what there is to choose from.

use std::process::ExitCode;

use anyhow::Result;
use schedlab_scenario::list::{self, Listed};
use schedlab_sim::Costs;

use crate::args::Listing;
use crate::output;

pub(crate) fn list(what: Listing, json: bool) -> Result<ExitCode> {
    let items = match what {
        Listing::Features => list::features(),
        Listing::Profiles => list::profiles(),
        Listing::Machines => list::machines(),
        Listing::Workloads => list::workloads(),
        Listing::Studies => list::studies()?,
        Listing::Costs => return costs(json),
    };
    if json {
        let values: Vec<_> = items
            .iter()
            .map(|i| serde_json::json!({"name": i.name, "about": i.about}))
            .collect();
        output::print_json(&values)?;
    } else {
        output::print(&two_columns(&items))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn two_columns(items: &[Listed]) -> String {
    let width = items
        .iter()
        .map(|i| i.name.chars().count())
        .max()
        .unwrap_or(0);
    items
        .iter()
        .map(|i| format!("{:<width$}  {}\n", i.name, i.about))
        .collect()
}

/// Cost profiles side by side, a line a knob.
fn costs(json: bool) -> Result<ExitCode> {
    let profiles = Costs::PROFILES;
    if json {
        let values: Vec<_> = profiles
            .iter()
            .map(|(name, about, costs)| {
                let figures: serde_json::Map<_, _> = Costs::KEYS
                    .iter()
                    .map(|(k, _)| ((*k).to_string(), costs.get(k).into()))
                    .collect();
                serde_json::json!({"name": name, "about": about, "ns": figures})
            })
            .collect();
        output::print_json(&values)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = String::from("nanoseconds");
    out.push_str(&" ".repeat(12));
    for (name, _, _) in profiles {
        out.push_str(&format!(" {name:>14}"));
    }
    out.push('\n');
    for (key, about) in Costs::KEYS {
        out.push_str(&format!("{key:<23}"));
        for (_, _, costs) in profiles {
            out.push_str(&format!(" {:>14}", costs.get(key).unwrap_or(0)));
        }
        out.push_str(&format!(" {about}\n"));
    }
    output::print(&out)?;
    Ok(ExitCode::SUCCESS)
}
