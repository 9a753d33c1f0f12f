//! Who runs where, a line for each switch: `perf sched map`.
//!
//! Each task gets a name of a letter and a digit when it is first switched in, the idle tasks a dot. A line shows what
//! all CPUs run after a switch, with a star at the CPU of the switch, and explains a new name. Lines, columns and the
//! order of names are perf's; names of tasks are those in the events, where perf has only numbers for tasks that lived
//! before the recording. perf gives the same name again after 260 tasks; here three characters follow.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::io::{self, Write};

use schedlab_trace::Comm;
use serde_json::json;

use crate::history::{History, Named, Observer, Step, StepKind, TaskId};
use crate::timehist::TimehistForm;
use crate::timehist::seconds;

/// What to print.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MapOptions {
    /// Form of the lines; JSON is an object a line.
    pub form: TimehistForm,
    /// How many CPUs have a column.
    pub cpus: u32,
    /// Columns only for CPUs that switch, in the order in which they begin to.
    pub compact: bool,
}

/// The observer: writes lines as switches come.
#[derive(Debug)]
pub struct Map<W> {
    options: MapOptions,
    out: W,
    line: String,
    /// Short name, and the task's name when it was explained last.
    names: BTreeMap<TaskId, (String, Comm)>,
    idle_named: bool,
    /// What each CPU runs, by column.
    columns: Vec<(u32, Option<String>)>,
    error: Option<io::Error>,
}

/// Most CPUs that have a column without a switch.
const COLUMNS_MAX: u32 = 4096;

impl<W: Write> Map<W> {
    /// Without events.
    #[must_use]
    pub fn new(options: MapOptions, out: W) -> Self {
        let columns = if options.compact {
            0
        } else {
            options.cpus.min(COLUMNS_MAX)
        };
        let mut this = Self {
            columns: (0..columns).map(|cpu| (cpu, None)).collect(),
            options,
            out,
            line: String::new(),
            names: BTreeMap::new(),
            idle_named: false,
            error: None,
        };
        if this.options.form == TimehistForm::Csv {
            this.line.push_str("time_ns,cpu,name,comm,tid\n");
            this.flush();
        }
        this
    }

    /// Whether writing failed; further lines are not written then.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.error.is_some()
    }

    /// Gives the output back.
    ///
    /// # Errors
    /// The first that writing met.
    pub fn finish(mut self) -> io::Result<W> {
        match self.error {
            Some(error) => Err(error),
            None => {
                self.out.flush()?;
                Ok(self.out)
            }
        }
    }

    fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.out.write_all(self.line.as_bytes()).err();
        }
        self.line.clear();
    }

    /// The name of a task or of idle, and whether it is to be explained: when it is new, or the task's name changed.
    fn name(&mut self, task: Option<TaskId>, comm: Comm) -> (String, bool) {
        let Some(id) = task else {
            return (
                ".".to_owned(),
                !std::mem::replace(&mut self.idle_named, true),
            );
        };
        let count = self.names.len();
        match self.names.entry(id) {
            Entry::Occupied(mut entry) => {
                let (name, explained) = entry.get_mut();
                let renamed = std::mem::replace(explained, comm) != comm;
                (name.clone(), renamed)
            }
            Entry::Vacant(entry) => {
                let (name, _) = entry.insert((short_name(count), comm));
                (name.clone(), true)
            }
        }
    }

    /// Puts the name into the CPU's column, and says whether the column is new.
    fn place(&mut self, cpu: u32, name: &str) -> bool {
        let found = if self.options.compact {
            self.columns.iter().position(|&(c, _)| c == cpu)
        } else {
            self.columns.binary_search_by_key(&cpu, |&(c, _)| c).ok()
        };
        match found {
            Some(at) => {
                self.columns[at].1 = Some(name.to_owned());
                false
            }
            None => {
                // A CPU past those announced goes to its place by number.
                let at = if self.options.compact {
                    self.columns.len()
                } else {
                    self.columns.partition_point(|&(c, _)| c < cpu)
                };
                self.columns.insert(at, (cpu, Some(name.to_owned())));
                true
            }
        }
    }

    fn switched(&mut self, ts: u64, cpu: u32, next: Named, task: Option<TaskId>) {
        let (name, new_name) = self.name(task, next.comm);
        let new_cpu = self.place(cpu, &name);
        let comm = match next {
            Named { pid: 0, .. } => "swapper".to_owned(),
            Named { comm, pid, .. } if comm.as_bytes().is_empty() => format!(":{pid}"),
            Named { comm, .. } => comm.to_string(),
        };
        match self.options.form {
            TimehistForm::Text => {
                self.line.push_str("  ");
                for (column, name) in &self.columns {
                    let star = if *column == cpu { '*' } else { ' ' };
                    let name = name.as_deref().unwrap_or("");
                    let _ = write!(self.line, "{star}{name:<2} ");
                }
                let _ = write!(self.line, "  {:>12} secs ", seconds(ts));
                if new_name {
                    let _ = write!(self.line, "{name:<2} => {comm}:{}", next.pid);
                }
                if self.options.compact && new_cpu {
                    let _ = write!(self.line, " (CPU {cpu})");
                }
                self.line.push('\n');
            }
            TimehistForm::Json => {
                let value = json!({
                    "time_ns": ts, "cpu": cpu, "name": name, "comm": comm, "tid": next.pid,
                });
                let _ = writeln!(self.line, "{value}");
            }
            TimehistForm::Csv => {
                let comm = crate::timehist::quoted(&comm);
                let _ = writeln!(self.line, "{ts},{cpu},{name},{comm},{}", next.pid);
            }
        }
        self.flush();
    }
}

/// `A0` to `Z0`, `A1` to `Z9`, then `A10`.
fn short_name(index: usize) -> String {
    let letter = char::from(b'A' + u8::try_from(index % 26).unwrap_or(0));
    format!("{letter}{}", index / 26)
}

impl<W: Write> Observer for Map<W> {
    fn event(
        &mut self,
        _: &History,
        ts: u64,
        step: &Step,
        _: Option<TaskId>,
        next: Option<TaskId>,
    ) {
        if let StepKind::Switch { next: named, .. } = step.kind {
            self.switched(ts, step.cpu, named, next);
        }
    }
}
