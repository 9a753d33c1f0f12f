//! Short histories for tests: times in ms, `cpu` where recorded, `current` the task running there.
#![allow(dead_code)] // Each test program uses its part.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use proptest::prelude::*;
use schedlab_trace::{Comm, CpuFlags, Event, EventKind, Pid, PrevState, TaskRef};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const R: PrevState = PrevState::RUNNING;
pub(crate) const S: PrevState = PrevState::INTERRUPTIBLE;

#[derive(Clone, Debug, Default)]
pub(crate) struct Story(pub(crate) Vec<Event>);

pub(crate) fn task(pid: Pid) -> TaskRef {
    TaskRef {
        comm: Comm::new(&if pid == 0 {
            "swapper".to_owned()
        } else {
            format!("t{pid}")
        }),
        pid,
        prio: 120,
    }
}

impl Story {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn push(mut self, ts: u64, cpu: u32, current: Pid, kind: EventKind) -> Self {
        self.0.push(Event {
            ts: ts * MS,
            cpu,
            pid: current,
            comm: Comm::default(),
            flags: CpuFlags::default(),
            kind,
        });
        self
    }

    pub(crate) fn switch(
        self,
        ts: u64,
        cpu: u32,
        prev: Pid,
        prev_state: PrevState,
        next: Pid,
    ) -> Self {
        let kind = EventKind::SchedSwitch {
            prev: task(prev),
            prev_state,
            next: task(next),
        };
        self.push(ts, cpu, prev, kind)
    }

    /// `sched_waking` with the CPU of the event as target.
    pub(crate) fn waking(self, ts: u64, cpu: u32, current: Pid, wakee: Pid) -> Self {
        let kind = EventKind::SchedWaking {
            task: task(wakee),
            target_cpu: cpu,
        };
        self.push(ts, cpu, current, kind)
    }

    /// `sched_wakeup` with the CPU of the event as target.
    pub(crate) fn wakeup(self, ts: u64, cpu: u32, current: Pid, wakee: Pid) -> Self {
        let kind = EventKind::SchedWakeup {
            task: task(wakee),
            target_cpu: cpu,
        };
        self.push(ts, cpu, current, kind)
    }

    pub(crate) fn wakeup_new(self, ts: u64, cpu: u32, current: Pid, child: Pid) -> Self {
        let kind = EventKind::SchedWakeupNew {
            task: task(child),
            target_cpu: cpu,
        };
        self.push(ts, cpu, current, kind)
    }

    pub(crate) fn fork(self, ts: u64, cpu: u32, parent: Pid, child: Pid) -> Self {
        let kind = EventKind::SchedProcessFork {
            parent_comm: task(parent).comm,
            parent_pid: parent,
            child_comm: task(child).comm,
            child_pid: child,
        };
        self.push(ts, cpu, parent, kind)
    }

    pub(crate) fn migrate(
        self,
        ts: u64,
        cpu: u32,
        current: Pid,
        moved: Pid,
        dest_cpu: u32,
    ) -> Self {
        let kind = EventKind::SchedMigrateTask {
            task: task(moved),
            orig_cpu: cpu,
            dest_cpu,
        };
        self.push(ts, cpu, current, kind)
    }

    pub(crate) fn stat_runtime(self, ts: u64, cpu: u32, pid: Pid, runtime: u64) -> Self {
        self.charge(ts, cpu, pid, pid, runtime)
    }

    pub(crate) fn charge(self, ts: u64, cpu: u32, current: Pid, pid: Pid, runtime: u64) -> Self {
        let kind = EventKind::SchedStatRuntime {
            comm: task(pid).comm,
            pid,
            runtime: runtime * MS,
        };
        self.push(ts, cpu, current, kind)
    }

    pub(crate) fn exec(self, ts: u64, cpu: u32, pid: Pid, old_pid: Pid) -> Self {
        let kind = EventKind::SchedProcessExec {
            filename: String::new(),
            pid,
            old_pid,
        };
        self.push(ts, cpu, pid, kind)
    }

    pub(crate) fn other(self, ts: u64, cpu: u32, current: Pid, name: &str) -> Self {
        let kind = EventKind::Other {
            name: name.to_owned(),
            fields: String::new(),
        };
        self.push(ts, cpu, current, kind)
    }
}

/// Nonsense from a few tasks on three CPUs, sorted by time or not.
pub(crate) fn nonsense() -> impl Strategy<Value = Story> {
    let step = (0u64..300, 0u32..3, 0..6, 0..6, 0..12u8, 0..4u8);
    (proptest::collection::vec(step, 0..80), any::<bool>()).prop_map(|(steps, sorted)| {
        let mut story = Story::new();
        for (ts, cpu, a, b, kind, state) in steps {
            let state = [R, S, PrevState::PREEMPTED, PrevState::DEAD][usize::from(state)];
            story = match kind {
                0..=3 => story.switch(ts, cpu, a, state, b),
                4 => story.waking(ts, cpu, a, b),
                5 => story.wakeup(ts, cpu, a, b),
                6 => story.charge(ts, cpu, a, b, ts / 2),
                7 => story.wakeup_new(ts, cpu, a, b),
                8 => story.migrate(ts, cpu, a, b, (cpu + 1) % 4),
                9 => story.fork(ts, cpu, a, b),
                10 => story.exec(ts, cpu, a, b),
                _ => story.other(ts, cpu, a, "sys_enter_sched_yield"),
            };
        }
        if sorted {
            story.0.sort_by_key(|event| event.ts);
        }
        story
    })
}

/// The text of a packed fixture.
pub(crate) fn unpack(folder: &str, name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(folder)
        .join(format!("{name}.txt.xz"));
    let mut text = String::new();
    liblzma::read::XzDecoder::new(File::open(path).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// `comm pid/tid [cpu] time: sched:event: fields` of perf script into our dialect, by cutting strings.
pub(crate) fn from_perf_script(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let (front, rest) = line.split_once(" [").unwrap();
        let (comm, ids) = front.trim().rsplit_once(' ').unwrap();
        let pid = ids.split('/').next_back().unwrap();
        let comm = comm.trim();
        let comm = if comm.starts_with(':') { "<...>" } else { comm };
        out += &format!("{comm:>16}-{pid} [{rest}\n");
    }
    out
}
