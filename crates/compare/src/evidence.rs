//! What else is known of two lists of runs: ranks, sizes, power, and whether
//! the runs look like one population at all.
//!
//! Everything is deterministic; the one thing that draws numbers, the
//! bootstrap, takes a seed. `docs/statistics.md` tells for each when to
//! believe it.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::stats;
use crate::welch::{Confidence, Interval, t_quantile};

/// Up to so many runs on both sides together the rank test is exact.
pub const EXACT_RUNS: usize = 24;

/// Two-sided p of Welch's t-test, from its interval; 0 when no run varies and
/// the means differ, 1 when they do not.
#[must_use]
pub fn welch_p(interval: &Interval) -> Option<f64> {
    let Some(degrees) = interval.degrees else {
        return Some(if interval.difference == 0.0 { 1.0 } else { 0.0 });
    };
    let t = (interval.difference / interval.standard_error).abs();
    let student = StudentsT::new(0.0, 1.0, degrees).ok()?;
    Some((2.0 * student.sf(t)).min(1.0))
}

/// Two-sided p of the Mann-Whitney U test (H. B. Mann and D. R. Whitney, Annals
/// of Mathematical Statistics 18, 1947) and the least p that these numbers of
/// runs can give.
///
/// Up to [`EXACT_RUNS`] runs the distribution is counted in full over all ways
/// to deal the observed ranks, ties as middle ranks; beyond, it is the normal
/// one with the corrections for ties and for continuity. `None` without a value
/// on a side.
#[must_use]
pub fn mann_whitney(base: &[f64], other: &[f64]) -> Option<RankTest> {
    let (n, m) = (base.len(), other.len());
    if n == 0 || m == 0 {
        return None;
    }
    let ranks = double_ranks(base.iter().chain(other).copied());
    let sum: usize = ranks[..n].iter().sum();
    let all = n + m;
    if all <= EXACT_RUNS {
        // ways[k][s]: how many choices of k runs have the doubled rank sum s.
        let top = all * (all + 1);
        let mut ways = vec![vec![0.0_f64; top + 1]; n + 1];
        ways[0][0] = 1.0;
        for (seen, rank) in ranks.iter().enumerate() {
            for k in (1..=n.min(seen + 1)).rev() {
                let (less, more) = ways.split_at_mut(k);
                for s in *rank..=top {
                    more[0][s] += less[k - 1][s - rank];
                }
            }
        }
        let total: f64 = ways[n].iter().sum();
        let below: f64 = ways[n][..=sum].iter().sum();
        let above: f64 = ways[n][sum..].iter().sum();
        return Some(RankTest {
            p: (2.0 * below.min(above) / total).min(1.0),
            least_p: (2.0 / total).min(1.0),
            exact: true,
        });
    }
    let (nf, mf, af) = (n as f64, m as f64, all as f64);
    let u = sum as f64 / 2.0 - nf * (nf + 1.0) / 2.0;
    let mut sorted = ranks;
    sorted.sort_unstable();
    let ties: f64 = sorted
        .chunk_by(|a, b| a == b)
        .map(|run| (run.len() as f64).powi(3) - run.len() as f64)
        .sum();
    let variance = nf * mf / 12.0 * (af + 1.0 - ties / (af * (af - 1.0)));
    let p = if variance > 0.0 {
        let z = ((u - nf * mf / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
        2.0 * Normal::new(0.0, 1.0).ok()?.sf(z)
    } else {
        1.0
    };
    Some(RankTest {
        p: p.min(1.0),
        least_p: 0.0,
        exact: false,
    })
}

/// What the rank test says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RankTest {
    /// Two-sided p.
    pub p: f64,
    /// The least p that these numbers of runs can give; 0 where p is not exact.
    pub least_p: f64,
    /// Whether p is counted in full.
    pub exact: bool,
}

/// Twice the ranks, counted from 1, so that a middle rank is whole.
fn double_ranks(values: impl Iterator<Item = f64>) -> Vec<usize> {
    let values: Vec<f64> = values.collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0; values.len()];
    let mut first = 0;
    for run in order.chunk_by(|a, b| values[*a] == values[*b]) {
        for at in run {
            ranks[*at] = 2 * first + run.len() + 1;
        }
        first += run.len();
    }
    ranks
}

/// Hedges' g: the difference in pooled standard deviations, with the correction
/// for few runs 1 - 3 / (4ν - 1), ν = n₁ + n₂ - 2 (L. V. Hedges, Journal of
/// Educational Statistics 6, 1981). `None` for fewer than two on a side or no
/// spread.
#[must_use]
pub fn hedges_g(base: &[f64], other: &[f64]) -> Option<f64> {
    let (v1, v2) = (
        stats::variance_sample(base)?,
        stats::variance_sample(other)?,
    );
    let degrees = (base.len() + other.len() - 2) as f64;
    let pooled = (((base.len() - 1) as f64 * v1 + (other.len() - 1) as f64 * v2) / degrees).sqrt();
    let g =
        (stats::mean(other)? - stats::mean(base)?) / pooled * (1.0 - 3.0 / (4.0 * degrees - 1.0));
    g.is_finite().then_some(g)
}

/// Power at which the smallest detectable difference is given.
pub const POWER: f64 = 0.8;

/// The smallest true difference that a repetition with as many runs would
/// establish in four of five cases, in the metric's unit:
/// (t₁₋α⸝₂ + t₀.₈)·SE with the interval's degrees of freedom.
#[must_use]
pub fn detectable(interval: &Interval, confidence: Confidence) -> Option<f64> {
    let Some(degrees) = interval.degrees else {
        return Some(0.0);
    };
    let alpha = t_quantile(f64::midpoint(1.0, confidence.level()), degrees)?;
    Some((alpha + t_quantile(POWER, degrees)?) * interval.standard_error)
}

/// Most runs that are ever asked for.
pub const MANY_RUNS: usize = 100_000;

/// How many runs a side would establish a true difference of `target` (in the
/// metric's unit, above 0) in four of five cases, spreads staying as observed.
/// `None` beyond [`MANY_RUNS`] and without two values on a side.
#[must_use]
pub fn runs_needed(
    base: &[f64],
    other: &[f64],
    target: f64,
    confidence: Confidence,
) -> Option<usize> {
    let spread = stats::variance_sample(base)? + stats::variance_sample(other)?;
    if target <= 0.0 {
        return None;
    }
    let normal = Normal::new(0.0, 1.0).ok()?;
    let alpha = f64::midpoint(1.0, confidence.level());
    let sum = normal.inverse_cdf(alpha) + normal.inverse_cdf(POWER);
    let ratio = spread / (target * target);
    if !ratio.is_finite() || ratio * sum * sum > MANY_RUNS as f64 {
        return None;
    }
    // From the normal answer upwards, as Student's quantiles ask for more: few steps.
    let mut n = ((ratio * sum * sum).ceil() as usize).max(2);
    loop {
        let degrees = 2.0 * (n - 1) as f64;
        let sum = t_quantile(alpha, degrees)? + t_quantile(POWER, degrees)?;
        let enough = ratio * sum * sum;
        if enough <= n as f64 {
            return Some(n);
        }
        n += 1;
    }
}

/// Adjusted p-values after Y. Benjamini and Y. Hochberg (Journal of the Royal
/// Statistical Society B 57, 1995), in the order given: calling everything at
/// or below α changed keeps the expected share of false calls among them at α.
#[must_use]
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*b].total_cmp(&p[*a]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least = 1.0_f64;
    for (from_top, at) in order.into_iter().enumerate() {
        let rank = (p.len() - from_top) as f64;
        least = least.min(p[at] * p.len() as f64 / rank);
        adjusted[at] = least;
    }
    adjusted
}

/// Fewest runs among which a run can be called an outlier.
const OUTLIER_RUNS: usize = 5;

/// Positions of runs whose modified z-score, 0.6745·|x - median| / MAD, is above
/// 3.5 (B. Iglewicz and D. C. Hoaglin, How to Detect and Handle Outliers, ASQC
/// 1993). They are named, never left out. Empty for fewer than five runs and
/// where more than half of them are equal.
#[must_use]
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let Some(median) = stats::median(values).filter(|_| values.len() >= OUTLIER_RUNS) else {
        return Vec::new();
    };
    let away: Vec<f64> = values.iter().map(|x| (x - median).abs()).collect();
    let mad = stats::median(&away).unwrap_or(0.0);
    (0..values.len())
        .filter(|at| mad > 0.0 && 0.6745 * away[*at] / mad > 3.5)
        .collect()
}

/// Two-sided p of the Mann-Kendall test for a trend over the order of the runs
/// (H. B. Mann, Econometrica 13, 1945; M. G. Kendall), normal with the
/// corrections for ties and continuity, which is good from about ten runs on;
/// `None` below that, and when all runs are equal.
#[must_use]
pub fn drift(values: &[f64]) -> Option<f64> {
    if values.len() < 10 {
        return None;
    }
    let mut score = 0_i64;
    for (at, x) in values.iter().enumerate() {
        for y in &values[at + 1..] {
            score += i64::from(y > x) - i64::from(y < x);
        }
    }
    let part = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let sorted = stats::sorted(values);
    let ties: f64 = sorted
        .chunk_by(|a, b| a == b)
        .map(|run| part(run.len() as f64))
        .sum();
    let variance = (part(values.len() as f64) - ties) / 18.0;
    if variance <= 0.0 {
        return None;
    }
    let z = (score.abs() - 1).max(0) as f64 / variance.sqrt();
    Some((2.0 * Normal::new(0.0, 1.0).ok()?.sf(z)).min(1.0))
}

/// Level below which a trend over run order is called a drift.
pub const DRIFT_LEVEL: f64 = 0.01;

/// Two groups of runs with a gap between them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Modes {
    /// Mean of the lower group.
    pub low: f64,
    /// Mean of the upper group.
    pub high: f64,
    /// Runs in the lower group.
    pub low_runs: usize,
    /// Runs in the upper group.
    pub high_runs: usize,
}

/// Fewest runs in which two modes are looked for.
pub const MODE_RUNS: usize = 12;
/// Share of the sum of squares that the best cut in two must explain: at 12 runs
/// or more it does so in less than 1 % of cases of a normal distribution and
/// less than 3 % of an exponential one (`docs/statistics.md`).
const MODE_SHARE: f64 = 0.92;

/// Two modes, if the best cut of the sorted runs in two, with two or more on
/// each side, leaves at most 8 % of the sum of squares within the groups.
#[must_use]
pub fn modes(values: &[f64]) -> Option<Modes> {
    if values.len() < MODE_RUNS {
        return None;
    }
    let sorted = stats::sorted(values);
    let mean = stats::mean(&sorted)?;
    let n = sorted.len() as f64;
    let total: f64 = sorted.iter().map(|x| (x - mean) * (x - mean)).sum();
    let mut best = (0.0, 0);
    let mut below = 0.0;
    for cut in 1..sorted.len() - 1 {
        below += sorted[cut - 1] - mean;
        // Between the groups: below² / k + below² / (n - k), sums being about the mean.
        let k = cut as f64;
        let between = below * below * n / (k * (n - k));
        if cut >= 2 && between > best.0 {
            best = (between, cut);
        }
    }
    if total <= 0.0 || best.0 / total < MODE_SHARE {
        return None;
    }
    let (low, high) = sorted.split_at(best.1);
    Some(Modes {
        low: stats::mean(low)?,
        high: stats::mean(high)?,
        low_runs: low.len(),
        high_runs: high.len(),
    })
}

/// Resamples of a bootstrap interval.
pub const RESAMPLES: usize = 4_000;

/// Interval of the difference of means, other - base, by the bootstrap: ends are
/// percentiles of the differences of resampled means, at a level widened for few
/// runs so that it asks of the resamples what Student's distribution asks of the
/// normal one (the expanded percentile interval of T. C. Hesterberg, The American
/// Statistician 69, 2015, for two samples by their standard errors). Runs are
/// drawn by a generator that `seed` starts. It never leaves the range of the
/// runs, and with three of them that is too narrow: see `docs/statistics.md`.
///
/// `None` for fewer than two values on a side.
#[must_use]
pub fn bootstrap(
    base: &[f64],
    other: &[f64],
    confidence: Confidence,
    seed: u64,
) -> Option<Interval> {
    let welch = crate::welch::welch(base, other, confidence)?;
    let Some(degrees) = welch.degrees else {
        return Some(welch);
    };
    let part = |values: &[f64]| {
        let n = values.len() as f64;
        stats::variance_sample(values).map(|v| v * (n - 1.0) / (n * n))
    };
    let plain = (part(base)? + part(other)?).sqrt();
    let t = t_quantile(f64::midpoint(1.0, confidence.level()), degrees)?;
    let tail = Normal::new(0.0, 1.0)
        .ok()?
        .sf(t * welch.standard_error / plain);
    let mut state = seed;
    let mut mean = |values: &[f64]| {
        let mut sum = 0.0;
        for _ in 0..values.len() {
            sum += values[draw(&mut state, values.len())];
        }
        sum / values.len() as f64
    };
    let resampled: Vec<f64> = (0..RESAMPLES).map(|_| -mean(base) + mean(other)).collect();
    Some(Interval {
        low: stats::percentile(&resampled, 100.0 * tail)?,
        high: stats::percentile(&resampled, 100.0 * (1.0 - tail))?,
        ..welch
    })
}

/// A number below `below`: SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, OOPSLA
/// 2014), its upper 32 bits scaled.
fn draw(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (((z >> 32) * below as u64) >> 32) as usize
}
