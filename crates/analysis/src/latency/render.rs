//! The table as text.

use std::fmt::Write;

use super::WakeStart;
use super::report::{DelayStats, LatencyReport, LatencyRow};
use crate::distribution::{Percentiles, histogram_table};
use crate::naming::GroupBy;
use crate::table::{Cell, Column, Table, column, ms, seconds};

/// Shape of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Layout {
    /// At most 120 columns: units in the header, bare figures in the cells.
    #[default]
    Narrow,
    /// The cells of perf (`avg: 0.885 ms`), for scripts that take them apart; a cell `sum: ... ms` stands behind the
    /// maximum. Wider than a terminal, as perf's own.
    Perf,
}

/// How to render.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RenderOptions {
    /// Rows.
    pub group: GroupBy,
    /// Start of delays after a sleep.
    pub start: WakeStart,
    /// Shape.
    pub layout: Layout,
}

impl LatencyReport {
    /// The table of `perf sched latency` with a column for the sum of delays, then notes on what did not fit.
    ///
    /// Ends with a line feed.
    #[must_use]
    pub fn render(&self, options: RenderOptions) -> String {
        let rows = self.rows(options.group, options.start);
        let total = self.total(options.start);
        let mut out = String::new();
        match options.layout {
            Layout::Narrow => narrow(&mut out, &rows, &total),
            Layout::Perf => perf(&mut out, &rows, &total),
        }
        self.notes(&mut out);
        out
    }

    /// What did not fit, and what had not ended.
    fn notes(&self, out: &mut String) {
        for note in self.remarks() {
            let _ = writeln!(out, "  {note}");
        }
    }

    /// What did not fit, and what had not ended, each a line.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut out = self.anomalies.remarks();
        let waiting = self.tasks.iter().filter_map(|t| t.open_wait);
        if let Some(longest) = waiting.clone().max() {
            out.push(format!(
                "{} tasks still waited for a CPU at the end, the longest for {} ms; not in the table",
                waiting.count(),
                ms(longest)
            ));
        }
        out
    }

    /// The rows with all columns, for CSV and JSON, and with percentiles if the distributions were kept.
    #[must_use]
    pub fn table(&self, group: GroupBy, start: WakeStart) -> Table {
        let mut table = Table::new("tasks", COLUMNS);
        for row in self.rows(group, start) {
            let d = row.delays;
            let mut cells = vec![
                Cell::Text(row.name),
                Cell::Count(row.tasks),
                Cell::Length(row.runtime),
                Cell::Count(d.count),
                Cell::Length(d.average().unwrap_or(0)),
                Cell::Length(d.max),
                Cell::Length(d.sum),
                Cell::Time(d.max_start),
                Cell::Time(d.max_end),
                Cell::Count(row.voluntary),
                Cell::Count(row.involuntary),
                Cell::Count(row.migrations),
            ];
            cells.extend(percentile_cells(row.percentiles));
            table.rows.push(cells);
        }
        table
    }

    /// The percentiles as a table of their own, narrow enough for a terminal.
    #[must_use]
    pub fn percentile_table(&self, group: GroupBy, start: WakeStart) -> Table {
        let mut table = Table::new("percentiles", PERCENTILES);
        let mut rows = self.rows(group, start);
        rows.push(self.total(start));
        for row in rows.into_iter().filter(|row| row.delays.count > 0) {
            let mut cells = vec![Cell::Text(row.name), Cell::Count(row.delays.count)];
            cells.extend(percentile_cells(row.percentiles));
            cells.push(Cell::Length(row.delays.max));
            table.rows.push(cells);
        }
        table
    }

    /// All delays by powers of two.
    #[must_use]
    pub fn histogram(&self, start: WakeStart) -> Table {
        let total = self.total(start).distribution.unwrap_or_default();
        histogram_table("histogram", &total)
    }
}

const COLUMNS: &[Column] = &[
    column("task", "Task", ""),
    column("tasks", "Tasks", ""),
    column("runtime_ns", "Runtime", "ms"),
    column("count", "Count", ""),
    column("avg_delay_ns", "Avg delay", "ms"),
    column("max_delay_ns", "Max delay", "ms"),
    column("sum_delay_ns", "Sum delay", "ms"),
    column("max_start_ns", "Max start", "s"),
    column("max_end_ns", "Max end", "s"),
    column("voluntary", "Voluntary", ""),
    column("involuntary", "Involuntary", ""),
    column("migrations", "Migrations", ""),
    column("p50_ns", "p50", "ms"),
    column("p90_ns", "p90", "ms"),
    column("p95_ns", "p95", "ms"),
    column("p99_ns", "p99", "ms"),
    column("p99.9_ns", "p99.9", "ms"),
];

const PERCENTILES: &[Column] = &[
    column("task", "Task", ""),
    column("count", "Count", ""),
    column("p50_ns", "p50", "ms"),
    column("p90_ns", "p90", "ms"),
    column("p95_ns", "p95", "ms"),
    column("p99_ns", "p99", "ms"),
    column("p99.9_ns", "p99.9", "ms"),
    column("max_delay_ns", "Max", "ms"),
];

fn percentile_cells(p: Option<Percentiles>) -> [Cell; 5] {
    match p {
        Some(p) => [p.p50, p.p90, p.p95, p.p99, p.p99_9].map(Cell::Length),
        None => [const { Cell::None }; 5],
    }
}

fn narrow(out: &mut String, rows: &[LatencyRow], total: &LatencyRow) {
    let rule = format!(" {}\n", "-".repeat(117));
    out.push_str(&rule);
    let _ = writeln!(
        out,
        "  {:<23} | {:>11} | {:>6} | {:>9} | {:>9} | {:>11} | {:>13} | {:>13}",
        "Task", "Runtime", "Count", "Avg delay", "Max delay", "Sum delay", "Max start", "Max end"
    );
    let _ = writeln!(
        out,
        "  {:<23} | {:>11} | {:>6} | {:>9} | {:>9} | {:>11} | {:>13} | {:>13}",
        "", "ms", "", "ms", "ms", "ms", "s", "s"
    );
    out.push_str(&rule);
    let mut put = |row: &LatencyRow| {
        let d = &row.delays;
        let _ = writeln!(
            out,
            "  {:<23} | {:>11} | {:>6} | {:>9} | {:>9} | {:>11} | {:>13} | {:>13}",
            row.name,
            ms(row.runtime),
            d.count,
            average_ms(d),
            ms(d.max),
            ms(d.sum),
            seconds(d.max_start),
            seconds(d.max_end),
        );
    };
    for row in rows {
        put(row);
    }
    out.push_str(&rule);
    total_row(out, total, 11, 6, 35);
}

/// Column widths of perf's builtin-sched.c.
fn perf(out: &mut String, rows: &[LatencyRow], total: &LatencyRow) {
    let rule = format!(" {}\n", "-".repeat(158));
    out.push_str(&rule);
    out.push_str(
        "  Task                  |   Runtime ms  |  Count   | Avg delay ms    | Max delay ms    | Sum delay ms      \
         | Max delay start           | Max delay end          |\n",
    );
    out.push_str(&rule);
    for row in rows {
        let d = &row.delays;
        let _ = writeln!(
            out,
            "  {:<21} |{:>11} ms |{:>9} | avg:{:>8} ms | max:{:>8} ms | sum:{:>10} ms | max start: {:>13} s | max \
             end: {:>13} s",
            row.name,
            ms(row.runtime),
            d.count,
            average_ms(d),
            ms(d.max),
            ms(d.sum),
            seconds(d.max_start),
            seconds(d.max_end),
        );
    }
    out.push_str(&rule);
    let _ = writeln!(
        out,
        "  {:<21} |{:>11} ms |{:>9} |                 |                 | sum:{:>10} ms |",
        "TOTAL:",
        ms(total.runtime),
        total.delays.count,
        ms(total.delays.sum)
    );
    out.push_str(&rule);
}

fn total_row(out: &mut String, total: &LatencyRow, runtime: usize, count: usize, sum: usize) {
    let _ = writeln!(
        out,
        "  {:<23} | {:>runtime$} | {:>count$} | {:>sum$} |",
        "TOTAL:",
        ms(total.runtime),
        total.delays.count,
        ms(total.delays.sum),
    );
    let _ = writeln!(out, " {}", "-".repeat(117));
}

fn average_ms(delays: &DelayStats) -> String {
    ms(delays.average().unwrap_or(0))
}
