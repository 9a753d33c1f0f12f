//! What may be concluded about one metric.
//!
//! In this order, the first that applies (`docs/statistics.md` says why):
//!
//! 1. A setting of the kernel (a feature mask, a sysctl): `setting`, no metric.
//! 2. Every run of the base is 0 and none of the variant's is, or the other way
//!    round: `appeared`, `disappeared`.
//! 3. Fewer than two values on a side: `cannot tell`.
//! 4. The interval of the difference excludes zero and two more tests agree:
//!    `better` or `worse` by the metric's direction, `changed` when that is
//!    unknown. The tests are the p-value corrected for many metrics, and ranks,
//!    where the runs are enough for these to decide.
//! 5. The whole interval lies within ±x % of the base's mean: `same`.
//! 6. Otherwise `cannot tell`: the runs neither show a change nor rule one out.

use std::fmt;

use serde::Serialize;

use crate::metric::Direction;
use crate::welch::Interval;

/// The outcome for one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The change is established and goes the good way.
    Better,
    /// The change is established and goes the bad way.
    Worse,
    /// The change is established, and nobody says which way is good.
    Changed,
    /// Always 0 before, never 0 now.
    Appeared,
    /// Never 0 before, always 0 now.
    Disappeared,
    /// A change beyond the margin is ruled out.
    Same,
    /// A setting of the kernel, which is no metric.
    Setting,
    /// Neither.
    #[serde(rename = "cannot tell")]
    CannotTell,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Changed => "changed",
            Self::Appeared => "appeared",
            Self::Disappeared => "disappeared",
            Self::Same => "same",
            Self::Setting => "setting",
            Self::CannotTell => "cannot tell",
        })
    }
}

/// Why a verdict is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Because {
    /// Fewer than two values on a side.
    TooFewRuns,
    /// The interval excludes zero.
    IntervalExcludesZero,
    /// The interval excludes zero, but nobody says which way is good.
    DirectionUnknown,
    /// The interval excludes zero, but among so many metrics one like it is to be
    /// expected by chance.
    ManyMetrics,
    /// The interval excludes zero, but the ranks of the runs do not bear it out.
    RanksDisagree,
    /// All zero on one side, never on the other.
    ZeroOnOneSide,
    /// The key names a setting.
    NoMetric,
    /// The interval lies within the margin.
    IntervalWithinMargin,
    /// The interval holds zero and reaches beyond the margin.
    IntervalTooWide,
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::TooFewRuns => "fewer than two runs on a side",
            Self::IntervalExcludesZero => "the interval of the difference excludes zero",
            Self::DirectionUnknown => "it changed; which way is better is not known",
            Self::ManyMetrics => {
                "among so many metrics a difference like it is to be expected by chance"
            }
            Self::RanksDisagree => "the ranks of the runs do not bear the difference out",
            Self::ZeroOnOneSide => "zero in every run of one side, in none of the other",
            Self::NoMetric => "a setting, not a measurement",
            Self::IntervalWithinMargin => "the interval of the difference lies within the margin",
            Self::IntervalTooWide => {
                "the interval of the difference holds zero and more than the margin"
            }
        })
    }
}

impl Verdict {
    /// Whether a change is established.
    #[must_use]
    pub fn is_change(self) -> bool {
        matches!(
            self,
            Self::Better | Self::Worse | Self::Changed | Self::Appeared | Self::Disappeared
        )
    }
}

/// Whether a key names a setting of the kernel, such as the mask of scheduler
/// features that LKP reports among its figures.
#[must_use]
pub fn is_setting(key: &str) -> bool {
    key.contains(".sysctl_sched.")
        || key.ends_with("sysctl_sched_features")
        || key.ends_with("sched_features")
}

/// Whether one side is all zero and the other never: `appeared` or `disappeared`.
/// Two runs a side are needed.
#[must_use]
pub fn zero_on_one_side(base: &[f64], other: &[f64]) -> Option<Verdict> {
    let zeros = |values: &[f64]| values.iter().filter(|x| **x == 0.0).count();
    if base.len() < 2 || other.len() < 2 {
        return None;
    }
    match (zeros(base), zeros(other)) {
        (b, 0) if b == base.len() => Some(Verdict::Appeared),
        (0, o) if o == other.len() => Some(Verdict::Disappeared),
        _ => None,
    }
}

/// Applies rules 3 to 6, without the two more tests of rule 4.
///
/// `margin` is in the metric's unit and not negative.
#[must_use]
pub fn judge(direction: Direction, interval: Option<&Interval>, margin: f64) -> (Verdict, Because) {
    let Some(interval) = interval else {
        return (Verdict::CannotTell, Because::TooFewRuns);
    };
    if interval.excludes_zero() {
        let up = interval.difference > 0.0;
        return match (direction, up) {
            (Direction::BetterHigh, true) | (Direction::BetterLow, false) => {
                (Verdict::Better, Because::IntervalExcludesZero)
            }
            (Direction::BetterHigh, false) | (Direction::BetterLow, true) => {
                (Verdict::Worse, Because::IntervalExcludesZero)
            }
            (Direction::Unknown, _) => (Verdict::Changed, Because::DirectionUnknown),
        };
    }
    if interval.within(margin) {
        (Verdict::Same, Because::IntervalWithinMargin)
    } else {
        (Verdict::CannotTell, Because::IntervalTooWide)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, high: f64) -> Interval {
        let difference = f64::midpoint(low, high);
        Interval {
            difference,
            low,
            high,
            standard_error: 1.0,
            degrees: Some(4.0),
        }
    }

    #[test]
    fn every_branch_of_the_rule() {
        use Because::*;
        use Direction::*;
        use Verdict::*;
        let judged = |direction, low, high| judge(direction, Some(&interval(low, high)), 1.0);
        assert_eq!(judge(BetterHigh, None, 1.0), (CannotTell, TooFewRuns));
        assert_eq!(judged(BetterHigh, 2.0, 3.0), (Better, IntervalExcludesZero));
        assert_eq!(
            judged(BetterHigh, -3.0, -2.0),
            (Worse, IntervalExcludesZero)
        );
        assert_eq!(judged(BetterLow, 2.0, 3.0), (Worse, IntervalExcludesZero));
        assert_eq!(
            judged(BetterLow, -3.0, -2.0),
            (Better, IntervalExcludesZero)
        );
        assert_eq!(judged(Unknown, -3.0, -2.0), (Changed, DirectionUnknown));
        // Established though small: said, not folded into "same".
        assert_eq!(judged(BetterHigh, 0.1, 0.2), (Better, IntervalExcludesZero));
        assert_eq!(judged(Unknown, -1.0, 1.0), (Same, IntervalWithinMargin));
        assert_eq!(judged(BetterHigh, -0.5, 1.5), (CannotTell, IntervalTooWide));
        // An end at zero does not exclude it.
        assert_eq!(judged(BetterHigh, 0.0, 2.0), (CannotTell, IntervalTooWide));
    }
}
