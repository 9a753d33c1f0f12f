//! The keys of core scheduling and autogroup (reference section 16), through a run.
#![allow(clippy::unwrap_used)] // Test code.

use std::path::Path;

use schedlab_fair::Ns;
use schedlab_scenario::{Overrides, Scenario};
use schedlab_sim::RunResult;

fn run(text: &str, options: &[&str]) -> RunResult {
    let mut overrides = Overrides::new();
    for o in options {
        overrides.push(o).unwrap();
    }
    Scenario::parse("s.toml", text, Path::new("."), &overrides)
        .unwrap()
        .run(|_| {})
        .unwrap()
        .result
}

const TWO_COOKIES: &str = r#"
duration = "200ms"
costs = "zero"

[machine]
preset = "desktop-8"
cpus = 2

[kernel]
core_sched = true

[[task]]
name = "a"
cookie = 1
kind = "hog"

[[task]]
name = "b"
cookie = 2
kind = "hog"
"#;

#[test]
fn two_cookies_on_one_core() {
    let r = run(TWO_COOKIES, &[]);
    assert_eq!(r.cpus.len(), 2);
    assert_eq!(r.forced_idle(), Ns::from_ms(200), "{:?}", r.core);
    assert_eq!(r.cpus.iter().map(|c| c.user).sum::<u64>(), 200_000_000);
    for option in ["kernel.core_sched=false", "task.b.cookie=1"] {
        assert_eq!(run(TWO_COOKIES, &[option]).forced_idle(), Ns(0), "{option}");
    }
}

/// One task of a session against three of another, and one task of a group of its own.
const SESSIONS: &str = r#"
duration = "2s"
machine = "flat-1"

[kernel]
autogroup = true

[[group]]
name = "g"

[[task]]
name = "one"
session = "x"
kind = "hog"

[[task]]
name = "three"
count = 3
session = "y"
kind = "hog"

[[task]]
name = "own"
group = "g"
session = "y"
kind = "hog"
"#;

#[test]
fn sessions_share_alike() {
    let share = |r: &RunResult, name: &str| {
        let ran: u64 = r
            .tasks
            .iter()
            .filter(|t| t.comm.starts_with(name))
            .map(|t| t.run.0)
            .sum();
        ran as f64 / r.end.0 as f64
    };
    let r = run(SESSIONS, &[]);
    for name in ["one", "three", "own"] {
        let s = share(&r, name);
        assert!((s - 1.0 / 3.0).abs() < 0.02, "{name}: {s}");
    }
    let r = run(SESSIONS, &["kernel.autogroup=false"]);
    for (name, want) in [("one", 0.2), ("three", 0.6), ("own", 0.2)] {
        let s = share(&r, name);
        assert!((s - want).abs() < 0.02, "{name}: {s}");
    }
}
