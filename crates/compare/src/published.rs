//! Figures that others printed, read back.
//!
//! The tables are tab-separated with the column names in the first line, one
//! printed table a file. Three shapes are known: LKP comparisons
//! ([`LkpFigures`]), normalized tables ([`NormalizedFigures`]) and per-task
//! delays ([`DelayFigures`]).
//!
//! A printed number stands for all the numbers that print like it
//! ([`Printed`]), so a change that was printed can be checked against the base
//! and value printed beside it, without a tolerance picked by hand: each shape
//! has a `recount` that lists what does not follow.

mod delays;
mod lkp;
mod normalized;
mod printed;
mod tsv;

pub use delays::{DelayFigure, DelayFigures};
pub use lkp::{LkpFigure, LkpFigures, PrintedCell, PrintedVariant};
pub use normalized::{Interpretation, NormalizedFigure, NormalizedFigures};
pub use printed::{Printed, PrintedChange};

use thiserror::Error;

/// What is wrong with a table of figures.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishedError {
    /// No first line.
    #[error("the table is empty: expected column names in line 1")]
    Empty,
    /// A column that must be there is not.
    #[error("line 1: no column `{column}`: there are {}", found.join(", "))]
    NoColumn {
        /// The column expected.
        column: String,
        /// The columns there are.
        found: Vec<String>,
    },
    /// One column name twice.
    #[error("line 1: column `{column}` is there twice")]
    ColumnTwice {
        /// The name.
        column: String,
    },
    /// A row with too few or too many cells.
    #[error("line {line}: {found} cells: expected {expected}, separated by tabs")]
    Width {
        /// Line, from 1.
        line: usize,
        /// Cells there are.
        found: usize,
        /// Cells there should be.
        expected: usize,
    },
    /// A cell that is not what its column holds.
    #[error("line {line}, column `{column}`: {text:?}: expected {expected}")]
    Cell {
        /// Line, from 1.
        line: usize,
        /// Column name.
        column: String,
        /// What is there.
        text: String,
        /// What should be.
        expected: &'static str,
    },
}

/// What came of recomputing the changes of a table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recount {
    /// Figures that could be recomputed.
    pub checked: usize,
    /// Figures whose base or value is not printed.
    pub skipped: usize,
    /// Those that do not follow from what is printed beside them.
    pub differing: Vec<Differs>,
}

/// A printed figure that does not follow from its neighbours.
#[derive(Debug, Clone, PartialEq)]
pub struct Differs {
    /// Line, from 1.
    pub line: usize,
    /// Which figure: metric and variant.
    pub what: String,
    /// What is printed.
    pub printed: String,
    /// Lowest that the neighbours allow.
    pub low: f64,
    /// Highest that they allow.
    pub high: f64,
}

impl Recount {
    /// Counts `printed` (with the range it stands for) against the range that
    /// its neighbours allow.
    fn count(
        &mut self,
        line: usize,
        what: impl FnOnce() -> String,
        printed: &Printed,
        allowed: (f64, f64),
    ) {
        self.checked += 1;
        // The last digits of the computation itself.
        let slack = |edge: f64| {
            if edge.is_finite() {
                1e-9 * edge.abs().max(1.0)
            } else {
                0.0
            }
        };
        let (low, high) = (allowed.0 - slack(allowed.0), allowed.1 + slack(allowed.1));
        if printed.high < low || printed.low > high {
            let printed = printed.text.clone();
            self.differing.push(Differs {
                line,
                what: what(),
                printed,
                low: allowed.0,
                high: allowed.1,
            });
        }
    }
}
