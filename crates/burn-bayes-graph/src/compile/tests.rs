//! Compiled pooling, and convolutions whose windows are not copied, against Burn's own.

mod training;

use burn::module::{Module, Param, ParamGroup};
use burn::nn::conv::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Conv3d, Conv3dConfig};
use burn::nn::{PRelu, PReluConfig, PaddingConfig1d, PaddingConfig2d, PaddingConfig3d};
use burn::tensor::activation::hard_sigmoid;
use burn::tensor::module::{
    adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, avg_pool1d, avg_pool2d,
    max_pool1d, max_pool2d,
};
use burn::tensor::ops::{AvgPoolOptions, MaxPoolOptions};
use burn::tensor::{Device, FloatDType, IntDType, Tensor, TensorData};

use crate::{CapturedLoss, Layout};

/// Numbers in [−½, ½) without a pattern.
fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let number = |index: usize| {
        let mixed = (index as u64 + 1 + (seed << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..len).map(number).collect()
}

fn tensor<const R: usize>(numbers: Vec<f32>, shape: [usize; R]) -> Tensor<R> {
    let device = Device::default().autodiff();
    Tensor::from_data(TensorData::new(numbers, shape), &device)
}

/// Compares a compiled loss and its gradient at these weights with those of Burn.
#[track_caller]
fn compared<M: Module>(
    name: &str,
    net: &M,
    weights: Vec<f32>,
    x: &Tensor<4>,
    losses: impl Fn(&M, Tensor<4>) -> Tensor<1> + Clone + Send + Sync + 'static,
) {
    let layout = Layout::new(net, &ParamGroup::all()).unwrap();
    let weights = tensor(weights, [layout.len()]).inner();
    let captured = CapturedLoss::new(layout.clone().into(), losses.clone()).without_self_check();
    let draws = weights.clone().unsqueeze::<2>();
    let found = captured.gradients(net, draws, x).unwrap();
    let found = found.unwrap_or_else(|| panic!("{name} cannot be compiled"));
    let direct = layout.write_leaves(net.clone(), weights).unwrap();
    let expected_losses = losses(&direct, x.clone());
    let gradients = expected_losses.clone().mean().backward();
    let mut expected = burn::optim::GradientsParams::from_grads(gradients, &direct);
    let expected = layout.flatten_gradients(&direct, &mut expected).unwrap();
    let values = |tensor: Tensor<1>| tensor.into_data().try_into_vec::<f32>().unwrap();
    let close = |what: &str, found: &[f32], expected: &[f32]| {
        let largest = expected
            .iter()
            .fold(0.0_f32, |most, value| most.max(value.abs()));
        assert!(largest > 0.0, "{name}, {what}: the test shows nothing");
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() < 1e-5 * largest,
                "{name}, {what}: {found} instead of {expected}"
            );
        }
    };
    let found_losses = values(found.losses.squeeze_dim(0));
    close("losses", &found_losses, &values(expected_losses.inner()));
    let found = values(Tensor::cat(found.pieces[0].clone(), 0));
    let expected = values(expected);
    for entry in layout.entries() {
        let range = entry.offset..entry.offset + entry.len();
        close(&entry.path, &found[range.clone()], &expected[range]);
    }
}

#[derive(Module, Debug)]
struct Net {
    line: Conv1d,
    image: Conv2d,
    grouped: Conv2d,
    stepped: Conv2d,
    body: Conv3d,
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
        image: Conv2dConfig::new([8, 16], [3, 5])
            .with_padding(PaddingConfig2d::Explicit(1, 2, 1, 2))
            .with_dilation([1, 2])
            .init(&device),
        grouped: Conv2dConfig::new([16, 4], [5, 5])
            .with_groups(2)
            .init(&device),
        stepped: Conv2dConfig::new([4, 3], [3, 3])
            .with_stride([2, 2])
            .init(&device),
        body: Conv3dConfig::new([8, 4], [3, 3, 3])
            .with_padding(PaddingConfig3d::Explicit(1, 1, 1))
            .init(&device),
    };
    let x = tensor(numbers(2, SHAPE.iter().product()), SHAPE);
    compared("large", &net, numbers(1, net.num_params()), &x, losses);
}

/// Convolutions with steps of an input that is trained.
#[derive(Module, Debug)]
struct Stepped {
    input: Param<Tensor<3>>,
    line: Conv1d,
    grouped: Conv2d,
    dilated: Conv2d,
    narrow: Conv2d,
    body: Conv3d,
}

/// More rows than a block has.
const STEPPED: [usize; 4] = [5, 8, 125, 112];

fn stepped_losses(net: &Stepped, x: Tensor<4>) -> Tensor<1> {
    let rows = x.dims()[0];
    let x = x + net.input.val().unsqueeze();
    let line = net.line.forward(x.clone().reshape([rows, 8, 14_000]));
    let images = [&net.grouped, &net.dilated, &net.narrow].map(|conv| conv.forward(x.clone()));
    let body = net.body.forward(x.reshape([rows, 8, 25, 20, 28]));
    let [grouped, dilated, narrow] = images.map(|image| image.flatten(1, 3));
    let all = [
        line.flatten(1, 2),
        grouped,
        dilated,
        narrow,
        body.flatten(1, 4),
    ];
    let all = Tensor::<2>::cat(all.to_vec(), 1).tanh();
    all.square().sum_dim(1).squeeze_dim(1)
}

#[test]
fn large_convolutions_with_steps_are_compiled() {
    let device = Device::default().autodiff();
    let [_, channels, height, width] = STEPPED;
    let net = Stepped {
        input: Param::from_tensor(Tensor::zeros([channels, height, width], &device)),
        line: Conv1dConfig::new(8, 4, 13)
            .with_stride(3)
            .with_padding(PaddingConfig1d::Explicit(5, 4))
            .with_dilation(2)
            .init(&device),
        // Steps that do not divide the lengths.
        grouped: Conv2dConfig::new([8, 4], [5, 5])
            .with_stride([2, 3])
            .with_padding(PaddingConfig2d::Explicit(1, 2, 1, 2))
            .with_dilation([1, 2])
            .with_groups(2)
            .init(&device),
        dilated: Conv2dConfig::new([8, 3], [5, 5])
            .with_stride([4, 2])
            .with_dilation([2, 4])
            .init(&device),
        // An axis with fewer entries than steps.
        narrow: Conv2dConfig::new([8, 2], [1, 11])
            .with_stride([2, 2])
            .with_bias(false)
            .init(&device),
        body: Conv3dConfig::new([8, 4], [3, 3, 3])
            .with_stride([2, 2, 2])
            .init(&device),
    };
    let x = tensor(numbers(2, STEPPED.iter().product()), STEPPED);
    let weights = numbers(1, net.num_params());
    compared("stepped", &net, weights, &x, stepped_losses);
}

/// An input that is trained, so that its gradient shows which entry of a window has it.
#[derive(Module, Debug)]
struct Input {
    input: Param<Tensor<3>>,
}

/// More rows than a block has.
const POOLED: [usize; 4] = [300, 2, 7, 9];

fn line(x: Tensor<4>) -> Tensor<3> {
    x.flatten(2, 3)
}

type Layer = fn(Tensor<4>) -> Tensor<2>;

const LAYERS: [(&str, Layer); 16] = [
    ("largest", |x| {
        max_pool2d(x, MaxPoolOptions::new([2, 2])).flatten(1, 3)
    }),
    ("largest, overlapping", |x| {
        let options = MaxPoolOptions::new([3, 3]).with_stride([1, 2]);
        max_pool2d(x, options.with_padding([1, 1])).flatten(1, 3)
    }),
    ("largest, dilated", |x| {
        let options = MaxPoolOptions::new([3, 2]).with_stride([2, 3]);
        let options = options.with_padding([1, 1]).with_dilation([1, 3]);
        max_pool2d(x, options).flatten(1, 3)
    }),
    ("largest, beyond the end", |x| {
        let options = MaxPoolOptions::new([2, 2]).with_ceil_mode(true);
        max_pool2d(x, options).flatten(1, 3)
    }),
    ("largest, beyond the padding", |x| {
        let options = MaxPoolOptions::new([3, 4]).with_stride([3, 3]);
        let options = options.with_padding([1, 1]).with_ceil_mode(true);
        max_pool2d(x, options).flatten(1, 3)
    }),
    ("largest of a line", |x| {
        max_pool1d(line(x), MaxPoolOptions::new([4])).flatten(1, 2)
    }),
    ("largest of a line, dilated", |x| {
        let options = MaxPoolOptions::new([4]).with_stride([3]).with_dilation([2]);
        let options = options.with_padding([2]).with_ceil_mode(true);
        max_pool1d(line(x), options).flatten(1, 2)
    }),
    ("mean", |x| {
        avg_pool2d(x, AvgPoolOptions::new([2, 3])).flatten(1, 3)
    }),
    ("mean with padding", |x| {
        let options = AvgPoolOptions::new([3, 2]).with_stride([2, 1]);
        avg_pool2d(x, options.with_padding([1, 1])).flatten(1, 3)
    }),
    ("mean without padding, beyond it", |x| {
        let options = AvgPoolOptions::new([3, 3]).with_stride([3, 3]);
        let options = options.with_padding([1, 1]).with_ceil_mode(true);
        avg_pool2d(x, options.with_count_include_pad(false)).flatten(1, 3)
    }),
    ("mean with padding, beyond it", |x| {
        let options = AvgPoolOptions::new([3, 4]).with_stride([3, 3]);
        let options = options.with_padding([1, 1]).with_ceil_mode(true);
        avg_pool2d(x, options).flatten(1, 3)
    }),
    ("mean of a line", |x| {
        let options = AvgPoolOptions::new([4]).with_stride([3]);
        avg_pool1d(line(x), options.with_padding([2])).flatten(1, 2)
    }),
    ("means of equal windows", |x| {
        adaptive_avg_pool2d(x, [1, 3]).flatten(1, 3)
    }),
    ("means of unequal windows", |x| {
        adaptive_avg_pool2d(x, [3, 4]).flatten(1, 3)
    }),
    ("means of unequal windows of a line", |x| {
        adaptive_avg_pool1d(line(x), 11).flatten(1, 2)
    }),
    ("means of unequal windows of a body", |x| {
        let [rows, channels, ..] = x.dims();
        let body = x.reshape([rows, channels, 7, 3, 3]);
        // More windows than entries along the last axis.
        adaptive_avg_pool3d(body, [3, 2, 5]).flatten(1, 4)
    }),
];

#[test]
fn pooling_is_compiled() {
    let [_, channels, height, width] = POOLED;
    let device = Device::default().autodiff();
    let net = Input {
        input: Param::from_tensor(Tensor::zeros([channels, height, width], &device)),
    };
    // Few different numbers: most windows have equal entries, the first of which has the gradient.
    let x = numbers(3, POOLED.iter().product());
    let x = x.into_iter().map(|number| (3.0 * number).round());
    let x = tensor(x.collect(), POOLED);
    for (name, layer) in LAYERS {
        let losses = move |net: &Input, x: Tensor<4>| {
            let pooled = layer(x + net.input.val().unsqueeze());
            (pooled.clone().tanh() + pooled.square() * 0.1)
                .sum_dim(1)
                .squeeze_dim(1)
        };
        compared(name, &net, vec![0.0; net.num_params()], &x, losses);
    }
}

#[derive(Module, Debug)]
struct Activated {
    input: Param<Tensor<3>>,
    slopes: PRelu,
}

#[test]
fn activations_with_slopes_are_compiled() {
    let [_, channels, height, width] = POOLED;
    let device = Device::default().autodiff();
    let net = Activated {
        input: Param::from_tensor(Tensor::zeros([channels, height, width], &device)),
        slopes: PReluConfig::new()
            .with_num_parameters(channels)
            .init(&device),
    };
    let x = numbers(3, POOLED.iter().product()).into_iter();
    let x = tensor(x.map(|number| 6.0 * number).collect(), POOLED);
    let losses = |net: &Activated, x: Tensor<4>| {
        let x = x + net.input.val().unsqueeze();
        let both = net.slopes.forward(x.clone()) + hard_sigmoid(x, 0.3, 0.4);
        let squares = both.square().flatten::<2>(1, 3);
        squares.sum_dim(1).squeeze_dim(1)
    };
    compared("slopes", &net, numbers(1, net.num_params()), &x, losses);
}

#[test]
fn element_types_that_programs_lack_are_not_compiled() {
    let device = Device::default().autodiff();
    let net = Input {
        input: Param::from_tensor(Tensor::zeros([1, 2, 2], &device)),
    };
    let layout = Layout::new(&net, &ParamGroup::all()).unwrap();
    type Cast = fn(Tensor<4>) -> Tensor<4>;
    let casts: [(Cast, bool); 4] = [
        (|x| x.cast(FloatDType::F32), true),
        (|x| x.cast(FloatDType::F64).cast(FloatDType::F32), false),
        (|x| x.clone() * x.int().cast(IntDType::I32).float(), true),
        (|x| x.clone() * x.int().cast(IntDType::I8).float(), false),
    ];
    for (number, (cast, is_compiled)) in casts.into_iter().enumerate() {
        let losses = move |net: &Input, x: Tensor<4>| {
            let cast = cast(x + net.input.val().unsqueeze());
            cast.square().flatten::<2>(1, 3).sum_dim(1).squeeze_dim(1)
        };
        let captured = CapturedLoss::new(layout.clone().into(), losses).only_compiled();
        let draws = layout.flatten(&net).unwrap().unsqueeze::<2>();
        let x = tensor(
            numbers(1, 20).iter().map(|of| 500.0 * of).collect(),
            [5, 1, 2, 2],
        );
        let found = captured.gradients(&net, draws, &x).unwrap();
        assert_eq!(found.is_some(), is_compiled, "{number}");
    }
}
