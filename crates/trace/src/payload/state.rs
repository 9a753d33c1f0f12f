//! `prev_state` as a number: which bit means what has moved over the kernel versions, but `print fmt` says it.
//!
//! Instead of picking the table out of the print format, the table is asked: a payload with nothing but the state in it is
//! printed, and the text is read by the reader of ftrace text. So both have one meaning for `R+`, `K`, `P` and the rest.

use schedlab_tracefmt::print::Printed;
use schedlab_tracefmt::{Endian, EventFormat, Field, Printer};

use crate::{PrevState, StateMapping, ftrace};

/// States below this are looked up, which is all that 4.14 and later kernels have (0x1ff) and older ones up to 0x7ff.
const TABLE: usize = 0x800;

/// The meaning of numbers in one kernel's `sched_switch`.
pub(super) struct StateTable {
    printer: Printer,
    offset: usize,
    size: usize,
}

/// States seen so far, for all descriptions of `sched_switch` in a source (there is one).
#[derive(Default)]
pub(super) struct States {
    known: Vec<Option<PrevState>>,
    by_format: bool,
    as_bits: bool,
}

impl States {
    pub(super) fn mappings(&self) -> impl Iterator<Item = StateMapping> {
        [
            (self.by_format, StateMapping::FormatTable),
            (self.as_bits, StateMapping::Bits),
        ]
        .into_iter()
        .filter_map(|(seen, mapping)| seen.then_some(mapping))
    }
}

impl StateTable {
    pub(super) fn new(format: &EventFormat, prev_state: &Field) -> Self {
        Self {
            printer: Printer::new(format),
            offset: prev_state.offset() as usize,
            size: prev_state.size() as usize,
        }
    }

    /// What a number means.
    #[inline]
    pub(super) fn state(&self, value: i64, endian: Endian, seen: &mut States) -> PrevState {
        let index = usize::try_from(value).ok().filter(|&index| index < TABLE);
        let known = index.and_then(|index| seen.known.get(index).copied().flatten());
        known.unwrap_or_else(|| {
            let state = self.ask(value, endian, seen);
            if let Some(index) = index {
                seen.known.resize(TABLE, None);
                if let Some(entry) = seen.known.get_mut(index) {
                    *entry = Some(state);
                }
            }
            state
        })
    }

    fn ask(&self, value: i64, endian: Endian, seen: &mut States) -> PrevState {
        match self.by_format(value, endian) {
            Some((state, StateMapping::Bits)) => {
                seen.as_bits = true;
                state
            }
            Some((state, _)) => {
                seen.by_format = true;
                state
            }
            None => {
                seen.as_bits = true;
                bits(value)
            }
        }
    }

    fn by_format(&self, value: i64, endian: Endian) -> Option<(PrevState, StateMapping)> {
        /// Longer payloads of `sched_switch` do not exist; the largest is 68 bytes.
        const PAYLOAD_MAX: usize = 4096;
        if self.offset > PAYLOAD_MAX || !(1..=8).contains(&self.size) {
            return None;
        }
        let mut payload = vec![0; PAYLOAD_MAX + 8];
        let bytes = payload.get_mut(self.offset..self.offset + self.size)?;
        match endian {
            Endian::Little => bytes.copy_from_slice(value.to_le_bytes().get(..self.size)?),
            Endian::Big => bytes.copy_from_slice(value.to_be_bytes().get(8 - self.size..)?),
        }
        let (text, how) = self.printer.print_with_status(&payload, endian);
        if how != Printed::AsKernel {
            return None;
        }
        ftrace::switch_state(text.as_bytes())
    }
}

/// Numbers without a table, as the reader of ftrace text takes them: the low byte as it is, any higher bit means preempted.
fn bits(value: i64) -> PrevState {
    let low = u32::try_from(value & 0xff).unwrap_or(0);
    PrevState(if value & !0xff != 0 {
        low | PrevState::PREEMPTED.0
    } else {
        low
    })
}
