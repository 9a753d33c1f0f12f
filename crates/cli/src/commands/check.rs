//! `schedlab check`: recorded kernel state against the rules.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use schedlab_analysis::check::record::Record;
use schedlab_analysis::check::smp::SmpReport;
use schedlab_analysis::check::{CheckOptions, CheckReport, check_records};

use crate::args::CheckArgs;
use crate::commands::{check_smp, kernel};
use crate::{output, progress};

/// What a check of either kind of recording found.
enum Checked {
    /// State of one CPU.
    Class(Box<CheckReport>),
    /// Placement and balancing on several.
    Smp(Box<SmpReport>),
}

impl Checked {
    fn agrees(&self) -> bool {
        match self {
            Self::Class(r) => r.agrees(),
            Self::Smp(r) => r.agrees(),
        }
    }

    fn json(&self) -> serde_json::Result<serde_json::Value> {
        match self {
            Self::Class(r) => serde_json::to_value(r),
            Self::Smp(r) => serde_json::to_value(r),
        }
    }

    fn text(&self, name: &str, summary: bool) -> String {
        let (text, short) = match self {
            Self::Class(r) => (r.text(name), r.differences == 0),
            Self::Smp(r) => (r.text(name), true),
        };
        if summary && short {
            return text.lines().take(1).map(|l| format!("{l}\n")).collect();
        }
        text
    }
}

pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode> {
    let bar = progress::bar(args.files.len() as u64, "recordings");
    let results: Vec<Result<Checked>> = args
        .files
        .par_iter()
        .map(|file| {
            let report = check_file(file, args);
            bar.inc(1);
            report
        })
        .collect();
    bar.finish_and_clear();
    let mut reports = Vec::new();
    for (file, result) in args.files.iter().zip(results) {
        reports.push((file, result?));
    }
    if args.json {
        let mut list = Vec::new();
        for (file, r) in &reports {
            let report = r.json()?;
            list.push(serde_json::json!({"file": file, "agrees": r.agrees(), "report": report}));
        }
        output::print_json(&list)?;
    } else {
        output::print(&text(&reports, args.summary))?;
    }
    let agree = reports.iter().all(|(_, r)| r.agrees());
    Ok(ExitCode::from(u8::from(!agree)))
}

fn text(reports: &[(&std::path::PathBuf, Checked)], summary: bool) -> String {
    let mut out = String::new();
    let (mut class, mut smp) = (Vec::new(), Vec::new());
    for (file, r) in reports {
        let name = match r {
            Checked::Class(_) => name_of(file),
            Checked::Smp(_) => check_smp::name_of(file),
        };
        out.push_str(&r.text(&name, summary));
        match r {
            Checked::Class(r) => class.push(r),
            Checked::Smp(r) => smp.push(r),
        }
    }
    if class.len() > 1 {
        let sum = |f: fn(&CheckReport) -> u64| class.iter().map(|r| f(r)).sum::<u64>();
        out.push_str(&format!(
            "{} recordings: {} checks, {} differences, {} records undecided\n",
            class.len(),
            sum(CheckReport::total),
            sum(|r| r.differences),
            sum(CheckReport::undecided_total),
        ));
    }
    if smp.len() > 1 {
        let mut all = SmpReport::default();
        for r in &smp {
            all.add(r);
        }
        out.push_str(&all.text(&format!("{} recordings", smp.len())));
    }
    out
}

/// A recording is called by its folder if its file has the usual name.
fn name_of(file: &Path) -> String {
    let folder = file.parent().and_then(Path::file_name);
    match (file.file_name().and_then(|n| n.to_str()), folder) {
        (Some(name), Some(folder)) if name.starts_with("trace.") => {
            folder.to_string_lossy().into_owned()
        }
        _ => file.display().to_string(),
    }
}

fn check_file(file: &Path, args: &CheckArgs) -> Result<Checked> {
    if check_smp::is_smp(file)? {
        return Ok(Checked::Smp(Box::new(check_smp::check(file, args)?)));
    }
    let mut options = kernel::beside(file, &args.kernel)?;
    let mut reader = schedlab_trace::open(file)?;
    let mut records = Vec::new();
    let mut number = 0;
    for event in &mut reader {
        let event = event?;
        number += 1;
        if let Some(told) = CheckOptions::from_mark(&event) {
            let told = told.with_context(|| format!("{}: event {number}", file.display()))?;
            options = kernel::with_arguments(told, &args.kernel)?;
        }
        match Record::read(number, &event) {
            Some(r) => records.push(r),
            None => bail!(
                "{}: event {number} at {}.{:06}: a state record that cannot be read; expected name=value fields",
                file.display(),
                event.ts / 1_000_000_000,
                event.ts / 1_000 % 1_000_000
            ),
        }
    }
    let report = check_records(&records, &options);
    if report.records == 0 {
        bail!(
            "{}: no state records; expected probes such as `enqueue`, `pick` and `curr` (docs/formats/state-recording.md)",
            file.display()
        );
    }
    Ok(Checked::Class(Box::new(report)))
}
