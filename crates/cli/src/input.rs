//! Traces to read.

use std::io;
use std::path::Path;

use schedlab_trace::{ReadError, Reader};

/// Opens a trace; `-` is standard input.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Reader + Send>, ReadError> {
    if path == Path::new("-") {
        schedlab_trace::open_stream(io::stdin(), "standard input")
    } else {
        schedlab_trace::open(path)
    }
}
