//! Reads trace files and prints what was found in each, and how fast.
//!
//! `cargo run --release -p schedlab-trace --example read_report -- FILE...`

use std::time::Instant;

fn main() {
    for path in std::env::args().skip(1) {
        let start = Instant::now();
        let mut reader = match schedlab_trace::open(&path) {
            Ok(reader) => reader,
            Err(error) => {
                eprintln!("{error}");
                continue;
            }
        };
        let error = reader.by_ref().find_map(Result::err);
        let seconds = start.elapsed().as_secs_f64();
        let report = reader.report();
        println!("{path}: {report}");
        if let Some(error) = error {
            eprintln!("{error}");
        }
        println!(
            "{:.2} s, {:.2} million lines/s",
            seconds,
            report.lines as f64 / seconds / 1e6
        );
    }
}
