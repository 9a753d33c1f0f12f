//! What there is to choose from, for `schedlab list`.

use schedlab_fair::{Feature, Profile};

use crate::builtin;
use crate::error::Error;
use crate::machine::Machine;
use crate::scenario::WORKLOADS;
use crate::study::Study;
use crate::tasks::KINDS;

/// A name and what it stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The name as it is typed.
    pub name: String,
    /// One line about it.
    pub about: String,
}

fn listed(name: impl Into<String>, about: impl Into<String>) -> Listed {
    Listed {
        name: name.into(),
        about: about.into(),
    }
}

/// Feature switches, with the profiles in which each is on.
#[must_use]
pub fn features() -> Vec<Listed> {
    Feature::ALL
        .iter()
        .map(|f| {
            let on: Vec<&str> = Profile::ALL
                .iter()
                .filter(|p| p.features.has(*f))
                .map(|p| p.name)
                .collect();
            let on = match on.len() {
                0 => "off in all profiles".into(),
                n if n == Profile::ALL.len() => "on in all profiles".into(),
                _ => format!("on in {}", on.join(", ")),
            };
            listed(f.name(), format!("{} [{on}]", f.about().trim()))
        })
        .collect()
}

/// Kernel profiles.
#[must_use]
pub fn profiles() -> Vec<Listed> {
    Profile::ALL
        .iter()
        .map(|p| {
            let t = &p.tunables;
            let policy = format!("{:?}", p.policy).to_uppercase();
            let about = format!(
                "{policy}, base slice {} us before scaling, yield {:?}, tick {:?}",
                t.base_slice_normalized.0 / 1_000,
                p.yield_rule,
                p.tick_rule
            );
            listed(p.name, about)
        })
        .collect()
}

/// Machines.
#[must_use]
pub fn machines() -> Vec<Listed> {
    Machine::list()
        .into_iter()
        .map(|(n, a)| listed(n, a))
        .collect()
}

/// Workloads and ready-made kinds of task.
#[must_use]
pub fn workloads() -> Vec<Listed> {
    let kinds = KINDS.map(|(n, a)| listed(format!("kind = \"{n}\""), a));
    WORKLOADS
        .iter()
        .map(|(n, a)| listed(*n, *a))
        .chain(kinds)
        .collect()
}

/// Built-in studies.
///
/// # Errors
/// If a built-in study is wrong, which a test rules out.
pub fn studies() -> Result<Vec<Listed>, Error> {
    builtin::STUDIES
        .iter()
        .map(|(name, _)| Study::find(name).map(|s| listed(*name, s.title)))
        .collect()
}
