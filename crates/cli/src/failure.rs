//! How errors end the program.

use std::io;
use std::process::ExitCode;

/// Exit code for bad input and usage.
pub(crate) const BAD_INPUT: u8 = 2;
/// Exit code of `convert --partial` if only a part could be written.
pub(crate) const PARTIAL: u8 = 1;

/// Prints an error with its causes and gives the exit code.
///
/// A closed pipe (`schedlab … | head`) is no error of ours: it ends quietly.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let closed = error.chain().any(|e| {
        e.downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    });
    if closed {
        return ExitCode::SUCCESS;
    }
    let mut text = format!("schedlab: {error}");
    for cause in error.chain().skip(1) {
        // A message that holds its cause already need not say it twice.
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    eprintln!("{text}");
    ExitCode::from(BAD_INPUT)
}
