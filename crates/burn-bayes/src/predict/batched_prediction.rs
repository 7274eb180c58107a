//! Predictions at many draws in one pass, for models that can be recorded.

use std::fmt;
use std::ops::Range;
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

type Predict<M> = dyn Fn(&M, &Draws<'_>, &<M as InferenceStep>::Input, bool) -> Result<Option<Mixture<M>>>
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
            let Some(numbers) = outputs(forward, model, item, draws)? else {
                return Ok(None);
            };
            let first = draws.of(0..1)?.reshape([layout.len()]);
            let first = layout.write(model.clone(), first)?;
            let one = InferenceStep::step(&first, item.clone());
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
        draws: &Draws<'_>,
        item: &<M as InferenceStep>::Input,
        is_checked: bool,
    ) -> Result<Option<Mixture<M>>> {
        (self.0)(model, draws, item, is_checked)
    }
}

/// Draws of the weights, which are made when they are needed.
pub(crate) struct Draws<'a> {
    pub(super) count: usize,
    /// The draws of these numbers, `[draws, D]`.
    pub(super) make: &'a dyn Fn(Range<usize>) -> Result<Tensor<2>>,
}

impl Draws<'_> {
    fn of(&self, numbers: Range<usize>) -> Result<Tensor<2>> {
        (self.make)(numbers)
    }
}

/// The outputs at all draws, `[draws, rows, outputs]`; `None`, without making draws, if one pass per draw is faster or the
/// only possibility.
pub(super) fn outputs<M: Module, B: ExampleBatch>(
    forward: &CapturedForward<M, B>,
    model: &M,
    batch: &B,
    draws: &Draws<'_>,
) -> Result<Option<Tensor<3>>> {
    /// The most weights in memory at once.
    const WEIGHTS: usize = 1 << 26;
    if !forward.is_faster(model, batch)? {
        return Ok(None);
    }
    let at_once = (WEIGHTS / forward.layout().len().max(1)).max(1);
    let parts = (0..draws.count).step_by(at_once).map(|first| {
        let some = draws.of(first..draws.count.min(first + at_once))?;
        Ok(forward.outputs(model, some, batch)?)
    });
    let mut parts: Vec<_> = parts.collect::<Result<_>>()?;
    Ok(Some(match parts.len() {
        1 => parts.remove(0),
        _ => Tensor::cat(parts, 0),
    }))
}
