//! Ring-buffer pages of several CPUs, merged by time: what `trace.dat` and dumps of `trace_pipe_raw` have in common.
//!
//! Of each CPU one page is in memory. A heap holds the time of each CPU's next record.

pub(crate) mod facts;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;

use schedlab_tracefmt::Endian;
use schedlab_tracefmt::ring::{Lost, PageCursor, PageError, PageLayout, Place};

use crate::payload::PayloadDecoder;
use crate::read::Tally;
use crate::{Comm, Event, Pid, ReadError, ReadReport, UnparsedReason};

/// How many names of tasks are kept; the kernel's largest pid is 2^22.
const NAMES_MAX: usize = 1 << 20;

/// CPU numbers end below this, as in the other readers.
pub(crate) const CPU_LIMIT: u32 = 0x1_0000;

/// One page, as a source gives it.
pub(crate) struct PageRead {
    /// Where it begins in the file (compressed data: where the chunk begins).
    pub(crate) offset: u64,
    pub(crate) state: PageState,
}

/// How much of a page there is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageState {
    Whole,
    /// It is shorter than the source says, or not there at all: the file ends within it.
    Cut,
    /// It cannot be had, for this reason; the next one may be good.
    Broken(&'static str),
}

/// Where the pages come from.
pub(crate) trait PageSource {
    /// Puts the next page of a stream into `page`, `None` after the last.
    fn next_page(&mut self, stream: usize, page: &mut Vec<u8>) -> io::Result<Option<PageRead>>;
}

/// How times of records become times of events.
#[derive(Clone, Copy, Default)]
pub(crate) struct Clock {
    /// Multiplier, shift and offset from counts of a time stamp counter to nanoseconds.
    pub(crate) tsc: Option<(u32, u32, u64)>,
    /// Added to every time.
    pub(crate) offset: i64,
}

impl Clock {
    fn time(self, ts: u64) -> u64 {
        let ts = match self.tsc {
            None => ts,
            Some((mult, shift, offset)) => {
                let scaled = (u128::from(ts) * u128::from(mult)) >> shift.min(127);
                u64::try_from(scaled)
                    .unwrap_or(u64::MAX)
                    .saturating_add(offset)
            }
        };
        ts.saturating_add_signed(self.offset)
    }
}

/// What is known before the first page.
pub(crate) struct Setup {
    pub(crate) endian: Endian,
    pub(crate) decoder: PayloadDecoder,
    /// Names of tasks.
    pub(crate) comms: HashMap<Pid, Comm>,
    pub(crate) clock: Clock,
    /// CPU of each stream, and the layout of its pages.
    pub(crate) streams: Vec<(u32, PageLayout)>,
}

/// The merging reader.
pub(crate) struct RingReader<S> {
    source: S,
    endian: Endian,
    decoder: PayloadDecoder,
    comms: HashMap<Pid, Comm>,
    clock: Clock,
    streams: Vec<Stream>,
    /// Next record of each stream: time, then stream, so that equal times come in the order of the CPUs.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    started: bool,
    pub(crate) tally: Tally,
}

struct Stream {
    cpu: u32,
    layout: PageLayout,
    page: Vec<u8>,
    offset: u64,
    cursor: Option<PageCursor>,
    next: Option<Place>,
    seen: bool,
    /// The page was cut by the end of the file.
    cut: bool,
}

impl<S: PageSource> RingReader<S> {
    pub(crate) fn new(source: S, setup: Setup, tally: Tally) -> Self {
        let stream = |(cpu, layout)| Stream {
            cpu,
            layout,
            page: Vec::new(),
            offset: 0,
            cursor: None,
            next: None,
            seen: false,
            cut: false,
        };
        Self {
            source,
            endian: setup.endian,
            decoder: setup.decoder,
            comms: setup.comms,
            clock: setup.clock,
            streams: setup.streams.into_iter().map(stream).collect(),
            heap: BinaryHeap::new(),
            started: false,
            tally,
        }
    }

    /// The next event for a reader of `file`. At the end it is an error if there was no event at all, or if the source itself
    /// broke off (`broken`).
    pub(crate) fn next_or_error(
        &mut self,
        file: &str,
        broken: &mut Option<io::Error>,
    ) -> Result<Option<Event>, ReadError> {
        let failed = match self.next_event() {
            Ok(Some(event)) => return Ok(Some(event)),
            Ok(None) => broken.take(),
            Err(error) => Some(error),
        };
        match failed {
            Some(source) => Err(ReadError::Io {
                file: file.to_owned(),
                line: 0,
                events: self.tally.plain.events,
                source,
            }),
            None if self.tally.plain.events > 0 => Ok(None),
            None => Err(ReadError::no_records(file, &self.report())),
        }
    }

    /// The next event in the order of time.
    fn next_event(&mut self) -> io::Result<Option<Event>> {
        if !self.started {
            self.started = true;
            for index in 0..self.streams.len() {
                self.advance(index)?;
                if let Some(time) = self.next_time(index) {
                    self.heap.push(Reverse((time, index)));
                }
            }
        }
        while let Some(&Reverse((_, index))) = self.heap.peek() {
            let event = self.take(index);
            self.advance(index)?;
            let next = self.next_time(index);
            // Changing the top is cheaper than taking it out and putting it in again.
            match (self.heap.peek_mut(), next) {
                (Some(mut top), Some(time)) => *top = Reverse((time, index)),
                (Some(top), None) => {
                    std::collections::binary_heap::PeekMut::pop(top);
                }
                (None, _) => {}
            }
            if let Some(event) = event {
                self.tally.event(&event);
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// The account, with what the decoder has to say.
    pub(crate) fn report(&self) -> ReadReport {
        let mut report = self.tally.report();
        self.decoder.report(&mut report);
        report
    }

    fn next_time(&self, index: usize) -> Option<u64> {
        let place = self.streams.get(index)?.next.as_ref()?;
        Some(self.clock.time(place.ts))
    }

    /// Makes an event of a stream's next record.
    fn take(&mut self, index: usize) -> Option<Event> {
        let stream = self.streams.get(index)?;
        let place = stream.next.clone()?;
        self.tally.plain.records += 1;
        let start = place.payload.start;
        let payload = stream.page.get(place.payload)?;
        let decoded = match self.decoder.decode(payload) {
            Ok(decoded) => decoded,
            Err(reason) => {
                let offset = stream.offset.saturating_add(start as u64);
                self.tally.unparsed_record(reason, offset, payload);
                return None;
            }
        };
        self.tally.plain.with_flags += 1;
        let event = Event {
            ts: self.clock.time(place.ts),
            cpu: stream.cpu,
            pid: decoded.pid,
            comm: self.comm(decoded.pid),
            flags: decoded.flags,
            kind: decoded.kind,
        };
        self.learn(&event);
        Some(event)
    }

    fn comm(&self, pid: Pid) -> Comm {
        // The idle tasks of all CPUs share a pid; tools write them so.
        if pid == 0 {
            return Comm::new("<idle>");
        }
        self.comms.get(&pid).copied().unwrap_or_default()
    }

    /// Takes names from events for tasks that the recording does not name.
    fn learn(&mut self, event: &Event) {
        if let crate::EventKind::SchedSwitch { prev, next, .. } = &event.kind {
            for task in [prev, next] {
                if task.pid != 0 && self.comms.len() < NAMES_MAX {
                    self.comms.entry(task.pid).or_insert(task.comm);
                }
            }
        }
    }

    /// Moves a stream to its next record, over as many pages as it takes.
    fn advance(&mut self, index: usize) -> io::Result<()> {
        let Some(stream) = self.streams.get_mut(index) else {
            return Ok(());
        };
        stream.next = None;
        loop {
            if let Some(cursor) = &mut stream.cursor {
                match cursor.next_place(&stream.page) {
                    Ok(Some(place)) => {
                        stream.next = Some(place);
                        stream.seen = true;
                        return Ok(());
                    }
                    Ok(None) if stream.cut => {
                        // All of this page is there, but not all that the file announces.
                        let end = stream.page.len();
                        broken_page(&mut self.tally, stream, PageError::Record { offset: end });
                    }
                    Ok(None) => {}
                    Err(error) => broken_page(&mut self.tally, stream, error),
                }
                stream.cursor = None;
            }
            let Some(read) = self.source.next_page(index, &mut stream.page)? else {
                if !stream.seen {
                    self.tally.empty_cpu(stream.cpu);
                }
                return Ok(());
            };
            stream.offset = read.offset;
            stream.cut = read.state == PageState::Cut;
            if let PageState::Broken(what) = read.state {
                self.tally.plain.records += 1;
                let reason = UnparsedReason::Damaged(what);
                self.tally
                    .unparsed_record(reason, read.offset, &stream.page);
                continue;
            }
            match open_page(stream, self.endian) {
                Ok(cursor) => {
                    match cursor.lost() {
                        None => {}
                        Some(Lost::Count(count)) => self.tally.lost(stream.cpu, Some(count)),
                        Some(Lost::Unknown) => self.tally.lost(stream.cpu, None),
                    }
                    stream.cursor = Some(cursor);
                }
                Err(error) => broken_page(&mut self.tally, stream, error),
            }
        }
    }
}

/// The cursor of a page. Of a page that the end of the file cuts, the records that are there are good.
fn open_page(stream: &Stream, endian: Endian) -> Result<PageCursor, PageError> {
    if stream.cut {
        PageCursor::cut(&stream.layout, &stream.page, endian)
    } else {
        PageCursor::new(&stream.layout, &stream.page, endian)
    }
}

fn broken_page(tally: &mut Tally, stream: &Stream, error: PageError) {
    let (reason, at) = match error {
        PageError::Record { offset } if stream.cut => (UnparsedReason::TruncatedRecord, offset),
        _ if stream.cut => (UnparsedReason::TruncatedRecord, 0),
        PageError::Header { .. } => (UnparsedReason::Damaged("a page without a whole header"), 0),
        PageError::Commit { .. } => (
            UnparsedReason::Damaged("a page with more bytes in use than it has"),
            0,
        ),
        PageError::Record { offset } => (
            UnparsedReason::Damaged("a record that reaches past its page"),
            offset,
        ),
        _ => (UnparsedReason::Damaged("a page"), 0),
    };
    tally.plain.records += 1;
    let bytes = stream.page.get(at..).unwrap_or_default();
    tally.unparsed_record(reason, stream.offset.saturating_add(at as u64), bytes);
}
