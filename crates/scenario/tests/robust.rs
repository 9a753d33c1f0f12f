//! No input makes the readers panic or hang.

use std::path::Path;

use proptest::prelude::*;
use schedlab_scenario::{Overrides, RtApp, Scenario, parse_time, show_time};

/// Pieces from which almost valid files are made.
const TOML: [&str; 34] = [
    "[[task]]",
    "[machine]",
    "[kernel]",
    "[[group]]",
    "[workload.hackbench]",
    "\n",
    "name = \"a\"",
    "name = \"b\"",
    "kind = \"hog\"",
    "kind = \"pingpong\"",
    "program = [\"run 1ms\"]",
    "program = [{ loop = 3, steps = [\"recv q 1\"] }]",
    "cpus = \"0-3\"",
    "cpus = 4",
    "count = 3",
    "nice = -3",
    "slice = \"1ms\"",
    "preset = \"study-16\"",
    "hz = 0",
    "profile = \"6.12.0\"",
    "features = [\"NO_X\"]",
    "groups = 2",
    "fds = 99999",
    "quota = \"1ms\"",
    "period = \"0s\"",
    "cpu.weight = 7",
    "=",
    "[",
    "\"",
    "{",
    "9999999999999999999",
    "1.5",
    "\u{0}",
    "ä",
];
const JSON: [&str; 34] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"tasks\"",
    "\"global\"",
    "\"t\"",
    "\"run\"",
    "\"sleep_b\"",
    "\"timer\"",
    "\"ref\"",
    "\"period\"",
    "\"phases\"",
    "\"loop\"",
    "\"instance\"",
    "\"lock\"",
    "\"wait\"",
    "\"fork\"",
    "\"cpus\"",
    "\"duration\"",
    "0",
    "-1",
    "8000",
    "1.5",
    "1e400",
    "null",
    "true",
    "/*",
    "*/",
    "//",
    "\"\\ud800\"",
    "\"",
];

fn pieces(from: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(from), 0..40).prop_map(|v| v.join(" "))
}

/// Lines of their own, so that more of them are valid.
fn lines(from: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(from), 0..30).prop_map(|v| v.join("\n"))
}

fn read_toml(text: &str) {
    if let Err(e) = Scenario::parse("s.toml", text, Path::new("/nonexistent"), &Overrides::new()) {
        let message = e.to_string();
        assert!(
            !message.is_empty() && message.starts_with("s.toml:"),
            "{message}"
        );
    }
}

fn read_json(text: &str) {
    if let Err(e) = RtApp::parse("w.json", text, 4) {
        assert!(e.to_string().starts_with("w.json:"), "{e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn any_text(text in any::<String>()) {
        read_toml(&text);
        read_json(&text);
        let _ = parse_time(&text);
    }

    #[test]
    fn almost_toml(text in lines(&TOML)) {
        read_toml(&text);
    }

    #[test]
    fn almost_json(text in pieces(&JSON)) {
        read_json(&text);
        read_json(&format!("{{\"tasks\": {{\"t\": {{ {text} }} }} }}"));
    }

    #[test]
    fn any_override(option in "[a-z.\"=+ 0-9\\[\\]]{0,30}") {
        let mut overrides = Overrides::new();
        if overrides.push(&option).is_ok() {
            let text = "[[task]]\nname = \"a\"\nkind = \"hog\"\n";
            let _ = Scenario::parse("s.toml", text, Path::new(""), &overrides);
        }
    }

    #[test]
    fn any_step(step in "[a-z]{3,6}( [a-z0-9.]{1,6}){0,3}") {
        read_toml(&format!("[[task]]\nname = \"a\"\nprogram = [{step:?}]\n"));
    }

    #[test]
    fn times_read_back(ns in any::<u64>()) {
        let t = schedlab_fair::Ns(ns);
        prop_assert_eq!(parse_time(&show_time(t)), Some(t));
    }
}
