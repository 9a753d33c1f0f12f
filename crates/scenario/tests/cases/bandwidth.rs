//! Cases 23, 25 and 27: quotas.

use schedlab_fair::profile::ThrottleRule;

use super::help::{MS, Played, SEC, load, play, play_file, quantile};

/// Times at which tasks of a name are runnable and none of them runs.
fn stalls(p: &Played, name: &str) -> Vec<(u64, u64)> {
    let mut edges = Vec::new();
    for s in p.stints(name) {
        edges.push((s.ready, 1, 0));
        edges.push((s.start, -1, 1));
        edges.push((s.end, 0, -1));
    }
    edges.sort_unstable();
    let (mut waiting, mut running, mut since) = (0, 0, None);
    let mut out = Vec::new();
    for (i, &(at, w, r)) in edges.iter().enumerate() {
        waiting += w;
        running += r;
        if edges.get(i + 1).is_some_and(|next| next.0 == at) {
            continue;
        }
        if waiting > 0 && running == 0 {
            since.get_or_insert(at);
        } else if let Some(from) = since.take() {
            out.push((from, at));
        }
    }
    out
}

fn burst_stalls(p: &Played) -> Vec<(u64, u64)> {
    let mut all = stalls(p, "worker");
    all.retain(|s| s.0 > SEC);
    all
}

fn longest(stalls: &[(u64, u64)]) -> u64 {
    stalls.iter().map(|s| s.1 - s.0).max().unwrap_or(0)
}

#[test]
fn case_23_a_limit_far_above_the_mean_use_makes_the_tail() {
    let bursts = |options: &[&str]| {
        let p = play_file("23-limit.toml", options);
        // Not the first looks at the clock.
        let times = p.responses("worker", SEC);
        assert_eq!(times.len(), 5 * 32);
        assert!((p.share("worker") - 0.03).abs() < 0.005);
        (quantile(&times, 0.99), burst_stalls(&p))
    };
    let (free, none) = bursts(&["group.pod={ name = \"pod\" }"]);
    // Two bursts of 5 ms a CPU.
    assert_eq!((free, none.len()), (10 * MS, 0));
    let (limited, some) = bursts(&[]);
    // 16 CPUs use up 150 ms in 9.4 ms, within each of the five bursts.
    let exhausted = 150 * MS / 16;
    assert!(limited >= free + 100 * MS - exhausted, "{limited}");
    // One long stall each; shorter ones end with the slack timer, which hands on what idle CPUs gave back.
    let long = some.iter().filter(|s| s.1 - s.0 > 50 * MS).count();
    assert_eq!(long, 5, "{some:?}");
    // The same limit with shorter periods: shorter stalls, but more of them.
    let (_, short) = bursts(&["group.pod.quota=15ms", "group.pod.period=10ms"]);
    assert!(longest(&short) <= 10 * MS && longest(&short) < longest(&some));
    assert!(short.len() > some.len(), "{short:?}");
    // A limit that a burst fits into costs nothing.
    let (roomy, none) = bursts(&["group.pod.quota=200ms"]);
    assert_eq!((roomy, none.len()), (free, 0));
}

#[test]
fn case_25_parallelism_above_the_quota_ends_in_a_stall() {
    let run = |app: u64, gc: u64, work: &str| {
        let (app, gc) = (
            format!("task.app.count={app}"),
            format!("task.gc.count={gc}"),
        );
        let work = format!("task.gc.program=[\"run {work}\"]");
        play_file("25-collector.toml", &[&app, &gc, &work, "duration=300ms"])
    };
    for (app, gc) in [(24, 8), (16, 8), (14, 8), (6, 2)] {
        let p = run(app, gc, "100ms");
        // 400 ms are gone after this; a CPU fetches 5 ms at once and looks at ticks.
        let gone = 400 * MS / (app + gc);
        let mut used = 0;
        for s in p.stints("app").iter().chain(&p.stints("gc")) {
            if s.start < 100 * MS {
                assert!(
                    s.end + 6 * MS >= gone && s.end <= gone + 6 * MS,
                    "{app}+{gc}: {s:?}"
                );
                used += s.end - s.start;
            }
        }
        assert!(
            used >= 400 * MS && used <= (400 + app + gc) * MS,
            "{app}+{gc}: {used}"
        );
        // Nothing runs in the rest of the period.
        let stall = stalls(&p, "app")[0];
        assert!(
            stall.0 <= gone + 6 * MS && stall.1 == 100 * MS,
            "{app}+{gc}: {stall:?}"
        );
    }
    // P = 4: a collector on one thread, as much work in all.
    let b = run(3, 1, "160ms");
    assert_eq!((b.max_wait("app"), b.max_wait("gc")), (0, 0));
}

#[test]
fn case_27_a_throttled_holder_keeps_the_lock_or_not() {
    let run = |rule: ThrottleRule, preempt: &str, hold: u64| {
        let preempt = format!("kernel.preempt={preempt}");
        let program = format!(
            "task.p0.program=[\"run 4ms\", \"lock L\", \"run {hold}ms kernel\", \"unlock L\", \"run 100s\"]"
        );
        let mut s = load("27-holder.toml", &[&preempt, &program]);
        s.kernel.profile.throttle_rule = rule;
        let p = play(&s);
        // From the first try to the lock.
        let stints = p.stints("p1");
        (stints[1].start - stints[0].start, p.run("p0"))
    };
    let asked = 4100 * 1000;
    for hold in [2, 3, 5, 9] {
        // A: the rest of the hold comes after refills at 100 ms, 200 ms, ..., 5 ms each.
        let rest = hold - 1;
        let refill = (rest - 1) / 5 + 1;
        let taken = refill * 100 + rest - (refill - 1) * 5;
        let (wait, _) = run(ThrottleRule::Group, "full", hold);
        assert_eq!(wait, taken * MS - asked, "{hold} ms");
        // B: as if there were no quota, in every model.
        for preempt in ["none", "voluntary", "full"] {
            let (wait, used) = run(ThrottleRule::Task, preempt, hold);
            assert_eq!(wait, (4 + hold) * MS - asked, "{preempt}, {hold} ms");
            // What ran beyond the quota is taken from later periods: 20 of 5 ms.
            assert_eq!(used, 100 * MS, "{preempt}, {hold} ms");
        }
    }
}
