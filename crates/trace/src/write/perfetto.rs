//! Perfetto protobuf traces, made to be opened in the Perfetto UI and its SQL.
//!
//! Field numbers are those of the public schema (`protos/perfetto/trace/` of Perfetto 51): a file is a sequence of
//! `TracePacket`s, here one with the kernel's version, then ftrace bundles, one per CPU, each behind the names of the
//! tasks that are new in it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::{TraceWriter, WriteError, WriteReport};
use crate::perfetto::proto::{bytes, int, message, uint};
use crate::perfetto::schema as field;
use crate::{Comm, CpuFlags, CpuReport, Event, EventKind, Pid, ReadReport, TaskRef};

/// Bytes of events held back, all CPUs together, before bundles are written.
const BUNDLE_BYTES: usize = 128 * 1024;

/// `SEQ_INCREMENTAL_STATE_CLEARED`.
const STATE_CLEARED: u64 = 1;
/// All packets belong to one sequence; zero is not allowed.
const SEQUENCE_ID: u64 = 1;

/// `TrackEvent.TYPE_COUNTER`.
const TYPE_COUNTER: u64 = 4;
/// Added to the number of a counter's track, so that its uuid is not one of another tool's.
const COUNTER_UUID_BASE: u64 = 0x5c4e_d1ab_0000_0000;
/// Added to the pid of a thread's track.
const THREAD_UUID_BASE: u64 = 0x5c4e_d1ac_0000_0000;
/// `FtraceStats.END_OF_TRACE`.
const END_OF_TRACE: u64 = 2;

/// What a counter counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterUnit {
    /// Nanoseconds.
    Nanoseconds,
    /// Things.
    Count,
}

/// A track of [`PerfettoWriter::counter_track`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CounterTrack(u64);

/// How to write a Perfetto trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PerfettoOptions {
    /// Kernel release such as `6.12.0`. Perfetto reads `prev_state` by it: from 4.14 on as the bits of
    /// [`PrevState`](crate::PrevState), without a release as those of older kernels, which would misread `R+` and `I`.
    pub kernel_release: String,
}

impl Default for PerfettoOptions {
    fn default() -> Self {
        Self {
            kernel_release: "6.12.0".to_owned(),
        }
    }
}

/// Writes a Perfetto protobuf trace.
///
/// Events with a message of their own in Perfetto's schema go there. `sched_stat_runtime` and all others become generic
/// events (table `ftrace_event` in SQL); their fields text goes into one argument named `fields`. `tracing_mark_write`
/// becomes `print`, which the UI reads for slices and counters.
///
/// An [`Event`] does not say which process a thread belongs to, so each task is shown as a process of its own, named
/// as the last event named it. Up to 128 KiB of events and the name of every task are held in memory.
pub struct PerfettoWriter<W> {
    output: W,
    options: PerfettoOptions,
    /// Encoded events by CPU.
    bundles: BTreeMap<u32, Vec<u8>>,
    held: usize,
    /// Earliest time in `bundles`.
    held_from: u64,
    tasks: BTreeMap<Pid, Task>,
    /// Tasks that are new or renamed since the last bundles.
    renamed: BTreeSet<Pid>,
    packet: Vec<u8>,
    scratch: Vec<u8>,
    /// Packets of counters that are held back with the bundles.
    counters: Vec<u8>,
    /// Number of counter tracks.
    tracks: u64,
    /// Tasks whose thread has a track, to which counters belong.
    threads: BTreeSet<Pid>,
    /// Losses of the source, to be noted at the end.
    lost: Vec<CpuReport>,
    report: WriteReport,
    started: bool,
    finished: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Task {
    comm: Comm,
    parent: Option<Pid>,
}

impl<W: Write> PerfettoWriter<W> {
    /// Starts a trace on `output`. The writer gathers packets itself, so the output need not be buffered.
    pub fn new(output: W, options: PerfettoOptions) -> Self {
        Self {
            output,
            options,
            bundles: BTreeMap::new(),
            held: 0,
            held_from: u64::MAX,
            tasks: BTreeMap::new(),
            renamed: BTreeSet::new(),
            packet: Vec::new(),
            scratch: Vec::new(),
            counters: Vec::new(),
            tracks: 0,
            threads: BTreeSet::new(),
            lost: Vec::new(),
            report: WriteReport::default(),
            started: false,
            finished: false,
        }
    }

    /// Adds a track that shows a number over time; of a task if `task` is given.
    ///
    /// # Errors
    /// [`WriteError::Io`] if the output fails.
    pub fn counter_track(
        &mut self,
        name: &str,
        unit: CounterUnit,
        task: Option<Pid>,
    ) -> Result<CounterTrack, WriteError> {
        self.start()?;
        self.tracks += 1;
        let track = CounterTrack(COUNTER_UUID_BASE + self.tracks);
        let parent = task.map(|pid| THREAD_UUID_BASE + u64::from(pid.cast_unsigned()));
        if let (Some(pid), Some(parent)) = (task, parent)
            && self.threads.insert(pid)
        {
            self.put_packet(|out| {
                message(out, field::PACKET_TRACK_DESCRIPTOR, |out| {
                    uint(out, field::TRACK_UUID, parent);
                    message(out, field::TRACK_THREAD, |out| {
                        int(out, field::THREAD_DESCRIPTOR_PID, pid.into());
                        int(out, field::THREAD_DESCRIPTOR_TID, pid.into());
                    });
                });
            })?;
        }
        self.put_packet(|out| {
            message(out, field::PACKET_TRACK_DESCRIPTOR, |out| {
                uint(out, field::TRACK_UUID, track.0);
                bytes(out, field::TRACK_NAME, name.as_bytes());
                if let Some(parent) = parent {
                    uint(out, field::TRACK_PARENT, parent);
                }
                message(out, field::TRACK_COUNTER, |out| {
                    // enum Unit.
                    let unit = match unit {
                        CounterUnit::Nanoseconds => 1,
                        CounterUnit::Count => 2,
                    };
                    uint(out, field::COUNTER_UNIT, unit);
                });
            });
        })?;
        Ok(track)
    }

    /// Sets a counter at a time, ns.
    ///
    /// # Errors
    /// [`WriteError::Io`] if the output fails.
    pub fn counter(&mut self, track: CounterTrack, ts: u64, value: i64) -> Result<(), WriteError> {
        let before = self.counters.len();
        put_framed(&mut self.counters, |out| {
            uint(out, field::PACKET_TIMESTAMP, ts);
            message(out, field::PACKET_TRACK_EVENT, |out| {
                uint(out, field::TRACK_EVENT_TYPE, TYPE_COUNTER);
                uint(out, field::TRACK_EVENT_TRACK, track.0);
                int(out, field::TRACK_EVENT_COUNTER_VALUE, value);
            });
        });
        self.held += self.counters.len() - before;
        if self.held >= BUNDLE_BYTES {
            self.put_bundles()?;
        }
        Ok(())
    }

    /// Losses as the ring buffer's statistics at the end of a recording.
    fn put_losses(&mut self) -> Result<(), WriteError> {
        let lost = std::mem::take(&mut self.lost);
        if lost.iter().all(|cpu| cpu.lost_events == 0) {
            return Ok(());
        }
        self.put_packet(|out| {
            message(out, field::PACKET_FTRACE_STATS, |out| {
                uint(out, field::STATS_PHASE, END_OF_TRACE);
                for cpu in lost.iter().filter(|cpu| cpu.lost_events > 0) {
                    message(out, field::STATS_CPU, |out| {
                        uint(out, field::CPU_STATS_CPU, cpu.cpu.into());
                        uint(out, field::CPU_STATS_OVERRUN, cpu.lost_events);
                    });
                }
            });
        })
    }

    /// Whether Perfetto, which knows names by task only, would show another name in front of the event.
    fn loses_name(&self, event: &Event) -> bool {
        !event.comm.is_empty()
            && event.pid != 0
            && self.tasks.get(&event.pid).map(|task| task.comm) != Some(event.comm)
    }

    /// Notes a task's name; `parent` if this is its birth.
    fn name_task(&mut self, pid: Pid, comm: Comm, parent: Option<Pid>) {
        // Pid 0 is the idle task of each CPU, which Perfetto names by itself.
        if pid <= 0 {
            return;
        }
        let known = self.tasks.get(&pid).copied();
        let new = Task {
            comm,
            parent: parent.or_else(|| known.and_then(|task| task.parent)),
        };
        if known != Some(new) {
            self.tasks.insert(pid, new);
            self.renamed.insert(pid);
        }
    }

    fn name_tasks(&mut self, event: &Event) {
        match &event.kind {
            EventKind::SchedSwitch { prev, next, .. } => {
                self.name_task(prev.pid, prev.comm, None);
                self.name_task(next.pid, next.comm, None);
            }
            EventKind::SchedWaking { task, .. }
            | EventKind::SchedWakeup { task, .. }
            | EventKind::SchedWakeupNew { task, .. }
            | EventKind::SchedMigrateTask { task, .. }
            | EventKind::SchedProcessExit { task } => self.name_task(task.pid, task.comm, None),
            EventKind::SchedStatRuntime { comm, pid, .. } => self.name_task(*pid, *comm, None),
            EventKind::SchedProcessFork {
                parent_comm,
                parent_pid,
                child_comm,
                child_pid,
            } => {
                self.name_task(*parent_pid, *parent_comm, None);
                self.name_task(*child_pid, *child_comm, Some(*parent_pid));
            }
            EventKind::SchedProcessExec { .. } | EventKind::Other { .. } => {}
        }
        // The column in front may show a name that the task takes later, so it only fills gaps.
        if !event.comm.as_bytes().is_empty() && !self.tasks.contains_key(&event.pid) {
            self.name_task(event.pid, event.comm, None);
        }
    }

    fn put_packet(&mut self, body: impl FnOnce(&mut Vec<u8>)) -> Result<(), WriteError> {
        self.packet.clear();
        put_framed(&mut self.packet, body);
        self.report.bytes += self.packet.len() as u64;
        let result = self.output.write_all(&self.packet);
        result.map_err(|source| self.error(source))
    }

    fn start(&mut self) -> Result<(), WriteError> {
        if self.started {
            return Ok(());
        }
        self.started = true;
        let release = self.options.kernel_release.clone();
        self.put_packet(|out| {
            uint(out, field::PACKET_SEQUENCE_FLAGS, STATE_CLEARED);
            uint(out, field::PACKET_FIRST_ON_SEQUENCE, 1);
            message(out, field::PACKET_SYSTEM_INFO, |out| {
                message(out, field::SYSTEM_INFO_UTSNAME, |out| {
                    bytes(out, field::UTSNAME_SYSNAME, b"Linux");
                    bytes(out, field::UTSNAME_RELEASE, release.as_bytes());
                });
            });
        })
    }

    /// Writes names and bundles that are held back.
    fn put_bundles(&mut self) -> Result<(), WriteError> {
        let renamed = std::mem::take(&mut self.renamed);
        if !renamed.is_empty() {
            let (tasks, from) = (std::mem::take(&mut self.tasks), self.held_from);
            let result = self.put_packet(|out| {
                uint(out, field::PACKET_TIMESTAMP, from);
                message(out, field::PACKET_PROCESS_TREE, |out| {
                    for &pid in &renamed {
                        if let Some(task) = tasks.get(&pid) {
                            put_task(out, pid, task);
                        }
                    }
                });
            });
            self.tasks = tasks;
            result?;
        }
        let mut bundles = std::mem::take(&mut self.bundles);
        for (&cpu, events) in &mut bundles {
            if events.is_empty() {
                continue;
            }
            self.put_packet(|out| {
                message(out, field::PACKET_FTRACE_EVENTS, |out| {
                    uint(out, field::BUNDLE_CPU, u64::from(cpu));
                    out.extend_from_slice(events);
                });
            })?;
            events.clear();
        }
        self.bundles = bundles;
        self.report.bytes += self.counters.len() as u64;
        let result = self.output.write_all(&self.counters);
        self.counters.clear();
        result.map_err(|source| self.error(source))?;
        self.held = 0;
        self.held_from = u64::MAX;
        Ok(())
    }

    fn error(&self, source: io::Error) -> WriteError {
        WriteError::Io {
            events: self.report.events,
            source,
        }
    }
}

impl<W> PerfettoWriter<W> {
    /// Gives the output back, after [`TraceWriter::finish`].
    pub fn into_inner(self) -> W {
        self.output
    }
}

impl<W: Write> TraceWriter for PerfettoWriter<W> {
    fn write(&mut self, event: &Event) -> Result<(), WriteError> {
        if self.finished {
            return Err(WriteError::Finished {
                events: self.report.events,
            });
        }
        self.start()?;
        self.name_tasks(event);
        self.report.flags_lost += u64::from(event.flags.preempt_depth > 0);
        self.report.names_lost += u64::from(self.loses_name(event));
        self.scratch.clear();
        let altered = put_event(&mut self.scratch, event);
        let bundle = self.bundles.entry(event.cpu).or_default();
        let before = bundle.len();
        bytes(bundle, field::BUNDLE_EVENT, &self.scratch);
        self.held += bundle.len() - before;
        self.held_from = self.held_from.min(event.ts);
        self.report.events += 1;
        self.report.altered += u64::from(altered);
        if self.held >= BUNDLE_BYTES {
            self.put_bundles()?;
        }
        Ok(())
    }

    fn source(&mut self, report: &ReadReport) {
        self.lost = report.cpus.clone();
    }

    fn finish(&mut self) -> Result<WriteReport, WriteError> {
        if self.finished {
            return Err(WriteError::Finished {
                events: self.report.events,
            });
        }
        self.start()?;
        self.put_bundles()?;
        self.put_losses()?;
        self.finished = true;
        self.output.flush().map_err(|source| self.error(source))?;
        Ok(self.report)
    }
}

/// One packet of the sequence.
fn put_framed(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    message(out, field::TRACE_PACKET, |out| {
        body(out);
        uint(out, field::PACKET_SEQUENCE_ID, SEQUENCE_ID);
    });
}

/// `Process` and its main `Thread`.
fn put_task(out: &mut Vec<u8>, pid: Pid, task: &Task) {
    let name = String::from_utf8_lossy(task.comm.as_bytes());
    message(out, field::TREE_PROCESSES, |out| {
        int(out, field::PROCESS_PID, pid.into());
        if let Some(parent) = task.parent {
            int(out, field::PROCESS_PPID, parent.into());
        }
        bytes(out, field::PROCESS_CMDLINE, name.as_bytes());
        uint(out, field::PROCESS_CMDLINE_IS_COMM, 1);
    });
    message(out, field::TREE_THREADS, |out| {
        int(out, field::THREAD_TID, pid.into());
        bytes(out, field::THREAD_NAME, name.as_bytes());
        int(out, field::THREAD_TGID, pid.into());
    });
}

/// One `FtraceEvent`; says whether a name had to be changed to be UTF-8.
fn put_event(out: &mut Vec<u8>, event: &Event) -> bool {
    let mut altered = false;
    uint(out, field::EVENT_TIMESTAMP, event.ts);
    uint(
        out,
        field::EVENT_PID,
        u64::try_from(event.pid).unwrap_or_default(),
    );
    if event.flags != CpuFlags::default() {
        uint(out, field::EVENT_COMMON_FLAGS, common_flags(event.flags));
    }
    match &event.kind {
        EventKind::SchedSwitch {
            prev,
            prev_state,
            next,
        } => message(out, field::EVENT_SCHED_SWITCH, |out| {
            put_comm(out, field::SWITCH_PREV_COMM, prev.comm, &mut altered);
            int(out, field::SWITCH_PREV_PID, prev.pid.into());
            int(out, field::SWITCH_PREV_PRIO, prev.prio.into());
            uint(out, field::SWITCH_PREV_STATE, prev_state.0.into());
            put_comm(out, field::SWITCH_NEXT_COMM, next.comm, &mut altered);
            int(out, field::SWITCH_NEXT_PID, next.pid.into());
            int(out, field::SWITCH_NEXT_PRIO, next.prio.into());
        }),
        EventKind::SchedWaking { task, target_cpu } => {
            let kind = field::EVENT_SCHED_WAKING;
            put_wake(out, kind, task, *target_cpu, &mut altered);
        }
        EventKind::SchedWakeup { task, target_cpu } => {
            let kind = field::EVENT_SCHED_WAKEUP;
            put_wake(out, kind, task, *target_cpu, &mut altered);
        }
        EventKind::SchedWakeupNew { task, target_cpu } => {
            let kind = field::EVENT_SCHED_WAKEUP_NEW;
            put_wake(out, kind, task, *target_cpu, &mut altered);
        }
        EventKind::SchedMigrateTask {
            task,
            orig_cpu,
            dest_cpu,
        } => message(out, field::EVENT_SCHED_MIGRATE_TASK, |out| {
            put_task_ref(out, task, field::TASK_PRIO, &mut altered);
            uint(out, field::MIGRATE_ORIG_CPU, u64::from(*orig_cpu));
            uint(out, field::MIGRATE_DEST_CPU, u64::from(*dest_cpu));
        }),
        EventKind::SchedProcessExit { task } => {
            message(out, field::EVENT_SCHED_PROCESS_EXIT, |out| {
                put_task_ref(out, task, field::EXIT_PRIO, &mut altered);
            });
        }
        EventKind::SchedProcessFork {
            parent_comm,
            parent_pid,
            child_comm,
            child_pid,
        } => message(out, field::EVENT_SCHED_PROCESS_FORK, |out| {
            put_comm(out, field::FORK_PARENT_COMM, *parent_comm, &mut altered);
            int(out, field::FORK_PARENT_PID, (*parent_pid).into());
            put_comm(out, field::FORK_CHILD_COMM, *child_comm, &mut altered);
            int(out, field::FORK_CHILD_PID, (*child_pid).into());
        }),
        EventKind::SchedProcessExec {
            filename,
            pid,
            old_pid,
        } => message(out, field::EVENT_SCHED_PROCESS_EXEC, |out| {
            bytes(out, field::EXEC_FILENAME, filename.as_bytes());
            int(out, field::EXEC_PID, (*pid).into());
            int(out, field::EXEC_OLD_PID, (*old_pid).into());
        }),
        EventKind::SchedStatRuntime { comm, pid, runtime } => {
            message(out, field::EVENT_GENERIC, |out| {
                bytes(out, field::GENERIC_NAME, event.kind.name().as_bytes());
                put_generic(out, "comm", |out| {
                    put_comm(out, field::GENERIC_FIELD_STR, *comm, &mut altered);
                });
                put_generic(out, "pid", |out| {
                    int(out, field::GENERIC_FIELD_INT, (*pid).into());
                });
                put_generic(out, "runtime", |out| {
                    uint(out, field::GENERIC_FIELD_UINT, *runtime);
                });
            });
        }
        EventKind::Other { name, fields } if name == "tracing_mark_write" => {
            message(out, field::EVENT_PRINT, |out| {
                bytes(out, field::PRINT_BUF, fields.as_bytes());
            });
        }
        EventKind::Other { name, fields } => message(out, field::EVENT_GENERIC, |out| {
            bytes(out, field::GENERIC_NAME, name.as_bytes());
            put_generic(out, "fields", |out| {
                bytes(out, field::GENERIC_FIELD_STR, fields.as_bytes());
            });
        }),
    }
    altered
}

/// The kernel's `common_flags` byte (`enum trace_flag_type`); bit 1 is the lazy request from 6.13 on.
fn common_flags(flags: CpuFlags) -> u64 {
    [
        (flags.irqs_off, 0x01),
        (flags.need_resched_lazy, 0x02),
        (flags.need_resched, 0x04),
        (flags.hardirq, 0x08),
        (flags.softirq, 0x10),
    ]
    .into_iter()
    .map(|(set, bit)| if set { bit } else { 0 })
    .sum()
}

fn put_generic(out: &mut Vec<u8>, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    message(out, field::GENERIC_FIELD, |out| {
        bytes(out, field::GENERIC_FIELD_NAME, name.as_bytes());
        value(out);
    });
}

fn put_wake(out: &mut Vec<u8>, kind: u32, task: &TaskRef, target_cpu: u32, altered: &mut bool) {
    message(out, kind, |out| {
        put_task_ref(out, task, field::TASK_PRIO, altered);
        uint(out, field::WAKE_SUCCESS, 1);
        uint(out, field::WAKE_TARGET_CPU, u64::from(target_cpu));
    });
}

fn put_task_ref(out: &mut Vec<u8>, task: &TaskRef, prio_field: u32, altered: &mut bool) {
    put_comm(out, field::TASK_COMM, task.comm, altered);
    int(out, field::TASK_PID, task.pid.into());
    int(out, prio_field, task.prio.into());
}

/// A name; protobuf strings are UTF-8, names need not be.
fn put_comm(out: &mut Vec<u8>, number: u32, comm: Comm, altered: &mut bool) {
    let name = String::from_utf8_lossy(comm.as_bytes());
    *altered |= matches!(name, std::borrow::Cow::Owned(_));
    bytes(out, number, name.as_bytes());
}
