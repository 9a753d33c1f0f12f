//! What the user may type.

mod analyses;
mod comparing;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::trace_output::TraceFormat;
pub(crate) use analyses::{
    AntagonistsArgs, LatencyArgs, MapArgs, MigrationsArgs, PreemptedArgs, RowArgs, RunqArgs,
    TimehistArgs, TraceArgs, WakeupChoice,
};
pub(crate) use comparing::{CompareArgs, Format, IntervalChoice};

/// A laboratory for the Linux fair scheduler: does this change help or hurt, where, how surely, and why?
#[derive(Parser, Debug)]
#[command(name = "schedlab", version, propagate_version = true)]
#[command(after_help = "\
Examples:
  schedlab study wakeup-preempt            four variants of a patch, compared as LKP does
  schedlab run scenarios/two-hogs.toml     simulate once and print who waited how long
  schedlab latency trace.txt.xz            the same table from a recording of a real kernel
  schedlab explain trace.txt.xz            why the longest waits lasted
  schedlab check trace.txt.xz              compare a kernel's own state with the rules, step by step")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Simulate a scenario once and print a table per task and a summary.
    Run(RunArgs),
    /// Run several variants of a scenario with several seeds each, and compare them.
    Study(StudyArgs),
    /// Compare results: tables as the lists print them, and what may be concluded.
    Compare(CompareArgs),
    /// Print run time and scheduling delays per task, as perf sched latency.
    Latency(LatencyArgs),
    /// Print every switch with how long the task had waited and run, as perf sched timehist.
    Timehist(TimehistArgs),
    /// Print who runs where after each switch, as perf sched map.
    Map(MapArgs),
    /// Print lengths of the queues over time, and idle CPUs beside waiting tasks.
    Runq(RunqArgs),
    /// Print moves of tasks between CPUs.
    Migrations(MigrationsArgs),
    /// Print who ran while tasks waited, by share.
    Antagonists(AntagonistsArgs),
    /// Print how long tasks ran before they were preempted.
    Preempted(PreemptedArgs),
    /// Compare recorded kernel state with the rules of the fair class, step by step.
    Check(CheckArgs),
    /// Show machines and their scheduling domains, or import one.
    #[command(subcommand)]
    Machine(MachineCommand),
    /// Say why a task waited: the wait split into parts that add up to it, each with its cause.
    Explain(ExplainArgs),
    /// Write a trace in another format: ftrace text, perf script text, Perfetto, NDJSON.
    Convert(ConvertArgs),
    /// Show what is in a trace, and what could not be read of it.
    Info(InfoArgs),
    /// Simulate the load of a recording, compare with the recording, and try other kernels on it.
    Replay(ReplayArgs),
    /// List what there is to choose from.
    List {
        /// What to list.
        what: Listing,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show how two kernel profiles differ.
    DiffProfiles {
        /// One profile, such as 6.12.0.
        a: String,
        /// The other, such as 6.12-stable.
        b: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub(crate) enum Listing {
    /// Feature switches, with the profiles in which each is on.
    Features,
    /// Kernel profiles.
    Profiles,
    /// Machines.
    Machines,
    /// Workloads and kinds of task.
    Workloads,
    /// Built-in studies.
    Studies,
    /// Cost profiles and their figures.
    Costs,
}

#[derive(Subcommand, Debug)]
pub(crate) enum MachineCommand {
    /// Draw a machine as text.
    Show(ShowArgs),
    /// Make a machine file from a copy of sysfs (folder or tar), from lscpu -J [-e], or from hwloc's XML.
    Import(ImportArgs),
    /// Make a machine file of the machine that this runs on.
    Here(OutputArgs),
}

#[derive(clap::Args, Debug)]
pub(crate) struct ShowArgs {
    /// Name of a machine (schedlab list machines), a machine file (.toml), or what `import` reads.
    pub(crate) machine: String,
    /// Add the scheduling domains that the kernel builds, for one CPU of each kind.
    #[arg(long)]
    pub(crate) domains: bool,
    /// Add the scheduling domains of these CPUs, as 0-3,8.
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ImportArgs {
    /// A folder or tar with /sys/devices/system/cpu and node, or a file of lscpu -J or of lstopo --of xml.
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(clap::Args, Debug)]
pub(crate) struct OutputArgs {
    /// Write the machine file there instead of to standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the machine.
    #[arg(long)]
    pub(crate) name: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct RunArgs {
    /// Scenario file (.toml), rt-app file (.json), or the name of a workload such as hackbench.
    pub(crate) scenario: String,
    /// Change a key of the scenario, as in kernel.profile=6.6 or task.worker.nice=5. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Machine to run on, by name or as a machine file (short for --set machine=NAME).
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// Seed of all random draws.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Simulated time after which to stop, as 500ms or 2s.
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// Write the events to a file: a Perfetto trace (.pftrace, .perfetto-trace), ftrace text (.txt), perf script text
    /// (.perf) or NDJSON (.ndjson).
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Put the fair class's own state at every step into the trace as well, for `schedlab explain` and `schedlab check`.
    #[arg(long, requires = "trace")]
    pub(crate) state: bool,
    /// Write what /proc/schedstat, /proc/PID/sched and debugfs sched/debug would show, at equal distances of time, into a new folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) procfs: Option<PathBuf>,
    /// Distance of these looks, as 10ms or 1s.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "100ms",
        requires = "procfs"
    )]
    pub(crate) procfs_every: String,
    /// One row per thread instead of per name.
    #[arg(long)]
    pub(crate) per_thread: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Add the wall time and the rate of events to the output (which then differs from run to run).
    #[arg(long)]
    pub(crate) timing: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct StudyArgs {
    /// Name of a built-in study (schedlab list studies) or a study file.
    pub(crate) study: String,
    /// Runs of each variant, each with its own seed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) runs: Option<u32>,
    /// Simulations at the same time; the results do not depend on it.
    #[arg(short, long, value_name = "J", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(crate) jobs: Option<u32>,
    /// Machine to run on, by name or as a machine file (short for --set machine=NAME).
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// Change a key of the scenario in all variants. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// List every metric, not only those that changed.
    #[arg(long)]
    pub(crate) all: bool,
    /// Write results.json and table.txt into a folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ConvertArgs {
    /// The trace to read, in any format that is read; - for standard input.
    #[arg(value_name = "IN", required_unless_present = "json_schema")]
    pub(crate) input: Option<PathBuf>,
    /// The file to write; - for standard output.
    #[arg(value_name = "OUT", required_unless_present = "json_schema")]
    pub(crate) output: Option<PathBuf>,
    /// Format to write, instead of the one that the file's name ends in.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) to: Option<TraceFormat>,
    /// Write what comes before a break (a file that is cut or damaged), say so, and end with exit code 1. Without this such a file
    /// leaves no output.
    #[arg(long)]
    pub(crate) partial: bool,
    /// Print the JSON Schema of the NDJSON format.
    #[arg(long)]
    pub(crate) json_schema: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct InfoArgs {
    /// The trace; - for standard input.
    pub(crate) file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct CheckArgs {
    /// Recordings with state probes. A meta.json in the same folder tells kernel and settings.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) kernel: KernelArgs,
    /// Topology of a machine of several CPUs: a folder, or a .tar.xz, with domains.txt and dmesg-domains.txt.
    ///
    /// Without it, `topology` and `topology.tar.xz` are looked for beside each recording and one folder up.
    #[arg(long, value_name = "PATH")]
    pub(crate) topology: Option<PathBuf>,
    /// One line a recording.
    #[arg(long)]
    pub(crate) summary: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is known of the recorded kernel.
#[derive(clap::Args, Debug)]
pub(crate) struct KernelArgs {
    /// Kernel profile, instead of what meta.json or the recording says.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Feature switches of the recorded kernel, as in NO_RUN_TO_PARITY. May be repeated.
    #[arg(long = "feature", value_name = "NAME")]
    pub(crate) features: Vec<String>,
    /// Base slice of the recorded kernel, as in 2800us.
    #[arg(long, value_name = "TIME")]
    pub(crate) base_slice: Option<String>,
    /// Ticks a second of the recorded kernel.
    #[arg(long)]
    pub(crate) hz: Option<u32>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ExplainArgs {
    /// The recording, or a simulated trace; - for standard input.
    pub(crate) file: PathBuf,
    /// The task, by name or pid.
    #[arg(long, value_name = "NAME|PID")]
    pub(crate) task: Option<String>,
    /// Explain the wait at this time, in seconds as the trace prints them (12.345678), or the next one.
    #[arg(
        long,
        value_name = "SECONDS",
        requires = "task",
        conflicts_with = "worst"
    )]
    pub(crate) at: Option<String>,
    /// Explain the longest waits, of one task or of all [default: 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) worst: Option<u32>,
    #[command(flatten)]
    pub(crate) kernel: KernelArgs,
    /// Print JSON, with the wait in order of time as well.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ReplayArgs {
    /// The recording; - for standard input. A meta.json in the same folder tells kernel and settings.
    pub(crate) file: PathBuf,
    /// Kernel profile of the recorded kernel, instead of what the trace or meta.json says.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Cost profile: what it charges for the recorded switches, wakeups and ticks is taken off the recorded work.
    #[arg(long, value_name = "NAME", default_value = "zero")]
    pub(crate) costs: String,
    /// A fact about the recorded machine that the trace does not tell, as in task.NAME.slice=20ms; holds in every
    /// simulation. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) given: Vec<String>,
    /// What if: one more simulation with this change (all --set together), as in kernel.profile=6.6. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// What if: one more simulation with these changes; a word without = is a kernel profile. May be repeated.
    #[arg(long, value_name = "PROFILE|KEY=VALUE[;KEY=VALUE]")]
    pub(crate) vs: Vec<String>,
    /// Simulate the load so many times in a row; 0: convert it and simulate nothing; -1: until --duration.
    #[arg(
        short,
        long,
        value_name = "N",
        default_value_t = 1,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(i64).range(-1..=100_000)
    )]
    pub(crate) repeat: i64,
    /// Simulated time after which to stop, with --repeat -1.
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// Write the scenario as TOML, for `schedlab run`.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write the load as an rt-app file (JSON), for a live run.
    #[arg(long, value_name = "FILE")]
    pub(crate) rt_app: Option<PathBuf>,
    /// Tasks listed, those with the most run time first.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) tasks: usize,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
