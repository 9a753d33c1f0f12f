//! Arguments of the commands that compare results.

use std::path::PathBuf;

use clap::ValueEnum;

/// How a comparison is printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub(crate) enum Format {
    /// The kernel test robot's table.
    Lkp,
    /// `value[pct imp](CV)`, one row a metric.
    Normalized,
    /// A table for a pull request or an issue.
    Markdown,
    /// One line a metric and variant, for spreadsheets.
    Csv,
    /// Everything, each run's value included.
    Json,
}

/// How the interval of a difference is made.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub(crate) enum IntervalChoice {
    /// Welch's, from Student's distribution.
    Welch,
    /// Percentiles of resampled means, widened for few runs.
    Bootstrap,
}

#[derive(clap::Args, Debug)]
pub(crate) struct CompareArgs {
    /// Stored results (results.json of `study --out`), or output of `run --json` or `study --json`. A folder is one
    /// variant: the JSON files in it are its runs. NAME=PATH names the variant.
    #[arg(required = true, value_name = "RESULTS")]
    pub(crate) results: Vec<PathBuf>,
    /// The table.
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "lkp")]
    pub(crate) format: Format,
    /// The variant that the others are held against, instead of the first.
    #[arg(long, value_name = "VARIANT")]
    pub(crate) base: Option<String>,
    /// List every metric, not only those that changed.
    #[arg(long)]
    pub(crate) all: bool,
    /// Say in a line each what the marks of the table mean.
    #[arg(long)]
    pub(crate) legend: bool,
    /// End with exit code 1 if a primary metric is worse by more than this many percent.
    #[arg(long, value_name = "PERCENT")]
    pub(crate) threshold: Option<f64>,
    /// Half-width of "same", in percent of the base's mean.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub(crate) same_within: f64,
    /// Level of the intervals, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 95.0)]
    pub(crate) confidence: f64,
    /// How the intervals are made.
    #[arg(long, value_enum, value_name = "KIND", default_value = "welch")]
    pub(crate) interval: IntervalChoice,
    /// Seed of the bootstrap's draws.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}
