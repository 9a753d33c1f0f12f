//! Printed numbers and what they stand for.

/// A number as printed, and the range of numbers that print like it.
#[derive(Debug, Clone, PartialEq)]
pub struct Printed {
    /// The text.
    pub text: String,
    /// The number the text reads as.
    pub value: f64,
    /// Lowest number that prints so.
    pub low: f64,
    /// Highest number that prints so.
    pub high: f64,
}

/// A printed change.
#[derive(Debug, Clone, PartialEq)]
pub struct PrintedChange {
    /// Its number; `text` has no `%`.
    pub number: Printed,
    /// Whether it is in percent of the base; otherwise an absolute difference.
    pub relative: bool,
}

impl Printed {
    /// An average of an LKP table: two decimals (rounded), a whole number (cut),
    /// or four digits and an exponent (rounded). `None` for anything else.
    #[must_use]
    pub fn lkp_average(text: &str) -> Option<Self> {
        let value = number(text)?;
        let (low, high) = match (exponent(text), decimals(text)) {
            (Some(exponent), _) => around(value, 0.5 * 10f64.powi(exponent - 3)),
            (None, 0) if value < 0.0 => (value - 1.0, value),
            (None, 0) => (value, value + 1.0),
            (None, decimals) => around(value, half_unit(decimals)),
        };
        Some(Self {
            text: text.to_owned(),
            value,
            low,
            high,
        })
    }

    /// A number rounded at its last printed decimal. `None` for anything else,
    /// exponents included.
    #[must_use]
    pub fn rounded(text: &str) -> Option<Self> {
        let value = number(text)?;
        if exponent(text).is_some() {
            return None;
        }
        let (low, high) = around(value, half_unit(decimals(text)));
        Some(Self {
            text: text.to_owned(),
            value,
            low,
            high,
        })
    }

    /// The differences `self` - `other` that both texts allow.
    pub(super) fn minus(&self, other: &Self) -> (f64, f64) {
        (self.low - other.high, self.high - other.low)
    }

    /// The changes from `base` to `self`, in percent of the base, that both
    /// texts allow. Without bound when the base may be zero.
    pub(super) fn percent_of(&self, base: &Self) -> (f64, f64) {
        let positive = !base.text.starts_with('-');
        // A count or time whose text has no sign is not below zero.
        let from = |printed: &Self| {
            if printed.text.starts_with('-') {
                printed.low
            } else {
                printed.low.max(0.0)
            }
        };
        let (base_low, low) = (from(base), from(self));
        let change = |value: f64, base: f64| 100.0 * (value - base) / base;
        if !positive {
            return (f64::NEG_INFINITY, f64::INFINITY);
        }
        let corners = [change(low, base.high), change(self.high, base.high)];
        let least = corners[0].min(if base_low > 0.0 {
            change(low, base_low)
        } else {
            f64::INFINITY
        });
        let most = if base_low > 0.0 {
            corners[1].max(change(self.high, base_low))
        } else {
            f64::INFINITY
        };
        (least, most)
    }
}

impl PrintedChange {
    /// A change of an LKP table: a sign, one decimal or two digits and an
    /// exponent, and `%` when it is relative. `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (digits, relative) = match text.strip_suffix('%') {
            Some(digits) => (digits, true),
            None => (text, false),
        };
        if !digits.starts_with(['+', '-']) {
            return None;
        }
        let value = number(digits)?;
        let half = match exponent(digits) {
            Some(exponent) => 0.5 * 10f64.powi(exponent - 1),
            None => 0.05,
        };
        let (low, high) = around(value, half);
        Some(Self {
            number: Printed {
                text: digits.to_owned(),
                value,
                low,
                high,
            },
            relative,
        })
    }
}

/// A plain decimal number, with or without exponent: no `inf`, no `NaN`.
fn number(text: &str) -> Option<f64> {
    let plain = text
        .chars()
        .all(|c| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e'));
    text.parse::<f64>()
        .ok()
        .filter(|value| plain && value.is_finite())
}

fn exponent(text: &str) -> Option<i32> {
    // A number that parsed has an exponent within a few hundred.
    text.split_once('e')?.1.parse().ok()
}

fn decimals(text: &str) -> i32 {
    let digits = text
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    i32::try_from(digits).unwrap_or(i32::MAX)
}

fn half_unit(decimals: i32) -> f64 {
    0.5 * 10f64.powi(-decimals)
}

fn around(value: f64, half: f64) -> (f64, f64) {
    (value - half, value + half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stands_for_what_prints_like_it() {
        let range = |text| Printed::lkp_average(text).map(|p| (p.low, p.high));
        assert_eq!(range("623219"), Some((623_219.0, 623_220.0)));
        assert_eq!(range("-12"), Some((-13.0, -12.0)));
        assert_eq!(range("2.75"), Some((2.745, 2.755)));
        assert_eq!(range("1.654e+08"), Some((165_350_000.0, 165_450_000.0)));
        // Zeros at the end are not printed but known.
        assert_eq!(
            range("5.63e+10"),
            Some((56_295_000_000.0, 56_305_000_000.0))
        );
        for bad in ["", "x", "inf", "NaN", "1.2.3", "-", "1e999"] {
            assert_eq!(range(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn changes_with_and_without_percent() {
        let change = PrintedChange::parse("-13.1%").unwrap();
        assert_eq!((change.number.value, change.relative), (-13.1, true));
        let change = PrintedChange::parse("-0.0").unwrap();
        assert!(!change.relative && change.number.low < 0.0 && change.number.high > 0.0);
        let change = PrintedChange::parse("+2.1e+05%").unwrap();
        assert_eq!(
            (change.number.low, change.number.high),
            (205_000.0, 215_000.0)
        );
        for bad in ["", "13.1%", "%", "+%", "+x%"] {
            assert_eq!(PrintedChange::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_base_that_may_be_zero_allows_any_growth() {
        let printed = |text| Printed::lkp_average(text).unwrap();
        let (low, high) = printed("0.07").percent_of(&printed("0.00"));
        assert!(low > 1000.0 && high == f64::INFINITY, "{low} {high}");
        let (low, high) = printed("0.00").percent_of(&printed("0.00"));
        assert!(low <= -100.0 && high == f64::INFINITY, "{low} {high}");
    }
}
