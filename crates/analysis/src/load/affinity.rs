//! Which CPUs a task was kept off: idle ones that it never used while it waited.

use std::collections::BTreeSet;

/// CPUs up to which idle time is compared; the work is CPUs times waits.
pub(super) const CPUS_MOST: u32 = 64;
/// An idle CPU fetches waiting tasks when it falls idle and at the busy ones' ticks (250 or more a second mostly), so
/// a wait beside a CPU that was idle for this long is a sign, ns.
const BESIDE_LEAST: u64 = 2_000_000;
/// As many such waits are held to be no accident of the balance.
const WAITS_LEAST: u32 = 3;

/// How long each CPU has been idle so far.
#[derive(Debug, Default)]
pub(super) struct IdleTime {
    cpus: Vec<(u64, Option<u64>)>,
}

impl IdleTime {
    /// A CPU falls idle (`true`) or gets busy, or becomes unknown.
    pub(super) fn set(&mut self, cpu: u32, idle: bool, ts: u64) {
        if cpu >= CPUS_MOST {
            return;
        }
        let at = cpu as usize;
        if self.cpus.len() <= at {
            self.cpus.resize(at + 1, (0, None));
        }
        let (sum, since) = &mut self.cpus[at];
        if let Some(start) = since.take() {
            *sum += ts.saturating_sub(start);
        }
        if idle {
            *since = Some(ts);
        }
    }

    fn at(&self, cpu: usize, ts: u64) -> u64 {
        self.cpus.get(cpu).map_or(0, |(sum, since)| {
            sum + since.map_or(0, |start| ts.saturating_sub(start))
        })
    }

    fn all(&self, ts: u64) -> Vec<u64> {
        (0..self.cpus.len()).map(|c| self.at(c, ts)).collect()
    }
}

/// What a task's waits say.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    /// Idle time of each CPU when the present wait began.
    begin: Vec<u64>,
    /// Waits beside each CPU that was idle for long.
    waits: Vec<u32>,
    /// CPUs that it used or was moved to.
    used: BTreeSet<u32>,
}

impl Beside {
    pub(super) fn uses(&mut self, cpu: u32) {
        if cpu < CPUS_MOST {
            self.used.insert(cpu);
        }
    }

    pub(super) fn wait_begins(&mut self, idle: &IdleTime, ts: u64) {
        self.begin = idle.all(ts);
    }

    pub(super) fn wait_ends(&mut self, idle: &IdleTime, ts: u64) {
        for (cpu, begin) in std::mem::take(&mut self.begin).into_iter().enumerate() {
            if idle.at(cpu, ts).saturating_sub(begin) >= BESIDE_LEAST {
                if self.waits.len() <= cpu {
                    self.waits.resize(cpu + 1, 0);
                }
                self.waits[cpu] += 1;
            }
        }
    }

    /// Whether it used only CPUs of a list.
    pub(super) fn within(&self, list: &[u32]) -> bool {
        self.used.iter().all(|c| list.contains(c))
    }

    /// CPUs that it may use, of `cpus`; empty for all.
    pub(super) fn allowed(&self, cpus: u32) -> Vec<u32> {
        let kept_off = |c: u32| {
            let waits = self.waits.get(c as usize).copied().unwrap_or(0);
            waits >= WAITS_LEAST && !self.used.contains(&c)
        };
        if self.used.is_empty() || cpus > CPUS_MOST || !(0..cpus).any(kept_off) {
            return Vec::new();
        }
        (0..cpus).filter(|&c| !kept_off(c)).collect()
    }
}

/// CPU of a kernel thread that is bound to one, by its name: `ksoftirqd/3`, `kworker/3:1H`.
pub(super) fn cpu_of_name(comm: &str) -> Option<u32> {
    const BOUND: [&str; 8] = [
        "ksoftirqd",
        "migration",
        "cpuhp",
        "idle_inject",
        "rcuc",
        "irq_work",
        "ktimers",
        "backlog_napi",
    ];
    let (name, rest) = comm.split_once('/')?;
    let number = match name {
        "kworker" => rest.split_once(':')?.0,
        _ if BOUND.contains(&name) => rest,
        _ => return None,
    };
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_bound_kernel_threads() {
        assert_eq!(cpu_of_name("ksoftirqd/12"), Some(12));
        assert_eq!(cpu_of_name("kworker/3:1H"), Some(3));
        for free in ["kworker/u8:2", "bash", "a/1", "ksoftirqd", "migration/x"] {
            assert_eq!(cpu_of_name(free), None, "{free}");
        }
    }

    #[test]
    fn three_long_waits_beside_an_idle_cpu_bind() {
        let mut idle = IdleTime::default();
        let mut task = Beside::default();
        idle.set(0, true, 0);
        idle.set(1, false, 0);
        task.uses(1);
        for n in 0..3 {
            assert!(task.allowed(2).is_empty(), "{n} waits");
            task.wait_begins(&idle, n * 10_000_000);
            task.wait_ends(&idle, n * 10_000_000 + BESIDE_LEAST);
        }
        assert_eq!(task.allowed(2), [1]);
        task.uses(0);
        assert!(task.allowed(2).is_empty());
    }
}
