//! A comparison in formats that have no module of their own: Markdown, CSV, and
//! the normalized cells with one row a metric.

use crate::compare::{Comparison, Difference, MetricComparison};
use crate::metric::{Direction, Role};
use crate::normalized::NormalizedCell;
use crate::table::{Align, TextTable};
use crate::verdict::Verdict;

/// What the marks of the LKP table mean.
pub const LEGEND_LKP: &str = "\
  %stddev   population standard deviation over runs in percent of the mean; blank at 2 % and below
  %change   change of the mean in percent; without % it is an absolute difference, for metrics that are shares
  fail:runs  failed runs and all runs; %reproduction is the difference of the rates in points
  A listed row means that the ranges of the runs lie apart from the medians; it is no significance test.
";

/// What the marks of the normalized table mean.
pub const LEGEND_NORMALIZED: &str = "\
  1.00      mean over the base's mean
  [  1.00]  improvement in percent: positive is better, whichever way the metric goes
  ( 1.00)   coefficient of variation in percent, sample standard deviation over mean; - for one run
  A metric without a known direction has no improvement and is left out.
";

/// What the columns of the Markdown table mean.
pub const LEGEND_MARKDOWN: &str = "
- *change*: change of the mean in percent of the base's mean; `[a, b]` is its confidence interval
- *verdict*: better, worse, changed (direction not known), same within the margin, appeared or disappeared (zero on
  one side alone), setting (no metric), cannot tell with the runs a side that would tell in four of five cases
- **bold**: a primary metric
";

/// What the fields of CSV and JSON mean.
pub const LEGEND_FIELDS: &str = "\
  base_mean, mean, cv_percent: over runs; sample standard deviation
  change_percent, low_percent, high_percent: change of the mean and its interval, in percent of the base's mean
  p, p_adjusted: Welch's test, alone and after Benjamini-Hochberg; rank_p: Mann-Whitney; effect: Hedges' g
  detectable_percent: smallest true difference that as many runs establish in four of five cases
  verdict: better, worse, changed, same, appeared, disappeared, setting, cannot tell; because: the reason
";

/// A table in Markdown: primary metrics, then side metrics with an established
/// change, or with `all` every metric.
#[must_use]
pub fn markdown(comparison: &Comparison, all: bool) -> String {
    let mut text = String::new();
    for (key, value) in &comparison.common {
        text.push_str(&format!("{}: {}  \n", escape(key), escape(value)));
    }
    text.push_str(&format!("base: {}\n\n", escape(&comparison.base)));
    text.push_str("| metric | unit | base | variant | mean | change | verdict |\n");
    text.push_str("| --- | --- | ---: | --- | ---: | ---: | --- |\n");
    let mut folded = 0;
    for row in &comparison.rows {
        if !listed(row, all) {
            folded += 1;
            continue;
        }
        let key = escape(row.metric.key.as_str());
        let key = match row.metric.role {
            Role::Primary => format!("**{key}**"),
            Role::Side => key,
        };
        for other in &row.others {
            text.push_str(&format!(
                "| {key} | {} | {} | {} | {} | {} | {} |\n",
                escape(&row.metric.unit),
                with_cv(row.base.mean, row.base.cv_percent),
                escape(&other.variant),
                with_cv(other.summary.mean, other.summary.cv_percent),
                change(other),
                told(other, comparison.same_within_percent),
            ));
        }
    }
    if folded > 0 {
        text.push_str(&format!(
            "\n{folded} of {} metrics show no established change and are left out (--all).\n",
            comparison.rows.len()
        ));
    }
    text
}

/// One line a metric and variant.
#[must_use]
pub fn csv(comparison: &Comparison) -> String {
    let mut out = csv::Writer::from_writer(Vec::new());
    let number = |x: Option<f64>| x.map_or(String::new(), |x| x.to_string());
    // Writing into memory cannot fail, and all records have one length.
    let _ = out.write_record([
        "metric",
        "unit",
        "direction",
        "role",
        "base",
        "variant",
        "base_n",
        "n",
        "base_mean",
        "mean",
        "base_cv_percent",
        "cv_percent",
        "change_percent",
        "low_percent",
        "high_percent",
        "p",
        "p_adjusted",
        "rank_p",
        "effect",
        "detectable_percent",
        "runs_needed",
        "verdict",
        "because",
    ]);
    for row in &comparison.rows {
        for other in &row.others {
            let direction = match row.metric.direction {
                Direction::BetterHigh => "better_high",
                Direction::BetterLow => "better_low",
                Direction::Unknown => "unknown",
            };
            let role = match row.metric.role {
                Role::Primary => "primary",
                Role::Side => "side",
            };
            let _ = out.write_record([
                row.metric.key.as_str(),
                &row.metric.unit,
                direction,
                role,
                &comparison.base,
                &other.variant,
                &row.base.n.to_string(),
                &other.summary.n.to_string(),
                &number(row.base.mean),
                &number(other.summary.mean),
                &number(row.base.cv_percent),
                &number(other.summary.cv_percent),
                &number(other.change_percent),
                &number(other.interval_percent.map(|i| i[0])),
                &number(other.interval_percent.map(|i| i[1])),
                &number(other.p),
                &number(other.p_adjusted),
                &number(other.ranks.map(|r| r.p)),
                &number(other.effect),
                &number(other.detectable_percent),
                &other.runs_needed.map_or(String::new(), |n| n.to_string()),
                &other.verdict.to_string(),
                &other.because.to_string(),
            ]);
        }
    }
    String::from_utf8(out.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// Cells of the normalized table, one row a metric of known direction.
#[must_use]
pub fn normalized(comparison: &Comparison, all: bool) -> String {
    let heads: Vec<String> = std::iter::once(&comparison.base)
        .chain(
            comparison
                .rows
                .first()
                .into_iter()
                .flat_map(|row| row.others.iter().map(|o| &o.variant)),
        )
        .map(|name| format!("{name}[pct imp](CV)"))
        .collect();
    let mut columns = vec![("Case:", Align::Left)];
    columns.extend(heads.iter().map(|head| (head.as_str(), Align::Right)));
    let mut table = TextTable::new(&columns);
    let mut without = 0;
    for row in &comparison.rows {
        if row.metric.direction == Direction::Unknown {
            without += 1;
            continue;
        }
        if !all && row.metric.role != Role::Primary {
            continue;
        }
        let all = std::iter::once(&row.base).chain(row.others.iter().map(|o| &o.summary));
        let cells = all.map(|summary| {
            let cell = summary.mean.zip(row.base.mean).and_then(|(mean, base)| {
                NormalizedCell::new(mean, base, summary.cv_percent, row.metric.direction)
            });
            cell.map_or("-".to_owned(), |cell| cell.to_string())
        });
        table.row(std::iter::once(row.metric.key.to_string()).chain(cells));
    }
    let mut text = format!("Statistic     : AMean, normalized to {}\n", comparison.base);
    text.push_str("Interpretation: [positive] is better\n\n");
    text.push_str(&table.render());
    if table.is_empty() {
        text.push_str(&format!(
            "None of {} metrics is printed: {without} have no known direction, the others are side metrics (--all).\n",
            comparison.rows.len()
        ));
    }
    text
}

/// Whether a row is worth a line: a primary metric, or an established change.
fn listed(row: &MetricComparison, all: bool) -> bool {
    all || row.metric.role == Role::Primary || row.others.iter().any(|o| o.verdict.is_change())
}

/// A verdict in words: with its margin, or the runs that would tell.
#[must_use]
pub fn told(other: &Difference, same_within_percent: f64) -> String {
    match (other.verdict, other.runs_needed) {
        (Verdict::Same, _) => format!("same within ±{same_within_percent} %"),
        (Verdict::CannotTell, Some(n)) => format!("cannot tell ({n} runs would)"),
        (verdict, _) => verdict.to_string(),
    }
}

fn change(other: &Difference) -> String {
    let Some(percent) = other.change_percent else {
        return other
            .change
            .map_or("-".to_owned(), |change| format!("{change:+.3}"));
    };
    match other.interval_percent {
        Some([low, high]) => format!("{percent:+.1} % [{low:+.1}, {high:+.1}]"),
        None => format!("{percent:+.1} %"),
    }
}

fn with_cv(mean: Option<f64>, cv: Option<f64>) -> String {
    let mean = mean.map_or("-".to_owned(), number);
    match cv {
        Some(cv) => format!("{mean} ± {cv:.0} %"),
        None => mean,
    }
}

/// A number with four or more digits that count.
#[must_use]
pub fn number(x: f64) -> String {
    let size = x.abs();
    if x == 0.0 {
        "0".to_owned()
    } else if !(1e-4..1e15).contains(&size) {
        format!("{x:.3e}")
    } else if size >= 1000.0 {
        format!("{x:.0}")
    } else if size >= 10.0 {
        format!("{x:.2}")
    } else {
        format!("{x:.4}")
    }
}

fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if matches!(c, '|' | '*' | '_' | '<' | '`' | '[' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
