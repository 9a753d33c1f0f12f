//! Reader for a directory of ring-buffer pages; `docs/formats/raw-pages.md` describes its layout, which is that of tracefs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use schedlab_tracefmt::ring::{PageLayout, check_header_event};
use schedlab_tracefmt::{Endian, FORMAT_BYTES_MAX};

use crate::payload::PayloadDecoder;
use crate::read::Tally;
use crate::ring::facts::{comms, remark_counters, selected_clock};
use crate::ring::{CPU_LIMIT, Clock, PageRead, PageSource, PageState, RingReader, Setup};
use crate::{Event, Format, ReadError, ReadReport, Reader};

/// Largest of the small texts besides the formats.
const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Reads `per_cpu/cpuN/trace_pipe_raw` by the descriptions in `events/`.
pub(crate) struct RawPagesReader {
    ring: RingReader<Dumps>,
    dir: String,
    done: bool,
}

/// The dump files. Each page opens its file anew, so that the number of CPUs needs no open files.
struct Dumps {
    files: Vec<Dump>,
}

struct Dump {
    path: PathBuf,
    at: u64,
    /// Length by the file system. It is 0 in a live tracefs, where reading would take events out of the kernel's buffer.
    len: u64,
    page_size: u32,
}

impl PageSource for Dumps {
    fn next_page(&mut self, stream: usize, page: &mut Vec<u8>) -> io::Result<Option<PageRead>> {
        let Some(dump) = self.files.get_mut(stream) else {
            return Ok(None);
        };
        let offset = dump.at;
        read_page(dump, page)?;
        if page.is_empty() {
            return Ok(None);
        }
        dump.at = dump.at.saturating_add(page.len() as u64);
        let whole = page.len() == dump.page_size as usize;
        let state = if whole {
            PageState::Whole
        } else {
            PageState::Cut
        };
        Ok(Some(PageRead { offset, state }))
    }
}

fn read_page(dump: &Dump, page: &mut Vec<u8>) -> io::Result<()> {
    page.clear();
    let left = dump.len.saturating_sub(dump.at);
    if left > 0 {
        let mut file = File::open(&dump.path)?;
        file.seek(SeekFrom::Start(dump.at))?;
        let size = u64::from(dump.page_size).min(left);
        file.take(size).read_to_end(page)?;
    }
    Ok(())
}

impl RawPagesReader {
    /// Opens a directory.
    ///
    /// # Errors
    /// [`ReadError::Unknown`] if it has no `events/header_page`, [`ReadError::Open`] for a file that cannot be read,
    /// [`ReadError::Damaged`] for a page header that makes no sense.
    pub(crate) fn open(dir: &Path) -> Result<Self, ReadError> {
        let mut tally = Tally::default();
        let layout = page_layout(dir)?;
        let mut decoder = PayloadDecoder::new(Endian::Little, layout.long_size());
        add_formats(&dir.join("events"), &mut decoder, &mut tally)?;
        let dumps = dumps(dir, &layout, &mut tally)?;
        let endian = byte_order(&dumps, &layout, &decoder);
        decoder.set_endian(endian);
        if let Some(text) = optional(&dir.join("trace_clock")) {
            tally.plain.clock = selected_clock(String::from_utf8_lossy(&text).trim());
        }
        let comms = optional(&dir.join("saved_cmdlines")).map(|text| comms(&text));
        let setup = Setup {
            endian,
            decoder,
            comms: comms.unwrap_or_default(),
            clock: Clock::default(),
            streams: dumps.iter().map(|(cpu, _)| (*cpu, layout)).collect(),
        };
        let files = dumps.into_iter().map(|(_, dump)| dump).collect();
        Ok(Self {
            ring: RingReader::new(Dumps { files }, setup, tally),
            dir: dir.display().to_string(),
            done: false,
        })
    }
}

/// `events/header_page`, and `events/header_event` if it is there.
fn page_layout(dir: &Path) -> Result<PageLayout, ReadError> {
    let path = dir.join("events/header_page");
    if !path.is_file() {
        return Err(ReadError::Unknown {
            file: dir.display().to_string(),
            found: "a directory without events/header_page (see docs/formats/raw-pages.md)"
                .to_owned(),
        });
    }
    let damaged = |path: &Path, error: String| {
        ReadError::unusable(
            &path.display().to_string(),
            0,
            "a description of ring-buffer pages",
            &error,
        )
    };
    let text = text(&path, TEXT_BYTES_MAX)?;
    let layout = PageLayout::parse(&String::from_utf8_lossy(&text))
        .map_err(|error| damaged(&path, error.to_string()))?;
    let path = dir.join("events/header_event");
    if let Some(text) = optional(&path) {
        check_header_event(&String::from_utf8_lossy(&text))
            .map_err(|error| damaged(&path, error.to_string()))?;
    }
    Ok(layout)
}

fn text(path: &Path, max: usize) -> Result<Vec<u8>, ReadError> {
    let mut out = Vec::new();
    File::open(path)
        .and_then(|file| file.take(max as u64 + 1).read_to_end(&mut out))
        .map_err(|source| ReadError::Open {
            file: path.display().to_string(),
            source,
        })?;
    Ok(out)
}

/// A text that need not be there.
fn optional(path: &Path) -> Option<Vec<u8>> {
    text(path, TEXT_BYTES_MAX).ok()
}

/// Names in a directory, sorted: the order of a file system is no order.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let open = |source| ReadError::Open {
        file: dir.display().to_string(),
        source,
    };
    let mut out = Vec::new();
    for entry in fs::read_dir(dir).map_err(open)? {
        out.push(entry.map_err(open)?.path());
    }
    out.sort();
    Ok(out)
}

/// Every `SYSTEM/EVENT/format`.
fn add_formats(
    events: &Path,
    decoder: &mut PayloadDecoder,
    tally: &mut Tally,
) -> Result<(), ReadError> {
    for system in entries(events)? {
        if !system.is_dir() {
            continue;
        }
        for event in entries(&system)? {
            let path = event.join("format");
            if !path.is_file() {
                continue;
            }
            let text = text(&path, FORMAT_BYTES_MAX)?;
            if let Err(error) = decoder.add_format(&text) {
                tally.remark(format!("{} is not usable: {error}", path.display()));
            }
        }
    }
    Ok(())
}

/// The dumps by CPU. Empty ones are noted.
fn dumps(
    dir: &Path,
    layout: &PageLayout,
    tally: &mut Tally,
) -> Result<Vec<(u32, Dump)>, ReadError> {
    let mut out = BTreeMap::new();
    for path in entries(&dir.join("per_cpu"))? {
        let name = path.file_name().and_then(|name| name.to_str());
        let cpu = name
            .and_then(|name| name.strip_prefix("cpu")?.parse::<u32>().ok())
            .filter(|&cpu| cpu < CPU_LIMIT);
        let Some(cpu) = cpu else { continue };
        if let Some(stats) = optional(&path.join("stats")) {
            remark_counters(tally, &cpu.to_string(), &String::from_utf8_lossy(&stats));
        }
        let dump = path.join("trace_pipe_raw");
        let Ok(about) = fs::metadata(&dump) else {
            continue;
        };
        out.insert(
            cpu,
            Dump {
                path: dump,
                at: 0,
                len: about.len(),
                page_size: layout.page_size(),
            },
        );
    }
    Ok(out.into_iter().collect())
}

/// The byte order in which the first pages hold more events that have a description. Pages do not say their order.
fn byte_order(dumps: &[(u32, Dump)], layout: &PageLayout, decoder: &PayloadDecoder) -> Endian {
    let count = |endian: Endian| -> usize {
        let of_page = |dump: &Dump| {
            let mut page = Vec::new();
            read_page(dump, &mut page).ok()?;
            let page = layout.page(&page, endian).ok()?;
            let known = page
                .records()
                .map_while(Result::ok)
                .filter(|record| decoder.has_format(record.data, endian));
            Some(known.count())
        };
        dumps.iter().filter_map(|(_, dump)| of_page(dump)).sum()
    };
    if count(Endian::Big) > count(Endian::Little) {
        Endian::Big
    } else {
        Endian::Little
    }
}

impl Iterator for RawPagesReader {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let result = self.ring.next_or_error(&self.dir, &mut None);
        self.done = !matches!(result, Ok(Some(_)));
        result.transpose()
    }
}

impl Reader for RawPagesReader {
    fn format(&self) -> Format {
        Format::RawPages
    }

    fn report(&self) -> ReadReport {
        self.ring.report()
    }
}
