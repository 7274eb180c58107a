//! Weights of the components of a mixture, chosen on held-out rows.
//!
//! Each of M trained models has the density p_m(y_i) of row i; the mixture has Σ_m w_m p_m(y_i).
//!
//!   likelihood  w_m ∝ exp Σ_i ln p_m(y_i)
//!   stacking    max_w f(w) = (1/N) Σ_i ln Σ_m w_m p_m(y_i),   w ≥ 0, Σ_m w_m = 1
//!
//! Likelihood weights are the posterior probabilities of the models under equal prior
//! probabilities. With many rows they select one model. Stacking maximises the score of the
//! mixture itself, which is concave in w, so that models that complement each other share the
//! weight. EM finds its maximum:
//!
//!   g_m = (1/N) Σ_i p_m(y_i) / Σ_k w_k p_k(y_i),   w_m ← w_m g_m
//!
//! | Symbol | Here |
//! |---|---|
//! | ln p_m(y_i) | `log_densities`, `[components × rows]`, row-major |
//! | g | the gradient of f; Σ_m w_m g_m = 1 |
//!
//! f is concave, so max f − f(w) ≤ max_m g_m − 1. This gap ends the iteration; it is zero exactly if
//! the conditions of Karush, Kuhn and Tucker hold: g_m = 1 where w_m > 0, and g_m ≤ 1 elsewhere. From
//! equal weights, EM is within ln M / t of the maximum after t steps, and usually far closer.
//!
//! The rows that choose the weights score the mixture optimistically; score it on other rows.
//!
//! Reference: Y. Yao et al., "Using stacking to average Bayesian predictive distributions" (2018),
//! where the densities are those of leave-one-out predictions.

use crate::check;
use crate::error::{EvalError, Place};

/// The gap, in nats per row, at which EM has converged.
const CONVERGED: f64 = 1e-9;
const MOST_STEPS: usize = 10_000;

/// Weights in proportion to the likelihood of the rows under each component: the softmax of the
/// components' sums of `log_densities`, `[components × rows]`, row-major.
///
/// ```
/// use burn_bayes_eval::likelihood_weights;
///
/// // Over two rows, the first component is exp(1) times as likely.
/// let weights = likelihood_weights(&[-1.0, -1.0, -2.0, -1.0], 2)?;
/// assert!((weights[0] / weights[1] - 1f64.exp()).abs() < 1e-15);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A data error if the length does not fit, a log-density is NaN or +∞, or no component has a
/// finite sum.
pub fn likelihood_weights(log_densities: &[f64], components: usize) -> Result<Vec<f64>, EvalError> {
    let rows = checked_rows(log_densities, components)?;
    let sums = log_densities.chunks_exact(rows);
    let sums: Vec<f64> = sums.map(|component| component.iter().sum()).collect();
    let largest = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return Err(EvalError::data(
            "log-likelihoods of the components",
            Place::WHOLE,
            largest,
            "a finite number for one of them",
            "every component gives some row a probability of zero",
        ));
    }
    Ok(normalised(
        sums.iter().map(|sum| (sum - largest).exp()).collect(),
    ))
}

/// The stacking weights: those with the largest likelihood of the rows under the mixture, from
/// `log_densities`, `[components × rows]`, row-major.
///
/// The mean log-density of the result is within 10⁻⁹ nats of the maximum, or within ln M · 10⁻⁴ if
/// EM has not converged after 10 000 steps.
///
/// ```
/// use burn_bayes_eval::stacking_weights;
///
/// // Each component is right about one of two rows, so both are needed.
/// let log_densities = [0.9f64, 0.1, 0.1, 0.9].map(f64::ln);
/// let weights = stacking_weights(&log_densities, 2)?;
/// assert!((weights[0] - 0.5).abs() < 1e-12);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A data error if the length does not fit, a log-density is NaN or +∞, or a row has probability
/// zero under every component.
pub fn stacking_weights(log_densities: &[f64], components: usize) -> Result<Vec<f64>, EvalError> {
    let ratios = density_ratios(log_densities, components)?;
    let mut weights = vec![(components as f64).recip(); components];
    for _ in 0..MOST_STEPS {
        let gradient = gradient(&ratios, &weights);
        let largest = gradient.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if largest - 1.0 <= CONVERGED {
            break;
        }
        let next = weights.iter().zip(gradient).map(|(weight, g)| weight * g);
        weights = normalised(next.collect());
    }
    Ok(weights)
}

/// Densities, `[rows × components]`, row-major, each divided by the largest of its row.
fn density_ratios(log_densities: &[f64], components: usize) -> Result<Vec<f64>, EvalError> {
    let rows = checked_rows(log_densities, components)?;
    let mut ratios = Vec::with_capacity(log_densities.len());
    for row in 0..rows {
        let of_row = || (0..components).map(|component| log_densities[component * rows + row]);
        let largest = of_row().fold(f64::NEG_INFINITY, f64::max);
        if largest == f64::NEG_INFINITY {
            return Err(EvalError::data(
                "log-densities",
                Place::row(row),
                "-inf for every component",
                "a finite number for one of them",
                "every component gives the true class a probability of zero",
            ));
        }
        ratios.extend(of_row().map(|log_density| (log_density - largest).exp()));
    }
    Ok(ratios)
}

/// g, the gradient of the mean log-density of the mixture.
fn gradient(ratios: &[f64], weights: &[f64]) -> Vec<f64> {
    let mut gradient = vec![0.0; weights.len()];
    for densities in ratios.chunks_exact(weights.len()) {
        let of_mixture: f64 = densities.iter().zip(weights).map(|(p, w)| p * w).sum();
        for (sum, density) in gradient.iter_mut().zip(densities) {
            *sum += density / of_mixture;
        }
    }
    let rows = (ratios.len() / weights.len()) as f64;
    gradient.iter_mut().for_each(|sum| *sum /= rows);
    gradient
}

/// The number of rows.
fn checked_rows(log_densities: &[f64], components: usize) -> Result<usize, EvalError> {
    let rows = log_densities.len().checked_div(components).unwrap_or(0);
    let extents = [("components", components), ("rows", rows)];
    check::shape("log-densities", log_densities.len(), &extents)?;
    let is_unusable = |&value: &f64| value.is_nan() || value == f64::INFINITY;
    match log_densities.iter().position(is_unusable) {
        None => Ok(rows),
        Some(index) => Err(EvalError::data(
            "log-densities",
            Place::draw(index / rows).at_row(index % rows),
            log_densities[index],
            "a number below infinity",
            check::DIVERGED,
        )),
    }
}

fn normalised(weights: Vec<f64>) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::uniforms;

    /// Log-densities of components that are each better on some of the rows.
    fn log_densities(components: usize, rows: usize, seed: u64) -> Vec<f64> {
        let values = uniforms(components * rows, seed);
        values.iter().map(|value| 6.0 * value - 3.0).collect()
    }

    fn mean_log_density(log_densities: &[f64], weights: &[f64]) -> f64 {
        let rows = log_densities.len() / weights.len();
        let of_row = |row: usize| {
            let terms = weights.iter().enumerate();
            let terms = terms.map(|(m, weight)| weight * log_densities[m * rows + row].exp());
            terms.sum::<f64>().ln()
        };
        (0..rows).map(of_row).sum::<f64>() / rows as f64
    }

    #[test]
    fn stacking_meets_the_conditions_of_a_maximum() {
        for (seed, components) in [(1, 2), (2, 3), (3, 5), (4, 10)] {
            let log_densities = log_densities(components, 40, seed);
            let weights = stacking_weights(&log_densities, components).unwrap();
            let sum: f64 = weights.iter().sum();
            assert!((sum - 1.0).abs() < 1e-12 && weights.iter().all(|&weight| weight >= 0.0));
            let ratios = density_ratios(&log_densities, components).unwrap();
            for (weight, gradient) in weights.iter().zip(gradient(&ratios, &weights)) {
                assert!(gradient <= 1.0 + CONVERGED, "seed {seed}: {gradient}");
                // Complementary slackness, to the accuracy that the gap allows.
                assert!(weight * (1.0 - gradient) <= 1e-8, "{weight} {gradient}");
            }
        }
    }

    #[test]
    fn stacking_is_at_least_as_good_as_every_point_of_a_grid() {
        const STEPS: usize = 60;
        for seed in 0..5 {
            let log_densities = log_densities(3, 25, seed);
            let weights = stacking_weights(&log_densities, 3).unwrap();
            let found = mean_log_density(&log_densities, &weights);
            let mut best = f64::NEG_INFINITY;
            for first in 0..=STEPS {
                for second in 0..=STEPS - first {
                    let counts = [first, second, STEPS - first - second];
                    let point = counts.map(|count| count as f64 / STEPS as f64);
                    best = best.max(mean_log_density(&log_densities, &point));
                }
            }
            assert!(found >= best - CONVERGED, "{found} {best}");
            // The grid has a point within 1/60 of the maximum in every weight.
            assert!(found - best < 0.01, "{found} {best}");
        }
    }

    #[test]
    fn a_component_that_is_worse_everywhere_gets_no_weight() {
        let log_densities = [-1.0, -2.0, -3.0, -4.0];
        let weights = stacking_weights(&log_densities, 2).unwrap();
        assert!(weights[1] < 1e-8, "{weights:?}");
    }

    #[test]
    fn weights_do_not_depend_on_the_scale_of_the_densities() {
        // Far below the smallest number, as for distant targets.
        let near = log_densities(3, 20, 7);
        let far: Vec<f64> = near.iter().map(|value| value - 5000.0).collect();
        for weights in [likelihood_weights, stacking_weights] {
            let (near, far) = (weights(&near, 3).unwrap(), weights(&far, 3).unwrap());
            for (a, b) in near.iter().zip(far) {
                assert!((a - b).abs() < 1e-6, "{a} {b}");
            }
        }
    }

    #[test]
    fn a_component_that_rules_out_a_row_keeps_its_share_of_the_others() {
        let none = f64::NEG_INFINITY;
        let log_densities = [0.0, 0.0, none, -3.0, -3.0, -1.0];
        assert_eq!(likelihood_weights(&log_densities, 2).unwrap(), [0.0, 1.0]);
        let weights = stacking_weights(&log_densities, 2).unwrap();
        assert!(weights[0] > 0.5 && weights[1] > 0.1, "{weights:?}");
    }

    #[test]
    fn unusable_densities_are_refused() {
        let none = f64::NEG_INFINITY;
        for weights in [likelihood_weights, stacking_weights] {
            assert!(weights(&[], 2).unwrap_err().is_data());
            assert!(weights(&[0.0], 0).unwrap_err().is_data());
            assert!(weights(&[0.0, 1.0, 2.0], 2).unwrap_err().is_data());
            let error = weights(&[0.0, 1.0, 2.0, f64::NAN], 2).unwrap_err();
            assert_eq!((error.draw(), error.row()), (Some(1), Some(1)));
            assert!(weights(&[f64::INFINITY, 0.0], 2).is_err());
            assert!(weights(&[none, 0.0, none, 0.0], 2).is_err());
        }
    }
}
