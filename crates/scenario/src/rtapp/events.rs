//! Events: the steps of a thread.

use std::collections::BTreeSet;

use schedlab_fair::Ns;
use schedlab_sim::program::{Dur, Mode, Op, TimerId};

use super::global::Global;
use super::objects::Objects;
use super::{Field, Object};
use crate::error::{Error, Warning};
use crate::plan::{Names, Plan};

/// Events by name. A key is an event if it starts with one of these, whatever follows (`run1`, `sleep_b`); of two
/// that fit, the longer one counts.
pub(super) const EVENTS: [&str; 22] = [
    "lock", "unlock", "wait", "signal", "broad", "sync", "barrier", "sleep", "runtime", "run",
    "timer", "suspend", "resume", "memrun", "mem", "iorun", "yield", "fork", "sem_post",
    "sem_wait", "sem-post", "sem-wait",
];

/// The event that a key stands for.
pub(super) fn event_of(key: &str) -> Option<&'static str> {
    EVENTS
        .into_iter()
        .filter(|e| key.starts_with(e))
        .max_by_key(|e| e.len())
}

/// What the events of one thread are read with.
pub(super) struct EventReader<'a> {
    pub(super) plan: &'a mut Plan,
    pub(super) objects: &'a mut Objects,
    pub(super) global: &'a Global,
    pub(super) warnings: &'a mut Vec<Warning>,
    /// Name of the thread as the file has it.
    pub(super) thread: &'a str,
    /// Number of the instance that is read.
    pub(super) instance: u32,
    /// Names of all threads.
    pub(super) threads: &'a [String],
    /// Whether the thread is created by `fork`.
    pub(super) forked: bool,
    /// "unique" timers, one set a thread.
    pub(super) own_timers: Names<TimerId>,
    /// Mutexes held at this point, read from top to bottom.
    pub(super) held: BTreeSet<String>,
}

impl EventReader<'_> {
    /// The operations of one event.
    pub(super) fn event(
        &mut self,
        kind: &'static str,
        field: &Field<'_>,
    ) -> Result<Vec<Op>, Error> {
        match kind {
            // The work is calibrated on the fastest CPU, so it is what a CPU of capacity 1024 needs.
            "run" | "runtime" => Ok(busy(field.microseconds()?, Mode::User)),
            "sleep" => Ok(match field.microseconds()? {
                Ns(0) => Vec::new(),
                t => vec![Op::Sleep(Dur::Fixed(t))],
            }),
            "timer" => self.timer(field),
            "lock" => {
                let name = name(field)?;
                if !self.held.insert(name.into()) {
                    return Err(
                        field.conflict(format!("the thread already holds the mutex `{name}`"))
                    );
                }
                Ok(vec![Op::Lock(self.objects.lock(self.plan, name))])
            }
            "unlock" => {
                let name = name(field)?;
                if !self.held.remove(name) {
                    return Err(
                        field.conflict(format!("the thread does not hold the mutex `{name}` here"))
                    );
                }
                Ok(vec![Op::Unlock(self.objects.lock(self.plan, name))])
            }
            "wait" => self.wait(field, false),
            "sync" => self.wait(field, true),
            "signal" => {
                let cond = self.objects.cond(self.plan, name(field)?);
                Ok(vec![Op::Signal(cond)])
            }
            "broad" => {
                let cond = self.objects.cond(self.plan, name(field)?);
                Ok(vec![Op::Broadcast(cond)])
            }
            "barrier" => {
                if self.forked {
                    return Err(field.conflict(
                        "a barrier cannot be used in a thread that is forked, as its users \
                         could not be counted",
                    ));
                }
                Ok(vec![Op::Barrier(
                    self.objects.barrier(self.plan, name(field)?),
                )])
            }
            "suspend" | "resume" => {
                let named = field.text("the name of a thread, or \"\" for this one")?;
                let named = if named.is_empty() { self.thread } else { named };
                let cond = self.objects.suspension(self.plan, named);
                // A condition without memory: all that are suspended under the name go on.
                Ok(vec![if kind == "suspend" {
                    Op::Wait { cond, lock: None }
                } else {
                    Op::Broadcast(cond)
                }])
            }
            "sem_post" | "sem-post" => {
                Ok(vec![Op::SemPost(self.objects.sem(self.plan, name(field)?))])
            }
            "sem_wait" | "sem-wait" => {
                Ok(vec![Op::SemWait(self.objects.sem(self.plan, name(field)?))])
            }
            "yield" => {
                field.text("a string, which may be empty")?;
                Ok(vec![Op::Yield])
            }
            "fork" => self.fork(field),
            "mem" => Ok(busy(
                Ns(bytes(field)?.div_ceil(MEM_BYTES_PER_NS)),
                Mode::User,
            )),
            "iorun" => {
                let writes = bytes(field)?.div_ceil(self.global.mem_buffer_size);
                Ok(busy(Ns(writes.saturating_mul(SYSCALL_NS)), Mode::Kernel))
            }
            _ => memrun(field),
        }
    }

    fn timer(&mut self, field: &Field<'_>) -> Result<Vec<Op>, Error> {
        let object = Object::new(
            field.json,
            &field.path,
            "an object such as { \"ref\": \"unique\", \"period\": 16000 }",
        )?;
        object.only(&["ref", "period", "mode"])?;
        let named = match object.get("ref")? {
            None => "unknown",
            Some(f) => f.text("the name of a timer")?,
        };
        let period_field = object.need("period", "a whole number of microseconds above 0")?;
        let period = period_field.microseconds()?;
        if period == Ns::ZERO {
            return Err(period_field.wrong("a whole number of microseconds above 0"));
        }
        let absolute = match object.get("mode")? {
            None => false,
            Some(f) => match f.text("\"relative\" or \"absolute\"")? {
                "relative" => false,
                "absolute" => true,
                _ => return Err(f.wrong("\"relative\" or \"absolute\"")),
            },
        };
        let plan = &mut *self.plan;
        let timer = if named.starts_with("unique") {
            self.own_timers.get_or(named, || plan.timer())
        } else {
            let thread = (self.thread, self.instance);
            let written = (&field.json.place, field.path.as_str());
            self.objects.timer(plan, named, thread, written)
        };
        Ok(vec![Op::Timer {
            timer,
            period,
            absolute,
        }])
    }

    /// `wait`, and `sync`, which signals first.
    fn wait(&mut self, field: &Field<'_>, sync: bool) -> Result<Vec<Op>, Error> {
        let object = Object::new(
            field.json,
            &field.path,
            "an object such as { \"ref\": \"queue\", \"mutex\": \"lock\" }",
        )?;
        object.only(&["ref", "mutex"])?;
        let reference = object.need("ref", "the name of a condition")?;
        let mutex = object.need("mutex", "the name of a mutex")?;
        let mutex_name = name(&mutex)?;
        let cond = self.objects.cond(self.plan, name(&reference)?);
        let lock = self.objects.lock(self.plan, mutex_name);
        let mut ops = Vec::new();
        if sync {
            ops.push(Op::Signal(cond));
        }
        ops.push(Op::Wait {
            cond,
            lock: Some(lock),
        });
        // A `sync` takes the mutex by itself; a `wait` without it is an error of the file, mended alike.
        if !self.held.contains(mutex_name) {
            if !sync {
                self.warnings.push(Warning {
                    place: field.json.place.clone(),
                    key: field.path.clone(),
                    note: format!(
                        "waits without holding the mutex `{mutex_name}`, which is taken for it here"
                    ),
                });
            }
            ops.insert(0, Op::Lock(lock));
            ops.push(Op::Unlock(lock));
        }
        Ok(ops)
    }

    fn fork(&mut self, field: &Field<'_>) -> Result<Vec<Op>, Error> {
        let named = name(field)?;
        if !self.threads.iter().any(|t| t == named) {
            return Err(Error::UnknownName {
                place: field.json.place.clone(),
                key: field.path.clone(),
                what: "thread",
                name: named.into(),
                known: self.threads.to_vec(),
            });
        }
        let plan = &mut *self.plan;
        let program = self
            .objects
            .templates
            .get_or(named, || plan.program(named, Vec::new()));
        Ok(vec![Op::Fork { program }])
    }
}

/// Bytes that a thread writes to memory in a nanosecond, an assumption of about 10 GB/s.
const MEM_BYTES_PER_NS: u64 = 10;
/// A system call that does next to nothing, such as a write to `/dev/null`.
const SYSCALL_NS: u64 = 100;

fn busy(work: Ns, mode: Mode) -> Vec<Op> {
    if work == Ns::ZERO {
        return Vec::new();
    }
    vec![Op::Run {
        work: Dur::Fixed(work),
        mode,
        cond_resched: None,
    }]
}

fn name<'a>(field: &Field<'a>) -> Result<&'a str, Error> {
    match field.text("a name")? {
        "" => Err(field.wrong("a name")),
        name => Ok(name),
    }
}

fn bytes(field: &Field<'_>) -> Result<u64, Error> {
    field
        .integer(0, 1 << 50, "a whole number of bytes, 0 or more")
        .map(i64::unsigned_abs)
}

/// `memrun`: `count` accesses, each as long as the size and the pattern let expect.
fn memrun(field: &Field<'_>) -> Result<Vec<Op>, Error> {
    let object = Object::new(
        field.json,
        &field.path,
        "an object with `type`, `size` and `count`",
    )?;
    object.only(&["type", "size", "stride", "pattern", "count", "ref"])?;
    let number = |key: &str, default: u64| -> Result<u64, Error> {
        match object.get(key)? {
            None => Ok(default),
            Some(f) => f
                .integer(1, 1 << 50, "a whole number above 0")
                .map(i64::unsigned_abs),
        }
    };
    let kind = match object.get("type")? {
        None => "read",
        Some(f) => f.text("a type such as \"chase\", \"read\" or \"write\"")?,
    };
    let random = match object.get("pattern")? {
        None => false,
        Some(f) => match f.text("\"random\" or \"sequential\"")? {
            "random" => true,
            "sequential" => false,
            _ => return Err(f.wrong("\"random\" or \"sequential\"")),
        },
    };
    if let Some(f) = object.get("ref")? {
        f.text("the name of a buffer")?;
    }
    let size = number("size", 4_194_304)?;
    let stride = number("stride", 64)?;
    let count = number("count", 1)?;
    let each = if random || kind == "chase" {
        // Latency of the level that the buffer fits: second-level cache, last-level cache, memory.
        match size {
            0..=1_048_576 => 4,
            1_048_577..=33_554_432 => 20,
            _ => 90,
        }
    } else {
        stride.div_ceil(MEM_BYTES_PER_NS)
    };
    Ok(busy(Ns(count.saturating_mul(each)), Mode::User))
}
