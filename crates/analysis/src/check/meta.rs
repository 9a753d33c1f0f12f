//! The description beside a recording (`meta.json`): the settings in force.

use schedlab_fair::{Features, Ns, Profile};
use schedlab_trace::event::{Event, EventKind};
use serde_json::Value;
use thiserror::Error;

use super::replay::CheckOptions;
use super::smp::SmpOptions;

/// Why a description cannot be used.
#[derive(Debug, Error)]
pub enum MetaError {
    /// No JSON.
    #[error("line {}: {source}; expected the JSON object of a recording's description", source.line())]
    Json {
        /// What the parser says.
        #[from]
        source: serde_json::Error,
    },
    /// A value of the wrong kind.
    #[error("key `{key}`: expected {expected}")]
    Wrong {
        /// Where.
        key: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// A kernel that no profile matches.
    #[error(
        "settings: kernel `{0}` has no profile here; name one with --profile (schedlab list profiles)"
    )]
    Kernel(String),
    /// A switch that no profile has.
    #[error("settings: unknown scheduler feature `{0}` (schedlab list features)")]
    Feature(String),
    /// The mark of a simulation that cannot be read.
    #[error("mark of the simulation: `{word}`: expected {expected}")]
    Mark {
        /// The word.
        word: String,
        /// What belongs there.
        expected: String,
    },
}

/// What the mark at the beginning of a simulated trace with state records begins with.
const MARK: &str = "schedlab: ";

impl CheckOptions {
    /// Reads the options out of a recording's description.
    ///
    /// `settings` holds the kernel release, then lines `features: …`, `base_slice_ns: …`.
    ///
    /// # Errors
    ///
    /// Text that is no such description, a kernel without a profile, an unknown feature.
    pub fn from_meta(text: &str) -> Result<Self, MetaError> {
        let meta: Value = serde_json::from_str(text)?;
        let mut options = Self::default();
        let settings = strings(&meta, "settings")?;
        if let Some(release) = settings.first() {
            options.profile =
                profile_of(release).ok_or_else(|| MetaError::Kernel((*release).to_string()))?;
        }
        for line in &settings {
            if let Some(list) = line.strip_prefix("features:") {
                for word in list.split_ascii_whitespace() {
                    let (feature, on) = Features::parse(word)
                        .ok_or_else(|| MetaError::Feature(word.to_string()))?;
                    options.profile = options.profile.with_feature(feature, on);
                }
            } else if let Some(ns) = line.strip_prefix("base_slice_ns:") {
                let ns = ns.trim().parse().map_err(|_| MetaError::Wrong {
                    key: "settings, base_slice_ns".to_string(),
                    expected: "nanoseconds",
                })?;
                options.profile.tunables.base_slice = Some(Ns(ns));
            } else if let Some(hz) = line.strip_prefix("hz:") {
                options.hz = hz.trim().parse().map_err(|_| MetaError::Wrong {
                    key: "settings, hz".to_string(),
                    expected: "ticks a second",
                })?;
            }
        }
        Ok(options)
    }

    /// Reads the mark that a simulation puts at the beginning of a trace with state records; `None`: it is another
    /// mark.
    ///
    /// # Errors
    ///
    /// A profile, switch or value that does not exist.
    pub fn from_mark(event: &Event) -> Option<Result<Self, MetaError>> {
        match &event.kind {
            EventKind::Other { name, fields } if name == "tracing_mark_write" => {
                Some(Self::from_mark_text(fields.trim().strip_prefix(MARK)?))
            }
            _ => None,
        }
    }

    fn from_mark_text(text: &str) -> Result<Self, MetaError> {
        let mut options = Self {
            kernels_min_slice: false,
            ..Self::default()
        };
        for word in text.split_ascii_whitespace() {
            let wrong = |expected: &str| MetaError::Mark {
                word: word.to_string(),
                expected: expected.to_string(),
            };
            let (name, value) = word.split_once('=').ok_or_else(|| wrong("name=value"))?;
            match name {
                "profile" => {
                    options.profile = Profile::by_name(value)
                        .ok_or_else(|| wrong("a profile (schedlab list profiles)"))?;
                }
                "hz" => {
                    options.hz = value
                        .parse()
                        .ok()
                        .filter(|hz| (1..=10_000).contains(hz))
                        .ok_or_else(|| wrong("1 to 10000 ticks a second"))?;
                }
                "cpus" => {}
                name => options
                    .profile
                    .set(name, value)
                    .map_err(|e| wrong(&e.to_string()))?,
            }
        }
        Ok(options)
    }
}

impl SmpOptions {
    /// Reads the options out of a recording's description: switches, `migration_cost_ns`, `nr_migrate`, `hz`.
    ///
    /// # Errors
    ///
    /// As [`CheckOptions::from_meta`].
    pub fn from_meta(text: &str) -> Result<Self, MetaError> {
        let of_class = CheckOptions::from_meta(text)?;
        let mut options = Self {
            features: of_class.profile.features,
            hz: of_class.hz,
            ..Self::default()
        };
        let meta: Value = serde_json::from_str(text)?;
        for line in strings(&meta, "settings")? {
            let number = |name: &str, expected| {
                let value = line.strip_prefix(name)?.strip_prefix(':')?;
                Some(value.trim().parse::<i64>().map_err(|_| MetaError::Wrong {
                    key: format!("settings, {name}"),
                    expected,
                }))
            };
            if let Some(cost) = number("migration_cost_ns", "nanoseconds, or -1") {
                options.migration_cost = cost?;
            } else if let Some(tasks) = number("nr_migrate", "a number of tasks") {
                options.nr_migrate = u32::try_from(tasks?).map_err(|_| MetaError::Wrong {
                    key: "settings, nr_migrate".to_string(),
                    expected: "a number of tasks",
                })?;
            }
        }
        for task in meta
            .get("results")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let pid = task.get("pid").and_then(Value::as_i64);
            let spec = task.get("spec").and_then(Value::as_str);
            if let (Some(pid), Some(spec)) = (pid.and_then(|p| i32::try_from(p).ok()), spec) {
                options
                    .idle_policy
                    .insert(pid, spec.contains("policy=idle"));
            }
        }
        Ok(options)
    }
}

/// The profile for a kernel release as `uname -r` prints it; `None` if there is none for it.
#[must_use]
pub fn profile_of(release: &str) -> Option<Profile> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let major: u32 = numbers.next()?.parse().ok()?;
    let minor: u32 = numbers.next()?.parse().ok()?;
    let patch: u32 = numbers.next().and_then(|p| p.parse().ok()).unwrap_or(0);
    let name = match (major, minor, patch) {
        (6, 1, _) => "6.1",
        (6, 6 | 7, _) => "6.6",
        (6, 8..=11, _) => "6.8",
        (6, 12, 0) => "6.12.0",
        (6, 12, _) => "6.12-stable",
        (6, 13 | 14, _) => "6.13",
        (6, 15 | 16, _) => "6.15",
        (6, 17, _) => "6.17",
        (6, 18, _) => "6.18",
        (6, 19, _) => "6.19",
        (7, 0, _) => "7.0",
        _ => return None,
    };
    Profile::by_name(name)
}

fn strings<'a>(meta: &'a Value, key: &str) -> Result<Vec<&'a str>, MetaError> {
    let wrong = || MetaError::Wrong {
        key: key.to_string(),
        expected: "a list of strings",
    };
    match meta.get(key) {
        None => Ok(Vec::new()),
        Some(list) => list
            .as_array()
            .ok_or_else(wrong)?
            .iter()
            .map(|v| v.as_str().ok_or_else(wrong))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_fair::Feature;

    #[test]
    fn reads_switches_and_slice() {
        let o = CheckOptions::from_meta(
            r#"{"settings": ["6.12.117+deb12-cloud-amd64", "features: NO_PLACE_LAG RUN_TO_PARITY ", "base_slice_ns: 6000000", "hz: 1000"]}"#,
        )
        .unwrap();
        assert_eq!(o.profile.name, "6.12-stable");
        assert!(!o.profile.features.has(Feature::PlaceLag));
        assert_eq!(o.profile.tunables.base_slice, Some(Ns(6_000_000)));
        assert_eq!(o.hz, 1000);
    }

    #[test]
    fn reads_the_mark_of_a_simulation() {
        let read = CheckOptions::from_mark_text;
        let o =
            read("profile=6.17 hz=1000 cpus=8 base_slice=2800000ns RUN_TO_PARITY=off nr_scope=rq")
                .unwrap();
        assert_eq!((o.profile.name, o.hz), ("6.17", 1000));
        assert_eq!(o.profile.tunables.base_slice, Some(Ns(2_800_000)));
        assert!(!o.profile.features.has(Feature::RunToParity));
        assert!(!o.kernels_min_slice);
        let err = |text| read(text).unwrap_err().to_string();
        assert!(err("profile=5.4").contains("list profiles"));
        assert!(err("hz=0").contains("1 to 10000"));
        assert!(err("nonsense").contains("name=value"));
        assert!(err("nr_scope=none").contains("one of"));
    }

    #[test]
    fn says_what_is_wrong() {
        let err = |text| CheckOptions::from_meta(text).unwrap_err().to_string();
        assert!(err("{").starts_with("line 1"));
        assert!(err(r#"{"settings": 3}"#).contains("`settings`"));
        assert!(err(r#"{"settings": ["5.4.0"]}"#).contains("5.4.0"));
        assert!(err(r#"{"settings": ["6.12.9", "features: FOO"]}"#).contains("FOO"));
        assert!(err(r#"{"settings": ["6.12.9", "base_slice_ns: x"]}"#).contains("base_slice_ns"));
    }
}
