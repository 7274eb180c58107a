//! Creates network, algorithm, optimiser and learning rates from the settings.

use burn::grad_clipping::GradientClipping;
use burn::module::{Module, ParamGroup};
use burn::optim::ModuleOptimizer;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::optim::momentum::MomentumConfig;
use burn::tensor::Device;
use burn::train::Interrupter;
use burn_bayes::methods::{
    Algorithm, InitialDeviation, MeanGradients, MeanStage, Rate, VadamConfig, VonConfig,
};
use burn_bayes::optimizer::FusedSgdConfig;
use burn_bayes::train::{Preset, StagedLearningRate};
use burn_bayes::{Bayesian, FusedAdamConfig, Noise, Prior, SlangConfig, SwagConfig, VifaConfig};

use super::training::{Checkpoint, Learner, Training};
use super::{Observer, TrainedModel};
use crate::error::Result;
use crate::network::{LayerSizes, Likelihood, Network};
use crate::rows::Target;
use crate::settings::{DEFAULT_RANK, FitSettings, Method, OptimizerName, refused};

/// The random stream of the initial weights.
const INITIAL_WEIGHTS: u64 = 0x696e_6974;
/// The largest fraction of a training in which only the mean learns.
const MEAN_STAGE: f64 = 0.3;
/// The approximate number of SWAG iterates if the last quarter of training has fewer epochs; many times
/// more than the factors need.
const SWAG_ITERATES: u64 = 40;
/// Maximum number of weights; GPUs index elements with 32 bits.
const MOST_WEIGHTS: usize = 1 << 31;

/// Trains with the method of the settings.
pub(super) fn train(
    training: &Training<'_>,
    checkpoint: Option<Checkpoint>,
    observer: &mut dyn Observer,
) -> Result<TrainedModel> {
    let network = network(
        training.settings,
        training.training_set.width(),
        training.training_set.meaning(),
        training.noise_precision,
        &training.device,
    );
    let rank = rank(training.settings, network.num_params())?.unwrap_or(0);
    let mut start = Start {
        training,
        checkpoint,
        observer,
    };
    match training.settings.method {
        Method::Vifa | Method::MeanField => {
            start.batched(training.vifa().with_rank(rank).try_init(network)?)
        }
        Method::Vafc => start.batched(training.vafc(rank).try_init(network)?),
        Method::Swag => start.bayesian(training.swag(rank).try_init(network)?),
        Method::Slang | Method::Vogn => {
            start.bayesian(training.slang().with_rank(rank).try_init(network)?)
        }
        Method::Von => start.batched(training.von().try_init(network)?),
        Method::Vadam => start.batched(training.vadam().try_init(network)?),
        Method::Map => start.run(network),
    }
}

/// The initial network.
pub fn network(
    settings: &FitSettings,
    features: usize,
    meaning: &Target,
    noise_precision: f64,
    device: &Device,
) -> Network {
    let likelihood = match meaning {
        Target::Real(_) => Likelihood::Gaussian(noise_precision),
        Target::Classes(_) => Likelihood::Categorical,
    };
    let ends = ends(settings, features, meaning);
    let noise = Noise::host(settings.seed).fold(INITIAL_WEIGHTS);
    Network::new(&settings.model, ends, likelihood, noise, device)
}

/// D, the number of weights of the network.
pub fn weights(settings: &FitSettings, features: usize, meaning: &Target) -> Result<usize> {
    let weights = ends(settings, features, meaning).weights(&settings.model);
    weights
        .filter(|&weights| weights <= MOST_WEIGHTS)
        .ok_or_else(|| {
            let model = &settings.model;
            let problem =
                format!("is {model}, which has more than {MOST_WEIGHTS} weights; make it smaller");
            refused("model", problem)
        })
}

fn ends(settings: &FitSettings, features: usize, meaning: &Target) -> LayerSizes {
    LayerSizes {
        features,
        outputs: meaning.outputs(),
        biases: !settings.no_intercept,
    }
}

/// K, the rank given or the default; 0 for a diagonal posterior, and `None` for a point estimate.
pub fn rank(settings: &FitSettings, weights: usize) -> Result<Option<usize>> {
    match settings.method {
        Method::Vifa | Method::Vafc | Method::Swag | Method::Slang => {}
        Method::MeanField | Method::Vogn | Method::Von | Method::Vadam => return Ok(Some(0)),
        Method::Map => return Ok(None),
    }
    let rank = settings.rank.unwrap_or(DEFAULT_RANK.min(weights));
    if rank > weights {
        let problem = format!("is {rank}, but the network has {weights} weights; make it smaller");
        return Err(refused("rank", problem));
    }
    match (settings.method, rank, settings.rank) {
        (Method::Swag, 1, None) => Ok(Some(0)),
        (Method::Swag, 1, Some(_)) => Err(refused(
            "rank",
            "is 1, but a single swag deviation has no spread; use 0 for a diagonal, or at least 2",
        )),
        _ => Ok(Some(rank)),
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
        // With an interrupter a bad gradient becomes an error that can be asked for.
        self.run(bayesian.with_interrupter(Interrupter::new()))
    }

    /// As [`Start::bayesian`], with batched draws: for small networks, the overhead of operations
    /// dominates.
    fn batched<A>(&mut self, bayesian: Bayesian<Network, A>) -> Result<TrainedModel>
    where
        A: Algorithm<Signal = MeanGradients>,
        Bayesian<Network, A>: Learner,
    {
        self.bayesian(bayesian.with_batched_draws())
    }

    fn run<L: Learner>(&mut self, learner: L) -> Result<TrainedModel> {
        let optimizer = self.training.optimizer();
        let rates = self.training.rates()?;
        let checkpoint = self.checkpoint.take();
        self.training
            .run(learner, optimizer, rates, checkpoint, self.observer)
    }
}

impl Training<'_> {
    fn vifa(&self) -> VifaConfig {
        let settings = self.settings;
        let draws = settings.step_draws();
        let mean_stage = MeanStage::UntilArrival {
            at_most: Some((MEAN_STAGE * self.steps() as f64) as u64),
        };
        VifaConfig::new(self.training_set.rows())
            .with_prior(self.prior())
            .with_draws(draws)
            .with_antithetic(draws.is_multiple_of(2))
            .with_mean_stage(mean_stage)
            .with_clip(settings.clip)
            .with_initial_deviation(self.initial_deviation())
            .with_seed(settings.seed)
    }

    fn vafc(&self, rank: usize) -> VifaConfig {
        VifaConfig::vafc(self.training_set.rows(), rank)
            .with_prior(self.prior())
            .with_draws(self.settings.step_draws())
            .with_clip(self.settings.clip)
            .with_seed(self.settings.seed)
    }

    /// SWAG collects iterates in the last quarter: one per epoch, or several if there are few epochs.
    fn swag(&self, rank: usize) -> SwagConfig {
        let steps = self.steps() as u64;
        let start = (3 * steps).div_ceil(4).max(1);
        let spacing = (steps - start) / SWAG_ITERATES;
        SwagConfig::new(self.training_set.rows(), start)
            .with_interval(spacing.clamp(1, self.epoch_steps() as u64))
            .with_max_rank(rank)
            .with_seed(self.settings.seed)
    }

    fn slang(&self) -> SlangConfig {
        SlangConfig::new(self.training_set.rows())
            .with_prior(self.prior())
            .with_draws(self.settings.step_draws())
            .with_precision_rate(self.precision_rate())
            .with_momentum(self.settings.momentum)
            .with_initial_deviation(Some(self.initial_deviation()))
            .with_seed(self.settings.seed)
    }

    fn von(&self) -> VonConfig {
        let draws = self.settings.step_draws();
        VonConfig::new(self.training_set.rows())
            .with_prior(self.prior())
            .with_draws(draws)
            .with_antithetic(draws.is_multiple_of(2))
            .with_precision_rate(self.precision_rate())
            .with_momentum(self.settings.momentum)
            .with_initial_deviation(Some(self.initial_deviation()))
            .with_seed(self.settings.seed)
    }

    fn vadam(&self) -> VadamConfig {
        VadamConfig::new(self.training_set.rows())
            .with_prior(self.prior())
            .with_draws(self.settings.step_draws())
            .with_gamma_1(self.settings.momentum)
            .with_square_scale(self.settings.batch_size as f64)
            .with_initial_precision(self.settings.start_deviation().powi(-2))
            .with_seed(self.settings.seed)
    }

    fn prior(&self) -> Prior {
        let prior = Prior::isotropic(self.settings.prior_precision);
        match self.settings.bias_prior_precision {
            Some(precision) => prior.with_group(biases(), precision),
            None => prior,
        }
    }

    fn initial_deviation(&self) -> InitialDeviation {
        self.settings.preset().initial_deviation()
    }

    /// The rate of the precision of slang, vogn and von.
    fn precision_rate(&self) -> Rate {
        let mut preset = self.settings.preset();
        preset.learning_rate = self.settings.diagonal_rate();
        preset.precision_rate(self.steps())
    }

    fn rates(&self) -> Result<ModuleLrScheduler> {
        let settings = self.settings;
        let rates = StagedLearningRate::new(
            settings.mean_rate(),
            settings.factors_rate(),
            settings.diagonal_rate(),
        );
        let time_constant = settings.preset().time_constant(self.steps());
        Ok(rates
            .with_time_constant(time_constant)
            .with_power(Preset::DECAY_POWER)
            .try_init()?)
    }

    /// The optimiser. For swag and map, the gradient of the prior, α θ/N, is added as weight decay.
    fn optimizer(&self) -> ModuleOptimizer {
        let settings = self.settings;
        if !matches!(settings.method, Method::Swag | Method::Map) {
            return self.optimizer_with_penalty(0.0, None);
        }
        let penalty = |precision: f64| (precision / self.training_set.rows() as f64) as f32;
        let clipping = settings
            .clip
            .map(|norm| GradientClipping::Norm(norm as f32));
        let optimizer =
            self.optimizer_with_penalty(penalty(settings.prior_precision), clipping.clone());
        match settings.bias_prior_precision {
            None => optimizer,
            Some(precision) => {
                let (group, penalty) = (biases(), penalty(precision));
                match settings.optimizer {
                    OptimizerName::Adam => {
                        optimizer.with_group(group, adam(penalty).build(), clipping)
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
            OptimizerName::Adam => adam(penalty).init(),
            OptimizerName::Sgd => self.sgd(penalty).init(),
        };
        match clipping {
            Some(clipping) => optimizer.with_grad_clipping(clipping),
            None => optimizer,
        }
    }

    fn sgd(&self, penalty: f32) -> FusedSgdConfig {
        let factor = self.settings.momentum;
        let momentum = MomentumConfig::new()
            .with_momentum(factor)
            .with_dampening(0.0);
        FusedSgdConfig::new()
            .with_momentum((factor > 0.0).then_some(momentum))
            .with_weight_decay(decay(penalty))
    }
}

fn adam(penalty: f32) -> FusedAdamConfig {
    FusedAdamConfig::new().with_weight_decay(decay(penalty))
}

fn decay(penalty: f32) -> Option<WeightDecayConfig> {
    (penalty > 0.0).then(|| WeightDecayConfig::new(penalty))
}

fn biases() -> ParamGroup {
    ParamGroup::from_predicate("bias")
}
