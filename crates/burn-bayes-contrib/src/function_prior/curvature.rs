//! The rows whose products are the curvature of a posterior with a prior over functions, in double precision.
//!
//! ```text
//! N H + E JᵀK⁻¹J = Σ rᵀr over rows r of the loss, and of L⁻¹J at sets of measurement points
//! ```

use std::sync::Arc;

use burn::module::{Module, ParamGroup};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn_bayes::algebra::SquareMatrix;
use burn_bayes::graph::{ExampleBatch, Layout};
use burn_bayes::kernels::{from_host, to_host};
use burn_bayes::laplace::{
    Laplace, ModelOutputs, OutputGradients, check_train_len, examples, without_autodiff,
};
use burn_bayes::prior::Prior;
use burn_bayes::{Error, Noise, Result};

use super::{At, Comparison, FunctionPrior, Places};

/// The number of sets of measurement points.
const SETS: u64 = 100;

/// Gradients of the outputs at the weights of a model.
pub(super) struct CurvatureRows<'a, M: ModelOutputs> {
    comparison: Comparison<M>,
    model: &'a M,
    mean: Tensor<1>,
    batches: Vec<M::Input>,
    /// N divided by the number of examples in the batches.
    scale: f64,
}

impl<'a, M> CurvatureRows<'a, M>
where
    M: Module + ModelOutputs<Features = Tensor<2>, Input: ExampleBatch> + 'static,
{
    /// For the weights of a layout. The examples of the batches stand for all of `train_len`.
    pub(super) fn new(
        prior: &FunctionPrior,
        layout: Arc<Layout>,
        model: &'a M,
        train_len: usize,
        batches: impl IntoIterator<Item = M::Input>,
    ) -> Result<Self> {
        prior.validate()?;
        let batches: Vec<_> = batches.into_iter().collect();
        let mut count = 0;
        for batch in &batches {
            count += examples(batch)?;
        }
        check_train_len(train_len, count)?;
        Ok(Self {
            mean: layout.flatten(model)?.without_autodiff(),
            comparison: Comparison {
                prior: prior.clone(),
                gradients: OutputGradients::new(layout.clone()),
                noise: Noise::new(0),
                has_rows: true,
                layout,
            },
            model,
            batches,
            scale: train_len as f64 / count as f64,
        })
    }

    /// The weights of the layout.
    pub(super) fn mean(&self) -> &Tensor<1> {
        &self.mean
    }

    /// α of every weight.
    pub(super) fn prior_precisions(&self, weights: &Prior) -> Result<Vec<f64>> {
        let alpha = weights.resolve(&self.comparison.layout)?;
        Ok(to_host(alpha.expanded(&self.mean.device())))
    }

    /// P. Calls `add` with the share of a set of measurement points, with the rows of L⁻¹J there and with L⁻¹f, for every
    /// output and set.
    pub(super) fn precision(
        &self,
        weights: &Prior,
        mut add: impl FnMut(f64, &[f64], &[f64]),
    ) -> Result<SquareMatrix> {
        let len = self.comparison.layout.len();
        let mut precision = vec![0.0; len * len];
        self.of_loss(|scale, rows| add_products(rows, scale, &mut precision, len))?;
        self.of_prior(|scale, rows, errors| {
            add_products(rows, scale, &mut precision, len);
            add(scale, rows, errors);
        })?;
        for (at, alpha) in self.prior_precisions(weights)?.iter().enumerate() {
            precision[at * (len + 1)] += alpha;
        }
        Ok(SquareMatrix::from_row_major(len, precision)?)
    }

    /// The gradient N g of the loss.
    pub(super) fn loss_gradient(&self) -> Result<Vec<f64>> {
        let layout = &self.comparison.layout;
        let model = layout.write_leaves(self.model.clone().freeze(), self.mean.clone())?;
        let mut sum = vec![0.0; layout.len()];
        for batch in &self.batches {
            let loss = model.example_losses(batch.clone()).sum();
            let mut gradients = GradientsParams::from_grads(loss.backward(), &model);
            let pieces = layout.gradient_parts(&model, &mut gradients)?;
            let entries = sum.iter_mut().zip(to_host(Tensor::cat(pieces, 0)));
            entries.for_each(|(sum, entry)| *sum += self.scale * entry);
        }
        Ok(sum)
    }

    /// Calls `add` with N divided by the number of examples, and with rows whose products are Σ JᵢᵀΛᵢJᵢ.
    fn of_loss(&self, mut add: impl FnMut(f64, &[f64])) -> Result<()> {
        let model = self.model.valid();
        let gradients = &self.comparison.gradients;
        for batch in &self.batches {
            let features = M::features(without_autodiff(batch.clone()));
            let outputs = gradients.outputs(&model, &features)?;
            for root in model.likelihood().curvature_roots(&outputs)? {
                let rows = gradients.weighted(&model, &features, root)?;
                add(self.scale, &to_host(rows.materialise()));
            }
        }
        Ok(())
    }

    /// As [`precision`](Self::precision) calls it.
    fn of_prior(&self, mut add: impl FnMut(f64, &[f64], &[f64])) -> Result<()> {
        let FunctionPrior {
            kernel,
            points,
            count,
            jitter,
            ..
        } = &self.comparison.prior;
        for set in 0..SETS {
            let points = points.draw(*count, self.comparison.noise.fold(set))?;
            let shape = [points.len(), points.width()];
            let places = Places {
                features: from_host(points.as_slice(), shape, &self.mean.device()),
                factor: kernel.factor(&points, *jitter)?,
                points,
            };
            let at = At::new(&self.comparison, self.model, self.mean.clone(), &places)?;
            let [count, outputs] = at.outputs.dims();
            let mut errors = to_host(at.outputs.clone());
            places.factor.solve_lower(&mut errors)?;
            for output in 0..outputs {
                let mut rows = to_host(at.jacobian(output)?.materialise());
                places.factor.solve_lower(&mut rows)?;
                let errors: Vec<f64> = (0..count).map(|at| errors[at * outputs + output]).collect();
                add(1.0 / SETS as f64, &rows, &errors);
            }
        }
        Ok(())
    }
}

/// The layout of a group; fails, naming `field`, if a precision of its weights would be too large.
pub(super) fn dense_layout<M: Module>(
    field: &str,
    model: &M,
    group: &ParamGroup,
) -> Result<Arc<Layout>> {
    const LIMIT: usize = Laplace::FULL_LIMIT;
    let layout = Layout::new(model, group)?;
    match layout.len() {
        len if len > LIMIT => {
            let problem =
                format!("has {len} weights, but the limit of a dense precision is {LIMIT}");
            Err(Error::config(field, problem))
        }
        _ => Ok(Arc::new(layout)),
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
