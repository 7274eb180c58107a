//! Evaluates all draws of a step in one pass, for models that return the loss of every example.

use std::fmt;
use std::sync::{Arc, Once, OnceLock};

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn::train::TrainStep;
use burn_bayes_graph::{CapturedLoss, DrawGradients, ExampleBatch, Layout};

use super::draws::{Gathered, one_by_one};
use super::example_loss::ExampleLoss;
use super::self_check::SelfCheck;
use crate::error::Result;
use crate::methods::{Draw, GradientPieces};
use crate::predict::training_flags;
use crate::train::own_loss;

/// A model's recorded loss. The closure hides the bound on [`ExampleLoss`], so that other code does
/// not need it.
pub(crate) struct BatchedTraining<M: TrainStep> {
    gather: Box<Gather<M>>,
    refused: Once,
}

type Gather<M> = dyn Fn(
        &M,
        &[Draw],
        &<M as TrainStep>::Input,
        &SelfCheck,
    ) -> Result<Option<Gathered<GradientPieces, <M as TrainStep>::Output>>>
    + Send
    + Sync;

impl<M: TrainStep> fmt::Debug for BatchedTraining<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchedTraining").finish_non_exhaustive()
    }
}

impl<M> BatchedTraining<M>
where
    M: Module + ExampleLoss<Input: ExampleBatch> + 'static,
{
    pub(crate) fn new(layout: Arc<Layout>) -> Self {
        // Created at the first step, when all settings are known.
        let captured = OnceLock::new();
        let gather = move |model: &M, draws: &[Draw], item: &M::Input, check: &SelfCheck| {
            let captured = captured.get_or_init(|| {
                let losses = |model: &M, batch| model.example_losses(batch);
                let captured = CapturedLoss::new(layout.clone(), losses);
                match check.is_on() {
                    true => captured,
                    false => captured.without_self_check(),
                }
            });
            let weights = draws.iter().map(|draw| draw.weights.clone());
            let weights = Tensor::stack(weights.collect(), 0);
            let Some(gradients) = captured.gradients(model, weights, item)? else {
                return Ok(None);
            };
            if check.is_loss_due() {
                compared(&layout, model, draws, item, &gradients)?;
            }
            check.gathered();
            let DrawGradients {
                losses,
                pieces,
                outside,
            } = gradients;
            let losses = losses.narrow(0, 0, 1).squeeze_dim(0);
            let first = layout.write_leaves(model.clone(), draws[0].weights.clone())?;
            Ok(Some(Gathered {
                signal: pieces,
                outside,
                item: first.example_outputs(item.clone(), losses),
            }))
        };
        Self {
            gather: Box::new(gather),
            refused: Once::new(),
        }
    }
}

/// Compares the gradients at the first draw, and those outside the layout, with the model's own
/// step.
fn compared<M: Module + TrainStep<Input: Clone>>(
    layout: &Layout,
    model: &M,
    draws: &[Draw],
    item: &M::Input,
    found: &DrawGradients,
) -> Result<()> {
    let parts = |pieces: &[Vec<Tensor<1>>], outside: &GradientsParams| {
        let mut parts = own_loss::inside(layout, pieces[0].iter().cloned());
        parts.extend(own_loss::outside(model, outside));
        parts
    };
    let own = || -> Result<_> {
        let own = one_by_one(layout, model, draws, item, |_, pieces| Ok(pieces))?;
        Ok(parts(&own.signal, &own.outside))
    };
    own_loss::compare(parts(&found.pieces, &found.outside), &own()?, own)
}

impl<M: Module + TrainStep> BatchedTraining<M> {
    /// The gradients at all draws; `None` if they need one pass per draw.
    pub(crate) fn gathered(
        &self,
        model: &M,
        draws: &[Draw],
        item: &<M as TrainStep>::Input,
        check: &SelfCheck,
    ) -> Result<Option<Gathered<GradientPieces, <M as TrainStep>::Output>>> {
        if let Some(layer) = training_flags(model).iter().find(|flag| flag.is_on) {
            self.refused.call_once(|| {
                let cure = layer.cure();
                log::warn!(
                    "draws are evaluated one by one: {layer} behaves differently in training and \
                     inference, and recordings are made in inference mode; for batched draws, \
                     {cure}"
                );
            });
            return Ok(None);
        }
        (self.gather)(model, draws, item, check)
    }
}
