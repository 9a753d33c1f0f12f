//! Published figures read back and recomputed.

use schedlab_compare::published::{
    DelayFigures, Interpretation, LkpFigures, NormalizedFigures, PublishedError, Recount,
};

const WAKEUP: &str = include_str!("fixtures/wakeup_preempt_lkp.tsv");
const YIELD: &str = include_str!("fixtures/yield_forfeit_lkp.tsv");
const SHARED_RUNQ: &str = include_str!("fixtures/shared_runq_tables.tsv");
const DESKTOP: &str = include_str!("fixtures/preemption_models_desktop.tsv");

/// Figures recomputed, figures that could not be, and how many do not follow.
fn counts(recount: &Recount) -> (usize, usize, usize) {
    (recount.checked, recount.skipped, recount.differing.len())
}

#[test]
fn every_printed_lkp_change_follows_from_base_and_value() {
    let wakeup = LkpFigures::parse(WAKEUP).unwrap();
    assert_eq!(
        (wakeup.rows.len(), wakeup.variants.clone()),
        (505, vec!["a".to_owned(), "b".to_owned()])
    );
    let recount = wakeup.recount();
    assert_eq!(counts(&recount), (1010, 0, 0), "{:#?}", recount.differing);

    let forfeit = LkpFigures::parse(YIELD).unwrap();
    assert_eq!(
        (forfeit.rows.len(), forfeit.variants.clone()),
        (286, vec![String::new()])
    );
    let recount = forfeit.recount();
    assert_eq!(counts(&recount), (286, 0, 0), "{:#?}", recount.differing);
}

#[test]
fn every_printed_improvement_follows_from_its_value() {
    let table = NormalizedFigures::parse(SHARED_RUNQ).unwrap();
    let recount = table.recount();
    // DeathStarBench prints no values.
    assert_eq!(counts(&recount), (330, 16, 0), "{:#?}", recount.differing);
    let raw = table
        .rows
        .iter()
        .filter(|row| row.interpretation == Interpretation::Raw)
        .count();
    assert_eq!((table.rows.len(), raw), (346, 60));
}

#[test]
fn every_printed_sum_of_delays_is_average_times_switches() {
    let table = DelayFigures::parse(DESKTOP).unwrap();
    let recount = table.recount();
    let totals = table.rows.iter().filter(|row| row.task == "TOTAL").count();
    assert_eq!(
        counts(&recount),
        (32 - totals, totals, 0),
        "{:#?}",
        recount.differing
    );
}

#[test]
fn a_figure_that_does_not_follow_is_counted_and_named() {
    let tampered = WAKEUP.replace(
        "hackbench.throughput\t623219\t\t-13.1%",
        "hackbench.throughput\t623219\t\t-13.2%",
    );
    let recount = LkpFigures::parse(&tampered).unwrap().recount();
    assert_eq!(counts(&recount), (1010, 0, 1));
    let differs = &recount.differing[0];
    assert_eq!(
        (differs.what.as_str(), differs.printed.as_str()),
        ("hackbench.throughput a", "-13.2")
    );
    assert!(
        tampered
            .lines()
            .nth(differs.line - 1)
            .unwrap()
            .starts_with("hackbench.throughput\t")
    );
    assert!(differs.low > -13.06 && differs.high < -13.04, "{differs:?}");

    // A share whose change is printed as relative, and the other way round.
    let head = "metric\tbase\tbase_stddev_pct\tchange\tvalue\tstddev_pct\n";
    let wrong_kind = format!(
        "{head}mpstat.cpu.all.usr%\t4.00\t\t+25.0%\t5.00\t\nvmstat.system.cs\t400\t\t+100.0\t500\t\n"
    );
    assert_eq!(
        LkpFigures::parse(&wrong_kind)
            .unwrap()
            .recount()
            .differing
            .len(),
        2
    );

    // The sign of an improvement depends on the direction.
    let flipped = SHARED_RUNQ.replace(
        "1-groups\tshared_runq\t0.90\t10.20",
        "1-groups\tshared_runq\t0.90\t-10.20",
    );
    assert_eq!(
        NormalizedFigures::parse(&flipped)
            .unwrap()
            .recount()
            .differing
            .len(),
        1
    );

    let sum = DESKTOP.replace("324608.328", "334608.328");
    assert_eq!(
        DelayFigures::parse(&sum).unwrap().recount().differing.len(),
        1
    );
}

#[test]
fn bad_tables_are_refused_with_line_and_column() {
    let lkp = |text: &str| LkpFigures::parse(text).unwrap_err().to_string();
    let head = "metric\tbase\tbase_stddev_pct\tchange\tvalue\tstddev_pct";
    assert_eq!(LkpFigures::parse("").unwrap_err(), PublishedError::Empty);
    assert_eq!(lkp("a\tb\n"), "line 1: no column `metric`: there are a, b");
    assert_eq!(
        lkp("metric\tbase\tbase_stddev_pct\n"),
        "line 1: no column `change`: there are metric, base, base_stddev_pct"
    );
    assert_eq!(
        lkp("metric\tbase\tbase_stddev_pct\tchange_a\tvalue_b\n"),
        "line 1: no column `value_a`: there are metric, base, base_stddev_pct, change_a, value_b"
    );
    assert_eq!(
        lkp("metric\tbase\tbase\n"),
        "line 1: column `base` is there twice"
    );
    assert_eq!(
        lkp(&format!("{head}\na.b\t1\n")),
        "line 2: 2 cells: expected 6, separated by tabs"
    );
    assert_eq!(
        lkp(&format!(
            "{head}\na.b\t1\t\t+1.0%\t1\t\na.b\t1k\t\t+1.0%\t1\t\n"
        )),
        "line 3, column `base`: \"1k\": expected a number such as 3.35, 36869 or 1.654e+08"
    );
    assert_eq!(
        lkp(&format!("{head}\na.b\t1\t\t1.0%\t1\t\n")),
        "line 2, column `change`: \"1.0%\": expected a change such as -13.1% or +0.3"
    );
    assert_eq!(
        lkp(&format!("{head}\na.b\t1\t-3\t+1.0%\t1\t\n")),
        "line 2, column `base_stddev_pct`: \"-3\": expected whole percent, or nothing"
    );
    assert_eq!(
        lkp(&format!("{head}\n\t1\t\t+1.0%\t1\t\n")),
        "line 2, column `metric`: \"\": expected some text"
    );
    assert_eq!(
        NormalizedFigures::parse(&SHARED_RUNQ.replacen("Lower is better", "lower", 1))
            .unwrap_err()
            .to_string(),
        "line 2, column `interpretation`: \"lower\": expected `Higher is better`, `Lower is better` or `raw`"
    );
    assert_eq!(
        DelayFigures::parse(&DESKTOP.replacen("2281560.794", "-1", 1))
            .unwrap_err()
            .to_string(),
        "line 2, column `runtime_ms`: \"-1\": expected milliseconds"
    );
}
