//! Agreement with MAPIE, scikit-learn, statsmodels, SciPy and NumPy, on the later sections of `golden/peers.json`:
//! groups of rows, counts, maps of draws, rankings. For tolerances see `golden.rs`.

use burn_bayes_eval::{
    BinaryScores, ClassProbabilities, ConformalByClass, ConformalSets, ConfusionMatrix,
    CountMixture, DrawProbabilities, DrawTemperature, GaussianMixture, HeldOut, LabelledDraws,
    LabelledProbabilities, MemberDisagreement, Mondrian, NoisePrecision, PredictionSets, SetScore,
    TargetedCounts, TargetedMixture, VarianceScaling, coverage_by_group, holm, joint_log_densities,
    log_probabilities, poisson_deviances, precision_recall, randomised_pit_values,
};
use serde::Deserialize;

use crate::golden::{assert_all_close, assert_close, rounding};
use crate::golden_peers::{assert_all_within, golden};

#[derive(Deserialize)]
struct Groups {
    classes: usize,
    level: f64,
    known: Vec<f64>,
    labels: Vec<usize>,
    wards: Vec<usize>,
    new: Vec<f64>,
    by_class: Vec<Vec<usize>>,
    by_ward: Vec<Vec<usize>>,
    size_stratified_coverage: f64,
    p_values: Vec<f64>,
    adjusted: Vec<f64>,
    limits: Vec<[f64; 2]>,
}

#[test]
fn conformal_sets_and_coverage_by_group() {
    let golden: Groups = golden("groups");
    let (classes, level) = (golden.classes, golden.level);
    let table = |values: &[f64]| {
        ClassProbabilities::new(values.to_vec(), values.len() / classes, classes).unwrap()
    };
    let (known, new) = (table(&golden.known), table(&golden.new));
    let (labels, new_labels) = golden.labels.split_at(known.rows());
    let (wards, new_wards) = golden.wards.split_at(known.rows());
    let labelled = LabelledProbabilities::new(&known, labels).unwrap();
    let sets_of = |sets: &PredictionSets| -> Vec<Vec<usize>> {
        (0..sets.rows()).map(|row| sets.classes_of(row)).collect()
    };
    let by_class = ConformalByClass::calibrate(&labelled, level, SetScore::Lac).unwrap();
    assert_eq!(sets_of(&by_class.sets(&new).unwrap()), golden.by_class);

    let by_ward = Mondrian::calibrate(wards, |rows| {
        let labels: Vec<usize> = rows.iter().map(|&row| labels[row]).collect();
        ConformalSets::calibrate(
            &LabelledProbabilities::new(&known.select(rows)?, &labels)?,
            level,
            SetScore::Lac,
        )
    });
    let by_ward = by_ward
        .unwrap()
        .sets(new_wards, |lac, rows| lac.sets(&new.select(rows)?));
    assert_eq!(sets_of(&by_ward.unwrap()), golden.by_ward);

    let together = ConformalSets::calibrate(&labelled, level, SetScore::Lac)
        .unwrap()
        .sets(&new)
        .unwrap();
    let covered = together.covered(new_labels).unwrap();
    let found = coverage_by_group(&together.sizes(), &covered, level, None).unwrap();
    let smallest = found.iter().map(|group| group.coverage).fold(1.0, f64::min);
    assert_close(smallest, golden.size_stratified_coverage, rounding(1, 1.0));
    assert_eq!(found.len(), golden.p_values.len());
    for (index, group) in found.iter().enumerate() {
        // Tails of binomial distributions and quantiles of beta distributions, of tens of rows.
        assert_close(group.p_value, golden.p_values[index], 1e-12);
        assert_close(group.adjusted_p_value, golden.adjusted[index], 1e-12);
        assert_close(group.interval.lower, golden.limits[index][0], 1e-12);
        assert_close(group.interval.upper, golden.limits[index][1], 1e-12);
    }
    assert_all_close(&holm(&golden.p_values).unwrap(), &golden.adjusted, 1);
}

#[derive(Deserialize)]
struct Counts {
    draws: usize,
    rates: Vec<f64>,
    counts: Vec<f64>,
    log_probabilities: Vec<f64>,
    mean_deviance: f64,
    below: Vec<f64>,
    up_to: Vec<f64>,
    quantiles: [Vec<f64>; 3],
}

#[test]
fn scores_of_counts() {
    let golden: Counts = golden("counts");
    let rows = golden.counts.len();
    let mixture = CountMixture::new(&golden.rates, golden.draws, rows).unwrap();
    let targeted = TargetedCounts::new(&mixture, &golden.counts).unwrap();
    // Log-gamma functions of both sides.
    assert_all_within(
        &log_probabilities(&targeted),
        &golden.log_probabilities,
        1e-12,
    );
    let deviances = poisson_deviances(&mixture.mean(), &golden.counts).unwrap();
    let mean = deviances.iter().sum::<f64>() / rows as f64;
    assert_close(mean, golden.mean_deviance, rounding(rows, 10.0));
    for (level, expected) in [0.1, 0.5, 0.9].into_iter().zip(&golden.quantiles) {
        assert_eq!(&mixture.quantiles(level).unwrap(), expected);
    }
    for (row, transform) in randomised_pit_values(&targeted, 5).into_iter().enumerate() {
        let (below, up_to) = (golden.below[row] - 1e-12, golden.up_to[row] + 1e-12);
        assert!((below..=up_to).contains(&transform), "{row}: {transform}");
    }
}

#[derive(Deserialize)]
struct RecalibratedDraws {
    draws: usize,
    classes: usize,
    probabilities: Vec<f64>,
    labels: Vec<usize>,
    temperature: f64,
    means: Vec<f64>,
    precisions: Vec<f64>,
    targets: Vec<f64>,
    variance: f64,
}

#[test]
fn maps_of_draws() {
    let golden: RecalibratedDraws = golden("recalibrated_draws");
    let (draws, rows) = (golden.draws, golden.labels.len());
    let table = &golden.probabilities;
    let table = DrawProbabilities::new(table, draws, rows, golden.classes).unwrap();
    let labelled = LabelledDraws::new(&table, &golden.labels).unwrap();
    let ids: Vec<usize> = (0..rows).collect();
    let held_out = HeldOut::new(labelled, &ids, &[rows]).unwrap();
    let temperature = DrawTemperature::fit(&held_out).unwrap();
    // The minimum of a function of size 1 is known to the root of its rounding.
    assert_close(
        temperature.value(),
        golden.temperature,
        1e-6 * golden.temperature,
    );

    let noise = NoisePrecision::PerPrediction(&golden.precisions);
    let mixture = GaussianMixture::new(&golden.means, draws, rows, noise).unwrap();
    let targeted = TargetedMixture::new(&mixture, &golden.targets).unwrap();
    let held_out = HeldOut::new(targeted, &ids, &[rows]).unwrap();
    let most_likely = VarianceScaling::most_likely(&held_out);
    assert_close(
        most_likely.factor(),
        golden.variance,
        1e-6 * golden.variance,
    );
}

#[derive(Deserialize)]
struct Rankings {
    positive: Vec<usize>,
    scores: Vec<f64>,
    precision: Vec<f64>,
    recall: Vec<f64>,
    classes: usize,
    labels: Vec<usize>,
    predicted: Vec<usize>,
    mean_intersection_over_union: f64,
    draws: usize,
    columns: usize,
    means: Vec<f64>,
    targets: Vec<f64>,
    joint: Vec<f64>,
    members: Vec<usize>,
    tables: Vec<f64>,
    within: Vec<f64>,
    between: Vec<f64>,
}

#[test]
fn curves_several_targets_and_members() {
    let golden: Rankings = golden("rankings");
    let positive: Vec<bool> = golden.positive.iter().map(|&label| label == 1).collect();
    let scores = BinaryScores::new(&golden.scores, &positive).unwrap();
    let points = precision_recall(&scores);
    let of = |part: fn(&burn_bayes_eval::PrecisionRecall) -> f64| {
        points.iter().map(part).collect::<Vec<_>>()
    };
    // scikit-learn ends where all positive rows are found, unless the lowest score is a negative row's.
    let shared = golden.recall.len().min(points.len());
    assert!(shared >= 20 && golden.recall[shared - 1] == 1.0);
    assert_all_close(&of(|p| p.recall)[..shared], &golden.recall[..shared], 1);
    assert_all_close(
        &of(|p| p.precision)[..shared],
        &golden.precision[..shared],
        1,
    );

    let confusion = ConfusionMatrix::new(&golden.predicted, &golden.labels, golden.classes);
    let found = confusion.unwrap().mean_intersection_over_union();
    assert_close(
        found,
        golden.mean_intersection_over_union,
        rounding(golden.classes, 1.0),
    );

    let values = golden.targets.len();
    let noise = NoisePrecision::Shared(4.0);
    let mixture = GaussianMixture::new(&golden.means, golden.draws, values, noise).unwrap();
    let targeted = TargetedMixture::new(&mixture, &golden.targets).unwrap();
    let joint = joint_log_densities(&targeted, golden.columns).unwrap();
    assert_all_close(&joint, &golden.joint, golden.draws * golden.columns);

    let rows = golden.labels.len();
    let table = &golden.tables;
    let table = DrawProbabilities::new(table, golden.draws, rows, golden.classes).unwrap();
    let parts = MemberDisagreement::of_classes(&table, &golden.members).unwrap();
    assert_all_close(&parts.within, &golden.within, golden.draws * golden.classes);
    assert_all_close(
        &parts.between,
        &golden.between,
        golden.draws * golden.classes,
    );
}
