//! Text with a name, and the lines and columns in it.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Place};

/// The text of a file together with where its lines start.
pub(crate) struct Source<'a> {
    name: Arc<str>,
    text: &'a str,
    line_starts: Vec<usize>,
}

impl<'a> Source<'a> {
    /// Wraps text; `name` is what error messages call it.
    pub(crate) fn new(name: &str, text: &'a str) -> Self {
        let line_starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        Self {
            name: name.into(),
            text,
            line_starts,
        }
    }

    /// The text.
    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// Line and column of a byte offset.
    pub(crate) fn place(&self, offset: usize) -> Place {
        let line = self.line_starts.partition_point(|&s| s <= offset).max(1) - 1;
        let start = self.line_starts[line];
        let column = self
            .text
            .get(start..offset.min(self.text.len()))
            .map_or(0, |s| s.chars().count());
        Place::File {
            file: self.name.clone(),
            line: u32::try_from(line + 1).unwrap_or(u32::MAX),
            column: u32::try_from(column + 1).unwrap_or(u32::MAX),
        }
    }
}

/// Reads a file that should be text.
pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    let bytes = std::fs::read(path).map_err(|source| Error::Read {
        path: path.to_path_buf(),
        source,
    })?;
    text_of(&path.display().to_string(), bytes)
}

/// Text from bytes, or where the first byte is that is none.
pub(crate) fn text_of(name: &str, bytes: Vec<u8>) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|e| {
        let good = e.utf8_error().valid_up_to();
        let bytes = e.into_bytes();
        let prefix = String::from_utf8_lossy(&bytes[..good]).into_owned();
        Error::NotText {
            place: Source::new(name, &prefix).place(good),
            byte: bytes.get(good).copied().unwrap_or(0),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_in_characters() {
        let s = Source::new("f", "ab\näöx\n");
        let at = |o| s.place(o).to_string();
        assert_eq!(at(0), "f:1:1");
        assert_eq!(at(2), "f:1:3");
        assert_eq!(at(3), "f:2:1");
        assert_eq!(at(7), "f:2:3");
        assert_eq!(at(999), "f:3:1");
    }

    #[test]
    fn a_binary_file_is_named_with_its_first_wrong_byte() {
        let e = text_of("x.toml", b"a = 1\nb\xff".to_vec()).unwrap_err();
        assert_eq!(
            e.to_string(),
            "x.toml:2:2: not UTF-8 text (byte 0xff); a scenario is TOML, an rt-app workload JSON"
        );
    }
}
