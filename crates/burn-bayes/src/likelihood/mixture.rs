//! The average of a model's outputs over draws of its weights.
//!
//! Classification: p̄_c = mean_s softmax(logits_s)_c; Burn's own metrics read log p̄ as logits, and the
//! loss is the negative log-likelihood of p̄.
//!
//! Regression: an equally weighted mixture of the draws' predictions. The loss is the mean of the
//! draws' losses and **not** the negative log-likelihood of the mixture,
//! −log mean_s N(y; f_s, 1/β), which needs the noise precision β; Burn's output does not contain
//! it. If the draws' losses are negative log-likelihoods, their mean is an upper bound of that of
//! the mixture (Jensen's inequality), with equality if the draws agree.
//! [`MixtureNllMetric`](crate::metric::MixtureNllMetric) takes β and reports the negative
//! log-likelihood of the mixture.

use burn::tensor::{Int, Tensor};
use burn::train::metric::{
    AccuracyInput, Adaptor, ConfusionStatsInput, LossInput, PerplexityInput, TopKAccuracyInput,
};
use burn::train::{ClassificationOutput, ItemLazy, RegressionOutput};

use super::classification_draws::{ClassificationDraws, probabilities_of};
use super::family::Likelihood;
use super::output::LikelihoodMixture;
use super::regression_draws::RegressionDraws;
use crate::kernels::composed::{at_least, to_host};

/// An output that can be averaged over draws of the weights.
///
/// Implement it for a custom output type to train and validate a model that returns it.
pub trait MixDraws: Sized {
    /// The average, and the data for metrics of uncertainty.
    type Mixture: ItemLazy + 'static;

    /// Rows in the batch.
    fn rows(&self) -> usize;

    /// Averages the outputs of several draws for one batch; there is at least one.
    fn mix(draws: Vec<Self>) -> Self::Mixture;

    /// The negative log-likelihoods of the rows of one batch under two mixtures, `[rows]` each, in nats, up to a
    /// constant that both share. `None`, the default, if the output has no likelihood.
    ///
    /// The validation of a [`Bayesian`](crate::Bayesian) compares with them the average over draws and the network with
    /// the mean weights, which costs a forward pass for each batch.
    fn row_losses(mixtures: [&Self::Mixture; 2]) -> Option<[Tensor<1>; 2]> {
        let _ = mixtures;
        None
    }

    /// How far each row is from what the mixture expects, `[rows]`: numbers of at least 0, whose expectation is 1 if the mixture
    /// is the truth. They are 1/(C p(y)) for C classes, and (y − mean)²/variance, averaged over targets, otherwise. `None`, the
    /// default, if the output has no likelihood.
    ///
    /// [`Verdict`](crate::diagnostics::Verdict) tells by them that predictions are too certain.
    fn surprises(mixture: &Self::Mixture) -> Option<Tensor<1>> {
        let _ = mixture;
        None
    }

    /// The true class of each row, `[rows]`. `None`, the default, if the targets are no classes.
    fn classes(&self) -> Option<Tensor<1, Int>> {
        None
    }
}

/// An output that can be computed for many draws in one pass: everything that depends on the draw
/// is in one tensor.
///
/// # Laws
///
/// [`mix_stacked`](Self::mix_stacked), given the output at any draw and the numbers at all draws,
/// returns the same as [`mix`](MixDraws::mix) given all outputs.
pub trait MixStacked: MixDraws {
    /// The numbers that depend on the weights, `[rows, width]`.
    fn stacked_values(self) -> Tensor<2>;

    /// The average, from the output at one draw and the numbers at all of them, `[draws, rows, width]`.
    fn mix_stacked(one: Self, numbers: Tensor<3>) -> Self::Mixture;
}

/// Classification averaged over draws.
#[derive(Clone, Debug)]
pub struct ClassificationMixture {
    /// The mean negative log-likelihood of the average, `[1]`.
    pub loss: Tensor<1>,
    /// log p̄, `[rows, classes]`.
    pub output: Tensor<2>,
    /// The true classes, `[rows]`.
    pub targets: Tensor<1, Int>,
    /// Each draw's probabilities, `[draws, rows, classes]`.
    pub draw_probabilities: Tensor<3>,
    /// The same data, read once for all metrics.
    draws: ClassificationDraws,
}

impl MixDraws for ClassificationOutput {
    type Mixture = ClassificationMixture;

    fn rows(&self) -> usize {
        self.targets.dims()[0]
    }

    fn mix(draws: Vec<Self>) -> ClassificationMixture {
        let targets = draws[0].targets.clone();
        let probabilities = draws
            .into_iter()
            .map(|draw| probabilities_of(draw.output).unsqueeze::<3>())
            .collect();
        ClassificationMixture::new(Tensor::cat(probabilities, 0), targets)
    }

    fn row_losses(mixtures: [&ClassificationMixture; 2]) -> Option<[Tensor<1>; 2]> {
        Some(mixtures.map(ClassificationMixture::row_losses))
    }

    fn surprises(mixture: &ClassificationMixture) -> Option<Tensor<1>> {
        let [_, classes] = mixture.output.dims();
        Some(mixture.row_losses().exp() / classes as f64)
    }

    fn classes(&self) -> Option<Tensor<1, Int>> {
        Some(self.targets.clone())
    }
}

impl MixStacked for ClassificationOutput {
    fn stacked_values(self) -> Tensor<2> {
        self.output
    }

    fn mix_stacked(one: Self, numbers: Tensor<3>) -> ClassificationMixture {
        let [draws, rows, classes] = numbers.dims();
        let probabilities = probabilities_of(numbers.reshape([draws * rows, classes]));
        let probabilities = probabilities.reshape([draws, rows, classes]);
        ClassificationMixture::new(probabilities, one.targets)
    }
}

impl ClassificationMixture {
    pub(super) fn new(draw_probabilities: Tensor<3>, targets: Tensor<1, Int>) -> Self {
        let draws = ClassificationDraws::new(draw_probabilities.clone(), targets.clone());
        // The floor keeps Burn's metrics finite if every draw gives the class probability zero.
        let output = at_least(draws.average(), f32::MIN_POSITIVE).log();
        let mut mixture = Self {
            loss: Tensor::zeros([1], &output.device()),
            output,
            targets,
            draw_probabilities,
            draws,
        };
        mixture.loss = mixture.row_losses().mean();
        mixture
    }

    /// −log p̄ of the true class of every row, `[rows]`.
    fn row_losses(&self) -> Tensor<1> {
        let targets = self.targets.clone().unsqueeze_dim(1);
        let picked: Tensor<2> = self.output.clone().gather(1, targets);
        picked.squeeze_dim::<1>(1).neg()
    }
}

synced!(ClassificationMixture: loss, output, targets, draw_probabilities, draws);

impl ClassificationMixture {
    /// The average as Burn's own output, which its metrics adapt.
    fn averaged(&self) -> ClassificationOutput {
        ClassificationOutput::new(self.loss.clone(), self.output.clone(), self.targets.clone())
    }
}

/// Burn's loss and rank metrics see the average.
macro_rules! adapt_average {
    ($mixture:ty: $($input:ty),+) => {
        $(impl Adaptor<$input> for $mixture {
            fn adapt(&self) -> $input {
                self.averaged().adapt()
            }
        })+
    };
}

adapt_average!(
    ClassificationMixture: AccuracyInput, LossInput, TopKAccuracyInput, PerplexityInput
);

/// Precision, recall, F-scores, AUROC and AUC-PR see p̄ itself, because they compare it with a
/// threshold.
impl Adaptor<ConfusionStatsInput> for ClassificationMixture {
    fn adapt(&self) -> ConfusionStatsInput {
        let average = self.draws.average();
        let [_, classes] = average.dims();
        ConfusionStatsInput::new(average, self.targets.clone().one_hot(classes).bool())
    }
}

impl Adaptor<ClassificationDraws> for ClassificationMixture {
    fn adapt(&self) -> ClassificationDraws {
        self.draws.clone()
    }
}

/// Regression averaged over draws.
#[derive(Clone, Debug)]
pub struct RegressionMixture {
    /// The mean of the draws' losses, `[1]`, an upper bound of the negative log-likelihood of the
    /// mixture. [`MixtureNllMetric`](crate::metric::MixtureNllMetric) computes the latter from the
    /// noise precision.
    pub loss: Tensor<1>,
    /// The mean of the draws' predictions, `[rows, targets]`.
    pub output: Tensor<2>,
    /// The true values, `[rows, targets]`.
    pub targets: Tensor<2>,
    /// Each draw's predictions, `[draws, rows, targets]`.
    pub draw_outputs: Tensor<3>,
    /// Each draw's loss, `[draws]`.
    losses: Tensor<1>,
    /// The same data, read once for all metrics.
    draws: RegressionDraws,
}

impl MixDraws for RegressionOutput {
    type Mixture = RegressionMixture;

    fn rows(&self) -> usize {
        self.targets.dims()[0]
    }

    fn mix(draws: Vec<Self>) -> RegressionMixture {
        let targets = draws[0].targets.clone();
        let losses = draws.iter().map(|draw| draw.loss.clone()).collect();
        let outputs = draws
            .into_iter()
            .map(|draw| draw.output.unsqueeze::<3>())
            .collect();
        RegressionMixture::new(Tensor::cat(losses, 0), Tensor::cat(outputs, 0), targets)
    }

    /// Under Gaussian noise of the precision that the losses imply.
    fn row_losses(mixtures: [&RegressionMixture; 2]) -> Option<[Tensor<1>; 2]> {
        let points = mixtures.map(RegressionMixture::losses_by_squares).concat();
        let noise_precision = implied_precision(&points)?;
        Some(mixtures.map(|mixture| {
            let likelihood = Likelihood::Gaussian { noise_precision };
            let (outputs, targets) = (mixture.draw_outputs.clone(), mixture.targets.clone());
            LikelihoodMixture::new(likelihood, outputs, targets).row_losses()
        }))
    }
}

/// The noise precision β of losses ½ β q + constant, from points (q, loss) with the mean q of the rows' squared errors.
/// `None` if the losses are not of this form, or the points are too close to each other.
fn implied_precision(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / count;
    let (square, loss) = (mean(|point| point.0), mean(|point| point.1));
    let (mut squares, mut products) = (0.0, 0.0);
    for (one, other) in points {
        squares += (one - square).powi(2);
        products += (one - square) * (other - loss);
    }
    let slope = products / squares;
    let is_wide = (squares / count).sqrt() > LEAST_SPREAD * square;
    let fits = points.iter().all(|(one, other)| {
        let off = other - loss - slope * (one - square);
        off.abs() <= LARGEST_RESIDUAL * slope * squares.sqrt()
    });
    (is_wide && fits && slope > 0.0 && slope.is_finite()).then_some(2.0 * slope)
}

/// The least relative spread of squared errors from which a noise precision is inferred.
const LEAST_SPREAD: f64 = 1e-3;
/// The largest distance from a line, as a share of the spread along it.
const LARGEST_RESIDUAL: f64 = 0.05;

/// The loss is an additional column.
impl MixStacked for RegressionOutput {
    fn stacked_values(self) -> Tensor<2> {
        let [rows, _] = self.output.dims();
        let loss = self.loss.reshape([1, 1]).expand([rows, 1]);
        Tensor::cat(vec![self.output, loss], 1)
    }

    fn mix_stacked(one: Self, numbers: Tensor<3>) -> RegressionMixture {
        let [draws, _, width] = numbers.dims();
        let losses = numbers.clone().narrow(2, width - 1, 1).narrow(1, 0, 1);
        let outputs = numbers.narrow(2, 0, width - 1);
        RegressionMixture::new(losses.reshape([draws]), outputs, one.targets)
    }
}

impl RegressionMixture {
    fn new(losses: Tensor<1>, draw_outputs: Tensor<3>, targets: Tensor<2>) -> Self {
        let draws = RegressionDraws::new(draw_outputs.clone(), targets.clone());
        Self {
            loss: losses.clone().mean(),
            output: draws.average(),
            targets,
            draw_outputs,
            losses,
            draws,
        }
    }

    /// The mean squared error of a row, summed over targets, and the loss of each draw.
    fn losses_by_squares(&self) -> Vec<(f64, f64)> {
        let targets = self.targets.clone().unsqueeze::<3>();
        let squares = (self.draw_outputs.clone() - targets).square().sum_dim(2);
        let squares: Tensor<1> = squares.mean_dim(1).flatten(0, 2);
        let losses = to_host(self.losses.clone());
        to_host(squares).into_iter().zip(losses).collect()
    }
}

synced!(RegressionMixture: loss, output, targets, draw_outputs, losses, draws);

impl RegressionMixture {
    fn averaged(&self) -> RegressionOutput {
        RegressionOutput::new(self.loss.clone(), self.output.clone(), self.targets.clone())
    }
}

adapt_average!(RegressionMixture: LossInput);

impl Adaptor<RegressionDraws> for RegressionMixture {
    fn adapt(&self) -> RegressionDraws {
        self.draws.clone()
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use burn::train::metric::{ClassReduction, Metric, Numeric, PrecisionMetric};

    use super::*;
    use crate::GaussianNll;
    use crate::metric::MixtureNllMetric;
    use crate::metric::testing::{assert_close, epoch, metadata};

    /// Two draws of two rows: the average of class 1 is 0.7 and 0.4.
    fn mixture() -> ClassificationMixture {
        let device = Device::default();
        let draw = |positive: [f32; 2]| {
            let row = |positive: f32| [(1.0 - positive).ln(), positive.ln()];
            ClassificationOutput::new(
                Tensor::zeros([1], &device),
                Tensor::from_data(positive.map(row), &device),
                Tensor::from_data([1, 1], &device),
            )
        };
        MixDraws::mix(vec![draw([0.9, 0.2]), draw([0.5, 0.6])])
    }

    #[test]
    fn probabilities_are_averaged_and_not_logits() {
        let mixture = mixture();
        let average: Vec<f64> = mixture.output.exp().into_data().iter().collect();
        for (value, expected) in average.into_iter().zip([0.3, 0.7, 0.6, 0.4]) {
            assert_close(value, expected, 4);
        }
        let expected = -(0.7f64.ln() + 0.4f64.ln()) / 2.0;
        assert_close(mixture.loss.into_scalar::<f64>(), expected, 4);
    }

    #[test]
    fn thresholds_are_compared_with_probabilities() {
        let input: ConfusionStatsInput = mixture().adapt();
        let mut precision = PrecisionMetric::multilabel(0.5, ClassReduction::Micro);
        precision.update(&input, &metadata()).unwrap();
        precision.compute().unwrap();
        assert_eq!(precision.final_value().current(), 50.0);
        let scores: Vec<f64> = input.predictions.into_data().iter().collect();
        assert_close(scores[1], 0.7, 4);
    }

    #[test]
    fn an_average_that_rules_the_truth_out_stays_finite() {
        let device = Device::default();
        let certain = ClassificationOutput::new(
            Tensor::zeros([1], &device),
            Tensor::from_data([[0.0, 1e4]], &device),
            Tensor::from_data([0], &device),
        );
        let mixture = MixDraws::mix(vec![certain]);
        assert!(mixture.loss.into_scalar::<f64>().is_finite());
    }

    #[test]
    fn regression_averages_predictions() {
        let device = Device::default();
        let draw = |value: f32| {
            RegressionOutput::new(
                Tensor::full([1], value, &device),
                Tensor::full([2, 1], value, &device),
                Tensor::zeros([2, 1], &device),
            )
        };
        let mixture = MixDraws::mix(vec![draw(1.0), draw(4.0)]);
        assert_eq!(mixture.loss.into_scalar::<f64>(), 2.5);
        let average: Vec<f64> = mixture.output.into_data().iter().collect();
        assert_eq!(average, [2.5, 2.5]);
    }

    #[test]
    fn the_losses_of_draws_say_which_noise_they_assume() {
        let device = Device::default();
        let targets = Tensor::from_data([[0.5, -1.0], [2.0, 0.0], [0.3, 0.4]], &device);
        let mixture = |shifts: &[f64], loss: &dyn Fn(Tensor<2>) -> Tensor<1>| {
            let draws = shifts.iter().map(|&shift| {
                let output = targets.clone() + shift;
                RegressionOutput::new(loss(output.clone()), output, targets.clone())
            });
            RegressionOutput::mix(draws.collect())
        };
        let gaussian = |output| GaussianNll::new(4.0).forward(output, targets.clone());
        let [wide, exact] = [
            mixture(&[1.0, -2.0, 0.5], &gaussian),
            mixture(&[0.1], &gaussian),
        ];
        let [average, mean] = RegressionOutput::row_losses([&wide, &exact]).unwrap();
        // Equal errors in all rows; the mean of one draw is its loss.
        let mean: Vec<f64> = mean.into_data().iter().collect();
        assert_close(mean[0], exact.loss.clone().into_scalar::<f64>(), 4);
        let average: Vec<f64> = average.into_data().iter().collect();
        let density =
            |shift: f64| 4.0 / (2.0 * std::f64::consts::PI) * (-4.0 * shift * shift).exp();
        let expected = -((density(1.0) + density(2.0) + density(0.5)) / 3.0).ln();
        assert_close(average[2], expected, 4);
        // Losses that are no function of the squared errors, and draws that do not differ.
        let absolute = |output: Tensor<2>| (output - targets.clone()).abs().mean();
        let other = mixture(&[1.0, -2.0, 0.5], &absolute);
        assert!(RegressionOutput::row_losses([&other, &other]).is_none());
        assert!(RegressionOutput::row_losses([&exact, &exact]).is_none());
    }

    #[test]
    fn the_loss_of_regression_bounds_that_of_the_mixture() {
        let device = Device::default();
        let mixed = |predictions: [f32; 2]| -> RegressionMixture {
            let targets = Tensor::from_data([[0.5]], &device);
            MixDraws::mix(
                predictions
                    .map(|prediction| {
                        let output = Tensor::from_data([[prediction]], &device);
                        let loss = GaussianNll::new(4.0).forward(output.clone(), targets.clone());
                        RegressionOutput::new(loss, output, targets.clone())
                    })
                    .into(),
            )
        };
        let both = |mixture: RegressionMixture| {
            let known = epoch(MixtureNllMetric::new(4.0), &[mixture.adapt()]);
            (mixture.loss.into_scalar::<f64>(), known)
        };
        let (bound, mixture) = both(mixed([1.0, -1.0]));
        assert!(bound > mixture + 0.5, "{bound}, {mixture}");
        let (bound, mixture) = both(mixed([1.0, 1.0]));
        assert_close(bound, mixture, 4);
        // The same holds with several targets, over which both are summed.
        let targets = Tensor::from_data([[0.5, -1.0], [2.0, 0.0]], &device);
        let output = targets.clone() + 0.5;
        let loss = GaussianNll::new(4.0).forward(output.clone(), targets.clone());
        let (bound, mixture) = both(MixDraws::mix(vec![RegressionOutput::new(
            loss, output, targets,
        )]));
        assert_close(bound, mixture, 4);
    }
}
