//! The numbers of one metric in one variant.

use serde::Serialize;

use crate::stats;

/// The values of one metric over the runs of one variant, in run order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Samples {
    values: Vec<f64>,
    missing: usize,
}

impl Samples {
    /// One entry a run; `None` for a run that did not yield the metric.
    #[must_use]
    pub fn new(runs: impl IntoIterator<Item = Option<f64>>) -> Self {
        let mut samples = Self::default();
        for run in runs {
            match run {
                Some(value) => samples.values.push(value),
                None => samples.missing += 1,
            }
        }
        samples
    }

    /// The values there are.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// How many runs did not yield the metric.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// How many runs there were, with or without a value.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.values.len() + self.missing
    }

    /// The values as LKP sees them: a run without the metric counts as 0.
    #[must_use]
    pub fn zero_filled(&self) -> Vec<f64> {
        let mut values = self.values.clone();
        values.resize(self.runs(), 0.0);
        values
    }

    /// What describes the values there are.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let values = self.values();
        Summary {
            n: values.len(),
            missing: self.missing,
            mean: stats::mean(values),
            stddev: stats::stddev_sample(values),
            cv_percent: stats::cv_percent(values),
            median: stats::median(values),
            min: stats::min(values),
            max: stats::max(values),
        }
    }
}

/// One metric of one variant in numbers; what cannot be computed is absent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// Runs with a value.
    pub n: usize,
    /// Runs without one.
    pub missing: usize,
    /// Arithmetic mean, in the metric's unit.
    pub mean: Option<f64>,
    /// Sample standard deviation (divisor n - 1), in the metric's unit.
    pub stddev: Option<f64>,
    /// Sample standard deviation in percent of the mean's magnitude.
    pub cv_percent: Option<f64>,
    /// Median, in the metric's unit.
    pub median: Option<f64>,
    /// Smallest value.
    pub min: Option<f64>,
    /// Largest value.
    pub max: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_runs_are_counted_and_are_zeros_for_lkp_alone() {
        let samples = Samples::new([Some(4.0), None, Some(8.0)]);
        assert_eq!(samples.runs(), 3);
        assert_eq!(samples.summary().mean, Some(6.0));
        assert_eq!(samples.summary().missing, 1);
        assert_eq!(samples.zero_filled(), [4.0, 8.0, 0.0]);
    }

    #[test]
    fn nothing_to_describe_is_absent_not_zero() {
        let summary = Samples::default().summary();
        assert_eq!(
            (summary.n, summary.mean, summary.stddev, summary.median),
            (0, None, None, None)
        );
        let one = Samples::new([Some(0.0)]).summary();
        assert_eq!(
            (one.mean, one.stddev, one.cv_percent),
            (Some(0.0), None, None)
        );
    }
}
