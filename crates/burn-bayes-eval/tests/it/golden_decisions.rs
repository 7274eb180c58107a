//! Agreement with SciPy and NumPy: temperature scaling, conformal sets and intervals, bounds and tests. For values
//! and tolerances see `golden.rs`.

use burn_bayes_eval::{
    ClassProbabilities, ConformalNormalisedResidual, ConformalSets, HeldOut, LabelledProbabilities,
    PairedLosses, PredictionSets, SelectiveBounds, SetScore, Temperature, nll, resampled_t_test,
};
use serde::Deserialize;

use crate::golden::{assert_all_close, assert_close, rounding};

#[derive(Deserialize)]
struct Golden {
    temperature: TemperatureCase,
    conformal_classification: ConformalClassification,
    conformal_regression: ConformalRegression,
    paired: Vec<PairedCase>,
    clopper_pearson: Vec<(usize, usize, f64, f64, f64)>,
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
    lac: ExpectedSets,
    aps: ExpectedSets,
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

/// Differences of losses, and the statistic and p-value of the t-test.
#[derive(Deserialize)]
struct PairedCase {
    differences: Vec<f64>,
    t: (f64, f64),
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
    let temperature = Temperature::fit(&HeldOut::for_new_rows(labelled)).unwrap();
    // The slope is a sum over the table with terms of about one, and so is its derivative.
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
    let (values, labels) = (&golden.probabilities, &golden.labels);
    let (known, classes, level) = (golden.calibration_rows, golden.classes, golden.level);
    let (known_values, new_values) = values.split_at(known * classes);
    let (known_labels, new_labels) = labels.split_at(known);
    let calibration = ClassProbabilities::new(known_values, known, classes).unwrap();
    let calibration = LabelledProbabilities::new(&calibration, known_labels).unwrap();
    let new = ClassProbabilities::new(new_values, golden.rows, classes).unwrap();

    let lac = ConformalSets::calibrate(&calibration, level, SetScore::Lac).unwrap();
    golden
        .lac
        .check(lac.threshold(), &lac.sets(&new).unwrap(), new_labels);
    let aps = ConformalSets::calibrate(&calibration, level, SetScore::Aps).unwrap();
    golden
        .aps
        .check(aps.threshold(), &aps.sets(&new).unwrap(), new_labels);
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
    let equal = vec![1.0; targets.len()];
    let plain = ConformalNormalisedResidual::calibrate(predicted, &equal, targets, *level).unwrap();
    assert_eq!(plain.threshold(), golden.threshold);
    let normalised =
        ConformalNormalisedResidual::calibrate(predicted, spreads, targets, *level).unwrap();
    assert_close(
        normalised.threshold(),
        golden.normalised_threshold,
        rounding(1, golden.normalised_threshold),
    );
}

#[test]
fn paired_tests_agree_with_scipy() {
    for case in golden().paired {
        let rows = case.differences.len();
        let paired = PairedLosses::new(&case.differences, &vec![0.0; rows]).unwrap();
        let found = resampled_t_test(&paired, 0.0).unwrap().unwrap();
        let (statistic, p_value) = case.t;
        assert_close(found.statistic, statistic, rounding(rows, statistic));
        assert_close(found.p_value, p_value, rounding(rows, 1.0));
    }
}

#[test]
fn bounds_agree_with_quantiles_of_the_beta_distribution() {
    for (events, trials, tail, lower, upper) in golden().clopper_pearson {
        // A relative error of a tail moves a limit by as many standard errors, at most 1/√(4n).
        let tolerance = rounding(1, 1.0) + cancellation(trials) * (0.25 / trials as f64).sqrt();
        let is_event: Vec<f64> = (0..trials)
            .map(|row| f64::from(u8::from(row < events)))
            .collect();
        // One threshold has two bounds, which share the remaining error probability.
        let bounds = |uncertainty: &[f64], losses: &[f64], threshold: f64| {
            let confidence = 1.0 - 2.0 * tail;
            SelectiveBounds::exact(uncertainty, losses, &[threshold], confidence)
                .unwrap()
                .points()[0]
        };
        let point = bounds(&vec![0.0; trials], &is_event, 0.5);
        assert_close(point.risk_upper, upper, tolerance);
        let is_referred: Vec<f64> = is_event.iter().map(|event| 1.0 - event).collect();
        let point = bounds(&is_referred, &vec![0.0; trials], 0.5);
        assert_eq!(point.kept, events);
        assert_close(point.coverage_lower, lower, tolerance);
    }
}

/// The relative error of a binomial tail, in which logarithms of factorials cancel.
fn cancellation(trials: usize) -> f64 {
    let trials = trials as f64 + 2.0;
    8.0 * f64::EPSILON * trials * trials.ln()
}
