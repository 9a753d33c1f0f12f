//! The value of an expression for one payload.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::number::Num;
use super::parse::Expr;
use super::types::Type;
use crate::{Endian, Field, FieldKind};

/// A value: a number, or bytes that stand for a text or an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Value<'a> {
    Num(Num),
    /// A text made here, or written in the print format.
    Text(Cow<'a, [u8]>),
    /// Bytes of the payload; an element has so many bytes.
    Data(&'a [u8], Type),
}

/// Why there is no value: a field outside the payload, a division by zero, a text where a number is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NoValue;

/// One payload with what is needed to read it.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) fields: &'a [Field],
    pub(super) payload: &'a [u8],
    pub(super) endian: Endian,
    pub(super) long_size: u8,
}

/// Value of an expression that needs no payload.
pub(super) fn constant(expr: &Expr) -> Option<u64> {
    let nothing = Context {
        fields: &[],
        payload: &[],
        endian: Endian::Little,
        long_size: 8,
    };
    match nothing.value(expr) {
        Ok(Value::Num(number)) => Some(number.bits),
        _ => None,
    }
}

impl<'a> Context<'a> {
    pub(super) fn number(&self, expr: &'a Expr) -> Result<Num, NoValue> {
        match self.value(expr)? {
            Value::Num(number) => Ok(number),
            Value::Text(_) | Value::Data(..) => Err(NoValue),
        }
    }

    /// Whether a condition holds; the address of an array or text is never zero.
    fn truth(&self, expr: &'a Expr) -> Result<bool, NoValue> {
        Ok(match self.value(expr)? {
            Value::Num(number) => number.is_true(),
            Value::Text(_) | Value::Data(..) => true,
        })
    }

    fn field(&self, index: usize) -> Result<&'a Field, NoValue> {
        self.fields.get(index).ok_or(NoValue)
    }

    pub(super) fn value(&self, expr: &'a Expr) -> Result<Value<'a>, NoValue> {
        Ok(match expr {
            Expr::Num(number) => Value::Num(*number),
            Expr::Text(text) => Value::Text(Cow::Borrowed(text)),
            Expr::Field(index) => self.field_value(*index)?,
            Expr::Dynamic(index) => self.data(*index)?,
            Expr::DynamicLen(index) => {
                let field = self.field(*index)?;
                let bytes = field.read_bytes(self.payload, self.endian).ok_or(NoValue)?;
                Value::Num(Num::of_type(bytes.len() as u64, 4, false))
            }
            Expr::Index(base, index) => self.element(base, index)?,
            Expr::Cast(kind, inner) => self.cast(*kind, inner)?,
            Expr::Not(inner) => Value::Num(Num::truth(!self.truth(inner)?)),
            Expr::Negate(inner) => Value::Num(self.number(inner)?.negate()),
            Expr::Complement(inner) => Value::Num(self.number(inner)?.complement()),
            Expr::Binary(op, left, right) => {
                let (left, right) = (self.number(left)?, self.number(right)?);
                Value::Num(left.binary(*op, right).ok_or(NoValue)?)
            }
            Expr::AndAlso(left, right) => {
                Value::Num(Num::truth(self.truth(left)? && self.truth(right)?))
            }
            Expr::OrElse(left, right) => {
                Value::Num(Num::truth(self.truth(left)? || self.truth(right)?))
            }
            Expr::Cond(condition, yes, no) => {
                return self.value(if self.truth(condition)? { yes } else { no });
            }
            Expr::Flags(value, delimiter, table) => self.flags(value, delimiter, table)?,
            Expr::Symbolic(value, table) => self.symbol(value, table)?,
            Expr::Hex(data, len, spaced) => self.hex(data, len, *spaced)?,
            Expr::Array(data, count, size) => self.array(data, count, size)?,
            Expr::Bitmask(index) => self.bitmask(*index)?,
        })
    }

    fn field_value(&self, index: usize) -> Result<Value<'a>, NoValue> {
        let field = self.field(index)?;
        match field.kind() {
            FieldKind::Array { .. } => self.data(index),
            // `REC->name` of a dynamic field is its location word.
            FieldKind::Int | FieldKind::DataLoc { .. } | FieldKind::RelLoc { .. } => {
                let start = field.offset() as usize;
                let end = start.checked_add(field.size() as usize).ok_or(NoValue)?;
                let bytes = self.payload.get(start..end).ok_or(NoValue)?;
                let bits = self.endian.unsigned(bytes).ok_or(NoValue)?;
                let number = Num::of_type(bits, field.size(), !field.is_signed());
                Ok(Value::Num(number))
            }
        }
    }

    fn data(&self, index: usize) -> Result<Value<'a>, NoValue> {
        let field = self.field(index)?;
        let bytes = field.read_bytes(self.payload, self.endian).ok_or(NoValue)?;
        let element = Type {
            bytes: field.element_size(),
            unsigned: !field.is_signed(),
            pointer: false,
        };
        Ok(Value::Data(bytes, element))
    }

    fn bytes(&self, expr: &'a Expr) -> Result<(&'a [u8], Type), NoValue> {
        match self.value(expr)? {
            Value::Data(bytes, element) => Ok((bytes, element)),
            Value::Num(_) | Value::Text(_) => Err(NoValue),
        }
    }

    fn element(&self, base: &'a Expr, index: &'a Expr) -> Result<Value<'a>, NoValue> {
        let (bytes, element) = self.bytes(base)?;
        let index = usize::try_from(self.number(index)?.bits).map_err(|_| NoValue)?;
        let size = element.bytes as usize;
        let start = index.checked_mul(size).ok_or(NoValue)?;
        let end = start.checked_add(size).ok_or(NoValue)?;
        let bits = self
            .endian
            .unsigned(bytes.get(start..end).ok_or(NoValue)?)
            .ok_or(NoValue)?;
        Ok(Value::Num(Num::of_type(
            bits,
            element.bytes,
            element.unsigned,
        )))
    }

    fn cast(&self, kind: Type, inner: &'a Expr) -> Result<Value<'a>, NoValue> {
        match self.value(inner)? {
            Value::Num(number) if kind.pointer => Ok(Value::Num(Num::of_type(
                number.bits,
                u32::from(self.long_size),
                true,
            ))),
            Value::Num(number) => Ok(Value::Num(Num::of_type(
                number.bits,
                kind.bytes,
                kind.unsigned,
            ))),
            Value::Data(bytes, _) if kind.pointer => Ok(Value::Data(
                bytes,
                Type {
                    pointer: false,
                    ..kind
                },
            )),
            text @ Value::Text(_) if kind.pointer => Ok(text),
            Value::Data(..) | Value::Text(_) => Err(NoValue),
        }
    }

    /// `unsigned long` in this kernel: the bits that count, of a value.
    fn long(&self, number: Num) -> (u64, u64) {
        let mask = if self.long_size == 4 && !number.wide {
            u64::from(u32::MAX)
        } else {
            u64::MAX
        };
        (number.bits & mask, mask)
    }

    /// Names of the masks that are set, then the rest in hexadecimal.
    fn flags(
        &self,
        value: &'a Expr,
        delimiter: &[u8],
        table: &[(u64, Vec<u8>)],
    ) -> Result<Value<'a>, NoValue> {
        let (mut left, bits) = self.long(self.number(value)?);
        let mut out = Vec::new();
        for (mask, name) in table {
            if left == 0 {
                break;
            }
            let mask = mask & bits;
            if left & mask == mask {
                left &= !mask;
                if !out.is_empty() {
                    out.extend_from_slice(delimiter);
                }
                out.extend_from_slice(name);
            }
        }
        if left != 0 {
            if !out.is_empty() {
                out.extend_from_slice(delimiter);
            }
            out.extend_from_slice(format!("0x{left:x}").as_bytes());
        }
        Ok(Value::Text(Cow::Owned(out)))
    }

    fn symbol(&self, value: &'a Expr, table: &'a [(u64, Vec<u8>)]) -> Result<Value<'a>, NoValue> {
        let (value, bits) = self.long(self.number(value)?);
        let found = table.iter().find(|(entry, _)| entry & bits == value);
        Ok(Value::Text(match found {
            Some((_, name)) => Cow::Borrowed(name),
            None => Cow::Owned(format!("0x{value:x}").into_bytes()),
        }))
    }

    fn hex(&self, data: &'a Expr, len: &'a Expr, spaced: bool) -> Result<Value<'a>, NoValue> {
        let (bytes, _) = self.bytes(data)?;
        let len = usize::try_from(self.number(len)?.bits).map_err(|_| NoValue)?;
        let mut out = String::new();
        for (i, byte) in bytes.get(..len).ok_or(NoValue)?.iter().enumerate() {
            let separator = if spaced && i > 0 { " " } else { "" };
            let _ = write!(out, "{separator}{byte:02x}");
        }
        Ok(Value::Text(Cow::Owned(out.into_bytes())))
    }

    fn array(&self, data: &'a Expr, count: &'a Expr, size: &'a Expr) -> Result<Value<'a>, NoValue> {
        let (bytes, _) = self.bytes(data)?;
        let number = |expr| -> Result<usize, NoValue> {
            usize::try_from(self.number(expr)?.bits).map_err(|_| NoValue)
        };
        let (count, size) = (number(count)?, number(size)?);
        if !matches!(size, 1 | 2 | 4 | 8) {
            return Err(NoValue);
        }
        let len = count.checked_mul(size).ok_or(NoValue)?;
        let mut out = String::from("{");
        for (i, element) in bytes
            .get(..len)
            .ok_or(NoValue)?
            .chunks_exact(size)
            .enumerate()
        {
            let separator = if i > 0 { "," } else { "" };
            let value = self.endian.unsigned(element).ok_or(NoValue)?;
            let _ = write!(out, "{separator}0x{value:x}");
        }
        out.push('}');
        Ok(Value::Text(Cow::Owned(out.into_bytes())))
    }

    /// Groups of 32 bits in hexadecimal, the highest first.
    fn bitmask(&self, index: usize) -> Result<Value<'a>, NoValue> {
        let field = self.field(index)?;
        let bytes = field.read_bytes(self.payload, self.endian).ok_or(NoValue)?;
        let mut groups = Vec::new();
        for long in bytes.chunks(usize::from(self.long_size)) {
            let value = self.endian.unsigned(long).ok_or(NoValue)?;
            groups.push(value & 0xffff_ffff);
            if long.len() > 4 {
                groups.push(value >> 32);
            }
        }
        let groups: Vec<String> = groups.iter().rev().map(|g| format!("{g:08x}")).collect();
        Ok(Value::Text(Cow::Owned(groups.join(",").into_bytes())))
    }
}
