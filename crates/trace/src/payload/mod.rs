//! Events from payload bytes, by the `format` descriptions that came with them.
//!
//! All binary sources have the same payloads (`trace.dat`, `perf.data`, raw ring-buffer pages): a [`PayloadDecoder`] is given
//! the descriptions once and then makes an [`EventKind`] of each payload. The events that the lab knows by meaning take a
//! short way without text; all others become [`EventKind::Other`] with the text that the kernel would print.
//!
//! ```
//! use schedlab_trace::{EventKind, payload::PayloadDecoder};
//! use schedlab_tracefmt::Endian;
//!
//! let mut decoder = PayloadDecoder::new(Endian::Little, 8);
//! let id = decoder.add_format(b"\
//! name: sched_wakeup
//! ID: 374
//! format:
//! \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
//! \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
//!
//! \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
//! \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
//! \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;
//! \tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;
//!
//! print fmt: \"comm=%s pid=%d prio=%d target_cpu=%03d\", REC->comm, REC->pid, REC->prio, REC->target_cpu
//! ").unwrap();
//! assert_eq!(id, 374);
//!
//! let mut payload = [0u8; 36];
//! payload[..2].copy_from_slice(&374u16.to_le_bytes());
//! payload[4] = 149;
//! payload[24] = 7;
//! let decoded = decoder.decode(&payload).unwrap();
//! assert_eq!(decoded.pid, 149);
//! assert!(matches!(decoded.kind, EventKind::SchedWakeup { task, target_cpu: 0 } if task.pid == 7));
//! ```

mod known;
mod state;

use std::collections::BTreeMap;

use schedlab_tracefmt::print::Printed;
use schedlab_tracefmt::{Endian, EventFormat, Field, FormatError, Printer};

use self::known::Known;
use crate::{CpuFlags, EventKind, Pid, ReadReport, UnparsedReason};

/// Numbers of events have 16 bits (`common_type`).
const ID_LIMIT: u32 = 0x1_0000;

/// What a payload says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// Task that was current (`common_pid`), 0 if the payload has no such field.
    pub pid: Pid,
    /// State of the CPU (`common_flags`, `common_preempt_count`).
    pub flags: CpuFlags,
    /// The event.
    pub kind: EventKind,
}

/// Decodes payloads by their format descriptions.
pub struct PayloadDecoder {
    endian: Endian,
    long_size: u8,
    /// By number.
    slots: Vec<Slot>,
    context: Context,
    broken: BTreeMap<u32, String>,
}

/// What decoding counts; told by [`PayloadDecoder::report`].
#[derive(Default)]
struct Context {
    names_cut: u64,
    /// Events printed otherwise than the kernel does: by name, with the reason.
    pairs: BTreeMap<String, (u64, String)>,
    addresses: BTreeMap<String, u64>,
    states: state::States,
}

/// Descriptions are compiled when their first event comes: a file has thousands and uses ten.
enum Slot {
    Empty,
    Text(Box<[u8]>),
    Ready(Box<Compiled>),
}

struct Compiled {
    pid: Option<Field>,
    flags: Option<Field>,
    preempt_count: Option<Field>,
    /// Of a known event.
    name: &'static str,
    meaning: Meaning,
}

enum Meaning {
    Known(Box<Known>),
    /// A known event whose description lacks fields.
    Strange,
    Other(String, Box<Printer>),
}

impl PayloadDecoder {
    /// A decoder for payloads in this byte order, of a kernel whose `long` has 4 or 8 bytes.
    #[must_use]
    pub fn new(endian: Endian, long_size: u8) -> Self {
        Self {
            endian,
            long_size,
            slots: Vec::new(),
            context: Context::default(),
            broken: BTreeMap::new(),
        }
    }

    /// Says how many bytes a `long` has, if that is known only later; counts for the formats that are compiled after it.
    pub fn set_long_size(&mut self, long_size: u8) {
        self.long_size = long_size;
    }

    /// Says the byte order, if that is known only later.
    pub fn set_endian(&mut self, endian: Endian) {
        self.endian = endian;
    }

    /// Whether a payload, read in this byte order, is of an event with a description. For sources that do not tell their order.
    #[must_use]
    pub fn has_format(&self, payload: &[u8], endian: Endian) -> bool {
        let id = payload.get(..2).and_then(|bytes| endian.unsigned(bytes));
        let slot = id.and_then(|id| self.slots.get(usize::try_from(id).ok()?));
        slot.is_some_and(|slot| !matches!(slot, Slot::Empty))
    }

    /// Takes the text of an event's `format` file and gives the event's number. A second text with the same number takes the
    /// place of the first.
    ///
    /// Only name and number are looked at here; the rest when the first such event comes.
    ///
    /// # Errors
    /// [`FormatError`] if there is no usable number.
    pub fn add_format(&mut self, text: &[u8]) -> Result<u32, FormatError> {
        let id = EventFormat::peek_id(text)?;
        if id >= ID_LIMIT {
            return Err(FormatError::Id(id));
        }
        let index = id as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || Slot::Empty);
        }
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Slot::Text(text.into());
        }
        Ok(id)
    }

    /// Number of the event in a payload: its first two bytes.
    #[must_use]
    pub fn event_id(&self, payload: &[u8]) -> Option<u32> {
        let id = self.endian.unsigned(payload.get(..2)?)?;
        u32::try_from(id).ok()
    }

    /// Makes an event of a payload, which starts with its number.
    ///
    /// # Errors
    /// [`UnparsedReason::NoFormat`] without a (usable) description, [`UnparsedReason::TruncatedRecord`] for a payload that is too
    /// short to hold a number, [`UnparsedReason::Fields`] for an event known by meaning whose fields are not all there.
    pub fn decode(&mut self, payload: &[u8]) -> Result<Decoded, UnparsedReason> {
        let id = self
            .event_id(payload)
            .ok_or(UnparsedReason::TruncatedRecord)?;
        self.decode_as(id, payload)
    }

    /// The same for a source that tells the event's number itself.
    ///
    /// # Errors
    /// As [`PayloadDecoder::decode`].
    pub fn decode_as(&mut self, id: u32, payload: &[u8]) -> Result<Decoded, UnparsedReason> {
        let slot = self
            .slots
            .get_mut(id as usize)
            .ok_or(UnparsedReason::NoFormat)?;
        if let Slot::Text(text) = slot {
            *slot = match EventFormat::parse_with(text, self.long_size) {
                Ok(format) => Slot::Ready(Box::new(Compiled::new(&format))),
                Err(error) => {
                    self.broken.insert(id, error.to_string());
                    Slot::Empty
                }
            };
        }
        let Slot::Ready(compiled) = slot else {
            return Err(UnparsedReason::NoFormat);
        };
        compiled.decode(payload, self.endian, &mut self.context)
    }

    /// Adds to a reader's account: how `prev_state` was read, names that were cut, events whose text is not the kernel's.
    pub(crate) fn report(&self, report: &mut ReadReport) {
        report.names_cut += self.context.names_cut;
        report.prev_state.extend(self.context.states.mappings());
        for (name, (count, why)) in &self.context.pairs {
            report.remark(format!(
                "{name}: fields of {count} events are shown as name=value pairs: {why}"
            ));
        }
        for (name, count) in &self.context.addresses {
            report.remark(format!(
                "{name}: fields of {count} events have addresses where the kernel prints names"
            ));
        }
        for (id, error) in &self.broken {
            report.remark(format!(
                "the format description of event {id} is not usable: {error}"
            ));
        }
    }
}

impl Compiled {
    fn new(format: &EventFormat) -> Self {
        let known = EventKind::KNOWN
            .iter()
            .find(|known| **known == format.name());
        let meaning = match known {
            None => Meaning::Other(format.name().to_owned(), Box::new(Printer::new(format))),
            Some(name) => match Known::new(name, format) {
                Some(known) => Meaning::Known(Box::new(known)),
                None => Meaning::Strange,
            },
        };
        Self {
            pid: format.field("common_pid").cloned(),
            flags: format.field("common_flags").cloned(),
            preempt_count: format.field("common_preempt_count").cloned(),
            name: known.unwrap_or(&"an event"),
            meaning,
        }
    }

    fn decode(
        &self,
        payload: &[u8],
        endian: Endian,
        context: &mut Context,
    ) -> Result<Decoded, UnparsedReason> {
        let read = |field: &Option<Field>| {
            let value = field.as_ref()?.read_int(payload, endian)?;
            i32::try_from(value).ok()
        };
        let kind = match &self.meaning {
            Meaning::Known(known) => known
                .decode(payload, endian, context)
                .ok_or(UnparsedReason::Fields(self.name))?,
            Meaning::Strange => return Err(UnparsedReason::Fields(self.name)),
            Meaning::Other(name, printer) => EventKind::Other {
                name: name.clone(),
                fields: print(name, printer, payload, endian, context),
            },
        };
        Ok(Decoded {
            pid: read(&self.pid).unwrap_or(0),
            flags: cpu_flags(
                read(&self.flags).unwrap_or(0),
                read(&self.preempt_count).unwrap_or(0),
            ),
            kind,
        })
    }
}

fn print(
    name: &str,
    printer: &Printer,
    payload: &[u8],
    endian: Endian,
    context: &mut Context,
) -> String {
    let (text, how) = printer.print_with_status(payload, endian);
    match how {
        Printed::AsKernel => {}
        Printed::Addresses => match context.addresses.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                context.addresses.insert(name.to_owned(), 1);
            }
        },
        Printed::Pairs => match context.pairs.get_mut(name) {
            Some((count, _)) => *count += 1,
            None => {
                let why = match printer.unsupported() {
                    Some(what) => format!("its print format has {what}"),
                    None => "the payload lacks what its print format asks for".to_owned(),
                };
                context.pairs.insert(name.to_owned(), (1, why));
            }
        },
    }
    text
}

/// Bits of `common_flags` (`enum trace_flag_type`, kernels 2.6.31 to 6.18). 0x02 was once "not supported"; kernels with
/// `NEED_RESCHED_LAZY` (6.13) use it for that, and no architecture with ftrace sets it otherwise.
fn cpu_flags(flags: i32, preempt_count: i32) -> CpuFlags {
    const IRQS_OFF: i32 = 0x01;
    const NEED_RESCHED_LAZY: i32 = 0x02;
    const NEED_RESCHED: i32 = 0x04;
    const HARDIRQ: i32 = 0x08;
    const SOFTIRQ: i32 = 0x10;
    const NMI: i32 = 0x40;
    const BH_OFF: i32 = 0x80;
    let any = |bits: i32| flags & bits != 0;
    CpuFlags {
        irqs_off: any(IRQS_OFF | BH_OFF),
        need_resched: any(NEED_RESCHED),
        need_resched_lazy: any(NEED_RESCHED_LAZY),
        hardirq: any(HARDIRQ | NMI),
        // The text of tracefs shows no soft interrupt below an NMI either.
        softirq: any(SOFTIRQ) && !any(NMI),
        // The upper half is the depth of disabled migration.
        preempt_depth: (preempt_count & 0xf).try_into().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
