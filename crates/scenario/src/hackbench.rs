//! `hackbench` from rt-tests: groups of senders that write to every receiver of their group.
//!
//! Modelled from the program's public behaviour; what is modelled and what not stands in
//! `docs/formats/scenario.md`. Options have the program's names and defaults.

use schedlab_fair::Ns;
use schedlab_sim::program::{ChannelId, Dur, Mode, Op, ProgramId, Sched, SemId, TaskSpec};

use crate::channel::ChannelKind;
use crate::error::Error;
use crate::plan::{Names, Plan};
use crate::reader::{Field, Reader};
use crate::steps::MAX_MESSAGE;

/// Most tasks of one run: the default of `kernel.pid_max` on large machines.
const TASKS_LIMIT: u64 = 4_194_304;

/// CPU time of the program's steps outside the scheduler, each a knob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HackbenchCosts {
    /// The write system call without the wakeup.
    pub send: Ns,
    /// The read system call without sleeping.
    pub recv: Ns,
    /// User time of each loop round around one system call.
    pub user: Ns,
}

impl HackbenchCosts {
    /// Stream sockets.
    ///
    /// From the kernel test robot's report on commit 2ae891b82695 (25 February 2025, 128-CPU Ice Lake, hackbench
    /// socket/process, nr_threads 100 %, base column): 5,120 tasks × 30,000 messages × 4 iterations are 6.144e9
    /// messages received, in 17,045 s of system and 900 s of user time, so 2.77 µs and 0.147 µs a message. Of all
    /// cycles 42.1 % are the write call, of which 1.3 % wake the reader, and 1.8 % are the switches in either call;
    /// of the 2.95 µs in all this leaves 1.20 µs for the write and 1.48 µs for the read.
    pub const SOCKET: Self = Self {
        send: Ns(1_200),
        recv: Ns(1_480),
        user: Ns(73),
    };
    /// Pipes.
    ///
    /// From the robot's report on commit aaec5a95d596 (26 June 2025, 4-CPU Skylake, hackbench pipe/process, base
    /// column): 80 tasks × 60,000 messages × 4 iterations are 1.92e8 messages received, in 154.6 s of system time, so
    /// 0.81 µs a message, of which 0.12 switches of about 1.2 µs each take 0.15 µs; the rest halves.
    pub const PIPE: Self = Self {
        send: Ns(330),
        recv: Ns(330),
        user: Ns(73),
    };
}

/// Options of hackbench.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hackbench {
    /// `-p`: pipes instead of sockets.
    pub pipe: bool,
    /// `-s`: bytes of a message.
    pub datasize: u32,
    /// `-l`: messages that each sender sends to each receiver.
    pub loops: u64,
    /// `-g`: groups.
    pub groups: u32,
    /// `-f`: senders, and receivers, of a group.
    pub fds: u32,
    /// `-T`: threads instead of processes.
    pub threads: bool,
    /// CPU time of the steps.
    pub costs: HackbenchCosts,
    /// Index of the control group that all tasks are in.
    pub group: Option<u32>,
}

impl Default for Hackbench {
    fn default() -> Self {
        Self {
            pipe: false,
            datasize: 100,
            loops: 100,
            groups: 10,
            fds: 20,
            threads: false,
            costs: HackbenchCosts::SOCKET,
            group: None,
        }
    }
}

impl Hackbench {
    /// Number of tasks, the main one not counted.
    #[must_use]
    pub fn tasks(&self) -> u64 {
        u64::from(self.groups) * u64::from(self.fds) * 2
    }

    /// Messages received in the whole run.
    #[must_use]
    pub fn messages(&self) -> u64 {
        u64::from(self.groups) * u64::from(self.fds) * u64::from(self.fds) * self.loops
    }

    /// The throughput as LKP computes it from the program's output: tasks × messages × bytes, in KiB, by `Time`.
    ///
    /// `time` is taken in milliseconds, as the program prints it; `None` if that is zero.
    #[must_use]
    pub fn lkp_throughput(&self, time: Ns) -> Option<f64> {
        let kib =
            (u128::from(self.tasks()) * u128::from(self.loops) * u128::from(self.datasize)) >> 10;
        let seconds = (time.0 / 1_000_000) as f64 / 1_000.0;
        (seconds > 0.0).then(|| kib as f64 / seconds)
    }

    /// The first two lines of the program's output.
    #[must_use]
    pub fn banner(&self) -> String {
        format!(
            "Running in {} mode with {} groups using {} file descriptors each (== {} tasks)\n\
             Each sender will pass {} messages of {} bytes\n",
            if self.threads { "threaded" } else { "process" },
            self.groups,
            2 * u64::from(self.fds),
            self.tasks(),
            self.loops,
            self.datasize
        )
    }

    /// The last line of the program's output.
    #[must_use]
    pub fn time_line(time: Ns) -> String {
        let ms = time.0 / 1_000_000;
        format!("Time: {}.{:03}\n", ms / 1_000, ms % 1_000)
    }

    /// Reads the options of `[workload] hackbench`.
    pub(crate) fn read(field: &Field<'_>, cpus: u32, groups: &Names<u32>) -> Result<Self, Error> {
        let reader = Reader::new(field, "a table of options, such as { groups = 10 }")?;
        let mut h = Self {
            pipe: flag_of(&reader, "pipe", "ipc", ["socket", "pipe"])?,
            threads: flag_of(&reader, "threads", "mode", ["process", "threads"])?,
            ..Self::default()
        };
        if let Some(f) = reader.get("process") {
            if f.boolean()? == h.threads && reader.get("threads").is_some() {
                return Err(f.conflict("contradicts `threads`"));
            }
            h.threads = !f.boolean()?;
        }
        h.datasize = reader
            .get("datasize")
            .map_or(Ok(h.datasize), |f| f.integer(1..=MAX_MESSAGE))?;
        h.fds = reader
            .get("fds")
            .map_or(Ok(h.fds), |f| f.integer(1..=10_000))?;
        let loops = reader
            .get("loops")
            .map(|f| f.integer(1..=1_000_000_000))
            .transpose()?;
        h.loops = loops.unwrap_or(h.loops);
        match (reader.get("groups"), reader.get("nr_threads")) {
            (Some(_), Some(f)) => {
                return Err(f.conflict("is another way to say `groups`; give one of them"));
            }
            (Some(f), None) => h.groups = f.integer(1..=100_000)?,
            (None, Some(f)) => {
                h.groups = nr_threads(&f, cpus)?;
                // LKP's job script: fewer groups send more messages each.
                h.loops = loops
                    .unwrap_or(30_000 * u64::from(cpus) / u64::from(h.groups))
                    .max(1);
            }
            (None, None) => {}
        }
        if let Some(f) = reader.get("group") {
            let name = f.text("the name of a [[group]]")?;
            h.group = Some(
                groups
                    .get(name)
                    .ok_or_else(|| f.unknown("group", groups.names()))?,
            );
        }
        h.costs = if h.pipe {
            HackbenchCosts::PIPE
        } else {
            HackbenchCosts::SOCKET
        };
        for (key, target) in [
            ("send_cost", &mut h.costs.send),
            ("recv_cost", &mut h.costs.recv),
            ("user_cost", &mut h.costs.user),
        ] {
            if let Some(f) = reader.get(key) {
                *target = f.time()?;
            }
        }
        if h.costs.send.0 + h.costs.user.0 == 0 || h.costs.recv.0 + h.costs.user.0 == 0 {
            return Err(
                field.conflict("a message that costs no CPU time at all would never let time pass")
            );
        }
        if h.tasks() > TASKS_LIMIT {
            return Err(field.conflict(format!(
                "makes {} tasks; at most {TASKS_LIMIT} are possible",
                h.tasks()
            )));
        }
        reader.finish()?;
        Ok(h)
    }

    /// The tasks: first the main one, then those of all groups, receivers of a group before its senders as the program
    /// creates them.
    ///
    /// The main task waits until all are ready, lets them go, and waits for the end of each; `Time` is what lies between.
    /// `syscall` is what the simulator itself charges for entering the kernel, so that it is not counted twice.
    pub(crate) fn build(&self, plan: &mut Plan, syscall: Ns) {
        let kind = if self.pipe {
            ChannelKind::Pipe
        } else {
            ChannelKind::Socket
        };
        let steps = Steps {
            ready: plan.sem(0),
            go: plan.sem(0),
            done: plan.sem(0),
            // A read enters the kernel by itself; a write is in it already, with the work before it.
            recv: self.costs.recv.since(syscall),
        };
        let shared = plan.space();
        let tasks = self.tasks();
        let main = vec![
            repeat(tasks, vec![Op::SemWait(steps.ready)]),
            repeat(tasks, vec![Op::SemPost(steps.go)]),
            repeat(tasks, vec![Op::SemWait(steps.done)]),
        ];
        let main = plan.program("hackbench main", main);
        self.spawn(plan, main, Some(shared));
        let shared = self.threads.then_some(shared);
        for _ in 0..self.groups {
            let inbox: Vec<_> = (0..self.fds)
                .map(|_| plan.channel(kind.spec(self.datasize)))
                .collect();
            for channel in &inbox {
                let ops = steps.around(self.receive(*channel, steps.recv));
                let program = plan.program("hackbench receiver", ops);
                self.spawn(plan, program, shared);
            }
            let program = plan.program("hackbench sender", steps.around(self.send(&inbox)));
            for _ in 0..self.fds {
                self.spawn(plan, program, shared);
            }
        }
    }

    /// A receiver: as many messages as all senders of the group send to it.
    fn receive(&self, channel: ChannelId, recv: Ns) -> Op {
        let message = vec![
            Op::Recv {
                channel,
                bytes: self.datasize,
            },
            run(recv, Mode::Kernel),
            run(self.costs.user, Mode::User),
        ];
        repeat(
            self.loops,
            vec![
                repeat(u64::from(self.fds), without_empty(message)),
                Op::Count {
                    units: u64::from(self.fds),
                },
            ],
        )
    }

    /// A sender: one message to every receiver of the group in turn.
    fn send(&self, inbox: &[ChannelId]) -> Op {
        let round = inbox
            .iter()
            .flat_map(|channel| {
                without_empty(vec![
                    run(self.costs.user, Mode::User),
                    run(self.costs.send, Mode::Kernel),
                    Op::Send {
                        channel: *channel,
                        bytes: self.datasize,
                    },
                ])
            })
            .collect();
        repeat(self.loops, round)
    }

    fn spawn(&self, plan: &mut Plan, program: ProgramId, shared: Option<u32>) {
        let mm = shared.unwrap_or_else(|| plan.space());
        plan.tasks.push(TaskSpec {
            comm: "hackbench".into(),
            program,
            sched: Sched::Other { nice: 0 },
            slice: None,
            affinity: Vec::new(),
            group: self.group,
            start: Ns::ZERO,
            mm,
            cookie: 0,
        });
    }
}

/// What every worker does around its messages.
struct Steps {
    ready: SemId,
    go: SemId,
    done: SemId,
    recv: Ns,
}

impl Steps {
    fn around(&self, messages: Op) -> Vec<Op> {
        vec![
            Op::SemPost(self.ready),
            Op::SemWait(self.go),
            messages,
            Op::SemPost(self.done),
        ]
    }
}

fn run(work: Ns, mode: Mode) -> Op {
    Op::Run {
        work: Dur::Fixed(work),
        mode,
        cond_resched: None,
    }
}

fn repeat(times: u64, body: Vec<Op>) -> Op {
    Op::Loop {
        times: Some(times),
        body,
    }
}

/// Without the runs that last no time.
fn without_empty(ops: Vec<Op>) -> Vec<Op> {
    ops.into_iter()
        .filter(|op| {
            !matches!(
                op,
                Op::Run {
                    work: Dur::Fixed(Ns(0)),
                    ..
                }
            )
        })
        .collect()
}

/// A switch that the program has and the LKP job spells with two words, the first meaning "off".
fn flag_of(
    reader: &Reader<'_>,
    key: &'static str,
    lkp: &'static str,
    words: [&'static str; 2],
) -> Result<bool, Error> {
    match (reader.get(key), reader.get(lkp)) {
        (Some(_), Some(f)) => {
            Err(f.conflict(format!("is another way to say `{key}`; give one of them")))
        }
        (Some(f), None) => f.boolean(),
        (None, Some(f)) => match f.text(&words.join(" or "))? {
            w if w == words[0] => Ok(false),
            w if w == words[1] => Ok(true),
            _ => Err(f.unknown(lkp, words)),
        },
        (None, None) => Ok(false),
    }
}

/// LKP's `nr_threads`: the number of groups, or a share of the CPUs.
fn nr_threads(field: &Field<'_>, cpus: u32) -> Result<u32, Error> {
    let Some(text) = field.node.as_str() else {
        return field.integer(1..=100_000);
    };
    let expected = "a number of groups, or a share of the CPUs such as \"50%\"";
    let percent = text
        .strip_suffix('%')
        .and_then(|t| t.trim().parse::<u32>().ok())
        .filter(|p| (1..=10_000).contains(p))
        .ok_or_else(|| field.wrong(expected))?;
    Ok((cpus * percent / 100).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_output_are_the_programs() {
        let h = Hackbench::default();
        assert_eq!(
            h.banner() + &Hackbench::time_line(Ns(1_215_999_999)),
            "Running in process mode with 10 groups using 40 file descriptors each (== 400 tasks)\n\
             Each sender will pass 100 messages of 100 bytes\n\
             Time: 1.215\n"
        );
        assert_eq!(h.messages(), 400_000);
    }

    #[test]
    fn throughput_is_lkps() {
        // The thread's machine: 224 CPUs, nr_threads 50 %, so 112 groups of 60,000 loops.
        let h = Hackbench {
            groups: 112,
            loops: 60_000,
            ..Hackbench::default()
        };
        assert_eq!(
            h.lkp_throughput(Ns::from_ms(42_120)).unwrap().round(),
            623_219.0
        );
        assert_eq!(h.lkp_throughput(Ns(999_999)), None);
    }

    /// Sends and receives of all tasks as written in their programs.
    fn totals(plan: &Plan) -> (u64, u64) {
        fn walk(ops: &[Op], times: u64, sum: &mut (u64, u64)) {
            for op in ops {
                match op {
                    Op::Send { .. } => sum.0 += times,
                    Op::Recv { .. } => sum.1 += times,
                    Op::Loop { times: n, body } => walk(body, times * n.unwrap(), sum),
                    _ => {}
                }
            }
        }
        let mut sum = (0, 0);
        for task in &plan.tasks {
            walk(&plan.programs[task.program.0 as usize].ops, 1, &mut sum);
        }
        sum
    }

    #[test]
    fn every_message_sent_is_received() {
        for threads in [false, true] {
            let h = Hackbench {
                groups: 3,
                fds: 4,
                loops: 5,
                threads,
                ..Hackbench::default()
            };
            let mut plan = Plan::default();
            h.build(&mut plan, Ns(100));
            assert_eq!(plan.tasks.len(), 25, "24 workers and the main task");
            assert_eq!(totals(&plan), (h.messages(), h.messages()));
            let spaces: std::collections::BTreeSet<u32> = plan.tasks.iter().map(|t| t.mm).collect();
            assert_eq!(spaces.len(), if threads { 1 } else { 25 });
        }
    }
}
