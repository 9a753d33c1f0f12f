//! Traces to read, and what says which part of them.

use std::io;
use std::path::Path;

use anyhow::{Result, bail};
use schedlab_trace::{ReadError, Reader};

/// Opens a trace; `-` is standard input.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Reader + Send>, ReadError> {
    if path == Path::new("-") {
        schedlab_trace::open_stream(io::stdin(), "standard input")
    } else {
        schedlab_trace::open(path)
    }
}

/// A time in ns from seconds as a trace prints them. An error names the option and all that was given to it.
pub(crate) fn time(option: &str, given: &str, text: &str) -> Result<u64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let parsed = (digits(seconds) && digits(fraction) && fraction.len() <= 9)
        .then(|| {
            let fraction: u64 = format!("{fraction:0<9}").parse().ok()?;
            let seconds: u64 = seconds.parse().ok()?;
            seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
        })
        .flatten();
    match parsed {
        Some(ns) => Ok(ns),
        None => {
            bail!("{option} {given}: expected seconds as the trace prints them, such as 12.345678")
        }
    }
}
