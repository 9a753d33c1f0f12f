//! Runs and the variants they belong to.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{SampleError, check_value};
use crate::metric::MetricKey;
use crate::samples::Samples;

/// One run: an id and one number per metric it yielded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// What tells the run from its sisters: a seed, a directory.
    pub(super) id: String,
    /// The values, by key.
    #[serde(deserialize_with = "each_key_once")]
    pub(super) values: BTreeMap<MetricKey, f64>,
}

impl Run {
    /// A run without values yet.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            values: BTreeMap::new(),
        }
    }

    /// Records one value.
    ///
    /// # Errors
    /// [`SampleError::BadKey`], [`SampleError::ValueTwice`], and
    /// [`SampleError::BadValue`] for NaN, infinities and anything beyond
    /// [`VALUE_LIMIT`](super::VALUE_LIMIT).
    pub fn record(&mut self, key: impl Into<String>, value: f64) -> Result<(), SampleError> {
        let key = MetricKey::new(key)?;
        check_value(&self.id, &key, value)?;
        if self.values.contains_key(&key) {
            return Err(SampleError::ValueTwice {
                run: self.id.clone(),
                key: key.into(),
            });
        }
        self.values.insert(key, value);
        Ok(())
    }

    /// [`Run::record`], to be chained.
    ///
    /// # Errors
    /// As [`Run::record`].
    pub fn with(mut self, key: impl Into<String>, value: f64) -> Result<Self, SampleError> {
        self.record(key, value)?;
        Ok(self)
    }

    /// The run's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The value of a metric, if the run yielded it.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<f64> {
        self.values.get(key).copied()
    }

    /// All values, by key.
    pub fn values(&self) -> impl Iterator<Item = (&MetricKey, f64)> {
        self.values.iter().map(|(key, value)| (key, *value))
    }
}

/// One thing that is compared: a kernel, a setting, a commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) head: Option<String>,
    #[serde(default)]
    pub(super) runs: Vec<Run>,
}

impl Variant {
    /// A variant without runs.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            title: None,
            head: None,
            runs: Vec::new(),
        }
    }

    /// Adds what LKP prints in brackets after a commit: its subject.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the text that heads its column, where it is not the name (LKP lists
    /// ten digits of a commit and heads the column with all of them).
    #[must_use]
    pub fn with_head(mut self, head: impl Into<String>) -> Self {
        self.head = Some(head.into());
        self
    }

    /// The same under another name; its subject and head go with the old one.
    #[must_use]
    pub fn renamed(&self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            title: None,
            head: None,
            runs: self.runs.clone(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its subject, if it has one.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// The text that heads its column.
    #[must_use]
    pub fn head(&self) -> &str {
        self.head.as_deref().unwrap_or(&self.name)
    }

    /// Its runs, in the order they were added.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// What its runs say about one metric, in run order.
    #[must_use]
    pub fn samples(&self, key: &str) -> Samples {
        Samples::new(self.runs.iter().map(|run| run.value(key)))
    }
}

/// Reads a map and refuses a key that is there twice; serde's own takes the last.
fn each_key_once<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<MetricKey, f64>, D::Error> {
    struct Values;

    impl<'de> Visitor<'de> for Values {
        type Value = BTreeMap<MetricKey, f64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("values by metric key")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut values = BTreeMap::new();
            while let Some((key, value)) = map.next_entry::<MetricKey, f64>()? {
                if let Some(_earlier) = values.insert(key.clone(), value) {
                    return Err(A::Error::custom(format!("metric `{key}` is given twice")));
                }
            }
            Ok(values)
        }
    }

    deserializer.deserialize_map(Values)
}
