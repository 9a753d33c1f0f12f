//! Kernel profiles: which rules and switches a kernel version uses (reference sections 0.2 to 0.4).
//!
//! A profile is a value. A rule that differs between versions is one enum here and one small
//! function with its variants side by side where the rule lives.
//!
//! | profile | what it has that the one before has not |
//! |---|---|
//! | `6.1` | CFS: sleeper credit, start debit, buddies, granularities |
//! | `6.6` | EEVDF: lag, deadlines, slice protection; base slice 0.75 ms; yield pushes the deadline; a weight change scales the deadline only |
//! | `6.8` | weight changes keep lag and request (from 6.7 on); a queue's load is passed to its group at a limited rate |
//! | `6.12.0` | delayed dequeue, custom slices and those of groups, PREEMPT_SHORT, requests that survive a move, the fair server |
//! | `6.12-stable` | base slice 0.70 ms; the anchor follows V; guarded yield; PICK_BUDDY; idle entities lose their protection (6.12.117 as Debian ships it) |
//! | `6.13` | *from 6.12.0*: lazy requests; weight changes by placing anew |
//! | `6.15` | base slice 0.70 ms; PICK_BUDDY (6.14 on); idle entities lose their protection |
//! | `6.17` | protection for the shortest slice queued (`vprot`), which the tick ends |
//! | `6.18` | tasks out of quota stop one by one at their return to user mode; every wakeup shortens the protection |
//! | `6.19` | guarded yield; reworked buddies and wakeup check; the anchor follows V; NI_RANDOM |
//! | `7.0` | lag bounded by the longest slice queued; lag of delayed entities only rises; protection at a pick only |
//!
//! The whole of it: [`Profile::switches`], and [`Profile::diff`] between two.

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
    /// 7.0 era: rescue from overflowing sums (section 2.4); no effect here, where sums have 128 bits.
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

macro_rules! rule {
    (
        $(#[doc = $doc:literal])*
        $name:ident {
            $($(#[doc = $vdoc:literal])* $variant:ident = $text:literal $(| $alias:literal)*,)*
        }
    ) => {
        $(#[doc = $doc])*
        ///
        /// In text (as typed, then other spellings that [`parse`](Self::parse) takes):
        $(#[doc = concat!("* `", $text, "`" $(, ", `", $alias, "`")*)])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {
            $($(#[doc = $vdoc])* $variant,)*
        }

        impl $name {
            /// All variants, oldest kernel first.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name as a user types it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// One line or more on what the variant does and which kernels have it.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($vdoc),*).trim_ascii(),)*
                }
            }

            /// Reads a name, or another spelling of it; letter case and `_` for `-` do not matter.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                $(
                    if [$text $(, $alias)*].iter().any(|known| same_name(known, text)) {
                        return Some(Self::$variant);
                    }
                )*
                None
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

/// Whether two names are the same but for letter case and `_` against `-`.
fn same_name(a: &str, b: &str) -> bool {
    let plain = |c: u8| {
        if c == b'_' {
            b'-'
        } else {
            c.to_ascii_lowercase()
        }
    };
    a.len() == b.len() && a.bytes().zip(b.bytes()).all(|(x, y)| plain(x) == plain(y))
}

rule! {
    /// The scheduling policy of the class as a whole.
    Policy {
        /// CFS as in 6.1 (section 17).
        Cfs = "cfs",
        /// EEVDF, 6.6 and later.
        Eevdf = "eevdf",
    }
}

rule! {
    /// How the anchor of the key sums moves (section 2.3). Never visible in a decision.
    ///
    /// **Doubt** of the reference: the exact mainline release of the change; here 6.19, and 6.12 stable.
    Anchor {
        /// Monotonic `min_vruntime` (to 6.18).
        MinVruntime = "min-vruntime",
        /// `zero_vruntime`, moved to V whenever V is computed (6.12 stable, 6.19 on).
        ZeroVruntime = "zero-vruntime",
    }
}

rule! {
    /// How the running entity is protected within its slice.
    Protection {
        /// Marker equal to the deadline at set-running, 6.6 to 6.16 (section 3.4).
        Parity = "parity",
        /// `vprot`, the shortest slice among the queued, 6.17 and later (section 3.6).
        MinSlice = "min-slice" | "vprot",
    }
}

rule! {
    /// When accounting asks for a reschedule (section 3.5).
    TickRule {
        /// Request consumed, 6.6 to 6.11.
        Consumed = "consumed",
        /// Request consumed, or (PREEMPT_SHORT) unprotected and ineligible, 6.12 to 6.16.
        ConsumedOrShort = "consumed-or-short",
        /// Request consumed, or not protected, 6.17 and later.
        ConsumedOrUnprotected = "consumed-or-unprotected",
    }
}

rule! {
    /// Whose task count keeps accounting quiet: the three scopes of the wakeup-preempt thread (section 3.5).
    NrScope {
        /// S1: `rq->nr_running`, all classes and groups of the CPU (85e511df3cec, 6.12-rc only).
        Rq = "rq" | "rq->nr_running" | "s1",
        /// S2: `rq->cfs.nr_running`, entities of the root fair queue (never merged).
        RootCfs = "root-cfs" | "rq->cfs.nr_running" | "rq->cfs.nr_queued" | "s2",
        /// S3: `cfs_rq->nr_running`, the level being accounted (to 6.11 inside the renewal; d4ac164bde7a in 6.12).
        CfsRq = "cfs-rq" | "cfs_rq->nr_running" | "cfs_rq->nr_queued" | "s3",
    }
}

rule! {
    /// What `sched_yield` does to the running task (section 9.2).
    YieldRule {
        /// Y0: set the skip buddy (CFS).
        Skip = "skip" | "y0",
        /// Y1: deadline += vslice at every call (6.6 to 6.18, 6.12.0).
        DeadlinePush = "deadline-push" | "y1",
        /// Yv1: deadline = vruntime + vslice (posted, never merged).
        DeadlineReset = "deadline-reset" | "yv1",
        /// Y2: vruntime = deadline, deadline += vslice, always (posted, dropped).
        Forfeit = "forfeit" | "y2",
        /// Y3: the same for an eligible task only (79104becf42b, 6.19).
        ForfeitEligible = "forfeit-eligible" | "y3",
        /// Y3 as backported to 6.12: the renewal step sets the new deadline, and so reads a default slice again.
        ForfeitRenew = "forfeit-renew" | "y3-stable",
    }
}

rule! {
    /// Form of the wakeup preemption check (section 8).
    WakeupRule {
        /// 6.1 (section 17).
        Cfs = "cfs" | "6.1",
        /// 6.6 to 6.11 (section 8.0).
        V66 = "6.6",
        /// 6.12 to 6.16 (section 8.1).
        V612 = "6.12",
        /// 6.17 (section 8.2).
        V617 = "6.17",
        /// 6.18 (section 8.2).
        V618 = "6.18",
        /// 6.19 and later (section 8.3).
        V619 = "6.19",
    }
}

rule! {
    /// What a weight change does to a queued entity (section 7). Only group entities meet it: a task is
    /// taken off its queue for the change.
    ///
    /// **Doubt** of the reference: the release that brought form A (6.7 here); whether form B counts a running entity in
    /// L (here it does, with its new weight, as the code path reads).
    ReweightRule {
        /// 6.1: vruntime stays (section 17).
        None = "none",
        /// 6.6: only the deadline is scaled.
        DeadlineOnly = "deadline-only",
        /// Form A, 6.7 to 6.12: vruntime and deadline recomputed around V.
        AroundV = "around-v" | "form-a",
        /// Form B, 6.13 and later (6d71a9c61604): taken out and placed again.
        Replace = "replace" | "form-b",
    }
}

rule! {
    /// Bound of the saved lag (section 5.2).
    ///
    /// **Doubt** of the reference: the release of the second form; here 7.0.
    LagLimit {
        /// `calc_delta_fair(max(2 * slice, TICK))`, to 6.19.
        TwoSlices = "two-slices",
        /// `calc_delta_fair(max_slice of the queue + TICK)`, 7.0 era.
        MaxSlice = "max-slice",
    }
}

rule! {
    /// Which switch makes a marked buddy count in the pick (section 4.3).
    ///
    /// **Doubt** of the reference: the mainline release of PICK_BUDDY (6.14 is named; 6.15 is the first profile with it).
    BuddyPick {
        /// NEXT_BUDDY itself, before the pick proper (6.6 to 6.13, 6.12.0).
        NextBuddy = "next-buddy",
        /// PICK_BUDDY, before the pick proper (6.14 on, 6.12 stable).
        PickBuddy = "pick-buddy",
        /// PICK_BUDDY, inside the pick at a level with several entities, and only where slice protection counts (6.19 on).
        InPick = "in-pick",
    }
}

rule! {
    /// From when on the run time counts that the running entity must have had before a SYNC wakeup of a marked
    /// buddy preempts it (6.19, section 8.3 step c; NEXT_BUDDY on).
    ///
    /// **Doubt**: the reference says since `exec_start`, which the accounting just before has set to now. Read so,
    /// the time is always 0 and only a migration cost of 0 lets the wakee preempt; the other reading is what the rule is after.
    SyncSince {
        /// `exec_start`, as the text reads.
        ExecStart = "exec-start",
        /// The time at which the entity was set running.
        SetRunning = "set-running",
    }
}

rule! {
    /// Where a group over its quota is stopped (section 10.6).
    ThrottleRule {
        /// The whole queue at once (to 6.17).
        Group = "group",
        /// Each task at its next return to user space (e1fad12dcb66, 6.18 on).
        Task = "task",
    }
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
    /// Whether a weight change of a running entity scales what is left of its protection (7.0 era, section 3.6).
    pub reweight_scales_protection: bool,
    /// Protection is given by a pick only, not when a changed task is set running again (e9f797cec045, 7.0;
    /// **doubt** on the release).
    pub protect_at_pick_only: bool,
    /// Bound of the saved lag.
    pub lag_limit: LagLimit,
    /// Whether a delayed entity's lag may not sink below its value at entry (7.0 era, section 6.2; **doubt** on the
    /// release).
    pub delayed_lag_monotonic: bool,
    /// Buddy test in the pick.
    pub buddy_pick: BuddyPick,
    /// SYNC wakeups of 6.19 with NEXT_BUDDY.
    pub sync_since: SyncSince,
    /// A wakeup check whose pick meets a delayed entity ends that entity's delay and picks again (a fix after 6.19, section
    /// 8.3; **doubt** on the release, 7.0 here).
    pub wakeup_ends_delays: bool,
    /// Custom slices, and the shortest slice passed up to group entities (6.12 on).
    pub custom_slice: bool,
    /// An idle entity preempted by a non-idle wakee loses its slice protection (6.15 on, 6.12 stable).
    pub idle_loses_protection: bool,
    /// Fair reschedules are lazy requests where the preemption model is lazy (6.13 on).
    pub lazy_resched: bool,
    /// Where bandwidth stops tasks.
    pub throttle_rule: ThrottleRule,
    /// A queue passes its load on to its group at most once a millisecond (section 10.3; **doubt** on the release, 6.7).
    pub tg_load_rate_limit: bool,
    /// RT is held back by the fair server (6.12 on) instead of RT throttling.
    pub fair_server: bool,
}
