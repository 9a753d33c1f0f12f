//! Numbers and texts of a `trace.dat` file, with errors that name the place.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use schedlab_tracefmt::Endian;

use crate::ReadError;

/// A source with a byte order and a name for messages.
pub(super) struct Input<R> {
    inner: BufReader<R>,
    pub(super) endian: Endian,
    pub(super) file: String,
    /// Where `inner` stands.
    at: u64,
    /// Length of the source.
    pub(super) len: u64,
}

impl<R: Read + Seek> Input<R> {
    pub(super) fn new(mut inner: R, file: &str) -> Result<Self, ReadError> {
        let len = inner
            .seek(SeekFrom::End(0))
            .and_then(|len| inner.seek(SeekFrom::Start(0)).map(|_| len))
            .map_err(|source| io_error(file, source))?;
        Ok(Self {
            inner: BufReader::with_capacity(64 * 1024, inner),
            endian: Endian::Little,
            file: file.to_owned(),
            at: 0,
            len,
        })
    }

    pub(super) fn into_inner(self) -> R {
        self.inner.into_inner()
    }

    pub(super) fn position(&self) -> u64 {
        self.at
    }

    pub(super) fn seek(&mut self, to: u64) -> Result<(), ReadError> {
        // Within the buffer this is cheap.
        let step = i128::from(to) - i128::from(self.at);
        match i64::try_from(step) {
            Ok(step) => self.inner.seek_relative(step),
            Err(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
        .map_err(|source| io_error(&self.file, source))?;
        self.at = to;
        Ok(())
    }

    pub(super) fn skip(&mut self, bytes: u64, what: &str) -> Result<(), ReadError> {
        match self.at.checked_add(bytes) {
            Some(to) if to <= self.len => self.seek(to),
            _ => Err(self.damaged(&format!("{bytes} bytes of {what}"), "the end of the file")),
        }
    }

    /// An error at the present place.
    pub(super) fn damaged(&self, expected: &str, found: &str) -> ReadError {
        ReadError::unusable(&self.file, self.at, expected, found)
    }

    /// So many bytes. Memory is taken as they come, so a false length asks for no more than the file has.
    pub(super) fn bytes(&mut self, count: u64, what: &str) -> Result<Vec<u8>, ReadError> {
        let mut out = Vec::new();
        self.inner
            .by_ref()
            .take(count)
            .read_to_end(&mut out)
            .map_err(|source| io_error(&self.file, source))?;
        if (out.len() as u64) < count {
            return Err(self.damaged(&format!("{count} bytes of {what}"), "the end of the file"));
        }
        self.at += count;
        Ok(out)
    }

    fn number(&mut self, size: usize, what: &str) -> Result<u64, ReadError> {
        let mut bytes = [0; 8];
        let bytes = bytes.get_mut(..size).unwrap_or_default();
        match self.inner.read_exact(bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(self.damaged(what, "the end of the file"));
            }
            Err(source) => return Err(io_error(&self.file, source)),
        }
        self.at += size as u64;
        Ok(self.endian.unsigned(bytes).unwrap_or(0))
    }

    pub(super) fn u8(&mut self, what: &str) -> Result<u8, ReadError> {
        Ok(self.number(1, what)?.to_le_bytes()[0])
    }

    pub(super) fn u16(&mut self, what: &str) -> Result<u16, ReadError> {
        Ok(u16::try_from(self.number(2, what)?).unwrap_or(0))
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, ReadError> {
        Ok(u32::try_from(self.number(4, what)?).unwrap_or(0))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, ReadError> {
        self.number(8, what)
    }

    /// A text that a zero byte ends.
    pub(super) fn string(&mut self, what: &str) -> Result<String, ReadError> {
        const STRING_MAX: usize = 4096;
        let start = self.at;
        let mut out = Vec::new();
        loop {
            let byte = self.u8(what)?;
            if byte == 0 {
                return Ok(String::from_utf8_lossy(&out).into_owned());
            }
            if out.len() == STRING_MAX {
                self.at = start;
                return Err(self.damaged(what, "a text without an end"));
            }
            out.push(byte);
        }
    }

    /// These very bytes.
    pub(super) fn expect(&mut self, bytes: &[u8], what: &str) -> Result<(), ReadError> {
        let start = self.at;
        let found = self.bytes(bytes.len() as u64, what)?;
        if found == bytes {
            return Ok(());
        }
        self.at = start;
        Err(self.damaged(what, &format!("\"{}\"", found.escape_ascii())))
    }
}

pub(super) fn io_error(file: &str, source: io::Error) -> ReadError {
    ReadError::Io {
        file: file.to_owned(),
        line: 0,
        events: 0,
        source,
    }
}
