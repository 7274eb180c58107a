//! ResNet-18 with the names that torchvision gives its layers. This is ordinary Burn code.

#[cfg(test)]
mod tests;

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};

// ANCHOR: model
/// ResNet-18 for pictures of three colours.
#[derive(Module, Debug)]
pub struct ResNet {
    conv1: Conv2d,
    bn1: BatchNorm,
    maxpool: MaxPool2d,
    layer1: Vec<Block>,
    layer2: Vec<Block>,
    layer3: Vec<Block>,
    layer4: Vec<Block>,
    avgpool: AdaptiveAvgPool2d,
    /// The last layer.
    pub fc: Linear,
}

#[derive(Module, Debug)]
struct Block {
    conv1: Conv2d,
    bn1: BatchNorm,
    conv2: Conv2d,
    bn2: BatchNorm,
    downsample: Option<(Conv2d, BatchNorm)>,
}
// ANCHOR_END: model

impl ResNet {
    /// The width of torchvision's `resnet18`: the channels after the first convolution.
    pub const WIDTH: usize = 64;

    /// A network with random weights.
    pub fn new(width: usize, classes: usize, device: &Device) -> Self {
        let stage = |before: usize, after: usize| {
            let stride = if before == after { 1 } else { 2 };
            let blocks = [(before, stride), (after, 1)].into_iter();
            blocks
                .map(|(before, stride)| Block::new(before, after, stride, device))
                .collect()
        };
        Self {
            conv1: convolution(3, width, 7, 2, device),
            bn1: BatchNormConfig::new(width).init(device),
            maxpool: MaxPool2dConfig::new([3, 3])
                .with_strides([2, 2])
                .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
                .init(),
            layer1: stage(width, width),
            layer2: stage(width, 2 * width),
            layer3: stage(2 * width, 4 * width),
            layer4: stage(4 * width, 8 * width),
            avgpool: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            fc: LinearConfig::new(8 * width, classes).init(device),
        }
    }

    /// What the last layer sees, `[rows, 8 width]`, of pictures `[rows, 3, height, width]`.
    pub fn features(&self, images: Tensor<4>) -> Tensor<2> {
        let hidden = relu(self.bn1.forward(self.conv1.forward(images)));
        let stages = [&self.layer1, &self.layer2, &self.layer3, &self.layer4];
        let blocks = stages.into_iter().flatten();
        let hidden = blocks.fold(self.maxpool.forward(hidden), |x, block| block.forward(x));
        self.avgpool.forward(hidden).flatten(1, 3)
    }

    /// Logits, `[rows, classes]`.
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        self.fc.forward(self.features(images))
    }
}

impl Block {
    fn new(before: usize, after: usize, stride: usize, device: &Device) -> Self {
        let norm = || BatchNormConfig::new(after).init(device);
        let shortcut = || (convolution(before, after, 1, stride, device), norm());
        Self {
            conv1: convolution(before, after, 3, stride, device),
            bn1: norm(),
            conv2: convolution(after, after, 3, 1, device),
            bn2: norm(),
            downsample: (before != after).then(shortcut),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let hidden = relu(self.bn1.forward(self.conv1.forward(x.clone())));
        let hidden = self.bn2.forward(self.conv2.forward(hidden));
        let passed = match &self.downsample {
            Some((convolution, norm)) => norm.forward(convolution.forward(x)),
            None => x,
        };
        relu(hidden + passed)
    }
}

/// A convolution without bias, which leaves a picture as large as it is, divided by the stride.
fn convolution(before: usize, after: usize, side: usize, stride: usize, device: &Device) -> Conv2d {
    let margin = side / 2;
    Conv2dConfig::new([before, after], [side, side])
        .with_stride([stride, stride])
        .with_padding(PaddingConfig2d::Explicit(margin, margin, margin, margin))
        .with_bias(false)
        .init(device)
}
