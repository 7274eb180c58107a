//! Fits a network to pictures, as a point or as a posterior, and predicts.

use burn::grad_clipping::GradientClipping;
use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::optim::decay::WeightDecayConfig;
use burn::train::{ClassificationOutput, Interrupter, TrainStep};
use burn_bayes::eval::DrawProbabilities;
use burn_bayes::methods::{Averaging, FactorUnits, InitialDeviation, MeanStage, Vifa};
use burn_bayes::prelude::*;
use burn_bayes::train::{StagedLearningRate, Trainer, TrainerModel};
use burn_bayes::{BayesianConfig, FusedAdamConfig, Noise};
use serde::Serialize;

use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::random::shuffled;
use burn_bayes_tabular::settings::DeviceName;

use super::network::ConvNet;
use crate::images::ImageBatch;
use crate::images::Pictures;
use crate::stream::Stream;

/// Streams of random numbers.
const INITIAL_WEIGHTS: u64 = 0x696e_6974;
const SHUFFLING: u64 = 0x7368_7566;
/// Pictures that go through a network at once.
const CHUNK: usize = 250;
/// The paper's rows in a batch, and the norm at which it clips.
const BATCH: usize = 16;
const CLIP: f64 = 10.0;
/// The paper's first stage, in which the mean learns alone: two of ten epochs.
const MEAN_ONLY_SHARE: f64 = 0.2;
/// The share of the steps after it in which the other rates rise.
const RAMP_SHARE: f64 = 0.2;
/// The rates then fall by 2^−¾ in this share of the steps.
const DECAY_SHARE: f64 = 0.2;

/// All that a fit depends on beside its pictures.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Fit {
    /// Without one the weights are a point, the most probable.
    pub(super) spread: Option<Spread>,
    pub(super) classes: usize,
    pub(super) epochs: usize,
    /// Learning rate of the mean and the factors.
    pub(super) rate: f64,
    /// Precision of the weights under the prior.
    pub(super) prior: f64,
    pub(super) seed: u64,
}

/// What a posterior adds to a fit.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Spread {
    pub(super) rank: usize,
    /// Draws for each batch, in antithetic pairs.
    pub(super) draws: usize,
    /// Deviation of a weight at the start, over the square root of its fan-in.
    pub(super) initial_deviation: f64,
    /// Norm of the factors at the start.
    pub(super) factor_scale: f64,
    /// Learning rate of the log-variances, over that of the mean.
    pub(super) diagonal_rate: f64,
}

/// A network whose weights are known as far as the pictures tell.
#[derive(Debug)]
pub(super) struct TrainedModel {
    network: ConvNet,
    /// `None` if the weights are a point.
    predictor: Option<Predictor<ConvNet>>,
    classes: usize,
}

/// What a network computes of pictures under the mean weights.
#[derive(Debug)]
pub(super) struct AtMean {
    /// `[rows × classes]`.
    pub(super) logits: Vec<f64>,
    /// `[rows × columns]`.
    pub(super) features: Vec<f64>,
    pub(super) columns: usize,
}

impl TrainerModel for ConvNet {}

impl Fit {
    /// Trains on all pictures.
    ///
    /// # Errors
    ///
    /// A setting that cannot be used, or a training that leaves the finite numbers.
    pub(super) fn run(&self, train: &Pictures) -> Result<TrainedModel> {
        let device = DeviceName::host()?.autodiff();
        let noise = Noise::new(self.seed).fold(INITIAL_WEIGHTS);
        let network = ConvNet::new(train.shape, self.classes, noise, &device);
        let (network, posterior) = match self.spread {
            None => (self.trained(network, train)?, None),
            Some(spread) => {
                let bayesian = self.bayesian(spread, network, train.rows())?;
                let trained = self.trained(bayesian, train)?;
                (trained.template().clone(), Some(trained.try_posterior()?))
            }
        };
        let network = network.valid();
        let noise = Noise::new(self.seed).for_prediction();
        let predictor =
            posterior.map(|posterior| Predictor::new(network.clone(), posterior, noise));
        Ok(TrainedModel {
            network,
            predictor: predictor.transpose()?,
            classes: self.classes,
        })
    }

    fn bayesian(
        &self,
        spread: Spread,
        network: ConvNet,
        rows: usize,
    ) -> Result<Bayesian<ConvNet, Vifa>> {
        let vifa = VifaConfig::new()
            .with_rank(spread.rank)
            // The library's gradients are those of the sum over rows.
            .with_clip_norm(Some(CLIP * rows as f64))
            .with_initial_deviation(InitialDeviation::FanInScaled(spread.initial_deviation))
            .with_factor_units(FactorUnits::Weights)
            .with_factor_scale(spread.factor_scale);
        let bayesian = BayesianConfig::new(rows, vifa)
            .with_prior(Prior::isotropic(self.prior))
            .with_draws(spread.draws)
            .with_antithetic(spread.draws.is_multiple_of(2))
            .with_mean_stage(MeanStage::None)
            .with_averaging(Averaging::None)
            .with_seed(self.seed)
            .try_init(network)?
            .with_interrupter(Interrupter::new());
        Ok(bayesian)
    }

    fn trained<L>(&self, learner: L, train: &Pictures) -> Result<L>
    where
        L: TrainerModel + TrainStep<Input = ImageBatch, Output = ClassificationOutput>,
    {
        let device = DeviceName::host()?.autodiff();
        let steps = self.epochs * train.rows() / BATCH;
        let (rates, optimizer) = (self.rates(steps).try_init()?, self.optimizer(train.rows()));
        // A batch that an epoch does not fill continues with the next epoch.
        let batches = || {
            let mut order = order(train.rows(), self.seed);
            let device = device.clone();
            std::iter::repeat_with(move || {
                let rows: Vec<usize> = order.by_ref().take(BATCH).collect();
                train.batch(&rows, &device)
            })
        };
        let stream = Stream { steps, batches };
        let trainer = Trainer::new(learner, optimizer, rates).without_row_check();
        let run = trainer.run(&stream, &mut ())?;
        Ok(run.trainer.into_model())
    }

    /// The paper's two stages; a network without a posterior has the rates of the mean.
    fn rates(&self, steps: usize) -> StagedLearningRate {
        let share = |share: f64| (share * steps as f64).max(1.0);
        let diagonal = self.spread.map_or(1.0, |spread| spread.diagonal_rate);
        StagedLearningRate::new(self.rate, self.rate, diagonal * self.rate)
            .with_mean_only_steps(share(MEAN_ONLY_SHARE) as usize)
            .with_ramp_steps(share(RAMP_SHARE) as usize)
            .with_time_constant(Some(share(DECAY_SHARE)))
    }

    /// Adam. Where no algorithm knows of the prior, its gradient α θ/N is the optimiser's penalty.
    fn optimizer(&self, rows: usize) -> ModuleOptimizer {
        match self.spread {
            Some(_) => FusedAdamConfig::new().init(),
            None => {
                let penalty = (self.prior / rows as f64) as f32;
                FusedAdamConfig::new()
                    .with_weight_decay(Some(WeightDecayConfig::new(penalty)))
                    .init()
                    .with_grad_clipping(GradientClipping::Norm(CLIP as f32))
            }
        }
    }
}

/// Rows without end, in epochs that have each an order of their own.
pub(crate) fn order(rows: usize, seed: u64) -> impl Iterator<Item = usize> {
    let noise = Noise::new(seed).fold(SHUFFLING);
    (0..).flat_map(move |epoch| shuffled(rows, noise.fold(epoch)))
}

impl TrainedModel {
    /// The logits and the features of every picture under the mean weights.
    pub(super) fn at_mean(&self, pictures: &Pictures) -> Result<AtMean> {
        let mean = self.predictor.as_ref().map(Predictor::mean_model);
        let mean = mean.transpose()?;
        let network = mean.as_ref().unwrap_or(&self.network);
        let device = DeviceName::host()?;
        let rows: Vec<usize> = (0..pictures.rows()).collect();
        let (mut logits, mut features) = (Vec::new(), Vec::new());
        for rows in rows.chunks(CHUNK) {
            let images = pictures.batch(rows, &device).images;
            logits.extend(network.forward(images.clone()).into_data().iter::<f64>());
            features.extend(network.features(images).into_data().iter::<f64>());
        }
        Ok(AtMean {
            columns: features.len() / rows.len().max(1),
            logits,
            features,
        })
    }

    /// The probabilities of every class under `draws` draws of the weights; under the one point if
    /// there is no posterior.
    pub(super) fn predict(
        &self,
        pictures: &Pictures,
        draws: usize,
    ) -> Result<DrawProbabilities<'static>> {
        let draws = self.predictor.as_ref().map_or(1, |_| draws.max(1));
        let device = DeviceName::host()?;
        let rows: Vec<usize> = (0..pictures.rows()).collect();
        let batches: Vec<_> = rows
            .chunks(CHUNK)
            .map(|rows| pictures.batch(rows, &device).images)
            .collect();
        let mut logits = Vec::with_capacity(draws * rows.len() * self.classes);
        let mut evaluate = |network: &ConvNet| {
            for batch in &batches {
                let outputs = network.forward(batch.clone());
                logits.extend(outputs.into_data().iter::<f64>());
            }
        };
        match &self.predictor {
            Some(predictor) => drop(predictor.map_draws(draws, evaluate)?),
            None => evaluate(&self.network),
        }
        Ok(DrawProbabilities::from_logits(
            &logits,
            draws,
            rows.len(),
            self.classes,
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::e8::scores;

    #[test]
    fn a_point_and_a_posterior_learn_where_the_light_is() {
        let [train, test] = [0, 1].map(|seed| Pictures::bright_halves(64, seed));
        let spread = Spread {
            rank: 1,
            draws: 2,
            initial_deviation: 0.03,
            factor_scale: 0.01,
            diagonal_rate: 1.0,
        };
        for spread in [None, Some(spread)] {
            let fit = Fit {
                spread,
                classes: 2,
                epochs: 8,
                rate: 5e-3,
                prior: 1.0,
                seed: 5,
            };
            let model = fit.run(&train).unwrap();
            let predicted = model.predict(&test, 3).unwrap();
            assert_eq!(predicted.draws(), spread.map_or(1, |_| 3));
            let loss = scores::loss(&predicted, &test.classes).unwrap();
            assert!(loss < 0.3, "{loss}");
        }
    }

    #[test]
    fn every_row_comes_once_in_an_epoch() {
        let rows: Vec<usize> = order(10, 3).take(20).collect();
        let (first, second) = rows.split_at(10);
        assert_ne!(first, second);
        for epoch in [first, second] {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..10));
        }
        assert!(order(10, 3).take(20).eq(rows.iter().copied()));
        assert!(order(10, 4).take(10).ne(first.iter().copied()));
    }
}
