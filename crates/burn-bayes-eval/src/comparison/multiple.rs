//! p-values of several tests, corrected for their number.
//!
//! With p₍₁₎ ≤ … ≤ p₍m₎ the adjusted values are max_{j ≤ i} min(1, (m − j + 1) p₍ⱼ₎). To reject
//! where they are at most α makes one false rejection or more with probability at most α, whatever
//! the dependence of the tests. Never weaker than Bonferroni's m·p.
//!
//! Reference: S. Holm, "A simple sequentially rejective multiple test procedure" (1979).

use crate::Bounded;
use crate::check;
use crate::error::EvalError;
use crate::order::ascending;

/// Holm's adjusted p-values, in the order of the input.
///
/// ```
/// use burn_bayes_eval::holm;
///
/// assert_eq!(holm(&[0.25, 0.01, 0.02])?, [0.25, 0.03, 0.04]);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A data error if a p-value is not in [0, 1].
pub fn holm(p_values: &[f64]) -> Result<Vec<f64>, EvalError> {
    check::unit(
        "p-values",
        p_values,
        "statistics passed instead of p-values",
    )?;
    let mut adjusted = vec![0.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (rank, row) in ascending(p_values).into_iter().enumerate() {
        largest = largest.at_least(((p_values.len() - rank) as f64 * p_values[row]).at_most(1.0));
        adjusted[row] = largest;
    }
    Ok(adjusted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjusted_values_rise_with_ties_and_stay_probabilities() {
        assert_eq!(holm(&[0.5, 0.5]).unwrap(), [1.0, 1.0]);
        assert_eq!(holm(&[0.02, 0.02, 0.5]).unwrap(), [0.06, 0.06, 0.5]);
        assert!(holm(&[]).unwrap().is_empty());
        assert_eq!(holm(&[0.5, f64::NAN]).unwrap_err().row(), Some(1));
    }
}
