//! What a number is a measurement of.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::results::SampleError;

/// The name of a metric: `program.metric`, as LKP writes it.
///
/// The program is what stands before the first dot; neither side is empty
/// (`cpuidle..time` is the program `cpuidle` and the metric `.time`). There is
/// no white space and no control character in it, so that a key is always one
/// word at the end of a table row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MetricKey(String);

impl MetricKey {
    /// Checks and wraps a key.
    ///
    /// # Errors
    /// [`SampleError::BadKey`] when the text has no dot with something on both
    /// sides, or holds white space or a control character.
    pub fn new(key: impl Into<String>) -> Result<Self, SampleError> {
        let key = key.into();
        let two_parts = key
            .split_once('.')
            .is_some_and(|(program, metric)| !program.is_empty() && !metric.is_empty());
        if !two_parts || key.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(SampleError::BadKey { key });
        }
        Ok(Self(key))
    }

    /// The whole key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before the first dot.
    #[must_use]
    pub fn program(&self) -> &str {
        self.0.split_once('.').map_or("", |(program, _)| program)
    }

    /// Whether the metric is itself a percentage or share, so that LKP prints
    /// its change as an absolute difference: keys that start with
    /// `perf-profile` or end in `%` (LKP `lib/compare.rb`).
    #[must_use]
    pub fn is_share(&self) -> bool {
        is_share(&self.0)
    }
}

/// [`MetricKey::is_share`] for a bare name.
pub(crate) fn is_share(key: &str) -> bool {
    key.starts_with("perf-profile") || key.ends_with('%')
}

impl fmt::Display for MetricKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for MetricKey {
    type Error = SampleError;

    fn try_from(key: String) -> Result<Self, SampleError> {
        Self::new(key)
    }
}

impl From<MetricKey> for String {
    fn from(key: MetricKey) -> Self {
        key.0
    }
}

impl std::borrow::Borrow<str> for MetricKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Which way a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// More is better: throughput.
    BetterHigh,
    /// Less is better: time, latency.
    BetterLow,
    /// Nobody says; no change of it is ever called better or worse.
    #[default]
    Unknown,
}

/// How much a metric counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What the benchmark is run for. The program of a primary metric counts as
    /// the test program in the LKP listing filter.
    Primary,
    /// Whatever else was observed.
    #[default]
    Side,
}

/// What the number of one run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A measured value, averaged over runs.
    #[default]
    Value,
    /// How often something failed in the run (0 or 1 as a rule), summed over
    /// runs and printed as `fail:runs`.
    Failure,
}

/// A metric and what is known about it.
///
/// Two results agree on a metric only when all of this is the same; a unit that
/// differs makes it another thing, which is never compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Its name.
    pub key: MetricKey,
    /// The unit of its values as text, empty when it is a bare number.
    #[serde(default)]
    pub unit: String,
    /// Which way is better.
    #[serde(default)]
    pub direction: Direction,
    /// Headline or side figure.
    #[serde(default)]
    pub role: Role,
    /// Measured value or failure count.
    #[serde(default)]
    pub kind: Kind,
}

impl Metric {
    /// A side metric without unit and of unknown direction.
    ///
    /// # Errors
    /// As [`MetricKey::new`].
    pub fn new(key: impl Into<String>) -> Result<Self, SampleError> {
        Ok(Self {
            key: MetricKey::new(key)?,
            unit: String::new(),
            direction: Direction::Unknown,
            role: Role::Side,
            kind: Kind::Value,
        })
    }

    /// Sets the unit.
    #[must_use]
    pub fn with_unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }

    /// Sets the direction.
    #[must_use]
    pub fn with_direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }

    /// Makes it a headline metric.
    #[must_use]
    pub fn primary(mut self) -> Self {
        self.role = Role::Primary;
        self
    }

    /// Makes it a failure count.
    #[must_use]
    pub fn failure(mut self) -> Self {
        self.kind = Kind::Failure;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_program_and_a_metric_and_is_one_word() {
        for good in [
            "hackbench.throughput",
            "cpuidle..time",
            "sched_debug.cfs_rq:/.load.avg",
            "mpstat.cpu.all.usr%",
        ] {
            assert_eq!(MetricKey::new(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "throughput",
            ".throughput",
            "hackbench.",
            "a b.c",
            "a.b\tc",
            "a.b\n",
            "a.\u{7}",
        ] {
            let error = MetricKey::new(bad).unwrap_err();
            assert!(
                matches!(&error, SampleError::BadKey { key } if key == bad),
                "{bad:?}: {error}"
            );
        }
        assert_eq!(
            MetricKey::new("cpuidle..time").unwrap().program(),
            "cpuidle"
        );
    }

    #[test]
    fn shares_are_the_keys_lkp_subtracts() {
        let share = |key: &str| MetricKey::new(key).unwrap().is_share();
        assert!(share("perf-profile.children.cycles-pp.read"));
        assert!(share("mpstat.cpu.all.usr%"));
        assert!(!share("perf-stat.i.ipc"));
        assert!(!share("turbostat.Busy%.max"));
    }
}
