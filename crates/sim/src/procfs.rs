//! The simulated machine as the kernel's own files would show it: `/proc/schedstat`, `/proc/PID/sched`, `/proc/PID/schedstat` and
//! debugfs `sched/debug` (`docs/formats/procfs.md`; reference sections 18.2 to 18.4).
//!
//! The text is that of 6.12. What is not simulated is left out rather than made up: balancing statistics and `domain` lines,
//! `avg_idle`, the feature mask, NUMA groups.

use std::fmt::Write;

use schedlab_fair::profile::Anchor;
use schedlab_fair::{CpuId, Entity, GroupId, Ns, Queue, QueueId};

use crate::engine::{Sim, Sink, prio_of};
use crate::program::Sched;
use crate::state::{ClassOf, Life, Task};

/// All files at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// When.
    pub time: Ns,
    /// Paths below the root of a file system, such as `proc/schedstat`, with their text.
    pub files: Vec<(String, String)>,
}

/// Nanoseconds as the kernel prints milliseconds: a sign before the whole part only.
fn ms(ns: i64) -> String {
    let (whole, rest) = (ns / 1_000_000, ns.unsigned_abs() % 1_000_000);
    format!("{whole}.{rest:06}")
}

fn ms_unsigned(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000)
}

/// A line of `sched/debug` below a heading.
fn line(out: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(out, "  .{name:<30}: {value}");
}

/// A line of `/proc/PID/sched`.
fn entry(out: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(out, "{name:<45}:{value:>21}");
}

fn policy(sched: Sched) -> u32 {
    match sched {
        Sched::Other { .. } => 0,
        Sched::Fifo { .. } => 1,
        Sched::Rr { .. } => 2,
        Sched::Batch { .. } => 3,
        Sched::Idle => 5,
    }
}

impl<S: Sink> Sim<S> {
    /// The files as of `now`. Nothing is charged for it, as in the kernel: a running task's time is that of its last accounting.
    pub(crate) fn snapshot(&self, now: u64) -> Snapshot {
        let mut files = vec![
            ("proc/schedstat".to_string(), self.schedstat(now)),
            (
                "sys/kernel/debug/sched/debug".to_string(),
                self.sched_debug(now),
            ),
        ];
        for task in self.tasks.iter().filter(|t| t.life != Life::Dead) {
            let pid = task.pid;
            files.push((format!("proc/{pid}/sched"), self.task_sched(task)));
            let (run, info) = (self.ran(task), task.info);
            files.push((
                format!("proc/{pid}/schedstat"),
                format!("{run} {} {}\n", info.run_delay, info.pcount),
            ));
        }
        Snapshot {
            time: Ns(now),
            files,
        }
    }

    fn jiffies(&self, now: u64) -> u64 {
        now / self.class.tick_nsec()
    }

    fn schedstat(&self, now: u64) -> String {
        let mut out = format!("version 16\ntimestamp {}\n", self.jiffies(now));
        for (i, c) in self.cpus.iter().enumerate() {
            let s = c.stats;
            let _ = writeln!(
                out,
                "cpu{i} {} 0 {} {} {} {} {} {} {}",
                s.yld_count,
                s.sched_count,
                s.sched_goidle,
                s.ttwu_count,
                s.ttwu_local,
                s.rq_cpu_time,
                s.run_delay,
                s.pcount
            );
        }
        out
    }

    fn sched_debug(&self, now: u64) -> String {
        let mut out = format!(
            "Sched Debug Version: v0.11, {} schedlab\n",
            self.config.profile.name
        );
        for (name, value) in [
            ("ktime", ms_unsigned(now)),
            ("sched_clk", ms_unsigned(now)),
            ("cpu_clk", ms_unsigned(now)),
            ("jiffies", self.jiffies(now).to_string()),
        ] {
            let _ = writeln!(out, "{name:<40}: {value}");
        }
        out.push_str("\nsysctl_sched\n");
        let base = ms_unsigned(self.class.base_slice().0);
        let _ = writeln!(out, "  .{:<40}: {base}", "sysctl_sched_base_slice");
        for cpu in 0..self.cpus.len() as u32 {
            out.push('\n');
            self.debug_cpu(&mut out, cpu, now);
            self.debug_queues(&mut out, CpuId(cpu), GroupId::ROOT, "/");
            let _ = write!(out, "\nrt_rq[{cpu}]:\n");
            let rt = &self.cpus[cpu as usize].rt;
            line(&mut out, "rt_nr_running", rt.iter().count());
            self.debug_tasks(&mut out, cpu);
        }
        out
    }

    fn debug_cpu(&self, out: &mut String, cpu: u32, now: u64) {
        let c = &self.cpus[cpu as usize];
        let _ = writeln!(out, "cpu#{cpu}");
        line(out, "nr_running", self.class.nr_running(CpuId(cpu)));
        line(out, "nr_switches", c.nr_switches);
        let curr = c.curr.map_or(0, |t| self.tasks[t as usize].pid);
        line(out, "curr->pid", curr);
        line(out, "clock", ms_unsigned(now));
        line(out, "clock_task", ms_unsigned(self.clock(cpu).0));
        let s = c.stats;
        for (name, value) in [
            ("yld_count", s.yld_count),
            ("sched_count", s.sched_count),
            ("sched_goidle", s.sched_goidle),
            ("ttwu_count", s.ttwu_count),
            ("ttwu_local", s.ttwu_local),
        ] {
            line(out, name, value);
        }
    }

    /// The queues of a group and of those below it, deepest first, as the kernel's list has them.
    fn debug_queues(&self, out: &mut String, cpu: CpuId, group: GroupId, path: &str) {
        for (i, &g) in self.groups.iter().enumerate() {
            if self.class.group(g).parent == Some(group) {
                let name = &self.config.groups[i].name;
                let below = format!("{}/{name}", path.trim_end_matches('/'));
                self.debug_queues(out, cpu, g, &below);
            }
        }
        let id = if group == GroupId::ROOT {
            self.class.rq(cpu).cfs
        } else {
            self.class.group(group).queues[cpu.index()]
        };
        let q = self.class.queue(id);
        if q.owner.is_none() || q.nr_queued > 0 || q.avg.load_avg > 0 {
            let _ = write!(out, "\ncfs_rq[{}]:{path}\n", cpu.0);
            self.debug_queue(out, id, q);
        }
    }

    fn debug_queue(&self, out: &mut String, id: QueueId, q: &Queue) {
        let waiting = || q.queued().map(|e| self.class.entity(e));
        // -1, as the kernel has it, where nobody waits.
        let of = |e: Option<&Entity>, value: fn(&Entity) -> u64| e.map_or(-1, |e| value(e) as i64);
        let v = |e: &Entity| e.vruntime.0;
        let left = waiting()
            .reduce(|a, b| if b.vruntime.before(a.vruntime) { b } else { a })
            .map_or(-1, |e| v(e) as i64);
        let right = of(waiting().last(), v);
        line(
            out,
            "left_deadline",
            ms(of(waiting().next(), |e| e.deadline.0)),
        );
        line(out, "left_vruntime", ms(left));
        let anchor = match self.config.profile.anchor {
            Anchor::ZeroVruntime => "zero_vruntime",
            Anchor::MinVruntime => "min_vruntime",
        };
        line(out, anchor, ms(q.anchor.0 as i64));
        line(out, "avg_vruntime", ms(self.class.v(id).0 as i64));
        line(out, "right_vruntime", ms(right));
        line(out, "spread", ms(right.wrapping_sub(left)));
        for (name, value) in [
            ("nr_running", q.nr_queued),
            ("h_nr_runnable", q.h_nr_runnable),
            ("h_nr_queued", q.h_nr_queued),
            (
                "h_nr_delayed",
                q.h_nr_queued.saturating_sub(q.h_nr_runnable),
            ),
            ("idle_nr_running", q.idle_nr),
            ("idle_h_nr_running", q.h_nr_idle),
        ] {
            line(out, name, value);
        }
        for (name, value) in [
            ("load", q.load_weight),
            ("load_avg", q.avg.load_avg),
            ("runnable_avg", q.avg.runnable_avg),
            ("util_avg", q.avg.util_avg),
            ("util_est", q.util_est),
            ("tg_load_avg_contrib", q.tg_load_avg_contrib),
            ("tg_load_avg", self.class.group(q.group).load_avg),
        ] {
            line(out, name, value);
        }
        line(out, "throttled", u32::from(q.throttled));
        line(out, "throttle_count", q.throttle_count);
        if let Some(owner) = q.owner {
            let e = self.class.entity(owner);
            line(out, "se->exec_start", ms_unsigned(e.exec_start));
            line(out, "se->vruntime", ms(e.vruntime.0 as i64));
            line(out, "se->sum_exec_runtime", ms_unsigned(e.sum_exec_runtime));
            line(out, "se->load.weight", e.load.weight.0);
            line(out, "se->avg.load_avg", e.avg.load_avg);
            line(out, "se->avg.util_avg", e.avg.util_avg);
            line(out, "se->avg.runnable_avg", e.avg.runnable_avg);
        }
    }

    fn debug_tasks(&self, out: &mut String, cpu: u32) {
        out.push_str("\nrunnable tasks:\n");
        out.push_str(
            " S            task   PID       vruntime   eligible    deadline             slice          sum-exec      switches  \
             prio         wait-time        sum-sleep       sum-block  node   group-id  group-path\n",
        );
        let _ = writeln!(out, "{:-<185}", "");
        let here = |t: &&Task| t.cpu == cpu && t.life != Life::Dead;
        for task in self.tasks.iter().filter(here) {
            let running = self.cpus[cpu as usize]
                .curr
                .map(|t| self.tasks[t as usize].pid);
            let state = match task.life {
                _ if running == Some(task.pid) => ">R".to_string(),
                Life::Asleep(s) => format!(" {s}"),
                _ => " R".to_string(),
            };
            let e = self.class.entity(task.fair.entity());
            let eligible = if self.class.entity_eligible(task.fair.entity()) {
                'E'
            } else {
                'N'
            };
            let _ = write!(
                out,
                "{state} {:>15} {:>5} {:>16}   {eligible}   {:>16} {} {:>16} {:>16} {:>9}   {:>5} ",
                task.comm.to_string(),
                task.pid,
                ms(e.vruntime.0 as i64),
                ms(e.deadline.0 as i64),
                if e.custom_slice { 'S' } else { ' ' },
                ms_unsigned(e.slice),
                ms_unsigned(self.ran(task)),
                task.stats.nvcsw + task.stats.nivcsw,
                prio_of(task.sched),
            );
            let info = task.info;
            let _ = writeln!(
                out,
                "{:>16} {:>16} {:>16}   0      0        {}",
                ms_unsigned(info.run_delay),
                ms_unsigned(info.sum_sleep),
                ms_unsigned(info.sum_block),
                self.path(e.group)
            );
        }
    }

    fn path(&self, mut group: GroupId) -> String {
        let mut out = String::new();
        while let Some(parent) = self.class.group(group).parent {
            let at = self.groups.iter().position(|&g| g == group);
            let name = at.map_or("?", |i| self.config.groups[i].name.as_str());
            out.insert_str(0, &format!("/{name}"));
            group = parent;
        }
        if out.is_empty() {
            out.push('/');
        }
        out
    }

    /// Run time as the task's class charged it, ns.
    fn ran(&self, task: &Task) -> u64 {
        match task.class {
            ClassOf::Fair => self.class.entity(task.fair.entity()).sum_exec_runtime,
            ClassOf::Rt { .. } => task.stats.user + task.stats.system,
        }
    }

    fn task_sched(&self, task: &Task) -> String {
        let e = self.class.entity(task.fair.entity());
        let mut out = format!("{} ({}, #threads: 1)\n", task.comm, task.pid);
        let _ = writeln!(out, "{:-<67}", "");
        for (name, value) in [
            ("se.exec_start", e.exec_start as i64),
            ("se.vruntime", e.vruntime.0 as i64),
            ("se.sum_exec_runtime", self.ran(task) as i64),
        ] {
            entry(&mut out, name, ms(value));
        }
        entry(&mut out, "se.nr_migrations", task.stats.migrations);
        let info = task.info;
        entry(&mut out, "sum_sleep_runtime", ms_unsigned(info.sum_sleep));
        entry(&mut out, "sum_block_runtime", ms_unsigned(info.sum_block));
        entry(&mut out, "wait_max", ms_unsigned(info.max_run_delay));
        entry(&mut out, "wait_sum", ms_unsigned(info.run_delay));
        entry(&mut out, "wait_count", info.pcount);
        for (name, value) in [
            ("nr_wakeups", task.stats.wakeups),
            ("nr_switches", task.stats.nvcsw + task.stats.nivcsw),
            ("nr_voluntary_switches", task.stats.nvcsw),
            ("nr_involuntary_switches", task.stats.nivcsw),
            ("se.load.weight", e.load.weight.0),
            ("se.avg.load_sum", e.avg.load_sum),
            ("se.avg.runnable_sum", e.avg.runnable_sum),
            ("se.avg.util_sum", e.avg.util_sum),
            ("se.avg.load_avg", e.avg.load_avg),
            ("se.avg.runnable_avg", e.avg.runnable_avg),
            ("se.avg.util_avg", e.avg.util_avg),
            ("se.avg.last_update_time", e.avg.last_update_time),
            ("se.avg.util_est", u64::from(e.util_est)),
            ("policy", u64::from(policy(task.sched))),
        ] {
            entry(&mut out, name, value);
        }
        entry(&mut out, "prio", prio_of(task.sched));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_as_the_kernel_prints_them() {
        assert_eq!(ms(3_397_621_421), "3397.621421");
        assert_eq!(ms(-1), "0.000001", "what an empty queue shows");
        assert_eq!(ms(-1_500_000), "-1.500000");
    }
}
