//! Times with units, as people write them: `3ms`, `250us`, `1s`, `700000ns`.

use schedlab_fair::Ns;

/// What a time should look like, for error messages.
pub(crate) const TIME_FORM: &str =
    "a time with a unit, such as \"3ms\", \"250us\", \"1.5s\" or \"700000ns\"";

/// Units, longest first where one ends like another.
const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a time with a unit. A decimal fraction is allowed as long as it comes out as whole nanoseconds.
pub fn parse_time(text: &str) -> Option<Ns> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start();
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
    decimal(number, *scale).map(Ns)
}

/// `number * scale`, where `number` may have a fraction; `None` where that is no whole number that fits.
fn decimal(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let clean = |s: &str| s.chars().filter(|c| *c != '_').collect::<String>();
    let (whole, fraction) = (clean(whole), clean(fraction));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) {
        return None;
    }
    let mut value = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let mut left = scale;
    for digit in fraction.chars() {
        let digit = u64::from(digit.to_digit(10)?);
        if !left.is_multiple_of(10) {
            // Finer than a nanosecond: only zeros may follow.
            if digit != 0 {
                return None;
            }
            continue;
        }
        left /= 10;
        value = value.checked_add(digit.checked_mul(left)?)?;
    }
    Some(value)
}

/// A time as text in the largest unit that divides it.
pub fn show_time(t: Ns) -> String {
    const SHOWN: [(&str, u64); 3] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    for (unit, scale) in SHOWN {
        if t.0 != 0 && t.0.is_multiple_of(scale) {
            return format!("{}{unit}", t.0 / scale);
        }
    }
    format!("{}ns", t.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_fractions() {
        assert_eq!(parse_time("3ms"), Some(Ns(3_000_000)));
        assert_eq!(parse_time("250us"), Some(Ns(250_000)));
        assert_eq!(parse_time("250 µs"), Some(Ns(250_000)));
        assert_eq!(parse_time("700_000ns"), Some(Ns(700_000)));
        assert_eq!(parse_time("1.5s"), Some(Ns(1_500_000_000)));
        assert_eq!(parse_time("0.000000001s"), Some(Ns(1)));
        assert_eq!(parse_time("2min"), Some(Ns(120_000_000_000)));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for bad in [
            "",
            "3",
            "ms",
            "3 parsec",
            "-3ms",
            "1.5ns",
            "0.0000000001s",
            "1.ms",
            ".5ms",
            "1..5ms",
            "1e3ms",
            "99999999999999999999s",
            "18446744073709551615s",
        ] {
            assert_eq!(parse_time(bad), None, "{bad}");
        }
    }

    #[test]
    fn shown_times_read_back() {
        for ns in [0, 1, 999, 1_000, 2_800_000, 3_000_000_000, 1_000_001] {
            assert_eq!(parse_time(&show_time(Ns(ns))), Some(Ns(ns)));
        }
    }
}
