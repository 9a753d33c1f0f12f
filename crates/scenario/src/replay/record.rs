//! `kind = "replay"`: the acts of a recorded task, one short word each.

use schedlab_fair::Ns;
use schedlab_sim::program::{Dur, Mode, Op, ProgramId, Sched};

use crate::error::Error;
use crate::plan::{Names, Plan};
use crate::reader::Reader;
use crate::steps::{Objects, needs_time, takes_time};

/// What a record's words are, for error messages.
const WORDS: &str = "words such as r1500 (run 1500 ns), t1000 (timer), s1000 (sleep), d1000 (block), w0 (wake), e (wait to \
                     be woken), h0:2000 (wake, and 2000 ns later wait to be woken), f0 (fork), y (yield), n5 (nice), p50 (real-time priority)";
/// Longest length, ns; what the simulator takes.
const LONGEST: u64 = 1 << 59;

/// What a record is read with.
pub(crate) struct RecordContext<'a> {
    pub(crate) plan: &'a mut Plan,
    pub(crate) objects: &'a mut Objects,
    /// Name of the task itself.
    pub(crate) name: &'a str,
    /// Tasks by name.
    pub(crate) task_names: &'a [String],
    /// Programs that may be forked, by name.
    pub(crate) templates: &'a Names<ProgramId>,
    /// Parameters that it begins with.
    pub(crate) sched: Sched,
}

/// Reads the program of a recorded task: `record`, `peers` and `loops`.
pub(crate) fn record(
    reader: &Reader<'_>,
    mut context: RecordContext<'_>,
) -> Result<Vec<Op>, Error> {
    let peers = context.peers(reader)?;
    let field = reader.need("record", WORDS)?;
    let text = field.text(WORDS)?;
    let partner = context.partner(reader)?;
    let timer = context.plan.timer();
    let mut ops = Vec::new();
    for (number, word) in text.split_ascii_whitespace().enumerate() {
        let wrong = |expected: &str| {
            field.conflict(format!(
                "word {} `{}`: expected {expected}",
                number + 1,
                word.chars().take(32).collect::<String>()
            ))
        };
        let (letter, rest) = word
            .split_at_checked(1)
            .ok_or_else(|| wrong(&format!("one of {WORDS}")))?;
        let length = || {
            rest.parse::<u64>()
                .ok()
                .filter(|ns| (1..=LONGEST).contains(ns))
                .map(Ns)
                .ok_or_else(|| {
                    wrong(&format!(
                        "nanoseconds from 1 to {LONGEST} behind the letter"
                    ))
                })
        };
        let peer = || {
            rest.parse::<usize>()
                .ok()
                .and_then(|i| peers.get(i))
                .ok_or_else(|| {
                    wrong(&format!(
                        "a place in `peers`, which has {} names, behind the letter",
                        peers.len()
                    ))
                })
        };
        let alone = |op| match rest {
            "" => Ok(op),
            _ => Err(wrong("nothing behind the letter")),
        };
        // Between partners a wakeup waits until the one before has been taken.
        if let ("w" | "h", Some(partner)) = (letter, &partner)
            && rest
                .split(':')
                .next()
                .and_then(|i| i.parse::<usize>().ok())
                .and_then(|i| peers.get(i))
                == Some(partner)
        {
            ops.push(Op::SemWait(context.taken(partner)));
        }
        ops.push(match letter {
            "r" => Op::Run {
                work: Dur::Fixed(length()?),
                mode: Mode::User,
                cond_resched: None,
            },
            "t" => Op::Timer {
                timer,
                period: length()?,
                absolute: true,
            },
            "s" => Op::Sleep(Dur::Fixed(length()?)),
            "d" => Op::BlockIo(Dur::Fixed(length()?)),
            "w" => Op::SemPost(context.inbox(peer()?)),
            "e" => alone(Op::SemWait(context.inbox(context.name)))?,
            "h" => {
                let hand_over = || {
                    let (peer, tail) = rest.split_once(':')?;
                    let peer = peers.get(peer.parse::<usize>().ok()?)?;
                    let tail = tail.parse().ok().filter(|&ns| ns <= 1_000_000_000)?;
                    Some((peer, Ns(tail)))
                };
                let (peer, tail) = hand_over().ok_or_else(|| {
                    wrong(&format!(
                        "a place in `peers`, which has {} names, a colon and at most 1000000000 ns",
                        peers.len()
                    ))
                })?;
                Op::HandOver {
                    post: context.inbox(peer),
                    tail,
                    wait: context.inbox(context.name),
                }
            }
            "f" => {
                let name = peer()?;
                let program = context
                    .templates
                    .get(name)
                    .ok_or_else(|| wrong("a task with count = 0 (a template for fork)"))?;
                Op::Fork { program }
            }
            "y" => alone(Op::Yield)?,
            "n" => {
                let nice = rest.parse().ok().filter(|n| (-20..=19).contains(n));
                let nice = nice.ok_or_else(|| wrong("-20 to 19 behind the letter"))?;
                context.sched = match context.sched {
                    Sched::Batch { .. } => Sched::Batch { nice },
                    _ => Sched::Other { nice },
                };
                Op::SetSched(context.sched)
            }
            "p" => {
                let rt = rest.parse().ok().filter(|p| (1..=99).contains(p));
                let rt_priority = rt.ok_or_else(|| wrong("1 to 99 behind the letter"))?;
                Op::SetSched(Sched::Fifo { rt_priority })
            }
            _ => return Err(wrong(&format!("one of {WORDS}"))),
        });
        if partner.is_some() && matches!(letter, "e" | "h") {
            ops.push(Op::SemPost(context.taken(context.name)));
        }
    }
    repeated(reader, ops)
}

/// `loops`: how often, or "forever".
fn repeated(reader: &Reader<'_>, ops: Vec<Op>) -> Result<Vec<Op>, Error> {
    let Some(field) = reader.get("loops") else {
        return Ok(ops);
    };
    let times = match field.node.as_str() {
        Some("forever") => None,
        Some(_) => return Err(field.wrong("a number of times above zero, or \"forever\"")),
        None => Some(field.integer(1..=1_000_000_000u64)?),
    };
    if needs_time(times) && !ops.iter().any(takes_time) {
        return Err(field.conflict("a record repeated so often needs a word that takes time"));
    }
    Ok(vec![Op::Loop { times, body: ops }])
}

impl RecordContext<'_> {
    fn peers(&self, reader: &Reader<'_>) -> Result<Vec<String>, Error> {
        let Some(field) = reader.get("peers") else {
            return Ok(Vec::new());
        };
        let known: std::collections::BTreeSet<&str> =
            self.task_names.iter().map(String::as_str).collect();
        field
            .array("a list of names of tasks")?
            .iter()
            .map(|f| {
                let name = f.text("the name of a task")?;
                if known.contains(name) {
                    Ok(name.to_string())
                } else {
                    Err(f.unknown("task", &known))
                }
            })
            .collect()
    }

    fn partner(&self, reader: &Reader<'_>) -> Result<Option<String>, Error> {
        let Some(f) = reader.get("partner") else {
            return Ok(None);
        };
        let name = f.text("the name of a task")?;
        if self.task_names.iter().any(|n| n == name) {
            Ok(Some(name.to_string()))
        } else {
            Err(f.unknown("task", self.task_names))
        }
    }

    /// The semaphore that says that a task has taken its last wakeup.
    fn taken(&mut self, name: &str) -> schedlab_sim::program::SemId {
        let plan = &mut *self.plan;
        self.objects
            .sems
            .get_or(&format!("wakeup of {name} taken"), || plan.sem(1))
    }

    /// The semaphore that counts a task's wakeups. No step can name it: it has a blank in its name.
    fn inbox(&mut self, name: &str) -> schedlab_sim::program::SemId {
        let plan = &mut *self.plan;
        self.objects
            .sems
            .get_or(&format!("wakeups of {name}"), || plan.sem(0))
    }
}
