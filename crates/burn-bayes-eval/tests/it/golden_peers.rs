//! Agreement with MAPIE, relplot, scikit-learn, SciPy and NumPy, on `golden/peers.json`, which
//! `xtask/golden/peers.py` writes. For tolerances see `golden.rs`.

use burn_bayes_eval::{
    ClassProbabilities, ConformalCross, ConformalSets, JointDraws, LabelledProbabilities,
    LogitScore, MahalanobisDistance, NearestFeatures, PitUniformity, PredictionIntervals,
    PredictionSets, RankPenalty, SetScore, SparsificationError, adaptive_calibration_error, ause,
    smooth_calibration_error, subgroup_calibration, top_label_calibration_error, winkler_scores,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::golden::{assert_all_close, assert_close, rounding};

pub(crate) fn golden<T: DeserializeOwned>(section: &str) -> T {
    let all: serde_json::Value = serde_json::from_str(include_str!("golden/peers.json")).unwrap();
    serde_json::from_value(all[section].clone()).unwrap()
}

#[track_caller]
pub(crate) fn assert_all_within(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (&found, &expected) in found.iter().zip(expected) {
        assert_close(found, expected, tolerance);
    }
}

#[derive(Deserialize)]
struct Calibration {
    rows: usize,
    classes: usize,
    bins: usize,
    probabilities: Vec<f64>,
    labels: Vec<usize>,
    groups: Vec<usize>,
    adaptive: f64,
    top_label: f64,
    smooth: f64,
    smooth_of_relplot: f64,
    subgroup_p_values: Vec<f64>,
}

#[test]
fn calibration_errors_without_fixed_bins() {
    let golden: Calibration = golden("calibration");
    let (rows, bins) = (golden.rows, golden.bins);
    let table = ClassProbabilities::new(&golden.probabilities, rows, golden.classes).unwrap();
    let labelled = LabelledProbabilities::new(&table, &golden.labels).unwrap();
    let close = |found, expected| assert_close(found, expected, rounding(rows, 1.0));
    close(
        adaptive_calibration_error(&labelled, bins).unwrap(),
        golden.adaptive,
    );
    close(
        top_label_calibration_error(&labelled, bins).unwrap(),
        golden.top_label,
    );

    let smooth = smooth_calibration_error(&labelled);
    // Ours is integrated to a relative error of 10⁻⁴; relplot searches σ to within 1/1024.
    assert_close(smooth, golden.smooth, 1e-4 * golden.smooth);
    assert_close(smooth, golden.smooth_of_relplot, 1.0 / 1024.0);

    let groups = subgroup_calibration(&labelled, &golden.groups, None).unwrap();
    let found: Vec<f64> = groups.iter().map(|group| group.p_value).collect();
    // A Fourier transform of all rows.
    assert_all_within(&found, &golden.subgroup_p_values, rounding(rows, 1.0));
}

#[derive(Deserialize)]
struct Sets {
    classes: usize,
    level: f64,
    known: Vec<f64>,
    labels: Vec<usize>,
    penalty: f64,
    free_classes: usize,
    threshold: f64,
    new: Vec<f64>,
    lac: Vec<Vec<usize>>,
    raps: Vec<Vec<usize>>,
}

#[test]
fn conformal_sets_of_mapie() {
    let golden: Sets = golden("conformal_sets");
    let classes = golden.classes;
    let table = |values: &[f64]| {
        ClassProbabilities::new(values.to_vec(), values.len() / classes, classes).unwrap()
    };
    let (known, new) = (table(&golden.known), table(&golden.new));
    let labelled = LabelledProbabilities::new(&known, &golden.labels).unwrap();
    let sets_of = |sets: PredictionSets| -> Vec<Vec<usize>> {
        (0..sets.rows()).map(|row| sets.classes_of(row)).collect()
    };
    let lac = ConformalSets::calibrate(&labelled, golden.level, SetScore::Lac).unwrap();
    assert_eq!(sets_of(lac.sets(&new).unwrap()), golden.lac);

    let penalty = RankPenalty {
        weight: golden.penalty,
        free_classes: golden.free_classes,
    };
    let raps = ConformalSets::calibrate(&labelled, golden.level, SetScore::Raps(penalty)).unwrap();
    assert_close(raps.threshold(), golden.threshold, rounding(classes, 1.0));
    assert_eq!(sets_of(raps.sets(&new).unwrap()), golden.raps);
}

#[derive(Deserialize)]
struct Intervals {
    level: f64,
    targets: Vec<f64>,
    out_of_fold: Vec<f64>,
    fold_of_row: Vec<usize>,
    predictions: Vec<f64>,
    cross: [Vec<f64>; 2],
}

#[test]
fn conformal_intervals_of_mapie() {
    let golden: Intervals = golden("conformal_intervals");
    let cross =
        ConformalCross::new(&golden.out_of_fold, &golden.targets, &golden.fold_of_row).unwrap();
    let found = cross.intervals(&golden.predictions, golden.level).unwrap();
    // Fitted lines on both sides.
    assert_all_within(found.lower(), &golden.cross[0], 1e-12);
    assert_all_within(found.upper(), &golden.cross[1], 1e-12);
}

#[derive(Deserialize)]
struct Distributions {
    draws: usize,
    columns: usize,
    level: f64,
    lower: Vec<f64>,
    upper: Vec<f64>,
    targets: Vec<f64>,
    winkler: f64,
    sampled: Vec<f64>,
    truth: Vec<f64>,
    energy: Vec<f64>,
    variogram: Vec<f64>,
    transforms: Vec<Vec<f64>>,
    kolmogorov_smirnov: Vec<(f64, f64)>,
}

#[test]
fn intervals_quantiles_and_joint_draws() {
    let golden: Distributions = golden("distributions");
    let (rows, columns) = (golden.targets.len(), golden.columns);
    let intervals = PredictionIntervals::new(&golden.lower, &golden.upper).unwrap();
    let scores = winkler_scores(&intervals, &golden.targets, golden.level).unwrap();
    let winkler = scores.iter().sum::<f64>() / rows as f64;
    assert_close(winkler, golden.winkler, rounding(rows, winkler));

    let draws =
        JointDraws::new(&golden.sampled, &golden.truth, golden.draws, rows, columns).unwrap();
    assert_all_close(
        &draws.energy_scores(),
        &golden.energy,
        golden.draws * golden.draws,
    );
    let variogram = draws.variogram_scores(0.5).unwrap();
    assert_all_close(&variogram, &golden.variogram, golden.draws * columns);
}

#[test]
fn the_distribution_of_kolmogorov_and_smirnov_is_that_of_scipy() {
    let golden: Distributions = golden("distributions");
    for (transforms, (statistic, p_value)) in
        golden.transforms.iter().zip(golden.kolmogorov_smirnov)
    {
        let found = PitUniformity::new(transforms).unwrap();
        assert_close(found.statistic, statistic, rounding(1, 1.0));
        // For many rows SciPy sums an asymptotic series (Pelz and Good).
        let tolerance = if transforms.len() <= 140 { 1e-12 } else { 1e-7 };
        assert_close(found.kolmogorov_smirnov_p_value, p_value, tolerance);
    }
}

#[derive(Deserialize)]
struct Selective {
    uncertainty: Vec<f64>,
    errors: Vec<f64>,
    ause: f64,
    root_ause: f64,
}

#[test]
fn sparsification() {
    let golden: Selective = golden("selective_regression");
    let zeros = vec![0.0; golden.errors.len()];
    for (kind, expected) in [
        (SparsificationError::MeanAbsolute, golden.ause),
        (SparsificationError::RootMeanSquare, golden.root_ause),
    ] {
        let found = ause(&golden.uncertainty, &zeros, &golden.errors, kind).unwrap();
        assert_close(found, expected, rounding(zeros.len(), 1.0));
    }
}

#[derive(Deserialize)]
struct Unusual {
    columns: usize,
    neighbour: usize,
    ridge: f64,
    features: Vec<f64>,
    labels: Vec<usize>,
    new: Vec<f64>,
    mahalanobis: Vec<f64>,
    nearest: Vec<f64>,
    logits: Vec<f64>,
    energy: Vec<f64>,
    max_logit: Vec<f64>,
}

#[test]
fn scores_of_unusual_rows() {
    let golden: Unusual = golden("out_of_distribution");
    let columns = golden.columns;
    let distance =
        MahalanobisDistance::fit(&golden.features, &golden.labels, columns, golden.ridge).unwrap();
    let found = distance.scores(&golden.new).unwrap();
    // An inverse and a factor of a matrix with a condition number of a few thousand at most.
    let largest = golden.mahalanobis.iter().copied().fold(0.0, f64::max);
    assert_all_within(&found, &golden.mahalanobis, 1e-11 * largest);
    let nearest = NearestFeatures::fit(&golden.features, columns, golden.neighbour).unwrap();
    // scikit-learn expands the square of the distance.
    assert_all_within(&nearest.scores(&golden.new).unwrap(), &golden.nearest, 1e-7);

    let rows = golden.new.len() / columns;
    let classes = golden.logits.len() / rows;
    let of = |score: LogitScore| score.of(&golden.logits, rows, classes).unwrap();
    assert_all_close(&of(LogitScore::Energy), &golden.energy, classes);
    assert_eq!(of(LogitScore::MaximumLogit), golden.max_logit);
}
