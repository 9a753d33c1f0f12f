//! `schedlab diff-profiles`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use schedlab_fair::{Feature, Profile};

use crate::output;

/// Finds a profile by name.
pub(crate) fn profile(name: &str) -> Result<Profile> {
    match Profile::by_name(name) {
        Some(p) => Ok(p),
        None => {
            let known: Vec<&str> = Profile::ALL.iter().map(|p| p.name).collect();
            bail!("no profile `{name}`; expected one of {}", known.join(", "))
        }
    }
}

/// A switch of a profile with its value as text.
fn switches(p: &Profile) -> Vec<(&'static str, String)> {
    let t = &p.tunables;
    let mut out = vec![
        ("policy", format!("{:?}", p.policy)),
        (
            "base_slice_normalized",
            format!("{} ns", t.base_slice_normalized),
        ),
        ("anchor", format!("{:?}", p.anchor)),
        ("protection", format!("{:?}", p.protection)),
        ("tick_rule", format!("{:?}", p.tick_rule)),
        ("nr_scope", format!("{:?}", p.nr_scope)),
        ("yield_rule", format!("{:?}", p.yield_rule)),
        ("wakeup_rule", format!("{:?}", p.wakeup_rule)),
        ("reweight_rule", format!("{:?}", p.reweight_rule)),
        (
            "reweight_scales_rel_deadline",
            p.reweight_scales_rel_deadline.to_string(),
        ),
        ("lag_limit", format!("{:?}", p.lag_limit)),
        ("delayed_lag_monotonic", p.delayed_lag_monotonic.to_string()),
        ("buddy_pick", format!("{:?}", p.buddy_pick)),
        ("custom_slice", p.custom_slice.to_string()),
        ("idle_loses_protection", p.idle_loses_protection.to_string()),
        ("lazy_resched", p.lazy_resched.to_string()),
        ("throttle_rule", format!("{:?}", p.throttle_rule)),
        ("fair_server", p.fair_server.to_string()),
    ];
    for f in Feature::ALL {
        let on = if p.features.has(*f) { "on" } else { "off" };
        out.push((f.name(), on.to_string()));
    }
    out
}

pub(crate) fn diff(a: &str, b: &str, json: bool) -> Result<ExitCode> {
    let (a, b) = (profile(a)?, profile(b)?);
    let rows: Vec<_> = switches(&a)
        .into_iter()
        .zip(switches(&b))
        .filter(|(x, y)| x.1 != y.1)
        .map(|((name, x), (_, y))| (name, x, y))
        .collect();
    if json {
        let list: Vec<_> = rows
            .iter()
            .map(|(name, x, y)| serde_json::json!({"switch": name, "a": x, "b": y}))
            .collect();
        output::print_json(&serde_json::json!({"a": a.name, "b": b.name, "differences": list}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = format!("{:<30} {:<22} {}\n", "", a.name, b.name);
    for (name, x, y) in &rows {
        out.push_str(&format!("{name:<30} {x:<22} {y}\n"));
    }
    if rows.is_empty() {
        out.push_str("no difference\n");
    }
    output::print(&out)?;
    Ok(ExitCode::SUCCESS)
}
