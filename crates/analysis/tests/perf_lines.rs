//! Line by line against what perf 6.1 printed of the same recordings. Where a line differs, the test says why, and holds
//! how many lines differ for which reason.

mod common;

use std::collections::BTreeMap;

use common::{from_perf_script, unpack};
use schedlab_analysis::history::{HistoryOptions, Observer, Ordered};
use schedlab_analysis::map::{Map, MapOptions};
use schedlab_analysis::timehist::{Timehist, TimehistForm, TimehistOptions};
use schedlab_trace::{Event, EventKind, FtraceTextReader, Pid};

const FIXTURES: &str = "tests/fixtures";

fn events(name: &str) -> Vec<Event> {
    let text = from_perf_script(&unpack(FIXTURES, &format!("{name}.perf-script-ns")));
    FtraceTextReader::new(text.as_bytes(), name)
        .map(Result::unwrap)
        .collect()
}

fn follow<O: Observer>(events: &[Event], observer: O) -> (schedlab_analysis::history::History, O) {
    let mut ordered = Ordered::new(HistoryOptions::default(), observer);
    for event in events {
        ordered.push(event);
    }
    let (history, observer, _) = ordered.finish();
    (history, observer)
}

fn timehist(events: &[Event], options: TimehistOptions) -> String {
    let (history, timehist) = follow(events, Timehist::new(options, Vec::new()));
    String::from_utf8(timehist.finish(&history).unwrap()).unwrap()
}

fn all_columns() -> TimehistOptions {
    TimehistOptions {
        wakeups: true,
        migrations: true,
        next: true,
        state: true,
        ..TimehistOptions::default()
    }
}

/// Tid of `name[tid]`, `name[tid/pid]`, `:tid`; `<idle>` and `swapper` as they are.
fn tid(name: &str) -> &str {
    let name = name.trim();
    match name.rsplit_once('[') {
        Some((_, ids)) => ids.split(['/', ']']).next().unwrap(),
        None => name.trim_start_matches(':'),
    }
}

/// A line without names of tasks, which perf does not know if they lived before the recording.
#[derive(Debug, PartialEq, Eq, Clone)]
struct Line {
    /// Time and CPU.
    front: String,
    task: String,
    /// All behind the name as it is printed; of a wake event or migration the tid and the CPUs.
    rest: String,
}

fn line(text: &str) -> Line {
    let (front, rest) = text.split_at(24);
    let (name, rest) = rest.split_at(30);
    let rest = match rest.trim_start() {
        note if note.starts_with("awakened: ") || note.starts_with("migrated: ") => {
            let (what, about) = note.split_at(10);
            let (name, cpus) = match about.split_once(" cpu ") {
                Some((name, cpus)) => (name, cpus),
                None => (about, ""),
            };
            format!("{what}{} {cpus}", tid(name))
        }
        _ => rest.to_owned(),
    };
    Line {
        front: front.to_owned(),
        task: tid(name).to_owned(),
        rest,
    }
}

/// perf's letter in the state column, made ours. perf 6.1 prints bits by a table of older kernels: `I` (0x80) as `K`, a zombie
/// (0x20) as `X` and a dead task (0x10) as `Z`, and a preempted one (`R+`, 0x100) as `W`. Kernels since 4.14 print the
/// letters that we do.
fn kernels_letter(rest: &str) -> String {
    let Some(letter) = rest.get(39..40) else {
        return rest.to_owned();
    };
    let ours = match letter {
        "K" => "I",
        "X" => "Z",
        "Z" => "X",
        "W" => "R",
        other => other,
    };
    format!("{}{ours}{}", &rest[..39], &rest[40..])
}

/// Wait, delay and run time of a switch line in us.
fn times(rest: &str) -> Option<[u64; 3]> {
    let mut words = rest.split_whitespace();
    let mut time = || {
        let word = words.next()?.trim_end_matches(['~', '?']);
        let (ms, us) = word.split_once('.')?;
        Some(ms.parse::<u64>().ok()? * 1000 + us.parse::<u64>().ok()?)
    };
    Some([time()?, time()?, time()?])
}

#[derive(Debug, PartialEq, Eq, Default)]
struct Counts {
    /// Equal to the byte, names apart.
    equal: usize,
    /// Equal but for the letter of the state: perf's table is old.
    letter: usize,
    /// The switch-in is missing in the recording. perf takes the time since the last switch that it saw on the CPU for run time,
    /// also if the CPU ran its idle task. We take the time that the kernel charged.
    inferred: usize,
    /// Called while still running, then switched out and in again: perf forgets the call at the switch-out and shows no
    /// delay. The task was runnable all the time, so the wait is a delay.
    early_call: usize,
    /// On two CPUs by the events: a switch is missing.
    contradiction: usize,
    /// The switch-in is missing and nothing tells when it was: we show no run time. perf takes the time since the last switch
    /// of the CPU, at which another task was switched in.
    unknown: usize,
    other: usize,
}

fn compare(name: &str) -> (Counts, Vec<(Line, Line)>) {
    let ours = timehist(&events(name), all_columns());
    let perf = unpack(FIXTURES, &format!("{name}.perf-timehist"));
    let perf: Vec<&str> = perf.lines().skip(1).collect();
    let ours: Vec<&str> = ours.lines().collect();
    assert_eq!(ours[..3], perf[..3], "{name}: header");
    assert_eq!(ours.len(), perf.len(), "{name}");
    let mut counts = Counts::default();
    let mut inferred = Vec::new();
    for (a, b) in ours[3..].iter().zip(&perf[3..]) {
        let (a, b) = (line(a), line(b));
        let lettered = Line {
            rest: kernels_letter(&b.rest),
            ..b.clone()
        };
        let early = || {
            let (ours, perf) = (times(&a.rest)?, times(&b.rest)?);
            Some(ours[0] == perf[0] && ours[2] == perf[2] && ours[1] == ours[0] && perf[1] == 0)
        };
        let count = if a == b {
            &mut counts.equal
        } else if a == lettered {
            &mut counts.letter
        } else if a.rest.contains('~') {
            inferred.push((a.clone(), b));
            &mut counts.inferred
        } else if a.rest.contains('?') {
            &mut counts.contradiction
        } else if early() == Some(true) {
            &mut counts.early_call
        } else if times(&a.rest).is_some_and(|t| t[2] == 0) {
            &mut counts.unknown
        } else {
            eprintln!("{name}\n{a:?}\n{b:?}");
            &mut counts.other
        };
        *count += 1;
    }
    (counts, inferred)
}

#[test]
fn timehist_is_perfs_but_for_perfs_faults() {
    let counts = |name| compare(name).0;
    insta::assert_debug_snapshot!(counts("hogs"), @r"
    Counts {
        equal: 447,
        letter: 14,
        inferred: 10,
        early_call: 0,
        contradiction: 0,
        unknown: 0,
        other: 0,
    }
    ");
    insta::assert_debug_snapshot!(counts("forks"), @r"
    Counts {
        equal: 764,
        letter: 282,
        inferred: 5,
        early_call: 3,
        contradiction: 0,
        unknown: 1,
        other: 0,
    }
    ");
    insta::assert_debug_snapshot!(counts("hackbench"), @r"
    Counts {
        equal: 354,
        letter: 44,
        inferred: 37,
        early_call: 8,
        contradiction: 1,
        unknown: 0,
        other: 0,
    }
    ");
}

/// The kernel charged its tasks (`sched_stat_runtime`) what our lines with an inferred switch-in say, and not what perf's say.
#[test]
fn inferred_run_times_are_what_the_kernel_charged() {
    for name in ["hogs", "forks"] {
        let events = events(name);
        let (_, inferred) = compare(name);
        assert!(!inferred.is_empty());
        let (mut ours_is_near, mut perf_is_far) = (0, 0);
        for (ours, perf) in &inferred {
            let pid: Pid = ours.task.parse().unwrap();
            let at = ours.front.split_whitespace().next().unwrap();
            let (seconds, micros) = at.split_once('.').unwrap();
            let out = seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap();
            // Charges of the task since it was switched out last.
            let mut charged = 0;
            for event in &events {
                let us = event.ts / 1000;
                match event.kind {
                    EventKind::SchedStatRuntime {
                        pid: p, runtime, ..
                    } if p == pid && us <= out => charged += runtime,
                    EventKind::SchedSwitch { prev, .. } if prev.pid == pid && us < out => {
                        charged = 0;
                    }
                    _ => {}
                }
            }
            let far = |times: Option<[u64; 3]>| times.unwrap()[2].abs_diff(charged / 1000);
            ours_is_near += usize::from(far(times(&ours.rest)) <= 30);
            perf_is_far += usize::from(far(times(&perf.rest)) > 100);
        }
        // Not all: several switches in a row may be missing.
        assert!(
            ours_is_near * 5 >= inferred.len() * 4,
            "{name} {ours_is_near}"
        );
        assert!(perf_is_far * 4 > inferred.len() * 3, "{perf_is_far}");
    }
}

#[test]
fn map_is_perfs() {
    for name in ["hogs", "forks", "hackbench"] {
        let options = MapOptions {
            cpus: 2,
            ..MapOptions::default()
        };
        let (_, map) = follow(&events(name), Map::new(options, Vec::new()));
        let ours = String::from_utf8(map.finish().unwrap()).unwrap();
        let perf = unpack(FIXTURES, &format!("{name}.perf-map"));
        assert_eq!(ours.lines().count(), perf.lines().count());
        for (a, b) in ours.lines().zip(perf.lines()) {
            // A task that lived before the recording has no name in perf.
            match b.split_once(" => :") {
                Some((front, _)) => assert_eq!(a.split_once(" => ").unwrap().0, front),
                None => assert_eq!(a, b),
            }
        }
    }
}

/// A line of the summary: tid, then the figures as printed.
fn summary_rows(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .skip_while(|l| !l.starts_with("-----"))
        .skip(1)
        .take_while(|l| !l.starts_with("Idle"))
        .filter(|l| l.len() > 60)
        .map(|l| (tid(&l[..30]).to_owned(), l[30..].to_owned()))
        .collect()
}

#[test]
fn the_summary_is_perfs_for_tasks_without_missing_switches() {
    for name in ["hogs", "forks"] {
        let ours = timehist(
            &events(name),
            TimehistOptions {
                summary_only: true,
                ..TimehistOptions::default()
            },
        );
        let perf = unpack(FIXTURES, &format!("{name}.perf-summary"));
        let header = |text: &str| -> Vec<String> {
            text.lines()
                .skip_while(|l| *l != "Runtime summary")
                .take(4)
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(header(&ours), header(&perf));
        let inferred: Vec<String> = compare(name).1.into_iter().map(|(a, _)| a.task).collect();
        let (ours, perf) = (summary_rows(&ours), summary_rows(&perf));
        assert_eq!(ours.len(), perf.len(), "{name}");
        let mut same = 0;
        for (tid, row) in &perf {
            if !inferred.contains(tid) {
                let (parent, figures) = ours[tid].split_at(8);
                assert_eq!(figures, &row[8..], "{name} {tid}");
                // perf also has forks from records of its own, besides sched_process_fork.
                assert!(parent.trim() == "-1" || parent == &row[..8], "{name} {tid}");
                same += 1;
            }
        }
        assert!(same > 8, "{name}: {same}");
    }
}

#[test]
fn other_forms() {
    let events = &events("hogs")[..40];
    for (form, from) in [(TimehistForm::Json, 0), (TimehistForm::Csv, 1)] {
        let text = timehist(
            events,
            TimehistOptions {
                form,
                with_summary: true,
                ..all_columns()
            },
        );
        let ts = events[1].ts.to_string();
        assert!(text.lines().nth(from).unwrap().contains(&ts), "{text}");
        if form == TimehistForm::Json {
            for line in text.lines() {
                let value: serde_json::Value = serde_json::from_str(line).unwrap();
                assert!(value["what"].is_string());
            }
        } else {
            let (lines, summary) = text.split_once("\n\n").unwrap();
            for part in [lines, summary] {
                let commas = |l: &str| l.matches(',').count();
                assert!(
                    part.lines()
                        .all(|l| commas(l) == commas(part.lines().next().unwrap()))
                );
            }
        }
        let (_, map) = follow(
            events,
            Map::new(
                MapOptions {
                    form,
                    ..MapOptions::default()
                },
                Vec::new(),
            ),
        );
        let text = String::from_utf8(map.finish().unwrap()).unwrap();
        assert!(text.contains("A0"), "{text}");
    }
}

#[test]
fn visual_columns_and_compact_map() {
    let events = &events("hogs")[..60];
    let text = timehist(
        events,
        TimehistOptions {
            visual: Some(2),
            migrations: true,
            ..TimehistOptions::default()
        },
    );
    let brief: String = text
        .lines()
        .take(10)
        .map(|l| format!("{}\n", l.trim_end()))
        .collect();
    insta::assert_snapshot!(brief, @r"
               time    cpu  01  task name                       wait time  sch delay   run time
                                [tid/pid]                          (msec)     (msec)     (msec)
    --------------- ------  --  ------------------------------  ---------  ---------  ---------
        6827.914665 [0000]  s   perf[29725]                         0.000      0.000      0.000
        6827.914668 [0000]  m   migration/0[18]                                                  migrated: perf[29725] cpu 0 => 1
        6827.914682 [0000]  s   migration/0[18]                     0.000      0.004      0.016
        6827.914820 [0000]  i   <idle>                              0.000      0.000      0.138
        6827.914826 [0001]   s  perf[29725]                         0.000      0.000      0.000
        6827.919253 [0000]  s   wl[29726]                           0.000      0.031      4.432
        6827.919258 [0000]  s   rcu_preempt[15]                     0.000      3.989      0.005
    ");
    let (_, map) = follow(
        events,
        Map::new(
            MapOptions {
                compact: true,
                cpus: 64,
                ..MapOptions::default()
            },
            Vec::new(),
        ),
    );
    insta::assert_snapshot!(String::from_utf8(map.finish().unwrap()).unwrap(), @r"
    *A0    6827.914665 secs A0 => migration/0:18 (CPU 0)
    *.     6827.914682 secs .  => swapper:0
    *B0    6827.914820 secs B0 => perf-exec:29726
     B0 *.     6827.914826 secs  (CPU 1)
    *C0  .     6827.919253 secs C0 => rcu_preempt:15
    *B0  .     6827.919258 secs B0 => wl:29726
    *D0  .     6827.920630 secs D0 => wl:29728
    *E0  .     6827.920685 secs E0 => wl:29730
     E0 *.     6827.920699 secs 
    *B0  .     6827.920719 secs 
    *.   .     6827.920780 secs 
     .  *.     6827.920822 secs 
    *E0  .     6827.921755 secs E0 => h2:29730
    *D0  .     6827.921760 secs D0 => h0:29728
    ");
}
