//! Published normalized tables.
//!
//! Columns: `base`, `benchmark`, `statistic`, `interpretation`, `case`,
//! `variant`, `value`, `pct_improvement`, `cv_pct`. The value is normalized to
//! the base variant's, or raw where the interpretation is `raw`; the improvement
//! is positive when better.

use super::tsv::{Cells, Tsv};
use super::{Printed, PublishedError, Recount};
use crate::metric::Direction;

/// The name of the variant the others are normalized to.
const BASE: &str = "base";

/// How a value is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interpretation {
    /// Normalized, more is better.
    HigherIsBetter,
    /// Normalized, less is better.
    LowerIsBetter,
    /// As measured.
    Raw,
}

/// One cell of a printed table.
#[derive(Debug, Clone, PartialEq)]
pub struct NormalizedFigure {
    /// Line in the file, from 1.
    pub line: usize,
    /// Which kernel the variants stand on.
    pub base: String,
    /// The benchmark.
    pub benchmark: String,
    /// The statistic: `AMean`, `HMean`, `Median`.
    pub statistic: String,
    /// How to read the value.
    pub interpretation: Interpretation,
    /// The case: groups, clients, workers.
    pub case: String,
    /// The variant.
    pub variant: String,
    /// The value, where printed.
    pub value: Option<Printed>,
    /// Improvement over the base variant in percent, positive when better.
    pub improvement_percent: Option<Printed>,
    /// Coefficient of variation in percent.
    pub cv_percent: Option<Printed>,
}

impl NormalizedFigure {
    /// Which way is better. Of raw values a harmonic mean says more, any other
    /// mean less (the rule of mmtests, whose tables they are from).
    #[must_use]
    pub fn direction(&self) -> Direction {
        match self.interpretation {
            Interpretation::HigherIsBetter => Direction::BetterHigh,
            Interpretation::LowerIsBetter => Direction::BetterLow,
            Interpretation::Raw if self.statistic.eq_ignore_ascii_case("hmean") => {
                Direction::BetterHigh
            }
            Interpretation::Raw => Direction::BetterLow,
        }
    }

    /// Whether `other` is another variant of the same case.
    fn same_case(&self, other: &Self) -> bool {
        self.base == other.base && self.benchmark == other.benchmark && self.case == other.case
    }
}

/// Cells of normalized tables.
#[derive(Debug, Clone, PartialEq)]
pub struct NormalizedFigures {
    /// The cells, in file order.
    pub rows: Vec<NormalizedFigure>,
}

impl NormalizedFigures {
    /// Reads a table.
    ///
    /// # Errors
    /// [`PublishedError`] with line and column.
    pub fn parse(text: &str) -> Result<Self, PublishedError> {
        let table = Tsv::read(text)?;
        table.require(&[
            "base",
            "benchmark",
            "statistic",
            "interpretation",
            "case",
            "variant",
            "value",
            "pct_improvement",
            "cv_pct",
        ])?;
        Ok(Self {
            rows: table.rows().map(figure).collect::<Result<_, _>>()?,
        })
    }

    /// Recomputes every printed improvement from the printed value, for raw
    /// values with the base variant's. Skips what is not printed.
    #[must_use]
    pub fn recount(&self) -> Recount {
        let one = Printed {
            text: "1".to_owned(),
            value: 1.0,
            low: 1.0,
            high: 1.0,
        };
        let mut recount = Recount::default();
        for row in &self.rows {
            let base = match row.interpretation {
                // By definition exactly one, however it is printed.
                Interpretation::HigherIsBetter | Interpretation::LowerIsBetter => Some(&one),
                Interpretation::Raw => {
                    let base = self
                        .rows
                        .iter()
                        .find(|other| other.variant == BASE && row.same_case(other));
                    base.and_then(|base| base.value.as_ref())
                }
            };
            let (Some(base), Some(value), Some(printed)) =
                (base, &row.value, &row.improvement_percent)
            else {
                recount.skipped += 1;
                continue;
            };
            let (low, high) = value.percent_of(base);
            let allowed = if row.direction() == Direction::BetterLow {
                (-high, -low)
            } else {
                (low, high)
            };
            let what = || {
                format!(
                    "{} {} {} {}",
                    row.base, row.benchmark, row.case, row.variant
                )
            };
            recount.count(row.line, what, printed, allowed);
        }
        recount
    }
}

fn figure(cells: Cells<'_, '_>) -> Result<NormalizedFigure, PublishedError> {
    let interpretation = match cells.text("interpretation") {
        "Higher is better" => Interpretation::HigherIsBetter,
        "Lower is better" => Interpretation::LowerIsBetter,
        "raw" => Interpretation::Raw,
        _ => {
            return Err(cells.bad(
                "interpretation",
                "`Higher is better`, `Lower is better` or `raw`",
            ));
        }
    };
    let printed = |column: &str| match cells.text(column) {
        "" => Ok(None),
        text => Printed::rounded(text)
            .map(Some)
            .ok_or_else(|| cells.bad(column, "a number, or nothing")),
    };
    Ok(NormalizedFigure {
        line: cells.line(),
        base: cells.word("base")?,
        benchmark: cells.word("benchmark")?,
        statistic: cells.word("statistic")?,
        interpretation,
        case: cells.word("case")?,
        variant: cells.word("variant")?,
        value: printed("value")?,
        improvement_percent: printed("pct_improvement")?,
        cv_percent: printed("cv_pct")?,
    })
}
