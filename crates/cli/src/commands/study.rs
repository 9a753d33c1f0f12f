//! `schedlab study`: several variants, several seeds, one comparison.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use schedlab_compare::{CompareOptions, ResultSet, compare, lkp};
use schedlab_scenario::{Overrides, Study, run_study};

use crate::args::StudyArgs;
use crate::output::{self, ResultFile};
use crate::progress;

pub(crate) fn study(args: &StudyArgs) -> Result<ExitCode> {
    let study = Study::find(&args.study)?;
    let mut overrides = Overrides::new();
    if let Some(m) = &args.machine {
        overrides.push(&format!("machine={m}"))?;
    }
    for s in &args.set {
        overrides.push(s)?;
    }
    if let Some(dir) = &args.out {
        std::fs::create_dir_all(dir)
            .with_context(|| format!("cannot make the folder {}", dir.display()))?;
    }
    let runs = args.runs.unwrap_or(study.runs);
    let bar = progress::bar(u64::from(runs) * study.variants.len() as u64, "simulations");
    let set = run_study(
        &study,
        &overrides,
        runs,
        args.jobs.map(|j| j as usize),
        &|| bar.inc(1),
    )?;
    bar.finish_and_clear();
    let table = table(&study, &set, args.all, runs)?;
    if let Some(dir) = &args.out {
        write(dir, "results.json", set.to_json().as_bytes())?;
        write(dir, "table.txt", table.as_bytes())?;
    }
    if args.json {
        let comparison = compare::compare(&set, &CompareOptions::default())?;
        output::print(&comparison.to_json())?;
    } else {
        output::print(&table)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(study: &Study, set: &ResultSet, all: bool, runs: u32) -> Result<String> {
    let mut out = format!("{}\n{}\n\n", study.title, study.question);
    let primary = lkp::LkpOptions {
        all: true,
        select: lkp::Select::Keys(study.metrics.clone()),
        ..lkp::LkpOptions::default()
    };
    out.push_str(&lkp::render(set, &primary)?.text);
    out.push('\n');
    let rest = lkp::LkpOptions {
        all,
        ..lkp::LkpOptions::default()
    };
    let full = lkp::render(set, &rest)?;
    out.push_str(&full.text);
    let hidden = full.considered.saturating_sub(full.listed.len());
    out.push_str(&format!(
        "\n{runs} runs of each variant, one seed each. {} of {} metrics changed enough to be listed{}.\n",
        full.listed.len(),
        full.considered,
        if hidden > 0 { "; --all lists the others" } else { "" }
    ));
    Ok(out)
}

fn write(dir: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = dir.join(name);
    let mut file = ResultFile::create(&path)?;
    file.write_all(bytes)
        .with_context(|| format!("cannot write {}", path.display()))?;
    file.finish()
}
