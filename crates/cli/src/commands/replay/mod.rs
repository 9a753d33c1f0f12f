//! `schedlab replay`: the load of a recording, simulated, compared and tried under other kernels.

mod table;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use rayon::prelude::*;
use schedlab_analysis::check::{CheckOptions, profile_of};
use schedlab_analysis::load::{Load, LoadBuilder};
use schedlab_fair::Profile;
use schedlab_scenario::replay::{Fit, RecordedKernel, RecordedLoad, Repeat, RunMeter};
use schedlab_scenario::{Overrides, Scenario, parse_time};
use schedlab_trace::{ReadReport, Reader};

use crate::args::ReplayArgs;
use crate::commands::profiles::profile;
use crate::output::{self, ResultFile};
use crate::progress;

/// The kernel of a recording, and how it is known.
struct Kernel {
    recorded: RecordedKernel,
    source: &'static str,
}

/// What was read of a recording.
struct Recording {
    load: Load,
    read: ReadReport,
    meter: RunMeter,
}

/// A simulation and its column.
struct Column {
    label: String,
    scenario: Scenario,
}

/// A column with what came out.
struct Simulated {
    label: String,
    profile: &'static str,
    fit: Fit,
    end_ns: u64,
    events: u64,
}

pub(crate) fn replay(args: &ReplayArgs) -> Result<ExitCode> {
    let repeat = repeat(args)?;
    let recording = read(args)?;
    let kernel = kernel(args, &recording)?;
    let name = name_of(&args.file);
    let recorded = RecordedLoad::new(
        &recording.load,
        &name,
        kernel.recorded,
        &args.costs,
        repeat.unwrap_or(Repeat::Times(1)),
    )
    .map_err(|problem| anyhow!("{}: {problem}", args.file.display()))?;
    let text = recorded.toml();
    // Everything is checked before anything is written or simulated.
    let columns = columns(args, &name, &text)?;
    let rt_app = args.rt_app.as_ref().map(|path| (path, recorded.rt_app()));
    if let Some(path) = &args.out {
        write(path, &text)?;
    }
    if let Some((path, file)) = &rt_app {
        write(path, &file.text)?;
        for note in &file.lost {
            eprintln!("schedlab: {}: {note}", path.display());
        }
    }
    let simulated = match repeat {
        None => Vec::new(),
        Some(_) => simulate(&columns, &recorded)?,
    };
    let ids = pids(&recording.load);
    let end = recording.load.first_ts.saturating_add(recording.load.span);
    let fit = recording.meter.finish(end, |pid| ids.get(&pid).copied());
    let view = table::View {
        name: &name,
        kernel: kernel.recorded.profile.name,
        source: kernel.source,
        recorded: &recorded,
        load: &recording.load,
        read: &recording.read,
        fit: &fit,
        simulated: &simulated,
        rounds: recorded.duration().0 as f64 / recorded.round().0 as f64,
        tasks: args.tasks,
    };
    if args.json {
        output::print_json(&view.json())?;
    } else {
        output::print(&view.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `--repeat` and `--duration`; `None`: nothing is simulated.
fn repeat(args: &ReplayArgs) -> Result<Option<Repeat>> {
    if args.duration.is_some() && args.repeat != -1 {
        bail!("--duration goes with --repeat -1 only; a load lasts as long as its recording");
    }
    Ok(match args.repeat {
        0 => None,
        -1 => {
            let Some(text) = &args.duration else {
                bail!(
                    "--repeat -1 repeats the load until a time; say which with --duration, as in --duration 10s"
                );
            };
            let end = parse_time(text).filter(|t| t.0 > 0).with_context(|| {
                format!("--duration {text}: expected a time such as 500ms or 2s")
            })?;
            Some(Repeat::Until(end))
        }
        n => Some(Repeat::Times(u32::try_from(n).unwrap_or(u32::MAX))),
    })
}

fn read(args: &ReplayArgs) -> Result<Recording> {
    let mut reader: Box<dyn Reader> = if args.file == Path::new("-") {
        schedlab_trace::open_stream(Box::new(io::stdin()), "standard input")?
    } else {
        schedlab_trace::open(&args.file)?
    };
    let mut builder = LoadBuilder::default();
    let mut meter = RunMeter::recording();
    for event in &mut reader {
        let event = event?;
        builder.push(&event);
        meter.push(&event);
    }
    let read = reader.report();
    let mut load = builder.finish();
    // CPUs without an event are part of the machine.
    load.cpus = load.cpus.max(read.cpus_declared.unwrap_or(0));
    Ok(Recording { load, read, meter })
}

/// From the option, else from the trace, else from the description beside it, else the lab's default.
fn kernel(args: &ReplayArgs, recording: &Recording) -> Result<Kernel> {
    let beside = args.file.with_file_name("meta.json");
    let described = if args.file != Path::new("-") && beside.is_file() {
        let text = std::fs::read_to_string(&beside)
            .with_context(|| format!("cannot read {}", beside.display()))?;
        match CheckOptions::from_meta(&text) {
            Ok(options) => Some(options),
            Err(_) if args.profile.is_some() => None,
            Err(e) => return Err(e).with_context(|| beside.display().to_string()),
        }
    } else {
        None
    };
    let told = args.profile.as_deref().map(profile).transpose()?;
    let release = recording.read.kernel_release.as_deref();
    let traced = release.and_then(profile_of);
    // What the trace shows itself comes first.
    let hz = match recording.load.hz {
        Some(_) => None,
        None => described.as_ref().map(|o| o.hz),
    };
    let (profile, source) = match (told, traced, described) {
        (Some(p), _, Some(o)) if o.profile.name == p.name => (o.profile, "--profile, meta.json"),
        (Some(p), _, _) => (p, "--profile"),
        (None, _, Some(o)) => (o.profile, "meta.json"),
        (None, Some(p), None) => (p, "from the trace"),
        (None, None, None) => (
            Profile::default(),
            "assumed: the trace does not tell; see --profile",
        ),
    };
    Ok(Kernel {
        recorded: RecordedKernel { profile, hz },
        source,
    })
}

/// The simulations: as recorded, then each what-if.
fn columns(args: &ReplayArgs, name: &str, text: &str) -> Result<Vec<Column>> {
    let mut given = Overrides::new();
    for g in &args.given {
        given.push(g)?;
    }
    let mut out = vec![column("as recorded".into(), name, text, &given)?];
    let set: Vec<&str> = args.set.iter().map(String::as_str).collect();
    let mut what_ifs = Vec::new();
    if !set.is_empty() {
        what_ifs.push((set.join("; "), set));
    }
    for vs in &args.vs {
        let parts: Vec<&str> = vs
            .split(';')
            .map(str::trim)
            .filter(|p| !p.is_empty())
            .collect();
        if parts.is_empty() {
            bail!("--vs {vs}: expected a kernel profile or KEY=VALUE");
        }
        what_ifs.push((vs.clone(), parts));
    }
    for (label, parts) in what_ifs {
        let mut overrides = given.clone();
        for part in parts {
            if part.contains('=') {
                overrides.push(part)?;
            } else {
                overrides.push(&format!("kernel.profile={part}"))?;
            }
        }
        out.push(column(label, name, text, &overrides)?);
    }
    Ok(out)
}

fn column(label: String, name: &str, text: &str, overrides: &Overrides) -> Result<Column> {
    let scenario = Scenario::parse(name, text, Path::new(""), overrides)?;
    Ok(Column { label, scenario })
}

/// Runs the simulations side by side; the results keep the columns' order. All threads are done when this returns,
/// whatever failed.
fn simulate(columns: &[Column], recorded: &RecordedLoad<'_>) -> Result<Vec<Simulated>> {
    let bar = progress::bar(columns.len() as u64, "simulations");
    let results: Vec<Result<Simulated>> = columns
        .par_iter()
        .map(|column| {
            let result = simulate_one(column, recorded)
                .with_context(|| format!("simulation `{}`", column.label));
            bar.inc(1);
            result
        })
        .collect();
    bar.finish_and_clear();
    results.into_iter().collect()
}

fn simulate_one(column: &Column, recorded: &RecordedLoad<'_>) -> Result<Simulated> {
    let lead = recorded.lead().0;
    let mut meter = RunMeter::new(lead, recorded.round().0);
    let outcome = column.scenario.run(|event| meter.push(event))?;
    let by_name: HashMap<&str, usize> = (0..recorded.len())
        .map(|i| (recorded.task_name(i), i))
        .collect();
    let by_pid: HashMap<i32, usize> = outcome
        .result
        .tasks
        .iter()
        .filter_map(|t| Some((t.pid, *by_name.get(t.comm.as_str())?)))
        .collect();
    let ids = recorded.first_of_pid();
    let end = outcome.result.end.0;
    let fit = meter.finish(end, |pid| by_pid.get(&pid).map(|&i| ids[i]));
    Ok(Simulated {
        label: column.label.clone(),
        profile: column.scenario.kernel.profile.name,
        fit,
        end_ns: end,
        events: outcome.result.events,
    })
}

/// The first task of each recorded pid: the trace's tables are by pid.
fn pids(load: &Load) -> HashMap<i32, usize> {
    let mut ids = HashMap::new();
    for (i, t) in load.tasks.iter().enumerate() {
        ids.entry(t.pid).or_insert(i);
    }
    ids
}

/// A recording is called by its folder if its file has a usual name.
fn name_of(file: &Path) -> String {
    let folder = file.parent().and_then(Path::file_name);
    match (file.file_name().and_then(|n| n.to_str()), folder) {
        (Some(name), Some(folder)) if name.starts_with("trace.") || name.starts_with("ftrace.") => {
            folder.to_string_lossy().into_owned()
        }
        (Some("-"), _) | (None, _) => "replay".into(),
        (Some(name), _) => name.split('.').next().unwrap_or("replay").to_string(),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let mut file = ResultFile::create(path)?;
    file.write_all(text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    file.finish()
}
