//! Per-example gradients of an ordinary convolutional network, and its outputs at many draws of the
//! weights in one pass.
//!
//! ```text
//! cargo run --example example_gradients
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;
use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::module::ParamGroup;
use burn::tensor::{Device, Distribution, Tensor};
use burn_bayes::graph::{CapturedForward, CapturedModel, Layout, losses::cross_entropy};
use burn_bayes_examples::{Cnn, Glyphs, ImageBatch, ImageBatcher};

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(0);
    let model = Cnn::new(&device);
    let digits = Glyphs {
        noise: 0.35,
        seed: 1,
    };
    let rows = digits.rows(32);
    let batch: ImageBatch = ImageBatcher.batch(rows.clone(), &device);

    // ANCHOR: gradients
    let layout = Arc::new(Layout::new(&model, &ParamGroup::all())?);
    let captured = CapturedModel::new(layout.clone(), |model: &Cnn, batch: ImageBatch| {
        cross_entropy(model.forward(batch.images), batch.labels)
    });
    let evaluated = captured.example_gradients(&model, &batch)?;
    let gradients = evaluated.gradients;

    // Squared norms are the diagonal of the Gram matrix, so no gradient is formed explicitly.
    let gram = gradients.gram();
    // ANCHOR_END: gradients
    let gram = gram.into_data().try_into_vec::<f32>()?;
    let losses = evaluated.losses.into_data().try_into_vec::<f32>()?;
    let count = gradients.count();
    println!("{count} examples, {} weights", gradients.len());
    println!("example  digit  loss   length of its gradient");
    for example in 0..5 {
        let length = gram[example * count + example].sqrt();
        println!(
            "{example:>7}  {:>5}  {:.3}  {length:.3}",
            rows[example].class, losses[example]
        );
    }

    // ANCHOR: oracle
    let looped = captured.looped(&model, &batch)?;
    let difference = gradients.materialise() - looped.gradients.materialise();
    // ANCHOR_END: oracle
    let largest: f32 = difference.abs().max().into_scalar();
    println!("largest difference from one backward pass per example: {largest:.1e}");
    if largest > 1e-4 {
        return Err("the factored gradients are not those of the loop".into());
    }

    // ANCHOR: draws
    let forward = CapturedForward::new(layout.clone(), |model: &Cnn, images: Tensor<3>| {
        model.forward(images)
    });
    let mean = layout.flatten(&model)?;
    let spread = Tensor::random([20, layout.len()], Distribution::Normal(0.0, 0.05), &device);
    let logits = forward.outputs(&model, spread + mean.unsqueeze(), &batch.images)?;
    // ANCHOR_END: draws
    println!("logits of 20 draws in one pass: {:?}", logits.dims());
    Ok(())
}
