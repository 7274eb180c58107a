//! A small convolutional network with a class per pixel, and its mini-batches. This is ordinary Burn
//! code, without Bayesian training.

use burn::data::dataloader::batcher::Batcher;
use burn::module::Module;
use burn::nn::PaddingConfig2d;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};

use crate::{ShapeImage, Shapes};

/// Images and the class of every pixel.
#[derive(Clone, Debug)]
pub struct SegmentationBatch {
    /// `[batch, height, width]`.
    pub images: Tensor<3>,
    /// `[batch · height · width]`.
    pub labels: Tensor<1, Int>,
}

/// Joins single images into a [`SegmentationBatch`].
#[derive(Clone, Copy, Debug)]
pub struct SegmentationBatcher;

impl Batcher<ShapeImage, SegmentationBatch> for SegmentationBatcher {
    fn batch(&self, images: Vec<ShapeImage>, device: &Device) -> SegmentationBatch {
        let shape = [images.len(), Shapes::SIDE, Shapes::SIDE];
        let labels: Vec<i64> = images
            .iter()
            .flat_map(|image| image.labels.iter().map(|&label| label as i64))
            .collect();
        let pixels: Vec<f32> = images.into_iter().flat_map(|image| image.pixels).collect();
        SegmentationBatch {
            images: Tensor::from_data(TensorData::new(pixels, shape), device),
            labels: Tensor::from_data(labels.as_slice(), device),
        }
    }
}

/// Three convolutions, of which the dilated ones see 15×15 pixels, and a linear layer per pixel.
#[derive(Module, Debug)]
pub struct SegmentationNet {
    first: Conv2d,
    second: Conv2d,
    third: Conv2d,
    head: Conv2d,
}

impl SegmentationNet {
    /// A network with random weights.
    pub fn new(device: &Device) -> Self {
        let dilated = |channels: [usize; 2], step: usize| {
            Conv2dConfig::new(channels, [3, 3])
                .with_dilation([step, step])
                .with_padding(PaddingConfig2d::Explicit(step, step, step, step))
                .init(device)
        };
        Self {
            first: dilated([1, 8], 1),
            second: dilated([8, 12], 2),
            third: dilated([12, 12], 4),
            head: Conv2dConfig::new([12, Shapes::CLASSES], [1, 1]).init(device),
        }
    }

    /// Logits, `[batch · height · width, classes]`: the rows are pixels.
    pub fn forward(&self, images: Tensor<3>) -> Tensor<2> {
        let hidden = relu(self.first.forward(images.unsqueeze_dim(1)));
        let hidden = relu(self.second.forward(hidden));
        let hidden = relu(self.third.forward(hidden));
        let logits = self.head.forward(hidden).permute([0, 2, 3, 1]);
        logits.flatten(0, 2)
    }

    fn classify(&self, batch: SegmentationBatch) -> ClassificationOutput {
        let logits = self.forward(batch.images);
        let loss = CrossEntropyLossConfig::new()
            .init(&logits.device())
            .forward(logits.clone(), batch.labels.clone());
        ClassificationOutput::new(loss, logits, batch.labels)
    }
}

impl TrainStep for SegmentationNet {
    type Input = SegmentationBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: SegmentationBatch) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for SegmentationNet {
    type Input = SegmentationBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: SegmentationBatch) -> ClassificationOutput {
        self.classify(batch)
    }
}
