//! The comparison table of the kernel test robot (LKP `ncompare`), byte for
//! byte.
//!
//! Layout and rules are those of lkp-tests `lib/compare.rb`, `lib/stats.rb` and
//! `lib/changed_stat.rb`, checked against reports on the lists; what each mark
//! means is told in `docs/formats/lkp-table.md`, and so is where this table
//! departs from the tool's (only where the tool prints something untrue or
//! nothing at all).
//!
//! Two rules differ from the rest of this crate because the format demands it: a
//! run that did not yield a metric counts as 0, and the spread is the population
//! standard deviation.

mod cell;
mod filter;
mod order;
mod threshold;

pub use cell::LkpCell;
pub use filter::Hidden;

use std::collections::BTreeMap;

use crate::compare::{CompareError, base_and_others};
use crate::metric::{Kind, Metric, Role, is_share};
use crate::results::{ResultSet, Variant};
use crate::stats;
use filter::Filter;
use order::Order;

/// Width of an average.
const ABS_WIDTH: usize = 10;
/// Width of a change, without its `%` and the blank after it.
const REL_WIDTH: usize = 10;
/// Width of a spread.
const ERR_WIDTH: usize = 6;
/// Width of the base's column.
const FIRST_WIDTH: usize = ABS_WIDTH + ERR_WIDTH;
/// Width of every other column.
const NEXT_WIDTH: usize = FIRST_WIDTH + REL_WIDTH + 1;
/// The line that opens a table.
const RULE: &str =
    "=========================================================================================";

/// Which keys a table is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Select {
    /// All of them.
    #[default]
    All,
    /// Headline metrics alone: the short table that opens a report.
    Primary,
    /// These keys.
    Keys(Vec<String>),
}

impl Select {
    fn takes(&self, metric: &Metric) -> bool {
        match self {
            Self::All => true,
            Self::Primary => metric.role == Role::Primary,
            Self::Keys(keys) => keys.iter().any(|k| k == metric.key.as_str()),
        }
    }
}

/// What a table shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LkpOptions {
    /// The variant all others are held against; the first when absent.
    pub base: Option<String>,
    /// Which keys are looked at.
    pub select: Select,
    /// Lists every key looked at, whatever changed (`ncompare --all`).
    pub all: bool,
    /// With a threshold, a `perf-profile` key is listed when its median is above
    /// it on a side, in percent (`ncompare -p`); without, as any other key.
    pub perf_profile_threshold: Option<f64>,
    /// With a gap, ranges must lie apart by more than this share of the distance
    /// of the medians, instead of by the default rule (`gap` in LKP).
    pub gap: Option<f64>,
}

/// A rendered table and what it left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LkpTable {
    /// The table, each line ended; ends in an empty line as LKP's does.
    pub text: String,
    /// Keys in the order of the rows.
    pub listed: Vec<String>,
    /// How many keys were looked at.
    pub considered: usize,
    /// How many of them were left out, by reason.
    pub hidden: BTreeMap<Hidden, usize>,
}

/// One row before it is text.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    key: String,
    cells: Cells,
    /// As printed: percent, points or absolute, per variant.
    changes: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq)]
enum Cells {
    Values(Vec<LkpCell>),
    /// Failures and runs.
    Failures(Vec<(u64, usize)>),
}

/// Renders a comparison of all variants with the base.
///
/// There is always something to read: when the filter leaves no row, the table
/// says how many keys there were and why none passed.
///
/// # Errors
/// [`CompareError`] for a base that is not there or fewer than two variants.
pub fn render(set: &ResultSet, options: &LkpOptions) -> Result<LkpTable, CompareError> {
    let (base, others) = base_and_others(set, options.base.as_deref())?;
    let filter = Filter::new(set, base, &others, options);
    let considered: Vec<&Metric> = set
        .metrics()
        .iter()
        .filter(|m| options.select.takes(m))
        .collect();
    let mut hidden: BTreeMap<Hidden, usize> = BTreeMap::new();
    let mut rows = Vec::new();
    for &metric in &considered {
        match filter.check(metric) {
            Some(reason) if !options.all => *hidden.entry(reason).or_default() += 1,
            _ => rows.push(row(metric, base, &others)),
        }
    }
    Order::of(&rows).sort(&mut rows);

    let mut text = header(set, base, &others);
    body(&mut text, &rows, others.len());
    if rows.is_empty() {
        text.push_str(&nothing(considered.len(), &hidden, &options.select));
    }
    text.push('\n');
    let listed = rows.into_iter().map(|row| row.key).collect();
    Ok(LkpTable {
        text,
        listed,
        considered: considered.len(),
        hidden,
    })
}

/// One row of values as LKP prints it, without the line break.
///
/// `changes` are relative, in percent, unless the key is a share: then they are
/// absolute and printed without `%`. There is one change fewer than cells; what
/// is beyond is not printed.
#[must_use]
pub fn value_row(key: &str, cells: &[LkpCell], changes: &[f64]) -> String {
    let mut line = String::new();
    let Some((first, rest)) = cells.split_first() else {
        return line;
    };
    first.write(&mut line);
    for (cell, change) in rest.iter().zip(changes) {
        cell::write_change(&mut line, *change, is_share(key));
        cell.write(&mut line);
    }
    line.push_str("  ");
    line.push_str(key);
    line
}

fn row(metric: &Metric, base: &Variant, others: &[&Variant]) -> Row {
    let key = metric.key.as_str();
    let all = std::iter::once(base)
        .chain(others.iter().copied())
        .map(|v| v.samples(key).zero_filled());
    match metric.kind {
        Kind::Value => {
            let cells: Vec<LkpCell> = all.map(|values| LkpCell::of(&values)).collect();
            let first = cells.first().map_or(0.0, |cell| cell.mean);
            let change = |cell: &LkpCell| {
                if metric.key.is_share() {
                    cell.mean - first
                } else {
                    // The tool's way around a base of zero; it prints things like +1.4e+104%.
                    let divisor = if first == 0.0 { 1e-100 } else { first };
                    100.0 * (cell.mean - first) / divisor
                }
            };
            let changes = cells.iter().skip(1).map(change).collect();
            Row {
                key: key.to_owned(),
                cells: Cells::Values(cells),
                changes,
            }
        }
        Kind::Failure => {
            let cells: Vec<(u64, usize)> = all
                .map(|values| (values.iter().sum::<f64>() as u64, values.len()))
                .collect();
            let rate = |(fails, runs): &(u64, usize)| *fails as f64 / (*runs).max(1) as f64;
            let first = cells.first().map_or(0.0, rate);
            let changes = cells
                .iter()
                .skip(1)
                .map(|cell| 100.0 * (rate(cell) - first))
                .collect();
            Row {
                key: key.to_owned(),
                cells: Cells::Failures(cells),
                changes,
            }
        }
    }
}

fn header(set: &ResultSet, base: &Variant, others: &[&Variant]) -> String {
    let mut text = format!("{RULE}\n");
    if !set.common().is_empty() {
        let keys: Vec<&str> = set.common().iter().map(|(key, _)| key.as_str()).collect();
        let values: Vec<&str> = set
            .common()
            .iter()
            .map(|(_, value)| value.as_str())
            .collect();
        text.push_str(&format!("{}:\n  {}\n\n", keys.join("/"), values.join("/")));
    }
    // The blank after the colon and those at the ends of lines are the tool's.
    text.push_str(&format!("{}: \n", set.axis()));
    for variant in std::iter::once(base).chain(others.iter().copied()) {
        text.push_str("  ");
        text.push_str(variant.name());
        if let Some(title) = variant.title() {
            text.push_str(&format!(" (\"{title}\")"));
        }
        text.push('\n');
    }
    let cut = |head: &str, width: usize| head.chars().take(width).collect::<String>();
    text.push_str(&format!(
        "\n{:>FIRST_WIDTH$} ",
        cut(base.head(), FIRST_WIDTH)
    ));
    for other in others {
        text.push_str(&format!("{:>NEXT_WIDTH$} ", cut(other.head(), NEXT_WIDTH)));
    }
    text.push_str(&format!("\n{} ", "-".repeat(FIRST_WIDTH)));
    for _ in others {
        text.push_str(&format!("{} ", "-".repeat(NEXT_WIDTH)));
    }
    text.push('\n');
    text
}

fn body(text: &mut String, rows: &[Row], others: usize) {
    let heads = |first: &str, next: &str| format!("{first}{}\n", next.repeat(others));
    let mut values_begun = false;
    for (at, row) in rows.iter().enumerate() {
        match &row.cells {
            // Failures come first: see `Order`.
            Cells::Failures(cells) => {
                if at == 0 {
                    text.push_str(&heads("       fail:runs", "  %reproduction    fail:runs"));
                    text.push_str(&heads("           |    ", "         |             |    "));
                }
                text.push_str(&cell::failure_row(&row.key, cells, &row.changes));
            }
            Cells::Values(cells) => {
                if !values_begun {
                    values_begun = true;
                    text.push_str(&heads("         %stddev", "     %change         %stddev"));
                    text.push_str(&heads("             \\  ", "        |                \\  "));
                }
                text.push_str(&value_row(&row.key, cells, &row.changes));
            }
        }
        text.push('\n');
    }
}

fn nothing(considered: usize, hidden: &BTreeMap<Hidden, usize>, select: &Select) -> String {
    let which = match select {
        Select::All => "keys",
        Select::Primary => "primary keys",
        Select::Keys(_) => "chosen keys",
    };
    let mut text = format!("0 of {considered} {which} passed the listing filter");
    if considered == 0 {
        text.push_str(": the results hold none.\n");
        return text;
    }
    text.push_str(":\n");
    for (reason, count) in hidden {
        text.push_str(&format!("{count:>8}  {reason}\n"));
    }
    text.push_str("To list every key, ask for all of them (--all).\n");
    text
}

/// The mean and the spread that LKP prints.
fn cell_of(values: &[f64]) -> LkpCell {
    let mean = stats::mean(values).unwrap_or(0.0);
    let spread = stats::stddev_population(values).filter(|_| values.len() > 1 && mean != 0.0);
    LkpCell {
        mean,
        stddev_percent: spread.map(|stddev| 100.0 * stddev / mean),
    }
}
