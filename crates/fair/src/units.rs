//! Integer units: wall time, virtual time and load weight (reference section 0.1).

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// Nanoseconds of wall or run time, or a point on such a clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ns(pub u64);

impl Ns {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// From microseconds; saturates.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// From milliseconds; saturates.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// From seconds; saturates.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }

    /// The time from `earlier` to `self`, 0 if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Ns {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Ns {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Sub for Ns {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        self.since(rhs)
    }
}

impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Whether a number is one of 64 bits: its upper half is nothing but the sign of the lower one.
#[inline]
fn fits(a: i128) -> bool {
    (a >> 64) as i64 == (a as i64) >> 63
}

/// `a / b` rounded down; `b` is above 0 and below 2^63. In 64 bits where `a` fits, which is nearly always.
#[inline]
pub(crate) fn floor_div(a: i128, b: u64) -> i64 {
    let b = b as i64;
    if fits(a) && b > 0 {
        return (a as i64).div_euclid(b);
    }
    wide_floor_div(a, b)
}

#[cold]
fn wide_floor_div(a: i128, b: i64) -> i64 {
    a.div_euclid(i128::from(b.max(1))) as i64
}

/// `a / b` truncated toward zero; `b` is above 0 and below 2^63.
#[inline]
pub(crate) fn trunc_div(a: i128, b: u64) -> i64 {
    let b = b as i64;
    if fits(a) && b > 0 {
        // Compilers divide small numbers by a shorter instruction. With the sign of a lag that would be a branch
        // on the toss of a coin, so the numbers are made large first: the quotient is the same.
        let (a, up) = (a as i64, b.leading_zeros().saturating_sub(31));
        if (a << up) >> up == a {
            return (a << up) / (b << up);
        }
        return a / b;
    }
    wide_trunc_div(a, b)
}

#[cold]
fn wide_trunc_div(a: i128, b: i64) -> i64 {
    (a / i128::from(b.max(1))) as i64
}

/// A point in virtual time of one queue: 1 vns is 1 ns of a nice-0 entity.
///
/// Wraps at 64 bits, so two points are compared by their signed difference only; there is no `Ord`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Vns(pub u64);

impl Vns {
    /// Signed distance `self - other` (correct over a wrap).
    #[must_use]
    #[inline]
    pub const fn minus(self, other: Self) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }

    /// Whether `self` lies strictly before `other`.
    #[must_use]
    #[inline]
    pub const fn before(self, other: Self) -> bool {
        self.minus(other) < 0
    }

    /// Moves on by an unsigned virtual duration.
    #[must_use]
    #[inline]
    pub const fn plus(self, vns: u64) -> Self {
        Self(self.0.wrapping_add(vns))
    }

    /// Moves by a signed virtual duration.
    #[must_use]
    #[inline]
    pub const fn offset(self, vns: i64) -> Self {
        Self(self.0.wrapping_add(vns as u64))
    }

    /// The earlier of two points.
    #[must_use]
    #[inline]
    pub const fn earlier(self, other: Self) -> Self {
        if other.before(self) { other } else { self }
    }

    /// The later of two points.
    #[must_use]
    #[inline]
    pub const fn later(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }
}

impl fmt::Display for Vns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&(self.0 as i64), f)
    }
}
