//! The loss of regression as a negative log-likelihood.
//!
//! The likelihood determines the weight of the data relative to the prior, so the scale of the loss
//! matters: it must be the mean over rows of −log p(y | x, θ), in nats. For Gaussian noise of
//! precision β and T targets per row,
//!
//!   ℓ = ½ β Σ_t (y_t − f_t)² + ½ T log(2π/β).
//!
//! Burn's `MseLoss` is the mean of (y − f)² over rows **and** columns: up to a constant this is ℓ
//! with β = 2/T, independent of the actual noise. With one target, β = 2 is noise with standard
//! deviation 0.71. For classification Burn's `CrossEntropyLoss` (without weights, smoothing or
//! padding) is already the mean negative log-likelihood.

use std::f64::consts::PI;

use burn::module::Module;
use burn::tensor::Tensor;
use burn_bayes_graph::losses::gaussian;

/// The mean negative log-likelihood of real targets under Gaussian noise, in nats.
///
/// `MseLoss` would fix the noise precision at 2 divided by the number of targets, and so the width
/// of the posterior. For classification use Burn's `CrossEntropyLoss`.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_bayes::GaussianNll;
///
/// let device = Device::default();
/// let outputs = Tensor::<2>::from_data([[1.0], [2.0]], &device);
/// let targets = Tensor::<2>::from_data([[1.5], [2.0]], &device);
/// // Targets are measured to within 0.1: β = 1/0.1².
/// let loss = GaussianNll::new(100.0).forward(outputs, targets);
/// assert_eq!(loss.dims(), [1]);
/// ```
#[derive(Module, Debug)]
pub struct GaussianNll {
    /// β = 1/σ², the precision of the noise on the scale of the targets.
    pub noise_precision: f64,
}

impl GaussianNll {
    /// The loss for this noise precision.
    ///
    /// # Panics
    ///
    /// If the precision is not finite and above zero.
    pub fn new(noise_precision: f64) -> Self {
        assert!(
            noise_precision.is_finite() && noise_precision > 0.0,
            "noise_precision is {noise_precision}; it must be finite and above zero"
        );
        Self { noise_precision }
    }

    /// The mean over the first axis (rows) of the sum over all other axes.
    ///
    /// # Shapes
    ///
    /// - outputs: `[rows, targets]`
    /// - targets: `[rows, targets]`
    pub fn forward<const D: usize>(&self, outputs: Tensor<D>, targets: Tensor<D>) -> Tensor<1> {
        let rows = outputs.dims()[0] as f64;
        let values = outputs.shape().num_elements() as f64;
        (targets - outputs)
            .square()
            .sum()
            .mul_scalar(0.5 * self.noise_precision / rows)
            .add_scalar(values / rows * self.log_partition())
    }

    /// The loss of every row, `[rows]`, for [`ExampleLoss`](crate::ExampleLoss).
    ///
    /// # Shapes
    ///
    /// - outputs: `[rows, targets]`
    /// - targets: `[rows, targets]`
    pub fn per_row(&self, outputs: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
        gaussian(outputs, targets, self.noise_precision)
    }

    /// ½ log(2π/β).
    fn log_partition(&self) -> f64 {
        0.5 * (2.0 * PI / self.noise_precision).ln()
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::metric::testing::assert_close;

    fn value(loss: Tensor<1>) -> f64 {
        loss.into_scalar::<f64>()
    }

    #[test]
    fn hand_worked_value() {
        let device = Device::default();
        let outputs = Tensor::<2>::from_data([[1.0, 0.0], [2.0, 1.0]], &device);
        let targets = Tensor::<2>::from_data([[2.0, 0.0], [2.0, 3.0]], &device);
        // β = 4: rows cost 2·1 and 2·4, and each log(2π/4) for its two targets.
        let expected = 0.5 * (2.0 + 8.0) + (2.0 * PI / 4.0).ln();
        let loss = GaussianNll::new(4.0).forward(outputs, targets);
        assert_close(value(loss), expected, 4);
    }

    #[test]
    fn the_mean_over_rows_is_the_loss() {
        let device = Device::default();
        let outputs = Tensor::<2>::from_data([[1.0, 0.0], [2.0, 1.0]], &device);
        let targets = Tensor::<2>::from_data([[2.0, 0.0], [2.0, 3.0]], &device);
        let likelihood = GaussianNll::new(4.0);
        let rows = likelihood.per_row(outputs.clone(), targets.clone());
        assert_eq!(rows.dims(), [2]);
        let difference = rows.clone().narrow(0, 1, 1) - rows.clone().narrow(0, 0, 1);
        assert_close(value(difference), 6.0, 4);
        assert_close(
            value(rows.mean()),
            value(likelihood.forward(outputs, targets)),
            4,
        );
    }

    #[test]
    fn it_is_the_likelihood_that_the_metrics_score() {
        use burn_bayes_eval::{GaussianMixture, NoisePrecision, TargetedMixture, mixture_nll};

        let device = Device::default();
        let (outputs, targets) = ([0.5, -1.0, 2.0], [1.0, -1.25, 0.0]);
        let column = |values: [f64; 3]| {
            let rows = values.map(|value| [value as f32]);
            Tensor::<2>::from_data(rows, &device)
        };
        let loss = GaussianNll::new(2.5).forward(column(outputs), column(targets));
        let mixture = GaussianMixture::new(&outputs, 1, 3, NoisePrecision::Shared(2.5)).unwrap();
        let expected = mixture_nll(&TargetedMixture::new(&mixture, &targets).unwrap());
        assert_close(value(loss), expected, 4);
    }

    #[test]
    fn the_gradient_is_scaled_by_the_precision() {
        let device = Device::default().autodiff();
        let outputs = Tensor::<2>::from_data([[1.0], [2.0]], &device).require_grad();
        let targets = Tensor::<2>::from_data([[0.0], [4.0]], &device);
        let gradients = GaussianNll::new(10.0)
            .forward(outputs.clone(), targets)
            .backward();
        // β (f − y) / rows.
        let gradient = outputs.grad(&gradients).unwrap().into_data();
        gradient.assert_eq(&[[5.0f32], [-10.0]].into(), true);
    }

    #[test]
    #[should_panic(expected = "above zero")]
    fn a_precision_of_zero_is_refused() {
        GaussianNll::new(0.0);
    }
}
