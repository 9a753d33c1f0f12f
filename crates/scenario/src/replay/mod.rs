//! A recorded load as a scenario: written as TOML or as an rt-app file, simulated, and held against the recording.
//!
//! The one way from a trace to a simulation is the text that [`RecordedLoad::toml`] gives: what is simulated is what a
//! file written from it would say, and every `--set` reaches it.

mod fit;
mod names;
mod record;
mod rtapp;
mod toml;
mod words;

pub use fit::{Figures, Fit, RunMeter};
pub(crate) use record::{RecordContext, record};
pub use rtapp::RtAppText;

use schedlab_analysis::load::Load;
use schedlab_fair::{Feature, Ns, Profile};
use schedlab_sim::Costs;

/// The simulation begins at least this long before the first event, so that tasks which were asleep then are, ns.
const LEAD_LEAST: u64 = 10_000_000;

/// How often the load is simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repeat {
    /// So many times in a row, at least once.
    Times(u32),
    /// Again and again until this time of the simulation.
    Until(Ns),
}

/// The kernel that a trace was recorded under, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedKernel {
    /// Its profile, with the switches and the base slice in force.
    pub profile: Profile,
    /// Ticks a second, if known; else what the trace shows.
    pub hz: Option<u32>,
}

/// A load with all that is needed to simulate it.
#[derive(Clone, Debug)]
pub struct RecordedLoad<'a> {
    load: &'a Load,
    /// What messages and the scenario call it.
    name: String,
    kernel: RecordedKernel,
    costs: (String, Costs),
    repeat: Repeat,
    /// Names of the tasks, by index.
    names: Vec<String>,
}

impl<'a> RecordedLoad<'a> {
    /// `costs` is the name of a cost profile: what it will charge for the recorded switches, wakeups and ticks is taken
    /// off the recorded work, which holds them already.
    ///
    /// # Errors
    /// A cost profile that does not exist, and a trace without work or with too many CPUs, in words.
    pub fn new(
        load: &'a Load,
        name: &str,
        kernel: RecordedKernel,
        costs: &str,
        repeat: Repeat,
    ) -> Result<Self, String> {
        let Some(known) = Costs::by_name(costs) else {
            let all: Vec<&str> = Costs::PROFILES.iter().map(|(n, _, _)| *n).collect();
            return Err(format!(
                "there is no cost profile `{costs}`; expected one of: {}",
                all.join(", ")
            ));
        };
        if load.tasks.is_empty() {
            return Err(
                "no task that runs or sleeps in it; expected sched_switch and sched_waking events"
                    .into(),
            );
        }
        if load.cpus > schedlab_topology::CPUS_LIMIT {
            return Err(format!(
                "CPU {} in it; expected at most {} CPUs",
                load.cpus - 1,
                schedlab_topology::CPUS_LIMIT
            ));
        }
        Ok(Self {
            load,
            name: name.to_string(),
            kernel,
            costs: (costs.to_string(), known),
            repeat,
            names: names::names(load),
        })
    }

    /// Name of a task of the load, as the scenario calls it.
    #[must_use]
    pub fn task_name(&self, index: usize) -> &str {
        self.names.get(index).map_or("", String::as_str)
    }

    /// Number of tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none; never, as [`RecordedLoad::new`] refuses that.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// For each task the first one that had its pid: a recording's tables are by pid.
    #[must_use]
    pub fn first_of_pid(&self) -> Vec<usize> {
        let mut first = std::collections::BTreeMap::new();
        self.load
            .tasks
            .iter()
            .enumerate()
            .map(|(i, t)| *first.entry(t.pid).or_insert(i))
            .collect()
    }

    /// Ticks a second: as told, as seen, or the lab's usual 1000.
    #[must_use]
    pub fn hz(&self) -> u32 {
        self.kernel.hz.or(self.load.hz).unwrap_or(1000)
    }

    /// Time of the simulation at which the trace begins. Its ticks come as recorded.
    #[must_use]
    pub fn lead(&self) -> Ns {
        let tick = 1_000_000_000 / u64::from(self.hz().max(1));
        if self.load.hz != Some(self.hz()) {
            return Ns(LEAD_LEAST.next_multiple_of(tick));
        }
        // The first tick of the trace falls on a whole number of periods.
        let phase = self.load.tick_phase % tick;
        Ns((LEAD_LEAST + phase).next_multiple_of(tick) - phase)
    }

    /// Time from the begin of one repetition to that of the next.
    #[must_use]
    pub fn round(&self) -> Ns {
        Ns(self.load.span.max(1).saturating_add(self.lead().0))
    }

    /// End of the simulation.
    #[must_use]
    pub fn duration(&self) -> Ns {
        match self.repeat {
            Repeat::Times(n) => Ns(self.round().0.saturating_mul(u64::from(n.max(1)))),
            Repeat::Until(end) => end,
        }
    }
}

/// Switches in which a profile differs from the one of its name, as typed into the kernel's features file.
fn changed_features(profile: &Profile) -> Vec<String> {
    let Some(plain) = Profile::by_name(profile.name) else {
        return Vec::new();
    };
    Feature::ALL
        .iter()
        .filter(|f| profile.features.has(**f) != plain.features.has(**f))
        .map(|f| {
            let no = if profile.features.has(*f) { "" } else { "NO_" };
            format!("{no}{}", f.name())
        })
        .collect()
}
