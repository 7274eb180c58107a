//! Algorithms: modules whose parameters describe a posterior, each with a rule that learns
//! them from one kind of signal.
//!
//! The training loop gathers the signal. An algorithm never calls backward and never sees data.
//! The kind of signal is a type, and it selects the trait that an algorithm implements besides
//! [`Algorithm`]:
//!
//! | signal | trait | what the loop does |
//! |---|---|---|
//! | [`MeanGradients`] | [`FromGradients`] | evaluates the gradient of the mean loss at the proposed draws |
//! | [`ExampleGradients`] | [`FromExamples`] | evaluates the gradient of every example's loss there |
//! | [`Iterates`] | [`FromIterates`] | trains the model as usual, and passes on the weights after each step |
//!
//! The answer to gradients is an [`Update`]: gradients for the user's optimiser, a closed-form update
//! that only waits for the learning rate, or gradients whose sum over the mini-batches and devices of a step the
//! algorithm itself [makes a closed-form update from](Algorithm::update_from_sum).

use std::fmt::Debug;
use std::sync::Arc;

use burn::module::{Module, ModuleDisplay, ParamGroup, RunningState};
use burn::optim::{GradAdaptor, GradientsParams};
use burn::tensor::Tensor;
use burn_bayes_graph::{ExampleGradients, Layout};

use super::draw_statistics::DrawStatistics;
use super::function_terms::FunctionTerms;
use super::settings::BayesianConfig;
use crate::error::{Error, Result};
use crate::kernels::CovarianceParts;
use crate::noise::Noise;
use crate::posterior::Posterior;
use crate::prior::Prior;

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

/// Signal: the gradient of the mean negative log-likelihood at draws that the algorithm proposes.
#[derive(Clone, Copy, Debug)]
pub enum MeanGradients {}

/// Signal: the weights that an ordinary optimiser passes through.
#[derive(Clone, Copy, Debug)]
pub enum Iterates {}

/// What every algorithm is set up with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The weights that are random.
    pub layout: Arc<Layout>,
    /// N, the number of training examples.
    pub train_len: usize,
    /// λ, the effective sample size: the weight of the mean negative log-likelihood against the divergence from the
    /// prior. N, unless an algorithm has set another one.
    pub ess: f64,
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
    /// than examples these outweigh the likelihood, and the optimum is the prior, whose predictions are useless.
    #[must_use]
    pub fn with_ess(self, ess: Option<f64>) -> Self {
        let most = self.train_len.max(self.layout.len());
        Self {
            ess: ess.unwrap_or(most as f64),
            ..self
        }
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

    /// The last iterate of the mean; `None` for an algorithm that observes iterates.
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

/// The answer of an algorithm to gradients.
#[derive(Debug)]
pub enum Update<C> {
    /// Gradients under the ids of the algorithm's own parameters, which accumulators and replicas add up: for an
    /// optimiser that minimises, or for [`Algorithm::update_from_sum`].
    Gradients(GradientsParams),
    /// An update that [`Algorithm::apply_step`] applies once the learning rate is known. It is computed
    /// from one evaluation, so it cannot be accumulated or averaged over devices as gradients can.
    ClosedForm(C),
    /// The update would not be finite. The step is skipped; after several in a row the training stops
    /// with this error.
    Rejected(Error),
}

/// Weights at which the gradient of the loss is wanted.
#[derive(Clone, Debug)]
pub struct Draw {
    /// The weights, `[D]`.
    pub weights: Tensor<1>,
    /// The noise they were made from.
    pub noise: Noise,
}

impl Draw {
    /// Every vector of weights with the noise it was made from.
    pub fn all(weights: Vec<Tensor<1>>, noises: Vec<Noise>) -> Vec<Self> {
        let draws = weights.into_iter().zip(noises);
        draws
            .map(|(weights, noise)| Self { weights, noise })
            .collect()
    }
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

/// The draws at which an algorithm wants gradients.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The gradient that this is for.
    pub id: StepId,
    /// At least one draw.
    pub draws: Vec<Draw>,
    /// The Gram matrix of the factors, K×K, which the pass that draws computes as well: F ψ⁻¹ Fᵀ in
    /// covariance form, U Uᵀ in precision form.
    pub gram: Vec<f64>,
    /// The Gaussian of the draws, if the algorithm accepts a gradient by its covariance.
    #[doc(hidden)]
    pub gaussian: Option<CovarianceParts>,
    /// The terms of a prior over functions at these draws.
    pub(crate) function: Option<FunctionTerms>,
    /// The rows whose outer products are the curvature of the loss, if they are not the gradients of the examples.
    pub(crate) curvature: Option<ExampleGradients>,
    /// The running statistics of every draw, if they are not those of the model.
    pub(crate) statistics: Option<DrawStatistics>,
}

impl Proposal {
    /// A proposal of at least one draw.
    pub fn new(id: StepId, draws: Vec<Draw>) -> Self {
        Self {
            id,
            draws,
            gram: Vec::new(),
            gaussian: None,
            function: None,
            curvature: None,
            statistics: None,
        }
    }

    /// The proposal with the running statistics of every draw, if the model has such statistics.
    #[must_use]
    pub fn with_statistics(
        self,
        layout: Option<Arc<Layout>>,
        values: Vec<RunningState<Tensor<1>>>,
    ) -> Self {
        let statistics = layout.map(|layout| DrawStatistics::new(layout, values));
        Self { statistics, ..self }
    }

    /// The proposal with this Gram matrix of the factors.
    #[must_use]
    pub fn with_gram(self, gram: Vec<f64>) -> Self {
        Self { gram, ..self }
    }

    /// The proposal with the terms of a prior over functions.
    #[must_use]
    pub fn with_function_terms(self, terms: FunctionTerms) -> Self {
        Self {
            function: Some(terms),
            ..self
        }
    }

    #[doc(hidden)]
    #[must_use]
    pub fn with_gaussian(self, gaussian: CovarianceParts) -> Self {
        Self {
            gaussian: Some(gaussian),
            ..self
        }
    }
}

/// The gradient of the mean negative log-likelihood at each proposed draw, in pieces that are in layout order one after
/// the other.
pub type GradientPieces = Vec<Vec<Tensor<1>>>;

/// Every gradient as one vector.
pub fn joined(gradients: GradientPieces) -> Vec<Tensor<1>> {
    gradients.into_iter().map(whole).collect()
}

/// A gradient in pieces as one vector.
pub(crate) fn whole(mut pieces: Vec<Tensor<1>>) -> Tensor<1> {
    match pieces.len() {
        1 => pieces.swap_remove(0),
        _ => Tensor::cat(pieces, 0),
    }
}

/// An algorithm that learns from mean gradients at draws.
pub trait FromGradients: Algorithm<Signal = MeanGradients> {
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

/// Streams of random numbers, by purpose.
pub mod purpose {
    /// Initial values of factors.
    pub const INITIAL_FACTORS: u64 = 1;
    /// Draws of training steps.
    pub const TRAINING: u64 = 2;
    /// Probes of curvature.
    pub const PROBE: u64 = 3;
}
