//! Balance attempts: who balances, group types, the imbalance, the queue and the tasks taken, and what remains of it.

use schedlab_balance::{
    Balance, BalanceInput, BusiestQueue, Candidate, CpuSet, Detach, Domain, DomainFlags, Group,
    GroupStats, GroupType, Hotness, Idle, Link, Migration, Movable, Outcome, active_balance,
    after_balance, cache_hot, can_migrate, should_balance,
};

use super::newidle::Ran;
use super::probe::Fields;
use super::shadow::is_per_cpu_kthread;
use super::{At, SmpCheck};

const ALL_PINNED: u64 = 1;
const DST_PINNED: u64 = 4;
const NO_GROUP: u64 = 0xffff_ffff;

/// An attempt in progress.
#[derive(Clone)]
struct Attempt {
    start: u64,
    cpu: u32,
    link: Link,
    idle: Idle,
    interval: u64,
    failed: u32,
    /// Whether the rules have this CPU balance; `None`: idle states are not known.
    should: Option<bool>,
    tested: bool,
    stats: Option<Stats>,
    found: Option<Found>,
    /// The kernel's answer was an imbalance, at least once.
    imbalanced: bool,
    /// Queues on which every task was pinned.
    left_out: CpuSet,
    /// Some round ended with every task pinned.
    pinned: bool,
    asked_active: bool,
    /// Tasks taken by our count, and whether that is certain.
    taken: u32,
    certain: bool,
}

#[derive(Clone)]
struct Stats {
    input: BalanceInput,
    busiest: Option<usize>,
    runnable: Vec<u32>,
}

/// A group found and the tasks looked at.
#[derive(Clone)]
struct Found {
    balance: Balance,
    busiest: Option<usize>,
    nr_in_group: u32,
    /// Runnable tasks of each CPU at the statistics.
    runnable: Vec<u32>,
    source: Option<u32>,
    /// What the loop is like; `None` before the first task.
    detach: Option<Detach>,
    /// A task that may move by load or utilization, whose amount is still to come.
    waiting: bool,
    /// The source was judged.
    judged: bool,
    certain: bool,
}

pub(super) struct Open(Vec<Option<Attempt>>);

impl Open {
    pub(super) fn new(cpus: usize) -> Self {
        Self(vec![None; cpus])
    }
}

impl SmpCheck<'_> {
    pub(super) fn attempt_begins(&mut self, at: At<'_>, f: &Fields<'_>) -> Result<(), String> {
        let (cpu, level) = (f.small("cpu")?, f.small("lvl")?);
        let idle = idle_of(f)?;
        let link = self
            .domains
            .at_level(cpu, level)
            .ok_or_else(|| format!("CPU {cpu} has no domain of level {level} in the topology"))?;
        let domain = self.domains.domain(link.domain);
        let (interval, last) = (f.need("bi")?, f.need("last")?);
        if f.need("span")? != domain.span.first_word() {
            return Err(format!(
                "the span of level {level} differs from the topology's"
            ));
        }
        let should = match idle {
            Idle::NewlyIdle => None,
            _ => self.should(domain, &domain.groups[link.local], cpu),
        };
        self.balance.0[at.event.cpu as usize] = Some(Attempt {
            start: at.event.ts,
            cpu,
            link,
            idle,
            interval,
            failed: f.small("fail")?,
            should,
            tested: false,
            left_out: CpuSet::new(),
            stats: None,
            found: None,
            imbalanced: false,
            pinned: false,
            asked_active: false,
            taken: 0,
            certain: true,
        });
        self.periodic.told(at.event.cpu, cpu, level, last, interval);
        Ok(())
    }

    /// The test may have been made at any time up to the attempt's next event: the answer must be the same by then.
    fn test_again(&self, attempt: &mut Attempt) {
        if attempt.tested || attempt.idle == Idle::NewlyIdle {
            return;
        }
        attempt.tested = true;
        let domain = self.domains.domain(attempt.link.domain);
        let group = &domain.groups[attempt.link.local];
        if self.should(domain, group, attempt.cpu) != attempt.should {
            attempt.should = None;
        }
    }

    /// Whether `cpu` is the one to balance, if the idle states that matter are known.
    fn should(&self, domain: &Domain, group: &Group, cpu: u32) -> Option<bool> {
        let active = CpuSet::all(self.domains.cpus());
        // Both ways for what is not known: only if they agree is it determined.
        let with = |unknown: bool| {
            let idle = |c| self.machine.idle(c).unwrap_or(unknown);
            should_balance(self.domains, domain, group, &active, cpu, idle)
        };
        let (a, b) = (with(false), with(true));
        (a == b).then_some(a)
    }

    pub(super) fn statistics(&mut self, at: At<'_>, f: &Fields<'_>) -> Result<(), String> {
        let Some(mut attempt) = self.balance.0[at.event.cpu as usize].take() else {
            return Ok(());
        };
        self.test_again(&mut attempt);
        let domain = self.domains.domain(attempt.link.domain);
        let local_mask = f.need("lgrp")?;
        let mut local = stats(f, 'l')?;
        let dst = f.small("dst")?;
        let own = domain.groups.iter().position(|g| g.span.has(dst));
        let own = own.ok_or("the destination is in no group of the domain")?;
        let group = &domain.groups[own];
        if group.span.first_word() == local_mask {
            self.report.agree("local group");
        } else {
            let ours = format!("{:#x}", group.span.first_word());
            let miss = at.miss(
                "local group",
                None,
                ours,
                format!("{local_mask:#x}"),
                "not found",
            );
            self.report.miss(miss);
        }
        self.compare_type(at, domain, group, true, attempt.idle, &mut local);
        let mut input = BalanceInput {
            idle: attempt.idle,
            local,
            local_cores: group.cores,
            busiest: None,
            busiest_cores: 0,
            smt_differs: false,
            total_load: f.need("tload")?,
            total_capacity: f.need("tcap")?,
            prefer_sibling: false,
        };
        let mut at_index = None;
        if f.need("bidle")? != NO_GROUP {
            let mask = f.need("bgrp")?;
            let index = domain
                .groups
                .iter()
                .position(|g| g.span.first_word() == mask);
            let index = index.ok_or("field `bgrp`: no group of the domain")?;
            let mut busiest = stats(f, 'b')?;
            let other = &domain.groups[index];
            self.compare_type(at, domain, other, false, attempt.idle, &mut busiest);
            let smt = |g: &Group| g.flags.has(DomainFlags::SHARE_CPUCAPACITY);
            input.busiest = Some(busiest);
            input.busiest_cores = other.cores;
            input.smt_differs = smt(group) != smt(other);
            input.prefer_sibling = other.flags.has(DomainFlags::PREFER_SIBLING);
            at_index = Some(index);
            let kernel = f.need("ps")? != 0;
            if kernel == input.prefer_sibling {
                self.report.agree("prefer_sibling");
            } else {
                let miss = at.miss(
                    "prefer_sibling",
                    None,
                    input.prefer_sibling,
                    kernel,
                    "not found",
                );
                self.report.miss(miss);
            }
            self.compare_busiest(at, domain, &input, index, own);
        }
        attempt.stats = Some(Stats {
            input,
            busiest: at_index,
            runnable: self.machine.all_runnable(),
        });
        self.balance.0[at.event.cpu as usize] = Some(attempt);
        Ok(())
    }

    /// In a domain of two groups, the totals are those of the two.
    fn compare_busiest(
        &mut self,
        at: At<'_>,
        domain: &Domain,
        input: &BalanceInput,
        index: usize,
        own: usize,
    ) {
        const KIND: &str = "busiest group";
        let Some(busiest) = &input.busiest else {
            return;
        };
        if domain.groups.len() != 2 {
            self.report
                .undecided(KIND, "statistics of the other groups are not recorded");
            return;
        }
        let load = input.local.load.wrapping_add(busiest.load);
        let capacity = input.local.capacity + busiest.capacity;
        if index != own && (load, capacity) == (input.total_load, input.total_capacity) {
            self.report.agree(KIND);
        } else {
            let kernel = format!("{}/{}", input.total_load, input.total_capacity);
            let miss = at.miss(
                KIND,
                None,
                format!("{load}/{capacity}"),
                kernel,
                "not found",
            );
            self.report.miss(miss);
        }
    }

    /// The group's type and average from its sums.
    fn compare_type(
        &mut self,
        at: At<'_>,
        domain: &Domain,
        group: &Group,
        local: bool,
        idle: Idle,
        s: &mut GroupStats,
    ) {
        const KIND: &str = "group type";
        // Whether affinity held up the level below is not recorded.
        let imbalanced = s.kind == GroupType::Imbalanced;
        if imbalanced {
            self.report
                .take("a group's flag that affinity held up the level below");
        }
        let smt = !local && s.smt_balance(group, idle.any());
        let kind = s.classify(domain.imbalance_pct, imbalanced, smt);
        let average = match kind {
            GroupType::Overloaded => s.average(),
            _ => 0,
        };
        if (kind, average) == (s.kind, s.avg_load) && s.weight == group.span.len() {
            self.report.agree(KIND);
        } else {
            let ours = format!("{} {average}", kind.name());
            let kernel = format!("{} {}", s.kind.name(), s.avg_load);
            let miss = at.miss(KIND, None, ours, kernel, "not found");
            self.report.miss(miss);
        }
    }

    pub(super) fn source_group(&mut self, at: At<'_>, f: &Fields<'_>) -> Result<(), String> {
        const KIND: &str = "imbalance";
        let Some(mut attempt) = self.balance.0[at.event.cpu as usize].take() else {
            return Ok(());
        };
        self.round_ends(at, &mut attempt);
        let kernel = if f.need("grp")? == 0 {
            None
        } else {
            Some(Balance {
                migration: migration_of(f)?,
                imbalance: f.need("imb")?,
            })
        };
        let domain = self.domains.domain(attempt.link.domain);
        if let Some(stats) = attempt.stats.take() {
            let verdict = stats.input.decide(domain);
            if verdict.balance == kernel {
                self.report.agree(KIND);
            } else {
                let ours = format!("{} ({:?})", balance_text(verdict.balance), verdict.reason);
                let miss = at.miss(KIND, None, ours, balance_text(kernel), "not found");
                self.report.miss(miss);
            }
            attempt.found = kernel.map(|balance| Found {
                balance,
                busiest: stats.busiest,
                runnable: stats.runnable,
                nr_in_group: stats.input.busiest.map_or(0, |b| b.h_nr_running),
                source: None,
                detach: None,
                waiting: false,
                judged: false,
                certain: true,
            });
        } else {
            self.report.undecided(KIND, "no statistics were recorded");
            attempt.certain = false;
        }
        attempt.imbalanced |= kernel.is_some();
        self.balance.0[at.event.cpu as usize] = Some(attempt);
        Ok(())
    }

    pub(super) fn task_looked_at(&mut self, at: At<'_>, f: &Fields<'_>) -> Result<(), String> {
        let flags = f.need("fl")?;
        if f.caller().starts_with("active_load_balance") {
            return Ok(());
        }
        let Some(mut attempt) = self.balance.0[at.event.cpu as usize].take() else {
            return Ok(());
        };
        attempt.pinned = flags & ALL_PINNED != 0;
        let domain = self.domains.domain(attempt.link.domain);
        let (source, dst) = (f.small("src")?, f.small("dst")?);
        if let Some(found) = &mut attempt.found {
            found.source = Some(source);
        }
        self.judge_source(at, &mut attempt, domain, source);
        let migration = migration_of(f)?;
        let failed = f.small("fail")?;
        let may = f.need("ret")? != 0;
        self.judge_task(at, domain, f, (source, dst), failed, may)?;
        if let Some(found) = &mut attempt.found {
            self.detach_step(at, f, found, attempt.idle, migration, failed, may)?;
            // A destination changed for affinity begins the loop anew with an imbalance of its own.
            if flags & DST_PINNED != 0 || dst != attempt.cpu {
                found.certain = false;
            }
        }
        self.balance.0[at.event.cpu as usize] = Some(attempt);
        Ok(())
    }

    /// Whether the task may move, by its state.
    #[allow(clippy::too_many_arguments)]
    fn judge_task(
        &mut self,
        at: At<'_>,
        domain: &Domain,
        f: &Fields<'_>,
        (source, dst): (u32, u32),
        failed: u32,
        kernel: bool,
    ) -> Result<(), String> {
        const KIND: &str = "can_migrate";
        let pid = f.pid("pid")?;
        let since = f.need("sclk")?.wrapping_sub(f.need("ex")?) as i64;
        let curr = self.machine.cpus[source as usize].curr;
        let dst_running = self.machine.runnable(dst);
        let Some(task) = self.machine.known(pid).cloned() else {
            self.report.undecided(KIND, "the task was not seen before");
            return Ok(());
        };
        let Some(curr) = curr else {
            self.report
                .undecided(KIND, "what runs on the source is not known");
            return Ok(());
        };
        let hotness = Hotness {
            idle_policy: task.idle_policy == Some(true),
            buddy: false,
            dst_running,
            cookie_differs: false,
            since,
        };
        let hot = |buddy| {
            let h = Hotness { buddy, ..hotness };
            cache_hot(
                self.options.features,
                domain,
                &h,
                self.options.migration_cost,
            )
        };
        let movable = |allowed, hot| Movable {
            per_cpu_kthread: is_per_cpu_kthread(&task.comm),
            allowed,
            running: curr == pid,
            hot,
            active: false,
        };
        let ours = |allowed, hot| can_migrate(&movable(allowed, hot), domain, failed);
        let allowed = task.allowed.as_ref().map(|set| set.has(dst));
        let certain = ours(allowed.unwrap_or(true), hot(false));
        if certain == kernel {
            if allowed.is_none() && ours(false, hot(false)) != certain {
                self.report
                    .undecided(KIND, "the task's affinity is not known");
            } else {
                self.report.agree(KIND);
            }
        } else if allowed.is_none() && ours(false, hot(false)) == kernel {
            self.report
                .undecided(KIND, "the task's affinity is not known");
        } else if ours(allowed.unwrap_or(true), hot(true)) == kernel && dst_running > 0 {
            self.report
                .undecided(KIND, "whether the task is the next buddy is not recorded");
        } else if domain.flags.has(DomainFlags::NUMA)
            && ours(allowed.unwrap_or(true), !hot(false)) == kernel
        {
            self.report
                .undecided(KIND, "NUMA balancing's preference is not recorded");
        } else {
            let text = format!(
                "{certain} (running {}, allowed {allowed:?}, {since} ns since it ran, failed {failed})",
                curr == pid
            );
            let miss = at.miss(KIND, Some(pid), text, kernel, "not found");
            self.report.miss(miss);
        }
        Ok(())
    }

    /// One step of the detach loop, against what is left of the imbalance.
    #[allow(clippy::too_many_arguments)]
    fn detach_step(
        &mut self,
        at: At<'_>,
        f: &Fields<'_>,
        found: &mut Found,
        idle: Idle,
        migration: Migration,
        failed: u32,
        may: bool,
    ) -> Result<(), String> {
        const KIND: &str = "detach loop";
        let (left, looked, most) = (f.signed("imb")?, f.small("loop")?, f.small("max")?);
        let detach = match &mut found.detach {
            Some(d) => d,
            None => found.detach.insert(Detach {
                migration,
                imbalance: found.balance.imbalance as i64,
                idle,
                preemptible: true,
                src_running: most,
                looked: 0,
                loop_max: most,
                taken: 0,
            }),
        };
        if found.waiting {
            // The load or utilization of the task before was not told: read off what it left.
            let amount = detach.imbalance.wrapping_sub(left);
            self.report.take("a task's share of an imbalance");
            detach.look(true, amount.max(0) as u64, 0);
            found.waiting = false;
        }
        let expected = (detach.goes_on(), detach.imbalance, detach.looked + 1);
        if expected == (true, left, looked) {
            self.report.agree(KIND);
        } else if found.certain {
            let ours = format!(
                "goes on {}, {} left, task {}",
                expected.0, expected.1, expected.2
            );
            let kernel = format!("{left} left, task {looked}");
            let cause = "tasks came or went before the queue was locked, or affinity changed the destination";
            let miss = at.miss(KIND, None, ours, kernel, cause);
            self.report.miss(miss);
            found.certain = false;
            detach.imbalance = left;
            detach.looked = looked.saturating_sub(1);
        } else {
            self.report
                .undecided(KIND, "the loop before is not determined");
            detach.imbalance = left;
            detach.looked = looked.saturating_sub(1);
        }
        if may && matches!(migration, Migration::Load | Migration::Util) {
            found.waiting = true;
        } else {
            detach.look(may, 0, failed);
        }
        Ok(())
    }

    /// `task_h_load` within the detach loop.
    pub(super) fn balance_load(&mut self, at: At<'_>, load: u64) {
        if let Some(attempt) = &mut self.balance.0[at.event.cpu as usize] {
            let failed = attempt.failed;
            if let Some(found) = &mut attempt.found
                && found.waiting
                && let Some(detach) = &mut found.detach
                && detach.migration == Migration::Load
            {
                found.waiting = false;
                detach.look(true, load, failed);
            }
        }
    }

    /// The queue that tasks are taken from, against the numbers of tasks that the trace shows.
    fn judge_source(&mut self, at: At<'_>, attempt: &mut Attempt, domain: &Domain, source: u32) {
        const KIND: &str = "source queue";
        let Some(found) = &mut attempt.found else {
            return;
        };
        if std::mem::replace(&mut found.judged, true) {
            return;
        }
        let Some(group) = found.busiest.map(|i| &domain.groups[i]) else {
            return;
        };
        if group.span.len() == 1 {
            if group.span.has(source) {
                self.report.agree(KIND);
            } else {
                let ours = format!("CPU {:?}", group.span.first());
                let miss = at.miss(KIND, None, ours, format!("CPU {source}"), "not found");
                self.report.miss(miss);
            }
            return;
        }
        if found.balance.migration != Migration::Task {
            self.report.undecided(
                KIND,
                "loads and utilizations of single queues are not recorded",
            );
            return;
        }
        let counts: Vec<(u32, u32)> = group
            .span
            .iter()
            .map(|c| (c, self.machine.runnable(c)))
            .collect();
        if counts.iter().map(|c| c.1).sum::<u32>() != found.nr_in_group {
            self.report.undecided(
                KIND,
                "delayed tasks or changes make the queues' lengths unknown",
            );
            return;
        }
        if counts.iter().any(|&(c, n)| found.runnable[c as usize] != n) {
            self.report
                .undecided(KIND, "the queues' lengths changed after the statistics");
            return;
        }
        let mut busiest = BusiestQueue::new(Migration::Task, found.balance.imbalance);
        let offered = counts.iter().filter(|c| !attempt.left_out.has(c.0));
        for &(cpu, h_nr_running) in offered {
            busiest.offer(Candidate {
                cpu,
                h_nr_running,
                load: 0,
                util: 0,
                capacity: schedlab_balance::SCALE,
            });
        }
        if busiest.cpu() == Some(source) {
            self.report.agree(KIND);
        } else {
            let ours = format!("CPU {:?} of {counts:?}", busiest.cpu());
            let cause = "delayed tasks, or a change that the trace shows later";
            let miss = at.miss(KIND, None, ours, format!("CPU {source}"), cause);
            self.report.miss(miss);
        }
    }

    pub(super) fn active_balance_asked(
        &mut self,
        at: At<'_>,
        f: &Fields<'_>,
    ) -> Result<(), String> {
        const KIND: &str = "active balance";
        let (failed, kernel) = (f.small("fail")?, f.need("ret")? != 0);
        let source = f.small("src")?;
        let Some(mut attempt) = self.balance.0[at.event.cpu as usize].take() else {
            return Ok(());
        };
        let domain = self.domains.domain(attempt.link.domain);
        self.judge_source(at, &mut attempt, domain, source);
        if let Some(found) = &attempt.found {
            let ours = active_balance(domain, found.balance.migration, failed);
            if ours == kernel {
                self.report.agree(KIND);
            } else {
                let miss = at.miss(KIND, None, ours, kernel, "not found");
                self.report.miss(miss);
            }
        }
        attempt.asked_active = true;
        self.balance.0[at.event.cpu as usize] = Some(attempt);
        Ok(())
    }

    /// A round of detaching is over.
    fn round_ends(&mut self, at: At<'_>, attempt: &mut Attempt) {
        const KIND: &str = "detach end";
        let Some(found) = attempt.found.take() else {
            return;
        };
        let Some(detach) = found.detach else { return };
        attempt.taken += detach.taken + u32::from(found.waiting);
        attempt.certain &= !found.waiting || detach.migration == Migration::Load;
        if found.waiting || !found.certain {
            self.report
                .undecided(KIND, "the loop before is not determined");
            attempt.certain = false;
        } else if detach.goes_on() {
            let ours = format!(
                "goes on: {} left, {} tasks, {} of {} looked at",
                detach.imbalance, detach.src_running, detach.looked, detach.loop_max
            );
            let cause = "the queue had fewer tasks when it was locked, or RT tasks among them";
            let miss = at.miss(KIND, None, ours, "ends", cause);
            self.report.miss(miss);
        } else {
            self.report.agree(KIND);
        }
    }

    pub(super) fn attempt_ends(&mut self, at: At<'_>, f: &Fields<'_>) -> Result<(), String> {
        let Some(mut attempt) = self.balance.0[at.event.cpu as usize].take() else {
            return Ok(());
        };
        self.test_again(&mut attempt);
        self.round_ends(at, &mut attempt);
        let (moved, goes_on) = (f.signed("ret")?, f.need("cont")? != 0);
        let after = (f.need("bi")?, f.small("fail")?);
        let domain = self.domains.domain(attempt.link.domain);
        let periodic = attempt.idle != Idle::NewlyIdle;
        self.judge_should(at, &attempt, goes_on);
        self.judge_moved(at, &attempt, moved);
        let outcome = if moved > 0 {
            Outcome::Moved
        } else if attempt.asked_active {
            Outcome::Failed
        } else {
            Outcome::Balanced {
                pinned: attempt.pinned && attempt.imbalanced,
            }
        };
        let ours = after_balance(
            domain,
            attempt.idle,
            outcome,
            attempt.interval,
            attempt.failed,
        );
        const KIND: &str = "interval";
        if ours == after {
            self.report.agree(KIND);
        } else {
            let ours = format!("{} ms, {} failed ({outcome:?})", ours.0, ours.1);
            let kernel = format!("{} ms, {} failed", after.0, after.1);
            let miss = at.miss(KIND, None, ours, kernel, "not found");
            self.report.miss(miss);
        }
        if !periodic {
            let ran = Ran {
                level: domain.level,
                start: attempt.start,
                end: at.event.ts,
                pulled: moved > 0,
            };
            self.newidle.ran(attempt.cpu, ran);
        }
        self.periodic.ended(
            at.event.cpu,
            attempt.cpu,
            domain.level,
            at.event.ts,
            after.0,
            periodic,
            !goes_on,
            moved > 0,
        );
        Ok(())
    }

    fn judge_should(&mut self, at: At<'_>, attempt: &Attempt, kernel: bool) {
        const KIND: &str = "should_we_balance";
        match attempt.should {
            None => self.report.undecided(
                KIND,
                "newidle: arrivals are not seen; else idle CPUs not known",
            ),
            Some(ours) if ours == kernel => self.report.agree(KIND),
            Some(ours) => {
                let cause = "a CPU became idle or busy around the test";
                let miss = at.miss(KIND, None, ours, kernel, cause);
                self.report.miss(miss);
            }
        }
    }

    fn judge_moved(&mut self, at: At<'_>, attempt: &Attempt, kernel: i64) {
        const KIND: &str = "tasks moved";
        if !attempt.certain {
            self.report
                .undecided(KIND, "the amounts that tasks count for are not recorded");
        } else if i64::from(attempt.taken) == kernel {
            self.report.agree(KIND);
        } else {
            let miss = at.miss(KIND, None, attempt.taken, kernel, "not found");
            self.report.miss(miss);
        }
    }
}

fn idle_of(f: &Fields<'_>) -> Result<Idle, String> {
    Idle::from_number(f.need("idle")?).ok_or_else(|| "field `idle`: expected 0, 1 or 2".to_string())
}

fn migration_of(f: &Fields<'_>) -> Result<Migration, String> {
    let number = f.need("mt")? as usize;
    let known = Migration::ALL.get(number).copied();
    known.ok_or_else(|| "field `mt`: expected 0 to 3".to_string())
}

fn balance_text(balance: Option<Balance>) -> String {
    balance.map_or("balanced".to_string(), |b| {
        format!("{} {}", b.migration.name(), b.imbalance)
    })
}

fn stats(f: &Fields<'_>, side: char) -> Result<GroupStats, String> {
    let get = |name: &str| f.need(&format!("{side}{name}"));
    let small = |name: &str| f.small(&format!("{side}{name}"));
    let kind = get("type")? as usize;
    Ok(GroupStats {
        avg_load: get("avg")?,
        load: get("load")?,
        capacity: get("cap")?,
        util: get("util")?,
        runnable: get("rn")?,
        nr_running: small("nr")?,
        h_nr_running: small("h")?,
        idle_cpus: small("idle")?,
        weight: small("w")?,
        kind: GroupType::ALL
            .get(kind)
            .copied()
            .ok_or_else(|| format!("field `{side}type`: expected 0 to 6"))?,
    })
}
