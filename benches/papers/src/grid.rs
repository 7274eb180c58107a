//! The posterior of a logistic regression with two weights, on a grid.
//!
//! The grid is laid in z with θ = m + L z for a Gaussian N(m, LLᵀ) near the posterior, and reaches so far
//! that its edges do not matter. The trapezoidal rule is then as good as exact.

use std::f64::consts::TAU;

use burn_bayes::posterior::DenseGaussian;

use burn_bayes_tabular::error::{Result, TabularError};

use super::linear_model::Rows;
use super::logistic::{dot, softplus};

/// Points of a grid with the posterior's probability of each.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    points: Vec<[f64; 2]>,
    probabilities: Vec<f64>,
    /// θ's area that a point stands for.
    area: f64,
    log_evidence: f64,
}

/// Points on each side of the centre, and their distance in z.
const REACH: i32 = 60;
const STEP: f64 = 0.15;

impl Grid {
    /// The posterior of these rows' two weights under a prior of this precision.
    ///
    /// # Errors
    ///
    /// Rows of other than two features.
    pub(crate) fn new(rows: &Rows, prior: f64, near: &DenseGaussian) -> Result<Self> {
        if rows.width != 2 {
            return Err(TabularError::Data(format!(
                "a grid needs two features, not {}",
                rows.width
            )));
        }
        let nodes = || (-REACH..=REACH).map(|node| STEP * f64::from(node));
        let mut points = Vec::new();
        let mut logarithms = Vec::new();
        for z in nodes().flat_map(|first| nodes().map(move |second| [first, second])) {
            let theta = near.draw(&z)?;
            let losses = rows.iter().map(|(x, t)| softplus(-t * dot(x, &theta)));
            let prior_density = (prior / TAU).ln() - 0.5 * prior * dot(&theta, &theta);
            logarithms.push(prior_density - losses.sum::<f64>());
            points.push([theta[0], theta[1]]);
        }
        let area = STEP * STEP * (0.5 * near.log_determinant()).exp();
        let largest = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logarithms.iter().map(|l| (l - largest).exp()).collect();
        let sum: f64 = weights.iter().sum();
        Ok(Self {
            points,
            probabilities: weights.into_iter().map(|weight| weight / sum).collect(),
            area,
            log_evidence: largest + (sum * area).ln(),
        })
    }

    /// The logarithm of the evidence, nats.
    pub(crate) fn log_evidence(&self) -> f64 {
        self.log_evidence
    }

    /// The Gaussian with the posterior's mean and covariance.
    pub(crate) fn moments(&self) -> Result<DenseGaussian> {
        let average = |of: &dyn Fn(&[f64; 2]) -> f64| {
            let terms = self.points.iter().zip(&self.probabilities);
            terms
                .map(|(point, probability)| probability * of(point))
                .sum::<f64>()
        };
        let mean = [0, 1].map(|at| average(&|point| point[at]));
        let entries = [(0, 0), (0, 1), (1, 0), (1, 1)];
        let covariance =
            entries.map(|(i, j)| average(&|point| (point[i] - mean[i]) * (point[j] - mean[j])));
        Ok(DenseGaussian::new(mean.to_vec(), covariance.to_vec())?)
    }

    /// KL(posterior ‖ `gaussian`), nats.
    pub(crate) fn divergence_to(&self, gaussian: &DenseGaussian) -> Result<f64> {
        let mut sum = 0.0;
        for (point, &probability) in self.points.iter().zip(&self.probabilities) {
            if probability > 0.0 {
                let log_density = (probability / self.area).ln();
                sum += probability * (log_density - gaussian.log_density(point)?);
            }
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_bayes_contrib::methods::LogisticPosterior;

    use crate::logistic::{bound, posterior};

    #[test]
    fn the_bound_and_the_divergence_make_the_evidence() {
        // With no rows that say anything, the posterior is the prior.
        let nothing = Rows {
            inputs: vec![0.0; 4],
            targets: vec![1.0, -1.0],
            width: 2,
        };
        let prior = 0.5;
        let gaussian = DenseGaussian::from_variances(vec![0.0; 2], &[2.0; 2]).unwrap();
        let grid = Grid::new(&nothing, prior, &gaussian).unwrap();
        assert!((grid.log_evidence() + 2.0 * 2.0f64.ln()).abs() < 1e-12);
        assert!(grid.divergence_to(&gaussian).unwrap().abs() < 1e-12);
        let moments = grid.moments().unwrap();
        assert!((moments.variances()[0] - 2.0).abs() < 1e-12);

        // −ELBO − (−log evidence) = KL(q‖p) > 0.
        let rows = Rows {
            inputs: vec![1.0, 0.5, 1.0, -1.0, 1.0, 2.0],
            targets: vec![1.0, -1.0, -1.0],
            width: 2,
        };
        let best = posterior(&rows, prior, LogisticPosterior::Full).unwrap();
        let grid = Grid::new(&rows, prior, &best).unwrap();
        let divergence = 3.0 * bound(&rows, &best, prior).unwrap() + grid.log_evidence();
        assert!(divergence > 0.0 && divergence < 0.1, "{divergence}");
    }
}
