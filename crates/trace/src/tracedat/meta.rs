//! What a `trace.dat` file says of itself; the parts that versions 6 and 7 share.

use std::collections::HashMap;
use std::io::{Read, Seek};

use schedlab_tracefmt::ring::{PageLayout, check_header_event};
use schedlab_tracefmt::{Endian, FORMAT_BYTES_MAX};

use super::input::Input;
use crate::payload::PayloadDecoder;
use crate::read::Tally;
use crate::ring::facts::{comms, remark_counters, selected_clock, stats_value};
use crate::ring::{CPU_LIMIT, Clock};
use crate::{Comm, Pid, ReadError};

/// Largest `header_page` and `header_event` texts.
const HEADER_TEXT_MAX: u64 = 64 * 1024;

/// How data is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Packing {
    None,
    Zlib,
    Zstd,
}

/// Trace data of one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CpuData {
    pub(super) cpu: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// One trace instance.
#[derive(Debug)]
pub(super) struct Buffer {
    /// Empty: the top instance.
    pub(super) name: String,
    pub(super) clock: Option<String>,
    /// Size of its pages, if it is told apart from that of all.
    pub(super) page_size: Option<u32>,
    pub(super) packed: bool,
    pub(super) cpus: Vec<CpuData>,
}

/// ASCII text of the tracer in place of pages ("latency" files).
#[derive(Clone, Copy, Debug)]
pub(super) struct TextData {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) packed: bool,
}

/// Everything before the data.
pub(super) struct Meta {
    pub(super) endian: Endian,
    pub(super) packing: Packing,
    pub(super) layout: Option<PageLayout>,
    pub(super) decoder: PayloadDecoder,
    pub(super) comms: HashMap<Pid, Comm>,
    pub(super) clock: Clock,
    pub(super) buffers: Vec<Buffer>,
    pub(super) text: Option<TextData>,
    pub(super) tally: Tally,
}

impl Meta {
    pub(super) fn new(endian: Endian, packing: Packing) -> Self {
        Self {
            endian,
            packing,
            layout: None,
            decoder: PayloadDecoder::new(endian, 8),
            comms: HashMap::new(),
            clock: Clock::default(),
            buffers: Vec::new(),
            text: None,
            tally: Tally::default(),
        }
    }

    /// `header_page` and `header_event`.
    pub(super) fn header_info<R: Read + Seek>(
        &mut self,
        input: &mut Input<R>,
    ) -> Result<(), ReadError> {
        input.expect(b"header_page\0", "\"header_page\"")?;
        let start = input.position();
        let page = header_text(input, "header_page")?;
        let event_start = input.position();
        input.expect(b"header_event\0", "\"header_event\"")?;
        let event = header_text(input, "header_event")?;
        let broken = |offset, error: String| {
            ReadError::unusable(
                &input.file,
                offset,
                "a description of ring-buffer pages",
                &error,
            )
        };
        let layout = PageLayout::parse(&page).map_err(|e| broken(start, e.to_string()))?;
        check_header_event(&event).map_err(|e| broken(event_start, e.to_string()))?;
        self.decoder.set_long_size(layout.long_size());
        self.layout = Some(layout);
        Ok(())
    }

    /// Formats of the tracers' own events.
    pub(super) fn ftrace_formats<R: Read + Seek>(
        &mut self,
        input: &mut Input<R>,
    ) -> Result<(), ReadError> {
        for _ in 0..input.u32("the number of ftrace formats")? {
            self.format(input)?;
        }
        Ok(())
    }

    /// Formats of all other events, by system.
    pub(super) fn event_formats<R: Read + Seek>(
        &mut self,
        input: &mut Input<R>,
    ) -> Result<(), ReadError> {
        for _ in 0..input.u32("the number of event systems")? {
            input.string("the name of an event system")?;
            for _ in 0..input.u32("the number of events of a system")? {
                self.format(input)?;
            }
        }
        Ok(())
    }

    fn format<R: Read + Seek>(&mut self, input: &mut Input<R>) -> Result<(), ReadError> {
        let start = input.position();
        let size = input.u64("the size of an event format")?;
        if size > FORMAT_BYTES_MAX as u64 {
            let expected = format!("an event format of at most {FORMAT_BYTES_MAX} bytes");
            return Err(input.damaged(&expected, &format!("a size of {size}")));
        }
        let text = input.bytes(size, "an event format")?;
        if let Err(error) = self.decoder.add_format(&text) {
            self.tally.remark(format!(
                "the event format at byte {start} is not usable: {error}"
            ));
        }
        Ok(())
    }

    /// `saved_cmdlines`: a pid and a name in each line.
    pub(super) fn cmdlines<R: Read + Seek>(
        &mut self,
        input: &mut Input<R>,
    ) -> Result<(), ReadError> {
        let size = input.u64("the size of the saved command lines")?;
        let text = input.bytes(size, "saved command lines")?;
        self.comms = comms(&text);
        Ok(())
    }

    /// One option; `v7` has more of them.
    pub(super) fn option(&mut self, id: u16, data: &[u8]) {
        let text = || {
            let text = String::from_utf8_lossy(data);
            text.trim_matches(|c: char| c == '\0' || c.is_whitespace())
                .to_owned()
        };
        match id {
            2 => {
                let text = text();
                if let Some(cpu) = stats_value(&text, "CPU") {
                    remark_counters(&mut self.tally, cpu, &text);
                }
            }
            4 => self.tally.plain.clock = selected_clock(&text()),
            // `Linux host 6.18.44 x86_64`.
            5 => {
                self.tally.plain.kernel_release =
                    text().split_whitespace().nth(2).map(str::to_owned);
            }
            7 => match text().parse() {
                Ok(offset) => {
                    self.clock.offset = offset;
                    self.tally
                        .remark(format!("the file asks to add {offset} ns to all times: done"));
                }
                Err(_) => self
                    .tally
                    .remark(format!("the file's time offset is no number: {}", text())),
            },
            8 => {
                self.tally.plain.cpus_declared = self
                    .endian
                    .unsigned(data)
                    .and_then(|n| u32::try_from(n).ok());
            }
            12 => self.tally.remark(
                "the file has a time shift against another machine (TIME_SHIFT), which is not applied",
            ),
            14 => {
                let number = |range| self.endian.unsigned(data.get(range)?);
                let narrow = |range| u32::try_from(number(range)?).ok();
                if let (Some(mult), Some(shift), Some(offset)) =
                    (narrow(0..4), narrow(4..8), number(8..16))
                    && mult > 0
                {
                    self.clock.tsc = Some((mult, shift, offset));
                    self.tally.remark(
                        "times are counts of a time stamp counter, turned into nanoseconds by the file's factors",
                    );
                }
            }
            _ => {}
        }
    }

    /// A CPU of a buffer; one without data counts as empty.
    pub(super) fn add_cpu(&mut self, cpus: &mut Vec<CpuData>, cpu: u32, offset: u64, size: u64) {
        if cpu >= CPU_LIMIT {
            self.tally.remark(format!(
                "CPU number {cpu} is out of range; its data is not read"
            ));
        } else if size == 0 {
            self.tally.empty_cpu(cpu);
        } else {
            cpus.push(CpuData { cpu, offset, size });
        }
    }
}

fn header_text<R: Read + Seek>(input: &mut Input<R>, what: &str) -> Result<String, ReadError> {
    let size = input.u64(&format!("the size of {what}"))?;
    if size > HEADER_TEXT_MAX {
        let expected = format!("a {what} of at most {HEADER_TEXT_MAX} bytes");
        return Err(input.damaged(&expected, &format!("a size of {size}")));
    }
    let text = input.bytes(size, what)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
