//! The summary: run times per task, idle times per CPU.

use std::fmt::Write;

use serde_json::json;

use super::TimehistOptions;
use super::format::{TimehistForm, ms, task_name};
use crate::history::{History, TaskId, TaskState};

/// Run times of a task.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    count: u64,
    sum: u64,
    /// Of squares.
    squares: u128,
    min: u64,
    max: u64,
    pub(super) migrations: u64,
}

impl Sums {
    pub(super) fn add(&mut self, run: u64) {
        self.min = if self.count == 0 {
            run
        } else {
            self.min.min(run)
        };
        self.max = self.max.max(run);
        self.count += 1;
        self.sum = self.sum.saturating_add(run);
        self.squares = self.squares.saturating_add(u128::from(run).pow(2));
    }

    /// Standard error of the mean in percent of the mean, which is what perf prints as stddev.
    fn relative_error(&self) -> f64 {
        if self.count < 2 || self.sum == 0 {
            return 0.0;
        }
        let (n, sum) = (u128::from(self.count), u128::from(self.sum));
        // n times the sum of squared deviations: whole numbers as long as they fit.
        let spread = n
            .saturating_mul(self.squares)
            .saturating_sub(sum.saturating_mul(sum));
        let n = self.count as f64;
        let variance = spread as f64 / n / (n - 1.0);
        100.0 * (variance / n).sqrt() / (self.sum as f64 / n)
    }
}

pub(super) struct Totals {
    /// Idle time by CPU.
    pub(super) idle: Vec<(u32, u64)>,
    pub(super) switches: u64,
    /// From the first to the last switch.
    pub(super) window: u64,
}

pub(super) fn write<'a>(
    options: &TimehistOptions,
    history: &History,
    tasks: impl Iterator<Item = (TaskId, &'a Sums)>,
    totals: &Totals,
    out: &mut String,
) {
    let mut shown: Vec<(TaskId, &Sums)> = tasks
        .filter(|&(id, sums)| sums.count > 0 && options.filter.matches(history.task(id)))
        .collect();
    shown.sort_by_key(|&(id, _)| history.task(id).pid);
    if options.form != TimehistForm::Text {
        return machine(options, history, &shown, totals, out);
    }
    if options.with_summary {
        out.push('\n');
    }
    let (title, names) = if options.idle_only {
        (
            "Idle-time",
            "sched-out    idle-time   min-idle    avg-idle    max-idle",
        )
    } else {
        (
            "Runtime",
            " sched-in     run-time    min-run     avg-run     max-run",
        )
    };
    let _ = write!(
        out,
        "\n{title} summary\n{:>30}  parent  {names}  stddev  \
         migrations\n{:>30}            (count)       (msec)     (msec)      (msec)      (msec)       %\n{:-<117}\n",
        "comm", "", ""
    );
    let dead = |id: TaskId| matches!(history.task(id).state, TaskState::Dead);
    for &(id, sums) in shown.iter().filter(|&&(id, _)| !dead(id)) {
        row(options, history, id, sums, out);
    }
    if shown.iter().any(|&(id, _)| dead(id)) {
        out.push_str("\nTerminated tasks:\n");
        for &(id, sums) in shown.iter().filter(|&&(id, _)| dead(id)) {
            row(options, history, id, sums, out);
        }
    }
    out.push_str("\nIdle stats:\n");
    for &(cpu, idle) in &totals.idle {
        let share = 100.0 * idle as f64 / totals.window.max(1) as f64;
        let _ = writeln!(
            out,
            "    CPU {cpu:>2} idle for {:>10}  msec  ({share:>6.2}%)",
            ms(idle)
        );
    }
    let run: u64 = shown.iter().map(|(_, sums)| sums.sum).sum();
    let _ = write!(
        out,
        "\n    Total number of unique tasks: {}\nTotal number of context switches: {}\n           Total run time (msec): \
         {} \n    Total scheduling time (msec): {}  (x {})\n",
        shown.len(),
        totals.switches,
        ms(run),
        ms(totals.window),
        totals.idle.len()
    );
}

fn row(options: &TimehistOptions, history: &History, id: TaskId, sums: &Sums, out: &mut String) {
    let task = history.task(id);
    let _ = writeln!(
        out,
        "{:>30}  {:>6}  {:>9}    {:>9}  {:>9}   {:>9}   {:>9}  {:>6.2}   {:>5}",
        task_name(task.comm, task.pid),
        task.parent.unwrap_or(-1),
        sums.count,
        ms(sums.sum),
        ms(sums.min),
        ms(sums.sum / sums.count),
        ms(sums.max),
        sums.relative_error(),
        if options.migrations {
            sums.migrations
        } else {
            0
        },
    );
}

/// One JSON object, or a second CSV table after an empty line.
fn machine(
    options: &TimehistOptions,
    history: &History,
    shown: &[(TaskId, &Sums)],
    totals: &Totals,
    out: &mut String,
) {
    if options.form == TimehistForm::Csv {
        if options.with_summary {
            out.push('\n');
        }
        out.push_str(
            "comm,tid,parent,switches_out,run_ns,min_ns,max_ns,stderr_percent,migrations\n",
        );
    }
    let mut rows = Vec::new();
    for &(id, sums) in shown {
        let task = history.task(id);
        let error = (sums.relative_error() * 100.0).round() / 100.0;
        if options.form == TimehistForm::Csv {
            let parent = task.parent.map(|p| p.to_string()).unwrap_or_default();
            let _ = writeln!(
                out,
                "{},{},{parent},{},{},{},{},{error},{}",
                super::format::quoted(&task.comm.to_string()),
                task.pid,
                sums.count,
                sums.sum,
                sums.min,
                sums.max,
                sums.migrations
            );
        } else {
            rows.push(json!({
                "comm": task.comm.to_string(), "tid": task.pid, "parent": task.parent, "switches_out": sums.count,
                "run_ns": sums.sum, "min_ns": sums.min, "max_ns": sums.max, "stderr_percent": error,
                "migrations": sums.migrations, "ended": matches!(task.state, TaskState::Dead),
            }));
        }
    }
    if options.form == TimehistForm::Json {
        let idle: Vec<_> = totals
            .idle
            .iter()
            .map(|(cpu, ns)| json!({"cpu": cpu, "idle_ns": ns}))
            .collect();
        let value = json!({
            "what": "summary", "tasks": rows, "idle": idle, "switches": totals.switches, "window_ns": totals.window,
        });
        let _ = writeln!(out, "{value}");
    }
}
