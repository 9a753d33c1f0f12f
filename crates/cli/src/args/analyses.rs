//! Options of the commands that read a trace.

use std::path::PathBuf;

use clap::ValueEnum;

/// Which of repeated wake events counts.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug, Default)]
pub(crate) enum WakeupChoice {
    /// The first: the task has been waiting since then.
    #[default]
    First,
    /// The last one before the task runs.
    Last,
}

/// What all of them have.
#[derive(clap::Args, Debug)]
pub(crate) struct TraceArgs {
    /// The trace: a recording in any format that schedlab reads, or a simulated one; - for standard input.
    pub(crate) file: PathBuf,
    /// Which wake event begins a wait if a task that waits is woken again.
    #[arg(long, value_enum, default_value_t, value_name = "WHICH")]
    pub(crate) wakeup: WakeupChoice,
    /// Count a delay from sched_wakeup (on the run queue) instead of sched_waking (called for).
    #[arg(long)]
    pub(crate) from_wakeup: bool,
    /// Count delays and runs that contradict other events, too.
    #[arg(long)]
    pub(crate) with_doubtful: bool,
    /// Print JSON.
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print CSV, times in ns.
    #[arg(long)]
    pub(crate) csv: bool,
}

/// Which tasks, and how they share rows.
#[derive(clap::Args, Debug)]
pub(crate) struct RowArgs {
    /// One row per thread instead of per name.
    #[arg(long)]
    pub(crate) per_thread: bool,
    /// Only tasks of this name or number. May be repeated.
    #[arg(long, value_name = "NAME|PID")]
    pub(crate) task: Vec<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct LatencyArgs {
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    /// One row per thread instead of per name.
    #[arg(long)]
    pub(crate) per_thread: bool,
    /// Add percentiles of the delays, to p99.9.
    #[arg(long)]
    pub(crate) percentiles: bool,
    /// Add a histogram of all delays by powers of two.
    #[arg(long)]
    pub(crate) histogram: bool,
    /// Cells as perf sched latency prints them ("avg: 0.885 ms"), for scripts that take them apart.
    #[arg(long)]
    pub(crate) perf_cells: bool,
}

// -V is perf's letter for the visual column.
#[derive(clap::Args, Debug)]
#[command(disable_version_flag = true)]
pub(crate) struct TimehistArgs {
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    /// Show wake events.
    #[arg(short = 'w', long)]
    pub(crate) wakeups: bool,
    /// Show migrations.
    #[arg(short = 'M', long)]
    pub(crate) migrations: bool,
    /// Show the task that comes next.
    #[arg(short = 'n', long)]
    pub(crate) next: bool,
    /// Show the state of the task that leaves.
    #[arg(long)]
    pub(crate) state: bool,
    /// Show a column for each CPU: s a switch, i the end of idle time, m a migration.
    #[arg(short = 'V', long)]
    pub(crate) cpu_visual: bool,
    /// Print only a summary of run times.
    #[arg(short = 's', long)]
    pub(crate) summary: bool,
    /// Print the summary behind the lines.
    #[arg(short = 'S', long, conflicts_with = "summary")]
    pub(crate) with_summary: bool,
    /// Only lines about tasks of this name or number. May be repeated.
    #[arg(
        short = 't',
        long = "task",
        visible_alias = "tid",
        value_name = "NAME|PID"
    )]
    pub(crate) task: Vec<String>,
    /// Only this part of the trace, in seconds as the lines print them; either end may be left out, as in 12.5,12.75 or ,12.75.
    #[arg(long, value_name = "START,STOP")]
    pub(crate) time: Option<String>,
    /// Only these CPUs, as 0-3,8.
    #[arg(short = 'C', long = "cpu", value_name = "CPUS")]
    pub(crate) cpu: Option<String>,
    /// Only switches from and to idle tasks; the summary tells how long CPUs were idle after each task.
    #[arg(short = 'I', long, conflicts_with_all = ["wakeups", "migrations"])]
    pub(crate) idle_hist: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct MapArgs {
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    /// Columns only for CPUs that switch, in the order in which they begin to.
    #[arg(long)]
    pub(crate) compact: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct RunqArgs {
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    /// Add mean lengths over steps of this time, as 10ms; with --csv these are what is printed.
    #[arg(long, value_name = "TIME")]
    pub(crate) interval: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct MigrationsArgs {
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
}

#[derive(clap::Args, Debug)]
pub(crate) struct AntagonistsArgs {
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
    /// How many waiting tasks (or names), those with the longest sum of delays first; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// How many antagonists of each; the others share a row; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) each: usize,
}

#[derive(clap::Args, Debug)]
pub(crate) struct PreemptedArgs {
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
}
