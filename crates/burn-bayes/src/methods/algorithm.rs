//! Algorithms: modules whose parameters describe a posterior, each with a rule that learns
//! them from one kind of signal.
//!
//! The training loop gathers the signal. An algorithm never calls backward and never sees data.
//! The kind of signal is a type, and it selects the trait that an algorithm implements besides
//! [`Algorithm`]:
//!
//! | signal | trait | what the loop does |
//! |---|---|---|
//! | [`GradientPieces`] | [`FromGradients`] | evaluates the gradient of the mean loss at the proposed draws |
//! | [`ExampleGradients`] | [`FromExamples`] | evaluates the gradient of every example's loss there |
//! | [`Iterates`] | [`FromIterates`] | trains the model as usual, and passes on the weights after each step |
//!
//! The answer to gradients is an [`Update`]: gradients for the user's optimiser, a closed-form update
//! that only waits for the learning rate, or gradients whose sum over the mini-batches and devices of a step the
//! algorithm itself [makes a closed-form update from](Algorithm::update_from_sum).

use std::fmt::Debug;
use std::sync::Arc;

use burn::module::{Module, ModuleDisplay};
use burn::optim::GradAdaptor;
use burn::tensor::Tensor;
use burn_bayes_graph::{ExampleGradients, Layout};

use super::proposal::{GradientPieces, Proposal, Update};
use super::setup::{Setup, StepId};
use crate::error::{Error, Result};
use crate::posterior::Posterior;
use crate::prior::Prior;

/// Signal: the weights that an ordinary optimiser passes through.
#[derive(Clone, Copy, Debug)]
pub enum Iterates {}

/// An algorithm that estimates a posterior over weights.
///
/// # Laws
///
/// 1. **Pure**: what an algorithm returns depends only on its parameters, its arguments and its seed.
/// 2. **State is a module**: saved to a record and loaded into a fresh instance, it continues
///    bit for bit.
/// 3. **Finite**: from the default initialisation, a thousand steps on a well-posed problem leave
///    every number finite.
/// 4. **Scale**: doubling the number of training examples halves the divergence's share.
/// 5. **Shape**: the posterior has the layout's length and at most the configured rank.
pub trait Algorithm: Module + ModuleDisplay + Debug + 'static {
    /// What it learns from.
    type Signal;

    /// What it estimates.
    type Posterior: Posterior;

    /// Its closed-form update; [`Infallible`](std::convert::Infallible) if an optimiser moves all its
    /// parameters.
    type ClosedForm: Debug + Send + Sync + 'static;

    /// What it was set up with.
    fn setup(&self) -> &Setup;

    /// The posterior after `step` optimiser steps.
    fn posterior(&self, step: u64) -> Result<Self::Posterior>;

    /// The stage of the training.
    fn stage(&self) -> Stage {
        Stage::Single
    }

    /// The algorithm in a training of this number of steps.
    #[must_use]
    fn with_length(self, steps: u64) -> Self {
        let _ = steps;
        self
    }

    /// The algorithm for a model in which the scale of the parameters at these paths changes no loss, as before batch norm.
    #[must_use]
    fn with_scale_free(self, paths: &[String]) -> Self {
        let _ = paths;
        self
    }

    /// Takes in the number of examples of a step.
    #[must_use]
    fn with_examples(self, examples: u64) -> Self {
        let _ = examples;
        self
    }

    /// The algorithm with this effective sample size, where it has one that is not N.
    #[must_use]
    fn with_ess(self, ess: f64) -> Self {
        let _ = ess;
        self
    }

    /// Whether a training step evaluates draws of the weights, which perturb them as dropout would. If not, it is an ordinary
    /// step, with the model's dropout.
    fn perturbs_weights(&self) -> bool {
        true
    }

    /// Whether step number `step` (from 1) uses the running statistics of batch norm as they are, so that they belong to
    /// all weights of the posterior. By default, every step after the first of several stages.
    fn freezes_statistics(&self, step: u64) -> bool {
        let _ = step;
        matches!(self.stage(), Stage::Scale | Stage::Posterior)
    }

    /// The parameters and running statistics outside the layout whose values it keeps after optimiser step number `step`
    /// (from 1), as part of a sample.
    fn wants_state(&self, step: u64) -> Option<&Arc<Layout>> {
        let _ = step;
        None
    }

    /// Takes in the [state](Self::wants_state), a vector in its layout.
    #[must_use]
    fn observe_state(self, step: u64, state: Tensor<1>) -> Self {
        let _ = (step, state);
        self
    }

    /// The last iterate of the mean, or of the first member of an ensemble; `None` for an algorithm that observes iterates.
    fn last_mean(&self) -> Option<Tensor<1>> {
        None
    }

    /// The algorithm with another prior from the next step on.
    ///
    /// # Errors
    ///
    /// If the algorithm has no prior, because the gradients contain it, or the prior does not fit the layout.
    fn with_prior(self, prior: &Prior) -> Result<Self> {
        let _ = prior;
        let problem = "belongs to the gradients that this algorithm observes, as weight decay";
        Err(Error::config("prior", problem))
    }

    /// What it uses of a prior over functions.
    fn function_prior_use(&self) -> FunctionPriorUse {
        FunctionPriorUse::Nothing
    }

    /// The closed-form update of optimiser step number `step` (from 1) from the gradients that the algorithm returned
    /// under the ids of its own parameters, summed over the mini-batches and devices of the step. It removes them
    /// from `gradients`. `None`, the default, leaves all of them to the optimiser.
    ///
    /// # Errors
    ///
    /// A numerical error rejects the step, as [`Update::Rejected`] does.
    fn update_from_sum(
        &self,
        step: u64,
        gradients: &mut GradAdaptor,
    ) -> Result<Option<Self::ClosedForm>> {
        let _ = (step, gradients);
        Ok(None)
    }

    /// Applies a closed-form update with the optimiser's learning rate.
    #[must_use]
    fn apply_step(self, update: Self::ClosedForm, learning_rate: f64) -> Self;
}

/// The stage of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The first of several: the mean learns alone, and there is no posterior yet.
    Mean,
    /// The second: the scale of the covariance is found.
    Scale,
    /// The last of several: the whole posterior learns.
    Posterior,
    /// There is only one.
    Single,
}

/// What an algorithm uses of a prior over functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FunctionPriorUse {
    /// It does not support such priors.
    Nothing,
    /// The gradient at every draw, which is added to that of the loss, or the gradient of a divergence between
    /// Gaussians.
    Gradient,
    /// The gradient and the Gauss–Newton curvature.
    Curvature,
}

/// An algorithm that learns from mean gradients at draws.
pub trait FromGradients: Algorithm<Signal = GradientPieces> {
    /// The draws at which gradients are wanted.
    fn propose(&self, id: StepId) -> Result<Proposal>;

    /// The update from the gradients at the proposed draws.
    ///
    /// `batch_size` is the number of examples over which the negative log-likelihood is averaged. The
    /// variance of a mean gradient depends on it, and the last batch of an epoch may be smaller.
    fn step(
        &self,
        proposal: Proposal,
        gradients: GradientPieces,
        batch_size: usize,
    ) -> Result<Update<Self::ClosedForm>>;

    /// Called after optimiser step number `step` (from 1); updates stages and averages. If you train without
    /// [`Bayesian`](crate::Bayesian), call this after every step.
    #[must_use]
    fn after_step(self, step: u64) -> Self {
        let _ = step;
        self
    }
}

/// An algorithm that learns from the gradient of every example's loss at draws.
///
/// # Laws
///
/// The order of the examples does not matter, and neither does how their gradients are held.
pub trait FromExamples: Algorithm<Signal = ExampleGradients> {
    /// The draws at which gradients are wanted.
    fn propose(&self, id: StepId) -> Result<Proposal>;

    /// The update of a stage that needs no gradients of single examples, from the gradients of the mean negative
    /// log-likelihood at the proposed draws; `None` in the [last](Stage::Posterior) stage.
    fn stage_step(
        &self,
        proposal: &Proposal,
        gradients: GradientPieces,
        batch_size: usize,
    ) -> Option<Result<Update<Self::ClosedForm>>> {
        let _ = (proposal, gradients, batch_size);
        None
    }

    /// The update from the gradients of the examples' negative log-likelihoods.
    ///
    /// `gradients` has equally many for each draw of the proposal: those at the first draw, then those
    /// at the second, and so on.
    fn step(
        &self,
        proposal: Proposal,
        gradients: ExampleGradients,
    ) -> Result<Update<Self::ClosedForm>>;
}

/// An algorithm that can use the Gauss–Newton matrix as the curvature of the loss.
pub trait FromCurvature: Algorithm {}

/// An algorithm that observes the weights of an ordinary training.
pub trait FromIterates: Algorithm<Signal = Iterates> {
    /// Whether it wants the weights after optimiser step number `step` (from 1).
    fn wants(&self, step: u64) -> bool;

    /// Takes in the weights, `[D]`, after a step for which it wanted them.
    #[must_use]
    fn observe(self, step: u64, weights: Tensor<1>) -> Self;
}
