//! A network whose weights come from PyTorch. This is ordinary Burn code.

#[cfg(test)]
mod tests;

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{AvgPool2d, AvgPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};

use crate::Glyphs;

// ANCHOR: model
/// A network for [`Glyphs`]. The fields have the names of the layers in PyTorch.
#[derive(Module, Debug)]
pub struct DigitNet {
    conv1: Conv2d,
    bn1: BatchNorm,
    pool: AvgPool2d,
    conv2: Conv2d,
    bn2: BatchNorm,
    /// The last layer.
    pub fc: Linear,
}

impl DigitNet {
    /// The number of outputs of the layer before the last.
    pub const FEATURES: usize = 16 * 3 * 2;

    /// A network with random weights.
    pub fn new(classes: usize, device: &Device) -> Self {
        Self {
            conv1: Conv2dConfig::new([1, 8], [3, 3]).init(device),
            bn1: BatchNormConfig::new(8).init(device),
            pool: AvgPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            conv2: Conv2dConfig::new([8, 16], [2, 2]).init(device),
            bn2: BatchNormConfig::new(16).init(device),
            fc: LinearConfig::new(Self::FEATURES, classes).init(device),
        }
    }

    /// What the last layer sees, `[rows, FEATURES]`, of pixels `[rows, Glyphs::PIXELS]`.
    pub fn features(&self, pixels: Tensor<2>) -> Tensor<2> {
        let ([rows, _], [height, width]) = (pixels.dims(), Glyphs::SHAPE);
        let images = pixels.reshape([rows, 1, height, width]);
        let hidden = relu(self.bn1.forward(self.conv1.forward(images)));
        let hidden = self.conv2.forward(self.pool.forward(hidden));
        relu(self.bn2.forward(hidden)).flatten(1, 3)
    }

    /// Logits, `[rows, classes]`.
    pub fn forward(&self, pixels: Tensor<2>) -> Tensor<2> {
        self.fc.forward(self.features(pixels))
    }
}
// ANCHOR_END: model
