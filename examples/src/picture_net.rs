//! A convolutional network with batch normalisation and dropout. This is ordinary Burn code, up to
//! the last two implementations, which the Laplace approximation needs.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{
    BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig2d,
};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};
use burn_bayes::ExampleLoss;
use burn_bayes::graph::losses::cross_entropy;
use burn_bayes::laplace::ModelOutputs;
use burn_bayes::likelihood::Likelihood;
use burn_bayes::train::TrainerModel;

use crate::image_net::ImageBatch;
use crate::pictures::Pictures;

// ANCHOR: model
/// Three blocks of convolution, batch normalisation and pooling, dropout, and a linear layer.
#[derive(Module, Debug)]
pub struct PictureNet {
    blocks: Vec<Block>,
    dropout: Dropout,
    head: Linear,
}

#[derive(Module, Debug)]
struct Block {
    conv: Conv2d,
    norm: BatchNorm,
    pool: MaxPool2d,
}

impl PictureNet {
    const CHANNELS: [usize; 4] = [1, 8, 16, 32];
    /// The number of features of a picture.
    pub const FEATURES: usize = 32 * 2 * 2;

    /// A network with random weights.
    pub fn new(device: &Device) -> Self {
        let block = |channels: &[usize]| Block {
            conv: Conv2dConfig::new([channels[0], channels[1]], [3, 3])
                .with_padding(PaddingConfig2d::Same)
                .with_bias(false)
                .init(device),
            norm: BatchNormConfig::new(channels[1]).init(device),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
        };
        Self {
            blocks: Self::CHANNELS.windows(2).map(block).collect(),
            dropout: DropoutConfig::new(0.3).init(),
            head: LinearConfig::new(Self::FEATURES, Pictures::CLASSES).init(device),
        }
    }

    /// The input of the last layer, `[batch, features]`, without dropout.
    pub fn features(&self, images: Tensor<3>) -> Tensor<2> {
        let images = self
            .blocks
            .iter()
            .fold(images.unsqueeze_dim(1), |x, block| {
                let x = relu(block.norm.forward::<4>(block.conv.forward(x)));
                block.pool.forward(x)
            });
        images.flatten(1, 3)
    }

    /// Logits, `[batch, classes]`.
    pub fn forward(&self, images: Tensor<3>) -> Tensor<2> {
        self.head
            .forward(self.dropout.forward(self.features(images)))
    }
}
// ANCHOR_END: model

// ANCHOR: steps
impl PictureNet {
    fn classify(&self, batch: ImageBatch) -> ClassificationOutput {
        let logits = self.forward(batch.images);
        let loss = cross_entropy(logits.clone(), batch.labels.clone()).mean();
        ClassificationOutput::new(loss, logits, batch.labels)
    }
}

impl TrainStep for PictureNet {
    type Input = ImageBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: ImageBatch) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for PictureNet {
    type Input = ImageBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: ImageBatch) -> ClassificationOutput {
        self.classify(batch)
    }
}

/// Lets a `Trainer` train the plain network.
impl TrainerModel for PictureNet {}
// ANCHOR_END: steps

// ANCHOR: outputs
impl ExampleLoss for PictureNet {
    fn example_losses(&self, batch: ImageBatch) -> Tensor<1> {
        cross_entropy(self.forward(batch.images), batch.labels)
    }
}

impl ModelOutputs for PictureNet {
    type Features = Tensor<3>;

    fn features(batch: ImageBatch) -> Tensor<3> {
        batch.images
    }

    fn outputs(&self, images: Tensor<3>) -> Tensor<2> {
        self.forward(images)
    }

    fn likelihood(&self) -> Likelihood {
        Likelihood::Categorical
    }
}
// ANCHOR_END: outputs
