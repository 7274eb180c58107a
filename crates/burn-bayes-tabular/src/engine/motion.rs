//! How far the mean of a posterior still moved at the end of its training.

use burn::tensor::Tensor;
use burn_bayes::FactorPosterior;
use serde::Serialize;

use crate::error::Result;
use crate::text::decimals;

/// A fluctuation above this is large: one posterior standard deviation.
const LARGE_FLUCTUATION: f64 = 1.0;
/// A drift above this is large. If the mean is an average of iterates, those of the last quarter and those before it
/// then differ as much as chains with R̂ = √(1 + 2 drift²) = 1.1.
const LARGE_DRIFT: f64 = 0.3;

/// Distances of means in posterior standard deviations, as root mean squares over weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Motion {
    /// From the last iterate to the average of iterates that is the posterior's mean; null without an average.
    pub fluctuation: Option<f64>,
    /// From the posterior's mean before the last quarter of the epochs to that after it; null without a posterior then,
    /// and for the best epoch of a training that is stopped early.
    pub drift: Option<f64>,
}

impl Motion {
    /// A sentence for each distance that is large, with its cure.
    pub(super) fn sentences(self) -> Vec<String> {
        let fluctuation = self.fluctuation.filter(|&value| value > LARGE_FLUCTUATION);
        let fluctuation = fluctuation.map(|value| {
            format!(
                "The last iterate of the mean is {} posterior standard deviations from the average: the steps \
                 are large, and a smaller `learning_rate` may fit better.",
                decimals(value, 1)
            )
        });
        let drift = self.drift.filter(|&value| value > LARGE_DRIFT);
        let drift = drift.map(|value| {
            format!(
                "The mean moved by {} posterior standard deviations in the last quarter of the epochs; more \
                 `epochs` may fit better.",
                decimals(value, 1)
            )
        });
        fluctuation.into_iter().chain(drift).collect()
    }
}

/// The epoch (from 1) after which the last quarter of the epochs begins.
pub(super) fn last_quarter(epochs: usize) -> usize {
    (3 * epochs).div_ceil(4)
}

/// The mean of a posterior on the host.
pub(super) fn mean(posterior: &FactorPosterior) -> Vec<f32> {
    posterior.mean().into_data().iter().collect()
}

/// The distance from an earlier mean to that of the posterior.
pub(super) fn drift(earlier: &[f32], posterior: &FactorPosterior) -> Result<f64> {
    let earlier = Tensor::from_floats(earlier, &posterior.device());
    Ok(posterior.standardized_distance(&earlier)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_quarter_is_never_longer_than_a_quarter() {
        for epochs in 1..50 {
            assert!(4 * (epochs - last_quarter(epochs)) <= epochs);
            assert!(4 * (epochs + 1 - last_quarter(epochs)) > epochs);
        }
    }

    #[test]
    fn only_large_distances_are_mentioned() {
        let sentences = |fluctuation, drift| {
            let motion = Motion {
                fluctuation: Some(fluctuation),
                drift: Some(drift),
            };
            motion.sentences()
        };
        assert!(sentences(0.9, 0.2).is_empty() && Motion::default().sentences().is_empty());
        assert!(sentences(1.2, 0.2)[0].contains("1.2") && sentences(0.1, 0.4)[0].contains("0.4"));
        assert_eq!(sentences(2.0, 2.0).len(), 2);
    }
}
