//! VIFA's analytic gradients against its objective, and its convergence to the exact posterior.

mod ivon;
mod logistic;
mod natural;
mod sghmc;
mod von;

use burn::module::{Module, ParamGroup};
use burn::nn::{Linear, LinearConfig};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn::train::{InferenceStep, RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::methods::{
    Algorithm, Averaging, FactorUnits, FromGradients, GradientPieces, InitialDeviation, MeanStage,
    Proposal, StepId, Update, Vifa,
};
use burn_bayes::posterior::{DenseGaussian, GaussianDistance, linear_regression_posterior};
use burn_bayes::{BayesianConfig, FusedAdamConfig, Prior, VifaConfig};

use crate::support::{
    EPSILON, assert_close, assert_near, autodiff, filled, joined_gradients, matrix, normals,
    values, vector, widened,
};

/// D: a matrix with two weights, and a bias.
const LEN: usize = 3;
const RANK: usize = 2;
const TRAIN_LEN: usize = 7;
/// λ: two copies of the examples and of the prior.
const ESS: f64 = 2.0 * TRAIN_LEN as f64;

/// A quadratic mean NLL ½(θ−t)ᵀH(θ−t), whose expectation under a Gaussian is known.
const CURVATURE: [[f64; LEN]; LEN] = [[1.5, -0.4, 0.2], [-0.4, 0.8, 0.3], [0.2, 0.3, 2.0]];
const TARGET: [f64; LEN] = [0.7, -1.1, 0.4];

fn config() -> BayesianConfig<VifaConfig> {
    BayesianConfig::new(
        TRAIN_LEN,
        VifaConfig::new()
            .with_rank(RANK)
            .with_initial_deviation(InitialDeviation::Constant(0.6))
            .with_factor_scale(0.8)
            .with_factor_units(FactorUnits::Weights),
    )
    .with_ess(ESS)
    .with_prior(prior())
    .with_draws(1)
    .with_antithetic(false)
    .with_mean_stage(MeanStage::None)
}

fn prior() -> Prior {
    Prior::isotropic(0.5).with_group(ParamGroup::from_predicate("bias"), 2.0)
}

const PRIOR: [f64; LEN] = [0.5, 0.5, 2.0];

fn model() -> Linear {
    filled(LinearConfig::new(2, 1).init(&autodiff()), 4, 1.0)
}

/// The precisions of the two weights and of the bias, each multiplied by the factor above one with which the average of
/// the variances is 0.03² divided by the fan-in.
fn narrowed(precision: &[f64]) -> Vec<f64> {
    let (weights, bias) = precision.split_at(2);
    let parts = [(weights, 2.0), (bias, 1.0)].map(|(part, fan)| {
        let variance = part.iter().map(|value| value.recip()).sum::<f64>() / part.len() as f64;
        let factor = variance * fan / 0.03_f64.powi(2);
        part.iter().map(move |value| value * factor.max(1.0))
    });
    parts.into_iter().flatten().collect()
}

fn algorithm(config: &BayesianConfig<VifaConfig>) -> Vifa {
    config.build(&model()).unwrap()
}

/// c, F and γ, in the order of the algorithm's parameters.
fn parameters(vifa: &Vifa) -> Vec<f64> {
    let posterior = vifa.posterior(0).unwrap();
    let mut parameters = values(&posterior.mean());
    parameters.extend(posterior.factors().iter().flat_map(values));
    parameters.extend(values(&posterior.diagonal()).iter().map(|v| v.ln()));
    parameters
}

fn gaussian(parameters: &[f64]) -> DenseGaussian {
    let (mean, rest) = parameters.split_at(LEN);
    let (factors, log_variance) = rest.split_at(rest.len() - LEN);
    let variance: Vec<f64> = log_variance.iter().map(|value| value.exp()).collect();
    DenseGaussian::from_covariance_factors(mean.to_vec(), factors, &variance).unwrap()
}

/// KL(q‖p²) with the prior p, in double precision.
fn divergence(parameters: &[f64]) -> f64 {
    let variances = PRIOR.map(|precision| 0.5 / precision);
    let prior = DenseGaussian::from_variances(vec![0.0; LEN], &variances).unwrap();
    gaussian(parameters).kl_divergence(&prior).unwrap()
}

/// λ·E[mean NLL] + KL, in double precision.
fn objective(parameters: &[f64]) -> f64 {
    let q = gaussian(parameters);
    let mut expectation = 0.0;
    for i in 0..LEN {
        for j in 0..LEN {
            let deviations = (q.mean()[i] - TARGET[i]) * (q.mean()[j] - TARGET[j]);
            expectation += 0.5 * CURVATURE[i][j] * (deviations + q.covariance().get(i, j));
        }
    }
    ESS * expectation + divergence(parameters)
}

/// Central differences, whose error is of the order of the squared step.
fn differences(function: impl Fn(&[f64]) -> f64, at: &[f64]) -> Vec<f64> {
    const STEP: f64 = 1e-4;
    (0..at.len())
        .map(|index| {
            let shifted = |step: f64| {
                let mut point = at.to_vec();
                point[index] += step;
                function(&point)
            };
            (shifted(STEP) - shifted(-STEP)) / (2.0 * STEP)
        })
        .collect()
}

/// H(θ−t), in the pieces of the layout.
fn likelihood_gradient(weights: &Tensor<1>) -> Vec<Tensor<1>> {
    let weights = values(weights);
    let gradient = CURVATURE.map(|row| {
        let terms = row.iter().zip(&weights).zip(&TARGET);
        terms.map(|((h, w), t)| h * (w - t)).sum::<f64>() as f32
    });
    vec![vector(&gradient[..2]), vector(&gradient[2..])]
}

fn answered(vifa: &Vifa, proposal: Proposal) -> Vec<f64> {
    let pieces = proposal
        .draws
        .iter()
        .map(|draw| likelihood_gradient(&draw.weights))
        .collect();
    joined_gradients(vifa, &gradients(vifa, proposal, pieces))
}

/// The gradients for the optimiser.
fn gradients(vifa: &Vifa, proposal: Proposal, pieces: GradientPieces) -> GradientsParams {
    match vifa.step(proposal, pieces, 1).unwrap() {
        Update::Gradients(gradients) => gradients,
        other => panic!("{other:?}"),
    }
}

fn id(step: u64, pass: u64) -> StepId {
    StepId { step, pass }
}

/// The mean of many gradients is the gradient of the objective: each element is within five of its own
/// standard errors. The seeds are fixed.
#[test]
fn gradients_are_unbiased() {
    const COUNT: u64 = 1500;
    for config in [
        config(),
        config().with_draws(4).with_antithetic(true),
        config().map_method(|method| method.with_rank(0)),
    ] {
        let vifa = algorithm(&config);
        let expected = differences(objective, &parameters(&vifa));
        let mut sums = vec![[0.0f64; 2]; expected.len()];
        for step in 0..COUNT {
            let gradient = answered(&vifa, vifa.propose(id(step, 0)).unwrap());
            assert_eq!(gradient.len(), expected.len());
            for (sum, value) in sums.iter_mut().zip(&gradient) {
                sum[0] += value;
                sum[1] += value * value;
            }
        }
        let norm = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>().sqrt();
        let mut errors = Vec::new();
        for (index, (sum, &expected)) in sums.iter().zip(&expected).enumerate() {
            let mean = sum[0] / COUNT as f64;
            let variance = (sum[1] / COUNT as f64 - mean * mean).max(0.0);
            let error = (variance / COUNT as f64).sqrt();
            errors.push(error);
            let rounding = 1e-5 * (1.0 + expected.abs());
            assert_near(
                &format!("{config:?} [{index}]"),
                mean,
                expected,
                5.0 * error + rounding,
            );
        }
        // The errors are small enough to reveal a wrong term.
        assert!(
            norm(&errors) < 0.05 * norm(&expected),
            "{errors:?} of {expected:?}"
        );
    }
}

/// For a flat likelihood, the gradient is τ∇KL, without noise.
#[test]
fn the_divergence_has_its_exact_gradient() {
    for config in [
        config(),
        config().map_method(|method| method.with_rank(0)),
        config().map_method(|method| method.with_rank(3)),
    ] {
        let vifa = algorithm(&config);
        let at = parameters(&vifa);
        let expected = differences(divergence, &at);
        let proposal = vifa.propose(id(0, 0)).unwrap();
        let flat = vec![vec![vector(&[0.0; 2]), vector(&[0.0])]];
        let found = joined_gradients(&vifa, &gradients(&vifa, proposal, flat));
        let sizes: Vec<f64> = expected.iter().map(|value| value.abs() + 1.0).collect();
        // The error of differences is the squared step, 1e-8, times a third derivative of order ten.
        assert_close(
            "divergence",
            &found,
            &expected,
            &sizes,
            1e-6 + 16.0 * EPSILON,
        );
    }
}

/// Antithetic pairs cancel odd terms: for a quadratic, the gradient of the mean has no noise.
#[test]
fn antithetic_draws_give_the_exact_gradient_of_the_mean() {
    let vifa = algorithm(&config().with_draws(2).with_antithetic(true));
    let expected = differences(objective, &parameters(&vifa));
    for step in 0..5 {
        let proposal = vifa.propose(id(step, 0)).unwrap();
        assert_eq!(proposal.draws[1].noise, proposal.draws[0].noise.negated());
        let found = answered(&vifa, proposal);
        let sizes: Vec<f64> = expected[..LEN]
            .iter()
            .map(|v| v.abs() + TRAIN_LEN as f64)
            .collect();
        assert_close(
            "mean",
            &found[..LEN],
            &expected[..LEN],
            &sizes,
            1e-6 + 16.0 * EPSILON,
        );
    }
}

/// Accumulated batches use different draws, and their sum is an average.
#[test]
fn accumulated_gradients_add_up_to_their_average() {
    let single = algorithm(&config());
    let shared = algorithm(&config().map_method(|method| method.with_accumulation(2)));
    let gradients =
        |vifa: &Vifa| [0, 1].map(|pass| answered(vifa, vifa.propose(id(3, pass)).unwrap()));
    let (single, shared) = (gradients(&single), gradients(&shared));
    assert_ne!(single[0], single[1]);
    let pairs = |pair: &[Vec<f64>; 2], share: f64| -> Vec<f64> {
        pair[0]
            .iter()
            .zip(&pair[1])
            .map(|(a, b)| share * (a + b))
            .collect()
    };
    let (expected, found) = (pairs(&single, 0.5), pairs(&shared, 1.0));
    let sizes: Vec<f64> = (0..expected.len())
        .map(|at| single[0][at].abs() + single[1][at].abs() + 1.0)
        .collect();
    assert_close("sum", &found, &expected, &sizes, 16.0 * EPSILON);
}

#[test]
fn clipping_bounds_each_gradient_and_keeps_its_direction() {
    let clip = 0.5;
    let free = algorithm(&config());
    let clipped = algorithm(&config().map_method(|method| method.with_clip_norm(Some(clip))));
    let answer = |vifa: &Vifa| answered(vifa, vifa.propose(id(0, 0)).unwrap());
    let (free, clipped) = (answer(&free), answer(&clipped));
    let parts = [
        0..LEN,
        LEN..LEN * (1 + RANK),
        LEN * (1 + RANK)..LEN * (2 + RANK),
    ];
    for part in parts {
        let (free, clipped) = (&free[part.clone()], &clipped[part]);
        let norm = free.iter().map(|v| v * v).sum::<f64>().sqrt();
        assert!(norm > clip, "this gradient has something to clip: {norm}");
        let expected: Vec<f64> = free.iter().map(|value| value * clip / norm).collect();
        assert_close(
            "clipped",
            clipped,
            &expected,
            &vec![clip; free.len()],
            16.0 * EPSILON,
        );
    }
}

#[test]
fn a_gradient_that_is_not_finite_is_an_error_with_step_and_path() {
    let vifa = algorithm(&config());
    let proposal = vifa.propose(id(6, 0)).unwrap();
    let pieces = vec![vec![vector(&[0.0; 2]), vector(&[f32::NAN])]];
    let error = vifa.step(proposal, pieces, 1).map(|_| ()).unwrap_err();
    assert!(error.is_numerical(), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("step 7: the gradient is not finite at bias"),
        "{error}"
    );
}

#[derive(Module, Debug)]
struct LinearRegression {
    linear: Linear,
}

const PRIOR_PRECISION: f64 = 1.0;
const NOISE_PRECISION: f64 = 4.0;

impl LinearRegression {
    fn predict(&self, (inputs, targets): (Tensor<2>, Tensor<2>)) -> RegressionOutput {
        let output = self.linear.forward(inputs);
        let loss = (output.clone() - targets.clone()).square().mean() * (0.5 * NOISE_PRECISION);
        RegressionOutput::new(loss, output, targets)
    }
}

impl TrainStep for LinearRegression {
    type Input = (Tensor<2>, Tensor<2>);
    type Output = RegressionOutput;

    fn step(&self, item: Self::Input) -> TrainOutput<RegressionOutput> {
        let output = self.predict(item);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for LinearRegression {
    type Input = (Tensor<2>, Tensor<2>);
    type Output = RegressionOutput;

    fn step(&self, item: Self::Input) -> RegressionOutput {
        self.predict(item)
    }
}

/// With K = D−1 the family contains the exact posterior, and training finds it.
#[test]
fn linear_regression_is_solved_exactly() {
    const INPUTS: usize = 4;
    const ROWS: usize = 20;
    const STEPS: u64 = 3000;
    let mut inputs = normals(1, ROWS * INPUTS);
    for row in inputs.chunks_mut(INPUTS) {
        // Correlated inputs, so that the posterior is far from diagonal.
        row[1] = 0.8 * row[0] + 0.6 * row[1];
        row[3] -= 0.7 * row[2];
    }
    let noise = normals(2, ROWS);
    let targets: Vec<f32> = inputs
        .chunks(INPUTS)
        .zip(&noise)
        .map(|(x, noise)| x[0] - 0.5 * x[1] + 2.0 * x[2] + 0.5 * noise)
        .collect();
    let exact = linear_regression_posterior(
        &widened(&inputs),
        &widened(&targets),
        PRIOR_PRECISION,
        NOISE_PRECISION,
    )
    .unwrap();

    let model = LinearRegression {
        linear: LinearConfig::new(INPUTS, 1)
            .with_bias(false)
            .init(&autodiff()),
    };
    let mut bayesian = BayesianConfig::new(
        ROWS,
        VifaConfig::new()
            .with_rank(INPUTS - 1)
            .with_initial_deviation(InitialDeviation::Constant(0.1))
            .with_factor_scale(0.1),
    )
    .with_prior(Prior::isotropic(PRIOR_PRECISION))
    .with_draws(8)
    .with_antithetic(true)
    .with_mean_stage(MeanStage::None)
    .with_averaging(Averaging::From(STEPS / 2))
    .init(filled(model, 3, 0.5));
    let batch = (
        Tensor::from_inner(matrix(ROWS, INPUTS, &inputs)),
        Tensor::from_inner(matrix(ROWS, 1, &targets)),
    );
    let distance = |posterior: burn_bayes::FactorPosterior| {
        GaussianDistance::between(&exact, &posterior.to_dense().unwrap()).unwrap()
    };
    let before = distance(bayesian.posterior());
    let mut optimizer = FusedAdamConfig::new().init();
    for step in 0..STEPS {
        let output = TrainStep::step(&bayesian, batch.clone());
        let rate = 0.05 * 0.01f64.powf(step as f64 / STEPS as f64);
        bayesian = bayesian.optimize(&mut optimizer, rate.into(), output.grads);
    }
    let after = distance(bayesian.posterior());
    assert!(before.reverse_kl > 1.0, "{before:?}");
    assert!(after.reverse_kl < 0.01 && after.kl < 0.01, "{after:?}");
}
