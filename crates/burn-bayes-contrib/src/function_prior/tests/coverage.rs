//! Simulation: functions that are drawn from the prior lie inside the intervals of their fits as often as these promise.

use burn::optim::{ModuleOptimizer, SgdConfig};
use burn_bayes::BayesianConfig;
use burn_bayes::laplace::Linearized;
use burn_bayes::methods::InitialDeviation;

use super::*;
use crate::functional::Points;

/// The number of bumps, of width `WIDTH` and spaced as widely, from −3 to 3.
const BUMPS: usize = 13;
const WIDTH: f64 = 0.5;
const NOISE_DEVIATION: f64 = 0.1;
const TRAIN_LEN: usize = 12;
const TEST_LEN: usize = 20;
const FUNCTIONS: u64 = 200;
const STEPS: usize = 60;

/// A sum of bumps, linear in its weights, which approximates functions of the kernel.
#[derive(Module, Debug)]
struct Bumps {
    layer: Linear,
}

impl ModelOutputs for Bumps {
    type Features = Tensor<2>;

    fn features((inputs, _): Batch) -> Tensor<2> {
        inputs
    }

    fn outputs(&self, inputs: Tensor<2>) -> Tensor<2> {
        let centers: Vec<f64> = (0..BUMPS).map(|i| WIDTH * i as f64 - 3.0).collect();
        let distances = inputs.clone() - from_host(&centers, [1, BUMPS], &inputs.device());
        let bumps = (distances.square() * (-0.5 / (WIDTH * WIDTH))).exp();
        self.layer.forward(bumps)
    }

    fn likelihood(&self) -> Likelihood {
        Likelihood::Gaussian {
            noise_precision: NOISE_DEVIATION.powi(-2),
        }
    }
}

impl ExampleLoss for Bumps {
    fn example_losses(&self, (inputs, targets): Batch) -> Tensor<1> {
        losses::gaussian(self.outputs(inputs), targets, NOISE_DEVIATION.powi(-2))
    }

    fn example_outputs(&self, (inputs, targets): Batch, losses: Tensor<1>) -> RegressionOutput {
        RegressionOutput::new(losses.mean(), self.outputs(inputs), targets)
    }
}

impl TrainStep for Bumps {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
        self.mean_loss_step(batch)
    }
}

/// Evenly spaced from −2 to 2, shifted by a share of the spacing.
fn places(count: usize, shift: f64) -> Vec<f64> {
    let spacing = 4.0 / count as f64;
    (0..count)
        .map(|i| (i as f64 + shift) * spacing - 2.0)
        .collect()
}

/// The values of one function inside its intervals of 90 %.
fn covered(kernel: &Kernel, seed: u64) -> usize {
    let (train, test) = (places(TRAIN_LEN, 0.5), places(TEST_LEN, 0.3));
    let all = Points::new(1, [train.clone(), test.clone()].concat()).unwrap();
    let values = kernel.draws(&all, Noise::new(seed), 1).unwrap().remove(0);
    let noise = Noise::new(seed).fold(9).latent(TRAIN_LEN);
    let targets: Vec<f64> = values
        .iter()
        .zip(noise)
        .map(|(f, z)| f + NOISE_DEVIATION * f64::from(z))
        .collect();
    let device = autodiff();
    let net = Bumps {
        layer: LinearConfig::new(BUMPS, 1).with_bias(false).init(&device),
    };
    let points = MeasurementPoints::uniform(vec![-2.5], vec![2.5]).unwrap();
    let prior = FunctionPrior::new(kernel.clone(), points, 24).unwrap();
    let average = Rate::Power {
        initial: 1.0,
        time_constant: 1.0,
        power: 1.0,
    };
    let config = BayesianConfig::paper(
        TRAIN_LEN,
        SlangConfig::paper()
            .with_rank(BUMPS)
            .with_initial_deviation(Some(InitialDeviation::Constant(0.01)))
            .with_covariance_rate(average),
    )
    .with_seed(seed)
    .with_prior(Prior::isotropic(0.01));
    let mut bayesian = config.init(net).with_gauss_newton();
    bayesian = bayesian.with_function_prior(prior).unwrap();
    let mut optimizer: ModuleOptimizer = SgdConfig::new().init();
    let batch = (
        from_host(&train, [TRAIN_LEN, 1], &device),
        from_host(&targets, [TRAIN_LEN, 1], &device),
    );
    for step in 1..=STEPS {
        let gradients = TrainStep::step(&bayesian, batch.clone()).grads;
        bayesian = bayesian.optimize(&mut optimizer, (1.0 / step as f64).into(), gradients);
    }
    assert!(bayesian.fault().is_none(), "{:?}", bayesian.fault());
    let linearized = Linearized::new(bayesian.template().valid(), bayesian.posterior()).unwrap();
    let rows = from_host(&test, [TEST_LEN, 1], &Device::default());
    let found = linearized.outputs(&rows).unwrap();
    let predictions = to_host(found.mean).into_iter().zip(to_host(found.variance));
    let inside = predictions
        .zip(&values[TRAIN_LEN..])
        .filter(|((mean, variance), f)| (*f - mean).abs() <= 1.644_854 * variance.sqrt());
    inside.count()
}

/// The values of a function are correlated: 200 functions of about 5 independent values each give a standard error of
/// 0.9 %, and the allowed deviation is 3 %.
#[test]
fn intervals_contain_functions_of_the_prior_as_often_as_they_promise() {
    let kernel = Kernel::rbf([1.0]);
    let inside: usize = (0..FUNCTIONS).map(|seed| covered(&kernel, seed)).sum();
    let share = inside as f64 / (FUNCTIONS as usize * TEST_LEN) as f64;
    assert!((share - 0.9).abs() <= 0.03, "{share}");
}
