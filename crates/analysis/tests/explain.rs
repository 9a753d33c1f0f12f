//! Explanations of recordings of a real kernel: with its state, exact; without, inferred, and compared with the exact
//! ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schedlab_analysis::check::CheckOptions;
use schedlab_analysis::check::record::{Kind, Record};
use schedlab_analysis::explain::{
    Agreement, Cause, Confidence, Explanation, Options, Survey, WaitFinder, explain_all,
};
use schedlab_trace::Event;

fn recordings() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/recordings/6.12.117");
    let mut list: Vec<PathBuf> = std::fs::read_dir(root)
        .expect("folder")
        .map(|e| e.expect("entry").path())
        .filter(|p| p.is_dir())
        .collect();
    list.sort();
    assert!(list.len() >= 40);
    list
}

struct Recording {
    events: Vec<Event>,
    settings: CheckOptions,
}

impl Recording {
    fn read(folder: &Path) -> Self {
        let meta = std::fs::read_to_string(folder.join("meta.json")).expect("meta.json");
        let reader = schedlab_trace::open(folder.join("trace.txt.xz")).expect("trace");
        Self {
            events: reader.map(|e| e.expect("event")).collect(),
            settings: CheckOptions::from_meta(&meta).expect("settings"),
        }
    }

    /// The same without what probes add: a plain scheduler trace.
    fn stripped(&self) -> Self {
        let plain = |e: &&Event| Record::read(0, e).is_some_and(|r| r.kind == Kind::Other);
        Self {
            events: self.events.iter().filter(plain).cloned().collect(),
            settings: self.settings.clone(),
        }
    }

    fn explained(&self) -> (Vec<Explanation>, Agreement, Survey) {
        let mut finder = WaitFinder::worst(1, None);
        self.events.iter().for_each(|e| finder.push(e));
        let (_, survey, _) = finder.finish();
        let options = Options::new(self.settings.profile, self.settings.hz, &survey);
        let (all, agreement) = explain_all(&self.events, &options);
        (all, agreement, survey)
    }
}

fn adds_up(x: &Explanation) {
    let mut at = x.start;
    for s in &x.segments {
        assert_eq!(s.start, at, "{}", x.text());
        at = s.end;
    }
    assert_eq!(at, x.end, "{}", x.text());
    assert_eq!(x.parts.iter().map(|p| p.ns).sum::<u64>(), x.ns());
}

/// Time in common of two lists of segments: in all under the fair class's rules by the exact ones, and that with the same
/// cause, by what the inferred ones say of themselves.
#[derive(Clone, Copy, Default, Debug)]
struct Shared {
    ns: u64,
    alike: u64,
    likely: u64,
    likely_alike: u64,
}

fn compare(exact: &[Explanation], inferred: &[Explanation]) -> Shared {
    let by_start: BTreeMap<_, _> = inferred
        .iter()
        .map(|x| ((x.task.pid, x.start), x))
        .collect();
    let mut sum = Shared::default();
    for x in exact {
        let Some(y) = by_start.get(&(x.task.pid, x.start)) else {
            continue;
        };
        for a in x.segments.iter().filter(|s| ruled(s.cause)) {
            for b in y
                .segments
                .iter()
                .filter(|b| b.start < a.end && a.start < b.end)
            {
                let ns = a.end.min(b.end) - a.start.max(b.start);
                let same = a.cause == b.cause && a.behind == b.behind;
                sum.ns += ns;
                sum.alike += if same { ns } else { 0 };
                if b.confidence < Confidence::Guess {
                    sum.likely += ns;
                    sum.likely_alike += if same { ns } else { 0 };
                }
            }
        }
    }
    sum
}

fn ruled(c: Cause) -> bool {
    matches!(
        c,
        Cause::Ineligible | Cause::LaterDeadline | Cause::Protected | Cause::Tick
    )
}

fn percent(part: u64, all: u64) -> u64 {
    (part * 1000).checked_div(all).unwrap_or(0)
}

#[test]
fn parts_add_up_and_inference_is_measured() {
    let mut flat = Shared::default();
    let mut grouped = Shared::default();
    for folder in recordings() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let recording = Recording::read(&folder);
        let (exact, _, survey) = recording.explained();
        assert!(survey.state);
        exact.iter().for_each(adds_up);
        let (inferred, agreement, survey) = recording.stripped().explained();
        assert!(!survey.state);
        inferred.iter().for_each(adds_up);
        let s = compare(&exact, &inferred);
        println!(
            "{name:<20} {:>4} waits {:>9} us ruled, alike {:>4} permille, likely {:>4}, alike of those {:>4}; picks {}/{}",
            exact.len(),
            s.ns / 1000,
            percent(s.alike, s.ns),
            percent(s.likely, s.ns),
            percent(s.likely_alike, s.likely),
            agreement.alike,
            agreement.picks,
        );
        let in_groups = ["cg", "sl_nested", "yd_cg", "ft_hrtick_cg"];
        let sum = if in_groups.iter().any(|g| name.starts_with(g)) {
            &mut grouped
        } else {
            &mut flat
        };
        sum.ns += s.ns;
        sum.alike += s.alike;
        sum.likely += s.likely;
        sum.likely_alike += s.likely_alike;
    }
    println!("flat {flat:?}\ngroups {grouped:?}");
    // As docs/fidelity.md says.
    assert!(percent(flat.alike, flat.ns) >= 800);
    assert!(percent(flat.likely, flat.ns) >= 700);
    assert!(percent(flat.likely_alike, flat.likely) >= 900);
    // The replay knows no groups; then it must not claim to know.
    assert!(percent(grouped.likely, grouped.ns) <= 50);
}
