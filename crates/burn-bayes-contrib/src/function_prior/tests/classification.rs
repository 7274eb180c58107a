//! Classifiers: every logit has a Gaussian process.

use burn_bayes::BayesianConfig;
use burn_bayes::methods::VonConfig;
use burn_bayes::train::Gather;

use super::*;

const CLASSES: usize = 3;

#[derive(Module, Debug)]
struct Classifier {
    net: Net,
}

impl Classifier {
    fn new(device: &Device) -> Self {
        Self {
            net: Net::with_outputs(CLASSES, device),
        }
    }
}

impl ModelOutputs for Classifier {
    type Features = Tensor<2>;

    fn features((inputs, _): Batch) -> Tensor<2> {
        inputs
    }

    fn outputs(&self, inputs: Tensor<2>) -> Tensor<2> {
        self.net.outputs(inputs)
    }

    fn likelihood(&self) -> Likelihood {
        Likelihood::Categorical
    }
}

impl ExampleLoss for Classifier {
    fn example_losses(&self, (inputs, targets): Batch) -> Tensor<1> {
        self.likelihood().losses(self.outputs(inputs), targets)
    }

    fn example_outputs(&self, (inputs, targets): Batch, losses: Tensor<1>) -> RegressionOutput {
        RegressionOutput::new(losses.mean(), self.outputs(inputs), targets)
    }
}

impl TrainStep for Classifier {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
        self.mean_loss_step(batch)
    }
}

const ROWS: usize = 30;

/// Inputs whose first coordinate tells the class.
fn batch() -> Batch {
    let device = autodiff();
    let inputs = Noise::new(6).latent(3 * ROWS).into_iter().map(f64::from);
    let inputs: Vec<f64> = inputs.collect();
    let class = |row: usize| match inputs[3 * row] {
        x if x < -0.5 => 0,
        x if x < 0.5 => 1,
        _ => 2,
    };
    let one_hot = (0..ROWS * CLASSES).map(|at| match class(at / CLASSES) == at % CLASSES {
        true => 1.0,
        false => 0.0,
    });
    let targets: Vec<f64> = one_hot.collect();
    (
        from_host(&inputs, [ROWS, 3], &device),
        from_host(&targets, [ROWS, CLASSES], &device),
    )
}

/// The root of the mean square of the logits at the posterior's mean after some steps.
fn size_of_logits<A: Algorithm<Posterior = FactorPosterior>>(
    mut bayesian: Bayesian<Classifier, A>,
    steps: usize,
    rate: f64,
) -> f64
where
    A::Signal: Gather<Classifier, A>,
{
    let mut optimizer = SgdConfig::new().init();
    for _ in 0..steps {
        let gradients = TrainStep::step(&bayesian, batch()).grads;
        bayesian = bayesian.optimize(&mut optimizer, rate.into(), gradients);
    }
    assert!(bayesian.fault().is_none(), "{:?}", bayesian.fault());
    let outputs = bayesian.mean_model().unwrap().outputs(batch().0.inner());
    let logits = to_host(outputs);
    (logits.iter().map(|f| f * f).sum::<f64>() / logits.len() as f64).sqrt()
}

/// A process of deviation 0.1 holds the logits near zero; that of deviation 10 leaves them free.
#[test]
fn every_supported_method_uses_the_prior_in_a_classification() {
    let prior = |deviation: f64| {
        let kernel = Kernel::constant(deviation * deviation) * Kernel::rbf([2.0]);
        let points = MeasurementPoints::uniform(vec![-2.0; 3], vec![2.0; 3]).unwrap();
        FunctionPrior::new(kernel, points, 12).unwrap()
    };
    let weak = || Prior::isotropic(0.01);
    let model = || Classifier::new(&autodiff());
    let slang = |rank, deviation| {
        let config =
            BayesianConfig::new(ROWS, SlangConfig::new().with_rank(rank)).with_prior(weak());
        let bayesian = config.init(model()).with_gauss_newton();
        let bayesian = bayesian.with_function_prior(prior(deviation)).unwrap();
        size_of_logits(bayesian, 200, 0.1)
    };
    let von = |deviation| {
        let bayesian = BayesianConfig::new(ROWS, VonConfig::new())
            .with_prior(weak())
            .init(model());
        let bayesian = bayesian.with_function_prior(prior(deviation)).unwrap();
        size_of_logits(bayesian, 200, 0.1)
    };
    let vifa = |deviation| {
        let bayesian = BayesianConfig::new(ROWS, VifaConfig::new())
            .with_prior(weak())
            .init(model());
        let bayesian = bayesian.with_function_prior(prior(deviation)).unwrap();
        // The gradient is the sum over all rows, and stiff under the narrow prior.
        size_of_logits(bayesian, 800, 1e-5)
    };
    for (method, [narrow, wide]) in [
        ("SLANG", [0.1, 10.0].map(|deviation| slang(4, deviation))),
        ("VOGN", [0.1, 10.0].map(|deviation| slang(0, deviation))),
        ("VON", [0.1, 10.0].map(von)),
        ("VIFA", [0.1, 10.0].map(vifa)),
    ] {
        assert!(narrow < 0.25, "{method}: {narrow}");
        assert!(narrow < 0.5 * wide, "{method}: {narrow} {wide}");
    }
}
