//! Comparisons and normalized tables.

use proptest::prelude::*;
use schedlab_compare::compare::{CompareError, CompareOptions, Difference, compare};
use schedlab_compare::lkp::{LkpOptions, render};
use schedlab_compare::normalized::{NormalizedCell, NormalizedError, NormalizedTable};
use schedlab_compare::published::{Interpretation, NormalizedFigures};
use schedlab_compare::verdict::Because;
use schedlab_compare::{Direction, Metric, ResultSet, Run, Variant, Verdict};

fn results(metric: Metric, variants: &[(&str, &[f64])]) -> ResultSet {
    let key = metric.key.as_str().to_owned();
    let mut set = ResultSet::new("variant");
    set.declare(metric).unwrap();
    for (name, values) in variants {
        set.add_variant(Variant::new(*name)).unwrap();
        for (at, value) in values.iter().enumerate() {
            set.add_run(
                name,
                Run::new(at.to_string()).with(key.as_str(), *value).unwrap(),
            )
            .unwrap();
        }
    }
    set
}

fn throughput() -> Metric {
    Metric::new("hackbench.throughput")
        .unwrap()
        .with_unit("KB/s")
        .with_direction(Direction::BetterHigh)
        .primary()
}

/// The only comparison in a set of one metric and two variants.
fn only(set: &ResultSet) -> Difference {
    compare(set, &CompareOptions::default())
        .unwrap()
        .rows
        .remove(0)
        .others
        .remove(0)
}

#[test]
fn verdicts_follow_direction_and_interval() {
    let (low, high): (&[f64], &[f64]) = (&[99.0, 100.0, 101.0], &[109.0, 110.0, 111.0]);
    let up = only(&results(throughput(), &[("base", low), ("patched", high)]));
    assert_eq!(
        (up.verdict, up.because),
        (Verdict::Better, Because::IntervalExcludesZero)
    );
    let down = only(&results(throughput(), &[("base", high), ("patched", low)]));
    assert_eq!(down.verdict, Verdict::Worse);
    let latency = throughput().with_direction(Direction::BetterLow);
    assert_eq!(
        only(&results(latency, &[("base", low), ("patched", high)])).verdict,
        Verdict::Worse
    );
    let unknown = throughput().with_direction(Direction::Unknown);
    let unknown = only(&results(unknown, &[("base", low), ("patched", high)]));
    assert_eq!(
        (unknown.verdict, unknown.because),
        (Verdict::Changed, Because::DirectionUnknown)
    );
    let noisy = only(&results(
        throughput(),
        &[("base", &[90.0, 110.0]), ("patched", &[80.0, 125.0])],
    ));
    assert_eq!(
        (noisy.verdict, noisy.because),
        (Verdict::CannotTell, Because::IntervalTooWide)
    );
    let one = only(&results(
        throughput(),
        &[("base", &[90.0]), ("patched", high)],
    ));
    assert_eq!(
        (one.verdict, one.because, one.interval),
        (Verdict::CannotTell, Because::TooFewRuns, None)
    );
    let close = only(&results(
        throughput(),
        &[
            ("base", &[100.0, 100.1, 99.9]),
            ("patched", &[100.1, 100.0, 99.9]),
        ],
    ));
    assert_eq!(
        (close.verdict, close.because),
        (Verdict::Same, Because::IntervalWithinMargin)
    );
}

/// To nine digits: the last ones are the mathematics library's.
fn rounded(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Array(items) => items.iter_mut().for_each(rounded),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(rounded),
        serde_json::Value::Number(number) if number.is_f64() => {
            let text = format!("{:.8e}", number.as_f64().unwrap());
            *value = text.parse::<f64>().unwrap().into();
        }
        _ => {}
    }
}

#[test]
fn a_comparison_as_json() {
    let set = results(
        throughput(),
        &[
            ("base", &[99.0, 100.0, 101.0]),
            ("patched", &[87.0, 88.0, 86.0]),
        ],
    );
    let text = compare(&set, &CompareOptions::default()).unwrap().to_json();
    assert!(
        text.starts_with("{\n  \"schema\": \"schedlab.comparison/1\",\n") && text.ends_with("}\n"),
        "{text}"
    );
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    rounded(&mut value);
    insta::assert_snapshot!(serde_json::to_string_pretty(&value["rows"]).unwrap(), @r#"
    [
      {
        "base": {
          "cv_percent": 1.0,
          "max": 101.0,
          "mean": 100.0,
          "median": 100.0,
          "min": 99.0,
          "missing": 0,
          "n": 3,
          "stddev": 1.0
        },
        "base_values": [
          99.0,
          100.0,
          101.0
        ],
        "direction": "better_high",
        "key": "hackbench.throughput",
        "kind": "value",
        "others": [
          {
            "because": "interval_excludes_zero",
            "change": -13.0,
            "change_percent": -13.0,
            "cv_percent": 1.14942529,
            "detectable_percent": 3.0352523,
            "effect": -10.4,
            "interval": {
              "degrees": 4.0,
              "difference": -13.0,
              "high": -10.7330421,
              "low": -15.2669579,
              "standard_error": 0.816496581
            },
            "interval_percent": [
              -15.2669579,
              -10.7330421
            ],
            "max": 88.0,
            "mean": 87.0,
            "median": 87.0,
            "min": 86.0,
            "missing": 0,
            "n": 3,
            "oddities": [],
            "p": 0.0000909618968,
            "p_adjusted": 0.0000909618968,
            "ranks": {
              "exact": true,
              "least_p": 0.1,
              "p": 0.1
            },
            "runs_needed": null,
            "stddev": 1.0,
            "values": [
              87.0,
              88.0,
              86.0
            ],
            "variant": "patched",
            "verdict": "worse"
          }
        ],
        "role": "primary",
        "unit": "KB/s"
      }
    ]
    "#);
}

#[test]
fn what_cannot_be_computed_is_null() {
    let zero = results(
        throughput(),
        &[("base", &[0.0, 0.0, 0.0]), ("patched", &[1.0, 2.0, 3.0])],
    );
    let difference = only(&zero);
    assert_eq!(
        (
            difference.change,
            difference.change_percent,
            difference.interval_percent
        ),
        (Some(2.0), None, None)
    );
    let gone = results(throughput(), &[("base", &[1.0, 2.0]), ("patched", &[])]);
    let difference = only(&gone);
    assert_eq!(
        (
            difference.change,
            difference.summary.n,
            difference.summary.mean
        ),
        (None, 0, None)
    );
    let text = compare(&gone, &CompareOptions::default())
        .unwrap()
        .to_json();
    assert!(text.contains("\"mean\": null"), "{text}");
}

#[test]
fn a_negative_base_keeps_the_sign_of_the_change() {
    let set = results(
        throughput(),
        &[("base", &[-10.0, -10.0]), ("patched", &[-5.0, -5.0])],
    );
    let difference = only(&set);
    assert_eq!(
        (difference.change_percent, difference.verdict),
        (Some(50.0), Verdict::Better)
    );
}

#[test]
fn options_out_of_range_are_refused() {
    let set = results(throughput(), &[("base", &[1.0]), ("patched", &[1.0])]);
    for margin in [-1.0, 100.5, f64::NAN] {
        let options = CompareOptions {
            same_within_percent: margin,
            ..CompareOptions::default()
        };
        assert!(
            matches!(compare(&set, &options), Err(CompareError::BadMargin(_))),
            "{margin}"
        );
    }
    let options = CompareOptions {
        base: Some("b".to_owned()),
        ..CompareOptions::default()
    };
    let error = compare(&set, &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no variant `b` to compare with: expected one of base, patched"
    );
    let none = compare(&ResultSet::new("variant"), &CompareOptions::default()).unwrap_err();
    assert_eq!(
        none.to_string(),
        "0 variant(s) in the results: expected two or more to compare"
    );
}

#[test]
fn published_normalized_cells_come_out_as_printed() {
    let figures =
        NormalizedFigures::parse(include_str!("fixtures/shared_runq_tables.tsv")).unwrap();
    let mut seen = 0;
    for row in &figures.rows {
        let (Some(value), Some(percent), Some(cv)) =
            (&row.value, &row.improvement_percent, &row.cv_percent)
        else {
            continue;
        };
        if row.interpretation == Interpretation::Raw
            || percent.text.contains('.') == value.text.is_empty()
        {
            continue;
        }
        // From the printed improvement, which has more digits than the value.
        let sign = if row.direction() == Direction::BetterLow {
            -1.0
        } else {
            1.0
        };
        let mean = 1.0 + sign * percent.value / 100.0;
        let cell = NormalizedCell::new(mean, 1.0, Some(cv.value), row.direction()).unwrap();
        let printed = format!("{} [{:>6}]({:>5})", value.text, percent.text, cv.text);
        // A value in the middle of two hundredths may print either way.
        let tie = ((percent.value.abs() * 100.0).round() as i64 - 50) % 100 == 0;
        if !tie {
            // The tables write the base's improvement as -0.00 or 0.00 by direction.
            let same_zero = |text: String| {
                if percent.value == 0.0 {
                    text.replace("-0.00", " 0.00")
                } else {
                    text
                }
            };
            assert_eq!(
                same_zero(cell.to_string()),
                same_zero(printed),
                "line {}",
                row.line
            );
        }
        seen += 1;
    }
    assert!(seen > 200, "{seen}");
    let base = |direction| {
        NormalizedCell::new(5.0, 5.0, Some(2.64), direction)
            .unwrap()
            .to_string()
    };
    assert_eq!(base(Direction::BetterLow), "1.00 [ -0.00]( 2.64)");
    assert_eq!(base(Direction::BetterHigh), "1.00 [  0.00]( 2.64)");
}

#[test]
fn a_normalized_table() {
    let time = || {
        Metric::new("hackbench.time")
            .unwrap()
            .with_unit("time in seconds")
            .with_direction(Direction::BetterLow)
    };
    let one = results(
        time(),
        &[
            ("base", &[10.0, 10.2, 9.8]),
            ("shared_runq", &[9.0, 9.1, 8.9]),
        ],
    );
    let many = results(time(), &[("base", &[20.0, 20.0]), ("shared_runq", &[])]);
    let cases = [("1-groups", &one), ("16-groups", &many)];
    let table = NormalizedTable::of("hackbench", "hackbench.time", &cases).unwrap();
    insta::assert_snapshot!(table.render(), @r"
    ==================================================================
    Test          : hackbench
    Units         : Normalized time in seconds
    Interpretation: Lower is better
    Statistic     : AMean
    ==================================================================
    Case:            base[pct imp](CV)  shared_runq[pct imp](CV)
     1-groups     1.00 [ -0.00]( 2.00)      0.90 [ 10.00]( 1.11)
    16-groups     1.00 [ -0.00]( 0.00)                         -
    ");
}

#[test]
fn unlike_cases_make_no_table() {
    let set = results(throughput(), &[("base", &[1.0]), ("patched", &[1.0])]);
    let other_unit = results(
        throughput().with_unit("MB/s"),
        &[("base", &[1.0]), ("patched", &[1.0])],
    );
    let other_variants = results(throughput(), &[("base", &[1.0]), ("v2", &[1.0])]);
    let no_direction = results(
        throughput().with_direction(Direction::Unknown),
        &[("base", &[1.0])],
    );
    let key = "hackbench.throughput";
    let of =
        |key: &str, cases: &[(&str, &ResultSet)]| NormalizedTable::of("t", key, cases).unwrap_err();
    assert_eq!(of(key, &[]), NormalizedError::NoCase);
    assert!(matches!(
        of("a.b", &[("1", &set)]),
        NormalizedError::NoMetric { .. }
    ));
    assert!(matches!(
        of(key, &[("1", &no_direction)]),
        NormalizedError::NoDirection { .. }
    ));
    assert!(matches!(
        of(key, &[("1", &set), ("2", &other_unit)]),
        NormalizedError::Differs { what: "metric", .. }
    ));
    assert!(matches!(
        of(key, &[("1", &set), ("2", &other_variants)]),
        NormalizedError::Differs {
            what: "variants",
            ..
        }
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever the values, nothing panics, no JSON number is missing but where
    /// said, the interval holds the difference, and the verdict is the mirror
    /// image when base and variant change places.
    #[test]
    fn any_values_compare(
        base in prop::collection::vec(prop_oneof![-1e100_f64..1e100, -10.0_f64..10.0, Just(0.0)], 0..6),
        other in prop::collection::vec(prop_oneof![-1e100_f64..1e100, -10.0_f64..10.0, Just(0.0)], 0..6),
    ) {
        let there = results(throughput(), &[("base", &base), ("patched", &other)]);
        let back = results(throughput(), &[("base", &other), ("patched", &base)]);
        let (a, b) = (only(&there), only(&back));
        if let Some(interval) = a.interval {
            prop_assert!(interval.low <= interval.difference && interval.difference <= interval.high);
            prop_assert!(interval.low.is_finite() && interval.high.is_finite());
        }
        let mirror = match a.verdict {
            Verdict::Better => Some(Verdict::Worse),
            Verdict::Worse => Some(Verdict::Better),
            Verdict::Appeared => Some(Verdict::Disappeared),
            Verdict::Disappeared => Some(Verdict::Appeared),
            // The margin is a share of the base, which is another one here.
            _ => None,
        };
        if let Some(mirror) = mirror {
            prop_assert_eq!(b.verdict, mirror);
        }
        let table = render(&there, &LkpOptions { all: true, ..LkpOptions::default() }).unwrap();
        prop_assert!(table.text.contains("hackbench.throughput"));
        prop_assert!(!table.text.contains("NaN"), "{}", table.text);
        prop_assert!(render(&there, &LkpOptions::default()).is_ok());
    }
}

#[test]
fn noise_among_many_metrics_is_no_regression_and_settings_are_no_metrics() {
    // One side metric in twenty differs by chance at 95 %: p near 0.03, alone it would count.
    let mut set = ResultSet::new("commit");
    let key = |n: usize| format!("vmstat.m{n}");
    for n in 0..40 {
        set.declare(
            Metric::new(key(n))
                .unwrap()
                .with_direction(Direction::BetterLow),
        )
        .unwrap();
    }
    let setting = "sched_debug.sysctl_sched.sysctl_sched_features";
    set.declare(Metric::new(setting).unwrap()).unwrap();
    for (variant, shift) in [("base", 0.0), ("patched", 2.4)] {
        set.add_variant(Variant::new(variant)).unwrap();
        for run in 0..3 {
            let mut values = Run::new(format!("{run}"));
            for n in 0..40 {
                let noise = [-1.0, 0.0, 1.0][(run + n) % 3];
                let value = 100.0 + noise + if n == 7 { shift } else { 0.0 };
                values.record(key(n), value).unwrap();
            }
            let mask = if shift == 0.0 {
                58_611_259.0
            } else {
                58_611_003.0
            };
            values.record(setting, mask).unwrap();
            set.add_run(variant, values).unwrap();
        }
    }
    let told = compare(&set, &CompareOptions::default()).unwrap();
    let row = &told.rows[7].others[0];
    assert!(row.interval.unwrap().excludes_zero(), "{row:?}");
    assert_eq!(
        (row.verdict, row.because),
        (Verdict::CannotTell, Because::ManyMetrics)
    );
    assert!(row.runs_needed.is_some());
    assert_eq!(told.rows[40].others[0].verdict, Verdict::Setting);
}
