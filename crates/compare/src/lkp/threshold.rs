//! Which keys LKP watches closely, and from what size a change is worth a row.
//!
//! Facts from lkp-tests: `etc/perf-metrics-prefixes`,
//! `etc/perf-metrics-threshold.yaml` and `reasonable_perf_change?` in
//! `lib/stats.rb`. Only keys that can occur around a scheduler are kept.

/// Monitors whose changes count from 1 % on.
const WATCHED: &[&str] = &[
    "boot-time.",
    "energy.",
    "interrupts.CAL:Function_call_interrupts",
    "iostat.",
    "perf-c2c.HITM.total",
    "perf-profile.children.cycles-pp.native_queued_spin_lock_slowpath",
    "perf-stat.",
    "pmeter.",
    "proc-vmstat.",
    "turbostat.%Busy",
    "turbostat.Bzy_MHz",
    "turbostat.C1%",
    "turbostat.C1E%",
    "turbostat.CorWatt",
    "turbostat.POLL%",
    "turbostat.Pk%pc10",
    "turbostat.PkgTmp",
    "turbostat.PkgWatt",
    "turbostat.Pkg%pc",
    "turbostat.RAMWatt",
    "turbostat.SYS%LPI",
    "vmstat.cpu.",
    "vmstat.io.",
    "vmstat.swap.",
    "vmstat.system.",
];

/// Whether changes of this monitor count from 1 % on.
pub(super) fn is_watched(key: &str) -> bool {
    WATCHED.iter().any(|prefix| key.starts_with(prefix))
}

/// The largest value must reach the threshold and the change half of it.
/// A leading `*` stands for any program.
const THRESHOLDS: &[(&str, f64)] = &[
    ("*.time.elapsed_time", 10.0),
    ("*.time.user_time", 10.0),
    ("*.time.system_time", 10.0),
    ("*.time.major_page_faults", 1000.0),
    ("*.time.minor_page_faults", 1000.0),
    ("*.time.voluntary_context_switches", 1000.0),
    ("*.time.involuntary_context_switches", 1000.0),
    ("*.time.file_system_inputs", 10_000.0),
    ("*.time.file_system_outputs", 10_000.0),
    ("*.time.socket_messages_sent", 10_000.0),
    ("*.time.socket_messages_received", 10_000.0),
    ("proc-vmstat.allocstall", 100.0),
    ("proc-vmstat.compact_", 100.0),
    ("proc-vmstat.pgmigrate_fail", 100.0),
    ("proc-vmstat.nr_", 100.0),
    ("numa-vmstat.", 100.0),
    ("vmstat.io.", 100.0),
    ("vmstat.system.", 100.0),
    ("vmstat.cpu.sy", 50.0),
    ("vmstat.cpu.", 10.0),
    ("interrupts.", 100.0),
];

/// Whether a change of this size, of medians `delta` apart and values up to
/// `max`, is worth a row.
pub(super) fn worth_a_row(key: &str, delta: f64, max: f64) -> bool {
    let matches = |pattern: &str| match pattern.strip_prefix('*') {
        Some(rest) => key.find(rest).is_some_and(|at| at > 0),
        None => key.starts_with(pattern),
    };
    if let Some((_, least)) = THRESHOLDS.iter().find(|(pattern, _)| matches(pattern)) {
        return max >= *least && delta >= least / 2.0;
    }
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| key.starts_with(prefix));
    if starts(&["iostat"]) {
        max > 1.0
    } else if starts(&["pagetypeinfo", "buddyinfo", "slabinfo"]) {
        delta > 100.0
    } else if key.starts_with("proc-vmstat") || key.contains("meminfo") {
        max > 1000.0
    } else if key.starts_with("lock_stat") {
        delta
            > if key.contains("time") {
                1_000.0
            } else {
                10_000.0
            }
    } else if starts(&["softirqs"]) {
        max > 10_000.0
    } else {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_apply_to_the_keys_they_name() {
        assert!(!worth_a_row("hackbench.time.system_time", 3.0, 9.0));
        assert!(worth_a_row("hackbench.time.system_time", 5.0, 20.0));
        // The program `time` itself is not meant.
        assert!(worth_a_row("time.system_time", 0.1, 1.0));
        assert!(!worth_a_row("vmstat.system.cs", 10.0, 5000.0));
        assert!(worth_a_row("hackbench.throughput", 1e-9, 1e-6));
        assert!(!worth_a_row("softirqs.SCHED", 9000.0, 10_000.0));
    }

    #[test]
    fn watched_monitors() {
        assert!(is_watched("perf-stat.i.ipc") && is_watched("vmstat.system.cs"));
        assert!(!is_watched("sched_debug.cpu.nr_switches.avg") && !is_watched("meminfo.Shmem"));
    }
}
