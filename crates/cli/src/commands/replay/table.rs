//! The recording and its simulations side by side.

use schedlab_analysis::load::Load;
use schedlab_scenario::replay::{Figures, Fit, RecordedLoad};
use schedlab_trace::ReadReport;
use serde_json::{Value, json};

use super::Simulated;

/// Width of a column.
const WIDTH: usize = 22;
/// Width of the names before them.
const NAMES: usize = 26;

pub(super) struct View<'a> {
    pub(super) name: &'a str,
    pub(super) kernel: &'a str,
    pub(super) source: &'a str,
    pub(super) recorded: &'a RecordedLoad<'a>,
    pub(super) load: &'a Load,
    pub(super) read: &'a ReadReport,
    /// Of the recording.
    pub(super) fit: &'a Fit,
    pub(super) simulated: &'a [Simulated],
    /// How often the load was simulated.
    pub(super) rounds: f64,
    pub(super) tasks: usize,
}

/// A row of the table: what it is, its value, and digits behind the point.
type Row = (&'static str, fn(&Figures) -> f64, usize);

const ROWS: [Row; 8] = [
    ("run time [ms]", |f| f.runtime as f64 / 1e6, 3),
    ("switches", |f| f.switches() as f64, 0),
    ("  voluntary", |f| f.voluntary as f64, 0),
    ("  involuntary", |f| f.involuntary as f64, 0),
    ("changes of CPU", |f| f.cpu_changes as f64, 0),
    ("delays: number", |f| f.delays.count as f64, 0),
    ("  sum [ms]", |f| f.delays.sum as f64 / 1e6, 3),
    ("  average [us]", |f| average(f) / 1e3, 1),
];

fn average(f: &Figures) -> f64 {
    f.delays.average().map_or(0.0, |ns| ns as f64)
}

impl View<'_> {
    pub(super) fn text(&self) -> String {
        let load = self.load;
        let mut out = format!(
            "{}: {} events, {} tasks, {} CPUs, {:.3} ms; kernel {} ({}), {} ticks a second ({})\n",
            self.name,
            load.report.events,
            load.tasks.len(),
            load.cpus,
            load.span as f64 / 1e6,
            self.kernel,
            self.source,
            self.recorded.hz(),
            if load.hz == Some(self.recorded.hz()) {
                "seen"
            } else {
                "not seen"
            },
        );
        for line in load.report.to_string().lines() {
            out.push_str(&format!("  {line}\n"));
        }
        if self.read.lost_events > 0 || self.read.unparsed_lines() > 0 {
            out.push_str(&format!(
                "  {} events were lost by the recorder, {} lines not understood\n",
                self.read.lost_events,
                self.read.unparsed_lines()
            ));
        }
        if self.simulated.is_empty() {
            out.push_str("  nothing simulated (--repeat 0)\n");
        } else {
            self.table(&mut out);
        }
        out
    }

    fn table(&self, out: &mut String) {
        out.push('\n');
        let mut labels = vec!["recorded".to_string()];
        labels.extend(self.simulated.iter().map(|s| s.label.clone()));
        self.line(out, "", &labels);
        let recorded = self.fit.total();
        let sums: Vec<Figures> = self.simulated.iter().map(|s| s.fit.total()).collect();
        for (what, value, digits) in ROWS {
            let average_row = what.contains("average");
            let mut cells = vec![format!("{:.digits$}", value(&recorded))];
            for (i, sum) in sums.iter().enumerate() {
                let got = self.each(value(sum), average_row);
                // The first is held against the recording, what-ifs against the first.
                let base = match i {
                    0 => value(&recorded),
                    _ => self.each(value(&sums[0]), average_row),
                };
                cells.push(format!("{got:.digits$}{}", change(got, base)));
            }
            self.line(out, what, &cells);
        }
        let mut cells = vec![format!("{:.3}", recorded.delays.max as f64 / 1e6)];
        cells.extend(
            sums.iter()
                .map(|s| format!("{:.3}", s.delays.max as f64 / 1e6)),
        );
        self.line(out, "  longest [ms]", &cells);
        out.push_str("\napart from the recording\n");
        self.apart(out);
        out.push_str("\nrun time [ms], switches, average delay [us] of each task\n");
        let mut order: Vec<(usize, Figures)> =
            self.fit.tasks.iter().map(|(&i, &f)| (i, f)).collect();
        order.sort_by_key(|&(i, f)| (std::cmp::Reverse(f.runtime), i));
        for &(i, f) in order.iter().take(self.tasks) {
            let mut cells = vec![of_task(&f, 1.0)];
            for s in self.simulated {
                let f = s.fit.tasks.get(&i).copied().unwrap_or_default();
                cells.push(of_task(&f, self.rounds));
            }
            self.line(out, self.recorded.task_name(i), &cells);
        }
        if order.len() > self.tasks {
            out.push_str(&format!(
                "  and {} tasks more (--tasks)\n",
                order.len() - self.tasks
            ));
        }
    }

    /// How far each simulation is from the recording.
    fn apart(&self, out: &mut String) {
        let percent = |x: Option<f64>| x.map_or("-".into(), |p| format!("{p:.2} %"));
        let mut worst = vec![String::new()];
        let mut misplaced = vec![String::new()];
        for s in self.simulated {
            let w = s.fit.worst_runtime(self.fit, self.rounds);
            worst.push(percent(w.map(|w| w.0)));
            misplaced.push(percent(s.fit.misplaced(self.fit)));
        }
        self.line(out, "run time, worst task", &worst);
        self.line(out, "misplaced by over 100 ms", &misplaced);
    }

    /// A sum over all repetitions as that of one.
    fn each(&self, value: f64, average: bool) -> f64 {
        if average { value } else { value / self.rounds }
    }

    fn line(&self, out: &mut String, name: &str, cells: &[String]) {
        let mut text = format!("{name:<NAMES$}");
        for cell in cells {
            text.push_str(&format!(" {cell:>WIDTH$}"));
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }

    pub(super) fn json(&self) -> Value {
        let fit = |f: &Fit| {
            let tasks: Vec<Value> = f
                .tasks
                .iter()
                .map(
                    |(&i, figures)| json!({"task": self.recorded.task_name(i), "figures": figures}),
                )
                .collect();
            json!({"total": f.total(), "tasks": tasks})
        };
        let simulated: Vec<Value> = self
            .simulated
            .iter()
            .map(|s| {
                let worst = s.fit.worst_runtime(self.fit, self.rounds);
                json!({
                    "label": s.label,
                    "profile": s.profile,
                    "end_ns": s.end_ns,
                    "events": s.events,
                    "sums": fit(&s.fit),
                    "worst_runtime_percent": worst.map(|w| w.0),
                    "worst_runtime_task": worst.map(|w| self.recorded.task_name(w.1)),
                    "misplaced_percent": s.fit.misplaced(self.fit),
                })
            })
            .collect();
        json!({
            "schema": "schedlab.replay/1",
            "name": self.name,
            "kernel": self.kernel,
            "kernel_source": self.source,
            "cpus": self.load.cpus,
            "hz": self.recorded.hz(),
            "hz_seen": self.load.hz,
            "span_ns": self.load.span,
            "work_ns": self.load.work(),
            "rounds": self.rounds,
            "report": self.load.report,
            "lost_events": self.read.lost_events,
            "unparsed_lines": self.read.unparsed_lines(),
            "recorded": fit(self.fit),
            "simulated": simulated,
        })
    }
}

fn of_task(f: &Figures, rounds: f64) -> String {
    format!(
        "{:.3} {:>5.0} {:>6.0}",
        f.runtime as f64 / 1e6 / rounds,
        f.switches() as f64 / rounds,
        average(f) / 1e3
    )
}

fn change(got: f64, base: f64) -> String {
    if base == 0.0 {
        return String::new();
    }
    format!(" ({:+.1} %)", 100.0 * (got - base) / base)
}
