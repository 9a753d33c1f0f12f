//! Writes a trace as perf.data, for looking at with perf itself: `perf_copy IN OUT`.

use std::error::Error;
use std::fs::File;

use schedlab_trace::{PerfDataOptions, PerfDataWriter, TraceWriter, open};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(input), Some(output)) = (args.next(), args.next()) else {
        return Err("usage: perf_copy IN OUT".into());
    };
    let mut writer = PerfDataWriter::new(File::create(output)?, PerfDataOptions::default());
    for event in open(input)? {
        writer.write(&event?)?;
    }
    let report = writer.finish()?;
    println!("{report:?}, {} events left out", writer.left_out());
    Ok(())
}
