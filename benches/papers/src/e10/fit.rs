//! A function that is drawn from a Gaussian process, a few rows of it, and networks that are fitted to these.

use burn::module::{Module, ParamGroup};
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::TrainStep;
use burn_bayes::laplace::Linearized;
use burn_bayes::methods::{Algorithm, InitialDeviation, MeanStage, Rate};
use burn_bayes::{
    Bayesian, BayesianConfig, FactorPosterior, FusedAdamConfig, Noise, Prior, SlangConfig,
    VifaConfig,
};
use burn_bayes_contrib::function_prior::{FunctionDivergence, FunctionPrior, WithFunctionPrior};
use burn_bayes_contrib::functional::{
    FunctionPrediction, GaussianProcess, GaussianProcessFit, Kernel, MeasurementPoints, Points,
};
use burn_bayes_tabular::error::{Result, TabularError};
use serde::Serialize;

use super::network::{Batch, NOISE_DEVIATION, Network, UNITS};

/// The data are in ±INSIDE, the grid and the measurement points in ±LIMIT.
pub(super) const INSIDE: f64 = 1.5;
pub(super) const LIMIT: f64 = 3.0;
const ROWS: usize = 20;
const GRID: usize = 121;
/// Measurement points of a step.
const POINTS: usize = 40;
/// The precision of the prior over the weights beside that over the functions.
const WEAK: f64 = 0.01;
/// The share of white noise in the prior of the Laplace approximation; the others have the default.
const LAPLACE_JITTER: f64 = 1e-4;

/// VIFA's initial deviation; that of the program with such a prior.
const DEVIATION: f64 = 0.003;

/// A kernel of figures 3.1 and 3.2.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Case {
    pub(super) name: &'static str,
    kernel: &'static str,
    is_sine: bool,
}

/// Those of figure 3.1, then those of figure 3.2.
pub(super) const CASES: [Case; 4] = [
    Case::new("linear", "0.2 + linear(1)", false),
    Case::new("smooth", "rbf(0.8)", false),
    Case::new("periodic, period 2", "periodic(2,1)", true),
    Case::new("periodic, period 1", "periodic(1,1)", true),
];

impl Case {
    const fn new(name: &'static str, kernel: &'static str, is_sine: bool) -> Self {
        Self {
            name,
            kernel,
            is_sine,
        }
    }

    pub(super) fn kernel(self) -> Result<Kernel> {
        Ok(self.kernel.parse()?)
    }

    pub(super) fn network(self, seed: u64) -> Network {
        let device = Device::default();
        device.seed(seed);
        Network::new(self.is_sine, &device.autodiff())
    }

    pub(super) fn prior(self) -> Result<FunctionPrior> {
        let points = MeasurementPoints::uniform(vec![-LIMIT], vec![LIMIT])?;
        Ok(FunctionPrior::new(self.kernel()?, points, POINTS)?)
    }

    /// A first layer for the kernel, and the last layer solved for: `train_len` rows, or none.
    fn started(self, rows: &Rows, train_len: usize, seed: u64) -> Result<Network> {
        let prior = self.prior()?;
        let mut network = self.network(seed);
        let device = Device::default().autodiff();
        let noise = Noise::new(seed);
        network.first = match self.is_sine {
            true => prior.sine_layer(UNITS, noise, &device)?,
            false => prior.first_layer(UNITS, noise, &device)?,
        };
        let last = ParamGroup::from_predicate("output.");
        let weak = Prior::isotropic(WEAK);
        Ok(prior.solved(network, &last, train_len, &weak, [rows.batch()])?)
    }

    /// The network without data: its draws are those of its prior over functions.
    pub(super) fn without_data(self, rows: &Rows, seed: u64) -> Result<Linearized<Network>> {
        let network = self.started(rows, 0, seed)?.valid();
        let prior = self.prior()?.with_jitter(LAPLACE_JITTER);
        let posterior = prior.laplace(&network, 0, &Prior::isotropic(WEAK), [rows.batch()])?;
        Ok(Linearized::new(network, posterior)?)
    }
}

/// How a network is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Method {
    Laplace,
    Slang,
    Vifa,
    Linearized,
    /// SLANG with a prior over the weights alone.
    Weights,
}

impl Method {
    pub(super) const ALL: [Self; 5] = [
        Self::Laplace,
        Self::Slang,
        Self::Vifa,
        Self::Linearized,
        Self::Weights,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Laplace => "Laplace",
            Self::Slang => "SLANG",
            Self::Vifa => "VIFA",
            Self::Linearized => "VIFA, linearised divergence",
            Self::Weights => "SLANG, prior over weights",
        }
    }
}

/// Rows of a function that is drawn from the process of a case.
pub(super) struct Rows {
    case: Case,
    pub(super) inputs: Vec<f64>,
    pub(super) targets: Vec<f64>,
}

impl Rows {
    pub(super) fn new(case: Case, seed: u64) -> Result<Self> {
        let place = |row: usize| INSIDE * (2.0 * (row as f64 + 0.5) / ROWS as f64 - 1.0);
        let inputs: Vec<f64> = (0..ROWS).map(place).collect();
        let noise = Noise::new(seed).fold(1);
        let function = case
            .kernel()?
            .draws(&Points::new(1, inputs.clone())?, noise, 1)?;
        let errors = noise.fold(1).latent(ROWS);
        let targets = function[0].iter().zip(errors);
        let targets = targets.map(|(value, z)| value + NOISE_DEVIATION * f64::from(z));
        Ok(Self {
            case,
            inputs,
            targets: targets.collect(),
        })
    }

    pub(super) fn batch(&self) -> Batch {
        let device = Device::default().autodiff();
        let [inputs, targets] = [&self.inputs, &self.targets].map(|values| column(values, &device));
        (inputs, targets)
    }

    /// The exact process given the rows.
    pub(super) fn exact(&self) -> Result<GaussianProcessFit> {
        let process = GaussianProcess::new(self.case.kernel()?, NOISE_DEVIATION.powi(2))?;
        Ok(process.fit(&Points::new(1, self.inputs.clone())?, &self.targets)?)
    }

    /// A network that is fitted by this many steps.
    pub(super) fn fit(
        &self,
        method: Method,
        steps: usize,
        seed: u64,
    ) -> Result<Linearized<Network>> {
        let (case, weak) = (self.case, Prior::isotropic(WEAK));
        let slang = |rank: usize, weights: Prior, stage: usize| {
            BayesianConfig::new(
                ROWS,
                SlangConfig::new()
                    .with_rank(rank)
                    .with_covariance_rate(Rate::Constant(0.02)),
            )
            .with_seed(seed)
            .with_prior(weights)
            .with_mean_stage(MeanStage::Steps(stage as u64))
        };
        let vifa = BayesianConfig::new(
            ROWS,
            VifaConfig::new()
                .with_rank(10)
                .with_initial_deviation(InitialDeviation::FanInScaled(DEVIATION)),
        )
        .with_seed(seed)
        .with_prior(weak.clone())
        .with_mean_stage(MeanStage::Steps(steps as u64 / 4));
        let prior = case.prior()?;
        let network = || case.started(self, ROWS, seed);
        let (network, posterior) = match method {
            Method::Laplace => {
                let prior = prior.with_jitter(LAPLACE_JITTER);
                let bayesian = slang(0, weak.clone(), 2 * steps)
                    .init(network()?)
                    .with_function_prior(prior.clone())?;
                let network = self.trained(bayesian, steps, 0.01)?.mean_model()?;
                let posterior = prior.laplace(&network, ROWS, &weak, [self.batch()])?;
                (network, posterior)
            }
            Method::Slang => {
                let bayesian = slang(2 * UNITS, weak, steps / 2)
                    .init(network()?)
                    .with_gauss_newton()
                    .with_function_prior(prior)?;
                self.finished(bayesian, steps, 0.1)?
            }
            Method::Vifa => {
                let bayesian = vifa.init(network()?).with_function_prior(prior)?;
                self.finished(bayesian, steps, 0.01)?
            }
            Method::Linearized => {
                let prior = prior.with_divergence(FunctionDivergence::Linearized);
                let bayesian = vifa
                    .init(network()?)
                    .with_gauss_newton()
                    .with_function_prior(prior)?;
                self.finished(bayesian, steps, 0.01)?
            }
            Method::Weights => {
                let bayesian = slang(2 * UNITS, Prior::isotropic(1.0), steps / 2)
                    .init(case.network(seed))
                    .with_gauss_newton();
                self.finished(bayesian, steps, 0.1)?
            }
        };
        Ok(Linearized::new(network, posterior)?)
    }

    fn finished<A>(
        &self,
        bayesian: Bayesian<Network, A>,
        steps: usize,
        rate: f64,
    ) -> Result<(Network, FactorPosterior)>
    where
        A: Algorithm<Posterior = FactorPosterior>,
        Bayesian<Network, A>: TrainStep<Input = Batch>,
    {
        let trained = self.trained(bayesian, steps, rate)?;
        Ok((trained.template().valid(), trained.try_posterior()?))
    }

    /// After steps with all rows, with a learning rate that falls in the second half.
    fn trained<A>(
        &self,
        mut bayesian: Bayesian<Network, A>,
        steps: usize,
        rate: f64,
    ) -> Result<Bayesian<Network, A>>
    where
        A: Algorithm,
        Bayesian<Network, A>: TrainStep<Input = Batch>,
    {
        let mut optimizer = FusedAdamConfig::new().init();
        let batch = self.batch();
        for step in 0..steps {
            let share = step as f64 / steps as f64;
            let rate = rate * (-8.0 * (share - 0.5).max(0.0)).exp();
            let gradients = TrainStep::step(&bayesian, batch.clone()).grads;
            bayesian = bayesian.optimize(&mut optimizer, rate.into(), gradients);
        }
        match bayesian.fault() {
            Some(fault) => Err(TabularError::Numerical(fault.to_string())),
            None => Ok(bayesian),
        }
    }
}

/// The places at which functions are compared.
pub(super) fn grid() -> Vec<f64> {
    let place = |at: usize| LIMIT * (2.0 * at as f64 / (GRID - 1) as f64 - 1.0);
    (0..GRID).map(place).collect()
}

pub(super) fn column(values: &[f64], device: &Device) -> Tensor<2> {
    let narrow: Vec<f32> = values.iter().map(|&value| value as f32).collect();
    Tensor::from_data(TensorData::new(narrow, [values.len(), 1]), device)
}

/// The distribution of a network's function on the grid.
pub(super) fn predicted(network: &Linearized<Network>) -> Result<FunctionPrediction> {
    let outputs = network.outputs(&column(&grid(), &Device::default()))?;
    let numbers = |values: Tensor<2>| values.into_data().iter::<f64>().collect();
    Ok(FunctionPrediction {
        mean: numbers(outputs.mean),
        variance: numbers(outputs.variance),
    })
}
