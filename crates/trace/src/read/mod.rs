//! Reading: the trait, the report, and opening a file of unknown format.

mod ahead;
mod error;
mod lines;
mod open;
mod report;
mod seekable;

pub use ahead::Ahead;
pub use error::ReadError;
pub(crate) use lines::{LineEnd, Lines};
pub use open::{decoder, open, open_stream};
pub(crate) use report::Tally;
pub use report::{CpuReport, ReadReport, StateMapping, UnparsedCount, UnparsedReason};
pub(crate) use seekable::{ReadSeek, spool};

use crate::{Event, Format};

/// A trace being read: an iterator of events that keeps account of what it met.
///
/// After the first `Err` the iterator ends. Events come in the order of the file, which need not be the order of time:
/// see [`ReadReport::out_of_order`].
pub trait Reader: Iterator<Item = Result<Event, ReadError>> {
    /// Format of the source.
    fn format(&self) -> Format;

    /// The account so far; complete once the iterator has returned `None` or an error.
    fn report(&self) -> ReadReport;

    /// Adds events behind `events` until there are `limit` of them; `false` at the end of the source. The same events as those of the
    /// iterator, with less moving about.
    ///
    /// # Errors
    /// As the iterator; the events before the error are added.
    fn read_batch(&mut self, events: &mut Vec<Event>, limit: usize) -> Result<bool, ReadError> {
        while events.len() < limit {
            match self.next() {
                Some(event) => events.push(event?),
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}
