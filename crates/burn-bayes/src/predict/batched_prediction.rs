//! Predictions at many draws in one pass, for models that can be recorded.

use std::fmt;
use std::sync::{Arc, OnceLock};

use burn::module::Module;
use burn::tensor::Tensor;
use burn::train::InferenceStep;
use burn_bayes_graph::{CapturedForward, ExampleBatch, Layout};

use crate::error::Result;
use crate::likelihood::{MixDraws, MixStacked};

/// A model's recorded prediction. The closure hides how outputs are stacked, so that other code
/// needs no bound for it.
pub(crate) struct BatchedPrediction<M: InferenceStep<Output: MixDraws>>(Box<Predict<M>>);

type Mixture<M> = <<M as InferenceStep>::Output as MixDraws>::Mixture;

type Predict<M> = dyn Fn(
        &M,
        &dyn Fn() -> Result<Tensor<2>>,
        &<M as InferenceStep>::Input,
        bool,
    ) -> Result<Option<Mixture<M>>>
    + Send
    + Sync;

impl<M: InferenceStep<Output: MixDraws>> fmt::Debug for BatchedPrediction<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BatchedPrediction").finish_non_exhaustive()
    }
}

impl<M> BatchedPrediction<M>
where
    M: Module + InferenceStep<Input: ExampleBatch, Output: MixStacked> + 'static,
{
    pub(crate) fn new(layout: Arc<Layout>) -> Self {
        // Created at the first prediction, when all settings are known.
        let forward = OnceLock::new();
        Self(Box::new(move |model, draws, item, is_checked| {
            let forward = forward.get_or_init(|| {
                let values = |model: &M, batch| InferenceStep::step(model, batch).stacked_values();
                let forward = CapturedForward::new(layout.clone(), values);
                match is_checked {
                    true => forward,
                    false => forward.without_self_check(),
                }
            });
            if !forward.is_faster(model, item)? {
                return Ok(None);
            }
            let draws = draws()?;
            let first = draws.clone().narrow(0, 0, 1).reshape([layout.len()]);
            let first = layout.write(model.clone(), first)?;
            let one = InferenceStep::step(&first, item.clone());
            let numbers = forward.outputs(model, draws, item)?;
            Ok(Some(MixStacked::mix_stacked(one, numbers)))
        }))
    }
}

impl<M: InferenceStep<Output: MixDraws>> BatchedPrediction<M> {
    /// The average over `draws`; `None`, without making draws, if one pass per draw is faster or
    /// the only possibility.
    pub(crate) fn mixture(
        &self,
        model: &M,
        draws: &dyn Fn() -> Result<Tensor<2>>,
        item: &<M as InferenceStep>::Input,
        is_checked: bool,
    ) -> Result<Option<Mixture<M>>> {
        (self.0)(model, draws, item, is_checked)
    }
}
