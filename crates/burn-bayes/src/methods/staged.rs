//! A training in [stages](super::stages), around any method that learns a Gaussian or samples around a mean.
//!
//! A method is its state besides the mean, the draws that it proposes and the update that it makes of their gradients
//! ([`MethodState`]). [`Staged`] has the rest once for all of them: the mean, the stages, the average of iterates, the prior
//! and how gradients become an update.

mod config;
mod update;

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::optim::GradAdaptor;
use burn::tensor::Tensor;
use burn_bayes_graph::{ExampleGradients, Layout};

use super::algorithm::{Algorithm, FromExamples, FromGradients, FunctionPriorUse, Stage};
use super::average::Average;
use super::method_state::{Context, Learns, MethodState};
use super::proposal::{Draw, GradientPieces, Proposal, Update};
use super::setup::{Setup, StepId};
use super::stages::{StageEvent, StageUpdate, Stages};
use crate::error::Result;
use crate::prior::Prior;

/// A mean and a method's state around it, in a training with stages.
#[derive(Module, Debug)]
pub struct Staged<S: MethodState> {
    mean: Param<Tensor<1>>,
    state: S,
    stages: Stages,
    #[module(skip)]
    settings: Arc<Settings>,
}

#[derive(Clone, Debug)]
struct Settings {
    setup: Setup,
    /// The number of draws of a step, and whether they are antithetic pairs.
    draws: (usize, bool),
    /// Whether the covariance has a start that is not searched for.
    has_start: bool,
}

/// A closed-form update in any stage.
#[derive(Debug)]
pub enum StagedUpdate<U> {
    /// Of the first two stages.
    Stage(StageUpdate),
    /// Of step number `step` (from 1), in the last stage.
    Posterior {
        /// The number of the step.
        step: u64,
        /// The method's update.
        update: U,
    },
}

fn context<'a>(setup: &'a Setup, stages: &'a Stages) -> Context<'a> {
    Context {
        setup,
        prior: stages.prior(),
        stage: stages.stage(),
        since: stages.posterior_since(),
        length: stages.length(),
    }
}

impl<S: MethodState> Staged<S> {
    /// The method's state.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The state of the training around the method's own.
    pub fn context(&self) -> Context<'_> {
        context(&self.settings.setup, &self.stages)
    }

    fn mean(&self) -> Tensor<1> {
        self.mean.val().without_autodiff()
    }

    /// The state changed by a function of it and its context.
    fn with_state(self, change: impl FnOnce(S, Context<'_>) -> S) -> Self {
        let context = context(&self.settings.setup, &self.stages);
        let state = change(self.state, context);
        Self { state, ..self }
    }

    fn proposal(&self, id: StepId) -> Result<Proposal> {
        let Settings { setup, draws, .. } = self.settings.as_ref();
        let (stage, mean) = (self.stages.stage(), self.mean());
        if stage == Stage::Mean {
            let noise = id.noise(setup.noise);
            let weights = mean;
            return Ok(Proposal::new(id, vec![Draw { weights, noise }]));
        }
        let noises = self.stages.noises(setup, id, *draws);
        self.state.propose(self.context(), mean, id, noises)
    }
}

impl<S: MethodState> Algorithm for Staged<S> {
    type Signal = S::Signal;
    type Posterior = S::Posterior;
    type ClosedForm = StagedUpdate<S::Step>;

    fn setup(&self) -> &Setup {
        &self.settings.setup
    }

    fn posterior(&self, step: u64) -> Result<S::Posterior> {
        let context = self.context();
        let mut state = self.state.clone();
        if let Some((precision, curvature)) = self.stages.start_so_far(context.setup) {
            state = state.started(context, precision, curvature);
        }
        let average = self.stages.average().map(Average::iterate);
        let iterate = average.unwrap_or_else(|| state.iterate(self.mean()));
        state.posterior(context, iterate, step)
    }

    fn stage(&self) -> Stage {
        self.stages.stage()
    }

    fn with_length(self, steps: u64) -> Self {
        let stages = self.stages.with_length(steps);
        Self { stages, ..self }
    }

    fn with_scale_free(self, paths: &[String]) -> Self {
        let stages = self
            .stages
            .with_scale_free(&self.settings.setup.layout, paths);
        Self { stages, ..self }
    }

    fn with_examples(self, examples: u64) -> Self {
        let stages = self.stages.with_examples(examples);
        Self { stages, ..self }
    }

    fn with_ess(self, ess: f64) -> Self {
        let settings = self.settings.as_ref().clone();
        let factor = ess / settings.setup.ess;
        let settings = Settings {
            setup: settings.setup.with_ess(Some(ess)),
            ..settings
        };
        Self {
            settings: Arc::new(settings),
            stages: self.stages.with_prior_times(factor),
            ..self
        }
    }

    fn with_prior(self, prior: &Prior) -> Result<Self> {
        let stages = self.stages.with_prior(&self.settings.setup, prior)?;
        Ok(Self { stages, ..self })
    }

    fn perturbs_weights(&self) -> bool {
        S::PERTURBS_WEIGHTS
    }

    fn function_prior_use(&self) -> FunctionPriorUse {
        S::FUNCTION_PRIOR
    }

    fn last_mean(&self) -> Option<Tensor<1>> {
        Some(self.mean())
    }

    fn wants_state(&self, step: u64) -> Option<&Arc<Layout>> {
        self.state.wants_state(self.context(), step)
    }

    fn observe_state(self, step: u64, values: Tensor<1>) -> Self {
        self.with_state(|state, context| state.observe_state(context, step, values))
    }

    fn update_from_sum(
        &self,
        step: u64,
        gradients: &mut GradAdaptor,
    ) -> Result<Option<Self::ClosedForm>> {
        let (setup, stages, mean) = (&self.settings.setup, &self.stages, &self.mean);
        let staged = match S::LEARNS {
            Learns::AtOnce => return Ok(None),
            Learns::ByOptimizer => stages.update_from_average(setup, step, mean, gradients)?,
            Learns::FromSums => stages.update_from_sum(setup, step, mean, gradients)?,
        };
        if let Some(update) = staged {
            return Ok(Some(StagedUpdate::Stage(update)));
        }
        let device = mean.val().device().inner();
        let Some(examples) = stages.take_examples(gradients, &device) else {
            return Ok(None);
        };
        let context = self.context();
        let update = self
            .state
            .update_from_sum(context, mean, step, gradients, examples)?;
        Ok(update.map(|update| StagedUpdate::Posterior { step, update }))
    }

    fn apply_step(mut self, update: Self::ClosedForm, learning_rate: f64) -> Self {
        let settings = self.settings.clone();
        match update {
            StagedUpdate::Stage(update) => {
                let (stages, mean, event) = self.stages.apply(&settings.setup, update, self.mean);
                self.stages = stages;
                self.mean = mean;
                match event {
                    StageEvent::Start(curvature) if !settings.has_start => {
                        let precision = self.stages.start(&settings.setup, curvature.clone());
                        self.with_state(|state, context| {
                            state.started(context, precision, curvature)
                        })
                    }
                    StageEvent::Rescale(factors) => {
                        self.with_state(|state, context| state.rescaled(context, factors))
                    }
                    StageEvent::Start(_) | StageEvent::Nothing => self,
                }
            }
            StagedUpdate::Posterior { step, update } => {
                let context = context(&settings.setup, &self.stages);
                let (state, mean) =
                    self.state
                        .apply_step(context, self.mean, step, update, learning_rate);
                let iterate = || state.iterate(mean.val().without_autodiff());
                self.stages = self.stages.with_iterate(step, iterate);
                self.mean = mean;
                self.state = state;
                self
            }
        }
    }
}

impl<S: MethodState<Signal = GradientPieces>> FromGradients for Staged<S> {
    fn propose(&self, id: StepId) -> Result<Proposal> {
        self.proposal(id)
    }

    fn step(
        &self,
        proposal: Proposal,
        gradients: GradientPieces,
        batch_size: usize,
    ) -> Result<Update<Self::ClosedForm>> {
        match self.stages.is_learning_posterior() {
            true => self.posterior_update(proposal, gradients, batch_size),
            false => self.stage_update(&proposal, gradients, batch_size),
        }
    }

    fn after_step(mut self, step: u64) -> Self {
        if S::LEARNS == Learns::ByOptimizer {
            let mean = self.mean();
            let (stages, is_over) = self.stages.with_mean(step, &mean);
            self.stages = match is_over || step <= stages.posterior_since() {
                true => stages,
                false => stages.with_iterate(step, || self.state.iterate(mean)),
            };
        }
        let mean = self.mean.clone();
        self.with_state(|state, context| state.after_step(context, &mean, step))
    }
}

impl<S: MethodState<Signal = ExampleGradients>> FromExamples for Staged<S> {
    fn propose(&self, id: StepId) -> Result<Proposal> {
        self.proposal(id)
    }

    fn stage_step(
        &self,
        proposal: &Proposal,
        gradients: GradientPieces,
        batch_size: usize,
    ) -> Option<Result<Update<Self::ClosedForm>>> {
        let is_over = self.stages.is_learning_posterior();
        (!is_over).then(|| self.stage_update(proposal, gradients, batch_size))
    }

    fn step(
        &self,
        proposal: Proposal,
        gradients: ExampleGradients,
    ) -> Result<Update<Self::ClosedForm>> {
        let examples = gradients.count() / proposal.draws.len().max(1);
        self.posterior_update(proposal, gradients, examples)
    }
}
