//! Sets of CPUs.

/// A set of CPU numbers. Sets over different ranges may be mixed: what is not in range is not in the set.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct CpuSet(Vec<u64>);

impl CpuSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// CPUs 0 to `n` − 1.
    #[must_use]
    pub fn all(n: u32) -> Self {
        (0..n).collect()
    }

    /// The first 64 CPUs as a mask, bit 0 for CPU 0.
    #[must_use]
    pub fn from_mask(mask: u64) -> Self {
        let mut set = Self(vec![mask]);
        set.trim();
        set
    }

    /// The first 64 CPUs as a mask.
    #[must_use]
    pub fn first_word(&self) -> u64 {
        self.0.first().copied().unwrap_or(0)
    }

    /// Whether `cpu` is in it.
    #[must_use]
    #[inline]
    pub fn has(&self, cpu: u32) -> bool {
        self.0
            .get(cpu as usize / 64)
            .is_some_and(|w| w >> (cpu % 64) & 1 == 1)
    }

    /// Adds a CPU.
    pub fn insert(&mut self, cpu: u32) {
        let word = cpu as usize / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (cpu % 64);
    }

    /// Takes a CPU out.
    pub fn remove(&mut self, cpu: u32) {
        if let Some(word) = self.0.get_mut(cpu as usize / 64) {
            *word &= !(1 << (cpu % 64));
        }
        self.trim();
    }

    /// Takes out all of another set.
    pub fn subtract(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a &= !b;
        }
        self.trim();
    }

    /// What is in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut set = Self(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect());
        set.trim();
        set
    }

    /// How many are in both.
    #[must_use]
    pub fn common(&self, other: &Self) -> u32 {
        let both = self.0.iter().zip(&other.0);
        both.map(|(a, b)| (a & b).count_ones()).sum()
    }

    /// Whether any CPU is in both.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Number of CPUs.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.iter().map(|w| w.count_ones()).sum()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lowest.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().enumerate().flat_map(|(i, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(i as u32 * 64 + bit)
            })
        })
    }

    /// The lowest from `from` on.
    #[must_use]
    pub fn first_from(&self, from: u32) -> Option<u32> {
        let start = from as usize / 64;
        let low = self.0.get(start)? >> (from % 64) << (from % 64);
        let mut words = std::iter::once(low).chain(self.0[start + 1..].iter().copied());
        let at = words.position(|w| w != 0)?;
        let word = if at == 0 { low } else { self.0[start + at] };
        Some((start + at) as u32 * 64 + word.trailing_zeros())
    }

    /// No empty words at the end, so that equal sets are equal values.
    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::new();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_over_words() {
        let set: CpuSet = [0, 63, 64, 200].into_iter().collect();
        assert_eq!(set.len(), 4);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 200]);
        for (from, want) in [
            (0, Some(0)),
            (1, Some(63)),
            (64, Some(64)),
            (65, Some(200)),
            (201, None),
            (999, None),
        ] {
            assert_eq!(set.first_from(from), want, "from {from}");
        }
        let mut less = set.clone();
        less.remove(200);
        assert_eq!(less, [0, 63, 64].into_iter().collect());
        less.subtract(&CpuSet::from_mask(u64::MAX));
        assert_eq!(less, [64].into_iter().collect());
        assert_eq!(set.common(&CpuSet::all(64)), 2);
        assert!(!CpuSet::new().intersects(&set) && CpuSet::new().is_empty());
    }
}
