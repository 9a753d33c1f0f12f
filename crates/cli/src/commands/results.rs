//! Results to compare: stored sets, single runs, comparisons, folders of these.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use schedlab_compare::{Direction, Metric, MetricKey, ResultSet, Role, Run, Variant, merge};
use serde::Deserialize;

/// Largest file that is read, in bytes: 500 metrics of 1,000 runs are a tenth of it.
const FILE_LIMIT: u64 = 256 << 20;
/// Most files that are taken from one folder.
const FILES_LIMIT: usize = 100_000;

/// Reads all of them and puts their variants side by side; notes go to standard error.
pub(crate) fn load(paths: &[PathBuf]) -> Result<ResultSet> {
    let mut sources = Vec::new();
    for path in paths {
        let (name, path) = named(path);
        let set = source(&name, &path)?;
        sources.push((name, set));
    }
    let (set, notes) =
        merge::merge(&sources).map_err(|(name, error)| anyhow!("{name}: {error}"))?;
    for note in notes {
        eprintln!("schedlab: {note}");
    }
    Ok(set)
}

/// The name that a source lends to its variant, and its path: `NAME=PATH`, or the path alone.
fn named(path: &Path) -> (String, PathBuf) {
    if !path.exists()
        && let Some((name, rest)) = path.to_str().and_then(|p| p.split_once('='))
        && !name.is_empty()
    {
        return (name.to_owned(), PathBuf::from(rest));
    }
    let absolute = path.canonicalize();
    let stem = if path.is_dir() {
        absolute.as_deref().unwrap_or(path).file_name()
    } else {
        path.file_stem()
    };
    let name = stem.map_or_else(
        || path.display().to_string(),
        |s| s.to_string_lossy().into_owned(),
    );
    (name, path.to_path_buf())
}

fn source(name: &str, path: &Path) -> Result<ResultSet> {
    if !path.is_dir() {
        return documents(name, path).and_then(|found| pooled(name, path, found));
    }
    let mut files = Vec::new();
    for entry in
        std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?
    {
        let file = entry
            .with_context(|| format!("cannot read {}", path.display()))?
            .path();
        if file.extension().is_some_and(|e| e == "json") && file.is_file() {
            files.push(file);
        }
        if files.len() > FILES_LIMIT {
            bail!("{}: more than {FILES_LIMIT} JSON files", path.display());
        }
    }
    files.sort();
    if files.is_empty() {
        bail!(
            "{}: expected JSON files of `schedlab run --json` or stored results in it",
            path.display()
        );
    }
    let mut found = Vec::new();
    for file in &files {
        found.extend(documents(name, file)?);
    }
    pooled(name, path, found)
}

/// One document of a file: results, and whether it is a single run.
struct Document {
    set: ResultSet,
    single: bool,
}

/// Every JSON document of a file, of which there may be several in a row.
fn documents(name: &str, path: &Path) -> Result<Vec<Document>> {
    let text = read(path)?;
    let mut found = Vec::new();
    let stream = serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>();
    let at = |what: String| anyhow!("{}: {what}", path.display());
    for value in stream {
        let value = value.map_err(|e| at(format!("{e}; expected JSON")))?;
        let schema = value
            .get("schema")
            .and_then(serde_json::Value::as_str)
            .unwrap_or("none");
        let (set, single) = match schema {
            // From the text where it is the only document: the error then names line and column.
            "schedlab.results/1" => (
                match ResultSet::from_json(&text) {
                    Ok(set) => set,
                    Err(_) if !found.is_empty() => {
                        serde_json::from_value(value).map_err(|e| at(e.to_string()))?
                    }
                    Err(e) => return Err(at(e.to_string())),
                },
                false,
            ),
            "schedlab.run/1" => (
                serde_json::from_value::<RunOutput>(value)
                    .map_err(|e| at(e.to_string()))?
                    .set(name)
                    .map_err(|e| at(e.to_string()))?,
                true,
            ),
            "schedlab.comparison/1" => (
                serde_json::from_value::<ComparisonOutput>(value)
                    .map_err(|e| at(e.to_string()))?
                    .set()
                    .map_err(|e| at(e.to_string()))?,
                false,
            ),
            other => bail!(at(format!(
                "schema {other:?}: expected schedlab.results/1, schedlab.run/1 or schedlab.comparison/1"
            ))),
        };
        found.push(Document { set, single });
    }
    if found.is_empty() {
        return Err(at("it is empty; expected JSON".into()));
    }
    Ok(found)
}

/// All documents of one source as one set: single runs become runs of one variant.
fn pooled(name: &str, path: &Path, mut found: Vec<Document>) -> Result<ResultSet> {
    if found.len() == 1 {
        return Ok(found.remove(0).set);
    }
    if found.iter().any(|d| !d.single) {
        bail!(
            "{}: {} results in one place, not all of them single runs; expected one, or runs of one variant",
            path.display(),
            found.len()
        );
    }
    let mut set = ResultSet::new("variant");
    let first = &found[0].set;
    for (key, value) in first.common() {
        for other in &found {
            let theirs = other.set.common().iter().find(|(k, _)| k == key);
            if theirs.is_none_or(|(_, v)| v != value) {
                bail!(
                    "{}: runs differ in `{key}` ({value} and {}): unlike runs are not pooled",
                    path.display(),
                    theirs.map_or("-", |(_, v)| v.as_str())
                );
            }
        }
        set.add_common(key, value)?;
    }
    set.add_variant(Variant::new(name))?;
    for document in &found {
        for metric in document.set.metrics() {
            set.declare(metric.clone())
                .with_context(|| path.display().to_string())?;
        }
        for run in document.set.variants().iter().flat_map(Variant::runs) {
            set.add_run(name, run.clone())
                .with_context(|| path.display().to_string())?;
        }
    }
    Ok(set)
}

fn read(path: &Path) -> Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    let mut text = String::new();
    let mut input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).with_context(cannot)?)
    };
    (&mut input)
        .take(FILE_LIMIT + 1)
        .read_to_string(&mut text)
        .with_context(cannot)?;
    if text.len() as u64 > FILE_LIMIT {
        bail!("{}: larger than {FILE_LIMIT} bytes", path.display());
    }
    Ok(text)
}

/// What is needed of `run --json`.
#[derive(Deserialize)]
struct RunOutput {
    scenario: String,
    profile: String,
    machine: String,
    seed: u64,
    figures: Vec<FigureOutput>,
}

#[derive(Deserialize)]
struct FigureOutput {
    name: String,
    value: f64,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    direction: Direction,
    #[serde(default)]
    role: Role,
}

impl RunOutput {
    fn set(self, variant: &str) -> Result<ResultSet> {
        let mut set = ResultSet::new("variant");
        set.add_common("scenario", &self.scenario)?;
        set.add_common("machine", &self.machine)?;
        set.add_common("kernel", &self.profile)?;
        let program: String = self
            .scenario
            .chars()
            .map(|c| {
                if c.is_alphanumeric() || c == '-' || c == '_' {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        let mut run = Run::new(format!("seed={}", self.seed));
        for figure in self.figures {
            let key = format!("{program}.{}", figure.name);
            let mut metric = Metric::new(&key)?
                .with_unit(figure.unit)
                .with_direction(figure.direction);
            metric.role = figure.role;
            set.declare(metric)?;
            run.record(&key, figure.value)?;
        }
        set.add_variant(Variant::new(variant))?;
        set.add_run(variant, run)?;
        Ok(set)
    }
}

/// What is needed of `study --json` and `compare --format json`.
#[derive(Deserialize)]
struct ComparisonOutput {
    axis: String,
    common: Vec<(String, String)>,
    base: String,
    rows: Vec<RowOutput>,
}

#[derive(Deserialize)]
struct RowOutput {
    key: MetricKey,
    unit: String,
    direction: Direction,
    role: Role,
    kind: schedlab_compare::Kind,
    base_values: Vec<Option<f64>>,
    others: Vec<OtherOutput>,
}

#[derive(Deserialize)]
struct OtherOutput {
    variant: String,
    values: Vec<Option<f64>>,
}

impl ComparisonOutput {
    fn set(self) -> Result<ResultSet> {
        let mut set = ResultSet::new(self.axis);
        for (key, value) in self.common {
            set.add_common(key, value)?;
        }
        let mut variants: Vec<(String, Vec<Run>)> = Vec::new();
        for row in self.rows {
            set.declare(Metric {
                key: row.key.clone(),
                unit: row.unit,
                direction: row.direction,
                role: row.role,
                kind: row.kind,
            })?;
            let base = (self.base.clone(), row.base_values);
            let others = row.others.into_iter().map(|o| (o.variant, o.values));
            for (name, values) in std::iter::once(base).chain(others) {
                let at = match variants.iter().position(|(known, _)| *known == name) {
                    Some(at) => at,
                    None => {
                        variants.push((name, Vec::new()));
                        variants.len() - 1
                    }
                };
                let runs = &mut variants[at].1;
                for (number, value) in values.into_iter().enumerate() {
                    if number == runs.len() {
                        runs.push(Run::new(format!("{}", number + 1)));
                    }
                    if let Some(value) = value {
                        runs[number].record(row.key.as_str(), value)?;
                    }
                }
            }
        }
        for (name, runs) in variants {
            set.add_variant(Variant::new(&name))?;
            for run in runs {
                set.add_run(&name, run)?;
            }
        }
        Ok(set)
    }
}
