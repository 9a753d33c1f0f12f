//! Kernel profiles: which rules and switches a kernel version uses (reference sections 0.2 to 0.4).
//!
//! A profile is a value. A rule that differs between versions is one enum here and one small
//! function with its variants side by side where the rule lives.

use crate::units::Ns;

macro_rules! features {
    ($(#[doc = $doc:literal] $name:ident = $text:literal,)*) => {
        /// A scheduler feature switch, spelled in text as the kernel spells it.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Feature {
            $(#[doc = $doc] $name,)*
        }

        impl Feature {
            /// All switches, in the order in which they are listed.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The kernel's spelling.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// One line on what the switch does.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self {
                    $(Self::$name => $doc,)*
                }
            }
        }
    };
}

features! {
    /// A placed entity keeps its lag; off, it is placed at V (section 5).
    PlaceLag = "PLACE_LAG",
    /// A forked task gets half a slice as its first request (section 5).
    PlaceDeadlineInitial = "PLACE_DEADLINE_INITIAL",
    /// A request survives a dequeue that is no sleep, since 6.12 (section 5.2).
    PlaceRelDeadline = "PLACE_REL_DEADLINE",
    /// The running entity is protected from preemption for its slice (sections 3.4, 3.6).
    RunToParity = "RUN_TO_PARITY",
    /// A wakee with a shorter slice cancels the protection, since 6.12 (section 8).
    PreemptShort = "PREEMPT_SHORT",
    /// A wakee is marked as the next buddy (section 4.4).
    NextBuddy = "NEXT_BUDDY",
    /// A marked buddy is picked first (section 4.3).
    PickBuddy = "PICK_BUDDY",
    /// 6.1: the preempted entity is marked to run again (section 17).
    LastBuddy = "LAST_BUDDY",
    /// A buddy counts as cache-hot in balancing (section 12.9).
    CacheHotBuddy = "CACHE_HOT_BUDDY",
    /// An ineligible sleeper stays queued until it has paid its lag, since 6.12 (section 6).
    DelayDequeue = "DELAY_DEQUEUE",
    /// A delayed entity leaves with no positive lag, since 6.12 (section 6).
    DelayZero = "DELAY_ZERO",
    /// A wakee may preempt the running task (section 8).
    WakeupPreemption = "WAKEUP_PREEMPTION",
    /// A high-resolution timer ends slices (section 3.8).
    Hrtick = "HRTICK",
    /// The same for deadline tasks.
    HrtickDl = "HRTICK_DL",
    /// The regular tick checks slices although HRTICK is armed.
    DoubleTick = "DOUBLE_TICK",
    /// 6.1: sleepers get half the latency as credit (section 17).
    GentleFairSleepers = "GENTLE_FAIR_SLEEPERS",
    /// 6.1: a forked task starts one slice late (section 17).
    StartDebit = "START_DEBIT",
    /// 6.1: the period counts tasks of the whole CPU (section 17).
    AltPeriod = "ALT_PERIOD",
    /// 6.1: a slice is never below the minimum granularity (section 17).
    BaseSlice = "BASE_SLICE",
    /// Time of interrupts and of other classes lowers a CPU's capacity.
    NontaskCapacity = "NONTASK_CAPACITY",
    /// Wakeups of another cache are queued to the target CPU (section 12.3).
    TtwuQueue = "TTWU_QUEUE",
    /// 6.1: idle search bounded by average idle time (section 12.2).
    SisProp = "SIS_PROP",
    /// Idle search bounded by the utilization of the LLC (section 12.2).
    SisUtil = "SIS_UTIL",
    /// Warns of a clock updated twice; no effect on policy.
    WarnDoubleClock = "WARN_DOUBLE_CLOCK",
    /// RT pull by interrupts.
    RtPushIpi = "RT_PUSH_IPI",
    /// RT runtime may be borrowed between CPUs.
    RtRuntimeShare = "RT_RUNTIME_SHARE",
    /// Balance only light tasks away.
    LbMin = "LB_MIN",
    /// An attached entity's load is aged.
    AttachAgeLoad = "ATTACH_AGE_LOAD",
    /// wake_affine looks at idleness (section 12.2).
    WaIdle = "WA_IDLE",
    /// wake_affine compares loads (section 12.2).
    WaWeight = "WA_WEIGHT",
    /// wake_affine's comparison is biased to the previous CPU (section 12.2).
    WaBias = "WA_BIAS",
    /// Utilization estimates at sleep (section 11.3).
    UtilEst = "UTIL_EST",
    /// 6.1: estimates follow a rise at once.
    UtilEstFastup = "UTIL_EST_FASTUP",
    /// Warns of long reschedule delays; no effect on policy.
    LatencyWarn = "LATENCY_WARN",
    /// Newidle balance is skipped at random by its success rate (section 12.5).
    NiRandom = "NI_RANDOM",
    /// Out of tree: a shared queue per LLC (section 13).
    SharedRunq = "SHARED_RUNQ",
    /// 7.0 era: rescue from overflowing sums (section 2.4).
    ParanoidAvg = "PARANOID_AVG",
}

/// A set of feature switches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Features(u64);

impl Features {
    /// The set with nothing on.
    pub const NONE: Self = Self(0);

    /// Whether a switch is on.
    #[must_use]
    pub const fn has(self, f: Feature) -> bool {
        self.0 & (1 << f as u8) != 0
    }

    /// The set with one switch changed.
    #[must_use]
    pub const fn with(self, f: Feature, on: bool) -> Self {
        if on {
            Self(self.0 | (1 << f as u8))
        } else {
            Self(self.0 & !(1 << f as u8))
        }
    }

    /// The set with all of a list on.
    #[must_use]
    pub const fn on(mut self, list: &[Feature]) -> Self {
        let mut i = 0;
        while i < list.len() {
            self = self.with(list[i], true);
            i += 1;
        }
        self
    }

    /// Reads a switch as typed into the kernel's `features` file: `NAME` on, `NO_NAME` off.
    #[must_use]
    pub fn parse(text: &str) -> Option<(Feature, bool)> {
        let find = |name: &str| Feature::ALL.iter().copied().find(|f| f.name() == name);
        if let Some(f) = find(text) {
            return Some((f, true));
        }
        text.strip_prefix("NO_").and_then(find).map(|f| (f, false))
    }
}

/// The scheduling policy of the class as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// CFS as in 6.1 (section 17).
    Cfs,
    /// EEVDF, 6.6 and later.
    Eevdf,
}

/// How the anchor of the key sums moves (section 2.3). Never visible in a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    /// Monotonic `min_vruntime`.
    MinVruntime,
    /// `zero_vruntime`, moved to V whenever V is computed.
    ZeroVruntime,
}

/// How the running entity is protected within its slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// Marker equal to the deadline at set-running, 6.6 to 6.16 (section 3.4).
    Parity,
    /// `vprot`, the shortest slice among the queued, 6.17 and later (section 3.6).
    MinSlice,
}

/// When accounting asks for a reschedule (section 3.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TickRule {
    /// Request consumed, 6.6 to 6.11.
    Consumed,
    /// Request consumed, or (PREEMPT_SHORT) unprotected and ineligible, 6.12 to 6.16.
    ConsumedOrShort,
    /// Request consumed, or not protected, 6.17 and later.
    ConsumedOrUnprotected,
}

/// Whose task count keeps accounting quiet: the three scopes of the wakeup-preempt thread (section 3.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NrScope {
    /// S1: `rq->nr_running`, all classes and groups of the CPU (85e511df3cec).
    Rq,
    /// S2: `rq->cfs.nr_running`, entities of the root fair queue (never merged).
    RootCfs,
    /// S3: `cfs_rq->nr_running`, the level being accounted (d4ac164bde7a).
    CfsRq,
}

/// What `sched_yield` does to the running task (section 9.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum YieldRule {
    /// Y0: set the skip buddy (CFS).
    Skip,
    /// Y1: deadline += vslice at every call (6.6 to 6.18, 6.12.0).
    DeadlinePush,
    /// Yv1: deadline = vruntime + vslice (posted, never merged).
    DeadlineReset,
    /// Y2: vruntime = deadline, deadline += vslice, always (posted, dropped).
    Forfeit,
    /// Y3: the same for an eligible task only (6.19).
    ForfeitEligible,
    /// Y3 as backported to 6.12: the renewal step sets the new deadline.
    ForfeitRenew,
}

/// Form of the wakeup preemption check (section 8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeupRule {
    /// 6.1 (section 17).
    Cfs,
    /// 6.6 to 6.11 (section 8.0).
    V66,
    /// 6.12 to 6.16 (section 8.1).
    V612,
    /// 6.17 (section 8.2).
    V617,
    /// 6.18 (section 8.2).
    V618,
    /// 6.19 and later (section 8.3).
    V619,
}

/// What a weight change does to a queued entity (section 7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReweightRule {
    /// 6.1: vruntime stays (section 17).
    None,
    /// 6.6: only the deadline is scaled.
    DeadlineOnly,
    /// Form A, 6.7 to 6.12: vruntime and deadline recomputed around V.
    AroundV,
    /// Form B, 6.13 and later: taken out and placed again.
    Replace,
}

/// Bound of the saved lag (section 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LagLimit {
    /// `calc_delta_fair(max(2 * slice, TICK))`, to 6.19.
    TwoSlices,
    /// `calc_delta_fair(max_slice of the queue + TICK)`, 7.0 era.
    MaxSlice,
}

/// Which switch makes a marked buddy count in the pick (section 4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BuddyPick {
    /// NEXT_BUDDY itself, before the pick proper (6.6 to 6.13, 6.12.0).
    NextBuddy,
    /// PICK_BUDDY, before the pick proper (6.14 on, 6.12 stable).
    PickBuddy,
    /// PICK_BUDDY, inside the pick at a level with several entities (6.19 on).
    InPick,
}

/// Where a group over its quota is stopped (section 10.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThrottleRule {
    /// The whole queue at once (to 6.17).
    Group,
    /// Each task at its next return to user space (6.18 on).
    Task,
}

/// Time constants that a user may change (section 0.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tunables {
    /// Base slice before the scaling by the number of CPUs.
    pub base_slice_normalized: Ns,
    /// Effective base slice set by hand (`base_slice_ns`), `None` to scale by the number of CPUs.
    pub base_slice: Option<Ns>,
    /// Migration cost (`migration_cost_ns`).
    pub migration_cost: Ns,
    /// 6.1: latency, minimum and wakeup granularity before scaling.
    pub cfs_latency: Ns,
    /// 6.1: minimum granularity before scaling.
    pub cfs_min_granularity: Ns,
    /// 6.1: wakeup granularity before scaling.
    pub cfs_wakeup_granularity: Ns,
    /// 6.1: minimum granularity of idle entities, never scaled.
    pub cfs_idle_min_granularity: Ns,
    /// Runtime that a CPU fetches from a group's quota at once (`sched_cfs_bandwidth_slice_us`).
    pub bandwidth_slice: Ns,
}

/// A kernel version as the lab knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Name as users type it.
    pub name: &'static str,
    /// CFS or EEVDF.
    pub policy: Policy,
    /// Feature switches.
    pub features: Features,
    /// Time constants.
    pub tunables: Tunables,
    /// Anchor form.
    pub anchor: Anchor,
    /// Slice protection form.
    pub protection: Protection,
    /// Reschedule decision of accounting.
    pub tick_rule: TickRule,
    /// Scope of the "is anything else running" test in that decision.
    pub nr_scope: NrScope,
    /// `sched_yield`.
    pub yield_rule: YieldRule,
    /// Wakeup preemption.
    pub wakeup_rule: WakeupRule,
    /// Weight change of a queued entity.
    pub reweight_rule: ReweightRule,
    /// Whether a weight change off the queue scales a relative deadline too (6.13 on).
    pub reweight_scales_rel_deadline: bool,
    /// Bound of the saved lag.
    pub lag_limit: LagLimit,
    /// Whether a delayed entity's lag may not sink below its value at entry (7.0 era).
    pub delayed_lag_monotonic: bool,
    /// Buddy test in the pick.
    pub buddy_pick: BuddyPick,
    /// Custom slices, and the shortest slice passed up to group entities (6.12 on).
    pub custom_slice: bool,
    /// An idle entity preempted by a non-idle wakee loses its slice protection (6.15 on, 6.12 stable).
    pub idle_loses_protection: bool,
    /// Fair reschedules are lazy requests where the preemption model is lazy (6.13 on).
    pub lazy_resched: bool,
    /// Where bandwidth stops tasks.
    pub throttle_rule: ThrottleRule,
    /// RT is held back by the fair server (6.12 on) instead of RT throttling.
    pub fair_server: bool,
}
