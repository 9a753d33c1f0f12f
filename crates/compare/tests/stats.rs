//! Statistics against NumPy and SciPy: `fixtures/stats.json`, made by
//! `fixtures/make_stats.py`.

use schedlab_compare::welch::{t_quantile, welch};
use schedlab_compare::{Confidence, stats};
use serde_json::Value;

fn fixture() -> Value {
    serde_json::from_str(include_str!("fixtures/stats.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|x| x.as_f64().unwrap())
        .collect()
}

#[track_caller]
fn same(found: Option<f64>, expected: &Value, what: &str, digits: f64) {
    let (Some(found), Some(expected)) = (found, expected.as_f64()) else {
        assert!(
            found.is_none() && expected.is_null(),
            "{what}: {found:?}, expected {expected}"
        );
        return;
    };
    let scale = found.abs().max(expected.abs()).max(f64::MIN_POSITIVE);
    assert!(
        (found - expected).abs() <= digits * scale,
        "{what}: {found}, expected {expected}"
    );
}

#[test]
fn descriptive_statistics_are_numpys() {
    let fixture = fixture();
    let samples = fixture["samples"].as_array().unwrap();
    assert!(samples.len() > 30);
    for sample in samples {
        let x = numbers(&sample["values"]);
        let what = |name: &str| format!("{name} of {x:?}");
        same(stats::mean(&x), &sample["mean"], &what("mean"), 1e-14);
        same(stats::median(&x), &sample["median"], &what("median"), 1e-14);
        // A mean or spread near zero loses digits to cancellation on both sides.
        same(
            stats::stddev_population(&x),
            &sample["stddev_population"],
            &what("population stddev"),
            1e-9,
        );
        same(
            stats::stddev_sample(&x),
            &sample["stddev_sample"],
            &what("sample stddev"),
            1e-9,
        );
        same(
            stats::cv_percent(&x),
            &sample["cv_percent"],
            &what("cv"),
            1e-9,
        );
        for pair in sample["percentiles"].as_array().unwrap() {
            let percent = pair[0].as_f64().unwrap();
            same(
                stats::percentile(&x, percent),
                &pair[1],
                &what(&format!("percentile {percent}")),
                1e-13,
            );
        }
    }
}

#[test]
fn welch_intervals_are_scipys() {
    let fixture = fixture();
    let cases = fixture["welch"].as_array().unwrap();
    assert!(cases.len() > 80);
    for case in cases {
        let (base, other) = (numbers(&case["base"]), numbers(&case["other"]));
        let level = Confidence::new(case["level"].as_f64().unwrap()).unwrap();
        let interval = welch(&base, &other, level).unwrap();
        let what = format!("{base:?} {other:?} at {}", level.level());
        same(interval.degrees, &case["degrees"], &what, 1e-8);
        // Held to the width: a number near zero has lost its digits on both sides.
        let width = interval.high - interval.low;
        for (found, name) in [
            (interval.difference, "difference"),
            (interval.low, "low"),
            (interval.high, "high"),
        ] {
            let off = (found - case[name].as_f64().unwrap()).abs();
            assert!(off <= 1e-8 * width, "{what}: {interval:?}, expected {case}");
        }
    }
}

#[test]
fn t_quantiles_are_scipys() {
    for case in fixture()["t"].as_array().unwrap() {
        let (p, degrees) = (case[0].as_f64().unwrap(), case[1].as_f64().unwrap());
        same(
            t_quantile(p, degrees),
            &case[2],
            &format!("t({p}, {degrees})"),
            1e-10,
        );
    }
}

#[test]
fn what_has_no_value_is_none() {
    assert_eq!(stats::mean(&[]), None);
    assert_eq!(stats::median(&[]), None);
    assert_eq!(stats::stddev_population(&[]), None);
    assert_eq!(stats::stddev_population(&[4.0]), Some(0.0));
    assert_eq!(stats::stddev_sample(&[4.0]), None);
    assert_eq!(stats::cv_percent(&[-1.0, 1.0]), None);
    assert_eq!(stats::min(&[]), None);
    assert_eq!(stats::percentile(&[1.0], 100.1), None);
    assert_eq!(stats::percentile(&[1.0], f64::NAN), None);
    assert_eq!(welch(&[1.0], &[1.0, 2.0], Confidence::P95), None);
    assert_eq!(t_quantile(1.0, 3.0), None);
    assert_eq!(t_quantile(0.9, 0.0), None);
    for bad in [0.5, 0.0, 1.0, -1.0, f64::NAN] {
        assert!(Confidence::new(bad).is_err(), "{bad}");
    }
}

#[test]
fn runs_that_never_vary_leave_an_interval_without_width() {
    let same = welch(&[3.0, 3.0], &[3.0, 3.0, 3.0], Confidence::P95).unwrap();
    assert_eq!((same.low, same.high, same.degrees), (0.0, 0.0, None));
    assert!(!same.excludes_zero() && same.within(0.0));
    let moved = welch(&[3.0, 3.0], &[2.0, 2.0], Confidence::P95).unwrap();
    assert!(moved.excludes_zero() && moved.difference == -1.0);
}
