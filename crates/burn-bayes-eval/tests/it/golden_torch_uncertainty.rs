//! Agreement with torch-uncertainty, on `golden/torch_uncertainty.json`, which `xtask/golden/torch_uncertainty_peer.py`
//! writes. For tolerances see `golden.rs`. Where the peer defines a score differently, the test states the relation.

use burn_bayes_eval::{
    BinaryScores, ClassProbabilities, ConformalSets, ConfusionMatrix, DrawProbabilities,
    GaussianMixture, LabelledProbabilities, NoisePrecision, PatchTotals, PredictionIntervals,
    QuantileCalibration, ReliabilityDiagram, RiskCoverage, SetScore, SparsificationError,
    TargetedMixture, ause, brier, classwise_calibration_error, expected_entropy,
    false_positive_rate_at, least_confidence, mixture_nll, mutual_information, nll, pit_values,
    smooth_calibration_error, winkler_scores,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::golden::{assert_close, rounding};

fn golden<T: DeserializeOwned>(section: &str) -> T {
    let text = include_str!("golden/torch_uncertainty.json");
    let all: serde_json::Value = serde_json::from_str(text).unwrap();
    serde_json::from_value(all[section].clone()).unwrap()
}

#[derive(Deserialize)]
struct Selective {
    uncertainty: Vec<f64>,
    errors: Vec<f64>,
    out_uncertainty: Vec<f64>,
    absolute: Vec<f64>,
    aurc: f64,
    augrc: f64,
    risk_at_80: f64,
    coverage_at_20: f64,
    ause: f64,
    fpr95: f64,
}

/// The areas by the trapezoid rule from coverage 1/n to 1, divided by 1 − 1/n, from ours.
fn trapezoids(curve: &RiskCoverage) -> (f64, f64) {
    let risks: Vec<f64> = curve.points().iter().map(|point| point.risk).collect();
    let rows = risks.len() as f64;
    let (first, last) = (risks[0], risks[risks.len() - 1]);
    let aurc = (rows * curve.aurc() - 0.5 * (first + last)) / (rows - 1.0);
    // Ours has the triangle up to coverage 1/n as well.
    let augrc = (curve.augrc() - 0.5 * first / (rows * rows)) * rows / (rows - 1.0);
    (aurc, augrc)
}

#[test]
fn selective_prediction() {
    let golden: Selective = golden("selective");
    let rows = golden.errors.len();
    let close = |found, expected| assert_close(found, expected, rounding(rows, 1.0));
    let curve = RiskCoverage::new(&golden.uncertainty, &golden.errors).unwrap();
    close(trapezoids(&curve).0, golden.aurc);
    close(trapezoids(&curve).1, golden.augrc);
    close(curve.risk_at_coverage(0.8).unwrap().risk, golden.risk_at_80);
    let point = curve.coverage_at_risk(0.2).unwrap().unwrap();
    close(point.coverage, golden.coverage_at_20);

    let scores = BinaryScores::separating(&golden.uncertainty, &golden.out_uncertainty).unwrap();
    close(false_positive_rate_at(&scores, 0.95).unwrap(), golden.fpr95);

    // The trapezoid halves the gap of the most certain row; the gap of all rows is 0.
    let zeros = vec![0.0; rows];
    let kind = SparsificationError::MeanAbsolute;
    let ours = ause(&golden.uncertainty, &zeros, &golden.absolute, kind).unwrap();
    let mean = golden.absolute.iter().sum::<f64>() / rows as f64;
    let most_certain =
        (0..rows).min_by(|&a, &b| golden.uncertainty[a].total_cmp(&golden.uncertainty[b]));
    let least = golden
        .absolute
        .iter()
        .copied()
        .fold(f64::INFINITY, f64::min);
    let gap = (golden.absolute[most_certain.unwrap()] - least) / mean;
    close(ours - 0.5 * gap / rows as f64, golden.ause);
}

#[derive(Deserialize)]
struct Calibration {
    classes: usize,
    bins: usize,
    probabilities: Vec<f64>,
    labels: Vec<usize>,
    equal_mass: f64,
    equal_width: f64,
    classwise: f64,
    smooth: f64,
    brier: f64,
    nll: f64,
}

#[test]
fn calibration_errors_and_proper_scores() {
    let golden: Calibration = golden("calibration");
    let (rows, bins) = (golden.labels.len(), golden.bins);
    let table = ClassProbabilities::new(&golden.probabilities, rows, golden.classes).unwrap();
    let labelled = LabelledProbabilities::new(&table, &golden.labels).unwrap();
    let close = |found, expected| assert_close(found, expected, rounding(rows, 1.0));
    // The peer's bins are in single precision.
    let near = |found, expected| assert_close(found, expected, 1e-6);
    let mass = ReliabilityDiagram::equal_mass(&labelled, bins).unwrap();
    near(mass.expected_calibration_error(), golden.equal_mass);
    let width = ReliabilityDiagram::equal_width(&labelled, bins).unwrap();
    near(width.expected_calibration_error(), golden.equal_width);
    let classwise = classwise_calibration_error(&labelled, bins).unwrap();
    near(classwise, golden.classwise);
    close(brier(&labelled), golden.brier);
    close(nll(&labelled), golden.nll);
    // The peer evaluates the smoothed gap at 200 points, and its bandwidth is a multiple of 1/1000.
    assert_close(smooth_calibration_error(&labelled), golden.smooth, 2e-3);
}

#[derive(Deserialize)]
struct Draws {
    draws: usize,
    classes: usize,
    probabilities: Vec<f64>,
    entropy: f64,
    mutual_information: f64,
}

#[test]
fn disagreement_of_draws() {
    let golden: Draws = golden("draws");
    let rows = golden.probabilities.len() / golden.draws / golden.classes;
    let values = &golden.probabilities;
    let draws = DrawProbabilities::new(values, golden.draws, rows, golden.classes).unwrap();
    let close = |found: Vec<f64>, expected| {
        assert_close(
            found.iter().sum::<f64>() / rows as f64,
            expected,
            rounding(rows, 1.0),
        );
    };
    // The peer's entropy is the mean over the members, our expected entropy.
    close(expected_entropy(&draws), golden.entropy);
    close(mutual_information(&draws), golden.mutual_information);
}

#[derive(Deserialize)]
struct Intervals {
    level: f64,
    bins: usize,
    means: Vec<f64>,
    precisions: Vec<f64>,
    targets: Vec<f64>,
    coverage: f64,
    width: f64,
    score: f64,
    nll: f64,
    central_calibration_error: f64,
}

#[test]
fn intervals_and_their_calibration() {
    let golden: Intervals = golden("intervals");
    let rows = golden.targets.len();
    let noise = NoisePrecision::PerPrediction(&golden.precisions);
    let mixture = GaussianMixture::new(&golden.means, 1, rows, noise).unwrap();
    let targeted = TargetedMixture::new(&mixture, &golden.targets).unwrap();
    let central = PredictionIntervals::central(&mixture, golden.level).unwrap();
    let close = |found, expected| assert_close(found, expected, rounding(rows, 10.0));
    close(central.coverage(&golden.targets).unwrap(), golden.coverage);
    close(central.mean_width(), golden.width);
    let scores = winkler_scores(&central, &golden.targets, golden.level).unwrap();
    close(scores.iter().sum::<f64>() / rows as f64, golden.score);
    close(mixture_nll(&targeted), golden.nll);
    // The peer compares central intervals: the transform |2u − 1| is the level that just contains the target.
    let central: Vec<f64> = pit_values(&targeted)
        .iter()
        .map(|u| (2.0 * u - 1.0).abs())
        .collect();
    let calibration = QuantileCalibration::new(&central, golden.bins).unwrap();
    close(
        calibration.mean_absolute_error(),
        golden.central_calibration_error,
    );
}

#[derive(Deserialize)]
struct Pixels {
    classes: usize,
    side: usize,
    patch: usize,
    probabilities: Vec<f64>,
    labels: Vec<usize>,
    mean_intersection_over_union: f64,
    pavpu: f64,
    level: f64,
    coverage: f64,
    size: f64,
}

#[test]
fn pixels_patches_and_sets() {
    let golden: Pixels = golden("pixels");
    let (rows, classes) = (golden.labels.len(), golden.classes);
    let table = ClassProbabilities::new(&golden.probabilities, rows, classes).unwrap();
    let labelled = LabelledProbabilities::new(&table, &golden.labels).unwrap();
    let close = |found, expected| assert_close(found, expected, rounding(rows, 1.0));
    let confusion = ConfusionMatrix::from_probabilities(&labelled);
    close(
        confusion.mean_intersection_over_union(),
        golden.mean_intersection_over_union,
    );

    let predicted = table.predicted_classes();
    let hits = predicted.iter().zip(&golden.labels);
    let right: Vec<Option<bool>> = hits.map(|(found, label)| Some(found == label)).collect();
    let mut patches = PatchTotals::new(golden.patch, 0.4, 0.35).unwrap();
    let image = golden.side * golden.side;
    for (right, uncertainty) in right
        .chunks(image)
        .zip(least_confidence(&table).chunks(image))
    {
        patches.add(right, uncertainty, golden.side).unwrap();
    }
    close(patches.pavpu().unwrap(), golden.pavpu);

    let sets = ConformalSets::calibrate(&labelled, golden.level, SetScore::Lac)
        .unwrap()
        .sets(&table)
        .unwrap();
    close(sets.coverage(&golden.labels).unwrap(), golden.coverage);
    close(sets.mean_size(), golden.size);
}
