//! One conversion with its value as text.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::eval::{Context, NoValue, Value};
use super::number::Num;
use super::spec::{Conversion, Kind};

/// A conversion whose width and precision are known.
pub(super) struct Print<'a> {
    pub(super) conversion: &'a Conversion,
    /// Negative: to the left.
    pub(super) width: i64,
    pub(super) precision: Option<usize>,
}

/// What became of a conversion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shown {
    Whole,
    /// A pointer to text or to a function, of which only the address is known.
    Address,
}

impl Print<'_> {
    pub(super) fn print(
        &self,
        value: &Value<'_>,
        context: &Context<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Shown, NoValue> {
        let long = if self.conversion.bytes == 0 {
            context.long_size
        } else {
            self.conversion.bytes
        };
        let bytes = u32::from(long);
        match (self.conversion.kind, value) {
            (Kind::Signed, Value::Num(number)) => {
                let value = Num::of_type(number.bits, bytes, false).bits.cast_signed();
                let sign = if value < 0 {
                    "-"
                } else if self.conversion.plus {
                    "+"
                } else if self.conversion.blank {
                    " "
                } else {
                    ""
                };
                self.digits(sign, &value.unsigned_abs().to_string(), out);
            }
            (kind, Value::Num(number)) if kind.is_unsigned() => {
                let value = unsigned(*number, bytes);
                let (prefix, digits) = match kind {
                    Kind::Octal => ("0", format!("{value:o}")),
                    Kind::Hex => ("0x", format!("{value:x}")),
                    Kind::HexUpper => ("0X", format!("{value:X}")),
                    _ => ("", value.to_string()),
                };
                let prefix = if self.conversion.alternate && value != 0 {
                    prefix
                } else {
                    ""
                };
                self.digits(prefix, &digits, out);
            }
            (Kind::Char, Value::Num(number)) => {
                let byte = unsigned(*number, 1).to_le_bytes()[0];
                self.pad(&[byte], out);
            }
            (Kind::Text, Value::Text(text)) => self.text(text, out),
            (Kind::Text, Value::Data(data, _)) => self.text(data, out),
            (Kind::Text, Value::Num(number)) => {
                let address = unsigned(*number, u32::from(context.long_size));
                let text = if address == 0 {
                    "(null)".to_owned()
                } else {
                    format!("0x{address:x}")
                };
                self.pad(text.as_bytes(), out);
                return Ok(Shown::Address);
            }
            (Kind::Pointer | Kind::Symbol, Value::Num(number)) => {
                let address = unsigned(*number, u32::from(context.long_size));
                if self.conversion.kind == Kind::Symbol {
                    self.pad(format!("0x{address:x}").as_bytes(), out);
                    return Ok(Shown::Address);
                }
                let digits = 2 * usize::from(context.long_size);
                self.pad(format!("{address:0digits$x}").as_bytes(), out);
            }
            (kind, Value::Data(data, _)) => {
                let text = address_text(kind, data, context).ok_or(NoValue)?;
                self.pad(text.as_bytes(), out);
            }
            _ => return Err(NoValue),
        }
        Ok(Shown::Whole)
    }

    /// A number: sign or prefix, zeros up to precision or width, digits.
    fn digits(&self, prefix: &str, digits: &str, out: &mut Vec<u8>) {
        let width = usize::try_from(self.width.unsigned_abs()).unwrap_or(0);
        let zeros = match self.precision {
            Some(precision) => precision.saturating_sub(digits.len()),
            None if self.conversion.zero && !self.is_left() => {
                width.saturating_sub(prefix.len() + digits.len())
            }
            None => 0,
        };
        let text = format!("{prefix}{}{digits}", "0".repeat(zeros));
        self.pad(text.as_bytes(), out);
    }

    /// Text up to its first zero byte or the precision.
    fn text(&self, text: &[u8], out: &mut Vec<u8>) {
        let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
        let end = end.min(self.precision.unwrap_or(usize::MAX));
        self.pad(text.get(..end).unwrap_or_default(), out);
    }

    fn is_left(&self) -> bool {
        self.conversion.left || self.width < 0
    }

    fn pad(&self, text: &[u8], out: &mut Vec<u8>) {
        let width = usize::try_from(self.width.unsigned_abs()).unwrap_or(0);
        let blanks = width.saturating_sub(text.len());
        let start = out.len();
        out.extend_from_slice(text);
        out.resize(out.len() + blanks, b' ');
        if !self.is_left()
            && let Some(added) = out.get_mut(start..)
        {
            added.rotate_right(blanks);
        }
    }
}

impl Kind {
    fn is_unsigned(self) -> bool {
        matches!(
            self,
            Self::Unsigned | Self::Octal | Self::Hex | Self::HexUpper
        )
    }
}

fn unsigned(number: Num, bytes: u32) -> u64 {
    Num::of_type(number.bits, bytes, true).bits
}

/// Addresses and identifiers that the kernel prints from bytes.
fn address_text(kind: Kind, data: &[u8], context: &Context<'_>) -> Option<String> {
    match kind {
        Kind::Uuid { little, upper } => uuid(data, little, upper),
        Kind::Mac => {
            let parts: Vec<String> = data.get(..6)?.iter().map(|b| format!("{b:02x}")).collect();
            Some(parts.join(":"))
        }
        Kind::Ip4 => ip4(data).map(|address| address.to_string()),
        Kind::Ip6 { compressed } => {
            let address = ip6(data)?;
            Some(if compressed {
                address.to_string()
            } else {
                let parts = address.segments().map(|part| format!("{part:04x}"));
                parts.join(":")
            })
        }
        Kind::SocketAddress { port } => {
            let family = context.endian.unsigned(data.get(..2)?)?;
            let number = crate::Endian::Big.unsigned(data.get(2..4)?)?;
            let (address, bracket) = match family {
                2 => (ip4(data.get(4..)?)?.to_string(), false),
                10 => (ip6(data.get(8..)?)?.to_string(), true),
                _ => return None,
            };
            Some(match (port, bracket) {
                (false, _) => address,
                (true, false) => format!("{address}:{number}"),
                (true, true) => format!("[{address}]:{number}"),
            })
        }
        _ => None,
    }
}

fn ip4(data: &[u8]) -> Option<Ipv4Addr> {
    Some(<[u8; 4]>::try_from(data.get(..4)?).ok()?.into())
}

fn ip6(data: &[u8]) -> Option<Ipv6Addr> {
    Some(<[u8; 16]>::try_from(data.get(..16)?).ok()?.into())
}

fn uuid(data: &[u8], little: bool, upper: bool) -> Option<String> {
    const LITTLE: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let data = data.get(..16)?;
    let mut out = String::new();
    for (i, from) in LITTLE.into_iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        let byte = data.get(if little { from } else { i })?;
        out.push_str(&if upper {
            format!("{byte:02X}")
        } else {
            format!("{byte:02x}")
        });
    }
    Some(out)
}
