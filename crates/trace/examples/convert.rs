//! Turns a trace that the lab can read into a Perfetto trace, to be opened in the Perfetto UI.
//!
//! `cargo run --release -p schedlab-trace --example convert -- IN OUT`

use std::error::Error;
use std::fs::File;

use schedlab_trace::{PerfettoOptions, PerfettoWriter, TraceWriter, open};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(input), Some(output)) = (args.next(), args.next()) else {
        return Err("usage: convert IN OUT".into());
    };
    let mut reader = open(input)?;
    let mut writer = PerfettoWriter::new(File::create(output)?, PerfettoOptions::default());
    for event in reader.by_ref() {
        writer.write(&event?)?;
    }
    println!("{:?}", writer.finish()?);
    println!("{}", reader.report());
    Ok(())
}
