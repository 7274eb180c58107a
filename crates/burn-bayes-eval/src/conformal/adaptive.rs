//! A level that follows a drift, for rows that come one after the other and whose answers become known.
//!
//! A row is predicted at level 1 − aₜ, a₁ = 1 − ℓ. Then, with the step γ,
//!
//!   aₜ₊₁ = aₜ + γ (1 − ℓ − missₜ),  missₜ = 1 if the row was not inside, otherwise 0.
//!
//! At a level of 1 or more, all answers are inside, and at a level of 0 or less, none. Then aₜ stays in [−γ, 1 + γ], and
//! the sum of the updates telescopes: for any rows whatsoever and any predictions,
//!
//!   |Σₜ missₜ/T − (1 − ℓ)| ≤ (max(ℓ, 1 − ℓ) + γ)/(γ T).
//!
//! So over time the fraction ℓ is inside. This is no probability of single rows, and it needs the answer of every row.
//!
//! Reference: I. Gibbs and E. Candès, "Adaptive conformal inference under distribution shift" (2021).

use crate::check;
use crate::error::EvalError;

/// The level of [`conformal_threshold`](crate::conformal_threshold) and its relatives that follows a drift.
///
/// ```
/// use burn_bayes_eval::AdaptiveLevel;
///
/// let mut level = AdaptiveLevel::new(0.9, 0.01)?;
/// level.update(false); // the answer was not inside
/// assert!((level.level() - 0.909).abs() < 1e-15);
/// level.update(true);
/// assert!((level.level() - 0.908).abs() < 1e-15);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveLevel {
    wanted: f64,
    step: f64,
    level: f64,
}

impl AdaptiveLevel {
    /// Starts at this level. A step of .01 follows a drift within some hundred rows; with larger steps, levels of 1 are
    /// frequent.
    ///
    /// # Errors
    /// A config error if level or step is not strictly between 0 and 1.
    pub fn new(level: f64, step: f64) -> Result<Self, EvalError> {
        check::open_unit("level", level)?;
        check::open_unit("step", step)?;
        Ok(Self {
            wanted: level,
            step,
            level,
        })
    }

    /// The level for the next row. At 1 or more, predict that all answers are possible; at 0 or less, that none is.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// Takes note of whether the answer of a row was inside.
    pub fn update(&mut self, is_inside: bool) {
        self.level -= match is_inside {
            true => self.step * (1.0 - self.wanted),
            false => -self.step * self.wanted,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{conformal_threshold, uniforms};

    /// Whether each row is inside, at the level that follows, with the scores of the rows before.
    fn followed(scores: &[f64], level: f64, step: f64) -> Vec<bool> {
        let mut adaptive = AdaptiveLevel::new(level, step).unwrap();
        let of_row = |row: usize| {
            let is_inside = match adaptive.level() {
                level if level >= 1.0 => true,
                level if level <= 0.0 => false,
                level => scores[row] <= conformal_threshold(&scores[..row], level).unwrap(),
            };
            adaptive.update(is_inside);
            is_inside
        };
        (1..scores.len()).map(of_row).collect()
    }

    #[test]
    fn whatever_the_rows_are_the_level_is_reached_within_the_bound() {
        let rows = 1500;
        let noise = uniforms(rows, 1);
        type Score = fn(usize, f64) -> f64;
        let kinds: [Score; 5] = [
            |_, noise| noise,
            |row, noise| noise * (1.0 + row as f64),
            |row, noise| noise / (1.0 + row as f64),
            |row, _| (row % 400) as f64,
            |row, noise| if row > 700 { 50.0 + noise } else { noise },
        ];
        for (level, step) in [(0.9, 0.01), (0.5, 0.05), (0.05, 0.02)] {
            for (kind, score) in kinds.iter().enumerate() {
                let scores: Vec<f64> = (0..rows).map(|row| score(row, noise[row])).collect();
                let inside = followed(&scores, level, step);
                let hits = inside.iter().filter(|hit| **hit).count() as f64;
                let (count, most) = (inside.len() as f64, level.max(1.0 - level) + step);
                let bound = most / (step * count) + 1e-12;
                let error = (hits / count - level).abs();
                assert!(error <= bound, "{kind} at {level}: {error}, {bound}");
            }
        }
        // A threshold of the first rows alone would miss all of the growing scores in the end.
        let growing: Vec<f64> = (0..rows)
            .map(|row| noise[row] * (1.0 + row as f64))
            .collect();
        let fixed = conformal_threshold(&growing[..200], 0.9).unwrap();
        let inside = growing[200..]
            .iter()
            .filter(|score| **score <= fixed)
            .count();
        assert!((inside as f64) < 0.4 * (rows - 200) as f64);
    }

    #[test]
    fn levels_and_steps_outside_of_the_unit_interval_are_refused() {
        for (level, step) in [
            (0.0, 0.1),
            (1.0, 0.1),
            (f64::NAN, 0.1),
            (0.9, 0.0),
            (0.9, 1.0),
        ] {
            assert!(AdaptiveLevel::new(level, step).is_err(), "{level}, {step}");
        }
    }
}
