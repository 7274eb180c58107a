//! LeNet5 with rectifiers and pooling by the maximum.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{Dropout, DropoutConfig, Initializer, Linear, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use burn_bayes::Noise;
use burn_bayes_tabular::random::generator;
use rand::Rng;

use crate::e8::network::{drawn, linear};

/// Height and width of a kernel.
const KERNEL: usize = 5;
/// Channels before, between and after the convolutions.
const CHANNELS: [usize; 3] = [1, 6, 16];
/// Sizes of the layers after the convolutions; the last one follows from the classes.
const LAYERS: [usize; 3] = [400, 120, 84];

/// LeNet5 for grey pictures of 28×28 pixels.
#[derive(Module, Debug)]
pub(super) struct LeNet {
    convolutions: [Conv2d; 2],
    pool: MaxPool2d,
    layers: [Linear; 3],
    /// After the two hidden layers.
    dropout: Option<Dropout>,
}

impl LeNet {
    /// The path of the last layer.
    pub(super) const HEAD: &str = "layers.2.";

    /// A network with first weights of its own for every `noise`, and perhaps with dropout of this probability.
    pub(super) fn new(classes: usize, dropout: Option<f64>, noise: Noise, device: &Device) -> Self {
        let mut generator = generator(noise);
        let [grey, first, second] = CHANNELS;
        let [flat, wide, narrow] = LAYERS;
        let padded = PaddingConfig2d::Explicit(2, 2, 2, 2);
        let convolutions = [
            convolution([grey, first], padded, &mut generator, device),
            convolution(
                [first, second],
                PaddingConfig2d::Valid,
                &mut generator,
                device,
            ),
        ];
        let layers = [[flat, wide], [wide, narrow], [narrow, classes]];
        Self {
            convolutions,
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            layers: layers.map(|[inputs, outputs]| linear(inputs, outputs, &mut generator, device)),
            dropout: dropout.map(|probability| DropoutConfig::new(probability).init()),
        }
    }

    /// Logits, `[rows, classes]`.
    pub(super) fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let convolutions = self.convolutions.iter();
        let hidden = convolutions.fold(images, |images, convolution| {
            self.pool.forward(relu(convolution.forward(images)))
        });
        let [wide, narrow, head] = &self.layers;
        let hidden = self.hidden(wide, hidden.flatten(1, 3));
        head.forward(self.hidden(narrow, hidden))
    }

    fn hidden(&self, layer: &Linear, inputs: Tensor<2>) -> Tensor<2> {
        let hidden = relu(layer.forward(inputs));
        match &self.dropout {
            Some(dropout) => dropout.forward(hidden),
            None => hidden,
        }
    }
}

fn convolution(
    [inputs, outputs]: [usize; 2],
    padding: PaddingConfig2d,
    generator: &mut impl Rng,
    device: &Device,
) -> Conv2d {
    let fan = inputs * KERNEL * KERNEL;
    let layer = Conv2dConfig::new([inputs, outputs], [KERNEL, KERNEL])
        .with_padding(padding)
        .with_initializer(Initializer::Zeros);
    Conv2d {
        weight: drawn([outputs, inputs, KERNEL, KERNEL], fan, generator, device),
        bias: Some(drawn([outputs], fan, generator, device)),
        ..layer.init(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_weights_of_lenet5() {
        let device = Device::default().autodiff();
        let network = LeNet::new(10, None, Noise::new(0), &device);
        assert_eq!(network.num_params(), 156 + 2416 + 48_120 + 10_164 + 850);
        let logits = network.forward(Tensor::ones([3, 1, 28, 28], &device));
        assert_eq!(logits.dims(), [3, 10]);
    }
}
