//! `schedlab compare`: results as tables, and what may be concluded.

use std::process::ExitCode;

use anyhow::{Result, bail};
use schedlab_compare::{
    CompareOptions, Comparison, Confidence, Direction, IntervalKind, Role, Verdict, compare,
    formats, lkp,
};

use crate::args::{CompareArgs, Format, IntervalChoice};
use crate::commands::results;
use crate::output;

pub(crate) fn compare(args: &CompareArgs) -> Result<ExitCode> {
    if let Some(threshold) = args.threshold
        && !(0.0..=1e6).contains(&threshold)
    {
        bail!("--threshold {threshold}: expected percent from 0 to 1000000");
    }
    let set = results::load(&args.results)?;
    let options = CompareOptions {
        base: args.base.clone(),
        confidence: Confidence::new(args.confidence / 100.0)?,
        same_within_percent: args.same_within,
        interval: match args.interval {
            IntervalChoice::Welch => IntervalKind::Welch,
            IntervalChoice::Bootstrap => IntervalKind::Bootstrap { seed: args.seed },
        },
    };
    let comparison = compare::compare(&set, &options)?;
    let mut text = match args.format {
        Format::Lkp => {
            let options = lkp::LkpOptions {
                base: args.base.clone(),
                all: args.all,
                ..lkp::LkpOptions::default()
            };
            lkp::render(&set, &options)?.text
        }
        Format::Normalized => formats::normalized(&comparison, args.all),
        Format::Markdown => formats::markdown(&comparison, args.all),
        Format::Csv => formats::csv(&comparison),
        Format::Json => comparison.to_json(),
    };
    if args.legend {
        let legend = match args.format {
            Format::Lkp => formats::LEGEND_LKP,
            Format::Normalized => formats::LEGEND_NORMALIZED,
            Format::Markdown => formats::LEGEND_MARKDOWN,
            // Machines read these: a legend would be no part of the format.
            Format::Csv | Format::Json => {
                eprint!("{}", formats::LEGEND_FIELDS);
                ""
            }
        };
        text.push_str(legend);
    }
    output::print(&text)?;
    Ok(exit_code(&comparison, args.threshold))
}

/// 1 when a primary metric is worse beyond the threshold; says which on standard error.
fn exit_code(comparison: &Comparison, threshold: Option<f64>) -> ExitCode {
    let Some(threshold) = threshold else {
        return ExitCode::SUCCESS;
    };
    let mut code = ExitCode::SUCCESS;
    for row in &comparison.rows {
        for other in &row.others {
            // Without a percentage the base's mean is zero: any established change is beyond all bounds.
            let beyond = other.change_percent.is_none_or(|p| p.abs() > threshold);
            let bad = match (other.verdict, row.metric.direction) {
                (Verdict::Worse, _) => true,
                (Verdict::Appeared, direction) => direction == Direction::BetterLow,
                (Verdict::Disappeared, direction) => direction == Direction::BetterHigh,
                _ => false,
            };
            if row.metric.role == Role::Primary && bad && beyond {
                let percent = other
                    .change_percent
                    .map_or("from zero".to_owned(), |p| format!("{p:+.1} %"));
                eprintln!(
                    "schedlab: {} is worse on {}: {percent}",
                    row.metric.key, other.variant
                );
                code = ExitCode::from(1);
            }
        }
    }
    code
}
