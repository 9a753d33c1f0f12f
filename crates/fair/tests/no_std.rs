//! The crate needs neither std nor an operating system.
//!
//! `tests/no_std` is a program of its own with a panic handler, a bump allocator and no library but this one, linked
//! without libc. A dependency on std would be a second panic handler, a call of libc an undefined symbol: both end the build. It runs
//! three tasks for a second of simulated time and tells by its exit code whether they got their shares.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::path::Path;
use std::process::Command;

#[test]
fn a_program_without_std_builds_and_schedules() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/no_std");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no_std");
    for profile in ["dev", "release"] {
        let build = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "--offline",
                "--locked",
                "--profile",
                profile,
            ])
            .arg("--manifest-path")
            .arg(here.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&out)
            .output()
            .unwrap();
        assert!(
            build.status.success(),
            "{}",
            String::from_utf8_lossy(&build.stderr)
        );
        let folder = if profile == "dev" { "debug" } else { profile };
        let run = Command::new(out.join(folder).join("schedlab-fair-no-std"))
            .status()
            .unwrap();
        assert_eq!(run.code(), Some(0), "{profile}");
    }
}
