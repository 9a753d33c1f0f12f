//! Reader for `trace.dat` files of trace-cmd, versions 6 and 7; `docs/formats/trace-dat.md` describes it.

mod input;
mod meta;
mod packed;
mod pages;
mod v6;
mod v7;

use std::io::{self, BufReader};

use schedlab_tracefmt::Endian;

use self::input::{Input, io_error};
use self::meta::{Buffer, CpuData, Meta, Packing, TextData};
use self::pages::{PageText, Pages};
use crate::ftrace::FtraceTextReader;
use crate::read::{ReadSeek, Tally};
use crate::ring::{RingReader, Setup};
use crate::{Event, Format, ReadError, ReadReport, Reader};

/// First bytes of every `trace.dat`.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";
/// Pages in which text data is unpacked.
const TEXT_PAGE: u32 = 64 * 1024;

type Source = Box<dyn ReadSeek>;

/// Reads `trace.dat`. Of each CPU one page is in memory (compressed files: one chunk, of ten pages), besides the event formats.
pub(crate) struct TraceDatReader {
    body: Body,
    file: String,
    /// Why the stream ended before the file did.
    broken: Option<io::Error>,
    done: bool,
}

enum Body {
    Ring(Box<RingReader<Pages<Source>>>),
    /// Latency tracers: text in place of pages.
    Text(
        Box<FtraceTextReader<BufReader<PageText<Source>>>>,
        Box<Tally>,
    ),
}

impl TraceDatReader {
    /// Reads everything before the data. `broken`: the source is a copy of a stream that ended with this error.
    ///
    /// # Errors
    /// [`ReadError::Damaged`] if the file's description of itself is cut or wrong.
    pub(crate) fn new(
        source: Source,
        broken: Option<io::Error>,
        file: &str,
    ) -> Result<Self, ReadError> {
        match Self::body(source, file) {
            Ok(body) => Ok(Self {
                body,
                file: file.to_owned(),
                broken,
                done: false,
            }),
            // That the source broke off says more than what is missing then.
            Err(error) => Err(broken.map_or(error, |broken| io_error(file, broken))),
        }
    }

    fn body(source: Source, file: &str) -> Result<Body, ReadError> {
        let mut input = Input::new(source, file)?;
        let meta = read_meta(&mut input)?;
        let len = input.len;
        let source = input.into_inner();
        let has_data = meta.buffers.iter().any(|buffer| !buffer.cpus.is_empty());
        if let Some(text) = meta.text
            && !has_data
        {
            return Ok(text_body(source, meta, text, len, file));
        }
        ring_body(source, meta, len, file)
    }
}

/// Magic, version, byte order and all descriptions.
fn read_meta(input: &mut Input<Source>) -> Result<Meta, ReadError> {
    input.expect(MAGIC, "the beginning of a trace.dat file")?;
    let version_at = input.position();
    let version = input.string("the version")?;
    let order_at = input.position();
    input.endian = match input.u8("the byte order")? {
        0 => Endian::Little,
        1 => Endian::Big,
        other => {
            input.seek(order_at)?;
            return Err(input.damaged("byte order 0 or 1", &other.to_string()));
        }
    };
    // The size of `long` in user space; that of the kernel comes with the page header.
    input.u8("the size of long")?;
    input.u32("the page size")?;
    let mut meta = match version.as_str() {
        "6" => {
            let mut meta = Meta::new(input.endian, Packing::None);
            v6::read(input, &mut meta)?;
            meta
        }
        "7" => {
            let packing = v7::packing(input)?;
            let mut meta = Meta::new(input.endian, packing);
            v7::read(input, &mut meta)?;
            meta
        }
        other => {
            input.seek(version_at)?;
            let found = format!("\"{}\"", other.escape_default());
            return Err(input.damaged("version 6 or 7", &found));
        }
    };
    describe_buffers(&mut meta);
    Ok(meta)
}

/// Says what is merged, and from which clock the times are.
fn describe_buffers(meta: &mut Meta) {
    let with_data: Vec<&Buffer> = meta.buffers.iter().filter(|b| !b.cpus.is_empty()).collect();
    let mut clocks: Vec<String> = with_data.iter().filter_map(|b| b.clock.clone()).collect();
    clocks.dedup();
    let names: Vec<String> = with_data
        .iter()
        .map(|b| match b.name.as_str() {
            "" => "the top instance".to_owned(),
            name => name.to_owned(),
        })
        .collect();
    if names.len() > 1 {
        meta.tally.remark(format!(
            "events of {} buffers are merged: {}; an event that several of them recorded comes several times",
            names.len(),
            names.join(", ")
        ));
    }
    if clocks.len() > 1 {
        meta.tally.remark(format!(
            "the buffers have different clocks ({}): times do not compare",
            clocks.join(", ")
        ));
    }
    if let Some(clock) = clocks.first() {
        meta.tally.plain.clock = Some(clock.clone());
    }
}

fn text_body(source: Source, meta: Meta, text: TextData, len: u64, file: &str) -> Body {
    let mut pages = Pages::new(source, meta.endian, meta.packing, len);
    let data = CpuData {
        cpu: 0,
        offset: text.offset,
        size: text.size,
    };
    pages.add(data, TEXT_PAGE, text.packed);
    let text = BufReader::with_capacity(TEXT_PAGE as usize, PageText::new(pages));
    Body::Text(
        Box::new(FtraceTextReader::new(text, file)),
        Box::new(meta.tally),
    )
}

fn ring_body(source: Source, meta: Meta, len: u64, file: &str) -> Result<Body, ReadError> {
    let damaged = |expected: &str, found: String| ReadError::unusable(file, 0, expected, &found);
    let layout = meta.layout.ok_or_else(|| {
        damaged(
            "a description of ring-buffer pages",
            "a file without one".to_owned(),
        )
    })?;
    let mut pages = Pages::new(source, meta.endian, meta.packing, len);
    let mut streams = Vec::new();
    let mut total = 0u64;
    for buffer in &meta.buffers {
        let layout = match buffer.page_size {
            None | Some(0) => layout,
            Some(size) => layout
                .with_page_size(size)
                .map_err(|_| damaged("a page size", size.to_string()))?,
        };
        for &data in &buffer.cpus {
            // What lies behind the end of the file takes no memory.
            let end = data.offset.saturating_add(data.size).min(len);
            total = total.saturating_add(end.saturating_sub(data.offset));
            pages.add(data, layout.page_size(), buffer.packed);
            streams.push((data.cpu, layout));
        }
    }
    // One page of each CPU is in memory: together they are no larger than the file, unless CPUs share data.
    if total > len {
        return Err(damaged(
            "data of its own for each CPU",
            format!("{total} bytes of data in a file of {len}"),
        ));
    }
    let setup = Setup {
        endian: meta.endian,
        decoder: meta.decoder,
        comms: meta.comms,
        clock: meta.clock,
        streams,
    };
    Ok(Body::Ring(Box::new(RingReader::new(
        pages, setup, meta.tally,
    ))))
}

impl TraceDatReader {
    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        match &mut self.body {
            Body::Text(reader, _) => reader.next().transpose(),
            Body::Ring(ring) => ring.next_or_error(&self.file, &mut self.broken),
        }
    }
}

impl Iterator for TraceDatReader {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let result = self.next_event();
        self.done = !matches!(result, Ok(Some(_)));
        result.transpose()
    }
}

impl Reader for TraceDatReader {
    fn format(&self) -> Format {
        Format::TraceDat
    }

    fn report(&self) -> ReadReport {
        match &self.body {
            Body::Ring(ring) => ring.report(),
            Body::Text(reader, tally) => {
                let mut report = reader.report();
                let meta = tally.report();
                report.kernel_release = meta.kernel_release;
                report.clock = report.clock.or(meta.clock);
                report.cpus_declared = report.cpus_declared.or(meta.cpus_declared);
                report.remarks.extend(meta.remarks);
                report
            }
        }
    }
}
