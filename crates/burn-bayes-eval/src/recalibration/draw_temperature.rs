//! Temperature scaling of every draw of a Bayesian classifier.
//!
//!   p_src(T) = p_src^{1/T} / Σ_k p_srk^{1/T},     prediction of row r: (1/S) Σ_s p_src(T)
//!
//! p_src is the probability of class c for row r under draw s. Unlike [`Temperature`](crate::Temperature), which scales
//! the average, the result is again a mixture of draws, so its uncertainty still splits into that of the class and that
//! between the draws. The average may predict another class than before.
//!
//! T minimises the NLL of held-out rows under the mixture. With u = ln T, b = 1/T, d_c = ln p_c − ln p_y of one draw and
//! row, and E and Var over the classes with probabilities p(T),
//!
//!   ℓ(u) = −ln Σ_c exp(b d_c),     ℓ′ = b E[d],     ℓ″ = −b E[d] − b² Var[d].
//!
//! Classes with probability 0 under a draw keep it. One draw gives the temperature of
//! [`Temperature::fit`](crate::Temperature::fit).
//!
//! References: C. Guo et al., "On calibration of modern neural networks" (2017), section 4.2; R. Rahaman and A. H.
//! Thiery, "Uncertainty quantification and deep ensembles" (2021), for scaling before averaging.

use crate::error::{EvalError, Place};
use crate::recalibration::held_out::HeldOut;
use crate::recalibration::one_parameter::{Derivatives, cost_of_row, lowest};
use crate::recalibration::temperature::{Temperature, tempered};
use crate::views::{DrawProbabilities, LabelledDraws};

/// The temperature T of the probabilities under every draw.
///
/// ```
/// use burn_bayes_eval::{DrawProbabilities, DrawTemperature, HeldOut, LabelledDraws};
///
/// // Two draws of four rows, both with confidence 0.9 and accuracy 3/4.
/// let draws = DrawProbabilities::binary(&[0.9; 8], 2, 4)?;
/// let labelled = LabelledDraws::new(&draws, &[1, 1, 1, 0])?;
/// let temperature = DrawTemperature::fit(&HeldOut::new(labelled, &[0, 1, 2, 3], &[4])?)?;
/// assert!((temperature.value() - 2.0).abs() < 1e-12); // ln 9 = 2 ln 3
///
/// let new = DrawProbabilities::binary(&[0.9, 0.5], 2, 1)?;
/// let scaled = temperature.apply(&new);
/// assert!((scaled.row(0, 0)[1] - 0.75).abs() < 1e-12);
/// assert_eq!(scaled.row(1, 0)[1], 0.5);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DrawTemperature(Temperature);

impl DrawTemperature {
    /// The temperature between [`Temperature::LOWEST`] and [`Temperature::HIGHEST`] with the lowest NLL.
    ///
    /// If the temperature has no effect, it is 1.
    ///
    /// # Errors
    /// A data error if the true class of a row has probability 0 under all draws.
    pub fn fit(held_out: &HeldOut<LabelledDraws<'_>>) -> Result<Self, EvalError> {
        let (table, labels) = (held_out.view().draws(), held_out.view().labels());
        let is_impossible = |(row, &label): (usize, &usize)| {
            let mut draws = table.of_row(row);
            draws.all(|probabilities| probabilities[label] == 0.0)
        };
        if let Some(row) = labels.iter().enumerate().position(is_impossible) {
            return Err(EvalError::data(
                "class probabilities",
                Place::row(row).at_column(labels[row]),
                "0 for the true class under all draws",
                "a number above 0 under one of them",
                "probabilities that were rounded, or a softmax that underflowed in single precision",
            ));
        }
        let differences = differences(table, labels);
        let (draws, classes) = (table.draws(), table.classes());
        let of_row = draws * classes;
        let cost = |row: usize, u: f64| {
            let rows = differences[row * of_row..][..of_row].chunks_exact(classes);
            cost_of_row(draws, rows.map(|row| log_probability(row, u)))
        };
        let u = lowest(Temperature::HIGHEST.ln(), labels.len(), cost);
        Temperature::new(u.exp()).map(Self)
    }

    /// A known temperature.
    ///
    /// # Errors
    /// A config error if the value is not a finite number above zero.
    pub fn new(value: f64) -> Result<Self, EvalError> {
        Temperature::new(value).map(Self)
    }

    /// The number T, above 1 if the draws are overconfident.
    pub fn value(&self) -> f64 {
        self.0.value()
    }

    /// The probabilities at this temperature.
    pub fn apply(&self, draws: &DrawProbabilities<'_>) -> DrawProbabilities<'static> {
        let inverse = self.value().recip();
        draws.map_rows(|probabilities| tempered(probabilities, inverse))
    }
}

/// ln p_c − ln p_y, `[rows × draws × classes]`; −∞ for impossible classes, and for all classes of a draw under which
/// the true one is impossible.
fn differences(draws: &DrawProbabilities<'_>, labels: &[usize]) -> Vec<f64> {
    let mut differences = Vec::with_capacity(draws.values().len());
    for (row, &label) in labels.iter().enumerate() {
        for probabilities in draws.of_row(row) {
            let truth = probabilities[label];
            differences.extend(probabilities.iter().map(|probability| match truth > 0.0 {
                true => probability.ln() - truth.ln(),
                false => f64::NEG_INFINITY,
            }));
        }
    }
    differences
}

/// ℓ with its derivatives by u; −∞ if the true class is impossible.
fn log_probability(differences: &[f64], u: f64) -> Derivatives {
    let inverse = (-u).exp();
    let largest = differences
        .iter()
        .copied()
        .fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return Derivatives {
            value: f64::NEG_INFINITY,
            first: 0.0,
            second: 0.0,
        };
    }
    let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
    for &difference in differences.iter().filter(|d| **d > f64::NEG_INFINITY) {
        let weight = (inverse * (difference - largest)).exp();
        sum += weight;
        first += weight * difference;
        second += weight * difference * difference;
    }
    let mean = first / sum;
    let variance = second / sum - mean * mean;
    Derivatives {
        value: -inverse * largest - f64::ln(sum),
        first: inverse * mean,
        second: -inverse * mean - inverse * inverse * variance,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::uniforms;
    use crate::{ClassProbabilities, LabelledProbabilities, nll};

    const DRAWS: usize = 5;
    const ROWS: usize = 40;
    const CLASSES: usize = 3;

    /// Draws that disagree, and labels from their average at the temperature `truth`.
    fn disagreeing(truth: f64) -> (DrawProbabilities<'static>, Vec<usize>) {
        let mut random = uniforms((DRAWS * CLASSES + 1) * ROWS, 7).into_iter();
        let mut uniform = || random.next().unwrap();
        let logits = (0..DRAWS * ROWS * CLASSES).map(|_| 6.0 * uniform() - 3.0);
        let logits: Vec<f64> = logits.collect();
        let draws = DrawProbabilities::from_logits(&logits, DRAWS, ROWS, CLASSES).unwrap();
        let average = DrawTemperature::new(truth).unwrap().apply(&draws).average();
        let label = |row: usize| {
            let mut left = uniform();
            let below = average.row(row).iter().position(|probability| {
                left -= probability;
                left < 0.0
            });
            below.unwrap_or(CLASSES - 1)
        };
        let labels = (0..ROWS).map(label).collect();
        (draws, labels)
    }

    fn fit(draws: &DrawProbabilities<'_>, labels: &[usize]) -> Result<DrawTemperature, EvalError> {
        DrawTemperature::fit(&HeldOut::for_new_rows(LabelledDraws::new(draws, labels)?))
    }

    fn cost(draws: &DrawProbabilities<'_>, labels: &[usize], value: f64) -> f64 {
        let average = DrawTemperature::new(value).unwrap().apply(draws).average();
        nll(&LabelledProbabilities::new(&average, labels).unwrap())
    }

    #[test]
    fn no_temperature_of_a_dense_grid_is_better() {
        for truth in [0.3, 1.0, 4.0] {
            let (draws, labels) = disagreeing(truth);
            let found = fit(&draws, &labels).unwrap().value();
            let least = cost(&draws, &labels, found);
            for index in -460..=460 {
                let other = (f64::from(index) * 0.01).exp();
                let rounding = 64.0 * f64::EPSILON;
                assert!(
                    cost(&draws, &labels, other) >= least - rounding,
                    "{truth}: {found} {other}"
                );
            }
        }
    }

    #[test]
    fn derivatives_are_those_of_finite_differences() {
        let differences = [0.0, -1.3, 0.7, f64::NEG_INFINITY];
        let step = 1e-4;
        for u in [-1.0, 0.0, 0.8] {
            let [below, at, above] =
                [u - step, u, u + step].map(|u| log_probability(&differences, u));
            let first = (above.value - below.value) / (2.0 * step);
            let second = (above.first - below.first) / (2.0 * step);
            // Central differences: of second order in the step.
            assert!((first - at.first).abs() < 1e3 * step * step, "{u}: {at:?}");
            assert!(
                (second - at.second).abs() < 1e3 * step * step,
                "{u}: {at:?}"
            );
        }
    }

    #[test]
    fn one_draw_gives_the_temperature_of_the_average() {
        let (draws, labels) = disagreeing(2.0);
        let one = &draws.values()[..ROWS * CLASSES];
        let table = ClassProbabilities::new(one, ROWS, CLASSES).unwrap();
        let labelled = LabelledProbabilities::new(&table, &labels).unwrap();
        let expected = Temperature::fit(&HeldOut::for_new_rows(labelled))
            .unwrap()
            .value();
        let one = DrawProbabilities::new(one, 1, ROWS, CLASSES).unwrap();
        let found = fit(&one, &labels).unwrap().value();
        // The bisection and Newton's method stop within rounding of ln T, which the slope amplifies.
        assert!((found / expected - 1.0).abs() < 1e-10, "{found} {expected}");
    }

    #[test]
    fn a_second_recalibration_changes_nothing() {
        let (draws, labels) = disagreeing(3.0);
        let scaled = fit(&draws, &labels).unwrap().apply(&draws);
        let again = fit(&scaled, &labels).unwrap().value();
        assert!((again - 1.0).abs() < 1e-9, "{again}");
    }

    #[test]
    fn what_is_calibrated_stays() {
        // Confidence 0.8 and accuracy 4/5 under every draw.
        let draws = DrawProbabilities::binary(&[0.8; 15], 3, 5).unwrap();
        let found = fit(&draws, &[1, 1, 0, 1, 1]).unwrap();
        assert!((found.value() - 1.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn without_an_optimum_the_limits_are_returned() {
        let fitted = |values: &[f64], labels: &[usize]| {
            let draws = DrawProbabilities::binary(values, 2, 2).unwrap();
            fit(&draws, labels).unwrap().value()
        };
        let confident = [0.8, 0.1, 0.7, 0.2];
        let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-12;
        assert!(close(fitted(&confident, &[1, 0]), Temperature::LOWEST));
        assert!(close(fitted(&confident, &[0, 1]), Temperature::HIGHEST));
        assert_eq!(fitted(&[0.5; 4], &[0, 1]), 1.0);
    }

    #[test]
    fn a_draw_without_the_true_class_is_left_out_and_all_are_an_error() {
        let values = [0.0, 1.0, 0.3, 0.7, 0.4, 0.6, 0.9, 0.1];
        let draws = DrawProbabilities::new(&values, 2, 2, 2).unwrap();
        let found = fit(&draws, &[0, 1]).unwrap().value();
        // Such a draw divides the probability of its row by two, at every temperature.
        let impossible = [0.0, 1.0, 0.9, 0.1, 0.4, 0.6, 1.0, 0.0];
        let with = DrawProbabilities::new(&impossible, 2, 2, 2).unwrap();
        let alone = DrawProbabilities::new(&[0.4, 0.6, 0.9, 0.1], 1, 2, 2).unwrap();
        let [with, alone] = [with, alone].map(|draws| fit(&draws, &[0, 1]).unwrap().value());
        assert!((with / alone - 1.0).abs() < 1e-9, "{with} {alone}");
        assert_eq!(
            DrawTemperature(Temperature::new(found).unwrap())
                .apply(&draws)
                .row(0, 0),
            [0.0, 1.0]
        );

        let draws = DrawProbabilities::binary(&[0.5, 1.0, 0.5, 1.0], 2, 2).unwrap();
        let error = fit(&draws, &[1, 0]).unwrap_err();
        assert_eq!((error.row(), error.column()), (Some(1), Some(0)));
        assert!(fit(&draws, &[1]).unwrap_err().is_data());
        assert!(fit(&draws, &[1, 2]).unwrap_err().is_data());
        assert!(DrawTemperature::new(f64::NAN).unwrap_err().is_config());
    }
}
