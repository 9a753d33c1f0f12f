//! One `FtraceEventBundle`: events of one CPU, in order of time, given out one by one.

use super::event::{Decoder, comm, common_flags, prev_state};
use super::schema as field;
use super::wire::{Fields, Malformed, Value, repeated};
use crate::{Comm, CpuFlags, Event, Pid, PrevState, UnparsedReason};

/// First CPU number that is refused; Linux builds stop at 8192.
const CPU_LIMIT: u64 = 65536;

/// An event as the bundle holds it.
#[derive(Debug)]
pub(super) enum Item {
    /// Complete in itself.
    Whole(Event),
    /// A switch of the compact encoding, which does not say who leaves.
    Switch {
        prev_state: PrevState,
        next: (Comm, Pid, i32),
    },
    /// A waking of the compact encoding, which does not say who wakes.
    Waking {
        task: (Comm, Pid, i32),
        target_cpu: u32,
        flags: Option<CpuFlags>,
    },
}

/// What a bundle says besides its events.
#[derive(Default, Debug)]
pub(super) struct Head {
    pub(super) cpu: u32,
    pub(super) lost_events: bool,
    /// `FtraceClock`.
    pub(super) clock: u64,
    /// Parts of the ring buffer that the recorder could not read.
    pub(super) errors: u64,
}

/// A bundle being given out. Holds the bundle's bytes; events are decoded when they are asked for.
pub(super) struct Bundle {
    pub(super) head: Head,
    bytes: Vec<u8>,
    /// Where in `bytes` to go on looking for events.
    at: usize,
    compact: Compact,
    /// The next event that is no compact one, and its time.
    whole: Option<(u64, Event)>,
    /// Events that could not be read since the last call of `next`.
    pub(super) bad: Vec<UnparsedReason>,
}

impl Bundle {
    /// Looks through a bundle. Types that it describes go to the decoder.
    pub(super) fn new(bytes: Vec<u8>, decoder: &mut Decoder) -> Result<Self, UnparsedReason> {
        let mut head = Head::default();
        let mut compact = Compact::default();
        let mut bad = Vec::new();
        for item in Fields::new(&bytes) {
            match item.map_err(|Malformed(what)| UnparsedReason::Damaged(what))? {
                (field::BUNDLE_CPU, value) => {
                    let cpu = value.number().filter(|&cpu| cpu < CPU_LIMIT);
                    let cpu = cpu.and_then(|cpu| u32::try_from(cpu).ok());
                    head.cpu = cpu.ok_or(UnparsedReason::CpuRange)?;
                }
                (field::BUNDLE_LOST_EVENTS, value) => head.lost_events = value.number() == Some(1),
                (field::BUNDLE_CLOCK, value) => head.clock = value.number().unwrap_or_default(),
                (field::BUNDLE_ERROR, _) => head.errors += 1,
                (field::BUNDLE_GENERIC_DESCRIPTOR, value) => {
                    if let Err(Malformed(what)) = decoder.types.describe(value.bytes()) {
                        bad.push(UnparsedReason::Damaged(what));
                    }
                }
                (field::BUNDLE_COMPACT_SCHED, value) => {
                    if let Err(Malformed(what)) = compact.read(value.bytes(), decoder) {
                        bad.push(UnparsedReason::Damaged(what));
                    }
                }
                _ => {}
            }
        }
        compact.check(&mut bad);
        let mut bundle = Self {
            head,
            bytes,
            at: 0,
            compact,
            whole: None,
            bad,
        };
        bundle.find_whole(decoder);
        Ok(bundle)
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.compact.size()
    }

    /// Time of the next event.
    pub(super) fn next_ts(&self) -> Option<u64> {
        let whole = self.whole.as_ref().map(|&(ts, _)| ts);
        [whole, self.compact.switches.ts, self.compact.wakings.ts]
            .into_iter()
            .flatten()
            .min()
    }

    /// The next event and its time; at the same time a waking comes before a switch.
    pub(super) fn next(&mut self, decoder: &mut Decoder) -> Option<(u64, Item)> {
        let ts = self.next_ts()?;
        if let Some((_, event)) = self.whole.take_if(|(at, _)| *at == ts) {
            self.find_whole(decoder);
            return Some((ts, Item::Whole(event)));
        }
        let compact = &mut self.compact;
        let item = if compact.wakings.ts == Some(ts) {
            compact.waking()
        } else {
            compact.switch(decoder.old_states)
        };
        Some((ts, item))
    }

    fn find_whole(&mut self, decoder: &mut Decoder) {
        loop {
            let mut fields = Fields::new(&self.bytes[self.at..]);
            // The bundle was looked through, so nothing in it is malformed.
            let Some(Ok((number, value))) = fields.next() else {
                return;
            };
            self.at = self.bytes.len() - fields.left();
            if let (field::BUNDLE_EVENT, Value::Bytes(message)) = (number, value) {
                match decoder.event(message, self.head.cpu) {
                    Ok(event) => {
                        self.whole = Some((event.ts, event));
                        return;
                    }
                    Err(reason) => self.bad.push(reason),
                }
            }
        }
    }
}

/// The structure of arrays that is `CompactSched`.
#[derive(Default)]
struct Compact {
    names: Vec<Comm>,
    switches: Series,
    prev_state: Vec<i64>,
    next_pid: Vec<i32>,
    next_prio: Vec<i32>,
    next_comm: Vec<u32>,
    wakings: Series,
    pid: Vec<i32>,
    prio: Vec<i32>,
    target_cpu: Vec<u32>,
    comm: Vec<u32>,
    flags: Vec<u32>,
}

/// Times of a series, each as the difference from the one before.
#[derive(Default)]
struct Series {
    deltas: Vec<u64>,
    index: usize,
    /// Time of the event at `index`.
    ts: Option<u64>,
}

impl Series {
    fn begin(&mut self, len: usize) {
        self.deltas.truncate(len);
        self.ts = self.deltas.first().copied();
    }

    /// Gives the present index and goes on.
    fn advance(&mut self) -> usize {
        let index = self.index;
        self.index += 1;
        self.ts = match (self.ts, self.deltas.get(self.index)) {
            (Some(ts), Some(&delta)) => Some(ts.saturating_add(delta)),
            _ => None,
        };
        index
    }
}

impl Compact {
    fn read(&mut self, message: &[u8], decoder: &mut Decoder) -> Result<(), Malformed> {
        // `as` keeps the low bits, as protobuf says for a number that is too wide for its field.
        for item in Fields::new(message) {
            let (number, value) = item?;
            match number {
                field::COMPACT_INTERN_TABLE => {
                    self.names.push(comm(value.bytes(), &mut decoder.names_cut));
                }
                field::COMPACT_SWITCH_TIMESTAMP => {
                    repeated(value, |n| self.switches.deltas.push(n))?;
                }
                field::COMPACT_SWITCH_PREV_STATE => {
                    repeated(value, |n| self.prev_state.push(n as i64))?;
                }
                field::COMPACT_SWITCH_NEXT_PID => {
                    repeated(value, |n| self.next_pid.push(n as i32))?;
                }
                field::COMPACT_SWITCH_NEXT_PRIO => {
                    repeated(value, |n| self.next_prio.push(n as i32))?;
                }
                field::COMPACT_SWITCH_NEXT_COMM => {
                    repeated(value, |n| self.next_comm.push(n as u32))?;
                }
                field::COMPACT_WAKING_TIMESTAMP => {
                    repeated(value, |n| self.wakings.deltas.push(n))?;
                }
                field::COMPACT_WAKING_PID => repeated(value, |n| self.pid.push(n as i32))?,
                field::COMPACT_WAKING_TARGET_CPU => {
                    repeated(value, |n| self.target_cpu.push(n as u32))?;
                }
                field::COMPACT_WAKING_PRIO => repeated(value, |n| self.prio.push(n as i32))?,
                field::COMPACT_WAKING_COMM => repeated(value, |n| self.comm.push(n as u32))?,
                field::COMPACT_WAKING_FLAGS => repeated(value, |n| self.flags.push(n as u32))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Cuts each series to what all its arrays have, and says if that lost something.
    fn check(&mut self, bad: &mut Vec<UnparsedReason>) {
        let switches = [
            self.switches.deltas.len(),
            self.prev_state.len(),
            self.next_pid.len(),
            self.next_prio.len(),
            self.next_comm.len(),
        ];
        let wakings = [
            self.wakings.deltas.len(),
            self.pid.len(),
            self.prio.len(),
            self.target_cpu.len(),
            self.comm.len(),
        ];
        for (series, lengths) in [(&mut self.switches, switches), (&mut self.wakings, wakings)] {
            let shortest = lengths.into_iter().min().unwrap_or_default();
            if lengths.iter().any(|&len| len != shortest) {
                bad.push(UnparsedReason::Damaged(
                    "compact_sched arrays of different lengths",
                ));
            }
            series.begin(shortest);
        }
        let beyond = |index: &u32| usize::try_from(*index).is_ok_and(|i| i >= self.names.len());
        if self.next_comm.iter().chain(&self.comm).any(beyond) {
            bad.push(UnparsedReason::Damaged(
                "compact_sched name index past the table",
            ));
        }
    }

    fn size(&self) -> usize {
        8 * (self.switches.deltas.len() + self.prev_state.len() + self.wakings.deltas.len())
            + 4 * (3 * self.next_pid.len() + 5 * self.pid.len())
            + 16 * self.names.len()
    }

    fn name(&self, index: u32) -> Comm {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        self.names.get(index).copied().unwrap_or_default()
    }

    fn switch(&mut self, old_states: bool) -> Item {
        let i = self.switches.advance();
        Item::Switch {
            prev_state: prev_state(self.prev_state[i], old_states),
            next: (
                self.name(self.next_comm[i]),
                self.next_pid[i],
                self.next_prio[i],
            ),
        }
    }

    fn waking(&mut self) -> Item {
        let i = self.wakings.advance();
        Item::Waking {
            task: (self.name(self.comm[i]), self.pid[i], self.prio[i]),
            target_cpu: self.target_cpu[i],
            // Left out by older recorders.
            flags: self.flags.get(i).map(|&flags| common_flags(flags.into())),
        }
    }
}
