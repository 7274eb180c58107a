//! Convolutions whose windows are not copied, against Burn's own.

use burn::module::{Module, ParamGroup};
use burn::nn::conv::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Conv3d, Conv3dConfig};
use burn::nn::{PaddingConfig1d, PaddingConfig2d, PaddingConfig3d};
use burn::tensor::{Device, Tensor, TensorData};

use crate::{CapturedLoss, Layout};

#[derive(Module, Debug)]
struct Net {
    line: Conv1d,
    image: Conv2d,
    grouped: Conv2d,
    stepped: Conv2d,
    body: Conv3d,
}

/// Numbers in [−½, ½) without a pattern.
fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let number = |index: usize| {
        let mixed = (index as u64 + 1 + (seed << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..len).map(number).collect()
}

const SHAPE: [usize; 4] = [2, 8, 32, 32];

/// Four shapes of the same numbers: a sequence, an image, and a body.
fn losses(net: &Net, x: Tensor<4>) -> Tensor<1> {
    let [rows, ..] = SHAPE;
    let line = net.line.forward(x.clone().reshape([rows, 8, 1024])).tanh();
    let image = net.image.forward(x.clone()).tanh();
    let image = net.grouped.forward(image).tanh();
    let image = net.stepped.forward(image).tanh();
    let body = net.body.forward(x.reshape([rows, 8, 4, 16, 16])).tanh();
    let sums = [
        line.square().sum_dim(2).sum_dim(1).reshape([rows]),
        image
            .square()
            .sum_dim(3)
            .sum_dim(2)
            .sum_dim(1)
            .reshape([rows]),
        body.reshape([rows as i32, -1])
            .square()
            .sum_dim(1)
            .reshape([rows]),
    ];
    let [line, image, body] = sums;
    line + image * 0.7 + body * 0.3
}

#[test]
fn large_convolutions_are_sums_of_shifted_products() {
    let device = Device::default().autodiff();
    let net = Net {
        line: Conv1dConfig::new(8, 4, 13)
            .with_padding(PaddingConfig1d::Explicit(5, 5))
            .with_dilation(2)
            .init(&device),
        image: Conv2dConfig::new([8, 6], [3, 5])
            .with_padding(PaddingConfig2d::Explicit(1, 2, 1, 2))
            .with_dilation([1, 2])
            .init(&device),
        grouped: Conv2dConfig::new([6, 4], [5, 5])
            .with_groups(2)
            .init(&device),
        stepped: Conv2dConfig::new([4, 3], [3, 3])
            .with_stride([2, 2])
            .init(&device),
        body: Conv3dConfig::new([8, 4], [3, 3, 3])
            .with_padding(PaddingConfig3d::Explicit(1, 1, 1))
            .init(&device),
    };
    let layout = Layout::new(&net, &ParamGroup::all()).unwrap();
    let weights = numbers(1, layout.len());
    let weights = Tensor::<1>::from_data(
        TensorData::new(weights, [layout.len()]),
        &device.clone().inner(),
    );
    let data = TensorData::new(numbers(2, SHAPE.iter().product()), SHAPE);
    let x = Tensor::<4>::from_data(data, &device);
    let captured = CapturedLoss::new(layout.clone().into(), losses).without_self_check();
    let draws = weights.clone().unsqueeze::<2>();
    let found = captured.gradients(&net, draws, &x).unwrap();
    let found = found.expect("the loss can be compiled");
    let direct = layout.write_leaves(net, weights).unwrap();
    let loss = losses(&direct, x).mean();
    let mut expected = burn::optim::GradientsParams::from_grads(loss.backward(), &direct);
    let expected = layout.flatten_gradients(&direct, &mut expected).unwrap();
    let values = |tensor: Tensor<1>| tensor.into_data().try_into_vec::<f32>().unwrap();
    let found = values(Tensor::cat(found.pieces[0].clone(), 0));
    let expected = values(expected);
    for entry in layout.entries() {
        let range = entry.offset..entry.offset + entry.len();
        let (found, expected) = (&found[range.clone()], &expected[range]);
        let largest = expected
            .iter()
            .fold(0.0_f32, |most, value| most.max(value.abs()));
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() < 1e-5 * largest,
                "{}: {found} instead of {expected}",
                entry.path
            );
        }
    }
}
