//! The fair server: a deadline reservation that keeps real-time tasks from starving fair ones (6.12 on, section 15).
//!
//! Deferred, as by default: it holds back until the last moment at which its runtime still fits before its deadline, and
//! whatever fair tasks or the idle task ran before counts against it. Without deferral it acts as soon as fair tasks are
//! there, until its runtime is used up, and again from its next period on. While it acts, fair tasks come before
//! real-time ones; its end is noticed by accounting, so at ticks.
//!
//! **Doubt** of the reference: how the server starts and stops changed several times from 6.12 to 6.18. Here it is
//! deferred anew in every period, a start within a period goes on with what is left of it (the wakeup rule of
//! constant bandwidth servers), and without deferral what fair tasks run while the server is throttled is not counted.

use schedlab_fair::{CpuId, Ns, Reason, Resched};

use crate::config::SimError;
use crate::engine::{Happening, Sim, Sink};
use crate::order::Rank;

/// What the server of each CPU may use (debugfs `fair_server/cpuN/{runtime,period}`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerSpec {
    /// Runtime in each period, at most the period; 0: no server.
    pub runtime: Ns,
    /// Period, above zero.
    pub period: Ns,
    /// It holds back until its runtime only just fits before the end of the period.
    pub defer: bool,
}

impl Default for ServerSpec {
    /// The kernel's: 50 ms of every second, deferred.
    fn default() -> Self {
        Self {
            runtime: Ns::from_ms(50),
            period: Ns::from_secs(1),
            defer: true,
        }
    }
}

/// Reservation of one CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FairServer {
    spec: ServerSpec,
    /// Fair tasks are queued.
    pub(crate) started: bool,
    /// The server itself runs: fair tasks come before real-time ones.
    pub(crate) active: bool,
    /// End of the present period.
    pub(crate) deadline: u64,
    /// Runtime left in it, ns; below zero after an overrun.
    left: i64,
    /// A timer is under way. It looks at the state when it fires, so it need not be moved.
    timer: bool,
    /// `clock_task` at which the idle task began to run.
    pub(crate) idle_since: u64,
}

impl FairServer {
    pub(crate) fn new(spec: ServerSpec) -> Self {
        Self {
            spec,
            ..Self::default()
        }
    }

    fn runtime(&self) -> i64 {
        self.spec.runtime.0 as i64
    }

    fn new_period(&mut self, now: u64) {
        self.deadline = now + self.spec.period.0;
        self.left = self.runtime();
    }

    /// Periods later, until there is runtime again: an overrun is taken off them.
    fn replenish(&mut self) {
        while self.left <= 0 {
            self.deadline += self.spec.period.0;
            self.left += self.runtime();
        }
    }

    /// Fair tasks have come. A period that is over, or one whose rest is more than its share, is replaced.
    fn start(&mut self, now: u64) {
        self.started = true;
        let rest = self.deadline.saturating_sub(now);
        let too_much = i128::from(self.left) * i128::from(self.spec.period.0)
            > i128::from(rest) * i128::from(self.runtime());
        if rest == 0 || too_much {
            self.new_period(now);
        }
        self.active = !self.spec.defer && self.left > 0;
    }

    fn stop(&mut self) {
        self.started = false;
        self.active = false;
    }

    /// When a server that does not act has to look again: at the last moment at which the rest of its runtime fits before
    /// the deadline, without deferral at the end of the period for which it has no runtime left.
    fn due(&self) -> u64 {
        let left = u64::try_from(self.left).unwrap_or(0);
        self.deadline
            .saturating_sub(if self.spec.defer { left } else { 0 })
    }

    /// Fair tasks ran for `ns`; `true` if an active server has used its runtime up.
    fn consume(&mut self, ns: u64, now: u64) -> bool {
        if !self.started || !(self.active || self.spec.defer) {
            return false;
        }
        self.left -= ns as i64;
        if self.left > 0 {
            return false;
        }
        if !self.active {
            // Nobody starved: a new period begins here.
            self.new_period(now);
            return false;
        }
        self.active = false;
        if self.spec.defer {
            self.replenish();
        }
        true
    }

    /// The idle task ends at `clock`: its time counts as if fair tasks could have run.
    pub(crate) fn idle_ends(&mut self, clock: u64) {
        if !self.spec.defer {
            return;
        }
        let idle = clock.saturating_sub(self.idle_since);
        self.left = self.left.saturating_sub_unsigned(idle).max(0);
    }
}

impl<S: Sink> Sim<S> {
    /// Fair tasks may have arrived on a CPU that had none.
    pub(crate) fn server_if_filled(&mut self, cpu: u32, now: u64) {
        if !self.config.profile.fair_server
            || self.config.fair_server.runtime == Ns::ZERO
            || self.cpus[cpu as usize].server.started
            || self.class.nr_fair(CpuId(cpu)) == 0
        {
            return;
        }
        self.cpus[cpu as usize].server.start(now);
        self.server_act_or_arm(cpu);
    }

    /// An active server's fair tasks come first from the next pick on; another waits for its time.
    fn server_act_or_arm(&mut self, cpu: u32) {
        if self.cpus[cpu as usize].server.active {
            self.class
                .request_resched(CpuId(cpu), Resched::Full, Reason::Other, &mut self.notes);
        } else {
            self.server_arm(cpu);
        }
    }

    /// The last fair task of a CPU may have gone.
    pub(crate) fn server_if_empty(&mut self, cpu: u32) {
        if self.cpus[cpu as usize].server.started && self.class.nr_fair(CpuId(cpu)) == 0 {
            self.cpus[cpu as usize].server.stop();
        }
    }

    /// Sets the timer, unless one is under way: the time to act only moves further away.
    fn server_arm(&mut self, cpu: u32) {
        let s = &mut self.cpus[cpu as usize].server;
        if !s.timer {
            s.timer = true;
            self.agenda
                .push(s.due(), Rank::Timer, cpu, Happening::Server);
        }
    }

    /// Fair tasks ran.
    pub(crate) fn server_consume(&mut self, cpu: u32, ns: u64, now: u64) {
        if self.cpus[cpu as usize].server.consume(ns, now) {
            self.server_arm(cpu);
            self.class
                .request_resched(CpuId(cpu), Resched::Full, Reason::Other, &mut self.notes);
        }
    }

    pub(crate) fn server_timer(&mut self, cpu: u32, now: u64) -> Result<(), SimError> {
        let s = &mut self.cpus[cpu as usize].server;
        s.timer = false;
        if !s.started || s.active {
            return Ok(());
        }
        if now < s.due() {
            // Moved meanwhile: the real timer does not fire now.
            self.server_arm(cpu);
            return Ok(());
        }
        self.account(cpu, now);
        let clock = self.clock(cpu);
        self.class
            .update_curr_task(CpuId(cpu), clock, &mut self.notes);
        self.told(now);
        let s = &mut self.cpus[cpu as usize].server;
        if s.left <= 0 && s.spec.defer {
            // Used up by idle time.
            s.deadline += s.spec.period.0;
            s.left = s.runtime();
        } else {
            s.replenish();
        }
        s.active = !s.spec.defer || now >= s.due();
        self.server_act_or_arm(cpu);
        self.irq_exit(cpu, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_fair_tasks_run_in_the_background_puts_the_server_off() {
        let mut s = FairServer::default();
        s.start(0);
        assert_eq!(s.due(), 950 * MS);
        assert!(!s.consume(20 * MS, 100 * MS));
        assert_eq!(s.due(), 970 * MS);
        assert!(!s.consume(30 * MS, 400 * MS));
        assert_eq!(s.due(), 1350 * MS, "a new period from 400 on");
    }

    #[test]
    fn an_overrun_is_taken_off_the_next_period() {
        let mut s = FairServer::default();
        s.start(0);
        s.active = true;
        assert!(!s.consume(49 * MS, 999 * MS));
        assert!(s.consume(2 * MS, 1001 * MS));
        assert!(!s.active);
        assert_eq!(s.due(), 1951 * MS);
    }

    #[test]
    fn idle_time_counts_and_a_period_goes_on_after_a_stop() {
        let mut s = FairServer::default();
        s.start(0);
        s.stop();
        s.idle_since = 0;
        s.idle_ends(30 * MS);
        s.start(30 * MS);
        assert_eq!(s.due(), 980 * MS);
        s.stop();
        s.start(2000 * MS);
        assert_eq!(s.due(), 2950 * MS);
    }

    #[test]
    fn without_deferral_it_acts_at_once_and_waits_for_its_next_period_when_used_up() {
        let mut s = FairServer::new(ServerSpec {
            defer: false,
            ..ServerSpec::default()
        });
        s.start(0);
        assert!(s.active);
        assert!(s.consume(52 * MS, 52 * MS));
        assert!(!s.active);
        assert_eq!(s.due(), 1000 * MS);
        assert!(!s.consume(30 * MS, 500 * MS), "throttled: not counted");
        s.idle_ends(20 * MS);
        s.replenish();
        assert_eq!((s.deadline, s.left), (2000 * MS, 48 * MS as i64));
        s.stop();
        s.left = -1;
        s.start(1500 * MS);
        assert!(!s.active, "a stop does not give runtime back");
    }
}
