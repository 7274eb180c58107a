//! A model whose steps need no evaluation of the model's own between two epochs.

use std::cell::Cell;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn::train::TrainStep;
use burn_bayes_graph::{Layout, Template};

use super::batched_training::{BatchedTraining, Evaluated, first};
use super::draws::{at, stacked};
use super::self_check::SelfCheck;
use crate::error::Result;
use crate::predict::training_flags;

/// A model that only its optimiser changes, and the running statistics of its batch norm.
pub(super) struct StepTemplate<M: Module + 'static> {
    template: Template<'static, M>,
    has_batch_norm: bool,
    /// Whether layers keep back no update of their running statistics, as they do after a step of the model's own.
    is_settled: Cell<bool>,
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

    /// The gradients at the model's own weights, for its optimiser, and what they are computed from, without the pieces.
    pub(super) fn own_gradients(
        &self,
        batched: &BatchedTraining<M>,
        model: &M,
        item: &M::Input,
        check: (&SelfCheck, bool),
    ) -> Result<Option<(GradientsParams, Evaluated<M::Output>)>> {
        let layout = batched.layout();
        let draws = stacked(&[at(layout, model)?]);
        let Some(mut evaluated) = self.gradients(batched, model, draws, item, check)? else {
            return Ok(None);
        };
        let pieces = std::mem::take(&mut evaluated.found.pieces);
        let gradients = layout.gradients(model, first(pieces)?);
        Ok(Some((gradients, evaluated)))
    }
}
