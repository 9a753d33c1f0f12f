//! A line of text being put together: what ftrace text and perf script text have in common.

use crate::{EventKind, TaskRef};

/// One line being put together.
pub(super) struct Line<'a> {
    pub(super) out: &'a mut Vec<u8>,
    /// Whether a byte had to be replaced.
    pub(super) altered: bool,
}

impl Line<'_> {
    /// The fields as the kernel prints them.
    pub(super) fn fields(&mut self, kind: &EventKind) {
        match kind {
            EventKind::SchedSwitch {
                prev,
                prev_state,
                next,
            } => {
                self.text("prev_comm=");
                self.name(prev.comm.as_bytes());
                self.key(" prev_pid=", prev.pid);
                self.key(" prev_prio=", prev.prio);
                self.text(" prev_state=");
                self.text(&prev_state.to_string());
                self.text(" ==> next_comm=");
                self.name(next.comm.as_bytes());
                self.key(" next_pid=", next.pid);
                self.key(" next_prio=", next.prio);
            }
            EventKind::SchedWaking { task, target_cpu }
            | EventKind::SchedWakeup { task, target_cpu }
            | EventKind::SchedWakeupNew { task, target_cpu } => {
                self.task(task);
                self.text(" target_cpu=");
                self.padded(u64::from(*target_cpu), 3, b'0');
            }
            EventKind::SchedMigrateTask {
                task,
                orig_cpu,
                dest_cpu,
            } => {
                self.task(task);
                self.key(" orig_cpu=", *orig_cpu);
                self.key(" dest_cpu=", *dest_cpu);
            }
            EventKind::SchedStatRuntime { comm, pid, runtime } => {
                self.text("comm=");
                self.name(comm.as_bytes());
                self.key(" pid=", *pid);
                self.text(" runtime=");
                self.padded(*runtime, 1, b'0');
                self.text(" [ns]");
            }
            EventKind::SchedProcessFork {
                parent_comm,
                parent_pid,
                child_comm,
                child_pid,
            } => {
                self.text("comm=");
                self.name(parent_comm.as_bytes());
                self.key(" pid=", *parent_pid);
                self.text(" child_comm=");
                self.name(child_comm.as_bytes());
                self.key(" child_pid=", *child_pid);
            }
            EventKind::SchedProcessExec {
                filename,
                pid,
                old_pid,
            } => {
                self.text("filename=");
                self.fields_text(filename);
                self.key(" pid=", *pid);
                self.key(" old_pid=", *old_pid);
            }
            EventKind::SchedProcessExit { task } => self.task(task),
            EventKind::Other { fields, .. } => self.fields_text(fields),
        }
    }

    fn task(&mut self, task: &TaskRef) {
        self.text("comm=");
        self.name(task.comm.as_bytes());
        self.key(" pid=", task.pid);
        self.key(" prio=", task.prio);
    }

    /// Text that is known to hold nothing that ends a line.
    pub(super) fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// A key and its number.
    pub(super) fn key(&mut self, key: &str, value: impl Into<i64>) {
        self.text(key);
        self.int(value.into());
    }

    /// A task name, with `?` for bytes that would end the line.
    pub(super) fn name(&mut self, name: &[u8]) {
        self.clean(name, b'?');
    }

    /// Text with blanks for bytes that would end the line.
    pub(super) fn fields_text(&mut self, text: &str) {
        self.clean(text.as_bytes(), b' ');
    }

    fn clean(&mut self, text: &[u8], instead: u8) {
        let start = self.out.len();
        self.out.extend_from_slice(text);
        if memchr::memchr3(b'\n', b'\r', 0, text).is_some() {
            self.altered = true;
            for byte in &mut self.out[start..] {
                if matches!(*byte, b'\n' | b'\r' | 0) {
                    *byte = instead;
                }
            }
        }
    }

    /// A number.
    pub(super) fn int(&mut self, value: i64) {
        if value < 0 {
            self.out.push(b'-');
        }
        self.padded(value.unsigned_abs(), 1, b' ');
    }

    /// A number, filled from the left.
    pub(super) fn padded(&mut self, mut value: u64, width: usize, fill: u8) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.pad(width.saturating_sub(digits.len() - at), fill);
        self.out.extend_from_slice(&digits[at..]);
    }

    /// The same byte several times.
    pub(super) fn pad(&mut self, count: usize, fill: u8) {
        self.out.resize(self.out.len() + count, fill);
    }

    /// Seconds, a point, and six or nine digits.
    pub(super) fn seconds(&mut self, ts: u64, digits: SecondsDigits) {
        let (seconds, fraction, width) = match digits {
            SecondsDigits::Nine => (ts / 1_000_000_000, ts % 1_000_000_000, 9),
            SecondsDigits::SixRounded | SecondsDigits::SixCut => {
                let up = digits == SecondsDigits::SixRounded && ts % 1000 >= 500;
                let micros = ts / 1000 + u64::from(up);
                (micros / 1_000_000, micros % 1_000_000, 6)
            }
        };
        self.padded(seconds, 5, b' ');
        self.text(".");
        self.padded(fraction, width, b'0');
    }
}

/// How the fraction of a time is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SecondsDigits {
    Nine,
    /// Rounded to the nearest microsecond, as the kernel does.
    SixRounded,
    /// Cut to microseconds, as perf does.
    SixCut,
}
