//! Numbers in the widths and formats of the LKP table.

use super::{ABS_WIDTH, ERR_WIDTH, REL_WIDTH};

/// One average and its spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LkpCell {
    /// Mean over the runs, in the metric's unit.
    pub mean: f64,
    /// Population standard deviation in percent of the mean; absent for one run
    /// and for a mean of zero. Printed only above 2.
    pub stddev_percent: Option<f64>,
}

impl LkpCell {
    /// The cell of these runs; of none, a zero.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        super::cell_of(values)
    }

    /// Average and spread: always `ABS_WIDTH + ERR_WIDTH` wide unless the number
    /// itself is wider.
    pub(super) fn write(&self, line: &mut String) {
        let magnitude = self.mean.abs();
        let average = if magnitude < 1000.0 {
            format!("{:.2}", self.mean)
        } else if magnitude > 100_000_000.0 {
            general(self.mean, 4, false)
        } else {
            // Cut, not rounded: `%d` of a Ruby float.
            format!("{}", self.mean.trunc() as i64)
        };
        line.push_str(&format!("{average:>ABS_WIDTH$}"));
        match self.stddev_percent {
            // Cut, not rounded.
            Some(percent) if percent > 2.0 => {
                let width = ERR_WIDTH - 3;
                line.push_str(&format!(" ±{:>width$}%", percent.trunc()));
            }
            _ => line.push_str(&" ".repeat(ERR_WIDTH)),
        }
    }
}

/// A change, with `%` when it is relative and two blanks when it is absolute.
pub(super) fn write_change(line: &mut String, change: f64, absolute: bool) {
    let number = if change.abs() < 100_000.0 {
        format!("{change:+.1}")
    } else {
        general(change, 2, true)
    };
    line.push_str(&format!(
        "{number:>REL_WIDTH$}{}",
        if absolute { "  " } else { "% " }
    ));
}

/// A row of failure counts, without the line break.
pub(super) fn failure_row(key: &str, cells: &[(u64, usize)], changes: &[f64]) -> String {
    let mut line = String::new();
    for (at, (fails, runs)) in cells.iter().enumerate() {
        if at > 0 {
            let points = changes.get(at - 1).copied().unwrap_or(0.0);
            line.push_str(&format!("{points:>REL_WIDTH$.0}% "));
        }
        let fails = if *fails == 0 {
            String::new()
        } else {
            fails.to_string()
        };
        line.push_str(&format!(
            "{fails:>width$}:{runs:<rest$}",
            width = ABS_WIDTH + 1,
            rest = ERR_WIDTH - 2
        ));
    }
    line.push_str("  ");
    line.push_str(key);
    line
}

/// C's `%.{digits}g`, with `plus` its `+` flag.
pub(super) fn general(value: f64, digits: usize, plus: bool) -> String {
    let sign = if value < 0.0 {
        "-"
    } else if plus {
        "+"
    } else {
        ""
    };
    let value = value.abs();
    if value.is_infinite() {
        return format!("{sign}Inf");
    }
    // Rounds to the digits first: the exponent after that decides the form.
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return format!("{sign}{scientific}");
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let number = if exponent < -4 || exponent >= digits as i32 {
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        format!(
            "{}e{exponent_sign}{:02}",
            strip(mantissa),
            exponent.unsigned_abs()
        )
    } else {
        let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
        strip(&format!("{value:.decimals$}")).to_owned()
    };
    format!("{sign}{number}")
}

fn strip(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_is_what_c_prints() {
        // Expected texts by C's printf.
        for (value, digits, plus, expected) in [
            (165_400_000.0, 4, false, "1.654e+08"),
            (169_000_000.0, 4, false, "1.69e+08"),
            (100_000_000.5, 4, false, "1e+08"),
            (999_960_000.0, 4, false, "1e+09"),
            (-254_300_000_000.0, 4, false, "-2.543e+11"),
            (213_000.0, 2, true, "+2.1e+05"),
            (1.387_683e104, 2, true, "+1.4e+104"),
            (-281_381.0, 2, true, "-2.8e+05"),
            (0.000_012_34, 4, false, "1.234e-05"),
            (0.001_234, 4, false, "0.001234"),
            (12.5, 4, false, "12.5"),
            (99.999, 4, false, "100"),
            (0.0, 4, false, "0"),
        ] {
            assert_eq!(general(value, digits, plus), expected, "{value}");
        }
    }

    #[test]
    fn averages_change_form_at_a_thousand_and_at_a_hundred_million() {
        let cell = |mean| {
            let mut line = String::new();
            LkpCell {
                mean,
                stddev_percent: None,
            }
            .write(&mut line);
            line
        };
        assert_eq!(cell(0.0), "      0.00      ");
        assert_eq!(cell(999.99), "    999.99      ");
        assert_eq!(cell(1000.0), "      1000      ");
        assert_eq!(cell(1234.9), "      1234      ");
        assert_eq!(cell(-1500.5), "     -1500      ");
        assert_eq!(cell(100_000_000.0), " 100000000      ");
        assert_eq!(cell(165_400_000.0), " 1.654e+08      ");
    }

    #[test]
    fn a_spread_shows_above_two_percent_and_is_cut() {
        let cell = |percent| {
            let mut line = String::new();
            LkpCell {
                mean: 1.0,
                stddev_percent: percent,
            }
            .write(&mut line);
            line
        };
        assert_eq!(cell(Some(2.0)), "      1.00      ");
        assert_eq!(cell(Some(2.01)), "      1.00 ±  2%");
        assert_eq!(cell(Some(13.99)), "      1.00 ± 13%");
        assert_eq!(cell(Some(282.8)), "      1.00 ±282%");
        assert_eq!(cell(Some(-40.0)), "      1.00      ");
    }

    #[test]
    fn one_run_and_a_mean_of_zero_have_no_spread() {
        assert_eq!(LkpCell::of(&[5.0]).stddev_percent, None);
        assert_eq!(LkpCell::of(&[-5.0, 5.0]).stddev_percent, None);
        assert_eq!(
            LkpCell::of(&[]),
            LkpCell {
                mean: 0.0,
                stddev_percent: None
            }
        );
        // Divisor n: of 90 and 110 it is 10, not 14.1.
        assert_eq!(LkpCell::of(&[90.0, 110.0]).stddev_percent, Some(10.0));
    }
}
