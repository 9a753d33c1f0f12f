//! Names of recorded tasks: comm and pid, without what a scenario's keys cannot hold.

use std::collections::BTreeSet;

use schedlab_analysis::load::Load;

/// A name for each task, all different.
pub(super) fn names(load: &Load) -> Vec<String> {
    let mut taken = BTreeSet::new();
    load.tasks
        .iter()
        .map(|t| {
            let comm = String::from_utf8_lossy(t.comm.as_bytes()).into_owned();
            let base = format!("{}-{}", plain(&comm), t.pid);
            let mut name = base.clone();
            let mut again = 1;
            // A pid that came back.
            while !taken.insert(name.clone()) {
                again += 1;
                name = format!("{base}~{again}");
            }
            name
        })
        .collect()
}

/// Dots part the keys of `--set`, `=` ends them, white space parts the words of steps.
fn plain(comm: &str) -> String {
    let out: String = comm
        .chars()
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() => c,
            '_' | '/' | ':' | '+' | '-' | '@' => c,
            _ => '_',
        })
        .collect();
    if out.is_empty() { "task".into() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_analysis::load::{Act, Birth, LoadTask};
    use schedlab_trace::Comm;

    #[test]
    fn names_are_plain_and_all_different() {
        let task = |comm: &str, pid| LoadTask {
            pid,
            comm: Comm::new(comm),
            prio: None,
            birth: Birth::Runnable,
            acts: vec![Act::Yield],
            ended: false,
            affinity: vec![],
            partner: None,
            period: None,
        };
        let load = Load {
            tasks: vec![
                task("Web Content", 7),
                task("a.b=c", 8),
                task("", 9),
                task("x", 1),
                task("x", 1),
                task("kworker/0:1", 3),
            ],
            ..Load::default()
        };
        assert_eq!(
            names(&load),
            [
                "Web_Content-7",
                "a_b_c-8",
                "task-9",
                "x-1",
                "x-1~2",
                "kworker/0:1-3"
            ]
        );
    }
}
