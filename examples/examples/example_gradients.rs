//! The gradient of every example's loss, for a convolutional network that knows nothing of it; and
//! the same network at many draws of its weights in one pass.
//!
//! ```text
//! cargo run --example example_gradients
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;
use std::sync::Arc;

use burn::module::{Module, ParamGroup};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{AvgPool2d, AvgPool2dConfig};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn_bayes::Layout;
use burn_bayes::graph::losses::cross_entropy;
use burn_bayes::graph::{CapturedForward, CapturedModel};
use burn_bayes_examples::{ClassBatch, Glyphs};

// ANCHOR: model
/// An ordinary Burn model.
#[derive(Module, Debug)]
struct Cnn {
    first: Conv2d,
    second: Conv2d,
    pool: AvgPool2d,
    head: Linear,
}

impl Cnn {
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let hidden = self.pool.forward(relu(self.first.forward(images)));
        let hidden = relu(self.second.forward(hidden));
        self.head.forward(hidden.flatten::<2>(1, 3))
    }
}
// ANCHOR_END: model

impl Cnn {
    fn new(device: &Device) -> Self {
        Self {
            first: Conv2dConfig::new([1, 8], [3, 3])
                .with_padding(PaddingConfig2d::Same)
                .init(device),
            second: Conv2dConfig::new([8, 16], [3, 3]).init(device),
            pool: AvgPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            head: LinearConfig::new(16 * 3 * 2, Glyphs::CLASSES).init(device),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(0);
    let model = Cnn::new(&device);
    let digits = Glyphs {
        noise: 0.35,
        seed: 1,
    };
    let rows = digits.rows(32);
    let batch = ClassBatch::new(&rows, &device);
    let images: Tensor<4> = batch.inputs.reshape([-1, 1, 11, 9]);
    let batch = (images.clone(), batch.targets);

    // ANCHOR: gradients
    let layout = Arc::new(Layout::new(&model, &ParamGroup::all())?);
    let captured = CapturedModel::new(
        layout.clone(),
        |model: &Cnn, (images, labels): (Tensor<4>, Tensor<1, Int>)| {
            cross_entropy(model.forward(images), labels)
        },
    );
    let evaluated = captured.example_gradients(&model, &batch)?;
    let gradients = evaluated.gradients;

    // Squared lengths are the diagonal of the Gram matrix; no gradient was ever written down.
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
    let forward = CapturedForward::new(layout.clone(), |model: &Cnn, images: Tensor<4>| {
        model.forward(images)
    });
    let mean = layout.flatten(&model)?;
    let spread = Tensor::random([20, layout.len()], Distribution::Normal(0.0, 0.05), &device);
    let logits = forward.outputs(&model, spread + mean.unsqueeze(), &images)?;
    // ANCHOR_END: draws
    println!("logits of 20 draws in one pass: {:?}", logits.dims());
    Ok(())
}
