//! One row of class probabilities: its checks, and the softmax.
//!
//! A row must sum to 1 within 10⁻⁶ + C·ε₃₂, with C the number of classes and ε₃₂ = 2⁻²³: the
//! rounding error of a softmax in single precision. Values are never renormalised. Logits z become
//! probabilities by p_c = exp(z_c − max z) / Σ_k exp(z_k − max z).

use crate::check;
use crate::error::{EvalError, Place};

pub(crate) const WHAT: &str = "class probabilities";

pub(crate) fn most_probable(probabilities: &[f64]) -> usize {
    let mut best = 0;
    for (class, &probability) in probabilities.iter().enumerate() {
        if probability > probabilities[best] {
            best = class;
        }
    }
    best
}

pub(crate) fn check_row(place: Place, probabilities: &[f64]) -> Result<(), EvalError> {
    for (class, &value) in probabilities.iter().enumerate() {
        if !value.is_finite() || value < 0.0 {
            let expected = "a finite probability of at least 0";
            let cause = "logits or log-probabilities instead of probabilities, or a diverged model";
            return Err(EvalError::data(
                WHAT,
                place.at_column(class),
                value,
                expected,
                cause,
            ));
        }
    }
    let sum: f64 = probabilities.iter().sum();
    let tolerance = 1e-6 + probabilities.len() as f64 * f64::from(f32::EPSILON);
    if (sum - 1.0).abs() > tolerance {
        let expected = format!("1 within {tolerance:.1e}");
        let direction = if sum > 1.0 { "too much" } else { "too little" };
        let cause = "a missing softmax, one sigmoid per class, or half precision without \
                     renormalisation";
        return Err(EvalError::data(
            WHAT,
            place,
            format!(
                "the sum {sum}, which is {:.1e} {direction}",
                (sum - 1.0).abs()
            ),
            expected,
            cause,
        ));
    }
    Ok(())
}

pub(crate) fn check_binary(place: Place, probability: f64) -> Result<(), EvalError> {
    if (0.0..=1.0).contains(&probability) {
        return Ok(());
    }
    let cause = "logits instead of probabilities, or a diverged model";
    Err(EvalError::data(
        WHAT,
        place,
        probability,
        "a probability in [0, 1]",
        cause,
    ))
}

pub(crate) fn check_logits(place: Place, logits: &[f64]) -> Result<(), EvalError> {
    match logits.iter().position(|logit| !logit.is_finite()) {
        Some(class) => Err(check::not_finite(
            "logits",
            place.at_column(class),
            logits[class],
        )),
        None => Ok(()),
    }
}

pub(crate) fn two_classes(positive: &[f64]) -> Vec<f64> {
    positive
        .iter()
        .flat_map(|&probability| [1.0 - probability, probability])
        .collect()
}

pub(crate) fn softmax(logits: &[f64], classes: usize) -> Vec<f64> {
    let mut values = logits.to_vec();
    for row in values.chunks_exact_mut(classes) {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.iter_mut()
            .for_each(|value| *value = (*value - largest).exp());
        let sum: f64 = row.iter().sum();
        row.iter_mut().for_each(|value| *value /= sum);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_precision_rounding_passes_and_nothing_coarser() {
        let third = f64::from(1.0f32 / 3.0);
        assert!(check_row(Place::WHOLE, &[third; 3]).is_ok());
        assert!(check_row(Place::WHOLE, &[0.5, 0.500_01]).is_err());
    }

    #[test]
    fn softmax_is_shift_free_and_takes_large_logits() {
        let row = softmax(&[1e4, 1e4 + 3f64.ln()], 2);
        assert!((row[1] - 0.75).abs() < 1e4 * f64::EPSILON);
    }

    #[test]
    fn the_first_of_equally_probable_classes_wins() {
        assert_eq!(most_probable(&[0.2, 0.4, 0.4]), 1);
    }
}
