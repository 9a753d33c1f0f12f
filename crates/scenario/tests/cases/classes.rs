//! Cases 11 and 21: the fair server, and preemption models.

use super::help::{MS, Played, SEC, Stint, max, mean, play_file};

/// The most that fair tasks of a CPU ran in any window that begins with one of them.
fn most_in_window(stints: &[Stint], window: u64) -> u64 {
    let mut most = 0;
    for (i, first) in stints.iter().enumerate() {
        let end = first.start + window;
        let inside = stints[i..].iter().take_while(|s| s.start < end);
        most = most.max(inside.map(|s| s.end.min(end) - s.start).sum());
    }
    most
}

fn by_cpu(p: &Played, name: &str) -> Vec<Vec<Stint>> {
    let mut cpus = vec![Vec::new(); p.outcome.result.cpus.len()];
    for s in p.stints(name) {
        cpus[s.cpu as usize].push(s);
    }
    cpus
}

#[test]
fn case_11_a_server_started_and_stopped_all_the_time_serves_once_a_period() {
    // Real-time tasks that leave no gap: all that fair tasks get is the server's.
    let rt = "task.rt.program=[\"run 1000s\"]";
    for profile in ["6.12.0", "6.12-stable", "6.19", "7.0"] {
        let p = format!("kernel.profile=\"{profile}\"");
        // With gaps, every CPU's fair queue fills and empties at nearly 10 kHz whenever it may.
        let gaps = play_file("11-fair-server.toml", &[&p]);
        for cpu in by_cpu(&gaps, "kworker") {
            assert!(cpu.iter().filter(|s| s.slept).count() > 7_000, "{profile}");
        }
        assert!(gaps.share("rt") > 5.5, "{profile}: {}", gaps.share("rt"));
        for steps in [
            "\"run 10us\", \"timer t 100us\"",
            "\"run 1ms\", \"sleep 100us\"",
            "\"run 20ms\", \"sleep 100us\"",
            "\"run 49ms\", \"sleep 500ms\"",
            "\"run 51ms\", \"sleep 1ms\"",
            "\"run 100s\"",
        ] {
            let work =
                format!("task.kworker.program=[{{ loop = \"forever\", steps = [{steps}] }}]");
            let full = play_file("11-fair-server.toml", &[&p, rt, &work]);
            for cpu in by_cpu(&full, "kworker") {
                assert!(!cpu.is_empty(), "{profile} {steps}: starved");
                // A server that is started while it is active would serve twice.
                let most = most_in_window(&cpu, SEC - 50 * MS);
                assert!(most <= 50 * MS, "{profile} {steps}: {most}");
            }
        }
    }
}

#[test]
fn case_11_arrivals_while_the_server_is_started_do_not_start_it_again() {
    // A fair hog keeps each server started; beside it the other work comes and goes at 10 kHz while the server serves.
    let rt = "task.rt.program=[\"run 1000s\"]";
    let hog = "task+={ name = \"hog\", count = 8, kind = \"hog\" }";
    for profile in ["6.12.0", "6.12-stable", "6.19", "7.0"] {
        let p = format!("kernel.profile=\"{profile}\"");
        let p = play_file("11-fair-server.toml", &[&p, rt, hog]);
        assert!(p.sum("kworker", |s| s.nvcsw) > 8 * 3 * 100, "{profile}");
        // Exactly 50 ms of each of three seconds on each of eight CPUs.
        let fair = p.run("kworker") + p.run("hog");
        assert_eq!(fair, 8 * 3 * 50 * MS, "{profile}");
    }
}

/// Delays of the waker; `fifo` makes it real time.
fn delays(hz: u64, preempt: &str, fifo: bool) -> Vec<u64> {
    let hz = format!("machine.hz={hz}");
    let preempt = format!("kernel.preempt={preempt}");
    let mut options = vec![hz.as_str(), preempt.as_str()];
    if fifo {
        options.push(
            "task.waker={ name = \"waker\", policy = \"fifo\", rt_priority = 1, \
             program = [{ loop = \"forever\", steps = [\"sleep 13ms..33ms\", \"run 50us\"] }] }",
        );
    }
    play_file("21-lazy.toml", &options).wakeup_delays("waker")
}

#[test]
fn case_21_lazy_preemption_adds_half_a_tick_on_average() {
    for hz in [1000, 250, 100] {
        let tick = SEC / hz;
        let full = delays(hz, "full", false);
        let lazy = delays(hz, "lazy", false);
        let extra = mean(&lazy) - mean(&full);
        // 1,400 draws from a uniform delay: its mean lies within 4 sigma of half a tick.
        let sigma = tick as f64 / (12.0 * lazy.len() as f64).sqrt();
        assert!(
            (extra - tick as f64 / 2.0).abs() < 4.0 * sigma,
            "{hz}: {extra}"
        );
        assert!(max(&lazy) <= tick, "{hz}: {}", max(&lazy));
        // Almost the whole range is met.
        assert!(max(&lazy) > tick * 99 / 100, "{hz}: {}", max(&lazy));
        // Now and then the hog's deadline comes within the waker's 1.2 µs request, and is earlier.
        assert!(mean(&full) < 1_000.0, "{hz}: {}", mean(&full));
        for preempt in ["full", "lazy"] {
            assert_eq!(max(&delays(hz, preempt, true)), 0, "{hz} {preempt}");
        }
    }
}

#[test]
fn case_21_a_task_in_user_mode_is_left_at_once() {
    for hz in [1000, 100] {
        let hz = format!("machine.hz={hz}");
        let user = "task.hog.program=[\"run 1000s\"]";
        let p = play_file("21-lazy.toml", &[&hz, user]);
        assert!(mean(&p.wakeup_delays("waker")) < 1_000.0);
    }
}
