//! Percentiles and histograms of times in bounded memory.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::table::{Cell, Column, Table, column};

/// Values kept exactly; past this many they are folded into a histogram.
const EXACT: usize = 512;
/// Decimal digits that the histogram keeps: its values are off by less than 1 %.
const DIGITS: u8 = 2;

/// A distribution of times in ns: exact up to 512 values, then with two significant digits.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Distribution {
    exact: Vec<u64>,
    folded: Option<Histogram<u32>>,
}

/// Histograms compare their counts, which are whole numbers.
impl Eq for Distribution {}

/// The percentiles that tables show, ns: the least value that so many of all do not exceed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Percentiles {
    /// Half.
    pub p50: u64,
    /// 90 of 100.
    pub p90: u64,
    /// 95 of 100.
    pub p95: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1000.
    pub p99_9: u64,
}

impl Distribution {
    /// Adds a time.
    pub fn add(&mut self, ns: u64) {
        match &mut self.folded {
            Some(folded) => record(folded, ns),
            None => {
                self.exact.push(ns);
                if self.exact.len() > EXACT {
                    self.fold();
                }
            }
        }
    }

    /// Adds all times of another.
    pub fn merge(&mut self, other: &Self) {
        for &ns in &other.exact {
            self.add(ns);
        }
        if let Some(theirs) = &other.folded {
            self.fold();
            if let Some(folded) = &mut self.folded {
                // Both resize themselves, so that adding cannot fail.
                let _ = folded.add(theirs);
            }
        }
    }

    /// How many times were added.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.folded
            .as_ref()
            .map_or(self.exact.len() as u64, Histogram::len)
    }

    /// The percentiles; all 0 without times.
    #[must_use]
    pub fn percentiles(&self) -> Percentiles {
        let mut sorted = self.exact.clone();
        sorted.sort_unstable();
        let at = |permille: u64| match &self.folded {
            Some(folded) => folded
                .value_at_quantile(permille as f64 / 1000.0)
                .min(folded.max()),
            None => {
                let rank = (sorted.len() as u64 * permille).div_ceil(1000).max(1);
                let index = usize::try_from(rank - 1).unwrap_or(usize::MAX);
                sorted.get(index).copied().unwrap_or(0)
            }
        };
        Percentiles {
            p50: at(500),
            p90: at(900),
            p95: at(950),
            p99: at(990),
            p99_9: at(999),
        }
    }

    /// Counts by powers of two: `(k, n)` for `n` times of at least 2^k ns and less than 2^(k+1) (0 ns is with 1 ns), from the
    /// first to the last that is not empty.
    #[must_use]
    pub fn powers_of_two(&self) -> Vec<(u32, u64)> {
        let mut counts = [0u64; 64];
        let mut put = |ns: u64, n: u64| counts[ns.max(1).ilog2() as usize] += n;
        for &ns in &self.exact {
            put(ns, 1);
        }
        if let Some(folded) = &self.folded {
            for step in folded.iter_recorded() {
                // A step never reaches over a power of two.
                put(
                    folded.lowest_equivalent(step.value_iterated_to()),
                    u64::from(step.count_at_value()),
                );
            }
        }
        let used = |n: &u64| *n > 0;
        let (Some(first), Some(last)) =
            (counts.iter().position(used), counts.iter().rposition(used))
        else {
            return Vec::new();
        };
        (0u32..)
            .zip(counts)
            .skip(first)
            .take(last - first + 1)
            .collect()
    }

    fn fold(&mut self) {
        if self.folded.is_some() {
            return;
        }
        // The digits are in range; a histogram that cannot be made leaves the values exact.
        let Ok(mut folded) = Histogram::new(DIGITS) else {
            return;
        };
        for ns in self.exact.drain(..) {
            record(&mut folded, ns);
        }
        self.exact.shrink_to_fit();
        self.folded = Some(folded);
    }
}

const HISTOGRAM: &[Column] = &[
    column("from_ns", "From", "us"),
    column("to_ns", "To", "us"),
    column("count", "Count", ""),
    column("share", "Share", "%"),
    column("bar", "", ""),
];
/// Length of the longest bar.
const BAR: u64 = 40;

/// A distribution by powers of two, with bars.
#[must_use]
pub fn histogram_table(name: &'static str, of: &Distribution) -> Table {
    let counts = of.powers_of_two();
    let most = counts.iter().map(|&(_, n)| n).max().unwrap_or(1);
    let mut table = Table::new(name, HISTOGRAM);
    for (k, n) in counts {
        let from = if k == 0 { 0 } else { 1 << k };
        // A bar for every bucket that is not empty.
        let length = u128::from(n) * u128::from(BAR) / u128::from(most);
        let length = usize::try_from(length).unwrap_or(0).max(usize::from(n > 0));
        table.rows.push(vec![
            Cell::Micros(from),
            Cell::Micros((1u64 << k).saturating_mul(2)),
            Cell::Count(n),
            Cell::Share(n, of.count()),
            Cell::Text("#".repeat(length)),
        ]);
    }
    table
}

/// The histogram makes room for any value by itself, so that recording cannot fail.
fn record(folded: &mut Histogram<u32>, ns: u64) {
    let _ = folded.record(ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn few_values_are_exact() {
        let mut d = Distribution::default();
        assert_eq!(d.percentiles(), Percentiles::default());
        assert!(d.powers_of_two().is_empty());
        for ns in (1..=200).rev() {
            d.add(ns);
        }
        let p = d.percentiles();
        assert_eq!(
            (p.p50, p.p90, p.p95, p.p99, p.p99_9),
            (100, 180, 190, 198, 200)
        );
        assert_eq!(
            d.powers_of_two(),
            [
                (0, 1),
                (1, 2),
                (2, 4),
                (3, 8),
                (4, 16),
                (5, 32),
                (6, 64),
                (7, 73)
            ]
        );
    }

    proptest! {
        #[test]
        fn folding_and_merging_keep_counts_and_stay_within_a_percent(
            values in proptest::collection::vec(0u64..10_000_000_000, 600..1500), cut in 0usize..600
        ) {
            let (mut a, mut b) = (Distribution::default(), Distribution::default());
            for (i, &v) in values.iter().enumerate() {
                if i < cut { a.add(v) } else { b.add(v) }
            }
            a.merge(&b);
            prop_assert_eq!(a.count(), values.len() as u64);
            let total: u64 = a.powers_of_two().iter().map(|p| p.1).sum();
            prop_assert_eq!(total, a.count());
            for &(k, n) in &a.powers_of_two() {
                let exact = values.iter().filter(|v| (**v).max(1).ilog2() == k).count() as u64;
                prop_assert_eq!(n, exact);
            }
            let mut sorted = values;
            sorted.sort_unstable();
            let p = a.percentiles();
            for (permille, got) in [(500, p.p50), (900, p.p90), (950, p.p95), (990, p.p99), (999, p.p99_9)] {
                let exact = sorted[(sorted.len() * permille).div_ceil(1000) - 1];
                prop_assert!(got.abs_diff(exact) <= exact / 100 + 1, "{} {}", got, exact);
            }
        }
    }
}
