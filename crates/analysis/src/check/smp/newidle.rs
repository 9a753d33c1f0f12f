//! Newidle balance: early exits, levels tried (with the draws of NI_RANDOM), and `avg_idle`.

use schedlab_balance::{Rng, avg_idle_after, newidle_draw, newidle_exit, newidle_stops};
use schedlab_fair::Feature;

use super::probe::Fields;
use super::{At, SmpCheck};

/// Most hypotheses about the generator's state that are kept.
const MOST_STATES: usize = 64;

/// A pass in progress.
#[derive(Clone)]
struct Pass {
    begun: u64,
    ended: u64,
    exits: bool,
    overloaded: bool,
    avg_idle: u64,
    /// By level from the bottom: cost and ratio.
    levels: Vec<(u64, u32)>,
    /// Levels at which a balance ran.
    ran: Vec<Ran>,
}

/// A balance at a level.
#[derive(Clone, Copy)]
pub(super) struct Ran {
    pub(super) level: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) pulled: bool,
}

impl Pass {
    /// Bounds of what the first `n` balances cost by the kernel's clock, which is read at unknown moments between the probes.
    fn spent(&self, n: usize) -> (u64, u64) {
        if n == 0 {
            return (0, 0);
        }
        let done = self.ran.iter().take(n);
        let low = done.map(|r| r.end.saturating_sub(r.start)).sum();
        let next = self.ran.get(n).map_or(self.ended, |r| r.start);
        (low, next.saturating_sub(self.begun))
    }
}

#[derive(Clone, Default)]
struct CpuState {
    pass: Option<Pass>,
    /// `avg_idle` as it must be at the next probe that shows it.
    expected: Option<u64>,
    /// States that the generator may be in; empty: not known.
    rng: Vec<Rng>,
    /// States if the overload flag was clear for a moment at some pass before, so that a draw was not made.
    spare: Vec<Rng>,
    /// Whether the recording's first mark has been seen.
    marked: bool,
}

pub(super) struct State(Vec<CpuState>);

impl State {
    pub(super) fn new(cpus: usize) -> Self {
        Self(vec![CpuState::default(); cpus])
    }

    /// A newidle balance of `cpu` ran at a level.
    pub(super) fn ran(&mut self, cpu: u32, ran: Ran) {
        if let Some(pass) = &mut self.0[cpu as usize].pass {
            pass.ran.push(ran);
        }
    }
}

impl SmpCheck<'_> {
    pub(super) fn activation(&mut self, at: At<'_>, f: &Fields<'_>) -> Result<(), String> {
        let cpu = f.small("cpu")?;
        let (avg, stamp) = (f.need("ai")?, f.need("ist")?);
        self.compare_avg_idle(at, cpu, avg);
        let state = &mut self.newidle.0[cpu as usize];
        if stamp != 0 {
            let idle = f.need("clk")?.wrapping_sub(stamp);
            state.expected = Some(avg_idle_after(avg, idle, f.need("maxc")?));
        }
        let shadow = &mut self.machine.cpus[cpu as usize];
        shadow.idle_stamp = Some(0);
        shadow.empty = Some(false);
        let pid = f.pid("pid")?;
        shadow.pending.remove(&pid);
        let changes = shadow.changes;
        self.place.activated(pid, changes);
        self.machine.changed(cpu);
        Ok(())
    }

    fn compare_avg_idle(&mut self, at: At<'_>, cpu: u32, kernel: u64) {
        const KIND: &str = "avg_idle";
        let Some(ours) = self.newidle.0[cpu as usize].expected.take() else {
            return;
        };
        if ours == kernel {
            self.report.agree(KIND);
        } else {
            let miss = at.miss(KIND, None, ours, kernel, "not found");
            self.report.miss(miss);
        }
    }

    pub(super) fn random_state(&mut self, at: At<'_>, f: &Fields<'_>) -> Result<(), String> {
        const KIND: &str = "NI_RANDOM draws";
        let (low, high) = (f.each("r"), f.each("s"));
        for (cpu, (&a, &b)) in low.iter().zip(&high).enumerate() {
            let Some(state) = self.newidle.0.get_mut(cpu) else {
                return Err("more CPUs than the topology has".to_string());
            };
            let kernel = Rng([a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32]);
            if state.marked && !state.rng.is_empty() {
                if state.rng.contains(&kernel) {
                    self.report.agree(KIND);
                } else {
                    let ours = format!("{:x?}", state.rng.first());
                    let cause = "not shown; likely the overload flag was clear, or set, for a moment between the probes of a pass";
                    let miss = at.miss(KIND, None, ours, format!("{:x?}", kernel), cause);
                    self.report.miss(miss);
                }
            } else if state.marked {
                self.report
                    .undecided(KIND, "the generator's state was lost on the way");
            }
            state.marked = true;
            state.rng = vec![kernel];
            state.spare.clear();
        }
        Ok(())
    }

    pub(super) fn newidle_begins(&mut self, at: At<'_>, f: &Fields<'_>) -> Result<(), String> {
        let cpu = f.small("cpu")?;
        let avg_idle = f.need("ai")?;
        self.compare_avg_idle(at, cpu, avg_idle);
        let mut levels = Vec::new();
        while let (Some(cost), Some(ratio)) = (
            f.get(&format!("mc{}", levels.len())),
            f.get(&format!("nir{}", levels.len())),
        ) {
            levels.push((cost, ratio as u32));
        }
        let lowest = levels.first().map(|l| l.0);
        let exit = newidle_exit(f.need("tp")? != 0, f.need("ovl")? != 0, avg_idle, lowest);
        self.newidle.0[cpu as usize].pass = Some(Pass {
            begun: at.event.ts,
            ended: 0,
            exits: exit.is_some(),
            overloaded: f.need("ovl")? != 0,
            avg_idle,
            levels,
            ran: Vec::new(),
        });
        let shadow = &mut self.machine.cpus[cpu as usize];
        if f.need("nr")? == 0 {
            shadow.empty = Some(true);
        }
        if f.need("tp")? == 0 {
            shadow.idle_stamp = Some(f.need("clk")?);
        }
        self.machine.changed(cpu);
        Ok(())
    }

    pub(super) fn newidle_ends(&mut self, at: At<'_>, f: &Fields<'_>) -> Result<(), String> {
        const KIND: &str = "newidle ran";
        let cpu = f.small("cpu")?;
        let pulled = f.signed("ret")?;
        let shadow = &mut self.machine.cpus[cpu as usize];
        shadow.idle_stamp = Some(f.need("ist")?);
        if f.need("nr")? > 0 {
            shadow.empty = Some(false);
        }
        let Some(mut pass) = self.newidle.0[cpu as usize].pass.take() else {
            return Ok(());
        };
        pass.ended = at.event.ts;
        // The flag is read after the entry; another CPU may change it meanwhile.
        let steady = pass.overloaded == (f.need("ovl")? != 0);
        if !pass.exits {
            self.judge_levels(at, cpu, &pass, steady);
            self.judge_result(at, &pass, pulled);
        } else if pass.ran.is_empty() {
            self.report.agree(KIND);
        } else {
            if steady {
                let cause = "overload or a wakeup's arrival changed after the entry";
                let miss = at.miss(KIND, None, "no level", levels_text(&pass), cause);
                self.report.miss(miss);
            } else {
                self.report
                    .undecided(KIND, "the overload flag changed within the pass");
            }
            // The generator went on all the same.
            self.advance(cpu, &pass, steady);
        }
        Ok(())
    }

    /// Follows the generator through a pass; the ways that it may have gone.
    fn advance(&mut self, cpu: u32, pass: &Pass, steady: bool) -> Vec<Way> {
        let state = &mut self.newidle.0[cpu as usize];
        let (likely, spare) = (
            std::mem::take(&mut state.rng),
            std::mem::take(&mut state.spare),
        );
        let follow = |from: &[Rng]| -> Vec<Way> {
            let all = from.iter().flat_map(|&rng| self.ways(cpu, pass, Some(rng)));
            all.collect()
        };
        let fitting = |ways: &[Way]| -> Vec<Rng> {
            let fit = ways.iter().filter(|w| w.fits(pass));
            fit.filter_map(|w| w.rng).collect()
        };
        let ways = follow(&likely);
        let (mut now, mut doubtful) = (fitting(&ways), fitting(&follow(&spare)));
        if pass.ran.is_empty() {
            let unmoved = if steady { &mut doubtful } else { &mut now };
            unmoved.extend(&likely);
        }
        for list in [&mut now, &mut doubtful] {
            list.sort_unstable();
            list.dedup();
            if list.len() > MOST_STATES {
                list.clear();
            }
        }
        if now.is_empty() {
            now = std::mem::take(&mut doubtful);
        }
        let state = &mut self.newidle.0[cpu as usize];
        (state.rng, state.spare) = (now, doubtful);
        ways
    }

    /// A pull at a level is the pass's result.
    fn judge_result(&mut self, at: At<'_>, pass: &Pass, pulled: i64) {
        const KIND: &str = "newidle result";
        let moved = pass.ran.iter().any(|r| r.pulled);
        let last_only = pass.ran.iter().rev().skip(1).all(|r| !r.pulled);
        if moved && !last_only {
            let cause = "a level ran after a pull";
            let miss = at.miss(KIND, None, "stop after a pull", levels_text(pass), cause);
            self.report.miss(miss);
        } else if moved == (pulled > 0) {
            self.report.agree(KIND);
        } else {
            // Tasks that came meanwhile count as pulled, and one that left again as none.
            self.report
                .undecided(KIND, "a task arrived or left during the pass");
        }
    }

    /// Which levels ran, by the draws and the costs so far.
    fn judge_levels(&mut self, at: At<'_>, cpu: u32, pass: &Pass, steady: bool) {
        const KIND: &str = "newidle levels";
        let ways = if !self.on(Feature::NiRandom) {
            self.ways(cpu, pass, None)
        } else if self.newidle.0[cpu as usize].rng.is_empty() {
            self.report
                .undecided(KIND, "the state of the NI_RANDOM generator is not known");
            return;
        } else {
            self.advance(cpu, pass, steady)
        };
        if steady || !pass.ran.is_empty() {
            self.tell_levels(at, KIND, pass, &ways);
        } else {
            self.report
                .undecided(KIND, "the overload flag changed within the pass");
        }
    }

    fn tell_levels(&mut self, at: At<'_>, kind: &'static str, pass: &Pass, ways: &[Way]) {
        let fits = ways.iter().any(|w| w.fits(pass));
        let one = ways.windows(2).all(|w| w[0].levels == w[1].levels);
        if fits && one {
            self.report.agree(kind);
        } else if fits {
            self.report.undecided(
                kind,
                "whether a newidle pass stopped for its cost is not known",
            );
        } else {
            let ours: Vec<_> = ways.iter().map(|w| format!("{:?}", w.levels)).collect();
            let cause = "not shown; likely the overload flag was clear, or set, for a moment between the probes of a pass";
            let miss = at.miss(kind, None, ours.join(" or "), levels_text(pass), cause);
            self.report.miss(miss);
        }
    }

    /// The ways that a pass may go: where a cost may have ended it, both are followed.
    fn ways(&self, cpu: u32, pass: &Pass, rng: Option<Rng>) -> Vec<Way> {
        let start = Way {
            levels: Vec::new(),
            rng,
        };
        let (mut done, mut open) = (Vec::new(), vec![start]);
        for (link, &(cost, ratio)) in self.domains.chain(cpu).iter().zip(&pass.levels) {
            let domain = self.domains.domain(link.domain);
            let mut next = Vec::new();
            for mut way in open {
                let (low, high) = pass.spent(way.levels.len());
                if newidle_stops(pass.avg_idle, high, cost) {
                    done.push(way.clone());
                }
                if newidle_stops(pass.avg_idle, low, cost) {
                    continue;
                }
                let mut rng = way.rng.unwrap_or(Rng([0; 4]));
                let draw = newidle_draw(self.options.features, domain.flags, ratio, || rng.draw());
                way.rng = way.rng.map(|_| rng);
                if draw.is_none() {
                    next.push(way);
                    continue;
                }
                // Past a level that ran here and not there, the way fits no more, whatever follows.
                let recorded = pass.ran.get(way.levels.len()).copied();
                way.levels.push(domain.level);
                let Some(ran) = recorded.filter(|r| r.level == domain.level) else {
                    done.push(way);
                    continue;
                };
                // A task that arrives meanwhile ends the pass too.
                let last = pass.ran.len() == way.levels.len();
                if ran.pulled || (last && self.arrived(cpu)) {
                    done.push(way.clone());
                }
                if !ran.pulled {
                    next.push(way);
                }
            }
            open = next;
        }
        done.extend(open);
        done
    }

    /// Whether something became runnable on a CPU in its newidle pass.
    fn arrived(&self, cpu: u32) -> bool {
        let c = &self.machine.cpus[cpu as usize];
        !c.pending.is_empty() || c.empty == Some(false)
    }
}

/// One way that a pass may go.
#[derive(Clone)]
struct Way {
    levels: Vec<u32>,
    rng: Option<Rng>,
}

impl Way {
    fn fits(&self, pass: &Pass) -> bool {
        let ran = pass.ran.iter().map(|r| r.level);
        ran.eq(self.levels.iter().copied())
    }
}

fn levels_text(pass: &Pass) -> String {
    let levels: Vec<_> = pass.ran.iter().map(|r| r.level).collect();
    format!("{levels:?}")
}
