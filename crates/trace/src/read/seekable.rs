//! Random access for formats that need it, from any stream.

use std::io::{self, Read, Seek, SeekFrom, Write};

/// A source in which a reader can jump.
pub(crate) trait ReadSeek: Read + Seek + Send {}
impl<T: Read + Seek + Send> ReadSeek for T {}

/// Bytes of a stream that are kept in memory; a longer one goes to a temporary file without a name.
const MEMORY_BYTES: usize = 8 * 1024 * 1024;

/// A stream made seekable, and the error that ended it early, if any.
pub(crate) struct Spooled {
    pub(crate) source: Box<dyn ReadSeek>,
    pub(crate) broken: Option<io::Error>,
}

/// Copies a stream so that it can be read in any order. If the stream breaks (a cut compressed file), what came before is kept.
///
/// # Errors
/// Only if the temporary file cannot be written.
pub(crate) fn spool(mut stream: impl Read) -> io::Result<Spooled> {
    let mut file = tempfile::SpooledTempFile::new(MEMORY_BYTES);
    let mut buffer = vec![0; 64 * 1024];
    let mut broken = None;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => file.write_all(buffer.get(..n).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                broken = Some(error);
                break;
            }
        }
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(Spooled {
        source: Box::new(file),
        broken,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives some bytes and then an error.
    struct Cut(usize);

    impl Read for Cut {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let n = self.0.min(buffer.len());
            buffer[..n].fill(7);
            self.0 -= n;
            Ok(n)
        }
    }

    #[test]
    fn what_came_before_the_break_is_kept() {
        for len in [0, 5, MEMORY_BYTES + 5] {
            let mut spooled = spool(Cut(len)).unwrap();
            assert!(spooled.broken.is_some());
            let mut all = Vec::new();
            spooled.source.read_to_end(&mut all).unwrap();
            assert_eq!(all.len(), len);
        }
    }
}
