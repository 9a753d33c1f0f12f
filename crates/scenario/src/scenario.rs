//! A scenario: machine, kernel and what runs, from a file and overrides.

use std::path::{Path, PathBuf};

use schedlab_fair::Ns;

use crate::error::{Error, Place, Warning};
use crate::hackbench::Hackbench;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::objects;
use crate::overrides::Overrides;
use crate::plan::{Names, Plan};
use crate::reader::{Field, Reader};
use crate::rtapp::RtApp;
use crate::source::{Source, read_text};
use crate::steps::Objects;
use crate::tasks::{TaskReader, groups};
use crate::tree::{self, Node, Table, Value};

/// How long a scenario runs whose tasks never end, if nothing else is said.
const DEFAULT_DURATION: Ns = Ns::from_secs(1);

/// Names of the built-in workloads.
pub(crate) const WORKLOADS: [(&str, &str); 1] = [(
    "hackbench",
    "groups of senders that write to every receiver of their group, over sockets or pipes (rt-tests)",
)];

/// Everything that one simulation needs.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Name of the scenario.
    pub name: String,
    /// One line on what it is.
    pub title: String,
    /// The machine.
    pub machine: Machine,
    /// The kernel.
    pub kernel: Kernel,
    /// What the scheduler's own paths cost.
    pub costs: schedlab_sim::Costs,
    /// What runs.
    pub plan: Plan,
    /// The workload that the tasks come from, for its headline metric.
    pub workload: Option<Hackbench>,
    /// When the simulation ends; `None` for when all tasks have ended.
    pub duration: Option<Ns>,
    /// Seed of all random draws.
    pub seed: u64,
    /// Each task starts up to this much later, at random.
    pub start_jitter: Ns,
    /// What was accepted without effect.
    pub warnings: Vec<Warning>,
}

/// A document that is not yet read: a file's tree, and where relative paths in it start.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Document {
    pub(crate) root: Node,
    pub(crate) directory: PathBuf,
}

impl Document {
    pub(crate) fn parse(name: &str, text: &str, directory: &Path) -> Result<Self, Error> {
        Ok(Self {
            root: tree::parse(&Source::new(name, text))?,
            directory: directory.into(),
        })
    }
}

impl Scenario {
    /// Reads a scenario file, or an rt-app workload if the file's name ends in `.json`.
    ///
    /// # Errors
    /// At everything that is not understood, with file, line, column and key.
    pub fn load(path: &Path, overrides: &Overrides) -> Result<Self, Error> {
        let directory = path.parent().unwrap_or(Path::new("")).to_path_buf();
        if path
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("json"))
        {
            return Self::read(Self::around_rtapp(path), overrides);
        }
        let text = read_text(path)?;
        let document = Document::parse(&path.display().to_string(), &text, &directory)?;
        Self::read(document, overrides)
    }

    /// Reads a scenario from text; `name` is what messages call it. Relative paths start at `directory`.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse(
        name: &str,
        text: &str,
        directory: &Path,
        overrides: &Overrides,
    ) -> Result<Self, Error> {
        Self::read(Document::parse(name, text, directory)?, overrides)
    }

    /// The scenario that just runs an rt-app file on the default machine.
    fn around_rtapp(path: &Path) -> Document {
        let name = path.display().to_string();
        let place = Place::File {
            file: name.as_str().into(),
            line: 1,
            column: 1,
        };
        let node = |value| Node {
            place: place.clone(),
            value,
        };
        let mut table = Table::default();
        table.set("name", node(Value::String(stem(path))));
        table.set("rtapp", node(Value::String(name.clone())));
        Document {
            root: node(Value::Table(table)),
            directory: PathBuf::new(),
        }
    }

    pub(crate) fn read(mut document: Document, overrides: &Overrides) -> Result<Self, Error> {
        overrides.apply(&mut document.root)?;
        let reader = Reader::root(&document.root)?;
        let text = |key, default: &str| match reader.get(key) {
            None => Ok(default.to_string()),
            Some(f) => f.text("a string").map(str::to_string),
        };
        let (name, title) = (text("name", "scenario")?, text("title", "")?);
        let seed = reader
            .get("seed")
            .map_or(Ok(1), |f| f.integer(0..=u64::MAX))?;
        let duration = reader
            .get("duration")
            .map(|f| f.time_above_zero())
            .transpose()?;
        let start_jitter = reader
            .get("start_jitter")
            .map_or(Ok(Ns::ZERO), |f| f.time())?;
        let machine = Machine::read(reader.get("machine").as_ref(), &document.directory)?;
        let kernel = Kernel::read(reader.get("kernel").as_ref(), machine.cpus())?;
        let costs = crate::costs::read(reader.get("costs").as_ref(), machine.costs)?;
        let cpus = machine.cpus();
        let mut scenario = Self {
            name,
            title,
            machine,
            kernel,
            costs,
            plan: Plan::default(),
            workload: None,
            duration,
            seed,
            start_jitter,
            warnings: Vec::new(),
        };
        if let Some(f) = reader.get("machine")
            && scenario.machine.hardware.is_asymmetric()
        {
            scenario.warnings.push(Warning {
                place: f.node.place.clone(),
                key: f.path,
                note: "that its CPUs differ in speed is not simulated: all run at full capacity"
                    .into(),
            });
        }
        let has_tasks = reader.get("task").is_some() || reader.get("workload").is_some();
        if let Some(f) = reader.get("rtapp") {
            if has_tasks {
                return Err(
                    f.conflict("an rt-app file stands alone, without [[task]] and [workload]")
                );
            }
            scenario.rtapp(&f, &document.directory)?;
        } else if !has_tasks {
            return Err(Error::Missing {
                place: document.root.place.clone(),
                key: "task".into(),
                expected: "something that runs: [[task]], [workload] or rtapp".into(),
            });
        } else {
            let plan = &mut scenario.plan;
            let groups = groups(reader.get("group"), plan)?;
            let mut objects = Objects::default();
            objects::declarations(&reader, plan, &mut objects)?;
            TaskReader {
                plan,
                objects: &mut objects,
                groups: &groups,
                cpus,
                autogroup: scenario.kernel.autogroup,
                sessions: Names::default(),
            }
            .read(reader.get("task"))?;
            objects.count_barriers(plan);
            scenario.workload = workload(reader.get("workload"), cpus, &groups)?;
            if let Some(h) = &scenario.workload {
                h.build(&mut scenario.plan, Ns(scenario.costs.syscall));
            }
        }
        reader.finish()?;
        if scenario.duration.is_none() && scenario.plan.has_endless_task() {
            scenario.duration = Some(DEFAULT_DURATION);
        }
        Ok(scenario)
    }

    fn rtapp(&mut self, field: &Field<'_>, directory: &Path) -> Result<(), Error> {
        let path = directory.join(field.text("the path of an rt-app file")?);
        let text = read_text(&path)?;
        let app = RtApp::parse(&path.display().to_string(), &text, self.machine.cpus())?;
        self.plan = app.plan;
        self.duration = self.duration.or(app.duration);
        self.warnings.extend(app.warnings);
        Ok(())
    }
}

/// `[workload]`, a table with the name of one built-in workload.
fn workload(
    field: Option<Field<'_>>,
    cpus: u32,
    groups: &Names<u32>,
) -> Result<Option<Hackbench>, Error> {
    let Some(field) = field else { return Ok(None) };
    let reader = Reader::new(&field, "a table such as { hackbench = { groups = 10 } }")?;
    let hackbench = reader
        .need(
            "hackbench",
            "the options of a workload, such as { groups = 10 }",
        )
        .and_then(|f| Hackbench::read(&f, cpus, groups));
    // A workload that does not exist is the better message than one that is missing.
    reader.finish()?;
    hackbench.map(Some)
}

/// A file's name without directory and extension.
pub(crate) fn stem(path: &Path) -> String {
    path.file_stem()
        .map_or_else(|| "scenario".into(), |s| s.to_string_lossy().into_owned())
}
