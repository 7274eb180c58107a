//! Samples of the weights, of chains on all rows.
//!
//! An epoch is a step of every chain: a gradient of all rows, or a trajectory of them.

use std::ops::ControlFlow;

use burn::module::Module;
use burn_bayes::Noise;
use burn_bayes::posterior::SamplePosterior;
use burn_bayes::sampling::{Budget, Sampling, SamplingConfig, batches_of_rows};
use burn_bayes::train;

use super::chain_agreement::{ChainAgreement, ChainLength};
use super::likelihood::is_noise_a_weight;
use super::prior::{noises, prior};
use super::trained_model::TrainedModel;
use super::training::Training;
use super::{Checkpoint, EpochRecord, Observer, weights};
use crate::error::{Result, TabularError};
use crate::network::Network;
use crate::rows::TrainingSet;
use crate::settings::{FitSettings, Method};

/// The precision of the prior of the logarithm of a variance or a dispersion: a factor of 20 is a deviation.
const NOISE_PRIOR_PRECISION: f64 = 0.1;
/// The epochs are shown and saved this many times.
const SHOWN: usize = 50;
/// The multiplications for a product of a row and a weight: forwards, and for the gradients of both.
pub(super) const OF_PRODUCT: f64 = 3.0;
/// The chains are compared this many times on the way.
const COMPARED: usize = 10;
/// The most epochs between two looks at interruptions.
const UNINTERRUPTED: usize = 10;
/// The least epochs: one of the tuning, and one of the sampling.
pub(super) const FEWEST_EPOCHS: usize = 2;

/// The settings of the chains.
pub(super) fn config(settings: &FitSettings, rows: usize) -> SamplingConfig {
    let config = match settings.method {
        Method::Hmc => SamplingConfig::hmc(),
        _ => SamplingConfig::new(),
    };
    config
        .with_all_steps(settings.epochs(rows))
        .with_prior(prior(settings, None))
        .with_seed(settings.seed)
}

/// Samples from the posterior, with these settings of the chains.
pub(super) fn sample(
    training: &Training<'_>,
    config: SamplingConfig,
    checkpoint: Option<Checkpoint>,
    observer: &mut dyn Observer,
) -> Result<TrainedModel> {
    let (training_set, settings) = (training.training_set, training.settings);
    let precisions = &training.precisions.noise;
    let starts = Noise::new(settings.seed).fold(STARTS);
    let networks: Vec<Network> = (0..settings.chains as u64)
        .map(|chain| {
            let start = starts.fold(chain);
            training_set.started_network(settings, precisions, start, &training.device)
        })
        .collect();
    let inner = training.device.clone().inner();
    let batches = batches_of_rows(training_set.rows());
    let batches: Vec<_> = batches
        .map(|rows| training_set.batch(&rows, &inner))
        .collect();
    let config = match is_noise_a_weight(settings, training_set.target()) {
        true => {
            let prior = config.prior.clone();
            config.with_prior(prior.with_group(noises(), NOISE_PRIOR_PRECISION))
        }
        false => config,
    };
    let mut sampling = config.start(&networks, &batches)?;
    if let Some(checkpoint) = checkpoint {
        let resumed = sampling.resumed(&checkpoint.state.model);
        sampling = resumed
            .map_err(|error| TabularError::Data(format!("{error}; fit again without --resume")))?;
    }
    let products = training_set.rows() * networks[0].num_params() * settings.chains;
    let budget = budget(settings);
    let mut chains = Chains {
        training,
        network: networks[0].clone(),
        sampling,
        products,
        agreement: None,
    };
    let mut earlier = None;
    loop {
        let ended = chains.run(observer)?;
        let agreement = chains.agreement()?;
        let mut agreement = agreement.map(|agreement| agreement.after(earlier));
        let r_hat = agreement.map(|agreement| agreement.r_hat);
        let of_epoch = chains.of_epoch();
        let goes_on = ended.is_continue()
            && is_lengthened(settings)
            && budget.lengthen(&mut chains.sampling, of_epoch, r_hat);
        if !goes_on {
            if let Some(agreement) = &mut agreement {
                agreement.can_go_on = !budget.is_reached(r_hat)
                    && settings.method.row().is_lengthened
                    && observer.keeps_checkpoints();
                if agreement.can_go_on {
                    observer.checkpoint(chains.checkpoint()?)?;
                }
            }
            let mut model = chains.snapshot()?;
            model.agreement = agreement;
            return Ok(model);
        }
        earlier = agreement;
    }
}

fn budget(settings: &FitSettings) -> Budget {
    Budget::new(settings.budget).with_until_r_hat(settings.until_r_hat)
}

/// The epochs of chains that never agree.
pub(super) fn most_epochs(training_set: &TrainingSet, settings: &FitSettings) -> Result<usize> {
    let rows = training_set.rows();
    let epochs = settings.epochs(rows);
    if settings.chains < 2 || !is_lengthened(settings) {
        return Ok(epochs);
    }
    let weights = weights(settings, training_set.width(), training_set.target())?;
    let of_epoch = OF_PRODUCT * (rows * weights * settings.chains) as f64;
    Ok(budget(settings).steps_without_agreement(epochs as u64, of_epoch) as usize)
}

/// Whether chains that do not agree are lengthened.
fn is_lengthened(settings: &FitSettings) -> bool {
    let is_given = settings.budget.is_some() || settings.until_r_hat.is_some();
    settings.method.row().is_lengthened && (settings.epochs.is_none() || is_given)
}

/// The random stream of the starts.
const STARTS: u64 = 0x7374_6172;

/// About so many epochs, of which an observer is asked before every equal number, and this number.
pub(super) fn seen(epochs: usize) -> (usize, usize) {
    let every = (epochs / SHOWN).max(1);
    let every = match every < UNINTERRUPTED {
        true => every,
        false => every / UNINTERRUPTED * UNINTERRUPTED,
    };
    (SHOWN * every, every.min(UNINTERRUPTED))
}

struct Chains<'a, 'b> {
    training: &'a Training<'b>,
    /// Of the first chain at its start.
    network: Network,
    sampling: Sampling<Network>,
    /// Of an epoch: one for a row, a weight and a chain.
    products: usize,
    /// The last that was computed.
    agreement: Option<ChainAgreement>,
}

impl Chains<'_, '_> {
    /// Makes the steps that are left; `Break` if the observer ends them.
    fn run(&mut self, observer: &mut dyn Observer) -> Result<ControlFlow<()>> {
        let epochs = self.sampling.end() as usize;
        let every = (epochs / SHOWN).max(1);
        let mut saved = self.epoch();
        let mut compared = COMPARED * self.epoch() / epochs.max(1);
        while self.epoch() < epochs {
            let shown = (self.epoch() / every + 1) * every;
            while self.epoch() < shown.min(epochs) {
                if observer.interrupts() {
                    if observer.keeps_checkpoints() {
                        observer.checkpoint(self.checkpoint()?)?;
                    }
                    return Err(TabularError::Interrupted("interrupted".into()));
                }
                let steps = (shown - self.epoch()).min(UNINTERRUPTED);
                self.sampling.advance(steps as u64)?;
            }
            let part = COMPARED * self.epoch() / epochs;
            let agreement = match part > compared {
                true => self.agreement()?,
                false => None,
            };
            compared = part;
            let record = EpochRecord {
                epoch: self.epoch(),
                epochs,
                loss: self.sampling.loss()? / self.training.training_set.rows() as f64
                    + self.training.constant_of_loss,
                r_hat: agreement.map(|agreement| agreement.r_hat),
            };
            if observer.epoch(&record, &|| self.snapshot()).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let due = self.training.settings.checkpoint_every;
            let is_due = due > 0 && self.epoch() >= saved + due && self.epoch() < epochs;
            if is_due && observer.keeps_checkpoints() {
                saved = self.epoch();
                observer.checkpoint(self.checkpoint()?)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The multiplications of an epoch.
    fn of_epoch(&self) -> f64 {
        OF_PRODUCT * self.products as f64
    }

    fn epoch(&self) -> usize {
        self.sampling.step() as usize
    }

    fn checkpoint(&self) -> Result<Checkpoint> {
        Ok(Checkpoint {
            epochs: self.epoch(),
            precisions: self.training.precisions.clone(),
            earlier_mean: None,
            state: train::Checkpoint {
                step: self.sampling.step(),
                loss_sum: 0.0,
                rows: 0,
                losses: None,
                model: self.sampling.checkpoint()?,
                optimizer: Vec::new(),
            },
        })
    }

    /// The draws so far; before the first one, where the chains are.
    fn snapshot(&self) -> Result<TrainedModel> {
        match self.sampling.samples().posterior() {
            Ok(posterior) => self.model(posterior),
            Err(error) if error.is_too_early() => {
                let mut model = self.model(self.sampling.places().posterior()?)?;
                model.is_before_posterior = true;
                Ok(model)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn model(&self, posterior: SamplePosterior) -> Result<TrainedModel> {
        TrainedModel::new(
            &self.network,
            Some(posterior.into()),
            self.training.training_set.target().clone(),
            self.training.precisions.noise.clone(),
            self.training.settings.seed,
        )
    }

    /// Whether the chains agree about some training rows.
    fn agreement(&mut self) -> Result<Option<ChainAgreement>> {
        let known = self.agreement;
        if known.is_some_and(|known| known.length.epochs == self.epoch()) {
            return Ok(known);
        }
        let training_set = self.training.training_set;
        let rows = training_set.some(Budget::COMPARED);
        let batch = training_set.batch(&rows, &self.training.device.clone().inner());
        let samples = self.sampling.samples();
        let agreement = samples.agreement(&self.network, &batch.inputs)?;
        let length = ChainLength {
            method: self.training.settings.method,
            epochs: self.epoch(),
            seconds: Budget::seconds_of(self.of_epoch() * self.epoch() as f64),
        };
        self.agreement = agreement.map(|agreement| ChainAgreement::of(agreement, length));
        Ok(self.agreement)
    }
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::{ColumnScale, gap_regression};

    use super::*;
    use crate::engine;
    use crate::predict::Predictions;
    use crate::rows::Target;
    use crate::settings::LikelihoodName;

    fn gap() -> TrainingSet {
        let data = gap_regression(100, 0.1, 3).unwrap();
        TrainingSet::new(&data, Target::Real(ColumnScale::KEPT)).unwrap()
    }

    fn settings(likelihood: LikelihoodName) -> FitSettings {
        FitSettings {
            method: Method::Mclmc,
            likelihood: Some(likelihood),
            epochs: Some(2000),
            ..FitSettings::default()
        }
    }

    #[test]
    fn a_timed_run_is_asked_before_equal_numbers_of_epochs() {
        for (epochs, expected) in [
            (30, (50, 1)),
            (120, (100, 2)),
            (1000, (1000, 10)),
            (7000, (7000, 10)),
            (7300, (7000, 10)),
        ] {
            assert_eq!(seen(epochs), expected);
        }
    }

    #[test]
    fn the_noise_of_all_rows_is_sampled_with_the_weights() {
        let settings = settings(LikelihoodName::Gaussian);
        let training_set = gap();
        let model = engine::fit(&training_set, &settings, &mut ()).unwrap();
        let expected = 2 * 16 + 17 * 16 + 17 + 1;
        assert_eq!(model.weights(), expected);
        let counted = engine::check(&training_set, &settings).unwrap();
        assert_eq!(counted, expected);
        let rows = training_set.features().unwrap();
        let Predictions::Reals(found) = model.predict(&rows, 50).unwrap() else {
            panic!("numbers were fitted");
        };
        let deviations = found.noise_of_predictions();
        let (first, second) = (&deviations[..100], &deviations[100..200]);
        assert!(first.iter().all(|deviation| *deviation == first[0]));
        assert_ne!(first, second);
        let deviation = found.noise_deviation();
        assert!((0.08..0.15).contains(&deviation), "{deviation}");
    }

    #[test]
    fn chains_start_elsewhere_and_are_compared() {
        let training_set = gap();
        let fitted = |chains| {
            let settings = FitSettings {
                chains,
                ..settings(LikelihoodName::Heteroscedastic)
            };
            engine::fit(&training_set, &settings, &mut ()).unwrap()
        };
        assert!(fitted(1).agreement.is_none());
        let agreement = fitted(3).agreement.unwrap();
        assert!(agreement.r_hat > 1.0 && agreement.r_hat < agreement.r_hat_upper);
    }

    #[test]
    fn chains_that_never_agree_are_lengthened_up_to_their_budget() {
        let most = |change: fn(&mut FitSettings)| {
            let mut settings = FitSettings {
                epochs: None,
                ..settings(LikelihoodName::Gaussian)
            };
            change(&mut settings);
            (
                settings.epochs(100),
                most_epochs(&gap(), &settings).unwrap(),
            )
        };
        let (epochs, longest) = most(|_| ());
        assert!((20_000..23_250).contains(&longest), "{longest}");
        assert_eq!((longest - epochs) % 3250, 0);
        let (epochs, longest) = most(|settings| settings.budget = Some(1e-6));
        assert_eq!(longest, epochs);
        let (epochs, longest) = most(|settings| settings.chains = 1);
        assert_eq!(longest, epochs);
        let (epochs, longest) = most(|settings| settings.epochs = Some(500));
        assert_eq!((epochs, longest), (500, 500));
    }

    #[test]
    fn too_few_epochs_are_refused() {
        let settings = FitSettings {
            epochs: Some(1),
            ..settings(LikelihoodName::Gaussian)
        };
        let message = engine::fit(&gap(), &settings, &mut ()).unwrap_err();
        assert!(message.to_string().contains("`epochs`"), "{message}");
    }
}
