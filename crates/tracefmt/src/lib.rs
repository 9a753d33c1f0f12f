//! Kernel trace events read by their own description.
//!
//! Every tracepoint of Linux describes its payload in a `format` file. Whoever has payload bytes (from `trace.dat`, from
//! `perf.data`, from `trace_pipe_raw`) and that text can read the event, whatever the kernel version. This crate does so for any
//! tracepoint, without knowing one by name:
//!
//! - [`EventFormat`] parses the text; [`Field`] reads numbers, strings and arrays from payload bytes, borrowed, in either byte
//!   order, `__data_loc` and `__rel_loc` included;
//! - [`Printer`] interprets `print fmt:` and makes the text that tracefs would print;
//! - [`ring`] reads the pages of the kernel's ring buffer and gives out time and payload of each record.
//!
//! Nothing in an input makes it panic: every access is checked, every length bounded. Nothing is dropped in silence: what the
//! interpreter of `print fmt:` cannot do is said ([`Printer::unsupported`]), and the event is printed as `name=value` pairs.
//!
//! ```
//! use schedlab_tracefmt::{Endian, EventFormat, Printer};
//!
//! let format = EventFormat::parse(b"\
//! name: cpu_idle
//! ID: 300
//! format:
//! \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
//!
//! \tfield:u32 state;\toffset:8;\tsize:4;\tsigned:0;
//! \tfield:u32 cpu_id;\toffset:12;\tsize:4;\tsigned:0;
//!
//! print fmt: \"state=%lu cpu_id=%lu\", (unsigned long)REC->state, (unsigned long)REC->cpu_id
//! ").unwrap();
//! let payload = [0x2c, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0];
//! let printer = Printer::new(&format);
//! assert_eq!(printer.print(&payload, Endian::Little), "state=1 cpu_id=3");
//! ```
mod bytes;
mod field;
mod format;
pub mod print;
pub mod ring;

pub use bytes::Endian;
pub use field::{Field, FieldKind};
pub use format::{EventFormat, FORMAT_BYTES_MAX, FormatError};
pub use print::Printer;

/// The example of README.md, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
