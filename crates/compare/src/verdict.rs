//! What may be concluded about one metric.
//!
//! The rule is simple on purpose and stands alone here, so that a better one
//! replaces this module and nothing else:
//!
//! 1. Fewer than two values on a side: `cannot tell`.
//! 2. The interval of the difference excludes zero: `better` or `worse` by the
//!    metric's direction; when the direction is unknown, `cannot tell`.
//! 3. The whole interval lies within ±x % of the base's mean: `same`.
//! 4. Otherwise `cannot tell`: the runs neither show a change nor rule one out.
//!
//! Each metric is judged alone. With many metrics some will be called changed by
//! chance (at 95 % about one in twenty that did not change); nothing here
//! corrects for that yet.

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
    /// A change beyond the margin is ruled out.
    Same,
    /// Neither.
    #[serde(rename = "cannot tell")]
    CannotTell,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
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
            Self::DirectionUnknown => "it changed, but which way is better is not known",
            Self::IntervalWithinMargin => "the interval of the difference lies within the margin",
            Self::IntervalTooWide => {
                "the interval of the difference holds zero and more than the margin"
            }
        })
    }
}

/// Applies the rule above.
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
            (Direction::Unknown, _) => (Verdict::CannotTell, Because::DirectionUnknown),
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
        assert_eq!(judged(Unknown, -3.0, -2.0), (CannotTell, DirectionUnknown));
        // Established though small: said, not folded into "same".
        assert_eq!(judged(BetterHigh, 0.1, 0.2), (Better, IntervalExcludesZero));
        assert_eq!(judged(Unknown, -1.0, 1.0), (Same, IntervalWithinMargin));
        assert_eq!(judged(BetterHigh, -0.5, 1.5), (CannotTell, IntervalTooWide));
        // An end at zero does not exclude it.
        assert_eq!(judged(BetterHigh, 0.0, 2.0), (CannotTell, IntervalTooWide));
    }
}
