//! The `global` object.

use schedlab_fair::Ns;
use schedlab_sim::program::Sched;

use super::{Object, properties};
use crate::error::{Error, Warning};
use crate::json::{JsonValue, Member};

/// What `global` decides.
pub(super) struct Global {
    pub(super) duration: Option<Ns>,
    pub(super) policy: properties::Policy,
    /// Bytes of each thread's memory buffer.
    pub(super) mem_buffer_size: u64,
}

impl Default for Global {
    fn default() -> Self {
        Self {
            duration: None,
            policy: properties::Policy::Other,
            mem_buffer_size: 4_194_304,
        }
    }
}

const KNOWN: [&str; 17] = [
    "duration",
    "calibration",
    "default_policy",
    "pi_enabled",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
    // Of old versions.
    "frag",
    "fragment",
    "spacing",
    "shared_buffer_size",
];

impl Global {
    pub(super) fn read(
        member: Option<&Member>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, Error> {
        let mut global = Self::default();
        let Some(member) = member else {
            return Ok(global);
        };
        let object = Object::new(&member.json, "global", "an object")?;
        object.only(&KNOWN)?;
        if let Some(f) = object.get("duration")? {
            let seconds = f.integer(
                -1,
                1_000_000_000,
                "a whole number of seconds, or -1 to run until all tasks end",
            )?;
            global.duration = u64::try_from(seconds).ok().map(Ns::from_secs);
            if seconds == 0 {
                return Err(
                    f.wrong("a number of seconds above 0, or -1 to run until all tasks end")
                );
            }
        }
        if let Some(f) = object.get("default_policy")? {
            global.policy = properties::Policy::read(&f)?;
        }
        if let Some(f) = object.get("mem_buffer_size")? {
            let bytes = f.integer(1, 1 << 40, "a number of bytes above 0")?;
            global.mem_buffer_size = bytes.unsigned_abs();
        }
        if let Some(f) = object.get("calibration")? {
            let fine = match &f.json.value {
                JsonValue::String(s) => s
                    .strip_prefix("CPU")
                    .is_some_and(|n| n.parse::<u32>().is_ok()),
                JsonValue::Integer(n) => *n > 0,
                _ => false,
            };
            if !fine {
                return Err(f.wrong("\"CPU0\", or a whole number of nanoseconds per loop"));
            }
        }
        if let Some(f) = object.get("pi_enabled")?
            && f.boolean()?
        {
            let member = object
                .members
                .iter()
                .find(|m| m.key == "pi_enabled")
                .unwrap_or(member);
            warnings.push(object.ignored(
                member,
                "mutexes have no priority inheritance in the simulation",
            ));
        }
        for key in ["lock_pages", "gnuplot", "cumulative_slack"] {
            if let Some(f) = object.get(key)? {
                f.boolean()?;
            }
        }
        for key in ["logdir", "log_basename", "io_device"] {
            if let Some(f) = object.get(key)? {
                f.text("a string")?;
            }
        }
        for old in object.members.iter().filter(|m| {
            matches!(
                m.key.as_str(),
                "frag" | "fragment" | "spacing" | "shared_buffer_size"
            )
        }) {
            warnings.push(object.ignored(old, "a key of old versions of rt-app"));
        }
        Ok(global)
    }

    /// Parameters of a thread that sets none.
    pub(super) fn default_sched(&self) -> Sched {
        self.policy.sched(None)
    }
}
