//! The kernel versions that the lab knows (reference section 0.2).

use crate::profile::{
    Anchor, BuddyPick, Feature, Features, LagLimit, NrScope, Policy, Profile, Protection,
    ReweightRule, SyncSince, ThrottleRule, TickRule, Tunables, WakeupRule, YieldRule,
};
use crate::units::Ns;

const TUNABLES: Tunables = Tunables {
    base_slice_normalized: Ns(700_000),
    base_slice: None,
    migration_cost: Ns(500_000),
    cfs_latency: Ns(6_000_000),
    cfs_min_granularity: Ns(750_000),
    cfs_wakeup_granularity: Ns(1_000_000),
    cfs_idle_min_granularity: Ns(750_000),
    bandwidth_slice: Ns(5_000_000),
};

const OLD_SLICE: Tunables = Tunables {
    base_slice_normalized: Ns(750_000),
    ..TUNABLES
};

/// Switches that are on in every version here.
const COMMON: Features = Features::NONE.on(&[
    Feature::CacheHotBuddy,
    Feature::WakeupPreemption,
    Feature::NontaskCapacity,
    Feature::TtwuQueue,
    Feature::SisUtil,
    Feature::AttachAgeLoad,
    Feature::WaIdle,
    Feature::WaWeight,
    Feature::WaBias,
    Feature::UtilEst,
]);

const EEVDF_66: Features = COMMON.on(&[
    Feature::PlaceLag,
    Feature::PlaceDeadlineInitial,
    Feature::RunToParity,
]);

const EEVDF_612: Features = EEVDF_66.on(&[
    Feature::PlaceRelDeadline,
    Feature::PreemptShort,
    Feature::DelayDequeue,
    Feature::DelayZero,
]);

const V6_1: Profile = Profile {
    name: "6.1",
    policy: Policy::Cfs,
    features: COMMON.on(&[
        Feature::GentleFairSleepers,
        Feature::StartDebit,
        Feature::LastBuddy,
        Feature::AltPeriod,
        Feature::BaseSlice,
        Feature::UtilEstFastup,
    ]),
    tunables: OLD_SLICE,
    anchor: Anchor::MinVruntime,
    protection: Protection::Parity,
    tick_rule: TickRule::Consumed,
    nr_scope: NrScope::CfsRq,
    yield_rule: YieldRule::Skip,
    wakeup_rule: WakeupRule::Cfs,
    reweight_rule: ReweightRule::None,
    reweight_scales_rel_deadline: false,
    reweight_scales_protection: false,
    protect_at_pick_only: false,
    lag_limit: LagLimit::TwoSlices,
    delayed_lag_monotonic: false,
    buddy_pick: BuddyPick::NextBuddy,
    sync_since: SyncSince::ExecStart,
    wakeup_ends_delays: false,
    custom_slice: false,
    idle_loses_protection: false,
    lazy_resched: false,
    throttle_rule: ThrottleRule::Group,
    tg_load_rate_limit: false,
    fair_server: false,
};

const V6_6: Profile = Profile {
    name: "6.6",
    policy: Policy::Eevdf,
    features: EEVDF_66,
    yield_rule: YieldRule::DeadlinePush,
    wakeup_rule: WakeupRule::V66,
    reweight_rule: ReweightRule::DeadlineOnly,
    ..V6_1
};

const V6_8: Profile = Profile {
    name: "6.8",
    tg_load_rate_limit: true,
    reweight_rule: ReweightRule::AroundV,
    ..V6_6
};

const V6_12_0: Profile = Profile {
    name: "6.12.0",
    features: EEVDF_612,
    tick_rule: TickRule::ConsumedOrShort,
    wakeup_rule: WakeupRule::V612,
    custom_slice: true,
    fair_server: true,
    ..V6_8
};

const V6_12_STABLE: Profile = Profile {
    name: "6.12-stable",
    features: EEVDF_612.on(&[Feature::PickBuddy, Feature::NiRandom]),
    tunables: TUNABLES,
    anchor: Anchor::ZeroVruntime,
    yield_rule: YieldRule::ForfeitRenew,
    buddy_pick: BuddyPick::PickBuddy,
    idle_loses_protection: true,
    ..V6_12_0
};

const V6_13: Profile = Profile {
    name: "6.13",
    reweight_rule: ReweightRule::Replace,
    reweight_scales_rel_deadline: true,
    lazy_resched: true,
    ..V6_12_0
};

const V6_15: Profile = Profile {
    name: "6.15",
    features: EEVDF_612.on(&[Feature::PickBuddy]),
    tunables: TUNABLES,
    buddy_pick: BuddyPick::PickBuddy,
    idle_loses_protection: true,
    ..V6_13
};

const V6_17: Profile = Profile {
    name: "6.17",
    protection: Protection::MinSlice,
    tick_rule: TickRule::ConsumedOrUnprotected,
    wakeup_rule: WakeupRule::V617,
    ..V6_15
};

const V6_18: Profile = Profile {
    name: "6.18",
    wakeup_rule: WakeupRule::V618,
    throttle_rule: ThrottleRule::Task,
    ..V6_17
};

const V6_19: Profile = Profile {
    name: "6.19",
    features: EEVDF_612.on(&[Feature::PickBuddy, Feature::NiRandom]),
    anchor: Anchor::ZeroVruntime,
    yield_rule: YieldRule::ForfeitEligible,
    wakeup_rule: WakeupRule::V619,
    buddy_pick: BuddyPick::InPick,
    ..V6_18
};

const V7_0: Profile = Profile {
    name: "7.0",
    reweight_scales_protection: true,
    protect_at_pick_only: true,
    lag_limit: LagLimit::MaxSlice,
    delayed_lag_monotonic: true,
    wakeup_ends_delays: true,
    ..V6_19
};

impl Profile {
    /// All profiles, oldest first.
    pub const ALL: &'static [Self] = &[
        V6_1,
        V6_6,
        V6_8,
        V6_12_0,
        V6_12_STABLE,
        V6_13,
        V6_15,
        V6_17,
        V6_18,
        V6_19,
        V7_0,
    ];

    /// Finds a profile by its name, as `6.12-stable`; a leading `v` is ignored.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let name = name.strip_prefix('v').unwrap_or(name);
        Self::ALL.iter().copied().find(|p| p.name == name)
    }

    /// The profile with one feature switched.
    #[must_use]
    pub const fn with_feature(mut self, f: Feature, on: bool) -> Self {
        self.features = self.features.with(f, on);
        self
    }
}

impl Default for Profile {
    /// `6.12-stable`, the profile that recordings prove.
    fn default() -> Self {
        V6_12_STABLE
    }
}
