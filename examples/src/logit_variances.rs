//! Uncertainty of a linear layer in closed form, from operations that ONNX has.

use burn::tensor::{Device, Tensor, TensorData};
use burn_bayes::posterior::DenseGaussian;

// ANCHOR: variances
/// The variances of the outputs of a linear layer whose weights have a Gaussian distribution: functions of its inputs φ,
/// φᵀAφ + bᵀφ + c.
#[derive(Debug)]
pub struct LogitVariances {
    quadratic: Vec<Tensor<2>>,
    linear: Tensor<2>,
    constant: Tensor<2>,
}

impl LogitVariances {
    /// For a layer with this number of outputs, and a bias.
    pub fn new(weights: &DenseGaussian, outputs: usize, device: &Device) -> Self {
        let len = weights.dimension();
        let inputs = len / outputs - 1;
        let covariance = weights.covariance().as_slice();
        // Weight i of an output, and its bias as number `inputs`.
        let at = |output: usize, i: usize, j: usize| {
            covariance[(i * outputs + output) * len + j * outputs + output] as f32
        };
        let tensor = |rows: usize, columns: usize, value: &dyn Fn(usize, usize) -> f32| {
            let values = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
            let values: Vec<f32> = values.map(|(row, column)| value(row, column)).collect();
            Tensor::<2>::from_data(TensorData::new(values, [rows, columns]), device)
        };
        Self {
            quadratic: (0..outputs)
                .map(|output| tensor(inputs, inputs, &|i, j| at(output, i, j)))
                .collect(),
            linear: tensor(inputs, outputs, &|i, output| 2.0 * at(output, i, inputs)),
            constant: tensor(1, outputs, &|_, output| at(output, inputs, inputs)),
        }
    }

    /// The variances at inputs `[rows, inputs]`, `[rows, outputs]`.
    pub fn at(&self, inputs: &Tensor<2>) -> Tensor<2> {
        let here = |tensor: &Tensor<2>| tensor.clone().to_device(&inputs.device());
        let quadratic = self.quadratic.iter().map(|quadratic| {
            let products = inputs.clone().matmul(here(quadratic)) * inputs.clone();
            products.sum_dim(1)
        });
        let quadratic = Tensor::cat(quadratic.collect(), 1);
        quadratic + inputs.clone().matmul(here(&self.linear)) + here(&self.constant)
    }
}
// ANCHOR_END: variances
