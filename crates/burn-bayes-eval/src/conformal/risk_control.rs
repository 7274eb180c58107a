//! Control of any bounded risk: RCPS and Learn-then-Test.
//!
//! A parameter λ (a threshold on probabilities, a size of sets, a cut of the uncertainty) has a
//! loss in [0, 1] for each calibration row, with mean r̂(λ) over n rows: missed classes, false
//! positives, pixels outside a mask. p-values of the hypothesis that the expected loss is above α:
//!
//!   Hoeffding–Bentkus   min( exp(−n h(min(r̂, α), α)),  e·P(Bin(n, α) ≤ ⌈n r̂⌉) ),
//!                       h(a, b) = a ln(a/b) + (1 − a) ln((1 − a)/(1 − b))
//!   betting (WSR)       1/max_t K_t(α),   K_t(α) = Π_{i ≤ t} (1 − ν_i (L_i − α))
//!                       ν_i = min(1, √(2 ln(1/δ)/(n σ̂²_{i−1}))),  σ̂²_i = (¼ + Σ_{j ≤ i} (L_j − μ̂_j)²)/(1 + i),
//!                       μ̂_i = (½ + Σ_{j ≤ i} L_j)/(1 + i),  σ̂²_0 = ¼
//!
//! An upper bound of the risk at confidence 1 − δ is the largest α with a p-value above δ.
//!
//! | Choice | Tests | Better when |
//! |---|---|---|
//! | [`RiskControl::fixed_sequence`] | candidates in the given order at δ, until one fails | the order from safe to risky is known; for losses that rise with λ this is RCPS |
//! | [`RiskControl::holm`] | all candidates, corrected for their number | several parameters, or no order |
//!
//! With probability at least 1 − δ over the calibration rows, *every* returned candidate has an
//! expected loss of at most α; any of them may be chosen. Candidates must not depend on these rows.
//! Betting is tighter for losses with a small variance, Hoeffding–Bentkus for losses of 0 and 1;
//! the betting p-value depends on the order of rows, which must not depend on their losses.
//!
//! References: S. Bates et al., "Distribution-free, risk-controlling prediction sets" (2021), for
//! RCPS and both bounds; A. N. Angelopoulos et al., "Learn then test" (2021); I. Waudby-Smith and
//! A. Ramdas, "Estimating means of bounded random variables by betting" (2024).

use crate::Bounded;
use crate::check;
use crate::comparison::holm;
use crate::error::{EvalError, Place};
use crate::special::{binomial, roots::bisect};

/// The bound of a mean of losses in [0, 1].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RiskTest {
    /// From the mean alone.
    HoeffdingBentkus,
    /// From the sequence of losses (Waudby-Smith and Ramdas).
    Betting,
}

/// Candidates tested for a risk of at most a target.
///
/// ```
/// use burn_bayes_eval::{RiskControl, RiskTest};
///
/// // Three thresholds with 2 %, 5 % and 20 % of 500 rows wrong.
/// let losses_at = |step: usize| (0..500).map(move |row| if row % step == 0 { 1.0 } else { 0.0 });
/// let losses: Vec<f64> = [50, 20, 5].into_iter().flat_map(losses_at).collect();
/// let control = RiskControl::new(&losses, 3, 0.1, 0.95, RiskTest::HoeffdingBentkus)?;
/// assert_eq!(control.fixed_sequence(), [0, 1]); // risks of at most 0.1, with confidence 0.95
/// assert!(control.upper_bounds()[1] < 0.1 && control.upper_bounds()[2] > 0.2);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RiskControl {
    p_values: Vec<f64>,
    upper_bounds: Vec<f64>,
    tail: f64,
}

impl RiskControl {
    /// Tests losses, `[candidates × rows]`, row-major, for a risk of at most `target` with the
    /// given confidence.
    ///
    /// # Errors
    /// A data error if the length is not a multiple of `candidates` or a loss is not in [0, 1]; a
    /// config error if the target or the confidence is not strictly between 0 and 1.
    pub fn new(
        losses: &[f64],
        candidates: usize,
        target: f64,
        confidence: f64,
        test: RiskTest,
    ) -> Result<Self, EvalError> {
        check::open_unit("target", target)?;
        check::open_unit("confidence", confidence)?;
        let rows = losses.len().checked_div(candidates).unwrap_or(0);
        check::shape(
            "losses",
            losses.len(),
            &[("candidates", candidates), ("rows", rows)],
        )?;
        if let Some(index) = losses.iter().position(|loss| !(0.0..=1.0).contains(loss)) {
            return Err(EvalError::data(
                "losses",
                Place::row(index % rows).at_column(index / rows),
                losses[index],
                "a number in [0, 1]",
                "a loss that is not scaled to [0, 1]",
            ));
        }
        let tail = 1.0 - confidence;
        let p_value = |losses: &[f64], target: f64| match test {
            RiskTest::HoeffdingBentkus => {
                let mean = losses.iter().sum::<f64>() / rows as f64;
                hoeffding_bentkus(mean, rows, target)
            }
            RiskTest::Betting => betting(losses, target, tail),
        };
        let bound = |losses: &[f64]| bisect(0.0, 1.0, 1e-12, |risk| p_value(losses, risk) > tail);
        let of_candidates = || losses.chunks_exact(rows);
        Ok(Self {
            p_values: of_candidates()
                .map(|losses| p_value(losses, target))
                .collect(),
            upper_bounds: of_candidates().map(bound).collect(),
            tail,
        })
    }

    /// The p-value of each candidate for the hypothesis that its risk is above the target.
    pub fn p_values(&self) -> &[f64] {
        &self.p_values
    }

    /// The upper bound of each candidate's risk, each by itself at the confidence.
    pub fn upper_bounds(&self) -> &[f64] {
        &self.upper_bounds
    }

    /// The candidates before the first whose p-value exceeds 1 − confidence.
    pub fn fixed_sequence(&self) -> Vec<usize> {
        let passed = self.p_values.iter().take_while(|p| **p <= self.tail);
        (0..passed.count()).collect()
    }

    /// The candidates whose p-values, adjusted for their number, are at most 1 − confidence.
    pub fn holm(&self) -> Vec<usize> {
        // The constructor makes probabilities.
        let adjusted = holm(&self.p_values).unwrap_or_default();
        (0..adjusted.len())
            .filter(|&index| adjusted[index] <= self.tail)
            .collect()
    }
}

fn hoeffding_bentkus(mean: f64, rows: usize, target: f64) -> f64 {
    if target <= 0.0 {
        return 1.0;
    }
    let trials = rows as f64;
    let lower = mean.at_most(target);
    let term = |a: f64, b: f64| if a > 0.0 { a * (a / b).ln() } else { 0.0 };
    let divergence = term(lower, target) + term(1.0 - lower, 1.0 - target);
    // A mean of ones times their number is a whole number only up to rounding.
    let events = (trials * mean * (1.0 - 4.0 * f64::EPSILON)).ceil() as usize;
    let bentkus = std::f64::consts::E * binomial::lower_tail(events, rows, target);
    (-trials * divergence).exp().at_most(bentkus).at_most(1.0)
}

fn betting(losses: &[f64], target: f64, tail: f64) -> f64 {
    let rows = losses.len() as f64;
    let (mut capital, mut most) = (0.0_f64, 0.0_f64); // logarithms
    let (mut sum, mut squares, mut variance) = (0.5, 0.25, 0.25);
    for (index, loss) in losses.iter().enumerate() {
        let stake = (-2.0 * tail.ln() / (rows * variance)).sqrt().at_most(1.0);
        capital += (-stake * (loss - target)).ln_1p();
        most = most.at_least(capital);
        let count = index as f64 + 2.0;
        sum += loss;
        squares += (loss - sum / count).powi(2);
        variance = squares / count;
    }
    (-most).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniforms;

    #[test]
    fn no_losses_have_a_closed_form_and_full_losses_are_never_controlled() {
        let control = |loss: f64, test| RiskControl::new(&[loss; 50], 1, 0.1, 0.9, test).unwrap();
        let none = control(0.0, RiskTest::HoeffdingBentkus);
        // (1 − α)ⁿ by Hoeffding: it has no factor e.
        assert!((none.p_values()[0] - 0.9f64.powi(50)).abs() < 1e-14);
        assert!((none.upper_bounds()[0] - (1.0 - 0.1f64.powf(0.02))).abs() < 1e-9);
        for test in [RiskTest::HoeffdingBentkus, RiskTest::Betting] {
            let full = control(1.0, test);
            assert_eq!((full.p_values()[0], full.fixed_sequence().len()), (1.0, 0));
            assert!(full.upper_bounds()[0] > 1.0 - 1e-9);
            assert!(full.holm().is_empty());
        }
    }

    /// The bound is below the true risk with probability at most δ.
    #[test]
    fn bounds_hold_as_promised() {
        let (rows, repetitions) = (60, 1000);
        let numbers = uniforms(rows * repetitions, 9);
        for test in [RiskTest::HoeffdingBentkus, RiskTest::Betting] {
            // Losses u², with expectation 1/3.
            let losses: Vec<f64> = numbers.iter().map(|u| u * u).collect();
            let control = RiskControl::new(&losses, repetitions, 0.5, 0.8, test).unwrap();
            let failed = control
                .upper_bounds()
                .iter()
                .filter(|bound| **bound < 1.0 / 3.0);
            let share = failed.count() as f64 / repetitions as f64;
            // δ and three standard errors.
            assert!(
                share <= 0.2 + 3.0 * (0.2f64 * 0.8 / 1000.0).sqrt(),
                "{share}"
            );
        }
    }

    #[test]
    fn rejects_losses_targets_and_shapes() {
        let new =
            |losses: &[f64], target| RiskControl::new(losses, 2, target, 0.9, RiskTest::Betting);
        let error = new(&[0.0, 0.0, 0.5, 1.5], 0.1).unwrap_err();
        assert_eq!((error.row(), error.column()), (Some(1), Some(1)));
        assert!(new(&[0.0; 3], 0.1).unwrap_err().is_data());
        assert!(new(&[], 0.1).unwrap_err().is_data());
        assert!(new(&[0.0; 4], 0.0).unwrap_err().is_config());
    }
}
