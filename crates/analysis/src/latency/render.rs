//! The table as text.

use std::fmt::Write;

use super::WakeStart;
use super::report::{DelayStats, GroupBy, LatencyReport, LatencyRow};

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

    fn notes(&self, out: &mut String) {
        let a = &self.anomalies;
        let mut note = |count: u64, text: &str| {
            if count > 0 {
                let _ = writeln!(out, "  {count} {text}");
            }
        };
        note(
            a.order.reordered,
            "events were out of order and were sorted",
        );
        note(
            a.order.late,
            "of them came too late for the sorting window and were taken as they came",
        );
        note(
            a.missing_switches,
            "switches are missing: another task ran than was switched in (lost events?)",
        );
        note(
            a.inferred_switches,
            "of them were inferred from sched_stat_runtime",
        );
        note(a.on_two_cpus, "times a task was on two CPUs at once");
        note(
            a.missing_wakeups,
            "sleeping tasks ran without a wake event; no delay is counted for them",
        );
        note(a.negative, "negative times were left out");
        if a.unattributed > 0 {
            let _ = writeln!(
                out,
                "  {} ms of CPU time for these reasons belong to no task",
                ms(a.unattributed)
            );
        }
        let waiting = self.tasks.iter().filter_map(|t| t.open_wait);
        if let Some(longest) = waiting.clone().max() {
            let _ = writeln!(
                out,
                "  {} tasks still waited for a CPU at the end, the longest for {} ms; not in the table",
                waiting.count(),
                ms(longest)
            );
        }
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

/// Milliseconds with three decimals, rounded.
fn ms(ns: u64) -> String {
    let micros = ns / 1000 + u64::from(ns % 1000 >= 500);
    format!("{}.{:03}", micros / 1000, micros % 1000)
}

/// Seconds with six decimals, rounded.
fn seconds(ns: u64) -> String {
    let micros = ns / 1000 + u64::from(ns % 1000 >= 500);
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn average_ms(delays: &DelayStats) -> String {
    ms(delays.average().unwrap_or(0))
}
