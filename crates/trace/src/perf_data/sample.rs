//! Where things stand in a record, by the `sample_type` that the event was opened with.
//!
//! Source: the layouts in perf_event_open(2). `linux-perf-data` has a parser too; it is not used because it takes group reads and plain
//! reads (`PERF_SAMPLE_READ`) for one another, and multiplies lengths without a check.

use linux_perf_data::linux_perf_event_reader::{AttrFlags, PerfEventAttr, SampleFormat};
use schedlab_tracefmt::Endian;

/// Offsets of the parts of a record's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) sample: Places,
    /// Of all other records of the kernel: the same parts, counted from the end of the body. `None` without `sample_id_all`.
    pub(super) trailer: Option<Places>,
    /// Bytes of the parts of a sample whose size is fixed.
    fixed: usize,
    /// `read_format`, if samples hold counters.
    read: Option<u64>,
    callchain: bool,
    raw: bool,
}

/// Offsets of what samples and other records share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Places {
    pub(super) tid: Option<usize>,
    pub(super) time: Option<usize>,
    pub(super) id: Option<usize>,
    pub(super) cpu: Option<usize>,
}

impl Layout {
    /// `read_format` comes apart from `attr`, because the library drops its newer bits.
    pub(super) fn new(attr: &PerfEventAttr, read_format: u64) -> Self {
        let kind = attr.sample_format;
        let mut at = 0;
        let mut place = |part: SampleFormat| {
            kind.contains(part).then(|| {
                at += 8;
                at - 8
            })
        };
        let identifier = place(SampleFormat::IDENTIFIER);
        place(SampleFormat::IP);
        let tid = place(SampleFormat::TID);
        let time = place(SampleFormat::TIME);
        place(SampleFormat::ADDR);
        let id = place(SampleFormat::ID);
        place(SampleFormat::STREAM_ID);
        let cpu = place(SampleFormat::CPU);
        place(SampleFormat::PERIOD);
        Self {
            sample: Places {
                tid,
                time,
                id: identifier.or(id),
                cpu,
            },
            trailer: attr
                .flags
                .contains(AttrFlags::SAMPLE_ID_ALL)
                .then(|| Places::trailer(kind)),
            fixed: at,
            read: kind.contains(SampleFormat::READ).then_some(read_format),
            callchain: kind.contains(SampleFormat::CALLCHAIN),
            raw: kind.contains(SampleFormat::RAW),
        }
    }

    /// The raw data of a sample, which is a tracepoint's payload; `None` if there is none or the body is too short for it.
    pub(super) fn raw<'a>(&self, body: &'a [u8], endian: Endian) -> Option<&'a [u8]> {
        if !self.raw {
            return None;
        }
        let mut at = self.fixed;
        if let Some(format) = self.read {
            at = skip_read(body, at, format, endian)?;
        }
        if self.callchain {
            let entries = usize::try_from(endian.unsigned_at::<8>(body, at)?).ok()?;
            at = at.checked_add(8)?.checked_add(entries.checked_mul(8)?)?;
        }
        let size = usize::try_from(endian.unsigned_at::<4>(body, at)?).ok()?;
        let start = at + 4;
        body.get(start..start.checked_add(size)?)
    }
}

impl Places {
    /// `struct sample_id`, by distance from the end.
    fn trailer(kind: SampleFormat) -> Self {
        let mut from_end = 0;
        let mut place = |part: SampleFormat| {
            kind.contains(part).then(|| {
                from_end += 8;
                from_end
            })
        };
        // From the back to the front.
        let identifier = place(SampleFormat::IDENTIFIER);
        let cpu = place(SampleFormat::CPU);
        place(SampleFormat::STREAM_ID);
        let id = place(SampleFormat::ID);
        let time = place(SampleFormat::TIME);
        let tid = place(SampleFormat::TID);
        Self {
            tid,
            time,
            id: identifier.or(id),
            cpu,
        }
    }
}

/// The end of the counters (`struct read_format` in perf_event_open(2)) that begin at `at`.
fn skip_read(body: &[u8], at: usize, format: u64, endian: Endian) -> Option<usize> {
    const TIMES: u64 = 0b0_0011;
    const ID: u64 = 0b0_0100;
    const GROUP: u64 = 0b0_1000;
    /// Linux 6.0.
    const LOST: u64 = 0b1_0000;
    let times = (format & TIMES).count_ones() as usize;
    let each = 1 + (format & (ID | LOST)).count_ones() as usize;
    let words = if format & GROUP == 0 {
        each + times
    } else {
        let members = usize::try_from(endian.unsigned_at::<8>(body, at)?).ok()?;
        members.checked_mul(each)?.checked_add(1 + times)?
    };
    at.checked_add(words.checked_mul(8)?)
}
