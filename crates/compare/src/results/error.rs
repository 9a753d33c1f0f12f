//! What is wrong with a result.

use thiserror::Error;

/// What is wrong with a result.
#[derive(Debug, Error, Clone, PartialEq)]
#[non_exhaustive]
pub enum SampleError {
    /// A key that is no `program.metric`.
    #[error("metric key {key:?}: expected `program.metric`, one word with a dot in it")]
    BadKey {
        /// The text given.
        key: String,
    },
    /// A variant, axis or run without a usable name.
    #[error("{what} name {name:?}: expected some text on one line")]
    BadName {
        /// What was to be named.
        what: &'static str,
        /// The text given.
        name: String,
    },
    /// One key declared as two different things.
    #[error(
        "metric `{key}` is declared twice, differing in its {what}: unlike things are not compared"
    )]
    Conflict {
        /// The key.
        key: String,
        /// Which property differs.
        what: &'static str,
    },
    /// Two variants, axes or runs of one name.
    #[error("{what} `{name}` is there twice: expected every name once")]
    Duplicate {
        /// What the name is for.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A run for a variant nobody added.
    #[error("no variant `{name}`: expected one of {}", known.join(", "))]
    NoVariant {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A value for a metric nobody declared.
    #[error("run `{run}`: metric `{key}` is not declared")]
    NoMetric {
        /// The run's id.
        run: String,
        /// The key.
        key: String,
    },
    /// A value given twice in one run.
    #[error("run `{run}`: metric `{key}` is given twice")]
    ValueTwice {
        /// The run's id.
        run: String,
        /// The key.
        key: String,
    },
    /// NaN, an infinity or something absurd.
    #[error("run `{run}`: metric `{key}` is {value}: expected a number no larger than 1e100")]
    BadValue {
        /// The run's id.
        run: String,
        /// The key.
        key: String,
        /// The value.
        value: f64,
    },
    /// A failure count below zero or not whole.
    #[error("run `{run}`: failure count `{key}` is {value}: expected a whole number from 0 to 1e9")]
    BadCount {
        /// The run's id.
        run: String,
        /// The key.
        key: String,
        /// The value.
        value: f64,
    },
    /// Text that is no stored result.
    #[error("stored results: {0}")]
    Json(String),
}
