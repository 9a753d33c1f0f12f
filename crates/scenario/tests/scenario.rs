//! Scenario files: what they become, and what is said of wrong ones.

use std::path::Path;

use schedlab_fair::profile::{NrScope, YieldRule};
use schedlab_fair::{Feature, Ns};
use schedlab_scenario::{Overrides, Preempt, Scenario};
use schedlab_sim::ServerSpec;
use schedlab_sim::program::{Dur, Mode, Op, Sched};

fn with(text: &str, options: &[&str]) -> Result<Scenario, String> {
    let mut overrides = Overrides::new();
    for option in options {
        overrides.push(option).map_err(|e| e.to_string())?;
    }
    Scenario::parse("s.toml", text, Path::new(""), &overrides).map_err(|e| e.to_string())
}

fn parse(text: &str) -> Scenario {
    with(text, &[]).unwrap()
}

fn error(text: &str) -> String {
    with(text, &[]).unwrap_err()
}

/// A task that makes any scenario complete.
const HOG: &str = "[[task]]\nname = \"a\"\nkind = \"hog\"\n";

#[test]
fn a_whole_scenario() {
    let s = parse(
        r#"
name = "mix"
duration = "2s"
seed = 7
[machine]
preset = "desktop-8"
hz = 250
[kernel]
profile = "6.13"
features = ["NO_RUN_TO_PARITY", "NEXT_BUDDY"]
base_slice = "3ms"
preempt = "lazy"
nr_scope = "rq->cfs.nr_running"
yield_rule = "forfeit"
[[group]]
name = "user.slice"
cpu.weight = 200
[[group]]
name = "app"
parent = "user.slice"
quota = "20ms"
[[task]]
name = "web"
count = 3
nice = -5
slice = "500us"
cpus = "0-3,6"
group = "app"
start = "10ms"
spacing = "1ms"
program = [
  "run 1ms..2ms",
  { loop = 4, steps = ["run 20us kernel cond_resched 5us", "send q 64", "sleep exp(3ms)"] },
  "timer t 16ms absolute",
]
[[task]]
name = "sink"
policy = "batch"
program = [{ loop = "forever", steps = ["recv q 64", "run 1us nopreempt"] }]
"#,
    );
    assert_eq!(
        (s.name.as_str(), s.seed, s.duration),
        ("mix", 7, Some(Ns::from_secs(2)))
    );
    assert_eq!((s.machine.cpus(), s.machine.hz), (8, 250));
    let profile = s.kernel.profile;
    assert!(
        !profile.features.has(Feature::RunToParity) && profile.features.has(Feature::NextBuddy)
    );
    assert_eq!(profile.tunables.base_slice, Some(Ns::from_ms(3)));
    assert_eq!(profile.nr_scope, NrScope::RootCfs);
    assert_eq!(profile.yield_rule, YieldRule::Forfeit);
    assert_eq!(s.kernel.preempt, Preempt::Lazy);
    assert_eq!(s.plan.groups[0].weight, 200);
    assert_eq!(s.plan.groups[1].parent, Some(0));
    assert_eq!(s.plan.groups[1].quota.unwrap().period, Ns::from_ms(100));

    let comms: Vec<&str> = s.plan.tasks.iter().map(|t| t.comm.as_str()).collect();
    assert_eq!(comms, ["web-0", "web-1", "web-2", "sink"]);
    let web = &s.plan.tasks[1];
    assert_eq!(web.affinity, [0, 1, 2, 3, 6]);
    assert_eq!(web.start, Ns::from_ms(11));
    assert_eq!(web.slice, Some(Ns::from_us(500)));
    assert_eq!((web.group, web.sched), (Some(1), Sched::Other { nice: -5 }));
    let ops = &s.plan.programs[web.program.0 as usize].ops;
    assert_eq!(
        ops[0],
        Op::Run {
            work: Dur::Uniform {
                lo: Ns::from_ms(1),
                hi: Ns::from_ms(2)
            },
            mode: Mode::User,
            cond_resched: None
        }
    );
    let Op::Loop {
        times: Some(4),
        body,
    } = &ops[1]
    else {
        panic!("no loop: {ops:?}")
    };
    assert_eq!(
        body[0],
        Op::Run {
            work: Dur::Fixed(Ns::from_us(20)),
            mode: Mode::Kernel,
            cond_resched: Some(Ns::from_us(5))
        }
    );
    assert_eq!(s.plan.channels.len(), 1);
}

#[test]
fn kinds_and_defaults() {
    let s = parse(
        r#"
[[task]]
name = "p"
kind = "periodic"
run = "2ms"
period = "16ms"
[[task]]
name = "pp"
kind = "pingpong"
count = 2
[[task]]
name = "y"
kind = "yielder"
"#,
    );
    assert_eq!(s.machine.cpus(), 1);
    assert_eq!(s.kernel.profile.name, "6.12-stable");
    assert_eq!(
        s.duration,
        Some(Ns::from_secs(1)),
        "endless tasks need an end"
    );
    let comms: Vec<&str> = s.plan.tasks.iter().map(|t| t.comm.as_str()).collect();
    assert_eq!(
        comms,
        ["p", "pp-ping-0", "pp-pong-0", "pp-ping-1", "pp-pong-1", "y"]
    );
    let finite = parse("[[task]]\nname = \"a\"\nprogram = [\"run 1ms\"]\n");
    assert_eq!(finite.duration, None);
}

#[test]
fn hackbench_with_the_programs_and_with_lkps_words() {
    let s = parse(
        "machine = \"study-16\"\n[workload]\nhackbench = { groups = 2, fds = 3, loops = 4, pipe = true }\n",
    );
    let h = s.workload.unwrap();
    assert_eq!(
        (h.groups, h.fds, h.loops, h.pipe, h.threads),
        (2, 3, 4, true, false)
    );
    assert_eq!(s.plan.tasks.len(), 13);
    let s = parse(
        "machine = \"spr-224\"\n[workload.hackbench]\nnr_threads = \"50%\"\nipc = \"socket\"\nmode = \"threads\"\n",
    );
    let h = s.workload.unwrap();
    assert_eq!(
        (h.groups, h.loops, h.pipe, h.threads),
        (112, 60_000, false, true)
    );
    let s = with(
        "machine = \"study-16\"\n[workload]\nhackbench = {}\n",
        &[
            "workload.groups=3",
            "machine=flat-2",
            "kernel.features=NO_RUN_TO_PARITY,NO_DELAY_ZERO",
            "duration=3ms",
        ],
    )
    .unwrap();
    assert_eq!(s.workload.unwrap().groups, 3);
    assert_eq!(s.machine.cpus(), 2);
    assert!(!s.kernel.profile.features.has(Feature::DelayZero));
    assert_eq!(s.duration, Some(Ns::from_ms(3)));
}

#[test]
fn what_is_accepted_without_effect_is_said() {
    let s = parse(&format!("machine = \"phone-6\"\n{HOG}"));
    let warned: Vec<String> = s.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warned,
        [
            "s.toml:1:11: `machine`: that its CPUs differ in speed is not simulated: all run at full capacity"
        ]
    );
}

#[test]
fn templates_and_names_of_running_tasks() {
    let text = "[[task]]\nname = \"p\"\nprogram = [\"fork c\", \"resume w-1\", \"wait_children\"]\n\
                [[task]]\nname = \"w\"\ncount = 2\nprogram = [\"suspend\"]\n\
                [[task]]\nname = \"c\"\ncount = 0\nnice = 3\nprogram = [\"run 1ms\"]\n";
    let s = parse(text);
    let child = s.plan.programs.iter().find(|p| p.name == "c").unwrap();
    assert_eq!(child.ops[0], Op::SetSched(Sched::Other { nice: 3 }));
    assert_eq!(
        error(&text.replace("w-1", "w")),
        "s.toml:3:22: `task[0].program[1]`: there is no task `w`; expected one of: p, w-0, w-1, c"
    );
    assert_eq!(
        error(&text.replace("nice = 3", "start = \"1ms\"")),
        "s.toml:11:9: `task[2].start`: has no effect in a template for fork (count = 0)"
    );
    assert_eq!(
        error(&text.replace("fork c", "fork w")),
        "s.toml:3:12: `task[0].program[0]`: there is no task with count = 0 (a template for fork) `w`; expected one of: c"
    );
}

#[test]
fn unknown_keys() {
    let nicee = error(&format!("{HOG}nicee = 3\n"));
    assert!(
        nicee.starts_with(
            "s.toml:4:1: unknown key `task[0].nicee`; did you mean `nice`?; expected one of: "
        ) && nicee.contains(", kind, name, nice, policy, program, "),
        "{nicee}"
    );
    assert_eq!(
        error(&format!("kernal = {{}}\n{HOG}"))
            .split("; expected")
            .next(),
        Some("s.toml:1:1: unknown key `kernal`; did you mean `kernel`?")
    );
    assert_eq!(
        error("[workload]\nhackbnech = {}\n"),
        "s.toml:2:1: unknown key `workload.hackbnech`; did you mean `hackbench`?; expected one of: hackbench"
    );
    assert!(
        error(&format!("[kernel]\nbaseslice = 1\n{HOG}"))
            .starts_with("s.toml:2:1: unknown key `kernel.baseslice`; did you mean `base_slice`?")
    );
}

#[test]
fn wrong_types_and_units() {
    assert_eq!(
        error(&format!("{HOG}slice = 3\n")),
        "s.toml:4:9: `task[0].slice`: expected a time with a unit, such as \"3ms\", \"250us\", \"1.5s\" or \
         \"700000ns\", found the integer 3"
    );
    assert_eq!(
        error(&format!("duration = \"3 parsec\"\n{HOG}"))
            .split(", found")
            .nth(1),
        Some(" the string \"3 parsec\"")
    );
    assert_eq!(
        error(&format!("{HOG}nice = \"low\"\n")),
        "s.toml:4:8: `task[0].nice`: expected an integer from -20 to 19, found the string \"low\""
    );
    assert_eq!(
        error(&format!("{HOG}nice = 20\n")),
        "s.toml:4:8: `task[0].nice`: expected an integer from -20 to 19, found the integer 20"
    );
    assert_eq!(
        error("task = 3\n"),
        "s.toml:1:8: `task`: expected a list of tasks, found the integer 3"
    );
    assert_eq!(
        error(&format!("machine = [1]\n{HOG}")),
        "s.toml:1:11: `machine`: expected the name of a machine, or a table, found an array"
    );
    assert_eq!(
        error(&format!("seed = 1.5\n{HOG}")),
        "s.toml:1:8: `seed`: expected an integer from 0 to 18446744073709551615, found the number 1.5"
    );
}

#[test]
fn cpus_outside_the_machine() {
    assert_eq!(
        error(&format!("machine = \"flat-4\"\n{HOG}cpus = \"0-4\"\n")),
        "s.toml:5:8: `task[0].cpus`: CPU 4 is outside the machine, which has CPUs 0 to 3"
    );
    assert_eq!(
        error(
            "machine = \"flat-4\"\n[[task]]\nname = \"a\"\nprogram = [\"run 1ms\",\n \"cpus 9\"]\n"
        ),
        "s.toml:5:2: `task[0].program[1]`: CPU 9 is outside the machine, which has CPUs 0 to 3"
    );
    assert_eq!(
        error(&format!("{HOG}cpus = \"x\"\n")),
        "s.toml:4:8: `task[0].cpus`: expected a CPU list such as \"0-3,8\" or \"all\", found the string \"x\""
    );
}

#[test]
fn zero_periods_and_empty_loops() {
    let periodic = "[[task]]\nname = \"a\"\nkind = \"periodic\"\nrun = \"1ms\"\nperiod = \"0ms\"\n";
    assert_eq!(
        error(periodic),
        "s.toml:5:10: `task[0].period`: expected a time with a unit, such as \"3ms\", \"250us\", \"1.5s\" or \
         \"700000ns\", above zero, found the string \"0ms\""
    );
    assert_eq!(
        error("[[task]]\nname = \"a\"\nprogram = [\"timer t 0ms\"]\n"),
        "s.toml:3:12: `task[0].program[0]`: expected \"timer NAME PERIOD [absolute]\", such as \"timer tick 16ms\", \
         found the string \"timer t 0ms\""
    );
    assert_eq!(
        error("[[task]]\nname = \"a\"\nprogram = [{ loop = \"forever\", steps = [\"yield\"] }]\n"),
        "s.toml:3:12: `task[0].program[0]`: a loop this long needs a step that takes time, such as \"run 1us\""
    );
    assert_eq!(
        error(&format!(
            "[[group]]\nname = \"g\"\nquota = \"10ms\"\nperiod = \"0ms\"\n{HOG}"
        )),
        "s.toml:4:10: `group[0].period`: expected a time from 1ms to 1s, found the string \"0ms\""
    );
}

#[test]
fn names_that_mean_nothing() {
    assert_eq!(
        error(&format!("{HOG}group = \"g\"\n")),
        "s.toml:4:9: `task[0].group`: there is no group `g`"
    );
    assert!(
        error(&format!("kernel.profile = \"6.12\"\n{HOG}"))
            .starts_with("s.toml:1:18: `kernel.profile`: there is no profile `6.12`; ")
    );
    assert!(
        error(&format!("kernel.features = [\"NO_RUN_TO_PARITI\"]\n{HOG}")).starts_with(
            "s.toml:1:20: `kernel.features[0]`: there is no feature `NO_RUN_TO_PARITI`; "
        )
    );
    assert!(
        error("[[task]]\nname = \"a\"\nprogram = [\"jump 3ms\"]\n")
            .starts_with("s.toml:3:12: `task[0].program[0]`: there is no step `jump`; ")
    );
    assert_eq!(
        error("[[task]]\nname = \"a\"\nprogram = [\"run 1ms\", \"send q 8\"]\n"),
        "s.toml:3:23: `task[0].program[1]`: nothing receives from the channel `q`"
    );
    assert_eq!(
        error(&format!("{HOG}{HOG}")),
        "s.toml:5:8: `task[1].name`: the name `a` is used twice"
    );
    assert_eq!(
        error("machine = \"spr-225\"\n"),
        "s.toml:1:11: `machine`: there is no machine `spr-225`; did you mean `spr-224`?; expected one of: flat-N, \
         study-16, desktop-8, phone-6, skl-104, srf-192, spr-224, epyc-256"
    );
}

#[test]
fn what_is_missing_or_contradicts() {
    assert_eq!(
        error("name = \"x\"\n"),
        "s.toml:1:1: `task` is missing; expected something that runs: [[task]], [workload] or rtapp"
    );
    assert_eq!(
        error("[[task]]\nname = \"a\"\n"),
        "s.toml:1:1: `task[0].program` is missing; expected a list of steps, or `kind` with one of: hog, periodic, \
         sleeper, yielder, pingpong, replay"
    );
    assert_eq!(
        error(&format!("kernel.preempt = \"lazy\"\n{HOG}")),
        "s.toml:1:18: `kernel.preempt`: the kernel 6.12-stable has no lazy preemption, which came with 6.13"
    );
    assert_eq!(
        error("[workload.hackbench]\ngroups = 3\nnr_threads = \"50%\"\n"),
        "s.toml:3:14: `workload.hackbench.nr_threads`: is another way to say `groups`; give one of them"
    );
    assert_eq!(
        error(&format!(
            "[machine]\npreset = \"study-16\"\ncpus = 10\n{HOG}"
        )),
        "s.toml:3:8: `machine.cpus`: the machine study-16 has 2 sockets, 1 caches a socket and 2 threads a core, so \
         its CPUs come in steps of 4"
    );
    assert_eq!(
        error("[[task]]\nname = \"a\"\nname = \"b\"\n"),
        "s.toml:3:1: duplicate key"
    );
    assert!(error("[[task\n").starts_with("s.toml:1:7: "));
}

#[test]
fn overrides_are_checked_like_the_file() {
    let over = |o: &str| with(HOG, &[o]).unwrap_err();
    assert_eq!(
        over("task.a.nice=20"),
        "--set task.a.nice=20: `task[0].nice`: expected an integer from -20 to 19, found the integer 20"
    );
    assert!(
        over("task.a.nicee=1").starts_with("--set task.a.nicee=1: unknown key `task[0].nicee`; ")
    );
    assert!(
        over("kernel.features=NO_X")
            .starts_with("--set kernel.features=NO_X: `kernel.features`: there is no feature")
    );
    assert!(over("task.b.nice=1").starts_with("--set task.b.nice=1: nothing is called `b` there"));
    assert_eq!(
        over("machine.cpus=0"),
        "--set machine.cpus=0: `machine.cpus`: expected an integer from 1 to 4096, found the integer 0"
    );
}

#[test]
fn an_rtapp_file_is_a_scenario_and_may_be_part_of_one() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let s = Scenario::load(&fixtures.join("duty.json"), &Overrides::new()).unwrap();
    assert_eq!(s.name, "duty");
    assert_eq!(s.plan.tasks.len(), 1);
    let text = "machine = \"flat-2\"\nrtapp = \"browser.json\"\n";
    let s = Scenario::parse("s.toml", text, &fixtures, &Overrides::new()).unwrap();
    assert_eq!(s.duration, Some(Ns::from_secs(2)));
    assert_eq!(s.warnings.len(), 3);
    let gone = Scenario::parse(
        "s.toml",
        "rtapp = \"no.json\"\n",
        &fixtures,
        &Overrides::new(),
    )
    .unwrap_err();
    assert!(
        gone.to_string().contains("no.json: cannot be read: "),
        "{gone}"
    );
}

#[test]
fn a_profile_may_be_written_without_quotes() {
    for (written, name) in [("6.1", "6.1"), ("7.0", "7.0"), ("6.19", "6.19")] {
        let s = parse(&format!("kernel.profile = {written}\n{HOG}"));
        assert_eq!(s.kernel.profile.name, name);
        let s = with(HOG, &[&format!("kernel.profile={written}")]).unwrap();
        assert_eq!(s.kernel.profile.name, name);
    }
    assert!(
        error(&format!("kernel.profile = 6.12\n{HOG}"))
            .starts_with("s.toml:1:18: `kernel.profile`: there is no profile `6.12`; ")
    );
}

#[test]
fn the_fair_server_takes_what_the_kernel_takes() {
    let server = |keys: &str| with(&format!("kernel.fair_server = {{ {keys} }}\n{HOG}"), &[]);
    let spec = |keys: &str| server(keys).unwrap().kernel.fair_server;
    assert_eq!(spec(""), ServerSpec::default());
    assert_eq!(
        spec("runtime = \"0s\", period = \"100us\", defer = false"),
        ServerSpec {
            runtime: Ns(0),
            period: Ns(100_000),
            defer: false,
        }
    );
    let refused = |keys: &str| server(keys).unwrap_err();
    assert!(refused("period = \"5s\"").contains("expected a time from 100us to 4.194304s"));
    assert!(refused("runtime = \"2s\"").contains("the runtime is longer than the period"));
    assert!(refused("period = \"10ms\"").contains("longer than the period"));
    assert!(refused("budget = 1").contains("kernel.fair_server.budget"));
}
