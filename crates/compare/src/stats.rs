//! What describes a handful of numbers.
//!
//! Every function returns `None` where its formula has no value (no samples, one
//! sample for a spread, a mean of zero for a ratio) and never NaN for the finite
//! values that [`crate::ResultSet`] lets in.

/// Arithmetic mean, x̄ = Σx / n.
///
/// The sum is Neumaier's compensated sum (A. Neumaier, ZAMM 54, 1974), so that
/// it does not depend on the order of the runs beyond the last digit.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    // The added zero turns a mean of -0.0 into 0.0, which prints without a sign.
    Some(sum(values.iter().copied()) / values.len() as f64 + 0.0)
}

fn sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut total, mut lost) = (0.0_f64, 0.0_f64);
    for value in values {
        let next = total + value;
        lost += if total.abs() >= value.abs() {
            (total - next) + value
        } else {
            (value - next) + total
        };
        total = next;
    }
    total + lost
}

/// Σ(x - x̄)², the two-pass form.
fn squares(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    Some(sum(values.iter().map(|x| (x - mean) * (x - mean))))
}

/// Population standard deviation, √(Σ(x - x̄)² / n): what LKP's `%stddev` is
/// made of. `None` without samples.
#[must_use]
pub fn stddev_population(values: &[f64]) -> Option<f64> {
    Some((squares(values)? / values.len() as f64).sqrt())
}

/// Sample variance, s² = Σ(x - x̄)² / (n - 1). `None` for fewer than two.
#[must_use]
pub fn variance_sample(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    Some(squares(values)? / (values.len() - 1) as f64)
}

/// Sample standard deviation, √s²: the estimate for runs not yet made. `None`
/// for fewer than two.
#[must_use]
pub fn stddev_sample(values: &[f64]) -> Option<f64> {
    variance_sample(values).map(f64::sqrt)
}

/// Coefficient of variation, 100·s / |x̄|, in percent, with the sample standard
/// deviation. `None` for fewer than two samples, and where the mean is zero or
/// so near it that the ratio leaves the range of `f64`.
#[must_use]
pub fn cv_percent(values: &[f64]) -> Option<f64> {
    let ratio = 100.0 * stddev_sample(values)? / mean(values)?.abs();
    ratio.is_finite().then_some(ratio)
}

/// Smallest value.
#[must_use]
pub fn min(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

/// Largest value.
#[must_use]
pub fn max(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}

/// Median: the middle value, or the mean of the two middle ones.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 50.0)
}

/// The `percent`-th percentile by linear interpolation between order
/// statistics: position h = (n - 1)·p / 100 counted from 0, value
/// x⌊h⌋ + (h - ⌊h⌋)·(x⌊h⌋₊₁ - x⌊h⌋).
///
/// Rule 7 of R. J. Hyndman and Y. Fan, "Sample Quantiles in Statistical
/// Packages", The American Statistician 50 (1996); the default of R and NumPy.
/// `None` without samples and for a `percent` outside 0 to 100.
#[must_use]
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    if values.is_empty() || !(0.0..=100.0).contains(&percent) {
        return None;
    }
    let sorted = sorted(values);
    let position = (sorted.len() - 1) as f64 * (percent / 100.0);
    let below = (position.floor() as usize).min(sorted.len() - 1);
    let above = (below + 1).min(sorted.len() - 1);
    let part = position - position.floor();
    // As a weighted mean it never leaves the two values it lies between.
    Some(sorted[below] * (1.0 - part) + sorted[above] * part)
}

/// The values in ascending order.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}
