//! Creates network, algorithm and optimiser from the settings, and trains.

use burn::grad_clipping::GradientClipping;
use burn::module::Module;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{ModuleOptimizer, SgdConfig};
use burn::tensor::Device;
use burn::train::Interrupter;
use burn_bayes::likelihood::Likelihood;
use burn_bayes::methods::{Algorithm, MeanStage};
use burn_bayes::{Bayesian, FusedAdamConfig, Noise};
use burn_bayes_contrib::function_prior::WithFunctionPrior;

use super::likelihood::{is_noise_a_weight, likelihood, outputs};
use super::method::{MethodConfig, rates};
use super::prior::biases;
use super::training::{Checkpoint, Learner, Training};
use super::{Observer, TrainedModel, sampling};
use crate::error::Result;
use crate::network::{LayerSizes, Network};
use crate::rows::{Target, TrainingSet};
use crate::settings::{FitSettings, OptimizerName, refused};

/// The random stream of the initial weights.
const INITIAL_WEIGHTS: u64 = 0x696e_6974;
/// Maximum number of weights; GPUs index elements with 32 bits.
const MOST_WEIGHTS: usize = 1 << 31;

/// Trains with the method of the settings.
pub(super) fn train(
    training: &Training<'_>,
    checkpoint: Option<Checkpoint>,
    observer: &mut dyn Observer,
) -> Result<TrainedModel> {
    let (settings, rows) = (training.settings, training.training_set.rows());
    let (precisions, device) = (&training.precisions.noise, &training.device);
    let network = training.training_set.network(settings, precisions, device);
    let config = MethodConfig::new(settings, rows, network.num_params())?;
    // A checkpoint has the weights.
    let network = match checkpoint {
        None => training.started(network)?,
        Some(_) => network,
    };
    let mut start = Start {
        training,
        checkpoint,
        observer,
    };
    match config {
        MethodConfig::Vifa(config) if settings.has_function_divergence() => {
            start.bayesian(config.try_init(network)?.with_gauss_newton())
        }
        MethodConfig::Vifa(config) => start.bayesian(config.try_init(network)?),
        MethodConfig::Swag(config) => start.bayesian(config.try_init(network)?),
        MethodConfig::FactorAnalysis(config) => start.bayesian(config.try_init(network)?),
        MethodConfig::Slang(config) => start.bayesian(config.try_init(network)?),
        MethodConfig::Von(config) => start.bayesian(config.try_init(network)?),
        MethodConfig::Vadam(config) => start.bayesian(config.try_init(network)?),
        MethodConfig::Ivon(config) => start.bayesian(config.try_init(network)?),
        MethodConfig::Nagvac(config) => start.bayesian(config.try_init(network)?),
        MethodConfig::Sampled(config) => {
            sampling::sample(training, config, start.checkpoint, start.observer)
        }
        MethodConfig::Laplace(_) | MethodConfig::Map => start.run(network),
    }
}

/// The initial network. The noise precisions are those of the targets, or the largest that it can predict.
pub fn network(
    settings: &FitSettings,
    features: usize,
    target: &Target,
    noise_precisions: &[f64],
    device: &Device,
) -> Network {
    let noise = start(settings);
    started(settings, features, target, noise_precisions, noise, device)
}

/// The noise of the initial weights.
fn start(settings: &FitSettings) -> Noise {
    Noise::new(settings.seed).fold(INITIAL_WEIGHTS)
}

/// A network with initial weights from this noise.
fn started(
    settings: &FitSettings,
    features: usize,
    target: &Target,
    noise_precisions: &[f64],
    noise: Noise,
    device: &Device,
) -> Network {
    let likelihood = likelihood(settings, target, noise_precisions);
    let ends = ends(settings, features, target);
    let offset = match target {
        Target::Counts { mean, .. } => mean.ln(),
        Target::Real(_) | Target::Classes(_) | Target::Several(_) => 0.0,
    };
    let least_variances = match likelihood {
        Likelihood::HeteroscedasticGaussian | Likelihood::GaussianMixture { .. } => {
            noise_precisions.iter().map(|most| most.recip()).collect()
        }
        _ => Vec::new(),
    };
    let log_spread = match target {
        Target::Real(scale) if scale.is_logarithmic => scale.spread,
        _ => 0.0,
    };
    let activation = settings.tuned().activation;
    Network::new(
        &settings.shape(),
        activation,
        ends,
        likelihood,
        noise,
        device,
    )
    .with_offset(offset, target.has_exposure())
    .with_least_variances(least_variances, log_spread)
}

impl TrainingSet {
    /// The initial network of a fit to these rows.
    pub(super) fn network(
        &self,
        settings: &FitSettings,
        noise_precisions: &[f64],
        device: &Device,
    ) -> Network {
        self.started_network(settings, noise_precisions, start(settings), device)
    }

    /// The same with initial weights from this noise.
    pub(super) fn started_network(
        &self,
        settings: &FitSettings,
        noise_precisions: &[f64],
        noise: Noise,
        device: &Device,
    ) -> Network {
        started(
            settings,
            self.width(),
            self.target(),
            noise_precisions,
            noise,
            device,
        )
    }
}

/// D, the number of weights of the network.
pub fn weights(settings: &FitSettings, features: usize, target: &Target) -> Result<usize> {
    let weights = ends(settings, features, target).weights(&settings.shape());
    weights
        .filter(|&weights| weights <= MOST_WEIGHTS)
        .ok_or_else(|| {
            let model = settings.shape();
            let problem =
                format!("is {model}, which has more than {MOST_WEIGHTS} weights; make it smaller");
            refused("model", problem)
        })
}

fn ends(settings: &FitSettings, features: usize, target: &Target) -> LayerSizes {
    LayerSizes {
        features: features - usize::from(target.has_exposure()),
        outputs: outputs(settings, target),
        biases: !settings.no_intercept,
        noises: match is_noise_a_weight(settings, target) {
            true => target.columns(),
            false => 0,
        },
    }
}

/// The start of a training.
struct Start<'a, 'b> {
    training: &'a Training<'b>,
    checkpoint: Option<Checkpoint>,
    observer: &'a mut dyn Observer,
}

impl Start<'_, '_> {
    fn bayesian<A>(&mut self, bayesian: Bayesian<Network, A>) -> Result<TrainedModel>
    where
        A: Algorithm,
        Bayesian<Network, A>: Learner,
    {
        let bayesian = match &self.training.function_prior {
            Some(prior) => bayesian.with_function_prior(prior.clone())?,
            None => bayesian,
        };
        // With an interrupter a bad gradient becomes an error that can be asked for. The losses are recorded, because for
        // small networks the overhead of operations dominates.
        let bayesian = bayesian.with_interrupter(Interrupter::new());
        self.run(bayesian.with_batched_draws())
    }

    fn run<L: Learner>(&mut self, learner: L) -> Result<TrainedModel> {
        let training = self.training;
        let optimizer = training.optimizer();
        let rates = rates(training.settings, training.training_set.rows()).try_init()?;
        let checkpoint = self.checkpoint.take();
        training.run(learner, optimizer, rates, checkpoint, self.observer)
    }
}

impl Training<'_> {
    /// The optimiser. For swag, factor-analysis, laplace and map, the gradient of the prior, α θ/N, is added as weight
    /// decay.
    fn optimizer(&self) -> ModuleOptimizer {
        let settings = self.settings;
        let method = settings.method;
        if method.row().is_of_draws() || method.is_dense() {
            return self.optimizer_with_penalty(0.0, None);
        }
        let penalty = |precision: f64| (precision / self.training_set.rows() as f64) as f32;
        let clipping = settings
            .clip
            .map(|norm| GradientClipping::Norm(norm as f32));
        let optimizer = self.optimizer_with_penalty(
            penalty(settings.prior_precision.initial()),
            clipping.clone(),
        );
        match settings.bias_prior_precision {
            None => optimizer,
            Some(precision) => {
                let (group, penalty) = (biases(), penalty(precision));
                match settings.optimizer {
                    OptimizerName::Adam => {
                        optimizer.with_group(group, self.adam(penalty).build(), clipping)
                    }
                    OptimizerName::Sgd => {
                        optimizer.with_group(group, self.sgd(penalty).build(), clipping)
                    }
                }
            }
        }
    }

    fn optimizer_with_penalty(
        &self,
        penalty: f32,
        clipping: Option<GradientClipping>,
    ) -> ModuleOptimizer {
        let optimizer = match self.settings.optimizer {
            OptimizerName::Adam => self.adam(penalty).init(),
            OptimizerName::Sgd => self.sgd(penalty).init(),
        };
        match clipping {
            Some(clipping) => optimizer.with_grad_clipping(clipping),
            None => optimizer,
        }
    }

    fn adam(&self, penalty: f32) -> FusedAdamConfig {
        let steps = self.settings.steps(self.training_set.rows()) as u64;
        FusedAdamConfig::new()
            .with_weight_decay(decay(penalty))
            .with_decay_warm_up(MeanStage::default_warm_up(steps))
    }

    fn sgd(&self, penalty: f32) -> SgdConfig {
        let factor = self.settings.momentum;
        let momentum = MomentumConfig::new()
            .with_momentum(factor)
            .with_dampening(0.0);
        SgdConfig::new()
            .with_momentum((factor > 0.0).then_some(momentum))
            .with_weight_decay(decay(penalty))
    }
}

fn decay(penalty: f32) -> Option<WeightDecayConfig> {
    (penalty > 0.0).then(|| WeightDecayConfig::new(penalty))
}
