//! The gradient of VIFA's covariance from a curvature, without the noise of draws.
//!
//! An objective ½ tr(G S) of the covariance S = FᵀF + diag ψ with a symmetric matrix G has the gradients
//!
//! ```text
//! ∇F = F G            ∇γ = ½ ψ⊙diag G
//! ∇V = (F G)⊙ψ^½      ∇γ = ½ (ψ⊙diag G + Σ_k F_k⊙(F G)_k)     in units of the deviations, F = V diag(ψ^½)
//! ```
//!
//! G is N times the Gauss–Newton matrix of the loss, or K⁻¹ minus the inverse covariance of the outputs, as seen by the
//! weights. Neither needs a D×D matrix.

use burn::tensor::Tensor;
use burn_bayes_graph::ExampleGradients;

use crate::kernels::statistics::column_dot;
use crate::kernels::{
    self, CovarianceGradient, CovarianceParts, DrawGradient, FactorUnits, Objective,
    inner_products, sum,
};
use crate::methods::{DivergenceGradient, GradientPieces, Proposal, Setup, whole};

/// The gradient of `scale · Σ_draws NLL + τ · KL` and of a prior over functions, from the gradients of the mean loss at the
/// draws of a proposal.
pub(super) fn gradient(
    setup: &Setup,
    parts: &CovarianceParts,
    proposal: &Proposal,
    (gradients, batch_size): (GradientPieces, usize),
    objective: Objective<'_>,
) -> CovarianceGradient {
    let draws = proposal.draws.iter().zip(gradients);
    let draws = draws.map(|(draw, parts)| DrawGradient {
        noise: draw.noise,
        parts,
    });
    let draws: Vec<_> = draws.collect();
    let functions = function_gradients(setup, proposal);
    match &proposal.curvature {
        // A stage of the mean alone proposes no Gaussian.
        Some(rows) if proposal.gaussian.is_some() => {
            let loss = GaussNewton {
                draws,
                rows,
                batch_size,
            };
            loss.gradient(parts, functions, objective)
        }
        _ => kernels::covariance_gradient(parts, &added(draws, functions), objective),
    }
}

/// 1/N of the gradients of a prior over functions at the draws of a proposal.
fn function_gradients(setup: &Setup, proposal: &Proposal) -> Option<Vec<DrawGradient>> {
    let function = proposal.function.as_ref()?;
    let draws = proposal.draws.iter().zip(&function.gradients);
    let draws = draws.map(|(draw, gradient)| DrawGradient {
        noise: draw.noise,
        parts: vec![gradient.clone().div_scalar(setup.ess)],
    });
    // A divergence between Gaussians has none.
    Some(draws.collect()).filter(|draws: &Vec<_>| !draws.is_empty())
}

/// The sums of two gradients at the same draws.
fn added(draws: Vec<DrawGradient>, others: Option<Vec<DrawGradient>>) -> Vec<DrawGradient> {
    let Some(others) = others else {
        return draws;
    };
    let both = draws.into_iter().zip(others);
    both.map(|(draw, other)| DrawGradient {
        noise: draw.noise,
        parts: vec![whole(draw.parts) + whole(other.parts)],
    })
    .collect()
}

/// A loss with its Gauss–Newton matrix.
struct GaussNewton<'a> {
    /// Gradients of the mean loss.
    draws: Vec<DrawGradient>,
    /// Rows whose outer products, summed over the outputs and averaged over draws and examples, are the matrix.
    rows: &'a ExampleGradients,
    batch_size: usize,
}

impl GaussNewton<'_> {
    /// The gradient of `scale · Σ_draws NLL + τ · KL`, in which the Gauss–Newton matrix replaces the products of the loss's
    /// gradients and the noise; those of the prior over `functions` remain.
    fn gradient(
        self,
        parts: &CovarianceParts,
        functions: Option<Vec<DrawGradient>>,
        objective: Objective<'_>,
    ) -> CovarianceGradient {
        let Self {
            draws,
            rows,
            batch_size,
        } = self;
        let sums = draws.iter().map(|draw| whole(draw.parts.clone()));
        let sum = sums.reduce(|sum, next| sum + next);
        let functions = functions.unwrap_or_else(|| {
            let zeros = |parts: &[Tensor<1>]| parts.iter().map(Tensor::zeros_like).collect();
            let still = draws.iter().take(1).map(|draw| DrawGradient {
                noise: draw.noise,
                parts: zeros(&draw.parts),
            });
            still.collect()
        });
        let mut gradient = kernels::covariance_gradient(parts, &functions, objective);
        if let Some(sum) = sum {
            gradient.mean = gradient.mean + sum.mul_scalar(objective.scale);
        }
        let scale = objective.scale / batch_size as f64;
        let product = |factors: Tensor<2>| {
            let projections = rows.dot(factors).transpose();
            rows.weighted_sums(projections).mul_scalar(scale)
        };
        let diagonal = rows.sum_of_squares().mul_scalar(scale);
        with_curvature(gradient, parts, product, diagonal)
    }
}

/// Adds `share` times the gradient of a divergence between Gaussians over functions.
pub(super) fn with_divergence(
    mut gradient: CovarianceGradient,
    parts: &CovarianceParts,
    divergence: &DivergenceGradient,
    share: f64,
) -> CovarianceGradient {
    gradient.mean = gradient.mean + divergence.mean.clone().mul_scalar(share);
    let rows = divergence.rows.clone();
    let weighted = divergence.weights.clone().matmul(rows.clone());
    let weighted = weighted.mul_scalar(share);
    let product = |factors: Tensor<2>| {
        let projections = inner_products(&factors, &rows);
        projections.matmul(weighted.clone())
    };
    let diagonal = column_dot(rows.clone(), weighted.clone());
    with_curvature(gradient, parts, product, diagonal)
}

/// Adds the gradient of ½ tr(G S), from F G for factors F in the units of the weights, and diag G.
fn with_curvature(
    mut gradient: CovarianceGradient,
    parts: &CovarianceParts,
    product: impl Fn(Tensor<2>) -> Tensor<2>,
    diagonal: Tensor<1>,
) -> CovarianceGradient {
    let deviation = parts.diagonal.deviation();
    let mut log_variance = parts.diagonal.variance() * diagonal;
    let factors = parts.clone().in_units_of_weights().factors;
    let terms = factors.map(|factors| {
        let product = product(factors.clone());
        match parts.units {
            FactorUnits::Weights => product,
            FactorUnits::Deviations => {
                log_variance = log_variance.clone() + column_dot(factors, product.clone());
                product * deviation.unsqueeze::<2>()
            }
        }
    });
    gradient.factors = match (gradient.factors, terms) {
        (Some(factors), Some(term)) => Some(factors + term),
        (factors, _) => factors,
    };
    gradient.log_variance = gradient.log_variance + log_variance.mul_scalar(0.5);
    measured(gradient)
}

/// The gradient with its squared norms, and a sign of numbers that are not finite.
fn measured(gradient: CovarianceGradient) -> CovarianceGradient {
    let mut norms = vec![sum(gradient.mean.clone().square())];
    let factors = gradient.factors.clone();
    norms.extend(factors.map(|factors| sum(factors.square())));
    norms.push(sum(gradient.log_variance.clone().square()));
    let norms = kernels::composed::to_host(Tensor::cat(norms, 0));
    let squared_norms = match norms.as_slice() {
        [mean, factors, log_variance] => [*mean, *factors, *log_variance],
        [mean, log_variance] => [*mean, 0.0, *log_variance],
        _ => unreachable!("two or three norms"),
    };
    let is_finite = squared_norms.iter().all(|norm| norm.is_finite());
    let first_non_finite = gradient.first_non_finite.or_else(|| {
        let values = (!is_finite).then(|| kernels::composed::to_host(gradient.mean.clone()));
        let bad = |values: Vec<f64>| values.iter().position(|value| !value.is_finite());
        values.map(|values| bad(values).unwrap_or(0))
    });
    CovarianceGradient {
        squared_norms,
        first_non_finite,
        ..gradient
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::kernels::Diagonal;
    use crate::kernels::composed::{from_host, to_host};

    const WEIGHTS: usize = 4;
    const ROWS: usize = 3;

    fn rows(count: usize, width: usize, shift: f64) -> Vec<f64> {
        (0..count * width)
            .map(|i| (1.3 * i as f64 + shift).sin())
            .collect()
    }

    fn tensor(values: &[f64], shape: [usize; 2]) -> Tensor<2> {
        from_host(values, shape, &Device::default())
    }

    /// ½ tr(G S) in double precision, G = JᵀWJ.
    fn objective(units: FactorUnits, factors: &[f64], log_variance: &[f64], g: &[f64]) -> f64 {
        let deviation: Vec<f64> = log_variance.iter().map(|g| (0.5 * g).exp()).collect();
        let mut sum = 0.0;
        for i in 0..WEIGHTS {
            for j in 0..WEIGHTS {
                let mut entry: f64 = factors
                    .chunks_exact(WEIGHTS)
                    .map(|row| row[i] * row[j])
                    .sum();
                if units == FactorUnits::Deviations {
                    entry *= deviation[i] * deviation[j];
                }
                if i == j {
                    entry += deviation[i] * deviation[i];
                }
                sum += 0.5 * g[i * WEIGHTS + j] * entry;
            }
        }
        sum
    }

    /// Central differences of the objective have an error of about 10⁻¹⁰; the gradient is in single precision.
    #[test]
    fn the_gradient_is_that_of_the_dense_trace() {
        let jacobian = rows(ROWS, WEIGHTS, 0.4);
        let weights = rows(ROWS, ROWS, 0.9);
        let weights: Vec<f64> = (0..ROWS * ROWS)
            .map(|i| weights[i] + weights[i % ROWS * ROWS + i / ROWS])
            .collect();
        let mut dense = vec![0.0; WEIGHTS * WEIGHTS];
        for (at, entry) in dense.iter_mut().enumerate() {
            let (i, j) = (at / WEIGHTS, at % WEIGHTS);
            for a in 0..ROWS {
                for b in 0..ROWS {
                    *entry += jacobian[a * WEIGHTS + i]
                        * weights[a * ROWS + b]
                        * jacobian[b * WEIGHTS + j];
                }
            }
        }
        let log_variance = rows(1, WEIGHTS, 2.0);
        for units in [FactorUnits::Weights, FactorUnits::Deviations] {
            for rank in [0, 2] {
                let factors = rows(rank, WEIGHTS, 5.0);
                let to_vector = |values: &[f64]| tensor(values, [1, WEIGHTS]).squeeze_dim::<1>(0);
                let log_variances = to_vector(&log_variance);
                let parts = CovarianceParts {
                    mean: log_variances.zeros_like(),
                    factors: (rank > 0).then(|| tensor(&factors, [rank, WEIGHTS])),
                    units,
                    diagonal: Diagonal::LogVariance(log_variances.clone()),
                };
                let zero = CovarianceGradient {
                    mean: log_variances.zeros_like(),
                    factors: parts.factors.as_ref().map(Tensor::zeros_like),
                    log_variance: log_variances.zeros_like(),
                    squared_norms: [0.0; 3],
                    first_non_finite: None,
                };
                let divergence = DivergenceGradient {
                    mean: log_variances,
                    rows: tensor(&jacobian, [ROWS, WEIGHTS]),
                    weights: tensor(&weights, [ROWS, ROWS]),
                };
                let share = 0.5;
                let found = with_divergence(zero, &parts, &divergence, share);
                let check = |found: Vec<f64>, value: &dyn Fn(usize, f64) -> f64| {
                    for (at, found) in found.iter().enumerate() {
                        let expected = share * (value(at, 1e-5) - value(at, -1e-5)) / 2e-5;
                        let bound = 2e-5 * (1.0 + expected.abs());
                        assert!((found - expected).abs() < bound, "{found} {expected}");
                    }
                };
                let with = |values: &[f64], at: usize, step: f64| {
                    let mut values = values.to_vec();
                    values[at] += step;
                    values
                };
                let squares: f64 = to_host(found.log_variance.clone())
                    .iter()
                    .map(|x| x * x)
                    .sum();
                assert!((found.squared_norms[2] - squares).abs() < 1e-5 * (1.0 + squares));
                check(to_host(found.log_variance), &|at, step| {
                    objective(units, &factors, &with(&log_variance, at, step), &dense)
                });
                if let Some(term) = found.factors {
                    check(to_host(term), &|at, step| {
                        objective(units, &with(&factors, at, step), &log_variance, &dense)
                    });
                }
            }
        }
    }
}
