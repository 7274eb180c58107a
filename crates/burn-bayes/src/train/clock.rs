//! The training progress, as part of the model's record.
//!
//! All random numbers of training are functions of the number of optimiser steps, and training
//! stops after too many rejected steps, so both counts are saved and restored with the parameters. So is what identifies
//! the training and is not saved itself: a resumed training needs the same configuration, number of training examples,
//! settings of the model, curvature and prior over functions.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::tensor::Device;

use crate::error::{Error, Result};
use crate::methods::{Setup, StepId, hash_of_text};
use crate::posterior::hash_of_settings;
use crate::recorded::{Recorded, RecordedValue};

/// Counts optimiser steps and the gradients since the last step.
///
/// Clones share the count of gradients, so that the copies made by a Learner count together. A fork
/// to another device has its own count, so that all replicas of a step use the same noise. Replicas
/// are forked for every mini-batch, so mini-batches that are accumulated for one step share a draw.
pub(crate) type Clock = Recorded<Counts>;

/// What a clock counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    step: u64,
    /// Number of consecutive rejected steps.
    rejections: u32,
    /// That of the prior over functions with which the training goes on.
    prior: PriorHash,
    /// That of the loaded record.
    recorded_prior: PriorHash,
    /// That with which the training goes on.
    identity: Identity,
    /// That of the loaded record.
    recorded: Option<Identity>,
    pass: Arc<AtomicU64>,
    /// The examples of the gradients since the last step, which replicas count together.
    examples: Arc<AtomicU64>,
}

/// Identifies a training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// N.
    train_len: u64,
    /// A hash of the configuration.
    settings: u64,
    /// A hash of the settings of the wrapped model.
    model: u64,
    /// Whether the curvature is the Gauss–Newton matrix.
    has_curvature: bool,
}

impl Identity {
    pub(crate) fn of(setup: &Setup, model: &impl Debug) -> Self {
        Self {
            train_len: setup.train_len as u64,
            settings: setup.settings,
            model: hash_of_settings(model),
            has_curvature: false,
        }
    }
}

/// Identifies a prior over functions; the default means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PriorHash(u64);

impl PriorHash {
    /// Of a description.
    pub(crate) fn new(description: &str) -> Self {
        Self(hash_of_text(description).max(1))
    }
}

impl RecordedValue for Counts {
    fn numbers(&self) -> Vec<u64> {
        let prior = match self.prior {
            PriorHash(0) => self.recorded_prior,
            prior => prior,
        };
        let Identity {
            train_len,
            settings,
            model,
            has_curvature,
        } = self.recorded.unwrap_or(self.identity);
        let rejections = u64::from(self.rejections);
        let curvature = u64::from(has_curvature);
        let identity = [train_len, settings, model, curvature];
        [&[self.step, rejections, prior.0], &identity[..]].concat()
    }

    fn restored(self, numbers: &[u64]) -> Self {
        if numbers == self.numbers() {
            return self;
        }
        let &[
            step,
            rejections,
            prior,
            train_len,
            settings,
            model,
            curvature,
        ] = numbers
        else {
            return self;
        };
        Self {
            step,
            rejections: u32::try_from(rejections).unwrap_or(u32::MAX),
            recorded_prior: PriorHash(prior),
            recorded: Some(Identity {
                train_len,
                settings,
                model,
                has_curvature: curvature != 0,
            }),
            pass: Arc::default(),
            ..self
        }
    }

    fn forked(self) -> Self {
        let pass = self.pass.load(Ordering::Relaxed);
        Self {
            pass: Arc::new(AtomicU64::new(pass)),
            ..self
        }
    }
}

impl Clock {
    /// A clock before the first step.
    pub(crate) fn start(identity: Identity, device: &Device) -> Self {
        let counts = Counts {
            identity,
            ..Counts::default()
        };
        Self::new(counts, device)
    }

    /// The clock of a training whose curvature is the Gauss–Newton matrix.
    pub(crate) fn with_curvature(self) -> Self {
        let mut counts = self.value().clone();
        counts.identity.has_curvature = true;
        self.with_value(counts)
    }

    /// The clock of a training that goes on with this model.
    pub(crate) fn with_model(self, model: &impl Debug) -> Self {
        let mut counts = self.value().clone();
        let model = hash_of_settings(model);
        counts.identity.model = model;
        if let Some(recorded) = &mut counts.recorded {
            recorded.model = model;
        }
        self.with_value(counts)
    }

    /// The number of optimiser steps so far.
    pub(crate) fn step(&self) -> u64 {
        self.value().step
    }

    /// Number of consecutive rejected steps.
    pub(crate) fn rejections(&self) -> u32 {
        self.value().rejections
    }

    /// The id of the next gradient. Advances the pass.
    pub(crate) fn next_pass(&self) -> StepId {
        StepId {
            step: self.step(),
            pass: self.value().pass.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The id of the first gradient of a step.
    pub(crate) fn first_pass(&self) -> StepId {
        StepId {
            step: self.step(),
            pass: 0,
        }
    }

    /// Counts the examples of a gradient.
    pub(crate) fn count_examples(&self, examples: usize) {
        let counter = &self.value().examples;
        counter.fetch_add(examples as u64, Ordering::Relaxed);
    }

    /// The examples of the gradients since the last step.
    pub(crate) fn examples(&self) -> u64 {
        self.value().examples.load(Ordering::Relaxed)
    }

    /// The clock after one more optimiser step, which may have been rejected. A clone from before the step has no gradient
    /// since the last step again, so that another training from it is as if this one had not been.
    pub(crate) fn after_step(self, is_rejected: bool) -> Self {
        self.value().pass.store(0, Ordering::Relaxed);
        self.value().examples.store(0, Ordering::Relaxed);
        let rejections = if is_rejected {
            self.rejections() + 1
        } else {
            0
        };
        let counts = Counts {
            step: self.step() + 1,
            rejections,
            pass: Arc::default(),
            examples: Arc::default(),
            ..self.value().clone()
        };
        self.with_value(counts)
    }

    /// The clock of a training with this prior over functions.
    pub(crate) fn with_function_prior(self, prior: PriorHash) -> Self {
        let counts = Counts {
            prior,
            ..self.value().clone()
        };
        self.with_value(counts)
    }

    /// Fails if the loaded record is of another training.
    pub(crate) fn check_record(&self) -> Result<()> {
        self.check_identity()?;
        self.check_function_prior()
    }

    fn check_identity(&self) -> Result<()> {
        let Counts {
            identity, recorded, ..
        } = *self.value();
        let Some(recorded) = recorded.filter(|recorded| *recorded != identity) else {
            return Ok(());
        };
        Err(if recorded.train_len != identity.train_len {
            Error::config(
                "train_len",
                format!(
                    "is {}, but the loaded record is of a training with {}; resume with the same \
                     number of training examples",
                    identity.train_len, recorded.train_len
                ),
            )
        } else if recorded.settings != identity.settings {
            Error::config(
                "config",
                "differs from that of the loaded record, for example in its prior, seed or rank; resume \
                 with the same configuration",
            )
        } else if recorded.model != identity.model {
            Error::config(
                "model",
                "has other settings than that of the loaded record, for example another rate of dropout or the noise of a \
                 likelihood; build it with the same settings, or change it by `map_template` after the record is loaded",
            )
        } else {
            let (now, before) = match recorded.has_curvature {
                true => ("not set", "with it: call it again"),
                false => ("set", "without it: remove it"),
            };
            Error::config(
                "with_gauss_newton",
                format!("is {now}, but the loaded record is of a training {before}"),
            )
        })
    }

    fn check_function_prior(&self) -> Result<()> {
        let Counts {
            prior,
            recorded_prior: recorded,
            ..
        } = *self.value();
        let problem = match (prior, recorded) {
            (_, PriorHash(0)) => return Ok(()),
            (prior, recorded) if prior == recorded => return Ok(()),
            (PriorHash(0), _) => {
                "is over functions in the loaded record, which does not contain it: set it again by `with_function_prior`"
            }
            _ => {
                "over functions is another than that of the loaded record; resume with the same kernel, points and settings"
            }
        };
        Err(Error::config("prior", problem))
    }
}

#[cfg(test)]
mod tests {
    use burn::module::Module;

    use super::*;

    fn start(device: &Device) -> Clock {
        Clock::start(Identity::default(), device)
    }

    #[test]
    fn a_record_restores_large_counts() {
        let device = Device::default();
        let mut counts = start(&device).value().clone();
        (counts.step, counts.rejections) = (3 * (1 << 50) + 17, 4);
        let record = start(&device).with_value(counts).into_record();
        let restored = start(&device).load_record(record);
        assert_eq!(
            (restored.step(), restored.rejections()),
            (3 * (1 << 50) + 17, 4)
        );
    }

    #[test]
    fn a_record_demands_its_configuration() {
        let device = Device::default();
        let identity = Identity {
            train_len: 10,
            settings: u64::MAX - 1,
            model: 3,
            has_curvature: false,
        };
        let record = || {
            let clock = Clock::start(identity, &device);
            clock.with_curvature().after_step(false).into_record()
        };
        let resumed = |identity| Clock::start(identity, &device);
        let same = resumed(identity).with_curvature().load_record(record());
        assert!(same.check_record().is_ok());
        let settings = identity.settings - 1;
        let cases = [
            (
                resumed(Identity {
                    train_len: 20,
                    ..identity
                })
                .with_curvature(),
                "train_len",
            ),
            (
                resumed(Identity {
                    settings,
                    ..identity
                })
                .with_curvature(),
                "config",
            ),
            (
                resumed(Identity {
                    model: 4,
                    ..identity
                })
                .with_curvature(),
                "model",
            ),
            (resumed(identity), "with_gauss_newton"),
        ];
        for (clock, name) in cases {
            let clock = clock.load_record(record());
            let error = clock.check_record().unwrap_err();
            assert!(error.to_string().starts_with(name), "{error}");
            // A record of it still demands the first configuration.
            let again = clock.after_step(false).into_record();
            let again = resumed(identity).with_curvature().load_record(again);
            assert!(again.check_record().is_ok());
        }
    }

    #[test]
    fn a_record_demands_its_prior_over_functions() {
        let device = Device::default();
        let start = || start(&device);
        let [prior, other] = ["rbf", "linear"].map(PriorHash::new);
        let record = |clock: Clock| clock.after_step(true).into_record();
        let trained = || record(start().with_function_prior(prior));
        let resumed = start().with_function_prior(prior).load_record(trained());
        assert_eq!((resumed.step(), resumed.rejections()), (1, 1));
        assert!(resumed.check_record().is_ok());
        let later = start().load_record(trained());
        let message = later.check_record().unwrap_err().to_string();
        assert!(message.contains("with_function_prior"), "{message}");
        // A record of the resumed training still demands it.
        let again = start().load_record(record(later));
        assert!(again.check_record().is_err());
        assert!(again.with_function_prior(prior).check_record().is_ok());
        let wrong = start().with_function_prior(other).load_record(trained());
        assert!(wrong.check_record().is_err());
        // A prior may be added to a training without one.
        let added = start().with_function_prior(prior);
        let added = added.load_record(record(start()));
        assert!(added.check_record().is_ok());
    }

    #[test]
    fn clones_share_the_pass_and_forks_do_not() {
        let device = Device::default();
        let clock = start(&device);
        let (clone, fork) = (clock.clone(), clock.clone().fork(&device));
        assert_eq!(
            [
                clock.next_pass().pass,
                clone.next_pass().pass,
                fork.next_pass().pass
            ],
            [0, 1, 0]
        );
        let id = StepId { step: 1, pass: 0 };
        assert_eq!(clock.after_step(false).next_pass(), id);
    }
}
