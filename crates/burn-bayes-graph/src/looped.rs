//! One backward pass for each example: the oracle of the rules, and what is done without one.

use std::collections::{BTreeMap, BTreeSet};

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn_bayes_core::Layout;

use crate::batch::{ExampleBatch, Single};
use crate::error::Result;

/// The losses, and the gradients `[M, len]` of the chosen parameters, by their number.
pub(crate) fn looped_rows<M: Module, B: ExampleBatch>(
    loss: &(impl Fn(&M, B) -> Tensor<1> + ?Sized),
    model: &M,
    batch: &B,
    examples: usize,
    layout: &Layout,
    chosen: &BTreeSet<usize>,
) -> Result<(Tensor<1>, BTreeMap<usize, Tensor<2>>)> {
    // Frozen layers behave as in inference, as in the recording; the leaves have gradients anyhow.
    let weights = layout.flatten(model)?;
    let model = layout.write_leaves(model.clone().freeze(), weights)?;
    let mut losses = Vec::with_capacity(examples);
    let mut rows: BTreeMap<usize, Vec<Tensor<1>>> = BTreeMap::new();
    for example in 0..examples {
        let single = batch.clone().map_tensors(&mut Single(example));
        let loss = loss(&model, single);
        let gradients = loss.clone().sum().backward();
        let mut gradients = GradientsParams::from_grads(gradients, &model);
        let parts = layout.gradient_parts(&model, &mut gradients)?;
        for (parameter, part) in parts.into_iter().enumerate() {
            if chosen.contains(&parameter) {
                rows.entry(parameter).or_default().push(part);
            }
        }
        losses.push(loss.without_autodiff());
    }
    let rows = rows
        .into_iter()
        .map(|(parameter, rows)| (parameter, Tensor::stack(rows, 0)));
    Ok((Tensor::cat(losses, 0), rows.collect()))
}
