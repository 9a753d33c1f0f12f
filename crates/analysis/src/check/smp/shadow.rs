//! What the trace tells of tasks and CPUs beside the probes.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_balance::CpuSet;
use schedlab_trace::event::{Event, EventKind, PrevState};

use super::probe::Fields;

/// A task as far as it is known.
#[derive(Clone, Default)]
pub(super) struct Task {
    pub(super) comm: String,
    /// Its affinity, where it was seen to be set or inherited.
    pub(super) allowed: Option<CpuSet>,
    pub(super) exiting: bool,
    /// It sleeps: it left its CPU and was not woken since. `None`: not known.
    pub(super) sleeping: Option<bool>,
    /// CPU whose queue it is on, if runnable and known.
    pub(super) cpu: Option<u32>,
    /// `recent_used_cpu` as it must be by now.
    pub(super) recent: Option<i64>,
    /// `wakee_flips` and last wakee as of its own last selection and its wakeups since; `None`: not known.
    pub(super) flips: Option<(u32, i64)>,
    /// SCHED_IDLE or not, as of its last selection.
    pub(super) idle_policy: Option<bool>,
}

/// A CPU as far as it is known.
#[derive(Clone, Default)]
pub(super) struct Cpu {
    /// Pid of the running task.
    pub(super) curr: Option<i32>,
    /// Tasks whose remote wakeup is on the way.
    pub(super) pending: BTreeSet<i32>,
    /// Nothing is queued: `None` if not known.
    pub(super) empty: Option<bool>,
    /// Counts changes of what runs or is queued there.
    pub(super) changes: u32,
    /// `idle_stamp`, once seen.
    pub(super) idle_stamp: Option<u64>,
}

#[derive(Default)]
pub(super) struct Machine {
    pub(super) cpus: Vec<Cpu>,
    tasks: BTreeMap<(i32, u32), Task>,
    /// Policies known beforehand: whether SCHED_IDLE.
    policies: BTreeMap<i32, bool>,
}

impl Machine {
    pub(super) fn new(cpus: u32, policies: BTreeMap<i32, bool>) -> Self {
        Self {
            policies,
            cpus: vec![Cpu::default(); cpus as usize],
            tasks: BTreeMap::new(),
        }
    }

    /// A task; the idle tasks of CPUs all have pid 0 and are told apart by CPU.
    pub(super) fn task(&mut self, pid: i32, cpu: u32) -> &mut Task {
        let key = (pid, if pid == 0 { cpu } else { 0 });
        self.tasks.entry(key).or_default()
    }

    pub(super) fn known(&self, pid: i32) -> Option<&Task> {
        self.tasks.get(&(pid, 0))
    }

    fn cpu(&mut self, cpu: u32) -> Option<&mut Cpu> {
        self.cpus.get_mut(cpu as usize)
    }

    /// Fair tasks known to be runnable on a CPU, the running one included.
    pub(super) fn runnable(&self, cpu: u32) -> u32 {
        let on = |(key, t): &(&(i32, u32), &Task)| {
            key.0 != 0 && t.cpu == Some(cpu) && t.sleeping == Some(false)
        };
        self.tasks.iter().filter(on).count() as u32
    }

    /// Whether a CPU is idle as the balancer sees it: runs its idle task, nothing queued, nothing on the way.
    pub(super) fn idle(&self, cpu: u32) -> Option<bool> {
        let c = self.cpus.get(cpu as usize)?;
        if c.curr.is_some_and(|pid| pid != 0) || !c.pending.is_empty() || c.empty == Some(false) {
            return Some(false);
        }
        (c.curr == Some(0) && c.empty == Some(true)).then_some(true)
    }

    pub(super) fn event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::SchedSwitch {
                prev,
                prev_state,
                next,
            } => {
                let cpu = event.cpu;
                self.changed(cpu);
                let task = self.task(prev.pid, cpu);
                task.comm = prev.comm.to_string();
                task.sleeping = Some(!prev_state.is_runnable());
                task.exiting |= prev_state.0 & (PrevState::DEAD.0 | PrevState::ZOMBIE.0) != 0;
                task.cpu = Some(cpu);
                let task = self.task(next.pid, cpu);
                task.comm = next.comm.to_string();
                task.sleeping = Some(false);
                task.cpu = Some(cpu);
                if let Some(c) = self.cpu(cpu) {
                    c.curr = Some(next.pid);
                    c.empty = Some(next.pid == 0);
                }
            }
            EventKind::SchedWakeup { task, target_cpu }
            | EventKind::SchedWakeupNew { task, target_cpu } => {
                let known = self.task(task.pid, *target_cpu);
                known.comm = task.comm.to_string();
                known.sleeping = Some(false);
                known.cpu = Some(*target_cpu);
                self.fill(*target_cpu);
            }
            EventKind::SchedMigrateTask {
                task,
                orig_cpu,
                dest_cpu,
            } => {
                let known = self.task(task.pid, *dest_cpu);
                known.cpu = Some(*dest_cpu);
                // A sleeper moves on paper only.
                if known.sleeping == Some(false) {
                    self.fill(*dest_cpu);
                    self.changed(*orig_cpu);
                }
            }
            EventKind::SchedProcessExit { task } => {
                self.task(task.pid, event.cpu).exiting = true;
            }
            EventKind::SchedProcessFork {
                parent_pid,
                child_pid,
                child_comm,
                ..
            } => {
                let parent = self.task(*parent_pid, event.cpu);
                let allowed = parent.allowed.clone();
                let idle_policy = self.policies.get(child_pid).copied();
                *self.task(*child_pid, event.cpu) = Task {
                    comm: child_comm.to_string(),
                    allowed,
                    idle_policy,
                    ..Task::default()
                };
            }
            _ => {}
        }
    }

    fn fill(&mut self, cpu: u32) {
        if let Some(c) = self.cpu(cpu) {
            c.empty = Some(false);
            c.changes = c.changes.wrapping_add(1);
        }
    }

    /// Notes that what runs or is queued on a CPU changes.
    pub(super) fn changed(&mut self, cpu: u32) {
        if let Some(c) = self.cpu(cpu) {
            c.changes = c.changes.wrapping_add(1);
        }
    }

    /// The changes of each CPU so far.
    pub(super) fn changes(&self) -> Vec<u32> {
        self.cpus.iter().map(|c| c.changes).collect()
    }

    /// [`Self::runnable`] of each CPU.
    pub(super) fn all_runnable(&self) -> Vec<u32> {
        let mut counts = vec![0; self.cpus.len()];
        for ((pid, _), t) in &self.tasks {
            if *pid != 0
                && t.sleeping == Some(false)
                && let Some(n) = t.cpu.and_then(|c| counts.get_mut(c as usize))
            {
                *n += 1;
            }
        }
        counts
    }

    pub(super) fn set_affinity(&mut self, f: &Fields<'_>) -> Result<(), String> {
        let mask = CpuSet::from_mask(f.need("mask")?);
        let pid = f.pid("pid")?;
        self.task(pid, 0).allowed = Some(mask);
        Ok(())
    }

    /// The affinity of a task that may run on `count` CPUs; `None` if it is not known.
    pub(super) fn allowed(&self, pid: i32, count: u32) -> Option<CpuSet> {
        let all = CpuSet::all(self.cpus.len() as u32);
        if count >= all.len() {
            return Some(all);
        }
        let set = self.known(pid)?.allowed.as_ref()?.and(&all);
        (set.len() == count).then_some(set)
    }
}

/// Whether a thread's name is that of a kernel thread bound to one CPU.
pub(super) fn is_per_cpu_kthread(comm: &str) -> bool {
    let numbered = |prefix: &str| {
        comm.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    [
        "kworker/",
        "ksoftirqd/",
        "migration/",
        "cpuhp/",
        "rcuc/",
        "idle_inject/",
    ]
    .iter()
    .any(|p| numbered(p))
}
