//! A convolutional network for small images, and its mini-batches. This is ordinary Burn code,
//! without Bayesian training.

// ANCHOR: imports
use burn::data::dataloader::batcher::Batcher;
use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{AvgPool2d, AvgPool2dConfig};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};

use crate::{ClassRow, Glyphs};
// ANCHOR_END: imports

// ANCHOR: batch
/// Images and their classes.
#[derive(Clone, Debug)]
pub struct ImageBatch {
    /// `[batch, height, width]`.
    pub images: Tensor<3>,
    /// `[batch]`.
    pub labels: Tensor<1, Int>,
}

/// Joins single images into an [`ImageBatch`].
#[derive(Clone, Copy, Debug)]
pub struct ImageBatcher;

impl Batcher<ClassRow, ImageBatch> for ImageBatcher {
    fn batch(&self, rows: Vec<ClassRow>, device: &Device) -> ImageBatch {
        let [height, width] = Glyphs::SHAPE;
        let shape = [rows.len(), height, width];
        let labels: Vec<i64> = rows.iter().map(|row| row.class as i64).collect();
        let pixels: Vec<f32> = rows.into_iter().flat_map(|row| row.features).collect();
        ImageBatch {
            images: Tensor::from_data(TensorData::new(pixels, shape), device),
            labels: Tensor::from_data(labels.as_slice(), device),
        }
    }
}
// ANCHOR_END: batch

// ANCHOR: model
/// Two convolutions and a linear layer, for images of 11×9 pixels.
#[derive(Module, Debug)]
pub struct Cnn {
    first: Conv2d,
    pool: AvgPool2d,
    second: Conv2d,
    head: Linear,
}

impl Cnn {
    /// A network with random weights.
    pub fn new(device: &Device) -> Self {
        Self {
            first: Conv2dConfig::new([1, 8], [3, 3])
                .with_padding(PaddingConfig2d::Same)
                .init(device),
            pool: AvgPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            second: Conv2dConfig::new([8, 16], [3, 3]).init(device),
            head: LinearConfig::new(16 * 3 * 2, Glyphs::CLASSES).init(device),
        }
    }

    /// Logits, `[batch, classes]`.
    pub fn forward(&self, images: Tensor<3>) -> Tensor<2> {
        let hidden = relu(self.first.forward(images.unsqueeze_dim(1)));
        let hidden = relu(self.second.forward(self.pool.forward(hidden)));
        self.head.forward(hidden.flatten(1, 3))
    }
}
// ANCHOR_END: model

// ANCHOR: steps
impl Cnn {
    fn classify(&self, batch: ImageBatch) -> ClassificationOutput {
        let logits = self.forward(batch.images);
        let loss = CrossEntropyLossConfig::new()
            .init(&logits.device())
            .forward(logits.clone(), batch.labels.clone());
        ClassificationOutput::new(loss, logits, batch.labels)
    }
}

impl TrainStep for Cnn {
    type Input = ImageBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: ImageBatch) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Cnn {
    type Input = ImageBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: ImageBatch) -> ClassificationOutput {
        self.classify(batch)
    }
}
// ANCHOR_END: steps
