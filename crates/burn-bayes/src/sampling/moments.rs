//! Means and variances of the places that a chain visits.

use serde::{Deserialize, Serialize};

/// Weighted moments of places.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Moments {
    weight: f64,
    means: Vec<f64>,
    squares: Vec<f64>,
}

impl Moments {
    pub(super) fn new(len: usize) -> Self {
        Self {
            weight: 0.0,
            means: vec![0.0; len],
            squares: vec![0.0; len],
        }
    }

    pub(super) fn add(&mut self, place: &[f64], weight: f64) {
        self.weight += weight;
        let share = weight / self.weight;
        for ((mean, square), z) in self.means.iter_mut().zip(&mut self.squares).zip(place) {
            let distance = z - *mean;
            *mean += share * distance;
            *square += weight * distance * (z - *mean);
        }
    }

    /// The sum of all weights.
    pub(super) fn weight(&self) -> f64 {
        self.weight
    }

    pub(super) fn variances(&self) -> impl Iterator<Item = f64> {
        self.squares.iter().map(|square| square / self.weight)
    }
}
