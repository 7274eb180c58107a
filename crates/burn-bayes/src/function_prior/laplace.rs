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
use burn_bayes_graph::{ExampleBatch, Layout};

use super::{At, Comparison, FunctionPrior, Places, tensor};
use crate::algebra::{SquareMatrix, SymmetricEigen};
use crate::error::{Error, Result};
use crate::kernels::composed::to_host;
use crate::laplace::{FULL_LIMIT, ModelOutputs, OutputGradients, without_autodiff};
use crate::noise::Noise;
use crate::posterior::FactorPosterior;
use crate::prior::Prior;

/// The number of sets of measurement points.
const SETS: u64 = 100;
/// The diagonal of the covariance besides the factors, as a share of the variances: that of rounding.
const REST: f64 = 1e-10;

impl FunctionPrior {
    /// The Laplace approximation at the weights of a model that was trained with this prior and a weak one over the
    /// weights, for at most [`FULL_LIMIT`] of them. Predict with [`Linearized`](crate::laplace::Linearized): draws of a
    /// network's own weights from it are far from the linear model.
    ///
    /// # Errors
    ///
    /// Without examples, if a setting is invalid, or if an output, a gradient or the precision is not finite.
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
        self.validate()?;
        let layout = Arc::new(Layout::new(model, &ParamGroup::all())?);
        let len = layout.len();
        if len > FULL_LIMIT {
            let problem =
                format!("has {len} weights, but the limit of a dense precision is {FULL_LIMIT}");
            return Err(Error::config("model", problem));
        }
        let comparison = Comparison::<M> {
            prior: self.clone(),
            gradients: OutputGradients::new(layout.clone()),
            noise: Noise::host(0),
            has_rows: true,
            layout,
        };
        let mean = comparison.layout.flatten(model)?.without_autodiff();
        let mut precision = vec![0.0; len * len];
        let examples = comparison.add_loss(model, batches, &mut precision)?;
        if examples == 0 {
            return Err(Error::config("batches", "have no examples"));
        }
        let scale = train_len as f64 / examples as f64;
        precision.iter_mut().for_each(|entry| *entry *= scale);
        for set in 0..SETS {
            comparison.add_set(model, &mean, set, &mut precision)?;
        }
        let alpha = weights.resolve(&comparison.layout)?;
        let alpha = to_host(alpha.expanded(&mean.device()));
        for (at, alpha) in alpha.iter().enumerate() {
            precision[at * (len + 1)] += alpha;
        }
        let precision = SquareMatrix::from_row_major(len, precision)?;
        comparison.posterior(mean, &SymmetricEigen::new(&precision)?)
    }
}

impl<M> Comparison<M>
where
    M: Module + ModelOutputs<Features = Tensor<2>, Input: ExampleBatch> + 'static,
{
    /// Adds Σ JᵢᵀΛᵢJᵢ, and returns the number of examples.
    fn add_loss(
        &self,
        model: &M,
        batches: impl IntoIterator<Item = M::Input>,
        sum: &mut [f64],
    ) -> Result<usize> {
        let model = model.valid();
        let mut examples = 0;
        for batch in batches {
            let features = M::features(without_autodiff(batch));
            let outputs = self.gradients.outputs(&model, &features)?;
            examples += outputs.dims()[0];
            for root in model.likelihood().curvature_roots(&outputs) {
                let rows = self.gradients.weighted(&model, &features, root)?;
                add_products(&to_host(rows.materialise()), 1.0, sum, self.layout.len());
            }
        }
        Ok(examples)
    }

    /// Adds the share of one set of measurement points in E JᵀK⁻¹J.
    fn add_set(&self, model: &M, mean: &Tensor<1>, set: u64, sum: &mut [f64]) -> Result<()> {
        let FunctionPrior {
            kernel,
            points,
            count,
            jitter,
            ..
        } = &self.prior;
        let points = points.draw(*count, self.noise.fold(set))?;
        let shape = [points.len(), points.width()];
        let places = Places {
            features: tensor(points.as_slice(), shape, &mean.device()),
            factor: kernel.factor(&points, *jitter)?,
            points,
        };
        let at = At::new(self, model, mean.clone(), &places)?;
        for output in 0..at.outputs.dims()[1] {
            let mut rows = to_host(at.jacobian(output)?.materialise());
            places.factor.solve_lower(&mut rows)?;
            add_products(&rows, 1.0 / SETS as f64, sum, self.layout.len());
        }
        Ok(())
    }

    /// N(θ*, P⁻¹), from the eigenpairs of P.
    fn posterior(&self, mean: Tensor<1>, precision: &SymmetricEigen) -> Result<FactorPosterior> {
        let len = self.layout.len();
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
        let rest: Vec<f32> = variance.iter().map(|v| (REST * v) as f32).collect();
        let rest = Tensor::from_data(TensorData::new(rest, [len]), &device);
        FactorPosterior::covariance(self.layout.clone(), mean, Some(factors), rest)
    }
}

/// Adds `scale` Σ rᵀr over rows r of length `len`.
fn add_products(rows: &[f64], scale: f64, sum: &mut [f64], len: usize) {
    for row in rows.chunks_exact(len) {
        for (target, left) in sum.chunks_exact_mut(len).zip(row) {
            let left = scale * left;
            let entries = target.iter_mut().zip(row);
            entries.for_each(|(entry, right)| *entry += left * right);
        }
    }
}
