//! Whether the training loss was still falling when the training ended.
//!
//! A line is fitted by least squares to the losses of the last quarter of the epochs; its slope times their
//! number, with the standard error from the scatter around it, is the change.

use serde::Serialize;

/// The change of the training loss over the last quarter of the epochs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Trend {
    /// In nats per row; below zero if the loss was falling.
    pub change: f64,
    /// Its standard error.
    pub standard_error: f64,
}

/// The fewest epochs to which a line is fitted.
const FEWEST: usize = 5;
/// A change of less than this, in nats per row, does not matter.
const SMALL: f64 = 0.01;
/// A change of more than this many standard errors is not noise.
const CERTAIN: f64 = 3.0;

impl Trend {
    /// Of the losses of all epochs; `None` if there are too few.
    pub(crate) fn of(losses: &[f64]) -> Option<Self> {
        let last = &losses[losses.len() - losses.len() / 4..];
        if last.len() < FEWEST {
            return None;
        }
        let count = last.len() as f64;
        let middle = (count - 1.0) / 2.0;
        let mean = last.iter().sum::<f64>() / count;
        let places = || (0..last.len()).map(|place| place as f64 - middle);
        let spread: f64 = places().map(|place| place * place).sum();
        let products = places()
            .zip(last)
            .map(|(place, loss)| place * (loss - mean));
        let slope = products.sum::<f64>() / spread;
        let residuals = places()
            .zip(last)
            .map(|(place, loss)| loss - mean - slope * place);
        let squares: f64 = residuals.map(|residual| residual * residual).sum();
        let error = (squares / (count - 2.0) / spread).sqrt();
        Some(Self {
            change: slope * count,
            standard_error: error * count,
        })
    }

    /// Whether the loss was falling, and not only by chance.
    pub(crate) fn is_falling(&self) -> bool {
        self.change < -SMALL && self.change < -CERTAIN * self.standard_error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_slope_and_no_error() {
        let losses: Vec<f64> = (0..40).map(|epoch| 3.0 - 0.01 * f64::from(epoch)).collect();
        let trend = Trend::of(&losses).unwrap();
        assert!((trend.change + 0.1).abs() < 1e-12 && trend.standard_error < 1e-12);
        assert!(trend.is_falling());
        assert_eq!(Trend::of(&losses[..19]), None);
    }

    #[test]
    fn noise_around_a_level_is_no_fall() {
        let uniforms = burn_bayes::eval::uniforms(400, 1);
        let falls = uniforms.chunks(40).filter(|losses| {
            let trend = Trend::of(losses).unwrap();
            // The textbook's slope for the last ten, by sums of raw products.
            let last = &losses[30..];
            let (x, xx) = (45.0, 285.0);
            let y: f64 = last.iter().sum();
            let xy: f64 = last.iter().enumerate().map(|(at, y)| at as f64 * y).sum();
            let slope = (10.0 * xy - x * y) / (10.0 * xx - x * x);
            assert!((trend.change - 10.0 * slope).abs() < 1e-12);
            trend.is_falling()
        });
        assert_eq!(falls.count(), 0);
    }
}
