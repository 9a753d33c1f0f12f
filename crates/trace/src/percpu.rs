//! Data that is kept per CPU.

use std::collections::BTreeMap;

/// CPU numbers from here on are few and wrong; readers refuse most of them.
const TABLE: u32 = 65_536;

/// A value for each CPU that was mentioned: a map by number whose look-up is an index.
///
/// Memory grows with the largest number below 65,536.
#[derive(Clone, Debug)]
pub struct PerCpu<T> {
    table: Vec<Option<T>>,
    beyond: BTreeMap<u32, T>,
}

impl<T> Default for PerCpu<T> {
    fn default() -> Self {
        Self {
            table: Vec::new(),
            beyond: BTreeMap::new(),
        }
    }
}

impl<T> PerCpu<T> {
    /// The value of a CPU that was mentioned.
    #[must_use]
    #[inline]
    pub fn get(&self, cpu: u32) -> Option<&T> {
        match self.table.get(cpu as usize) {
            Some(value) => value.as_ref(),
            None => self.beyond.get(&cpu),
        }
    }

    /// The value of a CPU that was mentioned.
    #[must_use]
    #[inline]
    pub fn get_mut(&mut self, cpu: u32) -> Option<&mut T> {
        match self.table.get_mut(cpu as usize) {
            Some(value) => value.as_mut(),
            None => self.beyond.get_mut(&cpu),
        }
    }

    /// The value of a CPU, made if it is new.
    #[inline]
    pub fn of(&mut self, cpu: u32, new: impl FnOnce() -> T) -> &mut T {
        let index = cpu as usize;
        if cpu >= TABLE {
            return self.beyond.entry(cpu).or_insert_with(new);
        }
        if index >= self.table.len() {
            self.table.resize_with(index + 1, || None);
        }
        self.table[index].get_or_insert_with(new)
    }

    /// By number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let table = (0..).zip(&self.table);
        table
            .filter_map(|(cpu, value)| Some((cpu, value.as_ref()?)))
            .chain(self.beyond.iter().map(|(&cpu, value)| (cpu, value)))
    }

    /// By number.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        self.table
            .into_iter()
            .flatten()
            .chain(self.beyond.into_values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_a_map_by_number() {
        let mut cpus = PerCpu::default();
        let mut map = BTreeMap::new();
        for cpu in [3, 0, u32::MAX, 3, TABLE - 1, TABLE, 7] {
            *cpus.of(cpu, || 0) += 1;
            *map.entry(cpu).or_insert(0) += 1;
        }
        for cpu in [0, 1, 3, TABLE - 1, TABLE, TABLE + 1, u32::MAX] {
            assert_eq!(cpus.get(cpu), map.get(&cpu));
            assert_eq!(cpus.get_mut(cpu), map.get_mut(&cpu));
        }
        let all: Vec<(u32, i32)> = cpus.iter().map(|(cpu, &n)| (cpu, n)).collect();
        assert!(all.into_iter().eq(map.clone()));
        assert!(cpus.into_values().eq(map.into_values()));
    }
}
