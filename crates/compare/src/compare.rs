//! Every metric of every variant against the base.

use serde::Serialize;
use thiserror::Error;

use crate::evidence::{self, Modes, RankTest};
use crate::metric::{Metric, Role};
use crate::results::{ResultSet, Variant};
use crate::samples::{Samples, Summary};
use crate::verdict::{Because, Verdict, is_setting, judge, zero_on_one_side};
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
    /// How intervals are made.
    pub interval: IntervalKind,
}

/// How intervals are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntervalKind {
    /// [`welch`].
    Welch,
    /// [`evidence::bootstrap`], with the seed of its draws.
    Bootstrap {
        /// The seed.
        seed: u64,
    },
}

impl Default for CompareOptions {
    /// The first variant as base, 95 %, same within ±1 %.
    fn default() -> Self {
        Self {
            base: None,
            confidence: Confidence::P95,
            same_within_percent: 1.0,
            interval: IntervalKind::Welch,
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
    /// Two-sided p of Welch's test.
    pub p: Option<f64>,
    /// The same after Benjamini and Hochberg, over all primary metrics of the
    /// variant, or over all its side metrics.
    pub p_adjusted: Option<f64>,
    /// The rank test.
    pub ranks: Option<RankTest>,
    /// Hedges' g.
    pub effect: Option<f64>,
    /// The smallest true difference that as many runs would establish in four of
    /// five cases, in percent of the base's mean.
    pub detectable_percent: Option<f64>,
    /// For `cannot tell`: how many runs a side would tell in four of five cases, if
    /// the true difference is the observed one, or the margin where that is more.
    pub runs_needed: Option<usize>,
    /// What looks odd about the runs.
    pub oddities: Vec<Oddity>,
    /// The outcome.
    pub verdict: Verdict,
    /// Why.
    pub because: Because,
}

/// What looks odd about the runs of one side. It is said and changes no verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Oddity {
    /// Runs far from the others: positions in run order, from 0.
    Outliers {
        /// The variant.
        variant: String,
        /// Which runs, among those with a value.
        runs: Vec<usize>,
    },
    /// The values go up or down over the order of the runs.
    Drift {
        /// The variant.
        variant: String,
        /// Two-sided p of the trend.
        p: f64,
    },
    /// The runs fall into two groups.
    TwoModes {
        /// The variant.
        variant: String,
        /// The groups.
        #[serde(flatten)]
        modes: Modes,
    },
}

impl std::fmt::Display for Oddity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Outliers { variant, runs } => {
                let runs: Vec<String> = runs.iter().map(|at| (at + 1).to_string()).collect();
                write!(
                    f,
                    "{variant}: run {} lies far from the others",
                    runs.join(", ")
                )
            }
            Self::Drift { variant, p } => {
                write!(f, "{variant}: drifts over the order of the runs (p {p:.4})")
            }
            Self::TwoModes { variant, modes } => write!(
                f,
                "{variant}: two modes, {} runs around {:.6} and {} around {:.6}",
                modes.low_runs, modes.low, modes.high_runs, modes.high
            ),
        }
    }
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
    let rows: Vec<MetricComparison> = set
        .metrics()
        .iter()
        .map(|metric| {
            let base_samples = base.samples(metric.key.as_str());
            let base_summary = base_samples.summary();
            let others = others
                .iter()
                .map(|other| difference(metric, base, &base_samples, &base_summary, other, options))
                .collect();
            MetricComparison {
                metric: metric.clone(),
                base: base_summary,
                base_values: values(base, metric),
                others,
            }
        })
        .collect();
    let rows = corrected(rows, options.confidence);
    Ok(Comparison {
        schema: SCHEMA,
        axis: set.axis().to_owned(),
        common: set.common().to_vec(),
        base: base.name().to_owned(),
        confidence: options.confidence,
        interval: match options.interval {
            IntervalKind::Welch => "welch",
            IntervalKind::Bootstrap { .. } => "bootstrap",
        },
        same_within_percent: options.same_within_percent,
        rows,
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
    base_variant: &Variant,
    base: &Samples,
    base_summary: &Summary,
    other: &Variant,
    options: &CompareOptions,
) -> Difference {
    let samples = other.samples(metric.key.as_str());
    let summary = samples.summary();
    let (before, after) = (base.values(), samples.values());
    let by_welch = welch(before, after, options.confidence);
    let interval = match options.interval {
        IntervalKind::Welch => by_welch,
        IntervalKind::Bootstrap { seed } => {
            evidence::bootstrap(before, after, options.confidence, seed)
        }
    };
    let scale = base_summary.mean.map_or(0.0, f64::abs);
    let percent = |value: f64| Some(100.0 * value / scale).filter(|value| value.is_finite());
    let change = base_summary
        .mean
        .zip(summary.mean)
        .map(|(base, other)| other - base);
    let margin = scale * options.same_within_percent / 100.0;
    let ranks = evidence::mann_whitney(before, after);
    let alpha = 1.0 - options.confidence.level();
    let (verdict, because) = if is_setting(metric.key.as_str()) {
        (Verdict::Setting, Because::NoMetric)
    } else if let Some(verdict) = zero_on_one_side(before, after) {
        (verdict, Because::ZeroOnOneSide)
    } else {
        match judge(metric.direction, interval.as_ref(), margin) {
            (verdict, _)
                if verdict.is_change()
                    && ranks.is_some_and(|r| r.least_p <= alpha && r.p > alpha) =>
            {
                (Verdict::CannotTell, Because::RanksDisagree)
            }
            told => told,
        }
    };
    let mut oddities = odd(base_variant.name(), before);
    oddities.extend(odd(other.name(), after));
    Difference {
        variant: other.name().to_owned(),
        summary,
        values: values(other, metric),
        change,
        change_percent: change.and_then(percent),
        interval_percent: interval
            .and_then(|interval| Some([percent(interval.low)?, percent(interval.high)?])),
        interval,
        p: by_welch.as_ref().and_then(evidence::welch_p),
        p_adjusted: None,
        ranks,
        effect: evidence::hedges_g(before, after),
        detectable_percent: by_welch
            .as_ref()
            .and_then(|interval| evidence::detectable(interval, options.confidence))
            .and_then(percent),
        runs_needed: evidence::runs_needed(
            before,
            after,
            margin.max(change.map_or(0.0, f64::abs)),
            options.confidence,
        ),
        oddities,
        verdict,
        because,
    }
}

fn values(variant: &Variant, metric: &Metric) -> Vec<Option<f64>> {
    let key = metric.key.as_str();
    variant.runs().iter().map(|run| run.value(key)).collect()
}

/// Corrects for many metrics, primary and side metrics of each variant apart, and
/// takes back what does not stand it.
fn corrected(mut rows: Vec<MetricComparison>, confidence: Confidence) -> Vec<MetricComparison> {
    let variants = rows.first().map_or(0, |row| row.others.len());
    for variant in 0..variants {
        for role in [Role::Primary, Role::Side] {
            let family: Vec<(usize, f64)> = rows
                .iter()
                .enumerate()
                .filter(|(_, row)| row.metric.role == role)
                .filter(|(_, row)| row.others[variant].verdict != Verdict::Setting)
                .filter_map(|(at, row)| Some((at, row.others[variant].p?)))
                .collect();
            let p: Vec<f64> = family.iter().map(|(_, p)| *p).collect();
            let adjusted = evidence::benjamini_hochberg(&p);
            for ((at, _), adjusted) in family.into_iter().zip(adjusted) {
                let other = &mut rows[at].others[variant];
                other.p_adjusted = Some(adjusted);
                let tested = matches!(
                    other.verdict,
                    Verdict::Better | Verdict::Worse | Verdict::Changed
                );
                // A hair of room: the level is itself a difference of two rounded numbers.
                if tested && adjusted > (1.0 - confidence.level()) * (1.0 + 1e-9) {
                    other.verdict = Verdict::CannotTell;
                    other.because = Because::ManyMetrics;
                }
            }
        }
        for row in &mut rows {
            let other = &mut row.others[variant];
            if other.verdict != Verdict::CannotTell {
                other.runs_needed = None;
            }
        }
    }
    rows
}

fn odd(variant: &str, values: &[f64]) -> Vec<Oddity> {
    let variant = || variant.to_owned();
    let mut found = Vec::new();
    let runs = evidence::outliers(values);
    if !runs.is_empty() {
        found.push(Oddity::Outliers {
            variant: variant(),
            runs,
        });
    }
    if let Some(p) = evidence::drift(values).filter(|p| *p < evidence::DRIFT_LEVEL) {
        found.push(Oddity::Drift {
            variant: variant(),
            p,
        });
    }
    if let Some(modes) = evidence::modes(values) {
        found.push(Oddity::TwoModes {
            variant: variant(),
            modes,
        });
    }
    found
}
