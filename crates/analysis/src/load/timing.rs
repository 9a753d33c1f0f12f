//! What kind of timer ended a task's sleeps: periodic, of one length, or neither.

use super::{Act, LoadReport, LoadTask, Until};

/// A time is regular if it is off by at most this (the default timer slack is 50 us, the interrupt comes on top) …
const SLACK: u64 = 100_000;
/// … plus one part in so many of the period.
const CLOSE: u64 = 100;
/// Regular intervals in a row that make a period.
const IN_A_ROW: usize = 5;

fn close(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= SLACK.min(b / 4) + b / CLOSE
}

/// Stretches of regular intervals in `times`: index of the first time, number of intervals, and the median of all
/// intervals, which they are close to.
pub(super) fn regular(times: &[u64]) -> (Vec<(usize, usize)>, u64) {
    let gaps: Vec<u64> = times
        .windows(2)
        .map(|w| w[1].saturating_sub(w[0]))
        .collect();
    if gaps.len() < IN_A_ROW {
        return (Vec::new(), 0);
    }
    let period = median(&gaps);
    if period == 0 {
        return (Vec::new(), 0);
    }
    let mut out = Vec::new();
    let mut begin = 0;
    for i in 0..=gaps.len() {
        if gaps.get(i).is_some_and(|&g| close(g, period)) {
            continue;
        }
        if i - begin >= IN_A_ROW {
            out.push((begin, i - begin));
        }
        begin = i + 1;
    }
    (out, period)
}

fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

/// Turns the sleeps of a task that timers ended into what they are.
pub(super) fn classify(task: &mut LoadTask, report: &mut LoadReport) {
    let mut at: Vec<usize> = Vec::new();
    for (i, act) in task.acts.iter_mut().enumerate() {
        match act {
            // A disk answers so long after the request, whenever that comes.
            Act::Sleep {
                from,
                until,
                deep: true,
            } => {
                if let Until::Time(t) = *until {
                    *until = Until::After(t.saturating_sub(*from));
                    report.lengths += 1;
                }
            }
            Act::Sleep {
                until: Until::Time(_),
                ..
            } => at.push(i),
            _ => {}
        }
    }
    let sleeps: Vec<(u64, u64)> = at
        .iter()
        .filter_map(|&i| match task.acts[i] {
            Act::Sleep {
                from,
                until: Until::Time(t),
                ..
            } => Some((from, t)),
            _ => None,
        })
        .collect();
    let times: Vec<u64> = sleeps.iter().map(|s| s.1).collect();
    let (stretches, period) = regular(&times);
    let regular: usize = stretches.iter().map(|s| s.1).sum();
    let lengths: Vec<u64> = sleeps.iter().map(|s| s.1.saturating_sub(s.0)).collect();
    if regular * 2 >= times.len().max(1) {
        task.period = Some(period);
        for (first, count) in stretches {
            report.periodic += count as u64;
            smooth(
                task,
                &at[first..=first + count],
                &times[first..=first + count],
            );
        }
    } else if lengths.len() >= IN_A_ROW {
        let length = median(&lengths);
        let alike = |l: u64| length > 0 && close(l, length);
        // Four in five of one length: a sleep of that length, called again and again.
        if lengths.iter().filter(|&&l| alike(l)).count() * 5 >= lengths.len() * 4 {
            for (&i, &l) in at.iter().zip(&lengths).filter(|&(_, &l)| alike(l)) {
                if let Act::Sleep { until, .. } = &mut task.acts[i] {
                    *until = Until::After(l);
                    report.lengths += 1;
                }
            }
        }
    }
}

/// Puts the times of a regular stretch onto its mean period. The first and the last stay where they are.
fn smooth(task: &mut LoadTask, at: &[usize], times: &[u64]) {
    let (Some(&first), Some(&last)) = (times.first(), times.last()) else {
        return;
    };
    let n = at.len() as u64 - 1;
    let mean = (last - first) / n;
    for (k, &i) in at.iter().enumerate() {
        let k = k as u64;
        let time = if k == n { last } else { first + k * mean };
        // Not before it fell asleep.
        if let Act::Sleep { until, from, .. } = &mut task.acts[i]
            && time > *from
        {
            *until = Until::Time(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_like_intervals_are_regular() {
        let times: Vec<u64> = (0..6).map(|n| n * 10_000_000 + n % 2 * 60_000).collect();
        assert_eq!(regular(&times).0, [(0, 5)]);
        assert!(regular(&times[..5]).0.is_empty(), "four are none");
        let mut gap = times.clone();
        gap.push(90_000_000);
        gap.extend((10..15).map(|n| n * 10_000_000));
        assert_eq!(regular(&gap).0, [(0, 5), (6, 5)]);
        assert!(regular(&[5; 20]).0.is_empty(), "no time passes");
        let squares: Vec<u64> = (0..30).map(|n: u64| n * n * 1_000_000).collect();
        assert!(regular(&squares).0.is_empty());
    }
}
