//! A TOML document in which every key and value knows where it was written.
//!
//! Overrides from the command line are applied to this tree, so a file and a `--set` meet the same checks and a
//! wrong value names the one that it came from.

use toml::de::{DeTable, DeValue};

use crate::error::{Error, Place};
use crate::source::Source;

/// A value and where it starts.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
}

/// What a value is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Bool(bool),
    Integer(i64),
    /// A number with a fraction or exponent, or a whole one that does not fit; as written.
    Number(String),
    String(String),
    /// TOML's dates, which nothing here wants.
    Datetime(String),
    Array(Vec<Node>),
    Table(Table),
}

/// A table in the order of the file.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
}

/// One key of a table.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) node: Node,
}

impl Node {
    /// The value in a few words, for error messages.
    pub(crate) fn found(&self) -> String {
        match &self.value {
            Value::Bool(b) => format!("the boolean {b}"),
            Value::Integer(n) => format!("the integer {n}"),
            Value::Number(text) => format!("the number {text}"),
            Value::String(s) => format!("the string {s:?}"),
            Value::Datetime(text) => format!("the date {text}"),
            Value::Array(_) => "an array".into(),
            Value::Table(_) => "a table".into(),
        }
    }

    /// The table, if it is one.
    pub(crate) fn as_table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(t) => Some(t),
            _ => None,
        }
    }

    /// The text of a name: a string, or a number as written (6.1), where quotes were forgotten.
    pub(crate) fn as_name(&self) -> Option<&str> {
        match &self.value {
            Value::String(s) | Value::Number(s) => Some(s),
            _ => None,
        }
    }

    /// The text, if it is a string.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(s) => Some(s),
            _ => None,
        }
    }
}

impl Table {
    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|e| e.key == key).map(|e| &e.node)
    }

    /// The value of a key, to change it.
    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.entries
            .iter_mut()
            .find(|e| e.key == key)
            .map(|e| &mut e.node)
    }

    /// Sets a key, in its old place if it was there.
    pub(crate) fn set(&mut self, key: &str, node: Node) {
        match self.get_mut(key) {
            Some(old) => *old = node,
            None => self.entries.push(Entry {
                key: key.into(),
                key_place: node.place.clone(),
                node,
            }),
        }
    }
}

/// Reads a TOML document.
pub(crate) fn parse(source: &Source<'_>) -> Result<Node, Error> {
    // TOML forbids a byte order mark nowhere, but its parser takes it for a key.
    let document = DeTable::parse(source.text()).map_err(|e| Error::Syntax {
        place: source.place(e.span().map_or(0, |s| s.start)),
        problem: one_line(e.message()),
    })?;
    let root = document.get_ref();
    Ok(Node {
        place: source.place(0),
        value: Value::Table(table(source, root)),
    })
}

/// Reads the right side of a `--set`: TOML if it is such, else the text itself.
pub(crate) fn parse_value(text: &str, place: &Place) -> Node {
    let read = || {
        let spanned = DeValue::parse(text).ok()?;
        Some(value(None, place, spanned.get_ref()))
    };
    Node {
        place: place.clone(),
        value: read().unwrap_or_else(|| Value::String(text.into())),
    }
}

fn table(source: &Source<'_>, from: &DeTable<'_>) -> Table {
    let mut spanned: Vec<_> = from.iter().collect();
    spanned.sort_by_key(|(key, _)| key.span().start);
    let entries = spanned
        .into_iter()
        .map(|(key, v)| {
            let place = source.place(v.span().start);
            Entry {
                key: key.get_ref().to_string(),
                key_place: source.place(key.span().start),
                node: Node {
                    value: value(Some(source), &place, v.get_ref()),
                    place,
                },
            }
        })
        .collect();
    Table { entries }
}

/// Converts a value; without a source everything inside gets the place of the whole.
fn value(source: Option<&Source<'_>>, whole: &Place, from: &DeValue<'_>) -> Value {
    let place = |start: usize| source.map_or_else(|| whole.clone(), |s| s.place(start));
    match from {
        DeValue::String(s) => Value::String(s.to_string()),
        DeValue::Integer(n) => match i64::from_str_radix(n.as_str(), n.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Number(n.to_string()),
        },
        DeValue::Float(f) => Value::Number(f.as_str().into()),
        DeValue::Boolean(b) => Value::Bool(*b),
        DeValue::Datetime(d) => Value::Datetime(d.to_string()),
        DeValue::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| {
                    let at = place(item.span().start);
                    Node {
                        value: value(source, &at, item.get_ref()),
                        place: at,
                    }
                })
                .collect(),
        ),
        DeValue::Table(t) => match source {
            Some(source) => Value::Table(table(source, t)),
            None => Value::Table(Table {
                entries: t
                    .iter()
                    .map(|(key, v)| Entry {
                        key: key.get_ref().to_string(),
                        key_place: whole.clone(),
                        node: Node {
                            value: value(None, whole, v.get_ref()),
                            place: whole.clone(),
                        },
                    })
                    .collect(),
            }),
        },
    }
}

/// A parser's message on one line.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
