//! Reader for `perf.data`, as a file and as a pipe; `docs/formats/perf-data.md` describes both.

mod container;
mod queue;
mod records;
mod sample;
mod tasks;
mod tracing_data;

use std::io::{Read, Seek, SeekFrom};

pub(crate) use self::container::is_pipe;

use self::container::{Bad, Checked, Container, PIPE_HEADER};
use self::queue::{Held, Rounds, What};
use self::records::{Record, Records, Step};
use self::tasks::Tasks;
use crate::payload::PayloadDecoder;
use crate::read::Tally;
use crate::{Comm, Event, Format, ReadError, ReadReport, Reader, UnparsedReason};

/// First CPU number that is refused; Linux builds stop at 8192.
const CPU_LIMIT: u64 = 65536;
/// Memory for records that wait for their place in time, bytes.
const WAITING_BYTES: usize = 512 << 20;

/// Reader for what `perf record` and `perf sched record` write.
///
/// Events come in order of time: perf writes one CPU's buffer after the other, and the reader holds what lies between two of perf's
/// marks (FINISHED_ROUND). Memory is bounded by that, and by 512 MiB if marks are missing.
pub struct PerfDataReader<R> {
    name: String,
    records: Records<R>,
    rounds: Rounds,
    tasks: Tasks,
    tally: Tally,
    about: About,
    /// No more records; what waits is given out.
    ended: bool,
    /// Why the records ended too early.
    failure: Option<Bad>,
    done: bool,
}

/// What is known about the events.
struct About {
    state: Known,
    tracing_data: Option<Vec<u8>>,
}

enum Known {
    /// A pipe, before its first sample: descriptions are coming in.
    Collecting(Checked),
    Ready(Box<Ready>),
}

struct Ready {
    container: Container,
    decoder: PayloadDecoder,
    /// Samples that are of no tracepoint, by index of the event.
    others: Vec<u64>,
}

impl<R: Read + Seek> PerfDataReader<R> {
    /// Reads a file; `name` stands for it in messages.
    ///
    /// # Errors
    /// [`ReadError::Damaged`] if header, event descriptions or sections are cut or contradict each other.
    pub fn from_file(mut source: R, name: &str) -> Result<Self, ReadError> {
        let bad = |bad: Bad| bad.in_file(name, 0);
        let file = container::read_file(&mut source).map_err(bad)?;
        let (offset, size) = file.data;
        source
            .seek(SeekFrom::Start(offset))
            .map_err(|error| Bad::io(offset, &error).in_file(name, 0))?;
        let mut tally = Tally::default();
        if file.cut {
            tally.unparsed_record(
                UnparsedReason::TruncatedRecord,
                offset.saturating_add(size),
                b"",
            );
            tally.remark("the file is cut behind its records");
        }
        let endian = file.container.endian;
        let ready =
            Ready::new(file.container, file.tracing_data.as_deref(), &mut tally).map_err(bad)?;
        Ok(Self::new(
            Records::new(source, offset, Some(size), endian),
            name,
            Known::Ready(Box::new(ready)),
            tally,
        ))
    }
}

impl<R: Read> PerfDataReader<R> {
    /// Reads what perf wrote into a pipe; `name` stands for it in messages.
    ///
    /// # Errors
    /// [`ReadError::Damaged`] if it does not begin with the header of such a pipe.
    pub fn from_pipe(mut source: R, name: &str) -> Result<Self, ReadError> {
        let mut head = [0; PIPE_HEADER];
        source
            .read_exact(&mut head)
            .map_err(|error| Bad::io(0, &error).in_file(name, 0))?;
        let endian = container::endian(&head)
            .filter(|_| is_pipe(&head))
            .ok_or_else(|| {
                Bad::new(0, "the header of a perf.data pipe", "another").in_file(name, 0)
            })?;
        Ok(Self::new(
            Records::new(source, PIPE_HEADER as u64, None, endian),
            name,
            Known::Collecting(Checked::new(endian)),
            Tally::default(),
        ))
    }

    fn new(records: Records<R>, name: &str, state: Known, tally: Tally) -> Self {
        Self {
            name: name.to_owned(),
            records,
            rounds: Rounds::new(WAITING_BYTES),
            tasks: Tasks::new(),
            tally,
            about: About {
                state,
                tracing_data: None,
            },
            ended: false,
            failure: None,
            done: false,
        }
    }

    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            if let Some(event) = self.next_ready() {
                return Ok(Some(event));
            }
            if self.ended {
                return self.at_end();
            }
            self.read_on();
        }
    }

    /// The next event among the records that are ready.
    #[inline]
    fn next_ready(&mut self) -> Option<Event> {
        while let Some((held, bytes)) = self.rounds.pop() {
            match held.what {
                What::Comm => self.tasks.rename(held.tid, Comm::from_bytes(bytes)),
                What::Fork => self.tasks.fork(held.tid, held.cpu.cast_signed()),
                What::Sample(index) => {
                    let Known::Ready(ready) = &mut self.about.state else {
                        continue;
                    };
                    match ready.event(index, &held, bytes, &mut self.tasks) {
                        Ok(event) => {
                            self.tally.plain.with_flags += 1;
                            self.tally.event(&event);
                            return Some(event);
                        }
                        Err(reason) => self.tally.unparsed_record(reason, held.offset, bytes),
                    }
                }
            }
        }
        None
    }

    /// Reads records until some are ready.
    fn read_on(&mut self) {
        let result = loop {
            let record = match self.records.next() {
                Ok(Step::Record(record)) => record,
                Ok(Step::End) => break Ok(()),
                Ok(Step::Cut(offset, rest)) => {
                    self.tally
                        .unparsed_record(UnparsedReason::TruncatedRecord, offset, rest);
                    break Ok(());
                }
                Err(bad) => break Err(bad),
            };
            self.tally.plain.records += 1;
            let flow = if record.kind >= records::USER_FIRST {
                user_record(&record, &mut self.about)
            } else {
                self.about.ready(&mut self.tally).map(|ready| {
                    ready.kernel_record(&record, &mut self.rounds, &mut self.tasks, &mut self.tally)
                })
            };
            match flow {
                Ok(Flow::More) => {}
                Ok(Flow::Round) => {
                    self.rounds.finish_round();
                    return;
                }
                Ok(Flow::Full) => {
                    self.rounds.overflow();
                    return;
                }
                Ok(Flow::TracingData(size)) => match self.records.following(size) {
                    Ok(bytes) => self.about.tracing_data = Some(bytes),
                    Err(bad) => break Err(bad),
                },
                Err(error) => break Err(error),
            }
        };
        self.ended = true;
        self.rounds.finish();
        self.failure = result.err();
        if self.rounds.overflows() > 0 {
            self.tally.remark(format!(
                "perf's marks for putting records in order (FINISHED_ROUND) are missing or more than {} MiB apart: \
                 the order of time is as far as that reaches",
                WAITING_BYTES >> 20
            ));
        }
    }

    fn at_end(&mut self) -> Result<Option<Event>, ReadError> {
        if let Known::Ready(ready) = &self.about.state {
            ready.remark_others(&mut self.tally);
        }
        match self.failure.take() {
            Some(bad) => Err(bad.in_file(&self.name, self.tally.plain.events)),
            None if self.tally.plain.events > 0 => Ok(None),
            None => Err(self.no_events()),
        }
    }

    fn no_events(&self) -> ReadError {
        let report = self.tally.report();
        let detail = match report.unparsed.first() {
            Some(first) => format!(
                "{} of them not read, the first at {} ({})",
                report.unparsed_lines(),
                first.place(),
                first.reason
            ),
            None => "expected samples of tracepoints, as perf sched record takes them".to_owned(),
        };
        ReadError::NoEventRecords {
            file: self.name.clone(),
            records: report.records,
            detail,
        }
    }
}

/// What to do after a record.
enum Flow {
    More,
    /// A round is finished.
    Round,
    /// Too much is waiting.
    Full,
    /// Tracing data of this size follow.
    TracingData(u64),
}

/// A record that perf itself wrote. Most speak of things that are of no use here.
fn user_record(record: &Record<'_>, about: &mut About) -> Result<Flow, Bad> {
    match (record.kind, &mut about.state) {
        (records::FINISHED_ROUND, _) => return Ok(Flow::Round),
        (records::HEADER_ATTR, Known::Collecting(checked)) => {
            checked.add_attr_record(record.body)?
        }
        (records::HEADER_FEATURE, Known::Collecting(checked)) => {
            checked.add_feature_record(record.body)?;
        }
        (records::HEADER_TRACING_DATA, Known::Collecting(checked)) => {
            let size = checked.endian().unsigned_at::<4>(record.body, 0);
            return Ok(Flow::TracingData(size.unwrap_or(0)));
        }
        _ => {}
    }
    Ok(Flow::More)
}

impl About {
    /// The descriptions of the events, which must be complete by now.
    fn ready(&mut self, tally: &mut Tally) -> Result<&mut Ready, Bad> {
        if let Known::Collecting(checked) = &mut self.state {
            let endian = checked.endian();
            let checked = std::mem::replace(checked, Checked::new(endian));
            let container = checked.into_pipe_container()?;
            let ready = Ready::new(container, self.tracing_data.take().as_deref(), tally)?;
            self.state = Known::Ready(Box::new(ready));
        }
        match &mut self.state {
            Known::Ready(ready) => Ok(ready),
            Known::Collecting(_) => Err(Bad::new(0, "descriptions of the events", "none")),
        }
    }
}

impl Ready {
    fn new(
        container: Container,
        tracing_data: Option<&[u8]>,
        tally: &mut Tally,
    ) -> Result<Self, Bad> {
        tally.plain.kernel_release.clone_from(&container.kernel);
        tally.plain.cpus_declared = container.cpus;
        let mut decoder = PayloadDecoder::new(container.endian, 8);
        if let Some(bytes) = tracing_data {
            let remarks;
            (decoder, remarks) = tracing_data::read(bytes)?;
            for remark in remarks {
                tally.remark(remark);
            }
        } else {
            tally.remark("the file has no event formats: no tracepoint can be read");
        }
        for event in container
            .events
            .iter()
            .filter(|event| event.tracepoint.is_some())
        {
            let places = event.layout.sample;
            if places.time.is_none() || places.cpu.is_none() || places.tid.is_none() {
                let name = event.name.as_deref().unwrap_or("an event");
                return Err(Bad::new(
                    0,
                    format!(
                        "time, CPU and task in the samples of {name} (perf sched record has them)"
                    ),
                    "a recording without",
                ));
            }
        }
        let others = vec![0; container.events.len()];
        Ok(Self {
            container,
            decoder,
            others,
        })
    }

    /// Takes a record of the kernel in.
    fn kernel_record(
        &mut self,
        record: &Record<'_>,
        rounds: &mut Rounds,
        tasks: &mut Tasks,
        tally: &mut Tally,
    ) -> Flow {
        match record.kind {
            records::SAMPLE => return self.sample(record, rounds, tally),
            records::COMM | records::FORK => return self.task(record, rounds, tasks, tally),
            records::LOST | records::LOST_SAMPLES => self.lost(record, tally),
            _ => {}
        }
        Flow::More
    }

    fn sample(&mut self, record: &Record<'_>, rounds: &mut Rounds, tally: &mut Tally) -> Flow {
        let Container {
            endian,
            events,
            ids,
            ..
        } = &self.container;
        let endian = *endian;
        let body = record.body;
        let mut refuse = |reason| {
            tally.unparsed_record(reason, record.offset, body);
            Flow::More
        };
        // The id stands at the same place for all events, the library has made sure.
        let id = events
            .first()
            .and_then(|event| endian.unsigned_at::<8>(body, event.layout.sample.id?));
        let Some(index) = ids.find(id) else {
            return refuse(UnparsedReason::Damaged(
                "a sample of an event that the file does not list",
            ));
        };
        let Some(event) = events.get(usize::from(index)) else {
            return refuse(UnparsedReason::Damaged(
                "a sample of an event that the file does not list",
            ));
        };
        if event.tracepoint.is_none() {
            if let Some(count) = self.others.get_mut(usize::from(index)) {
                *count += 1;
            }
            return Flow::More;
        }
        let layout = &event.layout;
        let word = |at: Option<usize>| endian.unsigned_at::<8>(body, at?);
        let half = |at: Option<usize>, from: usize| endian.unsigned_at::<4>(body, at? + from);
        let (Some(ts), Some(tid), Some(cpu), Some(raw)) = (
            word(layout.sample.time),
            half(layout.sample.tid, 4),
            half(layout.sample.cpu, 0),
            layout.raw(body, endian),
        ) else {
            return refuse(UnparsedReason::Damaged("a sample shorter than its parts"));
        };
        // Both have 32 bits.
        let (tid, cpu) = ((tid as u32).cast_signed(), cpu as u32);
        if u64::from(cpu) >= CPU_LIMIT {
            return refuse(UnparsedReason::CpuRange);
        }
        match rounds.push(ts, What::Sample(index), tid, cpu, record.offset, raw) {
            true => Flow::Full,
            false => Flow::More,
        }
    }

    /// COMM and FORK. Those that perf made up for tasks that lived before have no time and count at once.
    fn task(
        &self,
        record: &Record<'_>,
        rounds: &mut Rounds,
        tasks: &mut Tasks,
        tally: &mut Tally,
    ) -> Flow {
        let endian = self.container.endian;
        let body = record.body;
        let number = |at| {
            endian
                .unsigned_at::<4>(body, at)
                .map(|n| (n as u32).cast_signed())
        };
        let ts = self.trailing::<8>(body, |places| places.time).unwrap_or(0);
        let untimed = ts == 0 || ts == u64::MAX;
        let full = if record.kind == records::COMM {
            // pid, tid, name.
            let (Some(tid), Some(name)) = (number(4), body.get(8..)) else {
                tally.unparsed_record(
                    UnparsedReason::Damaged("a task's name without its number"),
                    record.offset,
                    body,
                );
                return Flow::More;
            };
            let name = name.get(..name.len().min(16)).unwrap_or_default();
            if untimed {
                tasks.rename(tid, Comm::from_bytes(name));
                return Flow::More;
            }
            rounds.push(ts, What::Comm, tid, 0, record.offset, name)
        } else {
            // pid, ppid, tid, ptid.
            let (Some(tid), Some(parent)) = (number(8), number(12)) else {
                tally.unparsed_record(
                    UnparsedReason::Damaged("a fork without its tasks"),
                    record.offset,
                    body,
                );
                return Flow::More;
            };
            if untimed {
                tasks.fork(tid, parent);
                return Flow::More;
            }
            rounds.push(
                ts,
                What::Fork,
                tid,
                parent.cast_unsigned(),
                record.offset,
                b"",
            )
        };
        if full { Flow::Full } else { Flow::More }
    }

    fn lost(&self, record: &Record<'_>, tally: &mut Tally) {
        // LOST: id, count; LOST_SAMPLES: count.
        let at = if record.kind == records::LOST { 8 } else { 0 };
        let count = self.container.endian.unsigned_at::<8>(record.body, at);
        let cpu = self.trailing::<4>(record.body, |places| places.cpu);
        match cpu.filter(|&cpu| cpu < CPU_LIMIT) {
            Some(cpu) => tally.lost(cpu as u32, count),
            None => tally.lost_somewhere(count),
        }
    }

    /// A part that stands at the end of records that are no samples.
    fn trailing<const N: usize>(
        &self,
        body: &[u8],
        place: impl Fn(sample::Places) -> Option<usize>,
    ) -> Option<u64> {
        let places = self.container.events.first()?.layout.trailer?;
        let at = body.len().checked_sub(place(places)?)?;
        self.container.endian.unsigned_at::<N>(body, at)
    }

    /// Makes the event of a sample.
    fn event(
        &mut self,
        index: u16,
        held: &Held,
        payload: &[u8],
        tasks: &mut Tasks,
    ) -> Result<Event, UnparsedReason> {
        let event = self.container.events.get(usize::from(index));
        let id = event
            .and_then(|event| event.tracepoint)
            .ok_or(UnparsedReason::NoFormat)?;
        let decoded = self.decoder.decode_as(id, payload)?;
        // The number that perf gives is -1 for a task that has ended, and 0 for one outside of the recorder's
        // namespace; the payload's own is the kernel's.
        let known = if held.tid > 0 { held.tid } else { decoded.pid };
        Ok(Event {
            ts: held.ts,
            cpu: held.cpu,
            pid: decoded.pid,
            comm: tasks.name(known),
            flags: decoded.flags,
            kind: decoded.kind,
        })
    }

    fn remark_others(&self, tally: &mut Tally) {
        for (event, &count) in self.container.events.iter().zip(&self.others) {
            if count > 0 {
                tally.remark(format!(
                    "{count} samples of {} are of no tracepoint and were left out",
                    event.name.as_deref().unwrap_or("a counter")
                ));
            }
        }
    }
}

impl<R: Read> Iterator for PerfDataReader<R> {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let result = self.next_event();
        self.done = !matches!(result, Ok(Some(_)));
        result.transpose()
    }
}

impl<R: Read> Reader for PerfDataReader<R> {
    fn format(&self) -> Format {
        Format::PerfData
    }

    fn report(&self) -> ReadReport {
        let mut report = self.tally.report();
        if let Known::Ready(ready) = &self.about.state {
            ready.decoder.report(&mut report);
        }
        report
    }

    fn read_batch(&mut self, events: &mut Vec<Event>, limit: usize) -> Result<bool, ReadError> {
        while events.len() < limit && !self.done {
            if let Some(event) = self.next_ready() {
                events.push(event);
            } else if self.ended {
                self.done = true;
                self.at_end()?;
            } else {
                self.read_on();
            }
        }
        Ok(!self.done)
    }
}
