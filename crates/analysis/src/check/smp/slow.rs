//! Fork and exec: the chosen CPU and the tests on the way.

use std::collections::BTreeSet;

use schedlab_balance::{DomainFlags, Group, GroupStats, Shallow, find_dst_cpu};

use super::place::{Answer, FORK, Selection};
use super::{At, SmpCheck};

/// Most combinations of unknown group types that are tried.
const MOST: u32 = 4096;

impl SmpCheck<'_> {
    /// The choice is made once for every combination of what is not recorded: the utilization of groups with as many tasks as CPUs or
    /// more. If all lead to one CPU, the recording determines it.
    pub(super) fn slow_path(&mut self, at: At<'_>, open: &Selection, kernel: i64) {
        let fork = open.flags & FORK != 0;
        let kind = if fork { "fork" } else { "exec" };
        let Some(allowed) = self.machine.allowed(open.pid, open.nr_allowed) else {
            self.report
                .undecided(kind, "the task's affinity is not known");
            return;
        };
        let flag = if fork {
            DomainFlags::BALANCE_FORK
        } else {
            DomainFlags::BALANCE_EXEC
        };
        // CPUs that changed meanwhile are taken as they were and as they are now.
        let mut later = Vec::new();
        for (i, c) in self.machine.cpus.iter().enumerate() {
            if c.changes != open.changes[i] {
                let came = i64::from(self.machine.runnable(i as u32)) - i64::from(open.runnable[i]);
                let nr = (open.seen.nr[i] as i64 + came).max(0) as u32;
                later.push((i as u32, nr, c.curr != Some(0)));
            }
        }
        let mut view = Replay {
            open,
            exec: (!fork).then_some(at.event.cpu),
            later,
            stamp: None,
            answers: Vec::new().into_iter(),
            loads: Vec::new().into_iter(),
            assumed: 0,
            asked: 0,
            off_path: false,
            stamp_unknown: false,
        };
        let (mut fitting, mut all) = (BTreeSet::new(), BTreeSet::new());
        let mut stamp_unknown = false;
        let mut assumed = 0;
        loop {
            view.begin(assumed);
            let cpu = find_dst_cpu(
                self.domains,
                &mut view,
                flag,
                at.event.cpu,
                open.prev,
                &allowed,
            );
            all.insert(cpu);
            stamp_unknown |= view.stamp_unknown;
            if !view.off_path && view.answers.len() == 0 {
                fitting.insert(cpu);
            }
            assumed += 1;
            if assumed >= 1 << view.asked.min(12) || assumed >= MOST {
                break;
            }
        }
        self.judge(at, open, kind, kernel, &fitting, &all, stamp_unknown);
    }

    #[allow(clippy::too_many_arguments)]
    fn judge(
        &mut self,
        at: At<'_>,
        open: &Selection,
        kind: &'static str,
        kernel: i64,
        fitting: &BTreeSet<u32>,
        all: &BTreeSet<u32>,
        stamp_unknown: bool,
    ) {
        let list = |set: &BTreeSet<u32>| {
            let names: Vec<_> = set.iter().map(|c| format!("CPU {c}")).collect();
            names.join(" or ")
        };
        let chosen = u32::try_from(kernel).ok();
        let possible = chosen.is_some_and(|c| fitting.contains(&c));
        if possible && fitting.len() == 1 {
            if all.len() == 1 {
                self.report.agree(kind);
            } else {
                let why = "utilization of a group of the fork or exec path is not recorded";
                self.report.undecided(kind, why);
            }
        } else if possible || (stamp_unknown && chosen.is_some()) {
            self.report
                .undecided(kind, "idle_stamp or utilization is not recorded");
        } else {
            let cause = if fitting.is_empty() {
                "other tests than ours were made: state changed after the entry"
            } else {
                "loads or idle CPUs changed after the entry"
            };
            let ours = list(if fitting.is_empty() { all } else { fitting });
            let miss = at.miss(kind, Some(open.pid), ours, format!("CPU {kernel}"), cause);
            self.report.miss(miss);
        }
    }
}

struct Replay<'a> {
    open: &'a Selection,
    /// The CPU on which the task runs that execs.
    exec: Option<u32>,
    /// CPUs that changed within the selection: number of tasks, and whether one runs, at its end.
    later: Vec<(u32, u32, bool)>,
    stamp: Option<u64>,
    answers: std::vec::IntoIter<Answer>,
    loads: std::vec::IntoIter<(bool, u64)>,
    /// Assumptions of this round, a bit each: the group is busy.
    assumed: u32,
    asked: u32,
    off_path: bool,
    stamp_unknown: bool,
}

impl Replay<'_> {
    fn begin(&mut self, assumed: u32) {
        self.answers = self.open.answers.clone().into_iter();
        self.loads = self.open.loads.clone().into_iter();
        self.assumed = assumed;
        self.asked = self.later.len() as u32;
        self.off_path = false;
        self.stamp_unknown = false;
    }
}

impl Shallow for Replay<'_> {
    fn stats(&mut self, group: &Group) -> GroupStats {
        let seen = &self.open.seen;
        let mut s = GroupStats {
            weight: group.span.len(),
            capacity: u64::from(group.span.len()) * schedlab_balance::SCALE,
            ..GroupStats::default()
        };
        for cpu in group.span.iter() {
            let i = cpu as usize;
            let own = self.exec == Some(cpu);
            let changed = self.later.iter().enumerate().find(|(_, l)| l.0 == cpu);
            let (nr, runs) = match changed {
                Some((bit, &(_, nr, runs))) if self.assumed >> bit.min(31) & 1 == 1 => (nr, runs),
                _ => (seen.nr[i] as u32, seen.curr[i] != 0),
            };
            let nr = nr.saturating_sub(u32::from(own));
            s.nr_running += nr;
            s.h_nr_running += nr;
            s.load += seen.load[i];
            if own {
                let load = self.loads.next().map_or(0, |(_, load)| load);
                s.load = s.load.saturating_sub(load);
            }
            let others = runs && !own;
            s.idle_cpus += u32::from(nr == 0 && !others && seen.pending[i] == 0);
        }
        if s.nr_running >= s.weight {
            let busy = self.assumed >> self.asked.min(31) & 1 == 1;
            self.asked += 1;
            if busy {
                s.util = s.capacity * 2;
            }
        }
        s
    }

    fn idle(&mut self, cpu: u32) -> bool {
        match self.answers.next() {
            Some(a) if a.cpu == cpu => {
                self.stamp = a.stamp;
                a.idle
            }
            _ => {
                self.stamp = None;
                self.off_path = true;
                self.open.seen.idle(cpu)
            }
        }
    }

    fn sched_idle(&mut self, cpu: u32) -> bool {
        self.open.seen.sched_idle(cpu)
    }

    fn load_avg(&mut self, cpu: u32) -> u64 {
        self.open.seen.load[cpu as usize]
    }

    fn depth(&mut self, _cpu: u32) -> (Option<u64>, u64) {
        self.stamp_unknown |= self.stamp.is_none() && !self.off_path;
        (None, self.stamp.unwrap_or(0))
    }
}
