//! The noise precision of a regression, fitted on held-out rows.
//!
//! The residuals of training rows underestimate the noise of a flexible model. So β maximises the likelihood of
//! held-out rows under the mixture of the draws,
//!
//!   max_β Σ_r ln (1/S) Σ_s N(y_r; f_sr, 1/β).
//!
//! EM finds the maximum: with the responsibility w_sr ∝ exp(−½ β (y_r − f_sr)²) of draw s for row r,
//!
//!   1/β ← (1/N) Σ_r Σ_s w_sr (y_r − f_sr)².
//!
//! It is smaller than the mean squared error over draws, because draws that disagree with a target count less: what
//! the draws explain is not noise. A single draw gives the mean squared error after one step.

use std::ops::RangeInclusive;

use crate::Bounded;
use crate::error::EvalError;
use crate::order::mean;
use crate::views::mixture::{TargetedMixture, average};

/// EM has converged below this change of ln β.
const CONVERGED: f64 = 1e-6;
const MOST_STEPS: usize = 200;

/// The noise precision β = 1/σ² within `bounds` under which held-out targets, one per row, are most likely.
///
/// The search begins at the noise precision of the mixtures, or the inverse of their mean noise variance if there
/// are several. It is a local one, and increases the likelihood in every step. The bounds exclude what no noise
/// explains: a precision far below 1/variance of the targets, and an exact fit of the rows.
///
/// ```
/// use burn_bayes_eval::{GaussianMixture, NoisePrecision, TargetedMixture, most_likely_noise_precision};
///
/// // Two draws that agree, with errors of 1 and 3: 1/β = (1² + 3²)/2.
/// let means = [0.0, 0.0, 0.0, 0.0];
/// let mixture = GaussianMixture::new(&means, 2, 2, NoisePrecision::Shared(1.0))?;
/// let held_out = TargetedMixture::new(&mixture, &[1.0, 3.0])?;
/// assert!((most_likely_noise_precision(&held_out, 1e-3..=1e3)? - 0.2).abs() < 1e-15);
/// assert_eq!(most_likely_noise_precision(&held_out, 0.5..=1e3)?, 0.5);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A config error if the bounds are not finite numbers above zero in increasing order.
pub fn most_likely_noise_precision(
    held_out: &TargetedMixture<'_>,
    bounds: RangeInclusive<f64>,
) -> Result<f64, EvalError> {
    let (least, most) = (*bounds.start(), *bounds.end());
    if !(least > 0.0 && least <= most && most.is_finite()) {
        let found = format!("{least} to {most}");
        let expected = "finite numbers above 0 in increasing order";
        return Err(EvalError::config("bounds", found, expected));
    }
    let variances = held_out.map(|row, _| {
        let components = held_out.mixture().components(row);
        average(components, |component| component.deviation.powi(2))
    });
    let mut precision = mean(&variances).recip().clamp(least, most);
    for _ in 0..MOST_STEPS {
        let next = expected_square(held_out, precision).recip();
        let next = next.clamp(least, most);
        let change = (next / precision).ln().abs();
        precision = next;
        if change < CONVERGED {
            break;
        }
    }
    Ok(precision)
}

/// (1/N) Σ_r Σ_s w_sr (y_r − f_sr)².
fn expected_square(held_out: &TargetedMixture<'_>, precision: f64) -> f64 {
    let squares = held_out.map(|row, target| {
        let components = held_out.mixture().components(row);
        let squares = components.map(|one| (one.weight, (target - one.mean).powi(2)));
        let least = squares.clone().map(|(_, square)| square);
        let least = least.fold(f64::INFINITY, f64::at_most);
        let (mut total, mut weighted) = (0.0, 0.0);
        for (weight, square) in squares {
            let weight = weight * (-0.5 * precision * (square - least)).exp();
            total += weight;
            weighted += weight * square;
        }
        weighted / total
    });
    mean(&squares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GaussianMixture, NoisePrecision, mixture_nll};

    const TARGETS: [f64; 4] = [0.0, 1.0, -0.5, 2.0];
    /// Two draws that disagree.
    const MEANS: [f64; 8] = [0.3, 0.6, -0.9, 1.0, -0.1, 1.5, 0.2, 2.2];

    fn with<T>(means: &[f64], noise: f64, of: impl FnOnce(&TargetedMixture<'_>) -> T) -> T {
        let noise = NoisePrecision::Shared(noise);
        let mixture = GaussianMixture::new(means, means.len() / 4, 4, noise).unwrap();
        of(&TargetedMixture::new(&mixture, &TARGETS).unwrap())
    }

    fn fitted(means: &[f64], start: f64) -> f64 {
        with(means, start, |held_out| {
            most_likely_noise_precision(held_out, 1e-6..=1e6).unwrap()
        })
    }

    #[test]
    fn no_precision_nearby_is_more_likely() {
        let found = fitted(&MEANS, 1.0);
        let least = with(&MEANS, found, mixture_nll);
        for factor in [0.5, 0.9, 0.99, 1.01, 1.1, 2.0] {
            assert!(with(&MEANS, factor * found, mixture_nll) > least);
        }
        for start in [0.01, 100.0] {
            // EM stops within its tolerance of the limit.
            assert!((fitted(&MEANS, start) / found).ln().abs() < 1e-4);
        }
    }

    #[test]
    fn draws_that_agree_give_the_mean_squared_error_and_others_less() {
        let draw = &MEANS[..4];
        let error = 0.3525;
        for same in [draw.to_vec(), [draw, draw].concat()] {
            assert!((error * fitted(&same, 3.0) - 1.0).abs() < 1e-12);
        }
        let squares = MEANS.iter().zip(TARGETS.iter().cycle());
        let squares: f64 = squares.map(|(mean, target)| (target - mean).powi(2)).sum();
        assert!(fitted(&MEANS, 3.0) * squares / 8.0 > 1.0);
    }

    #[test]
    fn an_exact_fit_reaches_the_upper_bound() {
        assert_eq!(fitted(&TARGETS, 1.0), 1e6);
    }

    #[test]
    fn unusable_bounds_are_refused() {
        for (least, most) in [
            (0.0, 1.0),
            (2.0, 1.0),
            (f64::NAN, 1.0),
            (1.0, f64::INFINITY),
        ] {
            let found = with(&MEANS, 1.0, |held_out| {
                most_likely_noise_precision(held_out, least..=most)
            });
            assert!(found.unwrap_err().is_config(), "{least} {most}");
        }
    }
}
