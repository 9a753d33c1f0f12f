//! The same load as an rt-app file, for a live run.

use std::fmt::Write;

use schedlab_analysis::load::{Act, Birth, TaskIndex, Until};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use super::words::{Charges, Priority, Word};
use super::{RecordedLoad, Repeat};

/// An rt-app file and what it could not hold.
#[derive(Clone, PartialEq, Debug)]
pub struct RtAppText {
    /// The file.
    pub text: String,
    /// What differs from the load, one sentence each.
    pub lost: Vec<String>,
}

/// An object whose keys keep their order, which is the order of the events.
#[derive(Default)]
struct Object(Vec<(String, Item)>);

enum Item {
    Value(Value),
    Object(Object),
}

impl Object {
    fn insert(&mut self, key: impl Into<String>, value: Value) {
        self.0.push((key.into(), Item::Value(value)));
    }

    fn object(&mut self, key: impl Into<String>, value: Object) {
        self.0.push((key.into(), Item::Object(value)));
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, item) in &self.0 {
            match item {
                Item::Value(value) => map.serialize_entry(key, value)?,
                Item::Object(object) => map.serialize_entry(key, object)?,
            }
        }
        map.end()
    }
}

/// Whole microseconds out of nanoseconds, the rest carried on.
#[derive(Default)]
struct Micros {
    rest: u64,
}

impl Micros {
    fn take(&mut self, ns: u64) -> u64 {
        let all = self.rest.saturating_add(ns);
        self.rest = all % 1_000;
        all / 1_000
    }
}

impl RecordedLoad<'_> {
    /// The load in rt-app's JSON, times in whole microseconds.
    #[must_use]
    pub fn rt_app(&self) -> RtAppText {
        let mut tasks = Object::default();
        let mut cut = 0u64;
        let mut charges = Charges::new(self.load, self.costs.1, self.hz());
        for i in 0..self.load.tasks.len() {
            let (value, rest) = self.thread(i, &mut charges);
            cut += rest;
            tasks.object(self.names[i].clone(), value);
        }
        let duration = match self.repeat {
            Repeat::Times(_) => -1,
            Repeat::Until(end) => i64::try_from(end.0.div_ceil(1_000_000_000)).unwrap_or(i64::MAX),
        };
        let mut file = Object::default();
        let global = json!({ "default_policy": "SCHED_OTHER", "duration": duration });
        file.insert("global", global);
        file.object("tasks", tasks);
        let mut text = serde_json::to_string_pretty(&file).unwrap_or_default();
        text.push('\n');
        RtAppText {
            text,
            lost: self.lost(cut),
        }
    }

    fn thread(&self, index: TaskIndex, charges: &mut Charges) -> (Object, u64) {
        let task = &self.load.tasks[index];
        let forked = matches!(task.birth, Birth::Forked(..));
        let round = match self.repeat {
            _ if forked => None,
            Repeat::Times(0 | 1) => None,
            _ => Some(self.round().0),
        };
        let words = charges.words(task, self.lead().0, round);
        let mut thread = Object::default();
        thread.insert("instance", json!(u8::from(!forked)));
        let times = match self.repeat {
            _ if forked => 1,
            Repeat::Times(n) => i64::from(n.max(1)),
            Repeat::Until(_) => -1,
        };
        thread.insert("loop", json!(times));
        if !matches!(task.birth, Birth::Asleep | Birth::Forked(..)) {
            let start = self.lead().0.saturating_add(task.start());
            thread.insert("delay", json!(start / 1_000));
        }
        if let Some(prio) = task.prio {
            properties(&mut thread, &Priority::of(prio));
        }
        if let Some(cpus) = self.cpus_of(task) {
            thread.insert("cpus", json!(cpus));
        }
        let (phases, cut) = self.phases(index, &words);
        match <[Object; 1]>::try_from(phases) {
            Ok([only]) => thread.0.extend(only.0),
            Err(several) => {
                let mut named = Object::default();
                for (n, phase) in several.into_iter().enumerate() {
                    named.object(format!("p{n}"), phase);
                }
                thread.object("phases", named);
            }
        }
        (thread, cut)
    }

    /// The events, a new phase at each change of priority; and nanoseconds that were cut off.
    fn phases(&self, index: TaskIndex, words: &[Word]) -> (Vec<Object>, u64) {
        let mut phases = Vec::new();
        let mut phase = Object::default();
        let (mut run, mut timer, mut sleep) =
            (Micros::default(), Micros::default(), Micros::default());
        let partner = self.load.tasks[index].partner;
        let taken = |i: TaskIndex| json!(format!("{} taken", self.names[i]));
        if partner.is_some() {
            // rt-app's semaphores begin with 0.
            phase.insert("sem_post_first", taken(index));
        }
        for (n, word) in words.iter().enumerate() {
            if let Word::Wake(i) | Word::HandOver(i, _) = *word
                && partner == Some(i)
            {
                phase.insert(format!("sem_wait{n}taken"), taken(i));
            }
            // Three events; that nothing comes between cannot be said.
            if let Word::HandOver(i, ns) = *word {
                phase.insert(format!("sem_post{n}"), json!(self.names[i]));
                if let us @ 1.. = run.take(ns) {
                    phase.insert(format!("run{n}"), json!(us));
                }
                phase.insert(format!("sem_wait{n}"), json!(self.names[index]));
                if partner.is_some() {
                    phase.insert(format!("sem_post{n}taken"), taken(index));
                }
                continue;
            }
            let (event, value) = match *word {
                Word::Run(ns) => match run.take(ns) {
                    0 => continue,
                    us => ("run", json!(us)),
                },
                Word::Timer(ns) => match timer.take(ns) {
                    0 => ("sleep", json!(1)),
                    us => (
                        "timer",
                        json!({ "ref": "unique", "period": us, "mode": "absolute" }),
                    ),
                },
                Word::Sleep(ns) | Word::Block(ns) => ("sleep", json!(sleep.take(ns).max(1))),
                Word::Wake(i) => ("sem_post", json!(self.names[i])),
                Word::Event => ("sem_wait", json!(self.names[index])),
                Word::HandOver(..) => continue,
                Word::Fork(i) => ("fork", json!(self.names[i])),
                Word::Yield => ("yield", json!("")),
                Word::Nice(nice) => {
                    phases.push(std::mem::take(&mut phase));
                    properties(&mut phase, &Priority::Nice(nice));
                    continue;
                }
                Word::Rt(priority) => {
                    phases.push(std::mem::take(&mut phase));
                    properties(&mut phase, &Priority::Rt(priority));
                    continue;
                }
            };
            phase.insert(format!("{event}{n}"), value);
            if partner.is_some() && matches!(word, Word::Event) {
                phase.insert(format!("sem_post{n}taken"), taken(index));
            }
        }
        phases.push(phase);
        (phases, run.rest)
    }

    fn lost(&self, cut: u64) -> Vec<String> {
        let mut lost = Vec::new();
        if cut > 0 {
            lost.push(format!(
                "times are whole microseconds: {cut} ns of work are cut off, at most 1 us a task"
            ));
        }
        let deep = self
            .load
            .tasks
            .iter()
            .flat_map(|t| &t.acts)
            .filter(|a| {
                matches!(
                    a,
                    Act::Sleep {
                        until: Until::After(_),
                        deep: true,
                        ..
                    }
                )
            })
            .count();
        if deep > 0 {
            lost.push(format!(
                "rt-app has no sleep in state D: {deep} of them are plain sleeps"
            ));
        }
        let mut kernel = String::from("number of CPUs, tick rate");
        if self.load.idle_exit.is_some() {
            let _ = write!(kernel, ", the time to leave idle");
        }
        lost.push(format!(
            "it says nothing of machine and kernel ({kernel}, profile): the machine that runs it does"
        ));
        lost
    }
}

fn properties(target: &mut Object, priority: &Priority) {
    match *priority {
        Priority::Nice(nice) => {
            target.insert("policy", json!("SCHED_OTHER"));
            target.insert("priority", json!(nice));
        }
        Priority::Rt(priority) => {
            target.insert("policy", json!("SCHED_FIFO"));
            target.insert("priority", json!(priority));
        }
    }
}
