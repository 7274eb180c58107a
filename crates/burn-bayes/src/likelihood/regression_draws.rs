//! The input of regression metrics: every draw's predictions, and the true values.

use std::sync::{Arc, OnceLock};

use burn::tensor::{Tensor, TensorReadError, Transaction};
use burn::train::RegressionOutput;
use burn::train::metric::Adaptor;
use burn_bayes_eval::{GaussianMixture, NoisePrecision, TargetedMixture};

use super::family::Likelihood;
use super::{no_such_metric, refused};

/// Predictions of one batch under several draws of the weights, and the true values.
///
/// With several target columns, the likelihood is the joint likelihood of a row's targets; the
/// other scores treat every (row, column) separately, with its own mixture. All metrics and clones
/// share one copy on the host, so the device is read once.
#[derive(Clone, Debug)]
pub struct RegressionDraws {
    outputs: Tensor<3>,
    targets: Tensor<2>,
    /// Those of the likelihood, `[draws, rows, targets]`, if it states them.
    noise_variances: Option<Tensor<3>>,
    /// Of a likelihood with several Gaussians for each prediction.
    gaussians: Option<Components>,
    read: Arc<OnceLock<TargetedDraws>>,
    /// The likelihood of a model without Gaussian noise.
    refused: Option<Likelihood>,
}

/// Means, variances and weights of several Gaussians for each prediction, `[draws · count, rows, targets]`.
#[derive(Clone, Debug)]
struct Components {
    count: usize,
    parts: [Tensor<3>; 3],
}

/// [`RegressionDraws`] on the host, checked.
#[derive(Clone, Debug)]
pub struct TargetedDraws {
    means: Vec<f64>,
    targets: Vec<f64>,
    /// One for each prediction, if the likelihood states them.
    noise_precisions: Option<Vec<f64>>,
    /// The number of Gaussians of each prediction, and their weights.
    weights: Option<(usize, Vec<f64>)>,
    draws: usize,
    columns: usize,
}

impl RegressionDraws {
    /// Predictions `[draws, rows, targets]` and the true values `[rows, targets]`.
    pub fn new(outputs: Tensor<3>, targets: Tensor<2>) -> Self {
        Self {
            outputs,
            targets,
            noise_variances: None,
            gaussians: None,
            read: Arc::default(),
            refused: None,
        }
    }

    /// With the variances of the noise, `[draws, rows, targets]`, which metrics then use instead of a precision of their
    /// own.
    #[must_use]
    pub fn with_noise_variances(self, variances: Tensor<3>) -> Self {
        Self {
            noise_variances: Some(variances),
            ..self
        }
    }

    /// With several Gaussians for each prediction, whose mean it is.
    pub(super) fn with_gaussians(self, count: usize, parts: [Tensor<3>; 3]) -> Self {
        Self {
            gaussians: Some(Components { count, parts }),
            ..self
        }
    }

    /// Those of a model without Gaussian noise, which cannot be read.
    pub(super) fn refused_for(self, likelihood: &Likelihood) -> Self {
        Self {
            refused: Some(likelihood.clone()),
            ..self
        }
    }

    /// Each draw's predictions, `[draws, rows, targets]`.
    pub fn outputs(&self) -> &Tensor<3> {
        &self.outputs
    }

    /// The true values, `[rows, targets]`.
    pub fn targets(&self) -> &Tensor<2> {
        &self.targets
    }

    /// The average over draws, `[rows, targets]`.
    pub fn average(&self) -> Tensor<2> {
        self.outputs.clone().mean_dim(0).squeeze_dim(0)
    }

    /// The same without the graph of automatic differentiation.
    pub(crate) fn without_autodiff(self) -> Self {
        Self {
            outputs: self.outputs.without_autodiff(),
            targets: self.targets.without_autodiff(),
            noise_variances: self.noise_variances.map(Tensor::without_autodiff),
            gaussians: self.gaussians.map(|all| Components {
                parts: all.parts.map(Tensor::without_autodiff),
                ..all
            }),
            ..self
        }
    }

    /// The numbers on the host.
    ///
    /// # Errors
    ///
    /// The device failed, or a number is not finite.
    pub fn read(&self) -> Result<&TargetedDraws, TensorReadError> {
        if let Some(likelihood) = &self.refused {
            return Err(no_such_metric("numbers with Gaussian noise", likelihood));
        }
        if let Some(read) = self.read.get() {
            return Ok(read);
        }
        let [draws, _, columns] = self.outputs.dims();
        let [means, targets] = Transaction::default()
            .register(self.outputs.clone())
            .register(self.targets.clone())
            .try_execute()?
            .try_into()
            .expect("a transaction returns what was registered");
        let numbers = |tensor: Tensor<3>| -> Result<Vec<f64>, TensorReadError> {
            Ok(tensor.try_into_data()?.iter().collect())
        };
        let mut read = TargetedDraws {
            noise_precisions: None,
            weights: None,
            means: means.try_into_vec_as::<f64>()?,
            targets: targets.try_into_vec_as::<f64>()?,
            draws,
            columns,
        };
        if let Some(variances) = &self.noise_variances {
            read.noise_precisions = Some(numbers(variances.clone().recip())?);
        }
        if let Some(Components { count, parts }) = &self.gaussians {
            let [means, variances, weights] = parts.clone();
            read.means = numbers(means)?;
            read.noise_precisions = Some(numbers(variances.recip())?);
            read.weights = Some((*count, numbers(weights)?));
        }
        let mixture = read.mixture(1.0)?;
        TargetedMixture::new(&mixture, &read.targets).map_err(refused)?;
        Ok(self.read.get_or_init(|| read))
    }
}

impl TargetedDraws {
    /// The mixture over the draws of each (row, column), with this noise precision unless the likelihood states its own.
    ///
    /// # Errors
    ///
    /// The noise precision is not finite and above zero.
    pub fn mixture(&self, noise_precision: f64) -> Result<GaussianMixture<'_>, TensorReadError> {
        let noise = match &self.noise_precisions {
            Some(precisions) => NoisePrecision::PerPrediction(precisions),
            None => NoisePrecision::Shared(noise_precision),
        };
        let rows = self.targets.len();
        let gaussians = |count: usize| GaussianMixture::new(&self.means, count, rows, noise);
        let mixture = match &self.weights {
            None => gaussians(self.draws),
            Some((count, weights)) => gaussians(self.draws * count)
                .and_then(|mixture| mixture.with_weights(*count, weights)),
        };
        mixture.map_err(refused)
    }

    /// The number of targets of a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The true values, one row after the other.
    pub fn targets(&self) -> &[f64] {
        &self.targets
    }
}

/// Burn's plain output is one draw.
impl Adaptor<RegressionDraws> for RegressionOutput {
    fn adapt(&self) -> RegressionDraws {
        RegressionDraws::new(self.output.clone().unsqueeze(), self.targets.clone())
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::metric::testing::regression;

    #[test]
    fn a_plain_output_is_one_draw() {
        let device = Device::default();
        let output = RegressionOutput::new(
            Tensor::zeros([1], &device),
            Tensor::from_data([[1.0, 2.0], [3.0, 4.0]], &device),
            Tensor::from_data([[0.0, 2.0], [3.0, 3.0]], &device),
        );
        let draws: RegressionDraws = output.adapt();
        assert_eq!(draws.outputs().dims(), [1, 2, 2]);
        let read = draws.read().unwrap();
        assert_eq!(read.mixture(4.0).unwrap().mean(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(read.mixture(4.0).unwrap().variance(), [0.25; 4]);
        assert_eq!(read.targets(), [0.0, 2.0, 3.0, 3.0]);
        assert_eq!(read.columns(), 2);
    }

    #[test]
    fn draws_become_components() {
        let draws = regression([[1.0, 5.0], [3.0, 5.0]], [0.0, 0.0]);
        let mixture = draws.read().unwrap().mixture(1.0).unwrap();
        assert_eq!(mixture.mean(), [2.0, 5.0]);
        assert_eq!(mixture.variance_between_draws(), [1.0, 0.0]);
        let average: Vec<f32> = draws.average().into_data().iter().collect();
        assert_eq!(average, [2.0, 5.0]);
    }

    #[test]
    fn what_cannot_be_scored_is_refused_with_its_place() {
        let message = |draws: RegressionDraws| draws.read().unwrap_err().to_string();
        let diverged = regression([[1.0, f32::INFINITY]], [0.0, 0.0]);
        assert!(message(diverged).contains("row 1"));
        let unknown = regression([[1.0, 2.0]], [f32::NAN, 0.0]);
        assert!(message(unknown).contains("row 0"));
    }
}
