//! Logistic regression with a Gaussian over the weights: expectations by quadrature, and the Gaussians
//! that are best by the variational bound.
//!
//! For a row x with target t = ±1 and θ ~ N(m, S), the margin t xᵀθ is Gaussian with mean t xᵀm and
//! variance xᵀSx, so that every expectation over weights is one over a number.
//!
//! ```text
//! bound          −ELBO / N = (1/N) Σ E log(1 + exp(−t f)) + KL(q‖p) / N
//! test score     NLL = −(1/N) Σ log E σ(t f)
//! optimum        P⁺ = ½ P + ½ (Σ E[σ(1−σ)] x xᵀ + α I),  m⁺ = m − ½ (P⁺)⁻¹ (−Σ t E[σ(−t f)] x + α m)
//! ```
//!
//! The last line is Newton's method on the bound, damped by a half; the best Gaussian without
//! correlations is had from it by taking expectations under the diagonal of the precision.

use burn_bayes::algebra::SquareMatrix;
use burn_bayes::methods::{FullMatrixStep, FullMatrixVon};
use burn_bayes::posterior::DenseGaussian;

use burn_bayes_tabular::error::{Result, TabularError};

use super::linear_model::Rows;

/// Steps after which an optimum that still moves is given up.
const MOST_STEPS: usize = 2000;

/// Whether a Gaussian has correlations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Full,
    MeanField,
}

/// The curvature of a loss −log σ(t f), by f.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curvature {
    /// The second derivative, σ(1−σ).
    Hessian,
    /// The square of the derivative, σ(−t f)².
    EmpiricalFisher,
}

/// −ELBO per row, under a prior of this precision.
pub(crate) fn bound(rows: &Rows, gaussian: &DenseGaussian, prior: f64) -> Result<f64> {
    let variances = vec![prior.recip(); rows.width];
    let prior = DenseGaussian::from_variances(vec![0.0; rows.width], &variances)?;
    let divergence = gaussian.kl_divergence(&prior)?;
    let losses = margins(rows, gaussian).map(|margin| expectation(margin, |z| softplus(-z)));
    Ok((losses.sum::<f64>() + divergence) / rows.len() as f64)
}

/// The mean over rows of −log E σ(t f).
pub(crate) fn nll(rows: &Rows, gaussian: &DenseGaussian) -> f64 {
    let losses = margins(rows, gaussian).map(|margin| -expectation(margin, sigmoid).ln());
    losses.sum::<f64>() / rows.len() as f64
}

/// The Gaussian of this family that is best by the bound.
pub(crate) fn optimum(rows: &Rows, prior: f64, family: Family) -> Result<DenseGaussian> {
    fixed_point(rows, prior, family, Curvature::Hessian)
}

/// The Gaussian whose precision is the expected curvature, and whose mean is best by the bound: with the Hessian, the
/// [`optimum`].
pub(crate) fn fixed_point(
    rows: &Rows,
    prior: f64,
    family: Family,
    curvature: Curvature,
) -> Result<DenseGaussian> {
    let bend = |z: f64| match curvature {
        Curvature::Hessian => sigmoid(z) * sigmoid(-z),
        Curvature::EmpiricalFisher => sigmoid(-z).powi(2),
    };
    // With the Fisher information, a damping by a half can end in a cycle, as on Australian.
    let rate = match curvature {
        Curvature::Hessian => 0.5,
        Curvature::EmpiricalFisher => 0.2,
    };
    let (width, count) = (rows.width, rows.len() as f64);
    let mut von = FullMatrixVon::new(vec![0.0; width], SquareMatrix::identity(width))?;
    for _ in 0..MOST_STEPS {
        let gaussian = match family {
            Family::Full => von.gaussian()?,
            Family::MeanField => {
                let variances: Vec<f64> = von.precision().diagonal().map(f64::recip).collect();
                DenseGaussian::from_variances(von.mean().to_vec(), &variances)?
            }
        };
        let mut gradient = vec![0.0; width];
        let mut curvature = vec![0.0; width * width];
        for ((x, target), margin) in rows.iter().zip(margins(rows, &gaussian)) {
            let slope = -target * expectation(margin, |z| sigmoid(-z)) / count;
            let bend = expectation(margin, bend) / count;
            for (row, &value) in x.iter().enumerate().filter(|(_, value)| **value != 0.0) {
                gradient[row] += slope * value;
                let products = curvature[row * width..][..width].iter_mut().zip(x);
                products.for_each(|(sum, x)| *sum += bend * value * x);
            }
        }
        let before = von.mean().to_vec();
        von = von.stepped(FullMatrixStep {
            train_len: rows.len(),
            gradient: &gradient,
            curvature: &SquareMatrix::from_row_major(width, curvature)?,
            prior: &vec![prior; width],
            rate,
            learning_rate: rate,
        })?;
        let largest = von.mean().iter().fold(0.0f64, |most, w| most.max(w.abs()));
        let moved = von.mean().iter().zip(&before);
        let moved = moved.fold(0.0f64, |most, (new, old)| most.max((new - old).abs()));
        if moved < 1e-9 * largest {
            return Ok(gaussian);
        }
    }
    Err(TabularError::Numerical(format!(
        "the best Gaussian of a logistic regression still moves after {MOST_STEPS} steps"
    )))
}

/// Mean and variance of every row's margin.
fn margins(rows: &Rows, gaussian: &DenseGaussian) -> impl Iterator<Item = [f64; 2]> {
    let covariance = gaussian.covariance();
    rows.iter().map(move |(x, target)| {
        // Features of indicators are mostly zeros.
        let entries = x.iter().enumerate().filter(|(_, value)| **value != 0.0);
        let variance = entries.map(|(row, value)| value * dot(covariance.row(row), x));
        [target * dot(gaussian.mean(), x), variance.sum()]
    })
}

/// E f(z) for z of this mean and variance: the trapezoidal rule, which for a Gaussian gains digits
/// as fast as its tails fall.
fn expectation([mean, variance]: [f64; 2], of: impl Fn(f64) -> f64) -> f64 {
    const REACH: i32 = 32;
    const STEP: f64 = 0.25;
    let deviation = variance.sqrt();
    let normaliser = STEP / std::f64::consts::TAU.sqrt();
    let terms = (-REACH..=REACH).map(|node| {
        let z = STEP * f64::from(node);
        normaliser * (-0.5 * z * z).exp() * of(mean + deviation * z)
    });
    terms.sum()
}

pub(crate) fn sigmoid(z: f64) -> f64 {
    (1.0 + (-z).exp()).recip()
}

pub(crate) fn softplus(z: f64) -> f64 {
    z.max(0.0) + (-z.abs()).exp().ln_1p()
}

pub(crate) fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(a, b)| a * b).sum()
}

/// `target` += `scale` · `source`
pub(crate) fn add(target: &mut [f64], scale: f64, source: &[f64]) {
    let entries = target.iter_mut().zip(source);
    entries.for_each(|(entry, source)| *entry += scale * source);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_are_exact_for_polynomials() {
        // E z⁴ = m⁴ + 6 m² v + 3 v² for m = 1, v = 4.
        let found = expectation([1.0, 4.0], |z| z.powi(4));
        assert!((found - 73.0).abs() < 1e-10, "{found}");
        assert!((expectation([0.3, 2.0], |_| 1.0) - 1.0).abs() < 1e-13);
    }

    fn rows() -> Rows {
        let inputs = vec![1.0, 0.5, 1.0, -1.0, 1.0, 2.0, 1.0, -0.2, 1.0, 0.9];
        Rows {
            inputs,
            targets: vec![1.0, -1.0, 1.0, -1.0, -1.0],
            width: 2,
        }
    }

    #[test]
    fn no_nearby_gaussian_has_a_better_bound() {
        let (rows, prior) = (rows(), 0.5);
        let fisher = fixed_point(&rows, prior, Family::Full, Curvature::EmpiricalFisher).unwrap();
        let least = bound(&rows, &optimum(&rows, prior, Family::Full).unwrap(), prior).unwrap();
        assert!(bound(&rows, &fisher, prior).unwrap() > least);
        for family in [Family::Full, Family::MeanField] {
            let best = optimum(&rows, prior, family).unwrap();
            let least = bound(&rows, &best, prior).unwrap();
            for step in [-1e-2, 1e-2] {
                for at in 0..2 {
                    let mut mean = best.mean().to_vec();
                    mean[at] += step;
                    let covariance = best.covariance().as_slice().to_vec();
                    let other = DenseGaussian::new(mean, covariance.clone()).unwrap();
                    assert!(bound(&rows, &other, prior).unwrap() > least);
                    let mut covariance = covariance;
                    covariance[3 * at] *= 1.0 + step;
                    let other = DenseGaussian::new(best.mean().to_vec(), covariance).unwrap();
                    assert!(bound(&rows, &other, prior).unwrap() > least);
                }
            }
            let correlation = best.covariance().get(0, 1);
            assert_eq!(correlation == 0.0, family == Family::MeanField);
        }
    }
}
