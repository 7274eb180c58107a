//! What all methods are set up with.

use std::fmt::Debug;

use burn::module::{Module, ParamGroup};
use serde::{Deserialize, Serialize};

use super::average::Averaging;
use super::checks::{counts, positive};
use super::mean_stage::MeanStage;
use super::method_config::{LearningRates, MethodConfig};
use super::start::InitialMean;
use crate::error::{Error, Result};
use crate::memory::{MemoryPlan, OptimizerMemory};
use crate::noise::Noise;
use crate::prior::Prior;

/// The learning rate of the first stage.
const MEAN_STAGE_RATE: f64 = 0.01;

/// A method with the settings that all methods share; it wraps a model.
///
/// ```
/// use burn_bayes::{BayesianConfig, Prior, VifaConfig};
///
/// let config = BayesianConfig::new(60_000, VifaConfig::new().with_rank(8))
///     .with_prior(Prior::isotropic(0.1))
///     .with_seed(3);
/// // let bayes = config.init(model);
/// ```
///
/// A setting that a method does not use is refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BayesianConfig<C> {
    /// The method, with the settings that its equations name.
    pub method: C,
    /// N, the number of training examples (not of batches).
    pub train_len: usize,
    /// λ, the effective sample size: the fit is to λ/N copies of the data and of the prior. By default the larger of N and the
    /// number of weights. A larger one gives a narrower posterior around the same mode. The papers have N.
    pub ess: Option<f64>,
    /// α, the precision of the prior over the weights; by default isotropic and 1.
    pub prior: Option<Prior>,
    /// L, the number of draws per mini-batch; by default that of the method.
    pub draws: Option<usize>,
    /// Whether draws are antithetic pairs μ ± ε; their number must then be even or 1. By default as the method has it.
    pub antithetic: Option<bool>,
    /// The initial mean; by default the model's own weights.
    pub(crate) initial_mean: Option<InitialMean>,
    /// The first stage, in which only the mean learns; by default until it has converged.
    pub mean_stage: Option<MeanStage>,
    /// The learning rate of the first stage, where Adam makes its steps; 0.01 by default.
    pub mean_stage_rate: Option<f64>,
    /// The average of the iterates that is the posterior; by default of the recent ones.
    pub averaging: Option<Averaging>,
    /// The number of optimiser steps of the whole training, if it is known, for rates that decay and the first stage. A
    /// [`Trainer`](crate::train::Trainer) sets it by itself.
    pub steps: Option<u64>,
    /// The parameters that get a posterior; the others stay point estimates.
    pub group: ParamGroup,
    /// Seed of every draw.
    pub seed: u64,
}

impl<C> BayesianConfig<C> {
    /// A method for a training on `train_len` examples.
    pub fn new(train_len: usize, method: C) -> Self {
        Self {
            method,
            train_len,
            ess: None,
            prior: None,
            draws: None,
            antithetic: None,
            initial_mean: None,
            mean_stage: None,
            mean_stage_rate: None,
            averaging: None,
            steps: None,
            group: ParamGroup::all(),
            seed: 0,
        }
    }

    /// What the papers of variational methods share: λ = N, one draw per mini-batch, a single stage, and no average. Combine
    /// it with the method's own `paper()`.
    pub fn paper(train_len: usize, method: C) -> Self {
        Self::new(train_len, method)
            .with_ess(train_len as f64)
            .with_draws(1)
            .with_antithetic(false)
            .with_mean_stage(MeanStage::None)
            .with_averaging(Averaging::None)
    }

    /// With other settings of the method, or another method.
    #[must_use]
    pub fn map_method<D>(self, change: impl FnOnce(C) -> D) -> BayesianConfig<D> {
        BayesianConfig {
            method: change(self.method),
            train_len: self.train_len,
            ess: self.ess,
            prior: self.prior,
            draws: self.draws,
            antithetic: self.antithetic,
            initial_mean: self.initial_mean,
            mean_stage: self.mean_stage,
            mean_stage_rate: self.mean_stage_rate,
            averaging: self.averaging,
            steps: self.steps,
            group: self.group,
            seed: self.seed,
        }
    }

    /// Sets λ.
    #[must_use]
    pub fn with_ess(mut self, ess: f64) -> Self {
        self.ess = Some(ess);
        self
    }

    /// Sets the prior over the weights.
    #[must_use]
    pub fn with_prior(mut self, prior: Prior) -> Self {
        self.prior = Some(prior);
        self
    }

    /// Sets the number of draws per mini-batch.
    #[must_use]
    pub fn with_draws(mut self, draws: usize) -> Self {
        self.draws = Some(draws);
        self
    }

    /// Sets whether draws are antithetic pairs.
    #[must_use]
    pub fn with_antithetic(mut self, antithetic: bool) -> Self {
        self.antithetic = Some(antithetic);
        self
    }

    /// Sets the initial mean to zero.
    #[must_use]
    pub fn with_zero_mean(mut self) -> Self {
        self.initial_mean = Some(InitialMean::Zero);
        self
    }

    /// Sets the first stage.
    #[must_use]
    pub fn with_mean_stage(mut self, mean_stage: MeanStage) -> Self {
        self.mean_stage = Some(mean_stage);
        self
    }

    /// Sets the learning rate of the first stage.
    #[must_use]
    pub fn with_mean_stage_rate(mut self, rate: f64) -> Self {
        self.mean_stage_rate = Some(rate);
        self
    }

    /// Sets the average of the iterates that is the posterior.
    #[must_use]
    pub fn with_averaging(mut self, averaging: Averaging) -> Self {
        self.averaging = Some(averaging);
        self
    }

    /// Sets the number of optimiser steps of the whole training.
    #[must_use]
    pub fn with_steps(mut self, steps: u64) -> Self {
        self.steps = Some(steps);
        self
    }

    /// Sets the parameters that get a posterior.
    #[must_use]
    pub fn with_group(mut self, group: ParamGroup) -> Self {
        self.group = group;
        self
    }

    /// Sets the seed of every draw.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

impl<C: MethodConfig> BayesianConfig<C> {
    /// Checks the settings. The error names the field.
    pub fn validate(&self) -> Result<()> {
        counts([
            ("train_len", self.train_len),
            ("draws", self.draws.unwrap_or(1)),
        ])?;
        positive("ess", self.ess.unwrap_or(1.0))?;
        positive("mean_stage_rate", self.mean_stage_rate())?;
        self.refuse_unused()?;
        C::validate(self)
    }

    /// The memory needed to train `weights` weights, without the model's activations.
    pub fn memory(&self, weights: usize, optimizer: OptimizerMemory) -> MemoryPlan {
        C::memory(self, weights, optimizer)
    }

    /// The tuned learning rates of the method.
    pub fn learning_rates(&self) -> LearningRates {
        self.method.learning_rates()
    }

    /// The algorithm for the weights of `model`.
    pub fn build<M: Module>(&self, model: &M) -> Result<C::Algorithm> {
        self.validate()?;
        C::build(self, model)
    }

    fn refuse_unused(&self) -> Result<()> {
        let (stage, averaging) = (self.mean_stage, self.averaging);
        let train_len = self.train_len as f64;
        // What `paper` sets describes methods without these settings as well.
        let set = [
            ("ess", self.ess.is_some_and(|ess| ess != train_len)),
            ("prior", self.prior.is_some()),
            ("draws", self.draws.is_some_and(|draws| draws != 1)),
            ("antithetic", self.antithetic == Some(true)),
            ("initial_mean", self.initial_mean.is_some()),
            ("mean_stage", stage.is_some_and(|stage| !stage.is_none())),
            ("mean_stage_rate", self.mean_stage_rate.is_some()),
            (
                "averaging",
                averaging.is_some_and(|it| it != Averaging::None),
            ),
        ];
        let mut unused = set
            .into_iter()
            .filter(|(field, _)| !C::USES.contains(field));
        match unused.find(|&(_, is_set)| is_set) {
            None => Ok(()),
            Some(("prior", _)) => {
                let problem = "belongs to the gradients that this method observes: set it as the optimiser's weight decay, \
                               the precision divided by the number of training examples";
                Err(Error::config("prior", problem))
            }
            Some((field, _)) => Err(Error::config(field, "is not used by this method: omit it")),
        }
    }
}

impl<C> BayesianConfig<C> {
    /// The prior over the weights that is set, or else the default.
    pub fn prior(&self) -> Prior {
        self.prior.clone().unwrap_or_else(|| Prior::isotropic(1.0))
    }

    pub(crate) fn mean_stage(&self) -> MeanStage {
        let default = MeanStage::UntilConverged { at_most: None };
        self.mean_stage.unwrap_or(default)
    }

    pub(crate) fn mean_stage_rate(&self) -> f64 {
        self.mean_stage_rate.unwrap_or(MEAN_STAGE_RATE)
    }

    pub(crate) fn averaging(&self) -> Averaging {
        self.averaging.unwrap_or(Averaging::Recent)
    }

    /// The root of the random numbers.
    pub(crate) fn root(&self) -> Noise {
        Noise::new(self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::{IvonConfig, SlangConfig, SwagConfig, VifaConfig, VonConfig};

    #[test]
    fn antithetic_draws_are_pairs_or_one_draw_in_every_method() {
        fn validated<C: MethodConfig>(method: C, draws: usize, antithetic: bool) -> Result<()> {
            let config = BayesianConfig::new(10, method).with_draws(draws);
            config.with_antithetic(antithetic).validate()
        }
        for (draws, antithetic, is_valid) in [
            (1, true, true),
            (2, true, true),
            (3, true, false),
            (3, false, true),
            (4, true, true),
        ] {
            for result in [
                validated(IvonConfig::new(), draws, antithetic),
                validated(SlangConfig::new(), draws, antithetic),
                validated(VifaConfig::new(), draws, antithetic),
                validated(VonConfig::new(), draws, antithetic),
            ] {
                assert_eq!(result.is_ok(), is_valid, "{draws} draws: {result:?}");
                let names_field = |error: Error| error.to_string().starts_with("draws: is 3");
                assert!(result.err().is_none_or(names_field));
            }
        }
    }

    #[test]
    fn a_setting_that_a_method_does_not_use_is_refused() {
        let swag = BayesianConfig::new(10, SwagConfig::new().with_start(Some(1)));
        for (config, field) in [
            (swag.clone().with_prior(Prior::isotropic(2.0)), "prior"),
            (swag.clone().with_draws(2), "draws"),
            (
                swag.clone().with_mean_stage(MeanStage::Steps(9)),
                "mean_stage",
            ),
            (swag.clone().with_averaging(Averaging::Recent), "averaging"),
            (swag.clone().with_ess(3.0), "ess"),
        ] {
            let error = config.validate().expect_err(field);
            assert!(
                error.is_config() && error.to_string().starts_with(field),
                "{error}"
            );
        }
        swag.validate().unwrap();
        BayesianConfig::paper(10, SwagConfig::new().with_start(Some(1)))
            .validate()
            .unwrap();
    }

    #[test]
    fn refused_settings_name_their_field() {
        let base = BayesianConfig::new(10, VifaConfig::new());
        let cases = [
            (BayesianConfig::new(0, VifaConfig::new()), "train_len"),
            (base.clone().with_draws(0), "draws"),
            (base.clone().with_ess(-1.0), "ess"),
            (base.with_mean_stage_rate(f64::NAN), "mean_stage_rate"),
        ];
        for (config, field) in cases {
            let error = config.validate().expect_err(field);
            assert!(
                error.is_config() && error.to_string().starts_with(field),
                "{error}"
            );
        }
    }
}
