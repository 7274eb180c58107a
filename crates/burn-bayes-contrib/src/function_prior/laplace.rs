//! The Laplace approximation of a small network that was trained with a prior over functions.
//!
//! ```text
//! P = N H + diag α + E JᵀK⁻¹J,   q = N(θ*, P⁻¹)
//! ```
//!
//! at the trained weights θ*, with the Gauss–Newton matrix H and the mean over sets of measurement points. All sums are in
//! double precision and the posterior is in covariance form, because the eigenvalues of P range from those of the weak prior
//! over weights to those of many accurate data, by a factor of 10⁷ and more.

use std::sync::Arc;

use burn::module::{Module, ParamGroup};
use burn::tensor::{Tensor, TensorData};
use burn_bayes::algebra::SymmetricEigen;
use burn_bayes::graph::{ExampleBatch, Layout};
use burn_bayes::kernels::from_host;
use burn_bayes::laplace::ModelOutputs;
use burn_bayes::posterior::{FactorPosterior, Posterior};
use burn_bayes::prior::Prior;
use burn_bayes::{Error, Result};

use super::FunctionPrior;
use super::curvature::{CurvatureRows, dense_layout};

/// The diagonal of the covariance besides the factors, as a share of the variances: that of rounding.
const REST: f64 = 1e-10;

impl FunctionPrior {
    /// The Laplace approximation at the weights of a model that was trained with this prior and a weak one over the
    /// weights, for at most [`Laplace::FULL_LIMIT`](burn_bayes::laplace::Laplace::FULL_LIMIT) of them. Predict with
    /// [`Linearized`](burn_bayes::laplace::Linearized): draws of a network's own weights from it are far from the linear
    /// model. It has the state of the model outside its layout, such as frozen parameters.
    ///
    /// # Errors
    ///
    /// Without examples or with twice as many as `train_len`, if a setting is invalid, or if an output, a gradient or the precision is not finite.
    pub fn laplace<M>(
        &self,
        model: &M,
        train_len: usize,
        weights: &Prior,
        batches: impl IntoIterator<Item = M::Input>,
    ) -> Result<FactorPosterior>
    where
        M: Module + ModelOutputs<Features = Tensor<2>, Input: ExampleBatch> + 'static,
    {
        let layout = dense_layout("model", model, &ParamGroup::all())?;
        let rows = CurvatureRows::new(self, layout.clone(), model, train_len, batches)?;
        let precision = rows.precision(weights, |_, _, _| ())?;
        let precision = SymmetricEigen::new(&precision)?;
        let posterior = posterior(layout, rows.mean().clone(), &precision)?;
        posterior.with_model_state(model)
    }
}

/// N(θ*, P⁻¹), from the eigenpairs of P.
fn posterior(
    layout: Arc<Layout>,
    mean: Tensor<1>,
    precision: &SymmetricEigen,
) -> Result<FactorPosterior> {
    let len = layout.len();
    let mut factors: Vec<f32> = Vec::with_capacity(len * len);
    let mut variance = vec![0.0; len];
    for (index, &value) in precision.values().iter().enumerate() {
        if !(value.is_finite() && value > 0.0) {
            return Err(Error::numerical(format!(
                "eigenvalue {index} of the precision is {value:e}; raise the precision of the prior over the weights"
            )));
        }
        let deviation = value.sqrt().recip();
        for (entry, variance) in precision.vectors().row(index).iter().zip(&mut variance) {
            let entry = deviation * entry;
            *variance += entry * entry;
            factors.push(entry as f32);
        }
    }
    let device = mean.device();
    let factors = Tensor::from_data(TensorData::new(factors, [len, len]), &device);
    let rest = from_host(variance.iter().map(|v| REST * v), [len], &device);
    FactorPosterior::covariance(layout, mean, Some(factors), rest)
}
