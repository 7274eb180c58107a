//! [`Supervised`]: a network and a likelihood, as one model; and [`Fit`], which trains it in one call.

mod auto;
mod check;
mod fit;
mod fitted;
mod rows;
#[cfg(test)]
mod tests;

use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
    Param,
};
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::{InferenceStep, TrainOutput, TrainStep};
use burn_bayes_graph::{ExampleBatch, module_device, panic_message};

pub use self::auto::Auto;
pub use self::fit::Fit;
pub use self::fitted::Fitted;
use crate::error::{Error, Result};
use crate::laplace::ModelOutputs;
use crate::likelihood::{Likelihood, LikelihoodOutput, Targets};
use crate::posterior::ModelState;
use crate::train::{CompiledStep, ExampleLoss, Recordings, TrainerModel};

/// The inputs of a batch: a tensor, a tuple of tensors, or a structure of them.
pub trait Inputs: ExampleBatch + Debug + Send + Sync + 'static {}

impl<B: ExampleBatch + Debug + Send + Sync + 'static> Inputs for B {}

/// A network, the function that evaluates it, and the likelihood of the targets given its outputs.
///
/// From these follow the steps of training and validation, the loss of every example, the outputs that Laplace
/// approximations need, and predictions of inputs without targets. So it trains with every method, with Burn's Learner,
/// a [`Trainer`](crate::train::Trainer) or [`Fit`]. A batch is `(inputs, targets)`. Parameters have the paths that they have in the network.
///
/// ```
/// use burn::nn::{Linear, LinearConfig};
/// use burn::tensor::{Device, Int, Tensor};
/// use burn_bayes::likelihood::Likelihood;
/// use burn_bayes::{BayesianConfig, SlangConfig, Supervised};
///
/// let network = LinearConfig::new(4, 3).init(&Device::default());
/// let model: Supervised<_, _, Tensor<1, Int>> =
///     Supervised::new(network, |net: &Linear, x: Tensor<2>| net.forward(x), Likelihood::Categorical);
/// let bayesian = BayesianConfig::new(60_000, SlangConfig::new()).init(model);
/// // Learner::new(bayesian, optimizer, learning_rate)
/// ```
pub struct Supervised<M, X = Tensor<2>, Y = Tensor<2>> {
    network: M,
    forward: fn(&M, X) -> Tensor<2>,
    likelihood: Likelihood,
    /// The logarithms of the variances of the noise, of every target or of all, where they are weights.
    log_variance: Option<Param<Tensor<1>>>,
    targets: PhantomData<fn() -> Y>,
}

/// What the network computes of some inputs; a panic, such as Burn's of wrong shapes, is an error of these.
fn caught<T>(compute: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(compute)).unwrap_or_else(|panic| {
        let text = panic_message(&*panic);
        let text: Vec<&str> = text.split_whitespace().collect();
        let problem = format!("cannot be evaluated by the network: {}", text.join(" "));
        Err(Error::config("inputs", problem))
    })
}

/// The path of the noise among the weights, which no field of a network can have.
const LOG_VARIANCE: &str = "log_variance of the noise";

impl<M, X, Y> Supervised<M, X, Y> {
    /// A network, a function from it and the inputs of a batch to its outputs, `[rows, outputs]`, and the likelihood,
    /// which says what the outputs are.
    pub fn new(network: M, forward: fn(&M, X) -> Tensor<2>, likelihood: Likelihood) -> Self {
        Self {
            network,
            forward,
            likelihood,
            log_variance: None,
            targets: PhantomData,
        }
    }

    /// The network.
    pub fn network(&self) -> &M {
        &self.network
    }

    /// The outputs of the network, `[rows, outputs]`, and the logarithms of the variances of the noise after them where these
    /// are weights.
    pub fn forward(&self, inputs: X) -> Tensor<2> {
        let outputs = (self.forward)(&self.network, inputs);
        let Some(log_variance) = &self.log_variance else {
            return outputs;
        };
        let [rows, width] = outputs.dims();
        let log_variance = log_variance.val().unsqueeze_dim::<2>(0);
        Tensor::cat(vec![outputs, log_variance.expand([rows, width])], 1)
    }

    /// With another likelihood of the same outputs, for example another precision of the noise.
    #[must_use]
    pub fn with_likelihood(self, likelihood: Likelihood) -> Self {
        Self { likelihood, ..self }
    }

    /// The same with the noise as weights that start at these logarithms of variances, one for all targets or one for each.
    fn with_noise_weights(self, log_variances: Vec<f64>) -> Self
    where
        M: Module,
    {
        let count = log_variances.len();
        let values = TensorData::new(log_variances, [count]);
        let values = Tensor::from_data(values, &module_device(&self.network));
        Self {
            likelihood: Likelihood::HeteroscedasticGaussian,
            log_variance: Some(Param::from_tensor(values)),
            ..self
        }
    }

    /// The parts that are modules changed.
    fn map_modules(
        self,
        network: impl FnOnce(M) -> M,
        log_variance: impl FnOnce(Option<Param<Tensor<1>>>) -> Option<Param<Tensor<1>>>,
    ) -> Self {
        Self {
            network: network(self.network),
            log_variance: log_variance(self.log_variance),
            ..self
        }
    }
}

impl<M, X, Y: Targets> Supervised<M, X, Y> {
    /// The outputs of a batch, with its targets as the likelihood takes them.
    ///
    /// # Panics
    ///
    /// If the numbers of outputs and targets do not fit the likelihood.
    fn output(&self, (inputs, targets): (X, Y)) -> LikelihoodOutput {
        let outputs = self.forward(inputs);
        let targets = self.columns(targets, &outputs);
        LikelihoodOutput::new(self.likelihood.clone(), outputs, targets)
    }

    fn columns(&self, targets: Y, outputs: &Tensor<2>) -> Tensor<2> {
        let ([rows, found], likelihood) = (outputs.dims(), &self.likelihood);
        let targets = targets.columns(likelihood, found);
        let [expected_rows, columns] = targets.dims();
        assert!(
            rows == expected_rows && found == likelihood.outputs(columns),
            "the network has outputs of shape [{rows}, {found}], but {likelihood:?} with targets of shape \
             [{expected_rows}, {columns}] needs [{expected_rows}, {}]",
            likelihood.outputs(columns)
        );
        targets
    }
}

impl<M: Module, X, Y> Supervised<M, X, Y> {
    /// The likelihood with which a posterior was trained, in the state that it carries.
    fn likelihood_of(state: &ModelState) -> Result<Likelihood> {
        let text = state.setting("likelihood").ok_or_else(|| {
            Error::layout("the posterior has no likelihood: its model was no `Supervised` one")
        })?;
        serde_json::from_str(text).map_err(|error| {
            Error::layout(format!(
                "the likelihood of the posterior is {text}, which is none: {error}"
            ))
        })
    }
}

impl<M: Clone, X, Y> Clone for Supervised<M, X, Y> {
    fn clone(&self) -> Self {
        Self {
            network: self.network.clone(),
            forward: self.forward,
            likelihood: self.likelihood.clone(),
            log_variance: self.log_variance.clone(),
            targets: PhantomData,
        }
    }
}

/// The likelihood as JSON: files of posteriors have the settings of their model as they are shown here.
impl<M: Debug, X, Y> Debug for Supervised<M, X, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let likelihood = serde_json::to_string(&self.likelihood).map_err(|_| fmt::Error)?;
        f.debug_struct("Supervised")
            .field("network", &self.network)
            .field("likelihood", &format_args!("{likelihood}"))
            .finish()
    }
}

/// That of the network, whose parameters keep their paths, and of the noise.
impl<M: Module, X, Y> Module for Supervised<M, X, Y> {
    fn collect_devices(&self, devices: Devices) -> Devices {
        let devices = self.network.collect_devices(devices);
        self.log_variance.collect_devices(devices)
    }

    fn fork(self, device: &Device) -> Self {
        self.map_modules(|network| network.fork(device), |noise| noise.fork(device))
    }

    fn to_device(self, device: &Device) -> Self {
        self.map_modules(
            |network| network.to_device(device),
            |noise| noise.to_device(device),
        )
    }

    fn train(self) -> Self {
        self.map_modules(M::train, Module::train)
    }

    fn valid(&self) -> Self {
        let changed = self.clone();
        changed.map_modules(|network| network.valid(), |noise| noise.valid())
    }

    fn materialize(self) -> Self {
        self.map_modules(M::materialize, Module::materialize)
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        self.network.visit(visitor);
        if let Some(noise) = &self.log_variance {
            visitor.enter_module(LOG_VARIANCE, "Supervised");
            noise.visit(visitor);
            visitor.exit_module(LOG_VARIANCE, "Supervised");
        }
    }

    fn map<Mapper: ModuleMapper>(self, mapper: &mut Mapper) -> Self {
        let network = self.network.map(mapper);
        let log_variance = self.log_variance.map(|noise| {
            mapper.enter_module(LOG_VARIANCE, "Supervised");
            let noise = Module::map(noise, mapper);
            mapper.exit_module(LOG_VARIANCE, "Supervised");
            noise
        });
        Self {
            network,
            log_variance,
            ..self
        }
    }
}

impl<M: Module + ModuleDisplay, X, Y> ModuleDisplayDefault for Supervised<M, X, Y> {
    fn content(&self, content: Content) -> Option<Content> {
        let content = content
            .set_top_level_type("Supervised")
            .add("network", &self.network)
            .add_debug_attribute("likelihood", &self.likelihood);
        Some(content)
    }

    fn num_params(&self) -> usize {
        Module::num_params(self)
    }
}

impl<M: Module + ModuleDisplay, X, Y> ModuleDisplay for Supervised<M, X, Y> {}

impl<M: Module, X: Inputs, Y: Targets> TrainStep for Supervised<M, X, Y> {
    type Input = (X, Y);
    type Output = LikelihoodOutput;

    fn step(&self, batch: (X, Y)) -> TrainOutput<LikelihoodOutput> {
        let output = self.output(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl<M: Module, X: Inputs, Y: Targets> InferenceStep for Supervised<M, X, Y> {
    type Input = (X, Y);
    type Output = LikelihoodOutput;

    fn step(&self, batch: (X, Y)) -> LikelihoodOutput {
        self.output(batch)
    }
}

impl<M: Module, X: Inputs, Y: Targets> ExampleLoss for Supervised<M, X, Y> {
    fn example_losses(&self, (inputs, targets): (X, Y)) -> Tensor<1> {
        let outputs = self.forward(inputs);
        let targets = self.columns(targets, &outputs);
        self.likelihood.losses(outputs, targets)
    }

    fn example_outputs(&self, batch: (X, Y), losses: Tensor<1>) -> LikelihoodOutput {
        let output = self.clone().no_grad().output(batch);
        LikelihoodOutput {
            loss: losses.mean(),
            ..output
        }
    }
}

impl<M: Module, X: Inputs, Y: Targets> ModelOutputs for Supervised<M, X, Y> {
    type Features = X;

    fn features((inputs, _): (X, Y)) -> X {
        inputs
    }

    fn outputs(&self, inputs: X) -> Tensor<2> {
        self.forward(inputs)
    }

    fn likelihood(&self) -> Likelihood {
        self.likelihood.clone()
    }
}

impl<M: Module + 'static, X: Inputs, Y: Targets> TrainerModel for Supervised<M, X, Y> {
    fn compiled(&self, recordings: &Recordings) -> Option<CompiledStep<Self>> {
        recordings.step_of_losses(self)
    }
}
