//! rt-app workloads: JSON files as `rt-app` and `workgen` take them.
//!
//! What each key means here, and which ones have no effect, stands in `docs/formats/rt-app.md`.

mod events;
mod global;
mod objects;
mod properties;
mod tasks;

use schedlab_fair::Ns;

use crate::error::{Error, Place, Warning};
use crate::json::{self, Json, JsonValue, Member};
use crate::plan::Plan;
use crate::source::Source;

/// An rt-app workload, ready to run.
#[derive(Clone, PartialEq, Debug)]
pub struct RtApp {
    /// Tasks, programs and objects.
    pub plan: Plan,
    /// `global.duration`; `None` to run until the tasks end.
    pub duration: Option<Ns>,
    /// Keys that have no effect here.
    pub warnings: Vec<Warning>,
}

impl RtApp {
    /// Reads the text of an rt-app file for a machine of `cpus` CPUs; `name` is what messages call the file.
    ///
    /// # Errors
    /// At everything that rt-app would refuse, and at what cannot be simulated, with line, column and key.
    pub fn parse(name: &str, text: &str, cpus: u32) -> Result<Self, Error> {
        let source = Source::new(name, text);
        let json = json::parse(&source)?;
        let root = Object::new(&json, "", "an object with `tasks` and `global`")?;
        let mut warnings = Vec::new();
        let (mut tasks_at, mut global_at) = (None, None);
        for member in root.members {
            match member.key.as_str() {
                "tasks" => once(&mut tasks_at, member)?,
                "global" => once(&mut global_at, member)?,
                "resources" => {
                    warnings.push(root.ignored(member, "resources are made as they are named"))
                }
                _ => return Err(root.unknown(member, &["tasks", "global", "resources"])),
            }
        }
        let global = global::Global::read(global_at, &mut warnings)?;
        let Some(tasks) = tasks_at else {
            return Err(Error::Missing {
                place: json.place.clone(),
                key: "tasks".into(),
                expected: "an object of threads".into(),
            });
        };
        let plan = tasks::read(&tasks.json, &global, cpus, &mut warnings)?;
        Ok(Self {
            plan,
            duration: global.duration,
            warnings,
        })
    }
}

/// Remembers a key that may stand only once.
fn once<'a>(slot: &mut Option<&'a Member>, member: &'a Member) -> Result<(), Error> {
    match slot {
        None => {
            *slot = Some(member);
            Ok(())
        }
        Some(first) => Err(Error::Conflict {
            place: member.key_place.clone(),
            key: member.key.clone(),
            problem: format!(
                "stands here a second time; the first is at {}",
                first.key_place
            ),
        }),
    }
}

/// An object with its path, for messages.
struct Object<'a> {
    members: &'a [Member],
    place: &'a Place,
    path: String,
}

impl<'a> Object<'a> {
    fn new(json: &'a Json, path: &str, expected: &str) -> Result<Self, Error> {
        match &json.value {
            JsonValue::Object(members) => Ok(Self {
                members,
                place: &json.place,
                path: path.into(),
            }),
            _ => Err(Error::Value {
                place: json.place.clone(),
                key: if path.is_empty() {
                    "the file".into()
                } else {
                    path.into()
                },
                expected: expected.into(),
                found: json.found(),
            }),
        }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.into()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    fn field(&self, member: &'a Member) -> Field<'a> {
        Field {
            path: self.path_of(&member.key),
            json: &member.json,
        }
    }

    /// A key that may be there once.
    fn get(&self, key: &str) -> Result<Option<Field<'a>>, Error> {
        let mut slot = None;
        for member in self.members.iter().filter(|m| m.key == key) {
            once(&mut slot, member)?;
        }
        Ok(slot.map(|m| self.field(m)))
    }

    fn need(&self, key: &str, expected: &str) -> Result<Field<'a>, Error> {
        self.get(key)?.ok_or_else(|| Error::Missing {
            place: self.place.clone(),
            key: self.path_of(key),
            expected: expected.into(),
        })
    }

    /// Refuses keys that are not in a list.
    fn only(&self, known: &[&str]) -> Result<(), Error> {
        match self
            .members
            .iter()
            .find(|m| !known.contains(&m.key.as_str()))
        {
            None => Ok(()),
            Some(member) => Err(self.unknown(member, known)),
        }
    }

    fn unknown(&self, member: &Member, known: &[&str]) -> Error {
        Error::UnknownKey {
            place: member.key_place.clone(),
            key: self.path_of(&member.key),
            known: known.iter().map(|k| (*k).to_string()).collect(),
        }
    }

    fn ignored(&self, member: &Member, why: &str) -> Warning {
        Warning {
            place: member.key_place.clone(),
            key: self.path_of(&member.key),
            note: format!("has no effect: {why}"),
        }
    }
}

/// A value with the path of its key.
#[derive(Clone)]
struct Field<'a> {
    path: String,
    json: &'a Json,
}

impl<'a> Field<'a> {
    fn wrong(&self, expected: &str) -> Error {
        Error::Value {
            place: self.json.place.clone(),
            key: self.path.clone(),
            expected: expected.into(),
            found: self.json.found(),
        }
    }

    fn conflict(&self, problem: impl Into<String>) -> Error {
        Error::Conflict {
            place: self.json.place.clone(),
            key: self.path.clone(),
            problem: problem.into(),
        }
    }

    fn text(&self, expected: &str) -> Result<&'a str, Error> {
        match &self.json.value {
            JsonValue::String(s) => Ok(s),
            _ => Err(self.wrong(expected)),
        }
    }

    fn boolean(&self) -> Result<bool, Error> {
        match self.json.value {
            JsonValue::Bool(b) => Ok(b),
            _ => Err(self.wrong("true or false")),
        }
    }

    fn integer(&self, min: i64, max: i64, expected: &str) -> Result<i64, Error> {
        match self.json.value {
            JsonValue::Integer(n) if (min..=max).contains(&n) => Ok(n),
            _ => Err(self.wrong(expected)),
        }
    }

    /// A time in whole microseconds. rt-app knows no other unit, and a fraction would be cut silently there.
    fn microseconds(&self) -> Result<Ns, Error> {
        const MAX: i64 = i64::MAX / 1_000;
        self.integer(
            0,
            MAX,
            "a whole number of microseconds (an integer of 0 or more, without a unit)",
        )
        .map(|us| Ns::from_us(us.unsigned_abs()))
    }
}
