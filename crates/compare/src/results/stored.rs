//! How results lie on disk: everything that goes in is checked on the way back.

use serde::{Deserialize, Serialize};

use super::{ResultSet, SampleError, Variant};
use crate::metric::Metric;

/// The name and version of the stored form.
const SCHEMA: &str = "schedlab.results/1";

/// How a [`ResultSet`] lies on disk.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    schema: String,
    axis: String,
    #[serde(default)]
    common: Vec<(String, String)>,
    metrics: Vec<Metric>,
    variants: Vec<Variant>,
}

impl From<ResultSet> for Stored {
    fn from(set: ResultSet) -> Self {
        let ResultSet {
            axis,
            common,
            metrics,
            variants,
            index: _,
        } = set;
        Self {
            schema: SCHEMA.to_owned(),
            axis,
            common,
            metrics,
            variants,
        }
    }
}

impl TryFrom<Stored> for ResultSet {
    type Error = SampleError;

    fn try_from(stored: Stored) -> Result<Self, SampleError> {
        if stored.schema != SCHEMA {
            return Err(SampleError::Json(format!(
                "schema {:?}: expected {SCHEMA:?}",
                stored.schema
            )));
        }
        let mut set = Self::new(stored.axis);
        for (key, value) in stored.common {
            set.add_common(key, value)?;
        }
        for metric in stored.metrics {
            if set.metric(metric.key.as_str()).is_some() {
                return Err(SampleError::Duplicate {
                    what: "metric",
                    name: metric.key.into(),
                });
            }
            set.declare(metric)?;
        }
        for variant in stored.variants {
            set.add_variant(variant)?;
        }
        Ok(set)
    }
}
