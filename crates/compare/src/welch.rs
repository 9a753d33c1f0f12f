//! The interval of a difference between two means.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use thiserror::Error;

use crate::stats;

/// A confidence level that is none.
#[derive(Debug, Error, Clone, Copy, PartialEq)]
#[error("confidence {0}: expected a number above 0.5 and at most 0.9999, such as 0.95")]
pub struct BadConfidence(pub f64);

/// A confidence level, above 0.5 and at most 0.9999.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Confidence(f64);

impl Confidence {
    /// 95 %.
    pub const P95: Self = Self(0.95);

    /// Checks and wraps a level.
    ///
    /// # Errors
    /// [`BadConfidence`] outside the range (NaN included).
    pub fn new(level: f64) -> Result<Self, BadConfidence> {
        if level > 0.5 && level <= 0.9999 {
            Ok(Self(level))
        } else {
            Err(BadConfidence(level))
        }
    }

    /// The level as a fraction of 1.
    #[must_use]
    pub fn level(self) -> f64 {
        self.0
    }
}

/// A difference of means, other - base, with its interval; all in the metric's
/// unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Difference of the means.
    pub difference: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Standard error of the difference.
    pub standard_error: f64,
    /// Degrees of freedom; absent when neither side varies at all, where the
    /// interval has no width and only says that every run gave the same number.
    pub degrees: Option<f64>,
}

impl Interval {
    /// Whether zero lies outside: a difference is established at the level.
    #[must_use]
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// Whether the whole interval lies within ±`margin` (in the metric's unit).
    #[must_use]
    pub fn within(&self, margin: f64) -> bool {
        self.low >= -margin && self.high <= margin
    }
}

/// Welch's interval for the difference of two means, other - base.
///
/// d ± t·SE with SE² = s₁²/n₁ + s₂²/n₂ and t the (1 + level)/2 quantile of
/// Student's distribution with
/// ν = (s₁²/n₁ + s₂²/n₂)² / ((s₁²/n₁)²/(n₁-1) + (s₂²/n₂)²/(n₂-1))
/// (B. L. Welch, Biometrika 34, 1947; the ν of F. E. Satterthwaite, Biometrics
/// Bulletin 2, 1946). It assumes independent runs and means that are near
/// normal; it does not assume equal spread.
///
/// `None` for fewer than two samples on a side.
#[must_use]
pub fn welch(base: &[f64], other: &[f64], confidence: Confidence) -> Option<Interval> {
    let side = |values: &[f64]| {
        Some(Moments {
            mean: stats::mean(values)?,
            variance: stats::variance_sample(values)?,
            runs: values.len(),
        })
    };
    welch_of_moments(side(base)?, side(other)?, confidence)
}

/// What a table prints of one side: enough for Welch's interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// Mean, in the metric's unit.
    pub mean: f64,
    /// Sample variance (divisor n - 1), in the unit's square.
    pub variance: f64,
    /// Runs.
    pub runs: usize,
}

/// [`welch`] of a printed mean and spread, where the runs themselves are not at
/// hand. `None` for fewer than two runs on a side.
#[must_use]
pub fn welch_of_moments(base: Moments, other: Moments, confidence: Confidence) -> Option<Interval> {
    if base.runs < 2 || other.runs < 2 {
        return None;
    }
    let base_part = base.variance / base.runs as f64;
    let other_part = other.variance / other.runs as f64;
    let difference = other.mean - base.mean;
    let standard_error = (base_part + other_part).sqrt();
    if standard_error == 0.0 {
        return Some(Interval {
            difference,
            low: difference,
            high: difference,
            standard_error,
            degrees: None,
        });
    }
    // By the shares of the variance rather than its square, which could leave
    // the range of f64.
    let share = base_part / (base_part + other_part);
    let rest = 1.0 - share;
    let degrees =
        1.0 / (share * share / (base.runs - 1) as f64 + rest * rest / (other.runs - 1) as f64);
    let half = t_quantile(f64::midpoint(1.0, confidence.level()), degrees)? * standard_error;
    Some(Interval {
        difference,
        low: difference - half,
        high: difference + half,
        standard_error,
        degrees: Some(degrees),
    })
}

/// From here on the quantile is expanded around the normal one: the inverse of
/// the beta function loses digits (six are left at 10^5), the expansion gains.
const MANY_DEGREES: f64 = 1000.0;

/// The `p`-quantile of Student's distribution with `degrees` degrees of freedom
/// (above 0). `None` for arguments that have none.
#[must_use]
pub fn t_quantile(p: f64, degrees: f64) -> Option<f64> {
    if !(p > 0.0 && p < 1.0) {
        return None;
    }
    let quantile = if degrees > MANY_DEGREES {
        expansion(Normal::new(0.0, 1.0).ok()?.inverse_cdf(p), degrees)
    } else {
        StudentsT::new(0.0, 1.0, degrees).ok()?.inverse_cdf(p)
    };
    quantile.is_finite().then_some(quantile)
}

/// Student's quantile from the normal one: M. Abramowitz and I. A. Stegun,
/// Handbook of Mathematical Functions, 26.7.5, to the third term.
fn expansion(z: f64, degrees: f64) -> f64 {
    let square = z * z;
    let first = z * (square + 1.0) / 4.0;
    let second = z * ((5.0 * square + 16.0) * square + 3.0) / 96.0;
    let third = z * (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0;
    z + (first + (second + third / degrees) / degrees) / degrees
}
