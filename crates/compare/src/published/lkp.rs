//! Published LKP comparisons.
//!
//! Columns: `metric`, `base`, `base_stddev_pct`, then for every variant
//! `change`, `value`, `stddev_pct` with the variant's name as suffix where there
//! are several (`change_a`, `value_a`, `stddev_a_pct`); `test` and `machine`
//! where the file holds several reports.

use super::tsv::{Cells, Tsv};
use super::{Printed, PrintedChange, PublishedError, Recount};
use crate::lkp::LkpCell;
use crate::metric::is_share;

/// An average and its spread as printed.
#[derive(Debug, Clone, PartialEq)]
pub struct PrintedCell {
    /// The average.
    pub average: Printed,
    /// The spread in whole percent (cut), where one is printed: above 2 %.
    pub stddev_percent: Option<u32>,
}

impl PrintedCell {
    /// The cell that prints the same.
    #[must_use]
    pub fn as_cell(&self) -> LkpCell {
        // A spread of 2.5 prints as 2: the cut part is unknown, the text is not.
        let stddev_percent = self.stddev_percent.map(|percent| f64::from(percent) + 0.5);
        LkpCell {
            mean: self.average.value,
            stddev_percent,
        }
    }
}

/// One variant of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct PrintedVariant {
    /// The suffix of its columns, empty when there is one variant.
    pub name: String,
    /// The change from the base.
    pub change: PrintedChange,
    /// The average and spread.
    pub cell: PrintedCell,
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct LkpFigure {
    /// Line in the file, from 1.
    pub line: usize,
    /// Which report, where the file holds several.
    pub test: Option<String>,
    /// Which machine, where the file holds several.
    pub machine: Option<String>,
    /// The metric.
    pub metric: String,
    /// The base's cell.
    pub base: PrintedCell,
    /// The others.
    pub variants: Vec<PrintedVariant>,
}

/// A table of LKP rows.
#[derive(Debug, Clone, PartialEq)]
pub struct LkpFigures {
    /// Names of the variants, in column order.
    pub variants: Vec<String>,
    /// The rows, in file order.
    pub rows: Vec<LkpFigure>,
}

impl LkpFigures {
    /// Reads a table.
    ///
    /// # Errors
    /// [`PublishedError`] with line and column.
    pub fn parse(text: &str) -> Result<Self, PublishedError> {
        let table = Tsv::read(text)?;
        table.require(&["metric", "base", "base_stddev_pct"])?;
        let names: Vec<&str> = table
            .columns()
            .iter()
            .filter_map(|c| c.strip_prefix("change"))
            .collect();
        if names.is_empty() {
            table.require(&["change"])?;
        }
        for name in &names {
            table.require(&[&format!("value{name}"), &format!("stddev{name}_pct")])?;
        }
        let rows = table
            .rows()
            .map(|cells| figure(cells, &names))
            .collect::<Result<_, _>>()?;
        let variants = names
            .iter()
            .map(|name| name.trim_start_matches('_').to_owned())
            .collect();
        Ok(Self { variants, rows })
    }

    /// Recomputes every printed change from the printed base and value, and
    /// checks that it is absolute exactly for shares.
    #[must_use]
    pub fn recount(&self) -> Recount {
        let mut recount = Recount::default();
        for row in &self.rows {
            for variant in &row.variants {
                let (base, value) = (&row.base.average, &variant.cell.average);
                let allowed = if is_share(&row.metric) == variant.change.relative {
                    // The wrong kind of change: nothing is allowed.
                    (f64::INFINITY, f64::NEG_INFINITY)
                } else if variant.change.relative {
                    value.percent_of(base)
                } else {
                    value.minus(base)
                };
                let what = || {
                    format!("{} {}", row.metric, variant.name)
                        .trim_end()
                        .to_owned()
                };
                recount.count(row.line, what, &variant.change.number, allowed);
            }
        }
        recount
    }
}

fn figure(cells: Cells<'_, '_>, names: &[&str]) -> Result<LkpFigure, PublishedError> {
    let optional = |column: &str| {
        Some(cells.text(column))
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let variants = names.iter().map(|name| {
        let column = format!("change{name}");
        let change = PrintedChange::parse(cells.text(&column))
            .ok_or_else(|| cells.bad(&column, "a change such as -13.1% or +0.3"))?;
        let cell = cell(cells, &format!("value{name}"), &format!("stddev{name}_pct"))?;
        Ok(PrintedVariant {
            name: name.trim_start_matches('_').to_owned(),
            change,
            cell,
        })
    });
    Ok(LkpFigure {
        line: cells.line(),
        test: optional("test"),
        machine: optional("machine"),
        metric: cells.word("metric")?,
        base: cell(cells, "base", "base_stddev_pct")?,
        variants: variants.collect::<Result<_, _>>()?,
    })
}

fn cell(cells: Cells<'_, '_>, average: &str, stddev: &str) -> Result<PrintedCell, PublishedError> {
    let printed = Printed::lkp_average(cells.text(average))
        .ok_or_else(|| cells.bad(average, "a number such as 3.35, 36869 or 1.654e+08"))?;
    let stddev_percent = match cells.text(stddev) {
        "" => None,
        text => Some(
            text.parse()
                .map_err(|_| cells.bad(stddev, "whole percent, or nothing"))?,
        ),
    };
    Ok(PrintedCell {
        average: printed,
        stddev_percent,
    })
}
