//! Scheduling properties of threads and phases.

use schedlab_fair::Ns;
use schedlab_sim::program::Sched;

use super::{Field, Object};
use crate::error::{Error, Warning};
use crate::json::JsonValue;
use crate::reader::outside;

/// rt-app's policies that can be simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Policy {
    Other,
    Batch,
    Idle,
    Fifo,
    Rr,
}

const POLICIES: [(&str, Policy); 5] = [
    ("SCHED_OTHER", Policy::Other),
    ("SCHED_BATCH", Policy::Batch),
    ("SCHED_IDLE", Policy::Idle),
    ("SCHED_FIFO", Policy::Fifo),
    ("SCHED_RR", Policy::Rr),
];

impl Policy {
    pub(super) fn read(field: &Field<'_>) -> Result<Self, Error> {
        let name = field.text("the name of a policy, such as \"SCHED_OTHER\"")?;
        if name == "SCHED_DEADLINE" {
            return Err(field.conflict("SCHED_DEADLINE is not simulated; use another policy"));
        }
        POLICIES
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, p)| *p)
            .ok_or_else(|| Error::UnknownName {
                place: field.json.place.clone(),
                key: field.path.clone(),
                what: "policy",
                name: name.into(),
                known: POLICIES.iter().map(|(n, _)| (*n).to_string()).collect(),
            })
    }

    /// With a checked priority, or rt-app's default of nice 0 and real-time priority 10.
    pub(super) fn sched(self, priority: Option<i8>) -> Sched {
        let nice = priority.unwrap_or(0);
        let rt_priority = priority.map_or(10, i8::unsigned_abs);
        match self {
            Self::Other => Sched::Other { nice },
            Self::Batch => Sched::Batch { nice },
            Self::Idle => Sched::Idle,
            Self::Fifo => Sched::Fifo { rt_priority },
            Self::Rr => Sched::Rr { rt_priority },
        }
    }

    fn of(sched: Sched) -> Self {
        match sched {
            Sched::Other { .. } => Self::Other,
            Sched::Batch { .. } => Self::Batch,
            Sched::Idle => Self::Idle,
            Sched::Fifo { .. } => Self::Fifo,
            Sched::Rr { .. } => Self::Rr,
        }
    }
}

/// Keys that threads and phases share, beside events and `loop`.
pub(super) const SHARED_KEYS: [&str; 11] = [
    "loop",
    "policy",
    "priority",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
    "cpus",
    "nodes_membind",
    "util_min",
    "util_max",
    "taskgroup",
];

/// The spelling of `nodes_membind` in the tutorial.
pub(super) const MEMBIND: &str = "membind_nodes";

/// What a thread or a phase sets; `None` where it is silent.
#[derive(Clone, Default)]
pub(super) struct Properties {
    pub(super) sched: Option<Sched>,
    /// Custom slice: `dl-runtime` under a fair policy.
    pub(super) slice: Option<Ns>,
    pub(super) cpus: Option<Vec<u32>>,
    pub(super) taskgroup: Option<String>,
}

impl Properties {
    /// Reads what stands in an object; `before` is what was in force.
    pub(super) fn read(
        object: &Object<'_>,
        before: Sched,
        machine_cpus: u32,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, Error> {
        let mut p = Self {
            sched: sched(object, before)?,
            ..Self::default()
        };
        if let Some(f) = object.get("dl-runtime")? {
            match f.microseconds()? {
                Ns(0) => {}
                slice => p.slice = Some(slice),
            }
        }
        if let Some(f) = object.get("cpus")? {
            p.cpus = Some(cpus(&f, machine_cpus)?);
        }
        if let Some(f) = object.get("taskgroup")? {
            p.taskgroup = Some(
                f.text("a path such as \"/tg1/tg11\"")?
                    .trim_matches('/')
                    .into(),
            );
        }
        for member in object.members {
            let field = object.field(member);
            match member.key.as_str() {
                "dl-period" | "dl-deadline" => {
                    field.microseconds()?;
                    warnings.push(object.ignored(member, "it belongs to SCHED_DEADLINE"));
                }
                "util_min" | "util_max" => {
                    field.integer(0, 1024, "an integer from 0 to 1024")?;
                    warnings.push(object.ignored(member, "utilization clamps are not simulated"));
                }
                "nodes_membind" | MEMBIND => {
                    warnings.push(object.ignored(member, "memory placement is not simulated"));
                }
                _ => {}
            }
        }
        Ok(p)
    }
}

fn sched(object: &Object<'_>, before: Sched) -> Result<Option<Sched>, Error> {
    let policy = object
        .get("policy")?
        .map(|f| Policy::read(&f))
        .transpose()?;
    let priority = object.get("priority")?;
    if policy.is_none() && priority.is_none() {
        return Ok(None);
    }
    let policy = policy.unwrap_or_else(|| Policy::of(before));
    let priority = match priority {
        None => None,
        Some(f) => {
            let (min, max, expected) = match policy {
                Policy::Other | Policy::Batch => (-20, 19, "a nice value from -20 to 19"),
                Policy::Idle => (
                    -20,
                    19,
                    "an integer from -20 to 19, which has no effect under SCHED_IDLE",
                ),
                Policy::Fifo | Policy::Rr => (1, 99, "a real-time priority from 1 to 99"),
            };
            i8::try_from(f.integer(min, max, expected)?).ok()
        }
    };
    Ok(Some(policy.sched(priority)))
}

fn cpus(field: &Field<'_>, machine_cpus: u32) -> Result<Vec<u32>, Error> {
    let expected = "an array of CPU numbers, such as [0, 2, 3]";
    let JsonValue::Array(items) = &field.json.value else {
        return Err(field.wrong(expected));
    };
    let mut out = Vec::new();
    for (i, json) in items.iter().enumerate() {
        let item = Field {
            path: format!("{}[{i}]", field.path),
            json,
        };
        let cpu = item.integer(0, i64::from(u32::MAX), "a CPU number")?;
        let cpu = u32::try_from(cpu).unwrap_or(u32::MAX);
        if cpu >= machine_cpus {
            return Err(item.conflict(outside(cpu, machine_cpus)));
        }
        out.push(cpu);
    }
    if out.is_empty() {
        return Err(field.wrong(expected));
    }
    out.sort_unstable();
    out.dedup();
    Ok(out)
}
