//! What a method is besides its mean, so that [`Staged`](super::Staged) can train it: its settings, its state, the draws that
//! it proposes, and the update that it makes of their gradients.

use std::fmt::Debug;
use std::sync::Arc;

use burn::module::{Module, ModuleDisplay, Param};
use burn::optim::GradAdaptor;
use burn::tensor::{Device, Tensor};
use burn_bayes_graph::Layout;

use super::algorithm::{FunctionPriorUse, Stage};
use super::average::Iterate;
use super::method_config::LearningRates;
use super::proposal::{GradientPieces, Proposal, Update, joined};
use super::setup::{Setup, StepId};
use super::stages::StageSignal;
use crate::error::Result;
use crate::memory::{MemoryPlan, OptimizerMemory};
use crate::noise::Noise;
use crate::posterior::Posterior;
use crate::prior::PriorPrecisions;

/// From what a method makes its update in the last stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learns {
    /// From one evaluation, in closed form: mini-batches cannot be accumulated.
    AtOnce,
    /// In closed form from sums over the mini-batches and devices of a step.
    FromSums,
    /// It returns gradients for the user's optimiser, which trains the mean in all stages.
    ByOptimizer,
}

/// The state of the training around a method's own.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// What the algorithm was set up with.
    pub setup: &'a Setup,
    /// λ/N α, or what of it counts in a step of the first stage.
    pub prior: &'a PriorPrecisions,
    /// The stage.
    pub stage: Stage,
    /// The step after which the last stage began, or 0.
    pub since: u64,
    /// The number of steps of the whole training, if it is known.
    pub length: Option<u64>,
}

/// What a state begins from.
#[derive(Debug)]
pub struct Start<'a, M> {
    /// The model that is wrapped.
    pub model: &'a M,
    /// What the algorithm was set up with.
    pub setup: &'a Setup,
    /// λ/N α.
    pub prior: &'a PriorPrecisions,
    /// The initial mean, `[D]`.
    pub mean: Tensor<1>,
    /// Whether there is a first stage.
    pub is_staged: bool,
}

/// The settings of a method whose training has stages.
pub trait StagedConfig: Clone + Debug + Send + Sync + 'static {
    /// What the method has besides the mean.
    type State: MethodState;

    /// The draws of a step in the last stage, unless they are set; several are antithetic pairs.
    const DRAWS: usize;

    /// See [`MethodConfig::learning_rates`](super::method_config::MethodConfig::learning_rates).
    fn learning_rates(&self) -> LearningRates {
        LearningRates::PLAIN
    }

    /// The shared settings that it uses, by name, of those that not all methods use.
    const USES: &'static [&'static str] = &[
        "ess",
        "prior",
        "draws",
        "antithetic",
        "initial_mean",
        "mean_stage",
        "mean_stage_rate",
        "averaging",
    ];

    /// Checks the settings. The error names the field.
    fn validate(&self) -> Result<()>;

    /// The state before the first step.
    fn start<M: Module>(&self, start: Start<'_, M>) -> Result<Self::State>;

    /// The memory needed to train `weights` weights with this number of draws, without that of the stages.
    fn memory(&self, weights: usize, draws: usize, optimizer: OptimizerMemory) -> MemoryPlan;

    /// Whether the start of the covariance is set, so that it is not searched for.
    fn has_start(&self) -> bool {
        false
    }

    /// The number of vectors in the average of iterates; 0 if the posterior is no average.
    fn averaged(&self) -> usize {
        1
    }

    /// The number of steps before the first that may be a sample, within which the first stages end.
    fn burn_in(&self) -> Option<u64> {
        None
    }
}

/// What a method has besides the mean, and how it learns.
pub trait MethodState: Module + ModuleDisplay + Debug + 'static {
    /// What it learns from.
    type Signal;
    /// What it estimates.
    type Posterior: Posterior;
    /// The update of the last stage.
    type Step: Debug + Send + Sync + 'static;

    /// From what it makes an update.
    const LEARNS: Learns;
    /// Whether a step evaluates draws of the weights, which perturb them as dropout would.
    const PERTURBS_WEIGHTS: bool = true;
    /// What it uses of a prior over functions.
    const FUNCTION_PRIOR: FunctionPriorUse = FunctionPriorUse::Nothing;

    /// The draws with these noises around the mean.
    fn propose(
        &self,
        context: Context<'_>,
        mean: Tensor<1>,
        id: StepId,
        noises: Vec<Noise>,
    ) -> Result<Proposal>;

    /// σ², the variances of the draws without what factors add.
    fn variance(&self, context: Context<'_>) -> Tensor<1>;

    /// What the second stage learns from gradients at the draws.
    fn scale_signal(
        &self,
        context: Context<'_>,
        mean: Tensor<1>,
        proposal: &Proposal,
        gradients: GradientPieces,
        examples: usize,
    ) -> Result<StageSignal> {
        let _ = examples;
        let variance = self.variance(context);
        StageSignal::scale(context, &mean, variance, proposal, &joined(gradients))
    }

    /// What the first stage learns from the gradient at the mean.
    fn mean_signal(
        &self,
        context: Context<'_>,
        mean: Tensor<1>,
        proposal: &Proposal,
        gradients: GradientPieces,
        examples: usize,
    ) -> Result<StageSignal> {
        let _ = (mean, examples);
        StageSignal::mean(context.setup, proposal, joined(gradients))
    }

    /// The fraction of a step's gradients that those of one mini-batch are, where an optimiser adds them.
    fn share(&self) -> f64 {
        1.0
    }

    /// The state with which the second stage begins: the precision of the weights, and N times the curvature of the mean
    /// negative log-likelihood that it contains.
    #[must_use]
    fn started(self, context: Context<'_>, precision: Tensor<1>, curvature: Tensor<1>) -> Self {
        let _ = (context, precision, curvature);
        self
    }

    /// The state with every variance multiplied by its factor.
    #[must_use]
    fn rescaled(self, context: Context<'_>, factors: Tensor<1>) -> Self;

    /// The update from the gradients at the draws of a proposal for `examples` examples.
    fn update(
        &self,
        context: Context<'_>,
        mean: &Param<Tensor<1>>,
        proposal: Proposal,
        gradients: Self::Signal,
        examples: usize,
    ) -> Result<Update<Self::Step>>;

    /// The update of step number `step` (from 1) from the sums of what [`update`](Self::update) registered, and the number
    /// of examples, `[1]`.
    fn update_from_sum(
        &self,
        context: Context<'_>,
        mean: &Param<Tensor<1>>,
        step: u64,
        sums: &mut GradAdaptor,
        examples: Tensor<1>,
    ) -> Result<Option<Self::Step>> {
        let _ = (context, mean, step, sums, examples);
        Ok(None)
    }

    /// Applies the update of step number `step` (from 1).
    #[must_use]
    fn apply_step(
        self,
        context: Context<'_>,
        mean: Param<Tensor<1>>,
        step: u64,
        update: Self::Step,
        learning_rate: f64,
    ) -> (Self, Param<Tensor<1>>);

    /// What is averaged.
    fn iterate(&self, mean: Tensor<1>) -> Iterate {
        Iterate::of_mean(mean)
    }

    /// The posterior after `step` steps, from their average if there is one, else from the last iterate.
    fn posterior(
        &self,
        context: Context<'_>,
        iterate: Iterate,
        step: u64,
    ) -> Result<Self::Posterior>;

    /// Called after step number `step` (from 1), also if it was rejected.
    #[must_use]
    fn after_step(self, context: Context<'_>, mean: &Param<Tensor<1>>, step: u64) -> Self {
        let _ = (context, mean, step);
        self
    }

    /// See [`Algorithm::wants_state`](super::algorithm::Algorithm::wants_state).
    fn wants_state(&self, context: Context<'_>, step: u64) -> Option<&Arc<Layout>> {
        let _ = (context, step);
        None
    }

    /// See [`Algorithm::observe_state`](super::algorithm::Algorithm::observe_state).
    #[must_use]
    fn observe_state(self, context: Context<'_>, step: u64, state: Tensor<1>) -> Self {
        let _ = (context, step, state);
        self
    }
}

/// Removes the gradient of a parameter, summed over the mini-batches and devices of a step.
pub fn take_sum<const R: usize>(
    gradients: &mut GradAdaptor,
    param: &Param<Tensor<R>>,
    device: &Device,
) -> Option<Tensor<R>> {
    let found = gradients.remove::<R>(param.id);
    found.map(|(sum, _)| sum.to_device(device))
}
