//! A model whose steps need no evaluation of the model's own between two epochs.

use std::cell::Cell;

use burn::module::{Module, ModuleDisplay};
use burn::tensor::Tensor;
use burn::train::TrainStep;
use burn_bayes_graph::{DrawGradients, Layout, Template};

use super::batched_training::BatchedTraining;
use super::bayesian::Bayesian;
use super::self_check::SelfCheck;
use crate::error::Result;
use crate::methods::Algorithm;
use crate::predict::training_flags;

/// A model that only its optimiser changes, and the running statistics of its batch norm.
pub(super) struct StepTemplate<M: Module + 'static> {
    template: Template<'static, M>,
    has_batch_norm: bool,
    /// Whether layers keep back no update of their running statistics, as they do after a step of the model's own.
    is_settled: Cell<bool>,
}

/// What a step computes, and the output of the model's own step at the first draw, if a check needed it.
pub(super) struct Evaluated<O> {
    pub(super) found: DrawGradients,
    pub(super) own: Option<O>,
}

impl<M: Module + 'static> StepTemplate<M> {
    /// `None` for a model with a layer other than batch norm that behaves differently in training and inference.
    pub(super) fn new(model: &M, layout: &Layout) -> Option<Self> {
        let flags = training_flags(model);
        let on = || flags.iter().filter(|flag| flag.is_on);
        if !on().all(|flag| flag.is_batch_norm()) {
            return None;
        }
        let template = Template::new(model, layout);
        // A mean and a variance for each layer of Burn's.
        let is_known = template.trained_statistics() == 2 * on().count();
        is_known.then(|| Self {
            template: template.into_owned(),
            has_batch_norm: on().next().is_some(),
            is_settled: Cell::new(false),
        })
    }

    /// The model and its tensors.
    pub(super) fn template(&self) -> &Template<'static, M> {
        &self.template
    }

    /// Whether batch norm is in training mode.
    pub(super) fn has_batch_norm(&self) -> bool {
        self.has_batch_norm
    }

    /// Says that the next step is the model's own.
    pub(super) fn own_step(&self) {
        self.is_settled.set(false);
    }
}

impl<M: Module + TrainStep<Input: Clone> + 'static> StepTemplate<M> {
    /// The losses and gradients at all draws, and the effect of a step of the model's own on its running statistics. `None`
    /// if the model's own step is needed. `needs_output` says whether a check needs the output of that step.
    pub(super) fn gradients(
        &self,
        batched: &BatchedTraining<M>,
        model: &M,
        draws: Tensor<2>,
        item: &M::Input,
        (check, needs_output): (&SelfCheck, bool),
    ) -> Result<Option<Evaluated<M::Output>>> {
        if !self.has_batch_norm {
            let found = batched.gradients(&self.template, draws, item, check)?;
            return Ok(found.map(|found| Evaluated { found, own: None }));
        }
        if !self.is_settled.replace(true) {
            // Applies the updates that layers keep back.
            drop(model.valid());
        }
        let check = (check, needs_output);
        let found = batched.training_gradients(&self.template, model, draws, item, check)?;
        if found.is_none() {
            self.own_step();
        }
        Ok(found)
    }
}

impl<M, A> Bayesian<M, A>
where
    M: Module + ModuleDisplay + 'static,
    A: Algorithm,
{
    /// Whether the next step must be the model's own: for a check, or because the template is not as the step evaluates the
    /// model.
    pub(super) fn needs_own_step(&self, steps: &StepTemplate<M>) -> bool {
        let is_due = match steps.has_batch_norm() {
            true => false,
            false => self.self_check().is_step_due(),
        };
        let is_needed = is_due || steps.has_batch_norm() != self.moves_statistics();
        if is_needed {
            steps.own_step();
        }
        is_needed
    }

    /// Checks the model, and whether the loss is that of the likelihood, as the model's own step does.
    pub(super) fn check_own<O: 'static>(&self, own: Option<&O>) -> Result<()>
    where
        M: TrainStep,
    {
        let check = self.self_check();
        if let Some(own) = own.filter(|_| check.is_likelihood_due()) {
            check.optimize(self.template())?;
            check.likelihood_of(own);
        }
        Ok(())
    }
}
