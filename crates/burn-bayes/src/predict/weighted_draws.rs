//! Draws of a posterior in proportion to given weights.
//!
//! With the cumulative weights C_s, draw i of a prediction is draw s of the posterior where C_{s−1} ≤ u_i < C_s. Any first n
//! of the u_i are spread [evenly](evenly), as those of systematic resampling, so that a prediction is an average with equal
//! weights; unlike those, they do not depend on n, so that a longer prediction extends a shorter one. As many draws as
//! there are weights contain each of equal weights once.

use crate::error::{Error, Result};
use crate::noise::{Noise, evenly};

/// Which draw of a posterior is which draw of a prediction.
#[derive(Clone, Debug)]
pub(crate) struct WeightedDraws {
    noise: Noise,
    /// C_s; the last is 1.
    cumulative: Vec<f64>,
    /// The number of weights above zero.
    used: usize,
}

impl WeightedDraws {
    /// Draw s is that with `noise.row(s)`, and has the weight number s.
    pub(crate) fn new(noise: Noise, weights: &[f64]) -> Result<Self> {
        let problem = |problem: String| Err(Error::config("weights", problem));
        let unusable = |weight: &f64| !(weight.is_finite() && *weight >= 0.0);
        if let Some(draw) = weights.iter().position(unusable) {
            let weight = weights[draw];
            return problem(format!(
                "is {weight} for draw {draw}; it must be finite and not below zero"
            ));
        }
        // As the cumulative weights below, so that the last of them is 1.
        let total = weights.iter().fold(0.0, |sum, weight| sum + weight);
        if !(total.is_finite() && total > 0.0) {
            return problem(format!(
                "have the sum {total}; it must be finite and above zero"
            ));
        }
        let cumulative = weights.iter().scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum / total)
        });
        Ok(Self {
            noise,
            cumulative: cumulative.collect(),
            used: weights.iter().filter(|weight| **weight > 0.0).count(),
        })
    }

    /// The noise of draw `index` of a prediction.
    pub(crate) fn noise(&self, index: u64) -> Noise {
        let position = evenly(index, self.used);
        let draw = self.cumulative.partition_point(|&sum| sum <= position);
        self.noise.row(draw as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_come_in_proportion_to_their_weights() {
        let weights = [0.0, 3.0, 0.5, 0.0, 1.5, 0.0];
        let noise = Noise::new(4);
        let draws = WeightedDraws::new(noise, &weights).unwrap();
        for count in [1_u64, 10, 100, 1000, 9999] {
            for (draw, weight) in weights.iter().enumerate() {
                let of_draw = |&index: &u64| draws.noise(index) == noise.row(draw as u64);
                let found = (0..count).filter(of_draw).count();
                let expected = count as f64 * weight / 5.0;
                // The discrepancy of the sequence is at most of the order of ln n.
                let allowed = 1.0 + (count as f64).ln();
                assert!(
                    (found as f64 - expected).abs() <= allowed,
                    "{count}: {found} {expected}"
                );
                assert!(*weight > 0.0 || found == 0);
            }
        }
    }

    #[test]
    fn as_many_draws_as_equal_weights_contain_each_of_them() {
        let weights = [0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0];
        let noise = Noise::new(4);
        let draws = WeightedDraws::new(noise, &weights).unwrap();
        for round in 0..20 {
            let found: Vec<Noise> = (5 * round..)
                .take(5)
                .map(|index| draws.noise(index))
                .collect();
            for (draw, weight) in (0..).zip(weights) {
                let count = found
                    .iter()
                    .filter(|found| **found == noise.row(draw))
                    .count();
                assert_eq!(count as f64, weight, "round {round}, draw {draw}");
            }
        }
    }

    #[test]
    fn weights_must_be_weights() {
        let message = |weights: &[f64]| {
            let error = WeightedDraws::new(Noise::new(0), weights).unwrap_err();
            assert!(error.is_config());
            error.to_string()
        };
        assert!(message(&[1.0, f64::NAN]).contains("draw 1"));
        assert!(message(&[-0.5, 1.0]).contains("draw 0"));
        assert!(message(&[]).contains("sum 0"));
        assert!(message(&[0.0, 0.0]).contains("sum 0"));
    }
}
