//! Bayesian linear regression with empirical Bayes: the prior precision α and the noise precision β
//! maximise the evidence p(y | X, α, β), found by MacKay's fixed-point iteration.
//!
//! With XᵀX = Σᵢ sᵢ vᵢvᵢᵀ, D weights and N rows:
//!
//! ```text
//! m = β (αI + βXᵀX)⁻¹ Xᵀy                         the posterior's mean
//! γ = Σᵢ β sᵢ / (α + β sᵢ)                        how many weights the data determine
//! α⁺ = γ / ‖m‖²,   β⁺ = (N − γ) / ‖y − Xm‖²
//! log p(y) = ½ [D log α + N log β − β‖y − Xm‖² − α‖m‖² − Σᵢ log(α + β sᵢ) − N log 2π]
//! ```
//!
//! | symbol | here |
//! |---|---|
//! | α | [`BayesianRidge::prior_precision`] |
//! | β | [`BayesianRidge::noise_precision`] |
//! | γ | [`BayesianRidge::determined`] |
//!
//! Reference: MacKay (1992), "Bayesian interpolation". scikit-learn's `BayesianRidge` adds a gamma
//! prior on both precisions, which is almost flat by default.

use std::f64::consts::TAU;

use burn_bayes::algebra::{SquareMatrix, SymmetricEigen, dot};
use burn_bayes::eval::Bounded;
use burn_bayes::posterior::{DenseGaussian, linear_regression_posterior};
use burn_bayes::{Error, Result};

/// Relative change of both precisions at which the iteration has converged.
const CHANGE: f64 = 1e-12;
/// Number of iterations after which the fit fails.
const MOST_STEPS: usize = 100_000;

/// A linear regression without intercept, with the precisions that maximise the evidence.
///
/// For an intercept, centre the features and the targets first.
///
/// ```
/// use burn_bayes_contrib::methods::BayesianRidge;
///
/// let ridge = BayesianRidge::fit(&[1.0, 2.0, 3.0, 4.0], &[1.1, 1.9, 3.2, 3.9])?;
/// assert!((ridge.posterior().mean()[0] - 1.0).abs() < 0.02);
/// assert!(ridge.determined() > 0.99);
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct BayesianRidge {
    prior_precision: f64,
    noise_precision: f64,
    determined: f64,
    log_evidence: f64,
    posterior: DenseGaussian,
}

impl BayesianRidge {
    /// Fits the precisions to `inputs`, N×D row by row, and N targets.
    ///
    /// # Errors
    ///
    /// Lengths that do not match, numbers that are not finite, or data for which the evidence has
    /// no maximum: targets that the features do not explain at all, or explain without residual.
    pub fn fit(inputs: &[f64], targets: &[f64]) -> Result<Self> {
        let mean_square = dot(targets, targets) / targets.len().max(1) as f64;
        if !(mean_square.is_finite() && mean_square > 0.0) {
            let problem = "are empty, all zero or not finite";
            return Err(Error::numerical(problem));
        }
        // Checks everything else about the data.
        linear_regression_posterior(inputs, targets, 1.0, 1.0)?;
        let problem = Problem::new(inputs, targets)?;
        let (mut prior, mut noise) = (1.0, mean_square.recip());
        // The value of ‖y − Xm‖² that rounding leaves for an exact fit.
        let rounding = (targets.len() as f64 * f64::EPSILON).powi(2) * dot(targets, targets);
        for _ in 0..MOST_STEPS {
            let Fit {
                determined,
                squared_norm,
                squared_rest,
                ..
            } = problem.fit(prior, noise);
            if squared_rest <= rounding {
                return Err(no_maximum());
            }
            let next_prior = determined / squared_norm;
            let next_noise = (targets.len() as f64 - determined) / squared_rest;
            let is_usable = |precision: f64| precision.is_finite() && precision > 0.0;
            if !(is_usable(next_prior) && is_usable(next_noise)) {
                return Err(no_maximum());
            }
            let moved = (next_prior / prior - 1.0).abs() + (next_noise / noise - 1.0).abs();
            (prior, noise) = (next_prior, next_noise);
            if moved < CHANGE {
                return Ok(Self {
                    prior_precision: prior,
                    noise_precision: noise,
                    determined,
                    log_evidence: problem.log_evidence(prior, noise),
                    posterior: linear_regression_posterior(inputs, targets, prior, noise)?,
                });
            }
        }
        Err(no_maximum())
    }

    /// α, the precision of the weights' prior.
    pub fn prior_precision(&self) -> f64 {
        self.prior_precision
    }

    /// β, the precision of the noise.
    pub fn noise_precision(&self) -> f64 {
        self.noise_precision
    }

    /// γ, the effective number of weights determined by the data, from 0 to D.
    pub fn determined(&self) -> f64 {
        self.determined
    }

    /// log p(y | X, α, β), nats.
    pub fn log_evidence(&self) -> f64 {
        self.log_evidence
    }

    /// The posterior of the weights, given these precisions.
    pub fn posterior(&self) -> &DenseGaussian {
        &self.posterior
    }
}

fn no_maximum() -> Error {
    Error::numerical(
        "the evidence has no maximum over the prior and noise precisions; likely causes: targets \
         that do not depend on the features, are a noise-free linear function of them, or are \
         fewer than the features",
    )
}

/// The data in the basis of the eigenvectors of XᵀX.
struct Problem<'a> {
    inputs: &'a [f64],
    targets: &'a [f64],
    eigen: SymmetricEigen,
    /// vᵢᵀXᵀy.
    projections: Vec<f64>,
}

/// The fit for two given precisions.
struct Fit {
    determined: f64,
    /// ‖m‖².
    squared_norm: f64,
    /// ‖y − Xm‖².
    squared_rest: f64,
}

impl<'a> Problem<'a> {
    fn new(inputs: &'a [f64], targets: &'a [f64]) -> Result<Self> {
        let dimension = inputs.len() / targets.len();
        let mut products = vec![0.0; dimension];
        let mut gram = vec![0.0; dimension * dimension];
        for (row, target) in inputs.chunks_exact(dimension.max(1)).zip(targets) {
            for (i, input) in row.iter().enumerate() {
                products[i] += target * input;
                let sums = gram[i * dimension..][..dimension].iter_mut();
                sums.zip(row).for_each(|(sum, other)| *sum += input * other);
            }
        }
        let eigen = SymmetricEigen::new(&SquareMatrix::from_row_major(dimension, gram)?)?;
        Ok(Self {
            inputs,
            targets,
            projections: eigen.vectors().multiply_vector(&products)?,
            eigen,
        })
    }

    /// sᵢ; rounding may make a zero eigenvalue negative.
    fn values(&self) -> impl Iterator<Item = f64> {
        self.eigen.values().iter().map(|value| value.at_least(0.0))
    }

    fn fit(&self, prior: f64, noise: f64) -> Fit {
        let values = || self.values();
        let pairs = values().zip(&self.projections);
        let along: Vec<f64> = pairs
            .map(|(value, projection)| noise * projection / (prior + noise * value))
            .collect();
        let mut mean = vec![0.0; along.len()];
        for (k, share) in along.iter().enumerate() {
            let entries = mean.iter_mut().zip(self.eigen.vectors().row(k));
            entries.for_each(|(entry, vector)| *entry += share * vector);
        }
        let rows = self.inputs.chunks_exact(mean.len().max(1));
        let rest = rows.zip(self.targets).map(|(row, y)| y - dot(row, &mean));
        Fit {
            determined: values().map(|s| noise * s / (prior + noise * s)).sum(),
            squared_norm: dot(&along, &along),
            squared_rest: rest.map(|rest| rest * rest).sum(),
        }
    }

    fn log_evidence(&self, prior: f64, noise: f64) -> f64 {
        let fit = self.fit(prior, noise);
        let rows = self.targets.len() as f64;
        let weights = self.projections.len() as f64;
        let volume: f64 = self.values().map(|s| (prior + noise * s).ln()).sum();
        0.5 * (weights * prior.ln() + rows * noise.ln()
            - noise * fit.squared_rest
            - prior * fit.squared_norm
            - volume
            - rows * TAU.ln())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Golden {
        cases: Vec<Case>,
    }

    #[derive(Deserialize)]
    struct Case {
        features: usize,
        inputs: Vec<f64>,
        targets: Vec<f64>,
        prior_precision: f64,
        noise_precision: f64,
        mean: Vec<f64>,
        covariance: Vec<f64>,
    }

    /// The output of `xtask/golden/bayesian_ridge.py`.
    fn golden() -> Vec<Case> {
        let text = include_str!("../../golden/bayesian_ridge.json");
        serde_json::from_str::<Golden>(text).unwrap().cases
    }

    fn assert_close(found: &[f64], expected: &[f64], relative: f64) {
        assert_eq!(found.len(), expected.len());
        let scale = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        for (found, expected) in found.iter().zip(expected) {
            let bound = relative * scale;
            assert!((found - expected).abs() <= bound, "{found} {expected}");
        }
    }

    #[test]
    fn precisions_and_posterior_are_those_of_scikit_learn() {
        // Both iterate to convergence; the difference is the rounding of a few solves.
        const TOLERANCE: f64 = 1e-11;
        for case in golden() {
            let ridge = BayesianRidge::fit(&case.inputs, &case.targets).unwrap();
            assert_close(
                &[ridge.prior_precision()],
                &[case.prior_precision],
                TOLERANCE,
            );
            assert_close(
                &[ridge.noise_precision()],
                &[case.noise_precision],
                TOLERANCE,
            );
            let posterior = ridge.posterior();
            assert_close(posterior.mean(), &case.mean, TOLERANCE);
            let covariance = posterior.covariance().as_slice();
            assert_close(covariance, &case.covariance, TOLERANCE);
            assert!(ridge.determined() <= case.features as f64);
        }
    }

    #[test]
    fn no_other_precisions_have_more_evidence() {
        for case in golden() {
            let ridge = BayesianRidge::fit(&case.inputs, &case.targets).unwrap();
            let problem = Problem::new(&case.inputs, &case.targets).unwrap();
            for (prior, noise) in [(0.99, 1.0), (1.01, 1.0), (1.0, 0.99), (1.0, 1.01)] {
                let [prior, noise] = [
                    prior * ridge.prior_precision(),
                    noise * ridge.noise_precision(),
                ];
                assert!(problem.log_evidence(prior, noise) < ridge.log_evidence());
            }
        }
    }

    #[test]
    fn evidence_is_the_density_of_the_targets() {
        // y ~ N(0, XXᵀ/α + I/β) for two rows and one weight.
        let (inputs, targets) = ([1.0, 2.0], [0.5, -1.0]);
        let problem = Problem::new(&inputs, &targets).unwrap();
        let (prior, noise) = (0.7, 1.3);
        let covariance = vec![
            1.0 / prior + 1.0 / noise,
            2.0 / prior,
            2.0 / prior,
            4.0 / prior + 1.0 / noise,
        ];
        let gaussian = DenseGaussian::new(vec![0.0; 2], covariance).unwrap();
        let expected = gaussian.log_density(&targets).unwrap();
        let found = problem.log_evidence(prior, noise);
        assert!((found - expected).abs() < 1e-13, "{found} {expected}");
    }

    #[test]
    fn data_without_a_most_probable_precision_are_refused() {
        for (inputs, targets) in [
            (vec![1.0, 2.0, 3.0], vec![0.0; 3]),
            (vec![1.0, 2.0, 3.0], vec![2.0, 4.0, 6.0]),
            (vec![1.0, -1.0, 1.0, -1.0], vec![1.0, 1.0, -1.0, -1.0]),
            (vec![], vec![]),
        ] {
            let error = BayesianRidge::fit(&inputs, &targets).unwrap_err();
            assert!(error.is_numerical(), "{error}");
        }
        assert!(BayesianRidge::fit(&[1.0, f64::NAN], &[1.0, 2.0]).is_err());
        assert!(BayesianRidge::fit(&[1.0, 2.0, 3.0], &[1.0, 2.0]).is_err());
    }
}
