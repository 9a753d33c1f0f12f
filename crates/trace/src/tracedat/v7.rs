//! Version 7: sections with a header each, found through options (trace-cmd.dat.v7(5)).

use std::collections::BTreeSet;
use std::io::{Cursor, Read, Seek};

use super::input::Input;
use super::meta::{Buffer, Meta, Packing, TextData};
use super::packed::unpack_section;
use crate::ReadError;

/// How many sections of options a file may have.
const OPTION_SECTIONS_MAX: usize = 4096;

/// Numbers of options, which are also those of the sections.
const BUFFER: u16 = 3;
const HEADER_INFO: u16 = 16;
const FTRACE_EVENTS: u16 = 17;
const EVENT_FORMATS: u16 = 18;
const CMDLINES: u16 = 21;
const BUFFER_TEXT: u16 = 22;

/// Name of the compression, behind the page size.
pub(super) fn packing<R: Read + Seek>(input: &mut Input<R>) -> Result<Packing, ReadError> {
    let start = input.position();
    let name = input.string("the name of the compression")?;
    input.string("the version of the compression")?;
    Ok(match name.as_str() {
        "none" => Packing::None,
        "zlib" => Packing::Zlib,
        "zstd" => Packing::Zstd,
        other => {
            let found = format!("\"{}\"", other.escape_default());
            let expected = "compression none, zlib or zstd";
            return Err(ReadError::unusable(&input.file, start, expected, &found));
        }
    })
}

/// Reads all that is not data.
pub(super) fn read<R: Read + Seek>(input: &mut Input<R>, meta: &mut Meta) -> Result<(), ReadError> {
    let mut next = input.u64("the place of the options")?;
    let mut seen = BTreeSet::new();
    let mut sections = Vec::new();
    let mut buffers = Vec::new();
    while next != 0 {
        if !seen.insert(next) || seen.len() > OPTION_SECTIONS_MAX {
            input.seek(next.min(input.len))?;
            return Err(input.damaged("a last section of options", "one that was there before"));
        }
        next = options(input, meta, next, &mut sections, &mut buffers)?;
    }
    // The header tells the size of `long`, which formats need.
    sections.sort_by_key(|&(id, _)| id);
    for (id, offset) in sections {
        section(input, meta, id, offset)?;
    }
    for (id, data) in buffers {
        let (place, buffer) = buffer(meta, input, &data, id == BUFFER_TEXT)?;
        input.seek(place)?;
        let head = section_head(input)?;
        if id == BUFFER_TEXT {
            meta.text = Some(TextData {
                offset: input.position(),
                size: head.size,
                packed: head.packed,
            });
        } else {
            meta.buffers.push(Buffer {
                packed: head.packed,
                ..buffer
            });
        }
    }
    Ok(())
}

struct Head {
    id: u16,
    packed: bool,
    size: u64,
}

fn section_head<R: Read + Seek>(input: &mut Input<R>) -> Result<Head, ReadError> {
    let id = input.u16("the number of a section")?;
    let flags = input.u16("the flags of a section")?;
    input.u32("the description of a section")?;
    let size = input.u64("the size of a section")?;
    Ok(Head {
        id,
        packed: flags & 1 != 0,
        size,
    })
}

/// The content of a small section, unpacked.
fn content<R: Read + Seek>(
    input: &mut Input<R>,
    meta: &Meta,
    offset: u64,
    id: u16,
) -> Result<Input<Cursor<Vec<u8>>>, ReadError> {
    input.seek(offset)?;
    let head = section_head(input)?;
    if head.id != id {
        input.seek(offset)?;
        return Err(input.damaged(&format!("section {id}"), &format!("section {}", head.id)));
    }
    let bytes = if head.packed {
        unpack_section(input, meta.packing)?
    } else {
        input.bytes(head.size, "a section")?
    };
    let mut content = Input::new(Cursor::new(bytes), &input.file)?;
    content.endian = input.endian;
    Ok(content)
}

/// One section of options; gives the place of the next one.
fn options<R: Read + Seek>(
    input: &mut Input<R>,
    meta: &mut Meta,
    offset: u64,
    sections: &mut Vec<(u16, u64)>,
    buffers: &mut Vec<(u16, Vec<u8>)>,
) -> Result<u64, ReadError> {
    let mut content = content(input, meta, offset, 0)?;
    loop {
        let id = content.u16("the number of an option")?;
        let size = content.u32("the size of an option")?;
        let data = content.bytes(size.into(), "an option")?;
        let place = data
            .get(..8)
            .and_then(|bytes| content.endian.unsigned(bytes));
        match (id, place) {
            (0, Some(next)) => return Ok(next),
            (0, None) => return Ok(0),
            (HEADER_INFO | FTRACE_EVENTS | EVENT_FORMATS | CMDLINES, Some(place)) => {
                sections.push((id, place));
            }
            (BUFFER | BUFFER_TEXT, Some(_)) => buffers.push((id, data)),
            _ => meta.option(id, &data),
        }
    }
}

fn section<R: Read + Seek>(
    input: &mut Input<R>,
    meta: &mut Meta,
    id: u16,
    offset: u64,
) -> Result<(), ReadError> {
    let mut content = content(input, meta, offset, id)?;
    match id {
        HEADER_INFO => meta.header_info(&mut content),
        FTRACE_EVENTS => meta.ftrace_formats(&mut content),
        EVENT_FORMATS => meta.event_formats(&mut content),
        _ => meta.cmdlines(&mut content),
    }
}

/// A BUFFER option: place of the section, name, clock, then page size (not in early files) and the CPUs.
fn buffer<R: Read + Seek>(
    meta: &mut Meta,
    input: &Input<R>,
    data: &[u8],
    is_text: bool,
) -> Result<(u64, Buffer), ReadError> {
    let mut option = Input::new(Cursor::new(data), &input.file)?;
    option.endian = input.endian;
    let place = option.u64("the place of a buffer")?;
    let name = option.string("the name of a buffer")?;
    let clock = Some(option.string("the clock of a buffer")?).filter(|clock| !clock.is_empty());
    let mut buffer = Buffer {
        name,
        clock,
        page_size: None,
        packed: false,
        cpus: Vec::new(),
    };
    if is_text {
        return Ok((place, buffer));
    }
    let left = option.len - option.position();
    let mut count = option.u32("the CPUs of a buffer")?;
    if left != 4 + 20 * u64::from(count) {
        buffer.page_size = Some(count);
        count = option.u32("the number of CPUs of a buffer")?;
    }
    for _ in 0..count {
        let cpu = option.u32("the number of a CPU")?;
        let offset = option.u64("the place of a CPU's data")?;
        let size = option.u64("the size of a CPU's data")?;
        meta.add_cpu(&mut buffer.cpus, cpu, offset, size);
    }
    Ok((place, buffer))
}
