//! A study run in full: every variant with every seed, in parallel, in the same order for any number of jobs.

use std::collections::BTreeSet;

use rayon::prelude::*;
use schedlab_compare::{ResultSet, Run, SampleError, Variant};
use schedlab_sim::SimError;
use thiserror::Error;

use crate::error::Error;
use crate::overrides::Overrides;
use crate::run::Figure;
use crate::study::Study;

/// Why a study ended early.
#[derive(Debug, Error)]
pub enum StudyError {
    /// Its file, or an override.
    #[error(transparent)]
    Scenario(#[from] Error),
    /// A run.
    #[error("variant `{variant}`, seed {seed}: {source}")]
    Run {
        /// Which variant.
        variant: String,
        /// Which seed.
        seed: u64,
        /// What happened.
        source: SimError,
    },
    /// A figure that is no number.
    #[error(transparent)]
    Figure(#[from] SampleError),
    /// No threads to be had.
    #[error("cannot start {jobs} threads: {problem}")]
    Threads {
        /// How many.
        jobs: usize,
        /// Why not.
        problem: String,
    },
}

/// Runs a study; `done` is called after each simulation.
///
/// # Errors
/// See [`StudyError`].
pub fn run_study(
    study: &Study,
    overrides: &Overrides,
    runs: u32,
    jobs: Option<usize>,
    done: &(dyn Fn() + Sync),
) -> Result<ResultSet, StudyError> {
    let mut plan = Vec::new();
    for variant in 0..study.variants.len() {
        for run in 0..runs {
            plan.push((variant, study.scenario(variant, overrides, run)?));
        }
    }
    let threads = jobs.unwrap_or(0);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|e| StudyError::Threads {
            jobs: threads,
            problem: e.to_string(),
        })?;
    // The collection keeps the plan's order, whichever run ends first.
    let outcomes: Vec<_> = pool.install(|| {
        plan.par_iter()
            .map(|(variant, scenario)| {
                let outcome = scenario.run(|_| {});
                done();
                (*variant, scenario, outcome)
            })
            .collect()
    });
    let mut set = ResultSet::new("commit");
    if let Some((_, first)) = plan.first() {
        for (key, value) in common(study, first) {
            set.add_common(key, value)?;
        }
    }
    let mut known = BTreeSet::new();
    let mut lists: Vec<(usize, u64, Vec<Figure>)> = Vec::new();
    for (variant, scenario, outcome) in outcomes {
        let outcome = outcome.map_err(|source| StudyError::Run {
            variant: study.variants[variant].name.clone(),
            seed: scenario.seed,
            source,
        })?;
        for f in &outcome.figures {
            if known.insert(f.name.clone()) {
                set.declare(f.metric(&study.program)?)?;
            }
        }
        lists.push((variant, scenario.seed, outcome.figures));
    }
    for v in &study.variants {
        set.add_variant(Variant::new(&v.label).with_title(&v.name))?;
    }
    for (variant, seed, figures) in lists {
        let mut run = Run::new(format!("seed={seed}"));
        for f in figures {
            run = run.with(format!("{}.{}", study.program, f.name), f.value)?;
        }
        set.add_run(&study.variants[variant].label, run)?;
    }
    Ok(set)
}

/// What all variants have in common, for the head of the table.
fn common(study: &Study, s: &crate::Scenario) -> Vec<(&'static str, String)> {
    let mut out = vec![
        ("testcase", study.program.clone()),
        (
            "tbox_group",
            format!("{} ({} CPUs)", s.machine.name(), s.machine.cpus()),
        ),
        ("kernel", s.kernel.profile.name.to_string()),
        ("preempt", format!("{:?}", s.kernel.preempt).to_lowercase()),
    ];
    if let Some(h) = &s.workload {
        out.push(("ipc", if h.pipe { "pipe" } else { "socket" }.to_string()));
        out.push((
            "mode",
            if h.threads { "threads" } else { "process" }.to_string(),
        ));
        out.push(("groups", h.groups.to_string()));
        out.push(("loops", h.loops.to_string()));
    }
    out
}
