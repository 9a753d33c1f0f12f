//! The scenario file of a recorded load.

use std::fmt::Write;

use schedlab_analysis::load::{Birth, LoadTask, TaskIndex};
use schedlab_fair::Ns;

use super::words::{Charges, Priority, Word};
use super::{RecordedLoad, Repeat, changed_features};
use crate::cpulist::show_cpu_list;
use crate::time::show_time;

/// Words of a record on one line.
const WORDS_A_LINE: usize = 16;

impl RecordedLoad<'_> {
    /// The scenario as a file's text, in the form of `docs/formats/scenario.md`.
    #[must_use]
    pub fn toml(&self) -> String {
        let load = self.load;
        let mut charges = Charges::new(load, self.costs.1, self.hz());
        let mut tasks = String::new();
        for i in 0..load.tasks.len() {
            self.task(i, &mut charges, &mut tasks);
        }
        let mut out = String::from(
            "# A recorded load, made by `schedlab replay`. The form of `record` is described in docs/formats/scenario.md.\n",
        );
        if charges.too_much > 0 {
            let _ = writeln!(
                out,
                "# The costs exceed the recorded work by {}.",
                show_time(Ns(charges.too_much))
            );
        }
        self.head(&mut out);
        out.push_str(&tasks);
        out
    }

    fn head(&self, out: &mut String) {
        let load = self.load;
        let _ = writeln!(out, "name = {}", quoted(&self.name));
        let _ = writeln!(
            out,
            "# The trace begins at {} and lasts {}.\nduration = \"{}\"",
            show_time(self.lead()),
            show_time(Ns(load.span)),
            show_time(self.duration())
        );
        let skew = match load.hz == Some(self.hz()) && load.tick_skew > 0 {
            true => format!(", tick_skew = \"{}ns\"", load.tick_skew),
            false => String::new(),
        };
        let _ = writeln!(
            out,
            "machine = {{ cpus = {}, hz = {}{skew} }}",
            load.cpus.max(1),
            self.hz()
        );
        let zero = self.costs.1.is_zero();
        match load.idle_exit.filter(|_| zero && load.cpus > 1) {
            // What a wakeup on an idle CPU takes is no task's work, so it is not in the record.
            Some(ns) => {
                let ns = ns.min(1_000_000_000);
                let _ = writeln!(
                    out,
                    "costs = {{ profile = \"{}\", idle_exit = \"{ns}ns\" }}",
                    self.costs.0
                );
            }
            None => {
                let _ = writeln!(out, "costs = \"{}\"", self.costs.0);
            }
        }
        let profile = &self.kernel.profile;
        let _ = writeln!(out, "\n[kernel]\nprofile = \"{}\"", profile.name);
        let features = changed_features(profile);
        if !features.is_empty() {
            let _ = writeln!(out, "features = [\"{}\"]", features.join("\", \""));
        }
        if let Some(slice) = profile.tunables.base_slice {
            let _ = writeln!(out, "base_slice = \"{}\"", show_time(slice));
        }
    }

    fn task(&self, index: TaskIndex, charges: &mut Charges, out: &mut String) {
        let task = &self.load.tasks[index];
        let forked = matches!(task.birth, Birth::Forked(..));
        let _ = writeln!(out, "\n[[task]]\nname = {}", quoted(&self.names[index]));
        if forked {
            out.push_str("count = 0\n");
        }
        match task.prio.map(Priority::of) {
            Some(Priority::Rt(priority)) => {
                let _ = writeln!(out, "policy = \"fifo\"\nrt_priority = {priority}");
            }
            Some(Priority::Nice(nice)) if nice != 0 => {
                let _ = writeln!(out, "nice = {nice}");
            }
            _ => {}
        }
        if let Some(cpus) = self.cpus_of(task) {
            let _ = writeln!(out, "cpus = \"{}\"", show_cpu_list(&cpus));
        }
        match task.birth {
            Birth::Asleep | Birth::Forked(..) => {}
            _ => {
                let start = self.lead().0.saturating_add(task.start());
                let _ = writeln!(out, "start = \"{}\"", show_time(Ns(start)));
            }
        }
        out.push_str("kind = \"replay\"\n");
        if let Some(partner) = task.partner {
            let _ = writeln!(out, "partner = {}", quoted(&self.names[partner]));
        }
        let round = match self.repeat {
            _ if forked => None,
            Repeat::Times(0 | 1) => None,
            Repeat::Times(n) => {
                let _ = writeln!(out, "loops = {n}");
                Some(self.round().0)
            }
            Repeat::Until(_) => {
                out.push_str("loops = \"forever\"\n");
                Some(self.round().0)
            }
        };
        self.record(&charges.words(task, self.lead().0, round), out);
    }

    /// A forked task has its parent's CPUs unless it says otherwise.
    pub(super) fn cpus_of(&self, task: &LoadTask) -> Option<Vec<u32>> {
        if !task.affinity.is_empty() {
            return Some(task.affinity.clone());
        }
        match task.birth {
            Birth::Forked(parent, _) if !self.load.tasks[parent].affinity.is_empty() => {
                Some((0..self.load.cpus).collect())
            }
            _ => None,
        }
    }

    fn record(&self, words: &[Word], out: &mut String) {
        let mut peers: Vec<TaskIndex> = Vec::new();
        let mut places: std::collections::BTreeMap<TaskIndex, usize> =
            std::collections::BTreeMap::new();
        let mut text = String::new();
        for (n, word) in words.iter().enumerate() {
            text.push(if n % WORDS_A_LINE == 0 { '\n' } else { ' ' });
            let mut peer = |i: TaskIndex| {
                *places.entry(i).or_insert_with(|| {
                    peers.push(i);
                    peers.len() - 1
                })
            };
            let _ = match *word {
                Word::Run(ns) => write!(text, "r{ns}"),
                Word::Wake(i) => write!(text, "w{}", peer(i)),
                Word::Fork(i) => write!(text, "f{}", peer(i)),
                Word::HandOver(i, ns) => write!(text, "h{}:{ns}", peer(i)),
                Word::Event => write!(text, "e"),
                Word::Timer(ns) => write!(text, "t{ns}"),
                Word::Sleep(ns) => write!(text, "s{ns}"),
                Word::Block(ns) => write!(text, "d{ns}"),
                Word::Yield => write!(text, "y"),
                Word::Nice(nice) => write!(text, "n{nice}"),
                Word::Rt(priority) => write!(text, "p{priority}"),
            };
        }
        if !peers.is_empty() {
            let names: Vec<String> = peers.iter().map(|&i| quoted(&self.names[i])).collect();
            let _ = writeln!(out, "peers = [{}]", names.join(", "));
        }
        let _ = writeln!(out, "record = \"\"\"{text}\n\"\"\"");
    }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push('_'),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
