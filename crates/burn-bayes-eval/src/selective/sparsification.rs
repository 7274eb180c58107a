//! The area under the sparsification error: does the uncertainty of a regression rank its errors?
//!
//! With the k most certain of n rows kept, r_k their mean error and r*_k that of the k rows with
//! the smallest errors:
//!
//!   AUSE = (1/n) Σ_k (r_k − r*_k) / r_n
//!
//! for absolute errors; for squared errors, r_k is the root of their mean. It has no unit, so tasks
//! can be compared; 0 is the order of the errors themselves, and a random order has about
//! 1 − (1/n) Σ_k r*_k / r_n: for squared errors .59 if they are normal, and .69 with Laplace's
//! distribution. For absolute errors it is the E-AURC
//! divided by the error of all rows. Tied uncertainties count with their mean error, which for
//! squared errors is taken before the root.
//!
//! Better than a correlation of uncertainty and error, which assumes a line. It depends only on
//! the ranking: check the scale of the uncertainty by the coverage of intervals.
//!
//! Reference: E. Ilg et al., "Uncertainty estimates and multi-hypotheses networks for optical flow"
//! (2018).

use crate::Bounded;
use crate::check;
use crate::error::{EvalError, Place};
use crate::selective::risk_coverage::RiskCoverage;

/// The errors whose curve is compared with that of the best order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SparsificationError {
    /// The mean absolute error of the kept rows.
    MeanAbsolute,
    /// The root of their mean squared error.
    RootMeanSquare,
}

/// AUSE of point predictions sorted by uncertainty.
///
/// ```
/// use burn_bayes_eval::{SparsificationError, ause};
///
/// let (predicted, targets) = ([0.0, 0.0], [1.0, 3.0]);
/// let area = |spreads| ause(spreads, &predicted, &targets, SparsificationError::MeanAbsolute);
/// assert_eq!(area(&[0.5, 0.9])?, 0.0);
/// assert_eq!(area(&[0.9, 0.5])?, 0.5); // half of (3 − 1)/2
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A data error if the lengths differ, there are no rows, an uncertainty is NaN, a value is not
/// finite, or all errors are zero.
pub fn ause(
    uncertainty: &[f64],
    predicted: &[f64],
    targets: &[f64],
    kind: SparsificationError,
) -> Result<f64, EvalError> {
    check::same_length("targets", targets.len(), predicted.len())?;
    check::finite("predictions", predicted)?;
    check::finite("targets", targets)?;
    let residuals = predicted.iter().zip(targets).map(|(p, y)| (y - p).abs());
    let (errors, root): (Vec<f64>, fn(f64) -> f64) = match kind {
        SparsificationError::MeanAbsolute => (residuals.collect(), |error| error),
        SparsificationError::RootMeanSquare => (residuals.map(|r| r * r).collect(), f64::sqrt),
    };
    let (curve, best) = (
        RiskCoverage::new(uncertainty, &errors)?,
        RiskCoverage::new(&errors, &errors)?,
    );
    let rows = curve.points().len();
    let all = root(curve.points()[rows - 1].risk);
    if all == 0.0 {
        return Err(EvalError::data(
            "errors",
            Place::WHOLE,
            "all zero",
            "at least one error",
            "targets passed as predictions, or rows that the model has memorised",
        ));
    }
    let gaps = curve.points().iter().zip(best.points());
    let sum: f64 = gaps
        .map(|(found, best)| root(found.risk) - root(best.risk))
        .sum();
    Ok((sum / (rows as f64 * all)).at_least(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::normal;

    #[test]
    fn a_constant_uncertainty_is_a_random_order() {
        // Errors 1 and 3 in either order: means of 2 against 1 and 2.
        let kind = SparsificationError::MeanAbsolute;
        assert_eq!(
            ause(&[1.0, 1.0], &[0.0, 0.0], &[1.0, -3.0], kind).unwrap(),
            0.25
        );
        let kind = SparsificationError::RootMeanSquare;
        let found = ause(&[1.0, 1.0], &[0.0, 0.0], &[1.0, -3.0], kind).unwrap();
        let expected = (5f64.sqrt() - 1.0) / (2.0 * 5f64.sqrt());
        assert!((found - expected).abs() < 1e-15);
        // The quantiles of normal errors: ∫ √(∫₀ᵘ Φ⁻¹((1 + v)/2)² dv / u) du = 0.4067.
        let errors: Vec<f64> = (0..20_000)
            .map(|row| normal::quantile(0.5 + (f64::from(row) + 0.5) / 40_000.0))
            .collect();
        let zeros = vec![0.0; errors.len()];
        let found = ause(&zeros, &zeros, &errors, kind).unwrap();
        assert!((found - 0.5933).abs() < 1e-3, "{found}");
    }

    #[test]
    fn no_errors_and_bad_values_are_refused() {
        let kind = SparsificationError::MeanAbsolute;
        assert!(ause(&[1.0], &[2.0], &[2.0], kind).unwrap_err().is_data());
        assert_eq!(
            ause(&[f64::NAN], &[2.0], &[1.0], kind).unwrap_err().row(),
            Some(0)
        );
        assert!(ause(&[], &[], &[], kind).unwrap_err().is_data());
        assert!(
            ause(&[1.0], &[2.0, 1.0], &[1.0], kind)
                .unwrap_err()
                .is_data()
        );
    }
}
