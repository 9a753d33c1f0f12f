//! What stands around the records: header, events, feature sections.
//!
//! `linux-perf-data` reads these. It trusts the lengths that it finds, so it is only shown a small copy of them whose lengths have
//! been checked ([`Checked`]).

use std::collections::HashMap;
use std::io::{Cursor, Read, Seek, SeekFrom};

use linux_perf_data::linux_perf_event_reader::PerfEventType;
use linux_perf_data::{AttributeDescription, Feature, PerfFile, PerfFileReader};
use schedlab_tracefmt::Endian;

use super::records::TRACING_DATA_MAX;
use super::sample::Layout;
use crate::ReadError;

/// `struct perf_file_header`; a pipe's header has only magic and size.
const FILE_HEADER: usize = 104;
pub(super) const PIPE_HEADER: usize = 16;
/// Most bytes of attributes and feature sections taken, apart from tracing data. A machine with 1024 CPUs and all
/// scheduler events has 0.3 MiB.
const METADATA_MAX: u64 = 32 << 20;
/// Smallest `struct perf_event_attr` (`PERF_ATTR_SIZE_VER0`), and largest that is plausible.
const ATTR_BYTES: std::ops::RangeInclusive<u64> = 64..=4096;
/// Offset of `read_format` in `struct perf_event_attr`.
const ATTR_READ_FORMAT: usize = 32;
/// Where the flags of `struct perf_event_attr` lie (`disabled` and so on).
const ATTR_FLAGS: std::ops::Range<usize> = 40..48;
/// Feature sections that are of use, apart from the tracing data.
const FEATURES: [Feature; 3] = [Feature::OSRELEASE, Feature::NRCPUS, Feature::EVENT_DESC];

/// One event that was recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Recorded {
    /// Number of the tracepoint; `None` for counters and the like.
    pub(super) tracepoint: Option<u32>,
    pub(super) name: Option<String>,
    pub(super) layout: Layout,
}

/// All that is known before the first sample.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) endian: Endian,
    pub(super) events: Vec<Recorded>,
    pub(super) ids: Ids,
    /// Release of the recording kernel.
    pub(super) kernel: Option<String>,
    pub(super) cpus: Option<u32>,
}

/// A file's sections.
pub(super) struct File {
    pub(super) container: Container,
    pub(super) tracing_data: Option<Vec<u8>>,
    /// Offset and size of the records.
    pub(super) data: (u64, u64),
    /// Whether a feature section is cut.
    pub(super) cut: bool,
}

/// Something is not as it should be.
#[derive(Debug)]
pub(super) struct Bad {
    offset: u64,
    expected: String,
    found: String,
}

impl Bad {
    pub(super) fn new(offset: u64, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            offset,
            expected: expected.into(),
            found: found.into(),
        }
    }

    pub(super) fn io(offset: u64, error: &std::io::Error) -> Self {
        Self::new(offset, "more of the file", error.to_string())
    }

    /// What `linux-perf-data` says.
    fn library(error: &linux_perf_data::Error) -> Self {
        Self::new(
            0,
            "descriptions of the events that are whole",
            error.to_string(),
        )
    }

    pub(super) fn in_file(self, file: &str, events: u64) -> ReadError {
        let Self {
            offset,
            expected,
            found,
        } = self;
        ReadError::Damaged {
            file: file.to_owned(),
            offset,
            events,
            detail: format!("expected {expected}, found {found}"),
        }
    }
}

/// Byte order by magic number; `None` if it is none of perf's.
pub(super) fn endian(head: &[u8]) -> Option<Endian> {
    match head.get(..8)? {
        b"PERFILE2" => Some(Endian::Little),
        b"2ELIFREP" => Some(Endian::Big),
        _ => None,
    }
}

/// Whether the beginning of a perf.data stream says that it went through a pipe.
pub(crate) fn is_pipe(head: &[u8]) -> bool {
    endian(head).and_then(|endian| endian.unsigned_at::<8>(head, 8)) == Some(PIPE_HEADER as u64)
}

/// Reads header and sections of a file.
pub(super) fn read_file(source: &mut (impl Read + Seek)) -> Result<File, Bad> {
    let length = source
        .seek(SeekFrom::End(0))
        .map_err(|error| Bad::io(0, &error))?;
    let header = section(source, 0, FILE_HEADER as u64, length)?;
    let endian = endian(&header).ok_or_else(|| Bad::new(0, "a perf.data header", "another"))?;
    let word = |at: usize| endian.unsigned_at::<8>(&header, at).unwrap_or(0);
    let (attr_size, attrs) = (word(16), (word(24), word(32)));
    let data = (word(40), word(48));
    let Some(data_end) = data.0.checked_add(data.1).filter(|&end| end <= length) else {
        return Err(Bad::new(
            length,
            format!(
                "{} bytes of records from byte {} on and the descriptions of the events behind them",
                data.1, data.0
            ),
            "the end of the file",
        ));
    };
    if data.1 == 0 {
        return Err(Bad::new(
            48,
            "the size of the records",
            "0, as perf record leaves it if it is ended by force",
        ));
    }
    if !ATTR_BYTES.contains(&attr_size) {
        let expected = format!(
            "{} to {} bytes an event",
            ATTR_BYTES.start(),
            ATTR_BYTES.end()
        );
        return Err(Bad::new(16, expected, attr_size.to_string()));
    }
    let mut checked = Checked::new(endian);
    checked.attrs = section(source, attrs.0, attrs.1, length)?;
    // At least 64.
    for attr in checked.attrs.chunks_mut(attr_size as usize) {
        straighten_flags(attr, endian);
    }
    checked.attr_size = attr_size;

    let mut tracing_data = None;
    let mut cut = false;
    let mut table = data_end;
    for feature in (0..256).filter(|bit| word(72 + bit / 64 * 8) >> (bit % 64) & 1 == 1) {
        let Ok(entry) = section(source, table, 16, length) else {
            cut = true;
            break;
        };
        table += 16;
        let place = |at| endian.unsigned_at::<8>(&entry, at).unwrap_or(0);
        let feature = Feature(feature as u32);
        let wanted = feature == Feature::TRACING_DATA || FEATURES.contains(&feature);
        if !wanted {
            continue;
        }
        match section(source, place(0), place(8), length) {
            Ok(bytes) if feature == Feature::TRACING_DATA => tracing_data = Some(bytes),
            Ok(bytes) => checked.add_feature(feature, bytes)?,
            Err(bad) if bad.offset >= length => cut = true,
            Err(bad) => return Err(bad),
        }
    }
    if cut
        && (tracing_data.is_none()
            || checked
                .features
                .iter()
                .all(|(f, _)| *f != Feature::EVENT_DESC))
    {
        return Err(Bad::new(
            length,
            "descriptions of the events",
            "the end of the file",
        ));
    }
    Ok(File {
        container: checked.into_file_container()?,
        tracing_data,
        data,
        cut,
    })
}

/// Bytes at a place of the file, if it is that long and the length plausible. An error past the end has an offset there.
fn section(
    source: &mut (impl Read + Seek),
    offset: u64,
    size: u64,
    length: u64,
) -> Result<Vec<u8>, Bad> {
    let end = offset.saturating_add(size);
    if end > length {
        let expected = format!("a section of {size} bytes from byte {offset} on");
        return Err(Bad::new(length, expected, "the end of the file"));
    }
    if size > TRACING_DATA_MAX {
        let expected = format!("a section of at most {TRACING_DATA_MAX} bytes");
        return Err(Bad::new(offset, expected, size.to_string()));
    }
    let mut bytes = Vec::new();
    let read = source
        .seek(SeekFrom::Start(offset))
        .and_then(|_| source.take(size).read_to_end(&mut bytes));
    match read {
        Ok(got) if got as u64 == size => Ok(bytes),
        Ok(_) => Err(Bad::new(
            length,
            "more of the file",
            "its end, earlier than before",
        )),
        Err(error) => Err(Bad::io(offset, &error)),
    }
}

/// Sections whose inner lengths are known to fit.
pub(super) struct Checked {
    endian: Endian,
    attrs: Vec<u8>,
    attr_size: u64,
    /// HEADER_ATTR records of a pipe.
    attr_records: Vec<Vec<u8>>,
    features: Vec<(Feature, Vec<u8>)>,
    /// `read_format` of each event.
    read_formats: Vec<u64>,
    bytes: u64,
}

impl Checked {
    pub(super) fn new(endian: Endian) -> Self {
        Self {
            endian,
            attrs: Vec::new(),
            attr_size: 0,
            attr_records: Vec::new(),
            features: Vec::new(),
            read_formats: Vec::new(),
            bytes: 0,
        }
    }

    pub(super) fn endian(&self) -> Endian {
        self.endian
    }

    fn count(&mut self, bytes: usize) -> Result<(), Bad> {
        self.bytes += bytes as u64;
        if self.bytes > METADATA_MAX {
            let expected = format!("at most {METADATA_MAX} bytes of event descriptions");
            return Err(Bad::new(0, expected, self.bytes.to_string()));
        }
        Ok(())
    }

    /// Takes a HEADER_ATTR record of a pipe.
    pub(super) fn add_attr_record(&mut self, body: &[u8]) -> Result<(), Bad> {
        self.count(body.len())?;
        self.read_formats.push(
            self.endian
                .unsigned_at::<8>(body, ATTR_READ_FORMAT)
                .unwrap_or(0),
        );
        let mut body = body.to_vec();
        straighten_flags(&mut body, self.endian);
        self.attr_records.push(body);
        Ok(())
    }

    /// Takes a HEADER_FEATURE record of a pipe, if it is of use.
    pub(super) fn add_feature_record(&mut self, body: &[u8]) -> Result<(), Bad> {
        let number = self.endian.unsigned_at::<8>(body, 0).unwrap_or(u64::MAX);
        match FEATURES
            .iter()
            .find(|feature| u64::from(feature.0) == number)
        {
            // Its attributes came in records of their own.
            Some(&Feature::EVENT_DESC) | None => Ok(()),
            Some(&feature) => self.add_feature(feature, body.get(8..).unwrap_or_default().to_vec()),
        }
    }

    fn add_feature(&mut self, feature: Feature, mut bytes: Vec<u8>) -> Result<(), Bad> {
        self.count(bytes.len())?;
        if feature == Feature::EVENT_DESC {
            self.read_formats = check_event_desc(&mut bytes, self.endian)
                .ok_or_else(|| Bad::new(0, "a list of events", "one that contradicts itself"))?;
        }
        self.features.push((feature, bytes));
        Ok(())
    }

    /// Lets the library read the sections of a file, from a copy that has nothing else.
    fn into_file_container(self) -> Result<Container, Bad> {
        let mut file = Vec::new();
        let word = |value: u64| match self.endian {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        };
        let table = FILE_HEADER + self.attrs.len();
        let mut bits = [0u64; 4];
        for (feature, _) in &self.features {
            if let Some(bits) = bits.get_mut(feature.0 as usize / 64) {
                *bits |= 1 << (feature.0 % 64);
            }
        }
        file.extend_from_slice(magic(self.endian));
        let header = [
            FILE_HEADER as u64,
            self.attr_size,
            FILE_HEADER as u64,
            self.attrs.len() as u64,
            table as u64,
            0,
            0,
            0,
        ];
        for value in header.into_iter().chain(bits) {
            file.extend_from_slice(&word(value));
        }
        file.extend_from_slice(&self.attrs);
        let mut at = table + 16 * self.features.len();
        for (_, bytes) in &self.features {
            file.extend_from_slice(&word(at as u64));
            file.extend_from_slice(&word(bytes.len() as u64));
            at += bytes.len();
        }
        for (_, bytes) in &self.features {
            file.extend_from_slice(bytes);
        }
        let parsed =
            PerfFileReader::parse_file(Cursor::new(file)).map_err(|error| Bad::library(&error))?;
        Ok(container(
            &parsed.perf_file,
            self.endian,
            &self.read_formats,
        ))
    }

    /// Lets the library read the records of a pipe that describe the events.
    pub(super) fn into_pipe_container(self) -> Result<Container, Bad> {
        let mut pipe = magic(self.endian).to_vec();
        match self.endian {
            Endian::Little => pipe.extend_from_slice(&(PIPE_HEADER as u64).to_le_bytes()),
            Endian::Big => pipe.extend_from_slice(&(PIPE_HEADER as u64).to_be_bytes()),
        }
        let mut record = |kind: u32, number: Option<u64>, body: &[u8]| {
            // Each came out of a record with a 16-bit size.
            let size = 8 + body.len() + if number.is_some() { 8 } else { 0 };
            let size = u16::try_from(size).unwrap_or(u16::MAX);
            match self.endian {
                Endian::Little => {
                    pipe.extend_from_slice(&kind.to_le_bytes());
                    pipe.extend_from_slice(&[0, 0]);
                    pipe.extend_from_slice(&size.to_le_bytes());
                    pipe.extend(number.iter().flat_map(|n| n.to_le_bytes()));
                }
                Endian::Big => {
                    pipe.extend_from_slice(&kind.to_be_bytes());
                    pipe.extend_from_slice(&[0, 0]);
                    pipe.extend_from_slice(&size.to_be_bytes());
                    pipe.extend(number.iter().flat_map(|n| n.to_be_bytes()));
                }
            }
            pipe.extend_from_slice(body);
        };
        for body in &self.attr_records {
            record(super::records::HEADER_ATTR, None, body);
        }
        for (feature, body) in &self.features {
            record(super::records::HEADER_FEATURE, Some(feature.0.into()), body);
        }
        let parsed =
            PerfFileReader::parse_pipe(Cursor::new(pipe)).map_err(|error| Bad::library(&error))?;
        Ok(container(
            &parsed.perf_file,
            self.endian,
            &self.read_formats,
        ))
    }
}

fn magic(endian: Endian) -> &'static [u8; 8] {
    match endian {
        Endian::Little => b"PERFILE2",
        Endian::Big => b"2ELIFREP",
    }
}

/// Puts the flags of an event's attributes where the library looks for them.
///
/// They are bit fields, which a big-endian compiler fills from the most significant bit on: the first flag is the highest bit of the
/// first byte. The library reads a number and takes its lowest bit.
fn straighten_flags(attr: &mut [u8], endian: Endian) {
    if let (Endian::Big, Some(flags)) = (endian, attr.get_mut(ATTR_FLAGS)) {
        flags.reverse();
        for byte in flags {
            *byte = byte.reverse_bits();
        }
    }
}

/// Checks every length of the EVENT_DESC section against the bytes that are there, and straightens the flags; gives the events'
/// `read_format`.
fn check_event_desc(bytes: &mut [u8], endian: Endian) -> Option<Vec<u64>> {
    let number = |bytes: &[u8], at: usize| endian.unsigned_at::<4>(bytes, at).map(|n| n as usize);
    let (events, attr_size) = (number(bytes, 0)?, number(bytes, 4)?);
    if !ATTR_BYTES.contains(&(attr_size as u64)) {
        return None;
    }
    let mut at = 8usize;
    // An event takes at least its attributes and two lengths.
    if events > bytes.len() / (attr_size + 8) {
        return None;
    }
    let mut read_formats = Vec::new();
    for _ in 0..events {
        read_formats.push(endian.unsigned_at::<8>(bytes, at + ATTR_READ_FORMAT)?);
        straighten_flags(bytes.get_mut(at..at + attr_size)?, endian);
        at += attr_size;
        let ids = number(bytes, at)?;
        let name = number(bytes, at + 4)?;
        at = at
            .checked_add(8)?
            .checked_add(name)?
            .checked_add(ids.checked_mul(8)?)?;
        if at > bytes.len() {
            return None;
        }
    }
    Some(read_formats)
}

fn container(file: &PerfFile, endian: Endian, read_formats: &[u64]) -> Container {
    let attributes = file.event_attributes();
    let events = attributes.iter().enumerate();
    let events = events.map(|(index, description)| Recorded {
        tracepoint: match description.attr.type_ {
            PerfEventType::Tracepoint(id) => u32::try_from(id).ok(),
            _ => None,
        },
        name: description.name.clone(),
        layout: Layout::new(
            &description.attr,
            read_formats.get(index).copied().unwrap_or(0),
        ),
    });
    Container {
        endian,
        events: events.collect(),
        ids: Ids::new(attributes),
        kernel: file.os_release().ok().flatten().map(str::to_owned),
        cpus: file.nr_cpus().ok().flatten().map(|n| n.nr_cpus_online),
    }
}

/// Which event a sample belongs to. Ids are handed out one after the other, mostly, so most are in a table.
#[derive(Debug, Default)]
pub(super) struct Ids {
    first: u64,
    /// Index of the event, [`Ids::NONE`] where there is none.
    table: Vec<u16>,
    others: HashMap<u64, u16>,
    /// There is one event and it has no id.
    only_one: bool,
}

impl Ids {
    const NONE: u16 = u16::MAX;
    const TABLE_MAX: u64 = 1 << 16;

    fn new(attributes: &[AttributeDescription]) -> Self {
        let pairs = || {
            let events = attributes.iter().zip(0..Self::NONE);
            events.flat_map(|(event, index)| event.event_ids.iter().map(move |&id| (id, index)))
        };
        let first = pairs().map(|(id, _)| id).min().unwrap_or(0);
        let mut out = Self {
            first,
            only_one: attributes.len() == 1,
            ..Self::default()
        };
        for (id, index) in pairs() {
            let at = id - first;
            if at < Self::TABLE_MAX {
                let at = at as usize;
                if at >= out.table.len() {
                    out.table.resize(at + 1, Self::NONE);
                }
                if let Some(slot) = out.table.get_mut(at) {
                    *slot = index;
                }
            } else {
                out.others.insert(id, index);
            }
        }
        out
    }

    /// The index of the event with an id; of the only one without.
    pub(super) fn find(&self, id: Option<u64>) -> Option<u16> {
        let Some(id) = id else {
            return self.only_one.then_some(0);
        };
        let at = usize::try_from(id.wrapping_sub(self.first)).unwrap_or(usize::MAX);
        match self.table.get(at) {
            Some(&index) => (index != Self::NONE).then_some(index),
            None => self.others.get(&id).copied(),
        }
    }
}
