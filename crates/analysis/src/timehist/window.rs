//! Which part of a trace the lines are about.

/// A span of time, both ends included, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeWindow {
    /// Its first instant.
    pub start: u64,
    /// Its last instant.
    pub stop: u64,
}

impl Default for TimeWindow {
    /// All time.
    fn default() -> Self {
        Self {
            start: 0,
            stop: u64::MAX,
        }
    }
}

impl TimeWindow {
    /// Whether it holds an instant, ns.
    #[must_use]
    pub fn contains(&self, ts: u64) -> bool {
        (self.start..=self.stop).contains(&ts)
    }

    /// How much of a stretch of time lies within, ns.
    #[must_use]
    pub fn overlap(&self, from: u64, to: u64) -> u64 {
        to.min(self.stop).saturating_sub(from.max(self.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within() {
        let window = TimeWindow {
            start: 10,
            stop: 20,
        };
        assert!(!window.contains(9) && window.contains(10));
        assert!(window.contains(20) && !window.contains(21));
        assert_eq!(window.overlap(0, 9), 0);
        assert_eq!(window.overlap(0, 13), 3);
        assert_eq!(window.overlap(12, 13), 1);
        assert_eq!(window.overlap(18, 40), 2);
        assert_eq!(window.overlap(21, 40), 0);
        assert_eq!(window.overlap(0, u64::MAX), 10);
        assert_eq!(TimeWindow::default().overlap(3, 8), 5);
    }
}
