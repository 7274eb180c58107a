//! Scores of real-valued predictions: root mean squared error and the mixture's likelihood.
//!
//!   RMSE = √((1/N) Σ_r (ŷ_r − y_r)²)
//!   NMLL = −(1/N) Σ_r ln (1/S) Σ_s N(y_r; f_sr, 1/β_sr)
//!
//! The inner logarithm is taken as max + ln Σ exp(· − max), so far-off targets cost what they should
//! instead of +∞. On standardised targets add ln of their deviation, or score
//! [`GaussianMixture::unnormalised`](crate::GaussianMixture::unnormalised).
//!
//! Reference: J. M. Hernández-Lobato and R. P. Adams, "Probabilistic backpropagation for scalable
//! learning of Bayesian neural networks" (2015), whose tables report both.

use crate::check;
use crate::error::EvalError;
use crate::mixture::TargetedMixture;
use crate::normal;
use crate::order::mean;

/// Root mean squared error of point predictions, for a Bayesian model the
/// [`mean`](crate::GaussianMixture::mean) of its mixtures.
///
/// ```
/// use burn_bayes_eval::rmse;
///
/// assert_eq!(rmse(&[1.0, 2.0], &[4.0, 6.0])?, 12.5f64.sqrt());
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A data error if the lengths differ, there are no rows or a value is not finite.
pub fn rmse(predictions: &[f64], targets: &[f64]) -> Result<f64, EvalError> {
    check::not_empty("targets", targets.len())?;
    check::same_length("predictions", predictions.len(), targets.len())?;
    check::finite("predictions", predictions)?;
    check::finite("targets", targets)?;
    let squares: Vec<f64> = predictions
        .iter()
        .zip(targets)
        .map(|(a, b)| (a - b) * (a - b))
        .collect();
    Ok(mean(&squares).sqrt())
}

/// Negative mean log-likelihood of the targets under the mixtures, in nats per row.
///
/// ```
/// use burn_bayes_eval::{GaussianMixture, NoisePrecision, TargetedMixture, nmll};
///
/// let mixture = GaussianMixture::new(&[-1.0, 1.0], 2, 1, NoisePrecision::Shared(1.0))?;
/// let score = nmll(&TargetedMixture::new(&mixture, &[0.0])?);
/// // Both components have the density exp(−1/2)/√(2π) at 0.
/// assert!((score - (0.5 + 0.5 * (2.0 * std::f64::consts::PI).ln())).abs() < 1e-15);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn nmll(targeted: &TargetedMixture<'_>) -> f64 {
    -mean(&log_densities(targeted))
}

/// Log-density of each target under its mixture, in nats: the terms of [`nmll`], without its sign.
pub fn log_densities(targeted: &TargetedMixture<'_>) -> Vec<f64> {
    let mixture = targeted.mixture();
    let log_draws = (mixture.draws() as f64).ln();
    targeted.map(|row, target| {
        let terms = mixture.components(row).map(|component| {
            normal::log_density(component.standardised(target)) - component.deviation.ln()
        });
        let largest = terms.clone().fold(f64::NEG_INFINITY, f64::max);
        if largest == f64::NEG_INFINITY {
            return largest; // z² overflowed for every component
        }
        let sum: f64 = terms.map(|term| (term - largest).exp()).sum();
        largest + sum.ln() - log_draws
    })
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;
    use crate::{GaussianMixture, NoisePrecision};

    #[test]
    fn one_gaussian_has_the_textbook_likelihood() {
        let mixture = GaussianMixture::new(&[1.0], 1, 1, NoisePrecision::Shared(4.0)).unwrap();
        let score = nmll(&TargetedMixture::new(&mixture, &[2.0]).unwrap());
        let expected = 0.5 * (2.0 * PI).ln() - 2f64.ln() + 2.0;
        assert!((score - expected).abs() < 8.0 * f64::EPSILON);
    }

    #[test]
    fn a_far_target_is_charged_its_distance() {
        // One component at distance 100, the other at 1000: exp underflows, the score does not.
        let mixture =
            GaussianMixture::new(&[100.0, 1000.0], 2, 1, NoisePrecision::Shared(1.0)).unwrap();
        let score = nmll(&TargetedMixture::new(&mixture, &[0.0]).unwrap());
        let expected = 5000.0 + 0.5 * (2.0 * PI).ln() + 2f64.ln();
        assert!((score - expected).abs() < 5000.0 * 4.0 * f64::EPSILON);
    }

    #[test]
    fn an_overflowing_distance_is_infinitely_bad_and_no_nan() {
        let mixture = GaussianMixture::new(&[0.0], 1, 1, NoisePrecision::Shared(1.0)).unwrap();
        let score = nmll(&TargetedMixture::new(&mixture, &[1e200]).unwrap());
        assert_eq!(score, f64::INFINITY);
    }

    #[test]
    fn rmse_rejects_bad_input() {
        assert!(rmse(&[], &[]).unwrap_err().is_data());
        assert!(rmse(&[1.0], &[1.0, 2.0]).unwrap_err().is_data());
        assert_eq!(
            rmse(&[1.0, f64::NAN], &[1.0, 2.0]).unwrap_err().row(),
            Some(1)
        );
        assert_eq!(
            rmse(&[1.0, 2.0], &[f64::INFINITY, 2.0]).unwrap_err().row(),
            Some(0)
        );
    }
}
