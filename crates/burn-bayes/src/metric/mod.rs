//! Metrics of uncertainty for Burn's Learner: thin wrappers over the scores of `burn-bayes-eval`.
//!
//! | metric | input | measures | over an epoch |
//! |---|---|---|---|
//! | [`PredictiveEntropyMetric`] | [`ClassificationDraws`](crate::likelihood::ClassificationDraws) | total uncertainty | mean over rows |
//! | [`ExpectedEntropyMetric`] | " | aleatoric uncertainty, which more data cannot reduce | mean over rows |
//! | [`MutualInformationMetric`] | " | epistemic uncertainty, the disagreement of the draws | mean over rows |
//! | [`ModelDisagreementMetric`] | " | epistemic uncertainty, as a variance | mean over rows |
//! | [`AverageNllMetric`] | " | quality of the probabilities | mean over rows |
//! | [`BrierMetric`] | " | quality of the probabilities, bounded | mean over rows |
//! | [`ExpectedCalibrationErrorMetric`] | " | calibration of the confidence | whole set |
//! | [`SmoothCalibrationErrorMetric`] | " | calibration of the confidence, without bins | whole set |
//! | [`RiskCoverageMetric`] | " | errors of the rows kept if the least certain are referred | whole set |
//! | [`MeanIntersectionOverUnionMetric`] | " | overlap of predicted and true regions, if rows are pixels | whole set |
//! | [`RmseOfMeanMetric`] | [`RegressionDraws`](crate::likelihood::RegressionDraws) | error of the mean | whole set |
//! | [`MixtureNllMetric`] | " | quality of the predictive distribution | mean over rows |
//! | [`CrpsMetric`] | " | quality of the predictive distribution, in the unit of the target | mean over rows |
//! | [`IntervalCoverageMetric`] | " | coverage of intervals | mean over rows |
//! | [`IntervalScoreMetric`] | " | width and coverage of intervals together | mean over rows |
//! | [`SparsificationMetric`] | " | errors of the rows kept if those whose draws differ most are referred | whole set |
//!
//! Every metric can be registered for training and for validation: Burn's plain outputs count as
//! one draw, the mixtures of this crate have many. A custom output type needs Burn's
//! `Adaptor<ClassificationDraws>` or `Adaptor<RegressionDraws>`; a custom score becomes a metric by
//! implementing [`RowScore`] or [`SetScore`].
//!
//! If a mini-batch cannot be scored, for example because a probability is NaN, the update fails
//! with a message that names the draw, row and column.

mod classification;
mod epoch;
mod regression;
mod score;
mod selective;
#[cfg(test)]
pub(crate) mod testing;
mod uncertainty;

pub use classification::{
    AverageNllMetric, BrierMetric, ExpectedCalibrationErrorMetric, MeanIntersectionOverUnionMetric,
    SmoothCalibrationErrorMetric,
};
pub use epoch::{RowMeanMetric, WholeSetMetric};
pub use regression::{
    CrpsMetric, IntervalCoverageMetric, IntervalScoreMetric, MixtureNllMetric, RmseOfMeanMetric,
};
pub use score::{Caption, RowScore, SetScore};
pub use selective::{RiskCoverageMetric, SparsificationMetric};
pub use uncertainty::{
    ExpectedEntropyMetric, ModelDisagreementMetric, MutualInformationMetric,
    PredictiveEntropyMetric,
};

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::ops::Range;

    use burn::tensor::{Device, Int, Tensor, TensorData};
    use burn::train::metric::{Adaptor, Metric, Numeric};
    use burn::train::{ClassificationOutput, RegressionOutput};
    use burn_bayes_eval as eval;

    use super::testing::{assert_close, assert_epoch, epoch};
    use super::*;
    use crate::likelihood::{
        ClassificationDraws, ClassificationMixture, MixDraws, RegressionDraws, RegressionMixture,
    };

    #[test]
    fn several_batches_of_classes_score_as_one_set() {
        let device = Device::default();
        let logits = |draw: usize| {
            let value = |index: usize| ((7 * index + 5 * draw) % 11) as f32 * 0.4 - 2.0;
            let values: Vec<f32> = (0..6 * 3).map(value).collect();
            Tensor::<2>::from_data(TensorData::new(values, [6, 3]), &device)
        };
        let targets = Tensor::<1, Int>::from_data([0, 2, 1, 1, 0, 2], &device);
        let draws_of = |rows: Range<usize>| -> ClassificationDraws {
            let output = |draw| {
                let loss = Tensor::zeros([1], &device);
                let logits = logits(draw).slice([rows.clone()]);
                ClassificationOutput::new(loss, logits, targets.clone().slice([rows.clone()]))
            };
            MixDraws::mix(vec![output(0), output(1), output(2)]).adapt()
        };
        let batches = [0..3, 3..4, 4..6].map(draws_of);
        let whole = draws_of(0..6);
        let whole = whole.read().unwrap();
        let (draws, average, labelled) = (whole.draws(), whole.average(), whole.labelled());

        let mean = |rows: Vec<f64>| rows.iter().sum::<f64>() / rows.len() as f64;
        let diagram = eval::ReliabilityDiagram::equal_width(&labelled, 15).unwrap();
        let counts = eval::ConfusionMatrix::from_probabilities(&labelled);
        macro_rules! assert_scores {
            ($($metric:ident: $expected:expr),+ $(,)?) => {$(
                let expected = $expected;
                assert!(expected > 0.0);
                assert_close(epoch($metric::new(), &batches), expected, 2);
            )+};
        }
        assert_scores!(
            PredictiveEntropyMetric: mean(eval::predictive_entropy(average)),
            ExpectedEntropyMetric: mean(eval::expected_entropy(draws)),
            MutualInformationMetric: mean(eval::mutual_information(draws)),
            ModelDisagreementMetric: mean(eval::model_disagreement(draws)),
            AverageNllMetric: eval::nll(&labelled),
            BrierMetric: eval::brier(&labelled),
            ExpectedCalibrationErrorMetric: diagram.expected_calibration_error(),
            SmoothCalibrationErrorMetric: eval::smooth_calibration_error(&labelled),
            MeanIntersectionOverUnionMetric: counts.mean_intersection_over_union(),
        );
    }

    #[test]
    fn several_batches_of_numbers_score_as_one_set() {
        let device = Device::default();
        let means = [
            0.5, -1.0, 2.0, 0.25, -0.5, 1.0, 0.0, -1.5, 2.5, 1.25, -0.75, 0.5,
        ];
        let truth = [0.25, -3.5, 2.0, 1.0, -0.5, 1.5];
        let draws_of = |rows: Range<usize>| -> RegressionDraws {
            let column = |values: &[f64]| {
                let values = &values[rows.clone()];
                let shape = [values.len(), 1];
                Tensor::<2>::from_data(TensorData::new(values.to_vec(), shape), &device)
            };
            let output = |means: &[f64]| {
                RegressionOutput::new(Tensor::zeros([1], &device), column(means), column(&truth))
            };
            MixDraws::mix(means.chunks(6).map(output).collect()).adapt()
        };
        let batches = [0..1, 1..4, 4..6].map(draws_of);
        let noise = eval::NoisePrecision::Shared(2.0);
        let mixture = eval::GaussianMixture::new(&means, 2, 6, noise).unwrap();
        let (mean, deviation) = (1.0, 3.0);
        let scale = eval::TargetScale { mean, deviation };
        let mixture = mixture.unnormalised(scale).unwrap();
        let truth = truth.map(|target| deviation * target + mean);
        let targeted = eval::TargetedMixture::new(&mixture, &truth).unwrap();
        let intervals = eval::PredictionIntervals::central(&mixture, 0.8).unwrap();

        let metric = RmseOfMeanMetric::new().with_target_scale(scale);
        let rmse = eval::rmse(&mixture.mean(), &truth).unwrap();
        assert_epoch(metric, &batches, rmse, 2);
        let metric = MixtureNllMetric::new(2.0).with_target_scale(scale);
        assert_epoch(metric, &batches, eval::mixture_nll(&targeted), 2);
        let metric = CrpsMetric::new(2.0).with_target_scale(scale);
        assert_epoch(metric, &batches, eval::crps(&targeted), 2);
        let coverage = intervals.coverage(&truth).unwrap();
        assert!(coverage > 0.0 && coverage < 1.0);
        let metric = IntervalCoverageMetric::new(0.8, 2.0);
        assert_epoch(metric, &batches, coverage, 2);
    }

    /// Compiles if a metric can be registered for training and for validation.
    fn registers<Output: Adaptor<M::Input>, M: Metric + Numeric>(_metric: &M) {}

    #[test]
    fn each_metric_registers_for_plain_outputs_and_for_mixtures() {
        macro_rules! names {
            ($plain:ty, $mixture:ty: $($metric:ident($($setting:expr),*)),+) => {
                vec![$({
                    let metric = $metric::new($($setting),*);
                    registers::<$plain, _>(&metric);
                    registers::<$mixture, _>(&metric);
                    metric.name().to_string()
                }),+]
            };
        }
        let mut names = names!(ClassificationOutput, ClassificationMixture:
            AverageNllMetric(), BrierMetric(), ExpectedCalibrationErrorMetric(), ExpectedEntropyMetric(),
            MeanIntersectionOverUnionMetric(), ModelDisagreementMetric(), MutualInformationMetric(),
            PredictiveEntropyMetric(), RiskCoverageMetric(), SmoothCalibrationErrorMetric());
        names.extend(names!(RegressionOutput, RegressionMixture:
            CrpsMetric(1.0), IntervalCoverageMetric(0.9, 1.0), IntervalCoverageMetric(0.95, 1.0),
            IntervalScoreMetric(0.9, 1.0), MixtureNllMetric(1.0), RmseOfMeanMetric(), SparsificationMetric()));
        let distinct: HashSet<_> = names.iter().collect();
        let (count, all) = (distinct.len(), names.len());
        assert_eq!(count, all, "metric names must be unique: {names:?}");
    }
}
