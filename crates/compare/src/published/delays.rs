//! Published per-task delays, as `perf sched latency` prints them.
//!
//! Columns: `task`, `model`, `runtime_ms`, `switches`, `avg_delay_ms`,
//! `max_delay_ms`, `sum_delay_ms`; one row a task and run. The row `TOTAL` has
//! no average.

use super::tsv::{Cells, Tsv};
use super::{Printed, PublishedError, Recount};

/// One task in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct DelayFigure {
    /// Line in the file, from 1.
    pub line: usize,
    /// The task, `comm:pid` or `comm:(n)`, or `TOTAL`.
    pub task: String,
    /// What was varied: the preemption model.
    pub model: String,
    /// Time on the CPU, in milliseconds.
    pub runtime_ms: Printed,
    /// How often it was switched to.
    pub switches: u64,
    /// Mean delay from wakeup to running, in milliseconds, where printed.
    pub average_delay_ms: Option<Printed>,
    /// Longest delay, in milliseconds.
    pub max_delay_ms: Printed,
    /// Sum of delays, in milliseconds.
    pub sum_delay_ms: Printed,
}

/// Tasks of several runs.
#[derive(Debug, Clone, PartialEq)]
pub struct DelayFigures {
    /// The rows, in file order.
    pub rows: Vec<DelayFigure>,
}

impl DelayFigures {
    /// Reads a table.
    ///
    /// # Errors
    /// [`PublishedError`] with line and column.
    pub fn parse(text: &str) -> Result<Self, PublishedError> {
        let table = Tsv::read(text)?;
        table.require(&[
            "task",
            "model",
            "runtime_ms",
            "switches",
            "avg_delay_ms",
            "max_delay_ms",
            "sum_delay_ms",
        ])?;
        Ok(Self {
            rows: table.rows().map(figure).collect::<Result<_, _>>()?,
        })
    }

    /// Recomputes every printed sum of delays as average times switches. Skips
    /// rows without an average.
    #[must_use]
    pub fn recount(&self) -> Recount {
        let mut recount = Recount::default();
        for row in &self.rows {
            let Some(average) = &row.average_delay_ms else {
                recount.skipped += 1;
                continue;
            };
            let switches = row.switches as f64;
            let allowed = (average.low * switches, average.high * switches);
            recount.count(
                row.line,
                || format!("{} {}", row.task, row.model),
                &row.sum_delay_ms,
                allowed,
            );
        }
        recount
    }
}

fn figure(cells: Cells<'_, '_>) -> Result<DelayFigure, PublishedError> {
    let number = |column: &str| {
        let printed = Printed::rounded(cells.text(column)).filter(|printed| printed.value >= 0.0);
        printed.ok_or_else(|| cells.bad(column, "milliseconds"))
    };
    let average = match cells.text("avg_delay_ms") {
        "" => None,
        _ => Some(number("avg_delay_ms")?),
    };
    Ok(DelayFigure {
        line: cells.line(),
        task: cells.word("task")?,
        model: cells.word("model")?,
        runtime_ms: number("runtime_ms")?,
        switches: cells
            .text("switches")
            .parse()
            .map_err(|_| cells.bad("switches", "a whole number"))?,
        average_delay_ms: average,
        max_delay_ms: number("max_delay_ms")?,
        sum_delay_ms: number("sum_delay_ms")?,
    })
}
