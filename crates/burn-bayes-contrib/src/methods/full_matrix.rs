//! VON and VOGN with the full precision matrix, in f64 on the host.
//!
//! With the gradient g of the mean negative log-likelihood and its curvature H at a draw, or their
//! expectations,
//!
//! * P⁺ = (1−β) P + β (N H + diag α)
//! * μ⁺ = μ − η (P⁺)⁻¹ (N g + α⊙μ)
//!
//! H is the Hessian (VON), or the empirical Fisher matrix (1/M) Σ gᵢgᵢᵀ (VOGN). With expectations under
//! q in place of g and H, β = η = 1 is Newton's method on the variational objective.

use burn_bayes::Result;
use burn_bayes::algebra::{Cholesky, SquareMatrix};
use burn_bayes::posterior::DenseGaussian;

/// A Gaussian N(μ, P⁻¹), updated by natural gradients.
#[derive(Clone, Debug)]
pub(super) struct FullMatrixVon {
    mean: Vec<f64>,
    precision: SquareMatrix,
}

/// The inputs of one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct FullMatrixStep<'a> {
    /// N.
    pub(super) train_len: usize,
    /// g, at the draw.
    pub(super) gradient: &'a [f64],
    /// H, at the draw.
    pub(super) curvature: &'a SquareMatrix,
    /// α of every weight.
    pub(super) prior: &'a [f64],
    /// β.
    pub(super) rate: f64,
    /// η.
    pub(super) learning_rate: f64,
}

impl FullMatrixVon {
    /// Starts at N(`mean`, `precision`⁻¹).
    pub(super) fn new(mean: Vec<f64>, precision: SquareMatrix) -> Self {
        Self { mean, precision }
    }

    /// μ.
    pub(super) fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// P.
    pub(super) fn precision(&self) -> &SquareMatrix {
        &self.precision
    }

    /// The posterior.
    pub(super) fn gaussian(&self) -> Result<DenseGaussian> {
        let precision = self.precision.as_slice().to_vec();
        DenseGaussian::from_precision(self.mean.clone(), precision)
    }

    /// The Gaussian after one step.
    pub(super) fn stepped(self, step: FullMatrixStep<'_>) -> Result<Self> {
        let len = self.mean.len();
        let scale = step.train_len as f64;
        let precision = SquareMatrix::from_fn(len, |row, column| {
            let prior = if row == column { step.prior[row] } else { 0.0 };
            let target = scale * step.curvature.get(row, column) + prior;
            (1.0 - step.rate) * self.precision.get(row, column) + step.rate * target
        });
        let terms = step.gradient.iter().zip(step.prior).zip(&self.mean);
        let mut direction: Vec<f64> = terms
            .map(|((gradient, prior), mean)| scale * gradient + prior * mean)
            .collect();
        let root = Cholesky::new(&precision)?;
        root.solve(&mut direction)?;
        let moved = self.mean.iter().zip(&direction);
        Ok(Self {
            mean: moved
                .map(|(mean, step_of)| mean - step.learning_rate * step_of)
                .collect(),
            precision,
        })
    }
}

#[cfg(test)]
mod tests {
    use burn_bayes::Noise;
    use burn_bayes::posterior::linear_regression_posterior;

    use super::*;

    const LEN: usize = 3;

    #[test]
    fn a_newton_step_on_a_quadratic_gives_the_exact_posterior() {
        const ROWS: usize = 9;
        let (alpha, beta) = (0.5, 4.0);
        let normals = |seed, count| -> Vec<f64> {
            let normals = Noise::new(seed).latent(count).into_iter();
            normals.map(f64::from).collect()
        };
        let (inputs, targets) = (normals(1, ROWS * LEN), normals(2, ROWS));
        let start = [0.3, -0.2, 1.0];
        // g = (β/N) Xᵀ(Xw − y) and H = (β/N) XᵀX.
        let share = beta / ROWS as f64;
        let mut gradient = vec![0.0; LEN];
        let mut curvature = vec![0.0; LEN * LEN];
        for (x, y) in inputs.chunks(LEN).zip(&targets) {
            let residual = x.iter().zip(start).map(|(x, w)| x * w).sum::<f64>() - y;
            for i in 0..LEN {
                gradient[i] += share * residual * x[i];
                (0..LEN).for_each(|j| curvature[i * LEN + j] += share * x[i] * x[j]);
            }
        }
        let von = FullMatrixVon::new(start.to_vec(), SquareMatrix::identity(LEN));
        let step = FullMatrixStep {
            train_len: ROWS,
            gradient: &gradient,
            curvature: &SquareMatrix::from_row_major(LEN, curvature).unwrap(),
            prior: &[alpha; LEN],
            rate: 1.0,
            learning_rate: 1.0,
        };
        let found = von.stepped(step).unwrap().gaussian().unwrap();
        let exact = linear_regression_posterior(&inputs, &targets, alpha, beta).unwrap();
        let (found_covariance, covariance) = (found.covariance(), exact.covariance());
        let found = found.mean().iter().chain(found_covariance.as_slice());
        let exact = exact.mean().iter().chain(covariance.as_slice());
        for (found, exact) in found.zip(exact) {
            assert!(
                (found - exact).abs() <= 1e3 * f64::EPSILON,
                "{found} {exact}"
            );
        }
    }
}
