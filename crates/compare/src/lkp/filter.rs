//! Which keys the LKP table lists.
//!
//! The rule of `StatCompare` and `ChangedStat` in lkp-tests: enough runs, ranges
//! that do not overlap beyond the medians, and a ratio and size that are worth a
//! row. A key is listed when it passes for one of the variants. Left out here:
//! the tool's list of monitors that are hidden unless asked for, which its own
//! reports do not apply, and its rule for latency keys, which its public code
//! never reaches.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::LkpOptions;
use super::threshold::{is_watched, worth_a_row};
use crate::metric::{Kind, Metric, Role};
use crate::results::{ResultSet, Variant};
use crate::stats::sorted;

/// Below this many runs on both sides nothing is listed.
const MIN_RUNS: usize = 3;
/// A ratio of medians that is not above this is no change: times have a
/// resolution of 0.01 s.
const MIN_RATIO_WATCHED: f64 = 1.01;
/// The same for metrics nobody watches.
const MIN_RATIO: f64 = 1.05;
/// The ratio where the smaller median is zero or below.
const MAX_RATIO: f64 = 5.0;

/// Why a key is not listed; of several variants, the reason that came nearest to
/// being listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Hidden {
    /// Fewer than three runs on both sides.
    TooFewRuns,
    /// The base never yielded it.
    NotInBase,
    /// The ranges of base and variant overlap beyond a median.
    RangesOverlap,
    /// Medians differ by 1 % or less, or by 5 % or less for metrics outside the
    /// test program and the watched monitors.
    SmallRatio,
    /// The change or the values are too small to matter for this kind of key.
    SmallValues,
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::TooFewRuns => "fewer than 3 runs on both sides",
            Self::NotInBase => "the base never yielded it",
            Self::RangesOverlap => "the ranges of the runs overlap beyond a median",
            Self::SmallRatio => {
                "the medians differ by 1 % or less (5 % outside the test and the watched monitors)"
            }
            Self::SmallValues => {
                "the values or the change are too small to matter for this kind of key"
            }
        })
    }
}

/// The filter over one comparison.
pub(super) struct Filter<'a> {
    base: &'a Variant,
    others: &'a [&'a Variant],
    /// Programs of the primary metrics.
    tests: BTreeSet<&'a str>,
    /// Programs that gave the base a value.
    base_programs: BTreeSet<&'a str>,
    options: &'a LkpOptions,
}

impl<'a> Filter<'a> {
    pub(super) fn new(
        set: &'a ResultSet,
        base: &'a Variant,
        others: &'a [&'a Variant],
        options: &'a LkpOptions,
    ) -> Self {
        let tests = set
            .metrics()
            .iter()
            .filter(|m| m.role == Role::Primary)
            .map(|m| m.key.program())
            .collect();
        let base_programs = base
            .runs()
            .iter()
            .flat_map(|run| run.values())
            .map(|(key, _)| key.program())
            .collect();
        Self {
            base,
            others,
            tests,
            base_programs,
            options,
        }
    }

    /// Why the key is hidden, or `None` when it is listed.
    pub(super) fn check(&self, metric: &Metric) -> Option<Hidden> {
        let mut nearest = Hidden::TooFewRuns;
        for other in self.others {
            nearest = nearest.max(self.check_against(metric, other)?);
        }
        Some(nearest)
    }

    fn check_against(&self, metric: &Metric, other: &Variant) -> Option<Hidden> {
        let key = metric.key.as_str();
        let (base, other) = (self.base.samples(key), other.samples(key));
        if metric.kind == Kind::Failure {
            let worst = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
            let changed = worst(base.values()) != worst(other.values());
            return if changed {
                None
            } else {
                Some(Hidden::RangesOverlap)
            };
        }
        if base.runs() < MIN_RUNS && other.runs() < MIN_RUNS {
            return Some(Hidden::TooFewRuns);
        }
        // What a profile or lock monitor did not see is 0 there, if it ran at all.
        let implied_zero = matches!(metric.key.program(), "perf-profile" | "lock_stat")
            && self.base_programs.contains(metric.key.program());
        if base.values().is_empty() && !implied_zero {
            return Some(Hidden::NotInBase);
        }
        let (base, other) = (base.zero_filled(), other.zero_filled());
        let other_margin = if base.len() <= 3 { 1 } else { 3 };
        let (Some(base), Some(other)) = (Span::of(&base, 3), Span::of(&other, other_margin)) else {
            return Some(Hidden::TooFewRuns);
        };
        let profile = metric.key.program() == "perf-profile";
        if let (true, Some(share)) = (profile, self.options.perf_profile_threshold) {
            let shown = base.median > share || other.median > share;
            return if shown {
                None
            } else {
                Some(Hidden::SmallValues)
            };
        }
        if !changed(&base, &other, self.options.gap) {
            return Some(Hidden::RangesOverlap);
        }
        if profile {
            return None;
        }
        let (high, low) = (base.median.max(other.median), base.median.min(other.median));
        let ratio = if low > 0.0 {
            (high / low).min(MAX_RATIO)
        } else {
            MAX_RATIO
        };
        let watched = self.tests.contains(metric.key.program()) || is_watched(key);
        let least = if watched {
            MIN_RATIO_WATCHED
        } else {
            MIN_RATIO
        };
        if ratio <= least {
            return Some(Hidden::SmallRatio);
        }
        if !worth_a_row(key, high - low, base.max.max(other.max)) {
            return Some(Hidden::SmallValues);
        }
        None
    }
}

/// The runs of one side without their extremes.
struct Span {
    min: f64,
    /// The upper of two middle values: the tool's "mean".
    median: f64,
    max: f64,
}

impl Span {
    /// Drops one value in 32 at each end, at most `max_margin`.
    fn of(values: &[f64], max_margin: usize) -> Option<Self> {
        let sorted = sorted(values);
        let margin = (sorted.len() >> 5).min(max_margin);
        let kept = sorted.get(margin..sorted.len().checked_sub(margin)?)?;
        Some(Self {
            min: *kept.first()?,
            median: *kept.get(kept.len() / 2)?,
            max: *kept.last()?,
        })
    }
}

fn changed(a: &Span, b: &Span, gap: Option<f64>) -> bool {
    let apart = |low: &Span, high: &Span| match gap {
        None => high.min > low.median && high.median > low.max,
        Some(factor) => {
            high.min > low.max && high.min - low.max > (high.median - low.median) * factor
        }
    };
    apart(a, b) || apart(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Direction;
    use crate::results::Run;

    /// Whether and why the key is hidden for these runs of base and variant.
    fn check(metric: Metric, base: &[f64], other: &[f64], options: &LkpOptions) -> Option<Hidden> {
        let key = metric.key.as_str().to_owned();
        let mut set = ResultSet::new("commit");
        set.declare(metric.clone()).unwrap();
        for (name, values) in [("base", base), ("other", other)] {
            set.add_variant(Variant::new(name)).unwrap();
            for (at, value) in values.iter().enumerate() {
                let mut run = Run::new(at.to_string());
                if !value.is_nan() {
                    run.record(key.as_str(), *value).unwrap();
                }
                set.add_run(name, run).unwrap();
            }
        }
        let (base, others) = set.against(None).unwrap();
        Filter::new(&set, base, &others, options).check(&metric)
    }

    fn side(key: &str, base: &[f64], other: &[f64]) -> Option<Hidden> {
        check(
            Metric::new(key).unwrap(),
            base,
            other,
            &LkpOptions::default(),
        )
    }

    #[test]
    fn a_median_must_leave_the_other_range() {
        // Disjoint.
        assert_eq!(side("a.b", &[1.0, 2.0, 3.0], &[5.0, 6.0, 7.0]), None);
        assert_eq!(side("a.b", &[5.0, 6.0, 7.0], &[1.0, 2.0, 3.0]), None);
        // Overlap up to, but not beyond, the medians.
        assert_eq!(side("a.b", &[1.0, 2.0, 5.0], &[4.0, 6.0, 7.0]), None);
        // The base's largest reaches the other's median.
        assert_eq!(
            side("a.b", &[1.0, 2.0, 6.0], &[4.0, 6.0, 7.0]),
            Some(Hidden::RangesOverlap)
        );
        // The other's smallest is the base's median.
        assert_eq!(
            side("a.b", &[1.0, 4.0, 5.0], &[4.0, 6.0, 7.0]),
            Some(Hidden::RangesOverlap)
        );
        // Of an even count the upper middle value is the median.
        assert_eq!(
            side("a.b", &[1.0, 2.0, 3.0, 4.0], &[2.5, 6.0, 7.0, 8.0]),
            Some(Hidden::RangesOverlap)
        );
    }

    #[test]
    fn three_runs_on_one_side_are_enough() {
        assert_eq!(
            side("a.b", &[1.0, 1.0], &[9.0, 9.0]),
            Some(Hidden::TooFewRuns)
        );
        assert_eq!(side("a.b", &[1.0, 1.0], &[9.0, 9.0, 9.0]), None);
        assert_eq!(side("a.b", &[1.0, 1.0, 1.0], &[9.0]), None);
    }

    #[test]
    fn extremes_go_from_thirty_two_runs_on() {
        let mut base = vec![1.0; 31];
        base.push(100.0);
        assert_eq!(side("a.b", &base, &[5.0; 3]), None, "one of 32 is dropped");
        let mut fewer = vec![1.0; 30];
        fewer.push(100.0);
        assert_eq!(
            side("a.b", &fewer, &[5.0; 3]),
            Some(Hidden::RangesOverlap),
            "none of 31 is"
        );
        // Two of 64 would be, but against three runs of the base it is one.
        let mut many = vec![5.0; 63];
        many.push(0.0);
        assert_eq!(side("a.b", &[1.0; 3], &many), None);
        many.push(0.0);
        assert_eq!(side("a.b", &[1.0; 3], &many), Some(Hidden::RangesOverlap));
        assert_eq!(side("a.b", &[1.0; 4], &many), None);
    }

    #[test]
    fn five_percent_for_strangers_and_one_for_the_test() {
        let (base, by_four, by_six) = ([100.0; 3], [104.0; 3], [106.0; 3]);
        assert_eq!(side("a.b", &base, &by_four), Some(Hidden::SmallRatio));
        assert_eq!(side("a.b", &base, &by_six), None);
        assert_eq!(side("perf-stat.i.ipc", &base, &by_four), None, "watched");
        let test = Metric::new("a.b")
            .unwrap()
            .with_direction(Direction::BetterHigh)
            .primary();
        assert_eq!(
            check(test.clone(), &base, &by_four, &LkpOptions::default()),
            None
        );
        assert_eq!(
            check(test, &base, &[101.0; 3], &LkpOptions::default()),
            Some(Hidden::SmallRatio)
        );
        // From zero the ratio has no value and counts as 5.
        assert_eq!(side("a.b", &[0.0; 3], &[0.5; 3]), None);
    }

    #[test]
    fn a_missing_value_is_zero_but_a_base_without_any_is_not_compared() {
        let gone = f64::NAN;
        assert_eq!(side("a.b", &[5.0; 3], &[gone; 3]), None);
        assert_eq!(side("a.b", &[gone; 3], &[5.0; 3]), Some(Hidden::NotInBase));
    }

    #[test]
    fn small_values_are_no_news() {
        // 1000 at least, as formats of the tool have it for /proc/meminfo.
        assert_eq!(
            side("meminfo.Shmem", &[100.0; 3], &[900.0; 3]),
            Some(Hidden::SmallValues)
        );
        assert_eq!(side("meminfo.Shmem", &[100.0; 3], &[1900.0; 3]), None);
        // The size of the change counts too: half the threshold.
        let key = "x.time.voluntary_context_switches";
        assert_eq!(
            side(key, &[1200.0; 3], &[1600.0; 3]),
            Some(Hidden::SmallValues)
        );
        assert_eq!(side(key, &[1200.0; 3], &[1700.0; 3]), None);
    }

    #[test]
    fn profile_shares_have_their_own_threshold() {
        let key = || Metric::new("perf-profile.self.x").unwrap();
        let none = LkpOptions::default();
        let five = LkpOptions {
            perf_profile_threshold: Some(5.0),
            ..LkpOptions::default()
        };
        assert_eq!(
            check(key(), &[4.00; 3], &[4.01; 3], &none),
            None,
            "no least ratio"
        );
        assert_eq!(
            check(key(), &[4.00; 3], &[4.01; 3], &five),
            Some(Hidden::SmallValues)
        );
        assert_eq!(check(key(), &[6.0; 3], &[6.0; 3], &five), None);
    }

    #[test]
    fn a_gap_asks_for_ranges_apart() {
        let gap = LkpOptions {
            gap: Some(0.5),
            ..LkpOptions::default()
        };
        let key = || Metric::new("a.b").unwrap();
        assert_eq!(
            check(key(), &[1.0, 2.0, 3.0], &[5.0, 6.0, 7.0], &gap),
            Some(Hidden::RangesOverlap)
        );
        assert_eq!(
            check(key(), &[1.0, 2.0, 3.0], &[9.0, 10.0, 11.0], &gap),
            None
        );
    }

    #[test]
    fn failures_are_listed_when_their_worst_run_differs() {
        let key = || Metric::new("dmesg.oops").unwrap().failure();
        assert_eq!(
            check(key(), &[0.0, 0.0], &[0.0, 1.0], &LkpOptions::default()),
            None
        );
        assert_eq!(
            check(key(), &[0.0, 1.0], &[1.0, 1.0], &LkpOptions::default()),
            Some(Hidden::RangesOverlap)
        );
    }
}
