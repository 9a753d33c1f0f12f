//! Named random streams of one seed.
//!
//! A stream's state comes from the seed and the stream's name alone, so a draw added to one stream, or a new
//! stream, shifts no other. Names: `task N` for task N of the configuration and `task N.M` for its Mth child, so that
//! the order in which different tasks fork does not matter; `tick jitter` for CPU 0 and `tick jitter N` for CPU N. The algorithm is part of the promise of equal bytes: the name is hashed by
//! 64-bit FNV-1a, mixed with the seed by the finalizer of SplitMix64, and seeds a PCG-64-MCG (`rand_pcg`).

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use crate::program::Dur;

/// A stream's name, hashed; longer names can be made from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NameHash(u64);

impl NameHash {
    pub(crate) fn new(name: &str) -> Self {
        Self(0xcbf2_9ce4_8422_2325).then(name)
    }

    /// The hash of this name with `rest` behind it.
    pub(crate) fn then(self, rest: &str) -> Self {
        Self(rest.bytes().fold(self.0, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        }))
    }
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream(Pcg64Mcg);

impl Stream {
    /// The stream called `name` of `seed`.
    #[must_use]
    pub fn new(seed: u64, name: &str) -> Self {
        Self::of_name(seed, NameHash::new(name))
    }

    /// The stream of a name that was hashed before.
    pub(crate) fn of_name(seed: u64, NameHash(hash): NameHash) -> Self {
        let a = mix(seed ^ hash);
        let b = mix(a.wrapping_add(hash));
        Self(Pcg64Mcg::new(u128::from(a) << 64 | u128::from(b)))
    }

    /// A number below `n`, without bias; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        // Rejection keeps every value equally likely.
        let limit = u64::MAX - u64::MAX % n;
        loop {
            let x = self.0.next_u64();
            if x < limit {
                return x % n;
            }
        }
    }

    /// A length of time, ns.
    pub fn draw(&mut self, d: Dur) -> u64 {
        match d {
            Dur::Fixed(ns) => ns.0,
            Dur::Uniform { lo, hi } => {
                lo.0 + self.below(hi.0.saturating_sub(lo.0).saturating_add(1))
            }
            Dur::Exponential { mean } => exponential(self.0.next_u64(), mean.0),
        }
    }
}

fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `-ln(u) · mean` in fixed point, so that no platform's logarithm can change a result; at most 20 means.
fn exponential(x: u64, mean: u64) -> u64 {
    // u in (0, 1]: -ln(u) = ln2 · (leading zeros + fraction of the binary logarithm).
    let x = x.max(1);
    let zeros = x.leading_zeros();
    let mut m = u128::from(x << zeros); // 2^63 ..< 2^64: mantissa in 1..2
    let mut log2 = 0u64; // 32 fractional bits of log2(mantissa)
    for _ in 0..32 {
        m = (m * m) >> 63;
        log2 <<= 1;
        if m >= 1 << 64 {
            m >>= 1;
            log2 |= 1;
        }
    }
    // -log2(u) = zeros + 1 - log2(mantissa), in 1/2^32.
    let minus_log2 = ((u64::from(zeros) + 1) << 32) - log2;
    const LN2: u128 = 2_977_044_472; // ln 2 in 1/2^32
    let e = (u128::from(minus_log2) * LN2) >> 32;
    let ns = (e * u128::from(mean)) >> 32;
    u64::try_from(ns)
        .unwrap_or(u64::MAX)
        .min(mean.saturating_mul(20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_fair::Ns;

    #[test]
    fn streams_are_fixed_and_independent() {
        let first = |seed, name| Stream::new(seed, name).below(1 << 40);
        assert_eq!(first(1, "task 7"), first(1, "task 7"));
        assert_ne!(first(1, "task 7"), first(2, "task 7"));
        assert_ne!(first(1, "task 7"), first(1, "task 8"));
    }

    #[test]
    fn names_can_be_made_in_parts() {
        assert_eq!(
            NameHash::new("task 1").then(".2"),
            NameHash::new("task 1.2")
        );
    }

    #[test]
    fn draws_have_their_means_and_ranges() {
        let mut s = Stream::new(3, "x");
        let n = 20_000;
        let mean = |s: &mut Stream, d| (0..n).map(|_| s.draw(d)).sum::<u64>() / n;
        let exp = mean(&mut s, Dur::Exponential { mean: Ns(10_000) });
        assert!((9_700..10_300).contains(&exp), "{exp}");
        let uni = Dur::Uniform {
            lo: Ns(10),
            hi: Ns(20),
        };
        assert!((0..1000).all(|_| (10..=20).contains(&s.draw(uni))));
        assert_eq!(s.draw(Dur::Fixed(Ns(5))), 5);
    }

    #[test]
    fn exponential_is_exact_at_known_points() {
        // u = 1/2: ln 2; u = 1/4: 2 ln 2.
        assert_eq!(exponential(1 << 63, 1_000_000), 693_147);
        assert_eq!(exponential(1 << 62, 1_000_000), 1_386_294);
        assert_eq!(exponential(0, 1_000_000), 20_000_000);
    }
}
