//! Times the gradient of convolutions for their weights, in Burn's CPU backend before and after the patch.

use std::time::Instant;

use burn_backend::ops::{ConvOptions, FloatTensorOps, ModuleOps};
use burn_backend::{Backend, TensorData};

/// A convolution of a ResNet-18 with a stem for small pictures.
struct Layer {
    channels: [usize; 2],
    size: usize,
    kernel: usize,
    stride: usize,
    /// How often it occurs.
    times: usize,
}

const fn layer(
    channels: [usize; 2],
    size: usize,
    kernel: usize,
    stride: usize,
    times: usize,
) -> Layer {
    Layer {
        channels,
        size,
        kernel,
        stride,
        times,
    }
}

const LAYERS: [Layer; 11] = [
    layer([3, 64], 32, 3, 1, 1),
    layer([64, 64], 32, 3, 1, 4),
    layer([64, 128], 32, 3, 2, 1),
    layer([64, 128], 32, 1, 2, 1),
    layer([128, 128], 16, 3, 1, 3),
    layer([128, 256], 16, 3, 2, 1),
    layer([128, 256], 16, 1, 2, 1),
    layer([256, 256], 8, 3, 1, 3),
    layer([256, 512], 8, 3, 2, 1),
    layer([256, 512], 8, 1, 2, 1),
    layer([512, 512], 4, 3, 1, 3),
];
const BATCH: usize = 16;
const REPEATS: usize = 7;

/// Milliseconds, and the gradient.
fn gradient<B: Backend>(layer: &Layer) -> (f64, Vec<f32>) {
    let device = B::Device::default();
    let tensor = |shape: [usize; 4], shift: usize| {
        let count: usize = shape.iter().product();
        let values = (0..count).map(|at| ((at + shift) * 7919 % 1000) as f32 / 500.0 - 1.0);
        B::float_from_data(TensorData::new(values.collect::<Vec<_>>(), shape), &device)
    };
    let ([from, to], kernel) = (layer.channels, layer.kernel);
    let options = ConvOptions::new([layer.stride; 2], [kernel / 2; 2], [1; 2], 1);
    let inputs = tensor([BATCH, from, layer.size, layer.size], 1);
    let weights = tensor([to, from, kernel, kernel], 2);
    let outputs = B::conv2d(inputs.clone(), weights.clone(), None, options.clone());
    let start = Instant::now();
    let found = B::conv2d_weight_backward(inputs, weights, outputs, options);
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    let data =
        burn_std::future::block_on(B::float_into_data(found)).expect("values are on the CPU");
    (milliseconds, data.to_vec().expect("values are of f32"))
}

fn median(mut values: [f64; REPEATS]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[REPEATS / 2]
}

fn main() {
    println!("channels, size, kernel, stride: before, after, ms for {BATCH} images");
    let mut sums = [0.0; 2];
    for layer in &LAYERS {
        let mut times = [[0.0; REPEATS]; 2];
        for repeat in 0..REPEATS {
            let (before, expected) = gradient::<before::Flex>(layer);
            let (after, found) = gradient::<after::Flex>(layer);
            let scale = expected
                .iter()
                .fold(0.0_f32, |most, value| most.max(value.abs()));
            let differences = expected
                .iter()
                .zip(&found)
                .map(|(one, other)| (one - other).abs());
            let largest = differences.fold(0.0_f32, f32::max);
            assert!(largest < 1e-4 * scale, "{largest} of {scale}");
            [times[0][repeat], times[1][repeat]] = [before, after];
        }
        let [before, after] = times.map(median);
        let Layer {
            channels,
            size,
            kernel,
            stride,
            ..
        } = layer;
        println!("{channels:?}, {size}, {kernel}, {stride}: {before:.2}, {after:.2}");
        sums[0] += before * layer.times as f64;
        sums[1] += after * layer.times as f64;
    }
    println!(
        "all convolutions of the network: {:.0}, {:.0}",
        sums[0], sums[1]
    );
}
