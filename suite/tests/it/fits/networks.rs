//! Small networks of the kinds that people have, and rows for them.

use burn::module::{Lora, Module};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::transformer::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{
    BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Embedding, EmbeddingConfig, Linear,
    LinearConfig, Lstm, LstmConfig, PaddingConfig2d,
};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};
use burn_bayes::graph::losses::cross_entropy;
use burn_bayes::laplace::ModelOutputs;
use burn_bayes::likelihood::Likelihood;
use burn_bayes::train::TrainerModel;
use burn_bayes::{ExampleBatch, ExampleLoss};

use crate::support::normals;

/// What a network is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Cnn,
    ResNet,
    Wide,
    Deep,
    Transformer,
    Lstm,
    Lora,
}

impl Kind {
    /// Whether it reads images; the others read pulses.
    fn is_of_images(self) -> bool {
        matches!(self, Self::Cnn | Self::ResNet | Self::Wide | Self::Deep)
    }

    pub(super) fn classes(self) -> usize {
        match self.is_of_images() {
            true => Images::CLASSES,
            false => Pulses::CHANNELS,
        }
    }
}

/// Gratings of four directions, with a random phase and noise.
pub(super) struct Images;

impl Images {
    const SIDE: usize = 8;
    const CLASSES: usize = 4;

    fn row(class: usize, noise: &[f32], inputs: &mut Vec<f32>) {
        let angle = std::f32::consts::PI * class as f32 / Self::CLASSES as f32;
        let phase = 3.0 * noise[0];
        for place in 0..Self::SIDE * Self::SIDE {
            let (x, y) = ((place / Self::SIDE) as f32, (place % Self::SIDE) as f32);
            let wave = (1.2 * (x * angle.cos() + y * angle.sin()) + phase).sin();
            inputs.push(wave + 1.2 * noise[1 + place]);
        }
    }
}

/// Sequences with a pulse in each of three channels. The class is the channel of the first, or of the last.
pub(super) struct Pulses;

impl Pulses {
    const LENGTH: usize = 12;
    const CHANNELS: usize = 3;

    fn row(class: usize, is_last: bool, noise: &[f32], inputs: &mut Vec<f32>) {
        // Three different times, in order.
        let place = |value: f32, from: usize| {
            from + ((value.abs() * 97.0) as usize) % (Self::LENGTH / Self::CHANNELS)
        };
        let mut times: Vec<usize> = (0..Self::CHANNELS)
            .map(|third| place(noise[third], third * Self::LENGTH / Self::CHANNELS))
            .collect();
        if is_last {
            times.reverse();
        }
        let swap = usize::from(noise[3] > 0.0);
        let channels = [class, class + 1 + swap, class + 2 - swap];
        let mut values: Vec<f32> = noise[4..4 + Self::LENGTH * Self::CHANNELS]
            .iter()
            .map(|value| 0.5 * value)
            .collect();
        for (time, channel) in times.into_iter().zip(channels) {
            values[time * Self::CHANNELS + channel % Self::CHANNELS] += 2.0;
        }
        inputs.extend(values);
    }
}

/// Inputs `[rows, 8, 8]` or `[rows, 12, 3]`, and classes `[rows]`.
#[derive(Clone, Debug, ExampleBatch)]
pub(super) struct Batch {
    pub(super) inputs: Tensor<3>,
    pub(super) classes: Tensor<1, Int>,
}

/// Rows of one of the two data sets.
#[derive(Clone)]
pub(super) struct Rows {
    inputs: Vec<f32>,
    classes: Vec<i64>,
    dims: [usize; 2],
}

impl Rows {
    /// Rows for this kind of network; `is_source` are those that a network for adapters learns first.
    pub(super) fn new(kind: Kind, is_source: bool, seed: u64, len: usize) -> Self {
        let mut inputs = Vec::new();
        let count = kind.classes();
        let classes: Vec<i64> = (0..len).map(|row| (row % count) as i64).collect();
        let dims = match kind.is_of_images() {
            true => [Images::SIDE, Images::SIDE],
            false => [Pulses::LENGTH, Pulses::CHANNELS],
        };
        for row in 0..len {
            let noise = normals(1000 * seed + row as u64, 80);
            match kind.is_of_images() {
                true => Images::row(row % count, &noise, &mut inputs),
                false => Pulses::row(
                    row % count,
                    kind == Kind::Lora && !is_source,
                    &noise,
                    &mut inputs,
                ),
            }
        }
        Self {
            inputs,
            classes,
            dims,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.classes.len()
    }

    pub(super) fn batch(&self, rows: &[usize], device: &Device) -> Batch {
        let [height, width] = self.dims;
        let size = height * width;
        let inputs = rows
            .iter()
            .flat_map(|&row| &self.inputs[row * size..(row + 1) * size]);
        let inputs: Vec<f32> = inputs.copied().collect();
        let classes: Vec<i64> = rows.iter().map(|&row| self.classes[row]).collect();
        Batch {
            inputs: Tensor::from_data(TensorData::new(inputs, [rows.len(), height, width]), device),
            classes: Tensor::from_data(classes.as_slice(), device),
        }
    }

    pub(super) fn all(&self, device: &Device) -> Batch {
        self.batch(&(0..self.len()).collect::<Vec<_>>(), device)
    }
}

fn convolution(channels: [usize; 2], device: &Device) -> Conv2d {
    Conv2dConfig::new(channels, [3, 3])
        .with_padding(PaddingConfig2d::Same)
        .init(device)
}

/// Two convolutions with batch norm, dropout and two linear layers.
#[derive(Module, Debug)]
pub(super) struct Cnn {
    first: Conv2d,
    first_norm: BatchNorm,
    second: Conv2d,
    second_norm: BatchNorm,
    pool: MaxPool2d,
    dropout: Dropout,
    hidden: Linear,
    head: Linear,
}

impl Cnn {
    fn new(device: &Device) -> Self {
        Self {
            first: convolution([1, 8], device),
            first_norm: BatchNormConfig::new(8).init(device),
            second: convolution([8, 16], device),
            second_norm: BatchNormConfig::new(16).init(device),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            dropout: DropoutConfig::new(0.25).init(),
            hidden: LinearConfig::new(256, 32).init(device),
            head: LinearConfig::new(32, Images::CLASSES).init(device),
        }
    }

    fn forward(&self, images: Tensor<3>) -> Tensor<2> {
        let x = self.first.forward(images.unsqueeze_dim(1));
        let x = relu(self.first_norm.forward(x));
        let x = relu(self.second_norm.forward(self.second.forward(x)));
        let x = self.pool.forward(x).flatten(1, 3);
        let x = self.dropout.forward(relu(self.hidden.forward(x)));
        self.head.forward(x)
    }
}

/// Two residual blocks with batch norm.
#[derive(Module, Debug)]
pub(super) struct ResNet {
    stem: Conv2d,
    stem_norm: BatchNorm,
    blocks: Vec<Block>,
    head: Linear,
}

#[derive(Module, Debug)]
struct Block {
    first: Conv2d,
    first_norm: BatchNorm,
    second: Conv2d,
    second_norm: BatchNorm,
}

impl ResNet {
    fn new(device: &Device) -> Self {
        let block = |_| Block {
            first: convolution([8, 8], device),
            first_norm: BatchNormConfig::new(8).init(device),
            second: convolution([8, 8], device),
            second_norm: BatchNormConfig::new(8).init(device),
        };
        Self {
            stem: convolution([1, 8], device),
            stem_norm: BatchNormConfig::new(8).init(device),
            blocks: (0..2).map(block).collect(),
            head: LinearConfig::new(8, Images::CLASSES).init(device),
        }
    }

    fn forward(&self, images: Tensor<3>) -> Tensor<2> {
        let x = self.stem.forward(images.unsqueeze_dim(1));
        let x = relu(self.stem_norm.forward(x));
        let x = self.blocks.iter().fold(x, |x, block| {
            let inner = relu(block.first_norm.forward(block.first.forward(x.clone())));
            relu(x + block.second_norm.forward(block.second.forward(inner)))
        });
        self.head
            .forward(x.mean_dim(3).mean_dim(2).flatten::<2>(1, 3))
    }
}

/// Linear layers without any normalisation.
#[derive(Module, Debug)]
pub(super) struct Perceptron {
    layers: Vec<Linear>,
    head: Linear,
}

impl Perceptron {
    fn new(width: usize, hidden: usize, device: &Device) -> Self {
        let inputs = |layer| match layer {
            0 => Images::SIDE * Images::SIDE,
            _ => width,
        };
        let layer = |layer| LinearConfig::new(inputs(layer), width).init(device);
        Self {
            layers: (0..hidden).map(layer).collect(),
            head: LinearConfig::new(width, Images::CLASSES).init(device),
        }
    }

    fn forward(&self, images: Tensor<3>) -> Tensor<2> {
        let layers = self.layers.iter();
        let x = layers.fold(images.flatten(1, 2), |x, layer| relu(layer.forward(x)));
        self.head.forward(x)
    }
}

/// One layer of an encoder, with layer norm and Burn's dropout.
#[derive(Module, Debug)]
pub(super) struct Transformer {
    embedding: Linear,
    places: Embedding,
    encoder: TransformerEncoder,
    head: Linear,
}

impl Transformer {
    fn new(device: &Device) -> Self {
        let width = 16;
        Self {
            embedding: LinearConfig::new(Pulses::CHANNELS, width).init(device),
            places: EmbeddingConfig::new(Pulses::LENGTH, width).init(device),
            encoder: TransformerEncoderConfig::new(width, 2 * width, 2, 1).init(device),
            head: LinearConfig::new(width, Pulses::CHANNELS).init(device),
        }
    }

    fn forward(&self, inputs: Tensor<3>) -> Tensor<2> {
        let [rows, length, _] = inputs.dims();
        let places = Tensor::arange(0..length as i64, &inputs.device());
        let places = places.reshape([1, length]).repeat_dim(0, rows);
        let x = self.embedding.forward(inputs) + self.places.forward(places);
        let x = self.encoder.forward(TransformerEncoderInput::new(x));
        self.head.forward(x.mean_dim(1).squeeze_dim::<2>(1))
    }
}

/// A recurrent layer whose last state is classified.
#[derive(Module, Debug)]
pub(super) struct Recurrent {
    cell: Lstm,
    head: Linear,
}

impl Recurrent {
    fn new(device: &Device) -> Self {
        let width = 16;
        Self {
            cell: LstmConfig::new(Pulses::CHANNELS, width, true).init(device),
            head: LinearConfig::new(width, Pulses::CHANNELS).init(device),
        }
    }

    fn forward(&self, inputs: Tensor<3>) -> Tensor<2> {
        let (_, last) = self.cell.forward(inputs, None);
        self.head.forward(last.hidden)
    }
}

/// One of the networks.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub(super) enum Net {
    Cnn(Cnn),
    ResNet(ResNet),
    Perceptron(Perceptron),
    Transformer(Transformer),
    Lstm(Recurrent),
}

impl Net {
    pub(super) fn new(kind: Kind, device: &Device) -> Self {
        match kind {
            Kind::Cnn => Self::Cnn(Cnn::new(device)),
            Kind::ResNet => Self::ResNet(ResNet::new(device)),
            Kind::Wide => Self::Perceptron(Perceptron::new(100, 2, device)),
            Kind::Deep => Self::Perceptron(Perceptron::new(32, 7, device)),
            Kind::Transformer | Kind::Lora => Self::Transformer(Transformer::new(device)),
            Kind::Lstm => Self::Lstm(Recurrent::new(device)),
        }
    }

    /// The same weights, fixed, with adapters.
    pub(super) fn adapted(self) -> Self {
        self.apply_lora(Lora::new(4, 8.0))
    }

    fn forward(&self, inputs: Tensor<3>) -> Tensor<2> {
        match self {
            Self::Cnn(net) => net.forward(inputs),
            Self::ResNet(net) => net.forward(inputs),
            Self::Perceptron(net) => net.forward(inputs),
            Self::Transformer(net) => net.forward(inputs),
            Self::Lstm(net) => net.forward(inputs),
        }
    }

    fn classify(&self, batch: Batch) -> ClassificationOutput {
        let logits = self.forward(batch.inputs);
        let loss = cross_entropy(logits.clone(), batch.classes.clone()).mean();
        ClassificationOutput::new(loss, logits, batch.classes)
    }
}

impl TrainStep for Net {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Net {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        self.classify(batch)
    }
}

impl TrainerModel for Net {}

impl ExampleLoss for Net {
    fn example_losses(&self, batch: Batch) -> Tensor<1> {
        cross_entropy(self.forward(batch.inputs), batch.classes)
    }

    fn example_outputs(&self, batch: Batch, losses: Tensor<1>) -> ClassificationOutput {
        let logits = self.clone().no_grad().forward(batch.inputs);
        ClassificationOutput::new(losses.mean(), logits, batch.classes)
    }
}

impl ModelOutputs for Net {
    type Features = Tensor<3>;

    fn features(batch: Batch) -> Tensor<3> {
        batch.inputs
    }

    fn outputs(&self, inputs: Tensor<3>) -> Tensor<2> {
        self.forward(inputs)
    }

    fn likelihood(&self) -> Likelihood {
        Likelihood::Categorical
    }
}
