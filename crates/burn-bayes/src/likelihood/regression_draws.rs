//! The input of regression metrics: every draw's predictions, and the true values.

use std::sync::{Arc, OnceLock};

use burn::tensor::{Tensor, TensorReadError, Transaction};
use burn::train::RegressionOutput;
use burn::train::metric::Adaptor;
use burn_bayes_eval::{EvalError, GaussianMixture, NoisePrecision, TargetedMixture};

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
    /// Of a likelihood that states its noise.
    gaussians: Option<DrawGaussians>,
    read: Arc<OnceLock<TargetedDraws>>,
    /// The likelihood of a model without Gaussian noise.
    refused: Option<Likelihood>,
}

/// The Gaussians of each prediction, `[draws · per_draw, rows, targets]`.
#[derive(Clone, Debug)]
pub(super) struct DrawGaussians {
    pub(super) per_draw: usize,
    pub(super) means: Tensor<3>,
    /// Where the likelihood states them.
    pub(super) variances: Option<Tensor<3>>,
    /// Of several, which state their variances.
    pub(super) weights: Option<Tensor<3>>,
}

/// [`DrawGaussians`] on the host.
#[derive(Clone, Debug)]
pub(super) struct ReadGaussians {
    draws: usize,
    per_draw: usize,
    means: Vec<f64>,
    precisions: Option<Vec<f64>>,
    weights: Option<Vec<f64>>,
}

/// [`RegressionDraws`] on the host, checked.
#[derive(Clone, Debug)]
pub struct TargetedDraws {
    gaussians: ReadGaussians,
    targets: Vec<f64>,
    columns: usize,
}

impl DrawGaussians {
    /// One for each prediction.
    pub(super) fn alone(means: Tensor<3>, variances: Option<Tensor<3>>) -> Self {
        Self {
            per_draw: 1,
            means,
            variances,
            weights: None,
        }
    }

    /// With the numbers of other tensors, which are read at the same time.
    pub(super) fn read<const N: usize>(
        self,
        others: [Tensor<3>; N],
    ) -> Result<([Vec<f64>; N], ReadGaussians), TensorReadError> {
        let [gaussians, ..] = self.means.dims();
        let own = [
            Some(self.means),
            self.variances.map(Tensor::recip),
            self.weights,
        ];
        let tensors = others.into_iter().chain(own.into_iter().flatten());
        let mut numbers = read(tensors)?.into_iter();
        let others = [(); N].map(|()| numbers.next().unwrap_or_default());
        let read = ReadGaussians {
            draws: gaussians / self.per_draw,
            per_draw: self.per_draw,
            means: numbers.next().unwrap_or_default(),
            precisions: numbers.next(),
            weights: numbers.next(),
        };
        Ok((others, read))
    }
}

impl ReadGaussians {
    /// The mixture over the draws of each of these places, with this noise precision unless the likelihood states its own.
    pub(super) fn mixture(
        &self,
        noise_precision: f64,
        places: usize,
    ) -> Result<GaussianMixture<'_>, EvalError> {
        let noise = match &self.precisions {
            Some(precisions) => NoisePrecision::PerPrediction(precisions),
            None => NoisePrecision::Shared(noise_precision),
        };
        let count = self.draws * self.per_draw;
        let mixture = GaussianMixture::new(&self.means, count, places, noise)?;
        match &self.weights {
            Some(weights) => mixture.with_weights(self.per_draw, weights),
            None => Ok(mixture),
        }
    }
}

/// The numbers of tensors, read at once.
pub(super) fn read(
    tensors: impl IntoIterator<Item = Tensor<3>>,
) -> Result<Vec<Vec<f64>>, TensorReadError> {
    let tensors = tensors.into_iter().map(Tensor::without_autodiff);
    let transaction = tensors.fold(Transaction::default(), Transaction::register);
    let all = transaction.try_execute()?.into_iter();
    all.map(|data| Ok(data.try_into_vec_as::<f64>()?)).collect()
}

impl RegressionDraws {
    /// Predictions `[draws, rows, targets]` and the true values `[rows, targets]`.
    pub fn new(outputs: Tensor<3>, targets: Tensor<2>) -> Self {
        Self {
            outputs,
            targets,
            gaussians: None,
            read: Arc::default(),
            refused: None,
        }
    }

    /// With the Gaussians of each prediction, which metrics then use instead of a precision of their own.
    pub(super) fn with_gaussians(self, gaussians: DrawGaussians) -> Self {
        Self {
            gaussians: Some(gaussians),
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
            gaussians: self.gaussians.map(|all| DrawGaussians {
                means: all.means.without_autodiff(),
                variances: all.variances.map(Tensor::without_autodiff),
                weights: all.weights.map(Tensor::without_autodiff),
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
        let plain = || DrawGaussians::alone(self.outputs.clone(), None);
        let gaussians = self.gaussians.clone().unwrap_or_else(plain);
        let ([targets], gaussians) = gaussians.read([self.targets.clone().unsqueeze()])?;
        let read = TargetedDraws {
            gaussians,
            targets,
            columns: self.targets.dims()[1],
        };
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
        let mixture = self.gaussians.mixture(noise_precision, self.targets.len());
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
