//! Numbers with the rules of C: `int` and `long long`, signed and unsigned.

/// A number of 32 or 64 bits. `bits` holds it extended to 64 bits by its sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Num {
    pub(super) bits: u64,
    pub(super) wide: bool,
    pub(super) unsigned: bool,
}

/// Operators with two operands, except `&&` and `||`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BinaryOp {
    Mul,
    Div,
    Rem,
    Add,
    Sub,
    Shl,
    Shr,
    Less,
    LessEq,
    Greater,
    GreaterEq,
    Equal,
    NotEqual,
    And,
    Xor,
    Or,
}

impl Num {
    pub(super) fn int(value: i32) -> Self {
        Self {
            bits: i64::from(value).cast_unsigned(),
            wide: false,
            unsigned: false,
        }
    }

    pub(super) fn truth(value: bool) -> Self {
        Self::int(i32::from(value))
    }

    /// A value of a type of 1, 2, 4 or 8 bytes; the small ones become `int`, as C does.
    pub(super) fn of_type(bits: u64, bytes: u32, unsigned: bool) -> Self {
        let unused = 64 - 8 * bytes.clamp(1, 8);
        let shifted = bits << unused;
        let bits = if unsigned {
            shifted >> unused
        } else {
            (shifted.cast_signed() >> unused).cast_unsigned()
        };
        Self {
            bits,
            wide: bytes > 4,
            unsigned: unsigned && bytes >= 4,
        }
    }

    pub(super) fn is_true(self) -> bool {
        self.bits != 0
    }

    fn with_bits(self, bits: u64) -> Self {
        Self::of_type(bits, if self.wide { 8 } else { 4 }, self.unsigned)
    }

    pub(super) fn negate(self) -> Self {
        self.with_bits(self.bits.wrapping_neg())
    }

    pub(super) fn complement(self) -> Self {
        self.with_bits(!self.bits)
    }

    /// `None`: division by zero.
    pub(super) fn binary(self, op: BinaryOp, right: Self) -> Option<Self> {
        use BinaryOp as Op;
        if matches!(op, Op::Shl | Op::Shr) {
            return Some(self.shift(op == Op::Shl, right));
        }
        // The usual arithmetic conversions.
        let wide = self.wide || right.wide;
        let unsigned = [self, right].iter().any(|n| n.wide == wide && n.unsigned);
        let common = Self {
            bits: 0,
            wide,
            unsigned,
        };
        let a = common.with_bits(self.bits).bits;
        let b = common.with_bits(right.bits).bits;
        let (sa, sb) = (a.cast_signed(), b.cast_signed());
        let less = if unsigned { a < b } else { sa < sb };
        Some(match op {
            Op::Add => common.with_bits(a.wrapping_add(b)),
            Op::Sub => common.with_bits(a.wrapping_sub(b)),
            Op::Mul => common.with_bits(a.wrapping_mul(b)),
            Op::Div if unsigned => common.with_bits(a.checked_div(b)?),
            Op::Rem if unsigned => common.with_bits(a.checked_rem(b)?),
            Op::Div | Op::Rem if b == 0 => return None,
            Op::Div => common.with_bits(sa.wrapping_div(sb).cast_unsigned()),
            Op::Rem => common.with_bits(sa.wrapping_rem(sb).cast_unsigned()),
            Op::And => common.with_bits(a & b),
            Op::Or => common.with_bits(a | b),
            Op::Xor => common.with_bits(a ^ b),
            Op::Less => Self::truth(less),
            Op::LessEq => Self::truth(less || a == b),
            Op::Greater => Self::truth(!less && a != b),
            Op::GreaterEq => Self::truth(!less),
            Op::Equal => Self::truth(a == b),
            Op::NotEqual => Self::truth(a != b),
            Op::Shl | Op::Shr => return None,
        })
    }

    /// A shift keeps the type of its left side. Counts past the width are undefined in C; here bits run out.
    fn shift(self, left: bool, by: Self) -> Self {
        let width = if self.wide { 64 } else { 32 };
        let by = u32::try_from(by.bits).ok().filter(|&by| by < width);
        let bits = match (left, by) {
            (true, Some(by)) => self.bits << by,
            (true, None) => 0,
            (false, Some(by)) if self.unsigned => self.bits >> by,
            (false, Some(by)) => (self.bits.cast_signed() >> by).cast_unsigned(),
            (false, None) if self.unsigned => 0,
            (false, None) => (self.bits.cast_signed() >> 63).cast_unsigned(),
        };
        self.with_bits(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BinaryOp as Op;

    fn u32_(value: u64) -> Num {
        Num::of_type(value, 4, true)
    }

    #[test]
    fn conversions_as_in_c() {
        // An unsigned int against -1.
        let ones = u32_(0xffff_ffff);
        assert!(ones.binary(Op::Equal, Num::int(-1)).unwrap().is_true());
        assert!(Num::int(-1).binary(Op::Greater, u32_(1)).unwrap().is_true());
        // A u8 is an int.
        let byte = Num::of_type(0xff, 1, true);
        assert!(!byte.binary(Op::Equal, Num::int(-1)).unwrap().is_true());
        // A long long holds every unsigned int.
        let long = Num::of_type(u64::MAX, 8, false);
        assert!(long.binary(Op::Less, u32_(1)).unwrap().is_true());
        assert_eq!(u32_(1).complement().bits, 0xffff_fffe);
        assert_eq!(Num::int(1).complement().bits.cast_signed(), -2);
    }

    #[test]
    fn edges() {
        assert_eq!(Num::int(1).binary(Op::Div, Num::int(0)), None);
        assert_eq!(u32_(1).binary(Op::Rem, u32_(0)), None);
        let min = Num::of_type(1 << 63, 8, false);
        assert!(min.binary(Op::Div, Num::int(-1)).is_some());
        assert_eq!(Num::int(1).binary(Op::Shl, Num::int(40)).unwrap().bits, 0);
        assert_eq!(
            Num::int(-8).binary(Op::Shr, Num::int(1)).unwrap(),
            Num::int(-4)
        );
        assert_eq!(
            Num::int(-8).binary(Op::Shr, Num::int(99)).unwrap(),
            Num::int(-1)
        );
    }
}
