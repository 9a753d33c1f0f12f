//! The tick: its rate and phase, from the events that it leaves (run time charged in hard interrupts, `tick` probes).

use std::collections::BTreeMap;

/// Rates that kernels are built with.
const RATES: [u32; 4] = [100, 250, 300, 1000];
/// Gaps between ticks that are needed, of all CPUs.
const GAPS_LEAST: u64 = 10;
/// A gap is a rate's if it is off its period by at most one part in so many.
const CLOSE: u64 = 25;

/// Collects ticks.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    last: BTreeMap<u32, u64>,
    /// Gaps that fit each of [`RATES`].
    fit: [u64; RATES.len()],
    /// Ticks seen by CPU, at most [`KEPT`] each.
    seen: BTreeMap<u32, Vec<u64>>,
}

/// Ticks of a CPU that are kept for the phase.
const KEPT: usize = 1_000;

/// What the ticks say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct TickTimes {
    pub(super) hz: Option<u32>,
    pub(super) phase: u64,
    pub(super) skew: u64,
}

impl Ticks {
    pub(super) fn push(&mut self, cpu: u32, ts: u64) {
        if let Some(last) = self.last.insert(cpu, ts) {
            let gap = ts.saturating_sub(last);
            for (fit, hz) in self.fit.iter_mut().zip(RATES) {
                let period = 1_000_000_000 / u64::from(hz);
                *fit += u64::from(gap.abs_diff(period) <= period / CLOSE);
            }
        }
        let seen = self.seen.entry(cpu).or_default();
        if seen.len() < KEPT {
            seen.push(ts);
        }
    }

    /// Times count from `first`.
    pub(super) fn finish(&self, first: u64) -> TickTimes {
        let best = RATES.iter().zip(self.fit).max_by_key(|&(_, fit)| fit);
        let Some((&hz, _)) = best.filter(|&(_, fit)| fit >= GAPS_LEAST) else {
            return TickTimes::default();
        };
        let period = 1_000_000_000 / u64::from(hz);
        let phases: BTreeMap<u32, u64> = self
            .seen
            .iter()
            .filter_map(|(&cpu, ticks)| Some((cpu, phase(ticks, first, period)?)))
            .collect();
        let zero = phases.get(&0).or_else(|| phases.values().next());
        let Some(&zero) = zero else {
            return TickTimes::default();
        };
        let skew = phases
            .get(&1)
            .map_or(0, |one| (one + period - zero) % period);
        // One skew for all, or none.
        let fits = phases.iter().all(|(&cpu, &p)| {
            let want = (zero + skew.wrapping_mul(u64::from(cpu)) % period) % period;
            let off = p.abs_diff(want);
            off.min(period - off) <= period / CLOSE
        });
        // Ticks of all CPUs at once follow each other by some microseconds.
        let apart = skew.min(period - skew) > period / 100;
        TickTimes {
            hz: Some(hz),
            phase: zero,
            skew: if fits && apart { skew } else { 0 },
        }
    }
}

/// Place of the ticks within a period: the fullest fiftieth of it and its neighbours, and there the median. What else
/// charges run time in an interrupt is spread over the period.
fn phase(ticks: &[u64], first: u64, period: u64) -> Option<u64> {
    const BINS: u64 = 50;
    let places = || ticks.iter().map(|t| t.saturating_sub(first) % period);
    let bin = |place: u64| (place * BINS / period) as usize;
    let mut full = [0u32; BINS as usize];
    places().for_each(|p| full[bin(p)] += 1);
    let around = |b: usize| {
        let n = BINS as usize;
        full[b] + full[(b + 1) % n] + full[(b + n - 1) % n]
    };
    let best = (0..BINS as usize).max_by_key(|&b| (around(b), BINS as usize - b))?;
    // Counted from the begin of the bin before, so that a phase near 0 is not torn apart.
    let origin = (best as u64 + BINS - 1) % BINS * period / BINS;
    let mut near: Vec<u64> = places()
        .map(|p| (p + period - origin) % period)
        .filter(|&d| d < 3 * period / BINS)
        .collect();
    near.sort_unstable();
    Some((origin + near.get(near.len() / 2)?) % period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_phase_and_skew() {
        let mut ticks = Ticks::default();
        for n in 0..50u64 {
            ticks.push(0, 1_000 + n * 4_000_000 + 3_999_000 + n % 3);
            ticks.push(1, 1_000 + n * 4_000_000 + 1_999_000 + n % 3);
        }
        let t = ticks.finish(1_000);
        assert_eq!(t.hz, Some(250));
        assert_eq!(t.phase, 3_999_001);
        assert_eq!(t.skew, 2_000_000);
    }

    #[test]
    fn few_or_irregular_ticks_say_nothing() {
        let mut ticks = Ticks::default();
        for n in 0..100u64 {
            ticks.push(0, n * n * 77_777);
        }
        assert_eq!(ticks.finish(0), TickTimes::default());
        assert_eq!(Ticks::default().finish(0), TickTimes::default());
    }
}
