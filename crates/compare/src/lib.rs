//! Samples, statistics and comparison tables as the kernel lists use them.
//!
//! From the bottom up:
//!
//! * [`metric`]: what was measured. A [`MetricKey`] is `program.metric`; a
//!   [`Metric`] adds unit, direction and whether it is a headline or a side
//!   figure.
//! * [`results`]: a [`ResultSet`] holds variants in order, each with its runs.
//!   **The run is the unit of replication**: one run gives one number per
//!   metric, whatever it averaged inside.
//! * [`merge`]: several stored results side by side.
//! * [`samples`], [`stats`] and [`welch`]: the numbers of one metric in one
//!   variant, what describes them, and the interval of a difference.
//! * [`evidence`]: rank test, effect size, power, many metrics, outliers, drift,
//!   modes, the bootstrap.
//! * [`mod@compare`] and [`verdict`]: every metric of every variant against the
//!   base, with what may be concluded, as JSON.
//! * [`lkp`] and [`normalized`]: the two tables that scheduler threads print.
//! * [`formats`]: Markdown, CSV and others of the same comparison.
//! * [`published`]: tables of figures printed elsewhere, read back and
//!   recomputed.
//! * [`table`]: plain aligned text, for everything that has no layout of its own.
//!
//! Nothing here reads a clock, a file or the environment, and no result depends
//! on the order of a hash: the same results give the same bytes.
//!
//! ```
//! use schedlab_compare::{Direction, Metric, ResultSet, Run, Variant, compare, lkp};
//!
//! let mut set = ResultSet::new("commit");
//! set.declare(Metric::new("hackbench.throughput")?.with_unit("KB/s").with_direction(Direction::BetterHigh).primary())?;
//! for (variant, runs) in [("base", [100.0, 101.0, 99.0]), ("patched", [87.0, 88.0, 86.0])] {
//!     set.add_variant(Variant::new(variant))?;
//!     for (seed, value) in runs.into_iter().enumerate() {
//!         set.add_run(variant, Run::new(format!("seed={seed}")).with("hackbench.throughput", value)?)?;
//!     }
//! }
//! let table = lkp::render(&set, &lkp::LkpOptions::default())?;
//! assert!(table.text.contains("    100.00           -13.0%      87.00        hackbench.throughput\n"));
//! let told = compare::compare(&set, &compare::CompareOptions::default())?;
//! assert_eq!(told.rows[0].others[0].verdict.to_string(), "worse");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod compare;
pub mod evidence;
pub mod formats;
pub mod lkp;
pub mod merge;
pub mod metric;
pub mod normalized;
pub mod published;
pub mod results;
pub mod samples;
pub mod stats;
pub mod table;
pub mod verdict;
pub mod welch;

pub use compare::{CompareError, CompareOptions, Comparison, IntervalKind};
pub use metric::{Direction, Kind, Metric, MetricKey, Role};
pub use results::{ResultSet, Run, SampleError, Variant};
pub use samples::{Samples, Summary};
pub use table::{Align, TextTable};
pub use verdict::Verdict;
pub use welch::{Confidence, Interval};
