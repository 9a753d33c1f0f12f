//! Which `print fmt:` of a kernel are understood.
//!
//!     cargo run -p schedlab-tracefmt --example understood -- /sys/kernel/tracing/events/*/*/format
use schedlab_tracefmt::{EventFormat, Printer};

fn main() {
    let (mut good, mut bad) = (0, 0);
    for path in std::env::args().skip(1) {
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("{path}: {error}");
                continue;
            }
        };
        let problem = match EventFormat::parse(&text) {
            Ok(format) => Printer::new(&format).unsupported().map(str::to_owned),
            Err(error) => Some(error.to_string()),
        };
        match problem {
            None => good += 1,
            Some(problem) => {
                bad += 1;
                println!("{path}: {problem}");
            }
        }
    }
    println!("{good} understood, {bad} not");
}
