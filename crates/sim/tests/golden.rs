//! The golden traces of reference section 22, through the whole engine: times of the switches.

mod common;

use common::{add, forever, hog, machine, play, run_us, switches};
use schedlab_fair::{Ns, Profile};
use schedlab_sim::program::{Op, Sched};

fn check(profile: &str, tasks: &[(&str, Vec<Op>, i8, Option<u64>)], want: &str) {
    let mut c = machine(1);
    c.profile = Profile::by_name(profile).unwrap();
    c.profile.tunables.base_slice = Some(Ns(2_800_000));
    for (name, ops, nice, slice) in tasks {
        let t = add(&mut c, name, ops.clone());
        c.tasks[t].sched = Sched::Other { nice: *nice };
        c.tasks[t].slice = slice.map(Ns::from_us);
    }
    let (_, events) = play(c);
    assert_eq!(
        switches(&events, want.split(' ').count()),
        want,
        "{profile}"
    );
}

fn sleeper() -> Vec<Op> {
    vec![forever(vec![run_us(300), Op::Sleep(common::ns(1500))])]
}

const BOTH: [&str; 3] = ["6.12-stable", "6.12.0", "6.17"];

#[test]
fn t1() {
    for p in BOTH {
        check(
            p,
            &[("A", hog(), 0, None), ("B", hog(), 0, None)],
            "0:A 2:B 4:A 7:B 10:A 13:B 16:A 19:B",
        );
    }
}

#[test]
fn t2() {
    for p in BOTH {
        check(
            p,
            &[("A", hog(), 0, None), ("B", hog(), 5, None)],
            "0:A 2:B 4:A 9:B 12:A 21:B 24:A 33:B",
        );
    }
}

#[test]
fn t3() {
    let tasks = [("A", hog(), 0, None), ("B", hog(), 0, Some(500))];
    check("6.12-stable", &tasks, "0:B 1:A 3:B 5:A 8:B 11:A 14:B 17:A");
    check("6.17", &tasks, "0:B 1:A 3:B 5:A 6:B 7:A 8:B 9:A 10:B");
}

#[test]
fn t4() {
    for p in BOTH {
        check(
            p,
            &[("A", hog(), 0, None), ("S", sleeper(), 0, None)],
            "0:A 2:S 2.3:A 3.8:S 4.1:A 5.6:S 5.9:A 7.4:S 7.7:A 9.2:S",
        );
    }
}

#[test]
fn t5() {
    for p in BOTH {
        check(
            p,
            &[("A", hog(), 0, None), ("S", sleeper(), 0, Some(400))],
            "0:S 0.3:A 1.8:S 2.1:A 3.6:S 3.9:A 5.4:S",
        );
    }
}

#[test]
fn t6() {
    for p in BOTH {
        check(
            p,
            &[
                ("A", hog(), 0, None),
                ("B", hog(), 0, None),
                ("C", hog(), 0, None),
            ],
            "0:A 2:B 4:C 6:A 9:B 12:C 15:A",
        );
    }
}
