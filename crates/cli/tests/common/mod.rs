//! The binary run from a test.
#![allow(dead_code, reason = "no test uses all of it")]

use std::process::Output;

use assert_cmd::Command;

/// Runs the binary to its end.
pub(crate) fn schedlab(args: &[&str]) -> Output {
    Command::cargo_bin("schedlab")
        .expect("binary")
        .args(args)
        .output()
        .expect("it runs")
}

/// What it printed.
pub(crate) fn stdout(o: &Output) -> String {
    String::from_utf8_lossy(&o.stdout).into_owned()
}

/// What it said beside that.
pub(crate) fn stderr(o: &Output) -> String {
    String::from_utf8_lossy(&o.stderr).into_owned()
}

/// What it printed, having succeeded.
pub(crate) fn printed(o: &Output) -> String {
    assert!(o.status.success(), "{}", stderr(o));
    stdout(o)
}
