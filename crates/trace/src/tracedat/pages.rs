//! The data of the CPUs, page by page.

use std::io::{self, Read, Seek, SeekFrom};

use schedlab_tracefmt::Endian;

use super::meta::{CpuData, Packing};
use super::packed::{CHUNK_BYTES_MAX, unpack};
use crate::ring::{PageRead, PageSource, PageState};

/// Memory for unpacked chunks of all CPUs together: this, and [`CHUNKS_PER_FILE_BYTE`] for each byte of the file.
const CHUNKS_FREE: u64 = 64 * 1024 * 1024;
const CHUNKS_PER_FILE_BYTE: u64 = 64;

/// Pages of all CPUs of a file.
pub(super) struct Pages<R> {
    source: R,
    endian: Endian,
    packing: Packing,
    streams: Vec<Stream>,
    /// Bytes that unpacked chunks may still take.
    budget: u64,
}

/// One CPU of one buffer.
struct Stream {
    page_size: u64,
    /// Next byte to read, and the end.
    at: u64,
    end: u64,
    packed: Option<Packed>,
}

#[derive(Default)]
struct Packed {
    /// Chunks to come; `None` before their number is read.
    chunks: Option<u32>,
    chunk: Vec<u8>,
    used: usize,
    offset: u64,
}

impl<R: Read + Seek> Pages<R> {
    pub(super) fn new(source: R, endian: Endian, packing: Packing, file_len: u64) -> Self {
        Self {
            source,
            endian,
            packing,
            streams: Vec::new(),
            budget: CHUNKS_FREE.saturating_add(file_len.saturating_mul(CHUNKS_PER_FILE_BYTE)),
        }
    }

    /// Adds a CPU; streams are numbered in this order.
    pub(super) fn add(&mut self, data: CpuData, page_size: u32, packed: bool) {
        // The size of packed data leaves out the number of chunks in front of it.
        let count = if packed { 4 } else { 0 };
        self.streams.push(Stream {
            page_size: page_size.into(),
            at: data.offset,
            end: data.offset.saturating_add(data.size).saturating_add(count),
            packed: packed.then(Packed::default),
        });
    }
}

/// Reads up to `len` bytes at a place; fewer at the end of the file.
fn read_at<R: Read + Seek>(source: &mut R, at: u64, len: u64, out: &mut Vec<u8>) -> io::Result<()> {
    out.clear();
    source.seek(SeekFrom::Start(at))?;
    source.take(len).read_to_end(out)?;
    Ok(())
}

impl<R: Read + Seek> PageSource for Pages<R> {
    fn next_page(&mut self, stream: usize, page: &mut Vec<u8>) -> io::Result<Option<PageRead>> {
        let Some(stream) = self.streams.get_mut(stream) else {
            return Ok(None);
        };
        if let Some(packed) = &mut stream.packed {
            let mut unpacker = Unpacker {
                source: &mut self.source,
                endian: self.endian,
                packing: self.packing,
                budget: &mut self.budget,
                at: &mut stream.at,
                end: stream.end,
            };
            return unpacker.next_page(packed, stream.page_size, page);
        }
        let left = stream.end.saturating_sub(stream.at);
        if left == 0 {
            return Ok(None);
        }
        let offset = stream.at;
        let wanted = left.min(stream.page_size);
        read_at(&mut self.source, offset, wanted, page)?;
        let state = if (page.len() as u64) < wanted {
            stream.at = stream.end;
            PageState::Cut
        } else {
            stream.at += wanted;
            PageState::Whole
        };
        Ok(Some(PageRead { offset, state }))
    }
}

/// Takes pages out of chunks: number of chunks, then for each its packed size, its unpacked size and its data.
struct Unpacker<'a, R> {
    source: &'a mut R,
    endian: Endian,
    packing: Packing,
    budget: &'a mut u64,
    at: &'a mut u64,
    end: u64,
}

impl<R: Read + Seek> Unpacker<'_, R> {
    fn next_page(
        &mut self,
        packed: &mut Packed,
        page_size: u64,
        page: &mut Vec<u8>,
    ) -> io::Result<Option<PageRead>> {
        page.clear();
        if packed.used >= packed.chunk.len() {
            *self.budget = self.budget.saturating_add(packed.chunk.len() as u64);
            packed.chunk = Vec::new();
            packed.used = 0;
            packed.offset = *self.at;
            match self.next_chunk(packed)? {
                None => return Ok(None),
                Some(PageState::Whole) => {}
                Some(state) => {
                    return Ok(Some(PageRead {
                        offset: packed.offset,
                        state,
                    }));
                }
            }
        }
        let page_size = usize::try_from(page_size).unwrap_or(usize::MAX);
        let end = packed
            .used
            .saturating_add(page_size)
            .min(packed.chunk.len());
        page.extend_from_slice(packed.chunk.get(packed.used..end).unwrap_or_default());
        packed.used = end;
        Ok(Some(PageRead {
            offset: packed.offset,
            state: PageState::Whole,
        }))
    }

    fn number(&mut self) -> io::Result<Option<u32>> {
        let mut bytes = Vec::new();
        if self.end.saturating_sub(*self.at) < 4 {
            return Ok(None);
        }
        read_at(self.source, *self.at, 4, &mut bytes)?;
        if bytes.len() < 4 {
            return Ok(None);
        }
        *self.at += 4;
        Ok(self
            .endian
            .unsigned(&bytes)
            .and_then(|n| u32::try_from(n).ok()))
    }

    /// Unpacks the next chunk; `None` after the last.
    fn next_chunk(&mut self, packed: &mut Packed) -> io::Result<Option<PageState>> {
        let left = match packed.chunks {
            Some(left) => left,
            None => match self.number()? {
                Some(count) => count,
                None => {
                    packed.chunks = Some(0);
                    return Ok(Some(PageState::Cut));
                }
            },
        };
        packed.chunks = Some(left.saturating_sub(1));
        if left == 0 {
            return Ok(None);
        }
        packed.offset = *self.at;
        let (Some(size), Some(unpacked)) = (self.number()?, self.number()?) else {
            packed.chunks = Some(0);
            return Ok(Some(PageState::Cut));
        };
        let (size, unpacked) = (u64::from(size), u64::from(unpacked));
        if size > self.end.saturating_sub(*self.at) {
            packed.chunks = Some(0);
            return Ok(Some(PageState::Broken(
                "a chunk that reaches past its CPU's data",
            )));
        }
        let mut data = Vec::new();
        read_at(self.source, *self.at, size, &mut data)?;
        *self.at += size;
        if (data.len() as u64) < size {
            packed.chunks = Some(0);
            return Ok(Some(PageState::Cut));
        }
        if unpacked > CHUNK_BYTES_MAX.min(*self.budget) {
            return Ok(Some(PageState::Broken("a chunk of trace data too large")));
        }
        match unpack(&data, unpacked, self.packing) {
            Some(chunk) => {
                *self.budget -= chunk.len() as u64;
                packed.chunk = chunk;
                Ok(Some(PageState::Whole))
            }
            None => Ok(Some(PageState::Broken(
                "a chunk of trace data that cannot be unpacked",
            ))),
        }
    }
}

/// The bytes of one stream as one text.
pub(super) struct PageText<R> {
    pages: Pages<R>,
    page: Vec<u8>,
    used: usize,
}

impl<R: Read + Seek> PageText<R> {
    pub(super) fn new(pages: Pages<R>) -> Self {
        Self {
            pages,
            page: Vec::new(),
            used: 0,
        }
    }
}

impl<R: Read + Seek> Read for PageText<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.used >= self.page.len() {
            self.used = 0;
            let Some(read) = self.pages.next_page(0, &mut self.page)? else {
                return Ok(0);
            };
            match read.state {
                PageState::Whole => {}
                PageState::Cut if !self.page.is_empty() => {}
                PageState::Cut => return Err(io::ErrorKind::UnexpectedEof.into()),
                PageState::Broken(what) => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
            }
        }
        let rest = self.page.get(self.used..).unwrap_or_default();
        let n = rest.len().min(out.len());
        out.get_mut(..n)
            .unwrap_or_default()
            .copy_from_slice(rest.get(..n).unwrap_or_default());
        self.used += n;
        Ok(n)
    }
}
