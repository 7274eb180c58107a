//! Training with a prior over functions, against exact Gaussian-process regression.

use burn::optim::{ModuleOptimizer, SgdConfig};
use burn_bayes::BayesianConfig;
use burn_bayes::laplace::Linearized;
use burn_bayes::methods::{Averaging, Curvature, InitialDeviation, MeanStage, VonConfig};
use burn_bayes::optimizer::FusedAdamConfig;
use burn_bayes::train::Gather;

use super::*;
use crate::functional::{GaussianProcess, GaussianProcessFit};

/// The precision of the noise of the targets.
const NOISE_PRECISION: f64 = 625.0;
/// The number of training examples.
pub(super) const LEN: usize = 20;
/// Offsets and slopes with the precisions 12 500 and 2500. The data have 12 500 and 4600, so the prior matters.
const KERNEL: &str = "0.00008 + 0.0004*linear";

/// A line: the model is linear in its weights.
#[derive(Module, Debug)]
pub(super) struct Line {
    layer: Linear,
}

impl ModelOutputs for Line {
    type Features = Tensor<2>;

    fn features((inputs, _): Batch) -> Tensor<2> {
        inputs
    }

    fn outputs(&self, inputs: Tensor<2>) -> Tensor<2> {
        self.layer.forward(inputs)
    }

    fn likelihood(&self) -> Likelihood {
        Likelihood::Gaussian {
            noise_precision: NOISE_PRECISION,
        }
    }
}

impl ExampleLoss for Line {
    fn example_losses(&self, (inputs, targets): Batch) -> Tensor<1> {
        losses::gaussian(self.outputs(inputs), targets, NOISE_PRECISION)
    }

    fn example_outputs(&self, (inputs, targets): Batch, losses: Tensor<1>) -> RegressionOutput {
        RegressionOutput::new(losses.mean(), self.outputs(inputs), targets)
    }
}

impl TrainStep for Line {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
        self.mean_loss_step(batch)
    }
}

/// The mean of the inputs with which offset and slope are independent.
const CENTRED: f64 = 0.0;

/// Inputs with this mean, and the targets.
fn data(mean: f64) -> (Vec<f64>, Vec<f64>) {
    let middle = (LEN - 1) as f64 / 2.0;
    let input = |i: usize| mean + (i as f64 - middle) / middle;
    let inputs: Vec<f64> = (0..LEN).map(input).collect();
    let noise = Noise::new(11).latent(LEN).into_iter().map(f64::from);
    let targets = inputs
        .iter()
        .zip(noise)
        .map(|(x, z)| 0.03 * x + 0.01 + z / 25.0);
    let targets = targets.collect();
    (inputs, targets)
}

fn kernel() -> Kernel {
    KERNEL.parse().unwrap()
}

pub(super) fn prior() -> FunctionPrior {
    let points = MeasurementPoints::uniform(vec![-2.0], vec![2.0]).unwrap();
    let prior = FunctionPrior::new(kernel(), points, 8).unwrap();
    prior.with_jitter(1e-6)
}

pub(super) fn line() -> Line {
    let line = Line {
        layer: LinearConfig::new(1, 1).init(&autodiff()),
    };
    let layout = Layout::new(&line, &ParamGroup::all()).unwrap();
    let weights = Tensor::<1>::from_data([0.02, -0.03], &Device::default());
    layout.write_leaves(line, weights).unwrap()
}

/// Steps on all of the centred data with a learning rate per step, from 1.
fn trained<A>(
    bayesian: Bayesian<Line, A>,
    optimizer: ModuleOptimizer,
    steps: usize,
    rate: impl Fn(f64) -> f64,
) -> FactorPosterior
where
    A: Algorithm<Posterior = FactorPosterior>,
    A::Signal: Gather<Line, A>,
{
    trained_on(data(CENTRED), bayesian, optimizer, steps, rate)
}

fn trained_on<A>(
    (inputs, targets): (Vec<f64>, Vec<f64>),
    mut bayesian: Bayesian<Line, A>,
    mut optimizer: ModuleOptimizer,
    steps: usize,
    rate: impl Fn(f64) -> f64,
) -> FactorPosterior
where
    A: Algorithm<Posterior = FactorPosterior>,
    A::Signal: Gather<Line, A>,
{
    let device = autodiff();
    let [inputs, targets] = [inputs, targets].map(|values| from_host(&values, [LEN, 1], &device));
    for step in 1..=steps {
        let batch = (inputs.clone(), targets.clone());
        let output = TrainStep::step(&bayesian, batch);
        bayesian = bayesian.optimize(&mut optimizer, rate(step as f64).into(), output.grads);
    }
    assert!(bayesian.fault().is_none(), "{:?}", bayesian.fault());
    bayesian.posterior()
}

/// With the learning rate 1/t, the mean is the average of the means that the draws ask for.
fn averaged<A>(bayesian: Bayesian<Line, A>, steps: usize) -> FactorPosterior
where
    A: Algorithm<Posterior = FactorPosterior>,
    A::Signal: Gather<Line, A>,
{
    trained(bayesian, SgdConfig::new().init(), steps, |step| 1.0 / step)
}

/// The centred data.
pub(super) fn batch() -> Batch {
    let (inputs, targets) = data(CENTRED);
    let device = autodiff();
    let [inputs, targets] = [inputs, targets].map(|values| from_host(&values, [LEN, 1], &device));
    (inputs, targets)
}

/// The variances of a posterior with any mean.
pub(super) fn assert_variances(what: &str, posterior: FactorPosterior, variance: f64) {
    let tolerance = Tolerance {
        mean: f64::INFINITY,
        variance,
    };
    assert_exact(what, posterior, &tolerance);
}

/// The exact process given the centred data.
pub(super) fn process() -> GaussianProcessFit {
    let (inputs, targets) = data(CENTRED);
    let process = GaussianProcess::new(kernel(), 1.0 / NOISE_PRECISION).unwrap();
    process
        .fit(&Points::new(1, inputs).unwrap(), &targets)
        .unwrap()
}

/// The largest deviations allowed.
struct Tolerance {
    mean: f64,
    /// Relative.
    variance: f64,
}

/// The posterior of the line is that of Gaussian-process regression, at 50 points inside and outside the data.
fn assert_exact(what: &str, posterior: FactorPosterior, tolerance: &Tolerance) {
    assert_exact_on(data(CENTRED), what, posterior, tolerance);
}

fn assert_exact_on(
    (inputs, targets): (Vec<f64>, Vec<f64>),
    what: &str,
    posterior: FactorPosterior,
    tolerance: &Tolerance,
) {
    let process = GaussianProcess::new(kernel(), 1.0 / NOISE_PRECISION).unwrap();
    let fit = process
        .fit(&Points::new(1, inputs).unwrap(), &targets)
        .unwrap();
    let places: Vec<f64> = (0..50).map(|i| -1.5 + 0.06 * f64::from(i)).collect();
    let linearized = Linearized::new(line().valid(), posterior).unwrap();
    let rows = from_host(&places, [50, 1], &Device::default());
    let found = linearized.outputs(&rows).unwrap();
    let (mean, variance) = (to_host(found.mean), to_host(found.variance));
    let expected = fit.predict(&Points::new(1, places).unwrap()).unwrap();
    for at in 0..50 {
        let error = (mean[at] - expected.mean[at]).abs();
        assert!(error <= tolerance.mean, "{what}, mean {at}: {error}");
        let error = (variance[at] / expected.variance[at] - 1.0).abs();
        assert!(
            error <= tolerance.variance,
            "{what}, variance {at}: {error}"
        );
    }
}

fn slang(rate: Rate) -> BayesianConfig<SlangConfig> {
    BayesianConfig::paper(
        LEN,
        SlangConfig::paper()
            .with_rank(2)
            .with_covariance_rate(rate)
            .with_initial_deviation(Some(InitialDeviation::Constant(0.01))),
    )
    .with_draws(4)
    .with_prior(Prior::isotropic(0.01))
}

/// With all directions in the factors and the Gauss–Newton matrix as curvature. The deviations of the function are at most
/// 0.02, so the mean of 8000 draws has a standard error of 0.0002.
#[test]
fn slang_with_a_function_prior_is_exact_regression() {
    let bayesian = slang(Rate::Constant(0.5)).init(line()).with_gauss_newton();
    let bayesian = bayesian.with_function_prior(prior()).unwrap();
    let tolerance = Tolerance {
        mean: 1e-3,
        variance: 1e-3,
    };
    assert_exact("SLANG", averaged(bayesian, 2000), &tolerance);
}

/// The precision is the average over steps. That of the prior, about half of it, has the relative standard error
/// √(2/8000), or 0.016.
#[test]
fn slang_with_random_rows_is_exact_on_average() {
    let average = Rate::Power {
        initial: 1.0,
        time_constant: 1.0,
        power: 1.0,
    };
    let bayesian = slang(average).init(line()).with_gauss_newton();
    let bayesian = bayesian
        .with_function_prior(prior().with_sketch(1))
        .unwrap();
    let tolerance = Tolerance {
        mean: 2e-3,
        variance: 0.06,
    };
    assert_exact("SLANG, sketched", averaged(bayesian, 2000), &tolerance);
}

/// The exact posterior has no correlation, so the diagonal is all of it, and antithetic draws have the exact mean
/// gradient.
#[test]
fn von_with_a_function_prior_is_exact_regression() {
    let config = BayesianConfig::paper(
        LEN,
        VonConfig::paper()
            .with_curvature(Curvature::Hutchinson { probe: 1.0 })
            .with_covariance_rate(Rate::Constant(0.5))
            .with_initial_deviation(Some(InitialDeviation::Constant(0.01))),
    )
    .with_draws(2)
    .with_antithetic(true)
    .with_prior(Prior::isotropic(0.01));
    let bayesian = config.init(line()).with_function_prior(prior()).unwrap();
    let tolerance = Tolerance {
        mean: 1e-3,
        variance: 1e-3,
    };
    let posterior = trained(bayesian, SgdConfig::new().init(), 100, |_| 0.5);
    assert_exact("VON", posterior, &tolerance);
}

/// Rank 1 of two weights contains every Gaussian.
fn vifa(draws: usize) -> BayesianConfig<VifaConfig> {
    BayesianConfig::new(
        LEN,
        VifaConfig::new()
            .with_rank(1)
            .with_initial_deviation(InitialDeviation::Constant(0.02))
            .with_factor_scale(0.1),
    )
    .with_draws(draws)
    .with_mean_stage(MeanStage::None)
    .with_prior(Prior::isotropic(0.01))
}

/// A learning rate that falls exponentially from 0.03 to 0.001. In double precision and without noise, 3000 steps end
/// within 10⁻⁸ of the variances; from 0.01 to 0.0001 they end 14 % away, because the factors converge slowly.
fn falling(steps: u32) -> impl Fn(f64) -> f64 {
    move |step| 0.03 * (1.0f64 / 30.0).powf(step / f64::from(steps))
}

/// The mean gradient of antithetic draws is exact for a line. The gradient of a log-variance from 16 pairs has the standard
/// error ½ √(2/16), and its derivative is ½: the average of 1500 steps has a standard error of 0.0091 of a variance. The
/// tolerance is five of them.
#[test]
fn vifa_with_a_function_prior_is_exact_regression() {
    const STEPS: u32 = 3000;
    let config = vifa(32).with_averaging(Averaging::From(u64::from(STEPS) / 2));
    let bayesian = config.init(line()).with_function_prior(prior()).unwrap();
    let tolerance = Tolerance {
        mean: 1e-3,
        variance: 0.046,
    };
    let adam = FusedAdamConfig::new().init();
    let posterior = trained(bayesian, adam, STEPS as usize, falling(STEPS));
    assert_exact("VIFA", posterior, &tolerance);
}

/// Without the noise of draws in the gradients of the covariance, and with offset and slope that are not independent.
#[test]
fn vifa_with_the_gauss_newton_matrix_and_a_linearised_divergence_is_exact() {
    let config = vifa(2).with_averaging(Averaging::None);
    let prior = prior().with_divergence(FunctionDivergence::Linearized);
    let bayesian = config.init(line()).with_gauss_newton();
    let bayesian = bayesian.with_function_prior(prior).unwrap();
    let tolerance = Tolerance {
        mean: 1e-3,
        variance: 1e-3,
    };
    const STEPS: u32 = 3000;
    let (data, adam) = (data(0.5), FusedAdamConfig::new().init());
    let rate = falling(STEPS);
    let posterior = trained_on(data.clone(), bayesian, adam, STEPS as usize, rate);
    assert_exact_on(data, "VIFA, linearised", posterior, &tolerance);
}

/// A prior that allows almost no function but zero, from the first step of the first stage on.
#[test]
fn the_first_stage_uses_the_prior_over_functions() {
    let kernel: Kernel = "0.000001 + 0.000001*linear".parse().unwrap();
    let points = MeasurementPoints::uniform(vec![-2.0], vec![2.0]).unwrap();
    let prior = FunctionPrior::new(kernel, points, 8).unwrap();
    let config = BayesianConfig::new(LEN, SlangConfig::new())
        .with_prior(Prior::isotropic(0.01))
        .with_mean_stage(MeanStage::Steps(400));
    let squared_norm = |bayesian: Bayesian<Line, _>| {
        let optimizer = SgdConfig::new().init();
        let mean = to_host(trained(bayesian, optimizer, 300, |_| 0.1).mean());
        mean.iter().map(|x| x * x).sum::<f64>()
    };
    let free = squared_norm(config.init(line()));
    let bound = squared_norm(config.init(line()).with_function_prior(prior).unwrap());
    assert!(bound < 0.1 * free, "{bound} {free}");
}
