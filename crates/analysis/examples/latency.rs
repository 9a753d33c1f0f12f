//! Prints the latency table of trace files.
//!
//! `cargo run --release -p schedlab-analysis --example latency -- [--task] [--wakeup] [--perf] [--json] FILE...`

use std::error::Error;

use schedlab_analysis::latency::{
    GroupBy, LatencyAccumulator, LatencyOptions, Layout, RenderOptions, WakeStart,
};
use schedlab_trace::open;

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = RenderOptions::default();
    let mut json = false;
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            "--task" => options.group = GroupBy::Task,
            "--wakeup" => options.start = WakeStart::Wakeup,
            "--perf" => options.layout = Layout::Perf,
            "--json" => json = true,
            path => {
                let mut latency = LatencyAccumulator::new(LatencyOptions::default());
                for event in open(path)? {
                    latency.push(&event?);
                }
                let report = latency.finish();
                if json {
                    println!("{}", report.to_json()?);
                } else {
                    print!("{}", report.render(options));
                }
            }
        }
    }
    Ok(())
}
