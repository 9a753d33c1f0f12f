//! NDJSON: one JSON object per line, every event without loss.
//!
//! `docs/formats/ndjson.md` describes it and [`NDJSON_SCHEMA`] is its JSON Schema.

mod reader;
mod record;
mod writer;

pub use reader::NdjsonReader;
pub use writer::{NdjsonOptions, NdjsonWriter};

/// JSON Schema of a line.
pub const NDJSON_SCHEMA: &str = include_str!("schema.json");

/// What the first line names itself.
const SCHEMA_NAME: &str = "schedlab.trace/1";

/// Whether a line is one of this format. For telling formats apart.
pub(crate) fn is_line(line: &[u8]) -> bool {
    let has = |what: &str| memchr::memmem::find(line, what.as_bytes()).is_some();
    line.trim_ascii_start().starts_with(b"{")
        && (has("\"schedlab.trace/") || (has("\"ts\"") && has("\"event\"")))
}
