//! Generated per-example gradients in factored form, with the shapes of typical models.

use burn::tensor::{Device, Distribution, Int, Tensor};
use burn_bayes::graph::{Block, ExampleGradients, Term};

/// A multilayer perceptron with these widths, on `count` examples.
pub fn perceptron_gradients(count: usize, widths: &[usize], device: &Device) -> ExampleGradients {
    let blocks = widths.windows(2).flat_map(|layer| {
        let bias = Term::rows(normal([count, layer[1]], device));
        [
            weight(count, 1, [layer[0], layer[1]], device),
            Block::new(layer[1], vec![bias]),
        ]
    });
    ExampleGradients::new(count, blocks.collect(), device)
}

/// One 3×3 convolution of each stage of a ResNet-18, on `count` images of 32×32.
pub fn convolution_gradients(count: usize, device: &Device) -> ExampleGradients {
    let stages = [(64, 1024), (128, 256), (256, 64), (512, 16)];
    let blocks = stages
        .map(|(channels, pixels)| weight(count, pixels, [channels, 9 * channels], device))
        .into();
    ExampleGradients::new(count, blocks, device)
}

/// An embedding table of `words` rows, on `count` texts of `positions` words.
pub fn embedding_gradients(
    [count, positions]: [usize; 2],
    [words, width]: [usize; 2],
    device: &Device,
) -> ExampleGradients {
    let uniform = Distribution::Uniform(0.0, words as f64);
    let indices = Tensor::<2, Int>::random([count, positions], uniform, device);
    let term = Term::lookup(indices, normal([count, positions, width], device), words);
    let block = Block::new(words * width, vec![term]);
    ExampleGradients::new(count, vec![block], device)
}

/// A weight that is used at `positions` positions of every example.
fn weight(count: usize, positions: usize, [height, width]: [usize; 2], device: &Device) -> Block {
    let left = normal([1, count, positions, height], device);
    let right = normal([1, count, positions, width], device);
    Block::new(height * width, vec![Term::outer(left, right)])
}

fn normal<const R: usize>(dims: [usize; R], device: &Device) -> Tensor<R> {
    Tensor::random(dims, Distribution::Normal(0.0, 1.0), device)
}
