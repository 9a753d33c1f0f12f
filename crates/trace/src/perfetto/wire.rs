//! The protobuf wire format, read field by field without a schema.
//!
//! <https://protobuf.dev/programming-guides/encoding/>. Nothing is copied and nothing allocated: a length that runs
//! past the end of its message is an error before anything is read.

/// What makes a message unreadable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Malformed(pub(super) &'static str);

/// Value of a field, by wire type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

impl<'a> Value<'a> {
    /// An integer of any width; `None` for bytes.
    pub(super) fn number(self) -> Option<u64> {
        match self {
            Self::Varint(value) | Self::Fixed64(value) => Some(value),
            Self::Fixed32(value) => Some(value.into()),
            Self::Bytes(_) => None,
        }
    }

    /// The bytes of a string or message; empty for a number.
    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            _ => &[],
        }
    }
}

/// The fields of a message, in order. Ends after the first malformed one.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// How many bytes are not read yet.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    fn take(&mut self) -> Result<(u32, Value<'a>), Malformed> {
        let key = varint(&mut self.rest)?;
        let number = u32::try_from(key >> 3)
            .ok()
            .filter(|&number| number > 0)
            .ok_or(Malformed("field number out of range"))?;
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut self.rest)?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let len = usize::try_from(varint(&mut self.rest)?).ok();
                let split = len.and_then(|len| self.rest.split_at_checked(len));
                let (bytes, rest) = split.ok_or(Malformed("length past the end of the message"))?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(Malformed("unknown wire type")),
        };
        Ok((number, value))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(Malformed("message ends within a field"))?;
        self.rest = rest;
        Ok(*bytes)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let item = self.take();
        if item.is_err() {
            self.rest = &[];
        }
        Some(item)
    }
}

/// Takes a varint of at most ten bytes.
pub(super) fn varint(rest: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0u64;
    for (i, &byte) in rest.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            *rest = &rest[i + 1..];
            return Ok(value);
        }
    }
    Err(Malformed(if rest.len() < 10 {
        "message ends within a number"
    } else {
        "number of more than ten bytes"
    }))
}

/// Appends the numbers of a repeated field, packed or one by one.
pub(super) fn repeated(value: Value<'_>, mut push: impl FnMut(u64)) -> Result<(), Malformed> {
    let Value::Bytes(mut packed) = value else {
        push(value.number().unwrap_or_default());
        return Ok(());
    };
    while !packed.is_empty() {
        push(varint(&mut packed)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(message: &[u8]) -> Result<Vec<(u32, Value<'_>)>, Malformed> {
        Fields::new(message).collect()
    }

    #[test]
    fn examples_of_the_encoding_guide() {
        assert_eq!(all(&[0x08, 0x96, 0x01]), Ok(vec![(1, Value::Varint(150))]));
        assert_eq!(
            all(&[&[0x12, 0x07][..], b"testing"].concat()),
            Ok(vec![(2, Value::Bytes(b"testing"))])
        );
        let minus_two = [
            0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
        ];
        assert_eq!(all(&minus_two), Ok(vec![(1, Value::Varint(-2i64 as u64))]));
        assert_eq!(
            all(&[0x0d, 1, 0, 0, 0, 0x11, 2, 0, 0, 0, 0, 0, 0, 0]),
            Ok(vec![(1, Value::Fixed32(1)), (2, Value::Fixed64(2))])
        );
        let mut numbers = Vec::new();
        repeated(Value::Bytes(&[3, 0x8e, 2, 0x9e, 0xa7, 5]), |n| {
            numbers.push(n)
        })
        .unwrap();
        assert_eq!(numbers, [3, 270, 86942]);
    }

    #[test]
    fn damage() {
        for (message, what) in [
            (
                &[0x12, 0x07, b'a'][..],
                "length past the end of the message",
            ),
            (&[0x08], "message ends within a number"),
            (&[0xff; 11], "number of more than ten bytes"),
            (&[0x0b], "unknown wire type"),
            (&[0x00, 0x01], "field number out of range"),
            (&[0x0d, 1], "message ends within a field"),
            // A length of 2^63 asks for nothing.
            (
                &[
                    0x12, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01,
                ],
                "length past the end of the message",
            ),
        ] {
            assert_eq!(all(message), Err(Malformed(what)), "{message:?}");
        }
    }
}
