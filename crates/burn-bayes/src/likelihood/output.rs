//! The output of a training step with any likelihood, and its average over draws.
//!
//! The predictive distribution is the mixture p(y) = (1/S) Σ_s p(y | f_s), so its loss is
//! −log p(y) = log S − log Σ_s exp(−ℓ_s), with ℓ_s the loss of draw s.

use std::sync::{Arc, OnceLock};

use burn::tensor::{ExecutionError, Int, Tensor};
use burn::train::metric::{
    AccuracyInput, Adaptor, ConfusionStatsInput, LossInput, PerplexityInput, TopKAccuracyInput,
};
use burn::train::{ClassificationOutput, ItemLazy};
use burn_bayes_eval::{
    EvalError, GaussianMixture, NoisePrecision, TargetedMixture, most_likely_noise_precision,
};

use super::classification_draws::ClassificationDraws;
use super::family::Likelihood;
use super::mixture::{ClassificationMixture, MixDraws, MixStacked};
use super::prediction::Prediction;
use super::regression_draws::RegressionDraws;
use crate::error::{Error, Result};
use crate::kernels::composed::{at_least, to_host};

/// What a model with one of the [likelihoods](Likelihood) returns from its training and validation steps.
///
/// ```
/// # use burn::{module::Module, nn::Linear, tensor::Tensor};
/// # use burn::train::{TrainOutput, TrainStep};
/// use burn_bayes::likelihood::{Likelihood, LikelihoodOutput};
///
/// /// Predicts a mean and the logarithm of a variance.
/// #[derive(Module, Debug)]
/// struct NoisyLine {
///     layer: Linear, // two outputs
/// }
///
/// impl TrainStep for NoisyLine {
///     type Input = (Tensor<2>, Tensor<2>);
///     type Output = LikelihoodOutput;
///
///     fn step(&self, (inputs, targets): Self::Input) -> TrainOutput<LikelihoodOutput> {
///         let outputs = self.layer.forward(inputs);
///         let output = LikelihoodOutput::new(Likelihood::HeteroscedasticGaussian, outputs, targets);
///         TrainOutput::new(self, output.loss.backward(), output)
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct LikelihoodOutput {
    /// The mean loss, `[1]`.
    pub loss: Tensor<1>,
    /// The outputs of the model, `[rows, outputs]`.
    pub outputs: Tensor<2>,
    /// The true values, or one-hot encoded classes, `[rows, targets]`.
    pub targets: Tensor<2>,
    /// The likelihood of the targets, given the outputs.
    pub likelihood: Likelihood,
}

impl LikelihoodOutput {
    /// The outputs of a batch with their mean loss; shapes as in [`Likelihood::losses`].
    pub fn new(likelihood: Likelihood, outputs: Tensor<2>, targets: Tensor<2>) -> Self {
        Self {
            loss: likelihood.losses(outputs.clone(), targets.clone()).mean(),
            outputs,
            targets,
            likelihood,
        }
    }
}

synced!(LikelihoodOutput: loss, outputs, targets; likelihood);

impl Adaptor<LossInput> for LikelihoodOutput {
    fn adapt(&self) -> LossInput {
        LossInput::new(self.loss.clone())
    }
}

/// The mixture of the predictive distributions of several draws of the weights, and the true values.
#[derive(Clone, Debug)]
pub struct LikelihoodMixture {
    /// The mean negative log-likelihood of the mixture, `[1]`, in nats.
    pub loss: Tensor<1>,
    /// The predictive distribution.
    pub prediction: Prediction,
    /// The true values, or one-hot encoded classes, `[rows, targets]`.
    pub targets: Tensor<2>,
    views: Arc<Views>,
}

/// What metrics read of a mixture, made once for all of them.
#[derive(Debug, Default)]
struct Views {
    classes: OnceLock<Option<ClassificationMixture>>,
    numbers: OnceLock<RegressionDraws>,
}

impl LikelihoodMixture {
    pub(super) fn new(likelihood: Likelihood, draw_outputs: Tensor<3>, targets: Tensor<2>) -> Self {
        let mut mixture = Self {
            loss: Tensor::zeros([1], &draw_outputs.device()),
            prediction: Prediction::new(likelihood, draw_outputs),
            targets,
            views: Arc::default(),
        };
        mixture.loss = mixture.row_losses().mean();
        mixture
    }

    /// The negative log-likelihood of the mixture for each row, `[rows]`; with several targets, their joint one.
    pub(crate) fn row_losses(&self) -> Tensor<1> {
        let likelihood = self.prediction.likelihood();
        let losses = self.prediction.of_draws(|outputs| {
            let losses = likelihood.losses(outputs, self.targets.clone());
            losses.unsqueeze_dim(1)
        });
        // [draws, rows, 1] → log-sum-exp over draws, without overflow.
        let draws = losses.dims()[0] as f64;
        // Where all are infinite, their differences are none.
        let least = losses.clone().min_dim(0).clamp_max(f64::from(f32::MAX));
        let sum = (least.clone() - losses).exp().sum_dim(0);
        let rows = least - sum.log().add_scalar(-draws.ln());
        rows.squeeze_dim::<2>(0).squeeze_dim(1)
    }

    /// The likelihood with the noise precisions under which the true values are most likely, if these rows were not
    /// trained on: the residuals of training rows underestimate the noise. They are at least half of 1/variance of the true
    /// values, and at most a million times that.
    ///
    /// ```
    /// use burn::tensor::{Device, Tensor};
    /// use burn_bayes::likelihood::{Likelihood, LikelihoodOutput, MixDraws};
    ///
    /// let column = |values: [f32; 2]| Tensor::from_data(values.map(|value| [value]), &Device::default());
    /// let guess = Likelihood::Gaussian { noise_precision: 1.0 };
    /// let output = LikelihoodOutput::new(guess, column([1.0, 2.0]), column([0.0, 5.0]));
    /// // As `Bayesian::predict` and `Predictor::predict` return it.
    /// let held_out = MixDraws::mix(vec![output.clone(), output]);
    /// // Errors of 1 and 3: 1/β = (1² + 3²)/2.
    /// let likelihood = held_out.most_likely_noise()?;
    /// assert!((likelihood.noise_precisions().unwrap()[0] - 0.2).abs() < 1e-6);
    /// # Ok::<(), burn_bayes::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the likelihood has no noise precisions, a prediction or a true value is not finite, or all true values are equal.
    pub fn most_likely_noise(&self) -> Result<Likelihood> {
        let likelihood = self.prediction.likelihood();
        let units = unit_precisions(likelihood, &self.targets)?;
        let [draws, _, width] = self.prediction.draw_outputs().dims();
        let all = [
            to_host(self.prediction.draw_means()),
            to_host(self.targets.clone()),
        ];
        let precision = |(group, unit): (usize, &f64)| {
            let [means, targets] = all.each_ref().map(|values| -> Vec<f64> {
                let values = values.iter().copied().enumerate();
                let own = values.filter(|(at, _)| units.len() == 1 || at % width == group);
                own.map(|(_, value)| value).collect()
            });
            let any = NoisePrecision::Shared(*unit);
            let mixture = GaussianMixture::new(means, draws, targets.len(), any)?;
            let bounds = BOUNDS.0 * unit..=BOUNDS.1 * unit;
            most_likely_noise_precision(&TargetedMixture::new(&mixture, &targets)?, bounds)
        };
        let precisions = units.iter().enumerate().map(precision);
        let precisions = precisions.collect::<Result<Vec<f64>, EvalError>>();
        let precisions = precisions.map_err(|error| Error::numerical(error.to_string()))?;
        Ok(likelihood.clone().with_noise_precisions(&precisions))
    }

    /// For classes: what their metrics read.
    fn classified(&self) -> Option<&ClassificationMixture> {
        let classified = self.views.classes.get_or_init(|| {
            let classes = labels(self.prediction.likelihood(), &self.targets)?;
            let probabilities = self.prediction.draw_means();
            // A row of no class has no scores.
            let is_none = self.targets.clone().sum_dim(1).is_nan().unsqueeze::<3>();
            let is_none = is_none.expand(probabilities.dims());
            let probabilities = probabilities.mask_fill(is_none, f32::NAN);
            Some(ClassificationMixture::new(probabilities, classes))
        });
        classified.as_ref()
    }

    /// For a metric of classes.
    ///
    /// # Panics
    ///
    /// If the targets are none: Burn's metrics have no errors.
    fn expect_classes(&self) -> &ClassificationMixture {
        self.classified().unwrap_or_else(|| {
            let likelihood = self.prediction.likelihood();
            panic!(
                "a metric of classes is registered for a model whose likelihood is {likelihood:?}"
            )
        })
    }
}

/// The bounds of noise precisions, in units of 1/variance of the targets: outside of them, the network has learned
/// nothing, or fits exactly.
const BOUNDS: (f64, f64) = (0.5, 1e6);

/// The relative rounding of targets: those that differ by less are equal.
const ROUNDING: f64 = 1e-6;

/// 1/variance of the targets, of each or of all, as the likelihood has noise precisions.
///
/// # Errors
///
/// If it has none, or all targets are equal.
pub(crate) fn unit_precisions(likelihood: &Likelihood, targets: &Tensor<2>) -> Result<Vec<f64>> {
    let count = likelihood.noise_precisions().map(<[f64]>::len);
    let count = count.ok_or_else(|| {
        let problem = format!("is {likelihood:?}, which has no noise precision to learn");
        Error::config("likelihood", problem)
    })?;
    let [rows, width] = targets.dims();
    let variances = match rows < 2 {
        true => vec![0.0; width],
        false => to_host(targets.clone().var(0)),
    };
    let largest = to_host(targets.clone().abs().max_dim(0)).into_iter();
    let rounding = largest.map(|largest: f64| (ROUNDING * largest).powi(2));
    let of_noise = |of_targets: Vec<f64>| match count {
        1 => vec![of_targets.iter().sum::<f64>() / width as f64],
        _ => of_targets,
    };
    let (variances, rounding) = (of_noise(variances), of_noise(rounding.collect()));
    let varies = |(variance, rounding): (&f64, &f64)| variance > rounding;
    match variances.iter().zip(&rounding).all(varies) {
        true => Ok(variances.into_iter().map(f64::recip).collect()),
        false => Err(Error::config(
            "targets",
            "are equal in all rows, or in those that are held out, so that there is no noise to learn; hold out more rows, or \
             give the precision of the noise",
        )),
    }
}

/// The indices of one-hot encoded classes; `None` if the targets are no classes.
fn labels(likelihood: &Likelihood, targets: &Tensor<2>) -> Option<Tensor<1, Int>> {
    likelihood.classes(0)?;
    Some(targets.clone().argmax(1).squeeze_dim(1))
}

impl MixDraws for LikelihoodOutput {
    type Mixture = LikelihoodMixture;

    fn rows(&self) -> usize {
        self.targets.dims()[0]
    }

    fn mix(draws: Vec<Self>) -> LikelihoodMixture {
        let (likelihood, targets) = (draws[0].likelihood.clone(), draws[0].targets.clone());
        let outputs = draws.into_iter().map(|draw| draw.outputs).collect();
        LikelihoodMixture::new(likelihood, Tensor::stack(outputs, 0), targets)
    }

    fn row_losses(mixtures: [&LikelihoodMixture; 2]) -> Option<[Tensor<1>; 2]> {
        Some(mixtures.map(LikelihoodMixture::row_losses))
    }

    fn surprises(mixture: &LikelihoodMixture) -> Option<Tensor<1>> {
        if let Some(classified) = mixture.classified() {
            return ClassificationOutput::surprises(classified);
        }
        let prediction = &mixture.prediction;
        let squares = (mixture.targets.clone() - prediction.mean()).square();
        let variances = prediction.aleatoric_variance() + prediction.epistemic_variance();
        // The floor is for a row that is exactly as it was expected.
        let variances = at_least(variances, f32::MIN_POSITIVE);
        Some((squares / variances).mean_dim(1).squeeze_dim(1))
    }

    fn classes(&self) -> Option<Tensor<1, Int>> {
        labels(&self.likelihood, &self.targets)
    }
}

impl MixStacked for LikelihoodOutput {
    fn stacked_values(self) -> Tensor<2> {
        self.outputs
    }

    fn mix_stacked(one: Self, numbers: Tensor<3>) -> LikelihoodMixture {
        LikelihoodMixture::new(one.likelihood, numbers, one.targets)
    }
}

impl ItemLazy for LikelihoodMixture {
    fn sync(self) -> Result<Self, ExecutionError> {
        self.loss.device().flush()?;
        Ok(Self {
            loss: self.loss.without_autodiff(),
            prediction: self.prediction.without_autodiff(),
            targets: self.targets.without_autodiff(),
            views: Arc::default(),
        })
    }
}

impl Adaptor<LossInput> for LikelihoodMixture {
    fn adapt(&self) -> LossInput {
        LossInput::new(self.loss.clone())
    }
}

/// Metrics of classes read the probabilities.
macro_rules! adapt_classes {
    ($($input:ty),+) => {
        $(impl Adaptor<$input> for LikelihoodMixture {
            fn adapt(&self) -> $input {
                self.expect_classes().adapt()
            }
        })+
    };
}

adapt_classes!(
    AccuracyInput,
    TopKAccuracyInput,
    PerplexityInput,
    ConfusionStatsInput
);

impl Adaptor<ClassificationDraws> for LikelihoodMixture {
    fn adapt(&self) -> ClassificationDraws {
        match self.classified() {
            Some(mixture) => mixture.adapt(),
            None => {
                let device = self.loss.device();
                ClassificationDraws::refused(self.prediction.likelihood(), &device)
            }
        }
    }
}

/// Metrics of numbers read the means, with the noise of the likelihood.
impl Adaptor<RegressionDraws> for LikelihoodMixture {
    fn adapt(&self) -> RegressionDraws {
        let numbers = self.views.numbers.get_or_init(|| {
            let means = self.prediction.draw_means();
            let draws = RegressionDraws::new(means, self.targets.clone());
            match self.prediction.gaussians() {
                Some(gaussians) => draws.with_gaussians(gaussians),
                None => draws.refused_for(self.prediction.likelihood()),
            }
        });
        numbers.clone()
    }
}

/// The output of a step is one draw.
macro_rules! adapt_one_draw {
    ($($input:ty),+) => {
        $(impl Adaptor<$input> for LikelihoodOutput {
            fn adapt(&self) -> $input {
                LikelihoodOutput::mix(vec![self.clone()]).adapt()
            }
        })+
    };
}

adapt_one_draw!(
    AccuracyInput,
    TopKAccuracyInput,
    PerplexityInput,
    ConfusionStatsInput,
    ClassificationDraws,
    RegressionDraws
);

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;

    fn values<const R: usize>(tensor: Tensor<R>) -> Vec<f64> {
        tensor.into_data().iter().collect()
    }

    fn output(likelihood: Likelihood, outputs: [f32; 2], targets: [f32; 2]) -> LikelihoodOutput {
        let device = Device::default();
        let column = |numbers: [f32; 2]| Tensor::from_data(numbers.map(|number| [number]), &device);
        LikelihoodOutput::new(likelihood, column(outputs), column(targets))
    }

    #[test]
    fn targets_that_differ_by_rounding_are_equal_each_in_its_own_unit() {
        let of_rows = |rows: [[f32; 2]; 3]| {
            let likelihood = Likelihood::GaussianTargets {
                noise_precisions: vec![1.0, 1.0],
            };
            unit_precisions(&likelihood, &Tensor::from(rows))
        };
        let found = of_rows([[1e8, 0.5], [3e8, 1.5], [2e8, 1.0]]).unwrap();
        assert!((found[0] * 1e16 - 1.0).abs() < 1e-5 && (found[1] - 4.0).abs() < 1e-5);
        // The next number in single precision is .82000006.
        let equal = of_rows([[1e8, 0.82], [3e8, 0.820_000_06], [2e8, 0.82]]);
        assert!(equal.unwrap_err().to_string().contains("equal"));
    }

    #[test]
    fn the_loss_is_that_of_the_mixture() {
        let targets = [3.0, 0.0];
        let draws = [[0.5, -1.0], [1.5, 0.0], [-0.2, 0.3]];
        let outputs = draws.map(|draw| output(Likelihood::Poisson, draw, targets));
        let mixture = MixDraws::mix(outputs.to_vec());
        let expected = [0, 1].map(|row| {
            let density = |draw: &[f32; 2]| {
                let log_rate = f64::from(draw[row]);
                (f64::from(targets[row]) * log_rate - log_rate.exp()).exp()
            };
            -(draws.iter().map(density).sum::<f64>() / 3.0).ln()
        });
        for (found, expected) in values(mixture.row_losses()).into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        let mean = (expected[0] + expected[1]) / 2.0;
        assert!((values(mixture.loss.clone())[0] - mean).abs() < 1e-6);

        let numbers = Tensor::stack(outputs.iter().map(|one| one.outputs.clone()).collect(), 0);
        let stacked = LikelihoodOutput::mix_stacked(outputs[0].clone(), numbers);
        assert_eq!(values(stacked.loss), values(mixture.loss));
    }

    #[test]
    fn a_row_that_all_draws_rule_out_has_an_infinite_loss() {
        let draws = [output(Likelihood::Poisson, [1.0, 200.0], [1.0, 0.0])];
        let mixture = MixDraws::mix(vec![draws[0].clone(), draws[0].clone()]);
        let losses = values(mixture.row_losses());
        assert!(
            losses[0].is_finite() && losses[1] == f64::INFINITY,
            "{losses:?}"
        );
    }

    /// Over all outcomes, with the probabilities that the mixture of three draws gives them.
    #[test]
    fn the_expected_surprise_is_one() {
        let one_hot = |class: usize| [0, 1, 2].map(|other| f32::from(u8::from(other == class)));
        let outcomes = |rows: Vec<Vec<f32>>| {
            let width = rows[0].len();
            let data = TensorData::new(rows.concat(), [rows.len(), width]);
            Tensor::<2>::from_data(data, &Device::default())
        };
        let labels = outcomes(vec![vec![0.0], vec![1.0]]);
        let counts = outcomes((0..60).map(|count| vec![count as f32]).collect());
        let classes = outcomes((0..3).map(|class| one_hot(class).to_vec()).collect());
        for (likelihood, targets, width) in [
            (Likelihood::Bernoulli, labels, 1),
            (Likelihood::Poisson, counts.clone(), 1),
            (Likelihood::NegativeBinomial, counts, 2),
            (Likelihood::Categorical, classes.clone(), 3),
            (Likelihood::Ordinal, classes, 2),
        ] {
            let [rows, _] = targets.dims();
            let draws = [0.3_f32, -1.0, 0.8].map(|draw| {
                let outputs = (0..width).map(|at| draw - 0.7 * at as f32).collect();
                let outputs = outcomes(vec![outputs; rows]);
                LikelihoodOutput::new(likelihood.clone(), outputs, targets.clone())
            });
            let mixture = MixDraws::mix(draws.to_vec());
            let surprises = values(LikelihoodOutput::surprises(&mixture).unwrap());
            let losses = values(mixture.row_losses());
            let is_count = rows == 60;
            let expected: f64 = (0..rows)
                .map(|row| {
                    let most = if is_count { row } else { 0 };
                    let factorial: f64 = (1..=most).map(|k| (k as f64).ln()).sum();
                    surprises[row] * (-losses[row] - factorial).exp()
                })
                .sum();
            assert!((expected - 1.0).abs() < 1e-4, "{likelihood:?}: {expected}");
        }
    }

    #[test]
    fn draws_that_rule_the_truth_out_leave_a_finite_loss() {
        let draws = [output(Likelihood::Bernoulli, [-200.0, 300.0], [1.0, 0.0])];
        let mixture = MixDraws::mix(draws.to_vec());
        assert_eq!(values(mixture.row_losses()), [200.0, 300.0]);
    }
}
