//! Check of a kernel's placement and balancing decisions, recorded with their inputs, against `schedlab-balance`.
//!
//! Each recorded decision is made again by the rules from what the recording says the kernel saw. Where a test of the kernel left a
//! record (is this CPU idle, what is this task's load), the rule must ask the same tests in the same order.
//! What the recording does not determine is counted apart, never as agreement.

mod balance;
mod newidle;
mod periodic;
mod place;
mod probe;
mod report;
mod shadow;
mod slow;
mod topology;

use schedlab_balance::{Domains, Rules};
use schedlab_fair::{Feature, Features};
use schedlab_trace::event::{Event, EventKind};

use probe::Fields;
use shadow::Machine;

pub use report::{Miss, SmpReport, Tally};
pub use topology::kernel_domains;

/// Settings of the recorded kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmpOptions {
    /// Switches.
    pub features: Features,
    /// `migration_cost_ns`.
    pub migration_cost: i64,
    /// `nr_migrate`.
    pub nr_migrate: u32,
    /// Ticks a second.
    pub hz: u32,
    /// Tasks whose policy is known beforehand: whether it is SCHED_IDLE.
    pub idle_policy: std::collections::BTreeMap<i32, bool>,
}

impl Default for SmpOptions {
    /// 6.12 as Debian ships it, with its defaults.
    fn default() -> Self {
        Self {
            features: schedlab_fair::Profile::default().features,
            migration_cost: 500_000,
            nr_migrate: 32,
            hz: 250,
            idle_policy: std::collections::BTreeMap::new(),
        }
    }
}

/// Names of the probes that this check reads.
const PROBES: [&str; 24] = [
    "sel", "selret", "avail", "core", "hload", "dstgrp", "wlist", "act", "setaff", "ni", "niret",
    "lb", "lbret", "sds", "fsg", "canmig", "nab", "alb", "dom", "m_rq", "m_rnd", "newutil", "ilb",
    "nohzcsd",
];

/// Whether an event is one by which a recording of this kind is recognised: the mark at its start, or a placement.
#[must_use]
pub fn is_smp_probe(event: &Event) -> bool {
    let EventKind::Other { name, fields } = &event.kind else {
        return false;
    };
    match name.as_str() {
        "sel" => fields.contains("(select_task_rq_fair"),
        "m_rq" | "m_rnd" => fields.starts_with('(') || fields.starts_with(" ("),
        _ => false,
    }
}

/// A check in progress.
pub struct SmpCheck<'a> {
    domains: &'a Domains,
    options: SmpOptions,
    report: SmpReport,
    machine: Machine,
    place: place::Open,
    balance: balance::Open,
    newidle: newidle::State,
    periodic: periodic::State,
}

/// Where an event happened.
#[derive(Clone, Copy)]
struct At<'a> {
    number: u64,
    event: &'a Event,
}

impl At<'_> {
    fn miss(
        &self,
        kind: &'static str,
        pid: Option<i32>,
        ours: impl ToString,
        kernel: impl ToString,
        cause: &'static str,
    ) -> Miss {
        Miss {
            event: self.number,
            ts: self.event.ts,
            kind,
            cpu: self.event.cpu,
            pid,
            ours: ours.to_string(),
            kernel: kernel.to_string(),
            cause,
        }
    }
}

impl<'a> SmpCheck<'a> {
    /// A check of a recording made on a machine with these domains.
    #[must_use]
    pub fn new(domains: &'a Domains, options: SmpOptions) -> Self {
        let cpus = domains.cpus() as usize;
        let machine = Machine::new(domains.cpus(), options.idle_policy.clone());
        Self {
            domains,
            options,
            report: SmpReport::default(),
            machine,
            place: place::Open::new(cpus),
            balance: balance::Open::new(cpus),
            newidle: newidle::State::new(cpus),
            periodic: periodic::State::default(),
        }
    }

    fn rules(&self) -> Rules<'a> {
        Rules {
            domains: self.domains,
            features: self.options.features,
        }
    }

    fn on(&self, feature: Feature) -> bool {
        self.options.features.has(feature)
    }

    /// Takes the next event; `number` counts the file's events from 1.
    ///
    /// # Errors
    ///
    /// A probe without the fields that it must have, or a CPU that the machine has not.
    pub fn feed(&mut self, number: u64, event: &Event) -> Result<(), String> {
        self.report.events = number;
        if event.cpu >= self.domains.cpus() {
            return Err(format!(
                "CPU {}: the topology has CPUs 0 to {}",
                event.cpu,
                self.domains.cpus() - 1
            ));
        }
        let at = At { number, event };
        let EventKind::Other { name, fields } = &event.kind else {
            self.machine.event(event);
            return Ok(());
        };
        if !PROBES.contains(&name.as_str()) && !name.starts_with("m_sd") {
            return Ok(());
        }
        let Some(fields) = Fields::read(fields) else {
            // An event of another subsystem that happens to have this name.
            return Ok(());
        };
        self.report.probes += 1;
        self.probe(at, name, &fields)
            .map_err(|what| format!("probe `{name}`: {what}"))
    }

    fn probe(&mut self, at: At<'_>, name: &str, f: &Fields<'_>) -> Result<(), String> {
        for field in ["cpu", "src", "dst", "prev"] {
            if f.get(field)
                .is_some_and(|c| c >= u64::from(self.domains.cpus()))
            {
                return Err(format!("field `{field}`: no such CPU in the topology"));
            }
        }
        match name {
            "sel" => self.selection_begins(at, f),
            "avail" => self.idle_test(at, f),
            "hload" => self.task_load(at, f),
            "selret" => self.selection_ends(at, f),
            "wlist" => self.wakelist(at, f),
            "act" => self.activation(at, f),
            "setaff" => self.machine.set_affinity(f),
            "ni" => self.newidle_begins(at, f),
            "niret" => self.newidle_ends(at, f),
            "lb" => self.attempt_begins(at, f),
            "sds" => self.statistics(at, f),
            "fsg" => self.source_group(at, f),
            "canmig" => self.task_looked_at(at, f),
            "nab" => self.active_balance_asked(at, f),
            "lbret" => self.attempt_ends(at, f),
            "dom" => self.periodic_pass(at, f),
            "m_rq" => self.periodic.mark(at, f),
            "m_rnd" => self.random_state(at, f),
            level => match level.strip_prefix("m_sd").and_then(|l| l.parse().ok()) {
                Some(depth) => self.domain_state(depth, f),
                None => Ok(()),
            },
        }
    }

    /// The report, once all events are fed.
    #[must_use]
    pub fn finish(mut self) -> SmpReport {
        self.periodic_decisions();
        self.report
    }
}
