//! The format string: text and conversions, as `printf` and the kernel's `%p` extensions have them.

use super::Unsupported;

/// Widest column and longest precision that are honoured; the kernel's own lines end at 8 KiB.
pub(super) const WIDTH_MAX: usize = 1024;

/// A piece of a format string.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    Text(Vec<u8>),
    Conversion(Conversion),
}

/// Width or precision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Count {
    Fixed(usize),
    /// `*`: the next argument.
    Argument,
}

/// What a conversion prints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Signed,
    Unsigned,
    Octal,
    Hex,
    HexUpper,
    Char,
    Text,
    /// `%p`, `%px`, `%pK`: the pointer in 8 or 16 digits.
    Pointer,
    /// `%pS`, `%ps`, `%pF`, `%pf`, `%pB`: a function by its address.
    Symbol,
    Uuid {
        little: bool,
        upper: bool,
    },
    Mac,
    Ip4,
    Ip6 {
        compressed: bool,
    },
    SocketAddress {
        port: bool,
    },
}

/// One `%...`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Conversion {
    pub(super) left: bool,
    pub(super) zero: bool,
    pub(super) plus: bool,
    pub(super) blank: bool,
    pub(super) alternate: bool,
    pub(super) width: Option<Count>,
    pub(super) precision: Option<Count>,
    /// Bytes of the number by its length modifier: 1, 2, 4, 8, or 0 for the kernel's `long`.
    pub(super) bytes: u8,
    pub(super) kind: Kind,
}

/// Splits a format string. A line feed at its end is left out.
pub(super) fn pieces(format: &[u8]) -> Result<Vec<Piece>, Unsupported> {
    let mut rest = format.strip_suffix(b"\n").unwrap_or(format);
    let mut out = Vec::new();
    let mut text = Vec::new();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            text.push(byte);
            continue;
        }
        if let Some(after) = rest.strip_prefix(b"%") {
            text.push(b'%');
            rest = after;
            continue;
        }
        if !text.is_empty() {
            out.push(Piece::Text(std::mem::take(&mut text)));
        }
        let mut scanner = Scanner { rest };
        out.push(Piece::Conversion(scanner.conversion()?));
        rest = scanner.rest;
    }
    if !text.is_empty() {
        out.push(Piece::Text(text));
    }
    Ok(out)
}

struct Scanner<'a> {
    rest: &'a [u8],
}

impl Scanner<'_> {
    fn take(&mut self, text: &[u8]) -> bool {
        let after = self.rest.strip_prefix(text);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn count(&mut self) -> Option<Count> {
        if self.take(b"*") {
            return Some(Count::Argument);
        }
        let mut value: Option<usize> = None;
        while let Some((digit @ b'0'..=b'9', after)) = self.rest.split_first() {
            let digit = usize::from(digit - b'0');
            value = Some((value.unwrap_or(0).saturating_mul(10) + digit).min(WIDTH_MAX));
            self.rest = after;
        }
        value.map(Count::Fixed)
    }

    fn conversion(&mut self) -> Result<Conversion, Unsupported> {
        let mut out = Conversion {
            left: false,
            zero: false,
            plus: false,
            blank: false,
            alternate: false,
            width: None,
            precision: None,
            bytes: 4,
            kind: Kind::Signed,
        };
        loop {
            match self.rest.first() {
                Some(b'-') => out.left = true,
                Some(b'0') => out.zero = true,
                Some(b'+') => out.plus = true,
                Some(b' ') => out.blank = true,
                Some(b'#') => out.alternate = true,
                _ => break,
            }
            self.rest = self.rest.get(1..).unwrap_or_default();
        }
        out.width = self.count();
        if self.take(b".") {
            out.precision = Some(self.count().unwrap_or(Count::Fixed(0)));
        }
        out.bytes = self.length();
        let Some((&letter, after)) = self.rest.split_first() else {
            return Err(Unsupported::new("a % without a letter"));
        };
        self.rest = after;
        out.kind = match letter {
            b'd' | b'i' => Kind::Signed,
            b'u' => Kind::Unsigned,
            b'o' => Kind::Octal,
            b'x' => Kind::Hex,
            b'X' => Kind::HexUpper,
            b'c' => Kind::Char,
            b's' => Kind::Text,
            b'p' => self.pointer()?,
            other => {
                return Err(Unsupported(format!(
                    "the conversion %{}",
                    char::from(other).escape_default()
                )));
            }
        };
        Ok(out)
    }

    fn length(&mut self) -> u8 {
        for (text, bytes) in [
            (&b"hh"[..], 1),
            (b"h", 2),
            (b"ll", 8),
            (b"l", 0),
            (b"L", 8),
            (b"q", 8),
            (b"j", 8),
            (b"z", 0),
            (b"Z", 0),
            (b"t", 0),
        ] {
            if self.take(text) {
                return bytes;
            }
        }
        4
    }

    /// What follows `%p`. Letters belong to it as far as they are known; others are plain text, as in the kernel.
    fn pointer(&mut self) -> Result<Kind, Unsupported> {
        if self.take(b"UB") {
            return Ok(Kind::Uuid {
                little: false,
                upper: true,
            });
        }
        if self.take(b"UL") {
            return Ok(Kind::Uuid {
                little: true,
                upper: true,
            });
        }
        if self.take(b"Ul") {
            return Ok(Kind::Uuid {
                little: true,
                upper: false,
            });
        }
        if self.take(b"Ub") || self.take(b"U") {
            return Ok(Kind::Uuid {
                little: false,
                upper: false,
            });
        }
        if self.take(b"I4") || self.take(b"i4") {
            return Ok(Kind::Ip4);
        }
        if self.take(b"I6c") {
            return Ok(Kind::Ip6 { compressed: true });
        }
        if self.take(b"I6") {
            return Ok(Kind::Ip6 { compressed: false });
        }
        if self.take(b"ISpc") {
            return Ok(Kind::SocketAddress { port: true });
        }
        if self.take(b"ISc") {
            return Ok(Kind::SocketAddress { port: false });
        }
        let Some((&letter, after)) = self.rest.split_first() else {
            return Ok(Kind::Pointer);
        };
        let kind = match letter {
            b'x' | b'K' => Kind::Pointer,
            b'S' | b's' | b'F' | b'f' | b'B' => Kind::Symbol,
            b'M' => Kind::Mac,
            other if other.is_ascii_alphabetic() => {
                return Err(Unsupported(format!(
                    "the conversion %p{}",
                    char::from(other)
                )));
            }
            _ => return Ok(Kind::Pointer),
        };
        self.rest = after;
        Ok(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions() {
        let one = |text: &str| match pieces(text.as_bytes()).unwrap().remove(0) {
            Piece::Conversion(conversion) => conversion,
            Piece::Text(text) => panic!("{text:?}"),
        };
        let c = one("%-#08.*llx");
        assert!(c.left && c.zero && c.alternate && !c.plus);
        assert_eq!(
            (c.width, c.precision, c.bytes, c.kind),
            (Some(Count::Fixed(8)), Some(Count::Argument), 8, Kind::Hex)
        );
        assert_eq!(one("%hhu").bytes, 1);
        assert_eq!(one("%lu").bytes, 0);
        assert_eq!(one("%99999999d").width, Some(Count::Fixed(WIDTH_MAX)));
        assert_eq!(one("%pI6c").kind, Kind::Ip6 { compressed: true });
        assert_eq!(
            pieces(b"%p: 100%%\n").unwrap()[1],
            Piece::Text(b": 100%".to_vec())
        );
        for bad in ["%", "%n", "%pV", "%5"] {
            assert!(pieces(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
