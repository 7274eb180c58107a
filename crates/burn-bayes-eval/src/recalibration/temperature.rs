//! Temperature scaling: recalibrates a classifier with a single parameter.
//!
//!   p_c(T) = p_c^{1/T} / Σ_k p_k^{1/T}
//!
//! For a Bayesian model p is the **average** over draws, so the final prediction is recalibrated;
//! [`DrawTemperature`](crate::DrawTemperature) scales each draw before averaging. T > 1 flattens and T < 1
//! sharpens the distribution; the predicted class does not change. For p = softmax(z) the result is
//! softmax(z/T).
//!
//! T minimises the NLL of held-out rows. With b = 1/T and l = ln p,
//!
//!   NLL(b) = mean_r [ ln Σ_c exp(b·l_rc) − b·l_ry ],   dNLL/db = mean_r [ Σ_c p_rc(T)·l_rc − l_ry ]
//!
//! is convex in b, so its derivative changes sign at most once, and bisection over ln b finds the
//! root. Classes with probability 0 keep it and are ignored.
//!
//! Reference: C. Guo et al., "On calibration of modern neural networks" (2017), section 4.2.

use crate::error::{EvalError, Place};
use crate::recalibration::held_out::HeldOut;
use crate::special::roots::bisect;
use crate::views::ClassProbabilities;
use crate::views::LabelledProbabilities;

/// The temperature T of a softmax.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, HeldOut, LabelledProbabilities, Temperature};
///
/// // Confidence 0.9, accuracy 3/4.
/// let validation = ClassProbabilities::binary(&[0.9; 4])?;
/// let labelled = LabelledProbabilities::new(&validation, &[1, 1, 1, 0])?;
/// let temperature = Temperature::fit(&HeldOut::new(labelled, &[0, 1, 2, 3], &[4])?)?;
/// assert!((temperature.value() - 2.0).abs() < 1e-12); // ln 9 = 2 ln 3
///
/// let test = ClassProbabilities::binary(&[0.9])?;
/// assert!((temperature.apply(&test).row(0)[1] - 0.75).abs() < 1e-12);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Temperature {
    value: f64,
}

impl Temperature {
    /// The lowest temperature that [`fit`](Self::fit) returns.
    pub const LOWEST: f64 = 0.01;

    /// The highest temperature that [`fit`](Self::fit) returns.
    pub const HIGHEST: f64 = 100.0;

    /// The temperature between [`LOWEST`](Self::LOWEST) and [`HIGHEST`](Self::HIGHEST) with the
    /// lowest NLL.
    ///
    /// If all rows are predicted correctly, the NLL decreases with the temperature, and the result
    /// is the lowest temperature. If uniform probabilities would be better than the model, it is
    /// the highest. If the temperature has no effect (one class, or only uniform rows), it is 1.
    ///
    /// # Errors
    /// A data error if the true class of a row has probability 0, which no temperature can change.
    pub fn fit(held_out: &HeldOut<LabelledProbabilities<'_>>) -> Result<Self, EvalError> {
        let validation = held_out.view();
        let impossible = |(probabilities, label): (&[f64], usize)| probabilities[label] == 0.0;
        if let Some(row) = validation.iter().position(impossible) {
            return Err(EvalError::data(
                "class probabilities",
                Place::row(row).at_column(validation.labels()[row]),
                "0 for the true class",
                "a number above 0",
                "probabilities that were rounded, or a softmax that underflowed in single precision",
            ));
        }
        let logarithms = Logarithms::new(validation);
        let slope = |logarithm: f64| logarithms.slope(logarithm.exp());
        let (low, high) = (-Self::HIGHEST.ln(), -Self::LOWEST.ln());
        let (at_low, at_high) = (slope(low), slope(high));
        let value = if at_low == 0.0 && at_high == 0.0 {
            1.0
        } else if at_low >= 0.0 {
            Self::HIGHEST
        } else if at_high <= 0.0 {
            Self::LOWEST
        } else {
            let resolution = f64::EPSILON; // of a logarithm: relative
            (-bisect(low, high, resolution, |logarithm| slope(logarithm) < 0.0)).exp()
        };
        Ok(Self { value })
    }

    /// A known temperature.
    ///
    /// # Errors
    /// A config error if the value is not a finite number above zero.
    pub fn new(value: f64) -> Result<Self, EvalError> {
        if value.is_finite() && value > 0.0 {
            return Ok(Self { value });
        }
        Err(EvalError::config(
            "temperature",
            value,
            "a finite number above 0",
        ))
    }

    /// The number T.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// The probabilities at this temperature.
    pub fn apply(&self, probabilities: &ClassProbabilities<'_>) -> ClassProbabilities<'static> {
        let rows = probabilities.iter();
        let values = rows
            .flat_map(|row| tempered(row, self.value.recip()))
            .collect();
        ClassProbabilities::of_checked(values, probabilities.rows(), probabilities.classes())
    }
}

/// ln p_c − ln p_y of the possible classes of all rows, with the largest of each row: differences, so
/// that equal probabilities give exactly zero. A ratio would overflow if the probability of the true
/// class is subnormal.
struct Logarithms {
    values: Vec<f64>,
    /// The number of values and the largest value of each row.
    rows: Vec<(usize, f64)>,
}

impl Logarithms {
    fn new(validation: &LabelledProbabilities<'_>) -> Self {
        let (mut values, mut rows) = (Vec::new(), Vec::with_capacity(validation.labels().len()));
        for (probabilities, label) in validation.iter() {
            let truth = probabilities[label].ln();
            let possible = probabilities
                .iter()
                .filter(|&&probability| probability > 0.0);
            let before = values.len();
            values.extend(possible.map(|probability| probability.ln() - truth));
            let largest = values[before..]
                .iter()
                .copied()
                .fold(f64::NEG_INFINITY, f64::max);
            rows.push((values.len() - before, largest));
        }
        Self { values, rows }
    }

    /// The mean over rows of Σ_c p_c(T)·(l_c − l_y).
    fn slope(&self, inverse: f64) -> f64 {
        let (mut rest, mut total) = (self.values.as_slice(), 0.0);
        for &(count, largest) in &self.rows {
            let (row, others) = rest.split_at(count);
            rest = others;
            let (mut weights, mut sum) = (0.0, 0.0);
            for difference in row {
                let weight = (inverse * (difference - largest)).exp();
                weights += weight;
                sum += weight * difference;
            }
            total += sum / weights;
        }
        total / self.rows.len() as f64
    }
}

/// p_c^b / Σ_k p_k^b, from ratios to the largest probability, so that the sum does not underflow.
pub(super) fn tempered(probabilities: &[f64], inverse: f64) -> Vec<f64> {
    let largest = probabilities.iter().copied().fold(0.0, f64::max);
    let power = |probability: &f64| (probability / largest).powf(inverse);
    let powers: Vec<f64> = probabilities.iter().map(power).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{nll, zero_one_losses};

    fn fitted(values: &[f64], classes: usize, labels: &[usize]) -> f64 {
        let table = ClassProbabilities::new(values, labels.len(), classes).unwrap();
        let labelled = LabelledProbabilities::new(&table, labels).unwrap();
        Temperature::fit(&HeldOut::for_new_rows(labelled))
            .unwrap()
            .value()
    }

    #[test]
    fn what_is_calibrated_stays() {
        let labels = [0, 1, 1, 1];
        let found = fitted(&[0.25, 0.75].repeat(4), 2, &labels);
        assert!((found - 1.0).abs() < 16.0 * f64::EPSILON, "{found}");
    }

    #[test]
    fn without_an_optimum_the_limits_are_returned() {
        let confident = [0.2, 0.8, 0.9, 0.1];
        assert_eq!(fitted(&confident, 2, &[1, 0]), Temperature::LOWEST);
        assert_eq!(fitted(&confident, 2, &[0, 1]), Temperature::HIGHEST);
        let undecided = [1.0 / 3.0; 6];
        assert_eq!(fitted(&undecided, 3, &[0, 1]), 1.0);
        assert_eq!(fitted(&[1.0, 1.0], 1, &[0, 0]), 1.0);
    }

    #[test]
    fn impossible_classes_stay_impossible_unless_they_happen() {
        let values = [0.0, 0.6, 0.4, 0.0, 0.9, 0.1, 0.0, 0.9, 0.1];
        let table = ClassProbabilities::new(&values, 3, 3).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[1, 2, 1]).unwrap();
        let temperature = Temperature::fit(&HeldOut::for_new_rows(labelled)).unwrap();
        let scaled = temperature.apply(&table);
        assert!((0..3).all(|row| scaled.row(row)[0] == 0.0));
        let scaled = LabelledProbabilities::new(&scaled, &[1, 2, 1]).unwrap();
        assert!(nll(&scaled) <= nll(&labelled));
        assert_eq!(zero_one_losses(&scaled), zero_one_losses(&labelled));

        let labelled = LabelledProbabilities::new(&table, &[1, 0, 1]).unwrap();
        let error = Temperature::fit(&HeldOut::for_new_rows(labelled)).unwrap_err();
        assert_eq!((error.row(), error.column()), (Some(1), Some(0)));
    }

    #[test]
    fn a_subnormal_truth_weighs_its_logarithm() {
        // A thousand rows with logit a are correct; in one row the true class has the tiny
        // probability e^{−L}. The slope is zero at L = 1000·a·σ(−a/T), so T = a/ln(1000·a/L − 1).
        let (sure, tiny) = (0.999, 1e-310);
        let mut values = [sure, 1.0 - sure].repeat(1000);
        values.extend([tiny, 1.0]);
        let found = fitted(&values, 2, &[0; 1001]);
        let (logit, length) = ((sure / (1.0 - sure)).ln(), -tiny.ln());
        let expected = logit / (1000.0 * logit / length - 1.0).ln();
        assert!(
            (found / expected - 1.0).abs() < 1001.0 * f64::EPSILON,
            "{found} {expected}"
        );
    }

    #[test]
    fn extreme_temperatures_leave_distributions() {
        let table = ClassProbabilities::new(&[1e-300, 0.75, 0.25], 1, 3).unwrap();
        for value in [1e-3, 1e3] {
            let scaled = Temperature::new(value).unwrap().apply(&table);
            let sum: f64 = scaled.row(0).iter().sum();
            assert!((sum - 1.0).abs() < 4.0 * f64::EPSILON);
            assert_eq!(scaled.predicted_classes(), [1]);
        }
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Temperature::new(value).unwrap_err().is_config());
        }
    }
}
