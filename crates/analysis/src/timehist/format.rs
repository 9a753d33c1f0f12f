//! The lines, as perf 6.1 prints them.

use std::fmt::Write;

use schedlab_trace::{Comm, Pid, PrevState};
use serde_json::json;

use super::{Switch, TimehistOptions};
use crate::history::Named;

/// Form of the lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimehistForm {
    /// perf's.
    #[default]
    Text,
    /// A JSON object a line, times in ns.
    Json,
    /// CSV with a line of names, times in ns.
    Csv,
}

/// Width of a task's name.
const NAME: usize = 30;

/// A switch and what else its line may show.
pub(super) struct SwitchLine {
    pub(super) switch: Switch,
    pub(super) comm: Comm,
    pub(super) state: PrevState,
    pub(super) next: Named,
}

/// A wake event or a migration.
pub(super) struct Note {
    pub(super) ts: u64,
    pub(super) cpu: u32,
    pub(super) current: (Comm, Pid),
    pub(super) about: (Comm, Pid),
    /// From and to, for a migration.
    pub(super) moved: Option<(u32, u32)>,
}

/// `comm[tid]`, `:tid[tid]` without a name.
pub(super) fn task_name(comm: Comm, pid: Pid) -> String {
    if comm.as_bytes().is_empty() {
        format!(":{pid}[{pid}]")
    } else {
        format!("{comm}[{pid}]")
    }
}

/// Milliseconds with three decimals, cut.
pub(super) fn ms(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1000 % 1000)
}

/// Seconds with six decimals, cut.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
}

pub(super) fn header(options: &TimehistOptions, out: &mut String) {
    match options.form {
        TimehistForm::Text => {}
        TimehistForm::Json => return,
        TimehistForm::Csv => {
            out.push_str(
                "what,time_ns,cpu,comm,tid,wait_ns,delay_ns,run_ns,state,other_comm,other_tid,from_cpu,to_cpu,mark\n",
            );
            return;
        }
    }
    let cpus = options.visual.unwrap_or(0);
    let gap = if cpus > 0 { cpus + 2 } else { 0 };
    let _ = write!(out, "{:>15} {:>6}  ", "time", "cpu");
    if cpus > 0 {
        for cpu in 0..cpus {
            let _ = write!(out, "{:x}", cpu % 16);
        }
        out.push_str("  ");
    }
    let _ = write!(
        out,
        "{:<NAME$}  {:>9}  {:>9}  {:>9}",
        "task name", "wait time", "sch delay", "run time"
    );
    if options.state {
        out.push_str("  state");
    }
    let _ = write!(
        out,
        "\n{:>15} {:>6}  {:gap$}{:<NAME$}  {:>9}  {:>9}  {:>9}",
        "", "", "", "[tid/pid]", "(msec)", "(msec)", "(msec)"
    );
    if options.state {
        out.push_str("       ");
    }
    let _ = write!(out, "\n{:-<15} {:-<6}  ", "", "");
    if cpus > 0 {
        let _ = write!(out, "{:-<cpus$}  ", "");
    }
    let _ = write!(out, "{:-<NAME$}  {:-<9}  {:-<9}  {:-<9}", "", "", "", "");
    if options.state {
        out.push_str("  -----");
    }
    out.push('\n');
}

/// Time, CPU, the visual column and the name.
fn front(options: &TimehistOptions, ts: u64, cpu: u32, sign: char, name: &str, out: &mut String) {
    let _ = write!(out, "{:>15} [{cpu:04}]  ", seconds(ts));
    if let Some(cpus) = options.visual {
        let at = usize::try_from(cpu).unwrap_or(usize::MAX);
        for column in 0..cpus.max(at.saturating_add(1)) {
            out.push(if column == at { sign } else { ' ' });
        }
        out.push_str("  ");
    }
    let _ = write!(out, "{name:<NAME$}");
}

fn mark(switch: &Switch) -> &'static str {
    if switch.doubtful {
        "?"
    } else if switch.inferred {
        "~"
    } else {
        ""
    }
}

/// `prev_state` as one letter: perf's column has room for one. An idle task is `I`.
fn letter(line: &SwitchLine) -> char {
    if line.switch.pid == 0 {
        return 'I';
    }
    line.state.to_string().chars().next().unwrap_or('?')
}

pub(super) fn switch(options: &TimehistOptions, line: &SwitchLine, out: &mut String) {
    let s = &line.switch;
    match options.form {
        TimehistForm::Text => {}
        TimehistForm::Json => {
            let value = json!({
                "what": "switch", "time_ns": s.ts, "cpu": s.cpu, "comm": line.comm.to_string(), "tid": s.pid,
                "wait_ns": s.wait, "delay_ns": s.delay, "run_ns": s.run, "state": line.state.to_string(),
                "next_comm": line.next.comm.to_string(), "next_tid": line.next.pid,
                "inferred": s.inferred, "doubtful": s.doubtful,
            });
            let _ = writeln!(out, "{value}");
            return;
        }
        TimehistForm::Csv => {
            let _ = writeln!(
                out,
                "switch,{},{},{},{},{},{},{},{},{},{},,,{}",
                s.ts,
                s.cpu,
                quoted(&line.comm.to_string()),
                s.pid,
                s.wait,
                s.delay,
                s.run,
                line.state,
                quoted(&line.next.comm.to_string()),
                line.next.pid,
                mark(s)
            );
            return;
        }
    }
    let (sign, name) = if s.pid == 0 {
        ('i', "<idle>".to_owned())
    } else {
        ('s', task_name(line.comm, s.pid))
    };
    front(options, s.ts, s.cpu, sign, &name, out);
    let end = match mark(s) {
        "" => " ",
        mark => mark,
    };
    let _ = write!(
        out,
        "  {:>9}  {:>9}  {:>9}{end}",
        ms(s.wait),
        ms(s.delay),
        ms(s.run)
    );
    if options.state {
        let _ = write!(out, "{:>6} ", letter(line));
    }
    if options.next {
        let next = format!("next: {}[{}]", line.next.comm, line.next.pid);
        let _ = write!(out, " {next:<NAME$}");
    } else if options.wakeups || options.migrations {
        let _ = write!(out, "  {:NAME$}", "");
    }
    out.push('\n');
}

pub(super) fn note(options: &TimehistOptions, note: &Note, out: &mut String) {
    let (comm, pid) = note.about;
    match options.form {
        TimehistForm::Text => {}
        TimehistForm::Json => {
            let mut value = json!({
                "what": if note.moved.is_some() { "migrated" } else { "awakened" },
                "time_ns": note.ts, "cpu": note.cpu,
                "comm": note.current.0.to_string(), "tid": note.current.1,
                "other_comm": comm.to_string(), "other_tid": pid,
            });
            if let (Some((from, to)), Some(object)) = (note.moved, value.as_object_mut()) {
                object.insert("from_cpu".to_owned(), from.into());
                object.insert("to_cpu".to_owned(), to.into());
            }
            let _ = writeln!(out, "{value}");
            return;
        }
        TimehistForm::Csv => {
            let (what, from, to) = match note.moved {
                Some((from, to)) => ("migrated", from.to_string(), to.to_string()),
                None => ("awakened", String::new(), String::new()),
            };
            let _ = writeln!(
                out,
                "{what},{},{},{},{},,,,,{},{pid},{from},{to},",
                note.ts,
                note.cpu,
                quoted(&note.current.0.to_string()),
                note.current.1,
                quoted(&comm.to_string())
            );
            return;
        }
    }
    let name = match note.current {
        (_, 0) => "swapper".to_owned(),
        (comm, pid) => task_name(comm, pid),
    };
    let sign = if note.moved.is_some() { 'm' } else { ' ' };
    front(options, note.ts, note.cpu, sign, &name, out);
    let what = if note.moved.is_some() {
        "migrated"
    } else {
        "awakened"
    };
    let _ = write!(out, "{:35}{what}: {}", "", task_name(comm, pid));
    if let Some((from, to)) = note.moved {
        let _ = write!(out, " cpu {from} => {to}");
    }
    out.push('\n');
}

/// A name as a field of CSV.
pub(crate) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
