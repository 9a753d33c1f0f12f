//! The event formats within perf.data: what trace-cmd puts at the beginning of a `trace.dat`, with a version of its own (`0.6`).

use schedlab_tracefmt::ring::PageLayout;
use schedlab_tracefmt::{Endian, FORMAT_BYTES_MAX};

use super::container::Bad;
use crate::payload::PayloadDecoder;

/// Gives a decoder that knows the formats, and remarks on those that are not usable.
pub(super) fn read(bytes: &[u8]) -> Result<(PayloadDecoder, Vec<String>), Bad> {
    let mut at = Reading {
        bytes,
        at: 0,
        endian: Endian::Little,
    };
    if at.take(10)? != b"\x17\x08\x44tracing" {
        return Err(at.bad("the beginning of tracing data"));
    }
    at.text()?;
    if at.take(1)? == [1] {
        at.endian = Endian::Big;
    }
    // The size of `long` in user space, that of a page.
    at.take(1 + 4)?;
    let page = at.header("header_page")?;
    at.header("header_event")?;
    let page = std::str::from_utf8(page).ok();
    let long_size = page
        .and_then(|text| PageLayout::parse(text).ok())
        .map_or(8, |layout| layout.long_size());
    let mut decoder = PayloadDecoder::new(at.endian, long_size);
    let mut remarks = Vec::new();
    for _ in 0..at.number::<4>()? {
        at.format(&mut decoder, &mut remarks)?;
    }
    for _ in 0..at.number::<4>()? {
        at.text()?;
        for _ in 0..at.number::<4>()? {
            at.format(&mut decoder, &mut remarks)?;
        }
    }
    Ok((decoder, remarks))
}

/// The data and how far they were read.
struct Reading<'a> {
    bytes: &'a [u8],
    at: usize,
    endian: Endian,
}

impl<'a> Reading<'a> {
    fn bad(&self, expected: &str) -> Bad {
        let found = format!("something else at byte {} of the tracing data", self.at);
        Bad::new(0, expected, found)
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8], Bad> {
        let taken = self
            .at
            .checked_add(size)
            .and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| {
            Bad::new(
                0,
                format!("{size} bytes at byte {} of the tracing data", self.at),
                "their end",
            )
        })?;
        self.at += size;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Result<u64, Bad> {
        let bytes = self.take(N)?;
        Ok(self.endian.unsigned(bytes).unwrap_or(0))
    }

    /// A text that a zero byte ends.
    fn text(&mut self) -> Result<&'a [u8], Bad> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = memchr::memchr(0, rest).ok_or_else(|| self.bad("a name"))?;
        let text = self.take(end)?;
        self.take(1)?;
        Ok(text)
    }

    /// A text behind its name and size.
    fn header(&mut self, name: &str) -> Result<&'a [u8], Bad> {
        if self.text()? != name.as_bytes() {
            return Err(self.bad(name));
        }
        let size = self.number::<8>()?;
        self.take(usize::try_from(size).unwrap_or(usize::MAX))
    }

    fn format(
        &mut self,
        decoder: &mut PayloadDecoder,
        remarks: &mut Vec<String>,
    ) -> Result<(), Bad> {
        let size = usize::try_from(self.number::<8>()?).unwrap_or(usize::MAX);
        if size > FORMAT_BYTES_MAX {
            return Err(self.bad("an event format"));
        }
        let text = self.take(size)?;
        if let Err(error) = decoder.add_format(text) {
            remarks.push(format!("an event format is not usable: {error}"));
        }
        Ok(())
    }
}
