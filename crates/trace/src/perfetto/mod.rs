//! Perfetto's protobuf traces: what reader and writer share, and the reader.
//!
//! `docs/formats/perfetto.md` says what is read and written.

mod bundle;
mod event;
mod packets;
pub(crate) mod proto;
mod reader;
pub(crate) mod schema;
mod types;
mod wire;

pub use reader::PerfettoReader;
