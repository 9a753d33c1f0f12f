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
    let mut out = String::new();
    put_task_name(comm, pid, &mut out);
    out
}

fn put_task_name(comm: Comm, pid: Pid, out: &mut String) {
    if comm.is_empty() {
        let _ = write!(out, ":{pid}");
    }
    put_task(comm, pid, out);
}

/// Milliseconds with three decimals, cut.
pub(super) fn ms(ns: u64) -> String {
    let mut out = String::new();
    put_ms(ns, 0, &mut out);
    out
}

/// Seconds with six decimals, cut.
pub(crate) fn seconds(ns: u64) -> String {
    let mut out = String::new();
    put_seconds(ns, 0, &mut out);
    out
}

// A trace has millions of lines, so the columns of the plain form go without the formatter: a third less time for all of
// the command.

fn put_ms(ns: u64, width: usize, out: &mut String) {
    put_decimal(ns / 1_000_000, 1000 + ns / 1000 % 1000, width, out);
}

fn put_seconds(ns: u64, width: usize, out: &mut String) {
    put_decimal(
        ns / 1_000_000_000,
        1_000_000 + ns / 1000 % 1_000_000,
        width,
        out,
    );
}

/// `whole.decimals`, to the right; a 1 before the decimals keeps their zeros.
fn put_decimal(whole: u64, decimals: u64, width: usize, out: &mut String) {
    let (mut front, mut back) = (itoa::Buffer::new(), itoa::Buffer::new());
    let front = front.format(whole);
    let back = back.format(decimals).get(1..).unwrap_or_default();
    put_spaces(width.saturating_sub(front.len() + 1 + back.len()), out);
    out.push_str(front);
    out.push('.');
    out.push_str(back);
}

fn put_spaces(mut count: usize, out: &mut String) {
    const SPACES: &str = "                                ";
    while count > 0 {
        let piece = count.min(SPACES.len());
        out.push_str(SPACES.get(..piece).unwrap_or_default());
        count -= piece;
    }
}

/// Spaces up to a width since `start`.
fn put_rest(start: usize, width: usize, out: &mut String) {
    let written = out.get(start..).map_or(0, |text| text.chars().count());
    put_spaces(width.saturating_sub(written), out);
}

/// `comm[tid]`.
fn put_task(comm: Comm, pid: Pid, out: &mut String) {
    out.push_str(&String::from_utf8_lossy(comm.as_bytes()));
    out.push('[');
    out.push_str(itoa::Buffer::new().format(pid));
    out.push(']');
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
fn front(
    options: &TimehistOptions,
    ts: u64,
    cpu: u32,
    sign: char,
    name: impl FnOnce(&mut String),
    out: &mut String,
) {
    put_seconds(ts, 15, out);
    let mut number = itoa::Buffer::new();
    let number = number.format(cpu);
    out.push_str(" [");
    out.push_str("0000".get(number.len()..).unwrap_or_default());
    out.push_str(number);
    out.push_str("]  ");
    if let Some(cpus) = options.visual {
        let at = usize::try_from(cpu).unwrap_or(usize::MAX);
        for column in 0..cpus.max(at.saturating_add(1)) {
            out.push(if column == at { sign } else { ' ' });
        }
        out.push_str("  ");
    }
    let start = out.len();
    name(out);
    put_rest(start, NAME, out);
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
    let sign = if s.pid == 0 { 'i' } else { 's' };
    let name = |out: &mut String| match s.pid {
        0 => out.push_str("<idle>"),
        pid => put_task_name(line.comm, pid, out),
    };
    front(options, s.ts, s.cpu, sign, name, out);
    for time in [s.wait, s.delay, s.run] {
        out.push_str("  ");
        put_ms(time, 9, out);
    }
    out.push_str(match mark(s) {
        "" => " ",
        mark => mark,
    });
    if options.state {
        let _ = write!(out, "{:>6} ", letter(line));
    }
    if options.next {
        out.push(' ');
        let start = out.len();
        out.push_str("next: ");
        put_task(line.next.comm, line.next.pid, out);
        put_rest(start, NAME, out);
    } else if options.wakeups || options.migrations {
        put_spaces(2 + NAME, out);
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
    let name = |out: &mut String| match note.current {
        (_, 0) => out.push_str("swapper"),
        (comm, pid) => put_task_name(comm, pid, out),
    };
    let sign = if note.moved.is_some() { 'm' } else { ' ' };
    front(options, note.ts, note.cpu, sign, name, out);
    let what = if note.moved.is_some() {
        "migrated"
    } else {
        "awakened"
    };
    put_spaces(35, out);
    out.push_str(what);
    out.push_str(": ");
    put_task_name(comm, pid, out);
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
