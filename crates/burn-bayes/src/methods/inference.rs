//! What an algorithm is: a module whose parameters describe a posterior, and a rule that learns
//! them from one kind of evidence.
//!
//! The training loop supplies the evidence; an algorithm never calls backward and never sees data.
//! The kind of evidence is a type, and it selects the trait that an algorithm implements besides
//! [`Inference`]:
//!
//! | evidence | trait | the loop |
//! |---|---|---|
//! | [`MeanGradients`] | [`FromGradients`] | evaluates the loss's gradient at proposed draws, hands the answer to an optimiser |
//! | [`ExampleGradients`] | [`FromExamples`] | the same with the gradient of every example's loss |
//! | [`Iterates`] | [`FromIterates`] | trains the model as it is, shows the weights after each step |

use std::fmt::Debug;
use std::sync::Arc;

use burn::module::{Module, ModuleDisplay};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn_bayes_graph::{ExampleGradients, Layout};

use crate::error::Result;
use crate::noise::Noise;
use crate::posterior::FactorPosterior;

/// When a step happens: a pure function of it names every random number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// Optimiser steps made so far.
    pub step: u64,
    /// Gradients taken since the last of them, when several are accumulated.
    pub pass: u64,
}

impl Tick {
    /// The noise of all draws at this time, from the root of an algorithm's random numbers.
    pub(crate) fn noise(self, root: Noise) -> Noise {
        let training = root.fold(purpose::TRAINING);
        training.fold(self.step).fold(self.pass)
    }
}

/// The noise of each of `count` draws; every second one that of the draw before, negated, if they are
/// `antithetic`.
pub(crate) fn draw_noises(noise: Noise, count: usize, antithetic: bool) -> Vec<Noise> {
    let one = |index: u64| match antithetic {
        true if index % 2 == 1 => noise.row(index / 2).negated(),
        true => noise.row(index / 2),
        false => noise.row(index),
    };
    (0..count as u64).map(one).collect()
}

/// Evidence: the mean negative log-likelihood's gradient at draws that the algorithm proposes.
#[derive(Clone, Copy, Debug)]
pub enum MeanGradients {}

/// Evidence: the weights that an ordinary optimiser passes through.
#[derive(Clone, Copy, Debug)]
pub enum Iterates {}

/// An algorithm that estimates a posterior over weights.
///
/// # Laws
///
/// 1. **Pure**: what an algorithm returns depends on its parameters, its arguments and its seed
///    alone.
/// 2. **State is a module**: saved to a record and loaded into a fresh instance, it continues
///    bit for bit.
/// 3. **Finite**: from the default initialisation, a thousand steps on a well-posed problem leave
///    every number finite.
/// 4. **Scale**: doubling the number of training examples halves the divergence's share.
/// 5. **Shape**: the posterior has the layout's length and at most the configured rank.
pub trait Inference: Module + ModuleDisplay + Debug + 'static {
    /// What it learns from.
    type Evidence;

    /// Which weights it is about.
    fn layout(&self) -> &Arc<Layout>;

    /// The number of training examples, N.
    fn train_len(&self) -> usize;

    /// The root of its random numbers.
    fn noise(&self) -> Noise;

    /// The posterior after `step` optimiser steps.
    fn posterior(&self, step: u64) -> Result<FactorPosterior>;

    /// Makes its own step, if it has one in closed form, at the turn of the optimiser and with its
    /// learning rate: takes out of the gradients what it put there for that, and leaves the rest
    /// to the optimiser.
    ///
    /// # Errors
    ///
    /// What it put there is gone. A closed-form step is made of one evaluation: steps cannot be added
    /// up, as accumulation and training on several devices do with gradients.
    fn moved(self, gradients: &mut GradientsParams, learning_rate: f64) -> Result<Self> {
        let _ = (gradients, learning_rate);
        Ok(self)
    }
}

/// A place where the loss's gradient is wanted.
#[derive(Clone, Debug)]
pub struct Draw {
    /// The weights, `[D]`.
    pub weights: Tensor<1>,
    /// The noise they were made from.
    pub noise: Noise,
}

impl Draw {
    /// Every vector of weights with the noise it was made from.
    pub(crate) fn all(weights: Vec<Tensor<1>>, noises: Vec<Noise>) -> Vec<Self> {
        let draws = weights.into_iter().zip(noises);
        draws
            .map(|(weights, noise)| Self { weights, noise })
            .collect()
    }
}

/// Where an algorithm wants gradients.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// When.
    pub tick: Tick,
    /// Where.
    pub draws: Vec<Draw>,
    /// What the pass that draws finds out about the factors too, K×K: F ψ⁻¹ Fᵀ in covariance form,
    /// U Uᵀ in precision form.
    pub gram: Vec<f64>,
}

/// The gradient of the mean negative log-likelihood at each proposed draw, one flat piece per
/// parameter of the layout.
pub type GradientPieces = Vec<Vec<Tensor<1>>>;

/// An algorithm that turns gradients at draws into gradients of its own parameters.
pub trait FromGradients: Inference<Evidence = MeanGradients> {
    /// The draws at which gradients are wanted now; never none.
    fn propose(&self, tick: Tick) -> Result<Proposal>;

    /// Gradients under the ids of the algorithm's own parameters, for an optimiser that minimises.
    ///
    /// `rows` is the number of examples in the batch over which the negative log-likelihood is
    /// averaged: how much a mean gradient varies depends on it, and the last batch of an epoch may
    /// have fewer.
    fn gradients(
        &self,
        proposal: Proposal,
        pieces: GradientPieces,
        rows: usize,
    ) -> Result<GradientsParams>;

    /// Called after optimiser step number `step` (from 1).
    #[must_use]
    fn stepped(self, step: u64) -> Self {
        let _ = step;
        self
    }
}

/// An algorithm that learns from the gradient of every example's loss at draws.
///
/// # Laws
///
/// The order of the examples does not matter, and neither does how their gradients are held.
pub trait FromExamples: Inference<Evidence = ExampleGradients> {
    /// The draws at which gradients are wanted now; never none.
    fn propose(&self, tick: Tick) -> Result<Proposal>;

    /// From the gradients of the examples' negative log-likelihoods, what [`moved`](Inference::moved) or
    /// an optimiser that minimises takes.
    ///
    /// `evidence` has as many gradients for each draw of the proposal: those at the first draw, then those
    /// at the second, and so on.
    fn gradients(&self, proposal: Proposal, evidence: ExampleGradients) -> Result<GradientsParams>;
}

/// An algorithm that watches the weights of an ordinary training.
pub trait FromIterates: Inference<Evidence = Iterates> {
    /// Whether it wants the weights after optimiser step number `step` (from 1).
    fn wants(&self, step: u64) -> bool;

    /// Takes in the weights, `[D]`, after a step it wanted.
    #[must_use]
    fn observe(self, step: u64, weights: Tensor<1>) -> Self;
}

/// Streams of random numbers, by purpose.
pub(crate) mod purpose {
    pub(crate) const INITIAL_FACTORS: u64 = 1;
    pub(crate) const TRAINING: u64 = 2;
    pub(crate) const PROBE: u64 = 3;
}
