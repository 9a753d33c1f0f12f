//! `schedlab explain`: why a task waited.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use schedlab_analysis::check::{CheckOptions, profile_of};
use schedlab_analysis::explain::{
    Agreement, Doing, Evidence, Explainer, Explanation, Options, Survey, Targets, Wait, WaitFinder,
};
use schedlab_trace::{Event, Reader};
use tempfile::NamedTempFile;

use crate::args::ExplainArgs;
use crate::commands::kernel;
use crate::input::time;
use crate::{output, progress};

/// Waits that are explained unless another number is asked for.
const WORST: u32 = 3;

pub(crate) fn explain(args: &ExplainArgs) -> Result<ExitCode> {
    // The trace is read twice.
    let held = (args.file == Path::new("-"))
        .then(copy_of_stdin)
        .transpose()?;
    let name = args.file.display().to_string();
    let at = args.at.as_deref().map(|text| time("--at", text, text));
    let at = at.transpose()?;
    let mut finder = match (&args.task, at) {
        (Some(task), Some(at)) => WaitFinder::at(task, at),
        (task, _) => {
            let n = args.worst.unwrap_or(WORST) as usize;
            WaitFinder::worst(n, task.as_deref())
        }
    };
    let mut told = None;
    let release = read(args, held.as_ref(), "looking for waits", |event| {
        finder.push(event);
        if let Some(mark) = CheckOptions::from_mark(event) {
            told = Some(mark);
        }
    })?;
    let (waits, survey, doing) = finder.finish();
    if survey.events == 0 {
        bail!("{name}: no event in it; expected scheduler events such as sched_switch");
    }
    if waits.is_empty() {
        return nothing_found(args, &name, &survey, &doing);
    }
    let kernel = match told {
        Some(mark) => kernel::with_arguments(mark.context(name.clone())?, &args.kernel)?,
        None => {
            let mut options = kernel::beside(&args.file, &args.kernel)?;
            if let (None, Some(p)) = (
                &args.kernel.profile,
                release.as_deref().and_then(profile_of),
            ) {
                options.profile = p;
                options = kernel::with_arguments(options, &args.kernel)?;
            }
            options
        }
    };
    let options = Options::new(kernel.profile, kernel.hz, &survey);
    let mut explainer = Explainer::new(&options, Targets::these(&waits));
    read(args, held.as_ref(), "explaining", |event| {
        explainer.push(event)
    })?;
    let (mut explained, agreement) = explainer.finish();
    // In the order in which they were found: the longest first.
    explained.sort_by_key(|x| {
        let same = |w: &Wait| (w.pid, w.start) == (x.task.pid, x.start);
        waits.iter().position(same)
    });
    if args.json {
        output::print_json(&serde_json::json!({
            "schema": "schedlab.explain/1",
            "profile": options.profile.name,
            "evidence": match options.evidence {
                Evidence::Recorded => "recorded",
                Evidence::Inferred => "inferred",
            },
            "agreement": (options.evidence == Evidence::Inferred).then_some(agreement),
            "waits": explained,
        }))?;
    } else {
        output::print(&text(&explained, &doing, &options, agreement, &survey))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a trace; the kernel release, if it tells one.
fn read(
    args: &ExplainArgs,
    held: Option<&NamedTempFile>,
    what: &'static str,
    mut take: impl FnMut(&Event),
) -> Result<Option<String>> {
    let mut reader: Box<dyn Reader> = match held {
        Some(held) => {
            let file = held.reopen().context("cannot read standard input again")?;
            schedlab_trace::open_stream(Box::new(file), "standard input")?
        }
        None => schedlab_trace::open(&args.file)?,
    };
    let bar = progress::spinner(what);
    for (n, event) in (&mut reader).enumerate() {
        take(&event?);
        if n % 65_536 == 0 {
            bar.set_position(n as u64);
        }
    }
    bar.finish_and_clear();
    Ok(reader.report().kernel_release)
}

fn copy_of_stdin() -> Result<NamedTempFile> {
    let mut file =
        NamedTempFile::new().context("cannot make a temporary file for standard input")?;
    io::copy(&mut io::stdin().lock(), &mut file).context("cannot read standard input")?;
    Ok(file)
}

fn nothing_found(
    args: &ExplainArgs,
    name: &str,
    survey: &Survey,
    doing: &[(i32, schedlab_trace::Comm, Doing)],
) -> Result<ExitCode> {
    if !doing.is_empty() && !args.json {
        output::print(&format!(
            "{}It does not wait from then on.\n",
            instead(doing)
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    match &args.task {
        Some(task) => {
            let end = survey.span.map_or(0, |(_, end)| end);
            bail!(
                "{name}: no wait of a task `{task}` in it (at or behind the time, if one is given; the trace ends at {}); \
                 expected a name or a pid of the trace",
                seconds(end)
            )
        }
        None => bail!("{name}: no wait in it; expected sched_switch and sched_wakeup events"),
    }
}

fn text(
    explained: &[Explanation],
    doing: &[(i32, schedlab_trace::Comm, Doing)],
    options: &Options,
    agreement: Agreement,
    survey: &Survey,
) -> String {
    let mut out = instead(doing);
    for x in explained {
        out.push_str(&x.text());
        out.push('\n');
    }
    if options.evidence == Evidence::Inferred {
        let share = match agreement.picks {
            0 => "had no choice to compare".to_string(),
            n => format!(
                "pick what the kernel picked at {} of {n} switches with a choice",
                agreement.alike
            ),
        };
        out.push_str(&format!(
            "Inferred by the rules of {} ({} CPUs); replayed over the trace they {share}.\n",
            options.profile.name, survey.cpus
        ));
    }
    out
}

/// What tasks did at the time asked for, if they did not wait.
fn instead(doing: &[(i32, schedlab_trace::Comm, Doing)]) -> String {
    doing
        .iter()
        .map(|(pid, comm, doing)| match doing {
            Doing::Running(cpu, since) => {
                format!(
                    "{comm}:{pid} ran on CPU {cpu} then, since {}.\n",
                    seconds(*since)
                )
            }
            Doing::Sleeping(since) => {
                format!("{comm}:{pid} was asleep then, since {}.\n", seconds(*since))
            }
        })
        .collect()
}

fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}
