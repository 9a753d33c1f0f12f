//! Declared channels, locks, barriers and semaphores. Undeclared ones get defaults at their first use.

use schedlab_sim::program::{ChannelSpec, LockKind};

use crate::channel::ChannelKind;
use crate::error::Error;
use crate::plan::Plan;
use crate::reader::{Field, Reader};
use crate::steps::{MAX_MESSAGE, Objects};

/// Reads the four kinds of declaration.
pub(crate) fn declarations(
    root: &Reader<'_>,
    plan: &mut Plan,
    objects: &mut Objects,
) -> Result<(), Error> {
    each(root.get("channel"), "channels", |reader, name, field| {
        let spec = channel(reader)?;
        let id = plan.channel(spec);
        taken(objects.channels.insert(name, id), field, name)
    })?;
    each(root.get("lock"), "locks", |reader, name, field| {
        let id = plan.lock(lock(reader)?);
        taken(objects.locks.insert(name, id), field, name)
    })?;
    each(root.get("barrier"), "barriers", |reader, name, field| {
        let count = reader
            .get("count")
            .map_or(Ok(0), |f| f.integer(1..=1_000_000))?;
        let id = plan.barrier(count);
        taken(objects.barriers.insert(name, id), field, name)
    })?;
    each(
        root.get("semaphore"),
        "semaphores",
        |reader, name, field| {
            let initial = reader
                .get("initial")
                .map_or(Ok(0), |f| f.integer(0..=u32::MAX))?;
            let id = plan.sem(initial);
            taken(objects.sems.insert(name, id), field, name)
        },
    )
}

fn each(
    list: Option<Field<'_>>,
    what: &str,
    mut read: impl FnMut(&Reader<'_>, &str, &Field<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(list) = list else { return Ok(()) };
    for item in list.array(&format!("a list of {what}"))? {
        let reader = Reader::new(&item, "a table")?;
        let name = reader.need("name", "a name")?;
        read(&reader, name.text("a name")?, &name)?;
        reader.finish()?;
    }
    Ok(())
}

fn taken(new: bool, field: &Field<'_>, name: &str) -> Result<(), Error> {
    if new {
        Ok(())
    } else {
        Err(field.conflict(format!("the name `{name}` is used twice")))
    }
}

fn channel(reader: &Reader<'_>) -> Result<ChannelSpec, Error> {
    let kind = match reader.get("kind") {
        None => ChannelKind::Pipe,
        Some(f) => match f.text("\"pipe\" or \"socket\"")? {
            "pipe" => ChannelKind::Pipe,
            "socket" => ChannelKind::Socket,
            _ => return Err(f.unknown("kind of channel", ["pipe", "socket"])),
        },
    };
    let message = reader
        .get("message")
        .map_or(Ok(100), |f| f.integer(1..=MAX_MESSAGE))?;
    let mut spec = kind.spec(message);
    if let Some(f) = reader.get("capacity") {
        spec.capacity = f.integer(1..=1 << 30)?;
        spec.overhead = 0;
        spec.writer_wake_below = spec.capacity - 1;
        if spec.capacity < message {
            return Err(f.conflict(format!("holds less than one message of {message} bytes")));
        }
    }
    if let Some(f) = reader.get("writer_wake_below") {
        spec.writer_wake_below = f.integer(0..=spec.capacity - 1)?;
    }
    if let Some(f) = reader.get("messages") {
        spec.messages = f.boolean()?;
    }
    if let Some(f) = reader.get("sync_wake") {
        spec.sync_wake = f.boolean()?;
    }
    Ok(spec)
}

fn lock(reader: &Reader<'_>) -> Result<LockKind, Error> {
    let kinds = ["sleep", "spin", "spin-yield", "spin-sleep"];
    let spin = |what| reader.need("spin", what)?.time_above_zero();
    match reader.get("kind") {
        None => Ok(LockKind::Sleep),
        Some(f) => match f.text("a kind of lock")? {
            "sleep" => Ok(LockKind::Sleep),
            "spin" => Ok(LockKind::Spin),
            "spin-yield" => Ok(LockKind::SpinYield {
                every: spin("the CPU time between two yields")?,
            }),
            "spin-sleep" => Ok(LockKind::SpinThenSleep {
                spin: spin("the CPU time before giving up")?,
                sleep: reader
                    .need("sleep", "the sleep between tries")?
                    .time_above_zero()?,
            }),
            _ => Err(f.unknown("kind of lock", kinds)),
        },
    }
}
