//! Uncertainty of a linear layer in closed form, from operations that ONNX has.

use burn::tensor::{Device, Tensor, TensorData};
use burn_bayes::posterior::DenseGaussian;

// ANCHOR: variances
/// The variances of the outputs of a linear layer whose weights have a Gaussian distribution: φᵀΣφ, where the last of the
/// inputs φ is 1 for the bias.
#[derive(Debug)]
pub struct LogitVariances {
    /// Σ of every output.
    covariances: Vec<Tensor<2>>,
}

impl LogitVariances {
    /// For a layer with this number of outputs, and a bias.
    pub fn new(weights: &DenseGaussian, outputs: usize, device: &Device) -> Self {
        let inputs = weights.dimension() / outputs;
        let covariance = weights.covariance().as_slice().iter();
        let covariance: Vec<f32> = covariance.map(|&value| value as f32).collect();
        let shape = [inputs, outputs, inputs, outputs];
        let covariance = Tensor::<4>::from_data(TensorData::new(covariance, shape), device);
        let of_output = |output: usize| {
            let block = covariance.clone().narrow(1, output, 1);
            block.narrow(3, output, 1).reshape([inputs, inputs])
        };
        Self {
            covariances: (0..outputs).map(of_output).collect(),
        }
    }

    /// The variances at inputs `[rows, inputs]`, `[rows, outputs]`.
    pub fn at(&self, inputs: &Tensor<2>) -> Tensor<2> {
        let one = inputs.clone().narrow(1, 0, 1) * 0.0 + 1.0;
        let inputs = Tensor::cat(vec![inputs.clone(), one], 1);
        let of_output = |covariance: &Tensor<2>| {
            let covariance = covariance.clone().to_device(&inputs.device());
            (inputs.clone().matmul(covariance) * inputs.clone()).sum_dim(1)
        };
        Tensor::cat(self.covariances.iter().map(of_output).collect(), 1)
    }
}
// ANCHOR_END: variances
