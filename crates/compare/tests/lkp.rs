//! The LKP table against reports of the kernel test robot and against C's
//! printf.

use schedlab_compare::lkp::{Hidden, LkpCell, LkpOptions, Select, render, value_row};
use schedlab_compare::metric::MetricKey;
use schedlab_compare::published::{LkpFigure, LkpFigures, PrintedCell, PrintedVariant};
use schedlab_compare::{CompareError, Direction, Metric, ResultSet, Run, Variant, stats};

const WAKEUP: &str = include_str!("fixtures/wakeup_preempt_lkp.tsv");
const YIELD: &str = include_str!("fixtures/yield_forfeit_lkp.tsv");

fn all() -> LkpOptions {
    LkpOptions {
        all: true,
        ..LkpOptions::default()
    }
}

/// Three runs with this mean that print this spread.
fn runs(mean: f64, stddev_percent: Option<u32>) -> Vec<f64> {
    let spread = stddev_percent.map_or(0.0, |percent| (f64::from(percent) + 0.5) / 100.0 * mean);
    // Of m - d, m, m + d the population stddev is d·√(2/3).
    let d = spread * 1.5_f64.sqrt();
    vec![mean - d, mean, mean + d]
}

/// A mean for the base and one for the variant that print as published, with the
/// published change between them.
fn means(base: &PrintedCell, variant: &PrintedVariant) -> (f64, f64) {
    const STEPS: u32 = 200;
    let inside = |low: f64, high: f64| {
        (1..STEPS).map(move |at| low + (high - low) * f64::from(at) / f64::from(STEPS))
    };
    let (value, change) = (&variant.cell.average, &variant.change);
    for b in inside(base.average.low, base.average.high) {
        for v in inside(value.low, value.high) {
            let c = if change.relative {
                100.0 * (v - b) / b
            } else {
                v - b
            };
            if c > change.number.low && c < change.number.high {
                return (b, v);
            }
        }
    }
    panic!("no means print as {base:?} {variant:?}");
}

/// Results of two variants that print as these rows.
fn like(rows: &[&LkpFigure], variants: [Variant; 2]) -> ResultSet {
    let mut set = ResultSet::new("commit");
    let mut columns = [
        vec![Run::new("0"), Run::new("1"), Run::new("2")],
        vec![Run::new("0"), Run::new("1"), Run::new("2")],
    ];
    for row in rows {
        set.declare(Metric::new(row.metric.as_str()).unwrap())
            .unwrap();
        let (base, value) = means(&row.base, &row.variants[0]);
        let cells = [(base, &row.base), (value, &row.variants[0].cell)];
        for (column, (mean, cell)) in columns.iter_mut().zip(cells) {
            for (run, x) in column.iter_mut().zip(runs(mean, cell.stddev_percent)) {
                run.record(row.metric.as_str(), x).unwrap();
            }
        }
    }
    for (variant, column) in variants.into_iter().zip(columns) {
        let name = variant.name().to_owned();
        set.add_variant(variant).unwrap();
        for run in column {
            set.add_run(&name, run).unwrap();
        }
    }
    set
}

#[test]
fn a_real_report_comes_out_byte_for_byte() {
    let report = include_str!("fixtures/report_sockpair.txt");
    let figures = LkpFigures::parse(YIELD).unwrap();
    // The report's first 32 rows, handed over in another order.
    let mut rows: Vec<&LkpFigure> = figures
        .rows
        .iter()
        .filter(|row| row.test.as_deref() == Some("sockpair"))
        .take(32)
        .collect();
    rows.sort_by_key(|row| row.metric.chars().rev().collect::<String>());
    let mut set = like(
        &rows,
        [
            Variant::new("0d4eaf8caf")
                .with_title("sched/fair: Do not balance task to a throttled cfs_rq")
                .with_head("0d4eaf8caf8cd633b23e949e2996b420052c2d45"),
            Variant::new("15bf8c7b35")
                .with_title("sched/fair: Forfeit vruntime on yield")
                .with_head("15bf8c7b35e31295b26241425c0a61102e92109f"),
        ],
    );
    for (key, value) in [
        ("compiler", "gcc-14"),
        ("cpufreq_governor", "performance"),
        ("kconfig", "x86_64-rhel-9.4"),
        ("nr_threads", "100%"),
        ("rootfs", "debian-13-x86_64-20250902.cgz"),
        ("tbox_group", "lkp-srf-2sp3"),
        ("test", "sockpair"),
        ("testcase", "stress-ng"),
        ("testtime", "60s"),
    ] {
        set.add_common(key, value).unwrap();
    }
    assert_eq!(render(&set, &all()).unwrap().text, report);
}

#[test]
fn rows_of_three_kernels_come_out_byte_for_byte() {
    let figures = LkpFigures::parse(WAKEUP).unwrap();
    let mut seen = 0;
    for expected in include_str!("fixtures/report_wakeup_preempt.txt").lines() {
        let key = expected.split(' ').next_back().unwrap();
        let row = figures.rows.iter().find(|row| row.metric == key).unwrap();
        let cells: Vec<LkpCell> = std::iter::once(&row.base)
            .chain(row.variants.iter().map(|v| &v.cell))
            .map(PrintedCell::as_cell)
            .collect();
        let changes: Vec<f64> = row.variants.iter().map(|v| v.change.number.value).collect();
        assert_eq!(value_row(key, &cells, &changes), expected);
        seen += 1;
    }
    assert_eq!(seen, 30);
}

#[test]
fn rows_are_what_c_prints() {
    let rows: serde_json::Value =
        serde_json::from_str(include_str!("fixtures/lkp_rows.json")).unwrap();
    let rows = rows.as_array().unwrap();
    assert!(rows.len() > 80);
    for row in rows {
        let key = row["key"].as_str().unwrap();
        let mut set = ResultSet::new("commit");
        set.declare(Metric::new(key).unwrap()).unwrap();
        for (at, column) in row["columns"].as_array().unwrap().iter().enumerate() {
            let mut variant = Vec::new();
            for (run, value) in column.as_array().unwrap().iter().enumerate() {
                variant.push(
                    Run::new(run.to_string())
                        .with(key, value.as_f64().unwrap())
                        .unwrap(),
                );
            }
            let name = format!("v{at}");
            set.add_variant(Variant::new(name.as_str())).unwrap();
            for run in variant {
                set.add_run(&name, run).unwrap();
            }
        }
        let text = render(&set, &all()).unwrap().text;
        let line = text.lines().find(|line| line.ends_with(key)).unwrap();
        assert_eq!(line, row["row"].as_str().unwrap(), "{row}");
    }
}

#[test]
fn the_order_of_a_whole_report_is_the_robots() {
    let figures = LkpFigures::parse(WAKEUP).unwrap();
    let mut set = ResultSet::new("commit");
    let columns = |row: &LkpFigure| {
        // The printed changes decide within perf-profile, so they are kept exactly.
        let base = row.base.average.value;
        let value = |v: &PrintedVariant| {
            let c = v.change.number.value;
            // -0.0 and +0.0 are different places.
            let c = if c == 0.0 { c.signum() * 0.02 } else { c };
            if v.change.relative {
                base * (1.0 + c / 100.0)
            } else {
                base + c
            }
        };
        [base, value(&row.variants[0]), value(&row.variants[1])]
    };
    let mut runs = [Run::new("0"), Run::new("0"), Run::new("0")];
    for row in figures.rows.iter().rev() {
        set.declare(Metric::new(row.metric.as_str()).unwrap())
            .unwrap();
        for (run, value) in runs.iter_mut().zip(columns(row)) {
            run.record(row.metric.as_str(), value).unwrap();
        }
    }
    for (name, run) in ["base", "a", "b"].into_iter().zip(runs) {
        set.add_variant(Variant::new(name)).unwrap();
        set.add_run(name, run).unwrap();
    }
    let listed = render(&set, &all()).unwrap().listed;
    assert_eq!(listed.len(), 505);
    // In perf-profile many rows print the same change: there only section and
    // first change are known. Everywhere else the order is by key.
    let place = |key: &str| {
        let row = figures.rows.iter().find(|row| row.metric == key).unwrap();
        if key.starts_with("perf-profile.") {
            let section = key.split('.').take(2).collect::<Vec<_>>().join(".");
            format!("{section} {:+}", row.variants[0].change.number.value)
        } else {
            key.to_owned()
        }
    };
    let found: Vec<String> = listed.iter().map(|key| place(key)).collect();
    let expected: Vec<String> = figures.rows.iter().map(|row| place(&row.metric)).collect();
    assert_eq!(found, expected);
}

/// Results of some variants: name, and per metric the runs.
fn results(metrics: &[Metric], variants: &[(&str, &[&[f64]])]) -> ResultSet {
    let mut set = ResultSet::new("variant");
    for metric in metrics {
        set.declare(metric.clone()).unwrap();
    }
    for (name, columns) in variants {
        set.add_variant(Variant::new(*name)).unwrap();
        for at in 0..columns.iter().map(|runs| runs.len()).max().unwrap_or(0) {
            let mut run = Run::new(format!("seed={at}"));
            for (metric, runs) in metrics.iter().zip(*columns) {
                if let Some(value) = runs.get(at) {
                    run.record(metric.key.as_str(), *value).unwrap();
                }
            }
            set.add_run(name, run).unwrap();
        }
    }
    set
}

fn metric(key: &str) -> Metric {
    Metric::new(key).unwrap()
}

#[test]
fn four_variants_of_a_study() {
    let metrics = [
        metric("hackbench.throughput")
            .with_unit("KB/s")
            .with_direction(Direction::BetterHigh)
            .primary(),
        metric("sched.involuntary_switches"),
        metric("sched.idle%"),
        metric("sched.migrations"),
    ];
    let set = results(
        &metrics,
        &[
            (
                "base",
                &[
                    &[623_219.0, 620_000.0, 630_500.0],
                    &[1.6e8, 1.7e8, 1.65e8],
                    &[3.25, 3.5, 3.0],
                    &[900.0, 1100.0, 1000.0],
                ],
            ),
            (
                "rq->nr_running",
                &[
                    &[541_887.0, 540_000.0, 543_000.0],
                    &[1.7e8, 1.71e8, 1.69e8],
                    &[1.25, 1.5, 1.0],
                    &[950.0, 1050.0, 1000.0],
                ],
            ),
            (
                "rq->cfs.nr_running",
                &[
                    &[603_080.0, 600_000.0, 604_000.0],
                    &[2.4e8, 2.6e8, 2.5e8],
                    &[2.25, 2.5, 2.0],
                    &[990.0, 1010.0, 1000.0],
                ],
            ),
            (
                "cfs_rq->nr_running",
                &[
                    &[623_000.0, 622_000.0, 629_000.0],
                    &[1.65e8, 1.66e8, 1.64e8],
                    &[3.25, 3.5, 3.0],
                    &[1000.0, 1000.0, 1000.0],
                ],
            ),
        ],
    );
    let table = render(&set, &LkpOptions::default()).unwrap();
    // The bars at the edges keep the blanks at the ends of the lines in sight.
    let shown: String = table
        .text
        .lines()
        .map(|line| format!("|{line}|\n"))
        .collect();
    insta::assert_snapshot!(shown, @r"
    |=========================================================================================|
    |variant: |
    |  base|
    |  rq->nr_running|
    |  rq->cfs.nr_running|
    |  cfs_rq->nr_running|
    ||
    |            base              rq->nr_running          rq->cfs.nr_running          cfs_rq->nr_running |
    |---------------- --------------------------- --------------------------- --------------------------- |
    |         %stddev     %change         %stddev     %change         %stddev     %change         %stddev|
    |             \          |                \          |                \          |                \  |
    |    624573           -13.3%     541629            -3.6%     602360            +0.0%     624666        hackbench.throughput|
    |      3.25 ±  6%      -2.0        1.25 ± 16%      -1.0        2.25 ±  9%      +0.0        3.25 ±  6%  sched.idle%|
    |  1.65e+08 ±  2%      +3.0%    1.7e+08           +51.5%    2.5e+08 ±  3%      +0.0%   1.65e+08        sched.involuntary_switches|
    ||
    ");
    assert_eq!((table.considered, table.listed.len()), (4, 3));
    assert_eq!(
        table.hidden.into_iter().collect::<Vec<_>>(),
        [(Hidden::RangesOverlap, 1)]
    );

    let short = render(
        &set,
        &LkpOptions {
            select: Select::Primary,
            ..LkpOptions::default()
        },
    )
    .unwrap();
    assert_eq!(
        (short.considered, short.listed),
        (1, vec!["hackbench.throughput".to_owned()])
    );

    let other_base = LkpOptions {
        base: Some("cfs_rq->nr_running".to_owned()),
        ..LkpOptions::default()
    };
    let text = render(&set, &other_base).unwrap().text;
    assert!(
        text.contains("\ncfs_rq->nr_runni                        base "),
        "{text}"
    );
}

#[test]
fn failures_come_first_under_their_own_head() {
    let metrics = [
        metric("hackbench.throughput"),
        metric("dmesg.soft_lockup").failure(),
        metric("dmesg.oops").failure(),
    ];
    let set = results(
        &metrics,
        &[
            (
                "base",
                &[&[10.0, 10.0, 10.0], &[0.0, 0.0, 0.0], &[1.0, 0.0, 0.0]],
            ),
            (
                "patched",
                &[&[20.0, 20.0, 20.0], &[0.0, 1.0, 1.0], &[0.0, 0.0, 0.0]],
            ),
        ],
    );
    let shown: String = render(&set, &LkpOptions::default())
        .unwrap()
        .text
        .lines()
        .map(|line| format!("|{line}|\n"))
        .collect();
    insta::assert_snapshot!(shown, @r"
    |=========================================================================================|
    |variant: |
    |  base|
    |  patched|
    ||
    |            base                     patched |
    |---------------- --------------------------- |
    |       fail:runs  %reproduction    fail:runs|
    |           |             |             |    |
    |          1:3          -33%            :3     dmesg.oops|
    |           :3           67%           2:3     dmesg.soft_lockup|
    |         %stddev     %change         %stddev|
    |             \          |                \  |
    |     10.00          +100.0%      20.00        hackbench.throughput|
    ||
    ");
}

#[test]
fn profiles_are_ordered_by_section_and_change() {
    let metrics = [
        metric("perf-profile.self.cycles-pp.a"),
        metric("perf-profile.children.cycles-pp.a"),
        metric("perf-profile.children.cycles.b"),
        metric("perf-profile.children.cycles-pp.c"),
    ];
    let set = results(
        &metrics,
        &[
            ("base", &[&[5.0], &[5.0], &[5.0], &[5.0]]),
            ("patched", &[&[1.0], &[9.0], &[7.0], &[2.0]]),
        ],
    );
    assert_eq!(
        render(&set, &all()).unwrap().listed,
        [
            "perf-profile.children.cycles-pp.c",
            "perf-profile.children.cycles.b",
            "perf-profile.children.cycles-pp.a",
            "perf-profile.self.cycles-pp.a",
        ]
    );
}

#[test]
fn a_table_without_rows_says_why() {
    let metrics = [
        metric("a.same"),
        metric("a.noisy"),
        metric("b.close"),
        metric("meminfo.small"),
        metric("c.new"),
    ];
    let set = results(
        &metrics,
        &[
            (
                "base",
                &[
                    &[1.0, 1.0, 1.0],
                    &[1.0, 5.0, 9.0],
                    &[100.0, 100.0, 100.0],
                    &[1.0, 1.0, 1.0],
                    &[],
                ],
            ),
            (
                "patched",
                &[
                    &[1.0, 1.0, 1.0],
                    &[2.0, 6.0, 8.0],
                    &[103.0, 103.0, 103.0],
                    &[9.0, 9.0, 9.0],
                    &[4.0, 4.0, 4.0],
                ],
            ),
        ],
    );
    let table = render(&set, &LkpOptions::default()).unwrap();
    insta::assert_snapshot!(table.text.lines().skip(8).collect::<Vec<_>>().join("\n"), @r"
           1  the base never yielded it
           2  the ranges of the runs overlap beyond a median
           1  the medians differ by 1 % or less (5 % outside the test and the watched monitors)
           1  the values or the change are too small to matter for this kind of key
    To list every key, ask for all of them (--all).
    ");
    assert_eq!(table.listed, Vec::<String>::new());
    // Every key, on request.
    let everything = render(&set, &all()).unwrap();
    assert_eq!(
        (everything.listed.len(), everything.text.contains("passed")),
        (5, false)
    );

    let few = results(
        &[metric("a.b")],
        &[("base", &[&[1.0]]), ("patched", &[&[9.0]])],
    );
    let text = render(&few, &LkpOptions::default()).unwrap().text;
    assert!(
        text.contains("0 of 1 keys passed") && text.contains("1  fewer than 3 runs on both sides"),
        "{text}"
    );
    let empty = results(&[], &[("base", &[]), ("patched", &[])]);
    let text = render(&empty, &LkpOptions::default()).unwrap().text;
    assert!(
        text.contains("0 of 0 keys passed the listing filter: the results hold none."),
        "{text}"
    );
    let no_primary = LkpOptions {
        select: Select::Primary,
        ..LkpOptions::default()
    };
    let text = render(&set, &no_primary).unwrap().text;
    assert!(text.contains("0 of 0 primary keys passed"), "{text}");
}

#[test]
fn a_run_without_the_metric_counts_as_zero() {
    let set = results(
        &[metric("a.b")],
        &[("base", &[&[6.0, 6.0, 6.0]]), ("patched", &[&[6.0]])],
    );
    let mut set = set;
    for seed in ["seed=1", "seed=2"] {
        set.add_run("patched", Run::new(seed)).unwrap();
    }
    let text = render(&set, &all()).unwrap().text;
    assert!(
        text.contains("\n      6.00           -66.7%       2.00 ±141%  a.b\n"),
        "{text}"
    );
}

#[test]
fn two_variants_at_least() {
    let one = results(&[metric("a.b")], &[("base", &[&[1.0]])]);
    assert_eq!(
        render(&one, &all()),
        Err(CompareError::TooFewVariants { found: 1 })
    );
    let nobody = LkpOptions {
        base: Some("v6.12".to_owned()),
        ..LkpOptions::default()
    };
    let error = render(&one, &nobody).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no variant `v6.12` to compare with: expected one of base"
    );
}

#[test]
fn spread_of_the_fixture_runs_is_what_they_were_made_for() {
    // Guards the helper above: 13 % prints as 13.
    let x = runs(250.0, Some(13));
    assert!((stats::stddev_population(&x).unwrap() - 0.135 * 250.0).abs() < 1e-9);
    assert!(MetricKey::new("a.b").is_ok());
}
