//! Trains a network on pictures at the library's settings, and predicts other pictures.

use burn::module::{Module, ModuleDisplay, ParamGroup};
use burn::optim::decay::WeightDecayConfig;
use burn::optim::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::tensor::{Device, Int, Tensor};
use burn::train::{Interrupter, TrainStep};
use burn_bayes::eval::DrawProbabilities;
use burn_bayes::laplace::Laplace;
use burn_bayes::methods::{Algorithm, IvonConfig, MethodConfig};
use burn_bayes::posterior::PointPosterior;
use burn_bayes::prelude::*;
use burn_bayes::train::{PostHoc, Trainer, TrainerModel};
use burn_bayes::{BayesianConfig, FusedAdamConfig, Noise};
use serde::Serialize;

use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::random::generator;
use burn_bayes_tabular::settings::DeviceName;

use crate::e8::fit::order;
use crate::images::{ImageBatch, Pictures};
use crate::stream::Stream;

/// A stream of random numbers.
const MOVES: u64 = 0x6d6f_7665;
/// Pictures that go through the network at once.
const CHUNK: usize = 250;
/// Iterates of an epoch.
const ITERATES: usize = 4;

/// A network that tells pictures apart.
pub(crate) type Classifier<M> = Supervised<M, Tensor<4>, Tensor<1, Int>>;

/// How the weights are learned.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) enum Learned {
    Point,
    /// With dropout of this probability, in training and in predictions.
    Dropout {
        probability: f64,
    },
    /// As a point; then those of the last layer, whose parameters have this at the beginning of their paths, by a Laplace
    /// approximation.
    LastLayer {
        path: &'static str,
    },
    /// At the library's rates.
    Vifa {
        rank: usize,
    },
    /// At the library's rates.
    Ivon,
    /// From the iterates after this share of the steps.
    Swag {
        rank: usize,
        start: f64,
    },
}

/// All that a fit depends on beside its pictures.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Fit {
    pub(crate) learned: Learned,
    pub(crate) epochs: usize,
    pub(crate) batch: usize,
    /// The learning rates at the first and the last step, with half a cosine between them.
    pub(crate) rates: [f64; 2],
    /// The learning rate of the mean in the place of the library's.
    pub(crate) mean_rate: Option<f64>,
    /// Precision of the weights under the prior.
    pub(crate) prior: f64,
    /// The most pixels by which a picture is shifted in training; then half of them are also mirrored. 0 for the pictures
    /// as they are.
    pub(crate) shift: usize,
    /// Draws for a prediction.
    pub(crate) draws: usize,
    pub(crate) seed: u64,
}

impl Fit {
    /// Trains on some pictures, and predicts the classes of others: of every set by the same draws.
    ///
    /// # Errors
    ///
    /// A setting that cannot be used, or a training that leaves the finite numbers.
    pub(crate) fn predictions<M>(
        &self,
        network: Classifier<M>,
        train: &Pictures,
        sets: &[&Pictures],
    ) -> Result<Vec<DrawProbabilities<'static>>>
    where
        M: Module + ModuleDisplay + 'static,
    {
        let rows = train.rows();
        let noise = Noise::new(self.seed).for_prediction();
        let host = DeviceName::host()?;
        let (network, posterior) = match self.learned {
            Learned::Point => {
                let network = self.at_a_point(network, train)?.valid();
                let predictor = point(network, noise)?;
                return drawn(&predictor, 1, sets, &host);
            }
            Learned::Dropout { .. } => {
                let network = self.at_a_point(network, train)?.valid();
                let predictor = point(network, noise)?.with_dropout()?;
                return drawn(&predictor, self.draws, sets, &host.autodiff());
            }
            Learned::LastLayer { path } => {
                let device = host.clone().autodiff();
                let network = self.at_a_point(network, train)?;
                let laplace = Laplace::new(rows).with_group(ParamGroup::from_predicate(path));
                let all: Vec<usize> = (0..rows).collect();
                let batches = all.chunks(CHUNK);
                let batches = batches.map(|rows| pair(train.batch(rows, &device)));
                let posterior = laplace.fit(&network, batches)?;
                (network.valid(), posterior)
            }
            Learned::Vifa { rank } => {
                self.at_library_rates(VifaConfig::new().with_rank(rank), network, train)?
            }
            Learned::Ivon => self.at_library_rates(IvonConfig::new(), network, train)?,
            Learned::Swag { rank, start } => {
                let steps = self.steps(rows);
                let start = (start * steps as f64) as u64;
                let interval = (steps / self.epochs / ITERATES).max(1);
                let swag = SwagConfig::new()
                    .with_start(Some(start.max(1)))
                    .with_interval(Some(interval as u64))
                    .with_rank(rank);
                let config = BayesianConfig::new(rows, swag).with_seed(self.seed);
                let bayesian = config.try_init(network)?;
                self.posterior(bayesian, self.cosine(rows)?, train)?
            }
        };
        drawn(
            &Predictor::new(network, posterior, noise)?,
            self.draws,
            sets,
            &host,
        )
    }

    fn steps(&self, rows: usize) -> usize {
        self.epochs * rows / self.batch
    }

    /// Half a cosine from the first rate to the last.
    fn cosine(&self, rows: usize) -> Result<ModuleLrScheduler> {
        let [first, last] = self.rates;
        let rates = CosineAnnealingLrSchedulerConfig::new(first, self.steps(rows));
        let rates = rates.with_min_lr(last).init();
        rates.map_err(TabularError::Usage)
    }

    /// The network with the most probable weights.
    pub(crate) fn at_a_point<M>(
        &self,
        network: Classifier<M>,
        train: &Pictures,
    ) -> Result<Classifier<M>>
    where
        M: Module + 'static,
    {
        self.trained(network, self.cosine(train.rows())?, train)
    }

    fn at_library_rates<M, C>(
        &self,
        method: C,
        network: Classifier<M>,
        train: &Pictures,
    ) -> Result<(Classifier<M>, FactorPosterior)>
    where
        M: Module + ModuleDisplay + 'static,
        C: MethodConfig<Algorithm: Algorithm<Posterior = FactorPosterior>>,
        Bayesian<Classifier<M>, C::Algorithm>:
            TrainerModel + TrainStep<Input = (Tensor<4>, Tensor<1, Int>)>,
    {
        let rows = train.rows();
        let config = BayesianConfig::new(rows, method)
            .with_prior(Prior::isotropic(self.prior))
            .with_seed(self.seed);
        let mut rates = config.learning_rates();
        rates.mean = self.mean_rate.unwrap_or(rates.mean);
        let rates = rates.over(self.steps(rows)).init();
        let bayesian = config.try_init(network)?.with_batched_draws();
        self.posterior(bayesian, rates, train)
    }

    fn posterior<M, A>(
        &self,
        bayesian: Bayesian<Classifier<M>, A>,
        rates: ModuleLrScheduler,
        train: &Pictures,
    ) -> Result<(Classifier<M>, FactorPosterior)>
    where
        M: Module + ModuleDisplay + 'static,
        A: Algorithm<Posterior = FactorPosterior>,
        Bayesian<Classifier<M>, A>: TrainerModel + TrainStep<Input = (Tensor<4>, Tensor<1, Int>)>,
    {
        let bayesian = bayesian.with_interrupter(Interrupter::new());
        let trained = self.trained(bayesian, rates, train)?;
        Ok((trained.template().valid(), trained.try_posterior()?))
    }

    fn trained<L>(&self, learner: L, rates: ModuleLrScheduler, train: &Pictures) -> Result<L>
    where
        L: TrainerModel + TrainStep<Input = (Tensor<4>, Tensor<1, Int>)>,
    {
        let device = DeviceName::host()?.autodiff();
        let steps = self.steps(train.rows());
        let batches = || {
            let mut order = order(train.rows(), self.seed);
            let mut generator = generator(Noise::new(self.seed).fold(MOVES));
            let device = device.clone();
            std::iter::repeat_with(move || {
                let rows: Vec<usize> = order.by_ref().take(self.batch).collect();
                pair(match self.shift {
                    0 => train.batch(&rows, &device),
                    most => train.moved_batch(&rows, most, &mut generator, &device),
                })
            })
        };
        // VIFA and IVON know the prior; for the others its gradient α θ/N is the optimiser's penalty.
        let penalty = match self.learned {
            Learned::Vifa { .. } | Learned::Ivon => None,
            _ => Some(WeightDecayConfig::new(
                (self.prior / train.rows() as f64) as f32,
            )),
        };
        let optimizer = FusedAdamConfig::new().with_weight_decay(penalty).init();
        let trainer = Trainer::new(learner, optimizer, rates).without_row_check();
        let run = trainer.run(&Stream { steps, batches }, &mut ())?;
        Ok(run.trainer.into_model())
    }
}

fn pair(ImageBatch { images, classes }: ImageBatch) -> (Tensor<4>, Tensor<1, Int>) {
    (images, classes)
}

/// Predictions by a network without a distribution of its weights.
fn point<M: Module>(
    network: Classifier<M>,
    noise: Noise,
) -> Result<Predictor<Classifier<M>, PointPosterior>> {
    let weights = PointPosterior::of(&network, &ParamGroup::all())?;
    Ok(Predictor::new(network, weights, noise)?)
}

/// The probabilities of the classes of every set.
fn drawn<M: Module, P: Posterior>(
    predictor: &Predictor<Classifier<M>, P>,
    draws: usize,
    sets: &[&Pictures],
    device: &Device,
) -> Result<Vec<DrawProbabilities<'static>>> {
    let of_set = |pictures: &&Pictures| {
        let rows: Vec<usize> = (0..pictures.rows()).collect();
        let mut logits = Vec::new();
        predictor.map_draws(draws, |network| {
            for rows in rows.chunks(CHUNK) {
                let images = pictures.batch(rows, device).images;
                logits.extend(network.forward(images).into_data().iter::<f64>());
            }
        })?;
        let classes = logits.len() / (draws * rows.len()).max(1);
        Ok(DrawProbabilities::from_logits(
            &logits,
            draws,
            rows.len(),
            classes,
        )?)
    };
    sets.iter().map(of_set).collect()
}
