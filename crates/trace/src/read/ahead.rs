//! Reading on another thread than the one that uses the events.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use super::{ReadError, ReadReport, Reader};
use crate::Event;

/// Events handed over at once.
const BATCH: usize = 2048;
/// Batches that are full and wait.
const WAITING: usize = 2;

/// Events in the order of a [`Reader`] that reads ahead on a thread of its own.
///
/// What is read, in which order and with which report is the same as without; memory is bounded by four batches of 2048 events. A reader
/// that is dropped before its end leaves the thread behind, which ends with its next batch (or with the program, if it waits
/// for input).
pub struct Ahead {
    full: Receiver<Batch>,
    empty: Sender<Vec<Event>>,
    batch: Batch,
}

/// Some events, why there are no more, and what the reader has to say up to here.
#[derive(Default)]
struct Batch {
    events: Vec<Event>,
    error: Option<ReadError>,
    report: ReadReport,
}

impl Ahead {
    /// Begins to read.
    ///
    /// # Errors
    /// That of the system, if it gives no thread.
    pub fn new(reader: Box<dyn Reader + Send>) -> std::io::Result<Self> {
        let (to_user, full) = sync_channel(WAITING);
        let (empty, back) = channel();
        let batch = Batch {
            report: reader.report(),
            ..Batch::default()
        };
        thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || run(reader, &to_user, &back))?;
        Ok(Self { full, empty, batch })
    }

    /// The next events, 2048 at once but for the last; `None` at the end.
    ///
    /// # Errors
    /// That of the reader, behind the events before it.
    pub fn batch(&mut self) -> Result<Option<&[Event]>, ReadError> {
        if let Some(error) = self.batch.error.take() {
            return Err(error);
        }
        let Ok(next) = self.full.recv() else {
            return Ok(None);
        };
        let used = std::mem::replace(&mut self.batch, next).events;
        // If the thread has ended, nobody needs it any more.
        let _ = self.empty.send(used);
        match self.batch.error.take() {
            Some(error) if self.batch.events.is_empty() => Err(error),
            error => {
                self.batch.error = error;
                Ok(Some(&self.batch.events))
            }
        }
    }

    /// The reader's account up to the last batch that was given.
    #[must_use]
    pub fn report(&self) -> &ReadReport {
        &self.batch.report
    }
}

fn run(
    mut reader: Box<dyn Reader + Send>,
    to_user: &SyncSender<Batch>,
    back: &Receiver<Vec<Event>>,
) {
    let mut ended = false;
    while !ended {
        let mut events = back.try_recv().unwrap_or_default();
        events.clear();
        let error = match reader.read_batch(&mut events, BATCH) {
            Ok(more) => {
                ended = !more;
                None
            }
            Err(error) => {
                ended = true;
                Some(error)
            }
        };
        let batch = Batch {
            events,
            error,
            report: reader.report(),
        };
        // Who does not listen any more has enough.
        if to_user.send(batch).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuFlags, EventKind, Format};

    /// Gives so many events, then an error.
    struct Counting(u64, u64);

    impl Iterator for Counting {
        type Item = Result<Event, ReadError>;

        fn next(&mut self) -> Option<Self::Item> {
            if self.0 > self.1 {
                return None;
            }
            self.0 += 1;
            Some(if self.0 > self.1 {
                Err(ReadError::NoEventRecords {
                    file: "f".to_owned(),
                    records: 0,
                    detail: String::new(),
                })
            } else {
                Ok(Event {
                    ts: self.0,
                    cpu: 0,
                    pid: 0,
                    comm: crate::Comm::default(),
                    flags: CpuFlags::default(),
                    kind: EventKind::Other {
                        name: "e".to_owned(),
                        fields: String::new(),
                    },
                })
            })
        }
    }

    impl Reader for Counting {
        fn format(&self) -> Format {
            Format::FtraceText
        }

        fn report(&self) -> ReadReport {
            ReadReport {
                events: self.0.min(self.1),
                ..ReadReport::default()
            }
        }
    }

    #[test]
    fn all_in_order_and_the_error_last() {
        for count in [0, 1, BATCH as u64, BATCH as u64 + 1, 10 * BATCH as u64] {
            let mut ahead = Ahead::new(Box::new(Counting(0, count))).unwrap();
            let mut seen = Vec::new();
            let error = loop {
                match ahead.batch() {
                    Ok(Some(events)) => seen.extend(events.iter().map(|event| event.ts)),
                    Ok(None) => panic!("an end without the error"),
                    Err(error) => break error,
                }
                assert_eq!(ahead.report().events, seen.len() as u64);
            };
            assert!(matches!(error, ReadError::NoEventRecords { .. }));
            assert!(seen.into_iter().eq(1..=count));
            assert!(matches!(ahead.batch(), Ok(None)));
        }
    }

    #[test]
    fn whoever_has_enough_can_leave() {
        let mut ahead = Ahead::new(Box::new(Counting(0, u64::MAX))).unwrap();
        assert_eq!(ahead.batch().unwrap().unwrap().len(), BATCH);
        assert_eq!(ahead.report().events, BATCH as u64);
    }
}
