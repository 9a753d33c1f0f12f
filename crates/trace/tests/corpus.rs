//! The kept inputs of the fuzzers, run through the readers on stable. See `fuzz/README.md`.

#[path = "../../../fuzz/targets.rs"]
#[allow(unreachable_pub)]
mod targets;

use std::fs;
use std::path::PathBuf;

fn fuzz() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Files of a folder, sorted; none if there is no such folder.
fn inputs(folder: &str, target: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(fuzz().join(folder).join(target)) else {
        return Vec::new();
    };
    let mut out: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    out.sort();
    out
}

#[test]
fn kept_inputs_do_no_harm() {
    for (target, _) in targets::TARGETS {
        let seeds = inputs("seeds", target);
        assert!(!seeds.is_empty(), "fuzz/seeds/{target} is empty");
        for path in seeds.into_iter().chain(inputs("regressions", target)) {
            println!("{}", path.display());
            let data = fs::read(&path).unwrap();
            targets::run(target, &data);
            // And cut in the middle.
            targets::run(target, &data[..data.len() / 2]);
        }
    }
}

/// A target that is in one place only would never run.
#[test]
fn targets_are_complete() {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for (target, _) in targets::TARGETS {
        assert!(
            manifest.contains(&format!("name = \"{target}\"")),
            "{target}"
        );
        let program = fuzz().join(format!("fuzz_targets/{target}.rs"));
        let program = fs::read_to_string(program).unwrap();
        assert!(program.contains(&format!("run(\"{target}\"")), "{target}");
    }
    let programs = fs::read_dir(fuzz().join("fuzz_targets")).unwrap().count();
    assert_eq!(programs, targets::TARGETS.len());
}
