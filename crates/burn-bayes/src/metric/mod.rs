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

mod average_nll;
mod brier;
mod crps;
mod expected_calibration_error;
mod expected_entropy;
mod interval_coverage;
mod interval_score;
mod mean_intersection_over_union;
mod mixture_nll;
mod model_disagreement;
mod mutual_information;
mod observation;
mod predictive_entropy;
mod risk_coverage;
mod rmse_of_mean;
mod row_mean;
mod score;
mod smooth_calibration_error;
mod sparsification;
#[cfg(test)]
pub(crate) mod testing;
mod whole_set;

pub use average_nll::{AverageNll, AverageNllMetric};
pub use brier::{Brier, BrierMetric};
pub use crps::{Crps, CrpsMetric};
pub use expected_calibration_error::{
    ConfidenceGaps, ExpectedCalibrationError, ExpectedCalibrationErrorMetric,
};
pub use expected_entropy::{ExpectedEntropy, ExpectedEntropyMetric};
pub use interval_coverage::{IntervalCoverage, IntervalCoverageMetric};
pub use interval_score::{IntervalScore, IntervalScoreMetric};
pub use mean_intersection_over_union::{
    MeanIntersectionOverUnion, MeanIntersectionOverUnionMetric,
};
pub use mixture_nll::{MixtureNll, MixtureNllMetric};
pub use model_disagreement::{ModelDisagreement, ModelDisagreementMetric};
pub use mutual_information::{MutualInformation, MutualInformationMetric};
pub use predictive_entropy::{PredictiveEntropy, PredictiveEntropyMetric};
pub use risk_coverage::{AreaUnderRiskCoverage, RiskCoverageMetric, UncertainErrors};
pub use rmse_of_mean::{RmseOfMean, RmseOfMeanMetric, SquaredErrors};
pub use row_mean::RowMeanMetric;
pub use score::{Caption, RowScore, SetScore};
pub use smooth_calibration_error::{
    LabelledRows, SmoothCalibrationError, SmoothCalibrationErrorMetric,
};
pub use sparsification::{AreaUnderSparsificationError, SparsificationMetric, UncertainMeans};
pub use whole_set::WholeSetMetric;

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor};
    use burn::train::metric::{Adaptor, Metric, Numeric};
    use burn::train::{ClassificationOutput, RegressionOutput};
    use burn_bayes_eval as eval;

    use super::testing::{assert_close, epoch};
    use super::*;
    use crate::likelihood::{
        ClassificationDraws, ClassificationMixture, MixDraws, RegressionDraws, RegressionMixture,
    };

    /// Mini-batches of these sizes, as ranges of rows.
    fn cut<const B: usize>(sizes: [usize; B]) -> impl Iterator<Item = std::ops::Range<usize>> {
        sizes.into_iter().scan(0, |start, size| {
            let range = *start..*start + size;
            *start = range.end;
            Some(range)
        })
    }

    #[test]
    fn several_batches_of_classes_score_as_one_set() {
        let device = Device::default();
        let logits = |draw: usize| {
            let value = |index: usize| ((7 * index + 5 * draw) % 11) as f32 * 0.4 - 2.0;
            let values: Vec<f32> = (0..6 * 3).map(value).collect();
            Tensor::<1>::from_floats(values.as_slice(), &device).reshape([6, 3])
        };
        let targets = Tensor::<1, burn::tensor::Int>::from_data([0, 2, 1, 1, 0, 2], &device);
        let draws_of = |rows: std::ops::Range<usize>| -> ClassificationDraws {
            let output = |draw| {
                let loss = Tensor::zeros([1], &device);
                let logits = logits(draw).slice([rows.clone()]);
                ClassificationOutput::new(loss, logits, targets.clone().slice([rows.clone()]))
            };
            MixDraws::mix(vec![output(0), output(1), output(2)]).adapt()
        };
        let batches: Vec<_> = cut([3, 1, 2]).map(draws_of).collect();
        let whole = draws_of(0..6);
        let whole = whole.read().unwrap();
        let (draws, average, labelled) = (whole.draws(), whole.average(), whole.labelled());

        let mean = |rows: Vec<f64>| rows.iter().sum::<f64>() / rows.len() as f64;
        let diagram = eval::ReliabilityDiagram::equal_width(&labelled, 15).unwrap();
        for (value, expected) in [
            (
                epoch(PredictiveEntropyMetric::new(), &batches),
                mean(eval::predictive_entropy(average)),
            ),
            (
                epoch(ExpectedEntropyMetric::new(), &batches),
                mean(eval::expected_entropy(draws)),
            ),
            (
                epoch(MutualInformationMetric::new(), &batches),
                mean(eval::mutual_information(draws)),
            ),
            (
                epoch(ModelDisagreementMetric::new(), &batches),
                mean(eval::model_disagreement(draws)),
            ),
            (
                epoch(AverageNllMetric::new(), &batches),
                eval::nll(&labelled),
            ),
            (epoch(BrierMetric::new(), &batches), eval::brier(&labelled)),
            (
                epoch(ExpectedCalibrationErrorMetric::new(), &batches),
                diagram.expected_calibration_error(),
            ),
            (
                epoch(MeanIntersectionOverUnionMetric::new(), &batches),
                eval::ConfusionMatrix::from_probabilities(&labelled).mean_intersection_over_union(),
            ),
        ] {
            assert!(expected > 0.0);
            assert_close(value, expected, 2);
        }
    }

    #[test]
    fn several_batches_of_numbers_score_as_one_set() {
        let device = Device::default();
        let means = [
            0.5, -1.0, 2.0, 0.25, -0.5, 1.0, 0.0, -1.5, 2.5, 1.25, -0.75, 0.5,
        ];
        let truth = [0.25, -3.5, 2.0, 1.0, -0.5, 1.5];
        let column = |values: &[f64]| {
            let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
            Tensor::<1>::from_floats(values.as_slice(), &device).reshape([-1, 1])
        };
        let draws_of = |rows: std::ops::Range<usize>| -> RegressionDraws {
            let output = |draw: usize| {
                let means = &means[6 * draw..][..6];
                let loss = Tensor::zeros([1], &device);
                RegressionOutput::new(
                    loss,
                    column(&means[rows.clone()]),
                    column(&truth[rows.clone()]),
                )
            };
            MixDraws::mix(vec![output(0), output(1)]).adapt()
        };
        let batches: Vec<_> = cut([1, 3, 2]).map(draws_of).collect();
        let noise = eval::NoisePrecision::Shared(2.0);
        let mixture = eval::GaussianMixture::new(&means, 2, 6, noise).unwrap();
        let scale = eval::TargetScale {
            mean: 1.0,
            deviation: 3.0,
        };
        let mixture = mixture.unnormalised(scale).unwrap();
        let truth = truth.map(|target| 3.0 * target + 1.0);
        let targeted = eval::TargetedMixture::new(&mixture, &truth).unwrap();
        let intervals = eval::PredictionIntervals::central(&mixture, 0.8).unwrap();

        let coverage = intervals.coverage(&truth).unwrap();
        assert!(coverage > 0.0 && coverage < 1.0);
        for (value, expected) in [
            (
                epoch(RmseOfMeanMetric::new().with_target_scale(scale), &batches),
                eval::rmse(&mixture.mean(), &truth).unwrap(),
            ),
            (
                epoch(
                    MixtureNllMetric::new(2.0).with_target_scale(scale),
                    &batches,
                ),
                eval::mixture_nll(&targeted),
            ),
            (
                epoch(CrpsMetric::new(2.0).with_target_scale(scale), &batches),
                eval::crps(&targeted),
            ),
            (
                epoch(IntervalCoverageMetric::new(0.8, 2.0), &batches),
                coverage,
            ),
        ] {
            assert_close(value, expected, 2);
        }
    }

    /// Compiles if a metric can be registered for training and for validation.
    fn registers<Output: Adaptor<M::Input>, M: Metric + Numeric>(_metric: &M) {}

    #[test]
    fn each_metric_registers_for_plain_outputs_and_for_mixtures() {
        macro_rules! both {
            ($plain:ty, $mixture:ty: $($metric:expr),+ $(,)?) => {
                [$({
                    let metric = $metric;
                    registers::<$plain, _>(&metric);
                    registers::<$mixture, _>(&metric);
                    metric.name().to_string()
                }),+]
            };
        }
        let mut names = both!(ClassificationOutput, ClassificationMixture:
            AverageNllMetric::default(),
            BrierMetric::default(),
            ExpectedCalibrationErrorMetric::default(),
            ExpectedEntropyMetric::default(),
            MeanIntersectionOverUnionMetric::default(),
            ModelDisagreementMetric::default(),
            MutualInformationMetric::default(),
            PredictiveEntropyMetric::default(),
            RiskCoverageMetric::default(),
            SmoothCalibrationErrorMetric::default(),
        )
        .to_vec();
        names.extend(both!(RegressionOutput, RegressionMixture:
            CrpsMetric::new(1.0),
            IntervalCoverageMetric::new(0.9, 1.0),
            IntervalCoverageMetric::new(0.95, 1.0),
            IntervalScoreMetric::new(0.9, 1.0),
            MixtureNllMetric::new(1.0),
            RmseOfMeanMetric::default(),
            SparsificationMetric::default(),
        ));
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(
            distinct.len(),
            names.len(),
            "metric names must be unique: {names:?}"
        );
    }
}
