//! Typed reading of tables: each key asked for is known, all others are errors.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;

use schedlab_fair::Ns;

use crate::cpulist::{CPU_LIST_FORM, CpuListError, parse_cpu_list};
use crate::error::{Error, Place};
use crate::time::{TIME_FORM, parse_time};
use crate::tree::{Node, Table, Value};

/// A table being read. [`Reader::finish`] refuses the keys that nobody asked for.
pub(crate) struct Reader<'a> {
    table: &'a Table,
    place: &'a Place,
    path: String,
    asked: RefCell<Vec<&'static str>>,
}

/// A key's value with the whole path of the key.
#[derive(Clone)]
pub(crate) struct Field<'a> {
    pub(crate) path: String,
    pub(crate) node: &'a Node,
}

impl<'a> Reader<'a> {
    /// Starts on a node that must be a table.
    pub(crate) fn new(field: &Field<'a>, expected: &str) -> Result<Self, Error> {
        match &field.node.value {
            Value::Table(table) => Ok(Self {
                table,
                place: &field.node.place,
                path: field.path.clone(),
                asked: RefCell::default(),
            }),
            _ => Err(field.wrong(expected)),
        }
    }

    /// The document itself.
    pub(crate) fn root(node: &'a Node) -> Result<Self, Error> {
        let field = Field {
            path: String::new(),
            node,
        };
        Self::new(&field, "a table")
    }

    /// Path of a key in this table.
    pub(crate) fn path_of(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// Where the table starts.
    pub(crate) fn place(&self) -> &'a Place {
        self.place
    }

    /// A key that may be absent.
    pub(crate) fn get(&self, key: &'static str) -> Option<Field<'a>> {
        self.asked.borrow_mut().push(key);
        self.table.get(key).map(|node| Field {
            path: self.path_of(key),
            node,
        })
    }

    /// A key that must be there.
    pub(crate) fn need(&self, key: &'static str, expected: &str) -> Result<Field<'a>, Error> {
        self.get(key).ok_or_else(|| Error::Missing {
            place: self.place.clone(),
            key: self.path_of(key),
            expected: expected.into(),
        })
    }

    /// Refuses keys that were never asked for.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let asked = self.asked.into_inner();
        match self
            .table
            .entries
            .iter()
            .find(|e| !asked.contains(&e.key.as_str()))
        {
            None => Ok(()),
            Some(e) => {
                let mut known: Vec<String> = asked.iter().map(|s| (*s).to_string()).collect();
                known.sort();
                known.dedup();
                Err(Error::UnknownKey {
                    place: e.key_place.clone(),
                    key: join(&self.path, &e.key),
                    known,
                })
            }
        }
    }
}

impl<'a> Field<'a> {
    /// The error that this value is not what it should be.
    pub(crate) fn wrong(&self, expected: impl Display) -> Error {
        Error::Value {
            place: self.node.place.clone(),
            key: self.path.clone(),
            expected: expected.to_string(),
            found: self.node.found(),
        }
    }

    /// The error that a name means nothing.
    pub(crate) fn unknown(
        &self,
        what: &'static str,
        known: impl IntoIterator<Item = impl Display>,
    ) -> Error {
        Error::UnknownName {
            place: self.node.place.clone(),
            key: self.path.clone(),
            what,
            name: self.node.as_name().unwrap_or_default().into(),
            known: known.into_iter().map(|k| k.to_string()).collect(),
        }
    }

    /// The error that this value does not fit another one.
    pub(crate) fn conflict(&self, problem: impl Into<String>) -> Error {
        Error::Conflict {
            place: self.node.place.clone(),
            key: self.path.clone(),
            problem: problem.into(),
        }
    }

    /// A string.
    pub(crate) fn text(&self, expected: &str) -> Result<&'a str, Error> {
        self.node.as_str().ok_or_else(|| self.wrong(expected))
    }

    /// A boolean.
    pub(crate) fn boolean(&self) -> Result<bool, Error> {
        match self.node.value {
            Value::Bool(b) => Ok(b),
            _ => Err(self.wrong("true or false")),
        }
    }

    /// A whole number within bounds. On the command line `--set` values come as numbers too.
    pub(crate) fn integer<T>(&self, range: RangeInclusive<T>) -> Result<T, Error>
    where
        T: TryFrom<i64> + PartialOrd + Display,
    {
        let wanted = || format!("an integer from {} to {}", range.start(), range.end());
        match self.node.value {
            Value::Integer(n) => T::try_from(n)
                .ok()
                .filter(|n| range.contains(n))
                .ok_or_else(|| self.wrong(wanted())),
            _ => Err(self.wrong(wanted())),
        }
    }

    /// A time with a unit, zero allowed. A bare number is refused: nobody could tell its unit.
    pub(crate) fn time(&self) -> Result<Ns, Error> {
        self.node
            .as_str()
            .and_then(parse_time)
            .ok_or_else(|| self.wrong(TIME_FORM))
    }

    /// A time above zero.
    pub(crate) fn time_above_zero(&self) -> Result<Ns, Error> {
        match self.time()? {
            Ns(0) => Err(self.wrong(format!("{TIME_FORM}, above zero"))),
            t => Ok(t),
        }
    }

    /// A set of CPUs of a machine.
    pub(crate) fn cpus(&self, machine_cpus: u32) -> Result<Vec<u32>, Error> {
        let text = match &self.node.value {
            Value::String(s) => s.clone(),
            // One CPU may be written as a number.
            Value::Integer(n) => n.to_string(),
            _ => return Err(self.wrong(CPU_LIST_FORM)),
        };
        parse_cpu_list(&text, machine_cpus).map_err(|e| match e {
            CpuListError::Form => self.wrong(CPU_LIST_FORM),
            CpuListError::Outside(cpu) => self.conflict(outside(cpu, machine_cpus)),
        })
    }

    /// An array.
    pub(crate) fn array(&self, expected: &str) -> Result<Vec<Field<'a>>, Error> {
        match &self.node.value {
            Value::Array(items) => Ok(items
                .iter()
                .enumerate()
                .map(|(i, node)| Field {
                    path: format!("{}[{i}]", self.path),
                    node,
                })
                .collect()),
            _ => Err(self.wrong(expected)),
        }
    }

    /// An array of strings, or one string with commas: the form that is easy to type in a `--set`.
    pub(crate) fn words(&self, expected: &str) -> Result<Vec<(String, Field<'a>)>, Error> {
        match &self.node.value {
            Value::String(s) => Ok(s
                .split(',')
                .map(str::trim)
                .filter(|w| !w.is_empty())
                .map(|w| (w.to_string(), self.clone()))
                .collect()),
            Value::Array(_) => self
                .array(expected)?
                .into_iter()
                .map(|f| f.text(expected).map(|t| (t.to_string(), f.clone())))
                .collect(),
            _ => Err(self.wrong(expected)),
        }
    }
}

/// What to say of a CPU that the machine lacks.
pub(crate) fn outside(cpu: u32, machine_cpus: u32) -> String {
    format!(
        "CPU {cpu} is outside the machine, which has CPUs 0 to {}",
        machine_cpus - 1
    )
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.into()
    } else {
        format!("{path}.{key}")
    }
}
