//! Scores of real-valued predictions: root mean squared error and the mixture's likelihood.
//!
//!   RMSE = √((1/N) Σ_r (ŷ_r − y_r)²)
//!   NLL = −(1/N) Σ_r ln (1/S) Σ_s N(y_r; f_sr, 1/β_sr)
//!
//! Several targets of a row are predicted by the same draws, so they have a joint mixture:
//!
//!   ln p(y_r) = ln (1/S) Σ_s Π_t N(y_rt; f_srt, 1/β_srt)
//!
//! The sum of the marginal log-densities would assume independent draws for each target.
//!
//! The inner logarithm is computed as max + ln Σ exp(· − max), so that distant targets have a
//! finite loss. For standardised targets add the logarithm of their standard deviation, or score
//! [`GaussianMixture::unnormalised`](crate::GaussianMixture::unnormalised).
//!
//! Reference: J. M. Hernández-Lobato and R. P. Adams, "Probabilistic backpropagation for scalable
//! learning of Bayesian neural networks" (2015), whose tables report both.

use crate::check;
use crate::error::EvalError;
use crate::order::mean;
use crate::special::normal;
use crate::views::mixture::TargetedMixture;

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

/// Negative mean log-likelihood of the targets under the mixtures, in nats per row, for one target
/// per row; for several, use [`joint_log_densities`].
///
/// ```
/// use burn_bayes_eval::{GaussianMixture, NoisePrecision, TargetedMixture, mixture_nll};
///
/// let mixture = GaussianMixture::new(&[-1.0, 1.0], 2, 1, NoisePrecision::Shared(1.0))?;
/// let score = mixture_nll(&TargetedMixture::new(&mixture, &[0.0])?);
/// // Both components have the density exp(−1/2)/√(2π) at 0.
/// assert!((score - (0.5 + 0.5 * (2.0 * std::f64::consts::PI).ln())).abs() < 1e-15);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn mixture_nll(targeted: &TargetedMixture<'_>) -> f64 {
    -mean(&log_densities(targeted))
}

/// Log-density of each target under its mixture, in nats: the negative terms of [`mixture_nll`].
pub fn log_densities(targeted: &TargetedMixture<'_>) -> Vec<f64> {
    grouped(targeted, 1)
}

/// Joint log-density of all targets of a row under the mixture of the draws, in nats: each draw's
/// log-densities are added before averaging over draws.
///
/// The values of `targeted` are row-major, with `columns` targets per row. With one column the
/// result equals [`log_densities`].
///
/// ```
/// use burn_bayes_eval::{
///     GaussianMixture, NoisePrecision, TargetedMixture, joint_log_densities, log_densities,
/// };
///
/// // Two draws predict (0, 0) and (9, 9) for the two targets of one row.
/// let means = [0.0, 0.0, 9.0, 9.0];
/// let mixture = GaussianMixture::new(&means, 2, 2, NoisePrecision::Shared(1.0))?;
/// let targeted = TargetedMixture::new(&mixture, &[0.0, 0.0])?;
/// let joint = joint_log_densities(&targeted, 2)?[0];
/// // Half of the draws are right for both targets: ln ½, not twice ln ½.
/// let marginal: f64 = log_densities(&targeted).iter().sum();
/// assert!((joint - marginal - 2f64.ln()).abs() < 1e-15);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A data error if the number of values is not a multiple of `columns`.
pub fn joint_log_densities(
    targeted: &TargetedMixture<'_>,
    columns: usize,
) -> Result<Vec<f64>, EvalError> {
    let values = targeted.targets().len();
    let rows = values.checked_div(columns).unwrap_or(0);
    check::shape("targets", values, &[("columns", columns), ("rows", rows)])?;
    Ok(grouped(targeted, columns))
}

fn grouped(targeted: &TargetedMixture<'_>, columns: usize) -> Vec<f64> {
    let mixture = targeted.mixture();
    let log_draws = (mixture.draws() as f64).ln();
    let mut terms = vec![0.0; mixture.draws()];
    let mut gaussians = Vec::with_capacity(mixture.draws() * mixture.per_draw());
    let log_density = |(row, targets): (usize, &[f64])| {
        terms.fill(0.0);
        for (column, &target) in targets.iter().enumerate() {
            let components = mixture.components(row * columns + column);
            let target = mixture.located(target);
            // dx/dy of a logarithm x of y.
            let log_slope = match mixture.is_of_logarithms() {
                true => -target,
                false => 0.0,
            };
            let densities = components.map(|component| {
                let standardised = component.standardised(target);
                let density = normal::log_density(standardised) - component.deviation.ln();
                match mixture.per_draw() {
                    1 => density,
                    _ => density + component.weight.ln(),
                }
            });
            gaussians.clear();
            gaussians.extend(densities);
            for (term, of_draw) in terms.iter_mut().zip(gaussians.chunks(mixture.per_draw())) {
                let density = log_sum(of_draw);
                *term += match density {
                    f64::NEG_INFINITY => density,
                    _ => density + log_slope,
                };
            }
        }
        log_sum(&terms) - log_draws
    };
    let rows = targeted.targets().chunks(columns).enumerate();
    rows.map(log_density).collect()
}

/// ln Σ exp; −∞ if z² overflowed for every component, or the target has no logarithm.
fn log_sum(terms: &[f64]) -> f64 {
    let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match terms {
        [one] => *one,
        _ if largest == f64::NEG_INFINITY => largest,
        _ => {
            let sum: f64 = terms.iter().map(|term| (term - largest).exp()).sum();
            largest + sum.ln()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;
    use crate::{GaussianMixture, NoisePrecision};

    #[test]
    fn one_gaussian_has_the_textbook_likelihood() {
        let mixture = GaussianMixture::new(&[1.0], 1, 1, NoisePrecision::Shared(4.0)).unwrap();
        let score = mixture_nll(&TargetedMixture::new(&mixture, &[2.0]).unwrap());
        let expected = 0.5 * (2.0 * PI).ln() - 2f64.ln() + 2.0;
        assert!((score - expected).abs() < 8.0 * f64::EPSILON);
    }

    #[test]
    fn a_far_target_is_charged_its_distance() {
        // One component at distance 100, the other at 1000: exp underflows, the score does not.
        let mixture =
            GaussianMixture::new(&[100.0, 1000.0], 2, 1, NoisePrecision::Shared(1.0)).unwrap();
        let score = mixture_nll(&TargetedMixture::new(&mixture, &[0.0]).unwrap());
        let expected = 5000.0 + 0.5 * (2.0 * PI).ln() + 2f64.ln();
        assert!((score - expected).abs() < 5000.0 * 4.0 * f64::EPSILON);
    }

    #[test]
    fn the_targets_of_a_row_are_scored_under_the_same_draw() {
        // β = 4, two draws, two rows of two targets; squared errors of the draws, summed over a row's
        // targets: 1 + 4 and 0 + 1 in the first row, 4 + 0 and 1 + 1 in the second.
        let means = [1.0, 2.0, 2.0, 0.0, 0.0, 1.0, 1.0, 1.0];
        let mixture = GaussianMixture::new(&means, 2, 4, NoisePrecision::Shared(4.0)).unwrap();
        let targeted = TargetedMixture::new(&mixture, &[0.0; 4]).unwrap();
        let found = joint_log_densities(&targeted, 2).unwrap();
        let density = |squares: f64| (4.0 / (2.0 * PI)) * (-2.0 * squares).exp();
        let mixed = |one: f64, other: f64| (0.5 * (density(one) + density(other))).ln();
        for (found, expected) in found.iter().zip([mixed(5.0, 1.0), mixed(4.0, 2.0)]) {
            assert!((found - expected).abs() < 16.0 * f64::EPSILON, "{found}");
        }
        assert_eq!(
            joint_log_densities(&targeted, 1).unwrap(),
            log_densities(&targeted)
        );
        for columns in [0, 3] {
            let error = joint_log_densities(&targeted, columns).unwrap_err();
            assert!(error.is_data() && error.to_string().contains("columns"));
        }
    }

    #[test]
    fn an_overflowing_distance_is_infinitely_bad_and_no_nan() {
        let mixture = GaussianMixture::new(&[0.0], 1, 1, NoisePrecision::Shared(1.0)).unwrap();
        let score = mixture_nll(&TargetedMixture::new(&mixture, &[1e200]).unwrap());
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
