//! The way of a chain to a mode, by Adam on the log density.

use serde::{Deserialize, Serialize};

use super::density::LogDensity;
use crate::error::{Error, Result};
use crate::noise::Noise;

/// A place on the way, and Adam's averages of the gradient and of its square.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Climb {
    place: Vec<f64>,
    gradients: Vec<f64>,
    squares: Vec<f64>,
    steps: i32,
}

const DECAY: f64 = 0.9;
const SQUARE_DECAY: f64 = 0.999;
/// Keeps the division finite; gradients of a sum over all rows are much larger.
const SMALLEST: f64 = 1e-8;

impl Climb {
    pub(super) fn new(place: Vec<f64>) -> Self {
        let zeros = vec![0.0; place.len()];
        Self {
            gradients: zeros.clone(),
            squares: zeros,
            place,
            steps: 0,
        }
    }

    pub(super) fn place(&self) -> &Vec<f64> {
        &self.place
    }

    pub(super) fn into_place(self) -> Vec<f64> {
        self.place
    }

    /// A step for each part of the data, in a random order, with this learning rate.
    pub(super) fn pass(
        &mut self,
        density: &mut impl LogDensity,
        rate: f64,
        noise: Noise,
    ) -> Result<()> {
        let parts = noise.shuffled((0..density.parts()).collect());
        let mut gradient = vec![0.0; self.place.len()];
        for part in parts {
            let log_density = density.estimate(part, &self.place, &mut gradient)?;
            if !(log_density.is_finite() && gradient.iter().all(|slope| slope.is_finite())) {
                return Err(Error::numerical(format!(
                    "step {} of a chain's warm start: the density of the posterior or its gradient is not finite; lower \
                     `warm_up_rate`, or standardise inputs and targets",
                    self.steps + 1
                )));
            }
            self.step(&gradient, rate);
        }
        Ok(())
    }

    fn step(&mut self, gradient: &[f64], rate: f64) {
        self.steps += 1;
        let corrections = [DECAY, SQUARE_DECAY].map(|decay| 1.0 - decay.powi(self.steps));
        let averages = self.gradients.iter_mut().zip(&mut self.squares);
        for ((z, slope), (average, square)) in self.place.iter_mut().zip(gradient).zip(averages) {
            *average += (1.0 - DECAY) * (slope - *average);
            *square += (1.0 - SQUARE_DECAY) * (slope * slope - *square);
            let step = (*average / corrections[0]) / ((*square / corrections[1]).sqrt() + SMALLEST);
            *z += rate * step;
        }
    }
}
