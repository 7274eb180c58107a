//! The networks: an attention network, a mixture of densities, and a recurrent network.

use burn::module::{Module, ModuleDisplay};
use burn::nn::gru::{Gru, GruConfig};
use burn::nn::transformer::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Tensor};
use burn::train::{TrainOutput, TrainStep};
use burn_bayes::ExampleLoss;
use burn_bayes::train::TrainerModel;
use burn_bayes_tabular::network::MeanLoss;

use crate::linear_model::Batch;

/// A network with a likelihood.
pub(super) trait Network: Module + ModuleDisplay + 'static {
    /// What the table calls it.
    const NAME: &'static str;

    /// A network with random weights.
    fn new(device: &Device) -> Self;

    /// −log p(target) of every row, `[rows]`.
    fn losses(&self, batch: Batch) -> Tensor<1>;
}

/// A network as a model that trains.
#[derive(Module, Debug)]
pub(super) struct Wrapped<N: Module> {
    pub(super) network: N,
}

impl<N: Network> TrainStep for Wrapped<N> {
    type Input = Batch;
    type Output = MeanLoss;

    fn step(&self, batch: Batch) -> TrainOutput<MeanLoss> {
        self.mean_loss_step(batch)
    }
}

impl<N: Network> ExampleLoss for Wrapped<N> {
    fn example_losses(&self, batch: Batch) -> Tensor<1> {
        self.network.losses(batch)
    }

    fn example_outputs(&self, _batch: Batch, losses: Tensor<1>) -> MeanLoss {
        MeanLoss::of(losses)
    }
}

impl<N: Network> TrainerModel for Wrapped<N> {}

/// −log of the probability of the class in `targets`, `[rows, 1]`.
fn categorical(logits: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
    let picked = log_softmax(logits, 1).gather(1, targets.int());
    picked.squeeze_dim::<1>(1).neg()
}

/// A vision transformer for pictures of 8×8 pixels, in 16 patches.
#[derive(Module, Debug)]
pub(super) struct VisionTransformer {
    patches: Linear,
    places: Embedding,
    encoder: TransformerEncoder,
    output: Linear,
}

/// Pixels along a side of a picture, and of a patch.
const SIDE: usize = 8;
const PATCH: usize = 2;
const PATCHES: usize = (SIDE / PATCH) * (SIDE / PATCH);
const WIDTH: usize = 32;

impl Network for VisionTransformer {
    const NAME: &'static str = "vision transformer";

    fn new(device: &Device) -> Self {
        let encoder = TransformerEncoderConfig::new(WIDTH, 2 * WIDTH, 4, 2)
            .with_norm_first(true)
            .with_dropout(0.0);
        Self {
            patches: LinearConfig::new(PATCH * PATCH, WIDTH).init(device),
            places: EmbeddingConfig::new(PATCHES, WIDTH).init(device),
            encoder: encoder.init(device),
            output: LinearConfig::new(WIDTH, 10).init(device),
        }
    }

    fn losses(&self, batch: Batch) -> Tensor<1> {
        let rows = batch.inputs.dims()[0];
        let side = SIDE / PATCH;
        let pixels = batch.inputs.reshape([rows, side, PATCH, side, PATCH]);
        let patches = pixels
            .swap_dims(2, 3)
            .reshape([rows, PATCHES, PATCH * PATCH]);
        let places = Tensor::arange(0..PATCHES as i64, &patches.device())
            .reshape([1, PATCHES])
            .repeat_dim(0, rows);
        let x = self.patches.forward(patches) + self.places.forward(places);
        let x = self.encoder.forward(TransformerEncoderInput::new(x));
        let logits = self.output.forward(x.mean_dim(1).squeeze_dim::<2>(1));
        categorical(logits, batch.targets)
    }
}

/// A mixture density network: the weights, means and deviations of normals, given one number.
#[derive(Module, Debug)]
pub(super) struct Mdn {
    first: Linear,
    second: Linear,
    output: Linear,
}

const HIDDEN: usize = 32;
const COMPONENTS: usize = 5;

impl Network for Mdn {
    const NAME: &'static str = "mixture density network";

    fn new(device: &Device) -> Self {
        Self {
            first: LinearConfig::new(1, HIDDEN).init(device),
            second: LinearConfig::new(HIDDEN, HIDDEN).init(device),
            output: LinearConfig::new(HIDDEN, 3 * COMPONENTS).init(device),
        }
    }

    fn losses(&self, batch: Batch) -> Tensor<1> {
        let hidden = self.first.forward(batch.inputs).tanh();
        let hidden = self.second.forward(hidden).tanh();
        let outputs = self.output.forward(hidden);
        let part = |number: usize| outputs.clone().narrow(1, number * COMPONENTS, COMPONENTS);
        let log_weights = log_softmax(part(0), 1);
        let log_deviations = part(2);
        let residuals = (part(1) - batch.targets) * log_deviations.clone().neg().exp();
        let log_densities = residuals.square().mul_scalar(-0.5) - log_deviations;
        let terms = log_weights + log_densities.sub_scalar(0.5 * (2.0 * std::f64::consts::PI).ln());
        // log Σ exp, from the largest term.
        let largest = terms.clone().detach().max_dim(1);
        let sums = (terms - largest.clone()).exp().sum_dim(1).log() + largest;
        sums.squeeze_dim::<1>(1).neg()
    }
}

/// A gated recurrent unit that reads a sequence of numbers.
#[derive(Module, Debug)]
pub(super) struct Recurrent {
    gru: Gru,
    output: Linear,
}

impl Network for Recurrent {
    const NAME: &'static str = "gated recurrent unit";

    fn new(device: &Device) -> Self {
        Self {
            gru: GruConfig::new(1, 16, true).init(device),
            output: LinearConfig::new(16, 2).init(device),
        }
    }

    fn losses(&self, batch: Batch) -> Tensor<1> {
        let [rows, length] = batch.inputs.dims();
        let states = self
            .gru
            .forward(batch.inputs.reshape([rows, length, 1]), None);
        let last = states.narrow(1, length - 1, 1).squeeze_dim::<2>(1);
        categorical(self.output.forward(last), batch.targets)
    }
}
