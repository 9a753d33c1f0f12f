//! Machine files: reading, and writing what was imported.

use std::fmt::Write;
use std::path::Path;

use schedlab_fair::Ns;
use schedlab_topology::{Arch, Cpu, CpuSet, Machine as Hardware};

use super::Machine;
use crate::error::Error;
use crate::reader::Field;
use crate::scenario::{Document, stem};
use crate::source::read_text;
use crate::time::show_time;

/// Lists longer than this go on in another line.
const LINE: usize = 100;

impl Machine {
    /// Reads a machine file.
    ///
    /// # Errors
    /// At everything that is not understood, with file, line, column and key.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = read_text(path)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let document = Document::parse(&path.display().to_string(), &text, directory)?;
        let mut machine = Self::of_document(&document)?;
        if machine.hardware.name == "custom" {
            machine.hardware.name = stem(path);
        }
        Ok(machine)
    }

    /// Reads a machine file from text; `name` is what messages call it.
    ///
    /// # Errors
    /// As [`Machine::load`].
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        Self::of_document(&Document::parse(name, text, Path::new(""))?)
    }

    fn of_document(document: &Document) -> Result<Self, Error> {
        let root = Field {
            path: String::new(),
            node: &document.root,
        };
        Self::read_file(&root, &document.directory)
    }

    /// The machine as a file that [`Machine::parse`] reads.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let m = &self.hardware;
        let mut out = String::new();
        let mut key = |name: &str, value: &str| {
            let _ = writeln!(out, "{name} = {value}");
        };
        key("name", &quoted(&m.name));
        key("about", &quoted(&m.about));
        key("source", &quoted(&m.source));
        if m.arch == Arch::Generic {
            key("arch", "\"generic\"");
        }
        key("cpus", &m.nr_cpus().to_string());
        if m.is_asymmetric() {
            let list: Vec<String> = m.cpus.iter().map(|c| c.capacity.to_string()).collect();
            key("capacity", &array(&list));
        }
        if m.nr_nodes() > 1 {
            let rows: Vec<String> = m.distances.iter().map(|r| format!("{r:?}")).collect();
            key("distances", &array(&rows));
            key("reclaim_distance", &m.reclaim_distance.to_string());
        }
        key("hz", &self.hz.to_string());
        if self.tick_skew > Ns::ZERO {
            key("tick_skew", &quoted(&show_time(self.tick_skew)));
        }
        if let Some(name) = &self.costs_name {
            key("costs", &quoted(name));
        }
        out.push_str(&layout(m));
        for s in &m.idle_states {
            let _ = write!(
                out,
                "\n[[idle_state]]\nname = {}\nexit_latency = \"{}\"\ntarget_residency = \"{}\"\n",
                quoted(&s.name),
                show_time(Ns(s.exit_latency)),
                show_time(Ns(s.target_residency))
            );
        }
        if self.costs_name.is_none() {
            out.push_str("\n[costs]\n");
            out.push_str(&crate::costs::to_toml(&self.costs));
        }
        out
    }
}

fn layout(m: &Hardware) -> String {
    let mut out = String::from("\n[layout]\n");
    let mut units = |name: &str, key: fn(&Cpu) -> u32| {
        let sets: Vec<String> = by_number(m, key)
            .iter()
            .map(|s| quoted(&s.to_string()))
            .collect();
        let _ = writeln!(out, "{name} = {}", array(&sets));
    };
    units("cores", |c| c.core);
    if m.cpus.iter().any(|c| {
        m.cpus
            .iter()
            .any(|d| c.cluster == d.cluster && c.core != d.core)
    }) {
        units("clusters", |c| c.cluster);
    }
    units("llcs", |c| c.llc);
    units("nodes", |c| c.node);
    units("sockets", |c| c.socket);
    out
}

/// Sets in the order of their numbers, so that numbers survive.
fn by_number(m: &Hardware, key: fn(&Cpu) -> u32) -> Vec<CpuSet> {
    let mut sets = m.units(key);
    sets.sort_by_key(|s| m.cpus.get(s.first() as usize).map_or(0, key));
    sets
}

/// A string as TOML has it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

/// A list, over several lines if long.
fn array(items: &[String]) -> String {
    let line = format!("[{}]", items.join(", "));
    if line.len() <= LINE {
        return line;
    }
    let mut out = String::from("[");
    let mut width = LINE;
    for item in items {
        if width + item.len() + 2 > LINE {
            out.push_str("\n   ");
            width = 3;
        }
        let _ = write!(out, " {item},");
        width += item.len() + 2;
    }
    out.push_str("\n]");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for name in ["flat-3", "desktop-8", "phone-6", "srf-192", "epyc-256"] {
            let mut machine = Machine::by_name(name).unwrap();
            machine.hardware.about = "a \"quoted\" \\ line\nand another".into();
            let read = Machine::parse("m.toml", &machine.to_toml()).unwrap();
            assert_eq!(read.hardware, machine.hardware, "{name}");
            assert_eq!(read.costs, machine.costs);
            assert_eq!((read.hz, read.tick_skew), (machine.hz, machine.tick_skew));
        }
    }

    #[test]
    fn costs_that_are_no_profile_are_written_one_by_one() {
        let mut machine = Machine::by_name("flat-2").unwrap();
        machine.costs.pick = 77;
        machine.costs_name = None;
        machine.tick_skew = Ns(1_500);
        let read = Machine::parse("m.toml", &machine.to_toml()).unwrap();
        assert_eq!((read.costs, read.tick_skew), (machine.costs, Ns(1_500)));
    }
}
