//! Agreement with SciPy and NumPy of what is built on top of scores: temperature scaling, conformal
//! sets and intervals. Values and tolerances as in `golden.rs`.

use burn_bayes_eval::{
    ClassProbabilities, ConformalAps, ConformalLac, ConformalNormalisedResidual,
    ConformalRandomisedAps, ConformalResidual, LabelledProbabilities, PredictionSets, Temperature,
    nll,
};
use serde::Deserialize;

use crate::golden::{assert_all_close, assert_close, rounding};

#[derive(Deserialize)]
struct Golden {
    temperature: TemperatureCase,
    conformal_classification: ConformalClassification,
    conformal_regression: ConformalRegression,
}

#[derive(Deserialize)]
struct TemperatureCase {
    rows: usize,
    classes: usize,
    probabilities: Vec<f64>,
    labels: Vec<usize>,
    value: f64,
    scaled: Vec<f64>,
    nll: f64,
}

#[derive(Deserialize)]
struct ConformalClassification {
    calibration_rows: usize,
    rows: usize,
    classes: usize,
    level: f64,
    probabilities: Vec<f64>,
    labels: Vec<usize>,
    uniforms: Vec<f64>,
    lac: ExpectedSets,
    aps: ExpectedSets,
    randomised_aps: ExpectedSets,
}

#[derive(Deserialize)]
struct ExpectedSets {
    threshold: f64,
    sets: Vec<Vec<usize>>,
    coverage: f64,
    mean_size: f64,
}

impl ExpectedSets {
    fn check(&self, threshold: f64, sets: &PredictionSets, labels: &[usize]) {
        assert_close(threshold, self.threshold, rounding(10, 1.0));
        let found: Vec<Vec<usize>> = (0..sets.rows()).map(|row| sets.classes_of(row)).collect();
        assert_eq!(found, self.sets);
        assert_close(
            sets.coverage(labels).unwrap(),
            self.coverage,
            rounding(1, 1.0),
        );
        assert_close(
            sets.mean_size(),
            self.mean_size,
            rounding(1, self.mean_size),
        );
    }
}

#[derive(Deserialize)]
struct ConformalRegression {
    level: f64,
    predicted: Vec<f64>,
    spreads: Vec<f64>,
    targets: Vec<f64>,
    threshold: f64,
    normalised_threshold: f64,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("golden/eval.json")).unwrap()
}

#[test]
fn the_temperature_is_the_root_that_scipy_finds() {
    let golden = golden().temperature;
    let (rows, classes) = (golden.rows, golden.classes);
    let table = ClassProbabilities::new(&golden.probabilities, rows, classes).unwrap();
    let labelled = LabelledProbabilities::new(&table, &golden.labels).unwrap();
    let temperature = Temperature::fit(&labelled).unwrap();
    // The slope is a sum over the table of terms of about one, and so is its own slope.
    assert_close(
        temperature.value(),
        golden.value,
        rounding(rows * classes, 1.0),
    );
    let scaled = temperature.apply(&table);
    assert_all_close(scaled.values(), &golden.scaled, rows * classes);
    let scaled = LabelledProbabilities::new(&scaled, &golden.labels).unwrap();
    assert_close(nll(&scaled), golden.nll, rounding(rows, 1.0));
}

#[test]
fn conformal_sets_agree_with_numpy() {
    let golden = golden().conformal_classification;
    let (values, labels, uniforms) = (&golden.probabilities, &golden.labels, &golden.uniforms);
    let (known, classes, level) = (golden.calibration_rows, golden.classes, golden.level);
    let (known_values, new_values) = values.split_at(known * classes);
    let (known_labels, new_labels) = labels.split_at(known);
    let (known_uniforms, new_uniforms) = uniforms.split_at(known);
    let calibration = ClassProbabilities::new(known_values, known, classes).unwrap();
    let calibration = LabelledProbabilities::new(&calibration, known_labels).unwrap();
    let new = ClassProbabilities::new(new_values, golden.rows, classes).unwrap();

    let lac = ConformalLac::calibrate(&calibration, level).unwrap();
    golden
        .lac
        .check(lac.threshold(), &lac.sets(&new).unwrap(), new_labels);
    let aps = ConformalAps::calibrate(&calibration, level).unwrap();
    golden
        .aps
        .check(aps.threshold(), &aps.sets(&new).unwrap(), new_labels);
    let aps = ConformalRandomisedAps::calibrate(&calibration, level, known_uniforms).unwrap();
    let sets = aps.sets(&new, new_uniforms).unwrap();
    golden
        .randomised_aps
        .check(aps.threshold(), &sets, new_labels);
}

#[test]
fn conformal_intervals_agree_with_numpy() {
    let golden = golden().conformal_regression;
    let ConformalRegression {
        level,
        predicted,
        spreads,
        targets,
        ..
    } = &golden;
    let plain = ConformalResidual::calibrate(predicted, targets, *level).unwrap();
    assert_eq!(plain.threshold(), golden.threshold);
    let normalised =
        ConformalNormalisedResidual::calibrate(predicted, spreads, targets, *level).unwrap();
    assert_close(
        normalised.threshold(),
        golden.normalised_threshold,
        rounding(1, golden.normalised_threshold),
    );
}
