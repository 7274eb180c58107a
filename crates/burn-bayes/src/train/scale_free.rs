//! Weights whose scale changes no loss: those whose outputs batch norm divides by their deviations.
//!
//! A prior has nothing to hold against there: it shrinks such weights until the steps of an optimiser are as large as they
//! are, and every step destroys what was learned. Weights w with the gradient g of a loss that does not depend on their scale
//! have ⟨g, w⟩ = 0 (Euler); for others ⟨g, w⟩² is about Σ g²w² or more.
//!
//! γ and β of a batch norm whose outputs reach another one by rectifiers and layers without bias have a common scale that
//! changes nothing, so the vectors of a layer count as one parameter.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn::train::TrainStep;
use burn_bayes_graph::ModulePath;

use crate::predict::with_dropout;

/// ⟨g, w⟩² is below this part of Σ g²w². It is not zero, because batch norm adds a small number to variances: on a ResNet-18 it
/// is 10⁻⁷. Of ordinary parameters, one in a hundred passes by chance, which does no harm.
const SMALL: f64 = 1e-4;

/// The paths of the parameters of a model with batch norm whose scale changes no loss of this mini-batch in training mode.
/// The model is not changed.
pub(crate) fn scale_free<M: TrainStep + Module>(model: &M, batch: M::Input) -> Vec<String> {
    // `valid` and `train` copy the running statistics, which clones would share.
    let model = with_dropout(model.valid().train(), false);
    let mut products = Products {
        gradients: TrainStep::step(&model, batch).grads,
        path: ModulePath::default(),
        found: BTreeMap::new(),
    };
    model.visit(&mut products);
    let found = products.found.into_values();
    let free = found.filter(|found| found.product.powi(2) < SMALL * found.squares);
    free.flat_map(|found| found.paths).collect()
}

struct Products {
    gradients: GradientsParams,
    path: ModulePath,
    /// By the path of a parameter, or of a layer for its vectors.
    found: BTreeMap<String, Product>,
}

#[derive(Default)]
struct Product {
    paths: Vec<String>,
    /// ⟨g, w⟩.
    product: f64,
    /// Σ g²w².
    squares: f64,
}

impl ModuleVisitor for Products {
    burn_bayes_graph::track_path!(path);

    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        let Some(gradient) = self.gradients.get::<R>(param.id) else {
            return;
        };
        let products = gradient.without_autodiff() * param.val().without_autodiff();
        let path = self.path.as_str();
        let layer = path.rsplit_once('.').map_or("", |(layer, _)| layer);
        let key = if R == 1 { layer } else { path };
        let found = self.found.entry(key.to_owned()).or_default();
        found.paths.push(path.to_owned());
        found.product += products.clone().sum().into_scalar::<f64>();
        found.squares += products.square().sum().into_scalar::<f64>();
    }
}

#[cfg(test)]
mod tests {
    use burn::module::ParamGroup;
    use burn::nn::conv::{Conv2d, Conv2dConfig};
    use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
    use burn::tensor::activation::relu;
    use burn::tensor::{Device, Int};
    use burn_bayes_graph::Layout;

    use super::*;
    use crate::Supervised;
    use crate::likelihood::Likelihood;
    use crate::noise::Noise;

    #[derive(Module, Debug)]
    struct Net {
        first: Conv2d,
        norm: BatchNorm,
        second: Conv2d,
        hidden: Linear,
        last_norm: BatchNorm,
        last: Linear,
    }

    /// `second` has a bias or none.
    fn net(has_bias: bool, seed: u64, device: &Device) -> Net {
        let convolution = |from| Conv2dConfig::new([from, 4], [3, 3]);
        let net = Net {
            first: convolution(1).with_bias(false).init(device),
            norm: BatchNormConfig::new(4).init(device),
            second: convolution(4).with_bias(has_bias).init(device),
            hidden: LinearConfig::new(4, 8).init(device),
            last_norm: BatchNormConfig::new(8).init(device),
            last: LinearConfig::new(8, 3).init(device),
        };
        let layout = Layout::new(&net, &ParamGroup::all()).unwrap();
        let weights = Noise::new(seed).normal(layout.len(), &device.clone().inner());
        layout.write(net, weights).unwrap()
    }

    fn batch(device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
        let images = Noise::new(1).normal(8 * 36, device).reshape([8, 1, 6, 6]);
        (images, Tensor::arange(0..8, device).remainder_scalar(3))
    }

    #[test]
    fn weights_before_batch_norm_are_found_and_no_others() {
        let device = Device::default().autodiff();
        let forward = |net: &Net, x: Tensor<4>| {
            let x = relu(net.norm.forward(net.first.forward(x)));
            let x = relu(net.second.forward(x)).mean_dims(&[2, 3]).flatten(1, 3);
            net.last
                .forward(net.last_norm.forward(net.hidden.forward(x)))
        };
        for seed in 0..5 {
            for has_bias in [true, false] {
                let net = net(has_bias, seed, &device);
                let statistics = || net.norm.running_mean.value_sync().into_data();
                let before = statistics();
                let model = Supervised::new(net.clone(), forward, Likelihood::Categorical);
                let found = scale_free(&model, batch(&device));
                let weights = ["first.weight", "hidden.weight"];
                let with_norm = [
                    "first.weight",
                    "hidden.weight",
                    "norm.gamma",
                    "norm.beta",
                    "second.weight",
                ];
                let expected = if has_bias { &weights[..] } else { &with_norm };
                assert_eq!(found, expected, "{seed} {has_bias}");
                assert_eq!(statistics(), before);
            }
        }
    }
}
