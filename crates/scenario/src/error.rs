//! Errors that a person can act on: which file, where in it, which key, and what was expected there.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::suggest::closest;

/// Where a value was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// In a file, lines and columns counted from 1, columns in characters.
    File {
        /// Name of the file as the user gave it.
        file: Arc<str>,
        /// Line.
        line: u32,
        /// Column.
        column: u32,
    },
    /// On the command line, as `--set KEY=VALUE`.
    Override(
        /// `KEY=VALUE`.
        Arc<str>,
    ),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Override(text) => write!(f, "--set {text}"),
        }
    }
}

/// Everything that can be wrong with a scenario, a study or an rt-app file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file holds bytes that are no text.
    #[error(
        "{place}: not UTF-8 text (byte {byte:#04x}); a scenario is TOML, an rt-app workload JSON"
    )]
    NotText {
        /// Where the first wrong byte is.
        place: Place,
        /// The byte.
        byte: u8,
    },
    /// The text breaks the rules of TOML or JSON.
    #[error("{place}: {problem}")]
    Syntax {
        /// Where.
        place: Place,
        /// What is wrong.
        problem: String,
    },
    /// A key that nothing reads.
    #[error("{place}: unknown key `{key}`{}", expected_one_of(key, known))]
    UnknownKey {
        /// Where.
        place: Place,
        /// The whole path of the key.
        key: String,
        /// Keys that are known there.
        known: Vec<String>,
    },
    /// A key that must be there is not.
    #[error("{place}: `{key}` is missing; expected {expected}")]
    Missing {
        /// Where the table starts that lacks it.
        place: Place,
        /// The whole path of the key.
        key: String,
        /// What should be there.
        expected: String,
    },
    /// A value of the wrong type, or one out of range.
    #[error("{place}: `{key}`: expected {expected}, found {found}")]
    Value {
        /// Where.
        place: Place,
        /// The whole path of the key.
        key: String,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A name that means nothing.
    #[error(
        "{place}: `{key}`: there is no {what} `{name}`{}",
        expected_one_of(name, known)
    )]
    UnknownName {
        /// Where.
        place: Place,
        /// The whole path of the key.
        key: String,
        /// What kind of thing was named.
        what: &'static str,
        /// The name.
        name: String,
        /// Names that exist.
        known: Vec<String>,
    },
    /// Values that are right each by itself but not together.
    #[error("{place}: `{key}`: {problem}")]
    Conflict {
        /// Where.
        place: Place,
        /// The whole path of the key.
        key: String,
        /// What does not fit.
        problem: String,
    },
    /// A `--set` that leads nowhere.
    #[error("--set {option}: {problem}")]
    Override {
        /// What was typed.
        option: String,
        /// What is wrong.
        problem: String,
    },
    /// Something that is imported lacks a part or contradicts itself.
    #[error("{place}: {problem}")]
    Import {
        /// The file, and where in it.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// A machine that cannot be.
    #[error("{place}: {source}")]
    Machine {
        /// Where it is described.
        place: Place,
        /// What is wrong.
        source: schedlab_topology::MachineError,
    },
    /// No such machine and no such file.
    #[error(
        "there is no machine `{name}`, neither built in nor as a file{}",
        expected_one_of(name, known)
    )]
    NoSuchMachine {
        /// What was asked for.
        name: String,
        /// Machines that are built in.
        known: Vec<String>,
    },
    /// No such built-in study and no such file.
    #[error(
        "there is no study `{name}`, neither built in nor as a file{}",
        expected_one_of(name, known)
    )]
    NoSuchStudy {
        /// What was asked for.
        name: String,
        /// Studies that are built in.
        known: Vec<String>,
    },
}

/// A longer list of names helps nobody.
const KNOWN_SHOWN: usize = 60;

/// "; did you mean `x`?" where something is close, else the whole list if it is not too long to read.
fn expected_one_of(name: &str, known: &[String]) -> String {
    let last = name.rsplit('.').next().unwrap_or(name);
    let mut out = String::new();
    if let Some(guess) = closest(last, known) {
        out.push_str(&format!("; did you mean `{guess}`?"));
    }
    match known.len() {
        0 => {}
        1..=KNOWN_SHOWN => out.push_str(&format!("; expected one of: {}", known.join(", "))),
        n => out.push_str(&format!("; there are {n}")),
    }
    out
}

/// Something that was accepted but has no effect, to be shown to the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// Where.
    pub place: Place,
    /// Which key.
    pub key: String,
    /// What was done with it.
    pub note: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}`: {}", self.place, self.key, self.note)
    }
}
