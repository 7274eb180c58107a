//! Whole networks: per-example gradients, and many draws of the weights in one pass.

use std::sync::Arc;

use burn::module::{Module, ParamGroup};
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig};
use burn::nn::gru::{Gru, GruConfig};
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::transformer::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{
    BatchNorm, BatchNormConfig, Embedding, EmbeddingConfig, Linear, LinearConfig, Lstm, LstmConfig,
    PaddingConfig2d,
};
use burn::optim::GradientsParams;
use burn::tensor::activation::{log_softmax, relu};
use burn::tensor::{Int, Tensor};
use burn_bayes::graph::{CapturedForward, CapturedLoss, ExampleBatch, Layout};

use super::computed_weights::adapted;
use super::{close, exact, integers, tensor};
use crate::support::{device, filled, values};

/// A classifier with three classes.
trait Network: Module + 'static {
    type Input: ExampleBatch + 'static;

    fn forward(&self, x: Self::Input) -> Tensor<2>;

    fn losses(&self, (x, labels): (Self::Input, Tensor<1, Int>)) -> Tensor<1> {
        let logs = log_softmax(self.forward(x), 1);
        logs.gather(1, labels.unsqueeze_dim(1))
            .squeeze_dim::<1>(1)
            .neg()
    }
}

/// Per-example gradients equal those of the loop; draws in one pass equal single draws. The weights
/// depend only on a seed: an input of `relu` within rounding of zero has two gradients.
#[track_caller]
fn checked<N: Network>(model: &N, input: N::Input, examples: usize) {
    let model = &filled(model.clone(), 7, 0.3);
    let batch = (input.clone(), integers::<1>(2, [examples], 3));
    exact(model, &batch, |m: &N, batch: (N::Input, Tensor<1, Int>)| {
        m.losses(batch)
    });

    let layout = Arc::new(Layout::new(model, &ParamGroup::all()).unwrap());
    let draws = tensor::<2>(5, [3, layout.len()]) * 0.3;
    let forward = CapturedForward::new(layout, |m: &N, x: N::Input| m.forward(x));
    assert!(!forward.is_looped(model, &input).unwrap());
    let one_by_one = forward.looped(model, draws.clone(), &input).unwrap();
    let together = forward.in_one_pass(model, draws.clone(), &input).unwrap();
    assert_eq!(together.dims(), [3, examples, 3]);
    close(
        &values(&together),
        &values(&one_by_one),
        "draws in one pass",
    );
    let some = forward.outputs(model, draws.clone(), &input).unwrap();
    close(&values(&some), &values(&one_by_one), "draws");
    differentiated(model, &batch, draws);
}

/// The gradients at all draws by one backward pass equal those by one pass per draw.
#[track_caller]
fn differentiated<N: Network>(model: &N, batch: &(N::Input, Tensor<1, Int>), draws: Tensor<2>) {
    let layout = Arc::new(Layout::new(model, &ParamGroup::all()).unwrap());
    let captured = CapturedLoss::new(layout.clone(), |m: &N, batch| m.losses(batch));
    let found = captured.gradients(model, draws.clone(), batch).unwrap();
    let found = found.expect("every operation carries draws");
    assert!(found.outside.is_empty());
    for (draw, pieces) in draws.iter_dim(0).zip(found.pieces) {
        // Frozen batch norm behaves as in inference.
        let weights = draw.reshape([layout.len()]);
        let leaves = layout
            .write_leaves(model.clone().freeze(), weights)
            .unwrap();
        let gradients = leaves.losses(batch.clone()).mean().backward();
        let mut gradients = GradientsParams::from_grads(gradients, &leaves);
        let expected = layout.gradient_parts(&leaves, &mut gradients).unwrap();
        let joined = |pieces: Vec<Tensor<1>>| values(&Tensor::cat(pieces, 0));
        close(&joined(pieces), &joined(expected), "gradients at a draw");
    }
}

#[derive(Module, Debug)]
struct Mlp {
    layers: Vec<Linear>,
}

impl Network for Mlp {
    type Input = Tensor<2>;

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let last = self.layers.len() - 1;
        let hidden = self.layers[..last].iter();
        let hidden = hidden.fold(x, |x, layer| relu(layer.forward(x)));
        self.layers[last].forward(hidden)
    }
}

#[test]
fn a_multi_layer_perceptron() {
    let sizes = [6, 8, 8, 3];
    let layers = sizes
        .windows(2)
        .map(|w| LinearConfig::new(w[0], w[1]).init(&device()));
    let layers = layers.collect();
    checked(&Mlp { layers }, tensor(1, [7, 6]), 7);
}

#[derive(Module, Debug)]
struct LeNet {
    first: Conv2d,
    second: Conv2d,
    pool: MaxPool2d,
    hidden: Linear,
    output: Linear,
}

impl Network for LeNet {
    type Input = Tensor<4>;

    fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x = self.pool.forward(relu(self.first.forward(x)));
        let x = self.pool.forward(relu(self.second.forward(x)));
        self.output
            .forward(relu(self.hidden.forward(x.flatten::<2>(1, 3))))
    }
}

#[test]
fn a_le_net() {
    let device = device();
    let model = LeNet {
        first: Conv2dConfig::new([1, 4], [5, 5])
            .with_padding(PaddingConfig2d::Same)
            .init(&device),
        second: Conv2dConfig::new([4, 6], [3, 3]).init(&device),
        pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
        hidden: LinearConfig::new(6 * 2 * 2, 10).init(&device),
        output: LinearConfig::new(10, 3).init(&device),
    };
    checked(&model, tensor(1, [5, 1, 12, 12]), 5);
}

/// Grouped and transposed convolutions, one after the other.
#[derive(Module, Debug)]
struct Grouped {
    first: Conv2d,
    second: Conv2d,
    third: ConvTranspose2d,
    output: Linear,
}

impl Network for Grouped {
    type Input = Tensor<4>;

    fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x = self.second.forward(self.first.forward(x).tanh());
        let x = self.third.forward(x.tanh());
        self.output.forward(x.mean_dim(3).flatten::<2>(1, 3))
    }
}

#[test]
fn grouped_and_transposed_convolutions() {
    let device = device();
    let model = Grouped {
        first: Conv2dConfig::new([2, 4], [3, 3])
            .with_groups(2)
            .init(&device),
        second: Conv2dConfig::new([4, 4], [2, 2])
            .with_groups(2)
            .init(&device),
        third: ConvTranspose2dConfig::new([4, 2], [2, 2])
            .with_groups(2)
            .init(&device),
        output: LinearConfig::new(2 * 4, 3).init(&device),
    };
    checked(&model, tensor(1, [4, 2, 6, 6]), 4);
}

#[derive(Module, Debug)]
struct Residual {
    first: Conv2d,
    first_norm: BatchNorm,
    second: Conv2d,
    second_norm: BatchNorm,
    shortcut: Option<Conv2d>,
}

impl Residual {
    fn new(from: usize, to: usize, stride: usize) -> Self {
        let conv = |from, stride| {
            Conv2dConfig::new([from, to], [3, 3])
                .with_stride([stride, stride])
                .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
                .with_bias(false)
                .init(&device())
        };
        let shortcut = Conv2dConfig::new([from, to], [1, 1])
            .with_stride([stride, stride])
            .init(&device());
        Self {
            first: conv(from, stride),
            first_norm: BatchNormConfig::new(to).init(&device()),
            second: conv(to, 1),
            second_norm: BatchNormConfig::new(to).init(&device()),
            shortcut: (from != to || stride != 1).then_some(shortcut),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let y = relu(self.first_norm.forward(self.first.forward(x.clone())));
        let y = self.second_norm.forward(self.second.forward(y));
        let shortcut = match &self.shortcut {
            Some(conv) => conv.forward(x),
            None => x,
        };
        relu(y + shortcut)
    }
}

/// A narrow ResNet-18.
#[derive(Module, Debug)]
struct ResNet {
    stem: Conv2d,
    norm: BatchNorm,
    blocks: Vec<Residual>,
    pool: AdaptiveAvgPool2d,
    output: Linear,
}

impl Network for ResNet {
    type Input = Tensor<4>;

    fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x = relu(self.norm.forward(self.stem.forward(x)));
        let x = self.blocks.iter().fold(x, |x, block| block.forward(x));
        self.output.forward(self.pool.forward(x).flatten::<2>(1, 3))
    }
}

#[test]
fn a_residual_network_of_eighteen_layers() {
    let widths = [
        (4, 4, 1),
        (4, 4, 1),
        (4, 8, 2),
        (8, 8, 1),
        (8, 16, 2),
        (16, 16, 1),
    ];
    let widths = widths.into_iter().chain([(16, 32, 2), (32, 32, 1)]);
    let model = ResNet {
        stem: Conv2dConfig::new([3, 4], [3, 3])
            .with_padding(PaddingConfig2d::Same)
            .with_bias(false)
            .init(&device()),
        norm: BatchNormConfig::new(4).init(&device()),
        blocks: widths
            .map(|(from, to, stride)| Residual::new(from, to, stride))
            .collect(),
        pool: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
        output: LinearConfig::new(32, 3).init(&device()),
    };
    checked(&model, tensor(1, [3, 3, 16, 16]), 3);
    // Recording changed the running statistics and restored them.
    let statistics = model.norm.running_mean.value();
    assert_eq!(statistics.device(), device());
}

#[derive(Module, Debug)]
struct Attentive {
    attention: MultiHeadAttention,
    output: Linear,
}

impl Network for Attentive {
    type Input = Tensor<3>;

    fn forward(&self, x: Tensor<3>) -> Tensor<2> {
        let x = self.attention.forward(MhaInput::self_attn(x)).context;
        self.output.forward(x.mean_dim(1).squeeze_dim::<2>(1))
    }
}

#[test]
fn attention_of_several_heads() {
    let model = Attentive {
        attention: MultiHeadAttentionConfig::new(8, 2).init(&device()),
        output: LinearConfig::new(8, 3).init(&device()),
    };
    checked(&model, tensor(1, [4, 5, 8]), 4);
}

#[derive(Module, Debug)]
struct Transformer {
    tokens: Embedding,
    places: Embedding,
    encoder: TransformerEncoder,
    output: Linear,
}

impl Network for Transformer {
    type Input = Tensor<2, Int>;

    fn forward(&self, x: Tensor<2, Int>) -> Tensor<2> {
        let [examples, length] = x.dims();
        let places = Tensor::arange(0..length as i64, &x.device())
            .reshape([1, length])
            .repeat_dim(0, examples);
        let x = self.tokens.forward(x) + self.places.forward(places);
        let x = self.encoder.forward(TransformerEncoderInput::new(x));
        self.output.forward(x.mean_dim(1).squeeze_dim::<2>(1))
    }
}

fn transformer() -> Transformer {
    let device = device();
    let encoder = TransformerEncoderConfig::new(8, 16, 2, 2).with_norm_first(true);
    Transformer {
        tokens: EmbeddingConfig::new(11, 8).init(&device),
        places: EmbeddingConfig::new(6, 8).init(&device),
        encoder: encoder.init(&device),
        output: LinearConfig::new(8, 3).init(&device),
    }
}

#[test]
fn a_transformer_encoder() {
    checked(&transformer(), integers(1, [4, 6], 11), 4);
}

#[test]
fn a_transformer_encoder_with_lora() {
    let model = adapted(transformer(), 2);
    // Two factors for the 2 embeddings, 2 · 6 matrices of the encoder, and the output.
    let layout = Layout::new(&model, &ParamGroup::all()).unwrap();
    assert_eq!(layout.entries().len(), 2 * 15, "{layout}");
    checked(&model, integers(1, [4, 6], 11), 4);
}

#[derive(Module, Debug)]
struct Recurrent {
    tokens: Embedding,
    lstm: Lstm,
    gru: Gru,
    output: Linear,
}

impl Network for Recurrent {
    type Input = Tensor<2, Int>;

    fn forward(&self, x: Tensor<2, Int>) -> Tensor<2> {
        let (x, _) = self.lstm.forward(self.tokens.forward(x), None);
        let x = self.gru.forward(x, None);
        let [examples, length, width] = x.dims();
        let last = x.narrow(1, length - 1, 1).reshape([examples, width]);
        self.output.forward(last)
    }
}

#[test]
fn an_lstm_classifier_and_a_gru() {
    let device = device();
    let model = Recurrent {
        tokens: EmbeddingConfig::new(9, 5).init(&device),
        lstm: LstmConfig::new(5, 6, true).init(&device),
        gru: GruConfig::new(6, 4, true).init(&device),
        output: LinearConfig::new(4, 3).init(&device),
    };
    checked(&model, integers(1, [4, 5], 9), 4);
}
