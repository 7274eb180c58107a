//! Whole networks.

use burn::module::Module;
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::gru::{Gru, GruConfig};
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::transformer::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{
    BatchNorm, BatchNormConfig, Embedding, EmbeddingConfig, Linear, LinearConfig, Lstm, LstmConfig,
    PaddingConfig2d,
};
use burn::tensor::activation::{log_softmax, relu};
use burn::tensor::{Int, Tensor};

use super::{exact, integers, some_loss, tensor};
use crate::support::device;

fn cross_entropy(logits: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
    let picked: Tensor<2> = log_softmax(logits, 1).gather(1, labels.unsqueeze_dim(1));
    picked.squeeze_dim::<1>(1).neg()
}

#[derive(Module, Debug)]
struct Mlp {
    layers: Vec<Linear>,
}

#[test]
fn a_multi_layer_perceptron() {
    let sizes = [6, 8, 8, 3];
    let layers = sizes
        .windows(2)
        .map(|w| LinearConfig::new(w[0], w[1]).init(&device()));
    let model = Mlp {
        layers: layers.collect(),
    };
    let batch = (tensor::<2>(1, [7, 6]), integers::<1>(2, [7], 3));
    exact(
        &model,
        &batch,
        |m: &Mlp, (x, y): (Tensor<2>, Tensor<1, Int>)| {
            let last = m.layers.len() - 1;
            let hidden = m.layers[..last]
                .iter()
                .fold(x, |x, layer| relu(layer.forward(x)));
            cross_entropy(m.layers[last].forward(hidden), y)
        },
    );
}

#[derive(Module, Debug)]
struct LeNet {
    first: Conv2d,
    second: Conv2d,
    pool: MaxPool2d,
    hidden: Linear,
    output: Linear,
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
    let batch = (tensor::<4>(1, [5, 1, 12, 12]), integers::<1>(2, [5], 3));
    exact(
        &model,
        &batch,
        |m: &LeNet, (x, y): (Tensor<4>, Tensor<1, Int>)| {
            let x = m.pool.forward(relu(m.first.forward(x)));
            let x = m.pool.forward(relu(m.second.forward(x)));
            let x = relu(m.hidden.forward(x.flatten::<2>(1, 3)));
            cross_entropy(m.output.forward(x), y)
        },
    );
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

/// ResNet-18, narrow.
#[derive(Module, Debug)]
struct ResNet {
    stem: Conv2d,
    norm: BatchNorm,
    blocks: Vec<Residual>,
    pool: AdaptiveAvgPool2d,
    output: Linear,
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
    let batch = (tensor::<4>(1, [3, 3, 16, 16]), integers::<1>(2, [3], 3));
    exact(
        &model,
        &batch,
        |m: &ResNet, (x, y): (Tensor<4>, Tensor<1, Int>)| {
            let x = relu(m.norm.forward(m.stem.forward(x)));
            let x = m.blocks.iter().fold(x, |x, block| block.forward(x));
            let x = m.pool.forward(x).flatten::<2>(1, 3);
            cross_entropy(m.output.forward(x), y)
        },
    );
    // Recording moved the running statistics and brought them back.
    let statistics = model.norm.running_mean.value();
    assert_eq!(statistics.device(), device());
}

#[test]
fn attention_of_several_heads() {
    let model = MultiHeadAttentionConfig::new(8, 2).init(&device());
    exact(
        &model,
        &tensor(1, [4, 5, 8]),
        |m: &MultiHeadAttention, x: Tensor<3>| some_loss(m.forward(MhaInput::self_attn(x)).context),
    );
}

#[derive(Module, Debug)]
struct Transformer {
    tokens: Embedding,
    places: Embedding,
    encoder: TransformerEncoder,
    output: Linear,
}

#[test]
fn a_transformer_encoder() {
    let device = device();
    let model = Transformer {
        tokens: EmbeddingConfig::new(11, 8).init(&device),
        places: EmbeddingConfig::new(6, 8).init(&device),
        encoder: TransformerEncoderConfig::new(8, 16, 2, 2)
            .with_norm_first(true)
            .init(&device),
        output: LinearConfig::new(8, 3).init(&device),
    };
    let batch = (integers::<2>(1, [4, 6], 11), integers::<1>(2, [4], 3));
    exact(
        &model,
        &batch,
        |m: &Transformer, (x, y): (Tensor<2, Int>, Tensor<1, Int>)| {
            let [examples, length] = x.dims();
            let places = Tensor::arange(0..length as i64, &x.device())
                .reshape([1, length])
                .repeat_dim(0, examples);
            let x = m.tokens.forward(x) + m.places.forward(places);
            let x = m.encoder.forward(TransformerEncoderInput::new(x));
            cross_entropy(m.output.forward(x.mean_dim(1).squeeze_dim::<2>(1)), y)
        },
    );
}

#[derive(Module, Debug)]
struct Recurrent {
    tokens: Embedding,
    lstm: Lstm,
    gru: Gru,
    output: Linear,
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
    let batch = (integers::<2>(1, [4, 5], 9), integers::<1>(2, [4], 3));
    exact(
        &model,
        &batch,
        |m: &Recurrent, (x, y): (Tensor<2, Int>, Tensor<1, Int>)| {
            let (x, _) = m.lstm.forward(m.tokens.forward(x), None);
            let x = m.gru.forward(x, None);
            let [examples, length, width] = x.dims();
            let last = x
                .slice([0..examples, length - 1..length])
                .reshape([examples, width]);
            cross_entropy(m.output.forward(last), y)
        },
    );
}
