//! The benchmark models: multilayer perceptrons, LeNet and ResNet-18.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Initializer, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::ExampleLoss;
use burn_bayes::graph::ExampleBatch;
use burn_bayes::graph::losses::cross_entropy;
use burn_bayes::laplace::ModelOutputs;
use burn_bayes::likelihood::Likelihood;
use burn_bayes::train::{CompiledStep, Recordings, TrainerModel};

/// Rows of features and their classes.
#[derive(Clone, Debug, ExampleBatch)]
pub struct Labelled {
    /// `[rows, features]`.
    pub inputs: Tensor<2>,
    /// `[rows]`.
    pub targets: Tensor<1, Int>,
}

/// Rows of features and real targets.
#[derive(Clone, Debug, ExampleBatch)]
pub struct Measured {
    /// `[rows, features]`.
    pub inputs: Tensor<2>,
    /// `[rows, 1]`.
    pub targets: Tensor<2>,
}

/// Images and their classes.
#[derive(Clone, Debug, ExampleBatch)]
pub struct Images {
    /// `[rows, channels, height, width]`.
    pub inputs: Tensor<4>,
    /// `[rows]`.
    pub targets: Tensor<1, Int>,
}

/// A classifier with per-example losses.
pub trait Network<B>: Module + 'static {
    /// −log p(y|x) of every row.
    fn losses(&self, batch: B) -> Tensor<1>;
}

/// Linear layers with ReLU activations.
#[derive(Module, Debug)]
struct Perceptron {
    layers: Vec<Linear>,
}

impl Perceptron {
    fn new(widths: &[usize], device: &Device) -> Self {
        let layers = widths
            .windows(2)
            .map(|pair| LinearConfig::new(pair[0], pair[1]).init(device))
            .collect();
        Self { layers }
    }

    fn forward(&self, inputs: Tensor<2>) -> Tensor<2> {
        let mut layers = self.layers.iter();
        let first = layers.next().map(|layer| layer.forward(inputs.clone()));
        layers.fold(first.unwrap_or(inputs), |values, layer| {
            layer.forward(relu(values))
        })
    }
}

/// A multilayer perceptron for classification.
#[derive(Module, Debug)]
pub struct MlpClassifier {
    network: Perceptron,
}

impl MlpClassifier {
    /// Layers with the given widths, including inputs and classes.
    pub fn new(widths: &[usize], device: &Device) -> Self {
        Self {
            network: Perceptron::new(widths, device),
        }
    }

    /// `[rows, classes]`.
    pub fn logits(&self, inputs: Tensor<2>) -> Tensor<2> {
        self.network.forward(inputs)
    }

    fn output(&self, batch: Labelled) -> ClassificationOutput {
        classified(self.logits(batch.inputs), batch.targets)
    }
}

impl Network<Labelled> for MlpClassifier {
    fn losses(&self, batch: Labelled) -> Tensor<1> {
        cross_entropy(self.logits(batch.inputs), batch.targets)
    }
}

impl TrainStep for MlpClassifier {
    type Input = Labelled;
    type Output = ClassificationOutput;

    fn step(&self, batch: Labelled) -> TrainOutput<ClassificationOutput> {
        let output = self.output(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for MlpClassifier {
    type Input = Labelled;
    type Output = ClassificationOutput;

    fn step(&self, batch: Labelled) -> ClassificationOutput {
        self.output(batch)
    }
}

impl ExampleLoss for MlpClassifier {
    fn example_losses(&self, batch: Labelled) -> Tensor<1> {
        Network::losses(self, batch)
    }

    fn example_outputs(&self, batch: Labelled, losses: Tensor<1>) -> ClassificationOutput {
        let logits = self.clone().no_grad().logits(batch.inputs);
        ClassificationOutput::new(losses.mean(), logits, batch.targets)
    }
}

impl ModelOutputs for MlpClassifier {
    type Features = Tensor<2>;

    fn features(batch: Labelled) -> Tensor<2> {
        batch.inputs
    }

    fn outputs(&self, features: Tensor<2>) -> Tensor<2> {
        self.logits(features)
    }

    fn likelihood(&self) -> Likelihood {
        Likelihood::Categorical
    }
}

/// A multilayer perceptron for regression; its loss is that of unit noise, up to a constant.
#[derive(Module, Debug)]
pub struct MlpRegressor {
    network: Perceptron,
}

impl MlpRegressor {
    /// Layers with the given widths, including inputs and outputs.
    pub fn new(widths: &[usize], device: &Device) -> Self {
        Self {
            network: Perceptron::new(widths, device),
        }
    }

    fn output(&self, batch: Measured) -> RegressionOutput {
        let output = self.network.forward(batch.inputs);
        let residual = output.clone() - batch.targets.clone();
        let loss = residual.square().mean().mul_scalar(0.5);
        RegressionOutput::new(loss, output, batch.targets)
    }
}

impl ExampleLoss for MlpRegressor {
    fn example_losses(&self, batch: Measured) -> Tensor<1> {
        let residual = self.network.forward(batch.inputs) - batch.targets;
        residual.square().mul_scalar(0.5).squeeze_dim(1)
    }

    fn example_outputs(&self, batch: Measured, losses: Tensor<1>) -> RegressionOutput {
        let outputs = self.clone().no_grad().network.forward(batch.inputs);
        RegressionOutput::new(losses.mean(), outputs, batch.targets)
    }
}

impl TrainStep for MlpRegressor {
    type Input = Measured;
    type Output = RegressionOutput;

    fn step(&self, batch: Measured) -> TrainOutput<RegressionOutput> {
        let output = self.output(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for MlpRegressor {
    type Input = Measured;
    type Output = RegressionOutput;

    fn step(&self, batch: Measured) -> RegressionOutput {
        self.output(batch)
    }
}

/// ResNet-18 (He et al. 2016) in the variant for small images: a 3×3 stem without pooling, four
/// stages of two blocks, and batch normalisation.
#[derive(Module, Debug)]
pub struct ResNet18 {
    stem: Unit,
    blocks: Vec<Block>,
    pool: AdaptiveAvgPool2d,
    head: Linear,
}

/// A 3×3 or 1×1 convolution without bias, with batch normalisation.
#[derive(Module, Debug)]
struct Unit {
    convolution: Conv2d,
    norm: BatchNorm,
}

#[derive(Module, Debug)]
struct Block {
    first: Unit,
    second: Unit,
    shortcut: Option<Unit>,
}

impl Unit {
    fn new(channels: [usize; 2], kernel: usize, stride: usize, device: &Device) -> Self {
        let margin = kernel / 2;
        Self {
            convolution: Conv2dConfig::new(channels, [kernel, kernel])
                .with_stride([stride, stride])
                .with_padding(PaddingConfig2d::Explicit(margin, margin, margin, margin))
                .with_bias(false)
                .with_initializer(Initializer::KaimingNormal {
                    gain: std::f64::consts::SQRT_2,
                    fan_out_only: false,
                })
                .init(device),
            norm: BatchNormConfig::new(channels[1]).init(device),
        }
    }

    fn forward(&self, inputs: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.convolution.forward(inputs))
    }
}

impl Block {
    fn new(channels: [usize; 2], stride: usize, device: &Device) -> Self {
        let reshapes = stride != 1 || channels[0] != channels[1];
        Self {
            first: Unit::new(channels, 3, stride, device),
            second: Unit::new([channels[1], channels[1]], 3, 1, device),
            shortcut: reshapes.then(|| Unit::new(channels, 1, stride, device)),
        }
    }

    fn forward(&self, inputs: Tensor<4>) -> Tensor<4> {
        let residual = relu(self.first.forward(inputs.clone()));
        let residual = self.second.forward(residual);
        let passed = match &self.shortcut {
            Some(shortcut) => shortcut.forward(inputs),
            None => inputs,
        };
        relu(residual + passed)
    }
}

impl ResNet18 {
    /// The path of the last layer.
    pub const HEAD: &str = "head.";

    /// Channels after the stem.
    pub const WIDTH: usize = 64;

    /// A network for images of `channels` channels.
    pub fn new(channels: usize, classes: usize, device: &Device) -> Self {
        Self::of_width(Self::WIDTH, channels, classes, device)
    }

    /// The same with another width, of which the last layer has eight times as many inputs.
    pub fn of_width(first: usize, channels: usize, classes: usize, device: &Device) -> Self {
        let mut before = first;
        let blocks = [1, 2, 4, 8]
            .into_iter()
            .flat_map(|wider| [(wider, if wider == 1 { 1 } else { 2 }), (wider, 1)])
            .map(|(wider, stride)| {
                let width = wider * first;
                let block = Block::new([before, width], stride, device);
                before = width;
                block
            })
            .collect();
        Self {
            stem: Unit::new([channels, first], 3, 1, device),
            blocks,
            pool: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            head: LinearConfig::new(before, classes).init(device),
        }
    }

    /// The same with another last layer.
    #[must_use]
    pub fn with_head(self, head: Linear) -> Self {
        Self { head, ..self }
    }

    /// Logits, `[rows, classes]`.
    pub fn forward(&self, inputs: Tensor<4>) -> Tensor<2> {
        let stem = relu(self.stem.forward(inputs));
        let features = self
            .blocks
            .iter()
            .fold(stem, |values, block| block.forward(values));
        let features: Tensor<2> = self.pool.forward(features).flatten(1, 3);
        self.head.forward(features)
    }

    fn output(&self, batch: Images) -> ClassificationOutput {
        classified(self.forward(batch.inputs), batch.targets)
    }
}

impl Network<Images> for ResNet18 {
    fn losses(&self, batch: Images) -> Tensor<1> {
        cross_entropy(self.forward(batch.inputs), batch.targets)
    }
}

/// LeNet (LeCun et al. 1998): two convolutions and two linear layers, for one-channel images of
/// 28×28.
#[derive(Module, Debug)]
pub struct LeNet {
    first: Conv2d,
    second: Conv2d,
    pool: MaxPool2d,
    hidden: Linear,
    head: Linear,
}

impl LeNet {
    /// A network for ten classes.
    pub fn new(device: &Device) -> Self {
        Self {
            first: Conv2dConfig::new([1, 6], [5, 5])
                .with_padding(PaddingConfig2d::Same)
                .init(device),
            second: Conv2dConfig::new([6, 16], [5, 5]).init(device),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            hidden: LinearConfig::new(16 * 5 * 5, 120).init(device),
            head: LinearConfig::new(120, 10).init(device),
        }
    }
}

impl Network<Images> for LeNet {
    fn losses(&self, batch: Images) -> Tensor<1> {
        let features = self.pool.forward(relu(self.first.forward(batch.inputs)));
        let features = self.pool.forward(relu(self.second.forward(features)));
        let hidden = relu(self.hidden.forward(features.flatten::<2>(1, 3)));
        cross_entropy(self.head.forward(hidden), batch.targets)
    }
}

impl TrainStep for ResNet18 {
    type Input = Images;
    type Output = ClassificationOutput;

    fn step(&self, batch: Images) -> TrainOutput<ClassificationOutput> {
        let output = self.output(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for ResNet18 {
    type Input = Images;
    type Output = ClassificationOutput;

    fn step(&self, batch: Images) -> ClassificationOutput {
        self.output(batch)
    }
}

fn classified(logits: Tensor<2>, targets: Tensor<1, Int>) -> ClassificationOutput {
    let loss = CrossEntropyLossConfig::new()
        .init(&logits.device())
        .forward(logits.clone(), targets.clone());
    ClassificationOutput::new(loss, logits, targets)
}

impl TrainerModel for MlpClassifier {
    fn compiled(&self, recordings: &Recordings) -> Option<CompiledStep<Self>> {
        recordings.step_of_losses(self)
    }
}

impl TrainerModel for MlpRegressor {
    fn compiled(&self, recordings: &Recordings) -> Option<CompiledStep<Self>> {
        recordings.step_of_losses(self)
    }
}
