//! Factors of covariances without noise, and draws of functions.

use burn_bayes::algebra::{Cholesky, SquareMatrix, dot};
use burn_bayes::{Error, Noise, Result};

use super::kernel::Kernel;
use super::points::Points;

/// The share of the mean variance that is added to a covariance without noise before it is factorised. Rounding of
/// 2000 points makes eigenvalues of about −10⁻¹⁰ of their variance.
const DEFAULT_JITTER: f64 = 1e-6;

impl Kernel {
    /// L with L Lᵀ = k(X, X) + `jitter`·v I, v the mean variance of the points.
    ///
    /// # Errors
    ///
    /// Those of [`matrix`](Self::matrix); also if the sum is not positive definite.
    pub fn factor(&self, points: &Points, jitter: f64) -> Result<Cholesky> {
        let covariance = self.matrix(points)?;
        let added = jitter * covariance.trace() / points.len() as f64;
        let covariance = SquareMatrix::from_fn(points.len(), |i, j| {
            covariance.get(i, j) + if i == j { added } else { 0.0 }
        });
        Cholesky::new(&covariance).map_err(|error| {
            Error::numerical(format!(
                "the covariance of {} points under the kernel `{self}` is not positive definite with a jitter of {jitter:e} \
                 of its mean variance ({error}); raise the jitter, use fewer points, or check that the inputs have the units \
                 of the length scales",
                points.len()
            ))
        })
    }

    /// The values at these points of functions that are drawn from the Gaussian process of mean zero; draw s has the
    /// stream `noise.row(s)`.
    ///
    /// # Errors
    ///
    /// Those of [`factor`](Self::factor).
    pub fn draws(&self, points: &Points, noise: Noise, count: usize) -> Result<Vec<Vec<f64>>> {
        let factor = self.factor(points, DEFAULT_JITTER)?;
        let draw = |index: usize| {
            let normals = noise.row(index as u64).latent(points.len());
            let normals: Vec<f64> = normals.into_iter().map(f64::from).collect();
            let lower = factor.lower();
            let rows = (0..points.len()).map(|i| dot(&lower.row(i)[..=i], &normals[..=i]));
            rows.collect()
        };
        Ok((0..count).map(draw).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(count: usize, step: f64) -> Points {
        Points::new(1, (0..count).map(|i| step * i as f64).collect()).unwrap()
    }

    #[test]
    fn the_factor_is_that_of_the_covariance_with_jitter() {
        let points = line(30, 0.1);
        let kernel = Kernel::constant(9.0) * Kernel::rbf([1.0]);
        let factor = kernel.factor(&points, 1e-3).unwrap();
        let lower = factor.lower();
        let product = lower.multiply(&lower.transpose()).unwrap();
        let covariance = kernel.matrix(&points).unwrap();
        for i in 0..30 {
            for j in 0..30 {
                let added = if i == j { 9e-3 } else { 0.0 };
                let error = product.get(i, j) - covariance.get(i, j) - added;
                assert!(error.abs() < 30.0 * 9.0 * f64::EPSILON, "{error:e}");
            }
        }
    }

    /// A covariance of rank 1 has no factor without jitter; the message has the cause and the cure.
    #[test]
    fn a_covariance_that_is_not_positive_definite_is_refused() {
        let kernel = Kernel::constant(2.0);
        let error = kernel.factor(&line(3, 1.0), 0.0).unwrap_err();
        let message = error.to_string();
        assert!(error.is_numerical(), "{message}");
        assert!(
            message.contains("3 points under the kernel `2`"),
            "{message}"
        );
        assert!(message.contains("raise the jitter"), "{message}");
        assert!(kernel.factor(&line(3, 1.0), DEFAULT_JITTER).is_ok());
    }

    /// The most points and the smoothest kernel, whose covariance is the worst conditioned.
    #[test]
    fn the_default_jitter_is_enough_for_many_close_points() {
        for count in [64, 600] {
            let kernel = Kernel::rbf([1e3]);
            assert!(kernel.factor(&line(count, 1e-2), DEFAULT_JITTER).is_ok());
        }
    }

    #[test]
    fn draws_have_the_covariance_of_the_kernel() {
        let points = line(3, 0.7);
        let kernel = Kernel::constant(4.0) * Kernel::matern32([1.0]);
        let count = 20_000;
        let draws = kernel.draws(&points, Noise::new(3), count).unwrap();
        let covariance = kernel.matrix(&points).unwrap();
        for i in 0..3 {
            for j in 0..3 {
                let sum: f64 = draws.iter().map(|draw| draw[i] * draw[j]).sum();
                let found = sum / count as f64;
                // Five standard errors of a product of two normals of variance 4.
                let bound = 5.0 * 4.0 * 2f64.sqrt() / (count as f64).sqrt();
                let expected = covariance.get(i, j);
                assert!((found - expected).abs() < bound, "{found} {expected}");
            }
        }
    }
}
