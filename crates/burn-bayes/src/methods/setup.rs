//! What an algorithm is set up with, and the noise of its steps.

use std::fmt::Debug;
use std::sync::Arc;

use burn::module::{Module, ParamGroup};
use burn::tensor::Tensor;
use burn_bayes_graph::Layout;

use super::settings::BayesianConfig;
use crate::error::{Error, Result};
use crate::noise::Noise;
use crate::prior::{Prior, PriorPrecisions};

/// What every algorithm is set up with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The weights that are random.
    pub layout: Arc<Layout>,
    /// N, the number of training examples.
    pub train_len: usize,
    /// λ, the effective sample size: the fit is to λ/N copies of the data and of the prior. N, unless an algorithm has set another
    /// one.
    pub ess: f64,
    /// Whether λ was set by the user.
    pub(crate) is_ess_given: bool,
    /// The root of the algorithm's random numbers.
    pub noise: Noise,
    /// A hash of the configuration without its group, which the layout stands for.
    pub(crate) settings: u64,
}

impl Setup {
    /// For the weights of a model that belong to a group.
    pub fn new<M: Module>(
        model: &M,
        group: &ParamGroup,
        train_len: usize,
        noise: Noise,
    ) -> Result<Self> {
        Ok(Self {
            layout: Arc::new(Layout::new(model, group)?),
            train_len,
            ess: train_len as f64,
            is_ess_given: false,
            noise,
            settings: 0,
        })
    }

    /// For the weights of a model that a configuration selects. A record of a training is not resumed with another
    /// configuration.
    pub fn of<C: Clone + Debug, M: Module>(config: &BayesianConfig<C>, model: &M) -> Result<Self> {
        let setup = Self::new(model, &config.group, config.train_len, config.root())?;
        // The layout stands for the group.
        let without_group = config.clone().with_group(ParamGroup::all());
        let settings = hash_of_text(&format!("{without_group:?}"));
        Ok(Self { settings, ..setup })
    }

    /// With an effective sample size, by default the larger of the numbers of examples and of weights. A Gaussian with
    /// independent weights pays for each weight that the data determine with some nats of divergence. With more weights
    /// than examples these outweigh the likelihood, and the optimum is the prior, whose predictions are useless. The prior
    /// counts as often as the examples, so that λ changes the deviations and not the mode, unless a method says otherwise.
    #[must_use]
    pub fn with_ess(self, ess: Option<f64>) -> Self {
        let most = self.train_len.max(self.layout.len());
        Self {
            ess: ess.unwrap_or(most as f64),
            is_ess_given: ess.is_some(),
            ..self
        }
    }

    /// λ/N, how often examples and prior count.
    pub fn copies(&self) -> f64 {
        self.ess / self.train_len as f64
    }

    /// The precisions of λ/N copies of a prior.
    ///
    /// # Errors
    ///
    /// Those of [`Prior::resolve`].
    pub fn precisions(&self, prior: &Prior) -> Result<PriorPrecisions> {
        Ok(prior.resolve(&self.layout)?.times(self.copies()))
    }

    /// Fails if a posterior of this rank has more factors than the model has weights.
    pub fn check_rank(&self, rank: usize) -> Result<()> {
        let weights = self.layout.len();
        if rank > weights {
            let problem = format!("is {rank}; the model has {weights} weights");
            return Err(Error::config("rank", problem));
        }
        Ok(())
    }

    /// The error of step number `step` (from 1), which would not be finite. It names the first weight whose
    /// `gradient` is not finite.
    pub fn non_finite(&self, step: u64, gradient: Tensor<1>) -> Error {
        let values = gradient.into_data();
        let bad = values.iter::<f64>().position(|value| !value.is_finite());
        let path = bad.and_then(|index| self.layout.path_at(index));
        Error::non_finite(step, path.unwrap_or("the precision"))
    }
}

/// The 64-bit FNV-1a hash.
pub(crate) fn hash_of_text(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Identifies a gradient of a training. All random numbers are functions of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepId {
    /// The number of optimiser steps made so far.
    pub step: u64,
    /// The number of gradients taken since the last step, if several are accumulated.
    pub pass: u64,
}

impl StepId {
    /// The noise of all draws of this gradient, from the root of an algorithm's random numbers.
    pub fn noise(self, root: Noise) -> Noise {
        let training = root.fold(purpose::TRAINING);
        training.fold(self.step).fold(self.pass)
    }
}

/// The noise of each of `count` draws. If they are `antithetic`, every second one is the negative of the
/// one before.
pub(crate) fn draw_noises(noise: Noise, count: usize, antithetic: bool) -> Vec<Noise> {
    let one = |index: u64| match antithetic {
        true if index % 2 == 1 => noise.row(index / 2).negated(),
        true => noise.row(index / 2),
        false => noise.row(index),
    };
    (0..count as u64).map(one).collect()
}

/// Streams of random numbers, by purpose.
pub mod purpose {
    /// Initial values of factors.
    pub const INITIAL_FACTORS: u64 = 1;
    /// Draws of training steps.
    pub const TRAINING: u64 = 2;
    /// Probes of curvature.
    pub const PROBE: u64 = 3;
}
