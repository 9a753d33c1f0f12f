//! Version 6: one part behind the other (trace-cmd.dat.v6(5)).

use std::io::{Read, Seek};

use super::input::Input;
use super::meta::{Buffer, CpuData, Meta, TextData};
use crate::ReadError;
use crate::ring::facts::selected_clock;

/// Reads all that is before the data.
pub(super) fn read<R: Read + Seek>(input: &mut Input<R>, meta: &mut Meta) -> Result<(), ReadError> {
    meta.header_info(input)?;
    meta.ftrace_formats(input)?;
    meta.event_formats(input)?;
    let size = input.u32("the size of kallsyms")?;
    input.skip(size.into(), "kallsyms")?;
    let size = input.u32("the size of the printk formats")?;
    input.skip(size.into(), "printk formats")?;
    meta.cmdlines(input)?;
    let cpus = input.u32("the number of CPUs")?;
    meta.tally.plain.cpus_declared = Some(cpus);
    let mut instances = Vec::new();
    if let Kind::Options = kind(input)? {
        options(input, meta, &mut instances)?;
        top(input, meta, cpus)?;
    } else {
        input.seek(input.position() - 10)?;
        top(input, meta, cpus)?;
    }
    for (offset, name) in instances {
        input.seek(offset)?;
        let buffer = match kind(input)? {
            Kind::Flyrecord => records(input, meta, cpus, name)?,
            Kind::Options | Kind::Latency => {
                return Err(input.damaged("\"flyrecord\" of an instance", "another kind of data"));
            }
        };
        meta.buffers.push(buffer);
    }
    Ok(())
}

/// What comes next.
enum Kind {
    Options,
    Latency,
    Flyrecord,
}

fn kind<R: Read + Seek>(input: &mut Input<R>) -> Result<Kind, ReadError> {
    const WHAT: &str = "\"options\", \"latency\" or \"flyrecord\"";
    let text = input.bytes(10, WHAT)?;
    match &text[..] {
        b"options  \0" => Ok(Kind::Options),
        b"latency  \0" => Ok(Kind::Latency),
        b"flyrecord\0" => Ok(Kind::Flyrecord),
        other => Err(input.damaged(WHAT, &format!("\"{}\"", other.escape_ascii()))),
    }
}

fn options<R: Read + Seek>(
    input: &mut Input<R>,
    meta: &mut Meta,
    instances: &mut Vec<(u64, String)>,
) -> Result<(), ReadError> {
    loop {
        let id = input.u16("the number of an option")?;
        if id == 0 {
            return Ok(());
        }
        let size = input.u32("the size of an option")?;
        let data = input.bytes(size.into(), "an option")?;
        if id == 3 {
            if let Some((offset, name)) = data.split_at_checked(8) {
                let offset = meta.endian.unsigned(offset).unwrap_or(0);
                let name = name.split(|&b| b == 0).next().unwrap_or_default();
                instances.push((offset, String::from_utf8_lossy(name).into_owned()));
            }
        } else {
            meta.option(id, &data);
        }
    }
}

/// The top instance.
fn top<R: Read + Seek>(input: &mut Input<R>, meta: &mut Meta, cpus: u32) -> Result<(), ReadError> {
    match kind(input)? {
        Kind::Flyrecord => {
            let buffer = records(input, meta, cpus, String::new())?;
            meta.buffers.push(buffer);
        }
        Kind::Latency => {
            let offset = input.position();
            meta.text = Some(TextData {
                offset,
                size: input.len.saturating_sub(offset),
                packed: false,
            });
        }
        Kind::Options => {
            return Err(input.damaged("\"latency\" or \"flyrecord\"", "options once more"));
        }
    }
    Ok(())
}

/// Where the data of each CPU lies, then the clock.
fn records<R: Read + Seek>(
    input: &mut Input<R>,
    meta: &mut Meta,
    count: u32,
    name: String,
) -> Result<Buffer, ReadError> {
    let mut cpus: Vec<CpuData> = Vec::new();
    for cpu in 0..count {
        let offset = input.u64("the place of a CPU's data")?;
        let size = input.u64("the size of a CPU's data")?;
        meta.add_cpu(&mut cpus, cpu, offset, size);
    }
    // Older files do not have it: what follows then is padding or data, and no text in brackets.
    let clock = clock(input).ok().flatten();
    if meta.tally.plain.clock.is_none() {
        meta.tally.plain.clock.clone_from(&clock);
    }
    Ok(Buffer {
        name,
        clock,
        page_size: None,
        packed: false,
        cpus,
    })
}

fn clock<R: Read + Seek>(input: &mut Input<R>) -> Result<Option<String>, ReadError> {
    let size = input.u64("the size of the clock's name")?;
    if !(3..64).contains(&size) {
        return Ok(None);
    }
    let text = input.bytes(size, "the clock's name")?;
    let text = String::from_utf8_lossy(&text);
    Ok(text
        .starts_with('[')
        .then(|| selected_clock(&text))
        .flatten())
}
