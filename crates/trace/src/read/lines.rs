//! Lines of a text format, one at a time, however long.

use std::io::{self, BufRead};

/// How a line ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LineEnd {
    /// With a line feed, which is left out.
    Whole,
    /// With the file.
    File,
    /// Not yet, but it is too long and holds zero bytes: this is no text. Only with [`Lines::refuse_binary`].
    Binary,
}

/// Reads lines without holding more than one, and no more than a limit of that.
pub(crate) struct Lines<R> {
    input: R,
    limit: usize,
    /// Start of a line whose end was not yet in the buffer; no longer than the limit and one byte.
    carry: Vec<u8>,
    /// Whether a long line with zero bytes ends the reading early.
    refuse_binary: bool,
}

impl<R: BufRead> Lines<R> {
    /// Lines longer than `limit` bytes are given out with just one byte more than that.
    pub(crate) fn new(input: R, limit: usize) -> Self {
        Self {
            input,
            limit,
            carry: Vec::new(),
            refuse_binary: true,
        }
    }

    /// From here on long lines with zero bytes are lines: something was read already.
    pub(crate) fn accept_binary(&mut self) {
        self.refuse_binary = false;
    }

    /// Hands the next line to `take`; `None` at the end of the file.
    ///
    /// # Errors
    /// What the input gave. [`Lines::cut`] then has what was read of a line.
    pub(crate) fn next<T>(
        &mut self,
        take: impl FnOnce(&[u8], LineEnd) -> T,
    ) -> io::Result<Option<T>> {
        loop {
            let buffer = match self.input.fill_buf() {
                Ok(buffer) => buffer,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            let room = (self.limit + 1).saturating_sub(self.carry.len());
            if buffer.is_empty() {
                if self.carry.is_empty() {
                    return Ok(None);
                }
                let line = std::mem::take(&mut self.carry);
                return Ok(Some(take(&line, LineEnd::File)));
            }
            if let Some(end) = memchr::memchr(b'\n', buffer) {
                let line = if self.carry.is_empty() {
                    &buffer[..end.min(room)]
                } else {
                    self.carry.extend_from_slice(&buffer[..end.min(room)]);
                    &self.carry[..]
                };
                let result = take(line, LineEnd::Whole);
                self.carry.clear();
                self.input.consume(end + 1);
                return Ok(Some(result));
            }
            // The line goes on behind the buffer. Past the limit only its start is kept.
            let len = buffer.len();
            self.carry.extend_from_slice(&buffer[..len.min(room)]);
            self.input.consume(len);
            if self.refuse_binary && self.carry.len() > self.limit && self.carry.contains(&0) {
                let line = std::mem::take(&mut self.carry);
                return Ok(Some(take(&line, LineEnd::Binary)));
            }
        }
    }

    /// What was read of a line before an error; empty without.
    pub(crate) fn cut(&self) -> &[u8] {
        &self.carry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8], buffer: usize) -> Vec<(String, LineEnd)> {
        let mut lines = Lines::new(io::BufReader::with_capacity(buffer, text), 4);
        let mut out = Vec::new();
        while let Some(line) = lines
            .next(|line, end| (String::from_utf8_lossy(line).into_owned(), end))
            .unwrap()
        {
            out.push(line);
        }
        out
    }

    #[test]
    fn the_buffer_plays_no_part() {
        let expected = [
            ("a", LineEnd::Whole),
            ("", LineEnd::Whole),
            ("12345", LineEnd::Whole),
            ("xy", LineEnd::File),
        ];
        let expected = expected.map(|(line, end)| (line.to_owned(), end));
        for buffer in [1, 2, 3, 100] {
            assert_eq!(all(b"a\n\n123456789\nxy", buffer), expected, "{buffer}");
        }
        assert_eq!(all(b"", 7), []);
    }

    #[test]
    fn binary_is_refused_until_accepted() {
        let data = [0; 100];
        assert_eq!(all(&data, 10)[0].1, LineEnd::Binary);
        let mut lines = Lines::new(io::BufReader::with_capacity(10, &data[..]), 4);
        lines.accept_binary();
        let line = lines.next(|line, end| (line.len(), end)).unwrap();
        assert_eq!(line, Some((5, LineEnd::File)));
    }
}
