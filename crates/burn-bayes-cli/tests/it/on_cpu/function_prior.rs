//! `fit --prior`: regressions with a Gaussian process as the prior over functions.

use std::f64::consts::TAU;
use std::fmt::Write;

use serde_json::Value;

use crate::workplace::{GAP, MOONS, Workplace};

const ROWS: u32 = 90;
/// The period of the series.
const PERIOD: f64 = 2.0;

const SERIES: &str = "fit --data series.csv --target y --task regression --model mlp:50 \
    --epochs 200 --batch-size 18 --draws 20";

/// A folder with a series of three periods of length 2, with deterministic errors of at most 0.1, and with one and a half
/// further periods.
fn with_series() -> Workplace {
    let place = Workplace::new();
    for (name, rows) in [("series.csv", 0..ROWS), ("ahead.csv", ROWS..3 * ROWS / 2)] {
        let mut text = String::from("t,y\n");
        for row in rows {
            let t = 6.0 * f64::from(row) / f64::from(ROWS);
            let error = 0.1 * (1e3 * f64::from(row * row)).sin();
            writeln!(text, "{t},{}", (TAU * t / PERIOD).sin() + error).unwrap();
        }
        place.write(name, &text);
    }
    place
}

fn number_of(scores: &Value, score: &str) -> f64 {
    let value = scores[score]["value"].as_f64();
    value.unwrap_or_else(|| panic!("{score}: {scores}"))
}

#[test]
fn a_regression_learns_the_kernel_of_its_prior() {
    let place = with_series();
    let fit = |options: &str| place.json(&format!("{SERIES} {options}"));
    let first = fit("--prior gp:periodic --out first");
    let kernel = first["kernel"].as_str().unwrap();
    // The period is that of the series, in the unit of the standardised input.
    let preprocessor = place.read("first/preprocessor.toml");
    let spread = preprocessor.split_once("spread = ").unwrap().1;
    let spread: f64 = spread.lines().next().unwrap().parse().unwrap();
    let period = kernel.split_once("periodic(").unwrap().1;
    let period: f64 = period.split(',').next().unwrap().parse().unwrap();
    assert!((period * spread - PERIOD).abs() < 0.01 * PERIOD, "{kernel}");
    assert!(place.read("first/model.toml").contains(kernel));
    let again = fit("--prior gp:periodic --out again");
    assert_eq!(again["kernel"], first["kernel"]);
    let file = |run: &str| std::fs::read(place.path(run).join("posterior.safetensors")).unwrap();
    assert_eq!(file("first"), file("again"));
    let weights = fit("--out weights");
    assert_eq!(weights["kernel"], Value::Null);
    assert_ne!(file("first"), file("weights"));
    // The target has the deviation 0.71, and the errors 0.07.
    let (functions, weights) = (
        number_of(&first["scores"], "rmse"),
        number_of(&weights["scores"], "rmse"),
    );
    assert!(
        functions < 0.15 && functions < 0.5 * weights,
        "{functions} {weights}"
    );
    let ahead =
        |run: &str| -> f64 { number_of(&place.json(&format!("evaluate {run} ahead.csv")), "rmse") };
    let (functions, weights) = (ahead("first"), ahead("weights"));
    assert!(functions < 0.2 && weights > 0.5, "{functions} {weights}");

    place.output("predict first series.csv --output predictions.csv");
    assert_eq!(place.read("predictions.csv").lines().count(), 1 + 90);
    place.output("evaluate first series.csv --json");
}

#[test]
fn methods_with_rows_or_gradients_accept_the_prior() {
    let place = Workplace::with_gap();
    for method in ["vifa", "mean-field", "slang", "vogn", "von"] {
        let options = GAP
            .replace("mean-field", method)
            .replace("--epochs 60", "--epochs 4");
        let outcome = place.json(&format!("{options} --prior gp:rbf+linear --out {method}"));
        let kernel = outcome["kernel"].as_str().unwrap();
        assert!(
            kernel.contains("rbf(") && kernel.contains("linear("),
            "{kernel}"
        );
    }
}

#[test]
fn a_fit_is_compared_with_the_exact_process() {
    let place = Workplace::with_gap();
    let fit = |options: &str| -> Value {
        place.json(&format!(
            "fit --data gap.csv --target price --task regression --prior gp:rbf {options}"
        ))
    };
    let finished = fit("--out finished");
    assert_eq!(finished["verdict"], "trust", "{finished}");
    let process = &finished["process"];
    assert_eq!(process["cure"], Value::Null, "{process}");
    for (place, most) in [("rows", 0.15), ("around", 0.35)] {
        let deviation = process[place]["deviation"].as_f64().unwrap();
        assert!(deviation > 0.0 && deviation < most, "{process}");
    }
    let unfinished = fit("--epochs 2 --method slang --out unfinished");
    assert_ne!(unfinished["verdict"], "trust", "{unfinished}");
    let cure = unfinished["process"]["cure"].as_str().unwrap();
    assert!(cure.contains("vifa"), "{unfinished}");
    let report = place.read("unfinished/report.html");
    assert!(report.contains("exact process"));
}

#[test]
fn a_prior_that_cannot_be_used_is_refused() {
    let place = Workplace::with_moons();
    let gap = Workplace::with_gap();
    gap.write("moons.csv", &place.read("moons.csv"));
    for (options, expected) in [
        (
            GAP.replace("mean-field", "swag"),
            "vifa, mean-field, slang, vogn, von",
        ),
        (GAP.replace("mean-field", "map"), "map does not support"),
        (MOONS.to_owned(), "regressions"),
        (format!("{GAP} --likelihood heteroscedastic"), "gaussian"),
        (GAP.replace("mlp:20", "linear"), "hidden layers"),
        (format!("{GAP} --prior-margin 0"), "above zero"),
        (
            format!("{GAP} --prior-precision learned"),
            "--prior-precision: ",
        ),
    ] {
        gap.fails(
            &format!("{options} --prior gp:rbf --out run"),
            2,
            &[expected],
        );
    }
    for (prior, expected) in [
        ("rbf", "neither `weights` nor `gp:`"),
        ("gp:cubic", "matern52"),
        ("gp:rbf+", "at character 5"),
        ("gp:rbf(2)", "learned"),
    ] {
        gap.fails(&format!("{GAP} --prior {prior} --out run"), 2, &[expected]);
    }
}
