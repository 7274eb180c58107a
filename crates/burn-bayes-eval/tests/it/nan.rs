//! No NaN becomes a number: every function of numbers refuses it, and no bound drops it.

use burn_bayes_eval::{
    BinaryScores, Bootstrap, Chains, ClassProbabilities, ConformalCross,
    ConformalNormalisedResidual, ConformalSets, CountMixture, DrawProbabilities, DrawTemperature,
    EvalError, GaussianMixture, JointDraws, LabelledProbabilities, LogitScore, MahalanobisDistance,
    NearestFeatures, NoisePrecision, PairedLosses, ParetoSmoothing, PatchTotals, PitUniformity,
    PredictionIntervals, QuantileCalibration, RankingTotals, RiskCoverage, RowOutputs, Selection,
    SelectiveBounds, SetScore, SparsificationError, TargetScale, TargetedCounts, TargetedMixture,
    Temperature, VarianceScaling, ause, conformal_threshold, equal_mass_groups, holm,
    poisson_deviances, posterior_rank, quantiles, referral_table, rmse,
    weighted_conformal_threshold, winkler_scores,
};

const BAD: [f64; 2] = [0.5, f64::NAN];
const GOOD: [f64; 2] = [0.25, 0.5];

fn refused<T>(name: &str, result: Result<T, EvalError>) {
    let error = result.err().unwrap_or_else(|| panic!("{name} took NaN"));
    assert!(error.is_data() || error.is_config(), "{name}: {error}");
}

#[test]
fn views_refuse_it() {
    refused("probabilities", ClassProbabilities::new(&BAD, 1, 2));
    refused("binary probabilities", ClassProbabilities::binary(&BAD));
    refused("logits", ClassProbabilities::from_logits(&BAD, 1, 2));
    refused("draws", DrawProbabilities::new(&BAD, 1, 1, 2));
    refused("binary draws", DrawProbabilities::binary(&BAD, 1, 2));
    refused(
        "logits of draws",
        DrawProbabilities::from_logits(&BAD, 1, 1, 2),
    );
    let shared = NoisePrecision::Shared(1.0);
    refused("means", GaussianMixture::new(&BAD, 1, 2, shared));
    for noise in [
        NoisePrecision::Shared(f64::NAN),
        NoisePrecision::PerDraw(&BAD),
        NoisePrecision::PerPrediction(&BAD),
    ] {
        refused("precisions", GaussianMixture::new(&GOOD, 2, 1, noise));
    }
    let mixture = GaussianMixture::new(&GOOD, 1, 2, shared).unwrap();
    refused("targets", TargetedMixture::new(&mixture, &BAD));
    for (mean, deviation) in [(f64::NAN, 1.0), (0.0, f64::NAN)] {
        refused(
            "scale",
            mixture.unnormalised(TargetScale { mean, deviation }),
        );
    }
    refused("level", PredictionIntervals::central(&mixture, f64::NAN));
    refused("probability", quantiles(&mixture, f64::NAN));
    refused("rates", CountMixture::new(&BAD, 1, 2));
    let counts = CountMixture::new(&GOOD, 1, 2).unwrap();
    refused("counts", TargetedCounts::new(&counts, &[1.0, f64::NAN]));
    refused("limits", PredictionIntervals::new(&BAD, &BAD));
    refused("limits", PredictionIntervals::new(&GOOD, &BAD));
    refused("joint draws", JointDraws::new(&BAD, &GOOD[..1], 2, 1, 1));
    refused("joint targets", JointDraws::new(&GOOD, &BAD[1..], 2, 1, 1));
}

#[test]
fn scores_refuse_it() {
    let intervals = PredictionIntervals::new(&GOOD, &[0.5, 0.75]).unwrap();
    refused("coverage", intervals.coverage(&BAD));
    refused("covered", intervals.covered(&BAD));
    refused("winkler", winkler_scores(&intervals, &BAD, 0.9));
    refused("rmse", rmse(&BAD, &GOOD));
    refused("rmse", rmse(&GOOD, &BAD));
    refused("deviances", poisson_deviances(&BAD, &[1.0, 1.0]));
    refused("deviances", poisson_deviances(&GOOD, &[1.0, f64::NAN]));
    refused("uniformity", PitUniformity::new(&BAD));
    refused("quantile calibration", QuantileCalibration::new(&BAD, 2));
    refused("binary scores", BinaryScores::new(&BAD, &[true, false]));
    refused("separation", BinaryScores::separating(&BAD, &GOOD));
    refused("separation", BinaryScores::separating(&GOOD, &BAD));
    refused("risk", RiskCoverage::new(&BAD, &GOOD));
    refused("risk", RiskCoverage::new(&GOOD, &BAD));
    refused(
        "bounds",
        SelectiveBounds::exact(&BAD, &[0.0, 1.0], &[0.5], 0.9),
    );
    refused("bounds", SelectiveBounds::exact(&GOOD, &BAD, &[0.5], 0.9));
    let losses = [0.0, 1.0];
    refused("bounds", SelectiveBounds::exact(&GOOD, &losses, &BAD, 0.9));
    refused(
        "bounds",
        SelectiveBounds::exact(&GOOD, &losses, &[0.5], f64::NAN),
    );
    refused("selection", Selection::most_certain(&BAD, 0.5));
    refused("selection", Selection::most_certain(&GOOD, f64::NAN));
    for kind in [
        SparsificationError::MeanAbsolute,
        SparsificationError::RootMeanSquare,
    ] {
        refused("ause", ause(&BAD, &GOOD, &[1.0, 1.0], kind));
        refused("ause", ause(&GOOD, &BAD, &[1.0, 1.0], kind));
        refused("ause", ause(&GOOD, &GOOD, &BAD, kind));
    }
    let table = ClassProbabilities::binary(&GOOD).unwrap();
    let labelled = LabelledProbabilities::new(&table, &[0, 1]).unwrap();
    refused("referral", referral_table(&labelled, &BAD, &[0.5]));
    refused("referral", referral_table(&labelled, &GOOD, &[f64::NAN]));
    for score in [LogitScore::Energy, LogitScore::MaximumLogit] {
        refused("logit score", score.of(&BAD, 1, 2));
    }
}

#[test]
fn fitted_things_refuse_it() {
    refused("threshold", conformal_threshold(&BAD, 0.5));
    refused("threshold", conformal_threshold(&GOOD, f64::NAN));
    refused("threshold", weighted_conformal_threshold(&BAD, &GOOD, 0.5));
    refused("threshold", weighted_conformal_threshold(&GOOD, &BAD, 0.5));
    type Normalised = ConformalNormalisedResidual;
    refused("normalised", Normalised::calibrate(&BAD, &GOOD, &GOOD, 0.5));
    refused("normalised", Normalised::calibrate(&GOOD, &BAD, &GOOD, 0.5));
    refused("normalised", Normalised::calibrate(&GOOD, &GOOD, &BAD, 0.5));
    let normalised = Normalised::calibrate(&GOOD, &GOOD, &GOOD, 0.5).unwrap();
    refused("normalised", normalised.intervals(&BAD, &GOOD));
    refused("normalised", normalised.intervals(&GOOD, &BAD));
    refused("cross", ConformalCross::new(&BAD, &GOOD, &[0, 1]));
    refused("cross", ConformalCross::new(&GOOD, &BAD, &[0, 1]));
    let table = ClassProbabilities::binary(&GOOD).unwrap();
    let labelled = LabelledProbabilities::new(&table, &[0, 1]).unwrap();
    refused(
        "sets",
        ConformalSets::calibrate(&labelled, f64::NAN, SetScore::Lac),
    );
    refused("groups", equal_mass_groups(&BAD, 2));
    refused("temperature", Temperature::new(f64::NAN));
    refused("draw temperature", DrawTemperature::new(f64::NAN));
    refused("variance scaling", VarianceScaling::new(f64::NAN));
    refused("distance", MahalanobisDistance::fit(&BAD, &[0, 0], 1, 0.1));
    refused(
        "distance",
        MahalanobisDistance::fit(&GOOD, &[0, 0], 1, f64::NAN),
    );
    let distance = MahalanobisDistance::fit(&GOOD, &[0, 0], 1, 0.1).unwrap();
    refused("distance", distance.scores(&BAD));
    refused("neighbours", NearestFeatures::fit(&BAD, 1, 1));
    let neighbours = NearestFeatures::fit(&GOOD, 1, 1).unwrap();
    refused("neighbours", neighbours.scores(&BAD));
    let draws = DrawProbabilities::binary(&GOOD, 1, 2).unwrap();
    refused(
        "logits",
        RowOutputs::new(&draws).with_logits(&[0.0, 0.0, 0.0, f64::NAN]),
    );
    refused("features", RowOutputs::new(&draws).with_features(&BAD, 1));
}

#[test]
fn tests_and_diagnostics_refuse_it() {
    refused("paired", PairedLosses::new(&BAD, &GOOD));
    refused("paired", PairedLosses::new(&GOOD, &BAD));
    refused("bootstrap", Bootstrap::of_mean(&BAD, 10, 1));
    refused("holm", holm(&BAD));
    refused(
        "chains",
        Chains::new(&[0.0, 1.0, f64::NAN, 2.0, 0.5, 0.1, 0.2, 0.3], 2, 4),
    );
    refused("rank", posterior_rank(f64::NAN, &GOOD));
    refused("rank", posterior_rank(0.3, &BAD));
    refused("pareto", ParetoSmoothing::new(&BAD));
    let smoothed = ParetoSmoothing::new(&GOOD).unwrap();
    refused("pareto", smoothed.mean(&BAD));
    refused("patches", PatchTotals::new(1, f64::NAN, 0.5));
    refused("patches", PatchTotals::new(1, 0.5, f64::NAN));
    let mut patches = PatchTotals::new(1, 0.5, 0.5).unwrap();
    refused("patches", patches.add(&[Some(true), None], &BAD, 2));
    refused("ranking", RankingTotals::new(f64::NAN, 1.0, 4));
    let mut ranking = RankingTotals::new(0.0, 1.0, 4).unwrap();
    refused("ranking", ranking.add(&BAD, &[true, false]));
}

#[test]
fn losses_that_overflow_leave_no_number_for_their_excess() {
    let refusal = RiskCoverage::new(&GOOD, &[f64::INFINITY, 1.0]);
    refused("infinite losses", refusal);
    // The area and the smallest area are infinite, and their difference says nothing.
    let curve = RiskCoverage::new(&GOOD, &[f64::MAX; 2]).unwrap();
    assert!(curve.aurc().is_infinite());
    assert!(curve.excess_aurc().is_nan());
}
