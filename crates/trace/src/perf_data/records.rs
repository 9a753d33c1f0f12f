//! The stream of records: framing, compressed records, and data that follow a record outside of its length.
//!
//! `linux-perf-data` can iterate records too. It is not used for this because it keeps everything between two FINISHED_ROUND records
//! without a limit, unpacks a compressed record as a whole, reserves what a length field asks for, gives samples of
//! unknown events to the first one, and takes the tracing data within a pipe for records.

use std::io::{self, Read};

use schedlab_tracefmt::Endian;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::container::Bad;

/// `struct perf_event_header`.
const HEADER: usize = 8;
/// Bytes read from the input at once.
const READ_BYTES: usize = 512 * 1024;
/// Bytes unpacked at once.
const UNPACK_BYTES: usize = 256 * 1024;
/// Largest tracing data taken, bytes. All tracepoints of a kernel need some 5 MiB.
pub(super) const TRACING_DATA_MAX: u64 = 64 << 20;

// Record types, from tools/perf/util/event.h; those below 64 are the kernel's.
pub(super) const LOST: u32 = 2;
pub(super) const COMM: u32 = 3;
pub(super) const FORK: u32 = 7;
pub(super) const SAMPLE: u32 = 9;
pub(super) const LOST_SAMPLES: u32 = 13;
pub(super) const USER_FIRST: u32 = 64;
pub(super) const HEADER_ATTR: u32 = 64;
pub(super) const HEADER_TRACING_DATA: u32 = 66;
pub(super) const FINISHED_ROUND: u32 = 68;
const AUXTRACE: u32 = 71;
pub(super) const HEADER_FEATURE: u32 = 80;
pub(super) const COMPRESSED: u32 = 81;
pub(super) const COMPRESSED2: u32 = 83;

/// One record.
pub(super) struct Record<'a> {
    pub(super) kind: u32,
    pub(super) body: &'a [u8],
    /// Where it begins in the file; of a compressed record all parts begin where it does.
    pub(super) offset: u64,
}

/// What comes next.
pub(super) enum Step<'a> {
    Record(Record<'a>),
    /// The end of the data.
    End,
    /// The file ends too early; this is what is left of a record at this offset.
    Cut(u64, &'a [u8]),
}

/// The records of a file's data section, or of a pipe.
pub(super) struct Records<R> {
    input: R,
    /// Bytes of the data section that are still in the input; `None` in a pipe.
    left: Option<u64>,
    endian: Endian,
    plain: Window,
    unpacker: Option<Unpacker>,
    ended: bool,
}

/// Which window a record lies in.
#[derive(Clone, Copy)]
enum From {
    Plain,
    Packed,
}

impl<R: Read> Records<R> {
    /// Reads from `input`, whose next byte has the given offset in the file.
    pub(super) fn new(input: R, offset: u64, left: Option<u64>, endian: Endian) -> Self {
        Self {
            input,
            left,
            endian,
            plain: Window::new(offset),
            unpacker: None,
            ended: false,
        }
    }

    /// The next record.
    pub(super) fn next(&mut self) -> Result<Step<'_>, Bad> {
        loop {
            if let Some(unpacker) = &mut self.unpacker {
                match frame(&unpacker.window, self.endian) {
                    Frame::Whole { kind, size } => return Ok(self.step(From::Packed, kind, size)),
                    Frame::Short => return Err(short(unpacker.offset)),
                    Frame::More if unpacker.active => {
                        unpacker.unpack()?;
                        continue;
                    }
                    // The rest of this record is in the next piece.
                    Frame::More => {}
                }
            }
            match frame(&self.plain, self.endian) {
                Frame::Short => return Err(short(self.plain.offset)),
                Frame::Whole {
                    kind: kind @ (COMPRESSED | COMPRESSED2),
                    size,
                } => self.start_unpacking(kind, size)?,
                Frame::Whole {
                    kind: AUXTRACE,
                    size,
                } => self.skip_auxtrace(size)?,
                Frame::Whole { kind, size } => return Ok(self.step(From::Plain, kind, size)),
                Frame::More if self.ended => return Ok(self.end()),
                Frame::More => self.fill()?,
            }
        }
    }

    fn step(&mut self, from: From, kind: u32, size: usize) -> Step<'_> {
        let (window, offset) = match (from, &mut self.unpacker) {
            (From::Packed, Some(unpacker)) => (&mut unpacker.window, unpacker.offset),
            _ => {
                let offset = self.plain.offset;
                (&mut self.plain, offset)
            }
        };
        let body = window.take(size).get(HEADER..).unwrap_or_default();
        Step::Record(Record { kind, body, offset })
    }

    /// Nothing more comes from the input.
    fn end(&mut self) -> Step<'_> {
        let packed_rest = self.unpacker.as_mut().filter(|u| u.window.len() > 0);
        if self.plain.len() > 0 || self.left.is_some_and(|left| left > 0) {
            let offset = self.plain.offset;
            let rest = self.plain.take(self.plain.len());
            self.left = None;
            Step::Cut(offset, rest)
        } else if let Some(unpacker) = packed_rest {
            Step::Cut(unpacker.offset, unpacker.window.take(unpacker.window.len()))
        } else {
            Step::End
        }
    }

    /// Bytes that follow a record outside of its length: the tracing data of a pipe. Fewer if the input ends.
    pub(super) fn following(&mut self, size: u64) -> Result<Vec<u8>, Bad> {
        if size > TRACING_DATA_MAX {
            let expected = format!("at most {TRACING_DATA_MAX} bytes of event formats");
            return Err(Bad::new(self.plain.offset, expected, size.to_string()));
        }
        let mut out = Vec::new();
        self.follow(size, |piece| out.extend_from_slice(piece))?;
        Ok(out)
    }

    fn follow(&mut self, mut size: u64, mut take: impl FnMut(&[u8])) -> Result<(), Bad> {
        while size > 0 {
            if self.plain.len() == 0 {
                if self.ended {
                    break;
                }
                self.fill()?;
            }
            let piece = usize::try_from(size).map_or(self.plain.len(), |s| s.min(self.plain.len()));
            take(self.plain.take(piece));
            size -= piece as u64;
        }
        Ok(())
    }

    /// AUXTRACE (hardware traces): its data follow outside of its length.
    fn skip_auxtrace(&mut self, size: usize) -> Result<(), Bad> {
        let body = self.plain.take(size).get(HEADER..).unwrap_or_default();
        let following = self.endian.unsigned_at::<8>(body, 0).unwrap_or(0);
        self.follow(following, |_| {})
    }

    fn start_unpacking(&mut self, kind: u32, size: usize) -> Result<(), Bad> {
        let offset = self.plain.offset;
        let body = self.plain.take(size).get(HEADER..).unwrap_or_default();
        let packed = if kind == COMPRESSED2 {
            // The length without padding stands in front.
            let data = body.get(8..).unwrap_or_default();
            let len = self.endian.unsigned_at::<8>(body, 0);
            len.and_then(|len| data.get(..usize::try_from(len).ok()?))
                .ok_or_else(|| {
                    Bad::new(
                        offset,
                        "a compressed record",
                        "one that is longer than itself",
                    )
                })?
        } else {
            body
        };
        let unpacker = match &mut self.unpacker {
            Some(unpacker) => unpacker,
            none => none.insert(Unpacker::new(offset)?),
        };
        unpacker.packed.clear();
        unpacker.packed.extend_from_slice(packed);
        unpacker.at = 0;
        unpacker.offset = offset;
        unpacker.active = true;
        Ok(())
    }

    /// Reads more of the input into the window, or notes its end.
    fn fill(&mut self) -> Result<(), Bad> {
        let want = self.left.map_or(READ_BYTES, |left| {
            usize::try_from(left).map_or(READ_BYTES, |left| left.min(READ_BYTES))
        });
        let room = self.plain.room(want);
        let got = loop {
            match self.input.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        let end = self.plain.offset + self.plain.len() as u64;
        let got = got.map_err(|error| Bad::io(end, &error))?;
        self.plain.commit(got);
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(got as u64);
        }
        self.ended = got == 0;
        Ok(())
    }
}

/// What stands at the front of a window.
enum Frame {
    Whole {
        kind: u32,
        size: usize,
    },
    More,
    /// Shorter than its own header.
    Short,
}

fn frame(window: &Window, endian: Endian) -> Frame {
    let bytes = window.bytes();
    let (Some(kind), Some(size)) = (
        endian.unsigned_at::<4>(bytes, 0),
        endian.unsigned_at::<2>(bytes, 6),
    ) else {
        return Frame::More;
    };
    // 16 and 32 bits.
    let (kind, size) = (kind as u32, size as usize);
    if size < HEADER {
        Frame::Short
    } else if size > bytes.len() {
        Frame::More
    } else {
        Frame::Whole { kind, size }
    }
}

fn short(offset: u64) -> Bad {
    Bad::new(
        offset,
        "a record of at least 8 bytes",
        "one shorter than its own header",
    )
}

/// Undoes the compressed records of a file: one zstd stream in pieces, in which records may begin in one piece and end in the next.
struct Unpacker {
    decoder: Decoder<'static>,
    packed: Vec<u8>,
    /// How much of `packed` is done.
    at: usize,
    window: Window,
    /// Where the compressed record begins.
    offset: u64,
    /// Whether there may be more in `packed`.
    active: bool,
}

impl Unpacker {
    fn new(offset: u64) -> Result<Self, Bad> {
        Ok(Self {
            decoder: Decoder::new().map_err(|error| unpacking(offset, &error))?,
            packed: Vec::new(),
            at: 0,
            window: Window::new(0),
            offset,
            active: false,
        })
    }

    /// Unpacks some more behind the window.
    fn unpack(&mut self) -> Result<(), Bad> {
        let mut input = InBuffer::around(self.packed.get(self.at..).unwrap_or_default());
        let mut output = OutBuffer::around(self.window.room(UNPACK_BYTES));
        self.decoder
            .run(&mut input, &mut output)
            .map_err(|error| unpacking(self.offset, &error))?;
        let (used, got) = (input.pos(), output.pos());
        self.at += used;
        self.window.commit(got);
        // A full output may mean that the decoder holds more back.
        self.active = got == UNPACK_BYTES || self.at < self.packed.len();
        if used == 0 && got == 0 {
            self.active = false;
        }
        Ok(())
    }
}

fn unpacking(offset: u64, error: &io::Error) -> Bad {
    Bad::new(
        offset,
        "a compressed record that can be unpacked",
        error.to_string(),
    )
}

/// Bytes that were read and not yet taken.
struct Window {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset of the first of them.
    offset: u64,
}

impl Window {
    fn new(offset: u64) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset,
        }
    }

    fn len(&self) -> usize {
        self.end - self.start
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Takes the first bytes, at most as many as there are.
    fn take(&mut self, size: usize) -> &[u8] {
        let from = self.start;
        let size = size.min(self.len());
        self.start += size;
        self.offset += size as u64;
        self.buffer.get(from..self.start).unwrap_or_default()
    }

    /// Free bytes behind the window, after moving it to the front; [`Window::commit`] says how many were filled.
    fn room(&mut self, size: usize) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < self.end + size {
            self.buffer.resize(self.end + size, 0);
        }
        self.buffer
            .get_mut(self.end..self.end + size)
            .unwrap_or_default()
    }

    fn commit(&mut self, size: usize) {
        self.end = (self.end + size).min(self.buffer.len());
    }
}
