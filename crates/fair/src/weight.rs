//! Load weights and the scaling of run time by weight (reference section 1).

use core::fmt;

/// A full load weight: the table value times 1024 (2^20 is nice 0).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Weight(pub u64);

impl Weight {
    /// Weight of a nice-0 task and of a group with default shares.
    pub const NICE_0: Self = Self(1 << 20);
    /// Weight of a `SCHED_IDLE` task or an idle group.
    pub const IDLE: Self = Self(3 << 10);
    /// Smallest weight that group shares are clamped to.
    pub const MIN_SHARES: Self = Self(2);
    /// Largest shares a group can be given.
    pub const MAX_SHARES: Self = Self(1 << 28);

    /// Weight of a nice level, −20 to 19; values outside are clamped.
    #[must_use]
    pub fn of_nice(nice: i8) -> Self {
        Self(u64::from(NICE_WEIGHT[nice_index(nice)]) << 10)
    }

    /// Full weight for a cgroup-v2 `cpu.weight` of 1 to 10 000 (100 is the default).
    ///
    /// Values outside are clamped. Section 1.1: `round(c * 1024 / 100) * 1024`.
    #[must_use]
    pub fn of_cgroup(cpu_weight: u32) -> Self {
        let c = u64::from(cpu_weight.clamp(1, 10_000));
        Self(((c * 1024 + 50) / 100) << 10)
    }

    /// The weight used in every formula of V and of the load averages: `max(2, full >> 10)`, or 0 for 0.
    #[must_use]
    #[inline]
    pub const fn down(self) -> u64 {
        if self.0 == 0 {
            return 0;
        }
        let w = self.0 >> 10;
        if w < 2 { 2 } else { w }
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Weights of nice −20 to 19, before the scaling by 1024.
pub const NICE_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// 2^32 / weight of nice −20 to 19, rounded to nearest (tasks use these, groups the floor).
pub const NICE_INVERSE: [u32; 40] = [
    48388, 59856, 76040, 92818, 118348, 147320, 184698, 229616, 287308, 360437, 449829, 563644,
    704093, 875809, 1099582, 1376151, 1717300, 2157191, 2708050, 3363326, 4194304, 5237765,
    6557202, 8165337, 10153587, 12820798, 15790321, 19976592, 24970740, 31350126, 39045157,
    49367440, 61356676, 76695844, 95443717, 119304647, 148102320, 186737708, 238609294, 286331153,
];

/// Inverse of the `SCHED_IDLE` weight 3.
pub const IDLE_INVERSE: u32 = 1_431_655_765;

fn nice_index(nice: i8) -> usize {
    (i32::from(nice.clamp(-20, 19)) + 20) as usize
}

/// A weight with the inverse that divides by it (the kernel's `load_weight`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Full weight.
    pub weight: Weight,
    /// 2^32 / down(weight): rounded for table weights, floored for all others.
    pub inverse: u32,
    /// What [`calc_delta_fair`] comes to: a factor, and a shift to the right.
    fair: (u32, u8),
}

impl Load {
    /// Load of a task at a nice level.
    #[must_use]
    pub fn of_nice(nice: i8) -> Self {
        Self::new(Weight::of_nice(nice), NICE_INVERSE[nice_index(nice)])
    }

    /// Load of a `SCHED_IDLE` task.
    #[must_use]
    pub const fn idle_policy() -> Self {
        Self::new(Weight::IDLE, IDLE_INVERSE)
    }

    /// Load of a group or of a sum: the inverse is `floor(0xFFFFFFFF / w)`.
    #[must_use]
    pub const fn of_weight(weight: Weight) -> Self {
        let w = weight.down();
        let inverse = if w == 0 {
            u32::MAX
        } else if w >= u32::MAX as u64 {
            1
        } else {
            (u32::MAX as u64 / w) as u32
        };
        Self::new(weight, inverse)
    }

    const fn new(weight: Weight, inverse: u32) -> Self {
        let fair = if weight.0 == Weight::NICE_0.0 {
            // Run time is virtual time, whatever the inverse loses.
            (1, 0)
        } else {
            let (factor, shift) = factor(Weight::NICE_0, inverse);
            // Narrowed to 32 bits.
            (factor as u32, shift as u8)
        };
        Self {
            weight,
            inverse,
            fair,
        }
    }
}

/// The factor and the shift of a scaling by `weight / w`, where `inverse` is that of `w` (section 1.2, steps 1 to 4).
const fn factor(weight: Weight, inverse: u32) -> (u64, u32) {
    let (fact, shift) = narrow(weight.down(), 32);
    narrow(fact * inverse as u64, shift)
}

/// `delta × weight / load`, with the kernel's fixed-point steps (section 1.2).
///
/// The result is slightly below the exact quotient; low bits of wide products are lost.
#[must_use]
#[inline]
pub fn calc_delta(delta: u64, weight: Weight, load: Load) -> u64 {
    let (fact, shift) = factor(weight, load.inverse);
    ((u128::from(delta) * u128::from(fact)) >> shift) as u64
}

/// Drops the low bits that keep `fact` above 32 bits and shortens the final shift by as many.
const fn narrow(fact: u64, shift: u32) -> (u64, u32) {
    let bits = 32 - ((fact >> 32) as u32).leading_zeros();
    (fact >> bits, shift.saturating_sub(bits))
}

/// Virtual time of `delta` ns run at `load`: [`calc_delta`] by the weight of nice 0, and `delta` itself at that weight.
#[must_use]
#[inline]
pub fn calc_delta_fair(delta: u64, load: Load) -> u64 {
    let (factor, shift) = load.fair;
    ((u128::from(delta) * u128::from(factor)) >> shift) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_examples_of_section_1_3() {
        let loads = [
            Load::of_nice(-20),
            Load::of_nice(-10),
            Load::of_nice(-5),
            Load::of_nice(-1),
            Load::of_nice(0),
            Load::of_nice(1),
            Load::of_nice(5),
            Load::of_nice(10),
            Load::of_nice(19),
            Load::idle_policy(),
        ];
        #[rustfmt::skip]
        let table: [(u64, [u64; 10]); 6] = [
            (1, [0, 0, 0, 0, 1, 1, 3, 9, 68, 341]),
            (700_000, [8_075, 75_073, 229_669, 561_315, 700_000, 874_146, 2_139_701, 6_516_363, 47_786_666, 238_933_333]),
            (1_000_000, [11_536, 107_247, 328_099, 801_879, 1_000_000, 1_248_780, 3_056_716, 9_309_090, 68_266_666, 341_333_333]),
            (2_800_000, [32_302, 300_293, 918_679, 2_245_262, 2_800_000, 3_496_585, 8_558_806, 26_065_454, 191_146_666, 955_733_333]),
            (3_000_000, [34_609, 321_742, 984_299, 2_405_638, 3_000_000, 3_746_341, 9_170_149, 27_927_272, 204_799_999, 1_023_999_999]),
            (4_000_000, [46_146, 428_990, 1_312_399, 3_207_517, 4_000_000, 4_995_121, 12_226_865, 37_236_363, 273_066_666, 1_365_333_333]),
        ];
        for (delta, row) in table {
            for (load, want) in loads.iter().zip(row) {
                assert_eq!(calc_delta_fair(delta, *load), want, "{delta} at {load:?}");
            }
        }
    }

    #[test]
    fn the_short_form_is_the_long_one() {
        let nices = (-20..20).map(Load::of_nice);
        let groups = (0..34).map(|b| Load::of_weight(Weight((1 << b) + 12_345)));
        for load in nices
            .chain(groups)
            .chain([Load::idle_policy(), Load::of_weight(Weight(0))])
        {
            for delta in [
                0,
                1,
                999,
                1_000_000,
                123_456_789_012,
                u64::MAX / 7,
                u64::MAX,
            ] {
                assert_eq!(
                    calc_delta_fair(delta, load),
                    calc_delta(delta, Weight::NICE_0, load)
                );
            }
        }
        // A group of that weight has a floored inverse, which must not tell.
        for load in [Load::of_nice(0), Load::of_weight(Weight::NICE_0)] {
            assert_eq!(calc_delta_fair(u64::MAX, load), u64::MAX);
            assert_eq!(calc_delta_fair(1_000_000, load), 1_000_000);
        }
    }

    #[test]
    fn group_weights_use_the_floored_inverse() {
        let half = Load::of_weight(Weight(524_288));
        assert_eq!(calc_delta_fair(1_000_000, half), 1_999_999);
        let tiny = Load::of_weight(Weight(1500));
        assert_eq!(tiny.weight.down(), 2);
        assert_eq!(calc_delta_fair(1_000_000, tiny), 511_999_999);
        assert_eq!(Load::of_nice(1).inverse, 5_237_765);
        assert_eq!(Load::of_weight(Weight(820 << 10)).inverse, 5_237_764);
        assert_eq!(Load::of_weight(Weight(0)).inverse, u32::MAX);
        assert_eq!(Load::of_weight(Weight(u64::MAX)).inverse, 1);
    }

    #[test]
    fn cgroup_weights() {
        assert_eq!(Weight::of_cgroup(100), Weight::NICE_0);
        assert_eq!(Weight::of_cgroup(1), Weight(10 << 10));
        assert_eq!(Weight::of_cgroup(300), Weight(3072 << 10));
        assert_eq!(Weight::of_cgroup(10_000), Weight(102_400 << 10));
    }
}
