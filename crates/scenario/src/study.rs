//! Studies: one scenario in several variants, each run with several seeds and compared.

use std::path::{Path, PathBuf};

use crate::builtin;
use crate::error::Error;
use crate::machine::Machine;
use crate::overrides::Overrides;
use crate::reader::{Field, Reader};
use crate::scenario::{Document, Scenario};
use crate::source::read_text;
use crate::tree::Node;

/// Most runs of a variant.
const RUNS_LIMIT: u32 = 10_000;

/// A study as its file describes it.
#[derive(Clone, PartialEq, Debug)]
pub struct Study {
    /// Name, as typed after `schedlab study`.
    pub name: String,
    /// One line on what is compared.
    pub title: String,
    /// The question that it answers.
    pub question: String,
    /// Program name in front of the metrics, as in LKP (`hackbench`).
    pub program: String,
    /// Machine that it runs on if nothing else is said.
    pub machine: String,
    /// Other machines for which it is made.
    pub machines: Vec<String>,
    /// Runs of each variant if nothing else is said.
    pub runs: u32,
    /// Seed of the first run; run `i` has this plus `i`.
    pub seed: u64,
    /// Metrics to show first.
    pub metrics: Vec<String>,
    /// What is compared, the base first.
    pub variants: Vec<Variant>,
    document: Document,
}

/// One column of a study.
#[derive(Clone, PartialEq, Debug)]
pub struct Variant {
    /// Short name, for the command line and file names.
    pub name: String,
    /// What stands over the column.
    pub label: String,
    /// What it changes in the scenario.
    pub set: Overrides,
}

impl Study {
    /// Finds a built-in study by name, or reads a file.
    ///
    /// # Errors
    /// If there is neither, or the file is wrong.
    pub fn find(name: &str) -> Result<Self, Error> {
        if let Some(text) = builtin::study(name) {
            return Self::parse(&format!("{name}.toml"), text, Path::new(""));
        }
        let path = Path::new(name);
        if !path.exists() && !name.contains(['/', '.']) {
            return Err(Error::NoSuchStudy {
                name: name.into(),
                known: builtin::STUDIES
                    .iter()
                    .map(|(n, _)| (*n).to_string())
                    .collect(),
            });
        }
        Self::load(path)
    }

    /// Reads a study file.
    ///
    /// # Errors
    /// At everything that is not understood, with file, line, column and key.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let directory = path.parent().unwrap_or(Path::new("")).to_path_buf();
        Self::parse(&path.display().to_string(), &read_text(path)?, &directory)
    }

    /// Reads a study from text; `name` is what messages call it. Relative paths start at `directory`.
    ///
    /// # Errors
    /// As [`Study::load`].
    pub fn parse(name: &str, text: &str, directory: &Path) -> Result<Self, Error> {
        let document = Document::parse(name, text, directory)?;
        let reader = Reader::root(&document.root)?;
        let string = |key, expected: &str| -> Result<String, Error> {
            reader
                .need(key, expected)?
                .text(expected)
                .map(str::to_string)
        };
        let machine = reader.need("machine", "the name of the machine to run on")?;
        let mut machines = Vec::new();
        if let Some(f) = reader.get("machines") {
            for (name, field) in f.words("a list of machines")? {
                Machine::named(&field, &name, directory)?;
                machines.push(name);
            }
        }
        let machine_name = machine.text("the name of a machine")?;
        Machine::named(&machine, machine_name, directory)?;
        let mut metrics = Vec::new();
        if let Some(f) = reader.get("metrics") {
            for (metric, _) in f.words("a list of metrics")? {
                metrics.push(metric);
            }
        }
        let study = Self {
            name: string("name", "the study's name")?,
            title: string("title", "one line on what is compared")?,
            question: string("question", "the question that the study answers")?,
            program: string(
                "program",
                "the name in front of the metrics, such as \"hackbench\"",
            )?,
            // A file's path starts here, not where the program does.
            machine: match Machine::is_file_name(machine_name) {
                true => directory.join(machine_name).display().to_string(),
                false => machine_name.into(),
            },
            machines,
            runs: reader
                .get("runs")
                .map_or(Ok(5), |f| f.integer(1..=RUNS_LIMIT))?,
            seed: reader
                .get("seed")
                .map_or(Ok(1), |f| f.integer(0..=u64::MAX / 2))?,
            metrics,
            variants: variants(&reader.need("variant", "at least two [[variant]]s")?)?,
            document: scenario(
                &reader.need("scenario", "a table, or the path of a file")?,
                directory,
            )?,
        };
        reader.finish()?;
        // A study with a mistake in a variant should say so before the first run of the others.
        for variant in 0..study.variants.len() {
            study.scenario(variant, &Overrides::new(), 0)?;
        }
        Ok(study)
    }

    /// The scenario of one run of one variant; `overrides` are the user's.
    ///
    /// A variant's own changes come last, so that no `--set` makes two variants alike by accident.
    ///
    /// # Errors
    /// At overrides that do not fit.
    pub fn scenario(
        &self,
        variant: usize,
        overrides: &Overrides,
        run: u32,
    ) -> Result<Scenario, Error> {
        let mut all = Overrides::new();
        all.push(&format!("machine={}", self.machine))?;
        all.extend(overrides);
        if let Some(v) = self.variants.get(variant) {
            all.extend(&v.set);
        }
        let mut scenario = Scenario::read(self.document.clone(), &all)?;
        scenario.seed = self
            .seed_of(overrides, scenario.seed)
            .wrapping_add(u64::from(run));
        Ok(scenario)
    }

    /// The user's seed if there is one, else the study's.
    fn seed_of(&self, overrides: &Overrides, from_scenario: u64) -> u64 {
        if overrides.names("seed") {
            from_scenario
        } else {
            self.seed
        }
    }
}

fn variants(field: &Field<'_>) -> Result<Vec<Variant>, Error> {
    let mut out: Vec<Variant> = Vec::new();
    for item in field.array("a list of [[variant]]s")? {
        let reader = Reader::new(&item, "a variant")?;
        let name_field = reader.need("name", "the variant's short name")?;
        let name = name_field.text("the variant's short name")?;
        if out.iter().any(|v| v.name == name) {
            return Err(name_field.conflict(format!("the name `{name}` is used twice")));
        }
        let mut set = Overrides::new();
        if let Some(f) = reader.get("set") {
            match f.node.as_table() {
                Some(table) => set.push_table(table),
                None => {
                    return Err(f.wrong("a table of changes, such as { kernel.nr_scope = \"rq\" }"));
                }
            }
        }
        out.push(Variant {
            name: name.into(),
            label: reader
                .get("label")
                .map_or(Ok(name), |f| f.text("what stands over the column"))?
                .into(),
            set,
        });
        reader.finish()?;
    }
    if out.len() < 2 {
        return Err(field.conflict("a study compares at least two variants"));
    }
    Ok(out)
}

/// The scenario inside the study, or the file that it names.
fn scenario(field: &Field<'_>, directory: &Path) -> Result<Document, Error> {
    if let Some(path) = field.node.as_str() {
        let path = directory.join(path);
        let inner: PathBuf = path.parent().unwrap_or(Path::new("")).into();
        return Document::parse(&path.display().to_string(), &read_text(&path)?, &inner);
    }
    if field.node.as_table().is_none() {
        return Err(field.wrong("a table, or the path of a scenario file"));
    }
    Ok(Document {
        root: Node::clone(field.node),
        directory: directory.into(),
    })
}
