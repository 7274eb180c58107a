//! The noise precision β of a regression, learned while the weights are.
//!
//! The residuals of training rows underestimate the noise of a network. So a fifth of the rows is held out
//! during the first half of the training, and β is the one under which the predictive mixture of the weights'
//! draws is most likely there, max_β Σᵢ log mean_s N(yᵢ; f_s(xᵢ), 1/β). Then the training goes on with all rows.
//!
//! The maximum is the limit of EM: with the responsibility r_is of draw s for row i,
//! 1/β = (1/n) Σᵢ Σ_s r_is (yᵢ − f_s(xᵢ))².

use burn_bayes::Noise;

use super::TrainedModel;
use crate::error::Result;
use crate::random::shuffled;
use crate::rows::{Target, TrainingSet, held_out_rows};
use crate::settings::{FitSettings, NoisePrecision, refused};

const HELD_OUT: f64 = 0.2;
/// The fraction of the epochs in which rows are held out.
const LEARNING: f64 = 0.5;
/// The number of estimates in these epochs.
const ESTIMATES: usize = 10;
/// Draws of a prediction for an estimate.
const DRAWS: usize = 32;
/// Minimum number of rows.
const FEWEST_ROWS: usize = 10;
/// In units of 1/variance of the targets, as are the bounds.
const FIRST_GUESS: f64 = 10.0;
/// Bounds of the estimate: outside of them, the network has learned nothing, or fits exactly.
pub(super) const BOUNDS: (f64, f64) = (0.5, 1e6);
/// EM has converged below this change of log β.
const CONVERGED: f64 = 1e-6;
const MOST_STEPS: usize = 200;
/// The random stream of the split.
const PARTING: u64 = 0x7061_7274;

/// β at the start of a training, on the standardised scale of the network; 1 for classes, which have no
/// noise.
pub(super) fn initial(training_set: &TrainingSet, settings: &FitSettings) -> Result<f64> {
    match (training_set.meaning(), settings.noise_precision) {
        (Target::Classes(_), _) => Ok(1.0),
        (Target::Real(scale), NoisePrecision::Given(precision)) => {
            Ok(precision * scale.spread * scale.spread)
        }
        (Target::Real(_), NoisePrecision::Learned(_)) => {
            Ok(FIRST_GUESS * training_set.target_deviation()?.powi(-2))
        }
    }
}

/// The rows that are held out while β is learned.
#[derive(Debug)]
pub(super) struct LearnedNoise {
    /// The rows that train in the first epochs.
    seen: Vec<usize>,
    held_out: TrainingSet,
    bounds: (f64, f64),
    /// The last epoch (from 1) in which rows are held out.
    last: usize,
    /// Epochs between two estimates.
    every: usize,
}

impl LearnedNoise {
    /// The split of a training; `None` if β is given.
    pub(super) fn new(training_set: &TrainingSet, settings: &FitSettings) -> Result<Option<Self>> {
        let is_learned = matches!(training_set.meaning(), Target::Real(_))
            && settings.noise_precision == NoisePrecision::LEARNED;
        if !is_learned {
            return Ok(None);
        }
        let rows = training_set.rows();
        if rows < FEWEST_ROWS {
            let problem = format!(
                "cannot be learned from {rows} rows; give a number, 1/variance of the noise of the target"
            );
            return Err(refused("noise_precision", problem));
        }
        let noise = Noise::host(settings.seed).fold(PARTING);
        let order = shuffled(rows, noise);
        let (held_out, seen) = order.split_at(held_out_rows(rows, HELD_OUT));
        let unit = training_set.target_deviation()?.powi(-2);
        let last = ((LEARNING * settings.epochs as f64) as usize).max(1);
        Ok(Some(Self {
            seen: seen.to_vec(),
            held_out: training_set.select(held_out),
            bounds: (BOUNDS.0 * unit, BOUNDS.1 * unit),
            last,
            every: last.div_ceil(ESTIMATES),
        }))
    }

    /// The rows that train in an epoch (from 0); `None` for all.
    pub(super) fn seen(&self, epoch: usize) -> Option<&[usize]> {
        (epoch < self.last).then_some(&self.seen)
    }

    /// Whether β is estimated after an epoch (from 1).
    pub(super) fn is_due(&self, epoch: usize) -> bool {
        epoch == self.last || (epoch < self.last && epoch.is_multiple_of(self.every))
    }

    /// β of a model, from its predictions of the held-out rows.
    pub(super) fn estimate(&self, model: &TrainedModel) -> Result<f64> {
        let targets: Vec<f64> = self
            .held_out
            .targets()
            .iter()
            .copied()
            .map(f64::from)
            .collect();
        let outputs = model.outputs(&self.held_out.features()?, DRAWS)?;
        let (least, most) = self.bounds;
        let mut beta = model.noise_precision().clamp(least, most);
        for _ in 0..MOST_STEPS {
            let mean = expected_square(&outputs, &targets, beta);
            let next = mean.recip().clamp(least, most);
            let change = (next / beta).ln().abs();
            beta = next;
            if change < CONVERGED {
                break;
            }
        }
        Ok(beta)
    }
}

/// (1/n) Σᵢ Σ_s r_is (yᵢ − f_is)² for outputs `[draws, rows]`.
fn expected_square(outputs: &[f64], targets: &[f64], beta: f64) -> f64 {
    let rows = targets.len();
    let row = |(index, target): (usize, &f64)| {
        let squares = outputs.iter().skip(index).step_by(rows);
        let squares = squares.map(|output| (target - output).powi(2));
        let least = squares.clone().fold(f64::INFINITY, f64::min);
        let (mut total, mut weighted) = (0.0, 0.0);
        for square in squares {
            let weight = (-0.5 * beta * (square - least)).exp();
            total += weight;
            weighted += weight * square;
        }
        weighted / total
    };
    targets.iter().enumerate().map(row).sum::<f64>() / rows as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log likelihood of the mixture.
    fn likelihood(outputs: &[f64], targets: &[f64], beta: f64) -> f64 {
        let rows = targets.len();
        let row = |(index, target): (usize, &f64)| {
            let squares = outputs.iter().skip(index).step_by(rows);
            let densities =
                squares.map(|output| (-0.5 * beta * (target - output).powi(2)).exp() * beta.sqrt());
            densities.sum::<f64>().ln()
        };
        targets.iter().enumerate().map(row).sum()
    }

    #[test]
    fn the_fixed_point_is_the_most_likely_precision() {
        let targets = [0.0, 1.0, -0.5, 2.0];
        // Two draws that disagree.
        let outputs = [0.3, 0.6, -0.9, 1.0, -0.1, 1.5, 0.2, 2.2];
        let mut beta = 1.0;
        for _ in 0..500 {
            beta = expected_square(&outputs, &targets, beta).recip();
        }
        let best = likelihood(&outputs, &targets, beta);
        for factor in [0.9, 0.99, 1.01, 1.1] {
            assert!(likelihood(&outputs, &targets, factor * beta) < best);
        }
        // Without disagreement it is the mean squared error, and disagreement makes it smaller.
        let same = [outputs[..4].to_vec(), outputs[..4].to_vec()].concat();
        let error = expected_square(&same, &targets, 3.0);
        assert!((error - 0.3525).abs() < 1e-12, "{error}");
    }
}
