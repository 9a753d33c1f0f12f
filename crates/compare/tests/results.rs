//! Results: what goes in, what is refused, and the way to disk and back.

use proptest::prelude::*;
use schedlab_compare::{Direction, Metric, ResultSet, Run, SampleError, Variant};

fn set() -> ResultSet {
    let mut set = ResultSet::new("commit");
    set.add_common("testcase", "hackbench").unwrap();
    set.declare(
        Metric::new("hackbench.throughput")
            .unwrap()
            .with_unit("KB/s")
            .with_direction(Direction::BetterHigh)
            .primary(),
    )
    .unwrap();
    set.declare(Metric::new("dmesg.oops").unwrap().failure())
        .unwrap();
    set.add_variant(Variant::new("base").with_title("before"))
        .unwrap();
    set.add_variant(Variant::new("patched")).unwrap();
    set
}

fn run(id: &str, value: f64) -> Run {
    Run::new(id).with("hackbench.throughput", value).unwrap()
}

#[test]
fn the_stored_form_reads_back_and_is_readable() {
    let mut set = set();
    set.add_run("base", run("seed=1", 0.1 + 0.2)).unwrap();
    set.add_run(
        "patched",
        run("seed=1", 1e-300).with("dmesg.oops", 1.0).unwrap(),
    )
    .unwrap();
    let text = set.to_json();
    assert_eq!(ResultSet::from_json(&text).unwrap(), set);
    insta::assert_snapshot!(text, @r#"
    {
      "schema": "schedlab.results/1",
      "axis": "commit",
      "common": [
        [
          "testcase",
          "hackbench"
        ]
      ],
      "metrics": [
        {
          "key": "hackbench.throughput",
          "unit": "KB/s",
          "direction": "better_high",
          "role": "primary",
          "kind": "value"
        },
        {
          "key": "dmesg.oops",
          "unit": "",
          "direction": "unknown",
          "role": "side",
          "kind": "failure"
        }
      ],
      "variants": [
        {
          "name": "base",
          "title": "before",
          "runs": [
            {
              "id": "seed=1",
              "values": {
                "hackbench.throughput": 0.30000000000000004
              }
            }
          ]
        },
        {
          "name": "patched",
          "runs": [
            {
              "id": "seed=1",
              "values": {
                "dmesg.oops": 1.0,
                "hackbench.throughput": 1e-300
              }
            }
          ]
        }
      ]
    }
    "#);
}

#[test]
fn order_is_that_of_adding() {
    let mut set = ResultSet::new("variant");
    for name in ["z", "a", "m"] {
        set.declare(Metric::new(format!("{name}.x")).unwrap())
            .unwrap();
        set.add_variant(Variant::new(name)).unwrap();
    }
    let names: Vec<&str> = set.variants().iter().map(Variant::name).collect();
    let keys: Vec<&str> = set.metrics().iter().map(|m| m.key.as_str()).collect();
    assert_eq!(
        (names, keys),
        (vec!["z", "a", "m"], vec!["z.x", "a.x", "m.x"])
    );
    let (base, others) = set.against(Some("a")).unwrap();
    assert_eq!(
        (
            base.name(),
            others.iter().map(|v| v.name()).collect::<Vec<_>>()
        ),
        ("a", vec!["z", "m"])
    );
}

#[test]
fn unlike_things_are_refused() {
    let mut set = set();
    let again = Metric::new("hackbench.throughput")
        .unwrap()
        .with_direction(Direction::BetterHigh)
        .primary();
    let error = set.declare(again.clone().with_unit("MB/s")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "metric `hackbench.throughput` is declared twice, differing in its unit: unlike things are not compared"
    );
    set.declare(again.clone().with_unit("KB/s")).unwrap();
    let error = set
        .declare(again.with_unit("KB/s").with_direction(Direction::BetterLow))
        .unwrap_err();
    assert!(
        matches!(
            error,
            SampleError::Conflict {
                what: "direction",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(set.metrics().len(), 2);
}

#[test]
fn bad_values_and_names_are_refused_by_name() {
    let mut set = set();
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e101] {
        let error = Run::new("seed=1")
            .with("hackbench.throughput", value)
            .unwrap_err();
        assert!(
            matches!(&error, SampleError::BadValue { run, key, .. } if run == "seed=1" && key == "hackbench.throughput")
        );
    }
    let twice = run("seed=1", 1.0)
        .with("hackbench.throughput", 1.0)
        .unwrap_err();
    assert_eq!(
        twice.to_string(),
        "run `seed=1`: metric `hackbench.throughput` is given twice"
    );
    let unknown = set
        .add_run(
            "base",
            Run::new("1").with("hackbench.thruput", 1.0).unwrap(),
        )
        .unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "run `1`: metric `hackbench.thruput` is not declared"
    );
    for count in [-1.0, 0.5, 1e10] {
        let error = set
            .add_run("base", Run::new("1").with("dmesg.oops", count).unwrap())
            .unwrap_err();
        assert!(matches!(error, SampleError::BadCount { .. }), "{error}");
    }
    let nobody = set.add_run("bse", run("1", 1.0)).unwrap_err();
    assert_eq!(
        nobody.to_string(),
        "no variant `bse`: expected one of base, patched"
    );
    set.add_run("base", run("1", 1.0)).unwrap();
    let again = set.add_run("base", run("1", 2.0)).unwrap_err();
    assert_eq!(
        again.to_string(),
        "run `1` is there twice: expected every name once"
    );
    for name in ["", "  ", "a\nb", "a\tb"] {
        assert!(
            matches!(
                set.add_variant(Variant::new(name)),
                Err(SampleError::BadName { .. })
            ),
            "{name:?}"
        );
        assert!(
            matches!(
                set.add_run("base", Run::new(name)),
                Err(SampleError::BadName { .. })
            ),
            "{name:?}"
        );
        assert!(
            matches!(set.add_common(name, "x"), Err(SampleError::BadName { .. })),
            "{name:?}"
        );
    }
    assert!(matches!(
        set.add_variant(Variant::new("base")),
        Err(SampleError::Duplicate { .. })
    ));
    assert!(matches!(
        set.add_common("testcase", "x"),
        Err(SampleError::Duplicate { .. })
    ));
}

#[test]
fn stored_results_are_checked_like_fresh_ones() {
    let mut set = set();
    set.add_run("base", run("seed=1", 1.5)).unwrap();
    let text = set.to_json();
    let refuse = |from: &str, to: &str| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from} is not in the stored form");
        ResultSet::from_json(&changed).unwrap_err().to_string()
    };
    assert!(
        refuse("\"hackbench.throughput\": 1.5", "\"hackbench.other\": 1.5")
            .contains("`hackbench.other` is not declared")
    );
    assert!(refuse("1.5", "1e200").contains("no larger than 1e100"));
    assert!(refuse("1.5", "null").contains("invalid type: null"));
    assert!(refuse("\"hackbench.throughput\": 1.5", "\"x\": 1.5").contains("metric key \"x\""));
    assert!(refuse("results/1", "results/9").contains("expected \"schedlab.results/1\""));
    assert!(refuse("\"better_high\"", "\"up\"").contains("unknown variant `up`"));
    assert!(refuse("\"title\"", "\"titel\"").contains("unknown field `titel`"));
    assert!(refuse("\"patched\"", "\"base\"").contains("variant `base` is there twice"));
    let twice = "\"hackbench.throughput\": 1.5, \"hackbench.throughput\": 1.5";
    assert!(
        refuse("\"hackbench.throughput\": 1.5", twice)
            .contains("`hackbench.throughput` is given twice")
    );
    let cut = ResultSet::from_json(&text[..text.len() / 2])
        .unwrap_err()
        .to_string();
    assert!(
        cut.starts_with("stored results: ") && cut.contains("line"),
        "{cut}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every value survives the way to disk and back to the last bit.
    #[test]
    fn values_survive_storage(values in prop::collection::vec(-1e100_f64..1e100, 1..20), tiny in any::<f64>()) {
        let mut set = set();
        let values = values.into_iter().chain(Some(tiny).filter(|x| x.abs() <= 1e100));
        for (at, value) in values.enumerate() {
            set.add_run("base", run(&format!("seed={at}"), value)).unwrap();
        }
        let back = ResultSet::from_json(&set.to_json()).unwrap();
        let bits = |set: &ResultSet| {
            let samples = set.variant("base").unwrap().samples("hackbench.throughput");
            samples.values().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        prop_assert_eq!(bits(&back), bits(&set));
    }
}
