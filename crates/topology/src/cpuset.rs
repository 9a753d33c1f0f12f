//! Sets of CPUs.

use std::fmt;

/// A set of CPUs, a bit each. All sets of a machine have room for all of its CPUs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuSet(Vec<u64>);

impl CpuSet {
    /// The empty set of a machine of `n` CPUs.
    #[must_use]
    pub fn none(n: usize) -> Self {
        Self(vec![0; n.div_ceil(64).max(1)])
    }

    /// CPUs 0 to `n` − 1.
    #[must_use]
    pub fn all(n: usize) -> Self {
        let mut set = Self::none(n);
        for c in 0..n {
            set.0[c / 64] |= 1 << (c % 64);
        }
        set
    }

    /// Some of the CPUs of a machine of `n`; others are left out.
    #[must_use]
    pub fn of(list: impl IntoIterator<Item = u32>, n: usize) -> Self {
        let mut set = Self::none(n);
        for c in list {
            if (c as usize) < n {
                set.0[c as usize / 64] |= 1 << (c % 64);
            }
        }
        set
    }

    /// Whether a CPU is a member.
    #[must_use]
    pub fn has(&self, cpu: u32) -> bool {
        self.0
            .get(cpu as usize / 64)
            .is_some_and(|w| w & (1 << (cpu % 64)) != 0)
    }

    /// Puts a CPU of the machine in or takes it out.
    pub fn set(&mut self, cpu: u32, on: bool) {
        let bit = 1 << (cpu % 64);
        if let Some(word) = self.0.get_mut(cpu as usize / 64) {
            *word = if on { *word | bit } else { *word & !bit };
        }
    }

    /// Adds the members of another set of the same machine.
    pub fn add(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }

    /// How many members.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.0.iter().map(|w| w.count_ones()).sum()
    }

    /// Whether it has more than one member.
    #[must_use]
    pub fn several(&self) -> bool {
        self.weight() > 1
    }

    /// Whether all members are in the other set too.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a & !b == 0)
    }

    /// Whether a CPU is in both.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// The first member; 0 if there is none.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.iter().next().unwrap_or(0)
    }

    /// The last member.
    #[must_use]
    pub fn last(&self) -> Option<u32> {
        let (i, w) = self.0.iter().enumerate().rfind(|(_, w)| **w != 0)?;
        Some(i as u32 * 64 + 63 - w.leading_zeros())
    }

    /// Members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().enumerate().flat_map(|(i, &word)| {
            let mut word = word;
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(i as u32 * 64 + bit)
            })
        })
    }

    /// Members from `from` on, then those below it (`for_each_cpu_wrap`).
    pub fn iter_from(&self, from: u32) -> impl Iterator<Item = u32> + '_ {
        self.iter()
            .filter(move |&c| c >= from)
            .chain(self.iter().take_while(move |&c| c < from))
    }

    /// The first member from `from` on that is in both sets, wrapping, for which `test` holds.
    pub fn find_from(
        &self,
        other: &Self,
        from: u32,
        mut test: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let words = self.0.len();
        let (start, low) = (from as usize / 64, from % 64);
        // The first word is visited twice: from `from` on, and in the end below it.
        for i in 0..=words {
            let at = (start + i) % words;
            let mut word = self.0[at] & other.0[at];
            if i == 0 {
                word &= u64::MAX << low;
            } else if i == words {
                word &= !(u64::MAX << low);
            }
            while word != 0 {
                let cpu = at as u32 * 64 + word.trailing_zeros();
                if test(cpu) {
                    return Some(cpu);
                }
                word &= word - 1;
            }
        }
        None
    }
}

/// As the kernel prints lists: `0-3,8`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_order() {
        let s = CpuSet::of([130, 0, 1, 2, 64, 300], 131);
        assert_eq!(s.to_string(), "0-2,64,130");
        assert_eq!((s.weight(), s.first(), s.last()), (5, 0, Some(130)));
        assert_eq!(s.iter_from(2).collect::<Vec<_>>(), [2, 64, 130, 0, 1]);
        assert_eq!(s.iter_from(131).collect::<Vec<_>>(), [0, 1, 2, 64, 130]);
        assert_eq!(CpuSet::none(3).to_string(), "");
        assert_eq!(CpuSet::none(3).last(), None);
    }

    #[test]
    fn sets_compare() {
        let (a, b) = (CpuSet::of([1, 65], 70), CpuSet::of([1, 2, 65], 70));
        assert!(a.is_subset(&b) && !b.is_subset(&a) && a.intersects(&b));
        assert!(!a.intersects(&CpuSet::of([2, 64], 70)));
        let mut c = CpuSet::of([2], 70);
        c.add(&a);
        assert_eq!(c, b);
        c.set(2, false);
        assert_eq!(c, a);
        assert!(!c.has(7_000));
    }

    #[test]
    fn a_search_wraps_and_visits_the_first_word_twice() {
        let s = CpuSet::of([3, 64, 70], 128);
        let all = CpuSet::all(128);
        assert_eq!(s.find_from(&all, 4, |_| true), Some(64));
        assert_eq!(s.find_from(&all, 71, |_| true), Some(3));
        assert_eq!(s.find_from(&all, 4, |c| c == 3), Some(3));
        assert_eq!(s.find_from(&CpuSet::none(128), 4, |_| true), None);
    }
}
