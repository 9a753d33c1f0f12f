//! One field of an event: where it lies and how its bytes are read.

use crate::Endian;

/// How the bytes of a field are to be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldKind {
    /// One number or pointer of the field's size.
    Int,
    /// `type name[n]`: elements side by side within the field. With a size of 0 (`char buf[]`) the rest of the payload.
    Array {
        /// Bytes of an element.
        element: u32,
    },
    /// `__data_loc type[] name`: 32 bits, the low half the offset from the beginning of the payload, the high half the length in
    /// bytes.
    DataLoc {
        /// Bytes of an element.
        element: u32,
    },
    /// `__rel_loc type[] name` (5.16 and later): the same, the offset counted from the end of these 32 bits.
    RelLoc {
        /// Bytes of an element.
        element: u32,
    },
}

/// One field of an event, as a `field:` line describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    pub(crate) name: String,
    pub(crate) type_name: String,
    pub(crate) offset: u32,
    pub(crate) size: u32,
    pub(crate) signed: bool,
    pub(crate) kind: FieldKind,
}

impl Field {
    /// Name, without array brackets.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Type as declared, without `__data_loc` and brackets: `unsigned short`, `char`, `const char *`.
    #[must_use]
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// Bytes from the beginning of the payload.
    #[must_use]
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Bytes within the fixed part: 4 for dynamic fields, the whole of an array.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Whether numbers are signed.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.signed
    }

    /// How the bytes are to be taken.
    #[must_use]
    pub fn kind(&self) -> FieldKind {
        self.kind
    }

    /// Whether the field is text: an array of `char`, fixed or dynamic.
    #[must_use]
    pub fn is_string(&self) -> bool {
        self.kind != FieldKind::Int
            && matches!(
                self.type_name.as_str(),
                "char" | "unsigned char" | "const char"
            )
    }

    /// Bytes of an element; the field's size if it is no array.
    #[must_use]
    pub fn element_size(&self) -> u32 {
        match self.kind {
            FieldKind::Int => self.size,
            FieldKind::Array { element }
            | FieldKind::DataLoc { element }
            | FieldKind::RelLoc { element } => element,
        }
    }

    /// The bytes of the fixed part; `None` if the payload is too short.
    #[must_use]
    #[inline]
    fn fixed<'a>(&self, payload: &'a [u8]) -> Option<&'a [u8]> {
        let start = self.offset as usize;
        payload.get(start..start.checked_add(self.size as usize)?)
    }

    /// The bytes of the field's content, those of a dynamic field at the place where it lies; `None` if any of it is outside the
    /// payload.
    #[must_use]
    pub fn read_bytes<'a>(&self, payload: &'a [u8], endian: Endian) -> Option<&'a [u8]> {
        let fixed = self.fixed(payload)?;
        let base = match self.kind {
            // `char buf[]` at the end: all that follows.
            FieldKind::Array { .. } if self.size == 0 => {
                return payload.get(self.offset as usize..);
            }
            FieldKind::Int | FieldKind::Array { .. } => return Some(fixed),
            FieldKind::DataLoc { .. } => 0,
            FieldKind::RelLoc { .. } => self.offset as usize + self.size as usize,
        };
        let location = endian.unsigned(fixed)?;
        let start = base.checked_add((location & 0xffff) as usize)?;
        let length = (location >> 16 & 0xffff) as usize;
        payload.get(start..start.checked_add(length)?)
    }

    /// The number, sign-extended if the field is signed; a `u64` above `i64::MAX` comes out negative. `None` for arrays, for
    /// sizes other than 1 to 8 and past the end of the payload.
    #[must_use]
    #[inline]
    pub fn read_int(&self, payload: &[u8], endian: Endian) -> Option<i64> {
        if self.kind != FieldKind::Int {
            return None;
        }
        let bytes = self.fixed(payload)?;
        if self.signed {
            endian.signed(bytes)
        } else {
            endian.unsigned(bytes).map(u64::cast_signed)
        }
    }

    /// The number's bits, never sign-extended. `None` as for [`Field::read_int`].
    #[must_use]
    #[inline]
    pub fn read_unsigned(&self, payload: &[u8], endian: Endian) -> Option<u64> {
        if self.kind != FieldKind::Int {
            return None;
        }
        endian.unsigned(self.fixed(payload)?)
    }

    /// Text up to the first zero byte, or all of it. Any array will do; `None` for single numbers (pointers to strings
    /// are such) and past the end of the payload.
    ///
    /// The kernel promises no encoding: task names and paths are bytes.
    #[must_use]
    #[inline]
    pub fn read_str<'a>(&self, payload: &'a [u8], endian: Endian) -> Option<&'a [u8]> {
        if self.kind == FieldKind::Int {
            return None;
        }
        let bytes = self.read_bytes(payload, endian)?;
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        bytes.get(..end)
    }

    /// The numbers of an array, fixed or dynamic, or the one number; a rest shorter than an element is left out. `None` if the
    /// element size is not 1 to 8 or the payload is too short.
    pub fn read_array<'a>(
        &self,
        payload: &'a [u8],
        endian: Endian,
    ) -> Option<impl Iterator<Item = i64> + use<'a>> {
        let element = self.element_size() as usize;
        if !(1..=8).contains(&element) {
            return None;
        }
        let signed = self.signed;
        let bytes = self.read_bytes(payload, endian)?;
        Some(bytes.chunks_exact(element).map(move |bytes| {
            let value = if signed {
                endian.signed(bytes)
            } else {
                endian.unsigned(bytes).map(u64::cast_signed)
            };
            value.unwrap_or(0)
        }))
    }
}
