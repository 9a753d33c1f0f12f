//! Names of events and their fields, by field number: the published schema's, and those that a trace describes itself.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::schema as field;
use super::wire::{Fields, Malformed, Value};

/// How many types a trace may describe itself.
const OWN_TYPES_MAX: usize = 4096;

/// How a number is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FieldType {
    Signed,
    /// `sint32` and `sint64`.
    Zigzag,
    Unsigned,
    Text,
}

/// An event: its name and what its fields are called.
#[derive(Debug)]
pub(super) struct EventType {
    pub(super) name: String,
    fields: Vec<(u32, FieldType, String)>,
}

impl EventType {
    pub(super) fn field(&self, number: u32) -> Option<(FieldType, &str)> {
        let at = self
            .fields
            .binary_search_by_key(&number, |&(number, ..)| number)
            .ok()?;
        let (_, kind, name) = &self.fields[at];
        Some((*kind, name))
    }
}

/// The events of the published schema; `events.txt` says from where.
fn published() -> &'static BTreeMap<u32, EventType> {
    static TABLE: OnceLock<BTreeMap<u32, EventType>> = OnceLock::new();
    TABLE.get_or_init(|| {
        include_str!("events.txt")
            .lines()
            .filter_map(line)
            .collect()
    })
}

/// `13 cpu_idle 1ustate 2ucpu_id`.
fn line(line: &str) -> Option<(u32, EventType)> {
    let mut words = line.split(' ');
    let number = words.next()?.parse().ok()?;
    let name = words.next()?.to_owned();
    let fields = words.filter_map(|word| {
        let letter = word.find(|c: char| !c.is_ascii_digit())?;
        let kind = match word.as_bytes()[letter] {
            b'i' => FieldType::Signed,
            b'z' => FieldType::Zigzag,
            b's' | b'b' => FieldType::Text,
            _ => FieldType::Unsigned,
        };
        Some((
            word[..letter].parse().ok()?,
            kind,
            word[letter + 1..].to_owned(),
        ))
    });
    let fields = fields.collect();
    Some((number, EventType { name, fields }))
}

/// All types that a reader knows.
#[derive(Default)]
pub(super) struct Types {
    own: BTreeMap<u32, EventType>,
}

impl Types {
    pub(super) fn get(&self, number: u32) -> Option<&EventType> {
        published().get(&number).or_else(|| self.own.get(&number))
    }

    /// Takes a `GenericEventDescriptor` of a bundle.
    pub(super) fn describe(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let (mut id, mut proto) = (0, &[][..]);
        for item in Fields::new(message) {
            match item? {
                (field::DESCRIPTOR_FIELD_ID, value) => id = value.number().unwrap_or_default(),
                (field::DESCRIPTOR_PROTO, value) => proto = value.bytes(),
                _ => {}
            }
        }
        let id = u32::try_from(id).map_err(|_| Malformed("field number out of range"))?;
        if self.own.len() < OWN_TYPES_MAX || self.own.contains_key(&id) {
            self.own.insert(id, own_type(proto)?);
        }
        Ok(())
    }
}

/// Reads a `DescriptorProto`.
fn own_type(proto: &[u8]) -> Result<EventType, Malformed> {
    let mut name = String::new();
    let mut fields = Vec::new();
    for item in Fields::new(proto) {
        match item? {
            (field::PROTO_NAME, Value::Bytes(text)) => {
                name = String::from_utf8_lossy(text).into_owned();
            }
            (field::PROTO_FIELD, Value::Bytes(message)) => fields.push(own_field(message)?),
            _ => {}
        }
    }
    fields.sort_by_key(|&(number, ..)| number);
    Ok(EventType { name, fields })
}

fn own_field(message: &[u8]) -> Result<(u32, FieldType, String), Malformed> {
    let (mut number, mut kind, mut name) = (0, FieldType::Unsigned, String::new());
    for item in Fields::new(message) {
        match item? {
            (field::PROTO_NAME, value) => {
                name = String::from_utf8_lossy(value.bytes()).into_owned();
            }
            (field::PROTO_FIELD_NUMBER, value) => {
                number = value
                    .number()
                    .and_then(|n| u32::try_from(n).ok())
                    .unwrap_or(0);
            }
            // FieldDescriptorProto.Type.
            (field::PROTO_FIELD_TYPE, value) => {
                kind = match value.number() {
                    Some(3 | 5) => FieldType::Signed,
                    Some(17 | 18) => FieldType::Zigzag,
                    Some(9 | 12) => FieldType::Text,
                    _ => FieldType::Unsigned,
                };
            }
            _ => {}
        }
    }
    Ok((number, kind, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::proto::{bytes, int, message};

    #[test]
    fn published_types() {
        let types = Types::default();
        let idle = types.get(13).unwrap();
        assert_eq!(idle.name, "cpu_idle");
        assert_eq!(idle.field(2), Some((FieldType::Unsigned, "cpu_id")));
        assert_eq!(idle.field(3), None);
        assert_eq!(published().len(), 521 + 1);
        assert!(
            published()
                .values()
                .all(|t| t.fields.is_sorted_by_key(|f| f.0))
        );
    }

    #[test]
    fn own_types() {
        let mut out = Vec::new();
        int(&mut out, field::DESCRIPTOR_FIELD_ID, 70_000);
        message(&mut out, field::DESCRIPTOR_PROTO, |out| {
            bytes(out, field::PROTO_NAME, b"my_event");
            for (number, kind, name) in [(4, 9, "text"), (3, 18, "delta")] {
                message(out, field::PROTO_FIELD, |out| {
                    bytes(out, field::PROTO_NAME, name.as_bytes());
                    int(out, field::PROTO_FIELD_NUMBER, number);
                    int(out, field::PROTO_FIELD_TYPE, kind);
                });
            }
        });
        let mut types = Types::default();
        types.describe(&out).unwrap();
        let own = types.get(70_000).unwrap();
        assert_eq!(own.name, "my_event");
        assert_eq!(own.field(3), Some((FieldType::Zigzag, "delta")));
        assert_eq!(own.field(4), Some((FieldType::Text, "text")));
        assert!(types.describe(&[0x12, 9]).is_err());
    }
}
