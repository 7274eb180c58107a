//! Generated mini-batches; only the magnitude of the numbers matters.

use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_bayes::Noise;

use crate::models::{Images, Labelled, Measured};

/// Rows of standard normals with alternating classes.
pub fn classification_batch(
    rows: usize,
    features: usize,
    classes: usize,
    device: &Device,
) -> Labelled {
    let [inputs] = normals([rows * features], device);
    Labelled {
        inputs: inputs.reshape([rows, features]),
        targets: classes_in_turn(rows, classes, device),
    }
}

/// Rows of standard normals with standard normal targets.
pub fn regression_batch(rows: usize, features: usize, device: &Device) -> Measured {
    let [inputs, targets] = normals([rows * features, rows], device);
    Measured {
        inputs: inputs.reshape([rows, features]),
        targets: targets.reshape([rows, 1]),
    }
}

/// Images of standard normals with alternating classes.
pub fn image_batch(
    rows: usize,
    [channels, side]: [usize; 2],
    classes: usize,
    device: &Device,
) -> Images {
    let [inputs] = normals([rows * channels * side * side], device);
    Images {
        inputs: inputs.reshape([rows, channels, side, side]),
        targets: classes_in_turn(rows, classes, device),
    }
}

fn normals<const COUNT: usize>(lengths: [usize; COUNT], device: &Device) -> [Tensor<1>; COUNT] {
    let mut stream = 0;
    lengths.map(|length| {
        stream += 1;
        let values = Noise::new(11).fold(stream).normal(length, device);
        Tensor::from_data(values.into_data(), device)
    })
}

fn classes_in_turn(rows: usize, classes: usize, device: &Device) -> Tensor<1, Int> {
    let labels: Vec<i64> = (0..rows).map(|row| (row % classes) as i64).collect();
    Tensor::from_data(TensorData::new(labels, [rows]), device)
}
