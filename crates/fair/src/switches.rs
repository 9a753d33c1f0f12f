//! The rules and switches of a profile by name: to list, to compare and to set them as text.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::profile::{
    Anchor, BuddyPick, Feature, Features, LagLimit, NrScope, Policy, Profile, Protection,
    ReweightRule, SyncSince, ThrottleRule, TickRule, Tunables, WakeupRule, YieldRule,
};
use crate::units::Ns;

/// What a name of a profile's rule stands for.
enum Field {
    /// One of several forms, with their names: read and set.
    Rule(
        fn(&Profile) -> &'static str,
        fn(&mut Profile, &str) -> bool,
        fn() -> Vec<&'static str>,
    ),
    Flag(fn(&mut Profile) -> &mut bool),
    Time(fn(&mut Tunables) -> &mut Ns),
    /// A time, or what the number of CPUs makes of the normalized one.
    BaseSlice,
}

macro_rules! rule_field {
    ($field:ident: $kind:ty) => {
        (
            stringify!($field),
            Field::Rule(
                |p| p.$field.name(),
                |p, text| match <$kind>::parse(text) {
                    Some(value) => {
                        p.$field = value;
                        true
                    }
                    None => false,
                },
                || <$kind>::ALL.iter().map(|v| v.name()).collect(),
            ),
        )
    };
}

macro_rules! flag_field {
    ($field:ident) => {
        (stringify!($field), Field::Flag(|p| &mut p.$field))
    };
}

macro_rules! time_field {
    ($field:ident) => {
        (stringify!($field), Field::Time(|t| &mut t.$field))
    };
}

/// Every rule and time constant, in the order in which they are listed. The feature switches come behind.
const FIELDS: [(&str, Field); 30] = [
    rule_field!(policy: Policy),
    rule_field!(anchor: Anchor),
    rule_field!(protection: Protection),
    rule_field!(tick_rule: TickRule),
    rule_field!(nr_scope: NrScope),
    rule_field!(yield_rule: YieldRule),
    rule_field!(wakeup_rule: WakeupRule),
    rule_field!(reweight_rule: ReweightRule),
    flag_field!(reweight_scales_rel_deadline),
    flag_field!(reweight_scales_protection),
    flag_field!(protect_at_pick_only),
    rule_field!(lag_limit: LagLimit),
    flag_field!(delayed_lag_monotonic),
    rule_field!(buddy_pick: BuddyPick),
    rule_field!(sync_since: SyncSince),
    flag_field!(wakeup_ends_delays),
    flag_field!(custom_slice),
    flag_field!(idle_loses_protection),
    flag_field!(lazy_resched),
    rule_field!(throttle_rule: ThrottleRule),
    flag_field!(tg_load_rate_limit),
    flag_field!(fair_server),
    time_field!(base_slice_normalized),
    ("base_slice", Field::BaseSlice),
    time_field!(migration_cost),
    time_field!(cfs_latency),
    time_field!(cfs_min_granularity),
    time_field!(cfs_wakeup_granularity),
    time_field!(cfs_idle_min_granularity),
    time_field!(bandwidth_slice),
];

/// A base slice that follows the number of CPUs.
const AUTO: &str = "auto";

impl Field {
    fn get(&self, p: &Profile) -> String {
        let mut p = *p;
        match self {
            Self::Rule(get, ..) => get(&p).to_string(),
            Self::Flag(at) => on_off(*at(&mut p)).to_string(),
            Self::Time(at) => time(*at(&mut p.tunables)),
            Self::BaseSlice => p.tunables.base_slice.map_or_else(|| AUTO.to_string(), time),
        }
    }

    /// Sets the value; `None`: the text is not one.
    fn set(&self, p: &mut Profile, text: &str) -> Option<()> {
        match self {
            Self::Rule(_, set, _) => set(p, text).then_some(()),
            Self::Flag(at) => {
                *at(p) = parse_on_off(text)?;
                Some(())
            }
            Self::Time(at) => {
                *at(&mut p.tunables) = parse_time(text)?;
                Some(())
            }
            Self::BaseSlice => {
                p.tunables.base_slice = if text == AUTO {
                    None
                } else {
                    Some(parse_time(text)?)
                };
                Some(())
            }
        }
    }

    fn expected(&self) -> String {
        match self {
            Self::Rule(_, _, names) => format!("one of {}", names().join(", ")),
            Self::Flag(_) => ON_OFF.to_string(),
            Self::Time(_) => TIME.to_string(),
            Self::BaseSlice => format!("{TIME}, or {AUTO}"),
        }
    }
}

const ON_OFF: &str = "on or off";
const TIME: &str = "a time such as 700us, 2.8ms or 700000ns";

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn parse_on_off(text: &str) -> Option<bool> {
    match text {
        "on" | "true" | "yes" | "1" => Some(true),
        "off" | "false" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// A time in the largest unit that shows it whole.
fn time(t: Ns) -> String {
    for (unit, ns) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
        if t.0 > 0 && t.0.is_multiple_of(ns) {
            return format!("{}{unit}", t.0 / ns);
        }
    }
    format!("{}ns", t.0)
}

/// Reads a time with its unit; up to nine digits behind the point, none of them below a nanosecond.
fn parse_time(text: &str) -> Option<Ns> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let digits = match unit {
        "ns" => 0,
        "us" => 3,
        "ms" => 6,
        "s" => 9,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) || fraction.len() > digits {
        return None;
    }
    let mut ns: u64 = whole.parse().ok()?;
    for i in 0..digits {
        let digit = fraction.as_bytes().get(i).map_or(0, |b| b - b'0');
        ns = ns.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(Ns(ns))
}

/// A rule in which two profiles differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Name of the rule, switch or time constant.
    pub name: &'static str,
    /// Its value in the first profile.
    pub a: String,
    /// Its value in the second profile.
    pub b: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.name, self.a, self.b)
    }
}

/// Why a switch could not be set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SetError {
    /// There is no rule, switch or time constant of this name.
    Unknown {
        /// The name given.
        name: String,
    },
    /// The value is none of those that the switch can have.
    Value {
        /// The switch.
        name: &'static str,
        /// The value given.
        value: String,
        /// What would do.
        expected: String,
    },
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name } => write!(f, "no rule, feature or time constant `{name}`"),
            Self::Value {
                name,
                value,
                expected,
            } => write!(f, "{name} cannot be `{value}`; expected {expected}"),
        }
    }
}

impl core::error::Error for SetError {}

impl Profile {
    /// Every rule, time constant and feature switch with its value as text, in a fixed order.
    ///
    /// The names are those that [`Profile::set`] takes: rules and constants as `nr_scope`, features as `RUN_TO_PARITY`.
    #[must_use]
    pub fn switches(&self) -> Vec<(&'static str, String)> {
        let fields = FIELDS.iter().map(|(name, field)| (*name, field.get(self)));
        let features = Feature::ALL
            .iter()
            .map(|f| (f.name(), on_off(self.features.has(*f)).to_string()));
        fields.chain(features).collect()
    }

    /// What differs between two profiles, in the order of [`Profile::switches`]. Their names are not compared.
    #[must_use]
    pub fn diff(a: &Self, b: &Self) -> Vec<Difference> {
        a.switches()
            .into_iter()
            .zip(b.switches())
            .filter(|(x, y)| x.1 != y.1)
            .map(|((name, a), (_, b))| Difference { name, a, b })
            .collect()
    }

    /// The value of one rule, time constant or feature switch as text.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        if let Some((_, field)) = FIELDS.iter().find(|(n, _)| *n == name) {
            return Some(field.get(self));
        }
        let feature = Feature::ALL.iter().find(|f| f.name() == name)?;
        Some(on_off(self.features.has(*feature)).to_string())
    }

    /// Sets one rule, time constant or feature switch from text, as `nr_scope` to `cfs-rq`, `base_slice` to `3ms`,
    /// `RUN_TO_PARITY` to `off` (or, the same, `NO_RUN_TO_PARITY` to `on`).
    ///
    /// # Errors
    ///
    /// A name that is none, or a value that the rule does not have; then nothing has changed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SetError> {
        if let Some((name, field)) = FIELDS.iter().find(|(n, _)| *n == name) {
            return field.set(self, value).ok_or_else(|| SetError::Value {
                name,
                value: value.to_string(),
                expected: field.expected(),
            });
        }
        let Some((feature, sense)) = Features::parse(name) else {
            return Err(SetError::Unknown {
                name: name.to_string(),
            });
        };
        let on = parse_on_off(value).ok_or_else(|| SetError::Value {
            name: feature.name(),
            value: value.to_string(),
            expected: ON_OFF.to_string(),
        })?;
        self.features = self.features.with(feature, on == sense);
        Ok(())
    }

    /// The profile as one of the variants of the mailing-list threads has it.
    #[must_use]
    pub fn with_variant(mut self, variant: &Variant) -> Self {
        for (name, value) in variant.settings {
            let set = self.set(name, value);
            debug_assert!(set.is_ok(), "{name} = {value} of {}", variant.name);
        }
        self
    }
}

/// A combination of rules that a thread compares with others, on top of any profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variant {
    /// Name as users type it.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// The rules and switches that make it.
    pub settings: &'static [(&'static str, &'static str)],
}

macro_rules! variants {
    ($($name:literal, $about:literal, $source:literal, $settings:expr;)*) => {
        &[$(Variant { name: $name, about: $about, source: $source, settings: &$settings },)*]
    };
}

impl Variant {
    /// All variants.
    pub const ALL: &'static [Self] = variants![
        "nr-scope-rq", "quiet only if no other task of any class is on the CPU", "85e511df3cec, 6.12-rc", [("nr_scope", "rq")];
        "nr-scope-root-cfs", "quiet if the root fair queue has one entity", "proposed in the wakeup-preempt thread, never merged", [("nr_scope", "root-cfs")];
        "nr-scope-cfs-rq", "quiet if the level being charged has one entity", "d4ac164bde7a, 6.12; the same to 6.11", [("nr_scope", "cfs-rq")];
        "preempt-short", "a wakee with a shorter slice ends the running task's protection", "6.12", [("PREEMPT_SHORT", "on")];
        "no-preempt-short", "slices of wakees do not matter", "to 6.11", [("PREEMPT_SHORT", "off")];
        "protection-parity", "protected until the deadline or the point of no lag", "6.6 to 6.16", [
            ("protection", "parity"),
            ("tick_rule", "consumed-or-short"),
            ("wakeup_rule", "6.12"),
        ];
        "protection-min-slice", "protected for the shortest slice queued, and the tick ends it", "6.17 (wakeup check of 6.18)", [
            ("protection", "min-slice"),
            ("tick_rule", "consumed-or-unprotected"),
            ("wakeup_rule", "6.18"),
        ];
        "no-run-to-parity", "no protection (6.17 on: for the base slice)", "6.6", [("RUN_TO_PARITY", "off")];
        "yield-deadline-push", "each yield moves the deadline on by a slice", "6.6 to 6.18, 6.12.0", [("yield_rule", "deadline-push")];
        "yield-deadline-reset", "a yield sets the deadline one slice ahead of now", "posted as v1 in April 2025, never merged", [("yield_rule", "deadline-reset")];
        "yield-forfeit", "a yield gives the rest of the request away, always", "posted as v2, 78f8764d34c0, dropped", [("yield_rule", "forfeit")];
        "yield-forfeit-eligible", "a yield gives the rest of the request away if the task is eligible", "79104becf42b, 6.19", [("yield_rule", "forfeit-eligible")];
        "yield-forfeit-renew", "the same with the renewal step for the next deadline", "backport to 6.12 stable", [("yield_rule", "forfeit-renew")];
        "next-buddy", "a wakee is picked next if it is eligible", "feature switch", [("NEXT_BUDDY", "on")];
        "no-buddies", "buddies are neither made by wakeups nor picked", "feature switches", [("NEXT_BUDDY", "off"), ("PICK_BUDDY", "off")];
        "next-buddy-6.19", "the reworked buddies: the earlier deadline stays, SYNC wakeups preempt after a while", "e837456fdca8, 6.19", [
            ("NEXT_BUDDY", "on"),
            ("PICK_BUDDY", "on"),
            ("buddy_pick", "in-pick"),
            ("wakeup_rule", "6.19"),
        ];
    ];

    /// Finds a variant by its name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|v| v.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(name: &str) -> Profile {
        Profile::by_name(name).unwrap()
    }

    #[test]
    fn every_switch_can_be_read_and_set() {
        for a in Profile::ALL {
            for b in Profile::ALL {
                // What one profile lists makes the other one like it.
                let mut p = *b;
                for (name, value) in a.switches() {
                    assert_eq!(a.get(name), Some(value.clone()));
                    p.set(name, &value).unwrap();
                }
                assert_eq!(p, Profile { name: p.name, ..*a });
                assert_eq!(Profile::diff(&p, a), []);
            }
        }
    }

    #[test]
    fn nothing_is_left_out() {
        // A field that is not listed would make two different profiles look alike.
        for a in Profile::ALL {
            for b in Profile::ALL {
                let same = Profile { name: a.name, ..*b } == *a;
                assert_eq!(
                    Profile::diff(a, b).is_empty(),
                    same,
                    "{} {}",
                    a.name,
                    b.name
                );
            }
        }
        let fields = alloc::format!("{:?}", profile("6.1"));
        let top = fields.matches(": ").count();
        // Less the name, the features as one, and the tunables as one.
        assert_eq!(top - 3, FIELDS.len(), "{fields}");
    }

    #[test]
    fn differences_as_text() {
        let d = Profile::diff(&profile("6.12.0"), &profile("6.12-stable"));
        let text: Vec<String> = d.iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            [
                "anchor: min-vruntime -> zero-vruntime",
                "yield_rule: deadline-push -> forfeit-renew",
                "buddy_pick: next-buddy -> pick-buddy",
                "idle_loses_protection: off -> on",
                "base_slice_normalized: 750us -> 700us",
                "PICK_BUDDY: off -> on",
                "NI_RANDOM: off -> on",
            ]
        );
    }

    #[test]
    fn the_kernels_own_words() {
        let mut p = Profile::default();
        for (word, scope) in [
            ("rq->nr_running", NrScope::Rq),
            ("rq->cfs.nr_running", NrScope::RootCfs),
            ("cfs_rq->nr_running", NrScope::CfsRq),
            ("cfs_rq", NrScope::CfsRq),
            ("S1", NrScope::Rq),
        ] {
            p.set("nr_scope", word).unwrap();
            assert_eq!(p.nr_scope, scope, "{word}");
        }
        for (word, rule) in [
            ("Y1", YieldRule::DeadlinePush),
            ("forfeit_eligible", YieldRule::ForfeitEligible),
        ] {
            p.set("yield_rule", word).unwrap();
            assert_eq!(p.yield_rule, rule, "{word}");
        }
        p.set("NO_RUN_TO_PARITY", "on").unwrap();
        assert!(!p.features.has(Feature::RunToParity));
        p.set("RUN_TO_PARITY", "on").unwrap();
        assert!(p.features.has(Feature::RunToParity));
        for (text, ns) in [
            ("2.8ms", 2_800_000),
            ("1s", 1_000_000_000),
            ("7ns", 7),
            ("0.000001ms", 1),
        ] {
            p.set("base_slice", text).unwrap();
            assert_eq!(p.tunables.base_slice, Some(Ns(ns)));
        }
        p.set("base_slice", "auto").unwrap();
        assert_eq!(p.tunables.base_slice, None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let mut p = Profile::default();
        let before = p;
        let mut error = |name, value| p.set(name, value).unwrap_err().to_string();
        assert_eq!(
            error("nr_scpe", "rq"),
            "no rule, feature or time constant `nr_scpe`"
        );
        assert_eq!(
            error("nr_scope", "all"),
            "nr_scope cannot be `all`; expected one of rq, root-cfs, cfs-rq"
        );
        assert_eq!(
            error("NO_PLACE_LAG", "maybe"),
            "PLACE_LAG cannot be `maybe`; expected on or off"
        );
        for bad in [
            "",
            "ms",
            "2.8",
            "-1ms",
            "1.ms5",
            ".5ms",
            "1h",
            "0.5ns",
            "99999999999999999999s",
            "18446744074s",
            "１ms",
        ] {
            assert!(
                error("base_slice", bad).contains("expected a time"),
                "{bad}"
            );
        }
        assert_eq!(p, before);
    }

    #[test]
    fn variants_change_what_they_say() {
        for v in Variant::ALL {
            assert_eq!(Variant::by_name(v.name), Some(v));
            for p in Profile::ALL {
                let with = p.with_variant(v);
                for (name, value) in v.settings {
                    assert_eq!(
                        with.get(name).as_deref(),
                        Some(*value),
                        "{} of {}",
                        name,
                        v.name
                    );
                }
                for d in Profile::diff(p, &with) {
                    assert!(
                        v.settings.iter().any(|(n, _)| *n == d.name),
                        "{d} by {}",
                        v.name
                    );
                }
            }
        }
        // The protection variants are the rules of the kernels that they come from.
        let p = profile("6.18").with_variant(Variant::by_name("protection-parity").unwrap());
        let d = Profile::diff(&p, &profile("6.15"));
        assert!(d.iter().all(|d| d.name == "throttle_rule"), "{d:?}");
    }

    #[test]
    fn names_of_rules_are_read_back() {
        for r in YieldRule::ALL {
            assert_eq!(YieldRule::parse(r.name()), Some(*r));
            assert!(!r.about().is_empty());
        }
        assert_eq!(WakeupRule::parse("6.12"), Some(WakeupRule::V612));
        assert_eq!(WakeupRule::parse("6.13"), None);
        assert_eq!(alloc::format!("[{:<8}]", NrScope::Rq), "[rq      ]");
    }
}
