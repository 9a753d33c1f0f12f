//! Pages ("sub-buffers") of the kernel's ring buffer, as `trace_pipe_raw` gives them and `trace.dat` keeps them.
//!
//! A page starts with a time stamp and the number of bytes in use; then come records, each with a 32-bit header that holds a
//! type and the time since the record before. Source: `events/header_page`, `events/header_event` and the kernel's
//! description of them (`Documentation/trace/ring-buffer-design.rst`, `include/linux/ring_buffer.h`), kernels 2.6.35 to 6.18.
//!
//! ```
//! use schedlab_tracefmt::{Endian, ring::PageLayout};
//!
//! let layout = PageLayout::parse("\
//! \tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
//! \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
//! \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
//! \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
//! ").unwrap();
//! assert_eq!(layout.page_size(), 4096);
//!
//! let mut page = vec![0; 4096];
//! page[..8].copy_from_slice(&1000u64.to_le_bytes()); // time of the page
//! page[8..16].copy_from_slice(&8u64.to_le_bytes());  // bytes in use
//! page[16..20].copy_from_slice(&(5u32 << 5 | 1).to_le_bytes()); // 5 ns later, 1 x 4 bytes
//! page[20..24].copy_from_slice(b"data");
//! let page = layout.page(&page, Endian::Little).unwrap();
//! let records: Vec<_> = page.records().map(Result::unwrap).collect();
//! assert_eq!((records[0].ts, records[0].data), (1005, &b"data"[..]));
//! ```

use std::ops::Range;

use crate::Endian;
use crate::format::{FormatError, fields};

/// Bits of a record's header that hold the time since the record before.
const DELTA_BITS: u32 = 27;
/// Types of records: up to [`TYPE_DATA_MAX`] the number of 32-bit words, 0 for a length in a word of its own.
const TYPE_DATA_MAX: u32 = 28;
const TYPE_PADDING: u32 = 29;
const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;
/// Bits of an absolute time stamp; the bits above come from the time before it.
const STAMP_BITS: u32 = 59;
/// `commit`: events were lost before this page.
const MISSED_EVENTS: u64 = 1 << 31;
/// `commit`: how many stands behind the data.
const MISSED_STORED: u64 = 1 << 30;
/// `commit`: the bytes in use.
const COMMIT_MASK: u64 = (1 << 27) - 1;
/// Largest page: the kernel's sub-buffers have at most order 6 of at most 64 KiB.
pub const PAGE_BYTES_MAX: u32 = 4 * 1024 * 1024;

/// Where the parts of a page lie, from `events/header_page`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageLayout {
    commit_offset: u32,
    commit_size: u32,
    data_offset: u32,
    page_size: u32,
}

impl PageLayout {
    /// The layout of kernels with `long` of 4 or 8 bytes and pages of this size, where `header_page` is not at hand.
    ///
    /// # Errors
    /// [`LayoutError`] if the sizes make no page.
    pub fn new(long_size: u8, page_size: u32) -> Result<Self, LayoutError> {
        let long_size = u32::from(long_size);
        Self {
            commit_offset: 8,
            commit_size: long_size,
            data_offset: 8 + long_size,
            page_size,
        }
        .checked()
    }

    /// Reads the text of `events/header_page`.
    ///
    /// # Errors
    /// [`LayoutError`] if a field is missing or the sizes make no page.
    pub fn parse(text: &str) -> Result<Self, LayoutError> {
        let fields = fields(text, 8)?;
        let field = |name: &'static str| {
            let found = fields.iter().find(|field| field.name() == name);
            found.ok_or(LayoutError::Missing(name))
        };
        if field("timestamp")?.offset() != 0 || field("timestamp")?.size() != 8 {
            return Err(LayoutError::Sizes);
        }
        let (commit, data) = (field("commit")?, field("data")?);
        Self {
            commit_offset: commit.offset(),
            commit_size: commit.size(),
            data_offset: data.offset(),
            page_size: data.offset().saturating_add(data.size()),
        }
        .checked()
    }

    fn checked(self) -> Result<Self, LayoutError> {
        let fits = matches!(self.commit_size, 4 | 8)
            && self
                .commit_offset
                .checked_add(self.commit_size)
                .is_some_and(|end| end <= self.data_offset)
            && self.data_offset < self.page_size
            && self.page_size <= PAGE_BYTES_MAX;
        fits.then_some(self).ok_or(LayoutError::Sizes)
    }

    /// The same layout with pages of another size, as a buffer with a sub-buffer size of its own has.
    ///
    /// # Errors
    /// [`LayoutError::Sizes`] if the header leaves no room, or the page is too large.
    pub fn with_page_size(self, page_size: u32) -> Result<Self, LayoutError> {
        Self { page_size, ..self }.checked()
    }

    /// Bytes of a whole page.
    #[must_use]
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Bytes of a `long` in the kernel that wrote the pages.
    #[must_use]
    pub fn long_size(&self) -> u8 {
        if self.commit_size == 4 { 4 } else { 8 }
    }

    /// Reads the header of a page. The bytes may be fewer than a page if they hold all of the data in use.
    ///
    /// # Errors
    /// [`PageError`] if they do not.
    pub fn page<'a>(&self, bytes: &'a [u8], endian: Endian) -> Result<Page<'a>, PageError> {
        let cursor = PageCursor::new(self, bytes, endian)?;
        Ok(Page { bytes, cursor })
    }
}

/// What is wrong with a `header_page` or `header_event` text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A `field:` line is broken.
    #[error("header_page: {0}")]
    Format(#[from] FormatError),
    /// A field is missing.
    #[error("header_page: no field \"{0}\"")]
    Missing(&'static str),
    /// Offsets and sizes do not fit together, or a page has more than [`PAGE_BYTES_MAX`].
    #[error("header_page: the fields do not make a page of at most {PAGE_BYTES_MAX} bytes")]
    Sizes,
    /// Record headers as in kernels before 2.6.31, or unknown ones.
    #[error(
        "header_event: expected \"{expected}\" (record headers of 5 and 27 bits, kernels from 2.6.31 on)"
    )]
    Entry {
        /// Line that is missing.
        expected: &'static str,
    },
}

/// Checks the text of `events/header_event`: the record headers that this module reads are described by it in these words.
///
/// # Errors
/// [`LayoutError::Entry`] if they are others.
pub fn check_header_event(text: &str) -> Result<(), LayoutError> {
    let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    for (line, expected) in [
        ("type_len:5bits", "type_len : 5 bits"),
        ("time_delta:27bits", "time_delta : 27 bits"),
        ("padding:type==29", "padding : type == 29"),
        ("time_extend:type==30", "time_extend : type == 30"),
    ] {
        if !plain.contains(line) {
            return Err(LayoutError::Entry { expected });
        }
    }
    Ok(())
}

/// What is wrong with a page. Records before the place are good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// Not even a header.
    #[error("page cut: {have} bytes, the header alone has {need}")]
    Header {
        /// Bytes given.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// `commit` says that more bytes are in use than there are.
    #[error("page says {used} bytes in use, but has {have}")]
    Commit {
        /// Bytes in use by `commit`.
        used: u64,
        /// Bytes there.
        have: usize,
    },
    /// A record reaches past the end of the data.
    #[error("record at byte {offset} of the page reaches past the data")]
    Record {
        /// Offset of its header from the beginning of the page.
        offset: usize,
    },
}

/// Events that were lost before a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// So many.
    Count(u64),
    /// The kernel does not say how many.
    Unknown,
}

/// A record of a page: one event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Time on the trace's clock.
    pub ts: u64,
    /// Payload; up to 3 bytes longer than the event because of alignment.
    pub data: &'a [u8],
}

/// Where a record lies: as [`Record`], without borrowing the page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Time on the trace's clock.
    pub ts: u64,
    /// Bytes of the payload, from the beginning of the page.
    pub payload: Range<usize>,
}

/// A page with its header read.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    bytes: &'a [u8],
    cursor: PageCursor,
}

impl<'a> Page<'a> {
    /// Time of the page, from which the records' times are counted.
    #[must_use]
    pub fn timestamp(&self) -> u64 {
        self.cursor.ts
    }

    /// What was lost before the page's first record.
    #[must_use]
    pub fn lost(&self) -> Option<Lost> {
        self.cursor.lost
    }

    /// Bytes of data in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.cursor.end - self.cursor.at
    }

    /// The events of the page; ends after the first error.
    pub fn records(&self) -> impl Iterator<Item = Result<Record<'a>, PageError>> + use<'a> {
        let bytes = self.bytes;
        let mut cursor = self.cursor.clone();
        std::iter::from_fn(move || cursor.next_record(bytes).transpose())
    }
}

/// A place in a page, without holding the page: for readers that own the buffer.
///
/// Give the same bytes to [`PageCursor::new`] and every [`PageCursor::next_record`]. Other bytes do no harm but give other
/// records.
#[derive(Clone, Debug)]
pub struct PageCursor {
    at: usize,
    end: usize,
    /// More is in use than there is: an error follows the last record.
    missing: bool,
    ts: u64,
    endian: Endian,
    lost: Option<Lost>,
}

impl PageCursor {
    /// Reads the header of a page.
    ///
    /// # Errors
    /// [`PageError::Header`] and [`PageError::Commit`].
    pub fn new(layout: &PageLayout, bytes: &[u8], endian: Endian) -> Result<Self, PageError> {
        let (cursor, used) = Self::header(layout, bytes, endian)?;
        if cursor.missing {
            return Err(PageError::Commit {
                used,
                have: bytes.len() - cursor.at,
            });
        }
        Ok(cursor)
    }

    /// The same for a page that was cut, as at the end of an incomplete file: the records that are there come out, then
    /// [`PageError::Record`].
    ///
    /// # Errors
    /// [`PageError::Header`], and [`PageError::Commit`] if no page could hold so much.
    pub fn cut(layout: &PageLayout, bytes: &[u8], endian: Endian) -> Result<Self, PageError> {
        let (cursor, used) = Self::header(layout, bytes, endian)?;
        if used > u64::from(layout.page_size - layout.data_offset) {
            return Err(PageError::Commit {
                used,
                have: bytes.len() - cursor.at,
            });
        }
        Ok(cursor)
    }

    /// A cursor over what is there, and the bytes in use by `commit`.
    fn header(layout: &PageLayout, bytes: &[u8], endian: Endian) -> Result<(Self, u64), PageError> {
        let data = layout.data_offset as usize;
        let too_short = PageError::Header {
            have: bytes.len(),
            need: data,
        };
        if bytes.len() < data {
            return Err(too_short);
        }
        let ts = endian.unsigned_at::<8>(bytes, 0).ok_or(too_short)?;
        let commit_at = layout.commit_offset as usize;
        let commit = if layout.commit_size == 4 {
            endian.unsigned_at::<4>(bytes, commit_at)
        } else {
            endian.unsigned_at::<8>(bytes, commit_at)
        }
        .ok_or(too_short)?;
        let used = commit & COMMIT_MASK;
        let room = bytes.len().min(layout.page_size as usize);
        let wanted = usize::try_from(used).map_or(usize::MAX, |used| data.saturating_add(used));
        let lost = (commit & MISSED_EVENTS != 0).then(|| {
            let count = match (commit & MISSED_STORED != 0, layout.commit_size) {
                (false, _) => None,
                (true, 4) => endian.unsigned_at::<4>(bytes, wanted),
                (true, _) => endian.unsigned_at::<8>(bytes, wanted),
            };
            count.map_or(Lost::Unknown, Lost::Count)
        });
        let cursor = Self {
            at: data,
            end: wanted.min(room),
            missing: wanted > room,
            ts,
            endian,
            lost,
        };
        Ok((cursor, used))
    }

    /// What was lost before the page's first record.
    #[must_use]
    pub fn lost(&self) -> Option<Lost> {
        self.lost
    }

    /// The next event, `None` behind the last one.
    ///
    /// # Errors
    /// [`PageError::Record`], once; `None` after it.
    pub fn next_record<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<Record<'a>>, PageError> {
        Ok(self.next_place(bytes)?.and_then(|place| {
            Some(Record {
                ts: place.ts,
                data: bytes.get(place.payload)?,
            })
        }))
    }

    /// The same, as a place in the page.
    ///
    /// # Errors
    /// As [`PageCursor::next_record`].
    pub fn next_place(&mut self, bytes: &[u8]) -> Result<Option<Place>, PageError> {
        let endian = self.endian;
        let end = self.end.min(bytes.len());
        let data = bytes.get(..end).unwrap_or_default();
        while self.at < end {
            let offset = self.at;
            let broken = PageError::Record { offset };
            let stop = |this: &mut Self| {
                this.at = this.end;
                this.missing = false;
                broken
            };
            let word = |at: usize| endian.unsigned_at::<4>(data, at);
            let Some(header) = word(offset) else {
                return Err(stop(self));
            };
            #[allow(clippy::cast_possible_truncation)] // 32 bits were read
            let header = header as u32;
            // A C bit-field: the first member sits at the low end in one byte order and at the high end in the other.
            let (kind, delta) = match endian {
                Endian::Little => (header & 31, header >> 5),
                Endian::Big => (header >> DELTA_BITS, header & ((1 << DELTA_BITS) - 1)),
            };
            let delta = u64::from(delta);
            if kind == TYPE_PADDING && delta == 0 {
                // Nothing behind it is in use.
                self.at = self.end;
                self.missing = false;
                break;
            }
            // Length in 32-bit words: the data's own, or a word of its own behind the header.
            let (start, len) = if (1..=TYPE_DATA_MAX).contains(&kind) {
                (offset + 4, kind as usize * 4)
            } else {
                let Some(value) = word(offset + 4) else {
                    return Err(stop(self));
                };
                match kind {
                    TYPE_TIME_EXTEND => {
                        self.ts = self.ts.wrapping_add((value << DELTA_BITS) | delta);
                        self.at = offset + 8;
                        continue;
                    }
                    TYPE_TIME_STAMP => {
                        self.ts = absolute((value << DELTA_BITS) | delta, self.ts);
                        self.at = offset + 8;
                        continue;
                    }
                    // The length counts itself.
                    _ => match usize::try_from(value).ok().and_then(|v| v.checked_sub(4)) {
                        Some(len) => (offset + 8, len.saturating_add(3) & !3),
                        None => return Err(stop(self)),
                    },
                }
            };
            let next = start.saturating_add(len);
            if next > end {
                return Err(stop(self));
            }
            self.at = next;
            // A discarded event's delta counts too: the next delta was taken from its time.
            self.ts = self.ts.wrapping_add(delta);
            if kind != TYPE_PADDING {
                return Ok(Some(Place {
                    ts: self.ts,
                    payload: start..next,
                }));
            }
        }
        if std::mem::take(&mut self.missing) {
            return Err(PageError::Record { offset: self.end });
        }
        Ok(None)
    }
}

/// An absolute time stamp with its missing top bits, taken from the time before it.
fn absolute(stamp: u64, before: u64) -> u64 {
    let stamp = stamp & ((1 << STAMP_BITS) - 1);
    let high = before >> STAMP_BITS << STAMP_BITS;
    if high == 0 {
        return stamp;
    }
    let full = high | stamp;
    if full < before {
        full.wrapping_add(1 << STAMP_BITS)
    } else {
        full
    }
}

#[cfg(test)]
mod tests;
