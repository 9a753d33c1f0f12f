//! Several stored results as one set of variants.

use std::collections::BTreeMap;

use crate::results::{ResultSet, SampleError, Variant};

/// What could not be carried over as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// A shared property that is not shared any more.
    Differs {
        /// Its name.
        key: String,
        /// Its values, one a source, `-` where a source does not tell.
        values: Vec<String>,
    },
    /// Metrics that only some sources know.
    NotEverywhere {
        /// How many metrics.
        metrics: usize,
    },
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Differs { key, values } => {
                write!(f, "`{key}` differs: {}", values.join(", "))
            }
            Self::NotEverywhere { metrics } => {
                write!(f, "{metrics} metric(s) are not in all of the results")
            }
        }
    }
}

/// Puts the variants of several results, each with the name of its source, side
/// by side in the order given.
///
/// A variant keeps its name unless two sources use it: then a source with one
/// variant lends its own name to it, and the variants of others are called
/// `source:variant`. What all sources share stays shared; what differs is left
/// out of the table's head and told as a [`Note`].
///
/// # Errors
/// The source's name, with [`SampleError::Conflict`] when it means something
/// else by a metric than an earlier one, or [`SampleError::Duplicate`] when
/// names still collide.
pub fn merge(
    sources: &[(String, ResultSet)],
) -> Result<(ResultSet, Vec<Note>), (String, SampleError)> {
    let axis = match sources {
        [(_, only)] => return Ok((only.clone(), Vec::new())),
        [(_, first), rest @ ..] if rest.iter().all(|(_, s)| s.axis() == first.axis()) => {
            first.axis()
        }
        _ => "variant",
    };
    let mut set = ResultSet::new(axis);
    let mut notes = Vec::new();
    for key in common_keys(sources) {
        let values: Vec<Option<&str>> = sources.iter().map(|(_, s)| value_of(s, key)).collect();
        match values.first() {
            Some(Some(first)) if values.iter().all(|v| *v == Some(*first)) => set
                .add_common(key, *first)
                .map_err(|e| (sources[0].0.clone(), e))?,
            _ => notes.push(Note::Differs {
                key: key.to_owned(),
                values: values
                    .into_iter()
                    .map(|v| v.unwrap_or("-").to_owned())
                    .collect(),
            }),
        }
    }
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, source) in sources {
        for variant in source.variants() {
            *uses.entry(variant.name()).or_default() += 1;
        }
        for metric in source.metrics() {
            *known.entry(metric.key.as_str()).or_default() += 1;
        }
    }
    for (name, source) in sources {
        let at = |e| (name.clone(), e);
        for metric in source.metrics() {
            set.declare(metric.clone()).map_err(at)?;
        }
        let single = source.variants().len() == 1;
        for variant in source.variants() {
            let taken = uses.get(variant.name()).is_some_and(|n| *n > 1);
            let variant: Variant = match (taken, single) {
                (false, _) => variant.clone(),
                (true, true) => variant.renamed(name.clone()),
                (true, false) => variant.renamed(format!("{name}:{}", variant.name())),
            };
            set.add_variant(variant).map_err(at)?;
        }
    }
    let metrics = known.values().filter(|n| **n < sources.len()).count();
    if metrics > 0 {
        notes.push(Note::NotEverywhere { metrics });
    }
    Ok((set, notes))
}

/// All names of shared properties, in the order of their first use.
fn common_keys(sources: &[(String, ResultSet)]) -> Vec<&str> {
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in sources.iter().flat_map(|(_, s)| s.common()) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    keys
}

fn value_of<'a>(set: &'a ResultSet, key: &str) -> Option<&'a str> {
    set.common()
        .iter()
        .find(|(k, _)| k == key)
        .map(|(_, v)| v.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Metric, Run};

    fn source(unit: &str, variants: &[&str], kernel: &str) -> ResultSet {
        let mut set = ResultSet::new("commit");
        set.add_common("testcase", "t").unwrap();
        set.add_common("kernel", kernel).unwrap();
        set.declare(Metric::new("a.b").unwrap().with_unit(unit))
            .unwrap();
        for v in variants {
            set.add_variant(Variant::new(*v)).unwrap();
            set.add_run(v, Run::new("1").with("a.b", 1.0).unwrap())
                .unwrap();
        }
        set
    }

    #[test]
    fn names_that_collide_take_the_source_and_what_differs_is_told() {
        let (set, notes) = merge(&[
            ("one".into(), source("s", &["x"], "6.6")),
            ("two".into(), source("s", &["x", "y"], "6.12")),
        ])
        .unwrap();
        let names: Vec<_> = set.variants().iter().map(Variant::name).collect();
        assert_eq!(names, ["one", "two:x", "y"]);
        assert_eq!(set.common(), [("testcase".to_owned(), "t".to_owned())]);
        assert_eq!(notes[0].to_string(), "`kernel` differs: 6.6, 6.12");
        assert_eq!(notes.len(), 1);
    }

    #[test]
    fn unlike_things_are_refused() {
        let (name, error) = merge(&[
            ("one".into(), source("s", &["x"], "6.6")),
            ("two".into(), source("ms", &["y"], "6.6")),
        ])
        .unwrap_err();
        assert_eq!(name, "two");
        assert!(matches!(error, SampleError::Conflict { what: "unit", .. }));
    }
}
