//! Exact Gaussian-process regression.
//!
//! The targets are y = f(X) + ε with f ~ GP(0, k) and ε ~ N(0, σ²I). With K = k(X, X) + σ²I = L Lᵀ and α = K⁻¹y:
//!
//! ```text
//! mean at x*              k(x*, X) α
//! covariance of x*, x*'   k(x*, x*') − (L⁻¹k(X, x*))ᵀ (L⁻¹k(X, x*'))
//! log p(y)              = −½ yᵀα − Σ log L_ii − ½ N log 2π
//! ∂ log p(y)/∂φ         = ½ tr((ααᵀ − K⁻¹) ∂K/∂φ)
//! ```
//!
//! Reference: Rasmussen and Williams (2006), *Gaussian Processes for Machine Learning*, algorithm 2.1 and equation 5.9.

use std::f64::consts::PI;

use burn_bayes::algebra::{Cholesky, SquareMatrix, dot};
use burn_bayes::eval::Bounded;
use burn_bayes::{Error, Result};

use super::kernel::{Kernel, check_width};
use super::points::Points;

/// The number of points that are predicted at a time.
const POINTS_AT_A_TIME: usize = 256;

/// A Gaussian process of mean zero, observed with Gaussian noise.
///
/// Centre the targets, or add a constant to the kernel. [`MarginalLikelihood`](super::MarginalLikelihood) finds the
/// parameters of the kernel and the noise.
///
/// ```
/// use burn_bayes_contrib::functional::{GaussianProcess, Kernel, Points};
///
/// let process = GaussianProcess::new(Kernel::rbf([1.0]), 0.01)?;
/// let fit = process.fit(&Points::new(1, vec![-1.0, 0.0, 1.0])?, &[0.5, 0.0, -0.5])?;
/// let at = fit.predict(&Points::new(1, vec![0.0, 10.0])?)?;
/// assert!(at.mean[0].abs() < 1e-12 && at.variance[0] < 0.01);
/// // Far from the data, the prediction is the prior's.
/// assert!((at.variance[1] - 1.0).abs() < 1e-12);
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GaussianProcess {
    kernel: Kernel,
    noise_variance: f64,
}

/// The posterior of a Gaussian process, given targets at some points.
#[derive(Clone, Debug)]
pub struct GaussianProcessFit {
    process: GaussianProcess,
    points: Points,
    /// L.
    factor: Cholesky,
    /// α.
    weights: Vec<f64>,
    log_marginal_likelihood: f64,
}

/// The distribution of a function's values at some points, without the noise of the targets.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionPrediction {
    /// The mean at every point.
    pub mean: Vec<f64>,
    /// The variance at every point.
    pub variance: Vec<f64>,
}

impl GaussianProcess {
    /// With this kernel, and the variance σ² of the noise of the targets.
    ///
    /// # Errors
    ///
    /// If the variance is not finite and above zero.
    pub fn new(kernel: Kernel, noise_variance: f64) -> Result<Self> {
        if !(noise_variance.is_finite() && noise_variance > 0.0) {
            let problem = format!("is {noise_variance}; it must be finite and above zero");
            return Err(Error::config("noise_variance", problem));
        }
        Ok(Self {
            kernel,
            noise_variance,
        })
    }

    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// σ², the variance of the noise of the targets.
    pub fn noise_variance(&self) -> f64 {
        self.noise_variance
    }

    /// The posterior, given one target per point.
    ///
    /// # Errors
    ///
    /// If the kernel does not fit the points, there are more than [`MOST_POINTS`](super::MOST_POINTS) or another number of
    /// targets, a target is not finite, or the covariance is not positive definite.
    pub fn fit(&self, points: &Points, targets: &[f64]) -> Result<GaussianProcessFit> {
        check_targets(points, targets)?;
        let factor = self.factor(points)?;
        let mut weights = targets.to_vec();
        factor.solve(&mut weights)?;
        let fit = dot(targets, &weights) + factor.log_determinant();
        let constant = points.len() as f64 * (2.0 * PI).ln();
        Ok(GaussianProcessFit {
            process: self.clone(),
            points: points.clone(),
            factor,
            weights,
            log_marginal_likelihood: -0.5 * (fit + constant),
        })
    }

    /// L, of k(X, X) + σ²I.
    fn factor(&self, points: &Points) -> Result<Cholesky> {
        let covariance = self.kernel.matrix(points)?;
        let noise = self.noise_variance;
        let covariance = SquareMatrix::from_fn(points.len(), |i, j| {
            covariance.get(i, j) + if i == j { noise } else { 0.0 }
        });
        Cholesky::new(&covariance).map_err(|error| {
            Error::numerical(format!(
                "the covariance of {} targets under the kernel `{}` and the noise variance {noise:e} cannot be factorised \
                 ({error}); raise the noise variance, or remove points that are almost equal",
                points.len(),
                self.kernel
            ))
        })
    }
}

/// Fails if there is another number of targets than points, or one is not finite.
pub(super) fn check_targets(points: &Points, targets: &[f64]) -> Result<()> {
    if points.len() != targets.len() {
        let problem = format!("are {} for {} points", targets.len(), points.len());
        return Err(Error::config("targets", problem));
    }
    match targets.iter().position(|target| !target.is_finite()) {
        None => Ok(()),
        Some(at) => {
            let problem = format!("number {at} is {}; it must be finite", targets[at]);
            Err(Error::config("targets", problem))
        }
    }
}

impl GaussianProcessFit {
    /// The Gaussian process.
    pub fn process(&self) -> &GaussianProcess {
        &self.process
    }

    /// log p(y), in nats.
    pub fn log_marginal_likelihood(&self) -> f64 {
        self.log_marginal_likelihood
    }

    /// The derivatives of log p(y) by the logarithms of the kernel's [parameters](Kernel::parameters), then of the noise
    /// variance.
    pub(super) fn log_marginal_gradient(&self) -> Vec<f64> {
        let inverse = self.factor.inverse();
        let alpha = &self.weights;
        let weights = SquareMatrix::from_fn(alpha.len(), |i, j| {
            0.5 * (alpha[i] * alpha[j] - inverse.get(i, j))
        });
        let kernel = &self.process.kernel;
        let mut gradient = kernel.weighted_gradient(&self.points, &weights);
        gradient.push(self.process.noise_variance * weights.trace());
        gradient
    }

    /// The mean and the variance of the function at these points.
    ///
    /// # Errors
    ///
    /// If the points have another width than those of the targets.
    pub fn predict(&self, points: &Points) -> Result<FunctionPrediction> {
        let (mut mean, mut variance) = (Vec::new(), Vec::new());
        let indices: Vec<usize> = (0..points.len()).collect();
        for indices in indices.chunks(POINTS_AT_A_TIME) {
            let points = points.select(indices);
            let (means, explained) = self.explained(&points)?;
            let mut variances = self.process.kernel.variances(&points)?;
            for row in explained.chunks_exact(points.len()) {
                let entries = variances.iter_mut().zip(row);
                entries.for_each(|(variance, entry)| *variance -= entry * entry);
            }
            mean.extend(means);
            variance.extend(variances.into_iter().map(|variance| variance.at_least(0.0)));
        }
        Ok(FunctionPrediction { mean, variance })
    }

    /// The covariance of the function's values at these points.
    ///
    /// # Errors
    ///
    /// Those of [`predict`](Self::predict); also for more than [`MOST_POINTS`](super::MOST_POINTS).
    pub fn covariance(&self, points: &Points) -> Result<SquareMatrix> {
        let prior = self.process.kernel.matrix(points)?;
        let (_, explained) = self.explained(points)?;
        let count = points.len();
        let mut values = prior.into_row_major();
        for row in explained.chunks_exact(count) {
            for (i, left) in row.iter().enumerate() {
                let target = &mut values[i * count..(i + 1) * count];
                let entries = target.iter_mut().zip(row);
                entries.for_each(|(entry, right)| *entry -= left * right);
            }
        }
        Ok(SquareMatrix::from_row_major(count, values)?)
    }

    /// The mean at M points, and L⁻¹k(X, x*), N×M.
    fn explained(&self, points: &Points) -> Result<(Vec<f64>, Vec<f64>)> {
        check_width(&self.points, points)?;
        let count = points.len();
        let mut cross = self.process.kernel.between(&self.points, points)?;
        let mut mean = vec![0.0; count];
        for (row, weight) in cross.chunks_exact(count).zip(&self.weights) {
            let entries = mean.iter_mut().zip(row);
            entries.for_each(|(mean, entry)| *mean += weight * entry);
        }
        self.factor.solve_lower(&mut cross)?;
        Ok((mean, cross))
    }
}

#[cfg(test)]
pub(super) mod tests;
