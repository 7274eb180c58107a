//! Scores of predicted counts.
//!
//!   log-probability   ln (1/S) Σ_s P_s(y)
//!   deviance          2 (y ln(y/m) − (y − m)),  m = predictive mean; 2 m for y = 0
//!   randomised PIT    F(y − 1) + u (F(y) − F(y − 1)),  u uniform in [0, 1)
//!
//! The log-probability scores the whole distribution, the deviance only its mean: it is twice what the log-likelihood of
//! a Poisson distribution with rate m lacks from that with rate y. The distribution function of counts has jumps, so the
//! transform of a count is drawn from its jump; for calibrated predictions it is uniform.
//!
//! References: P. McCullagh and J. A. Nelder, *Generalized Linear Models* (1989), section 2.3; P. K. Dunn and G. K.
//! Smyth, "Randomized quantile residuals" (1996); C. Czado, T. Gneiting and L. Held, "Predictive model assessment for
//! count data" (2009).

use super::mixture::{Component, TargetedCounts, check_counts, cumulative};
use crate::Bounded;
use crate::check;
use crate::error::{EvalError, Place};
use crate::random::uniforms;

/// The log-probability of each count under its mixture, in nats; −∞ if all rates are 0 and the count is not.
///
/// ```
/// use burn_bayes_eval::{CountMixture, TargetedCounts, log_probabilities};
///
/// let mixture = CountMixture::new(&[1.0, 3.0], 2, 1)?;
/// let found = log_probabilities(&TargetedCounts::new(&mixture, &[0.0])?);
/// let expected = (0.5 * ((-1.0_f64).exp() + (-3.0_f64).exp())).ln();
/// assert!((found[0] - expected).abs() < 1e-15);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn log_probabilities(targeted: &TargetedCounts<'_>) -> Vec<f64> {
    let rows = targeted.mixture().components_of_rows();
    let log_probability = |(components, &count): (Vec<Component>, &f64)| {
        let terms = components.iter().map(|component| component.log_mass(count));
        let terms: Vec<f64> = terms.collect();
        let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if largest == f64::NEG_INFINITY {
            return largest;
        }
        let sum: f64 = terms.iter().map(|term| (term - largest).exp()).sum();
        largest + (sum / terms.len() as f64).ln()
    };
    rows.zip(targeted.counts()).map(log_probability).collect()
}

/// The Poisson deviance of each count from its predicted mean; infinite if the mean is 0 and the count is not.
///
/// ```
/// use burn_bayes_eval::poisson_deviances;
///
/// assert_eq!(poisson_deviances(&[2.0, 2.0], &[2.0, 0.0])?, [0.0, 4.0]);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A data error if the lengths differ, a mean is negative or not finite, or a count is not a whole number of at least 0.
pub fn poisson_deviances(means: &[f64], counts: &[f64]) -> Result<Vec<f64>, EvalError> {
    check::same_length("means", means.len(), counts.len())?;
    check_counts(counts)?;
    let usable = |mean: &f64| mean.is_finite() && *mean >= 0.0;
    if let Some(row) = means.iter().position(|mean| !usable(mean)) {
        let expected = "a finite number of at least 0";
        let place = Place::row(row);
        return Err(EvalError::data(
            "means",
            place,
            means[row],
            expected,
            check::DIVERGED,
        ));
    }
    let deviance = |(&mean, &count): (&f64, &f64)| match count > 0.0 {
        // Rounding may give a value below zero near the minimum.
        true => (2.0 * (count * (count / mean).ln() - (count - mean))).at_least(0.0),
        false => 2.0 * mean,
    };
    Ok(means.iter().zip(counts).map(deviance).collect())
}

/// The randomised probability integral transform of each count, with the uniform numbers of a seed; it can be used as
/// [`pit_values`](crate::pit_values) are for real-valued targets.
///
/// ```
/// use burn_bayes_eval::{CountMixture, TargetedCounts, randomised_pit_values};
///
/// let mixture = CountMixture::new(&[1.0], 1, 1)?;
/// let found = randomised_pit_values(&TargetedCounts::new(&mixture, &[0.0])?, 1)[0];
/// assert!((0.0..(-1.0_f64).exp()).contains(&found));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn randomised_pit_values(targeted: &TargetedCounts<'_>, seed: u64) -> Vec<f64> {
    let rows = targeted.mixture().components_of_rows();
    let rows = rows.zip(targeted.counts());
    let uniforms = uniforms(targeted.counts().len(), seed);
    let transform = |((components, &count), uniform): ((Vec<Component>, &f64), f64)| {
        let below = cumulative(&components, count - 1.0);
        let up_to = cumulative(&components, count);
        (below + uniform * (up_to - below)).clamp(0.0, 1.0)
    };
    rows.zip(uniforms).map(transform).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::poisson;
    use crate::{CountMixture, PitUniformity};

    #[test]
    fn the_log_probability_is_that_of_the_averaged_probabilities() {
        let rates = [0.2, 7.0, 1.5, 9.0, 0.0, 20.0]; // three draws, two rows
        let mixture = CountMixture::new(&rates, 3, 2).unwrap();
        let found = log_probabilities(&TargetedCounts::new(&mixture, &[3.0, 8.0]).unwrap());
        let mass = |rate: f64, count: i32| {
            let factorial: f64 = (1..=count).map(f64::from).product();
            (-rate).exp() * rate.powi(count) / factorial
        };
        let first = (mass(0.2, 3) + mass(1.5, 3) + mass(0.0, 3)) / 3.0;
        let second = (mass(7.0, 8) + mass(9.0, 8) + mass(20.0, 8)) / 3.0;
        for (found, expected) in found.iter().zip([first.ln(), second.ln()]) {
            assert!((found - expected).abs() < 1e-13, "{found} {expected}");
        }
        let impossible = CountMixture::new(&[0.0], 1, 1).unwrap();
        let targeted = TargetedCounts::new(&impossible, &[1.0]).unwrap();
        assert_eq!(log_probabilities(&targeted), [f64::NEG_INFINITY]);
    }

    #[test]
    fn the_deviance_is_twice_the_missing_log_likelihood() {
        let (means, counts) = ([0.5, 3.0, 10.0], [2.0, 3.0, 4.0]);
        let found = poisson_deviances(&means, &counts).unwrap();
        for ((mean, count), found) in means.iter().zip(counts).zip(found) {
            let missing = poisson::log_mass(count, count) - poisson::log_mass(count, *mean);
            assert!((found - 2.0 * missing).abs() < 1e-13, "{mean} {count}");
        }
        assert_eq!(poisson_deviances(&[0.0], &[1.0]).unwrap(), [f64::INFINITY]);
        assert!(poisson_deviances(&[-1.0], &[1.0]).unwrap_err().is_data());
        assert!(poisson_deviances(&[1.0], &[0.5]).unwrap_err().is_data());
    }

    /// Counts by inversion from the true rates, and from others.
    #[test]
    fn the_transforms_are_uniform_only_for_the_true_distribution() {
        let rates: Vec<f64> = uniforms(2000, 7).iter().map(|u| 0.2 + 6.0 * u).collect();
        let count = |(rate, uniform): (&f64, f64)| {
            let mut count = 0.0;
            while poisson::cumulative(count, *rate) < uniform {
                count += 1.0;
            }
            count
        };
        let counts: Vec<f64> = rates.iter().zip(uniforms(2000, 8)).map(count).collect();
        let tested = |rates: &[f64]| {
            let mixture = CountMixture::new(rates, 1, 2000).unwrap();
            let targeted = TargetedCounts::new(&mixture, &counts).unwrap();
            PitUniformity::new(&randomised_pit_values(&targeted, 9)).unwrap()
        };
        assert!(tested(&rates).simultaneous_p_value > 0.01);
        let higher: Vec<f64> = rates.iter().map(|rate| 1.3 * rate).collect();
        assert!(tested(&higher).simultaneous_p_value < 1e-6);
    }
}
