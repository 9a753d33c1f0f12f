//! What tasks do: programs of small operations, as data.
//!
//! A program says how much CPU work a task demands and where it waits; it says nothing of when it is
//! switched. The end of one run and the start of the next are no scheduling point.

use schedlab_fair::Ns;

/// A length of time, drawn anew each time it is needed from the task's own random stream.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Dur {
    /// Always the same.
    Fixed(Ns),
    /// Uniform over `lo..=hi`.
    Uniform {
        /// Smallest value.
        lo: Ns,
        /// Largest value.
        hi: Ns,
    },
    /// Exponential with this mean, cut at 20 times the mean.
    Exponential {
        /// Mean value.
        mean: Ns,
    },
}

/// Where work is done; decides where a pending reschedule is honoured (reference section 14.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// User mode.
    #[default]
    User,
    /// Kernel mode, preemptible where the preemption model allows it.
    Kernel,
    /// Kernel mode with preemption disabled (a lock held, for example).
    KernelNoPreempt,
}

macro_rules! object_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);
    };
}

object_id!(
    /// A byte channel: a pipe or a socket.
    ChannelId
);
object_id!(
    /// A mutex.
    LockId
);
object_id!(
    /// A barrier.
    BarrierId
);
object_id!(
    /// A condition variable or event.
    CondId
);
object_id!(
    /// A counting semaphore.
    SemId
);
object_id!(
    /// A periodic timer (rt-app `timer`); each belongs to one task.
    TimerId
);
object_id!(
    /// A program of the simulation.
    ProgramId
);

/// Class and parameters that a task runs under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sched {
    /// `SCHED_OTHER` at a nice level.
    Other {
        /// −20 to 19.
        nice: i8,
    },
    /// `SCHED_BATCH` at a nice level.
    Batch {
        /// −20 to 19.
        nice: i8,
    },
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO`.
    Fifo {
        /// 1 to 99, higher is more urgent.
        rt_priority: u8,
    },
    /// `SCHED_RR`.
    Rr {
        /// 1 to 99, higher is more urgent.
        rt_priority: u8,
    },
}

/// How a spin or a lock waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    /// Sleeps while the lock is taken (futex, kernel mutex).
    Sleep,
    /// Burns CPU while the lock is taken.
    Spin,
    /// Burns CPU, calling `sched_yield` after each of these stretches.
    SpinYield {
        /// CPU time between two yields.
        every: Ns,
    },
    /// Burns CPU for `spin`, then sleeps for `sleep`, again and again.
    SpinThenSleep {
        /// CPU time before giving up.
        spin: Ns,
        /// Sleep between tries.
        sleep: Ns,
    },
}

/// One step of a program.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Op {
    /// Demand CPU time.
    Run {
        /// How much, at capacity 1024.
        work: Dur,
        /// In which mode.
        mode: Mode,
        /// In kernel mode: CPU time between two `cond_resched` points, `None` for none.
        cond_resched: Option<Ns>,
    },
    /// Work in user mode until this time of the simulation, looking at the clock after each stretch of `check`.
    RunUntil {
        /// When to stop.
        until: Ns,
        /// CPU time between two looks, above zero.
        check: Ns,
    },
    /// Sleep for a time from now (interruptible).
    Sleep(Dur),
    /// Sleep in uninterruptible state (`D`), as for a disk.
    BlockIo(Dur),
    /// rt-app `timer`: sleep until `period` after the timer's last expiry.
    ///
    /// Periods count from the task's start; a missed one does not move its reference unless `absolute` is false
    /// and the reference lies in the past, as rt-app documents.
    Timer {
        /// Which timer.
        timer: TimerId,
        /// Its period, above zero.
        period: Ns,
        /// `mode: absolute` in rt-app.
        absolute: bool,
    },
    /// Sleep until the next whole number of periods since the task's start; missed ones are skipped.
    Beat {
        /// Which timer.
        timer: TimerId,
        /// Its period, above zero.
        period: Ns,
    },
    /// Write bytes; sleeps while the channel is full.
    Send {
        /// Where to.
        channel: ChannelId,
        /// How many, above zero.
        bytes: u32,
    },
    /// Read bytes; sleeps while the channel is empty. Takes at most one message of a message channel.
    Recv {
        /// Where from.
        channel: ChannelId,
        /// How many at most, above zero.
        bytes: u32,
    },
    /// Take a lock.
    Lock(LockId),
    /// Release a lock; the task must hold it.
    Unlock(LockId),
    /// Wait until as many tasks as the barrier counts have come.
    Barrier(BarrierId),
    /// Wait for a signal, having released `lock` meanwhile, if given.
    Wait {
        /// What to wait for.
        cond: CondId,
        /// Lock released while waiting.
        lock: Option<LockId>,
    },
    /// Wake one waiter.
    Signal(CondId),
    /// Wake all waiters.
    Broadcast(CondId),
    /// Semaphore post: has memory.
    SemPost(SemId),
    /// Semaphore wait.
    SemWait(SemId),
    /// Post, and wait for another semaphore, with nobody between: as a system call that wakes somebody on its way to
    /// its own sleep. The wakee may run elsewhere meanwhile.
    HandOver {
        /// Semaphore that is posted first.
        post: SemId,
        /// Way to the sleep, with preemption disabled; at most a second.
        tail: Ns,
        /// Semaphore that is waited for.
        wait: SemId,
    },
    /// rt-app `suspend`: sleep until resumed by name.
    Suspend,
    /// rt-app `resume`: wake a suspended task.
    Resume {
        /// Name of the task.
        task: String,
    },
    /// `sched_yield`.
    Yield,
    /// Create a task.
    Fork {
        /// What it runs.
        program: ProgramId,
    },
    /// Wait until all children have exited.
    WaitChildren,
    /// End the task.
    Exit,
    /// Change scheduling parameters of the task itself.
    SetSched(Sched),
    /// Change the custom slice of the task itself; `None` for the default.
    SetSlice(Option<Ns>),
    /// Change the CPUs that the task itself may use.
    SetAffinity(Vec<u32>),
    /// Repeat.
    Loop {
        /// How often; `None` for ever.
        times: Option<u64>,
        /// What.
        body: Vec<Op>,
    },
    /// Count units of useful work, for the throughput of a workload.
    Count {
        /// Units added to the workload's counter.
        units: u64,
    },
}

/// A kind of channel: what fits in and when a sleeping writer is woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelSpec {
    /// Bytes that the buffer holds (each message counted with `overhead`).
    pub capacity: u32,
    /// Bytes of buffer taken by each message beside its data.
    pub overhead: u32,
    /// A sleeping writer is woken when the used part has sunk to this many bytes or fewer.
    pub writer_wake_below: u32,
    /// All sleeping writers are woken then (`AF_UNIX` sockets), not only the first (pipes).
    pub wake_all_writers: bool,
    /// Whether reads keep message boundaries (a stream does not).
    pub messages: bool,
    /// Whether a write wakes a sleeping reader with the sync hint.
    pub sync_wake: bool,
}

/// A program with a name.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// For messages.
    pub name: String,
    /// Its steps; the task exits behind the last.
    pub ops: Vec<Op>,
}

/// A task that exists from the start, or a template for `Fork`.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskSpec {
    /// `comm`, cut to 15 bytes in traces.
    pub comm: String,
    /// What it runs.
    pub program: ProgramId,
    /// Class and priority.
    pub sched: Sched,
    /// Custom slice.
    pub slice: Option<Ns>,
    /// CPUs that it may use; empty for all.
    pub affinity: Vec<u32>,
    /// Index of its group in the configuration; `None` for the root.
    pub group: Option<u32>,
    /// When it starts.
    pub start: Ns,
    /// Address space: switches between tasks of different spaces cost more. Threads of a process share one.
    pub mm: u32,
    /// Core scheduling: tasks share a core with those of the same cookie only. 0: the default, no cookie. Forked tasks
    /// inherit it. Without effect unless [`SimConfig::core_sched`](crate::SimConfig::core_sched) is on.
    pub cookie: u64,
}
