//! Wakeups: the chosen CPU, the tests on the way, `recent_used_cpu`, and whether the wakeup is queued remotely.

use schedlab_balance::{
    CpuSet, Cpus, IdleTest, Load, QueueTarget, Wakee, WakeeFlips, Waker, queues_remotely,
    select_task_rq,
};
use schedlab_fair::Feature;

use super::probe::{Fields, idle_test};
use super::shadow::is_per_cpu_kthread;
use super::{At, SmpCheck};

pub(super) const FORK: u64 = 4;
pub(super) const EXEC: u64 = 2;
const WAKEUP: u64 = 8;
const SYNC: u64 = 0x10;
const SCHED_IDLE: u64 = 5;

/// What `task_h_load` answered, in order: whether to `wake_affine` for the waker, and the load.
/// The tests that the rule asked for, against those that the kernel made.
const TESTS: &str = "tests of a wakeup";
const WAKER_LOAD: &str = "select_task_rq_fair+0x855";

/// The state of all CPUs at the entry of a selection.
#[derive(Clone, Default)]
pub(super) struct Seen {
    pub(super) nr: Vec<u64>,
    pub(super) curr: Vec<u64>,
    pub(super) load: Vec<u64>,
    pub(super) pending: Vec<u64>,
    /// Low half: SCHED_IDLE tasks; high half: delayed ones.
    pub(super) counts: Vec<u64>,
    has_idle_cores: Vec<u64>,
    nr_idle_scan: Vec<u64>,
}

impl Seen {
    pub(super) fn idle(&self, cpu: u32) -> bool {
        let cpu = cpu as usize;
        self.nr[cpu] == 0 && self.curr[cpu] == 0 && self.pending[cpu] == 0
    }

    pub(super) fn sched_idle(&self, cpu: u32) -> bool {
        let cpu = cpu as usize;
        self.nr[cpu] != 0 && self.nr[cpu] == self.counts[cpu] & 0xffff_ffff
    }
}

/// One answer of `available_idle_cpu`.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) test: Option<IdleTest>,
    pub(super) cpu: u32,
    pub(super) idle: bool,
    /// `idle_stamp` of the CPU at that moment, if known.
    pub(super) stamp: Option<u64>,
}

/// A selection in progress.
#[derive(Clone, Default)]
pub(super) struct Selection {
    pub(super) pid: i32,
    waker: i32,
    pub(super) prev: u32,
    pub(super) flags: u64,
    pub(super) nr_allowed: u32,
    recent: i64,
    flips: u32,
    util: u64,
    in_interrupt: bool,
    pub(super) seen: Seen,
    pub(super) answers: Vec<Answer>,
    pub(super) loads: Vec<(bool, u64)>,
    /// The waker's flips, with this wakeup counted, if known.
    waker_flips: Option<u32>,
    /// Changes and runnable tasks of each CPU at the entry.
    pub(super) changes: Vec<u32>,
    pub(super) runnable: Vec<u32>,
}

/// A selection that has ended, before it is known whether the wakeup is queued remotely.
#[derive(Clone, Copy)]
struct Selected {
    pid: i32,
    cpu: i64,
    /// Whether the chosen CPU had nothing queued at that moment, if known.
    empty: Option<bool>,
    /// Changes of that CPU by then.
    changes: u32,
    /// Changes of that CPU when the task was activated there: the probe of the queueing comes after its interrupt.
    activated: Option<u32>,
}

/// Selections in progress, by CPU; the last one ended.
pub(super) struct Open {
    pub(super) current: Vec<Option<Selection>>,
    /// The selection that ended last on a CPU.
    selected: Vec<Option<Selected>>,
}

impl Open {
    pub(super) fn new(cpus: usize) -> Self {
        Self {
            current: vec![None; cpus],
            selected: vec![None; cpus],
        }
    }

    /// A task is activated.
    pub(super) fn activated(&mut self, pid: i32, changes: u32) {
        for s in self.selected.iter_mut().flatten() {
            if s.pid == pid {
                s.activated.get_or_insert(changes);
            }
        }
    }
}

impl SmpCheck<'_> {
    pub(super) fn selection_begins(&mut self, at: At<'_>, f: &Fields<'_>) -> Result<(), String> {
        let cpu = at.event.cpu;
        let (pid, waker) = (f.pid("pid")?, at.event.pid);
        let flips = (f.small("flips")?, f.signed("lw")?);
        let selection = Selection {
            pid,
            waker,
            prev: f.small("prev")?,
            flags: f.need("fl")?,
            nr_allowed: f.small("nca")?,
            recent: f.signed("rec")?,
            flips: flips.0,
            // The top bit of util_est is a flag.
            util: f.need("util")?.max(f.need("est")? & 0x7fff_ffff),
            in_interrupt: at.event.flags.hardirq || at.event.flags.softirq,
            seen: self.seen(f)?,
            answers: Vec::new(),
            loads: Vec::new(),
            waker_flips: None,
            changes: self.machine.changes(),
            runnable: self.machine.all_runnable(),
        };
        // A new task's policy may still be set.
        let (fl, idle_policy) = (f.need("fl")?, f.need("pol")? == SCHED_IDLE);
        let all = CpuSet::all(self.domains.cpus());
        let task = self.machine.task(pid, cpu);
        if selection.nr_allowed >= all.len() {
            task.allowed = Some(all);
        }
        task.flips = Some(flips);
        if fl & WAKEUP != 0 {
            task.idle_policy = Some(idle_policy);
        }
        let kept = task.recent;
        if let Some(ours) = kept {
            self.compare_recent(at, pid, ours, selection.recent);
        }
        let mut selection = selection;
        if selection.flags & WAKEUP != 0 {
            selection.waker_flips = self.count_flip(waker, cpu, pid);
        }
        self.place.current[cpu as usize] = Some(selection);
        Ok(())
    }

    fn seen(&self, f: &Fields<'_>) -> Result<Seen, String> {
        let cpus = self.domains.cpus() as usize;
        let seen = Seen {
            nr: f.each("n"),
            curr: f.each("c"),
            load: f.each("l"),
            pending: f.each("q"),
            counts: f.each("x"),
            has_idle_cores: f.each("hic"),
            nr_idle_scan: f.each("nis"),
        };
        let per_cpu = [
            &seen.nr,
            &seen.curr,
            &seen.load,
            &seen.pending,
            &seen.counts,
        ];
        if per_cpu.iter().any(|list| list.len() != cpus) {
            return Err(format!("expected n, c, l, q and x of {cpus} CPUs"));
        }
        let llcs = self.domains.llcs().len();
        if seen.has_idle_cores.len() != llcs || seen.nr_idle_scan.len() != llcs {
            return Err(format!("expected hic and nis of {llcs} caches"));
        }
        Ok(seen)
    }

    fn compare_recent(&mut self, at: At<'_>, pid: i32, ours: i64, kernel: i64) {
        const KIND: &str = "recent_used_cpu";
        if ours == kernel {
            self.report.agree(KIND);
        } else {
            let cause = "the selection before set it otherwise";
            let miss = at.miss(KIND, Some(pid), ours, kernel, cause);
            self.report.miss(miss);
        }
    }

    /// The waker's flips with this wakeup; known from its own last selection on.
    fn count_flip(&mut self, waker: i32, cpu: u32, wakee: i32) -> Option<u32> {
        let task = self.machine.task(waker, cpu);
        let (flips, last) = task.flips?;
        let mut state = WakeeFlips {
            flips,
            last_wakee: Some(last as u64),
            decayed: 0,
        };
        // The time of the last halving is not recorded; `wide` below asks about both.
        state.record(i64::from(wakee) as u64, 0, u64::MAX >> 1);
        task.flips = Some((state.flips, i64::from(wakee)));
        Some(state.flips)
    }

    pub(super) fn idle_test(&mut self, at: At<'_>, f: &Fields<'_>) -> Result<(), String> {
        let (cpu, idle) = (f.small("cpu")?, f.need("ret")? != 0);
        let caller = f.caller();
        if !caller.starts_with("select_") {
            return Ok(());
        }
        if let Some(open) = &mut self.place.current[at.event.cpu as usize] {
            let test = idle_test(caller);
            let stamp = self.machine.cpus[cpu as usize].idle_stamp;
            open.answers.push(Answer {
                test,
                cpu,
                idle,
                stamp,
            });
        }
        Ok(())
    }

    pub(super) fn task_load(&mut self, at: At<'_>, f: &Fields<'_>) -> Result<(), String> {
        let load = f.need("ret")?;
        let caller = f.caller();
        if caller.starts_with("sched_balance_rq") {
            self.balance_load(at, load);
        } else if let Some(open) = &mut self.place.current[at.event.cpu as usize] {
            open.loads.push((caller == WAKER_LOAD, load));
        }
        Ok(())
    }

    pub(super) fn selection_ends(&mut self, at: At<'_>, f: &Fields<'_>) -> Result<(), String> {
        let cpu = at.event.cpu as usize;
        let (pid, kernel) = (f.pid("pid")?, f.signed("ret")?);
        let target = usize::try_from(kernel)
            .ok()
            .and_then(|c| self.machine.cpus.get(c));
        self.place.selected[cpu] = Some(Selected {
            pid,
            cpu: kernel,
            empty: target.and_then(|c| c.empty),
            changes: target.map_or(0, |c| c.changes),
            activated: None,
        });
        match self.place.current[cpu].take() {
            Some(open) if open.pid == pid => {
                if open.flags & (FORK | EXEC) != 0 {
                    self.machine.task(pid, 0).recent = None;
                    self.slow_path(at, &open, kernel);
                } else {
                    self.wakeup(at, &open, kernel);
                }
            }
            _ => self
                .report
                .undecided("wakeup", "the recording begins within the selection"),
        }
        Ok(())
    }

    fn wakeup(&mut self, at: At<'_>, open: &Selection, kernel: i64) {
        const KIND: &str = "wakeup";
        let Some(allowed) = self.machine.allowed(open.pid, open.nr_allowed) else {
            self.machine.task(open.pid, 0).recent = None;
            self.report
                .undecided(KIND, "the task's affinity is not known");
            return;
        };
        let waker_task = self.machine.task(open.waker, at.event.cpu).clone();
        let comm = at.event.comm.to_string();
        let mut waker = Waker {
            cpu: at.event.cpu,
            flips: open.waker_flips.unwrap_or(0),
            per_cpu_kthread: is_per_cpu_kthread(&comm) && !open.in_interrupt,
            exiting: waker_task.exiting,
        };
        let wakee = Wakee {
            prev: open.prev,
            allowed: &allowed,
            recent: u32::try_from(open.recent)
                .ok()
                .filter(|&c| c < self.domains.cpus()),
            flips: open.flips,
            util: open.util,
        };
        let sync = open.flags & SYNC != 0;
        let llc = self.domains.llc(waker.cpu).span.len();
        self.settle_flips(open, &mut waker, llc);
        let mut view = Replay::new(open);
        let rules = self.rules();
        let placement = select_task_rq(&rules, &mut view, &waker, &wakee, sync);
        let path_agrees = view.agrees();
        let task = self.machine.task(open.pid, 0);
        task.recent = Some(if placement.sets_recent {
            i64::from(open.prev)
        } else {
            open.recent
        });
        if i64::from(placement.cpu) == kernel {
            self.report.agree(KIND);
        } else {
            task.recent = None;
            let cause = self.cause(open, &waker, &wakee, sync, kernel);
            let ours = format!("CPU {} ({:?})", placement.cpu, placement.step);
            let miss = at.miss(KIND, Some(open.pid), ours, format!("CPU {kernel}"), cause);
            self.report.miss(miss);
            return;
        }
        let trouble = view.trouble();
        if path_agrees {
            self.report.agree(TESTS);
        } else {
            let cause = self.cause(open, &waker, &wakee, sync, kernel);
            let ours = format!("{trouble} ({:?})", placement.step);
            let theirs = format!("{} tests", open.answers.len());
            let miss = at.miss(TESTS, Some(open.pid), ours, theirs, cause);
            self.report.miss(miss);
        }
    }

    /// Where flips decide on `wake_wide` and the waker's are not known, whether the kernel entered `wake_affine` is read off.
    fn settle_flips(&mut self, open: &Selection, waker: &mut Waker, llc: u32) {
        let wide = |waker: u32| {
            let (low, high) = (waker.min(open.flips), waker.max(open.flips));
            low >= llc && u64::from(high) >= u64::from(low) * u64::from(llc)
        };
        let certain = match open.waker_flips {
            None => open.flips < llc,
            // The flips may have halved since they were last seen.
            Some(f) => wide(f) == wide(f / 2) && wide(f) == wide(f / 2 + 1),
        };
        if certain {
            return;
        }
        let test = match self.on(Feature::WaIdle) {
            true => open
                .answers
                .iter()
                .any(|a| a.test == Some(IdleTest::AffineThis)),
            false => !open.loads.is_empty(),
        };
        self.report
            .take("wake_wide of a waker whose wakee_flips are not known");
        // Any value that decides as the kernel did.
        waker.flips = if test {
            0
        } else {
            open.flips.saturating_mul(llc)
        };
    }

    /// Which change of state after the entry explains a choice that differs.
    fn cause(
        &self,
        open: &Selection,
        waker: &Waker,
        wakee: &Wakee<'_>,
        sync: bool,
        kernel: i64,
    ) -> &'static str {
        let rules = self.rules();
        let explains = |change: &dyn Fn(&mut Selection)| {
            let mut changed = open.clone();
            change(&mut changed);
            let mut view = Replay::new(&changed);
            let p = select_task_rq(&rules, &mut view, waker, wakee, sync);
            i64::from(p.cpu) == kernel && view.agrees()
        };
        let (this, prev) = (waker.cpu as usize, wakee.prev as usize);
        if explains(&|o| o.seen.load[this] = 0) || explains(&|o| o.seen.load[this] = 1 << 30) {
            return "wake_affine by load: the waker's CPU had another load than at the entry";
        }
        if explains(&|o| o.seen.load[prev] = 0) || explains(&|o| o.seen.load[prev] = 1 << 30) {
            return "wake_affine by load: the previous CPU had another load than at the entry";
        }
        let one = |o: &mut Selection| {
            o.seen.nr[this] = 1;
            o.seen.counts[this] = 0;
        };
        if explains(&one) || explains(&|o| o.seen.nr[this] = 2) {
            return "the waker's CPU had another number of tasks than at the entry";
        }
        for llc in 0..open.seen.nr_idle_scan.len() {
            if explains(&|o| o.seen.has_idle_cores[llc] ^= 1) {
                return "has_idle_cores changed after the entry";
            }
            for limit in 0..=u64::from(self.domains.cpus()) {
                if explains(&|o| o.seen.nr_idle_scan[llc] = limit) {
                    return "nr_idle_scan changed after the entry";
                }
            }
        }
        for cpu in 0..open.seen.nr.len() {
            let flip = |o: &mut Selection| {
                let idle = o.seen.sched_idle(cpu as u32);
                o.seen.nr[cpu] = 1;
                o.seen.counts[cpu] = u64::from(!idle);
            };
            if explains(&flip) {
                return "SCHED_IDLE tasks of a CPU came or went after the entry";
            }
        }
        "not found"
    }

    pub(super) fn wakelist(&mut self, at: At<'_>, f: &Fields<'_>) -> Result<(), String> {
        const KIND: &str = "ttwu_queue";
        let (pid, cpu) = (f.pid("pid")?, f.small("cpu")?);
        let kernel = f.need("ret")? != 0;
        let this = at.event.cpu;
        let selected = self.place.selected[this as usize].take();
        let selected = selected.filter(|s| s.pid == pid && s.cpu == i64::from(cpu));
        if kernel && selected.is_none_or(|s| s.activated.is_none()) {
            self.machine.cpus[cpu as usize].pending.insert(pid);
        }
        let needs_count = self.domains.share_cache(this, cpu) && this != cpu;
        let known = match (needs_count, selected) {
            (false, _) => Some(0),
            // Still being switched out: its CPU has not got to the next task, and may have nothing else.
            (true, None) => None,
            (true, Some(s)) => {
                let now = s
                    .activated
                    .unwrap_or(self.machine.cpus[cpu as usize].changes);
                let steady = s.empty.filter(|_| now == s.changes);
                steady.map(|empty| u32::from(!empty))
            }
        };
        let Some(nr_running) = known else {
            self.report
                .undecided(KIND, "whether the target had other tasks is not known");
            return Ok(());
        };
        let target = QueueTarget {
            cpu,
            usable: true,
            nr_running,
        };
        let ours = queues_remotely(&self.rules(), this, target);
        if ours == kernel {
            self.report.agree(KIND);
        } else {
            let cause = "the target's task was just being dequeued, or one enqueued";
            let miss = at.miss(KIND, Some(pid), ours, kernel, cause);
            self.report.miss(miss);
        }
        Ok(())
    }
}

/// Answers a selection's questions from what the kernel recorded.
struct Replay<'a> {
    open: &'a Selection,
    answers: std::slice::Iter<'a, Answer>,
    loads: std::slice::Iter<'a, (bool, u64)>,
    trouble: Option<(IdleTest, u32)>,
    load_missing: bool,
}

impl<'a> Replay<'a> {
    fn new(open: &'a Selection) -> Self {
        Self {
            open,
            answers: open.answers.iter(),
            loads: open.loads.iter(),
            trouble: None,
            load_missing: false,
        }
    }

    /// Every recorded answer was asked for, in order, and no other.
    fn agrees(&self) -> bool {
        self.trouble.is_none()
            && !self.load_missing
            && self.answers.len() == 0
            && self.loads.len() == 0
    }

    fn trouble(&self) -> String {
        match self.trouble {
            Some((test, cpu)) => format!("asked about CPU {cpu} ({})", test.name()),
            None if self.load_missing || self.loads.len() > 0 => "other loads asked for".into(),
            None => format!("{} tests fewer", self.answers.len()),
        }
    }
}

impl Cpus for Replay<'_> {
    fn idle(&mut self, cpu: u32, test: IdleTest) -> bool {
        if self.trouble.is_none() {
            match self.answers.next() {
                Some(a) if a.cpu == cpu && a.test.is_none_or(|t| t == test) => return a.idle,
                _ => self.trouble = Some((test, cpu)),
            }
        }
        let asked = self.open.answers.iter().rev().find(|a| a.cpu == cpu);
        asked.map_or_else(|| self.open.seen.idle(cpu), |a| a.idle)
    }

    fn sched_idle(&mut self, cpu: u32) -> bool {
        self.open.seen.sched_idle(cpu)
    }

    fn nr_running(&mut self, cpu: u32) -> u32 {
        self.open.seen.nr[cpu as usize] as u32
    }

    fn nr_delayed(&mut self, cpu: u32) -> u32 {
        (self.open.seen.counts[cpu as usize] >> 32) as u32
    }

    fn load_avg(&mut self, cpu: u32) -> u64 {
        self.open.seen.load[cpu as usize]
    }

    fn task_load(&mut self, whose: Load) -> u64 {
        match self.loads.next() {
            Some(&(of_waker, load)) if of_waker == (whose == Load::Waker) => load,
            _ => {
                self.load_missing = true;
                0
            }
        }
    }

    fn has_idle_cores(&mut self, llc: u32) -> bool {
        self.open.seen.has_idle_cores[llc as usize] != 0
    }

    fn clear_idle_cores(&mut self, _llc: u32) {}

    fn nr_idle_scan(&mut self, llc: u32) -> u32 {
        self.open.seen.nr_idle_scan[llc as usize] as u32
    }
}
