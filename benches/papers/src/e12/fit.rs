//! Trains LeNet5 on pictures of clothing, and scores its predictions.

use burn::module::{Module, ParamGroup};
use burn::optim::decay::WeightDecayConfig;
use burn::optim::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::tensor::Device;
use burn::train::{ClassificationOutput, Interrupter, TrainStep};
use burn_bayes::eval::{DrawProbabilities, LabelledProbabilities, accuracy, nll};
use burn_bayes::laplace::Laplace;
use burn_bayes::methods::{Algorithm, IvonConfig, MethodConfig};
use burn_bayes::posterior::PointPosterior;
use burn_bayes::prelude::*;
use burn_bayes::train::{PostHoc, Trainer, TrainerModel, Unobserved};
use burn_bayes::{BayesianConfig, FusedAdamConfig, Noise};
use serde::Serialize;

use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::experiments::jobs::Computed;
use burn_bayes_tabular::random::generator;
use burn_bayes_tabular::settings::DeviceName;

use super::lenet::LeNet;
use super::{ACCURACY, NLL};
use crate::e8::fit::order;
use crate::experiment::Measures;
use crate::images::{ImageBatch, Pictures};
use crate::stream::Stream;

/// Streams of random numbers.
const INITIAL_WEIGHTS: u64 = 0x696e_6974;
const MOVES: u64 = 0x6d6f_7665;
/// Pictures that go through the network at once.
const CHUNK: usize = 500;
/// Iterates of an epoch.
const ITERATES: usize = 4;

/// How the weights are learned.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) enum Learned {
    Point,
    /// With dropout of this probability, in training and in predictions.
    Dropout {
        probability: f64,
    },
    /// As a point; then those of the last layer by a Laplace approximation.
    LastLayer,
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
pub(super) struct Fit {
    pub(super) learned: Learned,
    pub(super) epochs: usize,
    pub(super) batch: usize,
    /// The learning rates at the first and the last step, with half a cosine between them.
    pub(super) rates: [f64; 2],
    /// Precision of the weights under the prior.
    pub(super) prior: f64,
    /// The most pixels by which a picture is shifted in training; then half of them are also mirrored. 0 for the pictures
    /// as they are.
    pub(super) shift: usize,
    /// Draws for a prediction.
    pub(super) draws: usize,
    pub(super) seed: u64,
}

impl Fit {
    /// Trains on some pictures, and scores others.
    ///
    /// # Errors
    ///
    /// A setting that cannot be used, or a training that leaves the finite numbers.
    pub(super) fn scored(&self, train: &Pictures, test: &Pictures) -> Result<Computed> {
        let classes = train.classes.iter().max().map_or(0, |most| most + 1);
        let probabilities = self.predictions(train, test, classes)?;
        let average = probabilities.average();
        let labelled = LabelledProbabilities::new(&average, &test.classes)?;
        let costs = test.classes.iter().enumerate();
        let costs = costs.map(|(row, &class)| -average.row(row)[class].max(f64::MIN_POSITIVE).ln());
        Ok(Computed {
            measures: Measures::from([
                (NLL.into(), nll(&labelled)),
                (ACCURACY.into(), accuracy(&labelled)),
            ]),
            row_costs: costs.collect(),
            left_out: None,
        })
    }

    fn predictions(
        &self,
        train: &Pictures,
        test: &Pictures,
        classes: usize,
    ) -> Result<DrawProbabilities<'static>> {
        let device = DeviceName::host()?.autodiff();
        let noise = Noise::new(self.seed).fold(INITIAL_WEIGHTS);
        let dropout = match self.learned {
            Learned::Dropout { probability } => Some(probability),
            _ => None,
        };
        let network = LeNet::new(classes, dropout, noise, &device);
        let rows = train.rows();
        let noise = Noise::new(self.seed).for_prediction();
        let (network, posterior) = match self.learned {
            Learned::Point => {
                let network = self.at_a_point(network, train)?.valid();
                return probabilities(test, (1, classes), &DeviceName::host()?, |evaluate| {
                    evaluate(&network);
                    Ok(())
                });
            }
            Learned::Dropout { .. } => {
                let network = self.at_a_point(network, train)?.valid();
                let weights = PointPosterior::of(&network, &ParamGroup::all())?;
                let predictor = Predictor::new(network, weights, noise)?.with_dropout()?;
                return self.drawn(&predictor, test, classes, &device);
            }
            Learned::LastLayer => {
                let network = self.at_a_point(network, train)?;
                let laplace =
                    Laplace::new(rows).with_group(ParamGroup::from_predicate(LeNet::HEAD));
                let all: Vec<usize> = (0..rows).collect();
                let batches = all.chunks(CHUNK).map(|rows| train.batch(rows, &device));
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
        let predictor = Predictor::new(network, posterior, noise)?;
        self.drawn(&predictor, test, classes, &DeviceName::host()?)
    }

    fn drawn<P: Posterior>(
        &self,
        predictor: &Predictor<LeNet, P>,
        test: &Pictures,
        classes: usize,
        device: &Device,
    ) -> Result<DrawProbabilities<'static>> {
        probabilities(test, (self.draws, classes), device, |evaluate| {
            drop(predictor.map_draws(self.draws, evaluate)?);
            Ok(())
        })
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

    fn at_a_point(&self, network: LeNet, train: &Pictures) -> Result<LeNet> {
        self.trained(network, self.cosine(train.rows())?, train)
    }

    fn at_library_rates<C>(
        &self,
        method: C,
        network: LeNet,
        train: &Pictures,
    ) -> Result<(LeNet, FactorPosterior)>
    where
        C: MethodConfig<Algorithm: Algorithm<Posterior = FactorPosterior>>,
        Bayesian<LeNet, C::Algorithm>:
            TrainerModel + TrainStep<Input = ImageBatch, Output = ClassificationOutput>,
    {
        let rows = train.rows();
        let config = BayesianConfig::new(rows, method)
            .with_prior(Prior::isotropic(self.prior))
            .with_seed(self.seed);
        let rates = config.learning_rates().over(self.steps(rows)).init();
        let bayesian = config.try_init(network)?.with_batched_draws();
        self.posterior(bayesian, rates, train)
    }

    fn posterior<A>(
        &self,
        bayesian: Bayesian<LeNet, A>,
        rates: ModuleLrScheduler,
        train: &Pictures,
    ) -> Result<(LeNet, FactorPosterior)>
    where
        A: Algorithm<Posterior = FactorPosterior>,
        Bayesian<LeNet, A>:
            TrainerModel + TrainStep<Input = ImageBatch, Output = ClassificationOutput>,
    {
        let bayesian = bayesian.with_interrupter(Interrupter::new());
        let trained = self.trained(bayesian, rates, train)?;
        Ok((trained.template().valid(), trained.try_posterior()?))
    }

    fn trained<L>(&self, learner: L, rates: ModuleLrScheduler, train: &Pictures) -> Result<L>
    where
        L: TrainerModel + TrainStep<Input = ImageBatch, Output = ClassificationOutput>,
    {
        let device = DeviceName::host()?.autodiff();
        let steps = self.steps(train.rows());
        let batches = || {
            let mut order = order(train.rows(), self.seed);
            let mut generator = generator(Noise::new(self.seed).fold(MOVES));
            let device = device.clone();
            std::iter::repeat_with(move || {
                let rows: Vec<usize> = order.by_ref().take(self.batch).collect();
                match self.shift {
                    0 => train.batch(&rows, &device),
                    most => train.moved_batch(&rows, most, &mut generator, &device),
                }
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
        let run = trainer.run(&Stream { steps, batches }, &mut Unobserved)?;
        Ok(run.trainer.into_model())
    }
}

/// The probabilities of the classes by `draws` networks, which `for_each` hands to its argument.
fn probabilities(
    pictures: &Pictures,
    (draws, classes): (usize, usize),
    device: &Device,
    for_each: impl FnOnce(&mut dyn FnMut(&LeNet)) -> Result<()>,
) -> Result<DrawProbabilities<'static>> {
    let rows: Vec<usize> = (0..pictures.rows()).collect();
    let mut logits = Vec::with_capacity(draws * rows.len() * classes);
    for_each(&mut |network| {
        for rows in rows.chunks(CHUNK) {
            let images = pictures.batch(rows, device).images;
            logits.extend(network.forward(images).into_data().iter::<f64>());
        }
    })?;
    Ok(DrawProbabilities::from_logits(
        &logits,
        draws,
        rows.len(),
        classes,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_learns_where_the_light_is() {
        let [train, test] = [0, 1].map(|seed| Pictures::bright_halves(64, seed));
        for learned in [
            Learned::Point,
            Learned::Dropout { probability: 0.2 },
            Learned::LastLayer,
            Learned::Vifa { rank: 1 },
            Learned::Ivon,
            Learned::Swag {
                rank: 2,
                start: 0.5,
            },
        ] {
            let fit = Fit {
                learned,
                epochs: 12,
                batch: 16,
                rates: [5e-3, 1e-3],
                prior: 1.0,
                shift: 0,
                draws: 3,
                seed: 5,
            };
            let found = fit.scored(&train, &test).unwrap();
            assert!(found.measures[NLL] < 0.4, "{learned:?} {found:?}");
            let mean = found.row_costs.iter().sum::<f64>() / 64.0;
            assert!((mean - found.measures[NLL]).abs() < 1e-9);
        }
    }
}
