//! All draws of a step in one pass, for models that tell the loss of every example.

use std::fmt;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Tensor;
use burn::train::TrainStep;
use burn_bayes_core::Layout;
use burn_bayes_graph::{CapturedLoss, DrawGradients, ExampleBatch};
use burn_bayes_infer::{Draw, GradientPieces};

use crate::error::Result;
use crate::examples::ExampleLoss;
use crate::supply::Gathered;

/// A model's recorded loss, of which only the one who made it needs to know that there are losses of
/// single examples.
pub(crate) struct OnePass<M: TrainStep>(Box<Gather<M>>);

type Gather<M> = dyn Fn(
        &M,
        &[Draw],
        &<M as TrainStep>::Input,
    ) -> Result<Option<Gathered<GradientPieces, <M as TrainStep>::Output>>>
    + Send
    + Sync;

impl<M: TrainStep> fmt::Debug for OnePass<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnePass").finish_non_exhaustive()
    }
}

impl<M> OnePass<M>
where
    M: Module + ExampleLoss<Input: ExampleBatch> + 'static,
{
    pub(crate) fn new(layout: Arc<Layout>) -> Self {
        let captured = CapturedLoss::new(layout.clone(), |model: &M, batch| {
            model.example_losses(batch)
        });
        Self(Box::new(move |model, draws, item| {
            let weights = draws.iter().map(|draw| draw.weights.clone());
            let weights = Tensor::stack(weights.collect(), 0);
            let Some(gradients) = captured.gradients(model, weights, item)? else {
                return Ok(None);
            };
            let DrawGradients {
                losses,
                pieces,
                outside,
            } = gradients;
            let losses = losses.narrow(0, 0, 1).squeeze_dim(0);
            let first = layout.write_leaves(model.clone(), draws[0].weights.clone())?;
            Ok(Some(Gathered {
                evidence: pieces,
                outside,
                item: first.example_outputs(item.clone(), losses),
            }))
        }))
    }
}

impl<M: TrainStep> OnePass<M> {
    /// The gradients at all draws; `None` if only a pass for each draw has them.
    pub(crate) fn gathered(
        &self,
        model: &M,
        draws: &[Draw],
        item: &<M as TrainStep>::Input,
    ) -> Result<Option<Gathered<GradientPieces, <M as TrainStep>::Output>>> {
        (self.0)(model, draws, item)
    }
}
