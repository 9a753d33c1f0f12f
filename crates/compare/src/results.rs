//! Results as they are stored: variants in order, each with its runs.

mod error;
mod run;
mod stored;

pub use error::SampleError;
pub use run::{Run, Variant};

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::metric::{Kind, Metric, MetricKey};
use stored::Stored;

/// Values beyond this cannot come from a measurement, and their squares would
/// leave the range of `f64`.
pub const VALUE_LIMIT: f64 = 1e100;

/// Variants of one thing that are compared, and the metrics they share.
///
/// The first variant is the base unless a comparison names another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct ResultSet {
    axis: String,
    common: Vec<(String, String)>,
    metrics: Vec<Metric>,
    index: BTreeMap<MetricKey, usize>,
    variants: Vec<Variant>,
}

impl ResultSet {
    /// An empty set whose variants differ along `axis` (`commit`, `variant`,
    /// `feature`).
    #[must_use]
    pub fn new(axis: impl Into<String>) -> Self {
        Self {
            axis: axis.into(),
            common: Vec::new(),
            metrics: Vec::new(),
            index: BTreeMap::new(),
            variants: Vec::new(),
        }
    }

    /// Adds what all variants share: `testcase` = `hackbench`. Shown in the
    /// order of adding.
    ///
    /// # Errors
    /// [`SampleError::BadName`] for an empty key or line breaks,
    /// [`SampleError::Duplicate`] for a key that is there already.
    pub fn add_common(
        &mut self,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<(), SampleError> {
        let (key, value) = (key.into(), value.into());
        check_name("axis", &key)?;
        check_name("axis value", &value)?;
        if self.common.iter().any(|(known, _)| *known == key) {
            return Err(SampleError::Duplicate {
                what: "axis",
                name: key,
            });
        }
        self.common.push((key, value));
        Ok(())
    }

    /// Declares a metric. Declaring the same again is fine.
    ///
    /// # Errors
    /// [`SampleError::Conflict`] when the key is known with another unit,
    /// direction, role or kind.
    pub fn declare(&mut self, metric: Metric) -> Result<(), SampleError> {
        if let Some(known) = self.metric(metric.key.as_str()) {
            let what = if known.unit != metric.unit {
                "unit"
            } else if known.direction != metric.direction {
                "direction"
            } else if known.role != metric.role {
                "role"
            } else if known.kind != metric.kind {
                "kind"
            } else {
                return Ok(());
            };
            return Err(SampleError::Conflict {
                key: metric.key.into(),
                what,
            });
        }
        self.index.insert(metric.key.clone(), self.metrics.len());
        self.metrics.push(metric);
        Ok(())
    }

    /// Adds a variant, with whatever runs it brings.
    ///
    /// # Errors
    /// [`SampleError::BadName`], [`SampleError::Duplicate`], and for its runs as
    /// [`ResultSet::add_run`].
    pub fn add_variant(&mut self, variant: Variant) -> Result<(), SampleError> {
        check_name("variant", &variant.name)?;
        for text in [&variant.title, &variant.head].into_iter().flatten() {
            check_name("variant", text)?;
        }
        if self.variant(&variant.name).is_some() {
            return Err(SampleError::Duplicate {
                what: "variant",
                name: variant.name,
            });
        }
        let mut seen = BTreeSet::new();
        for run in &variant.runs {
            self.check_run(run)?;
            if !seen.insert(run.id.as_str()) {
                return Err(SampleError::Duplicate {
                    what: "run",
                    name: run.id.clone(),
                });
            }
        }
        self.variants.push(variant);
        Ok(())
    }

    /// Adds a run to a variant.
    ///
    /// # Errors
    /// [`SampleError::NoVariant`], [`SampleError::BadName`] and
    /// [`SampleError::Duplicate`] for its id, [`SampleError::NoMetric`] for an
    /// undeclared key, [`SampleError::BadValue`], and [`SampleError::BadCount`]
    /// for a failure count that is none.
    pub fn add_run(&mut self, variant: &str, run: Run) -> Result<(), SampleError> {
        self.check_run(&run)?;
        let known = || self.variants.iter().map(|v| v.name.clone()).collect();
        let Some(at) = self.variants.iter().position(|v| v.name == variant) else {
            return Err(SampleError::NoVariant {
                name: variant.to_owned(),
                known: known(),
            });
        };
        let runs = &mut self.variants[at].runs;
        if runs.iter().any(|other| other.id == run.id) {
            return Err(SampleError::Duplicate {
                what: "run",
                name: run.id,
            });
        }
        runs.push(run);
        Ok(())
    }

    fn check_run(&self, run: &Run) -> Result<(), SampleError> {
        check_name("run", &run.id)?;
        for (key, value) in &run.values {
            check_value(&run.id, key, *value)?;
            let Some(metric) = self.metric(key.as_str()) else {
                return Err(SampleError::NoMetric {
                    run: run.id.clone(),
                    key: key.as_str().to_owned(),
                });
            };
            let count = (0.0..=1e9).contains(value) && value.fract() == 0.0;
            if metric.kind == Kind::Failure && !count {
                let (run, key) = (run.id.clone(), key.as_str().to_owned());
                return Err(SampleError::BadCount {
                    run,
                    key,
                    value: *value,
                });
            }
        }
        Ok(())
    }

    /// What the variants differ in.
    #[must_use]
    pub fn axis(&self) -> &str {
        &self.axis
    }

    /// What they share, in the order of adding.
    #[must_use]
    pub fn common(&self) -> &[(String, String)] {
        &self.common
    }

    /// The metrics, in the order of declaring.
    #[must_use]
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// The metric of a key.
    #[must_use]
    pub fn metric(&self, key: &str) -> Option<&Metric> {
        self.index.get(key).and_then(|at| self.metrics.get(*at))
    }

    /// The variants, in the order of adding.
    #[must_use]
    pub fn variants(&self) -> &[Variant] {
        &self.variants
    }

    /// The variant of a name.
    #[must_use]
    pub fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == name)
    }

    /// The base first, then the others in their order: `base` by name, or the
    /// first variant. `None` when there is no such variant.
    #[must_use]
    pub fn against(&self, base: Option<&str>) -> Option<(&Variant, Vec<&Variant>)> {
        let base = match base {
            Some(name) => self.variant(name)?,
            None => self.variants.first()?,
        };
        Some((
            base,
            self.variants
                .iter()
                .filter(|variant| variant.name != base.name)
                .collect(),
        ))
    }

    /// The stored form: indented JSON that ends in a line break.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Strings, maps with string keys and finite numbers: nothing can fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`SampleError::Json`] with line and column for text that is no stored
    /// result, or holds what the adding functions refuse.
    pub fn from_json(text: &str) -> Result<Self, SampleError> {
        serde_json::from_str(text).map_err(|error| SampleError::Json(error.to_string()))
    }
}

fn check_name(what: &'static str, name: &str) -> Result<(), SampleError> {
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        return Err(SampleError::BadName {
            what,
            name: name.to_owned(),
        });
    }
    Ok(())
}

fn check_value(run: &str, key: &MetricKey, value: f64) -> Result<(), SampleError> {
    // Written so that NaN fails too.
    if value.abs() <= VALUE_LIMIT {
        return Ok(());
    }
    Err(SampleError::BadValue {
        run: run.to_owned(),
        key: key.as_str().to_owned(),
        value,
    })
}
