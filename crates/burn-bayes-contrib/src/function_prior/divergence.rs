//! Divergences between the distributions of functions of a network and of a Gaussian process.
//!
//! At n measurement points, both are convolved with white noise of variance σ², the jitter: q(f_X) is the distribution of
//! f(X; θ) + σε for θ ~ q (equation 3.5 of the report), and p(f_X) is N(0, K), whose K contains σ²I.
//!
//! ```text
//! linearised   KL(N(f, S)‖N(0, K)),  f = f(X; c),  S = J Σ Jᵀ + σ²I
//!                gradient by c   JᵀK⁻¹f                    with J as a constant
//!                gradient by Σ   ½ Jᵀ(K⁻¹ − S⁻¹)J
//! ```

use burn::module::Module;
use burn::tensor::Tensor;
use burn_bayes::algebra::{Cholesky, SquareMatrix};
use burn_bayes::kernels::{CovarianceParts, from_host, inner_products, to_host};
use burn_bayes::laplace::ModelOutputs;
use burn_bayes::methods::DivergenceGradient;
use burn_bayes::{Error, Result};

use super::At;
use crate::functional::MOST_POINTS;

/// The divergence of a network from a Gaussian process that VIFA minimises. Natural-gradient algorithms support the first.
///
/// The divergences between distributions of functions take the place of that of the weights. Those at a finite number of
/// points are lower bounds of the divergence between the distributions of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FunctionDivergence {
    /// ½ E fᵀK⁻¹f, added to the divergence of the weights: an upper bound, which contains the entropy of the weights
    /// instead of that of the functions. Its gradient has no bias.
    Joint,
    /// The divergence between Gaussians, of the network that is linearised at the mean. It has no noise besides that of the
    /// points. It is exact for a network that is linear in its weights. Otherwise its bias is that of the linearisation,
    /// whose Jacobian also counts as a constant in the gradient.
    Linearized,
}

impl<M: Module + ModelOutputs + 'static> At<'_, M> {
    /// The gradient of the linearised divergence, at the mean of this Gaussian.
    pub(super) fn linearized(&self, gaussian: &CovarianceParts) -> Result<DivergenceGradient> {
        let [count, width] = self.outputs.dims();
        let rows = count * width;
        if rows > MOST_POINTS {
            let problem = format!(
                "compares {rows} outputs, whose covariance is factorised in every step; use at most {MOST_POINTS}, by fewer \
                 measurement points"
            );
            return Err(Error::config("divergence", problem));
        }
        let device = self.outputs.device();
        let jacobian = (0..width).map(|output| Ok(self.jacobian(output)?.materialise()));
        let jacobian = Tensor::cat(jacobian.collect::<Result<Vec<Tensor<2>>>>()?, 0);
        let mut errors = to_host(self.outputs.clone());
        self.places.factor.solve(&mut errors)?;
        let errors = from_host(&errors, [count, width], &device);
        let errors = errors.transpose().reshape([1, rows]);
        let mean = errors.matmul(jacobian.clone()).squeeze_dim(0);

        let inverse = self.places.factor.inverse();
        let pushed = self.pushed(&jacobian, gaussian)?.inverse();
        let weights = SquareMatrix::from_fn(rows, |i, j| {
            let prior = match i / count == j / count {
                true => inverse.get(i % count, j % count),
                false => 0.0,
            };
            prior - pushed.get(i, j)
        });
        Ok(DivergenceGradient {
            mean,
            rows: jacobian,
            weights: from_host(weights.as_slice(), [rows, rows], &device),
        })
    }

    /// The factor of S.
    fn pushed(&self, jacobian: &Tensor<2>, gaussian: &CovarianceParts) -> Result<Cholesky> {
        let gaussian = gaussian.clone().in_units_of_weights();
        let scaled = jacobian.clone() * gaussian.diagonal.deviation().unsqueeze::<2>();
        let mut covariance = inner_products(&scaled, &scaled);
        if let Some(factors) = gaussian.factors {
            let scaled = inner_products(jacobian, &factors);
            covariance = covariance + scaled.clone().matmul(scaled.transpose());
        }
        let [rows, _] = jacobian.dims();
        let covariance = to_host(covariance);
        let added = self.noise_variance()?;
        let covariance = SquareMatrix::from_fn(rows, |i, j| {
            let both = covariance[i * rows + j] + covariance[j * rows + i];
            0.5 * both + if i == j { added } else { 0.0 }
        });
        Cholesky::new(&covariance).map_err(|error| {
            Error::numerical(format!(
                "the covariance of {rows} outputs at the measurement points cannot be factorised ({error}); raise the jitter"
            ))
        })
    }

    /// σ².
    fn noise_variance(&self) -> Result<f64> {
        let prior = &self.comparison.prior;
        let variances = prior.kernel.variances(&self.places.points)?;
        Ok(prior.jitter * variances.iter().sum::<f64>() / variances.len() as f64)
    }
}
