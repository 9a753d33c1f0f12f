//! Per-entity load tracking: decaying averages in periods of 1024 µs (reference section 11).

/// Largest value of the geometric sum, as tabulated.
pub const LOAD_AVG_MAX: u64 = 47_742;
/// Capacity of a CPU.
pub const SCALE: u64 = 1024;

/// y^n · 2^32 with y^32 = 1/2.
const Y_INV: [u32; 32] = [
    0xffff_ffff,
    0xfa83_b2da,
    0xf525_7d14,
    0xefe4_b99a,
    0xeac0_c6e6,
    0xe5b9_06e6,
    0xe0cc_deeb,
    0xdbfb_b796,
    0xd744_fcc9,
    0xd2a8_1d91,
    0xce24_8c14,
    0xc9b9_bd85,
    0xc567_2a10,
    0xc12c_4cc9,
    0xbd08_a39e,
    0xb8fb_af46,
    0xb504_f333,
    0xb123_f581,
    0xad58_3ee9,
    0xa9a1_5ab4,
    0xa5fe_d6a9,
    0xa270_4302,
    0x9ef5_325f,
    0x9b8d_39b9,
    0x9837_f050,
    0x94f4_efa8,
    0x91c3_d373,
    0x8ea4_398a,
    0x8b95_c1e3,
    0x8898_0e80,
    0x85aa_c367,
    0x82cd_8698,
];

/// `val · y^n`, rounded down as the kernel's table does.
#[must_use]
#[inline]
pub fn decay(val: u64, n: u64) -> u64 {
    if n > 2016 {
        return 0;
    }
    let val = val >> (n / 32);
    ((u128::from(val) * u128::from(Y_INV[(n % 32) as usize])) >> 32) as u64
}

/// What an update adds while it lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Running {
    /// Weight, or 1 for an entity on its queue; 0 when nothing is queued.
    pub load: u64,
    /// Number of runnable tasks, delayed ones left out.
    pub runnable: u64,
    /// Whether it runs.
    pub running: bool,
}

/// Sums and averages of one entity or queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pelt {
    /// Time of the last update, ns; always a multiple of 1024 ns after the start.
    pub last_update_time: u64,
    /// Part of the present period that has passed, in units of 1024 ns.
    pub period_contrib: u64,
    /// Decayed sum of `load · time`.
    pub load_sum: u64,
    /// Decayed sum of `runnable · 1024 · time`.
    pub runnable_sum: u64,
    /// Decayed sum of `running · 1024 · time`.
    pub util_sum: u64,
    /// Load average.
    pub load_avg: u64,
    /// Runnable average, 1024 for one task.
    pub runnable_avg: u64,
    /// Utilization, 0 to 1024.
    pub util_avg: u64,
}

impl Pelt {
    /// Divider of the sums at the present point of the period.
    #[must_use]
    #[inline]
    pub fn divider(&self) -> u64 {
        LOAD_AVG_MAX - 1024 + self.period_contrib
    }

    /// Whether an update at `now` would do anything: a unit of 1024 ns has passed, or the clock has gone back.
    #[must_use]
    #[inline]
    pub fn due(&self, now: u64) -> bool {
        now.wrapping_sub(self.last_update_time) >= 1024
    }

    /// Accounts the time up to `now`, during which `state` held; `weight` scales the load average.
    ///
    /// Returns whether a period boundary was crossed, which is when the averages change.
    pub fn update(&mut self, now: u64, state: Running, weight: u64) -> bool {
        let delta = now.wrapping_sub(self.last_update_time);
        if (delta as i64) < 0 {
            self.last_update_time = now;
            return false;
        }
        let delta = delta >> 10;
        if delta == 0 {
            return false;
        }
        self.last_update_time = self.last_update_time.wrapping_add(delta << 10);
        let state = if state.load == 0 {
            Running::default()
        } else {
            state
        };
        if self.accumulate(delta, state) == 0 {
            return false;
        }
        self.average(weight);
        true
    }

    /// Recomputes the averages from the sums.
    #[inline]
    pub fn average(&mut self, weight: u64) {
        let d = self.divider();
        self.load_avg = weight * self.load_sum / d;
        self.runnable_avg = self.runnable_sum / d;
        self.util_avg = self.util_sum / d;
    }

    /// Adds `delta` units; returns the number of period boundaries crossed.
    #[inline]
    fn accumulate(&mut self, delta: u64, state: Running) -> u64 {
        let total = delta + self.period_contrib;
        let periods = total / 1024;
        let mut contrib = delta;
        if periods > 0 {
            self.load_sum = decay(self.load_sum, periods);
            self.runnable_sum = decay(self.runnable_sum, periods);
            self.util_sum = decay(self.util_sum, periods);
            let rest = total % 1024;
            if state.load > 0 {
                let first = decay(1024 - self.period_contrib, periods);
                let middle = LOAD_AVG_MAX - decay(LOAD_AVG_MAX, periods) - 1024;
                contrib = first + middle + rest;
            }
        }
        self.period_contrib = total % 1024;
        if state.load > 0 {
            self.load_sum += state.load * contrib;
        }
        if state.runnable > 0 {
            self.runnable_sum += (state.runnable * contrib) << 10;
        }
        if state.running {
            self.util_sum += contrib << 10;
        }
        periods
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: Running = Running {
        load: 1,
        runnable: 1,
        running: true,
    };

    fn after(periods: u64) -> Pelt {
        let mut p = Pelt::default();
        for n in 1..=periods {
            p.update(n * 1024 * 1024, ON, 1024);
        }
        p
    }

    #[test]
    fn examples_of_section_11_5() {
        let one = after(1);
        assert_eq!(
            (one.load_sum, one.util_sum, one.util_avg),
            (1002, 1_026_048, 21)
        );
        for (n, sum, avg) in [(10, 9098, 199), (32, 23359, 512), (64, 35039, 768)] {
            let mut p = Pelt::default();
            p.update(n * 1024 * 1024, ON, 1024);
            assert_eq!((p.load_sum, p.util_avg), (sum, avg), "{n} periods at once");
        }
        let mut p = Pelt::default();
        p.update(345 * 1024 * 1024, ON, 1024);
        assert_eq!((p.load_sum, p.util_avg), (46692, 1023));
    }

    #[test]
    fn steady_state_and_half_life() {
        let mut p = after(2000);
        assert_eq!((p.load_sum, p.util_avg), (46715, 1024));
        assert_eq!(p.load_avg, 1024 * 46715 / 46718);
        assert_eq!(p.load_avg, 1023);
        p = Pelt::default();
        p.update(345 * 1024 * 1024, ON, 1024);
        p.update((345 + 32) * 1024 * 1024, Running::default(), 1024);
        assert_eq!(p.util_avg, 511);
        p.update((345 + 64) * 1024 * 1024, Running::default(), 1024);
        assert_eq!(p.util_avg, 255);
    }

    #[test]
    fn averages_wait_for_the_period_boundary() {
        let mut p = Pelt::default();
        assert!(!p.update(1023 * 1024, ON, 1024));
        assert_eq!((p.load_sum, p.load_avg), (1023, 0));
        assert!(p.update(1024 * 1024 + 500, ON, 1024));
        assert_eq!(p.last_update_time, 1024 * 1024);
    }
}
