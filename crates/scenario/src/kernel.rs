//! `[kernel]`: a profile and changes to it.

use schedlab_fair::profile::{NrScope, TickRule, WakeupRule, YieldRule};
use schedlab_fair::{Feature, Features, Ns, Profile};
use schedlab_sim::ServerSpec;

use crate::error::Error;
use crate::reader::{Field, Reader};

/// When a pending reschedule turns into a switch (reference section 14).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preempt {
    /// `preempt=none`.
    None,
    /// `preempt=voluntary`.
    Voluntary,
    /// `preempt=full`.
    Full,
    /// `preempt=lazy`, since 6.13.
    Lazy,
}

/// Preemption models by the kernel's names.
pub(crate) const PREEMPT: [(&str, Preempt); 4] = [
    ("none", Preempt::None),
    ("voluntary", Preempt::Voluntary),
    ("full", Preempt::Full),
    ("lazy", Preempt::Lazy),
];

/// Scopes of the "is anything else running" test, first by this project's name, then as the kernel writes them.
const NR_SCOPES: [(&str, NrScope); 6] = [
    ("rq", NrScope::Rq),
    ("root-cfs", NrScope::RootCfs),
    ("cfs-rq", NrScope::CfsRq),
    ("rq->nr_running", NrScope::Rq),
    ("rq->cfs.nr_running", NrScope::RootCfs),
    ("cfs_rq->nr_running", NrScope::CfsRq),
];

const YIELD_RULES: [(&str, YieldRule); 6] = [
    ("skip", YieldRule::Skip),
    ("deadline-push", YieldRule::DeadlinePush),
    ("deadline-reset", YieldRule::DeadlineReset),
    ("forfeit", YieldRule::Forfeit),
    ("forfeit-eligible", YieldRule::ForfeitEligible),
    ("forfeit-renew", YieldRule::ForfeitRenew),
];

const TICK_RULES: [(&str, TickRule); 3] = [
    ("consumed", TickRule::Consumed),
    ("consumed-or-short", TickRule::ConsumedOrShort),
    ("consumed-or-unprotected", TickRule::ConsumedOrUnprotected),
];

const WAKEUP_RULES: [(&str, WakeupRule); 6] = [
    ("cfs", WakeupRule::Cfs),
    ("6.6", WakeupRule::V66),
    ("6.12", WakeupRule::V612),
    ("6.17", WakeupRule::V617),
    ("6.18", WakeupRule::V618),
    ("6.19", WakeupRule::V619),
];

/// A kernel as a scenario describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// Rules, switches and time constants.
    pub profile: Profile,
    /// Preemption model.
    pub preempt: Preempt,
    /// Core scheduling (`SCHED_CORE`): tasks with different cookies never share a core.
    pub core_sched: bool,
    /// Autogroup (`sched_autogroup_enabled`): tasks of a session that are in no group share one.
    pub autogroup: bool,
    /// The fair server of each CPU (`fair_server/cpuN/{runtime,period}`), where the profile has one.
    pub fair_server: ServerSpec,
    /// CPUs whose tick stops while they have nothing to choose between (`nohz_full=`).
    pub nohz_full: Vec<u32>,
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            preempt: Preempt::Voluntary,
            core_sched: false,
            autogroup: false,
            fair_server: ServerSpec::default(),
            nohz_full: Vec::new(),
        }
    }
}

impl Kernel {
    pub(crate) fn read(field: Option<&Field<'_>>, cpus: u32) -> Result<Self, Error> {
        let mut kernel = Self::default();
        let Some(field) = field else {
            return Ok(kernel);
        };
        let reader = Reader::new(field, "a table, such as kernel.profile = \"6.12-stable\"")?;
        if let Some(f) = reader.get("profile") {
            let name = f
                .node
                .as_name()
                .ok_or_else(|| f.wrong("the name of a profile, such as \"6.12-stable\""))?;
            kernel.profile = Profile::by_name(name)
                .ok_or_else(|| f.unknown("profile", Profile::ALL.iter().map(|p| p.name)))?;
        }
        let profile = &mut kernel.profile;
        if let Some(f) = reader.get("features") {
            for (word, f) in f.words("a list such as [\"NO_RUN_TO_PARITY\"]")? {
                let (feature, on) = Features::parse(&word).ok_or_else(|| Error::UnknownName {
                    place: f.node.place.clone(),
                    key: f.path.clone(),
                    what: "feature",
                    name: word.clone(),
                    known: Feature::ALL.iter().map(|f| f.name().to_string()).collect(),
                })?;
                *profile = profile.with_feature(feature, on);
            }
        }
        let within = |f: &Field<'_>, min: Ns, max: Ns, expected: &str| match f.time()? {
            t if t < min || t > max => Err(f.wrong(expected)),
            t => Ok(t),
        };
        if let Some(f) = reader.get("base_slice") {
            // The bounds of the kernel's debugfs file.
            let slice = within(
                &f,
                Ns::from_us(100),
                Ns::from_secs(1),
                "a time from 100us to 1s",
            )?;
            profile.tunables.base_slice = Some(slice);
        }
        if let Some(f) = reader.get("migration_cost") {
            profile.tunables.migration_cost =
                within(&f, Ns::ZERO, Ns::from_secs(1), "a time of at most 1s")?;
        }
        if let Some(f) = reader.get("bandwidth_slice") {
            profile.tunables.bandwidth_slice = within(
                &f,
                Ns::from_us(1),
                Ns::from_secs(1),
                "a time from 1us to 1s",
            )?;
        }
        choice(&reader, "nr_scope", &NR_SCOPES, &mut profile.nr_scope)?;
        choice(&reader, "yield_rule", &YIELD_RULES, &mut profile.yield_rule)?;
        choice(&reader, "tick_rule", &TICK_RULES, &mut profile.tick_rule)?;
        choice(
            &reader,
            "wakeup_rule",
            &WAKEUP_RULES,
            &mut profile.wakeup_rule,
        )?;
        if let Some(f) = reader.get("core_sched") {
            kernel.core_sched = f.boolean()?;
        }
        if let Some(f) = reader.get("autogroup") {
            kernel.autogroup = f.boolean()?;
        }
        if let Some(f) = reader.get("fair_server") {
            kernel.fair_server = fair_server(&f)?;
        }
        if let Some(f) = reader.get("nohz_full") {
            kernel.nohz_full = f.cpus(cpus)?;
        }
        let preempt = reader.get("preempt");
        if preempt.is_none() && kernel.profile.name == "7.0" {
            kernel.preempt = Preempt::Lazy;
        }
        choice(&reader, "preempt", &PREEMPT, &mut kernel.preempt)?;
        if let Some(f) = preempt
            && kernel.preempt == Preempt::Lazy
            && !kernel.profile.lazy_resched
        {
            return Err(f.conflict(format!(
                "the kernel {} has no lazy preemption, which came with 6.13",
                kernel.profile.name
            )));
        }
        reader.finish()?;
        Ok(kernel)
    }
}

/// `[kernel.fair_server]`.
fn fair_server(field: &Field<'_>) -> Result<ServerSpec, Error> {
    let reader = Reader::new(
        field,
        "a table, such as { runtime = \"50ms\", period = \"1s\" }",
    )?;
    let mut spec = ServerSpec::default();
    if let Some(f) = reader.get("period") {
        // The bounds of the kernel's debugfs file.
        spec.period = match f.time()? {
            t if (100_000..=(1 << 22) * 1000).contains(&t.0) => t,
            _ => return Err(f.wrong("a time from 100us to 4.194304s")),
        };
    }
    if let Some(f) = reader.get("runtime") {
        spec.runtime = f.time()?;
        if spec.runtime > spec.period {
            return Err(f.conflict("the runtime is longer than the period"));
        }
    } else if spec.runtime > spec.period {
        return Err(
            field.conflict("the runtime, 50ms where it is not given, is longer than the period")
        );
    }
    if let Some(f) = reader.get("defer") {
        spec.defer = f.boolean()?;
    }
    reader.finish()?;
    Ok(spec)
}

/// A key whose value is one of a few names.
fn choice<T: Copy>(
    reader: &Reader<'_>,
    key: &'static str,
    names: &[(&'static str, T)],
    target: &mut T,
) -> Result<(), Error> {
    let Some(f) = reader.get(key) else {
        return Ok(());
    };
    let name = f.text("one of a few names")?;
    match names.iter().find(|(n, _)| *n == name) {
        Some((_, value)) => {
            *target = *value;
            Ok(())
        }
        None => Err(f.unknown(key, names.iter().map(|(n, _)| *n))),
    }
}
