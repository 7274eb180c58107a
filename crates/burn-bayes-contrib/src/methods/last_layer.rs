//! A variational last layer (VBLL, Harrison, Willes and Snoek 2024): a linear layer with a Gaussian posterior over its
//! weights, which is trained with the network below it by one ordinary pass, without draws.
//!
//! The features φ of a row are the outputs of the network below, and a one for the bias. With q(wₖ) = N(w̄ₖ, LₖLₖᵀ) the
//! output f_k = wₖᵀφ has the mean f̄_k = w̄ₖᵀφ and the variance v_k = ‖Lₖᵀφ‖². The loss of a row is the expectation of
//! −log p(y | f) under q, or a bound of it:
//!
//! | likelihood | loss of a row | |
//! |---|---|---|
//! | Gaussian | −log p(y given f̄) + ½ Σ_k β_k v_k | exact |
//! | Poisson | −log p(y given f̄ + ½ v) + ½ Σ_k y_k v_k | exact |
//! | categorical, Bernoulli | the same | at least the expectation, by Jensen's inequality |
//!
//! The objective is the mean loss plus KL(q‖p)/N, with the prior p = N(0, I/α) of every wₖ. Learned noise has the prior
//! of the paper's code, an inverse Wishart distribution with ν = 1 degree of freedom and scale s = 0.01, which adds
//! ½ Σ_k (s β_k − (ν + 2) log β_k)/N.
//!
//! | symbol | field |
//! |---|---|
//! | w̄ₖ | column k of `mean` |
//! | Lₖ, a lower triangle | below its diagonal `factors`, on it exp `log_deviations` |
//! | β | exp `log_precisions` |
//! | N | `train_len` |
//! | α | `prior_precision` |
//!
//! The outputs of classes have no noise of their own here; in the paper they have, and it is learned.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use burn_bayes::likelihood::{
    Likelihood, LikelihoodMixture, LikelihoodOutput, MixDraws, Prediction, Targets,
};
use burn_bayes::methods::checks::{counts, positive};
use burn_bayes::{Error, Noise, Result};

use std::f64::consts::TAU;

/// ν and s of the prior of learned noise.
const NOISE_DEGREES: f64 = 1.0;
const NOISE_SCALE: f64 = 0.01;

/// Settings of a [`VariationalLastLayer`].
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct VariationalLastLayerConfig {
    /// N, the number of training examples.
    pub train_len: usize,
    /// The number of features, the outputs of the network below.
    pub features: usize,
    /// The number of outputs.
    pub outputs: usize,
    /// The likelihood of the targets, given the outputs; the precision of its noise is where learning begins.
    pub likelihood: Likelihood,
    /// α, the precision of the prior. Paper: 1.
    #[config(default = 1.0)]
    pub prior_precision: f64,
    /// Whether the weights of an output have a dense covariance, of (features + 1)² numbers; otherwise a diagonal one.
    #[config(default = true)]
    pub is_dense: bool,
    /// Whether the precision of Gaussian noise is learned.
    #[config(default = true)]
    pub learns_noise: bool,
    /// Whether there is a bias.
    #[config(default = true)]
    pub bias: bool,
}

impl VariationalLastLayerConfig {
    /// The layer.
    ///
    /// # Panics
    ///
    /// As [`try_init`](Self::try_init) fails.
    pub fn init(&self, device: &Device) -> VariationalLastLayer {
        self.try_init(device)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// The layer, with the mean of a new [`Linear`] layer.
    ///
    /// # Errors
    ///
    /// If a setting cannot be used.
    pub fn try_init(&self, device: &Device) -> Result<VariationalLastLayer> {
        self.validate()?;
        let linear = LinearConfig::new(self.features, self.outputs).with_bias(self.bias);
        self.try_init_from(linear.init(device))
    }

    /// The layer with a trained one as its mean.
    ///
    /// # Errors
    ///
    /// If a setting cannot be used, or the trained layer has another shape.
    pub fn try_init_from(&self, mean: Linear) -> Result<VariationalLastLayer> {
        self.validate()?;
        let (found, expected) = (mean.weight.dims(), [self.features, self.outputs]);
        if found != expected || mean.bias.is_some() != self.bias {
            let problem = format!(
                "is of shape {found:?}, bias: {}; the settings are for {expected:?}, bias: {}",
                mean.bias.is_some(),
                self.bias
            );
            return Err(Error::config("mean", problem));
        }
        let device = mean.weight.device();
        let width = self.features + usize::from(self.bias);
        let deviations = Tensor::full([self.outputs, width], -0.5 * (width as f64).ln(), &device);
        let factors = || Tensor::zeros([self.outputs, width, width], &device);
        let noise = |precisions: &[f64]| {
            let logs: Vec<f64> = (0..self.outputs)
                .map(|output| precisions[output % precisions.len()].ln())
                .collect();
            let logs = Tensor::<1>::from_floats(logs.as_slice(), &device);
            Param::from_tensor(logs).set_require_grad(self.learns_noise)
        };
        Ok(VariationalLastLayer {
            mean,
            log_deviations: Param::from_tensor(deviations),
            factors: self.is_dense.then(|| Param::from_tensor(factors())),
            log_precisions: self.likelihood.noise_precisions().map(noise),
            config: self.clone(),
        })
    }

    fn validate(&self) -> Result<()> {
        counts([
            ("train_len", self.train_len),
            ("features", self.features),
            ("outputs", self.outputs),
        ])?;
        positive("prior_precision", self.prior_precision)?;
        match &self.likelihood {
            Likelihood::Gaussian { .. } | Likelihood::GaussianTargets { .. } => {}
            Likelihood::Categorical | Likelihood::Bernoulli | Likelihood::Poisson => return Ok(()),
            other => {
                let problem = format!(
                    "is {other:?}, of which no expectation over Gaussian outputs is known; use Gaussian, categorical, \
                     Bernoulli or Poisson"
                );
                return Err(Error::config("likelihood", problem));
            }
        }
        let precisions = self.likelihood.noise_precisions().unwrap_or_default();
        if ![1, self.outputs].contains(&precisions.len()) {
            let problem = format!(
                "has {} precisions of noise, but there are {} outputs",
                precisions.len(),
                self.outputs
            );
            return Err(Error::config("likelihood", problem));
        }
        precisions
            .iter()
            .try_for_each(|&precision| positive("noise_precision", precision))
    }
}

/// A linear layer with a Gaussian posterior over its weights, as the last layer of a network.
///
/// The network evaluates the layers below and passes their outputs on, in its training step to [`step`](Self::step), in
/// validation to [`validate`](Self::validate), and for new rows to [`predict`](Self::predict). Any optimiser of Burn trains it.
///
/// ```
/// use burn::module::Module;
/// use burn::nn::Linear;
/// use burn::tensor::{Tensor, activation::relu};
/// use burn::train::{TrainOutput, TrainStep};
/// use burn_bayes::likelihood::LikelihoodOutput;
/// use burn_bayes_contrib::methods::VariationalLastLayer;
///
/// #[derive(Module, Debug)]
/// struct Network {
///     hidden: Linear,
///     last: VariationalLastLayer,
/// }
///
/// impl TrainStep for Network {
///     type Input = (Tensor<2>, Tensor<2>);
///     type Output = LikelihoodOutput;
///
///     fn step(&self, (inputs, targets): (Tensor<2>, Tensor<2>)) -> TrainOutput<LikelihoodOutput> {
///         let output = self.last.step(relu(self.hidden.forward(inputs)), targets);
///         TrainOutput::new(self, output.loss.backward(), output)
///     }
/// }
/// ```
#[derive(Module, Debug)]
pub struct VariationalLastLayer {
    mean: Linear,
    /// `[outputs, width]`.
    log_deviations: Param<Tensor<2>>,
    /// `[outputs, width, width]`; only what is below the diagonals matters.
    factors: Option<Param<Tensor<3>>>,
    /// One for each output, if the likelihood has noise.
    log_precisions: Option<Param<Tensor<1>>>,
    #[module(skip)]
    config: VariationalLastLayerConfig,
}

impl VariationalLastLayer {
    /// The mean weights.
    pub fn mean(&self) -> &Linear {
        &self.mean
    }

    /// The likelihood, with the noise that was learned.
    pub fn likelihood(&self) -> Likelihood {
        match &self.log_precisions {
            Some(logs) => Likelihood::GaussianTargets {
                noise_precisions: logs.val().exp().into_data().iter().collect(),
            },
            None => self.config.likelihood.clone(),
        }
    }

    /// The means and the variances of the outputs, `[rows, outputs]`, of features `[rows, features]`.
    pub fn outputs(&self, features: Tensor<2>) -> [Tensor<2>; 2] {
        let means = self.mean.forward(features.clone());
        let features = match self.config.bias {
            true => {
                let ones = features.clone().narrow(1, 0, 1).ones_like();
                Tensor::cat(vec![features, ones], 1)
            }
            false => features,
        };
        let variances = match self.factors() {
            Some(factors) => {
                let along = features.unsqueeze::<3>().matmul(factors);
                along.square().sum_dim(2).squeeze_dim::<2>(2).transpose()
            }
            None => {
                let deviations = self.log_deviations.val().exp();
                features.square().matmul(deviations.square().transpose())
            }
        };
        [means, variances]
    }

    /// Lₖ of every output, unless they are diagonal.
    fn factors(&self) -> Option<Tensor<3>> {
        let factors = self.factors.as_ref()?.val();
        let deviations = self.log_deviations.val().exp();
        let [_, width] = deviations.dims();
        let eye = Tensor::<2>::eye(width, &deviations.device()).unsqueeze::<3>();
        Some(factors.tril(-1) + deviations.unsqueeze_dim::<3>(2) * eye)
    }

    /// The loss of each row, `[rows]`, in nats.
    ///
    /// # Panics
    ///
    /// If the targets do not fit the likelihood.
    pub fn losses<Y: Targets>(&self, features: Tensor<2>, targets: Y) -> Tensor<1> {
        let [means, variances] = self.outputs(features);
        let targets = self.columns(targets);
        self.losses_at(means, variances, targets)
    }

    fn losses_at(&self, means: Tensor<2>, variances: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
        match &self.log_precisions {
            Some(logs) => {
                let logs = logs.val().unsqueeze::<2>();
                let squares = (targets - means).square() + variances;
                let losses = squares * logs.clone().exp() - logs + TAU.ln();
                losses.sum_dim(1).squeeze_dim::<1>(1) * 0.5
            }
            None => {
                let half = variances * 0.5;
                let shift = (targets.clone() * half.clone()).sum_dim(1);
                let likelihood = &self.config.likelihood;
                likelihood.losses(means + half, targets) + shift.squeeze_dim::<1>(1)
            }
        }
    }

    fn columns<Y: Targets>(&self, targets: Y) -> Tensor<2> {
        let outputs = self.config.outputs;
        let targets = targets.columns(&self.config.likelihood, outputs);
        let [_, columns] = targets.dims();
        assert!(
            columns == outputs,
            "the layer has {outputs} outputs, but the targets have {columns} columns"
        );
        targets
    }

    /// (KL(q‖p) − log p(β))/N, `[1]`, which the objective adds to the mean loss.
    pub fn penalty(&self) -> Tensor<1> {
        let prior = self.config.prior_precision;
        let logs = self.log_deviations.val();
        let count = logs.shape().num_elements() as f64;
        let mut squares = self.mean.weight.val().square().sum();
        if let Some(bias) = &self.mean.bias {
            squares = squares + bias.val().square().sum();
        }
        squares = squares + logs.clone().exp().square().sum();
        if let Some(factors) = &self.factors {
            squares = squares + factors.val().tril(-1).square().sum();
        }
        let twice = squares * prior - logs.sum() * 2.0 - count * (1.0 + prior.ln());
        let twice = match &self.log_precisions {
            Some(logs) if self.config.learns_noise => {
                let logs = logs.val();
                twice + logs.clone().exp().sum() * NOISE_SCALE - logs.sum() * (NOISE_DEGREES + 2.0)
            }
            _ => twice,
        };
        twice * (0.5 / self.config.train_len as f64)
    }

    /// The outputs of a training batch; their loss is the objective, which the optimiser minimises.
    ///
    /// # Panics
    ///
    /// If the targets do not fit the likelihood.
    pub fn step<Y: Targets>(&self, features: Tensor<2>, targets: Y) -> LikelihoodOutput {
        let [means, variances] = self.outputs(features);
        let targets = self.columns(targets);
        let losses = self.losses_at(means.clone(), variances, targets.clone());
        LikelihoodOutput {
            loss: losses.mean() + self.penalty(),
            outputs: means,
            targets,
            likelihood: self.likelihood(),
        }
    }

    /// The predictive distribution of rows, from this number of draws of their outputs, at least 1.
    pub fn predict(&self, features: Tensor<2>, draws: usize, noise: Noise) -> Prediction {
        let draws = self.draws(features, draws, noise);
        Prediction::new(self.likelihood(), Tensor::stack(draws, 0))
    }

    /// The same for rows of known targets, with which all metrics of the likelihood work.
    ///
    /// # Panics
    ///
    /// If the targets do not fit the likelihood.
    pub fn validate<Y: Targets>(
        &self,
        features: Tensor<2>,
        targets: Y,
        draws: usize,
        noise: Noise,
    ) -> LikelihoodMixture {
        let (likelihood, targets) = (self.likelihood(), self.columns(targets).without_autodiff());
        let output = |outputs| LikelihoodOutput::new(likelihood.clone(), outputs, targets.clone());
        let draws = self.draws(features, draws, noise).into_iter();
        MixDraws::mix(draws.map(output).collect())
    }

    fn draws(&self, features: Tensor<2>, draws: usize, noise: Noise) -> Vec<Tensor<2>> {
        let moments = self.outputs(features);
        let [means, variances] = moments.map(Tensor::without_autodiff);
        let deviations = variances.sqrt();
        let draw = |number: usize| {
            let count = means.shape().num_elements();
            let normals = noise.row(number as u64).normal(count, &means.device());
            means.clone() + deviations.clone() * normals.reshape(means.dims())
        };
        (0..draws.max(1)).map(draw).collect()
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::Relu;
    use burn::optim::{AdamConfig, GradientsParams};
    use burn::tensor::{Int, TensorData};
    use burn_bayes::algebra::Cholesky;

    use super::*;
    use crate::methods::BayesianRidge;
    use burn_bayes::kernels::to_host;

    const ROWS: usize = 12;
    const WIDTH: usize = 3;

    fn filled<const R: usize>(seed: u64, dims: [usize; R]) -> Tensor<R> {
        let device = Device::default();
        let normals = Noise::new(seed).normal(dims.iter().product(), &device);
        Tensor::from_inner(normals.reshape(dims))
    }

    fn config(likelihood: Likelihood, outputs: usize) -> VariationalLastLayerConfig {
        VariationalLastLayerConfig::new(ROWS, WIDTH, outputs, likelihood)
    }

    /// With some covariance.
    fn layer(config: &VariationalLastLayerConfig) -> VariationalLastLayer {
        let mut layer = config.init(&Device::default().autodiff());
        let logs = filled(3, layer.log_deviations.dims()) * 0.3 - 1.7;
        layer.log_deviations = Param::from_tensor(logs);
        let lower = |factors: Param<Tensor<3>>| filled(4, factors.dims()) * 0.15;
        layer.factors = layer.factors.map(lower).map(Param::from_tensor);
        layer
    }

    #[test]
    fn the_exact_posterior_has_the_evidence_as_its_objective_and_no_gradient() {
        let inputs = filled(1, [ROWS, WIDTH]);
        let targets = inputs.clone().sum_dim(1) + filled(2, [ROWS, 1]) * 0.3;
        let ridge =
            BayesianRidge::fit(&to_host(inputs.clone()), &to_host(targets.clone())).unwrap();
        let posterior = ridge.posterior();
        let root = Cholesky::new(posterior.covariance()).unwrap();
        let root = root.lower();
        let device = inputs.device();
        let tensor = |values: &[f64], dims: [usize; 2]| {
            Tensor::<2>::from_data(TensorData::new(values.to_vec(), dims), &device)
        };
        let noise_precision = ridge.noise_precision();
        let config = config(Likelihood::Gaussian { noise_precision }, 1)
            .with_bias(false)
            .with_learns_noise(false)
            .with_prior_precision(ridge.prior_precision());
        let mut layer = config.init(&device);
        let mean = tensor(posterior.mean(), [WIDTH, 1]);
        layer.mean.weight = Param::from_tensor(mean);
        let diagonal: Vec<f64> = root.diagonal().map(f64::ln).collect();
        let logs = tensor(&diagonal, [1, WIDTH]);
        layer.log_deviations = Param::from_tensor(logs);
        let root = tensor(root.as_slice(), [WIDTH, WIDTH]).unsqueeze();
        layer.factors = Some(Param::from_tensor(root));

        let output = layer.step(inputs, targets);
        let loss = output.loss.clone().into_scalar::<f64>() * ROWS as f64;
        let evidence = ridge.log_evidence();
        assert!(
            (loss + evidence).abs() < 1e-4 * evidence.abs(),
            "{loss} {evidence}"
        );
        let gradients = output.loss.backward();
        let largest = [
            layer.mean.weight.grad(&gradients).map(|g| g.abs().max()),
            layer.log_deviations.grad(&gradients).map(|g| g.abs().max()),
            layer
                .factors
                .and_then(|factors| factors.grad(&gradients))
                .map(|g| g.abs().max()),
        ];
        for gradient in largest {
            let gradient = gradient.unwrap().into_scalar::<f64>();
            assert!(gradient < 1e-4, "{gradient}");
        }
    }

    /// The average loss of each row at many outputs.
    fn averages(
        layer: &VariationalLastLayer,
        features: &Tensor<2>,
        targets: &Tensor<2>,
    ) -> Vec<f64> {
        let draws = layer.draws(features.clone(), 40_000, Noise::new(9));
        let count = draws.len() as f64;
        let likelihood = layer.likelihood();
        let losses = draws.into_iter();
        let losses = losses.map(|outputs| likelihood.losses(outputs, targets.clone()));
        to_host(losses.reduce(|sum, losses| sum + losses).unwrap() / count)
    }

    #[test]
    fn losses_are_expectations_or_bounds_of_them() {
        let noise_precisions = vec![2.0, 5.0];
        let features = filled(5, [4, WIDTH]).inner();
        let columns = |values: [[f64; 2]; 4]| Tensor::<2>::from_data(values, &features.device());
        let ones = columns([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]);
        let counts = columns([[3.0, 0.0], [1.0, 2.0], [0.0, 0.0], [4.0, 1.0]]);
        for (likelihood, targets, is_exact) in [
            (
                Likelihood::GaussianTargets { noise_precisions },
                &counts,
                true,
            ),
            (Likelihood::Poisson, &counts, true),
            (Likelihood::Categorical, &ones, false),
            (Likelihood::Bernoulli, &ones, false),
        ] {
            for is_dense in [true, false] {
                let config = config(likelihood.clone(), 2).with_is_dense(is_dense);
                let layer = layer(&config).valid();
                let found = to_host(layer.losses(features.clone(), targets.clone()));
                let expected = averages(&layer, &features, targets);
                // By Jensen's inequality at the means, the bounds are at most this far off.
                let [_, variances] = layer.outputs(features.clone());
                let most = to_host(variances.sum_dim(1) * 0.5);
                for ((found, expected), most) in found.iter().zip(&expected).zip(most) {
                    let above = found - expected;
                    let most = if is_exact { 0.0 } else { most };
                    let rounding = 0.02 * expected.abs().max(1.0);
                    assert!(
                        (-rounding..most + rounding).contains(&above),
                        "{likelihood:?}: {found} {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn predictions_have_the_moments_of_the_outputs() {
        let layer = layer(&config(
            Likelihood::Gaussian {
                noise_precision: 4.0,
            },
            2,
        ))
        .valid();
        let features = filled(6, [5, WIDTH]).inner();
        let [means, variances] = layer.outputs(features.clone()).map(to_host);
        let prediction = layer.predict(features.clone(), 20_000, Noise::new(1));
        let close = |found: Vec<f64>, expected: &[f64]| {
            for (found, expected) in found.iter().zip(expected) {
                assert!(
                    (found - expected).abs() < 0.05 * expected.abs().max(0.3),
                    "{found} {expected}"
                );
            }
        };
        close(to_host(prediction.mean()), &means);
        close(to_host(prediction.epistemic_variance()), &variances);
        close(to_host(prediction.aleatoric_variance()), &[0.25; 10]);
        let again = layer.predict(features, 20_000, Noise::new(1));
        assert_eq!(to_host(again.mean()), to_host(prediction.mean()));
    }

    #[derive(Module, Debug)]
    struct Network {
        hidden: Linear,
        last: VariationalLastLayer,
    }

    impl Network {
        fn features(&self, inputs: Tensor<2>) -> Tensor<2> {
            Relu::new().forward(self.hidden.forward(inputs))
        }
    }

    #[test]
    fn a_trained_network_knows_its_noise_and_where_it_has_no_data() {
        let device = Device::default().autodiff();
        let (rows, features) = (200, 40);
        let inputs = filled(7, [rows, 1]) * 0.5;
        let targets = (inputs.clone() * 3.0).sin() + filled(8, [rows, 1]) * 0.1;
        let start = Likelihood::Gaussian {
            noise_precision: 1.0,
        };
        let mut hidden = LinearConfig::new(1, features).init(&device);
        hidden.weight = hidden.weight.map(|weight| filled(10, weight.dims()));
        hidden.bias = hidden
            .bias
            .map(|bias| bias.map(|bias| filled(11, bias.dims())));
        let mut network = Network {
            hidden,
            last: VariationalLastLayerConfig::new(rows, features, 1, start).init(&device),
        };
        let mut adam = AdamConfig::new().init();
        for _ in 0..1500 {
            let features = network.features(inputs.clone());
            let loss = network.last.step(features, targets.clone()).loss;
            let gradients = GradientsParams::from_grads(loss.backward(), &network);
            network = adam.step(0.01, network, gradients);
        }
        let network = network.valid();
        let noise = network.last.likelihood().noise_precisions().unwrap()[0].powf(-0.5);
        assert!((0.08..0.14).contains(&noise), "{noise}");
        let points = Tensor::<2>::from_data([[0.0], [3.0]], &device.inner());
        let [_, variances] = network.last.outputs(network.features(points));
        let variances = to_host(variances);
        assert!(
            variances[0] < 0.01 && variances[1] > 10.0 * variances[0],
            "{variances:?}"
        );
    }

    #[test]
    fn labels_of_classes_are_their_one_hot_rows() {
        let layer = layer(&config(Likelihood::Categorical, 2)).valid();
        let features = filled(6, [2, WIDTH]).inner();
        let device = features.device();
        let labels = Tensor::<1, Int>::from_data([1, 0], &device);
        let rows = Tensor::<2>::from_data([[0.0, 1.0], [1.0, 0.0]], &device);
        let losses = to_host(layer.losses(features.clone(), labels.clone()));
        assert_eq!(losses, to_host(layer.losses(features.clone(), rows)));
        let mixture = layer.validate(features, labels, 100, Noise::new(2));
        let probabilities = to_host(mixture.prediction.probabilities().unwrap());
        assert!((probabilities[0] + probabilities[1] - 1.0).abs() < 1e-6);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let device = Device::default();
        let message =
            |config: &VariationalLastLayerConfig| config.try_init(&device).unwrap_err().to_string();
        assert!(message(&config(Likelihood::Ordinal, 2)).contains("Ordinal"));
        assert!(message(&config(Likelihood::Poisson, 0)).starts_with("outputs: is 0"));
        let noise_precisions = vec![1.0; 2];
        let targets = Likelihood::GaussianTargets { noise_precisions };
        assert!(message(&config(targets, 3)).contains("2 precisions of noise"));
        let likelihood = Likelihood::Gaussian {
            noise_precision: 0.0,
        };
        assert!(message(&config(likelihood, 1)).contains("noise_precision"));
        let trained = LinearConfig::new(WIDTH, 4).init(&device);
        let problem = config(Likelihood::Categorical, 2).try_init_from(trained);
        assert!(problem.unwrap_err().to_string().contains("[3, 4]"));
    }
}
