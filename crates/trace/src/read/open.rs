//! Opening a trace of unknown compression and format.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use super::{ReadError, Reader, spool};
use crate::format::{self, Compression, Format, HEAD_BYTES};
use crate::ftrace::FtraceTextReader;
use crate::ndjson::NdjsonReader;
use crate::perf_data::{self, PerfDataReader};
use crate::perfetto::PerfettoReader;
use crate::rawpages::RawPagesReader;
use crate::tracedat::TraceDatReader;

/// Bytes read at once behind the detection.
const BUFFER_BYTES: usize = 256 * 1024;

/// Opens a trace file: undoes xz, zstd or gzip and picks the reader by content. The name plays no part.
///
/// A directory is opened as ring-buffer pages with format files (`docs/formats/raw-pages.md`).
///
/// # Errors
/// [`ReadError::Open`], [`ReadError::Io`] and [`ReadError::Empty`] as they say; [`ReadError::Unsupported`] for formats
/// that are known but have no reader; [`ReadError::Unknown`] for everything else.
pub fn open(path: impl AsRef<Path>) -> Result<Box<dyn Reader + Send>, ReadError> {
    let path = path.as_ref();
    let name = path.display().to_string();
    if path.is_dir() {
        if is_threads_directory(path) {
            return Err(ReadError::Unknown {
                file: name,
                found: "a directory of perf record --threads, which is not read (record without --threads)"
                    .to_owned(),
            });
        }
        return Ok(Box::new(RawPagesReader::open(path)?));
    }
    let file = File::open(path).map_err(|source| ReadError::Open {
        file: name.clone(),
        source,
    })?;
    open_file(file, &name)
}

/// `perf record --threads` makes a directory: the header in `data`, the records of each thread in `data.0` and so on.
fn is_threads_directory(path: &Path) -> bool {
    let mut head = [0; 8];
    File::open(path.join("data"))
        .and_then(|mut file| file.read_exact(&mut head))
        .is_ok_and(|()| Format::detect(&head) == Some(Format::PerfData))
}

/// A plain file of a format that needs random access is read in place; all else is a stream.
fn open_file(mut file: File, name: &str) -> Result<Box<dyn Reader + Send>, ReadError> {
    let mut head = Vec::new();
    let read = file
        .by_ref()
        .take(HEAD_BYTES as u64)
        .read_to_end(&mut head)
        .and_then(|_| file.seek(SeekFrom::Start(0)));
    match (read, Format::detect(&head)) {
        (Ok(_), Some(Format::TraceDat)) => {
            Ok(Box::new(TraceDatReader::new(Box::new(file), None, name)?))
        }
        (Ok(_), Some(Format::PerfData)) if !perf_data::is_pipe(&head) => {
            Ok(Box::new(PerfDataReader::from_file(file, name)?))
        }
        (Ok(_), _) => open_stream(file, name),
        // A pipe or device: no way back, so what was read goes in front.
        (Err(_), _) => open_stream(Cursor::new(head).chain(file), name),
    }
}

/// The same for a stream such as standard input; `name` stands for the path in messages.
///
/// # Errors
/// As [`open`], apart from [`ReadError::Open`].
pub fn open_stream(
    stream: impl Read + Send + 'static,
    name: &str,
) -> Result<Box<dyn Reader + Send>, ReadError> {
    let (head, stream) = peek(stream, name)?;
    let Some(compression) = Compression::detect(&head) else {
        return by_format(head, stream, name);
    };
    let plain = decoder(compression, stream).map_err(|source| io_error(name, source))?;
    let (head, plain) = peek(plain, name)?;
    if let Some(inner) = Compression::detect(&head) {
        return Err(ReadError::Unknown {
            file: name.to_owned(),
            found: format!("{inner} data packed once more with {compression}"),
        });
    }
    by_format(head, plain, name)
}

/// Undoes a compression.
///
/// # Errors
/// If the decoder cannot be made. What is broken in the stream shows when it is read.
pub fn decoder(
    compression: Compression,
    stream: impl Read + Send + 'static,
) -> io::Result<Box<dyn Read + Send>> {
    Ok(match compression {
        Compression::Xz => Box::new(liblzma::read::XzDecoder::new_multi_decoder(stream)),
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(stream)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(stream)?),
    })
}

fn by_format(
    head: Vec<u8>,
    stream: impl Read + Send + 'static,
    name: &str,
) -> Result<Box<dyn Reader + Send>, ReadError> {
    match Format::detect(&head) {
        Some(Format::FtraceText) => Ok(Box::new(FtraceTextReader::new(
            BufReader::with_capacity(BUFFER_BYTES, stream),
            name,
        ))),
        Some(Format::Ndjson) => Ok(Box::new(NdjsonReader::new(
            BufReader::with_capacity(BUFFER_BYTES, stream),
            name,
        ))),
        Some(Format::Perfetto) => Ok(Box::new(PerfettoReader::new(
            BufReader::with_capacity(BUFFER_BYTES, stream),
            name,
        ))),
        Some(Format::TraceDat) => {
            let spooled = spool(stream).map_err(|source| io_error(name, source))?;
            let reader = TraceDatReader::new(spooled.source, spooled.broken, name)?;
            Ok(Box::new(reader))
        }
        Some(Format::PerfScript) => Ok(Box::new(FtraceTextReader::perf_script(
            BufReader::with_capacity(BUFFER_BYTES, stream),
            name,
        ))),
        Some(Format::PerfData) if perf_data::is_pipe(&head) => {
            Ok(Box::new(PerfDataReader::from_pipe(stream, name)?))
        }
        Some(Format::PerfData) => {
            let spooled = spool(stream).map_err(|source| io_error(name, source))?;
            match (
                PerfDataReader::from_file(spooled.source, name),
                spooled.broken,
            ) {
                (Ok(reader), None) => Ok(Box::new(reader)),
                // What is missing stands at the end: the break says more than its effect.
                (_, Some(source)) => Err(io_error(name, source)),
                (Err(error), None) => Err(error),
            }
        }
        Some(format) => Err(ReadError::Unsupported {
            file: name.to_owned(),
            format,
            hint: "",
        }),
        None => Err(ReadError::Unknown {
            file: name.to_owned(),
            found: format::describe_unknown(&head),
        }),
    }
}

/// Reads the head for detection and gives a stream that starts with it again.
fn peek(
    mut stream: impl Read + Send + 'static,
    name: &str,
) -> Result<(Vec<u8>, Box<dyn Read + Send>), ReadError> {
    let mut head = Vec::new();
    let result = stream
        .by_ref()
        .take(HEAD_BYTES as u64)
        .read_to_end(&mut head);
    let start = Cursor::new(head.clone());
    match result {
        Err(source) if head.is_empty() => Err(io_error(name, source)),
        // Something came out before it broke: let the reader meet the error behind that. The decoder cannot be asked
        // again, some then say "end of file".
        Err(source) => Ok((head, Box::new(start.chain(Broken(Some(source)))))),
        Ok(_) if head.is_empty() => Err(ReadError::Empty {
            file: name.to_owned(),
        }),
        Ok(_) => Ok((head, Box::new(start.chain(stream)))),
    }
}

/// A stream that fails once.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

fn io_error(name: &str, source: io::Error) -> ReadError {
    ReadError::Io {
        file: name.to_owned(),
        line: 0,
        events: 0,
        source,
    }
}
