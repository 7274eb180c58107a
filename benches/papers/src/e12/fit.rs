//! Trains LeNet5 on pictures of clothing, and scores its predictions.

use burn::module::Module;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::train::{ClassificationOutput, Interrupter, TrainStep};
use burn_bayes::eval::{DrawProbabilities, LabelledProbabilities, accuracy, nll};
use burn_bayes::prelude::*;
use burn_bayes::train::{Trainer, TrainerModel, Unobserved};
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
    Vifa {
        rank: usize,
    },
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
        let network = LeNet::new(classes, noise, &device);
        let rows = train.rows();
        let steps = self.steps(rows);
        let predictor = match self.learned {
            Learned::Point => {
                let network = self.trained(network, train)?.valid();
                return probabilities(test, 1, classes, |evaluate| {
                    evaluate(&network);
                    Ok(())
                });
            }
            Learned::Vifa { rank } => {
                let bayesian = BayesianConfig::new(rows, VifaConfig::new().with_rank(rank))
                    .with_prior(Prior::isotropic(self.prior))
                    .with_seed(self.seed)
                    .try_init(network)?
                    .with_interrupter(Interrupter::new());
                let trained = self.trained(bayesian, train)?;
                (trained.template().valid(), trained.try_posterior()?)
            }
            Learned::Swag { rank, start } => {
                let start = (start * steps as f64) as u64;
                let interval = (steps / self.epochs / ITERATES).max(1);
                let bayesian = BayesianConfig::new(
                    rows,
                    SwagConfig::new()
                        .with_start(Some(start.max(1)))
                        .with_interval(Some(interval as u64))
                        .with_rank(rank),
                )
                .with_seed(self.seed)
                .try_init(network)?
                .with_interrupter(Interrupter::new());
                let trained = self.trained(bayesian, train)?;
                (trained.template().valid(), trained.try_posterior()?)
            }
        };
        let (network, posterior) = predictor;
        let noise = Noise::new(self.seed).for_prediction();
        let predictor = Predictor::new(network, posterior, noise)?;
        probabilities(test, self.draws, classes, |evaluate| {
            drop(predictor.map_draws(self.draws, evaluate)?);
            Ok(())
        })
    }

    fn steps(&self, rows: usize) -> usize {
        self.epochs * rows / self.batch
    }

    fn trained<L>(&self, learner: L, train: &Pictures) -> Result<L>
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
        // VIFA knows the prior; for the others its gradient α θ/N is the optimiser's penalty.
        let penalty = match self.learned {
            Learned::Vifa { .. } => None,
            Learned::Point | Learned::Swag { .. } => {
                let penalty = (self.prior / train.rows() as f64) as f32;
                Some(WeightDecayConfig::new(penalty))
            }
        };
        let optimizer = FusedAdamConfig::new().with_weight_decay(penalty).init();
        let [first, last] = self.rates;
        let rates = CosineAnnealingLrSchedulerConfig::new(first, steps).with_min_lr(last);
        let trainer = Trainer::new(
            learner,
            optimizer,
            rates.init().map_err(TabularError::Usage)?,
        );
        let trainer = trainer.without_row_check();
        let run = trainer.run(&Stream { steps, batches }, &mut Unobserved)?;
        Ok(run.trainer.into_model())
    }
}

/// The probabilities of the classes by `draws` networks, which `for_each` hands to its argument.
fn probabilities(
    pictures: &Pictures,
    draws: usize,
    classes: usize,
    for_each: impl FnOnce(&mut dyn FnMut(&LeNet)) -> Result<()>,
) -> Result<DrawProbabilities<'static>> {
    let device = DeviceName::host()?;
    let rows: Vec<usize> = (0..pictures.rows()).collect();
    let mut logits = Vec::with_capacity(draws * rows.len() * classes);
    for_each(&mut |network| {
        for rows in rows.chunks(CHUNK) {
            let images = pictures.batch(rows, &device).images;
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
            Learned::Vifa { rank: 1 },
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
