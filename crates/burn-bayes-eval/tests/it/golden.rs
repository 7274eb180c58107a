//! Agreement with scikit-learn and SciPy, on `golden/eval.json`, which `xtask/golden/eval.py` writes. Never edit it
//! by hand.
//!
//! A sum of n terms may differ by 8·ε·n of its size (at least 1), which is rounding. If the expected value comes
//! from numerical integration, its error bound is added.

use burn_bayes_eval::{
    BinaryScores, ClassProbabilities, ConfusionMatrix, DrawProbabilities, GaussianMixture,
    LabelledProbabilities, NoisePrecision, PredictionIntervals, QuantileCalibration,
    ReliabilityDiagram, RiskCoverage, TargetScale, TargetedMixture, accuracy, auroc,
    average_precision, brier, classwise_calibration_error, crps, crps_losses, expected_entropy,
    false_positive_rate_at, log_densities, max_probability, mixture_nll, model_disagreement,
    mutual_information, nll, one_vs_rest_auroc, pit_values, predictive_entropy, quantiles,
    referral_table, rmse, variation_ratio,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    classification: Classification,
    binary: Binary,
    selective: Selective,
    regression: Regression,
    gaussian: Vec<[f64; 5]>,
}

#[derive(Deserialize)]
struct Classification {
    draws: usize,
    rows: usize,
    classes: usize,
    bins: usize,
    probabilities: Vec<f64>,
    labels: Vec<usize>,
    nll: f64,
    brier: f64,
    accuracy: f64,
    macro_f1: f64,
    f1: Vec<f64>,
    balanced_accuracy: f64,
    one_vs_rest_auroc: f64,
    predictive_entropy: Vec<f64>,
    expected_entropy: Vec<f64>,
    mutual_information: Vec<f64>,
    max_probability: Vec<f64>,
    variation_ratio: Vec<f64>,
    model_disagreement: Vec<f64>,
    equal_width: CalibrationError,
    equal_mass: CalibrationError,
    classwise: f64,
}

#[derive(Deserialize)]
struct CalibrationError {
    expected: f64,
    maximum: f64,
}

#[derive(Deserialize)]
struct Binary {
    positive: Vec<f64>,
    labels: Vec<usize>,
    uncertainty: Vec<f64>,
    nll: f64,
    halved_brier: f64,
    f1: f64,
    balanced_accuracy: f64,
    auroc: f64,
    average_precision: f64,
    false_positive_rate_at_95: f64,
    referral: Vec<Referral>,
}

#[derive(Deserialize)]
struct Referral {
    kept_fraction: f64,
    kept: usize,
    accuracy: f64,
    balanced_accuracy: f64,
    macro_f1: f64,
    binary_f1: Option<f64>,
    auroc: Option<f64>,
}

#[derive(Deserialize)]
struct Selective {
    uncertainty: Vec<f64>,
    losses: Vec<f64>,
    risks: Vec<f64>,
    aurc: f64,
    augrc: f64,
    optimal_aurc: f64,
}

#[derive(Deserialize)]
struct Regression {
    draws: usize,
    rows: usize,
    levels: usize,
    level: f64,
    means: Vec<f64>,
    precisions: Vec<f64>,
    targets: Vec<f64>,
    rmse: f64,
    mean: Vec<f64>,
    variance: Vec<f64>,
    log_densities: Vec<f64>,
    crps: Vec<f64>,
    crps_bound: Vec<f64>,
    pit: Vec<f64>,
    lower: Vec<f64>,
    upper: Vec<f64>,
    coverage: f64,
    mean_width: f64,
    quantile_mean_absolute_error: f64,
}

impl Regression {
    fn mixture(&self) -> GaussianMixture<'_> {
        let noise = NoisePrecision::PerPrediction(&self.precisions);
        GaussianMixture::new(&self.means, self.draws, self.rows, noise).unwrap()
    }
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("golden/eval.json")).unwrap()
}

pub(crate) fn rounding(terms: usize, expected: f64) -> f64 {
    8.0 * f64::EPSILON * terms as f64 * expected.abs().max(1.0)
}

#[track_caller]
pub(crate) fn assert_close(found: f64, expected: f64, tolerance: f64) {
    let error = (found - expected).abs();
    assert!(
        error <= tolerance,
        "{found} is {error:e} from {expected}, allowed {tolerance:e}"
    );
}

#[track_caller]
pub(crate) fn assert_all_close(found: &[f64], expected: &[f64], terms: usize) {
    assert_eq!(found.len(), expected.len());
    for (&found, &expected) in found.iter().zip(expected) {
        assert_close(found, expected, rounding(terms, expected));
    }
}

#[test]
fn class_probabilities_score_as_scikit_learn_says() {
    let golden = golden().classification;
    let Classification {
        draws,
        rows,
        classes,
        ..
    } = golden;
    let draws = DrawProbabilities::new(&golden.probabilities, draws, rows, classes).unwrap();
    let average = draws.average();
    let labelled = LabelledProbabilities::new(&average, &golden.labels).unwrap();
    let close = |found, expected| assert_close(found, expected, rounding(rows, expected));
    close(nll(&labelled), golden.nll);
    close(brier(&labelled), golden.brier);
    close(accuracy(&labelled), golden.accuracy);
    close(
        one_vs_rest_auroc(&labelled).unwrap(),
        golden.one_vs_rest_auroc,
    );

    let matrix = ConfusionMatrix::from_probabilities(&labelled);
    close(matrix.accuracy(), golden.accuracy);
    close(matrix.macro_f1(), golden.macro_f1);
    close(matrix.balanced_accuracy(), golden.balanced_accuracy);
    let f1: Vec<f64> = (0..classes)
        .map(|class| matrix.f1(class).unwrap())
        .collect();
    assert_all_close(&f1, &golden.f1, rows);
    let decided = ConfusionMatrix::new(&average.predicted_classes(), &golden.labels, classes);
    assert_eq!(decided.unwrap(), matrix);
}

#[test]
fn uncertainties_agree_with_scipy() {
    let golden = golden().classification;
    let Classification {
        draws: count,
        rows,
        classes,
        ..
    } = golden;
    let draws = DrawProbabilities::new(&golden.probabilities, count, rows, classes).unwrap();
    let average = draws.average();
    let terms = count * classes;
    assert_all_close(
        &predictive_entropy(&average),
        &golden.predictive_entropy,
        terms,
    );
    assert_all_close(&expected_entropy(&draws), &golden.expected_entropy, terms);
    assert_all_close(
        &mutual_information(&draws),
        &golden.mutual_information,
        terms,
    );
    assert_all_close(&max_probability(&average), &golden.max_probability, count);
    assert_all_close(&variation_ratio(&draws), &golden.variation_ratio, 1);
    assert_all_close(
        &model_disagreement(&draws),
        &golden.model_disagreement,
        terms,
    );
}

#[test]
fn calibration_errors_agree_with_another_binning() {
    let golden = golden().classification;
    let Classification {
        draws,
        rows,
        classes,
        bins,
        ..
    } = golden;
    let draws = DrawProbabilities::new(&golden.probabilities, draws, rows, classes).unwrap();
    let average = draws.average();
    let labelled = LabelledProbabilities::new(&average, &golden.labels).unwrap();
    let width = ReliabilityDiagram::equal_width(&labelled, bins).unwrap();
    let mass = ReliabilityDiagram::equal_mass(&labelled, bins).unwrap();
    for (diagram, expected) in [(width, golden.equal_width), (mass, golden.equal_mass)] {
        let tolerance = rounding(rows, 1.0);
        assert_close(
            diagram.expected_calibration_error(),
            expected.expected,
            tolerance,
        );
        assert_close(
            diagram.maximum_calibration_error(),
            expected.maximum,
            tolerance,
        );
    }
    let classwise = classwise_calibration_error(&labelled, bins).unwrap();
    assert_close(classwise, golden.classwise, rounding(rows, 1.0));
}

#[test]
fn two_classes_score_as_scikit_learn_says_ties_included() {
    let golden = golden().binary;
    let table = ClassProbabilities::binary(&golden.positive).unwrap();
    let labelled = LabelledProbabilities::new(&table, &golden.labels).unwrap();
    let close = |found, expected| assert_close(found, expected, rounding(80, expected));
    close(nll(&labelled), golden.nll);
    close(0.5 * brier(&labelled), golden.halved_brier);
    let matrix = ConfusionMatrix::from_probabilities(&labelled);
    close(matrix.f1(1).unwrap(), golden.f1);
    close(matrix.balanced_accuracy(), golden.balanced_accuracy);

    let positive: Vec<bool> = golden.labels.iter().map(|&label| label == 1).collect();
    let scores = BinaryScores::new(&golden.positive, &positive).unwrap();
    close(auroc(&scores), golden.auroc);
    close(one_vs_rest_auroc(&labelled).unwrap(), golden.auroc);
    close(average_precision(&scores), golden.average_precision);
    close(
        false_positive_rate_at(&scores, 0.95).unwrap(),
        golden.false_positive_rate_at_95,
    );
    let pick = |wanted: bool| -> Vec<f64> {
        let rows = golden.positive.iter().zip(&positive);
        rows.filter(|(_, kind)| **kind == wanted)
            .map(|(score, _)| *score)
            .collect()
    };
    assert_eq!(
        BinaryScores::separating(&pick(false), &pick(true)).unwrap(),
        scores
    );
}

#[test]
fn referral_agrees_with_weighted_scikit_learn() {
    let golden = golden().binary;
    let table = ClassProbabilities::binary(&golden.positive).unwrap();
    let labelled = LabelledProbabilities::new(&table, &golden.labels).unwrap();
    let fractions: Vec<f64> = golden
        .referral
        .iter()
        .map(|row| row.kept_fraction)
        .collect();
    let rows = referral_table(&labelled, &golden.uncertainty, &fractions).unwrap();
    assert_eq!(rows.len(), golden.referral.len());
    let option_close = |found: Option<f64>, expected: Option<f64>| {
        assert_eq!(found.is_some(), expected.is_some());
        if let (Some(found), Some(expected)) = (found, expected) {
            assert_close(found, expected, rounding(80, expected));
        }
    };
    for (found, expected) in rows.iter().zip(&golden.referral) {
        assert_eq!(found.kept, expected.kept);
        assert_close(found.accuracy, expected.accuracy, rounding(80, 1.0));
        assert_close(
            found.balanced_accuracy,
            expected.balanced_accuracy,
            rounding(80, 1.0),
        );
        assert_close(found.macro_f1, expected.macro_f1, rounding(80, 1.0));
        option_close(found.binary_f1, expected.binary_f1);
        option_close(found.auroc, expected.auroc);
    }
}

#[test]
fn risk_coverage_is_the_mean_over_all_orders_of_tied_rows() {
    let golden = golden().selective;
    let curve = RiskCoverage::new(&golden.uncertainty, &golden.losses).unwrap();
    // The brute force averages thousands of orders, and accumulates their rounding.
    let tolerance = rounding(100, 1.0);
    assert_eq!(curve.points().len(), golden.risks.len());
    for (point, expected) in curve.points().iter().zip(&golden.risks) {
        assert_close(point.risk, *expected, tolerance);
    }
    assert_close(curve.aurc(), golden.aurc, tolerance);
    assert_close(curve.augrc(), golden.augrc, tolerance);
    assert_close(curve.optimal_aurc(), golden.optimal_aurc, tolerance);
    assert_close(
        curve.excess_aurc(),
        golden.aurc - golden.optimal_aurc,
        tolerance,
    );
}

#[test]
fn mixtures_score_as_scipy_says() {
    let golden = golden().regression;
    let mixture = golden.mixture();
    let draws = golden.draws;
    assert_all_close(&mixture.mean(), &golden.mean, draws);
    assert_all_close(&mixture.variance(), &golden.variance, draws);
    assert_close(
        rmse(&mixture.mean(), &golden.targets).unwrap(),
        golden.rmse,
        rounding(12, 1.0),
    );

    let targeted = TargetedMixture::new(&mixture, &golden.targets).unwrap();
    assert_all_close(&log_densities(&targeted), &golden.log_densities, 4 * draws);
    let expected = -golden.log_densities.iter().sum::<f64>() / golden.rows as f64;
    assert_close(
        mixture_nll(&targeted),
        expected,
        rounding(golden.rows, expected),
    );
    assert_all_close(&pit_values(&targeted), &golden.pit, draws);

    let losses = crps_losses(&targeted);
    assert_eq!(losses.len(), golden.crps.len());
    for ((found, expected), bound) in losses.iter().zip(&golden.crps).zip(&golden.crps_bound) {
        assert_close(
            *found,
            *expected,
            bound + rounding(draws * draws, *expected),
        );
    }
    let (sum, bounds): (f64, f64) = (golden.crps.iter().sum(), golden.crps_bound.iter().sum());
    let rows = golden.rows as f64;
    assert_close(
        crps(&targeted),
        sum / rows,
        bounds / rows + rounding(draws * draws, 1.0),
    );
}

#[test]
fn intervals_and_quantiles_agree_with_root_finding() {
    let golden = golden().regression;
    let mixture = golden.mixture();
    let intervals = PredictionIntervals::central(&mixture, golden.level).unwrap();
    // The error of a root is its residual, ε·S, over the local density, which is at least .05 at this level.
    let terms = golden.draws * 20;
    assert_all_close(intervals.lower(), &golden.lower, terms);
    assert_all_close(intervals.upper(), &golden.upper, terms);
    let tail = 0.5 * (1.0 - golden.level);
    assert_all_close(&quantiles(&mixture, tail).unwrap(), &golden.lower, terms);
    assert_all_close(
        &quantiles(&mixture, 1.0 - tail).unwrap(),
        &golden.upper,
        terms,
    );
    assert_eq!(
        intervals.coverage(&golden.targets).unwrap(),
        golden.coverage
    );
    assert_close(
        intervals.mean_width(),
        golden.mean_width,
        rounding(terms, golden.mean_width),
    );
}

#[test]
fn quantile_calibration_agrees_with_counting() {
    let golden = golden().regression;
    let mixture = golden.mixture();
    let targeted = TargetedMixture::new(&mixture, &golden.targets).unwrap();
    let calibration = QuantileCalibration::new(&pit_values(&targeted), golden.levels).unwrap();
    let close = |found, expected| assert_close(found, expected, rounding(golden.levels, 1.0));
    close(
        calibration.mean_absolute_error(),
        golden.quantile_mean_absolute_error,
    );
}

#[test]
fn single_gaussians_agree_with_integration() {
    for [mean, deviation, target, expected, bound] in golden().gaussian {
        let precision = NoisePrecision::Shared(1.0 / (deviation * deviation));
        let mixture = GaussianMixture::new(vec![mean], 1, 1, precision).unwrap();
        let targets = [target];
        let found = crps(&TargetedMixture::new(&mixture, &targets).unwrap());
        assert_close(found, expected, bound + rounding(4, expected));
    }
}

#[test]
fn undoing_a_normalisation_shifts_the_likelihood_and_stretches_the_rest() {
    let golden = golden().regression;
    let mixture = golden.mixture();
    let scale = TargetScale {
        mean: -7.0,
        deviation: 3.5,
    };
    let original = mixture.unnormalised(scale).unwrap();
    let targets: Vec<f64> = golden
        .targets
        .iter()
        .map(|y| scale.mean + scale.deviation * y)
        .collect();
    let here = TargetedMixture::new(&mixture, &golden.targets).unwrap();
    let there = TargetedMixture::new(&original, &targets).unwrap();
    // Targets up to 20 in size lose that many ulps relative to the noise, squared at most 10 wide.
    let tolerance = rounding(20 * 10, 1.0);
    assert_close(
        mixture_nll(&there),
        mixture_nll(&here) + scale.deviation.ln(),
        tolerance,
    );
    assert_close(crps(&there), scale.deviation * crps(&here), tolerance);
    for (there, here) in pit_values(&there).iter().zip(pit_values(&here)) {
        assert_close(*there, here, tolerance);
    }
}
