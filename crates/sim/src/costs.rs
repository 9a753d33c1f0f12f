//! What the scheduler's own paths and the machine cost: named profiles of knobs.
//!
//! No figure is fitted to a table that the lab is compared with. Sources: "report" is the kernel test robot's
//! profile in the thread "sched/fair: Forfeit vruntime on yield" (stress-ng alarm, 104-thread Skylake, base kernel): share of
//! cycles per path, divided by switches; "c2c" is nviennot/core-to-core-latency; "ghOSt" is table 3 of that paper
//! (SOSP 2021); "intel_idle" the kernel driver's table; "vm" a measurement on a two-CPU virtual machine.

macro_rules! costs {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// Costs in nanoseconds; all are knobs.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct Costs {
            $($(#[doc = $doc])+ pub $name: u64,)*
        }

        impl Costs {
            /// Names of the knobs, with what they are.
            pub const KEYS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($name), concat!($($doc),+)),)*];

            /// Everything free: pure policy.
            pub const ZERO: Self = Self { $($name: 0,)* };

            /// Value of a knob.
            #[must_use]
            pub fn get(&self, key: &str) -> Option<u64> {
                match key {
                    $(stringify!($name) => Some(self.$name),)*
                    _ => None,
                }
            }

            /// Sets a knob; `false` if there is none of that name.
            pub fn set(&mut self, key: &str, value: u64) -> bool {
                match key {
                    $(stringify!($name) => self.$name = value,)*
                    _ => return false,
                }
                true
            }
        }
    };
}

costs! {
    /// Entry and exit of a system call.
    syscall,
    /// `schedule()` without pick and switch.
    schedule,
    /// The pick.
    pick,
    /// The switch itself.
    switch,
    /// Added to a switch between address spaces.
    switch_mm,
    /// Added to a switch that the task did not ask for (caches of the next task are cold).
    involuntary,
    /// Enqueue of a task, on the waker.
    enqueue,
    /// Dequeue of a task that blocks.
    dequeue,
    /// A wakeup apart from enqueue and search for a CPU.
    wake,
    /// Search for a CPU: fixed part.
    select,
    /// Search for a CPU: each CPU looked at.
    select_per_cpu,
    /// From sending a reschedule interrupt to its entry on a CPU that runs.
    ipi,
    /// The same on a CPU that polls while idle.
    ipi_polling,
    /// Leaving the idle state.
    idle_exit,
    /// The tick.
    tick,
    /// Largest delay of a tick's reading of the clock, drawn anew for each tick.
    tick_jitter,
    /// A timer interrupt that ends a sleep.
    timer,
    /// Newidle balance, each CPU looked at.
    newidle_per_cpu,
    /// Refill of caches after a migration within a last-level cache.
    migrate_llc,
    /// After one to another cache of the same socket.
    migrate_socket,
    /// After one to another socket.
    migrate_remote,
    /// Taking and releasing a lock that nobody else wants.
    lock,
    /// Transfer of a cache line between CPUs of one core. A lock that is waited for by spinning costs 1.5 transfers from its
    /// last holder: the waiter's flag and the lock word.
    line_core,
    /// Between cores of a last-level cache.
    line_llc,
    /// Between caches of a socket.
    line_socket,
    /// Between sockets.
    line_remote,
    /// Creation of a task.
    fork,
    /// End of a task.
    exit,
    /// 1: interrupts' time is no task's time (`clock_task` stands still), as with IRQ_TIME_ACCOUNTING; 0: it is charged to the task.
    irq_time_accounting,
}

/// Two-socket Xeon, Skylake to Ice Lake.
const XEON_2S: Costs = Costs {
    syscall: 100,        // vm: getppid 94 to 127 ns; ghOSt: 72 ns
    schedule: 300, // report: pick_next_task_fair 310 ns less the pick, plus the rest of schedule()
    pick: 150,     // report: pick_task_fair 146 ns
    switch: 300,   // ghOSt: 410 ns minimal thread switch, pick left out
    switch_mm: 110, // report: switch_mm_irqs_off 109 ns
    involuntary: 400, // first touch after a preemption; half of scxsim's 500 + 500 ns, rounded
    enqueue: 280,  // report: enqueue_task_fair 277 ns
    dequeue: 280,  // report: dequeue_task_fair 285 ns
    wake: 350,     // report: try_to_wake_up 734 ns less select and half the enqueue
    select: 60,    // report: select_task_rq_fair less the scan
    select_per_cpu: 8, // report: 2/3 of 364 ns over the CPUs that SIS_UTIL lets be scanned
    ipi: 700,      // ghOSt: remote schedule, sender 668 ns
    ipi_polling: 150, // c2c: one line across sockets, 108 to 136 ns
    idle_exit: 1_000, // intel_idle: C1 1 us (Sapphire Rapids), 2 us (Skylake)
    tick: 1_000,   // typical tick with accounting, 1 us
    tick_jitter: 2_000, // scxsim: 2 us
    timer: 1_000,  // hrtimer interrupt, as the tick
    newidle_per_cpu: 50, // report: available_idle_cpu 170 ns a line miss, three CPUs a line
    migrate_llc: 2_000, // reference: cache refill, same LLC
    migrate_socket: 10_000,
    migrate_remote: 25_000,
    lock: 20,     // reference: uncontended acquire and release
    line_core: 8, // c2c: Xeon 8375C (Ice Lake)
    line_llc: 51,
    line_socket: 51, // one cache a socket
    line_remote: 108,
    fork: 50_000, // fork of a small process, order of magnitude
    exit: 20_000,
    irq_time_accounting: 1,
};

/// Two-socket EPYC, Milan: caches of 8 cores.
const EPYC_MILAN_2S: Costs = Costs {
    ipi_polling: 200, // c2c: other socket 197 ns
    line_core: 10,    // c2c: EPYC 7R13
    line_llc: 23,
    line_socket: 107,
    line_remote: 197,
    ..XEON_2S
};

/// A two-CPU virtual machine: interrupts between CPUs leave the guest.
const VM2: Costs = Costs {
    schedule: 500, // vm: perf bench sched pipe 3.1 to 3.6 us an operation of 2 switches and 4 system calls
    switch: 500,
    ipi: 20_000, // vm: futex ping-pong across CPUs 22 to 40 us
    ipi_polling: 5_000,
    idle_exit: 15_000,
    migrate_socket: 2_000,
    migrate_remote: 2_000,
    ..XEON_2S
};

/// The kernel of `conformance/recordings` with its probes on, which lengthen every path. Medians over all of those recordings
/// (`conformance/measure-costs.py`), in instructions of the emulator, 1 ns each; no scenario has figures of its own.
const ICOUNT_PROBED: Costs = Costs {
    syscall: 1_500, // ping-pong: 103 us from switch-in to the wakeup behind 100 us of work and the entry of a write
    schedule: 4_000, // pick to switch: 18 us in all, of which 8 us lie before the choice
    pick: 4_000,
    switch: 10_000,
    dequeue: 12_000, // the record of accounting in a dequeue, to the pick
    wake: 10_000,    // sched_waking to sched_wakeup: 20 us in place, 19 us with an enqueue
    enqueue: 10_000,
    tick: 9_900,            // clock_task of the tick to that of the pick behind it
    tick_jitter: 22,        // clock_task at ticks lies within 22 ns of whole ticks
    timer: 3_000, // entry of an interrupt to sched_waking; not recorded, a third of the tick
    irq_time_accounting: 0, // ticks charge whole milliseconds: interrupts' time is the task's
    ..Costs::ZERO
};

impl Costs {
    /// All profiles by name, with one line about each.
    pub const PROFILES: &'static [(&'static str, &'static str, Self)] = &[
        ("zero", "nothing costs anything: pure policy", Self::ZERO),
        ("xeon-2s", "two-socket Xeon, Skylake to Ice Lake", XEON_2S),
        ("epyc-milan-2s", "two-socket EPYC Milan", EPYC_MILAN_2S),
        ("vm2", "two-CPU virtual machine", VM2),
        (
            "icount-probed",
            "the emulated, probed kernel of the conformance recordings",
            ICOUNT_PROBED,
        ),
    ];

    /// Finds a profile.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::PROFILES
            .iter()
            .find(|(n, _, _)| *n == name)
            .map(|(_, _, c)| *c)
    }

    /// Whether switches and wakeups cost nothing.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_by_name() {
        let mut c = Costs::by_name("xeon-2s").unwrap();
        assert_eq!(c.get("pick"), Some(150));
        assert!(c.set("pick", 7));
        assert_eq!(c.pick, 7);
        assert!(!c.set("nonsense", 1));
        assert!(Costs::by_name("zero").unwrap().is_zero());
        assert!(
            Costs::KEYS
                .iter()
                .all(|(k, about)| c.get(k).is_some() && !about.is_empty())
        );
    }
}
