//! Every metric of every variant against the base.

use serde::Serialize;
use thiserror::Error;

use crate::metric::Metric;
use crate::results::{ResultSet, Variant};
use crate::samples::{Samples, Summary};
use crate::verdict::{Because, Verdict, judge};
use crate::welch::{Confidence, Interval, welch};

/// The name and version of the JSON form.
const SCHEMA: &str = "schedlab.comparison/1";

/// Why results cannot be compared.
#[derive(Debug, Error, Clone, PartialEq)]
#[non_exhaustive]
pub enum CompareError {
    /// A base that is not there.
    #[error("no variant `{name}` to compare with: expected one of {}", known.join(", "))]
    NoBase {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// Nothing to compare with.
    #[error("{found} variant(s) in the results: expected two or more to compare")]
    TooFewVariants {
        /// How many there are.
        found: usize,
    },
    /// A margin that is none.
    #[error("margin {0} %: expected a number from 0 to 100")]
    BadMargin(f64),
}

/// How to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareOptions {
    /// The variant all others are held against; the first when absent.
    pub base: Option<String>,
    /// Level of the intervals.
    pub confidence: Confidence,
    /// Half-width of "same", in percent of the base's mean, 0 to 100.
    pub same_within_percent: f64,
}

impl Default for CompareOptions {
    /// The first variant as base, 95 %, same within ±1 %.
    fn default() -> Self {
        Self {
            base: None,
            confidence: Confidence::P95,
            same_within_percent: 1.0,
        }
    }
}

/// A finished comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Name and version of this form.
    pub schema: &'static str,
    /// What the variants differ in.
    pub axis: String,
    /// What they share.
    pub common: Vec<(String, String)>,
    /// The base's name.
    pub base: String,
    /// Level of the intervals, a fraction of 1.
    pub confidence: Confidence,
    /// How the intervals were made.
    pub interval: &'static str,
    /// Half-width of "same", in percent of the base's mean.
    pub same_within_percent: f64,
    /// One entry a metric, in the order of declaring.
    pub rows: Vec<MetricComparison>,
}

/// One metric over all variants.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricComparison {
    /// The metric.
    #[serde(flatten)]
    pub metric: Metric,
    /// The base's numbers.
    pub base: Summary,
    /// The base's runs one by one, in run order; null for a run without a value.
    pub base_values: Vec<Option<f64>>,
    /// The others, in their order.
    pub others: Vec<Difference>,
}

/// One metric of one variant against the base.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The variant's name.
    pub variant: String,
    /// Its numbers.
    #[serde(flatten)]
    pub summary: Summary,
    /// Its runs one by one, in run order; null for a run without a value.
    pub values: Vec<Option<f64>>,
    /// Difference of the means, in the metric's unit; absent when a side has no
    /// value.
    pub change: Option<f64>,
    /// The same in percent of the magnitude of the base's mean; absent when that
    /// is zero.
    pub change_percent: Option<f64>,
    /// Interval of the difference of the means.
    pub interval: Option<Interval>,
    /// Its ends in percent of the magnitude of the base's mean, which is taken
    /// as known: the base's own error is in the width, not in the divisor.
    pub interval_percent: Option<[f64; 2]>,
    /// The outcome.
    pub verdict: Verdict,
    /// Why.
    pub because: Because,
}

impl Comparison {
    /// Indented JSON that ends in a line break.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Strings and finite numbers: nothing can fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// Compares every metric of every variant with the base.
///
/// # Errors
/// [`CompareError`] for a base that is not there, fewer than two variants, or a
/// margin outside its range.
pub fn compare(set: &ResultSet, options: &CompareOptions) -> Result<Comparison, CompareError> {
    if !(0.0..=100.0).contains(&options.same_within_percent) {
        return Err(CompareError::BadMargin(options.same_within_percent));
    }
    let (base, others) = base_and_others(set, options.base.as_deref())?;
    let rows = set.metrics().iter().map(|metric| {
        let base_samples = base.samples(metric.key.as_str());
        let base_summary = base_samples.summary();
        let others = others
            .iter()
            .map(|other| difference(metric, &base_samples, &base_summary, other, options))
            .collect();
        MetricComparison {
            metric: metric.clone(),
            base: base_summary,
            base_values: values(base, metric),
            others,
        }
    });
    Ok(Comparison {
        schema: SCHEMA,
        axis: set.axis().to_owned(),
        common: set.common().to_vec(),
        base: base.name().to_owned(),
        confidence: options.confidence,
        interval: "welch",
        same_within_percent: options.same_within_percent,
        rows: rows.collect(),
    })
}

/// The base and what is held against it, for every table.
pub(crate) fn base_and_others<'a>(
    set: &'a ResultSet,
    base: Option<&str>,
) -> Result<(&'a Variant, Vec<&'a Variant>), CompareError> {
    let found = set.variants().len();
    match (set.against(base), base) {
        (Some((base, others)), _) if !others.is_empty() => Ok((base, others)),
        (None, Some(name)) if found > 0 => {
            let known = set
                .variants()
                .iter()
                .map(|variant| variant.name().to_owned())
                .collect();
            Err(CompareError::NoBase {
                name: name.to_owned(),
                known,
            })
        }
        _ => Err(CompareError::TooFewVariants { found }),
    }
}

fn difference(
    metric: &Metric,
    base: &Samples,
    base_summary: &Summary,
    other: &Variant,
    options: &CompareOptions,
) -> Difference {
    let samples = other.samples(metric.key.as_str());
    let summary = samples.summary();
    let interval = welch(base.values(), samples.values(), options.confidence);
    let scale = base_summary.mean.map_or(0.0, f64::abs);
    let percent = |value: f64| Some(100.0 * value / scale).filter(|value| value.is_finite());
    let change = base_summary
        .mean
        .zip(summary.mean)
        .map(|(base, other)| other - base);
    let margin = scale * options.same_within_percent / 100.0;
    let (verdict, because) = judge(metric.direction, interval.as_ref(), margin);
    Difference {
        variant: other.name().to_owned(),
        summary,
        values: values(other, metric),
        change,
        change_percent: change.and_then(percent),
        interval_percent: interval
            .and_then(|interval| Some([percent(interval.low)?, percent(interval.high)?])),
        interval,
        verdict,
        because,
    }
}

fn values(variant: &Variant, metric: &Metric) -> Vec<Option<f64>> {
    let key = metric.key.as_str();
    variant.runs().iter().map(|run| run.value(key)).collect()
}
