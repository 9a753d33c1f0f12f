//! `--set KEY=VALUE`: changes to a document before it is read.

use crate::error::{Error, Place};
use crate::suggest::closest;
use crate::tree::{Node, Table, Value, parse_value};

/// Changes to a scenario, in the order in which they were given.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Overrides {
    list: Vec<Override>,
}

#[derive(Clone, PartialEq, Debug)]
struct Override {
    option: String,
    path: Vec<String>,
    append: bool,
    node: Node,
}

impl Overrides {
    /// No changes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one change written as `KEY=VALUE`, or `KEY+=VALUE` to append to a list.
    ///
    /// The value is TOML if it reads as such, else it is taken as a string, so that quotes are rarely needed.
    ///
    /// # Errors
    /// If there is no `=` or the key is empty.
    pub fn push(&mut self, option: &str) -> Result<(), Error> {
        let wrong = |problem: &str| Error::Override {
            option: option.into(),
            problem: problem.into(),
        };
        let (key, text) = option
            .split_once('=')
            .ok_or_else(|| wrong("expected KEY=VALUE, such as kernel.features=NO_RUN_TO_PARITY"))?;
        let (key, append) = match key.strip_suffix('+') {
            Some(key) => (key, true),
            None => (key, false),
        };
        let place = Place::Override(option.into());
        let path = split_key(key)
            .ok_or_else(|| wrong("the key is no dotted path, such as task.NAME.nice"))?;
        self.list.push(Override {
            option: option.into(),
            path,
            append,
            node: parse_value(text.trim(), &place),
        });
        Ok(())
    }

    /// Adds the changes that a document holds as a table, such as a study's variant: each leaf is one change.
    pub(crate) fn push_table(&mut self, table: &Table) {
        self.push_leaves(table, &[]);
    }

    fn push_leaves(&mut self, table: &Table, path: &[String]) {
        for entry in &table.entries {
            let mut path = path.to_vec();
            path.push(entry.key.clone());
            match &entry.node.value {
                Value::Table(inner) if !inner.entries.is_empty() => self.push_leaves(inner, &path),
                _ => self.list.push(Override {
                    option: path.join("."),
                    path,
                    append: false,
                    node: entry.node.clone(),
                }),
            }
        }
    }

    /// Adds all changes of another list behind these.
    pub fn extend(&mut self, other: &Self) {
        self.list.extend(other.list.iter().cloned());
    }

    /// Whether one of them changes a key of the document itself.
    pub(crate) fn names(&self, key: &str) -> bool {
        self.list.iter().any(|o| o.path == [key])
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Changes a document.
    pub(crate) fn apply(&self, document: &mut Node) -> Result<(), Error> {
        self.list.iter().try_for_each(|o| o.apply(document))
    }
}

impl Override {
    fn fail<T>(&self, problem: String) -> Result<T, Error> {
        Err(match &self.node.place {
            Place::Override(_) => Error::Override {
                option: self.option.clone(),
                problem,
            },
            place => Error::Conflict {
                place: place.clone(),
                key: self.path.join("."),
                problem,
            },
        })
    }

    fn apply(&self, document: &mut Node) -> Result<(), Error> {
        let mut path = self.path.clone();
        enter_workload(document, &mut path);
        let Some((last, parents)) = path.split_last() else {
            return self.fail("the key is empty".into());
        };
        let mut node = document;
        for segment in parents {
            node = self.step(node, segment)?;
        }
        if let Value::Array(_) = node.value {
            *self.element(node, last)? = self.node.clone();
            return Ok(());
        }
        let Value::Table(table) = &mut node.value else {
            return self.fail(format!(
                "`{}` has no keys, it is {}",
                parents.join("."),
                node.found()
            ));
        };
        if self.append {
            self.append_to(table, last)
        } else {
            table.set(last, self.node.clone());
            Ok(())
        }
    }

    /// Goes one key deeper, making a table where there is nothing.
    fn step<'n>(&self, node: &'n mut Node, segment: &str) -> Result<&'n mut Node, Error> {
        if let Value::Array(_) = node.value {
            return self.element(node, segment);
        }
        let found = node.found();
        let Value::Table(table) = &mut node.value else {
            return self.fail(format!(
                "`{segment}` lies inside {found}, which has no keys"
            ));
        };
        if table.get(segment).is_none() {
            let place = self.node.place.clone();
            let value = Value::Table(Table::default());
            table.set(segment, Node { place, value });
        }
        match table.get_mut(segment) {
            Some(next) => Ok(next),
            None => self.fail(format!("there is no `{segment}`")),
        }
    }

    /// An element of an array of tables, by its `name` or its number from 0.
    fn element<'n>(&self, node: &'n mut Node, segment: &str) -> Result<&'n mut Node, Error> {
        let Value::Array(items) = &mut node.value else {
            return self.fail(format!("there is no `{segment}`"));
        };
        let name_of = |n: &Node| {
            n.as_table()
                .and_then(|t| t.get("name"))
                .and_then(Node::as_str)
                .map(str::to_string)
        };
        let names: Vec<Option<String>> = items.iter().map(name_of).collect();
        let by_name = names.iter().position(|n| n.as_deref() == Some(segment));
        let by_number = || segment.parse::<usize>().ok().filter(|i| *i < names.len());
        match by_name.or_else(by_number).and_then(|i| items.get_mut(i)) {
            Some(item) => Ok(item),
            None => {
                let known: Vec<String> = names.into_iter().flatten().collect();
                let guess = closest(segment, &known)
                    .map_or(String::new(), |g| format!("; did you mean `{g}`?"));
                self.fail(format!(
                    "nothing is called `{segment}` there{guess}; the names are: {}",
                    known.join(", ")
                ))
            }
        }
    }

    fn append_to(&self, table: &mut Table, key: &str) -> Result<(), Error> {
        let added = match &self.node.value {
            Value::Array(items) => items.clone(),
            _ => vec![self.node.clone()],
        };
        match table.get_mut(key) {
            None => table.set(
                key,
                Node {
                    place: self.node.place.clone(),
                    value: Value::Array(added),
                },
            ),
            Some(old) => match &mut old.value {
                Value::Array(items) => items.extend(added),
                Value::String(_) => {
                    let first = old.clone();
                    old.value = Value::Array(std::iter::once(first).chain(added).collect());
                }
                _ => {
                    return self.fail(format!(
                        "`{key}` is {}, which nothing can be added to",
                        old.found()
                    ));
                }
            },
        }
        Ok(())
    }
}

/// Lets `workload.groups` mean `workload.hackbench.groups` where the document has just one workload.
fn enter_workload(document: &Node, path: &mut Vec<String>) {
    if path.len() < 2 || path[0] != "workload" {
        return;
    }
    let only = document
        .as_table()
        .and_then(|t| t.get("workload"))
        .and_then(Node::as_table)
        .filter(|t| t.entries.len() == 1)
        .map(|t| t.entries[0].key.clone());
    if let Some(name) = only.filter(|name| *name != path[1]) {
        path.insert(1, name);
    }
}

/// Splits a dotted key; a segment may be in quotes.
fn split_key(key: &str) -> Option<Vec<String>> {
    let mut out = Vec::new();
    let mut rest = key.trim();
    loop {
        let (segment, after) = match rest.chars().next()? {
            quote @ ('"' | '\'') => rest[1..].split_once(quote)?,
            _ => {
                let end = rest.find('.').unwrap_or(rest.len());
                (rest[..end].trim(), &rest[end..])
            }
        };
        if segment.is_empty() {
            return None;
        }
        out.push(segment.to_string());
        if after.is_empty() {
            return Some(out);
        }
        rest = after.strip_prefix('.')?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;
    use crate::tree;

    fn with(text: &str, options: &[&str]) -> Result<Node, Error> {
        let mut document = tree::parse(&Source::new("s.toml", text))?;
        let mut overrides = Overrides::new();
        for option in options {
            overrides.push(option)?;
        }
        overrides.apply(&mut document)?;
        Ok(document)
    }

    fn value<'a>(node: &'a Node, path: &[&str]) -> &'a Value {
        path.iter()
            .try_fold(node, |n, key| n.as_table()?.get(key))
            .map_or(&Value::Bool(false), |n| &n.value)
    }

    const TEXT: &str = r#"
[kernel]
features = ["NO_A"]
[[task]]
name = "web"
nice = 1
[[task]]
name = "x.y"
[workload.hackbench]
groups = 3
"#;

    #[test]
    fn dotted_keys_reach_tables_named_elements_and_new_keys() {
        let d = with(
            TEXT,
            &[
                "kernel.profile=6.12.0",
                "machine.cpus=8",
                "task.web.nice=-5",
                "task.\"x.y\".nice=7",
                "seed=3",
            ],
        )
        .unwrap();
        assert_eq!(
            value(&d, &["kernel", "profile"]),
            &Value::String("6.12.0".into())
        );
        assert_eq!(value(&d, &["machine", "cpus"]), &Value::Integer(8));
        assert_eq!(value(&d, &["seed"]), &Value::Integer(3));
        let Value::Array(tasks) = value(&d, &["task"]) else {
            panic!("no tasks")
        };
        assert_eq!(value(&tasks[0], &["nice"]), &Value::Integer(-5));
        assert_eq!(value(&tasks[1], &["nice"]), &Value::Integer(7));
    }

    #[test]
    fn a_workload_parameter_needs_no_workload_name() {
        let d = with(TEXT, &["workload.groups=9"]).unwrap();
        assert_eq!(
            value(&d, &["workload", "hackbench", "groups"]),
            &Value::Integer(9)
        );
        let d = with(TEXT, &["workload.hackbench.groups=8"]).unwrap();
        assert_eq!(
            value(&d, &["workload", "hackbench", "groups"]),
            &Value::Integer(8)
        );
    }

    #[test]
    fn lists_are_replaced_or_appended_to() {
        let d = with(TEXT, &["kernel.features=NO_B"]).unwrap();
        assert_eq!(
            value(&d, &["kernel", "features"]),
            &Value::String("NO_B".into())
        );
        let d = with(TEXT, &["kernel.features+=NO_B"]).unwrap();
        let Value::Array(list) = value(&d, &["kernel", "features"]) else {
            panic!("no list")
        };
        assert_eq!(list.len(), 2);
    }

    #[test]
    fn errors_name_the_option() {
        let error = |o: &str| with(TEXT, &[o]).unwrap_err().to_string();
        assert_eq!(
            error("task.wep.nice=1"),
            "--set task.wep.nice=1: nothing is called `wep` there; did you mean `web`?; the names are: web, x.y"
        );
        assert_eq!(
            error("kernel.features.a.b=1"),
            "--set kernel.features.a.b=1: nothing is called `a` there; the names are: "
        );
        assert_eq!(
            error("nice"),
            "--set nice: expected KEY=VALUE, such as kernel.features=NO_RUN_TO_PARITY"
        );
        assert_eq!(
            error("a..b=1"),
            "--set a..b=1: the key is no dotted path, such as task.NAME.nice"
        );
        assert_eq!(
            error("=1"),
            "--set =1: the key is no dotted path, such as task.NAME.nice"
        );
    }
}
