//! Numbers in payload bytes, in either byte order.

/// Byte order of a trace, which is that of the machine that recorded it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Endian {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

impl Endian {
    /// Reads 1 to 8 bytes as an unsigned number; `None` for other lengths.
    ///
    /// ```
    /// use schedlab_tracefmt::Endian;
    /// assert_eq!(Endian::Little.unsigned(&[1, 2]), Some(0x201));
    /// assert_eq!(Endian::Big.unsigned(&[1, 2, 3]), Some(0x10203));
    /// assert_eq!(Endian::Big.unsigned(&[]), None);
    /// ```
    #[must_use]
    #[inline]
    pub fn unsigned(self, bytes: &[u8]) -> Option<u64> {
        // The common sizes have a way of their own: one load and at most one swap.
        if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
            return Some(u64::from(match self {
                Self::Little => u32::from_le_bytes(bytes),
                Self::Big => u32::from_be_bytes(bytes),
            }));
        }
        if let Ok(bytes) = <[u8; 8]>::try_from(bytes) {
            return Some(match self {
                Self::Little => u64::from_le_bytes(bytes),
                Self::Big => u64::from_be_bytes(bytes),
            });
        }
        if bytes.is_empty() || bytes.len() > 8 {
            return None;
        }
        let join = |value: u64, &byte: &u8| value << 8 | u64::from(byte);
        Some(match self {
            Self::Little => bytes.iter().rev().fold(0, join),
            Self::Big => bytes.iter().fold(0, join),
        })
    }

    /// Reads 1 to 8 bytes as a number in two's complement; `None` for other lengths.
    #[must_use]
    #[inline]
    pub fn signed(self, bytes: &[u8]) -> Option<i64> {
        let value = self.unsigned(bytes)?;
        let unused = 64 - 8 * bytes.len();
        Some((value << unused).cast_signed() >> unused)
    }

    /// Reads `N` bytes at an offset as an unsigned number, `N` from 1 to 8; `None` past the end.
    #[must_use]
    #[inline]
    pub fn unsigned_at<const N: usize>(self, data: &[u8], offset: usize) -> Option<u64> {
        self.unsigned(data.get(offset..offset.checked_add(N)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_in_both_orders() {
        let bytes = [0x81, 2, 3, 4, 5, 6, 7, 0xf8];
        for size in 1..=8 {
            let mut turned = bytes[..size].to_vec();
            turned.reverse();
            let big = Endian::Big.unsigned(&bytes[..size]);
            assert_eq!(big, Endian::Little.unsigned(&turned), "{size}");
            // The first byte of the big-endian form has its top bit set: negative.
            let signed = Endian::Big.signed(&bytes[..size]).unwrap();
            assert!(signed < 0, "{size}");
            let wrapped = i128::from(big.unwrap()) - (1i128 << (8 * size));
            assert_eq!(i128::from(signed), wrapped, "{size}");
        }
        assert_eq!(Endian::Little.unsigned(&[0; 9]), None);
        assert_eq!(Endian::Little.signed(&[]), None);
        assert_eq!(Endian::Little.unsigned_at::<4>(&[0; 5], 2), None);
        assert_eq!(Endian::Little.unsigned_at::<4>(&[0; 5], usize::MAX), None);
    }
}
