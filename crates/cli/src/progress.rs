//! Progress of long work: a bar on a terminal, nothing in a pipe.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over `total` steps, drawn on stderr if that is a terminal.
pub(crate) fn bar(total: u64, what: &'static str) -> ProgressBar {
    if total < 2 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar
}

/// A count of events, for work whose length is not known.
pub(crate) fn spinner(what: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{msg}: {human_pos} events, {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar
}
