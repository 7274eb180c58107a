//! A small convolutional network, as an ordinary Burn model.

use burn::module::{Module, Param, ParamId};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{Initializer, Linear, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::{ClassificationOutput, TrainOutput, TrainStep};
use burn_bayes::Noise;
use burn_bayes::graph::losses;
use rand::Rng;

use burn_bayes_tabular::random::{first_weights, generator};

use crate::images::ImageBatch;
use crate::sets::ImageShape;

/// Channels of the two convolutions.
const CHANNELS: [usize; 2] = [8, 16];
/// Height and width of a kernel.
const KERNEL: usize = 3;
/// Height and width of what is pooled to one pixel.
const POOL: usize = 2;

/// Two convolutions with rectifiers and pooling, and a linear layer.
#[derive(Module, Debug)]
pub(super) struct ConvNet {
    first: Conv2d,
    second: Conv2d,
    pool: MaxPool2d,
    head: Linear,
}

impl ConvNet {
    /// A network with [`first_weights`] of its own for every `noise`.
    pub(super) fn new(shape: ImageShape, classes: usize, noise: Noise, device: &Device) -> Self {
        let mut generator = generator(noise);
        let [before, after] = CHANNELS;
        let pixels = (shape.height / POOL / POOL) * (shape.width / POOL / POOL);
        Self {
            first: convolution(shape.channels, before, &mut generator, device),
            second: convolution(before, after, &mut generator, device),
            pool: MaxPool2dConfig::new([POOL, POOL])
                .with_strides([POOL, POOL])
                .init(),
            head: linear(after * pixels, classes, &mut generator, device),
        }
    }

    /// Logits, `[rows, classes]`.
    pub(super) fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        self.head.forward(self.hidden(images).flatten::<2>(1, 3))
    }

    /// The averages of the channels before the last layer, `[rows, channels]`.
    pub(super) fn features(&self, images: Tensor<4>) -> Tensor<2> {
        self.hidden(images)
            .flatten::<3>(2, 3)
            .mean_dim(2)
            .squeeze_dim(2)
    }

    fn hidden(&self, images: Tensor<4>) -> Tensor<4> {
        let hidden = self.pool.forward(relu(self.first.forward(images)));
        self.pool.forward(relu(self.second.forward(hidden)))
    }

    fn output(&self, batch: ImageBatch) -> ClassificationOutput {
        let logits = self.forward(batch.images);
        let losses = losses::cross_entropy(logits.clone(), batch.classes.clone());
        ClassificationOutput::new(losses.mean(), logits, batch.classes)
    }
}

impl TrainStep for ConvNet {
    type Input = ImageBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: ImageBatch) -> TrainOutput<ClassificationOutput> {
        let output = self.output(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

fn convolution(inputs: usize, outputs: usize, generator: &mut impl Rng, device: &Device) -> Conv2d {
    let fan = inputs * KERNEL * KERNEL;
    let layer = Conv2dConfig::new([inputs, outputs], [KERNEL, KERNEL])
        .with_padding(PaddingConfig2d::Same)
        .with_initializer(Initializer::Zeros);
    Conv2d {
        weight: drawn([outputs, inputs, KERNEL, KERNEL], fan, generator, device),
        bias: Some(drawn([outputs], fan, generator, device)),
        ..layer.init(device)
    }
}

/// A layer of [`first_weights`].
pub(crate) fn linear(
    inputs: usize,
    outputs: usize,
    generator: &mut impl Rng,
    device: &Device,
) -> Linear {
    Linear {
        weight: drawn([inputs, outputs], inputs, generator, device),
        bias: Some(drawn([outputs], inputs, generator, device)),
    }
}

/// A parameter of [`first_weights`].
pub(crate) fn drawn<const R: usize>(
    shape: [usize; R],
    inputs: usize,
    generator: &mut impl Rng,
    device: &Device,
) -> Param<Tensor<R>> {
    let values = first_weights(inputs, shape.iter().product(), generator);
    let value = Tensor::from_data(TensorData::new(values, shape), device);
    Param::initialized(ParamId::new(), value.require_grad())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: ImageShape = ImageShape {
        height: 28,
        width: 28,
        channels: 3,
    };

    fn logits(seed: u64) -> Vec<f64> {
        let device = Device::default().autodiff();
        let network = ConvNet::new(SHAPE, 2, Noise::new(seed), &device);
        let images = Tensor::ones([4, 3, 28, 28], &device);
        let logits = network.forward(images);
        assert_eq!(logits.dims(), [4, 2]);
        logits.into_data().iter().collect()
    }

    #[test]
    fn a_seed_names_a_network() {
        assert_eq!(logits(1), logits(1));
        assert_ne!(logits(1), logits(2));
    }

    #[test]
    fn it_has_a_few_thousand_weights() {
        let device = Device::default().autodiff();
        let network = ConvNet::new(SHAPE, 10, Noise::new(0), &device);
        let convolutions = (3 * 9 + 1) * 8 + (8 * 9 + 1) * 16;
        assert_eq!(network.num_params(), convolutions + (16 * 49 + 1) * 10);
    }

    #[test]
    fn the_loss_is_the_mean_over_pictures() {
        let device = Device::default().autodiff();
        let network = ConvNet::new(SHAPE, 3, Noise::new(0), &device);
        let pixels: Vec<f32> = (0..2 * 3 * 784).map(|pixel| (pixel as f32).sin()).collect();
        let classes = [2, 0];
        let output = network.output(ImageBatch {
            images: Tensor::from_data(TensorData::new(pixels, [2, 3, 28, 28]), &device),
            classes: Tensor::from_data(classes, &device),
        });
        let logits: Vec<f64> = output.output.into_data().iter().collect();
        let losses = logits.chunks(3).zip(classes).map(|(row, class)| {
            let sum: f64 = row.iter().map(|logit| logit.exp()).sum();
            sum.ln() - row[class]
        });
        let mean = losses.sum::<f64>() / 2.0;
        let loss: f64 = output.loss.into_scalar();
        assert!(
            (loss - mean).abs() < 16.0 * f64::from(f32::EPSILON),
            "{loss} {mean}"
        );
    }
}
