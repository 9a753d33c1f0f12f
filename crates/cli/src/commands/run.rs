//! `schedlab run`: one scenario, simulated once.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use schedlab_analysis::latency::RenderOptions;
use schedlab_fair::Ns;
use schedlab_scenario::{Overrides, RunOptions, RunOutcome, Scenario, parse_time};
use schedlab_sim::{Snapshot, WorkConservation};
use schedlab_trace::ReadReport;

use crate::args::RunArgs;
use crate::commands::latency;
use crate::output::{self, ResultDir};
use crate::trace_output::{TraceFormat, TraceOutput};

pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    let scenario = load(args)?;
    for w in &scenario.warnings {
        eprintln!("schedlab: {w}");
    }
    let mut trace = match &args.trace {
        Some(path) => Some(TraceOutput::create(
            path,
            TraceFormat::of_name(path)?,
            &ReadReport::default(),
        )?),
        None => None,
    };
    let procfs = args.procfs.as_deref().map(ResultDir::create).transpose()?;
    let every = match &procfs {
        Some(_) => sampling(&args.procfs_every)?,
        None => Ns(u64::MAX),
    };
    let begin = Instant::now();
    let mut failed = None;
    let mut unwritten = None;
    let outcome = scenario.run_sampled(
        RunOptions { state: args.state },
        every,
        |snapshot| {
            if let (Some(dir), None) = (&procfs, &unwritten) {
                unwritten = write_snapshot(dir, &snapshot).err();
            }
        },
        |event| {
            if let (Some(t), None) = (&mut trace, &failed) {
                failed = t.write(event).err();
            }
        },
    )?;
    if let Some(e) = failed.or(unwritten) {
        return Err(e);
    }
    let wall = begin.elapsed();
    if let Some(dir) = procfs {
        dir.finish()?;
    }
    if let Some(t) = trace {
        t.finish(&ReadReport::default())?;
    }
    let timing = args.timing.then_some(wall.as_secs_f64());
    if args.json {
        output::print_json(&json(&scenario, &outcome, timing))?;
    } else {
        output::print(&text(args, &scenario, &outcome, timing))?;
    }
    if outcome.result.deadlock {
        eprintln!(
            "schedlab: every task waits for another from {} ns on: {}",
            outcome.result.end,
            outcome.result.waiting.join(", ")
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The distance of looks at procfs.
fn sampling(text: &str) -> Result<Ns> {
    match parse_time(text) {
        Some(every) if every > Ns::ZERO => Ok(every),
        _ => bail!("--procfs-every {text}: expected a time above zero, such as 10ms or 1s"),
    }
}

/// Files of one moment, in a folder named after it: nanoseconds, so that names sort as times.
fn write_snapshot(dir: &ResultDir, snapshot: &Snapshot) -> Result<()> {
    for (name, text) in &snapshot.files {
        dir.write(&format!("{:020}/{name}", snapshot.time.0), text)?;
    }
    Ok(())
}

fn load(args: &RunArgs) -> Result<Scenario> {
    let mut overrides = Overrides::new();
    if let Some(m) = &args.machine {
        overrides.push(&format!("machine={m}"))?;
    }
    for s in &args.set {
        overrides.push(s)?;
    }
    if let Some(seed) = args.seed {
        overrides.push(&format!("seed={seed}"))?;
    }
    if let Some(d) = &args.duration {
        overrides.push(&format!("duration={d}"))?;
    }
    let path = PathBuf::from(&args.scenario);
    let is_name = !path.exists() && !args.scenario.contains(['/', '.']);
    if is_name && args.scenario == "hackbench" {
        let text = "name = \"hackbench\"\nmachine = \"desktop-8\"\n[workload]\nhackbench = {}\n";
        return Ok(Scenario::parse(
            "hackbench",
            text,
            Path::new(""),
            &overrides,
        )?);
    }
    if is_name {
        bail!(
            "no scenario file `{}`, and no workload of that name (schedlab list workloads)",
            args.scenario
        );
    }
    Ok(Scenario::load(&path, &overrides)?)
}

fn text(args: &RunArgs, s: &Scenario, o: &RunOutcome, wall: Option<f64>) -> String {
    let mut out = format!(
        "{}: kernel {}, machine {} ({} CPUs), seed {}\n",
        s.name,
        s.kernel.profile.name,
        s.machine.name(),
        s.machine.cpus(),
        s.seed
    );
    out.push_str(&o.latency.render(RenderOptions {
        group: super::analyses::group(args.per_thread),
        ..RenderOptions::default()
    }));
    out.push_str(&latency::summary(&o.latency.summary));
    out.push_str(&conservation(&o.result.conservation));
    if let Some(t) = &o.output {
        out.push('\n');
        out.push_str(t);
    }
    out.push('\n');
    for f in &o.figures {
        let unit = if f.unit.is_empty() {
            String::new()
        } else {
            format!(" {}", f.unit)
        };
        out.push_str(&format!("  {:<44} {}{unit}\n", f.name, number(f.value)));
    }
    if let Some(wall) = wall {
        out.push_str(&format!(
            "  {} events in {wall:.3} s, {:.0} a second\n",
            o.result.events,
            o.result.events as f64 / wall.max(1e-9)
        ));
    }
    out
}

/// Idle CPUs beside waiting tasks, in a line.
fn conservation(w: &WorkConservation) -> String {
    let seconds = |ns: Ns| ns.0 as f64 / 1e9;
    let mut out = format!(
        "  {:.6} core-seconds idle while a task waited elsewhere",
        seconds(w.idle_while_waiting)
    );
    if w.violations > 0 {
        out.push_str(&format!(
            ", longest {:.3} ms at {:.6} s, {} times",
            w.longest.0 as f64 / 1e6,
            seconds(w.longest_at),
            w.violations
        ));
    }
    out.push('\n');
    out
}

/// Whole numbers as they are, others with three decimals.
fn number(x: f64) -> String {
    if x.fract() == 0.0 && x.abs() < 1e15 {
        format!("{x:.0}")
    } else {
        format!("{x:.3}")
    }
}

fn json(s: &Scenario, o: &RunOutcome, wall: Option<f64>) -> serde_json::Value {
    let figures: Vec<_> = o
        .figures
        .iter()
        .map(|f| {
            serde_json::json!({
                "name": f.name, "value": f.value, "unit": f.unit, "direction": f.direction, "role": f.role,
            })
        })
        .collect();
    let tasks: Vec<_> = o
        .result
        .tasks
        .iter()
        .map(|t| {
            serde_json::json!({
                "comm": t.comm, "pid": t.pid, "run_ns": t.run.0, "charged_ns": t.charged.0,
                "ended": t.ended, "user_ns": t.stats.user, "system_ns": t.stats.system,
                "spin_ns": t.stats.spin, "nvcsw": t.stats.nvcsw, "nivcsw": t.stats.nivcsw,
                "migrations": t.stats.migrations, "wakeups": t.stats.wakeups, "yields": t.stats.yields,
            })
        })
        .collect();
    let cpus: Vec<_> = o
        .result
        .cpus
        .iter()
        .map(|c| {
            serde_json::json!({
                "user_ns": c.user, "system_ns": c.system, "overhead_ns": c.overhead,
                "irq_ns": c.irq, "idle_ns": c.idle,
            })
        })
        .collect();
    let mut value = serde_json::json!({
        "schema": "schedlab.run/1",
        "version": env!("CARGO_PKG_VERSION"),
        "scenario": s.name,
        "profile": s.kernel.profile.name,
        "machine": s.machine.name(),
        "nr_cpus": s.machine.cpus(),
        "seed": s.seed,
        "end_ns": o.result.end.0,
        "simulated_s": o.result.end.0 as f64 / 1e9,
        "ended": o.result.ended,
        "deadlock": o.result.deadlock,
        "events": o.result.events,
        "figures": figures,
        "tasks": tasks,
        "cpus": cpus,
        "work_conservation": {
            "idle_while_waiting_ns": o.result.conservation.idle_while_waiting.0,
            "longest_ns": o.result.conservation.longest.0,
            "longest_at_ns": o.result.conservation.longest_at.0,
            "violations": o.result.conservation.violations,
        },
        "latency": latency::to_value(&o.latency),
    });
    if let (Some(wall), Some(map)) = (wall, value.as_object_mut()) {
        map.insert("wall_s".into(), wall.into());
        map.insert(
            "events_per_second".into(),
            (o.result.events as f64 / wall.max(1e-9)).into(),
        );
    }
    value
}
