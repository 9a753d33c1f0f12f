//! The normalized table of scheduler threads: `value[pct imp](CV)`.
//!
//! One row a case (groups, clients), one column a variant. A cell is the mean
//! over the base's mean (the base is 1.00), the improvement in percent (positive
//! is better, whichever way the metric goes) and the coefficient of variation in
//! percent: `%.2f [%6.2f](%5.2f)`.
//!
//! The spread is the sample standard deviation over the mean. A cell without a
//! value, or over a base of zero, is `-`.

use thiserror::Error;

use crate::metric::Direction;
use crate::results::ResultSet;

/// Narrowest that a cell is printed, with the blanks before it.
const CELL_WIDTH: usize = 25;
const RULE: &str = "==================================================================";

/// Why there is no table.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NormalizedError {
    /// No case.
    #[error("no case to print: expected one or more results")]
    NoCase,
    /// A case without the metric.
    #[error("case `{case}`: metric `{key}` is not among its results")]
    NoMetric {
        /// The case.
        case: String,
        /// The key.
        key: String,
    },
    /// A metric nobody says the good direction of.
    #[error("metric `{key}`: which way is better is not known, so no improvement can be told")]
    NoDirection {
        /// The key.
        key: String,
    },
    /// Cases that are not about the same thing.
    #[error(
        "case `{case}` differs from the first in its {what}: unlike things are not put in one table"
    )]
    Differs {
        /// The case.
        case: String,
        /// In what.
        what: &'static str,
    },
}

/// One cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormalizedCell {
    /// Mean over the base's mean.
    pub value: f64,
    /// Improvement over the base in percent, positive when better.
    pub improvement_percent: f64,
    /// Coefficient of variation in percent; absent for one run.
    pub cv_percent: Option<f64>,
}

impl NormalizedCell {
    /// The cell of a mean over a base's mean; `None` when there is no ratio.
    #[must_use]
    pub fn new(
        mean: f64,
        base: f64,
        cv_percent: Option<f64>,
        direction: Direction,
    ) -> Option<Self> {
        let value = mean / base;
        let gain = 100.0 * (value - 1.0);
        // Of a base that is better low this is -0.00, as the tables print it.
        let improvement_percent = if direction == Direction::BetterLow {
            -gain
        } else {
            gain
        };
        (value.is_finite() && improvement_percent.is_finite()).then_some(Self {
            value,
            improvement_percent,
            cv_percent,
        })
    }
}

impl std::fmt::Display for NormalizedCell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} [{:6.2}]", self.value, self.improvement_percent)?;
        match self.cv_percent {
            Some(cv) => write!(f, "({cv:5.2})"),
            None => write!(f, "(    -)"),
        }
    }
}

/// A table of one metric over several cases.
#[derive(Debug, Clone, PartialEq)]
pub struct NormalizedTable {
    /// What the first block calls the test.
    pub test: String,
    /// What it calls the units, after `Normalized`.
    pub units: String,
    /// Which way is better; known.
    pub direction: Direction,
    /// What heads the column of cases: `Case:`, `Clients:`.
    pub case_head: String,
    /// Names of the variants, the base first.
    pub variants: Vec<String>,
    /// The cases with one cell a variant.
    pub rows: Vec<(String, Vec<Option<NormalizedCell>>)>,
}

impl NormalizedTable {
    /// Builds the table of one metric from the results of every case.
    ///
    /// All cases have the same variants in the same order, the first is the
    /// base, and declare the metric alike.
    ///
    /// # Errors
    /// [`NormalizedError`].
    pub fn of(
        test: &str,
        key: &str,
        cases: &[(&str, &ResultSet)],
    ) -> Result<Self, NormalizedError> {
        let metric = |case: &str, set: &ResultSet| {
            let missing = || NormalizedError::NoMetric {
                case: case.to_owned(),
                key: key.to_owned(),
            };
            set.metric(key).cloned().ok_or_else(missing)
        };
        let names = |set: &ResultSet| {
            set.variants()
                .iter()
                .map(|v| v.name().to_owned())
                .collect::<Vec<_>>()
        };
        let (first_case, first) = *cases.first().ok_or(NormalizedError::NoCase)?;
        let (like, variants) = (metric(first_case, first)?, names(first));
        if like.direction == Direction::Unknown {
            return Err(NormalizedError::NoDirection {
                key: key.to_owned(),
            });
        }
        let mut rows = Vec::new();
        for (case, set) in cases {
            let differs = |what| NormalizedError::Differs {
                case: (*case).to_owned(),
                what,
            };
            if metric(case, set)? != like {
                return Err(differs("metric"));
            }
            if names(set) != variants {
                return Err(differs("variants"));
            }
            let all: Vec<_> = set
                .variants()
                .iter()
                .map(|v| v.samples(key).summary())
                .collect();
            let base = all.first().and_then(|summary| summary.mean);
            let cells = all.iter().map(|summary| {
                NormalizedCell::new(summary.mean?, base?, summary.cv_percent, like.direction)
            });
            rows.push(((*case).to_owned(), cells.collect()));
        }
        Ok(Self {
            test: test.to_owned(),
            units: like.unit,
            direction: like.direction,
            case_head: "Case:".to_owned(),
            variants,
            rows,
        })
    }

    /// The table as text, each line ended.
    #[must_use]
    pub fn render(&self) -> String {
        let better = if self.direction == Direction::BetterLow {
            "Lower"
        } else {
            "Higher"
        };
        let units = if self.units.is_empty() {
            "value"
        } else {
            &self.units
        };
        let mut text = format!(
            "{RULE}\nTest          : {}\nUnits         : Normalized {units}\nInterpretation: {better} is better\n\
             Statistic     : AMean\n{RULE}\n",
            self.test
        );
        let heads: Vec<String> = self
            .variants
            .iter()
            .map(|name| format!("{name}[pct imp](CV)"))
            .collect();
        let width = |text: &str| text.chars().count();
        let first = self
            .rows
            .iter()
            .map(|(case, _)| width(case))
            .chain([width(&self.case_head)])
            .max();
        let first = first.unwrap_or(0);
        let widths: Vec<usize> = heads
            .iter()
            .enumerate()
            .map(|(at, head)| {
                let cells = self
                    .rows
                    .iter()
                    .filter_map(|(_, cells)| cells.get(at).copied().flatten());
                let cells = cells
                    .map(|cell| width(&cell.to_string()) + 4)
                    .max()
                    .unwrap_or(0);
                CELL_WIDTH.max(width(head) + 2).max(cells)
            })
            .collect();
        text.push_str(&format!("{:<first$}", self.case_head));
        for (head, width) in heads.iter().zip(&widths) {
            text.push_str(&format!("{head:>width$}"));
        }
        text.push('\n');
        for (case, cells) in &self.rows {
            text.push_str(&format!("{case:>first$}"));
            for (cell, width) in cells.iter().zip(&widths) {
                let cell = cell.map_or("-".to_owned(), |cell| cell.to_string());
                text.push_str(&format!("{cell:>width$}"));
            }
            text.push('\n');
        }
        text
    }
}
