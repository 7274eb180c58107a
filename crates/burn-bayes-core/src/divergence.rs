//! How far one Gaussian is from another.
//!
//! For p = N(m₁, S₁) and q = N(m₂, S₂) with S = L Lᵀ and W = L₂⁻¹ L₁ (lower triangular):
//!
//! ```text
//! KL(p‖q)   = ½ [tr(S₂⁻¹S₁) − D + log|S₂| − log|S₁| + (m₁−m₂)ᵀ S₂⁻¹ (m₁−m₂)]
//!           = ½ [Σ_{i>j} W²ᵢⱼ + Σⱼ (W²ⱼⱼ − 1 − 2 log Wⱼⱼ) + ‖L₂⁻¹(m₁−m₂)‖²]
//! W₂(p,q)²  = ‖m₁−m₂‖² + tr(S₁ + S₂ − 2 (S₂^½ S₁ S₂^½)^½)
//!           = ‖m₁−m₂‖² + ‖L₁ − L₂ P Qᵀ‖²,   L₂ᵀ L₁ = P Σ Qᵀ (singular values)
//! relative mean        ‖m₁−m₂‖ / ‖m₁‖             the truth first
//! relative covariance  ‖S₁−S₂‖_F / ‖S₁‖_F
//! ```
//!
//! The second line of each is what is computed: a sum of terms that are never negative, where the
//! first line cancels numbers of the size of tr S. Near p = q the trace form would lose half of the
//! digits of W₂.
//!
//! References: Kullback and Leibler (1951); Givens and Shortt (1984), "A class of Wasserstein
//! metrics for probability distributions"; Bhatia, Jain and Lim (2019), "On the Bures–Wasserstein
//! distance between positive definite matrices", for the orthogonal Procrustes form.

use crate::algebra::{AlgebraError, SquareMatrix, check_length, dot};
use crate::dense::DenseGaussian;

/// All the distances the papers report between a true Gaussian and its approximation.
///
/// ```
/// use burn_bayes_core::{DenseGaussian, GaussianDistance};
///
/// let truth = DenseGaussian::from_variances(vec![3.0, 4.0], &[1.0, 1.0])?;
/// let approximation = DenseGaussian::from_variances(vec![3.0, 3.0], &[1.0, 1.0])?;
/// let distance = GaussianDistance::between(&truth, &approximation)?;
/// assert_eq!(distance.relative_mean, 0.2);
/// assert_eq!(distance.kl, 0.5);
/// assert_eq!(distance.wasserstein, 1.0);
/// assert_eq!(distance.scaled_wasserstein, 0.5);
/// # Ok::<(), burn_bayes_core::AlgebraError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaussianDistance {
    /// ‖m − m̂‖ / ‖m‖; 0 where both means are 0, infinite where only the true mean is 0.
    pub relative_mean: f64,
    /// ‖S − Ŝ‖_F / ‖S‖_F.
    pub relative_covariance: f64,
    /// KL(truth ‖ approximation), nats.
    pub kl: f64,
    /// KL(approximation ‖ truth), nats: what variational inference minimises.
    pub reverse_kl: f64,
    /// 2-Wasserstein distance, in the units of the weights (not squared).
    pub wasserstein: f64,
    /// The 2-Wasserstein distance divided by D.
    pub scaled_wasserstein: f64,
}

impl GaussianDistance {
    /// Measures `approximation` against `truth`, which must have the same dimension.
    pub fn between(
        truth: &DenseGaussian,
        approximation: &DenseGaussian,
    ) -> Result<Self, AlgebraError> {
        let wasserstein = truth.wasserstein_distance(approximation)?;
        Ok(Self {
            relative_mean: truth.relative_mean_distance(approximation)?,
            relative_covariance: truth.relative_covariance_distance(approximation)?,
            kl: truth.kl_divergence(approximation)?,
            reverse_kl: approximation.kl_divergence(truth)?,
            wasserstein,
            scaled_wasserstein: wasserstein / truth.dimension().max(1) as f64,
        })
    }
}

/// Comparisons.
impl DenseGaussian {
    /// KL(self ‖ `other`), nats; never negative, and 0 for two equal Gaussians.
    pub fn kl_divergence(&self, other: &Self) -> Result<f64, AlgebraError> {
        let mut difference = other.residual(self.mean())?;
        other.cholesky().solve_lower(&mut difference)?;
        let mut ratio = self.cholesky().lower().clone().into_row_major();
        other.cholesky().solve_lower(&mut ratio)?;
        let ratio = SquareMatrix::from_row_major(self.dimension(), ratio)?;
        let scales: f64 = ratio.diagonal().map(excess_of_scale).sum();
        let shears: f64 = (0..ratio.size())
            .map(|i| squared_norm(&ratio.row(i)[..i]))
            .sum();
        Ok(0.5 * (scales + shears + squared_norm(&difference)))
    }

    /// The 2-Wasserstein distance (not squared); 0 for two equal Gaussians up to rounding.
    pub fn wasserstein_distance(&self, other: &Self) -> Result<f64, AlgebraError> {
        let mean = squared_norm(&other.residual(self.mean())?);
        let (left, right) = (self.cholesky().lower(), other.cholesky().lower());
        let rotation = right.transpose().multiply(left)?.nearest_orthogonal()?;
        let aligned = right.multiply(&rotation)?;
        Ok((mean + squared_distance(left, &aligned)).sqrt())
    }

    /// ‖m − m̂‖ / ‖m‖ with self the truth; 0 where both means are 0, infinite where only m is.
    pub fn relative_mean_distance(&self, approximation: &Self) -> Result<f64, AlgebraError> {
        let distance = squared_norm(&approximation.residual(self.mean())?).sqrt();
        let scale = squared_norm(self.mean()).sqrt();
        Ok(if distance == 0.0 {
            0.0
        } else {
            distance / scale
        })
    }

    /// ‖S − Ŝ‖_F / ‖S‖_F with self the truth.
    pub fn relative_covariance_distance(&self, approximation: &Self) -> Result<f64, AlgebraError> {
        check_length(
            "dimension of the approximation",
            self.dimension(),
            approximation.dimension(),
        )?;
        let distance = squared_distance(self.covariance(), approximation.covariance()).sqrt();
        let scale = self.covariance().frobenius_norm();
        Ok(if distance == 0.0 {
            0.0
        } else {
            distance / scale
        })
    }
}

/// w² − 1 − 2 log w = u² + 2 (u − log w) with u = w − 1, which does not cancel near w = 1.
fn excess_of_scale(scale: f64) -> f64 {
    let excess = scale - 1.0;
    // log w ≤ u; rounding of the logarithm must not take the sum below 0.
    excess * excess + 2.0 * (excess - scale.ln()).max(0.0)
}

fn squared_norm(vector: &[f64]) -> f64 {
    dot(vector, vector)
}

fn squared_distance(left: &SquareMatrix, right: &SquareMatrix) -> f64 {
    let pairs = left.as_slice().iter().zip(right.as_slice());
    pairs.map(|(l, r)| (l - r) * (l - r)).sum()
}
