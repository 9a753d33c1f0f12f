//! Whether two traces hold the same events, whatever their formats. The flags column counts only if both have it, and if
//! one has only microseconds, the other is rounded as the kernel rounds.
//!
//!     cargo run -p schedlab-trace --example same_events -- trace.dat report.txt
use schedlab_trace::{CpuFlags, Event, open};

fn events(path: &str) -> (Vec<Event>, bool) {
    let mut reader = open(path).unwrap_or_else(|e| panic!("{e}"));
    let events = reader
        .by_ref()
        .map(|e| e.unwrap_or_else(|e| panic!("{e}")))
        .collect();
    let report = reader.report();
    println!("{path}: {report}");
    (events, report.with_flags > 0)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let ((mut a, flags_a), (mut b, flags_b)) = (events(&args[0]), events(&args[1]));
    if !(flags_a && flags_b) {
        for event in a.iter_mut().chain(&mut b) {
            event.flags = CpuFlags::default();
        }
    }
    let coarse = |events: &[Event]| events.iter().all(|e| e.ts % 1000 == 0);
    if coarse(&a) || coarse(&b) {
        for event in a.iter_mut().chain(&mut b) {
            event.ts = (event.ts + 500) / 1000 * 1000;
        }
    }
    let different: Vec<_> = a.iter().zip(&b).filter(|(x, y)| x != y).collect();
    for (x, y) in different.iter().take(5) {
        println!("{x:?}\n{y:?}\n");
    }
    let (a, b, different) = (a.len(), b.len(), different.len());
    println!("{a} and {b} events, {different} differ");
}
